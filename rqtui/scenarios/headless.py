"""Start rqtui's dispatcher and reaper for a run without a screen, and press the scenario's controls on schedule.

`headless_native.py` and `headless_foreign.py` use them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop, Round, build_round
from rqtui.model import Ref
from rqtui.scenarios.run import Run
from rqtui.system_base.system import System


class DispatcherAndReaper:
    """The dispatcher and reaper over a system's queues, where it supports them, with counts of moved jobs."""

    def __init__(self, url: str, system: System, queues: Sequence[str]) -> None:
        self.moved: Counter[str] = Counter()
        self.errors: list[str] = []
        verbs = [verb for verb in ("dispatch", "reap") if system.can(verb)]
        self._clients = {verb: connect(url, client_name=f"rqtui-demo-{verb}") for verb in verbs}
        refs = [Ref(system.name, queue) for queue in queues]
        self._loops = [
            Loop(verb, build_round(verb, client, {system.name: system}, lambda: refs), self._count_moved)
            for verb, client in self._clients.items()
        ]

    def __enter__(self) -> DispatcherAndReaper:
        for loop in self._loops:
            loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.stop()
        for client in self._clients.values():
            client.close()

    def _count_moved(self, round: Round) -> None:
        """Add the jobs that one round of a loop moved to the counts."""
        self.errors += filter(None, [round.error, *(step.error for step in round.steps)])
        for step in round.steps:
            self.moved[step.verb] += step.moved
            if step.verb == "reap":
                self.moved["reaped_ready"] += int(step.values.get("ready", 0) or 0)
                self.moved["reaped_dead"] += int(step.values.get("dead", 0) or 0)


def press_controls_on_schedule(
    run: Run,
    acts: Sequence[tuple[float, str]],
    began_s: float,
    seconds: float,
    stop: threading.Event,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Press each control of `acts` at its share of the run's time, until `seconds`, `stop` or `is_over()`."""
    waiting = [(began_s + share * seconds, name) for share, name in acts]
    end_s = began_s + seconds
    while not stop.is_set() and not is_over():
        now_s = time.monotonic()
        while waiting and waiting[0][0] <= now_s:
            run.press(waiting.pop(0)[1])
        if now_s >= end_s:
            return
        stop.wait(max(0.0, min([end_s, now_s + 0.25, *(at_s for at_s, _ in waiting[:1])]) - now_s))
