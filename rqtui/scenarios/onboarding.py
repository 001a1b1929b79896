"""The scenario `onboarding`: a mail to each new user in three days, deleted by its id if the user acts (redisched).

Some users signed up three days ago, so their mails are due now. Some sends take longer than the lease (ttr). The reaper
then returns the mail to the queue, as redisched's own `requeue` does, and it is sent again. `registry.py` lists the
scenario.
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
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage, map_places

TOPIC = "onboarding"
TTR_MS = 4_000
_THREE_DAYS_MS = 3 * 24 * 3600 * 1000
_WAITING, _DUE = 300, 120  # of the last three days; due within a minute
_USERS = ("ada", "zoe", "jose", "hanako", "olga", "neha", "ngoc", "sam")
_LATE = 0.06  # the share of attempts that outlast their lease, by 1 to 3 s
_ACTS = 0.7  # the share of new users who act


class Onboarding(Stage):
    """The producer and workers of the scenario `onboarding`: users who sign up and act, and four mail workers."""

    bursts_of = 100
    overslept_s = TTR_MS / 1000 + 2.5

    def __init__(self, *args: Any) -> None:
        self._newest: list[bytes] = []
        super().__init__(*args)
        self.actions = {"act": self._delete_newest}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield the initial users; then two sign-ups per second, and users who act seconds later."""
        rng = Random(f"onboarding:{self.seed}")
        acting: list[tuple[int, bytes]] = []
        for number in range(_WAITING + _DUE):
            delay_ms = rng.randrange(60_000, _THREE_DAYS_MS) if number < _WAITING else rng.randrange(60_000)
            command = _build_mail(rng, number, 0, delay_ms)
            if rng.random() < 0.15:
                heapq.heappush(acting, (rng.randrange(60_000), command.job))
            yield command
        at_ms, number = 500.0, _WAITING + _DUE
        while True:
            while acting and acting[0][0] <= at_ms:
                yield ProducerCommand(acting[0][0], heapq.heappop(acting)[1], verb="delete")
            command = _build_mail(rng, number, int(at_ms), _THREE_DAYS_MS)
            if rng.random() < _ACTS:
                heapq.heappush(acting, (int(at_ms) + rng.randrange(3_000, 20_000), command.job))
            yield command
            number += 1
            at_ms += rng.expovariate(1 / 500)

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield commands for mails that are due at once."""
        rng = Random(f"onboarding-burst:{self.seed}")
        for number in range(1 << 30, 1 << 31):
            yield _build_mail(rng, number, 0, 0)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Put a mail as the producer does, or delete it by its id."""
        scheduler = original.Scheduler(client, TOPIC)
        if command.verb == "delete":
            if scheduler.delete(command.job):
                self.ledger.count(self.ledger.withdrawn, command.job)
            return
        scheduler.put(command.job, command.body, command.delay_ms / 1000)
        self.ledger.put[command.job] = 1
        self._newest.append(command.job)

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which reserves, sends and deletes one mail."""

        def simulate_mail_sending(id: bytes, _body: bytes | None) -> None:
            run, attempt = self.draw_fraction(id), self.count_attempt(id)
            is_late = self.draw_fraction(id, f"late {attempt}") < _LATE
            actor.work(id, 0.5 + 1.5 * run, TTR_MS / 1000 + 1 + 2 * run if is_late else 0.0)

        worker = original.Worker(original.Scheduler(actor.client, TOPIC), simulate_mail_sending, TTR_MS, actor.pause)

        def run_worker_turn() -> float:
            id = worker.step()
            if id is None:
                return IDLE_S
            self.ledger.finish(id)
            return 0.0

        return run_worker_turn

    def _delete_newest(self) -> str:
        """Delete the newest mail by its id; return a sentence about the effect."""
        if not self._newest:
            return "no user has signed up yet"
        id = self._newest.pop()
        self.send_command(ProducerCommand(0, id, verb="delete"))
        return f"the user acts: {id.decode()} is deleted by its id"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the members of the two sorted sets by place."""
        return map_places(
            queued=list(client.zrange(f"__REDIS_SCHED_QUEUED__{TOPIC}", 0, -1)),
            reserved=list(client.zrange(f"__REDIS_SCHED_RESERVED__{TOPIC}", 0, -1)),
        )


def _build_mail(rng: Random, number: int, at_ms: int, delay_ms: int) -> ProducerCommand:
    user = f"{rng.choice(_USERS)}{number}"
    body = bodies.encode_json(
        {"to": f"{user}@example.org", "template": "need_some_help", "locale": rng.choice(("de", "en"))}
    )
    return ProducerCommand(at_ms, f"need_some_help_email_{user}".encode(), body, delay_ms)


ACT = Control("0", "act", "user acts", "the newest user acts: the mail is deleted by its id")

ONBOARDING = ForeignScenario(
    name="onboarding",
    summary="mails due in three days, cancelled by their id",
    system=f"redisched:topic={TOPIC},unit=ms,ttr_ms={TTR_MS}",
    queue=TOPIC,
    stage=Onboarding,
    controls=(*(control for control in CONTROLS if control.name != "poison"), ACT),
    tries=(
        ("0", "the newest user acts: need_some_help_email_<user> is deleted from queued by its id alone"),
        ("1 Enter", "open a mail that is due in three days; D deletes it"),
        ("8", "kill a worker: its mail stays in reserved until the lease of four seconds ends, then it is due again"),
        (". 8", "the same with the reaper stopped: it stays in expired; . starts the reaper, which returns it"),
        ("7", "stall a worker: another one sends its mail, and redisched's late delete is not checked"),
    ),
    watch=(
        "queued, which holds days of mails, and due beside it, out of the same key",
        "leases that run out in reserved and show up in expired",
        "mails that disappear from queued when their user acts",
    ),
)
