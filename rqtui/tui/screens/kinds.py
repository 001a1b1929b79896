"""Show the kinds of jobs: for each kind the jobs per place, the failures, and how long jobs wait and run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.model import Focus, Job, Ref, Snapshot, State
from rqtui.reports import kinds
from rqtui.reports.kinds import Kind
from rqtui.reports.kinds import Kinds as Report
from rqtui.text import elision, formats
from rqtui.text.masking import mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.queue_plot import QueuePlot
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.view import find_only_queue, find_top_view
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

_SORT_KEYS: dict[str, Callable[[Kind], int]] = {
    "count": lambda kind: -kind.count,
    "name": lambda kind: 0,
    "failed": lambda kind: -kind.failed,
    "waits": lambda kind: -(-1 if kind.wait_ms is None else kind.wait_ms),
    "runs": lambda kind: -(-1 if kind.run_ms is None else kind.run_ms),
    "ran": lambda kind: -(kind.figures.processed if kind.figures else -1),
    "failing": lambda kind: -round(1e6 * ((kind.figures.failure_share if kind.figures else None) or 0)),
}
SHARE_CELLS = 16
_MOST_BAR_CELLS = 80  # cells of a bar; the eye loses its line in longer ones
NO_KIND_TEXT = "(no kind)"
_STATES_BY_INTEREST = (State.READY, State.RESERVED, State.DEAD, State.SCHEDULED, State.DONE)


class Kinds(ReportView):
    """The view of the kinds of jobs in some queues, or in all queues."""

    NAME = "kinds"
    DETAILS = "#about"
    DEFAULT_CSS: ClassVar[str] = "Kinds #about { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    FILTER_HINT = "part of a kind or of a queue; !term excludes"
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
    TITLE_WORD = "kinds of jobs"
    EMPTY = "no jobs: N enqueues one"
    report: Report | None = None

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of kinds; the queue has one only if several queues are shown."""
        fit_name = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        queue_columns = (
            () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=2, drop=1, style="muted", fit=fit_name),)
        )
        drop_orders = {State.SCHEDULED: 6, State.READY: 0, State.RESERVED: 5, State.DONE: 7, State.DEAD: 0}
        counts = (Column(state, state, max(6, len(state)), align="right", drop=drop_orders[state]) for state in State)
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
            f"{' and '.join(silent_systems)} stores no kinds of jobs: {keys.find_current_key('back')} goes back"
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
        kind_cell = format_field_value(kind.name) if kind.name else Piece(NO_KIND_TEXT, "muted")
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
        return Piece(formats.format_count(number, width=6), style if number else "muted")

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
            Piece(formats.format_long_count(sum(kind.count for kind in all_kinds))),
            Piece("   failed ", "muted"),
            Piece(formats.format_long_count(failed), "state-dead" if failed else ""),
            Piece(f"   ran, failing, mean {formats.format_time_windows(spans_ms)}" if spans_ms else "", "muted"),
            Piece(f"   {', '.join(silent_systems)}: no kinds" if silent_systems else "", "muted"),
        )

    # -- the kind under the cursor --------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of kinds and, below it, the pane with the details of one kind."""
        yield from super().compose_view()
        yield LongText(id="about", classes="pane")

    def draw(self) -> None:
        """Redraw the rows of kinds and the details of the kind under the cursor."""
        self.fit_table_height(self.table, self.count_rows())
        super().draw()
        self._show_kind_details()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the details of the kind to which the cursor moved."""
        super().on_table_moved(event)
        self._show_kind_details()

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request queue counts at each refresh, and the counters of the queue whose plot is shown."""
        focus, plotted = super().build_focus(refs), self._find_plotted_queue()
        counted = dict.fromkeys([*(focus.queues or ()), *([plotted] if plotted else [])])
        return Focus(tuple(counted), requests=self._plot.build_requests(plotted))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the ages in the report, and the plot of the queue of the kind under the cursor."""
        self._plot.add_snapshot(snapshot)
        super().show_snapshot(snapshot)

    @cached_property
    def _plot(self) -> QueuePlot:
        return QueuePlot(self.session)

    def _find_plotted_queue(self) -> Ref | None:
        """Return the queue of the kind under the cursor if a plot of it fits: on large terminals."""
        kind = self.find_selected_kind() if self.is_large and self.has_preview else None
        return kind.ref if kind and kind.ref.queue else None

    def _show_kind_details(self) -> None:
        kind, pane = self.find_selected_kind(), self.query_one("#about", LongText)
        if not self.has_preview or self.report is None:
            return
        if kind is None:
            pane.border_title = Content(" details ")
            pane.show_text(Content.styled("the kind under the cursor is shown here", "$muted"))
            return
        name = formats.elide_middle(format_field_value(kind.name) or NO_KIND_TEXT, 60)
        pane.border_title = Content.styled(f" {name} ", "b $strong")
        width = self.measure_details_width(pane)
        text = _format_kind_details(kind, self.report, width)
        pane.show_text(self._plot.add_below(text, self._find_plotted_queue(), pane, width))

    def find_selected_kind(self) -> Kind | None:
        """Return the kind of jobs under the cursor, or None without rows."""
        cursor_id = self.table.cursor_id
        return next(
            (kind for kind in (self.report.kinds if self.report else ()) if _build_kind_key(kind) == cursor_id), None
        )

    def build_target(self) -> Target:
        """Return the queue of the kind under the cursor as the target of a verb."""
        kind = self.find_selected_kind()
        ref = kind.ref if kind and kind.ref.queue else find_only_queue(self.refs)
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


def _format_kind_details(kind: Kind, report: Report, width: int) -> Content:
    """Format a kind of jobs: share, failures and times, jobs per state with bars, and the errors of its jobs."""
    count_cells = 9
    bar_cells = max(1, min(width - count_cells - 12, _MOST_BAR_CELLS))
    largest = max(kind.counts.values(), default=0)
    bars = [
        Content.assemble(
            (f"{state:<9}", f"$state-{state}"),
            (f"{formats.format_long_count(number):>{count_cells}}  ", "$data"),
            ("━" * max(1, bar_cells * number // largest) if number else "", f"$state-{state}"),
        )
        for state in State
        for number in [kind.counts.get(state, 0)]
    ]
    total = sum(other.count for other in report.kinds)
    read_text = f"{formats.format_long_count(report.size.looked)} of {formats.format_long_count(report.size.of)}"
    jobs_text = f"the {read_text} jobs that were read" if report.size.looked < report.size.of else "all jobs"
    sentences = [
        f"{formats.format_share(kind.count, total)} of {jobs_text} are of this kind.",
        f"{formats.format_long_count(kind.failed)} of its jobs failed at least once."
        if kind.failed
        else "No job that was read failed.",
        *(
            [f"Median wait until a worker takes a job: {formats.format_age(kind.wait_ms)}."]
            if kind.wait_ms is not None
            else []
        ),
        *([f"Median run: {formats.format_duration(kind.run_ms)}."] if kind.run_ms is not None else []),
        *(
            [f"Its oldest ready job waits for {formats.format_age(kind.oldest_ready_ms)}."]
            if kind.oldest_ready_ms is not None
            else []
        ),
    ]
    texts = [Content.styled(line, "$data") for line in formats.wrap_to_width(" ".join(sentences), width)]
    return Content("\n").join([*texts, Content(), *bars, *_format_kind_errors(kind, width)])


def _format_kind_errors(kind: Kind, width: int) -> Iterator[Content]:
    """Yield the errors of the jobs of a kind, most frequent first, with the number of jobs that were read."""
    if not kind.errors:
        return
    yield Content()
    yield Content.styled("errors of the jobs that were read", "b $strong")
    for error, number in kind.errors:
        count = f"{formats.format_long_count(number):>9}  "
        text = safe(mask_text(error)) or "(no error is stored)"
        for position, line in enumerate(Content(text).wrap(max(20, width - len(count)))):
            yield Content.assemble(
                (" " * len(count) if position else count, "$data"), (line.plain.rstrip(), "$state-dead")
            )


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
