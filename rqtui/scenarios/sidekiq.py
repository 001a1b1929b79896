"""`sidekiq`: a card gateway that times out, a process killed with jobs in hands, and what is due while nobody polls.

Since the gateway is away every charge fails, and waits in `retry` for another try; web-9 was killed with −9 and its
three exports are gone a minute after its last beat, unless somebody puts them back; the pollers of all processes have
died, so that what is due in `schedule` and `retry` stays there; among it stands a member that a poller would lose, and
in `dead` one that is no JSON. The fix is a key of the strip, and so are the pollers; the rest is rqtui's to mend.
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
from rqtui.scenarios.scenario import CONTROLS, FIX, Control, beside_places
from rqtui.scenarios.shop import NAMES, Cause, ShopStage
from rqtui.scenarios.stage import Errand, ForeignScenario, places_of

QUEUE = "default"
_KILLED = "web-9"
_KILLED_S = 22  # ago: its jobs can be put back eight seconds after the scenario began, and are gone half a minute later
_HELD, _STORM, _DEAD, _WAITING, _OVERDUE, _AHEAD = 3, 160, 24, 40, 20, 24
_STORM_MS = 6 * 60_000  # ago: the first of the charges that failed
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
    """A shop's jobs, and four processes of one thread each."""

    reminds = ("RemindJob", 0.12, 90_000)
    on_fix = ("the gateway answers: nothing fails from now on", "the gateway is away again")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._polls = False
        self._processes: list[original.Process] = []
        self._killed: original.Process | None = None  # before anybody looked
        self.presses = {**self.presses, "poller": self._toggle_poller}

    def plan(self) -> Iterator[Errand]:
        """What web-9 held, what has failed and died, what waits and what is due; then three jobs a second."""
        rng = Random(f"sidekiq:{self.seed}")
        yield Errand(0, _RAW, verb="raw")
        yield Errand(0, _TORN, verb="torn", delay_ms=-170_000)
        for _ in range(_HELD):
            yield self.errand(rng, 0, -1000 * _KILLED_S, "held", "ExportJob")
        for _ in range(_STORM):
            yield self.errand(rng, 0, -rng.randrange(10_000, _STORM_MS), "failed", STORM.job)
        for _ in range(_DEAD):
            yield self.errand(rng, 0, -rng.randrange(600_000, 9_000_000), "died", _OLD.job)
        for _ in range(_WAITING):
            yield self.errand(rng, 0)
        for number in range(_OVERDUE + _AHEAD):
            delay_ms = rng.randrange(61_000, 150_000)
            yield self.errand(rng, 0, -delay_ms if number < _OVERDUE else delay_ms, "put", "RemindJob")
        yield from self.arrivals(rng)

    def errand(self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = "") -> Errand:
        """A call of the shop."""
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
        return Errand(at_ms, jid, json.dumps([chosen, calls[chosen]]).encode(), delay_ms, verb)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """The producer's `perform_async` and `perform_in`; and how things came to stand as they do at the beginning."""
        at_s = time.time() + errand.delay_ms / 1000
        if errand.verb == "raw":
            client.zadd("dead", {errand.job: at_s - 3600})
        elif errand.verb == "torn":
            client.zadd("schedule", {errand.job: at_s})
        elif errand.verb == "put":
            producer = original.Client(client, self.queue)
            item = self._item(producer, errand)
            producer.push_in(errand.delay_ms / 1000, item) if errand.delay_ms else producer.push(item)
        else:
            self._past(client, errand, at_s)
        self.ledger.put[errand.job] = 1

    def _item(self, producer: original.Client, errand: Errand) -> dict[str, object]:
        job, args = json.loads(errand.body)
        id = errand.job.decode()
        if job == "WelcomeMailJob":
            return producer.item(id, job, **original.wrapped(job, f"{id[:8]}-0000-4000-8000-{id[:12]}", *args))
        return producer.item(id, job, *args)

    def _past(self, client: Any, errand: Errand, at_s: float) -> None:
        producer = original.Client(client, self.queue, lambda: at_s)
        item = {**self._item(producer, errand), "enqueued_at": original.ms(at_s)}
        client.sadd("queues", self.queue)
        if errand.verb == "held":
            self._killed = self._killed or original.Process(
                client, self.queue, _KILLED, clock=lambda: at_s, number=9, threads=_HELD
            )
            self._killed.begin(original.encoded(item))
            self._killed.beat(client)
            for key in (self._killed.identity, f"{self._killed.identity}:work"):
                client.expire(key, original.LIFE_S - _KILLED_S)
            return
        cause = _BY_JOB[str(item["class"])]
        if errand.verb == "died":
            told = original.failed({**item, "retry": 3, "retry_count": 2}, raised(cause), at_s)
            original.bury(client, original.encoded(told), at_s)
            return
        process = original.Process(client, self.queue, _KILLED, clock=lambda: at_s, roll=lambda: self.roll(errand.job))
        process.fail(item, raised(cause))

    def name(self, number: int) -> str:
        """The machine of a process."""
        return f"web-{number}"

    def title(self, job: bytes) -> str:
        """The beginning of its jid."""
        return f"job {job[:8].decode()}"

    def worker(self, actor: Actor) -> Turn:
        """Takes, runs, and writes down what fails; its beats come from `beats`."""

        def run(item: Mapping[str, Any]) -> None:
            jid = str(item["jid"]).encode()
            attempt, job = self.attempt(jid), str(item.get("wrapped") or item["class"])
            try:
                actor.work(jid, 9 + 9 * self.roll(jid) if job == "ExportJob" else 0.3 + 1.4 * self.roll(jid))
            except Killed:
                if not process.die():  # no beat has told of it: it was in its memory alone
                    self.ledger.note(self.ledger.fell, jid)
                raise
            cause = _BY_JOB.get(job)
            if cause and self.fails(jid, attempt, cause.share):
                raise raised(cause)

        number = int(actor.name.rpartition("-")[2])
        process = original.Process(
            actor.client,
            self.queue,
            actor.name,
            run,
            actor.pause,
            roll=lambda: self.roll(actor.holds, "jitter"),
            number=number if number < 9 else number + 1,
        )
        is_there = False

        def turn() -> float:
            nonlocal is_there
            if not is_there:
                process.beat()
                self._processes.append(process)
                is_there = True
            word = process.step()
            if word == "finished":
                self.ledger.finish(actor.holds)
            elif word in ("retried", "dead"):
                self.ledger.say("rejected")
            actor.rest(IDLE_S / 2 if word == "idle" else 0.0)
            if actor.is_dismissed:
                process.leave()
            return 0.0

        return turn

    def supporters(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """The beats of all processes, and their pollers, which are not there until somebody starts them."""
        return {"beats": self._beats, "poller": self._poller}

    def _beats(self, actor: Actor) -> Turn:
        def turn() -> float:
            for process in self._processes:
                process.beat(actor.client)
            return original.BEAT_S

        return turn

    def _poller(self, actor: Actor) -> Turn:
        def turn() -> float:
            if not self._polls:
                return IDLE_S
            try:
                original.poll(actor.client)
            except original.Unreadable as error:
                self.ledger.note(self.ledger.fell, error.member)
                return TURN_S
            return _POLL_S

        return turn

    def _toggle_poller(self) -> str:
        self._polls = not self._polls
        if self._polls:
            return "the processes poll again: what is due is queued, once a second"
        return "the pollers have died: what is due stays in schedule and retry"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The list, the three sorted sets, and what processes told that they run."""
        work = [
            json.loads(told)["payload"].encode()
            for identity in client.smembers("processes")
            for told in client.hvals(identity + b":work")
        ]
        return places_of(
            queue=list(map(_jid, client.lrange(f"queue:{self.queue}", 0, -1))),
            work=list(map(_jid, work)),
            **{place: list(map(_jid, client.zrange(place, 0, -1))) for place in ("schedule", "retry", "dead")},
        )


def raised(cause: Cause) -> original.JobError:
    """As Ruby raises it."""
    return original.JobError(cause.kind, cause.message, cause.line, "/srv/shop/config/boot.rb:14:in `call'")


def _jid(payload: bytes) -> bytes:
    try:
        return str(json.loads(payload)["jid"]).encode()
    except ValueError:
        return payload


POLLER = Control("0", "poller", "poller", "the processes poll again; once more, and their pollers die")

SIDEKIQ = ForeignScenario(
    name="sidekiq",
    summary="a retry storm, a process killed with three jobs in hands, and nobody polls",
    layout="sidekiq",
    queue=QUEUE,
    stage=Shop,
    controls=beside_places(  # those of this scenario first: a narrow strip has no room for all
        (POLLER, FIX, *(control for control in CONTROLS if control.name not in ("poison", "stall")))
    ),
    loops=False,
    acts=((0.25, "kill"), (0.5, "add"), (0.5, "burst"), (0.6, "poller"), (0.7, "fix")),
    tries=(
        (".", "web-9 was killed: its three exports are gone a minute after its last beat; . puts them back before"),
        ("e", "the errors by cause: a storm of one, since the card gateway times out"),
        ("_ e R", "the gateway is back: run what failed of that cause now; the processes do the rest"),
        ("1 K", "the first in schedule is no JSON: a poller would lose it; K keeps it among the dead"),
        ("1 0", "what is due in schedule stands there: nobody polls; 0 starts the pollers"),
        ("$", "kill a process: what its last beat told stands in work for a minute, what it took since is gone"),
    ),
    watch=(
        "the countdown of what web-9 held",
        "retry, which fills until the fix",
        "schedule, where reminders are overdue",
    ),
)
