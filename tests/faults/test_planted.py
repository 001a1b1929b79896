"""The judge catches what it is there to catch: faults planted in the scripts, the client and the loops.

Each scenario is played twice, step by step and without chance: as rqtui is, where the judge has nothing to say, and
with a fault planted, where it must name what broke.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults import scenes
from faults.scenes import Scene
from proxy import Proxy
from redis import Redis

from rqtui.client import queue as client_module
from rqtui.client.leased_job import Job
from rqtui.client.queue import Queue
from rqtui.engine.loops import Loop
from rqtui.errors import ServerError, UsageError
from rqtui.scripts import script as scripts
from rqtui.scripts import transport
from rqtui.scripts.script import Reply, load_scripts, run_call


@pytest.fixture
def scene(client: Redis, url: str, tmp_path: Path) -> Iterator[Scene]:
    with Proxy(url) as proxy, Queue("mail", url) as queue:
        queue.configure(unique_ms=3_600_000, events="on", backoff_ms=0, max_attempts=4)
        yield Scene(client, proxy, tmp_path, queue)


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────

Patch = pytest.MonkeyPatch


def script(verb: str, *changes: tuple[str, str]) -> Callable[[Patch], None]:
    """Return a function that replaces text in a script, for all callers in this process."""

    def plant(patch: Patch) -> None:
        real = load_scripts("native")[verb]
        text = real.source
        for old, new in changes:
            assert old in text, f"{verb}.lua changed; plant the fault elsewhere"
            text = text.replace(old, new)
        patch.setitem(load_scripts("native")._scripts, verb, scripts.parse_script(text, real.path))

    return plant


def a_client_that_sends_again(patch: Patch) -> None:
    real = transport._send_and_receive

    def again(connection: Any, *commands: Any, **more: Any) -> list[Any]:
        replies = real(connection, *commands, **more)
        return (
            real(connection, *commands, **more) if any(isinstance(one, transport._Lost) for one in replies) else replies
        )

    patch.setattr(transport, "_send_and_receive", again)


def a_put_that_does_not_wait_for_its_answer(patch: Patch) -> None:
    def hopeful(client: Any, call: Any) -> Reply:
        with contextlib.suppress(ServerError):
            return run_call(client, call)
        return Reply("", each=[Reply("moved")] * call.row_count)

    patch.setattr(client_module, "run", hopeful)


def a_put_that_forgets_its_first_try(patch: Patch) -> None:
    def forgetful(client: Any, call: Any) -> Reply:
        try:
            return run_call(client, call)
        except ServerError:
            return run_again(client, call)

    def run_again(client: Any, call: Any) -> Reply:
        try:
            return run_call(client, call)
        except ServerError as error:
            raise UsageError(str(error)) from error  # it says that nothing was done

    patch.setattr(client_module, "run", forgetful)


def a_loop_that_dies_of_an_error(patch: Patch) -> None:
    patch.setattr(Loop, "_run_round", lambda self: self._work())


def a_worker_that_acks_first(patch: Patch) -> None:
    patch.setattr(Job, "__enter__", lambda self: (self.ack(), self)[1])


TOKEN = ("token ~= ARGV[at + 1] or", "")
DISPATCH = (
    "if #arrivals > 0 then redis.call('ZADD', ready, unpack(arrivals)) end\n",
    "redis.call('ZREM', scheduled, unpack(ids))\n",
)
RELEASE_GUARD = ("".join(f"redis.call('ZCARD', {key}) " for key in ("scheduled", "ready", "reserved", "wake")), "")


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
        scenes.a_worker_comes_back_after_its_lease,
        script("ack", ("~= ARGV[2 + i * 2] then", "== nil then")),
        "job a was finished by w1",
    ),
    Fault(
        "a release that compares no token",
        scenes.a_worker_gives_back_after_its_lease,
        script("release", TOKEN),
        "w3 got job a while w2 held it",
    ),
    Fault(
        "a reject that compares no token",
        scenes.a_worker_fails_after_its_lease,
        script("reject", TOKEN),
        "w1 settled job a (reject) after w2 had got it",
    ),
    Fault(
        "a reap that compares no deadline",
        scenes.a_reaper_runs_while_a_worker_works,
        script("reap", ("reserved, '-inf', now_ms", "reserved, '-inf', '+inf'")),
        "w2 got job a while w1 held it",
    ),
    Fault(
        "a release without a guard",
        scenes.another_program_uses_a_name_for_a_moment,
        script("release", RELEASE_GUARD),
        "job a has 0 attempts; its events tell of 1",
    ),
    Fault(
        "a dispatch that takes before it puts",
        scenes.an_acl_denies_half_of_a_dispatch,
        script("dispatch", (DISPATCH[1], ""), (DISPATCH[0], DISPATCH[1] + DISPATCH[0])),
        "job a was acknowledged and is nowhere",
    ),
    Fault(
        "an enqueue that does not ask whether it knows the id",
        scenes.a_producer_tries_again,
        script("enqueue", ("not forget_at and redis.call('HSETNX'", "redis.call('HSETNX'")),
        "job a was finished by",
    ),
    Fault(
        "a reserve that counts no attempts",
        scenes.a_job_fails_once,
        script("reserve", ("last + 1, tried + 1", "last + 1, math.max(tried, 1)")),
        "job a has 1 attempts; its events tell of 2",
    ),
    Fault(
        "a token that is a plain counter",
        scenes.a_replica_takes_over_without_the_tail,
        script("reserve", ("last = math.max(token or 0, ", "last = math.min(token or 0, ")),
        "token 1 went to w1 for a and to w2 for b",
    ),
    Fault(
        "a client that sends a pull again",
        scenes.the_answer_to_a_pull_is_lost,
        a_client_that_sends_again,
        "1 jobs were asked for by pull, and 2 left",
    ),
    Fault(
        "a put that does not wait for its answer",
        scenes.no_put_gets_through,
        a_put_that_does_not_wait_for_its_answer,
        "job a was acknowledged and is nowhere",
    ),
    Fault(
        "a put that forgets its first try",
        scenes.a_put_gets_in_and_the_door_is_shut,
        a_put_that_forgets_its_first_try,
        "job a is in ready, though its put was said to have done nothing",
    ),
    Fault(
        "a loop that dies of a lost connection",
        scenes.redis_is_away_for_a_moment,
        a_loop_that_dies_of_an_error,
        "screen: a thread of the screen is dead",
    ),
    Fault(
        "a worker that acks before it runs",
        scenes.a_worker_dies_while_it_runs_a_job,
        a_worker_that_acks_first,
        "which never ran it to its end",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_scenario_without_its_fault_breaks_no_promise(fault: Fault, scene: Scene) -> None:
    fault.scenario(scene)
    assert scene.broken() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_the_judge_catches(fault: Fault, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    fault.scenario(scene)
    broken = scene.broken()
    assert any(fault.sentence in one for one in broken), broken
