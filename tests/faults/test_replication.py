"""A replica takes over, a server is demoted, loads, has lost its primary: nothing runs twice, all say so, all go on."""

from __future__ import annotations

import threading
import time

import pytest
from fleet import Fleet, Server
from screens import on_screen, screen
from shell import shell
from waiting import wait_until
from walking import problems

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop, mover
from rqtui.errors import Denied, ServerError, Unreachable
from rqtui.model import Ref
from rqtui.systems import registry

ENOUGH = 30.0


@pytest.fixture
def pair(fleet: Fleet) -> tuple[Server, Server]:
    """A primary and its replica."""
    primary = fleet.start()
    return primary, fleet.start(replicaof=primary)


def caught_up(primary: Server, replica: Server) -> bool:
    return replica.info("replication")["slave_repl_offset"] >= primary.info("replication")["master_repl_offset"]


class Worker:
    """Consumes a queue on a thread until it is stopped; `ran` are the ids that it was handed."""

    def __init__(self, url: str, name: str = "mail") -> None:
        self.ran: list[str] = []
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._queue = Queue(name, url)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            for job in self._queue.consume(ttr=30, stop=self.stop):
                with job:
                    self.ran.append(job.id)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop.set()
        self._thread.join(ENOUGH)
        self._queue.close()


# The lost tail -------------------------------------------------------------------------------------------------------


def test_after_a_lost_tail_no_token_is_handed_out_twice_and_late_acks_are_refused(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old, Queue("mail", replica.url) as new:
        old.put_many({"body": n, "id": str(n)} for n in range(60))
        kept = old.reserve(20, ttr=600)
        wait_until(lambda: caught_up(primary, replica), ENOUGH)
        replica.replicates(None)  # what the primary does from here on is the tail that gets lost
        lost = [job for _ in range(4) for job in old.reserve(5, ttr=600)]
        old.put("tail", id="tail")
        for job in kept[10:]:
            assert job.ack() == "moved"
        primary.kill()

        again = new.reserve(100, ttr=600)
        assert {job.id for job in lost} <= {job.id for job in again}
        handed_out = [int(job.token) for job in (*kept, *lost)]
        assert min(int(job.token) for job in again) > max(handed_out)
        assert len({job.token for job in (*kept, *lost, *again)}) == len(kept) + len(lost) + len(again)
        words = [new.settle("ack", job, {}).each[0].word for job in lost]
        assert set(words) == {"stale"}
        assert new.counts()["acked"] == 0
        assert [new.settle("ack", job, {}).each[0].word for job in kept] == ["moved"] * 20
        assert [new.settle("extend", job, {}).each[0].word for job in again] == ["extended"] * 40
        assert problems(replica.client, "mail") == []
        assert new.put("tail", id="tail").word == "moved"


def test_a_lease_of_a_job_that_the_new_primary_never_heard_of_is_gone(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old, Queue("mail", replica.url) as new:
        replica.replicates(None)
        old.put("tail", id="tail")
        [job] = old.reserve()
        assert new.settle("ack", job, {}).each[0].word == "gone"
        assert new.settle("reject", job, {}, "error").each[0].word == "gone"
        assert problems(replica.client, "mail") == []


# Durable -------------------------------------------------------------------------------------------------------------


def test_a_durable_job_survives_the_promotion_of_the_replica(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as old:
        assert old.put("dear", id="dear", durable=True).word == "moved"
    primary.kill()
    replica.replicates(None)
    with Queue("mail", replica.url) as new:
        assert [job.id for job in new.reserve()] == ["dear"]


def test_too_few_replicas_is_said_and_the_job_is_there_and_may_be_put_again(pair: tuple[Server, Server]) -> None:
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


def test_a_durable_put_says_that_nothing_was_sent_when_the_server_is_away(fleet: Fleet) -> None:
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
    with Queue("mail", replica.url) as queue, pytest.raises(Denied, match="read only replica"):
        queue.put("x", id="x")
    ran = shell(replica.url, "put", "mail", "{}")
    assert ran.code == 3 and "replica" in ran.err and "Traceback" not in ran.err
    assert primary.client.dbsize() == 0


def test_a_worker_and_a_loop_go_on_after_their_server_was_demoted_and_promoted(pair: tuple[Server, Server]) -> None:
    primary, other = pair
    ref, native = Ref("native", "mail"), registry.make("native")
    tomorrow = {"now_ms": int((time.time() + 86_400) * 1000)}  # the dispatcher's clock, so that a job is due for it
    with connect(primary.url) as client, Worker(primary.url) as worker, Queue("mail", primary.url) as queue:
        loop = Loop("dispatcher", mover("dispatch", client, {"native": native}, lambda: [ref], args=tomorrow))
        queue.put(1, id="before")
        queue.put(3, id="later", delay="1h")
        wait_until(lambda: worker.ran == ["before"], ENOUGH)
        wait_until(lambda: queue.counts()["acked"] == 1, ENOUGH)
        wait_until(lambda: caught_up(primary, other), ENOUGH)
        other.replicates(None)
        primary.replicates(other)
        with pytest.raises(Denied, match="replica"):
            queue.put(2, id="during")
        assert "replica" in loop.step().error
        primary.replicates(None)
        assert queue.put(2, id="during").word == "moved"
        assert loop.step().moved == 1
        wait_until(lambda: len(worker.ran) == 3, ENOUGH)
        assert {*worker.ran} == {"before", "during", "later"}
        assert worker.error is None
    assert problems(primary.client, "mail") == []


@pytest.fixture
def loading(fleet: Fleet) -> Server:
    """A server that is loading for some seconds, since each of its keys takes a while."""
    server = fleet.start(appendonly="yes", aof_use_rdb_preamble="yes", loading_process_events_interval_bytes="1024")
    with Queue("mail", server.url) as queue:
        queue.put("dear", id="dear")
    pipe = server.client.pipeline(transaction=False)
    for n in range(1500):
        pipe.set(f"other:{n}", "x" * 20)
    pipe.execute()
    server.client.execute_command("BGREWRITEAOF")
    wait_until(lambda: not server.info("persistence")["aof_rewrite_in_progress"], ENOUGH)
    wait_until(lambda: not server.info("persistence")["aof_rewrite_scheduled"], ENOUGH)
    server.kill()
    server.words += ["--key-load-delay", "1000"]
    return server


def is_loading(server: Server) -> bool:
    return bool(server.info("persistence")["loading"])


def test_while_a_server_loads_a_put_says_so_and_a_worker_waits_for_it(loading: Server) -> None:
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
    assert problems(loading.client, "mail") == []


@on_screen
async def test_the_screen_waits_for_a_server_that_loads(loading: Server) -> None:
    loading.start()
    async with screen(loading.url, (120, 35)) as it:
        await it.until_shown("still loading its data")
        await it.until(lambda: not is_loading(loading), "the end of loading", ENOUGH)
        await it.press("r")
        await it.until_shown("mail")


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


@on_screen
async def test_the_screen_says_that_a_replica_has_lost_its_primary_and_goes_on(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Queue("mail", primary.url) as queue:
        queue.put("dear", id="dear")
    wait_until(lambda: caught_up(primary, replica), ENOUGH)
    replica.client.config_set("replica-serve-stale-data", "no")
    async with screen(replica.url, (120, 35)) as it:
        await it.until_shown("mail")
        primary.kill()
        await it.until(
            lambda: it.app.session.lost is not None and "MASTERDOWN" in it.app.session.lost.error, "the loss", ENOUGH
        )
        replica.replicates(None)
        await it.press("r")
        await it.until(lambda: it.app.session.lost is None, "a picture", ENOUGH)
