"""The judge catches what it is there to catch: faults planted in the scripts, the client and the loops.

Each scenario is played twice, step by step and without chance: as rqtui is, where the judge has nothing to say, and
with a fault planted, where it must name what broke.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults import conductor
from faults.history import History, lines
from faults.judging import judge
from proxy import Proxy
from redis import Redis, exceptions
from waiting import wait_until
from walking import problems

from rqtui import client as client_module
from rqtui import layouts, scripts, sending
from rqtui.client import Queue
from rqtui.errors import ServerError
from rqtui.job import Job
from rqtui.loops import Loop, mover
from rqtui.model import Ref
from rqtui.scripts import Answer, load, run
from rqtui.server import connect

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
        """The history in the name of somebody."""
        return self.histories.setdefault(name, History(self.folder / "history.jsonl", name))

    def put(self, *ids: str, **options: Any) -> None:
        """A producer puts jobs by these ids through the proxy, one by one."""
        with Queue("mail", self.proxy.url) as queue:
            for id in ids:
                told = self.by("producer")
                told.call("put", lambda id=id: queue.put({}, id=id, **options), _word, queue="mail", ids=[id])

    def reserve(self, worker: str, ttr: str = "60s") -> Job:
        """A worker gets a job."""
        told = self.by(worker)
        fields = {"queue": "mail", "ttr_s": 60.0 if ttr == "60s" else 0.001}
        jobs = told.call("reserve", lambda: self.queue.reserve(1, ttr=ttr, worker=worker), _leases, **fields)
        assert jobs, "nothing was ready"
        return jobs[0]

    def settle(self, worker: str, job: Job, verb: str = "ack") -> None:
        """It runs the job to its end and says so."""
        named = {"queue": "mail", "id": job.id, "token": job.token, "attempt": job.attempt}
        self.by(worker).note("end", **named, verb=verb)
        with contextlib.suppress(ServerError):
            self.by(worker).note("settled", **named, verb=verb, word=getattr(job, verb)())

    def work_off(self, worker: str) -> None:
        """A worker does all that is ready."""
        while self.queue.counts()["ready"]:
            self.settle(worker, self.reserve(worker))

    def step(self, verb: str) -> Answer:
        """A reaper or a dispatcher goes round once."""
        return run(self.client, self.queue.call(verb, {"limit": 100}))

    def broken(self) -> list[str]:
        """What the judge says."""
        found = [str(problem) for problem in problems(self.client, "mail")]
        dump = conductor.dump(self.client, "mail", found)
        return judge(lines(self.folder / "history.jsonl"), {"mail": dump})


def _word(put: Any) -> dict[str, Any]:
    return {"words": [put.word]}


def _leases(jobs: Sequence[Job]) -> dict[str, Any]:
    return {"leases": [[job.id, job.token, job.attempt, job.max_attempts] for job in jobs]}


@pytest.fixture
def scene(client: Redis, url: str, tmp_path: Path) -> Iterator[Scene]:
    with Proxy(url) as proxy, Queue("mail", url) as queue:
        queue.configure(unique_ms=3_600_000, events="on", backoff_ms=0, max_attempts=4)
        yield Scene(client, proxy, tmp_path, queue)


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


def a_reaper_looks_while_a_worker_works(scene: Scene) -> None:
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
            run(denied, scene.queue.call("dispatch", {"limit": 100}))
    finally:
        scene.client.execute_command("ACL", "DELUSER", "half")
    scene.step("dispatch")
    scene.work_off("w1")


def a_worker_dies_while_it_runs_a_job(scene: Scene) -> None:
    scene.put("a")
    job = scene.reserve("w1", SHORT)
    job.__enter__()  # and nothing more is heard of it
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
        told = scene.by("puller")
        told.call("pull", lambda: queue.pull(1), lambda jobs: {"ids": [job.id for job in jobs]}, queue="mail", count=1)


def no_put_gets_through(scene: Scene) -> None:
    scene.proxy.fail("cut before", "EVAL", times=2)
    scene.put("a")


def a_put_gets_in_and_the_door_is_shut(scene: Scene) -> None:
    scene.proxy.fail("lose reply", "EVAL")
    with Queue("mail", scene.proxy.url) as queue:
        pool, opened = queue.client.connection_pool, []
        real = pool.get_connection

        def once() -> Any:
            if opened:
                raise exceptions.ConnectionError("refused")
            opened.append(real())
            return opened[0]

        pool.get_connection = once
        scene.by("producer").call("put", lambda: queue.put({}, id="a"), _word, queue="mail", ids=["a"])
    assert scene.queue.counts()["ready"] == 1


def redis_is_away_for_a_moment(scene: Scene) -> None:
    ref = Ref("native", "mail")
    with connect(scene.proxy.url) as link:
        loop = Loop(
            "dispatch", mover("dispatch", link, {"native": layouts.make("native")}, lambda: [ref], every_s=0.01)
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


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────

Patch = pytest.MonkeyPatch


def script(verb: str, *changes: tuple[str, str]) -> Callable[[Patch], None]:
    """Plants other text in a script, for everybody in this process."""

    def plant(patch: Patch) -> None:
        real = load("native")[verb]
        text = real.source
        for old, new in changes:
            assert old in text, f"{verb}.lua changed; plant the fault elsewhere"
            text = text.replace(old, new)
        patch.setitem(load("native"), verb, scripts.parse(text, real.path))

    return plant


def a_client_that_sends_again(patch: Patch) -> None:
    real = sending._exchange

    def again(connection: Any, commands: Any) -> list[Any]:
        replies = real(connection, commands)
        return real(connection, commands) if any(isinstance(one, sending._Lost) for one in replies) else replies

    patch.setattr(sending, "_exchange", again)


def a_put_that_does_not_wait_for_its_answer(patch: Patch) -> None:
    def hopeful(client: Any, call: Any) -> Answer:
        with contextlib.suppress(ServerError):
            return run(client, call)
        return Answer("", each=[Answer("moved")] * call.row_count)

    patch.setattr(client_module, "run", hopeful)


def a_put_that_forgets_its_first_try(patch: Patch) -> None:
    def forgetful(client: Any, call: Any) -> Answer:
        try:
            return run(client, call)
        except ServerError:
            return run_again(client, call)

    def run_again(client: Any, call: Any) -> Answer:
        try:
            return run(client, call)
        except ServerError as error:
            raise client_module.UsageError(str(error)) from error  # it says that nothing was done

    patch.setattr(client_module, "run", forgetful)


def a_loop_that_dies_of_an_error(patch: Patch) -> None:
    patch.setattr(Loop, "_round", lambda self: self._work())


def a_worker_that_acks_first(patch: Patch) -> None:
    patch.setattr(Job, "__enter__", lambda self: (self.ack(), self)[1])


TOKEN = ("token ~= ARGV[at + 1] or", "")
DISPATCH = (
    "if #arrivals > 0 then redis.call('ZADD', ready, unpack(arrivals)) end\n",
    "redis.call('ZREM', scheduled, unpack(ids))\n",
)
RELEASE_GUARD = ("for _, key in ipairs({scheduled, ready, reserved, wake}) do redis.call('ZCARD', key) end\n", "")


@dataclass(frozen=True)
class Fault:
    """`plant` makes `scenario` break a promise, which the judge names with `sentence`."""

    name: str
    scenario: Callable[[Scene], None]
    plant: Callable[[Patch], None]
    sentence: str


FAULTS: Sequence[Fault] = (
    Fault(
        "an ack that compares no token",
        a_worker_comes_back_after_its_lease,
        script("ack", ("token ~= ARGV[2 + i * 2]", "not token")),
        "job a was finished by w1",
    ),
    Fault(
        "a release that compares no token",
        a_worker_gives_back_after_its_lease,
        script("release", TOKEN),
        "w3 got job a while w2 held it",
    ),
    Fault(
        "a reject that compares no token",
        a_worker_fails_after_its_lease,
        script("reject", TOKEN),
        "w1 settled job a (reject) after w2 had got it",
    ),
    Fault(
        "a reap that compares no deadline",
        a_reaper_looks_while_a_worker_works,
        script("reap", ("reserved, '-inf', now_ms", "reserved, '-inf', '+inf'")),
        "w2 got job a while w1 held it",
    ),
    Fault(
        "a release without a guard",
        another_program_uses_a_name_for_a_moment,
        script("release", RELEASE_GUARD),
        "job a has 0 attempts; its events tell of 1",
    ),
    Fault(
        "a dispatch that takes before it puts",
        an_acl_denies_half_of_a_dispatch,
        script("dispatch", (DISPATCH[1], ""), (DISPATCH[0], DISPATCH[1] + DISPATCH[0])),
        "job a was acknowledged and is nowhere",
    ),
    Fault(
        "an enqueue that does not ask whether it knows the id",
        a_producer_tries_again,
        script("enqueue", ("if seen[id] or (forget_at and not expired)", "if seen[id] or false")),
        "job a was finished by",
    ),
    Fault(
        "a reserve that counts no attempts",
        a_job_fails_once,
        script("reserve", ("tried = tried + 1", "tried = math.max(tried, 1)")),
        "job a has 1 attempts; its events tell of 2",
    ),
    Fault(
        "a token that is a plain counter",
        a_replica_takes_over_without_the_tail,
        script("reserve", ("math.max(tonumber(token or 0), micros - 1)", "tonumber(token or 0)")),
        "token 1 went to w1 for a and to w2 for b",
    ),
    Fault(
        "a client that sends a pull again",
        the_answer_to_a_pull_is_lost,
        a_client_that_sends_again,
        "1 jobs were asked for by pull, and 2 left",
    ),
    Fault(
        "a put that does not wait for its answer",
        no_put_gets_through,
        a_put_that_does_not_wait_for_its_answer,
        "job a was acknowledged and is nowhere",
    ),
    Fault(
        "a put that forgets its first try",
        a_put_gets_in_and_the_door_is_shut,
        a_put_that_forgets_its_first_try,
        "job a is in ready, though its put was said to have done nothing",
    ),
    Fault(
        "a loop that dies of a lost connection",
        redis_is_away_for_a_moment,
        a_loop_that_dies_of_an_error,
        "screen: a thread of the screen is dead",
    ),
    Fault(
        "a worker that acks before it runs",
        a_worker_dies_while_it_runs_a_job,
        a_worker_that_acks_first,
        "which never ran it to its end",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_nothing_breaks_where_rqtui_is_spared(fault: Fault, scene: Scene) -> None:
    fault.scenario(scene)
    assert scene.broken() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_the_judge_catches(fault: Fault, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    fault.scenario(scene)
    broken = scene.broken()
    assert any(fault.sentence in one for one in broken), broken
