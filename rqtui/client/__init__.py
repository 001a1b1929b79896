"""The Python API of the native queue, imported by programs.

    from rqtui.client import Queue

The names are imported on first use, because the keys of the native queue (`native_keys`) are read by modules that need
neither redis-py nor threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec
    from rqtui.client.consumer import Consumer
    from rqtui.client.leased_job import Job
    from rqtui.client.queue import Put, Queue

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]

_HOME = {"Consumer": "consumer", "Job": "leased_job", "Put": "queue", "Queue": "queue"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'codecs')}"), name)
