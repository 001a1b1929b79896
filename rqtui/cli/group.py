"""Implement `group`: count the jobs of a place by kind, worker, host, error, age or a field. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUE, open_engine, report_places_without_events
from rqtui.cli.session import Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.groups import Group, Groups

_STORED_AS = {"kind": "name", "worker": "worker", "host": "worker", "error": "error"}  # names of `System.known_fields`


def group(
    session: Session,
    queue: QUEUE,
    place: Annotated[
        str, typer.Argument(metavar="[PLACE]", help="A place, or a state for all its places: ready, dead …")
    ] = "ready",
    by: Annotated[
        str,
        typer.Option("--by", metavar="FIELD", help="Group by kind, worker, host, error, age or a body field: .tenant."),
    ] = "kind",
    expression: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="Group only the jobs that match; the syntax is that of `jobs`."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most N groups.")] = 20,
) -> int:
    """Group the jobs of a place: which tenant, kind or worker fills the queue, with the filter of each group.

    Example: rqtui group mail ready --by .tenant --json
    """
    from rqtui.engine import filters
    from rqtui.reports import attributes
    from rqtui.reports import groups as report

    if not attributes.is_group_field(by):
        raise UsageError(f"--by is one of {', '.join(attributes.GROUP_FIELDS)}, or a body field such as .tenant.")
    if limit < 1:
        raise UsageError("--limit is a whole number from 1 on.")
    filters.parse_filter(expression or "")  # A wrong filter is refused before the connection is opened.
    engine, [ref] = open_engine(session, [queue])
    groups = sampling.build_with_progress(
        report.yield_group_reports(engine, ref, place, by, expression or ""), "looking"
    )
    if session.as_json:
        output.write_json(_build_group_document(engine, groups, place, expression, limit))
        return sampling.choose_sampling_exit_code(groups.size)
    _write_group_table(groups, limit)
    report_places_without_events(engine, [ref])
    if (stored_as := _STORED_AS.get(by)) and stored_as not in engine.systems[ref.system].known_fields:
        output.print_message(f"{ref.system} stores no {stored_as if by == 'host' else by} of a job.")
    elif by == "host" and groups.groups and not groups.has_hosts:
        output.print_message(f"no host of a worker of {ref.queue} is known.")
    empty = f"no job is in {place}" if expression is None else f"no job of {place} that was read matches the filter"
    matching = "" if expression is None else f"; {groups.matched} of the jobs that were read match the filter"
    if groups.size.looked < groups.size.of and groups.groups:
        how = "at random" if groups.is_random else "from the start of the place"
        output.print_message(f"the jobs were read {how}{matching}.")
    elif matching:
        output.print_message(f"{matching[2:]}.")
    if groups.rate_problem and groups.groups:
        output.print_message(f"done per second is unknown: {groups.rate_problem}.")
    sampling.write_sample_size(groups.size, "" if groups.groups else empty)
    _print_commands(engine, groups)
    return sampling.choose_sampling_exit_code(groups.size)


def _build_group_document(
    engine: Engine, groups: Groups, place: str, expression: str | None, limit: int
) -> dict[str, Any]:
    return {
        **sampling.build_sample_size_document(groups.size),
        "random": groups.is_random,
        **documents.build_queue_fields(groups.ref.queue),
        "layout": groups.ref.system,
        "place": place,
        "by": documents.escape_undecodable(groups.by),
        "filter": None if expression is None else documents.escape_undecodable(expression),
        "matched": groups.matched,
        "done_over_ms": groups.done_ms or None,
        "done_unknown": groups.rate_problem or None,
        "verbs": list(groups.verbs),
        "more": max(0, len(groups.groups) - limit),
        "groups": [_build_one_group(engine, groups, each) for each in groups.groups[:limit]],
    }


def _build_one_group(engine: Engine, groups: Groups, each: Group) -> dict[str, Any]:
    return {
        "value": None if each.value is None else documents.mask_job_text(each.value) or "",
        "unknown": each.is_unknown,
        "jobs": each.jobs,
        "share": round(each.jobs / groups.matched, 4),
        "estimate": groups.estimate_jobs(each),
        "places": dict(each.by_place),
        "oldest_ms": each.oldest_ms,
        "done_per_s": None if each.done_per_s is None else round(each.done_per_s, 3),
        "filter": documents.escape_undecodable(each.filter_text) or None,
        "no_filter": each.problem or None,
        "dry_run": groups.build_dry_run_command(each, engine.format_argument(groups.ref)) or None,
    }


def _write_group_table(groups: Groups, limit: int) -> None:
    from rqtui.text.formats import (
        ABOUT,
        UNKNOWN,
        format_age,
        format_quantity,
        format_rate,
        format_share,
        format_time_windows,
    )
    from rqtui.text.sanitise import safe

    if not groups.groups:
        return
    is_exact = groups.size.looked >= groups.size.of
    done_title = f"done/s {format_time_windows([groups.done_ms])}" if groups.done_ms else "done/s"
    titles = ["jobs", *([] if is_exact else ["in place"]), "share", safe(groups.by), "oldest", done_title, "filter"]
    rows = [
        [
            str(each.jobs),
            *([] if is_exact else [f"{ABOUT}{groups.estimate_jobs(each)}"]),
            format_share(each.jobs, groups.matched),
            name_group(each),
            UNKNOWN if each.oldest_ms is None else format_age(each.oldest_ms),
            format_rate(each.done_per_s),
            each.filter_text,
        ]
        for each in groups.groups[:limit]
    ]
    output.write_table(titles, rows, right=("jobs", "in place", "share", "oldest", done_title))
    if len(groups.groups) > limit:
        rest = groups.groups[limit:]
        jobs = sum(each.jobs for each in rest)
        output.print_note(
            f"{format_quantity(len(rest), 'smaller group')} with {jobs} of the jobs; --limit N lists more."
        )


def name_group(each: Group) -> str:
    """Return the value of a group, or why it has none, for people."""
    if each.value is not None:
        return documents.mask_job_text(each.value) or "(empty)"
    return "(unknown)" if each.is_unknown else "(none)"


def _print_commands(engine: Engine, groups: Groups) -> None:
    """Print how to act on the largest group with a value and a filter: the dry run, the change and its undo."""
    from rqtui.operations.undo import UNDO_COMMAND, describe_undo

    largest = max(
        (each for each in groups.groups if each.filter_text and each.value is not None),
        key=lambda each: each.jobs,
        default=None,
    )
    if largest is None:
        return
    command = groups.build_dry_run_command(largest, engine.format_argument(groups.ref))
    if command:
        others = ", ".join(verb for verb in groups.verbs if verb != groups.find_usual_verb(largest))
        output.print_note(f"to act on {name_group(largest)}, without changing anything yet: {command}")
        system = engine.systems[groups.ref.system]
        undo = describe_undo(system, groups.find_usual_verb(largest), place=largest.place, undo_key=UNDO_COMMAND)
        output.print_note(
            f"without --dry-run it changes the jobs; {undo}." + (f" Other verbs: {others}." if others else "")
        )
