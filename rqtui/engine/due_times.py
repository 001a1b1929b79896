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
from rqtui.model import Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call

LOOK_S = 1.0  # the heads are looked at this often, in case something due sooner arrived
RESTS = 20  # times as long as a look took (of the last two the quicker), until the next: a thousand queues are 76 kB
KEYS = 1000  # per call: 1 ms of the server
_TIMES = frozenset({"due ms", "deadline ms", "forget ms"})


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What a look found for a verb: when each queue is due (`time.monotonic`; infinity: not until the next look)."""

    due_s: Mapping[Ref, float]
    next_s: float


@dataclass(frozen=True, slots=True)
class _Question:
    """The calls for one verb; `of` has the queue of each key."""

    refs: Sequence[Ref]
    of: tuple[Ref, ...]
    calls: tuple[Call, ...]


class Heads:
    """Looks at the heads once a second, whichever loop comes first; the others get what it found. Safe for threads."""

    def __init__(self, layouts: Mapping[str, Layout]) -> None:
        self._layouts = layouts
        self._lock = threading.Lock()
        self._questions: dict[str, _Question] = {}
        self._came_s: dict[str, float] = {}  # by verb: one whose loop was stopped is not asked for
        self._looks: dict[str, Look] = {}
        self._took_s = 0.0  # of the last look: the first, which loads a script, does not put off the next
        self._is_off = False

    def look(self, client: Any, verb: str, refs: Sequence[Ref]) -> Look | None:
        """What is known of these queues; None where nothing can be. Raises Unreachable and Unknown.

        `refs` are the same list as before where the queues are the same.
        """
        if self._is_off or isinstance(client, Cluster):
            return None
        with self._lock:
            self._came_s[verb] = time.monotonic()
            known = self._questions.get(verb)
            if known is None or known.refs is not refs:
                self._questions[verb] = self._question(verb, refs)
                self._looks.pop(verb, None)
            look = self._looks.get(verb)
            if look is None or time.monotonic() >= look.next_s:
                self._ask(client)
            return self._looks.get(verb)

    def _question(self, verb: str, refs: Sequence[Ref]) -> _Question:
        script = scripts.load("shared")["heads"]
        pairs = [(ref, key) for ref in refs for key in keys(self._layouts[ref.layout], verb, ref.queue)]
        chunks = [pairs[start : start + KEYS] for start in range(0, len(pairs), KEYS)]
        args = {"within_ms": int(2000 * LOOK_S)}
        calls = tuple(script.call({}, args, each_keys=[(key,) for _ref, key in chunk]) for chunk in chunks)
        return _Question(refs, tuple(ref for ref, _key in pairs), calls)

    def _ask(self, client: Any) -> None:
        began_s = time.monotonic()
        asked = {verb: self._questions[verb] for verb, at_s in self._came_s.items() if began_s - at_s < 3 * LOOK_S}
        answers = scripts.run_all(client, [call for question in asked.values() for call in question.calls])
        now_s = time.monotonic()
        usual_s, self._took_s = min(self._took_s, now_s - began_s), now_s - began_s
        next_s = began_s + max(LOOK_S, RESTS * usual_s)
        for answer in answers:
            if isinstance(answer, Unreachable | Unknown):
                raise answer
            if isinstance(answer, RqtuiError):  # an ACL that knows the verb's own keys alone, for one
                self._is_off = True
                self._looks.clear()
                return
        at = 0
        for verb, question in asked.items():
            found = answers[at : at + len(question.calls)]
            at += len(question.calls)
            self._looks[verb] = Look(_due(question, found, now_s), next_s)


def _due(question: _Question, answers: Sequence[Answer | Exception], now_s: float) -> dict[Ref, float]:
    due_s = dict.fromkeys(question.of, math.inf)
    for number, answer in enumerate(answers):
        if isinstance(answer, Exception):
            raise answer
        for at, in_ms in answer.rows:
            ref = question.of[number * KEYS + at - 1]
            due_s[ref] = min(due_s[ref], now_s + in_ms / 1000)
    return due_s


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
