"""The only place that formats: ages, counts, rates, sizes, bars, ids and cells, as plain text.

Pure functions over numbers and text; no widget, no Textual, no colour (bars come in parts that the caller colours).
What came from Redis goes through `safe` first, and every width is in terminal cells by the table that the renderer
uses. The screen and the command line both call it. `ascii_only` is the look of `--ascii`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from typing import TypeVar

from rich.cells import cell_len, set_cell_size

from rqtui.text.body import MASK, BodyView, also_mask, body_view, is_secret, mask_text, secrets, viewers
from rqtui.text.sanitise import safe, safe_lines, shown_id

__all__ = [
    "ABOUT",
    "MASK",
    "NOT_YET",
    "UNKNOWN",
    "ZERO",
    "BodyView",
    "age",
    "also_mask",
    "body_view",
    "cell_len",
    "clock",
    "count",
    "day",
    "duration",
    "elide_middle",
    "fit",
    "instant",
    "is_generated",
    "is_secret",
    "job_id",
    "left",
    "lease_bar",
    "mask_text",
    "moment",
    "rate",
    "safe",
    "safe_lines",
    "secrets",
    "share_bar",
    "short_count",
    "since",
    "size",
    "spans",
    "sparkline",
    "viewers",
    "wrap",
]

S = TypeVar("S")

ZERO = "·"  # counted, and none
UNKNOWN = "—"  # nobody can know: the system keeps no such thing
NOT_YET = "…"  # not looked yet
ABOUT = "~"  # before a number that was sampled
_SPARKS = ("▁▂▃▄▅▆▇", ".,:;+*#")  # no full cell: lines one below the other would run together
_LINE, _HALF_LINE = "━", "╸"
_DAY_S = 86_400
_YEAR_S = 365 * _DAY_S


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────


_coarse = [False]


def round_ages(is_coarse: bool) -> None:
    """Ages in steps of ten seconds, and from a minute on without seconds: on a slow link each change costs."""
    _coarse[0] = is_coarse


def age(ms: float | None) -> str:
    """A span of `ms` in at most six cells, to the second: `12s`, `4m12`, `5h07`, `3d`, `2.7y`; `-4s` is overdue."""
    if ms is None:
        return ZERO
    sign = "-" if ms <= -1000 else ""
    seconds = int(abs(ms) // 1000)
    if _coarse[0] and 10 <= seconds < 3600:
        return f"{sign}{seconds // 10}0s" if seconds < 60 else f"{sign}{seconds // 60}m"
    if seconds < 60:
        return f"{sign}{seconds}s"
    if seconds < 3600:
        return f"{sign}{seconds // 60}m{seconds % 60:02}"
    if seconds < _DAY_S:
        return f"{sign}{seconds // 3600}h{seconds % 3600 // 60:02}"
    if seconds < 1000 * _DAY_S:
        return f"{sign}{seconds // _DAY_S}d"
    years = seconds / _YEAR_S
    return f"{sign}{years:.1f}y" if years < 100 else f"{sign}{min(years, 999):.0f}y"


def left(until_ms: int | None, now_ms: float) -> str:
    """How long something can still be mended: `41s left`, `too late`; empty where there is no end."""
    if until_ms is None:
        return ""
    return f"{age(until_ms - now_ms)} left" if until_ms > now_ms else "too late"


def spans(over_ms: Iterable[int]) -> str:
    """How far back some figures go: `over 1h00`, `over all time or 10m00` (0: since somebody began to count)."""
    return f"over {' or '.join(age(ms) if ms else 'all time' for ms in over_ms)}"


def duration(ms: float | None) -> str:
    """Like `age`, but short spans keep their fraction: `1.4 ms`, `41 ms`, `1.4s`; for run times and latencies."""
    if ms is None:
        return ZERO
    if abs(ms) >= 10_000:
        return age(ms)
    if abs(ms) >= 1000:
        return f"{ms / 1000:.1f}s"
    return f"{ms:.1f} ms" if abs(ms) < 10 and ms % 1 else f"{ms:.0f} ms"


def clock(ms: float | None) -> str:
    """The instant `ms` (since 1970) as local `HH:MM:SS`."""
    return _local(ms, "%H:%M:%S")


def day(ms: float | None) -> str:
    """The local day of the instant `ms` (since 1970), with its zone: `2026-11-21 CET`."""
    return _local(ms, "%Y-%m-%d %Z")


def moment(ms: float | None) -> str:
    """The instant `ms` (since 1970) as local date, time and zone: `2026-11-21 04:02:11 CET`."""
    return _local(ms, "%Y-%m-%d %H:%M:%S %Z")


def instant(ms: float, now_ms: float) -> str:
    """The instant `ms` (since 1970) as local `HH:MM:SS` where it lies within a day of now, else with its date before
    it; where the zone is said elsewhere."""
    return _local(ms, "%H:%M:%S" if abs(now_ms - ms) < _DAY_S * 1000 else "%Y-%m-%d %H:%M:%S")


def since(ms: float, now_ms: float) -> str:
    """The instant `ms` (since 1970) as local `HH:MM` where it lies within a day of now, else as `moment`."""
    return _local(ms, "%H:%M") if abs(now_ms - ms) < _DAY_S * 1000 else moment(ms)


def _local(ms: float | None, pattern: str) -> str:
    if ms is None:
        return ZERO
    try:
        return datetime.fromtimestamp(ms / 1000).astimezone().strftime(pattern)
    except (OverflowError, OSError, ValueError):
        return "?"  # a due time of 10^15 is somebody's wrong unit, not a reason to lose the page


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def count(number: int, exact: bool = True, width: int = 7) -> str:
    """`12 431` where it fits into `width` cells, else `12.4k`; `~1.2M` where it was sampled; `·` for zero."""
    if not number:
        return ZERO
    if exact and len(grouped := f"{number:,}".replace(",", " ")) <= width:
        return grouped
    return short_count(number, exact)


def numbered(number: int, noun: str, width: int = 9, exact: bool = True) -> str:
    """`1 job`, `12 431 jobs`, `~1.2k jobs`, `no bodies`; the number as `count` writes it."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count(number, exact, width) if number else 'no'} {noun if number == 1 else plural}"


def share(part: int, whole: int) -> str:
    """`50 %`: the part of a whole; `<1 %` for less."""
    per_cent = 100 * part / whole if whole else 0
    return "<1 %" if 0 < per_cent < 1 else f"{per_cent:.0f} %"


def short_count(number: float, exact: bool = True) -> str:
    """Three digits and a unit, at most six cells: `64`, `9.9k`, `12.4k`, `999k`, `~1.2M`; `·` for zero."""
    if not number:
        return ZERO
    sign = "-" if number < 0 else ""
    about = "" if exact else ABOUT
    return about + sign + _three_digits(abs(number), ("", "k", "M", "G", "T", "P"), 1000)


def rate(per_second: float | None) -> str:
    """`312/s`, `0.4/s`, `1.2/m`, `12.4k/s`; `·` for zero or not known.

    Less than one in ten seconds is told by the minute, less than six an hour by the hour: `0.0/s` looks like none.
    """
    if not per_second:
        return ZERO
    number, unit = next((per_second * n, u) for u, n in _SPANS if abs(per_second) * n >= 0.0995 or u == "h")
    slow = 0 < abs(number) < 9.95
    return f"{number:.1f}/{unit}" if slow and number % 1 else f"{short_count(round(number))}/{unit}"


_SPANS = (("s", 1), ("m", 60), ("h", 3600))


def size(number: int | None) -> str:
    """Bytes in units of 1024, as Redis counts them: `214 B`, `4.1 kB`, `30 MB`."""
    if number is None:
        return ZERO
    return _three_digits(number, (" B", " kB", " MB", " GB", " TB", " PB"), 1024)


def _three_digits(number: float, units: Sequence[str], step: int) -> str:
    """`number` in the first unit that needs no more than three digits; one decimal below a hundred units."""
    power = 0
    while round(number) >= 1000 and power < len(units) - 1:
        number /= step
        power += 1
    if power == 0:
        return f"{number:.0f}{units[0]}"
    text = f"{number:.1f}" if number < 99.95 else f"{number:.0f}"
    return text.removesuffix(".0") + units[power]


# ── bars ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sparkline(values: Sequence[float], width: int | None = None, ascii_only: bool = False) -> str:
    """One cell per value, as high as the greatest is full; the newest `width` values, at the right; zero is `·`."""
    width = len(values) if width is None else width
    shown = list(values)[-width:] if width else []
    levels = _SPARKS[ascii_only]
    top = max(shown, default=0)
    step = top / len(levels) if top > 0 else 1
    cells = [ZERO if value <= 0 else levels[min(len(levels) - 1, ceil(value / step) - 1)] for value in shown]
    line = "".join(cells).rjust(width, ZERO)
    return line.replace(ZERO, " ") if ascii_only else line


def lease_bar(left_ms: float, lease_ms: float, width: int = 4, ascii_only: bool = False) -> tuple[str, str]:
    """(what is left, what is used) of a lease, together `width` cells; late, it is full behind a sign of its own."""
    if left_ms <= 0:
        return "!" + ("=" if ascii_only else _LINE) * (width - 1), ""
    share = min(1.0, left_ms / lease_ms) if lease_ms > 0 else 1.0
    if ascii_only:
        full = max(1, round(share * width))
        return "=" * full, "-" * (width - full)
    halves = max(1, round(share * width * 2))
    left = _LINE * (halves // 2) + _HALF_LINE * (halves % 2)
    return left, _LINE * (width - len(left))


def share_bar(counts: Iterable[tuple[S, int]], width: int, ascii_only: bool = False) -> list[tuple[S, str]]:
    """The counts as parts of one line of `width` cells, in their order; what is not zero has a cell at least.

    Returns nothing where all are zero. Parts: the largest remainders get the cells that rounding down left over.
    """
    present = [(key, number) for key, number in counts if number > 0]
    total = sum(number for _, number in present)
    if not present or width < len(present):
        return [(key, _line(1, ascii_only)) for key, _ in present[:width]]
    free = width - len(present)
    exact = [free * number / total for _, number in present]
    cells = [int(part) for part in exact]
    by_remainder = sorted(range(len(cells)), key=lambda at: cells[at] - exact[at])
    for at in by_remainder[: free - sum(cells)]:
        cells[at] += 1
    return [(key, _line(extra + 1, ascii_only)) for (key, _), extra in zip(present, cells, strict=True)]


def _line(width: int, ascii_only: bool) -> str:
    return ("=" if ascii_only else _LINE) * width


# ── cells ────────────────────────────────────────────────────────────────────────────────────────────────────


def fit(text: str, width: int, align: str = "left", ellipsis: str = "…") -> str:
    """Exactly `width` cells: padded (`left`, `right` or `center`), or cut with an ellipsis."""
    length = cell_len(text)
    if length > width:
        dots = cell_len(ellipsis)
        return set_cell_size(text, width - dots) + ellipsis if width >= dots else " " * max(0, width)
    spare = width - length
    before = {"left": 0, "right": spare, "center": spare // 2}[align]
    return " " * before + text + " " * (spare - before)


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at spaces; a longer word is cut."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return [fit(each, width).rstrip() for each in (*lines, line)]


def elide_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, its two ends kept: `need_some_…_4711`."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    if room < 2:
        return fit(text, width, ellipsis=ellipsis)
    return set_cell_size(text, room - room // 2) + ellipsis + _last(text, room // 2)


_BOTH_ENDS = 12
_GENERATED = re.compile(
    r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"  # UUIDs, with and without dashes
    r"|[0-9a-f]{16,}"  # digests, ObjectIds (24)
    r"|(?=[a-zA-Z]*\d)[0-9A-Za-z]{22,26}"  # uuid7 in base 32 or 58; ULIDs
)


def is_generated(text: str) -> bool:
    """Whether it looks like an id that a program made up: a UUID, a digest, a ULID."""
    return _GENERATED.fullmatch(text) is not None


def job_id(name: str | bytes, width: int, ascii_only: bool = False) -> str:
    """A job's id in at most `width` cells: both ends, but only the end where that tells more apart: of a generated one
    (uuid7s share their start), and where there is room for few letters."""
    text = shown_id(name, ascii_only)
    ellipsis = "~" if ascii_only else "…"
    if cell_len(text) <= width:
        return text
    if width > 1 and (width < _BOTH_ENDS or is_generated(text)):
        return ellipsis + _last(text, width - 1)
    return elide_middle(text, width, ellipsis)


def _last(text: str, width: int) -> str:
    """The longest end of `text` that fits into `width` cells."""
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]
