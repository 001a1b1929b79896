"""Implement `kinds`: count jobs by kind and place, with failures, waiting and run times. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUES, open_engine, report_places_without_events
from rqtui.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqtui.model import KindStatistics, Ref
    from rqtui.reports.kinds import Kind, Kinds


def kinds(session: Session, queues: QUEUES = None) -> int:
    """Show the kinds of jobs: how many are in each place, how many failed, how long they wait and run.

    Example: rqtui kinds mail --json
    """
    from rqtui.reports import kinds as report
    from rqtui.text.formats import format_time_windows

    engine, refs = open_engine(session, queues)
    kind_report = sampling.build_with_progress(report.yield_kind_reports(engine, refs), "looking")
    if session.as_json:
        output.write_json(
            {
                **sampling.build_sample_size_document(kind_report.size),
                "kinds": [_build_kind_document(kind, kind_report.size.is_complete) for kind in kind_report.kinds],
            }
        )
    else:
        _write_kind_table(kind_report, engine.refs)
        unheard = report_places_without_events(engine, refs)
        if silent := sampling.describe_silent_systems(engine, refs, "name"):
            output.print_message(f"{silent} no kinds of jobs.")
        if kind_report.has_figures:
            output.print_message(f"{report.STATISTICS_NOTE}: {format_time_windows(kind_report.spans_ms)}.")
        none = (
            f"no job is stored; jobs of {' and '.join(unheard)} that run or ended are unknown" if unheard else "no jobs"
        )
        sampling.write_sample_size(kind_report.size, none if not kind_report.kinds and not kind_report.silent else "")
    return sampling.choose_sampling_exit_code(kind_report.size)


def _build_kind_document(kind: Kind, is_exact: bool) -> dict[str, Any]:
    from rqtui.model import State

    return {
        "name": documents.mask_job_text(kind.name),
        **(documents.build_queue_fields(kind.ref.queue) if kind.ref.queue else {"queue": None}),
        "layout": kind.ref.system,
        "counts": {state.value: kind.counts.get(state, 0) for state in State},
        "exact": is_exact,
        "failed": kind.failed,
        "wait_ms": kind.wait_ms,
        "run_ms": kind.run_ms,
        "oldest_ready_ms": kind.oldest_ready_ms,
        "figures": _build_kind_statistics(kind.figures),
    }


def _build_kind_statistics(statistics: KindStatistics | None) -> dict[str, Any] | None:
    """Build the JSON of the statistics that the system stores for a kind of job; None if it stores none.

    `over_ms` is their time range, null for all time. `queue` is null if they cover all queues.
    """
    if statistics is None:
        return None
    return {
        "processed": statistics.processed,
        "failed": statistics.failed,
        "mean_ms": statistics.mean_ms,
        "over_ms": statistics.window_ms or None,
        "queue": documents.encode_text(statistics.queue) or None,
    }


def _write_kind_table(report: Kinds, all_refs: Iterable[Ref]) -> None:
    """Print the kinds of jobs as a table. Queues that share a name among `all_refs` are shown with their system."""
    from rqtui.model import State
    from rqtui.text.formats import UNKNOWN, format_age, format_duration, format_share
    from rqtui.text.masking import mask_text
    from rqtui.text.names import find_duplicate_names, format_queue_name

    def format_statistics(kind: Kind) -> list[str]:
        statistics = kind.figures
        if statistics is None:
            return [UNKNOWN] * 3
        return [
            str(statistics.processed),
            format_share(statistics.failed, statistics.processed),
            format_duration(statistics.mean_ms),
        ]

    shared_names = find_duplicate_names(all_refs)
    rows = [
        [
            mask_text(kind.name) or "(no kind)",
            format_queue_name(kind.ref, shared_names) or UNKNOWN,
            *(str(kind.counts.get(state, 0)) for state in State),
            str(kind.failed),
            format_age(kind.wait_ms),
            format_duration(kind.run_ms),
            format_age(kind.oldest_ready_ms),
            *(format_statistics(kind) if report.has_figures else ()),
        ]
        for kind in report.kinds
    ]
    titles = ("job", "queue", *(state.value for state in State), "failed", "waits", "runs", "oldest")
    titles += ("ran", "failing", "mean") if report.has_figures else ()
    if rows:
        output.write_table(titles, rows, right=titles[2:])
