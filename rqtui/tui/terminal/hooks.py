"""Hooks: what this package reaches into Textual for, when that may be done, and what is put into an app.

A hook uses private names of Textual, or relies on more than Textual promises. Each stands in a file of its own with a
`fits`, which looks for all that the hook relies on, and each has Textual's own behaviour as its way out: on a Textual
that differs the screen works, only slower, or without what the hook adds. No other package has such names.

The environment variable RQTUI_STOCK_TEXTUAL, set to anything, turns all hooks off.
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
IN_THE_APP = ("driver", "diff_output", "typeahead")
"""The modules with `fits(app)` and `install(app)`; two of them cannot even be imported where Textual differs."""

_Given = ParamSpec("_Given")


def install(app: App[Any]) -> None:
    """Puts hooks into an app that does not run yet."""
    for name in IN_THE_APP:
        is_on(_install, name, app)


def _install(name: str, app: App[Any]) -> bool:
    module = import_module(f"rqtui.tui.terminal.{name}")
    if module.fits(app):
        module.install(app)
    return True


def is_on(fits: Callable[_Given, bool], *given: _Given.args, **named: _Given.kwargs) -> bool:
    """Whether a hook may be used: hooks are not turned off, and `fits` finds what the hook relies on."""
    if os.environ.get(SWITCH):
        return False
    try:
        return fits(*given, **named)
    except (ImportError, AttributeError, LookupError, TypeError, ValueError):
        return False


def takes(function: Callable[..., object], *names: str) -> bool:
    """Whether a function can be called with arguments of these names, in this order, and with no others."""
    given = [each for each in signature(function).parameters.values() if each.name not in ("self", "cls")]
    named = [each for each in given if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    takes_more = any(each.kind is Parameter.VAR_POSITIONAL for each in given)
    first = tuple(each.name for each in named[: len(names)])
    fits = first == names or (takes_more and first == names[: len(first)])
    return fits and all(each.default is not Parameter.empty for each in named[len(names) :])
