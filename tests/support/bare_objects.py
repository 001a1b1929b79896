"""Call the methods of a view or widget without a screen: `Bare` has them, and only the attributes that a test gives.

An `Actor` stands for the app, a table or a session: it writes down what was called. `describe` formats the values for a
kept text.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

from textual.content import Content

from rqtui.model import Ref, Snapshot
from rqtui.systems import registry
from rqtui.text.pieces import Piece
from rqtui.tui.format.rows import Row
from rqtui.tui.view import View


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


SYSTEMS = {name: registry.create_system(name) for name in ("native", "celery", "dispatcher", "rq")}
NOW_MS = 1_800_000_000_000
_SCREEN_ATTRIBUTES = vars(View())


def build_bare_view(log: list[str], new: View, *refs: Ref, **attributes: Any) -> Any:
    """Return a `Bare` view with the attributes of a new one. Its host, table and session write down their calls."""
    session = Actor(
        log, "session", systems=SYSTEMS, refs=list(refs), is_replay=False, is_read_only=False, now_ms=NOW_MS,
        format_name=lambda ref: f"{ref.system}:{ref.queue}", ambiguous_names=frozenset(), snapshot=None, replay=None,
        settings=SimpleNamespace(is_ascii=False, is_recording=False), find_foreign_system_name=lambda _ref: "",
        largest_causes=(), death_causes={}, engine=None, demo=None,
        journal=Actor(log, "journal", operations=[], problem="", who="me", load_earlier_operations=list),
        list_recent_entries=lambda rows: log.append(f"recent {rows}") or [],
        has_requested_job=lambda *_: True,
    )  # fmt: skip
    table = Actor(
        log, "table", cursor_id=None, rows=[], visible_range=(0, 3), follow_head=True, is_touched=False,
        painter=SimpleNamespace(columns=()), move_to=lambda row_id: log.append(f"move {row_id}") or True,
    )  # fmt: skip
    details = Actor(
        log, "details", display=True, border_title=None, border_subtitle=None,
        scrollable_content_region=Size(60, 12), content_size=Size(60, 12),
        show_text=lambda text: log.append(f"show {text.plain!r}"),
    )  # fmt: skip
    usual: dict[str, Any] = {
        **{name: value for name, value in vars(new).items() if name not in _SCREEN_ATTRIBUTES},
        "session": session, "host": Actor(log, "host", check_verb=lambda _key: None), "table": table, "_table": table,
        "app": Actor(log, "app", size=Size(120, 40)), "size": Size(120, 40), "is_drawn": True, "is_frozen": False,
        "has_preview": True, "is_large": True, "filter_text": "", "query_one": lambda *_: details, "is_on_top": True,
        "fit_table_height": lambda _table, rows: log.append(f"fit {rows} rows"), "focused": None,
        "measure_details_width": lambda _pane: 60, "leave_findings": lambda: False, "details": details,
        "call_after_refresh": lambda call, *_: log.append(f"later {getattr(call, '__name__', 'call')}"),
        "set_class": lambda is_set, name: log.append(f"class {name} {is_set}"),
    }  # fmt: skip
    return Bare(type(new), **{**usual, **attributes})


def silence(view: Any, *names: str) -> Any:
    """Replace methods of a view by ones that only write their call."""
    calls = Actor(view.host._log, "view")
    vars(view).update({name: getattr(calls, name) for name in names})
    return view


def describe_new(view: View) -> str:
    """Return the numbers, texts and limits with which a new view begins."""
    kept = {
        name: value.maxlen if isinstance(value, deque) else value
        for name, value in vars(view).items()
        if name not in _SCREEN_ATTRIBUTES and isinstance(value, int | float | str | tuple | deque)
    }
    return f"{type(view).__name__} {describe(kept)}"
