"""Ids belong to the client, any bytes make an id or a body, and what is kept is bounded."""

from __future__ import annotations

import pytest
from families import run_in_one_test
from native_jobs import (
    HOUR,
    NOW,
    build_attempts_line,
    build_error_history,
    build_key,
    enqueue_ids,
    find_places,
    list_ids,
    plant_job,
    read_body,
    read_facts,
    read_meta,
    read_outcomes,
    reserve_jobs,
    reserve_one,
    run_script,
)
from redis import Redis

from rqtui.testing.keyspace import dump


def test_an_enqueue_sent_again_changes_nothing_in_whatever_place_the_job_is(any_client: Redis) -> None:
    for place in ("scheduled", "ready", "reserved", "done", "dead"):
        plant_job(any_client, place, place.encode(), NOW + 5, attempts=build_attempts_line(1, "9"))
    before = dump(any_client)
    assert set(enqueue_ids(any_client, b"scheduled", b"ready", b"reserved", b"done", b"dead", body=b"other")) == {
        "exists"
    }
    assert dump(any_client) == before


def test_the_same_id_twice_in_a_batch_is_one_job(any_client: Redis) -> None:
    assert enqueue_ids(any_client, b"a", b"a") == ["moved", "exists"]
    assert list_ids(any_client, "ready") == [b"a"]


def test_a_unique_window_blocks_the_id_and_then_frees_it(any_client: Redis) -> None:
    run_script(any_client, "configure", [("unique_ms", "1000")])
    enqueue_ids(any_client, b"a", body=b"first")
    run_script(any_client, "ack", [reserve_one(any_client)])
    assert read_body(any_client, b"a") is None, "only the id is kept"
    assert enqueue_ids(any_client, b"a", now_ms=NOW + 999) == ["exists"]
    assert enqueue_ids(any_client, b"a", now_ms=NOW + 1000, body=b"second") == ["moved"]
    assert find_places(any_client, b"a") == ["ready"]
    assert reserve_jobs(any_client, now_ms=NOW + 1000).rows[0][2] == 1, "its attempts begin anew"
    assert read_body(any_client, b"a") == b"second"


@run_in_one_test(
    "id", [b"x" * 512, bytes(range(256)), b"\x00", b"\n", b" ", b"-", "žluťoučký 🦄".encode(), b"\xff\xfe", b"{}*?[\\"]
)
def test_any_bytes_up_to_512_make_an_id(any_client: Redis, id: bytes) -> None:
    assert enqueue_ids(any_client, id, keep_ms=HOUR) == ["moved"]
    for _ in range(2):
        proof = reserve_one(any_client)
        assert proof[0] == id
        run_script(any_client, "reject", [(*proof, b"e")], delay_ms=0)
        run_script(any_client, "dispatch", limit=1)
    assert read_outcomes(run_script(any_client, "kill", [(id, "")])) == ["moved"]
    assert read_outcomes(run_script(any_client, "requeue", [(id,)])) == ["moved"]
    run_script(any_client, "ack", [reserve_one(any_client)])
    assert find_places(any_client, id) == ["done"]
    (gone,) = run_script(any_client, "delete", [(id, "", "")]).each
    assert read_facts(any_client, id) == {}
    assert read_outcomes(run_script(any_client, "restore", [(id, *gone.values.values())])) == ["moved"]
    assert find_places(any_client, id) == ["done"]


@run_in_one_test("size", [0, 1, 4095, 4096, 4097, 5_000_000])
def test_a_body_of_any_size_comes_back_whole(client: Redis, size: int) -> None:
    sent = bytes(n % 256 for n in range(256)) * (size // 256 + 1)
    sent = sent[:size]
    enqueue_ids(client, b"a", body=sent, name="send invoice")
    assert client.hexists(build_key("bodies"), b"a") == (size > 4096)
    row = reserve_jobs(client).rows[0]
    assert (row[6] or row[5].partition(b"\n")[2]) == sent
    header = b"%d - 0 - - - - - %d send invoice" % (NOW, size) if size > 4096 else b"%d:send invoice" % NOW
    assert row[5].partition(b"\n")[0] == header
    run_script(client, "reject", [(*row[:2], b"")], delay_ms=0)
    run_script(client, "dispatch", limit=1)
    assert (read_body(client, b"a")) == sent
    answer = run_script(client, "pull", limit=1)
    assert (answer.rows[0][2] or answer.rows[0][1].partition(b"\n")[2]) == sent
    assert read_facts(client, b"a") == {}


# --- what is kept is bounded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["ack", "reap", "dispatch"])
def test_done_jobs_whose_time_is_over_are_forgotten(any_client: Redis, verb: str) -> None:
    for n in range(15):
        plant_job(
            any_client,
            "done",
            b"%02d" % n,
            NOW - 100 + n,
            b"x" * 5000,
            build_attempts_line(1, "9"),
            build_error_history("x"),
        )
    plant_job(any_client, "done", b"kept", NOW + 1, attempts=build_attempts_line(1, "9"))
    enqueue_ids(any_client, b"a")
    proof = reserve_one(any_client)
    request = {"ack": {"rows": [proof]}, "reap": {"limit": 5}, "dispatch": {"limit": 5}}[verb]
    run_script(any_client, verb, **request)
    assert 4 <= any_client.zcard(build_key("done")) - 1 <= 5, "ten at a time, and one for each that came"
    run_script(any_client, "dispatch", limit=5)
    assert list_ids(any_client, "done") == [b"kept"]
    assert any_client.hkeys(build_key("bodies")) == []
    assert read_meta(any_client, "forgotten") == 15


def test_done_holds_no_more_than_done_max(any_client: Redis) -> None:
    run_script(any_client, "configure", [("done_max", "3"), ("keep_ms", str(HOUR))])
    for n in range(6):
        enqueue_ids(any_client, b"%d" % n)
        run_script(any_client, "ack", [reserve_one(any_client, NOW + n)], now_ms=NOW + n)
    assert list_ids(any_client, "done") == [b"3", b"4", b"5"]
    assert any_client.hlen(build_key("jobs")) == 3


def test_dead_holds_no_more_than_dead_max_and_the_oldest_go_first(any_client: Redis) -> None:
    run_script(any_client, "configure", [("dead_max", "2")])
    enqueue_ids(any_client, *(b"%d" % n for n in range(4)))
    for n in range(4):
        run_script(any_client, "kill", [(b"%d" % n, "")], now_ms=NOW + n)
    assert list_ids(any_client, "dead") == [b"2", b"3"]
    assert (read_meta(any_client, "forgotten"), read_meta(any_client, "dead")) == (2, 4)
    assert read_facts(any_client, b"0") == {}


@pytest.mark.parametrize("verb", ["reject", "kill", "reap"])
def test_dead_jobs_are_forgotten_after_dead_ttl(any_client: Redis, verb: str) -> None:
    run_script(any_client, "configure", [("dead_ttl_ms", "1000")])
    plant_job(any_client, "dead", b"old", NOW - 1000, errors=build_error_history("x"))
    plant_job(any_client, "dead", b"young", NOW - 999)
    enqueue_ids(any_client, b"a", max_attempts=1)
    proof = reserve_one(any_client, ttr_ms=1)
    request = {
        "reject": {"rows": [(*proof, b"")]},
        "kill": {"rows": [(b"a", proof[1])], "force": True},
        "reap": {"limit": 1},
    }[verb]
    run_script(any_client, verb, **request)
    assert read_facts(any_client, b"old") == {}
    assert find_places(any_client, b"young") == ["dead"]


def test_a_kept_job_stays_in_done_with_its_body(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", keep_ms=50, body=b"x" * 9000)
    run_script(any_client, "ack", [reserve_one(any_client)])
    assert any_client.zscore(build_key("done"), b"a") == NOW + 50
    assert read_body(any_client, b"a") == b"x" * 9000
