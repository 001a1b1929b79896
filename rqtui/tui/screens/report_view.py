"""Provide the base class of views that show a report which takes many round trips to build.

The report is built in steps on the engine's thread, with refreshes in between, on `r` and every 30 s. The previous
report stays on screen until the next one is complete. A subclass defines how the report is built and which rows it has;
this class does sorting, filtering and the texts in the frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters, ticker
from rqtui.model import Focus, Job, Ref, Snapshot
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.sampling import Extent

SHOW_PARTIAL_AFTER_S = 0.5  # a first report that takes longer is shown while incomplete
RETRY_S = 2.0  # until a failed report is tried again
MOST_ROWS = 500  # 500 rows take 10 ms to redraw, at each refresh because they contain ages
MAX_COUNTED_QUEUES = 20  # queues counted at each refresh


class ReportView(View):
    """A view with the table of a report about the queues `refs`, or about all queues if `refs` is empty."""

    TITLE_WORD: ClassVar[str] = ""
    EMPTY: ClassVar[str] = ""
    INTERVAL_S: ClassVar[float] = 30.0  # between two reports
    SAMPLE_NOTE: ClassVar[str] = ""  # which jobs a report reads if there are too many
    report: Any = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = refs
        self.sort = self.SORTS[0]
        self.accepts: Callable[[Job], bool] = filters.parse_filter("")
        self._expression = ""
        self._partial_report: Any = None
        self._is_report_partial = False  # the shown report is the first one and still being built
        self._report_request: int | None = None  # id of the running call that builds the report
        self._initial_refs = refs
        self._report_refs: list[Ref] = []
        self._next_report_s = self._report_started_s = 0.0
        self._matching_items: list[Any] | None = None
        self._now_ms = 0
        self._error = ""

    # -- defined by subclasses ------------------------------------------------------------------------------------

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the report's table."""
        raise NotImplementedError

    def build_report(self, engine: Engine) -> Iterator[Any]:
        """Yield the report in steps of one round trip; a step that is not None is the report so far."""
        raise NotImplementedError

    def list_matching_items(self) -> list[Any]:
        """Return the items of the report that match the filter, in the current sort order."""
        raise NotImplementedError

    def build_row(self, item: Any, now_ms: int) -> Row:
        """Return the table row of one item of the report."""
        raise NotImplementedError

    def build_summary(self) -> Sequence[Piece]:
        """Return the report's totals for the header's second line."""
        raise NotImplementedError

    def apply_report(self) -> None:
        """Update the view and the session after a new report was built."""

    def explain_empty_report(self) -> str:
        """Return the sentence shown for a report without rows."""
        return self.EMPTY

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return this view's own queues, so that a view opened from here shows the same queues."""
        return self.refs

    # -- the report -----------------------------------------------------------------------------------------------

    def list_queues_in_scope(self) -> list[Ref]:
        """Return the queues that the report covers."""
        return [*self.refs] or list(self.session.refs)

    def recompute(self) -> None:
        """Start to build the report of the view, unless it is already being built."""
        if self._report_request is None and self.session.engine is not None:
            self._error, self._report_started_s = "", time.monotonic()
            self._report_refs = self.list_queues_in_scope()
            self._report_request = self.session.run_steps(self.build_report, self._handle_report_step)
            self._update_frame()

    def _handle_report_step(self, message: ticker.CallFinished) -> None:
        if message.request_id != self._report_request:
            return  # an answer of a stopped report
        if message.result is not None:
            self._partial_report = message.result
        if message.is_last:
            self._report_request, self._error = None, message.error
            self._next_report_s = time.monotonic() + (RETRY_S if message.error else self.INTERVAL_S)
        takes_long = self.report is None and time.monotonic() - self._report_started_s > SHOW_PARTIAL_AFTER_S
        if takes_long or (message.is_last and not message.error):
            self.report = self._partial_report or self.report
            self._is_report_partial = not message.is_last
            if self.session.is_replay and self.is_drawn:
                self.table.expect_similar_list()  # A row of another moment must not stay under the cursor.
            self.apply_report()
        if self.is_drawn and (message.result is not None or message.is_last):
            self._rebuild_rows()

    def on_unmount(self) -> None:
        """Stop building the report when the view is closed."""
        self._stop_report()

    def _stop_report(self) -> None:
        if self._report_request is not None:
            self.session.stop_steps(self._report_request)
            self._report_request = None

    def action_widen(self) -> None:
        """Switch the report between the queues for which the view was opened and all queues."""
        self.refs = self._initial_refs if not self.refs else ()
        self._start_report_over()
        self.host.request_refresh()

    def _start_report_over(self) -> None:
        """Drop the report and its rows, and build it again: its subject has changed, and maybe its columns."""
        self._stop_report()
        self.report = self._partial_report = None
        self.table.clear_rows()
        self.table.set_columns(self.build_columns())
        self.recompute()
        self._rebuild_rows()

    # -- drawing --------------------------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of the report."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self.build_columns(), empty="reading …", id="report", has_marks=False, ascii_only=is_ascii)

    def on_mount(self) -> None:
        """Focus the table of the report."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of the report."""
        return self.query_one("#report", Table)

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request only queue counts at each refresh; the report is built between the refreshes."""
        return Focus(tuple([*self.refs][:MAX_COUNTED_QUEUES] or refs[:MAX_COUNTED_QUEUES]))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the ages in the report, and start a new report if the last one is too old or covers other queues."""
        is_moved, self._now_ms = self.session.is_replay and snapshot.taken_ms != self._now_ms, snapshot.taken_ms
        is_due = is_moved or time.monotonic() >= self._next_report_s or self._report_refs != self.list_queues_in_scope()
        if is_due and not (self.is_frozen and self.report):
            self.recompute()
        if self.report is not None:
            self.draw()

    def _rebuild_rows(self) -> None:
        """Filter and sort the rows of the report again, and redraw them."""
        self._matching_items = None
        self.draw()

    def draw(self) -> None:
        """Redraw the rows of the report and the texts of the frame."""
        self.table.empty = self.explain_empty_table()
        if self.report is not None:
            if self._matching_items is None:
                self._matching_items = self.list_matching_items()
            self.table.update([self.build_row(item, self._now_ms) for item in self._matching_items[:MOST_ROWS]])
        self._update_frame()
        self.host.show_header()
        self.host.show_keys()

    def count_rows(self) -> int:
        """Return the number of rows of the report that match the filter."""
        if self.report is None:
            return 0
        if self._matching_items is None:
            self._matching_items = self.list_matching_items()
        return min(MOST_ROWS, len(self._matching_items))

    def explain_empty_table(self) -> str:
        """Return the text that the table shows while it has no rows."""
        if self._error:
            return f"{safe(self._error)} {keys.find_current_key('refresh')} tries again"
        if self.report is None or self._report_request is not None:
            return "reading …"
        search_text = format_field_value(self._expression)
        return (
            f"nothing matches /{search_text}: {keys.apply_keymap('/ and Esc clear it')}"
            if search_text
            else self.explain_empty_report()
        )

    def _update_frame(self) -> None:
        only_ref = find_only_queue(self.refs)
        scope_text = safe(only_ref.queue) if only_ref else f"{len(self.refs) or 'all'} queues"
        filter_pieces = [Piece(f"/{format_field_value(self._expression)} ", "accented")] if self._expression else []
        self.table.set_border_title(
            Piece(f" {self.TITLE_WORD} ", "strong"),
            Piece(f"of {formats.elide_middle(scope_text, 32)} ", "muted"),
            *filter_pieces,
        )
        frozen_pieces = [Piece("frozen: p ", "accented")] if self.is_frozen else []
        self.table.set_subtitle(Piece(" "), *frozen_pieces, *self.build_status())

    def build_status(self) -> list[Piece]:
        """Return the texts of the frame's bottom line: errors, sample size, and the age of the report."""
        if self.report is None:
            return [Piece("reading … ", "accented")] if self._report_request is not None else []
        size: Extent = self._partial_report.size if self._report_request and self._partial_report else self.report.size
        pieces = [Piece(f"{safe(size.problems[0])} · ", "critical")] if size.problems else []
        if self._error:
            pieces.append(Piece(f"{safe(self._error)} · ", "critical"))
        if self._matching_items and len(self._matching_items) > MOST_ROWS:
            pieces.append(
                Piece(f"the first {MOST_ROWS} of {formats.format_count(len(self._matching_items))} · ", "warning")
            )
        if self.session.is_replay:
            return [*pieces, *format_sample_size(size)]
        pieces += format_sample_size(size, self.SAMPLE_NOTE)
        age_text = (
            "reading … "
            if self._report_request is not None
            else f"{formats.format_age_since(self.report.size.taken_ms, self._now_ms)} old, r reads again "
        )
        return [*pieces, Piece(age_text, "muted")]

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the report's totals and the sort order for the header."""
        if self.report is None:
            return super().build_second_line(width)
        left = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in self.build_summary()))
        return frame.choose_first_fitting(yield_second_line_variants(left, self.sort, bool(self.refs)), width)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of the report while the connection is lost, or restore it."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """Switch the report to the next sort order."""
        self.select_next_sort()

    def redraw_sorted(self) -> None:
        """Redraw the rows of the report after the sort order changed."""
        self._rebuild_rows()

    def apply_filter(self, expression: str) -> None:
        """Show only the rows of the report that match the expression, in the filter syntax of jobs."""
        self.accepts, self._expression = filters.parse_text_filter(expression), expression
        self._rebuild_rows()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update the footer for the row to which the cursor moved."""
        self.host.show_keys()


def yield_second_line_variants(summary: Content, sort: str, can_widen: bool) -> Iterator[frame.Sides]:
    """Yield variants of a view's second header line, from all key hints to none.

    The caller uses the first that fits.
    """
    sort_hint = frame.format_key_hint(keys.find_current_key("sort"), f"sort: {sort}")
    if can_widen:
        yield (
            summary,
            Content("   ").join([frame.format_key_hint(keys.find_current_key("widen"), "all queues"), sort_hint]),
        )
    yield summary, sort_hint
    yield summary, Content()


def format_sample_size(size: Extent, note: str = "") -> list[Piece]:
    """Return texts such as `5 000 of 12 431 jobs read · ` for a report that did not read all jobs or all queues.

    `note` says which jobs were read, and follows the numbers.
    """
    pieces = []
    if size.looked < size.of:
        numbers = f"{formats.format_long_count(size.looked)} of {formats.format_long_count(size.of)}"
        pieces.append(Piece(f"{numbers} jobs read{note} · ", "warning"))
    if size.queues < size.of_queues:
        pieces.append(Piece(f"{size.queues} of {formats.format_long_count(size.of_queues)} queues · ", "warning"))
    return pieces
