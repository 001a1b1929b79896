"""Judging: the queues of a picture with their findings, made anew where something of which they are made is another.

Findings come from the counts, the rate, closer looks, and time. Of a queue at rest only time goes on, and what it is
judged to be stays until its oldest ready job is as old as the next threshold. Called by the engine, at each picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from rqtui.config.thresholds import Thresholds
from rqtui.engine import health
from rqtui.engine.inspection import SUSPECT_MS, Inspections
from rqtui.engine.rates import NO_RATE, Mark, Rates
from rqtui.layout.layout import Layout
from rqtui.model import Lately, Queue, Rate, Ref


class _Judged(NamedTuple):
    """By which rate a queue was judged, and the age of its oldest ready job until which that holds."""

    rate: Rate
    until_ms: float


class Judging:
    """Judges by the rates and the closer looks of an engine; `limits` tells the thresholds of a queue."""

    def __init__(
        self,
        layouts: Mapping[str, Layout],
        rates: Rates,
        inspections: Inspections,
        limits: Callable[[Ref], Thresholds],
    ) -> None:
        self._layouts, self._rates, self._inspections, self._limits = layouts, rates, inspections, limits
        self._before: dict[Ref, _Judged] = {}  # queues at rest

    def judged(
        self, counted: Mapping[Ref, Queue], rates: MutableMapping[Ref, Rate], marks: Sequence[tuple[Ref, Mark]]
    ) -> dict[Ref, Queue]:
        """The queues with their findings, by all that is known; the marks go into their rates."""
        for ref, mark in marks:
            if ref in rates:
                rates[ref] = rates[ref]._replace(lately=self._rates.remember(ref, mark))
        for ref in self._inspections.learned():
            self._before.pop(ref, None)
        made: dict[Ref, Queue] = {}
        for ref, queue in counted.items():
            rate = rates.get(ref, NO_RATE)
            if (queue.oldest_ready_ms or 0) >= SUSPECT_MS and (usual_ms := self._rates.usual_ms(ref)) is not None:
                rates[ref] = rate = rate._replace(usual_ms=usual_ms)
            before = self._before.get(ref)
            if before is not None and _is_as_before(before, was := self._inspections.last(ref), queue, rate):
                made[ref] = self._inspections.still(ref, _with_findings(queue, was))
            else:
                made[ref] = self._made(ref, queue, rate)
        return made

    def _made(self, ref: Ref, queue: Queue, rate: Rate) -> Queue:
        known, limits = self._inspections.known(ref), self._limits(ref)
        whole = self._with_faults(ref, queue)
        judged = health.judged(whole, rate, limits, known, self._layouts[ref.layout].remedies)
        made = self._inspections.counted(ref, judged)
        if _is_at_rest(queue, rate):
            self._before[ref] = _Judged(rate, health.until_ms(made, rate, limits, known))
        else:
            self._before.pop(ref, None)
        return made

    def _with_faults(self, ref: Ref, queue: Queue) -> Queue:
        found = self._inspections.faults(ref)
        if not found:
            return queue
        named = {finding.keys for finding in queue.findings if finding.kind == "wrong-type"}
        fresh = [one for one in found if one.kind != "wrong-type" or one.keys not in named]
        return queue._replace(findings=(*queue.findings, *fresh)) if fresh else queue


_told = attrgetter("counts", "counters", "workers", "paused", "paused_ms", "error")
_NOTHING = Lately()[1:]


def _is_at_rest(queue: Queue, rate: Rate) -> bool:
    """Whether what it is judged by, but for its age, is told by `_told` alone."""
    is_late = queue.overdue or queue.expired or queue.findings
    return not is_late and not rate.out_s and rate.lately[1:] == _NOTHING


def _is_as_before(before: _Judged, was: Queue, queue: Queue, rate: Rate) -> bool:
    """Whether it was at rest, is at rest, and its oldest ready job is the same, and no older than it may be."""
    age_ms, was_ms = queue.oldest_ready_ms, was.oldest_ready_ms
    if age_ms is None or was_ms is None:
        is_same_head = age_ms is was_ms
    else:
        is_same_head = was_ms <= age_ms < before.until_ms and queue.counted_ms - age_ms == was.counted_ms - was_ms
    return (
        is_same_head
        and rate.usual_ms == before.rate.usual_ms
        and _told(queue) == _told(was)
        and (rate is before.rate or _is_at_rest(queue, rate))
        and not (queue.overdue or queue.expired or queue.findings)
    )


def _with_findings(queue: Queue, judged: Queue) -> Queue:
    if not judged.unknown and not judged.findings:
        return queue
    return queue._replace(findings=judged.findings, unknown=judged.unknown, verdict=judged.verdict)
