"""A job as the document of `--json`: what commands print and what the screen copies. Pure functions; a contract.

Instants are integers that end in `_at_ms`, durations end in `_ms`. Bytes that are not UTF-8 stand in base64, with
`"id_encoding": "base64"` beside an id and `"encoding": "base64"` inside a body.
"""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rqtui.errors import UsageError
from rqtui.text.names import BASE64, from_base64, to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqtui.model import Fact, Job

BODY_BYTES = 64 * 1024  # a longer body is `omitted` unless it was asked for


def text(value: str | bytes) -> str:
    """Text as it is; bytes that are no UTF-8, also those inside a surrogate-escaped text, as base64.

    Half a pair of UTF-16, which JSON of others may hold and which stands for no bytes, is U+FFFD.
    """
    raw = _raw(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii")


def _raw(value: str | bytes) -> bytes:
    try:
        return to_bytes(value)
    except UsageError:
        assert isinstance(value, str)
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def queue_fields(name: str) -> dict[str, str]:
    """`queue`, and how it is written where it is not UTF-8: `base64:` and that word mean it on a command line."""
    shown = text(name)
    return {"queue": shown} if shown == name else {"queue": shown, "queue_encoding": "base64"}


def word(name: str | bytes) -> str:
    """A queue's name or an id as a command line takes it, `base64:…` where it is not UTF-8."""
    shown = text(name)
    return shown if to_bytes(shown) == to_bytes(name) else BASE64 + shown


def sentence(words: str) -> str:
    """Words for a person, in which a name may stand: bytes that are no UTF-8 become `\\xff`."""
    return to_bytes(words).decode("utf-8", "backslashreplace")


def id_fields(id: bytes) -> dict[str, str]:
    """`id`, and how it is written where it is not UTF-8."""
    shown = text(id)
    return {"id": shown} if shown.encode("utf-8") == id else {"id": shown, "id_encoding": "base64"}


def id_bytes(word: str) -> bytes:
    """An id of the command line: as it is, or `base64:…` as documents write one that is not UTF-8."""
    return to_bytes(word) if (raw := from_base64(word)) is None else raw


def job(found: Job) -> dict[str, Any]:
    """JOB of the command line's page, and what else is known of it."""
    return {
        **id_fields(found.id),
        **queue_fields(found.queue),
        "layout": found.layout,
        "place": found.place,
        "state": found.state.value,
        "name": text(found.name) or None,
        "call": text(found.call) or None,
        "enqueued_at_ms": found.enqueued_ms,
        "due_at_ms": found.due_ms,
        "reserved_at_ms": found.reserved_ms,
        "deadline_at_ms": found.deadline_ms,
        "token": text(found.token) or None,
        "priority": found.priority,
        "ttr_ms": found.ttr_ms,
        "attempts": found.attempts,
        "max_attempts": found.max_attempts,
        "worker": text(found.worker) or None,
        "error": text(found.error) or None,
        "cancelled": found.cancelled,
        "problem": sentence(found.problem) or None,
        "body": body(found.body, found.body_bytes),
    }


def history(found: Job) -> list[dict[str, Any]]:
    """The failed attempts of a job, oldest first; None where its system keeps no time of one."""
    return [
        {
            "start_at_ms": a.start_ms or None,
            "end_at_ms": a.end_ms or None,
            "worker": text(a.worker) or None,
            "error": text(a.error),
        }
        for a in found.history
    ]


def facts(found: Sequence[Fact]) -> list[dict[str, Any]]:
    """What a system knows beyond the rest, in its order: `name`, `value`, `kind`, and `queue` where a ref has one.

    A value is JSON where the kind is json and it can be read, a number where it is an instant or a duration (ms), else
    text; `"value_encoding": "base64"` stands beside bytes that are not UTF-8.
    """
    return [
        {
            "name": text(fact.name),
            **_value_fields(fact),
            "kind": fact.kind,
            **(queue_fields(fact.queue) if fact.queue else {}),
        }
        for fact in found
    ]


def _value_fields(fact: Fact) -> dict[str, Any]:
    if isinstance(fact.value, int):
        return {"value": fact.value}
    raw = _raw(fact.value)
    if fact.kind == "json":
        with suppress(ValueError, RecursionError, OverflowError):
            return {"value": _from_json(raw)}
    shown = text(raw)
    return {"value": shown} if shown.encode("utf-8") == raw else {"value": shown, "value_encoding": "base64"}


def body(raw: bytes | None, size: int) -> dict[str, Any]:
    """A body by its looks: JSON, text, MessagePack (maps, lists), else base64; `omitted` where it was not fetched."""
    if raw is None or len(raw) < size:
        return {"bytes": size, "encoding": "omitted", "value": None}
    for encoding, decode in (("json", _from_json), ("utf-8", _from_text), ("msgpack", _from_msgpack)):
        try:
            return {"bytes": len(raw), "encoding": encoding, "value": decode(raw)}
        except (ValueError, RecursionError, OverflowError):
            continue
    return {"bytes": len(raw), "encoding": "base64", "value": base64.b64encode(raw).decode("ascii")}


def _from_json(raw: bytes) -> Any:
    value = json.loads(raw.decode(), parse_constant=_refuse, parse_float=_finite)
    json.dumps(value)  # what is nested too deeply to be written is text
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond a double")
    return number


def _from_text(raw: bytes) -> str:
    found = raw.decode()
    controls = sum(letter < " " and letter not in "\n\r\t\x1b" for letter in found[:4096])
    if controls * 10 > min(len(found), 4096):  # MessagePack of small things is valid UTF-8 too
        raise ValueError("binary")
    return found


def _from_msgpack(raw: bytes) -> Any:
    import msgpack

    try:
        value = msgpack.unpackb(raw, strict_map_key=False)
    except Exception as error:  # msgpack's own errors share no base with one another
        raise ValueError(str(error)) from None
    if not isinstance(value, dict | list):  # any single byte below 0x80 is a MessagePack integer
        raise ValueError("a bare value")
    return json.loads(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    """MessagePack's types as those of JSON."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return text(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
