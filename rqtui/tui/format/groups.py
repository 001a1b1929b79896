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

from rqtui.engine.health.urgency import compute_queue_urgency
from rqtui.model import Queue, Rate, RecentActivity, Ref, State
from rqtui.reports.shared_places import count_in_state
from rqtui.text import elision

_PREFIX = re.compile(r"[^:./]+[:./](?=.)")
_WORD = re.compile(r"[^:./_-]+[:./_-](?=.)")
MAX_FLAT_QUEUES = 20  # more queues than this in one flat group are grouped by words


class QueueGroup(NamedTuple):
    """Queues whose names share a beginning; a queue that shares its beginning with no other has no prefix."""

    prefix: str
    refs: tuple[Ref, ...]

    @property
    def id(self) -> str:
        """The id of the group's table row, which no queue has."""
        return f"\0{self.prefix}"

    @property
    def system(self) -> str:
        """The system of all queues of the group, or the number of their systems, as in `2 systems`."""
        systems = {ref.system for ref in self.refs}
        return systems.pop() if len(systems) == 1 else f"{len(systems)} systems"


def find_name_prefix(name: str, within: str = "", separators: re.Pattern[str] = _PREFIX) -> str:
    """Return a queue's name up to the first separator after the prefix `within`, or "" if there is none."""
    match = separators.match(name, len(within))
    return name[: match.end()] if match else ""


def group_queues(refs: Sequence[Ref], within: str = "") -> list[QueueGroup]:
    """Group queues by the common beginnings of their names, in the order of the first members.

    A queue without a common beginning is a group of its own. All names begin with `within`. A group's prefix is as long
    as its members share it. Many names without levels are grouped by their words: `mail-worker-07` and `mail-retry` by
    `mail-`.
    """
    groups = _group_by_separator(refs, within)
    is_flat = len(refs) > MAX_FLAT_QUEUES and not any(group.prefix for group in groups)
    return _group_by_separator(refs, within, by_words=True) if is_flat else groups


def _group_by_separator(refs: Sequence[Ref], within: str, *, by_words: bool = False) -> list[QueueGroup]:
    """Group queues by their names up to the next separator: `:`, `.` or `/`, and with `by_words` also `-` or `_`."""
    separators = _WORD if by_words else _PREFIX
    members: dict[str, list[Ref]] = {}
    for ref in refs:
        members.setdefault(find_name_prefix(ref.queue, within, separators) or str(ref), []).append(ref)
    groups = []
    for name, group_refs in members.items():
        names = {ref.queue for ref in group_refs}
        shared = elision.find_shared_name_prefix(names, splits_at_hyphens=by_words)
        groups.append(QueueGroup(max(name, shared, key=len) if len(group_refs) > 1 else "", tuple(group_refs)))
    return groups


def count_group_levels(refs: Sequence[Ref], within: str = "") -> int:
    """Return the number of nested levels of the groups of these queues."""
    return max(
        (1 + count_group_levels(group.refs, group.prefix) for group in group_queues(refs, within) if group.prefix),
        default=0,
    )


def collect_group_prefixes(refs: Sequence[Ref], within: str, levels: int) -> set[str]:
    """Return the prefixes of all groups of these queues on the first `levels` nested levels."""
    if levels < 1:
        return set()
    groups = [group for group in group_queues(refs, within) if group.prefix]
    return {group.prefix for group in groups}.union(
        *(collect_group_prefixes(group.refs, group.prefix, levels - 1) for group in groups)
    )


def count_group_workers(queues: Iterable[Queue], sharing_systems: Collection[str]) -> tuple[int, bool] | None:
    """Return (number of workers on these queues, whether the number is a lower bound), or None if no system knows.

    In systems named in `sharing_systems` one worker may be counted in several queues: the number is then that of the
    queue with the most workers, and a lower bound.
    """
    counts_by_system: dict[str, list[int]] = {}
    for queue in queues:
        if queue.workers is not None:
            counts_by_system.setdefault(queue.system, []).append(queue.workers)
    number = sum(
        max(counts) if system in sharing_systems else sum(counts) for system, counts in counts_by_system.items()
    )
    return (number, number < sum(map(sum, counts_by_system.values()))) if counts_by_system else None


def sum_group_queues(
    group: QueueGroup,
    queues: Sequence[Queue],
    sharing_systems: Collection[str] = (),
    complete_systems: Collection[str] = (),
) -> Queue | None:
    """Return the sum of a group's queues as one `Queue`, or None if no queue was counted yet.

    `workers` is None if their number is unknown. `complete_systems` names the systems all of whose queues are in the
    group: jobs in their shared places are counted once.
    """
    if not queues:
        return None
    counts = []
    for state in State:
        count = count_in_state(queues, state, complete_systems)
        if count is not None:
            counts.append(count if len(queues) == len(group.refs) else replace(count, is_exact=False))
    worker_count = count_group_workers(queues, sharing_systems)
    worst_queue = max(queues, key=lambda queue: (bool(queue.findings), compute_queue_urgency(queue)))
    size_text = f"{len(group.refs)} queues"
    verdict_text = (
        f"{size_text} · {worst_queue.name.removeprefix(group.prefix)}: {worst_queue.verdict.text}"
        if worst_queue.findings
        else size_text
    )
    return Queue(
        group.prefix,
        group.system,
        tuple(counts),
        max(queue.counted_ms for queue in queues),
        is_paused=all(queue.is_paused for queue in queues),
        workers=worker_count[0] if worker_count and not worker_count[1] else None,
        oldest_ready_ms=max((queue.oldest_ready_ms or 0 for queue in queues), default=0) or None,
        counters={name: sum(queue.counters.get(name, 0) for queue in queues) for name in ("in", "out", "failed")},
        findings=worst_queue.findings,
        verdict=worst_queue.verdict._replace(text=verdict_text),
    )


def sum_queue_rates(rates: Sequence[Rate]) -> Rate:
    """Return the sum of the throughput and recent activity of queues, and of their histories point by point.

    The recent activity covers the longest time for which one of the queues was watched.
    """
    histories = [rate.history[::-1] for rate in rates if any(rate.history)]  # most of a thousand queues are idle
    total_history = [sum(values) for values in zip_longest(*histories, fillvalue=0.0)]
    longest = max((len(rate.history) for rate in rates), default=0)
    recents = [rate.recent for rate in rates]
    recent = RecentActivity(
        max((each.duration_ms for each in recents), default=0),
        completed=sum(each.completed for each in recents),
        failed=sum(each.failed for each in recents),
    )
    return Rate(
        sum(rate.in_s for rate in rates),
        sum(rate.out_s for rate in rates),
        sum(rate.failed_s for rate in rates),
        (*[0.0] * (longest - len(total_history)), *total_history[::-1]),
        recent=recent,
        window_ms=max((rate.window_ms for rate in rates), default=0),
    )
