"""Test health evaluation: the cached findings of an idle queue equal those of a new evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from rqtui.config.thresholds import DEFAULTS, Limit
from rqtui.engine.health.evaluation import HealthEvaluator
from rqtui.engine.health.probe_results import RecentDeaths, WorkerActivity
from rqtui.engine.health.probes import Probes
from rqtui.engine.rates import Rates
from rqtui.model import Cause, Count, Finding, Queue, Rate, Ref, State
from rqtui.systems import registry

NATIVE = {"native": registry.create_system("native")}
MAIL = Ref("native", "mail")
STRICT = DEFAULTS._replace(waiting=Limit(20_000, 90_000), late=Limit(5_000, 45_000))
FAULT = Finding("silent-leases", "warning", "mail", "a lease of nobody", jobs=1)


class TimedCount(NamedTuple):
    """A count of the queue, when it is made, and what closer looks found since the last one."""

    queue: Queue
    at_s: float
    found: dict[tuple[Ref, str], object]


class Evaluations:
    """Rates, probes and verdicts of one queue over time; with `forgets` each evaluation starts without a cache."""

    def __init__(self, random: Random, *, forgets: bool) -> None:
        self.forgets, self.limits = forgets, random.choice([DEFAULTS, STRICT])
        self.rates, self.inspections = Rates(), Probes(NATIVE)
        self.judging = HealthEvaluator(NATIVE, self.rates, self.inspections, lambda _ref: self.limits)

    def look(self, look: TimedCount) -> tuple[Queue, Rate, list[str]]:
        """Evaluate the health of a queue, and return the queue, its rate and the probes that are due."""
        if self.forgets:
            self.judging._cache.clear()
        self.inspections.build_due_requests([MAIL], look.at_s, ())
        marks = self.inspections.store_results(look.found, look.at_s)
        rates = {MAIL: self.rates.compute_rate(MAIL, look.queue, look.at_s)}
        result = self.judging.attach_findings({MAIL: look.queue}, rates, marks)[MAIL]
        return result, rates[MAIL], [name for name, refs in self.inspections._refs_by_kind.items() if MAIL in refs]


def test_a_finding_of_the_first_probe_of_a_queue_has_no_start_and_one_of_a_later_probe_has() -> None:
    for is_first in (True, False):
        probes, queue = Probes(NATIVE), Queue("mail", "native", counted_ms=1_000)
        key = (MAIL, "faults")
        probes.update_queue(MAIL, queue)
        if not is_first:
            probes.store_results({key: ()}, 1.0)
            probes.update_queue(MAIL, queue._replace(counted_ms=2_000))
        probes.store_results({key: (FAULT,)}, 2.0)
        result = probes.update_queue(MAIL, queue._replace(counted_ms=3_000, findings=(FAULT,)))
        assert [finding.since_ms for finding in result.findings] == [None if is_first else 3_000]


def yield_counts(random: Random) -> Iterator[TimedCount]:
    """Return counts of a queue that is mostly idle: counts change now and then, and time passes by seconds or hours."""
    counters = {"in": 9, "out": 0, "failed": 0, "dead": 0}
    counts = tuple(Count(state.value, state, 0) for state in State)
    now_ms, at_s, since_ms, paused_ms, workers = 1_800_000_000_000, 1.0, 1_799_999_990_000, -1, 0
    overdue = expired = 0
    paces = [0, 500, 2_000, 2_000, 2_000, 15_000, 45_000, 400_000, 86_400_000, -3_000], [61_000]
    pace, moves = random.choice(paces), random.choice([0.05, 0.3])
    for _ in range(random.randrange(10, 60)):
        step_ms = random.choice(pace)
        now_ms, at_s = now_ms + step_ms, at_s + max(step_ms, 500) / 1000
        if random.random() < moves:  # something happens
            change = random.randrange(8)
            if change < 2:
                number = random.choice([0, 1, 12, 1_200])
                place = random.choice([*State])
                counts = tuple(Count(e.place, e.state, number) if e.state is place else e for e in counts)
            elif change == 2:
                counters = {name: each + random.choice([0, 0, 1, 40]) for name, each in counters.items()}
            elif change == 3:
                since_ms = random.choice([-1, now_ms, now_ms - 30_000, max(-1, since_ms - 1_000), 1])
            elif change == 4:
                paused_ms = random.choice([-1, now_ms, now_ms - 60_000])
            elif change == 5:
                workers = random.randrange(3)
            elif change == 6:
                overdue = random.choice([0, 0, 3])
            else:
                expired = random.choice([0, 0, 2])
        queue = Queue(
            "mail",
            "native",
            counts,
            now_ms,
            paused_ms >= 0,
            workers,
            max(0, now_ms - since_ms) if since_ms >= 0 else None,
            -7_000 if overdue else None,
            -8_000 if expired else None,
            overdue,
            expired,
            counters,
            paused_ms=paused_ms if paused_ms > 0 else None,
            findings=(Finding("wrong-type", "critical", "mail", "a key"),) if random.random() < 0.03 else (),
        )
        found: dict[tuple[Ref, str], object] = {}
        if random.random() < 0.1:
            found[MAIL, "faults"] = random.choice([(), (FAULT,), (replace(FAULT, jobs=2),)])
        if random.random() < 0.05:
            found[MAIL, "hours"] = ((), random.choice([None, 4_000, 600_000]))
        if random.random() < 0.05:
            found[MAIL, "deaths"] = (Cause("TimeoutError", 3),), RecentDeaths(random.choice([0, 1_200]))
        if random.random() < 0.1:
            found[MAIL, "workers"] = random.choice([WorkerActivity(2, 1, 0), WorkerActivity(1, 0, 1)])
        yield TimedCount(queue, at_s, found)


@pytest.mark.slow
def test_the_cached_evaluation_of_an_idle_queue_equals_a_new_one() -> None:
    reused = 0
    for seed in range(400):
        story = [*yield_counts(Random(seed))]
        remembers, forgets = (Evaluations(Random(seed), forgets=forgets) for forgets in (False, True))
        for number, look in enumerate(story):
            before = remembers.judging._cache.get(MAIL)
            actual, expected = remembers.look(look), forgets.look(look)
            assert actual == expected, f"seed {seed}, look {number}: {actual} is not {expected}"
            reused += before is not None and remembers.judging._cache.get(MAIL) is before
    assert reused > 1_000, "and mostly it is not made anew"


def test_findings_of_a_probe_are_reported_although_the_queue_is_idle() -> None:
    judge, queue = (
        Evaluations(Random(0), forgets=False),
        Queue("mail", "native", (Count("ready", State.READY, 0),), 1_000),
    )
    at_rest = [judge.look(TimedCount(queue._replace(counted_ms=ms), ms / 1000, {}))[0] for ms in (1_000, 3_000, 5_000)]
    assert all(not each.findings for each in at_rest)
    found = judge.look(TimedCount(queue._replace(counted_ms=7_000), 7.0, {(MAIL, "faults"): (FAULT,)}))[0]
    assert [each.kind for each in found.findings] == ["silent-leases"]
    still = judge.look(TimedCount(queue._replace(counted_ms=9_000), 9.0, {}))[0]
    assert [each.kind for each in still.findings] == ["silent-leases"]


def test_a_wait_becomes_unusual_while_the_queue_stays_as_it_was() -> None:
    """What is usual is learned from the ages of earlier looks, and goes into the judging of the next ones."""
    queue = Queue("mail", "native", (Count("ready", State.READY, 5),), 1_000, workers=2, oldest_ready_ms=2_000)
    rates = Rates()
    judging = HealthEvaluator(NATIVE, rates, Probes(NATIVE), lambda _ref: DEFAULTS)

    def evaluate_queue(at_ms: int, waits_ms: int) -> tuple[Queue, Rate]:
        look = queue._replace(counted_ms=at_ms, oldest_ready_ms=waits_ms)
        of = {MAIL: rates.compute_rate(MAIL, look, at_ms / 1000)}
        return judging.attach_findings({MAIL: look}, of, ())[MAIL], of[MAIL]

    minutes = range(1, 61)
    for minute in minutes:
        found, rate = evaluate_queue(minute * 60_000, 2_000)
        assert rate.usual_wait_ms is None and not found.findings, "a short wait is compared with nothing"
    assert rates.find_usual_wait_ms(MAIL) == 2_000
    found, rate = evaluate_queue(61 * 60_000, 120_000)
    assert rate.usual_wait_ms == 2_000
    assert [(each.kind, each.detail) for each in found.findings] == [("oldest-ready", "usually 2 s")]
    assert evaluate_queue(61 * 60_000 + 1, 60_000)[1].usual_wait_ms == 2_000
    assert evaluate_queue(61 * 60_000 + 2, 59_999)[1].usual_wait_ms is None
    unknown, none = HealthEvaluator(NATIVE, Rates(), Probes(NATIVE), lambda _ref: DEFAULTS), {MAIL: Rate()}
    [fresh] = unknown.attach_findings({MAIL: queue._replace(oldest_ready_ms=120_000)}, none, ()).values()
    assert none[MAIL].usual_wait_ms is None and not [each for each in fresh.findings if each.detail]


def test_an_idle_queue_is_evaluated_again_when_its_usual_wait_becomes_known() -> None:
    queue = Queue("mail", "native", (Count("ready", State.READY, 5),), 1_000_000, workers=2, oldest_ready_ms=120_000)
    judging = HealthEvaluator(NATIVE, Rates(), Probes(NATIVE), lambda _ref: DEFAULTS)
    for later_ms, usual_ms, expected in ((0, None, []), (2_000, None, []), (4_000, 2_000, ["oldest-ready"])):
        look = queue._replace(counted_ms=1_000_000 + later_ms, oldest_ready_ms=120_000 + later_ms)
        found = judging.attach_findings({MAIL: look}, {MAIL: Rate(usual_wait_ms=usual_ms)}, ())[MAIL]
        assert [each.kind for each in found.findings] == expected
