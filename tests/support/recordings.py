"""Build records of a recording, and files with them, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rqtui.model import Ref, State
from rqtui.recording.records import HOUR_MS, MINUTE_MS, Period, RecordedPlace, RecordedQueue, ServerPeriod
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


@contextmanager
def open_writer(path: Path, *batches: Batch) -> Iterator[Writer]:
    """Open a recording for writing with some batches appended, and close it at the end of the block."""
    with Writer.open(path, "redis://jobs-1:6379") as writer:
        for batch in batches:
            writer.append(batch)
        yield writer
