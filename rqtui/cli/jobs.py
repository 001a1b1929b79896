"""`jobs`: the jobs of a place, page by page, or those that a filter finds. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE, note_if_unheard, note_if_unknown
from rqtui.cli.session import DONE, REFUSED, Session
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
        typer.Argument(metavar="[PLACE]", help="A place, or all of a state: ready, dead … Else each."),
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
    found, tells = accepts if accepts.terms else None, engine.layouts[ref.layout].tells
    if place is not None:
        named = [each.name for each in engine.layouts[ref.layout].places_of(place)]
        page, following = _pages(engine, ref, named, *_beginning(cursor, named), limit, found)
        if session.as_json:
            output.write_json({**_document(page), "place": place if len(named) > 1 else page.place, "next": following})
        else:
            _write_jobs(page, engine.now_ms(), tells, following, in_places=named)
        return DONE
    if cursor is not None:
        raise UsageError("--cursor goes on in one place; name it: rqtui jobs QUEUE PLACE --cursor C.")
    held, code = _held(engine, ref)
    pages = []
    for each in held:
        try:
            page = _page(engine, ref, each, limit, 0, found)
        except WrongType as error:
            output.say(str(error))
            code = REFUSED
        else:
            pages += [page] if page.jobs or not code else []
    if session.as_json:
        places = [_document(page) for page in pages]
        output.write_json({**documents.queue_fields(ref.queue), "layout": ref.layout, "places": places})
        return code
    for page in pages:
        output.write_lines([f"{page.place}:"])
        _write_jobs(page, engine.now_ms(), tells, _cursor(page.next), engine.words(ref))
    if not pages and not code:
        output.say(f"nothing stands in {ref.queue}.")
    return code


def _held(engine: Engine, ref: Ref) -> tuple[list[str], int]:
    """(The places that hold something, in their order, DONE); all of them where they cannot be counted, REFUSED."""
    from rqtui.model import Focus

    [counted] = engine.snapshot(Focus(queues=(ref,))).queues
    layout = engine.layouts[ref.layout]
    if counted.error:
        return [place.name for place in layout.places], REFUSED
    note_if_unknown(counted)
    note_if_unheard(engine, (ref,))
    known = [count for count in counted.counts if count.is_known]
    held = {count.place for count in known if count.count or not count.exact}  # an estimate may miss some
    wrong = {key for found in counted.findings if found.kind == "wrong-type" for key in found.keys}
    keys = layout.keys(ref.queue)
    held |= {place.name for place in layout.places if keys.get(place.name) in wrong}  # their pages say what is wrong
    return [place.name for place in layout.places if place.name in held], DONE


def _document(page: Page) -> dict[str, Any]:
    return {
        **documents.queue_fields(page.queue),
        "layout": page.layout,
        "place": page.place,
        "total": page.in_all if page.is_known else None,
        "exact": page.exact,
        **documents.heard_fields(page.heard),
        "next": _cursor(page.next),
        "jobs": [documents.job(job) for job in page.jobs],
    }


def _beginning(cursor: str | None, places: Sequence[str]) -> tuple[int, int]:
    """Where to go on: the number of a place among these and the offset there, from `17`, of several `failed:17`."""
    if cursor is None:
        return 0, 0
    place, _colon, offset = cursor.rpartition(":")
    known = place in places if len(places) > 1 else not place
    if not known or not (offset.isascii() and offset.isdigit() and len(offset) <= 15):  # below 2^53
        raise UsageError(f'"{cursor}" is no cursor; give what "next" said, or leave it away.')
    return places.index(place) if place else 0, int(offset)


def _cursor(offset: int | None, place: str = "") -> str | None:
    if offset is None:
        return None
    return f"{place}:{offset}" if place else str(offset)


def _pages(
    engine: Engine,
    ref: Ref,
    places: Sequence[str],
    at: int,
    offset: int,
    limit: int,
    accepts: Callable[[Job], bool] | None,
) -> tuple[Page, str | None]:
    """(up to `limit` jobs of these places as one page, from `offset` of the place number `at` on; the next cursor)."""
    if len(places) == 1:
        page = _page(engine, ref, places[0], limit, offset, accepts)
        return page, _cursor(page.next)
    pages: list[Page] = []
    jobs: list[Job] = []
    following: str | None = None
    for number, place in enumerate(places):
        if number < at or following is not None:
            pages.append(_sized(engine, ref, place))
        elif len(jobs) == limit:
            pages.append(_sized(engine, ref, place))
            following = _cursor(0, place) if pages[-1].total else None
        else:
            page = _page(engine, ref, place, limit - len(jobs), offset if number == at else 0, accepts)
            pages.append(page)
            jobs += page.jobs
            following = _cursor(page.next, place)
    counted = [page.in_all for page in pages]
    is_exact = all(page.exact for page in pages)
    heard = pages[0].heard if all(page.heard for page in pages) else None
    return replace(pages[0], jobs=tuple(jobs), total=sum(counted), of=None, exact=is_exact, heard=heard), following


def _read(engine: Engine, ref: Ref, place: str, offset: int, size: int) -> Page:
    """A page. Raises WrongType where its key holds something else; any other error was raised by the engine."""
    page = engine.page(ref, place, offset, size, documents.BODY_BYTES)
    if page.error:
        raise WrongType(page.error)
    return page


def _sized(engine: Engine, ref: Ref, place: str) -> Page:
    """A page for how many there are."""
    page = _read(engine, ref, place, 0, 1)
    return replace(page, exact=False) if page.of is not None and engine.layouts[ref.layout].is_shared(place) else page


def _page(engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None) -> Page:
    """Up to `limit` jobs from `offset` on that `accepts` lets through; `next` is the first that was not looked at."""
    if engine.layouts[ref.layout].is_shared(place):
        return _page_among_others(engine, ref, place, limit, offset, accepts)
    found: list[Job] = []
    looked, budget = offset, offset + (SCAN if accepts else limit)
    with output.progress("looking", None) as bar:
        while True:
            size = min(PAGE, budget - looked) if accepts else min(PAGE, limit - len(found))
            page = _read(engine, ref, place, looked, size)
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


def _page_among_others(
    engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None
) -> Page:
    """The same of a shared place, where `offset` and `next` are ranks among the jobs of all queues.

    `total` is how many the queue has there, about so many where not all of them were met: then it is not `exact`.
    """
    first = _read(engine, ref, place, 0, 1)
    found: list[Job] = []
    met, following = 0, offset
    with output.progress("looking", None) as bar:
        while True:
            page = engine.step(ref, place, following, min(PAGE, limit - len(found)), documents.BODY_BYTES)
            if page.error:
                raise WrongType(page.error)
            found += [job for job in page.jobs if accepts is None or accepts(job)]
            met, bar.total = met + len(page.jobs), page.total
            bar.step(page.passed)
            is_over = page.next is None
            following = page.next or 0
            if len(found) >= limit or is_over or following - offset >= SCAN:
                break
    is_whole = is_over and not offset
    total = met if is_whole else first.total if first.of is None else max(first.of, met)
    is_exact = first.exact and (is_whole or first.of is None)
    following_page = None if is_over else following
    return replace(page, jobs=tuple(found), offset=offset, next=following_page, total=total, of=None, exact=is_exact)


def _write_jobs(
    page: Page,
    now_ms: int,
    tells: frozenset[str],
    following: str | None,
    queue: str = "",
    in_places: Sequence[str] = (),
) -> None:
    """The table of a page; `queue` are the words that mean its queue, where the place was not named.

    How often jobs were tried stands there only where the system `tells` it; jobs of several places tell theirs.
    """
    from rqtui.text.body import body_view, mask_text
    from rqtui.text.formats import ABOUT, age, job_id, size
    from rqtui.text.hearing import unheard
    from rqtui.text.tracebacks import line_of

    several = len(in_places) > 1
    rows = []
    has_tries = "tried" in tells or any(job.attempts or job.max_attempts for job in page.jobs)
    for job in page.jobs:
        preview = "" if job.body is None else " ".join(body_view(job.body[:200]).text.split())
        tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
        about = job.problem or mask_text(line_of(job.error) or job.call) or preview[:60] or size(job.body_bytes)
        where, tries = [job.place] if several else [], [tried] if has_tries else []
        rows.append([job_id(job.id, 48), *where, job.name, _moment(job, now_ms, age), *tries, job.worker, about])
    if rows:
        about = "error or call" if any(job.call for job in page.jobs) else "error or body"
        when = _moment_title(page.jobs)
        more = ["place"] if several else []
        titles = ("id", *more, "job", when, *(["tried"] if has_tries else []), "worker", about)
        output.write_table(titles, rows, right=(when, "tried"))
    how = f": rqtui jobs {queue} {page.place}" if queue else ""
    further = f", go on with{how} --cursor {following}" if following is not None else ""
    if not page.is_known:
        output.say(unheard(page.layout, in_places or [page.place]))
        return
    sampled = "" if page.exact else ABOUT
    output.note(f"{len(page.jobs)} of {sampled}{page.total} in {', '.join(in_places) or page.place}{further}")


_AHEAD: Mapping[str, str] = {"scheduled": "due in", "reserved": "lease"}  # by state, of jobs that have such an instant
_AGO: Mapping[str, str] = {"scheduled": "waits"}


def _moment_title(jobs: Sequence[Job]) -> str:
    """What `_moment` tells of these jobs: of those that wait for other jobs, and are due at no time, for how long."""
    is_ahead = any(job.due_ms is not None or job.deadline_ms is not None for job in jobs)
    return (_AHEAD if is_ahead else _AGO).get(jobs[0].state, "age")


def _moment(job: Job, now_ms: int, age: Callable[[float | None], str]) -> str:
    """How long until it is due or its lease ends; else how long it has been there."""
    ahead = job.due_ms if job.due_ms is not None else job.deadline_ms
    if ahead is not None:
        return age(ahead - now_ms)
    return age(None if job.since_ms is None else now_ms - job.since_ms)
