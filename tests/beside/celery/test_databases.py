"""Two stock applications in two databases of one Redis, which publishes to both of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.celery.stock import Stock
from beside.environments import CELERY, build_celery
from redis import Redis
from screens import WIDE, run_on_event_loop, screen
from waiting import wait_until

pytestmark = pytest.mark.beside


@pytest.fixture(params=sorted(CELERY))
def apps(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[tuple[Stock, Stock]]:
    """Staging in database 1, production in database 2."""
    folder = build_celery(str(request.param))
    for name in ("staging", "production"):
        (tmp_path / name).mkdir()
    with (
        Stock(folder, f"{url}/1", tmp_path / "staging") as staging,
        Stock(folder, f"{url}/2", tmp_path / "production") as production,
    ):
        yield staging, production


@pytest.mark.parametrize("events", [False, True], ids=["silent", "with -E"])
@run_on_event_loop
async def test_failures_of_staging_are_no_failures_of_production(
    apps: tuple[Stock, Stock], url: str, events: bool
) -> None:
    staging, production = apps
    for app in apps:
        app.configure(result_extended=True)
    production.enqueue("sum")
    async with screen(f"{url}/2", WIDE) as ui:
        await ui.until_shown("default")
        await ui.press("enter")
        await ui.until_shown("queue 1")
        for number in range(3):
            staging.enqueue(f"bad-{number}", "shop.confirm", (4711,))
        staging.start(name="of-staging", events=events)
        for number in range(3):
            staging.until(f"bad-{number}", "FAILURE")
        production.start(name="of-production", events=events)  # its outcome is published behind those of staging
        await ui.until_shown("succeeded 1")
        await ui.press("7")
        await ui.until_shown("failed 0")
        assert "bad-" not in ui.text() and "no such order" not in ui.text()
    assert production.runs() == {"sum": ["of-production"]} and not production.read_waiting()


@run_on_event_loop
async def test_a_failure_that_staging_keeps_in_productions_database_is_not_put_into_productions_queue(
    apps: tuple[Stock, Stock], url: str
) -> None:
    staging, production = apps
    staging.configure(result_extended=True, result_backend=f"{url}/2")
    production.enqueue("sum")
    async with screen(f"{url}/2", WIDE) as ui:
        await ui.until_shown("default")
        await ui.press("enter")
        await ui.until_shown("queue 1")
        staging.enqueue("bad", "shop.confirm", (4711,))
        staging.start(name="of-staging")
        await ui.until_shown("failed 1")
        await ui.press("7")
        await ui.until_shown("bad")
        await ui.press("R")
        await ui.until_shown("Requeue")
        await ui.press("y")
        await ui.until_toast("only its result is known, and its broker may be another")
    assert production.read_waiting() == ["sum"] and not staging.read_waiting()
    assert staging.runs() == {"bad": ["of-staging"]}


@run_on_event_loop
async def test_results_that_are_kept_in_another_database_count_where_the_message_or_an_event_was_seen(
    apps: tuple[Stock, Stock], url: str
) -> None:
    staging, _production = apps
    staging.configure(result_backend=f"{url}/2")
    staging.enqueue("bad", "shop.confirm", (4711,))
    async with screen(f"{url}/1", WIDE) as ui:
        await ui.until_shown("default")
        await ui.press("enter")
        await ui.until_shown("queue 1", "confirm(4711)")  # this poll shows to which database `bad` belongs
        staging.start(name="of-staging")
        wait_until(lambda: staging.runs().get("bad"), what="the worker has run it")
        await ui.until_shown("failed 1")
        await ui.press("7")
        await ui.until_shown("no such order: 4711")


def test_a_command_for_a_queue_that_was_not_discovered_reaches_the_workers_of_its_database(
    apps: tuple[Stock, Stock],
) -> None:
    staging, production = apps
    staging.start(name="of-staging")
    running = production.run_holding("held", worker="of-production")
    found = production.rqtui("workers", "celery:default", "--inspect", "of-production@shop")
    assert {"name": "id", "value": "held", "kind": "text"} in found["facts"]
    assert production.act("cancel", "held", "--set", "signal=TERM", queue="celery:default") == {"held": "asked"}
    production.until("held", "REVOKED")
    assert running.process.poll() is None
