"""Provide the dialog that shows a page of text to read, such as an operation or a demo's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from rqtui.tui import keys
from rqtui.tui.widgets.leavable import Leavable


class Pages(ModalScreen[None], Leavable):
    """A dialog with a page of text to read, such as a demo's help. `rebuild` builds the text again each second."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,t,w,d,enter", "dismiss(None)", "close", show=False, id="page.close"),
        Binding("j,down", "scroll(1)", show=False, id="page.down"),
        Binding("k,up", "scroll(-1)", show=False, id="page.up"),
        Binding("space,pagedown", "scroll(10)", show=False, id="page.page-down"),
        Binding("pageup", "scroll(-10)", show=False, id="page.page-up"),
    ]

    def __init__(self, title: str, text: Content, rebuild: Callable[[], Content] | None = None) -> None:
        super().__init__()
        self._title, self._text, self._rebuild_text = title, text, rebuild

    def compose(self) -> ComposeResult:
        """Create one scrolling text in a frame."""
        with VerticalScroll(id="page") as page:
            page.border_title = Content(f" {self._title} ")
            page.border_subtitle = Content(f" j k scroll   {keys.find_dialog_key('page.close', 'Esc')} closes ")
            yield Static(self._text, id="page-text")

    def on_mount(self) -> None:
        """Start to rebuild a page that changes over time every second."""
        if self._rebuild_text is not None:
            self.set_interval(1.0, self._update_text)

    def _update_text(self) -> None:
        text = self._rebuild_text() if self._rebuild_text else self._text
        if not text.is_same(self._text):
            self._text = text
            self.query_one("#page-text", Static).update(text)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text by a number of lines."""
        self.query_one("#page").scroll_relative(y=lines, animate=False)
