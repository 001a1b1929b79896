"""Decode, change and create messages of Celery, as Kombu writes them in JSON; used by `system` in this package.

Bytes go in and come out. Pickles and calls are decoded without importing or executing anything. A change replaces only
the affected bytes of a message.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, TypeGuard
from uuid import uuid4

from rqtui.errors import UsageError
from rqtui.model import Fact
from rqtui.system_base.foreign_system import list_facts
from rqtui.text import pickles
from rqtui.text.body import decompress
from rqtui.text.json_fields import read_fields, replace_fields
from rqtui.text.names import to_bytes, to_text

MAX_CALL_LENGTH = 1000  # characters
_READ_BYTES = 1024 * 1024  # of a longer message only the end is read


class Message(NamedTuple):
    """A message decoded from its JSON: headers, properties and call; `problem` says why it could not be decoded.

    `embed` holds the tasks that run afterwards: callbacks, errbacks, chain, chord.
    """

    headers: Mapping[str, Any] = {}
    properties: Mapping[str, Any] = {}
    id: bytes = b""
    task: str = ""
    call: str = ""
    embed: Mapping[str, Any] = {}
    eta_ms: int | None = None
    priority: int = 0
    content: str = ""  # how the body is written: `application/json`
    is_redelivered: bool = False
    problem: str = ""
    facts: tuple[Fact, ...] = ()


def extract_message(entry: bytes) -> bytes:
    """Return the message inside an entry of `unacked`, byte for byte; the entry itself if it is none."""
    text = entry.decode("latin-1")  # one character per byte, so that `end` is a byte offset
    try:
        _value, end = json.JSONDecoder().raw_decode(text, 1)
    except (ValueError, RecursionError):
        return entry
    return entry[1:end] if text[:1] == "[" else entry


@lru_cache(maxsize=2000)
def decode_message(head: bytes, tail: bytes, is_held: bool) -> Message:
    """Decode a message from its bytes, or from its last bytes.

    Cached, because pages request the same jobs at every poll.
    """
    try:
        told = _parse_message(head, tail, is_held)
    except ValueError as error:
        return Message(problem=str(error))
    headers, properties = as_dict(told.get("headers")), as_dict(told.get("properties"))
    body, trouble = (None, "") if tail else decode_body(told, headers, properties)
    given = _parse_call(body, headers)
    headers = {**headers, **given.headers} if given.headers else headers
    id, task, priority = headers.get("id"), _read_text(headers, "task"), properties.get("priority")
    problems = (
        "" if isinstance(told.get("properties"), dict) else _NO_PROPERTIES,
        "" if task else "it names no task: a worker throws it away",
        trouble,
        given.problem,
    )
    message = Message(
        headers,
        properties,
        to_bytes(id) if isinstance(id, str) and id.isascii() else b"",
        task,
        _format_call(task, headers, given.args, given.kwargs),
        _to_plain_dict(given.embed),
        convert_time_ms(headers.get("eta")),
        priority if is_count(priority) else 0,
        _read_text(told, "content-type"),
        bool(headers.get("redelivered") or as_dict(properties.get("delivery_info")).get("redelivered")),
        next(filter(None, problems), ""),
    )
    return message._replace(facts=tuple(_build_facts(message)))


_NO_PROPERTIES = "it has no properties: the worker that takes it starts its consumer anew, and has lost it"


def _parse_message(head: bytes, tail: bytes, is_held: bool) -> Mapping[str, Any]:
    """Parse the JSON of a message. Raises ValueError with a sentence for a person if it is none."""
    told: object
    if tail or len(head) > _READ_BYTES:
        told = _parse_end(tail or head[-6144:])
        if not told:
            raise ValueError("it is too long to be read here")
        return told
    try:
        told = json.loads(head)
    except (ValueError, RecursionError):
        raise ValueError("its bytes are no JSON: the worker that takes it ends") from None
    if is_held:
        told = told[0] if isinstance(told, list) and told else None
    if not isinstance(told, dict):
        raise ValueError("its JSON is no message of Kombu: the worker that takes it stops")
    return told


class _DecodedCall(NamedTuple):
    """The call in the body of a message, and the fields of a body of task protocol 1 that protocol 2 calls headers."""

    args: object = None
    kwargs: object = None
    embed: object = {}
    headers: Mapping[str, Any] = {}
    problem: str = ""


def _parse_call(body: object, headers: Mapping[str, Any]) -> _DecodedCall:
    """Return the call in a decoded body; None is a body that was not decoded."""
    if isinstance(body, pickles.Pairs):
        body = {key: value for key, value in body.pairs if isinstance(key, str)}
    if isinstance(body, dict) and "task" not in headers:
        embed = {name: body.get(name) for name in ("callbacks", "errbacks", "chord")}
        own = {name: body[name] for name in _FIRST_PROTOCOL if name in body}
        return _DecodedCall(body.get("args"), body.get("kwargs"), embed, own)
    if isinstance(body, list | tuple) and len(body) == 3:
        return _DecodedCall(*body)
    return _DecodedCall(problem="" if body is None else "its body is no call of Celery")


_FIRST_PROTOCOL = ("task", "id", "eta", "expires", "retries", "timelimit")


def _parse_end(tail: bytes) -> dict[str, Any]:
    """Parse headers and properties from the end of a long message: Kombu writes them after the body."""
    text = tail.decode("utf-8", "replace")
    at = text.find('"content-encoding":')
    at = text.find('"headers":') if at < 0 else at
    try:
        found, _end = json.JSONDecoder().raw_decode("{" + text[at:]) if at >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decode_body(
    told: Mapping[str, Any], headers: Mapping[str, Any], properties: Mapping[str, Any]
) -> tuple[object, str]:
    """Decode the body of a message without executing anything. Returns the value and what is wrong with it."""
    body = told.get("body")
    if isinstance(body, dict | list):
        return body, ""
    if not isinstance(body, str):
        return None, "it has no body"
    raw = body.encode("utf-8", "surrogatepass")
    if properties.get("body_encoding") == "base64":
        try:
            raw = base64.b64decode(raw)
        except (binascii.Error, ValueError):
            return None, "its body is no base64"
    if headers.get("compression"):
        raw = decompress(raw, pickles.MOST_BYTES)
        if not raw:
            return None, f"its body is compressed with {headers['compression']!s:.40}, which is not read here"
        if len(raw) > pickles.MOST_BYTES:
            return None, f"its body inflates to more than {pickles.MOST_BYTES // 1024} kB, which is not read"
    if raw[:1] == b"\x80":
        try:
            return pickles.parse_pickle(raw), ""
        except ValueError as error:
            return None, f"{error}: it is shown as bytes"
    if told.get("content-type") not in ("application/json", None):
        return None, ""
    try:
        return json.loads(raw), ""
    except (ValueError, RecursionError):
        return None, "its body is no JSON"


def _format_call(task: str, headers: Mapping[str, Any], args: object, kwargs: object) -> str:
    """Format the call of a task; for an unreadable body from the `argsrepr` and `kwargsrepr` of its producer."""
    if not task:
        return ""
    if args is not None:
        return pickles.format_call(task, args, kwargs, MAX_CALL_LENGTH)
    given, named = (headers.get(name) for name in ("argsrepr", "kwargsrepr"))
    return format_call_of_reprs(task, given, named)


def format_call_of_reprs(task: str, args: object, kwargs: object) -> str:
    """Format a call from `argsrepr` and `kwargsrepr`: `tasks.add(1, 2, retry=True)`; `**{…` if kwargs are cut off."""
    inner = args.strip()[1:-1].rstrip(",") if isinstance(args, str) and len(args) > 1 else ""
    named = _format_keyword_arguments(kwargs) if isinstance(kwargs, str) and kwargs not in ("", "{}") else ""
    text = f"{task}({', '.join(filter(None, (inner, named)))})".encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_CALL_LENGTH else f"{text[:MAX_CALL_LENGTH]}…"


def _format_keyword_arguments(told: str) -> str:
    try:
        found = ast.literal_eval(told) if len(told) <= MAX_CALL_LENGTH else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    is_plain = isinstance(found, dict) and all(isinstance(name, str) for name in found)
    return ", ".join(f"{name}={value!r}" for name, value in found.items()) if is_plain and found else f"**{told}"


def _to_plain_dict(value: object) -> Mapping[str, Any]:
    found = pickles.to_plain(value)
    return found if isinstance(found, dict) else {}


def as_dict(value: object) -> Mapping[str, Any]:
    """Return the value if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a non-negative number below 1e12, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a non-negative integer below 1e9, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000


def convert_time_ms(value: object) -> int | None:
    """Convert a time of Celery, `2026-11-22T21:44:12.311195+00:00` or seconds, to ms; None for anything else."""
    if is_number(value):
        return round(value * 1000)
    try:
        at = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _build_facts(read: Message) -> list[Fact]:
    """Return the facts in a message that only Celery has, most useful first."""
    headers, own_id = read.headers, to_text(read.id)
    root_id, parent_id = _read_text(headers, "root_id"), _read_text(headers, "parent_id")
    following = {label: read.embed[name] for name, label in EMBED_LABELS.items() if read.embed.get(name)}
    return list_facts(
        (
            ("expires", convert_time_ms(headers.get("expires")), "instant"),
            ("time limit", read_time_limit_ms(headers, 0), "duration"),
            ("soft time limit", read_time_limit_ms(headers, 1), "duration"),
            ("root", root_id if root_id != own_id else "", "ref"),
            ("parent", parent_id if parent_id != own_id else "", "ref"),
            ("group", _read_text(headers, "group"), "text"),
            ("shadow", _read_text(headers, "shadow"), "text"),
            ("origin", _read_text(headers, "origin"), "text"),
            *[(label, _format_signatures(tasks), "text") for label, tasks in following.items()],
            ("result is", "ignored" if headers.get("ignore_result") is True else "", "text"),
            ("stamps", json.dumps(headers["stamps"]) if as_dict(headers.get("stamps")) else "", "json"),
            ("body", "" if read.content == "application/json" else read.content, "text"),
            ("compression", _read_text(headers, "compression"), "text"),
            ("redelivered", "yes: a worker had it before" if read.is_redelivered else "", "text"),
            ("exchange", _format_exchange(as_dict(read.properties.get("delivery_info"))), "text"),
            ("delivery tag", _read_text(read.properties, "delivery_tag"), "text"),
        )
    )


EMBED_LABELS = {"callbacks": "then", "errbacks": "on error", "chain": "chain", "chord": "chord"}


def _read_text(told: Mapping[str, Any], name: str) -> str:
    """Return a field that is a text; empty if it is anything else."""
    value = told.get(name)
    return value if isinstance(value, str) else ""


def read_time_limit_ms(headers: Mapping[str, Any], at: int) -> int | None:
    """Return the hard (0) or the soft (1) time limit of a task; None if it has none."""
    limits = headers.get("timelimit")
    limit = limits[at] if isinstance(limits, list) and len(limits) > at else None
    return round(limit * 1000) if is_number(limit) else None


def _format_exchange(delivered: Mapping[str, Any]) -> str:
    exchange = delivered.get("exchange")
    return f"{exchange} with the routing key {delivered.get('routing_key', '')}" if exchange else ""


def _format_signatures(value: object) -> str:
    """Format the tasks that run afterwards as calls; as JSON if the value is no list of tasks."""
    calls = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict) or not isinstance(each.get("task"), str):
            return json.dumps(value)
        calls.append(pickles.format_call(each["task"], each.get("args"), each.get("kwargs"), 200))
    return ", ".join(calls)


def build_task_of_reprs(task: str, given: str, named: str) -> bytes:
    """Build the JSON of a task from its `argsrepr` and `kwargsrepr`; empty if name or arguments are unknown."""
    args, kwargs = _parse_repr(given), _parse_repr(named)
    if not task or not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        return b""
    return json.dumps({"task": task, "args": args, "kwargs": kwargs}).encode()


def _parse_repr(told: str) -> object:
    """Parse `argsrepr` or `kwargsrepr`; None if it was cut, hides a value, or is no plain JSON.

    Celery marks a cut with `...` (celery/utils/saferepr.py 5.7); programs hide values as `<secret>` or `****`.
    """
    if any(mark in told for mark in ("...", "**", "<")):
        return None
    try:
        found = ast.literal_eval(told)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    inner = found if isinstance(found, tuple) else (found,)
    return found if repr(found) == told and all(map(_is_plain, inner)) else None


def _is_plain(value: object) -> bool:
    """Return whether JSON stores this value without loss."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def build_task_of_result(message: bytes) -> bytes:
    """Build the JSON of a task from a full result (`result_extended`), arguments byte for byte; empty if it fails."""
    try:
        own = read_fields(message)
        kinds = (("name", str), ("args", list), ("kwargs", dict))
        if not all(isinstance(json.loads(own[name]), kind) for name, kind in kinds):
            return b""
    except (KeyError, ValueError, RecursionError):
        return b""
    return b'{"task": %s, "args": %s, "kwargs": %s}' % (own["name"], own["args"], own["kwargs"])


# -- new and rewritten messages ----------------------------------------------------------------------------------------

_FORMAT_HINT = 'a task is written as {"task": "tasks.add", "args": [1, 2], "kwargs": {}}'
ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
MAX_EXPIRES_S = 10_000_000_000  # some 317 years: Python's dates end with the year 9999
_MAX_REPR_LENGTH = 1024  # characters of `argsrepr` (celery/app/amqp.py 5.7)
_EMBEDDED = b'{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'


class Options(NamedTuple):
    """The options of a new message other than its call; `eta` and `expires` are JSON."""

    id: str
    eta: bytes
    expires: bytes
    priority: int


def format_time(at_ms: int) -> str:
    """Format a time as Celery does: `2026-11-22T21:44:12.311000+00:00`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")


def replace_message_fields(message: bytes, part: str, changes: Mapping[str, bytes | None]) -> bytes:
    """Return a message with these fields changed in its `headers` or `properties`; every other byte stays.

    Raises ValueError for bytes that are no message, and for headers of Celery's first task protocol, which are in the
    body.
    """
    own = read_fields(message)
    known = {"headers": "task", "properties": "delivery_info"}[part]
    if not {"body", "headers", "properties"} <= own.keys() or known not in read_fields(own[part]):
        raise ValueError("it is no message of Celery")
    return replace_fields(message, {part: replace_fields(own[part], changes)})


def check_priority(value: object) -> int:
    """Check and return a priority of Kombu, 0 to 9. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise UsageError(f"celery: a priority is 0 to 9, and 0 is the highest, not {value!r:.40}.")
    return value


def copy_message(
    message: bytes, queue: str, id: str | None, changes: Mapping[str, bytes | None], priority: object
) -> bytes:
    """Copy a full message for a queue, with a new delivery tag and id: otherwise two tasks would share one result."""
    told = json.loads(message)
    own = json.dumps(id or str(uuid4())).encode()
    if isinstance(told["body"], list):  # as `editable` gives it
        call = base64.b64encode(read_fields(message)["body"]).decode()
        message = replace_fields(message, {"body": json.dumps(call).encode()})
        args, kwargs, _embed = told["body"]
        reprs = {"argsrepr": repr(tuple(args)), "kwargsrepr": repr(kwargs)}
        changes = {**changes, **{name: json.dumps(_shorten(text)).encode() for name, text in reprs.items()}}
    properties = {
        "correlation_id": own,
        "delivery_info": json.dumps({"exchange": "", "routing_key": queue}).encode(),
        "delivery_tag": json.dumps(str(uuid4())).encode(),
        **({"priority": b"%d" % check_priority(priority)} if priority is not None else {}),
    }
    headers = {"id": own, "redelivered": None, **changes}
    if told["headers"].get("root_id") == told["headers"]["id"]:
        headers["root_id"] = own
    return replace_message_fields(replace_message_fields(message, "headers", headers), "properties", properties)


def create_message(body: bytes, told: Mapping[str, Any], queue: str, options: Options) -> bytes:
    """Create a message of task protocol 2 with unchanged arguments (celery/app/amqp.py 5.7, `as_task_v2`)."""
    given = read_fields(body)
    args, kwargs = given.get("args", b"[]"), given.get("kwargs", b"{}")
    headers = {
        "lang": "py",
        "task": told["task"],
        "id": options.id,
        "shadow": None,
        "eta": json.loads(options.eta),
        "expires": json.loads(options.expires),
        "group": None,
        "group_index": None,
        "retries": told.get("retries", 0),
        "timelimit": told.get("timelimit", [None, None]),
        "root_id": options.id,
        "parent_id": None,
        "argsrepr": _shorten(repr(tuple(told.get("args", ())))),
        "kwargsrepr": _shorten(repr(told.get("kwargs", {}))),
        "origin": "rqtui",
        "ignore_result": told.get("ignore_result", False),
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    properties = {
        "correlation_id": options.id,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": options.priority,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    message = {
        "body": base64.b64encode(b"[" + args + b", " + kwargs + b", " + _EMBEDDED + b"]").decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return json.dumps(message).encode()


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_REPR_LENGTH else f"{text[: _MAX_REPR_LENGTH - 3]}..."


def parse_written_task(body: bytes) -> dict[str, Any]:
    """Parse and check a task in JSON, or a full message. Raises UsageError.

    The body of a message is encoded as in a queue, or a JSON list of the arguments.
    """
    try:
        read_fields(body)
        body.decode()
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"celery: this body is no JSON object; {_FORMAT_HINT}.") from None
    if "headers" in told or "properties" in told:
        try:
            replace_message_fields(body, "headers", {})
            whole = isinstance(told["headers"].get("id"), str) and _is_call(told["body"], told)
        except (ValueError, AttributeError):
            whole = False
        if not whole or not isinstance(told["properties"].get("delivery_info"), dict):
            raise UsageError(
                "celery: this body is no whole message: it has body, headers with task and id, and properties with "
                f"delivery_info, or a worker loses it. Otherwise {_FORMAT_HINT}."
            )
        return dict(told)
    if "task" not in told:
        raise UsageError(f'celery: this body has no "task"; {_FORMAT_HINT}.')
    if stray := sorted(told.keys() - _TASK_FIELDS.keys()):
        raise UsageError(f"celery: a task has no field {stray[0]!r:.60}; its fields: {', '.join(_TASK_FIELDS)}.")
    for name, (is_right, what) in _TASK_FIELDS.items():
        if name in told and not is_right(told[name]):
            raise UsageError(f'celery: "{name}" is {what}, not {told[name]!r:.60}; {_FORMAT_HINT}.')
    return dict(told)


def _is_call(body: object, told: Mapping[str, Any]) -> bool:
    """Return whether a body is encoded text, or a decoded JSON body `[args, kwargs, embed]`."""
    if not isinstance(body, list):
        return isinstance(body, str)
    kinds = [type(each) for each in body]
    is_plain = (told.get("content-type"), told["properties"].get("body_encoding")) == ("application/json", "base64")
    return is_plain and kinds[:2] == [list, dict] and len(kinds) == 3


def _is_timelimit(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(each is None or is_number(each) for each in value)


_TASK_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "task": (lambda value: isinstance(value, str) and bool(value), "the name of a task"),
    "args": (lambda value: isinstance(value, list), "a list"),
    "kwargs": (lambda value: isinstance(value, dict), "an object"),
    "id": (lambda value: isinstance(value, str) and bool(ID.fullmatch(value)), "1 to 200 letters, digits and _.:-"),
    "eta": (
        lambda value: isinstance(value, str) and convert_time_ms(value) is not None,
        "a time, as 2026-11-22T21:44:12Z",
    ),
    "countdown": (is_number, "seconds from now on"),
    "expires": (
        lambda value: value < MAX_EXPIRES_S if is_number(value) else convert_time_ms(value) is not None,
        "a time, or seconds from now on, fewer than ten thousand million",
    ),
    "priority": (lambda value: is_count(value) and value <= 9, "0 to 9, and 0 is the highest"),
    "retries": (is_count, "how often it was tried again"),
    "timelimit": (_is_timelimit, "two limits in seconds or null: the hard one and the soft one"),
    "ignore_result": (lambda value: isinstance(value, bool), "true or false"),
}
