"""Provide the base class of all full screens: header, footer, filter line, sorting, freezing, and the size check.

A view keeps the session in which it was opened, and reaches the app as its `Host`. The app asks each view what to read
(`build_focus`), passes new snapshots to it (`show_snapshot`), and asks what a verb would act on (`build_target`),
without checking which view it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Job, Ref, Snapshot, State
from rqtui.tui.target import Target
from rqtui.tui.terminal import line_cache
from rqtui.tui.widgets.filter_line import FilterLine
from rqtui.tui.widgets.findings import FindingCursor
from rqtui.tui.widgets.frame import VIEWS_FROM_ROWS, Footer, Header, Sides, Strip
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.operations.journal import Operation
    from rqtui.tui.host import Host
    from rqtui.tui.session import Session
    from rqtui.verbs import Verb

MIN_SIZE = (60, 12)
LARGE_SIZE = (120, 34)  # cells and rows of a terminal
LEAST_PREVIEW, LEAST_ROWS = 17, 4  # on a large terminal: rows of the details, and rows of the list
LEAST_DETAILS = 4  # on a small terminal: rows of the details, which are a frame and two lines
FINDING_KEYS = (("open", "incident"), ("cursor", "move"), ("back", "back"))  # (id, label), in the footer
TABLE_FRAME_ROWS = 3  # rows of a table beside its list: a frame and the header


class View(Screen[None], Leavable):
    """A full screen with header, footer and filter line. Each kind of view is a subclass."""

    NAME: ClassVar[str] = ""
    FILTER_HINT: ClassVar[str] = ""  # what the filter accepts here; empty: this view has no filter
    IS_FIRST: ClassVar[bool] = False  # whether the program starts and ends with this view
    CAN_CREATE_QUEUES: ClassVar[bool] = False  # whether the form for a new job asks for its queue, which may be new
    HAS_OPERATIONS: ClassVar[bool] = False  # whether undo acts on the operation that `find_selected_operation` returns
    DETAILS: ClassVar[str] = ""  # the selector of the pane below the list with the details of the row under the cursor
    SORTS: ClassVar[tuple[str, ...]] = ()  # the names of the sort orders, in the order in which the key switches them
    SORT_OF: ClassVar[Mapping[str, str]] = {}  # sort order by column key, for a click on its head
    sort = ""
    is_frozen = False
    is_revealed = False  # whether secrets are shown in clear
    filter_text = ""

    def __init__(self) -> None:
        super().__init__()
        self.is_composed = False
        self._table_height: int | str = ""
        self._has_preview = False
        self._focused_before: Widget | None = None
        self._focused_when_large: Widget | None = None
        self.header, self.footer, self.strip = Header(), Footer(), Strip()
        self.filter_line = FilterLine(self.FILTER_HINT)
        self._diagnosis, self._too_small = Static("", id="diagnosis"), Static("", id="too-small")

    @property
    def host(self) -> Host:
        """The app, typed as the interface that a view may use."""
        return cast("Host", self.app)

    @cached_property
    def session(self) -> Session:
        """The session in which this view was opened, also while the app already has another one."""
        return self.host.session

    @property
    def is_on_top(self) -> bool:
        """Whether no other view covers this view. Dialogs are not counted."""
        return find_top_view(self.app.screen_stack) is self

    @property
    def is_drawn(self) -> bool:
        """Whether the view's widgets exist: False before they are mounted and while the program ends."""
        return self.is_composed and self.header in self.children

    def compose(self) -> ComposeResult:
        """Create the header, the view's own widgets, the texts shown without data, the footer, and a demo's strip."""
        self.check_terminal_size()  # A class that is set after the widgets exist recomputes the styles of all of them.
        yield self.header
        yield from self.compose_view()
        yield self._diagnosis
        yield self._too_small
        yield self.footer
        yield self.filter_line
        yield self.filter_line.paths
        self.strip.display = self.session.demo is not None or self.session.is_replay
        yield self.strip

    def on_mount(self) -> None:
        """Mark the view as composed, and check the terminal's size."""
        self.is_composed = True
        line_cache.cache_painted_lines(self)
        self.check_terminal_size()

    def on_resize(self, _event: Resize) -> None:
        """Fit the view, its header and its footer to the new terminal size."""
        self.check_terminal_size()
        self.host.show_header()
        self.host.show_keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works on this view.

        A digit works only up to `count_numbered_items()`, because a demo uses the other digits for its strip.
        """
        if action == "place":
            return int(str(parameters[0])) <= self.count_numbered_items()
        return super().check_action(action, parameters)

    def offers_action(self, action: str) -> bool:
        """Return whether an action of this view's keys exists for the systems shown; footer and help list it then."""
        return True

    def count_numbered_items(self) -> int:
        """Return how many items of this view have a digit as their key."""
        return 0

    def compose_view(self) -> ComposeResult:
        """Create the widgets of the view between header and footer."""
        yield from ()

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Return what the next refresh must read for this view. `refs` are all listed queues."""
        return Focus(())

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw a new snapshot on the view."""

    def build_target(self) -> Target:
        """Return the queue, jobs or workers on the view that a verb would act on now."""
        return Target()

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues that a view opened from this view will show; empty means all queues."""
        ref = self.build_target().ref
        return (ref,) if ref else ()

    def build_second_line(self, width: int) -> Sides:
        """Return the left and right part of the header's second line for `width` cells."""
        return Content(), Content()

    def allows_verb(self, verb: Verb) -> bool:
        """Return whether a verb can apply on this view."""
        return True

    def handle_verb(self, verb: Verb) -> bool:
        """Start a verb in a way that only this view has. Returns False if the caller must start it in the usual way."""
        return False

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the view while the connection is lost, or restore it."""

    def prepare_for_verb(self) -> None:
        """Keep the cursor on its job, because a verb on jobs of this view is about to be sent."""

    def handle_acted_jobs(self, ids: Collection[bytes]) -> None:
        """Update the view after a verb changed the jobs with these ids."""

    def find_selected_operation(self) -> Operation | None:
        """Return the operation under the cursor, if this view lists operations."""
        return None

    def find_list(self) -> Widget | None:
        """Return the list that gets the focus back from the findings, if this view has findings with a cursor."""
        return None

    def find_selected_finding(self) -> Finding | None:
        """Return the finding under the cursor while findings have the focus, else None."""
        return self.focused.finding if isinstance(self.focused, FindingCursor) else None

    def leave_findings(self) -> bool:
        """Move the focus from the findings back to the list. Return whether findings had the focus."""
        if not isinstance(self.focused, FindingCursor):
            return False
        self.set_focus(self.find_list())
        return True

    def list_focus_keys(self) -> Sequence[tuple[str, str]]:
        """Return (id, label) of the keys that the footer shows first while findings have the focus; else nothing."""
        return FINDING_KEYS if isinstance(self.focused, FindingCursor) else ()

    def on_finding_cursor_opened(self, event: FindingCursor.Opened) -> None:
        """Open the page about the finding that was opened by Enter or clicked."""
        self.host.open_incident(event.ref, event.finding)

    def show_recent_activity(self) -> None:
        """Show the recent steps of the loops and recent changes, if this view has a pane for them."""

    def is_list_of_queue(self, ref: Ref) -> bool:
        """Return whether `move_to_other_job` moves through the jobs of the queue `ref` on this view."""
        return False

    def move_to_other_job(self, step: int) -> Job | None:
        """Move the cursor `step` jobs further and return that job, or None after the last loaded job."""
        return None

    def select_queue(self, ref: Ref) -> None:
        """Move the cursor to a queue, if this view lists queues."""

    def go_to_place(self, place: str) -> None:
        """Go to the place of this name, if this view has places."""

    def filter_place_of_state(self, state: State, expression: str) -> None:
        """Go to the jobs of a state, and apply a filter there, if this view has places."""

    def rank_by_activity(self, refs: Collection[Ref]) -> list[Ref]:
        """Return these queues sorted by activity, busiest first; empty if this view has no rates."""
        return []

    def select_busiest_queues(self, refs: Sequence[Ref], limit: int) -> tuple[Ref, ...]:
        """Return the `limit` busiest of these queues, or all of them if there are no more than that.

        The activity comes from the first view of the stack that has rates; without one, the first `limit` queues are
        returned.
        """
        if len(refs) <= limit:
            return tuple(refs)
        rankings = (view.rank_by_activity(refs) for view in filter_views(self.app.screen_stack))
        return tuple(next(filter(None, rankings), list(refs))[:limit])

    # -- sorts and the mouse --------------------------------------------------------------------------------------

    def redraw_sorted(self) -> None:
        """Redraw the rows of the view after the sort order `sort` changed."""

    def select_next_sort(self) -> None:
        """Switch the view to its next sort order.

        Only views with sorts bind an action to this method: other views use the same key for something else.
        """
        self.sort = self.SORTS[(self.SORTS.index(self.sort) + 1) % len(self.SORTS)]
        self.redraw_sorted()

    def on_table_head_clicked(self, event: Table.HeadClicked) -> None:
        """Sort the view by the clicked column, if that column has a sort order."""
        sort = self.SORT_OF.get(event.column, "")
        if sort:
            self.sort = sort
            self.redraw_sorted()

    # -- the filter -----------------------------------------------------------------------------------------------

    def apply_filter(self, expression: str) -> None:
        """Show only the rows of the view that match the expression; an empty expression shows all rows.

        Raises UsageError if the expression cannot be parsed.
        """

    def preview_filter(self, expression: str) -> None:
        """Apply a filter expression while it is typed, and ignore it while it cannot be parsed."""
        with contextlib.suppress(UsageError):
            self.apply_filter(expression)

    def action_filter(self) -> None:
        """Open the filter line of the view."""
        if self.FILTER_HINT:
            self.leave_findings()
            self._focused_before = self.focused
            self.filter_line.open(self.session.filters)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter after each typed letter."""
        line = self.filter_line
        if event.input is line and line.is_open and not line.is_at_path:
            self.preview_filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Handle Enter in the filter line: apply the filter and move the cursor to the first row.

        A filter that cannot be parsed stays in the line for editing.
        """
        typed, table = event.value.strip(), self._focused_before
        if event.input is not self.filter_line or not self.confirm_filter(typed):
            return
        if typed and isinstance(table, Table):
            table.move_to_first()

    def on_filter_line_wants_paths(self) -> None:
        """Load the paths of the job bodies for completion, after a typed dot or Tab."""
        self.load_body_paths(self.filter_line.set_body_paths)

    def load_body_paths(self, handle_paths: Callable[[Sequence[str]], None]) -> None:
        """Pass the paths of values in the loaded jobs' bodies to `handle_paths`, if the view lists jobs."""

    def on_filter_line_left(self) -> None:
        """Handle Esc in the filter line: remove the filter."""
        self.confirm_filter("")

    def confirm_filter(self, expression: str) -> bool:
        """Apply a filter and close the filter line, or show why the filter is invalid.

        Returns whether the filter was applied.
        """
        try:
            self.apply_filter(expression)
        except UsageError as error:
            self.host.show_toast(str(error), "error")
            return False
        self.filter_text = expression
        self.filter_line.close(expression)
        if self._focused_before is not None and self._focused_before.is_attached:
            self.set_focus(self._focused_before)
        return True

    def step_back(self) -> bool:
        """Undo the last step on the view itself, such as a filter, after Esc. Returns whether there was such a step."""
        if self.leave_findings():
            return True
        if self.filter_text:
            self.confirm_filter("")
            return True
        return False

    def recompute(self) -> None:
        """Rebuild the report of this view or repeat its scan, after the refresh key `r`.

        The caller requests a new snapshot in any case.
        """

    def update_countdowns(self) -> None:
        """Redraw findings that show how much time is left to act. Called each second."""

    def show_connection_diagnosis(self, diagnosis: Content | None) -> None:
        """Show in the middle of the view why there is no data; None hides that text."""
        self._diagnosis.display = diagnosis is not None
        if diagnosis is not None:
            self._diagnosis.update(diagnosis)

    @property
    def is_high(self) -> bool:
        """Whether the terminal is high enough for the header's line of views."""
        return self.app.size.height >= VIEWS_FROM_ROWS

    @property
    def is_large(self) -> bool:
        """Whether the terminal is large enough for details below a list of any length, and for panes side by side."""
        width, height = self.app.size
        return width >= LARGE_SIZE[0] and height >= LARGE_SIZE[1]

    @property
    def has_preview(self) -> bool:
        """Whether the details of the row under the cursor are shown below the list."""
        return self._has_preview

    def fit_table_height(self, table: Widget, row_count: int) -> None:
        """Set the height of a table to what its rows need, and show the details of a row in the rest.

        A small terminal shows no details while the list needs its rows.
        """
        space = self.count_content_rows()
        needed = row_count + TABLE_FRAME_ROWS
        if self.is_large:
            height: int | str = min(max(LEAST_ROWS, row_count) + TABLE_FRAME_ROWS + 1, space - LEAST_PREVIEW)
        else:
            height = needed if row_count and space - needed >= LEAST_DETAILS else "1fr"
        self._has_preview = height != "1fr"
        if height != self._table_height:
            table.styles.height = self._table_height = height
            self.query_one(self.DETAILS).display = self._has_preview

    def count_content_rows(self) -> int:
        """Return the number of rows between the header and the lines at the bottom of the view."""
        header_rows = 3 if self.is_high else 2
        return self.app.size.height - header_rows - 1 - bool(self.strip.display) - self.count_note_rows()

    def measure_details_width(self, pane: Widget) -> int:
        """Return the cells of a line in the pane of details.

        Before the pane has a size, they are computed from the terminal without frame, padding and scroll bar.
        """
        return pane.scrollable_content_region.width or self.app.size.width - 5

    def count_note_rows(self) -> int:
        """Return the number of rows that texts of this view take beside its list and the details below it."""
        return 0

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal is too small to show anything; changes are then refused, too."""
        return self.has_class("-too-small")

    def check_terminal_size(self) -> None:
        """Show a sentence instead of the view while the terminal is too small, and set the CSS classes for its size."""
        width, height = self.app.size
        was_small, is_small = self.is_too_small, width < MIN_SIZE[0] or height < MIN_SIZE[1]
        if is_small and not was_small:
            self._focused_when_large = self.focused  # hidden widgets lose the focus
        self.set_class(is_small, "-too-small")
        self.set_class(self.is_high, "-high")
        self.set_class(self.is_large, "-large")
        if was_small and not is_small and self._focused_when_large is not None and self._focused_when_large.is_attached:
            self.call_after_refresh(self.set_focus, self._focused_when_large)
        if is_small:
            text = (
                f"This terminal is {width}×{height}: rqtui needs {MIN_SIZE[0]}×{MIN_SIZE[1]}. Make it larger; q quits."
            )
            self._too_small.update(Content(text))

    def action_freeze(self) -> None:
        """Freeze the rows of the view while the counters continue, or unfreeze them."""
        self.is_frozen = not self.is_frozen
        self.host.request_refresh()


def find_only_queue(refs: Collection[Ref]) -> Ref | None:
    """Return the queue of a view of one queue; None for a view of several queues or of none."""
    return next(iter(refs)) if len(refs) == 1 else None


def filter_views(stack: Sequence[Screen[object]]) -> list[View]:
    """Return the views of a screen stack without its dialogs, the top one last."""
    return [screen for screen in stack if isinstance(screen, View)]


def find_top_view(stack: Sequence[Screen[object]]) -> View | None:
    """Return the top view of a screen stack, below any dialog; None if there is no view."""
    return next((screen for screen in reversed(stack) if isinstance(screen, View)), None)
