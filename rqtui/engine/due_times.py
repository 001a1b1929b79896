"""Due times: which of many queues have something to do for a loop, asked in one trip for all loops of a screen.

A layout tells by its table of places: where a verb takes from sorted sets of times in milliseconds, their first members
say when there is work. Most of them are empty: plain commands ask how many of twenty are there, and for the first
members of those that were, in a quarter of what a script takes. Of other queues nothing is known here, nor on a
Cluster, where no call spans two queues; those are looked at by the verb's own script, as `loops.mover` does without
this.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hiredis import Reader

from rqtui.connection.cluster import Cluster
from rqtui.connection.connect import translated
from rqtui.errors import RqtuiError, Unknown, Unreachable, UsageError
from rqtui.layout.layout import Layout
from rqtui.model import Queue, Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import packed
from rqtui.text.names import to_bytes

LOOK_S = 1.0  # the heads are looked at this often, in case something due sooner arrived
GRACE_S = 0.25  # that a look waits longer where pictures are taken: the next of them may tell all that it would
RESTS = 20  # times as long as a look took (of the last two the quicker), until the next: a thousand queues are 76 kB
REST_S = 2e-4  # per key, 500 times what it costs Redis: ten thousand queues are looked at each six seconds
WITHIN_S = 10.0  # how far ahead a look tells, at least; more than it is to the next
GROUP = 20  # keys of which one command tells how many are there: a thousand instructions of the server per key
LATEST_MS = 86_400_000  # whatever is later than that is as late
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


@dataclass(slots=True, eq=False)
class _Round:
    """What is asked for some questions; a key of a queue stands in it once, for these `verbs`.

    `groups` are commands that ask how many of `GROUP` keys are there. `held` are by number the keys in which something
    stood at the last look, with the command that asks for the first of it.
    """

    questions: Mapping[str, _Question]
    verbs: Sequence[tuple[str, ...]]
    refs: Sequence[Ref]
    groups: Sequence[bytes]
    held: dict[int, bytes] = field(default_factory=dict)


class Heads:
    """Looks at the heads once a second, whichever loop comes first; the others get what it found. Safe for threads."""

    def __init__(self, layouts: Mapping[str, Layout]) -> None:
        self._layouts = layouts
        self._lock = threading.Lock()
        self._questions: dict[str, _Question] = {}
        self._round = _Round({}, (), (), ())
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
        told = {ref: None for ref in refs if keys(self._layouts[ref.layout], verb, ref.queue)}
        others = [question.told for question in self._questions.values()]
        return _Question(refs, next((each for each in others if each == told), told))  # of both loops, mostly

    def _ask(self, client: Any) -> None:
        began_s = time.monotonic()
        asked = {verb: self._questions[verb] for verb, at_s in self._came_s.items() if began_s - at_s < 3 * LOOK_S}
        if asked != self._round.questions:
            self._round = self._made(asked)
        within_ms = int(1000 * max(WITHIN_S, 2 * REST_S * len(self._round.refs)))
        try:
            firsts, now_ms = _firsts(client, self._round)
        except (Unreachable, Unknown):
            raise
        except RqtuiError:  # an ACL that knows the verb's own keys alone, for one
            self._is_off = True
            self._looks.clear()
            return
        now_s = time.monotonic()
        usual_s, self._took_s = min(self._took_s, now_s - began_s), now_s - began_s
        look_s = LOOK_S + (GRACE_S if began_s - self._heard_s < 3 * LOOK_S else 0.0)
        next_s = began_s + max(look_s, RESTS * usual_s, REST_S * len(self._round.refs))
        due_s: dict[str, dict[Ref, float]] = {verb: {} for verb in asked}
        for number, score in firsts.items():
            in_ms = max(-LATEST_MS, score - now_ms)
            ref = self._round.refs[number]
            for verb in self._round.verbs[number] if in_ms <= within_ms else ():
                due_s[verb][ref] = min(due_s[verb].get(ref, math.inf), now_s + math.ceil(in_ms) / 1000)
        self._looks.update({verb: Look(due_s[verb], question.told, next_s) for verb, question in asked.items()})

    def _made(self, questions: Mapping[str, _Question]) -> _Round:
        """A place from which two verbs take, or which both forget, is looked at once."""
        verbs: list[tuple[str, ...]] = []
        refs: list[Ref] = []
        names: list[bytes] = []
        groups: list[bytes] = []
        known: dict[tuple[str, ...], tuple[str, ...]] = {}  # the same object for many keys
        for ref in dict.fromkeys(ref for question in questions.values() for ref in question.told):
            wanted: dict[str, tuple[str, ...]] = {}
            for verb in (verb for verb, question in questions.items() if ref in question.told):
                for key in keys(self._layouts[ref.layout], verb, ref.queue):
                    wanted[key] = (*wanted.get(key, ()), verb)
            for key, each in wanted.items():
                verbs.append(known.setdefault(each, each))
                refs.append(ref)
                names.append(to_bytes(key))
            while len(names) >= GROUP:
                groups.append(packed((b"EXISTS", *names[:GROUP])))
                del names[:GROUP]
        if names:
            groups.append(packed((b"EXISTS", *names)))
        return _Round(questions, verbs, refs, groups)


def _firsts(client: Any, asked: _Round) -> tuple[dict[int, float], int]:
    """The score of the first member of each key in which something stands, by number, and the server's clock (ms).

    One trip; another where something stands in a key that was empty at the last look. What is no sorted set is due: the
    script that works on it says whose it is.
    """
    if not asked.groups:
        return {}, 0
    clock, *replies = _replies(client, [_TIME, *asked.groups, *asked.held.values()])
    there, of_held = replies[: len(asked.groups)], replies[len(asked.groups) :]
    found = {number: first for number, first in zip(asked.held, of_held, strict=True) if first != []}
    known = Counter(number // GROUP for number in found)
    questions = dict(asked.held)
    news = {number: each for at in range(len(there)) if there[at] > known[at] for number, each in _ones(asked, at)}
    if news := {number: each for number, each in news.items() if number not in questions}:
        questions |= news
        told = _replies(client, [*news.values()])
        found |= {number: first for number, first in zip(news, told, strict=True) if first != []}
    asked.held = {number: questions[number] for number in found}
    firsts = {number: float(first[1]) if isinstance(first, list) else -math.inf for number, first in found.items()}
    return firsts, int(clock[0]) * 1000 + int(clock[1]) // 1000


def _ones(asked: _Round, group: int) -> Iterator[tuple[int, bytes]]:
    """The keys of a group by number, each with the command that asks for the first of it."""
    reader = Reader()
    reader.feed(asked.groups[group])
    _exists, *names = reader.gets()
    for number, name in enumerate(names, group * GROUP):
        yield number, packed((b"ZRANGE", name, b"0", b"0", b"WITHSCORES"))


def _replies(client: Any, commands: Sequence[bytes]) -> list[Any]:
    """What these commands are answered; a key of a wrong type stands there as an error, any other error is raised."""
    [answer] = scripts.run_all(client, [scripts.reads(commands, len(commands))])
    if isinstance(answer, Exception):
        raise answer
    replies: list[Any] = answer.values["replies"]
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
            with translated():
                raise reply
    return replies


_TIME = packed((b"TIME",))


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
