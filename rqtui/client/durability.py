"""Putting a job so that a crash of the server cannot lose it: the answer waits for a disk or a replica.

WAITAOF (Redis 7.2, Valkey) where an append-only file is kept, else WAIT for one replica. Behind sentinels and in a
Cluster a replica takes over from a server that fails, so there only a replica counts: what is on the disk of the old
primary is thrown away when it comes back. Both wait for what *this connection* wrote, so the script and the waiting
share one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis, exceptions

from rqtui.connection.cluster import follows
from rqtui.coroutines import run_at_once
from rqtui.errors import ServerError, Unknown
from rqtui.scripts import replies
from rqtui.scripts.script import Answer, Call, run

TIMEOUT_MS = 3000
Execute = Callable[..., Awaitable[Any]]
"""Sends one command on the connection that runs the script. Raises the errors of redis-py."""


def run_durably(client: Redis, call: Call) -> Answer:
    """Run `call`, then wait until its writes are on disk or on a replica; see `durably`."""
    with _one_connection(client) as one:

        async def execute(*words: Any) -> Any:
            return one.execute_command(*words)  # type: ignore[no-untyped-call]

        async def send(call: Call) -> Answer:
            return run(one, call)

        return run_at_once(durably(send, execute, call, follows(client)))


async def durably(
    send: Callable[[Call], Awaitable[Answer]], execute: Execute, call: Call, has_failover: bool
) -> Answer:
    """Send `call`, then wait until its writes are on disk or on a replica; with `has_failover` only a replica counts.

    Raises ServerError when that is not so within 3 s: then the job is in the queue, but only in memory. Trying again
    with the same id does no harm.
    """
    meta = call.keys[[key.name for key in call.script.keys].index("meta")]
    answer = await send(call)
    try:
        # An id that existed wrote nothing, so there would be nothing to wait for; the same value again is a write.
        await execute("HSET", meta, "version", "2")
        safe = (not has_failover and await _is_on_disk(execute)) or await _is_on_replica(execute)
    except (exceptions.RedisError, OSError) as error:
        raise Unknown(
            f"The job is in the queue; whether it is on disk or on a replica is not known: {error}"
        ) from error
    if not safe:
        raise ServerError(_BEHIND_FAILOVER if has_failover else _ALONE)
    return answer


@contextmanager
def _one_connection(client: Redis) -> Iterator[Redis]:
    """A client with a single connection, which redis-py makes at once."""
    try:
        one: Redis = client.client()  # type: ignore[no-untyped-call]
    except exceptions.RedisError as error:
        raise replies.from_connecting(error) from error
    with one:
        yield one


_ALONE = (
    "The job is in the queue, but only in this server's memory: no append-only file and no replica confirmed it within "
    f"{TIMEOUT_MS // 1000} s. Turn appendonly on (Redis 7.2 or later), or attach a replica."
)
_BEHIND_FAILOVER = (
    f"The job is in the queue, but only on its primary: no replica confirmed it within {TIMEOUT_MS // 1000} s, and a "
    "failover would lose it. Bring a replica back; trying again with the same id is safe."
)


async def _is_on_disk(execute: Execute) -> bool:
    try:
        local, _replicas = await execute("WAITAOF", 1, 0, TIMEOUT_MS)
    except exceptions.ResponseError:  # no such command, no append-only file, or an ACL denies it
        return False
    return int(local) >= 1


async def _is_on_replica(execute: Execute) -> bool:
    return int(await execute("WAIT", 1, TIMEOUT_MS)) >= 1
