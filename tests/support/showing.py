"""One job, whatever it holds, as it is shown, printed, searched and grouped: for fuzzers."""

from __future__ import annotations

import json

from hostile import harm

from rqtui.engine.filters import parse
from rqtui.model import Job
from rqtui.reports import errors
from rqtui.reports import jobs as documents_of_jobs
from rqtui.text import formats
from rqtui.tui.format import columns, copy_formats

EVERYTHING = parse("a !zz")


def show(job: Job, now_ms: int) -> None:
    """One job in a row, a document, a filter, a group of errors."""
    row = columns.row(job, now_ms, 16, tuple(name for name in columns.NAMES if name != "id"))
    assert not harm("".join(copy_formats._words(cell) for cell in row.cells), "")
    document = documents_of_jobs.job(job)
    json.dumps([document, documents_of_jobs.history(job)])
    EVERYTHING(job)
    errors.message(job)
    for name in ("enqueued_at_ms", "due_at_ms", "reserved_at_ms", "deadline_at_ms"):
        assert document[name] is None or isinstance(document[name], int), name
        formats.moment(document[name])
        formats.age(document[name])
    for attempt in job.history:
        formats.duration(attempt.end_ms - attempt.start_ms)
        formats.moment(attempt.start_ms)
