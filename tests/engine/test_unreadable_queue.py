"""One queue that cannot be read stops no other: its own row says why, in every look at many queues.

What is wrong may be the server's answer, a name, or a fault of ours in what reads one system's records: here a system
is given such a fault for one queue and keeps its word for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from shell import Ran, shell
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.engine.loops import build_round
from rqtui.engine.ticker import EngineCreated, RefreshFailed, SnapshotTaken, Ticker
from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Page, PageSelection, Queue, Ref
from rqtui.reports import errors, kinds, loops, workers
from rqtui.system_base.system import Request, System
from rqtui.systems import registry
from rqtui.systems.native import Native

GOOD, BAD = Ref("native", "good"), Ref("native", "bad")


def broken() -> Any:
    raise ValueError("a record nobody foresaw")


class FaultyInReading(Native):
    """Reads nothing of the queue `bad`."""

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue]]:
        ask = super().queues_request(queues)
        return Request(ask.calls, lambda answers: broken() if "bad" in queues else ask.parse(answers))

    def queue_request(self, queue: str) -> Request[Queue]:
        ask = super().queue_request(queue)
        return Request(ask.calls, lambda answers: broken()) if queue == "bad" else ask

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        ask = super().page_request(queue, place, offset, limit, body_bytes)
        return Request(ask.calls, lambda answers: broken()) if queue == "bad" else ask

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Any:
        ask = super().job_request(queue, id, body_bytes)
        return Request(ask.calls, lambda answers: broken()) if queue == "bad" else ask

    def workers_request(self, queue: str) -> Any:
        ask = super().workers_request(queue)
        return Request(ask.calls, lambda answers: broken()) if queue == "bad" else ask

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]] | None:
        return Request((), lambda answers: broken()) if queue == "bad" else None


class FaultyInAsking(Native):
    """Cannot even ask for the queue `bad`."""

    def keys(self, queue: str) -> Any:
        if queue == "bad":
            raise UsageError("bad is no name.")
        return super().keys(queue)


every_fault = pytest.mark.parametrize("system", [FaultyInReading, FaultyInAsking])


@pytest.fixture
def two(client: Redis) -> Redis:
    """Plant a queue that can be read and one that cannot, with the same jobs in both."""
    for queue in ("good", "bad"):
        seeded = Seeded(client, queue)
        seeded.put("a", "b", "c")
        seeded.bury("d")
        seeded.reserve()
        seeded.engine.apply_verb("enqueue", seeded.ref, (), {"id": "due", "body": b"1", "delay_ms": 60_000})
        client.zadd(f"rqtui:{{{queue}}}:scheduled", {"due": 1})
    return client


def build_system_engine(client: Redis, system: type[System]) -> Engine:
    engine = Engine(client, [system()])
    engine.refs = [BAD, GOOD]
    return engine


@every_fault
def test_counts_and_pages_of_the_others_are_there(two: Redis, system: type[System]) -> None:
    engine = build_system_engine(two, system)
    focus = Focus(pages=(PageSelection(BAD, "ready"), PageSelection(GOOD, "ready")), job=(BAD, b"a"))
    for _tick in range(2):
        found = engine.take_snapshot(focus)
        good, bad = found.find_queue(GOOD), found.find_queue(BAD)
        assert good and good.count_in_place("ready") == 2 and not good.error
        assert bad and ("nobody foresaw" in bad.error or "no name" in bad.error)
        assert bad.verdict.severity == "critical" and bad.error in bad.verdict.text
        pages = [found.find_page(ref, "ready") for ref in (GOOD, BAD)]
        assert pages[0] and len(pages[0].jobs) == 2
        assert pages[1] and pages[1].jobs == () and pages[1].error
        assert found.job is None


@every_fault
def test_reports_show_what_they_could_not_read(two: Redis, system: type[System]) -> None:
    engine = build_system_engine(two, system)
    *_steps, found = errors.yield_error_reports(engine, [BAD, GOOD])
    assert found and found.groups[0].dead == 1 and found.groups[0].refs == (GOOD,) and found.size.problems
    *_steps, reply = kinds.yield_kind_reports(engine, [BAD, GOOD])
    assert reply and {kind.ref for kind in reply.kinds} == {GOOD} and reply.size.problems
    standing = loops.build_loop_report(engine, [BAD, GOOD], 10)
    assert {each.ref for each in standing.coming} == {GOOD}
    if system is FaultyInReading:
        seats, _now_ms, problems = workers.load_workers(engine, [BAD, GOOD])
        assert {seat.ref for seat in seats} == {GOOD} and problems


@pytest.mark.parametrize("verb", ["dispatch", "reap"])
def test_a_loop_continues_with_the_others(two: Redis, verb: str) -> None:
    engine = build_system_engine(two, FaultyInAsking)
    done = build_round(verb, two, engine.systems, lambda: [BAD, GOOD])()
    by_ref = {step.ref: step for step in done.steps}
    assert "no name" in by_ref[BAD].error and not by_ref[GOOD].error
    assert by_ref[GOOD].moved == (1 if verb == "dispatch" else 0)


def faulty(monkeypatch: pytest.MonkeyPatch, system: type[System]) -> None:
    monkeypatch.setattr("rqtui.systems.native.SYSTEM", system)


@every_fault
@pytest.mark.parametrize("words", ["snapshot", "health", "loops", "metrics", "errors", "kinds", "stats"])
def test_commands_about_all_queues_report_the_others(
    two: Redis, url: str, monkeypatch: pytest.MonkeyPatch, system: type[System], words: str
) -> None:
    faulty(monkeypatch, system)
    ran: Ran = shell(url, words)
    assert ran.code != 3 and ("good" in ran.out or words == "health"), ran
    if words in ("snapshot", "health") and system is FaultyInReading:
        assert "nobody foresaw" in ran.out
    if words == "metrics":
        assert "rqtui_up 1" in ran.out and 'rqtui_jobs{layout="native",queue="good",place="ready"' in ran.out


def test_a_system_whose_queues_cannot_be_searched_is_reported_and_the_others_are_found(client: Redis, url: str) -> None:
    client.set("rqtui:queues", "somebody's")
    seeded = Seeded(client)
    seeded.engine.apply_verb("enqueue", seeded.ref, (), {"id": "a", "body": b"1"})
    client.hset("__REDIS_SCHED_JOBS__news", "a", "b")
    ran = shell(url, "snapshot")
    assert ran.code == 0 and "mail" in ran.out and "news" in ran.out
    assert "queues of native cannot be found" in ran.err
    assert "queues of native cannot be found" in shell(url, "health").out


# -- the thread of a screen -------------------------------------------------------------------------------------------


class Sick(Engine):
    """An engine that takes no snapshot while `is_sick`."""

    is_sick = True

    def take_snapshot(self, focus: Focus = Focus()) -> Any:  # noqa: B008
        return broken() if self.is_sick else super().take_snapshot(focus)


def test_a_refresh_that_fails_is_reported_and_the_thread_continues(client: Redis, url: str) -> None:
    messages: list[Any] = []
    engine = Sick(connect(url), [registry.create_system("native")])
    ticker = Ticker(lambda: engine, messages.append, 0.05)
    ticker.start()
    try:
        failed = wait_until(lambda: [m for m in messages if isinstance(m, RefreshFailed)][2:])
        assert "this should not happen: ValueError: a record nobody foresaw" in failed[0].error
        assert failed[0].since_s < failed[0].next_s
        answer = ticker.request_call(lambda _engine: broken())
        reply = wait_until(lambda: [m for m in messages if getattr(m, "request_id", None) == answer])
        assert "nobody foresaw" in reply[0].error
        engine.is_sick = False
        wait_until(lambda: any(isinstance(m, SnapshotTaken) for m in messages))
    finally:
        ticker.stop()


def test_an_engine_that_cannot_be_created_is_reported_and_tried_again(client: Redis, url: str) -> None:
    messages: list[Any] = []
    tries = iter((broken, broken))

    def make() -> Engine:
        next(tries, lambda: None)()
        return Engine(connect(url), [registry.create_system("native")])

    ticker = Ticker(make, messages.append, 0.05)
    ticker.start()
    try:
        wait_until(lambda: any(isinstance(m, EngineCreated) for m in messages))
        assert [type(m) for m in messages[:3]] == [RefreshFailed, RefreshFailed, EngineCreated]
    finally:
        ticker.stop()


# -- on the screen ----------------------------------------------------------------------------------------------------


@run_on_event_loop
async def test_a_screen_whose_refreshes_fail_reports_it(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail")
        engine = ui.app.session.engine
        assert engine is not None
        real, engine.take_snapshot = engine.take_snapshot, lambda _focus: broken()  # type: ignore[method-assign]
        await ui.until_shown("no new data for", "next try in", "a record nobody foresaw")
        assert "mail" in ui.text()
        await ui.until_toast("nobody foresaw")
        await ui.pilot.pause(1.0)
        assert sum("nobody foresaw" in reply for reply in ui.toasts) == 1, "it is said once, and stands above"
        engine.take_snapshot = real  # type: ignore[method-assign]
        await ui.until(lambda: "no new data for" not in ui.text() and "nobody foresaw" not in ui.text().splitlines()[1])


@run_on_event_loop
async def test_a_screen_whose_first_refresh_fails_reports_it(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "take_snapshot", lambda *_args: broken())
    from rqtui.config.settings import Settings
    from rqtui.tui.app import Cockpit

    app = Cockpit(Settings(url), interval_s=0.25)
    async with app.run_test(size=WIDE) as pilot:
        from screens import Screen

        await Screen(app, pilot).until_shown("no new data for", "a record nobody foresaw")


@run_on_event_loop
async def test_a_screen_shows_the_others_beside_one_that_cannot_be_read(
    url: str, two: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(monkeypatch, FaultyInReading)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("good", "bad", "nobody foresaw")
        assert "no picture" not in ui.text()
