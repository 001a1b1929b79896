"""Build the facts of a BullMQ job that the other columns do not show: progress, result, flow, log and options.

`system` adds them to each job. Links lead to the parents and children of a job in its flow. `OBSTACLES` names the facts
with which a job cannot be moved to another system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.model import Fact
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import parse_float, parse_int
from rqtui.systems.bullmq.job_format import parse_json_object, parse_time_ms
from rqtui.text.names import to_bytes, to_text

_STALLS = {"": "", "0": "", "1": "once"}  # by the field `stc`
_CHILD_LABELS = {  # labels of a job's children by their state
    "waits": "waits for",
    "processed": "child done",
    "ignored": "child ignored",
    "failed": "child failed",
    "gone": "child gone",
}
OBSTACLES = {
    "scheduler": "it is the next job of a scheduler, which would stop without it",
    **dict.fromkeys(("parent", "its parent"), "it belongs to a flow: its parent waits for it, or uses its result"),
    **dict.fromkeys(
        (*_CHILD_LABELS.values(), "child", "children"), "it belongs to a flow: it needs its children's results"
    ),
}


def build_job_facts(
    prefix: str, queue: str, is_reserved: bool, attempts: int, row: Mapping[str, Any]
) -> Iterator[Fact]:
    """Yield the facts about a job that only BullMQ has, most useful first.

    `prefix` is the prefix of all BullMQ keys. Only a row of `show` has the table `more`, and so all facts.
    """
    details: Sequence[Mapping[str, Any]] = row.get("more", ())
    fields = {to_text(detail["name"]): detail["value"] for detail in details if detail["kind"] == "field"}
    if "progress" in fields:
        yield _build_progress_fact(fields.pop("progress"))
    stalls, starts, lock_ms = row["stc"], parse_int(row["ats"]), row["lock_ms"]
    yield from build_facts(
        (
            ("will fail", row["defa"], "text"),
            ("stalled", _STALLS.get(stalls, f"{stalls} times"), "text"),
            ("starts", "" if starts in (None, attempts + is_reserved) else str(starts), "text"),
            ("lock lives", lock_ms if is_reserved and lock_ms >= 0 else None, "duration"),
            ("lock", "none: no worker runs it" if is_reserved and lock_ms < 0 else "", "text"),
            ("scheduler", to_text(row["rjk"]), "text"),
            ("dedup id", to_text(row["deid"]), "text"),
        )
    )
    if "more" in row:
        yield from _build_detail_facts(prefix, queue, row["opts"], details, fields)


def _build_detail_facts(
    prefix: str, queue: str, opts: bytes, details: Sequence[Mapping[str, Any]], fields: dict[str, bytes]
) -> Iterator[Fact]:
    """Yield the facts that only `show` reads of a single job: its result, flow, log, options and other fields."""
    if "returnvalue" in fields:
        yield Fact("result", to_text(fields.pop("returnvalue")), "json")
    yield from _build_flow_links(prefix, queue, details)
    yield from _build_log_facts(details)
    if parse_json_object(opts).keys() - {"attempts"}:
        yield Fact("opts", to_text(opts), "json")
    for detail in details:
        if detail["kind"] == "long":
            yield Fact(to_text(detail["name"]), f"{to_text(detail['value'])} bytes: too long to show")
    for name, value in fields.items():
        at_ms = parse_time_ms(to_text(value)) if name.endswith(("On", "At")) else None
        yield Fact(name, to_text(value)) if at_ms is None else Fact(name, at_ms, "instant")


def _build_progress_fact(raw: bytes) -> Fact:
    """Build the fact of a job's progress: a number is a percentage, any other value is shown as JSON."""
    number = parse_float(to_text(raw))
    return Fact("progress", f"{number:g} %") if number is not None else Fact("progress", to_text(raw), "json")


def _build_flow_links(prefix: str, queue: str, details: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield links to the parents of a job, the nearest first, and to its children and their children."""
    for number, detail in enumerate(detail for detail in details if detail["kind"] == "parent"):
        yield _build_job_link(prefix, "parent" if number == 0 else "its parent", detail["name"], queue)
    labels = {detail["of"]: to_text(detail["value"]) for detail in details if detail["kind"] == "name"}
    child_counts = {to_text(detail["name"]): detail["value"] for detail in details if detail["kind"] == "children"}
    listed = 0
    for detail in details:
        if detail["kind"] == "child":
            listed += 1
            label = _CHILD_LABELS.get(labels.get(detail["name"]) or to_text(detail["value"]), "child")
            yield _build_job_link(prefix, label, detail["name"], queue)
            for grandchild in details:
                if grandchild["kind"] == "below" and grandchild["of"] == detail["name"]:
                    grandchild_label = _CHILD_LABELS.get(to_text(grandchild["value"]), "child")
                    yield _build_job_link(prefix, f"└ {grandchild_label}", grandchild["name"], queue)
    total = sum(int(value) for value in child_counts.values())
    if total > listed:
        yield Fact(
            "children", ", ".join(f"{to_text(value)} {label}" for label, value in child_counts.items() if value != b"0")
        )


def _build_job_link(prefix: str, name: str, key: bytes, queue: str) -> Fact:
    """Build a link to another job from its key. A key with another prefix is shown as text."""
    own_prefix = to_bytes(prefix) + b":"
    queue_bytes, colon, id = key[len(own_prefix) :].partition(b":")
    if not key.startswith(own_prefix) or not colon:
        return Fact(name, to_text(key))
    return Fact(name, id, "ref", "" if to_text(queue_bytes) == queue else to_text(queue_bytes))


def _build_log_facts(details: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield the lines of a job's log as one fact, whose label has the number of all lines if not all were read."""
    lines = [to_text(detail["value"]) for detail in details if detail["kind"] == "log"]
    if lines:
        line_count = next((int(detail["value"]) for detail in details if detail["kind"] == "logged"), 0)
        yield Fact("log" if line_count <= len(lines) else f"log, {line_count} lines", "\n".join(lines), "trace")
