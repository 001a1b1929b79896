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
    """Change the part of Textual that the named hook relies on, as another version might."""
    patch.delitem(sys.modules, f"{HOOKS}.{hook}", raising=False)  # imported from an unchanged Textual
    DIFFERENCES[hook](patch)


def _move_key_parser(patch: Patch) -> None:
    """Move Textual's parser of keys to another module."""
    import_module("textual.drivers.linux_driver")  # imported before its parser is hidden
    patch.setitem(sys.modules, "textual._xterm_parser", None)


def _rename_changed_region(patch: Patch) -> None:
    """Let Textual return the changes of the screen in another class."""
    usual = _compositor.ChopsUpdate

    class Changed(_compositor.CompositorUpdate):
        def __init__(self, *args: Any) -> None:
            self.changed = usual(*args)

        def __rich_console__(self, console: Any, options: Any) -> Any:
            return self.changed.__rich_console__(console, options)

        def render_segments(self, console: Console) -> str:
            return self.changed.render_segments(console)

    patch.setattr(_compositor, "ChopsUpdate", Changed)


def _change_event_handler(patch: Patch) -> None:
    """Give Textual's event handler another argument."""
    usual = App.on_event

    async def on_event(self: App[Any], message: Any) -> None:
        await usual(self, message)

    patch.setattr(App, "on_event", on_event)


def _store_exit_output_in_deque(patch: Patch) -> None:
    """Let Textual keep the texts that it prints at the end in a deque."""
    make = App.__init__

    def create_app_with_deque(self: App[Any], *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._exit_renderables = deque()  # type: ignore[assignment]

    patch.setattr(App, "__init__", create_app_with_deque)


def _remove_style_cache(patch: Patch) -> None:
    """Remove the cache of Textual's method that computes a style."""
    patch.setattr(StylesCache, "get_inner_outer", StylesCache.get_inner_outer.__wrapped__)


def _hide_border_titles(patch: Patch) -> None:
    """Hide where a Textual widget stores the title and subtitle of its border."""

    class HiddenStorage:
        def __init__(self, usual: Any) -> None:
            self.usual = usual

        def __get__(self, widget: Widget | None, kind: type) -> Any:
            return self.usual.__get__(widget, kind)

        def __set__(self, widget: Widget, text: Any) -> None:
            self.usual.__set__(widget, text)

    for name in ("border_title", "border_subtitle"):
        patch.setattr(Widget, name, HiddenStorage(Widget.__dict__[name]))


def _rename_scroll_argument(patch: Patch) -> None:
    """Rename the argument that sets a Textual widget's length."""
    usual = Widget._scroll_update

    def _scroll_update(self: Widget, length: Size) -> None:
        usual(self, length)

    patch.setattr(Widget, "_scroll_update", _scroll_update)


def _rename_line_argument(patch: Patch) -> None:
    """Rename the argument that requests the lines of a Textual widget."""
    usual = StylesCache.render_widget

    def render_widget(self: StylesCache, widget: Widget, within: Region) -> Any:
        return usual(self, widget, within)

    patch.setattr(StylesCache, "render_widget", render_widget)


def _rename_screen_lines(patch: Patch) -> None:
    """Rename the method that returns the lines of Textual's screen."""
    strips = Compositor.render_strips
    patch.setattr(Compositor, "strips", strips, raising=False)
    patch.setattr(Compositor, "__rich__", lambda self: StripRenderable(strips(self)))
    patch.delattr(Compositor, "render_strips")


def _rename_driver_argument(patch: Patch) -> None:
    """Rename the argument of the write method of Textual's driver."""
    usual = HeadlessDriver.write

    def write_renamed_argument(self: HeadlessDriver, text: str) -> None:
        usual(self, text)

    patch.setattr(HeadlessDriver, "write", write_renamed_argument)


DIFFERENCES: dict[str, Callable[[Patch], None]] = {
    "driver": _move_key_parser,
    "diff_output": _rename_changed_region,
    "typeahead": _change_event_handler,
    "uncaught_error": _store_exit_output_in_deque,
    "style_cache": _remove_style_cache,
    "border_title": _hide_border_titles,
    "scroll_length": _rename_scroll_argument,
    "line_cache": _rename_line_argument,
    "screen_text": _rename_screen_lines,
    "raw_output": _rename_driver_argument,
}

if __name__ == "__main__":
    from rqtui.cli.main import main

    apply_difference(sys.argv[1], Patch())
    sys.exit(main(sys.argv[2:]))
