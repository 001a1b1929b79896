"""The scenario `celery`: a card gateway that times out, a worker killed during exports, and reminders that run twice.

Charges fail, are retried once, and then exist only as results, because Celery keeps no failed task. Worker web-9 was
killed with SIGKILL; its three exports stay in `unacked` until the visibility timeout (a minute here, an hour by
default) ends and a worker restores them. The ETA of reminders is beyond that minute: they are delivered again while a
worker holds them, and run twice. The last entry of the queue is not JSON: the worker that takes it exits. A killed
`inspect` left a reply list that never expires. `registry.py` lists the scenario.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from rqtui.scenarios.actors import Actor, Killed, Turn
from rqtui.scenarios.originals import celery as original
from rqtui.scenarios.pace import IDLE_S, TURN_S
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, replace_digit_keys
from rqtui.scenarios.shop import NAMES, ShopStage
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, map_places

QUEUE = "shop"
VISIBILITY_S, FLOWER_S = 60, 5  # of the workers, and of a Flower with another setting
LATE = "shop.export"  # the only task that acks late; the others are acked at their start, Celery's default
_KILLED = "web-9"
_KILLED_MS = 45_000  # ago: its jobs are late 15 s after the scenario starts
_HELD, _WAITING, _AGAIN, _LOW, _REMINDERS, _REPLIES = 3, 48, 14, 12, 18, 9
RETRIES = 1
_RETRY_S = 6.0
_LOWEST = 9
_RAW = b"rebuild-sitemap --now"
_TRACE = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/celery/app/trace.py", line 585, in trace_task
    R = retval = fun(*args, **kwargs)
                 ^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/shop.py", line {line}, in {function}
    {code}
{kind}: {message}
"""


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why a task fails, its share of runs, and whether the task is retried."""

    task: str
    share: float
    kind: str
    message: str
    line: int
    code: str
    is_retried: bool = False

    def build_error(self, retries: int) -> original.TaskError:
        """Return the error of a failed task, as Python raises it."""
        function = self.task.rpartition(".")[2]
        trace = _TRACE.format(line=self.line, function=function, code=self.code, kind=self.kind, message=self.message)
        is_again = self.is_retried and retries < RETRIES
        return original.TaskError(self.kind, self.message, trace, _RETRY_S if is_again else None)


STORM = Cause(
    "shop.charge",
    1.0,
    "TimeoutError",
    "cards.example.org did not answer in 5 s",
    41,
    "gateway.charge(order, cents)",
    is_retried=True,
)
OLD = Cause("shop.invoice", 0.06, "KeyError", "'vat_id'", 88, 'rate = RATES[customer["vat_id"][:2]]')
CAUSES = (STORM, OLD)
_BY_TASK = {cause.task: cause for cause in CAUSES}


class Shop(ShopStage):
    """The producer and workers of the scenario `celery`: a shop's tasks, and four workers of one task at a time.

    Export tasks are acknowledged after they ran (`acks_late`).
    """

    reminds = ("shop.remind", 0.08, 240_000)
    on_fix = ("the gateway answers: nothing fails from now on", "the gateway is away again")
    every_ms = 400

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._workers: list[tuple[Actor, original.Worker]] = []
        self._raws = 0
        self.actions = {**self.actions, "raw": self._send_invalid_message, "flower": self._start_impatient_flower}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield web-9's tasks, unread replies and waiting tasks; then five tasks every two seconds."""
        rng = Random(f"celery:{self.seed}")
        yield ProducerCommand(0, b"", verb="replies")
        for _ in range(_HELD):
            yield self.build_command(rng, 0, -_KILLED_MS, "held", LATE)
        low = [self.build_command(rng, 0, job="shop.stock") for _ in range(_LOW)]
        for _ in range(_REMINDERS):
            yield self.build_command(rng, 0, rng.randrange(150_000, 280_000), job="shop.remind")
        for _ in range(_AGAIN):
            yield self.build_command(rng, 0, verb="again", job=STORM.task)
        for _ in range(_WAITING):
            yield self.build_command(rng, 0)
        # Workers run already. With the lowest priority put first, a slow producer lets them reach the invalid text.
        yield from low
        yield ProducerCommand(0, _RAW, verb="raw")
        yield from self.plan_arrivals(rng)

    def build_command(
        self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = ""
    ) -> ProducerCommand:
        """Create the command for one job of the shop, at random unless `job` names its kind."""
        order, name = rng.randrange(40_000, 60_000), rng.choice(NAMES)
        calls: dict[str, tuple[list[object], dict[str, object]]] = {
            "shop.confirm": ([order], {}),
            "shop.charge": ([order], {"cents": rng.randrange(500, 90_000)}),
            "shop.invoice": ([order], {"format": "pdf"}),
            "shop.resize": ([f"s3://photos/{rng.getrandbits(48):012x}.jpg", rng.choice((96, 640, 1600))], {}),
            "shop.remind": ([f"{name}@example.org"], {"order": order}),
            "shop.stock": ([f"warehouse-{rng.randrange(1, 9)}"], {}),
            LATE: ([f"2026-{rng.randrange(1, 13):02}"], {"rows": rng.randrange(10_000, 400_000)}),
        }
        usual = ("confirm", "confirm", "charge", "invoice", "resize", "resize")
        picked = "export" if rng.random() < 0.03 else rng.choice(usual)
        chosen = job or f"shop.{picked}"
        args, kwargs = calls[chosen]
        priority = _LOWEST if chosen == "shop.stock" else 0
        id = str(UUID(int=rng.getrandbits(128), version=4)).encode()
        return ProducerCommand(at_ms, id, json.dumps([chosen, args, kwargs, priority]).encode(), delay_ms, verb)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Send a task by `apply_async`, act as another client, or write a record of the initial state."""
        if command.verb == "replies":
            mailbox = str(UUID(int=Random(f"celery-replies:{self.seed}").getrandbits(128), version=4))
            hosts = (f"celery@web-{number}" for number in range(1, _REPLIES + 1))
            original.add_unread_replies(client, mailbox, hosts, time.time() - 86_400)
            return
        if command.verb == "flower":
            original.restore_overdue_messages(client, FLOWER_S)
            return
        original.declare_queue(client, self.queue)
        if command.verb == "raw":
            client.lpush(original.build_list_key(self.queue, _LOWEST if command.job == _RAW else 0), command.job)
        else:
            self._send_task(client, command)
        self.ledger.put[command.job] = 1

    def _send_task(self, client: Any, command: ProducerCommand) -> None:
        """Send the task of a command as `apply_async` does."""
        name, args, kwargs, priority = json.loads(command.body)
        at_s = time.time() + command.delay_ms / 1000
        message = original.build_task_message(
            name,
            command.job.decode(),
            self.queue,
            args,
            kwargs,
            priority=priority,
            eta_s=at_s if command.delay_ms > 0 else None,
            retries=int(command.verb == "again"),
        )
        if command.verb == "held":
            original.reserve_message(client, self.queue, message, at_s)
        else:
            original.publish_message(client, self.queue, message)

    def name_worker(self, number: int) -> str:
        """Return the host name of a worker."""
        return f"web-{number if number < 9 else number + 1}"

    def describe_job(self, job: bytes) -> str:
        """Return the first characters of a job's id."""
        return f"task {job[:8].decode()}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which runs tasks; another actor has heartbeats and commands."""

        def simulate_task_run(headers: Mapping[str, Any], _args: list[Any], _kwargs: dict[str, Any]) -> object:
            id, name = str(headers["id"]), str(headers["task"])
            job = id.encode()
            attempt = self.count_attempt(job)
            if not name.startswith("shop."):
                raise original.TaskError("NotRegistered", f"{name!r}", f"celery.exceptions.NotRegistered: {name!r}\n")
            run_s = 9 + 9 * self.draw_fraction(job) if name == LATE else 0.3 + 1.4 * self.draw_fraction(job)
            actor.work(job, run_s, is_lost_with_worker=name != LATE)
            if worker.is_terminated(id):
                raise original.Terminated
            cause = _BY_TASK.get(name)
            if cause and self.is_failing(job, attempt, cause.share):
                raise cause.build_error(headers.get("retries", 0))
            return {"ok": True}

        number = int(actor.name.rpartition("-")[2])
        worker = original.Worker(
            actor.client,
            self.queue,
            actor.name,
            simulate_task_run,
            actor.pause,
            acks_late=lambda name: name == LATE,
            visibility_s=VISIBILITY_S,
            number=number,
        )
        is_registered = False

        def run_worker_turn() -> float:
            nonlocal is_registered
            if not is_registered:
                worker.begin()
                self._workers.append((actor, worker))
                is_registered = True
            try:
                word = worker.step()
            except original.Unreadable as error:
                self.ledger.count(self.ledger.lost_with_worker, error.raw)
                if not error.ends:
                    return TURN_S
                worker.exit()
                actor.kill()
                raise Killed from error
            self._record_outcome(word, worker.last_id.encode())
            actor.sleep(IDLE_S / 2 if word == "idle" else 0.0)
            if actor.is_dismissed:
                worker.leave()
            return 0.0

        return run_worker_turn

    def _record_outcome(self, word: str, job: bytes) -> None:
        """Record in the ledger how a worker ended a task: succeeded, revoked, failed or retried."""
        if word == "succeeded":
            self.ledger.finish(job)
        elif word == "revoked":
            self.ledger.count(self.ledger.withdrawn, job)
        elif word in ("failed", "retried"):
            self.ledger.count_word("rejected")
            if word == "failed":
                self.ledger.count(self.ledger.given_up, job)

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turns of the workers' main processes, which obey commands while a task runs."""
        return {"main": self._build_main_turn}

    def _build_main_turn(self, actor: Actor) -> Turn:
        def run_main_process_turn() -> float:
            for its_actor, worker in list(self._workers):
                if its_actor.state == "dead":
                    worker.die()
                    self._workers.remove((its_actor, worker))
                    continue
                worker.run_background_step(actor.client)
                if worker.is_terminated(its_actor.holds.decode()):
                    its_actor.until_s = 0.0
            return TURN_S

        return run_main_process_turn

    def _send_invalid_message(self) -> str:
        """Push a text that is no JSON into the queue; return a sentence about the effect."""
        self._raws += 1
        self.send_command(ProducerCommand(0, b"%b %d" % (_RAW, self._raws), verb="raw"))
        return "a script pushes a text that is no JSON: the worker that takes it exits"

    def _start_impatient_flower(self) -> str:
        """Restore held messages as a Flower with a short visibility timeout does.

        Return a sentence about the effect.
        """
        self.send_command(ProducerCommand(0, b"", verb="flower"))
        return f"a Flower with a visibility timeout of {FLOWER_S} s starts: what workers hold goes out again"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the tasks in the lists of all priorities and in `unacked` by place."""
        return map_places(
            queue=[_parse_id(raw) for key in original.build_list_keys(self.queue) for raw in client.lrange(key, 0, -1)],
            unacked=[str(json.loads(raw)[0]["headers"]["id"]).encode() for raw in client.hvals("unacked")],
        )


def _parse_id(raw: bytes) -> bytes:
    """Return the task id of a message in a queue's list or in `unacked`."""
    try:
        return str(json.loads(raw)["headers"]["id"]).encode()
    except ValueError:
        return raw


RAW = Control("0", "raw", "raw text", "a script pushes a text that is no JSON; the worker that takes it exits")
FLOWER = Control("7", "flower", "flower", "a Flower with a visibility timeout of 5 s: what runs is given out again")

CELERY = ForeignScenario(
    name="celery",
    summary="failing charges, a killed worker, late ETAs",
    system=f"celery:visibility={VISIBILITY_S}",
    queue=QUEUE,
    stage=Shop,
    controls=replace_digit_keys(  # this scenario's own controls come first, because a narrow strip has no space for all
        (RAW, FIX, FLOWER, *(control for control in CONTROLS if control.name not in ("poison", "stall")))
    ),
    loops=False,
    acts=((0.25, "kill"), (0.5, "add"), (0.5, "burst"), (0.7, "fix")),
    tries=(
        (
            ".",
            "web-9 was killed: its exports are late after a minute; . releases them sooner than Celery's own check",
        ),
        (
            "1 * E",
            "reminders are due beyond the visibility timeout, and will run twice; extend them, and they run once",
        ),
        ("2 G D", "the last message in queue is not JSON: the worker that takes it exits; 0 sends another one"),
        ("e", "the errors seen in events, by cause: Celery stores no failed task; R enqueues them again"),
        ("_", "repair the gateway: charges that wait in eta for their retry succeed now"),
        ("$ w", "kill a worker: the task it ran is lost, tasks it had only prefetched are late after a minute"),
        ("#", "a Flower with a shorter visibility timeout delivers running tasks a second time"),
    ),
    watch=(
        "late: what a killed worker held, until Celery or rqtui releases it",
        "failed and succeeded, which are in no key: rqtui counts them from events",
        "eta: reminders, and charges that are tried again",
    ),
)
