"""Replace what Textual prints for an uncaught exception, so that no secrets are shown.

Textual prints the values of all variables, including passwords and the bodies of jobs. If this hook does not support
the installed Textual, a fixed sentence is printed instead; `--debug` prints everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text
from textual.app import App

from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable

FIXED_SENTENCE = "rqtui has a fault and had to stop. Nothing was lost in Redis. --debug shows its details."


def supports_installed_textual(app: App[Any]) -> bool:
    """Return whether the app stores its exception and final output in the private attributes that this hook uses."""
    return (
        has_parameters(app._fatal_error)
        and has_parameters(app._close_messages_no_wait)
        and app._exception is None
        and isinstance(app._exit_renderables, list)
    )


def install_error_output(app: App[Any], format_error: Callable[[BaseException | None], str], is_debug: bool) -> None:
    """Make an app that ends by an exception print the text that `format_error` returns for the exception.

    With `is_debug`, an unsupported version of Textual prints its own traceback; else it prints one fixed sentence.
    """
    if not is_hook_usable(supports_installed_textual, app):
        if not is_debug:
            app.error_console = DiscreetConsole(markup=False, highlight=False, stderr=True)
        return

    def print_masked_error() -> None:
        app._close_messages_no_wait()
        if not app._exit_renderables:  # a second exception follows from the first, which is reported
            app._exit_renderables.append(Text(format_error(app._exception)))

    app._fatal_error = print_masked_error  # type: ignore[method-assign]


class DiscreetConsole(Console):
    """A Rich console that prints one fixed sentence, once, whatever it is asked to print."""

    has_printed = False

    def print(self, *_objects: object, **_options: object) -> None:
        """Print the fixed sentence in place of the given objects, if it was not printed yet."""
        if not self.has_printed:
            self.has_printed = True
            super().print(FIXED_SENTENCE)
