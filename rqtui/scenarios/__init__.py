"""Scenarios for the demo, without a screen: producers, workers and the faults they suffer, all from a seed.

SCENARIOS, scenario(name)      what there is, as data              (`table.py`)
make_run(scenario, url, seed)  one at play; the strip's keys are its methods    (`run.py`, `native.py`, `foreign.py`)
run_headless(scenario, url)    one played without a screen, counted and checked  (`play.py`)

`poison` and `rush` play on rqtui's own queues with simulated workers (`stories.py`); the others on the keys of a system
that rqtui did not invent, by the code of `originals/`.
"""

from rqtui.scenarios.play import make_run, run_headless
from rqtui.scenarios.play_native import check
from rqtui.scenarios.run import Run, Status
from rqtui.scenarios.scenario import CONTROLS, Control, Scenario
from rqtui.scenarios.table import SCENARIOS, scenario

__all__ = [
    "CONTROLS",
    "SCENARIOS",
    "Control",
    "Run",
    "Scenario",
    "Status",
    "check",
    "make_run",
    "run_headless",
    "scenario",
]
