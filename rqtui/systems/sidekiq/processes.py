"""Build the workers of Sidekiq from the hashes that its processes write with each heartbeat.

Used by `system`. `info` is the JSON object of a process, with its queues; since Sidekiq 7 its capsules have queues too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rqtui.model import Fact, Worker
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import as_dict, as_list, parse_count, parse_json_object
from rqtui.systems.sidekiq.job_format import convert_time_ms
from rqtui.systems.sidekiq.lost_jobs import LATE_MS
from rqtui.text.formats import format_quantity, format_size
from rqtui.text.names import to_text

_ORDERS = {"TSTP": "quiet", "USR1": "quiet", "TERM": "stop"}


def build_worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker | None:
    """Build a Sidekiq process from its row; None if only its name is left in Redis."""
    info = parse_json_object(row["info"])
    if not info:
        return None
    is_quiet = row["quiet"] == "true"
    is_late = not 0 <= row["beat_ms"] <= LATE_MS
    busy = parse_count(row["busy"]) or 0
    state = "silent" if is_late else "quiet" if is_quiet else "busy" if busy else "idle"
    return Worker(
        to_text(row["worker"]),
        queue,
        now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else 0,
        LATE_MS,
        _ORDERS.get(row["order"], "quiet" if is_quiet else "run"),
        str(info.get("pid") or ""),
        str(info.get("hostname") or ""),
        convert_time_ms(info.get("started_at")),
        b"",
        _list_served_queues(info),
        state,
        tuple(_build_worker_facts(info, row, busy)),
    )


def _list_served_queues(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the queues that a process serves: those of its capsules and those of its own list."""
    capsules = as_dict(info.get("capsules")).values()
    names = [name for capsule in capsules for name in as_dict(as_dict(capsule).get("weights"))]
    names += [name for name in as_list(info.get("queues")) if isinstance(name, str)]
    return tuple(dict.fromkeys(names))


def _build_worker_facts(info: Mapping[str, Any], row: Mapping[str, Any], busy: int) -> list[Fact]:
    """Build the facts about a process that only Sidekiq has."""
    threads = parse_count(row["concurrency"]) or parse_count(str(info.get("concurrency", "")))
    rss_kb, rtt_us = parse_count(row["rss"]), parse_count(row["rtt_us"])
    capsules, version = as_dict(info.get("capsules")), info.get("version")
    return build_facts(
        (
            ("busy", f"{busy} of {threads}" if threads else str(busy), "text"),
            ("rss", "" if rss_kb is None else format_size(rss_kb * 1024), "text"),
            ("rtt", "" if rtt_us is None else f"{rtt_us / 1000:.1f} ms", "text"),
            ("version", f"Sidekiq {version}" if isinstance(version, str) else "", "text"),
            ("tag", str(info.get("tag") or ""), "text"),
            ("labels", ", ".join(map(str, as_list(info.get("labels")))), "text"),
            ("capsules", ", ".join(_format_capsules(capsules)) if len(capsules) > 1 else "", "text"),
            ("embedded", "yes: it obeys no signals" if info.get("embedded") is True else "", "text"),
        )
    )


def _format_capsules(capsules: Mapping[str, Any]) -> Iterator[str]:
    """Yield each capsule of a process as `name (threads: queues)`."""
    for name, capsule in capsules.items():
        threads = parse_count(str(as_dict(capsule).get("concurrency")))
        queues = ", ".join(as_dict(as_dict(capsule).get("weights")))
        yield f"{name} ({'threads' if threads is None else format_quantity(threads, 'thread')}: {queues})"
