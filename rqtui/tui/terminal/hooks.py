"""Check and install the hooks of this package into Textual.

A hook uses private names of Textual, or relies on more than Textual promises. Each has its own module with a function
`supports_installed_textual`, which checks everything that the hook relies on, and each falls back to Textual's own
behaviour: with another version of Textual the screen works, only slower or without what the hook adds. No other package
uses private names of Textual.

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
"""The modules with `supports_installed_textual(app)` and `install_hook(app)`.

Two of them cannot be imported with another version of Textual.
"""

_Args = ParamSpec("_Args")


def install_hooks(app: App[Any]) -> None:
    """Install the app-wide hooks (driver, screen output, key order) into a Textual app that does not run yet."""
    for name in APP_HOOKS:
        is_hook_usable(_install_hook, name, app)


def _install_hook(name: str, app: App[Any]) -> bool:
    """Import a hook's module, and install the hook if it supports the installed version of Textual.

    Always returns True.
    """
    hook = import_module(f"rqtui.tui.terminal.{name}")
    if hook.supports_installed_textual(app):
        hook.install_hook(app)
    return True


def is_hook_usable(check_support: Callable[_Args, bool], *args: _Args.args, **kwargs: _Args.kwargs) -> bool:
    """Return whether a hook into Textual may be used.

    The hooks must not be turned off, and the hook's function `supports_installed_textual`, given as `check_support`,
    must return True for these arguments without an error.
    """
    if os.environ.get(SWITCH):
        return False
    try:
        return check_support(*args, **kwargs)
    except (ImportError, AttributeError, LookupError, TypeError, ValueError):
        return False


def has_parameters(function: Callable[..., object], *names: str) -> bool:
    """Return whether a function can be called with exactly these argument names in this order."""
    parameters = [
        parameter for parameter in signature(function).parameters.values() if parameter.name not in ("self", "cls")
    ]
    named_parameters = [
        parameter for parameter in parameters if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    accepts_more = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters)
    first_names = tuple(parameter.name for parameter in named_parameters[: len(names)])
    is_match = first_names == names or (accepts_more and first_names == names[: len(first_names)])
    return is_match and all(parameter.default is not Parameter.empty for parameter in named_parameters[len(names) :])
