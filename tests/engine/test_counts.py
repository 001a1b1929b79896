"""Many queues counted by one script: the same as one by one, in one trip; one that cannot be read spoils no other."""

from __future__ import annotations

import random

import fuzz_worlds
import fuzzing
import pytest
from native_jobs import HOUR, NOW
from redis import Redis

from rqtui.client.native_keys import keys
from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine import counts
from rqtui.engine.engine import Engine, with_layouts
from rqtui.errors import ScriptError, ServerError, Unreachable
from rqtui.model import Focus, Ref
from rqtui.model import Queue as Counted
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer
from rqtui.systems import native, registry

TALLY = scripts.load("shared")["tally"]
COUNTS = scripts.load("native")["counts"]
MANY = 120


def tally(client: Redis, *queues: str, now_ms: int = NOW) -> Answer:
    every = [keys(queue) for queue in queues]
    each = [[named[key.name] for key in TALLY.keys_each] for named in every]
    return scripts.run(client, TALLY.call({}, {"now_ms": now_ms}, each_keys=each))


def one_by_one(client: Redis, queue: str, now_ms: int = NOW) -> Counted:
    return native._queue(queue, scripts.run(client, COUNTS.call(keys(queue), {"now_ms": now_ms})))


def together(client: Redis, queue: str, *others: str, now_ms: int = NOW) -> Counted:
    answer = tally(client, *others, queue, now_ms=now_ms)
    return native._counted(queue, now_ms, answer.rows[-1], native._Counted())


def planted(client: Redis, number: int) -> Engine:
    for at in range(number):
        Queue(f"q{at:03}", client).put_many([""] * (1 + at % 3), delay="1h" if at % 2 else None)
    return with_layouts(client, [registry.make("native")])


def alone(client: Redis, engine: Engine) -> list[Counted]:
    return [engine.ask(engine.layouts[ref.layout].queue_ask(ref.queue)) for ref in engine.refs]


def numbers(queues: tuple[Counted, ...] | list[Counted]) -> list[object]:
    """What does not change with the time of the look."""
    return [(queue.name, queue.counts, queue.counters, queue.paused, queue.workers, queue.overdue) for queue in queues]


def test_what_many_are_told_is_what_each_is_told(any_client: Redis) -> None:
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


@fuzzing.forms(60)
def test_whatever_the_keys_hold_it_counts_what_the_script_of_one_queue_counts(cases: int, client: Redis) -> None:
    found = fuzz_worlds.seeds("native", client)
    known = fuzz_worlds.words(found)
    with fuzzing.figures("tally", cases) as seen:
        for number in range(cases):
            source = random.Random(f"tally {number}")
            fuzz_worlds.plant(client, fuzz_worlds.damage(source, source.choice(found).world, known))
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
    engine = planted(client, MANY)
    first, second = engine.snapshot(), engine.snapshot()
    assert len(first.queues) == MANY and (first.cost.trips, first.cost.commands) == (1, 3)
    assert numbers(first.queues) == numbers(second.queues) == numbers(alone(client, engine))
    Queue("q007", client).put("new")
    third = engine.snapshot()
    changed = [new.name for old, new in zip(second.queues, third.queues, strict=True) if old.counts != new.counts]
    assert changed == ["q007"]


def test_a_key_of_another_type_is_told_of_its_queue_and_the_others_are_counted(client: Redis) -> None:
    engine = planted(client, MANY)
    client.delete(keys("q060")["dead"])
    client.set(keys("q060")["dead"], "somebody's")
    found = engine.snapshot()
    assert [queue.name for queue in found.queues if queue.error] == ["q060"]
    assert found.queues[60].findings[0].keys == (keys("q060")["dead"],)
    assert found.cost.trips == 2
    again = engine.snapshot()
    assert (again.cost.trips, again.cost.commands) == (1, 4), "q060 is asked apart, the others together"
    assert numbers(again.queues) == numbers(found.queues)


def test_after_half_a_minute_all_are_counted_together_again(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = planted(client, 3)
    client.set(keys("q001")["dead"], "somebody's")
    engine.snapshot()
    client.delete(keys("q001")["dead"])
    assert engine.snapshot().cost.commands == 2
    monkeypatch.setattr(engine._counting, "_until_s", 0.0)
    found = engine.snapshot()
    assert found.cost.commands == 1 and not any(queue.error for queue in found.queues)


def test_who_may_see_one_queue_of_many_sees_it(client: Redis, narrow: Redis) -> None:
    refs = planted(client, 3).refs
    engine = Engine(narrow, [registry.make("native")])
    engine.refs = refs
    for trips in (2, 1):
        found = engine.snapshot()
        assert [bool(queue.error) for queue in found.queues] == [False, True, True]
        assert found.cost.trips == trips


def test_a_redis_that_is_away_is_asked_once() -> None:
    with connect("redis://127.0.0.1:1") as nobody:
        engine = Engine(nobody, [registry.make("native")])
        engine.refs = [Ref("native", "a"), Ref("native", "b")]
        with pytest.raises(Unreachable):
            engine.snapshot()
        assert not engine._counting._apart


def test_calls_are_kept_for_queues_that_are_counted_in_turn_and_not_without_end(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "KEPT", 3)
    engine = planted(client, 12)
    turns = [tuple(engine.refs[at : at + 2]) for at in range(0, 12, 2)]
    for turn in (*turns, *turns[-3:]):
        assert [queue.name for queue in engine.snapshot(Focus(turn)).queues] == [ref.queue for ref in turn]
    assert list(engine._counting._together) == turns[-3:]


def test_queues_that_come_and_go_are_asked_anew(client: Redis) -> None:
    engine = planted(client, 3)
    engine.snapshot()
    engine.refs = [*engine.refs[:2], Ref("native", "other")]
    assert [queue.name for queue in engine.snapshot().queues] == ["q000", "q001", "other"]
    assert counts.TOGETHER >= 3 and len(engine._counting._groups) == 1
