"""Encode a job's body that is given as JSON: a string is stored as its UTF-8, anything else as its text."""

from __future__ import annotations

import json
from typing import Any

from rqtui.errors import UsageError


def encode_json_body(raw: bytes) -> bytes:
    """Convert a job's body from JSON to the bytes to store: the UTF-8 of a string, or the JSON text itself.

    Raises UsageError.
    """
    try:
        text = raw.decode().strip()
        value = parse_strict_json(text)
    except (ValueError, RecursionError) as error:
        excerpt = repr(raw[:40])[1:] + (
            "…" if len(raw) > 40 else ""
        )  # only the beginning, so that the message stays short
        raise UsageError(
            f"the body {excerpt} is not JSON ({error}); a text needs quotes, and --raw stores bytes as they are."
        ) from None
    return encode_text(value) if isinstance(value, str) else text.encode()


def encode_text(text: str) -> bytes:
    """Encode a text as UTF-8. Raises UsageError if it contains half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the body holds half of a surrogate pair, which is no text; --raw stores bytes as they are."
        ) from None


def parse_strict_json(text: str) -> Any:
    """Parse a JSON text. Raises ValueError, also for NaN and Infinity, and RecursionError."""
    return json.loads(text, parse_constant=_refuse_json_constant)


def _refuse_json_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")
