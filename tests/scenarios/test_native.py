"""The demo's scenarios on rqtui's own queues: one seed is one story, faults do what they say, nothing is ever lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from itertools import islice

import pytest
from redis import ConnectionError, Redis
from waiting import wait_until

from rqtui.client.native_keys import build_queue_keys
from rqtui.connection.embedded import EmbeddedServer, start_server
from rqtui.engine.loops import build_round
from rqtui.errors import ServerError, UsageError
from rqtui.model import Ref
from rqtui.scenarios import SCENARIOS, check_queue, run_headless
from rqtui.scenarios import find_scenario as by_name
from rqtui.scenarios.native_run import NativeRun
from rqtui.scenarios.pace import Pace
from rqtui.scenarios.producers import Producers
from rqtui.scenarios.scenario import CONTROLS, NativeScenario, choose_size
from rqtui.scripts import script as scripts
from rqtui.systems import registry

NAMES = sorted(name for name, story in SCENARIOS.items() if isinstance(story, NativeScenario))
NATIVE = scripts.load_scripts("native")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of each native scenario in turn."""
    return str(request.param)


def scenario(name: str) -> NativeScenario:
    """Return a native scenario by its name."""
    found = by_name(name)
    assert isinstance(found, NativeScenario)
    return found


def _counts(client: Redis, queue: str) -> dict[str, object]:
    return dict(scripts.run_call(client, NATIVE["counts"].build_call(build_queue_keys(queue))).values)


def _findings(client: Redis, queue: str) -> list[object]:
    return list(check_queue(client, queue))


# -- the plan: data from a seed -----------------------------------------------------------------------------------


def test_one_seed_gives_the_same_jobs_in_the_same_order(name: str) -> None:
    story = scenario(name)
    first, second = (list(islice(story.plan(7), 2_500)) for _ in range(2))
    assert first == second
    assert story.past(7) == story.past(7)
    assert list(islice(story.extra(7), 100)) == list(islice(story.extra(7), 100))


def test_another_seed_gives_other_jobs(name: str) -> None:
    story = scenario(name)
    assert list(islice(story.plan(7), 50)) != list(islice(story.plan(8), 50))


def test_jobs_arrive_in_order_with_ids_of_their_own(name: str) -> None:
    story = scenario(name)
    plan, extra = list(islice(story.plan(3), 3_000)), list(islice(story.extra(3), 500))
    past = [job for group in story.past(3) for job in group.jobs]
    ids = [arrival.job.id for arrival in (*plan, *extra)] + [job.id for job in past]
    assert len(set(ids)) == len(ids)
    assert [arrival.at_ms for arrival in plan] == sorted(arrival.at_ms for arrival in plan)
    assert {arrival.queue for arrival in (*plan, *extra)} == {plan.name for plan in story.queues}


def test_the_fate_of_an_attempt_follows_from_seed_job_and_attempt() -> None:
    story = scenario("poison")
    fates = [story.choose_attempt_outcome(1, "charge_card", b"job-%d" % n, 1) for n in range(400)]
    assert fates == [story.choose_attempt_outcome(1, "charge_card", b"job-%d" % n, 1) for n in range(400)]
    assert fates != [story.choose_attempt_outcome(2, "charge_card", b"job-%d" % n, 1) for n in range(400)]
    failed = sum(bool(fate.error) for fate in fates)
    assert 20 <= failed <= 130
    assert story.choose_attempt_outcome(1, "parse_upload", b"any", 1).kills
    assert not story.choose_attempt_outcome(1, "a job of your own", b"any", 1).error


def test_some_bodies_are_hostile_and_most_are_plain_json() -> None:
    bodies = [arrival.job.body for arrival in islice(scenario("poison").plan(1), 700)]
    assert any(b"\x1b[" in body for body in bodies)
    assert any(b"[bold red]" in body for body in bodies)
    assert any(b"password" in body for body in bodies)
    assert any(len(body) > 4_096 for body in bodies)
    assert Counter(body[:1] == b"{" for body in bodies)[True] > 600


def test_rush_is_sized_to_the_speed_of_the_server() -> None:
    rush = scenario("rush")
    assert choose_size(rush, 60_000) == 100_000
    assert choose_size(rush, 5_000) == 10_000
    assert choose_size(rush, 10) == 10_000
    assert choose_size(scenario("poison"), 10) is None


def test_an_unknown_scenario_is_refused_with_the_list_of_those_there_are() -> None:
    names = "incident, delays, onboarding, timeouts, consumers, latecomer, rq, celery, sidekiq, bullmq"
    with pytest.raises(UsageError, match=f"{names}, poison, rush, outage"):
        by_name("chaos")
    assert by_name("").name == "delays"


def test_the_strip_has_a_key_of_its_own_for_each_control() -> None:
    for story in SCENARIOS.values():
        shown = [control.key for control in story.controls]
        assert len(set(shown)) == len(shown)
        assert not set(shown) & set('12345,.:/?+-= "*[]<>pz')  # these have a meaning on the screens
        beats_apart = story.name in ("sidekiq", "celery")  # one that hangs still sends heartbeats
        absent = {"poison", "stall"} if beats_apart else {"poison"}
        assert {control.name for control in CONTROLS} - absent <= {control.name for control in story.controls}


# -- played on a server -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_headless_run_loses_nothing_and_breaks_nothing(name: str, client: Redis, url: str) -> None:
    found = run_headless(scenario(name), url, seed=5, seconds=2.5)
    assert found["findings"] == []
    assert found["lost"] == 0
    assert found["done"] > 0
    assert found["put"] == sum(queue["enqueued"] for queue in found["queues"])
    assert found["done"] == sum(queue["acked"] for queue in found["queues"])
    assert found["workers_lost"] >= 1
    assert client.smembers("rqtui:queues") == {queue["queue"].encode() for queue in found["queues"]}


@pytest.mark.slow
def test_headless_runs_with_one_seed_put_the_same_jobs(client: Redis, url: str) -> None:
    story = scenario("poison")
    runs = []
    for seed in (9, 9, 10):
        client.flushall()
        found = run_headless(story, url, seed=seed, seconds=1.2)
        runs.append((found["digest"], found["put"]))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_headless_run_works_on_every_server(any_client: Redis, any_server: EmbeddedServer) -> None:
    found = run_headless(scenario("poison"), any_server.url, seed=2, seconds=1.5)
    assert found["findings"] == []
    assert found["lost"] == 0
    assert found["dead"] >= 30
    assert found["server"]["title"].lower().startswith(any_server.family)


def test_the_job_of_a_killed_worker_comes_back_by_the_reaper(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        wait_until(lambda: any(worker.state == "busy" for worker in run.crew.workers), 10, "a worker is busy")
        queue = next(worker.queue for worker in run.crew.workers if worker.state == "busy")
        while not any(worker.queue == queue for worker in _kill_worker(run)):
            pass
        client.zadd(
            build_queue_keys(queue)["reserved"],
            {id: 1 for id in client.zrange(build_queue_keys(queue)["reserved"], 0, -1)},
        )
        reap = build_round("reap", client, {"native": registry.create_system("native")}, lambda: [Ref("native", queue)])
        assert reap().moved >= 1
    assert _findings(client, queue) == []


def _kill_worker(run: NativeRun) -> list[object]:
    before = list(run.crew.workers)
    run.kill_worker()
    return [worker for worker in before if worker not in run.crew.workers]


def test_a_stalled_worker_acks_too_late_and_is_refused(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        wait_until(lambda: any(worker.state == "busy" for worker in run.crew.workers), 10, "a worker is busy")
        assert "hangs" in run.stall_worker()
        [stalled] = [worker for worker in run.crew.workers if worker.state == "stalled"]
        assert run.compute_status().stalled == 1
        reserved = build_queue_keys(stalled.queue)["reserved"]
        client.zadd(reserved, {stalled.holds[0].id: 1})
        reap = build_round(
            "reap", client, {"native": registry.create_system("native")}, lambda: [Ref("native", stalled.queue)]
        )
        assert reap().moved >= 1
        stalled.wakes_s = time.monotonic()
        wait_until(lambda: run.compute_status().stale, 10, "the late ack was refused")
        assert run.compute_status().stalled == 0
    assert _findings(client, stalled.queue) == []


def test_a_poison_job_kills_its_workers_until_it_is_dead(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        run.set_speed(8)
        sent = run.send_poison()
        id = sent.split(" sent ")[0].encode()
        reap = build_round(
            "reap", client, {"native": registry.create_system("native")}, lambda: [Ref("native", "orders")]
        )

        def is_dead() -> bool:
            if client.zscore(build_queue_keys("orders")["reserved"], id):
                wait_until(lambda: not _is_held(run, id), 10, "its worker died of it")
                client.zadd(build_queue_keys("orders")["reserved"], {id: 1}, xx=True)
                reap()
            return client.zscore(build_queue_keys("orders")["dead"], id) is not None

        wait_until(is_dead, 20, "the poison job is dead", every_s=0.02)
        wait_until(lambda: run.compute_status().workers_lost >= 3, 10, "three workers died of it")
        wait_until(lambda: run.compute_status().workers >= 4, 10, "the dead workers were replaced")
    assert _findings(client, "orders") == []


def _is_held(run: NativeRun, id: bytes) -> bool:
    return any(lease.id == id for worker in list(run.crew.workers) for lease in worker.holds)


def test_poison_begins_with_dead_jobs_in_groups_of_errors(client: Redis, url: str) -> None:
    run = NativeRun(scenario("poison"), url, seed=1)
    run.prepare()
    page = scripts.run_call(
        client,
        NATIVE["page"].build_call(
            build_queue_keys("orders"), {"place": "dead", "offset": 0, "limit": 100, "body_bytes": 0}
        ),
    )
    assert len(page.rows) >= 20
    kinds = {row[-1].split(b":")[0] for row in page.rows}
    assert {b"TimeoutError", b"KeyError", b"ConnectionResetError"} <= kinds
    run.stop()
    assert _findings(client, "orders") == []


def test_a_second_run_on_the_same_redis_finds_its_jobs_there(client: Redis, url: str) -> None:
    for _ in range(2):
        found = run_headless(scenario("poison"), url, seed=4, seconds=0.5)
    assert found["findings"] == []
    assert found["lost"] == 0


def test_failing_jobs_succeed_once_the_code_is_fixed(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        assert "fixed" in run.press("fix")
        held = {lease.id for worker in list(run.crew.workers) for lease in worker.holds}
        wait_until(lambda: not any(_is_held(run, id) for id in held), what="what was begun before is over")
        failed = run.compute_status().failed
        run.send_poison()
        wait_until(lambda: run.compute_status().finished >= failed + 12, 15, "jobs are done")
        assert run.compute_status().failed == failed
        assert run.compute_status().workers_lost == 0


def test_workers_obey_an_operator(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        wait_until(lambda: client.hexists(build_queue_keys("webhooks")["workers"], "webhooks-1"), 10, "it beats")
        [word] = scripts.run_call(
            client, NATIVE["stop"].build_call(build_queue_keys("webhooks"), {}, [["webhooks-1"]])
        ).each
        assert word.word == "asked"
        wait_until(lambda: not any(w.name == "webhooks-1" for w in run.crew.workers), 10, "it ended")
        wait_until(
            lambda: not client.hexists(build_queue_keys("webhooks")["workers"], "webhooks-1"), 10, "it said goodbye"
        )


def test_every_control_answers_with_a_sentence(client: Redis, url: str) -> None:
    with NativeRun(scenario("poison"), url, seed=1) as run:
        assert "cut" not in {control.name for control in run.controls}  # this Redis is not the demo's own
        for control in run.controls:
            assert run.press(control.name)
        assert "left alone" in run.press("cut")
        assert run.compute_status().speed == 1.0


def test_a_cut_redis_comes_back_and_nothing_is_lost() -> None:
    with start_server("auto") as server:
        run = NativeRun(scenario("poison"), server.url, seed=1, server_pid=server.pid)
        with run:
            assert "does not answer" in run.cut_redis(3)
            assert run.compute_status().is_cut
            assert "already" in run.cut_redis(3)
            wait_until(lambda: not run.compute_status().is_cut, 5, "the cut ended")
            before = run.compute_status().finished
            wait_until(lambda: run.compute_status().finished > before, 15, "work goes on")
            run.cut_redis(60)
        with Redis.from_url(server.url) as client:  # stop() has let go of it
            assert client.ping()
            assert [found for queue in run.queues for found in _findings(client, queue)] == []


def test_redis_away_is_reported_and_survived() -> None:
    with start_server("auto") as server, NativeRun(scenario("poison"), server.url, seed=1) as run:
        wait_until(lambda: run.compute_status().put > 0, 10, "it began")
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: run.compute_status().error, 10, "the strip says why")
        assert run.press("add")


def test_a_server_that_ends_within_a_step_of_the_producers_is_an_outage_and_no_crash(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_words: object) -> None:
        raise ConnectionError("Connection closed by server.")

    monkeypatch.setattr(client, "sadd", ends)
    producers = Producers(scenario("rush"), 1, client, Pace())
    with pytest.raises(ServerError, match="closed"):
        producers.turn()
