"""What the readers of a native queue answer: pages, one job, counts, the roster of workers."""

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
    enqueue_ids,
    plant_job,
    read_body,
    reserve_one,
    run_script,
)
from redis import Redis

from rqtui.engine.engine import build_engine
from rqtui.errors import Refused
from rqtui.model import Focus
from rqtui.systems import registry

COUNTED = (
    "enqueued", "reserved", "acked", "rejected", "dead", "expired", "pulled", "dispatched", "unnoted", "dead_max",
)  # fmt: skip


def ids(client: Redis, place: str, offset: int, limit: int) -> list[bytes]:
    return [row[0] for row in run_script(client, "page", place=place, offset=offset, limit=limit, body_bytes=0).rows]


def test_pages_go_through_a_place_in_its_order(any_client: Redis) -> None:
    enqueue_ids(any_client, *(b"%d" % n for n in range(7)))
    assert ids(any_client, "ready", 0, 3) == [b"0", b"1", b"2"]
    assert ids(any_client, "ready", 3, 3) == [b"3", b"4", b"5"]
    assert ids(any_client, "ready", 6, 3) == [b"6"]
    assert ids(any_client, "ready", 7, 3) == []
    assert ids(any_client, "ready", -1, 3) == [b"4", b"5", b"6"], "the last page"


@pytest.mark.parametrize("size", [0, 10, 4096, 4097])
def test_a_page_shows_the_beginning_of_a_body_and_touches_no_long_one(any_client: Redis, size: int) -> None:
    text = b"z" * size
    enqueue_ids(any_client, b"a", body=text, name="send invoice")
    (row,) = run_script(any_client, "page", place="ready", offset=0, limit=1, body_bytes=20).rows
    head, shown_bytes, shown = row[2], row[3], row[4]
    assert head[-13:] == (b" " if size > 4096 else b":") + b"send invoice" and shown_bytes == size
    assert shown == (b"" if size > 4096 else text[:20])
    assert run_script(any_client, "show", id=b"a", body_bytes=-1).values["body"] == text
    assert run_script(any_client, "show", id=b"a", body_bytes=size - 1 if size else 0).values["body"] == b""


def test_a_page_shows_the_last_error(any_client: Redis) -> None:
    plant_job(
        any_client,
        "dead",
        b"a",
        NOW,
        attempts=build_attempts_line(2),
        errors=build_error_history("first", "last" + "!" * 600),
    )
    plant_job(any_client, "dead", b"b", NOW + 1, errors=b"{garbled")
    rows = run_script(any_client, "page", place="dead", offset=0, limit=9, body_bytes=9).rows
    assert [row[6] for row in rows] == [b"last" + b"!" * 496, b""]


def test_a_page_without_bodies_has_space_for_longer_errors(any_client: Redis) -> None:
    frames = "".join(f'  File "a{n}.py", line {n}, in f\n' for n in range(90))
    plant_job(
        any_client,
        "dead",
        b"a",
        NOW,
        attempts=build_attempts_line(1),
        errors=build_error_history(f"Traceback:\n{frames}ValueError: no"),
    )
    texts = {
        body_bytes: run_script(any_client, "page", place="dead", offset=0, limit=9, body_bytes=body_bytes).rows[0][6]
        for body_bytes in (0, 9)
    }
    assert [len(texts[body_bytes]) for body_bytes in (0, 9)] == [760 + 7 + 1200, 190 + 7 + 300]
    assert all(text.startswith(b"Traceback:") and text.endswith(b"ValueError: no") for text in texts.values())


def test_a_record_that_cannot_be_read_spoils_no_page(any_client: Redis) -> None:
    for n, damaged in enumerate((b"garbage", b"", b"\n", b"a b c d e f g h i j\nx")):
        plant_job(any_client, "ready", b"%d" % n, n)
        any_client.hset(build_key("jobs"), b"%d" % n, damaged)
    any_client.zadd(build_key("ready"), {b"none": 9})
    assert len(ids(any_client, "ready", 0, 9)) == 5
    for id in ids(any_client, "ready", 0, 9):
        assert run_script(any_client, "show", id=id, body_bytes=-1).word == "shown"


def test_show_prints_all_that_is_known_of_a_job(any_client: Redis) -> None:
    plant_job(
        any_client, "reserved", b"a", NOW + LEASE, b"{}", build_attempts_line(2, "77", 5), build_error_history("boom")
    )
    shown = run_script(any_client, "show", id=b"a", body_bytes=-1).values
    assert (shown["place"], float(shown["score"])) == ("reserved", NOW + LEASE)
    assert (shown["body"], shown["line"], shown["errors"]) == (
        b"{}",
        build_attempts_line(2, "77", 5),
        build_error_history("boom"),
    )


def test_counts_show_ages_and_what_is_late(any_client: Redis) -> None:
    empty = run_script(any_client, "counts").values
    assert (empty["oldest_ms"], empty["due_ms"], empty["deadline_ms"], empty["paused_ms"]) == (-1, -1, -1, -1)
    enqueue_ids(any_client, b"a", b"b", now_ms=NOW - 5000, ttr_ms=1000)
    enqueue_ids(any_client, b"late", now_ms=NOW - 5000, delay_ms=1000)
    enqueue_ids(any_client, b"later", delay_ms=HOUR)
    reserve_one(any_client, NOW - 5000)
    found = run_script(any_client, "counts").values
    assert (found["scheduled"], found["ready"], found["reserved"]) == (2, 1, 1)
    assert (found["oldest_ms"], found["overdue"], found["expired"]) == (5000, 1, 1)
    assert (found["due_ms"], found["deadline_ms"]) == (NOW - 4000, NOW - 4000)
    assert (found["enqueued"], found["reserved_ever"]) == (4, 1)


def test_counts_show_how_many_workers_live(any_client: Redis) -> None:
    run_script(any_client, "beat", worker="silent", ttl_ms=1000, now_ms=NOW - 1001)
    run_script(any_client, "beat", worker="alive", ttl_ms=1000, now_ms=NOW - 1000)
    found = run_script(any_client, "counts").values
    assert (found["workers"], found["live"]) == (2, 1)
    assert {row[0] for row in run_script(any_client, "roster").rows} == {b"silent", b"alive"}


def test_all_of_more_than_five_hundred_workers_are_counted_as_live(client: Redis) -> None:
    for number, live in ((500, 0), (501, 501)):
        client.hset(build_key("workers"), mapping={f"w{n}": "1 1000 run 1 - - " for n in range(number)})
        found = run_script(client, "counts").values
        assert (found["workers"], found["live"]) == (number, live)


def test_stats_begin_with_what_holds_now(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", body=b"x")
    enqueue_ids(any_client, b"b", now_ms=NOW + 60_000)
    rows = run_script(any_client, "stats", limit=1).rows
    assert [minute for minute, _ in rows] == [0, (NOW + 60_000) - (NOW + 60_000) % 60_000]
    assert "enqueued 2" in rows[0][1] and "enqueued 1" in rows[1][1]
    assert read_body(any_client, b"a") == b"x"


def test_the_failed_are_those_that_were_rejected_and_those_whose_lease_ended(any_client: Redis) -> None:
    enqueue_ids(any_client, *(b"%d" % n for n in range(3)), ttr_ms=1000)
    run_script(any_client, "reject", [(*reserve_one(any_client), b"boom")], final=True)
    reserve_one(any_client, NOW - 5000)
    run_script(any_client, "reap", limit=10)
    found = run_script(any_client, "counts").values
    assert (found["rejected"], found["expired_ever"], found["dead_ever"]) == (1, 1, 1)


def test_one_queue_is_counted_as_many_are(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", now_ms=NOW - 5000, ttr_ms=1000)
    enqueue_ids(any_client, b"late", now_ms=NOW - 5000, delay_ms=1000)
    enqueue_ids(any_client, b"later", delay_ms=HOUR)
    reserve_one(any_client, NOW - 5000)
    for number, name in enumerate(COUNTED, 11):
        any_client.hset(build_key("meta"), name, number)
    any_client.hset(build_key("meta"), "paused", NOW)
    any_client.zadd(build_key("scheduled"), {b"late": 1})  # by the server's clock, of which a snapshot is
    any_client.zadd(build_key("reserved"), {b"a": 1})
    any_client.hset(build_key("workers"), "w1", "1 1000 run 1 - - ")
    for place, number in (("done", 3), ("dead", 4)):
        for n in range(number):
            plant_job(any_client, place, b"%s-%d" % (place.encode(), n), NOW + n)
    engine, system = build_engine(any_client, [registry.create_system("native")]), registry.create_system("native")
    one, [other, empty] = (
        engine.send_request(system.queue_request("mail")),
        engine.send_request(system.queues_request(["mail", "empty"])),
    )
    assert abs(one.counted_ms - other.counted_ms) < 600_000
    for queue in (one, other):
        counters = dict(queue.counters)
        assert (counters.pop("in"), counters.pop("out"), counters.pop("failed")) == (11, 13 + 17, 14 + 16)
        assert counters == {
            "dead": 15, "expired": 16, "reserved": 12, "dispatched": 18, "unnoted": 19, "dead_max": 20, "registered": 1
        }  # fmt: skip
        assert [count.count for count in queue.counts] == [2, 1, 1, 3, 4] and queue.is_paused
        assert (queue.workers, queue.overdue, queue.expired) == (0, 1, 1)
        assert queue.next_due_ms is not None and queue.next_expiry_ms is not None and queue.oldest_ready_ms is not None
    assert [count.count for count in empty.counts] == [0] * 5 and empty.counters["dead_max"] == 100_000
    assert (empty.next_due_ms, empty.next_expiry_ms, empty.oldest_ready_ms, empty.is_paused) == (None,) * 3 + (False,)


def test_what_is_due_or_over_at_this_very_instant_counts_as_that(any_client: Redis) -> None:
    plant_job(any_client, "scheduled", b"now", NOW)
    plant_job(any_client, "reserved", b"over", NOW, attempts=build_attempts_line(1, "7"))
    found = run_script(any_client, "counts", now_ms=NOW).values
    assert (found["overdue"], found["expired"]) == (1, 1)
    found = run_script(any_client, "counts", now_ms=NOW - 1).values
    assert (found["overdue"], found["expired"]) == (0, 0)


def test_a_job_that_was_put_in_1970_waits_since_then(any_client: Redis) -> None:
    plant_job(any_client, "ready", b"a", 1, enqueued_ms=0)
    engine = build_engine(any_client, [registry.create_system("native")])
    (queue,) = engine.take_snapshot(Focus(queues=(engine.resolve("mail"),))).queues
    assert queue.oldest_ready_ms == queue.counted_ms


def test_a_job_that_lost_two_leases_is_found_with_the_number_of_workers_that_died(any_client: Redis) -> None:
    expired = "the lease expired"
    run_script(any_client, "beat", worker="alive", ttl_ms=60_000)
    histories = {
        "ready": [[NOW - 9000, NOW - 8000, "dead-1", expired], [NOW - 7000, NOW - 6000, "dead-2", expired]],
        "reserved": [[NOW - 9000, NOW - 8000, "alive", expired], [NOW - 7000, NOW - 6000, "dead-1", expired]],
        "dead": [[NOW - 9000, NOW - 8000, "dead-1", expired]] * 3 + [[NOW - 7000, NOW - 6000, "alive", "boom"]],
    }
    for place, history in histories.items():
        plant_job(any_client, place, place.encode(), NOW, errors=json.dumps(history).encode())
        once = json.dumps([history[0], [NOW, NOW, "alive", f"boom: {expired}"]]).encode()
        plant_job(any_client, place, b"once " + place.encode(), NOW, errors=once)
    plant_job(any_client, "dead", b"old", NOW - HOUR - 1, errors=json.dumps(histories["dead"]).encode())
    plant_job(any_client, "dead", b"unreadable", NOW, errors=b"{the lease expired")
    plant_job(any_client, "dead", b"strange", NOW, errors=b'["the lease expired", "the lease expired"]')

    def find() -> list[object]:
        rows = run_script(any_client, "interrupted", within_ms=HOUR, limit=20).rows
        return sorted((row[:5] for row in rows), key=lambda row: -row[2])

    assert find() == [], "the counter says that no lease expired, so no job is read"
    any_client.hset(build_key("meta"), "expired", 7)
    assert find() == [
        (b"dead", "dead", 3, 3, NOW - 8000),
        (b"reserved", "reserved", 2, 1, NOW - 8000),
        (b"ready", "ready", 2, 2, NOW - 8000),
        (b"once reserved", "reserved", 1, 0, NOW - 8000),
    ]


@pytest.mark.parametrize("limit", [0, 1001])
def test_the_search_for_interrupted_jobs_is_bounded(any_client: Redis, limit: int) -> None:
    with pytest.raises(Refused, match="limit is 1 to 1000"):
        run_script(any_client, "interrupted", within_ms=HOUR, limit=limit)


@pytest.mark.parametrize(("late_ms", "is_silent"), [(0, False), (1, True)])
def test_a_worker_is_silent_from_the_millisecond_after_its_time(
    late_ms: int, is_silent: bool, any_client: Redis
) -> None:
    expired = "the lease expired"
    run_script(any_client, "beat", worker="w1", ttl_ms=1000)
    for id, worker in ((b"a", "w1"), (b"b", "unknown")):
        plant_job(any_client, "reserved", id, NOW + HOUR)
        any_client.hset(build_key("attempts"), id, f"1 t 1 {NOW} 0 - {worker}")
    rows = run_script(any_client, "leases", limit=9, grace_ms=1000, now_ms=NOW + 1000 + late_ms).rows
    assert [row[0] for row in rows] == [b"w1", b"unknown"] * is_silent
    for order in ("quiet", "stop"):
        reply = run_script(any_client, order, [(b"w1",)], now_ms=NOW + 10_000 + late_ms)
        assert [row.word for row in reply.each] == ["gone" if is_silent else "asked"]
    any_client.hset(build_key("meta"), "expired", 1)
    plant_job(any_client, "dead", b"d", NOW, errors=json.dumps([[NOW, NOW, "w1", expired]] * 2).encode())
    [row] = run_script(any_client, "interrupted", within_ms=1000 + late_ms, limit=9, now_ms=NOW + 1000 + late_ms).rows
    assert row[3] == 2 * is_silent
    assert not run_script(any_client, "interrupted", within_ms=999 + late_ms, limit=9, now_ms=NOW + 1000 + late_ms).rows


@pytest.mark.parametrize(("size", "is_whole"), [(5000, True), (5001, False)])
def test_a_page_shows_a_long_body_up_to_the_limit(size: int, is_whole: bool, any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", body=b"z" * size)
    (row,) = run_script(any_client, "page", place="ready", offset=0, limit=1, body_bytes=5000).rows
    assert (row[3], len(row[4])) == (size, size if is_whole else 0)


def test_a_page_shows_an_error_up_to_a_length_and_the_end_of_a_longer_traceback(client: Redis) -> None:
    for body_bytes, room in ((0, 2000), (1, 500), (-1, 500)):
        for length in (room - 1, room, room + 1, 9 * room):
            line = "".join(chr(97 + number % 26) for number in range(length))
            for error in (line, "\n" + line[1:]):
                client.flushdb()
                history = json.dumps([[NOW, NOW, "w", "first"], [NOW, NOW, "w", error]]).encode()
                plant_job(client, "dead", b"a", NOW, errors=history)
                [row] = run_script(client, "page", place="dead", offset=0, limit=1, body_bytes=body_bytes).rows
                is_cut = length > room and error is not line
                ends = f"{error[: int(room * 0.38)]}\n  ... {error[-int(room * 0.6) :]}" if is_cut else error
                assert row[6] == ends[:room].encode(), (body_bytes, length, is_cut)


def test_the_first_and_the_newest_jobs_are_searched_for_lost_leases(client: Redis) -> None:
    expired = json.dumps([[NOW, NOW, "w1", "the lease expired"]] * 2).encode()
    client.hset(build_key("meta"), "expired", 1)
    for place in ("reserved", "ready", "dead"):
        for number in range(4):
            plant_job(client, place, b"%s-%d" % (place.encode(), number), NOW + number, errors=expired)
    rows = run_script(client, "interrupted", within_ms=HOUR, limit=3).rows
    assert [row[0] for row in rows] == [
        *(b"%s-%d" % (place, number) for place in (b"reserved", b"ready") for number in (0, 1, 2)),
        *(b"dead-%d" % number for number in (1, 2, 3)),
    ]
    for length in (1000, 1001):
        client.hset(build_key("jobs"), "dead-3", "x" * length + "\nbody")
        assert len(run_script(client, "interrupted", within_ms=HOUR, limit=3).rows[-1][5]) == 1000


def test_the_workers_of_a_queue_are_all_live_where_they_are_too_many_to_be_read(any_client: Redis) -> None:
    any_client.hset(build_key("workers"), mapping={f"w{number}": f"{NOW - 9} 1 run" for number in range(500)})
    assert run_script(any_client, "counts").values["live"] == 0
    any_client.hset(build_key("workers"), "w500", f"{NOW - 9} 1 run")
    assert run_script(any_client, "counts").values["live"] == 501
