"""redisched: what every system keeps, over topics in either unit; bad input; topics as the engine shows them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

import pytest
from families import run_in_one_test
from redis import Redis
from redisched_subject import (
    HOUR,
    KEYS,
    NOW,
    SCRIPTS,
    SUBJECTS,
    build_key,
    list_ids,
    plant_job,
    read_outcomes,
    run_script,
)
from shell import shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import Refused, UsageError, WrongType
from rqtui.model import Job, Ref, State
from rqtui.system_base.system import System
from rqtui.systems import registry
from rqtui.testing import conformance, keyspace
from rqtui.testing.conformance import Planted

MAIL = Ref("redisched", "mail")


@pytest.mark.parametrize("unit", SUBJECTS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_redisched(script: str, unit: str, any_client: Redis) -> None:
    conformance.run_all(conformance.cases(SUBJECTS["ms"], [script]), SUBJECTS[unit], any_client)


# ── planted faults ───────────────────────────────────────────────────────────────────────────────────────────

PUT, TAKE = "redis.call('ZADD', queued, unpack(back))\n", "redis.call('ZREM', reserved, unpack(ids))\n"
REVERSED = "'ZREVRANGEBYSCORE', queued, range[2], range[1]"
KNOWN = "if place or ids[id] or size > 0 and redis.call('HEXISTS', jobs, id) == 1 then"


FAULTS = (
    Planted("takes before it puts", "release", PUT + TAKE, TAKE + PUT, 2),
    Planted("forgets to take", "release", TAKE, "", 2),
    Planted("puts into a wrong target", "release", PUT, "redis.call('ZADD', reserved, unpack(back))\n", 2),
    Planted("touches an undeclared key", "release", TAKE, TAKE + "redis.call('SET', 'stray', 1)\n", 3),
    Planted("has no guard", "ack", "redis.call('HLEN', jobs)", "", 8),
    Planted("does not look at the token", "ack", "tonumber(deadline) == token", "true", 9),
    Planted("overwrites a reserved job", "enqueue", KNOWN, "if redis.call('ZSCORE', queued, id) then", 9),
    Planted("takes the newest first", "reserve", "'ZRANGEBYSCORE', queued, range[1], range[2]", REVERSED, 11),
    Planted("drains without freeing first", "reap", "redis.call('ZREMRANGEBYRANK', reserved, 1, 0)", "", 13),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(SUBJECTS["ms"], client)


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["jobs", "queued", "reserved", "expiries"])
def test_a_key_of_another_program_is_named_and_left_alone(name: str, client: Redis) -> None:
    plant_job(client, "due", "a", 5)
    client.delete(KEYS[name])
    client.set(KEYS[name], "mine")
    before = keyspace.dump(client)
    (queue,) = build_engine(client, [registry.create_system("redisched:topic=mail")]).take_snapshot().queues
    assert (KEYS[name] in queue.error) == (name in ("queued", "reserved")), "jobs are not needed to count"
    with pytest.raises(WrongType, match=name.upper() if name != "expiries" else name):
        run_script(client, "reserve", limit=1)
    assert keyspace.dump(client) == before


def test_ids_and_scores_that_are_none_are_shown_with_a_problem_and_stop_nothing(any_client: Redis) -> None:
    for id, score in ((b"", -5), (b"\xff\x00 \n", NOW - 5), (b"inf", float("inf")), (b"-inf", float("-inf"))):
        plant_job(any_client, "due", id, score, b"\x00\xff")
    engine = Engine(any_client, [registry.create_system("redisched:topic=mail")])
    (queue,) = build_engine(any_client, [registry.create_system("redisched")]).take_snapshot().queues
    assert not queue.error
    shown = {job.id: job for place in ("queued", "due") for job in engine.fetch_page(MAIL, place).jobs}
    assert set(shown) == {b"", b"\xff\x00 \n", b"inf", b"-inf"}
    assert "is no instant" in shown[b"inf"].problem and "is no instant" in shown[b"-inf"].problem
    taken = run_script(any_client, "reserve", limit=10)
    assert {row[0] for row in taken.rows} == {b"", b"\xff\x00 \n", b"-inf"}
    rows = [(row[0], row[1]) for row in taken.rows]
    assert read_outcomes(run_script(any_client, "ack", rows)) == ["moved"] * 3
    assert read_outcomes(run_script(any_client, "promote", [(b"inf",)])) == ["moved"]


def test_a_body_of_30_mb_causes_no_large_page_and_is_complete_when_requested(client: Redis) -> None:
    big = b"x" * 30_000_000
    plant_job(client, "due", "big", 5_000, big)
    plant_job(client, "due", "small", 6_000, b"y" * 6000)
    engine = Engine(client, [registry.create_system("redisched:topic=mail")])
    first, second = engine.fetch_page(MAIL, "due", body_bytes=200).jobs
    assert (first.body, first.body_bytes) == (None, len(big))
    assert (second.body, second.body_bytes) == (b"y" * 200, 6000)
    assert engine.fetch_job(MAIL, b"big", 65536).body is None
    assert engine.fetch_job(MAIL, b"big", -1).body == big
    assert run_script(client, "reserve", limit=1).rows[0][3] == big


def test_a_page_leaves_out_a_body_of_more_than_16_kib_unless_all_of_it_is_requested(client: Redis) -> None:
    for size, body_bytes, shown in (
        (16384, 9, 9), (16385, 9, 0), (16385, 16384, 0), (16385, 16385, 16385), (16385, -1, 16385),
    ):  # fmt: skip
        plant_job(client, "due", "a", NOW, b"x" * size)
        (row,) = run_script(client, "page", place="due", offset=0, limit=1, body_bytes=body_bytes).rows
        assert (row[2], len(row[3])) == (size, shown)


@pytest.mark.parametrize("verb", ["pull", "reserve"])
def test_a_job_behind_up_to_ten_thousand_ids_without_a_body_is_found(verb: str, client: Redis) -> None:
    for number in (50, 51, 9_999, 10_000):
        client.flushall()
        client.zadd(KEYS["queued"], {f"ghost{n}": 1 for n in range(number)})
        plant_job(client, "due", "job", 2)
        assert [row[0] for row in run_script(client, verb, limit=1).rows] == ([b"job"] if number < 10_000 else [])


def test_a_search_for_faults_reads_samples_of_long_places(client: Redis) -> None:
    client.hset(KEYS["jobs"], mapping={f"lost{n}": "" for n in range(600)})
    lost = run_script(client, "faults", unit="ms")
    assert (lost.values["looked"], [row[:4:3] for row in lost.rows]) == (400, [("no_place", 600)])
    client.delete(KEYS["jobs"])
    for key in ("queued", "reserved"):
        client.zadd(KEYS[key], {f"ghost{n}": NOW for n in range(301)})
    found = run_script(client, "faults")
    numbers = [row[:4:3] for row in found.rows]
    assert (found.values["looked"], numbers) == (600, [("ghost", 300), ("ghost", 300), ("two_places", 300)])


def test_a_job_whose_leases_expired_five_times_is_reported_unless_many_deleted_ones_have_more(client: Redis) -> None:
    for expiries, deleted, is_found in ((4, 0, False), (5, 19, True), (5, 20, False)):
        client.flushall()
        plant_job(client, "due", "bad", NOW)
        client.zadd(KEYS["expiries"], {"bad": expiries, **{f"deleted{n}": 9 for n in range(deleted)}})
        rows = run_script(client, "faults").rows
        assert [row[:5] for row in rows] == ([("poison", KEYS["reserved"], b"bad", 5, 0)] if is_found else [])


def test_a_put_into_an_empty_topic_requires_the_unit(any_client: Redis) -> None:
    with pytest.raises(Refused, match="--system redisched:unit=ms"):
        run_script(any_client, "enqueue", [(b"a", b"", None, None)])
    assert keyspace.dump(any_client) == {}
    assert read_outcomes(run_script(any_client, "enqueue", [(b"a", b"", None, None)], unit="s")) == ["moved"]
    assert read_outcomes(run_script(any_client, "enqueue", [(b"b", b"", None, None), (b"b", b"", None, None)])) == [
        "moved",
        "exists",
    ]
    assert any_client.zscore(KEYS["queued"], "b") == NOW // 1000


def test_a_lost_job_is_not_put_back_if_nothing_shows_the_unit(any_client: Redis) -> None:
    any_client.hset(KEYS["jobs"], "lost", "body")
    with pytest.raises(Refused, match="no score that shows its unit.*unit=ms"):
        run_script(any_client, "repair", [(b"lost",)])
    plant_job(any_client, "queued", "s", NOW // 1000)
    plant_job(any_client, "queued", "ms", NOW)
    with pytest.raises(Refused, match="scores in both units.*unit=ms"):
        run_script(any_client, "repair", [(b"lost",)])
    assert any_client.zcard(KEYS["queued"]) == 2


def test_a_new_due_time_has_the_unit_of_the_old_one_or_of_the_other_scores(client: Redis) -> None:
    low, high = 5, 9e15 + 2  # no times: in the unit of the others
    for score, other, is_ms in (
        (1e8 - 1, NOW, True), (1e8, NOW, False), (1e11 - 1, NOW, False), (1e11, 1e9, True), (9e15, 1e9, True),
        (low, 1e9, False), (low, 1e11 - 1, False), (low, 1e11, True), (low, 9e15 - 1, True), (low, 9e15, False),
        (high, 1e9, False), (high, NOW, True),
    ):  # fmt: skip
        for place in ("queued", "reserved"):
            client.flushall()
            plant_job(client, "queued", "a", score)
            plant_job(client, place, "other", other)
            assert read_outcomes(run_script(client, "reschedule", [(b"a",)], due_ms=NOW + HOUR)) == ["moved"]
            assert (client.zscore(KEYS["queued"], "a") == NOW + HOUR) == is_ms, (score, other)


def test_a_time_is_over_at_its_own_instant_in_either_unit(client: Redis) -> None:
    for score, is_over in (
        (NOW, True), (NOW + 1, False), (NOW / 1000, True), (NOW / 1000 + 0.001, False), (1e11 - 1, False), (1e11, True),
    ):  # fmt: skip
        client.flushall()
        plant_job(client, "queued", "due", score)
        plant_job(client, "reserved", "held", score)
        for id, place in ((b"due", "due" if is_over else "queued"), (b"held", "expired" if is_over else "reserved")):
            assert run_script(client, "show", id=id, body_bytes=-1).values["place"] == place, score
            page = run_script(client, "page", place=place, offset=0, limit=9, body_bytes=0)
            assert [row[0] for row in page.rows] == [id], score
        assert run_script(client, "counts").values["expired"] == is_over
        words = read_outcomes(run_script(client, "promote", [(b"due",)], unit="ms"))
        words += read_outcomes(run_script(client, "delete", [(b"held", b"")]))
        assert words == (["wrong_place", "moved"] if is_over else ["moved", "reserved"]), score


def test_scores_are_counted_by_their_unit_and_those_that_show_none_are_not(client: Redis) -> None:
    scores = {"no": 1e8 - 1, "s": 1e8, "last s": 1e11 - 1, "ms": 1e11, "last ms": 9e15 - 1, "never": 9e15}
    for place in ("queued", "reserved"):
        client.flushall()
        client.zadd(KEYS[place], scores)
        counted = run_script(client, "counts").values
        assert (counted["scores_s"], counted["scores_ms"]) == (2, 2)


def test_a_reaped_job_is_due_in_the_unit_of_its_lease_or_of_the_other_scores(client: Redis) -> None:
    for other, low_due in ((1e11 - 1, NOW // 1000), (9e15 - 1, NOW), (9e15, NOW // 1000)):
        for place in ("queued", "reserved"):
            client.flushall()
            client.zadd(KEYS["reserved"], {"low": 1e8 - 1, "s": 1e8})
            client.zadd(KEYS[place], {"other": other})
            assert run_script(client, "reap", limit=9).values["moved"] == 2
            found = dict(client.zrange(KEYS["queued"], 0, 8, withscores=True))
            assert (found[b"low"], found[b"s"]) == (low_due, NOW // 1000), other
    client.zadd(KEYS["reserved"], {"ms": 1e11})
    run_script(client, "reap", limit=9)
    assert client.zscore(KEYS["queued"], "ms") == NOW


def test_a_time_that_is_over_is_rounded_down_to_its_second(client: Redis) -> None:
    plant_job(client, "queued", "a", NOW / 1000 + 1)
    for due_ms, due_s in ((NOW + 500, NOW // 1000), (NOW + 501, NOW // 1000 + 1)):
        run_script(client, "reschedule", [(b"a",)], due_ms=due_ms, now_ms=NOW + 500)
        run_script(client, "enqueue", [(b"%d" % due_ms, b"", None, due_ms)], now_ms=NOW + 500)
        assert client.zscore(KEYS["queued"], "a") == client.zscore(KEYS["queued"], b"%d" % due_ms) == due_s


def test_a_job_that_is_queued_and_leased_keeps_its_body_when_one_of_them_ends(client: Redis) -> None:
    plant_job(client, "due", "a", NOW)
    for score, verb in ((NOW + HOUR, "ack"), (NOW - HOUR, "pull")):
        client.zadd(KEYS["reserved"], {"a": NOW + HOUR})
        client.zadd(KEYS["queued"], {"a": score})
        run_script(client, verb, **({"limit": 1} if verb == "pull" else {"rows": [(b"a", b"%d" % (NOW + HOUR))]}))
        assert client.hkeys(KEYS["jobs"]) == [b"a"], verb
    assert not client.exists(KEYS["queued"]) and client.zcard(KEYS["reserved"]) == 1


def test_leases_that_a_reaper_left_are_over_now_whatever_the_unit_of_the_next(client: Redis) -> None:
    client.zadd(KEYS["reserved"], {"a": NOW / 1000 - 2, "b": NOW / 1000 - 1, "c": NOW + HOUR})
    assert run_script(client, "reap", limit=1).values["next_ms"] == 0


def test_a_time_that_is_none_is_not_waited_for(client: Redis) -> None:
    for score, wait_ms in ((1e11 - 1, (10**11 - 1) * 1000 - NOW), (9e15 - 1, 9 * 10**15 - 1 - NOW), (9e15, -1)):
        client.flushall()
        client.zadd(KEYS["queued"], {"a": score})
        client.zadd(KEYS["reserved"], {"a": score})
        assert run_script(client, "pull", limit=1).values["next_ms"] == wait_ms
        assert run_script(client, "reap", limit=1).values["next_ms"] == wait_ms


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("redisched:unit=h", 'auto, ms or s, not "h"'),
        ("redisched:ttr_ms=0", "1 to 31536000000"),
        ("redisched:ttr_ms=soon", "1 to 31536000000"),
        ("redisched:colour=red", "its options: topic, unit, ttr_ms"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_can(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        registry.create_system(spec)


def test_a_topic_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="has a name"):
        registry.create_system("redisched").keys("")


# ── discovery, and the engine ────────────────────────────────────────────────────────────────────────────────


def test_topics_are_found_by_their_keys_where_these_are_of_the_right_type(any_client: Redis) -> None:
    plant_job(any_client, "due", "a", 5, topic="one")
    any_client.zadd(build_key("reserved", "two: größe"), {"a": 5})
    any_client.set(build_key("queued", "not ours"), "x")
    any_client.set("__REDIS_SCHED_JOBS__", "x")
    unasked: System = next(system for system in registry.create_systems() if system.name == "redisched")
    for system in (unasked, registry.create_system("redisched")):
        assert {ref.queue for ref in build_engine(any_client, [system]).refs} == {"one", "two: größe"}
        assert [system.has_queue(any_client, name) for name in ("one", "two: größe", "not ours")] == [
            True,
            True,
            False,
        ]
    named = registry.create_system("redisched:topic=new")
    assert [ref.queue for ref in build_engine(any_client, [named]).refs] == ["new"]
    assert named.has_queue(any_client, "new") and not unasked.has_queue(any_client, "new")


@pytest.fixture
def topic(any_client: Redis) -> Iterator[tuple[Engine, int]]:
    """Plant a topic with a job in each place, by the server's clock."""
    seconds, micros = any_client.time()
    now_ms = seconds * 1000 + micros // 1000
    for place, offset in (("queued", 60_000), ("due", -60_000), ("reserved", 50_000), ("expired", -40_000)):
        plant_job(any_client, place, place, now_ms + offset, b'{"to": 1}')
    yield build_engine(any_client, [registry.create_system("redisched")]), now_ms


def test_a_topic_is_counted_and_shown_through_the_engine(topic: tuple[Engine, int]) -> None:
    engine, now_ms = topic
    (queue,) = engine.take_snapshot().queues
    assert [(count.place, count.count) for count in queue.counts] == [
        ("queued", 1),
        ("due", 1),
        ("reserved", 1),
        ("expired", 1),
    ]
    assert queue.count_in_state(State.RESERVED) == 2 and queue.expired == 1
    assert abs((queue.oldest_ready_ms or 0) - 60_000) < 5000
    assert abs((queue.next_due_ms or 0) - 60_000) < 5000
    assert abs((queue.next_expiry_ms or 0) + 40_000) < 5000
    assert queue.verdict.kind == "expired-not-reaped"
    for place in ("queued", "due", "reserved", "expired"):
        (job,) = engine.fetch_page(MAIL, place, body_bytes=100).jobs
        assert replace(engine.fetch_job(MAIL, place.encode(), -1), body=None) == replace(job, body=None)
        assert (job.id, job.place, job.body) == (place.encode(), place, b'{"to": 1}')
    queued, reserved = engine.fetch_job(MAIL, b"queued"), engine.fetch_job(MAIL, b"reserved")
    assert queued is not None and reserved is not None
    assert (queued.due_ms, queued.token) == (now_ms + 60_000, b"")
    assert (reserved.deadline_ms, float(reserved.token)) == (now_ms + 50_000, now_ms + 50_000)
    assert engine.fetch_job(MAIL, b"nobody") is None


def test_a_page_continues_where_the_one_before_ended_and_minus_one_is_the_last(client: Redis) -> None:
    for n in range(10):
        plant_job(client, "due", f"j{n}", (NOW + n) // (1 if n % 2 else 1000))
    system = registry.create_system("redisched:topic=mail")
    pages = [
        run_script(client, "page", place="due", offset=at, limit=4, body_bytes=0, now_ms=NOW + 60_000)
        for at in (0, 4, 8, -1)
    ]
    ids = [[row[0] for row in page.rows] for page in pages]
    whole = client.zrange(KEYS["queued"], 0, -1)
    assert ids == [whole[:4], whole[4:8], whole[8:], whole[6:]] and system.place("due").state == "ready"


def test_every_verb_acts_on_what_was_seen(topic: tuple[Engine, int]) -> None:
    engine, now_ms = topic

    def seen(id: str) -> list[Job]:
        job = engine.fetch_job(MAIL, id.encode())
        assert job is not None
        return [job]

    def act(verb: str, id: str, **form: object) -> str:
        return engine.apply_verb(verb, MAIL, seen(id), form)[0].word

    assert act("promote", "queued") == "moved" and seen("queued")[0].place == "due"
    assert act("reschedule", "queued", delay_ms=60_000) == "moved" and seen("queued")[0].place == "queued"
    assert act("extend", "reserved", ttr_ms=600_000) == "extended"
    assert (seen("reserved")[0].deadline_ms or 0) > now_ms + 500_000
    before = seen("reserved")
    assert act("release", "reserved") == "moved" and seen("reserved")[0].place == "due"
    assert engine.apply_verb("ack", MAIL, before)[0].word == "stale"
    assert act("ack", "expired") == "moved" and engine.fetch_job(MAIL, b"expired") is None
    assert act("delete", "due") == "moved" and engine.fetch_job(MAIL, b"due") is None
    (outcome,) = engine.apply_verb("reserve", MAIL, (), {"limit": 10, "worker": "w"})
    assert outcome.moved == 1
    assert act("delete", "reserved") == "reserved"
    assert act("delete", "reserved", force=True) == "moved"


def test_a_body_without_a_place_is_shown_and_repaired_by_id(client: Redis) -> None:
    client.hset(KEYS["jobs"], "lost", "body")
    engine = Engine(client, [registry.create_system("redisched:topic=mail,unit=ms")])
    job = engine.fetch_job(MAIL, b"lost")
    assert job is not None and "no place" in job.problem
    assert engine.apply_verb("repair", MAIL, [job])[0].word == "moved"
    assert engine.fetch_job(MAIL, b"lost").place == "due"


# ── reaping ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_reaping_leaves_leases_that_are_not_over_and_reports_when_the_next_is(any_client: Redis) -> None:
    plant_job(any_client, "reserved", "live", NOW + 1500)
    plant_job(any_client, "expired", "over", NOW)
    answer = run_script(any_client, "reap", limit=10)
    assert (answer.word, answer.values) == ("moved", {"moved": 1, "ready": 1, "dead": 0, "next_ms": 1500})
    assert (list_ids(any_client, "due"), any_client.zrange(KEYS["reserved"], 0, -1)) == ([b"over"], [b"live"])
    assert run_script(any_client, "reap", limit=10).values == {"next_ms": 1500}


@pytest.mark.parametrize("verb", ["pull", "reserve"])
def test_where_nothing_is_due_it_is_reported_when_the_next_is_in_either_unit(any_client: Redis, verb: str) -> None:
    assert run_script(any_client, verb, limit=1).values["next_ms"] == -1
    for id, score, next_ms in (("ms", NOW + 9000, 9000), ("s", NOW / 1000 + 7.5, 7500), ("sooner", NOW + 1, 1)):
        plant_job(any_client, "queued", id, score)
        answer = run_script(any_client, verb, limit=1)
        assert (answer.word, answer.values["next_ms"]) == ("empty", next_ms)
    any_client.delete(KEYS["queued"])
    plant_job(any_client, "queued", "s", NOW / 1000 + 7.5)
    assert run_script(any_client, verb, limit=1).values["next_ms"] == 7500


def test_how_often_leases_expired_is_kept_for_a_thousand_ids_at_most(client: Redis) -> None:
    for n in range(1500):
        plant_job(client, "expired", f"j{n}", NOW - 5000)
    client.zadd(KEYS["expiries"], {"worst": 9, "gone": 7})
    plant_job(client, "due", "worst", NOW - 5000)
    for _ in range(2):
        run_script(client, "reap", limit=1000)
    assert client.zcard(KEYS["expiries"]) <= 1000
    assert client.zscore(KEYS["expiries"], "worst") == 9
    client.zadd(KEYS["expiries"], {f"j{n}": 5 for n in range(1500)})
    plant_job(client, "expired", "j", NOW)
    run_script(client, "reap", limit=1)
    assert client.zcard(KEYS["expiries"]) == 1000


def test_a_reap_counts_a_hundred_expired_leases_and_forgets_up_to_21_deleted_jobs(client: Redis) -> None:
    for n in range(101):
        plant_job(client, "expired", f"j{n:03}", NOW - 5000)
    assert run_script(client, "reap", limit=1000).values["moved"] == 101
    assert client.zrange(KEYS["expiries"], 0, -1) == [b"j%03d" % n for n in range(100)]
    client.zadd(KEYS["expiries"], {f"deleted{n}": -n for n in range(60)})
    plant_job(client, "expired", "j000", NOW - 5000)
    run_script(client, "reap", limit=1, now_ms=NOW // 160 * 160)  # begins at the first of 160
    assert client.zcard(KEYS["expiries"]) == 160 - 21


def test_keys_of_rqtui_beside_a_topic_are_no_queue(client: Redis) -> None:
    plant_job(client, "due", "a", NOW - 5)
    client.zadd(KEYS["expiries"], {"a": 1})
    engine = build_engine(client, [registry.create_system("native"), registry.create_system("redisched")])
    assert engine.refs == [MAIL]


# ── findings and their remedies, as they are typed ───────────────────────────────────────────────────────────


def remedies(client: Redis, url: str, kind: str) -> list[str]:
    """Return the fixes that `rqtui health` prints for a kind of finding."""
    found = shell(url, "health", "redisched:mail", "--json").json["findings"]
    return [each["remedy"] for each in found if each["kind"] == kind]


def run_remedy(url: str, remedy: str, *more: str) -> int:
    """Run the command at the beginning of a fix and return its exit code."""
    return shell(url, *shlex.split(remedy.partition(" makes ")[0])[1:], *more, "--yes").code


@pytest.mark.parametrize("scores", [{}, {"other": 5}, {"s": 1.9e9, "ms": 1.9e12}], ids=["none", "low", "mixed"])
def test_the_remedy_of_a_lost_job_names_the_unit_where_no_score_shows_it(
    scores: dict[str, float], client: Redis, url: str
) -> None:
    for id, score in scores.items():
        plant_job(client, "queued", id, score)
    for unit in ("ms", "s"):
        client.hset(KEYS["jobs"], "it's lost", "body")
        (remedy,) = remedies(client, url, "no-place")
        assert "redisched:unit=ms" in remedy and "unit=s " in remedy
        assert run_remedy(url, remedy.replace("unit=ms", f"unit={unit}", 1)) == 0
        assert (client.zscore(KEYS["queued"], "it's lost") >= 1e11) == (unit == "ms")
        client.zrem(KEYS["queued"], "it's lost")


def test_the_remedy_of_a_lost_job_keeps_the_other_options_of_its_topic(client: Redis, url: str) -> None:
    client.hset(KEYS["jobs"], "lost", "body")
    spec = "redisched:topic=mail,ttr_ms=5000"
    findings = shell(url, "--system", spec, "health", "mail", "--json").json["findings"]
    (found,) = [each for each in findings if each["kind"] == "no-place"]
    assert "unit=ms" in found["remedy"] and "ttr_ms=5000" in found["remedy"]
    assert run_remedy(url, found["remedy"]) == 0 and client.zscore(KEYS["queued"], "lost") >= 1e11


def test_the_remedy_of_a_lost_job_needs_no_option_where_a_score_shows_the_unit(client: Redis, url: str) -> None:
    plant_job(client, "queued", "other", 1.9e9)
    client.hset(KEYS["jobs"], "lost", "body")
    client.zadd(KEYS["reserved"], {"other": float("inf")})  # of no unit
    (remedy,) = remedies(client, url, "no-place")
    assert "unit" not in remedy and run_remedy(url, remedy) == 0
    assert 0 < client.zscore(KEYS["queued"], "lost") < 1e11


@pytest.mark.slow
@run_in_one_test("others", [{}, {"x": 1.9e9}, {"x": 1.9e12}], ids=["alone", "s", "ms"])
@run_in_one_test(
    ("place", "score"),
    [("queued", -4), ("queued", float("-inf")), ("queued", float("inf")), ("reserved", float("inf"))],
)
def test_the_remedy_of_a_score_that_is_no_time_makes_the_job_due_for_everybody(
    place: str, score: float, others: dict[str, float], client: Redis, url: str
) -> None:
    plant_job(client, place, "neg", score)
    for id, at in others.items():
        plant_job(client, "queued", id, at)
    (remedy,) = remedies(client, url, "never-due")
    assert "neg" in remedy and run_remedy(url, remedy) == 0
    due = client.zscore(KEYS["queued"], "neg")
    assert due > 0 and (due >= 1e11) == (others.get("x", 0) >= 1e11), "the unit of the others"
    assert Engine(client, [registry.create_system("redisched:topic=mail")]).fetch_job(MAIL, b"neg").place == "due"
    assert remedies(client, url, "never-due") == remedies(client, url, "mixed-units") == []


def test_a_lease_that_never_ends_is_reported_and_can_be_deleted(client: Redis, url: str) -> None:
    plant_job(client, "reserved", "n", float("inf"))
    plant_job(client, "reserved", "m", NOW + HOUR)
    ran = shell(url, "health", "redisched:mail")
    assert f"1 job in {KEYS['reserved']} with a lease that never expires, such as n" in ran.out and ran.code == 1
    assert shell(url, "act", "delete", "redisched:mail", "n", "--force", "--yes").code == 0
    assert client.zrange(KEYS["reserved"], 0, -1) == [b"m"] and client.hkeys(KEYS["jobs"]) == [b"m"]
    assert remedies(client, url, "never-due") == []


def test_a_topic_with_a_finding_is_not_called_unknown(client: Redis, url: str) -> None:
    assert "nothing is known" in shell(url, "health", "redisched:mail").err
    client.hset(KEYS["jobs"], "lost", "body")
    ran = shell(url, "health", "redisched:mail")
    assert ran.code == 2 and "nothing is known" not in ran.err


@pytest.mark.parametrize("place", ["due", "reserved", "jobs"])
def test_a_body_of_a_megabyte_is_reported(place: str, any_client: Redis) -> None:
    def list_oversized_findings() -> list[tuple[str, bytes, str]]:
        findings = Engine(any_client, [registry.create_system("redisched:topic=mail")]).collect_findings([MAIL])
        return [(one.keys[0], one.ids[0], one.text) for one in findings if one.kind == "oversized"]

    for id, size in (("a", 2**20 - 1), ("b", 2**20)):
        assert list_oversized_findings() == []
        any_client.hset(KEYS["jobs"], id, b"x" * size)
        if place != "jobs":
            any_client.zadd(build_key(place), {id: NOW})
    ((where, id, text),) = list_oversized_findings()
    assert (where, id) == (KEYS["jobs"], b"b") and "1 checked body in" in text and "such as b:" in text
