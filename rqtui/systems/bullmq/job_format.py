"""Parse the fields of the hash in which BullMQ stores a job: times, options, data and errors.

Pure functions from bytes to plain values, used by `system` and `job_facts`. An invalid value gives None or an empty
value, and `find_job_problems` reports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rqtui.model import MAX_BACKOFF_MS, Attempt, Place, State
from rqtui.system_base.stored_values import as_dict, parse_float, parse_json
from rqtui.text.names import to_text

DUE_FACTOR = 4096  # of scores in `delayed`: due ms × 4096 + arrival (commands/includes/getDelayedScore.lua 6.7)
TIMES = {"timestamp": "timestamp", "processed_on": "processedOn", "finished_on": "finishedOn"}
_EARLIEST_MS, _LATEST_MS = 1e11, 1e14  # a number before 1973 or after 5138 is no time in ms
_NO_DATA, _NO_HASH, _NOT_A_HASH = -1, -2, -3
_MAX_CALL_LENGTH = 1000  # characters
_BARE = re.compile(r"[A-Za-z_$][\w$]*")


def parse_time_ms(text: str) -> int | None:
    """Parse a time in ms since 1970; None for a number that is no plausible time."""
    number = parse_float(text)
    return round(number) if number is not None and _EARLIEST_MS <= number < _LATEST_MS else None


def parse_due_ms(score: str) -> int | None:
    """Parse a score of `delayed` to the due time in ms; None if it is no plausible time."""
    number = parse_float(score)
    due_ms = 0 if number is None else round(number // DUE_FACTOR)
    return due_ms if _EARLIEST_MS <= due_ms < _LATEST_MS else None


def find_state_start_ms(place: Place, row: Mapping[str, Any], now_ms: int) -> int | None:
    """Return since when a job is ready, or when it ended; None for delayed and running jobs."""
    if place.state is State.RESERVED or place.name == "delayed":
        return None
    if place.state is not State.READY:
        ended_ms = parse_time_ms(row["finished_on"])
        return parse_time_ms(row["score"]) if ended_ms is None else ended_ms
    delay_ms = parse_json_object(row["opts"]).get("delay")
    due_ms = (parse_time_ms(row["timestamp"]) or 0) + (delay_ms if isinstance(delay_ms, int) else 0)
    since_ms = max(due_ms, parse_time_ms(row["processed_on"]) or 0)
    return min(since_ms, now_ms) if since_ms else None


def compute_wait_ms(row: Mapping[str, Any]) -> int | None:
    """Return how long a job was ready before its first run; None if it ran before its delay was over (`promote`)."""
    added_ms, started_ms = parse_time_ms(row["timestamp"]), parse_time_ms(row["processed_on"])
    delay = parse_json_object(row["opts"]).get("delay")
    delay_ms = parse_float(delay) if isinstance(delay, int | float) else 0
    if added_ms is None or started_ms is None or delay_ms is None:
        return None
    wait_ms = started_ms - added_ms - int(delay_ms)
    return wait_ms if wait_ms >= 0 else None


@lru_cache(maxsize=2000)
def parse_json_object(raw: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; an empty one for any other bytes."""
    return as_dict(parse_json(raw))


@lru_cache(maxsize=2000)
def _is_valid_json(raw: bytes) -> bool:
    return raw.strip() == b"null" or parse_json(raw) is not None


def parse_backoff(backoff: object) -> tuple[int, int, str]:
    """Parse the `backoff` option of a job. Returns base and cap in ms, and how the native queue would differ."""
    kind, delay = (backoff.get("type"), backoff.get("delay")) if isinstance(backoff, dict) else ("fixed", backoff)
    delay_ms = int(min(delay, MAX_BACKOFF_MS)) if isinstance(delay, int | float) and delay > 0 else 0
    if not backoff or kind == "fixed":
        return delay_ms, delay_ms, ""
    if kind == "exponential":
        return delay_ms, MAX_BACKOFF_MS, ""
    return delay_ms, delay_ms, f"its back-off {str(kind)[:60]!r} is a function of its worker"


@lru_cache(maxsize=2000)
def format_job_call(name: str, data: bytes) -> str:
    """Format a job as a call, `send({to: "a@b.c"})`. Data that is empty or no JSON gives a call without arguments."""
    value = parse_json(data) if data else None
    arguments = "" if value in (None, {}, []) else format_javascript(value)
    call = f"{name}({arguments})"
    return call if len(call) <= _MAX_CALL_LENGTH else call[: _MAX_CALL_LENGTH - 1] + "…"


def format_javascript(value: object) -> str:
    """Format a value as JavaScript source, with unquoted property names where possible."""
    if isinstance(value, dict):
        pairs = (
            f"{k if _BARE.fullmatch(k) else json.dumps(k, ensure_ascii=False)}: {format_javascript(v)}"
            for k, v in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_javascript, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def parse_stack_traces(raw: bytes) -> tuple[str, ...]:
    """Parse the stack traces of a job's failed attempts, which are a JSON list, oldest first."""
    value = parse_json(raw) if raw else None
    return tuple(trace for trace in value if isinstance(trace, str)) if isinstance(value, list) else ()


def choose_error_text(reason: str, traces: Sequence[str]) -> str:
    """Return the last stack trace of a job if it contains the failure reason, else the reason alone."""
    last = traces[-1] if traces else ""
    return last if last and reason[:200] in last else reason


def build_failed_attempts(traces: Sequence[str], started_ms: int, ended_ms: int, worker: str) -> tuple[Attempt, ...]:
    """Build the failed attempts of a job, oldest first. BullMQ stores times and worker only for the last one."""
    earlier = tuple(Attempt(0, 0, "", trace) for trace in traces[:-1])
    return (*earlier, *(Attempt(started_ms, ended_ms, worker, trace) for trace in traces[-1:]))


def find_job_problems(key_prefix: str, place: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem of a job, such as a missing hash or invalid JSON.

    `key_prefix` is the prefix of all keys of the job's queue.
    """
    size = row["size"]
    if size == _NOT_A_HASH:
        key = key_prefix + to_text(row["id"])
        yield f"its key {key} holds what is no hash: another program uses this name"
        return
    if size == _NO_HASH:
        yield "its hash is missing: a worker still runs it, without a name and without data"
        return
    if size == _NO_DATA:
        yield "its hash has no data: workers run it with {}"
    elif row["data"] and not _is_valid_json(row["data"]):
        yield "its data is no JSON: a worker takes it, cannot read it and stalls; it never fails by itself"
    if row["opts"] and not parse_json_object(row["opts"]) and row["opts"] != b"{}":
        yield "its opts are no JSON object: no worker can read them"
    if place == "delayed" and parse_float(row["score"]) is not None and parse_due_ms(row["score"]) is None:
        yield f"its score {row['score']} is no due time in ms × {DUE_FACTOR}"
    invalid_times = [name for name in TIMES if row[name] and parse_time_ms(row[name]) is None]
    if invalid_times:
        yield f"{TIMES[invalid_times[0]]} is no time in ms: {row[invalid_times[0]][:40]!r}"
    if "places" in row:
        places = row["places"].split()
        if len(places) > 1:
            yield f"it is in {' and in '.join(places)}"
        elif not places:
            yield "it is in no place of the queue: no worker will find it"
