"""Test five systems from the shell: every finding with a fix that works, and unexpected input."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from families import run_in_one_test
from json_shapes import FINDING, HEALTH, PAGE, check_shape
from planted_systems import (
    DISPATCHER,
    HOUR_S,
    ORIZURU,
    PLACES,
    REDISCHED,
    RQ,
    SAFE_POP,
    SIDEKIQ,
    SYSTEMS,
    TIMEOUT_SETS,
    PlantedSystem,
    Shell,
    build_sidekiq_job,
    every_system,
    read_now_s,
)
from redis import Redis
from shell import shell

from rqtui.cli import settled_snapshot
from rqtui.systems import registry
from rqtui.testing.keyspace import Zset, dump, plant


@pytest.fixture(autouse=True)
def skip_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `health` not wait between its looks at queues whose workers may be idle: no job moves here."""
    monkeypatch.setattr(settled_snapshot, "sleep", lambda _seconds: None)


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Planted:
    """A fault, the key that its finding names, and a sign that its remedy worked; "" for the remedies of people."""

    system: PlantedSystem
    kind: str
    keys: dict[str, object]
    key: str
    remedy: str = ""  # a part of the remedy, up to where it is prose
    mended: Callable[[Redis], bool] = lambda _client: True

    def __str__(self) -> str:
        return f"{self.system}-{self.kind}"


MAIL = {name: f"__REDIS_SCHED_{name.upper()}__mail" for name in ("jobs", "queued", "reserved")}
FAULTS = [
    Planted(
        DISPATCHER,
        "due-not-dispatched",
        {"delayedtaskset": Zset({"task": -5})},
        "delayedtaskset",
        "rqtui dispatch",
        lambda client: client.lrange("readytasklist", 0, -1) == [b"task"],
    ),
    Planted(DISPATCHER, "mixed-units", {"delayedtaskset": Zset({"task": 1.8e12})}, "delayedtaskset"),
    Planted(DISPATCHER, "corrupt-record", {"delayedtaskset": Zset({"task": float("inf")})}, "delayedtaskset"),
    Planted(
        REDISCHED,
        "mixed-units",
        {MAIL["jobs"]: {"a": "1", "b": "2"}, MAIL["queued"]: Zset({"a": 1.9e9, "b": 1.9e12})},
        MAIL["queued"],
    ),
    Planted(
        REDISCHED,
        "ghost",
        {MAIL["queued"]: Zset({"it's $(a) ghost": 1.9e12})},
        MAIL["queued"],
        "rqtui act delete",
        lambda client: not client.exists(MAIL["queued"]),
    ),
    Planted(
        REDISCHED,
        "no-place",
        {MAIL["jobs"]: {b"\xff lost": "1"}, MAIL["queued"]: Zset({})},
        MAIL["jobs"],
        "rqtui act repair",
        lambda client: client.zscore(MAIL["queued"], b"\xff lost") is not None,
    ),
    Planted(
        REDISCHED,
        "two-places",
        {MAIL["jobs"]: {"a": "1"}, MAIL["queued"]: Zset({"a": 1e12}), MAIL["reserved"]: Zset({"a": 1.9e12})},
        MAIL["reserved"],
        "rqtui act repair",
        lambda client: (client.zcard(MAIL["queued"]), client.exists(MAIL["reserved"])) == (1, 0),
    ),
    Planted(
        REDISCHED,
        "never-due",
        {MAIL["jobs"]: {"a": "1"}, MAIL["queued"]: Zset({"a": float("inf")})},
        MAIL["queued"],
        "rqtui act promote",
        lambda client: client.zscore(MAIL["queued"], "a") < 1e14,
    ),
    Planted(TIMEOUT_SETS, "lost-lock", {"in_progress": {"3"}}, "in_progress"),
    Planted(TIMEOUT_SETS, "shared-lock", {"todos": {"3"}, "3-lock": ""}, "todos"),
    Planted(
        TIMEOUT_SETS,
        "two-places",
        {"todos": {"3", "33"}, "done": {"3"}},
        "done",
        "rqtui act delete",
        lambda client: (client.smembers("todos"), client.smembers("done")) == ({b"33"}, {b"3"}),
    ),
    Planted(
        TIMEOUT_SETS,
        "undecodable",
        {"todos": {"3", "4", "url1"}},
        "todos",
        "rqtui act delete",
        lambda client: client.smembers("todos") == {b"3", b"4"},
    ),
    Planted(TIMEOUT_SETS, "wrong-type", {"in_progress": {"3"}, "3-lock": ["x"]}, "3-lock"),
    Planted(
        ORIZURU,
        "silent-consumer",
        {
            "orizuru:consumers:c:processing": [b"\x91\x01"],
            "orizuru:heartbeats": {"c": "1000"},
            "rqtui:{orizuru}:seen": {"c": b"1000 1 2 \x91\x01"},  # a reaper looked on since
        },
        "orizuru:consumers:c:processing",
        "rqtui reap",
        lambda client: client.lrange("jobs", 0, -1) == [b"\x91\x01"],
    ),
    Planted(
        ORIZURU,
        "unknown-consumer",
        {"orizuru:consumers:c:processing": [b"\x91\x01"]},
        "orizuru:consumers:c:processing",
        "rqtui act release",
        lambda client: client.lrange("jobs", 0, -1) == [b"\x91\x01"],
    ),
    Planted(
        ORIZURU,
        "unknown-consumer",
        {"orizuru:consumers:it's: $(a) /c:unacked": [b"\x91\x01"]},
        "orizuru:consumers:it's: $(a) /c:unacked",
        "rqtui act requeue",
        lambda client: client.lrange("jobs", 0, -1) == [b"\x91\x01"],
    ),
    Planted(
        ORIZURU,
        "unknown-consumer",
        {
            "orizuru:consumers": {"it's ä z*"},
            "orizuru:consumers:it's ä z*:processing": [b"\x91\x01"],
            "orizuru:consumers:it's ä Z*:heartbeat": "1",
            "orizuru:heartbeats": {"it's ä Z*": str(read_now_s() * 1000)},
            "orizuru:consumers:it's ä Z*:processing": [b"\x91\x02"],
        },
        "orizuru:consumers:it's ä z*:processing",
        "rqtui act release",
        lambda client: client.lrange("jobs", 0, -1) == [b"\x91\x01"],
    ),
    Planted(ORIZURU, "undecodable", {"jobs": [b"\x93\x01"]}, "jobs"),
    Planted(
        ORIZURU,
        "wrong-type",
        {"orizuru:consumers": {"c"}, "orizuru:consumers:c:processing": "x"},
        "orizuru:consumers:c:processing",
    ),
    Planted(
        SAFE_POP,
        "undecodable",
        {"crawl": ["a", "id|notanumber"]},
        "crawl",
        "rqtui act delete",
        lambda client: client.lrange("crawl", 0, -1) == [b"a"],
    ),
    Planted(SAFE_POP, "orphan-done-mark", {"crawl": ["a"], "crawl:done": {"old"}}, "crawl:done"),
    Planted(
        SAFE_POP,
        "ghost",
        {"crawl": ["9b2f1c1e-9a7a-4a0f-8a54-0a8f0d6d1a11", "b"], "crawl:data:b": "1"},
        "crawl:data:9b2f1c1e-9a7a-4a0f-8a54-0a8f0d6d1a11",
        "rqtui act delete",
        lambda client: client.lrange("crawl", 0, -1) == [b"b"],
    ),
    Planted(
        SAFE_POP,
        "two-places",
        {"crawl": ["a", "b", "a"]},
        "crawl",
        "rqtui act delete",
        lambda client: client.llen("crawl") == 2,
    ),
    Planted(SAFE_POP, "wrong-type", {"crawl": ["a"], "crawl:data:a": ["x"]}, "crawl:data:a"),
    Planted(SAFE_POP, "stalled", {"crawl": ["a", f"b|{read_now_s() + HOUR_S}"]}, "crawl"),
]


def findings(url: str, system: PlantedSystem, kind: str) -> list[dict[str, object]]:
    ran = shell(url, "--system", system.spec, "health", system.queue, "--json")
    check_shape(ran.json, HEALTH)
    return [each for each in ran.json["findings"] if each["kind"] == kind]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_health_names_the_fault_its_key_and_a_remedy_that_works_when_it_is_typed(
    client: Redis, url: str, fault: Planted
) -> None:
    plant(client, {key: value for key, value in fault.keys.items() if value != {}})
    before = dump(client)
    found = findings(url, fault.system, fault.kind)
    assert found, "nothing was found"
    check_shape(found[0], FINDING)
    assert [fault.key] in [each["keys"] for each in found]
    assert found[0]["remedy"]
    assert found[0]["layout"] == fault.system.system
    assert dump(client) == before
    for place in {place for system, place, _name in PLACES if system is fault.system}:
        assert shell(url, "--system", fault.system.spec, "jobs", fault.system.queue, place, "--json").code == 0
    assert dump(client) == before
    if fault.remedy:
        remedy = str(found[0]["remedy"])
        typed = remedy if fault.remedy in remedy else fault.remedy
        ran = run_in_shell(url, typed[typed.index(fault.remedy) :])
        assert fault.mended(client), (typed, ran)
        assert not findings(url, fault.system, fault.kind)


def run_in_shell(url: str, remedy: str) -> str:
    """Run the command at the beginning of a fix in bash, with the option that ends a loop."""
    command = remedy.partition(";")[0]
    for prose in (" removes ", " makes ", " ends its lease", " takes it", ", or ", ", and "):
        command = command.partition(prose)[0]
    if command.split()[1] in ("reap", "dispatch"):
        command += " --once"
    if command == "rqtui dispatch --once":
        command += " --system dispatcher"
    line = f"rqtui() {{ printf '%s\\0' \"$@\"; }}; {command}{' --yes' if ' act ' in command else ''}"
    read = subprocess.run(["bash", "-c", line], capture_output=True, cwd="/", check=True)
    words = read.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return f"{line} → {words} → {shell(url, *words)}"


def test_a_remedy_names_the_options_without_which_it_would_take_leases_that_are_not_over(
    client: Redis, url: str
) -> None:
    client.rpush("crawl", f"late|{read_now_s() - 600}", f"slow|{read_now_s() - 100}")
    spec = "safe_pop:queue=crawl,timeout_s=300"
    found = shell(url, "--system", spec, "health", "crawl", "--json").json["findings"]
    [remedy] = [each["remedy"] for each in found if each["kind"] == "expired-not-reaped"]
    assert remedy == f"rqtui reap --system {spec} safe_pop:crawl"
    assert shell(url, *remedy.split()[1:], "--once").code == 0
    entries = client.lrange("crawl", 0, -1)
    assert entries[-1] == b"late"
    assert entries[0].startswith(b"slow|")


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────

MAIN_KEYS = [
    (DISPATCHER, "delayedtaskset", "ready"),
    (DISPATCHER, "readytasklist", "delayed"),
    *((REDISCHED, key, "due") for key in MAIL.values()),
    *((TIMEOUT_SETS, key, "todos") for key in ("todos", "in_progress", "done")),
    *((ORIZURU, key, "source") for key in ("jobs", "orizuru:consumers", "orizuru:heartbeats")),
    *((SAFE_POP, key, "ready") for key in ("crawl", "crawl:done")),
]


@pytest.mark.slow
@run_in_one_test(("system", "key", "place"), MAIN_KEYS, ids=str)
def test_a_key_of_another_type_is_a_finding_and_nothing_is_written(
    client: Redis, url: str, system: PlantedSystem, key: str, place: str
) -> None:
    plant(client, {name: value for name, value in system.keys().items() if name != key})
    client.pfadd(key, "what another program counts")
    before = dump(client)
    ran = shell(url, "--system", system.spec, "health", system.queue, "--json")
    [found] = [each for each in ran.json["findings"] if each["kind"] == "wrong-type"]
    assert (ran.code, found["severity"], found["keys"]) == (2, "critical", [key])
    assert f"{key} holds a string" in found["text"]
    [queue] = shell(url, "--system", system.spec, "snapshot", "--json").json["queues"]
    assert queue["verdict"]["severity"] == "critical"
    instance = registry.create_system(system.spec)
    names = instance.keys(system.queue)
    concerned = [
        verb.name for verb in instance.verbs() if key in {names[one.name] for one in instance.script(verb.name).keys}
    ]
    assert concerned
    for verb in set(concerned) - {"enqueue", "park", "forget", "purge", "repair"}:
        ids = () if verb in ("reserve", "pull", "reap", "dispatch") else ("a",)
        words = ("--set", "delay=1h") if verb == "reschedule" else ()
        ran = shell(url, "--system", system.spec, "act", verb, system.queue, *ids, *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, ran.err)
        assert "Traceback" not in ran.err
        assert "should not happen" not in ran.err
        assert dump(client) == before, verb
    for words in (("jobs", system.queue, place), ("reap", system.queue, "--once")):
        ran = shell(url, "--system", system.spec, *words)
        assert ran.code in (0, 1, 2), ran.err  # 3 is a Redis that is away
    ran = shell(url, "--system", system.spec, "put", system.queue, "[1]")
    assert ran.code == ("enqueue" in concerned), ran.err
    assert client.type(key) == b"string"


HOSTILE = (b"\xff\xfe", b"\x93\x01", b"\x1b]0;owned\x07", b"id|notanumber", b"", b"-5", b"a\nb")


@every_system
def test_members_that_cannot_be_decoded_are_shown_and_never_moved_by_a_poll(
    client: Redis, url: str, system: PlantedSystem
) -> None:
    keys: dict[PlantedSystem, dict[str, object]] = {
        DISPATCHER: {"readytasklist": [*HOSTILE], "delayedtaskset": Zset({each: 1.9e9 for each in HOSTILE})},
        REDISCHED: {
            MAIL["jobs"]: {each: each for each in HOSTILE},
            MAIL["queued"]: Zset({each: 1e12 for each in HOSTILE}),
        },
        TIMEOUT_SETS: {"todos": {*HOSTILE}, "in_progress": {*HOSTILE}},
        ORIZURU: {"jobs": [*HOSTILE], "orizuru:consumers": {*HOSTILE}, "orizuru:consumers:c:unacked": [*HOSTILE]},
        SAFE_POP: {"crawl": [*HOSTILE], "crawl:done": {*HOSTILE}},
        RQ: {"rq:queue:default": [*HOSTILE], "rq:failed:default": Zset({each: 1.9e9 for each in HOSTILE})},
        SIDEKIQ: {
            "queues": {"default"},
            "queue:default": [*HOSTILE],
            **{place: Zset({each: 1.9e9 for each in HOSTILE}) for place in ("schedule", "retry", "dead")},
        },
    }
    plant(client, keys[system])
    before = dump(client)
    on = Shell(url, system)
    total = 0
    for place in {place for each, place, _name in PLACES if each is system}:
        for words in (("--json",), ()):
            ran = on.run("jobs", system.queue, place, *words)
            assert "\x1b" not in ran.out
        document = on.run("jobs", system.queue, place, "--json").json
        check_shape(document, PAGE)
        assert len(document["jobs"]) == document["total"]
        total += document["total"]
    assert total >= len(HOSTILE)
    for words in (
        ("health", system.queue),
        ("health", system.queue, "--json"),
        ("snapshot",),
        ("workers", system.queue),
    ):
        ran = shell(url, "--system", system.spec, *words)
        assert "\x1b" not in ran.out + ran.err
        assert "should not happen" not in ran.err
    assert dump(client) == before


BIG = 30 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [each if each in (RQ, TIMEOUT_SETS) else pytest.param(each, marks=pytest.mark.matrix) for each in SYSTEMS],
    ids=str,
)
def test_a_payload_of_30_megabytes_is_shown_by_its_size_and_moved_complete(
    client: Redis, url: str, system: PlantedSystem
) -> None:
    body = b"\xc6" + BIG.to_bytes(4, "big") + b"x" * BIG
    if system is SIDEKIQ:
        body = build_sidekiq_job("big").replace("[]", f'["{"x" * BIG}"]').encode()
    keys: dict[PlantedSystem, dict[str, object]] = {
        DISPATCHER: {"readytasklist": [b"a", body, b"b"]},
        REDISCHED: {MAIL["jobs"]: {"big": body}, MAIL["queued"]: Zset({"big": 1e12})},
        TIMEOUT_SETS: {"todos": {body}},
        ORIZURU: {"jobs": [b"\x91\x01", body, b"\x91\x02"]},
        SAFE_POP: {"crawl": ["big"], "crawl:data:big": body},
        RQ: {"rq:queue:default": ["big"], "rq:job:big": {"data": body, "status": "queued"}},
        SIDEKIQ: {"queues": {"default"}, "queue:default": [build_sidekiq_job("a"), body, build_sidekiq_job("b")]},
    }
    plant(client, keys[system])
    on = Shell(url, system)
    ran = on.run("jobs", system.queue, "ready", "--json")
    assert len(ran.out) < 100_000
    [job] = [job for job in ran.json["jobs"] if job["body"]["bytes"] == len(body)]
    assert job["body"]["encoding"] == "omitted"
    assert len(on.run("jobs", system.queue, "ready").out) < 10_000
    assert shell(url, "--system", system.spec, "health", system.queue).code in (0, 1)
    if (
        system is not TIMEOUT_SETS
    ):  # its digest is known to the process that listed it, and a set has no order to look in
        shown = on.run("show", system.queue, job["id"], "--json")
        assert (shown.json["body"]["encoding"], len(shown.out) < 10_000) == ("omitted", True)
        assert on.act("delete", job["id"]) == ["moved"]
    else:
        assert on.act("delete", "--place", "todos", "--all") == ["moved"]
    left = on.run("jobs", system.queue, "ready", "--json").json
    assert left["total"] == (2 if system in (DISPATCHER, ORIZURU, SIDEKIQ) else 0)
    assert client.memory_usage("crawl:data:big") is None
