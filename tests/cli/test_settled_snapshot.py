"""Check what `health` and `snapshot` report of a queue whose workers are between two jobs, or idle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from redis import Redis
from shell import Ran, shell
from truth.simulated_clock import SimulatedClock
from truth.worlds import Native, Rq, World

from rqtui.cli import settled_snapshot
from rqtui.text.formats import format_quantity


@pytest.fixture
def clock(client: Redis) -> Iterator[SimulatedClock]:
    clock = SimulatedClock(client)
    with pytest.MonkeyPatch.context() as patch_of_time:
        clock.install(patch_of_time)
        clock.restart()
        yield clock


@pytest.fixture(params=[Native, Rq])
def world(
    request: pytest.FixtureRequest, client: Redis, url: str, clock: SimulatedClock, settings: Callable[[str, str], None]
) -> Iterator[World]:
    settings("save", "3600 1")  # a server without persistence has a warning of its own
    world: World = request.param(client, clock, f"{url.rstrip('/').removesuffix('/0')}/0")
    world.start("w1", "w2")
    world.put(5)
    world.run(5)
    world.put(8)
    for _ in range(4):
        clock.advance(5)
        world.beat()
    yield world
    world.close()


@contextmanager
def record_waits(world: World, act: Callable[[int], object] = lambda _look: None) -> Iterator[list[float]]:
    """Let simulated time pass where the command waits, and call `act` before each further look."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        world.clock.advance(seconds)
        world.beat()
        act(len(waits))

    with patch.object(settled_snapshot, "sleep", wait):
        yield waits


def run_command(world: World, command: str = "health") -> Ran:
    return shell(world.url, "--system", world.spec, command, "--json")


def test_a_job_that_is_taken_at_the_second_snapshot_shows_that_the_workers_are_well(world: World) -> None:
    with record_waits(world, lambda _look: world.run(1)) as waits:
        ran = run_command(world)
    assert (ran.code, ran.json["severity"], ran.json["findings"]) == (0, "ok", [])
    assert not any("idle workers" in each["what"] for each in ran.json["unknown"])
    assert waits == [1.0]


def test_a_job_that_is_taken_late_still_shows_it(world: World) -> None:
    with record_waits(world, lambda look: world.run(1) if look == 4 else None) as waits:
        ran = run_command(world)
    assert (ran.code, ran.json["severity"], len(waits)) == (0, "ok", 4)


def test_workers_that_take_no_job_for_five_seconds_are_reported_with_that_time(world: World) -> None:
    with record_waits(world) as waits:
        ran = run_command(world)
    (finding,) = ran.json["findings"]
    assert (ran.code, finding["kind"], finding["severity"]) == (1, "idle-workers", "warning")
    assert finding["text"] == "2 idle workers take none of 8 ready jobs" and finding["detail"] == "watched for 5 s"
    assert sum(waits) == 5


def test_jobs_that_wait_only_for_seconds_leave_it_unknown(world: World) -> None:
    world.run(8)
    world.put(3)
    with record_waits(world) as waits:
        ran = run_command(world)
    assert (ran.code, ran.json["findings"]) == (3, [])
    assert ["idle workers" in each["what"] for each in ran.json["unknown"]] == [True]
    assert len(waits) == settled_snapshot.MAX_REPEATS


def test_a_command_does_not_wait_where_something_else_is_unknown_too(world: World) -> None:
    world.put(100)
    with record_waits(world) as waits:
        ran = run_command(world)
    # RQ stores no history, so that its growth is unknown, whatever a second look would show.
    assert (ran.code, waits) == ((3, []) if world.system == "rq" else (1, [1.0] * 5))


def test_a_command_does_not_wait_for_a_queue_at_rest(world: World) -> None:
    world.run(8)
    with record_waits(world) as waits:
        assert run_command(world).code == 0
    assert waits == []


def test_a_snapshot_has_the_verdict_of_the_second_snapshot(world: World) -> None:
    with record_waits(world):
        (queue,) = [each for each in run_command(world, "snapshot").json["queues"] if each["queue"] == world.queue]
    assert queue["verdict"]["severity"] == "warning"
    assert json.dumps(queue["verdict"]).count(f"none of {format_quantity(8, 'ready job')}") == 1
