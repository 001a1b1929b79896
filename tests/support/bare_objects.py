"""Call the methods of a view or widget without a screen: `Bare` has them, and only the attributes that a test gives.

An `Actor` stands for the app, a table or a session: it writes down what was called. `describe` formats the values for a
kept text.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from types import FunctionType
from typing import Any, NamedTuple

from textual.content import Content

from rqtui.model import Ref, Snapshot
from rqtui.text.pieces import Piece
from rqtui.tui.format.rows import Row


class Bare:
    """An object with the methods and properties of a class, whose `__init__` did not run.

    Given attributes precede those of the class. A property is computed at each access. `isinstance` and `super` take
    the object for one of the class.
    """

    __class__ = property(lambda self: self.__dict__["_class"])  # type: ignore[assignment]

    def __init__(self, cls: type[Any], **attributes: Any) -> None:
        self.__dict__.update(attributes, _class=cls)

    def __getattr__(self, name: str) -> Any:
        try:
            value = inspect.getattr_static(self.__dict__["_class"], name)
        except AttributeError:
            raise AttributeError(f"the test gives no {name}") from None
        if isinstance(value, property):
            assert value.fget
            return value.fget(self)
        if isinstance(value, cached_property):
            return value.func(self)
        if isinstance(value, staticmethod):
            return value.__func__
        return partial(value, self) if isinstance(value, FunctionType) else value


class Actor:
    """An object whose methods write their calls into `log`, each as a line, and return None."""

    def __init__(self, log: list[str], name: str, **attributes: Any) -> None:
        self.__dict__.update(attributes, _log=log, _name=name)

    def __getattr__(self, method: str) -> Any:
        def write_call(*args: Any, **options: Any) -> None:
            arguments = [*map(describe, args), *(f"{name}={describe(value)}" for name, value in options.items())]
            self._log.append(f"{self._name}.{method}({', '.join(arguments)})")

        if method.startswith("__"):
            raise AttributeError(method)
        return write_call


class Size(NamedTuple):
    """The size of a terminal or widget in cells and rows, as Textual has it."""

    width: int
    height: int


def take(log: list[str]) -> str:
    """Return the lines of a log as one line, and empty the log."""
    text = " | ".join(log) or "nothing"
    log.clear()
    return text


def describe(value: Any) -> str:
    """Format a value without addresses, and texts with the names of their styles."""
    if isinstance(value, Actor):
        return str(value._name)
    if isinstance(value, Content):
        return repr(value.markup)
    if isinstance(value, Piece):
        return f"{value.text}<{value.style}>"
    if isinstance(value, Row):
        return str(value.id)
    if isinstance(value, Snapshot):
        return f"Snapshot({value.taken_ms})"
    if isinstance(value, Ref):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{describe(key)}: {describe(item)}' for key, item in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(describe, value)))}}}"
    if isinstance(value, tuple) and hasattr(value, "_fields") or is_dataclass(value):
        names = value._fields if isinstance(value, tuple) else [field.name for field in fields(value)]
        return f"{type(value).__name__}({', '.join(describe(getattr(value, name)) for name in names)})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(describe, value))}]"
    if callable(value):
        return "…"
    return repr(value) if isinstance(value, str | bytes | int | float | None) else type(value).__name__
