"""Migrate the jobs of another system's queue to a native queue, while workers and producers of both keep running.

Used by `rqtui migrate`. Each batch takes four steps: take jobs out of reach of other clients, put copies that cannot
run yet, delete the originals, release the copies. So a job is always in at least one of the queues and can never run in
both. The next run completes what an interrupted run left. `operations/drain.py` defines how jobs are taken; this module
names no system.

`System.migration_terms` converts a job's settings to those of the native queue. The dry run and the real run use the
same function, `Migration._split_movable`. A copy is put by the script `restore`, with its enqueue time, priority,
attempts and errors. A dead job goes to `dead` at once, any other to `scheduled`, from where `revert` moves it to its
final place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.connection.connect import translate_redis_errors
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, ServerError, Unknown, UsageError
from rqtui.ids import ID_BYTES
from rqtui.model import MAX_BACKOFF_MS, Attempt, Focus, Job, MigrationTerms, Outcome, Ref, State
from rqtui.operations.drain import (
    MAX_INLINE_BYTES,
    PARKED_KEY,
    WORKER_NAME,
    Copy,
    Drain,
    choose_drains,
    holds_waiting_jobs,
)
from rqtui.system_base.foreign_system import build_side_key
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text.names import to_bytes

HOLD_MS = 600_000  # A copy stays scheduled until its original is deleted, or this long if the run is interrupted.
MAX_REPORTED_JOBS = 1000  # jobs per place that are read to report why they were not taken
_CHECK_CHUNK = 200  # jobs checked together if more than their page has to be read
_MIN_PRIORITY, _MAX_PRIORITY = -4096, 4095  # priorities of the native queue
_MAX_DUE_MS = 9_007_199_254_740  # the latest due time of a native job
_MAX_INLINE_BYTES = 4096  # A longer body is stored in the hash `bodies`.
_MAX_NAME_BYTES = 200
_MAX_ERRORS, _MAX_ERROR_BYTES = 10, 2000  # errors per job that the native queue stores, and bytes of each
_DEAD_TTL_MS = 2_592_000_000  # the default of the setting `dead_ttl_ms`


@dataclass(frozen=True, slots=True)
class Skipped:
    """A job that a migration did not move, and the reason."""

    id: bytes
    text: str


@dataclass(slots=True)
class Report:
    """The result of a migration so far: numbers of moved and skipped jobs.

    `remaining` has the number of jobs in the source by place, except done ones.
    """

    moved: int = 0
    already_copied: int = 0  # moved jobs of which the target already had the copy
    released_copies: int = 0  # copies of an interrupted run that were released
    would_move: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    losses: list[Skipped] = field(default_factory=list)  # moved jobs that lost a setting, and which
    remaining: dict[str, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Return whether a migration skipped no job, and no job remains in the source."""
        return not self.skipped and not any(self.remaining.values())


class Migration:
    """Moves the jobs of the queue `source` to the native queue `target`. `engine` has the systems of both.

    Raises UsageError if jobs of the source's system cannot be moved, or the target is no native queue.
    """

    def __init__(self, engine: Engine, source: Ref, target: Ref, *, is_lossy: bool = False) -> None:
        if target.system != DEFAULT_SYSTEM:
            example = f"{DEFAULT_SYSTEM}:{target.queue}"
            raise UsageError(f"a migration ends in a {DEFAULT_SYSTEM} queue, as in {example}; {target} is none.")
        if source.system == DEFAULT_SYSTEM:
            raise UsageError(f"{source} is a {DEFAULT_SYSTEM} queue already; name another system's, as SYSTEM:SOURCE.")
        self.engine, self.source, self.target = engine, source, target
        self.is_lossy = is_lossy  # whether jobs may move that lose a setting
        self.report = Report()
        self._system, self._target_system = engine.systems[source.system], engine.systems[target.system]
        self._target_keys = {name: to_bytes(key) for name, key in self._target_system.keys(target.queue).items()}
        self._drains = choose_drains(engine, source, target)
        self._taken_places = {
            PARKED_KEY,
            *(place.name for drain in self._drains for place in drain.places),
        }  # places whose jobs are taken
        self._held_jobs: dict[bytes, Job] = {}  # skipped jobs, held until the end so that they are not taken again
        self._skipped_ids: set[bytes] = set()  # ids of the jobs in `report.skipped`
        self._refusals: dict[bytes, str] = {}  # by id, why the source's system refused to delete the job
        copies_key = to_bytes(build_side_key(source.queue, f"copies:{target}"))
        self._held_copies_key = copies_key  # key of a hash by id of held copies: due time, time since when waiting
        self._is_registered = False
        self._began_ms = 0  # start of the run, by the server's clock
        self._dead_ttl_ms: int | None = None

    def count_movable(self) -> int:
        """Count the jobs in the places of the source from which jobs are taken."""
        counts = self._count_source_jobs()
        return sum(counts.get(name, 0) for name in self._taken_places)

    def check_all_jobs(self) -> Iterator[int]:
        """Check all jobs without moving any, for a dry run, and fill the report.

        Yields how many jobs each step checked.
        """
        self._began_ms = self.engine.fetch_server_time_ms() + 1
        counts = self._count_source_jobs()
        would_move = {name: counts[name] for name in counts if name in self._taken_places}
        remaining = {name: 0 if name in would_move else count for name, count in counts.items()}
        seen_ids: set[bytes] = set()
        for drain in self._drains:
            for place, jobs in drain.yield_preview():
                movable, refused = self._split_movable(drain, jobs, is_dry=True)
                refused += [] if drain.needs_batch_ids else self._find_id_clashes(movable, seen_ids)
                self._add_skipped(refused)
                would_move[place.name] = max(0, would_move.get(place.name, 0) - len(refused))
                remaining[place.name] = remaining.get(place.name, 0) + len(refused)
                yield len(jobs)
        self._report_excluded_places()
        self.report.would_move, self.report.remaining = would_move, remaining

    def _find_id_clashes(self, jobs: Sequence[Job], seen_ids: set[bytes]) -> list[tuple[Job, str]]:
        """Return the jobs whose id exists in the target or in `seen_ids`, with the reason.

        Adds the ids of the jobs to `seen_ids` if the system cannot find jobs by id.
        """
        with translate_redis_errors():
            is_empty = not self.engine.client.exists(self._target_keys["jobs"], self._target_keys["done"])
        requests = [self._target_system.job_request(self.target.queue, job.id, job.body_bytes) for job in jobs]
        target_jobs = [None] * len(jobs) if is_empty else self.engine.send_requests(requests)
        clashes = [
            (job, text)
            for job, target_job in zip(jobs, target_jobs, strict=True)
            if (text := self._explain_id_clash(job, target_job, seen_ids))
        ]
        seen_ids.update(job.id for job in jobs if not self._system.can_find_by_id)
        return clashes

    def _explain_id_clash(self, job: Job, target_job: Job | None, seen_ids: set[bytes]) -> str:
        """Return why a copy of a job cannot have the job's id in the target; empty if it can."""
        if job.id in seen_ids:
            return self._new_id_text
        return self._explain_copy_mismatch(Copy(job.id, job), target_job) if target_job else ""

    def move_jobs(self) -> Iterator[int]:
        """Move one batch of jobs per step and yield how many jobs it moved, until none can be taken.

        The caller may stop between two steps; `close` must follow. Raises ServerError and Refused: the interrupted
        batch is then completed by the next run, or leaves the target's `scheduled` after ten minutes. The hash at
        `_held_copies_key` is never the only trace of a job: if it is lost, the copies wait for those ten minutes.
        """
        self._began_ms = self.engine.fetch_server_time_ms() + 1
        time.sleep(0.002)  # So that no copy of an earlier run has the same millisecond.
        for drain in self._drains:
            drain.prepare_drain()
        yield from self._release_earlier_copies()
        is_moving = True
        while is_moving:
            is_moving = False
            for drain in self._drains:
                for jobs in drain.take_batches():
                    moved = self._move_batch(drain, jobs)
                    is_moving = is_moving or moved > 0
                    yield moved

    def close(self) -> None:
        """End a migration: give skipped jobs back to the source, and report how many jobs remain there and why."""
        for drain in self._drains:
            drain.clean_up(list(self._held_jobs.values()))
        self._held_jobs = {}
        self.report.remaining = self._count_source_jobs()
        for drain in self._drains:
            for place in drain.places:
                if self.report.remaining.get(place.name):
                    jobs = self.engine.fetch_page(self.source, place.name, 0, MAX_REPORTED_JOBS, MAX_INLINE_BYTES).jobs
                    for start in range(0, len(jobs), _CHECK_CHUNK):
                        movable, refused = self._split_movable(drain, jobs[start : start + _CHECK_CHUNK], is_dry=True)
                        self._add_skipped(refused)
                        self._add_skipped(
                            [(job, self._refusals[job.id]) for job in movable if job.id in self._refusals]
                        )
        self._report_excluded_places()

    def _add_skipped(self, skipped: Sequence[tuple[Job, str]]) -> None:
        """Add jobs to the skipped jobs of the report, each id once."""
        for job, text in skipped:
            if job.id not in self._skipped_ids:
                self._skipped_ids.add(job.id)
                self.report.skipped.append(Skipped(job.id, text))

    def _report_excluded_places(self) -> None:
        """Add the first jobs of places that a migration does not move to the skipped jobs, with the reason."""
        for name, text in self._system.unmigrated_places.items():
            page = self.engine.fetch_page(self.source, name, 0, MAX_REPORTED_JOBS)
            self._add_skipped([(job, text) for job in page.jobs])

    def describe_pause(self) -> str:
        """Return a warning if the source is paused and the target is not; else an empty text.

        Moved jobs would run at once then.
        """
        refs = (self.source, self.target)
        source, target = self.engine.take_snapshot(Focus(queues=refs)).queues
        is_released = source.is_paused and not target.is_paused and not target.error
        return (
            f"{self.source} is paused and {self.target} is not: jobs may run as soon as they move."
            if is_released
            else ""
        )

    def describe_calls(self) -> str:
        """Return a warning if the jobs are function calls of another language or library; empty if they are data.

        A worker of the target queue cannot run such a call.
        """
        for place in self._system.places:
            if holds_waiting_jobs(place) and place.name in self._taken_places:
                page = self.engine.fetch_page(self.source, place.name, 0, 1, 4096)
                calls = [job.call for job in page.jobs if job.call]
                if calls:
                    return (
                        f"jobs of {self.source} are calls, such as {calls[0]:.60}: a {DEFAULT_SYSTEM} worker does not "
                        "make them, it gives each body to its command, byte for byte."
                    )
        return ""

    def _count_source_jobs(self) -> dict[str, int]:
        """Count the unfinished jobs of the source by place, and the jobs of an interrupted batch by their key."""
        [queue] = self.engine.take_snapshot(Focus(queues=(self.source,))).queues
        if queue.error:
            raise ServerError(queue.error)
        counts = {count.place: count.count for count in queue.counts if count.state is not State.DONE}
        for drain in self._drains:
            counts |= drain.count_parked()
        return counts

    # -- one batch ------------------------------------------------------------------------------------------------

    def _move_batch(self, drain: Drain, jobs: Sequence[Job]) -> int:
        """Move one batch: put copies, delete the originals, release the copies. Return how many jobs were moved."""
        movable, refused = self._split_movable(drain, jobs)
        for job, text in refused:
            self._skip_job_until_end(job, text)
        copies = drain.build_copies(movable)
        if not copies:
            return 0
        now_ms = self.engine.fetch_server_time_ms()
        put_copies: list[tuple[Copy, bytes, bool]] = []  # (copy, its attempts line, whether the target already had it)
        for copy, result_word in zip(copies, self._put_copies(copies, now_ms), strict=True):
            attempts_line, text = _build_held_attempts_line(self._compute_migration_terms(copy.job), now_ms), ""
            if result_word != "moved":
                target_job = self.engine.fetch_job(self.target, copy.id, copy.job.body_bytes)
                attempts_line = target_job.attempts_line if target_job else b""
                text = "" if drain.needs_batch_ids else self._explain_copy_mismatch(copy, target_job)
            if text:
                self._skip_job_until_end(copy.job, text)
            else:
                put_copies.append((copy, attempts_line, result_word != "moved"))
        self._store_held_copy_entries([copy for copy, _line, _is_known in put_copies], now_ms)
        outcomes = [
            _raise_if_lost(outcome)
            for outcome in drain.delete_originals([copy.job for copy, _line, _is_known in put_copies])
        ]
        drain.finish_batch()
        copies_with_outcomes = list(zip(put_copies, outcomes, strict=True))
        self._refusals |= {
            copy.id: outcome.text for (copy, _line, _is_known), outcome in copies_with_outcomes if not outcome.moved
        }
        moved_copies = [put_copy for put_copy, outcome in copies_with_outcomes if outcome.moved]
        self._release_held_copies([(copy, attempts_line) for copy, attempts_line, _is_known in moved_copies], now_ms)
        self._delete_copies([copy for (copy, _line, _is_known), outcome in copies_with_outcomes if not outcome.moved])
        self._delete_held_copy_entries([copy.id for copy, _line, _is_known in put_copies])
        self.report.moved += len(moved_copies)
        self.report.already_copied += sum(is_known for _copy, _line, is_known in moved_copies)
        return len(moved_copies)

    def _split_movable(
        self, drain: Drain, jobs: Sequence[Job], *, is_dry: bool = False
    ) -> tuple[list[Job], list[tuple[Job, str]]]:
        """Split jobs into those that can be moved, and the others with the reason why they cannot.

        Jobs that left the source meanwhile are in neither list. The dry run and the real run both decide here. A dry
        run reads no body that cannot change the result.
        """
        movable: list[Job] = []
        refused: list[tuple[Job, str]] = []
        for job in self._load_complete_jobs(drain, jobs, is_dry):
            terms = self._compute_migration_terms(job)
            losses = "" if self.is_lossy else "; ".join(self._find_migration_losses(job, terms))
            text = self._find_migration_obstacle(drain, job, terms) or losses
            if text:
                refused.append((job, text))
                continue
            movable.append(job)
            if self.is_lossy and (lost_settings := "; ".join(self._find_migration_losses(job, terms))):
                self.report.losses.append(Skipped(job.id, lost_settings))
        return movable, refused

    def _load_complete_jobs(self, drain: Drain, jobs: Sequence[Job], is_dry: bool) -> list[Job]:
        """Return the jobs with their bodies and all other fields, without jobs that left meanwhile."""
        if is_dry and drain.needs_batch_ids:
            return [*jobs]
        if drain.is_shared and self._system.can_find_by_id:
            jobs = self._reload_jobs(drain, jobs)
        loaded = (self._load_complete_body(job) for job in jobs)
        return [job for job in loaded if job is not None]

    def _reload_jobs(self, drain: Drain, jobs: Sequence[Job]) -> list[Job]:
        """Read the jobs again by their ids, with all fields. Jobs that left the places of the drain are left out."""
        readable_jobs = [job for job in jobs if not job.problem]
        reloaded_jobs = self.engine.send_requests(
            [self._system.job_request(self.source.queue, job.id, MAX_INLINE_BYTES) for job in readable_jobs]
        )
        jobs_by_id = {job.id: shown_job for job, shown_job in zip(readable_jobs, reloaded_jobs, strict=True)}
        places = {place.name for place in drain.places}
        reloaded = (jobs_by_id.get(job.id, job) for job in jobs)
        return [job for job in reloaded if job is not None and job.place in places]

    def _load_complete_body(self, job: Job) -> Job | None:
        """Return a job with its complete body, or None if it left the source meanwhile.

        Jobs with a problem are not loaded.
        """
        is_complete = not job.is_partial and job.body is not None and len(job.body) >= job.body_bytes
        if job.problem or is_complete:
            return job
        complete = self.engine.fetch_job(self.source, job.id, -1)
        if complete is None:
            return None
        return replace(
            job, body=complete.body, body_bytes=complete.body_bytes, member=complete.member, is_partial=False
        )

    def _compute_migration_terms(self, job: Job) -> MigrationTerms:
        """Return the settings that a job of the source gets in the native queue, as its system computes them."""
        return self._system.migration_terms(job)

    def _find_migration_obstacle(self, drain: Drain, job: Job, migration_terms: MigrationTerms) -> str:
        """Return why a job cannot become a native one; empty if it can. A job without an id of its own always can."""
        if migration_terms.obstacle or drain.needs_batch_ids:
            return migration_terms.obstacle
        if job.problem:
            return job.problem
        if not 1 <= len(job.id) <= ID_BYTES:
            return f"its id has {len(job.id)} bytes; a {DEFAULT_SYSTEM} id has 1 to {ID_BYTES}"
        if job.due_ms is not None and job.due_ms > _MAX_DUE_MS:
            return "it is due after the year 2255"
        return "" if job.body is not None else "its body is not there"

    def _find_migration_losses(self, job: Job, migration_terms: MigrationTerms) -> list[str]:
        """Return what a job would lose by the move: features of its own system that the target does not have."""
        losses = [*migration_terms.losses]
        if not _MIN_PRIORITY <= job.priority <= _MAX_PRIORITY:
            losses.append(f"its priority {job.priority} is outside of {_MIN_PRIORITY} to {_MAX_PRIORITY}")
        died_ms = job.since_ms if job.state is State.DEAD else None
        if died_ms is not None and died_ms < self._began_ms - self._fetch_dead_ttl_ms():
            losses.append(f"{self.target} forgets what died so long ago (its setting dead_ttl_ms)")
        return losses

    def _fetch_dead_ttl_ms(self) -> int:
        """Return how long (ms) the target keeps dead jobs, from its setting `dead_ttl_ms` as first read."""
        if self._dead_ttl_ms is None:
            with translate_redis_errors():
                setting = self.engine.client.hget(self._target_keys["meta"], "dead_ttl_ms") or b""
            self._dead_ttl_ms = int(setting) if setting.isdigit() else _DEAD_TTL_MS
        return self._dead_ttl_ms

    def _skip_job_until_end(self, job: Job, text: str) -> None:
        """Report a job as skipped, and keep it until the migration ends, so that it is not taken again."""
        self._add_skipped([(job, text)])
        self._held_jobs[job.id] = job

    def _put_copies(self, copies: Sequence[Copy], now_ms: int) -> list[str]:
        """Put copies into the target in one call, and return the result word of each.

        Copies are due after the hold. Copies of dead jobs go to `dead`.
        """
        rows = [self._build_restore_row(copy.id, copy.job, now_ms) for copy in copies]
        call = self._target_system.build_call("restore", self.target.queue, {}, rows)
        words = self.engine.send_request(Request((call,), _read_result_words))
        if not self._is_registered:
            self.engine.register_queue(self.target)
            self._is_registered = True
        return words

    def _build_restore_row(self, id: bytes, job: Job, now_ms: int) -> dict[str, object]:
        """Build the columns with which the script `restore` puts the copy of a job."""
        terms, body = self._compute_migration_terms(job), job.body or b""
        row: dict[str, object] = {
            "id": id,
            "place": "scheduled",
            "score": str(max(now_ms + HOLD_MS, job.due_ms or 0)),
            "record": _build_copy_record(job, terms, now_ms),
            "line": _build_held_attempts_line(terms, now_ms),
        }
        if len(body) > _MAX_INLINE_BYTES:
            row["body"] = body
        if errors := _build_error_history(job):
            row["errors"] = errors
        if job.state is State.DEAD:
            died_ms = _find_died_ms(job, now_ms)
            row |= {"place": "dead", "score": str(died_ms), "line": b"%d - 0 %d - - " % (terms.attempts, died_ms)}
        return row

    @property
    def _new_id_text(self) -> str:
        """The text about the new id of a copy, for jobs that cannot keep their id."""
        return f"{self.target} got a job of this id a moment ago; this one stays: migrate again when that is done"

    def _explain_copy_mismatch(self, copy: Copy, target_job: Job | None) -> str:
        """Return why the target's job of this id is not the copy of an interrupted run.

        Empty if it is that copy, or the copy has run already. A copy that waits for the end of its original has the
        migration as the worker in its attempts line.
        """
        if target_job is None:
            return self._new_id_text
        if target_job.state is State.DONE and target_job.body is None:
            is_over = target_job.since_ms is not None and target_job.since_ms <= self._began_ms
            return f"{self.target} is about to forget a job of this id: migrate again" if is_over else ""
        if target_job.body != copy.job.body:
            return f"{self.target} has a job of this id with another body"
        if copy.job.state is State.DEAD and target_job.state is State.DEAD and target_job.since_ms == copy.job.since_ms:
            return ""
        return (
            ""
            if target_job.worker == WORKER_NAME and (target_job.since_ms or 0) < self._began_ms
            else self._new_id_text
        )

    def _store_held_copy_entries(self, copies: Sequence[Copy], now_ms: int) -> None:
        """Store in Redis which copies must not run yet, so that a next run can release them.

        Called before the originals are deleted.
        """
        entries = {
            copy.id: f"{copy.job.due_ms or 0} {_find_waiting_since_ms(copy.job, now_ms)}"
            for copy in copies
            if copy.job.state is not State.DEAD and (copy.job.due_ms or 0) < now_ms + HOLD_MS
        }
        if entries:
            with translate_redis_errors():
                self.engine.client.hset(self._held_copies_key, mapping=entries)

    def _delete_held_copy_entries(self, ids: Sequence[bytes]) -> None:
        """Delete the notes in Redis that these copies must not run yet."""
        if ids:
            with translate_redis_errors():
                self.engine.client.hdel(self._held_copies_key, *ids)

    def _release_earlier_copies(self) -> Iterator[int]:
        """Release the copies of an interrupted run whose originals are deleted. Yield 0 if there were any."""
        with translate_redis_errors():
            entries = self.engine.client.hgetall(self._held_copies_key)
        original_ids = [drain.find_originals(list(entries)) for drain in self._drains] if entries else []
        kept_ids, taken_ids = (
            set[bytes]().union(*(ids_of_drain[index] for ids_of_drain in original_ids)) for index in (0, 1)
        )
        self._delete_copies([Copy(id, self._build_target_job(id)) for id in entries if id in taken_ids])
        ids = [id for id in entries if id not in kept_ids]
        requests = [self._target_system.job_request(self.target.queue, id, 0) for id in ids]
        copies_found = [
            job for job in self.engine.send_requests(requests) if job and job.worker == WORKER_NAME and not job.token
        ]
        held_jobs = [job for job in copies_found if job.state is State.SCHEDULED]
        copies = [(Copy(job.id, _restore_copy_times(job, entries[job.id])), job.attempts_line) for job in held_jobs]
        self.report.released_copies = (
            self._release_held_copies(copies, self.engine.fetch_server_time_ms(), is_copy=True) if copies else 0
        )
        self._delete_held_copy_entries(ids)
        if ids:
            yield 0

    def _release_held_copies(self, copies: Sequence[tuple[Copy, bytes]], now_ms: int, *, is_copy: bool = False) -> int:
        """Let copies run: make them ready in this order, or scheduled for their original due time.

        Returns how many copies were released. With `is_copy` the jobs are the copies themselves, as read from the
        target.
        """
        unreleased = [pair for pair in copies if pair[0].job.state is not State.DEAD]
        ready_count = sum((copy.job.due_ms or 0) <= now_ms for copy, _line in unreleased)
        with translate_redis_errors():
            seq = (
                self.engine.client.hincrby(self._target_keys["meta"], "seq", ready_count) - ready_count
                if ready_count
                else 0
            )
        rows = []
        for copy, line in unreleased:
            job, due_ms = copy.job, copy.job.due_ms or 0
            terms = MigrationTerms(job.attempts) if is_copy else self._compute_migration_terms(job)
            row: dict[str, object] = {"id": copy.id, "left": "scheduled", "known": line}
            if due_ms > now_ms:
                row |= {"place": "scheduled", "score": str(due_ms)}
                row["line"] = b"%d - 0 %d - - " % (terms.attempts, due_ms) if terms.attempts else b""
            else:
                seq += 1
                score = _clamp_priority(job.priority) * 2**40 + seq
                since_ms = _find_waiting_since_ms(job, now_ms)
                row |= {"place": "ready", "score": str(score)}
                row["line"] = b"%d - %d %d - - " % (terms.attempts, score, since_ms)
            if errors := _build_error_history(job):
                row["errors"] = errors
            rows.append(row)
        if not rows:
            return 0
        call = self._target_system.build_call("revert", self.target.queue, {}, rows)
        return self.engine.send_request(Request((call,), _read_result_words)).count("moved")

    def _delete_copies(self, copies: Sequence[Copy]) -> None:
        """Delete the copies whose originals another client took. No worker can have run such a copy."""
        for place in ("scheduled", "dead"):
            copies_in_place = [copy for copy in copies if (copy.job.state is State.DEAD) == (place == "dead")]
            jobs = [self._build_target_job(copy.id) for copy in copies_in_place]
            outcomes = self.engine.apply_verb("delete", self.target, jobs, {"place": place}) if jobs else []
            for copy, outcome in zip(copies_in_place, outcomes, strict=True):
                if not _raise_if_lost(outcome).moved:
                    text = f"a worker took it during the move, and it is also in {self.target}: {outcome.text}"
                    self.report.skipped.append(Skipped(copy.job.id, text))

    def _build_target_job(self, id: bytes) -> Job:
        """Build the `Job` with this id in the target queue, for a verb that needs only the id."""
        return Job(id, self.target.queue, self.target.system, "scheduled", State.SCHEDULED, id)


def _raise_if_lost(outcome: Outcome) -> Outcome:
    """Return an outcome. Raises Refused if it is an error, and Unknown if Redis did not reply."""
    if outcome.word == "error":
        raise Refused(outcome.text)
    if outcome.word in ("unknown", "not sent"):
        raise Unknown(outcome.text)
    return outcome


def _read_result_words(replies: Replies) -> list[str]:
    """Return the result word of each row of a call. Raises the error that Redis replied."""
    return [result.word for result in unwrap_reply(replies[0]).each]


def _clamp_priority(priority: int) -> int:
    """Return the nearest priority that a native job can have."""
    return min(_MAX_PRIORITY, max(_MIN_PRIORITY, priority))


def _find_waiting_since_ms(job: Job, now_ms: int) -> int:
    """Return since when (ms) a job has been ready: from its system, else from its due time or its enqueue time."""
    since_ms = job.since_ms if job.state is not State.RESERVED or job.due_ms is None else job.due_ms
    return min(now_ms, max(job.enqueued_ms or 0, job.due_ms or 0) if since_ms is None else since_ms) or now_ms


def _find_died_ms(job: Job, now_ms: int) -> int:
    """Return when a dead job died, in ms."""
    return now_ms if job.since_ms is None else job.since_ms


def _build_held_attempts_line(migration_terms: MigrationTerms, now_ms: int) -> bytes:
    """Build the attempts line of a copy that waits until its original is deleted."""
    return b"%d - 0 %d - - %s" % (migration_terms.attempts, now_ms, WORKER_NAME.encode())


def _build_copy_record(job: Job, migration_terms: MigrationTerms, now_ms: int) -> bytes:
    """Build the record of a copy: the header (lua/README.md, "Lines") and the body, unless it is a long one."""
    body, name = job.body or b"", to_bytes(job.name)
    is_name_valid = len(name) <= _MAX_NAME_BYTES and not any(byte < 32 or byte == 127 for byte in name)
    enqueued_ms = _find_waiting_since_ms(job, now_ms) if job.enqueued_ms is None else min(now_ms, job.enqueued_ms)
    max_attempts = migration_terms.max_attempts and min(1_000_000, max(migration_terms.max_attempts, 1))
    backoffs = [value if value is None else min(value, MAX_BACKOFF_MS) for value in migration_terms[2:4]]
    long_body_bytes = len(body) if len(body) > _MAX_INLINE_BYTES else None
    fields = [
        enqueued_ms,
        job.due_ms,
        _clamp_priority(job.priority),
        None,
        max_attempts,
        *backoffs,
        None,
        long_body_bytes,
    ]
    header = " ".join("-" if value is None else str(value) for value in fields)
    return header.encode() + b" " + (name if is_name_valid else b"") + b"\n" + (b"" if long_body_bytes else body)


def _build_error_history(job: Job) -> bytes:
    """Build the failed attempts of a job as JSON of the native queue; empty if it has none."""
    history = job.history
    if not history and job.error:
        history = (Attempt(0, job.since_ms or 0 if job.state is State.DEAD else 0, job.worker, job.error),)
    errors = [
        [attempt.start_ms, attempt.end_ms, attempt.worker, attempt.error[:_MAX_ERROR_BYTES]]
        for attempt in history[-_MAX_ERRORS:]
    ]
    return json.dumps(errors).encode() if errors else b""


def _restore_copy_times(copy: Job, held_times: bytes) -> Job:
    """Return a copy with the due time and the waiting time that it had before it was kept from running."""
    due_text, _space, since_text = held_times.partition(b" ")
    return replace(copy, due_ms=int(due_text), since_ms=int(since_text) if since_text else None)
