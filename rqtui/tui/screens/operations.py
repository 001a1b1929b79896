"""Operations: every change made here, the newest first, with its answers and whether it can be undone.

Below those of this session stand what others did to the same Redis from this machine. Enter shows ids and answers, `z`
takes the one under the cursor back, `s` writes all of this session into files for the post-mortem.
"""

from __future__ import annotations

from collections import Counter

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize

from rqtui.engine.ticker import Answered
from rqtui.model import Ref, Snapshot
from rqtui.operations import journal as operations
from rqtui.operations.journal import Operation
from rqtui.text import formats
from rqtui.text.names import twins
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text import LongText

COLUMNS = (
    Column("time", "time", 8, style="muted"),
    Column("verb", "what", 10),
    Column("queue", "queue", 10, weight=1, style="strong"),
    Column("jobs", "jobs", 7, align="right"),
    Column("answers", "answers", 16, weight=3, drop=2),
    Column("undo", "undo", 13, drop=1),
)
_EMPTY = "no change was made here yet; your changes appear here, and z undoes them"


class Operations(View):
    """The journal."""

    NAME = "operations"
    HAS_OPERATIONS = True
    FILTER_HINT = "verb, queue, id or answer"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._refs = refs
        self._earlier: list[Operation] = []
        self._shown: dict[str, Operation] = {}
        self._drawn: tuple[list[Operation], frozenset[str]] | None = None
        self._twins: frozenset[str] = frozenset()  # names that queues of several systems have

    def compose_view(self) -> ComposeResult:
        """The table."""
        yield Table(
            COLUMNS,
            empty=keys.renamed(_EMPTY),
            id="operations",
            has_marks=False,
            ascii_only=self.session.settings.is_ascii,
        )
        yield LongText(id="operation", classes="pane")

    def on_mount(self) -> None:
        """The keys go to the table; what other sessions did is read once."""
        self.session.ask(lambda _engine: self.session.journal.earlier(), self._read)
        self._table.focus()
        self._draw()

    def _read(self, answered: Answered) -> None:
        self._earlier = answered.result or []
        if self.is_drawn:
            self._draw()

    @property
    def _table(self) -> Table:
        return self.query_one("#operations", Table)

    def show(self, snapshot: Snapshot) -> None:
        """Draws what was done since."""
        if not self.is_frozen:
            self._draw()

    def acted(self, ids: object) -> None:
        """Something was changed."""
        self._draw()

    def _draw(self) -> None:
        mine = self.session.journal.operations
        known = [*mine, *self._earlier]
        both = twins([*self.session.refs, *(Ref(each.layout, each.queue) for each in known)])
        if (known, both) == self._drawn:
            return
        self._drawn, self._twins = (known, both), both
        words = self.filter_text.casefold().split()
        found = [each for each in known if all(word in _haystack(each) for word in words)]
        self._shown = {f"{each.at_ms}-{number}": each for number, each in enumerate(reversed(found))}
        here = {id(each) for each in mine}
        rows = [_row(key, each, id(each) in here, self._where(each)) for key, each in reversed(self._shown.items())]
        self.fit_table(self._table, len(known))
        self._table.update(rows)
        self._say(mine)
        self._show_operation()

    def on_resize(self, _event: Resize) -> None:
        """As many rows as there is room for."""
        self.fit_table(self._table, len(self._drawn[0]) if self._drawn else 0)

    def _show_operation(self) -> None:
        """Where there is room below: ids and answers of the one under the cursor."""
        pane, operation = self.query_one("#operation", LongText), self.picked()
        if operation is None:
            pane.border_title = Content(" ids and answers ")
            pane.show(Content.styled("the change under the cursor is shown here", "$muted"))
            return
        title = f" {safe(self._where(operation))} " if operation.where else " "
        pane.border_title = Content.assemble((f" {safe(operation.verb)}", "b $strong"), (title, "$muted"))
        pane.show(page(operation))

    def _where(self, operation: Operation) -> str:
        """Its queue, with its system where queues of several systems have that name."""
        return operation.where_in_full if operation.queue in self._twins else operation.where

    def on_table_moved(self, _event: Table.Moved) -> None:
        """The one below is another, and so may be what the keys do."""
        self._show_operation()
        self.host.show_keys()

    def _say(self, mine: list[Operation]) -> None:
        frozen = [Piece(" the rows stand still: p goes on ", "accented")] if self.is_frozen else []
        self._table.set_title(Piece(" operations ", "strong"), *frozen)
        counted = Counter(each.verb for each in mine).most_common(4)
        summed = "   ".join(f"{safe(verb)} {formats.count(number)}" for verb, number in counted)
        self._table.set_subtitle(*([Piece(f" {summed} ", "muted")] if summed else []))

    def second_line(self, width: int) -> chrome.Sides:
        """How many changes there were, and who is making them."""
        journal = self.session.journal
        made = journal.operations
        able = sum(bool(each.undo) and not each.undone_at_ms for each in made)
        of = formats.numbered(len(made), "change")
        undo = f"{formats.count(able, width=9)} can be undone" if able else "nothing to undo"
        words = f"{of} in this session · {undo}"
        problem = journal.problem
        right = Content.styled(safe(problem), "$state-dead") if problem else Content.styled(safe(journal.who), "$muted")
        return Content.styled(words, "$muted"), right

    def scope(self) -> tuple[Ref, ...]:
        """The queues that one came from."""
        return self._refs

    def target(self) -> Target:
        """No verb acts here; `z` does."""
        return Target()

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self._table.dimmed = is_dim

    def filtered(self, expression: str) -> None:
        """Only operations in which every word stands."""
        self.filter_text = expression
        self._drawn = None
        self._table.another_list()
        self._draw()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def picked(self) -> Operation | None:
        """The operation under the cursor."""
        return self._shown.get(str(self._table.cursor_id))

    def action_save(self) -> None:
        """Writes the journal of this session into files."""
        self.host.export_operations()

    def on_table_opened(self, event: Table.Opened) -> None:
        """All ids and answers of one."""
        from rqtui.tui.widgets.dialogs import Pages

        operation = self._shown.get(str(event.id))
        if operation is not None:
            title = f"{safe(operation.verb)} {safe(self._where(operation))}".strip()
            self.app.push_screen(Pages(title, page(operation), lambda: page(operation)))


def page(operation: Operation) -> Content:
    """One operation in full."""
    from rqtui.reports.postmortem import circumstances

    lines = [
        ("when", formats.moment(operation.at_ms)),
        ("who", operation.who),
        ("Redis", operation.url + (f" (profile {operation.profile})" if operation.profile else "")),
        ("what", operation.verb),
        ("queue", f"{', '.join([operation.queue, *operation.others])} ({operation.layout})" if operation.queue else ""),
        *circumstances(operation),
        ("undo", operations.undo_word(operation)),
        ("error", operation.error),
    ]
    made = [
        Content.assemble((formats.fit(name, 8), "$muted"), (safe(words), "$strong")) for name, words in lines if words
    ]
    if operation.answers:
        made += [Content(), Content.styled("answers", "$accented")]
        counts = [(formats.count(number, width=9), text) for text, number in operation.answers.items()]
        made += [Content.assemble((f"{number:>9}  ", "$strong"), safe(text)) for number, text in counts]
    if operation.ids:
        of = f" (the first {len(operation.ids)} of {operation.count})" if operation.count > len(operation.ids) else ""
        made += [Content(), Content.styled(f"ids{of}", "$accented")]
        made += [Content("  " + safe(id)) for id in operation.ids]
    return Content("\n").join(made)


def _row(key: str, operation: Operation, is_mine: bool, where: str) -> Row:
    style = "state-dead" if operation.error else "accented" if is_mine else "muted"
    undo = operations.undo_word(operation) if operation.undo else formats.ZERO
    hue = "state-ready" if undo == "can be undone" else "muted"
    cells = (
        formats.clock(operation.at_ms),
        Piece(safe(operation.verb), style),
        safe(where),
        formats.count(operation.count),
        safe(operation.words()),
        Piece(undo, hue),
    )
    return Row(key, cells, style="" if is_mine else "muted")


def _haystack(operation: Operation) -> str:
    ids = " ".join(id.decode("utf-8", "replace") for id in operation.ids)
    queues = " ".join([operation.queue, *operation.others])
    return f"{operation.verb} {queues} {operation.layout} {operation.words()} {ids}".casefold()
