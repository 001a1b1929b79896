"""The values that an option of a system accepts (`--system NAME:key=value`), as a test and as words.

A system declares them by option (`System.option_values`), and `System` refuses any other value when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class OptionValue(NamedTuple):
    """Whether a value fits, and which do in words: `prefix is WORDS`."""

    accepts: Callable[[str], object]
    description: str


def accept_pattern(pattern: str, words: str) -> OptionValue:
    """Accept values that a regular expression matches completely."""
    return OptionValue(re.compile(pattern).fullmatch, words)


def accept_words(*values: str) -> OptionValue:
    """Accept one of some words."""
    return OptionValue(values.__contains__, f"{', '.join(values[:-1])} or {values[-1]}")


def accept_whole_number(least: int, most: int, unit: str) -> OptionValue:
    """Accept a whole number of a unit, from `least` to `most`."""
    digits = re.compile(r"[0-9]{1,20}")
    return OptionValue(
        lambda value: digits.fullmatch(value) is not None and least <= int(value) <= most,
        f"a whole number of {unit} from {least} to {most}",
    )


NAME = accept_pattern(r"[^\s*?\[\]\\,=]+", r"a name without blanks and without *?[]\,=")
NAME_OR_NOTHING = accept_pattern(r"[^\s*?\[\]\\,=]*", rf"empty, or {NAME.description}")
"""Of keys, or of a part of them: it stands in patterns of `SCAN`, and in `--system` itself."""
