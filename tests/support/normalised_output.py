"""Replace the values that differ between runs in printed text and in JSON documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from rqtui.operations import journal

_CHANGING_PATTERNS = [
    (re.compile(r"\b(Redis|Valkey) \d+(\.\d+)+"), "<server>"),
    (re.compile(r"\b[0-9A-Za-z]{22}\b"), "<id>"),
    (re.compile(r"redis://[^\s,;]+"), "<url>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?"), "<instant>"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "<clock>"),
    (re.compile(rf"\b{re.escape(journal.find_current_user())}"), "<author>"),
    (re.compile(r"(?<![\w-])[+-]?\d+(\.\d+)? ?(ms|s|m|h|d|y)(\d+)?\b"), "<age>"),
    (re.compile(r"\b\d{6,16}(\.\d+)?\b"), "<time>"),
    (re.compile(r"[ ─━]{2,}"), "  "),
]


def normalise_output(text: str) -> str:
    """Replace URLs, times, ages, authors, long numbers, and gaps between columns by placeholders."""
    for pattern, word in _CHANGING_PATTERNS:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


_VARIABLE_NAME = re.compile(r"_(ms|s|us|bytes|per_s)$|^(pid|id|seed|total|taken|version)$")


def list_document_lines(value: object, path: str = "") -> Iterator[str]:
    """Yield a line of text for each part of a JSON document. Positive times, sizes and ids are replaced."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else [("", value)]
    plain, below = [], []
    for name, part in parts:
        if name in ("server", "minutes", "rates"):
            continue  # differs between servers, or when a minute ends
        if isinstance(part, dict | list) and part:
            below.append((f"{path}.{name}" if path else str(name), part))
        elif isinstance(part, int | float) and part > 0 and _VARIABLE_NAME.search(str(name)):
            plain.append(f"{name}=<number>")
        else:
            plain.append(f"{name}={normalise_output(json.dumps(part, ensure_ascii=False))}")
    if plain:
        yield f"{path}: {' '.join(plain)}"
    for deeper, part in below:
        yield from list_document_lines(part, deeper)
