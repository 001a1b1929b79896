"""The seam to systems of others: names for bytes, options, discovery, inspections, remedies, and loops over many."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from families import run_in_one_test
from redis import Redis
from socket_writes import record_socket_writes

from rqtui.connection.connect import connect
from rqtui.engine import engine as engine_module
from rqtui.engine.engine import Engine
from rqtui.engine.health.probes import FAULTS_INTERVAL_S, MAX_PROBES
from rqtui.engine.loops import build_round
from rqtui.engine.walk import MAX_STEP_KEYS
from rqtui.errors import Denied, Refused, ServerError, Unknown, Unreachable, UsageError, WrongType
from rqtui.model import Fact, Focus, Queue, Ref
from rqtui.scripts import script as scripts
from rqtui.system_base.entries import HEAD_BYTES, Entries, Entry, strip_name_number
from rqtui.system_base.foreign_system import ForeignSystem, Number, build_facts
from rqtui.system_base.system import System, quote_for_shell
from rqtui.systems import registry
from rqtui.testing.keyspace import Zset, dump, plant

WALK = scripts.load_scripts("shared")["walk"]
OTHERS = tuple(name for name in registry.list_system_names() if name != "native")
READY = Ref("dispatcher", "readytasklist")


def dispatcher(client: Redis, *specs: str) -> Engine:
    return Engine(client, [registry.create_system(*(specs or ("dispatcher:ready=readytasklist",)))])


def test_a_fact_without_a_value_is_left_out_and_zero_is_a_value() -> None:
    rows = [("status", "failed", "text"), ("batch", "", "text"), ("expires", None, "instant"), ("limit", 0, "duration")]
    assert build_facts(rows) == [Fact("status", "failed"), Fact("limit", 0, "duration")]


# ── names for bytes ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_stands_for_the_bytes_and_equal_ones_are_numbered() -> None:
    entries, seen = Entries(), Counter[bytes]()
    one, other = Entry.from_bytes(b"task"), Entry.from_bytes(b"task2")
    names = [entries.assign_name(entry, seen) for entry in (one, other, one, one)]
    assert names == [one.digest, other.digest, one.digest + b".2", one.digest + b".3"]
    assert {strip_name_number(name) for name in names} == {one.digest, other.digest}
    assert [entries.find(name) for name in names] == [one, other, one, one]
    assert entries.find(b"nosuch") is None


def test_long_entries_are_distinguished_by_beginning_length_and_end() -> None:
    whole = [b"x" * 5000, b"x" * 5001, b"x" * 4999 + b"y", b"y" + b"x" * 4999]
    assert len({Entry.from_bytes(each).digest for each in whole}) == 4
    cut = Entry(whole[0][:HEAD_BYTES], 5000, whole[0][-64:])
    assert cut.digest == Entry.from_bytes(whole[0]).digest  # whichever way it was read


def test_only_the_latest_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqtui.system_base.entries._REMEMBERED", 3)
    entries = Entries()
    names = [entries.assign_name(Entry.from_bytes(b"%d" % n), Counter()) for n in range(3)]
    entries.assign_name(Entry.from_bytes(b"0"), Counter())  # seen again: the latest now
    entries.assign_name(Entry.from_bytes(b"3"), Counter())
    assert [entries.find(name) is not None for name in names] == [True, False, True]


def test_a_job_is_found_by_a_digest_that_this_process_never_saw(client: Redis) -> None:
    client.rpush("readytasklist", *(b"task %d" % n for n in range(50)), b"x" * 10_000)
    for body in (b"task 42", b"x" * 10_000):
        job = dispatcher(client).fetch_job(READY, Entry.from_bytes(body).digest)
        assert job is not None
        assert (job.body_bytes, job.place) == (len(body), "ready")
    assert dispatcher(client).fetch_job(READY, b"0123456789ab") is None


def test_a_member_too_long_for_a_page_is_fetched_whole_before_a_verb_acts(client: Redis) -> None:
    long = b"x" * 3_000_000
    client.zadd("delayedtaskset", {long: 2e9, b"short": 2e9})
    engine = dispatcher(client)
    jobs = engine.fetch_page(READY, "delayed").jobs
    assert {(job.is_partial, len(job.member)) for job in jobs} == {(True, HEAD_BYTES), (False, 5)}
    assert [outcome.word for outcome in engine.apply_verb("promote", READY, jobs)] == ["moved", "moved"]
    assert sorted(client.lrange("readytasklist", 0, -1), key=len) == [b"short", long]
    assert not client.exists("delayedtaskset")


def test_a_long_member_that_left_meanwhile_is_missing_and_nothing_else_is_touched(client: Redis) -> None:
    long = b"x" * 10_000
    client.zadd("delayedtaskset", {long: 2e9, long + b"y": 2e9})
    engine = dispatcher(client)
    [job] = [job for job in engine.fetch_page(READY, "delayed").jobs if job.body_bytes == 10_000]
    client.zrem("delayedtaskset", long)
    assert [outcome.word for outcome in engine.apply_verb("promote", READY, [job])] == ["gone"]
    assert client.zcard("delayedtaskset") == 1


# ── options, places, fields ──────────────────────────────────────────────────────────────────────────────────


def test_each_queue_has_the_options_of_the_system_that_named_it() -> None:
    system = registry.create_system("redisched:topic=a,unit=s", "redisched:topic=b,ttr_ms=5")
    assert system.named_queues() == ["a", "b"]
    assert (system.options_of("a")["unit"], system.options_of("b")["unit"]) == ("s", "auto")
    assert (system.options_of("b")["ttr_ms"], system.options_of("b")["topic"]) == ("5", "b")
    assert system.options_of("c") == {**system.options_of("a"), "topic": "c"}  # the first one's, under its own name
    assert system.specs[0] is system.options


@pytest.mark.parametrize("name", OTHERS)
def test_an_option_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(
        UsageError,
        match=f"system {name} has no option colour; its options: .*{registry.create_system(name).queue_option}",
    ):
        registry.create_system(f"{name}:colour=red")


@run_in_one_test("name", registry.list_system_names())
def test_a_place_is_found_by_its_own_name_and_by_its_state(name: str) -> None:
    system = registry.create_system(name)
    for place in system.places:
        assert system.place(place.name) is place
        assert system.place(place.state).state is place.state
    with pytest.raises(UsageError, match=", ".join(place.name for place in system.places)):
        system.place("limbo")


@pytest.mark.parametrize("name", OTHERS)
def test_put_refuses_a_field_that_the_system_does_not_keep(name: str) -> None:
    system = registry.create_system(name)
    queue = system.named_queues()[0] if system.named_queues() and system.named_queues()[0] else "mail"
    with pytest.raises(UsageError, match=f"{name} keeps no (priority|colour); a job of it is given .*body"):
        system.put_request(queue, [{"body": b"\x91\x01"}, {"body": b"\x91\x01", "priority": 1, "colour": "red"}])


def test_put_makes_the_ids_that_the_caller_did_not_give(client: Redis) -> None:
    engine = Engine(client, [registry.create_system("redisched:topic=mail,unit=ms")])
    ask = engine.systems["redisched"].put_request(
        "mail", [{"body": b"1"}, {"body": b"2", "id": "mine"}, {"body": b"3"}]
    )
    ids = [outcome.id for outcome in engine.send_request(ask)]
    assert ids[1] == b"mine"
    assert len(set(ids)) == 3
    assert set(client.hkeys("__REDIS_SCHED_JOBS__mail")) == set(ids)


# ── words for a shell ────────────────────────────────────────────────────────────────────────────────────────


@run_in_one_test(
    "word",
    [
        b"plain",
        b"two words",
        b"it's",
        b"$(reboot)",
        b"`x`",
        b"a;b|c&d>e",
        b"\xff\xfe",
        b"a\nb",
        b"\x1b[2J",
        b"\\'",
        b"*",
        "größe".encode(),
    ],
)
def test_a_typed_word_reaches_a_program_as_it_was(word: bytes) -> None:
    shown = quote_for_shell(word)
    assert shown.isprintable()
    done = subprocess.run(["bash", "-c", b"printf %s " + shown.encode()], capture_output=True, check=True)
    assert done.stdout == word


@run_in_one_test(
    ("spec", "queue", "words"),
    [
        ("native", "mail", "mail"),
        ("redisched", "mail", "redisched:mail"),
        ("redisched:topic=mail", "mail", "redisched:mail"),
        ("redisched:topic=mail,unit=s", "mail", "--system redisched:topic=mail,unit=s redisched:mail"),
        ("safe_pop:timeout_s=60", "a b", "--system 'safe_pop:queue=a b,timeout_s=60' 'safe_pop:a b'"),
        ("timeout_sets:prefix=x:", "x:todos", "--system timeout_sets:todos=todos,prefix=x: timeout_sets:x:todos"),
        ("dispatcher", "readytasklist", "dispatcher:readytasklist"),
        ("orizuru:source=jobs", "jobs", "orizuru:jobs"),
    ],
)
def test_the_words_for_a_queue_mean_it_again(spec: str, queue: str, words: str) -> None:
    import shlex

    system = registry.create_system(spec)
    assert system.queue_argument(queue) == words
    typed_words = shlex.split(words)
    again = (
        registry.create_system(typed_words[1]) if typed_words[0] == "--system" else registry.create_system(system.name)
    )
    assert again.options_of(queue) == system.options_of(queue)
    assert typed_words[-1] in (queue, f"{system.name}:{queue}")


# ── discovery ────────────────────────────────────────────────────────────────────────────────────────────────


def walk_keys(client: Redis, patterns: list[str], limit: int = 10) -> tuple[list[tuple[int, bytes]], int]:
    """Walk over all keys, and return the (number, key) pairs of matches and the number of steps."""
    found, cursor, steps = [], "0", 0
    while True:
        answer = scripts.run_call(
            client, WALK.build_call({}, {"cursor": cursor, "limit": limit}, [(each,) for each in patterns])
        )
        found += [(number, key) for number, key in answer.rows]
        cursor, steps = answer.values["cursor"], steps + 1
        if cursor == "0":
            return found, steps


def test_the_walk_only_reads_and_names_each_key_with_its_pattern(any_client: Redis) -> None:
    names = [b"a:%d" % n for n in range(60)] + [b"b:%d" % n for n in range(40)] + [b"a:\xff", b"x.y", b"xzy"]
    any_client.mset(dict.fromkeys(names, 1))
    before = dump(any_client)
    found, _steps = walk_keys(any_client, ["^a:", "^b:", ":1$", r"^x%.y$"])
    by_number = {number: {key for n, key in found if n == number} for number in (1, 2, 3, 4)}
    assert by_number[1] == {name for name in names if name.startswith(b"a:")}
    assert by_number[2] == {name for name in names if name.startswith(b"b:")}
    assert by_number[3] == {b"a:1", b"b:1"}
    assert by_number[4] == {b"x.y"}
    assert dump(any_client) == before
    assert WALK.read_only


def test_a_step_of_the_walk_is_bounded(client: Redis) -> None:
    client.mset({f"k{n}": 1 for n in range(1000)})
    found, steps = walk_keys(client, ["^k"], limit=50)
    assert len(set(found)) == 1000
    assert steps >= 10


@pytest.mark.parametrize(
    "args",
    [
        {"cursor": "x", "limit": 10},
        {"cursor": "", "limit": 10},
        {"cursor": "0", "limit": 0},
        {"cursor": "0", "limit": 10_001},
    ],
)
def test_the_walk_refuses_what_is_no_cursor_and_no_limit(any_client: Redis, args: dict[str, object]) -> None:
    with pytest.raises(Refused, match="cursor is a whole number"):
        scripts.run_call(any_client, WALK.build_call({}, args, [("^a",)]))


def test_one_walk_serves_every_system(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    client.mset({f"noise:{n}": 1 for n in range(2000)})
    plant(
        client,
        {
            "__REDIS_SCHED_JOBS__mail": {"a": "1"},
            "crawl": ["a"],
            "crawl:done": {"b"},
            "rqtui:{own}:meta": {"version": "1"},
        },
    )
    engine = Engine(client, registry.create_systems())
    with record_socket_writes(monkeypatch) as writes:
        found = {ref for chunk in engine.discover(fully=True) for ref in chunk}
    assert {Ref("redisched", "mail"), Ref("safe_pop", "crawl"), Ref("native", "own")} <= found
    steps = sum(write.count(WALK.sha.encode()) for write in writes)
    assert client.dbsize() // MAX_STEP_KEYS <= steps < 3 * client.dbsize() // MAX_STEP_KEYS, (
        "a walk for each of the ten would be more"
    )


@pytest.fixture
def narrow(client: Redis, url: str) -> Iterator[Redis]:
    """Connect as a user who may access only the native queue `mail`."""
    client.execute_command(
        "ACL", "SETUSER", "narrow", "on", ">pw", "resetkeys", "~rqtui:{mail}:*", "~rqtui:queues", "+@all"
    )
    try:
        with connect(url.replace("redis://", "redis://narrow:pw@")) as user:
            yield user
    finally:
        client.execute_command("ACL", "DELUSER", "narrow")


def test_systems_that_were_not_requested_are_skipped_where_an_acl_hides_them(client: Redis, narrow: Redis) -> None:
    plant(
        client,
        {"readytasklist": ["a"], "todos": {"1"}, "orizuru:consumers": {"c"}, "crawl": ["a"], "crawl:done": {"b"}},
    )
    scripts.run_call(
        client, registry.create_system("native").build_call("enqueue", "mail", {}, [{"id": "a", "body": b"1"}])
    )
    client.sadd("rqtui:queues", "mail")
    engine = Engine(narrow, registry.create_systems())
    assert {ref for chunk in engine.discover() for ref in chunk if ref.system == "native"} == {Ref("native", "mail")}
    assert engine.resolve_or_discover("mail") == Ref("native", "mail")
    assert engine.take_snapshot(Focus((Ref("native", "mail"),))).queues[0].count_in_place("ready") == 1


def test_a_poll_that_an_acl_denies_is_silent_for_a_system_that_was_not_requested(
    narrow: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_asked in (False, True):
        native, result = (
            registry.create_system("native"),
            next(each for each in registry.create_systems() if each.name == "safe_pop"),
        )
        result.is_explicit = is_asked
        monkeypatch.setattr(result, "has_queue", lambda client, queue: bool(client.llen(queue)))
        monkeypatch.setattr(result, "discover", lambda client: ([str(client.llen(key))] for key in ["crawl"]))
        engine = Engine(narrow, [native, result])
        if is_asked:
            with pytest.raises(Denied):
                engine.resolve_or_discover("mail")
        else:
            assert engine.resolve_or_discover("mail") == Ref("native", "mail")
            assert [ref for chunk in engine.discover() for ref in chunk] == []


def test_without_the_right_to_scan_the_walk_finds_nothing_and_fails_nothing(client: Redis, url: str) -> None:
    plant(client, {"crawl": ["a"], "crawl:done": {"b"}, "todos": {"1"}})
    client.execute_command("ACL", "SETUSER", "noscan", "on", ">pw", "~*", "+@all", "-scan")
    try:
        with connect(url.replace("redis://", "redis://noscan:pw@")) as user:
            found = {ref for chunk in Engine(user, registry.create_systems()).discover() for ref in chunk}
            assert found == {Ref("timeout_sets", "todos")}
    finally:
        client.execute_command("ACL", "DELUSER", "noscan")


def test_a_system_that_was_requested_reports_that_it_is_denied(narrow: Redis) -> None:
    engine = Engine(narrow, [registry.create_system("safe_pop:queue=crawl")])
    with pytest.raises(Denied, match="NOPERM|denie"):
        engine.take_snapshot(Focus((engine.resolve_or_discover("crawl"),)))


@pytest.mark.parametrize("name", OTHERS)
def test_no_queue_is_claimed_by_keys_of_another_type_without_an_option(client: Redis, name: str) -> None:
    keys = (
        "readytasklist",
        "delayedtaskset",
        "__REDIS_SCHED_JOBS__a",
        "__REDIS_SCHED_QUEUED__a",
        "todos",
        "in_progress",
    )
    plant(
        client,
        dict.fromkeys(
            (*keys, "orizuru:consumers", "orizuru:heartbeats", "orizuru:consumers:c:unacked", "q", "q:done"), "a string"
        ),
    )
    [unasked] = [each for each in registry.create_systems() if each.name == name]
    engine = Engine(client, [unasked])
    assert [ref for chunk in engine.discover() for ref in chunk] == []


# ── inspections ──────────────────────────────────────────────────────────────────────────────────────────────


def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that lets the engine's time pass."""
    now = [1000.0]
    monkeypatch.setattr(engine_module, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def test_a_queue_is_inspected_once_in_ten_seconds_and_its_findings_stay_meanwhile(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_by = clock(monkeypatch)
    client.zadd("delayedtaskset", {"task": 1.8e12})
    engine = dispatcher(client)
    sha = engine.systems["dispatcher"].script("faults").sha.encode()
    kinds = []
    with record_socket_writes(monkeypatch) as writes:
        for seconds in (0, 2, FAULTS_INTERVAL_S - 2.1, 0.2):
            pass_by(seconds)
            if seconds == 2:
                client.delete("delayedtaskset")
            [queue] = engine.take_snapshot(Focus((READY,))).queues
            kinds.append([finding.kind for finding in queue.findings])
    assert [write.count(sha) for write in writes if b"EVAL" in write].count(1) == 2
    assert kinds == [["mixed-units"]] * 3 + [[]]


def test_a_tick_inspects_twenty_queues_at_most_those_first_that_waited_longest(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_by = clock(monkeypatch)
    topics = [f"t{n:02}" for n in range(MAX_PROBES + 5)]
    for topic in topics:  # an id without a body is a ghost
        client.zadd(f"__REDIS_SCHED_QUEUED__{topic}", {"a": 1e12})
    engine = Engine(client, [registry.create_system("redisched")])
    focus = Focus(tuple(Ref("redisched", topic) for topic in topics))

    def list_ghost_queues() -> set[str]:
        queues = engine.take_snapshot(focus).queues
        return {queue.name for queue in queues if any(finding.kind == "ghost" for finding in queue.findings)}

    first = list_ghost_queues()
    assert len(first) == MAX_PROBES
    pass_by(1)
    assert list_ghost_queues() == set(topics)  # the rest had never been looked at
    for topic in topics:
        client.delete(f"__REDIS_SCHED_QUEUED__{topic}")
    pass_by(FAULTS_INTERVAL_S - 0.5)
    assert list_ghost_queues() == set(topics) - first  # ten seconds are over for the first alone


def test_a_key_of_another_type_is_one_finding_however_many_scripts_meet_it(client: Redis) -> None:
    plant(client, {"crawl": "a string", "crawl:done": {"a"}})
    engine = Engine(client, [registry.create_system("safe_pop:queue=crawl")])
    [queue] = engine.take_snapshot(Focus((Ref("safe_pop", "crawl"),))).queues
    assert [(finding.kind, finding.keys) for finding in queue.findings] == [("wrong-type", ("crawl",))]
    assert (queue.counts, queue.workers) == ((), None)
    with pytest.raises(WrongType, match="crawl holds a string"):
        list(engine.scan_jobs(Ref("safe_pop", "crawl"), "ready", lambda _job: True))


def test_an_id_in_a_remedy_is_quoted_for_the_shell(client: Redis) -> None:
    client.zadd("__REDIS_SCHED_QUEUED__a b", {"$(reboot)": 1e12})
    engine = Engine(client, [registry.create_system("redisched")])
    [ghost] = [each for each in engine.collect_findings([Ref("redisched", "a b")]) if each.kind == "ghost"]
    assert "such as $(reboot)" in ghost.text
    assert "rqtui act delete 'redisched:a b' '$(reboot)'" in ghost.remedy


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────


def reaper(engine: Engine, *refs: Ref, **options: object) -> Callable[[], object]:
    return build_round("reap", engine.client, engine.systems, lambda: refs, **options)  # type: ignore[arg-type]


def test_a_value_that_is_called_like_an_argument_goes_to_the_next_call(client: Redis) -> None:
    """timeout_sets walks its set by a cursor, which no key holds."""
    client.sadd("in_progress", *range(3000))
    engine = Engine(client, [registry.create_system("timeout_sets:todos=todos")])
    work = reaper(engine, Ref("timeout_sets", "todos"), limit=10)
    asked = []
    original = engine.systems["timeout_sets"].build_call

    def call(name: str, queue: str, args: dict[str, object], *rest: object) -> scripts.Call:
        asked.append(args.get("cursor"))
        return original(name, queue, args, *rest)  # type: ignore[arg-type]

    engine.systems["timeout_sets"].build_call = call  # type: ignore[method-assign,assignment]
    rounds = [work() for _ in range(4)]
    answered = [dict(done.steps[0].values)["cursor"] for done in rounds]  # type: ignore[attr-defined]
    assert asked[0] is None
    assert asked[1:] == answered[:-1]
    assert len(set(answered)) > 1


def test_the_reply_more_causes_the_next_call_at_once(client: Redis) -> None:
    client.sadd("in_progress", *range(30_000))
    engine = Engine(client, [registry.create_system("timeout_sets:todos=todos")])
    done = reaper(engine, Ref("timeout_sets", "todos"), limit=10)()
    [step] = done.steps  # type: ignore[attr-defined]
    assert (step.moved, bool(step.values["more"])) == (0, True)
    assert (done.is_full, done.wait_s) == (True, 0.0)  # type: ignore[attr-defined]


def test_a_refusal_by_one_queue_does_not_block_the_others(client: Redis) -> None:
    client.zadd("__REDIS_SCHED_RESERVED__mail", {"late": 1e12})
    client.hset("__REDIS_SCHED_JOBS__mail", "late", "1")
    plant(client, {"__REDIS_SCHED_QUEUED__bad": "a string", "__REDIS_SCHED_RESERVED__bad": Zset({"a": 1e12})})
    items: list[System] = [registry.create_system("redisched"), registry.create_system("orizuru")]
    engine = Engine(client, items)
    refs = Ref("orizuru", "orizuru"), Ref("redisched", "bad"), Ref("redisched", "mail")
    steps = {step.ref: step for step in reaper(engine, *refs)().steps}  # type: ignore[attr-defined]
    assert "source" in steps[refs[0]].error
    assert "__REDIS_SCHED_QUEUED__bad holds a string" in steps[refs[1]].error
    assert (steps[refs[2]].moved, steps[refs[2]].error) == (1, "")
    assert client.zscore("__REDIS_SCHED_QUEUED__mail", "late") is not None


def test_a_queue_that_could_not_be_counted_is_a_queue_without_numbers(client: Redis) -> None:
    plant(client, {"__REDIS_SCHED_QUEUED__bad": "a string"})
    [queue] = (
        Engine(client, [registry.create_system("redisched")]).take_snapshot(Focus((Ref("redisched", "bad"),))).queues
    )
    assert isinstance(queue, Queue)
    assert queue.verdict.severity == "critical"
    assert queue.count_in_place("due") == 0


BUGGY = """-- Break.
--
-- moves    ready ->
-- KEYS     ready  list  tasks
-- returns  moved
local nothing = nil
return nothing[KEYS[1]]
"""


def test_a_bug_in_a_script_is_an_error_and_not_a_lost_reply(any_client: Redis) -> None:
    buggy = scripts.parse_script(BUGGY, "lua/trials/buggy.lua")
    [found] = scripts.send_calls(any_client, [buggy.build_call({"ready": "tasks"})])
    assert isinstance(found, ServerError)
    assert not isinstance(found, Unknown | Unreachable)
    assert any_client.ping()  # the connection is fit for the next


@pytest.mark.parametrize(
    "name", [name for name in registry.list_system_names() if "faults" in registry.create_system(name).scripts]
)
def test_every_kind_that_faults_answers_has_words_and_no_other(name: str) -> None:
    system = registry.create_system(name)
    assert isinstance(system, ForeignSystem)
    code = system.scripts["faults"].source
    kinds = {kind.partition(":")[0] for kind in system.finding_texts}
    assert kinds
    assert all(f"'{kind}" in code for kind in kinds)
    assert all(
        fault.severity in ("info", "warning", "critical") and fault.text and fault.remedy
        for fault in system.finding_texts.values()
    )


def test_the_text_of_a_finding_has_the_word_for_one_job_or_for_several() -> None:
    text = "{number:job} {number:is|are} held"
    assert [text.format(number=Number(number)) for number in (1, 3)] == ["1 job is held", "3 jobs are held"]
