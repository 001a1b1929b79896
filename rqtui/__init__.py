"""rqtui: a terminal cockpit, a job queue and a translator for job queues in Redis.

Holds the version and, found when it is first asked for, `Queue`: `rqtui --version` imports neither redis nor textual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqtui.client.queue import Queue

__all__ = ["Queue"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "Queue":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rqtui.client.queue import Queue

    return Queue
