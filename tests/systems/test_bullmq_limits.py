"""BullMQ's scripts with data at the sizes, numbers and times at which they change their behaviour, and next to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from bullmq_subject import HOUR, KEYS, NOW, PREFIX, build_job_key, plant_id, plant_job, plant_queue, run_script
from families import run_in_one_test
from redis import Redis

from rqtui.errors import RqtuiError
from rqtui.scripts.script import Reply
from rqtui.testing import keyspace


def list_kinds(reply: Reply) -> dict[str, int]:
    """Return the number of each kind of finding."""
    return {row[0].decode() if isinstance(row[0], bytes) else row[0]: row[3] for row in reply.rows}


def plant_list(client: Redis, key: str, length: int) -> None:
    """Plant a list of the entries `x`, in one command."""
    text = "for at = 1, ARGV[1], 5000 do local n = math.min(5000, ARGV[1] - at + 1) local t = {} "
    text += "for i = 1, n do t[i] = 'x' end redis.call('RPUSH', KEYS[1], unpack(t)) end"
    client.eval(text, 1, key, length)


def plant_numbers(client: Redis, key: str, numbers: range) -> None:
    """Plant a set of numbers, which SSCAN returns in one piece, and a job for each."""
    pipe = client.pipeline(transaction=False)
    pipe.sadd(key, *numbers)
    for number in numbers:
        pipe.hset(str(number), "name", "send")
    pipe.execute()


def limit_runs(client: Redis, most: int | None, runs: int, left_ms: int, duration_ms: int) -> None:
    """Plant a ready job, and a limiter that has counted `runs` jobs."""
    plant_job(client, "a", "wait")
    if most is not None:
        client.hset(KEYS["meta"], mapping={"max": most, "duration": duration_ms})
    client.set(KEYS["limiter"], runs, px=left_ms)


def starve(client: Redis, waited_ms: int, newest_ms: int) -> None:
    """Plant a job that waits behind another one, and a newer job that runs."""
    for id, priority, place, ms in (("a", 9, "prioritized", waited_ms), ("b", 1, "prioritized", 0)):
        plant_job(client, id, "", timestamp=NOW - ms)
        plant_id(client, place, id, priority * 2**32)
    plant_job(client, "runs", "active", timestamp=NOW - newest_ms)
    client.set(build_job_key("runs", ":lock"), "x")


def plant_stalls(client: Redis, place: str, stalls: int, age_ms: int = 0, **fields: object) -> None:
    plant_job(client, "a", place, stc=stalls, finishedOn=NOW - age_ms, **fields)


def plant_scheduler_rule(client: Redis, **fields: object) -> None:
    client.zadd(KEYS["repeat"], {"tick": NOW - 5000})
    client.hset(KEYS["repeat"] + ":tick", mapping={"name": "send", **fields})


def plant_orphan(client: Redis, waiting: int) -> None:
    """Plant a job in no place, and other jobs in a list."""
    plant_job(client, "5", "")
    client.set(KEYS["id"], 5)
    client.rpush(KEYS["wait"], *(f"w{n}" for n in range(waiting)))


def run_jobs(client: Redis, running: int, concurrency: int) -> None:
    plant_job(client, "a", "wait")
    client.hset(KEYS["meta"], "concurrency", concurrency)
    for number in range(running):
        plant_job(client, f"r{number}", "active")
        client.set(build_job_key(f"r{number}", ":lock"), "x")


def plant_waiting(client: Redis, is_paused: int, waiting: int, aside: int) -> None:
    plant_queue(client, **({"paused": 1} if is_paused else {}))
    for number in range(waiting):
        plant_job(client, f"w{number}", "wait")
    for number in range(aside):
        plant_job(client, f"p{number}", "paused")


def plant_due(client: Redis, score: float) -> None:
    plant_job(client, "a", "")
    plant_id(client, "delayed", "a", score)


FINDINGS: Sequence[tuple[str, Callable[..., None], Mapping[tuple[object, ...], bool]]] = [
    ("poison", lambda client, size: plant_job(client, "a", "wait", data="x" * size), {(4096,): True, (4097,): False}),
    ("poison", lambda client, stalls: plant_stalls(client, "wait", stalls, defa="x"), {(2,): False, (3,): True}),
    ("interrupted", lambda client, stalls: plant_stalls(client, "wait", stalls, defa="x"), {(2,): True, (3,): False}),
    ("interrupted", plant_stalls, {
        ("wait", 1): False, ("wait", 2): True, ("failed", 1): False, ("failed", 2, 24 * HOUR - 1): True,
        ("failed", 2, 24 * HOUR): False, ("completed", 2): False,
    }),
    ("doubled", plant_stalls, {
        ("completed", 0): False, ("completed", 1, HOUR - 1): True, ("completed", 1, HOUR): False, ("failed", 1): False,
    }),
    ("at_limit", run_jobs, {(0, 1): False, (1, 1): True, (2, 1): True, (1, 2): False, (1, 0): False}),
    ("rate_limited:queue", limit_runs, {
        (3, 2, 9000, 1000): False, (3, 3, 9000, 1000): True, (3, 4, 9000, 1000): True, (3, 3, 9000, 999): False,
    }),
    ("rate_limited", limit_runs, {
        (3, 3, 9000, 999): True, (None, 1, 60_000, 0): False, (None, 1, 61_000, 0): True, (None, 0, 61_000, 0): False,
    }),
    ("starving", starve, {
        (300_000, 0): False, (300_001, 0): True, (400_000, 199_999): True, (400_000, 200_000): False,
    }),
    ("mixed_units", plant_due, {
        (4096e11 - 1,): True, (4096e11,): False, (4096e14 - 64,): False, (4096e14,): True,
    }),
    ("mixed", plant_waiting, {(1, 1, 1): True, (1, 1, 0): False, (1, 0, 1): False, (0, 1, 1): False}),
    ("left_in_paused", plant_waiting, {(0, 0, 1): True, (0, 1, 0): False, (1, 0, 1): False}),
    ("orphan", plant_orphan, {(2000,): True, (2001,): False}),
    ("kept", lambda client, place, number: client.zadd(KEYS[place], {f"c{n}": NOW for n in range(number)}), {
        ("completed", 9999): False, ("completed", 10_000): True,
    }),
]  # fmt: skip


@run_in_one_test(
    ("kind", "plant", "values", "is_found"),
    [(kind, plant, values, found) for kind, plant, cases in FINDINGS for values, found in cases.items()],
)
def test_a_finding_of_bullmq_begins_at_a_size_or_a_time(
    client: Redis, kind: str, plant: Callable[..., None], values: tuple[object, ...], *, is_found: bool
) -> None:
    plant_queue(client)
    plant(client, *values)
    assert (kind in list_kinds(run_script(client, "faults"))) == is_found


@run_in_one_test(
    ("rule", "is_stopped"),
    [({"limit": 3, "ic": 2}, True), ({"limit": 3, "ic": 3}, False), ({"limit": 3, "ic": 4}, False),
     ({"endDate": NOW - 1}, False), ({"endDate": NOW}, True)],
)  # fmt: skip
def test_a_scheduler_that_is_over_has_no_next_job(client: Redis, rule: Mapping[str, int], *, is_stopped: bool) -> None:
    plant_scheduler_rule(client, **rule)
    assert ("scheduler_stopped" in list_kinds(run_script(client, "faults"))) == is_stopped


def count_looked(client: Redis, **args: Any) -> object:
    return run_script(client, "faults", **args).values["looked"]


def test_a_check_reads_a_part_of_long_keys(client: Redis) -> None:
    looked = {}
    for size in (15, 16, 17, 40):
        client.flushall()
        client.rpush(KEYS["wait"], *range(size))
        client.zadd(KEYS["failed"], {str(n): n for n in range(size)})
        looked["ends", size] = count_looked(client)
    for size in (19, 20, 21):
        client.flushall()
        plant_job(client, "a", "waiting_children")
        plant_numbers(client, build_job_key("a", ":dependencies"), range(size))
        looked["children", size] = count_looked(client)
    for size in (99, 100, 101):
        client.flushall()
        client.zadd(KEYS["repeat"], {f"s{n}": n for n in range(size)})
        looked["schedulers", size] = count_looked(client)
        client.flushall()
        pipe = client.pipeline(transaction=False)
        for n in range(size):
            pipe.xadd(KEYS["events"], {"event": "deduplicated", "deduplicationId": str(n)})
        pipe.execute()
        looked["events", size] = count_looked(client)
    assert looked == {
        ("ends", 15): 30, ("ends", 16): 32, ("ends", 17): 32, ("ends", 40): 32,
        ("children", 19): 20, ("children", 20): 21, ("children", 21): 21,
        ("schedulers", 99): 99, ("schedulers", 100): 100, ("schedulers", 101): 100,
        ("events", 99): 99, ("events", 100): 100, ("events", 101): 100,
    }  # fmt: skip


def test_a_search_for_jobs_in_no_place_reads_the_last_20_ids_and_80_others(client: Redis) -> None:
    client.set(KEYS["id"], 400)
    for id in (*range(200, 311), *range(370, 401)):
        plant_job(client, str(id), "")
    orphans = {from_id: run_script(client, "faults", from_id=from_id) for from_id in (300, 390, 81, 80, 401, None)}
    numbers = {from_id: list_kinds(reply).get("orphan", 0) for from_id, reply in orphans.items()}
    assert numbers == {300: 100, 390: 31, 81: 20, 80: 20, 401: 31, None: 41}
    assert {from_id: reply.values["next_id"] for from_id, reply in orphans.items()} == {
        300: 220, 390: 310, 81: 1, 80: 400, 401: 320, None: 300,
    }  # fmt: skip
    client.set(KEYS["id"], 3)
    assert count_looked(client) == 3


def test_times_before_the_clock_began_count_as_a_billion_seconds(client: Redis) -> None:
    plant_job(client, "a", "active", processedOn=NOW - 10**12 - 1000)
    client.hset(KEYS["meta"], "concurrency", 1)
    assert [row[-1] for row in run_script(client, "faults").rows] == [10**9]


# -- counts ------------------------------------------------------------------------------------------------------------


def write_opts(size: int, delay: int) -> str:
    return f'{{"delay":{delay}}}'.ljust(size)


@run_in_one_test(
    ("fields", "waited_ms"),
    [
        ({"opts": write_opts(4096, HOUR)}, HOUR), ({"opts": write_opts(4097, HOUR)}, 2 * HOUR),
        ({"opts": write_opts(0, -HOUR)}, 2 * HOUR), ({"timestamp": NOW + 1}, 0), ({"timestamp": NOW - 1}, 1),
        ({"timestamp": "9" * 16}, NOW), ({"timestamp": "x"}, NOW), ({"atm": 0}, 2 * HOUR), ({"atm": 1}, -1),
        ({"timestamp": 0, "opts": write_opts(0, 10**13 + 1)}, 0),
    ],
)  # fmt: skip
def test_a_job_waits_since_it_came_or_was_due(client: Redis, fields: Mapping[str, object], waited_ms: int) -> None:
    plant_job(client, "a", "wait", **{"timestamp": NOW - 2 * HOUR, **fields})
    assert run_script(client, "counts").values["oldest_ms"] == waited_ms


def test_a_delay_counts_up_to_ten_trillion_milliseconds(client: Redis) -> None:
    plant_job(client, "a", "wait", timestamp=1, opts=write_opts(0, 10**13 + 9))
    assert run_script(client, "counts", now_ms=10**13 + 100).values["oldest_ms"] == 99


@run_in_one_test(
    ("score", "due_ms", "overdue"),
    [
        (NOW * 4096 + 4095, NOW, 1), (NOW * 4096 + 4096, NOW + 1, 0), (10**13 * 4096, 10**13, 0),
        ((10**13 + 1) * 4096, -1, 0), (0, 0, 1), (-4096, -1, 1), (-8192, -1, 1),
    ],
)  # fmt: skip
def test_the_next_due_time_is_one_that_a_clock_can_show(client: Redis, score: int, due_ms: int, overdue: int) -> None:
    plant_id(client, "delayed", "a", score)
    values = run_script(client, "counts").values
    assert (values["due_ms"], values["overdue"]) == (due_ms, overdue)


def test_the_locks_of_the_20_oldest_runs_are_counted(client: Redis) -> None:
    expired = {}
    for running in (19, 20, 21):
        client.delete(KEYS["active"])
        client.lpush(KEYS["active"], *range(running))
        expired[running] = run_script(client, "counts").values["expired"]
    assert expired == {19: 19, 20: 20, 21: 20}
    client.set(build_job_key("0", ":lock"), "x")
    values = run_script(client, "counts").values
    assert (values["expired"], values["deadline_ms"]) == (19, NOW)
    client.delete(KEYS["active"])
    client.lpush(KEYS["active"], "0", "1")
    client.set(build_job_key("0", ":lock"), "x", px=9000)
    client.set(build_job_key("1", ":lock"), "x", px=900_000)
    values = run_script(client, "counts").values
    assert values["expired"] == 0 and NOW < values["deadline_ms"] <= NOW + 9000


def test_a_limit_is_a_number_of_up_to_15_digits(client: Redis) -> None:
    client.hset(KEYS["meta"], mapping={"concurrency": "9" * 15, "max": "9" * 16, "duration": "-1"})
    values = run_script(client, "counts").values
    assert (values["concurrency"], values["limit_max"], values["limit_ms"]) == (10**15 - 1, 0, 0)


# -- pages and jobs ----------------------------------------------------------------------------------------------------


def read_row(client: Redis, place: str = "failed", body_bytes: int = 0) -> dict[str, object]:
    reply = run_script(client, "page", place=place, offset=0, limit=9, body_bytes=body_bytes)
    [row] = reply.rows
    return dict(zip(reply.columns, row, strict=True))


def test_a_row_has_values_up_to_their_lengths(client: Redis) -> None:
    for more in (-1, 0, 1):
        client.flushall()
        long = {name: "x" * (65536 + more) for name in ("opts", "failedReason", "stacktrace")}
        plant_job(client, "a", "failed", name="n" * (1000 + more), pb="p" * (1000 + more), **long)
        row = read_row(client)
        assert [row[name] for name in ("opts", "error", "trace")] == [long["opts"].encode() if more <= 0 else b""] * 3
        assert [len(str(row[name])) for name in ("name", "pb")] == [min(1000, 1000 + more)] * 2
        for body_bytes, most in ((0, 4096), (4095, 4096), (5000, 5000)):
            data = b"x" * (most + more)
            client.hset(build_job_key("a"), "data", data)
            row = read_row(client, body_bytes=body_bytes)
            assert (row["size"], row["data"]) == (len(data), data if more <= 0 else b"")
        plant_job(client, "r", "active")
        client.set(build_job_key("r", ":lock"), "l" * (1000 + more))
        rows = (read_row(client, "active"), run_script(client, "roster").rows[0])
        assert [len(rows[0]["lock"]), len(rows[1][1])] == [min(1000, 1000 + more)] * 2  # type: ignore[arg-type]
        client.hset(build_job_key("r"), mapping={"pb": "p" * (1000 + more), "name": "n" * (1000 + more)})
        client.hset(build_job_key("r"), "processedOn", "9" * (100 + more))
        [worker] = run_script(client, "roster").rows
        assert [len(text) for text in worker[3:]] == [*[min(1000, 1000 + more)] * 2, min(100, 100 + more)]


def test_the_size_of_missing_data_says_what_is_missing(client: Redis) -> None:
    sizes = {}
    for data in ("x", "", None):
        client.flushall()
        plant_job(client, "a", "failed", data=data or "")
        if data is None:
            client.hdel(build_job_key("a"), "data")
        sizes[data] = read_row(client)["size"]
    client.delete(build_job_key("a"))
    sizes["no hash"] = read_row(client)["size"]
    assert sizes == {"x": 1, "": 0, None: -1, "no hash": -2}


def test_workers_are_found_by_the_200_oldest_runs(client: Redis) -> None:
    client.lpush(KEYS["active"], *range(201))
    reply = run_script(client, "roster")
    assert (reply.values["total"], len(reply.rows), reply.rows[0][0], reply.rows[-1][0]) == (201, 200, b"199", b"0")


def show(client: Redis, id: str = "a") -> Reply:
    return run_script(client, "show", id=id, body_bytes=0)


def list_rows(client: Redis, kind: str, id: str = "a") -> list[tuple[object, ...]]:
    return [row[1:] for row in show(client, id).rows if row[0] == kind]


def test_the_place_of_a_job_is_searched_in_10000_entries_from_each_end(client: Redis) -> None:
    plant_job(client, "a", "")
    client.rpush(KEYS["active"], *["x"] * 20_001)
    found = {}
    for at in (0, 9_999, 10_000, 10_001, 20_000):
        client.lset(KEYS["active"], at, "a")
        found[at] = show(client).values["place"]
        client.lset(KEYS["active"], at, "x")
    assert found == {0: "active", 9_999: "active", 10_000: "", 10_001: "active", 20_000: "active"}
    client.rename(KEYS["active"], KEYS["wait"])
    assert show(client).values["place"] == "wait"  # it may be in the middle
    client.lpop(KEYS["wait"])
    assert show(client).values["place"] == ""
    client.rename(KEYS["wait"], KEYS["paused"])
    client.rpush(KEYS["paused"], "x")
    assert show(client).values["place"] == "paused"


def test_a_job_shows_100_other_fields_and_of_a_hash_of_more_than_1000_none(client: Redis) -> None:
    plant_id(client, "failed", "a")
    shown = {}
    for size in (99, 100, 101, 1000, 1001):
        client.hset(build_job_key("a"), mapping={f"f{n}": n for n in range(size)})
        shown[size] = len(list_rows(client, "field"))
    assert shown == {99: 99, 100: 100, 101: 100, 1000: 100, 1001: 0}


def test_a_long_field_gives_its_length_and_a_long_log_line_its_beginning(client: Redis) -> None:
    plant_id(client, "failed", "a")
    for size in (65535, 65536, 65537):
        client.delete(build_job_key("a", ":logs"))
        client.hset(build_job_key("a"), mapping={"other": "x" * size, "opts": "x" * size})
        client.rpush(build_job_key("a", ":logs"), "x" * size)
        long = [] if size <= 65536 else [(b"", b"other", b"65537"), (b"", b"opts", b"65537")]
        assert sorted(list_rows(client, "long")) == sorted(long)
        assert list_rows(client, "field") == ([] if long else [(b"", b"other", b"x" * size)])
        assert list_rows(client, "log") == [(b"", b"1", b"x" * min(size, 65536))]


def test_a_job_shows_its_last_100_log_lines(client: Redis) -> None:
    plant_job(client, "a", "failed")
    client.rpush(build_job_key("a", ":logs"), *range(1, 102))
    assert list_rows(client, "logged") == [(b"", b"", b"101")]
    assert list_rows(client, "log") == [(b"", b"%d" % n, b"%d" % (n + 1)) for n in range(1, 101)]


def test_a_flow_is_shown_up_to_100_children_20_of_their_children_and_10_ancestors(client: Redis) -> None:
    plant_job(client, "a", "waiting_children", parentKey="p0")
    for number in range(11):
        client.hset(f"p{number}", mapping={"name": "send", "parentKey": f"p{number + 1}"})
    assert [row[1] for row in list_rows(client, "parent")] == [b"p%d" % n for n in range(10)]
    plant_numbers(client, build_job_key("a", ":dependencies"), range(100, 160))
    for bad in (39, 40, 41, 100, 101):
        client.zadd(build_job_key("a", ":unsuccessful"), {f"z{n:03}": n for n in range(bad)})
        assert len(list_rows(client, "child")) == len(list_rows(client, "name")) == min(100, 60 + bad)
    pipe = client.pipeline(transaction=False)
    pipe.delete(build_job_key("a", ":dependencies"))
    for number in range(101):
        pipe.sadd(f"z{number:03}:dependencies", 1)
    pipe.execute()
    assert [row[2] for row in list_rows(client, "child")] == [b"failed"] * 100
    assert [row[0] for row in list_rows(client, "below")] == [b"z%03d" % n for n in range(20)]


# -- events, schedules and metrics -------------------------------------------------------------------------------------


def plant_events(client: Redis, number: int, **fields: str) -> None:
    pipe = client.pipeline(transaction=False)
    for at in range(1, number + 1):
        pipe.xadd(KEYS["events"], {"event": "failed", **fields}, id=f"{at}-0")  # type: ignore[arg-type]
    pipe.execute()


def read_events(client: Redis, limit: int, **args: Any) -> tuple[int, object]:
    reply = run_script(client, "events", limit=limit, **args)
    return len(reply.rows), reply.values["left"]


def test_events_are_read_in_pieces_up_to_the_limit(client: Redis) -> None:
    plant_events(client, 101)
    for newest in (False, True):
        for limit in (1, 49, 50, 51, 99, 100):
            assert read_events(client, limit, newest=newest) == (limit, True)
        assert read_events(client, 101, newest=newest) == read_events(client, 1000, newest=newest) == (101, False)
        reply = run_script(client, "events", limit=60, newest=newest)
        assert [row[0] for row in reply.rows] == [f"{at + 41 * newest}-0" for at in range(1, 61)]


def test_events_are_read_up_to_two_million_bytes_and_a_detail_of_300_is_shown(client: Redis) -> None:
    others = len("event") + len("failed") + len("failedReason")
    for size, number in ((1_000_000 - others, 3), (1_000_001 - others, 2)):
        client.flushall()
        plant_events(client, 3, failedReason="x" * size)
        assert read_events(client, 9) == (number, number < 3)
    lengths = {}
    for size in (299, 300, 301):
        client.flushall()
        plant_events(client, 1, failedReason="x" * size)
        lengths[size] = len(run_script(client, "events", limit=9).rows[0][-1])
    assert lengths == {299: 299, 300: 300, 301: 300}


@run_in_one_test(
    ("after", "is_valid"),
    [("9" * 19 + "-" + "9" * 19, True), ("9" * 20 + "-1", False), ("1-" + "9" * 20, False), ("1", False)],
)
def test_the_event_to_begin_after_has_numbers_of_up_to_19_digits(client: Redis, after: str, *, is_valid: bool) -> None:
    if is_valid:
        assert read_events(client, 9, after=after) == (0, False)
    else:
        with pytest.raises(RqtuiError):
            read_events(client, 9, after=after)


LIMITS: Mapping[str, tuple[Mapping[str, Any], tuple[int, int]]] = {
    "events": ({}, (1, 1000)),
    "metrics": ({}, (0, 1440)),
    "page": ({"place": "wait", "offset": 0, "body_bytes": 0}, (1, 1000)),
    "purge": ({"place": "failed"}, (1, 1000)),
    "reap": ({}, (1, 1000)),
}


@run_in_one_test("name", LIMITS)
def test_a_script_that_lists_or_chooses_jobs_has_a_lowest_and_a_highest_limit(name: str, client: Redis) -> None:
    args, (lowest, highest) = LIMITS[name]
    accepted = []
    for limit in (lowest - 1, lowest, highest, highest + 1):
        try:
            run_script(client, name, limit=limit, **args)
        except RqtuiError:
            continue
        accepted.append(limit)
    assert accepted == [lowest, highest]


def list_schedules(client: Redis, *keys: str) -> Reply:
    return run_script(client, "schedules", each_keys=[[key] for key in keys])


def test_up_to_1000_schedulers_of_all_queues_are_listed(client: Redis) -> None:
    client.zadd("one", {f"s{n:04}": n for n in range(600)})
    for others, listed in ((399, 999), (400, 1000), (401, 1000)):
        client.zadd("two", {f"t{n:04}": n for n in range(others)})
        rows = list_schedules(client, "one", "two", "one").rows
        assert (len(rows), len([row for row in rows if row[0] == 2])) == (max(1000, listed), min(400, others))
    client.zadd("two", {f"t{n:04}": n for n in range(1001)})
    assert {row[0] for row in list_schedules(client, "two", "one").rows} == {1}


def test_a_scheduler_shows_values_up_to_their_lengths(client: Redis) -> None:
    client.zadd("one", {"s": 5})
    for more in (-1, 0, 1):
        values: dict[Any, Any] = {"data": "x" * (4096 + more), "opts": "y" * (4096 + more), "name": "n" * (1000 + more)}
        client.hset("one:s", mapping=values)
        reply = list_schedules(client, "one")
        row = dict(zip(reply.columns, reply.rows[0], strict=True))
        assert [len(row[name]) for name in ("data", "opts", "name")] == [
            4096 + more if more <= 0 else 0, 4096 + more if more <= 0 else 0, min(1000, 1000 + more),
        ]  # fmt: skip


# -- verbs -------------------------------------------------------------------------------------------------------------


@run_in_one_test(("rows", "reach"), [(1, 500_000), (2, 100_000), (40, 5000), (41, 2500), (1000, 2500)])
def test_the_more_jobs_a_call_names_the_fewer_entries_are_searched(client: Redis, rows: int, reach: int) -> None:
    plant_list(client, KEYS["wait"], 2 * reach + 1)
    ids = [("a",), *((f"gone{n}",) for n in range(rows - 1))]
    found = {}
    for at in (reach - 1, reach):
        client.lset(KEYS["wait"], at, "a")
        found[at] = run_script(client, "records", ids, whole=False, most=10**6).each[0].word
        client.lset(KEYS["wait"], at, "x")
    assert found == {reach - 1: "here", reach: "gone"}
    if rows > 1:
        words = [run_script(client, "promote", ids).each[0].word]
        client.lpop(KEYS["wait"])
        assert [*words, run_script(client, "promote", ids).each[0].word] == ["later", "gone"]


def test_all_occurrences_of_an_id_are_found_once(client: Redis) -> None:
    for rows, length in ((1, 5), (40, 10_000), (40, 5001), (41, 2501), (41, 4999), (41, 5000)):
        client.flushall()
        plant_list(client, KEYS["wait"], length)
        plant_job(client, "a", "")
        for at in (1, length // 2, length - 1):
            client.lset(KEYS["wait"], at, "a")
        words = [outcome.word for outcome in run_script(client, "kill", [("a",), *[("gone",)] * (rows - 1)]).each]
        assert words[0] == "moved" and client.llen(KEYS["wait"]) == length - 3, (rows, length)
        assert client.lpos(KEYS["wait"], "a") is None and client.lpos(KEYS["wait"], "") is None


def test_the_position_of_an_id_that_occurs_twice_is_that_of_its_first_entry(client: Redis) -> None:
    scores = {}
    client.rpush(KEYS["wait"], *range(9), "a", "b", "a", "a")
    for rows in (1, 40, 41):
        [row, *_] = run_script(client, "records", [("a",), *[("gone",)] * (rows - 1)], whole=False, most=9).each
        scores[rows] = row.values["score"]
    assert scores == {1: "3", 40: "3", 41: "3"}


def test_a_call_takes_1_to_1000_rows(client: Redis) -> None:
    for name, args in (("promote", {}), ("delete", {"place": "failed"}), ("enqueue", {})):
        row = {"id": "gone", **({"body": "{}"} if name == "enqueue" else {})}
        for rows, is_valid in ((1, True), (1000, True), (1001, False)):
            try:
                run_script(client, name, [row] * rows, **args)
            except RqtuiError:
                assert not is_valid, (name, rows)
            else:
                assert is_valid, (name, rows)


VALUES: Mapping[str, tuple[str, Mapping[str, Any], str, Sequence[object], Sequence[object]]] = {
    "id": ("enqueue", {}, "id", ["i" * 200], ["i" * 201]),
    "delay": ("enqueue", {}, "delay_ms", [0, 10**13 - 1], [10**13]),
    "due": ("enqueue", {}, "due_ms", [10**13 - 1], [10**13]),
    "priority": ("enqueue", {}, "priority", [0, 2_097_151], [2_097_152]),
    "attempts": ("enqueue", {}, "max_attempts", [1, 10**13 - 1], [0, 10**13]),
    "keep": ("enqueue", {}, "keep_ms", [10**13 - 1], [10**13]),
    "new priority": ("reprioritise", {}, "priority", [0, 2_097_151], [2_097_152]),
    "concurrency": ("limit", {}, "concurrency", [0, 10**12 - 1], [10**12]),
    "max": ("limit", {"duration_ms": 5}, "max", [10**12 - 1], [10**12]),
    "duration": ("limit", {"max": 5}, "duration_ms", [1, 10**12 - 1], [0, 10**12]),
    "new delay": ("reschedule", {}, "delay_ms", [0, 10**12 - 1], [10**12]),
    "new due time": ("reschedule", {}, "due_ms", [0, 10**13 - 1], [10**13]),
    "clock of an enqueue": ("enqueue", {}, "now_ms", [10**13 - 1], [10**13]),
    "clock of a check": ("faults", {}, "now_ms", [10**15 - 1], [10**15]),
    "clock of a count": ("counts", {}, "now_ms", [10**15 - 1], [10**15]),
    "first id of a check": ("faults", {}, "from_id", [10**15 - 1], [10**15]),
    "bytes of records": ("records", {"whole": False}, "most", [0, 10**15 - 1], [10**15]),
}


@run_in_one_test("name", VALUES)
def test_a_number_or_an_id_has_a_longest_and_a_highest_value(name: str, client: Redis) -> None:
    script, args, argument, valid, invalid = VALUES[name]
    plant_queue(client)
    for value in (*valid, *invalid):
        row: dict[str, object] = {"id": "a", **({"body": "{}"} if script == "enqueue" else {})}
        is_column = script == "enqueue" and argument != "now_ms"
        rows = [] if script in ("limit", "faults", "counts") else [{**row, **({argument: value} if is_column else {})}]
        try:
            run_script(client, script, rows, **args, **({} if is_column else {argument: value}))
        except RqtuiError:
            assert value in invalid, value
        else:
            assert value in valid, value


@run_in_one_test("place", ["failed", "wait"])
def test_a_purge_passes_4000_jobs_that_must_stay(client: Redis, place: str) -> None:
    words = {}
    for locked in (4000, 4001):
        client.flushall()
        ids = [f"{n:04}" for n in range(locked)]
        client.mset({build_job_key(id, ":lock"): "x" for id in ids})
        if place == "wait":
            client.rpush(KEYS[place], "z", *ids)
        else:
            client.zadd(KEYS[place], {id: at for at, id in enumerate([*ids, "z"])})
        words[locked] = run_script(client, "purge", place=place, limit=1).word
    assert words == {4000: "moved", 4001: "kept"}


def test_a_reap_passes_3999_jobs_with_locks(client: Redis) -> None:
    words = {}
    for locked in (3999, 4000):
        client.flushall()
        client.mset({build_job_key(str(n), ":lock"): "x" for n in range(locked)})
        client.rpush(KEYS["active"], "z", *range(locked))
        words[locked] = run_script(client, "reap", limit=1).word
    assert words == {3999: "moved", 4000: "empty"}


def test_a_reap_names_the_time_until_the_next_lock_ends(client: Redis) -> None:
    client.rpush(KEYS["active"], "a", "b", "c", "d")
    for id, ms in (("a", 900_000), ("b", 50_000), ("c", 800_000)):
        client.set(build_job_key(id, ":lock"), "x", px=ms)
    client.set(build_job_key("d", ":lock"), "x")
    assert 0 < run_script(client, "reap", limit=1).values["next_ms"] <= 50_000  # type: ignore[operator]


@run_in_one_test("moved", [1, 4, 5001])
def test_pause_and_resume_keep_the_order_of_long_lists(client: Redis, moved: int) -> None:
    """The shorter list is moved in pieces of 5000."""
    old, new = ([f"{letter}{n}".encode() for n in range(size)] for letter, size in (("old", moved), ("new", 5002)))
    for waiting, aside in ((old, new), (new, old)):
        client.flushall()
        plant_queue(client, paused=1)
        client.rpush(KEYS["wait"], *waiting)
        client.rpush(KEYS["paused"], *aside)
        assert run_script(client, "resume").word == "resumed"
        assert client.lrange(KEYS["wait"], 0, -1) == [*waiting, *aside] and not client.exists(KEYS["paused"])


@run_in_one_test(
    ("taken", "given"),
    [([], 0), ([-1, 4096], 0), ([0], 1), ([0, 7], 8), ([4093], 4094), ([4094], 4095), ([4095], 4095)],
)
def test_jobs_that_are_due_in_one_millisecond_have_4096_scores(client: Redis, taken: list[int], given: int) -> None:
    first = (NOW + HOUR) * 4096
    for at in taken:
        plant_id(client, "delayed", f"other{at}", first + at)
    run_script(client, "enqueue", [{"id": "a", "body": "{}", "delay_ms": HOUR}])
    assert client.zscore(KEYS["delayed"], "a") == first + given


@run_in_one_test(("counted", "score"), [(0, 1), (2**32 - 2, 2**32 - 1), (2**32 - 1, 0), (2**32, 1)])
def test_the_number_of_a_job_with_a_priority_begins_again(client: Redis, counted: int, score: int) -> None:
    client.set(KEYS["pc"], counted)
    run_script(client, "enqueue", [{"id": "a", "body": "{}", "priority": 3}])
    assert client.zscore(KEYS["prioritized"], "a") == 3 * 2**32 + score


@run_in_one_test(("running", "most", "wakes"), [(1, 2, True), (2, 2, False), (3, 2, False), (0, 0, False)])
def test_a_new_job_wakes_workers_below_the_limit(client: Redis, running: int, most: int, *, wakes: bool) -> None:
    plant_queue(client, concurrency=most)
    for number in range(running):
        plant_id(client, "active", str(number))
    run_script(client, "enqueue", [{"id": "a", "body": "{}"}])
    assert client.exists(KEYS["marker"]) == wakes


@run_in_one_test(
    ("version", "aside", "place"),
    [("bullmq:5.81.5", 0, "paused"), ("bullmq:6.0.0", 0, "wait"), ("bullmq:6.0.0", 1, "paused"), ("", 0, "paused")],
)
def test_a_paused_queue_takes_jobs_where_its_version_keeps_them(
    client: Redis, version: str, aside: int, place: str
) -> None:
    plant_queue(client, version, paused=1)
    for number in range(aside):
        plant_id(client, "paused", str(number))
    run_script(client, "enqueue", [{"id": "a", "body": "{}"}])
    assert client.lpos(KEYS[place], "a") == 0


def test_jobs_that_ended_are_counted_only_if_a_worker_keeps_metrics(client: Redis) -> None:
    client.set(KEYS["id"], 5)
    ended = [run_script(client, "counts").values[name] for name in ("succeeded", "died")]
    client.hset(KEYS["metrics_completed"], "count", 3)
    assert [*ended, *(run_script(client, "counts").values[name] for name in ("succeeded", "died"))] == [-1, -1, 3, 0]


def test_a_job_is_shown_with_its_whole_data_if_no_size_is_given(client: Redis) -> None:
    plant_job(client, "a", "failed", data="x" * 4097)
    sizes = {size: len(str(run_script(client, "show", id="a", body_bytes=size).values["data"])) for size in (-1, 0, 1)}
    assert sizes[-1] > 4097 and sizes[0] == sizes[1] == len("b''")


@run_in_one_test("count, shown", [(0, 0), (1, 1)])
def test_the_number_of_log_lines_is_shown_if_there_are_any(client: Redis, count: int, shown: int) -> None:
    plant_job(client, "a", "failed")
    for number in range(count):
        client.rpush(build_job_key("a", ":logs"), number)
    assert len(list_rows(client, "logged")) == shown


def test_records_are_read_until_their_size_is_reached(client: Redis) -> None:
    for id in ("a", "b"):
        plant_job(client, id, "failed", name="n")
    [row] = run_script(client, "records", [("a",)], whole=True, most=1).each
    size = sum(len(bytes(value)) for value in [*row.values.values()][2:])
    words = {
        more: run_script(client, "records", [("a",), ("b",)], whole=True, most=size + more).each[1].word
        for more in (-1, 0, 1)
    }
    assert words == {-1: "later", 0: "later", 1: "here"}


def test_a_count_of_metrics_has_up_to_15_digits(client: Redis) -> None:
    now_ms = client.time()[0] * 1000
    for digits, is_read in ((15, True), (16, False)):
        client.hset(KEYS["metrics_completed"], mapping={"count": "9" * digits, "prevTS": now_ms, "prevCount": 0})
        [row, *_] = run_script(client, "metrics", limit=5).rows
        assert (row[1].split()[1] != "0") == is_read


def test_metrics_of_a_list_that_was_not_cut_begin_with_the_older_ones(client: Redis) -> None:
    minute = client.time()[0] // 60 - 1
    client.hset(KEYS["metrics_failed"], mapping={"count": 3, "prevTS": minute * 60_000, "prevCount": 2})
    client.rpush(KEYS["metrics_failed"] + ":data", 1, 1)
    for count, begins in ((2, 3), (3, 3), (4, 2), (5, 2)):
        client.delete(KEYS["metrics_completed"] + ":data")
        client.hset(KEYS["metrics_completed"], mapping={"count": 9, "prevTS": minute * 60_000, "prevCount": count})
        client.rpush(KEYS["metrics_completed"] + ":data", 3)
        reply = run_script(client, "metrics", limit=9)
        assert int(str(reply.values["begin_ms"])) == (minute - begins + 1) * 60_000, count


def test_a_child_with_several_states_is_listed_with_each(client: Redis) -> None:
    plant_job(client, "a", "waiting_children")
    names = [f"c{number:02}" for number in range(20)]
    client.sadd(build_job_key("a", ":dependencies"), *names)
    client.hset(build_job_key("a", ":processed"), mapping=dict.fromkeys(names, 1))
    client.hset(build_job_key("a", ":failed"), mapping=dict.fromkeys(names, 1))
    client.zadd(build_job_key("a", ":unsuccessful"), dict.fromkeys(names, 1))
    rows = list_rows(client, "child")
    assert [row[1] for row in rows] == [name.encode() for name in names for _ in range(4)]
    assert {row[2] for row in rows} == {b"waits", b"processed", b"ignored", b"failed"}


def test_a_restored_job_gets_the_fields_and_keys_that_it_had(client: Redis) -> None:
    plant_job(client, "a", "failed", deid="once", name="send")
    client.rpush(build_job_key("a", ":logs"), "one", "two")
    client.hset(build_job_key("a", ":processed"), "child", "1")
    client.hset(build_job_key("a", ":failed"), "child", "no")
    client.zadd(build_job_key("a", ":unsuccessful"), {"child": 5})
    client.set(f"{PREFIX}de:once", "a")
    client.hset(f"{PREFIX}dn:once", mapping={"name": "next", "data": "{}"})
    before = keyspace.dump(client)
    [record] = run_script(client, "records", [("a",)], whole=True, most=10**6).each
    values = record.values
    run_script(client, "delete", [("a",)])
    assert not client.exists(f"{PREFIX}dn:once")
    row = ("a", *(values[name] for name in ("place", "score", "record", "body", "errors")))
    assert [reply.word for reply in run_script(client, "restore", [row]).each] == ["moved"]
    after = keyspace.dump(client)
    assert {key: entry for key, entry in after.items() if key in before} == before


@run_in_one_test("is_there", [True, False])
def test_a_parent_without_a_hash_does_not_become_ready(client: Redis, *, is_there: bool) -> None:
    plant_job(client, "parent", "waiting_children")
    plant_job(client, "a", "failed", parentKey=build_job_key("parent"))
    client.sadd(build_job_key("parent", ":dependencies"), build_job_key("a"))
    if not is_there:
        client.delete(build_job_key("parent"))
    assert [reply.word for reply in run_script(client, "delete", [("a",)]).each] == ["moved"]
    assert client.lrange(KEYS["wait"], 0, -1) == [b"parent"] * is_there


def test_a_count_reads_keys_again_only_if_one_has_another_type(client: Redis) -> None:
    calls = {}
    for meta_type in ("hash", "string"):
        client.flushall()
        keyspace.plant(client, {KEYS["meta"]: {"version": "5"} if meta_type == "hash" else "text"})
        client.config_resetstat()
        assert run_script(client, "counts").word == "counted"
        calls[meta_type] = client.info("commandstats")["cmdstat_hmget"]["calls"]
    assert calls == {"hash": 1, "string": 2}
