"""Beside a consumer: extends its leases, beats for the worker, and sends what has waited too long.

One call extends all leases when the first has used up a third of its time; a worker beats at each third of its own.
It never ends with an error: while Redis is away it tries once a second, and jobs learn by the clock that they are lost.
`Beats` decides what is sent and when; `Heartbeat` is the thread that does it, `rqtui.aio.heartbeat` the task.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rqtui.client.ack_buffer import BATCH, Outbox, Parcel, Send
from rqtui.client.leased_job import Leased
from rqtui.coroutines import run_at_once
from rqtui.errors import RqtuiError
from rqtui.scripts.script import Answer, Call

log = logging.getLogger("rqtui")

WORKER_TTL_MS = 60_000  # a worker silent for longer counts as late
TICK_S = 0.1  # how often it looks while jobs are held; what waits in the outbox is sent after two ticks at most
RETRY_S = 1.0
SHARE = 3  # leases and workers beat at each third of their time


class Beats:
    """`held` maps tokens to weak references: a job that nobody can settle any more is not kept alive.

    `identity` are the constant arguments of `beat`; `on_order` is told `run`, `quiet` or `stop`; `on_tick` runs at each
    look while the consumer is busy.
    """

    def __init__(
        self,
        send: Send,
        make_call: Callable[[str, Mapping[str, object], Iterable[Sequence[object]]], Call],
        outbox: Outbox,
        *,
        identity: Mapping[str, object],
        ttr_ms: int | None,
        current: Callable[[], bytes],
        on_order: Callable[[str], None],
        on_tick: Callable[[], None],
    ) -> None:
        self.held: dict[str, weakref.ref[Leased[Any]]] = {}
        self._send, self._make_call, self._outbox = send, make_call, outbox
        self._identity, self._ttr_ms, self._current = identity, ttr_ms, current
        self._on_order, self._on_tick = on_order, on_tick
        self._is_resting = False
        self._is_closed = False
        self._next_beat_s = 0.0
        self._not_before_s = 0.0
        self._outbox_seen = 0
        self._failure = ""

    def _wake(self) -> None:
        """End a rest."""
        raise NotImplementedError

    def hold(self, jobs: Iterable[Leased[Any]]) -> None:
        """Keep the leases of `jobs` alive until they are settled, lost or garbage."""
        for job in jobs:
            self.held[job.token] = weakref.ref(job)
        if self._is_resting:
            self._wake()

    def let_go(self, job: Leased[Any]) -> None:
        """The lease of `job` is over or settled."""
        self.held.pop(job.token, None)

    def leave(self) -> Call:
        """The call that takes the worker off the list."""
        return self._make_call("beat", {**self._identity, "ttl_ms": WORKER_TTL_MS, "leave": True}, ())

    async def _looked(self) -> None:
        """One look, after which it goes on whatever happened."""
        try:
            await self._look()
        except Exception:  # a fault of ours must not end the beats, on which every lease hangs
            log.exception("the heartbeat failed; it goes on")
            self._not_before_s = time.monotonic() + RETRY_S

    def _rest_s(self) -> float:
        """How long to rest until the next look."""
        if self.held or self._outbox:
            return TICK_S if self._ttr_ms is None else max(0.01, min(TICK_S, self._ttr_ms / 10_000))
        return max(0.0, max(self._next_beat_s, self._not_before_s) - time.monotonic())

    async def _look(self) -> None:
        now_s = time.monotonic()
        if self.held:
            self._on_tick()
        if now_s < self._not_before_s:
            return
        parcels = self._waiting_parcels()
        leases = self._leases_to_extend(now_s)
        extends = [
            self._make_call(
                "extend", {"ttr_ms": self._ttr_ms}, [(job.id_bytes, job.token) for job in leases[at : at + BATCH]]
            )
            for at in range(0, len(leases), BATCH)
        ]
        beats = [self._beat()] if now_s >= self._next_beat_s else []
        calls = [*(parcel.call for parcel in parcels), *extends, *beats]
        if not calls:
            return
        results = await self._outbox.send(parcels, calls, self._send)
        failures = [result for result in results if isinstance(result, RqtuiError)]
        self._note(failures[0] if failures else None, now_s)
        self._learn(leases, results[len(parcels) : len(parcels) + len(extends)], now_s)
        if beats and isinstance(results[-1], Answer):
            self._next_beat_s = now_s + WORKER_TTL_MS / SHARE / 1000
            self._on_order(results[-1].word)

    def _note(self, failure: RqtuiError | None, now_s: float) -> None:
        """Log a failure once, not at each try."""
        if failure is not None:
            self._not_before_s = now_s + RETRY_S
        if failure is not None and str(failure) != self._failure:
            log.warning("heartbeat of %s: %s", self._identity["worker"], failure)
        self._failure = str(failure or "")

    def _waiting_parcels(self) -> list[Parcel]:
        """What has been in the outbox since the last look; what is younger the consumer's next trip will take."""
        seen, self._outbox_seen = self._outbox_seen, self._outbox.taken
        return self._outbox.take() if self._outbox and seen == self._outbox.taken else []

    def _leases_to_extend(self, now_s: float) -> list[Leased[Any]]:
        """All leases held, once the first of them has used up a third of its time."""
        leases = []
        is_time = False
        for token, reference in list(self.held.items()):
            job = reference()
            if job is None:
                self.held.pop(token, None)
                continue
            ttr_s = (self._ttr_ms or job.ttr_ms) / 1000
            left_s = job.until_s - now_s
            if job.settling or job.cancelled or job.outcome not in ("", "sent") or left_s > ttr_s:
                continue  # the last: its holder has asked for more than a beat would give
            leases.append(job)
            is_time = is_time or left_s < ttr_s * (SHARE - 1) / SHARE
        return leases if is_time else []

    def _learn(self, leases: Sequence[Leased[Any]], results: Sequence[Answer | Exception], began_s: float) -> None:
        for at, result in zip(range(0, len(leases), BATCH), results, strict=True):
            if isinstance(result, Exception):
                continue
            for job, answer in zip(leases[at : at + BATCH], result.each, strict=True):
                job.learn(answer.word, began_s, self._ttr_ms or job.ttr_ms)
                if answer.word != "extended":
                    self.let_go(job)

    def _beat(self) -> Call:
        return self._make_call("beat", {**self._identity, "ttl_ms": WORKER_TTL_MS, "job": self._current()}, ())


class Heartbeat(Beats):
    """The thread; see `Beats`."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self._nudge = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rqtui-heartbeat", daemon=True)

    def start(self) -> None:
        """Beat at once, then go on until `close`."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; returns when nothing it sent is under way any more."""
        self._is_closed = True
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            run_at_once(self._looked())
            self._rest()

    def _wake(self) -> None:
        self._nudge.set()

    def _rest(self) -> None:
        self._is_resting = True
        wait_s = self._rest_s()
        if self.held or self._outbox:
            self._is_resting = False
        if self._nudge.wait(wait_s):
            self._nudge.clear()
        self._is_resting = False
