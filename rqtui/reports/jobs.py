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
    """Return text unchanged; bytes that are not UTF-8, also inside surrogate-escaped text, as base64.

    A lone surrogate, which JSON of other programs may hold and which encodes no bytes, becomes U+FFFD.
    """
    raw = _to_raw_bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii")


def mask_data(value: str | bytes) -> str | None:
    """Return text of a job or its system with its secrets masked; None for an empty one."""
    shown = encode_text(value)
    if shown == value:
        return mask_text(shown) or None
    return MASK if flag_secret_bytes(_to_raw_bytes(value)) else shown or None


def _to_raw_bytes(value: str | bytes) -> bytes:
    try:
        return to_bytes(value)
    except UsageError:
        assert isinstance(value, str)
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def build_queue_fields(name: str) -> dict[str, str]:
    """Return `queue`, and `queue_encoding` if the name is not UTF-8.

    The command line takes such a name as `base64:` and the encoded text.
    """
    shown = encode_text(name)
    return {"queue": shown} if shown == name else {"queue": shown, "queue_encoding": "base64"}


def format_word(name: str | bytes) -> str:
    """Format a queue name or an id as a command line takes it: `base64:…` if it is not UTF-8."""
    shown = encode_text(name)
    return shown if to_bytes(shown) == to_bytes(name) else BASE64 + shown


def escape_undecodable(words: str) -> str:
    r"""Format a sentence for people; bytes in names that are not UTF-8 become `\xff`."""
    return to_bytes(words).decode("utf-8", "backslashreplace")


def build_id_fields(id: bytes) -> dict[str, str]:
    """Return `id`, and `id_encoding` if it is not UTF-8."""
    shown = encode_text(id)
    return {"id": shown} if shown.encode("utf-8") == id else {"id": shown, "id_encoding": "base64"}


def parse_id(word: str) -> bytes:
    """Parse an id of the command line: plain, or `base64:…` as documents contain an id that is not UTF-8."""
    return to_bytes(word) if (raw := parse_base64_name(word)) is None else raw


def build_job_document(found: Job) -> dict[str, Any]:
    """Build the JOB document of the command reference, without history and facts."""
    return {
        **build_id_fields(found.id),
        **build_queue_fields(found.queue),
        "layout": found.system,
        "place": found.place,
        "state": found.state.value,
        "name": mask_data(found.name),
        "call": mask_data(found.call),
        "enqueued_at_ms": found.enqueued_ms,
        "due_at_ms": found.due_ms,
        "reserved_at_ms": found.reserved_ms,
        "deadline_at_ms": found.deadline_ms,
        "token": encode_text(found.token) or None,
        "priority": found.priority,
        "ttr_ms": found.ttr_ms,
        "attempts": found.attempts,
        "max_attempts": found.max_attempts,
        "worker": mask_data(found.worker),
        "error": mask_data(found.error),
        "cancelled": found.is_cancelled,
        "problem": mask_text(escape_undecodable(found.problem)) or None,
        "body": build_body(found.body, found.body_bytes),
    }


def build_history(found: Job) -> list[dict[str, Any]]:
    """Build the documents of a job's failed attempts, oldest first; times are None if the system stores none."""
    return [
        {
            "start_at_ms": a.start_ms or None,
            "end_at_ms": a.end_ms or None,
            "worker": mask_data(a.worker),
            "error": mask_data(a.error) or "",
        }
        for a in found.history
    ]


def build_facts(found: Sequence[Fact]) -> list[dict[str, Any]]:
    """Build the documents of a job's facts in order: `name`, `value`, `kind`, and `queue` for a link to another queue.

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
        for fact in found
    ]


def _build_value_fields(fact: Fact) -> dict[str, Any]:
    if isinstance(fact.value, int):
        return {"value": fact.value}
    raw = _to_raw_bytes(fact.value)
    if is_secret_name(fact.name) and fact.kind != "ref":
        return {"value": MASK}
    if fact.kind == "json":
        with suppress(ValueError, RecursionError, OverflowError):
            return {"value": mask_json_value(_parse_json(raw))}
    shown = encode_text(raw)
    if shown.encode("utf-8") == raw:
        return {"value": shown if fact.kind == "ref" else mask_text(shown)}
    return {"value": MASK} if flag_secret_bytes(raw) else {"value": shown, "value_encoding": "base64"}


def build_body(raw: bytes | None, size: int) -> dict[str, Any]:
    """Build the document of a body: JSON, text or MessagePack by its content, else base64; `omitted` if not read.

    MessagePack is recognised for maps and lists only. Secrets are masked. Other bytes that seem to hold a secret are
    left out, with the encoding `masked`.
    """
    if raw is None or len(raw) < size:
        return {"bytes": size, "encoding": "omitted", "value": None}
    for encoding, decode in (("json", _parse_json), ("utf-8", _parse_text), ("msgpack", _parse_msgpack)):
        try:
            return {"bytes": len(raw), "encoding": encoding, "value": mask_json_value(decode(raw))}
        except (ValueError, RecursionError, OverflowError):
            continue
    if flag_secret_bytes(raw) or mask_text(inner := convert_binary_to_json(raw)) != inner:
        return {"bytes": len(raw), "encoding": "masked", "value": MASK}
    return {"bytes": len(raw), "encoding": "base64", "value": base64.b64encode(raw).decode("ascii")}


def _parse_json(raw: bytes) -> Any:
    value = json.loads(raw.decode(), parse_constant=_refuse, parse_float=_parse_finite)
    json.dumps(value)  # what is nested too deeply to be written is text
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond a double")
    return number


def _parse_text(raw: bytes) -> str:
    found = raw.decode()
    controls = sum(letter < " " and letter not in "\n\r\t\x1b" for letter in found[:4096])
    if controls * 10 > min(len(found), 4096):  # MessagePack of small things is valid UTF-8 too
        raise ValueError("binary")
    return found


def _parse_msgpack(raw: bytes) -> Any:
    import msgpack

    try:
        value = msgpack.unpackb(raw, strict_map_key=False)
    except Exception as error:  # msgpack's own errors share no base with one another
        raise ValueError(str(error)) from None
    if not isinstance(value, dict | list):  # any single byte below 0x80 is a MessagePack integer
        raise ValueError("a bare value")
    return json.loads(json.dumps(_to_json_types(value), allow_nan=False))


def _to_json_types(value: Any) -> Any:
    """Convert the types of MessagePack to those of JSON."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_to_json_types(key)): _to_json_types(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_to_json_types(each) for each in value]
    if isinstance(value, bytes):
        return encode_text(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
