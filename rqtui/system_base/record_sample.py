"""Cache a sample of jobs that are keys of their own and that no key lists, as steps of SCAN find them.

A walk over all keys takes one bounded step per request. A step adds the jobs that it found; the end of a walk drops
those that the walk did not meet. If one step passes all keys, the sample is complete and its numbers are exact.
Otherwise `count` extrapolates, until a first walk has ended. `record_system.py` sends the requests. The module knows
neither Redis nor a system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rqtui.model import Job

MAX_RECORDS = 10_000  # jobs that are cached and can therefore be listed
KEYS_PER_STEP = 1_000  # keys that a step passes: 1 ms of the server's time
FIRST_KEYS = 5_000  # keys that the first step passes
BYTES_PER_STEP = 1_048_576  # bytes of records that a step returns
MAX_WANTED = 200  # unread records that a step requests by id
_SAME_EXPIRY_MS = 1_000  # an expiry is read as a remaining time, so that it differs by the time between two clocks


class RecordRequest(NamedTuple):
    """The arguments of one step: where SCAN continues, how many keys it passes, and which records it returns.

    `read_bytes` is how many bytes of records that are not listed the step may return. The records of `wanted_ids` are
    returned in any case, those of `known_ids` never.
    """

    cursor: str
    keys: int
    read_bytes: int
    wanted_ids: tuple[bytes, ...] = ()
    known_ids: tuple[bytes, ...] = ()


class FoundRecord(NamedTuple):
    """A record that a step found. `job` is None if its bytes were not returned."""

    id: bytes
    expires_ms: int | None
    size: int
    job: Job | None


@dataclass(slots=True)
class _Record:
    expires_ms: int | None
    size: int
    job: Job | None
    at_ms: int
    walk: int


class RecordCount(NamedTuple):
    """The number of jobs of a place; `is_exact` is False if it is an estimate, or may be out of date."""

    number: int
    is_exact: bool


@dataclass(slots=True)
class RecordSample:
    """The cached records of all queues of a system by id, and how far the walk over all keys has come."""

    records: dict[bytes, _Record] = field(default_factory=dict)
    cursor: str = "0"
    walk: int = 1
    complete_walks: int = 0
    began_ms: int = 0  # when the first step was taken, by the server's clock
    ends: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # jobs found that ended since then, by queue and place
    is_whole: bool = False  # the last step passed all keys, and every record that it found was read
    _keys: int = 0  # keys of the database
    _passed: int = 0  # keys that the current walk has passed
    _met: int = 0  # records that the current walk found
    _scale: float = 1.0  # records of the last complete walk, divided by those of them that are cached

    def plan_step(self, wanted_ids: Sequence[bytes] = ()) -> RecordRequest:
        """Plan the next step of the walk; the records of `wanted_ids` are returned, too."""
        unread_ids = [id for id, record in self.records.items() if record.job is None]
        wanted = tuple(dict.fromkeys([*wanted_ids, *unread_ids]))[: max(MAX_WANTED, len(wanted_ids))]
        if not self._keys:
            return RecordRequest("0", FIRST_KEYS, BYTES_PER_STEP, wanted)
        if self._keys > KEYS_PER_STEP:
            return RecordRequest(self.cursor, KEYS_PER_STEP, 0, wanted)
        skipped = {*wanted}
        known_ids = tuple(id for id in self.records if id not in skipped)
        return RecordRequest(self.cursor, KEYS_PER_STEP, BYTES_PER_STEP, wanted, known_ids)

    def apply_step(
        self, request: RecordRequest, found: Iterable[FoundRecord], cursor: str, passed: int, keys: int, now_ms: int
    ) -> None:
        """Update the sample from the reply to a step: the records that it found, and the `cursor` after it.

        `passed` is how many keys the step passed, `keys` how many the database has.
        """
        is_next = request.cursor == self.cursor
        self.began_ms = self.began_ms or now_ms
        met: dict[bytes, FoundRecord] = {record.id: record for record in found}
        for id in request.wanted_ids:
            if id not in met:
                self.records.pop(id, None)
        for record in met.values():
            self._add_record(record)
        self._keys = keys
        if not is_next:
            return  # Another request took this step, too.
        is_single_step = request.cursor == cursor == "0"
        self._passed, self.cursor = self._passed + passed, cursor
        self._met += sum(id not in {*request.wanted_ids} for id in met) if not is_single_step else len(met)
        if cursor == "0":
            self._end_walk()
        self.is_whole = is_single_step and len(met) <= len(self.records) and self._is_all_read()
        for id in [id for id, r in self.records.items() if r.expires_ms is not None and r.expires_ms <= now_ms]:
            del self.records[id]

    def _add_record(self, found: FoundRecord) -> None:
        cached = self.records.get(found.id)
        if cached is None:
            at_ms = _read_end_ms(found.job)
            self._note_end(found.job, at_ms)
            if len(self.records) < MAX_RECORDS:
                self.records[found.id] = _Record(found.expires_ms, found.size, found.job, at_ms, self.walk)
            return
        if found.job is not None:
            at_ms = _read_end_ms(found.job)
            if at_ms != cached.at_ms:
                self._note_end(found.job, at_ms)
            cached.job, cached.at_ms = found.job, at_ms
        elif cached.size != found.size or not _is_same_expiry(cached.expires_ms, found.expires_ms):
            cached.job = None  # Another record of the same id.
        cached.expires_ms, cached.size, cached.walk = found.expires_ms, found.size, self.walk

    def _note_end(self, job: Job | None, at_ms: int) -> None:
        if job is not None and at_ms >= self.began_ms:
            self.ends[job.queue, job.place] += 1

    def _end_walk(self) -> None:
        """Drop the records that the walk did not meet, and begin the next walk."""
        for id in [id for id, record in self.records.items() if record.walk != self.walk]:
            del self.records[id]
        self._scale = max(1.0, self._met / len(self.records)) if self.records else 1.0
        self.complete_walks, self.walk = self.complete_walks + 1, self.walk + 1
        self._passed = self._met = 0

    def _is_all_read(self) -> bool:
        return all(record.job is not None for record in self.records.values())

    def drop_record(self, id: bytes) -> None:
        """Remove a record from the sample, because its key was deleted."""
        self.records.pop(id, None)

    def list_jobs(self, queue: str, place: str) -> list[Job]:
        """Return the cached jobs of a place of a queue, those that ended last first."""
        matching = [
            (-record.at_ms, id, job)
            for id, record in self.records.items()
            if (job := record.job) is not None and job.queue == queue and job.place == place
        ]
        return [job for _at_ms, _id, job in sorted(matching, key=lambda row: row[:2])]

    def find_last_end_ms(self, queue: str) -> int:
        """Return when the job of a queue ended that ended last among the cached ones (ms); 0 if there is none."""
        return max((each.at_ms for each in self.records.values() if each.job and each.job.queue == queue), default=0)

    def count(self, queue: str, place: str) -> RecordCount:
        """Return the number of jobs of a place of a queue, extrapolated if only a part of the keys was passed."""
        number = sum(
            record.job is not None and record.job.queue == queue and record.job.place == place
            for record in self.records.values()
        )
        if self.is_whole:
            return RecordCount(number, True)
        read = sum(record.job is not None for record in self.records.values())
        scale = len(self.records) / read if read else 1.0
        if self.complete_walks:
            scale *= self._scale
        elif self._passed:
            scale *= max(1.0, self._keys / self._passed)
        return RecordCount(round(number * scale), False)


def _is_same_expiry(one_ms: int | None, other_ms: int | None) -> bool:
    if one_ms is None or other_ms is None:
        return one_ms is other_ms
    return abs(one_ms - other_ms) <= _SAME_EXPIRY_MS


def _read_end_ms(job: Job | None) -> int:
    """Return when a job ended (ms); 0 if that is unknown."""
    return 0 if job is None else (job.ended_ms or job.since_ms or 0)
