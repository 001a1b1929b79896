"""A clock that a test moves: for Redis, for the scripts of rqtui, for the simulated programs and for the engine.

The scripts of rqtui read the time only by `redis.call('TIME')`. Under this clock that call reads two keys instead. A
move of the clock also shortens the time to live of every key, and deletes the keys whose time is over. Python's
`time.time` and `time.monotonic` return the simulated time too, so that no result depends on the speed of the machine.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest
from redis import Redis
from redis.commands.core import ManagementCommands

from rqtui.connection.subscriber import Message, SubscriptionStatus
from rqtui.scripts.include import assemble_script
from rqtui.scripts.script import Script
from rqtui.text.names import to_bytes

START_S = 1_800_000_000.0
_KEYS = ("~clock:s", "~clock:us")
_EXPIRE = """
local by = tonumber(ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= by then redis.call('DEL', key) elseif left > 0 then redis.call('PEXPIRE', key, left - by) end
end
"""


class SimulatedClock:
    """The time of one test in unix seconds. Call the clock to read it."""

    def __init__(self, client: Redis) -> None:
        self._clients, self._now_s = [client], START_S
        self.advance(0)

    def __call__(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move the clock, and let keys expire."""
        self._now_s += seconds
        if seconds > 0:
            for client in self._clients:
                client.eval(_EXPIRE, 0, int(seconds * 1000))
        self.write()

    def write(self) -> None:
        """Write the time to the keys that the scripts read."""
        whole = int(self._now_s)
        for client in self._clients:
            client.mset({_KEYS[0]: whole, _KEYS[1]: int((self._now_s - whole) * 1_000_000)})

    def mirror(self, client: Redis) -> None:
        """Write the time to another database too, until the next restart."""
        self._clients.append(client)
        self.write()

    def restart(self) -> None:
        """Set the clock to the start of a test, after the database was emptied."""
        self._now_s = START_S
        del self._clients[1:]
        self.write()

    def travel(self, seconds: float) -> None:
        """Move the clock of the programs without expiry, to write what happened earlier; travel back afterwards."""
        self._now_s += seconds
        self.write()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Make the scripts of rqtui, redis-py and Python's module `time` read this clock."""

        sources: dict[int, tuple[str, str, Script]] = {}  # by id; the script is kept, so that no other gets its id

        def read(script: Script) -> tuple[str, str, Script]:
            if id(script) not in sources:
                text = assemble_script(script.file_text, script.path, script.blocks, script)
                text = text.replace("redis.call('TIME')", f"redis.call('MGET', '{_KEYS[0]}', '{_KEYS[1]}')")
                sources[id(script)] = text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), script
            return sources[id(script)]

        def read_time(client: Any, **_options: Any) -> Any:
            return client.execute_command("MGET", *_KEYS)

        patch.setattr(Script, "source", property(lambda script: read(script)[0]))
        patch.setattr(Script, "sha", property(lambda script: read(script)[1]))
        patch.setattr(ManagementCommands, "time", read_time)
        patch.setattr(time, "time", self)
        patch.setattr(time, "monotonic", self)
        patch.setattr(time, "time_ns", lambda: int(self() * 1_000_000_000))
        patch.setattr("rqtui.engine.event_listener.Subscriber", _SameThreadSubscriber)


class _SameThreadSubscriber:
    """A subscriber without a thread: it reads its messages when they are taken, so that none is still on its way."""

    dropped = 0

    def __init__(self, client: Any) -> None:
        self._pubsub = client.pubsub()
        self._since_s: dict[str, float] = {}

    def subscribe(self, patterns: Any) -> None:
        """Subscribe to more patterns, from now on."""
        for pattern in patterns:
            self._pubsub.psubscribe(pattern)
            self._since_s.setdefault(pattern, time.monotonic())

    def read_status(self, pattern: str) -> SubscriptionStatus:
        """Return since when a pattern is subscribed."""
        return SubscriptionStatus(self._since_s.get(pattern))

    def take_messages(self) -> list[Message]:
        """Return the messages so far: the reply to a PING comes after all of them."""
        if not self._since_s:
            return []
        self._pubsub.ping()
        messages: list[Message] = []
        while (found := self._pubsub.get_message(timeout=5.0)) is None or found["type"] != "pong":
            if found and found["type"] == "pmessage":
                messages.append(
                    Message(*(to_bytes(found[name]) for name in ("pattern", "channel", "data")), time.monotonic())
                )
        return messages

    def close(self) -> None:
        """Close the connection."""
        self._pubsub.close()
