"""The scenarios there are, by name, in the order in which they are listed."""

from __future__ import annotations

from rqtui.errors import UsageError
from rqtui.scenarios.bullmq import BULLMQ
from rqtui.scenarios.celery import CELERY
from rqtui.scenarios.consumers import CONSUMERS
from rqtui.scenarios.delays import DELAYS
from rqtui.scenarios.incident import INCIDENT
from rqtui.scenarios.latecomer import LATECOMER
from rqtui.scenarios.onboarding import ONBOARDING
from rqtui.scenarios.rq import RQ
from rqtui.scenarios.scenario import Scenario
from rqtui.scenarios.sidekiq import SIDEKIQ
from rqtui.scenarios.stories import NATIVE
from rqtui.scenarios.timeouts import TIMEOUTS

SCENARIOS: dict[str, Scenario] = {
    story.name: story
    for story in (DELAYS, ONBOARDING, TIMEOUTS, CONSUMERS, LATECOMER, RQ, CELERY, SIDEKIQ, BULLMQ, *NATIVE, INCIDENT)
}


def scenario(name: str) -> Scenario:
    """The scenario of that name; `delays` without one. Raises UsageError that lists them."""
    found = SCENARIOS.get(name or "delays")
    if found is None:
        raise UsageError(f'There is no scenario "{name}"; there are: {", ".join(SCENARIOS)}.')
    return found
