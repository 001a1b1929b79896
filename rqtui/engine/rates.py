"""Compute each queue's job rates over the last minute, and its recent activity over the last five minutes.

Called by the engine once per snapshot. Both come from the counters that a system stores. For a system without counters
they are estimated from the changes of its job counts, as a lower bound. This module also tracks since when a queue's
oldest due job could have been dispatched. A score says when a job is due, but a job put a moment ago may carry a score
of 1970: the score is trusted only if rqtui saw the job become due, or if the score is plausible.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rqtui.model import Count, FailedStreak, Queue, Rate, RecentActivity, Ref, State

HISTORY_POLLS = 60  # polls whose throughput is stored for the sparkline
WINDOW_MS = 300_000  # recent activity: long enough for ten attempts of a slow queue, short enough to see a fix work
MINUTE_MS = 60_000  # recent enough to see that all attempts fail since a minute
BURST_MS = 30_000  # jobs that came within so short a time are a burst, not a growing queue
GROWING_MS = 120_000  # the time over which the growth of a queue is measured
CHECKPOINT_INTERVAL_MS = 15_000  # between two checkpoints
AGE_INTERVAL_MS = 60_000  # between two stored ages of the oldest ready job, from which the usual wait is computed
MAX_AGES = 60
MAX_HEAD_MS = 50  # the age of a job is rounded
MIN_STREAK = 10  # failed attempts in a row that are reported where they are too rare for a share of five minutes
MIN_USUAL_AGES = 10  # ages that are needed to compute a usual wait
MAX_PLAUSIBLE_AGE_MS = 366 * 86_400_000
NO_RATE = Rate()  # the rate of a queue that was polled only once
_UNFINISHED_STATES = (State.SCHEDULED, State.READY, State.RESERVED)
_ENDED_STATES = (State.DONE, State.DEAD)
_Departures = tuple[tuple[int, int], ...]  # (server time in ms, jobs), the oldest first


class Totals(NamedTuple):
    """The total numbers of jobs enqueued, completed, failed and dead in a queue, and its ready jobs (None: unknown).

    They count since the queue exists; for a system without counters since the first poll.
    """

    enqueued: int = 0
    completed: int = 0
    failed: int = 0
    dead: int = 0
    ready: int | None = None


class Checkpoint(NamedTuple):
    """The totals of a queue at one point in time (ms, the server's clock)."""

    at_ms: int
    totals: Totals = Totals()


class RecordedEnds(NamedTuple):
    """How many attempts succeeded and failed since `since_ms`, by the end times stored with the jobs."""

    since_ms: int  # the server's clock
    completed: int
    failed: int
    is_final: bool = True  # False: a failed attempt may be tried again, so it is no dead job


EarlierActivity = Checkpoint | RecordedEnds | FailedStreak


@dataclass(slots=True)
class _QueueHistory:
    """The stored data of one queue's previous polls: the last counts, checkpoints and throughput.

    Sequences are tuples, the oldest value first, so that idle queues can share them: there may be ten thousand queues.
    """

    polled_at_s: float  # when the queue was last polled, by `time.monotonic`
    polled_at_ms: int  # the server's clock
    counts: tuple[Count, ...]
    counters: Mapping[str, int]
    totals: Totals
    checkpoints: tuple[Checkpoint, ...]
    head_due_ms: int | None  # when the oldest due job was due, by its score
    due_since_ms: int | None
    overdue: int
    active_at_ms: int  # when a job was reserved or ended last; at the first poll: the time of that poll
    head_ready_ms: int | None = None  # since when the next ready job waits
    throughput: tuple[float, ...] = ()
    ages: tuple[int, ...] = ()
    last_age_ms: int = 0  # when the last age was stored
    usual_wait_ms: int | None = None  # median of the older ages
    streak: FailedStreak | None = None  # the failed attempts since the last success
    next_update_ms: int = 0  # when a checkpoint or age must be stored or deleted
    unmatched_departures: _Departures = ()  # jobs that left without an end event
    assumed_completions: _Departures = ()  # those of them that count as completed, because no event had come


class Rates:
    """Stores a short history of every polled queue, and computes rates and recent activity from it."""

    def __init__(self) -> None:
        self._histories: dict[Ref, _QueueHistory] = {}
        self._idle_rate = NO_RATE  # the last rate of an idle queue, shared by equal ones

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._histories

    def compute_rate(self, ref: Ref, queue: Queue, now_s: float) -> Rate:
        """Return the rates of a queue in the last minute, and store this poll.

        The first poll of a queue returns `NO_RATE`. Idle queues with the same history share one Rate object. `now_s` is
        a value of `time.monotonic`.
        """
        history = self._histories.get(ref)
        if history is None:
            self._histories[ref] = _start_queue_history(queue, now_s)
            return NO_RATE
        due_since_ms = _update_due_since_ms(history, queue) if queue.overdue or history.overdue else None
        seconds, previous_totals = now_s - history.polled_at_s, history.totals
        previous_ends = previous_totals[1:4], history.assumed_completions
        if (queue.counts, queue.counters) != (
            history.counts,
            history.counters,
        ):  # Fast in the usual case, where they are the same objects.
            history.totals = _compute_totals(history, queue)
            history.counts, history.counters = queue.counts, queue.counters
            history.streak = _extend_streak(history.streak, previous_totals, history.totals, queue.counted_ms)
        history.polled_at_s, history.polled_at_ms, totals = now_s, queue.counted_ms, history.totals
        if queue.counted_ms >= history.next_update_ms:
            _update_checkpoints(history, queue)
        has_no_new_ends = totals is previous_totals or (totals[1:4], history.assumed_completions) == previous_ends
        idle_since_ms = _update_idle_since_ms(history, queue, previous_totals, has_no_new_ends)
        if seconds > 0:
            out_s = max(0, totals.completed - previous_totals.completed) / seconds
            history.throughput = (
                (*history.throughput, out_s)[-HISTORY_POLLS:] if out_s else _append_idle_poll(history.throughput)
            )
        streak = _find_current_streak(history)
        if totals == history.checkpoints[0].totals:
            idle_rate = self._reuse_idle_rate(history, due_since_ms, idle_since_ms)
            return idle_rate if streak is None else idle_rate._replace(failed_streak=streak)
        window_ms, rates = _compute_minute_rates(history)
        recent, since_ms = _compute_recent_activity(history), idle_since_ms
        return Rate(*rates, history.throughput, due_since_ms, recent, None, since_ms, window_ms, streak)

    def _reuse_idle_rate(self, history: _QueueHistory, due_since_ms: int | None, idle_since_ms: int | None) -> Rate:
        """Return the rate of a queue without recent activity, as the last such object if its fields are equal."""
        rate, ms = self._idle_rate, _compute_window_ms(history)
        start_times = due_since_ms, idle_since_ms
        if (
            rate.recent.duration_ms != ms
            or rate.history is not history.throughput
            or (rate.due_since_ms, rate.idle_since_ms) != start_times
        ):
            rate = self._idle_rate = Rate(
                history=history.throughput,
                due_since_ms=due_since_ms,
                recent=RecentActivity(ms),
                idle_since_ms=idle_since_ms,
                window_ms=min(ms, MINUTE_MS),
            )
        return rate

    def add_earlier_activity(self, ref: Ref, earlier: EarlierActivity) -> tuple[RecentActivity, FailedStreak | None]:
        """Add jobs that ended before the first poll of a queue.

        Returns the queue's recent activity with them, and its failed attempts in a row.
        """
        history = self._histories[ref]
        if isinstance(earlier, FailedStreak):
            if history.streak is None or history.streak.attempts < earlier.attempts:
                history.streak = earlier
            return _compute_recent_activity(history), _find_current_streak(history)
        checkpoint = earlier if isinstance(earlier, Checkpoint) else _convert_recorded_ends(history, earlier)
        if checkpoint.at_ms < history.checkpoints[0].at_ms:
            history.checkpoints = (checkpoint, *history.checkpoints)
            history.next_update_ms = 0
        return _compute_recent_activity(history), _find_current_streak(history)

    def find_totals(self, ref: Ref) -> Totals | None:
        """Return the totals of a queue at its last poll, or None if the queue was not polled."""
        history = self._histories.get(ref)
        return history.totals if history else None

    def find_usual_wait_ms(self, ref: Ref) -> int | None:
        """Return the median age (ms) of a queue's oldest ready job before the last five minutes.

        Returns None if the queue has not been polled for long enough.
        """
        history = self._histories.get(ref)
        return history.usual_wait_ms if history else None


_IDLE_THROUGHPUTS = tuple((0.0,) * looks for looks in range(HISTORY_POLLS + 1))  # shared by idle queues, by length


def _append_idle_poll(throughput: tuple[float, ...]) -> tuple[float, ...]:
    """Append a poll without completed jobs to `throughput`. A result of zeros only is a shared tuple."""
    poll_count = len(throughput)
    if throughput is _IDLE_THROUGHPUTS[poll_count]:
        return _IDLE_THROUGHPUTS[min(poll_count + 1, HISTORY_POLLS)]
    longer = (*throughput, 0.0)[-HISTORY_POLLS:]
    return longer if any(longer) else _IDLE_THROUGHPUTS[len(longer)]


def _convert_recorded_ends(history: _QueueHistory, recorded: RecordedEnds) -> Checkpoint:
    """Return the totals of a queue before its recorded attempts ended. Its ready jobs at that time are unknown."""
    totals, first, ended = history.totals, history.checkpoints[0].totals, recorded.completed + recorded.failed
    earlier_totals = Totals(  # Totals never fall, so each is at most that of the first poll.
        min(first.enqueued, totals.enqueued - ended),
        min(first.completed, totals.completed - recorded.completed),
        min(first.failed, totals.failed - recorded.failed),
        min(first.dead, totals.dead - (recorded.failed if recorded.is_final else 0)),
    )
    return Checkpoint(recorded.since_ms, earlier_totals)


def _start_queue_history(queue: Queue, now_s: float) -> _QueueHistory:
    """Build the history of a queue from its first poll."""
    head_ms = _compute_head_due_ms(queue)
    is_known = head_ms is not None and is_plausible_due_time(head_ms, queue.counted_ms)
    since_ms = head_ms if head_ms is None or is_known else queue.counted_ms
    polled_ms, totals = queue.counted_ms, _compute_totals(None, queue)
    checkpoints = (Checkpoint(polled_ms, totals),)
    return _QueueHistory(
        now_s, polled_ms, queue.counts, queue.counters, totals, checkpoints, head_ms, since_ms, queue.overdue, polled_ms
    )


def _compute_totals(history: _QueueHistory | None, queue: Queue) -> Totals:
    """Return the totals of a queue from its counters. A missing counter is estimated from changed job counts.

    Estimated totals start at zero at the first poll. A dead job counts as a failure only if completed jobs are counted
    too: otherwise every finished attempt would look like a failure.
    """
    previous = history.totals if history else Totals()
    counters = queue.counters
    has_all_counters = {"in", "out", "failed", "dead"} <= counters.keys()
    enqueued, completed, dead = _estimate_new_events(history, queue) if history and not has_all_counters else (0, 0, 0)
    has_completed = "out" in counters or _counts_completed_jobs(queue)
    return Totals(
        counters.get("in", previous.enqueued + enqueued),
        counters.get("out", previous.completed + completed),
        counters.get("failed", previous.failed + (dead if has_completed else 0)),
        counters.get("dead", previous.dead + dead),
        queue.count_in_state(State.READY),
    )


def _estimate_new_events(history: _QueueHistory, queue: Queue) -> tuple[int, int, int]:
    """Estimate how many jobs were enqueued, completed and became dead since the last poll. Each is a lower bound.

    If the system has no place for completed jobs, a job that left all places counts as completed. If completed jobs are
    counted from Pub/Sub events, a job is in no place between leaving the last one and its event: the job of a later
    event must not count as enqueued again, and not as ended again if it was assumed to be completed before the first
    event came. The number of completed jobs is negative if such jobs turn out to be dead.
    """

    def compute_growth(*states: State, failures: bool = False) -> int:
        return _count_jobs(queue.counts, states, failures) - _count_jobs(history.counts, states, failures)

    unfinished_growth, dead_growth = compute_growth(*_UNFINISHED_STATES), max(0, compute_growth(State.DEAD))
    is_completed_counted = _counts_completed_jobs(queue)
    done_growth = max(0, compute_growth(State.DONE)) if is_completed_counted else 0
    departed = 0 if is_completed_counted else max(0, -unfinished_growth - dead_growth)
    enqueued, completed = unfinished_growth + dead_growth + done_growth, done_growth or departed
    coverages = [count.coverage for count in queue.counts if count.coverage]
    if coverages and (is_completed_counted or enqueued < 0):
        history.unmatched_departures, enqueued = _match_departures(
            history.unmatched_departures, enqueued, queue.counted_ms
        )
    if any(coverage.since_ms is not None for coverage in coverages):
        ended = done_growth + dead_growth if is_completed_counted else -departed
        history.assumed_completions, new_ends = _match_departures(history.assumed_completions, ended, queue.counted_ms)
        completed -= max(0, ended) - max(0, new_ends)
    return max(0, enqueued), completed, max(0, compute_growth(State.DEAD, failures=True))


def _count_jobs(counts: Sequence[Count], states: Collection[State], failures: bool) -> int:
    """Count the jobs in all places with one of `states`. With `failures`, only places of failed jobs are counted.

    A job reassigned to another queue is still counted in its first one, so that the move does not look like an end.
    """
    return sum(
        count.count - (count.coverage.reassigned if count.coverage else 0)
        for count in counts
        if count.state in states and (count.has_failures or not failures)
    )


def _match_departures(departures: _Departures, number: int, now_ms: int) -> tuple[_Departures, int]:
    """Return the departures that still have no event, and `number` without the jobs whose event came now.

    A positive `number` counts jobs with an event, a negative one jobs that left at this poll.
    """
    remaining = [departure for departure in departures if departure[0] >= now_ms - WINDOW_MS]
    if number < 0:
        remaining.append((now_ms, -number))
    while remaining and number > 0:
        left_ms, jobs = remaining.pop(0)
        if jobs > number:
            remaining.insert(0, (left_ms, jobs - number))
        number -= min(number, jobs)
    return tuple(remaining), number


def _counts_completed_jobs(queue: Queue) -> bool:
    """Return whether a place of the queue counts completed jobs. If the count is from events, an end must have come."""
    return any(
        count.state is State.DONE if count.coverage is None else count.state in _ENDED_STATES and count.shared_total
        for count in queue.counts
    )


def _update_checkpoints(history: _QueueHistory, queue: Queue) -> None:
    """Store a checkpoint and the age of the oldest ready job if they are due, and delete old checkpoints."""
    checkpoints, now_ms = history.checkpoints, history.polled_at_ms
    if now_ms - checkpoints[-1].at_ms >= CHECKPOINT_INTERVAL_MS:
        if len(checkpoints) > 1 and checkpoints[-1].totals == history.totals == checkpoints[-2].totals:
            checkpoints = checkpoints[:-1]  # Of an idle period, only the first and last checkpoint are needed.
        checkpoints = (*checkpoints, Checkpoint(now_ms, history.totals))
    while len(checkpoints) > 1 and checkpoints[1].at_ms <= now_ms - WINDOW_MS:
        checkpoints = checkpoints[1:]
    history.checkpoints = checkpoints
    if now_ms - history.last_age_ms >= AGE_INTERVAL_MS:
        history.last_age_ms = now_ms
        history.ages = (*history.ages, queue.oldest_ready_ms or 0)[-MAX_AGES:]
        older_ages = history.ages[: -WINDOW_MS // AGE_INTERVAL_MS]
        history.usual_wait_ms = round(median(older_ages)) if len(older_ages) >= MIN_USUAL_AGES else None
    delete_ms = checkpoints[1].at_ms + WINDOW_MS if len(checkpoints) > 1 else math.inf
    history.next_update_ms = int(
        min(checkpoints[-1].at_ms + CHECKPOINT_INTERVAL_MS, history.last_age_ms + AGE_INTERVAL_MS, delete_ms)
    )


def _extend_streak(streak: FailedStreak | None, previous: Totals, totals: Totals, now_ms: int) -> FailedStreak | None:
    """Return the failed attempts since the last success, with those since the previous poll.

    A success in the same time, and totals that fell because a person emptied the queue, end them.
    """
    failed = totals.failed - previous.failed
    if totals.completed != previous.completed or failed < 0:
        return None
    if not failed:
        return streak
    return FailedStreak((streak.attempts if streak else 0) + failed, streak.since_ms if streak else now_ms, now_ms)


def _find_current_streak(history: _QueueHistory) -> FailedStreak | None:
    """Return the failed attempts of a queue in a row, if they are many and still come.

    They come no more if none came for five minutes, and for twice the mean time between two of them.
    """
    streak = history.streak
    if streak is None or streak.attempts < MIN_STREAK:
        return None
    pause_ms = max(WINDOW_MS, 2 * (streak.last_ms - streak.since_ms) // (streak.attempts - 1))
    return streak if history.polled_at_ms - streak.last_ms <= pause_ms else None


def _compute_window_ms(history: _QueueHistory) -> int:
    """Return the duration in ms that the stored checkpoints of a queue cover, up to its last poll."""
    checkpoints = history.checkpoints
    ms = history.polled_at_ms - checkpoints[0].at_ms
    if (
        len(checkpoints) > 1 and checkpoints[1].totals == checkpoints[0].totals
    ):  # Nothing happened between them, so both totals hold.
        ms = min(ms, WINDOW_MS)
    return ms


def _compute_recent_activity(history: _QueueHistory) -> RecentActivity:
    """Return what happened in a queue since its oldest checkpoint, five minutes at most."""
    start, end, ms = history.checkpoints[0].totals, history.totals, _compute_window_ms(history)
    if start == end:
        return RecentActivity(ms)
    enqueued, completed, failed, dead = (
        max(0, after - before) for before, after in zip(start[:4], end[:4], strict=True)
    )
    ready_growth = enqueued - completed - dead if start.ready is None else (end.ready or 0) - start.ready
    latest = _compute_latest_growth(history)
    recent_numbers = (*_count_last_minute_attempts(history), *_compute_ready_growth(history))
    return RecentActivity(ms, enqueued, completed, failed, dead, ready_growth, latest, *recent_numbers)


def _count_last_minute_attempts(history: _QueueHistory) -> tuple[int, int]:
    """Return how many attempts succeeded and failed in about the last minute; zeros if that is unknown.

    They are counted since the newest checkpoint that is at least a minute old: 60 to 75 s ago if the queue is polled
    all the time, and never more than 2 minutes ago.
    """
    begin_ms = history.polled_at_ms - MINUTE_MS
    checkpoint = next((candidate for candidate in reversed(history.checkpoints) if candidate.at_ms <= begin_ms), None)
    if checkpoint is None or checkpoint.at_ms < begin_ms - MINUTE_MS:
        return 0, 0
    end = history.totals
    return max(0, end.completed - checkpoint.totals.completed), max(0, end.failed - checkpoint.totals.failed)


def _compute_minute_rates(history: _QueueHistory) -> tuple[int, tuple[float, float, float]]:
    """Return a time in ms, and the jobs enqueued and completed and the attempts failed per second in that time.

    The time is a minute, or up to two because checkpoints are some time apart, or longer if the queue is polled more
    rarely. It is shorter if the queue was not watched for so long. Checkpoints from the ends that a system stores are
    left out: they say nothing about enqueued jobs.
    """
    end, now_ms = history.totals, history.polled_at_ms
    begin_ms = now_ms - MINUTE_MS
    watched = [one for one in history.checkpoints if one.totals.ready is not None and one.at_ms < now_ms]
    if not watched:
        return 0, (0.0, 0.0, 0.0)
    at = next((index for index in range(len(watched) - 1, 0, -1) if watched[index].at_ms <= begin_ms), 0)
    start, start_ms = watched[at].totals, watched[at].at_ms
    following = watched[at + 1] if at + 1 < len(watched) else None
    if following is not None and following.totals == start:
        start_ms = max(start_ms, min(following.at_ms, begin_ms))  # Nothing happened between them.
    elif following is not None and start_ms < begin_ms - MINUTE_MS:  # The queue is one of many, and is rarely polled.
        start, start_ms = following.totals, following.at_ms
    seconds = (now_ms - start_ms) / 1000
    in_s, out_s, failed_s = (max(0, after - before) / seconds for before, after in zip(start[:3], end[:3], strict=True))
    return now_ms - start_ms, (in_s, out_s, failed_s)


def _compute_ready_growth(history: _QueueHistory) -> tuple[int, int, int]:
    """Return a duration of at most two minutes, the growth of the ready jobs in it, and how many jobs ended in it.

    Returns zeros if all of the growth came in the last half minute, because that is a burst.
    """
    now_ms, end = history.polled_at_ms, history.totals
    usable = [
        candidate
        for candidate in history.checkpoints
        if candidate.at_ms <= now_ms - BURST_MS and candidate.totals.ready is not None
    ]
    window_checkpoints = [candidate for candidate in usable if candidate.at_ms >= now_ms - GROWING_MS]
    if not window_checkpoints or end.ready is None:
        return 0, 0, 0
    first, earlier = (
        window_checkpoints[0],
        window_checkpoints[0] if len(window_checkpoints) > 1 else usable[max(0, len(usable) - 2)],
    )
    if (window_checkpoints[-1].totals.ready or 0) <= (earlier.totals.ready or 0):
        return 0, 0, 0
    ended = end.completed + end.dead - first.totals.completed - first.totals.dead
    return now_ms - first.at_ms, end.ready - (first.totals.ready or 0), max(0, ended)


def _compute_latest_growth(history: _QueueHistory) -> int | None:
    """Return the change of the ready jobs since the newest checkpoint that is at least 15 s old; None if unknown."""
    newest_ms = history.polled_at_ms - CHECKPOINT_INTERVAL_MS
    checkpoint = next((candidate for candidate in reversed(history.checkpoints) if candidate.at_ms <= newest_ms), None)
    if checkpoint is None or checkpoint.totals.ready is None or history.totals.ready is None:
        return None
    return history.totals.ready - checkpoint.totals.ready


def _update_idle_since_ms(
    history: _QueueHistory, queue: Queue, previous_totals: Totals, is_unchanged: bool
) -> int | None:
    """Return since when ready jobs wait while none is reserved and none ends; None if a job was active at this poll.

    `is_unchanged`: no job ended since the previous poll.
    """
    if queue.oldest_ready_ms is None and "out" not in queue.counters and not _counts_completed_jobs(queue):
        # Where neither ages nor ends are stored, a changed number is the only sign that jobs are taken.
        is_unchanged = is_unchanged and history.totals.ready == previous_totals.ready
    head_ms = queue.counted_ms - queue.oldest_ready_ms if queue.oldest_ready_ms else None
    is_same_head = head_ms is None or history.head_ready_ms is None or head_ms <= history.head_ready_ms + MAX_HEAD_MS
    history.head_ready_ms = head_ms
    # A later head means that a job was taken: a failed attempt that is tried again changes no total in some systems.
    is_unchanged = is_unchanged and is_same_head
    if not is_unchanged or not queue.count_in_state(State.READY) or queue.count_in_state(State.RESERVED):
        history.active_at_ms = queue.counted_ms
        return None
    return history.active_at_ms


def is_plausible_due_time(due_ms: int, now_ms: int) -> bool:
    """Return whether a job's score can be its due time: it must be less than 366 days ago.

    Systems whose scores are not Unix times have scores that are decades away.
    """
    return now_ms - due_ms < MAX_PLAUSIBLE_AGE_MS


def _compute_head_due_ms(queue: Queue) -> int | None:
    """Return the due time of the oldest due job in ms, from its score; None if no job is due."""
    return queue.counted_ms + queue.next_due_ms if queue.overdue and queue.next_due_ms is not None else None


def _update_due_since_ms(history: _QueueHistory, queue: Queue) -> int | None:
    """Return since when the oldest due job could have been dispatched, and store it for the next poll.

    A job that became the oldest due job after the last poll could not be dispatched before that poll: the job became
    due, was put with a past due time, or the jobs before it were dispatched.
    """
    head_ms, previous_counters = _compute_head_due_ms(queue), history.counters
    if head_ms is None:
        history.due_since_ms = None
    else:
        has_dispatched = queue.overdue < history.overdue or _read_dispatched_counter(
            queue.counters
        ) > _read_dispatched_counter(previous_counters)
        if history.due_since_ms is None or head_ms != history.head_due_ms or has_dispatched:
            history.due_since_ms = max(head_ms, history.polled_at_ms)
    history.head_due_ms, history.overdue = head_ms, queue.overdue
    return history.due_since_ms


def _read_dispatched_counter(counters: Mapping[str, int]) -> int:
    return counters.get("dispatched", 0)
