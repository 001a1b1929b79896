"""Convert jobs to the JSON documents of `--json`, which commands print and the screen copies. Pure functions.

The documents are a public contract. Times are integers that end in `_at_ms`, durations end in `_ms`. Bytes that are not
UTF-8 are base64, with `"id_encoding": "base64"` beside an id and `"encoding": "base64"` inside a body. Secrets are
masked, unless the caller works inside `masking.revealed`.
"""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqtui.errors import UsageError
from rqtui.text.body import convert_binary_to_json
from rqtui.text.masking import MASK, flag_secret_bytes, is_secret_name, mask_json_value, mask_text
from rqtui.text.names import BASE64, parse_base64_name, to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqtui.model import Fact, Job

BODY_BYTES = 64 * 1024  # a longer body is `omitted` unless it was asked for


def encode_text(value: str | bytes) -> str:
    """Return text unchanged. Bytes that are not UTF-8, also inside surrogate-escaped text, become base64.

    A lone surrogate, which JSON of other programs may hold and which encodes no bytes, becomes U+FFFD.
    """
    raw = _to_raw_bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii")


def mask_job_text(value: str | bytes) -> str | None:
    """Return a text of a job or of its system with its secrets masked; None for an empty text."""
    shown = encode_text(value)
    if shown == value:
        return mask_text(shown) or None
    return MASK if flag_secret_bytes(_to_raw_bytes(value)) else shown or None


def _to_raw_bytes(value: str | bytes) -> bytes:
    """Convert a text to the bytes it was decoded from; a lone surrogate becomes U+FFFD."""
    try:
        return to_bytes(value)
    except UsageError:
        assert isinstance(value, str)
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def build_queue_fields(name: str) -> dict[str, str]:
    """Return the JSON fields of a queue's name: `queue`, and `queue_encoding` if the name is not UTF-8.

    The command line takes such a name as `base64:` and the encoded text.
    """
    shown = encode_text(name)
    return {"queue": shown} if shown == name else {"queue": shown, "queue_encoding": "base64"}


def format_command_line_word(name: str | bytes) -> str:
    """Format a queue name or an id as a command line takes it: `base64:…` if it is not UTF-8."""
    shown = encode_text(name)
    return shown if to_bytes(shown) == to_bytes(name) else BASE64 + shown


def escape_undecodable(words: str) -> str:
    r"""Return a sentence for people in which bytes of names that are not UTF-8 are written as `\xff`."""
    return to_bytes(words).decode("utf-8", "backslashreplace")


def build_id_fields(id: bytes) -> dict[str, str]:
    """Return the JSON fields of a job's id: `id`, and `id_encoding` if the id is not UTF-8."""
    shown = encode_text(id)
    return {"id": shown} if shown.encode("utf-8") == id else {"id": shown, "id_encoding": "base64"}


def parse_id(word: str) -> bytes:
    """Parse a job id of the command line: plain, or `base64:…` for an id that is not UTF-8."""
    return to_bytes(word) if (raw := parse_base64_name(word)) is None else raw


def build_job_document(job: Job) -> dict[str, Any]:
    """Build the JSON document JOB of a job, as the command reference defines it, without history and facts."""
    return {
        **build_id_fields(job.id),
        **build_queue_fields(job.queue),
        "layout": job.system,
        "place": job.place,
        "state": job.state.value,
        "name": mask_job_text(job.name),
        "call": mask_job_text(job.call),
        "enqueued_at_ms": job.enqueued_ms,
        "due_at_ms": job.due_ms,
        "reserved_at_ms": job.reserved_ms,
        "deadline_at_ms": job.deadline_ms,
        "token": encode_text(job.token) or None,
        "priority": job.priority,
        "ttr_ms": job.ttr_ms,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "worker": mask_job_text(job.worker),
        "error": mask_job_text(job.error),
        "cancelled": job.is_cancelled,
        "problem": mask_text(escape_undecodable(job.problem)) or None,
        "body": build_body_document(job.body, job.body_bytes),
    }


def build_attempt_documents(job: Job) -> list[dict[str, Any]]:
    """Build the JSON documents of a job's failed attempts, oldest first. Unknown times are None."""
    return [
        {
            "start_at_ms": attempt.start_ms or None,
            "end_at_ms": attempt.end_ms or None,
            "worker": mask_job_text(attempt.worker),
            "error": mask_job_text(attempt.error) or "",
        }
        for attempt in job.history
    ]


def build_fact_documents(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """Build the JSON documents of a job's facts: `name`, `value`, `kind`, and `queue` for a link to another queue.

    A value is JSON if its kind is json and it can be parsed, a number for a time or a duration (ms), else text;
    `"value_encoding": "base64"` is added for bytes that are not UTF-8.
    """
    return [
        {
            "name": encode_text(fact.name),
            **_build_value_fields(fact),
            "kind": fact.kind,
            **(build_queue_fields(fact.queue) if fact.queue else {}),
        }
        for fact in facts
    ]


def _build_value_fields(fact: Fact) -> dict[str, Any]:
    """Build the JSON fields of a fact's value, with secrets masked."""
    if isinstance(fact.value, int):
        return {"value": fact.value}
    raw = _to_raw_bytes(fact.value)
    if is_secret_name(fact.name) and fact.kind != "ref":
        return {"value": MASK}
    if fact.kind == "json":
        with suppress(ValueError, RecursionError, OverflowError):
            return {"value": mask_json_value(_parse_body_json(raw))}
    shown = encode_text(raw)
    if shown.encode("utf-8") == raw:
        return {"value": shown if fact.kind == "ref" else mask_text(shown)}
    return {"value": MASK} if flag_secret_bytes(raw) else {"value": shown, "value_encoding": "base64"}


def build_body_document(raw: bytes | None, size: int) -> dict[str, Any]:
    """Build the JSON document of a body: JSON, text or MessagePack by its content, else base64.

    A body that was not read is `omitted`. MessagePack is recognised for maps and lists only. Secrets are masked. Other
    bytes that seem to hold a secret are left out, with the encoding `masked`.
    """
    if raw is None or len(raw) < size:
        return {"bytes": size, "encoding": "omitted", "value": None}
    for encoding, decode in (("json", _parse_body_json), ("utf-8", _decode_body_text), ("msgpack", _decode_msgpack)):
        try:
            return {"bytes": len(raw), "encoding": encoding, "value": mask_json_value(decode(raw))}
        except (ValueError, RecursionError, OverflowError):
            continue
    if flag_secret_bytes(raw) or mask_text(inner := convert_binary_to_json(raw)) != inner:
        return {"bytes": len(raw), "encoding": "masked", "value": MASK}
    return {"bytes": len(raw), "encoding": "base64", "value": base64.b64encode(raw).decode("ascii")}


def _parse_body_json(raw: bytes) -> Any:
    """Parse a body as JSON. Raises ValueError, RecursionError or OverflowError for a body that is none."""
    value = json.loads(raw.decode(), parse_constant=_refuse_json_constant, parse_float=_parse_finite_number)
    json.dumps(value)  # what is nested too deeply to be written is text
    return value


def _refuse_json_constant(word: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python parses but which are no JSON."""
    raise ValueError(f"{word} is not JSON")


def _parse_finite_number(digits: str) -> float:
    """Parse a number. Raises ValueError for one that is too large for a double."""
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond a double")
    return number


def _decode_body_text(raw: bytes) -> str:
    """Decode a body as UTF-8 text. Raises ValueError for bytes with many control characters, which are no text."""
    text = raw.decode()
    controls = sum(letter < " " and letter not in "\n\r\t\x1b" for letter in text[:4096])
    if controls * 10 > min(len(text), 4096):  # MessagePack of small things is valid UTF-8 too
        raise ValueError("binary")
    return text


def _decode_msgpack(raw: bytes) -> Any:
    """Decode a MessagePack map or list to JSON types. Raises ValueError for other bytes."""
    import msgpack

    try:
        value = msgpack.unpackb(raw, strict_map_key=False)
    except Exception as error:  # msgpack's own errors share no base with one another
        raise ValueError(str(error)) from None
    if not isinstance(value, dict | list):  # any single byte below 0x80 is a MessagePack integer
        raise ValueError("a bare value")
    return json.loads(json.dumps(_convert_to_json_types(value), allow_nan=False))


def _convert_to_json_types(value: Any) -> Any:
    """Convert a value decoded from MessagePack to the types of JSON."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_convert_to_json_types(key)): _convert_to_json_types(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_convert_to_json_types(item) for item in value]
    if isinstance(value, bytes):
        return encode_text(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
