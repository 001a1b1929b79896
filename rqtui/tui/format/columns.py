"""Choose the columns of a board and build its rows, by the state of a place or by the column names in the config.

A name is one of `NAMES`, or `body.` and the path of a value in a JSON or msgpack body (`body.user.id`). The id comes
first. `fields` means the fields of the bodies that distinguish the jobs of a page (`text/preview.py`), with one column
each where most jobs have them. The choice made for a page (`Choice`) is kept for the next pages while it still
distinguishes their jobs.

The functions are pure, from `model.Job` to rows. All data goes through `safe`, and secrets are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rqtui.model import Job, State
from rqtui.text import elision, fields, formats, preview
from rqtui.text.masking import MASK, build_masking_key, is_secret, mask_text
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.text.tracebacks import summarize_error
from rqtui.tui.format.rows import Column, Row

SHORT_ID_CELLS, LONG_ID_CELLS = 8, 16  # cells: with panes side by side, and in a single wide pane
WHOLE_ID_CELLS = 64  # cells of an id without other columns
PATH_BYTES = 1000  # bytes of a body that are loaded for a `body.` column
_PATH = "body."
_DEADLINE = "deadline"  # not a column: whether reserved jobs show the time left of their lease, or how long they run
_DEFAULT_FILLED = frozenset(
    {"job", "fields", "time", "lease", _DEADLINE}
)  # shown until a page of jobs shows that it is empty
_COMMON_LABELS = {"job": "job", "tried": "attempts"}  # columns that are left out if all jobs have the same text
_FLEXIBLE_NAMES = ("job", "call", "error", "body", "worker", "owner")  # columns that share the remaining width
_SHORT_ID_TITLE = "…id"  # the title of ids whose common beginning is left out
_NAME_CELLS = 10  # least width of a job's name on a narrow screen
_PROBLEM_CELLS = 28  # least width of a job's problem, which matters more than its body
_MAX_WORKERS = 100  # worker names compared when a name is cut
_LABEL_CELLS, _FIELD_CELLS = 12, 12  # most cells for a field's title, and enough cells for a field on a narrow screen
_TIME_TITLES = {
    State.SCHEDULED: "due in",
    State.READY: "waits",
    State.RESERVED: "left",
    State.DONE: "ended",
    State.DEAD: "died",
}
_COLUMNS = {
    "job": Column("job", "job", 8, weight=3, drop=2),
    "call": Column("call", "call", 14, weight=5, drop=1),
    "fields": Column("fields", "body", 14, weight=5, drop=5),
    "time": Column("time", "", 6, align="right", style="muted"),
    "lease": Column("lease", "lease", 5, drop=4),
    "tried": Column("tried", "tried", 5, align="right", drop=7),
    "error": Column("error", "last error", 18, weight=6, drop=5),
    "worker": Column("worker", "worker", 8, weight=1, drop=6, most=24),
    "owner": Column(
        "owner", "worker", 8, weight=1, drop=6, most=24
    ),  # of a dead job, when its history does not name the worker
    "priority": Column("priority", "prio", 5, align="right", style="muted", drop=7),
    "size": Column("size", "size", 6, align="right", style="muted", drop=7),
    "enqueued": Column("enqueued", "age", 6, align="right", style="muted", drop=7),
    "body": Column("body", "body", 14, weight=5, drop=6),
}
_FIRST_FIELD, _NEXT_FIELD = 1, 8  # drop orders: the most distinctive field is dropped last
NAMES = ("id", *(name for name in _COLUMNS if name != "owner"))
_DEFAULT_NAMES: dict[State, tuple[str, ...]] = {
    State.SCHEDULED: ("job", "call", "fields", "time", "tried", "error"),
    State.READY: ("job", "call", "fields", "time", "tried", "error"),
    State.RESERVED: ("job", "call", "fields", "lease", "time", "tried", "worker"),
    State.DONE: ("job", "call", "fields", "time", "tried", "worker"),
    State.DEAD: ("job", "call", "fields", "owner", "time", "tried", "error"),
}


def read_settings(settings: Mapping[str, Sequence[str]], state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (known names, unknown names) of the columns configured for a state, or else for every board.

    Both are empty if nothing is configured.
    """
    names = settings.get(state) or settings.get("board") or ()
    known_names = tuple(
        name for name in names if name in _COLUMNS or (name.startswith(_PATH) and len(name) > len(_PATH))
    )
    return known_names, tuple(name for name in names if name not in known_names and name != "id")


class Choice(NamedTuple):
    """The columns and texts chosen for a place from a page of its jobs.

    `filled` are the names of columns with content. `common_cells` are pairs of (column name, value) that every job
    shares, shown once in the frame instead of in each row. `name_cells` is the width of the longest job name, or of a
    problem's text if `has_problem`. `workers` are recently seen worker names, which must stay distinguishable when they
    are cut.
    """

    filled: frozenset[str] = _DEFAULT_FILLED
    body: preview.Preview = preview.Preview()
    ids: preview.IdFormat = preview.IdFormat()
    common_cells: tuple[tuple[str, str], ...] = ()
    name_cells: int = 24
    has_problem: bool = False
    workers: frozenset[str] = frozenset()

    @property
    def common_values(self) -> tuple[tuple[str, str], ...]:
        """The (name, value) pairs that all loaded jobs have in common, for the frame."""
        return (
            *((_COMMON_LABELS[name], text) for name, text in self.common_cells),
            *((e.label, e.value) for e in self.body.same),
        )


_NO_CHOICE = Choice()
_EMPTY_CHOICE = Choice(filled=frozenset(), name_cells=0)


def choose_columns(before: Choice, jobs: Sequence[Job], now_ms: int) -> Choice:
    """Choose what to show of these jobs, starting from the previous choice `before`.

    The previous choice is kept while it distinguishes the jobs. A column that has appeared stays.
    """
    if not jobs:
        return before
    has_calls = "call" in before.filled or any(
        job.call for job in jobs
    )  # a call describes a job better than its body's fields
    rows = [preview.RowFields({}, (safe(job.id), job.name)) if has_calls else _read_preview(job) for job in jobs]
    is_suitable = preview.is_still_suitable(before.body, rows)
    starts_over = not is_suitable and before.body.rows_read < preview.FEW_ROWS
    kept = _EMPTY_CHOICE if starts_over else before
    body = preview.update_choice(kept.body if is_suitable else preview.choose_fields(rows), rows)
    names = (_find_filled(jobs, now_ms) | kept.filled) - ({"job", "fields"} if has_calls else {"call"})
    common = _find_common_cells(jobs)
    if not starts_over:
        common = {name: text for name, text in kept.common_cells if common.get(name) == text}
    elif len(jobs) < preview.FEW_ROWS or body.is_empty:  # equal by chance, or the only content to show
        common = {}
    return Choice(
        names - common.keys(),
        body,
        preview.choose_id_format([job.id for job in jobs], kept.ids),
        tuple(common.items()),
        max(4, kept.name_cells, _measure_longest_name(jobs)),
        any(job.problem for job in jobs),
        _collect_workers(before.workers, jobs),
    )


def _measure_longest_name(jobs: Sequence[Job]) -> int:
    """Return the width of the longest name in cells. The problem of a job is shown in place of its name."""
    return max(formats.cell_len(job.problem or safe(job.name)) for job in jobs)


def _collect_workers(before: frozenset[str], jobs: Sequence[Job]) -> frozenset[str]:
    """Return the worker names of these jobs and of the earlier ones, but drop the earlier ones if they are too many."""
    names = frozenset(preview.format_value(job.worker) for job in jobs if job.worker)
    return names | before if len(names | before) <= _MAX_WORKERS else names


def _find_common_cells(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the columns in which all these jobs have the same text, with that text."""
    if any(job.problem for job in jobs):
        return {}
    columns_texts = {"tried": {_format_attempts(job) for job in jobs}}
    if not any(job.call for job in jobs):  # a call begins with the name
        columns_texts = {"job": {_mask_name(job) for job in jobs}, **columns_texts}
    return {name: text for name, texts in columns_texts.items() if len(texts) == 1 and (text := texts.pop())}


def _read_preview(job: Job) -> preview.RowFields:
    """Return a job with its body's fields for the preview. The body of a job with a problem is not read."""
    return preview.RowFields(preview.read_preview_fields(_read_head(job)), (safe(job.id), job.name))


def _find_filled(jobs: Sequence[Job], now_ms: int) -> frozenset[str]:
    """Return the names of the columns in which at least one of these jobs has content."""
    has_content = {
        "job": any(job.problem or job.name for job in jobs),
        "call": any(job.call for job in jobs),
        "fields": any(_read_head(job) for job in jobs),
        "time": any(job.state is State.SCHEDULED or compute_time_ms(job, now_ms) is not None for job in jobs),
        "lease": any(compute_lease_ms(job) for job in jobs),
        "tried": any(job.attempts for job in jobs),
        "error": any(job.error for job in jobs),
        "worker": any(job.worker for job in jobs),
        _DEADLINE: any(job.deadline_ms is not None for job in jobs),
    }
    return frozenset(name for name, is_present in has_content.items() if is_present)


def choose_names(
    state: State, filled: frozenset[str], chosen: tuple[str, ...] = (), known_fields: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the column names of a place: the configured ones, or the usual ones of its state that have content.

    `filled` are the names with content, `chosen` the configured names, `known_fields` the fields that the system knows.
    """
    filled |= {"owner"} if "owner" in known_fields and "worker" in filled else frozenset()
    return chosen or tuple(name for name in _DEFAULT_NAMES[state] if name in filled)


def build_columns(
    state: State,
    names: Sequence[str],
    id_cells: int,
    choice: Choice = _NO_CHOICE,
    *,
    are_chosen: bool = False,
    is_timed: bool = True,
) -> tuple[Column, ...]:
    """Return the columns of these names, with the id column first.

    If `are_chosen`, the names come from the config, and the last ones are dropped first on a narrow screen. Scheduled
    jobs of a place that `is_timed` wait for their due time; in other scheduled places they wait for something else.
    """
    built = [column for name in names for column in _build_named_columns(name, state, choice, is_timed=is_timed)]
    if are_chosen:
        built = [column._replace(drop=number) for number, column in enumerate(built, 1)]
    has_flexible = any(column.weight for column in built)
    is_distinguished = not are_chosen and any(
        column.drop == _FIRST_FIELD and column.key != "fields" for column in built
    )
    id_column = _build_id_column(id_cells, choice.ids, has_flexible=has_flexible, can_drop=is_distinguished)
    return (id_column, *_open_last_column(built))


def _build_id_column(id_cells: int, ids: preview.IdFormat, *, has_flexible: bool, can_drop: bool) -> Column:
    """Return the id column, at most `id_cells` wide. It takes the remaining width if no other column is flexible."""
    title = _SHORT_ID_TITLE if ids.is_short else "id"
    cells = min(id_cells, max(ids.cells, len(_SHORT_ID_TITLE))) if ids.cells else id_cells
    return Column("id", title, cells, weight=0 if has_flexible else 1, drop=3 if can_drop else 0)


def _open_last_column(built: Sequence[Column]) -> list[Column]:
    """Remove the greatest width of the last flexible column on the left if each of them has one.

    That column takes the remaining width, so that the ages are at the right edge.
    """
    columns = list(built)
    flexible = [at for at, column in enumerate(columns) if column.weight and column.align == "left"]
    if flexible and all(columns[at].most for at in flexible):
        columns[flexible[-1]] = columns[flexible[-1]]._replace(most=0)
    return columns


def narrow_columns(built: Sequence[Column]) -> tuple[Column, ...]:
    """Return the same columns for a side pane: the job and its time, and more if there is space.

    The columns that distinguish its jobs come next. If jobs have a name or fields, the id is dropped first.
    """
    first = next((column.key for column in built if column.key == "job" or column.drop == _FIRST_FIELD), "id")
    return tuple(_narrow_column(column, first) for column in built)


def _narrow_column(column: Column, first: str) -> Column:
    """Return a column with the width and drop order that it has in a side pane; `first` is the column kept longest."""
    if column.key == first:
        return column._replace(width=min(column.width, 8), weight=3, most=0, drop=0)
    if column.key == "time":
        return column._replace(drop=1)
    if column.key == "id":
        return column._replace(width=max(column.width, 12), drop=99)
    return column._replace(drop=5 if column.drop == _FIRST_FIELD else 10 + column.drop)


def _build_named_columns(name: str, state: State, choice: Choice, *, is_timed: bool) -> list[Column]:
    """Return the columns that one column name means: several for `fields`, else one."""
    if name == "fields":
        return _build_field_columns(choice.body)
    if name.startswith(_PATH):
        return [Column(name, safe(name.rpartition(".")[2]), 8, weight=2, drop=3)]
    column = _COLUMNS[name]
    if name == "job":
        least = _PROBLEM_CELLS if choice.has_problem else _NAME_CELLS
        return [column._replace(width=min(least, choice.name_cells), most=choice.name_cells)]
    if name in ("worker", "owner"):
        return [column._replace(fit=elision.create_fitter(choice.workers))]
    return [_build_time_column(state, choice, is_timed=is_timed) if name == "time" else column]


def _build_time_column(state: State, choice: Choice, *, is_timed: bool) -> Column:
    """Return the column of the time that matters in a state, narrower if the bar of its lease is beside it."""
    title = _TIME_TITLES[state]
    if state is State.SCHEDULED and not is_timed:
        title = "waits"
    if state is State.RESERVED:
        return Column("time", title if _DEADLINE in choice.filled else "runs", 5, align="right")
    return Column("time", title, 6, align="right", style="muted")


def _build_field_columns(body_preview: preview.Preview) -> list[Column]:
    """Return a column for each field that most jobs have, and one for the other fields that some of them have."""
    columns = []
    for field in body_preview.columns:
        cells = max(field.cells, min(formats.cell_len(field.label), _LABEL_CELLS))
        drop = _FIRST_FIELD if not field.rank else _NEXT_FIELD + field.rank
        side = "right" if field.is_number else "left"
        title = field.label or _COLUMNS["body"].title
        columns.append(Column(_PATH + field.path, title, min(cells, _FIELD_CELLS), cells, side, drop=drop, most=cells))
    if body_preview.others:
        drop = _COLUMNS["fields"].drop if body_preview.columns else _FIRST_FIELD
        columns.append(_COLUMNS["fields"]._replace(drop=drop))
    return columns


def build_row(
    job: Job, now_ms: int, id_cells: int, names: Sequence[str], choice: Choice = _NO_CHOICE, gone_to: str | None = None
) -> Row:
    """Return the row of a job in these columns.

    `gone_to` is the new place of a job that left the list: "" if it was deleted, None if the job is still there.
    """
    has_more = not choice.body.is_empty or any(name in _FLEXIBLE_NAMES or name.startswith(_PATH) for name in names)
    cells: list[Cell] = [
        formats.shorten_job_id(preview.shorten_id(job.id, choice.ids), id_cells if has_more else WHOLE_ID_CELLS)
    ]
    at = 1  # the cell that shows the new place of a job that left: its name, else its last and widest field
    for name in names:
        if name in ("job", "call"):
            at = len(cells)
        if name == "fields":
            cells += _build_field_cells(job, choice.body)
            at = at if {"job", "call"} & {*names} else len(cells) - 1
        else:
            cells.append(_read_path_cell(job, name) if name.startswith(_PATH) else _CELLS[name](job, now_ms))
    if gone_to is None:
        return Row(job.id, tuple(cells))
    if len(cells) > 1:
        cells[max(1, at)] = f"→{gone_to}" if gone_to else "gone"
    return Row(job.id, tuple(cells), is_gone=True)


def _build_field_cells(job: Job, body_preview: preview.Preview) -> list[Cell]:
    """Return the cells of a job's body fields."""
    body = preview.read_preview_fields(_read_head(job)) if body_preview.columns or body_preview.others else {}
    cells: list[Cell] = [
        field.format_value(value) if (value := body.get(field.path)) is not None else _build_missing_cell(job)
        for field in body_preview.columns
    ]
    return [*cells, preview.format_pairs(body, body_preview.others)] if body_preview.others else cells


def _build_missing_cell(job: Job) -> Piece:
    """Return the cell of a missing value: `…` if the loaded part of the body is too short to know, else `·`."""
    return Piece("…" if len(_read_head(job)) < job.body_bytes else formats.ZERO, "muted")


def count_body_bytes(names: Sequence[str]) -> int:
    """Return how many bytes of each body these columns need."""
    if any(name.startswith(_PATH) for name in names):
        return PATH_BYTES
    return preview.HEAD_BYTES if {"call", "fields", "body"} & {*names} else 0


# -- cells -------------------------------------------------------------------------------------------------------------


def _format_name(job: Job, _now_ms: int) -> Cell:
    """Return the cell with the job's kind, or with the problem of its record."""
    if job.problem:
        return Piece(preview.format_value(job.problem), "state-dead")
    return _mask_name(job) if job.name else Piece(formats.ZERO, "muted")


def _format_call(job: Job, _now_ms: int) -> Cell:
    """Return the cell with the problem of the job's record, else its call, else its body."""
    if job.problem:
        return Piece(preview.format_value(job.problem), "state-dead")
    return (
        preview.format_value(job.call) if job.call else preview.render_line(_read_head(job)) or _build_missing_cell(job)
    )


def _mask_name(job: Job) -> str:
    """Return the kind of a job with secrets masked."""
    return preview.format_value(job.name)


def _read_head(job: Job) -> bytes:
    """Return the loaded beginning of the job's body, else its entry in the place; empty if that is only its id."""
    head = job.member if job.body is None else job.body
    return head if head != job.id else b""


def compute_time_ms(job: Job, now_ms: int) -> int | None:
    """Return the milliseconds of the time column, or None.

    By state: until the job is due, since it waits, until its lease ends, or since it ended. Overdue times are negative.
    """
    since = job.since_ms
    if job.state is State.SCHEDULED and job.due_ms is not None:
        return job.due_ms - now_ms
    if job.state is State.RESERVED and job.deadline_ms is not None:
        return job.deadline_ms - now_ms
    return max(0, now_ms - since) if since is not None else None


def _format_time(job: Job, now_ms: int) -> Cell:
    ms = compute_time_ms(job, now_ms)
    if ms is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(formats.format_age(ms), "state-dead" if ms < 0 else "muted")


def compute_lease_ms(job: Job) -> int:
    """Return the full length of the job's lease in milliseconds; 0 if it is unknown."""
    if job.deadline_ms is None:
        return 0
    return max(1, job.deadline_ms - job.reserved_ms) if job.reserved_ms else job.ttr_ms or 0


def _format_lease(job: Job, now_ms: int) -> Cell:
    left, whole = compute_time_ms(job, now_ms) or 0, compute_lease_ms(job)
    if not whole:
        return Piece(formats.ZERO, "muted")
    used, rest = formats.build_lease_bar(left, whole, 5)
    return (Piece(used, "state-dead" if left < 0 else "state-reserved"), Piece(rest, "muted"))


def _format_attempts_cell(job: Job, _now_ms: int) -> Cell:
    return _format_attempts(job) or Piece(formats.ZERO, "muted")


def _format_attempts(job: Job) -> str:
    most = f"/{job.max_attempts}" if job.max_attempts else ""
    return f"{job.attempts}{most}" if job.attempts else ""


def _format_error(job: Job, _now_ms: int) -> Cell:
    return Piece(format_error_line(job.error), "state-dead") if job.error else ""


def format_error_line(error: str) -> str:
    """Return an error as one line with its secrets masked."""
    return _format_error_line(error, build_masking_key())


@lru_cache(4096)
def _format_error_line(error: str, _secrets: object) -> str:
    return safe(mask_text(summarize_error(error)))


def _format_worker(job: Job, _now_ms: int) -> Cell:
    return preview.format_value(job.worker)


def _format_number(number: int) -> Cell:
    return str(number) if number else Piece(formats.ZERO, "muted")


def _format_body(job: Job, _now_ms: int) -> Cell:
    return preview.render_line(job.body) if job.body else Piece(formats.ZERO, "muted")


_CELLS: dict[str, Callable[[Job, int], Cell]] = {
    "job": _format_name,
    "call": _format_call,
    "time": _format_time,
    "lease": _format_lease,
    "tried": _format_attempts_cell,
    "error": _format_error,
    "worker": _format_worker,
    "owner": _format_worker,
    "priority": lambda job, _now_ms: _format_number(job.priority),
    "size": lambda job, _now_ms: formats.format_size(job.body_bytes).replace(" ", ""),
    "enqueued": lambda job, now_ms: formats.format_age(now_ms - job.enqueued_ms) if job.enqueued_ms else formats.ZERO,
    "body": _format_body,
}


def _read_path_cell(job: Job, name: str) -> Cell:
    """Return the cell of a value at a path in the body: `·` if missing, `…` if the body is not loaded that far."""
    value = _find_path_value(job.body or b"", job.body_bytes, name.removeprefix(_PATH), build_masking_key())
    return _build_missing_cell(job) if value is None else value


@lru_cache(4096)
def _find_path_value(body: bytes, size: int, path: str, _secrets: object) -> str | None:
    """Return the value at a path in the body as masked text, or None if it is missing or not fully loaded."""
    value = fields.parse_partial(body)
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
        return None  # the part that is not loaded may hold more of it
    return safe(mask_text(fields.to_json(value)))
