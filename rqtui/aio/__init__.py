"""Provide the native queue for asyncio programs: `rqtui.client` with awaited calls.

    from rqtui.aio import Queue

Calls, replies, leases, heartbeats and the consumer loop come from `rqtui.client`; only sending and waiting differ.
"""

from __future__ import annotations

from rqtui.aio.consumer import Consumer
from rqtui.aio.leased_job import Job
from rqtui.aio.queue import Queue
from rqtui.client.calls import Put
from rqtui.client.codecs import BYTES, JSON, MSGPACK, Codec

__all__ = ["BYTES", "JSON", "MSGPACK", "Codec", "Consumer", "Job", "Put", "Queue"]
