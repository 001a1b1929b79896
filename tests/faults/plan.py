"""Compute the plan of a run from a seed: which processes take part, and which fault hits which one, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

QUEUES = ("mail", "images", "reports")
# A slot is filled by one process at a time: its name, the kind of actor or the command, and the proxy it connects by.
SLOTS: Sequence[tuple[str, str, str]] = (
    ("producer1", "produce", "put"),
    ("producer2", "produce-awaited", "put"),
    ("hand", "command", "put"),
    ("consumer1", "consume", "work"),
    ("consumer2", "consume-awaited", "work"),
    ("consumer3", "consume", "work"),
    ("leaser", "lease", "work"),
    ("worker", "rqtui work", "work"),
    ("dispatcher", "rqtui dispatch", "rule"),
    ("reaper", "rqtui reap", "rule"),
    ("screen", "look", "rule"),
    ("operator", "operate", "rule"),
)
PROXIES = ("put", "work", "rule")
KILLS = (*(name for name, _, _ in SLOTS), "server", "server")
FAULTS = (
    *[("stop", name) for name in ("consumer", "consumer", "leaser", "worker")],
    ("stop", "server"),
    *[(kind, proxy) for kind in ("cut", "lose reply", "half reply", "swallow") for proxy in PROXIES],
    ("cut before", "work"),
    ("delay", "work"),
    ("blackhole", "rule"),
)


@dataclass(frozen=True)
class Strike:
    """One fault: `kind` is kill, stop, or a fault of `proxy.Proxy`; `until_s` is when it ends or its victim is back."""

    at_s: float
    kind: str
    target: str
    until_s: float
    times: int = 1  # of requests that it strikes
    command: str = ""  # whose names begin so


def strikes(seed: int, kills: int, pace_s: float) -> Iterator[Strike]:
    """Return faults in the order of their times until so many kills are among them, `pace_s` apart on average.

    Each kind of fault occurs once before any occurs again.
    """
    chance = random.Random(seed)
    at_s = 1.0
    while kills > 0:
        deck = [("kill", name) for name in KILLS] + list(FAULTS)
        chance.shuffle(deck)
        for kind, card in deck:
            if kind == "kill" and kills == 0:
                continue
            kills -= kind == "kill"
            at_s += pace_s * chance.uniform(0.4, 1.6)
            target = f"consumer{chance.randint(1, 3)}" if card == "consumer" else card
            times, command = chance.choice((1, 1, 3)), chance.choice(("EVALSHA ", "EVALSHA ", ""))
            yield Strike(at_s, kind, target, at_s + _length_s(chance, kind), times, command)


def _length_s(chance: random.Random, kind: str) -> float:
    if kind == "kill":
        return chance.choice((0.0, 0.0, 0.5, 1.0))
    return chance.uniform(0.7, 1.6)  # a lease lasts 0.6 s
