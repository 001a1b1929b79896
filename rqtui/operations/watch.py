"""Watch the snapshots of a session: report findings that appear or disappear, and sample the job counts of queues.

Used for postmortem reports. The data is bounded: a finding has disappeared after ten seconds of snapshots without it,
and only `MAX_QUEUES` queues that had a finding are sampled, every ten seconds for two hours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rqtui.model import Finding, Queue, Ref, Snapshot, State
from rqtui.operations.journal import Sighting

ABSENT_MS = 10_000
SAMPLE_INTERVAL_MS = 10_000
MAX_SAMPLES = 720
MAX_QUEUES = 20


class Sample(NamedTuple):
    """The number of jobs of a queue in each state at one time."""

    at_ms: int
    counts: Mapping[State, int]


class SnapshotWatch:
    """Calls `report` when a finding of a queue appears or disappears, and samples the counts of such queues."""

    def __init__(self, report: Callable[[Sighting], None]) -> None:
        self._report = report
        self._last_findings: dict[
            Ref, tuple[tuple[Finding, int], ...]
        ] = {}  # by queue, for each kind of finding: (the last one seen, when in ms)
        self.samples: dict[Ref, deque[Sample]] = {}

    def record_snapshot(self, snapshot: Snapshot) -> None:
        """Record the findings and counts of a snapshot. Queues that are not in the snapshot stay as they were."""
        for ref, queue in snapshot.map_queues_by_ref().items():
            if queue.findings or ref in self._last_findings:
                self._observe_queue(ref, queue, snapshot.taken_ms)

    def _observe_queue(self, ref: Ref, queue: Queue, now_ms: int) -> None:
        """Report the findings of a queue that appeared or disappeared, and sample its counts."""
        seen = {finding.kind: (finding, last_ms) for finding, last_ms in self._last_findings.get(ref, ())}
        for finding in queue.findings:
            if finding.kind not in seen:
                self._report(_build_sighting(ref, finding, now_ms))
            seen[finding.kind] = (finding, now_ms)
        for kind, (finding, last_ms) in list(seen.items()):
            if now_ms - last_ms >= ABSENT_MS:
                del seen[kind]
                self._report(replace(_build_sighting(ref, finding, now_ms), at_ms=now_ms, is_over=True))
        self._last_findings[ref] = tuple(seen.values())
        if ref not in self.samples and len(self.samples) >= MAX_QUEUES:
            return
        samples = self.samples.setdefault(ref, deque(maxlen=MAX_SAMPLES))
        if not samples or now_ms - samples[-1].at_ms >= SAMPLE_INTERVAL_MS:
            samples.append(Sample(now_ms, {state: queue.count_in_state(state) for state in State}))


def _build_sighting(ref: Ref, finding: Finding, at_ms: int) -> Sighting:
    """Build the record of a finding that appears at `at_ms`, or when its problem began if that is known."""
    began_ms = at_ms if finding.since_ms is None else min(finding.since_ms, at_ms)
    return Sighting(began_ms, ref.queue, ref.system, finding.kind, finding.severity, finding.text)
