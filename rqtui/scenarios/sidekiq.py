"""The scenario `sidekiq`: a card gateway that times out, a killed process that held jobs, and no poller for due jobs.

The gateway is down, so every charge fails and waits in `retry`. Process web-9 was killed with SIGKILL; Sidekiq loses
its three exports one minute after its last heartbeat unless they are put back. The pollers of all processes have died,
so due jobs stay in `schedule` and `retry`. One member of `schedule` and one of `dead` are not JSON. Keys of the strip
apply the fix and start the pollers; rqtui can repair the rest. `registry.py` lists the scenario.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios.actors import Actor, Killed, Turn
from rqtui.scenarios.originals import sidekiq as original
from rqtui.scenarios.pace import IDLE_S, TURN_S
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, replace_digit_keys
from rqtui.scenarios.shop import NAMES, Cause, ShopStage
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, map_places

QUEUE = "default"
_KILLED = "web-9"
_KILLED_S = 22  # ago: its jobs can be put back 8 s after the scenario starts, and expire 30 s later
_HELD, _STORM, _DEAD, _WAITING, _OVERDUE, _AHEAD = 3, 160, 24, 40, 20, 24
_STORM_MS = 6 * 60_000  # ago: the time of the first failed charge
_POLL_S = 1.0
_RAW = b"\x82\xa5class\xabExportJob\xa4args\x91\xcd\x12\x67"
_TORN = b'{"retry":true,"queue":"default","class":"RemindJob","args":["ada@exam'


STORM = Cause(
    "ChargeCardJob",
    1.0,
    "Net::ReadTimeout",
    "Net::ReadTimeout with #<TCPSocket:(closed)> (cards.example.org)",
    "/srv/shop/app/jobs/charge_card_job.rb:21:in `perform'",
)
_OLD = Cause(
    "RenderInvoiceJob",
    0.04,
    "NoMethodError",
    "undefined method `vat_id' for nil:NilClass",
    "/srv/shop/app/jobs/render_invoice_job.rb:33:in `rate'",
)
CAUSES = (STORM, _OLD)
_BY_JOB = {cause.job: cause for cause in CAUSES}


class Shop(ShopStage):
    """The producer and processes of the scenario `sidekiq`: a shop's jobs, and four processes of one thread each."""

    reminds = ("RemindJob", 0.12, 90_000)
    on_fix = ("the gateway answers: nothing fails from now on", "the gateway is away again")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_polling = False
        self._processes: list[original.Process] = []
        self._killed: original.Process | None = None  # died before the scenario starts
        self.actions = {**self.actions, "poller": self._toggle_poller}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield web-9's jobs, failed, dead, waiting and due jobs, and then three jobs per second."""
        rng = Random(f"sidekiq:{self.seed}")
        yield ProducerCommand(0, _RAW, verb="raw")
        yield ProducerCommand(0, _TORN, verb="torn", delay_ms=-170_000)
        for _ in range(_HELD):
            yield self.build_command(rng, 0, -1000 * _KILLED_S, "held", "ExportJob")
        for _ in range(_STORM):
            yield self.build_command(rng, 0, -rng.randrange(10_000, _STORM_MS), "failed", STORM.job)
        for _ in range(_DEAD):
            yield self.build_command(rng, 0, -rng.randrange(600_000, 9_000_000), "died", _OLD.job)
        for _ in range(_WAITING):
            yield self.build_command(rng, 0)
        for number in range(_OVERDUE + _AHEAD):
            delay_ms = rng.randrange(61_000, 150_000)
            yield self.build_command(rng, 0, -delay_ms if number < _OVERDUE else delay_ms, "put", "RemindJob")
        yield from self.plan_arrivals(rng)

    def build_command(
        self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = ""
    ) -> ProducerCommand:
        """Create the command for one job of the shop, at random unless `job` names its kind."""
        order, name = rng.randrange(40_000, 60_000), rng.choice(NAMES)
        calls: dict[str, list[object]] = {
            "ConfirmOrderJob": [order],
            "ChargeCardJob": [order, {"cents": rng.randrange(500, 90_000)}],
            "RenderInvoiceJob": [order, "pdf"],
            "ResizeImageJob": [f"s3://photos/{rng.getrandbits(48):012x}.jpg", rng.choice((96, 640, 1600))],
            "WelcomeMailJob": [f"{name}@example.org"],
            "RemindJob": [f"{name}@example.org", order],
            "ExportJob": [f"orders-{rng.randrange(1, 13):02}", {"rows": rng.randrange(10_000, 400_000)}],
        }
        usual = ("ConfirmOrderJob", "ConfirmOrderJob", "ChargeCardJob", "RenderInvoiceJob", "ResizeImageJob")
        chosen = job or ("ExportJob" if rng.random() < 0.03 else rng.choice((*usual, "WelcomeMailJob")))
        jid = f"{rng.getrandbits(96):024x}".encode()
        return ProducerCommand(at_ms, jid, json.dumps([chosen, calls[chosen]]).encode(), delay_ms, verb)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Put a job by `perform_async` or `perform_in`, or write a record of the initial state."""
        at_s = time.time() + command.delay_ms / 1000
        if command.verb == "raw":
            client.zadd("dead", {command.job: at_s - 3600})
        elif command.verb == "torn":
            client.zadd("schedule", {command.job: at_s})
        elif command.verb == "put":
            producer = original.Client(client, self.queue)
            item = self._build_item(producer, command)
            producer.push_in(command.delay_ms / 1000, item) if command.delay_ms else producer.push(item)
        else:
            self.write_past_job(client, command, at_s)
        self.ledger.put[command.job] = 1

    def _build_item(self, producer: original.Client, command: ProducerCommand) -> dict[str, object]:
        job, args = json.loads(command.body)
        id = command.job.decode()
        if job == "WelcomeMailJob":
            return producer.build_item(
                id, job, **original.wrap_active_job(job, f"{id[:8]}-0000-4000-8000-{id[:12]}", *args)
            )
        return producer.build_item(id, job, *args)

    def write_past_job(self, client: Any, command: ProducerCommand, at_s: float) -> None:
        producer = original.Client(client, self.queue, lambda: at_s)
        item = {**self._build_item(producer, command), "enqueued_at": original.convert_to_ms(at_s)}
        client.sadd("queues", self.queue)
        if command.verb == "held":
            self._killed = self._killed or original.Process(
                client, self.queue, _KILLED, clock=lambda: at_s, number=9, threads=_HELD
            )
            self._killed.begin(original.encode_item(item))
            self._killed.beat(client)
            for key in (self._killed.identity, f"{self._killed.identity}:work"):
                client.expire(key, original.LIFE_S - _KILLED_S)
            return
        cause = _BY_JOB[str(item["class"])]
        if command.verb == "died":
            failed_item = original.add_error({**item, "retry": 3, "retry_count": 2}, build_error(cause), at_s)
            original.add_to_dead(client, original.encode_item(failed_item), at_s)
            return
        process = original.Process(
            client, self.queue, _KILLED, clock=lambda: at_s, roll=lambda: self.draw_fraction(command.job)
        )
        process.fail(item, build_error(cause))

    def name_worker(self, number: int) -> str:
        """Return the host name of a process."""
        return f"web-{number}"

    def describe_job(self, job: bytes) -> str:
        """Return the first characters of a job's jid."""
        return f"job {job[:8].decode()}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a process, which runs jobs and records failures; another actor sends its heartbeats."""

        def simulate_job_run(item: Mapping[str, Any]) -> None:
            jid = str(item["jid"]).encode()
            attempt, job = self.count_attempt(jid), str(item.get("wrapped") or item["class"])
            try:
                actor.work(
                    jid, 9 + 9 * self.draw_fraction(jid) if job == "ExportJob" else 0.3 + 1.4 * self.draw_fraction(jid)
                )
            except Killed:
                if not process.die():  # no heartbeat has reported the job, so that only the process knew it
                    self.ledger.count(self.ledger.lost_with_worker, jid)
                raise
            cause = _BY_JOB.get(job)
            if cause and self.is_failing(jid, attempt, cause.share):
                raise build_error(cause)

        number = int(actor.name.rpartition("-")[2])
        process = original.Process(
            actor.client,
            self.queue,
            actor.name,
            simulate_job_run,
            actor.pause,
            roll=lambda: self.draw_fraction(actor.holds, "jitter"),
            number=number if number < 9 else number + 1,
        )
        is_registered = False

        def run_worker_turn() -> float:
            nonlocal is_registered
            if not is_registered:
                process.beat()
                self._processes.append(process)
                is_registered = True
            word = process.step()
            if word == "finished":
                self.ledger.finish(actor.holds)
            elif word in ("retried", "dead"):
                self.ledger.count_word("rejected")
            actor.sleep(IDLE_S / 2 if word == "idle" else 0.0)
            if actor.is_dismissed:
                process.leave()
            return 0.0

        return run_worker_turn

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turns of the processes' heartbeats and pollers.

        The pollers start when a person presses their key.
        """
        return {"beats": self._build_heartbeat_turn, "poller": self._build_poller_turn}

    def _build_heartbeat_turn(self, actor: Actor) -> Turn:
        def send_heartbeat_turn() -> float:
            for process in self._processes:
                process.beat(actor.client)
            return original.BEAT_S

        return send_heartbeat_turn

    def _build_poller_turn(self, actor: Actor) -> Turn:
        def run_poller_turn() -> float:
            if not self._is_polling:
                return IDLE_S
            try:
                original.enqueue_due_jobs(actor.client)
            except original.Unreadable as error:
                self.ledger.count(self.ledger.lost_with_worker, error.member)
                return TURN_S
            return _POLL_S

        return run_poller_turn

    def _toggle_poller(self) -> str:
        self._is_polling = not self._is_polling
        if self._is_polling:
            return "the processes poll again: what is due is queued, once a second"
        return "the pollers have died: what is due stays in schedule and retry"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the jobs of the list, the three sorted sets and the processes' `work` hashes by place."""
        work = [
            json.loads(entry)["payload"].encode()
            for identity in client.smembers("processes")
            for entry in client.hvals(identity + b":work")
        ]
        return map_places(
            queue=list(map(_parse_jid, client.lrange(f"queue:{self.queue}", 0, -1))),
            work=list(map(_parse_jid, work)),
            **{place: list(map(_parse_jid, client.zrange(place, 0, -1))) for place in ("schedule", "retry", "dead")},
        )


def build_error(cause: Cause) -> original.JobError:
    """Return the error of a failed job, as Ruby raises it."""
    return original.JobError(cause.kind, cause.message, cause.line, "/srv/shop/config/boot.rb:14:in `call'")


def _parse_jid(payload: bytes) -> bytes:
    try:
        return str(json.loads(payload)["jid"]).encode()
    except ValueError:
        return payload


POLLER = Control("0", "poller", "poller", "the processes poll again; pressed again, their pollers stop")

SIDEKIQ = ForeignScenario(
    name="sidekiq",
    summary="a retry storm, a killed process, no poller",
    system="sidekiq",
    queue=QUEUE,
    stage=Shop,
    controls=replace_digit_keys(  # this scenario's own controls come first, because a narrow strip has no space for all
        (POLLER, FIX, *(control for control in CONTROLS if control.name not in ("poison", "stall")))
    ),
    loops=False,
    acts=((0.25, "kill"), (0.5, "add"), (0.5, "burst"), (0.6, "poller"), (0.7, "fix")),
    tries=(
        (".", "web-9 was killed: a minute after its last heartbeat its three exports are lost; . returns them before"),
        ("e", "the errors by cause: one is far the most frequent, the card gateway times out"),
        ("_ e R", "repair the gateway, then run what failed of that cause now"),
        ("1 K", "the first job in schedule is not JSON: a poller would lose it; K moves it to dead"),
        ("1 0", "due jobs stay in schedule, because no process polls; 0 starts the pollers"),
        ("$", "kill a process: jobs of its last heartbeat stay in work for a minute, jobs it took later are lost"),
    ),
    watch=(
        "the countdown of what web-9 held",
        "retry, which fills until the fix",
        "schedule, where reminders are overdue",
    ),
)
