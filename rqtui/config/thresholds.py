"""Thresholds of findings: the values at which a number of a queue is a warning or critical, with their defaults.

The config file sets thresholds by patterns of queue names. If several patterns match a queue, the last one in the file
wins, for each threshold separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from rqtui.durations import parse_duration
from rqtui.errors import RqtuiError


class Limit(NamedTuple):
    """The two values of one threshold: from `warning` on a number is a warning, from `critical` on critical.

    None means never.
    """

    warning: float | None = None
    critical: float | None = None

    def find_severity(self, number: float) -> str:
        """Return the severity of a number under this threshold: `warning`, `critical`, or "" below both values."""
        if self.critical is not None and number >= self.critical:
            return "critical"
        return "warning" if self.warning is not None and number >= self.warning else ""


class Thresholds(NamedTuple):
    """The thresholds of all health findings of one queue. Shares are in per cent, times in ms."""

    # One failure in ten is more than retries should handle. At one in two, the service does not work.
    failing: Limit = Limit(10, 50)
    dead: Limit = Limit(1_000, 5_000)  # more than a person reads one by one; more than one report shows
    dying: Limit = Limit(10, 1_000)  # jobs in five minutes; single dead jobs are covered by `dead`
    waiting: Limit = Limit(300_000)  # used if the usual wait of the queue is unknown
    # A burst is processed within a minute. A backlog of four hours is not processed today.
    backlog: Limit = Limit(60_000, 14_400_000)
    silent: Limit = Limit(1, 100)  # a worker that misses its own heartbeat interval is not working
    late: Limit = Limit(5_000)  # a dispatcher that runs once a second, with its backoff, stays below this


DEFAULTS = Thresholds()
Rules = Sequence[tuple[str, Mapping[str, Limit]]]  # glob patterns of queue names, each with the thresholds it sets


class Unit(NamedTuple):
    """The unit of a threshold (per cent, jobs, time): its expected format, and functions to parse and format a value.

    `parse` raises ValueError for an invalid value.
    """

    expected: str
    parse: Callable[[object], float]
    format: Callable[[float], str]


def _parse_positive_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError
    return value


def _parse_percentage(value: object) -> float:
    if (number := _parse_positive_number(value)) > 100:
        raise ValueError
    return number


def _parse_time_span(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    try:
        return _parse_positive_number(parse_duration(value))
    except RqtuiError:
        raise ValueError from None


def _format_time_span(ms: float) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms / size:g}{unit}"
    return f"{ms:g}ms"


PERCENT = Unit("per cent, as in 10 or [10, 50]", _parse_percentage, lambda number: f"{number:g}")
JOBS = Unit("a number of jobs, as in 100 or [100, 5000]", _parse_positive_number, lambda number: f"{number:g}")
SPAN = Unit('a time, as in "5m" or ["5m", "1h"]', _parse_time_span, _format_time_span)


class Rule(NamedTuple):
    """The unit of one threshold, and what the threshold means, as a text for the documentation."""

    unit: Unit
    means: str


RULES: Mapping[str, Rule] = {
    "failing": Rule(PERCENT, "share of the attempts of the last five minutes that failed, of at least ten"),
    "dead": Rule(JOBS, "jobs that died within the last day and are still dead"),
    "dying": Rule(JOBS, "jobs that died in the last five minutes, and at least one in a hundred of those that ended"),
    "waiting": Rule(
        SPAN, "wait of the oldest ready job; where not given and the usual is known: 3 times that, 1m at least"
    ),
    "backlog": Rule(SPAN, "how long the workers need for what is ready, while that becomes more"),
    "silent": Rule(JOBS, "jobs held by workers that stopped sending heartbeats"),
    "late": Rule(
        SPAN,
        "how late due jobs are dispatched and expired leases reaped, and how long a ready job waits without any worker",
    ),
}


def parse_threshold(name: str, value: object) -> Limit:
    """Parse a threshold of the config file: one value, a pair (warning, critical), or false for never.

    Raises ValueError, whose text is the expected format.
    """
    unit = RULES[name].unit
    if value is False:
        return Limit()
    try:
        if not isinstance(value, list):
            return Limit(unit.parse(value))
        warning, critical = (unit.parse(limit_value) for limit_value in value)
    except ValueError:
        raise ValueError(f"{unit.expected} (warning, critical), or false") from None
    if warning > critical:
        raise ValueError("the warning before what is critical, and not above it")
    return Limit(warning, critical)


def format_threshold(name: str, limit: Limit) -> str:
    """Format the values of a threshold for a person: `10..50`, a single value, or `false`."""
    texts = [RULES[name].unit.format(number) for number in limit if number is not None]
    return "..".join(texts) or "false"


def find_queue_thresholds(rules: Rules, names: Sequence[str]) -> Thresholds:
    """Return the thresholds of one queue: the defaults, changed by each rule whose pattern matches.

    `names` are the names under which the queue can be matched. The last matching rule wins.
    """
    thresholds = DEFAULTS
    for pattern, changes in rules:
        if any(fnmatchcase(name, pattern) for name in names):
            thresholds = thresholds._replace(**changes)
    return thresholds
