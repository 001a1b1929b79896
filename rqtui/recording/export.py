"""Copy a time span of a recording to a new file, for a bug report or for another machine. Called by `rqtui record`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rqtui.errors import RecordingError
from rqtui.recording.records import HOUR_MS, MINUTE_MS
from rqtui.recording.store import PAGE_VALID_MS, Reader, Writer

# The rows of a time span, by table; the numbers of queues and causes stay the same.
_CONDITIONS = {
    "queue": "id IN (SELECT queue_id FROM period WHERE at_ms >= :begin AND at_ms < :end)"
    " OR id IN (SELECT queue_id FROM finding WHERE seen_ms >= :begin AND begin_ms < :end)",
    "period": "at_ms >= :begin AND at_ms < :end",
    "server_period": "at_ms >= :begin AND at_ms < :end",
    "finding": "seen_ms >= :begin AND begin_ms < :end",
    "cause": "id IN (SELECT cause_id FROM error WHERE at_ms >= :begin AND at_ms < :end)",
    "error": "at_ms >= :begin AND at_ms < :end",
    "change": "at_ms >= :begin AND at_ms < :end",
}
# The pages of jobs that were read in a span, and of each place the page that is still valid at its start.
_JOB_PAGES = (
    "at_ms < :end AND (at_ms >= :begin OR at_ms > :begin - :valid AND NOT EXISTS (SELECT 1 FROM job_page AS later"
    " WHERE later.queue_id = job_page.queue_id AND later.place = job_page.place"
    " AND later.at_ms > job_page.at_ms AND later.at_ms <= :begin))"
)


class Export(NamedTuple):
    """The result of an export: the number of copied rows by table, and the size of the new file."""

    rows: dict[str, int]
    size_bytes: int


def export_recording(source: Reader, target: Path, begin_ms: int, end_ms: int, *, has_job_pages: bool = True) -> Export:
    """Copy the records of a time span to a new file of mode 0600, which is complete without other files beside it.

    The first minute or hour of the span is copied as a whole. Recorded jobs are copied if `has_job_pages`. Raises
    RecordingError if the file exists, if it cannot be written, or if nothing was recorded in this time; no file is left
    then.
    """
    if target.exists() or target.is_symlink():
        raise RecordingError(f"{target} exists already; name a new file.")
    has_minute = any(
        period.span_ms == MINUTE_MS for period in source.read_server_periods(begin_ms - HOUR_MS, begin_ms + 1)
    )
    span = {"begin": begin_ms // (step := MINUTE_MS if has_minute else HOUR_MS) * step, "end": end_ms}
    conditions = dict(_CONDITIONS)
    if has_job_pages and source.has_job_pages:
        conditions["job_page"] = _JOB_PAGES
        span["valid"] = PAGE_VALID_MS
    rows: dict[str, int] = {}
    try:
        with Writer.create_copy(target, source.read_meta().get("url", "")) as writer:
            for table, condition in conditions.items():
                for chunk in source.iterate_rows(table, condition, span):
                    writer.insert_rows(table, chunk)
                    rows[table] = rows.get(table, 0) + len(chunk)
        if not rows.get("server_period") and not rows.get("period"):
            raise RecordingError(f"nothing is recorded in this time in {source.path}; no file was written.")
    except BaseException:
        with suppress(OSError):
            os.unlink(target)
        raise
    return Export(rows, target.stat().st_size)
