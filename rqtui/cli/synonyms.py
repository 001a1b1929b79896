"""Map words of other programs to the commands and verbs of rqtui, for error messages.

A synonym is never run as the command it means, since the user may have meant something else. It only appears in the
error message as a suggestion.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_SYNONYMS = {
    "snapshot": "status list ls queues queue top ps count",
    "jobs": "peek tasks messages",
    "show": "get inspect cat describe job",
    "put": "add push send publish new submit enqueue",
    "work": "run consume",
    "events": "tail watch monitor log logs history",
    "operations": "audit journal changes",
    "undo": "revert rollback",
    "metrics": "prometheus exporter",
    "health": "ping doctor",
    "config": "settings",
    "migrate": "move import",
    "requeue": "retry rerun redo replay",
    "delete": "rm remove del drop",
    "ack": "done finish complete acknowledge",
    "reject": "nack fail",
    "release": "unlock unreserve",
    "purge": "clear empty flush truncate",
    "resume": "unpause continue",
    "reschedule": "delay postpone",
    "reserve": "lease claim take",
    "pull": "pop",
    "kill": "bury",
    "extend": "renew touch",
}
_COMMAND_OF = {synonym: command for command, words in _SYNONYMS.items() for synonym in words.split()}


def find_synonym(word: str, candidates: Collection[str]) -> str:
    """Return the candidate that equals `word` or that `word` is a synonym of; "" if there is none."""
    command = _COMMAND_OF.get(word.lower(), word)
    return command if command in candidates else ""


def find_nearest_name(word: str, candidates: Collection[str], likeness: float = 0.6) -> str:
    """Return the candidate that `word` is a synonym of, else the one spelled most like `word`, else ""."""
    synonyms = (synonym for synonym, command in _COMMAND_OF.items() if command in candidates)
    near = next(iter(get_close_matches(word.lower(), [*candidates, *synonyms], n=1, cutoff=likeness)), "")
    return near if near in candidates else _COMMAND_OF.get(near, "")
