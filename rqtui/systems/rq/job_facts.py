"""Build the facts of an RQ job that the other columns do not show, and the history of its failed runs.

`system` adds them to each job. The table `more` of `show` has what only the page of a single job shows: its hash,
results, dependencies and executions.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.model import Attempt, Fact
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import parse_int
from rqtui.systems.rq.job_format import (
    FORGOTTEN,
    PLACES_BY_STATUS,
    convert_score_ms,
    decode_error,
    format_stored_value,
    parse_time_ms,
)
from rqtui.text.names import to_text

_FAILED, _STOPPED = "2", "3"
RETRIES_LEFT = "retries left"  # the name of a fact
_MAX_FIELD_BYTES = 65_536  # bytes of a result field; longer fields are cut
_DURATIONS = ("result_ttl", "failure_ttl")
_HIDDEN = frozenset({"meta", "dependency_ids", "dependency_id", "result", "last_heartbeat", *_DURATIONS})


def parse_failed_runs(details: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """Parse the failed runs of a job, oldest first.

    RQ stores the results of the last ten runs, except those that were retried.
    """
    runs = []
    for id, fields in _group_detail_rows(details, "result").items():
        if to_text(fields.get("type", b"")) in (_FAILED, _STOPPED):
            kept_ms = int(id.partition(b"-")[0])
            end_ms = convert_score_ms(to_text(fields.get("execution_ended_at", b""))) or kept_ms
            start_ms = convert_score_ms(to_text(fields.get("execution_started_at", b""))) or end_ms
            worker, error = to_text(fields.get("worker_name", b"")), decode_error(fields.get("exc_string", b""))
            runs.append(Attempt(start_ms, end_ms, worker, error))
    return tuple(runs)


def build_job_facts(queue: str, place: str, call: str, row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the facts about a job that only RQ has, most useful first."""
    status, description = row["status"], to_text(row["description"])
    is_elsewhere = status == "stopped" or PLACES_BY_STATUS.get(status, status) != place
    yield from build_facts(
        (
            ("status", status if is_elsewhere else "", "text"),
            ("description", description if description != call else "", "text"),
            (RETRIES_LEFT, row["retries_left"], "text"),
            ("rate limit", row["rate_limit_key"], "text"),
            ("heartbeat", convert_score_ms(row["beat"]), "instant"),
            ("seen by maintenance", convert_score_ms(row["seen"]), "instant"),
        )
    )
    if "more" in row:
        yield from _build_detail_facts(queue, place, row, row["more"])


def _build_detail_facts(
    queue: str, place: str, row: Mapping[str, Any], details: Sequence[Mapping[str, Any]]
) -> Iterator[Fact]:
    """Yield the facts that only `show` reads of a single job: its hash, results, dependencies and executions."""
    fields = _group_detail_rows(details, "field").get(b"", {})
    yield from _build_result_fact(details, fields)
    if fields.get("meta"):
        yield Fact("meta", format_stored_value(fields["meta"]), "json")
    for kind, label in (("dependency", "depends on"), ("dependent", "dependent")):
        for id, record in _group_detail_rows(details, kind).items():
            origin = to_text(record["origin"])
            yield Fact(label, id, "ref", "" if origin == queue else origin)
    for id, record in _group_detail_rows(details, "execution").items():
        worker = to_text(record.get("worker_name", b"")) or "a worker without a name"
        yield Fact("execution", f"{to_text(id)} by {worker}")
        beat_ms = convert_score_ms(to_text(record.get("last_heartbeat", b"")))
        if beat_ms is not None and not row["beat"]:
            yield Fact("heartbeat", beat_ms, "instant")
    yield from _build_lifetime_facts(place, row, fields)
    for name, length in _group_detail_rows(details, "long").get(b"", {}).items():
        yield Fact(name.replace("_", " "), f"{to_text(length)} bytes: too long to show")
    for name, value in fields.items():
        if value and name not in _HIDDEN:
            yield _build_field_fact(name, to_text(value))


def _build_result_fact(details: Sequence[Mapping[str, Any]], fields: Mapping[str, bytes]) -> Iterator[Fact]:
    """Yield the result of a job: that of the newest run that returned a value, else the one in its hash."""
    for result in reversed(_group_detail_rows(details, "result").values()):
        if "return_value" in result:
            raw = result["return_value"]
            if len(raw) >= _MAX_FIELD_BYTES:
                yield Fact("result", f"longer than {_MAX_FIELD_BYTES // 1024} kB")
            else:
                yield Fact("result", _decode_result(raw), "json")
            return
    if fields.get("result"):
        yield Fact("result", format_stored_value(fields["result"]), "json")


def _decode_result(raw: bytes) -> str:
    """Decode the return value of a run to JSON text."""
    try:
        return format_stored_value(base64.b64decode(raw, validate=True))
    except binascii.Error:
        return to_text(raw)


def _build_lifetime_facts(place: str, row: Mapping[str, Any], fields: Mapping[str, bytes]) -> Iterator[Fact]:
    """Yield how long a job may run, wait and be kept, and when its id or its hash is deleted."""
    kept = {name: to_text(fields.get(name, b"")) for name in _DURATIONS}
    for name, text in {"timeout": row["timeout"], "ttl": row["ttl"], **kept}.items():
        label, seconds = name.replace("_", " "), parse_int(text)
        if seconds is not None:
            yield Fact(label, seconds * 1000, "duration") if seconds >= 0 else Fact(label, "for ever")
    if place in FORGOTTEN:
        until_ms = convert_score_ms(row["score"])
        yield Fact("forgotten", "never") if until_ms is None else Fact("forgotten", until_ms, "instant")
    elif row["left_ms"] >= 0:
        yield Fact("hash vanishes", row["now_ms"] + row["left_ms"], "instant")


def _build_field_fact(name: str, text: str) -> Fact:
    """Build the fact of any other field of a job's hash. A field named like a time is shown as a time."""
    label = name.replace("_", " ")
    at_ms = parse_time_ms(text) if name.endswith(("_at", "heartbeat")) else None
    return Fact(label, text) if at_ms is None else Fact(label, at_ms, "instant")


def _group_detail_rows(details: Sequence[Mapping[str, Any]], kind: str) -> dict[bytes, dict[str, bytes]]:
    """Return the rows of one kind in the table of `show`, as a dict of fields per owner."""
    fields_by_owner: dict[bytes, dict[str, bytes]] = {}
    for row in details:
        if row["kind"] == kind:
            fields_by_owner.setdefault(row["of"], {})[to_text(row["name"])] = row["value"]
    return fields_by_owner
