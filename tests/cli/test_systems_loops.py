"""The five systems from the shell: dispatch and reap, and which queue a name means."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import sidekiq_subject
from families import run_in_one_test
from json_shapes import DISPATCH, REAP, check_shape
from planted_systems import (
    DISPATCHER,
    HOUR_S,
    NOWHERE,
    ORIZURU,
    REDISCHED,
    SAFE_POP,
    SYSTEMS,
    TIMEOUT_SETS,
    PlantedSystem,
    Shell,
    every_system,
    read_now_s,
)
from redis import Redis
from shell import shell

from rqtui.systems import registry
from rqtui.testing.keyspace import dump, plant

# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dispatch_once(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(DISPATCHER, planted=True)
    client.zadd("delayedtaskset", {"due": read_now_s() - 5})
    [line] = on.run("dispatch", "--once", "--json").lines
    check_shape(line, DISPATCH)
    assert (line["dispatched"], line["delayed"], line["ready"]) == (1, 1, 2)
    assert client.lrange("readytasklist", 0, -1) == [b"a", b"b", b"due"]
    [line] = on.run("dispatch", "readytasklist", "--once", "--json").lines
    assert (line["dispatched"], line["ready"]) == (0, 3)


@pytest.mark.parametrize(
    ("system", "ready", "after"),
    [
        (REDISCHED, 1, lambda client: client.zrange("__REDIS_SCHED_RESERVED__mail", 0, -1) == [b"held"]),
        (SAFE_POP, 1, lambda client: client.lindex("crawl", -1) == b"late"),
        (ORIZURU, 0, lambda client: client.llen("orizuru:consumers:c:processing") == 1),
        (TIMEOUT_SETS, 0, lambda client: client.smembers("in_progress") == {b"3"}),
    ],
    ids=["redisched", "safe_pop", "orizuru", "timeout_sets"],
)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "all"])
def test_reap_once(
    client: Redis,
    sh: Callable[..., Shell],
    system: PlantedSystem,
    ready: int,
    after: Callable[[Redis], bool],
    is_named: bool,
) -> None:
    on = sh(system, planted=True)
    [line] = on.run("reap", *([system.queue] if is_named else []), "--once", "--json").lines
    check_shape(line, REAP)
    assert (line["queue"], line["reaped"]) == (system.queue, {"ready": ready, "dead": 0})
    assert after(client)


def test_reap_gives_back_what_a_dead_consumer_held_and_gc_what_was_rejected(
    client: Redis, sh: Callable[..., Shell]
) -> None:
    on = sh(ORIZURU, planted=True)
    client.delete("orizuru:consumers:c:heartbeat")
    client.hset("orizuru:heartbeats", "c", (read_now_s() - HOUR_S) * 1000)
    assert on.run("reap", "--once", "--json").lines[0]["reaped"]["ready"] == 0  # it may have taken the job just now
    since_ms, _space, list_as_it_is = client.hget("rqtui:{orizuru}:seen", "c").partition(b" ")
    client.hset("rqtui:{orizuru}:seen", "c", b"%d %b" % (int(since_ms) - HOUR_S * 1000, list_as_it_is))
    assert on.run("reap", "--once", "--json").lines[0]["reaped"]["ready"] == 1
    assert client.lrange("jobs", 0, -1) == [b"\x91\x02", b"\x91\x01", b"\x91\x03"]
    assert client.llen("orizuru:consumers:c:unacked") == 1
    assert on.run("reap", "--once", "--gc", "--json").lines[0]["reaped"]["ready"] == 1
    assert client.lrange("jobs", 0, -1) == [b"\x91\x04", b"\x91\x02", b"\x91\x01", b"\x91\x03"]


@run_in_one_test("url_of", [lambda url: url, lambda _url: NOWHERE], ids=["there", "away"])
@run_in_one_test(
    ("verb", "queue"),
    [
        ("dispatch", system.system + ":" + system.queue)
        for system in SYSTEMS
        if not registry.create_system(system.spec).can("dispatch")
    ]
    + [("reap", "dispatcher:readytasklist")],
)
@run_in_one_test("once", [("--once",), ()], ids=["once", "for ever"])
def test_a_loop_that_a_named_queue_does_not_need_is_a_slip_and_no_reason_to_wait(
    client: Redis, url: str, url_of: Callable[[str], str], verb: str, queue: str, once: tuple[str, ...]
) -> None:
    if url_of(url) == NOWHERE and once:
        pytest.skip("with --once Redis is asked first")
    ran = shell(url_of(url), verb, queue, *once, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert f"no {verb} is needed" in ran.err
    assert "Next try" not in ran.err


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_five_systems_and_our_own_are_in_one_redis(client: Redis, url: str) -> None:
    for system in SYSTEMS:
        plant(client, system.keys())
    assert shell(url, "put", "native:mail", "1").code == 0
    found = shell(url, "snapshot", "--json").json["queues"]
    assert {(each["layout"], each["queue"]) for each in found} == {
        ("native", "mail"),
        ("orizuru", "orizuru"),  # no option names its source
        *((system.system, system.queue) for system in SYSTEMS if system is not ORIZURU),
    }
    assert all(each["verdict"]["severity"] != "critical" for each in found)
    specs = [word for system in SYSTEMS for word in ("--system", system.spec)]
    asked = shell(url, *specs, "snapshot", "--json").json["queues"]
    assert {(each["layout"], each["queue"]) for each in asked} == {(each.system, each.queue) for each in SYSTEMS}


def test_a_name_of_two_systems_is_asked_back_and_its_system_settles_it(client: Redis, url: str) -> None:
    plant(client, REDISCHED.keys())
    shell(url, "put", "native:mail", '"ours"', "--id", "ours")
    before = dump(client)
    for words in (("jobs", "mail", "ready"), ("act", "delete", "mail", "a", "--yes"), ("put", "mail", "1")):
        ran = shell(url, *words)
        assert (ran.code, ran.out) == (2, "")
        assert '"mail" is a queue of native and redisched: name one, as SYSTEM:mail' in ran.err
    assert dump(client) == before
    assert shell(url, "jobs", "native:mail", "ready", "--json").json["total"] == 1
    assert shell(url, "jobs", "redisched:mail", "ready", "--json").json["total"] == 2
    assert shell(url, "act", "kill", "native:mail", "ours", "--yes").code == 0
    for words in (("kinds",), ("errors",)):
        assert "native:mail" in shell(url, *words).out, words
    assert "redisched:mail" in shell(url, "loops").out
    remedies = [
        each["remedy"] for each in shell(url, "health", "redisched:mail", "native:mail", "--json").json["findings"]
    ]
    assert "rqtui reap redisched:mail" in remedies


def test_a_system_twice_is_two_queues_each_with_its_own_options(client: Redis, url: str) -> None:
    past_s = read_now_s() - 5  # of both: the one that waits longer is first
    client.zadd("later-a", {"x": past_s})
    client.zadd("later-b", {"y": past_s})
    specs = ("--system", "dispatcher:ready=a,delayed=later-a", "--system", "dispatcher:ready=b,delayed=later-b")
    found = shell(url, *specs, "snapshot", "--json").json["queues"]
    assert [each["queue"] for each in found] == ["a", "b"]
    assert shell(url, *specs, "dispatch", "b", "--once").code == 0
    assert (client.exists("a"), client.lrange("b", 0, -1)) == (0, [b"y"])
    assert shell(url, *specs, "dispatch", "--once").code == 0
    assert client.lrange("a", 0, -1) == [b"x"]


def test_a_system_that_is_not_there_is_answered_with_those_that_are(client: Redis, url: str) -> None:
    ran = shell(url, "--system", "rediscehd:topic=x", "snapshot")
    assert ran.code == 2
    assert f"there are: {', '.join(registry.list_system_names())}." in ran.err


def test_an_option_twice_is_a_slip(client: Redis, url: str) -> None:
    ran = shell(url, "--system", "redisched:topic=a,topic=b", "snapshot")
    assert (ran.code, ran.out) == (2, "")
    assert "topic is there twice; repeat --system" in ran.err


@every_system
def test_an_option_of_the_system_is_no_field_of_a_verb(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    options = set(registry.create_system(system.system).options) - {"ttr_ms"}
    for verb in {"reserve", "pull", "ack", "delete"} & {
        row.name for row in registry.create_system(system.system).verbs()
    }:
        for option in options:
            assert "no field" in on.refused("act", verb, system.queue, "--set", f"{option}=1", "--yes")
    assert dump(client) == before


def test_a_system_that_was_left_out_is_no_part_of_a_name(client: Redis, url: str) -> None:
    ran = shell(url, "--system", "redisched:unit=ms", "put", "native:mail", "1")
    assert ran.code == 2
    assert "means the system native, which --system leaves out" in ran.err
    assert dump(client) == {}


def test_a_consumer_known_only_from_its_keys_is_found_by_every_command(client: Redis, url: str) -> None:
    """A consumer that neither registered nor sent a heartbeat is found only by a walk over the keys."""
    client.rpush("orizuru:consumers:stray:unacked", b"\x91\x07")
    words = ("--system", "orizuru:source=jobs")
    [job] = shell(url, *words, "jobs", "jobs", "unacked", "--json").json["jobs"]
    assert (job["worker"], job["body"]["value"]) == ("stray", [7])
    assert [each["kind"] for each in shell(url, *words, "health", "jobs", "--json").json["findings"]][
        0
    ] == "unknown-consumer"
    assert shell(url, *words, "act", "requeue", "jobs", job["id"]).code == 0
    assert client.lrange("jobs", 0, -1) == [b"\x91\x07"]


def test_a_late_job_is_listed_where_a_system_only_counts_its_late_jobs(url: str, client: Redis) -> None:
    client.sadd("queues", "default")
    sidekiq_subject.plant_process(client, "web-9:1:ab", beat_s=time.time() - 90)
    sidekiq_subject.plant_work(client, "web-9:1:ab", sidekiq_subject.build_member(b"1", "default"), run_at=1)
    lines = shell(url, "loops").out.splitlines()
    assert lines[1] == "reap: 1 late"
    assert lines[3].split()[1:5] == ["late", "reap", "default", "1"] and "web-9:1:ab" in lines[3]
