"""The promises of the native queue, one test each: what a reservation, an attempt, a lease and a due time mean.

Every test acts through the scripts and looks at Redis itself. The bookkeeping (counters, minutes, events), the wake
marker, check and repair, and bad input stand in `test_native_notes.py`, `test_native_repair.py` and
`test_native_input.py`.
"""

from __future__ import annotations

import json

import pytest
from keyspace import dump
from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    PRIORITY,
    ask,
    body,
    facts,
    history,
    key,
    line,
    members,
    meta,
    new_row,
    places_of,
    plant_job,
    record,
    words,
)
from redis import Redis

from rqtui.scripts import Answer


def put(client: Redis, *ids: bytes, **fields: object) -> list[str]:
    now_ms = fields.pop("now_ms", NOW)
    return words(ask(client, "enqueue", [new_row(id, **fields) for id in ids], now_ms=now_ms))


def lease(client: Redis, limit: int = 1, now_ms: int = NOW, **args: object) -> Answer:
    return ask(client, "reserve", limit=limit, now_ms=now_ms, worker=args.pop("worker", "w1"), **args)


def taken(client: Redis, now_ms: int = NOW, **args: object) -> tuple[bytes, str]:
    """Id and token of the next job."""
    answer = lease(client, now_ms=now_ms, **args)
    assert answer.word == "moved", answer.word
    return answer.rows[0][0], answer.rows[0][1]


def attempts(client: Redis, id: bytes) -> int:
    return int(client.hget(key("attempts"), id).split(b" ")[0])


# --- one owner ------------------------------------------------------------------------------------------------------


def test_a_late_ack_changes_nothing(any_client: Redis) -> None:
    put(any_client, b"a")
    id, old = taken(any_client)
    ask(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    _, new = taken(any_client, NOW + LEASE)
    before = dump(any_client)
    for verb in ("ack", "reject", "release", "extend"):
        row = (id, old, b"late") if verb == "reject" else (id, old)
        assert words(ask(any_client, verb, [row], now_ms=NOW + LEASE)) == ["stale"]
    assert dump(any_client) == before
    assert words(ask(any_client, "ack", [(id, new)], now_ms=NOW + LEASE)) == ["moved"]


def test_a_late_ack_changes_nothing_while_nobody_holds_the_job(any_client: Redis) -> None:
    put(any_client, b"a")
    id, old = taken(any_client)
    ask(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    before = dump(any_client)
    assert words(ask(any_client, "ack", [(id, old)], now_ms=NOW + LEASE)) == ["stale"]
    assert dump(any_client) == before


def test_an_expired_lease_that_nobody_reaped_may_still_be_acked(any_client: Redis) -> None:
    put(any_client, b"a")
    assert words(ask(any_client, "ack", [taken(any_client)], now_ms=NOW + HOUR)) == ["moved"]


def test_the_same_ack_again_says_done_while_it_is_kept(any_client: Redis) -> None:
    put(any_client, b"a", keep_ms=HOUR)
    proof = taken(any_client)
    assert words(ask(any_client, "ack", [proof])) == ["moved"]
    assert words(ask(any_client, "ack", [proof])) == ["done"]
    assert words(ask(any_client, "ack", [(proof[0], "1")])) == ["stale"]
    assert meta(any_client, "acked") == 1


def test_the_same_ack_again_says_gone_when_nothing_is_kept(any_client: Redis) -> None:
    put(any_client, b"a", body=b"x" * 5000)
    proof = taken(any_client)
    assert words(ask(any_client, "ack", [proof, proof])) == ["moved", "done"]
    assert words(ask(any_client, "ack", [proof])) == ["gone"]
    assert facts(any_client, b"a") == {}


def test_no_two_leases_ever_share_a_token(any_client: Redis) -> None:
    put(any_client, *(b"%d" % n for n in range(50)))
    tokens = [row[1] for _ in range(10) for row in lease(any_client, 5).rows]
    assert len(set(tokens)) == 50
    assert tokens == sorted(tokens, key=int)


def test_a_token_follows_the_clock_so_that_a_lost_tail_cannot_bring_it_back(any_client: Redis) -> None:
    put(any_client, b"a", b"b")
    _, first = taken(any_client)
    any_client.hdel(key("meta"), "token")  # a failover lost what was written last
    _, second = taken(any_client, NOW + 1)
    assert int(second) > int(first)


def test_a_token_never_goes_back_when_the_clock_does(any_client: Redis) -> None:
    put(any_client, b"a", b"b")
    _, first = taken(any_client)
    _, second = taken(any_client, NOW - HOUR)
    assert int(second) > int(first)


# --- attempts, backoff, death ---------------------------------------------------------------------------------------


def test_attempts_are_counted_at_reserve_and_given_back_by_release(any_client: Redis) -> None:
    put(any_client, b"a")
    proof = taken(any_client)
    assert attempts(any_client, b"a") == 1
    assert ask(any_client, "release", [proof]).each[0].values["place"] == "ready"
    assert attempts(any_client, b"a") == 0
    assert lease(any_client).rows[0][2] == 1


@pytest.mark.parametrize("attempt", range(1, 12))
def test_a_rejected_job_waits_between_half_and_all_of_its_backoff(any_client: Redis, attempt: int) -> None:
    base, cap = 1000, 100_000
    plant_job(
        any_client, "ready", b"a", 5, attempts=line(attempt - 1), backoff_ms=base, backoff_cap_ms=cap, max_attempts=99
    )
    answer = ask(any_client, "reject", [(*taken(any_client), b"boom")])
    assert answer.each[0].values["place"] == "scheduled"
    wait = any_client.zscore(key("scheduled"), b"a") - NOW
    full = min(cap, base * 2 ** (attempt - 1))
    assert full / 2 <= wait <= full


def test_backoff_is_spread_and_reproducible(any_client: Redis) -> None:
    waits = []
    for _ in range(2):
        any_client.flushall()
        put(any_client, *(b"%02d" % n for n in range(40)), backoff_ms=100_000, max_attempts=9)
        ask(any_client, "reject", [(row[0], row[1], b"") for row in lease(any_client, 40).rows])
        waits.append([score for _, score in any_client.zrange(key("scheduled"), 0, -1, withscores=True)])
    assert waits[0] == waits[1]
    assert len(set(waits[0])) > 30


def test_the_defaults_of_the_queue_fill_what_a_job_does_not_say(any_client: Redis) -> None:
    settings = {"ttr_ms": 5000, "max_attempts": 2, "backoff_ms": 10, "backoff_cap_ms": 10, "keep_ms": 700}
    ask(any_client, "configure", [(name, str(value)) for name, value in settings.items()])
    put(any_client, b"a")
    row = lease(any_client).rows[0]
    assert row[3:5] == (2, 5000)
    assert any_client.zscore(key("reserved"), b"a") == NOW + 5000
    ask(any_client, "reject", [(*row[:2], b"")])
    assert 5 <= any_client.zscore(key("scheduled"), b"a") - NOW <= 10
    ask(any_client, "promote", [(b"a",)])
    ask(any_client, "ack", [taken(any_client)])
    assert any_client.zscore(key("done"), b"a") == NOW + 700


def test_a_lost_worker_costs_an_attempt_and_the_job_comes_back_at_its_old_place(any_client: Redis) -> None:
    put(any_client, b"a", b"b", b"c")
    taken(any_client)
    answer = ask(any_client, "reap", limit=10, now_ms=NOW + LEASE)
    assert (answer.values["ready"], answer.values["dead"], answer.values["next_ms"]) == (1, 0, -1)
    assert members(any_client, "ready") == [b"a", b"b", b"c"]
    assert lease(any_client, now_ms=NOW + LEASE).rows[0][2] == 2


def test_a_poison_job_ends_in_dead_with_the_errors_of_its_attempts(any_client: Redis) -> None:
    put(any_client, b"poison", max_attempts=3)
    now_ms = NOW
    for _ in range(3):
        taken(any_client, now_ms, worker=f"w{now_ms}")
        now_ms += LEASE
        ask(any_client, "reap", limit=10, now_ms=now_ms)
    assert places_of(any_client, b"poison") == ["dead"]
    assert any_client.zscore(key("dead"), b"poison") == now_ms
    found = json.loads(any_client.hget(key("errors"), b"poison"))
    assert [entry[:3] for entry in found] == [
        [NOW + n * LEASE, NOW + (n + 1) * LEASE, f"w{NOW + n * LEASE}"] for n in range(3)
    ]
    assert all("lease expired" in entry[3] for entry in found)


def test_a_job_without_attempts_left_dies_and_keeps_its_errors(server_client: Redis) -> None:
    put(server_client, b"a", max_attempts=1)
    ask(server_client, "reject", [(*taken(server_client), b"\xff\x00 boom")])
    assert places_of(server_client, b"a") == ["dead"]
    assert b"boom" in server_client.hget(key("errors"), b"a")


def test_a_final_reject_kills_whatever_attempts_are_left(any_client: Redis) -> None:
    put(any_client, b"a")
    answer = ask(any_client, "reject", [(*taken(any_client), b"no")], final=True)
    assert answer.each[0].values["place"] == "dead"


def test_a_reject_with_a_delay_waits_exactly_that_long(any_client: Redis) -> None:
    put(any_client, b"a")
    ask(any_client, "reject", [(*taken(any_client), b"")], delay_ms=1234)
    assert any_client.zscore(key("scheduled"), b"a") == NOW + 1234


def test_the_history_of_errors_keeps_the_last_ten_and_cuts_long_ones(any_client: Redis) -> None:
    put(any_client, b"a", max_attempts=99)
    for n in range(12):
        ask(any_client, "reject", [(*taken(any_client, NOW + n), b"%d" % n + b"x" * 9000)], delay_ms=0, now_ms=NOW + n)
        ask(any_client, "dispatch", limit=1, now_ms=NOW + n)
    found = json.loads(any_client.hget(key("errors"), b"a"))
    assert [entry[0] - NOW for entry in found] == list(range(2, 12))
    assert {len(entry[3]) for entry in found} == {2000}


# --- order and time -------------------------------------------------------------------------------------------------


def test_jobs_are_taken_by_priority_then_in_the_order_they_came(any_client: Redis) -> None:
    for id, priority in ((b"a", 0), (b"b", -1), (b"c", 4095), (b"d", None), (b"e", -4096), (b"f", -1)):
        put(any_client, id, priority=priority)
    assert [row[0] for row in lease(any_client, 10).rows] == [b"e", b"b", b"f", b"a", b"d", b"c"]


def test_the_order_is_exact_at_the_ends_of_the_priorities(any_client: Redis) -> None:
    any_client.hset(key("meta"), "seq", 2**39)
    for priority in (-4096, 4095):
        ids = [b"%d/%02d" % (priority, n) for n in range(20)]
        put(any_client, *ids, priority=priority)
        assert [row[0] for row in lease(any_client, 30).rows] == ids


def test_a_released_job_goes_back_to_its_old_place(any_client: Redis) -> None:
    put(any_client, b"a", b"b", b"c")
    proof = taken(any_client)
    ask(any_client, "release", [proof])
    assert members(any_client, "ready") == [b"a", b"b", b"c"]


def test_a_job_released_with_a_delay_is_scheduled(any_client: Redis) -> None:
    put(any_client, b"a")
    assert ask(any_client, "release", [taken(any_client)], delay_ms=500).each[0].values["place"] == "scheduled"
    assert any_client.zscore(key("scheduled"), b"a") == NOW + 500
    assert attempts(any_client, b"a") == 0


def test_a_delayed_job_is_ready_at_its_time_and_not_a_millisecond_before(any_client: Redis) -> None:
    put(any_client, b"a", delay_ms=100)
    assert ask(any_client, "dispatch", limit=10, now_ms=NOW + 99).values["next_ms"] == 1
    answer = ask(any_client, "dispatch", limit=10, now_ms=NOW + 100)
    assert (answer.values["moved"], answer.values["scheduled"], answer.values["next_ms"]) == (1, 0, -1)
    assert places_of(any_client, b"a") == ["ready"]


def test_a_due_time_that_is_over_makes_ready_at_once(any_client: Redis) -> None:
    put(any_client, b"a", due_ms=NOW)
    put(any_client, b"b", due_ms=0)
    assert members(any_client, "ready") == [b"a", b"b"]


def test_a_priority_changed_by_an_operator_lasts(any_client: Redis) -> None:
    put(any_client, b"a", b"b", b"c")
    assert words(ask(any_client, "reprioritise", [(b"c",)], priority=-7)) == ["changed"]
    proof = taken(any_client)
    assert proof[0] == b"c"
    ask(any_client, "reject", [(*proof, b"")], delay_ms=0)
    ask(any_client, "dispatch", limit=1)
    assert members(any_client, "ready")[0] == b"c"
    assert int(any_client.zscore(key("ready"), b"c")) // PRIORITY == -7


def test_a_new_priority_keeps_the_order_of_arrival(any_client: Redis) -> None:
    put(any_client, b"a", b"b", b"c")
    ask(any_client, "reprioritise", [(b"c",), (b"a",)], priority=3)
    assert members(any_client, "ready") == [b"b", b"a", b"c"]


def test_a_scheduled_job_takes_its_new_priority_along(any_client: Redis) -> None:
    put(any_client, b"a")
    put(any_client, b"b", delay_ms=50)
    ask(any_client, "reprioritise", [(b"b",)], priority=-2)
    ask(any_client, "dispatch", limit=10, now_ms=NOW + 50)
    assert members(any_client, "ready") == [b"b", b"a"]


def test_reschedule_moves_between_ready_and_scheduled(any_client: Redis) -> None:
    put(any_client, b"a")
    assert ask(any_client, "reschedule", [(b"a",)], delay_ms=70).each[0].values["place"] == "scheduled"
    assert any_client.zscore(key("scheduled"), b"a") == NOW + 70
    assert ask(any_client, "reschedule", [(b"a",)], due_ms=NOW + 99).each[0].values["place"] == "scheduled"
    assert places_of(any_client, b"a") == ["scheduled"]
    assert ask(any_client, "reschedule", [(b"a",)], due_ms=5).each[0].values["place"] == "ready"
    assert places_of(any_client, b"a") == ["ready"]


def test_next_ms_is_the_time_until_something_falls_due_or_expires(any_client: Redis) -> None:
    assert lease(any_client).values["next_ms"] == -1
    put(any_client, b"later", delay_ms=9000)
    assert lease(any_client).values["next_ms"] == 9000
    put(any_client, b"now", ttr_ms=400)
    assert lease(any_client).values["next_ms"] == 400
    assert lease(any_client, now_ms=NOW + 1000).values["next_ms"] == 0


# --- ids belong to the client ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
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
    (gone,) = ask(any_client, "delete", [(id, "")]).each
    assert facts(any_client, id) == {}
    assert words(ask(any_client, "restore", [(id, *gone.values.values())])) == ["moved"]
    assert places_of(any_client, id) == ["done"]


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 5_000_000])
def test_a_body_of_any_size_comes_back_whole(client: Redis, size: int) -> None:
    sent = bytes(n % 256 for n in range(256)) * (size // 256 + 1)
    sent = sent[:size]
    put(client, b"a", body=sent, name="send invoice")
    assert client.hexists(key("bodies"), b"a") == (size > 4096)
    row = lease(client).rows[0]
    assert (row[6] or row[5].partition(b"\n")[2]) == sent
    assert row[5].startswith(b"%d - 0 - - - - - " % NOW)
    assert row[5].partition(b"\n")[0].endswith(b" send invoice")
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


# --- operators ------------------------------------------------------------------------------------------------------


def test_a_cancelled_job_is_told_at_extend_and_is_not_tried_again(any_client: Redis) -> None:
    put(any_client, b"a")
    proof = taken(any_client)
    assert words(ask(any_client, "extend", [proof], now_ms=NOW + 5)) == ["extended"]
    deadline = any_client.zscore(key("reserved"), b"a")
    assert words(ask(any_client, "cancel", [(b"a", "")])) == ["asked"]
    assert words(ask(any_client, "extend", [proof], now_ms=NOW + 10)) == ["cancelled"]
    assert any_client.zscore(key("reserved"), b"a") == deadline == NOW + 5 + LEASE
    assert ask(any_client, "reject", [(*proof, b"stopped")]).each[0].values["place"] == "dead"


def test_a_cancelled_job_that_finished_all_the_same_is_acked(any_client: Redis) -> None:
    put(any_client, b"a")
    proof = taken(any_client)
    ask(any_client, "cancel", [(b"a", "")])
    assert words(ask(any_client, "ack", [proof])) == ["moved"]


def test_requeue_resets_attempts_unless_told_not_to(any_client: Redis) -> None:
    plant_job(any_client, "dead", b"a", NOW, attempts=line(5))
    plant_job(any_client, "dead", b"b", NOW, attempts=line(5))
    ask(any_client, "requeue", [(b"a",)])
    ask(any_client, "requeue", [(b"b",)], keep_attempts=True)
    assert (attempts(any_client, b"a"), attempts(any_client, b"b")) == (0, 5)
    assert members(any_client, "ready") == [b"a", b"b"]


def test_delete_and_restore_bring_back_every_byte(any_client: Redis) -> None:
    for place in ("scheduled", "ready", "dead", "done"):
        plant_job(any_client, place, place.encode(), NOW + 7, b"\x00\xff" * 3000, line(2), history("x"), priority=-3)
    before = {place: facts(any_client, place.encode()) for place in ("scheduled", "ready", "dead", "done")}
    for place, known in before.items():
        (gone,) = ask(any_client, "delete", [(place.encode(), "")]).each
        assert facts(any_client, place.encode()) == {}
        ask(any_client, "restore", [(place.encode(), *gone.values.values())])
        assert facts(any_client, place.encode()) == known


def test_a_reserved_job_that_was_deleted_comes_back_to_ready_at_its_old_place(any_client: Redis) -> None:
    put(any_client, b"a", b"b")
    proof = taken(any_client)
    assert words(ask(any_client, "delete", [(b"a", "")])) == ["reserved"]
    (gone,) = ask(any_client, "delete", [(b"a", "")], force=True).each
    assert words(ask(any_client, "ack", [proof])) == ["gone"]
    ask(any_client, "restore", [(b"a", *gone.values.values())])
    assert members(any_client, "ready") == [b"a", b"b"]
    assert words(ask(any_client, "ack", [proof])) == ["stale"]


def test_a_killed_job_says_why_and_its_worker_learns_that_it_is_stale(any_client: Redis) -> None:
    put(any_client, b"a")
    proof = taken(any_client)
    assert words(ask(any_client, "kill", [(b"a", "")], reason=b"too old")) == ["reserved"]
    assert words(ask(any_client, "kill", [(b"a", proof[1])], reason=b"too old", force=True)) == ["moved"]
    assert json.loads(any_client.hget(key("errors"), b"a"))[-1][3] == "too old"
    assert words(ask(any_client, "ack", [proof])) == ["stale"]


def test_acting_on_a_place_leaves_jobs_that_went_elsewhere(any_client: Redis) -> None:
    put(any_client, b"a")
    before = dump(any_client)
    for verb in ("kill", "delete"):
        (row,) = ask(any_client, verb, [(b"a", "")], place="scheduled").each
        assert (row.word, row.values["place"]) == ("wrong_place", "ready")
    assert dump(any_client) == before


def test_a_paused_queue_hands_out_nothing_but_finishes_what_runs(any_client: Redis) -> None:
    put(any_client, b"a", b"b", ttr_ms=400)
    proof = taken(any_client)
    assert ask(any_client, "pause").word == "paused"
    any_client.delete(key("wake"))
    answer = lease(any_client)
    assert (answer.word, answer.values["next_ms"]) == ("paused", 400)
    assert ask(any_client, "pull", limit=1).word == "paused"
    assert not any_client.exists(key("wake")), "paused never wakes anybody"
    assert put(any_client, b"c") == ["moved"]
    assert words(ask(any_client, "ack", [proof])) == ["moved"]
    assert ask(any_client, "resume").word == "resumed"
    assert taken(any_client)[0] == b"b"


def test_purging_the_queue_is_refused_while_leases_are_live(any_client: Redis) -> None:
    put(any_client, b"a", b"b")
    taken(any_client)
    before = dump(any_client)
    for place in ("", "reserved"):
        answer = ask(any_client, "purge", place=place, limit=100)
        assert (answer.word, answer.values["leases"]) == ("reserved", 1)
    assert dump(any_client) == before
    assert ask(any_client, "purge", place="", limit=100, force=True).values == {"moved": 2, "left": 0}
    assert dump(any_client) == {}
    assert ask(any_client, "purge", place="", limit=100).word == "empty"


def test_purging_a_place_goes_in_chunks_from_the_oldest_on(any_client: Redis) -> None:
    put(any_client, *(b"%d" % n for n in range(5)), body=b"x" * 5000)
    assert ask(any_client, "purge", place="ready", limit=2).values == {"moved": 2, "left": 3}
    assert members(any_client, "ready") == [b"2", b"3", b"4"]
    assert set(any_client.hkeys(key("bodies"))) == {b"2", b"3", b"4"}


def test_expired_leases_do_not_protect_a_queue_from_purge(any_client: Redis) -> None:
    put(any_client, b"a")
    taken(any_client)
    assert ask(any_client, "purge", place="", limit=1, now_ms=NOW + LEASE).word == "moved"


def test_a_worker_is_told_to_be_quiet_or_to_stop_at_its_beat(any_client: Redis) -> None:
    def beat(**args: object) -> str:
        return ask(any_client, "beat", worker="w1", ttl_ms=60000, pid="7", host="h", **args).word

    assert beat(job=b"a b") == "run"
    assert any_client.hget(key("workers"), "w1") == b"%d 60000 run %d 7 h a b" % (NOW, NOW)
    assert words(ask(any_client, "quiet", [("w1",), ("w2",)])) == ["asked", "gone"]
    assert beat() == "quiet"
    assert words(ask(any_client, "stop", [("w1",)])) == ["asked"]
    assert beat(now_ms=NOW + 9) == "stop"
    assert any_client.hget(key("workers"), "w1") == b"%d 60000 stop %d 7 h " % (NOW + 9, NOW)
    assert beat(leave=True) == "left"
    assert any_client.hgetall(key("workers")) == {}


def test_workers_silent_for_ten_of_their_ttl_are_dropped(any_client: Redis) -> None:
    for n in range(20):
        ask(any_client, "beat", worker=f"w{n}", ttl_ms=100)
    for n in range(100):
        ask(any_client, "beat", worker="alive", ttl_ms=100, now_ms=NOW + 1001 + n)
    assert any_client.hkeys(key("workers")) == [b"alive"]


def test_pull_takes_a_job_out_for_good(any_client: Redis) -> None:
    put(any_client, b"a", b"b")
    answer = ask(any_client, "pull", limit=1)
    assert answer.rows == [(b"a", record(enqueued_ms=NOW), b"")]
    assert facts(any_client, b"a") == {}
    assert members(any_client, "ready") == [b"b"]


def test_each_job_is_in_exactly_one_place_on_its_whole_way(any_client: Redis) -> None:
    seen = []
    put(any_client, b"a", delay_ms=10, keep_ms=HOUR)
    seen.append(places_of(any_client, b"a"))
    ask(any_client, "dispatch", limit=1, now_ms=NOW + 10)
    seen.append(places_of(any_client, b"a"))
    proof = taken(any_client, NOW + 10)
    seen.append(places_of(any_client, b"a"))
    ask(any_client, "reject", [(*proof, b"")], final=True)
    seen.append(places_of(any_client, b"a"))
    ask(any_client, "requeue", [(b"a",)])
    ask(any_client, "ack", [taken(any_client)])
    seen.append(places_of(any_client, b"a"))
    assert seen == [["scheduled"], ["ready"], ["reserved"], ["dead"], ["done"]]
