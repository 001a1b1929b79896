"""Cache what workers publish: heartbeats, the queues that they serve, and since when all of them are idle.

Celery's workers are in no key. A heartbeat names no queue: which queues a worker serves is known from the tasks that it
received, and exactly only if it was asked (`inspect`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rqtui.model import Fact, Worker
from rqtui.system_base.event_cache import EventCache
from rqtui.system_base.lru_cache import LruCache
from rqtui.systems.celery import messages
from rqtui.systems.celery.payloads import parse_count, read_text_field

IDLE_MS = 4_000  # two intervals of heartbeats, which is longer than events wait for their batch
SILENT_MS = 10_000  # without a heartbeat, which comes every 2 s (celery/worker/heartbeat.py)
MAX_OFFLINE_WORKERS = 1000  # workers that went offline
WORKER_EVENTS = ("worker-online", "worker-heartbeat", "worker-offline")
MAX_WORKERS = 1000  # workers whose last heartbeat is cached


class WorkerHeartbeats:
    """The workers of all queues, as their events describe them. `event_cache` has their last heartbeats.

    `consumed_queues` has the queues that a worker named when it was asked, by worker. No event names them.
    """

    def __init__(self, event_cache: EventCache) -> None:
        self._event_cache = event_cache
        self.idleness = WorkerIdleness()
        self.consumed_queues: LruCache[str, tuple[str, ...]] = LruCache(MAX_WORKERS)
        self._offline: LruCache[str, None] = LruCache(MAX_OFFLINE_WORKERS)  # workers that went offline
        self._idle_since_ms: LruCache[str, int] = LruCache(MAX_WORKERS)  # by worker: the first idle heartbeat in a row

    def record_event(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a worker's heartbeat (sent every 2 s by default, with and without `-E`), its start or its end."""
        name = read_text_field(event, "hostname")
        if not name:
            return
        if event.get("type") != "worker-heartbeat":
            self.consumed_queues.pop(name, None)  # a new process may consume from other queues
        if event.get("type") == "worker-offline":
            self._event_cache.remove_worker(name)
            self._offline.store(name, None)
            return
        self._offline.pop(name, None)
        previous = self._event_cache.find_worker(name)
        self.idleness.record_heartbeat(
            name, parse_count(event.get("active")) or 0, parse_count(event.get("processed")) or 0, at_ms
        )
        active, freq = parse_count(event.get("active")), event.get("freq")
        self._drop_ended_runs(name, active, at_ms)
        facts = [Fact("active", str(active or 0)), Fact("processed", str(parse_count(event.get("processed")) or 0))]
        loads = event.get("loadavg")
        if isinstance(loads, list) and all(messages.is_number(load) for load in loads):
            facts.append(Fact("load", " ".join(f"{load:.2f}" for load in loads[:3])))
        ident, version = read_text_field(event, "sw_ident"), read_text_field(event, "sw_ver")
        if version:
            facts.append(Fact("version", f"{'Celery' if ident == 'py-celery' else ident} {version}"))
        self._event_cache.record_heartbeat(
            Worker(
                name,
                "",
                at_ms,
                max(SILENT_MS, round(2000 * freq) if messages.is_number(freq) else 0),
                pid=str(parse_count(event.get("pid")) or ""),
                host=name.partition("@")[2],
                started_ms=previous.started_ms if previous else at_ms if event.get("type") == "worker-online" else None,
                queues=previous.queues if previous else (),
                state="busy" if active else "idle",
                facts=tuple(facts),
            )
        )

    def _drop_ended_runs(self, worker: str, active: int | None, at_ms: int) -> None:
        """Drop running jobs of an idle worker that began before it was idle. The events about their ends were missed.

        A worker is idle if its heartbeats report no active task for `IDLE_MS`. Events of tasks are sent in batches, so
        that a start may be received after a later heartbeat.
        """
        if active != 0:
            self._idle_since_ms.pop(worker, None)
            return
        since_ms = self._idle_since_ms.get(worker)
        if since_ms is None:
            self._idle_since_ms.store(worker, at_ms)
        elif at_ms - since_ms >= IDLE_MS:
            for job in [*self._event_cache.yield_jobs("running")]:
                if job.worker == worker and job.since_ms is not None and job.since_ms < since_ms:
                    self._event_cache.discard(job.id)

    def record_served_queue(self, worker: str, queue: str) -> None:
        """Record that a worker received a job of a queue, and therefore serves that queue."""
        if not self.may_consume(worker, queue):
            self.consumed_queues.pop(worker)  # it was told to consume from more queues since it was asked
        last_seen = self._event_cache.find_worker(worker)
        if last_seen is not None and queue not in last_seen.queues:
            self._event_cache.record_heartbeat(last_seen._replace(queues=tuple(sorted({*last_seen.queues, queue}))))

    def is_silent(self, worker: str, now_ms: int, after_ms: int | None = None) -> bool:
        """Return whether a worker went offline, or sent no heartbeat for `after_ms` (by default for its own limit)."""
        last_seen = self._event_cache.find_worker(worker)
        if last_seen is None:
            return worker in self._offline
        return now_ms - last_seen.heartbeat_ms > (last_seen.ttl_ms if after_ms is None else after_ms)

    def may_consume(self, worker: str, queue: str) -> bool:
        """Return whether a worker consumes from a queue, or may do so because it was not asked."""
        return queue in self.consumed_queues.get(worker, (queue,))

    def build_consumed_fact(self, worker: Worker) -> Fact:
        """Build the fact that names the queues from which a worker consumes, as far as that is known."""
        if worker.name in self.consumed_queues:
            return Fact("consumes", ", ".join(self.consumed_queues[worker.name]) or "none")
        return Fact("consumes", f"{', '.join(worker.queues)}, others not known" if worker.queues else "not known")

    def count_consumers(self, queue: str, now_ms: int) -> int:
        """Return how many live workers consume from a queue, or may do so because they were not asked."""
        alive = self._event_cache.count_live_workers(now_ms)
        if not self.consumed_queues:
            return alive
        workers = self._event_cache.list_workers()
        return alive - sum(
            not worker.is_late(now_ms) and not self.may_consume(worker.name, queue) for worker in workers
        )


class WorkerIdleness:
    """Detects from heartbeats since when all workers are idle, and counts the tasks that they finished."""

    def __init__(self) -> None:
        self.ended = 0
        self._heartbeat_counts: LruCache[str, tuple[int, int]] = LruCache(MAX_WORKERS)  # by worker: active, processed
        self._active_ms = 0
        self._ready_since_ms: dict[str, int] = {}  # by queue: since when jobs are ready

    def record_heartbeat(self, worker: str, active: int, processed: int, at_ms: int) -> None:
        """Record the number of active and of processed tasks that a worker's heartbeat reports."""
        previous = self._heartbeat_counts.get(worker)
        if previous is None or active or processed != previous[1]:
            self._active_ms = at_ms
        if previous is not None:
            self.ended += max(0, processed - active - max(0, previous[1] - previous[0]))
        self._heartbeat_counts.store(worker, (active, processed))

    def compute_idle_since_ms(self, queue: str, ready: int, now_ms: int) -> int | None:
        """Return since when jobs of a queue have been ready and all workers idle; None if no job is ready."""
        if not ready:
            self._ready_since_ms.pop(queue, None)
            return None
        return max(self._ready_since_ms.setdefault(queue, now_ms), self._active_ms)

    def find_ready_since_ms(self, queue: str) -> int:
        """Return since when jobs of a queue have been ready; 0 if none is."""
        return self._ready_since_ms.get(queue, 0)
