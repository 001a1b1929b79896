"""Check that any job can be displayed, printed, searched and grouped, for fuzzers."""

from __future__ import annotations

import json

from hostile_text import find_harmful_character

from rqtui.engine.filters import parse_filter
from rqtui.model import Job
from rqtui.reports import errors
from rqtui.reports import jobs as documents_of_jobs
from rqtui.text import formats
from rqtui.tui.format import columns, copy_formats

MATCH_FILTER = parse_filter("a !zz")


def check_job_formats(job: Job, now_ms: int) -> None:
    """Format a job as a row and as a document, filter it, group it by error, and check that no text is harmful."""
    row = columns.build_job_row(job, now_ms, 16, tuple(name for name in columns.NAMES if name != "id"))
    assert not find_harmful_character("".join(copy_formats._format_spreadsheet_cell(cell) for cell in row.cells), "")
    document = documents_of_jobs.build_job_document(job)
    json.dumps([document, documents_of_jobs.build_attempt_documents(job)])
    MATCH_FILTER(job)
    errors.normalise_job_error(job)
    for name in ("enqueued_at_ms", "due_at_ms", "reserved_at_ms", "deadline_at_ms"):
        assert document[name] is None or isinstance(document[name], int), name
        formats.format_date_and_time(document[name])
        formats.format_age(document[name])
    for attempt in job.history:
        formats.format_duration(attempt.end_ms - attempt.start_ms)
        formats.format_date_and_time(attempt.start_ms)
