"""Show the schedules: what is enqueued repeatedly, when it runs next, which process enqueues it, and its errors.

The data comes with each refresh: one request to each system that stores its schedules in Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.model import Focus, Job, Ref, Schedule, Snapshot, State
from rqtui.reports import schedules
from rqtui.system_base.system import Request
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import yield_second_line_variants
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.table import Table

_SORT_KEYS: dict[str, Callable[[Schedule], tuple[object, ...]]] = {
    "next first": schedules.compute_schedule_sort_key,
    "trouble first": lambda schedule: (not schedule.problem, *schedules.compute_schedule_sort_key(schedule)),
    "name": lambda schedule: (schedule.name, schedule.queue),
    "last run": lambda schedule: (-(schedule.last_ms or 0), schedule.name),
}
MAX_ROWS = 500  # redrawn at each refresh because rows contain times


class Schedules(View):
    """The view of the schedules of some queues, or of all queues if none is given."""

    NAME = "schedules"
    FILTER_HINT = "part of a name, a queue, a call or an owner; !term excludes"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "state": "trouble first",
        "name": "name",
        "next": "next first",
        "last": "last run",
    }

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = self._initial_refs = refs
        self.sort = self.SORTS[0]
        self._expression, self._matches_filter = "", filters.parse_filter("")
        self._requests: dict[str, tuple[Request[Any], ...]] = schedules.build_schedule_requests({})
        self._replies: Sequence[Any] | None = None
        self._schedules: tuple[Schedule, ...] = ()
        self._problems: tuple[str, ...] = ()
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """Create the table of schedules."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self._build_columns(), empty="reading …", id="schedules", has_marks=False, ascii_only=is_ascii)

    def on_mount(self) -> None:
        """Focus the table of schedules."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of schedules."""
        return self.query_one("#schedules", Table)

    def _build_columns(self) -> Sequence[Column]:
        fit_name = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        queue_columns = (
            () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=3, style="muted", fit=fit_name),)
        )
        return (
            Column("state", "state", 7),
            Column("name", "schedule", 12, weight=2, style="strong"),
            *queue_columns,
            Column("pattern", "pattern", 12, weight=1),
            Column("next", "next", 6, align="right"),
            Column("last", "last", 6, align="right", style="muted", drop=4),
            Column("call", "call", 16, weight=4, drop=2),
            Column("owner", "whose", 8, weight=1, style="muted", drop=5),
        )

    # -- the next refresh -----------------------------------------------------------------------------------------

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh the schedules of every system that stores some.

        Unchanged requests stay the same objects.
        """
        new_requests = schedules.build_schedule_requests(self.session.systems, {ref.system for ref in refs})
        if [request.calls for request in new_requests[schedules.GROUP]] != [
            request.calls for request in self._requests.get(schedules.GROUP, ())
        ]:
            self._requests = new_requests
        return Focus(self.refs, requests=self._requests)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the schedules of a new snapshot."""
        replies = snapshot.results.get(schedules.GROUP)
        if replies is None:
            return  # requested by the view below
        self._now_ms = snapshot.taken_ms
        if not self.is_frozen or self._replies is None:
            self._replies = replies
        self._draw_schedules()

    def _draw_schedules(self) -> None:
        if self._replies is None or not self.is_drawn:
            return
        self._schedules, self._problems = schedules.parse_schedules(self._replies, self.refs)
        self.table.empty = self.explain_empty_table()
        self.table.update(
            [self._build_schedule_row(schedule) for schedule in self._list_matching_schedules()[:MAX_ROWS]]
        )
        only_ref = find_only_queue(self.refs)
        scope_text = safe(only_ref.queue) if only_ref else f"{len(self.refs) or 'all'} queues"
        filter_pieces = [Piece(f"/{format_field_value(self._expression)} ", "accented")] if self._expression else []
        self.table.set_border_title(
            Piece(" schedules ", "strong"),
            Piece(f"of {formats.elide_middle(scope_text, 32)} ", "muted"),
            *filter_pieces,
        )
        self.table.set_subtitle(*self._build_bottom_line())
        self.host.show_header()
        self.host.show_keys()

    def _build_bottom_line(self) -> list[Piece]:
        """Return the bottom line of the frame: read errors, the row limit, and the selected schedule's problem."""
        texts = [Piece("frozen: p", "accented")] if self.is_frozen else []
        texts += [Piece(safe(self._problems[0]), "critical")] if self._problems else []
        texts += [Piece(f"the first {MAX_ROWS}", "warning")] if len(self._schedules) > MAX_ROWS else []
        selected = self.find_selected_schedule()
        texts += (
            [Piece(format_field_value(selected.problem), "critical")]
            if selected is not None and selected.problem
            else []
        )
        pieces = [piece for text in texts for piece in (Piece(" · ", "muted"), text)][1:]
        return [Piece(" "), *pieces, Piece(" ")] if pieces else []

    def explain_empty_table(self) -> str:
        """Return the text that the table shows while it has no rows."""
        if self._expression and self._schedules:
            expression = format_field_value(self._expression)
            return f"no schedule matches /{expression}: {keys.apply_keymap('/ and Esc clear it')}"
        if self.refs and any(schedules.has_schedules(self.session.systems[ref.system]) for ref in self.refs):
            return f"no schedule enqueues into this queue: {keys.find_current_key('widen')} shows all queues"
        return schedules.explain_missing_schedules(ref.system for ref in self.session.refs)

    def _list_matching_schedules(self) -> list[Schedule]:
        return sorted(
            (schedule for schedule in self._schedules if self._matches_filter(_convert_schedule_to_job(schedule))),
            key=_SORT_KEYS[self.sort],
        )

    def _build_schedule_row(self, schedule: Schedule) -> Row:
        queue_name = self.session.format_name(Ref(schedule.system, schedule.queue))
        queue_cells: tuple[Cell, ...] = () if len(self.refs) == 1 else (safe(queue_name),)
        hue, sign, state_word = _format_schedule_state(schedule)
        call = (
            Piece(format_field_value(schedule.problem), "state-dead")
            if schedule.problem
            else format_field_value(schedule.call)
        )
        last = formats.format_age_since(schedule.last_ms, self._now_ms)
        cells: tuple[Cell, ...] = (
            (Piece(f"{sign} ", hue), Piece(state_word, hue if schedule.problem else "")),
            format_field_value(schedule.name),
            *queue_cells,
            safe(schedule.pattern),
            _format_next_run(schedule, self._now_ms),
            last,
            call or Piece(formats.NONE, "muted"),
            format_field_value(schedule.owner) or formats.NONE,
        )
        return Row(_build_schedule_key(schedule), cells)

    def build_second_line(self, width: int) -> frame.Sides:
        """Return for the header the number of schedules, and how many are off or have a problem."""
        problem_count = sum(bool(schedule.problem) for schedule in self._schedules)
        off_count = sum(not schedule.enabled for schedule in self._schedules)
        summary = Content.assemble(
            (formats.format_quantity(len(self._schedules), "schedule"), "b $strong"),
            ("   off ", "$muted"),
            (formats.format_count(off_count), "$data"),
            ("   wrong ", "$muted"),
            (formats.format_count(problem_count), "$state-dead" if problem_count else "$data"),
        )
        return frame.choose_first_fitting(yield_second_line_variants(summary, self.sort, bool(self.refs)), width)

    def find_selected_schedule(self) -> Schedule | None:
        """Return the schedule under the cursor, or None without rows."""
        cursor_id = self.table.cursor_id
        return next((schedule for schedule in self._schedules if _build_schedule_key(schedule) == cursor_id), None)

    def build_target(self) -> Target:
        """Return the queue of the schedule under the cursor as the target of a verb."""
        schedule = self.find_selected_schedule()
        ref = Ref(schedule.system, schedule.queue) if schedule else find_only_queue(self.refs)
        ref = ref if ref in self.session.refs else None
        snapshot = self.session.snapshot
        return Target(ref, queue=snapshot.find_queue(ref) if ref and snapshot else None)

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues of the view of schedules, so that a view opened from here shows the same queues."""
        return self.refs

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of schedules while the connection is lost, or restore it."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_widen(self) -> None:
        """Switch between the schedules of the queues for which the view was opened and those of all queues."""
        self.refs = self._initial_refs if not self.refs else ()
        self.table.clear_rows()
        self.table.set_columns(self._build_columns())
        self._draw_schedules()
        self.host.request_refresh()

    def action_sort(self) -> None:
        """Switch the schedules to the next sort order."""
        self.select_next_sort()

    def redraw_sorted(self) -> None:
        """Redraw the schedules after the sort order changed."""
        self._draw_schedules()

    def apply_filter(self, expression: str) -> None:
        """Show only the schedules that match the expression, in the filter syntax of jobs."""
        self._matches_filter, self._expression = filters.parse_text_filter(expression), expression
        self._draw_schedules()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update the frame and the footer for the schedule to which the cursor moved."""
        self.table.set_subtitle(*self._build_bottom_line())
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the board of the selected schedule's queue, if that queue exists."""
        schedule, ref = self.find_selected_schedule(), self.build_target().ref
        if ref is not None:
            self.host.open_board(ref)
        elif schedule is not None:
            self.host.show_toast(f"There is no queue {safe(schedule.queue)} yet.")


def _build_schedule_key(schedule: Schedule) -> str:
    return (
        f"{schedule.system}\n{schedule.queue}\n{schedule.owner}\n{schedule.name}\n{schedule.pattern}\n{schedule.call}"
    )


def _format_schedule_state(schedule: Schedule) -> tuple[str, str, str]:
    """Return (style, sign, word) for a schedule's state: wrong, on or off."""
    if schedule.problem:
        return "state-dead", formats.SEVERITY_SIGNS["critical"], "wrong"
    return ("state-ready", formats.SEVERITY_SIGNS["ok"], "on") if schedule.enabled else ("muted", "·", "off")


def _format_next_run(schedule: Schedule, now_ms: int) -> Cell:
    if schedule.next_ms is None:
        return Piece(formats.NONE, "muted")
    left_ms = schedule.next_ms - now_ms
    return Piece(formats.format_age(left_ms), "state-dead" if left_ms < 0 else "")


def _convert_schedule_to_job(schedule: Schedule) -> Job:
    """Build a job with the searchable texts of a schedule, because filters work on jobs."""
    search_text = to_bytes(f"{schedule.queue} {schedule.pattern}")
    state = State.SCHEDULED
    return Job(
        b"",
        "",
        "",
        "",
        state,
        b"",
        name=schedule.name,
        call=schedule.call,
        error=schedule.problem,
        worker=schedule.owner,
        body=search_text,
    )
