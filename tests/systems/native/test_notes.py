"""The bookkeeping of the native queue: counters, the history per minute, events while watched, and the wake marker."""

from __future__ import annotations

import pytest
from families import run_in_one_test
from native_jobs import (
    HOUR,
    LEASE,
    NOW,
    SCRIPTS,
    build_attempts_line,
    build_key,
    enqueue_ids,
    plant_job,
    read_meta,
    run_script,
)
from native_subject import NATIVE, USES
from redis import Redis

from rqtui.errors import Refused
from rqtui.scripts.script import run_call
from rqtui.systems.native import Native
from rqtui.testing.subject import PreparedScript

MINUTE = 60_000


def minutes(client: Redis) -> dict[int, dict[str, int]]:
    """Minute → the counters as it began, from the script that reads them."""
    rows = run_script(client, "stats", limit=1440).rows
    return {
        minute: {name: int(value) for name, value in zip(*[iter(fields.split())] * 2, strict=True) if value.isdigit()}
        for minute, fields in rows
    }


def events(client: Redis) -> list[tuple[str, bytes]]:
    return [(fields[b"verb"].decode(), fields.get(b"id", b"")) for _, fields in client.xrange(build_key("events"))]


# --- counters and minutes -------------------------------------------------------------------------------------------


def test_counters_report_how_often_each_verb_moved_a_job(any_client: Redis) -> None:
    enqueue_ids(any_client, *(b"%d" % n for n in range(9)), max_attempts=1)
    rows = run_script(any_client, "reserve", limit=5).rows
    run_script(any_client, "ack", [row[:2] for row in rows[:2]])
    run_script(any_client, "reject", [(*rows[2][:2], b"")])
    run_script(any_client, "release", [rows[3][:2]])
    run_script(any_client, "reap", limit=9, now_ms=NOW + LEASE)
    run_script(any_client, "pull", limit=1)
    expected = {
        "enqueued": 9,
        "reserved": 5,
        "acked": 2,
        "rejected": 1,
        "released": 1,
        "expired": 1,
        "dead": 2,
        "pulled": 1,
    }
    assert {name: read_meta(any_client, name) for name in expected} == expected


def test_differences_of_minutes_are_numbers_per_minute(any_client: Redis) -> None:
    start = NOW - NOW % MINUTE
    for minute, number in enumerate((3, 0, 5, 1)):
        for n in range(number):
            enqueue_ids(any_client, b"%d-%d" % (minute, n), now_ms=start + minute * MINUTE + n)
    rows = minutes(any_client)
    now = rows.pop(0)["enqueued"]
    assert sorted(rows) == [start, start + 2 * MINUTE, start + 3 * MINUTE], "one row per active minute"
    assert [rows[minute].get("enqueued", 0) for minute in sorted(rows)] + [now] == [0, 3, 8, 9]


def test_every_changing_verb_that_counts_begins_its_minute(client: Redis) -> None:
    for name, script in SCRIPTS.items():
        if "minutes" not in script.writes:
            continue
        source = (USES[name].sources or script.sources or ("",))[0]
        PreparedScript.build(NATIVE, client, name, source).run()
        assert [entry[0] for entry in client.xrange(build_key("minutes"))] == [b"%d-0" % (NOW - NOW % MINUTE)], name


def test_no_verb_begins_a_minute_twice(client: Redis) -> None:
    for name, script in SCRIPTS.items():
        if "minutes" not in script.writes:
            continue
        source = (USES[name].sources or script.sources or ("",))[0]
        for last, number in ((NOW - NOW % MINUTE, 0), (NOW - NOW % MINUTE - 1, 1), (NOW - NOW % MINUTE + 1, 0)):
            prepared = PreparedScript.build(NATIVE, client, name, source)
            client.hset(build_key("meta"), "minute", last)
            prepared.run()
            assert client.xlen(build_key("minutes")) == number, name
            assert client.hget(build_key("meta"), "minute") == b"%d" % (NOW - NOW % MINUTE if number else last), name
            assert read_meta(client, "unnoted") == 0, name


def test_a_clock_that_goes_back_writes_no_minute(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    enqueue_ids(any_client, b"b", now_ms=NOW - HOUR)
    enqueue_ids(any_client, b"c", now_ms=NOW + MINUTE)
    assert any_client.xlen(build_key("minutes")) == 2
    assert read_meta(any_client, "unnoted") == 0


def test_a_minute_of_up_to_199_counters_is_recorded(client: Redis) -> None:
    for fields, is_recorded in ((199, True), (200, False)):  # `minute` itself is one of them
        client.flushdb()
        plant_job(client, "ready", b"a", 5)
        counters = {"version": 2, "seq": 5, **{f"x{number}": 1 for number in range(fields - 3)}}
        for queue in ("mail", "other"):
            client.hset(build_key("meta", queue), mapping=counters)
        run_script(client, "bump", [(b"a",)])
        move = Native().build_call("move", "mail", {"to_queue": "other", "now_ms": NOW}, [{"id": b"a"}])
        assert [reply.word for reply in run_call(client, move).each] == ["moved"]
        for queue in ("mail", "other"):
            assert client.xlen(build_key("minutes", queue)) == is_recorded, (fields, queue)


def test_figures_of_no_minutes_are_the_counters_alone(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a")
    for limit in (0, 1):
        assert len(run_script(any_client, "stats", limit=limit).rows) == 1 + limit


def test_no_job_moves_to_a_queue_whose_numbers_or_version_cannot_be_read(client: Redis) -> None:
    plant_job(client, "ready", b"a", 5)
    move = Native().build_call("move", "mail", {"to_queue": "other", "now_ms": NOW}, [{"id": b"a"}])
    for field, value in (("seq", "x"), ("seq", "1.5"), ("version", "3")):
        client.delete(build_key("meta", "other"))
        client.hset(build_key("meta", "other"), field, value)
        with pytest.raises(Refused, match="nothing was changed"):
            run_call(client, move)
    assert client.zcard(build_key("ready")) == 1


def test_about_a_day_of_minutes_is_kept(client: Redis) -> None:
    pipe = client.pipeline()
    for n in range(3000):
        pipe.xadd(build_key("minutes"), {"enqueued": n}, id=f"{NOW - 4000 * MINUTE + n * MINUTE}-0")
    pipe.execute()
    enqueue_ids(client, b"a")
    assert 1440 <= client.xlen(build_key("minutes")) < 1440 + 200


# --- events ---------------------------------------------------------------------------------------------------------


def test_events_are_recorded_only_while_a_client_watches(any_client: Redis) -> None:
    enqueue_ids(any_client, b"unseen")
    run_script(any_client, "configure", [("events", str(NOW + 1000))])
    enqueue_ids(any_client, b"seen", now_ms=NOW + 999)
    enqueue_ids(any_client, b"late", now_ms=NOW + 1000)
    assert events(any_client) == [("enqueue", b"seen")]
    run_script(any_client, "configure", [("events", "on")])
    enqueue_ids(any_client, b"again", now_ms=NOW + HOUR)
    run_script(any_client, "configure", [("events", "off")])
    enqueue_ids(any_client, b"never", now_ms=NOW + HOUR)
    assert events(any_client) == [("enqueue", b"seen"), ("enqueue", b"again")]


def test_every_verb_that_moves_a_job_reports_it_in_events(client: Redis) -> None:
    for name, script in SCRIPTS.items():
        if "events" not in script.writes or name == "purge":  # purge removes too many to name each
            continue
        for source in USES[name].sources or script.sources or ("",):
            prepared = PreparedScript.build(NATIVE, client, name, source)
            client.hset(build_key("meta"), "events", "on")
            prepared.run()
            expected = prepared.targets[0].id if USES[name].knows_jobs else b""
            assert events(client) == [(name, expected)], name


def test_no_verb_records_an_event_once_the_watch_is_over(client: Redis) -> None:
    for name, script in SCRIPTS.items():
        if "events" not in script.writes or name == "purge":
            continue
        source = (USES[name].sources or script.sources or ("",))[0]
        for watch, number in ((b"", 0), (b"off", 0), (b"%d" % NOW, 0), (b"%d" % (NOW + 1), 1)):
            prepared = PreparedScript.build(NATIVE, client, name, source)
            if watch:
                client.hset(build_key("meta"), "events", watch)
            prepared.run()
            assert client.xlen(build_key("events")) == number, (name, watch)


# --- the wake marker ------------------------------------------------------------------------------------------------


def woken(client: Redis) -> bool:
    """Return whether the wake marker exists, and delete the marker."""
    return bool(client.delete(build_key("wake")))


def test_the_marker_is_one_member(any_client: Redis) -> None:
    for n in range(3):
        enqueue_ids(any_client, b"%d" % n)
    assert any_client.zrange(build_key("wake"), 0, -1) == [b"wake"]


def test_an_enqueue_wakes_when_it_is_ready_or_nearer_than_the_next(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", delay_ms=100)
    assert woken(any_client)
    enqueue_ids(any_client, b"b", delay_ms=200)
    assert not woken(any_client), "something nearer is known"
    enqueue_ids(any_client, b"c", delay_ms=50)
    assert woken(any_client)
    enqueue_ids(any_client, b"c", delay_ms=1)
    assert not woken(any_client), "it exists"
    run_script(any_client, "enqueue", [{"id": b"e", "body": b"", "delay_ms": due} for due in (60, 1)])
    assert not woken(any_client), "of one id twice in a batch the second is not put"
    enqueue_ids(any_client, b"d")
    assert woken(any_client)


@run_in_one_test(
    ("name", "source"),
    [
        ("dispatch", "scheduled"),
        ("reap", "reserved"),
        ("requeue", "dead"),
        ("promote", "scheduled"),
        ("release", "reserved"),
        ("restore", ""),
        ("revert", "scheduled"),
        ("resume", ""),
    ],
)
def test_a_verb_that_makes_a_job_ready_wakes_a_consumer(any_client: Redis, name: str, source: str) -> None:
    prepared = PreparedScript.build(NATIVE, any_client, name, source)
    woken(any_client)
    prepared.run()
    assert woken(any_client)


def test_a_reject_or_reschedule_wakes_only_when_it_is_the_nearest(any_client: Redis) -> None:
    plant_job(any_client, "scheduled", b"near", NOW + 500)
    for id in (b"a", b"b"):
        plant_job(any_client, "reserved", id, NOW + LEASE, attempts=build_attempts_line(1, "7"))
    run_script(any_client, "reject", [(b"a", "7", b"")], delay_ms=501)
    assert not woken(any_client)
    run_script(any_client, "reject", [(b"b", "7", b"")], delay_ms=499)
    assert woken(any_client)
    run_script(any_client, "reschedule", [(b"a",)], delay_ms=600)
    assert not woken(any_client)
    run_script(any_client, "reschedule", [(b"a",)], delay_ms=400)
    assert woken(any_client)


def test_a_reserve_passes_the_baton_only_if_it_took_a_job_and_something_is_near(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", ttr_ms=HOUR)
    woken(any_client)
    run_script(any_client, "reserve", limit=1)
    assert woken(any_client), "more is ready"
    run_script(any_client, "reserve", limit=1)
    assert not woken(any_client), "nothing is ready, and the leases last longer than ten seconds"
    enqueue_ids(any_client, b"c", delay_ms=10_000)
    woken(any_client)
    run_script(any_client, "reserve", limit=1)
    assert not woken(any_client), "it took nothing"
    enqueue_ids(any_client, b"d", ttr_ms=HOUR)
    woken(any_client)
    run_script(any_client, "reserve", limit=1)
    assert woken(any_client), "c falls due within ten seconds"
    enqueue_ids(any_client, b"e", ttr_ms=HOUR, now_ms=NOW - 1)
    woken(any_client)
    run_script(any_client, "reserve", limit=1, now_ms=NOW - 1)
    assert not woken(any_client), "c is 10 001 ms away"


def test_a_due_job_that_cannot_be_read_dies_and_wakes_no_consumer(any_client: Redis) -> None:
    enqueue_ids(any_client, b"a", b"b", delay_ms=1, now_ms=NOW - 9)
    any_client.hset(build_key("jobs"), mapping={b"a": b"garbage", b"b": b"garbage"})
    woken(any_client)
    answer = run_script(any_client, "dispatch", limit=9)
    assert answer.word == "moved" and any_client.zcard(build_key("dead")) == 2
    assert read_meta(any_client, "dead") == 2
    assert not woken(any_client)
    enqueue_ids(any_client, b"c", delay_ms=1, now_ms=NOW - 9)
    woken(any_client)
    run_script(any_client, "dispatch", limit=9)
    assert woken(any_client)


def test_a_change_that_makes_no_job_due_earlier_wakes_no_consumer(any_client: Redis) -> None:
    for name in ("ack", "extend", "cancel", "kill", "delete", "pull", "reprioritise", "pause", "beat", "configure"):
        prepared = PreparedScript.build(
            NATIVE, any_client, name, (USES[name].sources or SCRIPTS[name].sources or ("",))[0]
        )
        woken(any_client)
        prepared.run()
        assert not woken(any_client), name
