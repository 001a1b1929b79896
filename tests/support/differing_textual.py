"""Change Textual as another version might: one difference for each hook in `rqtui/tui/terminal/`.

Textual still works after each change, in which a name, an argument or a type is another one.

    apply_difference("driver", monkeypatch)
    python -m differing_textual driver redis://…     runs rqtui on a Textual with this difference
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


def apply_difference(hook: str, patch: Patch) -> None:
    """Change the part of Textual that this hook relies on."""
    patch.delitem(sys.modules, f"{HOOKS}.{hook}", raising=False)  # imported from an unchanged Textual
    DIFFERENCES[hook](patch)


def _driver(patch: Patch) -> None:
    """Move the parser of keys to another module."""
    import_module("textual.drivers.linux_driver")  # imported before its parser is hidden
    patch.setitem(sys.modules, "textual._xterm_parser", None)


def _diff_output(patch: Patch) -> None:
    """Return the changes of the screen in another class."""
    usual = _compositor.ChopsUpdate

    class Changed(_compositor.CompositorUpdate):
        def __init__(self, *args: Any) -> None:
            self.changed = usual(*args)

        def __rich_console__(self, console: Any, options: Any) -> Any:
            return self.changed.__rich_console__(console, options)

        def render_segments(self, console: Console) -> str:
            return self.changed.render_segments(console)

    patch.setattr(_compositor, "ChopsUpdate", Changed)


def _typeahead(patch: Patch) -> None:
    """Give the event handler another argument."""
    usual = App.on_event

    async def on_event(self: App[Any], message: Any) -> None:
        await usual(self, message)

    patch.setattr(App, "on_event", on_event)


def _uncaught_error(patch: Patch) -> None:
    """Keep what is printed at the end in a deque."""
    make = App.__init__

    def init(self: App[Any], *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._exit_renderables = deque()  # type: ignore[assignment]

    patch.setattr(App, "__init__", init)


def _style_cache(patch: Patch) -> None:
    """Remove the cache of the method."""
    patch.setattr(StylesCache, "get_inner_outer", StylesCache.get_inner_outer.__wrapped__)


def _border_title(patch: Patch) -> None:
    """Hide where a widget stores the title and subtitle of its border."""

    class HiddenStorage:
        def __init__(self, usual: Any) -> None:
            self.usual = usual

        def __get__(self, widget: Widget | None, kind: type) -> Any:
            return self.usual.__get__(widget, kind)

        def __set__(self, widget: Widget, text: Any) -> None:
            self.usual.__set__(widget, text)

    for name in ("border_title", "border_subtitle"):
        patch.setattr(Widget, name, HiddenStorage(Widget.__dict__[name]))


def _scroll_length(patch: Patch) -> None:
    """Rename the argument that sets a widget's length."""
    usual = Widget._scroll_update

    def _scroll_update(self: Widget, length: Size) -> None:
        usual(self, length)

    patch.setattr(Widget, "_scroll_update", _scroll_update)


def _line_cache(patch: Patch) -> None:
    """Rename the argument that requests a widget's lines."""
    usual = StylesCache.render_widget

    def render_widget(self: StylesCache, widget: Widget, within: Region) -> Any:
        return usual(self, widget, within)

    patch.setattr(StylesCache, "render_widget", render_widget)


def _screen_text(patch: Patch) -> None:
    """Rename the method that returns the lines of the screen."""
    strips = Compositor.render_strips
    patch.setattr(Compositor, "strips", strips, raising=False)
    patch.setattr(Compositor, "__rich__", lambda self: StripRenderable(strips(self)))
    patch.delattr(Compositor, "render_strips")


def _raw_output(patch: Patch) -> None:
    """Rename the argument of the driver."""
    usual = HeadlessDriver.write

    def write(self: HeadlessDriver, text: str) -> None:
        usual(self, text)

    patch.setattr(HeadlessDriver, "write", write)


DIFFERENCES: dict[str, Callable[[Patch], None]] = {
    "driver": _driver,
    "diff_output": _diff_output,
    "typeahead": _typeahead,
    "uncaught_error": _uncaught_error,
    "style_cache": _style_cache,
    "border_title": _border_title,
    "scroll_length": _scroll_length,
    "line_cache": _line_cache,
    "screen_text": _screen_text,
    "raw_output": _raw_output,
}

if __name__ == "__main__":
    from rqtui.cli.main import main

    apply_difference(sys.argv[1], Patch())
    sys.exit(main(sys.argv[2:]))
