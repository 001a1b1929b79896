"""`jobs`: the jobs of a place, page by page, or those that a filter finds. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE, note_if_unknown
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Job, Page, Ref

PAGE = 500  # jobs per round trip
SCAN = 100_000  # jobs that a filter looks through in one call; `next` tells where to go on


def jobs(
    session: Session,
    queue: QUEUE,
    place: Annotated[
        str | None,
        typer.Argument(metavar="[PLACE]", help="scheduled, ready, reserved, done, dead … Else each of them."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many at most.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="C", help="Where to go on: `next` of the last page.")
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="text /re/ !term id:x job:x call:x err:x worker:x body:x .path:x, all must match.",
        ),
    ] = None,
) -> int:
    """The jobs of a place, in its order; without one, of every place that holds something.

    Example: rqtui jobs mail dead --filter 'err:timeout' --json
    """
    from rqtui.engine import filters

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    accepts = filters.parse(expression or "")
    engine = session.engine()
    ref = engine.seek(queue)
    found = accepts if accepts.terms else None
    if place is not None:
        page = _page(engine, ref, place, limit, _offset(cursor), found)
        if session.as_json:
            output.write_json(_document(page))
        else:
            _write_jobs(page, engine.now_ms(), engine.layouts[ref.layout].tells)
        return DONE
    if cursor is not None:
        raise UsageError("--cursor goes on in one place; name it: rqtui jobs QUEUE PLACE --cursor C.")
    pages = [_page(engine, ref, each, limit, 0, found) for each in _held(engine, ref)]
    if session.as_json:
        places = [_document(page) for page in pages]
        output.write_json({**documents.queue_fields(ref.queue), "layout": ref.layout, "places": places})
        return DONE
    for page in pages:
        output.write_lines([f"{page.place}:"])
        _write_jobs(page, engine.now_ms(), engine.layouts[ref.layout].tells, engine.words(ref))
    if not pages:
        output.say(f"nothing stands in {ref.queue}.")
    return DONE


def _held(engine: Engine, ref: Ref) -> list[str]:
    """The places that hold something, in the layout's order. Raises WrongType where they cannot be counted."""
    from rqtui.model import Focus

    [counted] = engine.snapshot(Focus(queues=(ref,))).queues
    if counted.error:
        raise WrongType(counted.error)
    note_if_unknown(counted)
    return [place.name for place in engine.layouts[ref.layout].places if counted.count(place.name)]


def _document(page: Page) -> dict[str, Any]:
    return {
        **documents.queue_fields(page.queue),
        "layout": page.layout,
        "place": page.place,
        "total": page.total if page.of is None else page.of,
        "exact": page.exact,
        "next": None if page.next is None else str(page.next),
        "jobs": [documents.job(job) for job in page.jobs],
    }


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):  # below 2^53
        raise UsageError(f'"{cursor}" is no cursor; give what "next" said, or leave it away.')
    return int(cursor)


def _page(engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None) -> Page:
    """Up to `limit` jobs from `offset` on that `accepts` lets through; `next` is the first that was not looked at."""
    found: list[Job] = []
    looked, budget = offset, offset + (SCAN if accepts else limit)
    with output.progress("looking", None) as bar:
        while True:
            size = min(PAGE, budget - looked) if accepts else min(PAGE, limit - len(found))
            page = engine.page(ref, place, looked, size, documents.BODY_BYTES)
            if page.error:
                raise WrongType(page.error)  # any other error was raised by the engine
            bar.total = page.total
            for job in page.jobs:
                looked += 1
                if accepts is None or accepts(job):
                    found.append(job)
                if len(found) >= limit:
                    break
            bar.step(len(page.jobs))
            if len(found) >= limit or page.next is None or looked >= budget:
                following = looked if looked < page.total and page.jobs else None
                return replace(page, jobs=tuple(found), offset=offset, next=following)


def _write_jobs(page: Page, now_ms: int, tells: frozenset[str], queue: str = "") -> None:
    """The table of a page: how often jobs were tried only where the system `tells` it; `queue` are the words that mean
    its queue, where the place was not named."""
    from rqtui.text.body import body_view, mask_text
    from rqtui.text.formats import age, job_id, size
    from rqtui.text.tracebacks import last_line

    rows = []
    has_tries = "tried" in tells or any(job.attempts or job.max_attempts for job in page.jobs)
    for job in page.jobs:
        preview = "" if job.body is None else " ".join(body_view(job.body[:200]).text.split())
        tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
        about = job.problem or mask_text(last_line(job.error) or job.call) or preview[:60] or size(job.body_bytes)
        tries = [tried] if has_tries else []
        rows.append([job_id(job.id, 48), job.name, _moment(job, now_ms, age), *tries, job.worker, about])
    if rows:
        about = "error or call" if any(job.call for job in page.jobs) else "error or body"
        when = _MOMENTS.get(page.jobs[0].state, "age")
        titles = ("id", "job", when, *(["tried"] if has_tries else []), "worker", about)
        output.write_table(titles, rows, right=(when, "tried"))
    how = f": rqtui jobs {queue} {page.place}" if queue else ""
    following = f", go on with{how} --cursor {page.next}" if page.next is not None else ""
    output.note(f"{len(page.jobs)} of {page.total} in {page.place}{following}")


_MOMENTS: Mapping[str, str] = {"scheduled": "due in", "reserved": "lease"}  # by state


def _moment(job: Job, now_ms: int, age: Callable[[float | None], str]) -> str:
    """How long until it is due or its lease ends; else how long it has been there."""
    ahead = job.due_ms if job.due_ms is not None else job.deadline_ms
    if ahead is not None:
        return age(ahead - now_ms)
    return age(None if job.since_ms is None else now_ms - job.since_ms)
