"""Widgets for long texts that redraw only what changed and only the visible lines."""

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
from rqtui.tui.widgets.lines_pane import render_strip

_MAX_MATCHES = 10_000


class Text(Widget):
    """A text widget as high as its text. If the height stays, only lines that changed are redrawn."""

    DEFAULT_CSS = "Text { height: auto; }"
    _shown = Content()

    def show_text(self, text: Content) -> None:
        """Show a text and redraw the lines that changed."""
        if text.is_same(self._shown):
            return
        width = self.size.width
        before, now = (self._render_strips(each, width) if width else [] for each in (self._shown, text))
        self._shown = text
        if not now or len(before) != len(now):
            self.refresh(layout=True)
        else:
            changed = [y for y, line in enumerate(now) if line != before[y]]
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def count_rows(self, text: Content) -> int:
        """Return the number of rows that a text takes in this widget."""
        return len(self._render_strips(text, self.size.width)) if self.size.width else 0

    def _render_strips(self, text: Content, width: int) -> list[Strip]:
        return Visual.to_strips(self, text, width, None, self.visual_style)

    def render(self) -> RenderResult:
        """Return the text."""
        return self._shown


class Match(NamedTuple):
    """The position of a search match: the line number, and its first and last + 1 character."""

    line: int
    start: int
    end: int


class LongText(ScrollView, can_focus=True):
    """A scrolling text that draws only the visible lines: 60 kB of JSON in a `Static` took 1.2 s."""

    def __init__(self, *, id: str, classes: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._text = Content()
        self._lines: Sequence[str] = ()
        self._colour_line: Callable[[str], Content] = Content  # `_colour_line_cached` without its cache
        self._colour_line_cached: Callable[[str], Content] = Content
        self._rows: list[tuple[int, int, int]] = []  # line number, and its first and last + 1 character in this row
        self._first_row: list[int] = []  # first row of each line
        self._wrapped_at = 0
        self._matches: list[Match] = []
        self._current_match = -1  # index of the current match

    def show_text(self, text: Content) -> None:
        """Show a text."""
        if not text.is_same(self._text):
            self._text = text
            lines = text.split("\n", allow_blank=True)
            looks = {line.plain: line for line in lines}
            self.show_lines([line.plain for line in lines], lambda line: looks[line])

    def show_lines(self, lines: Sequence[str], look: Callable[[str], Content]) -> None:
        """Show many lines. `look` colours a line when it becomes visible, and must keep its characters."""
        if lines != self._lines or look is not self._colour_line:
            self._lines, self._colour_line, self._colour_line_cached = lines, look, lru_cache(256)(look)
            self._matches, self._current_match = [], -1
            self._wrap()

    def on_resize(self) -> None:
        """Wrap the lines again for a new width."""
        if self.scrollable_content_region.width != self._wrapped_at:
            self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        self._rows, self._first_row, self._wrapped_at = [], [], width
        for number, line in enumerate(self._lines if width else ()):
            self._first_row.append(len(self._rows))
            self._rows += [(number, start, end) for start, end in _wrap_line(line, width)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    # -- search -------------------------------------------------------------------------------------------------------

    def find_first(self, pattern: re.Pattern[str] | None) -> tuple[int, int]:
        """Go to the first match from the top visible line on.

        Return (number of the match from 1, number of matches), or (0, 0). A pattern of None clears the matches.
        """
        self._matches, self._current_match = [], -1
        if pattern is not None:
            for number, line in enumerate(self._lines):
                self._matches += [Match(number, *found.span()) for found in pattern.finditer(line) if found[0]]
                if len(self._matches) >= _MAX_MATCHES:
                    break
        self.refresh()
        if not self._matches or not self._rows:
            return 0, 0
        top = self._rows[min(self.scroll_offset.y, len(self._rows) - 1)]
        return self._go_to_match(max(0, bisect_right(self._matches, Match(top[0], top[1] - 1, 0))))

    def find_next(self) -> tuple[int, int]:
        """Go to the next match, and from the last one to the first. Return (number of the match from 1, matches)."""
        return self._go_to_match(self._current_match + 1) if self._matches else (0, 0)

    def _go_to_match(self, at: int) -> tuple[int, int]:
        self._current_match = at % len(self._matches)
        match = self._matches[self._current_match]
        row = self._first_row[match.line]
        while row + 1 < len(self._rows) and self._rows[row][0] == match.line and self._rows[row][2] <= match.start:
            row += 1
        top, room = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= row < top + room:
            self.scroll_to(y=max(0, row - room // 3), animate=False, force=True)
        self.refresh()
        return self._current_match + 1, len(self._matches)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Redraw the lines after the theme changed."""
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the widget."""
        width, at = self.size.width, y + self.scroll_offset.y
        if at >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        number, start, end = self._rows[at]
        return render_strip(self, self._highlight_matches(number)[start:end], width)

    def _highlight_matches(self, number: int) -> Content:
        """Return a line with its matches highlighted."""
        line = self._colour_line_cached(self._lines[number])
        first = bisect_right(self._matches, Match(number, -1, 0))
        for at in range(first, len(self._matches)):
            match = self._matches[at]
            if match.line != number:
                break
            style = "$ground on $accented" if at == self._current_match else "underline $accented"
            line = line.stylize(style, match.start, match.end)
        return line


def _wrap_line(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) character of each row of a wrapped line, broken at spaces if possible."""
    at = 0
    while True:
        stop = at + width if line.isascii() else _find_fitting_end(line, at, width)
        if stop >= len(line):
            yield at, len(line)
            return
        space = line.rfind(" ", at + width // 2, stop)
        stop = space + 1 if space > 0 else stop
        yield at, stop
        at = stop


def _find_fitting_end(line: str, at: int, width: int) -> int:
    """Return the end of the characters from `at` on that fit into `width` cells, at least one."""
    stop = min(len(line), at + width)
    while stop > at + 1 and formats.cell_len(line[at:stop]) > width:
        stop -= max(1, (formats.cell_len(line[at:stop]) - width) // 2)
    return stop
