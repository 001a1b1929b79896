"""What redis-queue does wrong beside what rqtui does, findings in words, both at work at once, and planted faults."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter

import pytest
from families import run_in_one_test
from redis import Redis
from safe_pop_subject import (
    CLOCK,
    LATE,
    NOW_S,
    QUEUE,
    RUNNING,
    SAFE_POP,
    SCRIPTS,
    TIMEOUT_S,
    build_data_key,
    build_key,
    list_entries,
)

from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer
from rqtui.engine.engine import Engine
from rqtui.engine.loops import build_round
from rqtui.errors import Denied
from rqtui.model import Finding, Focus, Ref
from rqtui.scenarios.originals import safe_pop as original
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.systems import registry
from rqtui.testing import keyspace
from rqtui.testing.conformance import Planted
from rqtui.testing.subject import JobDatabase

REF = Ref("safe_pop", QUEUE)
DONE = build_key("done")


class Crash(Exception):
    """The end of a worker process."""


def run_script(client: Redis, name: str, rows: list[tuple[bytes, bytes]] | None = None, **args: object) -> Reply:
    script = SCRIPTS[name]
    clock = {arg.name: CLOCK[arg.name] for arg in script.args if arg.name in CLOCK}
    return scripts.run_call(client, script.build_call({"entries": QUEUE, "done": DONE}, {**clock, **args}, rows or ()))


def words(answer: Reply) -> list[str]:
    return [one.word for one in answer.each]


def reserve_jobs(client: Redis, at_s: int = NOW_S, **args: object) -> list[tuple[bytes, bytes]]:
    """Reserve jobs and return their ids and tokens."""
    return [
        (row[0], row[1]) for row in run_script(client, "reserve", **{"limit": 1, "now_ms": at_s * 1000, **args}).rows
    ]


class Their(original.Worker):
    """A worker of redis-queue at a time of the test; it never blocks, and remembers how long it would have slept."""

    def __init__(self, client: Redis, at_s: int = NOW_S, **options: object) -> None:
        self.at_s, self.naps = at_s, list[float]()
        defaults = {"block_s": 0, "has_data": False, "sleep": self.naps.append, "clock": lambda: self.at_s}
        super().__init__(client, QUEUE, **{**defaults, **options})  # type: ignore[arg-type]


def build_crash(where: str) -> object:
    def pause(gap: str) -> None:
        if gap == where:
            raise Crash

    return pause


# --- side by side ---------------------------------------------------------------------------------------------------


def test_a_crash_between_pop_and_push_loses_their_job_and_none_of_ours(client: Redis) -> None:
    client.lpush(QUEUE, "a")
    with pytest.raises(Crash):
        Their(client, pause=build_crash("popped, not yet pushed back")).step()
    assert list_entries(client) == []

    call = SCRIPTS["reserve"].build_call({"entries": QUEUE, "done": DONE}, {**CLOCK, "limit": 1})
    broken = JobDatabase(SAFE_POP, client).create_restricted_client("~*", "+@all", "-lrem")
    client.lpush(QUEUE, "a")
    with pytest.raises(Denied):  # the worst moment: the script itself cannot go on
        scripts.run_call(broken, call)
    assert b"a" in {entry.partition(b"|")[0] for entry in list_entries(client)}


def test_an_id_with_a_bar_kills_their_worker_and_is_lost_and_ours_passes_over_it(any_client: Redis) -> None:
    any_client.lpush(QUEUE, "a|b", "sound")
    with pytest.raises(ValueError, match="invalid literal"):
        Their(any_client).step()
    assert list_entries(any_client) == [b"sound"]

    any_client.rpush(QUEUE, "a|b")
    assert reserve_jobs(any_client) == [(b"sound", b"sound|%d" % NOW_S)]
    assert b"a|b" in list_entries(any_client)


def test_a_running_entry_at_the_pop_end_stalls_their_worker_and_not_ours(any_client: Redis) -> None:
    any_client.lpush(QUEUE, f"slow|{RUNNING}", "fresh")
    theirs = Their(any_client)
    assert theirs.step() == "asleep" and len(theirs.naps) == 1
    assert b"fresh" in list_entries(any_client)

    any_client.delete(QUEUE)
    any_client.lpush(QUEUE, f"slow|{RUNNING}", "fresh")
    assert reserve_jobs(any_client) == [(b"fresh", b"fresh|%d" % NOW_S)]


@pytest.mark.parametrize("by", ["reserve", "enqueue"])
def test_an_old_done_mark_swallows_their_later_job_and_not_ours(by: str, any_client: Redis) -> None:
    any_client.sadd(DONE, "a")
    any_client.lpush(QUEUE, "a")
    with pytest.raises(Crash):
        Their(any_client, pause=build_crash("worked, not yet marked")).step()
    assert Their(any_client, NOW_S + 60).step() == "idle"
    assert list_entries(any_client) == []  # no worker has finished it

    any_client.sadd(DONE, "a")
    if by == "enqueue":
        assert words(run_script(any_client, "enqueue", [(b"a", b"")])) == ["moved"]
        with pytest.raises(Crash):
            Their(any_client, pause=build_crash("worked, not yet marked")).step()
    else:
        any_client.lpush(QUEUE, "a")
        reserve_jobs(any_client)
    assert not any_client.exists(DONE)
    assert reserve_jobs(any_client, NOW_S + 60) == [(b"a", b"a|%d" % (NOW_S + 60))]


def test_a_late_worker_of_theirs_ends_the_next_ones_job_and_ours_gets_the_reply_stale(any_client: Redis) -> None:
    id = original.push_message(any_client, QUEUE, b"body")
    slow = Their(any_client, has_data=True)
    assert slow.safe_pop() == id
    assert Their(any_client, NOW_S + 60).safe_pop() == id  # the next one works on it now
    slow.mark_done(id)
    assert not any_client.exists(build_data_key(id)) and Their(any_client, NOW_S + 61).safe_pop() is None
    assert list_entries(any_client) == []

    any_client.flushall()
    id = original.push_message(any_client, QUEUE, b"body")
    (first,) = reserve_jobs(any_client)
    (second,) = reserve_jobs(any_client, NOW_S + 60)
    before = keyspace.dump(any_client)
    assert words(run_script(any_client, "ack", [first])) == ["stale"]
    assert keyspace.dump(any_client) == before
    assert words(run_script(any_client, "ack", [second])) == ["moved"]
    assert not any_client.keys()


@pytest.mark.parametrize("dialect", ["python", "clojure"])
def test_a_job_acked_while_their_worker_has_its_entry_in_its_hands_is_dropped_later(
    dialect: str, any_client: Redis
) -> None:
    any_client.lpush(QUEUE, "a")
    (lease,) = reserve_jobs(any_client)
    answers: list[str] = []

    def finish(gap: object) -> None:
        if not answers:
            answers.extend(words(run_script(any_client, "ack", [lease])))

    Their(any_client, NOW_S + 5, dialect=dialect, **{"pause" if dialect == "python" else "sleep": finish}).step()
    assert answers == ["marked"]
    assert Their(any_client, NOW_S + 60).step() == "idle"
    assert list_entries(any_client) == [] and reserve_jobs(any_client, NOW_S + 60) == []


def test_reaping_drops_what_was_finished_late_as_their_workers_would(any_client: Redis) -> None:
    any_client.lpush(QUEUE, f"a|{LATE}", f"b|{LATE}", f"a|{LATE + 1}", f"c|{RUNNING}")
    any_client.sadd(DONE, "a", "c")
    answer = run_script(any_client, "reap", limit=10)
    assert (answer.values["moved"], answer.values["ready"]) == (3, 2)
    assert list_entries(any_client) == [b"b", b"a", b"c|%d" % RUNNING] and any_client.smembers(DONE) == {b"c"}


def test_a_job_already_marked_done_is_reported_and_nothing_is_written(any_client: Redis) -> None:
    lease = [(b"a", b"a|%d" % RUNNING)]
    assert words(run_script(any_client, "ack", lease)) == ["marked"]
    before = keyspace.dump(any_client)
    assert words(run_script(any_client, "ack", lease)) == ["done"] and keyspace.dump(any_client) == before


def test_a_job_whose_data_expired_is_thrown_away_by_theirs_and_found_by_ours(any_client: Redis) -> None:
    id = original.push_message(any_client, QUEUE, b"body")
    original.push_message(any_client, QUEUE, b"another")
    any_client.delete(build_data_key(id))  # a day later
    kinds = {finding.kind: finding.ids for finding in findings(any_client)}
    assert kinds["ghost"] == (id,)
    assert Their(any_client, has_data=True).step() == "discarded"


def test_their_worker_takes_what_ours_put_gave_back_and_let_run_out(any_client: Redis) -> None:
    run_script(any_client, "enqueue", [(b"body", b"a"), (b"b", b"")])
    (a, b) = reserve_jobs(any_client, limit=2, ttr_ms=5000)
    assert Their(any_client, NOW_S + 5).safe_pop() is None  # a lease of 5 s is over in the sixth
    assert run_script(any_client, "release", [b]).each[0].word == "moved"
    assert Their(any_client, NOW_S + 5).safe_pop() == b"b"
    done: list[tuple[bytes, bytes]] = []
    late = Their(any_client, NOW_S + 6, has_data=True, work=lambda id, message: done.append((id, message)))
    assert late.step() == "finished" and done == [(b"a", b"body")]
    assert a[1] == b"a|%d" % (NOW_S + 5 - TIMEOUT_S)


def test_an_entry_that_was_finished_is_dropped_with_its_mark_by_both(any_client: Redis) -> None:
    for drop in (lambda: Their(any_client).step(), lambda: run_script(any_client, "reserve", limit=1)):
        any_client.lpush(QUEUE, f"a|{RUNNING}")
        any_client.sadd(DONE, "a")
        drop()
        assert not any_client.keys()


# --- findings -------------------------------------------------------------------------------------------------------


def findings(client: Redis) -> list[Finding]:
    own_engine = Engine(client, [registry.create_system(f"safe_pop:queue={QUEUE}")])
    (queue,) = own_engine.take_snapshot(Focus(queues=(REF,))).queues
    return [finding for finding in queue.findings if finding.kind != "expired-not-reaped"]


def test_a_sound_queue_has_no_findings(any_client: Redis) -> None:
    for number in range(5):
        original.push_message(any_client, QUEUE, b"%d" % number)
    Their(any_client, int(time.time()), has_data=True).step()
    assert any_client.exists(DONE) and findings(any_client) == []


@run_in_one_test(
    ("kind", "spec", "says"),
    [
        ("undecodable", {QUEUE: ["a|b", "c|"]}, "2 list entries neither"),
        (
            "orphan-done-mark",
            {QUEUE: ["a", f"b|{LATE}"], DONE: {"a", "b", "c"}},
            "2 done marks without a job",
        ),
        ("two-places", {QUEUE: ["a", f"a|{LATE}"]}, "1 id twice in the list, such as a:"),
        ("wrong-type", {QUEUE: ["a"], f"{QUEUE}:data:a": ["x"]}, f"such as {QUEUE}:data:a"),
        ("ghost", {QUEUE: [str(uuid.UUID(int=1)), "b"], f"{QUEUE}:data:b": "x"}, str(uuid.UUID(int=1))),
        ("stalled", {QUEUE: ["a", "b", f"slow|{2**33}"]}, "slow is in progress and is popped next"),
    ],
    ids=lambda value: value if isinstance(value, str) and "-" not in value[1:3] else "",
)
def test_each_fault_is_named_with_the_key_and_a_remedy(
    kind: str, spec: dict[str, object], says: str, any_client: Redis
) -> None:
    keyspace.plant(any_client, spec)
    (finding,) = [found for found in findings(any_client) if found.kind == kind]
    assert says in finding.text and finding.remedy and finding.keys and finding.keys[0].startswith(QUEUE)


def test_bodies_and_entries_of_a_megabyte_are_named(any_client: Redis) -> None:
    short, long = b"a" * (2**20 - 1), b"b" * 2**20
    any_client.lpush(QUEUE, "c", "d", short, short[:-12] + b"|%d" % RUNNING)
    any_client.mset({build_data_key(b"c"): short, build_data_key(b"d"): "1"})
    assert "oversized" not in [found.kind for found in findings(any_client)]
    any_client.set(build_data_key(b"c"), long + b"b")
    (found,) = [found for found in findings(any_client) if found.kind == "oversized"]
    assert "1 body of 1 MB or more, such as c:" in found.text and found.keys == (build_data_key(b"c"),)
    any_client.rpush(QUEUE, long, b"|" + long, long[:-11] + b"|%d" % RUNNING)  # fresh, unreadable, and running
    (found,) = [found for found in findings(any_client) if found.kind == "oversized"]
    assert "4 bodies of 1 MB or more, such as" in found.text


# --- at work at once ------------------------------------------------------------------------------------------------

JOBS = 1000


@pytest.mark.slow
def test_a_thousand_jobs_are_each_done_once_by_their_workers_and_ours_together(real_server: EmbeddedServer) -> None:
    url = real_server.url
    done: Counter[bytes] = Counter()
    stop, lock = threading.Event(), threading.Lock()
    errors: list[BaseException] = []

    def count(id: bytes, _message: bytes = b"") -> None:
        with lock:
            done[id] += 1

    def theirs(dialect: str) -> None:
        with connect(url) as client:
            worker = original.Worker(
                client, QUEUE, count, block_s=0, dialect=dialect, sleep=lambda _s: time.sleep(0.001)
            )
            while not stop.is_set():
                if worker.step() == "idle":
                    time.sleep(0.001)

    def ours() -> None:
        with connect(url) as client:
            system = registry.create_system(f"safe_pop:queue={QUEUE}")
            while not stop.is_set():
                answer = scripts.run_call(client, system.build_call("reserve", QUEUE, {"limit": 5}))
                rows = [{"id": row[0], "token": row[1]} for row in answer.rows]
                for row in rows:
                    count(row["id"])
                if rows:
                    scripts.run_call(client, system.build_call("ack", QUEUE, {}, rows))
                else:
                    time.sleep(0.001)

    def reaper() -> None:
        with connect(url) as client:
            work = build_round(
                "reap", client, {"safe_pop": registry.create_system(f"safe_pop:queue={QUEUE}")}, lambda: [REF]
            )
            while not stop.is_set():
                assert not work().steps[0].error
                time.sleep(0.01)

    def guarded(run: object, *args: str) -> None:
        try:
            run(*args)  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    with connect(url) as client:
        client.flushall()
        new_system = registry.create_system(f"safe_pop:queue={QUEUE}")
        jobs = [(theirs, "python"), (theirs, "clojure"), (ours,), (ours,), (reaper,)]
        threads = [threading.Thread(target=guarded, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for number in range(JOBS // 10):
            for _ in range(5):
                original.push_message(client, QUEUE, b"%d" % number)
            scripts.run_call(
                client,
                new_system.build_call("enqueue", QUEUE, {}, [{"body": b"x", "id": f"{number}-{n}"} for n in range(5)]),
            )
        until = time.monotonic() + 20
        # A worker may hold an entry that it will push back: its data or its mark exists meanwhile.
        while (len(done) < JOBS or client.keys()) and not errors and time.monotonic() < until:
            time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join(5)
        assert not errors, errors
        assert len(done) == JOBS and set(done.values()) == {1}
        assert not client.keys()  # neither an entry, nor data, nor a mark is left


# --- planted faults -------------------------------------------------------------------------------------------------


BACK = "redis.call('RPUSH', entries, unpack(back))\n"
LEAVE = "for _, job in ipairs(removals) do redis.call('LREM', entries, job[2], job[1]) end\n"
DROP = "    for _, entry in ipairs(removed) do redis.call('LREM', entries, -1, entry) end\n".lstrip()
FREE = "redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory\n"
FAULTS = (
    Planted("takes before it puts", "release", BACK + LEAVE, LEAVE + BACK, 2),
    Planted("forgets to take", "reserve", DROP, "", 2),
    Planted("forgets to put", "release", BACK, "", 2),
    Planted("puts into a wrong place", "reserve", "id .. '|' .. stamp", "id .. '|1'", 2),
    Planted("has no guard", "ack", "redis.call('SCARD', done)\n", "", 8),
    Planted("touches an undeclared key", "release", BACK, BACK + "redis.call('SET', 'stray', 1)\n", 3),
    Planted("takes a neighbour along", "extend", FREE, FREE + "redis.call('LPOP', entries)\n", 4),
    Planted("ignores its limit", "reap", "#at < limit", "#at < 1000", 11),
    Planted("takes the newest first", "pull", "for i = #window, 1, -1 do", "for i = 1, #window do", 11),
    Planted("drains without freeing first", "reap", FREE, "", 13),
)


@run_in_one_test("fault", FAULTS, ids=str)
def test_the_suite_catches_a_script_that(fault: Planted, client: Redis) -> None:
    assert fault.is_caught(SAFE_POP, client)
