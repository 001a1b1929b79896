"""Find the command or the keys that an ACL refused, because Redis itself only says that it refused something.

Called by `transport`, which has the script and the keys of the call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rqtui.errors import Denied

_MAX_KEYS = 3  # keys that are listed; all keys of a queue begin alike
_COMMAND = re.compile(r"run the '([^']+)' command|can't run this command")
_KEY = re.compile(r"access (?:a|one of the|at least one of the|the '.*') keys?\b", re.DOTALL)
_LINE = re.compile(r"user_script:(\d+)")
_CALLED = re.compile(r"(?:call|note)\(\s*'([A-Za-z]+)'")
HINT = "`rqtui acl ROLE QUEUE` prints what a role needs."


def add_missing_right(error: Denied, reply: str, source: str, keys: Sequence[bytes | str]) -> Denied:
    """Return `error` with the missing right, written as an ACL rule, if it can be found."""
    rule = _find_rule(reply, source, keys)
    return Denied(f"{_end_sentence(str(error))} The user lacks {rule}; {HINT}") if rule else error


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _find_rule(reply: str, source: str, keys: Sequence[bytes | str]) -> str:
    """Return the missing right as `+unlink` or `~rqtui:{mail}:ready …`; empty if the reply is not about a right."""
    if command := _COMMAND.search(reply):
        return f"+{command[1]}" if command[1] else _find_line_rule(reply, source)
    if not _KEY.search(reply) or not keys:
        return ""
    words = [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key) for key in keys]
    shown = list(dict.fromkeys(words))
    more = f" (and {len(shown) - _MAX_KEYS} more)" if len(shown) > _MAX_KEYS else ""
    return "one of ~" + " ~".join(shown[:_MAX_KEYS]) + more


def _find_line_rule(reply: str, source: str) -> str:
    return " or ".join(f"+{name.lower()}" for name in find_called_commands(reply, source))


def find_called_commands(reply: str, source: str) -> list[str]:
    """Return the commands that a script calls in the line that Redis names. Redis 7.0 and older name only the line."""
    line = _LINE.search(reply)
    lines = source.split("\n")
    if line is None or not 0 < int(line[1]) <= len(lines):
        return []
    return list(dict.fromkeys(_CALLED.findall(lines[int(line[1]) - 1])))
