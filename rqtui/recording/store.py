"""Store records in one SQLite file, and read, merge and trim them. The format: `docs/recording.md`.

`Writer` appends (`recorder.py` calls it from one thread), `Reader` reads; both refuse files of other programs and other
users. Several processes may write the same file: of two records of the same queue and minute the one that watched
longer stays, so nothing is counted twice. Nothing here uses Redis. Errors of SQLite and of the disk become
RecordingError, a sentence with the path.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import time
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from rqtui.config.state_folder import PRIVATE_FILE_MODE, create_private_folder
from rqtui.durations import MAX_INSTANT_MS
from rqtui.errors import RecordingBusy, RecordingError, UsageError
from rqtui.model import Ref, State
from rqtui.recording.records import (
    HOUR_MS,
    MINUTE_MS,
    SEVERITIES,
    ErrorCount,
    Period,
    RecordedChange,
    RecordedFinding,
    RecordedPage,
    RecordedPlace,
    RecordedQueue,
    ServerPeriod,
    merge_periods,
    merge_server_periods,
)
from rqtui.text.names import to_bytes, to_text

APPLICATION_ID = 0x72717469  # "rqti", in the header of the file
VERSION = 1  # of the format; a reader refuses a higher one
BUSY_S = 2.0  # the longest wait for the lock of another writer
DAY_MS = 24 * HOUR_MS
MINUTES_KEPT_MS = 2 * DAY_MS  # older minutes are merged to hours, and older pages of jobs are deleted
PAGE_VALID_MS = HOUR_MS  # a reader uses a page of jobs for at most this long
PAGE_REPEAT_MS = 10 * MINUTE_MS  # an unchanged page is written again after this time
MAX_PAGE_BYTES = 1 << 20  # longest JSON of a page of jobs that a reader accepts
PAGES_STEP_MS = 10 * MINUTE_MS  # the time of which pages of jobs are deleted at once, if the file is too large
STALE_FINDING_MS = 120_000  # a finding that no writer saw for so long has ended
PAGES_PER_STEP = 5_000  # free pages that are returned to the disk at once
ROWS_PER_CHUNK = 5_000  # rows that an export reads at once
QUEUES_PER_STEP = 200  # queues whose hour is merged in one transaction
LOWER_SIZE_FACTOR = 0.9  # trimming for size ends at this part of the limit, so that it is not due again at once
MAX_VALUE_BYTES = 1 << 24  # longest text or row that a reader accepts of a file

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE queue (
  id INTEGER PRIMARY KEY, system TEXT NOT NULL, name TEXT NOT NULL, places TEXT NOT NULL, counted TEXT NOT NULL,
  UNIQUE (system, name, places)
);
CREATE TABLE period (
  at_ms INTEGER NOT NULL, queue_id INTEGER NOT NULL, span_ms INTEGER NOT NULL,
  begin_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, watched_ms INTEGER NOT NULL, polls INTEGER NOT NULL,
  enqueued INTEGER NOT NULL, completed INTEGER NOT NULL, failed INTEGER NOT NULL, died INTEGER NOT NULL,
  counts TEXT NOT NULL, estimated INTEGER NOT NULL, ready_max INTEGER NOT NULL,
  oldest_ready_ms INTEGER, oldest_ready_max_ms INTEGER, workers INTEGER, workers_min INTEGER,
  overdue INTEGER NOT NULL, expired INTEGER NOT NULL, is_paused INTEGER NOT NULL, severity TEXT NOT NULL,
  PRIMARY KEY (at_ms, queue_id)
) WITHOUT ROWID;
CREATE TABLE server_period (
  at_ms INTEGER PRIMARY KEY, span_ms INTEGER NOT NULL, polls INTEGER NOT NULL, watched_ms INTEGER NOT NULL,
  took_max_ms REAL NOT NULL, rtt_ms REAL, used_bytes INTEGER, maxmemory_bytes INTEGER, role TEXT NOT NULL
);
CREATE TABLE finding (
  id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, kind TEXT NOT NULL, severity TEXT NOT NULL, text TEXT NOT NULL,
  detail TEXT NOT NULL, jobs INTEGER NOT NULL, begin_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL, end_ms INTEGER
);
CREATE UNIQUE INDEX open_finding ON finding (queue_id, kind) WHERE end_ms IS NULL;
CREATE INDEX finding_by_time ON finding (seen_ms);
CREATE TABLE cause (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE error (
  at_ms INTEGER NOT NULL, queue_id INTEGER NOT NULL, cause_id INTEGER NOT NULL, jobs INTEGER NOT NULL,
  PRIMARY KEY (at_ms, queue_id, cause_id)
) WITHOUT ROWID;
CREATE TABLE change (key TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, fields TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX change_by_time ON change (at_ms);
"""
# Files that were created before pages of jobs could be recorded get this table when they are opened for writing.
_JOB_PAGE_SCHEMA = """
CREATE TABLE IF NOT EXISTS job_page (
  at_ms INTEGER NOT NULL, queue_id INTEGER NOT NULL, place TEXT NOT NULL, taken_ms INTEGER NOT NULL, total INTEGER,
  is_exact INTEGER NOT NULL, digest TEXT NOT NULL, jobs BLOB NOT NULL,
  PRIMARY KEY (queue_id, place, at_ms)
);
CREATE INDEX IF NOT EXISTS job_page_by_time ON job_page (at_ms);
"""
_TABLES = frozenset({"meta", "queue", "period", "server_period", "finding", "cause", "error", "change"})
_PERIOD_COLUMNS = (*Period._fields[1:2], "queue_id", *Period._fields[2:])
_UPSERT_PERIOD = (
    f"INSERT INTO period ({', '.join(_PERIOD_COLUMNS)}) VALUES ({', '.join('?' * len(_PERIOD_COLUMNS))})"  # noqa: S608
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _PERIOD_COLUMNS[2:])}"
    " WHERE excluded.watched_ms >= period.watched_ms"
)
_UPSERT_SERVER = (
    f"INSERT INTO server_period ({', '.join(ServerPeriod._fields)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(ServerPeriod._fields))})"
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in ServerPeriod._fields[1:])}"
    " WHERE excluded.watched_ms >= server_period.watched_ms"
)


class Batch(NamedTuple):
    """The records of one refresh, to be appended in one transaction."""

    queues: Mapping[Ref, RecordedQueue] = {}
    periods: Sequence[Period] = ()
    server: Sequence[ServerPeriod] = ()
    findings: Sequence[RecordedFinding] = ()  # present ones
    ended: Sequence[RecordedFinding] = ()  # findings that were not seen after their `seen_ms`
    errors: Sequence[ErrorCount] = ()
    changes: Sequence[RecordedChange] = ()
    pages: Sequence[RecordedPage] = ()


class Limits(NamedTuple):
    """The bounds of a recording."""

    max_bytes: int = 200_000_000
    days: int = 30


class Coverage(NamedTuple):
    """The time that a recording covers: its first and last record in ms; None if it is empty."""

    begin_ms: int | None = None
    end_ms: int | None = None


class _Store:
    """An open recording. Subclasses write or read it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._connection.close()

    @property
    def version(self) -> int:
        """The version of the file's format."""
        ((version,),) = self._query("PRAGMA user_version")
        return int(version)

    def read_meta(self) -> dict[str, str]:
        """Return the facts about the recording: `url` (masked), `created_ms`, and the program that created it."""
        return {_to_text(name): _to_text(value) for name, value in self._query("SELECT name, value FROM meta")}

    def list_queues(self) -> list[RecordedQueue]:
        """Return all recorded queues, in the order in which they were first recorded."""
        return [*self._load_queues().values()]

    def find_queue(self, ref: Ref) -> RecordedQueue | None:
        """Return a recorded queue with the places that it had last, or None if it was never recorded."""
        return next(reversed(self._load_queues(ref).values()), None)

    def read_coverage(self, ref: Ref | None = None) -> Coverage:
        """Return the time that the recording covers: of one queue, or of all."""
        condition = "" if ref is None else f"WHERE queue_id IN ({self._format_ids(ref)})"
        edges = [
            row
            for order in ("ASC", "DESC")
            for row in self._query(f"SELECT begin_ms, end_ms FROM period {condition} ORDER BY at_ms {order} LIMIT 1")  # noqa: S608
        ]
        return Coverage(edges[0][0], edges[-1][1]) if edges else Coverage()

    def read_periods(self, ref: Ref, begin_ms: int, end_ms: int) -> list[Period]:
        """Return the minutes and hours of a queue that begin in a time span, the oldest first."""
        queues = self._load_queues(ref)
        return self._read_periods(f"AND queue_id IN ({', '.join(map(str, queues))})", begin_ms, end_ms, queues)

    def read_steps(self, refs: Collection[Ref], begin_ms: int, end_ms: int, step_ms: int) -> list[Period]:
        """Return what was recorded of some queues in steps of a time span, merged by SQLite, the oldest first.

        A step without a record is left out. An hour is a step of its own if `step_ms` is shorter. Counts and ages are
        the last ones of a step. The severity is that of the last record.
        """
        queues = self._load_queues()
        ids = ", ".join(str(id) for id, queue in queues.items() if queue.ref in refs)
        first_ms = begin_ms - begin_ms % step_ms
        source = f"FROM period WHERE at_ms >= :begin AND at_ms < :end AND queue_id IN ({ids}) GROUP BY 1, queue_id"
        values = {"begin": first_ms, "end": end_ms, "step": step_ms}
        sums = self._query(
            "SELECT at_ms / :step * :step, queue_id, max(:step, max(span_ms)), min(begin_ms), max(end_ms),"
            " sum(watched_ms), sum(polls), sum(enqueued), sum(completed), sum(failed), sum(died),"
            f" max(ready_max), max(oldest_ready_max_ms), min(workers_min) {source} ORDER BY 1, queue_id",
            values,
        )
        # In a query with one max(), SQLite takes the other columns from the row that has it.
        last = self._query(
            "SELECT at_ms / :step * :step, queue_id, max(at_ms), counts, estimated, oldest_ready_ms, workers, overdue,"
            f" expired, is_paused, severity {source} ORDER BY 1, queue_id",
            values,
        )
        with self._translate_errors():
            return [
                _parse_period(
                    queues[total[1]],
                    (*total[:11], *end[3:5], total[11], end[5], total[12], end[6], total[13], *end[7:]),
                )
                for total, end in zip(sums, last, strict=False)
                if total[1] in queues
            ]

    def read_all_periods(self, begin_ms: int, end_ms: int) -> list[Period]:
        """Return the minutes and hours of all queues that begin in a time span, the oldest first."""
        return self._read_periods("", begin_ms, end_ms)

    def read_periods_at(self, at_ms: int) -> list[Period]:
        """Return the minute or hour of each queue that contains a point in time."""
        begins = f"AND at_ms IN ({at_ms - at_ms % MINUTE_MS}, {at_ms - at_ms % HOUR_MS})"
        periods = self._read_periods(begins, at_ms - HOUR_MS, at_ms + 1)
        return [period for period in periods if period.at_ms + period.span_ms > at_ms]

    def list_refs_of_span(self, begin_ms: int, end_ms: int) -> list[Ref]:
        """Return the queues with a recorded minute or hour that begins in a time span, first seen first."""
        rows = self._query(
            "SELECT DISTINCT queue_id FROM period WHERE at_ms >= ? AND at_ms < ? ORDER BY queue_id", (begin_ms, end_ms)
        )
        queues = self._load_queues()
        return [*dict.fromkeys(queues[id].ref for (id,) in rows if id in queues)]

    def find_recorded_ms(self, at_ms: int) -> int | None:
        """Return a point in time itself if it was recorded, else the begin of the next record; None: there is none."""
        rows = self._query(
            "SELECT at_ms FROM period WHERE at_ms IN (?, ?) AND at_ms + span_ms > ? LIMIT 1",
            (at_ms - at_ms % MINUTE_MS, at_ms - at_ms % HOUR_MS, at_ms),
        )
        if rows:
            return at_ms
        ((begin_ms,),) = self._query("SELECT min(at_ms) FROM period WHERE at_ms > ?", (at_ms,))
        return begin_ms if begin_ms is None else int(begin_ms)

    def find_refresh_ms(self, at_ms: int, step: int) -> int | None:
        """Return the last refresh of the recorded minute or hour that follows the one at `at_ms`, or precedes it.

        `step` is 1 or -1, or 0 for the one that contains `at_ms` or precedes it. None: there is none.
        """
        begin = "SELECT min(at_ms) FROM period WHERE at_ms > :at"
        if step <= 0:
            begin = "SELECT max(at_ms) FROM period WHERE at_ms <= :at"
        if step < 0:
            begin = f"SELECT max(at_ms) FROM period WHERE at_ms < ({begin})"  # noqa: S608
        rows = self._query(
            f"SELECT min(max(end_ms), at_ms + span_ms - 1, :last) FROM period WHERE at_ms = ({begin}) GROUP BY at_ms",  # noqa: S608
            {"at": at_ms, "last": MAX_INSTANT_MS},
        )
        return next((int(end_ms) for (end_ms,) in rows), None)

    def find_span_end_ms(self, at_ms: int) -> int:
        """Return the end of the recorded minute or hour that contains `at_ms` or precedes it. There must be one."""
        ((end_ms,),) = self._query(
            "SELECT at_ms + span_ms FROM period WHERE at_ms <= ? ORDER BY at_ms DESC LIMIT 1", (at_ms,)
        )
        return int(end_ms)

    def read_spans(self, limit: int) -> list[tuple[int, int]]:
        """Return (begin, end) in ms of the newest `limit` recorded minutes and hours, joined where no gap is between.

        The oldest comes first.
        """
        rows = self._query("SELECT at_ms, at_ms + span_ms FROM server_period ORDER BY at_ms DESC LIMIT ?", (limit,))
        spans: list[tuple[int, int]] = []
        for begin_ms, end_ms in reversed(rows):
            if spans and begin_ms <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end_ms, spans[-1][1]))
            else:
                spans.append((begin_ms, end_ms))
        return spans

    def list_finding_times(self, limit: int) -> list[int]:
        """Return when each of the newest `limit` findings began, in ms, the oldest first."""
        rows = self._query("SELECT begin_ms FROM finding ORDER BY id DESC LIMIT ?", (limit,))
        with self._translate_errors():
            return sorted(int(at_ms) for (at_ms,) in rows)

    def list_change_times(self, limit: int) -> list[int]:
        """Return when each of the newest `limit` changes of the journal ended, in ms, the oldest first."""
        rows = self._query("SELECT at_ms FROM change ORDER BY at_ms DESC LIMIT ?", (limit,))
        with self._translate_errors():
            return sorted(int(at_ms) for (at_ms,) in rows)

    def read_last_changes(self, at_ms: int, limit: int) -> list[RecordedChange]:
        """Return the last `limit` changes of the journal that ended until a point in time, the newest first."""
        rows = self._query(
            "SELECT at_ms, key, fields FROM change WHERE at_ms <= ? ORDER BY at_ms DESC, key LIMIT ?", (at_ms, limit)
        )
        with self._translate_errors():
            return [RecordedChange(at_ms, _to_text(key), json.loads(fields)) for at_ms, key, fields in rows]

    def read_server_periods(self, begin_ms: int, end_ms: int) -> list[ServerPeriod]:
        """Return the records of the server that begin in a time span, the oldest first."""
        rows = self._query(
            f"SELECT {', '.join(ServerPeriod._fields)} FROM server_period"  # noqa: S608
            " WHERE at_ms >= ? AND at_ms < ? ORDER BY at_ms",
            (begin_ms, end_ms),
        )
        with self._translate_errors():
            return [ServerPeriod(*row)._replace(role=_to_text(row[-1])) for row in rows]

    def read_findings(self, begin_ms: int, end_ms: int, ref: Ref | None = None) -> list[RecordedFinding]:
        """Return the findings that were present at some time of a span, in the order of their start.

        With `ref` only those of one queue are returned, else all, also those of the server.
        """
        refs = {id: queue.ref for id, queue in self._load_queues(ref).items()}
        condition = "" if ref is None else f"AND queue_id IN ({', '.join(map(str, refs))})"
        rows = self._query(
            "SELECT queue_id, kind, severity, text, detail, jobs, begin_ms, seen_ms, end_ms FROM finding"  # noqa: S608
            f" WHERE seen_ms >= ? AND begin_ms < ? {condition} ORDER BY begin_ms, id",
            (begin_ms, end_ms),
        )
        return [
            RecordedFinding(refs.get(id), _to_text(kind), _to_text(severity), _to_text(text), _to_text(detail), *rest)
            for id, kind, severity, text, detail, *rest in rows
            if id == 0 or id in refs
        ]

    def read_errors(self, begin_ms: int, end_ms: int) -> list[ErrorCount]:
        """Return the causes of failures of all queues in a time span, by time."""
        refs = {id: queue.ref for id, queue in self._load_queues().items()}
        rows = self._query(
            "SELECT queue_id, at_ms, text, jobs FROM error JOIN cause ON cause.id = cause_id"
            " WHERE at_ms >= ? AND at_ms < ? ORDER BY at_ms, queue_id, jobs DESC",
            (begin_ms, end_ms),
        )
        return [ErrorCount(refs[id], at_ms, _to_text(text), jobs) for id, at_ms, text, jobs in rows if id in refs]

    def read_changes(self, begin_ms: int, end_ms: int) -> list[RecordedChange]:
        """Return the changes of the journal that ended in a time span, by time."""
        rows = self._query(
            "SELECT at_ms, key, fields FROM change WHERE at_ms >= ? AND at_ms < ? ORDER BY at_ms, key",
            (begin_ms, end_ms),
        )
        with self._translate_errors():
            return [RecordedChange(at_ms, _to_text(key), json.loads(fields)) for at_ms, key, fields in rows]

    @property
    def has_job_pages(self) -> bool:
        """Whether the file has the table of recorded jobs, which older files lack."""
        return bool(self._query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'job_page'"))

    def read_job_page(self, ref: Ref, place: str, at_ms: int) -> RecordedPage | None:
        """Return the newest page of jobs of a place that was read in the hour before a point in time, or None."""
        if not self.has_job_pages:
            return None
        rows = self._query(
            "SELECT at_ms, taken_ms, total, is_exact, jobs FROM job_page"  # noqa: S608
            f" WHERE queue_id IN ({self._format_ids(ref)}) AND place = ? AND at_ms > ? AND taken_ms <= ?"
            " ORDER BY at_ms DESC LIMIT 1",
            (_to_sql(place), at_ms - PAGE_VALID_MS - MINUTE_MS, at_ms),
        )
        with translate_damaged_jobs(place):
            return next((_parse_job_page(ref, place, row) for row in rows), None)

    def _read_periods(
        self, condition: str, begin_ms: int, end_ms: int, queues: Mapping[int, RecordedQueue] | None = None
    ) -> list[Period]:
        queues = self._load_queues() if queues is None else queues
        rows = self._query(
            f"SELECT {', '.join(_PERIOD_COLUMNS)} FROM period"  # noqa: S608
            f" WHERE at_ms >= ? AND at_ms < ? {condition} ORDER BY at_ms, queue_id",
            (begin_ms, end_ms),
        )
        with self._translate_errors():
            return [_parse_period(queues[row[1]], row) for row in rows if row[1] in queues]

    def _load_queues(self, ref: Ref | None = None) -> dict[int, RecordedQueue]:
        """Return the recorded queues by their number in the file, the oldest first; with `ref` only those of one queue.

        A queue whose places changed has several numbers.
        """

        def parse_places(places: bytes) -> tuple[RecordedPlace, ...]:
            return tuple(
                RecordedPlace(str(name), State(state), bool(fails)) for name, state, fails in json.loads(places)
            )

        condition, values = ("", ()) if ref is None else ("WHERE system = ? AND name = ?", tuple(map(_to_sql, ref)))
        rows = self._query(f"SELECT id, system, name, places, counted FROM queue {condition} ORDER BY id", values)  # noqa: S608
        with self._translate_errors():
            return {
                id: RecordedQueue(
                    Ref(_to_text(system), _to_text(name)),
                    parse_places(places),
                    tuple(json.loads(counted)),
                )
                for id, system, name, places, counted in rows
            }

    def _format_ids(self, ref: Ref) -> str:
        """Return the numbers of a queue for an SQL list. A queue whose places changed has several."""
        return ", ".join(map(str, self._load_queues(ref)))

    def _query(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self._translate_errors():
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        with translate_store_errors(self.path):
            yield


class Reader(_Store):
    """Reads a recording. The file is not changed."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a recording for reading. Raises RecordingError if there is none, or if it cannot be read."""
        with translate_store_errors(path):
            _require_regular_file(path, is_owner_needed=False)
            is_locked_out = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
            mode = "mode=ro&immutable=1" if is_locked_out else "mode=ro"  # SQLite creates files beside one in WAL mode
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_S)
            try:
                _protect_connection(connection)
                _check_format(connection, path)
            except BaseException:
                connection.close()
                raise
            return cls(path, connection)

    def iterate_rows(self, table: str, condition: str, values: Mapping[str, int]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table that meet an SQL condition, in chunks, as a `Writer` of the same format inserts."""
        with self._translate_errors():
            self._connection.text_factory = str  # a text stays a text, and bytes stay bytes
            try:
                rows = self._connection.execute(f"SELECT * FROM {table} WHERE {condition}", values)  # noqa: S608
                while chunk := rows.fetchmany(ROWS_PER_CHUNK):
                    yield chunk
            finally:
                self._connection.text_factory = bytes


class Writer(_Store):
    """Appends to a recording, which is created if it does not exist. For one thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._queue_ids: dict[Ref, tuple[RecordedQueue, int]] = {}

    @classmethod
    def open(cls, path: Path, url: str = "") -> Self:
        """Open a recording for writing, and create it with mode 0600 if it does not exist.

        `url` is stored in a new file and must have no password. Raises RecordingError.
        """
        with translate_store_errors(path):
            create_private_folder(path.parent)
            with suppress(FileExistsError):
                _create_empty_file(path)
        return cls._open_file(path, url, "WAL")

    @classmethod
    def create_copy(cls, path: Path, url: str) -> Self:
        """Create a recording in any folder, with no journal beside it once it is closed. Raises RecordingError."""
        with translate_store_errors(path):
            _create_empty_file(path)
        return cls._open_file(path, url, "DELETE")

    @classmethod
    def _open_file(cls, path: Path, url: str, journal_mode: str) -> Self:
        with translate_store_errors(path):
            status = _require_regular_file(path, is_owner_needed=True)
            if stat.S_IMODE(status.st_mode) & ~PRIVATE_FILE_MODE:
                path.chmod(PRIVATE_FILE_MODE)
            connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                _protect_connection(connection)
                _create_schema(connection, path, url, journal_mode)
                _check_format(connection, path)
            except BaseException:
                connection.close()
                raise
            return cls(path, connection)

    def insert_rows(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert complete rows of a table, as `Reader.iterate_rows` yields them."""
        with self._write():
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608

    def append(self, batch: Batch) -> None:
        """Append records in one transaction. Records of the same queue and minute are replaced by longer ones."""
        with self._write():
            ids = {ref: self._store_queue(queue) for ref, queue in batch.queues.items()}
            self._connection.executemany(_UPSERT_PERIOD, [_format_period(ids[row.ref], row) for row in batch.periods])
            self._connection.executemany(_UPSERT_SERVER, batch.server)
            for finding in batch.findings:
                self._store_finding(0 if finding.ref is None else ids[finding.ref], finding)
            self._connection.executemany(
                "UPDATE finding SET end_ms = seen_ms"
                " WHERE queue_id = ? AND kind = ? AND end_ms IS NULL AND seen_ms <= ?",
                [(0 if one.ref is None else ids[one.ref], one.kind, one.seen_ms) for one in batch.ended],
            )
            causes = [_to_sql(one.cause) for one in batch.errors]
            self._connection.executemany(
                "INSERT OR IGNORE INTO cause (text) VALUES (?)", [(cause,) for cause in causes]
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO error VALUES (?, ?, (SELECT id FROM cause WHERE text = ?), ?)",
                [(one.at_ms, ids[one.ref], cause, one.jobs) for one, cause in zip(batch.errors, causes, strict=True)],
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO change VALUES (?, ?, ?)",
                [(_to_sql(change.key), change.at_ms, json.dumps(change.fields)) for change in batch.changes],
            )
            for page in batch.pages:
                self._store_job_page(ids[page.ref], page)

    def end_stale_findings(self, now_ms: int) -> None:
        """End the findings that no writer saw for two minutes, such as those of a process that was killed."""
        with self._write():
            self._connection.execute(
                "UPDATE finding SET end_ms = seen_ms WHERE end_ms IS NULL AND seen_ms < ?", (now_ms - STALE_FINDING_MS,)
            )

    def trim(self, now_ms: int, limits: Limits, budget_s: float = 0.2) -> bool:
        """Merge old minutes to hours and delete what exceeds the limits, for at most `budget_s` seconds.

        Returns whether the work is finished. If the file is too large, the oldest pages of jobs are deleted first. Then
        younger minutes are merged as well, and then the oldest hours are deleted.
        """
        end_s = time.monotonic() + budget_s
        self.delete_before(now_ms - limits.days * DAY_MS)
        self._delete_job_pages_before(now_ms - MINUTES_KEPT_MS)
        while self.merge_oldest_hour(now_ms - MINUTES_KEPT_MS):
            if time.monotonic() >= end_s:
                return False
        if self.measure_bytes() <= limits.max_bytes:
            return True
        while self.measure_bytes() > LOWER_SIZE_FACTOR * limits.max_bytes:
            if not (
                self._delete_oldest_job_pages()
                or self.merge_oldest_hour(now_ms - 2 * HOUR_MS)
                or self._delete_oldest_hour()
            ):
                return True
            self._release_free_pages()
            if time.monotonic() >= end_s:
                return False
        return True

    def delete_before(self, before_ms: int) -> None:
        """Delete all records that ended before a time."""
        with self._write():
            self._connection.execute("DELETE FROM period WHERE at_ms < ?", (before_ms,))
            self._connection.execute("DELETE FROM server_period WHERE at_ms < ?", (before_ms,))
            self._connection.execute("DELETE FROM error WHERE at_ms < ?", (before_ms,))
            self._connection.execute("DELETE FROM finding WHERE seen_ms < ? AND end_ms IS NOT NULL", (before_ms,))
            self._connection.execute("DELETE FROM change WHERE at_ms < ?", (before_ms,))
            self._connection.execute("DELETE FROM job_page WHERE at_ms < ?", (before_ms,))

    def _delete_job_pages_before(self, before_ms: int) -> None:
        with self._write():
            self._connection.execute("DELETE FROM job_page WHERE at_ms < ?", (before_ms,))

    def _delete_oldest_job_pages(self) -> bool:
        """Delete the pages of jobs of the oldest ten minutes that have some. Returns False if there are none."""
        ((first_ms,),) = self._query("SELECT min(at_ms) FROM job_page")
        if first_ms is None:
            return False
        self._delete_job_pages_before(first_ms + PAGES_STEP_MS)
        return True

    def merge_oldest_hour(self, before_ms: int) -> bool:
        """Merge the minutes of the oldest hour that ended before a time. Returns False if there are none."""
        # A minute of queues has a minute of the server, whose table is short; `period` is long.
        ((first_ms,),) = self._query("SELECT min(at_ms) FROM server_period WHERE span_ms < ?", (HOUR_MS,))
        if first_ms is None or first_ms - first_ms % HOUR_MS + HOUR_MS > before_ms:
            return False
        hour_ms = first_ms - first_ms % HOUR_MS
        span = (hour_ms, hour_ms + HOUR_MS)
        ids = [
            id
            for (id,) in self._query(
                "SELECT DISTINCT queue_id FROM period WHERE at_ms >= ? AND at_ms < ? ORDER BY queue_id", span
            )
        ]
        for start in range(0, len(ids), QUEUES_PER_STEP):
            self._merge_hour_of_queues(span, ids[start], ids[start : start + QUEUES_PER_STEP][-1])
        with self._write():
            self._merge_hour_of_server(hour_ms)
            self._merge_hour_of_errors(span)
        return True

    def measure_bytes(self) -> int:
        """Return the size of the used part of the file, without the pages that are free."""
        (page_bytes,), (pages,), (free,) = (
            self._query(f"PRAGMA {name}")[0] for name in ("page_size", "page_count", "freelist_count")
        )
        return int(page_bytes) * (int(pages) - int(free))

    def _merge_hour_of_queues(self, span: tuple[int, int], first_id: int, last_id: int) -> None:
        with self._write():
            queues = self._load_queues()
            rows = self._connection.execute(
                f"SELECT {', '.join(_PERIOD_COLUMNS)} FROM period"  # noqa: S608
                " WHERE at_ms >= ? AND at_ms < ? AND queue_id BETWEEN ? AND ? ORDER BY at_ms",
                (*span, first_id, last_id),
            ).fetchall()
            periods_by_id: dict[int, list[Period]] = defaultdict(list)
            for row in rows:
                periods_by_id[row[1]].append(_parse_period(queues[row[1]], row))
            self._connection.execute(
                "DELETE FROM period WHERE at_ms >= ? AND at_ms < ? AND queue_id BETWEEN ? AND ?",
                (*span, first_id, last_id),
            )
            hours = [
                _format_period(id, merge_periods(*periods, at_ms=span[0], span_ms=HOUR_MS))
                for id, periods in periods_by_id.items()
            ]
            self._connection.executemany(_UPSERT_PERIOD, hours)

    def _merge_hour_of_server(self, hour_ms: int) -> None:
        if periods := self.read_server_periods(hour_ms, hour_ms + HOUR_MS):
            self._connection.execute(
                "DELETE FROM server_period WHERE at_ms >= ? AND at_ms < ?", (hour_ms, hour_ms + HOUR_MS)
            )
            merged = merge_server_periods(*periods, at_ms=hour_ms, span_ms=HOUR_MS)
            self._connection.execute(_UPSERT_SERVER, merged)

    def _merge_hour_of_errors(self, span: tuple[int, int]) -> None:
        """Merge the causes of an hour, each with its highest count: a later minute may have read fewer jobs."""
        rows = self._connection.execute(
            "SELECT queue_id, cause_id, max(jobs) FROM error WHERE at_ms >= ? AND at_ms < ? GROUP BY 1, 2", span
        ).fetchall()
        self._connection.execute("DELETE FROM error WHERE at_ms >= ? AND at_ms < ?", span)
        self._connection.executemany("INSERT INTO error VALUES (?, ?, ?, ?)", [(span[0], *row) for row in rows])

    def _delete_oldest_hour(self) -> bool:
        """Delete the oldest hour of records. Returns False if there is nothing older than the current hour."""
        ((first_ms, last_ms),) = self._query("SELECT min(at_ms), max(at_ms) FROM period")
        if first_ms is None or first_ms - first_ms % HOUR_MS + HOUR_MS > last_ms:
            return False
        self.delete_before(first_ms - first_ms % HOUR_MS + HOUR_MS)
        return True

    def _release_free_pages(self) -> None:
        # `execute` would take a single step of this statement, which frees a single page.
        with self._translate_errors():
            self._connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_STEP});")

    def _store_queue(self, queue: RecordedQueue) -> int:
        """Return the number of a queue in the file, after storing it if it is new or changed."""
        stored = self._queue_ids.get(queue.ref)
        if stored is not None and stored[0] == queue:
            return stored[1]
        places = json.dumps([(place.name, str(place.state), int(place.has_failures)) for place in queue.places])
        values = _to_sql(queue.ref.system), _to_sql(queue.ref.queue), places, json.dumps(queue.counted)
        self._connection.execute(
            "INSERT INTO queue (system, name, places, counted) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET counted = excluded.counted",
            values,
        )
        ((id,),) = self._connection.execute(
            "SELECT id FROM queue WHERE system = ? AND name = ? AND places = ?", values[:3]
        ).fetchall()
        self._queue_ids[queue.ref] = (queue, int(id))
        return int(id)

    def _store_job_page(self, queue_id: int, page: RecordedPage) -> None:
        """Store a page of jobs, unless this minute has one, or the newest one is equal and still valid for long."""
        raw = page.jobs.encode()
        digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
        newest = self._connection.execute(
            "SELECT at_ms, digest FROM job_page WHERE queue_id = ? AND place = ? AND at_ms <= ?"
            " ORDER BY at_ms DESC LIMIT 1",
            (queue_id, _to_sql(page.place), page.at_ms),
        ).fetchone()
        if newest is not None and newest[1] == digest.encode() and page.at_ms - newest[0] < PAGE_REPEAT_MS:
            return
        self._connection.execute(
            "INSERT OR IGNORE INTO job_page (at_ms, queue_id, place, taken_ms, total, is_exact, digest, jobs)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (page.at_ms, queue_id, _to_sql(page.place), *page[3:6], digest, zlib.compress(raw)),
        )

    def _store_finding(self, queue_id: int, finding: RecordedFinding) -> None:
        texts = tuple(map(_to_sql, (finding.severity, finding.text, finding.detail)))
        updated = self._connection.execute(
            "UPDATE finding SET severity = ?, text = ?, detail = ?, jobs = ?, seen_ms = max(seen_ms, ?)"
            " WHERE queue_id = ? AND kind = ? AND end_ms IS NULL",
            (*texts, finding.jobs, finding.seen_ms, queue_id, _to_sql(finding.kind)),
        )
        if not updated.rowcount:
            self._connection.execute(
                "INSERT INTO finding (queue_id, kind, severity, text, detail, jobs, begin_ms, seen_ms, end_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (queue_id, _to_sql(finding.kind), *texts, *finding[5:]),
            )

    @contextmanager
    def _write(self) -> Iterator[None]:
        """Run a block in one transaction, which is rolled back after an error."""
        with self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._queue_ids.clear()  # their rows may have been rolled back
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def translate_store_errors(path: Path) -> Iterator[None]:
    """Raise the errors of SQLite, of the disk and of invalid values in a file as RecordingError with the path."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")  # may have a suffix, as in SQLITE_IOERR_WRITE
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise RecordingBusy(f"the recording {path} is locked by another process; try again.") from None
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise RecordingError(
                f"the recording {path} cannot be written: the disk is full, or reports errors ({error})."
            ) from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            raise RecordingError(f"the recording {path} cannot be opened for this: {error}.") from None
        raise RecordingError(
            f"{path} is no recording of rqtui, or is damaged ({error}). Move the file away, and a new one is created."
        ) from None
    except OSError as error:
        raise RecordingError(f"the recording {path} cannot be used: {error.strerror or error}.") from None
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise RecordingError(f"{path} has a record that cannot be read ({error!r:.80}). The file is damaged.") from None


def _create_empty_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE_MODE))


def _require_regular_file(path: Path, *, is_owner_needed: bool) -> os.stat_result:
    """Return the status of a file. Raises RecordingError for a link, a device, or a file of another user."""
    try:
        status = os.lstat(path) if is_owner_needed else path.stat()
    except FileNotFoundError:
        raise RecordingError(f"there is no recording {path}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError(f"{path} is no regular file, so it cannot be a recording.")
    if is_owner_needed and status.st_uid != os.geteuid():
        raise RecordingError(
            f"the recording {path} belongs to user {status.st_uid}, not to user {os.geteuid()}; nothing is recorded."
        )
    return status


def _protect_connection(connection: sqlite3.Connection) -> None:
    """Limit what a file can make SQLite do: a recording may come from another machine."""
    connection.text_factory = bytes
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def _create_schema(connection: sqlite3.Connection, path: Path, url: str, journal_mode: str) -> None:
    """Create the tables in an empty file. Another process may do the same at the same time."""
    from rqtui import __version__

    if _has_tables(connection):
        _check_format(connection, path)  # a file of another program is not changed, also not to WAL mode
    else:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute(f"PRAGMA journal_mode = {journal_mode}").fetchall()
    connection.execute("PRAGMA journal_size_limit = 4194304").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    if _has_tables(connection):
        _run_statements(connection, _JOB_PAGE_SCHEMA)
        connection.execute("COMMIT")
        return
    _run_statements(connection, _SCHEMA + _JOB_PAGE_SCHEMA)
    facts = {"url": url, "created_ms": str(int(time.time() * 1000)), "program": f"rqtui {__version__}"}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", [(name, _to_sql(value)) for name, value in facts.items()])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _run_statements(connection: sqlite3.Connection, statements: str) -> None:
    # `executescript` would end the transaction.
    for statement in statements.split(";"):
        connection.execute(statement)


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise RecordingError if an open file is not a recording, or is one of a newer version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not application and not _has_tables(connection):
        raise RecordingError(f"the recording {path} is empty: nothing was recorded yet.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise RecordingError(f"{path} is a database of another program, not a recording of rqtui.")
    if version > VERSION:
        raise RecordingError(
            f"the recording {path} has format {version}, and this rqtui reads format {VERSION}: update rqtui."
        )
    rows = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    tables = {_to_text(name) for type, name in rows if type == b"table"}
    if not tables >= _TABLES or any(type in (b"view", b"trigger") for type, _name in rows):
        raise RecordingError(f"{path} has other tables than a recording of format {VERSION}. The file is damaged.")


def _format_period(queue_id: int, period: Period) -> tuple[Any, ...]:
    """Return the values of a row of `period`."""
    values = period._replace(counts=json.dumps(period.counts, separators=(",", ":")))  # type: ignore[arg-type]
    return (values[1], queue_id, *values[2:])


def _parse_period(queue: RecordedQueue, row: Sequence[Any]) -> Period:
    """Parse a row of `period`. Raises ValueError or TypeError for values that a writer cannot have written."""
    fields = dict(zip(_PERIOD_COLUMNS, row, strict=True))
    del fields["queue_id"]
    counts = tuple(None if count is None else int(count) for count in json.loads(fields.pop("counts")))
    severity = _to_text(fields.pop("severity"))
    if len(counts) != len(queue.places) or severity not in SEVERITIES:
        raise ValueError(f"counts {counts} of {len(queue.places)} places, severity {severity}")
    if not all(value is None or isinstance(value, int) for value in fields.values()):
        raise ValueError("a text where a number is expected")
    return Period(
        queue.ref, **{**fields, "counts": counts, "is_paused": bool(fields["is_paused"]), "severity": severity}
    )


def _parse_job_page(ref: Ref, place: str, row: Sequence[Any]) -> RecordedPage:
    """Parse a row of `job_page`. Raises ValueError or TypeError for values that a writer cannot have written."""
    at_ms, taken_ms, total, is_exact, jobs = row
    if not all(isinstance(value, int) for value in (at_ms, taken_ms, total or 0, is_exact)):
        raise ValueError("a text where a number is expected")
    return RecordedPage(ref, at_ms, place, taken_ms, total, bool(is_exact), _decompress(jobs).decode())


@contextmanager
def translate_damaged_jobs(place: str) -> Iterator[None]:
    """Raise the errors of recorded jobs that a writer cannot have written as RecordingError."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        raise RecordingError(f"The recorded jobs of {place} cannot be read: the file is damaged.") from None


def _decompress(packed: Any) -> bytes:
    """Decompress the jobs of a page. Raises ValueError, TypeError or zlib.error for anything else."""
    decompressor = zlib.decompressobj()
    raw = decompressor.decompress(packed, MAX_PAGE_BYTES)
    if not decompressor.eof:
        raise ValueError("jobs that are too long, or cut")
    return raw


def _to_sql(text: str) -> str | bytes:
    """Convert a text to a value for SQLite. A name that is not UTF-8 is stored as its bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return to_bytes(text)
        except UsageError:  # half of a surrogate pair, in a text that is no name
            return text.encode("utf-8", "backslashreplace")
    return text


def _to_text(value: Any) -> str:
    """Convert a text of SQLite, which is read as bytes, to text. Raises TypeError for a number."""
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} where a text is expected")
    return to_text(value)
