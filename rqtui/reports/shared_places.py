"""Shared places: what stands in keys that hold the jobs of all queues of a system, each counted once.

A queue tells how many of them are its own, as far as one looked; those that no known queue counts are not lost from
sight: they are told beside the queues. Pure functions over counted queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rqtui.model import Count, Queue, State
from rqtui.text.formats import numbered


class SharedPlace(NamedTuple):
    """A place of a system with the jobs of all queues; `unassigned` are those of none, None where that is not known."""

    layout: str
    place: str
    state: State
    jobs: int
    unassigned: int | None = None


def shared_places(queues: Iterable[Queue], whole: Collection[str] = ()) -> tuple[SharedPlace, ...]:
    """The shared places of these queues' systems; all known queues are there of the systems that are `whole`."""
    counts: dict[tuple[str, str], list[Count]] = {}
    for queue in queues:
        for count in queue.counts:
            if count.of is not None:
                counts.setdefault((queue.layout, count.place), []).append(count)
    return tuple(_told(layout, place, found, layout in whole) for (layout, place), found in counts.items())


def _told(layout: str, place: str, counts: Sequence[Count], is_whole: bool) -> SharedPlace:
    of = max(count.of or 0 for count in counts)
    is_known = is_whole and all(count.exact for count in counts)
    unassigned = max(0, of - sum(count.count for count in counts)) if is_known else None
    return SharedPlace(layout, place, counts[0].state, of, unassigned)


def in_state(queues: Iterable[Queue], state: State, whole: Collection[str] = ()) -> Count | None:
    """The jobs of these queues in a state as one count, those of a shared place of a `whole` system once; None: no such
    place."""
    found = list(queues)
    once = [each for each in shared_places(found, whole) if each.state is state and each.layout in whole]
    known = {(each.layout, each.place) for each in once}
    counts = [
        count
        for queue in found
        for count in queue.counts
        if count.state is state and count.is_known and (queue.layout, count.place) not in known
    ]
    if not counts and not once:
        return None
    number = sum(count.count for count in counts) + sum(each.jobs for each in once)
    return Count(state, state, number, all(count.exact for count in counts))


def sentence(found: Iterable[SharedPlace]) -> str:
    """What stands in shared places and belongs to no queue, in words; empty where there is nothing."""
    said = [f"{numbered(each.unassigned, 'job')} of {each.layout} in {each.place}" for each in found if each.unassigned]
    return f"{', '.join(said)}: of no queue that is known here." if said else ""
