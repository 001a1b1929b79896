"""The native queue for programs with an event loop: what `rqtui.client` waits for is awaited here.

    from rqtui.aio import Queue

Calls, answers, leases, beats and the loop of a consumer are `rqtui.client`'s; only sending and waiting are asyncio's.
"""

from __future__ import annotations

from rqtui.aio.consumer import Consumer
from rqtui.aio.leased_job import Job
from rqtui.aio.queue import Queue
from rqtui.client.calls import Put
from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]
