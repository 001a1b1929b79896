"""A replica takes over, a server is demoted, loads, has lost its primary: nothing runs twice, all say so, all go on."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import aio_facade
import pytest
from fleet import Fleet, Server, kill_with_keys
from programs import RQTUI, Programs
from queue_check import find_misplaced_jobs
from screens import run_on_event_loop, screen
from shell import shell
from waiting import wait_until
from workers import Worker

from rqtui.client.queue import Queue
from rqtui.client.wakeup import WakeWaiter
from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop, build_round
from rqtui.errors import ReplicaOnly, ServerError, Unreachable
from rqtui.model import Ref
from rqtui.systems import registry

ENOUGH = 30.0


@pytest.fixture
def pair(fleet: Fleet) -> tuple[Server, Server]:
    """Start a primary and its replica."""
    primary = fleet.start()
    return primary, fleet.start(replicaof=primary)


def caught_up(primary: Server, replica: Server) -> bool:
    return replica.info("replication")["slave_repl_offset"] >= primary.info("replication")["master_repl_offset"]


# The lost tail -------------------------------------------------------------------------------------------------------


def test_after_a_lost_tail_no_token_is_handed_out_twice_and_late_acks_are_refused(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old, Queue("mail", replica.url) as new:
        old.put_many({"body": n, "id": str(n)} for n in range(60))
        held_jobs = old.reserve(20, ttr=600)
        wait_until(lambda: caught_up(primary, replica), ENOUGH)
        replica.replicate(None)  # what the primary does from here on is the tail that gets lost
        lost = [job for _ in range(4) for job in old.reserve(5, ttr=600)]
        old.put("tail", id="tail")
        for job in held_jobs[10:]:
            assert job.ack() == "moved"
        primary.kill()

        again = new.reserve(100, ttr=600)
        assert {job.id for job in lost} <= {job.id for job in again}
        handed_out = [int(job.token) for job in (*held_jobs, *lost)]
        assert min(int(job.token) for job in again) > max(handed_out)
        assert len({job.token for job in (*held_jobs, *lost, *again)}) == len(held_jobs) + len(lost) + len(again)
        words = [new.settle("ack", job, {}).each[0].word for job in lost]
        assert set(words) == {"stale"}
        assert new.counts()["acked"] == 0
        assert [new.settle("ack", job, {}).each[0].word for job in held_jobs] == ["moved"] * 20
        assert [new.settle("extend", job, {}).each[0].word for job in again] == ["extended"] * 40
        assert find_misplaced_jobs(replica.client, "mail") == []
        assert new.put("tail", id="tail").word == "moved"


def test_a_lease_of_a_job_that_the_new_primary_never_received_gets_the_reply_gone(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old, Queue("mail", replica.url) as new:
        replica.replicate(None)
        old.put("tail", id="tail")
        [job] = old.reserve()
        assert new.settle("ack", job, {}).each[0].word == "gone"
        assert new.settle("reject", job, {}, "error").each[0].word == "gone"
        assert find_misplaced_jobs(replica.client, "mail") == []


# Durable -------------------------------------------------------------------------------------------------------------


def test_a_durable_job_survives_the_promotion_of_the_replica(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old:
        assert old.put("dear", id="dear", durable=True).word == "moved"
    primary.kill()
    replica.replicate(None)
    with Queue("mail", replica.url) as new:
        assert [job.id for job in new.reserve()] == ["dear"]


def test_too_few_replicas_is_reported_and_the_job_is_there_and_may_be_put_again(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    replica.pause()
    with Queue("mail", primary.url) as queue:
        with pytest.raises(ServerError, match="in the queue, but only in this server's memory") as caught:
            queue.put("dear", id="dear", durable=True)
        assert "attach a replica" in str(caught.value)
        assert queue.counts()["ready"] == 1
        replica.resume()
        assert queue.put("dear", id="dear", durable=True).word == "exists"
        wait_until(lambda: replica.client.zcard("rqtui:{mail}:ready") == 1, ENOUGH)


def test_a_durable_put_reports_that_nothing_was_sent_when_the_server_is_away(fleet: Fleet) -> None:
    server = fleet.start()
    with Queue("mail", server.url) as queue:
        server.kill()
        with pytest.raises(Unreachable, match="Nothing was sent"):
            queue.put("dear", id="dear", durable=True)
        server.start()
        with pytest.raises(ServerError, match="only in this server's memory"):
            queue.put("dear", id="dear", durable=True)


# Read-only, loading, without its primary -----------------------------------------------------------------------------


def test_a_put_at_a_replica_is_refused_in_a_sentence_with_nothing_written(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", replica.url) as queue, pytest.raises(ReplicaOnly, match="read-only replica"):
        queue.put("x", id="x")
    ran = shell(replica.url, "put", "mail", "{}")
    assert ran.code == 3 and "replica" in ran.err and "Traceback" not in ran.err
    assert primary.client.dbsize() == 0


def test_a_worker_and_a_loop_continue_after_their_server_was_demoted_and_promoted(pair: tuple[Server, Server]) -> None:
    primary, other = pair
    ref, native = Ref("native", "mail"), registry.create_system("native")
    tomorrow = {"now_ms": int((time.time() + 86_400) * 1000)}  # the dispatcher's clock, so that a job is due for it
    with connect(primary.url) as client, Worker(primary.url) as worker, Queue("mail", primary.url) as queue:
        loop = Loop("dispatcher", build_round("dispatch", client, {"native": native}, lambda: [ref], args=tomorrow))
        queue.put(1, id="before")
        queue.put(3, id="later", delay="1h")
        wait_until(lambda: worker.ran == ["before"], ENOUGH)
        wait_until(lambda: queue.counts()["acked"] == 1, ENOUGH)
        wait_until(lambda: caught_up(primary, other), ENOUGH)
        other.replicate(None)
        primary.replicate(other)
        with pytest.raises(ReplicaOnly, match="replica"):
            queue.put(2, id="during")
        assert "replica" in loop.step().error
        primary.replicate(None)
        assert queue.put(2, id="during").word == "moved"
        assert loop.step().moved == 1
        wait_until(lambda: len(worker.ran) == 3 or worker.error, ENOUGH, "the worker's return")
        assert worker.error is None, f"the worker ended: {worker.error!r}"
        assert {*worker.ran} == {"before", "during", "later"}
    assert find_misplaced_jobs(primary.client, "mail") == []


def test_a_consumer_that_starts_at_a_read_only_replica_waits_for_its_promotion(
    kind: Any, pair: tuple[Server, Server], caplog: pytest.LogCaptureFixture
) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    with Worker(replica.url, kind=kind) as worker:
        wait_until(lambda: "read-only replica" in caplog.text or worker.error, ENOUGH, "the first refusal")
        assert worker.error is None, f"the worker ended: {worker.error!r}"
        assert worker.ran == []
        replica.replicate(None)
        wait_until(lambda: worker.ran == ["a"] or worker.error, ENOUGH, "the job")
        assert worker.error is None, f"the worker ended: {worker.error!r}"
    assert find_misplaced_jobs(replica.client, "mail") == []


def test_a_wait_for_work_at_a_read_only_replica_is_refused_as_a_temporary_state(pair: tuple[Server, Server]) -> None:
    _primary, replica = pair
    with Queue("mail", replica.url) as queue:
        for bell in (
            WakeWaiter(queue.client, queue.keys["wake"]),
            aio_facade.WakeWaiterFacade(queue.client, queue.keys["wake"]),
        ):
            with pytest.raises(ReplicaOnly, match="read-only replica"):
                bell.wait(1.0)
            bell.close()


@pytest.mark.slow
def test_rqtui_work_that_starts_at_a_read_only_replica_waits_for_its_promotion(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    with Programs(replica.url, tmp_path) as programs:
        work = programs.run("work", [*RQTUI, "work", "mail", "--", "true"])
        wait_until(
            lambda: "Trying again" in programs.read_output("work") or work.poll() is not None, ENOUGH, "a refusal"
        )
        assert work.poll() is None, programs.read_output("work")
        replica.replicate(None)
        wait_until(lambda: "a  acked" in programs.read_output("work", "out"), ENOUGH, "the job")
        assert programs.end(signal.SIGTERM)["work"].code == 0


@pytest.fixture
def loading(fleet: Fleet) -> Server:
    """Start a server that loads for some seconds, because each of its keys takes a while."""
    server = fleet.start(appendonly="yes", aof_use_rdb_preamble="yes", loading_process_events_interval_bytes="1024")
    with Queue("mail", server.url) as queue:
        queue.put("dear", id="dear")
    kill_with_keys(server, 1_500)
    server.words += ["--key-load-delay", "1000"]
    return server


def is_loading(server: Server) -> bool:
    return bool(server.info("persistence")["loading"])


def test_while_a_server_loads_a_put_reports_it_and_a_worker_waits_for_it(loading: Server) -> None:
    loading.start()
    assert is_loading(loading)
    with Worker(loading.url) as worker, Queue("mail", loading.url) as queue:
        with pytest.raises(Unreachable, match="still loading its data"):
            queue.put(2, id="during")
        ran = shell(loading.url, "snapshot")
        assert ran.code == 3 and "loading" in ran.err
        assert is_loading(loading), "it was to be loading all the while"
        wait_until(lambda: not is_loading(loading), ENOUGH)
        assert queue.put(2, id="during").word == "moved"
        wait_until(lambda: worker.ran == ["dear", "during"], ENOUGH)
        assert worker.error is None
    assert find_misplaced_jobs(loading.client, "mail") == []


@pytest.mark.slow
@run_on_event_loop
async def test_the_screen_waits_for_a_server_that_loads(loading: Server) -> None:
    loading.start()
    async with screen(loading.url, (120, 35)) as ui:
        await ui.until_shown("still loading its data")
        await ui.until(lambda: not is_loading(loading), "the end of loading", ENOUGH)
        await ui.press("r")
        await ui.until_shown("mail")


def test_a_replica_without_its_primary_answers_in_a_sentence_and_is_used_again_later(
    pair: tuple[Server, Server],
) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put("dear", id="dear")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    replica.client.config_set("replica-serve-stale-data", "no")
    with Worker(primary.url) as worker:
        wait_until(lambda: worker.ran == ["dear"], ENOUGH)
        primary.kill()
        wait_until(lambda: replica.info("replication")["master_link_status"] == "down", ENOUGH)
        with Queue("mail", replica.url) as queue:
            with pytest.raises(ServerError, match="lost its primary"):
                queue.put(1, id="during")
            with pytest.raises(ServerError, match="lost its primary"):
                queue.counts()
        ran = shell(replica.url, "snapshot")
        assert ran.code == 3 and "MASTERDOWN" in ran.err and "Traceback" not in ran.err


@run_on_event_loop
async def test_the_screen_reports_that_a_replica_has_lost_its_primary_and_continues(
    pair: tuple[Server, Server],
) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put("dear", id="dear")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    replica.client.config_set("replica-serve-stale-data", "no")
    async with screen(replica.url, (120, 35)) as ui:
        await ui.until_shown("mail")
        primary.kill()
        await ui.until(
            lambda: ui.app.session.connection_loss is not None and "MASTERDOWN" in ui.app.session.connection_loss.error,
            "the loss",
            ENOUGH,
        )
        replica.replicate(None)
        await ui.press("r")
        await ui.until(lambda: ui.app.session.connection_loss is None, "a picture", ENOUGH)


def test_a_read_only_replica_is_a_critical_finding(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    ran = shell(replica.url, "health", "--json")
    assert ran.code == 2 and ran.json["severity"] == "critical"
    assert "read-only-replica" in [found["kind"] for found in ran.json["findings"]]
    for words in (["health"], ["snapshot"], ["redis"]):
        ran = shell(replica.url, *words)
        assert "Redis is a read-only replica: it refuses every change" in ran.out + ran.err, words
    assert "replica" not in shell(primary.url, "health").out
    replica.client.config_set("replica-read-only", "no")
    assert "read-only-replica" not in shell(replica.url, "health").out, "this replica takes changes"


@pytest.mark.slow
@run_on_event_loop
async def test_the_header_reports_that_the_server_is_a_read_only_replica_until_it_is_promoted(
    pair: tuple[Server, Server],
) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put(1, id="a")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    for size in ((80, 24), (160, 45)):
        async with screen(replica.url, size) as ui:
            await ui.until_shown("mail")
            await ui.until(lambda it=ui: "READ-ONLY REPLICA" in ui.text().split("\n")[0], "the header", ENOUGH)
    async with screen(replica.url, (120, 35)) as ui:
        await ui.until_shown("READ-ONLY REPLICA")
        replica.replicate(None)
        await ui.until(lambda: "READ-ONLY REPLICA" not in ui.text(), "the promotion", ENOUGH)
