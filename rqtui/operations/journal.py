"""The journal: records every change made by rqtui, with author, reason and outcomes, and the findings of that time.

A `Journal` records each change of a screen or a command (`record_change`) and the findings as they appear and disappear
(`record_finding`). It keeps the newest in memory and appends each to a file of JSON lines (mode 0600, bounded) in the
state folder, so that `rqtui operations` shows past ones too. `reports/postmortem.py` builds pages from it. The journal
does not use Redis. Secrets in texts are masked before an entry is stored; ids and names of queues are stored as they
are.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rqtui import files
from rqtui.config.state_folder import PRIVATE_FILE_MODE, create_private_folder
from rqtui.connection.connect import hide_url_passwords
from rqtui.durations import MAX_INSTANT_MS
from rqtui.model import Ref
from rqtui.text.masking import mask_printed_text, mask_text, reveal_secrets
from rqtui.text.names import to_bytes, to_text
from rqtui.verbs import TO_QUEUE

FILE_NAME = "operations.jsonl"
MAX_OPERATIONS = 500  # operations in memory, and on a screen
MAX_IDS = 1000  # stored ids of one operation; `count` is the number of all
SILENT_MS = 600_000  # silence after which a change on another machine counts as interrupted
FILE_BYTES = 4 << 20  # A longer file is renamed to `.1`, replacing the last `.1`.
MAX_READ_BYTES = 64 << 20  # most bytes read of each file; a journal is never that long
LOCK_TIMEOUT_S = 0.5  # wait for the lock of another program, which holds it for a single write
_FINDING_PREFIX = b'{"finding":'  # start of the line of a finding


Counts = Mapping[str, Mapping[str, int]]
"""The number of jobs by queue and place."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of a change that are known before it begins: reason, chosen jobs, speed, and the job counts.

    `began_ms` is when the change begins; `chosen` names the jobs (`/err:timeout`, `all of dead`), `rate` the speed
    (`5/s`). `stopped` is set later: what stopped the change after how many jobs.
    """

    began_ms: int = 0
    why: str = ""
    chosen: str = ""
    rate: str = ""
    stopped: str = ""
    before: Counts = field(default_factory=dict)

    def add_form(self, form: Mapping[str, object]) -> Circumstances:
        """Return the circumstances with the queue to which the form of a verb moves the jobs, if it moves them."""
        target = form.get(TO_QUEUE)
        return self if target is None else replace(self, chosen=f"{self.chosen} to {target}".lstrip())


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of jobs or queues as it was requested, and its result. The journal stores the fields by their names.

    `queue` is the first changed queue, `others` the rest of several, and `other_systems` the system of each of those;
    empty: all are of `system`. `ids` are the first of `count` changed jobs; `answers` is the number of outcomes by
    text. `undo` are the names of the records in the undo folder, one per queue, empty if there is none; `undone_at_ms`
    is when it was undone, 0: not. `at_ms` is its end. The remaining fields are its `Circumstances`, and the counts
    `after` it, if they were taken.
    """

    at_ms: int
    who: str
    verb: str
    queue: str
    system: str
    ids: tuple[bytes, ...] = ()
    count: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    undo: tuple[str, ...] = ()
    undone_at_ms: int = 0
    url: str = ""
    profile: str = ""
    others: tuple[str, ...] = ()
    began_ms: int = 0
    why: str = ""
    chosen: str = ""
    rate: str = ""
    stopped: str = ""
    before: Counts = field(default_factory=dict)
    after: Counts = field(default_factory=dict)
    other_systems: tuple[str, ...] = ()

    @property
    def refs(self) -> tuple[Ref, ...]:
        """All changed queues with their systems; empty for a change of the session itself."""
        systems = (*self.other_systems, *(self.system,) * len(self.others))
        others = [Ref(system, queue) for system, queue in zip(systems, self.others, strict=False)]
        return (Ref(self.system, self.queue), *others) if self.queue else ()

    @property
    def is_of_several_systems(self) -> bool:
        """Return whether an operation changed queues of more than one system."""
        return len(self.systems) > 1

    @property
    def queue_label(self) -> str:
        """The name of the changed queue.

        For several `mail and 2 more`, for several systems `rq:mail and 2 more of rq, bullmq`.
        """
        if self.is_of_several_systems:
            return f"{self.system}:{self.queue} and {len(self.others)} more of {', '.join(self.systems)}"
        return f"{self.queue} and {len(self.others)} more" if self.others else self.queue

    @property
    def systems(self) -> list[str]:
        """The systems of the changed queues, in the order of the queues."""
        return list(dict.fromkeys((self.system, *self.other_systems)))

    @property
    def full_queue_label(self) -> str:
        """The name of the changed queue with its system: `rq:mail`, `rq:mail and 2 more`; empty without a queue."""
        if self.is_of_several_systems:
            return self.queue_label
        return f"{self.system}:{self.queue_label}" if self.queue else ""

    def describe_interruption(self) -> str:
        """Describe a change whose program ended before the change: `was cut short: requeue (mail), 4000 of 5000`."""
        progress = self.error.removeprefix("cut short: ") if self.error.startswith("cut short: ") else self.error
        return f"was cut short: {self.verb} ({self.queue_label}), {progress}"

    def describe_outcomes(self) -> str:
        """Describe the outcomes of a change: `37 × ready again · 3 × it is not dead`, or why nothing was done."""
        outcomes = [f"{count} × {text}" if count > 1 else text for text, count in self.answers.items()]
        return " · ".join(filter(None, [*outcomes, self.error]))


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding of a queue at the time when it appeared or, with `is_over`, disappeared."""

    at_ms: int
    queue: str
    system: str
    kind: str
    severity: str
    text: str
    is_over: bool = False


class Journal:
    """The operations and findings of one session, in memory and in the journal file.

    With `folder` None nothing is written to a file: the Redis of a demo is temporary. `close_undo_record` returns, for
    the verb, system and queue of a finished change, the name of its undo record. Thread-safe. If the file cannot be
    written, `problem` says so once, and the change itself continues.
    """

    def __init__(
        self,
        folder: Path | None,
        url: str = "",
        profile: str = "",
        close_undo_record: Callable[[str, str, str], str] = lambda _verb, _system, _queue: "",
    ) -> None:
        self.url, self.profile, self.who = hide_url_passwords(url), profile, find_current_user()
        self.problem = ""
        self.why = ""  # reason of this session's changes, as the user entered it
        self._path = folder / FILE_NAME if folder else None
        self._close_undo_record = close_undo_record
        self._lock = threading.Lock()
        self._operations: deque[Operation] = deque(maxlen=MAX_OPERATIONS)
        self._sightings: deque[Sighting] = deque(maxlen=MAX_OPERATIONS)
        self._ended_ids: list[str] = []  # ids of changes that the next operation reports
        self._expected_circumstances: dict[tuple[str, str, str], Circumstances] = {}  # by verb, system and queue

    @property
    def operations(self) -> list[Operation]:
        """The operations of this session, the newest first."""
        with self._lock:
            return list(self._operations)[::-1]

    @property
    def sightings(self) -> list[Sighting]:
        """The findings that appeared and disappeared in this session, the oldest first."""
        with self._lock:
            return list(self._sightings)

    def expect_change(self, verb: str, queue: str, system: str, circumstances: Circumstances) -> None:
        """Set the circumstances of the next change with this verb on this queue, which `record_change` stores."""
        masked = replace(
            circumstances,
            why=_mask_secrets(circumstances.why),
            chosen=_mask_secrets(circumstances.chosen),
            stopped=_mask_secrets(circumstances.stopped),
        )
        with self._lock:
            self._expected_circumstances[verb, system, queue] = masked

    def record_stop(self, verb: str, queue: str, system: str, reason: str) -> None:
        """Record why the expected change was stopped before its end, and after how many jobs."""
        with self._lock:
            if circumstances := self._expected_circumstances.get((verb, system, queue)):
                self._expected_circumstances[verb, system, queue] = replace(
                    circumstances, stopped=_mask_secrets(reason)
                )

    def set_reason(self, reason: str) -> None:
        """Set the reason of this session's changes, past and future. A change with a reason of its own keeps that."""
        reason = _mask_secrets(reason)
        with self._lock:
            self.why, keys = (
                reason,
                [_build_operation_key(operation) for operation in self._operations if not operation.why],
            )
            for index, operation in enumerate(self._operations):
                self._operations[index] = replace(operation, why=operation.why or reason)
            self._append_entry({"why": reason, "of": [list(key) for key in keys]})

    def record_finding(self, sighting: Sighting) -> None:
        """Record that a finding appeared or disappeared."""
        sighting = replace(sighting, text=mask_printed_text(sighting.text))
        with self._lock:
            self._sightings.append(sighting)
            self._append_entry({"finding": build_stored_fields(sighting), "url": self.url}, is_change=False)

    def begin_change(self, verb: str, queue: str, system: str, total: int) -> str:
        """Record that `total` jobs are about to be changed, and return the id of this change.

        The id is valid until the change ends. If the program is killed before that, `recover_interrupted` finds the
        change.
        """
        id = os.urandom(8).hex()  # `secrets` would load OpenSSL before the first snapshot.
        author_fields = {
            "who": self.who,
            "process": _identify_process(os.getpid()),
            "url": self.url,
            "profile": self.profile,
        }
        change_fields = {"verb": verb, "queue": queue, "layout": system, "total": total}
        with self._lock:
            circumstances = self._expected_circumstances.get((verb, system, queue), Circumstances())
            circumstance_fields = {
                "why": circumstances.why or self.why,
                "chosen": circumstances.chosen,
                "rate": circumstances.rate,
                "before": _convert_counts_to_dicts(circumstances.before),
            }
            self._append_entry(
                {"begun": id, "at_ms": int(time.time() * 1000), **change_fields, **author_fields, **circumstance_fields}
            )
        return id

    def record_progress(self, id: str, done: int, answers: Mapping[str, int], undo: str) -> None:
        """Record how many jobs of a change have an outcome so far, and the number of outcomes by text."""
        line = {"went": id, "at_ms": int(time.time() * 1000), "done": done, "answers": _mask_outcomes(answers)}
        line["undo"] = undo
        with self._lock:
            self._append_entry(line)

    def end_change(self, id: str) -> None:
        """Note that a change ended. The next operation records this; without an operation `flush_ended` does."""
        with self._lock:
            self._ended_ids.append(id)

    def flush_ended(self) -> None:
        """Record in the journal file the end of changes that changed no job, and therefore have no operation."""
        with self._lock:
            if self._ended_ids:
                self._append_entry({"ended": self._ended_ids})
            self._ended_ids = []

    def recover_interrupted(self) -> list[Operation]:
        """Record interrupted changes of other programs on the same Redis as operations, and return them."""
        if self._path is None:
            return []
        interrupted = [
            (id, operation)
            for id, operation in _load_interrupted_changes(self._path.parent)
            if operation.url == self.url
        ]
        with self._lock:
            for id, operation in interrupted:
                self._append_entry({**to_document(operation), "ends": [id]})
        return [operation for _id, operation in interrupted]

    def record_change(
        self,
        verb: str,
        queue: str,
        system: str,
        ids: Sequence[bytes] = (),
        answers: Mapping[str, int] | None = None,
        error: str = "",
        undo: Sequence[str] = (),
        count: int = 0,
        others: Sequence[str] = (),
        other_systems: Sequence[str] = (),
    ) -> Operation:
        """Record a finished change, and return its operation.

        `answers` is the number of outcomes by text, `count` the number of jobs if `ids` are not complete.
        `other_systems` are the systems of `others`; empty: all are of `system`.
        """
        undo_records = tuple(undo) or (self._close_undo_record(verb, system, queue),)
        with self._lock:
            refs = list(zip((system, *(other_systems or [system] * len(others))), (queue, *others), strict=True))
            circumstances = [self._expected_circumstances.pop((verb, *ref), Circumstances()) for ref in refs]
            if len({system for system, _queue in refs}) > 1:  # Two systems may have queues of the same name.
                circumstances = [
                    replace(queue_circumstances, before=_prefix_counts_with_system(system, queue_circumstances.before))
                    for (system, _), queue_circumstances in zip(refs, circumstances, strict=True)
                ]
        operation = Operation(
            int(time.time() * 1000),
            self.who,
            verb,
            queue,
            system,
            tuple(ids[:MAX_IDS]),
            max(count, len(ids)),
            _mask_outcomes(answers or {}),
            _mask_secrets(error),
            tuple(filter(None, undo_records)),
            0,
            self.url,
            self.profile,
            tuple(others),
            other_systems=tuple(other_systems),
            **_merge_circumstances(circumstances, self.why),
        )
        with self._lock:
            self._operations.append(operation)
            self._append_entry({**to_document(operation), **({"ends": self._ended_ids} if self._ended_ids else {})})
            self._ended_ids = []
        return operation

    def record_reveal(self, what: str, queue: str = "", system: str = "", ids: Sequence[bytes] = ()) -> Operation:
        """Record that a person displayed masked values unmasked, with the command or the view `what`."""
        return self.record_change("reveal", queue, system, ids, {f"shown in clear: {what}": 1})

    def record_counts_after(self, operation: Operation, after: Counts) -> None:
        """Record the job counts after an operation."""
        with self._lock:
            for index, stored in enumerate(self._operations):
                if _build_operation_key(stored) == _build_operation_key(operation):
                    self._operations[index] = replace(stored, after=after)
            self._append_entry(
                {"counted": list(_build_operation_key(operation)), "after": _convert_counts_to_dicts(after)}
            )

    def mark_undone(self, *names: str) -> None:
        """Record that the operation with these undo records was undone now."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            for index, operation in enumerate(self._operations):
                if operation.undo and set(operation.undo) <= set(names):
                    self._operations[index] = replace(operation, undone_at_ms=now_ms)
            for name in names:
                self._append_entry({"undone": name, "at_ms": now_ms})

    def mark_not_undoable(self, names: Sequence[str]) -> None:
        """Mark the operation with these undo records as not undoable, because the records cannot be read."""
        with self._lock:
            for index, operation in enumerate(self._operations):
                if operation.undo and set(operation.undo) <= set(names):
                    self._operations[index] = replace(operation, undo=())

    def load_earlier_operations(self) -> list[Operation]:
        """Load the operations of other sessions on the same Redis, the newest first."""
        if self._path is None:
            return []
        own_keys = {_build_operation_key(operation) for operation in self.operations}
        problems: list[str] = []
        operations = load_operations(self._path.parent, problems=problems)
        self.problem = self.problem or " ".join(problems)
        return [
            operation
            for operation in operations
            if operation.url == self.url and _build_operation_key(operation) not in own_keys
        ]

    def load_sightings(self) -> list[Sighting]:
        """Load the findings that all sessions on the same Redis recorded, the oldest first; a demo has only its own."""
        return self.sightings if self._path is None else load_sightings(self._path.parent, self.url)

    def _append_entry(self, line: Mapping[str, Any], *, is_change: bool = True) -> None:
        if self._path is None:
            return
        try:
            create_private_folder(self._path.parent)
            _append_and_rotate(self._path, json.dumps(line).encode() + b"\n")
        except OSError as error:
            if is_change:
                self.problem = f"The journal {self._path} cannot be written: {error.strerror or error}."


def append_line(path: Path, line: bytes, *, is_new: bool = False, is_synced: bool = False) -> None:
    """Append a line to a file of mode 0600. Raises OSError if not all of the line fits.

    With `is_new` the file must not exist. The line is one write, so that the lines of two programs do not mix; an
    almost full disk may take a part without an error. After a line that a crash or a full disk truncated, the new one
    begins with a line break: otherwise both would be unreadable. A link, a pipe or a file of another user in its place
    is refused.
    """
    descriptor = _open_own_file(path, is_new=is_new)
    try:
        _append_line(descriptor, line)
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_own_file(path: Path, *, is_new: bool = False) -> int:
    """Open a file of this user alone for appending, without ever blocking. Raises OSError for any other file."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | os.O_EXCL * is_new, PRIVATE_FILE_MODE)
    try:
        _remove_rights_of_others(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _append_line(descriptor: int, line: bytes) -> None:
    """Append a complete line to an open file. Raises OSError if not all of the line fits."""
    size = os.fstat(descriptor).st_size
    is_last_line_incomplete = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    remaining = memoryview(b"\n" + line if is_last_line_incomplete else line)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _append_and_rotate(path: Path, line: bytes) -> None:
    """Append a line to the journal file, after renaming a file of more than `FILE_BYTES` to `.1`.

    A lock on the file keeps two programs from renaming it one after the other: the second would overwrite the new `.1`,
    with up to `FILE_BYTES` of operations. Without the lock (a stopped program holds it, or the file system has none)
    the line is appended and the file grows until a later change renames it.
    """
    while True:
        descriptor = _open_own_file(path)
        try:
            is_locked = _lock_file(descriptor)
            if not _is_path_of_file(path, descriptor):
                continue  # another program renamed the file between the open and the lock
            if is_locked and os.fstat(descriptor).st_size > FILE_BYTES:
                path.replace(path.with_name(FILE_NAME + ".1"))
                continue
            _append_line(descriptor, line)
            return
        finally:
            os.close(descriptor)


def _lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed. Return whether the lock was free within `LOCK_TIMEOUT_S`."""
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(0.001)
        except OSError:  # a file system without locks
            return False


def _is_path_of_file(path: Path, descriptor: int) -> bool:
    """Return whether a path still names the open file, which another program may have renamed."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_rights_of_others(descriptor: int, path: Path) -> None:
    """Remove the rights of other users to an open file. Raises OSError if the file is not of this user alone."""
    status = os.fstat(descriptor)
    reason = ""
    if not stat.S_ISREG(status.st_mode):
        reason = "It is not a regular file"
    elif status.st_uid != os.geteuid():
        reason = f"It belongs to user {status.st_uid}, not to user {os.geteuid()} alone"
    elif status.st_nlink != 1:
        reason = "It has a second name (a hard link)"
    if reason:
        raise PermissionError(errno.EPERM, reason, str(path))
    if stat.S_IMODE(status.st_mode) & ~PRIVATE_FILE_MODE:
        os.fchmod(descriptor, PRIVATE_FILE_MODE)


def find_current_user() -> str:
    """Return `user@host` of this process, the author of its changes."""
    import getpass  # Imported late, with the first change.

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user id without a name.
        user = str(os.getuid()) if hasattr(os, "getuid") else "?"
    return f"{user}@{socket.gethostname()}"


def _identify_process(pid: int) -> str:
    """Return the id and, if it can be read, the start time of a running process; empty if no such process runs."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # The process runs as another user.
    except (OSError, OverflowError):
        return ""
    with suppress(OSError, IndexError):
        return f"{pid}:{Path(f'/proc/{pid}/stat').read_text('utf-8').rpartition(')')[2].split()[19]}"
    return str(pid)


@dataclass
class _BegunChange:
    """A change whose beginning is in the journal, and its progress. `begin_line` is the line of its beginning."""

    begin_line: Mapping[str, Any]
    last_ms: int
    done: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    undo: str = ""

    @property
    def is_alive(self) -> bool:
        """Return whether the program that began a change may still run.

        For a program on another machine: whether it recorded progress within `SILENT_MS`.
        """
        who_, process = str(self.begin_line["who"]), str(self.begin_line["process"])
        if who_.rpartition("@")[2] != socket.gethostname():
            return time.time() * 1000 - self.last_ms < SILENT_MS
        return bool(process) and _identify_process(int(process.partition(":")[0])) == process

    def to_operation(self) -> Operation:
        """Convert an interrupted change to an operation, with its progress so far."""
        total = _parse_count_or_ms(self.begin_line["total"])
        error = (
            f"cut short: {self.done} of {total}"
            if self.done < total
            else "its program ended before it recorded the outcome"
        )
        fields: dict[str, Any] = {name: str(self.begin_line[name]) for name in ("who", "verb", "queue", "url")}
        fields["system"] = str(self.begin_line["layout"])
        fields |= {name: str(self.begin_line.get(name, "")) for name in ("why", "chosen", "rate")}
        fields |= {
            "before": _parse_counts_by_queue(self.begin_line.get("before", {})),
            "began_ms": _parse_count_or_ms(self.begin_line["at_ms"]),
        }
        fields |= {"profile": str(self.begin_line["profile"]), "undo": (self.undo,) if self.undo else ()}
        return Operation(
            max(self.last_ms, _parse_count_or_ms(self.begin_line["at_ms"])),
            count=self.done,
            answers=self.answers,
            error=error,
            **fields,
        )


def _load_interrupted_changes(folder: Path) -> list[tuple[str, Operation]]:
    """Load the changes, with their ids, that have a beginning but no end and whose program no longer runs."""
    return [(entry[0], entry[1]) for entry in _load_journal_entries(folder) if entry[0]]


def load_operations(
    folder: Path, max_operations: int = MAX_OPERATIONS, problems: list[str] | None = None
) -> list[Operation]:
    """Load the newest operations of all sessions, the newest first. Lines that cannot be read are skipped.

    For each file that cannot be read, a sentence is added to `problems`.
    """
    return [operation for _id, operation in _load_journal_entries(folder, problems)[-max_operations:]][::-1]


def load_sightings(folder: Path, url: str) -> list[Sighting]:
    """Load the findings that sessions on the Redis at `url` (masked) recorded, the oldest first."""
    records = []
    for line in _read_journal_lines(folder, []):
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            entry = json.loads(line)
            if entry.get("url") == url and "finding" in entry:
                stored = entry["finding"]
                texts = {name: str(stored[name]) for name in ("queue", "kind", "severity", "text")}
                texts["system"] = str(stored["layout"])
                records.append(Sighting(_parse_count_or_ms(stored["at_ms"]), **texts, is_over=bool(stored["is_over"])))
    return records[-MAX_OPERATIONS:]


def _read_journal_lines(folder: Path, problems: list[str]) -> Iterator[bytes]:
    """Yield the lines of both journal files, the older file first. An unreadable file adds to `problems`."""
    for name in (FILE_NAME + ".1", FILE_NAME):
        try:
            yield from files.read_small_file(folder / name, MAX_READ_BYTES).splitlines(keepends=True)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"The journal {folder / name} cannot be read: {error.strerror or error}.")


def _load_journal_entries(folder: Path, problems: list[str] | None = None) -> list[tuple[str, Operation]]:
    """Load all operations in their order. An interrupted operation comes with its id, the others with an empty id."""
    entries: list[tuple[str, Operation | None]] = []  # None for the beginning of a change
    begun_changes: dict[str, _BegunChange] = {}
    ended_ids: set[str] = set()
    undone_at_ms: dict[str, int] = {}
    counts_after: dict[tuple[int, str, str], Counts] = {}
    reasons: dict[tuple[int, str, str], str] = {}
    for line in _read_journal_lines(folder, [] if problems is None else problems):
        if line.startswith(_FINDING_PREFIX):
            continue  # Findings are most of a journal: a thousand queues without workers are as many lines.
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            entry = json.loads(line)
            if "undone" in entry:
                undone_at_ms[str(entry["undone"])] = _parse_count_or_ms(entry["at_ms"])
            elif "counted" in entry:
                at_ms, verb, queue = entry["counted"]
                counts_after[_parse_count_or_ms(at_ms), str(verb), str(queue)] = _parse_counts_by_queue(entry["after"])
            elif "of" in entry:
                reasons |= {
                    (_parse_count_or_ms(at_ms), str(verb), str(queue)): str(entry["why"])
                    for at_ms, verb, queue in entry["of"]
                }
            elif "begun" in entry:
                begun_changes[str(entry["begun"])] = _BegunChange(entry, _parse_count_or_ms(entry["at_ms"]))
                entries.append((str(entry["begun"]), None))
            elif "went" in entry:
                change = begun_changes[str(entry["went"])]
                change.last_ms, change.done, change.undo = (
                    _parse_count_or_ms(entry["at_ms"]),
                    _parse_count_or_ms(entry["done"]),
                    str(entry["undo"]),
                )
                change.answers = _parse_number_map(entry["answers"])
            elif "ended" in entry:
                ended_ids |= set(map(str, entry["ended"]))
            else:
                ends_of_entry = set(map(str, entry.pop("ends", ())))
                if (
                    not ends_of_entry or not ends_of_entry <= ended_ids
                ):  # Two programs may have recovered the same interrupted change.
                    entries.append(("", parse_operation(entry)))
                ended_ids |= ends_of_entry
    operations: list[tuple[str, Operation]] = []
    for id, parsed in entries:
        with suppress(ValueError, TypeError, KeyError, OverflowError):
            is_interrupted = parsed is None and id not in ended_ids and not begun_changes[id].is_alive
            operation = begun_changes[id].to_operation() if is_interrupted else parsed
            if operation is not None:
                undone_ms = _find_undone_ms(operation, undone_at_ms) if operation.undo else operation.undone_at_ms
                key = _build_operation_key(operation)
                counts, why_text = counts_after.get(key, operation.after), reasons.get(key, operation.why)
                operations.append((id, replace(operation, undone_at_ms=undone_ms, after=counts, why=why_text)))
    return operations


def _build_operation_key(operation: Operation) -> tuple[int, str, str]:
    """Return the fields that identify an operation: when it ended, its verb and its queue."""
    return operation.at_ms, operation.verb, operation.queue


def _find_undone_ms(operation: Operation, undone_at_ms: Mapping[str, int]) -> int:
    """Return when the last undo record of an operation was undone, in ms; 0 if not all records were."""
    return max(undone_at_ms[name] for name in operation.undo) if undone_at_ms.keys() >= set(operation.undo) else 0


def build_stored_fields(record: Operation | Sighting) -> dict[str, Any]:
    """Return the fields of a record by their stored names.

    The field `system` is stored as `layout`, its former name.
    """
    return {"layout" if name == "system" else name: value for name, value in asdict(record).items()}


def to_document(operation: Operation) -> dict[str, Any]:
    """Convert an operation to JSON values. Bytes that are not UTF-8 become surrogates, which convert back."""
    fields = build_stored_fields(operation)
    fields["ids"] = [to_text(id) for id in operation.ids]
    return fields


def parse_operation(fields: dict[str, Any]) -> Operation:
    """Parse an operation from the fields of its journal line. Raises KeyError, TypeError or ValueError."""
    ids = tuple(to_bytes(str(id)) for id in fields.pop("ids"))
    undo, others, systems = fields.pop("undo", ()), fields.pop("others", ()), fields.pop("other_systems", ())
    parsed_fields: dict[str, Any] = {
        name: parse(fields[name]) for name, parse in _FIELD_PARSERS.items() if name in fields
    }
    parsed_fields["system"] = parsed_fields.pop("layout")
    record_names = (undo,) if isinstance(undo, str) else undo
    parsed_fields |= {"others": tuple(map(str, others)), "other_systems": tuple(map(str, systems))}
    return Operation(**parsed_fields, ids=ids, undo=tuple(filter(None, map(str, record_names))))


def _parse_count_or_ms(value: Any) -> int:
    """Parse a count or a time in ms. Raises ValueError for other values, which could not be shown as a date."""
    number = int(value)
    if not 0 <= number <= MAX_INSTANT_MS:
        raise ValueError(f"{value} is no instant")
    return number


def _mask_secrets(text: str) -> str:
    """Mask the secrets in a text, even while a command with `--reveal` shows them."""
    with reveal_secrets(is_revealed=False):
        return mask_text(text)


def _mask_outcomes(answers: Mapping[str, int]) -> dict[str, int]:
    """Mask the secrets in the texts of outcomes. Texts that become equal are counted together."""
    masked_counts: dict[str, int] = {}
    for text, count in answers.items():
        masked = _mask_secrets(text)
        masked_counts[masked] = masked_counts.get(masked, 0) + count
    return masked_counts


def _parse_number_map(value: Mapping[Any, Any]) -> dict[str, int]:
    return {str(name): _parse_count_or_ms(count) for name, count in value.items()}


def _parse_counts_by_queue(value: Mapping[Any, Mapping[Any, Any]]) -> dict[str, dict[str, int]]:
    return {str(queue): _parse_number_map(places) for queue, places in value.items()}


def _prefix_counts_with_system(system: str, counts: Counts) -> Counts:
    """Return the counts by `system:queue`, for a change of several systems."""
    return {f"{system}:{queue}": places for queue, places in counts.items()}


def _convert_counts_to_dicts(counts: Counts) -> dict[str, dict[str, int]]:
    """Convert counts to plain dicts, which JSON can store."""
    return {queue: dict(places) for queue, places in counts.items()}


def _merge_circumstances(circumstances: Sequence[Circumstances], default_reason: str) -> dict[str, Any]:
    """Merge the circumstances of a change of several queues to the fields of one operation."""
    shared = {name: getattr(circumstances[0], name) for name in ("began_ms", "chosen", "rate", "stopped")}
    return {
        **shared,
        "why": circumstances[0].why or default_reason,
        "before": {
            queue: places
            for queue_circumstances in circumstances
            for queue, places in queue_circumstances.before.items()
        },
    }


_FIELD_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("who", "verb", "queue", "layout", "error", "url", "profile"), str),
    **dict.fromkeys(("why", "chosen", "rate", "stopped"), str),
    **dict.fromkeys(("at_ms", "count", "undone_at_ms", "began_ms"), _parse_count_or_ms),
    "answers": _parse_number_map,
    **dict.fromkeys(("before", "after"), _parse_counts_by_queue),
}


def format_clock(at_ms: int) -> str:
    """Format a time as `2026-11-21 03:12:09 +01:00`: local time with its zone."""
    moment = datetime.fromtimestamp(at_ms / 1000).astimezone()
    zone = moment.strftime("%z")
    return f"{moment:%Y-%m-%d %H:%M:%S} {zone[:3]}:{zone[3:5]}"


def describe_undo(operation: Operation) -> str:
    """Describe whether an operation can be undone, in one or two words."""
    if operation.undone_at_ms:
        return "undone " + format_clock(operation.undone_at_ms)[11:16]
    return "can be undone" if operation.undo else "no undo"
