"""The demo of another system beside the screen: the strip's keys, and the screen's own loops that serve its queue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis import Redis
from rich.cells import cell_len
from screens import WIDE, Screen, run_on_event_loop

from rqtui.config.settings import Settings
from rqtui.scenarios import SCENARIOS
from rqtui.scenarios.foreign_run import ForeignRun
from rqtui.scenarios.stage import ForeignScenario
from rqtui.tui.app import Cockpit
from rqtui.tui.widgets import frame

FOREIGN = {name: story for name, story in SCENARIOS.items() if isinstance(story, ForeignScenario)}
SAYS = {
    "delays": "original",
    "onboarding": "deleted",
    "timeouts": "pass",
    "consumers": "pass",
    "latecomer": "lost",
    "rq": "--with-scheduler",
    "celery": "no JSON",
    "sidekiq": "poll again",
    "bullmq": "BullMQ 5 paused",
}


@asynccontextmanager
async def open_demo(name: str, url: str) -> AsyncIterator[tuple[Screen, ForeignRun]]:
    """Play a scenario and open the screen beside it, as `rqtui demo` does."""
    story = FOREIGN[name]
    with ForeignRun(story, url) as run:
        settings = Settings(url, systems=(story.system,))
        app = Cockpit(settings, run, open_queue=story.queue, interval_s=0.25, foreign_loops=True)
        async with app.run_test(size=WIDE, notifications=True) as pilot:
            ui = Screen(app, pilot)
            await ui.until_shown(story.queue, "try")
            yield ui, run


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name == "rq" else pytest.param(name, marks=pytest.mark.matrix) for name in sorted(FOREIGN)]
)
@run_on_event_loop
async def test_each_demo_opens_on_its_board_and_its_keys_describe_their_effect(
    name: str, url: str, client: Redis
) -> None:
    async with open_demo(name, url) as (ui, run):
        await ui.until(lambda: run.compute_status().finished > 0, "its workers work")
        for place in run.stage.system.places:
            assert place.name[:9] in ui.text()  # of a long name the beginning
        await ui.press(next(control.key for control in run.controls if control.name == "kill"))
        await ui.until_shown("died")
        await ui.until(lambda: run.compute_status().workers_lost == 1, "one worker is dead")
        await ui.press("0")
        await ui.until_shown(SAYS[name])
        toasts = " ".join(ui.toasts)
        assert "died" not in toasts and SAYS[name] not in toasts, "what a demo says stands in its strip alone"
        await ui.press("d")
        await ui.until_shown(f"demo: {name}", "watch")


@pytest.mark.slow
@run_on_event_loop
async def test_the_screens_dispatcher_serves_the_demo_and_comma_stops_it(url: str, client: Redis) -> None:
    def overdue(by_s: float) -> int:
        return int(client.zcount("delayedtaskset", 0, time.time() - by_s))

    async with open_demo("delays", url) as (ui, run):
        await ui.until(lambda: run.compute_status().finished > 0, "jobs are dispatched from the start")
        run.set_speed(8)
        await ui.press("comma")
        await ui.until(lambda: overdue(1) >= 3, "due jobs stay")
        await ui.until_shown("due: , dispatches")
        await ui.press("comma")
        await ui.until(lambda: overdue(1.5) == 0, "they go in batches")


@pytest.mark.parametrize("width", [60, 78, 100])
def test_a_key_strip_without_space_drops_whole_keys_and_keeps_the_help_key(width: int) -> None:
    keys = [(str(number), "collector") for number in range(9)]
    left, right = frame.format_strip_line([*keys, ("d", "try")], ["5 workers"], "late", width)
    shown = frame.align_sides(left, right, width).plain
    assert shown.startswith("0 collector  1 collector") and "  d try" in shown and shown.rstrip().endswith("late")
    assert "…" not in shown and cell_len(shown) == width
