"""Choose the columns of a table of jobs and build its rows, by the state of the place or by configured column names.

A column name is one of `NAMES`, or `body.` and the path of a value in a JSON or msgpack body (`body.user.id`). The id
comes first. `fields` means the fields of the bodies that distinguish the jobs of a page (`text/preview.py`), with one
column each where most jobs have them. The columns chosen for a page (`ColumnChoice`) are kept for the next pages while
they still distinguish their jobs.

The functions are pure, from `model.Job` to rows. All data goes through `safe`, and secrets are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rqtui.model import Job, State
from rqtui.text import elision, fields, formats, preview
from rqtui.text.masking import MASK, build_masking_cache_key, is_secret_name, mask_text
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.text.tracebacks import summarize_error
from rqtui.tui.format.rows import Column, Row

SHORT_ID_CELLS, LONG_ID_CELLS = 8, 16  # cells: with panes side by side, and in a single wide pane
WHOLE_ID_CELLS = 64  # cells of an id without other columns
PATH_BYTES = 1000  # bytes of a body that are loaded for a `body.` column
_PATH = "body."
_DEADLINE = "deadline"  # not a column: whether reserved jobs show the time left of their lease, or how long they run
# These columns are shown until a page of jobs shows that they are empty.
_DEFAULT_FILLED = frozenset({"job", "fields", "time", "lease", _DEADLINE})
_COMMON_LABELS = {"job": "job", "tried": "attempts"}  # columns that are left out if all jobs have the same text
_FLEXIBLE_NAMES = ("job", "call", "error", "body", "worker", "owner")  # columns that share the remaining width
_SHORT_ID_TITLE = "…id"  # the title of ids whose common beginning is left out
_NAME_CELLS = 10  # least width of a job's name on a narrow screen
_PROBLEM_CELLS = 28  # least width of a job's problem, which matters more than its body
_FEW_ERRORS, _MANY_ERRORS = 0.3, 0.6  # shares of jobs up to which the column of errors becomes, and stays, narrow
_RARE_ERROR_CELLS = 16  # least width of a column with few errors
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
    "job": Column("job", "job", weight=3, drop=2),
    "call": Column("call", "call", 14, weight=5, drop=1),
    "fields": Column("fields", "body", 14, weight=5, drop=5),
    "time": Column("time", "", 6, align="right", style="muted"),
    "lease": Column("lease", "lease", 5, drop=4),
    "tried": Column("tried", "tried", 5, align="right", drop=7),
    "error": Column("error", "last error", 18, weight=6, drop=5),
    "worker": Column("worker", "worker", 8, weight=1, drop=6, most=24),
    # The worker of a dead job, for systems whose history of a job does not name it.
    "owner": Column("owner", "worker", 8, weight=1, drop=6, most=24),
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


def read_configured_columns(
    settings: Mapping[str, Sequence[str]], state: State
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (known names, unknown names) of the columns that the config sets for a state, or else for all job tables.

    Both are empty if the config sets no columns.
    """
    configured = settings.get(state) or settings.get("board") or ()
    known_names = tuple(
        name for name in configured if name in _COLUMNS or (name.startswith(_PATH) and len(name) > len(_PATH))
    )
    return known_names, tuple(name for name in configured if name not in known_names and name != "id")


class ColumnChoice(NamedTuple):
    """The columns and texts chosen for a table of jobs, from the jobs of one page.

    `filled` are the names of columns with content. `common_cells` are pairs of (column name, value) that every job
    shares, shown once in the frame instead of in each row. `name_cells` is the width of the longest job name, or of a
    problem's text if `has_problem`. `workers` are recently seen worker names, which must stay distinguishable when they
    are cut. `has_rare_errors` is whether few jobs have an error, so that the other columns get their cells first.
    """

    filled: frozenset[str] = _DEFAULT_FILLED
    body: preview.Preview = preview.Preview()
    ids: preview.IdFormat = preview.IdFormat()
    common_cells: tuple[tuple[str, str], ...] = ()
    name_cells: int = 24
    has_problem: bool = False
    workers: frozenset[str] = frozenset()
    has_rare_errors: bool = False

    @property
    def common_values(self) -> tuple[tuple[str, str], ...]:
        """The (label, value) pairs that all loaded jobs of a table have in common; the table's frame shows them."""
        return (
            *((_COMMON_LABELS[name], text) for name, text in self.common_cells),
            *((field.label, field.value) for field in self.body.same),
        )


_DEFAULT_CHOICE = ColumnChoice()
_EMPTY_CHOICE = ColumnChoice(filled=frozenset(), name_cells=0)


def choose_job_columns(previous: ColumnChoice, jobs: Sequence[Job], now_ms: int) -> ColumnChoice:
    """Choose the columns and texts that distinguish the jobs of a page, starting from the choice for the page before.

    The previous choice is kept while it distinguishes the jobs. A column that has appeared stays.
    """
    if not jobs:
        return previous
    # A call describes a job better than the fields of its body.
    has_calls = "call" in previous.filled or any(job.call for job in jobs)
    rows = [preview.RowFields({}, (safe(job.id), job.name)) if has_calls else _read_row_fields(job) for job in jobs]
    is_suitable = preview.is_choice_still_suitable(previous.body, rows)
    is_new = not is_suitable and previous.body.rows_read < preview.FEW_ROWS
    base = _EMPTY_CHOICE if is_new else previous
    body_preview = preview.update_field_choice(base.body if is_suitable else preview.choose_preview_fields(rows), rows)
    filled = (_find_filled_columns(jobs, now_ms) | base.filled) - ({"job", "fields"} if has_calls else {"call"})
    common_cells = _find_common_cells(jobs)
    if not is_new:
        common_cells = {name: text for name, text in base.common_cells if common_cells.get(name) == text}
    elif len(jobs) < preview.FEW_ROWS or body_preview.is_empty:  # equal by chance, or the only content to show
        common_cells = {}
    return ColumnChoice(
        filled - common_cells.keys(),
        body_preview,
        preview.choose_id_format([job.id for job in jobs], base.ids),
        tuple(common_cells.items()),
        max(4, base.name_cells, _measure_longest_name(jobs)),
        any(job.problem for job in jobs),
        _collect_worker_names(previous.workers, jobs),
        _are_errors_rare(jobs, base.has_rare_errors),
    )


def _are_errors_rare(jobs: Sequence[Job], were_rare: bool) -> bool:
    """Return whether few of these jobs have an error. Columns keep their widths until their share changes much."""
    return sum(bool(job.error) for job in jobs) <= len(jobs) * (_MANY_ERRORS if were_rare else _FEW_ERRORS)


def _measure_longest_name(jobs: Sequence[Job]) -> int:
    """Return the width in cells of the longest job name; the problem of a job is shown in place of its name."""
    return max(formats.cell_len(job.problem or safe(job.name)) for job in jobs)


def _collect_worker_names(known_workers: frozenset[str], jobs: Sequence[Job]) -> frozenset[str]:
    """Return the worker names of a page's jobs and those seen before, without the earlier ones if they are too many."""
    names = frozenset(preview.format_field_value(job.worker) for job in jobs if job.worker)
    return names | known_workers if len(names | known_workers) <= _MAX_WORKERS else names


def _find_common_cells(jobs: Sequence[Job]) -> dict[str, str]:
    """Return {column name: text} for the columns in which all these jobs have the same text."""
    if any(job.problem for job in jobs):
        return {}
    columns_texts = {"tried": {_format_attempts(job) for job in jobs}}
    if not any(job.call for job in jobs):  # a call begins with the name
        columns_texts = {"job": {_mask_job_name(job) for job in jobs}, **columns_texts}
    return {name: text for name, texts in columns_texts.items() if len(texts) == 1 and (text := texts.pop())}


def _read_row_fields(job: Job) -> preview.RowFields:
    """Return the fields of a job's body, with its id and name, for the choice of body columns."""
    return preview.RowFields(preview.read_preview_fields(_read_body_head(job)), (safe(job.id), job.name))


def _find_filled_columns(jobs: Sequence[Job], now_ms: int) -> frozenset[str]:
    """Return the names of the columns in which at least one of these jobs has content."""
    has_content = {
        "job": any(job.problem or job.name for job in jobs),
        "call": any(job.call for job in jobs),
        "fields": any(_read_body_head(job) for job in jobs),
        "time": any(job.state is State.SCHEDULED or compute_job_time_ms(job, now_ms) is not None for job in jobs),
        "lease": any(compute_lease_length_ms(job) for job in jobs),
        "tried": any(job.attempts for job in jobs),
        "error": any(job.error for job in jobs),
        "worker": any(job.worker for job in jobs),
        _DEADLINE: any(job.deadline_ms is not None for job in jobs),
    }
    return frozenset(name for name, is_present in has_content.items() if is_present)


def choose_column_names(
    state: State, filled: frozenset[str], configured: tuple[str, ...] = (), known_fields: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the column names for a place: the configured ones, or the usual ones of its state that have content.

    `filled` are the names with content, `configured` the configured names, `known_fields` the job fields that the
    queue's system stores.
    """
    filled |= {"owner"} if "owner" in known_fields and "worker" in filled else frozenset()
    return configured or tuple(name for name in _DEFAULT_NAMES[state] if name in filled)


def build_columns(
    state: State,
    names: Sequence[str],
    id_cells: int,
    choice: ColumnChoice = _DEFAULT_CHOICE,
    *,
    are_configured: bool = False,
    is_timed: bool = True,
) -> tuple[Column, ...]:
    """Build the table columns for these column names, with the id column first.

    If `are_configured`, the names come from the config, and the last ones are dropped first on a narrow screen.
    Scheduled jobs of a place that `is_timed` wait for their due time; in other scheduled places they wait for something
    else.
    """
    columns = [column for name in names for column in _build_named_columns(name, state, choice, is_timed=is_timed)]
    if are_configured:
        columns = [column._replace(drop=number) for number, column in enumerate(columns, 1)]
    has_flexible = any(column.weight for column in columns)
    has_distinctive_field = not are_configured and any(
        column.drop == _FIRST_FIELD and column.key != "fields" for column in columns
    )
    id_column = _build_id_column(id_cells, choice.ids, has_flexible=has_flexible, can_drop=has_distinctive_field)
    return (id_column, *_unlimit_last_flexible_column(columns))


def _build_id_column(id_cells: int, ids: preview.IdFormat, *, has_flexible: bool, can_drop: bool) -> Column:
    """Build the id column, at most `id_cells` wide.

    The column takes the remaining width if no other column is flexible.
    """
    title = _SHORT_ID_TITLE if ids.is_short else "id"
    cells = min(id_cells, max(ids.cells, len(_SHORT_ID_TITLE))) if ids.cells else id_cells
    return Column("id", title, cells, weight=0 if has_flexible else 1, drop=3 if can_drop else 0)


def _unlimit_last_flexible_column(all_columns: Sequence[Column]) -> list[Column]:
    """Remove the maximum width of the last left-aligned flexible column, if every flexible column has a maximum width.

    That column takes the remaining width, so that the ages are at the right edge.
    """
    columns = list(all_columns)
    flexible = [index for index, column in enumerate(columns) if column.weight and column.align == "left"]
    if flexible and all(columns[index].most for index in flexible):
        columns[flexible[-1]] = columns[flexible[-1]]._replace(most=0)
    return columns


def compute_id_cells(ids: Iterable[bytes], most: int) -> int:
    """Return the width of a column of ids: the cells of the longest id, from 4 to `most`."""
    return max([4, *(formats.cell_len(formats.shorten_job_id(id, most)) for id in ids)])


def adapt_columns_to_side_pane(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a job table adapted to a narrow side pane: the job, its time, and more if there is space.

    The columns that distinguish its jobs come next. If jobs have a name or fields, the id is dropped first.
    """
    first_key = next((column.key for column in columns if column.key == "job" or column.drop == _FIRST_FIELD), "id")
    return tuple(_adapt_column_to_side_pane(column, first_key) for column in columns)


def _adapt_column_to_side_pane(column: Column, first_key: str) -> Column:
    """Return a column with the width and drop order for a side pane. The column `first_key` is never dropped."""
    if column.key == first_key:
        return column._replace(width=min(column.width, 8), weight=3, most=0, drop=0)
    if column.key == "time":
        return column._replace(drop=1)
    if column.key == "id":
        return column._replace(width=max(column.width, 12), drop=99)
    return column._replace(drop=5 if column.drop == _FIRST_FIELD else 10 + column.drop)


def _build_named_columns(name: str, state: State, choice: ColumnChoice, *, is_timed: bool) -> list[Column]:
    """Return the columns for one column name: several for `fields`, one for any other name."""
    if name == "fields":
        return _build_field_columns(choice.body)
    if name.startswith(_PATH):
        return [Column(name, safe(name.rpartition(".")[2]), 8, weight=2, drop=3)]
    column = _COLUMNS[name]
    if name == "job":
        min_cells = _PROBLEM_CELLS if choice.has_problem else _NAME_CELLS
        return [column._replace(width=min(min_cells, choice.name_cells), most=choice.name_cells)]
    if name == "error" and choice.has_rare_errors:
        return [column._replace(width=_RARE_ERROR_CELLS, weight=1)]
    if name in ("worker", "owner"):
        return [column._replace(fit=elision.create_name_fitter(choice.workers))]
    return [_build_time_column(state, choice, is_timed=is_timed) if name == "time" else column]


def _build_time_column(state: State, choice: ColumnChoice, *, is_timed: bool) -> Column:
    """Return the column of the time that matters in a state, such as `due in`; narrower beside the bar of a lease."""
    column, title = _COLUMNS["time"], _TIME_TITLES[state]
    if state is State.SCHEDULED and not is_timed:
        title = "waits"
    if state is State.RESERVED:
        return column._replace(title=title if _DEADLINE in choice.filled else "runs", width=5, style="")
    return column._replace(title=title)


def _build_field_columns(body_preview: preview.Preview) -> list[Column]:
    """Return a column for each body field that most jobs have, and one for the other fields that some of them have."""
    columns = []
    for field in body_preview.columns:
        cells = max(field.cells, min(formats.cell_len(field.label), _LABEL_CELLS))
        drop = _FIRST_FIELD if not field.rank else _NEXT_FIELD + field.rank
        alignment = "right" if field.is_number else "left"
        title = field.label or _COLUMNS["body"].title
        columns.append(
            Column(_PATH + field.path, title, min(cells, _FIELD_CELLS), cells, alignment, drop=drop, most=cells)
        )
    if body_preview.others:
        drop = _COLUMNS["fields"].drop if body_preview.columns else _FIRST_FIELD
        columns.append(_COLUMNS["fields"]._replace(drop=drop))
    return columns


def build_job_row(
    job: Job,
    now_ms: int,
    id_cells: int,
    names: Sequence[str],
    choice: ColumnChoice = _DEFAULT_CHOICE,
    gone_to: str | None = None,
) -> Row:
    """Return the table row of a job in these columns.

    `gone_to` is the new place of a job that left the list: "" if it was deleted, None if the job is still in the list.
    """
    has_flexible = not choice.body.is_empty or any(name in _FLEXIBLE_NAMES or name.startswith(_PATH) for name in names)
    cells: list[Cell] = [
        formats.shorten_job_id(
            preview.shorten_id_to_format(job.id, choice.ids), id_cells if has_flexible else WHOLE_ID_CELLS
        )
    ]
    gone_index = 1  # the cell that shows the new place of a job that left: its name, else its last and widest field
    for name in names:
        if name in ("job", "call"):
            gone_index = len(cells)
        if name == "fields":
            cells += _build_field_cells(job, choice.body)
            gone_index = gone_index if {"job", "call"} & {*names} else len(cells) - 1
        else:
            cells.append(_read_path_cell(job, name) if name.startswith(_PATH) else _CELLS[name](job, now_ms))
    if gone_to is None:
        return Row(job.id, tuple(cells))
    if len(cells) > 1:
        cells[max(1, gone_index)] = f"→{gone_to}" if gone_to else "gone"
    return Row(job.id, tuple(cells), is_gone=True)


def _build_field_cells(job: Job, body_preview: preview.Preview) -> list[Cell]:
    """Return the cells of a job's body fields, one for each field column and one for all other fields."""
    body_fields = (
        preview.read_preview_fields(_read_body_head(job)) if body_preview.columns or body_preview.others else {}
    )
    cells: list[Cell] = [
        field.format_value(value) if (value := body_fields.get(field.path)) is not None else _build_missing_cell(job)
        for field in body_preview.columns
    ]
    return [*cells, preview.format_field_pairs(body_fields, body_preview.others)] if body_preview.others else cells


def _build_missing_cell(job: Job) -> Piece:
    """Return the cell of a missing body value: `…` if the loaded part of the body is too short to know, else `·`."""
    return Piece("…" if len(_read_body_head(job)) < job.body_bytes else formats.NONE, "muted")


def count_needed_body_bytes(names: Sequence[str]) -> int:
    """Return how many bytes of each job's body must be loaded to fill the columns with these names."""
    if any(name.startswith(_PATH) for name in names):
        return PATH_BYTES
    return preview.HEAD_BYTES if {"call", "fields", "body"} & {*names} else 0


# -- cells -------------------------------------------------------------------------------------------------------------


def _format_name_cell(job: Job, _now_ms: int) -> Cell:
    """Return the cell with the job's name, or with the problem of its record."""
    if job.problem:
        return Piece(preview.format_field_value(job.problem), "state-dead")
    return _mask_job_name(job) if job.name else Piece(formats.NONE, "muted")


def _format_call_cell(job: Job, _now_ms: int) -> Cell:
    """Return the cell with the job's call, else its body. A job with a problem shows the problem."""
    if job.problem:
        return Piece(preview.format_field_value(job.problem), "state-dead")
    return (
        preview.format_field_value(job.call)
        if job.call
        else preview.render_body_line(_read_body_head(job)) or _build_missing_cell(job)
    )


def _mask_job_name(job: Job) -> str:
    """Return the name of a job with secrets masked."""
    return preview.format_field_value(job.name)


def _read_body_head(job: Job) -> bytes:
    """Return the loaded beginning of the job's body, else its entry in the place.

    The result is empty if the entry is only the job's id.
    """
    head = job.member if job.body is None else job.body
    return head if head != job.id else b""


def compute_job_time_ms(job: Job, now_ms: int) -> int | None:
    """Return the milliseconds that a job's time column shows, or None if its system does not store that time.

    By state: until the job is due, since it waits, until its lease ends, or since it ended. Overdue times are negative.
    """
    since = job.since_ms
    if job.state is State.SCHEDULED and job.due_ms is not None:
        return job.due_ms - now_ms
    if job.state is State.RESERVED and job.deadline_ms is not None:
        return job.deadline_ms - now_ms
    return max(0, now_ms - since) if since is not None else None


def _format_time_cell(job: Job, now_ms: int) -> Cell:
    """Return the cell of a job's time column: until it is due, since it waits, or since it ended."""
    ms = compute_job_time_ms(job, now_ms)
    if ms is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(formats.format_age(ms), "state-dead" if ms < 0 else "muted")


def compute_lease_length_ms(job: Job) -> int:
    """Return the full length of the job's lease in milliseconds; 0 if it is unknown."""
    if job.deadline_ms is None:
        return 0
    return max(1, job.deadline_ms - job.reserved_ms) if job.reserved_ms else job.ttr_ms or 0


def _format_lease_cell(job: Job, now_ms: int) -> Cell:
    left_ms, length_ms = compute_job_time_ms(job, now_ms) or 0, compute_lease_length_ms(job)
    if not length_ms:
        return Piece(formats.NONE, "muted")
    used_bar, rest_bar = formats.build_lease_bar(left_ms, length_ms, 5)
    return (Piece(used_bar, "state-dead" if left_ms < 0 else "state-reserved"), Piece(rest_bar, "muted"))


def _format_attempts_cell(job: Job, _now_ms: int) -> Cell:
    return _format_attempts(job) or Piece(formats.ZERO, "muted")


def _format_attempts(job: Job) -> str:
    limit = f"/{job.max_attempts}" if job.max_attempts else ""
    return f"{job.attempts}{limit}" if job.attempts else ""


def _format_error_cell(job: Job, _now_ms: int) -> Cell:
    return Piece(format_error_line(job.error), "state-dead") if job.error else ""


def format_error_line(error: str) -> str:
    """Return the error of a job as one line with its secrets masked."""
    return _format_masked_error(error, build_masking_cache_key())


@lru_cache(4096)
def _format_masked_error(error: str, _secrets: object) -> str:
    return safe(mask_text(summarize_error(error)))


def _format_worker_cell(job: Job, _now_ms: int) -> Cell:
    return preview.format_field_value(job.worker)


def _format_number_cell(number: int) -> Cell:
    return str(number) if number else Piece(formats.NONE, "muted")


def _format_body_cell(job: Job, _now_ms: int) -> Cell:
    return preview.render_body_line(job.body) if job.body else Piece(formats.NONE, "muted")


_CELLS: dict[str, Callable[[Job, int], Cell]] = {
    "job": _format_name_cell,
    "call": _format_call_cell,
    "time": _format_time_cell,
    "lease": _format_lease_cell,
    "tried": _format_attempts_cell,
    "error": _format_error_cell,
    "worker": _format_worker_cell,
    "owner": _format_worker_cell,
    "priority": lambda job, _now_ms: _format_number_cell(job.priority),
    "size": lambda job, _now_ms: formats.format_size(job.body_bytes).replace(" ", ""),
    "enqueued": lambda job, now_ms: formats.format_age(now_ms - job.enqueued_ms) if job.enqueued_ms else formats.NONE,
    "body": _format_body_cell,
}


def _read_path_cell(job: Job, name: str) -> Cell:
    """Return the cell of a `body.` column with the value at its path.

    The cell shows `·` if the value is missing, and `…` if the body is not loaded that far.
    """
    value = _find_path_value(job.body or b"", job.body_bytes, name.removeprefix(_PATH), build_masking_cache_key())
    return _build_missing_cell(job) if value is None else value


@lru_cache(4096)
def _find_path_value(body: bytes, size: int, path: str, _secrets: object) -> str | None:
    """Return the masked value at a dotted path in a job's body, or None if it is missing or not fully loaded."""
    value = fields.parse_partial_body(body)
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
        if is_secret_name(part):
            return MASK
    if isinstance(value, str):
        return safe(mask_text(value))
    if len(body) < size and isinstance(value, dict | list):
        return None  # the part that is not loaded may hold more of it
    return safe(mask_text(fields.format_as_json(value)))
