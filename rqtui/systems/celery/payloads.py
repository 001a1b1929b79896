"""Decode what Celery publishes: events of tasks and workers, and results. Pure functions from bytes to plain values.

An event is a JSON object with `type`, `uuid` (the id of the task) and `hostname` (the worker); a message of Kombu has
one event or a list of them (celery/events/dispatcher.py 5.7). A result is the JSON object that `celery-task-meta-<id>`
stores (celery/backends/base.py 5.7, `_get_result_meta`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rqtui.model import Fact
from rqtui.system_base.stored_values import as_dict
from rqtui.systems.celery import messages
from rqtui.text import pickles
from rqtui.text.fields import parse_partial_body as read_partial_json

MAX_CHILDREN = 20  # tasks that a result names as its children
_CUT_BYTES = 64 * 1024  # of a result that was cut


def decode_event_message(message: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the events in a published message of Kombu, which has one event or a list of events."""
    document = parse_json_object(message)
    headers, properties = (as_dict(document.get(part)) for part in ("headers", "properties"))
    body, _body_problem = messages.decode_body(document, headers, properties)
    if document.get("content-type") != "application/json":
        body = pickles.convert_to_json_types(body)
    for event in body if isinstance(body, list) else [body]:
        if isinstance(event, dict) and isinstance(event.get("uuid", ""), str):
            yield event


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object, or the beginning of a truncated one; an empty dict for any other text."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = read_partial_json(raw[:_CUT_BYTES])
    return value if isinstance(value, dict) else {}


def read_task_id(event: Mapping[str, Any]) -> bytes:
    """Return the task id of an event as bytes; empty if the event has none."""
    return str(event.get("uuid", "")).encode("utf-8", "replace")


def read_text_field(event: Mapping[str, Any], name: str) -> str:
    """Return a field of an event as text. A lone surrogate becomes a question mark."""
    value = event.get(name)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def parse_count(value: object) -> int | None:
    """Return a value that is a valid count, else None."""
    return value if messages.is_count(value) else None


def format_result_error(result: Mapping[str, Any]) -> str:
    """Return the error in the result of a task: its traceback, else `ValueError: boom`; empty if it has none."""
    if result.get("status") not in ("FAILURE", "REVOKED", "RETRY"):
        return ""
    exception = as_dict(result.get("result"))
    message = exception.get("exc_message")
    error_text = ", ".join(str(each) for each in message) if isinstance(message, list) else str(message or "")
    error = ": ".join(filter(None, (str(exception.get("exc_type") or ""), error_text)))
    return read_text_field(result, "traceback").strip() or error


def build_result_facts(result: Mapping[str, Any], has_error: bool = False) -> Iterator[Fact]:
    """Yield the facts of a stored result; its error is left out if the job already shows that (`has_error`)."""
    yield Fact("status", read_text_field(result, "status"))
    if (done_ms := messages.convert_time_ms(result.get("date_done"))) is not None:
        yield Fact("ended", done_ms, "instant")
    if result.get("result") is not None and not (has_error and result.get("status") == "FAILURE"):
        yield Fact("result", json.dumps(result["result"], ensure_ascii=False), "json")
    if not has_error and read_text_field(result, "traceback"):
        yield Fact("traceback", read_text_field(result, "traceback"), "trace")
    if isinstance(parent := result.get("parent_id"), str) and parent != result.get(
        "task_id"
    ):  # a retried task is its own parent
        yield Fact("parent", parent, "ref")
    children = result.get("children")
    for child in children[:MAX_CHILDREN] if isinstance(children, list) else ():
        id = child[0][0] if isinstance(child, list) and child and isinstance(child[0], list) and child[0] else None
        if isinstance(id, str):
            yield Fact("child", id, "ref")
