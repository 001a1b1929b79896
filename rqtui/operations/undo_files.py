"""Undo files: the local files from which a change can be undone, one per operation, each line a JSON object.

The first line says what was done where; then, for each chunk, a line of `rows` (how the jobs were, synced to the disk
before anything is sent) and a line of `left` (how the verb left those that it changed). A file is never rewritten; the
oldest go when there are too many. `operations/undo.py` decides what stands in them: of deleted jobs whole bodies, in
clear.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rqtui.config.state_folder import own_folder
from rqtui.errors import RqtuiError, UsageError
from rqtui.operations.journal import add
from rqtui.text.names import to_bytes, to_text

FILES = 200
FOLDER_BYTES = 1 << 30
OPERATION_BYTES = 256 << 20
VERSION = 1  # of what stands in a file
PROBE_BYTES = 64 << 10
_TELLS = ("verb", "layout", "queue", "url", "who")


@dataclass(frozen=True, slots=True)
class Row:
    """One job as it was: its place and score, and every byte that the change may take or alter.

    `put` is what another system's `enqueue` is called with; the rest then stays empty.
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
        """Its bytes, about."""
        return sum(
            map(len, (self.id, self.record, self.body, self.line, self.errors, bytes(self.put.get("body", b""))))
        )

    def is_as(self, other: Row) -> bool:
        """Whether nothing that can change differs: a record and a body never do."""
        mine, its = (self.place, float(self.score), self.line, self.errors), (other.place, float(other.score))
        return mine == (*its, other.line, other.errors)


@dataclass(frozen=True, slots=True)
class Left:
    """How a verb left a job; an empty place: somebody else had it already when we looked."""

    place: str = ""
    line: bytes = b""


@dataclass
class Kept:
    """An operation as its file tells it. `left` has the jobs that were changed, `untold` those without an answer."""

    name: str
    verb: str
    layout: str
    queue: str
    url: str
    who: str
    at_ms: int
    rows: dict[bytes, Row] = field(default_factory=dict)
    left: dict[bytes, Left] = field(default_factory=dict)
    untold: set[bytes] = field(default_factory=set)
    missed: int = 0  # jobs that were changed and did not fit into the file
    is_changed: bool = False  # something was done, be it to the queue alone
    undone_at_ms: int = 0
    spec: str = ""  # the options of its system, as `--layout` says them


class File:
    """An operation that is going on. Raises RqtuiError where it cannot be written: then nothing is to be changed."""

    def __init__(self, folder: Path, verb: str, layout: str, queue: str, url: str, who: str, spec: str = "") -> None:
        at_ms = int(time.time() * 1000)
        self.name = f"{at_ms}-{verb}-{secrets.token_hex(3)}"
        self.path = folder / f"{self.name}.jsonl"
        self.jobs = self.bytes = 0
        self._is_changed = self._is_open = False
        told = dict(zip(_TELLS, (verb, layout, queue, url, who), strict=True))
        try:
            _own(folder)
            _prune(folder)
            add(self.path, _line({**told, "at_ms": at_ms, "spec": spec, "version": VERSION}), is_new=True)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    @property
    def can_be_undone(self) -> bool:
        """Whether something was changed, or may have been: of a chunk that is open nobody has heard."""
        return self._is_changed or self._is_open

    def rows(self, rows: list[Row]) -> None:
        """How these jobs are, before they are changed; on the disk when this returns."""
        self._add({"rows": [_cells(row) for row in rows]}, is_synced=True)
        self._is_open = True
        self.jobs += len(rows)
        self.bytes += sum(row.size for row in rows)

    def left(self, left: Mapping[bytes, Left], corrected: list[Row], untold: Iterable[bytes]) -> None:
        """How they were left. `corrected` had changed between the look and the change; of `untold` no answer came."""
        cells = [[_text(id), each.place, _text(each.line)] for id, each in left.items()]
        lost = [_text(id) for id in untold]
        self._add({"left": cells, "corrected": [_cells(row) for row in corrected], "untold": lost}, is_synced=False)
        self._is_open, self._is_changed = False, self._is_changed or bool(cells or lost)

    def missed(self, number: int) -> None:
        """Records that `number` more jobs are changed without a record of their own."""
        self._add({"missed": number}, is_synced=False)

    def _add(self, what: Mapping[str, Any], is_synced: bool) -> None:
        try:
            add(self.path, _line(what), is_synced=is_synced)
        except OSError as error:
            raise _unwritable(self.path, error) from error


def _own(folder: Path) -> None:
    """The folder is there and its owner's alone. Raises OSError, also for a link: whoever put it there reads along."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "It is a link to another folder", str(folder))
    own_folder(folder)


def problem_of(folder: Path, size: int = PROBE_BYTES) -> str:
    """Why nothing can be written there now, in words; empty where it can: so many bytes are written and taken away."""
    path = folder / f"probe-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        _own(folder)
        try:
            add(path, bytes(size), is_new=True)
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"its folder cannot be written ({error.strerror or error}): {folder}"
    return ""


def names(folder: Path) -> list[str]:
    """The operations that are kept, the newest first."""
    return sorted((path.stem for path in folder.glob("*.jsonl")), key=_at_ms, reverse=True)


def read(folder: Path, name: str) -> Kept:
    """One of them; raises UsageError where there is no such record or it cannot be read."""
    path = folder / f"{name}.jsonl"
    try:
        lines = path.read_bytes().splitlines()
        head = json.loads(lines[0])
        verb, layout, queue, url, who = (str(head[key]) for key in _TELLS)
        if head.get("version", VERSION) != VERSION:
            raise UsageError(f"the undo record {path} was written by another version of rqtui: that one can undo it.")
        spec = str(head.get("spec", ""))
        kept = Kept(name, verb, layout, queue, url, who, int(head["at_ms"]), spec=spec)
        chunk: list[bytes] = []
        for raw in lines[1:]:
            try:
                line = json.loads(raw)
            except ValueError:  # the disk was full, or the machine went down; what was not synced was not done
                break
            chunk = _take(kept, line, chunk)
        kept.untold.update(chunk)
        kept.untold.intersection_update(kept.rows)
        return kept
    except FileNotFoundError:
        raise UsageError(f"there is no undo record {name} in {folder}; rqtui undo --list names them.") from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is broken, or another version wrote it"
        raise UsageError(f"the undo record {path} cannot be read: {why}.") from error


def mark_undone(folder: Path, name: str) -> None:
    """Writes down that the operation was undone."""
    _mark(folder, name, {"undone_at_ms": int(time.time() * 1000)})


def mark_back(folder: Path, name: str, ids: Iterable[bytes]) -> None:
    """Writes down which jobs are back: an undo that ends before its time goes on with the others."""
    _mark(folder, name, {"back": [_text(id) for id in ids]})


def _mark(folder: Path, name: str, what: Mapping[str, Any]) -> None:
    """Only a note: where the disk is full, an undo does its work all the same, and asks about a job twice."""
    with suppress(OSError):
        add(folder / f"{name}.jsonl", _line(what))


def _take(kept: Kept, line: Mapping[str, Any], chunk: list[bytes]) -> list[bytes]:
    """Reads one line into `kept`; the ids of a chunk whose answer is still to come."""
    if "rows" in line:
        kept.untold.update(chunk)
        rows = [_row(cells) for cells in line["rows"]]
        kept.rows.update((row.id, row) for row in rows)
        return [row.id for row in rows]
    if "left" in line:
        kept.is_changed = kept.is_changed or bool(line["left"])
        kept.left.update((_bytes(id), Left(str(place), _bytes(known))) for id, place, known in line["left"] if id)
        kept.rows.update((row.id, row) for row in map(_row, line["corrected"]))
        kept.untold.difference_update(kept.left)
        kept.untold.update(map(_bytes, line["untold"]))
        return []
    for id in map(_bytes, line.get("back", ())):
        kept.left.pop(id, None)
        kept.untold.discard(id)
    kept.missed += int(line.get("missed", 0))
    kept.undone_at_ms = int(line.get("undone_at_ms", kept.undone_at_ms))
    return chunk


def _prune(folder: Path) -> None:
    """Makes room for one more: the oldest go."""
    total = 0
    for number, name in enumerate(names(folder), 2):
        path = folder / f"{name}.jsonl"
        with suppress(OSError):  # another program makes room at the same time
            total += path.stat().st_size
            if number > FILES or total > FOLDER_BYTES:
                path.unlink()


def _at_ms(name: str) -> int:
    head = name.partition("-")[0]
    return int(head) if head.isascii() and head.isdigit() else 0


def _line(what: Mapping[str, Any]) -> bytes:
    return json.dumps(what, separators=(",", ":")).encode() + b"\n"


def _cells(row: Row) -> list[Any]:
    values = (row.id, row.place, row.score, row.record, row.body, row.line, row.errors)
    put = {key: _text(value) if isinstance(value, bytes) else value for key, value in row.put.items()}
    return [*(_text(value) if isinstance(value, bytes) else value for value in values), put]


def _row(cells: list[Any]) -> Row:
    id, place, score, record, body, line, errors, put = cells
    _ = float(score or 0)  # so that a place's score is one wherever it is compared
    given = {str(key): _bytes(value) if isinstance(value, str) else int(value) for key, value in put.items()}
    return Row(_bytes(id), str(place), str(score), _bytes(record), _bytes(body), _bytes(line), _bytes(errors), given)


def _text(value: bytes) -> str:
    """Bytes as JSON can hold them; what is no UTF-8 becomes surrogates, from which the same bytes come back."""
    return to_text(value)


def _bytes(value: str) -> bytes:
    return to_bytes(value)


def _unwritable(path: Path, error: OSError) -> RqtuiError:
    return RqtuiError(
        f"the undo record {path} cannot be written ({error.strerror or error}), so nothing more was changed. "
        "Make room or name another folder by RQTUI_STATE_DIR; the same again goes without undo."
    )
