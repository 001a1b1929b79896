"""Schemas 1 and 2: every verb reads both forms of a header, and the version keeps older scripts from the short one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from native_jobs import HOUR, LEASE, NOW, build_key, enqueue_ids, read_facts, read_meta, reserve_one, run_script
from redis import Redis

from rqtui.client.leased_job import Leased
from rqtui.client.queue import BYTES, Queue
from rqtui.errors import ServerError
from rqtui.model import Job
from rqtui.systems.native import decode_job

LONG, SHORT = b"1799996400000 - 0 - - - - - - send invoice\n", b"1799996400000:send invoice\n"  # of NOW - HOUR
BODY = b'{"n": 1}\n1799996400000:2 - 0'


def plant(client: Redis, header: bytes) -> None:
    """Plant, byte for byte, a queue of three waiting jobs, one that is due later, and one that died."""
    client.flushall()
    client.hset(build_key("meta"), mapping={"version": 1, "seq": 3})
    client.zadd(build_key("ready"), {"a": 1, "b": 2, "c": 3})
    client.zadd(build_key("scheduled"), {"later": NOW + HOUR})
    client.zadd(build_key("dead"), {"died": NOW - 5})
    client.hset(build_key("attempts"), "died", f"5 - 7 {NOW - 5} - - w1")
    client.hset(build_key("jobs"), mapping={id: header + BODY for id in ("a", "b", "c", "later", "died")})


def life(client: Redis) -> Iterator[Any]:
    """Return the replies of every verb that reads a header, one after the other."""
    yield run_script(client, "counts")
    yield run_script(client, "page", place="ready", offset=0, limit=9, body_bytes=99)
    yield run_script(client, "show", id=b"a", body_bytes=-1).values | {"now_ms": NOW}
    yield run_script(client, "check", walk="jobs", cursor="0", limit=99)
    yield run_script(client, "check", walk="ready", cursor="0", limit=99)
    yield run_script(client, "repair", [(b"a",), (b"later",), (b"died",)])
    proof = reserve_one(client)
    yield proof
    yield run_script(client, "extend", [proof], now_ms=NOW + 5)
    yield run_script(client, "reject", [(*proof, b"boom")])
    yield run_script(client, "promote", [(b"a",), (b"later",)])
    yield run_script(client, "reprioritise", [(b"b",)], priority=-1)
    yield run_script(client, "bump", [(b"c",)])
    yield run_script(client, "reschedule", [(b"c",)], delay_ms=1000)
    yield run_script(client, "dispatch", limit=9, now_ms=NOW + 2000)
    yield run_script(client, "requeue", [(b"died",)])
    yield [run_script(client, "reserve", limit=9, worker="w2")]
    yield run_script(client, "reap", limit=2, now_ms=NOW + 2 * LEASE)
    facts = read_facts(client, b"b")
    yield run_script(client, "kill", [(b"b", "")], force=True)
    values, score = read_facts(client, b"b")["attempts"], str(int(facts["ready"]))  # type: ignore[call-overload]
    yield run_script(client, "revert", [(b"b", "dead", values, "ready", score, facts["attempts"], b"")])
    (gone,) = run_script(client, "delete", [(b"b", "", "")]).each
    yield gone
    yield run_script(client, "restore", [(b"b", *gone.values.values())])
    yield run_script(client, "pull", limit=1)
    proof = reserve_one(client, now_ms=NOW + 5)
    yield run_script(client, "ack", [proof], keep_ms=HOUR)
    yield run_script(client, "ack", [proof])


def test_every_verb_does_the_same_whichever_form_a_header_has(any_client: Redis) -> None:
    found = []
    for header in (LONG, SHORT):
        plant(any_client, header)
        results = [repr(answer).replace(repr(header)[2:-3], "HEADER") for answer in life(any_client)]
        stored = {id: read_facts(any_client, id) for id in (b"a", b"b", b"c", b"later", b"died")}
        found.append((results, repr(stored).replace(repr(header)[2:-3], "HEADER")))
    (long, kept_long), (short, kept_short) = found
    for one, other in zip(long, short, strict=True):
        assert one == other
    assert kept_long == kept_short and "cannot be read" not in kept_short
    assert "HEADER" in "".join(long) and "HEADER" in kept_long


def test_both_forms_are_the_same_job_to_python() -> None:
    jobs = [decode_job("mail", "ready", b"a", 1.0, header, b"") for header in (LONG, SHORT)]
    assert jobs[0] == jobs[1] and jobs[0].name == "send invoice" and jobs[0].enqueued_ms == NOW - HOUR
    queue = Queue("mail", "redis://localhost", BYTES)
    rows = [Leased(queue, b"a", "1", 1, 5, 1, header + BODY, b"") for header in (LONG, SHORT)]
    assert [(row.name, row.raw) for row in rows] == [("send invoice", BODY)] * 2


@pytest.mark.parametrize("name", ["- 0 - - - - - 5000 x", "2 3 4 5 6 7 8 9 10", ":", "1:2", ""])
def test_a_name_that_looks_like_a_header_is_a_name(any_client: Redis, name: str) -> None:
    enqueue_ids(any_client, b"a", name=name, body=BODY)
    assert any_client.hget(build_key("jobs"), b"a") == f"{NOW}:{name}\n".encode() + BODY
    (row,) = run_script(any_client, "page", place="ready", offset=0, limit=1, body_bytes=99).rows
    job: Job = decode_job("mail", "ready", b"a", 1.0, row[2], b"")
    assert (job.name, row[3], row[4]) == (name, len(BODY), BODY)
    assert run_script(any_client, "show", id=b"a", body_bytes=-1).values["body"] == BODY
    assert run_script(any_client, "check", walk="ready", cursor="0", limit=9).rows == []
    (taken_row,) = run_script(any_client, "reserve", limit=1, worker="w").rows
    assert Leased(Queue("mail", "redis://localhost", BYTES), *taken_row).name == name


def test_a_record_that_does_not_fit_the_short_form_is_long(any_client: Redis) -> None:
    options: tuple[dict[str, object], ...] = (
        {"delay_ms": 0}, {"due_ms": 5}, {"priority": 1}, {"ttr_ms": 9}, {"max_attempts": 2}, {"backoff_ms": 3},
        {"backoff_cap_ms": 4}, {"keep_ms": 6}, {"body": b"x" * 4097},
    )  # fmt: skip
    for number, option in enumerate(options):
        id = b"%d" % number
        enqueue_ids(any_client, id, **option)
        assert any_client.hget(build_key("jobs"), id).startswith(b"%d " % NOW), option


def test_a_queue_of_schema_1_continues_and_says_2_with_the_first_put(any_client: Redis) -> None:
    plant(any_client, LONG)
    proof = reserve_one(any_client)
    run_script(any_client, "ack", [proof])
    assert read_meta(any_client, "version") == 1, "no short header was written"
    enqueue_ids(any_client, b"new")
    assert read_meta(any_client, "version") == 2
    assert [any_client.hget(build_key("jobs"), id)[13:14] for id in (b"b", b"new")] == [b" ", b":"]


def test_every_write_of_a_short_header_or_of_the_version_sets_version_2(any_client: Redis) -> None:
    plant(any_client, LONG)
    enqueue_ids(any_client, b"new")
    (gone,) = run_script(any_client, "delete", [(b"new", "", "")]).each
    any_client.delete(build_key("meta"))
    run_script(any_client, "restore", [(b"new", *gone.values.values())])
    assert read_meta(any_client, "version") == 2
    for verb, args in (("pause", {}), ("repair", {}), ("configure", {})):
        any_client.hset(build_key("meta"), "version", 2)
        any_client.zrem(build_key("ready"), b"new")
        run_script(any_client, verb, {"repair": [(b"new",)], "configure": [("ttr_ms", "5")]}.get(verb, []), **args)
        assert read_meta(any_client, "version") == 2, verb


def test_a_durable_put_does_not_lower_the_version(client: Redis) -> None:
    with pytest.raises(ServerError):  # this server has neither a replica nor a file
        Queue("mail", client, BYTES).put(BODY, durable=True)
    assert read_meta(client, "version") == 2
