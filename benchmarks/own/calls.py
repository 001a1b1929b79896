"""Measure the longest single call of some work from the server's slow log, because other clients wait for it.

On a busy machine a call may be interrupted, and the log includes the interruption. So each read is repeated many times,
and the median is printed with the least and the greatest.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from redis import exceptions

from .line import Bench, Line

MOST_MS = "≤ 5"  # of one call
FLOOR_US = 100  # shorter calls are too many to be kept, and not what is looked for
TIMES = 15
NO_SLOW_LOG = "not measured: this server has no slow log"
_KEPT = 200_000


@contextlib.contextmanager
def record_longest_call(client: Any) -> Iterator[list[float]]:
    """Yield a list that gets the milliseconds of the longest command inside the `with` block.

    The list stays empty if the server has no slow log.
    """
    found: list[float] = []
    try:
        before = {name: client.config_get(name)[name] for name in ("slowlog-log-slower-than", "slowlog-max-len")}
        client.config_set("slowlog-max-len", _KEPT)
        client.config_set("slowlog-log-slower-than", FLOOR_US)
        client.slowlog_reset()
    except (exceptions.ResponseError, KeyError):
        yield found
        return
    try:
        yield found
    finally:
        client.config_set("slowlog-log-slower-than", -1)
        found.append(max((entry["duration"] for entry in client.slowlog_get(_KEPT)), default=FLOOR_US) / 1000)
        client.slowlog_reset()
        for name, value in before.items():
            client.config_set(name, value)


def measure_reads(on: Bench, *of: tuple[str, Callable[[], object]], target: str = MOST_MS) -> Iterator[Line]:
    """Yield each read operation's median longest call, over many rounds in which the operations take turns."""
    longest: dict[str, list[float]] = {name: [] for name, _look in of}
    for at in range(on.size(TIMES, 3) + 1):
        for name, look in of:
            with record_longest_call(on.client) as calls:
                look()
            longest[name] += calls if at else []  # the first one loads scripts
    for name, found in longest.items():
        yield Line(name, statistics.median(found) if found else None, "ms", target, _format_spread(found))


def _format_spread(found: list[float]) -> str:
    """Format the least and the greatest of some figures in milliseconds, or the reason why there is none."""
    if not found:
        return NO_SLOW_LOG
    if max(found) <= FLOOR_US / 1000:
        return "or less"
    return f"of {len(found)}: {min(found):.2f} … {max(found):.2f}"
