"""The overview: every queue a row, and below them, where there is room, what happened lately."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.model import Focus, Queue, Rate, Ref, Snapshot
from rqtui.tui import chrome, happened, queues
from rqtui.tui.rows import Piece, Row
from rqtui.tui.table import Table
from rqtui.tui.view import Target, View

AT_ONCE = 100  # queues counted per tick; of more, those in sight and some of the others in turn
IN_TURN = 100  # a thousand queues: 3 ms of the server per tick, each counted anew within 20 s
WITH_HAPPENED = 30  # rows of a terminal
HAPPENED = 5  # lines of it


class Overview(View):
    """All queues of this Redis."""

    NAME = "overview"

    def __init__(self) -> None:
        super().__init__()
        self.sort = queues.SORTS[0]
        self._known: dict[Ref, Queue] = {}
        self._rates: dict[Ref, Rate] = {}
        self._order: list[Ref] = []
        self._by_id: dict[str, Ref] = {}
        self._rows: dict[Ref, tuple[object, Row]] = {}
        self._turn = 0
        self._is_narrow = False
        self._text = Content()

    def compose_view(self) -> ComposeResult:
        """The table, and what happened."""
        empty = "no queues yet: N adds a job, or point rqtui at another Redis"
        yield Table(queues.columns(False), empty=empty, id="queues")
        with Static("", id="happened", classes="pane") as pane:
            pane.border_title = Content(" what happened ")

    def on_mount(self) -> None:
        """The keys go to the table; with this view everything begins."""
        self._say()
        self._arrange()
        self._table.focus()
        self.call_next(self.cockpit.connect_soon)

    @property
    def _table(self) -> Table:
        return self.query_one("#queues", Table)

    def on_resize(self, _event: Resize) -> None:
        """Short numbers on a narrow terminal."""
        self._arrange()
        self._draw()

    def _arrange(self) -> None:
        width, height = self.app.size
        if (width < queues.NARROW) != self._is_narrow:
            self._is_narrow = not self._is_narrow
            self._table.set_columns(queues.columns(self._is_narrow))
            self._rows.clear()
        self.query_one("#happened").display = height >= WITH_HAPPENED

    # -- what the app asks --------------------------------------------------------------------------------------------

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """All queues while they are few; else those in sight and, in turn, some of the others."""
        if len(refs) <= AT_ONCE:
            return Focus(tuple(refs))
        known = set(refs)
        first, last = self._table.in_sight
        seen = [ref for ref in self._order[first:last] if ref in known]
        turn = [refs[(self._turn + step) % len(refs)] for step in range(IN_TURN)]
        return Focus(tuple(dict.fromkeys([*seen, *turn])))

    def show(self, snapshot: Snapshot) -> None:
        """Draws what is known of every queue, in the order of the sort."""
        self._arrange()
        refs = self.cockpit.refs
        counted = {Ref(queue.layout, queue.name): queue for queue in snapshot.queues}
        known = {**self._known, **counted}
        self._known = {ref: known[ref] for ref in refs if ref in known}
        self._rates.update(snapshot.rates)
        if not self.is_frozen:
            self._order = sorted(refs, key=self._sort_key)
            self._by_id = {str(ref): ref for ref in self._order}
            self._rows = {ref: self._rows[ref] for ref in self._order if ref in self._rows}
        self._draw()
        if len(refs) > AT_ONCE:  # the next picture is about others
            self._turn = (self._turn + IN_TURN) % len(refs)

    def _sort_key(self, ref: Ref) -> tuple[object, ...]:
        return queues.sort_key(self.sort, ref, self._known.get(ref))

    def _draw(self) -> None:
        self._table.update([self._row(ref) for ref in self._order])
        self._say()
        self.show_happened()

    def _row(self, ref: Ref) -> Row:
        """The line of a queue, made anew only when what it shows is another: there may be a thousand."""
        facts = (self._known.get(ref), self._rates.get(ref))
        made = self._rows.get(ref)
        if made is None or made[0] != facts:
            made = self._rows[ref] = (facts, queues.row(ref, *facts, self._is_narrow))
        return made[1]

    def _say(self) -> None:
        """Of the queue under the cursor: the whole verdict, for where the column cuts it, and its system, likewise."""
        ref = self.ref()
        system = self.cockpit.system_of(ref) if ref and self._is_narrow else ""
        named = [Piece(f"{ref} ", "muted")] if system else []
        self._table.set_title(Piece(" queues ", "strong"), *named)
        queue = self._known.get(ref) if ref else None
        frozen = [Piece(" frozen: p ", "accented")] if self.is_frozen else []
        said = queues.verdict(queue) if queue and queue.findings else ()
        self._table.set_subtitle(*frozen, *([Piece(" "), *said, Piece(" ")] if said else []))

    def show_happened(self) -> None:
        """What the loops and this screen did lately."""
        pane = self.query_one("#happened", Static)
        if not pane.display:
            return
        text = happened.lines(self.cockpit.happened(HAPPENED), pane.content_size.width)
        if not text.is_same(self._text):
            self._text = text
            pane.update(text, layout=False)

    def second_line(self, _width: int) -> chrome.Sides:
        """What all queues do together, and the sort."""
        rates = [self._rates[ref] for ref in self._known if ref in self._rates]
        total = Rate(sum(r.in_s for r in rates), sum(r.out_s for r in rates), sum(r.failed_s for r in rates))
        return chrome.totals_line(len(self.cockpit.refs), total, f"s sort: {self.sort}")

    def ref(self) -> Ref | None:
        """The queue under the cursor."""
        return self._by_id.get(str(self._table.cursor_id))

    def target(self) -> Target:
        """The queue under the cursor, for the verbs on queues."""
        ref = self.ref()
        return Target(ref, queue=self._known.get(ref) if ref else None)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self._table.dimmed = is_dim
        self.query_one("#happened").set_class(is_dim, "-dimmed")

    # -- keys and events ------------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """The next sort."""
        self.sort = queues.SORTS[(queues.SORTS.index(self.sort) + 1) % len(queues.SORTS)]
        self._order.sort(key=self._sort_key)
        self._draw()
        self.cockpit.show_header()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the board."""
        ref = self.ref()
        if ref:
            self.cockpit.open_board(ref)

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Other keys may apply to another queue."""
        self._say()
        self.app_keys_changed()
        if len(self._order) > AT_ONCE:
            self.look_soon()  # others may be in sight now
