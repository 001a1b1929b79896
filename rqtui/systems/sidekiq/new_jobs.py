"""Build new jobs as Sidekiq's client pushes them, and rewrite stored jobs that are pushed again or change their queue.

`system` uses them for its verbs. Jobs that a person wrote are checked as Sidekiq checks them. A rewrite changes only
the affected fields and keeps all other bytes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from rqtui.errors import UsageError
from rqtui.systems.sidekiq.job_format import MIN_MS_VALUE, WRAPPERS, convert_time_ms
from rqtui.text.json_fields import read_json_fields, replace_json_fields
from rqtui.text.names import to_bytes, to_text

_FORMAT_HINT = 'a job is written as {"class": "HardJob", "args": [1, 2]}'
_JID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_LOCK_FIELDS = ("unique_for", "unique_token", "lock_digest", "unique_digest")  # of Enterprise, sidekiq-unique-jobs
_TIME_FIELDS = ("enqueued_at", "created_at", "retried_at", "failed_at")


def has_ms_times(fields: Mapping[str, Any]) -> bool | None:
    """Return whether a job's times are ms, as Sidekiq 8 writes them; None if it has no times."""
    times = [fields[name] for name in _TIME_FIELDS if isinstance(fields.get(name), int | float)]
    return any(isinstance(time, int) and time >= MIN_MS_VALUE for time in times) if times else None


def _format_time(at_ms: int, in_ms: bool) -> bytes:
    """Format a time as Sidekiq 8 (ms) or an earlier version (seconds) does.

    Sidekiq 8 distinguishes the two by the decimal point.
    """
    return b"%d" % at_ms if in_ms else b"%.3f" % (at_ms / 1000)


def rewrite_for_push(member: bytes, queue: str, now_ms: int, writes_ms: bool, is_retry: bool) -> bytes:
    """Rewrite a job to be enqueued now (`Client#push`), with one retry less if `is_retry`.

    Source: `SortedEntry#retry`, api.rb 6.4 and 8. Raises ValueError if the bytes are no job.
    """
    fields, raw_fields = json.loads(member), read_json_fields(member)
    if not isinstance(fields.get("class"), str) or not isinstance(fields.get("args"), list):
        raise ValueError("it has no class and arguments")
    count = fields.get("retry_count")
    changes: dict[str, bytes | None] = {"at": None}
    if is_retry and isinstance(count, int) and not isinstance(count, bool):
        changes["retry_count"] = b"%d" % (count - 1)
    has_ms = has_ms_times(fields)
    return _add_client_fields(member, raw_fields, queue, now_ms, writes_ms if has_ms is None else has_ms, changes)


def rewrite_for_queue(member: bytes, queue: str, to_queue: str) -> bytes:
    """Rewrite a job of `queue` so that it belongs to `to_queue`, also when it is retried.

    Each value that names `queue` is changed: `queue`, `retry_queue` (job_retry.rb 6.4), and the `queue_name` by which
    ActiveJob enqueues a job again (`retry_on`, core.rb 6.1). A retry queue with another name stays. Raises UsageError
    for a job with a unique lock, and ValueError if the bytes are no job.
    """
    fields = read_json_fields(member)
    if lock := next((name for name in _LOCK_FIELDS if fields.get(name, b"null") not in (b"null", b"false")), ""):
        raise UsageError(f"it has a unique lock ({lock}), which contains the name of its queue.")
    try:
        name = json.dumps(to_queue, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError("its JSON names its queue in UTF-8, and the name of the other queue is not UTF-8.") from None
    changes = {"queue": name}
    if json.loads(fields.get("retry_queue", b"null")) == queue:
        changes["retry_queue"] = name
    if json.loads(fields.get("class", b"null")) in WRAPPERS:
        with suppress(ValueError):  # The arguments are not the one object that ActiveJob writes.
            argument = fields.get("args", b"")[1:-1]
            if json.loads(read_json_fields(argument).get("queue_name", b"null")) == queue:
                changes["args"] = b"[%b]" % replace_json_fields(argument, {"queue_name": name})
    return replace_json_fields(member, changes)


def _add_client_fields(
    body: bytes,
    raw_fields: Mapping[str, bytes],
    queue: str,
    now_ms: int,
    has_ms: bool,
    changes: Mapping[str, bytes | None],
) -> bytes:
    """Add the fields that Sidekiq's client adds to a job, and apply `changes`."""
    defaults = {
        "jid": json.dumps(secrets.token_hex(12)).encode(),
        "queue": json.dumps(queue).encode(),
        "retry": b"true",
        "created_at": _format_time(now_ms, has_ms),
    }
    missing = {name: value for name, value in defaults.items() if raw_fields.get(name, b"null") == b"null"}
    return replace_json_fields(body, {**missing, "enqueued_at": _format_time(now_ms, has_ms), **changes})


def build_enqueue_columns(queue: str, row: Mapping[str, object], now_ms: int, writes_ms: bool) -> dict[str, Any]:
    """Build the `enqueue` columns of a job that a person wrote in JSON. Raises UsageError."""
    body = to_bytes(row["body"])  # type: ignore[arg-type]
    fields = _parse_written_job(body)
    if fields.get("queue", queue) != queue:
        raise UsageError(f'sidekiq: this body says "queue": {fields["queue"]!r:.60}, and it is put into {queue}.')
    jid = to_text(to_bytes(row["id"])) if "id" in row else fields.get("jid")  # type: ignore[arg-type]
    if jid is not None and not (isinstance(jid, str) and _JID.fullmatch(jid)):
        raise UsageError("sidekiq: a jid is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
    due: dict[str, Any] = {}
    if "at" in fields and not {"delay_ms", "due_ms"} & row.keys():
        due["due_ms"] = convert_time_ms(fields["at"])
    delay_ms, due_ms = row.get("delay_ms"), {**row, **due}.get("due_ms")
    is_later = (isinstance(delay_ms, int) and delay_ms > 0) or (isinstance(due_ms, int) and due_ms > now_ms)
    has_ms = has_ms_times(fields)
    jid = jid or secrets.token_hex(12)
    changes: dict[str, bytes | None] = {"at": None, "jid": json.dumps(jid).encode()}
    if is_later:
        changes["enqueued_at"] = None  # it is not enqueued yet (client.rb 8, `atomic_push`)
    has_ms = writes_ms if has_ms is None else has_ms
    return {**due, "id": jid, "body": _add_client_fields(body, read_json_fields(body), queue, now_ms, has_ms, changes)}


def _parse_written_job(body: bytes) -> dict[str, Any]:
    """Parse and check a job that a person wrote in JSON, as `JobUtil#validate` does (job_util.rb 6.4 and 8).

    Raises UsageError for an invalid field.
    """
    try:
        read_json_fields(body)
        body.decode()
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"sidekiq: this body is no JSON object; {_FORMAT_HINT}.") from None
    if "class" not in fields and "job_class" in fields:
        raise UsageError(
            f'sidekiq: a job of ActiveJob is put with what wraps it: {{"class": "{WRAPPERS[1]}", '
            '"wrapped": "MailJob", "args": [{"job_class": "MailJob", …}]}.'
        )
    for name, (is_valid, description) in _FIELD_CHECKS.items():
        if name in fields and not is_valid(fields[name]):
            raise UsageError(f'sidekiq: "{name}" is {description}, not {fields[name]!r:.60}; {_FORMAT_HINT}.')
    if missing := [name for name in ("class", "args") if name not in fields]:
        raise UsageError(f'sidekiq: this body has no "{missing[0]}"; {_FORMAT_HINT}.')
    return dict(fields)


_FIELD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "class": (lambda value: isinstance(value, str) and bool(value), "the name of a class"),
    "args": (lambda value: isinstance(value, list), "a list"),
    "queue": (lambda value: isinstance(value, str) and bool(value), "the name of a queue"),
    "retry": (lambda value: isinstance(value, bool) or _is_count_value(value), "true, false, or how often"),
    "retry_for": (
        lambda value: _is_count_value(value) and value <= 1_000_000_000,
        "seconds, from the first failure on",
    ),
    "at": (lambda value: convert_time_ms(value) is not None, "when it is due, in seconds"),
    "tags": (lambda value: isinstance(value, list), "a list"),
}


def _is_count_value(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
