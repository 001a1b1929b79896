"""Groups of queues by the beginning of their names: `mail:eu` and `mail:us` are the group `mail:`.

Groups nest: within `acme.` there may be `acme.eu.`, and a level that all members share is no level of its own. A
group's sum is a `Queue` of its own, so that whatever can be said of a queue can be said of a group: counts, rates and
workers added, the oldest age, the worst verdict with the name of the queue that has it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from rqtui.engine.urgency import weight
from rqtui.model import Queue, Rate, Ref, State
from rqtui.reports.shared_places import in_state
from rqtui.text import elision

_PREFIX = re.compile(r"[^:./]+[:./](?=.)")
_WORD = re.compile(r"[^:./_-]+[:./_-](?=.)")
MANY = 20  # queues that are too many for a group without groups in it


class Group(NamedTuple):
    """Queues that share the beginning of their names; one that shares it with none is a group without a name."""

    prefix: str
    refs: tuple[Ref, ...]

    @property
    def id(self) -> str:
        """An id that no queue has."""
        return f"\0{self.prefix}"

    @property
    def system(self) -> str:
        """The system of all of them, or how many there are."""
        systems = {ref.layout for ref in self.refs}
        return systems.pop() if len(systems) == 1 else f"{len(systems)} systems"


def prefix(name: str, within: str = "", signs: re.Pattern[str] = _PREFIX) -> str:
    """The beginning of a queue's name, with the first sign behind `within` that ends it; empty where there is none."""
    found = signs.match(name, len(within))
    return name[: found.end()] if found else ""


def grouped(refs: Sequence[Ref], within: str = "") -> list[Group]:
    """The queues in groups of two or more, and those that stand alone, each in the place of its first.

    All their names begin with `within`; a group goes as deep as its members share a beginning. Many names without
    levels are grouped by their words: `mail-worker-07` and `mail-retry` by `mail-`.
    """
    made = _grouped(refs, within)
    is_flat = len(refs) > MANY and not any(each.prefix for each in made)
    return _grouped(refs, within, is_of_words=True) if is_flat else made


def _grouped(refs: Sequence[Ref], within: str, *, is_of_words: bool = False) -> list[Group]:
    signs = _WORD if is_of_words else _PREFIX
    found: dict[str, list[Ref]] = {}
    for ref in refs:
        found.setdefault(prefix(ref.queue, within, signs) or str(ref), []).append(ref)
    made = []
    for name, these in found.items():
        names = {ref.queue for ref in these}
        shared = elision.shared_beginning(names, is_of_words=is_of_words)
        made.append(Group(max(name, shared, key=len) if len(these) > 1 else "", tuple(these)))
    return made


def depth(refs: Sequence[Ref], within: str = "") -> int:
    """How many levels of groups there are."""
    return max((1 + depth(each.refs, each.prefix) for each in grouped(refs, within) if each.prefix), default=0)


def prefixes(refs: Sequence[Ref], within: str, levels: int) -> set[str]:
    """The beginnings of all groups on the first `levels` levels."""
    if levels < 1:
        return set()
    found = [each for each in grouped(refs, within) if each.prefix]
    return {each.prefix for each in found}.union(*(prefixes(each.refs, each.prefix, levels - 1) for each in found))


def workers(queues: Iterable[Queue], sharing: Collection[str]) -> tuple[int, bool] | None:
    """(how many work on these queues, whether there may be more); None where no system of them tells.

    Of systems that are `sharing`, one worker may stand in the counts of several queues: there are as many as in the one
    with the most, or more.
    """
    told: dict[str, list[int]] = {}
    for queue in queues:
        if queue.workers is not None:
            told.setdefault(queue.layout, []).append(queue.workers)
    number = sum(max(counts) if system in sharing else sum(counts) for system, counts in told.items())
    return (number, number < sum(map(sum, told.values()))) if told else None


def total(
    group: Group, queues: Sequence[Queue], sharing: Collection[str] = (), whole: Collection[str] = ()
) -> Queue | None:
    """The queues as one; None while none of them was counted. Without workers where nobody knows their number.

    Of systems that are `whole`, all queues are in the group: what stands in their shared places is counted once.
    """
    if not queues:
        return None
    counts = []
    for state in State:
        count = in_state(queues, state, whole)
        if count is not None:
            counts.append(count if len(queues) == len(group.refs) else replace(count, exact=False))
    told = workers(queues, sharing)
    worst = max(queues, key=lambda queue: (bool(queue.findings), weight(queue)))
    size = f"{len(group.refs)} queues"
    words = f"{size} · {worst.name.removeprefix(group.prefix)}: {worst.verdict.text}" if worst.findings else size
    return Queue(
        group.prefix,
        group.system,
        tuple(counts),
        max(queue.counted_ms for queue in queues),
        paused=all(queue.paused for queue in queues),
        workers=told[0] if told and not told[1] else None,
        oldest_ready_ms=max((queue.oldest_ready_ms or 0 for queue in queues), default=0) or None,
        counters={name: sum(queue.counters.get(name, 0) for queue in queues) for name in ("in", "out", "failed")},
        findings=worst.findings,
        verdict=worst.verdict._replace(text=words),
    )


def rate(rates: Sequence[Rate]) -> Rate:
    """What goes in and out of all of them."""
    histories = [each.history[::-1] for each in rates if any(each.history)]  # of a thousand queues most stand still
    summed = [sum(at) for at in zip_longest(*histories, fillvalue=0.0)]
    longest = max((len(each.history) for each in rates), default=0)
    return Rate(
        sum(each.in_s for each in rates),
        sum(each.out_s for each in rates),
        sum(each.failed_s for each in rates),
        (*[0.0] * (longest - len(summed)), *summed[::-1]),
    )
