"""Raw output: sends to the terminal what is no picture, the sequences of a clipboard for one.

On a Textual that differs there is no way; what `App.copy_to_clipboard` can send goes by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from rqtui.tui.terminal.hooks import is_on, takes


def fits(app: App[Any]) -> bool:
    """Whether the app has a driver that can be written to."""
    return app._driver is not None and takes(app._driver.write, "data")


def writer(app: App[Any]) -> Callable[[str], object] | None:
    """What sends a text to the terminal as it is; it is called on the app's thread."""
    return app._driver.write if is_on(fits, app) and app._driver is not None else None
