"""Post-mortem: the page that tells an incident: what was found, who did what and why, and what came of it.

It is made of the journal (`operations/journal.py`), and with a Redis at hand of the minutes that its queues remember,
drawn as text. `as_json` is the same for programs; `export` writes both into new files. It holds no bodies, URLs are
masked, and whatever came from a queue is shown letter by letter.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rqtui.durations import LATEST_MS
from rqtui.model import Ref, State
from rqtui.operations.journal import Counts, Operation, Sighting, add, clock, document, undo_word
from rqtui.reports.jobs import word
from rqtui.text.formats import duration, numbered
from rqtui.text.sanitise import EMPTY_ID, safe

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.operations.watch import Sample

HOUR_MS = 3_600_000
QUEUES = 8  # of which a page has plots
_WIDTH, _HEIGHT = 60, 4
_BLOCKS = " ▁▂▃▄▅▆▇█"


class Curve(NamedTuple):
    """One line of a plot: what it counts, and (instant in ms, value), the oldest first."""

    name: str
    points: Sequence[tuple[int, float]]


class Plot(NamedTuple):
    """What is drawn of one queue."""

    ref: Ref
    curves: tuple[Curve, ...]


# -- what is drawn --------------------------------------------------------------------------------------------------


def sampled(samples: Mapping[Ref, Iterable[Sample]]) -> list[Plot]:
    """Plots of what a screen saw: the jobs that waited, were held and were dead."""
    states = (State.READY, State.RESERVED, State.DEAD)
    return [
        Plot(ref, tuple(Curve(state, [(one.at_ms, one.counts[state]) for one in seen]) for state in states))
        for ref, many in list(samples.items())[:QUEUES]
        if len(seen := list(many)) > 1
    ]


def gathered(engine: Engine, refs: Sequence[Ref], now_ms: int) -> list[Plot]:
    """Plots of the last hour by the minutes that queues remember; nothing of systems that count none."""
    from rqtui.engine import history as stats

    known = [ref for ref in dict.fromkeys(refs) if stats.has_stats(engine.layouts[ref.layout])][:QUEUES]
    asks = [lambda ref=ref: stats.history_ask(engine.layouts[ref.layout], ref.queue, 60) for ref in known]
    plots = []
    for ref, history in zip(known, engine.ask_each(asks), strict=True):
        if not isinstance(history, stats.History):
            continue
        minutes = stats.per_minute([history], now_ms - HOUR_MS, now_ms)
        flows = {name: [(at, float(stats.flow(grown, name))) for at, grown in minutes] for name in stats.FLOWS}
        plots.append(Plot(ref, tuple(Curve(f"{name} per minute", points) for name, points in flows.items())))
    return plots


# -- the page -------------------------------------------------------------------------------------------------------


def markdown(
    operations: Sequence[Operation],
    sightings: Sequence[Sighting] = (),
    plots: Sequence[Plot] = (),
    title: str = "Operations",
) -> str:
    """A page for a post-mortem: a timeline of findings and changes, each change in full, plots, and ids at the end."""
    told = sorted(operations, key=lambda each: each.at_ms)
    places = sorted({(each.url, each.profile) for each in told})
    lines = [f"# {title}", ""]
    lines += [f"* {_plain(url)}" + (f" (profile {_plain(profile)})" if profile else "") for url, profile in places]
    if reasons := list(dict.fromkeys(each.why for each in told if each.why)):
        lines += [f"* why: {_plain('; '.join(reasons))}"]
    if not told:
        lines += ["No change was made."]
    if told or sightings:
        lines += ["", "## Timeline", "", *_timeline(told, sightings)]
    if told:
        lines += ["", "## Changes", "", *_changes(told)]
    for plot in plots:
        lines += ["", f"## {_plain(plot.ref.queue)} ({plot.ref.layout})", "", *_plotted(plot)]
    for number, each in enumerate(told, 1):
        if each.ids:
            of = f"the first {len(each.ids)} of {each.count}" if each.count > len(each.ids) else str(len(each.ids))
            lines += ["", f"## Ids of {number}: {_plain(each.verb)} {_plain(each.where)}, {of}", ""]
            lines += [f"* {_plain(word(id)) or EMPTY_ID}" for id in each.ids]
    return "\n".join([*lines, ""])


def _timeline(operations: Sequence[Operation], sightings: Sequence[Sighting]) -> list[str]:
    came: dict[tuple[str, str, str], int] = {}
    rows: list[tuple[int, str, str, str]] = []
    is_of_many = len({each.url for each in operations}) > 1
    for one in sightings:
        key = (one.layout, one.queue, one.kind)
        if one.is_over:
            since = f" after {duration(one.at_ms - came[key])}" if key in came else ""
            rows.append((one.at_ms, "over", f"{one.layout}:{one.queue}", f"{one.text}{since}"))
        else:
            came[key] = one.at_ms
            rows.append((one.at_ms, one.severity, f"{one.layout}:{one.queue}", one.text))
    for each in operations:
        place = f"{each.url} " * is_of_many + each.where_in_full
        if each.began_ms and each.at_ms - each.began_ms >= 1000:
            rows.append((each.began_ms, "change", place, f"{each.verb} begins{_how(each)}"))
        jobs = f" ({numbered(each.count, 'job')})" if each.count else ""
        words = each.words() + (f"; {each.stopped}" if each.stopped and each.stopped not in each.error else "")
        rows.append((each.at_ms, "change", place, f"{each.verb}{jobs}: {words or 'done'}"))
        if each.undone_at_ms:
            rows.append((each.undone_at_ms, "change", place, f"{each.verb} is undone"))
    lines = ["| time | what | queue | |", "|---|---|---|---|"]
    for at_ms, what, queue, words in sorted(rows, key=lambda row: row[0]):
        lines.append("| " + " | ".join(map(_plain, (clock(at_ms), what, queue, words))) + " |")
    return lines


def _how(operation: Operation) -> str:
    told = [operation.chosen, f"at {operation.rate}" if operation.rate else "", operation.why]
    words = ", ".join(filter(None, told))
    return f": {words}" if words else ""


def _changes(operations: Sequence[Operation]) -> list[str]:
    is_of_many = len({each.url for each in operations}) > 1
    where = " server |" if is_of_many else ""
    lines = [f"| | time |{where} who | what | queue | jobs | answers | undo |"]
    lines += [f"|---:|---|{'---|' if is_of_many else ''}---|---|---|---:|---|---|"]
    for number, each in enumerate(operations, 1):
        server = (each.url,) if is_of_many else ()
        cells = (clock(each.at_ms), *server, each.who, each.verb, each.where_in_full, str(each.count or "·"))
        lines.append(f"| {number} | " + " | ".join([*map(_plain, cells), _plain(each.words()), undo_word(each)]) + " |")
    for number, each in enumerate(operations, 1):
        if told := circumstances(each):
            lines += ["", f"### {number}. {_plain(each.verb)} {_plain(each.where)}", ""]
            lines += [f"* {name}: {_plain(words)}" for name, words in told]
    return lines


def circumstances(operation: Operation) -> list[tuple[str, str]]:
    """What is known of how a change came about, as (name, words)."""
    took_ms = operation.at_ms - operation.began_ms if operation.began_ms else 0
    told = (
        ("why", operation.why),
        ("which", operation.chosen),
        ("rate", operation.rate),
        ("took", duration(took_ms) if took_ms >= 1000 else ""),
        ("stopped", operation.stopped),
        ("before", counts_words(operation.before)),
        ("after", counts_words(operation.after)),
    )
    return [(name, words) for name, words in told if words]


def counts_words(counts: Counts) -> str:
    """`ready 20012, dead 5000`; of several queues each with its name in front."""
    told = []
    for queue, places in counts.items():
        words = ", ".join(f"{place} {number}" for place, number in places.items() if number) or "nothing"
        told.append(f"{queue}: {words}" if len(counts) > 1 else words)
    return "; ".join(told)


# -- drawing --------------------------------------------------------------------------------------------------------


def _plotted(plot: Plot) -> list[str]:
    lines = ["```text"]
    for curve in plot.curves:
        if any(value for _at, value in curve.points):
            lines += [*drawn(curve), ""]
    return [*lines[:-1], "```"] if len(lines) > 1 else ["Nothing was counted in this time."]


def drawn(curve: Curve, width: int = _WIDTH, height: int = _HEIGHT) -> list[str]:
    """A curve as text: its name and its highest value, `height` lines of blocks, and when it begins and ends."""
    first_ms, last_ms = curve.points[0][0], curve.points[-1][0]
    step = max(1, last_ms - first_ms) / width
    most: list[float] = [0.0] * width
    for at_ms, value in curve.points:  # what is highest in a column: a spike of one minute must be seen
        column = min(width - 1, int((at_ms - first_ms) / step))
        most[column] = max(most[column], value)
    if len(curve.points) < width:
        most = _filled(curve, most, first_ms, step)
    top = max(most) or 1.0
    lines = [f"{curve.name}, at most {max(most):.0f}"]
    for row in range(height - 1, -1, -1):
        eighths = (round(value / top * height * 8) - row * 8 for value in most)
        lines.append("".join(_BLOCKS[min(8, max(0, eighth))] for eighth in eighths).rstrip())
    begin, end = (_hour(at_ms) for at_ms in (first_ms, last_ms))
    return [*lines, f"{begin}{end:>{width - len(begin)}}"]


def _filled(curve: Curve, most: list[float], first_ms: int, step: float) -> list[float]:
    """Where there are fewer points than columns each stands until the next."""
    points, at = list(curve.points), 0
    for column in range(len(most)):
        while at + 1 < len(points) and points[at + 1][0] <= first_ms + column * step:
            at += 1
        most[column] = max(most[column], points[at][1])
    return most


def _hour(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, LATEST_MS) / 1000).astimezone():%H:%M}"


# -- for programs, and files ----------------------------------------------------------------------------------------


def as_json(operations: Iterable[Operation], sightings: Iterable[Sighting] | None = None) -> dict[str, Any]:
    """The document that `rqtui operations --json` prints; an export has the findings, too."""
    made = []
    for each in operations:
        fresh = document(each)
        fresh["ids"] = [word(id) for id in each.ids]
        fresh["queue"], fresh["others"] = word(each.queue), [word(name) for name in each.others]
        for name in ("before", "after"):
            fresh[name] = {word(queue): dict(places) for queue, places in fresh[name].items()}
        fresh["filter"] = fresh.pop("chosen")
        made.append(fresh)
    found = {} if sightings is None else {"findings": [_sighting(one) for one in sightings]}
    return {"operations": made, **found}


def _sighting(one: Sighting) -> dict[str, Any]:
    return {**asdict(one), "queue": word(one.queue)}


def export(
    operations: Sequence[Operation], folder: Path, sightings: Sequence[Sighting] = (), plots: Sequence[Plot] = ()
) -> tuple[Path, Path]:
    """Writes them as Markdown and as JSON; the two new files. No bodies, URLs masked. Raises OSError."""
    stem = f"rqtui-operations-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    page, data = folder / f"{stem}.md", folder / f"{stem}.json"
    text = markdown(operations, sightings, plots, "What happened")
    add(page, text.encode("utf-8", "backslashreplace"), is_new=True)
    add(data, json.dumps(as_json(operations, sightings), indent=2).encode() + b"\n", is_new=True)
    return page, data


_MARKS = str.maketrans({sign: "\\" + sign for sign in "\\`*_[]<>|#~&$!"})
# What GitHub makes a link of by itself: addresses of pages and of people.
_LINK = re.compile(
    r"(?:(?<=http:)|(?<=ftp:))(?=//)|(?<=https:)(?=//)|(?<=www)(?=\.)|(?<!\S)(?=@)|(?=@[\w-]+\.\w)", re.IGNORECASE
)
_LIST = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")  # what would begin a list


def _plain(text: str) -> str:
    """Data as Markdown shows it letter by letter, without a byte that a terminal would obey."""
    return _LIST.sub(r"\1\\", _LINK.sub(r"\\", safe(text).translate(_MARKS)))
