"""Format ages, counts, rates, sizes, bars, ids and cells as plain text, for the screen and the command line.

Pure functions over numbers and text, without widgets, Textual or colours: bars are returned in parts that the caller
colours. Text from Redis passes `safe` first. Widths are terminal cells, measured with the renderer's table.
`ascii_only` is the style of `--ascii`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil
from typing import TypeVar

from rich.cells import cell_len, set_cell_size

from rqtui.text.body import BodyView, list_body_viewers, render_body
from rqtui.text.masking import MASK, build_masking_cache_key, is_secret_name, mask_text, set_mask_patterns
from rqtui.text.sanitise import format_id, safe, safe_lines

__all__ = [
    "ABOUT",
    "MASK",
    "NOT_YET",
    "SEVERITY_SIGNS",
    "NONE",
    "UNKNOWN",
    "ZERO",
    "BodyView",
    "format_age",
    "set_mask_patterns",
    "render_body",
    "cell_len",
    "format_clock",
    "format_count",
    "format_local_day",
    "format_duration",
    "elide_middle",
    "fit_to_width",
    "format_instant",
    "is_generated_id",
    "is_secret_name",
    "shorten_job_id",
    "format_time_left",
    "build_lease_bar",
    "mask_text",
    "format_date_and_time",
    "format_rate",
    "safe",
    "safe_lines",
    "build_masking_cache_key",
    "build_share_bar",
    "format_short_count",
    "format_start_time",
    "format_size",
    "format_time_windows",
    "build_sparkline",
    "list_body_viewers",
    "wrap_to_width",
]

S = TypeVar("S")

ZERO = "0"
NONE = "—"  # there is no such thing, such as a worker of a job that waits
UNKNOWN = "?"  # the system does not store this value
NOT_YET = "…"  # not read yet
# Signs of severities, which differ without colours; `--ascii` shows them as + - ! X ?
SEVERITY_SIGNS = {"ok": "✓", "info": "·", "warning": "▲", "critical": "✕", "unknown": "?"}
ABOUT = "~"  # before a sampled number
_SPARKS = ("▁▂▃▄▅▆▇", "_.,:;+*#")  # zero first; no full cell, so that sparklines in adjacent rows stay separate
_LINE, _HALF_LINE = "━", "╸"
_DAY_S = 86_400
_YEAR_S = 365 * _DAY_S


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────


_coarse = [False]


def set_age_rounding(is_coarse: bool) -> None:
    """Choose whether ages are rounded to ten seconds, and from one minute on to minutes.

    Rounding is for slow terminals, because each change of a text costs time.
    """
    _coarse[0] = is_coarse


def format_age(ms: float | None) -> str:
    """Format a duration in ms in at most six cells: `12s`, `4m12`, `5h07`, `3d`, `2.7y`; a negative one as `-4s`."""
    if ms is None:
        return NONE
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


def format_age_since(at_ms: int | None, now_ms: float) -> str:
    """Format the time since `at_ms`: `—` if that is unknown, and `0s` if it is in the future by another clock."""
    return NONE if at_ms is None else format_age(max(0.0, now_ms - at_ms))


def format_time_left(until_ms: int | None, now_ms: float) -> str:
    """Format the time until which a problem can be fixed: `41s left`, `too late`; empty if there is no limit."""
    if until_ms is None:
        return ""
    return f"{format_age(until_ms - now_ms)} left" if until_ms > now_ms else "too late"


def format_time_windows(over_ms: Iterable[int]) -> str:
    """Format the time windows of statistics: `over 1h00`, `over all time or 10m00`. 0 means all time."""
    return f"over {' or '.join(format_age(ms) if ms else 'all time' for ms in over_ms)}"


def format_duration(ms: float | None) -> str:
    """Format a run time or latency in ms: `1.4 ms`, `41 ms`, `1.4s`; from ten seconds on as `format_age` does."""
    if ms is None:
        return NONE
    if abs(ms) >= 10_000:
        return format_age(ms)
    if abs(ms) >= 1000:
        return f"{ms / 1000:.1f}s"
    return f"{ms:.1f} ms" if abs(ms) < 10 and ms % 1 else f"{ms:.0f} ms"


def spell_duration(seconds: float, units: int = 2) -> str:
    """Spell out a duration of one second or more in its largest units: `40 s`, `8 min 20 s`, `2 h 5 min`, `3 d`."""
    rest, parts = max(1, round(seconds)), []
    for unit_s, unit in ((_DAY_S, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, rest = divmod(rest, unit_s)
        if number:
            parts.append(f"{number} {unit}")
        if len(parts) == units or (parts and not number):
            break
    return " ".join(parts)


def format_clock(ms: float | None) -> str:
    """Format a time (ms since 1970) as local `HH:MM:SS`."""
    return _format_local_time(ms, "%H:%M:%S")


def format_local_day(ms: float | None) -> str:
    """Format the local day of a time (ms since 1970), with its time zone: `2026-11-21 CET`."""
    return _format_local_time(ms, "%Y-%m-%d %Z")


def format_date_and_time(ms: float | None) -> str:
    """Format a time (ms since 1970) as local date, time and zone: `2026-11-21 04:02:11 CET`."""
    return _format_local_time(ms, "%Y-%m-%d %H:%M:%S %Z")


def format_instant(ms: float, now_ms: float) -> str:
    """Format a time (ms since 1970) as local `HH:MM:SS`, with the date if it is more than a day from now.

    For places where the time zone is shown elsewhere.
    """
    return _format_local_time(ms, "%H:%M:%S" if abs(now_ms - ms) < _DAY_S * 1000 else "%Y-%m-%d %H:%M:%S")


def format_start_time(ms: float, now_ms: float) -> str:
    """Format when something began (ms since 1970): as local `HH:MM`, or with its date if more than a day from now."""
    return _format_local_time(ms, "%H:%M") if abs(now_ms - ms) < _DAY_S * 1000 else format_date_and_time(ms)


def _format_local_time(ms: float | None, pattern: str) -> str:
    if ms is None:
        return NONE
    try:
        return datetime.fromtimestamp(ms / 1000).astimezone().strftime(pattern)
    except (OverflowError, OSError, ValueError):
        return "?"  # A due time of 10^15 has a wrong unit; the rest of the page must still be shown.


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def format_count(number: int, exact: bool = True, width: int = 7) -> str:
    """Format a count as `12 431` if it fits into `width` cells, else `12.4k`; sampled: `~1.2M`, `~0`."""
    if not number:
        return ZERO if exact else ABOUT + ZERO
    if exact and len(grouped := f"{number:,}".replace(",", " ")) <= width:
        return grouped
    return format_short_count(number, exact)


def format_long_count(number: int) -> str:
    """Format a count in at most nine cells, for sentences and wide columns: `1 234 567`, above that `12.3M`."""
    return format_count(number, width=9)


def format_quantity(number: int, noun: str, width: int = 9, exact: bool = True) -> str:
    """Format a number with its noun: `1 job`, `12 431 jobs`, `~1.2k jobs`, `no bodies`, `2 refreshes`."""
    plural = noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        plural = noun[:-1] + "ies"
    return f"{format_count(number, exact, width) if number or not exact else 'no'} {noun if number == 1 else plural}"


def format_share(part: int, whole: int) -> str:
    """Format a part of a whole in per cent: `50 %`; `<1 %` if it is less."""
    per_cent = 100 * part / whole if whole else 0
    return "<1 %" if 0 < per_cent < 1 else f"{per_cent:.0f} %"


def format_short_count(number: float, exact: bool = True) -> str:
    """Format a count with three digits and a unit, in at most six cells: `64`, `9.9k`, `12.4k`, `~1.2M`."""
    if not number:
        return ZERO if exact else ABOUT + ZERO
    sign = "-" if number < 0 else ""
    about = "" if exact else ABOUT
    return about + sign + _format_three_digits(abs(number), ("", "k", "M", "G", "T", "P"), 1000)


def format_rate(per_second: float | None) -> str:
    """Format a rate: `312/s`, `0.4/s`, `1.2/m`, `12.4k/s`, `0/s`; `?` for an unknown rate.

    Less than one in ten seconds is given per minute, less than six an hour per hour, because `0.0/s` looks like none.
    """
    if per_second is None:
        return UNKNOWN
    if not per_second:
        return f"{ZERO}/s"
    number, unit = next((per_second * n, u) for u, n in _SPANS if abs(per_second) * n >= 0.0995 or u == "h")
    is_slow = abs(number) < 9.95
    return f"{number:.1f}/{unit}" if is_slow and number % 1 else f"{format_short_count(round(number))}/{unit}"


_SPANS = (("s", 1), ("m", 60), ("h", 3600))


def format_size(number: int | None) -> str:
    """Format bytes in units of 1024, as Redis does: `214 B`, `4.1 kB`, `30 MB`."""
    if number is None:
        return NONE
    return _format_three_digits(number, (" B", " kB", " MB", " GB", " TB", " PB"), 1024)


def _format_three_digits(number: float, units: Sequence[str], step: int) -> str:
    """Format `number` in the first unit that needs at most three digits, with one decimal below a hundred units."""
    power = 0
    while round(number) >= 1000 and power < len(units) - 1:
        number /= step
        power += 1
    if power == 0:
        return f"{number:.0f}{units[0]}"
    text = f"{number:.1f}" if number < 99.95 else f"{number:.0f}"
    return text.removesuffix(".0") + units[power]


# ── bars ─────────────────────────────────────────────────────────────────────────────────────────────────────


def build_sparkline(values: Sequence[float], width: int | None = None, ascii_only: bool = False) -> str:
    """Build a sparkline of `width` cells from the newest values, one cell for each, scaled to the largest.

    Zero is the lowest bar. Cells before the first value are blank.
    """
    width = len(values) if width is None else width
    newest_values = list(values)[-width:] if width else []
    zero, levels = _SPARKS[ascii_only][0], _SPARKS[ascii_only][1:]
    top = max(newest_values, default=0)
    step = top / len(levels)
    cells = [zero if value <= 0 else levels[min(len(levels) - 1, ceil(value / step) - 1)] for value in newest_values]
    return "".join(cells).rjust(width)


def build_lease_bar(left_ms: float, lease_ms: float, width: int = 4, ascii_only: bool = False) -> tuple[str, str]:
    """Build a bar for the time of a job's lease: the part that is left, and the part that is used.

    The bar has `width` cells. The bar of an expired lease begins with `!`.
    """
    if left_ms <= 0:
        return "!" + ("=" if ascii_only else _LINE) * (width - 1), ""
    share = min(1.0, left_ms / lease_ms) if lease_ms > 0 else 1.0
    if ascii_only:
        full = max(1, round(share * width))
        return "=" * full, "-" * (width - full)
    halves = max(1, round(share * width * 2))
    remaining_part = _LINE * (halves // 2) + _HALF_LINE * (halves % 2)
    return remaining_part, _LINE * (width - len(remaining_part))


def build_share_bar(counts: Iterable[tuple[S, int]], width: int, ascii_only: bool = False) -> list[tuple[S, str]]:
    """Divide a bar of `width` cells by the given counts, in their order. Each count above zero gets at least one cell.

    Returns an empty list if all counts are zero. The largest remainders get the cells that rounding down left over.
    """
    present = [(key, number) for key, number in counts if number > 0][:width]
    total = sum(number for _, number in present)
    free = width - len(present)
    exact = [free * number / total for _, number in present]
    cells = [int(part) for part in exact]
    by_remainder = sorted(range(len(cells)), key=lambda number_index: cells[number_index] - exact[number_index])
    for number_index in by_remainder[: free - sum(cells)]:
        cells[number_index] += 1
    return [(key, _draw_bar_part(extra + 1, ascii_only)) for (key, _), extra in zip(present, cells, strict=True)]


def _draw_bar_part(width: int, ascii_only: bool) -> str:
    return ("=" if ascii_only else _LINE) * width


# ── cells ────────────────────────────────────────────────────────────────────────────────────────────────────


def fit_to_width(text: str, width: int, align: str = "left", ellipsis: str = "…") -> str:
    """Pad or truncate a text to exactly `width` terminal cells. `align` is `left`, `right` or `center`."""
    length = cell_len(text)
    if length > width:
        dots = cell_len(ellipsis)
        return set_cell_size(text, width - dots) + ellipsis if width >= dots else " " * max(0, width)
    spare = width - length
    before = {"left": 0, "right": spare, "center": spare // 2}[align]
    return " " * before + text + " " * (spare - before)


def wrap_to_width(text: str, width: int) -> list[str]:
    """Break a text at spaces into lines of at most `width` cells. A longer word is truncated."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return [fit_to_width(full_line, width).rstrip() for full_line in (*lines, line)]


def elide_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Shorten a text to at most `width` cells by leaving out its middle: `need_some_…_4711`."""
    if cell_len(text) <= width:
        return text
    free_cells = width - cell_len(ellipsis)
    if free_cells < 2:
        return fit_to_width(text, width, ellipsis=ellipsis)
    return set_cell_size(text, free_cells - free_cells // 2) + ellipsis + _keep_text_end(text, free_cells // 2)


_BOTH_ENDS = 12
_GENERATED = re.compile(
    r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"  # UUIDs, with and without dashes
    r"|[0-9a-f]{16,}"  # digests, ObjectIds (24)
    r"|(?=[a-zA-Z]*\d)[0-9A-Za-z]{22,26}"  # uuid7 in base 32 or 58; ULIDs
)


def is_generated_id(text: str) -> bool:
    """Return whether a text looks like a generated id: a UUID, a digest, a ULID."""
    return _GENERATED.fullmatch(text) is not None


def shorten_job_id(name: str | bytes, width: int, ascii_only: bool = False) -> str:
    """Shorten a job id to at most `width` cells, and keep both ends or only its end.

    Only the end is kept of generated ids, since UUIDs of version 7 share their start, and if `width` is small.
    """
    text = format_id(name, ascii_only)
    ellipsis = "~" if ascii_only else "…"
    if cell_len(text) <= width:
        return text
    if width > 1 and (width < _BOTH_ENDS or is_generated_id(text)):
        return ellipsis + _keep_text_end(text, width - 1)
    return elide_middle(text, width, ellipsis)


def _keep_text_end(text: str, width: int) -> str:
    """Return the longest end of a text that fits into `width` cells."""
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]
