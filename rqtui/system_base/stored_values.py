"""Parse values that other programs stored in Redis as text or JSON, for the queue systems that read them.

A value of another type gives None or an empty value, because any program may have written it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any


def parse_int(text: str) -> int | None:
    """Parse an integer of at most 15 digits; None for any other text."""
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def parse_count(text: str) -> int | None:
    """Parse a number of at most 15 digits without a sign; None for any other text."""
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


def parse_float(value: float | str) -> float | None:
    """Parse a finite number; None for any other value."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def parse_json(raw: bytes | str) -> object:
    """Parse JSON to a value; None if the bytes are no JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def parse_json_object(raw: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; an empty one for any other bytes."""
    return as_dict(parse_json(raw))


def as_dict(value: object) -> Mapping[str, Any]:
    """Return the value if it is a dict, else an empty dict."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []
