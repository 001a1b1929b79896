"""Drain a queue of another system: take its jobs so that no other client gets them, and delete them there.

Used only by `operations/migration.py`. The scripts of a system decide how jobs are taken. Due jobs are leased if the
system has leases. Otherwise the verb `park` moves them to a key of rqtui, if the system has that verb. Jobs that are
not due are copied first and then deleted. So are due jobs of systems with neither leases nor `park`, if a job can be
found by its id.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from rqtui.connection.connect import translate_redis_errors
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, UsageError, WrongType
from rqtui.model import Job, Outcome, Place, Ref, State
from rqtui.scripts import script as scripts
from rqtui.system_base.foreign_system import build_side_key
from rqtui.system_base.system import System, find_late_place
from rqtui.text.formats import format_quantity
from rqtui.text.names import to_bytes, to_text

PARKED_KEY = "leaving"  # name of the key in which `park` stores a batch
WORKER_NAME = "rqtui-migrate"  # worker name of the leases
MAX_BATCH_JOBS = 200  # most jobs per batch: each script call takes 2 to 4 ms
MAX_INLINE_BYTES = 65_536  # A longer body is fetched alone.
MAX_BATCH_BYTES = 8 << 20  # most body bytes per batch, estimated from the last one
LOCK_MS = 15_000


@dataclass(frozen=True, slots=True)
class Copy:
    """A job of the source queue of a migration, and the id of its copy in the target queue."""

    id: bytes
    job: Job


def choose_drains(engine: Engine, source: Ref, target: Ref) -> list[Drain]:
    """Return the drains that take the jobs of a queue for a migration, chosen by the scripts of its system.

    Raises UsageError if the system has no safe way to take jobs.
    """
    system = engine.systems[source.system]
    waiting_places = [
        place for place in _sort_places(system) if holds_waiting_jobs(place) and system.can("delete", place.name)
    ]
    if {"park", "forget"}.issubset(system.scripts):
        return [ParkDrain(engine, source, target)]
    if not {"reserve", "ack", "release"}.issubset(system.scripts):
        if not ((system.can_find_by_id or system.has_ids) and waiting_places):
            raise UsageError(f"jobs of {system.name} cannot be taken safely: it has neither leases nor the verb park.")
        dead_places = [
            place for place in system.places if _holds_failed_jobs(place) and system.can("delete", place.name)
        ]
        return [DeleteDrain(engine, source, [*waiting_places, *dead_places])]
    is_fenced = any(column.name == "token" for column in system.scripts["ack"].each)
    drains: list[Drain] = [LeaseDrain(engine, source) if is_fenced else ConsumerDrain(engine, source, target)]
    return [
        *drains,
        *(ScheduledDrain(engine, source, place) for place in waiting_places if place.state is State.SCHEDULED),
    ]


def holds_waiting_jobs(place: Place) -> bool:
    """Return whether the jobs of a place wait for a worker or for their due time, and for nothing else."""
    return place.state is State.READY or (place.state is State.SCHEDULED and not place.score.startswith("since"))


def _holds_failed_jobs(place: Place) -> bool:
    """Return whether a place with a Redis key contains jobs that failed and are not run again."""
    return place.state is State.DEAD and place.has_failures and not place.is_from_events


def _sort_places(system: System) -> list[Place]:
    """Return the places of a system in the order in which workers take jobs from them, places of due jobs first."""
    take_order = system.take_order

    def build_place_sort_key(place: Place) -> tuple[bool, int]:
        return place.state is not State.READY, take_order.index(place.name) if place.name in take_order else len(
            take_order
        )

    return sorted(system.places, key=build_place_sort_key)


class Drain:
    """One way to take the jobs of a queue during a migration; each subclass is another way.

    `needs_batch_ids`: the jobs have no ids of their own, and get ids per batch. `is_shared`: other clients can still
    take the jobs of a batch, until `delete_originals`.
    """

    needs_batch_ids = False
    is_shared = False

    def __init__(self, engine: Engine, ref: Ref) -> None:
        self.engine, self.ref = engine, ref
        self.system: System = engine.systems[ref.system]
        self._limit = 4

    @property
    def places(self) -> Sequence[Place]:
        """The places from which `take_batches` takes jobs."""
        late_place = find_late_place(self.system.places)
        return [
            *(place for place in _sort_places(self.system) if holds_waiting_jobs(place)),
            *([late_place] if late_place else []),
        ]

    def yield_preview(self) -> Iterator[tuple[Place, list[Job]]]:
        """Yield the jobs that `take_batches` would take, with their places, without taking them."""
        for place in self.places:
            for page in self.engine.walk_pages(self.ref, place.name, MAX_BATCH_JOBS, MAX_INLINE_BYTES):
                yield place, list(page.jobs)

    def prepare_drain(self) -> None:
        """Prepare the queue for the first batch."""

    def take_batches(self) -> Iterator[list[Job]]:
        """Take jobs from the source queue and yield them in batches, until no job is left.

        No other client can take a job of a batch. With `is_shared`, another client can still take one before
        `delete_originals`, whose outcomes report that.
        """
        raise NotImplementedError

    def build_copies(self, jobs: Sequence[Job]) -> list[Copy]:
        """Build the copies of a batch, with their ids in the target queue."""
        return [Copy(job.id, job) for job in jobs]

    def delete_originals(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Delete the original jobs of a batch in one call, and return the outcomes."""
        raise NotImplementedError

    def finish_batch(self) -> None:
        """Finish a batch after its original jobs were deleted."""

    def find_originals(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Find which original jobs of an interrupted migration still exist, and which of them a worker took.

        Returns two sets of ids. Call this after `prepare_drain`. The copies of jobs that a worker took must not run.
        """
        jobs = self.engine.send_requests([self.system.job_request(self.ref.queue, id, 0) for id in ids])
        jobs_by_id = zip(ids, jobs, strict=True)
        return {id for id, job in jobs_by_id if job is not None and job.state is not State.DONE}, set()

    def clean_up(self, skipped_jobs: Sequence[Job]) -> None:
        """Remove locks, leases and notes of this drain from the source queue, after the last batch.

        `skipped_jobs` were taken but not moved.
        """

    def count_parked(self) -> dict[str, int]:
        """Return the number of jobs of an unfinished batch that are in rqtui's own keys, by key."""
        return {}

    def _adapt_batch_size(self, jobs: Sequence[Job]) -> None:
        """Set the size of the next batch from the mean body size of this one, at most four times as many jobs."""
        mean = sum(job.body_bytes for job in jobs) // max(1, len(jobs)) + 1
        self._limit = max(1, min(MAX_BATCH_JOBS, self._limit * 4, MAX_BATCH_BYTES // mean))


class LeaseDrain(Drain):
    """A drain that takes jobs with ids and tokens by leases.

    An ack is `stale` if another client took the lease over.
    """

    lease_ms = 60_000

    def take_batches(self) -> Iterator[list[Job]]:
        """Lease batches until no job is left. Expired leases are reaped first, as the system's reaper would do."""
        if self.system.can("reap"):
            self.engine.apply_verb("reap", self.ref, (), {"limit": 1000})
        while jobs := self._lease_jobs():
            yield jobs
            self._adapt_batch_size(jobs)

    @property
    def places(self) -> Sequence[Place]:
        """The places of due jobs, including expired leases. Scheduled jobs have a drain of their own."""
        return [place for place in super().places if place.state is not State.SCHEDULED]

    def _lease_jobs(self) -> list[Job]:
        """Lease the next jobs, with the times since when they waited."""
        wait_starts = self._read_wait_starts()
        return [replace(job, since_ms=wait_starts.get(job.id, job.since_ms)) for job in self._reserve_jobs()]

    def _read_wait_starts(self) -> dict[bytes, int]:
        """Return since when the next jobs have waited, by id. A lease would replace the score that has this time."""
        scored_places = [place for place in self.system.places if place.state is State.READY and place.score]
        pages = [self.engine.fetch_page(self.ref, place.name, 0, self._limit, 0) for place in scored_places]
        return {job.id: job.since_ms for page in pages for job in page.jobs if job.since_ms is not None}

    def _reserve_jobs(self) -> list[Job]:
        """Run the system's `reserve` script for the next batch, and return the leased jobs."""
        values = {"limit": self._limit, "worker": WORKER_NAME, "ttr_ms": self.lease_ms}
        call = self.system.build_call("reserve", self.ref.queue, self.system.select_arguments("reserve", values))
        return list(self.system.read_taken_jobs(self.ref.queue, scripts.run_call(self.engine.client, call)))

    def delete_originals(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Acknowledge leased jobs with their tokens. `marked` counts as moved, because the entry is dropped later."""
        outcomes = self.engine.apply_verb("ack", self.ref, jobs, {}) if jobs else []
        return [replace(outcome, moved=1) if outcome.word == "marked" else outcome for outcome in outcomes]

    def clean_up(self, skipped_jobs: Sequence[Job]) -> None:
        """Release the leases of jobs that were skipped."""
        leased = [job for job in skipped_jobs if job.state is State.RESERVED]
        if leased:
            self.engine.apply_verb("release", self.ref, leased, {})


class ScheduledDrain(Drain):
    """A drain for jobs that are not due: copies them with their due time, then deletes the originals.

    If a worker takes the original job before it is deleted, the copy is deleted.
    """

    is_shared = True

    def __init__(self, engine: Engine, ref: Ref, place: Place) -> None:
        super().__init__(engine, ref)
        self.place = place
        self._batch_jobs = self._moved = 0

    @property
    def places(self) -> Sequence[Place]:
        """The one place from which this drain takes jobs."""
        return [self.place]

    def take_batches(self) -> Iterator[list[Job]]:
        """Walk over the place of this drain and yield its pages. Jobs that stay in the place are stepped over."""
        next_offset: int | None = 0
        while next_offset is not None:
            page = self.engine.fetch_scan_page(self.ref, self.place.name, next_offset, MAX_BATCH_JOBS, MAX_INLINE_BYTES)
            if page.error:
                raise WrongType(page.error)
            self._batch_jobs = self._moved = 0
            if page.jobs:
                yield list(page.jobs)
            next_offset = None if page.next is None else page.next - (self._batch_jobs if self._moved else 0)

    def delete_originals(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Delete the copied jobs, except those that another client took or that other jobs wait for."""
        form = self.system.select_arguments("delete", {"sparing": True})
        outcomes = self.engine.apply_verb("delete", self.ref, jobs, form) if jobs else []
        self._batch_jobs, self._moved = len(jobs), sum(outcome.moved for outcome in outcomes)
        return outcomes


class DeleteDrain(ScheduledDrain):
    """A drain that copies and then deletes the jobs of several places, in a system without leases.

    An original job that still exists was not deleted by the interrupted migration.
    """

    def __init__(self, engine: Engine, ref: Ref, places: Sequence[Place]) -> None:
        super().__init__(engine, ref, places[0])
        self._places = places

    @property
    def places(self) -> Sequence[Place]:
        """All places of this drain, in the order in which their jobs are taken."""
        return self._places

    def take_batches(self) -> Iterator[list[Job]]:
        """Yield the batches of one place after the other."""
        for place in self._places:
            self.place = place
            yield from super().take_batches()

    def find_originals(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Return the ids of original jobs that still wait, and of those that a worker took."""
        jobs = self.engine.send_requests([self.system.job_request(self.ref.queue, id, 0) for id in ids])
        waits_by_id = {
            id: holds_waiting_jobs(self.system.place(job.place)) for id, job in zip(ids, jobs, strict=True) if job
        }
        return {id for id in waits_by_id if waits_by_id[id]}, {id for id in waits_by_id if not waits_by_id[id]}


class BatchDrain(Drain):
    """A drain for jobs that are only bytes and have no ids. Their copies get ids that are the same in each run.

    The id of a copy is a digest of its body, the batch's name and its number in the batch. Equal bodies are several
    jobs, so the digest of the body alone would lose all but one. The batch's name is stored in Redis until the batch is
    finished, and each batch is taken, copied and deleted by one script call each. So a later run that finds an
    unfinished batch has the whole batch and its name and gives the same ids, and `exists` then means this very copy.
    """

    needs_batch_ids = True

    def __init__(self, engine: Engine, ref: Ref, target: Ref) -> None:
        super().__init__(engine, ref)
        self._client, self._target = engine.client, str(target)
        self._name_key, self._lock_key = (
            to_bytes(build_side_key(ref.queue, purpose)) for purpose in ("migration", "migrator")
        )
        self._lock_token, self._batch_name = secrets.token_hex(8), ""
        self._unfinished: list[Job] = []
        self._is_finished = False

    def load_unfinished_batch(self) -> list[Job]:
        """Load the jobs of a batch that an interrupted migration did not finish."""
        raise NotImplementedError

    def take_new_batch(self) -> list[Job]:
        """Take the next batch of jobs from the source queue, and return it."""
        raise NotImplementedError

    def prepare_drain(self) -> None:
        """Lock the source queue, waiting for another migration of it, and load the batch of an interrupted one."""
        with translate_redis_errors():
            deadline_s = time.monotonic() + LOCK_MS / 1000 + 1
            while not self._client.set(self._lock_key, self._lock_token, nx=True, px=LOCK_MS):
                if time.monotonic() > deadline_s:
                    raise Refused(f"another migration of {self.ref} is running.")
                time.sleep(0.2)
            name, _space, target = to_text(self._client.get(self._name_key) or b"").partition(" ")
        batch = self.load_unfinished_batch()
        if batch and name and target != self._target:
            raise UsageError(
                f"a migration of {self.ref} to {target} was broken off, "
                f"{format_quantity(len(batch), 'job')} did not arrive: "
                f"finish it first with: rqtui migrate {self.ref} {target}"
            )
        self._unfinished, self._batch_name = batch, name
        if not (batch and name):
            self.finish_batch()

    def take_batches(self) -> Iterator[list[Job]]:
        """Yield the batch of an interrupted migration, then new batches."""
        while True:
            self._renew_lock()
            jobs, self._unfinished = self._unfinished or self.take_new_batch(), []
            if not jobs:
                return
            self._is_finished = False
            yield jobs
            self._adapt_batch_size(jobs)

    def _renew_lock(self) -> None:
        """Extend the lock of this migration on the source queue.

        Raises Refused if the lock expired during the last batch and another migration has it.
        """
        with translate_redis_errors():
            if self._client.get(self._lock_key) != self._lock_token.encode():
                raise Refused(f"another migration of {self.ref} has begun; this one ends here.")
            self._client.pexpire(self._lock_key, LOCK_MS)

    def find_originals(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Return all ids as still existing if an unfinished batch was loaded. That batch is deleted as a whole."""
        return set(ids) if self._unfinished else set(), set()

    def build_copies(self, jobs: Sequence[Job]) -> list[Copy]:
        """Build copies with digests as ids. Equal bodies of a batch are numbered in their order."""
        digest_counts: Counter[bytes] = Counter()
        copies = []
        for job in jobs:
            digest = blake2b(job.body or b"", digest_size=16, key=to_bytes(self._batch_name)).hexdigest().encode()
            digest_counts[digest] += 1
            copies.append(
                Copy(digest if digest_counts[digest] == 1 else b"%s:%d" % (digest, digest_counts[digest]), job)
            )
        return copies

    def finish_batch(self) -> None:
        """Store a new name for the next batch."""
        self._batch_name = secrets.token_hex(8)
        with translate_redis_errors():
            self._client.set(self._name_key, to_bytes(f"{self._batch_name} {self._target}"))
        self._is_finished = True

    def clean_up(self, skipped_jobs: Sequence[Job]) -> None:
        """Release the lock of this migration, and delete the batch's name unless a batch is unfinished."""
        with translate_redis_errors():
            if self._client.get(self._lock_key) == self._lock_token.encode():
                self._client.delete(self._lock_key, *([self._name_key] if self._is_finished else []))


class ParkDrain(BatchDrain):
    """A drain for a system without leases: `park` moves a batch to the key `leaving`, and `forget` deletes it.

    An entry of the list `leaving` is `<due ms or 0> <body>`.
    """

    def count_parked(self) -> dict[str, int]:
        """Return the number of jobs in the list `leaving`."""
        with translate_redis_errors():
            count = self._client.llen(to_bytes(self.system.keys(self.ref.queue)[PARKED_KEY]))
        return {PARKED_KEY: count} if count else {}

    def load_unfinished_batch(self) -> list[Job]:
        """Return all jobs in the list `leaving`: `park` with their number as its limit returns these and no others."""
        count = self.count_parked().get(PARKED_KEY, 0)
        return self._park_jobs(count) if count else []

    def take_new_batch(self) -> list[Job]:
        """Move the next jobs of any place to the key `leaving`, and return them."""
        return self._park_jobs(self._limit)

    def _park_jobs(self, limit: int) -> list[Job]:
        """Move jobs to the key `leaving` with the script `park`, at most `limit`, and return them."""
        reply = scripts.run_call(self._client, self.system.build_call("park", self.ref.queue, {"limit": limit}))
        return [self._parse_parked_entry(row[0]) for row in reply.rows]

    def _parse_parked_entry(self, entry: bytes) -> Job:
        """Parse an entry of the list `leaving` to a job."""
        due, _space, body = entry.partition(b" ")
        place = self.system.place(State.READY)
        digest = blake2b(body, digest_size=6).hexdigest().encode()
        queue, name = self.ref.queue, self.system.name
        return Job(
            digest, queue, name, place.name, place.state, entry, body=body, body_bytes=len(body), due_ms=int(due)
        )

    def delete_originals(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Delete the parked jobs of a batch. Only migrations do that, so an entry that is `gone` counts as moved."""
        call = self.system.build_call("forget", self.ref.queue, {}, [{"member": job.member} for job in jobs])
        reply = scripts.run_call(self._client, call)
        return [
            Outcome("forget", job.id, result.word, result.text, 1) for job, result in zip(jobs, reply.each, strict=True)
        ]


class ConsumerDrain(BatchDrain, LeaseDrain):
    """A drain that leases jobs without tokens. The batch consists of the jobs leased by the worker `rqtui-migrate`."""

    lease_ms = 600_000  # A batch of an interrupted run returns to the source after this; the next run should be sooner.

    def load_unfinished_batch(self) -> list[Job]:
        """Return the jobs that an interrupted migration has leased."""
        held_jobs: list[Job] = []
        for place in self.system.places:
            if place.state is State.RESERVED:
                for jobs in self.engine.scan_jobs(self.ref, place.name, lambda job: job.worker == WORKER_NAME, 1 << 20):
                    held_jobs += jobs
        return held_jobs

    def take_new_batch(self) -> list[Job]:
        """Lease the next jobs of the source queue and return them."""
        return self._lease_jobs()

    def clean_up(self, skipped_jobs: Sequence[Job]) -> None:
        """Remove the worker's name from the keys where `reserve` wrote it, unless a batch is unfinished."""
        self._is_finished = self._is_finished and not self.load_unfinished_batch()
        super().clean_up(skipped_jobs)
        script, keys = self.system.script("reserve"), self.system.keys(self.ref.queue)
        written_keys = [key for key in script.keys if key.name in script.writes and self._is_finished]
        with translate_redis_errors():
            for key in written_keys:
                if key.type in ("set", "hash"):
                    (self._client.srem if key.type == "set" else self._client.hdel)(
                        to_bytes(keys[key.name]), WORKER_NAME
                    )
