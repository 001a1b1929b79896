"""Native jobs written and read by raw commands: what the tests of the scripts compare the scripts with.

The formats are those of `lua/README.md`, written down here a second time on purpose: a script that writes
something else fails. `NOW` is the test's clock; scripts get it as `now_ms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script

NOW = 1_800_000_000_000
HOUR = 3_600_000
LEASE = 30_000
PRIORITY = 2**40
PLACES = ("scheduled", "ready", "reserved", "done", "dead")
HASHES = ("jobs", "bodies", "attempts", "errors")
KEYS = (*PLACES, *HASHES, "meta", "events", "minutes", "workers", "wake")
SCRIPTS: Mapping[str, Script] = scripts.load("native")
QUEUE = "mail"


def key(name: str, queue: str = QUEUE) -> str:
    """The key that a script's header calls `name`."""
    return f"rqtui:{{{queue}}}:{name}"


NATIVE_KEYS = {name: key(name) for name in KEYS}


def record(body: bytes = b"{}", **fields: object) -> bytes:
    """A job's record: the header line, short where all is default, and the body where that is short."""
    long = len(body) > 4096
    columns = {
        "enqueued_ms": NOW - HOUR,
        "due_ms": "-",
        "priority": 0,
        "ttr_ms": "-",
        "max_attempts": "-",
        "backoff_ms": "-",
        "backoff_cap_ms": "-",
        "keep_ms": "-",
        "body_bytes": len(body) if long else "-",
        "name": "",
    }
    assert not fields.keys() - columns.keys()
    full = columns | fields
    line = " ".join(str(value) for value in full.values())
    if not long and full == columns | {name: full[name] for name in ("enqueued_ms", "name")}:
        line = f"{full['enqueued_ms']}:{full['name']}"
    return line.encode() + b"\n" + (b"" if long else body)


def line(attempts: int = 1, token: str = "-", score: object = 1, at_ms: int = NOW - 1000, **fields: str) -> bytes:
    """A line of attempts."""
    rest = {"priority": "-", "flag": "-", "worker": "w1"} | fields
    return " ".join(str(part) for part in (attempts, token, score, at_ms, *rest.values())).encode()


def history(*errors: str) -> bytes:
    """A value of errors: one failed attempt per text."""
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
    """Write one job into a place; `client` may be a pipeline. `fields` are those of its header line."""
    client.zadd(key(place), {id: score})
    client.hset(key("jobs"), id, record(body, **fields))
    if len(body) > 4096:
        client.hset(key("bodies"), id, body)
    if attempts is not None:
        client.hset(key("attempts"), id, attempts)
    if errors is not None:
        client.hset(key("errors"), id, errors)


def facts(client: Redis, id: bytes) -> dict[str, object]:
    """All that Redis keeps of one job: its score in each place, its value in each hash; empty when it is unknown."""
    pipe = client.pipeline(transaction=False)
    for name in PLACES:
        pipe.zscore(key(name), id)
    for name in HASHES:
        pipe.hget(key(name), id)
    found = zip((*PLACES, *HASHES), pipe.execute(), strict=True)
    return {name: value for name, value in found if value is not None}


def body(client: Redis, id: bytes) -> bytes | None:
    """The body of a job, wherever it stands."""
    long = client.hget(key("bodies"), id)
    if long is not None:
        return long
    found = client.hget(key("jobs"), id)
    return found.partition(b"\n")[2] if found and b"\n" in found else None


def payload(client: Redis, id: bytes) -> bytes | None:
    """What never changes while a job lives: its record and its long body."""
    found = client.hget(key("jobs"), id)
    return None if found is None else found + (client.hget(key("bodies"), id) or b"")


def members(client: Redis, place: str) -> list[bytes]:
    """The ids of a place in its order."""
    return client.zrange(key(place), 0, -1)


def places_of(client: Redis, id: bytes) -> list[str]:
    return [name for name in PLACES if client.zscore(key(name), id) is not None]


def meta(client: Redis, name: str) -> int:
    """A number of meta, 0 when it is not there."""
    return int(client.hget(key("meta"), name) or 0)


def ask(client: Redis, verb: str, rows: Sequence[Any] = (), **args: object) -> Answer:
    """Run a native script on the test's queue at the test's clock, unless `now_ms` is given."""
    script = SCRIPTS[verb]
    if any(arg.name == "now_ms" for arg in script.args):
        args.setdefault("now_ms", NOW)
    return scripts.run(client, script.call(NATIVE_KEYS, args, rows))


def words(answer: Answer) -> list[str]:
    return [row.word for row in answer.each] if answer.each else [answer.word]


def put(client: Redis, *ids: bytes, now_ms: int = NOW, **fields: object) -> list[str]:
    """Enqueue these ids, all with the same fields; the words."""
    rows = [{"id": id, "body": b"{}", **fields} for id in ids]
    return words(ask(client, "enqueue", rows, now_ms=now_ms))


def lease(client: Redis, limit: int = 1, now_ms: int = NOW, **args: object) -> Answer:
    return ask(client, "reserve", limit=limit, now_ms=now_ms, **{"worker": "w1", **args})


def taken(client: Redis, now_ms: int = NOW, **args: object) -> tuple[bytes, str]:
    """Reserve the next job: its id and token."""
    answer = lease(client, now_ms=now_ms, **args)
    assert answer.word == "moved", answer.word
    return answer.rows[0][0], answer.rows[0][1]


def attempts(client: Redis, id: bytes) -> int:
    """How many attempts are counted for a job."""
    return int(client.hget(key("attempts"), id).split(b" ")[0])
