"""Check and install the hooks of this package into Textual.

A hook uses private names of Textual, or relies on more than Textual promises. Each has its own module with a function
`fits`, which checks everything that the hook relies on, and each falls back to Textual's own behaviour: with another
version of Textual the screen works, only slower or without what the hook adds. No other package uses private names of
Textual.

The environment variable RQTUI_STOCK_TEXTUAL, set to any value, turns all hooks off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from textual.app import App

SWITCH = "RQTUI_STOCK_TEXTUAL"
APP_HOOKS = ("driver", "diff_output", "typeahead")
"""The modules with `fits(app)` and `install(app)`; two of them cannot be imported with another version of Textual."""

_Given = ParamSpec("_Given")


def install(app: App[Any]) -> None:
    """Install the hooks into an app that does not run yet."""
    for name in APP_HOOKS:
        is_usable(_install, name, app)


def _install(name: str, app: App[Any]) -> bool:
    """Install the hook module `name` if it fits this app."""
    module = import_module(f"rqtui.tui.terminal.{name}")
    if module.fits(app):
        module.install(app)
    return True


def is_usable(fits: Callable[_Given, bool], *given: _Given.args, **named: _Given.kwargs) -> bool:
    """Return whether a hook may be used: hooks are not turned off, and its `fits` returns True without an error."""
    if os.environ.get(SWITCH):
        return False
    try:
        return fits(*given, **named)
    except (ImportError, AttributeError, LookupError, TypeError, ValueError):
        return False


def has_parameters(function: Callable[..., object], *names: str) -> bool:
    """Return whether a function can be called with exactly these argument names in this order."""
    given = [each for each in signature(function).parameters.values() if each.name not in ("self", "cls")]
    named = [each for each in given if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    takes_more = any(each.kind is Parameter.VAR_POSITIONAL for each in given)
    first = tuple(each.name for each in named[: len(names)])
    fits = first == names or (takes_more and first == names[: len(first)])
    return fits and all(each.default is not Parameter.empty for each in named[len(names) :])
