"""Cache what events, results and read messages say about tasks: their queues, runs, and what runs them again.

A task's message names its queue, its events mostly do not, and neither do results. So a queue may be guessed from other
tasks of the same name; such a job says so. Everything is bounded, and lost when rqtui ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rqtui.model import Attempt, Fact, Job, Place, State
from rqtui.system_base.entries import HEAD_BYTES
from rqtui.system_base.event_cache import EventCache
from rqtui.system_base.lru_cache import LruCache
from rqtui.systems.celery import messages
from rqtui.systems.celery.payloads import (
    build_result_facts,
    format_result_error,
    parse_count,
    parse_json_object,
    read_task_id,
    read_text_field,
)
from rqtui.systems.celery.unplaced_events import Evidence, UnplacedEvents
from rqtui.systems.celery.worker_heartbeats import WorkerHeartbeats
from rqtui.text import pickles

MAX_CACHED_JOBS = 20_000  # jobs cached by id
MAX_TASKS = 10_000  # tasks whose queues are cached
MAX_CALLS = 4000  # cached tasks of at most 4 kB, and as many messages, to put failed jobs again
MAX_ATTEMPTS = 10  # cached failed runs per job
MAX_REDELIVERIES = 1000  # redelivered jobs
GUESSED = Fact("queue", "guessed: its task was seen in no other one")
FINAL_PLACES = ("succeeded", "failed", "revoked")
PLACES_BY_STATUS = {"SUCCESS": "succeeded", "FAILURE": "failed", "REVOKED": "revoked", "STARTED": "running"}


class Redelivery(NamedTuple):
    """A job that was delivered again: its queue, place and worker at that time, and when rqtui saw it."""

    queue: str
    place: str
    worker: str
    at_ms: int


class CachedJob(NamedTuple):
    """The cached facts about one task from keys and events.

    `counted` and `timed` identify the run (start, end) that is already in the statistics.
    """

    queue: str = ""
    task: str = ""
    call: str = ""
    worker: str = ""
    retries: int = 0
    started_ms: int | None = None
    took_ms: int | None = None
    has_told_end: bool = False  # an event reported the end; it is the last event of a run
    has_start_event: bool = False  # an event reported the start of the current run
    is_of_broker: bool = False  # a message or event of this database had its id; else only its result is known
    history: tuple[Attempt, ...] = ()
    counted: tuple[int, str] = (0, "")
    timed: tuple[int, str] = (0, "")


class TaskRuns:
    """The tasks of one database by their ids, as far as events, results and messages showed them.

    `event_cache` gets the last state of each task that no key holds. `queues` are the names of the known queues, and
    are updated by their owner. `find_place` returns a place of the system by its name.
    """

    def __init__(
        self,
        system_name: str,
        find_place: Callable[[str], Place],
        queues: Set[str],
        event_cache: EventCache,
        heartbeats: WorkerHeartbeats,
    ) -> None:
        self._system_name, self._find_place, self._queues = system_name, find_place, queues
        self._event_cache, self._heartbeats = event_cache, heartbeats
        self._jobs: LruCache[bytes, CachedJob] = LruCache(MAX_CACHED_JOBS)  # by id
        self._queues_by_task: LruCache[str, set[str]] = LruCache(MAX_TASKS)  # by task: the queues where it was seen
        # The task of each job whose queue is guessed by that.
        self._guessed_tasks: LruCache[bytes, str] = LruCache(MAX_CACHED_JOBS)
        self.held_jobs: LruCache[bytes, Job] = LruCache(MAX_CACHED_JOBS)  # running jobs that are also in `unacked`
        self.redeliveries: LruCache[bytes, Redelivery] = LruCache(MAX_REDELIVERIES)  # of jobs that already ran, by id
        self.messages: LruCache[bytes, bytes] = LruCache(MAX_CALLS)  # full messages or their entries, by job id
        self.task_bodies: LruCache[bytes, bytes] = LruCache(MAX_CALLS)  # tasks in JSON from results, by job id
        # (task, args, kwargs) from events, by job id.
        self.call_reprs: LruCache[bytes, tuple[str, str, str]] = LruCache(MAX_CALLS)
        self.unplaced_events = UnplacedEvents()

    def __len__(self) -> int:
        return len(self._jobs)

    def find(self, id: bytes) -> CachedJob:
        """Return what is known about a task; empty facts if nothing is."""
        return self._jobs.get(id, CachedJob())

    def record_event(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record an event of a task that belongs to this database. Its type is in `TASK_EVENTS`."""
        TASK_EVENTS[read_text_field(event, "type")](self, event, at_ms)

    def record_event_of_broker(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record an event whose channel shows that the broker of its task is this database."""
        if id := read_task_id(event):
            self._update_job(
                id, task=read_text_field(event, "name"), queue=read_text_field(event, "queue"), is_of_broker=True
            )
            self.record_kept_calls(id)
        self.record_event(event, at_ms)

    def _record_call(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record the call and the queue of a task from its `task-sent` or `task-received` event."""
        id, task = read_task_id(event), read_text_field(event, "name")
        queue = read_text_field(event, "queue")
        worker = read_text_field(event, "hostname") if event.get("type") == "task-received" else ""
        call = messages.format_call_of_reprs(task, event.get("args"), event.get("kwargs")) if task else ""
        cached = self._update_job(
            id, task=task, call=call, queue=queue, worker=worker, retries=parse_count(event.get("retries"))
        )
        if worker and cached.queue:
            self._heartbeats.record_served_queue(worker, cached.queue)
        if task:
            _store_if_short(
                self.call_reprs, id, (task, read_text_field(event, "args"), read_text_field(event, "kwargs"))
            )

    def _record_start(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a `task-started` event, unless the end of the same run was already reported."""
        id, previous = read_task_id(event), self._event_cache.find(read_task_id(event))
        if previous is not None and previous.place in FINAL_PLACES and not self.find(id).has_told_end:
            return  # Events are published in batches, so the result of this run may have arrived before.
        # With task_track_started a result reports the same start, mostly before the batch with this event arrives.
        is_reported = previous is not None and previous.place == "running"
        if not is_reported or self.find(id).has_start_event:
            self._record_redelivery(id, "", at_ms)
        worker = read_text_field(event, "hostname")
        cached = self._update_job(id, worker=worker, started_ms=at_ms, has_told_end=False, has_start_event=True)
        self._store_job_state(id, "running", cached, at_ms)

    def _record_success(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._record_run_end(event, "succeeded", at_ms, (Fact("result", read_text_field(event, "result")),))

    def _record_failure(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._record_run_end(
            event,
            "failed",
            at_ms,
            (),
            read_text_field(event, "traceback").strip() or read_text_field(event, "exception"),
        )

    def _record_revocation(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record the event of a task that was revoked, expired or was rejected by its own code."""
        reason = "expired" if event.get("expired") else "terminated" if event.get("terminated") else "revoked"
        if event.get("type") == "task-rejected":
            reason = "rejected by its task"
            if event.get("requeue"):
                self._drop_running_job(read_task_id(event))
                return
        self._record_run_end(event, "revoked", at_ms, (Fact("ended by", reason),))

    def _record_retry(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a `task-retried` event: a run failed, and the task is in its queue again with a later due time."""
        id, error = (
            read_task_id(event),
            read_text_field(event, "traceback").strip() or read_text_field(event, "exception"),
        )
        cached = self._update_job(id, worker=read_text_field(event, "hostname"), has_start_event=False)
        attempt = Attempt(cached.started_ms or 0, at_ms, cached.worker, error)
        self._update_job(id, history=(*cached.history, attempt)[-MAX_ATTEMPTS:])
        self._count_run_once(id, cached, "retried", at_ms, failed=True)
        self._drop_running_job(id)

    def _drop_running_job(self, id: bytes) -> None:
        """Remove a task from the running jobs, because its run ended without a final state."""
        self.held_jobs.pop(id, None)
        if (job := self._event_cache.find(id)) is not None and job.place == "running":
            self._event_cache.discard(id)

    def _record_run_end(
        self, event: Mapping[str, Any], place: str, at_ms: int, facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """Record an event that ends the run of a task, and count the run unless the task was revoked."""
        id, runtime = read_task_id(event), event.get("runtime")
        duration_ms = round(runtime * 1000) if messages.is_number(runtime) else None
        cached = self._update_job(
            id,
            worker=read_text_field(event, "hostname"),
            took_ms=duration_ms,
            has_told_end=True,
            has_start_event=False,
        )
        if place != "revoked":
            self._count_run_once(id, cached, place, at_ms, failed=place == "failed")
        self._store_job_state(id, place, cached, at_ms, facts, error)

    def record_result(self, id: bytes, message: bytes, at_ms: int) -> None:
        """Record the published result of a task of this database; a failed task can be put again from it."""
        result = parse_json_object(message)
        if isinstance(result.get("status"), str):
            self._record_job_result(id, result, at_ms)
            if result["status"] == "FAILURE":
                self.record_failed_result(id, message)

    def record_failed_result(self, id: bytes, message: bytes) -> None:
        """Keep the task that the stored result of a failed run names, to put it again."""
        _store_if_short(self.task_bodies, id, messages.build_task_of_result(message))

    def record_message(self, id: bytes, entry: bytes) -> None:
        """Keep the entry of a task's message, whole and as it is in its place, to put the task again if it fails."""
        _store_if_short(self.messages, id, entry)

    def _record_job_result(self, id: bytes, result: Mapping[str, Any], at_ms: int) -> None:
        """Record a result of the result backend.

        With `result_extended` it also has the task's name, queue and worker.
        """
        task = read_text_field(result, "name")
        call = (
            pickles.format_function_call(task, result.get("args"), result.get("kwargs"), messages.MAX_CALL_LENGTH)
            if task
            else ""
        )
        queue = read_text_field(result, "queue")
        queue = queue if queue in self._queues else ""  # the field has a routing key, which may be no queue
        cached = self._update_job(id, task=task, call=call, queue=queue, worker=read_text_field(result, "worker"))
        status = result["status"]
        if status == "STARTED":
            cached = self._update_job(id, started_ms=cached.started_ms or at_ms)
        place = PLACES_BY_STATUS.get(status)
        if place is None:
            return
        error = format_result_error(result)
        if place in ("succeeded", "failed"):
            self._count_run_once(id, cached, place, at_ms, failed=place == "failed")
        self._store_job_state(id, place, cached, at_ms, tuple(build_result_facts(result, has_error=True)), error)

    def _count_run_once(self, id: bytes, cached: CachedJob, end: str, at_ms: int, *, failed: bool) -> None:
        """Count the run of a task in the statistics, only once although both an event and a result report it."""
        run = (cached.started_ms or 0, end)
        if cached.counted != run:
            self._update_job(id, counted=run)
            self._event_cache.record_run(self._find_queue_of_job(cached), cached.task, failed=failed)
        if cached.took_ms is not None and cached.timed != run:
            self._update_job(id, timed=run)
            self._event_cache.record_duration(self._find_queue_of_job(cached), cached.task, cached.took_ms)

    def _store_job_state(
        self, id: bytes, place: str, cached: CachedJob, at_ms: int, new_facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """Store the latest state of a task in the event cache.

        Facts from an event and from a result about the same end are merged.
        """
        previous = self._event_cache.find(id)
        previous = previous if previous is not None and previous.place == place else None
        self.held_jobs.pop(id, None)
        if place == "succeeded":
            self.messages.pop(id, None)
            self.task_bodies.pop(id, None)
            self.call_reprs.pop(id, None)
        place_of_job = self._find_place(place)
        facts_by_name = {fact.name: fact for fact in (previous.facts if previous else ()) if fact.name != GUESSED.name}
        if cached.took_ms is not None and place_of_job.state is not State.RESERVED:
            facts_by_name["took"] = Fact("took", cached.took_ms, "duration")
        facts_by_name |= {fact.name: fact for fact in new_facts}
        queue = self._find_queue_of_job(cached)
        if cached.queue:
            facts_by_name.pop("queue", None)  # it was guessed
        if queue and not cached.queue and len(self._queues) > 1:
            facts_by_name[GUESSED.name] = GUESSED
            self._record_guessed_task(id, cached.task)
        self._event_cache.record_job(
            Job(
                id=id,
                queue=queue,
                system=self._system_name,
                place=place,
                state=place_of_job.state,
                member=b"",
                name=cached.task,
                reserved_ms=cached.started_ms,
                since_ms=previous.since_ms if previous else at_ms,
                attempts=cached.retries + 1,
                worker=cached.worker,
                error=(error if len(error) >= len(previous.error) else previous.error) if previous else error,
                history=cached.history,
                call=cached.call,
                facts=tuple(facts_by_name.values()),
            )
        )

    def _update_job(self, id: bytes, **changes: Any) -> CachedJob:
        """Merge new values into the cached facts about a job, and return them. Empty values change nothing."""
        cached = self.find(id)
        cached = cached._replace(**{name: value for name, value in changes.items() if value not in (None, "")})
        self._jobs.store(id, cached)
        if cached.queue and self._guessed_tasks.pop(id, None) is not None:
            self._event_cache.clear_queue(id)
            self._event_cache.assign_queue(id, cached.queue)
        if cached.task and cached.queue:
            self.record_task_queue(cached.task, cached.queue)
        return cached

    def record_task_queue(self, task: str, queue: str) -> None:
        """Record in which queue a task was seen, and assign jobs of that task with an unknown queue to it.

        When the task is seen in a second queue, the jobs that were assigned by this guess lose their queue again.
        """
        queues = self._queues_by_task.get(task) or self._queues_by_task.store(task, set())
        if queue in queues:
            return
        queues.add(queue)
        if len(queues) == 1:
            for id in [job.id for job in self._event_cache.yield_unassigned_jobs() if job.name == task]:
                self._event_cache.assign_queue(id, queue, GUESSED)
                self._record_guessed_task(id, task)
        elif len(queues) == 2:
            for id in [id for id, guessed_task in self._guessed_tasks.items() if guessed_task == task]:
                del self._guessed_tasks[id]
                self._event_cache.clear_queue(id)

    def _record_guessed_task(self, id: bytes, task: str) -> None:
        """Store the task name of a job whose message rqtui has not seen, for guessing the job's queue."""
        self._guessed_tasks.store(id, task)

    def _find_queue_of_job(self, cached: CachedJob) -> str:
        """Return the reported queue of a job, else the only queue of its task, else the only queue of the system.

        Returns an empty text if none of these is unique.
        """
        for candidates in ({cached.queue} - {""}, self._queues_by_task.get(cached.task, set()), self._queues):
            if len(candidates) == 1:
                return next(iter(candidates))
        return ""

    def record_kept_calls(self, id: bytes) -> None:
        """Record the events and results that were kept for a task, now that it is known to be of this database."""
        for record_one in self.unplaced_events.pop_calls(id):
            record_one()

    def record_or_keep_call(
        self, id: bytes, record_one: Callable[[], None], size: int, evidence: Evidence | None
    ) -> None:
        """Call `record_one` if the task belongs to this database. If that is unknown, keep the call for a later check.

        `size` is that of the event or result in bytes. Without evidence, only a message or an event of this database
        can show later that the task belongs to it.
        """
        if id in self._jobs:
            record_one()
        else:
            self.unplaced_events.keep_call(id, record_one, size, evidence)

    def record_seen_job(self, queue: str, place: str, id: bytes, message: messages.Message, now_ms: int) -> CachedJob:
        """Record a job that a page read from the list of its queue or from `unacked`. Return what is known of it."""
        cached = self._jobs.get(id)
        if cached is None or cached.queue != queue or not cached.task or not cached.is_of_broker:
            cached = self._update_job(id, queue=queue, task=message.task, call=message.call, is_of_broker=True)
            self.record_kept_calls(id)
        if (event_job := self._event_cache.find(id)) is not None:
            if event_job.place == "running" and place in ("unacked", "late"):
                self.held_jobs.store(id, replace(event_job, queue=queue))
                self._event_cache.discard(id)
            else:
                self._event_cache.assign_queue(id, queue)
        if place == "queue" and message.is_redelivered and id not in self.redeliveries:
            self._record_redelivery(id, queue, now_ms)
        return cached

    def _record_redelivery(self, id: bytes, queue: str, at_ms: int) -> None:
        """Record that a job was delivered again although a live worker runs it or it has succeeded."""
        job = self.held_jobs.get(id) or self._event_cache.find(id)
        if job is None or (job.place == "running" and self._heartbeats.is_silent(job.worker, at_ms)):
            return
        if job.place in ("running", "succeeded"):
            self.redeliveries.store(id, Redelivery(job.queue or queue, job.place, job.worker, at_ms))

    def move_unheld_jobs(self, queue: str, jobs: Sequence[Job]) -> None:
        """Move running jobs that are no longer in `unacked` to the event cache, because only events report them now."""
        held_ids = {job.id for job in jobs}
        for id in [id for id, job in self.held_jobs.items() if job.queue == queue and id not in held_ids]:
            self._event_cache.record_job(self.held_jobs.pop(id))

    def record_moved_job(self, id: bytes, queue: str, message: bytes) -> None:
        """Record the queue to which a waiting job was moved, and its message there."""
        self._update_job(id, queue=queue)
        self.record_message(id, message)

    def reset_requeued_job(self, id: bytes) -> None:
        """Reset the cached facts of a failed job that was requeued, so that its next run is counted as a new one."""
        failed_job, cached = self._event_cache.find(id), self.find(id)
        if failed_job is None or failed_job.place != "failed":
            return
        self._event_cache.discard(id)
        attempt = Attempt(failed_job.reserved_ms or 0, failed_job.since_ms or 0, failed_job.worker, failed_job.error)
        self._jobs.store(
            id,
            cached._replace(
                retries=0,
                started_ms=None,
                took_ms=None,
                has_told_end=False,
                history=(*cached.history, attempt)[-MAX_ATTEMPTS:],
                counted=(0, ""),
                timed=(0, ""),
            ),
        )

    def is_of_broker(self, id: bytes) -> bool:
        """Return whether a message or an event of this database had the job's id. Its broker is then this database."""
        return self.find(id).is_of_broker or id in self.messages


RecordEvent: TypeAlias = Callable[[TaskRuns, Mapping[str, Any], int], None]
TASK_EVENTS: Mapping[str, RecordEvent] = {
    "task-sent": TaskRuns._record_call,
    "task-received": TaskRuns._record_call,
    "task-started": TaskRuns._record_start,
    "task-succeeded": TaskRuns._record_success,
    "task-failed": TaskRuns._record_failure,
    "task-retried": TaskRuns._record_retry,
    "task-revoked": TaskRuns._record_revocation,
    "task-rejected": TaskRuns._record_revocation,
}
"""Methods that record an event of a task, by its type."""


T = TypeVar("T", bytes, tuple[str, str, str])


def _store_if_short(store: LruCache[bytes, T], id: bytes, value: T) -> None:
    """Store a value from which a failed task can be put again, unless it is longer than `HEAD_BYTES`."""
    if not value or sum(map(len, value if isinstance(value, tuple) else (value,))) > HEAD_BYTES:
        return
    store.store(id, value)
