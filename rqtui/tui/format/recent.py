"""Recent moves and changes, newest first: those of the loops, and those made from this screen.

The loops remember their own steps, the app what was asked of it; here both become lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from rqtui.model import Ref
from rqtui.text import formats
from rqtui.text.names import named
from rqtui.text.sanitise import safe
from rqtui.tui import keys

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop
    from rqtui.operations.journal import Sighting

_HUES = {"finding": "$state-reserved", "over": "$state-ready"}
TOGETHER_S = 10.0  # steps of a loop on one queue that follow one another this closely are one line


class Entry(NamedTuple):
    """One thing that happened to a queue, and to so many `more`."""

    at_s: float
    verb: str
    ref: Ref
    words: str
    moved: int = 0  # by a loop, whose steps add up
    more: int = 0

    def where(self, twins: Collection[str]) -> str:
        """The queue, with its system where its name is one of `twins`; of several `rq:mail and 2 more`."""
        name = named(self.ref, twins)
        return f"{name} and {self.more} more" if self.more else name


def entries(loops: Iterable[Loop], changes: Iterable[Entry], most: int) -> list[Entry]:
    """The newest `most`, the newest first."""
    merged: list[Entry] = []
    for each in sorted(chain(changes, *(_steps(loop) for loop in loops)), key=lambda entry: entry.at_s):
        last = merged[-1] if merged else None
        is_same = last is not None and each.moved and last.moved and (last.verb, last.ref) == (each.verb, each.ref)
        if last is not None and is_same and each.at_s - last.at_s <= TOGETHER_S:
            merged[-1] = each._replace(moved=last.moved + each.moved)
        else:
            merged.append(each)
    return merged[-most:][::-1] if most else []


def found(one: Sighting) -> Entry:
    """A finding that came, or went."""
    words = f"no more: {one.text}" if one.is_over else one.text
    return Entry(one.at_ms / 1000, "over" if one.is_over else "finding", Ref(one.layout, one.queue), words)


def lines(shown: Iterable[Entry], width: int, twins: Collection[str] = ()) -> Content:
    """The entries as lines of at most `width` cells; `twins` are names that queues of several systems have."""
    made = []
    for entry in shown:
        words = entry.words or f"{formats.count(entry.moved)} moved"
        made.append(
            Content.assemble(
                (formats.clock(entry.at_s * 1000), "$muted"),
                ("  " + formats.fit(entry.verb, 10), _HUES.get(entry.verb, "$accented")),
                ("  " + formats.fit(safe(entry.where(twins)), 16), "$strong"),
                ("  " + formats.fit(safe(words), max(8, width - 40)).rstrip(), "$muted"),
            )
        )
    return Content("\n").join(made) if made else Content.styled(keys.renamed("nothing yet: N enqueues a job"), "$muted")


def _steps(loop: Loop) -> list[Entry]:
    return [
        Entry(step.at_s, step.verb, step.ref, "", step.moved)
        for done in list(loop.rounds)
        for step in done.steps
        if step.moved
    ]
