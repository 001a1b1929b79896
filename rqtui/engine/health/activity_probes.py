"""Read what a queue did before rqtui began to watch it: its counters per minute, and the stored ends of its jobs.

A rate needs two readings. With the counters of the last minutes, or the times at which done and dead jobs ended, a
single reading knows the rates of the last five minutes, and how many attempts failed in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from rqtui.engine import history
from rqtui.engine.health.probe_requests import (
    HOURS_MS,
    SAMPLE_JOBS,
    build_combined_page_request,
    build_newest_page_request,
    ignore_request_errors,
)
from rqtui.engine.rates import MIN_STREAK, MINUTE_MS, WINDOW_MS, Checkpoint, EarlierActivity, RecordedEnds, Totals
from rqtui.model import FailedStreak, Job, Page, Queue, State
from rqtui.system_base.system import Replies, Request, System

MIN_READY = 60  # ready jobs from which on the growth of a queue matters


def build_checkpoint_request(system: System, queue: Queue) -> Request[tuple[EarlierActivity, ...] | None]:
    """Build the request for a queue's totals at the start of each recent minute, from counters stored by minute.

    The result also has the failed attempts of the last hours in a row, if there are many.
    """
    request = history.build_history_request(system, queue.name, HOURS_MS // history.MINUTE_MS)
    last_ms = queue.counted_ms // history.MINUTE_MS * history.MINUTE_MS
    # With scheduled jobs, the ready ones among the new jobs cannot be counted.
    has_scheduled = bool(queue.count_in_state(State.SCHEDULED))
    ready = queue.count_in_state(State.READY)

    def parse_checkpoints(replies: Replies) -> tuple[EarlierActivity, ...]:
        counters_by_minute = request.parse(replies)
        checkpoints, counters = [], counters_by_minute.counters
        depths = dict(
            history.compute_unfinished_per_minute(
                [*_compute_recent_growth(counters_by_minute, last_ms, queue.counted_ms)], ready
            )
        )
        for minute in range(WINDOW_MS // history.MINUTE_MS + 1):
            minute_ms = last_ms - minute * history.MINUTE_MS
            counters = counters_by_minute.minutes.get(minute_ms, counters)
            enqueued, completed, failed = (
                history.sum_flow_counters(counters, name) for name in ("in", "out", "failed")
            )
            ready_then = ready if has_scheduled else depths.get(minute_ms)
            checkpoints.append(
                Checkpoint(minute_ms, Totals(enqueued, completed, failed, counters.get("dead", 0), ready_then))
            )
        streak = _find_streak_in_minutes(
            history.compute_growth_per_minute([counters_by_minute], queue.counted_ms - HOURS_MS, queue.counted_ms)
        )
        return (*checkpoints, *streak)

    return ignore_request_errors(Request(request.calls, parse_checkpoints))


def _find_streak_in_minutes(minutes: Sequence[tuple[int, Mapping[str, int]]]) -> tuple[FailedStreak, ...]:
    """Return the failed attempts in a row up to now, from the counters per minute; nothing if they are few."""
    attempts, first_ms, last_ms = 0, 0, 0
    for minute_ms, growth in sorted(minutes, key=itemgetter(0), reverse=True):
        if history.sum_flow_counters(growth, "out"):
            break
        if failed := history.sum_flow_counters(growth, "failed"):
            attempts, first_ms, last_ms = attempts + failed, minute_ms, last_ms or minute_ms
    return (FailedStreak(attempts, first_ms, last_ms),) if attempts >= MIN_STREAK else ()


def _compute_recent_growth(
    history_by_minute: history.History, last_ms: int, now_ms: int
) -> Sequence[tuple[int, Mapping[str, int]]]:
    """Return how much each counter grew in the current minute, and in each earlier minute of the observed window."""
    return history.compute_growth_per_minute([history_by_minute], last_ms - WINDOW_MS, now_ms)


def build_recorded_ends_request(system: System, queue: Queue) -> Request[tuple[EarlierActivity, ...] | None] | None:
    """Build the request that counts the runs of the last minutes by the end times stored with done and failed jobs.

    Only a period for which the queue still has both is counted: done jobs are often deleted earlier than dead ones.
    """
    recorded = system.ends_request(queue.name)
    if recorded is not None:
        return ignore_request_errors(
            Request(recorded.calls, lambda replies: _count_ends(recorded.parse(replies), queue.counted_ms))
        )
    requests, places = [], []
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if job_count and place.has_failures and place.state in (State.DONE, State.DEAD):
            requests.append(build_newest_page_request(system, queue, place))
            places.append((place.state, job_count > SAMPLE_JOBS))

    def count_recorded_ends(pages: list[Page]) -> tuple[EarlierActivity, ...]:
        now_ms, window_ms = queue.counted_ms, WINDOW_MS
        end_times: dict[State, list[int]] = {State.DONE: [], State.DEAD: []}
        for page, (state, is_cut) in zip(pages, places, strict=True):
            times = [_find_stored_end_ms(job) for job in page.jobs]
            known_times = [at_ms for at_ms in times if at_ms is not None]
            if len(known_times) < len(times):
                return ()
            end_times[state] += known_times
            if known_times and (is_cut or state is State.DONE):
                window_ms = min(window_ms, now_ms - min(known_times))
        if not end_times[State.DONE] or window_ms <= 0:
            return ()
        windows_ms = [window_part_ms for window_part_ms in (MINUTE_MS, window_ms) if window_part_ms <= window_ms]
        counted = [
            (part_ms, *(sum(at_ms >= now_ms - part_ms for at_ms in end_times[s]) for s in (State.DONE, State.DEAD)))
            for part_ms in dict.fromkeys(windows_ms)
        ]
        ends = (RecordedEnds(now_ms - part_ms, completed, failed) for part_ms, completed, failed in counted)
        return (*ends, *_find_streak_in_ends(end_times[State.DONE], end_times[State.DEAD]))

    return build_combined_page_request(requests, count_recorded_ends)


def _find_streak_in_ends(done_ms: Sequence[int], dead_ms: Sequence[int]) -> tuple[FailedStreak, ...]:
    """Return the jobs that died after the last success, from the times of both; nothing if they are few.

    That a success is still stored shows that no later one was deleted.
    """
    failed_ms = [at_ms for at_ms in dead_ms if at_ms > max(done_ms)]
    return (FailedStreak(len(failed_ms), min(failed_ms), max(failed_ms)),) if len(failed_ms) >= MIN_STREAK else ()


def _find_stored_end_ms(job: Job) -> int | None:
    """Return when a done or dead job ended, or None if its system does not store that."""
    if job.state is State.DONE and job.ended_ms is None and job.reserved_ms is None:
        return None  # `since_ms` may be the time when it is deleted.
    return job.since_ms if job.state is State.DEAD or job.ended_ms is None else job.ended_ms


def _count_ends(minutes: Sequence[tuple[int, int, int]], now_ms: int) -> tuple[EarlierActivity, ...]:
    """Count the runs since the start of the previous minute, and since the start of the fourth minute before this."""
    this_ms = now_ms - now_ms % MINUTE_MS
    found = []
    if not minutes:
        return ()
    for back in (1, 4):
        begin_ms = this_ms - back * MINUTE_MS
        runs = [each for each in minutes if each[0] >= begin_ms]
        failed = sum(each[2] for each in runs)
        found.append(RecordedEnds(begin_ms, sum(each[1] for each in runs) - failed, failed, is_final=False))
    return tuple(found)


def needs_ends_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has both done and dead jobs while its system keeps no counters per minute.

    Ended jobs that are keys of their own must all be known: a sample has other numbers.
    """
    if system.records_ends:
        return bool(queue.counters.get("failed"))
    if history.has_minute_counters(system) or not queue.count_failed() or not queue.count_in_state(State.DONE):
        return False
    if any(place.is_shared or place.is_from_events for place in system.places):
        return False
    return queue.has_exact_counts(State.DONE) and queue.has_exact_counts(State.DEAD)


def needs_checkpoint_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue with counters per minute has failures or enough ready jobs for its growth to matter."""
    counted = queue.counters.get("failed", 0) + queue.counters.get("dead", 0)
    return history.has_minute_counters(system) and bool(counted or queue.count_in_state(State.READY) >= MIN_READY)
