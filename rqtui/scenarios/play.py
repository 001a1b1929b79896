"""Which kind of run a scenario needs: on rqtui's own queues or on another system's, beside a screen or without one."""

from __future__ import annotations

import threading
from typing import Any

from rqtui.scenarios.foreign import ForeignRun
from rqtui.scenarios.native import NativeRun
from rqtui.scenarios.play_foreign import play_foreign
from rqtui.scenarios.play_native import play_native
from rqtui.scenarios.run import Run
from rqtui.scenarios.scenario import PLAY_S, NativeScenario, Scenario
from rqtui.scenarios.stage import ForeignScenario


def make_run(scenario: Scenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = "") -> Run:
    """The run of a scenario, not yet begun; see `Run`."""
    if isinstance(scenario, NativeScenario):
        return NativeRun(scenario, url, seed, server_pid, folder)
    assert isinstance(scenario, ForeignScenario)
    return ForeignRun(scenario, url, seed, server_pid, folder)


def run_headless(
    scenario: Scenario,
    url: str,
    seed: int = 1,
    seconds: float | None = None,
    stop: threading.Event | None = None,
    server_pid: int = 0,
) -> dict[str, Any]:
    """Play `scenario` for `seconds` on the Redis at `url` and say what happened, as JSON has it.

    None: one that has an end (`timeouts`) plays to it, the others for `PLAY_S`. `stop` ends it early.
    `server_pid`: as for a `Run`. Raises ServerError when Redis cannot be reached at the start.
    """
    if isinstance(scenario, NativeScenario):
        return play_native(scenario, url, seed, seconds or PLAY_S, stop, server_pid)
    assert isinstance(scenario, ForeignScenario)
    return play_foreign(scenario, url, seed, seconds, stop)
