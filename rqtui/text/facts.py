"""Format the facts of jobs and workers, the properties that only their own system has, as safe lines of text.

The values come from other programs: control characters in them are replaced, and secrets are masked. A value that does
not fit its kind is shown as text. Pure functions, used by the screen and the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rqtui.model import Fact
from rqtui.text.body import render_body
from rqtui.text.formats import format_date_and_time, format_duration
from rqtui.text.masking import MASK, is_secret_name, mask_text
from rqtui.text.sanitise import format_id, safe, safe_lines

LABEL = 12  # cells of a name, the same as for other properties of a job
MOST_LINES = 200  # lines of one fact


class FactLines(NamedTuple):
    """A fact of a job or worker, formatted: its name and the lines of its value.

    A value of several lines is shown below the name, one of a single line beside it.
    """

    name: str
    lines: tuple[str, ...]
    is_block: bool = False


def format_fact(fact: Fact, is_revealed: bool = False) -> FactLines:
    """Format a fact of a job or worker (a property that only its system has) as name and lines of text.

    Secrets are masked unless `is_revealed`.
    """
    name = safe(fact.name)
    if is_secret_name(fact.name) and not is_revealed and fact.kind != "ref":
        return FactLines(name, (MASK,))
    lines = _FORMATTERS.get(fact.kind, _format_text_fact)(fact, is_revealed)
    lines_left_out = len(lines) - MOST_LINES
    if lines_left_out > 0:
        lines = [*lines[:MOST_LINES], f"… {lines_left_out} more lines"]
    return FactLines(name, tuple(lines), len(lines) > 1)


def _format_text_fact(fact: Fact, is_revealed: bool) -> list[str]:
    text = _decode_fact_value(fact)
    return safe_lines(text if is_revealed else mask_text(text))


def _format_json_fact(fact: Fact, is_revealed: bool) -> list[str]:
    return render_body(_decode_fact_value(fact).encode("utf-8", "backslashreplace"), is_revealed).text.split("\n")


def _decode_fact_value(fact: Fact) -> str:
    return fact.value.decode("utf-8", "backslashreplace") if isinstance(fact.value, bytes) else str(fact.value)


def _format_instant_fact(fact: Fact, is_revealed: bool) -> list[str]:
    return [format_date_and_time(fact.value)] if isinstance(fact.value, int) else _format_text_fact(fact, is_revealed)


def _format_duration_fact(fact: Fact, is_revealed: bool) -> list[str]:
    return [format_duration(fact.value)] if isinstance(fact.value, int) else _format_text_fact(fact, is_revealed)


def _format_job_reference(fact: Fact, _is_revealed: bool) -> list[str]:
    queue_text = f" in {safe(fact.queue)}" if fact.queue else ""
    return [format_id(_decode_fact_value(fact)) + queue_text]


_FORMATTERS: dict[str, Callable[[Fact, bool], list[str]]] = {
    "json": _format_json_fact,
    "instant": _format_instant_fact,
    "duration": _format_duration_fact,
    "ref": _format_job_reference,
}


def build_fact_lines(fact: Fact, is_revealed: bool = False) -> list[str]:
    """Return a fact of a job or worker as printed lines: one value beside its name, several lines indented below it."""
    name, lines, is_block = format_fact(fact, is_revealed)
    if is_block:
        return [name, *(f"  {line}" for line in lines)]
    return [f"{name:<{LABEL}} {lines[0]}"]
