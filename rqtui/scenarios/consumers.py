"""The scenario `consumers`: consumers with heartbeats, a killed one's list, rejected jobs and the collector (orizuru).

rqtui's reaper returns the jobs of a dead consumer, which no part of orizuru does. Its garbage collector moves rejected
jobs to the *processing* list, which no consumer reads again. `registry.py` lists the scenario.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgpack

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import orizuru as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage, map_places

SOURCE = "thumbnails"
SILENT_MS = 5_000
_BEAT_S, _BEAT_TTL_MS = 1.0, 3_000
_REJECTED = 0.07
_FIRST = 60
_UNDECODABLE = b"\xc1 never used"


class Rejected(Exception):
    """Raised when the simulated work on a job fails, so that the consumer rejects the job."""


class Consumers(Stage):
    """The producer and workers of the scenario `consumers`: images to resize, and five consumers."""

    workers = 5
    overslept_s = SILENT_MS / 1000 + 4

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_collecting = False
        self._bad = 0
        self.actions = {"collect": self._request_collection, "undecodable": self._send_undecodable}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield the commands of the producer: the first jobs at once, then three per second."""
        rng = Random(f"consumers:{self.seed}")
        at_ms = 0.0
        for number in range(1 << 30):
            yield _build_image_command(rng, number, int(at_ms))
            at_ms += 0 if number < _FIRST else rng.expovariate(1 / 330)

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield the commands of bursts of images."""
        rng = Random(f"consumers-burst:{self.seed}")
        for number in range(1 << 30, 1 << 31):
            yield _build_image_command(rng, number, 0)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Put a job with the producer's LPUSH."""
        client.lpush(SOURCE, command.body)
        self.ledger.put[command.body] += 1

    def name_worker(self, number: int) -> str:
        """Return the name that a consumer has in its keys."""
        return f"resizer-{number}"

    def describe_job(self, job: bytes) -> str:
        """Return the number of the image that a job resizes."""
        return f"picture {msgpack.unpackb(job)[0]}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a consumer, which sends a heartbeat, then runs a job and acks or rejects it."""
        beat_s = 0.0

        def simulate_job_run(message: list[Any]) -> None:
            job = original.encode_struct(*message)
            attempt = self.count_attempt(job)
            began_s = time.monotonic()
            actor.work(job, 0.3 + 1.2 * self.draw_fraction(job))
            hung = time.monotonic() - began_s > self.overslept_s  # a late reject would duplicate the job
            if self.draw_fraction(job, f"reject {attempt}") < _REJECTED and not hung:
                raise Rejected

        worker = original.Worker(actor.client, SOURCE, actor.name, simulate_job_run, actor.pause)

        def run_worker_turn() -> float:
            nonlocal beat_s
            if not beat_s:
                worker.register()
            if time.monotonic() - beat_s >= _BEAT_S:
                worker.beat(_BEAT_TTL_MS)
                beat_s = time.monotonic()
            word = worker.step()
            if word == "acked":
                self.ledger.finish(actor.holds)
            elif word != "idle":
                self.ledger.count_word(word)
            return IDLE_S / 2 if word == "idle" else 0.0

        return run_worker_turn

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turn of orizuru's garbage collector, which runs one pass each time a person presses its key."""
        return {"collector": self._build_collector_turn}

    def _build_collector_turn(self, actor: Actor) -> Turn:
        def run_collector_turn() -> float:
            if self._is_collecting:
                self._is_collecting = False
                original.collect_unacked(actor.client, actor.pause)
            return IDLE_S

        return run_collector_turn

    def _request_collection(self) -> str:
        """Let orizuru's garbage collector run one pass; return a sentence about the effect."""
        self._is_collecting = True
        return "orizuru's collector made a pass: unacked went to processing, which no consumer reads"

    def _send_undecodable(self) -> str:
        """Push a job that no consumer can decode; return a sentence about the effect."""
        self._bad += 1
        body = b"%s %d" % (_UNDECODABLE, self._bad)
        self.send_command(ProducerCommand(0, body, body))
        return "sent a body that is not MessagePack: its consumer leaves it in processing"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the jobs of the source, and of both lists of every consumer that existed, by place."""
        found: dict[str, list[bytes]] = {"source": list(client.lrange(SOURCE, 0, -1)), "processing": [], "unacked": []}
        for key in client.scan_iter("orizuru:consumers:*:*", count=1000):
            place = key.decode().rsplit(":", 1)[-1]
            if place in found:
                found[place] += client.lrange(key, 0, -1)
        return map_places(**found)


def _build_image_command(rng: Random, number: int, at_ms: int) -> ProducerCommand:
    body = original.encode_struct(number, f"s3://photos/{rng.getrandbits(48):012x}.jpg", rng.choice((96, 640, 1600)))
    return ProducerCommand(at_ms, body, body)


COLLECT = Control("0", "collect", "collector", "one pass of orizuru's own collector")
BAD = Control("_", "undecodable", "bad body", "a body that no consumer can decode")

CONSUMERS = ForeignScenario(
    name="consumers",
    summary="consumers that die, and the jobs they held",
    system=f"orizuru:source={SOURCE},silent_ms={SILENT_MS}",
    queue=SOURCE,
    stage=Consumers,
    controls=(*(control for control in CONTROLS if control.name != "poison"), COLLECT, BAD),
    tries=(
        ("8", "kill a consumer: its processing list stays; five seconds later the reaper returns the jobs"),
        (". 8", "the same with the reaper stopped: nothing returns them, as in orizuru; . starts the reaper"),
        ("3 R", "rejected jobs are in unacked: requeue them to the source"),
        ("0", "orizuru's collector instead: it moves unacked to processing, which no consumer reads"),
        ("_", "a body that cannot be decoded stays in processing: open it there, and delete it"),
    ),
    watch=(
        "the age of each consumer's last heartbeat in processing",
        "unacked, which grows until you requeue it",
        "the finding that names the silent consumer",
    ),
)
