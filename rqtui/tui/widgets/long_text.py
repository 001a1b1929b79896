"""Provide widgets for long texts that redraw only what changed and only the visible lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from rqtui.text import formats
from rqtui.tui.widgets.lines_pane import render_text_line

_MAX_MATCHES = 10_000


class Text(Widget):
    """A text widget as high as its text. If the height stays, only lines that changed are redrawn."""

    DEFAULT_CSS = "Text { height: auto; }"
    _shown_text = Content()

    def show_text(self, text: Content) -> None:
        """Show a text and redraw the lines that changed."""
        if text.is_same(self._shown_text):
            return
        width = self.size.width
        previous_strips, strips = (
            self._render_strips(content, width) if width else [] for content in (self._shown_text, text)
        )
        self._shown_text = text
        if not strips or len(previous_strips) != len(strips):
            self.refresh(layout=True)
        else:
            changed = [y for y, line in enumerate(strips) if line != previous_strips[y]]
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def count_text_rows(self, text: Content) -> int:
        """Return the number of rows that a text takes in this widget."""
        return len(self._render_strips(text, self.size.width)) if self.size.width else 0

    def _render_strips(self, text: Content, width: int) -> list[Strip]:
        return Visual.to_strips(self, text, width, None, self.visual_style)

    def render(self) -> RenderResult:
        """Return the text that the widget shows."""
        return self._shown_text


class Match(NamedTuple):
    """The position of a search match: the line number, and its first and last + 1 character."""

    line: int
    start: int
    end: int


class LongText(ScrollView, can_focus=True):
    """A scrolling text widget that draws only the visible lines: 60 kB of JSON in a `Static` took 1.2 s."""

    def __init__(self, *, id: str, classes: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._text = Content()
        self._lines: Sequence[str] = ()
        self._colour_line: Callable[[str], Content] = Content  # `_colour_line_cached` without its cache
        self._colour_line_cached: Callable[[str], Content] = Content
        self._rows: list[tuple[int, int, int]] = []  # line number, and its first and last + 1 character in this row
        self._first_row: list[int] = []  # first row of each line
        self._wrapped_width = 0
        self._matches: list[Match] = []
        self._current_match = -1  # index of the current match

    def show_text(self, text: Content) -> None:
        """Show a long text, unless it is shown already."""
        if not text.is_same(self._text):
            self._text = text
            lines = text.split("\n", allow_blank=True)
            styled_lines = {line.plain: line for line in lines}
            self.show_lines([line.plain for line in lines], lambda line: styled_lines[line])

    def show_lines(self, lines: Sequence[str], style_line: Callable[[str], Content]) -> None:
        """Show many lines of text.

        `style_line` colours a line when it becomes visible, and must keep its characters.
        """
        if lines != self._lines or style_line is not self._colour_line:
            self._lines, self._colour_line, self._colour_line_cached = lines, style_line, lru_cache(256)(style_line)
            self._matches, self._current_match = [], -1
            self._wrap_lines()

    def on_resize(self) -> None:
        """Wrap the lines of the text again for a new width."""
        if self.scrollable_content_region.width != self._wrapped_width:
            self._wrap_lines()

    def _wrap_lines(self) -> None:
        width = self.scrollable_content_region.width
        self._rows, self._first_row, self._wrapped_width = [], [], width
        for number, line in enumerate(self._lines if width else ()):
            self._first_row.append(len(self._rows))
            self._rows += [(number, start, end) for start, end in _yield_wrapped_rows(line, width)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    # -- search -------------------------------------------------------------------------------------------------------

    def find_first_match(self, pattern: re.Pattern[str] | None) -> tuple[int, int]:
        """Search the text for a pattern, and go to the first match from the top visible line on.

        Return (number of the match from 1, number of matches), or (0, 0). A pattern of None clears the matches.
        """
        self._matches, self._current_match = [], -1
        if pattern is not None:
            found = ((number, match) for number, line in enumerate(self._lines) for match in pattern.finditer(line))
            matches = (Match(number, *match.span()) for number, match in found if match[0])
            self._matches = list(islice(matches, _MAX_MATCHES))
        self.refresh()
        if not self._matches or not self._rows:
            return 0, 0
        top = self._rows[min(self.scroll_offset.y, len(self._rows) - 1)]
        return self._go_to_match(max(0, bisect_right(self._matches, Match(top[0], top[1] - 1, 0))))

    def find_next_match(self) -> tuple[int, int]:
        """Go to the next match of the search, and from the last one to the first.

        Return (number of the match from 1, matches).
        """
        return self._go_to_match(self._current_match + 1) if self._matches else (0, 0)

    def _go_to_match(self, index: int) -> tuple[int, int]:
        self._current_match = index % len(self._matches)
        match = self._matches[self._current_match]
        row = self._first_row[match.line]
        while self._rows[row][2] <= match.start:
            row += 1
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= row < top + height:
            self.scroll_to(y=max(0, row - height // 3), animate=False, force=True)
        self.refresh()
        return self._current_match + 1, len(self._matches)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Redraw the lines of the text after the theme changed."""
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the widget."""
        width, row = self.size.width, y + self.scroll_offset.y
        if row >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        number, start, end = self._rows[row]
        return render_text_line(self, self._highlight_matches(number)[start:end], width)

    def _highlight_matches(self, number: int) -> Content:
        """Return a line of the text with its search matches highlighted."""
        line = self._colour_line_cached(self._lines[number])
        first = bisect_right(self._matches, Match(number, -1, 0))
        for index in range(first, len(self._matches)):
            match = self._matches[index]
            if match.line != number:
                break
            style = "$ground on $accented" if index == self._current_match else "underline $accented"
            line = line.stylize(style, match.start, match.end)
        return line


def _yield_wrapped_rows(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) character of each row of a wrapped line, broken at spaces if possible."""
    start = 0
    while True:
        end = start + width if line.isascii() else _find_fitting_end(line, start, width)
        if end >= len(line):
            yield start, len(line)
            return
        end = line.rfind(" ", start + width // 2, end) + 1 or end
        yield start, end
        start = end


def _find_fitting_end(line: str, start: int, width: int) -> int:
    """Return the end of the characters from `start` on that fit into `width` cells, at least one."""
    end = min(len(line), start + width)
    while end > start + 1 and formats.cell_len(line[start:end]) > width:
        end -= max(1, (formats.cell_len(line[start:end]) - width) // 2)
    return end
