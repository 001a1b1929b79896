"""Fault: what Textual prints of an error that nobody caught, in other words than its own.

Its own hold the values of all variables, and among those are passwords and the bodies of jobs. Where this hook does
not fit, a sentence stands in for them; `--debug` lets them through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text
from textual.app import App

from rqtui.tui.terminal.hooks import is_on, takes

SENTENCE = "rqtui has a fault and had to stop. Nothing was lost in Redis. --debug shows its details."


def fits(app: App[Any]) -> bool:
    """Whether the app keeps its error and what it prints at its end where it did when this was written."""
    return (
        takes(app._fatal_error)
        and takes(app._close_messages_no_wait)
        and app._exception is None
        and isinstance(app._exit_renderables, list)
    )


def install(app: App[Any], words: Callable[[BaseException | None], str], is_debug: bool) -> None:
    """Lets an app that ends by an error say `words` of it, which get the error."""
    if not is_on(fits, app):
        if not is_debug:
            app.error_console = Discreet(markup=False, highlight=False, stderr=True)
        return

    def fatal_error() -> None:
        app._close_messages_no_wait()
        if not app._exit_renderables:  # else it came of the first: that one tells
            app._exit_renderables.append(Text(words(app._exception)))

    app._fatal_error = fatal_error  # type: ignore[method-assign]


class Discreet(Console):
    """Prints the sentence, once, whatever it is given."""

    has_told = False

    def print(self, *_objects: object, **_options: object) -> None:
        """Prints the sentence."""
        if not self.has_told:
            self.has_told = True
            super().print(SENTENCE)
