"""Ask rqtui about a situation in three ways, and compare the answers with what is expected."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple
from unittest.mock import patch

from redis import Redis
from shell import shell
from truth.simulated_clock import SimulatedClock
from truth.situations import OPEN, Expected, ReportedFinding, Situation
from truth.worlds import World

from rqtui.cli import settled_snapshot
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.engine.health.rules import format_finding
from rqtui.engine.ticker import MIN_DISCOVERY_INTERVAL_S
from rqtui.model import Finding, Ref
from rqtui.systems import registry

WAYS = ("before", "afterwards", "once")
MAX_STEP_S = 5.0  # between two refreshes, and between two heartbeats of the simulated programs


class Answer(NamedTuple):
    """The findings of one refresh, the worst first, and the facts that are unknown."""

    findings: tuple[ReportedFinding, ...]
    unknown: frozenset[str] = frozenset()
    is_listed: bool = True  # False: no such queue was found


class Screen:
    """What a screen does: discover queues, listen to events, and refresh."""

    def __init__(self, world: World, discovery_interval_s: float = MIN_DISCOVERY_INTERVAL_S) -> None:
        self._discovery_interval_ms = int(discovery_interval_s * 1000)
        self.answers: list[Answer] = []
        self._engine = Engine(connect(world.url), registry.create_systems([world.spec]))
        self._ref = Ref(world.system, world.queue)
        self._engine.start_listening()
        self._now_ms = lambda: int(world.clock() * 1000)
        self._discover_ms = 0
        self.refresh()

    def refresh(self) -> None:
        """Take a snapshot and keep its answer."""
        if self._now_ms() >= self._discover_ms:
            self._discover_ms = self._now_ms() + self._discovery_interval_ms
            for _ in self._engine.discover():
                pass
        taken = self._engine.take_snapshot()
        named = dict(zip(taken.refs, taken.queues, strict=True))
        if self._ref in named:
            queue = named[self._ref]
            found = tuple(_describe(each, self._now_ms()) for each in queue.findings)
            self.answers.append(Answer(found, frozenset(queue.unknown)))
        else:
            self.answers.append(Answer((), is_listed=False))

    def close(self) -> None:
        """Close the connections."""
        self._engine.stop_listening()
        self._engine.client.close()


def _describe(finding: Finding, now_ms: int) -> ReportedFinding:
    causes = ", ".join(f"{cause.text} {cause.jobs}" for cause in finding.causes)
    text = f"{format_finding(finding, now_ms)} ({causes}) · {finding.remedy or finding.key}"
    return ReportedFinding(finding.kind, finding.severity, finding.queue, text)


def run_health_once(world: World) -> Answer:
    """Run `rqtui health --json` without a history. While it waits, the living programs go on."""

    def wait(seconds: float) -> None:
        world.clock.advance(seconds)
        world.beat()

    with patch.object(settled_snapshot, "sleep", wait):
        ran = shell(world.url, "--system", world.spec, "health", "--json")
    assert ran.out, ran.err
    document = ran.json
    found = []
    for each in document["findings"]:
        if each["queue"] is not None:
            causes = ", ".join(f"{cause['text']} {cause['jobs']}" for cause in each["causes"])
            text = f"{each['text']}, {each['detail']} ({causes}) · {each['remedy']}"
            found.append(ReportedFinding(each["kind"], each["severity"], each["queue"], text))
    what = frozenset(fact for each in document["unknown"] if each["queue"] == world.queue for fact in each["what"])
    return Answer(tuple(found), what)


class Verdict(NamedTuple):
    """The verdict of one cell: right, missed, false or unknown, and what was reported."""

    word: str
    reason: str = ""


def watch(world: World, situation: Situation) -> dict[str, Verdict]:
    """Let a situation happen, and return the verdict of each way of asking. Raises DoesNotApply."""
    if situation.prepare:
        situation.prepare(world)
    screens = {"before": Screen(world)}
    try:
        for step in situation.play(world):
            if step == OPEN:
                screens["afterwards"] = Screen(world)
                continue
            for at in range(ceil(step / MAX_STEP_S)):
                world.clock.advance(min(MAX_STEP_S, step - at * MAX_STEP_S))
                world.beat()
                for screen in screens.values():
                    screen.refresh()
        answers = {way: screen.answers for way, screen in screens.items()}
        answers["once"] = [run_health_once(world)]
    finally:
        for screen in screens.values():
            screen.close()
        world.close()
    return {way: compute_verdict(situation, answers[way], world) for way in WAYS}


def compute_verdict(situation: Situation, answers: Sequence[Answer], world: World) -> Verdict:
    """Compare the answers of one way with what is expected.

    A quiet situation must be quiet all the time. A loud one must be reported at the end, the first expected finding
    before all others. Where a system keeps neither ends nor errors, only the number of dead jobs can be reported.
    """
    wanted = [
        each if world.keeps_ends or "failing" not in each.kinds else Expected({"dead-grows"}, r"^\d\d+ jobs died")
        for each in situation.expected
    ]
    last = answers[-1]
    alarms = ("critical",) if situation.only_critical else ("warning", "critical")
    if not situation.is_loud:
        for answer in answers:
            for finding in answer.findings:
                if finding.severity in alarms and finding.kind not in situation.tolerated:
                    return Verdict("false", f"{finding.severity} {finding.kind}: {finding.text}")
    reported = "; ".join(f"{finding.severity} {finding.kind}: {finding.text}" for finding in last.findings) or "nothing"
    for expected in wanted:
        if not any(expected.fits(finding, world) for finding in last.findings):
            word = "unknown" if situation.facts & last.unknown else "missed"
            return Verdict(word, reported)
    loud = [
        finding for finding in last.findings if finding.severity != "info" and finding.kind not in situation.tolerated
    ]
    if situation.is_loud and loud and not wanted[0].fits(loud[0], world):
        return Verdict("false", f"first: {loud[0].severity} {loud[0].kind}: {loud[0].text}")
    for finding in last.findings:
        if finding.kind in situation.only_info and finding.severity != "info":
            return Verdict("false", f"{finding.severity} {finding.kind}: {finding.text}")
    return Verdict("right")


def create_world(kind: type[World], client: Redis, clock: SimulatedClock, url: str) -> World:
    """Empty the server and create a world at the start of the simulated time."""
    client.flushall()
    clock.restart()
    return kind(client, clock, url)
