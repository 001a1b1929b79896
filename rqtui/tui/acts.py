"""From a key to a verb, from a form to scripts, from outcomes to a sentence: what the app knows about changing things.

Pure: it decides what a key means for what is under the cursor, and puts answers into words. The app asks, sends and
shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rqtui import ids
from rqtui.model import Outcome, Ref
from rqtui.tui import display, keys
from rqtui.tui.view import Target
from rqtui.verbs import VERBS, Field, Verb

if TYPE_CHECKING:
    from rqtui.layout import Layout

Values = dict[str, object]
QUEUE_FIELD = Field("queue", "queue", default="default")
# Nothing can be lost by these, and their forms are for the rare case: one job goes at once, by key; several jobs ask,
# and so does the palette.
AT_ONCE = frozenset({"requeue", "release", "reserve"})
_FIXED = frozenset(name for verb in VERBS for name, _value in verb.fixed)  # not every script takes them
PURGE_LIMIT = 1000  # jobs per call: what the script takes at most
_FAILED = ("error", "unknown", "not sent")


def verb_for(layouts: Mapping[str, Layout], key: str, target: Target) -> Verb | None:
    """Which verb a key means for a target; None when it can do nothing there."""
    if target.ref is None:
        return next((verb for verb in keys.verbs_of(key) if verb.name == "enqueue"), None)
    system = layouts[target.ref.layout]
    return next((verb for verb in keys.verbs_of(key) if _fits(system, verb, target)), None)


def offered(system: Layout, verb: Verb, target: Target) -> bool:
    """Whether the palette has this verb for the target."""
    if verb.hidden or not system.can(verb.name):
        return False
    return bool(target.place) if verb.scope == "place" else _fits(system, verb, target)


def _fits(system: Layout, verb: Verb, target: Target) -> bool:
    if not system.can(verb.name):
        return False
    if verb.scope == "queue":
        is_paused = bool(target.queue and target.queue.paused)
        return verb.name not in ("pause", "resume") or is_paused == (verb.name == "resume")
    if verb.scope != "job" or not target.place or not (target.jobs or target.whole):
        return False
    places = {job.place for job in target.jobs} or {target.place}
    return all(system.can(verb.name, place) for place in places)


def asks_first(verb: Verb, target: Target, has_form: bool, is_chosen: bool = False) -> bool:
    """Whether a question or a form comes before the verb; `is_chosen` from the palette always shows its form."""
    is_many = target.whole or len(target.jobs) > 1
    has_form = has_form and (is_chosen or verb.name not in AT_ONCE)
    return verb.danger or has_form or (is_many and verb.scope == "job")


def fields(system: Layout, verb: Verb) -> tuple[Field, ...]:
    """The inputs of a verb's form that its scripts have in this system; the bodies of others are not JSON by nature."""
    known = {
        (name, arg.name)
        for name in {verb.name, *(each.verb for each in verb.form)}
        if name in system.scripts
        for arg in (*system.scripts[name].args, *system.scripts[name].each)
    }
    form = (each for each in verb.form if (each.verb or verb.name, each.name) in known)
    if system.loops_by_default:
        return tuple(form)
    return tuple(replace(each, kind="bytes", default="") if each.kind == "body" else each for each in form)


def by_verb(verb: Verb, values: Values) -> list[tuple[str, Values]]:
    """The form's values by the verb they belong to: one form may serve two verbs (due time and priority)."""
    owners = {each.name: each.verb or verb.name for each in verb.form}
    parts: dict[str, Values] = {}
    for name, value in values.items():
        parts.setdefault(owners.get(name, verb.name), {})[name] = value
    if not parts and not any(each.verb for each in verb.form if each.name in values):
        parts[verb.name] = {}
    return [(name, {**form, **dict(verb.fixed)}) for name, form in parts.items()]


def completed(system: Layout, name: str, target: Target, form: Values) -> Values:
    """A form with what nobody had to type: a new id, the place, the size of a chunk, force against a worker's lease."""
    script = system.script(name)
    args = {arg.name for arg in script.args}
    form = dict(form)
    known = args | {column.name for column in script.each}
    form = {key: value for key, value in form.items() if key in known or key not in _FIXED}
    if "force" in args and target.is_held:
        form["force"] = True  # the question has said that a worker holds it
    if name == "enqueue" and any(column.name == "id" and not column.optional for column in script.each):
        form.setdefault("id", ids.new_id())
    if name == "purge":
        form.update(place=target.place, limit=PURGE_LIMIT)
    return form


@dataclass
class Tally:
    """The answers to one request, counted while they come in: a million of them take no more room than ten."""

    verb: str
    ref: Ref
    total: int = 0  # how many there will be, 0 where nobody knows
    seen: int = 0
    moved: int = 0
    failed: int = 0  # answers that are none of the script's words
    words: Counter[str] = field(default_factory=Counter)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    ids: set[bytes] = field(default_factory=set)
    first: Outcome | None = None
    last: Outcome | None = None

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Counts more answers."""
        for outcome in outcomes:
            text = outcome.text or outcome.word
            self.first, self.last = self.first or outcome, outcome
            self.seen += 1
            self.moved += outcome.moved
            self.words[text] += outcome.moved or 1
            if outcome.word in _FAILED:
                self.failed += 1
            else:
                self.ids.add(outcome.id)
            place = outcome.values.get("place")
            if isinstance(place, str) and place and not outcome.moved:
                self.places.setdefault(text, Counter())[place] += 1

    @property
    def is_refused(self) -> bool:
        """Whether nothing was done, since every answer was an error."""
        return bool(self.seen) and self.failed == self.seen and self.first is not None and self.first.word == "error"

    def sentence_of_refusal(self) -> str:
        """Why nothing was done."""
        return self.first.text if self.first else ""

    def sentence(self) -> str:
        """`requeue: 37 × ready again · 3 × it is neither dead nor done (2 done, 1 reserved)`: the header's words."""
        if self.first is None:
            return f"{self.verb}: nothing to do"
        pieces = []
        for text, number in self.words.items():
            count = f"{display.count(number, width=12)} × " if number > 1 or len(self.words) > 1 else ""
            where = ", ".join(f"{display.count(n)} {place}" for place, n in self.places.get(text, Counter()).items())
            if where and self.seen == 1:
                where = next(iter(self.places[text]))
            pieces.append(f"{count}{text}" + (f" ({where})" if where else ""))
        alone = self.seen == 1 and self.first.id
        name = f" · {display.elide_middle(display.safe(self.first.id), 40)}" if alone else ""
        return f"{self.verb}: {display.safe(' · '.join(pieces))}{name}"
