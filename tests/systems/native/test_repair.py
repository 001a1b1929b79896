"""`check` sees every kind of damage and `repair` mends it; afterwards check finds nothing, and no sound job changed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from families import in_one
from native_jobs import HOUR, NOW, PLACES, ask, facts, history, key, line, members, places_of, plant_job, words
from native_subject import plant
from redis import Redis

from rqtui.testing.keyspace import dump

Damage = Callable[[Redis], object]


def found(client: Redis, limit: int = 10) -> dict[bytes, set[str]]:
    """What a whole walk of check finds: kinds by id."""
    findings: dict[bytes, set[str]] = {}
    walk, cursor, word = "scheduled", "0", "more"
    while word == "more":
        answer = ask(client, "check", walk=walk, cursor=cursor, limit=limit)
        word, walk, cursor = answer.word, answer.values["walk"], answer.values["cursor"]
        for id, kind, _where in answer.rows:
            findings.setdefault(id, set()).add(kind)
    return findings


def also_in(*places: str) -> Damage:
    """A second place, as a crash between put and take leaves it."""
    return lambda client: [client.zadd(key(place), {b"x": NOW + n}) for n, place in enumerate(places)]


def without(*hashes: str) -> Damage:
    return lambda client: [client.hdel(key(name), b"x") for name in hashes]


def with_value(name: str, value: bytes) -> Damage:
    return lambda client: client.hset(key(name), b"x", value)


def nowhere(client: Redis) -> None:
    for place in PLACES:
        client.zrem(key(place), b"x")


DAMAGES: list[tuple[str, str, Damage, str, str]] = [  # name, place before, damage, kind, place after
    ("ready and reserved", "reserved", also_in("ready"), "two_places", "reserved"),
    ("scheduled and ready", "ready", also_in("scheduled"), "two_places", "ready"),
    ("reserved and scheduled", "reserved", also_in("scheduled"), "two_places", "reserved"),
    ("reserved and dead", "reserved", also_in("dead"), "two_places", "dead"),
    ("reserved and done", "reserved", also_in("done"), "two_places", "done"),
    ("ready and dead", "dead", also_in("ready"), "two_places", "dead"),
    ("everywhere", "ready", also_in(*PLACES), "two_places", "dead"),
    ("nowhere, waiting", "ready", nowhere, "no_place", "ready"),
    ("nowhere, with a lease", "reserved", nowhere, "no_place", "ready"),
    ("nowhere, with errors", "dead", nowhere, "no_place", "ready"),
    ("scheduled, no record", "scheduled", without("jobs"), "corrupt_record", ""),
    ("ready, no record", "ready", without("jobs"), "corrupt_record", ""),
    ("reserved, no record", "reserved", without("jobs"), "corrupt_record", ""),
    ("dead, no record", "dead", without("jobs"), "corrupt_record", ""),
    ("ready, garbage", "ready", with_value("jobs", b"garbage"), "corrupt_record", "dead"),
    ("reserved, garbage", "reserved", with_value("jobs", b"garbage"), "corrupt_record", "dead"),
    ("done, garbage", "done", with_value("jobs", b"garbage"), "corrupt_record", "dead"),
    ("ready, no long body", "ready", without("bodies"), "corrupt_record", "dead"),
    ("reserved, no attempts", "reserved", without("attempts"), "corrupt_record", "ready"),
    ("reserved, garbled attempts", "reserved", with_value("attempts", b"one two"), "corrupt_record", "ready"),
    ("ready, garbled attempts", "ready", with_value("attempts", b"one two"), "corrupt_record", "ready"),
    ("dead, garbled attempts", "dead", with_value("attempts", b"one two"), "corrupt_record", "dead"),
]  # fmt: skip


def plant_broken(client: Redis, place: str) -> None:
    """Sound neighbours everywhere, and `x` with a long body, attempts and a history."""
    for name in PLACES:
        plant(client, name, [b"%s-%d" % (name.encode(), n) for n in range(3)], False)
    score = 50 if place == "ready" else NOW + HOUR
    errors = history("boom") if place == "dead" else None
    plant_job(client, place, b"x", score, b"y" * 5000, line(1, "7", 50), errors)
    assert found(client) == {}


@in_one(("place", "damage", "kind", "after"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
def test_check_finds_the_damage_and_repair_mends_it(
    server_client: Redis, place: str, damage: Damage, kind: str, after: str
) -> None:
    client = server_client
    plant_broken(client, place)
    neighbours = {id: facts(client, id) for name in PLACES for id in members(client, name) if id != b"x"}
    damage(client)
    before = dump(client)
    findings = found(client)
    assert dump(client) == before, "check reads only"
    assert findings == {b"x": {kind}}
    answer = ask(client, "repair", [(b"x",)])
    assert words(answer) == ["moved"]
    assert places_of(client, b"x") == ([after] if after else [])
    assert found(client) == {}
    assert {id: facts(client, id) for id in neighbours} == neighbours
    if not after:
        assert facts(client, b"x") == {}
    assert words(ask(client, "repair", [(b"x",)])) == (["fine"] if after else ["gone"])


@pytest.mark.parametrize("name", ["bodies", "attempts", "errors"])
def test_a_line_that_belongs_to_nobody_is_found_and_dropped(server_client: Redis, name: str) -> None:
    server_client.hset(key(name), b"x", b"left over")
    assert found(server_client) == {b"x": {"orphan_line"}}
    assert ask(server_client, "repair", [(b"x",)]).each[0].values == {"place": ""}
    assert facts(server_client, b"x") == {}


def test_a_job_that_was_in_none_runs_again_with_its_priority_and_its_attempts(server_client: Redis) -> None:
    client = server_client
    plant(client, "ready", [b"a"], False)
    plant_job(client, "ready", b"x", 1, attempts=line(3, "7", 50, priority="-2"))
    client.zrem(key("ready"), b"x")
    ask(client, "repair", [(b"x",)])
    assert members(client, "ready") == [b"x", b"a"]
    assert ask(client, "reserve", limit=1).rows[0][2] == 4


def test_a_done_id_without_a_body_is_no_damage(server_client: Redis) -> None:
    plant_job(server_client, "done", b"x", NOW + HOUR, attempts=line(1, "7"))
    server_client.hdel(key("jobs"), b"x")
    assert found(server_client) == {}
    assert words(ask(server_client, "repair", [(b"x",)])) == ["fine"]


def test_check_walks_a_large_queue_in_bounded_steps(client: Redis) -> None:
    ask(client, "enqueue", [{"id": b"%d" % n, "body": b"{}"} for n in range(1000)])
    client.zadd(key("dead"), {b"77": NOW})
    assert found(client, limit=100) == {b"77": {"two_places"}}
    assert ask(client, "check", walk="ready", cursor="0", limit=100).values["checked"] < 400


def test_a_job_whose_record_cannot_be_read_is_dead_with_that_reason_and_no_other_gets_one(any_client: Redis) -> None:
    for id in (b"garbled", b"kept", b"twice"):
        plant_job(any_client, "dead" if id == b"kept" else "ready", id, 1, errors=history("boom"))
    any_client.hset(key("jobs"), b"garbled", b"garbage")
    any_client.hset(key("attempts"), b"kept", b"one two")
    any_client.zadd(key("scheduled"), {b"twice": NOW})
    ask(any_client, "repair", [(b"garbled",), (b"kept",), (b"twice",)], now_ms=NOW)
    reasons = {id: any_client.hget(key("errors"), id) for id in (b"garbled", b"kept", b"twice")}
    assert json.loads(reasons.pop(b"garbled") or b"") == [[NOW, NOW, "", "the record of this job cannot be read"]]
    assert set(reasons.values()) == {history("boom")}
    assert any_client.zscore(key("dead"), b"garbled") == NOW
