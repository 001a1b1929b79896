"""Define which values an option of a system accepts (`--system NAME:key=value`), and describe them for error messages.

A system declares them by option (`System.option_values`), and `System` refuses any other value when it is created.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class OptionValue(NamedTuple):
    """The values that an option of a system accepts: a test, and a description for error messages."""

    accepts: Callable[[str], object]
    description: str


def accept_pattern_values(pattern: str, words: str) -> OptionValue:
    """Accept the values of a system's option that a regular expression matches completely."""
    return OptionValue(re.compile(pattern).fullmatch, words)


def accept_listed_words(*values: str) -> OptionValue:
    """Accept only some words as the value of a system's option."""
    return OptionValue(values.__contains__, f"{', '.join(values[:-1])} or {values[-1]}")


def accept_whole_number(least: int, most: int, unit: str) -> OptionValue:
    """Accept a whole number from `least` to `most` as the value of a system's option; `unit` is for error messages."""
    digits = re.compile(r"[0-9]{1,20}")
    return OptionValue(
        lambda value: digits.fullmatch(value) is not None and least <= int(value) <= most,
        f"a whole number of {unit} from {least} to {most}",
    )


NAME = accept_pattern_values(r"[^\s*?\[\]\\,=]+", r"a name without blanks and without *?[]\,=")
NAME_OR_NOTHING = accept_pattern_values(r"[^\s*?\[\]\\,=]*", rf"empty, or {NAME.description}")
"""A name of keys or of a part of them, which patterns of `SCAN` and the option `--system` can contain."""
