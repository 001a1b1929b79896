"""Build the report of an incident: causes, findings, changes with author and reason, and the counts before and after.

The report is built from the journal (`operations/journal.py`) and, if a Redis is reachable, from the errors of its dead
jobs and the minute counters of its queues, drawn as text. `build_document` builds the same report as JSON, which also
lists the ids of the changed jobs; `export_report` writes both to new files. The report contains no bodies, secrets and
URLs are masked, and data of queues is escaped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rqtui.durations import MAX_INSTANT_MS
from rqtui.model import Ref, State
from rqtui.operations.journal import (
    Counts,
    Operation,
    Sighting,
    append_line,
    build_stored_fields,
    describe_undo,
    format_clock,
    to_document,
)
from rqtui.reports.jobs import format_command_line_word
from rqtui.text.formats import elide_middle, fit_to_width, format_duration, format_quantity
from rqtui.text.masking import mask_text
from rqtui.text.sanitise import safe

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.operations.watch import Sample
    from rqtui.reports.errors import Errors, Group

HOUR_MS = 3_600_000
MAX_PLOTS = 2  # queues with plots on a page
MAX_CAUSES = 8  # causes on a page
_MAX_MESSAGE = 120  # characters of an error message on a page
_WIDTH, _HEIGHT = 60, 3
Clock = Callable[[int], str]  # formats a time in ms
_BLOCKS = " ▁▂▃▄▅▆▇█"


class Curve(NamedTuple):
    """One curve of a plot: its name and (time in ms, value) points, oldest first."""

    name: str
    points: Sequence[tuple[int, float]]


class Plot(NamedTuple):
    """The curves of one queue, drawn together."""

    ref: Ref
    curves: tuple[Curve, ...]


class ErrorCauses(NamedTuple):
    """The causes of the errors of queues at one time, as the errors view groups them.

    `jobs_read` of `jobs` dead jobs and jobs that wait for a retry were read for it.
    """

    at_ms: int
    groups: tuple[Group, ...]
    jobs_read: int
    jobs: int

    @property
    def failed_jobs(self) -> int:
        """The number of jobs in all groups."""
        return sum(group.count for group in self.groups)


# -- the causes -----------------------------------------------------------------------------------------------------


def summarise_causes(report: Errors) -> ErrorCauses:
    """Return the causes of an error report, with one example job per group."""
    groups = tuple(replace(group, jobs=group.jobs[:1]) for group in report.groups)
    return ErrorCauses(report.size.taken_ms, groups, report.size.looked, report.size.of)


def load_error_causes(engine: Engine, refs: Sequence[Ref]) -> ErrorCauses | None:
    """Load the causes of the errors in these queues. None if there are no queues, or none has an error."""
    from rqtui.reports.errors import yield_error_reports

    report = None
    for step in yield_error_reports(engine, refs) if refs else ():
        report = step or report
    return summarise_causes(report) if report and report.groups else None


def choose_larger_causes(first: ErrorCauses | None, second: ErrorCauses | None) -> ErrorCauses | None:
    """Return the causes of more failed jobs: a report is often written after most of them were requeued."""
    return max((each for each in (first, second) if each), key=lambda causes: causes.failed_jobs, default=None)


def _build_cause_lines(causes: ErrorCauses, clock: Clock) -> list[str]:
    """Build the Markdown table of causes: the number of jobs, the error, its line of code, times and an example."""
    lines = ["| jobs | error | line of code | first failure | last failure | example |", "|---:|---|---|---|---|---|"]
    for group in causes.groups[:MAX_CAUSES]:
        times = (clock(at_ms) if at_ms else "unknown" for at_ms in (group.first_ms, group.last_ms))
        message = fit_to_width(mask_text(group.short_message) or "without an error", _MAX_MESSAGE).rstrip()
        example = elide_middle(format_command_line_word(group.example.id), 60)
        cells = (message, group.frame or "unknown", *times, example)
        lines.append(f"| {group.count} | " + " | ".join(map(_escape_markdown, cells)) + " |")
    read = f"{causes.jobs_read} of " if causes.jobs_read < causes.jobs else ""
    others = len(causes.groups) - MAX_CAUSES
    rest = f" {format_quantity(others, 'more cause')} in the JSON file." if others > 0 else ""
    jobs = f"{read}{format_quantity(causes.jobs, 'job')}, dead or waiting for a retry"
    return [*lines, "", f"Read at {clock(causes.at_ms)}: {jobs}.{rest}"]


def _build_cause_documents(causes: ErrorCauses) -> list[dict[str, Any]]:
    return [
        {
            "jobs": group.count,
            "error": mask_text(group.message),
            "line": group.frame or None,
            "first_ms": group.first_ms,
            "last_ms": group.last_ms,
            "kinds": list(group.kinds),
            "queues": [format_command_line_word(str(ref)) for ref in group.refs],
            "example": format_command_line_word(group.example.id),
        }
        for group in causes.groups
    ]


# -- what is drawn --------------------------------------------------------------------------------------------------


def plot_samples(samples: Mapping[Ref, Iterable[Sample]]) -> list[Plot]:
    """Build plots of ready, reserved and dead jobs from the samples that a screen took."""
    states = (State.READY, State.RESERVED, State.DEAD)
    return [
        Plot(
            ref,
            tuple(Curve(state, [(sample.at_ms, sample.counts[state]) for sample in queue_samples]) for state in states),
        )
        for ref, queue_samples_read in list(samples.items())[:MAX_PLOTS]
        if len(queue_samples := list(queue_samples_read)) > 1
    ]


def plot_last_hour(engine: Engine, refs: Sequence[Ref], now_ms: int) -> list[Plot]:
    """Build plots of the last hour from the minute counters of queues. Systems without counters are skipped."""
    from rqtui.engine import history as stats

    counted_refs = [ref for ref in dict.fromkeys(refs) if stats.has_history(engine.systems[ref.system])][:MAX_PLOTS]
    request_builders = [
        lambda ref=ref: stats.build_history_request(engine.systems[ref.system], ref.queue, 60) for ref in counted_refs
    ]
    plots = []
    for ref, history in zip(counted_refs, engine.send_requests_isolated(request_builders), strict=True):
        if not isinstance(history, stats.History) or not history.flows:
            continue
        minutes = stats.compute_growth_per_minute([history], now_ms - HOUR_MS, now_ms)
        flows = {
            name: [(at_ms, float(stats.sum_flow_counters(growth, name))) for at_ms, growth in minutes]
            for name in history.flows
        }
        plots.append(Plot(ref, tuple(Curve(f"{name} per minute", points) for name, points in flows.items())))
    return plots


# -- the page -------------------------------------------------------------------------------------------------------


def build_markdown(
    operations: Sequence[Operation],
    sightings: Sequence[Sighting] = (),
    plots: Sequence[Plot] = (),
    title: str = "Operations",
    problems: Sequence[str] = (),
    causes: ErrorCauses | None = None,
) -> str:
    """Build the Markdown page of an incident: causes, a timeline of findings and changes, change details and plots."""
    ordered = sorted(operations, key=lambda operation: operation.at_ms)
    day, clock = _choose_clock(ordered, sightings, causes)
    places = sorted({(operation.url, operation.profile) for operation in ordered})
    lines = [f"# {title}", ""]
    lines += [f"* {day}"] * bool(day)
    lines += [
        f"* {_escape_markdown(url)}" + (f" (profile {_escape_markdown(profile)})" if profile else "")
        for url, profile in places
    ]
    if reasons := list(dict.fromkeys(operation.why for operation in ordered if operation.why)):
        lines += [f"* why: {_escape_markdown('; '.join(reasons))}"]
    lines += [_escape_markdown(problem) for problem in problems]
    if not ordered and not problems:
        lines += ["No change was made."]
    if causes is not None:
        lines += ["", "## Causes", "", *_build_cause_lines(causes, clock)]
    if ordered or sightings:
        lines += ["", "## Timeline", "", *_build_timeline_lines(ordered, sightings, clock)]
    if ordered:
        lines += ["", "## Changes", "", *_build_change_lines(ordered, clock)]
    for plot in plots:
        lines += ["", f"## {_escape_markdown(plot.ref.queue)} ({plot.ref.system})", "", *_draw_plot_lines(plot)]
    if any(operation.ids for operation in ordered):
        lines += ["", "The ids of the changed jobs are in the JSON file beside this page: rqtui operations --json."]
    return "\n".join([*lines, ""])


def _choose_clock(
    operations: Iterable[Operation], sightings: Iterable[Sighting], causes: ErrorCauses | None
) -> tuple[str, Clock]:
    """Return the day and zone of all times of a page with a format of the time alone.

    If the times are of several days, return an empty text and a format with day and zone.
    """
    times_ms = {sighting.at_ms for sighting in sightings}
    times_ms |= {at_ms for each in operations for at_ms in (each.began_ms, each.at_ms, each.undone_at_ms) if at_ms}
    groups = causes.groups if causes else ()
    times_ms |= {at_ms for group in groups for at_ms in (group.first_ms, group.last_ms) if at_ms}
    times_ms |= {causes.at_ms} if causes else set()
    days = {(text[:10], text[20:]) for text in map(format_clock, times_ms)}
    if len(days) != 1:
        return "", format_clock
    [(day, zone)] = days
    return f"{day}, times of the zone UTC{zone}", lambda at_ms: format_clock(at_ms)[11:19]


def _build_timeline_lines(operations: Sequence[Operation], sightings: Sequence[Sighting], clock: Clock) -> list[str]:
    """Build the Markdown table of findings and changes in the order of their time."""
    appeared_ms: dict[tuple[str, str, str], int] = {}
    rows: list[tuple[int, str, str, str]] = []
    has_several_servers = len({operation.url for operation in operations}) > 1
    for sighting in sightings:
        key = (sighting.system, sighting.queue, sighting.kind)
        if sighting.is_over:
            since = f" after {format_duration(sighting.at_ms - appeared_ms[key])}" if key in appeared_ms else ""
            rows.append((sighting.at_ms, "over", f"{sighting.system}:{sighting.queue}", f"{sighting.text}{since}"))
        else:
            appeared_ms[key] = sighting.at_ms
            rows.append((sighting.at_ms, sighting.severity, f"{sighting.system}:{sighting.queue}", sighting.text))
    for operation in operations:
        place = f"{operation.url} " * has_several_servers + operation.full_queue_label
        if operation.began_ms and operation.at_ms - operation.began_ms >= 1000:
            rows.append((operation.began_ms, "change", place, f"{operation.verb} begins{_format_reason(operation)}"))
        jobs = f" ({format_quantity(operation.count, 'job')})" if operation.count else ""
        stopped = operation.stopped if operation.stopped not in operation.error else ""
        text = "; ".join(filter(None, (operation.describe_outcomes(), stopped)))
        rows.append((operation.at_ms, "change", place, f"{operation.verb}{jobs}: {text or 'done'}"))
        if operation.undone_at_ms:
            rows.append((operation.undone_at_ms, "change", place, f"{operation.verb} is undone"))
    lines = ["| time | what | queue | |", "|---|---|---|---|"]
    for at_ms, what, queue, text in sorted(rows, key=lambda row: row[0]):
        lines.append("| " + " | ".join(map(_escape_markdown, (clock(at_ms), what, queue, text))) + " |")
    return lines


def _format_reason(operation: Operation) -> str:
    """Format which jobs a change was for, at what speed and why; empty if nothing was given."""
    parts = [operation.chosen, f"at {operation.rate}" if operation.rate else "", operation.why]
    text = ", ".join(filter(None, parts))
    return f": {text}" if text else ""


def _build_change_lines(operations: Sequence[Operation], clock: Clock) -> list[str]:
    """Build the Markdown table of changes, and below it a line for each with its circumstances and counts."""
    has_several_servers = len({operation.url for operation in operations}) > 1
    where = " server |" if has_several_servers else ""
    lines = [f"| | time |{where} who | what | queue | jobs | answers | undo |"]
    lines += [f"|---:|---|{'---|' if has_several_servers else ''}---|---|---|---:|---|---|"]
    for position, operation in enumerate(operations, 1):
        server = (operation.url,) if has_several_servers else ()
        cells = (
            clock(operation.at_ms),
            *server,
            operation.who,
            operation.verb,
            operation.full_queue_label,
            str(operation.count or "·"),
        )
        lines.append(
            f"| {position} | "
            + " | ".join(
                [
                    *map(_escape_markdown, cells),
                    _escape_markdown(operation.describe_outcomes()),
                    describe_undo(operation),
                ]
            )
            + " |"
        )
    details = [(position, _format_details(operation)) for position, operation in enumerate(operations, 1)]
    detail_lines = [f"* {position}: {_escape_markdown(text)}" for position, text in details if text]
    return [*lines, *([""] if detail_lines else []), *detail_lines]


def _format_details(operation: Operation) -> str:
    """Format the circumstances of a change, and the counts before and after of the places that changed."""
    pairs = [pair for pair in list_circumstances(operation) if pair[0] not in ("before", "after")]
    if operation.before and operation.after:
        pairs.append(("counts", format_count_changes(operation.before, operation.after)))
    else:
        pairs += [pair for pair in list_circumstances(operation) if pair[0] in ("before", "after")]
    return "; ".join(f"{name}: {text}" for name, text in pairs)


def list_circumstances(operation: Operation) -> list[tuple[str, str]]:
    """Return the known circumstances of a change as (name, text) pairs."""
    duration_ms = operation.at_ms - operation.began_ms if operation.began_ms else 0
    pairs = (
        ("why", operation.why),
        ("which", operation.chosen),
        ("rate", operation.rate),
        ("took", format_duration(duration_ms) if duration_ms >= 1000 else ""),
        ("stopped", operation.stopped),
        ("before", format_counts(operation.before)),
        ("after", format_counts(operation.after)),
    )
    return [(name, text) for name, text in pairs if text]


def format_counts(counts: Counts) -> str:
    """Format job counts per place: `ready 20012, dead 5000`. With several queues, names are shown."""
    texts = []
    for queue, places in counts.items():
        place_counts = ", ".join(f"{place} {count}" for place, count in places.items() if count) or "nothing"
        texts.append(f"{queue}: {place_counts}" if len(counts) > 1 else place_counts)
    return "; ".join(texts)


def format_count_changes(before: Counts, after: Counts) -> str:
    """Format the counts that differ: `dead 5000 → 2500, ready 20187 → 22685`. Several queues have names."""
    texts = []
    for queue in dict.fromkeys((*before, *after)):
        old, new = before.get(queue, {}), after.get(queue, {})
        changed = [place for place in dict.fromkeys((*old, *new)) if old.get(place, 0) != new.get(place, 0)]
        counts = ", ".join(f"{place} {old.get(place, 0)} → {new.get(place, 0)}" for place in changed) or "unchanged"
        texts.append(f"{queue}: {counts}" if len(after) > 1 else counts)
    return "; ".join(texts)


# -- drawing --------------------------------------------------------------------------------------------------------


def _draw_plot_lines(plot: Plot) -> list[str]:
    """Draw the curves of a queue as lines of text in a Markdown code block."""
    lines = ["```text"]
    for curve in plot.curves:
        if any(value for _at, value in curve.points):
            lines += [*draw_curve(curve), ""]
    return [*lines[:-1], "```"] if len(lines) > 1 else ["Nothing was counted in this time."]


def draw_curve(curve: Curve, width: int = _WIDTH, height: int = _HEIGHT) -> list[str]:
    """Draw a curve as text: its name and maximum, `height` lines of blocks, and its first and last time."""
    first_ms, last_ms = curve.points[0][0], curve.points[-1][0]
    step = max(width, last_ms - first_ms) / width
    column_maxima: list[float] = [0.0] * width
    for at_ms, value in curve.points:  # the maximum per column keeps a spike of one minute visible
        column = min(width - 1, int((at_ms - first_ms) / step))
        column_maxima[column] = max(column_maxima[column], value)
    if len(curve.points) < width:
        column_maxima = _fill_gaps(curve, column_maxima, first_ms, step)
    top = max(column_maxima) or 1.0
    lines = [f"{curve.name}, at most {max(column_maxima):.0f}"]
    for row in range(height - 1, -1, -1):
        eighths = (round(value / top * height * 8) - row * 8 for value in column_maxima)
        lines.append("".join(_BLOCKS[min(8, max(0, eighth))] for eighth in eighths).rstrip())
    begin, end = (_format_hour(at_ms) for at_ms in (first_ms, last_ms))
    return [*lines, f"{begin}{end:>{width - len(begin)}}"]


def _fill_gaps(curve: Curve, column_maxima: list[float], first_ms: int, step: float) -> list[float]:
    """Fill columns without a point with the value of the last point before them."""
    points, index = list(curve.points), 0
    for column in range(len(column_maxima)):
        while index + 1 < len(points) and points[index + 1][0] <= first_ms + column * step:
            index += 1
        column_maxima[column] = max(column_maxima[column], points[index][1])
    return column_maxima


def _format_hour(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, MAX_INSTANT_MS) / 1000).astimezone():%H:%M}"


# -- for programs, and files ----------------------------------------------------------------------------------------


def build_document(
    operations: Iterable[Operation],
    sightings: Iterable[Sighting] | None = None,
    causes: ErrorCauses | None = None,
) -> dict[str, Any]:
    """Build the JSON document of `rqtui operations --json`; an export also has the findings and the causes."""
    documents = []
    for operation in operations:
        document = to_document(operation)
        document["ids"] = [format_command_line_word(id) for id in operation.ids]
        document["queue"], document["others"] = (
            format_command_line_word(operation.queue),
            [format_command_line_word(name) for name in operation.others],
        )
        for name in ("before", "after"):
            document[name] = {format_command_line_word(queue): dict(places) for queue, places in document[name].items()}
        document["filter"] = document.pop("chosen")
        documents.append(document)
    findings = {} if sightings is None else {"findings": [_build_finding_document(sighting) for sighting in sightings]}
    cause_documents = {} if causes is None else {"causes": _build_cause_documents(causes)}
    return {"operations": documents, **findings, **cause_documents}


def _build_finding_document(sighting: Sighting) -> dict[str, Any]:
    return {**build_stored_fields(sighting), "queue": format_command_line_word(sighting.queue)}


def export_report(
    operations: Sequence[Operation],
    folder: Path,
    sightings: Sequence[Sighting] = (),
    plots: Sequence[Plot] = (),
    causes: ErrorCauses | None = None,
) -> tuple[Path, Path]:
    """Write the report of an incident as Markdown and as JSON into two new files of `folder`. Return their paths.

    The files contain no bodies, and URLs are masked. Raises OSError.
    """
    stem = f"rqtui-operations-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    page, data = folder / f"{stem}.md", folder / f"{stem}.json"
    text = build_markdown(operations, sightings, plots, "What happened", causes=causes)
    append_line(page, text.encode("utf-8", "backslashreplace"), is_new=True)
    append_line(data, json.dumps(build_document(operations, sightings, causes), indent=2).encode() + b"\n", is_new=True)
    return page, data


_MARKS = str.maketrans({sign: "\\" + sign for sign in "\\`*_[]<>|#~&$!"})
# GitHub turns addresses of pages and of people into links by itself.
_LINK = re.compile(
    r"(?:(?<=http:)|(?<=ftp:))(?=//)|(?<=https:)(?=//)|(?<=www)(?=\.)|(?<!\S)(?=@)|(?=@[\w-]+\.\w)", re.IGNORECASE
)
_LIST = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")  # the start of a Markdown list


def _escape_markdown(text: str) -> str:
    """Escape data so that Markdown shows it letter by letter, without terminal control characters."""
    return _LIST.sub(r"\1\\", _LINK.sub(r"\\", safe(text).translate(_MARKS)))
