"""Test that `check` finds every kind of damage and `repair` fixes it without changing an undamaged job."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from families import run_in_one_test
from native_jobs import (
    HOUR,
    NOW,
    PLACES,
    build_attempts_line,
    build_error_history,
    build_key,
    find_places,
    list_ids,
    plant_job,
    read_facts,
    read_outcomes,
    run_script,
)
from native_subject import plant_jobs
from redis import Redis

from rqtui.testing.keyspace import dump

Damage = Callable[[Redis], object]


def find_problems(client: Redis, limit: int = 10) -> dict[bytes, set[str]]:
    """Return the kinds of problems by id that a whole walk of `check` finds."""
    findings: dict[bytes, set[str]] = {}
    walk, cursor, word = "scheduled", "0", "more"
    while word == "more":
        answer = run_script(client, "check", walk=walk, cursor=cursor, limit=limit)
        word, walk, cursor = answer.word, answer.values["walk"], answer.values["cursor"]
        for id, kind, _where in answer.rows:
            findings.setdefault(id, set()).add(kind)
    return findings


def build_second_place(*places: str) -> Damage:
    """Build the damage of a job in two places, as a crash between put and take leaves it."""
    return lambda client: [client.zadd(build_key(place), {b"x": NOW + n}) for n, place in enumerate(places)]


def without(*hashes: str) -> Damage:
    return lambda client: [client.hdel(build_key(name), b"x") for name in hashes]


def build_value_damage(name: str, value: bytes) -> Damage:
    return lambda client: client.hset(build_key(name), b"x", value)


def nowhere(client: Redis) -> None:
    for place in PLACES:
        client.zrem(build_key(place), b"x")


DAMAGES: list[tuple[str, str, Damage, str, str]] = [  # name, place before, damage, kind, place after
    ("ready and reserved", "reserved", build_second_place("ready"), "two_places", "reserved"),
    ("scheduled and ready", "ready", build_second_place("scheduled"), "two_places", "ready"),
    ("reserved and scheduled", "reserved", build_second_place("scheduled"), "two_places", "reserved"),
    ("reserved and dead", "reserved", build_second_place("dead"), "two_places", "dead"),
    ("reserved and done", "reserved", build_second_place("done"), "two_places", "done"),
    ("ready and dead", "dead", build_second_place("ready"), "two_places", "dead"),
    ("everywhere", "ready", build_second_place(*PLACES), "two_places", "dead"),
    ("nowhere, waiting", "ready", nowhere, "no_place", "ready"),
    ("nowhere, with a lease", "reserved", nowhere, "no_place", "ready"),
    ("nowhere, with errors", "dead", nowhere, "no_place", "ready"),
    ("scheduled, no record", "scheduled", without("jobs"), "corrupt_record", ""),
    ("ready, no record", "ready", without("jobs"), "corrupt_record", ""),
    ("reserved, no record", "reserved", without("jobs"), "corrupt_record", ""),
    ("dead, no record", "dead", without("jobs"), "corrupt_record", ""),
    ("ready, garbage", "ready", build_value_damage("jobs", b"garbage"), "corrupt_record", "dead"),
    ("reserved, garbage", "reserved", build_value_damage("jobs", b"garbage"), "corrupt_record", "dead"),
    ("done, garbage", "done", build_value_damage("jobs", b"garbage"), "corrupt_record", "dead"),
    ("ready, no long body", "ready", without("bodies"), "corrupt_record", "dead"),
    ("reserved, no attempts", "reserved", without("attempts"), "corrupt_record", "ready"),
    ("reserved, garbled attempts", "reserved", build_value_damage("attempts", b"one two"), "corrupt_record", "ready"),
    ("ready, garbled attempts", "ready", build_value_damage("attempts", b"one two"), "corrupt_record", "ready"),
    ("dead, garbled attempts", "dead", build_value_damage("attempts", b"one two"), "corrupt_record", "dead"),
]  # fmt: skip


def plant_broken(client: Redis, place: str) -> None:
    """Sound neighbours everywhere, and `x` with a long body, attempts and a history."""
    for name in PLACES:
        plant_jobs(client, name, [b"%s-%d" % (name.encode(), n) for n in range(3)], False)
    score = 50 if place == "ready" else NOW + HOUR
    errors = build_error_history("boom") if place == "dead" else None
    plant_job(client, place, b"x", score, b"y" * 5000, build_attempts_line(1, "7", 50), errors)
    assert find_problems(client) == {}


@run_in_one_test(("place", "damage", "kind", "after"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
def test_check_finds_the_damage_and_repair_fixes_it(
    server_client: Redis, place: str, damage: Damage, kind: str, after: str
) -> None:
    client = server_client
    plant_broken(client, place)
    neighbours = {id: read_facts(client, id) for name in PLACES for id in list_ids(client, name) if id != b"x"}
    damage(client)
    before = dump(client)
    findings = find_problems(client)
    assert dump(client) == before, "check reads only"
    assert findings == {b"x": {kind}}
    answer = run_script(client, "repair", [(b"x",)])
    assert read_outcomes(answer) == ["moved"]
    assert find_places(client, b"x") == ([after] if after else [])
    assert find_problems(client) == {}
    assert {id: read_facts(client, id) for id in neighbours} == neighbours
    if not after:
        assert read_facts(client, b"x") == {}
    assert read_outcomes(run_script(client, "repair", [(b"x",)])) == (["fine"] if after else ["gone"])


@pytest.mark.parametrize("name", ["bodies", "attempts", "errors"])
def test_a_line_that_belongs_to_no_job_is_found_and_dropped(server_client: Redis, name: str) -> None:
    server_client.hset(build_key(name), b"x", b"left over")
    assert find_problems(server_client) == {b"x": {"orphan_line"}}
    assert run_script(server_client, "repair", [(b"x",)]).each[0].values == {"place": ""}
    assert read_facts(server_client, b"x") == {}


def test_a_job_that_was_in_none_runs_again_with_its_priority_and_its_attempts(server_client: Redis) -> None:
    client = server_client
    plant_jobs(client, "ready", [b"a"], False)
    plant_job(client, "ready", b"x", 1, attempts=build_attempts_line(3, "7", 50, priority="-2"))
    client.zrem(build_key("ready"), b"x")
    run_script(client, "repair", [(b"x",)])
    assert list_ids(client, "ready") == [b"x", b"a"]
    run_script(client, "enqueue", [{"id": b"a-later-one", "body": b"{}", "priority": -2}])
    assert list_ids(client, "ready") == [b"x", b"a-later-one", b"a"], "behind the repaired job of its priority"
    assert run_script(client, "reserve", limit=1).rows[0][2] == 4


def test_a_done_id_without_a_body_is_no_damage(server_client: Redis) -> None:
    plant_job(server_client, "done", b"x", NOW + HOUR, attempts=build_attempts_line(1, "7"))
    server_client.hdel(build_key("jobs"), b"x")
    assert find_problems(server_client) == {}
    assert read_outcomes(run_script(server_client, "repair", [(b"x",)])) == ["fine"]


def test_check_walks_a_large_queue_in_bounded_steps(client: Redis) -> None:
    run_script(client, "enqueue", [{"id": b"%d" % n, "body": b"{}"} for n in range(1000)])
    client.zadd(build_key("dead"), {b"77": NOW})
    assert find_problems(client, limit=100) == {b"77": {"two_places"}}
    assert run_script(client, "check", walk="ready", cursor="0", limit=100).values["checked"] < 400


def test_a_job_whose_record_cannot_be_read_is_dead_with_that_reason_and_no_other_gets_one(any_client: Redis) -> None:
    for id in (b"garbled", b"kept", b"twice"):
        plant_job(any_client, "dead" if id == b"kept" else "ready", id, 1, errors=build_error_history("boom"))
    any_client.hset(build_key("jobs"), b"garbled", b"garbage")
    any_client.hset(build_key("attempts"), b"kept", b"one two")
    any_client.zadd(build_key("scheduled"), {b"twice": NOW})
    run_script(any_client, "repair", [(b"garbled",), (b"kept",), (b"twice",)], now_ms=NOW)
    reasons = {id: any_client.hget(build_key("errors"), id) for id in (b"garbled", b"kept", b"twice")}
    assert json.loads(reasons.pop(b"garbled") or b"") == [[NOW, NOW, "", "the record of this job cannot be read"]]
    assert set(reasons.values()) == {build_error_history("boom")}
    assert any_client.zscore(build_key("dead"), b"garbled") == NOW


def test_a_job_in_several_places_is_reported_once(client: Redis) -> None:
    plant_job(client, "scheduled", b"x", NOW)
    for places in (("ready",), ("ready", "dead"), ("reserved", "done", "dead")):
        build_second_place(*places)(client)
        walks = {name: run_script(client, "check", walk=name, cursor="0", limit=9) for name in (*PLACES, "jobs")}
        found = [(name, row[1]) for name, reply in walks.items() for row in reply.rows]
        assert found == [("scheduled", "two_places")], places
