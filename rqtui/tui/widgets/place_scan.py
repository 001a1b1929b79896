"""Scan a place that is too long to be filtered at each refresh, and store the jobs that match.

A scan reads the place in the order of the pane, one chunk per round trip, up to a budget. Matching jobs are stored in
that order, without long bodies and with only the end of each error. Visible jobs are read again at each refresh. A job
that left the place stays in the list with its new place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from rqtui.errors import WrongType
from rqtui.model import Job, Ref
from rqtui.system_base.system import CHUNK

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

MAX_SCANNED_JOBS = 100_000  # most jobs that one scan reads
FILTER_BYTES = 4096  # bytes of each body that are read for a filter of bodies
_ERROR_CHARS = 400  # characters of an error that are kept
Accepts = Callable[[Job], bool]


class ScanStep(NamedTuple):
    """The result of one round trip of a scan: matching jobs with positions, jobs read so far, and jobs in the place."""

    jobs: tuple[tuple[int, Job], ...]
    scanned: int
    total: int
    is_cut: bool  # the scan stopped at its limit, before the end of the place


def create_scan(
    ref: Ref, place: str, accepts: Accepts, body_bytes: int, kept_bytes: int, max_scanned: int = MAX_SCANNED_JOBS
) -> Callable[[Engine], Iterator[ScanStep]]:
    """Return a function that scans a place on the engine's thread, step by step, for jobs that a filter accepts.

    `kept_bytes` of each body are stored.
    """

    def yield_scan_steps(engine: Engine) -> Iterator[ScanStep]:
        errors: dict[str, str] = {}  # most jobs share their error, so each text is stored once
        system = engine.systems[ref.system]
        is_shared, is_backward = system.is_shared(place), system.place(place).is_newest_last
        position: int | None = None
        scanned = 0
        is_over = False
        while not is_over:
            limit = min(CHUNK, max_scanned - scanned)
            if is_backward:
                page = engine.fetch_backward_scan_page(ref, place, position, limit, body_bytes)
            else:
                page = engine.fetch_scan_page(ref, place, position or 0, limit, body_bytes)
            if page.error:
                raise WrongType(page.error)
            scanned += page.scanned_entries
            position = page.older_jobs if is_backward else page.next
            is_over = position is None or not (page.jobs or is_shared)
            jobs_with_positions = enumerate(page.jobs, page.offset)
            jobs = tuple(
                (position, _shrink_matching_job(job, kept_bytes, errors))
                for position, job in jobs_with_positions
                if accepts(job)
            )
            is_cut = scanned >= max_scanned and not is_over
            yield ScanStep(jobs, scanned, page.place_total or page.total, is_cut)
            if is_cut:
                return

    return yield_scan_steps


def _shrink_matching_job(job: Job, body_bytes: int, errors: dict[str, str]) -> Job:
    """Return a found job without most of its body and of its error, to save memory."""
    error = errors.setdefault(job.error, job.error[-_ERROR_CHARS:]) if job.error else ""
    body = job.body[:body_bytes] if job.body and body_bytes else None
    return replace(job, body=body, error=error, history=())


@dataclass(slots=True)
class ScanResult:
    """The matching jobs of a scan by id, in their order, with the positions (`positions`) where they were read.

    `left_places` has the jobs that left the place, with their new place ("" if they are missing).
    """

    jobs: dict[bytes, Job] = field(default_factory=dict)
    ids: list[bytes] = field(default_factory=list)
    positions: dict[bytes, int] = field(default_factory=dict)
    left_places: dict[bytes, str] = field(default_factory=dict)
    scanned: int = 0
    total: int = 0
    is_finished: bool = False
    is_cut: bool = False  # stopped before the end of the place by the limit, Esc or an error
    problem: str = ""
    _present_jobs: tuple[Job, ...] | None = None

    @property
    def is_partial(self) -> bool:
        """Whether part of the place was not read, because the scan ended early or is still running."""
        return self.is_cut or not self.is_finished

    def add_step(self, step: ScanStep) -> None:
        """Add the matching jobs of one step of the scan.

        A job that moved during the scan keeps the position where it was read first.
        """
        for position, job in step.jobs:
            if job.id not in self.jobs:
                self.ids.append(job.id)
                self.jobs[job.id], self.positions[job.id] = job, position
        self.scanned, self.total, self.is_cut = step.scanned, step.total, step.is_cut
        self._present_jobs = None

    def mark_finished(self, *, is_stopped_early: bool = False, problem: str = "") -> None:
        """Store that the scan has ended, and why: by a person (`is_stopped_early`) or by an error (`problem`).

        Without both, the scan has read the whole place.
        """
        self.is_finished, self.problem = True, problem
        self.is_cut = self.is_cut or is_stopped_early or bool(problem)

    def update_job(self, job_id: bytes, place: str, job: Job | None) -> None:
        """Update a job of the scan's result after the job was read again. `job` is None if it is missing."""
        if job_id not in self.jobs:
            return
        previous, had_left = self.jobs[job_id], job_id in self.left_places
        if job is not None and job.place == place:
            self.left_places.pop(job_id, None)
            self.jobs[job_id] = (
                replace(job, body=previous.body, history=()) if job.body is None else replace(job, history=())
            )
        else:
            self.left_places[job_id] = job.place if job is not None else ""
        current = self.jobs[job_id]
        if had_left != (job_id in self.left_places) or (current.token, current.member) != (
            previous.token,
            previous.member,
        ):
            self._present_jobs = None  # rebuilt on demand, because 100 000 jobs take 60 ms

    def slice_jobs(self, offset: int, limit: int) -> Sequence[Job]:
        """Return part of the list of jobs that the scan found."""
        return [self.jobs[job_id] for job_id in self.ids[offset : offset + limit]]

    def list_present_jobs(self) -> tuple[Job, ...]:
        """Return the jobs found by the scan that were still in the place when they were last read."""
        if self._present_jobs is None:
            self._present_jobs = tuple(self.jobs[job_id] for job_id in self.ids if job_id not in self.left_places)
        return self._present_jobs
