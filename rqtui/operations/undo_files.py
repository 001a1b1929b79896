"""Store in a local file per operation what is needed to undo a change (undo file). Each line is a JSON object.

The first line says which verb changed which queue. For each chunk follow a line `rows` (the jobs before the change,
synced to the disk before anything is sent) and a line `left` (the jobs after the change). A file is never rewritten;
the oldest are deleted when there are too many. `operations/undo.py` decides what is stored: for deleted jobs the whole
bodies, in clear. Each line ends in a checksum of its text and the record's name: a record that was edited, or copied to
another name, is refused. The checksum detects mistakes, not forgery: anyone can compute it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rqtui import files
from rqtui.config.state_folder import create_private_folder
from rqtui.errors import RqtuiError, UsageError
from rqtui.operations.journal import append_line
from rqtui.text.names import to_bytes, to_text

MAX_RECORDS = 200
MAX_FOLDER_BYTES = 1 << 30
OPERATION_BYTES = 256 << 20
VERSION = 2  # of the file format
MAX_READ_BYTES = 4 << 30  # most bytes of a record: OPERATION_BYTES and a last chunk, each byte escaped as six
PROBE_BYTES = 64 << 10
_CHECKSUM = re.compile(rb',"sum":"([0-9a-f]{8})"}\s*$')
_HEAD_FIELDS = ("verb", "layout", "queue", "url", "who")


@dataclass(frozen=True, slots=True)
class SavedJob:
    """One job before a change: its place and score, and every byte that the change may remove or alter.

    `put` are the arguments of `enqueue` in a system without exact restore; the other fields are empty then.
    """

    id: bytes
    place: str = ""
    score: str = ""
    record: bytes = b""
    body: bytes = b""
    line: bytes = b""
    errors: bytes = b""
    put: Mapping[str, bytes | int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The approximate size of a saved job in bytes."""
        return sum(
            map(len, (self.id, self.record, self.body, self.line, self.errors, bytes(self.put.get("body", b""))))
        )

    def has_same_state(self, other: SavedJob) -> bool:
        """Return whether two versions of a job are equal in all that can change: place, score, attempts and errors."""
        own_fields, other_fields = (
            (self.place, float(self.score), self.line, self.errors),
            (other.place, float(other.score)),
        )
        return own_fields == (*other_fields, other.line, other.errors)


@dataclass(frozen=True, slots=True)
class AfterState:
    """The place and attempts line of a job after a verb changed it.

    An empty place means that another client had moved the job already.
    """

    place: str = ""
    line: bytes = b""


@dataclass
class UndoRecord:
    """An operation as read from its undo file.

    `states_after` has the changed jobs, `unanswered` the ids of jobs without a reply.
    """

    name: str
    verb: str
    system: str
    queue: str
    url: str
    who: str
    at_ms: int
    rows: dict[bytes, SavedJob] = field(default_factory=dict)
    # By id: jobs of one call have the same number, those of a later call have a higher one.
    chunk_numbers: dict[bytes, int] = field(default_factory=dict)
    states_after: dict[bytes, AfterState] = field(default_factory=dict)
    unanswered: set[bytes] = field(default_factory=set)
    unsaved_count: int = 0  # jobs that were changed and not saved, for lack of space
    is_changed: bool = False  # whether jobs or the queue itself were changed
    undone_at_ms: int = 0
    spec: str = ""  # the options of its system, in the form of `--system`
    to_queue: str = ""  # the queue to which the jobs were moved


class UndoFile:
    """The undo file of an operation that has not ended.

    Raises RqtuiError if the file cannot be written: then nothing may be changed.
    """

    def __init__(
        self,
        folder: Path,
        verb: str,
        system: str,
        queue: str,
        url: str,
        who: str,
        spec: str = "",
        to_queue: str = "",
    ) -> None:
        at_ms = int(time.time() * 1000)
        self.name = f"{at_ms}-{verb}-{secrets.token_hex(3)}"
        self.path = folder / f"{self.name}.jsonl"
        self.jobs = self.bytes = 0
        self.to_queue = to_queue
        self._is_changed = self._is_open = False
        head_fields = dict(zip(_HEAD_FIELDS, (verb, system, queue, url, who), strict=True))
        try:
            _create_own_undo_folder(folder)
            _delete_oldest_records(folder)
            target = {"to_queue": to_queue} if to_queue else {}
            head = {**head_fields, "at_ms": at_ms, "spec": spec, **target, "version": VERSION}
            append_line(self.path, _build_record_line(self.name, head), is_new=True)
        except OSError as error:
            raise _build_unwritable_error(self.path, error) from error

    @property
    def can_be_undone(self) -> bool:
        """Return whether an operation changed something, or may have: a chunk without a reply counts."""
        return self._is_changed or self._is_open

    def write_jobs(self, rows: list[SavedJob]) -> None:
        """Write jobs to the undo file before they are changed. The data is on the disk when this returns."""
        self._append_line_to_record({"rows": [_build_cells(row) for row in rows]}, is_synced=True)
        self._is_open = True
        self.jobs += len(rows)
        self.bytes += sum(row.size for row in rows)

    def write_states_after(
        self, states_after: Mapping[bytes, AfterState], corrected: list[SavedJob], unanswered: Iterable[bytes]
    ) -> None:
        """Write to the undo file the place and the attempts of each job after the change.

        `corrected` are jobs that another client changed between the read and the change; `unanswered` are the ids
        without a reply.
        """
        cells = [[_to_json_text(id), state.place, _to_json_text(state.line)] for id, state in states_after.items()]
        unanswered_ids = [_to_json_text(id) for id in unanswered]
        self._append_line_to_record(
            {"left": cells, "corrected": [_build_cells(row) for row in corrected], "untold": unanswered_ids},
            is_synced=False,
        )
        self._is_open, self._is_changed = False, self._is_changed or bool(cells or unanswered_ids)

    def write_unsaved(self, job_count: int) -> None:
        """Write to the undo file that so many more jobs are changed without being saved."""
        self._append_line_to_record({"missed": job_count}, is_synced=False)

    def _append_line_to_record(self, fields: Mapping[str, Any], is_synced: bool) -> None:
        try:
            append_line(self.path, _build_record_line(self.name, fields), is_synced=is_synced)
        except OSError as error:
            raise _build_unwritable_error(self.path, error) from error


def _create_own_undo_folder(folder: Path) -> None:
    """Create the undo folder with rights for its owner only.

    Raises OSError, also for a link: its creator could read the files.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "It is a link to another folder", str(folder))
    create_private_folder(folder)


def find_folder_problem(folder: Path, size: int = PROBE_BYTES) -> str:
    """Return why the undo folder cannot be written now; empty if it can.

    Writes and deletes a probe file of `size` bytes.
    """
    path = folder / f"probe-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        _create_own_undo_folder(folder)
        try:
            append_line(path, bytes(size), is_new=True)
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"its folder cannot be written ({error.strerror or error}): {folder}"
    return ""


def list_records(folder: Path) -> list[str]:
    """Return the names of the stored undo records, the newest first."""
    return sorted((path.stem for path in folder.glob("*.jsonl")), key=_parse_record_time_ms, reverse=True)


def read_record(folder: Path, name: str) -> UndoRecord:
    """Read one undo record. Raises UsageError if the record does not exist or cannot be read."""
    path = folder / f"{name}.jsonl"
    try:
        head_line, *lines = files.read_small_file(path, MAX_READ_BYTES).splitlines()
        head = json.loads(head_line)
        if head.get("version", VERSION) != VERSION:
            raise UsageError(f"the undo record {path} was written by another version of rqtui: that one can undo it.")
        head = _parse_record_line(name, head_line)
        verb, system, queue, url, who = (str(head[key]) for key in _HEAD_FIELDS)
        spec, to_queue = str(head.get("spec", "")), str(head.get("to_queue", ""))
        record = UndoRecord(name, verb, system, queue, url, who, int(head["at_ms"]), spec=spec, to_queue=to_queue)
        chunk: list[bytes] = []
        for raw in lines:
            try:
                line = _parse_record_line(name, raw)
            except ValueError:
                # The disk was full, or the machine crashed. A change without synced rows was not made; later notes of
                # an undo are still valid.
                continue
            chunk = _apply_record_line(record, line, chunk)
        record.unanswered.update(chunk)
        record.unanswered.intersection_update(record.rows)
        return record
    except FileNotFoundError:
        raise UsageError(f"there is no undo record {name} in {folder}; rqtui undo --list names them.") from None
    except _EditedRecord:
        raise UsageError(
            f"the undo record {path} was edited or renamed after rqtui wrote it, so it is not carried out: "
            "it may name another queue or other jobs than those that were changed."
        ) from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is broken, or another version wrote it"
        raise UsageError(f"the undo record {path} cannot be read: {reason}.") from error


def mark_undone(folder: Path, name: str) -> None:
    """Write to an undo record that its operation was undone."""
    _append_note_to_record(folder, name, {"undone_at_ms": int(time.time() * 1000)})


def mark_jobs_restored(folder: Path, name: str, ids: Iterable[bytes]) -> None:
    """Write to an undo record which jobs are restored, so that an interrupted undo can continue with the others."""
    _append_note_to_record(folder, name, {"back": [_to_json_text(id) for id in ids]})


def _append_note_to_record(folder: Path, name: str, fields: Mapping[str, Any]) -> None:
    """Append a note to an undo record, and ignore an error.

    Without the note an undo still works, and tries a job twice.
    """
    with suppress(OSError):
        append_line(folder / f"{name}.jsonl", _build_record_line(name, fields))


def _apply_record_line(record: UndoRecord, line: Mapping[str, Any], chunk: list[bytes]) -> list[bytes]:
    """Apply one line of an undo file to `record`. Return the ids of a chunk whose outcomes are still to come."""
    if "rows" in line:
        record.unanswered.update(chunk)
        rows = [_parse_saved_job(cells) for cells in line["rows"]]
        record.chunk_numbers.update(dict.fromkeys([row.id for row in rows], len(record.rows) + 1))
        record.rows.update((row.id, row) for row in rows)
        return [row.id for row in rows]
    if "left" in line:
        record.is_changed = record.is_changed or bool(line["left"])
        record.states_after.update(
            (_from_json_text(id), AfterState(str(place), _from_json_text(line_bytes)))
            for id, place, line_bytes in line["left"]
            if id
        )
        record.rows.update((row.id, row) for row in map(_parse_saved_job, line["corrected"]))
        record.unanswered.difference_update(record.states_after)
        record.unanswered.update(map(_from_json_text, line["untold"]))
        return []
    for id in map(_from_json_text, line.get("back", ())):
        record.states_after.pop(id, None)
        record.unanswered.discard(id)
    record.unsaved_count += int(line.get("missed", 0))
    record.undone_at_ms = int(line.get("undone_at_ms", record.undone_at_ms))
    return chunk


def _delete_oldest_records(folder: Path) -> None:
    """Delete the oldest undo records so that one more fits into the folder."""
    total = 0
    for number, name in enumerate(list_records(folder), 2):
        path = folder / f"{name}.jsonl"
        with suppress(OSError):  # Another program may delete records at the same time.
            total += path.stat().st_size
            if number > MAX_RECORDS or total > MAX_FOLDER_BYTES:
                path.unlink()


def _parse_record_time_ms(name: str) -> int:
    """Parse the time in ms at the start of a record's name; 0 if there is none."""
    head = name.partition("-")[0]
    return int(head) if head.isascii() and head.isdigit() else 0


def _build_record_line(name: str, fields: Mapping[str, Any]) -> bytes:
    """Build a line of the undo record `name`, with a checksum as the last field."""
    text = json.dumps(fields, separators=(",", ":")).encode()[:-1]
    return text + b',"sum":"%08x"}\n' % _compute_checksum(name, text)


def _compute_checksum(name: str, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(os.fsencode(name)))


def _parse_record_line(name: str, raw: bytes) -> Any:
    """Parse a line of the undo record `name`.

    Raises ValueError for a truncated line, and _EditedRecord for an edited one.
    """
    line = json.loads(raw)
    match = _CHECKSUM.search(raw)
    if not match or int(match[1], 16) != _compute_checksum(name, raw[: match.start()]):
        raise _EditedRecord
    return line


class _EditedRecord(Exception):
    """Raised for a line whose checksum does not fit its text and the name of its record."""


def _build_cells(row: SavedJob) -> list[Any]:
    """Build the JSON list that stores a saved job."""
    values = (row.id, row.place, row.score, row.record, row.body, row.line, row.errors)
    put = {key: _to_json_text(value) if isinstance(value, bytes) else value for key, value in row.put.items()}
    return [*(_to_json_text(value) if isinstance(value, bytes) else value for value in values), put]


def _parse_saved_job(cells: list[Any]) -> SavedJob:
    """Parse a saved job from its JSON list. Raises ValueError or TypeError for invalid cells."""
    id, place, score, record, body, line, errors, put_cells = cells
    _ = float(score or 0)  # Raises ValueError for a score that is no number, before any comparison.
    enqueue_values = {
        str(key): _from_json_text(value) if isinstance(value, str) else int(value) for key, value in put_cells.items()
    }
    return SavedJob(
        _from_json_text(id),
        str(place),
        str(score),
        _from_json_text(record),
        _from_json_text(body),
        _from_json_text(line),
        _from_json_text(errors),
        enqueue_values,
    )


def _to_json_text(value: bytes) -> str:
    """Convert bytes to text for JSON. Bytes that are not UTF-8 become surrogates, which convert back."""
    return to_text(value)


def _from_json_text(value: str) -> bytes:
    return to_bytes(value)


def _build_unwritable_error(path: Path, error: OSError) -> RqtuiError:
    return RqtuiError(
        f"the undo record {path} cannot be written ({error.strerror or error}), so nothing more was changed. "
        "Make room or name another folder by RQTUI_STATE_DIR; the same again goes without undo."
    )
