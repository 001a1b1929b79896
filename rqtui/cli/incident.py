"""Implement `incident`: print everything about the trouble of one queue on a page. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rqtui.cli import documents, findings, output, sampling
from rqtui.cli.arguments import QUEUE, open_engine, report_places_without_events
from rqtui.cli.second_look import take_settled_snapshot
from rqtui.cli.session import DONE, REFUSED, Session

if TYPE_CHECKING:
    from rqtui.model import Finding
    from rqtui.operations.journal import Operation
    from rqtui.reports.errors import Group
    from rqtui.reports.incident import Incident

MAX_CAUSES = MAX_CHANGES = MAX_DIFFERENCES = 8  # lines of a section
MAX_NAMES = 5
_CANARY_JOBS = 5


def incident(session: Session, queue: QUEUE) -> int:
    """Print what is wrong with a queue, since when, what differs, what was done, and what helps now.

    Example: rqtui incident mail --json
    """
    from rqtui.config.state_folder import find_state_folder
    from rqtui.connection.connect import hide_url_passwords
    from rqtui.operations import journal
    from rqtui.reports.incident import yield_incident_reports

    engine, [ref] = open_engine(session, [queue])
    look = take_settled_snapshot(engine, [ref])
    [counted] = look.snapshot.queues
    url, problems = hide_url_passwords(session.settings.url), list[str]()
    operations = [each for each in journal.load_operations(find_state_folder(), problems=problems) if each.url == url]
    sightings = journal.load_sightings(find_state_folder(), url)
    steps = yield_incident_reports(engine, ref, counted, look.snapshot.taken_ms, operations, sightings)
    report = sampling.build_with_progress(steps, "reading")
    unknown = (*counted.unknown, *look.unwatched.get(ref, ()))
    argument = engine.format_argument(ref)
    if session.as_json:
        output.write_json(_build_document(report, argument, unknown))
    else:
        output.write_lines(_build_lines(report, engine.format_name(ref), argument, unknown))
        report_places_without_events(engine, [ref])
    for problem in (*report.problems, *problems):
        output.print_message(problem)
    return REFUSED if report.problems else DONE


def _build_lines(report: Incident, name: str, argument: str, unknown: tuple[str, ...]) -> Iterator[str]:
    """Yield the page line by line; a section begins with its title."""
    from rqtui.engine.health.rules import format_finding
    from rqtui.operations.journal import format_clock
    from rqtui.text.sanitise import safe

    places = ", ".join(f"{place} {number}" for place, number in report.queue.map_counts_by_place().items())
    yield f"{safe(name)} ({report.ref.system}) at {format_clock(report.taken_ms)}: {places}"
    yield from _title("findings")
    for finding in report.queue.findings:
        yield f"  {finding.severity:<8}  {safe(format_finding(finding, report.taken_ms))}"
    if not report.queue.findings:
        yield "  none"
    if unknown:
        yield f"  unknown: {', '.join(unknown)}"
    yield from _title("errors")
    yield from _build_error_lines(report)
    yield from _title("workers")
    yield from _build_worker_lines(report)
    yield from _title("what differs")
    yield from _build_difference_lines(report)
    yield from _title("changes of the last 24 hours, made from this machine")
    yield from _build_change_lines(report.changes)
    if report.precedents:
        yield from _title("after the same finding before")
        for precedent in report.precedents:
            end = f"over at {format_clock(precedent.ended_ms)}" if precedent.ended_ms else "its end was not recorded"
            yield f"  {format_clock(precedent.sighting.at_ms)}  {safe(precedent.sighting.text)} ({end})"
            yield from (f"  {line}" for line in _build_change_lines(precedent.changes))
    yield from _title("what helps now")
    commands = list_commands(report, argument)
    yield from (f"  {command}" for command in commands) if commands else ["  nothing needs to be done"]


def _title(text: str) -> list[str]:
    return ["", text]


def _build_error_lines(report: Incident) -> Iterator[str]:
    from rqtui.operations.journal import format_clock
    from rqtui.reports.sampling import Extent
    from rqtui.text.formats import format_quantity

    if report.errors is None:
        yield "  no error is stored"
        return
    size: Extent = report.errors.size
    jobs = format_quantity(size.of, "job")
    yield f"  {f'{size.looked} of ' if size.looked < size.of else ''}{jobs}, dead or waiting for a retry, were read"
    for group in report.errors.groups[:MAX_CAUSES]:
        times = " to ".join(format_clock(at_ms) for at_ms in (group.first_ms, group.last_ms) if at_ms)
        message = documents.mask_job_text(group.short_message) or "without an error"
        where = f" at {documents.mask_job_text(group.frame)}" if group.frame else ""
        yield f"  {group.count:>7}  {message}{where}"
        kinds = ", ".join(documents.mask_job_text(kind) or "" for kind in group.kinds[:MAX_NAMES])
        facts = [times, f"kinds {kinds}" if kinds else "", f"such as {documents.format_id(group.example.id)}"]
        yield f"           {' · '.join(filter(None, facts))}"
    if len(report.errors.groups) > MAX_CAUSES:
        yield f"           {format_quantity(len(report.errors.groups) - MAX_CAUSES, 'more cause')}"


def _build_worker_lines(report: Incident) -> Iterator[str]:
    from rqtui.reports.incident import count_hosts
    from rqtui.text.formats import format_quantity
    from rqtui.text.sanitise import safe

    if not report.are_workers_known:
        yield f"  unknown: {report.ref.system} stores no names of workers"
        return
    standings = Counter(entry.standing.value for entry in report.workers)
    yield f"  {', '.join(f'{number} {word}' for word, number in standings.items()) or 'none is known'}"
    if silent := report.silent_workers:
        names = ", ".join(safe(entry.name) for entry in silent[:MAX_NAMES])
        held = format_quantity(sum(len(entry.jobs) for entry in silent), "job")
        more = f" and {len(silent) - MAX_NAMES} more" if len(silent) > MAX_NAMES else ""
        yield f"  silent, and holding {held} of those that were read: {names}{more}"
    if hosts := count_hosts(report.workers):
        yield f"  hosts: {', '.join(f'{safe(host)} {number}' for host, number in hosts.most_common(MAX_NAMES))}"


def _build_difference_lines(report: Incident) -> Iterator[str]:
    from rqtui.reports.comparison import explain_no_difference, format_difference, format_side

    if report.comparison is None:
        yield f"  not compared: {report.not_compared}"
        return
    yield f"  {format_side(report.comparison.a)}, against {format_side(report.comparison.b)}"
    found = [each for each in report.comparison.differences.found if not each.is_result]
    if not found:
        yield f"  {explain_no_difference(report.comparison)}"
    for difference in found[:MAX_DIFFERENCES]:
        yield f"  {format_difference(report.comparison, difference)}"


def _build_change_lines(changes: tuple[Operation, ...]) -> Iterator[str]:
    from rqtui.operations.journal import format_clock
    from rqtui.text.sanitise import safe

    for change in changes[:MAX_CHANGES]:
        why = f" ({safe(change.why)})" if change.why else ""
        what = f"{change.verb}: {safe(change.describe_outcomes())}{why}"
        yield f"  {format_clock(change.at_ms)}  {safe(change.who)}  {what}"
    if not changes:
        yield "  none"


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
    from rqtui.reports.incident import count_hosts

    if not report.are_workers_known:
        return None
    return {
        "states": dict(Counter(entry.standing.value for entry in report.workers)),
        "silent": [documents.escape_undecodable(entry.name) for entry in report.silent_workers],
        "hosts": dict(count_hosts(report.workers)),
    }


def _build_differences_document(report: Incident) -> dict[str, Any]:
    from rqtui.cli.diff import build_comparison_document

    assert report.comparison is not None
    return build_comparison_document(report.comparison)
