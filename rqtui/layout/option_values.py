"""Option values: what fits an option of a layout (`--layout NAME:key=value`), and in words which values do.

A layout declares them by option (`Layout.option_values`), and `Layout` refuses any other value when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class OptionValue(NamedTuple):
    """Whether a value fits, and which do in words: `prefix is WORDS`."""

    fits: Callable[[str], object]
    words: str


def matching(pattern: str, words: str) -> OptionValue:
    """What a regular expression fits as a whole."""
    return OptionValue(re.compile(pattern).fullmatch, words)


def one_of(*values: str) -> OptionValue:
    """One of some words."""
    return OptionValue(values.__contains__, f"{', '.join(values[:-1])} or {values[-1]}")


def whole(least: int, most: int, unit: str) -> OptionValue:
    """A whole number of a unit."""
    digits = re.compile(r"[0-9]{1,20}")
    return OptionValue(
        lambda value: digits.fullmatch(value) is not None and least <= int(value) <= most,
        f"a whole number of {unit} from {least} to {most}",
    )


NAME = matching(r"[^\s*?\[\]\\,=]+", r"a name without blanks and without *?[]\,=")
NAME_OR_NOTHING = matching(r"[^\s*?\[\]\\,=]*", rf"empty, or {NAME.words}")
"""Of keys, or of a part of them: it stands in patterns of `SCAN`, and in `--layout` itself."""
