"""Show the kinds of jobs: for each kind the jobs per place, the failures, and how long jobs wait and run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rqtui.model import Job, State
from rqtui.reports import kinds
from rqtui.reports.kinds import Kind
from rqtui.reports.kinds import Kinds as Report
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.view import find_top_view
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

_SORT_KEYS: dict[str, Callable[[Kind], int]] = {
    "count": lambda kind: -kind.count,
    "name": lambda kind: 0,
    "failed": lambda kind: -kind.failed,
    "waits": lambda kind: -(kind.wait_ms or -1),
    "runs": lambda kind: -(kind.run_ms or -1),
    "ran": lambda kind: -(kind.figures.processed if kind.figures else -1),
    "failing": lambda kind: -round(1e6 * ((kind.figures.failure_share if kind.figures else None) or 0)),
}
SHARE_CELLS = 16
_STATES_BY_INTEREST = (State.READY, State.RESERVED, State.DEAD, State.SCHEDULED, State.DONE)
_SHORT_TITLES = {State.SCHEDULED: "sched", State.RESERVED: "resvd"}


class Kinds(ReportView):
    """The view of the kinds of jobs in some queues, or in all queues."""

    NAME = "kinds"
    FILTER_HINT = "part of a kind or of a queue; !term turns it round"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "job": "name",
        "kind": "name",
        "count": "count",
        "failed": "failed",
        "waits": "waits",
        "runs": "runs",
        "ran": "ran",
        "failing": "failing",
    }
    TITLE_WORD = "by job"
    EMPTY = "no jobs: N enqueues one"
    report: Report | None = None

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of kinds; the queue has one only if several queues are shown."""
        fit_name = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        queue_columns = (
            () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=2, drop=1, style="muted", fit=fit_name),)
        )
        drop_orders = {State.SCHEDULED: 6, State.READY: 0, State.RESERVED: 5, State.DONE: 7, State.DEAD: 0}
        counts = (
            Column(state, _SHORT_TITLES.get(state, state), 6, align="right", drop=drop_orders[state]) for state in State
        )
        return (
            Column("kind", "job", 12, weight=3, style="strong"),
            *queue_columns,
            *counts,
            Column("share", "share", SHARE_CELLS, drop=8),
            Column("failed", "failed", 6, align="right", drop=2),
            Column("waits", "waits", 6, align="right", style="muted", drop=3),
            Column("runs", "runs", 6, align="right", style="muted", drop=3),
            Column("oldest", "oldest", 6, align="right", style="muted", drop=4),
            *(_STATISTICS_COLUMNS if self.report is not None and self.report.has_figures else ()),
        )

    def apply_report(self) -> None:
        """Add the columns for run statistics if a system of the report stores them."""
        if (columns := tuple(self.build_columns())) != self.table.painter.columns:
            self.table.set_columns(columns)

    def build_report(self, engine: Engine) -> Iterator[Report | None]:
        """Read a sample of the jobs of each place, grouped by kind."""
        return kinds.yield_kind_reports(engine, self.list_queues_in_scope())

    def explain_empty_report(self) -> str:
        """Return the sentence shown for a report without kinds, which names systems that do not store kinds."""
        silent_systems = self.report.silent if self.report else ()
        return (
            f"{' and '.join(silent_systems)} keeps no kinds of jobs: {keys.find_current_key('back')} goes back"
            if silent_systems
            else keys.apply_keymap(self.EMPTY)
        )

    def list_matching_items(self) -> list[Kind]:
        """Return the kinds of jobs that match the filter, in the current sort order."""
        all_kinds = self.report.kinds if self.report else ()
        sort_key = _SORT_KEYS[self.sort]
        matching = (kind for kind in all_kinds if self.accepts(_convert_kind_to_job(kind)))
        return sorted(matching, key=lambda kind: (sort_key(kind), kind.name, kind.ref.queue))

    def build_row(self, kind: Kind, _now_ms: int) -> Row:
        """Return the table row of a kind of jobs in one queue."""
        kind_cell = format_field_value(kind.name) if kind.name else Piece("(no kind)", "muted")
        queue_cell: Cell = (
            safe(self.session.format_name(kind.ref)) if kind.ref.queue else Piece(formats.UNKNOWN, "muted")
        )
        queue_cells: tuple[Cell, ...] = () if len(self.refs) == 1 else (queue_cell,)
        cells = (
            kind_cell,
            *queue_cells,
            *(self._build_count_cell(kind.counts.get(state, 0), f"state-{state}") for state in State),
            tuple(Piece(text, f"state-{state}") for state, text in _build_state_share_bar(kind)),
            self._build_count_cell(kind.failed, "critical"),
            formats.format_age(kind.wait_ms),
            formats.format_duration(kind.run_ms).replace(" ", ""),
            formats.format_age(kind.oldest_ready_ms),
            *(_build_statistics_cells(kind) if self.report is not None and self.report.has_figures else ()),
        )
        return Row(_build_kind_key(kind), cells)

    def _build_count_cell(self, number: int, style: str) -> Cell:
        return Piece(self._format_report_count(number, 6), style if number else "muted")

    def build_summary(self) -> Sequence[Piece]:
        """Return the number of kinds, of their jobs, and of the failed jobs, for the header."""
        all_kinds = self.report.kinds if self.report else ()
        failed = sum(kind.failed for kind in all_kinds)
        kind_count = len({kind.name for kind in all_kinds})
        silent_systems = self.report.silent if self.report else ()
        spans_ms = self.report.spans_ms if self.report else ()
        return (
            Piece(f"{formats.format_quantity(kind_count, 'kind')} of job", "strong"),
            Piece("   jobs ", "muted"),
            Piece(self._format_report_count(sum(kind.count for kind in all_kinds))),
            Piece("   failed ", "muted"),
            Piece(self._format_report_count(failed), "state-dead" if failed else ""),
            Piece(f"   ran, failing, mean {formats.format_time_windows(spans_ms)}" if spans_ms else "", "muted"),
            Piece(f"   {', '.join(silent_systems)}: no kinds" if silent_systems else "", "muted"),
        )

    def find_selected_kind(self) -> Kind | None:
        """Return the kind of jobs under the cursor, or None without rows."""
        cursor_id = self.table.cursor_id
        return next(
            (kind for kind in (self.report.kinds if self.report else ()) if _build_kind_key(kind) == cursor_id), None
        )

    def build_target(self) -> Target:
        """Return the queue of the kind under the cursor as the target of a verb."""
        kind = self.find_selected_kind()
        ref = kind.ref if kind and kind.ref.queue else self.refs[0] if len(self.refs) == 1 else None
        snapshot = self.session.snapshot
        return Target(ref, queue=snapshot.find_queue(ref) if ref and snapshot else None)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the queue's board, filtered to the jobs of the kind under the cursor."""
        kind = self.find_selected_kind()
        if kind is None or self.report is None or not kind.ref.queue:  # The kind is in no queue now.
            return
        names = {other.name for other in self.report.kinds if other.ref == kind.ref}
        state = next((state for state in _STATES_BY_INTEREST if kind.counts.get(state)), State.READY)
        self.host.open_board(kind.ref)
        self.app.call_after_refresh(self._filter_opened_board, state, build_kind_filter(kind.name, names))

    def _filter_opened_board(self, state: State, filter_expression: str) -> None:
        view = find_top_view(self.app.screen_stack)
        if view is not None:
            view.filter_place_of_state(state, filter_expression)


def build_kind_filter(name: str, names: set[str]) -> str:
    """Build a filter that matches one kind of jobs and none of the other `names`: `job:send`, or `job:/^send$/`."""
    is_word = re.fullmatch(r"[^\s\"'/]+", name) is not None
    if is_word and not any(name.lower() in other.lower() for other in names - {name}):
        return f"job:{name}"
    return f"job:/^{re.escape(name).replace('/', chr(92) + '/')}$/"


_STATISTICS_COLUMNS = (
    Column("ran", "ran", 6, align="right", drop=1),
    Column("failing", "failing", 7, align="right", drop=2),
    Column("mean", "mean", 6, align="right", style="muted", drop=3),
)


def _build_statistics_cells(kind: Kind) -> tuple[Cell, ...]:
    """Return the cells of the run statistics that a system stores of a kind: runs, failure share, and mean duration."""
    statistics = kind.figures
    if statistics is None:
        return (Piece(formats.UNKNOWN, "muted"),) * 3
    return (
        formats.format_count(statistics.processed, width=6),
        Piece(
            formats.format_share(statistics.failed, statistics.processed), "critical" if statistics.failed else "muted"
        ),
        formats.format_duration(statistics.mean_ms).replace(" ", ""),
    )


def _build_kind_key(kind: Kind) -> str:
    return f"{kind.ref}\n{kind.name}"


def _convert_kind_to_job(kind: Kind) -> Job:
    """Build a job with the searchable texts of a kind, because filters work on jobs."""
    queue_bytes = to_bytes(kind.ref.queue)
    return Job(b"", kind.ref.queue, kind.ref.system, "", State.READY, b"", name=kind.name, body=queue_bytes)


def _build_state_share_bar(kind: Kind) -> list[tuple[State, str]]:
    return formats.build_share_bar([(state, kind.counts.get(state, 0)) for state in State], SHARE_CELLS)
