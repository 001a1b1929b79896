"""The demo's scenarios on other systems: the originals play, rqtui's verbs mend, and every job is accounted for."""

from __future__ import annotations

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
from rqtui.connection.embedded import EmbeddedServer, embedded
from rqtui.engine.engine import Engine
from rqtui.engine.loops import Round, mover
from rqtui.model import Ref
from rqtui.scenarios import SCENARIOS, run_headless
from rqtui.scenarios.actors import Actor
from rqtui.scenarios.delays import DELAYS
from rqtui.scenarios.foreign import ForeignRun
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.originals import safe_pop
from rqtui.scenarios.pace import Pace
from rqtui.scenarios.stage import ForeignScenario, Stage
from rqtui.scenarios.timeouts import TIMEOUTS, Timeouts

FOREIGN = {name: story for name, story in SCENARIOS.items() if isinstance(story, ForeignScenario)}
SYSTEMS = {
    "delays": "dispatcher",
    "onboarding": "redisched",
    "timeouts": "timeout_sets",
    "consumers": "orizuru",
    "latecomer": "safe_pop",
    "rq": "rq",
}


class FewTimeouts(Timeouts):
    """The same with 500 items, so that a test is over soon."""

    items = 500
    speed = 8.0


FEW = replace(TIMEOUTS, stage=FewTimeouts, acts=((0.05, "kill"), (0.1, "stall"), (0.1, "add")))


@pytest.fixture(params=sorted(FOREIGN))
def story(request: pytest.FixtureRequest) -> ForeignScenario:
    """Each scenario in turn; `timeouts` a small one."""
    found = FOREIGN[str(request.param)]
    return FEW if found is TIMEOUTS else found


def _stage(story: ForeignScenario, seed: int) -> Stage:
    return story.stage(story, seed, Pace(), Ledger())


def _move(verb: str, client: Redis, run: ForeignRun) -> Round:
    layout = run.stage.layout
    return mover(verb, client, {layout.name: layout}, lambda: [Ref(layout.name, run.stage.queue)])()


def _busy(run: ForeignRun, prefix: str = "") -> Actor:
    def found() -> Actor | None:
        return next((a for a in list(run.crew) if a.state == "busy" and a.name.startswith(prefix)), None)

    actor = wait_until(found, 10, f"a worker {prefix} is at work")
    assert actor is not None
    return actor


# -- the plan: errands and fates from a seed ------------------------------------------------------------------------


def test_each_system_of_others_has_its_scenario() -> None:
    assert {name: story.layout.partition(":")[0] for name, story in FOREIGN.items()} == SYSTEMS


def test_one_seed_gives_the_same_errands_and_another_seed_others(story: ForeignScenario) -> None:
    first, second, other = (list(islice(_stage(story, seed).plan(), 600)) for seed in (7, 7, 8))
    assert first == second
    assert first != other
    assert list(islice(_stage(story, 7).extra(), 40)) == list(islice(_stage(story, 7).extra(), 40))


def test_errands_come_in_order_and_no_job_is_put_twice(story: ForeignScenario) -> None:
    stage = _stage(story, 3)
    plan, extra = list(islice(stage.plan(), 3_000)), list(islice(stage.extra(), 300))
    assert [errand.at_ms for errand in plan] == sorted(errand.at_ms for errand in plan)
    put = [errand.job for errand in (*plan, *extra) if errand.verb == "put"]
    assert len(set(put)) == len(put)


def test_delays_begins_with_jobs_due_over_a_minute() -> None:
    first = list(islice(_stage(DELAYS, 1).plan(), 250))
    assert all(errand.at_ms == 0 for errand in first)
    assert max(errand.delay_ms for errand in first) > 55_000
    assert sum(errand.delay_ms < 30_000 for errand in first) > 90


def test_onboarding_puts_three_days_ahead_and_takes_back_only_what_it_has_put() -> None:
    errands = list(islice(_stage(FOREIGN["onboarding"], 1).plan(), 2_000))
    put: set[bytes] = set()
    for errand in errands:
        if errand.verb == "delete":
            assert errand.job in put
        put.add(errand.job)
    assert all(errand.job.startswith(b"need_some_help_email_") for errand in errands)
    assert sum(errand.delay_ms == 3 * 24 * 3600 * 1000 for errand in errands) > 500
    assert sum(errand.verb == "delete" for errand in errands) > 300


def test_fates_follow_from_seed_item_and_attempt_and_some_outlast_the_lock() -> None:
    one, same, other = (Timeouts(TIMEOUTS, seed, Pace(), Ledger()) for seed in (1, 1, 2))
    items = [b"%d" % n for n in range(10_000)]
    fates = [one.fate(item, 1) for item in items]
    assert fates == [same.fate(item, 1) for item in items]
    assert fates != [other.fate(item, 1) for item in items]
    assert 120 < sum(late_s > 1.0 for _, late_s in fates) < 300
    assert not any(late_s for late_s in (one.fate(item, 3)[1] for item in items))


# -- the ledger and the actors --------------------------------------------------------------------------------------


def test_the_ledger_names_what_is_lost_and_what_stands_twice() -> None:
    ledger = Ledger()
    for job in (b"done", b"waits", b"lost", b"twice", b"fell", b"withdrawn"):
        ledger.note(ledger.put, job)
    ledger.finish(b"done")
    ledger.finish(b"done")
    ledger.note(ledger.fell, b"fell")
    ledger.note(ledger.withdrawn, b"withdrawn")
    balance = ledger.balance({b"waits": ["ready"], b"twice": ["ready", "done"]})
    assert balance.lost == (b"lost",)
    assert balance.two_places == {b"twice": ["ready", "done"]}
    assert (balance.again, balance.standing) == (1, 2)


def _actor(client: Redis, run_s: float, fell: list[bytes]) -> tuple[Actor, list[str]]:
    said: list[str] = []

    def make(actor: Actor):  # type: ignore[no-untyped-def]
        def turn() -> float:
            actor.work(b"job", run_s, falls=True)
            said.append("worked")
            return 5.0

        return turn

    return Actor("worker-1", client, Pace(), make, fell.append), said


def test_a_killed_actor_says_no_more_and_one_that_is_dismissed_finishes_first(url: str) -> None:
    fell: list[bytes] = []
    for order, expected in (("kill", []), ("dismiss", ["worked"])):
        actor, said = _actor(connect(url), 60, fell)
        actor.start()
        wait_until(lambda actor=actor: actor.state == "busy", 5, "it works")
        getattr(actor, order)()
        actor.join()
        assert said == expected
    assert fell == [b"job"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_actor_whose_program_ends_by_a_mistake_is_dead_and_says_why(url: str) -> None:
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


def test_a_headless_run_accounts_for_every_job(story: ForeignScenario, client: Redis, url: str) -> None:
    found = run_headless(story, url, seed=5, seconds=4)
    assert found["findings"] == []
    assert found["errors"] == []
    assert found["lost"] == 0
    assert found["done"] > 0
    assert found["workers_lost"] == 1
    assert found["put"] == sum(found[part] for part in ("done", "standing", "withdrawn", "lost_with_workers"))
    [queue] = found["queues"]
    if story.name != "latecomer":  # there the original leaves entries of finished jobs for the next pop
        counted = Counter({place: number for place, number in queue["counted"].items() if number})
        assert counted.total() == sum(queue["standing"].values())


def test_headless_runs_with_one_seed_put_the_same_jobs(story: ForeignScenario, client: Redis, url: str) -> None:
    digests = []
    for seed in (9, 9, 10):
        client.flushall()
        stop = threading.Event()
        found = run_headless(story, url, seed=seed, seconds=0.6, stop=stop)
        digests.append((found["digest"], found["put"]))
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_what_is_put_follows_from_the_length_however_late_the_producer_is(client: Redis, url: str) -> None:
    found = []
    for at_least in (1, 8):
        client.flushall()
        run = ForeignRun(FOREIGN["consumers"], url)
        with run:
            wait_until(lambda run=run, least=at_least: run.status().finished >= least, 10, "it goes on for a while")
            run.halt(12.0)
            found.append((run.ledger.digest, run.status().put))
    assert found[0] == found[1]
    assert found[0][1] > 80


def test_delays_plays_on_every_server(any_client: Redis, any_server: EmbeddedServer) -> None:
    found = run_headless(DELAYS, any_server.url, seed=2, seconds=3)
    assert (found["findings"], found["lost"], found["errors"]) == ([], 0, [])
    assert found["dispatched"] >= 5
    assert found["server"]["title"].lower().startswith(any_server.family)


def test_timeouts_ends_with_every_item_in_done_and_none_elsewhere(client: Redis, url: str) -> None:
    found = run_headless(FEW, url, seed=1)
    assert client.smembers("done") == {b"%d" % n for n in range(1, 501)}
    assert client.scard("todos") == client.scard("in_progress") == 0
    assert found["late"] > 0
    assert found["reaped"] >= found["late"]
    assert found["jobs_s"] > 0
    assert found["findings"] == []


def test_timeouts_ends_after_the_seconds_that_were_asked_for(client: Redis, url: str) -> None:
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


def test_without_a_reaper_late_items_stay_and_the_check_says_so(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FewTimeouts, "longest_s", 6.0)
    monkeypatch.setattr("rqtui.scenarios.movers.mover", lambda *_: lambda: Round(wait_s=1.0))
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
        assert run.status().speed == 1.0


def test_a_worker_that_is_added_works_too(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        assert "6 workers" in run.press("add")
        assert run.status().workers == 6
        wait_until(lambda: client.sismember("orizuru:consumers", "resizer-6"), 10, "it has registered")


def test_a_burst_puts_many_jobs_at_once(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["onboarding"], url) as run:
        before = run.status().put
        assert run.press("burst") == "100 jobs sent"
        wait_until(lambda: run.status().put >= before + 100, 10, "they are put")


def test_speed_makes_work_go_faster(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        for _ in range(3):
            run.press("faster")
        assert run.status().speed == 8.0
        wait_until(lambda: run.status().finished >= 30, 8, "much is done soon")


def test_without_a_dispatcher_due_jobs_stay_and_the_original_moves_them_too(client: Redis, url: str) -> None:
    with ForeignRun(DELAYS, url) as run:
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time() - 1) >= 5, 10, "jobs are overdue")
        assert run.status().finished == 0
        overdue = client.zcount("delayedtaskset", 0, time.time() - 1)
        assert _move("dispatch", client, run).moved >= overdue
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time()) >= 1, 10, "another is due")
        assert "ten at a time" in run.press("original")
        wait_until(lambda: client.zcount("delayedtaskset", 0, time.time() - 3) == 0, 10, "the original moves them")
        wait_until(lambda: run.status().finished >= 3, 10, "workers do them")


def test_a_job_dies_with_its_worker_where_there_is_no_lease(client: Redis, url: str) -> None:
    with ForeignRun(DELAYS, url) as run:
        wait_until(lambda: _move("dispatch", client, run).moved, 10, "jobs are ready")
        held = _busy(run).holds
        assert "it is lost" in run.press("kill")
        wait_until(lambda: run.ledger.fell.total() == 1, 5, "the ledger has it")
        (fell,) = run.ledger.fell
        run.halt()
        assert fell not in run.stage.standing(client)
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
        wait_until(lambda: run.ledger.finished[dead.holds] == 1, 20, "somebody else sends it")


def test_what_a_dead_consumer_held_is_given_back(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["consumers"], url) as run:
        actor = _busy(run)
        while actor.state != "dead":
            run.press("kill")
        actor.join()
        key = f"orizuru:consumers:{actor.name}:processing"
        [held] = client.lrange(key, 0, -1)
        assert _move("reap", client, run).moved == 0  # it was heard of a moment ago
        client.delete(f"orizuru:consumers:{actor.name}:heartbeat")
        client.hset("orizuru:heartbeats", actor.name, int(time.time() * 1000) - 60_000)
        assert _move("reap", client, run).moved == 0  # its list may have changed a moment ago
        since_ms, _space, list_as_it_is = client.hget("rqtui:{orizuru}:seen", actor.name).partition(b" ")
        client.hset("rqtui:{orizuru}:seen", actor.name, b"%d %b" % (int(since_ms) - 60_000, list_as_it_is))
        assert _move("reap", client, run).moved >= 1
        assert client.llen(key) == 0
        assert held == actor.holds


def test_the_original_collector_puts_rejected_jobs_where_nobody_reads(client: Redis, url: str) -> None:
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
        assert run.ledger.words["undecodable"] == 1


def test_rq_leaves_what_a_killed_worker_held_and_what_is_due_until_somebody_comes(client: Redis, url: str) -> None:
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


def test_a_bad_deploy_fails_jobs_of_rq_for_three_reasons_until_it_is_fixed(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["rq"], url) as run:
        wait_until(lambda: client.zcard("rq:failed:default") >= 200, 10, "they failed before")
        failed = client.zrange("rq:failed:default", 0, -1)
        results = [client.xrevrange(b"rq:results:%b" % id, count=1)[0][1] for id in failed]
        errors = [zlib.decompress(b64decode(told[b"exc_string"])).decode().splitlines()[-1] for told in results]
        assert {error.partition(":")[0] for error in errors} == {
            "KeyError",
            "OSError",
            "smtplib.SMTPServerDisconnected",
        }
        assert not run.status().is_fixed
        run.press("fix")
        assert run.status().is_fixed
        ref = Ref("rq", "default")
        engine = Engine(client, [run.stage.layout])
        requeued = engine.page(ref, "failed", 0, 40).jobs
        assert all(outcome.moved for outcome in engine.act("requeue", ref, requeued))
        run.set_speed(8)
        wait_until(lambda: all(run.ledger.finished[job.id] for job in requeued), 30, "all of them go well now")


def test_a_late_ack_of_ours_is_refused(client: Redis, url: str) -> None:
    with ForeignRun(FOREIGN["latecomer"], url) as run:
        _busy(run, "rqtui")
        assert "rqtui" in run.press("stall")
        [late] = [actor for actor in run.crew if actor.state == "stalled"]
        assert run.status().stalled == 1
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
        assert len(run.ledger.balance(run.stage.standing(client)).lost) == 1


def test_the_cleaner_of_the_original_gives_back_what_has_no_lock(client: Redis, url: str) -> None:
    with ForeignRun(FEW, url) as run:
        client.sadd("in_progress", 777_777)
        run.press("clean")
        wait_until(lambda: not client.sismember("in_progress", 777_777), 10, "the cleaner took it")


# -- Redis away -----------------------------------------------------------------------------------------------------


def test_a_cut_redis_comes_back_and_nothing_is_lost() -> None:
    with embedded("auto") as server, ForeignRun(FOREIGN["consumers"], server.url, server_pid=server.pid) as run:
        assert "cut" in {control.name for control in run.controls}
        _busy(run)
        assert "does not answer" in run.cut_redis(3)
        assert run.status().is_cut
        wait_until(lambda: not run.status().is_cut, 5, "the cut ended")
        before = run.status().finished
        wait_until(lambda: run.status().finished > before, 15, "work goes on")
        run.halt()
        with Redis.from_url(server.url) as client:
            assert run.ledger.balance(run.stage.standing(client)).lost == ()


def test_redis_away_is_said_and_survived(story: ForeignScenario) -> None:
    with embedded("auto") as server, ForeignRun(story, server.url) as run:
        _busy(run) if story.name != "delays" else None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: run.status().error, 10, "the strip says why")
        assert run.press("add")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("demo-")], 10, "all actors ended")
