"""Due times: which of many queues have something to do for a loop, asked in one call for all loops of a screen.

A layout tells by its table of places: where a verb takes from sorted sets of times in milliseconds, their first members
say when there is work. Of other queues nothing is known here, nor on a Cluster, where no call spans two queues; those
are looked at by the verb's own script, as `loops.mover` does without this.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rqtui.connection.cluster import Cluster
from rqtui.errors import RqtuiError, Unknown, Unreachable, UsageError
from rqtui.layout.layout import Layout
from rqtui.model import Queue, Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call

LOOK_S = 1.0  # the heads are looked at this often, in case something due sooner arrived
GRACE_S = 0.25  # that a look waits longer where pictures are taken: the next of them may tell all that it would
RESTS = 20  # times as long as a look took (of the last two the quicker), until the next: a thousand queues are 76 kB
REST_S = 2e-4  # per key, two hundred times what it costs Redis: ten thousand queues are looked at each six seconds
WITHIN_S = 10.0  # how far ahead a look tells, at least; more than it is to the next
KEYS = 1000  # per call: 1 ms of the server
_TIMES = frozenset({"due ms", "deadline ms", "forget ms"})
_TOLD = {"due ms": 0, "deadline ms": 1}  # of these the counts of a queue tell the next: `next_due_ms`, `next_expiry_ms`


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What a look found for a verb: when queues are due (`time.monotonic`).

    `refs` are those that it is about, the same object while they are the same; who has no time is not due until then.
    `is_picture`: the counts of a picture told it.
    """

    due_s: Mapping[Ref, float]
    refs: Mapping[Ref, None]
    next_s: float
    is_picture: bool = False


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked for one verb; `told` are the queues that have keys for it."""

    refs: Sequence[Ref]
    told: Mapping[Ref, None]


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """The calls for some questions, in which a key stands once; `of` has what is due by it: pairs of verb and queue."""

    questions: Mapping[str, _Question]
    of: tuple[tuple[tuple[str, Ref], ...], ...]
    calls: tuple[Call, ...]


class Heads:
    """Looks at the heads once a second, whichever loop comes first; the others get what it found. Safe for threads."""

    def __init__(self, layouts: Mapping[str, Layout]) -> None:
        self._layouts = layouts
        self._lock = threading.Lock()
        self._questions: dict[str, _Question] = {}
        self._round = _Round({}, (), ())
        self._came_s: dict[str, float] = {}  # by verb: one whose loop was stopped is not asked for
        self._looks: dict[str, Look] = {}
        self._heard_s = -math.inf  # when a picture was a look
        self._took_s = 0.0  # of the last look: the first, which loads a script, does not put off the next
        self._is_off = False

    def look(self, client: Any, verb: str, refs: Sequence[Ref]) -> Look | None:
        """What is known of these queues; None where nothing can be. Raises Unreachable and Unknown.

        `refs` are the same list as before where the queues are the same.
        """
        if self._is_off or isinstance(client, Cluster):
            return None
        with self._lock:
            known = self._questions.get(verb)
            if known is None or known.refs is not refs:
                self._questions[verb] = self._question(verb, refs)
                self._looks.pop(verb, None)
            self._came_s[verb] = time.monotonic()
            look = self._looks.get(verb)
            if look is None or time.monotonic() >= look.next_s:
                self._ask(client)
            return self._looks.get(verb)

    def hear(self, queues: Mapping[Ref, Queue]) -> None:
        """A picture counted these queues just now: where it tells all that a look would, it is one, for each verb.

        It tells when the next job is due and when the next lease ends, not when what is done is to be forgotten: where
        something is kept, the heads are asked.
        """
        now_s = time.monotonic()
        with self._lock:
            heard = {verb: _heard(self._layouts, verb, question, queues) for verb, question in self._questions.items()}
            wanted = [verb for verb, at_s in self._came_s.items() if now_s - at_s < 3 * LOOK_S and verb in heard]
            if self._is_off or not wanted or any(heard[verb] is None for verb in wanted):
                return
            for verb in wanted:
                due_s = {ref: now_s + in_ms / 1000 for ref, in_ms in (heard[verb] or {}).items()}
                self._looks[verb] = Look(due_s, self._questions[verb].told, now_s + LOOK_S, is_picture=True)
            self._heard_s = now_s

    def _question(self, verb: str, refs: Sequence[Ref]) -> _Question:
        return _Question(refs, {ref: None for ref in refs if keys(self._layouts[ref.layout], verb, ref.queue)})

    def _ask(self, client: Any) -> None:
        began_s = time.monotonic()
        asked = {verb: self._questions[verb] for verb, at_s in self._came_s.items() if began_s - at_s < 3 * LOOK_S}
        if asked != self._round.questions:
            self._round = self._made(asked)
        answers = scripts.run_all(client, self._round.calls)
        now_s = time.monotonic()
        usual_s, self._took_s = min(self._took_s, now_s - began_s), now_s - began_s
        look_s = LOOK_S + (GRACE_S if began_s - self._heard_s < 3 * LOOK_S else 0.0)
        next_s = began_s + max(look_s, RESTS * usual_s, REST_S * len(self._round.of))
        for answer in answers:
            if isinstance(answer, Unreachable | Unknown):
                raise answer
            if isinstance(answer, RqtuiError):  # an ACL that knows the verb's own keys alone, for one
                self._is_off = True
                self._looks.clear()
                return
        due_s = _due(self._round, answers, now_s)
        self._looks.update({verb: Look(due_s[verb], question.told, next_s) for verb, question in asked.items()})

    def _made(self, questions: Mapping[str, _Question]) -> _Round:
        """A place from which two verbs take, or which both forget, is looked at once."""
        of: dict[str, list[tuple[str, Ref]]] = {}
        for verb, question in questions.items():
            for ref in question.told:
                for key in keys(self._layouts[ref.layout], verb, ref.queue):
                    of.setdefault(key, []).append((verb, ref))
        script, named = scripts.load("shared")["heads"], [(key,) for key in of]
        args = {"within_ms": int(1000 * max(WITHIN_S, 2 * REST_S * len(named)))}
        chunks = [named[start : start + KEYS] for start in range(0, len(named), KEYS)]
        calls = tuple(script.call({}, args, each_keys=chunk) for chunk in chunks)
        return _Round(questions, tuple(map(tuple, of.values())), calls)


def _due(asked: _Round, answers: Sequence[Answer | Exception], now_s: float) -> dict[str, dict[Ref, float]]:
    due_s: dict[str, dict[Ref, float]] = {verb: {} for verb in asked.questions}
    for number, answer in enumerate(answers):
        if isinstance(answer, Exception):
            raise answer
        for at, in_ms in answer.rows:
            for verb, ref in asked.of[number * KEYS + at - 1]:
                due_s[verb][ref] = min(due_s[verb].get(ref, math.inf), now_s + in_ms / 1000)
    return due_s


def _heard(
    layouts: Mapping[str, Layout], verb: str, question: _Question, queues: Mapping[Ref, Queue]
) -> dict[Ref, int] | None:
    """In how many ms a verb has something to do, by queue, where it is soon; None where the counts do not tell."""
    if not question.told or len(queues) < len(question.told) or not queues.keys() >= question.told.keys():
        return None
    looked_at: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for name in {ref.layout for ref in question.told}:
        script, scores = layouts[name].script(verb), {place.name: place.score for place in layouts[name].places}
        forgets = frozenset(place for place in script.forgets if scores.get(place) in _TIMES)
        looked_at[name] = frozenset(scores[source] for source in script.sources), forgets
    if any(not of <= _TOLD.keys() for of, _forgets in looked_at.values()):
        return None
    found: dict[Ref, int] = {}
    for ref in question.told:
        queue, (of, forgets) = queues[ref], looked_at[ref.layout]
        if queue.error or any(count.count and count.place in forgets for count in queue.counts):
            return None
        for score in of:
            in_ms = (queue.next_due_ms, queue.next_expiry_ms)[_TOLD[score]]
            if in_ms is not None and in_ms <= 1000 * WITHIN_S:
                found[ref] = min(in_ms, found.get(ref, in_ms))
    return found


def keys(layout: Layout, verb: str, queue: str) -> list[str]:
    """The sorted sets whose first members say when a verb has something to do; empty where they do not."""
    if not layout.can(verb):
        return []
    script = layout.script(verb)
    timed = {place.name for place in layout.places if place.score in _TIMES and not place.where}
    if not timed.issuperset(script.sources):
        return []
    try:
        named = layout.keys(queue)
    except UsageError:  # a name that cannot be: the verb's own call says so
        return []
    return [named[name] for name in (*script.sources, *script.forgets) if name in timed]
