"""View: what every full screen of the program has in common: header, footer, the wish for data, the freeze.

A view knows the session that it was opened in, and the app as its `Host`. It is asked what it wants to see
(`focus_wish`), is shown new pictures (`show`), and tells on what a verb would act (`target`) and what else it can do:
nobody asks which view it is.
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
from rqtui.model import Focus, Job, Ref, Snapshot, State
from rqtui.tui.target import Target
from rqtui.tui.terminal import kept_lines
from rqtui.tui.widgets.chrome import HIGH, Footer, Header, Sides, Strip
from rqtui.tui.widgets.filterline import FilterLine
from rqtui.tui.widgets.leavable import Leavable
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.operations.journal import Operation
    from rqtui.tui.host import Host
    from rqtui.tui.session import Session
    from rqtui.verbs import Verb

SMALLEST = (60, 12)
WITH_PREVIEW = (120, 34)  # cells and rows of a terminal
LEAST_PREVIEW, LEAST_ROWS, FRAME, CHROME = 17, 4, 4, 4  # rows; a frame with a header and an empty line


class View(Screen[None], Leavable):
    """A full screen."""

    NAME: ClassVar[str] = ""
    FILTER_HINT: ClassVar[str] = ""  # what `/` can look for here; empty: nothing
    IS_FIRST: ClassVar[bool] = False  # whether the program begins and ends on it
    MAKES_QUEUES: ClassVar[bool] = False  # whether a new job's form asks for its queue, which may be a new one
    HAS_OPERATIONS: ClassVar[bool] = False  # whether undo is about the operation that is `picked` here
    SORTS: ClassVar[tuple[str, ...]] = ()  # the names of its sorts, in the order of the key
    SORT_OF: ClassVar[Mapping[str, str]] = {}  # by the key of a column: the sort that a click on its head means
    sort = ""
    is_frozen = False
    is_revealed = False  # whether secrets are shown in clear
    filter_text = ""

    def __init__(self) -> None:
        super().__init__()
        self.is_composed = False
        self._table_height: int | str = "1fr"
        self._focused_before: Widget | None = None
        self._focused_when_large: Widget | None = None
        self.header, self.footer, self.strip = Header(), Footer(), Strip()
        self.filter_line = FilterLine(self.FILTER_HINT)
        self._diagnosis, self._too_small = Static("", id="diagnosis"), Static("", id="too-small")

    @property
    def host(self) -> Host:
        """The app, as a view knows it."""
        return cast("Host", self.app)

    @cached_property
    def session(self) -> Session:
        """What is known of the Redis that this view was opened on; after a switch it may draw itself once more."""
        return self.host.session

    @property
    def is_on_top(self) -> bool:
        """Whether no other view covers it."""
        return top(self.app.screen_stack) is self

    @property
    def is_drawn(self) -> bool:
        """Whether its widgets are there: not yet before they are mounted, not any more while the program ends."""
        return self.is_composed and self.header in self.children

    def compose(self) -> ComposeResult:
        """Header, the view itself, a sentence for the time without data, a demo's strip, footer."""
        self.check_size()  # before they are there: a class that comes later has the styles of all of them made anew
        yield self.header
        yield from self.compose_view()
        yield self._diagnosis
        yield self._too_small
        yield self.footer
        yield self.filter_line
        yield self.filter_line.paths
        self.strip.display = self.session.demo is not None
        yield self.strip

    def on_mount(self) -> None:
        """From now on it can be drawn into."""
        self.is_composed = True
        kept_lines.keep(self)
        self.check_size()

    def on_resize(self, _event: Resize) -> None:
        """Its lines fit themselves to the new size."""
        self.check_size()
        self.host.show_header()
        self.host.show_keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A digit means nothing here beyond what is `numbered`; in a demo it may be a key of the strip."""
        if action == "place":
            return int(str(parameters[0])) <= self.numbered()
        return super().check_action(action, parameters)

    def numbered(self) -> int:
        """How many things of it have a digit for a key."""
        return 0

    def compose_view(self) -> ComposeResult:
        """The widgets between header and footer."""
        yield from ()

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """What this view wants to see, given all queues that are known."""
        return Focus(())

    def show(self, snapshot: Snapshot) -> None:
        """Draws a new picture."""

    def target(self) -> Target:
        """What a verb would act on."""
        return Target()

    def scope(self) -> tuple[Ref, ...]:
        """The queues that a view opened from here is about."""
        ref = self.target().ref
        return (ref,) if ref else ()

    def second_line(self, width: int) -> Sides:
        """What the header's second line says."""
        return Content(), Content()

    def allows(self, verb: Verb) -> bool:
        """Whether a verb can mean anything here."""
        return True

    def begins(self, verb: Verb) -> bool:
        """Begins a verb in this view's own way; False: it has none, and the verb is begun as everywhere."""
        return False

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""

    def acts(self) -> None:
        """A verb on jobs is sent: what is under the cursor was meant."""

    def acted(self, ids: Collection[bytes]) -> None:
        """Some jobs were acted on."""

    def picked(self) -> Operation | None:
        """The operation under the cursor."""
        return None

    def show_happened(self) -> None:
        """Tells what the loops and this screen did lately, where it does."""

    def lists_jobs_of(self, ref: Ref) -> bool:
        """Whether `step_job` goes through the jobs of that queue."""
        return False

    def step_job(self, step: int) -> Job | None:
        """The job after the one under the cursor, or before it; the cursor goes there. None: it is the last loaded."""
        return None

    def stand_at(self, place: str) -> None:
        """Goes to a place, where a view has places."""

    def narrow(self, state: State, expression: str) -> None:
        """Goes to the jobs of a state, and lets a filter hold there."""

    def ranked(self, refs: Collection[Ref]) -> list[Ref]:
        """These queues, the busiest first, where this view knows; else none."""
        return []

    def busiest(self, refs: Sequence[Ref], most: int) -> tuple[Ref, ...]:
        """All of these queues or, of more than a view can follow, the busiest, as the views below have counted them."""
        if len(refs) <= most:
            return tuple(refs)
        known = (view.ranked(refs) for view in views(self.app.screen_stack))
        return tuple(next(filter(None, known), list(refs))[:most])

    # -- sorts and the mouse --------------------------------------------------------------------------------------

    def sorted_anew(self) -> None:
        """Draws the rows in the order of `sort`, which is another one now."""

    def sort_by_the_next(self) -> None:
        """The next sort. The action of that name is only on views that have sorts: its key is another's elsewhere."""
        self.sort = self.SORTS[(self.SORTS.index(self.sort) + 1) % len(self.SORTS)]
        self.sorted_anew()

    def on_table_head_clicked(self, event: Table.HeadClicked) -> None:
        """The sort of that column, where it has one."""
        sort = self.SORT_OF.get(event.column, "")
        if sort:
            self.sort = sort
            self.sorted_anew()

    # -- the filter -----------------------------------------------------------------------------------------------

    def filtered(self, expression: str) -> None:
        """Shows only what the expression lets through; empty: everything. Raises UsageError for one that is none."""

    def filter_typed(self, expression: str) -> None:
        """The expression as it is being typed: at once, as far as it can be read."""
        with contextlib.suppress(UsageError):
            self.filtered(expression)

    def action_filter(self) -> None:
        """Opens the line for a filter."""
        if self.FILTER_HINT:
            self._focused_before = self.focused
            self.filter_line.open(self.session.filters)

    def on_input_changed(self, event: Input.Changed) -> None:
        """A letter more or less."""
        line = self.filter_line
        if event.input is line and line.is_open and not line.is_at_path:
            self.filter_typed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: the filter holds, and the cursor is on the first row; one that cannot be read stays to be mended."""
        typed, table = event.value.strip(), self._focused_before
        if event.input is not self.filter_line or not self.hold_filter(typed):
            return
        if typed and isinstance(table, Table):
            table.to_first()

    def on_filter_line_wants_paths(self) -> None:
        """A word begins with a dot, or Tab was pressed: looks which paths the bodies have."""
        self.look_for_paths(self.filter_line.offer)

    def look_for_paths(self, then: Callable[[Sequence[str]], None]) -> None:
        """Hands `then` the paths in the bodies of what is loaded, where a view has jobs with bodies."""

    def on_filter_line_left(self) -> None:
        """Esc: no filter."""
        self.hold_filter("")

    def hold_filter(self, expression: str) -> bool:
        """Lets a filter hold, or says why it cannot be read; whether it holds."""
        try:
            self.filtered(expression)
        except UsageError as error:
            self.host.say(str(error), "error")
            return False
        self.filter_text = expression
        self.filter_line.close(expression)
        if self._focused_before is not None and self._focused_before.is_attached:
            self.set_focus(self._focused_before)
        return True

    def steps_back(self) -> bool:
        """Esc: takes back one thing on the view itself, and says whether there was one."""
        if self.filter_text:
            self.hold_filter("")
            return True
        return False

    def anew(self) -> None:
        """`r`: what a view found out by itself is found out again; the next picture comes anyway."""

    def count_down(self) -> None:
        """A second went by: findings that can be mended only until an instant say how long that is."""

    def diagnose(self, words: Content | None) -> None:
        """Says in the middle of the screen why there is nothing to see; None takes it away."""
        self._diagnosis.display = words is not None
        if words is not None:
            self._diagnosis.update(words)

    @property
    def is_high(self) -> bool:
        """Whether the header has a line for the views."""
        return self.app.size.height >= HIGH

    @property
    def has_preview(self) -> bool:
        """Whether there is room below the rows for what is under the cursor."""
        width, height = self.app.size
        return width >= WITH_PREVIEW[0] and height >= WITH_PREVIEW[1]

    def fit_table(self, table: Widget, rows: int) -> None:
        """Gives a table the lines that so many rows need, and the rest to the preview below it."""
        most = self.app.size.height - CHROME - LEAST_PREVIEW
        height = min(max(LEAST_ROWS, rows) + FRAME, most) if self.has_preview else "1fr"
        if height != self._table_height:
            table.styles.height = self._table_height = height

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal is too small to show anything: then nothing is changed, either."""
        return self.has_class("-too-small")

    def check_size(self) -> None:
        """A terminal that is too small gets a sentence instead of a broken picture."""
        width, height = self.app.size
        was_small, is_small = self.is_too_small, width < SMALLEST[0] or height < SMALLEST[1]
        if is_small and not was_small:
            self._focused_when_large = self.focused  # what is hidden loses the focus
        self.set_class(is_small, "-too-small")
        self.set_class(self.is_high, "-high")
        self.set_class(self.has_preview, "-preview")
        if was_small and not is_small and self._focused_when_large is not None and self._focused_when_large.is_attached:
            self.call_after_refresh(self.set_focus, self._focused_when_large)
        if is_small:
            text = (
                f"This terminal is {width}×{height}: rqtui needs {SMALLEST[0]}×{SMALLEST[1]}. Make it larger; q quits."
            )
            self._too_small.update(Content(text))

    def action_freeze(self) -> None:
        """Lets the rows stand while the counters run, and back."""
        self.is_frozen = not self.is_frozen
        self.host.look_again()


def views(stack: Sequence[Screen[object]]) -> list[View]:
    """The views among these screens, without what is opened above them; the one on top last."""
    return [screen for screen in stack if isinstance(screen, View)]


def top(stack: Sequence[Screen[object]]) -> View | None:
    """The view on top, under any dialog."""
    return next((screen for screen in reversed(stack) if isinstance(screen, View)), None)
