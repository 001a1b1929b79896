"""Show the operations: every change made here, newest first, with its outcomes and whether it can be undone.

Changes by other sessions of this machine on the same Redis follow below. Enter shows ids and outcomes, `z` undoes the
operation under the cursor, and `s` writes the operations of this session to files for a post-mortem.
"""

from __future__ import annotations

from collections import Counter

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize

from rqtui.engine.ticker import CallFinished
from rqtui.model import Ref, Snapshot
from rqtui.operations import journal as operations
from rqtui.operations.journal import Operation
from rqtui.text import formats
from rqtui.text.names import find_duplicate_names
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

COLUMNS = (
    Column("time", "time", 8, style="muted"),
    Column("verb", "what", 10),
    Column("queue", "queue", 10, weight=1, style="strong"),
    Column("jobs", "jobs", 7, align="right"),
    Column("answers", "answers", 16, weight=3, drop=2),
    Column("undo", "undo", 13, drop=1),
)
_NOT_RECORDED = "no change was recorded until this moment"
_EMPTY = "no change was made here yet; your changes appear here, and z undoes them"


class Operations(View):
    """The view of the changes recorded in the journal, one row per operation."""

    NAME = "operations"
    DETAILS = "#operation"
    HAS_OPERATIONS = True
    FILTER_HINT = "verb, queue, id or answer"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._refs = refs
        self._earlier_operations: list[Operation] = []
        self._operations_by_row: dict[str, Operation] = {}
        self._drawn_inputs: tuple[list[Operation], frozenset[str]] | None = None
        self._ambiguous_names: frozenset[str] = frozenset()  # names used by queues of more than one system

    def compose_view(self) -> ComposeResult:
        """Create the table of operations, and a pane with the details of the operation under the cursor."""
        yield Table(
            COLUMNS,
            empty=_NOT_RECORDED if self.session.is_replay else keys.apply_keymap(_EMPTY),
            id="operations",
            has_marks=False,
            ascii_only=self.session.settings.is_ascii,
        )
        yield LongText(id="operation", classes="pane")

    def on_mount(self) -> None:
        """Focus the table of operations, and read the operations of other sessions once."""
        self.session.call_engine(
            lambda _engine: self.session.journal.load_earlier_operations(), self._store_earlier_operations
        )
        self._table.focus()
        self._draw_operations()

    def _store_earlier_operations(self, message: CallFinished) -> None:
        self._earlier_operations = message.result or []
        if self.is_drawn:
            self._draw_operations()

    @property
    def _table(self) -> Table:
        return self.query_one("#operations", Table)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the operations at a new snapshot, unless the rows are frozen."""
        if not self.is_frozen:
            self._draw_operations()

    def handle_acted_jobs(self, ids: object) -> None:
        """Redraw the operations after a verb changed jobs."""
        self._draw_operations()

    def _draw_operations(self) -> None:
        own_operations = self.session.journal.operations
        all_operations = [*own_operations, *self._earlier_operations]
        ambiguous_names = find_duplicate_names(
            [*self.session.refs, *(Ref(operation.system, operation.queue) for operation in all_operations)]
        )
        if (all_operations, ambiguous_names) == self._drawn_inputs:
            return
        self._drawn_inputs, self._ambiguous_names = (all_operations, ambiguous_names), ambiguous_names
        search_words = self.filter_text.casefold().split()
        matching = [
            operation
            for operation in all_operations
            if all(word in _build_operation_search_text(operation) for word in search_words)
        ]
        self._operations_by_row = {
            f"{operation.at_ms}-{number}": operation for number, operation in enumerate(reversed(matching))
        }
        own_ids = {id(operation) for operation in own_operations}
        rows = [
            _build_operation_row(key, operation, id(operation) in own_ids, self._format_queue_of_operation(operation))
            for key, operation in reversed(self._operations_by_row.items())
        ]
        self.fit_table_height(self._table, len(matching))
        if self.session.is_replay:
            self._table.expect_similar_list()  # A change of another moment must not stay under the cursor.
        self._table.update(rows)
        self._update_frame(own_operations)
        self._show_operation_details()

    def on_resize(self, _event: Resize) -> None:
        """Fit the height of the table of operations to the terminal."""
        self.fit_table_height(self._table, len(self._operations_by_row))

    def _show_operation_details(self) -> None:
        """Show ids and outcomes of the operation under the cursor."""
        pane, operation = self.query_one("#operation", LongText), self.find_selected_operation()
        if operation is None:
            pane.border_title = Content(" ids and answers ")
            pane.show_text(Content.styled("the change under the cursor is shown here", "$muted"))
            return
        title = f" {safe(self._format_queue_of_operation(operation))} " if operation.queue_label else " "
        pane.border_title = Content.assemble((f" {safe(operation.verb)}", "b $strong"), (title, "$muted"))
        pane.show_text(format_operation(operation))

    def _format_queue_of_operation(self, operation: Operation) -> str:
        """Return an operation's queue, with its system if queues of several systems share that name."""
        return operation.full_queue_label if operation.queue in self._ambiguous_names else operation.queue_label

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Show the details of the operation to which the cursor moved, and update the footer."""
        self._show_operation_details()
        self.host.show_keys()

    def _update_frame(self, own_operations: list[Operation]) -> None:
        frozen_pieces = [Piece(" frozen: p continues ", "accented")] if self.is_frozen else []
        self._table.set_border_title(Piece(" operations ", "strong"), *frozen_pieces)
        verb_counts = Counter(operation.verb for operation in own_operations).most_common(4)
        verb_text = "   ".join(f"{safe(verb)} {formats.format_count(number)}" for verb, number in verb_counts)
        self._table.set_subtitle(*([Piece(f" {verb_text} ", "muted")] if verb_text else []))

    def build_second_line(self, width: int) -> frame.Sides:
        """Return for the header the number of changes, how many can be undone, and the journal's user or its error."""
        journal = self.session.journal
        own_operations = journal.operations
        if self.session.is_replay:
            count = formats.format_quantity(len(own_operations), "change")
            return Content.styled(f"{count} recorded until this moment", "$muted"), Content()
        undoable = sum(bool(operation.undo) and not operation.undone_at_ms for operation in own_operations)
        change_count = formats.format_quantity(len(own_operations), "change")
        undo_text = f"{formats.format_long_count(undoable)} can be undone" if undoable else "nothing to undo"
        text = f"{change_count} in this session · {undo_text}"
        problem = journal.problem
        right = Content.styled(safe(problem), "$state-dead") if problem else Content.styled(safe(journal.who), "$muted")
        return Content.styled(text, "$muted"), right

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues of the view from which the list of operations was opened."""
        return self._refs

    def build_target(self) -> Target:
        """Return an empty target: no verb acts on operations, only undo."""
        return Target()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of operations while the connection is lost, or restore it."""
        self._table.dimmed = is_dim

    def apply_filter(self, expression: str) -> None:
        """Show only the operations that contain every word of the filter expression."""
        self.filter_text = expression
        self._drawn_inputs = None
        self._table.expect_similar_list()
        self._draw_operations()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def find_selected_operation(self) -> Operation | None:
        """Return the operation under the cursor, or None without rows."""
        return self._operations_by_row.get(str(self._table.cursor_id))

    def action_save(self) -> None:
        """Write a report of this session's operations to files."""
        self.host.export_operations()

    def on_table_opened(self, event: Table.Opened) -> None:
        """Show all ids and outcomes of the selected operation in a dialog."""
        from rqtui.tui.widgets.text_dialog import Pages

        operation = self._operations_by_row.get(str(event.id))
        if operation is not None:
            title = f"{safe(operation.verb)} {safe(self._format_queue_of_operation(operation))}".strip()
            self.app.push_screen(Pages(title, format_operation(operation), lambda: format_operation(operation)))


def format_operation(operation: Operation) -> Content:
    """Format an operation of the journal with all of its details, outcomes and ids."""
    from rqtui.reports.postmortem import list_circumstances

    lines = [
        ("when", formats.format_date_and_time(operation.at_ms)),
        ("who", operation.who),
        ("Redis", operation.url + (f" (profile {operation.profile})" if operation.profile else "")),
        ("what", operation.verb),
        ("queue", _format_operation_queues(operation)),
        *list_circumstances(operation),
        ("undo", operations.describe_undo(operation)),
        ("error", operation.error),
    ]
    contents = [
        Content.assemble((formats.fit_to_width(name, 8), "$muted"), (safe(text), "$strong"))
        for name, text in lines
        if text
    ]
    if operation.answers:
        contents += [Content(), Content.styled("answers", "$accented")]
        outcome_counts = [(formats.format_long_count(number), text) for text, number in operation.answers.items()]
        contents += [Content.assemble((f"{number:>9}  ", "$strong"), safe(text)) for number, text in outcome_counts]
    if operation.ids:
        note = f" (the first {len(operation.ids)} of {operation.count})" if operation.count > len(operation.ids) else ""
        contents += [Content(), Content.styled(f"ids{note}", "$accented")]
        contents += [Content("  " + safe(job_id)) for job_id in operation.ids]
    return Content("\n").join(contents)


def _format_operation_queues(operation: Operation) -> str:
    """Format all queues of an operation: `mail, bulk (rq)`, or with several systems `rq:mail, bullmq:mail`."""
    if operation.is_of_several_systems:
        return ", ".join(f"{ref.system}:{ref.queue}" for ref in operation.refs)
    return f"{', '.join(ref.queue for ref in operation.refs)} ({operation.system})" if operation.queue else ""


def _build_operation_row(key: str, operation: Operation, is_own: bool, queue_name: str) -> Row:
    style = "state-dead" if operation.error else "accented" if is_own else "muted"
    undo_text = operations.describe_undo(operation) if operation.undo else formats.NONE
    hue = "state-ready" if undo_text == "can be undone" else "muted"
    cells = (
        formats.format_clock(operation.at_ms),
        Piece(safe(operation.verb), style),
        safe(queue_name),
        formats.format_count(operation.count),
        safe(operation.describe_outcomes()),
        Piece(undo_text, hue),
    )
    return Row(key, cells, style="" if is_own else "muted")


def _build_operation_search_text(operation: Operation) -> str:
    ids = " ".join(job_id.decode("utf-8", "replace") for job_id in operation.ids)
    queues = " ".join([*(ref.queue for ref in operation.refs), *operation.systems])
    return f"{operation.verb} {queues} {operation.describe_outcomes()} {ids}".casefold()
