"""Textual's stylesheets, parsed once for all apps of this process: each app would parse forty of them anew.

What is parsed depends on the text, on where it stands and on the theme's variables, and nobody writes to it. Textual
itself keeps it like this, but for one app. On a Textual that has no such cache nothing is done.
"""

from __future__ import annotations

import functools
from typing import Any

from textual.css.stylesheet import Stylesheet


def share() -> None:
    """Lets all apps of this process have the same parsed rules."""
    parse = getattr(Stylesheet, "_parse_rules", None)
    if parse is None or hasattr(parse, "__wrapped__"):
        return
    parsed: dict[Any, Any] = {}

    @functools.wraps(parse)
    def parse_once(sheet: Any, *what: Any, **named: Any) -> Any:
        key = (what, *named.items(), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *what, **named)
        return parsed[key]

    Stylesheet._parse_rules = parse_once  # type: ignore[method-assign]
