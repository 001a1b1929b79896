"""Implement `jobs`: list the jobs of a place, page by page or filtered. The command changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE, report_places_without_events, report_unknown_queue
from rqtui.cli.past import AT, build_recorded_fields, read_recorded_pages
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.errors import UsageError, WrongType

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Count, Job, Page, Queue, Ref
    from rqtui.recording.records import RecordedPage
    from rqtui.system_base.system import Request

PAGE_JOBS = 500  # jobs per round trip
MAX_CALL = 200  # characters of a function call in a row
MAX_SCANNED_JOBS = 100_000  # jobs that a filter looks through in one call; `next` is where the next call continues


def jobs(
    session: Session,
    queue: QUEUE,
    place: Annotated[
        str | None,
        typer.Argument(metavar="[PLACE]", help="A place, or a state for all its places: ready, dead …"),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most N jobs.")] = 50,
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", metavar="C", help="Continue after a page: the value that it printed as `next`."),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="text /re/ !term id:x job:x call:x err:x worker:x body:x; .path:x is the whole value in the body, "
            ".path:~x a part of it; age>10m attempts>=3 .path<100 compare. All must match.",
        ),
    ] = None,
    at: AT = None,
) -> int:
    """List the jobs of a place, in its order; done and dead jobs newest first. Without a place, list every place.

    Example: rqtui jobs mail dead --filter 'err:timeout' --json
    """
    from rqtui.engine import filters

    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    accepts = filters.parse_filter(expression or "")  # A wrong filter is refused before the connection is opened.
    if at is not None:
        if cursor is not None:
            raise UsageError("--cursor continues in the present, and --at shows the past; name one of them.")
        return _write_recorded_jobs(session, at, queue, place, limit, accepts)
    engine = session.create_engine()
    ref = engine.resolve_or_discover(queue)
    accepts = filters.parse_filter(expression or "", [engine.systems[ref.system]])
    job_filter, known_fields = accepts if accepts.terms else None, engine.systems[ref.system].known_fields
    if place is not None:
        matching_places = [place_row.name for place_row in engine.systems[ref.system].find_places(place)]
        page, following = _read_page_of_places(
            engine, ref, matching_places, *_parse_cursor(cursor, matching_places), limit, job_filter
        )
        if session.as_json:
            output.write_json(
                {
                    **_build_page_document(page),
                    "place": place if len(matching_places) > 1 else page.place,
                    "next": following,
                }
            )
        else:
            _write_job_table(page, engine.fetch_server_time_ms(), known_fields, following, in_places=matching_places)
        return DONE
    if cursor is not None:
        raise UsageError("--cursor continues in one place; name it: rqtui jobs QUEUE PLACE --cursor C.")
    filled_places, code = _find_filled_places(engine, ref)
    if job_filter is None:
        engine.read_ahead(
            [
                _build_scan_request(engine, ref, name, 0, min(PAGE_JOBS, limit))
                for name in filled_places
                if not engine.systems[ref.system].is_shared(name)
            ]
        )
    pages = []
    for place_row in filled_places:
        try:
            page = _read_filtered_page(engine, ref, place_row, limit, 0, job_filter)
        except WrongType as error:
            output.print_message(str(error))
            code = REFUSED
        else:
            pages += [page] if page.jobs or not code else []
    if session.as_json:
        places = [_build_page_document(page) for page in pages]
        output.write_json({**documents.build_queue_fields(ref.queue), "layout": ref.system, "places": places})
        return code
    if pages:
        now_ms = engine.fetch_server_time_ms()
        for page in pages:
            output.write_lines([f"{page.place}:"])
            _write_job_table(page, now_ms, known_fields, _format_cursor(page.next), engine.format_argument(ref))
    elif not code:
        output.print_message(f"no job is in {ref.queue}.")
    return code


def _write_recorded_jobs(
    session: Session, at: str, queue: str, place: str | None, limit: int, accepts: Callable[[Job], bool]
) -> int:
    """Print the jobs that were recorded of a queue at a past moment, and return the exit code.

    Raises RecordingError if nothing was recorded then, or if the jobs cannot be read.
    """
    moment, recorded_pages = read_recorded_pages(session, at, queue, place)
    [recorded_queue] = moment.snapshot.queues
    documents_of_places = []
    for count, recorded in recorded_pages:
        jobs, job_documents = _select_recorded_jobs(recorded, count, limit, accepts)
        if session.as_json:
            documents_of_places.append(_build_recorded_place_document(recorded_queue, count, recorded, job_documents))
        elif count.count or not count.is_exact or recorded is not None:
            _write_recorded_place(recorded_queue, count, recorded, jobs)
    if session.as_json:
        is_one_place = place is not None and len(recorded_pages) == 1
        fields = {**documents.build_queue_fields(recorded_queue.name), "layout": recorded_queue.system}
        document = documents_of_places[0] if is_one_place else {**fields, "places": documents_of_places}
        output.write_json({**document, **build_recorded_fields(moment)})
    return DONE


def _select_recorded_jobs(
    recorded: RecordedPage | None, count: Count, limit: int, accepts: Callable[[Job], bool]
) -> tuple[list[Job], list[dict[str, Any]] | None]:
    """Return the jobs of a recorded page that pass `accepts`, and their documents; None if the jobs are not known."""
    from rqtui.recording.job_pages import build_page, build_recorded_documents, is_known_empty

    if recorded is None:
        return [], [] if is_known_empty(count) else None
    page = build_page(recorded, count.state)
    pairs = zip(page.jobs, build_recorded_documents(recorded, page.jobs), strict=True)
    selected = [(job, document) for job, document in pairs if accepts(job)][:limit]
    return [job for job, _document in selected], [document for _job, document in selected]


def _build_recorded_place_document(
    queue: Queue, count: Count, recorded: RecordedPage | None, job_documents: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """Build the JSON document of the recorded jobs of a place; `jobs` is null if they were not recorded.

    `page_at_ms` is when the jobs were read, and `total` the number of jobs then; without a page that of the moment.
    """
    total = count.count if count.is_count_known else None
    return {
        **documents.build_queue_fields(queue.name),
        "layout": queue.system,
        "place": count.place,
        "total": total if recorded is None else recorded.total,
        "exact": count.is_exact if recorded is None else recorded.is_exact,
        "next": None,
        "jobs": job_documents,
        "page_at_ms": None if recorded is None else recorded.taken_ms,
    }


def _write_recorded_place(queue: Queue, count: Count, recorded: RecordedPage | None, jobs: Sequence[Job]) -> None:
    """Print the recorded jobs of a place as a table, and when they were read, or that they were not recorded."""
    from rqtui.recording.job_pages import NOT_RECORDED
    from rqtui.text.formats import ABOUT, format_date_and_time

    output.write_lines([f"{count.place}:"])
    if recorded is None:
        output.print_message(f"{count.place} of {queue.name}: {NOT_RECORDED}")
        return
    if jobs:
        has_attempts = any(job.attempts or job.max_attempts for job in jobs)
        columns = _build_table_columns(jobs, recorded.taken_ms, has_places=False, has_attempts=has_attempts)
        rows = list(zip(*columns.values(), strict=True))
        output.write_table(tuple(columns), rows, right=(_choose_time_title(jobs), "tried"))
    total = "unknown" if recorded.total is None else f"{'' if recorded.is_exact else ABOUT}{recorded.total}"
    output.print_note(f"{len(jobs)} of {total} in {count.place}, at {format_date_and_time(recorded.taken_ms)}")


def _find_filled_places(engine: Engine, ref: Ref) -> tuple[list[str], int]:
    """Return the non-empty places of a queue and exit code 0; all its places and 1 if they cannot be counted."""
    from rqtui.model import Focus

    [counted] = engine.take_snapshot(Focus(queues=(ref,))).queues
    system = engine.systems[ref.system]
    if counted.error:
        return [place.name for place in system.places], REFUSED
    report_unknown_queue(engine, counted)
    report_places_without_events(engine, (ref,))
    counts = [count for count in counted.counts if count.is_count_known]
    filled_places = {count.place for count in counts if count.count or not count.is_exact}  # an estimate may miss some
    wrong_keys = {key for finding in counted.findings if finding.kind == "wrong-type" for key in finding.keys}
    keys = system.keys(ref.queue)
    filled_places |= {
        place.name for place in system.places if keys.get(place.name) in wrong_keys
    }  # their pages report the error
    return [place.name for place in system.places if place.name in filled_places], DONE


def _build_page_document(page: Page) -> dict[str, Any]:
    """Build the JSON document of one page of jobs."""
    return {
        **documents.build_queue_fields(page.queue),
        "layout": page.system,
        "place": page.place,
        "total": page.job_count if page.is_list_known else None,
        "exact": page.is_exact,
        **documents.build_coverage_fields(page.coverage),
        "next": _format_cursor(page.next),
        "jobs": [documents.build_job_document(job) for job in page.jobs],
    }


def _parse_cursor(cursor: str | None, places: Sequence[str]) -> tuple[int, int]:
    """Parse `--cursor` into the index of a place in `places` and an offset in that place.

    A cursor is `17`, or `failed:17` when there are several places. Raises UsageError for any other text.
    """
    if cursor is None:
        return 0, 0
    place, _colon, offset = cursor.rpartition(":")
    is_valid = place in places if len(places) > 1 else not place
    if not is_valid or not (offset.isascii() and offset.isdigit() and len(offset) <= 15):  # below 2^53
        raise UsageError(f'"{cursor}" is no cursor; give what "next" said, or leave it away.')
    return places.index(place) if place else 0, int(offset)


def _format_cursor(offset: int | None, place: str = "") -> str | None:
    """Format where the next page begins as the text for `--cursor`; None if there is no next page."""
    if offset is None:
        return None
    return f"{place}:{offset}" if place else str(offset)


def _read_page_of_places(
    engine: Engine,
    ref: Ref,
    places: Sequence[str],
    at: int,
    offset: int,
    limit: int,
    accepts: Callable[[Job], bool] | None,
) -> tuple[Page, str | None]:
    """Read up to `limit` jobs of several places as one page, and return the page with the cursor of the next page.

    The page begins at `offset` of the place with index `at`.
    """
    if len(places) == 1:
        page = _read_filtered_page(engine, ref, places[0], limit, offset, accepts)
        return page, _format_cursor(page.next)
    pages: list[Page] = []
    jobs: list[Job] = []
    following: str | None = None
    for number, place in enumerate(places):
        if number < at or following is not None:
            pages.append(_read_place_totals(engine, ref, place))
        elif len(jobs) == limit:
            pages.append(_read_place_totals(engine, ref, place))
            following = _format_cursor(0, place) if pages[-1].total else None
        else:
            page = _read_filtered_page(engine, ref, place, limit - len(jobs), offset if number == at else 0, accepts)
            pages.append(page)
            jobs += page.jobs
            following = _format_cursor(page.next, place)
    counted = [page.job_count for page in pages]
    is_exact = all(page.is_exact for page in pages)
    coverage = pages[0].coverage if all(page.coverage for page in pages) else None
    return replace(
        pages[0], jobs=tuple(jobs), total=sum(counted), place_total=None, is_exact=is_exact, coverage=coverage
    ), following


def _read_unfiltered_page(engine: Engine, ref: Ref, place: str, offset: int, size: int) -> Page:
    """Read one page of jobs of a place. Raises WrongType if its key holds another type; other errors pass through."""
    page = engine.fetch_page(ref, place, offset, size, documents.BODY_BYTES)
    if page.error:
        raise WrongType(page.error)
    return page


def _build_scan_request(engine: Engine, ref: Ref, place: str, position: int, size: int) -> Request[Page]:
    """Build the request for the next scan step of a place, from `position` on; 0 is the first step."""
    system = engine.systems[ref.system]
    if system.place(place).is_newest_last:
        return system.backward_scan_request(ref.queue, place, position or None, size, documents.BODY_BYTES)
    return system.scan_request(ref.queue, place, position, size, documents.BODY_BYTES)


def _read_scan_page(engine: Engine, ref: Ref, place: str, position: int, size: int) -> Page:
    """Read the next page of a listing: from `position` on, or in a place of ended jobs the jobs before it.

    Position 0 is where the listing begins.
    """
    page = engine.send_request(_build_scan_request(engine, ref, place, position, size))
    if page.error:
        raise WrongType(page.error)
    return page


def _read_place_totals(engine: Engine, ref: Ref, place: str) -> Page:
    """Read a page of one job of a place, for the totals of the page: how many jobs the place holds."""
    page = _read_unfiltered_page(engine, ref, place, 0, 1)
    return (
        replace(page, is_exact=False)
        if page.place_total is not None and engine.systems[ref.system].is_shared(place)
        else page
    )


def _read_filtered_page(
    engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None
) -> Page:
    """Read up to `limit` jobs that pass `accepts`, from `offset` on; `next` is where the next page begins.

    A place of ended jobs is read backwards, the newest first: `offset` and `next` are then how many jobs are older than
    those that were read, so that jobs that end in the meantime do not move the next page.
    """
    system = engine.systems[ref.system]
    if system.is_shared(place):
        return _read_shared_page(engine, ref, place, limit, offset, accepts)
    is_backward = system.place(place).is_newest_last
    accepted: list[Job] = []
    position, read, budget = offset, 0, MAX_SCANNED_JOBS if accepts else limit
    with output.show_progress("looking", None) as bar:
        while True:
            size = min(PAGE_JOBS, budget - read if accepts else limit - len(accepted))
            page = _read_scan_page(engine, ref, place, position, size)
            bar.total = page.total
            for number, job in enumerate(page.jobs, 1):
                if accepts is None or accepts(job):
                    accepted.append(job)
                read, position = read + 1, page.offset + number
                if is_backward:
                    position = page.total - position
                if len(accepted) >= limit:
                    break
            bar.add_steps(len(page.jobs))
            if len(accepted) >= limit or page.next is None or read >= budget:
                is_over = not page.jobs or (position == 0 if is_backward else position >= page.total)
                return replace(page, jobs=tuple(accepted), offset=offset, next=None if is_over else position)


def _read_shared_page(
    engine: Engine, ref: Ref, place: str, limit: int, offset: int, accepts: Callable[[Job], bool] | None
) -> Page:
    """Read up to `limit` jobs of one queue that pass `accepts`, from a place that several queues share.

    `offset` and `next` are ranks among the jobs of all queues, or how many of these are older than the jobs that were
    read. `total` is how many jobs the queue has there; it is an
    estimate, and the page not exact, if not all of them were read.
    """
    first = _read_unfiltered_page(engine, ref, place, 0, 1)
    is_backward = engine.systems[ref.system].place(place).is_newest_last
    accepted: list[Job] = []
    met, read, following = 0, 0, offset
    with output.show_progress("looking", None) as bar:
        while True:
            page = _read_scan_page(engine, ref, place, following, min(PAGE_JOBS, limit - len(accepted)))
            accepted += [job for job in page.jobs if accepts is None or accepts(job)]
            met, read, bar.total = met + len(page.jobs), read + page.scanned_entries, page.total
            bar.add_steps(page.scanned_entries)
            next_offset = page.older_jobs if is_backward else page.next
            if next_offset is None or len(accepted) >= limit or read >= MAX_SCANNED_JOBS:
                break
            following = next_offset
    is_whole = next_offset is None and not offset
    total = met if is_whole else first.total if first.place_total is None else max(first.place_total, met)
    is_exact = first.is_exact and (is_whole or first.place_total is None)
    return replace(
        page, jobs=tuple(accepted), offset=offset, next=next_offset, total=total, place_total=None, is_exact=is_exact
    )


def _write_job_table(
    page: Page,
    now_ms: int,
    known_fields: frozenset[str],
    following: str | None,
    queue: str = "",
    in_places: Sequence[str] = (),
) -> None:
    """Print one page of jobs as a table, with a column of attempts if the system counts them.

    `queue` is the queue's name on a command line, given if no place was named. With several places each job shows its
    own.
    """
    from rqtui.text.event_coverage import explain_missing_event_coverage
    from rqtui.text.formats import ABOUT

    if page.jobs:
        has_attempts = "tried" in known_fields or any(job.attempts or job.max_attempts for job in page.jobs)
        columns = _build_table_columns(page.jobs, now_ms, has_places=len(in_places) > 1, has_attempts=has_attempts)
        rows = list(zip(*columns.values(), strict=True))
        output.write_table(tuple(columns), rows, right=(_choose_time_title(page.jobs), "tried"))
    if not page.is_list_known:
        output.print_message(explain_missing_event_coverage(page.system, in_places or [page.place]))
        return
    command = f": rqtui jobs {queue} {page.place}" if queue else ""
    further = f", continue with{command} --cursor {following}" if following is not None else ""
    sampled = "" if page.is_exact else ABOUT
    output.print_note(f"{len(page.jobs)} of {sampled}{page.total} in {', '.join(in_places) or page.place}{further}")


def _build_table_columns(
    jobs: Sequence[Job], now_ms: int, *, has_places: bool, has_attempts: bool
) -> dict[str, list[str]]:
    """Return the texts of the table of jobs as {column title: one text per job}."""
    from rqtui.text.formats import format_age, shorten_job_id
    from rqtui.text.masking import mask_text

    columns = {"id": [shorten_job_id(job.id, 48) for job in jobs]}
    if has_places:
        columns["place"] = [job.place for job in jobs]
    columns["job"] = [mask_text(job.name) for job in jobs]
    columns[_choose_time_title(jobs)] = [_format_job_time(job, now_ms, format_age) for job in jobs]
    if has_attempts:
        columns["tried"] = [
            f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts) for job in jobs
        ]
    columns["worker"] = [mask_text(job.worker) for job in jobs]
    about = "error or call" if any(job.call for job in jobs) else "error or body"
    columns[about] = [_summarize_job(job) for job in jobs]
    return columns


def _summarize_job(job: Job) -> str:
    """Return the most informative text about a job: its problem, error or call, else the start or size of its body."""
    from rqtui.text.formats import format_size
    from rqtui.text.masking import mask_text
    from rqtui.text.tracebacks import summarize_error

    call = job.call if len(job.call) <= MAX_CALL else job.call[: MAX_CALL - 1] + "…"
    summary = mask_text(job.problem or summarize_error(job.error) or call)
    return summary or documents.build_body_preview(job.body)[:60] or format_size(job.body_bytes)


_AHEAD: Mapping[str, str] = {
    "scheduled": "due in",
    "reserved": "lease",
}  # by state, for jobs that have a due time or a deadline
_AGO: Mapping[str, str] = {"scheduled": "waits"}


def _choose_time_title(jobs: Sequence[Job]) -> str:
    """Choose the title of the time column in the table of jobs, from the states and due times of the jobs."""
    is_ahead = any(job.due_ms is not None or job.deadline_ms is not None for job in jobs)
    return (_AHEAD if is_ahead else _AGO).get(jobs[0].state, "age")


def _format_job_time(job: Job, now_ms: int, age: Callable[[float | None], str]) -> str:
    """Return how long until a job is due or its lease ends; otherwise how long it has been in its place."""
    ahead = job.due_ms if job.due_ms is not None else job.deadline_ms
    if ahead is not None:
        return age(ahead - now_ms)
    return age(None if job.since_ms is None else now_ms - job.since_ms)
