"""The scenarios of the demo: simulated producers, workers and their failures, all from a seed. `rqtui demo` calls it.

SCENARIOS, find_scenario(name)   the scenarios as data                        (`registry.py`)
create_run(scenario, url, seed)  a run for a screen, with the keys of its strip  (`runs.py`)
run_headless(scenario, url)      a run without a screen, counted and checked  (`runs.py`)

Native scenarios run on rqtui's own queues with simulated workers (`native_scenarios.py`, `native_run.py`). The others
run on the keys of other systems, with the code in `originals/` (`foreign_run.py`).
"""

from rqtui.scenarios.headless_native import check_queue
from rqtui.scenarios.registry import SCENARIOS, find_scenario
from rqtui.scenarios.run import Run, Status
from rqtui.scenarios.runs import create_run, run_headless
from rqtui.scenarios.scenario import CONTROLS, Control, Scenario

__all__ = [
    "CONTROLS",
    "SCENARIOS",
    "Control",
    "Run",
    "Scenario",
    "Status",
    "check_queue",
    "create_run",
    "run_headless",
    "find_scenario",
]
