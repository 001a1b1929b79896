"""Search the jobs of all queues: the places with matching jobs, and the first matches of the place under the cursor.

The palette (`search TEXT`) and the filter line of the overview open this view. Enter opens the board of a row's queue
at its place with the same filter, where the matching jobs can be marked and changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.model import Ref
from rqtui.reports import search
from rqtui.reports.search import PlaceMatches, SearchResult
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.preview import format_field_value, render_body_line
from rqtui.text.sanitise import format_id, safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.view import find_top_view
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

_INDENT = 4  # cells before the second and later lines of a matching job


class Search(ReportView):
    """The view of a search for `expression`, a filter as `/` on a board takes it, in the jobs of all queues."""

    NAME = "search"
    DETAILS = "#matches"
    DEFAULT_CSS: ClassVar[str] = (
        "Search #matches { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    )
    FILTER_HINT = "search for: text /re/ !term id: job: err: body: .path:exact .path:~part age>10m"
    SORTS = ("matches", "queue")
    SORT_OF: ClassVar = {"matches": "matches", "queue": "queue"}
    TITLE_WORD = "matching jobs"
    EMPTY = "no job that was read matches: / searches for something else"
    INTERVAL_S = float("inf")  # a search runs again on `r` only, because it reads many bodies
    report: SearchResult | None = None

    def __init__(self, expression: str) -> None:
        super().__init__()
        self.filter_text = self._expression = expression
        self.accepts = filters.parse_filter(expression)
        self._scope: list[Ref] = []

    def list_queues_in_scope(self) -> list[Ref]:
        """Return the queues that were known when the search began; a queue found later does not restart it."""
        self._scope = self._scope or list(self.session.refs)
        return self._scope

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of places."""
        return (
            Column("queue", "queue", 12, weight=3, style="strong"),
            Column("place", "place", 9, weight=1),
            Column("matches", "matches", 9, align="right"),
            Column("read", "read", 9, align="right", style="muted", drop=1),
            Column("jobs", "in place", 9, align="right", style="muted", drop=2),
        )

    def build_report(self, engine: Engine) -> Iterator[SearchResult | None]:
        """Read the jobs of each place, and count those that match."""
        self.accepts = filters.parse_filter(self._expression, [*engine.systems.values()])
        return search.yield_search_results(engine, self.list_queues_in_scope(), self.accepts)

    def list_matching_items(self) -> list[PlaceMatches]:
        """Return the places with matching jobs, in the current sort order."""
        places = self.report.places if self.report else ()
        return sorted(places, key=lambda place: place.ref.queue) if self.sort == "queue" else list(places)

    def build_row(self, item: PlaceMatches, _now_ms: int) -> Row:
        """Return the table row of a place."""
        cells = (
            safe(self.session.format_name(item.ref)),
            Piece(safe(item.place), f"state-{item.state}"),
            formats.format_long_count(item.matched),
            formats.format_long_count(item.looked),
            formats.format_long_count(max(item.count, item.looked)),
        )
        return Row(_build_key(item), cells)

    def explain_empty_table(self) -> str:
        """Return the text of the table without rows: an error, or how far the search is."""
        if self._error or self.report is None or self._report_request is not None:
            return super().explain_empty_table()
        return keys.apply_keymap(self.EMPTY)

    def build_summary(self) -> Sequence[Piece]:
        """Return the number of matching jobs, and what was not searched, for the header."""
        if self.report is None:
            return ()
        queues = len({place.ref for place in self.report.places})
        queues_text = f" in {formats.format_quantity(queues, 'queue')}" if queues else ""
        pieces = [
            Piece(formats.format_quantity(self.report.matched, "matching job"), "strong"),
            Piece(queues_text, "muted"),
        ]
        if self.report.cut_bodies:
            bodies = formats.format_quantity(self.report.cut_bodies, "body")
            pieces.append(Piece(f"   {bodies} longer than 4 kB not searched completely", "warning"))
        return pieces

    def apply_filter(self, expression: str) -> None:
        """Search for something else. An empty expression keeps the search."""
        if not expression or expression == self._expression:
            return
        accepts = filters.parse_filter(expression, [*self.session.systems.values()])
        self._stop_report()
        self.accepts, self._expression = accepts, expression
        self.report = self._partial_report = None
        if self.is_drawn:  # a command of the palette may come before the view is composed
            self.table.clear_rows()
            self.recompute()
            self._rebuild_rows()

    def preview_filter(self, expression: str) -> None:
        """Keep the rows while an expression is typed: each search reads many jobs."""

    def step_back(self) -> bool:
        """Leave the view at once: the filter is what was searched for."""
        return False

    # -- the place under the cursor -------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of places and, below it, the pane with the first matches of one place."""
        yield from super().compose_view()
        yield LongText(id="matches", classes="pane")

    def draw(self) -> None:
        """Redraw the rows and the matches of the place under the cursor."""
        self.fit_table_height(self.table, self.count_rows())
        super().draw()
        self._show_matches()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the matches of the place to which the cursor moved."""
        super().on_table_moved(event)
        self._show_matches()

    def _show_matches(self) -> None:
        pane, place = self.query_one("#matches", LongText), self._find_selected_place()
        if not self.has_preview:
            return
        if place is None:
            pane.border_title = Content(" matches ")
            pane.show_text(Content.styled("the first matches of the place under the cursor are shown here", "$muted"))
            return
        name = formats.elide_middle(safe(self.session.format_name(place.ref)), 40)
        pane.border_title = Content.assemble((f" {name} ", "b $strong"), (f"{safe(place.place)} ", "$muted"))
        pane.show_text(_format_matches(place, self.measure_details_width(pane)))

    def _find_selected_place(self) -> PlaceMatches | None:
        places = self.report.places if self.report else ()
        return next((place for place in places if _build_key(place) == self.table.cursor_id), None)

    def build_target(self) -> Target:
        """Return the queue of the place under the cursor as the target of a verb."""
        place, snapshot = self._find_selected_place(), self.session.snapshot
        ref = place.ref if place else None
        return Target(ref, queue=snapshot.find_queue(ref) if ref and snapshot else None)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the board of the queue at the place under the cursor, with the same filter."""
        if place := self._find_selected_place():
            self.host.open_board(place.ref)
            self.app.call_after_refresh(self._filter_opened_board, place)

    def _filter_opened_board(self, place: PlaceMatches) -> None:
        view = find_top_view(self.app.screen_stack)
        if view is not None:
            view.go_to_place(place.place)
            view.confirm_filter(self._expression)


def _build_key(place: PlaceMatches) -> str:
    return f"{place.ref}\n{place.place}"


def _format_matches(place: PlaceMatches, width: int) -> Content:
    """Format the first matching jobs of a place for a pane of `width` cells: the id, the kind, the error and the body.

    The lines after the first one of a job are indented, so that only ids start at the left edge.
    """
    lines: list[Content] = []
    for job in place.jobs:
        text = Content.assemble(
            (f"{format_id(job.id)}  ", "$accented"),
            (f"{format_field_value(job.name)}  " if job.name else "", "$strong"),
            (f"{format_field_value(job.error.splitlines()[-1])}  " if job.error else "", "$state-dead"),
            (render_body_line(job.body or b""), "$muted"),
        )
        first, *rest = text.wrap(max(20, width - _INDENT))
        lines += [first.rstrip(), *(Content.assemble(" " * _INDENT, line.rstrip()) for line in rest)]
    if place.matched > len(place.jobs):
        more = formats.format_long_count(place.matched - len(place.jobs))
        lines.append(Content.styled(keys.apply_keymap(f"… and {more} more: Enter lists all of them"), "$muted"))
    return Content("\n").join(lines)
