"""Decode the hash in which RQ stores a job: its call, times, error, retries and problems.

Pure functions from bytes to plain values, used by all modules of this package. Pickles are parsed, never loaded.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from rqtui.model import MAX_BACKOFF_MS, Place, State
from rqtui.system_base.stored_values import parse_float, parse_json
from rqtui.text import pickles
from rqtui.text.body import decompress_zlib
from rqtui.text.names import to_text

READ_BYTES = 64 * 1024  # of inflated `data` per job of a page; for a single job `pickles.MOST_BYTES`
MAX_CALL_LENGTH = 1000  # characters
GONE = -2  # PTTL of a missing key
PLACES_BY_STATUS = {  # by the field `status`
    "scheduled": "scheduled",
    "deferred": "deferred",
    "rate_limited": "deferred",
    "ready_to_enqueue": "ready_to_enqueue",
    "created": "deferred",
    "queued": "queued",
    "started": "started",
    "finished": "finished",
    "failed": "failed",
    "stopped": "failed",
}
TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")
FORGOTTEN = frozenset({"finished", "failed"})  # places whose score is the time of deletion
# The error text of a job whose worker died, as RQ stores it.
ABANDONED = base64.b64encode(
    zlib.compress(b"Moved to failed, due to AbandonedJobError: its worker died (found by rqtui)")
)
_NO_DATA, _NO_HASH, _NOT_A_HASH = -1, -2, -3
_MAX_SECONDS = 1e11  # scores from the year 5138 on are no seconds
_SINCE = frozenset({"deferred", "ready_to_enqueue", "canceled"})  # places whose score is the time of entry
_SINCE_FIELDS = {"queued": "enqueued_at", "finished": "ended_at", "failed": "ended_at"}
_MAY_BE_INFINITE = frozenset({"finished", "failed", "deferred"})  # RQ 2 stores deferred jobs without a time
_SOON_MS = 86_400_000  # RQ keeps failures for a year by default
_GHOST = "its hash is missing: it is counted, and only its id is known"
_FORGOTTEN_ID = "its time is over and its hash is missing: the next clean-up of RQ removes the id"


class DecodedCall(NamedTuple):
    """The function and the call decoded from a job's data, or the problem that prevented it."""

    name: str = ""
    call: str = ""
    problem: str = ""


@lru_cache(maxsize=2000)
def decode_call(data: bytes, max_bytes: int) -> DecodedCall:
    """Decode the call in the `data` of a job. Cached, because every poll reads the same jobs again."""
    try:
        value = decode_stored_value(data, max_bytes)
    except ValueError as error:
        return DecodedCall(problem=f"{error}: it is shown as bytes")
    parts: Sequence[object] = value if isinstance(value, list | tuple) else ()
    if len(parts) != 4 or not isinstance(parts[0], str):
        return DecodedCall(problem=f"its data is no call of RQ: {pickles.format_as_python(value, 100)}")
    function, instance, args, kwargs = parts
    if instance is not None:
        function = f"{pickles.format_as_python(instance, 200)}.{function}"
    return DecodedCall(parts[0], pickles.format_function_call(str(function), args, kwargs, MAX_CALL_LENGTH))


def decode_stored_value(data: bytes, max_bytes: int) -> object:
    """Decode a pickle or JSON, compressed with zlib or plain.

    Raises ValueError for any other format, or if the data inflates to more than `max_bytes` bytes.
    """
    inflated = decompress_zlib(data, max_bytes) or data
    if len(inflated) > max_bytes:
        raise ValueError(f"its data inflates to more than {max_bytes // 1024} kB, which is not read")
    if inflated[:1] == b"\x80":
        try:
            return pickles.parse_pickle(inflated)
        except ValueError:
            raise ValueError("its data is no pickle that can be read") from None
    try:
        return json.loads(inflated)
    except (ValueError, RecursionError):
        raise ValueError("its data is neither a pickle nor JSON") from None


def format_stored_value(value: bytes) -> str:
    """Format a value of `meta` or of a result as JSON, or as text if it is neither pickle nor JSON."""
    try:
        return json.dumps(
            pickles.convert_to_json_types(decode_stored_value(value, pickles.MOST_BYTES)), ensure_ascii=False
        )
    except ValueError:
        return to_text(value)


def detect_serializer(data: bytes) -> str:
    """Return whether the `data` of a job is a pickle or JSON: `pickle` or `json`."""
    return "pickle" if (decompress_zlib(data, 1) or data)[:1] == b"\x80" else "json"


def decode_error(raw: bytes) -> str:
    """Decode an error text that is compressed with zlib, with or without base64 around it.

    A long text is cut at the end.
    """
    if not raw:
        return ""
    if raw[:1] != b"\x78":
        try:
            raw = base64.b64decode(raw[: len(raw) // 4 * 4], validate=True)
        except binascii.Error:
            return to_text(raw)
    return (decompress_zlib(raw, pickles.MOST_BYTES) or raw).decode("utf-8", "replace")


def parse_time_ms(text: str) -> int | None:
    """Parse a time of RQ's hashes to ms; None if it is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def convert_score_ms(score: str) -> int | None:
    """Convert a score, or the time of an execution, from seconds to ms; None if it is no time."""
    seconds = parse_seconds(score)
    return round(seconds * 1000) if seconds is not None and seconds >= 0 else None


def parse_seconds(text: str) -> float | None:
    """Parse a number of seconds; None for a text that is no plausible number."""
    seconds = parse_float(text)
    return seconds if seconds is not None and abs(seconds) < _MAX_SECONDS else None


def find_place_entry_ms(place: str, times: Mapping[str, int | None], score_ms: int | None) -> int | None:
    """Return since when a job is in its place; None if RQ stores no such time."""
    if place in _SINCE:
        return times["created_at"] if score_ms is None else score_ms
    return times.get(_SINCE_FIELDS.get(place, ""))


def find_job_problems(prefix: str, queue: str, place: Place, row: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    """Yield a sentence for each problem of a job, such as a missing hash or an invalid time."""
    size = row["size"]
    if size == _NOT_A_HASH:
        key = f"{prefix}:job:{to_text(row['id'])}"
        yield f"its key {key} holds what is no hash: another program uses this name"
        return
    if size == _NO_HASH:
        is_forgotten = place.name in FORGOTTEN and (convert_score_ms(row["score"]) or now_ms) <= now_ms
        yield _FORGOTTEN_ID if is_forgotten else _GHOST
        return
    if size == _NO_DATA:
        yield "its hash has no data: no worker can run it"
    yield from _describe_wrong_times(place.name, row)
    if "places" in row:
        yield from _describe_wrong_places(row["places"].split(), row["status"])
    if row["origin"] and row["origin"] != queue:
        yield f"its hash says that it is of the queue {row['origin']}"
    if place.state in (State.READY, State.SCHEDULED) and 0 <= row["left_ms"] < _SOON_MS and not row["ttl"]:
        left_s = row["left_ms"] // 1000
        yield f"its hash vanishes in {left_s} s, run or not: a requeue left the time to live of its failure"


def _describe_wrong_times(place: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each invalid time or score of a job."""
    invalid_times = [name for name in TIMES if row[name] and parse_time_ms(row[name]) is None]
    if invalid_times:
        yield f"{invalid_times[0]} is no time: {row[invalid_times[0]][:40]!r}"
    is_endless = place in _MAY_BE_INFINITE and row["score"] == "inf"
    if row["score"] and convert_score_ms(row["score"]) is None and not is_endless:
        yield f"its score {row['score']} is no time in seconds"


def _describe_wrong_places(places: Sequence[str], status: str) -> Iterator[str]:
    """Yield a sentence if a job is in several places at once, or in none."""
    if len(places) > 1:
        yield f"it is in {' and in '.join(places)}"
    elif not places and status == "rate_limited":
        yield "it waits for its rate limit, and is in no place of the queue until it may run"
    elif not places:
        yield f"its status is {status or 'missing'}, and it is in no place of the queue: no worker will find it"


def parse_retry_intervals(text: str) -> list[float]:
    """Parse the field `retry_intervals` (seconds between attempts); an empty list for an invalid value."""
    value = parse_json(text)
    intervals: list[Any] = value if isinstance(value, list) else [value]
    return (
        intervals
        if all(isinstance(seconds, int | float) and 0 <= seconds < _MAX_SECONDS for seconds in intervals)
        else []
    )


def compute_native_backoff(intervals: Sequence[float], retries_left: int, attempts: int) -> tuple[int, int, str]:
    """Return base and cap in ms of a doubling back-off, and what the native queue would do differently.

    RQ waits for the interval `len - left`, and for the first if there are more retries than intervals.
    """
    waits = (
        [round(1000 * intervals[max(0, len(intervals) - n)]) for n in range(retries_left, 0, -1)] if intervals else []
    )
    if not waits or not any(waits):
        return 0, 0, ""
    first, cap_ms = waits[0], min(max(waits), MAX_BACKOFF_MS)
    base_ms = first if cap_ms == first else -(-first // 2**attempts)
    if all(wait == min(cap_ms, base_ms * 2 ** min(attempts + n, 60)) for n, wait in enumerate(waits)):
        return base_ms, cap_ms, ""
    return base_ms, cap_ms, "its retry intervals are no constant wait and none that doubles"
