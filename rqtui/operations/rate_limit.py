"""Apply a verb to many jobs at a limited rate, and stop when failures or the number of ready jobs exceed a limit.

`yield_rate_limited_steps` is a generator. Each step polls the queues once and sends the jobs that are due by then, or
none. The caller decides how often to step: the screen by a timer, the command line between two short sleeps. The
generator ends when a limit is exceeded, a reply is lost or all jobs were sent; the last step has the reason.

A change may begin with a canary: some jobs are sent first, and the others only after all of these ended well
(`operations/canary`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rqtui.errors import UsageError, WrongType
from rqtui.model import Job, Outcome, Queue, Ref, State
from rqtui.operations.canary import RUN_S, WAIT_S, Canary, CanaryProgress
from rqtui.system_base.system import CHUNK
from rqtui.text import formats
from rqtui.text.formats import format_quantity

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

ChosenJobs = Sequence[tuple[Ref, Sequence[Job]]]
STEP_INTERVAL_S = 0.25  # between two steps
RATE_AFTER_CANARY = "20/s"  # of the jobs after a canary, where no rate was given
ALL_SENT = "all jobs were asked for"  # the reason of the last step of a complete change
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(s|m|h))?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Limits:
    """The speed of a rate-limited change, and the failures and ready jobs at which it stops (None: no limit).

    Failures count from the start of the change. `canary_jobs` are sent first; None: the change has no canary.
    """

    jobs_per_s: float
    max_failures: int | None = None
    max_depth: int | None = None
    canary_jobs: int | None = None
    canary_wait_s: float = WAIT_S  # the longest time without a worker that takes one of these jobs
    canary_run_s: float = RUN_S  # the longest run of one of these jobs

    def describe(self) -> str:
        """Describe the limits: `5 jobs first, then 5/s, stops at 20 failures or 100 ready jobs`."""
        limits = ((self.max_failures, "failure"), (self.max_depth, "ready job"))
        stops = [format_quantity(number, noun) for number, noun in limits if number is not None]
        first = f"{format_quantity(self.canary_jobs, 'job')} first, then " if self.canary_jobs else ""
        return first + formats.format_rate(self.jobs_per_s) + (f", stops at {' or '.join(stops)}" if stops else "")


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step of a rate-limited change: its outcomes and how many jobs were sent.

    `failures` is since the start of the change, `depth` the most ready jobs of a queue. A step with a `canary` that has
    passed sends no job: the caller may ask a person before the next step, which sends the other jobs.
    """

    outcomes: tuple[tuple[Ref, Outcome], ...]
    done: int
    total: int
    failures: int
    depth: int
    stop_reason: str = ""
    canary: CanaryProgress | None = None  # None: there is no canary, or the step before reported that it has passed


def parse_rate(text: str) -> float:
    """Parse a rate to jobs per second: `5`, `5/s`, `300/m`, `90/h`. Raises UsageError for other texts."""
    match = _RATE.fullmatch(text.strip())
    per_s = float(match[1]) / _SECONDS[match[2] or "s"] if match else 0.0
    if not 0 < per_s <= 10_000:
        raise UsageError(f"a rate is 5/s, 100/m or 90/h, and more than 0; not {text!r:.40}.")
    return per_s


def yield_rate_limited_steps(
    engine: Engine,
    verb: str,
    chosen_jobs: ChosenJobs,
    form: Mapping[str, object],
    limits: Limits,
    *,
    place: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Step]:
    """Apply a verb to the chosen jobs, or to those in `place` at the start, a batch per step at a limited rate."""
    refs = [ref for ref, _jobs in chosen_jobs]
    watch = _QueueWatch(engine, refs)
    if place:
        jobs = _JobSupply(_yield_jobs_of_place(engine, refs[0], place), *watch.count_jobs(place))
    else:
        jobs = _JobSupply(
            ((ref, job) for ref, jobs_of_queue in chosen_jobs for job in jobs_of_queue),
            sum(len(jobs_of_queue) for _ref, jobs_of_queue in chosen_jobs),
        )
    if engine.change_recorder is not None:  # If all jobs are too many for one undo, none of them is saved.
        for ref, jobs_of_queue in chosen_jobs:
            engine.change_recorder.begin_change(verb, ref, jobs.total if place else len(jobs_of_queue))
    systems = [engine.systems[ref.system] for ref in refs]
    canary = None
    if limits.canary_jobs:
        times = {"wait_s": limits.canary_wait_s, "run_s": limits.canary_run_s}
        canary = Canary(engine, systems, limits.canary_jobs, clock, **times)
    allowance = _JobAllowance(limits.jobs_per_s, clock)
    while True:
        failures, depth, now_ms = watch.poll_queues()
        progress = canary.poll_jobs(now_ms) if canary is not None and canary.is_sent else None
        reason = _explain_stop(limits, failures, depth, jobs.taken, jobs.total)
        if progress is not None and progress.stop_reason:
            reason = f"stopped after {jobs.taken} of {jobs.total}: {progress.stop_reason}"
        if reason:
            yield Step((), jobs.taken, jobs.total, failures, depth, reason, progress)
            return
        if progress is not None:
            if progress.has_passed:
                canary = None
            is_finished = progress.has_passed and jobs.is_over
            reason = ALL_SENT if is_finished else ""
            yield Step((), jobs.taken, jobs.total, failures, depth, reason, progress)
            if is_finished:
                return
            continue
        max_jobs = CHUNK if limits.max_depth is None else limits.max_depth - depth
        allowed_jobs = canary.size if canary is not None else allowance.add_jobs_for_elapsed_time()
        batch = jobs.take_jobs(min(CHUNK, allowed_jobs, max_jobs))
        if canary is None:
            allowance.subtract_sent_jobs(len(batch))
        outcomes = tuple(_apply_verb_to_batch(engine, verb, batch, form))
        watch.record_moved_jobs(batch, outcomes)
        reason = next((outcome.text for _ref, outcome in outcomes if outcome.is_lost), "")
        if canary is not None:
            canary.follow_jobs(verb, batch, outcomes, now_ms)
        elif jobs.is_over:
            reason = reason or ALL_SENT
        yield Step(outcomes, jobs.taken, jobs.total, failures, depth, reason)
        if reason:
            return


class _JobSupply:
    """The jobs that a rate-limited change still has to send; `taken` of `total` were taken so far.

    If `total` is an estimate, it is corrected while jobs are taken, and only the last job ends the change.
    """

    def __init__(self, jobs: Iterator[tuple[Ref, Job]], total: int, is_estimate: bool = False) -> None:
        self._jobs, self._is_estimate = jobs, is_estimate
        self.total, self.taken, self.is_over = total, 0, False

    def take_jobs(self, max_jobs: int) -> list[tuple[Ref, Job]]:
        """Take the next jobs, at most `max_jobs`; none if that is negative."""
        wanted_jobs = max_jobs if self._is_estimate else min(max_jobs, self.total - self.taken)
        batch = [*islice(self._jobs, max(0, wanted_jobs))]
        self.taken += len(batch)
        self.is_over = wanted_jobs > len(batch)
        if not self._is_estimate:
            self.is_over = self.is_over or self.taken >= self.total
        elif self.is_over:
            self.total = self.taken
        else:
            self.total = max(self.total, self.taken + 1)
        return batch


class _JobAllowance:
    """The number of jobs that a rate limit allows to send now.

    The number grows with time, up to the jobs of one second, so that no burst follows a pause.
    """

    def __init__(self, jobs_per_s: float, clock: Callable[[], float]) -> None:
        self._jobs_per_s, self._clock = jobs_per_s, clock
        self._jobs, self._refilled_s = 1.0, clock()

    def add_jobs_for_elapsed_time(self) -> int:
        """Add the jobs for the time since the last call, and return the allowed number of whole jobs."""
        now_s = self._clock()
        new_jobs = (now_s - self._refilled_s) * self._jobs_per_s
        self._jobs, self._refilled_s = min(max(1.0, self._jobs_per_s), self._jobs + new_jobs), now_s
        return int(self._jobs)

    def subtract_sent_jobs(self, jobs: int) -> None:
        """Subtract jobs that were sent from the allowed number."""
        self._jobs -= jobs


class _QueueWatch:
    """Polls the queues of a rate-limited change, and compares them with their counts at its start."""

    def __init__(self, engine: Engine, refs: Sequence[Ref]) -> None:
        self._engine, self._refs = engine, refs
        self._before = self._poll_queue_counts()
        self._moved_dead = dict.fromkeys(refs, 0)  # dead jobs that the change moved

    def _poll_queue_counts(self) -> dict[Ref, Queue]:
        requests = [self._engine.systems[ref.system].queue_request(ref.queue) for ref in self._refs]
        return dict(zip(self._refs, self._engine.send_requests(requests), strict=True))

    def count_jobs(self, place: str) -> tuple[int, bool]:
        """Return the number of jobs in a place at the start, and whether that is an estimate, as in a shared place."""
        counts = [count for queue in self._before.values() for count in queue.counts if count.place == place]
        total = sum(queue.count_in_place(place) for queue in self._before.values())
        return total, not all(count.is_exact for count in counts)

    def poll_queues(self) -> tuple[int, int, int]:
        """Poll the queues once. Return the failures since the start, the most ready jobs of a queue, and the time.

        The time is in ms since 1970, by the server's clock.
        """
        queues = self._poll_queue_counts()
        failures = sum(_count_new_failures(self._before[ref], queues[ref], self._moved_dead[ref]) for ref in self._refs)
        depth = max(queue.count_in_state(State.READY) for queue in queues.values())
        return failures, depth, max(queue.counted_ms for queue in queues.values())

    def record_moved_jobs(self, batch: Sequence[tuple[Ref, Job]], outcomes: Sequence[tuple[Ref, Outcome]]) -> None:
        """Record which dead jobs the change moved, because they must not make the number of failures smaller."""
        dead = {(ref, job.id) for ref, job in batch if job.state is State.DEAD}
        for ref, outcome in outcomes:
            self._moved_dead[ref] += bool(outcome.moved) and (ref, outcome.id) in dead


def _count_new_failures(queue_before: Queue, queue_now: Queue, moved_dead: int) -> int:
    """Count the failed attempts since the start of the change, if both polls counted them; else the new dead jobs.

    `moved_dead` is the number of dead jobs that this change moved, which are added.
    """
    if "failed" in queue_before.counters and "failed" in queue_now.counters:
        return max(0, queue_now.counters["failed"] - queue_before.counters["failed"])
    return max(0, queue_now.count_in_state(State.DEAD) - (queue_before.count_in_state(State.DEAD) - moved_dead))


def _yield_jobs_of_shared_place(engine: Engine, ref: Ref, place: str) -> Iterator[tuple[Ref, Job]]:
    """Yield the jobs of one queue in a place of all queues.

    A job that leaves moves the following ones up behind the walk, so the walk is repeated until it finds no new job.
    """
    seen_ids: set[bytes] = set()
    previous_count = -1
    while len(seen_ids) > previous_count:
        previous_count = len(seen_ids)
        for page in engine.walk_pages(ref, place, CHUNK):
            new_jobs = [job for job in page.jobs if job.id not in seen_ids]
            seen_ids.update(job.id for job in new_jobs)
            yield from ((ref, job) for job in new_jobs)


def _explain_stop(limits: Limits, failures: int, depth: int, done: int, total: int) -> str:
    """Return why the change must stop: too many failures or ready jobs. Empty if it may continue."""
    position = f"after {done} of {total}"
    if limits.max_failures is not None and failures >= max(1, limits.max_failures):
        failure_count = format_quantity(failures, "failure")
        return f"stopped {position}: {failure_count} since it began (the limit is {limits.max_failures})"
    if limits.max_depth is not None and depth >= max(1, limits.max_depth):
        return f"stopped {position}: {format_quantity(depth, 'job')} ready (the limit is {limits.max_depth})"
    return ""


def _apply_verb_to_batch(
    engine: Engine, verb: str, batch: Sequence[tuple[Ref, Job]], form: Mapping[str, object]
) -> Iterator[tuple[Ref, Outcome]]:
    """Apply a verb to a batch of jobs, queue by queue, and yield the outcomes."""
    for ref in dict.fromkeys(ref for ref, _job in batch):
        for outcome in engine.apply_verb(verb, ref, [job for other, job in batch if other == ref], form):
            yield ref, outcome


def _yield_jobs_of_place(engine: Engine, ref: Ref, place: str) -> Iterator[tuple[Ref, Job]]:
    """Yield the jobs of a place, and read the next page when the jobs of a page are used up.

    Jobs that stay in the place are yielded once.
    """
    if engine.systems[ref.system].is_shared(place):
        yield from _yield_jobs_of_shared_place(engine, ref, place)
        return
    seen_ids: set[bytes] = set()
    offset = 0
    while True:
        page = engine.fetch_page(ref, place, offset, CHUNK)
        if page.error:
            raise WrongType(page.error)
        new_jobs = [job for job in page.jobs if job.id not in seen_ids]
        seen_ids.update(job.id for job in new_jobs)
        yield from ((ref, job) for job in new_jobs)
        if not page.jobs:
            return
        stayed_jobs = 0 if new_jobs else len(page.jobs)
        offset += stayed_jobs
