"""The parts of `--json` documents that several commands share: jobs, ids, texts, outcomes. Pure functions; a contract.

Instants are integers that end in `_at_ms`, durations end in `_ms`. Bytes that are not UTF-8 stand in base64, with
`"id_encoding": "base64"` beside an id, `"queue_encoding"` beside a queue and `"encoding": "base64"` inside a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.reports.jobs import (
    BODY_BYTES,
    body,
    facts,
    history,
    id_bytes,
    id_fields,
    job,
    queue_fields,
    sentence,
    text,
    word,
)

if TYPE_CHECKING:
    from rqtui.model import Hearing, Outcome

__all__ = [
    "BODY_BYTES",
    "body",
    "facts",
    "heard_fields",
    "history",
    "id_bytes",
    "id_fields",
    "job",
    "label",
    "outcomes",
    "queue_fields",
    "sentence",
    "text",
    "word",
]


def label(id: bytes) -> str:
    """An id for people, as documents write it; an empty one as `''`."""
    from rqtui.text.sanitise import EMPTY_ID

    return text(id) or EMPTY_ID


def heard_fields(found: Hearing | None) -> dict[str, Any]:
    """Of a place without a key, since when somebody listens (null: nobody does) and for how long that failed."""
    return {} if found is None else {"heard_since_at_ms": found.since_ms, "missed_ms": found.missed_ms}


def outcomes(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The results of `act`: an id, a word, the word's meaning, and the values of the answer that are short."""
    return [
        {
            **id_fields(outcome.id),
            "word": outcome.word,
            "text": sentence(outcome.text),
            **{name: _value(value) for name, value in outcome.values.items() if name not in _BULKY},
        }
        for outcome in found
    ]


_BULKY = ("record", "body", "line", "errors")  # the parts of a deleted job; `show` tells them in readable form


def _value(value: object) -> object:
    return text(value) if isinstance(value, str | bytes) else value
