"""Define small scenarios without chance, each of which writes a history for the checker."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import conductor
from faults.history import History, read_lines
from faults.history_checker import check_history
from proxy import Proxy
from queue_check import find_misplaced_jobs
from redis import Redis, exceptions
from waiting import wait_until

from rqtui.client.leased_job import Job
from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop, build_round
from rqtui.errors import ServerError
from rqtui.model import Ref
from rqtui.scripts.script import Reply, run_call
from rqtui.systems import registry

SHORT = "1ms"  # a lease that is over by the next call


@dataclass
class Scene:
    """A queue, a proxy before its server, and the history that the scenario writes."""

    client: Redis
    proxy: Proxy
    folder: Path
    queue: Queue
    histories: dict[str, History] = field(default_factory=dict)

    def by(self, name: str) -> History:
        """Return the history as recorded by the named process."""
        return self.histories.setdefault(name, History(self.folder / "history.jsonl", name))

    def put(self, *ids: str, **options: Any) -> None:
        """Put jobs with these ids one by one through the proxy, as a producer."""
        with Queue("mail", self.proxy.url) as queue:
            for id in ids:
                item = self.by("producer")
                item.call("put", lambda id=id: queue.put({}, id=id, **options), read_put_word, queue="mail", ids=[id])

    def reserve(self, worker: str, ttr: str = "60s") -> Job:
        """Reserve a job as a worker."""
        item = self.by(worker)
        fields = {"queue": "mail", "ttr_s": 60.0 if ttr == "60s" else 0.001}
        jobs = item.call("reserve", lambda: self.queue.reserve(1, ttr=ttr, worker=worker), list_lease_rows, **fields)
        assert jobs, "nothing was ready"
        return jobs[0]

    def settle(self, worker: str, job: Job, verb: str = "ack") -> None:
        """Run a job to its end as a worker, and settle it by a verb."""
        named = {"queue": "mail", "id": job.id, "token": job.token, "attempt": job.attempt}
        self.by(worker).note("end", **named, verb=verb)
        with contextlib.suppress(ServerError):
            self.by(worker).note("settled", **named, verb=verb, word=getattr(job, verb)())

    def work_off(self, worker: str) -> None:
        """Run all ready jobs as a worker."""
        while self.queue.counts()["ready"]:
            self.settle(worker, self.reserve(worker))

    def step(self, verb: str) -> Reply:
        """Run one step of a reaper or a dispatcher."""
        return run_call(self.client, self.queue.call(verb, {"limit": 100}))

    def broken(self) -> list[str]:
        """Return the broken promises that the checker finds."""
        found = [str(problem) for problem in find_misplaced_jobs(self.client, "mail")]
        dump = conductor.dump(self.client, "mail", found)
        return check_history(read_lines(self.folder / "history.jsonl"), {"mail": dump})


def read_put_word(put: Any) -> dict[str, Any]:
    return {"words": [put.word]}


def list_lease_rows(jobs: Sequence[Job]) -> dict[str, Any]:
    return {"leases": [[job.id, job.token, job.attempt, job.max_attempts] for job in jobs]}


# ── scenarios ────────────────────────────────────────────────────────────────────────────────────────────────


def a_worker_comes_back_after_its_lease(scene: Scene, verb: str = "ack") -> None:
    scene.put("a")
    late = scene.reserve("w1", SHORT)
    wait_until(lambda: scene.step("reap").word == "moved", what="the end of a lease")
    second = scene.reserve("w2")
    scene.settle("w1", late, verb)
    if scene.queue.counts()["ready"]:
        scene.settle("w3", scene.reserve("w3"))
    scene.settle("w2", second)


def a_worker_gives_back_after_its_lease(scene: Scene) -> None:
    a_worker_comes_back_after_its_lease(scene, "release")


def a_worker_fails_after_its_lease(scene: Scene) -> None:
    scene.queue.configure(max_attempts=2)  # its failure would be the last
    a_worker_comes_back_after_its_lease(scene, "reject")


def a_reaper_runs_while_a_worker_works(scene: Scene) -> None:
    scene.put("a")
    first = scene.reserve("w1")
    scene.step("reap")
    scene.work_off("w2")
    scene.settle("w1", first)


def another_program_uses_a_name_for_a_moment(scene: Scene) -> None:
    scene.put("a")
    job = scene.reserve("w1")
    scene.client.set(scene.queue.keys["ready"], "mine")
    with contextlib.suppress(ServerError):
        job.release()
    scene.client.delete(scene.queue.keys["ready"])


def an_acl_denies_half_of_a_dispatch(scene: Scene) -> None:
    scene.put("a", delay="1ms")
    scene.client.execute_command("ACL", "SETUSER", "half", "on", "nopass", "~*", "+@all", "-zadd")
    try:
        wait_until(lambda: scene.queue.counts()["overdue"], what="a job that is due")
        with connect(scene.proxy.url.replace("//", "//half:x@")) as denied, contextlib.suppress(ServerError):
            run_call(denied, scene.queue.call("dispatch", {"limit": 100}))
    finally:
        scene.client.execute_command("ACL", "DELUSER", "half")
    scene.step("dispatch")
    scene.work_off("w1")


def a_worker_dies_while_it_runs_a_job(scene: Scene) -> None:
    scene.put("a")
    job = scene.reserve("w1", SHORT)
    job.__enter__()  # and no event of it follows
    wait_until(lambda: scene.step("reap").word == "moved" or not scene.queue.counts()["reserved"])
    scene.work_off("w2")


def a_producer_tries_again(scene: Scene) -> None:
    scene.put("a")
    scene.work_off("w1")
    scene.put("a")
    scene.work_off("w2")


def a_job_fails_once(scene: Scene) -> None:
    scene.put("a")
    scene.settle("w1", scene.reserve("w1"), "reject")
    wait_until(lambda: scene.step("dispatch").word == "moved")
    scene.work_off("w2")


def a_replica_takes_over_without_the_tail(scene: Scene) -> None:
    scene.put("a", "b")
    before = scene.client.hget(scene.queue.keys["meta"], "token") or b""
    job = scene.reserve("w1")
    scene.client.hset(scene.queue.keys["meta"], "token", before or 0)
    other = scene.reserve("w2")
    scene.settle("w1", job)
    scene.settle("w2", other)


def the_answer_to_a_pull_is_lost(scene: Scene) -> None:
    scene.queue.pull()  # now the server knows the script
    scene.put("a", "b", "c")
    scene.proxy.fail("lose reply", "EVAL")
    with Queue("mail", scene.proxy.url) as queue:
        item = scene.by("puller")
        item.call("pull", lambda: queue.pull(1), lambda jobs: {"ids": [job.id for job in jobs]}, queue="mail", count=1)


def no_put_gets_through(scene: Scene) -> None:
    scene.proxy.fail("cut before", "EVAL", times=2)
    scene.put("a")


def a_put_gets_in_and_the_door_is_shut(scene: Scene) -> None:
    scene.proxy.fail("lose reply", "EVAL")
    with Queue("mail", scene.proxy.url) as queue:
        pool, opened = queue.client.connection_pool, []
        real = pool.take_connection

        def refuse_after_one_call() -> Any:
            if opened:
                raise exceptions.ConnectionError("refused")
            opened.append(real())
            return opened[0]

        pool.take_connection = refuse_after_one_call
        scene.by("producer").call("put", lambda: queue.put({}, id="a"), read_put_word, queue="mail", ids=["a"])
    wait_until(lambda: scene.queue.counts()["ready"] == 1, what="the put that nobody was told of")


def redis_is_away_for_a_moment(scene: Scene) -> None:
    ref = Ref("native", "mail")
    with connect(scene.proxy.url) as link:
        loop = Loop(
            "dispatch",
            build_round("dispatch", link, {"native": registry.create_system("native")}, lambda: [ref], max_wait_s=0.01),
        )
        scene.proxy.refuse()
        loop.start()
        wait_until(lambda: loop.rounds or not loop.is_running, what="a round that failed")
        scene.proxy.listen()
        scene.put("a", delay="1ms")
        wait_until(lambda: scene.queue.counts()["ready"] or not loop.is_running, 30, "a dispatch")
        scene.by("screen").note("look", alive=loop.is_running)
        loop.stop()
    scene.work_off("w1")
