"""Build new RQ jobs from JSON that a person wrote, `{"func": "tasks.add", "args": [1, 2]}`. Used by `system`.

The data of a job is compressed, as a pickle or as JSON (`serializer`). Fields are checked as RQ checks them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from rqtui import durations
from rqtui.errors import UsageError
from rqtui.systems.rq.job_format import MAX_CALL_LENGTH, READ_BYTES, decode_call
from rqtui.text import pickles
from rqtui.text.body import decompress_zlib
from rqtui.text.pickling import write_pickle

_SERIALIZERS: Mapping[str, Callable[[object], bytes]] = {  # rq/serializers.py 3.0
    "pickle": write_pickle,
    "json": lambda value: json.dumps(value).encode(),
}
_FORMAT_HINT = 'a job is written as {"func": "tasks.add", "args": [1, 2], "kwargs": {}}'
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")  # RQ imports it: a module, and a name in it
_COLUMNS = {"timeout": "ttr_ms", "result_ttl": "keep_ms", "failure_ttl": "failure_ttl_ms", "ttl": "ttl_ms"}
_JOB_FIELDS = ("func", "args", "kwargs", *_COLUMNS, "retry", "retry_intervals", "description", "meta", "at_front")


def build_enqueue_columns(body: bytes, serializer: str) -> dict[str, Any]:
    """Build the `enqueue` columns of a job written in JSON, or of `data` copied from a hash. Raises UsageError."""
    if decompress_zlib(body, 1):
        return {"body": body, "description": decode_call(body, READ_BYTES).call}
    job = _parse_written_job(body)
    function, args, kwargs = job["func"], job.get("args", []), job.get("kwargs", {})
    columns: dict[str, Any] = {"description": pickles.format_function_call(function, args, kwargs, MAX_CALL_LENGTH)}
    columns |= {column: _parse_duration_ms(name, job[name]) for name, column in _COLUMNS.items() if name in job}
    columns |= {name: job[name] for name in ("description", "at_front") if name in job}
    if "retry" in job:
        columns["max_attempts"] = job["retry"] + 1
    if "retry_intervals" in job:
        columns["retry_intervals"] = json.dumps(job["retry_intervals"])
    write = _SERIALIZERS[serializer]
    try:
        parts = (function, None, tuple(args) if serializer == "pickle" else args, kwargs)
        columns["body"] = zlib.compress(write(parts))
        if "meta" in job:
            columns["meta"] = write(job["meta"])
    except (RecursionError, UnicodeEncodeError):
        raise UsageError("rq: the arguments are nested too deeply.") from None
    return columns


def _parse_written_job(body: bytes) -> dict[str, Any]:
    """Parse and check a job that a person wrote in JSON. Raises UsageError, whose text explains the format."""
    try:
        job = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"rq: this body is no JSON; {_FORMAT_HINT}.") from None
    if not isinstance(job, dict) or not isinstance(job.get("func"), str):
        raise UsageError(f"rq: this body names no function; {_FORMAT_HINT}.")
    if not _FUNCTION.fullmatch(job["func"]):
        raise UsageError(f'rq: a function is named with its module, as in "tasks.add", not {job["func"]!r:.60}.')
    if unknown := [name for name in job if name not in _JOB_FIELDS]:
        raise UsageError(f'rq: a job has no "{unknown[0]:.40}"; it has {", ".join(_JOB_FIELDS)}.')
    for name, (is_valid, description) in _FIELD_CHECKS.items():
        if name in job and not is_valid(job[name]):
            raise UsageError(f"rq: {name} is {description}, not {job[name]!r:.60}.")
    return job


def _is_small_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000


_FIELD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "args": (lambda value: isinstance(value, list), "a list"),
    "kwargs": (lambda value: isinstance(value, dict), "an object"),
    "meta": (lambda value: isinstance(value, dict), "an object"),
    "description": (lambda value: isinstance(value, str), "a text"),
    "at_front": (lambda value: isinstance(value, bool), "true or false"),
    "retry": (_is_small_count, "how often it is tried again"),
    "retry_intervals": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_small_count, value)),
        "a list of whole seconds",
    ),
}


def _parse_duration_ms(name: str, value: object) -> int:
    """Convert seconds or a duration such as `1h` to ms; -1 (for ever) stays -1. Raises UsageError."""
    # `parse_duration` refuses values of other types.
    lasting_ms = -1 if value == -1 else durations.parse_duration(value, name)  # type: ignore[arg-type]
    check_job_durations({_COLUMNS[name]: lasting_ms})
    return lasting_ms


def check_job_durations(row: Mapping[str, object]) -> None:
    """Raise UsageError for a timeout or ttl that RQ itself refuses (rq/queue.py 3.0, `create_job`)."""
    if row.get("ttr_ms") == 0:
        raise UsageError("rq: timeout is longer than 0; -1 lets a job run for ever.")
    if row.get("ttl_ms") in (0, -1):
        raise UsageError("rq: ttl is longer than 0; a job without one waits for ever.")
