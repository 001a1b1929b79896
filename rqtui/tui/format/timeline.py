"""Build the life-line of a job, its events over all attempts as lines of text: when each step was and how long it took.

The life-line is built from the job's record and the attempts stored there, never by a scan. The functions are pure,
from `model.Job` to `Content`.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

from textual.content import Content

from rqtui.model import Job, State
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.sanitise import safe, safe_lines
from rqtui.text.tracebacks import summarize_error
from rqtui.tui.format import columns

_MOST_EVENT_LINES = 4  # lines of one event; the whole error follows below the life-line
_MOST_ERROR_LINES = 60  # shown lines of one attempt's error


class JobEvent(NamedTuple):
    """Something that happened to a job or will happen: its time, the style of its state, and its text."""

    at_ms: int
    hue: str
    words: str


def list_job_events(job: Job, is_revealed: bool = False) -> list[JobEvent]:
    """Return what happened to a job, oldest first: enqueued, reserved, failed, …, from its record and its attempts."""
    events: list[JobEvent] = []
    if job.enqueued_ms is not None:
        events.append(JobEvent(job.enqueued_ms, "$data", "enqueued"))
    for attempt in job.history:
        if attempt.start_ms:
            events.append(
                JobEvent(attempt.start_ms, "$state-reserved", _describe_reservation(attempt.worker, is_revealed))
            )
        if attempt.end_ms:
            events.append(
                JobEvent(attempt.end_ms, "$state-dead", f"failed: {_format_error_line(attempt.error, is_revealed)}")
            )
    if job.state is State.RESERVED and job.reserved_ms:
        events.append(JobEvent(job.reserved_ms, "$state-reserved", _describe_reservation(job.worker, is_revealed)))
    if job.state is State.SCHEDULED and job.due_ms is not None:
        events.append(JobEvent(job.due_ms, "$state-scheduled", "due"))
    if job.state is State.RESERVED and job.deadline_ms is not None:
        events.append(JobEvent(job.deadline_ms, "$state-reserved", "lease ends"))
    if job.state in _STATE_EVENTS and job.since_ms is not None:
        events.append(JobEvent(job.since_ms, f"$state-{job.state}", _STATE_EVENTS[job.state]))
    return sorted(events, key=operator.attrgetter("at_ms"))  # Stable: events of the same time stay in this order.


_STATE_EVENTS = {State.READY: "ready", State.DEAD: "dead", State.DONE: "done"}


def _describe_reservation(worker: str, is_revealed: bool) -> str:
    return f"reserved by {_sanitise_text(worker, is_revealed)}" if worker else "reserved"


def _sanitise_text(text: str, is_revealed: bool) -> str:
    return safe(text if is_revealed else mask_text(text))


def _format_error_line(error: str, is_revealed: bool) -> str:
    return safe(summarize_error(error)) if is_revealed else columns.format_error_line(error)


def format_job_timeline(job: Job, width: int, now_ms: int, is_revealed: bool = False) -> Content:
    """Return a job's life-line as text: the day, then one line per event.

    Each line has the time of its event and the time since the event before. Events in the future have a hollow dot.
    """
    events = list_job_events(job, is_revealed)
    if not events:
        return Content()
    day = formats.format_local_day(events[0].at_ms)
    lines = [Content.assemble(("life-line", "b $strong"), (f"  {day}", "$muted"))]
    previous_ms: int | None = None
    for event in events:
        if day != (day := formats.format_local_day(event.at_ms)):
            lines.append(Content.styled(day, "$muted"))
        gap = (
            formats.format_duration(event.at_ms - previous_ms)
            if previous_ms is not None and event.at_ms > previous_ms
            else ""
        )
        previous_ms = event.at_ms
        clock = formats.format_clock(event.at_ms)
        indent = formats.cell_len(clock) + 3
        cells = max(8, width - indent - 1 - len(gap))
        event_lines = _wrap_event(event.words, max(8, width - indent))
        if formats.cell_len(event_lines[0]) > cells:  # The time since the event before is in the first line.
            event_lines = _wrap_event(event.words, cells)
        description, *more = event_lines
        dot = "○" if event.at_ms > now_ms else "●"
        first = formats.fit_to_width(description, cells)
        lines.append(Content.assemble((clock, "$muted"), " ", (dot, event.hue), f" {first} ", (gap, "$muted")))
        if len(more) >= _MOST_EVENT_LINES:
            more = [*more[: _MOST_EVENT_LINES - 2], " ".join(more[_MOST_EVENT_LINES - 2 :])]
        rest_cells = max(8, width - indent)
        lines += [Content(" " * indent + formats.fit_to_width(line, rest_cells).rstrip()) for line in more]
    return Content("\n").join(lines)


def _wrap_event(text: str, cells: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(text).wrap(cells)] or [""]


def format_attempt_errors(job: Job, is_revealed: bool = False) -> Content:
    """Return the errors of all attempts of a job, newest first, each below a heading with the number of its attempt."""
    failed = [(number, attempt) for number, attempt in enumerate(job.history, 1) if attempt.error]
    # An attempt in progress and a successful one have no error.
    ended_attempts = job.attempts - (job.state in (State.RESERVED, State.DONE))
    missing_attempts = max(0, ended_attempts - len(job.history))  # the record stores only the latest attempts
    parts: list[Content] = []
    for number, attempt in reversed(failed):
        lasted = (
            formats.format_duration(attempt.end_ms - attempt.start_ms) if attempt.start_ms and attempt.end_ms else ""
        )
        facts = (
            formats.format_clock(attempt.end_ms) if attempt.end_ms else "",
            _sanitise_text(attempt.worker, is_revealed),
            lasted,
        )
        heading = "  " + " · ".join(filter(None, facts))
        parts.append(Content.assemble("\n", (f"attempt {missing_attempts + number}", "b $strong"), (heading, "$muted")))
        text = attempt.error if is_revealed else mask_text(attempt.error)
        lines = safe_lines(text)
        parts.append(Content("\n".join(lines[-_MOST_ERROR_LINES:])))
        if len(lines) > _MOST_ERROR_LINES:
            parts.append(Content.styled(f"… {len(lines) - _MOST_ERROR_LINES} lines before", "$muted"))
    if not failed and job.error:
        text = job.error if is_revealed else mask_text(job.error)
        parts.append(Content.styled("\nlast error", "b $strong"))
        parts.append(Content("\n".join(safe_lines(text)[-_MOST_ERROR_LINES:])))
    return Content("\n").join(parts)
