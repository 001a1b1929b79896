"""Read the attributes of jobs by which jobs are grouped and compared: body fields, kind, worker, error, hours, sizes.

All values are masked: a value under a secret's name is replaced, and so are secrets inside texts. Pure functions,
called by the reports `groups` and `comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from rqtui.engine.job_times import find_end_ms, find_start_ms
from rqtui.model import Job, State
from rqtui.text import paths
from rqtui.text.causes import find_short_error_cause
from rqtui.text.fields import Number, read_body_fields
from rqtui.text.masking import MASK, is_secret_name, mask_text

BODY_BYTES = 4096  # of each body; of a longer one only the fields at its beginning are compared
RESULT_ATTRIBUTES = frozenset({"attempts", "run_ms"})  # known only after a run, so they do not cause its failure
TIME_ATTRIBUTES = frozenset({"enqueued_hour", "ended_hour"})  # often differ only because places keep jobs differently
GROUP_FIELDS = ("kind", "worker", "host", "error", "age")  # in addition to the paths of body fields
AGES = (  # ascending: each is the upper bound of the ages with this name (ms), and the filter that selects them
    (60_000, "under 1 minute", "age<1m"),
    (600_000, "1 to 10 minutes", "age>=1m age<10m"),
    (3_600_000, "10 to 60 minutes", "age>=10m age<60m"),
    (21_600_000, "1 to 6 hours", "age>=1h age<6h"),
    (86_400_000, "6 to 24 hours", "age>=6h age<24h"),
    (604_800_000, "1 to 7 days", "age>=1d age<7d"),
    (float("inf"), "7 days or more", "age>=7d"),
)
AGE_FILTERS = {name: expression for _bound, name, expression in AGES}  # in the order of the ages


def read_attributes(job: Job, host: str = "") -> dict[str, str]:
    """Return the attributes of a job by name: body fields as `.path`, then `kind`, `worker`, `host` and the others.

    `host` is the machine of the job's worker. An attribute that the job lacks, or that is unknown, is missing. Numbers
    are `Number`. Hours are in UTC.
    """
    attributes = {f".{path}": _mask_value(value) for path, value in read_body_fields(job.body or b"").items()}
    attributes["body_bytes"] = Number(job.body_bytes or len(job.body or b""))
    for name, text in (("kind", job.name), ("worker", job.worker), ("host", host)):
        if text:
            attributes[name] = mask_text(text)
    for name, number in (("attempts", job.attempts), ("run_ms", compute_run_ms(job)), ("priority", job.priority)):
        if number is not None:
            attributes[name] = Number(number)
    for name, at_ms in (("enqueued_hour", job.enqueued_ms), ("ended_hour", find_end_ms(job))):
        if at_ms:
            attributes[name] = _format_hour(at_ms)
    return attributes


def _mask_value(value: str) -> str:
    masked = mask_text(value)
    return value if masked == value else masked  # A `Number` stays one.


def _format_hour(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:00}"
    except (OverflowError, OSError, ValueError):
        return str(at_ms)


def compute_run_ms(job: Job) -> int | None:
    """Return the duration of the last run of an ended job in ms, or None if that is unknown."""
    end_ms = find_end_ms(job)
    if job.ran_ms is not None or end_ms is None or job.reserved_ms is None or job.state is not State.DONE:
        return job.ran_ms
    return max(0, end_ms - job.reserved_ms)


def is_group_field(field: str) -> bool:
    """Return whether jobs can be grouped by a field: one of `GROUP_FIELDS`, or a path that begins with a dot."""
    return field in GROUP_FIELDS or (field.startswith(".") and len(field) > 1)


def list_group_values(
    job: Job, field: str, now_ms: int, find_host: Callable[[str], str] = lambda _worker: ""
) -> list[str] | None:
    """Return the values of a job in a field of `is_group_field`; empty if it has none, None if they are unknown.

    `find_host` returns the host of a worker by its name, "" for an unknown host.

    The values of a path are those that a filter `.path:value` compares. A path through a list may have several values.
    A body that was not read whole has unknown values, as in a filter.
    """
    if field.startswith("."):
        return _list_path_values(job, field[1:])
    if field == "age":
        start_ms = find_start_ms(job)
        return None if start_ms is None else [name_age(now_ms - start_ms)]
    if field == "host":
        host = find_host(job.worker)
        return [] if not job.worker else [mask_text(host)] if host else None
    text = {"kind": job.name, "worker": job.worker, "error": find_short_error_cause(job.error)}[field]
    return [mask_text(text)] if text else []


def _list_path_values(job: Job, path: str) -> list[str] | None:
    body = job.body or b""
    if len(body) < job.body_bytes:
        return None
    is_secret = any(map(is_secret_name, path.split(".")))
    return list(dict.fromkeys(MASK if is_secret else mask_text(text) for text in _yield_path_texts(body, path)))


def _yield_path_texts(body: bytes, path: str) -> Iterator[str]:
    return map(paths.format_searchable_value, paths.find_values_at_path(paths.decode_body(body), path.split(".")))


def name_age(age_ms: int) -> str:
    """Return the name of the range of ages that contains an age in ms, such as `1 to 10 minutes`."""
    return next(name for bound, name, _expression in AGES if age_ms < bound)
