"""Rate limit (drip): a verb on many jobs, so many per second; it stops itself when failures or depth pass a limit.

`steps` is a generator: each step looks at the queues once, and sends what is due by then, or nothing. Whoever runs it
decides how often that is: the screen by a timer, the command line between two short sleeps. It ends when
the brake says so, when a reply is lost, or when all jobs were asked for; the last step has the words.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqtui.errors import UsageError, WrongType
from rqtui.layout.layout import CHUNK
from rqtui.model import Job, Outcome, Queue, Ref, State
from rqtui.text import formats
from rqtui.text.formats import numbered

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

Chosen = Sequence[tuple[Ref, Sequence[Job]]]
EVERY_S = 0.25  # between two steps
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(s|m|h))?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Brake:
    """How fast, and when it ends by itself; None: never for that reason. Failures are counted since it began."""

    per_s: float
    failures: int | None = None
    depth: int | None = None

    def words(self) -> str:
        """`5/s, stops at 20 failures or 100 ready jobs`."""
        limits = ((self.failures, "failure"), (self.depth, "ready job"))
        stops = [numbered(number, noun) for number, noun in limits if number is not None]
        return formats.rate(self.per_s) + (f", stops at {' or '.join(stops)}" if stops else "")


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did; `failures` since the beginning, `depth` the most that wait now, `stopped` why no other comes."""

    outcomes: tuple[tuple[Ref, Outcome], ...]
    done: int
    total: int
    failures: int
    depth: int
    stopped: str = ""


def rate(text: str) -> float:
    """Jobs per second from `5`, `5/s`, `300/m`, `90/h`. Raises UsageError in words."""
    found = _RATE.fullmatch(text.strip())
    per_s = float(found[1]) / _SECONDS[found[2] or "s"] if found else 0.0
    if not 0 < per_s <= 10_000:
        raise UsageError(f"a rate is 5/s, 100/m or 90/h, and more than 0; not {text!r:.40}.")
    return per_s


def steps(
    engine: Engine,
    verb: str,
    chosen: Chosen,
    form: Mapping[str, object],
    brake: Brake,
    *,
    place: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Step]:
    """Does `verb` to the chosen jobs, or with `place` to those that stand there at the beginning; see the module."""
    refs = [ref for ref, _jobs in chosen]
    before = _looked(engine, refs)
    jobs = _listed(engine, refs[0], place) if place else ((ref, job) for ref, jobs in chosen for job in jobs)
    total = sum(queue.count(place) for queue in before.values()) if place else sum(len(jobs) for _ref, jobs in chosen)
    known = [count for queue in before.values() for count in queue.counts if count.place == place]
    is_estimate = any(not count.exact for count in known)  # of a place that others share: it ends where the walk ends
    if engine.keeper is not None:  # where the whole is too much for one undo, no part of it is kept
        for ref, jobs_of in chosen:
            engine.keeper.expect(verb, ref, total if place else len(jobs_of))
    done, away, last_s, allowed = 0, dict.fromkeys(refs, 0), clock(), 1.0
    while True:
        now = _looked(engine, refs)
        failures = sum(_failures(before[ref], now[ref], away[ref]) for ref in refs)
        depth = max(queue.count_in(State.READY) for queue in now.values())
        stopped = _braked(brake, failures, depth, done, total)
        if stopped:
            yield Step((), done, total, failures, depth, stopped)
            return
        # What was missed is not caught up with: after a pause no more than a second's worth comes at once.
        now_s = clock()
        allowed, last_s = min(max(1.0, brake.per_s), allowed + (now_s - last_s) * brake.per_s), now_s
        room = CHUNK if brake.depth is None else brake.depth - depth
        due = min(CHUNK, CHUNK if is_estimate else total - done, int(allowed), room)
        batch = [] if due < 1 else [pair for _n, pair in zip(range(due), jobs, strict=False)]
        outcomes = tuple(_acted(engine, verb, batch, form))
        dead_before = {(ref, job.id): job.state is State.DEAD for ref, job in batch}
        for ref, outcome in outcomes:
            away[ref] += bool(outcome.moved) and dead_before.get((ref, outcome.id), False)
        done, allowed = done + len(batch), allowed - len(batch)
        lost = next((outcome.text for _ref, outcome in outcomes if outcome.is_lost), "")
        is_over = (done >= total and not is_estimate) or (due > len(batch))
        if is_estimate:
            total = done if is_over else max(total, done + 1)
        yield Step(outcomes, done, total, failures, depth, lost or ("all jobs were asked for" if is_over else ""))
        if lost or is_over:
            return


def _looked(engine: Engine, refs: Sequence[Ref]) -> dict[Ref, Queue]:
    queues = engine.ask_all([engine.layouts[ref.layout].queue_ask(ref.queue) for ref in refs])
    return dict(zip(refs, queues, strict=True))


def _failures(before: Queue, now: Queue, away: int) -> int:
    """Failed attempts since it began, where the system counts them; else the dead that came, for `away` that went."""
    if "failed" in before.counters:
        return max(0, now.counters.get("failed", 0) - before.counters["failed"])
    return max(0, now.count_in(State.DEAD) - (before.count_in(State.DEAD) - away))


def _listed_among_others(engine: Engine, ref: Ref, place: str) -> Iterator[tuple[Ref, Job]]:
    """Those of this queue in a shared place. Who leaves lets others move up, behind the walk: it is made again until it
    meets nothing new."""
    met: set[bytes] = set()
    known = -1
    while len(met) > known:
        known = len(met)
        for page in engine.walk(ref, place, CHUNK):
            fresh = [job for job in page.jobs if job.id not in met]
            met.update(job.id for job in fresh)
            yield from ((ref, job) for job in fresh)


def _braked(brake: Brake, failures: int, depth: int, done: int, total: int) -> str:
    after = f"after {done} of {total}"
    if brake.failures is not None and failures >= max(1, brake.failures):
        return f"stopped {after}: {numbered(failures, 'failure')} since it began (the limit is {brake.failures})"
    if brake.depth is not None and depth >= max(1, brake.depth):
        return f"stopped {after}: {numbered(depth, 'job')} ready (the limit is {brake.depth})"
    return ""


def _acted(
    engine: Engine, verb: str, batch: Sequence[tuple[Ref, Job]], form: Mapping[str, object]
) -> Iterator[tuple[Ref, Outcome]]:
    for ref in dict.fromkeys(ref for ref, _job in batch):
        for outcome in engine.act(verb, ref, [job for other, job in batch if other == ref], form):
            yield ref, outcome


def _listed(engine: Engine, ref: Ref, place: str) -> Iterator[tuple[Ref, Job]]:
    """The jobs of a place, a page when the one before is used up; those that stayed where they are come once."""
    if engine.layouts[ref.layout].is_shared(place):
        yield from _listed_among_others(engine, ref, place)
        return
    met: set[bytes] = set()
    offset = 0
    while True:
        page = engine.page(ref, place, offset, CHUNK)
        if page.error:
            raise WrongType(page.error)
        fresh = [job for job in page.jobs if job.id not in met]
        met.update(job.id for job in fresh)
        yield from ((ref, job) for job in fresh)
        if not page.jobs:
            return
        stayed = 0 if fresh else len(page.jobs)
        offset += stayed
