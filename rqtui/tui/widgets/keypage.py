"""KeyPage: the help. Every key in groups, those of this screen first, in as many columns as there is room for.

`/` shows only the lines that hold what is typed; the groups are made from the tables by `help.key_groups`.
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

COLUMN = 66  # cells that a column needs, so that few lines are cut
KEYS, GAP = 12, 3


@dataclass(frozen=True, slots=True)
class Line:
    """A key, what it does, and for which jobs or where; `name` is what the config file calls it."""

    keys: str
    words: str
    more: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines under a title."""

    title: str
    lines: tuple[Line, ...]


class KeyPage(ModalScreen[None], Leavable):
    """The page of keys."""

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

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self._groups = groups

    def compose(self) -> ComposeResult:
        """A line to search, and the lines."""
        with Vertical(id="key-page") as frame:
            frame.border_title = Content(" keys ")
            frame.border_subtitle = Content(
                f" {keys.of('keys.search', '/')} search   j k scroll   {keys.of('keys.close', 'Esc')} closes "
            )
            yield Input(placeholder="what a key does, or its name", compact=True, select_on_focus=False)
            with VerticalScroll(id="key-lines", can_focus=False):
                yield Static("", id="key-text")

    def on_mount(self) -> None:
        """Draws the lines."""
        self._draw()

    def on_resize(self) -> None:
        """As many columns as fit."""
        self._draw()

    def _draw(self) -> None:
        width = min(210, round(self.app.size.width * 0.96)) - 6
        found = matching(self._groups, self.query_one(Input).value)
        text = page(found, width) if found else Content.styled("No key does that.", "$muted")
        self.query_one("#key-text", Static).update(text)

    def on_input_changed(self) -> None:
        """A letter more or less."""
        self._draw()

    def on_input_submitted(self) -> None:
        """Enter: the lines that were found stay, and the keys scroll again."""
        self.set_focus(None)

    def action_search(self) -> None:
        """Opens the line to search."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Takes the search away; without one, closes the page."""
        if not self.has_class("-searching"):
            self.dismiss()
            return
        self.remove_class("-searching")
        self.query_one(Input).value = ""
        self.set_focus(None)

    def action_scroll(self, lines: int) -> None:
        """Scrolls by lines."""
        self.query_one("#key-lines").scroll_relative(y=lines, animate=False)

    def action_ends(self, way: int) -> None:
        """The first or the last line."""
        lines = self.query_one("#key-lines")
        lines.scroll_to(y=lines.max_scroll_y if way > 0 else 0, animate=False)


def matching(groups: Sequence[Group], typed: str) -> list[Group]:
    """The lines that hold every word that was typed; a sign alone is looked for among the keys."""
    wanted = typed.strip()
    if not wanted:
        return list(groups)

    def fits(line: Line) -> bool:
        if len(wanted) == 1:
            return wanted in line.keys.split()
        text = f"{line.keys} {line.words} {line.more} {line.name}".lower()
        return all(word in text for word in wanted.lower().split())

    kept = [Group(group.title, tuple(filter(fits, group.lines))) for group in groups]
    return [group for group in kept if group.lines]


def page(groups: Sequence[Group], width: int) -> Content:
    """The groups in columns of the same width and of about the same height."""
    columns = max(1, min(3, (width + GAP) // (COLUMN + GAP)))
    wide = (width - GAP * (columns - 1)) // columns
    blocks = [_block(group, wide) for group in groups]
    sides = _balanced(blocks, columns)
    height = max(map(len, sides))
    blank = Content(" " * wide)
    rows = [[side[y] if y < len(side) else blank for side in sides] for y in range(height)]
    return Content("\n").join(Content(" " * GAP).join(row).rstrip() for row in rows)


def _block(group: Group, width: int) -> list[Content]:
    lines = [Content.styled(formats.fit(group.title, width), "b $strong")]
    return [*lines, *(_line(line, width) for line in group.lines), Content(" " * width)]


def _line(line: Line, width: int) -> Content:
    words = _cut(line.words, width - KEYS)
    room = width - KEYS - formats.cell_len(words) - 2
    more = _cut(line.more, room) if line.more and room >= 6 else ""
    made = Content.assemble(
        (formats.fit(line.keys, KEYS - 1) + " ", "b $accented"), words, (f"  {more}" if more else "", "$muted")
    )
    return Content.assemble(made, " " * max(0, width - made.cell_length))


def _cut(text: str, width: int) -> str:
    return formats.fit(text, width).rstrip()


def _balanced(blocks: Sequence[list[Content]], columns: int) -> list[list[Content]]:
    """The lines of all groups in so many columns: each group goes whole where the least stands."""
    sides: list[list[Content]] = [[] for _ in range(columns)]
    for block in blocks:
        min(sides, key=len).extend(block)
    return [side[:-1] for side in sides]  # without the blank line at its end
