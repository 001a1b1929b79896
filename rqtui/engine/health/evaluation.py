"""Evaluate the health rules for every queue of a snapshot; called by the engine once per snapshot.

Health rules depend on a queue's counts, its rates, its probe results and the time. For an idle queue only the time
changes, so its findings are cached until its oldest ready job is old enough to cross the next threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from rqtui.config.thresholds import Thresholds
from rqtui.engine.health import rules
from rqtui.engine.health.probe_results import SUSPICIOUS_WAIT_MS
from rqtui.engine.health.probes import Probes
from rqtui.engine.rates import NO_RATE, EarlierActivity, Rates
from rqtui.model import Queue, Rate, RecentActivity, Ref
from rqtui.system_base.system import System


class _CachedEvaluation(NamedTuple):
    """The rate that the last evaluation of an idle queue used, and how long that evaluation stays valid."""

    rate: Rate
    valid_until_ms: float  # age of the oldest ready job at which the next threshold is crossed


class HealthEvaluator:
    """Runs the health rules on queues, by the thresholds of each queue, and caches the findings of idle queues."""

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
        checkpoints: Sequence[tuple[Ref, EarlierActivity]],
    ) -> dict[Ref, Queue]:
        """Return the queues of a snapshot with their findings attached, and complete their rates.

        Changes `rates` in place: adds the history of `checkpoints`, and the usual wait of queues whose oldest ready job
        waits long.
        """
        for ref, checkpoint in checkpoints:
            if ref in rates:
                recent, streak = self._rates.add_earlier_activity(ref, checkpoint)
                rates[ref] = rates[ref]._replace(recent=recent, failed_streak=streak)
        for ref in self._probes.take_updated_queues():
            self._cache.pop(ref, None)
        evaluated: dict[Ref, Queue] = {}
        for ref, queue in queues.items():
            rate = rates.get(ref, NO_RATE)
            if (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS and (
                usual_ms := self._rates.find_usual_wait_ms(ref)
            ) is not None:
                rates[ref] = rate = rate._replace(usual_wait_ms=usual_ms)
            cached = self._cache.get(ref)
            if cached is not None and _is_evaluation_valid(
                cached, previous := self._probes.find_previous_queue(ref), queue, rate
            ):
                evaluated[ref] = self._probes.store_unchanged_queue(ref, _copy_findings(queue, previous))
            else:
                evaluated[ref] = self._evaluate_queue(ref, queue, rate)
        return evaluated

    def _evaluate_queue(self, ref: Ref, queue: Queue, rate: Rate) -> Queue:
        """Run the health rules on one queue, and cache the result if the queue is idle."""
        probe_results, thresholds = self._probes.find_probe_results(ref, queue), self._thresholds_of(ref)
        queue_with_system_findings = self._add_system_findings(ref, queue)
        system = self._systems[ref.system]
        evaluated = rules.attach_findings(
            queue_with_system_findings,
            rate,
            thresholds,
            probe_results,
            system.finding_remedies,
            system.known_fields,
            system.unknown_facts,
        )
        dated_queue = self._probes.update_queue(ref, evaluated)
        if _is_queue_idle(queue, rate):
            self._cache[ref] = _CachedEvaluation(
                rate, rules.compute_valid_until_ms(dated_queue, rate, thresholds, probe_results)
            )
        else:
            self._cache.pop(ref, None)
        return dated_queue

    def _add_system_findings(self, ref: Ref, queue: Queue) -> Queue:
        """Add the findings of the system's own probe to a queue.

        `wrong-type` findings that the counts already report are left out.
        """
        findings = self._probes.find_system_findings(ref, queue.counted_ms)
        if not findings:
            return queue
        reported_keys = {finding.keys for finding in queue.findings if finding.kind == "wrong-type"}
        new_findings = [
            finding for finding in findings if finding.kind != "wrong-type" or finding.keys not in reported_keys
        ]
        return queue._replace(findings=(*queue.findings, *new_findings)) if new_findings else queue


_counted_fields = attrgetter("counts", "counters", "workers", "is_paused", "paused_ms", "error")
_NO_ACTIVITY = RecentActivity()[1:]


def _is_queue_idle(queue: Queue, rate: Rate) -> bool:
    """Return whether a queue's findings depend only on its counts and on the age of its oldest ready job."""
    is_late = queue.overdue or queue.expired or queue.findings or rate.failed_streak
    return not is_late and not rate.out_s and rate.recent[1:] == _NO_ACTIVITY


def _is_evaluation_valid(cached: _CachedEvaluation, previous: Queue, queue: Queue, rate: Rate) -> bool:
    """Return whether a cached evaluation still holds: the queue is idle, and its oldest job crossed no threshold."""
    age_ms, previous_age_ms = queue.oldest_ready_ms, previous.oldest_ready_ms
    if age_ms is None or previous_age_ms is None:
        is_same_oldest_job = age_ms is previous_age_ms
    else:
        is_same_oldest_job = (
            previous_age_ms <= age_ms < cached.valid_until_ms
            and queue.counted_ms - age_ms == previous.counted_ms - previous_age_ms
        )
    return (
        is_same_oldest_job
        and rate.usual_wait_ms == cached.rate.usual_wait_ms
        and (rate.idle_since_ms is None) == (cached.rate.idle_since_ms is None)
        and _counted_fields(queue) == _counted_fields(previous)
        and rules.is_minute_known(rate) == rules.is_minute_known(cached.rate)
        and (rate is cached.rate or _is_queue_idle(queue, rate))
        and not (queue.overdue or queue.expired or queue.findings or rate.failed_streak)
    )


def _copy_findings(queue: Queue, evaluated: Queue) -> Queue:
    """Return a queue with the findings and the verdict of its previous evaluation."""
    if not evaluated.unknown and not evaluated.findings:
        return queue
    return queue._replace(findings=evaluated.findings, unknown=evaluated.unknown, verdict=evaluated.verdict)
