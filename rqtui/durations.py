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


def compute_reconnect_delay_s(failures: int) -> int:
    """Return how many seconds to wait before rqtui tries again to reach Redis.

    `failures` is the number of failed tries in a row before the last one. The waits grow from 1 s to 13 s.
    """
    return BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]


def parse_duration(value: Duration, value_name: str = "a duration") -> int:
    """Convert a duration such as `30s`, 30 (seconds) or a timedelta to whole milliseconds.

    `value_name` names the value in error messages. Raises UsageError if the value is no duration, not finite, negative
    or longer than 100 years.
    """
    ms = _convert_to_ms(value, value_name)
    if isinstance(ms, float) and not math.isfinite(ms):
        raise UsageError(f"{value_name} cannot be {_quote_refused_value(value)}: {_HOW}.")
    if ms < 0:
        raise UsageError(f"{value_name} cannot be negative, as {_quote_refused_value(value)} is.")
    if ms > MAX_MS:
        raise UsageError(f"{value_name} cannot be longer than 100 years, as {_quote_refused_value(value)} is.")
    return round(ms)


def parse_duration_range(
    value: Duration | tuple[Duration, Duration], value_name: str = "a backoff"
) -> tuple[int, int | None]:
    """Parse a range of durations, `1s..1h` or `("1s", "1h")`, into two numbers of milliseconds.

    For a single duration the second number is None. Raises UsageError, also if the second duration is the shorter one.
    """
    shorter_text, longer_text = value, None
    if isinstance(value, tuple):
        if len(value) != 2:
            raise UsageError(f"{value_name} is one duration or two, not {len(value)}.")
        shorter_text, longer_text = value
    elif isinstance(value, str) and ".." in value:
        shorter_text, _, longer_text = value.partition("..")
    shorter_ms = parse_duration(shorter_text, value_name)  # type: ignore[arg-type]  # whatever else it is, parse refuses it
    if longer_text is None:
        return shorter_ms, None
    longer_ms = parse_duration(longer_text, value_name)
    if longer_ms < shorter_ms:
        raise UsageError(f"{value_name} goes from the shorter wait to the longer one, which {value!r} does not.")
    return shorter_ms, longer_ms


def parse_instant(value: datetime | int, value_name: str = "due") -> int:
    """Convert a datetime with a time zone to milliseconds since 1970. An integer is in milliseconds already.

    Raises UsageError for a datetime without a time zone, and for a time before 1970 or after 2255.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UsageError(f"{value_name} needs a time zone: {value.isoformat()} is another instant in each of them.")
        ms = round(value.timestamp() * 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value
    else:
        raise UsageError(
            f"{value_name} is an aware datetime, or whole milliseconds since 1970, not {_quote_refused_value(value)}."
        )
    if not 0 <= ms <= MAX_INSTANT_MS:
        raise UsageError(
            f"{value_name} lies between 1970 and 2255 (milliseconds since 1970),"
            f" which {_quote_refused_value(value)} does not."
        )
    return ms


def _convert_to_ms(value: object, value_name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * 1000
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f"{value_name} cannot be {_quote_refused_value(value)}: {_HOW}.")
    return float(match[1]) * UNITS_MS[match[2] or "s"]


def _quote_refused_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
