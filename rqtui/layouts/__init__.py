"""One module per queue system; this finds them by name and makes them. They never import one another.

Each has `LAYOUT`, a subclass of `rqtui.layout.Layout`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from rqtui.errors import UsageError
from rqtui.layout import Layout


def names() -> list[str]:
    """The layouts there are: the modules of `rqtui/layouts`."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def make(spec: str) -> Layout:
    """The layout that `NAME` or `NAME:key=value,key=value` asks for; raises UsageError listing what there is."""
    name, _, rest = spec.partition(":")
    if name not in names():
        raise UsageError(f'there is no layout "{name}"; there are: {", ".join(names())}.')
    options: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f'layout {name}: "{part}" is not key=value.')
        options[key.strip()] = value.strip()
    module = import_module(f"rqtui.layouts.{name}")
    layout: Layout = module.LAYOUT(options)
    return layout
