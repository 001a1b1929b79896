"""The five systems from the shell: every verb that each has, what Redis holds afterwards, exit codes and documents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from keyspace import Zset, dump, plant
from redis import Redis
from shapes import ACT, DISPATCHED, FINDING, HEALTH, JOB, PAGE, PUT, REAPED, SNAPSHOT, TAKEN, fits
from shell import Ran, shell

from rqtui import layouts

HOUR_S = 3600
NOWHERE = "redis://127.0.0.1:1"


def now_s() -> int:
    return int(time.time())


@dataclass(frozen=True)
class System:
    """A system, the queue of it that the tests use, jobs in each of its places, and a verb of it that asks first."""

    spec: str
    queue: str
    keys: Callable[[], dict[str, object]]  # each place holds one job, the ready one two
    dangerous: tuple[str, ...]

    @property
    def layout(self) -> str:
        return self.spec.partition(":")[0]

    def __str__(self) -> str:
        return self.layout


DISPATCHER = System(
    "dispatcher:ready=readytasklist",
    "readytasklist",
    lambda: {"readytasklist": ["a", "b"], "delayedtaskset": Zset({"later": now_s() + HOUR_S})},
    ("delete", "a"),
)
REDISCHED = System(
    "redisched:topic=mail,unit=ms",
    "mail",
    lambda: {
        "__REDIS_SCHED_JOBS__mail": {id: f'"{id}"' for id in ("a", "b", "later", "held", "late")},
        "__REDIS_SCHED_QUEUED__mail": Zset({"a": 1e12, "b": 1e12 + 1, "later": (now_s() + HOUR_S) * 1000}),
        "__REDIS_SCHED_RESERVED__mail": Zset({"held": (now_s() + HOUR_S) * 1000, "late": 1e12}),
    },
    ("delete", "a"),
)
TIMEOUT_SETS = System(
    "timeout_sets:todos=todos",
    "todos",
    lambda: {"todos": {"1", "2"}, "in_progress": {"3"}, "3-lock": "", "done": {"4"}},
    ("delete", "1"),
)
ORIZURU = System(
    "orizuru:source=jobs",
    "jobs",
    lambda: {
        "jobs": [b"\x91\x02", b"\x91\x01"],
        "orizuru:consumers": {"c"},
        "orizuru:consumers:c:processing": [b"\x91\x03"],
        "orizuru:consumers:c:unacked": [b"\x91\x04"],
        "orizuru:consumers:c:heartbeat": "1",
        "orizuru:heartbeats": {"c": str(now_s() * 1000)},
    },
    ("delete", "\\x91\\x01"),
)
SAFE_POP = System(
    "safe_pop:queue=crawl",
    "crawl",
    lambda: {
        "crawl": [f"late|{now_s() - HOUR_S}", f"held|{now_s()}", "b", "a"],
        "crawl:data:a": "the body",
        "crawl:done": {"elsewhere"},
    },
    ("delete", "a"),
)
SYSTEMS = (DISPATCHER, REDISCHED, TIMEOUT_SETS, ORIZURU, SAFE_POP)
PLACES = [
    *((DISPATCHER, place, name) for place, name in (("delayed", "scheduled"), ("ready", "ready"))),
    *(
        (REDISCHED, place, name)
        for place, name in (("queued", "scheduled"), ("due", "ready"), ("reserved", "reserved"))
    ),
    (REDISCHED, "expired", "expired"),
    *(
        (TIMEOUT_SETS, place, name)
        for place, name in (("todos", "ready"), ("in_progress", "reserved"), ("done", "done"))
    ),
    *((ORIZURU, place, name) for place, name in (("source", "ready"), ("processing", "reserved"), ("unacked", "dead"))),
    *((SAFE_POP, place, name) for place, name in (("ready", "ready"), ("in_progress", "reserved"))),
    (SAFE_POP, "expired", "expired"),
]
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)


@dataclass(frozen=True)
class Shell:
    """The command line at one Redis, with the layout of one system."""

    url: str
    system: System

    def run(self, *words: str, code: int = 0, stdin: bytes = b"") -> Ran:
        """A command line that ends with `code`, and without a traceback."""
        ran = shell(self.url, "--layout", self.system.spec, *words, stdin=stdin)
        assert ran.code == code, (words, ran.code, ran.out, ran.err)
        assert "Traceback" not in ran.err
        assert "should not happen" not in ran.err
        return ran

    def put(self, *words: str, code: int = 0, stdin: bytes = b"") -> list[str]:
        """The words that `put` answers."""
        document = self.run("put", self.system.queue, *words, "--json", code=code, stdin=stdin).json
        fits(document, PUT)
        return [result["word"] for result in document["results"]]

    def act(self, verb: str, *words: str, code: int = 0) -> list[str]:
        """The words that `act VERB` answers."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json", code=code).json
        fits(document, ACT)
        return [result["word"] for result in document["results"]]

    def take(self, verb: str, *words: str) -> list[dict[str, object]]:
        """The jobs that `reserve` or `pull` hands out."""
        document = self.run("act", verb, self.system.queue, *words, "--yes", "--json").json
        fits(document, TAKEN)
        assert document["moved"] == len(document["results"])
        return [result["job"] for result in document["results"]]

    def ids(self, place: str, *words: str) -> list[str]:
        """The ids in a place."""
        document = self.run("jobs", self.system.queue, place, *words, "--json").json
        fits(document, PAGE)
        return [job["id"] for job in document["jobs"]]

    def refused(self, *words: str, code: int = 2) -> str:
        """What is said about a command line that is refused; nothing is on stdout then."""
        ran = self.run(*words, code=code)
        assert ran.out == ""
        return ran.err.replace("\n", " ")


@pytest.fixture
def sh(client: Redis, url: str) -> Callable[..., Shell]:
    """A shell for a system, whose keys are there already with `planted`."""

    def make(system: System, planted: bool = False) -> Shell:
        if planted:
            plant(client, system.keys())
        return Shell(url, system)

    return make


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


@every_system
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "all"])
def test_a_snapshot_counts_every_place(client: Redis, sh: Callable[..., Shell], system: System, is_named: bool) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    document = on.run("snapshot", *([system.queue] if is_named else []), "--json").json
    fits(document, SNAPSHOT)
    [queue] = document["queues"]
    counts = {count["place"]: count["count"] for count in queue["places"]}
    ready = next(count["place"] for count in queue["places"] if count["state"] == "ready")
    assert counts == {**dict.fromkeys(counts, 1), ready: 2}
    assert (queue["queue"], queue["layout"]) == (system.queue, system.layout)
    assert dump(client) == before


@pytest.mark.parametrize(("system", "place", "name"), PLACES, ids=str)
def test_jobs_of_a_place_by_its_own_name_and_by_its_state(
    client: Redis, sh: Callable[..., Shell], system: System, place: str, name: str
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    for word in (place, name):
        document = on.run("jobs", system.queue, word, "--json").json
        fits(document, PAGE)
        assert (document["place"], document["layout"]) == (place, system.layout)
        assert {job["place"] for job in document["jobs"]} == {place}
        assert len(document["jobs"]) == document["total"]
        for job in document["jobs"]:
            shown = on.run("show", system.queue, job["id"], "--json").json
            fits(shown, {**JOB, "history": []})
            assert {**shown, "history": None, "deadline_at_ms": 0} == {**job, "history": None, "deadline_at_ms": 0}
    assert dump(client) == before


@every_system
def test_a_page_goes_on_at_its_cursor_and_a_filter_looks_at_all(sh: Callable[..., Shell], system: System) -> None:
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
    client: Redis, sh: Callable[..., Shell], system: System
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    assert "no job" in on.refused("show", system.queue, "nosuch", "--json", code=1)
    [layout] = [each for each in on.run("layouts", "--json").json if each["layout"] == system.layout]
    about_jobs = {"ack", "release", "reject", "requeue", "promote", "extend", "reschedule", "delete"}
    for verb in about_jobs & set(layout["verbs"]):
        words = ("--set", "delay=1h") if verb == "reschedule" else ()
        assert on.act(verb, "nosuch", *words, code=1) in (["gone"], ["stale"]), verb
        assert on.act(verb, "nosuch", *words, "--dry-run", code=1) == ["gone"], verb
    assert dump(client) == before


@every_system
def test_workers_health_and_check(client: Redis, sh: Callable[..., Shell], system: System) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    workers = on.run("workers", system.queue, "--json").json
    assert [each["worker"] for each in workers] == (["c"] if system is ORIZURU else [])
    health = shell(on.url, "--layout", system.spec, "health", system.queue, "--json")
    fits(health.json, HEALTH)
    assert health.code == {"ok": 0, "warning": 1, "critical": 2}[health.json["severity"]]
    assert "rqtui health looks for its faults" in on.refused("check", system.queue, "--json")
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
    assert (task, round(due_s / 60)) == (b'{"n":1}', round((now_s() + HOUR_S) / 60))


def test_put_writes_what_redisched_takes_in_the_unit_of_its_glue(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(REDISCHED)
    assert on.put("1", "--id", "a", "--due", "2035-01-01T00:00Z") == ["moved"]
    assert on.put("2", "--id", "a") == ["exists"]
    assert client.zscore("__REDIS_SCHED_QUEUED__mail", "a") == 2051222400_000
    assert client.hgetall("__REDIS_SCHED_JOBS__mail") == {b"a": b"1"}
    assert (
        shell(on.url, "put", "redisched:go", "1", "--layout", "redisched:unit=s", "--due", "2035-01-01T00:00Z").code
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
    made, a = client.lrange("crawl", 0, -1)
    assert (a, client.get("crawl:data:a")) == (b"a", b"body")
    assert len(made) == 36  # a uuid, as push_msg makes them
    assert client.get(b"crawl:data:" + made) == b"made"
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
    client: Redis, sh: Callable[..., Shell], system: System, words: tuple[str, ...]
) -> None:
    keeps = {DISPATCHER: {"--delay"}, REDISCHED: {"--id", "--delay"}, SAFE_POP: {"--id"}}.get(system, set())
    on = sh(system)
    if words[0] in keeps:
        assert on.put("[1]", *words) == ["moved"]
        return
    said = on.refused("put", system.queue, "[1]", *words)
    assert f"{system.layout} keeps no {words[0][2:].replace('-', '_')}" in said
    assert "a job of it has" in said
    lines = b'{"body": [1]}\n{"body": [2], "%s": "3"}\n' % words[0][2:].encode()
    if words[0] in ("--name", "--id"):
        ran = on.run("put", system.queue, "--lines", "-", stdin=lines, code=2)
        assert "keeps no" in ran.err
    assert dump(client) == {}


# ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_verb_of_the_dispatcher(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(DISPATCHER, planted=True)
    [id] = on.ids("delayed")
    assert on.act("reschedule", id, "--set", "delay=2h") == ["moved"]
    assert round(client.zscore("delayedtaskset", "later") / 60) == round((now_s() + 2 * HOUR_S) / 60)
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
    assert 59_000 < client.zscore(reserved, "a") - time.time() * 1000 <= 60_000
    told = on.run("act", "extend", "mail", "a", "--set", "ttr=2m")
    [line] = [line for line in told.out.splitlines() if line.startswith("a ")]
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
    told = on.run("act", "extend", "crawl", "a", "--set", "ttr=90s")
    token = told.out.splitlines()[-1].rpartition("token ")[2].strip()
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
    client: Redis, sh: Callable[..., Shell], system: System
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    both = on.ids("ready")
    assert on.act("delete", *both, "--dry-run") == ["would", "would"]
    assert on.act("delete", "--place", "ready", "--all", "--dry-run") == ["would", "would"]
    assert on.act("delete", "--place", "ready", "--filter", f"id:{both[0]}", "--dry-run") == ["would"]
    assert "no dry run" in on.refused("act", "pull", system.queue, "--dry-run")
    assert dump(client) == before


@every_system
def test_a_whole_place_goes_in_one_command_and_a_filter_takes_its_own(
    client: Redis, sh: Callable[..., Shell], system: System
) -> None:
    on = sh(system, planted=True)
    first, second = on.ids("ready")
    assert on.act("delete", "--place", "ready", "--filter", f"id:{first}") == ["moved"]
    assert on.ids("ready") == [second]
    assert on.act("delete", "--place", "ready", "--all") == ["moved"]
    assert on.ids("ready") == []
    assert on.act("delete", "--place", "ready", "--all") == []


@every_system
def test_what_is_dangerous_is_refused_where_nobody_can_be_asked(
    client: Redis, sh: Callable[..., Shell], system: System
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    for words in (("delete", system.queue, on.ids("ready")[0]), ("pull", system.queue)):
        assert "--yes" in on.refused("act", *words, code=1)
        assert "--read-only" in on.refused("act", *words, "--yes", "--read-only", code=1)
    assert "--read-only" in on.refused("put", system.queue, "[1]", "--read-only", code=1)
    assert "--read-only" in on.refused("reap", system.queue, "--once", "--read-only", code=1)
    assert dump(client) == before


@every_system
def test_an_unknown_verb_place_or_option_is_answered_with_those_there_are(
    client: Redis, sh: Callable[..., Shell], system: System
) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    layout = next(each for each in on.run("layouts", "--json").json if each["layout"] == system.layout)
    said = on.refused("act", "frobnicate", system.queue, "a")
    assert all(verb in said for verb in layout["verbs"] if verb != "enqueue")
    said = on.refused("jobs", system.queue, "limbo")
    assert all(place["place"] in said for place in layout["places"])
    said = Shell(on.url, System(f"{system.layout}:colour=red", "q", dict, ())).refused("snapshot")
    assert all(option in said for option in layout["options"])
    assert "no field" in on.refused("act", "delete", system.queue, "a", "--set", "x=1")
    assert "of the layout native" not in on.refused("act", "kill", system.queue, "a")
    assert dump(client) == before


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dispatch_once(client: Redis, sh: Callable[..., Shell]) -> None:
    on = sh(DISPATCHER, planted=True)
    client.zadd("delayedtaskset", {"due": now_s() - 5})
    [line] = on.run("dispatch", "--once", "--json").lines
    fits(line, DISPATCHED)
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
    system: System,
    ready: int,
    after: Callable[[Redis], bool],
    is_named: bool,
) -> None:
    on = sh(system, planted=True)
    [line] = on.run("reap", *([system.queue] if is_named else []), "--once", "--json").lines
    fits(line, REAPED)
    assert (line["queue"], line["reaped"]) == (system.queue, {"ready": ready, "dead": 0})
    assert after(client)


def test_reap_gives_back_what_a_dead_consumer_held_and_gc_what_was_rejected(
    client: Redis, sh: Callable[..., Shell]
) -> None:
    on = sh(ORIZURU, planted=True)
    client.delete("orizuru:consumers:c:heartbeat")
    client.hset("orizuru:heartbeats", "c", (now_s() - HOUR_S) * 1000)
    assert on.run("reap", "--once", "--json").lines[0]["reaped"]["ready"] == 1
    assert client.lrange("jobs", 0, -1) == [b"\x91\x02", b"\x91\x01", b"\x91\x03"]
    assert client.llen("orizuru:consumers:c:unacked") == 1
    assert on.run("reap", "--once", "--gc", "--json").lines[0]["reaped"]["ready"] == 1
    assert client.lrange("jobs", 0, -1) == [b"\x91\x04", b"\x91\x02", b"\x91\x01", b"\x91\x03"]


@pytest.mark.parametrize("url_of", [lambda url: url, lambda _url: NOWHERE], ids=["there", "away"])
@pytest.mark.parametrize(
    ("verb", "queue"),
    [("dispatch", system.layout + ":" + system.queue) for system in SYSTEMS if system is not DISPATCHER]
    + [("reap", "dispatcher:readytasklist")],
)
@pytest.mark.parametrize("once", [("--once",), ()], ids=["once", "for ever"])
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


def test_five_systems_and_our_own_stand_in_one_redis(client: Redis, url: str) -> None:
    for system in SYSTEMS:
        plant(client, system.keys())
    assert shell(url, "put", "native:mail", "1").code == 0
    found = shell(url, "snapshot", "--json").json["queues"]
    assert {(each["layout"], each["queue"]) for each in found} == {
        ("native", "mail"),
        ("orizuru", "orizuru"),  # nobody named its source
        *((system.layout, system.queue) for system in SYSTEMS if system is not ORIZURU),
    }
    assert all(each["verdict"]["severity"] != "critical" for each in found)
    specs = [word for system in SYSTEMS for word in ("--layout", system.spec)]
    asked = shell(url, *specs, "snapshot", "--json").json["queues"]
    assert {(each["layout"], each["queue"]) for each in asked} == {(each.layout, each.queue) for each in SYSTEMS}


def test_a_name_of_two_layouts_is_asked_back_and_its_layout_settles_it(client: Redis, url: str) -> None:
    plant(client, REDISCHED.keys())
    shell(url, "put", "native:mail", '"ours"', "--id", "ours")
    before = dump(client)
    for words in (("jobs", "mail", "ready"), ("act", "delete", "mail", "a", "--yes"), ("put", "mail", "1")):
        ran = shell(url, *words)
        assert (ran.code, ran.out) == (2, "")
        assert '"mail" stands in native and redisched: say which, as LAYOUT:mail' in ran.err
    assert dump(client) == before
    assert shell(url, "jobs", "native:mail", "ready", "--json").json["total"] == 1
    assert shell(url, "jobs", "redisched:mail", "ready", "--json").json["total"] == 2
    remedies = [
        each["remedy"] for each in shell(url, "health", "redisched:mail", "native:mail", "--json").json["findings"]
    ]
    assert "rqtui reap redisched:mail" in remedies


def test_a_layout_twice_is_two_queues_each_with_its_own_options(client: Redis, url: str) -> None:
    client.zadd("later-a", {"x": now_s() - 5})
    client.zadd("later-b", {"y": now_s() - 5})
    specs = ("--layout", "dispatcher:ready=a,delayed=later-a", "--layout", "dispatcher:ready=b,delayed=later-b")
    found = shell(url, *specs, "snapshot", "--json").json["queues"]
    assert [each["queue"] for each in found] == ["a", "b"]
    assert shell(url, *specs, "dispatch", "b", "--once").code == 0
    assert (client.exists("a"), client.lrange("b", 0, -1)) == (0, [b"y"])
    assert shell(url, *specs, "dispatch", "--once").code == 0
    assert client.lrange("a", 0, -1) == [b"x"]


def test_a_layout_that_is_not_there_is_answered_with_those_that_are(client: Redis, url: str) -> None:
    ran = shell(url, "--layout", "rediscehd:topic=x", "snapshot")
    assert ran.code == 2
    assert "dispatcher, native, orizuru, redisched, safe_pop, timeout_sets" in ran.err


def test_an_option_twice_is_a_slip(client: Redis, url: str) -> None:
    ran = shell(url, "--layout", "redisched:topic=a,topic=b", "snapshot")
    assert (ran.code, ran.out) == (2, "")
    assert "topic stands there twice; --layout may be repeated" in ran.err


@every_system
def test_an_option_of_the_layout_is_no_field_of_a_verb(client: Redis, sh: Callable[..., Shell], system: System) -> None:
    on = sh(system, planted=True)
    before = dump(client)
    options = set(layouts.make(system.layout).options) - {"ttr_ms"}
    for verb in {"reserve", "pull", "ack", "delete"} & {row.name for row in layouts.make(system.layout).verbs()}:
        for option in options:
            assert "no field" in on.refused("act", verb, system.queue, "--set", f"{option}=1", "--yes")
    assert dump(client) == before


def test_a_layout_that_was_left_out_is_no_part_of_a_name(client: Redis, url: str) -> None:
    ran = shell(url, "--layout", "redisched:unit=ms", "put", "native:mail", "1")
    assert ran.code == 2
    assert "means the layout native, which --layout leaves out" in ran.err
    assert dump(client) == {}


def test_whoever_only_stands_in_the_keys_of_orizuru_is_found_by_every_command(client: Redis, url: str) -> None:
    """A consumer that neither registered nor beat: only a walk over the keys tells of it."""
    client.rpush("orizuru:consumers:stray:unacked", b"\x91\x07")
    words = ("--layout", "orizuru:source=jobs")
    [job] = shell(url, *words, "jobs", "jobs", "unacked", "--json").json["jobs"]
    assert (job["worker"], job["body"]["value"]) == ("stray", [7])
    assert [each["kind"] for each in shell(url, *words, "health", "jobs", "--json").json["findings"]][
        0
    ] == "unknown-consumer"
    assert shell(url, *words, "act", "requeue", "jobs", job["id"]).code == 0
    assert client.lrange("jobs", 0, -1) == [b"\x91\x07"]


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Planted:
    """A fault, the key that its finding names, and a sign that its remedy worked; "" for the remedies of people."""

    system: System
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
        {"orizuru:consumers:c:processing": [b"\x91\x01"], "orizuru:heartbeats": {"c": "1000"}},
        "orizuru:consumers:c:processing",
        "rqtui reap",
        lambda client: client.lrange("jobs", 0, -1) == [b"\x91\x01"],
    ),
    Planted(
        ORIZURU,
        "unknown-consumer",
        {"orizuru:consumers:c:processing": [b"\x91\x01"]},
        "orizuru:consumers:c:processing",
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
    Planted(SAFE_POP, "stalled", {"crawl": ["a", f"b|{now_s() + HOUR_S}"]}, "crawl"),
]


def findings(url: str, system: System, kind: str) -> list[dict[str, object]]:
    ran = shell(url, "--layout", system.spec, "health", system.queue, "--json")
    fits(ran.json, HEALTH)
    return [each for each in ran.json["findings"] if each["kind"] == kind]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_health_names_the_fault_its_key_and_a_remedy_that_works_when_it_is_typed(
    client: Redis, url: str, fault: Planted
) -> None:
    plant(client, {key: value for key, value in fault.keys.items() if value != {}})
    before = dump(client)
    found = findings(url, fault.system, fault.kind)
    assert found, "nothing was found"
    fits(found[0], FINDING)
    assert [fault.key] in [each["keys"] for each in found]
    assert found[0]["remedy"]
    assert found[0]["layout"] == fault.system.layout
    assert dump(client) == before
    for place in {place for system, place, _name in PLACES if system is fault.system}:
        assert shell(url, "--layout", fault.system.spec, "jobs", fault.system.queue, place, "--json").code == 0
    assert dump(client) == before
    if fault.remedy:
        remedy = str(found[0]["remedy"])
        typed = remedy if fault.remedy in remedy else fault.remedy
        ran = in_a_shell(url, typed[typed.index(fault.remedy) :])
        assert fault.mended(client), (typed, ran)
        assert not findings(url, fault.system, fault.kind)


def in_a_shell(url: str, remedy: str) -> str:
    """Types the command at the beginning of a remedy as a person would, in bash, with what a loop needs to end."""
    import os
    import subprocess
    import sys

    from shell import environment

    command = remedy.partition(";")[0]
    for prose in (" removes ", " makes ", " ends its lease", " takes it", ", or ", ", and "):
        command = command.partition(prose)[0]
    if command.split()[1] in ("reap", "dispatch"):
        command += " --once"
    if command == "rqtui dispatch --once":
        command += " --layout dispatcher"
    line = f'rqtui() {{ {sys.executable} -m rqtui "$@"; }}; {command}{" --yes" if " act " in command else ""}'
    done = subprocess.run(["bash", "-c", line], env={**os.environ, **environment(url)}, capture_output=True, cwd="/")
    return f"{line} → {done.returncode} {done.stdout!r} {done.stderr!r}"


def test_a_remedy_names_the_options_without_which_it_would_take_leases_that_are_not_over(
    client: Redis, url: str
) -> None:
    client.rpush("crawl", f"late|{now_s() - 600}", f"slow|{now_s() - 100}")
    spec = "safe_pop:queue=crawl,timeout_s=300"
    found = shell(url, "--layout", spec, "health", "crawl", "--json").json["findings"]
    [remedy] = [each["remedy"] for each in found if each["kind"] == "expired-not-reaped"]
    assert remedy == f"rqtui reap --layout {spec} safe_pop:crawl"
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


@pytest.mark.parametrize(("system", "key", "place"), MAIN_KEYS, ids=str)
def test_a_key_of_another_type_is_a_finding_and_nothing_is_written(
    client: Redis, url: str, system: System, key: str, place: str
) -> None:
    plant(client, {name: value for name, value in system.keys().items() if name != key})
    client.pfadd(key, "what another program counts")
    before = dump(client)
    ran = shell(url, "--layout", system.spec, "health", system.queue, "--json")
    [found] = [each for each in ran.json["findings"] if each["kind"] == "wrong-type"]
    assert (ran.code, found["severity"], found["keys"]) == (2, "critical", [key])
    assert f"{key} holds a string" in found["text"]
    [queue] = shell(url, "--layout", system.spec, "snapshot", "--json").json["queues"]
    assert queue["verdict"]["severity"] == "critical"
    layout = layouts.make(system.spec)
    names = layout.keys(system.queue)
    concerned = [
        verb.name for verb in layout.verbs() if key in {names[one.name] for one in layout.script(verb.name).keys}
    ]
    assert concerned
    for verb in set(concerned) - {"enqueue", "park", "forget", "purge", "repair"}:
        ids = () if verb in ("reserve", "pull", "reap", "dispatch") else ("a",)
        words = ("--set", "delay=1h") if verb == "reschedule" else ()
        ran = shell(url, "--layout", system.spec, "act", verb, system.queue, *ids, *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, ran.err)
        assert "Traceback" not in ran.err
        assert "should not happen" not in ran.err
        assert dump(client) == before, verb
    for words in (("jobs", system.queue, place), ("reap", system.queue, "--once")):
        ran = shell(url, "--layout", system.spec, *words)
        assert ran.code in (0, 1, 2), ran.err  # 3 is a Redis that is away
    ran = shell(url, "--layout", system.spec, "put", system.queue, "[1]")
    assert ran.code == ("enqueue" in concerned), ran.err
    assert client.type(key) == b"string"


HOSTILE = (b"\xff\xfe", b"\x93\x01", b"\x1b]0;owned\x07", b"id|notanumber", b"", b"-5", b"a\nb")


@every_system
def test_members_that_cannot_be_decoded_are_shown_and_never_moved_by_a_look(
    client: Redis, url: str, system: System
) -> None:
    keys: dict[System, dict[str, object]] = {
        DISPATCHER: {"readytasklist": [*HOSTILE], "delayedtaskset": Zset({each: 1.9e9 for each in HOSTILE})},
        REDISCHED: {
            MAIL["jobs"]: {each: each for each in HOSTILE},
            MAIL["queued"]: Zset({each: 1e12 for each in HOSTILE}),
        },
        TIMEOUT_SETS: {"todos": {*HOSTILE}, "in_progress": {*HOSTILE}},
        ORIZURU: {"jobs": [*HOSTILE], "orizuru:consumers": {*HOSTILE}, "orizuru:consumers:c:unacked": [*HOSTILE]},
        SAFE_POP: {"crawl": [*HOSTILE], "crawl:done": {*HOSTILE}},
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
        fits(document, PAGE)
        assert len(document["jobs"]) == document["total"]
        total += document["total"]
    assert total >= len(HOSTILE)
    for words in (
        ("health", system.queue),
        ("health", system.queue, "--json"),
        ("snapshot",),
        ("workers", system.queue),
    ):
        ran = shell(url, "--layout", system.spec, *words)
        assert "\x1b" not in ran.out + ran.err
        assert "should not happen" not in ran.err
    assert dump(client) == before


BIG = 30 * 2**20


@every_system
def test_a_payload_of_30_megabytes_is_told_by_its_size_and_goes_whole_when_it_is_meant(
    client: Redis, url: str, system: System
) -> None:
    body = b"\xc6" + BIG.to_bytes(4, "big") + b"x" * BIG
    keys: dict[System, dict[str, object]] = {
        DISPATCHER: {"readytasklist": [b"a", body, b"b"]},
        REDISCHED: {MAIL["jobs"]: {"big": body}, MAIL["queued"]: Zset({"big": 1e12})},
        TIMEOUT_SETS: {"todos": {body}},
        ORIZURU: {"jobs": [b"\x91\x01", body, b"\x91\x02"]},
        SAFE_POP: {"crawl": ["big"], "crawl:data:big": body},
    }
    plant(client, keys[system])
    on = Shell(url, system)
    ran = on.run("jobs", system.queue, "ready", "--json")
    assert len(ran.out) < 100_000
    [job] = [job for job in ran.json["jobs"] if job["body"]["bytes"] == len(body)]
    assert job["body"]["encoding"] == "omitted"
    assert len(on.run("jobs", system.queue, "ready").out) < 10_000
    assert shell(url, "--layout", system.spec, "health", system.queue).code in (0, 1)
    if (
        system is not TIMEOUT_SETS
    ):  # its digest is known to the process that listed it, and a set has no order to look in
        shown = on.run("show", system.queue, job["id"], "--json")
        assert (shown.json["body"]["encoding"], len(shown.out) < 10_000) == ("omitted", True)
        assert on.act("delete", job["id"]) == ["moved"]
    else:
        assert on.act("delete", "--place", "todos", "--all") == ["moved"]
    left = on.run("jobs", system.queue, "ready", "--json").json
    assert left["total"] == (2 if system in (DISPATCHER, ORIZURU) else 0)
    assert client.memory_usage("crawl:data:big") is None
