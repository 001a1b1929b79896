"""Keep the jobs of killed processes, which Redis loses with the process.

Redis stores a running job only in `<identity>:work` of its process, which expires after the process was killed.
`system` records the running jobs of silent processes at each poll, and shows those that were lost as the place `lost`,
from which they can be put back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rqtui.model import Worker
from rqtui.scripts.script import Reply
from rqtui.system_base.foreign_system import convert_rows_to_dicts
from rqtui.text.formats import format_quantity
from rqtui.text.names import to_text

TTL_MS = 60_000  # lib/sidekiq/launcher.rb: `<identity>` and `<identity>:work` expire this long after a heartbeat
LATE_MS = 20_000  # a heartbeat comes every 10 s (Sidekiq 6 and older: 5)


class HeldJob(NamedTuple):
    """A job of a process that stopped sending heartbeats, and when the job was last seen in that process."""

    queue: str
    worker: bytes
    thread: bytes
    job: bytes
    run_at: str
    beat_ms: int
    seen_ms: int

    def build_row(self) -> dict[str, Any]:
        """Build a row of a page for a held job, with the columns of the script `page`."""
        token = self.worker + b" " + self.thread
        columns = {"head": self.job, "size": len(self.job), "tail": b"", "score": self.run_at, "token": token}
        return {**columns, "worker": to_text(self.worker), "beat_ms": ""}


class LostJobs:
    """Jobs that were lost with killed processes, stored in the memory of this program only.

    A job is lost if its process stopped sending heartbeats while it held the job, and both have since disappeared. A
    process that sends heartbeats again keeps its jobs. If a process left the list before its keys expired, it shut down
    properly or another program rescued its jobs.
    """

    MOST, MOST_BYTES, KEPT_MS = 1000, 16 * 1024 * 1024, 3_600_000

    def __init__(self) -> None:
        self._held_jobs: OrderedDict[tuple[bytes, bytes, bytes], HeldJob] = OrderedDict()
        self._lost_keys: set[tuple[bytes, bytes, bytes]] = set()

    def count(self, queue: str) -> int:
        """Return the number of lost jobs of a queue."""
        return sum(self._held_jobs[key].queue == queue for key in self._lost_keys)

    def list_jobs(self, queue: str) -> list[HeldJob]:
        """Return the lost jobs of a queue, in the order in which they were first seen."""
        return [held for key, held in self._held_jobs.items() if key in self._lost_keys and held.queue == queue]

    def list_workers(self, queue: str) -> Iterator[Worker]:
        """Yield the killed processes that held lost jobs of a queue."""
        for name in dict.fromkeys(held.worker for held in self.list_jobs(queue)):
            held = [self._held_jobs[key] for key in self._lost_keys if key[0] == name]
            host, pid, _nonce = ("::" + to_text(name)).rsplit(":", 2)
            job_count = format_quantity(len(held), "job")
            yield Worker(
                to_text(name),
                queue,
                max(held_job.beat_ms for held_job in held),
                LATE_MS,
                pid=pid,
                host=host.lstrip(":"),
                queues=tuple(sorted({held_job.queue for held_job in held})),
                state=f"killed with {job_count}, which only this rqtui has",
            )

    def remove_jobs(self, queue: str, jobs: Sequence[bytes]) -> None:
        """Remove lost jobs of a queue by their bytes, because Redis has them again."""
        for key in [key for key, held in self._held_jobs.items() if held.queue == queue and held.job in jobs]:
            self._drop_job(key)

    def update_jobs(self, reply: Reply | Exception) -> None:
        """Update the held and lost jobs from a reply of the script `held`. An error changes nothing."""
        if isinstance(reply, Exception):
            return
        now_ms = reply.values["now_ms"]
        assert isinstance(now_ms, int)
        rows = convert_rows_to_dicts(reply)
        if not self._held_jobs and not any(row["job"] for row in rows):
            return
        ages = {row["worker"]: row["beat_ms"] for row in rows if not row["thread"]}
        rows_by_key = {(row["worker"], row["thread"], row["job"]): row for row in rows if row["job"]}
        for key, row in rows_by_key.items():
            beat_ms = now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else now_ms - TTL_MS + max(0, row["left_ms"])
            held = HeldJob(row["queue"], *key, row["run_at"], beat_ms, now_ms)
            self._held_jobs[key] = held
            self._lost_keys.discard(key)
        for key in [key for key in self._held_jobs if key not in rows_by_key]:
            self._classify_missing_job(key, ages.get(key[0]), now_ms)
        while (
            len(self._held_jobs) > self.MOST
            or sum(len(held.job) for held in self._held_jobs.values()) > self.MOST_BYTES
        ):
            self._drop_job(next(iter(self._held_jobs)))

    def _classify_missing_job(self, key: tuple[bytes, bytes, bytes], age_ms: int | None, now_ms: int) -> None:
        """Decide whether a job that no process holds any more is lost.

        `age_ms` is the age of its process's last heartbeat; None if the process is not listed.
        """
        held = self._held_jobs[key]
        if key in self._lost_keys:
            if now_ms - held.seen_ms > self.KEPT_MS:
                self._drop_job(key)
            return
        is_alive = age_ms is not None and 0 <= age_ms <= LATE_MS
        is_before_expiry = now_ms < held.beat_ms + TTL_MS - 1000
        is_long_ago = now_ms - held.seen_ms > TTL_MS  # without polls in between, the job may have returned and ended
        if is_alive or is_before_expiry or is_long_ago:
            self._drop_job(key)
        else:
            self._lost_keys.add(key)

    def _drop_job(self, key: tuple[bytes, bytes, bytes]) -> None:
        self._held_jobs.pop(key, None)
        self._lost_keys.discard(key)
