"""Check that lists of ended jobs begin with the newest job, while further jobs end and while the place is walked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from redis import Redis
from shell import shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Focus, Page, PageSelection, Ref
from rqtui.systems.registry import create_systems
from rqtui.tui.widgets.place_scan import create_scan


class EndedPlace(NamedTuple):
    """A place of ended jobs, its key, and the function that builds the member of a job."""

    ref: Ref
    place: str
    key: str
    build_member: Callable[[int], str] = str

    def plant(self, client: Redis, first: int, last: int) -> None:
        """Write the jobs `first` to `last` to the place, the later the newer."""
        client.zadd(self.key, {self.build_member(number): 1_000_000 + number for number in range(first, last + 1)})


def _build_sidekiq_job(number: int) -> str:
    """Build a dead job. Every third one belongs to another queue of the same place."""
    queue = "other" if number % 3 == 0 else "mail"
    return json.dumps({"class": "Job", "args": [], "queue": queue, "jid": f"{number:024d}", "failed_at": 1.25e9})


SIDEKIQ = EndedPlace(Ref("sidekiq", "mail"), "dead", "dead", _build_sidekiq_job)
PLACES = (
    EndedPlace(Ref("native", "mail"), "dead", "rqtui:{mail}:dead"),
    EndedPlace(Ref("native", "mail"), "done", "rqtui:{mail}:done"),
    EndedPlace(Ref("bullmq", "mail"), "completed", "bull:mail:completed"),
    EndedPlace(Ref("bullmq", "mail"), "failed", "bull:mail:failed"),
    EndedPlace(Ref("rq", "mail"), "finished", "rq:finished:mail"),
    EndedPlace(Ref("rq", "mail"), "failed", "rq:failed:mail"),
    EndedPlace(Ref("rq", "mail"), "canceled", "rq:canceled:mail"),
    SIDEKIQ,
)
every_place = pytest.mark.parametrize("ended", PLACES, ids=lambda ended: f"{ended.ref.system}-{ended.place}")


def _build_engine(client: Redis, ended: EndedPlace) -> Engine:
    client.hset("bull:mail:meta", "version", "bullmq:6.7.0")
    client.sadd("rq:queues", "rq:queue:mail")
    client.sadd("queues", "mail")
    client.hset("rqtui:{mail}:meta", "max_attempts", "5")
    client.sadd("rqtui:queues", "mail")
    return build_engine(client, create_systems([ended.ref.system]))


def _list_numbers(page: Page) -> list[int]:
    return [int(job.id) for job in page.jobs]


def _expect(ended: EndedPlace, first: int, last: int) -> list[int]:
    """Return the numbers from `first` down to `last` of the jobs in the queue of the place."""
    return [number for number in range(first, last - 1, -1) if ended is not SIDEKIQ or number % 3]


@every_place
def test_a_page_from_the_end_lists_the_newest_job_first(client: Redis, ended: EndedPlace) -> None:
    engine = _build_engine(client, ended)
    ended.plant(client, 1, 90)
    newest = _expect(ended, 90, 1)

    def take_page(offset: int, limit: int) -> Page:
        selection = PageSelection(ended.ref, ended.place, offset, limit, 0, is_newest_first=True)
        (page,) = engine.take_snapshot(Focus((ended.ref,), (selection,))).pages
        assert not page.error
        return page

    page = take_page(0, 30)
    assert (_list_numbers(page), page.offset, page.next) == (newest[:30], 0, 30)
    page = take_page(30, 30)
    assert (_list_numbers(page), page.offset) == (newest[30:60], 30)
    page = take_page(0, 500)
    assert (_list_numbers(page), page.offset, page.next) == (newest, 0, None)
    page = take_page(len(newest) - 5, 30)  # reaches beyond the oldest job
    assert _list_numbers(page) == newest[page.offset : page.offset + 30] and page.next is None
    ended.plant(client, 91, 100)
    page = take_page(0, 30)
    assert (_list_numbers(page), page.total) == (_expect(ended, 100, 1)[:30], len(_expect(ended, 100, 1)))


@every_place
def test_a_listing_continues_below_its_last_job_while_further_jobs_end(
    client: Redis, url: str, ended: EndedPlace
) -> None:
    _build_engine(client, ended)
    ended.plant(client, 1, 60)
    listed: list[int] = []
    cursor: list[str] = []
    for number in range(61, 200):
        ran = shell(url, "jobs", str(ended.ref), ended.place, "--json", "--limit", "7", *cursor)
        document = json.loads(ran.out)
        listed += [int(job["id"]) for job in document["jobs"]]
        if document["next"] is None:
            break
        cursor = ["--cursor", document["next"]]
        ended.plant(client, number, number)
    assert listed == _expect(ended, 60, 1)


@every_place
def test_a_filtered_listing_and_a_scan_of_the_screen_begin_with_the_newest_job(
    client: Redis, url: str, ended: EndedPlace
) -> None:
    engine = _build_engine(client, ended)
    ended.plant(client, 1, 1300)
    ran = shell(url, "jobs", str(ended.ref), ended.place, "--json", "--limit", "5", "--filter", "id:/00$/")
    assert [int(job["id"]) for job in json.loads(ran.out)["jobs"]] == [
        number for number in _expect(ended, 1300, 1) if number % 100 == 0
    ][:5]
    scan = create_scan(ended.ref, ended.place, lambda job: int(job.id) % 100 == 0, 0, 0)
    steps = scan(engine)
    found = _collect_scan(steps, lambda: ended.plant(client, 1301, 1305))
    assert found == [number for number in _expect(ended, 1300, 1) if number % 100 == 0]


def _collect_scan(steps: Iterator[object], do_after_first: Callable[[], None]) -> list[int]:
    found: list[int] = []
    for number, step in enumerate(steps):
        found += [int(job.id) for _position, job in step.jobs]  # type: ignore[attr-defined]
        if not number:
            do_after_first()
    return found
