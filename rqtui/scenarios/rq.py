"""The scenario `rq`: a failing deployment, killed workers, and due jobs without a scheduler (RQ).

The shop's new version fails two hundred jobs for three reasons. Worker web-9 was killed and left its jobs in `started`.
Reminders and retries stay in `scheduled`, because no worker runs with `--with-scheduler`. A key of the strip applies
the fix; rqtui can repair the failed, abandoned and overdue jobs. `registry.py` lists the scenario.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID, uuid4

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import rq as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, replace_digit_keys
from rqtui.scenarios.shop import NAMES, ShopStage
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, map_places

QUEUE = "default"
TIMEOUT_S = 10
_KILLED = "web-9"
_KILLED_S = 55  # ago: its jobs are late 15 s after the scenario starts
_HELD, _FAILED, _WAITING, _OVERDUE, _AHEAD = 3, 200, 40, 24, 24
_DEPLOYED_MS, _LAST_MS = 14 * 60_000, 20_000  # ago: the times of the first and the last failed job
_SCHEDULE_S = 1.0


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why a function of the new version fails: the share of calls, the error and its line."""

    function: str
    share: float
    file: str
    line: int
    code: str
    error: str


CAUSES = (
    Cause("shop.invoices.render", 0.5, "invoices.py", 61, 'rate = RATES[customer["vat_id"][:2]]', "KeyError: 'vat_id'"),
    Cause(
        "shop.images.resize",
        0.4,
        "images.py",
        88,
        "image.save(target, quality=quality, method=6)",
        "OSError: encoder webp not available",
    ),
    Cause(
        "shop.mails.send",
        0.3,
        "mails.py",
        34,
        "smtp.sendmail(SENDER, [to], text)",
        "smtplib.SMTPServerDisconnected: Connection unexpectedly closed",
    ),
)
_BY_FUNCTION = {cause.function: cause for cause in CAUSES}
_TRACE = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/rq/worker/base.py", line 1671, in perform_job
    return_value = job.perform()
                   ^^^^^^^^^^^^^
  File "/srv/venv/lib/python3.12/site-packages/rq/job.py", line 1539, in _execute
    result = self.func(*self.args, **self.kwargs)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/{file}", line {line}, in {function}
    {code}
{error}
"""
_OVERSLEPT = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/rq/timeouts.py", line 63, in handle_death_penalty
    raise self._exception('Task exceeded maximum timeout value ({} seconds)'.format(self._timeout))
rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value ({} seconds)
"""


class Failed(Exception):
    """The error of a failed job; its text is the traceback that the worker records."""


class Shop(ShopStage):
    """The producer and workers of the scenario `rq`: a shop's jobs, and four workers of its new version."""

    overslept_s = TIMEOUT_S + 0.5

    reminds = ("shop.mails.remind", 0.12, 90_000)
    on_fix = ("the code is fixed: nothing fails from now on", "the code is broken again")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_scheduling = False
        self.actions = {**self.actions, "scheduler": self._toggle_scheduler}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield web-9's jobs, failed, waiting and due jobs, and then three jobs per second."""
        rng = Random(f"rq:{self.seed}")
        for _ in range(_HELD):
            yield self.build_command(rng, 0, -1000 * _KILLED_S, "held", "shop.images.resize")
        for _ in range(_FAILED):
            (cause,) = rng.choices(CAUSES, (11, 6, 3))
            yield self.build_command(rng, 0, -rng.randrange(_LAST_MS, _DEPLOYED_MS), "failed", cause.function)
        for _ in range(_WAITING):
            yield self.build_command(rng, 0)
        for number in range(_OVERDUE + _AHEAD):
            delay_ms = rng.randrange(5_000, 150_000)
            yield self.build_command(rng, 0, -delay_ms if number < _OVERDUE else delay_ms, "put", "shop.mails.remind")
        yield from self.plan_arrivals(rng)

    def build_command(
        self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = ""
    ) -> ProducerCommand:
        """Create the command for one job of the shop, at random unless `job` names its kind."""
        order, name = rng.randrange(40_000, 60_000), rng.choice(NAMES)
        calls: dict[str, tuple[list[object], dict[str, object]]] = {
            "shop.orders.confirm": ([order], {}),
            "shop.invoices.render": ([order], {"cents": rng.randrange(500, 90_000)}),
            "shop.images.resize": (
                [f"s3://photos/{rng.getrandbits(48):012x}.jpg"],
                {"width": rng.choice((96, 640, 1600))},
            ),
            "shop.mails.send": ([f"{name}@example.org", "order_sent"], {"order": order}),
            "shop.mails.remind": ([f"{name}@example.org"], {"order": order}),
        }
        chosen = job or rng.choice(("shop.orders.confirm", *_BY_FUNCTION))
        args, kwargs = calls[chosen]
        id = str(UUID(int=rng.getrandbits(128), version=4)).encode()
        return ProducerCommand(at_ms, id, json.dumps([chosen, args, kwargs]).encode(), delay_ms, verb)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Put a job by `enqueue` or `enqueue_in`, or write a record of the initial state."""
        function, args, kwargs = json.loads(command.body)
        id, at_s = command.job.decode(), command.delay_ms / 1000
        words = id, original.encode_call(function, *args, **kwargs), original.format_call(function, *args, **kwargs)
        fields: dict[str, Any] = {"timeout": TIMEOUT_S}
        if function == "shop.mails.send":
            fields |= {"retries_left": 1, "retry_intervals": "[20]"}
        if command.verb == "put":
            queue = original.Queue(client, self.queue)
            queue.enqueue_in(at_s, *words, **fields) if command.delay_ms else queue.enqueue(*words, **fields)
        else:
            self.write_past_job(client, command, words)
        self.ledger.put[command.job] = 1

    def write_past_job(self, client: Any, command: ProducerCommand, words: tuple[str, bytes, str]) -> None:
        began_s = time.time() + command.delay_ms / 1000

        def read_start_time_s() -> float:
            return began_s

        is_held = command.verb == "held"
        name = _KILLED if is_held else f"web-{1 + int(4 * self.draw_fraction(command.job))}"
        worker = original.Worker(client, self.queue, name, clock=read_start_time_s, host="web")
        fields: dict[str, Any] = {"timeout": TIMEOUT_S, "enqueued_at": original.format_time(began_s)}
        if is_held:
            fields["retries_left"] = 1
        pipe = client.pipeline(transaction=True)
        original.Queue(client, self.queue, read_start_time_s).save(pipe, "queued", *words, **fields)
        pipe.execute()
        job = original.Job(words[0], "", TIMEOUT_S, 0, (), self.queue)
        if is_held:
            worker.register()
            execution = worker.begin(job)
            for key in (original.build_worker_key(name), f"rq:execution:{job.id}:{execution}"):
                client.expire(key, original.compute_lease_s(TIMEOUT_S) - _KILLED_S)
        else:
            worker.fail(job, "", format_traceback(_BY_FUNCTION[json.loads(command.body)[0]]), began_s)

    def name_worker(self, number: int) -> str:
        """Return the name of a worker."""
        return f"web-{number}"

    def describe_job(self, job: bytes) -> str:
        """Return the first characters of a job's id."""
        return f"job {job[:8].decode()}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which registers, then takes, runs and records jobs."""
        is_registered = False

        def simulate_job_run(job: original.Job) -> None:
            id = job.id.encode()
            attempt, began_s = self.count_attempt(id), time.monotonic()
            actor.work(id, 0.3 + 1.4 * self.draw_fraction(id))
            if time.monotonic() - began_s > TIMEOUT_S and not actor.is_dismissed:
                raise Failed(_OVERSLEPT.format("{}", TIMEOUT_S))
            cause = _BY_FUNCTION.get(job.function)
            if cause and self.is_failing(id, attempt, cause.share):
                raise Failed(format_traceback(cause))

        worker = original.Worker(
            actor.client, self.queue, actor.name, simulate_job_run, actor.pause, host="web", trace=str
        )

        def run_worker_turn() -> float:
            nonlocal is_registered
            if not is_registered:
                worker.register()
                is_registered = True
            word = worker.step()
            if word == "finished":
                self.ledger.finish(actor.holds)
            elif word == "failed":
                self.ledger.count_word("rejected")
            return IDLE_S / 2 if word in ("idle", "suspended") else 0.0

        return run_worker_turn

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turn of RQ's scheduler inside a worker, which is idle until a person presses its key."""
        return {"scheduler": self._build_scheduler_turn}

    def _build_scheduler_turn(self, actor: Actor) -> Turn:
        owner, is_active = uuid4().hex, False

        def run_scheduler_turn() -> float:
            nonlocal is_active
            was_active, is_active = is_active, self._is_scheduling  # a person may change it between turns
            if is_active:
                original.enqueue_due_jobs(actor.client, self.queue, owner)
            elif was_active:
                original.release_scheduler_lock(actor.client, self.queue, owner)
            return _SCHEDULE_S if is_active else IDLE_S

        return run_scheduler_turn

    def _toggle_scheduler(self) -> str:
        self._is_scheduling = not self._is_scheduling
        if self._is_scheduling:
            return "a worker starts with --with-scheduler: what is due is queued, once a second"
        return "the scheduler stops, and gives its lock back: what is due stays in scheduled"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the jobs of the two lists and the queue's registries by place."""
        list_key = original.build_queue_key(self.queue)
        registries = {
            place: client.zrange(f"rq:{place}:{self.queue}", 0, -1)
            for place in ("scheduled", "deferred", "finished", "failed", "canceled")
        }
        return map_places(
            queued=client.lrange(list_key, 0, -1),
            intermediate=client.lrange(f"{list_key}:intermediate", 0, -1),
            started=[member.rpartition(b":")[0] for member in client.zrange(f"rq:wip:{self.queue}", 0, -1)],
            **registries,
        )


def format_traceback(cause: Cause) -> str:
    """Return the traceback that a worker of the shop records."""
    function = cause.function.rpartition(".")[2]
    return _TRACE.format(file=cause.file, line=cause.line, function=function, code=cause.code, error=cause.error)


STALL = Control("7", "stall", "stall", "a job hangs; its worker ends it at its timeout, and it is failed")
SCHEDULER = Control("0", "scheduler", "scheduler", "a worker starts with --with-scheduler; pressed again, it stops")

RQ = ForeignScenario(
    name="rq",
    summary="a bad deploy, a killed worker, no scheduler",
    system="rq",
    queue=QUEUE,
    stage=Shop,
    controls=replace_digit_keys(  # this scenario's own controls come first, because a narrow strip has no space for all
        (
            SCHEDULER,
            FIX,
            *(STALL if control.name == "stall" else control for control in CONTROLS if control.name != "poison"),
        )
    ),
    loops=False,
    acts=((0.25, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.6, "scheduler"), (0.7, "fix")),
    tries=(
        ("e", "the errors by cause: three since the deploy, each with its line of its file"),
        ("_ e R", "deploy the fix, then requeue what failed of one cause: the workers run it again"),
        ("1 ,", "due jobs stay in scheduled, because no scheduler runs; , lets rqtui move them, 0 starts one"),
        ("w .", "web-9 was killed; its jobs are late after 15 seconds: . lets rqtui queue them again"),
        ("$", "kill a worker: its job stays in started until its lease of 70 s ends and a worker cleans up"),
    ),
    watch=(
        "failed, with its three causes, which empties after the fix",
        "scheduled, where reminders and retries are overdue",
        "started: jobs whose worker was killed",
    ),
)
