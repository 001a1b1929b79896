"""Ids belong to the client, any bytes make an id or a body, and what is kept is bounded."""

from __future__ import annotations

import pytest
from families import in_one
from native_jobs import (
    HOUR,
    NOW,
    ask,
    body,
    facts,
    history,
    key,
    lease,
    line,
    members,
    meta,
    places_of,
    plant_job,
    put,
    taken,
    words,
)
from redis import Redis

from rqtui.testing.keyspace import dump


def test_an_enqueue_sent_again_changes_nothing_in_whatever_place_the_job_is(any_client: Redis) -> None:
    for place in ("scheduled", "ready", "reserved", "done", "dead"):
        plant_job(any_client, place, place.encode(), NOW + 5, attempts=line(1, "9"))
    before = dump(any_client)
    assert set(put(any_client, b"scheduled", b"ready", b"reserved", b"done", b"dead", body=b"other")) == {"exists"}
    assert dump(any_client) == before


def test_the_same_id_twice_in_a_batch_is_one_job(any_client: Redis) -> None:
    assert put(any_client, b"a", b"a") == ["moved", "exists"]
    assert members(any_client, "ready") == [b"a"]


def test_a_unique_window_blocks_the_id_and_then_frees_it(any_client: Redis) -> None:
    ask(any_client, "configure", [("unique_ms", "1000")])
    put(any_client, b"a", body=b"first")
    ask(any_client, "ack", [taken(any_client)])
    assert body(any_client, b"a") is None, "only the id is kept"
    assert put(any_client, b"a", now_ms=NOW + 999) == ["exists"]
    assert put(any_client, b"a", now_ms=NOW + 1000, body=b"second") == ["moved"]
    assert places_of(any_client, b"a") == ["ready"]
    assert lease(any_client, now_ms=NOW + 1000).rows[0][2] == 1, "its attempts begin anew"
    assert body(any_client, b"a") == b"second"


@in_one(
    "id", [b"x" * 512, bytes(range(256)), b"\x00", b"\n", b" ", b"-", "žluťoučký 🦄".encode(), b"\xff\xfe", b"{}*?[\\"]
)
def test_any_bytes_up_to_512_make_an_id(any_client: Redis, id: bytes) -> None:
    assert put(any_client, id, keep_ms=HOUR) == ["moved"]
    for _ in range(2):
        proof = taken(any_client)
        assert proof[0] == id
        ask(any_client, "reject", [(*proof, b"e")], delay_ms=0)
        ask(any_client, "dispatch", limit=1)
    assert words(ask(any_client, "kill", [(id, "")])) == ["moved"]
    assert words(ask(any_client, "requeue", [(id,)])) == ["moved"]
    ask(any_client, "ack", [taken(any_client)])
    assert places_of(any_client, id) == ["done"]
    (gone,) = ask(any_client, "delete", [(id, "", "")]).each
    assert facts(any_client, id) == {}
    assert words(ask(any_client, "restore", [(id, *gone.values.values())])) == ["moved"]
    assert places_of(any_client, id) == ["done"]


@in_one("size", [0, 1, 4095, 4096, 4097, 5_000_000])
def test_a_body_of_any_size_comes_back_whole(client: Redis, size: int) -> None:
    sent = bytes(n % 256 for n in range(256)) * (size // 256 + 1)
    sent = sent[:size]
    put(client, b"a", body=sent, name="send invoice")
    assert client.hexists(key("bodies"), b"a") == (size > 4096)
    row = lease(client).rows[0]
    assert (row[6] or row[5].partition(b"\n")[2]) == sent
    header = b"%d - 0 - - - - - %d send invoice" % (NOW, size) if size > 4096 else b"%d:send invoice" % NOW
    assert row[5].partition(b"\n")[0] == header
    ask(client, "reject", [(*row[:2], b"")], delay_ms=0)
    ask(client, "dispatch", limit=1)
    assert (body(client, b"a")) == sent
    answer = ask(client, "pull", limit=1)
    assert (answer.rows[0][2] or answer.rows[0][1].partition(b"\n")[2]) == sent
    assert facts(client, b"a") == {}


# --- what is kept is bounded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["ack", "reap", "dispatch"])
def test_done_jobs_whose_time_is_over_are_forgotten(any_client: Redis, verb: str) -> None:
    for n in range(15):
        plant_job(any_client, "done", b"%02d" % n, NOW - 100 + n, b"x" * 5000, line(1, "9"), history("x"))
    plant_job(any_client, "done", b"kept", NOW + 1, attempts=line(1, "9"))
    put(any_client, b"a")
    proof = taken(any_client)
    request = {"ack": {"rows": [proof]}, "reap": {"limit": 5}, "dispatch": {"limit": 5}}[verb]
    ask(any_client, verb, **request)
    assert 4 <= any_client.zcard(key("done")) - 1 <= 5, "ten at a time, and one for each that came"
    ask(any_client, "dispatch", limit=5)
    assert members(any_client, "done") == [b"kept"]
    assert any_client.hkeys(key("bodies")) == []
    assert meta(any_client, "forgotten") == 15


def test_done_holds_no_more_than_done_max(any_client: Redis) -> None:
    ask(any_client, "configure", [("done_max", "3"), ("keep_ms", str(HOUR))])
    for n in range(6):
        put(any_client, b"%d" % n)
        ask(any_client, "ack", [taken(any_client, NOW + n)], now_ms=NOW + n)
    assert members(any_client, "done") == [b"3", b"4", b"5"]
    assert any_client.hlen(key("jobs")) == 3


def test_dead_holds_no_more_than_dead_max_and_the_oldest_go_first(any_client: Redis) -> None:
    ask(any_client, "configure", [("dead_max", "2")])
    put(any_client, *(b"%d" % n for n in range(4)))
    for n in range(4):
        ask(any_client, "kill", [(b"%d" % n, "")], now_ms=NOW + n)
    assert members(any_client, "dead") == [b"2", b"3"]
    assert (meta(any_client, "forgotten"), meta(any_client, "dead")) == (2, 4)
    assert facts(any_client, b"0") == {}


@pytest.mark.parametrize("verb", ["reject", "kill", "reap"])
def test_dead_jobs_are_forgotten_after_dead_ttl(any_client: Redis, verb: str) -> None:
    ask(any_client, "configure", [("dead_ttl_ms", "1000")])
    plant_job(any_client, "dead", b"old", NOW - 1000, errors=history("x"))
    plant_job(any_client, "dead", b"young", NOW - 999)
    put(any_client, b"a", max_attempts=1)
    proof = taken(any_client, ttr_ms=1)
    request = {
        "reject": {"rows": [(*proof, b"")]},
        "kill": {"rows": [(b"a", proof[1])], "force": True},
        "reap": {"limit": 1},
    }[verb]
    ask(any_client, verb, **request)
    assert facts(any_client, b"old") == {}
    assert places_of(any_client, b"young") == ["dead"]


def test_a_kept_job_stays_in_done_with_its_body(any_client: Redis) -> None:
    put(any_client, b"a", keep_ms=50, body=b"x" * 9000)
    ask(any_client, "ack", [taken(any_client)])
    assert any_client.zscore(key("done"), b"a") == NOW + 50
    assert body(any_client, b"a") == b"x" * 9000
