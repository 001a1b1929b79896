"""Run several functions that read from Redis with as few round trips as the slowest of them needs alone.

Discovery asks every system whether a queue of a name exists. Each system reads a few keys, and on a slow link the round
trips of nine systems would take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from redis import Redis
from redis.client import Pipeline

T = TypeVar("T")
Command = tuple[Any, ...]  # the words of one command, without the options that only redis-py needs


class _MissingReplies(Exception):
    """Raised when a function needs replies of Redis that have not been read yet."""


def read_jointly(client: Redis, readers: Sequence[Callable[[Any], T]]) -> list[T | Exception]:
    """Call each reader with a client, and return its result or the exception that it raised, in order.

    A reader may only send commands that read, by methods of the client or a pipeline. It is called again from its start
    until all of its replies are known, so it must not depend on how often it runs. An exception in sending, for example
    a lost connection, is raised.
    """
    replies: dict[Command, Any] = {}
    results: list[T | Exception | None] = [None] * len(readers)
    remaining = dict(enumerate(readers))
    while remaining:
        missing: dict[Command, dict[str, Any]] = {}
        for number, reader in [*remaining.items()]:
            try:
                results[number] = reader(_ReplayingClient(client, replies, missing))
            except _MissingReplies:
                continue
            except Exception as error:
                results[number] = error
            del remaining[number]
        if missing:
            pipe = client.pipeline(transaction=False)
            for words, options in missing.items():
                pipe.execute_command(*words, **options)  # type: ignore[no-untyped-call]
            replies.update(zip(missing, pipe.execute(raise_on_error=False), strict=True))
    return results  # type: ignore[return-value]  # No reader remains, so each has a result.


class _ReplayingClient(Redis):
    """A client that returns replies read earlier, and notes the commands whose replies are missing."""

    def __init__(self, client: Redis, replies: dict[Command, Any], missing: dict[Command, dict[str, Any]]) -> None:
        super().__init__(connection_pool=client.connection_pool)
        self._replies, self._missing = replies, missing

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Return the reply to a command; raise it if it is an error."""
        reply = self.find_replies([(words, options)])[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        """Return a pipeline that is answered from the same replies."""
        return _ReplayingPipeline(self, transaction, shard_hint)

    def find_replies(self, commands: Sequence[tuple[Command, dict[str, Any]]]) -> list[Any]:
        """Return the replies to commands and their options. Raises _MissingReplies unless all are known."""
        missing = {words: options for words, options in commands if words not in self._replies}
        if missing:
            self._missing.update(missing)
            raise _MissingReplies
        return [self._replies[words] for words, _options in commands]

    def __del__(self) -> None:
        """Leave the connection pool open, which belongs to the real client."""


class _ReplayingPipeline(Pipeline):
    def __init__(self, client: _ReplayingClient, transaction: bool, shard_hint: Any) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._client = client

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Return the replies to the queued commands; raise the first error among them if `raise_on_error`."""
        replies = self._client.find_replies([*self.command_stack])
        self.reset()
        errors = [reply for reply in replies if isinstance(reply, Exception)]
        if errors and raise_on_error:
            raise errors[0]
        return replies
