"""The search for jobs in all queues: what is found, what was read, and what is said about the rest."""

from __future__ import annotations

import pytest
from redis import Redis

from rqtui.client import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.engine.filters import parse_filter
from rqtui.reports import sampling, search
from rqtui.reports.search import SearchResult
from rqtui.systems import registry


@pytest.fixture
def engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system("native")])


def find(engine: Engine, expression: str) -> SearchResult:
    refs = [ref for chunk in engine.discover() for ref in chunk]
    results = [result for result in search.yield_search_results(engine, refs, parse_filter(expression)) if result]
    return results[-1]


def test_a_value_is_found_in_the_places_of_all_queues_that_hold_it(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail, Queue("shop", client) as shop, Queue("idle", client) as idle:
        mail.put({"customer": {"id": 4711}}, id="a")
        mail.put({"customer": {"id": 4711}}, id="later", delay=3600)
        mail.put({"customer": {"id": 304711}}, id="other")
        shop.put_many([{"body": {"customer": {"id": 4711}, "n": n}} for n in range(search.MAX_LISTED + 2)])
        idle.put({"order": 4711}, id="order")
    found = find(engine, ".customer.id:4711")
    assert [(each.ref.queue, each.place, each.matched, each.looked) for each in found.places] == [
        ("shop", "ready", search.MAX_LISTED + 2, search.MAX_LISTED + 2),
        ("mail", "ready", 1, 2),
        ("mail", "scheduled", 1, 1),
    ]
    assert len(found.places[0].jobs) == search.MAX_LISTED and found.places[1].jobs[0].id == b"a"
    assert found.matched == search.MAX_LISTED + 4 and found.size.is_complete
    assert find(engine, "304711").matched == 1 and find(engine, "nothing").places == ()


def test_a_part_of_a_long_place_is_read_and_the_result_reports_it(
    client: Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_PER_PLACE", 100)
    monkeypatch.setattr(sampling, "JOBS_PER_PAGE", 40)
    with Queue("mail", client) as mail:
        mail.put_many([{"body": {"n": n}} for n in range(130)])
    found = find(engine, "n")
    assert (found.size.looked, found.size.of) == (100, 130) and not found.size.is_complete
    assert found.places[0].looked == 100 and found.places[0].count == 130


def test_bodies_that_are_too_long_to_be_searched_are_counted(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail:
        mail.put({"text": "x" * search.BODY_BYTES, "late": "needle"}, id="long")
        mail.put({"late": "needle"}, id="short")
    found = find(engine, "needle")
    assert [job.id for job in found.places[0].jobs] == [b"short"] and found.cut_bodies == 1


def test_a_place_that_cannot_be_read_is_named_and_the_others_are_searched(client: Redis, engine: Engine) -> None:
    with Queue("mail", client) as mail, Queue("shop", client) as shop:
        mail.put({"n": 4711})
        shop.put({"n": 4711})
        client.delete(shop.keys["ready"])
        client.set(shop.keys["ready"], "text")
    found = find(engine, ".n:4711")
    assert [each.ref.queue for each in found.places] == ["mail"] and "ready" in found.size.problems[0]
