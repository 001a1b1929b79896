"""Many queues counted by one script: the same as one by one, in one trip; one that cannot be read spoils no other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import fuzz_databases
import fuzzing
import pytest
from aging import move_queue_into_past
from native_jobs import HOUR, NOW
from proxy import Proxy
from redis import Redis

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine import counts
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import ScriptError, ServerError, Unreachable
from rqtui.model import Focus, Ref
from rqtui.model import Queue as Counted
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.system_base.system import Request
from rqtui.systems import native, registry

TALLY = scripts.load_scripts("shared")["tally"]
COUNTS = scripts.load_scripts("native")["counts"]
MANY = 120


def tally(client: Redis, *queues: str, now_ms: int = NOW) -> Reply:
    every = [build_queue_keys(queue) for queue in queues]
    each = [[named[key.name] for key in TALLY.keys_each] for named in every]
    return scripts.run_call(client, TALLY.build_call({}, {"now_ms": now_ms}, each_keys=each))


def one_by_one(client: Redis, queue: str, now_ms: int = NOW) -> Counted:
    return native._parse_queue(
        queue, scripts.run_call(client, COUNTS.build_call(build_queue_keys(queue), {"now_ms": now_ms}))
    )


def together(client: Redis, queue: str, *others: str, now_ms: int = NOW) -> Counted:
    answer = tally(client, *others, queue, now_ms=now_ms)
    return native._build_queue(queue, now_ms, native._store_tally_row(native._CountedQueue(), answer.rows[-1]))


def plant_queues(client: Redis, number: int) -> Engine:
    for at in range(number):
        Queue(f"q{at:03}", client).put_many([""] * (1 + at % 3), delay="1h" if at % 2 else None)
    return build_engine(client, [registry.create_system("native")])


def alone(client: Redis, engine: Engine) -> list[Counted]:
    return [engine.send_request(engine.systems[ref.system].queue_request(ref.queue)) for ref in engine.refs]


def numbers(queues: tuple[Counted, ...] | list[Counted]) -> list[object]:
    """Return the values of queues that do not change with the time of the refresh."""
    return [
        (queue.name, queue.counts, queue.counters, queue.is_paused, queue.workers, queue.overdue) for queue in queues
    ]


def test_a_report_to_many_equals_the_report_to_each(any_client: Redis) -> None:
    mail, slow = Queue("mail", any_client), Queue("slow", any_client)
    mail.put_many(["a", "b", "c"])
    mail.put("later", delay="1h")
    mail.reserve(1, worker="w")
    mail.pause()
    slow.put("x", delay="5s")
    now_ms = one_by_one(any_client, "mail").counted_ms + HOUR * 1000
    for queue in ("mail", "slow", "none"):
        for at_ms in (NOW, now_ms):
            assert together(any_client, queue, "mail", "slow", now_ms=at_ms) == one_by_one(any_client, queue, at_ms)
    assert [row[:5] for row in tally(any_client, "mail", "slow", "none").rows] == [
        (1, 2, 1, 0, 0),
        (1, 0, 0, 0, 0),
        (0, 0, 0, 0, 0),
    ]


@fuzzing.parametrize_cases(30)
def test_both_counting_scripts_agree_with_any_content_of_the_keys(cases: int, client: Redis) -> None:
    found = fuzz_databases.build_seeds("native", client)
    words = fuzz_databases.collect_words(found)
    with fuzzing.print_figures("tally", cases) as seen:
        for number in range(cases):
            source = random.Random(f"tally {number}")
            fuzz_databases.replace_database(
                client, fuzz_databases.damage_database(source, source.choice(found).database, words)
            )
            now_ms = NOW + source.choice((0, -HOUR, HOUR, 1))
            try:
                expected = one_by_one(client, "mail", now_ms)
            except (ServerError, ScriptError) as error:
                with pytest.raises(type(error)):
                    together(client, "mail", "other", now_ms=now_ms)
                seen["errors"] += 1
                continue
            assert together(client, "mail", "other", now_ms=now_ms) == expected, f"database {number}"
            seen["counted"] += 1


def test_a_hundred_queues_are_counted_in_one_trip_and_few_calls(client: Redis) -> None:
    engine = plant_queues(client, MANY)
    first, second = engine.take_snapshot(), engine.take_snapshot()
    assert len(first.queues) == MANY and (first.cost.round_trips, first.cost.commands) == (1, 3)
    assert numbers(first.queues) == numbers(second.queues) == numbers(alone(client, engine))
    Queue("q007", client).put("new")
    third = engine.take_snapshot()
    changed = [new.name for old, new in zip(second.queues, third.queues, strict=True) if old.counts != new.counts]
    assert changed == ["q007"]


VERBS: dict[str, Callable[[Queue, random.Random], object]] = {
    "put": lambda queue, source: queue.put("x", priority=source.choice((0, 1))),
    "put later": lambda queue, source: queue.put("x", delay="1h"),
    "pull": lambda queue, source: queue.pull(1),
    "reserve": lambda queue, source: queue.reserve(1, worker="w"),
    "finish": lambda queue, source: queue.ack_many(queue.reserve(1)),
    "give back": lambda queue, source: [job.release() for job in queue.reserve(1)],
    "put and delete": lambda queue, source: (queue.put("x", id="gone"), queue.delete("gone")),
    "put and take back": lambda queue, source: (queue.put("x", id="late", delay="1h"), queue.delete("late")),
    "delete another": lambda queue, source: (queue.put("x", id="last", priority=9), queue.delete("last")),
    "put a last one": lambda queue, source: queue.put("x", id="stays", priority=9),
    "delete the last one": lambda queue, source: queue.delete("stays"),
    "pause": lambda queue, source: queue.pause(),
    "resume": lambda queue, source: queue.resume(),
    "nothing": lambda queue, source: None,
}


def test_an_idle_queue_is_reported_once_and_every_change_at_once(client: Redis) -> None:
    """The counts by stamps equal the counts of one script per queue, whatever was done between two refreshes."""
    source = random.Random(5)
    queues = [Queue(f"q{at}", client) for at in range(6)]
    for queue in queues:
        queue.put_many(["a", "b"])
    engine = build_engine(client, [registry.create_system("native")])
    engine.take_snapshot()
    for step in range(150):
        done = [source.choice([*VERBS]) for _ in range(source.choice((1, 1, 3)))]
        queue = source.choice(queues)
        for verb in done:
            VERBS[verb](queue, source)
        if source.random() < 0.1:
            client.delete(
                *(build_queue_keys(queue.name)[name] for name in ("scheduled", "reserved", "done", "dead", "workers"))
            )
        assert numbers(engine.take_snapshot().queues) == numbers(alone(client, engine)), (
            f"step {step}: {queue.name} {done}"
        )


def test_another_job_at_the_head_is_reported_though_as_many_wait(client: Redis) -> None:
    mail, other = Queue("mail", client), Queue("other", client)
    mail.put("old", id="old")
    other.put("x")
    move_queue_into_past(client, "mail", 60_000)
    mail.put("young", id="young")
    engine = build_engine(client, [registry.create_system("native")])
    ref = Ref("native", "mail")
    assert [engine.take_snapshot().queues[0].oldest_ready_ms >= 60_000 for _ in range(2)] == [True, True]  # type: ignore[operator]
    young = [job for job in engine.fetch_page(ref, "ready").jobs if job.id == b"young"]
    assert [one.word for one in engine.apply_verb("bump", ref, young)] == ["changed"]
    assert engine.take_snapshot().queues[0].oldest_ready_ms < 60_000  # type: ignore[operator]


def test_a_poll_of_idle_queues_sends_four_commands_for_each(client: Redis) -> None:
    for at in range(100):
        Queue(f"q{at:03}", client).put("x")
    engine = build_engine(client, [registry.create_system("native")])
    first = engine.take_snapshot()
    spent = []
    for _look in range(2 * native.FULL_COUNT_POLLS):
        client.config_resetstat()
        again = engine.take_snapshot()
        assert numbers(again.queues) == numbers(first.queues)
        assert all(
            new.oldest_ready_ms >= old.oldest_ready_ms for new, old in zip(again.queues, first.queues, strict=True)
        )  # type: ignore[operator]
        command_statistics = client.info("commandstats")
        spent.append(
            {
                name: command_statistics.get(f"cmdstat_{name}", {}).get("calls", 0)
                for name in ("zrange", "exists", "hmget", "hget")
            }
        )
    calm, whole = (
        {"zrange": 100, "exists": 100, "hmget": 100, "hget": 0},
        {"zrange": 100, "exists": 100, "hmget": 100, "hget": 200},
    )
    assert all(take_counts["hget"] in (0, 100, 200) for take_counts in spent), (
        "fifty queues per call, told whole in turn"
    )
    assert sum(take_counts == calm for take_counts in spent) >= 2 * native.FULL_COUNT_POLLS - 4 and whole not in spent


def test_a_queue_that_was_at_rest_and_moves_is_counted_in_a_second_trip(client: Redis) -> None:
    mail, other = Queue("mail", client), Queue("other", client)
    for queue in (mail, other):
        queue.put("x")
    engine = build_engine(client, [registry.create_system("native")])
    ref = Ref("native", "mail")

    def take_counts() -> tuple[int, int]:
        found = engine.take_snapshot()
        assert numbers(found.queues) == numbers(alone(client, engine))
        return found.cost.round_trips, next(
            queue.count_in_place("reserved") for queue in found.queues if queue.name == ref.queue
        )

    looks = [take_counts(), take_counts()]
    [job] = mail.reserve(1, ttr="1h")
    looks += [take_counts(), take_counts()]
    job.ack()
    mail.put("x")
    looks += [take_counts(), take_counts()]
    assert looks == [(1, 0), (1, 0), (2, 1), (1, 1), (1, 0), (1, 0)], "who moved is counted at once in the next looks"


def test_what_is_known_of_queues_at_rest_holds_when_the_trip_that_counts_the_others_fails(
    client: Redis, url: str
) -> None:
    for name in ("a", "b", "c"):
        Queue(name, client).put("x")
    with Proxy(url) as proxy:
        engine = build_engine(connect(proxy.url, timeout_s=2), [registry.create_system("native")])
        before = engine.take_snapshot()
        Queue("b", client).put("y")
        proxy.fail("cut before", "EVALSHA")
        with pytest.raises(Unreachable):
            engine.take_snapshot()
        assert numbers(engine.take_snapshot().queues) == numbers(alone(client, engine)) != numbers(before.queues)


def test_a_manual_change_without_a_new_stamp_is_shown_within_twenty_seconds(client: Redis) -> None:
    for name in ("a", "b"):
        Queue(name, client).put("x")
    engine = build_engine(client, [registry.create_system("native")])
    engine.take_snapshot()
    client.hset(build_queue_keys("a")["meta"], "acked", 7)
    looks = [engine.take_snapshot() for _ in range(native.FULL_COUNT_POLLS)]
    assert looks[-1].queues[0].counters["out"] == 7


def test_a_key_of_another_type_is_reported_for_its_queue_and_the_others_are_counted(client: Redis) -> None:
    engine = plant_queues(client, MANY)
    client.delete(build_queue_keys("q060")["dead"])
    client.set(build_queue_keys("q060")["dead"], "somebody's")
    found = engine.take_snapshot()
    assert [queue.name for queue in found.queues if queue.error] == ["q060"]
    assert found.queues[60].findings[0].keys == (build_queue_keys("q060")["dead"],)
    assert found.cost.round_trips == 2
    again = engine.take_snapshot()
    at_rest = 25  # of the first fifty, which are still counted together; half of them have a delayed job
    assert again.cost.round_trips == 1
    assert again.cost.commands == 1 + 4 * at_rest + 4, "the time, the first fifty, the next, the last, and q060 apart"
    assert numbers(again.queues) == numbers(found.queues)


def test_after_half_a_minute_all_are_counted_together_again(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = plant_queues(client, 3)
    client.set(build_queue_keys("q001")["dead"], "somebody's")
    engine.take_snapshot()
    client.delete(build_queue_keys("q001")["dead"])
    assert engine.take_snapshot().cost.commands == 2
    monkeypatch.setattr(engine._counting, "_alone_until_s", 0.0)
    found = engine.take_snapshot()
    assert found.cost.commands == 1 and not any(queue.error for queue in found.queues)


def test_a_user_with_rights_on_one_queue_of_many_sees_it(client: Redis, narrow: Redis) -> None:
    refs = plant_queues(client, 3).refs
    engine = Engine(narrow, [registry.create_system("native")])
    engine.refs = refs
    for trips in (2, 1):
        found = engine.take_snapshot()
        assert [bool(queue.error) for queue in found.queues] == [False, True, True]
        assert found.cost.round_trips == trips


def test_a_redis_that_is_away_is_asked_once() -> None:
    with connect("redis://127.0.0.1:1") as nobody:
        engine = Engine(nobody, [registry.create_system("native")])
        engine.refs = [Ref("native", "a"), Ref("native", "b")]
        with pytest.raises(Unreachable):
            engine.take_snapshot()
        assert not engine._counting._refs_counted_alone


def test_calls_are_kept_for_queues_that_are_counted_in_turn_and_not_without_end(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "MAX_CACHED_REQUESTS", 3)
    engine = plant_queues(client, 12)
    turns = [tuple(engine.refs[at : at + 2]) for at in range(0, 12, 2)]
    for turn in (*turns, *turns[-3:]):
        assert [queue.name for queue in engine.take_snapshot(Focus(turn)).queues] == [ref.queue for ref in turn]
    assert list(engine._counting._shared_requests) == turns[-3:]


def test_queues_that_appear_and_disappear_are_searched_again(client: Redis) -> None:
    engine = plant_queues(client, 3)
    engine.take_snapshot()
    engine.refs = [*engine.refs[:2], Ref("native", "other")]
    assert [queue.name for queue in engine.take_snapshot().queues] == ["q000", "q001", "other"]
    assert len(engine._counting._groups) == 1


def test_more_queues_than_a_part_are_counted_in_several_trips(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.engine.engine.QUEUES_PER_ROUND_TRIP", 3)
    engine = Engine(client, [registry.create_system("native")])
    engine.refs = [Ref("native", f"q{at}") for at in range(8)]
    for at, ref in enumerate(engine.refs):
        Queue(ref.queue, client).put_many(["x"] * at)
    for _ in range(3):
        found = engine.take_snapshot()
        assert [queue.count_in_place("ready") for queue in found.queues] == [*range(8)]
        assert found.map_queues_by_ref().keys() == {*engine.refs} and list(found.refs) == engine.refs
        assert found.cost.round_trips >= 3


@pytest.mark.parametrize(
    ("is_answered", "counted", "may_fail"), [(False, 0, False), (True, 0, True), (False, 1, True), (True, 1, True)]
)
def test_a_recount_of_queues_may_fail_only_if_the_server_answered_anything(
    is_answered: bool, counted: int, may_fail: bool
) -> None:
    refs = [Ref("native", "mail"), Ref("dispatcher", "readytasklist")]
    counter = counts.QueueCounter({ref.system: registry.create_system(ref.system) for ref in refs})
    requests = counter.build_requests(None, refs)
    assert len(requests) == 2
    results: list[Any] = [[Counted(refs[0].queue, refs[0].system)] if counted else None, None]
    sent: list[Request[Any]] = []

    def send_requests(asked: Sequence[Request[Any]]) -> list[Any]:
        sent.extend(asked)
        return [Counted("recounted", "native") for _request in asked]

    queues, _trips = counter.collect_counts(results, send_requests, is_answered)
    assert [request.may_fail for request in sent] == [may_fail] * (2 - counted) and len(queues) == 2


def test_a_queue_is_counted_alone_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, now_s = Ref("native", "mail"), [1000.0]
    monkeypatch.setattr(counts, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    counter = counts.QueueCounter({"native": registry.create_system("native")})
    counter.build_requests(None, [ref])
    counter.collect_counts([None], lambda _requests: [Counted("mail", "native", (), 0)], is_answered=True)
    alone = []
    for at_s in (1000.0, 1029.9, 1030.0):
        now_s[0] = at_s
        counter.build_requests(None, [ref])
        alone.append(bool(counter._refs_counted_alone))
    assert alone == [True, True, False]
