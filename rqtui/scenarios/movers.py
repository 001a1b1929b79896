"""What a run without a screen needs beside it: rqtui's dispatcher and reaper, and somebody who presses keys."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop, Round, mover
from rqtui.layout.layout import Layout
from rqtui.model import Ref
from rqtui.scenarios.run import Run


class Movers:
    """A dispatcher and a reaper over some queues of a layout, as far as it has them, and what they moved."""

    def __init__(self, url: str, layout: Layout, queues: Sequence[str]) -> None:
        self.moved: Counter[str] = Counter()
        self.errors: list[str] = []
        verbs = [verb for verb in ("dispatch", "reap") if layout.can(verb)]
        self._clients = {verb: connect(url, client_name=f"rqtui-demo-{verb}") for verb in verbs}
        refs = [Ref(layout.name, queue) for queue in queues]
        self._loops = [
            Loop(verb, mover(verb, client, {layout.name: layout}, lambda: refs), self._note)
            for verb, client in self._clients.items()
        ]

    def __enter__(self) -> Movers:
        for loop in self._loops:
            loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.stop()
        for client in self._clients.values():
            client.close()

    def _note(self, done: Round) -> None:
        self.errors += filter(None, [done.error, *(step.error for step in done.steps)])
        for step in done.steps:
            self.moved[step.verb] += step.moved
            if step.verb == "reap":
                self.moved["reaped_ready"] += int(step.values.get("ready", 0) or 0)
                self.moved["reaped_dead"] += int(step.values.get("dead", 0) or 0)


def live(
    run: Run,
    acts: Sequence[tuple[float, str]],
    began_s: float,
    seconds: float,
    stop: threading.Event,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Until `seconds` are over, `stop` is set or `is_over()`: press each control of `acts` at its share of the time."""
    waiting = [(began_s + share * seconds, name) for share, name in acts]
    end_s = began_s + seconds
    while not stop.is_set() and not is_over():
        now_s = time.monotonic()
        while waiting and waiting[0][0] <= now_s:
            run.press(waiting.pop(0)[1])
        if now_s >= end_s:
            return
        stop.wait(max(0.0, min([end_s, now_s + 0.25, *(at_s for at_s, _ in waiting[:1])]) - now_s))
