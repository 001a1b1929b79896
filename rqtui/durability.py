"""Putting a job so that a crash of the server cannot lose it: the answer waits for a disk or a replica.

WAITAOF (Redis 7.2, Valkey) where an append-only file is kept, else WAIT for one replica. Both wait for what *this
connection* wrote, so the script and the waiting share one.
"""

from __future__ import annotations

from redis import Redis, exceptions

from rqtui.errors import ServerError, Unknown
from rqtui.scripts import Answer, Call, run

TIMEOUT_MS = 3000


def run_durably(client: Redis, call: Call) -> Answer:
    """Run `call`, then wait until its writes are on disk or on a replica.

    Raises ServerError when neither is so within 3 s: then the job is in the queue, but only in memory. Trying again
    with the same id does no harm.
    """
    meta = call.keys[[key.name for key in call.script.keys].index("meta")]
    with client.client() as one:  # type: ignore[no-untyped-call]
        answer = run(one, call)
        try:
            # An id that existed wrote nothing, so there would be nothing to wait for; the same value again is a write.
            one.hset(meta, "version", "1")
            safe = _is_on_disk(one) or _is_on_replica(one)
        except (exceptions.RedisError, OSError) as error:
            raise Unknown(
                f"The job is in the queue; whether it is on disk or on a replica is not known: {error}"
            ) from error
    if not safe:
        raise ServerError(
            "The job is in the queue, but only in this server's memory: no append-only file and no replica "
            f"confirmed it within {TIMEOUT_MS // 1000} s. Turn appendonly on (Redis 7.2 or later), or attach a replica."
        )
    return answer


def _is_on_disk(one: Redis) -> bool:
    try:
        local, _replicas = one.execute_command("WAITAOF", 1, 0, TIMEOUT_MS)  # type: ignore[no-untyped-call]
    except exceptions.ResponseError:  # no such command, no append-only file, or an ACL denies it
        return False
    return int(local) >= 1


def _is_on_replica(one: Redis) -> bool:
    return int(one.execute_command("WAIT", 1, TIMEOUT_MS)) >= 1  # type: ignore[no-untyped-call]
