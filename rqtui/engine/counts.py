"""Counting: many queues at once, by one script for dozens of them where their system has one, else by a script each.

One key of a wrong type, a right that is missing for one queue, a server that lets no script span two slots: any of them
fails a script for all of its queues. They are then counted one by one, in a second trip, and so for half a minute those
that failed alone too, or all where none did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rqtui.connection.cluster import Cluster
from rqtui.errors import RqtuiError
from rqtui.layout.layout import Answers, Ask, Layout, queue_ask
from rqtui.model import Queue, Ref

T = TypeVar("T")
Told = list[Queue] | Ask[list[Queue]] | None
"""What is read of many queues: what they hold, or what has to be asked besides; None where it failed."""

KEPT = 40  # calls that are kept: of a thousand queues the overview counts others at each tick, and those again later
APART_S = 30.0


class Counting:
    """Remembers the calls for the queues that were counted last, and which of them cannot be counted with others."""

    def __init__(self, layouts: Mapping[str, Layout]) -> None:
        self._layouts = layouts
        self._refs: tuple[Ref, ...] = ()
        self._until_s = 0.0  # when it is tried again to count all together
        self._apart: set[Ref] = set()
        self._groups: list[tuple[Sequence[Ref], Ask[Told]]] = []
        self._together: dict[tuple[Ref, ...], Ask[Told]] = {}

    def asks(self, client: Any, refs: Sequence[Ref]) -> list[Ask[Told]]:
        """What counts these queues, for `read`; the same objects as last time if the queues are."""
        is_over = bool(self._apart) and time.monotonic() >= self._until_s
        if is_over:
            self._apart.clear()
        if is_over or self._refs != tuple(refs) or not self._groups:
            self._refs = tuple(refs)
            self._groups = list(self._grouped(client, refs))
        return [ask for _refs, ask in self._groups]

    def read(
        self,
        answers: Sequence[Told],
        ask_all: Callable[[Sequence[Ask[Any]]], list[Any]],
        is_answered: bool,
    ) -> tuple[list[Queue], list[list[Ask[Any]]]]:
        """The queues in the order in which they were asked for, and what had to be asked besides, trip by trip.

        `ask_all` makes a trip. `is_answered` says whether the server told anything else in this tick; if not, an error
        of all is raised.
        """
        found: dict[Ref, Queue] = {}
        failed: list[Ref] = []
        besides: list[tuple[Sequence[Ref], Ask[list[Queue] | None]]] = []
        for (refs, _ask), told in zip(self._groups, answers, strict=True):
            if told is None:
                failed += refs
            elif isinstance(told, Ask):
                besides.append((refs, _or_none(told)))
            else:
                found.update(zip(refs, told, strict=True))
        trips: list[list[Ask[Any]]] = [[ask for _refs, ask in besides]] if besides else []
        for (refs, _ask), queues in zip(besides, ask_all(trips[0]) if besides else (), strict=True):
            if queues is None:
                failed += refs
            else:
                found.update(zip(refs, queues, strict=True))
        if failed:
            asks = [queue_ask(self._layouts[ref.layout], ref.queue) for ref in failed]
            again = ask_all([replace(ask, may_fail=is_answered or bool(found)) for ask in asks])
            trips.append(asks)
            found.update(zip(failed, again, strict=True))
            self._apart |= {ref for ref in failed if found[ref].error} or set(failed)
            self._until_s = time.monotonic() + APART_S
            self._groups = []
        return [found[ref] for ref in self._refs], trips

    def _grouped(self, client: Any, refs: Sequence[Ref]) -> Iterator[tuple[Sequence[Ref], Ask[Told]]]:
        singles: list[Ref] = []
        for name in self._layouts:
            mine = [ref for ref in refs if ref.layout == name]
            is_apart = [isinstance(client, Cluster) or ref in self._apart for ref in mine]
            singles += [ref for ref, apart in zip(mine, is_apart, strict=True) if apart]
            fit = [ref for ref, apart in zip(mine, is_apart, strict=True) if not apart]
            together = self._layouts[name].together
            for start in range(0, len(fit), together):
                chunk = tuple(fit[start : start + together])
                ask = self._together_ask(chunk) if len(chunk) > 1 else None
                if ask is None:
                    singles += chunk
                else:
                    yield chunk, ask
        yield from (([ref], _listed(queue_ask(self._layouts[ref.layout], ref.queue))) for ref in singles)

    def _together_ask(self, chunk: tuple[Ref, ...]) -> Ask[Told] | None:
        """What counts these queues of one layout by one script, as it was made before."""
        if chunk not in self._together:
            try:
                ask = self._layouts[chunk[0].layout].queues_ask([ref.queue for ref in chunk])
            except RqtuiError:  # one of them has a name that cannot be; asked alone, each says so itself
                return None
            if ask is None:
                return None
            while len(self._together) >= KEPT:
                del self._together[next(iter(self._together))]
            self._together[chunk] = _or_none(ask)
        return self._together[chunk]


def _listed(ask: Ask[Queue]) -> Ask[Told]:
    return Ask(ask.calls, lambda answers: [ask.read(answers)])


def _or_none(ask: Ask[T]) -> Ask[T | None]:
    """None where the script failed for all: there is another way, so it is no error yet."""

    def read(answers: Answers) -> T | None:
        try:
            return ask.read(answers)
        except Exception:
            return None  # whichever it is of: asked alone, it says why, and the others are read

    return Ask(ask.calls, read, may_fail=True)
