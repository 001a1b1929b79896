"""Count the outcomes of one change while they arrive, and summarise them in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rqtui.model import Outcome, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.verbs import VERBS_BY_NAME

_WRONG_PLACE_WORDS = ("wrong_place",)  # outcomes of a job that left the place where it was listed


@dataclass
class OutcomeCounts:
    """The counts of the outcomes of one change. A million outcomes take little more memory than ten."""

    verb: str
    ref: Ref
    total: int = 0  # expected outcomes, 0 if unknown
    began_s: float = 0.0
    seen: int = 0
    moved: int = 0
    failed: int = 0  # outcomes that are not one of the script's words
    words: Counter[str] = field(default_factory=Counter)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    ids: dict[bytes, None] = field(default_factory=dict)  # in the order of arrival
    first: Outcome | None = None
    last: Outcome | None = None
    _moved_texts: set[str] = field(default_factory=set)  # the texts of outcomes that changed a job

    def add_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes of the change to the counts."""
        for outcome in outcomes:
            text = outcome.text or outcome.word
            self.first, self.last = self.first or outcome, outcome
            self.seen += 1
            self.moved += outcome.moved
            if outcome.word in _WRONG_PLACE_WORDS:
                text = "already moved"
            self.words[text] += outcome.moved or 1
            if outcome.moved:
                self._moved_texts.add(text)
            if outcome.is_lost:
                self.failed += 1
            else:
                self.ids[outcome.id] = None
            place = outcome.values.get("place")
            if isinstance(place, str) and place and not outcome.moved:
                self.places.setdefault(text, Counter())[place] += 1

    @property
    def is_refused(self) -> bool:
        """Whether the change succeeded for no job because every outcome was an error."""
        return bool(self.seen) and self.failed == self.seen and self.first is not None and self.first.word == "error"

    def compute_outcome_rate(self, now_s: float) -> float:
        """Return the number of outcomes per second since the change began."""
        return max(self.seen, self.moved) / max(0.001, now_s - self.began_s)

    def format_refusal(self) -> str:
        """Return the error message of a change that was refused, or ""."""
        return self.first.text if self.first else ""

    def summarise_outcomes(self) -> str:
        """Summarise the outcomes: `37 requeued · 3 already moved (2 done, 1 reserved)`.

        A single outcome is quoted in the script's words: `requeue: ready again · a1`.
        """
        if self.first is None:
            return f"{find_verb_label(self.verb)}: nothing to do"
        if self.seen == 1 and self.moved <= 1:
            return self._summarise_only_outcome(self.first)
        pieces = (
            [f"{formats.format_count(self.moved, width=12)} {find_past_participle(self.verb)}"] if self.moved else []
        )
        for text, number in self.words.items():
            if text not in self._moved_texts:
                pieces.append(f"{formats.format_count(number, width=12)} {text}" + self._format_place_counts(text))
        return safe(" · ".join(pieces))

    def _summarise_only_outcome(self, outcome: Outcome) -> str:
        """Summarise the outcome of a single job in the script's own words."""
        place = outcome.values.get("place")
        where = f" ({place})" if isinstance(place, str) and place and not outcome.moved else ""
        name = f" · {formats.elide_middle(safe(outcome.id), 40)}" if outcome.id else ""
        return f"{find_verb_label(self.verb)}: {safe((outcome.text or outcome.word) + where)}{name}"

    def _format_place_counts(self, text: str) -> str:
        where = ", ".join(f"{formats.format_count(n)} {place}" for place, n in self.places.get(text, Counter()).items())
        return f" ({where})" if where else ""


def find_verb_label(verb: str) -> str:
    """Return the label of a verb on the screen: `lease` for the script `reserve`."""
    row = VERBS_BY_NAME.get(verb)
    return row.label if row else verb


def find_past_participle(verb: str) -> str:
    """Return the past participle of a verb, such as `requeued`."""
    row = VERBS_BY_NAME.get(verb)
    return row.past if row else f"× {verb}"
