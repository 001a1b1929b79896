"""Implement `search`: find jobs by a filter in all places of many queues. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, output, sampling
from rqtui.cli.arguments import QUEUES, open_engine, report_places_without_events
from rqtui.cli.session import Session
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rqtui.model import Ref
    from rqtui.reports.search import PlaceMatches, SearchResult


def search(
    session: Session,
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help="What to find, as --filter of `rqtui jobs` takes it.")
    ],
    queues: QUEUES = None,
) -> int:
    """Find jobs in all places of all queues, or of the named queues, and count the matching jobs of each place.

    Example: rqtui search .customer.id:4711 --json
    """
    from rqtui.engine import filters
    from rqtui.reports import search as report

    if not filters.parse_filter(expression).terms:
        raise UsageError("an empty filter matches every job; write what to find.")
    engine, refs = open_engine(session, queues)
    accepts = filters.parse_filter(expression, [engine.systems[name] for name in {ref.system for ref in refs}])
    result = sampling.build_with_progress(report.yield_search_results(engine, refs, accepts), "searching")
    if session.as_json:
        output.write_json(
            {
                **sampling.build_sample_size_document(result.size),
                "cut_bodies": result.cut_bodies,
                "matched": result.matched,
                "places": [_build_place_document(place) for place in result.places],
            }
        )
    else:
        _write_matches(result, engine.refs)
        report_places_without_events(engine, refs)
        if result.cut_bodies:
            output.print_message(
                f"{result.cut_bodies} bodies longer than {report.BODY_BYTES} bytes were not searched completely."
            )
        sampling.write_sample_size(result.size, "" if result.places else "no job that was read matches")
    return sampling.choose_sampling_exit_code(result.size)


def _build_place_document(place: PlaceMatches) -> dict[str, Any]:
    return {
        **documents.build_queue_fields(place.ref.queue),
        "layout": place.ref.system,
        "place": place.place,
        "matched": place.matched,
        "looked": place.looked,
        "of": max(place.count, place.looked),
        "jobs": [documents.build_job_document(job) for job in place.jobs],
    }


def _write_matches(result: SearchResult, all_refs: Iterable[Ref]) -> None:
    """Print a line for each place with its number of matches, and below it the first matching jobs."""
    from rqtui.text.names import find_duplicate_names, format_queue_name
    from rqtui.text.preview import format_field_value, render_body_line
    from rqtui.text.sanitise import format_id, safe

    shared_names = find_duplicate_names(all_refs)
    for place in result.places:
        counts = f"{place.matched} of {place.looked} jobs match"
        output.write_lines([f"{safe(format_queue_name(place.ref, shared_names))} {safe(place.place)}: {counts}"])
        for job in place.jobs:
            error = format_field_value(job.error.splitlines()[-1]) if job.error else ""
            texts = (format_id(job.id), format_field_value(job.name), error, render_body_line(job.body or b""))
            output.write_lines(["  " + "  ".join(filter(None, texts))])
        if place.matched > len(place.jobs):
            output.write_lines([f"  … and {place.matched - len(place.jobs)} more"])
