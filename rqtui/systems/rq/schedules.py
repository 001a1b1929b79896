"""Build the schedules of RQ's cron schedulers and of rq-scheduler, another package that enqueues recurring jobs.

`system` lists them. A scheduler of RQ 3.0 stores its jobs as JSON; a job of rq-scheduler has its times in its `meta`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.model import Schedule
from rqtui.system_base.stored_values import as_dict, parse_json
from rqtui.systems.rq.job_format import (
    GONE,
    MAX_CALL_LENGTH,
    READ_BYTES,
    convert_score_ms,
    decode_stored_value,
    parse_time_ms,
)
from rqtui.text import pickles
from rqtui.text.names import to_bytes, to_text

_LATE_MS = 150_000  # rq_scheduler/scheduler.py 0.14: it looks every 60 s, unless it was started with another interval
_DEAD_SCHEDULER = "its scheduler died: it is enqueued no more"
_LATE_SCHEDULER = "its scheduler does not enqueue it: it hangs or died"
_SCHEDULER_SILENT_MS = 75_000  # a scheduler sends a heartbeat at least every minute
_SCHEDULER_LATE_MS = 4_000  # a scheduler wakes when a run is due


def build_schedules(rows: Sequence[Mapping[str, Any]], now_ms: int) -> tuple[Schedule, ...]:
    """Build a schedule for each job of each cron scheduler. A job of several schedulers gets a problem.

    Of a dead scheduler whose record expired, only the names and last runs of its jobs are left.
    """
    enqueued = {row["name"]: convert_score_ms(row["at_s"]) for row in rows if row["kind"] == "enqueued"}
    schedules: list[Schedule] = []
    for row in rows:
        if row["kind"] == "scheduler":
            schedules += _build_schedules_of_scheduler(row, enqueued, now_ms)
        elif row["kind"] == "scheduled":
            schedules.append(_parse_scheduled_job(row, now_ms))
    schedulers_by_schedule = Counter(
        (schedule.name, schedule.queue, schedule.call, schedule.pattern) for schedule in schedules if schedule.enabled
    )
    names = {each.name for each in schedules}
    if any(row["kind"] == "scheduler" and row["left_ms"] == GONE for row in rows):
        schedules += (
            Schedule(
                name,
                "rq",
                to_text(row["origin"]),
                "",
                last_ms=convert_score_ms(row["at_s"]),
                enabled=False,
                problem=_DEAD_SCHEDULER,
            )
            for row in rows
            if row["kind"] == "enqueued" and (name := to_text(row["name"])) not in names
        )
    return tuple(
        schedule._replace(problem=f"{scheduler_count} schedulers enqueue it, each of them")
        if schedule.enabled
        and not schedule.problem
        and (scheduler_count := schedulers_by_schedule[schedule.name, schedule.queue, schedule.call, schedule.pattern])
        > 1
        else schedule
        for schedule in schedules
    )


def _build_schedules_of_scheduler(
    row: Mapping[str, Any], enqueued: Mapping[bytes, int | None], now_ms: int
) -> Iterator[Schedule]:
    """Yield the schedules of one cron scheduler, as the scheduler stored them in Redis."""
    owner = to_text(row["name"])  # by default host:pid:…
    if row["pid"] not in owner:
        owner += f" {row['pid']}@{row['hostname']}"
    beat_ms = convert_score_ms(row["at_s"])
    is_registered = row["left_ms"] != GONE and (beat_ms is None or now_ms - beat_ms < _SCHEDULER_SILENT_MS)
    problem = "" if is_registered else _DEAD_SCHEDULER
    jobs = parse_json(row["jobs"])
    if not isinstance(jobs, list):
        problem = problem or "its scheduler does not say what it enqueues: RQ does so from 3.0 on"
        yield Schedule(to_text(row["name"]), "rq", "", "", owner=owner, enabled=is_registered, problem=problem)
        return
    for job in jobs:
        fields = {str(name): value for name, value in job.items()} if isinstance(job, dict) else {}
        function = str(fields.get("func_name") or "")
        name = str(fields.get("name") or function)
        interval, cron = fields.get("interval"), fields.get("cron")
        next_ms = parse_time_ms(str(fields.get("next_enqueue_time") or ""))
        is_late = next_ms is not None and now_ms - next_ms > _SCHEDULER_LATE_MS
        last_ms = parse_time_ms(str(fields.get("latest_enqueue_time") or ""))
        yield Schedule(
            name,
            "rq",
            str(fields.get("queue_name") or ""),
            str(cron) if cron else f"every {interval} s" if interval else "",
            pickles.format_function_call(
                function,
                _parse_cron_arguments(fields.get("args")),
                _parse_cron_arguments(fields.get("kwargs")),
                MAX_CALL_LENGTH,
            ),
            next_ms,
            last_ms if last_ms is not None else enqueued.get(to_bytes(name)),
            owner,
            is_registered,
            problem
            or ("" if function else "its scheduler wrote what is no job")
            or (_LATE_SCHEDULER if is_late else ""),
        )


def _parse_cron_arguments(value: object) -> object:
    """Parse the arguments of a cron job, which are JSON inside JSON.

    Text that is no JSON is returned as one plain value.
    """
    try:
        return json.loads(value) if isinstance(value, str) else ()
    except (ValueError, RecursionError):
        return [pickles.Name("", str(value))]


def _parse_scheduled_job(row: Mapping[str, Any], now_ms: int) -> Schedule:
    """Build the schedule of a job of rq-scheduler 0.14: the job itself is enqueued again and again, or once.

    Its `meta` has `interval` (s) or `cron_string`, and `repeat`, the number of runs that are left.
    """
    try:
        meta = pickles.convert_to_json_types(decode_stored_value(row["meta"], READ_BYTES)) if row["meta"] else {}
    except ValueError:
        meta = None
    interval, cron, repeat = (as_dict(meta).get(name) for name in ("interval", "cron_string", "repeat"))
    is_missing = row["left_ms"] == GONE
    once = "" if meta is None or is_missing else "once"
    pattern = f"every {interval} s" if interval else str(cron) if cron else once
    pattern += f", {repeat} more times" if isinstance(repeat, int) and pattern not in ("", "once") else ""
    next_ms = convert_score_ms(row["at_s"])
    problem = ""
    if is_missing:
        problem = "its job is missing: rq-scheduler drops it"
    elif meta is None:
        problem = "its meta cannot be read: when it runs again is unknown"
    elif next_ms is not None and next_ms < now_ms - _LATE_MS:
        problem = "it is overdue: no rq-scheduler seems to run"
    return Schedule(
        to_text(row["name"]),
        "rq",
        to_text(row["origin"]),
        pattern,
        to_text(row["description"]),
        next_ms,
        problem=problem,
    )
