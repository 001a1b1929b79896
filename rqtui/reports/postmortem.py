"""Build the report of an incident: findings, changes with their author and reason, and their effect.

The report is built from the journal (`operations/journal.py`) and, if a Redis is reachable, from the minute counters
of its queues, drawn as text. `build_document` builds the same report as JSON; `export_report` writes both to new files.
It contains no bodies, URLs are masked, and data of queues is escaped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
from rqtui.reports.jobs import format_word
from rqtui.text.formats import format_duration, format_quantity
from rqtui.text.sanitise import EMPTY_ID, safe

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.operations.watch import Sample

HOUR_MS = 3_600_000
MAX_PLOTS = 8  # queues with plots on a page
_WIDTH, _HEIGHT = 60, 4
_BLOCKS = " ▁▂▃▄▅▆▇█"


class Curve(NamedTuple):
    """One curve of a plot: its name and (time in ms, value) points, oldest first."""

    name: str
    points: Sequence[tuple[int, float]]


class Plot(NamedTuple):
    """The curves of one queue."""

    ref: Ref
    curves: tuple[Curve, ...]


# -- what is drawn --------------------------------------------------------------------------------------------------


def plot_samples(samples: Mapping[Ref, Iterable[Sample]]) -> list[Plot]:
    """Build plots of ready, reserved and dead jobs from the samples that a screen kept."""
    states = (State.READY, State.RESERVED, State.DEAD)
    return [
        Plot(ref, tuple(Curve(state, [(one.at_ms, one.counts[state]) for one in seen]) for state in states))
        for ref, many in list(samples.items())[:MAX_PLOTS]
        if len(seen := list(many)) > 1
    ]


def plot_last_hour(engine: Engine, refs: Sequence[Ref], now_ms: int) -> list[Plot]:
    """Build plots of the last hour from the minute counters of the queues; systems without counters are skipped."""
    from rqtui.engine import history as stats

    known = [ref for ref in dict.fromkeys(refs) if stats.has_history(engine.systems[ref.system])][:MAX_PLOTS]
    asks = [lambda ref=ref: stats.build_history_request(engine.systems[ref.system], ref.queue, 60) for ref in known]
    plots = []
    for ref, history in zip(known, engine.send_requests_isolated(asks), strict=True):
        if not isinstance(history, stats.History) or not history.flows:
            continue
        minutes = stats.compute_growth_per_minute([history], now_ms - HOUR_MS, now_ms)
        flows = {
            name: [(at, float(stats.sum_flow_counters(grown, name))) for at, grown in minutes] for name in history.flows
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
) -> str:
    """Build the Markdown page of an incident: a timeline of findings and changes, change details, plots and ids."""
    told = sorted(operations, key=lambda each: each.at_ms)
    places = sorted({(each.url, each.profile) for each in told})
    lines = [f"# {title}", ""]
    lines += [
        f"* {_escape_markdown(url)}" + (f" (profile {_escape_markdown(profile)})" if profile else "")
        for url, profile in places
    ]
    if reasons := list(dict.fromkeys(each.why for each in told if each.why)):
        lines += [f"* why: {_escape_markdown('; '.join(reasons))}"]
    lines += [_escape_markdown(problem) for problem in problems]
    if not told and not problems:
        lines += ["No change was made."]
    if told or sightings:
        lines += ["", "## Timeline", "", *_build_timeline(told, sightings)]
    if told:
        lines += ["", "## Changes", "", *_build_changes(told)]
    for plot in plots:
        lines += ["", f"## {_escape_markdown(plot.ref.queue)} ({plot.ref.system})", "", *_draw_plot(plot)]
    for number, each in enumerate(told, 1):
        if each.ids:
            of = f"the first {len(each.ids)} of {each.count}" if each.count > len(each.ids) else str(len(each.ids))
            lines += [
                "",
                f"## Ids of {number}: {_escape_markdown(each.verb)} {_escape_markdown(each.queue_label)}, {of}",
                "",
            ]
            lines += [f"* {_escape_markdown(format_word(id)) or EMPTY_ID}" for id in each.ids]
    return "\n".join([*lines, ""])


def _build_timeline(operations: Sequence[Operation], sightings: Sequence[Sighting]) -> list[str]:
    came: dict[tuple[str, str, str], int] = {}
    rows: list[tuple[int, str, str, str]] = []
    is_of_many = len({each.url for each in operations}) > 1
    for one in sightings:
        key = (one.system, one.queue, one.kind)
        if one.is_over:
            since = f" after {format_duration(one.at_ms - came[key])}" if key in came else ""
            rows.append((one.at_ms, "over", f"{one.system}:{one.queue}", f"{one.text}{since}"))
        else:
            came[key] = one.at_ms
            rows.append((one.at_ms, one.severity, f"{one.system}:{one.queue}", one.text))
    for each in operations:
        place = f"{each.url} " * is_of_many + each.full_queue_label
        if each.began_ms and each.at_ms - each.began_ms >= 1000:
            rows.append((each.began_ms, "change", place, f"{each.verb} begins{_format_reason(each)}"))
        jobs = f" ({format_quantity(each.count, 'job')})" if each.count else ""
        stopped = each.stopped if each.stopped not in each.error else ""
        words = "; ".join(filter(None, (each.describe_outcomes(), stopped)))
        rows.append((each.at_ms, "change", place, f"{each.verb}{jobs}: {words or 'done'}"))
        if each.undone_at_ms:
            rows.append((each.undone_at_ms, "change", place, f"{each.verb} is undone"))
    lines = ["| time | what | queue | |", "|---|---|---|---|"]
    for at_ms, what, queue, words in sorted(rows, key=lambda row: row[0]):
        lines.append("| " + " | ".join(map(_escape_markdown, (format_clock(at_ms), what, queue, words))) + " |")
    return lines


def _format_reason(operation: Operation) -> str:
    told = [operation.chosen, f"at {operation.rate}" if operation.rate else "", operation.why]
    words = ", ".join(filter(None, told))
    return f": {words}" if words else ""


def _build_changes(operations: Sequence[Operation]) -> list[str]:
    is_of_many = len({each.url for each in operations}) > 1
    where = " server |" if is_of_many else ""
    lines = [f"| | time |{where} who | what | queue | jobs | answers | undo |"]
    lines += [f"|---:|---|{'---|' if is_of_many else ''}---|---|---|---:|---|---|"]
    for number, each in enumerate(operations, 1):
        server = (each.url,) if is_of_many else ()
        cells = (format_clock(each.at_ms), *server, each.who, each.verb, each.full_queue_label, str(each.count or "·"))
        lines.append(
            f"| {number} | "
            + " | ".join(
                [*map(_escape_markdown, cells), _escape_markdown(each.describe_outcomes()), describe_undo(each)]
            )
            + " |"
        )
    for number, each in enumerate(operations, 1):
        if told := list_circumstances(each):
            lines += ["", f"### {number}. {_escape_markdown(each.verb)} {_escape_markdown(each.queue_label)}", ""]
            lines += [f"* {name}: {_escape_markdown(words)}" for name, words in told]
    return lines


def list_circumstances(operation: Operation) -> list[tuple[str, str]]:
    """Return the known circumstances of a change as (name, text) pairs."""
    took_ms = operation.at_ms - operation.began_ms if operation.began_ms else 0
    told = (
        ("why", operation.why),
        ("which", operation.chosen),
        ("rate", operation.rate),
        ("took", format_duration(took_ms) if took_ms >= 1000 else ""),
        ("stopped", operation.stopped),
        ("before", format_counts(operation.before)),
        ("after", format_counts(operation.after)),
    )
    return [(name, words) for name, words in told if words]


def format_counts(counts: Counts) -> str:
    """Format counts per place as `ready 20012, dead 5000`; with several queues each has its name in front."""
    told = []
    for queue, places in counts.items():
        words = ", ".join(f"{place} {number}" for place, number in places.items() if number) or "nothing"
        told.append(f"{queue}: {words}" if len(counts) > 1 else words)
    return "; ".join(told)


# -- drawing --------------------------------------------------------------------------------------------------------


def _draw_plot(plot: Plot) -> list[str]:
    lines = ["```text"]
    for curve in plot.curves:
        if any(value for _at, value in curve.points):
            lines += [*draw_curve(curve), ""]
    return [*lines[:-1], "```"] if len(lines) > 1 else ["Nothing was counted in this time."]


def draw_curve(curve: Curve, width: int = _WIDTH, height: int = _HEIGHT) -> list[str]:
    """Draw a curve as text: name and maximum, `height` lines of blocks, and its first and last time."""
    first_ms, last_ms = curve.points[0][0], curve.points[-1][0]
    step = max(1, last_ms - first_ms) / width
    most: list[float] = [0.0] * width
    for at_ms, value in curve.points:  # the maximum per column keeps a spike of one minute visible
        column = min(width - 1, int((at_ms - first_ms) / step))
        most[column] = max(most[column], value)
    if len(curve.points) < width:
        most = _fill_gaps(curve, most, first_ms, step)
    top = max(most) or 1.0
    lines = [f"{curve.name}, at most {max(most):.0f}"]
    for row in range(height - 1, -1, -1):
        eighths = (round(value / top * height * 8) - row * 8 for value in most)
        lines.append("".join(_BLOCKS[min(8, max(0, eighth))] for eighth in eighths).rstrip())
    begin, end = (_format_hour(at_ms) for at_ms in (first_ms, last_ms))
    return [*lines, f"{begin}{end:>{width - len(begin)}}"]


def _fill_gaps(curve: Curve, most: list[float], first_ms: int, step: float) -> list[float]:
    """Fill columns without a point with the value of the point before them."""
    points, at = list(curve.points), 0
    for column in range(len(most)):
        while at + 1 < len(points) and points[at + 1][0] <= first_ms + column * step:
            at += 1
        most[column] = max(most[column], points[at][1])
    return most


def _format_hour(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, MAX_INSTANT_MS) / 1000).astimezone():%H:%M}"


# -- for programs, and files ----------------------------------------------------------------------------------------


def build_document(operations: Iterable[Operation], sightings: Iterable[Sighting] | None = None) -> dict[str, Any]:
    """Build the JSON document of `rqtui operations --json`; an export also has the findings."""
    made = []
    for each in operations:
        fresh = to_document(each)
        fresh["ids"] = [format_word(id) for id in each.ids]
        fresh["queue"], fresh["others"] = format_word(each.queue), [format_word(name) for name in each.others]
        for name in ("before", "after"):
            fresh[name] = {format_word(queue): dict(places) for queue, places in fresh[name].items()}
        fresh["filter"] = fresh.pop("chosen")
        made.append(fresh)
    found = {} if sightings is None else {"findings": [_build_finding_document(one) for one in sightings]}
    return {"operations": made, **found}


def _build_finding_document(one: Sighting) -> dict[str, Any]:
    return {**build_stored_fields(one), "queue": format_word(one.queue)}


def export_report(
    operations: Sequence[Operation], folder: Path, sightings: Sequence[Sighting] = (), plots: Sequence[Plot] = ()
) -> tuple[Path, Path]:
    """Write the report as Markdown and as JSON into two new files of `folder`, and return their paths.

    The files contain no bodies, and URLs are masked. Raises OSError.
    """
    stem = f"rqtui-operations-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    page, data = folder / f"{stem}.md", folder / f"{stem}.json"
    text = build_markdown(operations, sightings, plots, "What happened")
    append_line(page, text.encode("utf-8", "backslashreplace"), is_new=True)
    append_line(data, json.dumps(build_document(operations, sightings), indent=2).encode() + b"\n", is_new=True)
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
