"""The documents of `--json`, made from the model: jobs, queues, findings, outcomes. Pure functions; a contract.

Instants are integers that end in `_at_ms`, durations end in `_ms`. Bytes that are not UTF-8 stand in base64, with
`"id_encoding": "base64"` beside an id and `"encoding": "base64"` inside a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqtui.reports.jobs import BODY_BYTES, body, history, id_bytes, id_fields, job, text

if TYPE_CHECKING:
    from rqtui.model import Finding, Outcome, Queue, Ref, Worker
    from rqtui.unspoken import Unspoken

__all__ = [
    "BODY_BYTES",
    "body",
    "finding",
    "history",
    "id_bytes",
    "id_fields",
    "job",
    "outcomes",
    "queue",
    "remedy",
    "text",
    "unspoken",
    "worker",
]

# What the screen answers with a key, the shell answers with a command.
_REMEDIES = {
    "expired-not-reaped": "rqtui reap {queue}",
    "due-not-dispatched": "rqtui dispatch {queue}",
    "no-live-worker": "start a worker: rqtui work {queue} -- COMMAND",
    "paused": "rqtui act resume {queue}",
    "oldest-ready": "add workers: rqtui work {queue} -- COMMAND",
    "backlog-grows": "add workers: rqtui work {queue} -- COMMAND",
    "dead-near-cap": "rqtui errors {queue}, then rqtui act requeue {queue} --place dead --all",
}


def queue(found: Queue) -> dict[str, Any]:
    """A queue of `snapshot`."""
    return {
        "queue": text(found.name),
        "layout": found.layout,
        "paused": found.paused,
        "workers": found.workers,
        "oldest_ready_ms": found.oldest_ready_ms,
        "overdue": found.overdue,
        "expired": found.expired,
        "places": [
            {"place": count.place, "state": count.state.value, "count": count.count, "exact": count.exact}
            for count in found.counts
        ],
        "verdict": {"severity": found.verdict.severity, "text": found.verdict.text},
        **({"error": found.error} if found.error else {}),
    }


def unspoken(found: Unspoken) -> dict[str, Any]:
    """Another system in the same Redis, of `snapshot`."""
    return {"system": found.system, "keys": found.keys, "queues": found.queues}


def worker(ref: Ref, found: Worker, now_ms: int) -> dict[str, Any]:
    """A worker of `workers`."""
    return {
        "worker": text(found.name),
        "queue": text(ref.queue),
        "layout": ref.layout,
        "beat_at_ms": found.beat_ms,
        "ttl_ms": found.ttl_ms,
        "late": found.is_late(now_ms),
        "order": found.order,
        "started_at_ms": found.started_ms,
        "pid": found.pid or None,
        "host": text(found.host) or None,
        "job": text(found.job) or None,
    }


def finding(found: Finding, words: str, layout: str | None = None) -> dict[str, Any]:
    """FINDING of the command line's page; the remedy is a command where the screen has a key.

    `words` are what means the queue on a command line.
    """
    return {
        "kind": found.kind,
        "severity": found.severity,
        "queue": text(found.queue) or None,
        "layout": layout,
        "keys": [text(key) for key in found.keys],
        "ids": [text(id) for id in found.ids],
        "text": text(found.text),
        "remedy": text(remedy(found, words)),
    }


def remedy(found: Finding, words: str) -> str:
    """What to do about it from a shell."""
    return _REMEDIES[found.kind].format(queue=words) if found.kind in _REMEDIES else found.remedy


def outcomes(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The results of `act`: an id, a word, the word's meaning, and the values of the answer that are short."""
    return [
        {
            **id_fields(outcome.id),
            "word": outcome.word,
            "text": text(outcome.text),
            **{name: _value(value) for name, value in outcome.values.items() if name not in _BULKY},
        }
        for outcome in found
    ]


_BULKY = ("record", "body", "line", "errors")  # the parts of a deleted job; `show` tells them in readable form


def _value(value: object) -> object:
    return text(value) if isinstance(value, str | bytes) else value
