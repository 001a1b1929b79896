"""Undo operations that an `undo.UndoRecorder` saved, for jobs that are still as the operation left them.

Each step has an outcome per job. Deleted jobs come back by `restore`, moved ones by `revert`, a pause by `resume`. Jobs
that were moved to another queue are moved back, and `revert` then returns them to their positions. In systems without
these scripts, deleted jobs are enqueued again by their own `enqueue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rqtui.errors import ReadOnly, Refused, RqtuiError, Unknown, UsageError
from rqtui.model import Job, Outcome, Ref
from rqtui.operations import undo_files
from rqtui.operations.undo import ANSWER_BYTES, QUEUE_INVERSES, can_restore_exactly, find_inverse_script, read_jobs
from rqtui.operations.undo_files import AfterState, SavedJob, UndoRecord
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply
from rqtui.system_base.system import CHUNK, System, quote_for_shell
from rqtui.verbs import TO_QUEUE

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine


def revert_operation(engine: Engine, folder: Path, record_names: Sequence[str], url: str) -> Iterator[list[Outcome]]:
    """Undo the records of one operation, the last one first. A record that cannot be undone gives an outcome.

    `url` is the Redis of `engine`, masked.
    """
    for name in reversed(record_names):
        try:
            if len(record_names) > 1 and undo_files.read_record(folder, name).undone_at_ms:
                continue  # An interrupted undo has already reverted this record.
            yield from revert_record(engine, folder, name, url)
        except UsageError as error:
            yield [Outcome("undo", b"", "no record", str(error))]


def revert_record(engine: Engine, folder: Path, record_name: str, url: str = "") -> Iterator[list[Outcome]]:
    """Undo one record, a round trip per step. Yield an outcome for each job that was or may have been changed.

    Raises UsageError if there is nothing to undo or the operation was on another Redis, and ReadOnly or Refused if undo
    is not allowed.
    """
    record = undo_files.read_record(folder, record_name)
    if engine.read_only:
        raise ReadOnly("undo changes the queue, and this session is read-only.")
    if url and record.url != url:
        raise UsageError(f"this was done on {record.url}, and this is {url}.")
    class_name = record.system.partition("@")[0]  # one of several applications: bullmq@shop
    systems = [system for system in engine.systems.values() if type(system).name == class_name]
    if not systems:
        raise UsageError(f"this was done to a queue of {class_name}: say --system {record.spec or class_name}.")
    matching_systems = [system for system in systems if system.format_spec(record.queue) == record.spec]
    if not matching_systems:  # Its queue has other keys.
        hint = f"say --system {quote_for_shell(record.spec)}" if record.spec else f"say {class_name} without options"
        raise UsageError(f"this was done to a queue of {class_name} under other options: {hint}.")
    ref = Ref(matching_systems[0].name, record.queue)
    if record.undone_at_ms:
        raise UsageError("this was undone already.")
    if denial := engine.explain_denial("undo", ref):
        raise Refused(denial)
    is_complete, is_queue_registered = True, False
    for outcomes in _revert_saved_jobs(engine, ref, record):
        is_complete = is_complete and not any(outcome.is_lost for outcome in outcomes)
        restored_ids = [outcome.id for outcome in outcomes if outcome.moved and outcome.id]
        if restored_ids:
            undo_files.mark_jobs_restored(folder, record_name, restored_ids)
        if restored_ids and not is_queue_registered:
            is_queue_registered = True
            with suppress(
                RqtuiError
            ):  # With maxmemory reached, moved jobs come back, but the name cannot be registered.
                engine.register_queue(ref)  # The queue may have been purged with its name.
        yield outcomes
        if engine.read_only:
            raise ReadOnly("locked: the rest was not undone.")
    if is_complete:
        undo_files.mark_undone(folder, record_name)


def _revert_saved_jobs(engine: Engine, ref: Ref, record: UndoRecord) -> Iterator[list[Outcome]]:
    """Undo the changes of one record, without any check of the record. Yield the outcomes."""
    system = engine.systems[ref.system]
    if record.verb in QUEUE_INVERSES:
        if record.is_changed:
            requests = system.verb_requests(QUEUE_INVERSES[record.verb], ref.queue, (), {})
            yield [
                outcome
                for request in requests
                for outcome in request.parse(scripts.send_calls(engine.client, request.calls))
            ]
        return
    yield from _resolve_unanswered_jobs(engine, ref, record)
    changed = [(record.rows[id], state_after) for id, state_after in record.states_after.items() if id in record.rows]
    script = find_inverse_script(system, record.verb)
    needs_state = script in ("revert", record.verb)
    changed_rows = [row for row, state_after in changed if needs_state and not state_after.place]
    if changed_rows:
        yield [Outcome("undo", row.id, "changed", "it changed since then") for row in changed_rows]
    revertible = [(row, state_after) for row, state_after in changed if not needs_state or state_after.place]
    chunks = [*_split_into_undo_chunks(system, script, record, revertible)]
    for outcomes in _restore_jobs(engine, ref, script, chunks, record.to_queue):
        yield outcomes
        if outcomes[-1].is_lost:
            return
    if record.unsaved_count:
        yield [
            Outcome("undo", b"", "missed", f"{record.unsaved_count} more were changed; they did not fit into the undo")
        ]


def _restore_jobs(
    engine: Engine, ref: Ref, script: str, chunks: list[list[tuple[SavedJob, AfterState]]], to_queue: str
) -> Iterator[list[Outcome]]:
    """Run the script that puts jobs back into their places, a chunk per step. Yield an outcome per job.

    A chunk that was refused because of one job is halved, so that the other jobs are restored. `to_queue` is the queue
    that has the jobs if they were moved to another one, else empty.
    """
    chunks = chunks[::-1]
    while chunks:
        chunk = chunks.pop()
        reply = _send_undo_chunk(engine, ref, script, chunk, to_queue)
        if isinstance(reply, Refused) and len(chunk) > 1:
            half = len(chunk) // 2
            chunks += [chunk[half:], chunk[:half]]
        else:
            outcomes = _parse_undo_outcomes([row.id for row, _state_after in chunk], reply)
            if to_queue:
                _return_to_positions(engine, ref, [row for row, _state_after in chunk], outcomes)
            yield outcomes


def _return_to_positions(engine: Engine, ref: Ref, rows: Sequence[SavedJob], outcomes: Sequence[Outcome]) -> None:
    """Return jobs that were moved back from another queue to the positions that they had before.

    A job that a worker took meanwhile is left alone. If this fails, the jobs are in their queue, behind the others.
    """
    system = engine.systems[ref.system]
    revert_script = system.scripts["revert"]
    saved = {
        row.id: row
        for row, outcome in zip(rows, outcomes, strict=True)
        if outcome.moved and row.place in revert_script.sources and row.place in revert_script.targets
    }
    with suppress(RqtuiError):
        lookup_rows = [{"id": row.id, "member": row.line} for row in saved.values()]
        current = {row.id: row for step in read_jobs(engine, ref, lookup_rows, False) for row in step}
        displaced = [
            (row, AfterState(current[id].place, current[id].line))
            for id, row in saved.items()
            if id in current and current[id].place == row.place and not current[id].has_same_state(row)
        ]
        if displaced:
            _send_undo_chunk(engine, ref, "revert", displaced, "")


def _send_undo_chunk(
    engine: Engine, ref: Ref, script: str, chunk: Sequence[tuple[SavedJob, AfterState]], to_queue: str
) -> Reply | Exception:
    """Send the call that puts these jobs back into their places, and return its reply.

    An invalid row refuses the whole chunk. Jobs that were moved to the queue `to_queue` are moved back from there.
    """
    columns = [_build_undo_row(script, row, state_after) for row, state_after in chunk]
    queue, args = (to_queue, {TO_QUEUE: ref.queue}) if to_queue else (ref.queue, {})
    try:
        call = engine.systems[ref.system].build_call(script, queue, args, columns)
    except UsageError as error:
        return Refused(str(error))
    [reply] = scripts.send_calls(engine.client, [call])
    return reply


_RESULT_TEXTS = {
    "moved": "restored",
    "exists": "the id is taken",
    "changed": "it changed since then",
    "gone": "it was deleted since then",
}


def _parse_undo_outcomes(ids: Sequence[bytes], reply: Reply | Exception) -> list[Outcome]:
    """Convert the reply to a chunk to one outcome per job."""
    if isinstance(reply, Exception) and not isinstance(reply, RqtuiError):
        raise reply
    if isinstance(reply, Exception):
        word = "unknown" if isinstance(reply, Unknown) else "refused" if isinstance(reply, Refused) else "error"
        return [Outcome("undo", id, word, str(reply)) for id in ids]
    return [
        Outcome(
            "undo",
            id,
            result.word,
            _RESULT_TEXTS.get(result.word, result.text),
            int(result.word == "moved"),
            dict(result.values),
        )
        for id, result in zip(ids, reply.each, strict=True)
    ]


def _build_undo_row(script: str, row: SavedJob, state_after: AfterState) -> Mapping[str, object]:
    """Build the arguments with which a script puts one job back into its place."""
    if script == "enqueue":
        return row.put
    saved_fields = {"id": row.id, "place": row.place, "score": row.score, "line": row.line, "errors": row.errors}
    if script == "restore":
        return {**saved_fields, "record": row.record, "body": row.body}
    if script == "revert":
        return {**saved_fields, "left": state_after.place, "known": state_after.line}
    unchanged_guard = {"place": state_after.place, "line": state_after.line or b"-"}
    return {"id": row.id, **unchanged_guard, "member": state_after.line, "new": row.line}


def _resolve_unanswered_jobs(engine: Engine, ref: Ref, record: UndoRecord) -> Iterator[list[Outcome]]:
    """Yield an outcome for each job whose reply was lost: nothing to undo if it is unchanged, else unknown.

    A deleted job of a place that workers do not take from can only have been deleted by this operation: it is restored.
    A job that is in the queue to which it was to be moved is moved back.
    """
    if not record.unanswered:
        return
    system = engine.systems[ref.system]
    is_exact = can_restore_exactly(system)
    ids = list(record.unanswered)
    lookup_rows = [{"id": id, "member": record.rows[id].body or record.rows[id].line} for id in ids]
    current_jobs = (
        {row.id: row for rows in read_jobs(engine, ref, lookup_rows, False) for row in rows} if is_exact else {}
    )
    moved_jobs: dict[bytes, SavedJob] = {}
    if record.to_queue:
        missing_ids = [id for id in ids if id not in current_jobs]
        missing_rows = [
            {"id": id, "member": _build_moved_member(system, record, record.rows[id])} for id in missing_ids
        ]
        steps = read_jobs(engine, Ref(ref.system, record.to_queue), missing_rows, False)
        moved_jobs = {row.id: row for rows in steps for row in rows}
    outcomes = []
    for id in ids:
        row = record.rows[id]
        if id in current_jobs and current_jobs[id].has_same_state(row):
            outcomes.append(Outcome("undo", id, "same", "nothing changed"))
        elif id in moved_jobs and moved_jobs[id].place == row.place:
            record.states_after[id] = AfterState(row.place, moved_jobs[id].line)
        elif (
            find_inverse_script(system, record.verb) == "restore"
            and id not in current_jobs
            and row.place in ("scheduled", "done", "dead")
        ):
            record.states_after[id] = AfterState()
        else:
            outcomes.append(Outcome("undo", id, "untold", "the reply was lost, so the outcome is unknown"))
    yield outcomes


def _build_moved_member(system: System, record: UndoRecord, row: SavedJob) -> bytes:
    """Return the bytes of a job in the queue to which the verb of a record moved it."""
    if all(column.name != "new" for column in system.scripts[record.verb].each):
        return row.line
    state = system.place(row.place).state
    job = Job(row.id, record.queue, system.name, row.place, state, member=row.line)
    return system.rewrite_member(record.verb, job, {TO_QUEUE: record.to_queue})


def _split_into_undo_chunks(
    system: System, script: str, record: UndoRecord, jobs: Sequence[tuple[SavedJob, AfterState]]
) -> Iterator[list[tuple[SavedJob, AfterState]]]:
    """Split jobs into chunks that one call can take, by their number and bytes.

    The position of a job in a list does not count the jobs that earlier calls of the change had taken out of the list.
    So the calls that changed jobs of a list are undone one by one, the last one first.
    """
    list_places = {place.name for place in system.places if place.type == "list"} if script != "enqueue" else set()

    def find_call_number(job: tuple[SavedJob, AfterState]) -> int:
        return record.chunk_numbers.get(job[0].id, 0) if job[0].place in list_places else 0

    chunk: list[tuple[SavedJob, AfterState]] = []
    size = 0
    for row, state_after in sorted(jobs, key=find_call_number, reverse=True):
        is_other_call = chunk and find_call_number(chunk[-1]) != find_call_number((row, state_after))
        if chunk and (is_other_call or len(chunk) == CHUNK or size + row.size > ANSWER_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((row, state_after))
        size += row.size
    if chunk:
        yield chunk
