"""Put jobs durably: a call returns only after its writes are on disk or on a replica, so that a crash loses no job.

WAITAOF (Redis 7.2, Valkey) is used if the server has an append-only file, otherwise WAIT for one replica. Behind
sentinels and in a Cluster only a replica counts, because a replica takes over from a failed primary, and the old
primary discards its own data when it returns. Both commands wait for the writes of *their own connection*, so the
script and the wait command are sent on the same connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis, exceptions

from rqtui.connection.cluster import can_change_server
from rqtui.connection.redis_errors import error_replies
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import ServerError, Unknown
from rqtui.scripts.script import Call, Reply, run_call

TIMEOUT_MS = 3000
Execute = Callable[..., Awaitable[Any]]
"""Sends one command on the connection that runs the script. Raises the errors of redis-py."""


def run_call_durably(client: Redis, call: Call) -> Reply:
    """Run a call that puts jobs, then wait until its writes are on disk or on a replica; see `send_call_durably`."""
    with _open_single_connection(client) as connection:

        async def send_command(*words: Any) -> Any:
            return connection.execute_command(*words)  # type: ignore[no-untyped-call]

        async def send_script_call(call: Call) -> Reply:
            return run_call(connection, call)

        return run_without_event_loop(
            send_call_durably(send_script_call, send_command, call, can_change_server(client))
        )


async def send_call_durably(
    send: Callable[[Call], Awaitable[Reply]], execute: Execute, call: Call, has_failover: bool
) -> Reply:
    """Send a call that puts jobs, then wait until its writes are on disk or on a replica.

    With `has_failover` only a replica counts. Raises ServerError if neither confirms the writes within 3 s: then the
    job is in the queue, but only in memory. Sending the call again with the same id does no harm.
    """
    meta_key = call.keys[[key.name for key in call.script.keys].index("meta")]
    reply = await send(call)
    try:
        # A call whose id existed wrote nothing, and WAIT would return at once. Setting a field to its old value is a
        # write, so WAIT then also covers the earlier call that put the job.
        await execute("HSET", meta_key, "version", "2")
        is_durable = (not has_failover and await _is_write_on_disk(execute)) or await _is_write_on_replica(execute)
    except (exceptions.RedisError, OSError) as error:
        raise Unknown(
            f"The job is in the queue; whether it is on disk or on a replica is not known: {error}"
        ) from error
    if not is_durable:
        raise ServerError(_UNCONFIRMED_WITH_FAILOVER if has_failover else _UNCONFIRMED)
    return reply


@contextmanager
def _open_single_connection(client: Redis) -> Iterator[Redis]:
    """Open a Redis client with a single connection, which redis-py connects at once."""
    try:
        connection: Redis = client.client()  # type: ignore[no-untyped-call]
    except exceptions.RedisError as error:
        raise error_replies.build_connection_error(error) from error
    with connection:
        yield connection


_UNCONFIRMED = (
    "The job is in the queue, but only in this server's memory: no append-only file and no replica confirmed it within "
    f"{TIMEOUT_MS // 1000} s. Turn appendonly on (Redis 7.2 or later), or attach a replica."
)
_UNCONFIRMED_WITH_FAILOVER = (
    f"The job is in the queue, but only on its primary: no replica confirmed it within {TIMEOUT_MS // 1000} s, and a "
    "failover would lose it. Bring a replica back; trying again with the same id is safe."
)


async def _is_write_on_disk(execute: Execute) -> bool:
    try:
        local, _replicas = await execute("WAITAOF", 1, 0, TIMEOUT_MS)
    except exceptions.ResponseError:  # no such command, no append-only file, or an ACL denies it
        return False
    return int(local) >= 1


async def _is_write_on_replica(execute: Execute) -> bool:
    return int(await execute("WAIT", 1, TIMEOUT_MS)) >= 1
