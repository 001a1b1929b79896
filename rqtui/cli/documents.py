"""Build the parts of `--json` documents that several commands share: jobs, ids, texts and outcomes.

All functions are pure, and the formats are a public contract. Points in time are integers that end in `_at_ms`,
durations end in `_ms`. Bytes that are not UTF-8 are written in base64, with `"id_encoding": "base64"` beside an id,
`"queue_encoding"` beside a queue and `"encoding": "base64"` inside a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.reports.jobs import (
    BODY_BYTES,
    build_attempt_documents,
    build_body_document,
    build_fact_documents,
    build_id_fields,
    build_job_document,
    build_queue_fields,
    encode_text,
    escape_undecodable,
    format_command_line_word,
    mask_job_text,
    parse_id,
)
from rqtui.text.masking import mask_text

if TYPE_CHECKING:
    from rqtui.model import EventCoverage, Outcome
    from rqtui.operations.canary import CanaryProgress

__all__ = [
    "BODY_BYTES",
    "build_body_document",
    "mask_job_text",
    "build_fact_documents",
    "build_coverage_fields",
    "build_attempt_documents",
    "parse_id",
    "build_id_fields",
    "build_job_document",
    "format_id",
    "build_outcome_documents",
    "build_queue_fields",
    "escape_undecodable",
    "encode_text",
    "format_command_line_word",
    "build_body_preview",
]


def format_id(id: bytes) -> str:
    """Format a job id for people, with the encoding of `--json` documents; an empty id is `''`."""
    from rqtui.text.sanitise import EMPTY_ID

    return encode_text(id) or EMPTY_ID


def build_body_preview(body: bytes | None) -> str:
    """Return the first 200 bytes of a job's body as one line of text; empty for a missing body."""
    from rqtui.text.body import render_body

    return " ".join(render_body(body[:200]).text.split()) if body else ""


def build_coverage_fields(coverage: EventCoverage | None) -> dict[str, Any]:
    """Build the JSON fields of a place whose jobs are counted from Pub/Sub events; empty for a place with a Redis key.

    `heard_since_at_ms` is when listening began, or null if no process listens. `missed_ms` is how long listening
    failed.
    """
    return {} if coverage is None else {"heard_since_at_ms": coverage.since_ms, "missed_ms": coverage.missed_ms}


def build_canary_document(progress: CanaryProgress | None) -> dict[str, Any] | None:
    """Build the document of the first jobs of a change: how many there are, and how each ended. None: none was sent."""
    if progress is None:
        return None
    return {
        "total": progress.total,
        "done": progress.done,
        "failed": progress.failed,
        "unknown": progress.unknown,
        "jobs": [
            {
                **build_id_fields(record.job.id),
                "outcome": record.end,
                "taken_at_ms": record.taken_ms,
                "ended_at_ms": record.ended_ms,
                "error": mask_job_text(record.error),
            }
            for record in progress.jobs
        ],
    }


def build_outcome_documents(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Build the `results` of `act` as JSON: the id of each job, a word, its meaning, and short values of the reply."""
    return [
        {
            **build_id_fields(outcome.id),
            "word": outcome.word,
            "text": mask_text(escape_undecodable(outcome.text)),
            **{name: _encode_reply_value(value) for name, value in outcome.values.items() if name not in _BULKY},
        }
        for outcome in outcomes
    ]


_BULKY = ("record", "body", "line", "errors")  # the parts of a deleted job; `show` prints them in readable form


def _encode_reply_value(value: object) -> object:
    return encode_text(value) if isinstance(value, str | bytes) else value
