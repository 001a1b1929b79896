"""The scenario `delays`: jobs that become due over a minute, on the keys of redis_queue_dispatcher (dispatcher).

rqtui's dispatcher moves the due jobs. The program's own dispatcher can run beside it or instead of it, to show its
batches of ten and its back-off. A consumer of this system keeps no lease: a popped job is lost if its consumer dies,
and the ledger records it. `registry.py` lists the scenario.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios import bodies
from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import dispatcher as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage, map_places

_KINDS: tuple[tuple[str, bodies.BodyBuilder, float, tuple[float, float]], ...] = (
    # kind, body, weight, seconds of work
    ("send_invoice", bodies.build_invoice, 4, (0.3, 1.4)),
    ("welcome", bodies.build_welcome, 3, (0.2, 0.8)),
    ("digest", bodies.build_digest, 1, (0.9, 2.4)),
    ("reminder", bodies.build_reminder, 3, (0.15, 0.7)),
    ("resize_image", bodies.build_image_task, 3, (0.5, 2.2)),
)
_FIRST = 260  # due over the first minute
_READY = 10  # how many of `_FIRST` are due at once
_HOSTILE_EVERY = 23
_MOST = 1 << 30


class Delays(Stage):
    """The producer and workers of the scenario `delays`: delayed tasks, and six consumers."""

    workers = 6
    keeps_leases = False
    overslept_s = 10.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_original_on = False
        self.actions = {"original": self._toggle_original}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield commands for jobs due over the first minute, then a few every second."""
        rng = Random(f"delays:{self.seed}")
        for number in range(_FIRST):
            yield _build_command(rng, number, 0, 0 if number < _READY else rng.randrange(500, 60_000))
        at_ms = 1_000.0
        for number in range(_FIRST, _MOST):
            at_ms += rng.expovariate(1 / 280)
            delay_ms = rng.choice((0, 5_000, 15_000, 30_000, 60_000)) + rng.randrange(4_000)
            yield _build_command(rng, number, int(at_ms), delay_ms)

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield commands for jobs that are due within the next twenty seconds."""
        rng = Random(f"delays-burst:{self.seed}")
        for number in range(_MOST, 2 * _MOST):
            yield _build_command(rng, number, 0, rng.randrange(0, 20_000))

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Add a delayed task with ZADD as a producer does; the score is in whole seconds."""
        original.put_delayed_task(client, command.body, int(time.time() + command.delay_ms / 1000))
        self.ledger.put[command.body] = 1

    def describe_job(self, job: bytes) -> str:
        """Return the id inside the body of a task; most bodies contain one."""
        return job[7:29].decode() if job.startswith(b'{"id":"') else "a task without an id"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which pops a job and processes it."""

        def simulate_task_run(task: bytes) -> None:
            low, high = next((row[3] for row in _KINDS if b'"%s"' % row[0].encode() in task[:60]), (0.2, 0.9))
            actor.work(task, low + (high - low) * self.draw_fraction(task), is_lost_with_worker=True)

        worker = original.Worker(actor.client, simulate_task_run, pause=actor.pause)

        def run_worker_turn() -> float:
            task = worker.step()
            if task is None:
                return IDLE_S
            self.ledger.finish(task)
            return 0.0

        return run_worker_turn

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turn of the program's own dispatcher, which is idle until a person presses its key."""
        return {"original": self._build_dispatcher_turn}

    def _build_dispatcher_turn(self, actor: Actor) -> Turn:
        program: list[original.Dispatcher] = []

        def run_dispatcher_turn() -> float:
            if not self._is_original_on:
                program.clear()
                return IDLE_S
            if not program:
                program.append(original.Dispatcher(actor.client))
            if program[0].step() is None:  # an error of Redis has ended it
                self._is_original_on = False
                return IDLE_S
            until_s = time.monotonic() + program[0].backing_off_s
            while self._is_original_on and time.monotonic() < until_s and not actor.is_dismissed:
                actor.sleep(min(IDLE_S, max(0.0, until_s - time.monotonic())))
            return 0.0

        return run_dispatcher_turn

    def _toggle_original(self) -> str:
        """Start or stop the program's own dispatcher; return a sentence about the effect."""
        self._is_original_on = not self._is_original_on
        if self._is_original_on:
            return "the original's dispatcher runs: ten at a time, and up to 13 s late once it has idled"
        return "the original's dispatcher has ended"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the jobs of the sorted set and the list by place."""
        return map_places(
            delayed=list(client.zrange(original.DELAYED, 0, -1)), ready=list(client.lrange(original.READY, 0, -1))
        )


def _build_command(rng: Random, number: int, at_ms: int, delay_ms: int) -> ProducerCommand:
    kind, write, _, _ = rng.choices(_KINDS, [row[2] for row in _KINDS])[0]
    id = bodies.generate_id(rng, number)
    body = write(rng)
    if number % _HOSTILE_EVERY == _HOSTILE_EVERY - 1:
        body = bodies.HOSTILE[number // _HOSTILE_EVERY % len(bodies.HOSTILE)](rng)
    if body.startswith(b"{"):  # two equal payloads would be one member here
        body = b'{"id":"%s","kind":"%s",%s' % (id.encode(), kind.encode(), body[1:])
    return ProducerCommand(at_ms, body, body, delay_ms)


ORIGINAL = Control("0", "original", "original", "the original's dispatcher, on or off")

DELAYS = ForeignScenario(
    name="delays",
    summary="jobs that become due, moved by the dispatcher",
    system="dispatcher",
    queue=original.READY,
    stage=Delays,
    controls=(*(control for control in CONTROLS if control.name != "poison"), ORIGINAL),
    tries=(
        (",", "stop the dispatcher: due jobs stay in delayed and are late; , again moves them in batches"),
        (", 0", "the original's dispatcher instead: ten at a time, then it backs off 1 1 2 3 5 8 13 s when idle"),
        ("9", "a burst of jobs due within twenty seconds, and the batches in which they move (t shows how many)"),
        ("8", "kill a worker: this system has no leases, so the job it held is lost; other systems return it"),
        ("N", "put a job of your own, with a delay, and follow it"),
    ),
    watch=(
        "the due times in delayed, and how late the first one is",
        "the tint of jobs that arrive in ready",
        "the state in the overview while no dispatcher runs",
    ),
)
