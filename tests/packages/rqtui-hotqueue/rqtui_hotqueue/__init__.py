"""HotQueue for rqtui: a list per queue, as hotqueue 0.2.8 has it (hotqueue.py: `key_for_name`, `put`, `get`).

LIST `hotqueue:<queue>`, RPUSH in and LPOP or BLPOP out. A job is its bytes, a pickle unless the program names another
serializer. Nothing is kept of a job that was taken.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import Job, Place, State
from rqtui.system_base.entries import Entry
from rqtui.system_base.foreign_system import EntrySystem
from rqtui.system_base.key_types import read_key_types
from rqtui.text.names import to_text

PREFIX = "hotqueue:"


class HotQueue(EntrySystem):
    """One place: what was put and not taken."""

    name = "hotqueue"
    folder = Path(__file__).parent / "lua"
    places = (Place("waiting", State.READY, PREFIX + "<queue>", "list"),)
    key_patterns = (r"^hotqueue:.",)

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the queue's only key."""
        return {"waiting": PREFIX + queue}

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues of the found keys: a list with the prefix is a queue; an empty queue has no key."""
        lists = [key for key, kind in zip(found, read_key_types(client, found), strict=True) if kind == "list"]
        return [to_text(key).removeprefix(PREFIX) for key in lists]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the queue's list exists."""
        return read_key_types(client, [PREFIX + queue]) == ["list"]

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from an entry, which is the whole job."""
        return Job(b"", queue, self.name, place, self.place(place).state, entry.head)

    def encode_body(self, body: bytes) -> bytes:
        """JSON as the pickle that a `HotQueue` of the default serializer reads."""
        try:
            return pickle.dumps(json.loads(body), 2)
        except ValueError:
            raise UsageError("hotqueue: a body is JSON; it is stored as a pickle.") from None
