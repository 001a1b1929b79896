"""Text that may be long: drawn again only when it is another one, and then only the lines that are in sight."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from rqtui.text import formats
from rqtui.tui.widgets.drawn import strip

_MOST_MATCHES = 10_000


class Text(Widget):
    """A text as high as it is; of one that stays as high only the lines that changed are drawn again."""

    DEFAULT_CSS = "Text { height: auto; }"
    _shown = Content()

    def show(self, text: Content) -> None:
        """Draws this."""
        if text.is_same(self._shown):
            return
        width = self.size.width
        before, now = (self._drawn(each, width) if width else [] for each in (self._shown, text))
        self._shown = text
        if not now or len(before) != len(now):
            self.refresh(layout=True)
        else:
            changed = [y for y, line in enumerate(now) if line != before[y]]
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def rows_of(self, text: Content) -> int:
        """How many rows a text takes here."""
        return len(self._drawn(text, self.size.width)) if self.size.width else 0

    def _drawn(self, text: Content, width: int) -> list[Strip]:
        return Visual.to_strips(self, text, width, None, self.visual_style)

    def render(self) -> RenderResult:
        """The text."""
        return self._shown


class Match(NamedTuple):
    """Where something was found: the number of the line, and the letters of it."""

    line: int
    start: int
    end: int


class LongText(ScrollView, can_focus=True):
    """A scrolling text that draws no more than what is in sight: 60 kB of JSON in a `Static` took 1.2 s."""

    def __init__(self, *, id: str, classes: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._text = Content()
        self._lines: Sequence[str] = ()
        self._coloured: Callable[[str], Content] = Content  # `_look` without its memory
        self._look: Callable[[str], Content] = Content
        self._rows: list[tuple[int, int, int]] = []  # the line, and the letters of it that stand there
        self._first_row: list[int] = []  # of each line
        self._wrapped_at = 0
        self._matches: list[Match] = []
        self._at = -1  # of the matches

    def show(self, text: Content) -> None:
        """Draws this."""
        if not text.is_same(self._text):
            self._text = text
            lines = text.split("\n", allow_blank=True)
            looks = {line.plain: line for line in lines}
            self.show_lines([line.plain for line in lines], lambda line: looks[line])

    def show_lines(self, lines: Sequence[str], look: Callable[[str], Content]) -> None:
        """Draws many lines; `look` colours one of them when it comes into sight, and keeps its letters."""
        if lines != self._lines or look is not self._coloured:
            self._lines, self._coloured, self._look = lines, look, lru_cache(256)(look)
            self._matches, self._at = [], -1
            self._wrap()

    def on_resize(self) -> None:
        """Lines are as wide as the widget."""
        if self.scrollable_content_region.width != self._wrapped_at:
            self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        self._rows, self._first_row, self._wrapped_at = [], [], width
        for number, line in enumerate(self._lines if width else ()):
            self._first_row.append(len(self._rows))
            self._rows += [(number, start, end) for start, end in _parts(line, width)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    # -- search -------------------------------------------------------------------------------------------------------

    def find(self, pattern: re.Pattern[str] | None) -> tuple[int, int]:
        """Goes to the first match in or below what is in sight: (its number from 1, how many there are); None: none."""
        self._matches, self._at = [], -1
        if pattern is not None:
            for number, line in enumerate(self._lines):
                self._matches += [Match(number, *found.span()) for found in pattern.finditer(line) if found[0]]
                if len(self._matches) >= _MOST_MATCHES:
                    break
        self.refresh()
        if not self._matches or not self._rows:
            return 0, 0
        top = self._rows[min(self.scroll_offset.y, len(self._rows) - 1)]
        return self._go(max(0, bisect_right(self._matches, Match(top[0], top[1] - 1, 0))))

    def find_next(self) -> tuple[int, int]:
        """Goes to the match after the one where it is; behind the last one to the first again."""
        return self._go(self._at + 1) if self._matches else (0, 0)

    def _go(self, at: int) -> tuple[int, int]:
        self._at = at % len(self._matches)
        match = self._matches[self._at]
        row = self._first_row[match.line]
        while row + 1 < len(self._rows) and self._rows[row][0] == match.line and self._rows[row][2] <= match.start:
            row += 1
        top, room = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= row < top + room:
            self.scroll_to(y=max(0, row - room // 3), animate=False, force=True)
        self.refresh()
        return self._at + 1, len(self._matches)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Another theme: the same lines in other colours."""
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        width, at = self.size.width, y + self.scroll_offset.y
        if at >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        number, start, end = self._rows[at]
        return strip(self, self._marked(number)[start:end], width)

    def _marked(self, number: int) -> Content:
        """A line with what was found in it marked."""
        line = self._look(self._lines[number])
        first = bisect_right(self._matches, Match(number, -1, 0))
        for at in range(first, len(self._matches)):
            match = self._matches[at]
            if match.line != number:
                break
            style = "$ground on $accented" if at == self._at else "underline $accented"
            line = line.stylize(style, match.start, match.end)
        return line


def _parts(line: str, width: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) letter of each row of a line: broken at spaces where there are some."""
    at = 0
    while True:
        stop = at + width if line.isascii() else _fitting(line, at, width)
        if stop >= len(line):
            yield at, len(line)
            return
        space = line.rfind(" ", at + width // 2, stop)
        stop = space + 1 if space > 0 else stop
        yield at, stop
        at = stop


def _fitting(line: str, at: int, width: int) -> int:
    """The end of the letters from `at` on that fit into `width` cells, one at least."""
    stop = min(len(line), at + width)
    while stop > at + 1 and formats.cell_len(line[at:stop]) > width:
        stop -= max(1, (formats.cell_len(line[at:stop]) - width) // 2)
    return stop
