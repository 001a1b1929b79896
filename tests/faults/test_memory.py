"""Test every verb on a Redis over its `maxmemory`: what needs memory is refused without a write, the rest works."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from queue_check import find_misplaced_jobs
from redis import Redis
from screens import run_on_event_loop, screen
from shell import shell, start_process
from waiting import wait_until

from rqtui.client import native_keys
from rqtui.client.leased_job import Job
from rqtui.client.queue import Queue
from rqtui.engine.health import server_rules
from rqtui.engine.loops import build_round
from rqtui.errors import ServerError
from rqtui.model import Ref
from rqtui.scripts.script import Script, run_call
from rqtui.systems import registry
from rqtui.testing.keyspace import dump
from rqtui.verbs import Verb

NATIVE = registry.create_system("native")
VERBS = [verb for verb in NATIVE.verbs() if not NATIVE.script(verb.name).read_only]
REASON = "maxmemory"


def fills(script: Script) -> bool:
    """Return whether a script, by its header, only adds jobs: such scripts are refused when memory is full."""
    return bool(script.moves) and not script.sources


@dataclass
class Full:
    """A queue with a job in every place and a worker, and the memory of its server, which is full or not."""

    client: Redis
    url: str
    change: Callable[[str, str], None]

    def build(self) -> None:
        """Build the same queue each time."""
        self.free()
        self.client.flushall()
        with Queue("mail", self.client) as queue:
            queue.put(1, id="held", priority=-1)
            [held] = queue.reserve(1, ttr=600, worker="w1")
            self.token = held.token
            run_call(self.client, queue.call("beat", {"worker": "w1", "ttl_ms": 600_000}))
            queue.put(2, id="ready")
            queue.put(3, id="later", delay="1h")
            queue.put(4, id="dead")
            queue.kill("dead")

    def fill(self) -> None:
        """Lower Redis's memory limit below its present use."""
        self.change("maxmemory", "1")

    def free(self) -> None:
        """There is no limit."""
        self.change("maxmemory", "0")

    def places(self) -> dict[str, list[bytes]]:
        """Return the ids by place."""
        keys = native_keys.build_queue_keys("mail")
        return {place.name: self.client.zrange(keys[place.name], 0, -1) for place in NATIVE.places}


@pytest.fixture
def full(client: Redis, url: str, settings: Callable[[str, str], None]) -> Iterator[Full]:
    full = Full(client, url, settings)
    full.build()
    yield full
    full.free()


# The shell -----------------------------------------------------------------------------------------------------------

# What each verb is asked for; without a line here it is asked for the job that is ready, or for the queue.
ASKED: dict[str, list[str]] = {
    **dict.fromkeys(("ack", "reject", "release", "extend", "cancel"), ["held"]),
    "promote": ["later"],
    "requeue": ["dead"],
    "purge": ["--place", "dead"],
    "reprioritise": ["ready", "--set", "priority=5"],
    "move": ["ready", "--set", "to_queue=slow"],
    "reschedule": ["ready", "--set", "delay_ms=60000"],
    "configure": ["--set", "ttr_ms=60000"],
    "beat": ["--set", "worker=w2", "--set", "ttl_ms=60000"],
    **dict.fromkeys(("quiet", "stop"), ["w1"]),
}
OTHER_WAYS = {  # verbs that `act` leaves to a command of their own
    "enqueue": ["put", "mail", "{}", "--id", "new"],
    "restore": ["undo"],
    "revert": ["undo"],
}


def command_for(verb: Verb) -> list[str]:
    takes_job = verb.scope == "job" and verb.name not in ASKED
    return ["act", verb.name, "mail", *ASKED.get(verb.name, ["ready"] if takes_job else []), "--yes", "--json"]


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.name not in OTHER_WAYS], ids=lambda verb: verb.name)
def test_a_verb_from_the_shell_does_over_maxmemory_what_it_does_otherwise(full: Full, verb: Verb) -> None:
    assert not fills(NATIVE.script(verb.name)), "a verb that fills needs a test of its own"

    def run_verb() -> tuple[int, list[str], dict[str, list[bytes]]]:
        ran = shell(full.url, *command_for(verb))
        assert "Traceback" not in ran.err and ran.out, ran
        return ran.code, [result["word"] for result in ran.json["results"]], full.places()

    expected = run_verb()
    assert expected[0] == 0, expected
    full.build()
    full.fill()
    assert run_verb() == expected
    assert find_misplaced_jobs(full.client, "mail") == []


def test_the_verbs_that_fill_are_those_with_tests_of_their_own() -> None:
    assert {verb.name for verb in VERBS if fills(NATIVE.script(verb.name))} == {"enqueue", "restore"}
    assert set(OTHER_WAYS) <= {verb.name for verb in VERBS}


def test_a_put_from_the_shell_is_refused_with_nothing_written(full: Full) -> None:
    before = dump(full.client)
    full.fill()
    for words in (OTHER_WAYS["enqueue"], ["put", "new-queue", "1"]):
        ran = shell(full.url, *words)
        assert ran.code == 3 and REASON in ran.err and "Traceback" not in ran.err
        assert dump(full.client) == before
    full.free()
    assert shell(full.url, *OTHER_WAYS["enqueue"]).code == 0


def test_an_undo_that_has_to_bring_a_job_back_is_refused_and_can_be_done_later(full: Full) -> None:
    assert shell(full.url, "act", "delete", "mail", "ready", "--yes").code == 0
    deleted = dump(full.client)
    full.fill()
    ran = shell(full.url, "undo")
    assert ran.code != 0 and REASON in ran.out + ran.err
    assert dump(full.client) == deleted
    full.free()
    assert shell(full.url, "undo").code == 0
    assert full.places()["ready"] == [b"ready"]


def test_an_undo_that_only_moves_continues(full: Full) -> None:
    assert shell(full.url, "act", "kill", "mail", "ready", "--yes").code == 0
    full.fill()
    assert shell(full.url, "undo").code == 0
    assert full.places()["ready"] == [b"ready"]


# Python --------------------------------------------------------------------------------------------------------------


def reserve_job(queue: Queue, full: Full) -> Job:
    return Job(queue, b"held", full.token, 1, 600_000, 5, b"", b"1", began_s=0.0)


REFUSED: dict[str, Callable[[Queue, Full], Any]] = {
    "put": lambda queue, full: queue.put(1, id="new"),
    "put_many": lambda queue, full: queue.put_many([{"body": n, "id": str(n)} for n in range(1500)]),
    "put_batches": lambda queue, full: list(queue.put_batches(range(5))),
    "Job.push": lambda queue, full: queue.reserve()[0].push(Queue("other", full.url)),
}
GOES_ON: dict[str, Callable[[Queue, Full], Any]] = {
    "reserve": lambda queue, full: [job.id for job in queue.reserve()],
    "pull": lambda queue, full: [job.id for job in queue.pull()],
    "consume": lambda queue, full: _drain_jobs(queue.consume(burst=True)),
    "consumer": lambda queue, full: _drain_jobs(queue.consumer(burst=True)),
    "ack_many": lambda queue, full: queue.ack_many(queue.reserve()),
    "delete": lambda queue, full: queue.delete("ready"),
    "cancel": lambda queue, full: queue.cancel("held"),
    "kill": lambda queue, full: queue.kill("ready", "why"),
    "promote": lambda queue, full: queue.promote("later"),
    "requeue": lambda queue, full: queue.requeue("dead"),
    "reschedule": lambda queue, full: queue.reschedule("ready", delay=60),
    "reprioritise": lambda queue, full: queue.reprioritise("ready", 7),
    "pause": lambda queue, full: queue.pause(),
    "resume": lambda queue, full: (queue.pause(), queue.resume()),
    "configure": lambda queue, full: queue.configure(ttr_ms=60_000),
    "counts": lambda queue, full: queue.counts()["ready"],
    "Job.ack": lambda queue, full: queue.reserve()[0].ack(),
    "Job.reject": lambda queue, full: queue.reserve()[0].reject("why"),
    "Job.release": lambda queue, full: queue.reserve()[0].release(),
    "Job.extend": lambda queue, full: queue.reserve()[0].extend(60),
}
NO_VERBS = {"call", "settle", "close", "Job.apply_extend_reply", "Job.record_outcome", "Job.settle_later"}


def _drain_jobs(jobs: Any) -> list[str]:
    ran = []
    for job in jobs:
        with job:
            ran.append(job.id)
    return ran


def test_every_method_of_the_api_is_tried() -> None:
    public = {name for name in _methods(Queue) if not name.startswith("_")}
    of_jobs = {f"Job.{name}" for name in _methods(Job) if not name.startswith("_")}
    assert public | of_jobs == {*REFUSED, *GOES_ON} | NO_VERBS


def _methods(of: type) -> list[str]:
    return [name for name, _method in inspect.getmembers(of, callable)]


@pytest.mark.parametrize("name", GOES_ON)
def test_a_method_does_over_maxmemory_what_it_does_otherwise(full: Full, name: str) -> None:
    with Queue("mail", full.url) as queue:
        expected = GOES_ON[name](queue, full), full.places()
        full.build()
        full.fill()
        assert (GOES_ON[name](queue, full), full.places()) == expected
    assert find_misplaced_jobs(full.client, "mail") == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_that_fills_is_refused_with_no_job_written(full: Full, name: str) -> None:
    with Queue("mail", full.url) as queue:
        queue.counts()
        full.fill()
        before = {place: set(ids) for place, ids in full.places().items()}
        with pytest.raises(ServerError, match=REASON) as caught:
            REFUSED[name](queue, full)
        assert "nothing was changed" in str(caught.value)
        after = {place: set(ids) for place, ids in full.places().items()}
        if name == "Job.push":  # it was reserved for that, and its lease continues
            before["ready"].remove(b"ready")
            before["reserved"].add(b"ready")
        assert after == before
        assert not full.client.exists(native_keys.build_queue_keys("other")["meta"])
    assert find_misplaced_jobs(full.client, "mail") == []


# Those who run all the time ------------------------------------------------------------------------------------------


def test_a_worker_drains_a_queue_that_fills_the_memory(full: Full) -> None:
    stop = threading.Event()
    with Queue("mail", full.url) as queue:
        queue.configure(max_attempts=1)
        queue.put_many({"body": n, "id": f"n{n}"} for n in range(300))
        queue.put("due", id="due", delay="300ms")
        full.fill()
        ran = []
        for job in queue.consume(ttr=1, stop=stop):
            with job:
                ran.append(job.id)
                if job.id == "n7":
                    raise ValueError("fails for good")
            if len(ran) == 302:
                stop.set()
        counts = queue.counts()
        assert sorted(ran) == sorted(["ready", "due", *(f"n{n}" for n in range(300))])
        assert (counts["ready"], counts["acked"], counts["dead"]) == (0, 301, 2)
    assert find_misplaced_jobs(full.client, "mail") == []


@pytest.mark.slow
def test_rqtui_work_and_the_loops_drain_it_too(full: Full) -> None:
    with Queue("mail", full.url) as queue:
        queue.put("due", id="due", delay="100ms")
        queue.put("lost", id="lost", priority=-5)
        queue.reserve(1, ttr="100ms")
        full.fill()
        for verb, done in (("dispatch", "scheduled"), ("reap", "reserved")):
            work = build_round(verb, full.client, {"native": NATIVE}, lambda: [Ref("native", "mail")])
            wait_until(lambda work=work: work().moved == 1, 20, done)
        worker = start_process(full.url, "work", "mail", "--burst", "--", "cat")
        assert worker.wait(60) == 0
        assert queue.counts()["acked"] == 3
    assert find_misplaced_jobs(full.client, "mail") == []


# It is said ----------------------------------------------------------------------------------------------------------


def test_the_commands_report_that_memory_is_full(full: Full) -> None:
    assert "memory is full" not in shell(full.url, "snapshot").err
    full.fill()
    for words in (["snapshot"], ["check", "mail"], ["jobs", "mail", "ready"], ["dispatch", "--once"]):
        ran = shell(full.url, *words)
        assert ran.code == 0 and ran.err.count("memory is full") == 1, (words, ran)
    ran = shell(full.url, "health", "--json")
    assert ran.code == 2
    assert {"memory"} == {one["kind"] for one in ran.json["findings"] if one["severity"] == "critical"}
    assert "memory is full" in shell(full.url, "redis").out


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_reports_that_memory_is_full_and_that_a_put_was_refused(full: Full) -> None:
    full.fill()
    async with screen(full.url, (120, 35)) as ui:
        await ui.until_toast("memory is full", "new jobs are refused")
        await ui.until_shown("memory is full")
        await ui.press("enter")
        before = full.places()
        await ui.press("N")
        await ui.until_shown("Enqueue a job")
        await ui.press("tab", "enter")
        await ui.until_shown("Redis is over its maxmemory", "nothing was changed")
        assert full.places() == before


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_policy_that_evicts_jobs_is_warned_about_at_connect(full: Full, policy: str) -> None:
    full.change("maxmemory", "1gb")
    full.change("maxmemory-policy", policy)
    ran = shell(full.url, "put", "mail", "1", "--json")
    assert ran.code == 0 and ran.json["results"]
    assert ran.err.count(f"maxmemory-policy is {policy}") == 1 and "deletes jobs when its memory is full" in ran.err
    assert policy in shell(full.url, "redis").out
    assert shell(full.url, "health").code == 2


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
def test_a_policy_that_evicts_no_jobs_is_not_warned_about(full: Full, policy: str) -> None:
    full.change("maxmemory", "1gb")
    full.change("maxmemory-policy", policy)
    assert shell(full.url, "put", "mail", "1").err.count("maxmemory") == 0
    assert [one.kind for one in server_rules.find_server_problems(full.client)] == ["no-persistence"]


def test_no_key_of_a_job_has_a_time_to_live_so_that_volatile_policies_never_evict_it(full: Full) -> None:
    with Queue("mail", full.url) as queue:
        queue.ack_many(queue.reserve())
    keys = full.client.keys("rqtui:*")
    assert len(keys) > 6
    assert {full.client.ttl(key) for key in keys} == {-1}


@run_on_event_loop
async def test_the_screen_warns_of_a_policy_that_evicts_jobs(full: Full) -> None:
    full.change("maxmemory", "1gb")
    full.change("maxmemory-policy", "allkeys-lru")
    async with screen(full.url, (120, 35)) as ui:
        await ui.until_toast("allkeys-lru", "deletes jobs when its")
        await ui.until_shown("CONFIG SET maxmemory-policy noeviction")


def test_a_user_without_the_right_to_check_is_neither_warned_nor_stopped(full: Full) -> None:
    full.client.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">pw", "~*", "+@all", "-info", "-config")
    full.fill()
    try:
        ran = shell(full.url.replace("://", "://poor:pw@"), "jobs", "mail", "ready")
        assert ran.code == 0 and "memory" not in ran.err
    finally:
        full.client.execute_command("ACL", "DELUSER", "poor")
