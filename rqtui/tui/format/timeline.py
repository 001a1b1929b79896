"""Build the life-line of a job: its events over all attempts, how long each step took, and its errors.

It is built from the job's record and the attempts stored there, never by a scan. The functions are pure, from
`model.Job` to `Content`.
"""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content

from rqtui.model import Job, State
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.sanitise import safe, safe_lines
from rqtui.text.tracebacks import summarize_error
from rqtui.tui.format import columns

_MOST_ERROR_LINES = 60  # shown lines of one attempt's error


class Event(NamedTuple):
    """Something that happened to a job or will happen: its time, the style of its state, and its text."""

    at_ms: int
    hue: str
    words: str


def list_events(job: Job, revealed: bool = False) -> list[Event]:
    """Return the events of a job's record, oldest first."""
    job_events: list[Event] = []
    if job.enqueued_ms is not None:
        job_events.append(Event(job.enqueued_ms, "$data", "enqueued"))
    for attempt in job.history:
        if attempt.start_ms:
            job_events.append(Event(attempt.start_ms, "$state-reserved", _describe_lease(attempt.worker, revealed)))
        if attempt.end_ms:
            job_events.append(
                Event(attempt.end_ms, "$state-dead", f"failed: {_format_error_line(attempt.error, revealed)}")
            )
    if job.state is State.RESERVED and job.reserved_ms:
        job_events.append(Event(job.reserved_ms, "$state-reserved", _describe_lease(job.worker, revealed)))
    if job.state is State.SCHEDULED and job.due_ms is not None:
        job_events.append(Event(job.due_ms, "$state-scheduled", "due"))
    if job.state is State.RESERVED and job.deadline_ms is not None:
        job_events.append(Event(job.deadline_ms, "$state-reserved", "lease ends"))
    if job.state in _STATE_EVENTS and job.since_ms is not None:
        job_events.append(Event(job.since_ms, f"$state-{job.state}", _STATE_EVENTS[job.state]))
    return job_events


_STATE_EVENTS = {State.READY: "ready", State.DEAD: "dead", State.DONE: "done"}


def _describe_lease(worker: str, revealed: bool) -> str:
    return f"reserved by {_sanitise(worker, revealed)}" if worker else "reserved"


def _sanitise(text: str, revealed: bool) -> str:
    return safe(text if revealed else mask_text(text))


def _format_error_line(error: str, revealed: bool) -> str:
    return safe(summarize_error(error)) if revealed else columns.format_error_line(error)


def format_life_line(job: Job, width: int, now_ms: int, revealed: bool = False) -> Content:
    """Return the life-line as text: the day, then one line per event with its time and the time since the one before.

    Events in the future have a hollow dot.
    """
    job_events = list_events(job, revealed)
    if not job_events:
        return Content()
    day = formats.format_day(job_events[0].at_ms)
    lines = [Content.assemble(("life-line", "b $strong"), (f"  {day}", "$muted"))]
    previous_ms: int | None = None
    for event in job_events:
        if day != (day := formats.format_day(event.at_ms)):
            lines.append(Content.styled(day, "$muted"))
        gap = (
            formats.format_duration(event.at_ms - previous_ms)
            if previous_ms is not None and event.at_ms > previous_ms
            else ""
        )
        previous_ms = event.at_ms
        when = formats.format_clock(event.at_ms)
        words = formats.fit(event.words, max(8, width - formats.cell_len(when) - 4 - len(gap)))
        dot = "○" if event.at_ms > now_ms else "●"
        lines.append(Content.assemble((when, "$muted"), " ", (dot, event.hue), f" {words} ", (gap, "$muted")))
    return Content("\n").join(lines)


def format_errors(job: Job, revealed: bool = False) -> Content:
    """Return the errors of all attempts, newest first, each below a heading with the number of its attempt."""
    failed = [(number, each) for number, each in enumerate(job.history, 1) if each.error]
    # An attempt in progress and a successful one have no error.
    ended = job.attempts - (job.state in (State.RESERVED, State.DONE))
    first = max(0, ended - len(job.history))  # the record stores only the latest attempts
    parts: list[Content] = []
    for number, each in reversed(failed):
        lasted = formats.format_duration(each.end_ms - each.start_ms) if each.start_ms and each.end_ms else ""
        facts = (formats.format_clock(each.end_ms) if each.end_ms else "", _sanitise(each.worker, revealed), lasted)
        head = "  " + " · ".join(filter(None, facts))
        parts.append(Content.assemble("\n", (f"attempt {first + number}", "b $strong"), (head, "$muted")))
        text = each.error if revealed else mask_text(each.error)
        lines = safe_lines(text)
        parts.append(Content("\n".join(lines[-_MOST_ERROR_LINES:])))
        if len(lines) > _MOST_ERROR_LINES:
            parts.append(Content.styled(f"… {len(lines) - _MOST_ERROR_LINES} lines before", "$muted"))
    if not failed and job.error:
        text = job.error if revealed else mask_text(job.error)
        parts.append(Content.styled("\nlast error", "b $strong"))
        parts.append(Content("\n".join(safe_lines(text)[-_MOST_ERROR_LINES:])))
    return Content("\n").join(parts)
