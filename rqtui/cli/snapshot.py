"""Implement `snapshot`: print counts, workers and health of queues, once or repeatedly. Nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, report_places_without_events, report_unknown_queue
from rqtui.cli.past import AT, build_recorded_fields, read_recorded_moment
from rqtui.cli.session import DONE, NO_WAIT, Session
from rqtui.cli.settled_snapshot import take_settled_snapshot
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import ServerError, UsageError

EVENT_POLL_S = 1.0  # seconds between two checks for Pub/Sub events

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Count, Queue, Snapshot, State
    from rqtui.recording.moment import Moment
    from rqtui.reports.shared_places import SharedPlace
    from rqtui.systems.by_sight import UnsupportedSystem


def snapshot(
    session: Session,
    queues: QUEUES = None,
    watch_s: Annotated[
        float | None, typer.Option("--watch", metavar="SECONDS", help="Print a snapshot every SECONDS.")
    ] = None,
    no_wait: NO_WAIT = False,
    at: AT = None,
) -> int:
    """Print the counts, the workers and the health of queues, once or repeatedly.

    Example: rqtui snapshot mail --json
    """
    if watch_s is not None and not 0.05 <= watch_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--watch is a number of seconds between 0.05 and 86400.")
    if at is not None:
        if watch_s is not None:
            raise UsageError("--watch shows the present, and --at the past; name one of them.")
        return _write_recorded_snapshot(session, read_recorded_moment(session, at, queues))
    if watch_s is None:
        engine = session.create_engine(discover=not queues)
        _write_snapshot(
            session,
            engine,
            _take_sorted_snapshot(session, engine, queues, is_stream=False),
            is_stream=False,
            is_all=not queues,
        )
        return DONE
    return _watch_snapshots(session, queues, watch_s, no_wait)


def _write_recorded_snapshot(session: Session, moment: Moment) -> int:
    """Print the snapshot of a past moment, the most urgent queues first, and return the exit code."""
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.engine.health.urgency import compute_urgency_step

    queues = sorted(moment.snapshot.queues, key=lambda queue: -compute_urgency_step(queue))
    if session.as_json:
        document = {
            "taken_at_ms": moment.snapshot.taken_ms,
            "server": {"url": hide_url_passwords(session.settings.url), "kind": None, "version": None},
            "queues": [build_queue_document(queue) for queue in queues],
            "shared": [],
            "unspoken": [],
            **build_recorded_fields(moment),
        }
        output.write_json(document)
    else:
        _write_queue_table(queues, moment.at_ms)
    return DONE


def _watch_snapshots(session: Session, queues: list[str] | None, watch_s: float, no_wait: bool) -> int:
    """Print a snapshot of queues every `watch_s` seconds. While Redis is away, print the error and retry."""
    failures = 0
    engine = session.retry_until_redis_answers(
        lambda: session.create_engine(discover=not queues, runs_on=True), no_wait=no_wait
    )
    engine.start_listening()
    while True:
        try:
            if not queues:
                for _chunk in engine.discover():
                    pass
            taken = _take_sorted_snapshot(session, engine, queues, is_stream=True)
        except ServerError as error:
            wait_s = compute_reconnect_delay_s(failures)
            failures += 1
            output.print_message(session.format_retry_message(str(error), wait_s))
            _wait_and_deliver_events(engine, wait_s)
            continue
        failures = 0
        if not session.as_json:
            output.clear_terminal()
        _write_snapshot(session, engine, taken, is_stream=True, is_all=not queues)
        _wait_and_deliver_events(engine, watch_s)


def _wait_and_deliver_events(engine: Engine, seconds: float) -> None:
    """Wait for some seconds, and pass the Pub/Sub events that arrive to their systems."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, EVENT_POLL_S) if engine.is_listening else left_s)
        engine.deliver_events()


def _take_sorted_snapshot(session: Session, engine: Engine, queues: list[str] | None, *, is_stream: bool) -> Snapshot:
    """Take a snapshot of queues, the most urgent first; queues named by the user keep their order."""
    from rqtui.engine.health.urgency import compute_urgency_step
    from rqtui.model import Focus

    refs = session.find_queues(engine, queues or ())
    if is_stream:
        taken = engine.take_snapshot(Focus(queues=tuple(refs), is_thorough=True))
    else:
        taken = take_settled_snapshot(engine, refs).snapshot
    for queue in taken.queues if queues else ():
        report_unknown_queue(engine, queue)
    return (
        taken
        if queues
        else replace(taken, queues=tuple(sorted(taken.queues, key=lambda queue: -compute_urgency_step(queue))))
    )


def _write_snapshot(session: Session, engine: Engine, taken: Snapshot, *, is_stream: bool, is_all: bool) -> None:
    """Print a snapshot as JSON or as a table. `is_all` means that it has all known queues of each system."""
    from rqtui.connection.connect import hide_url_passwords, read_server_info
    from rqtui.model import Ref
    from rqtui.reports.shared_places import describe_unassigned as unassigned
    from rqtui.reports.shared_places import list_shared_places
    from rqtui.systems.by_sight import describe_other_prefixes, describe_unsupported_systems

    info = read_server_info(engine.client, session.settings.url)
    shared = list_shared_places(taken.queues, {queue.system for queue in taken.queues if is_all})
    if session.as_json:
        document = {
            "taken_at_ms": taken.taken_ms,
            "server": {"url": hide_url_passwords(session.settings.url), "kind": info.kind, "version": info.version},
            "queues": [build_queue_document(queue) for queue in taken.queues],
            "shared": [_build_shared_place(place) for place in shared],
            "unspoken": [_build_unsupported_system(unsupported) for unsupported in engine.unsupported_systems],
        }
        output.write_json(document, is_stream=is_stream)
        return
    if engine.unsupported_systems and not is_stream:
        output.print_message(describe_unsupported_systems(engine.unsupported_systems))
    if is_all and not is_stream and (other_prefixes := describe_other_prefixes(engine.systems.values())):
        output.print_message(other_prefixes)
    if is_all and not is_stream:
        _report_other_databases(session, engine, info.databases)
    if not taken.queues:
        output.write_lines([f"no queues at {hide_url_passwords(session.settings.url)} ({info.title})"])
        return
    _write_queue_table(taken.queues, taken.taken_ms)
    if words := unassigned(shared):
        output.print_message(words)
    report_places_without_events(engine, [Ref(queue.system, queue.name) for queue in taken.queues])


def _report_other_databases(session: Session, engine: Engine, used_databases: Sequence[int]) -> None:
    """Print which other databases of the server have queues, and how to open them.

    `used_databases` are those that have keys.
    """
    from rqtui.reports.other_databases import describe_other_databases, find_other_databases

    databases = [found for found in find_other_databases(engine.client, session.settings, used_databases) if found]
    if databases:
        output.print_message(describe_other_databases(databases, session.settings.url))


def build_queue_document(queue: Queue) -> dict[str, Any]:
    """Build the JSON document with the counts and findings of a queue."""
    return {
        **documents.build_queue_fields(queue.name),
        "layout": queue.system,
        "paused": queue.is_paused,
        "workers": queue.workers,
        "oldest_ready_ms": queue.oldest_ready_ms,
        "overdue": queue.overdue,
        "expired": queue.expired,
        "places": [_build_place_count(count) for count in queue.counts],
        "verdict": {"severity": queue.verdict.severity, "text": documents.escape_undecodable(queue.verdict.text)},
        "unknown": list(queue.unknown),
        **({"error": documents.escape_undecodable(queue.error)} if queue.error else {}),
    }


def _build_place_count(count: Count) -> dict[str, Any]:
    """Build the JSON of a place's count. The count is null if it is unknown; see `build_coverage_fields`."""
    return {
        "place": count.place,
        "state": count.state.value,
        "count": count.count if count.is_count_known else None,
        "exact": count.is_exact,
        **documents.build_coverage_fields(count.coverage),
    }


def _build_unsupported_system(unsupported: UnsupportedSystem) -> dict[str, Any]:
    """Build the JSON of a queue system that uses the same Redis and that rqtui does not support."""
    return {"system": unsupported.system, "keys": unsupported.keys, "queues": unsupported.queues}


def _build_shared_place(place: SharedPlace) -> dict[str, Any]:
    """Build the JSON of a place that all queues of a system share.

    `unassigned` is the number of its jobs that belong to no queue, or null if it is unknown.
    """
    return {
        "layout": place.system,
        "place": place.place,
        "state": place.state.value,
        "count": place.jobs,
        "unassigned": place.unassigned,
    }


def _write_queue_table(queues: Sequence[Queue], now_ms: int) -> None:
    """Print the counts of queues as a table that fits the terminal."""
    from rqtui.model import State
    from rqtui.text.formats import UNKNOWN, format_age, format_time_left
    from rqtui.text.sanitise import safe

    counted = {count.state for queue in queues for count in queue.counts if count.is_count_known}
    states = [state for state in State if state in counted]
    titles: list[str] = ["queue", "system", *states, "workers", "oldest", "verdict"]
    rows: list[list[str]] = []
    for queue in queues:
        counts = [_format_state_count(queue, state) for state in states]
        more_findings = len(queue.findings) - 1
        verdict = (
            f"{queue.findings[0].text}{f' · {more_findings} more' if more_findings else ''}"
            if more_findings >= 0
            else queue.verdict.text
        )
        verdict = "  ".join(filter(None, [format_time_left(queue.verdict.until_ms, now_ms), verdict]))
        workers = UNKNOWN if queue.workers is None else str(queue.workers)
        rows.append(
            [safe(queue.name), queue.system, *counts, workers, format_age(queue.oldest_ready_ms), safe(verdict)]
        )
    width = output.measure_terminal_width()
    if width is not None:
        titles, rows = fit_queue_table(titles, rows, width)
    output.write_table(titles, rows, right=(*states, *_RIGHT_ALIGNED))


def _format_state_count(queue: Queue, state: State) -> str:
    """Format how many jobs of a queue are in a state; `~` marks an estimate."""
    from rqtui.text.formats import UNKNOWN, format_count

    counts = [number for number in queue.counts if number.state is state and number.is_count_known]
    is_exact = all(number.is_exact for number in counts)
    return format_count(sum(number.count for number in counts), is_exact, 11) if counts else UNKNOWN


def fit_queue_table(titles: list[str], rows: list[list[str]], width: int) -> tuple[list[str], list[list[str]]]:
    """Fit the table of queues into a terminal `width` cells wide, and return its titles and rows.

    Columns without information are removed, queue names are shortened to the part that differs, and verdicts are cut at
    the end. Numbers are never cut.
    """
    from rqtui.text.elision import elide_names
    from rqtui.text.formats import ZERO, cell_len, fit_to_width

    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    free_cells = width - sum(widths[1:-1]) - 2 * (len(titles) - 1)
    if free_cells < _MIN_NAME_CELLS + _MIN_VERDICT_CELLS:
        values_by_title = {title: {row[at] for row in rows} for at, title in enumerate(titles)}
        may_be_idle = [title for title in titles if title not in ("queue", "system", "verdict")]
        idle = next((title for title in may_be_idle if values_by_title[title] <= {ZERO, "0"}), "")
        idle = idle or ("system" if "system" in titles and len(values_by_title["system"]) == 1 else "")
        if idle:
            at = titles.index(idle)
            return fit_queue_table(titles[:at] + titles[at + 1 :], [row[:at] + row[at + 1 :] for row in rows], width)
    verdict = min(widths[-1], max(_MIN_VERDICT_CELLS, free_cells - widths[0]))
    names = elide_names(frozenset(row[0] for row in rows), max(_MIN_NAME_CELLS, free_cells - verdict))
    return titles, [[names[row[0]], *row[1:-1], fit_to_width(row[-1], min(verdict, cell_len(row[-1])))] for row in rows]


_RIGHT_ALIGNED = ("workers", "oldest")
_MIN_NAME_CELLS, _MIN_VERDICT_CELLS = 24, 16  # cells
