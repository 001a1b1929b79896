"""Jobs as rows of a table and as words: what a place shows of a job, what a job's page says of it.

Pure: from `model.Job` to rows, and to `Content` with the theme's variables. All data goes through `display.safe`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from textual.content import Content, Span

from rqtui.model import Job, Place, Queue, State
from rqtui.tui import display
from rqtui.tui.rows import Cell, Column, Piece, Row

SHORT_ID, LONG_ID = 8, 16  # cells: side by side, and where one pane has the whole width
WHOLE_ID = 64  # where the id is all there is of a job
PREVIEW_BYTES = 200
_USUAL = frozenset({"name", "when", "lease"})  # columns that are there until jobs show that they have nothing in them
LATE_MS = 1500  # a loop looks once a second: what is late by less will be moved in a moment
_NAME = Column("name", "job", 8, weight=3, drop=2)
_TRIED = Column("tried", "tried", 5, align="right", drop=4)
_ERROR = Column("error", "last error", 14, weight=6, drop=6)
_WORKER = Column("worker", "worker", 8, weight=1, drop=5)


def _when(title: str) -> Column:
    return Column("when", title, 6, align="right", style="muted")


_COLUMNS: dict[State, tuple[Column, ...]] = {
    State.SCHEDULED: (_NAME, _when("due in"), _TRIED, _ERROR),
    State.READY: (_NAME, _when("waits"), _TRIED, _ERROR),
    State.RESERVED: (
        _NAME,
        Column("lease", "lease", 5, drop=3),
        Column("when", "left", 5, align="right"),
        _TRIED,
        _WORKER,
    ),
    State.DONE: (_NAME, _when("ended"), _TRIED, _WORKER),
    State.DEAD: (_NAME, Column("owner", "worker", 8, weight=1, drop=5), _when("died"), _TRIED, _ERROR),
}
EMPTY: dict[State, str] = {
    State.SCHEDULED: "nothing is due later",
    State.READY: "nothing waits: N adds a job",
    State.RESERVED: "no worker holds a job",
    State.DONE: "no finished job is kept",
    State.DEAD: "no job has died",
}


def empty(place: Place, is_late: bool, *, may_change: bool = True) -> str:
    """What a place without jobs says; `is_late`: it holds those of its state whose lease is over."""
    if is_late:
        return "no lease is over"
    if place.state is State.DEAD and place.name != place.state:
        return f"nothing stands in {place.name}"
    words = EMPTY[place.state]
    return words if may_change else words.partition(":")[0]


def told(jobs: Sequence[Job], tells: frozenset[str], now_ms: int) -> frozenset[str]:
    """The keys of columns in which there is something to say: what the system `tells`, and what these jobs have."""
    if not jobs:
        return tells | _USUAL
    has = {
        "name": any(job.problem or job.name or _head(job) for job in jobs),
        "when": any(job.state is State.SCHEDULED or left_ms(job, now_ms) is not None for job in jobs),
        "lease": any(_whole_lease(job) for job in jobs),
        "tried": any(job.attempts for job in jobs),
        "error": any(job.error for job in jobs),
        "worker": any(job.worker for job in jobs),
    }
    return tells | {key for key, is_there in has.items() if is_there}


def columns(state: State, id_cells: int, told: frozenset[str]) -> tuple[Column, ...]:
    """The columns of a place in that state, of jobs of which so much is `told`."""
    return (Column("id", "id", id_cells, weight=0 if "name" in told else 1), *_known(state, told))


def row(job: Job, now_ms: int, id_cells: int, told: frozenset[str]) -> Row:
    """The line of a job in the columns of its state."""
    cells = (_CELLS[column.key](job, now_ms) for column in _known(job.state, told))
    return Row(job.id, (display.job_id(job.id, id_cells if "name" in told else WHOLE_ID), *cells))


def _known(state: State, told: frozenset[str]) -> tuple[Column, ...]:
    return tuple(column for column in _COLUMNS[state] if column.key in told)


def _name(job: Job, _now_ms: int) -> Cell:
    """Its kind; of a job that has none the beginning of its body."""
    if job.problem:
        return Piece(job.problem, "state-dead")
    if job.name:
        return display.safe(job.name)
    head = _head(job)
    return preview(head) if head else Piece(display.ZERO, "muted")


def _head(job: Job) -> bytes:
    """The beginning of its body, or else of what stands in the place; nothing where that is its id."""
    head = job.member if job.body is None else job.body
    return head[:PREVIEW_BYTES] if head != job.id else b""


@lru_cache(4096)
def preview(head: bytes) -> str:
    """The beginning of a body on one line."""
    return " ".join(display.body_view(head).text.split())


def left_ms(job: Job, now_ms: int) -> int | None:
    """The number that a place's time column shows: until due, waiting since, left of the lease, since the end."""
    since = job.since_ms
    if job.state is State.SCHEDULED and job.due_ms is not None:
        return job.due_ms - now_ms
    if job.state is State.RESERVED and job.deadline_ms is not None:
        return job.deadline_ms - now_ms
    return max(0, now_ms - since) if since is not None else None


def _time(job: Job, now_ms: int) -> Cell:
    ms = left_ms(job, now_ms)
    is_late = ms is not None and ms < 0
    return Piece(display.age(ms), "state-dead" if is_late else "muted")


def _whole_lease(job: Job) -> int:
    """How long its lease is as a whole; 0 where nobody knows."""
    if job.deadline_ms is None:
        return 0
    return max(1, job.deadline_ms - job.reserved_ms) if job.reserved_ms else job.ttr_ms or 0


def _lease(job: Job, now_ms: int) -> Cell:
    left, whole = left_ms(job, now_ms) or 0, _whole_lease(job)
    if not whole:
        return Piece(display.ZERO, "muted")
    used, rest = display.lease_bar(left, whole, 5)
    return (Piece(used, "state-dead" if left < 0 else "state-reserved"), Piece(rest, "muted"))


def _tried(job: Job, _now_ms: int) -> Cell:
    if not job.attempts:
        return Piece(display.ZERO, "muted")
    return f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)


def _error(job: Job, _now_ms: int) -> Cell:
    return Piece(display.safe(last_line(job.error)), "state-dead") if job.error else ""


def _worker(job: Job, _now_ms: int) -> Cell:
    return display.safe(job.worker)


_CELLS = {
    "name": _name,
    "when": _time,
    "lease": _lease,
    "tried": _tried,
    "error": _error,
    "worker": _worker,
    "owner": _worker,
}


def last_line(error: str) -> str:
    """Of a traceback the line that says what happened; the only line of any other error."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# -- a job's page ------------------------------------------------------------------------------------------------------


def properties(job: Job, now_ms: int, tells: frozenset[str]) -> Content:
    """What is known of a job, a line each; of what its system does not tell, nothing."""
    has_record = "tried" in tells
    tried = f"{job.attempts} of {job.max_attempts or '?'}" if has_record or job.max_attempts else str(job.attempts)
    known: list[tuple[object, str, Content | str]] = [
        (True, "id", Content.styled(display.safe(job.id), "$strong")),
        ("name" in tells or job.name, "job", display.safe(job.name) or display.ZERO),
        (True, "place", Content.styled(job.place, f"$state-{job.state}")),
        (has_record or left_ms(job, now_ms) is not None, *_time_line(job, now_ms)),
        (has_record or job.attempts, "attempts", tried),
        (has_record or job.priority, "priority", str(job.priority)),
        (has_record or job.ttr_ms, "lease", display.age(job.ttr_ms) if job.ttr_ms else "the queue's"),
        (has_record or job.worker, "worker", display.safe(job.worker) or display.ZERO),
        (True, "body", display.size(job.body_bytes)),
    ]
    lines = [(label, value) for is_known, label, value in known if is_known]
    if job.cancelled:
        lines.append(("cancel", Content.styled("asked for, its worker learns it soon", "$state-reserved")))
    if job.problem:
        lines.append(("problem", Content.styled(job.problem, "$state-dead")))
    made = [Content.assemble((f"{label:<14}", "$muted"), value) for label, value in lines]
    return Content("\n").join(made)


def _time_line(job: Job, now_ms: int) -> tuple[str, Content | str]:
    ms = left_ms(job, now_ms)
    if ms is None:
        return "since", display.ZERO
    if job.state in (State.SCHEDULED, State.RESERVED):
        label = "due" if job.state is State.SCHEDULED else "lease ends"
        return label, f"in {display.age(ms)}" if ms >= 0 else Content.styled(f"{display.age(-ms)} ago", "$state-dead")
    label = {State.READY: "waits", State.DEAD: "died"}.get(job.state, "ended")
    return label, f"for {display.age(ms)}" if job.state is State.READY else f"{display.age(ms)} ago"


def life_line(job: Job, width: int) -> Content:
    """What happened to a job, from its record and its errors: its day, then a line per event, the newest last."""
    events: list[tuple[int, str, str]] = []
    if job.enqueued_ms is not None:
        events.append((job.enqueued_ms, "$data", "enqueued"))
    for attempt in job.history:
        events.append(
            (attempt.start_ms, "$state-reserved", f"reserved by {display.safe(attempt.worker) or 'nobody named'}")
        )
        lasted = display.duration(attempt.end_ms - attempt.start_ms)
        events.append(
            (attempt.end_ms, "$state-dead", f"failed after {lasted}: {display.safe(last_line(attempt.error))}")
        )
    if job.state is State.RESERVED and job.reserved_ms:
        events.append((job.reserved_ms, "$state-reserved", f"reserved by {display.safe(job.worker) or 'nobody named'}"))
    if job.state is State.SCHEDULED and job.due_ms is not None:
        events.append((job.due_ms, "$state-scheduled", "due"))
    if job.state is State.READY and job.since_ms is not None:
        events.append((job.since_ms, "$state-ready", "ready"))
    if job.state is State.DEAD and job.since_ms is not None:
        events.append((job.since_ms, "$state-dead", "dead"))
    if job.state is State.DONE and job.since_ms is not None:
        events.append((job.since_ms, "$state-done", "done"))
    if not events:
        return Content()
    made = [Content.assemble(("life-line", "b $strong"), (f"  {display.day(job.enqueued_ms)}", "$muted"))]
    day = display.day(job.enqueued_ms)
    for at_ms, hue, words in events:
        if day != (day := display.day(at_ms)):
            made.append(Content.styled(day, "$muted"))
        text = display.fit(words, max(8, width - 11)).rstrip()
        made.append(Content.assemble((display.clock(at_ms), "$muted"), " ", ("●", hue), " ", text))
    return Content("\n").join(made)


def body(job: Job, width: int, revealed: bool = False) -> tuple[str, Content]:
    """How the body is encoded, and its text for `width` cells; one that was not fetched says how long it is."""
    if job.body is None:
        return "omitted", Content.styled(f"{display.size(job.body_bytes)}: Enter shows it", "$muted")
    return _shown(job.body, revealed, width)


@lru_cache(16)
def _shown(body: bytes, revealed: bool, width: int) -> tuple[str, Content]:
    view = display.body_view(body, revealed, width=width)
    coloured = view.encoding in ("json", "msgpack")
    return view.encoding, highlighted(view.text) if coloured else Content(view.text)


_MOST_COLOURED = 65536  # characters; what stands below is plain
_HUES = {"key": "$json-key", "string": "$json-string", "number": "$json-number", "mark": "$muted"}
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*")(?P<key>:)?
      | (?P<number>-?\b\d[\d.eE+-]*|\b(?:true|false|null|NaN|Infinity)\b)
      | (?P<mark>[{}\[\],:]|•+)""",
    re.VERBOSE,
)


def highlighted(text: str) -> Content:
    """Indented JSON with its keys, strings and numbers in their hues; the text is taken as it is."""
    spans = []
    for match in _TOKEN.finditer(text, 0, _MOST_COLOURED):
        kind = match.lastgroup or "mark"
        end = match.end("string") if kind in ("key", "string") else match.end()
        spans.append(Span(match.start(), end, _HUES[kind]))
    return Content(text, spans)


def hints(queue: Queue | None, state: State, late_at: int = 0) -> list[tuple[str, str]]:
    """(words, style) that the frame of a place says below: what happens next there, and the key that helps.

    `late_at` is the key of the place where expired leases stand, when that is another one.
    """
    if queue is None:
        return []
    if state is State.SCHEDULED and queue.overdue:
        due_ms = queue.next_due_ms
        is_late = due_ms is None or not -LATE_MS <= due_ms <= 0  # else: due before all time, and not the next one
        return [(f"{display.count(queue.overdue)} due" + (": , dispatches" if is_late else ""), _alarm(is_late))]
    if state is State.SCHEDULED and queue.next_due_ms is not None:
        return [(f"next due in {display.age(queue.next_due_ms)}", "muted")]
    if state is State.RESERVED and queue.expired and late_at:
        return [(f"{display.count(queue.expired)} expired: {late_at} shows", "muted")]
    if state is State.RESERVED and queue.expired:
        is_late = (queue.next_expiry_ms or 0) < -LATE_MS
        return [(f"{display.count(queue.expired)} expired" + (": . reaps" if is_late else ""), _alarm(is_late))]
    if state is State.READY and queue.paused:
        return [("paused: P resumes", "state-reserved")]
    return []


def _alarm(is_late: bool) -> str:
    return "state-dead" if is_late else "muted"
