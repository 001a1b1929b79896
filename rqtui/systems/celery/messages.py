"""Messages of Celery, as Kombu writes them in JSON: read, changed and made. Bytes go in and come out.

Nothing of a pickle or of a call is loaded or run. What changes of a message is cut into its bytes, all others stay.
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
from rqtui.text import pickles
from rqtui.text.body import inflated
from rqtui.text.json_fields import fields, spliced
from rqtui.text.names import to_bytes

LONGEST_CALL = 1000  # characters
_READ_BYTES = 1024 * 1024  # a longer message is read by its end alone


class Message(NamedTuple):
    """A message as its JSON tells: its headers and properties, what it calls; `problem` where it cannot be read.

    `embed` is what runs after it: callbacks, errbacks, chain, chord.
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


def message_of(entry: bytes) -> bytes:
    """The message in an entry of `unacked`, byte for byte; the entry itself, where it is none."""
    text = entry.decode("latin-1")  # a character is a byte
    try:
        made, end = json.JSONDecoder().raw_decode(text, 1)
    except (ValueError, RecursionError):
        return entry
    return entry[1:end] if text[:1] == "[" else entry


@lru_cache(maxsize=2000)
def read(head: bytes, tail: bytes, is_held: bool) -> Message:
    """A message from its bytes, or from the end of them; pages ask for the same jobs at every tick."""
    told: object
    if tail or len(head) > _READ_BYTES:
        told = _ending(tail or head[-6144:])
        if not told:
            return Message(problem="it is too long to be read here")
    else:
        try:
            told = json.loads(head)
        except (ValueError, RecursionError):
            return Message(problem="its bytes are no JSON: the worker that takes it ends")
        if is_held:
            told = told[0] if isinstance(told, list) and told else None
    if not isinstance(told, dict):
        return Message(problem="its JSON is no message of Kombu: the worker that takes it stops")
    headers, properties = as_dict(told.get("headers")), as_dict(told.get("properties"))
    content = told.get("content-type")
    problem = ""
    if not isinstance(told.get("properties"), dict):
        problem = "it has no properties: the worker that takes it starts its consumer anew, and has lost it"
    body, trouble = (None, "") if tail else body_of(told, headers, properties)
    if isinstance(body, pickles.Pairs):
        body = {key: value for key, value in body.pairs if isinstance(key, str)}
    embed: object = {}
    args: object = None
    kwargs: object = None
    if isinstance(body, dict) and "task" not in headers:  # task protocol 1
        headers = {**headers, **{name: body[name] for name in _FIRST_PROTOCOL if name in body}}
        args, kwargs = body.get("args"), body.get("kwargs")
        embed = {name: body.get(name) for name in ("callbacks", "errbacks", "chord")}
    elif isinstance(body, list | tuple) and len(body) == 3:
        args, kwargs, embed = body
    elif body is not None and not trouble:
        trouble = "its body is no call of Celery"
    task, id = headers.get("task"), headers.get("id")
    if not isinstance(task, str) or not task:
        problem = problem or "it names no task: a worker throws it away"
        task = ""
    call = _call(task, headers, args, kwargs)
    priority = properties.get("priority")
    return Message(
        headers,
        properties,
        to_bytes(id) if isinstance(id, str) and id.isascii() else b"",
        task,
        call,
        _plain_dict(embed),
        instant_ms(headers.get("eta")),
        priority if is_count(priority) else 0,
        content if isinstance(content, str) else "",
        bool(headers.get("redelivered") or as_dict(properties.get("delivery_info")).get("redelivered")),
        problem or trouble,
    )


_FIRST_PROTOCOL = ("task", "id", "eta", "expires", "retries", "timelimit")


def _ending(tail: bytes) -> dict[str, Any]:
    """Headers and properties out of the end of a long message: Kombu writes them behind the body."""
    text = tail.decode("utf-8", "replace")
    at = text.find('"content-encoding":')
    at = text.find('"headers":') if at < 0 else at
    try:
        found, _end = json.JSONDecoder().raw_decode("{" + text[at:]) if at >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def body_of(told: Mapping[str, Any], headers: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[object, str]:
    """(What the body of a message holds, nothing of it loaded; what is wrong with it in words)."""
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
        raw = inflated(raw, pickles.MOST_BYTES)
        if not raw:
            return None, f"its body is compressed with {headers['compression']!s:.40}, which is not read here"
        if len(raw) > pickles.MOST_BYTES:
            return None, f"its body inflates to more than {pickles.MOST_BYTES // 1024} kB, which is not read"
    if raw[:1] == b"\x80":
        try:
            return pickles.read(raw), ""
        except ValueError as error:
            return None, f"{error}: it is shown as bytes"
    if told.get("content-type") not in ("application/json", None):
        return None, ""
    try:
        return json.loads(raw), ""
    except (ValueError, RecursionError):
        return None, "its body is no JSON"


def _call(task: str, headers: Mapping[str, Any], args: object, kwargs: object) -> str:
    """A call as one would type it; of a body that cannot be read, by what its producer wrote of the arguments."""
    if not task:
        return ""
    if args is not None:
        return pickles.call_text(task, args, kwargs, LONGEST_CALL)
    given, named = (headers.get(name) for name in ("argsrepr", "kwargsrepr"))
    return repr_call(task, given, named)


def repr_call(task: str, args: object, kwargs: object) -> str:
    """A call from what `argsrepr` and `kwargsrepr` say: `tasks.add(1, 2, retry=True)`; `**{…` where that is cut off."""
    inner = args.strip()[1:-1].rstrip(",") if isinstance(args, str) and len(args) > 1 else ""
    named = _named_arguments(kwargs) if isinstance(kwargs, str) and kwargs not in ("", "{}") else ""
    text = f"{task}({', '.join(filter(None, (inner, named)))})".encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_CALL else f"{text[:LONGEST_CALL]}…"


def _named_arguments(told: str) -> str:
    try:
        found = ast.literal_eval(told) if len(told) <= LONGEST_CALL else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    is_plain = isinstance(found, dict) and all(isinstance(name, str) for name in found)
    return ", ".join(f"{name}={value!r}" for name, value in found.items()) if is_plain and found else f"**{told}"


def _plain_dict(value: object) -> Mapping[str, Any]:
    found = pickles.plain(value)
    return found if isinstance(found, dict) else {}


def as_dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000


def instant_ms(value: object) -> int | None:
    """A time as Celery writes it, `2026-11-22T21:44:12.311195+00:00`, or seconds; None for neither."""
    if is_number(value):
        return round(value * 1000)
    try:
        at = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def call_of_reprs(task: str, given: str, named: str) -> bytes:
    """A task as a person writes one; empty where its name or its arguments were not told."""
    args, kwargs = _of_repr(given), _of_repr(named)
    if not task or not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        return b""
    return json.dumps({"task": task, "args": args, "kwargs": kwargs}).encode()


def _of_repr(told: str) -> object:
    """The arguments that `argsrepr` or `kwargsrepr` says; None where it was cut, hides something, or is no plain JSON.

    What was cut has `...` (celery/utils/saferepr.py 5.7); what a program hides it writes as `<secret>` or `****`.
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
    """Whether JSON keeps this value as it is."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def call_of_result(message: bytes) -> bytes:
    """A task as a person writes one, its arguments byte for byte, of a whole result with `result_extended`."""
    try:
        own = fields(message)
        kinds = (("name", str), ("args", list), ("kwargs", dict))
        if not all(isinstance(json.loads(own[name]), kind) for name, kind in kinds):
            return b""
    except (KeyError, ValueError, RecursionError):
        return b""
    return b'{"task": %s, "args": %s, "kwargs": %s}' % (own["name"], own["args"], own["kwargs"])


# -- new and rewritten messages ----------------------------------------------------------------------------------------

_HOW = 'a task is written as {"task": "tasks.add", "args": [1, 2], "kwargs": {}}'
ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
MOST_EXPIRES_S = 10_000_000_000  # some 317 years: of an instant after the year 9999 Python knows nothing
_LONGEST_REPR = 1024  # characters of `argsrepr` (celery/app/amqp.py 5.7)
_EMBEDDED = b'{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'


class Options(NamedTuple):
    """What a new message says beside its call; `eta` and `expires` are JSON."""

    id: str
    eta: bytes
    expires: bytes
    priority: int


def written(at_ms: int) -> str:
    """An instant as Celery writes it: `2026-11-22T21:44:12.311000+00:00`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")


def with_fields(message: bytes, part: str, changes: Mapping[str, bytes | None]) -> bytes:
    """A message with these fields in its `headers` or `properties`; every other byte stays.

    Raises ValueError for what is no message, and for headers of Celery's first task protocol, which stand in its body.
    """
    own = fields(message)
    known = {"headers": "task", "properties": "delivery_info"}[part]
    if not {"body", "headers", "properties"} <= own.keys() or known not in fields(own[part]):
        raise ValueError("it is no message of Celery")
    return spliced(message, {part: spliced(own[part], changes)})


def priority_of(value: object) -> int:
    """A priority of Kombu. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise UsageError(f"celery: a priority is 0 to 9, and 0 is the highest, not {value!r:.40}.")
    return value


def copied(message: bytes, queue: str, id: str | None, changes: Mapping[str, bytes | None], priority: object) -> bytes:
    """A whole message that is put into a queue: under another tag and another id, or results of two would be one."""
    told = json.loads(message)
    own = json.dumps(id or str(uuid4())).encode()
    if isinstance(told["body"], list):  # as `editable` gives it
        call = base64.b64encode(fields(message)["body"]).decode()
        message = spliced(message, {"body": json.dumps(call).encode()})
        args, kwargs, _embed = told["body"]
        reprs = {"argsrepr": repr(tuple(args)), "kwargsrepr": repr(kwargs)}
        changes = {**changes, **{name: json.dumps(_shortened(text)).encode() for name, text in reprs.items()}}
    properties = {
        "correlation_id": own,
        "delivery_info": json.dumps({"exchange": "", "routing_key": queue}).encode(),
        "delivery_tag": json.dumps(str(uuid4())).encode(),
        **({"priority": b"%d" % priority_of(priority)} if priority is not None else {}),
    }
    headers = {"id": own, "redelivered": None, **changes}
    if told["headers"].get("root_id") == told["headers"]["id"]:
        headers["root_id"] = own
    return with_fields(with_fields(message, "headers", headers), "properties", properties)


def made(body: bytes, told: Mapping[str, Any], queue: str, options: Options) -> bytes:
    """A message of task protocol 2 (celery/app/amqp.py 5.7, `as_task_v2`); the arguments stay as they were written."""
    given = fields(body)
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
        "argsrepr": _shortened(repr(tuple(told.get("args", ())))),
        "kwargsrepr": _shortened(repr(told.get("kwargs", {}))),
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


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_REPR else f"{text[: _LONGEST_REPR - 3]}..."


def written_task(body: bytes) -> dict[str, Any]:
    """A task in JSON, or a whole message, with its fields checked. Raises UsageError.

    The body of a message is as it stands in a queue, or the arguments that it holds.
    """
    try:
        fields(body)
        body.decode()
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"celery: this body is no JSON object; {_HOW}.") from None
    if "headers" in told or "properties" in told:
        try:
            with_fields(body, "headers", {})
            whole = isinstance(told["headers"].get("id"), str) and _is_call(told["body"], told)
        except (ValueError, AttributeError):
            whole = False
        if not whole or not isinstance(told["properties"].get("delivery_info"), dict):
            raise UsageError(
                "celery: this body is no whole message: it has body, headers with task and id, and properties with "
                f"delivery_info, or a worker loses it. Otherwise {_HOW}."
            )
        return dict(told)
    if "task" not in told:
        raise UsageError(f'celery: this body has no "task"; {_HOW}.')
    if stray := sorted(told.keys() - _TASK_FIELDS.keys()):
        raise UsageError(f"celery: a task has no field {stray[0]!r:.60}; its fields: {', '.join(_TASK_FIELDS)}.")
    for name, (is_right, what) in _TASK_FIELDS.items():
        if name in told and not is_right(told[name]):
            raise UsageError(f'celery: "{name}" is {what}, not {told[name]!r:.60}; {_HOW}.')
    return dict(told)


def _is_call(body: object, told: Mapping[str, Any]) -> bool:
    """Whether that is an encoded body, or what one of JSON holds: `[args, kwargs, embed]`."""
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
    "eta": (lambda value: isinstance(value, str) and instant_ms(value) is not None, "a time, as 2026-11-22T21:44:12Z"),
    "countdown": (is_number, "seconds from now on"),
    "expires": (
        lambda value: value < MOST_EXPIRES_S if is_number(value) else instant_ms(value) is not None,
        "a time, or seconds from now on, fewer than ten thousand million",
    ),
    "priority": (lambda value: is_count(value) and value <= 9, "0 to 9, and 0 is the highest"),
    "retries": (is_count, "how often it was tried again"),
    "timelimit": (_is_timelimit, "two limits in seconds or null: the hard one and the soft one"),
    "ignore_result": (lambda value: isinstance(value, bool), "true or false"),
}
