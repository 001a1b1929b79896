"""Test the demo's scenarios on other systems: the originals play, rqtui's verbs repair, every job is accounted for."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
from redis import Redis
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, start_server
from rqtui.engine.engine import Engine
from rqtui.engine.loops import Round, build_round
from rqtui.model import Ref
from rqtui.scenarios import SCENARIOS, run_headless
from rqtui.scenarios.actors import Actor
from rqtui.scenarios.delays import DELAYS
from rqtui.scenarios.foreign_run import ForeignRun
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.originals import safe_pop
from rqtui.scenarios.pace import Pace
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage
from rqtui.scenarios.timeouts import TIMEOUTS, Timeouts

FOREIGN = {name: story for name, story in SCENARIOS.items() if isinstance(story, ForeignScenario)}
SYSTEMS = {
    "delays": "dispatcher",
    "onboarding": "redisched",
    "timeouts": "timeout_sets",
    "consumers": "orizuru",
    "latecomer": "safe_pop",
    "rq": "rq",
    "celery": "celery",
    "sidekiq": "sidekiq",
    "bullmq": "bullmq",
}


class FewTimeouts(Timeouts):
    """The same with 500 items, so that a test is over soon."""

    items = 500
    speed = 8.0


FEW = replace(TIMEOUTS, stage=FewTimeouts, acts=((0.05, "kill"), (0.1, "stall"), (0.1, "add")))


@pytest.fixture(params=sorted(FOREIGN))
def story(request: pytest.FixtureRequest) -> ForeignScenario:
    """Return each scenario in turn, `timeouts` with a small size."""
    found = FOREIGN[str(request.param)]
    return FEW if found is TIMEOUTS else found


SOME_STORIES = pytest.mark.parametrize(
    "story",
    [name if name in ("rq", "timeouts") else pytest.param(name, marks=pytest.mark.matrix) for name in sorted(FOREIGN)],
    indirect=True,
)


def _stage(story: ForeignScenario, seed: int) -> Stage:
    return story.stage(story, seed, Pace(), Ledger())


def _move(verb: str, client: Redis, run: ForeignRun) -> Round:
    system = run.stage.system
    return build_round(verb, client, {system.name: system}, lambda: [Ref(system.name, run.stage.queue)])()


def _busy(run: ForeignRun, prefix: str = "") -> Actor:
    def find_busy_worker() -> Actor | None:
        return next((a for a in list(run.crew) if a.state == "busy" and a.name.startswith(prefix)), None)

    actor = wait_until(find_busy_worker, 10, f"a worker {prefix} is at work")
    assert actor is not None
    return actor


# -- the plan: commands and fates from a seed ------------------------------------------------------------------------


def test_each_system_of_others_has_its_scenario() -> None:
    assert {name: story.system.partition(":")[0] for name, story in FOREIGN.items()} == SYSTEMS


def test_one_seed_gives_the_same_commands_and_another_seed_others(story: ForeignScenario) -> None:
    first, second, other = (list(islice(_stage(story, seed).plan_commands(), 600)) for seed in (7, 7, 8))
    assert first == second
    assert first != other
    assert list(islice(_stage(story, 7).plan_burst(), 40)) == list(islice(_stage(story, 7).plan_burst(), 40))


def test_commands_come_in_order_and_no_job_is_put_twice(story: ForeignScenario) -> None:
    stage = _stage(story, 3)
    plan, extra = list(islice(stage.plan_commands(), 3_000)), list(islice(stage.plan_burst(), 300))
    assert [command.at_ms for command in plan] == sorted(command.at_ms for command in plan)
    put = [command.job for command in (*plan, *extra) if command.verb == "put"]
    assert len(set(put)) == len(put)


def test_delays_begins_with_jobs_due_over_a_minute() -> None:
    first = list(islice(_stage(DELAYS, 1).plan_commands(), 250))
    assert all(command.at_ms == 0 for command in first)
    assert max(command.delay_ms for command in first) > 55_000
    assert sum(command.delay_ms < 30_000 for command in first) > 90


def test_onboarding_puts_three_days_ahead_and_takes_back_only_what_it_has_put() -> None:
    commands = list(islice(_stage(FOREIGN["onboarding"], 1).plan_commands(), 2_000))
    put: set[bytes] = set()
    for command in commands:
        if command.verb == "delete":
            assert command.job in put
        put.add(command.job)
    assert all(command.job.startswith(b"need_some_help_email_") for command in commands)
    assert sum(command.delay_ms == 3 * 24 * 3600 * 1000 for command in commands) > 500
    assert sum(command.verb == "delete" for command in commands) > 300


def test_fates_follow_from_seed_item_and_attempt_and_some_outlast_the_lock() -> None:
    one, same, other = (Timeouts(TIMEOUTS, seed, Pace(), Ledger()) for seed in (1, 1, 2))
    items = [b"%d" % n for n in range(10_000)]
    fates = [one.choose_work_time(item, 1) for item in items]
    assert fates == [same.choose_work_time(item, 1) for item in items]
    assert fates != [other.choose_work_time(item, 1) for item in items]
    assert 120 < sum(late_s > 1.0 for _, late_s in fates) < 300
    assert not any(late_s for late_s in (one.choose_work_time(item, 3)[1] for item in items))


# -- the ledger and the actors --------------------------------------------------------------------------------------


def test_the_ledger_names_lost_jobs_and_jobs_in_two_places() -> None:
    ledger = Ledger()
    for job in (b"done", b"waits", b"lost", b"twice", b"fell", b"withdrawn"):
        ledger.count(ledger.put, job)
    ledger.finish(b"done")
    ledger.finish(b"done")
    ledger.count(ledger.lost_with_worker, b"fell")
    ledger.count(ledger.withdrawn, b"withdrawn")
    balance = ledger.compute_balance({b"waits": ["ready"], b"twice": ["ready", "done"]})
    assert balance.lost == (b"lost",)
    assert balance.two_places == {b"twice": ["ready", "done"]}
    assert (balance.duplicates, balance.unfinished) == (1, 2)


def _actor(client: Redis, run_s: float, fell: list[bytes]) -> tuple[Actor, list[str]]:
    actual: list[str] = []

    def make(actor: Actor):  # type: ignore[no-untyped-def]
        def turn() -> float:
            actor.work(b"job", run_s, is_lost_with_worker=True)
            actual.append("worked")
            return 5.0

        return turn

    return Actor("worker-1", client, Pace(), make, fell.append), actual


def test_a_killed_actor_reports_nothing_more_and_a_dismissed_one_finishes_first(url: str) -> None:
    fell: list[bytes] = []
    for order, expected in (("kill", []), ("dismiss", ["worked"])):
        actor, actual = _actor(connect(url), 60, fell)
        actor.start()
        wait_until(lambda actor=actor: actor.state == "busy", 5, "it works")
        getattr(actor, order)()
        actor.join()
        assert actual == expected
    assert fell == [b"job"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_actor_whose_program_ends_by_a_mistake_is_dead_and_reports_the_error(url: str) -> None:
    def make(_actor: Actor):  # type: ignore[no-untyped-def]
        def turn() -> float:
            raise KeyError("mistake")

        return turn

    actor = Actor("worker-1", connect(url), Pace(), make, lambda _job: None)
    actor.start()
    actor.join()
    assert actor.state == "dead"
    assert "mistake" in actor.error


# -- played without a screen ----------------------------------------------------------------------------------------


@pytest.mark.slow
@SOME_STORIES
def test_a_headless_run_accounts_for_every_job(story: ForeignScenario, client: Redis, url: str) -> None:
    found = run_headless(story, url, seed=5, seconds=4)
    assert found["findings"] == []
    assert found["errors"] == []
    assert found["lost"] == 0
    assert found["done"] > 0
    assert found["workers_lost"] == 1
    ends = ("done", "standing", "withdrawn", "given_up", "lost_with_workers")
    assert found["put"] == sum(found[end] for end in ends)
    [queue] = found["queues"]
    if story.name != "latecomer":  # there the original leaves entries of finished jobs for the next pop
        counted = Counter({place: number for place, number in queue["counted"].items() if number})
        assert counted.total() == sum(queue["standing"].values())


@pytest.mark.slow
@SOME_STORIES
def test_headless_runs_with_one_seed_put_the_same_jobs(story: ForeignScenario, client: Redis, url: str) -> None:
    digests = []
    for seed in (9, 9, 10):
        client.flushall()
        stop = threading.Event()
        found = run_headless(story, url, seed=seed, seconds=0.6, stop=stop)
        digests.append((found["digest"], found["put"]))
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_planned_jobs_depend_on_the_length_and_not_on_a_late_producer(client: Redis, url: str) -> None:
    found = []
    for at_least in (1, 8):
        client.flushall()
        run = ForeignRun(FOREIGN["consumers"], url)
        with run:
            wait_until(
                lambda run=run, least=at_least: run.compute_status().finished >= least, 10, "it goes on for a while"
            )
            run.halt(12.0)
            found.append((run.ledger.digest, run.compute_status().put))
    assert found[0] == found[1]
    assert found[0][1] > 80


def test_delays_plays_on_every_server(any_client: Redis, any_server: EmbeddedServer) -> None:
    found = run_headless(DELAYS, any_server.url, seed=2, seconds=3)
    assert (found["findings"], found["lost"], found["errors"]) == ([], 0, [])
    assert found["dispatched"] >= 5
    assert found["server"]["title"].lower().startswith(any_server.family)


@pytest.mark.slow
def test_timeouts_ends_with_every_item_in_done_and_none_elsewhere(client: Redis, url: str) -> None:
    found = run_headless(FEW, url, seed=1)
    assert client.smembers("done") == {b"%d" % n for n in range(1, 501)}
    assert client.scard("todos") == client.scard("in_progress") == 0
    assert found["late"] > 0
    assert found["reaped"] >= found["late"]
    assert found["jobs_s"] > 0
    assert found["findings"] == []


@pytest.mark.slow
def test_timeouts_ends_after_the_seconds_that_were_requested(client: Redis, url: str) -> None:
    found = run_headless(TIMEOUTS, url, seed=1, seconds=0.8)
    assert 0 < client.scard("done") < 10_000
    assert (found["put"], found["findings"], found["lost"]) == (10_000, [], 0)


@pytest.mark.matrix
@pytest.mark.timeout(200)
def test_timeouts_plays_ten_thousand_items_with_forty_workers_to_their_end(client: Redis, url: str) -> None:
    found = run_headless(TIMEOUTS, url, seed=1)
    assert client.scard("done") == 10_000
    assert client.scard("todos") == client.scard("in_progress") == 0
    assert found["late"] > 100
    assert (found["findings"], found["lost"]) == ([], 0)


@pytest.mark.slow
def test_without_a_reaper_late_items_stay_and_the_check_reports_it(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewTimeouts, "longest_s", 6.0)
    monkeypatch.setattr("rqtui.scenarios.headless.build_round", lambda *_: lambda: Round(wait_s=1.0))
    found = run_headless(FEW, url, seed=1)
    [finding] = found["findings"]
    assert finding["kind"] == "unfinished"
    assert client.scard("in_progress") > 0


def test_a_job_that_vanishes_is_called_lost(client: Redis, url: str) -> None:
    def steal() -> None:
        wait_until(lambda: client.zcard("delayedtaskset") > 100, 10, "jobs are delayed")
        client.zremrangebyrank("delayedtaskset", -1, -1)

    thief = threading.Thread(target=steal)
    thief.start()
    found = run_headless(DELAYS, url, seed=2, seconds=1.5)
    thief.join()
    assert found["lost"] == 1


# -- the strip ------------------------------------------------------------------------------------------------------


def test_every_control_answers_with_a_sentence(story: ForeignScenario, client: Redis, url: str) -> None:
    with ForeignRun(story, url) as run:
        assert "cut" not in {control.name for control in run.controls}  # this Redis is not the demo's own
        assert "poison" not in {control.name for control in run.controls}
        if story is DELAYS:
            wait_until(lambda: _move("dispatch", client, run).moved, 10, "jobs are ready")
        _busy(run)
        for control in run.controls:
            assert len(run.press(control.name)) > 6
        assert "left alone" in run.press("cut")
        assert run.compute_status().speed == 1.0


def test_a_worker_that_is_added_works_too(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        assert "6 workers" in run.press("add")
        assert run.compute_status().workers == 6
        wait_until(lambda: client.sismember("orizuru:consumers", "resizer-6"), 10, "it has registered")


def test_a_burst_puts_many_jobs_at_once(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["onboarding"], url) as run:
        before = run.compute_status().put
        assert run.press("burst") == "100 jobs sent"
        wait_until(lambda: run.compute_status().put >= before + 100, 10, "they are put")


def test_speed_makes_work_go_faster(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        for _ in range(3):
            run.press("faster")
        assert run.compute_status().speed == 8.0
        wait_until(lambda: run.compute_status().finished >= 30, 8, "much is done soon")


def test_without_a_dispatcher_due_jobs_stay_and_the_original_moves_them_too(client: Redis, url: str) -> None:
    with ForeignRun(DELAYS, url) as run:
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time() - 1) >= 5, 10, "jobs are overdue")
        assert run.compute_status().finished == 0
        overdue = client.zcount("delayedtaskset", 0, time.time() - 1)
        assert _move("dispatch", client, run).moved >= overdue
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time()) >= 1, 10, "another is due")
        assert "ten at a time" in run.press("original")
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time() - 3) == 0, 10, "the original moves them")
        wait_until(lambda: run.compute_status().finished >= 3, 10, "workers do them")


def test_a_job_dies_with_its_worker_where_there_is_no_lease(client: Redis, url: str) -> None:
    with ForeignRun(DELAYS, url) as run:
        wait_until(lambda: _move("dispatch", client, run).moved, 10, "jobs are ready")
        held = _busy(run).holds
        assert "it is lost" in run.press("kill")
        wait_until(lambda: run.ledger.lost_with_worker.total() == 1, 5, "the ledger has it")
        (fell,) = run.ledger.lost_with_worker
        run.halt()
        assert fell not in run.stage.read_places(client)
        assert held in run.ledger.put


def test_a_user_who_acts_takes_the_mail_back_by_its_id(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["onboarding"], url) as run:
        id = run.press("act").split(": ")[1].split(" ")[0]
        assert id.startswith("need_some_help_email_")
        wait_until(lambda: client.zscore("__REDIS_SCHED_QUEUED__onboarding", id) is None, 10, "it is gone")
        assert client.hget("__REDIS_SCHED_JOBS__onboarding", id) is None
        wait_until(lambda: run.ledger.withdrawn[id.encode()] == 1, 5, "the ledger has it")


def test_the_mail_of_a_killed_worker_is_due_again_when_its_lease_is_over(client: Redis, url: str) -> None:
    reserved = "__REDIS_SCHED_RESERVED__onboarding"
    with ForeignRun(FOREIGN["onboarding"], url) as run:
        _busy(run)
        run.press("kill")
        [dead] = [actor for actor in run.crew if actor.state == "dead"]
        dead.join()
        assert client.zscore(reserved, dead.holds) is not None
        client.zadd(reserved, {dead.holds: 1_700_000_000_000})
        assert _move("reap", client, run).moved >= 1
        wait_until(lambda: run.ledger.finished[dead.holds], 20, "somebody else sends it")


def test_jobs_of_a_dead_consumer_are_given_back(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        actor = _busy(run)
        while actor.state != "dead":
            run.press("kill")
        actor.join()
        key = f"orizuru:consumers:{actor.name}:processing"
        [held] = client.lrange(key, 0, -1)
        assert _move("reap", client, run).moved == 0  # its last heartbeat was a moment ago
        client.delete(f"orizuru:consumers:{actor.name}:heartbeat")
        client.hset("orizuru:heartbeats", actor.name, int(time.time() * 1000) - 60_000)
        assert _move("reap", client, run).moved == 0  # its list may have changed a moment ago
        since_ms, _space, list_as_it_is = client.hget("rqtui:{orizuru}:seen", actor.name).partition(b" ")
        client.hset("rqtui:{orizuru}:seen", actor.name, b"%d %b" % (int(since_ms) - 60_000, list_as_it_is))
        assert _move("reap", client, run).moved >= 1
        assert client.llen(key) == 0
        assert held == actor.holds


def test_the_original_collector_puts_rejected_jobs_where_no_consumer_reads(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        run.set_speed(8)

        def unacked() -> set[bytes]:
            keys = [f"orizuru:consumers:{actor.name}:unacked" for actor in run.crew]
            return {body for key in keys for body in client.lrange(key, 0, -1)}

        rejected = wait_until(unacked, 15, "something was rejected")
        run.press("collect")
        wait_until(lambda: not unacked() & rejected, 10, "the collector took it")
        processing = [client.lrange(f"orizuru:consumers:{actor.name}:processing", 0, -1) for actor in run.crew]
        assert rejected <= {body for bodies in processing for body in bodies}


def test_a_body_that_cannot_be_decoded_stays_in_processing(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        run.set_speed(8)
        run.press("undecodable")

        def stuck() -> bool:
            lists = [client.lrange(f"orizuru:consumers:{actor.name}:processing", 0, -1) for actor in run.crew]
            return any(body.startswith(b"\xc1") for bodies in lists for body in bodies)

        wait_until(stuck, 15, "its consumer left it there")
        wait_until(lambda: run.ledger.words["undecodable"] == 1, 15, "its consumer notes that")


def test_rq_leaves_what_a_killed_worker_held_and_what_is_due_until_another_program_moves_it(
    client: Redis, url: str
) -> None:
    with ForeignRun(FOREIGN["rq"], url) as run:
        actor = _busy(run)
        while actor.state != "dead":
            run.press("kill")
        actor.join()
        [member] = [each for each in client.zrange("rq:wip:default", 0, -1) if each.startswith(actor.holds)]
        _move("reap", client, run)
        assert client.zscore("rq:wip:default", member) is not None, "its lease is not over"
        client.zadd("rq:wip:default", {member: 1_700_000_000})
        client.delete(f"rq:worker:{actor.name}", f"rq:execution:{member.decode()}")
        assert _move("reap", client, run).moved >= 1
        assert client.zscore("rq:wip:default", member) is None

        wait_until(lambda: client.zcount("rq:scheduled:default", 0, time.time()) >= 24, 10, "reminders are overdue")
        assert "--with-scheduler" in run.press("scheduler")
        wait_until(lambda: not client.zcount("rq:scheduled:default", 0, time.time() - 5), 10, "it enqueues them")
        assert client.exists("rq:scheduler-lock:default")
        run.press("scheduler")
        wait_until(lambda: not client.exists("rq:scheduler-lock:default"), 10, "it gives its lock back")


def test_sidekiq_loses_what_a_killed_process_took_since_its_last_heartbeat_and_rqtui_saves_the_rest(
    client: Redis, url: str
) -> None:
    with ForeignRun(FOREIGN["sidekiq"], url) as run:
        identity = next(each for each in client.smembers("processes") if each.startswith(b"web-9"))
        held = [json.loads(json.loads(sentence)["payload"])["jid"] for sentence in client.hvals(identity + b":work")]
        assert len(held) == 3
        client.expire(identity, 60)  # as at a heartbeat; the last one is a while ago where the machine is busy
        _move("reap", client, run)
        assert client.hlen(identity + b":work") == 3, "it is not silent for 30 s yet"
        client.expire(identity, 60 - 31)
        assert _move("reap", client, run).moved == 3
        assert not client.exists(identity + b":work")
        actor = _busy(run)
        run.press("kill")
        wait_until(lambda: run.workers_lost == 1, 5, "it is dead")
        [dead] = [each for each in run.crew if each.state == "dead"]
        dead.join()
        standing = run.stage.read_places(client)
        assert ("work" in standing.get(dead.holds, ())) != bool(run.ledger.lost_with_worker[dead.holds])
        assert actor is dead or actor.state != "dead"


@pytest.mark.matrix
def test_the_pollers_of_sidekiq_lose_what_is_no_json_unless_it_is_killed_before(client: Redis, url: str) -> None:
    def overdue() -> int:
        return int(client.zcount("schedule", 0, time.time() - 60))

    for is_saved in (True, False):
        client.flushall()
        with ForeignRun(FOREIGN["sidekiq"], url) as run:
            wait_until(lambda: overdue() >= 21 and client.zcard("retry") >= 160, 10, "all stands as it did")
            [torn] = client.zrange("schedule", 0, 0)
            ref, engine = Ref("sidekiq", "default"), Engine(client, [run.stage.system])
            if is_saved:
                [job] = engine.fetch_page(ref, "schedule", 0, 1).jobs
                assert [outcome.word for outcome in engine.apply_verb("kill", ref, [job])] == ["moved"]
            assert "poll again" in run.press("poller")
            wait_until(lambda: not overdue(), 20, "what is due is queued")
            assert (client.zscore("dead", torn) is not None) == is_saved
            assert run.ledger.lost_with_worker[torn] == (not is_saved)
            run.press("fix")
            again = engine.fetch_page(ref, "dead", 0, 3).jobs
            fine = [job for job in again if job.name]
            assert all(outcome.moved for outcome in engine.apply_verb("requeue", ref, fine))
            run.set_speed(8)
            done = run.ledger.finished
            wait_until(lambda fine=fine, done=done: all(done[job.id] for job in fine), 60, "they go well now")


LOWEST, TEXT = "shop\x06\x169", b"rebuild-sitemap --now"  # it ends the worker that takes it


def _read_held_messages(client: Redis) -> dict[bytes, float]:
    """Return since when workers of Celery hold each message, by delivery tag."""
    return dict(client.zrange("unacked_index", 0, -1, withscores=True))


def _read_task(client: Redis, tag: bytes) -> bytes:
    raw = client.hget("unacked", tag)
    return json.loads(raw)[0]["headers"]["id"].encode() if raw else b""


def _held_now(client: Redis) -> int:
    """Return how many tasks without an ETA workers hold."""
    return sum(not json.loads(raw)[0]["headers"]["eta"] for raw in client.hvals("unacked"))


def _of_web_9(client: Redis) -> dict[bytes, bytes]:
    """Return the jobs that the killed worker held, by tag. Their visibility timeout starts again on a slow machine."""
    old = {tag: _read_task(client, tag) for tag, at_s in _read_held_messages(client).items() if at_s < time.time() - 30}
    assert len(old) == 3, "web-9 held them"
    client.zadd("unacked_index", dict.fromkeys(old, time.time()), xx=True)
    return old


@pytest.mark.slow
def test_celery_leaves_what_a_killed_worker_held_until_a_sweep_unless_rqtui_gives_it_back(
    client: Redis, url: str
) -> None:
    with ForeignRun(FOREIGN["celery"], url) as run:
        client.lrem(LOWEST, 0, TEXT)
        run.set_speed(8)
        old = _of_web_9(client)
        _move("reap", client, run)
        assert old.keys() <= _read_held_messages(client).keys(), "the visibility timeout is not over"
        client.zadd("unacked_index", dict.fromkeys(old, time.time() - 61), xx=True)
        assert _move("reap", client, run).moved == 3
        wait_until(lambda: all(run.ledger.finished[id] for id in old.values()), 60, "workers run them")
        _busy(run)
        run.press("kill")
        assert run.workers_lost == 1
        run.halt()
        assert run.ledger.compute_balance(run.stage.read_places(client)).lost == (TEXT,), "we deleted it"
        assert run.ledger.lost_with_worker.total() <= 1, "what it ran, unless that acks late"


@pytest.mark.slow
def test_a_task_of_celery_due_after_the_visibility_timeout_runs_twice_unless_it_is_extended(
    client: Redis, url: str
) -> None:
    with ForeignRun(FOREIGN["celery"], url) as run:
        client.lrem(LOWEST, 0, TEXT)
        engine, ref = Engine(client, [run.stage.system]), Ref("celery", "shop")
        twice, once = (b"5f0c9a52-0d2c-4f5e-9a3e-2f1f7a0b6c1%d" % n for n in range(2))
        body = json.dumps(["shop.remind", ["ada@example.org"], {}, 0]).encode()
        for id in (twice, once):
            run.stage.send_command(ProducerCommand(0, id, body, delay_ms=12_000))
        run.set_speed(8)

        def tags() -> dict[bytes, bytes]:
            return {id: tag for tag in _read_held_messages(client) if (id := _read_task(client, tag)) in (twice, once)}

        found = wait_until(lambda: len(tags()) == 2 and tags(), 10, "workers wait with them")
        since_s = time.time() - 61
        client.zadd("unacked_index", dict.fromkeys(found.values(), since_s), xx=True)
        [job] = [job for job in engine.fetch_page(ref, "eta", 0, 200).jobs if job.id == once]
        assert [outcome.word for outcome in engine.apply_verb("extend", ref, [job])] == ["extended"]
        run.press("add")  # a worker sweeps as it starts
        wait_until(
            lambda: _read_held_messages(client).get(found[twice], 0.0) > since_s + 30, 10, "it was given out again"
        )
        wait_until(lambda: run.ledger.attempts[twice] == run.ledger.finished[twice] == 2, 30, "it ran twice")
        wait_until(lambda: run.ledger.finished[once], 30, "the other one ran")
        assert run.ledger.attempts[once] == 1
        assert run.ledger.compute_balance(run.stage.read_places(client)).duplicates >= 1


def test_a_worker_of_celery_exits_on_what_is_no_json_unless_it_is_deleted_before(client: Redis, url: str) -> None:
    for is_saved in (True, False):
        client.flushall()
        with ForeignRun(FOREIGN["celery"], url) as run:
            engine, ref = Engine(client, [run.stage.system]), Ref("celery", "shop")
            wait_until(lambda run=run: _read_held_messages(client) and _busy(run), 10, "workers are there")
            assert "no JSON" in run.press("raw")
            raw = TEXT + b" 1"
            if is_saved:
                wait_until(lambda raw=raw: raw in client.lrange("shop", 0, -1), 10, "it stands in the queue")
                [job] = [job for job in engine.fetch_page(ref, "queue", 0, 200).jobs if job.member == raw]
                assert [outcome.word for outcome in engine.apply_verb("delete", ref, [job])] == ["moved"]
                assert raw not in client.lrange("shop", 0, -1)
                assert run.workers_lost == run.ledger.lost_with_worker[raw] == 0
                continue
            client.lrem(LOWEST, 0, TEXT)
            run.press("fix")
            run.set_speed(8)
            wait_until(lambda run=run, raw=raw: run.ledger.lost_with_worker[raw], 60, "a worker took it")
            wait_until(lambda run=run: run.workers_lost == 1, 5, "it has exited")
            assert all(actor.error == "" for actor in run.crew)


@pytest.mark.slow
def test_charges_fail_on_celery_until_the_gateway_answers_and_both_are_reported(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["celery"], url) as run, client.pubsub(ignore_subscribe_messages=True) as ear:
        ear.psubscribe("celery-task-meta-*", "/*.celeryev/*")
        run.set_speed(8)
        received: dict[str, list[dict[str, object]]] = {"results": [], "events": []}

        def read_messages() -> None:
            while message_fields := ear.get_message():
                message = json.loads(message_fields["data"])
                if message_fields["channel"].startswith(b"celery-task-meta-"):
                    received["results"].append(message)
                else:
                    body = json.loads(b64decode(message["body"]))
                    received["events"] += body if isinstance(body, list) else [body]

        def has(part: str, **fields: object) -> bool:
            read_messages()
            return any(all(each.get(name) == value for name, value in fields.items()) for each in received[part])

        wait_until(lambda: has("results", status="FAILURE"), 60, "a charge has failed for good")
        wait_until(lambda: has("results", status="RETRY"), 60, "another one is tried again")
        assert has("events", type="task-failed", exception="TimeoutError('cards.example.org did not answer in 5 s')")
        wait_until(lambda: has("events", type="worker-heartbeat", hostname="celery@web-2"), 10, "workers beat")
        run.press("fix")
        failed = [each["task_id"] for each in received["results"] if each["status"] == "RETRY"]
        wait_until(lambda: all(run.ledger.finished[str(id).encode()] for id in failed), 60, "those go well now")
        assert not any(run.ledger.given_up[str(id).encode()] for id in failed)


def test_workers_of_celery_obey_the_orders_of_rqtui(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["celery"], url) as run:
        engine, ref = Engine(client, [run.stage.system]), Ref("celery", "shop")
        client.zrem("unacked_index", *(gone := _of_web_9(client)))
        client.hdel("unacked", *gone)
        # A worker that starts after the pause consumes, as in Celery itself.
        wait_until(lambda: len(run.stage._workers) == run.stage.workers and _held_now(client) > 5, 10, "all have begun")
        assert [outcome.word for outcome in engine.apply_verb("pause", ref, [])] == ["paused"]
        run.set_speed(8)
        wait_until(lambda: not _held_now(client), 60, "they have run what they held")
        waiting = client.llen("shop")
        [job] = engine.fetch_page(ref, "queue", 0, 1).jobs
        assert [outcome.word for outcome in engine.apply_verb("cancel", ref, [job])] == ["asked"]
        assert [outcome.word for outcome in engine.apply_verb("resume", ref, [])] == ["resumed"]
        wait_until(lambda: run.ledger.withdrawn[job.id], 30, "its turn has come, and it was revoked")
        assert waiting and not run.ledger.attempts[job.id]
        assert json.loads(client.get(b"celery-task-meta-" + job.id))["status"] == "REVOKED"


def test_a_flower_with_a_shorter_timeout_gives_out_again_what_runs(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["celery"], url) as run:
        wait_until(lambda: _held_now(client) > 8, 10, "workers are there")
        held = {tag: _read_task(client, tag) for tag in _read_held_messages(client)}
        since_s = round(time.time() - 6)
        client.zadd("unacked_index", dict.fromkeys(held, since_s), xx=True)
        assert "5 s" in run.press("flower")
        wait_until(lambda: since_s not in _read_held_messages(client).values(), 20, "all of it was given out")
        wait_until(lambda: any(run.ledger.attempts[id] > 1 for id in held.values()), 60, "some of it runs twice")


def _as_it_stood(client: Redis) -> None:
    """Wait until the producer planted the first jobs of BullMQ's demo: waiting jobs come after the failed ones."""
    wait_until(lambda: client.zscore("bull:shop:failed", "label-61028"), 10, "the last label has failed")


def test_rqtui_repairs_what_an_upgrade_a_killed_worker_and_a_storm_left_in_bullmq(client: Redis, url: str) -> None:
    p, ref = "bull:shop:", Ref("bullmq", "shop")
    with ForeignRun(FOREIGN["bullmq"], url) as run:
        engine = Engine(client, [run.stage.system])
        _as_it_stood(client)
        held = [id for id in client.lrange(f"{p}active", 0, -1) if client.hget(f"{p}{id.decode()}", "pb") == b"web-9"]
        assert len(held) == 3
        assert _move("reap", client, run).moved == 3
        assert client.llen(f"{p}paused") == 24, "no worker looks there"
        assert [outcome.word for outcome in engine.apply_verb("resume", ref, [])] == ["resumed"]
        assert not client.exists(f"{p}paused")
        run.press("fix")
        run.set_speed(8)
        labels = [job for job in engine.fetch_page(ref, "failed", 0, 400).jobs if job.id.startswith(b"label-")]
        assert len(labels) == client.zcard(f"{p}waiting-children") == 5
        assert all(outcome.moved for outcome in engine.apply_verb("requeue", ref, labels))
        done = run.ledger.finished
        parcels = [b"parcel" + job.id.removeprefix(b"label") for job in labels]
        wait_until(lambda: all(done[id] for id in (*held, *parcels)), 60, "workers do the rest")


def test_a_script_with_bullmq_5_loses_what_was_added_while_it_paused_unless_rqtui_resumes(
    client: Redis, url: str
) -> None:
    p, ref = "bull:shop:", Ref("bullmq", "shop")
    for is_saved in (True, False):
        client.flushall()
        with ForeignRun(FOREIGN["bullmq"], url) as run:
            engine = Engine(client, [run.stage.system])
            _as_it_stood(client)
            engine.apply_verb("resume", ref, [])
            assert "BullMQ 5 paused" in run.press("old")
            wait_until(lambda: client.hexists(f"{p}meta", "paused"), 10, "it is paused")
            wait_until(lambda: client.llen(f"{p}wait"), 20, "a job was added meanwhile")
            waits = client.lrange(f"{p}wait", 0, -1)
            if is_saved:
                assert [outcome.word for outcome in engine.apply_verb("resume", ref, [])] == ["resumed"]
            run.press("old")
            if is_saved:
                run.set_speed(8)
            known = run.ledger.attempts if is_saved else run.ledger.lost_with_worker
            what = "workers run them" if is_saved else "they are in no place"
            wait_until(lambda known=known, waits=waits: all(known[id] for id in waits), 60, what)
            assert not (is_saved and any(run.ledger.lost_with_worker[id] for id in waits))


@pytest.mark.slow
def test_a_bad_deploy_fails_jobs_of_rq_for_three_reasons_until_it_is_fixed(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["rq"], url) as run:
        wait_until(lambda: client.zcard("rq:failed:default") >= 200, 10, "they failed before")
        failed = client.zrange("rq:failed:default", 0, -1)
        results = [client.xrevrange(b"rq:results:%b" % id, count=1)[0][1] for id in failed]
        errors = [zlib.decompress(b64decode(result[b"exc_string"])).decode().splitlines()[-1] for result in results]
        assert {error.partition(":")[0] for error in errors} == {
            "KeyError",
            "OSError",
            "smtplib.SMTPServerDisconnected",
        }
        assert not run.compute_status().is_fixed
        run.press("fix")
        assert run.compute_status().is_fixed
        ref = Ref("rq", "default")
        engine = Engine(client, [run.stage.system])
        requeued = engine.fetch_page(ref, "failed", 0, 40).jobs
        assert all(outcome.moved for outcome in engine.apply_verb("requeue", ref, requeued))
        run.set_speed(8)
        wait_until(lambda: all(run.ledger.finished[job.id] for job in requeued), 30, "all of them go well now")


def test_a_late_ack_of_ours_is_refused(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["latecomer"], url) as run:
        _busy(run, "rqtui")
        assert "rqtui" in run.press("stall")
        [late] = [actor for actor in run.crew if actor.state == "stalled"]
        assert run.compute_status().stalled == 1
        [entry] = [e for e in client.lrange("parcels", 0, -1) if e.startswith(late.holds + b"|")]
        client.lrem("parcels", 1, entry)
        client.rpush("parcels", entry)  # its turn has come
        other = safe_pop.Worker(client, "parcels", task_timeout_s=4, block_s=0, clock=lambda: time.time() + 60)
        while other.safe_pop() != late.holds:
            pass
        before = run.ledger.words["stale"]
        late.wake()
        wait_until(lambda: run.ledger.words["stale"] > before, 10, "its ack was refused")
        assert any(e.startswith(late.holds + b"|") for e in client.lrange("parcels", 0, -1))
        assert run.ledger.finished[late.holds] == 0


def test_a_crash_between_pop_and_push_loses_the_job_as_the_original_does(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["latecomer"], url) as run:
        run.press("crash")
        wait_until(lambda: any(actor.state == "dead" for actor in run.crew), 10, "it died in the gap")
        run.halt()
        assert len(run.ledger.compute_balance(run.stage.read_places(client)).lost) == 1


def test_the_cleaner_of_the_original_gives_back_what_has_no_lock(client: Redis, url: str) -> None:
    with ForeignRun(FEW, url) as run:
        client.sadd("in_progress", 777_777)
        run.press("clean")
        wait_until(lambda: not client.sismember("in_progress", 777_777), 10, "the cleaner took it")


# -- Redis away -----------------------------------------------------------------------------------------------------


def test_a_cut_redis_comes_back_and_nothing_is_lost() -> None:
    with start_server("auto") as server, ForeignRun(FOREIGN["consumers"], server.url, server_pid=server.pid) as run:
        assert "cut" in {control.name for control in run.controls}
        _busy(run)
        assert "does not answer" in run.cut_redis(3)
        assert run.compute_status().is_cut
        wait_until(lambda: not run.compute_status().is_cut, 5, "the cut ended")
        before = run.compute_status().finished
        wait_until(lambda: run.compute_status().finished > before, 15, "work goes on")
        run.halt()
        with Redis.from_url(server.url) as client:
            assert run.ledger.compute_balance(run.stage.read_places(client)).lost == ()


@pytest.mark.parametrize(
    "story",
    [name if name in ("rq", "timeouts") else pytest.param(name, marks=pytest.mark.matrix) for name in sorted(FOREIGN)],
    indirect=True,
)
def test_redis_away_is_reported_and_survived(story: ForeignScenario) -> None:
    with start_server("auto") as server, ForeignRun(story, server.url) as run:
        _busy(run) if story.name != "delays" else None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: run.compute_status().error, 10, "the strip says why")
        assert run.press("add")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("demo-")], 10, "all actors ended")
