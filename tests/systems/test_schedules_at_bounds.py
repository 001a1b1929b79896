"""Schedules of RQ, BullMQ and Sidekiq whose rows have one value at a bound, compared with `schedules_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_schedules_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kept_text import assert_lines_match_file

from rqtui.model import Schedule
from rqtui.systems.bullmq import system as bullmq
from rqtui.systems.rq import schedules as rq
from rqtui.systems.sidekiq import schedules as sidekiq
from rqtui.text.pickling import write_pickle

KEPT = Path(__file__).with_name("schedules_at_bounds.txt")
NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000


def describe(schedule: Schedule, usual: Schedule | None = None) -> str:
    """Return the texts of a schedule's attributes, or of those that differ from a usual schedule."""
    compared = usual._asdict() if usual else {"last_ms": None, "owner": "", "enabled": True, "problem": ""}
    texts = [f"{name} {value!r}" for name, value in schedule._asdict().items() if compared.get(name, ()) != value]
    return ", ".join(texts) or "the same"


def list_variants(usual: Mapping[str, Any], **values: Sequence[object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the title and the row of a usual row, and of rows of which one column has another value."""
    yield "usual", usual
    for name, each in values.items():
        for value in each:
            yield f"{name} {value!r}", {**usual, name: value}


def format_iso(ms: int) -> str:
    return f"2027-01-15T{7 + (ms >= 0):02}:{'00' if ms >= 0 else '59'}:{(ms // 1000) % 60:02}.{ms % 1000:03}Z"


def cron_jobs_of_rq() -> Iterator[str]:
    cron_job = {"func_name": "send", "queue_name": "mail", "cron": "0 * * * *", "args": "[1]", "kwargs": "{}"}
    usual = {"kind": "scheduler", "name": b"host:7:x", "pid": "7", "hostname": "host", "at_s": str(NOW_S),
             "left_ms": 5, "jobs": json.dumps([cron_job]).encode(), "origin": b""}  # fmt: skip
    late = rq._SCHEDULER_LATE_MS
    changes: list[Mapping[str, object]] = [
        {"name": "nightly"}, {"func_name": ""}, {"cron": "", "interval": 60}, {"cron": ""}, {"queue_name": None},
        {"args": "x"}, {"args": None}, {"kwargs": '{"a": 1}'}, {"next_enqueue_time": "x"},
        *({"next_enqueue_time": format_iso(-late + more)} for more in (-1, 0, 1)),
        {"latest_enqueue_time": format_iso(-1)}, {"latest_enqueue_time": format_iso(0)},
    ]  # fmt: skip
    jobs = [json.dumps([{**cron_job, **change}]).encode() for change in changes]
    silent = rq._SCHEDULER_SILENT_MS
    beats = [f"{(NOW_MS - silent + more) / 1000:.3f}" for more in (-1, 0, 1)]
    variants = list_variants(
        usual, at_s=[*beats, "", "-1"], left_ms=(-2, -1, 0), pid=("8",),
        jobs=[*jobs, b"", b"[]", b"[3]", b"{}"],
    )  # fmt: skip
    enqueued = {"kind": "enqueued", "name": b"send", "at_s": str(NOW_S - 9), "origin": b"mail"}
    for title, row in variants:
        [normal] = rq.build_schedules([usual, enqueued], NOW_MS)
        schedules = rq.build_schedules([row, enqueued], NOW_MS)
        yield f"rq, {title}: {[describe(each, None if title == 'usual' else normal) for each in schedules]}"
    for number in (1, 2, 3):
        for left_ms in (5, -2):
            rows = [{**usual, "name": b"host:7:%d" % at, "left_ms": left_ms} for at in range(number)]
            yield f"rq, {number} schedulers with {left_ms} ms left"
            yield from (
                f"  {describe(each)}" for each in rq.build_schedules([*rows, {**enqueued, "name": b"old"}], NOW_MS)
            )


def jobs_of_rq_scheduler() -> Iterator[str]:
    metas = [
        write_pickle(meta)
        for meta in (
            {"interval": 60}, {"interval": 60, "repeat": 0}, {"interval": 60, "repeat": "x"},
            {"cron_string": "* * * * *"}, {"cron_string": "* * * * *", "repeat": 3},
            {"repeat": 3}, {"interval": 0}, ["x"],
        )
    ]  # fmt: skip
    usual = {"kind": "scheduled", "name": b"a", "origin": b"mail", "description": b"send(1)", "at_s": str(NOW_S),
             "left_ms": -1, "meta": b""}  # fmt: skip
    times = [f"{(NOW_MS - rq._LATE_MS + more) / 1000:.3f}" for more in (-1, 0, 1)]
    for title, row in list_variants(usual, at_s=[*times, "", "-1", "0"], left_ms=(-2, 0), meta=[*metas, b"x"]):
        [normal], [schedule] = (rq.build_schedules([each], NOW_MS) for each in (usual, row))
        yield f"rq-scheduler, {title}: {describe(schedule, None if title == 'usual' else normal)}"


def schedules_of_bullmq() -> Iterator[str]:
    usual = {"id": b"daily", "name": "send", "data": b'{"n": 1}', "next_ms": str(NOW_MS), "every": "",
             "pattern": "0 * * * *", "tz": "", "limit": "", "count": "", "end_date": "",
             "next_state": "delayed"}  # fmt: skip
    times = {"next_ms": ("", "0", "99999999999", "100000000000"), "every": ("0", "1", "1500")}
    texts = {"tz": ("UTC",), "pattern": ("",), "data": (b"", b"x")}
    for state, more in (("delayed", {**times, **texts}), ("gone", {}), ("ended", {})):
        variants = list_variants(
            {**usual, "next_state": state},
            name=("",), end_date=("0", str(NOW_MS - 1), str(NOW_MS + 1)), **more,
        )  # fmt: skip
        limits = [
            (f"{count} of {limit}", {**usual, "next_state": state, "limit": limit, "count": count})
            for limit in ("0", "2") for count in ("", "0", "1", "2", "3")
        ]  # fmt: skip
        for title, row in [*variants, *limits]:
            normal, schedule = (bullmq._build_schedule("bullmq", "mail", each, NOW_MS) for each in (usual, row))
            yield f"bullmq, {state}, {title}: {describe(schedule, None if row == usual else normal)}"


def schedules_of_sidekiq() -> Iterator[str]:
    definition = {"class": "Hard", "args": [1], "queue": "mail", "cron": "0 * * * *"}
    usual = {"kind": "cron", "name": b"daily", "definition": json.dumps(definition).encode(), "args": b"[1]",
             "class": "Hard", "pattern": "0 * * * *", "status": "enabled", "is_there": True,
             "next": "2027-01-15 08:00:00 +0100", "last": "2027-01-15 08:00:00 UTC"}  # fmt: skip
    changes: list[Mapping[str, object]] = [
        {"class": None}, {"args": None}, {"args": 3}, {"queue": None}, {"cron": ["0 1 * * *", {"x": 1}]}, {"cron": []},
        {"cron": None}, *({"cron": None, field: "45m"} for field in ("every", "interval", "at", "in")),
        {"enabled": False}, {"enabled": None},
    ]  # fmt: skip
    for kind in ("cron", "scheduler"):
        variants = list_variants(
            {**usual, "kind": kind, "status": "enabled" if kind == "cron" else ""},
            definition=[*(json.dumps({**definition, **change}).encode() for change in changes), b"x"],
            args=(b"", b"x", b"3"), pattern=("",), is_there=(False,), next=("", "soon", "2027-01-15 08:00:00"),
            last=("", "2027-01-15 08:00:00 -0500"),
            status=("disabled", "") if kind == "cron" else ('{"enabled": false}', '{"enabled": true}'),
            **{"class": ("",)},
        )  # fmt: skip
        for title, row in variants:
            normal, schedule = (sidekiq.build_schedule("sidekiq", each, True) for each in (usual, row))
            yield f"sidekiq, {kind}, {title}: {describe(schedule, None if row == usual else normal)}"
        for status in ("disabled", '{"enabled": false}', "enabled"):
            row = {**usual, "kind": kind, "status": status}
            yield f"sidekiq, {kind} {status}, no process: {describe(sidekiq.build_schedule('sidekiq', row, False))}"


def test_schedules_match_the_stored_text() -> None:
    parts = (cron_jobs_of_rq, jobs_of_rq_scheduler, schedules_of_bullmq, schedules_of_sidekiq)
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
