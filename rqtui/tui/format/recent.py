"""List recent activity, newest first: jobs moved by dispatcher and reaper, findings, and changes from this screen.

The loops store their own steps and the app stores its changes; this module converts both to lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    from rqtui.operations.journal import Operation, Sighting

_HUES = {"finding": "$state-reserved", "over": "$state-ready"}
MERGE_WINDOW_S = 10.0  # seconds within which steps of a loop on one queue become one line


class RecentEvent(NamedTuple):
    """One recent event of a queue. `more` is the number of other queues that the same event happened to."""

    at_s: float
    verb: str
    ref: Ref
    words: str
    moved: int = 0  # jobs moved by a loop; added up over steps
    more: int = 0

    def format_queues(self, twins: Collection[str]) -> str:
        """Return the name of the event's queue, with its system if the name is in `twins`.

        For an event of several queues, return `rq:mail and 2 more`.
        """
        name = format_queue_name(self.ref, twins)
        return f"{name} and {self.more} more" if self.more else name


def list_recent_events(loops: Iterable[Loop], changes: Iterable[RecentEvent], limit: int) -> list[RecentEvent]:
    """Return the newest `limit` recent events, newest first. Consecutive steps of a loop on one queue are added up."""
    events: list[RecentEvent] = []
    for event in sorted(chain(changes, *(_list_loop_events(loop) for loop in loops)), key=lambda entry: entry.at_s):
        previous = events[-1] if events else None
        is_continued = (
            previous is not None
            and event.moved
            and previous.moved
            and (previous.verb, previous.ref) == (event.verb, event.ref)
        )
        if previous is not None and is_continued and event.at_s - previous.at_s <= MERGE_WINDOW_S:
            events[-1] = event._replace(moved=previous.moved + event.moved)
        else:
            events.append(event)
    return events[-limit:][::-1] if limit else []


def convert_finding_change(sighting: Sighting) -> RecentEvent:
    """Convert a health finding that appeared or ended into a recent event."""
    sentence = f"no more: {sighting.text}" if sighting.is_over else sighting.text
    return RecentEvent(
        sighting.at_ms / 1000, "over" if sighting.is_over else "finding", Ref(sighting.system, sighting.queue), sentence
    )


def convert_operation(operation: Operation) -> RecentEvent:
    """Convert a change of the journal into a recent event."""
    ref = Ref(operation.system, operation.queue)
    return RecentEvent(
        operation.at_ms / 1000, operation.verb, ref, operation.describe_outcomes(), more=len(operation.others)
    )


_WORDS_AT = 40  # cells before the words of an event: its time, verb and queue
NOTHING_HAPPENED = "nothing yet: N enqueues a job"


def format_recent_events(
    events: Sequence[RecentEvent],
    width: int,
    twins: Collection[str] = (),
    empty: str = NOTHING_HAPPENED,
    *,
    rows: int,
) -> Content:
    """Return recent events as lines of at most `width` cells, or the sentence `empty` if there are none.

    `twins` are names that queues of several systems share, which need their system beside them. A long sentence is
    wrapped as far as there are fewer events than `rows`, the newest first, and cut otherwise.
    """
    lines, spare_rows = [], rows - len(events)
    for event in events:
        words = safe(event.words or f"{formats.format_count(event.moved)} moved")
        cells = max(8, width - _WORDS_AT)
        parts = formats.wrap_to_width(words, cells)
        if len(parts) - 1 > spare_rows:
            parts = [formats.fit_to_width(words, cells).rstrip()]
        spare_rows -= len(parts) - 1
        lines.append(
            Content.assemble(
                (formats.format_clock(event.at_s * 1000), "$muted"),
                ("  " + formats.fit_to_width(event.verb, 10), _HUES.get(event.verb, "$accented")),
                ("  " + formats.fit_to_width(safe(event.format_queues(twins)), 16), "$strong"),
                ("  " + parts[0], "$muted"),
            )
        )
        lines += [Content.styled(" " * _WORDS_AT + part, "$muted") for part in parts[1:]]
    return Content("\n").join(lines) if lines else Content.styled(keys.apply_keymap(empty), "$muted")


def _list_loop_events(loop: Loop) -> list[RecentEvent]:
    """Return a recent event for each step of a loop that moved jobs."""
    return [
        RecentEvent(step.at_s, step.verb, step.ref, "", step.moved)
        for round in list(loop.rounds)
        for step in round.steps
        if step.moved
    ]
