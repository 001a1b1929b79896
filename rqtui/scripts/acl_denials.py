"""Missing rights: what exactly an ACL refused, where Redis says only that it refused something.

`transport` has the script and the keys of the call; this module finds the command or the keys that the user lacks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rqtui.errors import Denied

_SHOWN = 3  # keys; those of a queue begin alike
_COMMAND = re.compile(r"run the '([^']+)' command|can't run this command")
_KEY = re.compile(r"access (?:a|one of the|at least one of the) keys?|permissions to access", re.IGNORECASE)
_LINE = re.compile(r"user_script:(\d+)")
_CALLED = re.compile(r"(?:call|note)\(\s*'([A-Za-z]+)'")
HINT = "`rqtui acl ROLE QUEUE` prints what a role needs."


def named(error: Denied, said: str, source: str, keys: Sequence[bytes | str]) -> Denied:
    """The same error with the right that is missing, as a rule of an ACL has it, where that can be told."""
    rule = _rule(said, source, keys)
    return Denied(f"{_sentence(str(error))} The user lacks {rule}; {HINT}") if rule else error


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _rule(said: str, source: str, keys: Sequence[bytes | str]) -> str:
    """`+unlink`, or `~rqtui:{mail}:ready …`; empty where the reply was about something else."""
    if found := _COMMAND.search(said):
        return f"+{found[1]}" if found[1] else _of_line(said, source)
    if not _KEY.search(said) or not keys:
        return ""
    words = [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key) for key in keys]
    shown = list(dict.fromkeys(words))
    more = f" (and {len(shown) - _SHOWN} more)" if len(shown) > _SHOWN else ""
    return "one of ~" + " ~".join(shown[:_SHOWN]) + more


def _of_line(said: str, source: str) -> str:
    return " or ".join(f"+{name.lower()}" for name in called_in_line(said, source))


def called_in_line(said: str, source: str) -> list[str]:
    """The commands that the script calls in the line that Redis names: Redis 7.0 and older name no more."""
    line = _LINE.search(said)
    lines = source.split("\n")
    if line is None or not 0 < int(line[1]) <= len(lines):
        return []
    return list(dict.fromkeys(_CALLED.findall(lines[int(line[1]) - 1])))
