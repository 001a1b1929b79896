"""Record snapshots: convert each to the records of its minute, and append them to the recording on a thread of its own.

`rqtui record` and the screen pass their snapshots to a `Recorder`, on the thread that took them. `record_snapshot` only
adds to records in memory; the recorder's thread writes them at once, so that a killed process loses no more than the
last snapshot. No request is sent to Redis. A problem of the file is reported once and never raised: the caller
continues, and the recorder tries again every half minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rqtui.config.state_folder import create_private_folder
from rqtui.engine.ticker import ServerLost, SnapshotTaken
from rqtui.errors import RecordingBusy, RecordingError, describe_and_log_error
from rqtui.model import Count, Finding, PageSelection, Queue, Ref, Snapshot, State
from rqtui.operations.journal import FILE_NAME, Operation, load_operations, to_document
from rqtui.recording.records import (
    FLOWS,
    HOUR_MS,
    MINUTE_MS,
    ErrorCount,
    Period,
    RecordedChange,
    RecordedFinding,
    RecordedPlace,
    RecordedQueue,
    ServerPeriod,
    merge_periods,
    merge_server_periods,
)
from rqtui.recording.store import Batch, Limits, Writer, translate_store_errors
from rqtui.text.masking import mask_printed_text, mask_text, reveal_secrets

if TYPE_CHECKING:
    from rqtui.connection.connect import ServerInfo
    from rqtui.engine.engine import Engine
    from rqtui.engine.rates import Totals
    from rqtui.engine.ticker import TickerEvent
    from rqtui.recording.page_collector import PageCollector
    from rqtui.system_base.system import System

log = logging.getLogger("rqtui.recording")
T = TypeVar("T")

MAX_GAP_MS = 90_000  # polls of a queue that are further apart do not belong together: the time between is unwatched
SEEN_INTERVAL_MS = 5_000  # between two updates of a finding that is present
REST_INTERVAL_MS = 15_000  # between two updates of a minute in which little changes
ABSENT_MS = 10_000  # a finding ends when it is missing for this long, because some findings disappear briefly
RETRY_S = 30.0  # after an error of the file
BUSY_RETRY_S = 1.0  # while another process holds the lock of the file
BUSY_REPORT_S = 30.0  # a lock that is held for longer is reported
MAINTENANCE_S = 60.0  # between two trims of the file
UNFINISHED_S = 1.0  # until the next trim, if one was not finished
JOURNAL_S = 10.0  # between two reads of the journal
MAX_PENDING_MS = 600_000  # records that could not be written for longer are dropped
_REDIS_AWAY = "redis-away"


class Recorder:
    """Records the snapshots of one Redis in the file at `path`.

    `url` is stored in the file and must be masked; the journal in `state_folder` is recorded as far as it has
    operations of this URL. `report` gets a sentence for each new problem of the file, on the recorder's thread. The
    first `job_limit` jobs of a place are recorded once per minute, if a snapshot has a page of them; 0: no job is.
    """

    def __init__(
        self,
        path: Path,
        url: str,
        limits: Limits,
        report: Callable[[str], None],
        state_folder: Path | None = None,
        job_limit: int = 0,
    ) -> None:
        self.path, self.problem = path, ""
        self._url, self._limits, self._report = url, limits, report
        self._state_folder = state_folder
        self._accumulator = Accumulator()
        self._pages: PageCollector | None = None
        if job_limit:
            from rqtui.recording.page_collector import PageCollector

            self._pages = PageCollector(job_limit)
        self._journal = JournalReader(state_folder, url) if state_folder else None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._writer: Writer | None = None
        self._event_problem = ""
        self._is_continued = False
        self._busy_since_s = 0.0
        self._retry_s = self._maintenance_s = self._journal_s = 0.0  # when due, by `time.monotonic`
        self._reads: deque[tuple[Callable[[Writer], Any], Callable[[Any, str], None]]] = deque()
        self._thread = threading.Thread(target=self._run, name="rqtui-recorder", daemon=True)
        self._thread.start()

    def record_snapshot(
        self,
        snapshot: Snapshot,
        find_totals: Callable[[Ref], Totals | None],
        warnings: Sequence[Finding] = (),
        infos: Sequence[ServerInfo] = (),
        selections: Sequence[PageSelection] = (),
    ) -> None:
        """Record a snapshot, with the findings about the server and its nodes. Called on one thread; never blocks.

        `find_totals` returns the totals of a queue at this snapshot (`Engine.find_totals`). `selections` are the
        selections of the snapshot's pages, in the same order.
        """
        with self._lock:
            self._accumulator.add_snapshot(snapshot, find_totals, warnings, infos)
        if self._pages is not None:
            self._pages.add_pages(snapshot, selections)
        self._wake.set()

    def choose_pages(self, snapshot: Snapshot, systems: Mapping[str, System]) -> tuple[PageSelection, ...]:
        """Return the pages of jobs that the next refresh should read to be recorded; empty if no jobs are recorded."""
        return () if self._pages is None else self._pages.choose_selections(snapshot, systems)

    def handle_event(self, event: TickerEvent, engine: Engine) -> None:
        """Record a snapshot or an outage that a `Ticker` posted. Called on the ticker's thread; never raises.

        Other events are ignored.
        """
        try:
            if isinstance(event, SnapshotTaken):
                self.record_snapshot(
                    event.snapshot, engine.find_totals, engine.warnings, engine.server_infos, event.focus.pages
                )
            elif isinstance(event, ServerLost):
                self.record_outage(event.error)
        except Exception as error:
            sentence = describe_and_log_error(error, log)
            if sentence != self._event_problem:
                self._event_problem = sentence
                self._report(f"Nothing is recorded: {sentence}")

    def record_outage(self, error: str) -> None:
        """Record that Redis does not reply, with the error. The outage ends with the next snapshot."""
        with self._lock:
            self._accumulator.add_outage(error, int(time.time() * 1000))
        self._wake.set()

    def read(self, read: Callable[[Writer], T], handle_result: Callable[[T | None, str], None]) -> None:
        """Call `read` with the open file on the recorder's thread, so that a process opens its recording only once.

        `handle_result` gets the result, or None and a sentence if the file cannot be read now. It is called on the
        recorder's thread, and must not block. After `close` it may never be called.
        """
        self._reads.append((read, handle_result))
        self._wake.set()

    @property
    def has_pending_records(self) -> bool:
        """Whether records wait to be written."""
        with self._lock:
            return self._accumulator.has_pending_records or (self._pages is not None and self._pages.has_pages)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is pending, close the file, and end the thread; waits at most `timeout_s`."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._compute_wait_s())
            self._wake.clear()
            if time.monotonic() >= self._retry_s:
                self._try_write()
            self._answer_reads()
        with self._lock:
            self._accumulator.flush_minutes()
        self._try_write()
        if self._writer is not None:
            self._writer.close()

    def _compute_wait_s(self) -> float:
        """Return the seconds until the thread has something to do without a snapshot, between 0.05 and 10."""
        now_s = time.monotonic()
        due_s = self._retry_s if self._retry_s > now_s else self._maintenance_s
        return min(JOURNAL_S, max(0.05, due_s - now_s))

    def _try_write(self) -> None:
        """Write the pending records and maintain the file. Reports a problem once, and schedules the next try."""
        batch = Batch()
        try:
            writer = self._open_writer()
            if not self._is_continued and self._accumulator.taken_ms:
                self._continue_minute(writer)
            with self._lock:
                batch = self._accumulator.take_batch()
            batch = self._add_pages(batch)
            now_s = time.monotonic()
            if self._journal is not None and now_s >= self._journal_s:
                self._journal_s = now_s + JOURNAL_S
                batch = batch._replace(changes=self._journal.read_new_changes())
            if any(batch):
                writer.append(batch)
            if now_s >= self._maintenance_s:
                now_ms = int(time.time() * 1000)
                writer.end_stale_findings(self._accumulator.taken_ms or now_ms)
                is_finished = writer.trim(self._accumulator.taken_ms or now_ms, self._limits)
                self._maintenance_s = now_s + (MAINTENANCE_S if is_finished else UNFINISHED_S)
        except RecordingBusy as error:
            self._busy_since_s = self._busy_since_s or time.monotonic()
            self._handle_failure(
                batch, BUSY_RETRY_S, str(error) if time.monotonic() - self._busy_since_s > BUSY_REPORT_S else ""
            )
        except RecordingError as error:
            self._handle_failure(batch, RETRY_S, str(error))
        except Exception as error:  # The caller shows queues, and must not end because of a fault in here.
            self._handle_failure(batch, RETRY_S, describe_and_log_error(error, log))
        else:
            self.problem, self._busy_since_s = "", 0.0

    def _add_pages(self, batch: Batch) -> Batch:
        """Return the batch with the pages of jobs that are due. Jobs are converted to text here, without the lock."""
        pages = self._pages.take_pages() if self._pages is not None else []
        if not pages:
            return batch
        with self._lock:
            queues = self._accumulator.find_recorded_queues(page.ref for page in pages)
        recorded_pages = tuple(page for page in pages if page.ref in queues)
        return batch._replace(queues={**batch.queues, **queues}, pages=recorded_pages)

    def _answer_reads(self) -> None:
        """Call the functions that wait to read the file. Without an open file they get the problem."""
        while self._reads:
            read, handle_result = self._reads.popleft()
            result, problem = None, self.problem or "the recording is not open yet."
            if self._writer is not None:
                try:
                    result, problem = read(self._writer), ""
                except Exception as error:  # The recorder must continue to record.
                    problem = describe_and_log_error(error, log)
            handle_result(result, problem)

    def _open_writer(self) -> Writer:
        if self._writer is None:
            if self._state_folder is not None:
                with translate_store_errors(self._state_folder):
                    create_private_folder(self._state_folder)
            self._writer = Writer.open(self.path, self._url)
        return self._writer

    def _continue_minute(self, writer: Writer) -> None:
        """Continue the minute of the first snapshots, if an earlier process recorded its start."""
        begin_ms = self._accumulator.taken_ms // MINUTE_MS * MINUTE_MS
        earlier = writer.read_all_periods(begin_ms, begin_ms + 1), writer.read_server_periods(begin_ms, begin_ms + 1)
        self._is_continued = True
        with self._lock:
            self._accumulator.set_earlier_periods(*earlier)

    def _handle_failure(self, batch: Batch, wait_s: float, sentence: str) -> None:
        """Return the records of a failed write to memory, close the file, and report a new problem."""
        with self._lock:
            self._accumulator.return_batch(batch)
        if self._pages is not None:
            self._pages.return_pages(batch.pages)
        if self._journal is not None and batch.changes:
            self._journal.forget(batch.changes)
        if self._writer is not None and wait_s == RETRY_S:
            self._writer.close()
            self._writer = None
        self._retry_s = time.monotonic() + wait_s
        if sentence and sentence != self.problem:
            self.problem = sentence
            self._report(f"Nothing is recorded: {sentence}")


class _QueueState:
    """The last poll of a queue, and its current minute."""

    __slots__ = ("counts", "is_unwritten", "minute", "polled_ms", "totals", "written_ms")

    def __init__(self, minute: Period, counts: Sequence[Count], totals: Totals) -> None:
        self.minute, self.counts, self.totals = minute, counts, totals
        self.polled_ms = minute.end_ms
        self.written_ms = minute.end_ms  # when the minute became pending last
        self.is_unwritten = False  # True: the minute changed a little since then


class Accumulator:
    """The records of the current minute, and those that were not written yet. Not thread-safe."""

    def __init__(self) -> None:
        self.taken_ms = 0  # of the last snapshot; 0: there was none
        self._queues: dict[Ref, RecordedQueue] = {}
        self._states: dict[Ref, _QueueState] = {}
        self._server: ServerPeriod | None = None  # the current minute of the server
        self._earlier: dict[Ref, Period] = {}  # the start of the current minute, as another process recorded it
        self._earlier_server: dict[int, ServerPeriod] = {}
        # The present findings of each queue, and of the server (None), by kind, and when each was written.
        self._findings: dict[Ref | None, dict[str, tuple[RecordedFinding, int]]] = {}
        self._causes: dict[Ref, tuple[int, tuple[ErrorCount, ...]]] = {}  # of the current minute
        self._pending_periods: dict[tuple[int, Ref], Period] = {}
        self._pending_server: dict[int, ServerPeriod] = {}
        self._pending_findings: dict[tuple[Ref | None, str, int], RecordedFinding] = {}
        self._pending_ends: list[RecordedFinding] = []
        self._pending_errors: dict[tuple[int, Ref, str], ErrorCount] = {}

    def set_earlier_periods(self, periods: Sequence[Period], server: Sequence[ServerPeriod]) -> None:
        """Set what another process recorded of the current minute. The records of this one continue it."""
        self._earlier = {period.ref: period for period in periods if period.span_ms == MINUTE_MS}
        self._earlier_server = {period.at_ms: period for period in server if period.span_ms == MINUTE_MS}
        for ref, state in self._states.items():
            state.minute = self._continue_earlier_period(state.minute)
            self._pending_periods[state.minute.at_ms, ref] = state.minute
        if self._server is not None:
            server_minute = self._continue_earlier_server_period(self._server)
            self._server = self._pending_server[server_minute.at_ms] = server_minute

    def add_snapshot(
        self,
        snapshot: Snapshot,
        find_totals: Callable[[Ref], Totals | None],
        warnings: Sequence[Finding],
        infos: Sequence[ServerInfo],
    ) -> None:
        """Add a snapshot to the records of its minute."""
        now_ms, previous_ms, self.taken_ms = snapshot.taken_ms, self.taken_ms, snapshot.taken_ms
        if now_ms // MINUTE_MS != previous_ms // MINUTE_MS:
            self._drop_old_records(now_ms)
        for ref, queue in snapshot.map_queues_by_ref().items():
            totals = find_totals(ref)
            if queue.error or totals is None:
                continue
            self._add_poll(ref, queue, totals)
            if queue.findings or ref in self._findings:
                self._add_findings(ref, queue.findings, now_ms)
                self._add_causes(ref, queue.findings, now_ms)
        self._end_finding(None, _REDIS_AWAY, now_ms)
        self._add_findings(None, warnings, now_ms)
        self._add_server_poll(snapshot, infos, previous_ms)

    def add_outage(self, error: str, now_ms: int) -> None:
        """Record that Redis does not reply, as a finding about the server."""
        for state in self._states.values():
            state.polled_ms = 0  # What happens meanwhile is not watched.
        finding = Finding(_REDIS_AWAY, "critical", "", error)
        self._add_findings(None, (finding,), now_ms, is_complete=False)

    def flush_minutes(self) -> None:
        """Make the current minute and the findings of each queue pending, also where little changed."""
        for ref, state in self._states.items():
            if state.is_unwritten:
                self._pending_periods[state.minute.at_ms, ref] = state.minute
        for present in self._findings.values():
            for record, _written_ms in present.values():
                self._pending_findings[record.ref, record.kind, record.begin_ms] = record

    @property
    def has_pending_records(self) -> bool:
        """Whether records were added since the last batch."""
        return bool(self._pending_periods or self._pending_server or self._pending_findings or self._pending_errors)

    def find_recorded_queues(self, refs: Iterable[Ref]) -> dict[Ref, RecordedQueue]:
        """Return the queues that were polled, of those named."""
        return {ref: self._queues[ref] for ref in refs if ref in self._queues}

    def take_batch(self) -> Batch:
        """Return the pending records, and keep none of them pending."""
        periods, server = tuple(self._pending_periods.values()), tuple(self._pending_server.values())
        findings, ended = tuple(self._pending_findings.values()), tuple(self._pending_ends)
        errors = tuple(self._pending_errors.values())
        rows: list[Period | RecordedFinding | ErrorCount] = [*periods, *findings, *ended, *errors]
        queues = {row.ref: self._queues[row.ref] for row in rows if row.ref is not None}
        batch = Batch(queues, periods, server, findings, ended, errors)
        self._pending_periods, self._pending_server, self._pending_findings = {}, {}, {}
        self._pending_ends, self._pending_errors = [], {}
        return batch

    def return_batch(self, batch: Batch) -> None:
        """Make records pending again that could not be written, unless newer ones replaced them or they are too old."""
        oldest_ms = self.taken_ms - MAX_PENDING_MS
        self._pending_periods = {
            **{(row.at_ms, row.ref): row for row in batch.periods if row.at_ms >= oldest_ms},
            **self._pending_periods,
        }
        self._pending_server = {
            **{row.at_ms: row for row in batch.server if row.at_ms >= oldest_ms},
            **self._pending_server,
        }
        self._pending_errors = {
            **{(row.at_ms, row.ref, row.cause): row for row in batch.errors if row.at_ms >= oldest_ms},
            **self._pending_errors,
        }
        findings = {(row.ref, row.kind, row.begin_ms): row for row in batch.findings if row.seen_ms >= oldest_ms}
        self._pending_findings = {**findings, **self._pending_findings}
        self._pending_ends = [row for row in batch.ended if row.seen_ms >= oldest_ms] + self._pending_ends

    def _add_poll(self, ref: Ref, queue: Queue, totals: Totals) -> None:
        """Add one poll of a queue to its minute.

        A minute in which only ages and the watched time changed is not written at each refresh: there may be ten
        thousand idle queues.
        """
        now_ms, state = queue.counted_ms, self._states.get(ref)
        if state is None:
            self._record_places(ref, queue)
            minute = self._continue_earlier_period(_build_poll(ref, queue, now_ms, totals, totals))
            state = self._states[ref] = _QueueState(minute, queue.counts, totals)
            has_changed = True
        else:
            minute, last_ms, last = state.minute, state.polled_ms, state.totals
            if not 0 <= now_ms - last_ms <= MAX_GAP_MS:  # The clock was set back, or the queue was not watched.
                last_ms, last = now_ms, totals
            is_same_minute = minute.at_ms == now_ms - now_ms % MINUTE_MS
            has_changed = not (is_same_minute and totals == last and _is_unchanged(minute, queue, state.counts))
            if not has_changed and queue.oldest_ready_ms is None:
                watched_ms = minute.watched_ms + now_ms - last_ms
                minute = minute._replace(end_ms=now_ms, watched_ms=watched_ms, polls=minute.polls + 1)
            else:
                minute = self._add_poll_to_minute(ref, queue, state, _build_poll(ref, queue, last_ms, last, totals))
            state.minute, state.polled_ms, state.totals, state.counts = minute, now_ms, totals, queue.counts
        state.is_unwritten = not has_changed and 0 <= now_ms - state.written_ms < REST_INTERVAL_MS
        if not state.is_unwritten:
            state.written_ms = now_ms
            self._pending_periods[minute.at_ms, ref] = minute

    def _add_poll_to_minute(self, ref: Ref, queue: Queue, state: _QueueState, poll: Period) -> Period:
        """Return the minute of a queue with a poll, which may begin the next minute or have other places."""
        minute = state.minute
        if queue.counts is not state.counts:
            self._record_places(ref, queue)
        if minute.at_ms != poll.at_ms:
            if state.is_unwritten:
                self._pending_periods[minute.at_ms, ref] = minute
            return self._continue_earlier_period(poll)
        return merge_periods(minute, poll) if len(minute.counts) == len(poll.counts) else poll

    def _record_places(self, ref: Ref, queue: Queue) -> None:
        """Store the places of a queue and the names of its counted flows, if they changed."""
        recorded, counters = self._queues.get(ref), queue.counters
        counted = tuple(name for name, counter in zip(FLOWS, _COUNTERS, strict=True) if counter in counters)
        names = [count.place for count in queue.counts]
        if recorded is None or recorded.counted != counted or [place.name for place in recorded.places] != names:
            places = tuple(RecordedPlace(count.place, count.state, count.has_failures) for count in queue.counts)
            self._queues[ref] = RecordedQueue(ref, places, counted)

    def _continue_earlier_period(self, period: Period) -> Period:
        """Return a period with the start of its minute, if another process recorded that before this one began."""
        earlier = self._earlier.get(period.ref)
        if earlier is None or earlier.at_ms != period.at_ms or earlier.end_ms > period.begin_ms:
            return period
        del self._earlier[period.ref]
        return merge_periods(earlier, period) if len(earlier.counts) == len(period.counts) else period

    def _continue_earlier_server_period(self, period: ServerPeriod) -> ServerPeriod:
        earlier = self._earlier_server.pop(period.at_ms, None)
        if earlier is None:
            return period
        return merge_server_periods(earlier, period, at_ms=period.at_ms, span_ms=period.span_ms)

    def _add_findings(
        self, ref: Ref | None, findings: Sequence[Finding], now_ms: int, *, is_complete: bool = True
    ) -> None:
        """Record the findings that are present. With `is_complete`, other findings of the queue are not present."""
        present = self._findings.setdefault(ref, {})
        for finding in findings:
            begin_ms = now_ms if finding.since_ms is None else min(finding.since_ms, now_ms)
            earlier, written_ms = present.get(finding.kind, (None, now_ms))
            if earlier and earlier.severity == finding.severity and now_ms - written_ms < SEEN_INTERVAL_MS:
                present[finding.kind] = (earlier._replace(seen_ms=now_ms), written_ms)
                continue
            record = RecordedFinding(
                ref,
                finding.kind,
                finding.severity,
                _mask_sentence(finding.text),
                _mask_sentence(finding.detail),
                finding.jobs,
                earlier.begin_ms if earlier else begin_ms,
                now_ms,
            )
            present[finding.kind] = (record, now_ms)
            self._pending_findings[ref, record.kind, record.begin_ms] = record
        if is_complete:
            kinds = {finding.kind for finding in findings}
            for kind in [kind for kind in present if kind not in kinds]:
                if now_ms - present[kind][0].seen_ms >= ABSENT_MS:
                    self._end_finding(ref, kind, None)
        if not present:
            self._findings.pop(ref, None)

    def _end_finding(self, ref: Ref | None, kind: str, at_ms: int | None) -> None:
        """Record that a finding ended, if it was present: at a known time, or when it was seen last."""
        if kind in self._findings.get(ref, ()):
            record, _written_ms = self._findings[ref].pop(kind)
            record = record if at_ms is None else record._replace(seen_ms=max(record.seen_ms, at_ms))
            self._pending_findings[ref, kind, record.begin_ms] = record
            self._pending_ends.append(record)

    def _drop_old_records(self, now_ms: int) -> None:
        """Drop records that could not be written for ten minutes, and queues that were not polled for an hour."""
        self.return_batch(self.take_batch())
        for ref in [ref for ref, state in self._states.items() if now_ms - state.minute.end_ms > HOUR_MS]:
            del self._states[ref]
            self._findings.pop(ref, None)
            self._causes.pop(ref, None)

    def _add_causes(self, ref: Ref, findings: Sequence[Finding], now_ms: int) -> None:
        """Record the causes of failures that findings name. A cause of several findings has the higher number."""
        minute_ms = now_ms - now_ms % MINUTE_MS
        jobs_by_cause: dict[str, int] = {}
        for finding in findings:
            for cause in finding.causes:
                text = _mask_data(cause.text)
                jobs_by_cause[text] = max(jobs_by_cause.get(text, cause.jobs), cause.jobs)
        counts = tuple(ErrorCount(ref, minute_ms, cause, jobs) for cause, jobs in jobs_by_cause.items())
        if counts and self._causes.get(ref) != (minute_ms, counts):
            self._causes[ref] = (minute_ms, counts)
            self._pending_errors.update({(minute_ms, ref, count.cause): count for count in counts})

    def _add_server_poll(self, snapshot: Snapshot, infos: Sequence[ServerInfo], previous_ms: int) -> None:
        now_ms, cost = snapshot.taken_ms, snapshot.cost
        watched_ms = now_ms - previous_ms if 0 <= now_ms - previous_ms <= MAX_GAP_MS else 0
        poll = ServerPeriod(
            now_ms - now_ms % MINUTE_MS,
            MINUTE_MS,
            1,
            watched_ms,
            round(cost.ms, 2),
            cost.rtt_ms or None,
            _sum_known_numbers([info.used_bytes for info in infos]),
            _sum_known_numbers([info.maxmemory_bytes for info in infos]),
            infos[0].role if len(infos) == 1 else "",
        )
        if self._server is not None and self._server.at_ms == poll.at_ms:
            poll = merge_server_periods(self._server, poll, at_ms=poll.at_ms, span_ms=MINUTE_MS)
        else:
            poll = self._continue_earlier_server_period(poll)
        self._server = self._pending_server[poll.at_ms] = poll


def _sum_known_numbers(numbers: Sequence[int | None]) -> int | None:
    """Return the sum of some numbers; None if one is unknown, or if there are none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and known == numbers else None


_COUNTERS = ("in", "out", "failed", "dead")  # of `FLOWS`, as systems name them


def _is_unchanged(minute: Period, queue: Queue, counts: Sequence[Count]) -> bool:
    """Return whether a poll differs from the minute of its queue in ages only."""
    return (
        (queue.counts is counts or queue.counts == counts)
        and queue.workers == minute.workers
        and queue.overdue == minute.overdue
        and queue.expired == minute.expired
        and queue.is_paused == minute.is_paused
        and queue.verdict.severity == minute.severity
        and (minute.oldest_ready_ms is None) == (queue.oldest_ready_ms is None)
    )


def _build_poll(ref: Ref, queue: Queue, last_ms: int, last: Totals, totals: Totals) -> Period:
    """Build the record of one poll of a queue, which watched the time since the last poll."""
    now_ms, estimated = queue.counted_ms, 0
    for number, count in enumerate(queue.counts):
        estimated |= (not count.is_exact) << number
    return Period(
        ref,
        now_ms - now_ms % MINUTE_MS,
        MINUTE_MS,
        last_ms,
        now_ms,
        now_ms - last_ms,
        1,
        max(0, totals.enqueued - last.enqueued),  # A counter that decreases was reset.
        max(0, totals.completed - last.completed),
        max(0, totals.failed - last.failed),
        max(0, totals.dead - last.dead),
        tuple([count.count if count.is_count_known else None for count in queue.counts]),
        estimated,
        queue.count_in_state(State.READY),
        queue.oldest_ready_ms,
        queue.oldest_ready_ms,
        queue.workers,
        queue.workers,
        queue.overdue,
        queue.expired,
        queue.is_paused,
        queue.verdict.severity,
    )


class JournalReader:
    """Reads the changes of one Redis from the journal in `folder`, each of them once."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._stamp: tuple[int, int] | None = None  # size and time of the file when it was read last
        self._recorded: dict[str, Operation] = {}

    def read_new_changes(self) -> tuple[RecordedChange, ...]:
        """Return the changes that are new or were undone since the last call. An unreadable journal has none."""
        stamp = None
        with suppress(OSError):
            status = (self._folder / FILE_NAME).stat()
            stamp = (status.st_size, status.st_mtime_ns)
        if stamp is None or stamp == self._stamp:
            return ()
        self._stamp = stamp
        operations = {
            _build_change_key(operation): operation
            for operation in load_operations(self._folder)
            if operation.url == self._url
        }
        changed = {key: change for key, change in operations.items() if self._recorded.get(key) != change}
        self._recorded = operations
        return tuple(RecordedChange(change.at_ms, key, to_document(change)) for key, change in changed.items())

    def forget(self, changes: Sequence[RecordedChange]) -> None:
        """Return these changes again at the next call, because they were not written."""
        self._stamp = None
        for change in changes:
            self._recorded.pop(change.key, None)


def _build_change_key(operation: Operation) -> str:
    return f"{operation.at_ms} {operation.who} {operation.verb} {operation.full_queue_label}"


def _mask_sentence(sentence: str) -> str:
    with reveal_secrets(is_revealed=False):
        return mask_printed_text(sentence)


def _mask_data(text: str) -> str:
    with reveal_secrets(is_revealed=False):
        return mask_text(text)
