"""The longest single call of some work, as the server's slow log has it: what it costs everybody else.

On a machine with other work a call may stand still in its middle, and the log counts that, too. So a look is done many
times: the median is printed beside the least and the worst.
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
def longest_call(client: Any) -> Iterator[list[float]]:
    """Afterwards the list holds the milliseconds of the longest command of the block; nothing where nobody knows."""
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


def looks(on: Bench, *of: tuple[str, Callable[[], object]], target: str = MOST_MS) -> Iterator[Line]:
    """The longest call of each look, the median of many rounds, in which all looks take turns."""
    longest: dict[str, list[float]] = {name: [] for name, _look in of}
    for at in range(on.size(TIMES, 3) + 1):
        for name, look in of:
            with longest_call(on.client) as calls:
                look()
            longest[name] += calls if at else []  # the first one loads scripts
    for name, found in longest.items():
        yield Line(name, statistics.median(found) if found else None, "ms", target, _spread(found))


def _spread(found: list[float]) -> str:
    """The least and the worst of some figures in milliseconds, or why there is none."""
    if not found:
        return NO_SLOW_LOG
    if max(found) <= FLOOR_US / 1000:
        return "or less"
    return f"of {len(found)}: {min(found):.2f} … {max(found):.2f}"
