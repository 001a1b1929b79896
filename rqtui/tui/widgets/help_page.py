"""Show the help page: every key in groups, those of this screen first, in as many columns as fit.

`/` filters the lines by typed words. `help_content.build_key_groups` builds the groups.
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
    """A line of the help page: a key, its effect, and where or for which jobs it works.

    `name` is the key's name in the config file.
    """

    keys: str
    words: str
    more: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A group of lines of the help page under a title."""

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
        """Draw the list of keys when the page opens."""
        self._draw_keys()

    def on_resize(self) -> None:
        """Draw the list of keys in as many columns as fit the new size."""
        self._draw_keys()

    def _draw_keys(self) -> None:
        width = min(210, round(self.app.size.width * 0.96)) - 6
        matches = filter_key_groups(self._groups, self.query_one(Input).value)
        text = arrange_key_groups(matches, width) if matches else Content.styled("No key does that.", "$muted")
        self.query_one("#key-text", Static).update(text)

    def on_input_changed(self) -> None:
        """Filter the list of keys after each edit of the search line."""
        self._draw_keys()

    def on_input_submitted(self) -> None:
        """Keep the filtered list of keys, and let keys scroll it again."""
        self.set_focus(None)

    def action_search(self) -> None:
        """Open the search line of the help page."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Clear the search of the help page, or close the page if there is no search."""
        if not self.has_class("-searching"):
            self.dismiss()
            return
        self.remove_class("-searching")
        self.query_one(Input).value = ""
        self.set_focus(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll the list of keys by a number of lines."""
        self.query_one("#key-lines").scroll_relative(y=lines, animate=False)

    def action_ends(self, direction: int) -> None:
        """Scroll to the first (-1) or the last (1) line of the list of keys."""
        key_list = self.query_one("#key-lines")
        key_list.scroll_to(y=key_list.max_scroll_y if direction > 0 else 0, animate=False)


def filter_key_groups(groups: Sequence[KeyGroup], typed: str) -> list[KeyGroup]:
    """Return the lines of the help page that contain every typed word.

    A single character is searched only among the keys.
    """
    words = typed.strip()
    if not words:
        return list(groups)

    def does_line_match(line: KeyLine) -> bool:
        if len(words) == 1:
            return words in line.keys.split()
        text = f"{line.keys} {line.words} {line.more} {line.name}".lower()
        return all(word in text for word in words.lower().split())

    filtered = [KeyGroup(group.title, tuple(filter(does_line_match, group.lines))) for group in groups]
    return [group for group in filtered if group.lines]


def arrange_key_groups(groups: Sequence[KeyGroup], width: int) -> Content:
    """Arrange groups of keys in columns of equal width and similar height."""
    column_count = max(1, min(3, (width + GAP_CELLS) // (MIN_COLUMN_CELLS + GAP_CELLS)))
    column_width = (width - GAP_CELLS * (column_count - 1)) // column_count
    blocks = [_format_key_group(group, column_width) for group in groups]
    columns = _balance_columns(blocks, column_count)
    height = max(map(len, columns))
    blank_line = Content(" " * column_width)
    rows = [[side[y] if y < len(side) else blank_line for side in columns] for y in range(height)]
    return Content("\n").join(Content(" " * GAP_CELLS).join(row).rstrip() for row in rows)


def _format_key_group(group: KeyGroup, width: int) -> list[Content]:
    lines = [Content.styled(formats.fit_to_width(group.title, width), "b $strong")]
    return [*lines, *(_format_key_line(line, width) for line in group.lines), Content(" " * width)]


def _format_key_line(line: KeyLine, width: int) -> Content:
    effect = _truncate_text(line.words, width - KEY_CELLS)
    width_left = width - KEY_CELLS - formats.cell_len(effect) - 2
    more = _truncate_text(line.more, width_left) if line.more and width_left >= 6 else ""
    formatted = Content.assemble(
        (formats.fit_to_width(line.keys, KEY_CELLS - 1) + " ", "b $accented"),
        effect,
        (f"  {more}" if more else "", "$muted"),
    )
    return Content.assemble(formatted, " " * max(0, width - formatted.cell_length))


def _truncate_text(text: str, width: int) -> str:
    return formats.fit_to_width(text, width).rstrip()


def _balance_columns(blocks: Sequence[list[Content]], column_count: int) -> list[list[Content]]:
    """Distribute the groups over the columns. Each group goes whole into the shortest column."""
    filled: list[list[Content]] = [[] for _ in range(column_count)]
    for block in blocks:
        min(filled, key=len).extend(block)
    return [side[:-1] for side in filled]  # drops the blank line at the end
