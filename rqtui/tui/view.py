"""View: what every full screen of the program has in common: header, footer, the wish for data, the freeze.

A view knows nothing of Redis. The app asks it what it wants to see (`focus_wish`), shows it new pictures (`show`),
and asks on what a verb would act (`target`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from rqtui.errors import UsageError
from rqtui.model import Focus, Job, Queue, Ref, Snapshot, State
from rqtui.tui.chrome import Footer, Header, Sides, Strip
from rqtui.tui.filterline import FilterLine

if TYPE_CHECKING:
    from rqtui.tui.app import Cockpit
    from rqtui.verbs import Verb

SMALLEST = (60, 12)


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb acts on: jobs, or with `whole` everything in `place`, or the queue."""

    ref: Ref | None = None
    place: str = ""
    jobs: tuple[Job, ...] = ()
    whole: bool = False
    queue: Queue | None = None
    state: State | None = None  # of the place
    workers: tuple[str, ...] = ()  # for the verbs of workers
    filter: str = ""  # the expression, where `jobs` are all that it was found to let through
    looked: int = 0  # of a long place: how many were looked at for that, where it was not looked through; 0: all were

    @property
    def is_held(self) -> bool:
        """Whether workers hold what it is about."""
        if self.state is State.RESERVED or self.filter:  # all that match stand in one place: they may be many
            return self.state is State.RESERVED
        return any(job.state is State.RESERVED for job in self.jobs)


class View(Screen[None]):
    """A full screen."""

    NAME: ClassVar[str] = ""
    FILTER_HINT: ClassVar[str] = ""  # what `/` can look for here; empty: nothing
    is_frozen = False
    is_revealed = False  # whether secrets are shown in clear
    filter_text = ""

    def __init__(self) -> None:
        super().__init__()
        self.is_composed = False
        self._focused_before: Widget | None = None
        self._focused_when_large: Widget | None = None
        self.header, self.footer, self.strip = Header(), Footer(), Strip()
        self.filter_line = FilterLine(self.FILTER_HINT)
        self._diagnosis, self._too_small = Static("", id="diagnosis"), Static("", id="too-small")

    @property
    def cockpit(self) -> Cockpit:
        """The app, by its own type."""
        return cast("Cockpit", self.app)

    @property
    def is_drawn(self) -> bool:
        """Whether its widgets are there: not yet before they are mounted, not any more while the program ends."""
        return self.is_composed and self.header in self.children

    def compose(self) -> ComposeResult:
        """Header, the view itself, a sentence for the time without data, a demo's strip, footer."""
        yield self.header
        yield from self.compose_view()
        yield self._diagnosis
        yield self._too_small
        yield self.footer
        yield self.filter_line
        self.strip.display = self.cockpit.demo is not None
        yield self.strip

    def on_mount(self) -> None:
        """From now on it can be drawn into."""
        self.is_composed = True
        self.check_size()

    def on_resize(self, _event: Resize) -> None:
        """Its lines fit themselves to the new size."""
        self.check_size()
        self.cockpit.show_header()
        self.cockpit.show_keys()

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

    def begins(self, verb: Verb) -> bool:
        """Begins a verb in this view's own way; False: it has none, and the verb is begun as everywhere."""
        return False

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""

    def acted(self, ids: Collection[bytes]) -> None:
        """Some jobs were acted on."""

    # -- the filter -----------------------------------------------------------------------------------------------

    def filtered(self, expression: str) -> None:
        """Shows only what the expression lets through; empty: everything. Raises UsageError for one that is none."""

    def filter_typed(self, expression: str) -> None:
        """The expression as it is being typed: for views that have all their rows at hand."""

    def action_filter(self) -> None:
        """Opens the line for a filter."""
        if self.FILTER_HINT:
            self._focused_before = self.focused
            self.filter_line.open(self.filter_text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """A letter more or less."""
        if event.input is self.filter_line and self.filter_line.is_open:
            self.filter_typed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: the filter holds; one that cannot be read is said, and stays to be mended."""
        if event.input is self.filter_line:
            self.hold_filter(event.value.strip())

    def on_filter_line_left(self) -> None:
        """Esc: no filter."""
        self.hold_filter("")

    def hold_filter(self, expression: str) -> None:
        """Lets a filter hold, or says why it cannot be read."""
        try:
            self.filtered(expression)
        except UsageError as error:
            self.cockpit.say(str(error), "error")
            return
        self.filter_text = expression
        self.filter_line.close(expression)
        if self._focused_before is not None and self._focused_before.is_attached:
            self.set_focus(self._focused_before)

    def steps_back(self) -> bool:
        """Esc: takes back one thing on the view itself, and says whether there was one."""
        if self.filter_text:
            self.hold_filter("")
            return True
        return False

    def anew(self) -> None:
        """`r`: what a view found out by itself is found out again; the next picture comes anyway."""

    def diagnose(self, words: Content | None) -> None:
        """Says in the middle of the screen why there is nothing to see; None takes it away."""
        self._diagnosis.display = words is not None
        if words is not None:
            self._diagnosis.update(words)

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
        if was_small and not is_small and self._focused_when_large is not None and self._focused_when_large.is_attached:
            self.call_after_refresh(self.set_focus, self._focused_when_large)
        if is_small:
            text = (
                f"This terminal is {width}×{height}: rqtui needs {SMALLEST[0]}×{SMALLEST[1]}. Make it larger; q quits."
            )
            self._too_small.update(Content(text))

    def look_again(self) -> None:
        """The wish changed: take a picture at once."""
        self.cockpit.look_again()

    def look_soon(self) -> None:
        """The wish changed, and may change again in a moment: a held key makes one request."""
        self.cockpit.look_soon()

    def app_keys_changed(self) -> None:
        """What the keys can do here changed."""
        self.cockpit.show_keys()

    def open_job(self, ref: Ref, job: Job) -> None:
        """Opens the page of a job."""
        self.cockpit.open_job(ref, job)

    def action_freeze(self) -> None:
        """Lets the rows stand while the counters run, and back."""
        self.is_frozen = not self.is_frozen
        self.look_again()
