"""The class `Ledger`: the record of what a scenario's actors did to each job, for comparison with the state of Redis.

Many threads write it; the strip and the final check read it. A job is named by its bytes: an id, or the body if a
system has no ids. Equal bodies are counted.
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
    """The comparison of a scenario's ledger with Redis: lost jobs, waiting jobs and jobs in two places."""

    lost: tuple[bytes, ...]
    unfinished: int  # jobs that wait or run
    two_places: Mapping[bytes, Sequence[str]]
    duplicates: int  # jobs that were finished more often than they were put


class Ledger:
    """The record of what the actors of a scenario did to each job."""

    def __init__(self) -> None:
        self.put: Counter[bytes] = Counter()
        self.finished: Counter[bytes] = Counter()
        self.withdrawn: Counter[bytes] = Counter()  # deleted or revoked before they ran
        self.lost_with_worker: Counter[bytes] = Counter()  # lost with a worker that died
        self.given_up: Counter[bytes] = Counter()  # failed at the last attempt, if the system keeps no failed jobs
        self.attempts: Counter[bytes] = Counter()
        self.words: Counter[str] = Counter()  # the system's replies: late, stale, rejected, …
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._pulse: deque[float] = deque(maxlen=20_000)
        self._began_s = time.monotonic()

    @property
    def digest(self) -> str:
        """The digest of the actions that a scenario planned, in order; equal seeds give equal digests."""
        return self._digest.hexdigest()[:16]

    def update_digest(self, action: object) -> None:
        """Add a planned action to the digest."""
        self._digest.update(repr(action).encode())

    def count(self, counter: Counter[bytes], job: bytes) -> int:
        """Increase the number of a job in one of the ledger's counters by one, and return the new number."""
        with self._lock:
            counter[job] += 1
            return counter[job]

    def finish(self, job: bytes) -> None:
        """Record that a worker finished a job."""
        self.count(self.finished, job)
        self._pulse.append(time.monotonic())

    def count_word(self, word: str) -> None:
        """Count a result word that the system returned to an actor."""
        with self._lock:
            self.words[word] += 1

    def compute_finished_per_s(self) -> float:
        """Return the jobs finished per second, over the last five seconds."""
        now = time.monotonic()
        since_s = max(now - RATE_S, self._began_s)
        return sum(at_s >= since_s for at_s in self._pulse.copy()) / max(0.5, now - since_s)

    def compute_balance(self, places_by_job: Mapping[bytes, Sequence[str]]) -> Balance:
        """Compare the record of each job with the places where Redis has the job."""
        lost, duplicates, waiting = [], 0, 0
        for job, number in self.put.items():
            ended = self.finished[job] + self.withdrawn[job] + self.lost_with_worker[job] + self.given_up[job]
            if ended + len(places_by_job.get(job, ())) < number:
                lost.append(job)
            elif ended < number:
                waiting += 1
            duplicates += max(0, self.finished[job] - number)
        two_places = {job: places for job, places in places_by_job.items() if len(places) > max(1, self.put[job])}
        return Balance(tuple(lost), waiting, two_places, duplicates)
