"""Compute the urgency of a finding or a queue as one number, by which every list with the worst first is sorted.

The weight is severity × jobs × time × haste:

* Critical counts as a thousand warnings; information weighs less than any warning.
* Jobs count by their number: fixing the queue helps each of them.
* Time counts by its logarithm: 1 for a new finding, 2 after nine minutes, at most 4, which is after 17 hours. An old
  finding was seen by others before, and no age may make one stale job outweigh five thousand dead ones.
* A finding that can be fixed only until some time counts a thousandfold until then.
"""

from __future__ import annotations

from math import floor, log2, log10

from rqtui.model import Finding, Queue

SEVERITY_FACTORS = {"info": 1e-9, "warning": 1.0, "critical": 1_000.0}
UNCOUNTED_JOBS = 1_000  # assumed for a queue whose jobs cannot be counted
MAX_TIME_FACTOR = 4.0
HASTE_FACTOR = 1_000.0


def compute_queue_urgency(queue: Queue) -> float:
    """Return the urgency of a queue's most urgent finding; 0 if the queue has no findings."""
    return max((compute_finding_urgency(finding, queue) for finding in queue.findings), default=0.0)


def compute_finding_urgency(finding: Finding, queue: Queue) -> float:
    """Compute the urgency of one finding: severity × jobs × time × haste. A finding about no jobs counts as one job."""
    jobs = finding.jobs or (1 if queue.counts else UNCOUNTED_JOBS)
    minutes = max(0, queue.counted_ms - finding.since_ms) / 60_000 if finding.since_ms is not None else 0.0
    haste = HASTE_FACTOR if finding.until_ms is not None and finding.until_ms > queue.counted_ms else 1.0
    return SEVERITY_FACTORS[finding.severity] * jobs * min(MAX_TIME_FACTOR, 1 + log10(1 + minutes)) * haste


def compute_urgency_step(queue: Queue) -> int:
    """Return the binary logarithm of a queue's urgency, rounded down, plus one; 0 if the queue has no findings.

    Lists are sorted by this number so that queues of similar urgency keep their order from one snapshot to the next.
    """
    weight = compute_queue_urgency(queue)
    return 1 + floor(log2(1 + weight)) if weight else 0
