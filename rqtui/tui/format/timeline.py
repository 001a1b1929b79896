"""The life-line of a job: what happened to it over all attempts, how long each step took, and its errors.

Made from the job's record and the attempts it keeps, never by a scan. Pure: from `model.Job` to `Content`.
"""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content

from rqtui.model import Job, State
from rqtui.text import formats
from rqtui.text.body import mask_text
from rqtui.text.sanitise import safe, safe_lines
from rqtui.text.tracebacks import line_of
from rqtui.tui.format import columns

_MOST_ERROR_LINES = 60  # of one attempt


class Event(NamedTuple):
    """Something that happened, or will: when, in whose hue, in words."""

    at_ms: int
    hue: str
    words: str


def events(job: Job, revealed: bool = False) -> list[Event]:
    """All that the record tells of a job's life, the newest last."""
    made: list[Event] = []
    if job.enqueued_ms is not None:
        made.append(Event(job.enqueued_ms, "$data", "enqueued"))
    for attempt in job.history:
        if attempt.start_ms:
            made.append(Event(attempt.start_ms, "$state-reserved", _reserved(attempt.worker)))
        if attempt.end_ms:
            made.append(Event(attempt.end_ms, "$state-dead", f"failed: {_line(attempt.error, revealed)}"))
    if job.state is State.RESERVED and job.reserved_ms:
        made.append(Event(job.reserved_ms, "$state-reserved", _reserved(job.worker)))
    if job.state is State.SCHEDULED and job.due_ms is not None:
        made.append(Event(job.due_ms, "$state-scheduled", "due"))
    if job.state is State.RESERVED and job.deadline_ms is not None:
        made.append(Event(job.deadline_ms, "$state-reserved", "lease ends"))
    if job.state in _ENDS and job.since_ms is not None:
        made.append(Event(job.since_ms, f"$state-{job.state}", _ENDS[job.state]))
    return made


_ENDS = {State.READY: "ready", State.DEAD: "dead", State.DONE: "done"}


def _reserved(worker: str) -> str:
    return f"reserved by {safe(worker)}" if worker else "reserved"


def _line(error: str, revealed: bool) -> str:
    return safe(line_of(error)) if revealed else columns.error_line(error)


def life_line(job: Job, width: int, now_ms: int, revealed: bool = False) -> Content:
    """A day, then a line per event: when, what, how long after the one before; what is still to come is hollow."""
    told = events(job, revealed)
    if not told:
        return Content()
    day = formats.day(told[0].at_ms)
    lines = [Content.assemble(("life-line", "b $strong"), (f"  {day}", "$muted"))]
    before: int | None = None
    for event in told:
        if day != (day := formats.day(event.at_ms)):
            lines.append(Content.styled(day, "$muted"))
        gap = formats.duration(event.at_ms - before) if before is not None and event.at_ms > before else ""
        before = event.at_ms
        when = formats.clock(event.at_ms)
        words = formats.fit(event.words, max(8, width - formats.cell_len(when) - 4 - len(gap)))
        dot = "○" if event.at_ms > now_ms else "●"
        lines.append(Content.assemble((when, "$muted"), " ", (dot, event.hue), f" {words} ", (gap, "$muted")))
    return Content("\n").join(lines)


def errors(job: Job, revealed: bool = False) -> Content:
    """The errors of all attempts, the newest first, each below a line that says which one it was."""
    failed = [(number, each) for number, each in enumerate(job.history, 1) if each.error]
    ended = job.attempts - (
        job.state in (State.RESERVED, State.DONE)
    )  # the one under way has no error, nor the one that ended well
    first = max(0, ended - len(job.history))  # the record keeps the last ones
    made: list[Content] = []
    for number, each in reversed(failed):
        lasted = formats.duration(each.end_ms - each.start_ms) if each.start_ms and each.end_ms else ""
        told = (formats.clock(each.end_ms) if each.end_ms else "", safe(each.worker), lasted)
        head = "  " + " · ".join(filter(None, told))
        made.append(Content.assemble("\n", (f"attempt {first + number}", "b $strong"), (head, "$muted")))
        text = each.error if revealed else mask_text(each.error)
        lines = safe_lines(text)
        made.append(Content("\n".join(lines[-_MOST_ERROR_LINES:])))
        if len(lines) > _MOST_ERROR_LINES:
            made.append(Content.styled(f"… {len(lines) - _MOST_ERROR_LINES} lines before", "$muted"))
    if not failed and job.error:
        text = job.error if revealed else mask_text(job.error)
        made.append(Content.styled("\nlast error", "b $strong"))
        made.append(Content("\n".join(safe_lines(text)[-_MOST_ERROR_LINES:])))
    return Content("\n").join(made)
