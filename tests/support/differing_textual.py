"""Textuals that differ from the one that the hooks in `rqtui/tui/terminal/` were written for, a difference per hook.

Each still works for itself, as another version of Textual would: a name is another one, an argument, or a shape.

    differ("driver", monkeypatch)
    python -m differing_textual driver redis://…     the program, on a Textual that differs so
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from rich.console import Console
from textual import _compositor
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Region, Size
from textual.strip import StripRenderable
from textual.widget import Widget

Patch = pytest.MonkeyPatch
HOOKS = "rqtui.tui.terminal"


def differ(hook: str, patch: Patch) -> None:
    """Makes Textual differ in what this hook relies on."""
    patch.delitem(sys.modules, f"{HOOKS}.{hook}", raising=False)  # what was imported of the usual Textual
    DIFFERENCES[hook](patch)


def _driver(patch: Patch) -> None:
    """The parser of keys stands in another module."""
    import_module("textual.drivers.linux_driver")  # it knows where
    patch.setitem(sys.modules, "textual._xterm_parser", None)


def _diff_output(patch: Patch) -> None:
    """What changed on the screen is told in another shape."""
    usual = _compositor.ChopsUpdate

    class Changed(_compositor.CompositorUpdate):
        def __init__(self, *given: Any) -> None:
            self.changed = usual(*given)

        def __rich_console__(self, console: Any, options: Any) -> Any:
            return self.changed.__rich_console__(console, options)

        def render_segments(self, console: Console) -> str:
            return self.changed.render_segments(console)

    patch.setattr(_compositor, "ChopsUpdate", Changed)


def _typeahead(patch: Patch) -> None:
    """Events come with another argument."""
    usual = App.on_event

    async def on_event(self: App[Any], message: Any) -> None:
        await usual(self, message)

    patch.setattr(App, "on_event", on_event)


def _fault(patch: Patch) -> None:
    """What is printed at the end stands in another kind of list."""
    make = App.__init__

    def init(self: App[Any], *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        self._exit_renderables = deque()  # type: ignore[assignment]

    patch.setattr(App, "__init__", init)


def _style_cache(patch: Patch) -> None:
    """The method has no cache."""
    patch.setattr(StylesCache, "get_inner_outer", StylesCache.get_inner_outer.__wrapped__)


def _frame_words(patch: Patch) -> None:
    """A widget does not tell where it keeps the words of its frame."""

    class Words:
        def __init__(self, usual: Any) -> None:
            self.usual = usual

        def __get__(self, widget: Widget | None, kind: type) -> Any:
            return self.usual.__get__(widget, kind)

        def __set__(self, widget: Widget, words: Any) -> None:
            self.usual.__set__(widget, words)

    for name in ("border_title", "border_subtitle"):
        patch.setattr(Widget, name, Words(Widget.__dict__[name]))


def _scroll_length(patch: Patch) -> None:
    """A widget's length is told by another argument."""
    usual = Widget._scroll_update

    def _scroll_update(self: Widget, length: Size) -> None:
        usual(self, length)

    patch.setattr(Widget, "_scroll_update", _scroll_update)


def _kept_lines(patch: Patch) -> None:
    """A widget's lines are asked for by another argument."""
    usual = StylesCache.render_widget

    def render_widget(self: StylesCache, widget: Widget, within: Region) -> Any:
        return usual(self, widget, within)

    patch.setattr(StylesCache, "render_widget", render_widget)


def _screen_text(patch: Patch) -> None:
    """The screen is asked for its lines by another name."""
    strips = Compositor.render_strips
    patch.setattr(Compositor, "strips", strips, raising=False)
    patch.setattr(Compositor, "__rich__", lambda self: StripRenderable(strips(self)))
    patch.delattr(Compositor, "render_strips")


def _raw_output(patch: Patch) -> None:
    """The driver takes another argument."""
    usual = HeadlessDriver.write

    def write(self: HeadlessDriver, text: str) -> None:
        usual(self, text)

    patch.setattr(HeadlessDriver, "write", write)


DIFFERENCES: dict[str, Callable[[Patch], None]] = {
    "driver": _driver,
    "diff_output": _diff_output,
    "typeahead": _typeahead,
    "fault": _fault,
    "style_cache": _style_cache,
    "frame_words": _frame_words,
    "scroll_length": _scroll_length,
    "kept_lines": _kept_lines,
    "screen_text": _screen_text,
    "raw_output": _raw_output,
}

if __name__ == "__main__":
    from rqtui.cli.main import main

    differ(sys.argv[1], Patch())
    sys.exit(main(sys.argv[2:]))
