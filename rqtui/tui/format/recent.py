"""List recent activity, newest first: moves by the loops, and changes made from this screen.

The loops store their own steps and the app stores its changes; this module converts both to lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from rqtui.model import Ref
from rqtui.text import formats
from rqtui.text.names import format_queue_name
from rqtui.text.sanitise import safe
from rqtui.tui import keys

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop
    from rqtui.operations.journal import Sighting

_HUES = {"finding": "$state-reserved", "over": "$state-ready"}
MERGE_WINDOW_S = 10.0  # seconds within which steps of a loop on one queue become one line


class Entry(NamedTuple):
    """One event of a queue. `more` is the number of other queues it happened to."""

    at_s: float
    verb: str
    ref: Ref
    words: str
    moved: int = 0  # jobs moved by a loop; added up over steps
    more: int = 0

    def format_queue(self, twins: Collection[str]) -> str:
        """Return the queue's name, with its system if it is in `twins`; for several queues `rq:mail and 2 more`."""
        name = format_queue_name(self.ref, twins)
        return f"{name} and {self.more} more" if self.more else name


def list_entries(loops: Iterable[Loop], changes: Iterable[Entry], most: int) -> list[Entry]:
    """Return the newest `most` entries, newest first. Consecutive steps of a loop on one queue are added up."""
    merged: list[Entry] = []
    for each in sorted(chain(changes, *(_list_steps(loop) for loop in loops)), key=lambda entry: entry.at_s):
        last = merged[-1] if merged else None
        is_same = last is not None and each.moved and last.moved and (last.verb, last.ref) == (each.verb, each.ref)
        if last is not None and is_same and each.at_s - last.at_s <= MERGE_WINDOW_S:
            merged[-1] = each._replace(moved=last.moved + each.moved)
        else:
            merged.append(each)
    return merged[-most:][::-1] if most else []


def convert_sighting(one: Sighting) -> Entry:
    """Convert a finding that appeared or ended into an entry."""
    words = f"no more: {one.text}" if one.is_over else one.text
    return Entry(one.at_ms / 1000, "over" if one.is_over else "finding", Ref(one.system, one.queue), words)


def format_lines(shown: Iterable[Entry], width: int, twins: Collection[str] = ()) -> Content:
    """Return the entries as lines of at most `width` cells.

    `twins` are names that queues of several systems share, which need their system beside them.
    """
    entry_lines = []
    for entry in shown:
        words = entry.words or f"{formats.format_count(entry.moved)} moved"
        entry_lines.append(
            Content.assemble(
                (formats.format_clock(entry.at_s * 1000), "$muted"),
                ("  " + formats.fit(entry.verb, 10), _HUES.get(entry.verb, "$accented")),
                ("  " + formats.fit(safe(entry.format_queue(twins)), 16), "$strong"),
                ("  " + formats.fit(safe(words), max(8, width - 40)).rstrip(), "$muted"),
            )
        )
    return (
        Content("\n").join(entry_lines)
        if entry_lines
        else Content.styled(keys.apply_keymap("nothing yet: N enqueues a job"), "$muted")
    )


def _list_steps(loop: Loop) -> list[Entry]:
    """Return an entry for each step of a loop that moved jobs."""
    return [
        Entry(step.at_s, step.verb, step.ref, "", step.moved)
        for done in list(loop.rounds)
        for step in done.steps
        if step.moved
    ]
