"""Build new BullMQ jobs from columns and options, and check their data. Used by `system`.

BullMQ stores the options of a job as JSON in its field `opts`. An option that only the application itself may set is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rqtui.errors import UsageError

BACKOFF_COLUMNS = ("backoff_ms", "backoff_cap_ms")
_OPTIONS = {  # the columns of `enqueue`, as BullMQ calls them (classes/job.js 6.7, validateOptions)
    "id": "jobId",
    "delay_ms": "delay",
    "priority": "priority",
    "max_attempts": "attempts",
    "lifo": "lifo",
}
_STORED_NAMES = {"keepLogs": "kl"}  # options that BullMQ stores under another name (utils/index.js 6.7, optsEncodeMap)
_REFUSED_OPTIONS = frozenset(
    ["repeat", "parent", "deduplication", "debounce", "de", "telemetry", "tm", "rjk", "repeatJobKey", "prevMillis"]
)


def build_enqueue_columns(row: Mapping[str, object]) -> Mapping[str, object]:
    """Build the `enqueue` columns of a new job. An option in `opts` that has a column of its own is moved to it.

    The other options stay JSON, and a backoff is added to them. Raises UsageError for an option that is wrong or given
    twice, and for data that a worker could not parse.
    """
    given_columns = {name: value for name, value in row.items() if value not in (None, "", b"")}
    base_ms, cap_ms = (given_columns.pop(name, None) for name in BACKOFF_COLUMNS)
    opts = _parse_job_options(given_columns.pop("opts", b""))
    if base_ms is not None:
        if "backoff" in opts:
            raise UsageError("bullmq: backoff is given twice, by itself and in opts.")
        opts = {**opts, "backoff": _build_backoff_option(base_ms, cap_ms)}
    columns = _split_job_options(opts)
    if twice := sorted(columns.keys() & given_columns.keys()):
        raise UsageError(f"bullmq: {_OPTIONS[twice[0]]} is given twice, by itself and in opts.")
    body = bytes(given_columns.get("body", b""))  # type: ignore[call-overload]
    validate_job_data(body)
    return {"id": b"", **columns, **given_columns, "body": body}


def validate_job_data(body: bytes) -> None:
    """Raise UsageError for data that `JSON.parse` refuses, because a job with such data would stall and never fail."""
    try:
        json.loads(body.decode("utf-8"), parse_constant=_refuse_json_constant)
    except (ValueError, RecursionError):
        raise UsageError(
            "bullmq: the data of a job must be JSON: a worker could not read this, and the job would stall "
            'for ever. Put a text in quotes: "hello"; rqtui put accepts it with --raw.'
        ) from None


def _refuse_json_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python parses but which are no JSON."""
    raise ValueError(name)


def _build_backoff_option(base_ms: object, cap_ms: object) -> dict[str, object]:
    """Build the option `backoff` of a job: fixed if base and cap are equal, else exponential.

    Raises UsageError for another cap, because BullMQ doubles the wait without end. Source: classes/backoffs.ts 6.2.
    """
    if cap_ms not in (None, base_ms):
        raise UsageError(
            "bullmq: a backoff has no longest wait: BullMQ doubles the wait after each failure. Give --backoff 1s for "
            "that, or --backoff 1s..1s for the same wait each time."
        )
    return {"type": "exponential" if cap_ms is None else "fixed", "delay": base_ms}


def _parse_job_options(raw: object) -> dict[str, object]:
    """Parse the `opts` of a new job, which are a JSON object or a dict. Raises UsageError for anything else."""
    if not raw:
        return {}
    try:
        opts = json.loads(raw, parse_constant=_refuse_json_constant) if isinstance(raw, str | bytes) else raw
    except (ValueError, RecursionError):
        opts = None
    if not isinstance(opts, dict):
        raise UsageError('bullmq: opts are a JSON object, such as {"attempts": 3}.')
    return dict(opts)


def _split_job_options(opts: dict[str, object]) -> dict[str, object]:
    """Split the `opts` of a new job into `enqueue` columns and the remaining options as JSON.

    Raises UsageError for an option of a wrong type, and for one that only the application itself may set.
    """
    if refused_options := [name for name in opts if name in _REFUSED_OPTIONS]:
        raise UsageError(f"bullmq: only the application itself adds a job with the option {refused_options[0]}.")
    columns = {column: opts.pop(name) for column, name in _OPTIONS.items() if name in opts}
    for column, value in columns.items():
        wanted_type = {"id": str, "lifo": bool}.get(column, int)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (is_number if wanted_type is int else isinstance(value, wanted_type)):
            description = {str: "a text", bool: "true or false"}.get(wanted_type, "a whole number")
            raise UsageError(f"bullmq: {_OPTIONS[column]} in opts is {description}, not {value!r:.60}.")
    if opts:
        stored = {_STORED_NAMES.get(name, name): value for name, value in opts.items()}
        columns["opts"] = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return columns
