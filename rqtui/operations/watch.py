"""Watch: what the pictures of a session show over time: findings as they come and go, and how many jobs stood where.

It keeps a bounded part: a finding counts as gone when it has not been seen for ten seconds of looking, and only the
queues that had a finding are counted, `QUEUES` of them, every ten seconds for two hours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rqtui.model import Finding, Queue, Ref, Snapshot, State
from rqtui.operations.journal import Sighting

GONE_MS = 10_000
SAMPLE_MS = 10_000
SAMPLES = 720
QUEUES = 20


class Sample(NamedTuple):
    """How many jobs of a queue were in each state at an instant."""

    at_ms: int
    counts: Mapping[State, int]


class Watch:
    """Looks at each picture; `tell` is told of what came or went."""

    def __init__(self, tell: Callable[[Sighting], None]) -> None:
        self._tell = tell
        self._seen: dict[Ref, tuple[tuple[Finding, int], ...]] = {}  # one of each kind: as last seen, and when
        self.samples: dict[Ref, deque[Sample]] = {}

    def look(self, snapshot: Snapshot) -> None:
        """Takes note of what a picture shows; of queues that are not in it nothing is known."""
        for ref, queue in snapshot.by_ref().items():
            if queue.findings or ref in self._seen:
                self._look_at(ref, queue, snapshot.taken_ms)

    def _look_at(self, ref: Ref, queue: Queue, now_ms: int) -> None:
        seen = {finding.kind: (finding, last_ms) for finding, last_ms in self._seen.get(ref, ())}
        for finding in queue.findings:
            if finding.kind not in seen:
                self._tell(_sighting(ref, finding, now_ms))
            seen[finding.kind] = (finding, now_ms)
        for kind, (finding, last_ms) in list(seen.items()):
            if now_ms - last_ms >= GONE_MS:
                del seen[kind]
                self._tell(replace(_sighting(ref, finding, now_ms), is_over=True))
        self._seen[ref] = tuple(seen.values())
        if ref not in self.samples and len(self.samples) >= QUEUES:
            return
        samples = self.samples.setdefault(ref, deque(maxlen=SAMPLES))
        if not samples or now_ms - samples[-1].at_ms >= SAMPLE_MS:
            samples.append(Sample(now_ms, {state: queue.count_in(state) for state in State}))


def _sighting(ref: Ref, finding: Finding, at_ms: int) -> Sighting:
    return Sighting(at_ms, ref.queue, ref.layout, finding.kind, finding.severity, finding.text)
