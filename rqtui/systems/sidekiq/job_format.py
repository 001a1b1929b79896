"""Decode the jobs that Sidekiq stores as JSON: class, arguments, error, times, facts and problems.

Pure functions from bytes to plain values. `system` shows the jobs, and `new_jobs` writes the same format. A job of
ActiveJob is wrapped by a class of its adapter: its inner class and arguments are shown.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rqtui.model import Fact, Place
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import as_dict, as_list, parse_count, parse_float
from rqtui.systems.sidekiq.ruby_calls import BareText, decode_argument, format_job_call
from rqtui.text.body import decompress_zlib
from rqtui.text.fields import parse_partial_body
from rqtui.text.names import to_bytes, to_text

READ_BYTES = 1024 * 1024  # of a longer job only the beginning and the end are read
_TRACE_BYTES = 256 * 1024  # of `error_backtrace`, stored and inflated
MIN_MS_VALUE = 1e11  # larger numbers are ms: as seconds they are after the year 5138
WRAPPERS = ("ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper")  # api.rb 8
_MAILERS = ("ActionMailer::DeliveryJob", "ActionMailer::MailDeliveryJob")
_TRAILING_FIELDS = (
    *("jid", "queue", "created_at", "enqueued_at", "retry", "retry_count", "failed_at", "retried_at", "bid"),
    *("error_class", "error_message"),
)


class DecodedJob(NamedTuple):
    """A job decoded from its JSON: call, error, facts and fields, and `problem` if it could not be decoded."""

    fields: Mapping[str, Any]
    jid: bytes = b""
    name: str = ""
    call: str = ""
    error: str = ""
    problem: str = ""
    facts: tuple[Fact, ...] = ()


@lru_cache(maxsize=2000)
def decode_job(head: bytes, tail: bytes) -> DecodedJob:
    """Decode a job from its bytes, or from its beginning and end.

    Cached, because every poll reads the same jobs again.
    """
    problem = ""
    fields: object
    if tail or len(head) > READ_BYTES:
        fields = _parse_both_ends(head, tail or head[-2048:])
    else:
        try:
            fields = json.loads(head)
        except (ValueError, RecursionError):
            return DecodedJob({}, problem="its bytes are no JSON: Sidekiq loses it when it is due, and cannot run it")
    if not isinstance(fields, dict):
        return DecodedJob({}, problem="its JSON is no object: no job of Sidekiq")
    jid = fields.get("jid")
    name, args = _unwrap_job(fields)
    if not name:
        problem = "it names no class: no worker can run it"
    elif not isinstance(fields.get("args"), list) and not tail:
        problem = "it has no list of arguments: no worker can run it"
    return DecodedJob(
        fields,
        to_bytes(jid) if isinstance(jid, str) and jid.isascii() else b"",
        name,
        format_job_call(name, args) if name else "",
        _format_job_error(fields),
        problem,
        tuple(_build_job_facts(fields, name)),
    )


def _parse_both_ends(head: bytes, tail: bytes) -> object:
    """Parse the fields at the beginning and the end of a long job. The fields at the end follow the arguments."""
    fields = parse_partial_body(head[: 64 * 1024])
    if not isinstance(fields, dict):
        return fields
    ending = tail.decode("utf-8", "replace")
    for name in _TRAILING_FIELDS:
        matches = re.findall(rf'"{name}": ?("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)', ending)
        if matches:
            fields[name] = json.loads(matches[-1], strict=False)
    return fields


def _unwrap_job(fields: Mapping[str, Any]) -> tuple[str, Sequence[object]]:
    """Return the class and arguments of a job: for ActiveJob the inner job, for a mail its mailer and method."""
    name, args = fields.get("class"), as_list(fields.get("args"))
    name = name if isinstance(name, str) else ""
    if name not in WRAPPERS:
        display_class = fields.get("display_class")
        args = [*args[:-1], BareText("[encrypted]")] if fields.get("encrypt") else args
        return display_class if isinstance(display_class, str) else name, args
    inner = as_dict(args[0]) if args else {}
    wrapped = fields.get("wrapped") or inner.get("job_class") or name
    values = [decode_argument(each) for each in as_list(inner.get("arguments"))]
    if wrapped in _MAILERS and len(values) >= 2:
        return f"{values[0]}.{values[1]}", _unwrap_mail_arguments(values[3:])
    return str(wrapped), values


def _unwrap_mail_arguments(values: Sequence[object]) -> list[object]:
    """Return the arguments of a mailer's method. `MailDeliveryJob` stores them in `args`, next to `params`."""
    if len(values) == 1 and isinstance(values[0], dict) and "args" in values[0]:
        inner = values[0]["args"]
        params = [{"params": values[0]["params"]}] if values[0].get("params") else []
        return [*(inner if isinstance(inner, list) else [inner]), *params]
    return list(values)


def _format_job_error(fields: Mapping[str, Any]) -> str:
    """Format the last error of a job as Ruby does: class, message and the lines of its backtrace."""
    kind, message = fields.get("error_class"), fields.get("error_message")
    summary = ": ".join(str(each) for each in (kind, message) if each)
    trace = fields.get("error_backtrace")
    lines = _decode_backtrace(trace) if isinstance(trace, str) else as_list(trace)
    return "\n".join([summary, *(f"    {line}" for line in lines if isinstance(line, str))]) if lines else summary


def _decode_backtrace(text: str) -> Sequence[object]:
    """Decode `error_backtrace`: base64 of zlib of a JSON list (job_retry.rb, since Sidekiq 6).

    Returns an empty list if the text is invalid.
    """
    if len(text) > _TRACE_BYTES:
        return ()
    try:
        lines = json.loads(decompress_zlib(base64.b64decode(text), _TRACE_BYTES))
    except (binascii.Error, ValueError, RecursionError):
        return ()
    return lines if isinstance(lines, list) else ()


def find_job_problems(place: Place, decoded: DecodedJob, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem of a job, such as a missing jid or an invalid time."""
    if decoded.problem:
        yield decoded.problem
        return
    if row["score"] and convert_time_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"
    elif row["score"] and place.name != "work" and float(row["score"]) >= MIN_MS_VALUE:
        yield "its score is in milliseconds: as seconds, which Sidekiq reads, it is due after the year 5000"
    if not decoded.jid:
        yield "it has no jid: Sidekiq's own pages cannot find it"
    if place.name != "dead" and "retry" not in decoded.fields and not row["tail"]:
        yield 'it has no "retry": it vanishes where its class cannot be loaded'
    for name in ("created_at", "enqueued_at", "failed_at", "retried_at"):
        if decoded.fields.get(name) is not None and convert_time_ms(decoded.fields[name]) is None:
            yield f"{name} is no time: {str(decoded.fields[name])[:40]!r}"


def _build_job_facts(fields: Mapping[str, Any], name: str) -> list[Fact]:
    """Build the facts in the JSON of a job that only Sidekiq has, most useful first."""
    batch, retried_s = fields.get("bid"), parse_count(str(fields.get("retry_for")))
    return build_facts(
        (
            ("tags", ", ".join(map(str, as_list(fields.get("tags"))[:20])), "text"),
            ("batch", batch if isinstance(batch, str) else "", "text"),
            _describe_wrapper(fields, name),
            ("first failed", convert_time_ms(fields.get("failed_at")), "instant"),
            ("last failed", convert_time_ms(fields.get("retried_at")), "instant"),
            ("created", convert_time_ms(fields.get("created_at")), "instant"),
            ("retried for", None if retried_s is None else retried_s * 1000, "duration"),
            ("retry", "no: a failure ends it" if fields.get("retry") is False else "", "text"),
        )
    )


def _describe_wrapper(fields: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Return the fact about the class that wraps a job (ActiveJob), as a row of `build_facts`.

    The row is empty if no class wraps the job.
    """
    wrapper, args = fields.get("class"), as_list(fields.get("args"))
    if wrapper in WRAPPERS:
        id = as_dict(args[0]).get("job_id") if args else None
        return "wrapped by", f"ActiveJob {id}" if isinstance(id, str) else "ActiveJob", "text"
    return "class", wrapper if isinstance(wrapper, str) and wrapper != name else "", "text"


def build_run_facts(row: Mapping[str, Any], silent_ms: int | None) -> Iterator[Fact]:
    """Yield the facts about the run of a job, most useful first.

    `silent_ms` is the time since its process sent a heartbeat; None if it is alive.
    """
    if row.get("executions"):
        yield Fact("runs of the iteration", row["executions"])
        yield Fact("cursor", row["cursor"], "json")
    if row.get("runtime") and (ran_s := _parse_seconds(row["runtime"])) is not None:
        yield Fact("iterated for", round(ran_s * 1000), "duration")
    if row["worker"]:
        yield Fact("thread", to_text(row["token"]).rpartition(" ")[2])
    if silent_ms is not None:
        yield Fact("process silent for", silent_ms, "duration")


def _parse_seconds(text: str) -> float | None:
    """Parse a number of seconds; None for a text that is no plausible number."""
    seconds = parse_float(text)
    return seconds if seconds is not None and 0 <= seconds < MIN_MS_VALUE else None


def convert_time_ms(value: object) -> int | None:
    """Convert a time of Sidekiq to ms since 1970; None for a value that is no time.

    Sidekiq 8 writes ms; Sidekiq 7 and scores are in seconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    number = parse_float(value)
    if number is None or not 0 <= number < 9e15:
        return None
    return round(number * 1000) if number < MIN_MS_VALUE else round(number)
