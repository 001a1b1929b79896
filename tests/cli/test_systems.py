"""The five systems from the shell: looking, putting and every verb, and what Redis holds afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from json_shapes import HEALTH, JOB, PAGE, SNAPSHOT, check_shape
from planted_systems import (
    DISPATCHER,
    HOUR_S,
    ORIZURU,
    PLACES,
    REDISCHED,
    RQ,
    SAFE_POP,
    SIDEKIQ,
    TIMEOUT_SETS,
    PlantedSystem,
    Shell,
    every_system,
    read_now_s,
)
from redis import Redis
from shell import shell

from rqtui.systems import registry
from rqtui.testing.keyspace import dump

# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


@every_system
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "all"])
def test_a_snapshot_counts_every_place(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem, is_named: bool
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    document = on.run("snapshot", *([system.queue] if is_named else []), "--json").json
    check_shape(document, SNAPSHOT)
    [queue] = document["queues"]
    counts = {count["place"]: count["count"] for count in queue["places"]}
    ready = next(count["place"] for count in queue["places"] if count["state"] == "ready")
    assert counts == {**dict.fromkeys(counts, 1), ready: 2, **system.unplanted}
    assert (queue["queue"], queue["layout"]) == (system.queue, system.system)
    assert dump(client) == before


@pytest.mark.parametrize("command", [("put", "redishced:mail", "1"), ("act", "pause", "redishced:mail")])
def test_a_slip_in_the_name_of_a_system_creates_no_native_queue(
    client: Redis, url: str, command: tuple[str, ...]
) -> None:
    before = dump(client)
    ran = shell(url, *command)
    assert ran.code == 2 and 'no system "redishced"; did you mean redisched:mail?' in ran.err
    assert dump(client) == before
    assert shell(url, "put", "native:redishced:mail", "1").code == 0
    assert client.zcard("rqtui:{redishced:mail}:ready") == 1
    assert shell(url, *command).code == 0, "now it is a queue that somebody has seen"


def test_a_put_reports_once_that_it_creates_a_new_native_queue(client: Redis, url: str) -> None:
    client.hset("mail:id", "a", "b")  # of no known queue
    sentence = "mail is a new native queue; another system's is put into as SYSTEM:QUEUE."
    assert [sentence in shell(url, "put", "mail", "1").err for _time in range(2)] == [True, False]
    assert sentence not in shell(url, "put", "native:other", "1").err


@pytest.mark.parametrize(("system", "place", "name"), PLACES, ids=str)
def test_jobs_of_a_place_by_its_own_name_and_by_its_state(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem, place: str, name: str
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    for word in (place, name):
        document = on.run("jobs", system.queue, word, "--json").json
        check_shape(document, PAGE)
        meant = {each.name for each in registry.create_system(system.system).find_places(word)}
        assert (document["place"], document["layout"]) == (place if len(meant) == 1 else word, system.system)
        assert place in {job["place"] for job in document["jobs"]} <= meant
        assert len(document["jobs"]) == document["total"]
        for job in document["jobs"]:
            shown = on.run("show", system.queue, job["id"], "--json").json
            check_shape(shown, {**JOB, "history": []})
            alone = {"history": None, "facts": [], "deadline_at_ms": 0}
            assert {**shown, **alone} == {**job, **alone}

    assert dump(client) == before


@every_system
def test_a_page_continues_at_its_cursor_and_a_filter_reads_all(sh: Callable[..., Shell], system: PlantedSystem) -> None:
    on = sh(system, planted=True)
    both = on.ids("ready")
    first = on.run("jobs", system.queue, "ready", "--limit", "1", "--json").json
    rest = on.run("jobs", system.queue, "ready", "--limit", "1", "--cursor", first["next"], "--json").json
    assert [first["jobs"][0]["id"], rest["jobs"][0]["id"]] == both
    assert (first["total"], rest["next"]) == (2, None)
    assert on.ids("ready", "--filter", f"id:{both[1]}") == [both[1]]
    assert on.ids("ready", "--filter", "id:no-such-thing") == []


@every_system
def test_a_job_that_is_not_there_is_exit_1_for_every_verb_that_takes_one(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    assert "no job" in on.refused("show", system.queue, "nosuch", "--json", code=1)
    [document] = [each for each in on.run("layouts", "--json").json if each["layout"] == system.system]
    about_jobs = {"ack", "release", "reject", "requeue", "promote", "extend", "reschedule", "delete"}
    for verb in about_jobs & set(document["verbs"]):
        words = ("--set", "delay=1h") if verb == "reschedule" else ()
        assert on.act(verb, "nosuch", *words, code=1) in (["gone"], ["stale"]), verb
        assert on.act(verb, "nosuch", *words, "--dry-run", code=1) == ["gone"], verb
    assert dump(client) == before


@every_system
def test_workers_health_and_check(client: Redis, sh: Callable[..., Shell], system: PlantedSystem) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    workers = on.run("workers", system.queue, "--json").json
    assert [each["worker"] for each in workers] == {ORIZURU: ["c"], SIDEKIQ: ["host:1:x"]}.get(system, [])
    health = shell(on.url, "--system", system.spec, "health", system.queue, "--json")
    check_shape(health.json, HEALTH)
    assert health.code == {"ok": 0, "warning": 1, "critical": 2}[health.json["severity"]]
    assert "rqtui health reports its problems" in on.refused("check", system.queue, "--json")
    assert dump(client) == before


# ── putting ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_put_writes_what_the_dispatcher_takes(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(DISPATCHER)
    assert on.put('"now"') == ["moved"]
    assert on.put('"now"') == ["moved"]  # a list may hold equals
    assert on.put('{"n":1}', "--delay", "1h") == ["moved"]
    assert on.put('{"n":1}', "--due", "2035-01-01T00:00Z") == ["exists"]
    assert client.lrange("readytasklist", 0, -1) == [b"now", b"now"]
    [(task, due_s)] = client.zrange("delayedtaskset", 0, -1, withscores=True)
    assert (task, due_s) == (b'{"n":1}', pytest.approx(read_now_s() + HOUR_S, abs=30))


def test_put_writes_what_redisched_takes_in_the_unit_of_its_glue(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(REDISCHED)
    assert on.put("1", "--id", "a", "--due", "2035-01-01T00:00Z") == ["moved"]
    assert on.put("2", "--id", "a") == ["exists"]
    assert client.zscore("__REDIS_SCHED_QUEUED__mail", "a") == 2051222400_000
    assert client.hgetall("__REDIS_SCHED_JOBS__mail") == {b"a": b"1"}
    assert (
        shell(on.url, "put", "redisched:go", "1", "--system", "redisched:unit=s", "--due", "2035-01-01T00:00Z").code
        == 0
    )
    assert [score for _id, score in client.zrange("__REDIS_SCHED_QUEUED__go", 0, -1, withscores=True)] == [2051222400]
    ran = shell(on.url, "put", "redisched:new", "1")
    assert ran.code == 1
    assert "redisched:unit=ms" in ran.err
    assert not client.exists("__REDIS_SCHED_QUEUED__new")


def test_put_writes_what_the_sets_take_and_no_text_among_numbers(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(TIMEOUT_SETS)
    assert on.put("42") == ["moved"]
    assert on.put("42") == ["exists"]
    assert on.put('"url1"', code=1) == ["refused"]
    lines = b'{"body": 1}\n{"body": "x"}\n{"body": 2}\n'
    assert on.put("--lines", "-", stdin=lines, code=1) == ["moved", "refused", "moved"]
    assert client.smembers("todos") == {b"42", b"1", b"2"}


def test_put_writes_what_orizuru_reads_as_its_struct(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(ORIZURU)
    assert on.put("[42]") == ["moved"]
    assert on.put("--lines", "-", stdin=b'{"body": [1]}\n{"body": {"id": 2}}\n') == ["moved", "moved"]
    assert client.lrange("jobs", 0, -1) == [b"\x81\xa2id\x02", b"\x91\x01", b"\x91\x2a"]
    for body in ("42", '"text"'):
        assert "MessagePack" in on.refused("put", "jobs", body)
    assert client.llen("jobs") == 3


def test_put_writes_what_safe_pop_takes(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(SAFE_POP)
    assert on.put('"body"', "--id", "a") == ["moved"]
    assert on.put('"other"', "--id", "a") == ["exists"]
    assert on.put('"made"') == ["moved"]
    result, a = client.lrange("crawl", 0, -1)
    assert (a, client.get("crawl:data:a")) == (b"a", b"body")
    assert len(result) == 36  # a uuid, as push_msg makes them
    assert client.get(b"crawl:data:" + result) == b"made"
    assert 86_000 < client.ttl("crawl:data:a") <= 86_400
    assert 'no "|"' in on.refused("put", "crawl", "1", "--id", "a|b")


@every_system
@pytest.mark.parametrize(
    "words",
    [
        ("--priority", "1"),
        ("--name", "kind"),
        ("--ttr", "30s"),
        ("--max-attempts", "3"),
        ("--backoff", "1s..1h"),
        ("--keep", "1h"),
        ("--id", "x"),
        ("--delay", "1h"),
    ],
    ids=lambda words: words[0],
)
def test_a_field_that_a_system_does_not_keep_is_refused_and_those_it_keeps_are_named(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem, words: tuple[str, ...]
) -> None:
    keeps = {
        DISPATCHER: {"--delay"},
        REDISCHED: {"--id", "--delay"},
        SAFE_POP: {"--id"},
        RQ: {"--ttr", "--max-attempts", "--keep", "--id", "--delay"},
        SIDEKIQ: {"--delay"},
    }.get(system, set())
    on = sh(system)
    if system == SIDEKIQ and words[0] == "--id":
        assert "write it into the body" in on.refused("put", system.queue, system.body, *words) and dump(client) == {}
        return
    if words[0] in keeps:
        assert on.put(system.body, *words) == ["moved"]
        return
    actual = on.refused("put", system.queue, system.body, *words)
    assert f"{system.system} keeps no {words[0][2:].replace('-', '_')}" in actual
    assert "a job of it is given" in actual
    lines = b'{"body": [1]}\n{"body": [2], "%s": "3"}\n' % words[0][2:].encode()
    if words[0] in ("--name", "--id"):
        ran = on.run("put", system.queue, "--lines", "-", stdin=lines, code=2)
        assert "keeps no" in ran.err
    assert dump(client) == {}


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        ("sidekiq:q", '{"class": "HardJob", "args": []}'),
        ("celery:q", '{"task": "tasks.add"}'),
    ],
)
def test_an_id_is_refused_where_a_second_put_of_it_would_run_again(
    client: Redis, url: str, queue: str, body: str
) -> None:
    line = json.dumps({"body": json.loads(body), "id": "X"}).encode()
    for words, value in (((body, "--id", "X"), b""), (("--lines", "-"), line)):
        ran = shell(url, "put", queue, *words, stdin=value)
        assert ran.code == 2 and "keeps no record of the ids" in ran.err and "write it into the body" in ran.err
    assert dump(client) == {}


@pytest.mark.parametrize("queue", ["native:q", "rq:q", "bullmq:q", "redisched:q"])
def test_a_second_put_of_an_id_is_a_no_op(client: Redis, url: str, queue: str) -> None:
    body = '{"func": "t.f"}' if queue == "rq:q" else "1"
    specs = ("--system", "native", "--system", "rq", "--system", "bullmq", "--system", "redisched:unit=ms")
    first = shell(url, *specs, "put", queue, body, "--id", "X")
    before = dump(client)
    again = shell(url, *specs, "put", queue, body, "--id", "X")
    assert (first.code, again.code) == (0, 0) and before, (first.err, again.err)
    assert "exists" in again.out and dump(client) == before


def test_every_system_either_shows_that_an_id_exists_or_refuses_ids() -> None:
    for name in registry.list_system_names():
        system = registry.create_system(name)
        enqueue = system.scripts["enqueue"]
        has_ids = "id" in {column.name for column in enqueue.each}
        assert bool(system.body_id_example) == (has_ids and "exists" not in enqueue.returns), name


# ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_verb_of_the_dispatcher(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(DISPATCHER, planted=True)
    [id] = on.ids("delayed")
    assert on.act("reschedule", id, "--set", "delay=2h") == ["moved"]
    assert client.zscore("delayedtaskset", "later") == pytest.approx(read_now_s() + 2 * HOUR_S, abs=30)
    assert on.act("promote", id, "--dry-run") == ["would"]
    assert client.zcard("delayedtaskset") == 1
    assert on.act("promote", id) == ["moved"]
    assert on.act("promote", id, code=1) == ["gone"]
    assert (client.zcard("delayedtaskset"), client.lrange("readytasklist", 0, -1)) == (0, [b"a", b"b", b"later"])
    assert on.act("delete", "b") == ["moved"]  # the bytes are as good as the digest
    assert client.lrange("readytasklist", 0, -1) == [b"a", b"later"]
    [job] = on.take("pull")
    assert (job["body"]["value"], job["place"], job["token"]) == ("a", "ready", None)
    assert [job["body"]["value"] for job in on.take("pull", "--limit", "9")] == ["later"]
    assert on.take("pull") == []
    assert dump(client) == {}


def test_every_verb_of_redisched(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(REDISCHED, planted=True)
    queued, reserved, bodies = (f"__REDIS_SCHED_{name}__mail" for name in ("QUEUED", "RESERVED", "JOBS"))
    [job] = on.take("reserve", "--set", "ttr=60s")
    assert (job["id"], job["place"], job["body"]["value"]) == ("a", "reserved", "a")
    assert 59_000 < client.zscore(reserved, "a") - time.time() * 1000 < 60_500  # two readings of a clock
    result = on.run("act", "extend", "mail", "a", "--set", "ttr=2m")
    [line] = [line for line in result.out.splitlines() if line.startswith("a ")]
    token = line.rpartition("token ")[2].strip()
    assert float(token) == client.zscore(reserved, "a")
    assert on.act("ack", "a", "--token", job["token"], code=1) == ["stale"]
    assert on.act("release", "a", "--token", job["token"], code=1) == ["stale"]
    assert client.hexists(bodies, "a")
    assert on.act("ack", "a", "--token", token) == ["moved"]
    assert (client.hexists(bodies, "a"), client.zscore(reserved, "a")) == (False, None)
    assert on.act("release", "held") == ["moved"]
    assert (client.zscore(reserved, "held"), client.zscore(queued, "held") is not None) == (None, True)
    assert on.act("promote", "later") == ["moved"]
    assert client.zscore(queued, "later") <= time.time() * 1000
    assert on.act("reschedule", "later", "--set", "delay=1h") == ["moved"]
    assert client.zscore(queued, "later") > time.time() * 1000
    assert [job["id"] for job in on.take("pull", "--limit", "1")] == ["b"]
    assert on.take("reserve", "--set", "ttr=1h")[0]["id"] == "held"
    assert on.act("delete", "held", code=1) == ["reserved"]
    assert on.act("delete", "held", "--force") == ["moved"]
    assert on.act("delete", "later", "late") == ["moved", "moved"]
    assert dump(client) == {}


def test_every_verb_of_the_sets(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(TIMEOUT_SETS)
    client.sadd("todos", "7")
    [job] = on.take("reserve", "--set", "worker=me", "--set", "ttr=60s")
    assert (job["id"], job["place"], job["worker"]) == ("7", "in_progress", "me")
    assert client.get("7-lock") == str(job["token"]).encode()
    assert 59_000 < client.pttl("7-lock") <= 60_000
    assert on.act("extend", "7", "--set", "ttr=2m") == ["extended"]
    assert 119_000 < client.pttl("7-lock") <= 120_000
    for verb in ("ack", "release", "extend"):
        assert on.act(verb, "7", "--token", "of somebody else", code=1) == ["stale"]
    assert on.act("delete", "7", code=1) == ["reserved"]
    assert client.smembers("in_progress") == {b"7"}
    assert on.act("release", "7") == ["moved"]
    assert {key: entry.value for key, entry in dump(client).items()} == {"todos": {b"7"}}
    on.take("reserve")
    assert on.act("ack", "7") == ["moved"]
    assert on.act("ack", "7") == ["done"]
    assert {key: entry.value for key, entry in dump(client).items()} == {"done": {b"7"}}
    assert on.act("requeue", "7") == ["moved"]
    [pulled] = on.take("pull")
    assert (pulled["id"], pulled["place"], pulled["deadline_at_ms"]) == ("7", "done", None)
    assert on.act("requeue", "--place", "done", "--all") == ["moved"]
    assert on.act("delete", "7") == ["moved"]
    assert dump(client) == {}
    client.sadd("done", 1, 2, 3)
    assert on.run("act", "purge", "todos", "--place", "done", "--yes", "--json").json["moved"] == 3
    assert dump(client) == {}


def test_every_verb_of_orizuru(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(ORIZURU, planted=True)
    held, rejected = "orizuru:consumers:c:processing", "orizuru:consumers:c:unacked"
    first, second = on.take("reserve", "--limit", "2", "--set", "worker=c", "--set", "ttr=60s")
    assert [first["body"]["value"], second["body"]["value"]] == [[1], [2]]
    assert (first["place"], first["worker"]) == ("processing", "c")
    assert client.lrange(held, 0, -1) == [b"\x91\x02", b"\x91\x01", b"\x91\x03"]
    assert on.ids("processing", "--filter", "worker:c") == on.ids("processing")
    assert on.ids("processing", "--filter", "worker:d") == []
    assert on.act("ack", str(first["id"])) == ["moved"]
    assert on.act("ack", str(first["id"]), code=1) == ["gone"]
    assert on.act("reject", str(second["id"])) == ["moved"]
    assert on.act("reject", str(second["id"]), code=1) == ["gone"]  # twice is one job
    assert (client.lrange(held, 0, -1), client.lrange(rejected, 0, -1)) == ([b"\x91\x03"], [b"\x91\x02", b"\x91\x04"])
    assert on.act("requeue", "--place", "dead", "--all") == ["moved", "moved"]
    assert client.lrange("jobs", 0, -1) == [b"\x91\x02", b"\x91\x04"]
    [id] = on.ids("processing")
    assert on.act("release", id) == ["moved"]
    assert (client.exists(held), client.lindex("jobs", -1)) == (0, b"\x91\x03")
    assert on.act("delete", id) == ["moved"]
    assert client.lrange("jobs", 0, -1) == [b"\x91\x02", b"\x91\x04"]
    [pulled] = on.take("pull")
    assert (pulled["body"]["value"], pulled["place"], pulled["worker"]) == ([4], "source", None)
    assert "knows no --token" in on.refused("act", "release", "jobs", id, "--token", "x")


def test_every_verb_of_safe_pop(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(SAFE_POP, planted=True)
    client.delete("crawl:done")
    [job] = on.take("reserve", "--set", "ttr=60s")
    assert (job["id"], job["place"], job["body"]["value"]) == ("a", "in_progress", "the body")
    assert str(job["token"]).encode() in client.lrange("crawl", 0, -1)
    result = on.run("act", "extend", "crawl", "a", "--set", "ttr=90s")
    token = result.out.splitlines()[-1].rpartition("token ")[2].strip()
    assert token != job["token"]
    assert token.encode() in client.lrange("crawl", 0, -1)
    before = dump(client)
    for verb in ("ack", "release", "extend"):
        assert on.act(verb, "a", "--token", str(job["token"]), code=1) == ["stale"]
    assert on.act("delete", "a", code=1) == ["reserved"]
    assert dump(client) == before
    assert on.act("release", "a", "--token", token) == ["moved"]
    assert client.lindex("crawl", -1) == b"a"
    on.take("reserve")
    assert on.act("ack", "a") == ["moved"]
    assert on.act("ack", "a", code=1) == ["gone"]
    assert client.exists("crawl:data:a", "crawl:done") == 0
    assert [job["id"] for job in on.take("pull")] == ["b"]
    assert on.act("delete", "held", "--force") == ["moved"]
    assert on.act("delete", "--place", "expired", "--all") == ["moved"]
    assert dump(client) == {}


@every_system
def test_a_dry_run_changes_nothing_and_names_what_would_be_asked(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    both = on.ids("ready")
    assert on.act("delete", *both, "--dry-run") == ["would", "would"]
    assert on.act("delete", "--place", "ready", "--all", "--dry-run") == ["would", "would"]
    assert on.act("delete", "--place", "ready", "--filter", f"id:{both[0]}", "--dry-run") == ["would"]
    if system not in (RQ, SIDEKIQ):
        assert "no dry run" in on.refused("act", "pull", system.queue, "--dry-run")
    assert dump(client) == before


@every_system
def test_a_whole_place_goes_in_one_command_and_a_filter_takes_its_own(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    first, second = on.ids("ready")
    assert on.act("delete", "--place", "ready", "--filter", f"id:{first}") == ["moved"]
    assert on.ids("ready") == [second]
    assert on.act("delete", "--place", "ready", "--all") == ["moved"]
    assert on.ids("ready") == []
    assert on.act("delete", "--place", "ready", "--all") == []


@every_system
def test_a_dangerous_change_is_refused_where_no_question_can_be_asked(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    deletes = ("delete", system.queue, on.ids("ready")[0])
    for words in (deletes, ("pull", system.queue) if system not in (RQ, SIDEKIQ) else deletes):
        assert "--yes" in on.refused("act", *words, code=1)
        assert "--read-only" in on.refused("act", *words, "--yes", "--read-only", code=1)
    assert "--read-only" in on.refused("put", system.queue, "[1]", "--read-only", code=1)
    assert "--read-only" in on.refused("reap", system.queue, "--once", "--read-only", code=1)
    assert dump(client) == before


@every_system
def test_an_unknown_verb_place_or_option_is_answered_with_those_there_are(
    client: Redis, sh: Callable[..., Shell], system: PlantedSystem
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    document = next(each for each in on.run("layouts", "--json").json if each["layout"] == system.system)
    actual = on.refused("act", "frobnicate", system.queue, "a")
    assert all(verb in actual for verb in document["verbs"] if verb != "enqueue")
    actual = on.refused("jobs", system.queue, "limbo")
    assert all(place["place"] in actual for place in document["places"])
    actual = Shell(on.url, PlantedSystem(f"{system.system}:colour=red", "q", dict, ())).refused("snapshot")
    assert all(option in actual for option in document["options"])
    assert "no field" in on.refused("act", "delete", system.queue, "a", "--set", "x=1")
    assert "of the system native" not in on.refused("act", "reprioritise", system.queue, "a")
    assert dump(client) == before
