"""The overview: every queue a row."""

from __future__ import annotations

from textual.app import ComposeResult

from rqtui.model import Focus, Queue, Rate, Ref, Snapshot
from rqtui.tui import queues
from rqtui.tui.rows import Piece
from rqtui.tui.table import Table
from rqtui.tui.view import Target, View

AT_ONCE = 100  # queues counted per tick; of more, those in sight and some of the others in turn
IN_TURN = 40


class Overview(View):
    """All queues of this Redis."""

    NAME = "overview"

    def __init__(self) -> None:
        super().__init__()
        self.sort = queues.SORTS[0]
        self._known: dict[Ref, Queue] = {}
        self._rates: dict[Ref, Rate] = {}
        self._order: list[Ref] = []
        self._turn = 0

    def compose_view(self) -> ComposeResult:
        """One table."""
        yield Table(queues.COLUMNS, empty="no queues yet: N adds a job, or point rqtui at another Redis", id="queues")

    def on_mount(self) -> None:
        """The keys go to the table."""
        self._table.set_title(Piece(" queues ", "strong"))
        self._table.focus()

    @property
    def _table(self) -> Table:
        return self.query_one("#queues", Table)

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """All queues while they are few; else those in sight and, in turn, some of the others."""
        if len(refs) <= AT_ONCE:
            return Focus(tuple(refs))
        first, last = self._table.in_sight
        seen = [ref for ref in self._order[first:last] if ref in refs]
        rest = [ref for ref in refs if ref not in seen]
        turn = [rest[(self._turn + step) % len(rest)] for step in range(min(IN_TURN, len(rest)))] if rest else []
        return Focus(tuple(dict.fromkeys([*seen, *turn])))

    def show(self, snapshot: Snapshot) -> None:
        """Draws what is known of every queue, in the order of the sort."""
        self._turn += IN_TURN
        refs = self.cockpit.refs
        counted = {Ref(queue.layout, queue.name): queue for queue in snapshot.queues}
        self._known = {ref: queue for ref, queue in {**self._known, **counted}.items() if ref in refs}
        self._rates.update(snapshot.rates)
        if not self.is_frozen:
            self._order = sorted(refs, key=lambda ref: queues.sort_key(self.sort, ref, self._known.get(ref)))
        self._draw()

    def _draw(self) -> None:
        rows = [queues.row(ref, self._known.get(ref), self._rates.get(ref)) for ref in self._order]
        self._table.update(rows)
        self._table.set_subtitle(
            Piece(
                f" {len(self._order)} queues · s sort: {self.sort}{' · frozen: p' if self.is_frozen else ''} ", "muted"
            )
        )

    def ref(self) -> Ref | None:
        """The queue under the cursor."""
        wanted = self._table.cursor_id
        return next((ref for ref in self._order if str(ref) == wanted), None)

    def target(self) -> Target:
        """The queue under the cursor, for the verbs on queues."""
        ref = self.ref()
        return Target(ref, queue=self._known.get(ref) if ref else None)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self._table.dimmed = is_dim

    def totals(self) -> tuple[float, float, float]:
        """In, out and failed per second, over all queues."""
        rates = [self._rates[ref] for ref in self._known if ref in self._rates]
        return sum(r.in_s for r in rates), sum(r.out_s for r in rates), sum(r.failed_s for r in rates)

    def action_sort(self) -> None:
        """The next sort."""
        self.sort = queues.SORTS[(queues.SORTS.index(self.sort) + 1) % len(queues.SORTS)]
        self._order.sort(key=lambda ref: queues.sort_key(self.sort, ref, self._known.get(ref)))
        self._draw()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the board."""
        ref = self.ref()
        if ref:
            self.cockpit.open_board(ref)

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Other keys may apply to another queue."""
        self.app_keys_changed()
