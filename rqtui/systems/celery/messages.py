"""Decode, change and create the JSON messages that Celery's transport Kombu stores in Redis.

Used by `system` in this package. Pickles and calls are decoded without importing or executing anything. A change
replaces only the affected bytes of a message.
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
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import as_dict
from rqtui.text import pickles
from rqtui.text.body import decompress_zlib
from rqtui.text.json_fields import read_json_fields, replace_json_fields
from rqtui.text.names import to_bytes, to_text

MAX_CALL_LENGTH = 1000  # characters
_READ_BYTES = 1024 * 1024  # of a longer message only the end is read


class Message(NamedTuple):
    """A Celery message decoded from its JSON: headers, properties, call, and `problem` if it could not be decoded.

    `embed` holds the tasks that run after this one: callbacks, errbacks, chain, chord.
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
    """Return the message inside an entry of the hash `unacked`, byte for byte; any other entry unchanged."""
    text = entry.decode("latin-1")  # one character per byte, so that `end` is a byte offset
    try:
        _value, end = json.JSONDecoder().raw_decode(text, 1)
    except (ValueError, RecursionError):
        return entry
    return entry[1:end] if text[:1] == "[" else entry


@lru_cache(maxsize=2000)
def decode_message(head: bytes, tail: bytes, is_in_unacked: bool) -> Message:
    """Decode a Celery message from its bytes; a message that is too long for a page is decoded from its last bytes.

    `is_in_unacked` says that the message is inside an entry of `unacked`. Results are cached, because every poll reads
    the same jobs again.
    """
    try:
        document = _parse_message(head, tail, is_in_unacked)
    except ValueError as error:
        return Message(problem=str(error))
    headers, properties = as_dict(document.get("headers")), as_dict(document.get("properties"))
    body, body_problem = (None, "") if tail else decode_body(document, headers, properties)
    call = _extract_call(body, headers)
    headers = {**headers, **call.headers} if call.headers else headers
    id, task, priority = headers.get("id"), _read_text_field(headers, "task"), properties.get("priority")
    problems = (
        "" if isinstance(document.get("properties"), dict) else _NO_PROPERTIES,
        "" if task else "it names no task: a worker throws it away",
        body_problem,
        call.problem,
    )
    message = Message(
        headers,
        properties,
        to_bytes(id) if isinstance(id, str) and id.isascii() else b"",
        task,
        _format_task_call(task, headers, call.args, call.kwargs),
        _to_plain_dict(call.embed),
        convert_time_ms(headers.get("eta")),
        priority if is_count(priority) else 0,
        _read_text_field(document, "content-type"),
        bool(headers.get("redelivered") or as_dict(properties.get("delivery_info")).get("redelivered")),
        next(filter(None, problems), ""),
    )
    return message._replace(facts=tuple(_build_message_facts(message)))


_NO_PROPERTIES = "it has no properties: the worker that takes it restarts its consumer and loses it"


def _parse_message(head: bytes, tail: bytes, is_in_unacked: bool) -> Mapping[str, Any]:
    """Parse the JSON of a message. Raises ValueError with a sentence for a person if the bytes are no message."""
    document: object
    if tail or len(head) > _READ_BYTES:
        document = _parse_message_end(tail or head[-6144:])
        if not document:
            raise ValueError("it is too long to read here")
        return document
    try:
        document = json.loads(head)
    except (ValueError, RecursionError):
        raise ValueError("its bytes are no JSON: the worker that takes it ends") from None
    if is_in_unacked:
        document = document[0] if isinstance(document, list) and document else None
    if not isinstance(document, dict):
        raise ValueError("its JSON is no message of Kombu: the worker that takes it stops")
    return document


class _DecodedCall(NamedTuple):
    """The call in the body of a message.

    `headers` are the fields that task protocol 1 stores in the body, and protocol 2 in the headers.
    """

    args: object = None
    kwargs: object = None
    embed: object = {}
    headers: Mapping[str, Any] = {}
    problem: str = ""


def _extract_call(body: object, headers: Mapping[str, Any]) -> _DecodedCall:
    """Extract the arguments of a task from its decoded body. None stands for an undecoded body."""
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


def _parse_message_end(tail: bytes) -> dict[str, Any]:
    """Parse headers and properties from the last bytes of a long message: Kombu writes both after the body."""
    tail_text = tail.decode("utf-8", "replace")
    position = tail_text.find('"content-encoding":')
    position = tail_text.find('"headers":') if position < 0 else position
    if position < 0:
        return {}
    try:
        fields, _end = json.JSONDecoder().raw_decode("{" + tail_text[position:])
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def decode_body(
    document: Mapping[str, Any], headers: Mapping[str, Any], properties: Mapping[str, Any]
) -> tuple[object, str]:
    """Decode the body of a message without executing anything. Returns the value, and a sentence if decoding failed."""
    body = document.get("body")
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
        raw = decompress_zlib(raw, pickles.MOST_BYTES)
        if not raw:
            return None, f"its body is compressed with {headers['compression']!s:.40}, which is not read here"
        if len(raw) > pickles.MOST_BYTES:
            return None, f"its body inflates to more than {pickles.MOST_BYTES // 1024} kB, which is not read"
    if raw[:1] == b"\x80":
        try:
            return pickles.parse_pickle(raw), ""
        except ValueError as error:
            return None, f"{error}: it is shown as bytes"
    if document.get("content-type") not in ("application/json", None):
        return None, ""
    try:
        return json.loads(raw), ""
    except (ValueError, RecursionError):
        return None, "its body is no JSON"


def _format_task_call(task: str, headers: Mapping[str, Any], args: object, kwargs: object) -> str:
    """Format a task as a call, from its arguments, else from its `argsrepr` and `kwargsrepr` headers."""
    if not task:
        return ""
    if args is not None:
        return pickles.format_function_call(task, args, kwargs, MAX_CALL_LENGTH)
    args_repr, kwargs_repr = (headers.get(name) for name in ("argsrepr", "kwargsrepr"))
    return format_call_of_reprs(task, args_repr, kwargs_repr)


def format_call_of_reprs(task: str, args_repr: object, kwargs_repr: object) -> str:
    """Format a call from `argsrepr` and `kwargsrepr`: `tasks.add(1, 2, retry=True)`.

    Keyword arguments that were cut off are shown as `**{…`, and all arguments as `…` if neither of the two is a text.
    """
    if not isinstance(args_repr, str) and not isinstance(kwargs_repr, str):
        return f"{task}(…)"
    positional = args_repr.strip()[1:-1].rstrip(",") if isinstance(args_repr, str) and len(args_repr) > 1 else ""
    keyword = (
        _format_keyword_arguments(kwargs_repr) if isinstance(kwargs_repr, str) and kwargs_repr not in ("", "{}") else ""
    )
    text = f"{task}({', '.join(filter(None, (positional, keyword)))})".encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_CALL_LENGTH else f"{text[:MAX_CALL_LENGTH]}…"


def _format_keyword_arguments(kwargs_repr: str) -> str:
    """Format `kwargsrepr` as keyword arguments, `a=1, b=2`; as `**{…` if it cannot be parsed."""
    try:
        arguments = ast.literal_eval(kwargs_repr) if len(kwargs_repr) <= MAX_CALL_LENGTH else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        arguments = None
    is_plain = isinstance(arguments, dict) and all(isinstance(name, str) for name in arguments)
    return (
        ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        if is_plain and arguments
        else f"**{kwargs_repr}"
    )


def _to_plain_dict(value: object) -> Mapping[str, Any]:
    """Convert a decoded value to a dict of plain Python values; empty if it is no dict."""
    plain = pickles.convert_to_json_types(value)
    return plain if isinstance(plain, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a JSON value is a number from 0 to 1e12, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a JSON value is an integer from 0 to 1e9, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000


def convert_time_ms(value: object) -> int | None:
    """Convert a time that Celery wrote to milliseconds; None for any other value.

    Celery writes `2026-11-22T21:44:12.311195+00:00`, or seconds since 1970 as a number. A time without a zone is UTC.
    """
    if is_number(value):
        return round(value * 1000)
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _build_message_facts(message: Message) -> list[Fact]:
    """Build the facts of a message that only Celery has, such as time limits, root and chain, most useful first."""
    headers, own_id = message.headers, to_text(message.id)
    root_id, parent_id = _read_text_field(headers, "root_id"), _read_text_field(headers, "parent_id")
    embedded_tasks = {label: message.embed[name] for name, label in EMBED_LABELS.items() if message.embed.get(name)}
    return build_facts(
        (
            ("expires", convert_time_ms(headers.get("expires")), "instant"),
            ("time limit", read_time_limit_ms(headers, 0), "duration"),
            ("soft time limit", read_time_limit_ms(headers, 1), "duration"),
            ("root", root_id if root_id != own_id else "", "ref"),
            ("parent", parent_id if parent_id != own_id else "", "ref"),
            ("group", _read_text_field(headers, "group"), "text"),
            ("shadow", _read_text_field(headers, "shadow"), "text"),
            ("origin", _read_text_field(headers, "origin"), "text"),
            *[(label, _format_follow_up_tasks(tasks), "text") for label, tasks in embedded_tasks.items()],
            ("result is", "ignored" if headers.get("ignore_result") is True else "", "text"),
            ("stamps", json.dumps(headers["stamps"]) if as_dict(headers.get("stamps")) else "", "json"),
            ("body", "" if message.content == "application/json" else message.content, "text"),
            ("compression", _read_text_field(headers, "compression"), "text"),
            ("redelivered", "yes: a worker had it before" if message.is_redelivered else "", "text"),
            ("exchange", _format_exchange(as_dict(message.properties.get("delivery_info"))), "text"),
            ("delivery tag", _read_text_field(message.properties, "delivery_tag"), "text"),
        )
    )


EMBED_LABELS = {"callbacks": "then", "errbacks": "on error", "chain": "chain", "chord": "chord"}


def _read_text_field(fields: Mapping[str, Any], name: str) -> str:
    """Return a text field of a JSON object; empty if the field is missing or no text."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def read_time_limit_ms(headers: Mapping[str, Any], index: int) -> int | None:
    """Return the hard (index 0) or the soft (index 1) time limit of a task in ms; None if it has none."""
    limits = headers.get("timelimit")
    limit = limits[index] if isinstance(limits, list) and len(limits) > index else None
    return round(limit * 1000) if is_number(limit) else None


def _format_exchange(delivery_info: Mapping[str, Any]) -> str:
    """Describe the exchange and the routing key of a message; empty if the message names no exchange."""
    exchange = delivery_info.get("exchange")
    return f"{exchange} with the routing key {delivery_info.get('routing_key', '')}" if exchange else ""


def _format_follow_up_tasks(value: object) -> str:
    """Format the tasks that run after a task as calls; as JSON if the value is no list of tasks."""
    calls = []
    for signature in value if isinstance(value, list) else [value]:
        if not isinstance(signature, dict) or not isinstance(signature.get("task"), str):
            return json.dumps(value)
        calls.append(
            pickles.format_function_call(signature["task"], signature.get("args"), signature.get("kwargs"), 200)
        )
    return ", ".join(calls)


def build_task_of_reprs(task: str, args_repr: str, kwargs_repr: str) -> bytes:
    """Build the JSON of a task from its `argsrepr` and `kwargsrepr`; empty if its name or its arguments are unknown."""
    args, kwargs = _parse_argument_repr(args_repr), _parse_argument_repr(kwargs_repr)
    if not task or not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        return b""
    return json.dumps({"task": task, "args": args, "kwargs": kwargs}).encode()


def _parse_argument_repr(argument_repr: str) -> object:
    """Parse `argsrepr` or `kwargsrepr` to a value; None if the text was cut off, hides a value, or is no plain JSON.

    Celery marks a cut with `...` (celery/utils/saferepr.py 5.7); programs hide values as `<secret>` or `****`.
    """
    if any(mark in argument_repr for mark in ("...", "**", "<")):
        return None
    try:
        value = ast.literal_eval(argument_repr)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    items = value if isinstance(value, tuple) else (value,)
    return value if repr(value) == argument_repr and all(map(_is_json_value, items)) else None


def _is_json_value(value: object) -> bool:
    """Return whether JSON can store a value without loss."""
    if isinstance(value, list):
        return all(map(_is_json_value, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json_value(item) for name, item in value.items())
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def build_task_of_result(message: bytes) -> bytes:
    """Build the JSON of a task from a stored result with arguments (`result_extended`), byte for byte.

    Returns empty bytes if the result has no name or no arguments.
    """
    try:
        fields = read_json_fields(message)
        field_types = (("name", str), ("args", list), ("kwargs", dict))
        if not all(isinstance(json.loads(fields[name]), field_type) for name, field_type in field_types):
            return b""
    except (KeyError, ValueError, RecursionError):
        return b""
    return b'{"task": %s, "args": %s, "kwargs": %s}' % (fields["name"], fields["args"], fields["kwargs"])


# -- new and rewritten messages ----------------------------------------------------------------------------------------

_FORMAT_HINT = 'a task is written as {"task": "tasks.add", "args": [1, 2], "kwargs": {}}'
ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
MAX_EXPIRES_S = 10_000_000_000  # some 317 years: Python's dates end with the year 9999
_MAX_REPR_LENGTH = 1024  # characters of `argsrepr` (celery/app/amqp.py 5.7)
_EMBEDDED = b'{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'


class Options(NamedTuple):
    """The options of a new message, without its call. `eta` and `expires` are JSON values."""

    id: str
    eta: bytes
    expires: bytes
    priority: int


def format_time(at_ms: int) -> str:
    """Format a time in ms as Celery does: `2026-11-22T21:44:12.311000+00:00`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")


def replace_message_fields(message: bytes, part: str, changes: Mapping[str, bytes | None]) -> bytes:
    """Change fields in the `headers` or `properties` of a message, and leave every other byte as it is.

    Raises ValueError for bytes that are no message, and for messages of Celery's first task protocol, whose headers are
    in the body.
    """
    fields = read_json_fields(message)
    required_field = {"headers": "task", "properties": "delivery_info"}[part]
    if not {"body", "headers", "properties"} <= fields.keys() or required_field not in read_json_fields(fields[part]):
        raise ValueError("it is no message of Celery")
    return replace_json_fields(message, {part: replace_json_fields(fields[part], changes)})


def address_message(message: bytes, queue: str) -> bytes:
    """Return a message as Celery sends it to a queue by its name: `delivery_info` names the queue and no exchange.

    Celery retries a task in that queue (`signature_from_request` in celery/app/task.py 5.7), and Kombu delivers a
    message that was not acked there again (`_do_restore_message` in kombu/transport/redis.py 5.7). All other bytes
    stay. Raises KeyError or ValueError for bytes that are no message.
    """
    delivery_info = read_json_fields(read_json_fields(message)["properties"])["delivery_info"]
    address = {"exchange": b'""', "routing_key": json.dumps(queue).encode()}
    return replace_message_fields(message, "properties", {"delivery_info": replace_json_fields(delivery_info, address)})


def parse_priority(value: object) -> int:
    """Return a priority of Kombu, an integer from 0 to 9. Raises UsageError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise UsageError(f"celery: a priority is 0 to 9, and 0 is the highest, not {value!r:.40}.")
    return value


def copy_message(
    message: bytes, queue: str, id: str | None, changes: Mapping[str, bytes | None], priority: object
) -> bytes:
    """Copy a full message into a queue, with a new delivery tag and a new id unless `id` is given.

    A copy with the same id would share one result with the original task.
    """
    document = json.loads(message)
    id_json = json.dumps(id or str(uuid4())).encode()
    if isinstance(document["body"], list):  # as `editable` gives it
        call = base64.b64encode(read_json_fields(message)["body"]).decode()
        message = replace_json_fields(message, {"body": json.dumps(call).encode()})
        args, kwargs, _embed = document["body"]
        reprs = {"argsrepr": repr(tuple(args)), "kwargsrepr": repr(kwargs)}
        changes = {**changes, **{name: json.dumps(_shorten_repr(text)).encode() for name, text in reprs.items()}}
    properties = {
        "correlation_id": id_json,
        "delivery_info": json.dumps({"exchange": "", "routing_key": queue}).encode(),
        "delivery_tag": json.dumps(str(uuid4())).encode(),
        **({"priority": b"%d" % parse_priority(priority)} if priority is not None else {}),
    }
    headers = {"id": id_json, "redelivered": None, **changes}
    if document["headers"].get("root_id") == document["headers"]["id"]:
        headers["root_id"] = id_json
    return replace_message_fields(replace_message_fields(message, "headers", headers), "properties", properties)


def create_message(body: bytes, task: Mapping[str, Any], queue: str, options: Options) -> bytes:
    """Create a message of task protocol 2 for a queue (celery/app/amqp.py 5.7, `as_task_v2`).

    The JSON of the arguments in `body` is copied byte for byte; `task` is the parsed `body`.
    """
    fields = read_json_fields(body)
    args, kwargs = fields.get("args", b"[]"), fields.get("kwargs", b"{}")
    headers = {
        "lang": "py",
        "task": task["task"],
        "id": options.id,
        "shadow": None,
        "eta": json.loads(options.eta),
        "expires": json.loads(options.expires),
        "group": None,
        "group_index": None,
        "retries": task.get("retries", 0),
        "timelimit": task.get("timelimit", [None, None]),
        "root_id": options.id,
        "parent_id": None,
        "argsrepr": _shorten_repr(repr(tuple(task.get("args", ())))),
        "kwargsrepr": _shorten_repr(repr(task.get("kwargs", {}))),
        "origin": "rqtui",
        "ignore_result": task.get("ignore_result", False),
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


def _shorten_repr(text: str) -> str:
    """Cut a text to the length at which Celery cuts `argsrepr` and `kwargsrepr`."""
    return text if len(text) <= _MAX_REPR_LENGTH else f"{text[: _MAX_REPR_LENGTH - 3]}..."


def parse_written_task(body: bytes) -> dict[str, Any]:
    """Parse a task that a person wrote as JSON, or a full message. Raises UsageError if a field is wrong.

    The body of a full message is either encoded as in a queue, or a JSON list of the arguments.
    """
    try:
        read_json_fields(body)
        body.decode()
        task = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"celery: this body is no JSON object; {_FORMAT_HINT}.") from None
    if "headers" in task or "properties" in task:
        try:
            replace_message_fields(body, "headers", {})
            is_complete = isinstance(task["headers"].get("id"), str) and _is_call_body(task["body"], task)
        except (ValueError, AttributeError):
            is_complete = False
        if not is_complete or not isinstance(task["properties"].get("delivery_info"), dict):
            raise UsageError(
                "celery: this body is no whole message: it has body, headers with task and id, and properties with "
                f"delivery_info, or a worker loses it. Otherwise {_FORMAT_HINT}."
            )
        return dict(task)
    if "task" not in task:
        raise UsageError(f'celery: this body has no "task"; {_FORMAT_HINT}.')
    if unknown_fields := sorted(task.keys() - _TASK_FIELDS.keys()):
        raise UsageError(
            f"celery: a task has no field {unknown_fields[0]!r:.60}; its fields: {', '.join(_TASK_FIELDS)}."
        )
    for name, (is_valid, description) in _TASK_FIELDS.items():
        if name in task and not is_valid(task[name]):
            raise UsageError(f'celery: "{name}" is {description}, not {task[name]!r:.60}; {_FORMAT_HINT}.')
    return dict(task)


def _is_call_body(body: object, document: Mapping[str, Any]) -> bool:
    """Return whether the body of a written message is encoded text, or a JSON list `[args, kwargs, embed]`."""
    if not isinstance(body, list):
        return isinstance(body, str)
    item_types = [type(item) for item in body]
    is_plain = (document.get("content-type"), document["properties"].get("body_encoding")) == (
        "application/json",
        "base64",
    )
    return is_plain and item_types[:2] == [list, dict] and len(item_types) == 3


def _is_time_limit_pair(value: object) -> bool:
    """Return whether a value is a list of two time limits, each a number or null."""
    return isinstance(value, list) and len(value) == 2 and all(limit is None or is_number(limit) for limit in value)


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
    "timelimit": (_is_time_limit_pair, "two limits in seconds or null: the hard one and the soft one"),
    "ignore_result": (lambda value: isinstance(value, bool), "true or false"),
}
