"""Parse durations and times as people write them: `500ms 30s 5m 2h 3d`, plain seconds, aware datetimes.

All results are milliseconds. The Python API and the command line both use this module, so that they accept and refuse
the same values. No I/O, no clock.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from rqtui.errors import UsageError

Duration = int | float | str | timedelta
"""The types of a duration in arguments. A number, or a string of digits, means seconds."""

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_MS = 100 * 366 * UNITS_MS["d"]  # the longest delay that the scripts accept (lua/native/enqueue.lua)
MAX_INSTANT_MS = 9_007_199_254_740  # the latest time that the scripts accept, in the year 2255
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|s|m|h|d)?", re.ASCII)
_HOW = "write 500ms, 30s, 5m, 2h or 3d; a plain number means seconds"

BACKOFF_S = (1, 1, 2, 3, 5, 8, 13)  # waits between tries while Redis is unreachable, the same everywhere in rqtui


def compute_backoff_s(failures: int) -> int:
    """Return the seconds to wait before the next try, after `failures` failed tries in a row before the last one."""
    return BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]


def parse_duration(value: Duration, what: str = "a duration") -> int:
    """Return the milliseconds in `value`, rounded to an integer. `what` names the value in error messages.

    Raises UsageError if the value is no duration, not finite, negative or longer than a century.
    """
    ms = _to_ms(value, what)
    if isinstance(ms, float) and not math.isfinite(ms):
        raise UsageError(f"{what} cannot be {_format_short(value)}: {_HOW}.")
    if ms < 0:
        raise UsageError(f"{what} cannot be negative, as {_format_short(value)} is.")
    if ms > MAX_MS:
        raise UsageError(f"{what} cannot be longer than 100 years, as {_format_short(value)} is.")
    return round(ms)


def parse_duration_range(
    value: Duration | tuple[Duration, Duration], what: str = "a backoff"
) -> tuple[int, int | None]:
    """Parse `1s..1h` or `("1s", "1h")` into two durations in ms. The second is None if only one is given."""
    first, last = value, None
    if isinstance(value, tuple):
        if len(value) != 2:
            raise UsageError(f"{what} is one duration or two, not {len(value)}.")
        first, last = value
    elif isinstance(value, str) and ".." in value:
        first, _, last = value.partition("..")
    low = parse_duration(first, what)  # type: ignore[arg-type]  # whatever else it is, parse refuses it
    if last is None:
        return low, None
    high = parse_duration(last, what)
    if high < low:
        raise UsageError(f"{what} goes from the shorter wait to the longer one, which {value!r} does not.")
    return low, high


def parse_instant(value: datetime | int, what: str = "due") -> int:
    """Convert an aware datetime to milliseconds since 1970; an integer is already in them. Raises UsageError."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UsageError(f"{what} needs a time zone: {value.isoformat()} is another instant in each of them.")
        ms = round(value.timestamp() * 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value
    else:
        raise UsageError(f"{what} is an aware datetime, or whole milliseconds since 1970, not {_format_short(value)}.")
    if not 0 <= ms <= MAX_INSTANT_MS:
        raise UsageError(
            f"{what} lies between 1970 and 2255 (milliseconds since 1970), which {_format_short(value)} does not."
        )
    return ms


def _to_ms(value: object, what: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * 1000
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f"{what} cannot be {_format_short(value)}: {_HOW}.")
    return float(match[1]) * UNITS_MS[match[2] or "s"]


def _format_short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
