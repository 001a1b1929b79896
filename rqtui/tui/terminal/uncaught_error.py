"""Replace what Textual prints for an uncaught exception, so that no secrets are shown.

Textual prints the values of all variables, including passwords and the bodies of jobs. If this hook does not fit, a
fixed sentence is printed instead; `--debug` prints everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text
from textual.app import App

from rqtui.tui.terminal.hooks import has_parameters, is_usable

SENTENCE = "rqtui has a fault and had to stop. Nothing was lost in Redis. --debug shows its details."


def fits(app: App[Any]) -> bool:
    """Return whether the app stores its exception and its final output under the names that this hook uses."""
    return (
        has_parameters(app._fatal_error)
        and has_parameters(app._close_messages_no_wait)
        and app._exception is None
        and isinstance(app._exit_renderables, list)
    )


def install(app: App[Any], words: Callable[[BaseException | None], str], is_debug: bool) -> None:
    """Make an app that ends by an exception print the text that `words` returns for the exception."""
    if not is_usable(fits, app):
        if not is_debug:
            app.error_console = DiscreetConsole(markup=False, highlight=False, stderr=True)
        return

    def fatal_error() -> None:
        app._close_messages_no_wait()
        if not app._exit_renderables:  # a second exception follows from the first, which is reported
            app._exit_renderables.append(Text(words(app._exception)))

    app._fatal_error = fatal_error  # type: ignore[method-assign]


class DiscreetConsole(Console):
    """A console that prints one fixed sentence, once, whatever it is asked to print."""

    has_printed = False

    def print(self, *_objects: object, **_options: object) -> None:
        """Print the sentence if it was not printed yet."""
        if not self.has_printed:
            self.has_printed = True
            super().print(SENTENCE)
