"""Implement `stats`: print how many jobs were enqueued and completed per minute in each queue. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUES, open_engine
from rqtui.cli.past import load_journal, open_recording
from rqtui.cli.session import DONE, Session
from rqtui.durations import parse_duration
from rqtui.errors import RecordingError, RqtuiError, UsageError

if TYPE_CHECKING:
    from rqtui.cli.past import LoadedJournal
    from rqtui.engine.history import Day, History
    from rqtui.model import Queue, Ref
    from rqtui.recording.flows import RecordedFlows
    from rqtui.recording.store import Reader
    from rqtui.system_base.system import Request

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MAX_SPAN_MS = 366 * DAY_MS
DEFAULT_MINUTES = 60
SPAN_CELLS = 56  # of a sparkline
MAX_MARKS = 12  # lines of a queue


def stats(
    session: Session,
    queues: QUEUES = None,
    minutes: Annotated[
        int, typer.Option("--minutes", metavar="N", help="Show the last N minutes, 1 to 1440.")
    ] = DEFAULT_MINUTES,
    span: Annotated[
        str | None,
        typer.Option("--span", metavar="TIME", help="Show what was recorded in this time: 6h, 7d, 4w; at least 1h."),
    ] = None,
) -> int:
    """Show the jobs enqueued and completed in queues, minute by minute, with totals, and rates over these minutes.

    With --span, show the recorded hours, days or weeks of any system, with the changes and findings of this time.

    Example: rqtui stats mail --minutes 60 --json
    """
    from rqtui.engine import history as report
    from rqtui.model import Focus

    if span is not None:
        if minutes != DEFAULT_MINUTES:
            raise UsageError("--minutes and --span do not go together: each names the time to show.")
        return _show_span(session, queues, span)
    if not 1 <= minutes <= report.MAX_MINUTES:
        raise UsageError(f"--minutes is a whole number from 1 to {report.MAX_MINUTES}.")
    engine, refs = open_engine(session, queues)
    counted = engine.take_snapshot(Focus(queues=tuple(refs)))
    documents_ = []
    recording = open_recording(session)
    for ref, queue in zip(refs, counted.queues, strict=True):  # a round trip each: a day of a queue is 0.5 MB
        system = engine.systems[ref.system]
        requests: list[Callable[[], Request[Any]]] = []
        if report.has_history(system):
            requests = [partial(report.build_history_request, system, ref.queue, minutes + 1)]
        elif report.has_daily_counters(system):
            requests = [partial(report.build_days_request, system, ref.queue, counted.taken_ms)]
        [history] = engine.send_requests_isolated(requests) or [None]
        if isinstance(history, RqtuiError) and len(refs) == 1:
            raise history  # no other queue can be shown
        if wrong := queue.error or (str(history) if isinstance(history, RqtuiError) else ""):
            output.print_message(f"{ref.queue}: {wrong}")
        is_counted = isinstance(history, report.History) and bool(history.counters)
        if recording is not None and not is_counted and not isinstance(history, tuple):
            flows = _read_recorded_flows(recording, ref, minutes, counted.taken_ms)
            if flows is not None:
                documents_.append(_build_recorded_statistics(ref, queue, flows, counted.taken_ms))
                continue
        documents_.append(
            _build_queue_statistics(
                ref,
                queue,
                history if isinstance(history, report.History) and is_counted else None,
                minutes,
                counted.taken_ms,
                history if isinstance(history, tuple) else None,
            )
        )
    if recording is not None:
        recording.close()
    if session.as_json:
        output.write_json(documents_)
        return DONE
    queues_and_reasons = [(ref.queue, engine.systems[ref.system].missing_history) for ref in refs]
    _write_statistics_table(queues_and_reasons, documents_, minutes)
    return DONE


def _build_queue_statistics(
    ref: Ref, queue: Queue, history: History | None, minutes: int, now_ms: int, days: Sequence[Day] | None = None
) -> dict[str, Any]:
    """Build the JSON document with the statistics of one queue over the last `minutes`.

    `days` are the counts by the day of a system that counts all of its queues together.
    """
    from rqtui.engine import history as report

    begin_ms = now_ms - minutes * report.MINUTE_MS
    grown = report.compute_growth_per_minute([history], begin_ms, now_ms) if history else []
    depth = report.count_unfinished([queue])
    flows = history.flows if history else ()
    depths = dict(report.compute_unfinished_per_minute(grown, depth)) if "in" in flows else {}
    rows: list[dict[str, Any]] = [
        {
            "minute_at_ms": minute,
            **{name: report.sum_flow_counters(counted, name) if name in flows else None for name in report.FLOWS},
            "depth": depths.get(minute),
        }
        for minute, counted in grown
    ]
    seconds = 60 * min(minutes, len(rows))
    return {
        **documents.build_queue_fields(ref.queue),
        "layout": ref.system,
        "taken_at_ms": now_ms,
        "waiting": depth,
        "totals": dict(history.counters) if history else None,
        "rates": {
            f"{name}_s": sum(row[name] for row in rows) / seconds if name in flows else None for name in report.FLOWS
        }
        if rows
        else None,
        "minutes": rows if history else None,
        "days": None if days is None else [day._asdict() for day in days],
        "recorded": None,
    }


_RECORDED_FLOWS = {"in": "enqueued", "out": "completed", "failed": "failed"}  # flows by their names in a recording


def _read_recorded_flows(recording: Reader, ref: Ref, minutes: int, now_ms: int) -> RecordedFlows | None:
    """Read the recorded flows of a queue in the last `minutes`. A damaged recording is reported and counts as none."""
    from rqtui.engine.history import MINUTE_MS
    from rqtui.recording.flows import read_flows

    try:
        return read_flows(recording, ref, now_ms - minutes * MINUTE_MS, now_ms + MINUTE_MS)
    except RecordingError as error:
        output.print_message(str(error))
        return None


def _build_recorded_statistics(ref: Ref, queue: Queue, flows: RecordedFlows, now_ms: int) -> dict[str, Any]:
    """Build the JSON document with the recorded statistics of a queue whose system records none.

    The rates are those of the watched time.
    """
    from rqtui.engine import history as report

    return {
        **documents.build_queue_fields(ref.queue),
        "layout": ref.system,
        "taken_at_ms": now_ms,
        "waiting": report.count_unfinished([queue]),
        "totals": None,
        "rates": {f"{name}_s": flows.compute_rate_s(flow) for name, flow in _RECORDED_FLOWS.items()},
        "minutes": [
            {
                "minute_at_ms": minute.at_ms,
                **{name: getattr(minute, flow) for name, flow in _RECORDED_FLOWS.items()},
                "depth": flows.count_unfinished(minute),
            }
            for minute in flows.minutes
        ],
        "days": None,
        "recorded": {
            "begin_at_ms": flows.begin_ms,
            "end_at_ms": flows.end_ms,
            "watched_ms": flows.watched_ms,
            "estimated": [name for name, flow in _RECORDED_FLOWS.items() if flow in flows.estimated],
        },
    }


def _show_span(session: Session, queues: list[str] | None, span: str) -> int:
    """Print what was recorded of queues in a time span up to now, and return the exit code."""
    from rqtui.model import Focus

    span_ms = parse_duration(span, "--span")
    if not HOUR_MS <= span_ms <= MAX_SPAN_MS:
        raise UsageError(f"--span: {span} is not between 1h and {MAX_SPAN_MS // DAY_MS}d; use --minutes for less.")
    engine, refs = open_engine(session, queues)
    counted = engine.take_snapshot(Focus(queues=tuple(refs)))
    recording = open_recording(session)
    if recording is None:
        raise RecordingError(
            "nothing is recorded of this Redis: `rqtui record` and the open screen write a recording; "
            "without one, --minutes shows what a system counts itself."
        )
    journal = load_journal(session.settings.url)
    for problem in journal.problems:
        output.print_message(problem)
    documents_ = []
    with recording:
        for ref, queue in zip(refs, counted.queues, strict=True):
            documents_.append(_build_span_document(recording, ref, queue, journal, counted.taken_ms, span_ms))
    if session.as_json:
        output.write_json(documents_)
    else:
        _write_span(documents_, [ref.queue for ref in refs], span_ms)
    return DONE


def _build_span_document(
    recording: Reader, ref: Ref, queue: Queue, journal: LoadedJournal, now_ms: int, span_ms: int
) -> dict[str, Any]:
    """Build the JSON document of a queue over a time span: the same members as without it, and steps and marks.

    A step that was not recorded is missing. Raises RecordingError.
    """
    from rqtui.recording.course import read_marks
    from rqtui.recording.flows import choose_step_ms, read_flows_in_steps

    begin_ms = now_ms - span_ms
    flows = read_flows_in_steps(recording, ref, begin_ms, now_ms)
    marks = read_marks(recording, [ref], begin_ms, now_ms, journal.operations, journal.sightings)
    document, steps = _build_queue_statistics(ref, queue, None, DEFAULT_MINUTES, now_ms), list[dict[str, Any]]()
    if flows is not None:
        document = _build_recorded_statistics(ref, queue, flows, now_ms)
        steps = [
            {
                "at_ms": step.at_ms,
                "span_ms": step.span_ms,
                "watched_ms": step.watched_ms,
                **{name: getattr(step, flow) for name, flow in _RECORDED_FLOWS.items()},
                "died": step.died,
                "depth": flows.count_unfinished(step),
                "oldest_ready_ms": step.oldest_ready_max_ms,
            }
            for step in flows.minutes
        ]
    return document | {
        "minutes": None,
        "span": {"begin_at_ms": begin_ms, "end_at_ms": now_ms, "step_ms": choose_step_ms(span_ms)},
        "steps": steps,
        "marks": [
            {"at_ms": mark.at_ms, "kind": mark.kind, "text": documents.escape_undecodable(mark.text)} for mark in marks
        ],
    }


def _write_span(statistics: Sequence[dict[str, Any]], queues: Sequence[str], span_ms: int) -> None:
    """Print what was recorded of queues in a time span as a table, and below it the marks of each queue."""
    from rqtui.reports.course import MARK_SIGNS
    from rqtui.text.formats import UNKNOWN, format_count, format_duration, format_instant
    from rqtui.text.sanitise import safe

    window = f"out over time (all numbers: last {format_duration(span_ms)}, as far as watched; blank: unknown)"
    numbers = (*_RECORDED_FLOWS, "died")
    rows = []
    for queue, document in zip(queues, statistics, strict=True):
        steps = document["steps"]
        totals = [format_count(sum(step[name] for step in steps)) if steps else UNKNOWN for name in numbers]
        rows.append([queue, document["layout"], *totals, _format_span_trend(document)])
    output.write_table(("queue", "system", *numbers, window), rows, right=numbers)
    for queue, document in zip(queues, statistics, strict=True):
        marks, left_out = document["marks"], len(document["marks"]) - MAX_MARKS
        lines = ["", f"{safe(queue)}: changes (◆), and findings that began or were first seen (▲)"] if marks else []
        lines += [f"  {left_out} earlier ones are in --json"] if left_out > 0 else []
        for mark in marks[-MAX_MARKS:]:
            at = format_instant(mark["at_ms"], document["taken_at_ms"])
            lines.append(f"  {MARK_SIGNS[mark['kind']]} {at}  {safe(mark['text'])}")
        output.write_lines(lines)


def _format_span_trend(document: dict[str, Any]) -> str:
    """Format the completed jobs over time as a sparkline with blanks where nothing is known, and what was watched."""
    from rqtui.reports.course import Point, build_sparkline, list_column_maxima
    from rqtui.text.formats import format_age

    if not document["steps"]:
        return "nothing was recorded in this time"
    points = [
        Point(step["at_ms"], step["span_ms"], step["out"] / step["watched_ms"] if step["watched_ms"] else None)
        for step in document["steps"]
    ]
    span, recorded = document["span"], document["recorded"]
    columns = list_column_maxima(points, span["begin_at_ms"], span["end_at_ms"], SPAN_CELLS)
    times = f"{format_age(recorded['watched_ms'])} of {format_age(span['end_at_ms'] - span['begin_at_ms'])} watched"
    bounds = f"; {', '.join(recorded['estimated'])}: at least" if recorded["estimated"] else ""
    return f"{build_sparkline(columns)}  {times}{bounds}"


def _write_statistics_table(
    queues: Sequence[tuple[str, str]], statistics: Sequence[dict[str, Any]], minutes: int
) -> None:
    """Print the statistics of queues over the last `minutes` as a table with a sparkline of completed jobs.

    `queues` are their names, each with the reason why its system may have no counters per minute.
    """
    from rqtui.text.formats import UNKNOWN, format_count, format_rate

    titles = ("queue", "system", "in", "out", "failed", "waiting", f"out by the minute (rates: last {minutes} min)")
    rows = []
    for (queue, missing_history), queue_statistics in zip(queues, statistics, strict=True):
        rates = queue_statistics["rates"] or {}
        rate_cells = [
            format_rate(rate) if (rate := rates.get(f"{name}_s")) is not None else UNKNOWN if rates else ""
            for name in ("in", "out", "failed")
        ]
        trend = _format_trend(queue_statistics, missing_history)
        rows.append([queue, queue_statistics["layout"], *rate_cells, format_count(queue_statistics["waiting"]), trend])
    output.write_table(titles, rows, right=("in", "out", "failed", "waiting"))


def _format_trend(statistics: dict[str, Any], missing_history: str) -> str:
    """Format the ended jobs of a queue over time as a sparkline, or `missing_history` if they are unknown."""
    from rqtui.text.formats import build_sparkline, format_age, format_clock, format_count

    if days := statistics["days"]:
        today = days[-1]
        trend = build_sparkline([day["processed"] for day in days], len(days))
        counts = f"{format_count(today['processed'])} ran and {format_count(today['failed'])} failed"
        return f"{trend}  {len(days)} days of all queues; today {counts}"
    if minutes := statistics["minutes"]:
        trend = build_sparkline([row["out"] for row in minutes], 40)
        if recorded := statistics["recorded"]:
            times = f"{format_clock(recorded['begin_at_ms'])} to {format_clock(recorded['end_at_ms'])}"
            bounds = f"; {', '.join(recorded['estimated'])}: at least" if recorded["estimated"] else ""
            trend += f"  recorded {times}, {format_age(recorded['watched_ms'])} watched{bounds}"
        return trend
    return missing_history
