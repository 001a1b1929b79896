"""Share the parsed stylesheets of Textual between all apps of a process. Otherwise each app parses forty of them.

Parsed rules depend on the text, its location and the theme's variables, and are never changed. Textual has the same
cache for one app. On a Textual without that cache, `share_parsed_rules` does nothing.

Textual hashes a rule set by its identity in Python code, a hundred times for each widget whose styles are computed.
`object.__hash__` gives the same hash without Python code, which saves a quarter of the time.
"""

from __future__ import annotations

import functools
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet


def share_parsed_rules() -> None:
    """Share Textual's parsed stylesheet rules between all apps of this process."""
    parse = getattr(Stylesheet, "_parse_rules", None)
    if parse is None or hasattr(parse, "__wrapped__"):
        return
    parsed: dict[Any, Any] = {}

    @functools.wraps(parse)
    def parse_stylesheet_once(sheet: Any, *args: Any, **options: Any) -> Any:
        key = (args, *options.items(), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *args, **options)
        return parsed[key]

    Stylesheet._parse_rules = parse_stylesheet_once  # type: ignore[method-assign]
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]
