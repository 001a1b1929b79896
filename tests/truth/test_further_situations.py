"""Further situations, played in a few systems only: wrong clocks, a renamed queue, lost data, and slow queues.

They use the worlds and the three ways of asking of the truth suite. Each cell must be right; none is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis
from slow_cases import mark_slow_cases
from truth.simulated_clock import SimulatedClock
from truth.situations import CARD, DAY_S, KEY, MINUTES, OPEN, Expected, Situation, work
from truth.test_truth import clock  # noqa: F401 (a fixture)
from truth.ways import WAYS, Screen, create_world, watch
from truth.worlds import WORLDS, World, pass_time


class _WrongClock:
    """A clock that is some seconds behind (negative: ahead of) another one."""

    def __init__(self, right: Any, behind_s: float) -> None:
        self._right, self._behind_s = right, behind_s

    def __call__(self) -> float:
        return float(self._right()) - self._behind_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)


@contextmanager
def wrong_clock(world: World, behind_s: float) -> Iterator[None]:
    """Give the workers that start meanwhile a wrong clock. Producers and Redis keep the right one."""
    right = world.clock
    world.clock = _WrongClock(right, behind_s)  # type: ignore[assignment]
    try:
        yield
    finally:
        world.clock = right


def play_clock_behind(world: World, behind_s: float = 180) -> Iterator[float]:
    with wrong_clock(world, behind_s):
        world.start("w1", "w2")
    yield from work(world, 40, 10, 10)
    world.put(1)
    with wrong_clock(world, behind_s):
        world.hold("w1", 1)
    yield from pass_time(25)
    yield OPEN
    yield from pass_time(20)


def play_clock_ahead(world: World) -> Iterator[float]:
    yield from play_clock_behind(world, -180)


def play_renamed_queue(world: World) -> Iterator[float]:
    """Let producers use the new name of a queue, while all workers serve the old one."""
    former = type(world)(world.client, world.clock, world.url)
    former.queue = "former"
    former.prepare()
    former.start("w1", "w2")
    yield 5
    world.put(20)
    yield OPEN
    for _ in range(4):
        former.beat()
        yield 10


def play_flush(world: World) -> Iterator[float]:
    """Let a person empty the database while jobs wait; producers and new workers go on."""
    world.start("w1", "w2")
    yield from work(world, 60, 20, 18)
    world.client.flushdb()
    world.clock.write()
    world.prepare()
    world.alive.clear()
    world.start("w3", "w4")
    yield OPEN
    yield from work(world, 60, 10, 10)


def play_suspension(world: World) -> Iterator[float]:
    """Let the machine of Redis and all programs sleep for an hour."""
    world.start("w1", "w2")
    yield from work(world, 60, 10, 10)
    world.clock.travel(3600)
    world.beat()
    yield OPEN
    yield from work(world, 60, 10, 10)


def play_clock_set_back(world: World) -> Iterator[float]:
    """Set the clock of all machines back by an hour."""
    world.start("w1", "w2")
    yield from work(world, 60, 10, 10)
    world.clock.travel(-3600)
    yield OPEN
    yield from work(world, 60, 10, 10)


def play_burst_each_minute(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    for minute in range(10):
        world.put(100)
        if minute == 8:
            yield OPEN
        for _ in range(4):
            world.run(25)
            yield 10
        yield 20


def plant_old_failures(world: World) -> None:
    world.fail_earlier(1000, KEY, 2 * DAY_S)


def play_few_failures_among_old_ones(world: World) -> Iterator[float]:
    """Let 3 of 120 jobs fail in a queue with a thousand old failures."""
    world.start("w1", "w2")
    for step in range(12):
        if step == 10:
            yield OPEN
        world.put(10)
        world.run(9)
        world.run(1, *([CARD] if step in (4, 7, 10) else []))
        yield 10


def play_slow_failures(world: World) -> Iterator[float]:
    """Let one job come every ten minutes, and all fail for two hours after one that went well."""
    world.start("w1")
    for step in range(13):
        world.put(1)
        world.run(1, *([CARD] if step else []))
        yield from pass_time(600, 50)
    yield OPEN
    yield 50


def play_slow_failures_that_end(world: World) -> Iterator[float]:
    """Let the same queue do its next job well."""
    for seconds in play_slow_failures(world):
        if seconds != OPEN:
            yield seconds
    world.put(1)
    world.run(1)
    yield 60


# Sidekiq knows that processes run, and what time they have.
OF_SIDEKIQ = {
    "renamed": Expected({"no-consumer"}, r"^20 jobs in .* no process works on this queue, although other", "critical"),
    "behind": Expected({"worker-clock"}, r"^the clock of 2 processes is wrong, .* 3m00 behind Redis"),
    "ahead": Expected({"worker-clock"}, r"^the clock of 2 processes is wrong, .* 3m00 ahead of Redis"),
}
SITUATIONS = (
    Situation("behind", "the clock of the workers is three minutes behind", play_clock_behind),
    Situation("ahead", "the clock of the workers is three minutes ahead", play_clock_ahead),
    Situation(
        "renamed", "producers use the new name of a queue, and all workers the old one", play_renamed_queue,
        (Expected({"no-live-worker"}, r"^no worker serves this queue, and 20 jobs are ready.* · start "),),
    ),
    Situation("flush", "the database is emptied, and work goes on", play_flush),
    Situation("suspension", "all machines sleep for an hour", play_suspension),
    # Until its next heartbeat, a process of Sidekiq has a time of its own that is an hour ahead.
    Situation("set-back", "the clock is set back by an hour", play_clock_set_back,
              tolerated=frozenset({"worker-clock"})),
    Situation("bursts", "a hundred jobs come each minute, and are done within 40 s", play_burst_each_minute),
    Situation("few", "3 of 120 jobs fail, beside a thousand old failures", play_few_failures_among_old_ones,
              prepare=plant_old_failures),
)  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.id)
@pytest.mark.parametrize("system", mark_slow_cases(["native", "rq", "sidekiq"], ("rq", "sidekiq")))
def test_a_further_situation_is_reported_truly(
    system: str,
    situation: Situation,
    client: Redis,
    url: str,
    clock: SimulatedClock,  # noqa: F811
) -> None:
    world = create_world(WORLDS[system], client, clock, f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/0")
    if system == "sidekiq" and situation.id in OF_SIDEKIQ:
        situation = replace(situation, expected=(OF_SIDEKIQ[situation.id],))
    verdicts = watch(world, situation)
    assert {way: verdicts[way] for way in WAYS if verdicts[way].word != "right"} == {}


SLOW = Situation(
    "slow", "one job comes every ten minutes, and the last twelve failed", play_slow_failures,
    (Expected({"failing"}, r"^the last 1[12] attempts failed.*\(CardDeclined 12\)", "critical"),),
    frozenset({MINUTES}),
)  # fmt: skip
# RQ deletes a success after 500 s, and Sidekiq stores none: only a screen that was open knows that all attempts failed.
SLOW_WORDS = {
    "native": ("right", "right", "right"), "bullmq": ("right", "right", "right"), "rq": ("right", "unknown", "unknown"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("system", SLOW_WORDS)
def test_a_slow_queue_whose_last_attempts_failed_is_reported(
    system: str,
    client: Redis,
    url: str,
    clock: SimulatedClock,  # noqa: F811
) -> None:
    world = create_world(WORLDS[system], client, clock, f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/0")
    verdicts = watch(world, SLOW)
    assert tuple(verdicts[way].word for way in WAYS) == SLOW_WORDS[system], verdicts


@pytest.mark.slow
@pytest.mark.parametrize("system", ["native", "rq", "sidekiq"])
def test_a_slow_queue_is_well_again_after_the_first_success(
    system: str,
    client: Redis,
    url: str,
    clock: SimulatedClock,  # noqa: F811
) -> None:
    world = create_world(WORLDS[system], client, clock, f"{url.partition('?')[0].rstrip('/').removesuffix('/0')}/0")
    screen, kinds = Screen(world), []
    for seconds in play_slow_failures_that_end(world):
        world.clock.advance(seconds)
        world.beat()
        screen.refresh()
        kinds.append([finding.kind for finding in screen.answers[-1].findings])
    screen.close()
    world.close()
    assert "failing" in kinds[-3] and "failing" not in kinds[-1]
