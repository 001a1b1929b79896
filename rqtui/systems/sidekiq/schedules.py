"""Build the schedules of sidekiq-cron and of sidekiq-scheduler, two gems that enqueue recurring jobs.

`system` reads their keys (`SCHEDULE_KEYS`) and lists the schedules of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rqtui.model import Schedule
from rqtui.system_base.stored_values import parse_json_object
from rqtui.systems.sidekiq.ruby_calls import decode_argument, format_job_call
from rqtui.text.names import to_bytes, to_text

SCHEDULE_KEYS = {  # lib/sidekiq/cron/job.rb 1.8 and 2; sidekiq-scheduler 5, redis_manager.rb
    "cron_jobs": "cron_jobs",
    "cron_default": "cron_jobs:default",
    "schedules": "schedules",
    "next_times": "sidekiq-scheduler:next_times",
    "last_times": "sidekiq-scheduler:last_times",
    "states": "sidekiq-scheduler:states",
    "processes": "processes",
}
_NO_PROCESS = "no process of Sidekiq runs that could enqueue it"


def build_schedule(system: str, row: Mapping[str, Any], has_process: bool) -> Schedule:
    """Build a schedule from its row. For sidekiq-cron the queue is in the message that the schedule enqueues."""
    record, name = parse_json_object(row["definition"]), to_text(row["name"])
    if row["kind"] == "cron":
        args = _parse_schedule_arguments(row["args"]) if row["args"] else record.get("args")
        kind, pattern = row["class"] or str(record.get("class") or ""), row["pattern"]
        is_enabled = row["status"] != "disabled"
    else:
        args = record.get("args")
        kind, pattern = str(record.get("class") or name), _format_schedule_pattern(record)
        is_enabled = parse_json_object(to_bytes(row["status"])).get("enabled", record.get("enabled", True)) is not False
    problem = "" if has_process or not is_enabled else _NO_PROCESS
    if not row["is_there"]:
        problem = "its record is missing: it is not enqueued"
    elif not pattern or not kind:
        problem = "its record does not say what is enqueued when"
    values = args if isinstance(args, list) else [] if args is None else [args]
    return Schedule(
        name,
        system,
        str(record.get("queue") or "default"),
        pattern,
        format_job_call(kind, [decode_argument(argument) for argument in values]) if kind else "",
        _parse_schedule_time_ms(row["next"]),
        _parse_schedule_time_ms(row["last"]),
        "sidekiq-cron" if row["kind"] == "cron" else "sidekiq-scheduler",
        is_enabled,
        problem,
    )


def _format_schedule_pattern(record: Mapping[str, Any]) -> str:
    """Return when sidekiq-scheduler enqueues a job: its `cron` or a field such as `every 45m`, without options.

    Empty if the record has none of these fields.
    """
    for field in ("cron", "every", "interval", "at", "in"):
        value = record.get(field)
        first = value[0] if isinstance(value, list) and value else value
        if first:
            return str(first) if field == "cron" else f"{field} {first}"
    return ""


def _parse_schedule_arguments(raw: bytes) -> object:
    """Parse the JSON arguments of a schedule. Invalid JSON is returned as one text."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return to_text(raw)


def _parse_schedule_time_ms(text: str) -> int | None:
    """Parse a time of a scheduler, `2026-11-22 04:43:55 +0100` or UTC, to ms; None for no time."""
    try:
        moment = datetime.fromisoformat(re.sub(r" (UTC|Z)$", " +0000", text).replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
