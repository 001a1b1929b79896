"""Evaluate the health rules for every queue of a snapshot, and reuse the findings of queues that did not change.

Health rules depend on a queue's counts, its rates, its probes and the time. For an idle queue only the time changes, so
its findings are cached until its oldest ready job crosses the next threshold. Called by the engine once per snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from rqtui.config.thresholds import Thresholds
from rqtui.engine.health import rules
from rqtui.engine.health.probes import SUSPICIOUS_WAIT_MS, Probes
from rqtui.engine.rates import NO_RATE, Checkpoint, Rates, RecordedEnds
from rqtui.model import Queue, Rate, RecentActivity, Ref
from rqtui.system_base.system import System


class _CachedEvaluation(NamedTuple):
    """The rate used by the last evaluation of an idle queue, and how long that evaluation stays valid."""

    rate: Rate
    valid_until_ms: float  # age of the oldest ready job at which the next threshold is crossed


class HealthEvaluator:
    """Attaches findings to queues. `thresholds_of` returns the configured thresholds of a queue."""

    def __init__(
        self,
        systems: Mapping[str, System],
        rates: Rates,
        probes: Probes,
        thresholds_of: Callable[[Ref], Thresholds],
    ) -> None:
        self._systems, self._rates, self._probes, self._thresholds_of = systems, rates, probes, thresholds_of
        self._cache: dict[Ref, _CachedEvaluation] = {}  # idle queues only

    def attach_findings(
        self,
        queues: Mapping[Ref, Queue],
        rates: MutableMapping[Ref, Rate],
        checkpoints: Sequence[tuple[Ref, Checkpoint | RecordedEnds]],
    ) -> dict[Ref, Queue]:
        """Return the queues with their findings attached.

        Adds the history in `checkpoints` to `rates`, which is changed in place.
        """
        for ref, mark in checkpoints:
            if ref in rates:
                rates[ref] = rates[ref]._replace(recent=self._rates.merge(ref, mark))
        for ref in self._probes.take_updated():
            self._cache.pop(ref, None)
        evaluated: dict[Ref, Queue] = {}
        for ref, queue in queues.items():
            rate = rates.get(ref, NO_RATE)
            if (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS and (
                usual_ms := self._rates.find_usual_wait_ms(ref)
            ) is not None:
                rates[ref] = rate = rate._replace(usual_wait_ms=usual_ms)
            cached = self._cache.get(ref)
            if cached is not None and _is_unchanged(
                cached, previous := self._probes.find_previous_queue(ref), queue, rate
            ):
                evaluated[ref] = self._probes.keep(ref, _copy_findings(queue, previous))
            else:
                evaluated[ref] = self._evaluate(ref, queue, rate)
        return evaluated

    def _evaluate(self, ref: Ref, queue: Queue, rate: Rate) -> Queue:
        """Evaluate the rules for one queue, and cache the result if the queue is idle."""
        results, limits = self._probes.list_results(ref), self._thresholds_of(ref)
        complete = self._add_system_findings(ref, queue)
        evaluated = rules.attach_findings(complete, rate, limits, results, self._systems[ref.system].finding_remedies)
        dated = self._probes.update(ref, evaluated)
        if _is_idle(queue, rate):
            self._cache[ref] = _CachedEvaluation(rate, rules.compute_valid_until_ms(dated, rate, limits, results))
        else:
            self._cache.pop(ref, None)
        return dated

    def _add_system_findings(self, ref: Ref, queue: Queue) -> Queue:
        """Add the findings of the system's own probe, without `wrong-type` findings that the counts already report."""
        findings = self._probes.list_system_findings(ref)
        if not findings:
            return queue
        named = {finding.keys for finding in queue.findings if finding.kind == "wrong-type"}
        fresh = [one for one in findings if one.kind != "wrong-type" or one.keys not in named]
        return queue._replace(findings=(*queue.findings, *fresh)) if fresh else queue


_counted_fields = attrgetter("counts", "counters", "workers", "is_paused", "paused_ms", "error")
_NO_ACTIVITY = RecentActivity()[1:]


def _is_idle(queue: Queue, rate: Rate) -> bool:
    """Return whether a queue's findings depend only on its counted fields and the age of its oldest ready job."""
    is_late = queue.overdue or queue.expired or queue.findings
    return not is_late and not rate.out_s and rate.recent[1:] == _NO_ACTIVITY


def _is_unchanged(cached: _CachedEvaluation, previous: Queue, queue: Queue, rate: Rate) -> bool:
    """Return whether a cached evaluation holds: the queue is idle and its oldest ready job crossed no threshold."""
    age_ms, was_ms = queue.oldest_ready_ms, previous.oldest_ready_ms
    if age_ms is None or was_ms is None:
        is_same_head = age_ms is was_ms
    else:
        is_same_head = (
            was_ms <= age_ms < cached.valid_until_ms and queue.counted_ms - age_ms == previous.counted_ms - was_ms
        )
    return (
        is_same_head
        and rate.usual_wait_ms == cached.rate.usual_wait_ms
        and _counted_fields(queue) == _counted_fields(previous)
        and (rate is cached.rate or _is_idle(queue, rate))
        and not (queue.overdue or queue.expired or queue.findings)
    )


def _copy_findings(queue: Queue, evaluated: Queue) -> Queue:
    if not evaluated.unknown and not evaluated.findings:
        return queue
    return queue._replace(findings=evaluated.findings, unknown=evaluated.unknown, verdict=evaluated.verdict)
