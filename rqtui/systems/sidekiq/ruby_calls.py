"""Format jobs as Ruby calls, such as `HardJob.perform(1, "two")`, and decode the arguments of ActiveJob.

Used by `job_format`, and by `schedules` for the jobs that a schedule enqueues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

_MAX_CALL_LENGTH = 1000  # characters


class BareText(str):
    """A text that is shown without quotes, such as a GlobalID or the name of a symbol."""

    __slots__ = ()


def decode_argument(value: object, depth: int = 0) -> object:
    """Convert a serialized argument of ActiveJob to the value that the job receives.

    Source: ActiveJob 7, `ActiveJob::Arguments`. The keys that ActiveJob adds are left out.
    """
    if depth > 40:
        return BareText("…")
    if isinstance(value, list):
        return [decode_argument(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(found := value.get("_aj_globalid"), str):
        return BareText(found)
    if "_aj_serialized" in value and "value" in value:
        kind = str(value["_aj_serialized"]).rpartition("::")[2]
        inner = decode_argument(value["value"], depth + 1)
        return BareText(f":{inner}") if kind == "SymbolSerializer" else inner
    symbols = value.get("_aj_symbol_keys") or value.get("_aj_ruby2_keywords")
    are_symbols = set(symbols) if isinstance(symbols, list) and all(isinstance(one, str) for one in symbols) else set()
    return {
        BareText(f"{key}") if key in are_symbols else key: decode_argument(each, depth + 1)
        for key, each in value.items()
        if not key.startswith("_aj_")
    }


def format_job_call(name: str, args: Sequence[object]) -> str:
    """Format a job as a Ruby call, `HardJob.perform(1, "two")`. The name of a mail already has its method."""
    parts: list[str] = []
    free_characters = _MAX_CALL_LENGTH - len(name)
    for argument in args:
        if free_characters <= 0:
            parts.append("…")
            break
        text = _format_ruby(argument, free_characters)
        if (
            isinstance(argument, dict)
            and argument
            and all(isinstance(key, BareText) for key in argument)
            and argument is args[-1]
        ):
            text = text[1:-1]  # keywords
        parts.append(text)
        free_characters -= len(text) + 2
    method = "" if "." in name.rpartition("::")[2] else ".perform"
    text = f"{name}{method}({', '.join(parts)})"
    return text if len(text) <= _MAX_CALL_LENGTH else f"{text[:_MAX_CALL_LENGTH]}…"


def _format_ruby(value: object, max_length: int, depth: int = 0) -> str:
    """Format a value as Ruby source, cut to about `max_length` characters."""
    if depth > 40 or max_length <= 0:
        return "…"
    if value is None:
        return "nil"
    if isinstance(value, BareText):
        return value[:max_length]
    if isinstance(value, str):
        return json.dumps(value[:max_length], ensure_ascii=False)[: -1 if len(value) > max_length else None] + (
            "…" if len(value) > max_length else ""
        )
    if isinstance(value, list | dict):
        parts, free_characters = [], max_length
        pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for key, item in pairs:
            if free_characters <= 0:
                parts.append("…")
                break
            text = _format_ruby(item, free_characters, depth + 1)
            if key is not None:
                text = (
                    f"{key}: {text}" if isinstance(key, BareText) else f"{_format_ruby(key, free_characters)} => {text}"
                )
            parts.append(text)
            free_characters -= len(text) + 2
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{', '.join(parts)}{closing}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 3000:
        return f"<a number of {value.bit_length()} bits>"
    return json.dumps(value)
