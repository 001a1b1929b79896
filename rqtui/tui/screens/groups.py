"""Show who fills a place: its jobs by kind, by a field of their bodies, by worker, host, error or age.

The board opens this view for the place in focus. `[` and `]` switch the field. Enter opens the board with the jobs of
the group under the cursor, where they can be marked and changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.model import Job, Ref, State
from rqtui.reports import groups
from rqtui.reports.groups import Group
from rqtui.reports.groups import Groups as Report
from rqtui.text import formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
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

_SORT_KEYS: dict[str, Callable[[Group], float]] = {
    "jobs": lambda group: -group.jobs,
    "value": lambda group: 0,
    "oldest": lambda group: -(-1 if group.oldest_ms is None else group.oldest_ms),
    "done": lambda group: -(-1 if group.done_per_s is None else group.done_per_s),
}
BAR_CELLS = 16
MAX_FIELDS = 24  # body fields that the keys switch between, the most frequent ones


class Groups(ReportView):
    """The view of the groups of the jobs in one place. `expression` is the filter of the board."""

    NAME = "groups"
    DETAILS = "#acts"
    DEFAULT_CSS: ClassVar[str] = "Groups #acts { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    FILTER_HINT = "part of a value; !term excludes"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {"jobs": "jobs", "value": "value", "oldest": "oldest", "done": "done"}
    TITLE_WORD = "groups"
    report: Report | None = None

    def __init__(self, ref: Ref, place: str, expression: str = "") -> None:
        super().__init__((ref,))
        self.ref, self.place, self._board_filter = ref, place, expression
        self._fields: tuple[str, ...] = ("kind", "worker", "error", "age")
        self.by = self._fields[0]

    def set_body_paths(self, paths: Sequence[str]) -> None:
        """Add the fields of the bodies to the fields between which the keys switch, right after the kind."""
        host = ["host"] * ("host" in self._fields)
        fields = ["kind", *(f".{path}" for path in paths[:MAX_FIELDS]), "worker", *host, "error", "age", self.by]
        self._fields = tuple(dict.fromkeys(fields))

    def apply_report(self) -> None:
        """Add the host to the fields between which the keys switch, right after the worker, if one is known."""
        if self.report is not None and self.report.has_hosts and "host" not in self._fields:
            after = self._fields.index("worker") + 1
            self._fields = (*self._fields[:after], "host", *self._fields[after:])

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of groups."""
        return (
            Column("value", safe(self.by), 16, weight=6, style="strong"),
            Column("jobs", "jobs", 6, align="right"),
            Column("place", "in place", 8, align="right", drop=3, style="muted"),
            Column("share", "share", 5, align="right"),
            Column("bar", "", BAR_CELLS, drop=4),
            Column("oldest", "oldest", 6, align="right", drop=2, style="muted"),
            Column("done", "done/s", 7, align="right", drop=1, style="muted"),
        )

    def build_report(self, engine: Engine) -> Iterator[Report | None]:
        """Read a sample of the jobs of the place, grouped by the current field."""
        return groups.yield_group_reports(engine, self.ref, self.place, self.by, self._board_filter)

    def list_matching_items(self) -> list[Group]:
        """Return the groups that match the filter, in the current sort order."""
        all_groups = self.report.groups if self.report else ()
        matching = [group for group in all_groups if self.accepts(_convert_group_to_job(group))]
        if self.by == "age" and self.sort == "jobs":
            return matching  # ages have an order of their own
        sort_key = _SORT_KEYS[self.sort]
        return sorted(matching, key=lambda group: (sort_key(group), group.value is None, group.value or ""))

    def build_row(self, group: Group, _now_ms: int) -> Row:
        """Return the table row of a group."""
        report = self.report
        matched = report.matched if report else 0
        estimate = report.estimate_jobs(group) if report else group.jobs
        is_exact = report is None or report.size.looked >= report.size.of
        bar = "━" * max(1, BAR_CELLS * group.jobs // max(1, matched))
        cells: tuple[Cell, ...] = (
            _name_group(group),
            formats.format_count(group.jobs, width=6),
            formats.format_count(estimate, is_exact, width=8),
            formats.format_share(group.jobs, matched),
            Piece(bar, "accented"),
            formats.UNKNOWN if group.oldest_ms is None else formats.format_age(group.oldest_ms),
            formats.format_rate(group.done_per_s),
        )
        return Row(_build_key(group), cells)

    def explain_empty_report(self) -> str:
        """Return the sentence shown for a place without jobs."""
        if self._board_filter:
            return f"no job of {self.place} matches /{format_field_value(self._board_filter)}"
        return f"no job is in {self.place}"

    def build_summary(self) -> Sequence[Piece]:
        """Return the number of groups and jobs, and what the rates cover, for the header."""
        report = self.report
        if report is None:
            return ()
        rates = f"   done/s {formats.format_time_windows([report.done_ms])}" if report.done_ms else ""
        rates = f"   done/s unknown: {safe(report.rate_problem)}" if report.rate_problem else rates
        how = "" if report.is_random or report.size.looked >= report.size.of else "   from the start of the place"
        return (
            Piece(formats.format_quantity(len(report.groups), "group"), "strong"),
            Piece(f" by {safe(self.by)}", "accented"),
            Piece("   jobs ", "muted"),
            Piece(formats.format_long_count(report.matched)),
            Piece(f"{how}{rates}", "muted"),
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the totals of the report, the keys that switch the field, and the sort order, as far as they fit."""
        if self.report is None:
            return Content(), Content()
        pieces = self.build_summary()
        summary = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in pieces))
        short = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in pieces[:-1]))
        field_keys = f"{keys.find_current_key('field_before')} {keys.find_current_key('field_after')}"
        field_hint = frame.format_key_hint(field_keys, "other field")
        sort_hint = frame.format_key_hint(keys.find_current_key("sort"), f"sort: {self.sort}")
        hints = Content("   ").join([field_hint, sort_hint])
        candidates = [(summary, hints), (summary, field_hint), (short, hints), (short, field_hint), (short, Content())]
        return frame.choose_first_fitting(candidates, width)

    def _update_frame(self) -> None:
        super()._update_frame()
        filter_pieces = [Piece(f"/{format_field_value(self._expression)} ", "accented")] if self._expression else []
        board_filter = f"with {format_field_value(self._board_filter)} " if self._board_filter else ""
        self.table.set_border_title(
            Piece(f" {safe(self.place)} ", "strong"),
            Piece(f"of {formats.elide_middle(safe(self.ref.queue), 32)} {board_filter}by ", "muted"),
            Piece(f"{safe(self.by)} ", "accented"),
            *filter_pieces,
        )

    def action_field(self, step: int) -> None:
        """Group the jobs by the next field, or by the one before."""
        position = self._fields.index(self.by) + step
        self.group_by(self._fields[position % len(self._fields)])

    def group_by(self, by: str) -> None:
        """Group the jobs by a field: one of `attributes.GROUP_FIELDS`, or a path that begins with a dot."""
        self.by = by
        if by not in self._fields:
            self._fields = (*self._fields, by)
        self._start_report_over()

    # -- the group under the cursor -------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of groups and, below it, the pane about acting on one of them."""
        yield from super().compose_view()
        yield LongText(id="acts", classes="pane")

    def draw(self) -> None:
        """Redraw the rows and the text about the group under the cursor."""
        self.fit_table_height(self.table, self.count_rows())
        super().draw()
        self._show_details()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the text about the group to which the cursor moved."""
        super().on_table_moved(event)
        self._show_details()

    def _show_details(self) -> None:
        pane, group = self.query_one("#acts", LongText), self._find_selected_group()
        if not self.has_preview:
            return
        pane.border_title = Content(" the group under the cursor ")
        lines = [] if group is None or self.report is None else list(self._yield_details(self.report, group))
        width = self.measure_details_width(pane)
        wrapped = (line for text in lines for line in formats.wrap_to_width(text, width))
        pane.show_text(Content("\n").join(Content.styled(line, "$data") for line in wrapped))

    def _yield_details(self, report: Report, group: Group) -> Iterator[str]:
        """Yield the sentences about a group: its share, how to open it, and the command for a shell."""
        jobs, read = (formats.format_long_count(number) for number in (group.jobs, report.matched))
        kind = "matching jobs" if self._board_filter else "jobs"
        yield f"{jobs} of {read} {kind} that were read are in this group."
        if not group.filter_text:
            yield f"No filter selects them: {group.problem}."
            return
        yield keys.apply_keymap("Enter shows them on the board: there * marks all of them, and the verbs change them.")
        engine = self.session.engine
        if engine is not None and (command := report.build_dry_run_command(group, engine.format_argument(self.ref))):
            yield f"In a shell, without changing anything yet: {safe(command)}"

    def _find_selected_group(self) -> Group | None:
        all_groups = self.report.groups if self.report else ()
        return next((group for group in all_groups if _build_key(group) == self.table.cursor_id), None)

    def build_target(self) -> Target:
        """Return the queue as the target of a verb."""
        snapshot = self.session.snapshot
        return Target(self.ref, queue=snapshot.find_queue(self.ref) if snapshot else None)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the board with the jobs of the group under the cursor."""
        group = self._find_selected_group()
        if group is None:
            return
        if not group.filter_text:
            self.host.show_toast(f"the board cannot show this group: {group.problem}.", "warning")
            return
        self.host.open_board(self.ref)
        self.app.call_after_refresh(self._filter_opened_board, group)

    def _filter_opened_board(self, group: Group) -> None:
        view = find_top_view(self.app.screen_stack)
        if view is not None:
            view.go_to_place(group.place)
            view.confirm_filter(group.filter_text)


def _build_key(group: Group) -> str:
    return f"{group.is_unknown}{group.value is None}{group.value}"


def _name_group(group: Group) -> Cell:
    if group.value:
        return format_field_value(group.value)
    if group.value is None:
        return Piece("(unknown)" if group.is_unknown else "(none)", "muted")
    return Piece("(empty)", "muted")


def _convert_group_to_job(group: Group) -> Job:
    """Build a job with the searchable text of a group, because filters work on jobs."""
    text = group.value or ""
    return Job(to_bytes(text), "", "", "", State.READY, b"", name=text, body=to_bytes(text))
