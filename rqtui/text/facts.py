"""Facts of jobs and workers in words: what a system knows and others do not, as lines that are safe to print.

What they say comes from strangers: it is made safe, and what its name or its text tells to be a secret is masked. A
value that is not of its kind is shown as text. Pure; the screen and the command line say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rqtui.model import Fact
from rqtui.text.body import MASK, body_view, is_secret, mask_text
from rqtui.text.formats import duration, moment
from rqtui.text.sanitise import safe, safe_lines, shown_id

LABEL = 12  # cells of a name, as of the other properties of a job
MOST_LINES = 200  # of one fact


class Said(NamedTuple):
    """A fact in words: its name, and the lines of its value; several lines are a block, which stands below the name."""

    name: str
    lines: tuple[str, ...]
    is_block: bool = False


def said(fact: Fact, is_revealed: bool = False) -> Said:
    """One fact in words."""
    name = safe(fact.name)
    if is_secret(fact.name) and not is_revealed and fact.kind != "ref":
        return Said(name, (MASK,))
    lines = _WAYS.get(fact.kind, _text)(fact, is_revealed)
    left = len(lines) - MOST_LINES
    if left > 0:
        lines = [*lines[:MOST_LINES], f"… {left} more lines"]
    return Said(name, tuple(lines), len(lines) > 1)


def _text(fact: Fact, is_revealed: bool) -> list[str]:
    text = _written(fact)
    return safe_lines(text if is_revealed else mask_text(text))


def _json(fact: Fact, is_revealed: bool) -> list[str]:
    return body_view(_written(fact).encode("utf-8", "backslashreplace"), is_revealed).text.split("\n")


def _written(fact: Fact) -> str:
    return fact.value.decode("utf-8", "backslashreplace") if isinstance(fact.value, bytes) else str(fact.value)


def _instant(fact: Fact, is_revealed: bool) -> list[str]:
    return [moment(fact.value)] if isinstance(fact.value, int) else _text(fact, is_revealed)


def _duration(fact: Fact, is_revealed: bool) -> list[str]:
    return [duration(fact.value)] if isinstance(fact.value, int) else _text(fact, is_revealed)


def _ref(fact: Fact, _is_revealed: bool) -> list[str]:
    where = f" in {safe(fact.queue)}" if fact.queue else ""
    return [shown_id(_written(fact)) + where]


_WAYS: dict[str, Callable[[Fact, bool], list[str]]] = {
    "json": _json,
    "instant": _instant,
    "duration": _duration,
    "ref": _ref,
}


def written(fact: Fact, is_revealed: bool = False) -> list[str]:
    """A fact as lines of a page of text: its name, and its value beside it or, of several lines, below it."""
    name, lines, is_block = said(fact, is_revealed)
    if is_block:
        return [name, *(f"  {line}" for line in lines)]
    return [f"{name:<{LABEL}} {lines[0]}"]
