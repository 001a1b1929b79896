"""Undo: save jobs before a verb changes them, so that the change can be undone if the jobs stay as it left them.

A `UndoRecorder` is installed on an engine (`engine.change_recorder`). Before a chunk is sent it reads the jobs and
writes them to a file (`operations/undo_files.py`); afterwards it writes their new state. `operations/revert.py` undoes
an operation. Verbs with an inverse (`find_inverse_script`) can be undone: moves and deletes in systems that have the
scripts for it, pause and resume, and in other systems the delete of jobs that no worker had taken. `describe_undo` says
in advance whether a verb can be undone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui.connection.connect import hide_url_passwords
from rqtui.errors import Refused, RqtuiError, WrongType
from rqtui.model import Job, Outcome, Ref, State
from rqtui.operations import undo_files
from rqtui.operations.journal import MAX_IDS, Journal, Operation, find_current_user
from rqtui.operations.undo_files import AfterState, SavedJob
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.system import CHUNK, Request, System, raise_if_connection_lost
from rqtui.text.names import to_bytes
from rqtui.verbs import TO_QUEUE

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

T = TypeVar("T")
FOLDER = "undo"
MAX_SAVED_JOBS = 10_000  # jobs of one operation
ANSWER_BYTES = 8 << 20  # most bytes in the reply of one call; further jobs need another call
UNDO_COMMAND = "rqtui undo"  # how to undo in a shell; on the screen the key is `z`
QUEUE_INVERSES = {"pause": "resume", "resume": "pause"}
NO_UNDO_REASONS = {
    "ack": "an acked job is finished",
    "reject": "a worker may have it again by then",
    "release": "a worker may have it again by then",
    "extend": "the lease only became longer",
    "enqueue": "D deletes it",
    "reserve": "L releases it",
    "pull": "a pulled job has left the queue",
    "cancel": "its worker is asked at once",
    "grow": "shrink reverses it",
    "shrink": "grow reverses it",
    "rate_limit": "set the limit that the task had before",
    "time_limit": "set the limits that the task had before",
}


def describe_undo(
    system: System, verb: str, count: int | None = None, place: str = "", problem: str = "", undo_key: str = "z"
) -> str:
    """Describe whether a change can be undone, for the question before it: `z undoes it`, or `no undo: …`.

    `count` is how many jobs would change, if that is known, `problem` that of the recorder, `place` the place of the
    jobs. `undo_key` is what undoes the change: the key on the screen, or `UNDO_COMMAND`.
    """
    obstacle = problem or _explain_no_undo(system, verb, place)
    if not obstacle and count is not None and count > MAX_SAVED_JOBS:
        obstacle = explain_limit()
    if obstacle:
        return f"no undo: {obstacle}"
    if not can_restore_exactly(system) and verb not in QUEUE_INVERSES:
        return f"{undo_key} puts them back, behind those that wait"
    return f"{undo_key} undoes it"


def explain_limit() -> str:
    """Return why a change of more than `MAX_SAVED_JOBS` jobs cannot be undone."""
    return f"it is kept for at most {MAX_SAVED_JOBS:,} jobs".replace(",", " ")


def is_too_large_to_undo(operation: Operation) -> bool:
    """Return whether an operation cannot be undone because it changed too many jobs.

    An undo must then be refused, instead of undoing the operation before it.
    """
    return not operation.undo and not operation.undone_at_ms and operation.count > MAX_SAVED_JOBS


def can_restore_exactly(system: System) -> bool:
    """Return whether a system has the scripts that save and restore jobs with every field."""
    return {"records", "revert", "restore"}.issubset(system.scripts)


def find_inverse_script(system: System, verb: str) -> str:
    """Return the script that undoes a verb, derived from the headers of both scripts; empty if there is none.

    `restore` puts back jobs that a verb removed from their places. `revert` moves back jobs that a verb, called with
    their ids, put into a place that `revert` takes from, if they came from a place that `revert` moves to. A verb that
    moves jobs to another queue moves them back.
    """
    if verb in QUEUE_INVERSES:
        return QUEUE_INVERSES[verb] if QUEUE_INVERSES[verb] in system.scripts else ""
    script = system.scripts.get(verb)
    if script is None:
        return ""
    if not can_restore_exactly(system):
        return "enqueue" if verb == "delete" and "enqueue" in system.scripts else ""
    if script.moves_to_queue:
        return verb
    if script.moves and not script.targets:
        return "restore"
    if any(move.leaves for move in script.moves) or not {"id", "member"} & {column.name for column in script.each}:
        return ""
    changed_places = () if script.moves else tuple(place.name for place in system.places if place.name in script.writes)
    sources, targets = {*script.sources, *changed_places}, {*script.targets, *changed_places}
    revert_script = system.scripts["revert"]
    return "revert" if sources & {*revert_script.targets} and targets <= {*revert_script.sources} else ""


def _explain_no_undo(system: System, verb: str, place: str) -> str:
    """Return why a verb cannot be undone in a system; empty if it can."""
    script = find_inverse_script(system, verb)
    if script == "restore" and verb == "purge" and not place:
        return "the whole queue goes, with its settings"
    if script == "enqueue" and place and system.place(place).state not in (State.READY, State.SCHEDULED):
        return f"what {system.name} has in {place} cannot be put back there"
    return "" if script else NO_UNDO_REASONS.get(verb, f"{system.name} has no inverse of {verb}")


@dataclass(frozen=True, slots=True)
class SavedChunk:
    """Jobs that were saved and are about to be changed by one call.

    The calls `before` and `after` are sent in the round trip of the change, and read the jobs again. Jobs that move to
    another queue are read there after the change: `ref_after` is that queue, otherwise their own.
    """

    recorder: UndoRecorder
    engine: Engine
    file: undo_files.UndoFile
    verb: str
    ref: Ref
    rows: Mapping[bytes, SavedJob]
    ref_after: Ref
    lookup_rows: Sequence[Mapping[str, object]] = ()  # with which the script `records` finds each job after the change
    before: tuple[Call, ...] = ()
    after: tuple[Call, ...] = ()

    def record_outcomes(self, outcomes: Sequence[Outcome], before: Sequence[Any], after: Sequence[Any]) -> None:
        """Write the state of the changed jobs after the verb to the undo file, and the ids of jobs without a reply."""
        changed = [outcome for outcome in outcomes if outcome.moved]
        unanswered = [outcome.id for outcome in outcomes if outcome.word == "unknown"]
        if not self.after or unanswered:
            corrected = [row for outcome in changed if (row := _find_changed_row(outcome, self.rows))]
            self.file.write_states_after({outcome.id: AfterState() for outcome in changed}, corrected, unanswered)
            return
        ids = list(self.rows)
        rows_before, rows_after = _parse_saved_jobs(ids, before[0]), _parse_saved_jobs(ids, after[0])
        if any(self._was_read_too_early(outcome.id, rows_before, rows_after) for outcome in changed):
            # The server did not have the verb's script loaded, so the verb ran after the read: read the jobs again.
            rows_after = self.recorder.read_jobs(self.engine, self.ref_after, self.lookup_rows, is_whole=False)
        corrected = [
            rows_before[id] for id in ids if id in rows_before and not rows_before[id].has_same_state(self.rows[id])
        ]
        self.file.write_states_after(
            {
                outcome.id: self._find_after_state(outcome, rows_before, rows_after)
                for outcome in changed
                if outcome.id in self.rows
            },
            corrected,
            (),
        )

    def _was_read_too_early(
        self, id: bytes, rows_before: Mapping[bytes, SavedJob], rows_after: Mapping[bytes, SavedJob]
    ) -> bool:
        """Return whether a changed job was read as it was before the change."""
        if self.ref_after != self.ref:
            return id not in rows_after
        return id in rows_before and id in rows_after and rows_before[id].has_same_state(rows_after[id])

    def _find_after_state(
        self, outcome: Outcome, rows_before: Mapping[bytes, SavedJob], rows_after: Mapping[bytes, SavedJob]
    ) -> AfterState:
        """Return the place and the attempts line of a changed job, if it is in a place that the verb moves jobs to."""
        script = self.engine.systems[self.ref.system].scripts[self.verb]
        reported_place = outcome.values.get("place")
        expected_places = (
            {reported_place}
            if reported_place
            else set(script.targets) or {rows_before[outcome.id].place if outcome.id in rows_before else ""}
        )
        row = rows_after.get(outcome.id)
        return AfterState(row.place, row.line) if row and row.place in expected_places else AfterState()


@dataclass
class ChangeProgress:
    """The outcomes so far of a change that has not ended."""

    ids: list[bytes] = field(default_factory=list)  # the first of them
    count: int = 0
    answers: Counter[str] = field(default_factory=Counter)


class UndoRecorder:
    """Saves the jobs that an engine changes, so that the changes can be undone.

    One operation is all changes of a verb and queue until `end_change`. `problem` says why no job can be saved: while
    it is set, changes continue without undo, and the user has been shown the reason. A write error without a reported
    problem stops the change. Thread-safe.
    """

    def __init__(self, folder: Path, url: str = "", journal: Journal | None = None) -> None:
        self.folder, self.url, self.who = folder / FOLDER, hide_url_passwords(url), find_current_user()
        self.problem, self._needed_bytes = undo_files.find_folder_problem(self.folder), undo_files.PROBE_BYTES
        self._lock = threading.Lock()
        self._open_files: dict[tuple[str, Ref], undo_files.UndoFile | None] = {}
        self._progress: dict[tuple[str, Ref], ChangeProgress] = {}
        self._journal = journal  # gets the start of each change of several jobs, and its progress after each chunk
        self._expected_totals: dict[tuple[str, Ref], int] = {}
        self._change_ids: dict[tuple[str, Ref], str] = {}

    def check_problem(self) -> str:
        """Check whether the undo folder can be written, set `problem` to the result and return it."""
        self.problem = undo_files.find_folder_problem(self.folder, self._needed_bytes)
        return self.problem

    def begin_change(self, verb: str, ref: Ref, total: int) -> None:
        """Record that a change of `total` jobs begins. Nothing is saved for a change of too many jobs."""
        with self._lock:
            self._expected_totals[verb, ref] = max(total, self._expected_totals.get((verb, ref), 0))
            if total > MAX_SAVED_JOBS:
                self._open_files.setdefault((verb, ref), None)

    def end_change(self, verb: str, system: str, queue: str) -> str:
        """End the operation of a verb on a queue, and return the name of its undo record.

        Returns an empty text if nothing was saved or changed.
        """
        with self._lock:
            file = self._open_files.pop((verb, Ref(system, queue)), None)
            self._progress.pop((verb, Ref(system, queue)), None)
            self._end_journal_entry((verb, Ref(system, queue)))
        return file.name if file and file.can_be_undone else ""

    def record_stop(self, verb: str, ref: Ref, reason: str) -> None:
        """Record in the journal why a change was stopped before its end, and after how many jobs."""
        if self._journal is not None:
            self._journal.record_stop(verb, ref.queue, ref.system, reason)

    def discard_unchanged(self, is_over: Callable[[str, Ref], bool]) -> None:
        """End the changes that changed no job and for which `is_over` returns true. They become no operation."""
        with self._lock:
            for key in [key for key in self._change_ids if is_over(*key)]:
                self._end_journal_entry(key)
        if self._journal is not None:
            self._journal.flush_ended()

    def _end_journal_entry(self, key: tuple[str, Ref]) -> None:
        """Record in the journal that a change ended, if its beginning was recorded there."""
        self._expected_totals.pop(key, None)
        id = self._change_ids.pop(key, "")
        if id and self._journal is not None:
            self._journal.end_change(id)

    def _begin_journal_entry(self, engine: Engine, verb: str, ref: Ref, count: int) -> None:
        """Record the beginning of a change in the journal, if the change takes more than one call."""
        key, total = (verb, ref), max(count, self._expected_totals.get((verb, ref), 0))
        is_long = total > 1 or (
            not count and any(arg.name == "limit" for arg in engine.systems[ref.system].scripts[verb].args)
        )
        if self._journal is None or key in self._change_ids or not is_long:
            return
        self._change_ids[key] = self._journal.begin_change(verb, ref.queue, ref.system, total)

    def record_outcomes(self, verb: str, ref: Ref, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes to those of the open operation, and record the progress in the journal."""
        with self._lock:
            progress = self._progress.setdefault((verb, ref), ChangeProgress())
            progress.count += sum(
                1 if outcome.id else outcome.moved * ("moved" in outcome.values) for outcome in outcomes
            )
            progress.ids += [outcome.id for outcome in outcomes[: max(0, MAX_IDS - len(progress.ids))] if outcome.id]
            for outcome in outcomes:
                progress.answers[outcome.text or outcome.word] += outcome.moved or 1
            id, file = self._change_ids.get((verb, ref)), self._open_files.get((verb, ref))
            if id and self._journal is not None:
                self._journal.record_progress(id, progress.count, progress.answers, file.name if file else "")

    def open_changes(self) -> dict[tuple[str, Ref], ChangeProgress]:
        """Return the operations that are not ended yet, with their outcomes so far."""
        with self._lock:
            return dict(self._progress)

    def build_read_requests(self, system: System, verb: str, queue: str, ids: Sequence[bytes]) -> list[Request[Any]]:
        """Build the request with which `save_jobs` will read these jobs, for `Engine.read_ahead`.

        Returns none if `save_jobs` reads nothing or needs more than the ids.
        """
        if self.problem or not can_restore_exactly(system) or not (script := find_inverse_script(system, verb)):
            return []
        if {column.name for column in system.scripts["records"].each} != {"id"} or len(ids) > system.jobs_per_call:
            return []
        rows = [{"id": id} for id in ids]
        call = _build_records_call(system, Ref(system.name, queue), rows, is_whole=script == "restore")
        return [Request((call,), lambda _replies: None)]

    def save_jobs(
        self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job], script_rows: Sequence[Mapping[str, object]] = ()
    ) -> SavedChunk | None:
        """Read jobs before a change and write them to the undo file; return None if the change cannot be undone.

        `script_rows` are the arguments that the verb's script gets for each job. Raises RqtuiError if the jobs cannot
        be read or written.
        """
        system = engine.systems[ref.system]
        with self._lock:
            self._begin_journal_entry(engine, verb, ref, len(jobs))
        if _explain_no_undo(system, verb, jobs[0].place if jobs else "") or bool(jobs) == (verb in QUEUE_INVERSES):
            return None
        if self.problem and self.check_problem():
            return None
        with self._lock:
            file = self._open_files.get((verb, ref), _NO_FILE_YET)
        if file is None:
            return None
        if file is not _NO_FILE_YET and (
            file.jobs + len(jobs) > MAX_SAVED_JOBS or file.bytes > undo_files.OPERATION_BYTES
        ):
            self._try_write(lambda: file.write_unsaved(len(jobs)), undo_files.PROBE_BYTES)
            return None
        to_queue = str(script_rows[0].get(TO_QUEUE, "")) if script_rows else ""
        if file is not _NO_FILE_YET and file.to_queue != to_queue:
            raise Refused(f"jobs of {ref.queue} are being moved to {file.to_queue}; nothing more was changed.")
        lookup_rows: dict[bytes, Mapping[str, object]] = {job.id: {"id": job.id, "member": job.member} for job in jobs}
        if not to_queue:
            lookup_rows |= {job.id: {**row, "id": job.id} for job, row in zip(jobs, script_rows, strict=False)}
        script = find_inverse_script(system, verb)
        if script == "enqueue":
            rows = _read_jobs_for_enqueue(engine, ref, jobs)
        else:
            try:
                rows = (
                    self.read_jobs(engine, ref, list(lookup_rows.values()), is_whole=script == "restore")
                    if lookup_rows
                    else {}
                )
            except (
                WrongType
            ) as error:  # The reader of this error requested a change, so the text says that none was made.
                raise WrongType(f"{error}. Nothing was changed.") from error
        if file is _NO_FILE_YET:
            record_fields = (verb, ref.system, ref.queue, self.url, self.who, system.format_spec(ref.queue), to_queue)
            file = self._try_write(lambda: undo_files.UndoFile(self.folder, *record_fields), undo_files.PROBE_BYTES)
            with self._lock:
                self._open_files[(verb, ref)] = file
        size = max(undo_files.PROBE_BYTES, 2 * sum(row.size for row in rows.values()))
        self._try_write(lambda: file.write_jobs(list(rows.values())), size)
        if not rows or script not in ("revert", verb):
            return SavedChunk(self, engine, file, verb, ref, rows, ref)
        ref_after, found_rows = ref, [lookup_rows[id] for id in rows]
        before = after = _build_records_call(system, ref, found_rows, is_whole=False)
        if to_queue:
            new = {job.id: row.get("new") or job.member for job, row in zip(jobs, script_rows, strict=True)}
            ref_after, found_rows = Ref(ref.system, to_queue), [{"id": id, "member": new[id]} for id in rows]
            after = _build_records_call(system, ref_after, found_rows, is_whole=False)
        return SavedChunk(self, engine, file, verb, ref, rows, ref_after, found_rows, (before,), (after,))

    def update_states_after(self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job]) -> None:
        """Write the state of changed jobs to the undo file again, after a later step of the same change moved them.

        A job that has left its place in the meantime is left out: the undo will find it changed. Raises RqtuiError.
        """
        with self._lock:
            file = self._open_files.get((verb, ref))
        if file is None or find_inverse_script(engine.systems[ref.system], verb) != "revert":
            return
        places = {job.id: job.place for job in jobs}
        rows = self.read_jobs(engine, ref, [{"id": job.id, "member": job.member} for job in jobs], is_whole=False)
        states = {id: AfterState(row.place, row.line) for id, row in rows.items() if row.place == places[id]}
        file.write_states_after(states, [], ())

    def _try_write(self, write: Callable[[], T], size: int) -> T:
        """Call `write`. An error sets `problem` until a folder check finds space for about `size` bytes."""
        try:
            return write()
        except RqtuiError as error:
            self._needed_bytes = size
            self.problem = self.check_problem() or str(error)
            raise

    def read_jobs(
        self, engine: Engine, ref: Ref, lookup_rows: Sequence[Mapping[str, object]], is_whole: bool
    ) -> dict[bytes, SavedJob]:
        """Read the present state of jobs, by id, in as many calls as their size needs. Missing jobs are left out."""
        return {row.id: row for rows in read_jobs(engine, ref, lookup_rows, is_whole) for row in rows}

    def replace_verb(
        self, engine: Engine, verb: str, ref: Ref, form: Mapping[str, object]
    ) -> Iterator[list[Outcome]] | None:
        """Return the steps of a purge that deletes saved jobs one by one, so that it can be undone.

        None for other changes.
        """
        system, place = engine.systems[ref.system], str(form.get("place") or "")
        if (
            verb != "purge"
            or not place
            or not can_restore_exactly(system)
            or self.problem
            or system.purges_by_job(place)
        ):
            return None
        if system.place(place).state is State.RESERVED and not form.get("force"):
            queue = engine.send_request(system.queue_request(ref.queue))
            if queue.expired < queue.count_in_place(
                place
            ):  # Some leases are live: the purge script refuses such a place.
                return None
        limit = form.get("limit")
        page = engine.fetch_page(ref, place, 0, min(limit if isinstance(limit, int) else CHUNK, CHUNK))
        self.begin_change(verb, ref, page.total)
        with self._lock:
            if page.error or self._open_files.get((verb, ref), _NO_FILE_YET) is None:
                return None
        return _purge_by_deleting_saved_jobs(engine, ref, place, page.jobs, page.total)


_NO_FILE_YET: Any = object()  # marks an operation that has no file yet


_PURGE_OPTIONS = {"force": True, "sparing": True}  # options that make `delete` behave like the purge of the same system


def _purge_by_deleting_saved_jobs(
    engine: Engine, ref: Ref, place: str, jobs: Sequence[Job], total: int
) -> Iterator[list[Outcome]]:
    """Delete jobs of a place in place of a purge, and yield the outcome that the purge script would give."""
    system = engine.systems[ref.system]
    returns = system.scripts["purge"].returns
    if not jobs:
        yield [Outcome("purge", b"", "empty", returns["empty"].text)]
        return
    form = system.select_arguments("delete", {**_PURGE_OPTIONS, "place": place})
    outcomes = [
        outcome for chunk in engine.apply_verb_to_long_jobs("purge", ref, jobs, form, "delete") for outcome in chunk
    ]
    lost_outcome = next((outcome for outcome in outcomes if outcome.is_lost), None)
    if lost_outcome:
        yield [Outcome("purge", b"", lost_outcome.word, lost_outcome.text)]
        return
    deleted_jobs = sum(outcome.moved for outcome in outcomes)
    if not deleted_jobs and "kept" in returns:
        yield [Outcome("purge", b"", "kept", returns["kept"].text, 0, {"kept": len(jobs)})]
        return
    yield [
        Outcome(
            "purge",
            b"",
            "moved",
            returns["moved"].text,
            deleted_jobs,
            {"moved": deleted_jobs, "left": total - len(jobs)},
        )
    ]


def read_jobs(
    engine: Engine, ref: Ref, lookup_rows: Sequence[Mapping[str, object]], is_whole: bool
) -> Iterator[list[SavedJob]]:
    """Yield the present state of jobs, a round trip per step. Missing jobs are left out.

    `lookup_rows` has for each job the arguments with which `records` finds it: its `id`, or its bytes in a system
    without ids.
    """
    system, remaining_rows = engine.systems[ref.system], list(lookup_rows)
    while remaining_rows:
        chunk = remaining_rows[: system.jobs_per_call]
        [reply] = raise_if_connection_lost(
            scripts.send_calls(engine.client, [_build_records_call(system, ref, chunk, is_whole)])
        )
        if isinstance(reply, Exception):
            raise reply
        yield list(_parse_saved_jobs([_read_row_id(row) for row in chunk], reply).values())
        postponed_rows = [row for row, result in zip(chunk, reply.each, strict=True) if result.word == "later"]
        remaining_rows = postponed_rows + remaining_rows[len(chunk) :]


def _read_row_id(row: Mapping[str, object]) -> bytes:
    id = row["id"]
    return id if isinstance(id, bytes) else to_bytes(str(id))


def _build_records_call(system: System, ref: Ref, rows: Sequence[Mapping[str, object]], is_whole: bool) -> Call:
    return system.build_call("records", ref.queue, {"whole": is_whole, "most": ANSWER_BYTES}, rows)


def _parse_saved_jobs(ids: Iterable[bytes], reply: Reply | Exception) -> dict[bytes, SavedJob]:
    """Parse the reply of the script `records` to jobs by id; empty for an error. Missing jobs are left out."""
    if isinstance(reply, Exception):
        return {}
    entries = zip(ids, reply.each, strict=True)
    return {id: SavedJob(id, **entry.values) for id, entry in entries if entry.word == "here"}


def _find_changed_row(outcome: Outcome, rows: Mapping[bytes, SavedJob]) -> SavedJob | None:
    """Return a deleted job as it was at its deletion, if another client had changed it after it was saved."""
    values: Mapping[str, Any] = outcome.values
    if "record" not in values:
        return None
    row = SavedJob(
        outcome.id, **{name: values[name] for name in ("place", "score", "record", "body", "line", "errors")}
    )
    saved_job = rows.get(outcome.id)
    return None if saved_job and saved_job.has_same_state(row) else row


def _read_jobs_for_enqueue(engine: Engine, ref: Ref, jobs: Sequence[Job]) -> dict[bytes, SavedJob]:
    """Read jobs with whole bodies, ids and due times, so that a plain `enqueue` can put them back.

    Used for systems that cannot restore a job with all its fields.
    """
    system = engine.systems[ref.system]
    columns = {column.name for column in system.scripts["enqueue"].each}
    jobs_found = engine.send_requests([system.job_request(ref.queue, job.id, -1) for job in jobs])
    rows = {}
    for job, complete_job in zip(jobs, jobs_found, strict=True):
        if complete_job is None or complete_job.body is None or complete_job.place != job.place:
            continue
        enqueue_values: dict[str, bytes | int] = {"body": complete_job.body}
        if "id" in columns:
            enqueue_values["id"] = complete_job.id
        if job.state is State.SCHEDULED and complete_job.due_ms is not None:
            enqueue_values["due_ms"] = complete_job.due_ms
        rows[job.id] = SavedJob(job.id, job.place, "0", put=enqueue_values)
    return rows
