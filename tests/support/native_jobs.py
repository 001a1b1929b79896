"""Write and read native jobs by raw commands, for the tests that compare the scripts with them.

The formats are those of `lua/README.md`, written down here a second time on purpose: a test fails if a script writes
something else. `NOW` is the test's clock; scripts get it as `now_ms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script

NOW = 1_800_000_000_000
HOUR = 3_600_000
LEASE = 30_000
PRIORITY = 2**40
PLACES = ("scheduled", "ready", "reserved", "done", "dead")
HASHES = ("jobs", "bodies", "attempts", "errors")
KEYS = (*PLACES, *HASHES, "meta", "events", "minutes", "workers", "wake")
SCRIPTS: Mapping[str, Script] = scripts.load_scripts("native")
QUEUE = "mail"


def build_key(name: str, queue: str = QUEUE) -> str:
    """Return the native queue's Redis key that a script's header calls `name`."""
    return f"rqtui:{{{queue}}}:{name}"


NATIVE_KEYS = {name: build_key(name) for name in KEYS}


def build_record(body: bytes = b"{}", **fields: object) -> bytes:
    """Build the stored record of a native job: a header line, and the body unless it is long.

    The header line is short if all values are default.
    """
    is_long = len(body) > 4096
    columns = {
        "enqueued_ms": NOW - HOUR,
        "due_ms": "-",
        "priority": 0,
        "ttr_ms": "-",
        "max_attempts": "-",
        "backoff_ms": "-",
        "backoff_cap_ms": "-",
        "keep_ms": "-",
        "body_bytes": len(body) if is_long else "-",
        "name": "",
    }
    assert not fields.keys() - columns.keys()
    values = columns | fields
    header = " ".join(str(value) for value in values.values())
    if not is_long and values == columns | {name: values[name] for name in ("enqueued_ms", "name")}:
        header = f"{values['enqueued_ms']}:{values['name']}"
    return header.encode() + b"\n" + (b"" if is_long else body)


def build_attempts_line(
    attempts: int = 1, token: str = "-", score: object = 1, at_ms: int = NOW - 1000, **fields: str
) -> bytes:
    """Build the value of a native job in the hash `attempts`."""
    options = {"priority": "-", "flag": "-", "worker": "w1"} | fields
    return " ".join(str(value) for value in (attempts, token, score, at_ms, *options.values())).encode()


def build_error_history(*errors: str) -> bytes:
    """Build the value of a native job in the hash `errors`, with one failed attempt per text."""
    return json.dumps([[NOW - 9000, NOW - 8000, "w1", error] for error in errors]).encode()


def plant_job(
    client: Redis,
    place: str,
    id: bytes,
    score: float,
    body: bytes = b"{}",
    attempts: bytes | None = None,
    errors: bytes | None = None,
    **fields: object,
) -> None:
    """Write one native job into a place. `client` may be a pipeline; `fields` are those of the header line."""
    client.zadd(build_key(place), {id: score})
    client.hset(build_key("jobs"), id, build_record(body, **fields))
    if len(body) > 4096:
        client.hset(build_key("bodies"), id, body)
    if attempts is not None:
        client.hset(build_key("attempts"), id, attempts)
    if errors is not None:
        client.hset(build_key("errors"), id, errors)


def read_facts(client: Redis, id: bytes) -> dict[str, object]:
    """Return everything that Redis stores about one native job: its score in each place, its value in each hash."""
    pipe = client.pipeline(transaction=False)
    for name in PLACES:
        pipe.zscore(build_key(name), id)
    for name in HASHES:
        pipe.hget(build_key(name), id)
    facts = zip((*PLACES, *HASHES), pipe.execute(), strict=True)
    return {name: value for name, value in facts if value is not None}


def read_body(client: Redis, id: bytes) -> bytes | None:
    """Return the stored body of a native job, short or long."""
    long_body = client.hget(build_key("bodies"), id)
    if long_body is not None:
        return long_body
    record = client.hget(build_key("jobs"), id)
    return record.partition(b"\n")[2] if record and b"\n" in record else None


def read_constant_parts(client: Redis, id: bytes) -> bytes | None:
    """Return the parts of a native job that never change while it exists: its record and its long body."""
    record = client.hget(build_key("jobs"), id)
    return None if record is None else record + (client.hget(build_key("bodies"), id) or b"")


def list_ids(client: Redis, place: str) -> list[bytes]:
    """Return the ids of a native queue's place in their order."""
    return client.zrange(build_key(place), 0, -1)


def find_places(client: Redis, id: bytes) -> list[str]:
    """Return the places of the native queue that contain a job."""
    return [name for name in PLACES if client.zscore(build_key(name), id) is not None]


def read_meta(client: Redis, name: str) -> int:
    """Return a number from the native queue's hash `meta`, or 0 if the field is missing."""
    return int(client.hget(build_key("meta"), name) or 0)


def run_script(client: Redis, verb: str, rows: Sequence[Any] = (), **args: object) -> Reply:
    """Run a script of the native queue at the test's clock, unless `now_ms` is given."""
    script = SCRIPTS[verb]
    if any(arg.name == "now_ms" for arg in script.args):
        args.setdefault("now_ms", NOW)
    return scripts.run_call(client, script.build_call(NATIVE_KEYS, args, rows))


def read_outcomes(reply: Reply) -> list[str]:
    """Return the word of each row of a script's reply."""
    return [row.word for row in reply.each] if reply.each else [reply.word]


def enqueue_ids(client: Redis, *ids: bytes, now_ms: int = NOW, **fields: object) -> list[str]:
    """Enqueue jobs with these ids and the same fields into the native queue, and return the outcomes."""
    rows = [{"id": id, "body": b"{}", **fields} for id in ids]
    return read_outcomes(run_script(client, "enqueue", rows, now_ms=now_ms))


def reserve_jobs(client: Redis, limit: int = 1, now_ms: int = NOW, **args: object) -> Reply:
    """Reserve the next jobs of the native queue at the test's clock, and return the script's reply."""
    return run_script(client, "reserve", limit=limit, now_ms=now_ms, **{"worker": "w1", **args})


def reserve_one(client: Redis, now_ms: int = NOW, **args: object) -> tuple[bytes, str]:
    """Reserve the next job of the native queue and return its id and token."""
    reply = reserve_jobs(client, now_ms=now_ms, **args)
    assert reply.word == "moved", reply.word
    return reply.rows[0][0], reply.rows[0][1]


def read_attempts(client: Redis, id: bytes) -> int:
    """Return the number of counted attempts of a native job."""
    return int(client.hget(build_key("attempts"), id).split(b" ")[0])
