"""The scenario `outage`, in which Redis is held and every accepted job is looked for; and the list of demos."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from redis import Redis
from screens import read_text
from waiting import wait_until

from rqtui.client.native_keys import build_queue_keys
from rqtui.connection.embedded import start_server
from rqtui.scenarios import SCENARIOS, run_headless
from rqtui.scenarios.native_run import NativeRun
from rqtui.scenarios.proof import verify_accepted_jobs
from rqtui.scenarios.scenario import NativeScenario
from rqtui.tui.screens.demo_chooser import DemoChooser

OUTAGE = SCENARIOS["outage"]
assert isinstance(OUTAGE, NativeScenario)


def test_an_outage_loses_nothing_and_every_id_is_accounted_for() -> None:
    with start_server("auto") as server:
        found = run_headless(OUTAGE, server.url, seed=4, seconds=4, server_pid=server.pid)
    assert found["lost"] == 0
    assert found["findings"] == []
    assert found["proof"]["accepted"] == found["put"] == sum(queue["enqueued"] for queue in found["queues"])
    assert found["proof"]["missing"] == found["proof"]["doubled"] == 0
    assert sum(found["proof"]["places"].values()) == found["put"]


def test_the_proof_names_a_lost_job_and_a_job_in_two_places(client: Redis) -> None:
    names = build_queue_keys("payments")
    client.zadd(names["ready"], {"a": 1, "b": 2, "c": 3})
    accepted = {"payments": [b"a", b"b", b"c"]}
    assert verify_accepted_jobs(client, accepted).lost == 0
    client.zrem(names["ready"], "b")
    client.zadd(names["done"], {"c": 1})
    found = verify_accepted_jobs(client, accepted)
    assert (found.missing, found.doubled, found.lost) == ((b"b",), (b"c",), 1)
    assert "1 LOST, such as b" in found.format_result()
    assert "1 in two places, such as c" in found.format_result()


def test_a_job_that_a_person_deleted_is_not_reported_as_lost(client: Redis) -> None:
    client.hset(build_queue_keys("payments")["meta"], "deleted", 1)
    found = verify_accepted_jobs(client, {"payments": [b"a"]})
    assert found.lost == 0
    assert "1 deleted by hand" in found.format_result()


@pytest.mark.slow
def test_when_redis_is_back_the_run_says_by_itself_that_nothing_is_lost() -> None:
    with start_server("auto") as server, NativeRun(replace(OUTAGE, cut_at_s=0.3), server.url, 1, server.pid) as run:
        run.cut_s = 1.0
        wait_until(lambda: run.compute_status().is_cut, 10, "Redis is held")
        wait_until(lambda: run.compute_status().message, 20, "the proof")
        assert run.compute_status().message.startswith("Redis is back. ")
        assert run.compute_status().message.endswith("none lost")


def test_the_list_of_demos_offers_all_of_them_and_starts_the_one_under_the_cursor() -> None:
    async def choose() -> str | None:
        app = DemoChooser(SCENARIOS)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert all(name in read_text(app) for name in SCENARIOS)
            await pilot.press("j", "j", "G", "k")
            await pilot.pause()
            assert app.query_one("#scenarios").cursor_id == "rush"  # type: ignore[attr-defined]
            await pilot.press("enter")
        return app.return_value

    assert asyncio.run(choose()) == "rush"


def test_closing_the_list_of_demos_starts_nothing() -> None:
    async def leave() -> str | None:
        app = DemoChooser(SCENARIOS)
        async with app.run_test(size=(60, 16)) as pilot:
            await pilot.press("q")
        return app.return_value

    assert asyncio.run(leave()) is None
