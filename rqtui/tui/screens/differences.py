"""Show in what two groups of jobs differ: an error or marked jobs against the rest, or a place against the others.

The errors view and the board open this view with the key `compare`. `[` and `]` compare the first group with itself at
an earlier time instead, for example the dead jobs of the last hour with those of the same hour yesterday. Enter opens
the board with the jobs of the first group that meet the condition under the cursor, where they can be marked and
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine.history import DAY_MS, MINUTE_MS
from rqtui.model import Job, Ref, State
from rqtui.reports import comparison as report
from rqtui.reports import time_windows
from rqtui.reports.comparison import Comparison, Selection
from rqtui.reports.differences import Difference
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.view import find_top_view
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

BAR_CELLS = 12
HOUR_MS = 60 * MINUTE_MS
# Between these the keys switch: the groups as they were opened (None), or the first group in the last so many ms
# against itself so many ms earlier (None: at any earlier time).
TIMES: tuple[tuple[int, int | None] | None, ...] = (
    None,
    (10 * MINUTE_MS, None),
    (HOUR_MS, None),
    (HOUR_MS, DAY_MS),
    (DAY_MS, DAY_MS),
)


class Differences(ReportView):
    """The view of the differences between two groups of jobs of a queue."""

    NAME = "differences"
    DETAILS = "#certainty"
    DEFAULT_CSS: ClassVar[str] = (
        "Differences #certainty { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    )
    FILTER_HINT = "part of a field or a value; !term excludes"
    SORTS = ("difference",)
    TITLE_WORD = "differences"
    INTERVAL_S = float("inf")  # a comparison is repeated on `r` only, because it reads many bodies
    report: Comparison | None = None

    def __init__(self, ref: Ref, a: Selection, b: Selection) -> None:
        super().__init__((ref,))
        self.ref, self._a, self._b = ref, a, b
        self._times: tuple[int, int | None] | None = None

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of differences."""
        return (
            Column("what", "what differs", 24, weight=6, style="strong"),
            Column("a", "in A", 5, align="right"),
            Column("b", "in B", 5, align="right"),
            Column("bar", "difference", BAR_CELLS, drop=2),
            Column("note", "note", 14, weight=1, drop=1, style="muted"),
        )

    def build_report(self, engine: Engine) -> Iterator[Comparison | None]:
        """Read samples of both groups and compare them."""
        a, b = self._a, self._b
        if self._times is not None:
            system = engine.systems[self.ref.system]
            time = time_windows.choose_time(system, a.words)
            a, b = time_windows.select_by_time(a, a, time, system.now_ms(), *self._times)
        return report.yield_comparisons(engine, self.ref, a, b)

    def offers_action(self, action: str) -> bool:
        """Return whether a key's action exists in this view. Jobs that were marked are not compared by time."""
        return not (action.startswith("screen.times") and self._a.ids) and super().offers_action(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works here: True, False if its key is hidden, or None if it is grey."""
        return False if not self.offers_action(f"screen.{action}") else super().check_action(action, parameters)

    def action_times(self, step: int) -> None:
        """Compare the next times, or the ones before: the groups as opened, then the first group by time."""
        self._times = TIMES[(TIMES.index(self._times) + step) % len(TIMES)]
        self._start_report_over()

    def list_matching_items(self) -> list[Difference]:
        """Return the differences that match the filter, the largest first, and those without a cause last."""
        found = self.report.differences.found if self.report else ()
        matching = (each for each in found if self.accepts(_convert_difference_to_job(each)))
        return sorted(matching, key=lambda each: (each.is_result, each.is_time, each.is_explained))

    def build_row(self, item: Difference, _now_ms: int) -> Row:
        """Return the table row of a difference."""
        style = "muted" if item.is_explained or item.is_aside else "accented"
        cells = round(BAR_CELLS * item.size)
        row_cells = (
            safe(report.format_conditions(item.conditions)),
            formats.format_share(item.a_jobs, item.a_total),
            formats.format_share(item.b_jobs, item.b_total),
            Piece("━" * max(1, cells), style),
            _describe_kind_of_difference(item),
        )
        return Row(_build_key(item), row_cells)

    def explain_empty_report(self) -> str:
        """Return the sentence for a comparison without differences, which states what was compared."""
        return report.explain_no_difference(self.report) if self.report else ""

    def build_summary(self) -> Sequence[Piece]:
        """Return both groups with their samples, for the header."""
        if self.report is None:
            return ()
        return (
            Piece("A ", "strong"),
            Piece(safe(report.format_side(self.report.a)), "muted"),
            Piece("   B ", "strong"),
            Piece(safe(report.format_side(self.report.b)), "muted"),
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return both groups for the header, shortened where they do not fit."""
        if self.report is None:
            return Content(), Content()
        pieces = self.build_summary()
        text, hint = "".join(piece.text for piece in pieces), self._build_times_hint()
        whole = Content.assemble(*((piece.text, f"${piece.style}") for piece in pieces))
        cut = Content.styled(formats.fit_to_width(text, width - 1).rstrip(), "$muted")
        return frame.choose_first_fitting([(whole, hint), (whole, Content()), (cut, Content())], width)

    def _build_times_hint(self) -> Content:
        if not self.offers_action("screen.times"):
            return Content()
        bound_keys = f"{keys.find_current_key('times_before')} {keys.find_current_key('times_after')}"
        return frame.format_key_hint(bound_keys, "other times")

    # -- the difference under the cursor --------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of differences and, below it, the pane that explains one of them."""
        yield from super().compose_view()
        yield LongText(id="certainty", classes="pane")

    def draw(self) -> None:
        """Redraw the rows and the explanation of the difference under the cursor."""
        self.fit_table_height(self.table, self.count_rows())
        super().draw()
        self._show_explanation()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Explain the difference to which the cursor moved."""
        super().on_table_moved(event)
        self._show_explanation()

    def _show_explanation(self) -> None:
        pane, difference = self.query_one("#certainty", LongText), self._find_selected_difference()
        if not self.has_preview or self.report is None:
            return
        pane.border_title = Content(" explanation ")
        if difference is None:
            lines = [self.explain_empty_report()]
        else:
            lines = list(_yield_explanation(self.report, difference))
        width = self.measure_details_width(pane)
        wrapped = (line for text in lines for line in formats.wrap_to_width(safe(text), width))
        pane.show_text(Content("\n").join(Content.styled(line, "$data") for line in wrapped))

    def _find_selected_difference(self) -> Difference | None:
        found = self.report.differences.found if self.report else ()
        return next((each for each in found if _build_key(each) == self.table.cursor_id), None)

    def build_target(self) -> Target:
        """Return the queue as the target of a verb."""
        snapshot = self.session.snapshot
        return Target(self.ref, queue=snapshot.find_queue(self.ref) if snapshot else None)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the board with the jobs of the first group that meet the condition under the cursor."""
        difference = self._find_selected_difference()
        if difference is None or self.report is None:
            return
        expression = report.build_condition_filter(self.report, difference)
        if not expression:
            self.host.show_toast("no filter selects these jobs: the condition is a limit, a time or masked.", "warning")
            return
        self.host.open_board(self.ref)
        self.app.call_after_refresh(
            self._filter_opened_board, self._find_largest_place(self.report.a.places), expression
        )

    def _find_largest_place(self, places: Sequence[str]) -> str:
        """Return the place with the most jobs: the group of an error has dead jobs and a few that are retried."""
        queue = self.session.snapshot.find_queue(self.ref) if self.session.snapshot else None
        return max(places, key=queue.count_in_place) if queue is not None else places[0]

    def _filter_opened_board(self, place: str, expression: str) -> None:
        view = find_top_view(self.app.screen_stack)
        if view is not None:
            view.go_to_place(place)
            view.confirm_filter(expression)


def _build_key(difference: Difference) -> str:
    return report.format_conditions(difference.conditions)


def _convert_difference_to_job(difference: Difference) -> Job:
    """Build a job with the searchable text of a difference, because filters work on jobs."""
    return Job(b"", "", "", "", State.READY, b"", name=report.format_conditions(difference.conditions))


def _describe_kind_of_difference(difference: Difference) -> str:
    if difference.is_result:
        return "after a run"
    if difference.is_time:
        return "a time"
    return "with the first" if difference.is_explained else ""


def _yield_explanation(comparison: Comparison, difference: Difference) -> Iterator[str]:
    """Yield the sentences that explain a difference: its numbers, how certain it is, and what to do with it."""
    conditions = report.format_conditions(difference.conditions)
    yield (
        f"{conditions}: {formats.format_long_count(difference.a_jobs)} of "
        f"{formats.format_quantity(difference.a_total, 'job')} in A, "
        f"{formats.format_long_count(difference.b_jobs)} of {formats.format_quantity(difference.b_total, 'job')} "
        "in B."
    )
    yield f"A is {report.format_side(comparison.a)}."
    yield f"B is {report.format_side(comparison.b)}. No job of A is in B."
    tested = formats.format_quantity(comparison.differences.conditions, "value")
    yield f"{report.format_certainty(difference)} (Fisher's exact test, corrected for {tested})."
    if difference.more:
        yield f"Other values of this field that differ: {difference.more}."
    if difference.is_time:
        yield "Times often differ only because the places of both groups keep their jobs for different times."
    elif difference.is_explained:
        yield "The difference vanishes among jobs that are equal in the first one: it follows from the first."
    if difference.is_result:
        yield "This is known only after a run, so it is more likely an effect than a cause."
    if report.build_condition_filter(comparison, difference):
        yield keys.apply_keymap("Enter opens these jobs of A on the board, where they can be changed.")
