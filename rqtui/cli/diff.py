"""Implement `diff`: list the fields in which two groups of jobs differ, such as dead and done ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUE, open_engine, report_places_without_events
from rqtui.cli.session import Session
from rqtui.durations import parse_duration
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.reports.comparison import Comparison, Side
    from rqtui.reports.differences import Difference

MEASURE = "difference of shares; Fisher's exact test, corrected by Holm, level 0.05"


def diff(
    session: Session,
    queue: QUEUE,
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="The places or states of group A, separated by commas: dead, ready …"),
    ] = "dead",
    b: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="Those of group B; without it those of A. Jobs of A are never in B."),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="Only matching jobs are in A; the syntax is that of `jobs`."),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="EXPR", help="Only matching jobs are in B.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="TIME", help="A has the jobs of this last time, such as 1h; B earlier ones."),
    ] = None,
    ago: Annotated[
        str | None,
        typer.Option("--ago", metavar="TIME", help="With --last, B has the jobs of the same time so long ago: 1d."),
    ] = None,
    by_time: Annotated[
        str | None,
        typer.Option("--time", metavar="WHEN", help="With --last, the time that counts: enqueued or ended."),
    ] = None,
) -> int:
    """Compare two groups of jobs: which body fields, kinds, workers, hosts, hours or sizes differ, and how much.

    Example: rqtui diff mail dead done --json
    """
    from rqtui.engine import filters
    from rqtui.reports import comparison as report
    from rqtui.reports.comparison import Selection

    span_ms, ago_ms = _parse_time_options(last, ago, by_time)
    if b is None and not expression and not against and not last:
        raise UsageError("name two places to compare (dead done), or a --filter or --last for one of the groups.")
    for each in (expression, against):
        filters.parse_filter(each or "")
    selection_a, selection_b = (
        Selection(_split_places(a), expression or ""),
        Selection(_split_places(b or a), against or ""),
    )
    engine, [ref] = open_engine(session, [queue])
    if span_ms is not None:
        from rqtui.reports.time_windows import choose_time, select_by_time

        system = engine.systems[ref.system]
        time = by_time or choose_time(system, (*selection_a.words, *selection_b.words))
        selection_a, selection_b = select_by_time(selection_a, selection_b, time, system.now_ms(), span_ms, ago_ms)
    steps = report.yield_comparisons(engine, ref, selection_a, selection_b)
    comparison = sampling.build_with_progress(steps, "comparing")
    if session.as_json:
        output.write_json(build_comparison_document(comparison))
        return sampling.choose_sampling_exit_code(comparison.size)
    _write_comparison(comparison)
    report_places_without_events(engine, [ref])
    for problem in comparison.size.problems:
        output.print_message(problem)
    return sampling.choose_sampling_exit_code(comparison.size)


def _parse_time_options(last: str | None, ago: str | None, by_time: str | None) -> tuple[int | None, int | None]:
    """Return the times of `--last` and `--ago` in ms, or None. Raises UsageError."""
    if last is None:
        if ago is not None or by_time is not None:
            raise UsageError("--ago and --time go with --last, such as --last 1h.")
        return None, None
    if by_time not in (None, "enqueued", "ended"):
        raise UsageError(f"--time is enqueued or ended, not {by_time!r:.40}.")
    last_ms, ago_ms = parse_duration(last, "--last"), None if ago is None else parse_duration(ago, "--ago")
    if last_ms < 1000:
        raise UsageError("--last is a time of one second or more, such as 1h.")
    return last_ms, ago_ms


def _split_places(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, text.split(",")))) or (text,)


def build_comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Build the JSON document of a comparison: both groups, what was compared, and the differences."""
    differences = comparison.differences
    return {
        **sampling.build_sample_size_document(comparison.size),
        **documents.build_queue_fields(comparison.ref.queue),
        "layout": comparison.ref.system,
        "measure": MEASURE,
        "a": _build_side_document(comparison.a),
        "b": _build_side_document(comparison.b),
        "compared": {
            "attributes": differences.attributes,
            "values": differences.conditions,
            "pairs": differences.pairs,
            "left_out": list(comparison.left_out),
        },
        "detectable": None if differences.detectable is None else round(differences.detectable, 4),
        "differences": [_build_difference(difference) for difference in differences.found],
    }


def _build_side_document(side: Side) -> dict[str, Any]:
    return {
        "places": list(side.places),
        "filter": documents.escape_undecodable(side.selection.expression) or None,
        "window": _build_window_document(side),
        "jobs": side.jobs,
        "looked": side.looked,
        "of": side.of,
        "random": side.is_random,
    }


def _build_window_document(side: Side) -> dict[str, Any] | None:
    """Build the document of the time by which a group was selected, or None without one."""
    from rqtui.reports.time_windows import TimeWindow

    window = side.selection.accepts
    if not isinstance(window, TimeWindow):
        return None
    return {"time": window.time, "begin_at_ms": window.begin_ms, "end_at_ms": window.end_ms}


def _build_difference(difference: Difference) -> dict[str, Any]:
    return {
        "conditions": [
            {
                "field": documents.mask_job_text(condition.attribute) or "",
                "operator": condition.operator,
                "value": documents.mask_job_text(condition.value) or "",
            }
            for condition in difference.conditions
        ],
        "a_jobs": difference.a_jobs,
        "a_share": round(difference.a_share, 4),
        "b_jobs": difference.b_jobs,
        "b_share": round(difference.b_share, 4),
        "difference": round(difference.a_share - difference.b_share, 4),
        "p": difference.p_value,
        "more_values": difference.more,
        "explained": difference.is_explained,
        "result": difference.is_result,
        "time": difference.is_time,
    }


def _write_comparison(comparison: Comparison) -> None:
    from rqtui.reports.comparison import explain_no_difference, format_difference, format_side, name_sides

    names = name_sides(comparison)
    labels = [f"{name}: " if name in ("A", "B") else "" for name in names]
    for label, side in zip(labels, (comparison.a, comparison.b), strict=True):
        output.write_lines([f"{label}{format_side(side)}"])
    found = comparison.differences.found
    if not found:
        output.write_lines([f"{explain_no_difference(comparison)}."])
    for title, differences in group_differences(found):
        output.write_lines([title] if title else [])
        indent = "  " if title else ""
        output.write_lines(
            f"{indent}{format_difference(comparison, difference)}{format_remark(difference)}"
            for difference in differences
        )
    if comparison.a.selection.attributes:
        output.print_note(
            "only jobs that are still stored were read: those of an earlier time may have been requeued or deleted "
            "since. A job whose time is unknown is in neither group."
        )
    if comparison.left_out:
        output.print_note(f"not compared, because the groups were selected by it: {', '.join(comparison.left_out)}")


def group_differences(found: tuple[Difference, ...]) -> list[tuple[str, list[Difference]]]:
    """Return the differences under titles: those on their own, those explained by the first, times, run results."""
    groups = [
        ("", [each for each in found if not each.is_explained and not each.is_aside]),
        ("differs only with the first:", [each for each in found if each.is_explained and not each.is_aside]),
        (
            "times, which often differ because the places keep their jobs for different times:",
            [each for each in found if each.is_time],
        ),
        ("known only after a run:", [each for each in found if each.is_result]),
    ]
    return [(title, differences) for title, differences in groups if differences]


def format_remark(difference: Difference) -> str:
    """Return how certain a difference is, and how many other values of its field differ, in parentheses."""
    from rqtui.reports.comparison import format_certainty

    more = f"; other values that differ: {difference.more}" if difference.more else ""
    return f" ({format_certainty(difference)}{more})"
