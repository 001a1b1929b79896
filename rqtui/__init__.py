"""rqtui: a terminal dashboard for job queues in Redis, a job queue of its own, and a converter between queue systems.

Holds the version, and imports `Queue` at its first use, so that `rqtui --version` imports neither redis nor textual.
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
