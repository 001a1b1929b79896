"""The scenario `bullmq`: an unreachable label printer, a killed worker, and jobs left by an upgrade from BullMQ 5.

The printer does not reply, so each label fails three times and moves to `failed`; the parcels that depend on labels
wait. Worker web-9 was killed with SIGKILL and leaves its jobs in `active` without a lock for a minute. A pause by
BullMQ 5 left two dozen jobs in `paused`, which no worker of BullMQ 6 reads. A script with BullMQ 5 still runs: a key of
the strip pauses and resumes with it. Another key applies the fix; rqtui can repair the rest. `registry.py` lists the
scenario.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import bullmq as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, replace_digit_keys
from rqtui.scenarios.shop import NAMES, Cause, ShopStage
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, map_places

QUEUE = "shop"
LOCK_MS = 8_000  # an option of the workers; no job of this scenario runs as long
_KILLED = "web-9"
_KILLED_MS = 48_000  # ago
_HELD, _STORM, _OLD, _LEFT, _WAITING, _AHEAD, _PARCELS = 3, 140, 24, 24, 30, 24, 5
_STORM_MS = 8 * 60_000  # ago: the time of the first failed label


STORM = Cause(
    "printLabel",
    1.0,
    "Error",
    "connect ECONNREFUSED 10.0.3.7:9100",
    "async print (/srv/shop/src/labels.js:41:11)",
)
OLD = Cause(
    "renderInvoice",
    0.04,
    "TypeError",
    "Cannot read properties of undefined (reading 'vatId')",
    "rate (/srv/shop/src/invoices.js:88:30)",
)
CAUSES = (STORM, OLD)
_BY_JOB = {cause.job: cause for cause in CAUSES}


class Shop(ShopStage):
    """The producer and workers of the scenario `bullmq`: a shop's jobs, and four workers of one job at a time."""

    overslept_s = LOCK_MS / 1000 + 4

    reminds = ("remind", 0.12, 90_000)
    on_fix = ("the printer answers: labels fail no more", "the printer is away again")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_paused = False
        self.actions = {**self.actions, "old": self._toggle_pause}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield web-9's jobs, failed jobs, jobs left by BullMQ 5, and waiting jobs; then three per second."""
        rng = Random(f"bullmq:{self.seed}")
        for _ in range(_HELD):
            yield self.build_command(rng, 0, -_KILLED_MS, "held", "resizeImage")
        for _ in range(_STORM):
            yield self.build_command(rng, 0, -rng.randrange(10_000, _STORM_MS), "failed", STORM.job)
        for _ in range(_OLD):
            yield self.build_command(rng, 0, -rng.randrange(600_000, 9_000_000), "failed", OLD.job)
        for _ in range(_LEFT):
            yield self.build_command(rng, 0, -rng.randrange(3_600_000, 4_000_000), "left", "sendMail")
        for number in range(_PARCELS):
            order, ago_ms = 61_000 + 7 * number, -rng.randrange(30_000, _STORM_MS)
            parcel = f"parcel-{order}"
            yield ProducerCommand(0, parcel.encode(), _encode_body("shipParcel", order=order), ago_ms, "parcel")
            yield ProducerCommand(
                0, f"label-{order}".encode(), _encode_body(STORM.job, order=order, parent=parcel), ago_ms, "failed"
            )
        for _ in range(_WAITING):
            yield self.build_command(rng, 0)
        for _ in range(_AHEAD):
            yield self.build_command(rng, 0, rng.randrange(5_000, 150_000), "put", "remind")
        yield from self.plan_arrivals(rng)

    def build_command(
        self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = ""
    ) -> ProducerCommand:
        """Create the command for one job of the shop, at random unless `job` names its kind."""
        order, name = rng.randrange(40_000, 60_000), rng.choice(NAMES)
        calls: dict[str, dict[str, object]] = {
            "confirmOrder": {"order": order},
            "charge": {"order": order, "cents": rng.randrange(500, 90_000)},
            "printLabel": {"order": order, "to": name},
            "renderInvoice": {"order": order, "as": "pdf"},
            "resizeImage": {"url": f"s3://photos/{rng.getrandbits(48):012x}.jpg", "width": rng.choice((96, 640, 1600))},
            "sendMail": {"to": f"{name}@example.org", "order": order},
            "remind": {"to": f"{name}@example.org", "order": order},
        }
        usual = ("confirmOrder", "confirmOrder", "charge", "printLabel", "renderInvoice", "resizeImage", "sendMail")
        chosen = job or rng.choice(usual)
        return ProducerCommand(
            at_ms, f"job-{rng.getrandbits(48):012x}".encode(), _encode_body(chosen, **calls[chosen]), delay_ms, verb
        )

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Add a job by the producer's `Queue.add`, or write a record of the initial state."""
        if command.verb in ("pause", "resume"):
            self._pause_or_resume_with_bullmq_5(original.Queue(client, self.queue), command.verb)
            return
        at_s = time.time() + min(0, command.delay_ms) / 1000
        queue, id = original.Queue(client, self.queue, lambda: at_s), command.job.decode()
        name, data = json.loads(command.body)
        opts = {"attempts": 3, "backoff": {"type": "fixed", "delay": 20_000}, "jobId": id}
        if name == "charge":
            opts["priority"] = 2
        if command.verb == "put":
            if not client.exists(f"{queue.p}meta"):
                queue.connect()
            queue.add(id, name, data, opts, command.delay_ms)
        else:
            queue.connect()
            self.write_past_job(client, queue, command, queue.build_fields(name, data, opts))
        self.ledger.put[command.job] = 1

    def _pause_or_resume_with_bullmq_5(self, queue: original.Queue, verb: str) -> None:
        """Pause or resume the queue as BullMQ 5 does, and record the jobs that are in no place afterwards."""
        for job in queue.pause_or_resume_as_version_5(verb == "pause"):
            self.ledger.count(self.ledger.lost_with_worker, job)
        queue.connect()  # as the producers do from time to time

    def write_past_job(
        self, client: Any, queue: original.Queue, command: ProducerCommand, fields: dict[str, Any]
    ) -> None:
        """Write a job of the initial state to Redis: held by a killed worker, failed, left by BullMQ 5, or a parcel."""
        id, name, at_ms, p = command.job.decode(), fields["name"], queue.read_clock_ms(), queue.p
        parent = json.loads(fields["data"]).get("parent")
        pipe = client.pipeline(transaction=True)
        if command.verb == "held":
            fields |= {"processedOn": at_ms, "ats": 1, "pb": _KILLED}
            pipe.lpush(f"{p}active", id)
        elif command.verb == "left":
            pipe.lpush(f"{p}paused", id)
        elif command.verb == "parcel":
            pipe.zadd(f"{p}waiting-children", {id: at_ms})
        else:
            error = build_error(_BY_JOB[name])
            worker = f"web-{1 + int(4 * self.draw_fraction(command.job))}"
            times = {"timestamp": at_ms - 41_000, "processedOn": at_ms - 300, "finishedOn": at_ms}
            fields |= {"atm": 3, "ats": 3, "pb": worker, **times}
            fields |= {"failedReason": str(error), "stacktrace": original.encode_json([error.trace] * 3)}
            pipe.zadd(f"{p}failed", {id: at_ms})
        if parent:
            link = {"id": parent, "queueKey": p[:-1]}
            fields |= {"parentKey": f"{p}{parent}", "parent": original.encode_json(link)}
            pipe.sadd(f"{p}{parent}:dependencies", f"{p}{id}")
        pipe.hset(f"{p}{id}", mapping=fields)
        pipe.execute()

    def name_worker(self, number: int) -> str:
        """Return the name of a worker."""
        return f"web-{number if number < 9 else number + 1}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which registers, then takes, runs and records jobs."""
        is_registered = False

        def simulate_job_run(id: str, name: str, _data: object) -> object:
            job = id.encode()
            attempt = self.count_attempt(job)
            actor.work(job, 0.3 + 1.4 * self.draw_fraction(job))
            cause = _BY_JOB.get(name)
            if cause and self.is_failing(job, attempt, cause.share):
                raise build_error(cause)
            return {"ok": True}

        worker = original.Worker(actor.client, self.queue, actor.name, simulate_job_run, actor.pause, lock_ms=LOCK_MS)

        def run_worker_turn() -> float:
            nonlocal is_registered
            if not is_registered:
                worker.connect()
                is_registered = True
            word = worker.step()
            if word == "completed":
                self.ledger.finish(actor.holds)
            elif word in ("retried", "failed"):
                self.ledger.count_word("rejected")
            elif word == "late":
                self.ledger.count_word("late")
            return IDLE_S / 2 if word == "idle" else 0.0

        return run_worker_turn

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turn of one more actor: the workers' periodic check for stalled jobs."""
        return {"stalled": self._build_stalled_check_turn}

    def _build_stalled_check_turn(self, actor: Actor) -> Turn:
        queue = original.Queue(actor.client, self.queue)

        def run_stalled_check_turn() -> float:
            queue.move_stalled_jobs()
            return 1.0

        return run_stalled_check_turn

    def _toggle_pause(self) -> str:
        """Pause the queue with BullMQ 5, or resume it; return a sentence about the effect."""
        self._is_paused = not self._is_paused
        self.send_command(ProducerCommand(0, b"", verb="pause" if self._is_paused else "resume"))
        if self._is_paused:
            return "a script with BullMQ 5 paused the queue: wait became paused, and new jobs go to wait"
        return "a script with BullMQ 5 resumed the queue: paused became wait, and jobs that were in wait are lost"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the members of the lists and the sorted sets by place."""
        p = original.build_key_prefix(self.queue)
        lists = {place: client.lrange(f"{p}{place}", 0, -1) for place in ("wait", "paused", "active")}
        sets = {
            place.replace("-", "_"): client.zrange(f"{p}{place}", 0, -1)
            for place in ("delayed", "waiting-children", "prioritized", "completed", "failed")
        }
        return map_places(**lists, **sets)


def build_error(cause: Cause) -> original.JobError:
    """Return the error of a failed job, as Node throws it."""
    return original.JobError(cause.kind, cause.message, cause.line, "async Worker.processJob (worker.js:606:28)")


def _encode_body(name: str, **data: object) -> bytes:
    return json.dumps([name, data]).encode()


OLD_SCRIPT = Control(
    "0", "old", "pause by 5", "a script with BullMQ 5 pauses the queue; pressed again, it resumes it: see wait"
)

BULLMQ = ForeignScenario(
    name="bullmq",
    summary="failed children, a killed worker, an old pause",
    system="bullmq",
    queue=QUEUE,
    stage=Shop,
    controls=replace_digit_keys(  # this scenario's own controls come first, because a narrow strip has no space for all
        (OLD_SCRIPT, FIX, *(control for control in CONTROLS if control.name != "poison"))
    ),
    loops=False,
    acts=((0.25, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.7, "fix")),
    tries=(
        (".", "web-9 was killed: its jobs have no lock; . queues them again at once, BullMQ after a minute"),
        ("e", "the errors by cause: most jobs fail because the printer does not answer"),
        (
            "_ e R",
            "repair the printer, then requeue what failed of that cause; parcels continue when their labels are done",
        ),
        ("2", "parcels that wait for a failed label: Enter shows the label as a link"),
        (
            "5 P P",
            "jobs of BullMQ 5 are in paused, which no worker reads; a pause and a resume by rqtui bring them back",
        ),
        ("0 P", "a script with BullMQ 5 pauses: a resume by rqtui keeps jobs added since, a resume with 0 loses them"),
    ),
    watch=(
        "failed, with the labels, which empties after the fix",
        "active: jobs without a lock",
        "paused and wait, where two versions meet",
    ),
)
