"""What an operator does to a native queue: cancel, requeue, delete and restore, kill, pause, purge, and its workers."""

from __future__ import annotations

import json

import pytest
from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    build_attempts_line,
    build_error_history,
    build_key,
    build_record,
    enqueue_ids,
    find_places,
    list_ids,
    plant_job,
    read_attempts,
    read_facts,
    read_outcomes,
    reserve_jobs,
    reserve_one,
    run_script,
)
from redis import Redis

from rqtui.errors import Refused
from rqtui.testing.keyspace import dump


def test_extend_reports_a_cancelled_job_which_is_not_tried_again(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    proof = reserve_one(any_client)
    assert read_outcomes(run_script(any_client, "extend", [proof], now_ms=NOW + 5)) == ["extended"]
    deadline = any_client.zscore(build_key("reserved"), b"a")
    assert read_outcomes(run_script(any_client, "cancel", [(b"a", "")])) == ["asked"]
    assert read_outcomes(run_script(any_client, "extend", [proof], now_ms=NOW + 10)) == ["cancelled"]
    assert any_client.zscore(build_key("reserved"), b"a") == deadline == NOW + 5 + LEASE
    assert run_script(any_client, "reject", [(*proof, b"stopped")]).each[0].values["place"] == "dead"


def test_a_cancelled_job_that_finished_all_the_same_is_acked(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    proof = reserve_one(any_client)
    run_script(any_client, "cancel", [(b"a", "")])
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["moved"]


def test_requeue_resets_attempts_unless_keep_attempts_is_set(any_client: Redis) -> None:
    plant_job(any_client, "dead", b"a", NOW, attempts=build_attempts_line(5))
    plant_job(any_client, "dead", b"b", NOW, attempts=build_attempts_line(5))
    run_script(any_client, "requeue", [(b"a",)])
    run_script(any_client, "requeue", [(b"b",)], keep_attempts=True)
    assert (read_attempts(any_client, b"a"), read_attempts(any_client, b"b")) == (0, 5)
    assert list_ids(any_client, "ready") == [b"a", b"b"]


def test_delete_and_restore_bring_back_every_byte(any_client: Redis) -> None:
    for place in ("scheduled", "ready", "dead", "done"):
        plant_job(
            any_client,
            place,
            place.encode(),
            NOW + 7,
            b"\x00\xff" * 3000,
            build_attempts_line(2),
            build_error_history("x"),
            priority=-3,
        )
    before = {place: read_facts(any_client, place.encode()) for place in ("scheduled", "ready", "dead", "done")}
    for place, value in before.items():
        (gone,) = run_script(any_client, "delete", [(place.encode(), "", "")]).each
        assert read_facts(any_client, place.encode()) == {}
        run_script(any_client, "restore", [(place.encode(), *gone.values.values())])
        assert read_facts(any_client, place.encode()) == value


def test_delete_takes_a_job_only_unchanged_if_the_caller_passes_its_attempts(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    assert read_outcomes(run_script(any_client, "delete", [(b"a", "", "1 - 1 1 - - ")])) == ["changed"]
    reserve_one(any_client)
    line = any_client.hget(build_key("attempts"), b"a")
    assert read_outcomes(run_script(any_client, "delete", [(b"a", "", "-")], force=True)) == ["changed"]
    before = dump(any_client)
    assert read_outcomes(run_script(any_client, "delete", [(b"a", "", line + b"x")], force=True)) == ["changed"]
    assert dump(any_client) == before
    assert read_outcomes(run_script(any_client, "delete", [(b"a", "", line)], force=True)) == ["moved"]


def test_a_reserved_job_that_was_deleted_comes_back_to_ready_at_its_old_place(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    proof = reserve_one(any_client)
    assert read_outcomes(run_script(any_client, "delete", [(b"a", "", "")])) == ["reserved"]
    (gone,) = run_script(any_client, "delete", [(b"a", "", "")], force=True).each
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["gone"]
    run_script(any_client, "restore", [(b"a", *gone.values.values())])
    assert list_ids(any_client, "ready") == [b"a", b"b"]
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["stale"]


def test_a_killed_job_has_the_reason_and_its_worker_gets_the_reply_stale(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    proof = reserve_one(any_client)
    assert read_outcomes(run_script(any_client, "kill", [(b"a", "")], reason=b"too old")) == ["reserved"]
    assert read_outcomes(run_script(any_client, "kill", [(b"a", proof[1])], reason=b"too old", force=True)) == ["moved"]
    assert json.loads(any_client.hget(build_key("errors"), b"a"))[-1][3] == "too old"
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["stale"]


def test_acting_on_a_place_leaves_jobs_that_went_elsewhere(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    before = dump(any_client)
    for verb, row in (("kill", (b"a", "")), ("delete", (b"a", "", ""))):
        (actual,) = run_script(any_client, verb, [row], place="scheduled").each
        assert (actual.word, actual.values["place"]) == ("wrong_place", "ready")
    assert dump(any_client) == before


def test_a_paused_queue_hands_out_nothing_but_finishes_what_runs(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", ttr_ms=400)
    proof = reserve_one(any_client)
    assert run_script(any_client, "pause").word == "paused"
    any_client.delete(build_key("wake"))
    answer = reserve_jobs(any_client)
    assert (answer.word, answer.values["next_ms"]) == ("paused", 400)
    assert run_script(any_client, "pull", limit=1).word == "paused"
    assert not any_client.exists(build_key("wake")), "paused never wakes anybody"
    assert enqueue_ids(any_client, b"c") == ["moved"]
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["moved"]
    assert run_script(any_client, "resume").word == "resumed"
    assert reserve_one(any_client)[0] == b"b"


def test_purging_the_queue_is_refused_while_leases_are_live(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    reserve_one(any_client)
    before = dump(any_client)
    for place in ("", "reserved"):
        answer = run_script(any_client, "purge", place=place, limit=100)
        assert (answer.word, answer.values["leases"]) == ("reserved", 1)
    assert dump(any_client) == before
    assert run_script(any_client, "purge", place="", limit=100, force=True).values == {"moved": 2, "left": 0}
    assert dump(any_client) == {}
    assert run_script(any_client, "purge", place="", limit=100).word == "empty"


def test_purging_a_place_goes_in_chunks_from_the_oldest_on(any_client: Redis) -> None:
    enqueue_ids(any_client, *(b"%d" % n for n in range(5)), body=b"x" * 5000)
    assert run_script(any_client, "purge", place="ready", limit=2).values == {"moved": 2, "left": 3}
    assert list_ids(any_client, "ready") == [b"2", b"3", b"4"]
    assert set(any_client.hkeys(build_key("bodies"))) == {b"2", b"3", b"4"}


def test_expired_leases_do_not_protect_a_queue_from_purge(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    reserve_one(any_client)
    assert run_script(any_client, "purge", place="", limit=1, now_ms=NOW + LEASE).word == "moved"


def test_a_worker_is_ordered_to_be_quiet_or_to_stop_at_its_heartbeat(any_client: Redis) -> None:
    def beat(**args: object) -> str:
        return run_script(any_client, "beat", worker="w1", ttl_ms=60000, pid="7", host="h", **args).word

    assert beat(job=b"a b") == "run"
    assert any_client.hget(build_key("workers"), "w1") == b"%d 60000 run %d 7 h a b" % (NOW, NOW)
    assert read_outcomes(run_script(any_client, "quiet", [("w1",), ("w2",)])) == ["asked", "gone"]
    assert beat() == "quiet"
    assert read_outcomes(run_script(any_client, "stop", [("w1",)])) == ["asked"]
    assert beat(now_ms=NOW + 9) == "stop"
    assert any_client.hget(build_key("workers"), "w1") == b"%d 60000 stop %d 7 h " % (NOW + 9, NOW)
    assert beat(leave=True) == "left"
    assert any_client.hgetall(build_key("workers")) == {}


def test_workers_silent_for_ten_of_their_ttl_are_dropped(any_client: Redis) -> None:
    for n in range(20):
        run_script(any_client, "beat", worker=f"w{n}", ttl_ms=100)
    for n in range(100):
        run_script(any_client, "beat", worker="alive", ttl_ms=100, now_ms=NOW + 1001 + n)
    assert any_client.hkeys(build_key("workers")) == [b"alive"]


def test_workers_silent_for_just_ten_of_their_ttl_stay(any_client: Redis) -> None:
    for n in range(3):
        run_script(any_client, "beat", worker=f"w{n}", ttl_ms=100)
    for _ in range(30):
        run_script(any_client, "beat", worker="alive", ttl_ms=100, now_ms=NOW + 1000)
    assert any_client.hlen(build_key("workers")) == 4


def test_a_heartbeat_accepts_the_longest_worker_facts_and_nothing_longer(any_client: Redis) -> None:
    def beat(**args: object) -> str:
        return run_script(any_client, "beat", **{"worker": "w", "ttl_ms": 1, **args}).word

    assert beat(worker="w" * 200) == beat(worker="é w") == beat(started_ms=NOW - 5, pid="1", host="h.example") == "run"
    assert any_client.hget(build_key("workers"), "w") == b"%d 1 run %d 1 h.example " % (NOW, NOW - 5)
    beat(now_ms=9_999_999_999_999, ttl_ms=9_999_999_999_999, started_ms=9_999_999_999_999)
    before = dump(any_client)
    wrong = ({"worker": "w" * 201}, {"worker": ""}, {"worker": "a\tb"}, {"ttl_ms": 0}, {"ttl_ms": 10**13})
    for args in (*wrong, {"started_ms": -1}, {"now_ms": 10**13}, {"pid": "1 2"}, {"host": "a b"}, {"host": "a\n"}):
        with pytest.raises(Refused, match="nothing was changed"):
            beat(**args)
        assert dump(any_client) == before, args
    any_client.hset(build_key("workers"), "w", "no beat at all")  # the line of another program is replaced
    assert beat() == "run" and any_client.hget(build_key("workers"), "w") == b"%d 1 run %d - - " % (NOW, NOW)


def test_pull_takes_a_job_out_for_good(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    answer = run_script(any_client, "pull", limit=1)
    assert answer.rows == [(b"a", build_record(enqueued_ms=NOW), b"")]
    assert read_facts(any_client, b"a") == {}
    assert list_ids(any_client, "ready") == [b"b"]


def test_each_job_is_in_exactly_one_place_on_its_whole_way(any_client: Redis) -> None:
    seen = []
    enqueue_ids(any_client, b"a", delay_ms=10, keep_ms=HOUR)
    seen.append(find_places(any_client, b"a"))
    run_script(any_client, "dispatch", limit=1, now_ms=NOW + 10)
    seen.append(find_places(any_client, b"a"))
    proof = reserve_one(any_client, NOW + 10)
    seen.append(find_places(any_client, b"a"))
    run_script(any_client, "reject", [(*proof, b"")], final=True)
    seen.append(find_places(any_client, b"a"))
    run_script(any_client, "requeue", [(b"a",)])
    run_script(any_client, "ack", [reserve_one(any_client)])
    seen.append(find_places(any_client, b"a"))
    assert seen == [["scheduled"], ["ready"], ["reserved"], ["dead"], ["done"]]
