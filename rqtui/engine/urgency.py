"""Urgency: how much a finding, and a queue, asks for somebody, as one number; what is sorted "worst first" goes by it.

    severity × jobs × time × haste

Critical counts as a thousand warnings. Jobs count as many as they are: whoever mends the queue helps each of them.
Time counts by its logarithm, 1 for what is new, 2 after nine minutes, and 4 at most, which is after 17 hours: what is
old has waited for somebody before, and no age may make one stale job outweigh five thousand dead ones, whatever its
severity. What can be mended only until an instant counts a thousand times until then.
"""

from __future__ import annotations

from math import floor, log2, log10

from rqtui.model import Finding, Queue

FACTORS = {"warning": 1.0, "critical": 1_000.0}
UNSEEN = 1_000  # jobs that a queue is taken to hold that cannot be counted
LONGEST = 4.0
HASTE = 1_000.0


def weight(queue: Queue) -> float:
    """That of its heaviest finding; 0 where nothing is wrong."""
    return max((weight_of(finding, queue) for finding in queue.findings), default=0.0)


def weight_of(finding: Finding, queue: Queue) -> float:
    """Severity × jobs × time × haste of one finding about a queue; one that is about no jobs counts as one."""
    jobs = finding.jobs or (1 if queue.counts else UNSEEN)
    minutes = max(0, queue.counted_ms - finding.since_ms) / 60_000 if finding.since_ms is not None else 0.0
    haste = HASTE if finding.until_ms is not None and finding.until_ms > queue.counted_ms else 1.0
    return FACTORS[finding.severity] * jobs * min(LONGEST, 1 + log10(1 + minutes)) * haste


def step(queue: Queue) -> int:
    """The weight in steps of the double, 0 where nothing is wrong: queues about as bad keep their order."""
    heavy = weight(queue)
    return 1 + floor(log2(1 + heavy)) if heavy else 0
