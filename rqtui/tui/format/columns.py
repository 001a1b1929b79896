"""The columns of a board: what a place shows of its jobs, by its state or by the names in a person's config.

A name is one of `NAMES`, or `body.` and the path of a value in a JSON or msgpack body (`body.user.id`). The id comes
first, always. Pure: from `model.Job` to rows; all data goes through `safe`, and secrets are masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from rqtui.model import Job, State
from rqtui.text import formats
from rqtui.text.body import MASK, body_view, decoded, is_secret, mask_text, secrets
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row

SHORT_ID, LONG_ID = 8, 16  # cells: side by side, and where one pane has the whole width
WHOLE_ID = 64  # where the id is all there is of a job
PREVIEW_BYTES = 200
PATH_BYTES = 1000  # of a body, where a column shows a value in it
_PATH = "body."
_USUAL = frozenset({"job", "time", "lease"})  # columns that are there until jobs show that they have nothing in them
_WHEN = {
    State.SCHEDULED: "due in",
    State.READY: "waits",
    State.RESERVED: "left",
    State.DONE: "ended",
    State.DEAD: "died",
}
_KNOWN = {
    "job": Column("job", "job", 8, weight=3, drop=2),
    "time": Column("time", "", 6, align="right", style="muted"),
    "lease": Column("lease", "lease", 5, drop=3),
    "tried": Column("tried", "tried", 5, align="right", drop=4),
    "error": Column("error", "last error", 14, weight=6, drop=6),
    "worker": Column("worker", "worker", 8, weight=1, drop=5),
    "owner": Column("owner", "worker", 8, weight=1, drop=5),  # of a dead one, where no history has the name
    "priority": Column("priority", "prio", 5, align="right", style="muted", drop=4),
    "size": Column("size", "size", 6, align="right", style="muted", drop=4),
    "enqueued": Column("enqueued", "age", 6, align="right", style="muted", drop=4),
    "body": Column("body", "body", 14, weight=5, drop=5),
}
NAMES = ("id", *(name for name in _KNOWN if name != "owner"))
_USUAL_OF: dict[State, tuple[str, ...]] = {
    State.SCHEDULED: ("job", "time", "tried", "error"),
    State.READY: ("job", "time", "tried", "error"),
    State.RESERVED: ("job", "lease", "time", "tried", "worker"),
    State.DONE: ("job", "time", "tried", "worker"),
    State.DEAD: ("job", "owner", "time", "tried", "error"),
}


def wanted(settings: Mapping[str, Sequence[str]], state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names, unknown names) that the settings have for a state, or else for every board; none: the usual ones."""
    names = settings.get(state) or settings.get("board") or ()
    known = tuple(name for name in names if name in _KNOWN or (name.startswith(_PATH) and len(name) > len(_PATH)))
    return known, tuple(name for name in names if name not in known and name != "id")


def told(jobs: Sequence[Job], tells: frozenset[str], now_ms: int) -> frozenset[str]:
    """The names of columns in which there is something to say: what the system `tells`, and what these jobs have."""
    known = frozenset("job" if name == "name" else name for name in tells)
    if not jobs:
        return known | _USUAL
    has = {
        "job": any(job.problem or job.name or _head(job) for job in jobs),
        "time": any(job.state is State.SCHEDULED or left_ms(job, now_ms) is not None for job in jobs),
        "lease": any(whole_lease(job) for job in jobs),
        "tried": any(job.attempts for job in jobs),
        "error": any(job.error for job in jobs),
        "worker": any(job.worker for job in jobs),
    }
    return known | {name for name, is_there in has.items() if is_there}


def shown(state: State, told: frozenset[str], chosen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of the columns of a place: those that somebody chose, or the usual ones of its state that are told."""
    return chosen or tuple(name for name in _USUAL_OF[state] if name in told)


def columns(state: State, names: Sequence[str], id_cells: int, *, are_chosen: bool = False) -> tuple[Column, ...]:
    """The columns of those names, with the id before them; of chosen ones the last go first where it is narrow."""
    made = [_column(name, state) for name in names]
    if are_chosen:
        made = [column._replace(drop=number) for number, column in enumerate(made, 1)]
    has_more = any(column.weight for column in made)
    return (Column("id", "id", id_cells, weight=0 if has_more else 1), *made)


def _column(name: str, state: State) -> Column:
    if name.startswith(_PATH):
        return Column(name, safe(name.rpartition(".")[2]), 8, weight=2, drop=3)
    known = _KNOWN[name]
    if name != "time":
        return known
    narrow = state is State.RESERVED  # the bar of its lease stands beside it
    return Column("time", _WHEN[state], 5 if narrow else 6, align="right", style="" if narrow else "muted")


def row(job: Job, now_ms: int, id_cells: int, names: Sequence[str], gone_to: str | None = None) -> Row:
    """The line of a job in these columns; `gone_to` is the place where one that left is now ("": nowhere)."""
    has_more = any(name in ("job", "error", "body", "worker", "owner") or name.startswith(_PATH) for name in names)
    cells: list[Cell] = [formats.job_id(job.id, id_cells if has_more else WHOLE_ID)]
    cells += [_value(job, name) if name.startswith(_PATH) else _CELLS[name](job, now_ms) for name in names]
    if gone_to is None:
        return Row(job.id, tuple(cells))
    if names:
        cells[1 + names.index("job") if "job" in names else 1] = f"→{gone_to}" if gone_to else "gone"
    return Row(job.id, tuple(cells), is_gone=True)


def body_bytes(names: Sequence[str], tells: frozenset[str]) -> int:
    """How much of each body these columns need."""
    if any(name.startswith(_PATH) for name in names):
        return PATH_BYTES
    return PREVIEW_BYTES if "body" in names or "name" not in tells else 0


# -- cells -------------------------------------------------------------------------------------------------------------


def _name(job: Job, _now_ms: int) -> Cell:
    """Its kind; of a job that has none the beginning of its body."""
    if job.problem:
        return Piece(job.problem, "state-dead")
    if job.name:
        return safe(job.name)
    head = _head(job)
    return preview(head) if head else Piece(formats.ZERO, "muted")


def _head(job: Job) -> bytes:
    """The beginning of its body, or else of what stands in the place; nothing where that is its id."""
    head = job.member if job.body is None else job.body
    return head[:PREVIEW_BYTES] if head != job.id else b""


def preview(head: bytes) -> str:
    """The beginning of a body on one line."""
    return _preview(head, secrets())


@lru_cache(4096)
def _preview(head: bytes, _secrets: object) -> str:
    return " ".join(body_view(head).text.split())


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
    return Piece(formats.age(ms), "state-dead" if is_late else "muted")


def whole_lease(job: Job) -> int:
    """How long its lease is as a whole; 0 where nobody knows."""
    if job.deadline_ms is None:
        return 0
    return max(1, job.deadline_ms - job.reserved_ms) if job.reserved_ms else job.ttr_ms or 0


def _lease(job: Job, now_ms: int) -> Cell:
    left, whole = left_ms(job, now_ms) or 0, whole_lease(job)
    if not whole:
        return Piece(formats.ZERO, "muted")
    used, rest = formats.lease_bar(left, whole, 5)
    return (Piece(used, "state-dead" if left < 0 else "state-reserved"), Piece(rest, "muted"))


def _tried(job: Job, _now_ms: int) -> Cell:
    if not job.attempts:
        return Piece(formats.ZERO, "muted")
    return f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)


def _error(job: Job, _now_ms: int) -> Cell:
    return Piece(error_line(job.error), "state-dead") if job.error else ""


def error_line(error: str) -> str:
    """What an error says on one line, its secrets masked."""
    return _error_line(error, secrets())


@lru_cache(4096)
def _error_line(error: str, _secrets: object) -> str:
    return safe(mask_text(last_line(error)))


def last_line(error: str) -> str:
    """Of a traceback the line that says what happened; the only line of any other error."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _worker(job: Job, _now_ms: int) -> Cell:
    return safe(job.worker)


def _number(number: int) -> Cell:
    return str(number) if number else Piece(formats.ZERO, "muted")


def _body(job: Job, _now_ms: int) -> Cell:
    return preview(job.body[:PREVIEW_BYTES]) if job.body else Piece(formats.ZERO, "muted")


_CELLS: dict[str, Callable[[Job, int], Cell]] = {
    "job": _name,
    "time": _time,
    "lease": _lease,
    "tried": _tried,
    "error": _error,
    "worker": _worker,
    "owner": _worker,
    "priority": lambda job, _now_ms: _number(job.priority),
    "size": lambda job, _now_ms: formats.size(job.body_bytes).replace(" ", ""),
    "enqueued": lambda job, now_ms: formats.age(now_ms - job.enqueued_ms) if job.enqueued_ms else formats.ZERO,
    "body": _body,
}


def _value(job: Job, name: str) -> Cell:
    """What stands at a path in the body; `·` where nothing does, `…` where the body is too long to look into."""
    if job.body is None or len(job.body) < job.body_bytes:
        return Piece("…", "muted")
    found = _found(job.body, name.removeprefix(_PATH), secrets())
    return Piece(formats.ZERO, "muted") if found is None else found


@lru_cache(4096)
def _found(body: bytes, path: str, _secrets: object) -> str | None:
    value = decoded(body)
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
        if is_secret(part):
            return MASK
    if isinstance(value, str):
        return safe(mask_text(value))
    text = json.dumps(value, default=str, ensure_ascii=False)
    return safe(mask_text(text))
