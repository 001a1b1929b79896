"""A job's body on the command line, which is JSON: a string is stored as its UTF-8, anything else as its text."""

from __future__ import annotations

import json
from typing import Any

from rqtui.errors import UsageError


def encoded(raw: bytes) -> bytes:
    """The bytes to store for a body that is JSON: a string's UTF-8, anything else as its text. Raises UsageError."""
    try:
        text = raw.decode().strip()
        value = parsed(text)
    except (ValueError, RecursionError) as error:
        shown = repr(raw[:40])[1:] + ("…" if len(raw) > 40 else "")  # a sentence, not a dump
        raise UsageError(
            f"the body {shown} is not JSON ({error}); a text needs quotes, and --raw stores bytes as they are."
        ) from None
    return utf8(value) if isinstance(value, str) else text.encode()


def utf8(text: str) -> bytes:
    """The bytes of a text. Raises UsageError where it holds half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the body holds half of a surrogate pair, which is no text; --raw stores bytes as they are."
        ) from None


def parsed(text: str) -> Any:
    """The value that JSON says; NaN and Infinity are none. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
