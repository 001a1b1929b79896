"""`onboarding`: a mail to each new user three days ahead, deleted by its id when the user acts (redisched).

Some signed up three days ago: their mails are due now. Now and then sending one takes longer than the lease (ttr); the
reaper puts it back into the queue, as the original's `requeue` does, and it is sent again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios import bodies
from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import redisched as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import Errand, ForeignScenario, Stage, places_of

TOPIC = "onboarding"
TTR_MS = 4_000
_THREE_DAYS_MS = 3 * 24 * 3600 * 1000
_WAITING, _DUE = 300, 120  # of the last three days; due within a minute
_USERS = ("ada", "zoe", "jose", "hanako", "olga", "neha", "ngoc", "sam")
_LATE = 0.06  # the share of attempts that outlast their lease, by 1 to 3 s
_ACTS = 0.7  # the share of new users who act


class Onboarding(Stage):
    """Users who sign up and act, and four workers that send mails."""

    bursts_of = 100
    overslept_s = TTR_MS / 1000 + 2.5

    def __init__(self, *args: Any) -> None:
        self._newest: list[bytes] = []
        super().__init__(*args)
        self.presses = {"act": self._act}

    def plan(self) -> Iterator[Errand]:
        """The users who wait already; then two sign-ups a second, and users who act some seconds later."""
        rng = Random(f"onboarding:{self.seed}")
        acting: list[tuple[int, bytes]] = []
        for number in range(_WAITING + _DUE):
            delay_ms = rng.randrange(60_000, _THREE_DAYS_MS) if number < _WAITING else rng.randrange(60_000)
            errand = _mail(rng, number, 0, delay_ms)
            if rng.random() < 0.15:
                heapq.heappush(acting, (rng.randrange(60_000), errand.job))
            yield errand
        at_ms, number = 500.0, _WAITING + _DUE
        while True:
            while acting and acting[0][0] <= at_ms:
                yield Errand(acting[0][0], heapq.heappop(acting)[1], verb="delete")
            errand = _mail(rng, number, int(at_ms), _THREE_DAYS_MS)
            if rng.random() < _ACTS:
                heapq.heappush(acting, (int(at_ms) + rng.randrange(3_000, 20_000), errand.job))
            yield errand
            number += 1
            at_ms += rng.expovariate(1 / 500)

    def extra(self) -> Iterator[Errand]:
        """Mails that are due at once."""
        rng = Random(f"onboarding-burst:{self.seed}")
        for number in range(1 << 30, 1 << 31):
            yield _mail(rng, number, 0, 0)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """The producer's put, and its delete by id."""
        scheduler = original.Scheduler(client, TOPIC)
        if errand.verb == "delete":
            if scheduler.delete(errand.job):
                self.ledger.note(self.ledger.withdrawn, errand.job)
            return
        scheduler.put(errand.job, errand.body, errand.delay_ms / 1000)
        self.ledger.put[errand.job] = 1
        self._newest.append(errand.job)

    def worker(self, actor: Actor) -> Turn:
        """Reserves, sends, deletes."""

        def work(id: bytes, _body: bytes | None) -> None:
            run, attempt = self.roll(id), self.attempt(id)
            is_late = self.roll(id, f"late {attempt}") < _LATE
            actor.work(id, 0.5 + 1.5 * run, TTR_MS / 1000 + 1 + 2 * run if is_late else 0.0)

        worker = original.Worker(original.Scheduler(actor.client, TOPIC), work, TTR_MS, actor.pause)

        def turn() -> float:
            id = worker.step()
            if id is None:
                return IDLE_S
            self.ledger.finish(id)
            return 0.0

        return turn

    def _act(self) -> str:
        if not self._newest:
            return "nobody has signed up yet"
        id = self._newest.pop()
        self.send(Errand(0, id, verb="delete"))
        return f"the user acts: {id.decode()} is deleted by its id"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The two sorted sets."""
        return places_of(
            queued=list(client.zrange(f"__REDIS_SCHED_QUEUED__{TOPIC}", 0, -1)),
            reserved=list(client.zrange(f"__REDIS_SCHED_RESERVED__{TOPIC}", 0, -1)),
        )


def _mail(rng: Random, number: int, at_ms: int, delay_ms: int) -> Errand:
    user = f"{rng.choice(_USERS)}{number}"
    body = bodies.as_json(
        {"to": f"{user}@example.org", "template": "need_some_help", "locale": rng.choice(("de", "en"))}
    )
    return Errand(at_ms, f"need_some_help_email_{user}".encode(), body, delay_ms)


ACT = Control("0", "act", "user acts", "the newest user acts: the mail is deleted by its id")

ONBOARDING = ForeignScenario(
    name="onboarding",
    summary="a mail to each new user three days ahead, deleted by its id when the user acts; some are due now",
    layout=f"redisched:topic={TOPIC},unit=ms,ttr_ms={TTR_MS}",
    queue=TOPIC,
    stage=Onboarding,
    controls=(*(control for control in CONTROLS if control.name != "poison"), ACT),
    tries=(
        ("0", "the newest user acts: need_some_help_email_<user> is gone from queued, by its id alone"),
        ("1 Enter", "open a mail that is due in three days; D deletes it"),
        ("8", "kill a worker: its mail stays in reserved until the lease of four seconds ends, then it is due again"),
        (". 8", "the same with the reaper stopped: it stays in expired; . puts it back"),
        ("7", "stall a worker: its mail is sent by another one, and the original's late delete asks nobody"),
    ),
    watch=(
        "queued, which holds days of mails, and due beside it, out of the same key",
        "leases that run out in reserved and show up in expired",
        "mails that disappear from queued when their user acts",
    ),
)
