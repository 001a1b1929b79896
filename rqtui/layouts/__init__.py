"""One module per queue system; this finds them by name and makes them. They never import one another.

Each has `LAYOUT`, a subclass of `rqtui.layout.Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from rqtui.errors import UsageError
from rqtui.layout import Layout


def names() -> list[str]:
    """The layouts there are: the modules of `rqtui/layouts`."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def make(*specs: str) -> Layout:
    """The layout that `NAME` or `NAME:key=value,key=value` asks for, several with one name; raises UsageError."""
    name = specs[0].partition(":")[0]
    return _class(name)(*(_options(spec) for spec in specs))


def make_all(specs: Sequence[str] = ()) -> list[Layout]:
    """The layouts that are asked for; none named: the native one, and every other in case its keys are there."""
    if not specs:
        first = ("native", *(name for name in names() if name != "native"))
        return [_class(name)(is_asked=name == "native") for name in first]
    groups: dict[str, list[str]] = {}
    for spec in specs:
        groups.setdefault(spec.partition(":")[0], []).append(spec)
    return [make(*group) for group in groups.values()]


def _class(name: str) -> type[Layout]:
    if name not in names():
        raise UsageError(f'there is no layout "{name}"; there are: {", ".join(names())}.')
    layout: type[Layout] = import_module(f"rqtui.layouts.{name}").LAYOUT
    return layout


def _options(spec: str) -> dict[str, str]:
    name, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f'layout {name}: "{part}" is not key=value.')
        if key.strip() in options:
            raise UsageError(f"layout {name}: {key.strip()} stands there twice; --layout may be repeated instead.")
        options[key.strip()] = value.strip()
    return options
