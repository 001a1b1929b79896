"""The registry of all scenarios by name, in the order in which `rqtui demo --list` prints them."""

from __future__ import annotations

from rqtui.errors import UsageError
from rqtui.scenarios.bullmq import BULLMQ
from rqtui.scenarios.celery import CELERY
from rqtui.scenarios.consumers import CONSUMERS
from rqtui.scenarios.delays import DELAYS
from rqtui.scenarios.incident import INCIDENT
from rqtui.scenarios.latecomer import LATECOMER
from rqtui.scenarios.native_scenarios import NATIVE
from rqtui.scenarios.onboarding import ONBOARDING
from rqtui.scenarios.rq import RQ
from rqtui.scenarios.scenario import Scenario
from rqtui.scenarios.sidekiq import SIDEKIQ
from rqtui.scenarios.timeouts import TIMEOUTS

SCENARIOS: dict[str, Scenario] = {
    story.name: story
    for story in (INCIDENT, DELAYS, ONBOARDING, TIMEOUTS, CONSUMERS, LATECOMER, RQ, CELERY, SIDEKIQ, BULLMQ, *NATIVE)
}


def find_scenario(name: str) -> Scenario:
    """Return the scenario named `name`, or `delays` for an empty name. Raise UsageError for an unknown name."""
    scenario = SCENARIOS.get(name or "delays")
    if scenario is None:
        raise UsageError(f'There is no scenario "{name}"; there are: {", ".join(SCENARIOS)}.')
    return scenario
