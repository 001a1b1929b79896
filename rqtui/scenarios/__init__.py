"""Scenarios for the demo, without a screen: seeded producers, simulated workers and the faults they suffer.

SCENARIOS, scenario(name)      what there is, as data        (`stories.py`, `scenario.py`)
Run(scenario, url, seed)       one at play; the strip's keys are its methods    (`run.py`)
run_headless(scenario, url)    one played for some seconds, counted and checked  (`play.py`)
"""

from rqtui.scenarios.play import check, run_headless
from rqtui.scenarios.run import Run, Status
from rqtui.scenarios.scenario import CONTROLS, Control, Scenario
from rqtui.scenarios.stories import SCENARIOS, scenario

__all__ = ["CONTROLS", "SCENARIOS", "Control", "Run", "Scenario", "Status", "check", "run_headless", "scenario"]
