"""Read replies of Redis together that a command needs one after the other, so that they take one round trip.

`act` counts a queue, looks a job up and saves it for undo in three steps, each in its own module. The steps stay as
they are: the command names their calls beforehand (`ReadAhead.fetch`), and the transport takes the stored reply when
the step sends the same call. Installed by `Engine.read_ahead` on the connection pool of one server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rqtui.scripts.script import Call, Command, ReadCommands

Send = Callable[[Sequence[Call]], list[Any]]


class ReadAhead:
    """Stored replies to calls that only read. Each is used once, and a change makes all of them outdated.

    The calls in `after` are sent behind the next change, in its round trip, and their replies are stored.
    """

    def __init__(self) -> None:
        self._replies: dict[object, Any] = {}
        self.after: tuple[Call, ...] = ()

    def fetch(self, calls: Sequence[Call], send: Send) -> None:
        """Send calls in one round trip and store their replies. Errors are not stored, so that the step meets them."""
        self._store(calls, send(calls))

    def send_calls(self, calls: Sequence[Call], send: Send) -> list[Any]:
        """Return the stored replies if there is one for each call; otherwise send the calls."""
        if all(_is_reading(call) for call in calls):
            keys = [_build_key(call) for call in calls]
            if len(set(keys)) == len(keys) and self._replies.keys() >= set(keys):
                return [self._replies.pop(key) for key in keys]
            return send(calls)
        after, self.after = self.after, ()
        self._replies.clear()
        results = send([*calls, *after])
        self._store(after, results[len(calls) :])
        return results[: len(calls)]

    def _store(self, calls: Sequence[Call], results: Sequence[Any]) -> None:
        for call, result in zip(calls, results, strict=True):
            if not isinstance(result, Exception):
                self._replies[_build_key(call)] = result


def _is_reading(call: Call) -> bool:
    return call.script.read_only or isinstance(call, Command | ReadCommands)


def _build_key(call: Call) -> object:
    return (call.script.name, call.script.path, tuple(call.keys), tuple(call.argv), call.packed)
