"""Durations and instants as people give them, in milliseconds: `500ms 30s 5m 2h 3d`, plain seconds, aware datetimes.

One reader for the Python API and the command line, so that both understand and refuse the same. No I/O, no clock.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from rqtui.errors import UsageError

Duration = int | float | str | timedelta
"""What callers may give: a number or a string of plain digits means seconds."""

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS = 100 * 366 * UNITS_MS["d"]  # what the scripts take for a delay (lua/native/enqueue.lua)
LATEST_MS = 9_007_199_254_740  # the year 2255; likewise
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|h|d)?", re.ASCII)
_HOW = "write 500ms, 30s, 5m, 2h or 3d; a plain number means seconds"

BACKOFF_S = (1, 1, 2, 3, 5, 8, 13)  # how everything here waits while Redis is away


def backoff_s(failures: int) -> int:
    """Seconds to wait before the next try, after so many failures in a row before this one."""
    return BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]


def parse(value: Duration, what: str = "a duration") -> int:
    """Milliseconds in `value`, rounded to whole ones; `what` names it in errors.

    Raises UsageError for anything that is no duration, is not finite, is negative or is longer than a century.
    """
    ms = _milliseconds(value, what)
    if isinstance(ms, float) and not math.isfinite(ms):
        raise UsageError(f"{what} cannot be {_short(value)}: {_HOW}.")
    if ms < 0:
        raise UsageError(f"{what} cannot be negative, as {_short(value)} is.")
    if ms > LONGEST_MS:
        raise UsageError(f"{what} cannot be longer than 100 years, as {_short(value)} is.")
    return round(ms)


def parse_range(value: Duration | tuple[Duration, Duration], what: str = "a backoff") -> tuple[int, int | None]:
    """The two durations in `1s..1h` or `("1s", "1h")`; the second is None where only one is given."""
    first, last = value, None
    if isinstance(value, tuple):
        if len(value) != 2:
            raise UsageError(f"{what} is one duration or two, not {len(value)}.")
        first, last = value
    elif isinstance(value, str) and ".." in value:
        first, _, last = value.partition("..")
    low = parse(first, what)  # type: ignore[arg-type]  # whatever else it is, parse refuses it
    if last is None:
        return low, None
    high = parse(last, what)
    if high < low:
        raise UsageError(f"{what} goes from the shorter wait to the longer one, which {value!r} does not.")
    return low, high


def instant(value: datetime | int, what: str = "due") -> int:
    """Milliseconds since 1970 in an aware datetime, or in an integer that is that already. Raises UsageError."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UsageError(f"{what} needs a time zone: {value.isoformat()} is another instant in each of them.")
        ms = round(value.timestamp() * 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value
    else:
        raise UsageError(f"{what} is an aware datetime, or whole milliseconds since 1970, not {_short(value)}.")
    if not 0 <= ms <= LATEST_MS:
        raise UsageError(
            f"{what} lies between 1970 and 2255 (milliseconds since 1970), which {_short(value)} does not."
        )
    return ms


def _milliseconds(value: object, what: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * 1000
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f"{what} cannot be {_short(value)}: {_HOW}.")
    return float(match[1]) * UNITS_MS[match[2] or "s"]


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
