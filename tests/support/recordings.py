"""Build records of a recording, and files with them, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rqtui.model import Ref, State
from rqtui.operations.journal import Operation, to_document
from rqtui.recording.records import (
    HOUR_MS,
    MINUTE_MS,
    ErrorCount,
    Period,
    RecordedChange,
    RecordedFinding,
    RecordedPlace,
    RecordedQueue,
    ServerPeriod,
)
from rqtui.recording.store import Batch, Writer

MAIL = Ref("native", "mail")
PLACES = tuple(RecordedPlace(state.value, state) for state in State)
QUEUE = RecordedQueue(MAIL, PLACES, ("enqueued",))
NOW_MS = 1_800_000_000_000 // HOUR_MS * HOUR_MS
END_MS = NOW_MS * 2


def build_period(at_ms: int = 0, **values: object) -> Period:
    """Build the record of a minute in which 6 jobs came, 4 were completed and 2 attempts failed."""
    fields: dict[str, object] = {
        "ref": MAIL, "at_ms": at_ms, "span_ms": MINUTE_MS, "begin_ms": at_ms, "end_ms": at_ms + MINUTE_MS,
        "watched_ms": MINUTE_MS, "polls": 30, "enqueued": 6, "completed": 4, "failed": 2, "died": 1,
        "counts": (0, 3, None, 0, 7), "estimated": 0, "ready_max": 5, "oldest_ready_ms": 100,
        "oldest_ready_max_ms": 900, "workers": 2, "workers_min": 1, "overdue": 0, "expired": 0, "is_paused": False,
        "severity": "ok",
    }  # fmt: skip
    return Period(**{**fields, **values})  # type: ignore[arg-type]


def build_server_period(at_ms: int, watched_ms: int = MINUTE_MS) -> ServerPeriod:
    """Build the record of a minute of the server."""
    return ServerPeriod(at_ms, MINUTE_MS, 30, watched_ms, 2.5, 0.3, 1000, 0, "primary")


def build_minutes(begin_ms: int, minutes: int, *refs: Ref) -> Batch:
    """Build a batch of consecutive minutes of queues, and of the server."""
    refs = refs or (MAIL,)
    times_ms = range(begin_ms, begin_ms + minutes * MINUTE_MS, MINUTE_MS)
    periods = [build_period(at_ms, ref=ref) for at_ms in times_ms for ref in refs]
    queues = {ref: QUEUE._replace(ref=ref) for ref in refs}
    return Batch(queues, periods, [build_server_period(at_ms) for at_ms in times_ms])


BULK = Ref("celery", "bulk")
BULK_PLACES = (RecordedPlace("queue", State.READY), RecordedPlace("unacked", State.RESERVED))
FAILING_MS, WAITING_MS = NOW_MS + 20 * MINUTE_MS + 5_000, NOW_MS + 60 * MINUTE_MS + 2_000  # when findings begin
CHANGE_MS = NOW_MS + 36 * MINUTE_MS + 1_000
GAP = range(40, 50)  # minutes that are not recorded
LAST_MS = NOW_MS + 89 * MINUTE_MS + 58_000  # the last refresh


def build_incident() -> Batch:
    """Build 90 minutes of two queues with a gap: jobs of one fail for 15 minutes, and a change requeues some of them.

    A finding of the other queue is present at the end.
    """
    periods, server = [], []
    for minute in (minute for minute in range(90) if minute not in GAP):
        at_ms = NOW_MS + minute * MINUTE_MS
        is_failing = 20 <= minute < 35
        mail = build_period(
            at_ms, end_ms=at_ms + 58_000, counts=(0, 3 + minute * 2, 1, 100 + minute, 7 + 3 * max(0, minute - 20)),
            enqueued=60, completed=20 if is_failing else 50, failed=40 if is_failing else 1,
            severity="critical" if is_failing else "ok",
        )  # fmt: skip
        periods += [mail, build_period(at_ms, ref=BULK, end_ms=at_ms + 57_000, counts=(5 * minute, 2))]
        server.append(build_server_period(at_ms))
    failing = RecordedFinding(
        MAIL, "failing", "critical", "67 % of attempts fail", "", 40, FAILING_MS, NOW_MS + 34 * MINUTE_MS + 50_000
    )
    waiting = RecordedFinding(
        BULK, "no-workers", "warning", "450 jobs wait and no worker runs", "", 450, WAITING_MS, LAST_MS
    )
    errors = [
        ErrorCount(MAIL, NOW_MS + minute * MINUTE_MS, text, jobs)
        for minute in range(20, 35)
        for text, jobs in (("TimeoutError: read timed out", 25), ("KeyError: 'id'", 5))
    ]
    operation = Operation(
        CHANGE_MS, "anna@host", "requeue", "mail", "native", (b"a1", b"a2"), 37, {"ready again": 37}, undo=("u1",)
    )
    queues = {MAIL: QUEUE, BULK: RecordedQueue(BULK, BULK_PLACES)}
    changes = [RecordedChange(CHANGE_MS, "change-1", to_document(operation))]
    return Batch(queues, periods, server, [failing, waiting], [failing], errors, changes)


@contextmanager
def open_writer(path: Path, *batches: Batch) -> Iterator[Writer]:
    """Open a recording for writing with some batches appended, and close it at the end of the block."""
    with Writer.open(path, "redis://jobs-1:6379") as writer:
        for batch in batches:
            writer.append(batch)
        yield writer
