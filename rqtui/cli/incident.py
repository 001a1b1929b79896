"""Implement `incident`: print one page about a queue with problems. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.cli import documents, findings, output, sampling
from rqtui.cli.arguments import QUEUE, open_engine, report_places_without_events
from rqtui.cli.past import AT, build_recorded_fields, load_journal, open_recording, read_recorded_moment
from rqtui.cli.session import DONE, REFUSED, Session
from rqtui.cli.settled_snapshot import take_settled_snapshot
from rqtui.errors import RecordingError, UsageError

if TYPE_CHECKING:
    from rqtui.model import Finding, Queue
    from rqtui.operations.journal import Operation, Sighting
    from rqtui.recording.store import Reader
    from rqtui.reports.course import Course
    from rqtui.reports.errors import Group
    from rqtui.reports.incident import Effect, Incident

_CANARY_JOBS = 5


FINDING = Annotated[
    str | None,
    typer.Option(
        "--finding", metavar="KIND", help="Begin with the finding of this kind, as rqtui health --json names it."
    ),
]


def incident(session: Session, queue: QUEUE, finding: FINDING = None, at: AT = None) -> int:
    """Print what is wrong with a queue, since when, what differs, what was done, and what helps now.

    The plot, earlier findings and the first command are about the worst finding, or about the one of --finding.

    Example: rqtui incident mail --json
    """
    from rqtui.reports.incident import yield_incident_reports
    from rqtui.reports.incident_page import build_page_lines

    if at is not None:
        return _write_past_incident(session, queue, finding, at)
    engine, [ref] = open_engine(session, [queue])
    recording = open_recording(session)
    with recording or nullcontext():
        settled = take_settled_snapshot(engine, [ref], recording)
        counted = _put_kind_first(settled.snapshot.queues[0], finding)
        operations, sightings, problems = load_journal(session.settings.url)
        steps = yield_incident_reports(engine, ref, counted, settled.snapshot.taken_ms, operations, sightings)
        report = sampling.build_with_progress(steps, "reading")
        if recording is not None:
            report = _add_recorded_past(report, recording, operations, sightings)
    unknown = (*counted.unknown, *settled.unwatched.get(ref, ()))
    argument = engine.format_argument(ref)
    if session.as_json:
        output.write_json(_build_document(report, argument, unknown))
    else:
        commands = list_commands(report, argument)
        output.write_lines(build_page_lines(report, engine.format_name(ref), commands, unknown))
        report_places_without_events(engine, [ref])
    for problem in (*report.problems, *problems):
        output.print_message(problem)
    return REFUSED if report.problems else DONE


def _put_kind_first(queue: Queue, kind: str | None) -> Queue:
    """Return the queue with its first finding of a kind before the others. Raises UsageError if it has none of it."""
    from rqtui.reports.incident import put_finding_first

    if kind is None:
        return queue
    present = {finding.kind: finding for finding in reversed(queue.findings)}
    if kind not in present:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in queue.findings))
        has = f"its findings: {kinds}" if kinds else "it has none"
        raise UsageError(f'--finding: queue "{queue.name}" has no finding {kind!r:.40}; {has}.')
    return put_finding_first(queue, present[kind])


def _write_past_incident(session: Session, queue: str, finding: str | None, at: str) -> int:
    """Print the page of a past moment from the recording, and return the exit code."""
    from rqtui.reports.incident import build_past_incident
    from rqtui.reports.incident_page import build_page_lines

    moment = read_recorded_moment(session, at, [queue])
    counted = _put_kind_first(moment.snapshot.queues[0], finding)
    operations, sightings, problems = load_journal(session.settings.url)
    causes = [(cause.cause, cause.jobs) for cause in moment.causes]
    report = build_past_incident(counted, moment.at_ms, causes, operations, sightings)
    recording = open_recording(session)
    if recording is not None:
        with recording:
            earlier = [each for each in operations if each.at_ms <= moment.at_ms]
            seen = [each for each in sightings if each.at_ms <= moment.at_ms]
            report = _add_recorded_past(report, recording, earlier, seen)
    if session.as_json:
        causes_document = [{"cause": documents.mask_job_text(cause), "jobs": jobs} for cause, jobs in causes]
        document = _build_document(report, queue, ()) | {"commands": [], "causes": causes_document}
        output.write_json(document | build_recorded_fields(moment))
    else:
        commands = [f"rqtui incident {queue}: the same page about now"]
        output.write_lines(build_page_lines(report, counted.name, commands))
    for problem in problems:
        output.print_message(problem)
    return DONE


def _add_recorded_past(
    report: Incident, recording: Reader, operations: Sequence[Operation], sightings: Sequence[Sighting]
) -> Incident:
    """Return the report with the recorded course and effects. A damaged recording is reported and adds nothing."""
    from rqtui.recording.course import add_past, read_past

    try:
        return add_past(report, read_past(recording, report.ref, report.queue, report.taken_ms, operations, sightings))
    except RecordingError as error:
        output.print_message(str(error))
        return report


def list_commands(report: Incident, argument: str) -> list[str]:
    """Return the commands that help now: the fix of each finding, and a canary for the largest cause of errors."""
    commands = [findings.find_remedy(finding, argument) for finding in report.queue.findings]
    system = report.errors.groups[0].example.system if report.errors else ""
    if report.errors and report.comparison is not None:
        commands.append(f"rqtui diff {argument} {report.comparison.a.selection} {report.comparison.b.selection}")
    if system and (group := _find_dead_group(report)) is not None and group.dead:
        commands.append(
            f"after the fix: rqtui act requeue {argument} --place {group.example.place} --all --canary {_CANARY_JOBS}"
        )
    return list(dict.fromkeys(filter(None, commands)))


def _find_dead_group(report: Incident) -> Group | None:
    return next((group for group in report.errors.groups if group.dead), None) if report.errors else None


def _build_document(report: Incident, argument: str, unknown: tuple[str, ...]) -> dict[str, Any]:
    from rqtui.operations.journal import to_document

    def build_finding(finding: Finding) -> dict[str, Any]:
        return findings.build_finding_document(finding, argument, report.ref.system, report.taken_ms)

    compared = report.comparison
    return {
        **documents.build_queue_fields(report.ref.queue),
        "layout": report.ref.system,
        "taken_at_ms": report.taken_ms,
        "counts": report.queue.map_counts_by_place(),
        "findings": [build_finding(finding) for finding in report.queue.findings],
        "unknown": [*unknown],
        "since_at_ms": report.recorded_begin_ms
        or (report.queue.findings[0].since_ms if report.queue.findings else None),
        "course": None if report.course is None else _build_course_document(report.course),
        "errors": _build_error_document(report),
        "workers": _build_worker_document(report),
        "differences": None if compared is None else _build_differences_document(report),
        "not_compared": report.not_compared or None,
        "changes": [to_document(change) for change in report.changes],
        "precedents": [
            {
                "at_ms": precedent.sighting.at_ms,
                "ended_at_ms": precedent.ended_ms,
                "text": documents.escape_undecodable(precedent.sighting.text),
                "changes": [to_document(change) for change in precedent.changes],
                "effect": None if precedent.effect is None else _build_effect_document(precedent.effect),
            }
            for precedent in report.precedents
        ],
        "commands": list_commands(report, argument),
    }


def _build_error_document(report: Incident) -> dict[str, Any] | None:
    from rqtui.cli.errors import build_error_group

    if report.errors is None:
        return None
    is_exact = report.errors.size.is_complete
    return {
        **sampling.build_sample_size_document(report.errors.size),
        "groups": [build_error_group(group, is_exact) for group in report.errors.groups],
    }


def _build_worker_document(report: Incident) -> dict[str, Any] | None:
    from rqtui.reports.incident import count_hosts, count_versions

    if not report.are_workers_known:
        return None
    return {
        "states": dict(Counter(entry.health.value for entry in report.workers)),
        "silent": [documents.escape_undecodable(entry.name) for entry in report.silent_workers],
        "hosts": dict(count_hosts(report.workers)),
        "versions": dict(count_versions(report.workers)),
    }


def _build_course_document(course: Course) -> dict[str, Any]:
    """Build the document of what a finding counts over time. A missing minute is a gap."""
    from rqtui.reports.course import compute_trend

    trend = compute_trend(course)
    return {
        "series": course.series.name,
        "is_per_minute": not course.series.is_level,
        "source": course.source,
        "begin_at_ms": course.begin_ms,
        "end_at_ms": course.end_ms,
        "known_ms": course.known_ms,
        "exact": not course.is_lower_bound,
        "points": [{"at_ms": at_ms, "span_ms": span_ms, "value": value} for at_ms, span_ms, value in course.points],
        "marks": [
            {"at_ms": mark.at_ms, "kind": mark.kind, "text": documents.escape_undecodable(mark.text)}
            for mark in course.marks
        ],
        "trend": {"word": trend.word, "last_10_min": trend.last, "before_10_min": trend.before},
    }


def _build_effect_document(effect: Effect) -> dict[str, Any]:
    return {"series": effect.series.name, "before_10_min": effect.before, "after_10_min": effect.after}


def _build_differences_document(report: Incident) -> dict[str, Any]:
    from rqtui.cli.diff import build_comparison_document

    assert report.comparison is not None
    return build_comparison_document(report.comparison)
