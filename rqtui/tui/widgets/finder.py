"""Finder: one line to find anything in, and below it what was found for the words typed so far.

It knows neither queues nor commands: a Textual provider finds what is known here, at once and with each letter; what
Redis has to be asked for is looked for by `look_for` when the typing rests, and joins the list when it is answered. A
line that a person moved to stays under the cursor then. Enter takes the line under the cursor; where nothing fits well,
it waits for the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Provider
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from rqtui.tui.widgets.leavable import Leavable

RESTS_S = 0.15  # without a letter, before Redis is asked
GOOD = 1.0  # the least score of a hit that Enter takes at once while an answer is still to come
MOST_ROWS = 0.7  # of those of the terminal, for what was found
HINT = "a queue, the id of a job, a view, a command, a filter"


class Found(NamedTuple):
    """What an answer brought: hits that join the others, and words about what was not looked at."""

    hits: Sequence[Hit]
    words: str = ""


LookFor = Callable[[str, Callable[[Found], None]], str]
"""Asks for what a text means and hands the answer on; what is said meanwhile, empty where nothing is asked."""


class Hits(OptionList, can_focus=False):
    """The lines below; the keys stay with the line above."""


class FindLine(Input):
    """The line to type in."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+u", "empty", show=False, id="find.empty")]

    def action_empty(self) -> None:
        """Nothing stands in it any more."""
        self.value = ""


class Finder(ModalScreen[None], Leavable):
    """The page; `make` makes the provider for the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "close", show=False, id="find.close"),
        Binding("down", "move('cursor_down')", "down", show=False, id="find.down"),
        Binding("up", "move('cursor_up')", "up", show=False, id="find.up"),
        Binding("pagedown", "move('page_down')", "page down", show=False, id="find.page-down"),
        Binding("pageup", "move('page_up')", "page up", show=False, id="find.page-up"),
    ]
    AUTO_FOCUS = "FindLine"
    DEFAULT_CSS = """
    Finder > Vertical { margin-top: 2; width: 84; max-width: 96%; height: auto; background: $ground; }
    Finder FindLine, Finder FindLine:focus { border: round $accented; background: $ground; height: 3; padding: 0 1; }
    Finder Hits { background: $ground; border: round $frame; padding: 0;
        border-subtitle-color: $muted; border-subtitle-background: $ground; scrollbar-size-vertical: 1; }
    Finder Hits > .option-list--option { color: $data; padding: 0 1; text-style: none; }
    Finder Hits > .option-list--option-highlighted { background: $cursor-row; color: $strong; text-style: none; }
    Finder Hits > .option-list--option-disabled { color: $muted; }
    """

    def __init__(self, make: Callable[[Finder], Provider], look_for: LookFor) -> None:
        super().__init__()
        self._make, self._look_for = make, look_for
        self._known: list[Hit | DiscoveryHit] = []
        self._asked = Found(())
        self._shown: list[Hit | DiscoveryHit] = []
        self._rest: Timer | None = None
        self._is_awaiting = self._has_entered = self._has_moved = False
        self._number = 0  # of the search, which its answer must have

    def compose(self) -> ComposeResult:
        """The line, and what was found."""
        with Vertical():
            yield FindLine(placeholder=HINT, compact=True, select_on_focus=False)
            yield Hits()

    async def on_mount(self) -> None:
        """Nothing is typed yet: every command."""
        self._provider = self._make(self)
        await self._search("")

    async def on_input_changed(self, event: Input.Changed) -> None:
        """A letter more or less."""
        event.stop()
        await self._search(event.value.strip())

    async def _search(self, text: str) -> None:
        self._number += 1
        self._has_entered = self._has_moved = False
        if self._rest is not None:
            self._rest.stop()
        self._is_awaiting, self._asked = bool(text), Found(())
        hits = self._provider.search(text) if text else self._provider.discover()
        self._known = [hit async for hit in hits]
        self._show()
        if text:
            self._rest = self.set_timer(RESTS_S, lambda: self._ask(text))

    def _ask(self, text: str) -> None:
        number = self._number
        words = self._look_for(text, lambda found: self._heard(number, found))
        if words:
            self._say(words)
        else:
            self._heard(number, Found(()))

    def _heard(self, number: int, found: Found) -> None:
        if number != self._number or not self.is_attached:
            return  # of other words than those that stand there now
        self._is_awaiting, self._asked = False, found
        self._show()
        if self._has_entered:
            self._has_entered = False
            self._take()

    def _show(self) -> None:
        lines = self.query_one(Hits)
        kept = lines.highlighted_option.id if self._has_moved and lines.highlighted_option else None
        self._shown = sorted((*self._known, *self._asked.hits), key=lambda hit: -hit.score)
        options = [Option(hit.prompt, id=str(id(hit))) for hit in self._shown]
        nothing = "looking …" if self._is_awaiting else "nothing here has that name"
        lines.clear_options()
        lines.add_options(options or [Option(Content(nothing), disabled=True)])
        self._fit()
        ids = [option.id for option in options]
        if options:
            lines.highlighted = ids.index(kept) if kept in ids else 0
        self._say(self._asked.words)

    def on_resize(self) -> None:
        """As many lines as have room."""
        self._fit()

    def _fit(self) -> None:
        """The frame is as high as its lines, up to seven tenths of the terminal."""
        lines = self.query_one(Hits)
        lines.styles.height = 2 + max(1, min(lines.option_count, int(self.app.size.height * MOST_ROWS) - 2))

    def _say(self, words: str) -> None:
        self.query_one(Hits).border_subtitle = Content(f" {words} ") if words else Content()

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def action_move(self, way: str) -> None:
        """Up and down the lines."""
        self._has_moved = True
        getattr(self.query_one(Hits), f"action_{way}")()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        best = self._shown[0].score if self._shown else 0.0
        if self._is_awaiting and not self._has_moved and best < GOOD:
            self._has_entered = True
        else:
            self._take()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click."""
        event.stop()
        self.query_one(Hits).highlighted = event.option_index
        self._take()

    def _take(self) -> None:
        at = self.query_one(Hits).highlighted
        if at is None or at >= len(self._shown):
            return
        command = self._shown[at].command
        self.dismiss()
        self.app.call_later(command)
