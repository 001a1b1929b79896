"""Take the snapshot of a command that runs once, and repeat it where workers may be between two jobs.

Called by `health` and `snapshot`. A snapshot of a busy queue may fall between two jobs of its workers. Then a job moves
within the next seconds, while idle workers leave all jobs where they are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Queue, Rate, Ref, Snapshot

LOOK_INTERVAL_S = 1.0
MAX_LOOKS = 6  # five seconds are needed, and the clock of the server may be late
sleep = time.sleep


class Look(NamedTuple):
    """A snapshot, and the facts about its queues that a single command cannot know, by queue."""

    snapshot: Snapshot
    unwatched: dict[Ref, tuple[str, ...]]


def take_settled_snapshot(engine: Engine, refs: Sequence[Ref]) -> Look:
    """Take a thorough snapshot of queues, and further ones of queues whose workers may be idle.

    Waits only if that is all that is unknown, and no queue has a warning: otherwise waiting decides nothing.
    """
    from rqtui.engine.health import rules
    from rqtui.model import Focus

    taken = engine.take_snapshot(Focus(queues=tuple(refs), is_thorough=True))
    queues = dict(zip(refs, taken.queues, strict=True))
    unwatched = {
        ref: facts
        for ref, queue in queues.items()
        if ref in taken.rates and (facts := rules.find_unwatched_facts(queue, taken.rates[ref]))
    }
    findings = [finding for queue in taken.queues for finding in queue.findings]
    is_decided = rules.find_worst_severity(findings) != "ok"
    if is_decided or any(facts != (rules.IDLE_WORKERS,) or not queues[ref].workers for ref, facts in unwatched.items()):
        return Look(taken, unwatched)
    for _look in range(MAX_LOOKS if unwatched else 0):
        sleep(LOOK_INTERVAL_S)
        again = engine.take_snapshot(Focus(queues=tuple(unwatched)))
        for ref, counted in zip([*unwatched], again.queues, strict=True):
            rate = again.rates.get(ref)
            if rate is None:
                continue  # Redis replied with an error.
            queue = engine.attach_idle_workers(ref, counted, rate)
            if rules.IDLE_WORKERS not in rules.find_unwatched_facts(queue, rate):
                queues[ref] = queue
                del unwatched[ref]
            elif _has_moved(queues[ref], rate):
                del unwatched[ref]
        if not unwatched:
            break
    return Look(replace(taken, queues=tuple(queues.values())), unwatched)


def _has_moved(first: Queue, rate: Rate) -> bool:
    """Return whether a job of a queue was taken or ended since its first count."""
    return rate.idle_since_ms is None or rate.idle_since_ms > first.counted_ms
