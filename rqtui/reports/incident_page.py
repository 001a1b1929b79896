"""Format the report of an incident as a page of text, for the shell and for the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rqtui.engine.health.rules import format_finding
from rqtui.operations.journal import Operation, format_clock
from rqtui.reports import course as courses
from rqtui.reports.comparison import explain_no_difference, format_difference, format_side
from rqtui.reports.incident import Effect, EndedFinding, Incident, count_hosts, count_versions
from rqtui.reports.jobs import mask_job_text
from rqtui.text.formats import format_age_since, format_instant, format_quantity
from rqtui.text.names import join_names
from rqtui.text.sanitise import format_id, safe

MAX_CAUSES = MAX_CHANGES = MAX_DIFFERENCES = 8  # lines of a section
MAX_NAMES = 5


def build_page_lines(
    report: Incident,
    name: str,
    commands: Sequence[str],
    unknown: Sequence[str] = (),
    plot_size: tuple[int, int] = (72, 4),
) -> Iterator[str]:
    """Yield the page line by line. A section begins with an empty line and its title; its lines are indented.

    `commands` are what helps now, `unknown` the facts that cannot be known. `plot_size` are cells and rows.
    """
    places = ", ".join(f"{place} {number}" for place, number in report.queue.map_counts_by_place().items())
    yield f"{safe(name)} ({report.ref.system}) at {format_clock(report.taken_ms)}: {places}"
    yield from _build_title_lines("findings")
    if report.ended is not None:
        yield from _build_ended_lines(report.ended, report)
    for finding in report.queue.findings:
        yield f"  {finding.severity:<8}  {safe(format_finding(finding, report.taken_ms))}"
    if not report.queue.findings:
        yield "  none"
    if unknown:
        yield f"  unknown: {', '.join(unknown)}"
    yield from _build_title_lines("since when")
    yield from _build_course_lines(report, *plot_size)
    yield from _build_title_lines("errors")
    yield from _build_error_lines(report)
    yield from _build_title_lines("workers")
    yield from _build_worker_lines(report)
    yield from _build_title_lines("what differs")
    yield from _build_difference_lines(report)
    yield from _build_title_lines("changes of the last 24 hours, made from this machine")
    yield from _build_change_lines(report.changes, report.taken_ms)
    if report.precedents:
        yield from _build_title_lines("after the same finding before")
        for precedent in report.precedents:
            began, ended_ms = format_instant(precedent.sighting.at_ms, report.taken_ms), precedent.ended_ms
            end = f"over at {format_instant(ended_ms, report.taken_ms)}" if ended_ms else "its end was not recorded"
            yield f"  {began}  {safe(precedent.sighting.text)} ({end})"
            yield from (f"  {line}" for line in _build_change_lines(precedent.changes, report.taken_ms))
            if precedent.effect is not None:
                yield f"    {_describe_effect(precedent.effect)}"
    yield from _build_title_lines("what helps now")
    yield from (f"  {command}" for command in commands) if commands else ["  nothing needs to be done"]


def _build_ended_lines(ended: EndedFinding, report: Incident) -> Iterator[str]:
    """Yield that the requested finding is over, since when, and what the rest of the page is about."""
    yield f"  over      {safe(ended.finding.text)}"
    when = "when it ended is unknown"
    if ended.ended_ms is not None:
        when = f"it ended at {format_instant(ended.ended_ms, report.taken_ms)}"
    yield f"            {when}{'; the page is about the worst finding now' if report.queue.findings else ''}"


def _build_title_lines(text: str) -> list[str]:
    return ["", text]


def _build_course_lines(report: Incident, width: int, height: int) -> Iterator[str]:
    """Yield since when the first finding exists, the plot of what it counts, and whether that grows."""
    begin_ms = report.recorded_begin_ms
    if begin_ms is None and report.queue.findings:
        begin_ms = report.queue.findings[0].since_ms
    if begin_ms is not None:
        age = format_age_since(begin_ms, report.taken_ms)
        yield f"  since {format_instant(begin_ms, report.taken_ms)} ({age}), as far as is known"
    elif report.queue.findings:
        yield "  unknown: no earlier look at this queue is recorded"
    if (course := report.course) is None:
        yield "  nothing is recorded or counted per minute of this queue"
        return
    yield f"  {courses.describe_source(course)}"
    yield f"  {courses.describe_trend(course)}"
    yield from (f"  {line}" for line in courses.draw_course(course, width - 2, height))
    yield from (f"  {line}" for line in courses.build_mark_lines(course))


def _describe_effect(effect: Effect) -> str:
    """Return what became of a series after changes: its means in the ten minutes before and after."""
    before, after = (
        "unknown" if value is None else courses.format_value(value) for value in (effect.before, effect.after)
    )
    minutes = courses.TREND_MINUTES
    return f"{effect.series.title}: {before} in the {minutes} min before the change, {after} in the {minutes} min after"


def _build_error_lines(report: Incident) -> Iterator[str]:
    if report.recorded_causes is not None:
        yield from (f"  {jobs:>7}  {mask_job_text(cause)}" for cause, jobs in report.recorded_causes[:MAX_CAUSES])
        if not report.recorded_causes:
            yield "  no finding named a cause of failures then; others are not recorded"
        return
    if report.errors is None:
        yield "  no error is stored"
        return
    size = report.errors.size
    jobs = format_quantity(size.of, "job")
    yield f"  {f'{size.looked} of ' if size.looked < size.of else ''}{jobs}, dead or waiting for a retry, were read"
    for group in report.errors.groups[:MAX_CAUSES]:
        times = " to ".join(
            format_instant(at_ms, report.taken_ms) for at_ms in (group.first_ms, group.last_ms) if at_ms
        )
        message = mask_job_text(group.short_message) or "without an error"
        where = f" at {mask_job_text(group.frame)}" if group.frame else ""
        yield f"  {group.count:>7}  {message}{where}"
        kinds = ", ".join(mask_job_text(kind) or "" for kind in group.kinds[:MAX_NAMES])
        facts = [times, f"kinds {kinds}" if kinds else "", f"such as {format_id(group.example.id)}"]
        yield f"           {' · '.join(filter(None, facts))}"
    if len(report.errors.groups) > MAX_CAUSES:
        yield f"           {format_quantity(len(report.errors.groups) - MAX_CAUSES, 'more cause')}"


def _build_worker_lines(report: Incident) -> Iterator[str]:
    if report.recorded_causes is not None:
        number = report.queue.workers
        yield f"  {'unknown' if number is None else format_quantity(number, 'worker')}; their names are not recorded"
        return
    if not report.are_workers_known:
        yield f"  unknown: {report.ref.system} stores no names of workers"
        return
    standings = Counter(entry.health.value for entry in report.workers)
    yield f"  {', '.join(f'{number} {word}' for word, number in standings.items()) or 'none is known'}"
    if silent := report.silent_workers:
        names = join_names([safe(entry.name) for entry in silent], MAX_NAMES)
        held = format_quantity(sum(len(entry.jobs) for entry in silent), "job")
        yield f"  silent, and holding {held} of those that were read: {names}"
    if hosts := count_hosts(report.workers):
        yield f"  hosts: {', '.join(f'{safe(host)} {number}' for host, number in hosts.most_common(MAX_NAMES))}"
    versions = count_versions(report.workers).most_common(MAX_NAMES)
    if versions:
        yield f"  versions: {'; '.join(f'{safe(version)}: {number}' for version, number in versions)}"
    elif report.workers:
        yield f"  versions: unknown, the workers of {report.ref.system} do not store theirs"


def _build_difference_lines(report: Incident) -> Iterator[str]:
    if report.comparison is None:
        yield f"  not compared: {report.not_compared}"
        return
    yield f"  {format_side(report.comparison.a)}, against {format_side(report.comparison.b)}"
    found = [each for each in report.comparison.differences.found if not each.is_result]
    if not found:
        yield f"  {explain_no_difference(report.comparison)}"
    for difference in found[:MAX_DIFFERENCES]:
        yield f"  {format_difference(report.comparison, difference)}"


def _build_change_lines(changes: tuple[Operation, ...], now_ms: int) -> Iterator[str]:
    for change in changes[:MAX_CHANGES]:
        why = f" ({safe(change.why)})" if change.why else ""
        what = f"{change.verb}: {safe(change.describe_outcomes())}{why}"
        yield f"  {format_instant(change.at_ms, now_ms)}  {safe(change.who)}  {what}"
    if not changes:
        yield "  none"
