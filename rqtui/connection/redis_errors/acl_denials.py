"""Find the command or the keys that an ACL refused, because Redis itself only says that something was refused.

Called by `scripts/transport.py`, which has the script and the keys of the call.
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
    """Add the ACL rule that the user lacks to the text of a Denied error, if the rule can be found."""
    rule = _find_missing_rule(reply, source, keys)
    return Denied(f"{_add_full_stop(str(error))} The user lacks {rule}; {HINT}") if rule else error


def _add_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _find_missing_rule(reply: str, source: str, keys: Sequence[bytes | str]) -> str:
    """Return the ACL rule that the user lacks, as `+unlink` or `~rqtui:{mail}:ready …`.

    Empty if the reply is not about a missing right.
    """
    if command := _COMMAND.search(reply):
        return f"+{command[1]}" if command[1] else _find_missing_command_rule(reply, source)
    if not _KEY.search(reply) or not keys:
        return ""
    key_texts = [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key) for key in keys]
    distinct_keys = list(dict.fromkeys(key_texts))
    rest_text = f" (and {len(distinct_keys) - _MAX_KEYS} more)" if len(distinct_keys) > _MAX_KEYS else ""
    return "one of ~" + " ~".join(distinct_keys[:_MAX_KEYS]) + rest_text


def _find_missing_command_rule(reply: str, source: str) -> str:
    return " or ".join(f"+{name.lower()}" for name in find_called_commands(reply, source))


def find_called_commands(reply: str, source: str) -> list[str]:
    """Return the Redis commands in the line of a script that an error names. Redis 7.0 and older name only the line."""
    line = _LINE.search(reply)
    lines = source.split("\n")
    if line is None or not 0 < int(line[1]) <= len(lines):
        return []
    return list(dict.fromkeys(_CALLED.findall(lines[int(line[1]) - 1])))
