"""The help page: every key in groups, those of this screen first, in as many columns as fit.

`/` filters the lines by typed words. `help.key_groups` builds the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.widgets.leavable import Leavable

MIN_COLUMN_CELLS = 66  # cells of the narrowest column, so that few lines are cut
KEY_CELLS, GAP_CELLS = 12, 3


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A key, its effect, and where or for which jobs it works. `name` is its name in the config file."""

    keys: str
    words: str
    more: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Lines of the help page under a title."""

    title: str
    lines: tuple[KeyLine, ...]


class KeyPage(ModalScreen[None], Leavable):
    """The help page with all keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "leave", "close", show=False, id="keys.close"),
        Binding("slash", "search", "search", show=False, id="keys.search"),
        Binding("j,down", "scroll(1)", "down", show=False, id="keys.down"),
        Binding("k,up", "scroll(-1)", "up", show=False, id="keys.up"),
        Binding("space,pagedown", "scroll(10)", "page down", show=False, id="keys.page-down"),
        Binding("pageup", "scroll(-10)", "page up", show=False, id="keys.page-up"),
        Binding("g,home", "ends(-1)", "first", show=False, id="keys.first"),
        Binding("G,end", "ends(1)", "last", show=False, id="keys.last"),
    ]
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    KeyPage { align: center middle; background: $ground 60%; }
    KeyPage #key-page { width: 96%; max-width: 210; height: auto; max-height: 96%; padding: 0 1; background: $ground;
        border: round $accented; border-title-color: $strong; border-title-background: $ground;
        border-subtitle-color: $muted; border-subtitle-background: $ground; }
    KeyPage #key-lines { height: auto; max-height: 100%; scrollbar-size-vertical: 1; background: $ground; }
    KeyPage Input { display: none; }
    KeyPage.-searching Input { display: block; }
    KeyPage.-searching { align: center top; }
    """

    def __init__(self, groups: Sequence[KeyGroup]) -> None:
        super().__init__()
        self._groups = groups

    def compose(self) -> ComposeResult:
        """Create the search line and the scrolling list of keys."""
        with Vertical(id="key-page") as frame:
            frame.border_title = Content(" keys ")
            frame.border_subtitle = Content(
                f" {keys.find_dialog_key('keys.search', '/')} search   j k scroll   "
                f"{keys.find_dialog_key('keys.close', 'Esc')} closes "
            )
            yield Input(placeholder="what a key does, or its name", compact=True, select_on_focus=False)
            with VerticalScroll(id="key-lines", can_focus=False):
                yield Static("", id="key-text")

    def on_mount(self) -> None:
        """Draw the lines."""
        self._draw_lines()

    def on_resize(self) -> None:
        """Draw the lines in as many columns as fit."""
        self._draw_lines()

    def _draw_lines(self) -> None:
        width = min(210, round(self.app.size.width * 0.96)) - 6
        matches = filter_groups(self._groups, self.query_one(Input).value)
        text = arrange_columns(matches, width) if matches else Content.styled("No key does that.", "$muted")
        self.query_one("#key-text", Static).update(text)

    def on_input_changed(self) -> None:
        """Filter the lines after each edit."""
        self._draw_lines()

    def on_input_submitted(self) -> None:
        """Keep the filtered lines and return the keys to scrolling."""
        self.set_focus(None)

    def action_search(self) -> None:
        """Open the search line."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Clear the search, or close the page if there is none."""
        if not self.has_class("-searching"):
            self.dismiss()
            return
        self.remove_class("-searching")
        self.query_one(Input).value = ""
        self.set_focus(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#key-lines").scroll_relative(y=lines, animate=False)

    def action_ends(self, way: int) -> None:
        """Scroll to the first (-1) or the last (1) line."""
        lines = self.query_one("#key-lines")
        lines.scroll_to(y=lines.max_scroll_y if way > 0 else 0, animate=False)


def filter_groups(groups: Sequence[KeyGroup], typed: str) -> list[KeyGroup]:
    """Return the lines that contain every typed word. A single character is searched only among the keys."""
    wanted = typed.strip()
    if not wanted:
        return list(groups)

    def fits(line: KeyLine) -> bool:
        if len(wanted) == 1:
            return wanted in line.keys.split()
        text = f"{line.keys} {line.words} {line.more} {line.name}".lower()
        return all(word in text for word in wanted.lower().split())

    filtered = [KeyGroup(group.title, tuple(filter(fits, group.lines))) for group in groups]
    return [group for group in filtered if group.lines]


def arrange_columns(groups: Sequence[KeyGroup], width: int) -> Content:
    """Arrange the groups in columns of equal width and similar height."""
    columns = max(1, min(3, (width + GAP_CELLS) // (MIN_COLUMN_CELLS + GAP_CELLS)))
    wide = (width - GAP_CELLS * (columns - 1)) // columns
    blocks = [_format_group(group, wide) for group in groups]
    sides = _balance_columns(blocks, columns)
    height = max(map(len, sides))
    blank = Content(" " * wide)
    rows = [[side[y] if y < len(side) else blank for side in sides] for y in range(height)]
    return Content("\n").join(Content(" " * GAP_CELLS).join(row).rstrip() for row in rows)


def _format_group(group: KeyGroup, width: int) -> list[Content]:
    lines = [Content.styled(formats.fit_to_width(group.title, width), "b $strong")]
    return [*lines, *(_format_line(line, width) for line in group.lines), Content(" " * width)]


def _format_line(line: KeyLine, width: int) -> Content:
    words = _truncate(line.words, width - KEY_CELLS)
    room = width - KEY_CELLS - formats.cell_len(words) - 2
    more = _truncate(line.more, room) if line.more and room >= 6 else ""
    formatted = Content.assemble(
        (formats.fit_to_width(line.keys, KEY_CELLS - 1) + " ", "b $accented"),
        words,
        (f"  {more}" if more else "", "$muted"),
    )
    return Content.assemble(formatted, " " * max(0, width - formatted.cell_length))


def _truncate(text: str, width: int) -> str:
    return formats.fit_to_width(text, width).rstrip()


def _balance_columns(blocks: Sequence[list[Content]], columns: int) -> list[list[Content]]:
    """Distribute the groups over the columns. Each group goes whole into the shortest column."""
    sides: list[list[Content]] = [[] for _ in range(columns)]
    for block in blocks:
        min(sides, key=len).extend(block)
    return [side[:-1] for side in sides]  # drops the blank line at the end
