"""Jobs of foreign systems whose rows have one value at a bound, compared with the texts in `jobs_at_bounds/`.

A text has the jobs of a usual row in each place, and then the attributes that another value of one column changes.
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/systems/test_jobs_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bare_objects import describe
from kept_text import assert_lines_match_file

from rqtui.model import Job, MigrationTerms
from rqtui.systems import orizuru, registry
from rqtui.systems.sidekiq.lost_jobs import LATE_MS
from rqtui.text.pickling import write_pickle

KEPT = Path(__file__).with_name("jobs_at_bounds")
NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
DAY_MS = 86_400_000
_ALWAYS_THE_SAME = ("system", "member")
_EMPTY = ("", "''", "b''", "None", "0", "[]", "False")
ZERO_VALUES: Mapping[str, object] = {"bytes": b"", "str": "", "int": 0, "bool": False, "float": 0.0}
TIMES = ("0", "-1", "99999999999", "100000000000", "inf", "nan", "soon", "")


class Rows(NamedTuple):
    """A system with its options, its usual row, other values of single columns, and titled changes of several."""

    spec: str
    usual: Mapping[str, object]
    values: Mapping[str, Sequence[object]]
    changes: Mapping[str, Mapping[str, object]] = {}
    places: Sequence[str] = ()  # empty: all


def cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:60]}… ({len(text)})"


def vary(
    write: Callable[..., bytes], column: str, prefix: str = "", **values: Sequence[object]
) -> dict[str, dict[str, object]]:
    """Return titled changes of a column and its size: one field of the bytes in the column has another value."""
    varied = {
        f"{prefix}{name} {cut(repr(value))}": write(**{name: value}) for name, each in values.items() for value in each
    }
    return {title: {column: written, "size": len(written)} for title, written in varied.items()}


def write_arq_record(**changes: object) -> bytes:
    return write_pickle({"t": 2, "f": "send", "a": (1,), "k": {}, "et": NOW_MS - 9, **changes})


def write_arq_result(**changes: object) -> bytes:
    times = {"st": NOW_MS - 8, "ft": NOW_MS - 3}
    return write_pickle(
        {"t": 2, "f": "send", "a": (1,), "k": {}, "et": NOW_MS - 9, "s": True, "r": 5, **times, "q": "mail", **changes}
    )


def write_celery_message(**headers: object) -> bytes:
    properties = {"delivery_tag": "t1", "priority": 3, "delivery_info": {"exchange": "", "routing_key": "mail"}}
    message = {
        "body": base64.b64encode(b"[[1], {}, {}]").decode(),
        "headers": {"id": "a1", "task": "add", "argsrepr": "(1,)", "kwargsrepr": "{}", **headers},
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "properties": {**properties, "body_encoding": "base64"},
    }
    return json.dumps(message).encode()


def write_unacked_message(**headers: object) -> bytes:
    return b'[%s, "", "mail"]' % write_celery_message(**headers)


def write_sidekiq_job(**changes: object) -> bytes:
    return json.dumps(
        {"class": "Hard", "args": [1], "jid": "a1", "retry": True, "enqueued_at": NOW_S - 5, **changes}
    ).encode()


def entry(body: bytes) -> dict[str, object]:
    return {"head": body, "size": len(body)}


RECORD, RESULT = write_arq_record(), write_arq_result()
CELERY_HEADERS: dict[str, Sequence[object]] = {
    "retries": (-1, 0, 2, "x"),
    "eta": [f"2027-01-15T0{time}+00:00" for time in ("7:59:59", "8:00:00", "8:00:00.001", "8:59:00", "8:59:00.001")],
    "expires": [f"2027-01-15T0{time}+00:00" for time in ("7:59:59.999", "8:00:00", "8:00:00.001")],
    "timelimit": ([None, None], [60, 30], [None, 30], [1], [-1, 0], 3),
    "group": ("g1", 3),
    "task": (None, 3),
}
ROWS: Mapping[str, Rows] = {
    "safe_pop": Rows(
        "safe_pop:timeout_s=30",
        {"id": b"a", "member": b"a|9", "size": 3, "time": NOW_S - 9, "bytes": 1, "body": b"x"},
        {
            "time": (-2, -1, 0, 1, NOW_S - 1, NOW_S, NOW_S + 1),
            "bytes": (-1, 0, 1),
            "body": (b"",),
            "size": (2, 3, 4),
        },
        {"an empty body": {"bytes": 0, "body": b""}},
    ),
    "timeout_sets": Rows(
        "timeout_sets:lock_ms=1000,items=integer",
        {**entry(b"7"), "lock": b"1800000000000000-1 w1", "lock_ms": 5, "late_ms": -1},
        {
            "lock_ms": (-3, -2, -1, 0, 1),
            "late_ms": (-1, 0, 1),
            "lock": (b"", b"1800000000000999-1", b"1800000000000000-1 ", b"180000000000000-1 w1"),
            "size": (0, 1, 2),
            "head": (b"0", b"07", b"-7", b"-0", b"x", b""),
        },
        {f"no lock, late {late_ms}": {"lock_ms": -2, "late_ms": late_ms} for late_ms in (-1, 0, 1)},
    ),
    "redisched": Rows(
        "redisched:ttr_ms=30000",
        {"id": b"a", "score": b"%d" % NOW_MS, "bytes": 1, "body": b"x", "has_body": True, "expiries": 2},
        {
            "score": (b"0", b"-1", b"99999999999", b"100000000000", b"9007199254740992", b"9007199254740994", b"inf",
                      b"nan", b"x", b"", b"-9007199254740", b"-9007199254741"),
            "body": (b"",), "bytes": (0,), "has_body": (False,), "expiries": (0, 1), "both": (False, True),
        },
        {"nowhere": {"both": False, "score": b""}, "an empty body": {"bytes": 0, "body": b""}},
    ),
    "orizuru": Rows(
        "orizuru:source=mail,silent_ms=60000",
        {**entry(b"\x91\x01"), "worker": b"w1", "beat_ms": NOW_MS - 5, "deadline_ms": NOW_MS + 5},
        {"deadline_ms": (-1, 0, 1), "size": (1, 2, 3), "head": (b"", b"\xc1\xc1"), "worker": (b"",)},
        {f"{size} unreadable bytes": entry(b"\xc1" * size)
         for size in (orizuru._CHECKED_BYTES - 1, orizuru._CHECKED_BYTES, orizuru._CHECKED_BYTES + 1)},
    ),
    "dispatcher": Rows(
        "dispatcher:ready=mail,delayed=later",
        {**entry(b"x"), "score": str(NOW_S)},
        {"score": ("0", "-1", "-0.001", "9007199254", "9007199254.001", "99999999999", "100000000000", "inf", ""),
         "size": (0, 1, 2)},
    ),
    "arq": Rows(
        "arq",
        {"id": b"a", "score": str(NOW_MS), "size": len(RECORD), "record": RECORD, "left_ms": DAY_MS, "tries": "2",
         "lease_ms": 5, "asked_ms": ""},
        {
            "score": ("0", "-1", "9007199254740991", "9007199254740992", "-9007199254740991", "inf", "x"),
            "size": (-1, 0, 1, len(RECORD) + 1),
            "left_ms": (-2, -1, 0, 1), "lease_ms": (-2, -1, 0, 1), "tries": ("", "0", "1", "x"),
            "asked_ms": ("0", str(NOW_MS)),
            "record": (b"", b"x" * len(RECORD)),
            "result": (RESULT, write_arq_result(s=False)),
        },
        {
            **vary(write_arq_record, "record", f=(3, "x" * 201), et=(-1, 0, 2**53 - 1, 2**53, None),
                   a=(("x" * 992,), ("x" * 993,), (), 3), k=({"b": 1}, None)),
        },
        ("deferred", "queued", "in_progress"),
    ),
    "arq_results": Rows(
        "arq",
        {"id": b"a", "score": "", "size": len(RESULT), "record": b"", "left_ms": DAY_MS, "tries": "", "lease_ms": -1,
         "asked_ms": "", "result": RESULT},
        {"left_ms": (-2, -1, 0, 1), "size": (1, len(RESULT) + 1)},
        {
            **vary(write_arq_result, "result", t=(-1, 0, 1, 999_999, 1_000_000, None), q=(None, "", 3), f=(3,),
                   st=(NOW_MS - 4, NOW_MS - 3, NOW_MS - 2, None, -1), ft=(None, -1, 0), s=(False, None),
                   r=(None, "no", "x" * 998, "x" * 999)),
            **vary(partial(write_arq_result, s=False), "result", "failed ", r=(None, "no", "x" * 998, "x" * 999)),
        },
        ("complete",),
    ),
    "rq": Rows(
        "rq",
        {
            "id": b"a", "member": b"a", "score": str(NOW_S), "size": 20, "data": b'["add", null, [1], {}]',
            "description": b"add(1)", "left_ms": -1, "status": "", "origin": "mail",
            "created_at": "2027-01-15T07:00:00Z", "enqueued_at": "2027-01-15T07:30:00Z",
            "started_at": "2027-01-15T07:40:00Z", "ended_at": "2027-01-15T07:50:00Z", "worker_name": "w1",
            "timeout": "180", "retries_left": "1",
        },
        {
            "score": TIMES, "size": (-3, -2, -1, 0, 1), "data": (b"", b"x", b'["add", null, [1]]', b"[3, null, [], {}]",
                                                           zlib.compress(b'["sub", "C", [], {"a": 1}]')),
            "description": (b"", b"sub(1)"), "left_ms": (-2, 0, 999, 1000, DAY_MS - 1, DAY_MS),
            "status": ("queued", "started", "stopped", "rate_limited", "odd"), "origin": ("", "sms"),
            "created_at": ("", "x"), "enqueued_at": ("", "x", "2027-01-15T07:40:00Z", "2027-01-15T07:40:00.001Z"),
            "started_at": ("", "x", "2027-01-15T07:50:00", "2027-01-15T07:50:00.001+00:00"), "ended_at": ("", "x"),
            "worker_name": ("",), "runner": ("w2",), "timeout": ("", "-1", "0", "1", "x"), "ttl": ("", "0", "60"),
            "error": (b"boom!", base64.b64encode(zlib.compress(b"boom")), zlib.compress(b"boom"), b"!"),
            "beat": ("0", "-1", str(NOW_S)), "seen": ("0", str(NOW_S)), "retries_left": ("", "0"),
            "rate_limit_key": ("slow",),
        },
        {
            **{f"no hash at {score}": {"size": -2, "score": score}
               for score in (str(NOW_S - 1), str(NOW_S), f"{NOW_S}.001", "", "inf")},
            "no description either": {"data": b"", "description": b""}, "expires": {"left_ms": 0, "ttl": "60"},
        },
    ),
    "bullmq": Rows(
        "bullmq",
        {
            "id": b"a", "member": b"a", "score": str(NOW_MS), "size": 8, "data": b'{"n": 1}', "name": "send",
            "opts": b'{"attempts": 3}', "lock": b"w1:token", "lock_ms": 5, "timestamp": str(NOW_MS - 900),
            "priority": "2", "atm": "1", "ats": "1", "stc": "", "processed_on": str(NOW_MS - 700),
            "finished_on": str(NOW_MS - 300), "pb": "w1",
        },
        {
            "score": ("0", "-1", str(NOW_MS * 4096), str(10**11 * 4096), str(10**11 * 4096 - 1), str(10**14 * 4096),
                      "x", ""),
            "size": (-3, -2, -1, 0),
            "data": (b"", b"x", b"null", b"[]", b'"' + b"y" * 992 + b'"', b'"' + b"y" * 993 + b'"'),
            "name": ("",),
            "opts": (b"", b"{}", b"x", b'{"attempts": 0}', b'{"attempts": 1}', b'{"attempts": "3"}', b'{"delay": 100}',
                     b'{"delay": 200}', b'{"delay": 201}', b'{"delay": -1}', b'{"delay": 2000}'),
            "lock": (b"", b"token"), "lock_ms": (-2, -1, 0, 1), "timestamp": ("", "0", "x"), "priority": ("", "0", "x"),
            "atm": ("", "0", "2", "x"), "ats": ("", "0", "2", "3"), "stc": ("0", "1", "2"),
            "processed_on": ("", "x", str(NOW_MS - 900), str(NOW_MS - 901), str(NOW_MS - 300), str(NOW_MS - 299), "0",
                             str(NOW_MS + 1)),
            "finished_on": ("", "x"), "pb": ("",), "defa": ("no",), "rjk": (b"daily",), "deid": (b"d",),
            "error": (b"boom", b"x" * 201), "trace": (b'["Error: boom"]', b'["first", "Error: boom"]', b"{}", b"[1]"),
            "places": ("", "wait", "wait active"),
        },
        {
            "its error in the trace": {"error": b"boom", "trace": b'["Error: boom"]'},
            "another error": {"error": b"other", "trace": b'["Error: boom"]'},
            "200 letters in the trace": {"error": b"x" * 201, "trace": json.dumps(["x" * 200]).encode()},
            "200 other letters": {"error": b"x" * 199 + b"yz", "trace": json.dumps(["x" * 200]).encode()},
            "two runs": {"more": (), "trace": b'["a", "b"]'},
            "two runs without times": {"more": (), "trace": b'["a", "b"]', "processed_on": "", "finished_on": ""},
        },
    ),
    "sidekiq": Rows(
        "sidekiq",
        {**entry(write_sidekiq_job()), "score": str(NOW_S), "token": b"p1 t1", "beat_ms": ""},
        {
            "score": (*TIMES, "99999999999.999", str(NOW_MS), "8999999999999999", "9000000000000000"),
            "beat_ms": ("0", str(LATE_MS - 1), str(LATE_MS), str(LATE_MS + 1), "-1"), "worker": ("w1",),
            "cancelled": (1,), "cursor": ("7",), "runtime": ("0", "1.5", "-1", "1e11"),
            "size": (9000,), "tail": (b'"retry_count":4}',),
        },
        {
            "iteration": {"executions": "3", "cursor": "7"},
            **vary(write_sidekiq_job, "head", retry=(False, None, -1, 0, 1, "x"), retry_count=(-1, 0, 1, "x"),
                   created_at=(NOW_MS - 7, 0, -1, "x", True), enqueued_at=(0, -1, None), failed_at=(0, -1),
                   retried_at=(-1,), jid=(3, "é", ""), args=(3, []), display_class=("Easy", 3), encrypt=(True,),
                   tags=(["x"] * 21, 3), bid=("b1", 3), retry_for=(-1, 0, 60), error_class=("E",), error_message=("m",),
                   error_backtrace=(["a.rb:1", 3], "x", 3), **{"class": (3, "")}),
            **vary(partial(write_sidekiq_job, error_class="E", error_message="m", failed_at=NOW_S - 2), "head",
                   "with an error ", retried_at=(NOW_S - 1, None), error_backtrace=(["a.rb:1"],)),
            **{f"bytes {body!r}": entry(body) for body in (b'{"class": "Hard", "args": [], "jid": "a"}', b"[]", b"x")},
        },
        ("schedule", "retry", "queue", "work", "dead"),
    ),
    "celery": Rows(
        "celery", {**entry(write_celery_message()), "score": "", "tag": b"", "step": ""},
        {"step": ("0", "6"), "size": (9000,)},
        {
            **vary(write_celery_message, "head", **CELERY_HEADERS),
            **{f"bytes {body!r}": entry(body) for body in (b"x", b"[]", b"{}")},
        },
        ("queue",),
    ),
    "celery_unacked": Rows(
        "celery", {**entry(write_unacked_message()), "score": str(NOW_S - 60), "tag": b"t1", "step": ""},
        {"score": TIMES, "result": (b'{"status": "SUCCESS"}', b"x")},
        vary(write_unacked_message, "head", **CELERY_HEADERS),
        ("eta", "unacked", "late"),
    ),
}  # fmt: skip


def describe_job(job: Job, terms: MigrationTerms) -> dict[str, str]:
    """Return the texts of a job's attributes and of the terms of its migration; long ones are cut."""
    values = {field.name: getattr(job, field.name) for field in fields(job) if field.name not in _ALWAYS_THE_SAME}
    if job.body is not None and len(job.body) == job.body_bytes:
        values |= {"body": "whole", "body_bytes": None}
    values["facts"] = [f"{fact.name}: {fact.value}" for fact in job.facts]
    values |= {f"terms.{name}": value for name, value in terms._asdict().items()}
    return {name: cut(describe(value)) for name, value in values.items()}


def describe_change(usual: Mapping[str, str], changed: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {changed[name]}" for name in changed if changed[name] != usual[name]) or "the same"


def list_jobs(system_name: str) -> Iterator[str]:
    spec, usual, values, changes, places = ROWS[system_name]
    new = registry.create_system(spec)
    zeros = {column.name: ZERO_VALUES[column.type] for column in new.scripts["page"].returns["page"].rows}
    columns = {f"{name}={cut(repr(value))}": {name: value} for name, each in values.items() for value in each}

    def build_job(place: str, change: Mapping[str, object]) -> dict[str, str]:
        system: Any = registry.create_system(spec)
        system.now_ms = lambda: NOW_MS
        job = system.decode("mail", place, {**zeros, "now_ms": NOW_MS, **usual, **change}, NOW_MS)
        return describe_job(job, system.migration_terms(job))

    usual_jobs = {place.name: build_job(place.name, {}) for place in new.places if not places or place.name in places}
    yield f"== {system_name}"
    for place, job in usual_jobs.items():
        yield f"{place}: {', '.join(f'{name} {text}' for name, text in job.items() if text not in _EMPTY)}"
    for title, change in {**columns, **changes}.items():
        yield title
        places_by_text: dict[str, list[str]] = {}
        for place, job in usual_jobs.items():
            places_by_text.setdefault(describe_change(job, build_job(place, change)), []).append(place)
        yield from (f"  {' '.join(same)}: {text}" for text, same in places_by_text.items())


@pytest.mark.parametrize("system_name", list(ROWS))
def test_jobs_match_the_stored_text(system_name: str) -> None:
    assert_lines_match_file(list_jobs(system_name), KEPT / f"{system_name}.txt")
