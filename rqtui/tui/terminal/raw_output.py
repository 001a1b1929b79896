"""Send text that is not part of the painted screen to the terminal, such as clipboard sequences.

With another version of Textual there is no such way, and `App.copy_to_clipboard` is used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from rqtui.tui.terminal.hooks import has_parameters, is_usable


def fits(app: App[Any]) -> bool:
    """Return whether the app has a driver that accepts text."""
    return app._driver is not None and has_parameters(app._driver.write, "data")


def find_writer(app: App[Any]) -> Callable[[str], object] | None:
    """Return a function that sends text unchanged to the terminal, for use on the app's thread; None if unavailable."""
    return app._driver.write if is_usable(fits, app) and app._driver is not None else None
