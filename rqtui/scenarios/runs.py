"""Start a scenario: `create_run` for a screen, `run_headless` for a run without one.

Both choose the implementation for native queues or for other systems by the type of the scenario.
"""

from __future__ import annotations

import threading
from typing import Any

from rqtui.scenarios.foreign_run import ForeignRun
from rqtui.scenarios.headless_foreign import run_foreign_headless
from rqtui.scenarios.headless_native import run_native_headless
from rqtui.scenarios.native_run import NativeRun
from rqtui.scenarios.run import Run
from rqtui.scenarios.scenario import PLAY_S, NativeScenario, Scenario
from rqtui.scenarios.stage import ForeignScenario


def create_run(scenario: Scenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = "") -> Run:
    """Create the run of a scenario without starting it; see `Run`."""
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
    """Run `scenario` for `seconds` on the Redis at `url` and return the result as JSON data.

    Without `seconds`, a scenario that has an end (`timeouts`) runs to its end, any other for `PLAY_S`. `stop` ends the
    run early. `server_pid` is that of a `Run`. Raises ServerError if Redis is unreachable at the start.
    """
    if isinstance(scenario, NativeScenario):
        return run_native_headless(scenario, url, seed, seconds or PLAY_S, stop, server_pid)
    assert isinstance(scenario, ForeignScenario)
    return run_foreign_headless(scenario, url, seed, seconds, stop)
