"""`rq`: a bad deploy, workers that are killed, and jobs that are due while nobody schedules (RQ).

The shop's new version fails two hundred jobs for three reasons; web-9 was killed and left what it ran in `started`;
reminders and retries wait in `scheduled`, where nobody takes them out: no worker runs with `--with-scheduler`. The fix
is a key of the strip; what is failed, abandoned or overdue then is rqtui's to mend.
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
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, beside_places
from rqtui.scenarios.shop import NAMES, ShopStage
from rqtui.scenarios.stage import Errand, ForeignScenario, places_of

QUEUE = "default"
TIMEOUT_S = 10
_KILLED = "web-9"
_KILLED_S = 55  # ago: what it held is late a quarter of a minute after the scenario began
_HELD, _FAILED, _WAITING, _OVERDUE, _AHEAD = 3, 200, 40, 24, 24
_DEPLOYED_MS, _LAST_MS = 14 * 60_000, 20_000  # ago: the first and the last of the jobs that have failed
_SCHEDULE_S = 1.0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a function of the new version fails, in which share of its calls; `line` is where."""

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
    """The work failed; its text is the traceback that the worker records."""


class Shop(ShopStage):
    """A shop's jobs, and four workers of its new version."""

    overslept_s = TIMEOUT_S + 0.5

    reminds = ("shop.mails.remind", 0.12, 90_000)
    on_fix = ("the code is fixed: nothing fails from now on", "the code is broken again")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._schedules = False
        self.presses = {**self.presses, "scheduler": self._toggle_scheduler}

    def plan(self) -> Iterator[Errand]:
        """What web-9 held, what has failed, what waits and what is due; then three jobs a second."""
        rng = Random(f"rq:{self.seed}")
        for _ in range(_HELD):
            yield self.errand(rng, 0, -1000 * _KILLED_S, "held", "shop.images.resize")
        for _ in range(_FAILED):
            (cause,) = rng.choices(CAUSES, (11, 6, 3))
            yield self.errand(rng, 0, -rng.randrange(_LAST_MS, _DEPLOYED_MS), "failed", cause.function)
        for _ in range(_WAITING):
            yield self.errand(rng, 0)
        for number in range(_OVERDUE + _AHEAD):
            delay_ms = rng.randrange(5_000, 150_000)
            yield self.errand(rng, 0, -delay_ms if number < _OVERDUE else delay_ms, "put", "shop.mails.remind")
        yield from self.arrivals(rng)

    def errand(self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = "") -> Errand:
        """A call of the shop."""
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
        return Errand(at_ms, id, json.dumps([chosen, args, kwargs]).encode(), delay_ms, verb)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """The producer's `enqueue` and `enqueue_in`; and how things came to stand as they do at the beginning."""
        function, args, kwargs = json.loads(errand.body)
        id, at_s = errand.job.decode(), errand.delay_ms / 1000
        words = id, original.encoded(function, *args, **kwargs), original.described(function, *args, **kwargs)
        fields: dict[str, Any] = {"timeout": TIMEOUT_S}
        if function == "shop.mails.send":
            fields |= {"retries_left": 1, "retry_intervals": "[20]"}
        if errand.verb == "put":
            queue = original.Queue(client, self.queue)
            queue.enqueue_in(at_s, *words, **fields) if errand.delay_ms else queue.enqueue(*words, **fields)
        else:
            self._past(client, errand, words)
        self.ledger.put[errand.job] = 1

    def _past(self, client: Any, errand: Errand, words: tuple[str, bytes, str]) -> None:
        began_s = time.time() + errand.delay_ms / 1000

        def clock() -> float:
            return began_s

        is_held = errand.verb == "held"
        name = _KILLED if is_held else f"web-{1 + int(4 * self.roll(errand.job))}"
        worker = original.Worker(client, self.queue, name, clock=clock, host="web")
        fields: dict[str, Any] = {"timeout": TIMEOUT_S, "enqueued_at": original.instant(began_s)}
        if is_held:
            fields["retries_left"] = 1
        pipe = client.pipeline(transaction=True)
        original.Queue(client, self.queue, clock).save(pipe, "queued", *words, **fields)
        pipe.execute()
        job = original.Job(words[0], "", TIMEOUT_S, 0, (), self.queue)
        if is_held:
            worker.register()
            execution = worker.begin(job)
            for key in (original.worker_key(name), f"rq:execution:{job.id}:{execution}"):
                client.expire(key, original.lease_s(TIMEOUT_S) - _KILLED_S)
        else:
            worker.fail(job, "", trace(_BY_FUNCTION[json.loads(errand.body)[0]]), began_s)

    def name(self, number: int) -> str:
        """What a worker is called there."""
        return f"web-{number}"

    def title(self, job: bytes) -> str:
        """The beginning of its id."""
        return f"job {job[:8].decode()}"

    def worker(self, actor: Actor) -> Turn:
        """Registers, then takes, runs and records."""
        is_there = False

        def run(job: original.Job) -> None:
            id = job.id.encode()
            attempt, began_s = self.attempt(id), time.monotonic()
            actor.work(id, 0.3 + 1.4 * self.roll(id))
            if time.monotonic() - began_s > TIMEOUT_S and not actor.is_dismissed:
                raise Failed(_OVERSLEPT.format("{}", TIMEOUT_S))
            cause = _BY_FUNCTION.get(job.function)
            if cause and self.fails(id, attempt, cause.share):
                raise Failed(trace(cause))

        worker = original.Worker(actor.client, self.queue, actor.name, run, actor.pause, host="web", trace=str)

        def turn() -> float:
            nonlocal is_there
            if not is_there:
                worker.register()
                is_there = True
            word = worker.step()
            if word == "finished":
                self.ledger.finish(actor.holds)
            elif word == "failed":
                self.ledger.say("rejected")
            return IDLE_S / 2 if word in ("idle", "suspended") else 0.0

        return turn

    def supporters(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """The scheduler of a worker that runs `--with-scheduler`, which is not there until somebody starts it."""
        return {"scheduler": self._scheduler}

    def _scheduler(self, actor: Actor) -> Turn:
        owner, is_at_it = uuid4().hex, False

        def turn() -> float:
            nonlocal is_at_it
            was_at_it, is_at_it = is_at_it, self._schedules  # which a person changes meanwhile
            if is_at_it:
                original.schedule(actor.client, self.queue, owner)
            elif was_at_it:
                original.unlock(actor.client, self.queue, owner)
            return _SCHEDULE_S if is_at_it else IDLE_S

        return turn

    def _toggle_scheduler(self) -> str:
        self._schedules = not self._schedules
        if self._schedules:
            return "a worker starts with --with-scheduler: what is due is queued, once a second"
        return "the scheduler stops, and gives its lock back: what is due stays in scheduled"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The two lists and the registries of the queue."""
        list_key = original.queue_key(self.queue)
        registries = {
            place: client.zrange(f"rq:{place}:{self.queue}", 0, -1)
            for place in ("scheduled", "deferred", "finished", "failed", "canceled")
        }
        return places_of(
            queued=client.lrange(list_key, 0, -1),
            intermediate=client.lrange(f"{list_key}:intermediate", 0, -1),
            started=[member.rpartition(b":")[0] for member in client.zrange(f"rq:wip:{self.queue}", 0, -1)],
            **registries,
        )


def trace(cause: Cause) -> str:
    """The traceback that a worker of the shop records."""
    function = cause.function.rpartition(".")[2]
    return _TRACE.format(file=cause.file, line=cause.line, function=function, code=cause.code, error=cause.error)


STALL = Control("7", "stall", "stall", "a job hangs; its worker ends it at its timeout, and it is failed")
SCHEDULER = Control("0", "scheduler", "scheduler", "a worker starts with --with-scheduler; once more, and it stops")

RQ = ForeignScenario(
    name="rq",
    summary="a bad deploy: 200 jobs failed for three reasons, a worker killed, reminders due and no scheduler",
    layout="rq",
    queue=QUEUE,
    stage=Shop,
    controls=beside_places(  # those of this scenario first: a narrow strip has no room for all
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
        ("1 ,", "what is due in scheduled stands there: nobody schedules; , lets rqtui do it, 0 starts a scheduler"),
        ("w .", "web-9 is gone; what it held is late after a quarter of a minute: . lets rqtui queue it again"),
        ("$", "kill a worker: its job stays in started until its lease of 70 s is over and somebody cleans up"),
    ),
    watch=(
        "failed, with its three causes, which empties after the fix",
        "scheduled, where reminders and retries are overdue",
        "started: jobs whose worker is no more",
    ),
)
