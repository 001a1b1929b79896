"""`consumers`: consumers that beat, a killed one's processing list, rejected jobs and the collector (orizuru).

rqtui's reaper gives back the jobs that a dead consumer held, which nothing does in the original; its collector puts
rejected jobs into the *processing* list, where nobody reads them again.
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
from rqtui.scenarios.stage import Errand, ForeignScenario, Stage, places_of

SOURCE = "thumbnails"
SILENT_MS = 5_000
_BEAT_S, _BEAT_TTL_MS = 1.0, 3_000
_REJECTED = 0.07
_FIRST = 60
_UNDECODABLE = b"\xc1 never used"


class Rejected(Exception):
    """The work failed."""


class Consumers(Stage):
    """A producer of pictures to be resized, and five consumers."""

    workers = 5
    overslept_s = SILENT_MS / 1000 + 4

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_collecting = False
        self._bad = 0
        self.presses = {"collect": self._collect, "undecodable": self._send_undecodable}

    def plan(self) -> Iterator[Errand]:
        """Some at the beginning, then three a second."""
        rng = Random(f"consumers:{self.seed}")
        at_ms = 0.0
        for number in range(1 << 30):
            yield _picture(rng, number, int(at_ms))
            at_ms += 0 if number < _FIRST else rng.expovariate(1 / 330)

    def extra(self) -> Iterator[Errand]:
        """More pictures."""
        rng = Random(f"consumers-burst:{self.seed}")
        for number in range(1 << 30, 1 << 31):
            yield _picture(rng, number, 0)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """The producer's LPUSH."""
        client.lpush(SOURCE, errand.body)
        self.ledger.put[errand.body] += 1

    def name(self, number: int) -> str:
        """The consumer's name in its keys."""
        return f"resizer-{number}"

    def title(self, job: bytes) -> str:
        """The picture's number."""
        return f"picture {msgpack.unpackb(job)[0]}"

    def worker(self, actor: Actor) -> Turn:
        """Beats between two messages; takes, runs, acks or rejects."""
        beat_s = 0.0

        def run(message: list[Any]) -> None:
            job = original.encode(*message)
            attempt = self.attempt(job)
            began_s = time.monotonic()
            actor.work(job, 0.3 + 1.2 * self.roll(job))
            hung = time.monotonic() - began_s > self.overslept_s  # a late reject would make a second job of it
            if self.roll(job, f"reject {attempt}") < _REJECTED and not hung:
                raise Rejected

        worker = original.Worker(actor.client, SOURCE, actor.name, run, actor.pause)

        def turn() -> float:
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
                self.ledger.say(word)
            return IDLE_S / 2 if word == "idle" else 0.0

        return turn

    def supporters(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """The original's collector, which makes a pass when it is told to."""
        return {"collector": self._collector}

    def _collector(self, actor: Actor) -> Turn:
        def turn() -> float:
            if self._is_collecting:
                self._is_collecting = False
                original.collect(actor.client, actor.pause)
            return IDLE_S

        return turn

    def _collect(self) -> str:
        self._is_collecting = True
        return "the original's collector makes a pass: unacked goes to processing, which nobody reads"

    def _send_undecodable(self) -> str:
        self._bad += 1
        body = b"%s %d" % (_UNDECODABLE, self._bad)
        self.send(Errand(0, body, body))
        return "a body sent that is no MessagePack: its consumer leaves it in processing"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The source, and both lists of every consumer that ever was."""
        found: dict[str, list[bytes]] = {"source": list(client.lrange(SOURCE, 0, -1)), "processing": [], "unacked": []}
        for key in client.scan_iter("orizuru:consumers:*:*", count=1000):
            place = key.decode().rsplit(":", 1)[-1]
            if place in found:
                found[place] += client.lrange(key, 0, -1)
        return places_of(**found)


def _picture(rng: Random, number: int, at_ms: int) -> Errand:
    body = original.encode(number, f"s3://photos/{rng.getrandbits(48):012x}.jpg", rng.choice((96, 640, 1600)))
    return Errand(at_ms, body, body)


COLLECT = Control("0", "collect", "collector", "one pass of the original's own collector")
BAD = Control("_", "undecodable", "bad body", "a body that no consumer can decode")

CONSUMERS = ForeignScenario(
    name="consumers",
    summary="consumers that beat; the jobs of a dead one are reaped, and rejected jobs wait for you",
    layout=f"orizuru:source={SOURCE},silent_ms={SILENT_MS}",
    queue=SOURCE,
    stage=Consumers,
    controls=(*(control for control in CONTROLS if control.name != "poison"), COLLECT, BAD),
    tries=(
        ("8", "kill a consumer: its processing list stands; five silent seconds later the reaper gives it back"),
        (". 8", "the same with the reaper stopped: nobody comes, as in the original; . gives it back"),
        ("3 R", "what was rejected stands in unacked: requeue it to the source"),
        ("0", "the original's collector instead: it moves unacked to processing, and nobody reads that"),
        ("_", "a body that cannot be decoded stays in processing: open it there, and delete it"),
    ),
    watch=(
        "the age of each consumer's last beat in processing",
        "unacked, which grows until you requeue it",
        "the finding that names the silent consumer",
    ),
)
