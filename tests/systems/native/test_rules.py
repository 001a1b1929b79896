"""Test the promises of the native queue: what a reservation, an attempt, a lease and a due time mean.

Every test acts through the scripts and reads Redis itself. `test_keeping.py` tests ids, bodies and retention,
`test_operators.py` the verbs of operators, `test_notes.py` counters, minutes, events and the wake marker,
`test_repair.py` damage, `test_input.py` bad input.
"""

from __future__ import annotations

import json

from families import run_in_one_test
from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    PRIORITY,
    build_attempts_line,
    build_key,
    enqueue_ids,
    find_places,
    list_ids,
    plant_job,
    read_attempts,
    read_facts,
    read_meta,
    read_outcomes,
    reserve_jobs,
    reserve_one,
    run_script,
)
from redis import Redis

from rqtui.testing.keyspace import dump

# --- one owner ------------------------------------------------------------------------------------------------------


def test_a_late_ack_changes_nothing(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    id, old = reserve_one(any_client)
    run_script(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    _, new = reserve_one(any_client, NOW + LEASE)
    before = dump(any_client)
    for verb in ("ack", "reject", "release", "extend"):
        row = (id, old, b"late") if verb == "reject" else (id, old)
        assert read_outcomes(run_script(any_client, verb, [row], now_ms=NOW + LEASE)) == ["stale"]
    assert dump(any_client) == before
    assert read_outcomes(run_script(any_client, "ack", [(id, new)], now_ms=NOW + LEASE)) == ["moved"]


def test_a_late_ack_changes_nothing_while_no_worker_holds_the_job(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    id, old = reserve_one(any_client)
    run_script(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    before = dump(any_client)
    assert read_outcomes(run_script(any_client, "ack", [(id, old)], now_ms=NOW + LEASE)) == ["stale"]
    assert dump(any_client) == before


def test_an_expired_lease_that_no_reaper_found_may_still_be_acked(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    assert read_outcomes(run_script(any_client, "ack", [reserve_one(any_client)], now_ms=NOW + HOUR)) == ["moved"]


def test_the_same_ack_again_replies_done_while_it_is_kept(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", keep_ms=HOUR)
    proof = reserve_one(any_client)
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["moved"]
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["done"]
    assert read_outcomes(run_script(any_client, "ack", [(proof[0], "1")])) == ["stale"]
    assert read_meta(any_client, "acked") == 1


def test_the_same_ack_again_replies_gone_when_nothing_is_kept(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", body=b"x" * 5000)
    proof = reserve_one(any_client)
    assert read_outcomes(run_script(any_client, "ack", [proof, proof])) == ["moved", "done"]
    assert read_outcomes(run_script(any_client, "ack", [proof])) == ["gone"]
    assert read_facts(any_client, b"a") == {}


def test_no_two_leases_ever_share_a_token(any_client: Redis) -> None:
    enqueue_ids(any_client, *(b"%d" % n for n in range(50)))
    tokens = [row[1] for _ in range(10) for row in reserve_jobs(any_client, 5).rows]
    assert len(set(tokens)) == 50
    assert tokens == sorted(tokens, key=int)


def test_a_token_follows_the_clock_so_that_a_lost_tail_cannot_bring_it_back(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    _, first = reserve_one(any_client)
    any_client.hdel(build_key("meta"), "token")  # a failover lost what was written last
    _, second = reserve_one(any_client, NOW + 1)
    assert int(second) > int(first)


def test_a_token_never_goes_back_when_the_clock_does(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    _, first = reserve_one(any_client)
    _, second = reserve_one(any_client, NOW - HOUR)
    assert int(second) > int(first)


# --- attempts, backoff, death ---------------------------------------------------------------------------------------


def test_attempts_are_counted_at_reserve_and_given_back_by_release(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    proof = reserve_one(any_client)
    assert read_attempts(any_client, b"a") == 1
    assert run_script(any_client, "release", [proof]).each[0].values["place"] == "ready"
    assert read_attempts(any_client, b"a") == 0
    assert reserve_jobs(any_client).rows[0][2] == 1


def test_the_end_of_a_token_chooses_how_long_a_rejected_job_waits(client: Redis) -> None:
    for token, wait in (("x", 500), ("1000", 995), ("1008", 999), ("1009", 500), ("7001000", 995), ("101000", 549)):
        plant_job(client, "reserved", b"a", NOW + LEASE, attempts=build_attempts_line(1, token), backoff_ms=1000)
        run_script(client, "reject", [(b"a", token, b"")])
        assert client.zscore(build_key("scheduled"), b"a") == NOW + wait, token


@run_in_one_test("attempt", range(1, 12))
def test_a_rejected_job_waits_between_half_and_all_of_its_backoff(any_client: Redis, attempt: int) -> None:
    base, cap = 1000, 100_000
    plant_job(
        any_client,
        "ready",
        b"a",
        5,
        attempts=build_attempts_line(attempt - 1),
        backoff_ms=base,
        backoff_cap_ms=cap,
        max_attempts=99,
    )
    answer = run_script(any_client, "reject", [(*reserve_one(any_client), b"boom")])
    assert answer.each[0].values["place"] == "scheduled"
    wait = any_client.zscore(build_key("scheduled"), b"a") - NOW
    full = min(cap, base * 2 ** (attempt - 1))
    assert full / 2 <= wait <= full


def test_backoff_is_spread_and_reproducible(any_client: Redis) -> None:
    waits = []
    for _ in range(2):
        any_client.flushall()
        enqueue_ids(any_client, *(b"%02d" % n for n in range(40)), backoff_ms=100_000, max_attempts=9)
        run_script(any_client, "reject", [(row[0], row[1], b"") for row in reserve_jobs(any_client, 40).rows])
        waits.append([score for _, score in any_client.zrange(build_key("scheduled"), 0, -1, withscores=True)])
    assert waits[0] == waits[1]
    assert len(set(waits[0])) > 30


def test_the_defaults_of_the_queue_fill_what_a_job_does_not_say(any_client: Redis) -> None:
    settings = {"ttr_ms": 5000, "max_attempts": 2, "backoff_ms": 10, "backoff_cap_ms": 10, "keep_ms": 700}
    run_script(any_client, "configure", [(name, str(value)) for name, value in settings.items()])
    enqueue_ids(any_client, b"a")
    row = reserve_jobs(any_client).rows[0]
    assert row[3:5] == (2, 5000)
    assert any_client.zscore(build_key("reserved"), b"a") == NOW + 5000
    run_script(any_client, "reject", [(*row[:2], b"")])
    assert 5 <= any_client.zscore(build_key("scheduled"), b"a") - NOW <= 10
    run_script(any_client, "promote", [(b"a",)])
    run_script(any_client, "ack", [reserve_one(any_client)])
    assert any_client.zscore(build_key("done"), b"a") == NOW + 700


def test_a_lost_worker_costs_an_attempt_and_the_job_comes_back_at_its_old_place(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c")
    reserve_one(any_client)
    answer = run_script(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    assert (answer.values["ready"], answer.values["dead"], answer.values["next_ms"]) == (1, 0, -1)
    assert list_ids(any_client, "ready") == [b"a", b"b", b"c"]
    assert reserve_jobs(any_client, now_ms=NOW + LEASE).rows[0][2] == 2


def test_a_poison_job_ends_in_dead_with_the_errors_of_its_attempts(any_client: Redis) -> None:
    enqueue_ids(any_client, b"poison", max_attempts=3)
    now_ms = NOW
    for _ in range(3):
        reserve_one(any_client, now_ms, worker=f"w{now_ms}")
        now_ms += LEASE
        run_script(any_client, "reap", limit=10, now_ms=now_ms)
    assert find_places(any_client, b"poison") == ["dead"]
    assert any_client.zscore(build_key("dead"), b"poison") == now_ms
    found = json.loads(any_client.hget(build_key("errors"), b"poison"))
    assert [entry[:3] for entry in found] == [
        [NOW + n * LEASE, NOW + (n + 1) * LEASE, f"w{NOW + n * LEASE}"] for n in range(3)
    ]
    assert all("lease expired" in entry[3] for entry in found)


def test_a_job_without_attempts_left_dies_and_keeps_its_errors(server_client: Redis) -> None:
    enqueue_ids(server_client, b"a", max_attempts=1)
    run_script(server_client, "reject", [(*reserve_one(server_client), b"\xff\x00 boom")])
    assert find_places(server_client, b"a") == ["dead"]
    assert b"boom" in server_client.hget(build_key("errors"), b"a")


def test_a_final_reject_kills_whatever_attempts_are_left(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    answer = run_script(any_client, "reject", [(*reserve_one(any_client), b"no")], final=True)
    assert answer.each[0].values["place"] == "dead"


def test_a_reject_with_a_delay_waits_exactly_that_long(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    run_script(any_client, "reject", [(*reserve_one(any_client), b"")], delay_ms=1234)
    assert any_client.zscore(build_key("scheduled"), b"a") == NOW + 1234


def test_the_history_of_errors_keeps_the_last_ten_and_cuts_long_ones(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", max_attempts=99)
    for n in range(12):
        run_script(
            any_client,
            "reject",
            [(*reserve_one(any_client, NOW + n), b"%d" % n + b"x" * 9000)],
            delay_ms=0,
            now_ms=NOW + n,
        )
        run_script(any_client, "dispatch", limit=1, now_ms=NOW + n)
    found = json.loads(any_client.hget(build_key("errors"), b"a"))
    assert [entry[0] - NOW for entry in found] == list(range(2, 12))
    assert {len(entry[3]) for entry in found} == {2000}


# --- order and time -------------------------------------------------------------------------------------------------


def test_jobs_are_taken_by_priority_then_in_the_order_they_came(any_client: Redis) -> None:
    for id, priority in ((b"a", 0), (b"b", -1), (b"c", 4095), (b"d", None), (b"e", -4096), (b"f", -1)):
        enqueue_ids(any_client, id, priority=priority)
    assert [row[0] for row in reserve_jobs(any_client, 10).rows] == [b"e", b"b", b"f", b"a", b"d", b"c"]


def test_the_order_is_exact_at_the_ends_of_the_priorities(any_client: Redis) -> None:
    any_client.hset(build_key("meta"), "seq", 2**39)
    for priority in (-4096, 4095):
        ids = [b"%d/%02d" % (priority, n) for n in range(20)]
        enqueue_ids(any_client, *ids, priority=priority)
        assert [row[0] for row in reserve_jobs(any_client, 30).rows] == ids


def test_a_released_job_goes_back_to_its_old_place(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c")
    proof = reserve_one(any_client)
    run_script(any_client, "release", [proof])
    assert list_ids(any_client, "ready") == [b"a", b"b", b"c"]


def test_a_job_released_with_a_delay_is_scheduled(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    assert (
        run_script(any_client, "release", [reserve_one(any_client)], delay_ms=500).each[0].values["place"]
        == "scheduled"
    )
    assert any_client.zscore(build_key("scheduled"), b"a") == NOW + 500
    assert read_attempts(any_client, b"a") == 0


def test_a_delayed_job_is_ready_at_its_time_and_not_a_millisecond_before(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", delay_ms=100)
    assert run_script(any_client, "dispatch", limit=10, now_ms=NOW + 99).values["next_ms"] == 1
    answer = run_script(any_client, "dispatch", limit=10, now_ms=NOW + 100)
    assert (answer.values["moved"], answer.values["scheduled"], answer.values["next_ms"]) == (1, 0, -1)
    assert find_places(any_client, b"a") == ["ready"]


def test_a_due_time_that_is_over_makes_ready_at_once(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", due_ms=NOW)
    enqueue_ids(any_client, b"b", due_ms=0)
    assert list_ids(any_client, "ready") == [b"a", b"b"]


def test_a_priority_changed_by_an_operator_lasts(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c")
    assert read_outcomes(run_script(any_client, "reprioritise", [(b"c",)], priority=-7)) == ["changed"]
    proof = reserve_one(any_client)
    assert proof[0] == b"c"
    run_script(any_client, "reject", [(*proof, b"")], delay_ms=0)
    run_script(any_client, "dispatch", limit=1)
    assert list_ids(any_client, "ready")[0] == b"c"
    assert int(any_client.zscore(build_key("ready"), b"c")) // PRIORITY == -7


def test_a_new_priority_keeps_the_order_of_arrival(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", b"c")
    run_script(any_client, "reprioritise", [(b"c",), (b"a",)], priority=3)
    assert list_ids(any_client, "ready") == [b"b", b"a", b"c"]


def test_a_new_priority_weighs_as_much_as_one_from_the_beginning(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b")
    enqueue_ids(any_client, b"high", priority=2)
    run_script(any_client, "reprioritise", [(b"b",)], priority=1)
    assert {id: divmod(int(any_client.zscore(build_key("ready"), id)), PRIORITY) for id in (b"a", b"b", b"high")} == {
        b"a": (0, 1), b"b": (1, 2), b"high": (2, 3)
    }  # fmt: skip


def test_a_scheduled_job_takes_its_new_priority_along(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    enqueue_ids(any_client, b"b", delay_ms=50)
    run_script(any_client, "reprioritise", [(b"b",)], priority=-2)
    run_script(any_client, "dispatch", limit=10, now_ms=NOW + 50)
    assert list_ids(any_client, "ready") == [b"b", b"a"]


def test_reschedule_moves_between_ready_and_scheduled(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    assert run_script(any_client, "reschedule", [(b"a",)], delay_ms=70).each[0].values["place"] == "scheduled"
    assert any_client.zscore(build_key("scheduled"), b"a") == NOW + 70
    assert run_script(any_client, "reschedule", [(b"a",)], due_ms=NOW + 99).each[0].values["place"] == "scheduled"
    assert find_places(any_client, b"a") == ["scheduled"]
    assert run_script(any_client, "reschedule", [(b"a",)], due_ms=5).each[0].values["place"] == "ready"
    assert find_places(any_client, b"a") == ["ready"]


def test_next_ms_is_the_time_until_something_falls_due_or_expires(any_client: Redis) -> None:
    assert reserve_jobs(any_client).values["next_ms"] == -1
    enqueue_ids(any_client, b"later", delay_ms=9000)
    assert reserve_jobs(any_client).values["next_ms"] == 9000
    enqueue_ids(any_client, b"now", ttr_ms=400)
    assert reserve_jobs(any_client).values["next_ms"] == 400
    assert reserve_jobs(any_client, now_ms=NOW + 1000).values["next_ms"] == 0
