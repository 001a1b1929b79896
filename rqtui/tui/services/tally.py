"""Tally: the answers to one change, counted while they come in and put into a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rqtui.model import Outcome, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.verbs import BY_NAME

_MOVED_ON = ("wrong_place",)  # words that say: it is not where you saw it


@dataclass
class Tally:
    """The answers to one change, counted while they come in: a million of them take little more room than ten."""

    verb: str
    ref: Ref
    total: int = 0  # how many there will be, 0 where nobody knows
    began_s: float = 0.0
    seen: int = 0
    moved: int = 0
    failed: int = 0  # answers that are none of the script's words
    words: Counter[str] = field(default_factory=Counter)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    ids: dict[bytes, None] = field(default_factory=dict)  # in their order
    first: Outcome | None = None
    last: Outcome | None = None
    _done: set[str] = field(default_factory=set)  # the texts of those that moved

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Counts more answers."""
        for outcome in outcomes:
            text = outcome.text or outcome.word
            self.first, self.last = self.first or outcome, outcome
            self.seen += 1
            self.moved += outcome.moved
            if outcome.word in _MOVED_ON:
                text = "already moved"
            self.words[text] += outcome.moved or 1
            if outcome.moved:
                self._done.add(text)
            if outcome.is_lost:
                self.failed += 1
            else:
                self.ids[outcome.id] = None
            place = outcome.values.get("place")
            if isinstance(place, str) and place and not outcome.moved:
                self.places.setdefault(text, Counter())[place] += 1

    @property
    def is_refused(self) -> bool:
        """Whether nothing was done, since every answer was an error."""
        return bool(self.seen) and self.failed == self.seen and self.first is not None and self.first.word == "error"

    def per_s(self, now_s: float) -> float:
        """How many were answered per second, so far."""
        return max(self.seen, self.moved) / max(0.001, now_s - self.began_s)

    def sentence_of_refusal(self) -> str:
        """Why nothing was done."""
        return self.first.text if self.first else ""

    def sentence(self) -> str:
        """`37 requeued · 3 already moved (2 done, 1 reserved)`; about one job `requeue: ready again · a1`."""
        if self.first is None:
            return f"{label(self.verb)}: nothing to do"
        if self.seen == 1 and self.moved <= 1:
            return self._about_one(self.first)
        pieces = [f"{formats.count(self.moved, width=12)} {past(self.verb)}"] if self.moved else []
        for text, number in self.words.items():
            if text not in self._done:
                pieces.append(f"{formats.count(number, width=12)} {text}" + self._where(text))
        return safe(" · ".join(pieces))

    def _about_one(self, outcome: Outcome) -> str:
        """In the script's own words."""
        place = outcome.values.get("place")
        where = f" ({place})" if isinstance(place, str) and place and not outcome.moved else ""
        name = f" · {formats.elide_middle(safe(outcome.id), 40)}" if outcome.id else ""
        return f"{label(self.verb)}: {safe((outcome.text or outcome.word) + where)}{name}"

    def _where(self, text: str) -> str:
        where = ", ".join(f"{formats.count(n)} {place}" for place, n in self.places.get(text, Counter()).items())
        return f" ({where})" if where else ""


def label(verb: str) -> str:
    """A verb as the screen calls it: `lease` for the script `reserve`."""
    row = BY_NAME.get(verb)
    return row.label if row else verb


def past(verb: str) -> str:
    """What was done, in a word: `requeued`."""
    row = BY_NAME.get(verb)
    return row.past if row else f"× {verb}"
