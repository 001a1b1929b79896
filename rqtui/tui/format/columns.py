"""The columns of a board: what a place shows of its jobs, by its state or by the names in a person's config.

A name is one of `NAMES`, or `body.` and the path of a value in a JSON or msgpack body (`body.user.id`). The id comes
first; `fields` stands for the fields of the bodies that tell the jobs of a page apart (`text/preview.py`), a column
each where most jobs have them. What is chosen for a page (`Choice`) stays for the next ones while it tells them apart.
Pure: from `model.Job` to rows; all data goes through `safe`, and secrets are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rqtui.model import Job, State
from rqtui.text import elision, fields, formats, preview
from rqtui.text.body import MASK, is_secret, mask_text, secrets
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.text.tracebacks import line_of
from rqtui.tui.format.rows import Column, Row

SHORT_ID, LONG_ID = 8, 16  # cells: side by side, and where one pane has the whole width
WHOLE_ID = 64  # where the id is all there is of a job
PATH_BYTES = 1000  # of a body, where a column shows a value in it
_PATH = "body."
_DEADLINE = "deadline"  # no column: whether the time of reserved jobs is what is left of it, or how long they run
_USUAL = frozenset({"job", "fields", "time", "lease", _DEADLINE})  # there until jobs show that it is empty
_ALIKE = {"job": "job", "tried": "attempts"}  # columns that give their room away where all jobs have the same there
_WIDE = ("job", "call", "error", "body", "worker", "owner")  # columns that take what room there is
_SHORT_ID = "…id"  # the title of ids without what they share
_NAME_CELLS = 10  # of the name of a job, where it is narrow
_PROBLEM_CELLS = 28  # of what is wrong with a job: it says more than the bytes beside it
_MOST_WORKERS = 100  # names that a cut one is told apart from
_LABEL_CELLS, _FIELD_CELLS = 12, 12  # of a field: that its name is worth, and that are enough where it is narrow
_WHEN = {
    State.SCHEDULED: "due in",
    State.READY: "waits",
    State.RESERVED: "left",
    State.DONE: "ended",
    State.DEAD: "died",
}
_KNOWN = {
    "job": Column("job", "job", 8, weight=3, drop=2),
    "call": Column("call", "call", 14, weight=5, drop=1),
    "fields": Column("fields", "body", 14, weight=5, drop=5),
    "time": Column("time", "", 6, align="right", style="muted"),
    "lease": Column("lease", "lease", 5, drop=4),
    "tried": Column("tried", "tried", 5, align="right", drop=7),
    "error": Column("error", "last error", 18, weight=6, drop=5),
    "worker": Column("worker", "worker", 8, weight=1, drop=6, most=24),
    "owner": Column("owner", "worker", 8, weight=1, drop=6, most=24),  # of a dead one, where no history has the name
    "priority": Column("priority", "prio", 5, align="right", style="muted", drop=7),
    "size": Column("size", "size", 6, align="right", style="muted", drop=7),
    "enqueued": Column("enqueued", "age", 6, align="right", style="muted", drop=7),
    "body": Column("body", "body", 14, weight=5, drop=6),
}
_FIRST_FIELD, _NEXT_FIELD = 1, 8  # drops: the field that tells the most goes last of all
NAMES = ("id", *(name for name in _KNOWN if name != "owner"))
_USUAL_OF: dict[State, tuple[str, ...]] = {
    State.SCHEDULED: ("job", "call", "fields", "time", "tried", "error"),
    State.READY: ("job", "call", "fields", "time", "tried", "error"),
    State.RESERVED: ("job", "call", "fields", "lease", "time", "tried", "worker"),
    State.DONE: ("job", "call", "fields", "time", "tried", "worker"),
    State.DEAD: ("job", "call", "fields", "owner", "time", "tried", "error"),
}


def wanted(settings: Mapping[str, Sequence[str]], state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names, unknown names) that the settings have for a state, or else for every board; none: the usual ones."""
    names = settings.get(state) or settings.get("board") or ()
    known = tuple(name for name in names if name in _KNOWN or (name.startswith(_PATH) and len(name) > len(_PATH)))
    return known, tuple(name for name in names if name not in known and name != "id")


class Choice(NamedTuple):
    """What was chosen for a place from a page of its jobs: `told` are the names of columns that have something in
    them; `alike` are (name of a column, what every job has there), said once in the frame instead of in each row;
    `name_cells` is what the longest name of a job needs, or what is wrong with one where `has_problem`; `workers` are
    the names that were met of late, which are told apart where they have to be cut.
    """

    told: frozenset[str] = _USUAL
    body: preview.Preview = preview.Preview()
    ids: preview.Ids = preview.Ids()
    alike: tuple[tuple[str, str], ...] = ()
    name_cells: int = 24
    has_problem: bool = False
    workers: frozenset[str] = frozenset()

    @property
    def same(self) -> tuple[tuple[str, str], ...]:
        """(name, value) of what all loaded jobs have in common, for the frame to say."""
        return (*((_ALIKE[name], text) for name, text in self.alike), *((e.label, e.value) for e in self.body.same))


_NOTHING = Choice()


def choose(before: Choice, jobs: Sequence[Job], now_ms: int) -> Choice:
    """What to show of these jobs: as before, as long as that tells them apart; a column that came stays."""
    if not jobs:
        return before
    has_calls = "call" in before.told or any(job.call for job in jobs)  # a call says more than the fields of a body
    rows = [preview.Shown({}, (safe(job.id), job.name)) if has_calls else _shown(job) for job in jobs]
    is_kept = preview.still_tells(before.body, rows)
    is_anew = not is_kept and before.body.looked < preview.FEW_ROWS
    made = preview.updated(before.body if is_kept else preview.choose(rows), rows)
    ids = preview.choose_ids([job.id for job in jobs], preview.Ids() if is_anew else before.ids)
    told = _told(jobs, now_ms) | (frozenset() if is_anew else before.told)
    told -= {"job", "fields"} if has_calls else {"call"}
    alike = _alike(jobs)
    if not is_anew:
        alike = {name: text for name, text in before.alike if alike.get(name) == text}
    elif len(jobs) < preview.FEW_ROWS or made.is_empty:  # it may be chance, or all that there is to show
        alike = {}
    longest = max(formats.cell_len(job.problem or safe(job.name)) for job in jobs)
    cells = max(longest, 4, 0 if is_anew else before.name_cells)
    problem = any(job.problem for job in jobs)
    return Choice(told - alike.keys(), made, ids, tuple(alike.items()), cells, problem, _workers(before.workers, jobs))


def _workers(before: frozenset[str], jobs: Sequence[Job]) -> frozenset[str]:
    """The names of the workers of these jobs, and of those before, as long as they are not too many."""
    names = frozenset(safe(job.worker) for job in jobs if job.worker)
    return names | before if len(names | before) <= _MOST_WORKERS else names


def _alike(jobs: Sequence[Job]) -> dict[str, str]:
    """What stands in a column of all these jobs."""
    if any(job.problem for job in jobs):
        return {}
    found = {"tried": {_tries(job) for job in jobs}}
    if not any(job.call for job in jobs):  # a call begins with the name
        found = {"job": {_shown_name(job) for job in jobs}, **found}
    return {name: text for name, texts in found.items() if len(texts) == 1 and (text := texts.pop())}


def _shown(job: Job) -> preview.Shown:
    """A job by its fields; those of a problem's are not read, its row says what is wrong."""
    return preview.Shown(preview.read(_head(job)), (safe(job.id), job.name))


def _told(jobs: Sequence[Job], now_ms: int) -> frozenset[str]:
    """The names of columns in which these jobs have something to say."""
    has = {
        "job": any(job.problem or job.name for job in jobs),
        "call": any(job.call for job in jobs),
        "fields": any(_head(job) for job in jobs),
        "time": any(job.state is State.SCHEDULED or left_ms(job, now_ms) is not None for job in jobs),
        "lease": any(whole_lease(job) for job in jobs),
        "tried": any(job.attempts for job in jobs),
        "error": any(job.error for job in jobs),
        "worker": any(job.worker for job in jobs),
        _DEADLINE: any(job.deadline_ms is not None for job in jobs),
    }
    return frozenset(name for name, is_there in has.items() if is_there)


def shown(
    state: State, told: frozenset[str], chosen: tuple[str, ...] = (), tells: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The names of the columns of a place: those that somebody chose, or the usual ones of its state that are told."""
    told |= {"owner"} if "owner" in tells and "worker" in told else frozenset()
    return chosen or tuple(name for name in _USUAL_OF[state] if name in told)


def columns(
    state: State,
    names: Sequence[str],
    id_cells: int,
    choice: Choice = _NOTHING,
    *,
    are_chosen: bool = False,
    is_timed: bool = True,
) -> tuple[Column, ...]:
    """The columns of those names, with the id before them; of chosen ones the last go first where it is narrow.

    Jobs of a place that `is_timed` wait for their time; those of other scheduled places for something else.
    """
    made = [column for name in names for column in _columns_of(name, state, choice)]
    lasts = "waits" if state is State.SCHEDULED and not is_timed else ""
    lasts = "runs" if state is State.RESERVED and _DEADLINE not in choice.told else lasts
    if lasts:
        made = [column._replace(title=lasts) if column.key == "time" else column for column in made]
    if are_chosen:
        made = [column._replace(drop=number) for number, column in enumerate(made, 1)]
    has_more = any(column.weight for column in made)
    open_ = [at for at, column in enumerate(made) if column.weight and column.align == "left"]
    if open_ and all(made[at].most for at in open_):  # somebody takes what is left over: ages stand at the edge
        made[open_[-1]] = made[open_[-1]]._replace(most=0)
    cells = min(id_cells, max(choice.ids.cells, len(_SHORT_ID))) if choice.ids.cells else id_cells
    title = _SHORT_ID if choice.ids.is_short else "id"
    is_told_apart = not are_chosen and any(column.drop == _FIRST_FIELD and column.key != "fields" for column in made)
    return (Column("id", title, cells, weight=0 if has_more else 1, drop=3 if is_told_apart else 0), *made)


def short(made: Sequence[Column]) -> tuple[Column, ...]:
    """The same columns for a pane that is looked at from the side: the job and its time, and more where there is room.

    What tells its jobs apart comes next; where they have a name or fields, the id goes first.
    """
    first = next((column.key for column in made if column.key == "job" or column.drop == _FIRST_FIELD), "id")
    return tuple(_aside(column, first) for column in made)


def _aside(column: Column, first: str) -> Column:
    if column.key == first:
        return column._replace(width=min(column.width, 8), weight=3, most=0, drop=0)
    if column.key == "time":
        return column._replace(drop=1)
    if column.key == "id":
        return column._replace(width=max(column.width, 12), drop=99)
    return column._replace(drop=5 if column.drop == _FIRST_FIELD else 10 + column.drop)


def _columns_of(name: str, state: State, choice: Choice) -> list[Column]:
    if name == "fields":
        return _field_columns(choice.body)
    if name.startswith(_PATH):
        return [Column(name, safe(name.rpartition(".")[2]), 8, weight=2, drop=3)]
    known = _KNOWN[name]
    if name == "job":
        least = _PROBLEM_CELLS if choice.has_problem else _NAME_CELLS
        return [known._replace(width=min(least, choice.name_cells), most=choice.name_cells)]
    if name in ("worker", "owner"):
        return [known._replace(fit=elision.among(choice.workers))]
    if name != "time":
        return [known]
    narrow = state is State.RESERVED  # the bar of its lease stands beside it
    return [Column("time", _WHEN[state], 5 if narrow else 6, align="right", style="" if narrow else "muted")]


def _field_columns(made: preview.Preview) -> list[Column]:
    """A column for each field that most jobs have, and one for what else some of them have."""
    columns = []
    for field in made.columns:
        cells = max(field.cells, min(formats.cell_len(field.label), _LABEL_CELLS))
        drop = _FIRST_FIELD if not field.rank else _NEXT_FIELD + field.rank
        side = "right" if field.is_number else "left"
        title = field.label or _KNOWN["body"].title
        columns.append(Column(_PATH + field.path, title, min(cells, _FIELD_CELLS), cells, side, drop=drop, most=cells))
    if made.others:
        drop = _KNOWN["fields"].drop if made.columns else _FIRST_FIELD
        columns.append(_KNOWN["fields"]._replace(drop=drop))
    return columns


def row(
    job: Job, now_ms: int, id_cells: int, names: Sequence[str], choice: Choice = _NOTHING, gone_to: str | None = None
) -> Row:
    """The line of a job in these columns; `gone_to` is the place where one that left is now ("": nowhere)."""
    has_more = not choice.body.is_empty or any(name in _WIDE or name.startswith(_PATH) for name in names)
    cells: list[Cell] = [formats.job_id(preview.short_id(job.id, choice.ids), id_cells if has_more else WHOLE_ID)]
    at = 1  # where it says where it went: at its name, else at the last of its fields, which has the most room
    for name in names:
        if name in ("job", "call"):
            at = len(cells)
        if name == "fields":
            cells += _field_cells(job, choice.body)
            at = at if {"job", "call"} & {*names} else len(cells) - 1
        else:
            cells.append(_value(job, name) if name.startswith(_PATH) else _CELLS[name](job, now_ms))
    if gone_to is None:
        return Row(job.id, tuple(cells))
    if len(cells) > 1:
        cells[max(1, at)] = f"→{gone_to}" if gone_to else "gone"
    return Row(job.id, tuple(cells), is_gone=True)


def _field_cells(job: Job, made: preview.Preview) -> list[Cell]:
    body = preview.read(_head(job)) if made.columns or made.others else {}
    cells: list[Cell] = [
        field.show(value) if (value := body.get(field.path)) is not None else _absent(job) for field in made.columns
    ]
    return [*cells, preview.pairs(body, made.others)] if made.others else cells


def _absent(job: Job) -> Piece:
    """In place of a value: nothing stands there, or the body is too long to know."""
    return Piece("…" if len(_head(job)) < job.body_bytes else formats.ZERO, "muted")


def body_bytes(names: Sequence[str]) -> int:
    """How much of each body these columns need."""
    if any(name.startswith(_PATH) for name in names):
        return PATH_BYTES
    return preview.HEAD_BYTES if {"call", "fields", "body"} & {*names} else 0


# -- cells -------------------------------------------------------------------------------------------------------------


def _name(job: Job, _now_ms: int) -> Cell:
    """Its kind, or what is wrong with its record."""
    if job.problem:
        return Piece(job.problem, "state-dead")
    return _shown_name(job) if job.name else Piece(formats.ZERO, "muted")


def _call(job: Job, _now_ms: int) -> Cell:
    """What it runs; its body where that cannot be read, and what is wrong with its record before anything else."""
    if job.problem:
        return Piece(job.problem, "state-dead")
    return preview.shown_value(job.call) if job.call else preview.line(_head(job)) or _absent(job)


def _shown_name(job: Job) -> str:
    """The kind of a job, with what a careless producer put into it masked."""
    return preview.shown_value(job.name)


def _head(job: Job) -> bytes:
    """The beginning of its body, or else of what stands in the place; nothing where that is its id."""
    head = job.member if job.body is None else job.body
    return head if head != job.id else b""


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
    if ms is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(formats.age(ms), "state-dead" if ms < 0 else "muted")


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
    return _tries(job) or Piece(formats.ZERO, "muted")


def _tries(job: Job) -> str:
    most = f"/{job.max_attempts}" if job.max_attempts else ""
    return f"{job.attempts}{most}" if job.attempts else ""


def _error(job: Job, _now_ms: int) -> Cell:
    return Piece(error_line(job.error), "state-dead") if job.error else ""


def error_line(error: str) -> str:
    """What an error says on one line, its secrets masked."""
    return _error_line(error, secrets())


@lru_cache(4096)
def _error_line(error: str, _secrets: object) -> str:
    return safe(mask_text(line_of(error)))


def _worker(job: Job, _now_ms: int) -> Cell:
    return safe(job.worker)


def _number(number: int) -> Cell:
    return str(number) if number else Piece(formats.ZERO, "muted")


def _body(job: Job, _now_ms: int) -> Cell:
    return preview.line(job.body) if job.body else Piece(formats.ZERO, "muted")


_CELLS: dict[str, Callable[[Job, int], Cell]] = {
    "job": _name,
    "call": _call,
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
    """What stands at a path in the body; `·` where nothing does, `…` where that much of the body is not here."""
    found = _found(job.body or b"", job.body_bytes, name.removeprefix(_PATH), secrets())
    return _absent(job) if found is None else found


@lru_cache(4096)
def _found(body: bytes, size: int, path: str, _secrets: object) -> str | None:
    value = fields.partial(body)
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
    if len(body) < size and isinstance(value, dict | list):
        return None  # there may be more in it
    return safe(mask_text(fields.as_json(value)))
