"""Take the snapshot of a command that runs once, and repeat it where workers may be between two jobs.

Called by `health` and `snapshot`. A snapshot of a busy queue may fall between two jobs of its workers. Then a job moves
within the next seconds, while idle workers leave all jobs where they are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rqtui.cli import output
from rqtui.errors import RecordingError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Queue, Rate, Ref, Snapshot
    from rqtui.recording.store import Reader

REPEAT_INTERVAL_S = 1.0
MAX_REPEATS = 6  # five seconds are needed, and the clock of the server may be late
sleep = time.sleep


class SettledSnapshot(NamedTuple):
    """A snapshot, and the facts about its queues that a single command cannot know, by queue."""

    snapshot: Snapshot
    unwatched: dict[Ref, tuple[str, ...]]


def take_settled_snapshot(engine: Engine, refs: Sequence[Ref], recording: Reader | None = None) -> SettledSnapshot:
    """Take a thorough snapshot of queues. Repeat it for up to six seconds while it may be that workers are idle.

    Queues whose system stores no history are counted again with the last minutes of the `recording`, if it has them.

    The snapshot is repeated only if nothing else is unknown and no queue has a warning, because otherwise the exit
    code does not depend on it.
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
    if recording is not None:
        queues, unwatched = _use_recording(engine, recording, taken, queues, unwatched)
        taken = replace(taken, queues=tuple(queues.values()))
    findings = [finding for queue in taken.queues for finding in queue.findings]
    is_decided = rules.find_worst_severity(findings) != "ok"
    if is_decided or any(facts != (rules.IDLE_WORKERS,) or not queues[ref].workers for ref, facts in unwatched.items()):
        return SettledSnapshot(taken, unwatched)
    for _repeat in range(MAX_REPEATS if unwatched else 0):
        sleep(REPEAT_INTERVAL_S)
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
    return SettledSnapshot(replace(taken, queues=tuple(queues.values())), unwatched)


def _use_recording(
    engine: Engine,
    recording: Reader,
    taken: Snapshot,
    queues: dict[Ref, Queue],
    unwatched: dict[Ref, tuple[str, ...]],
) -> tuple[dict[Ref, Queue], dict[Ref, tuple[str, ...]]]:
    """Return the queues and their unknown facts, completed by the last minutes of the recording.

    A recording that cannot be read is reported, and changes nothing.
    """
    from rqtui.engine.health import rules
    from rqtui.model import Focus
    from rqtui.recording.history import apply_recorded_starts, read_checkpoints

    recorded = []
    try:
        for ref, queue in queues.items():
            totals = engine.find_totals(ref)
            if totals is None or ref not in taken.rates:
                continue  # The queue could not be counted.
            if taken.rates[ref].recent.duration_ms >= rules.MIN_WATCHED_MS:
                continue  # Its system stores a history.
            if checkpoints := read_checkpoints(recording, ref, queue, totals):
                engine.add_earlier_checkpoints(ref, checkpoints)
                recorded.append(ref)
        if recorded:
            again = engine.take_snapshot(Focus(queues=tuple(recorded), is_thorough=True))
            for ref, queue in zip(recorded, again.queues, strict=True):
                queues[ref] = queue
                unwatched.pop(ref, None)
                if ref in again.rates and (facts := rules.find_unwatched_facts(queue, again.rates[ref])):
                    unwatched[ref] = facts
        return apply_recorded_starts(recording, queues), unwatched
    except RecordingError as error:
        output.print_message(str(error))
        return queues, unwatched


def _has_moved(first: Queue, rate: Rate) -> bool:
    """Return whether a job of a queue was taken or ended since its first count."""
    return rate.idle_since_ms is None or rate.idle_since_ms > first.counted_ms
