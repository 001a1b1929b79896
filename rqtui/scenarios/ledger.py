"""Ledger: what a scenario's actors did, job by job, so that what stands in Redis at the end can be held against it.

Written by many threads, read by the strip and by the check. Jobs are named by their bytes: an id, or the body where a
system has none; equal ones are counted.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RATE_S = 5.0


@dataclass(frozen=True, slots=True)
class Balance:
    """The ledger against Redis: jobs of which a trace is missing, and jobs that stand in two places."""

    lost: tuple[bytes, ...]
    standing: int  # jobs that wait, or are worked on
    two_places: Mapping[bytes, Sequence[str]]
    again: int  # jobs that were finished more often than they were put


class Ledger:
    """The record of what each actor did to each job."""

    def __init__(self) -> None:
        self.put: Counter[bytes] = Counter()
        self.finished: Counter[bytes] = Counter()
        self.withdrawn: Counter[bytes] = Counter()  # taken back by whoever put them
        self.fell: Counter[bytes] = Counter()  # in the hands of a worker that died
        self.given_up: Counter[bytes] = Counter()  # failed for good, where a system keeps no failed jobs
        self.attempts: Counter[bytes] = Counter()
        self.words: Counter[str] = Counter()  # late, stale, rejected, …: what a system answered
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._pulse: deque[float] = deque(maxlen=20_000)
        self._began_s = time.monotonic()

    @property
    def digest(self) -> str:
        """A digest of what the plan put, in order."""
        return self._digest.hexdigest()[:16]

    def plan(self, what: object) -> None:
        """Note something the plan did, for the digest."""
        self._digest.update(repr(what).encode())

    def note(self, counter: Counter[bytes], job: bytes) -> int:
        """One more of it; how many it makes."""
        with self._lock:
            counter[job] += 1
            return counter[job]

    def finish(self, job: bytes) -> None:
        """A worker is done with it."""
        self.note(self.finished, job)
        self._pulse.append(time.monotonic())

    def say(self, word: str) -> None:
        """A system's answer, counted."""
        with self._lock:
            self.words[word] += 1

    def finished_s(self) -> float:
        """Jobs finished per second, over the last five seconds."""
        now = time.monotonic()
        since_s = max(now - RATE_S, self._began_s)
        return sum(at_s >= since_s for at_s in self._pulse.copy()) / max(0.5, now - since_s)

    def balance(self, standing: Mapping[bytes, Sequence[str]]) -> Balance:
        """Hold it against the places in which each job stands."""
        lost, again, waiting = [], 0, 0
        for job, number in self.put.items():
            left = self.finished[job] + self.withdrawn[job] + self.fell[job] + self.given_up[job]
            if left + len(standing.get(job, ())) < number:
                lost.append(job)
            elif left < number:
                waiting += 1
            again += max(0, self.finished[job] - number)
        two = {job: places for job, places in standing.items() if len(places) > max(1, self.put[job])}
        return Balance(tuple(lost), waiting, two, again)
