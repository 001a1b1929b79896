"""Group queues by the beginning of their names: `mail:eu` and `mail:us` are the group `mail:`.

Groups nest: `acme.` may contain `acme.eu.`. A level that all members share is not a level of its own. The sum of a
group is a `Queue`, so that a group can be shown like a queue: counts, rates and workers are added, with the oldest age
and the worst verdict, which names its queue. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from rqtui.engine.health.urgency import compute_queue_weight
from rqtui.model import Queue, Rate, Ref, State
from rqtui.reports.shared_places import count_in_state
from rqtui.text import elision

_PREFIX = re.compile(r"[^:./]+[:./](?=.)")
_WORD = re.compile(r"[^:./_-]+[:./_-](?=.)")
MAX_FLAT_QUEUES = 20  # more queues than this in one flat group are grouped by words


class Group(NamedTuple):
    """Queues whose names share a beginning; a queue that shares it with no other is a group without a prefix."""

    prefix: str
    refs: tuple[Ref, ...]

    @property
    def id(self) -> str:
        """A row id that no queue has."""
        return f"\0{self.prefix}"

    @property
    def system(self) -> str:
        """The system of all its queues, or the number of their systems."""
        systems = {ref.system for ref in self.refs}
        return systems.pop() if len(systems) == 1 else f"{len(systems)} systems"


def find_prefix(name: str, within: str = "", signs: re.Pattern[str] = _PREFIX) -> str:
    """Return a queue's name up to the first separator after `within`, or "" if there is none."""
    match = signs.match(name, len(within))
    return name[: match.end()] if match else ""


def group_queues(refs: Sequence[Ref], within: str = "") -> list[Group]:
    """Group the queues by common beginnings; a queue without one is returned alone. The order is that of first members.

    All names begin with `within`. A group's prefix is as long as its members share it. Many names without levels are
    grouped by their words: `mail-worker-07` and `mail-retry` by `mail-`.
    """
    groups = _group_by_separator(refs, within)
    is_flat = len(refs) > MAX_FLAT_QUEUES and not any(group.prefix for group in groups)
    return _group_by_separator(refs, within, is_of_words=True) if is_flat else groups


def _group_by_separator(refs: Sequence[Ref], within: str, *, is_of_words: bool = False) -> list[Group]:
    """Group the queues by one kind of separator: those of levels, or those of words."""
    separators = _WORD if is_of_words else _PREFIX
    members: dict[str, list[Ref]] = {}
    for ref in refs:
        members.setdefault(find_prefix(ref.queue, within, separators) or str(ref), []).append(ref)
    groups = []
    for name, group_refs in members.items():
        names = {ref.queue for ref in group_refs}
        shared = elision.find_shared_prefix(names, is_of_words=is_of_words)
        groups.append(Group(max(name, shared, key=len) if len(group_refs) > 1 else "", tuple(group_refs)))
    return groups


def count_levels(refs: Sequence[Ref], within: str = "") -> int:
    """Return the number of nested levels of groups."""
    return max(
        (1 + count_levels(each.refs, each.prefix) for each in group_queues(refs, within) if each.prefix), default=0
    )


def collect_prefixes(refs: Sequence[Ref], within: str, levels: int) -> set[str]:
    """Return the prefixes of all groups on the first `levels` levels."""
    if levels < 1:
        return set()
    groups = [group for group in group_queues(refs, within) if group.prefix]
    return {group.prefix for group in groups}.union(
        *(collect_prefixes(group.refs, group.prefix, levels - 1) for group in groups)
    )


def count_workers(queues: Iterable[Queue], sharing: Collection[str]) -> tuple[int, bool] | None:
    """Return (number of workers on these queues, whether there may be more), or None if no system knows.

    In systems named in `sharing` one worker may be counted in several queues: the number is then that of the queue with
    the most workers, and a lower bound.
    """
    counts_by_system: dict[str, list[int]] = {}
    for queue in queues:
        if queue.workers is not None:
            counts_by_system.setdefault(queue.system, []).append(queue.workers)
    number = sum(max(counts) if system in sharing else sum(counts) for system, counts in counts_by_system.items())
    return (number, number < sum(map(sum, counts_by_system.values()))) if counts_by_system else None


def sum_queues(
    group: Group, queues: Sequence[Queue], sharing: Collection[str] = (), whole: Collection[str] = ()
) -> Queue | None:
    """Return the sum of the queues as one `Queue`, or None if none was counted yet.

    `workers` is None if their number is unknown. `whole` names the systems all of whose queues are in the group: jobs
    in their shared places are counted once.
    """
    if not queues:
        return None
    counts = []
    for state in State:
        count = count_in_state(queues, state, whole)
        if count is not None:
            counts.append(count if len(queues) == len(group.refs) else replace(count, is_exact=False))
    worker_count = count_workers(queues, sharing)
    worst = max(queues, key=lambda queue: (bool(queue.findings), compute_queue_weight(queue)))
    size = f"{len(group.refs)} queues"
    words = f"{size} · {worst.name.removeprefix(group.prefix)}: {worst.verdict.text}" if worst.findings else size
    return Queue(
        group.prefix,
        group.system,
        tuple(counts),
        max(queue.counted_ms for queue in queues),
        is_paused=all(queue.is_paused for queue in queues),
        workers=worker_count[0] if worker_count and not worker_count[1] else None,
        oldest_ready_ms=max((queue.oldest_ready_ms or 0 for queue in queues), default=0) or None,
        counters={name: sum(queue.counters.get(name, 0) for queue in queues) for name in ("in", "out", "failed")},
        findings=worst.findings,
        verdict=worst.verdict._replace(text=words),
    )


def sum_rates(rates: Sequence[Rate]) -> Rate:
    """Return the sum of the rates and their histories."""
    histories = [each.history[::-1] for each in rates if any(each.history)]  # most of a thousand queues are idle
    summed = [sum(at) for at in zip_longest(*histories, fillvalue=0.0)]
    longest = max((len(each.history) for each in rates), default=0)
    return Rate(
        sum(each.in_s for each in rates),
        sum(each.out_s for each in rates),
        sum(each.failed_s for each in rates),
        (*[0.0] * (longest - len(summed)), *summed[::-1]),
    )
