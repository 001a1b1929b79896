"""Report view: a view of a report that takes many round trips: it is made anew on `r` and each half minute.

The report comes in steps on the engine's thread, a tick between any two; what stood before stays until the next one is
whole. A subclass says how it is made and which rows it has; sorting, filtering and the words in the frame stand here.
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
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.sampling import Size

FRESH_S = 30.0  # so long a report is not made anew by itself
PATIENCE_S = 0.5  # a first report that takes longer is shown as far as it is
AGAIN_S = 2.0  # after one that failed
MOST_ROWS = 500  # drawn at each tick, since their ages go on: 10 ms
COUNTED = 20  # queues whose counts ride along in a tick


class ReportView(View):
    """A table of what a report says. `refs`: the queues it is about; all of them where there is none."""

    TITLE_WORD: ClassVar[str] = ""
    EMPTY: ClassVar[str] = ""
    report: Any = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = refs
        self.sort = self.SORTS[0]
        self.accepts: Callable[[Job], bool] = filters.parse("")
        self._expression = ""
        self._coming: Any = None
        self._run: int | None = None  # the request for the report that is being made
        self._named = refs
        self._made_of: list[Ref] = []
        self._due_s = self._began_s = 0.0
        self._fitting: list[Any] | None = None
        self._now_ms = 0
        self._error = ""

    # -- what a subclass says -------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """The columns of the table."""
        raise NotImplementedError

    def make(self, engine: Engine) -> Iterator[Any]:
        """The report, in steps of a round trip; what is not None is what is known of it so far."""
        raise NotImplementedError

    def fitting(self) -> list[Any]:
        """What of the report the filter lets through, in the order of the sort."""
        raise NotImplementedError

    def row(self, each: Any, now_ms: int) -> Row:
        """The line of one of them."""
        raise NotImplementedError

    def summary(self) -> Sequence[Piece]:
        """What the header's second line says of the report."""
        raise NotImplementedError

    def learned(self) -> None:
        """A report was made: what others may know of it."""

    def why_empty(self) -> str:
        """The sentence of a report without rows."""
        return self.EMPTY

    def scope(self) -> tuple[Ref, ...]:
        """From one side view to another the queues stay the same."""
        return self.refs

    # -- the report -----------------------------------------------------------------------------------------------

    def in_scope(self) -> list[Ref]:
        """The queues it is about."""
        return [*self.refs] or list(self.session.refs)

    def anew(self) -> None:
        """Makes the report anew, once at a time."""
        if self._run is None and self.session.engine is not None:
            self._error, self._began_s = "", time.monotonic()
            self._made_of = self.in_scope()
            self._run = self.session.work(self.make, self._heard)
            self._say()

    def _heard(self, answered: ticker.Answered) -> None:
        if answered.request != self._run:
            return  # of one that was given up
        if answered.result is not None:
            self._coming = answered.result
        if answered.is_last:
            self._run, self._error = None, answered.error
            self._due_s = time.monotonic() + (AGAIN_S if answered.error else FRESH_S)
        takes_long = self.report is None and time.monotonic() - self._began_s > PATIENCE_S
        if takes_long or (answered.is_last and not answered.error):
            self.report = self._coming or self.report
            self.learned()
        if self.is_drawn and (answered.result is not None or answered.is_last):
            self._draw_anew()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._stop()

    def _stop(self) -> None:
        if self._run is not None:
            self.session.end_work(self._run)
            self._run = None

    def action_widen(self) -> None:
        """All queues instead of those that it was opened with, and back."""
        self._stop()
        self.refs = self._named if not self.refs else ()
        self.report = self._coming = None
        self.table.reset()
        self.table.set_columns(self.columns())
        self.anew()
        self._draw_anew()
        self.host.look_again()

    # -- drawing --------------------------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """The table."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self.columns(), empty="looking …", id="report", has_marks=False, ascii_only=is_ascii)

    def on_mount(self) -> None:
        """The keys go to the table."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of the report."""
        return self.query_one("#report", Table)

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """Counts alone: the report is made beside the ticks."""
        return Focus(tuple([*self.refs][:COUNTED] or refs[:COUNTED]))

    def show(self, snapshot: Snapshot) -> None:
        """Ages go on; a report that is old is made anew."""
        self._now_ms = snapshot.taken_ms
        is_due = time.monotonic() >= self._due_s or self._made_of != self.in_scope()
        if is_due and not (self.is_frozen and self.report):
            self.anew()
        if self.report is not None:
            self.draw()

    def _draw_anew(self) -> None:
        """Other rows, or another order."""
        self._fitting = None
        self.draw()

    def draw(self) -> None:
        """The rows and the words around them, as they are now."""
        self.table.empty = self._sentence()
        if self.report is not None:
            if self._fitting is None:
                self._fitting = self.fitting()
            self.table.update([self.row(each, self._now_ms) for each in self._fitting[:MOST_ROWS]])
        self._say()
        self.host.show_header()
        self.host.show_keys()

    def _sentence(self) -> str:
        if self._error:
            return f"{safe(self._error)} {keys.key('refresh')} tries again"
        if self.report is None or self._run is not None:
            return "looking …"
        wanted = safe(self._expression)
        return f"nothing matches /{wanted}: {keys.renamed('/ and Esc clear it')}" if wanted else self.why_empty()

    def _say(self) -> None:
        about = safe(self.refs[0].queue) if len(self.refs) == 1 else "all queues"
        if len(self.refs) > 1:
            about = f"{len(self.refs)} queues"
        wanted = [Piece(f"/{safe(self._expression)} ", "accented")] if self._expression else []
        self.table.set_title(
            Piece(f" {self.TITLE_WORD} ", "strong"), Piece(f"of {formats.elide_middle(about, 32)} ", "muted"), *wanted
        )
        words = [Piece("frozen: p ", "accented")] if self.is_frozen else []
        self.table.set_subtitle(Piece(" "), *words, *self.status())

    def _count(self, number: int, width: int = 9) -> str:
        """A number of the report, with `~` where it comes from a sample."""
        return formats.count(number, self.report is None or self.report.size.is_whole, width)

    def status(self) -> list[Piece]:
        """What the frame says below: what the report was made from, and how old it is."""
        if self.report is None:
            return [Piece("looking … ", "accented")] if self._run is not None else []
        size: Size = self._coming.size if self._run and self._coming else self.report.size
        pieces = [Piece(f"{safe(size.problems[0])} · ", "critical")] if size.problems else []
        if self._error:
            pieces.append(Piece(f"{safe(self._error)} · ", "critical"))
        if self._fitting and len(self._fitting) > MOST_ROWS:
            pieces.append(Piece(f"the first {MOST_ROWS} of {formats.count(len(self._fitting))} · ", "warning"))
        pieces += sample_words(size)
        old_ms = self._now_ms - self.report.size.taken_ms
        words = "looking … " if self._run is not None else f"{formats.age(max(0, old_ms))} old, r renews "
        return [*pieces, Piece(words, "muted")]

    def second_line(self, width: int) -> chrome.Sides:
        """What the report comes to, and the sort."""
        if self.report is None:
            return super().second_line(width)
        left = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in self.summary()))
        return chrome.first_that_fits(sides(left, self.sort, bool(self.refs)), width)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """The next sort."""
        self.sort_by_the_next()

    def sorted_anew(self) -> None:
        """Another order."""
        self._draw_anew()

    def filtered(self, expression: str) -> None:
        """Shows the rows that fit; the grammar is that of jobs."""
        self.accepts, self._expression = filters.parse(expression), expression
        self._draw_anew()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Other keys may apply to another row."""
        self.host.show_keys()


def sides(left: Content, sort: str, is_narrow: bool) -> Iterator[chrome.Sides]:
    """A second line with the keys of the view, as many as have room."""
    sorted_by = chrome.hint(keys.key("sort"), f"sort: {sort}")
    if is_narrow:
        yield left, Content("   ").join([chrome.hint(keys.key("widen"), "all queues"), sorted_by])
    yield left, sorted_by
    yield left, Content()


def sample_words(size: Size) -> list[Piece]:
    """`a sample: 5 000 of 12 431 · `, where not everything was looked at."""
    pieces = []
    if size.looked < size.of:
        numbers = f"{formats.count(size.looked, width=9)} of {formats.count(size.of, width=9)}"
        pieces.append(Piece(f"a sample: {numbers} · ", "warning"))
    if size.queues < size.of_queues:
        pieces.append(Piece(f"{size.queues} of {formats.count(size.of_queues, width=9)} queues · ", "warning"))
    return pieces
