"""Implement `errors`: group dead jobs and jobs that wait for a retry by their error's cause. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUES, open_engine, report_places_without_events
from rqtui.cli.past import AT, build_recorded_fields, read_recorded_moment
from rqtui.cli.session import DONE, Session
from rqtui.errors import UsageError
from rqtui.text.widths import Width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqtui.model import Ref
    from rqtui.recording.moment import Moment
    from rqtui.reports.errors import Errors, Group


BY = Annotated[
    Width,
    typer.Option(
        "--by",
        help="How wide the groups are: the class of the exception; the class and the frame that raised it; the cause, "
        "which is those and what the messages have in common; or each message.",
    ),
]


def errors(session: Session, queues: QUEUES = None, by: BY = Width.CAUSE, at: AT = None) -> int:
    """Group dead jobs and jobs that wait for a retry by the cause of their error.

    Example: rqtui errors mail --by class
    """
    from rqtui.reports import errors as report

    if at is not None:
        if by is not Width.CAUSE:
            raise UsageError("--by does not go with --at: the recording has causes only.")
        return _write_recorded_errors(session, read_recorded_moment(session, at, queues))
    engine, refs = open_engine(session, queues)
    error_report = sampling.build_with_progress(report.yield_error_reports(engine, refs, by), "looking")
    if session.as_json:
        groups = [build_error_group(group, error_report.size.is_complete) for group in error_report.groups]
        output.write_json({**sampling.build_sample_size_document(error_report.size), "by": by.value, "errors": groups})
    else:
        _write_error_table(error_report, engine.refs)
        unheard = report_places_without_events(engine, refs)
        if silent := sampling.describe_silent_systems(engine, refs, "error"):
            output.print_message(f"{silent} no errors.")
        none = "no job has died, and none waits for another try"
        if unheard:
            none = f"no error was read; whether jobs of {' and '.join(unheard)} failed is unknown"
        sampling.write_sample_size(error_report.size, "" if error_report.groups else none)
    return sampling.choose_sampling_exit_code(error_report.size)


def _write_recorded_errors(session: Session, moment: Moment) -> int:
    """Print the causes of failures that findings named at a past moment, and return the exit code."""
    from rqtui.text.formats import format_count

    if session.as_json:
        groups = [
            {
                "cause": documents.mask_job_text(count.cause),
                "jobs": count.jobs,
                **documents.build_queue_fields(count.ref.queue),
                "layout": count.ref.system,
            }
            for count in moment.causes
        ]
        output.write_json({"errors": groups, **build_recorded_fields(moment)})
        return DONE
    rows = [[format_count(count.jobs), count.cause, str(count.ref)] for count in moment.causes]
    if rows:
        output.write_table(("jobs read", "cause", "queue"), rows, right=("jobs read",))
    else:
        output.write_lines(["no finding named a cause of failures then"])
    return DONE


def build_error_group(group: Group, is_exact: bool) -> dict[str, Any]:
    """Build the JSON document of an error group. `is_exact`: every job was read."""
    example = group.example
    return {
        "error": documents.mask_job_text(group.message),
        "cause": documents.mask_job_text(group.cause),
        "frame": documents.mask_job_text(group.frame),
        "messages": group.messages,
        "dead": group.dead,
        "retrying": group.retrying,
        "exact": is_exact,
        "first_at_ms": group.first_ms,
        "last_at_ms": group.last_ms,
        "names": [documents.mask_job_text(name) for name in group.kinds],
        "queues": [{**documents.build_queue_fields(ref.queue), "layout": ref.system} for ref in group.refs],
        "example": {
            **documents.build_id_fields(example.id),
            **documents.build_queue_fields(example.queue),
            "layout": example.system,
            "place": example.place,
            "error": documents.mask_job_text(example.error),
        },
    }


def _write_error_table(report: Errors, all_refs: Iterable[Ref]) -> None:
    """Print groups of errors as a table. Queues that share a name among `all_refs` are shown with their system."""
    from rqtui.text import formats
    from rqtui.text.masking import mask_text
    from rqtui.text.names import find_duplicate_names, format_queue_name

    now_ms, shared_names = report.size.taken_ms, find_duplicate_names(all_refs)

    def format_age_since(at_ms: int | None) -> str:
        return "" if at_ms is None else formats.format_age_since(at_ms, now_ms)

    rows = [
        [
            str(group.dead),
            str(group.retrying),
            formats.format_share(group.count, report.count),
            mask_text(group.short_message) or "(no error is kept)",
            group.frame,
            mask_text(", ".join(group.kinds[:3])) + (f" +{len(group.kinds) - 3}" if len(group.kinds) > 3 else ""),
            ", ".join(format_queue_name(ref, shared_names) for ref in group.refs[:3])
            + (f" +{len(group.refs) - 3}" if len(group.refs) > 3 else ""),
            format_age_since(group.first_ms),
            format_age_since(group.last_ms),
        ]
        for group in report.groups
    ]
    titles = ("dead", "retry", "share", "error", "raised at", "job", "queue", "first", "last")
    if rows:
        output.write_table(titles, rows, right=("dead", "retry", "share", "first", "last"))
