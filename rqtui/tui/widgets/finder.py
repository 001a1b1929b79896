"""Provide the search dialog of the palette: one input line, and the matches below it.

A Textual provider searches the local commands and queues after each letter. `request_hits` asks Redis once typing
pauses, and its hits join the list when they arrive. A line that a person moved to stays selected then. Enter runs the
selected line; if no hit is good enough yet, Enter waits for the reply.
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

from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.widgets.leavable import Leavable

TYPING_PAUSE_S = 0.15  # pause in typing before Redis is asked
GOOD_SCORE = 1.0  # score from which Enter runs a hit at once while a reply is pending
MAX_HEIGHT_SHARE = 0.7  # share of the terminal's rows for the matches
MAX_CELLS, TITLE_CELLS = 84, 24  # cells of the dialog, and of the title before its description
FRAME_CELLS = 8  # of the dialog, beside a line of a match
HINT = "a queue, the id of a job, a view, a command, a filter"


class RedisHits(NamedTuple):
    """The result of a search in Redis: additional hits, and a notice about what could not be searched."""

    hits: Sequence[Hit]
    words: str = ""


RequestHits = Callable[[str, Callable[[RedisHits], None]], str]
"""Requests the jobs that a typed text may mean and passes the hits to a function.

Returns the message to show meanwhile, or "" if nothing is requested.
"""


class Hits(OptionList, can_focus=False):
    """The list of matches in the search dialog. The keyboard focus stays in the input line above."""


class FindLine(Input):
    """The input line of the search dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+u", "empty", show=False, id="find.empty")]

    def action_empty(self) -> None:
        """Clear the text of the search line."""
        self.value = ""


class Finder(ModalScreen[None], Leavable):
    """The search dialog of the palette. `create_provider` creates the provider that searches the commands."""

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

    def __init__(self, create_provider: Callable[[Finder], Provider], request_hits: RequestHits) -> None:
        super().__init__()
        self._create_provider, self._request_redis_hits = create_provider, request_hits
        self._local_hits: list[Hit | DiscoveryHit] = []
        self._redis_hits = RedisHits(())
        self._shown_hits: list[Hit | DiscoveryHit] = []
        self._line_count = 1  # lines of the shown matches
        self._pause_timer: Timer | None = None
        self._is_awaiting = self._has_entered = self._has_moved = False
        self._search_number = 0  # number of the current search; replies to earlier ones are dropped

    def compose(self) -> ComposeResult:
        """Create the input line and the list of matches."""
        with Vertical():
            yield FindLine(placeholder=HINT, compact=True, select_on_focus=False)
            yield Hits()

    async def on_mount(self) -> None:
        """Create the search provider and show every command."""
        self._provider = self._create_provider(self)
        await self._search_commands("")

    async def on_input_changed(self, event: Input.Changed) -> None:
        """Search again after each edit of the search line."""
        event.stop()
        await self._search_commands(event.value.strip())

    async def _search_commands(self, text: str) -> None:
        self._search_number += 1
        self._has_entered = self._has_moved = False
        if self._pause_timer is not None:
            self._pause_timer.stop()
        self._is_awaiting, self._redis_hits = bool(text), RedisHits(())
        hits = self._provider.search(text) if text else self._provider.discover()
        self._local_hits = [hit async for hit in hits]
        self._show_hits()
        if text:
            self._pause_timer = self.set_timer(TYPING_PAUSE_S, lambda: self._request_hits(text))

    def _request_hits(self, text: str) -> None:
        number = self._search_number
        message = self._request_redis_hits(text, lambda hits: self._handle_redis_hits(number, hits))
        if message:
            self._show_notice(message)
        else:
            self._handle_redis_hits(number, RedisHits(()))

    def _handle_redis_hits(self, number: int, hits: RedisHits) -> None:
        if number != self._search_number or not self.is_attached:
            return  # a reply to an earlier search
        self._is_awaiting, self._redis_hits = False, hits
        self._show_hits()
        if self._has_entered:
            self._has_entered = False
            self._run_selected_hit()

    def _show_hits(self) -> None:
        hit_list = self.query_one(Hits)
        selected_id = hit_list.highlighted_option.id if self._has_moved and hit_list.highlighted_option else None
        self._shown_hits = sorted((*self._local_hits, *self._redis_hits.hits), key=lambda hit: -hit.score)
        prompts = self._format_hits()
        self._line_count = sum(prompt.plain.count("\n") + 1 for prompt in prompts)
        options = [Option(prompt, id=str(id(hit))) for hit, prompt in zip(self._shown_hits, prompts, strict=True)]
        empty_text = "reading …" if self._is_awaiting else "nothing here has that name"
        hit_list.clear_options()
        hit_list.add_options(options or [Option(Content(empty_text), disabled=True)])
        self._fit_list_height()
        ids = [option.id for option in options]
        if options:
            hit_list.highlighted = ids.index(selected_id) if selected_id in ids else 0
        self._show_notice(self._redis_hits.words)

    def _format_hits(self) -> list[Content]:
        """Format the matches: with whole descriptions if all of them fit into the dialog, else on one line each."""
        cells = min(MAX_CELLS, round(self.app.size.width * 0.96)) - FRAME_CELLS
        whole = [format_hit(hit, cells, is_whole=True) for hit in self._shown_hits]
        if sum(prompt.plain.count("\n") + 1 for prompt in whole) <= self._max_lines:
            return whole
        return [format_hit(hit, cells, is_whole=False) for hit in self._shown_hits]

    @property
    def _max_lines(self) -> int:
        """The number of lines of matches that fit into seven tenths of the terminal."""
        return max(1, int(self.app.size.height * MAX_HEIGHT_SHARE) - 2)

    def on_resize(self) -> None:
        """Fit the matches to the terminal."""
        if self._shown_hits:
            self._show_hits()
        self._fit_list_height()

    def _fit_list_height(self) -> None:
        """Set the height of the list to the lines of its matches, as far as they fit into the terminal."""
        self.query_one(Hits).styles.height = 2 + min(max(1, self._line_count), self._max_lines)

    def _show_notice(self, notice: str) -> None:
        self.query_one(Hits).border_subtitle = Content(f" {notice} ") if notice else Content()

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def action_move(self, direction: str) -> None:
        """Move the selection in the list of matches."""
        self._has_moved = True
        getattr(self.query_one(Hits), f"action_{direction}")()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the selected match, or wait for the reply of Redis if no match is good enough."""
        event.stop()
        best = self._shown_hits[0].score if self._shown_hits else 0.0
        if self._is_awaiting and not self._has_moved and best < GOOD_SCORE:
            self._has_entered = True
        else:
            self._run_selected_hit()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Select a clicked match and run it."""
        event.stop()
        self.query_one(Hits).highlighted = event.option_index
        self._run_selected_hit()

    def _run_selected_hit(self) -> None:
        index = self.query_one(Hits).highlighted
        if index is None or index >= len(self._shown_hits):
            return
        command = self._shown_hits[index].command
        self.dismiss()
        self.app.call_later(command)


def format_hit(hit: Hit | DiscoveryHit, cells: int, *, is_whole: bool) -> Content:
    """Format a match: its title, and beside it its description, cut after one line or with all of its lines."""
    title = hit.prompt if isinstance(hit.prompt, Content) else Content(safe(str(hit.prompt)))
    title = title.truncate(cells - 1, ellipsis=True)
    title_cells = max(TITLE_CELLS, title.cell_length + 2)
    description, width = safe(hit.help or ""), max(0, cells - title_cells)
    lines = [formats.fit_to_width(description, width).rstrip()]
    if is_whole and width >= TITLE_CELLS:
        lines = formats.wrap_to_width(description, width) or lines
    gaps = [" " * (title_cells - title.cell_length), *[" " * title_cells] * (len(lines) - 1)]
    texts = [Content.assemble(gap, (line, "$muted")) for gap, line in zip(gaps, lines, strict=True)]
    return Content("\n").join([Content.assemble(title, texts[0]), *texts[1:]])
