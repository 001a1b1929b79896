"""Send text that is not part of the painted screen to the terminal, such as clipboard sequences.

If the installed version of Textual is not supported, `App.copy_to_clipboard` is used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable


def supports_installed_textual(app: App[Any]) -> bool:
    """Return whether the app has a terminal driver that accepts raw text."""
    return app._driver is not None and has_parameters(app._driver.write, "data")


def find_terminal_writer(app: App[Any]) -> Callable[[str], object] | None:
    """Return a function that sends text unchanged to the terminal, or None with an unsupported version of Textual.

    The function must be called on the app's thread.
    """
    return app._driver.write if is_hook_usable(supports_installed_textual, app) and app._driver is not None else None
