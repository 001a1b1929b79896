"""The view of schedules: what is enqueued again and again, when the next time is, who sees to it, and what is wrong.

It rides in the tick: one question to each system that keeps its schedules in Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.layout.layout import Ask
from rqtui.model import Focus, Job, Ref, Schedule, Snapshot, State
from rqtui.reports import schedules
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import shown_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import sides
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table

_ORDERS: dict[str, Callable[[Schedule], tuple[object, ...]]] = {
    "next first": schedules.by_next,
    "trouble first": lambda each: (not each.problem, *schedules.by_next(each)),
    "name": lambda each: (each.name, each.queue),
    "last run": lambda each: (-(each.last_ms or 0), each.name),
}
MOST_ROWS = 500  # drawn at each tick, since their times go on


class Schedules(View):
    """The schedules of some queues; of all of them where none is named."""

    NAME = "schedules"
    FILTER_HINT = "part of a name, a queue, a call or an owner; !term turns it round"
    SORTS = tuple(_ORDERS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "state": "trouble first",
        "name": "name",
        "next": "next first",
        "last": "last run",
    }

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = self._named = refs
        self.sort = self.SORTS[0]
        self._expression, self._accepts = "", filters.parse("")
        self._asks: dict[str, tuple[Ask[Any], ...]] = schedules.asks({})
        self._answers: Sequence[Any] | None = None
        self._found: tuple[Schedule, ...] = ()
        self._problems: tuple[str, ...] = ()
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """The table."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self._columns(), empty="looking …", id="schedules", has_marks=False, ascii_only=is_ascii)

    def on_mount(self) -> None:
        """The keys go to the table."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The schedules."""
        return self.query_one("#schedules", Table)

    def _columns(self) -> Sequence[Column]:
        fit = elision.among(safe(self.session.named(ref)) for ref in self.session.refs)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=3, style="muted", fit=fit),)
        return (
            Column("state", "state", 7),
            Column("name", "schedule", 12, weight=2, style="strong"),
            *queue,
            Column("pattern", "pattern", 12, weight=1),
            Column("next", "next", 6, align="right"),
            Column("last", "last", 6, align="right", style="muted", drop=4),
            Column("call", "call", 16, weight=4, drop=2),
            Column("owner", "whose", 8, weight=1, style="muted", drop=5),
        )

    # -- what the app asks ----------------------------------------------------------------------------------------

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """The schedules of every system that keeps some; by the same question as before, if it would be the same."""
        fresh = schedules.asks(self.session.layouts, {ref.layout for ref in refs})
        if [ask.calls for ask in fresh[schedules.GROUP]] != [ask.calls for ask in self._asks.get(schedules.GROUP, ())]:
            self._asks = fresh
        return Focus(self.refs, asks=self._asks)

    def show(self, snapshot: Snapshot) -> None:
        """The schedules of a new picture."""
        answers = snapshot.answers.get(schedules.GROUP)
        if answers is None:
            return  # a picture that was asked for by the view below
        self._now_ms = snapshot.taken_ms
        if not self.is_frozen or self._answers is None:
            self._answers = answers
        self._draw()

    def _draw(self) -> None:
        if self._answers is None or not self.is_drawn:
            return
        self._found, self._problems = schedules.read(self._answers, self.refs)
        self.table.empty = self._sentence()
        self.table.update([self._row(each) for each in self._shown()[:MOST_ROWS]])
        about = safe(self.refs[0].queue) if len(self.refs) == 1 else f"{len(self.refs) or 'all'} queues"
        wanted = [Piece(f"/{safe(self._expression)} ", "accented")] if self._expression else []
        self.table.set_title(
            Piece(" schedules ", "strong"), Piece(f"of {formats.elide_middle(about, 32)} ", "muted"), *wanted
        )
        self.table.set_subtitle(*self._below())
        self.host.show_header()
        self.host.show_keys()

    def _below(self) -> list[Piece]:
        """What the frame says below: what could not be read, what is wrong with the schedule under the cursor."""
        words = [Piece("frozen: p", "accented")] if self.is_frozen else []
        words += [Piece(safe(self._problems[0]), "critical")] if self._problems else []
        words += [Piece(f"the first {MOST_ROWS}", "warning")] if len(self._found) > MOST_ROWS else []
        each = self.schedule()
        words += [Piece(safe(each.problem), "critical")] if each is not None and each.problem else []
        pieces = [piece for word in words for piece in (Piece(" · ", "muted"), word)][1:]
        return [Piece(" "), *pieces, Piece(" ")] if pieces else []

    def _sentence(self) -> str:
        if self._expression and self._found:
            return f"no schedule matches /{safe(self._expression)}: {keys.renamed('/ and Esc clear it')}"
        if self.refs and any(schedules.keeps(self.session.layouts[ref.layout]) for ref in self.refs):
            return f"nothing is enqueued there again and again: {keys.key('widen')} looks at all queues"
        return schedules.nowhere(ref.layout for ref in self.session.refs)

    def _shown(self) -> list[Schedule]:
        return sorted((each for each in self._found if self._accepts(_as_job(each))), key=_ORDERS[self.sort])

    def _row(self, each: Schedule) -> Row:
        named = self.session.named(Ref(each.layout, each.queue))
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (safe(named),)
        hue, word = _standing(each)
        call = Piece(safe(each.problem), "state-dead") if each.problem else shown_value(each.call)
        last = formats.ZERO if each.last_ms is None else formats.age(max(0, self._now_ms - each.last_ms))
        cells: tuple[Cell, ...] = (
            (Piece("● ", hue), Piece(word, hue if each.problem else "")),
            safe(each.name),
            *queue,
            safe(each.pattern),
            _next(each, self._now_ms),
            last,
            call or Piece(formats.ZERO, "muted"),
            safe(each.owner) or formats.ZERO,
        )
        return Row(_id(each), cells)

    def second_line(self, width: int) -> chrome.Sides:
        """How many schedules there are, and how many of them are off or wrong."""
        wrong = sum(bool(each.problem) for each in self._found)
        off = sum(not each.enabled for each in self._found)
        left = Content.assemble(
            (formats.numbered(len(self._found), "schedule", 7), "b $strong"),
            ("   off ", "$muted"),
            (formats.count(off), "$data"),
            ("   wrong ", "$muted"),
            (formats.count(wrong), "$state-dead" if wrong else "$data"),
        )
        return chrome.first_that_fits(sides(left, self.sort, bool(self.refs)), width)

    def schedule(self) -> Schedule | None:
        """The one under the cursor."""
        wanted = self.table.cursor_id
        return next((each for each in self._found if _id(each) == wanted), None)

    def target(self) -> Target:
        """The queue of the schedule under the cursor."""
        each = self.schedule()
        ref = Ref(each.layout, each.queue) if each else self.refs[0] if len(self.refs) == 1 else None
        ref = ref if ref in self.session.refs else None
        snapshot = self.session.snapshot
        return Target(ref, queue=snapshot.queue(ref) if ref and snapshot else None)

    def scope(self) -> tuple[Ref, ...]:
        """From one side view to another the queues stay the same."""
        return self.refs

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_widen(self) -> None:
        """All queues instead of those that it was opened with, and back."""
        self.refs = self._named if not self.refs else ()
        self.table.reset()
        self.table.set_columns(self._columns())
        self._draw()
        self.host.look_again()

    def action_sort(self) -> None:
        """The next sort."""
        self.sort_by_the_next()

    def sorted_anew(self) -> None:
        """Another order."""
        self._draw()

    def filtered(self, expression: str) -> None:
        """Shows the schedules that fit; the grammar is that of jobs."""
        self._accepts, self._expression = filters.parse(expression), expression
        self._draw()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """What is wrong with another schedule."""
        self.table.set_subtitle(*self._below())
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the board of its queue."""
        each, ref = self.schedule(), self.target().ref
        if ref is not None:
            self.host.open_board(ref)
        elif each is not None:
            self.host.say(f"There is no queue {safe(each.queue)} yet.")


def _id(each: Schedule) -> str:
    return f"{each.layout}\n{each.queue}\n{each.owner}\n{each.name}\n{each.pattern}\n{each.call}"


def _standing(each: Schedule) -> tuple[str, str]:
    """(hue, word) for how it stands with a schedule."""
    if each.problem:
        return "state-dead", "wrong"
    return ("state-ready", "on") if each.enabled else ("muted", "off")


def _next(each: Schedule, now_ms: int) -> Cell:
    if each.next_ms is None:
        return Piece(formats.ZERO, "muted")
    left_ms = each.next_ms - now_ms
    return Piece(formats.age(left_ms), "state-dead" if left_ms < 0 else "")


def _as_job(each: Schedule) -> Job:
    """What the filter looks at."""
    words = to_bytes(f"{each.queue} {each.pattern}")
    state = State.SCHEDULED
    return Job(
        b"", "", "", "", state, b"", name=each.name, call=each.call, error=each.problem, worker=each.owner, body=words
    )
