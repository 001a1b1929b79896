"""Words that people bring along from other programs, and what they are called here: one table for commands and verbs.

None of them is taken for the word it stands for: what was not meant is not done. The answer is a sentence with the
line to write.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_TOLD = {
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
_OURS = {theirs: ours for ours, words in _TOLD.items() for theirs in words.split()}


def same(word: str, known: Collection[str]) -> str:
    """The known word that this one is, or is said to stand for; "" where there is none."""
    ours = _OURS.get(word.lower(), word)
    return ours if ours in known else ""


def meant(word: str, known: Collection[str], likeness: float = 0.5) -> str:
    """The known word that this one stands for, else the one that looks most like it; "" where there is none."""
    return same(word, known) or next(iter(get_close_matches(word, known, n=1, cutoff=likeness)), "")
