"""Thresholds: from when on a number about a queue is a finding, with defaults and reasons; a config file changes them.

A threshold is a pair: from where on it is a warning, from where on critical; None: never. The config file gives them by
patterns of queues' names, as it denies verbs; of several patterns that fit the one further down wins, key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from rqtui.durations import parse
from rqtui.errors import RqtuiError


class Limit(NamedTuple):
    """From where on it is a warning, and critical; None: never."""

    warning: float | None = None
    critical: float | None = None

    def severity(self, number: float) -> str:
        """What that number is: warning, critical, or nothing."""
        if self.critical is not None and number >= self.critical:
            return "critical"
        return "warning" if self.warning is not None and number >= self.warning else ""


class Thresholds(NamedTuple):
    """The limits of one queue; shares in per cent, times in ms."""

    failing: Limit = Limit(
        10, 50
    )  # one failure in ten is more than retries are for; at every other one nobody is served
    dead: Limit = Limit(1_000, 5_000)  # more than a person looks through one by one; more than fit into one report
    dead_share: Limit = Limit(50)  # a queue that was drained may hold old dead jobs alone: no reason to wake anybody
    dying: Limit = Limit(10, 1_000)  # in five minutes; one job that dies now and then is what dead is for
    waiting: Limit = Limit(300_000)  # where nobody knows what is usual
    backlog: Limit = Limit(
        60_000, 14_400_000
    )  # a burst is worked off within a minute; what takes four hours is not worked off today
    silent: Limit = Limit(1, 100)  # no worker beats late by its own word
    late: Limit = Limit(5_000)  # a loop that looks once a second, and its back-off, are late by less


DEFAULTS = Thresholds()
Rules = Sequence[tuple[str, Mapping[str, Limit]]]  # patterns of names, as of a shell, and what they change


class Unit(NamedTuple):
    """How a threshold is written: what is expected, in words, and how a number is read; ValueError where it is none."""

    expected: str
    read: Callable[[object], float]
    written: Callable[[float], str]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError
    return value


def _percent(value: object) -> float:
    if (number := _number(value)) > 100:
        raise ValueError
    return number


def _span(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    try:
        return _number(parse(value))
    except RqtuiError:
        raise ValueError from None


def _spelled(ms: float) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms / size:g}{unit}"
    return f"{ms:g}ms"


PERCENT = Unit("per cent, as in 10 or [10, 50]", _percent, lambda number: f"{number:g}")
JOBS = Unit("a number of jobs, as in 100 or [100, 5000]", _number, lambda number: f"{number:g}")
SPAN = Unit('a time, as in "5m" or ["5m", "1h"]', _span, _spelled)


class Rule(NamedTuple):
    """What a threshold is about, and how it is written."""

    unit: Unit
    means: str


RULES: Mapping[str, Rule] = {
    "failing": Rule(PERCENT, "share of the attempts of the last five minutes that failed, of at least ten"),
    "dead": Rule(JOBS, "dead jobs"),
    "dead_share": Rule(PERCENT, "share of a queue's jobs, done ones too, that are dead, of at least ten dead"),
    "dying": Rule(JOBS, "jobs that died in the last five minutes, and at least one in a hundred of those that ended"),
    "waiting": Rule(
        SPAN, "wait of the oldest ready job; where not given and the usual is known: 3 times that, 1m at least"
    ),
    "backlog": Rule(SPAN, "how long the workers need for what is ready, while that becomes more"),
    "silent": Rule(JOBS, "leases of workers that do not beat"),
    "late": Rule(SPAN, "how late somebody dispatches or reaps, and how long a ready job waits without any worker"),
}


def read(name: str, value: object) -> Limit:
    """A threshold in a config file: one value, a pair, or false. Raises ValueError with what is expected."""
    unit = RULES[name].unit
    if value is False:
        return Limit()
    try:
        if not isinstance(value, list):
            return Limit(unit.read(value))
        warning, critical = (unit.read(each) for each in value)
    except ValueError:
        raise ValueError(f"{unit.expected} (warning, critical), or false") from None
    if warning > critical:
        raise ValueError("the warning before what is critical, and not above it")
    return Limit(warning, critical)


def written(name: str, limit: Limit) -> str:
    """A threshold as the config file has it, in one word or two: `10..50`."""
    told = [RULES[name].unit.written(each) for each in limit if each is not None]
    return "..".join(told) or "false"


def of(rules: Rules, names: Sequence[str]) -> Thresholds:
    """The thresholds of the queue that has these names."""
    found = DEFAULTS
    for pattern, changes in rules:
        if any(fnmatchcase(name, pattern) for name in names):
            found = found._replace(**changes)
    return found
