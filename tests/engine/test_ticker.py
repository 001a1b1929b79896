"""The ticker: every answer carries the id of its request, and what rides in a tick comes back under its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from socket_writes import record_socket_writes
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.config.settings import Settings
from rqtui.connection.connect import connect
from rqtui.connection.meter import Meter
from rqtui.engine import ticker as ticker_module
from rqtui.engine.engine import FULL_FOCUS, Engine
from rqtui.engine.ticker import CallFinished, ChangeProgressed, RefreshFailed, SnapshotTaken, Ticker, TickerEvent
from rqtui.errors import UsageError
from rqtui.model import Cost, Focus, Ref, Snapshot
from rqtui.session import create_engine
from rqtui.systems import registry

MAIL = Ref("native", "mail")


class RecordedTicker:
    """A ticker with the events that it posted."""

    def __init__(self, url: str) -> None:
        self.messages: list[TickerEvent] = []
        self.ticker = Ticker(
            lambda: Engine(connect(url), [registry.create_system("native")]), self.messages.append, 60.0
        )

    def answers(self, id: int) -> list[ChangeProgressed | CallFinished]:
        return [
            each
            for each in self.messages
            if isinstance(each, ChangeProgressed | CallFinished) and each.request_id == id
        ]

    def until_over(self, *ids: int) -> None:
        """Wait for the last message about each of these requests."""
        wait_until(lambda: all(any(each.is_last for each in self.answers(id)) for id in ids))


@pytest.fixture
def recorder(url: str) -> Iterator[RecordedTicker]:
    received_events = RecordedTicker(url)
    received_events.ticker.start()
    yield received_events
    received_events.ticker.stop()


def test_two_requests_for_one_verb_on_one_queue_are_distinguished(recorder: RecordedTicker, client: Redis) -> None:
    first = recorder.ticker.request_change("enqueue", MAIL, (), {"id": "a", "body": b"{}"})
    second = recorder.ticker.request_change("enqueue", MAIL, (), {"id": "a", "body": b"{}"})
    recorder.until_over(first, second)
    words = [
        [
            outcome.word
            for each in recorder.answers(id)
            if isinstance(each, ChangeProgressed)
            for outcome in each.outcomes
        ]
        for id in (first, second)
    ]
    assert first != second and words[0] != words[1]
    assert [len(each) for each in words] == [1, 1]


def test_a_change_of_one_job_takes_one_snapshot(recorder: RecordedTicker, client: Redis) -> None:
    wait_until(lambda: any(isinstance(each, SnapshotTaken) for each in recorder.messages))
    first = len(recorder.messages)
    change = recorder.ticker.request_change("enqueue", MAIL, (), {"id": "a", "body": b"{}"})
    recorder.until_over(change)
    wait_until(lambda: isinstance(recorder.messages[-1], SnapshotTaken))
    recorder.until_over(recorder.ticker.request_call(lambda _engine: None))
    snapshots = [each for each in recorder.messages[first:] if isinstance(each, SnapshotTaken)]
    assert len(snapshots) == 1
    [queue] = snapshots[0].snapshot.queues or [None]
    assert queue is None or queue.map_counts_by_place()["ready"] == 1


def test_the_first_snapshot_of_a_slow_link_takes_four_round_trips(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        Queue(f"queue{number}", client).put("a")
    client.script_flush()
    monkeypatch.setattr(ticker_module, "MAX_FIRST_DISCOVERY_S", 0.0)  # as on a link where each step takes longer
    messages: list[TickerEvent] = []
    with record_socket_writes(monkeypatch) as writes:

        def record_with_round_trips(event: TickerEvent) -> None:
            round_trips.append(len(writes))
            messages.append(event)

        round_trips: list[int] = []
        ticker = Ticker(lambda: create_engine(Settings(url)), record_with_round_trips, 60.0)
        ticker.start()
        wait_until(lambda: any(isinstance(each, SnapshotTaken) for each in messages))
        ticker.stop()
    first, snapshot = next((at, each) for at, each in enumerate(messages) if isinstance(each, SnapshotTaken))
    assert len(snapshot.snapshot.queues) == 3
    assert round_trips[first] == 4


def test_steps_of_two_works_and_the_answer_to_a_call_carry_their_ids(recorder: RecordedTicker, client: Redis) -> None:
    def refused(_engine: Engine) -> None:
        raise UsageError("no")

    one = recorder.ticker.start_stepped_call(lambda _engine: iter((1, 2)))
    other = recorder.ticker.start_stepped_call(lambda _engine: iter((10, 20)))
    call, wrong = recorder.ticker.request_call(lambda _engine: "said"), recorder.ticker.request_call(refused)
    recorder.until_over(one, other, call, wrong)
    found = {
        id: [each.result for each in recorder.answers(id) if isinstance(each, CallFinished)]
        for id in (one, other, call)
    }
    assert found == {one: [1, 2, None], other: [10, 20, None], call: ["said"]}
    assert [each.error for each in recorder.answers(wrong)] == ["no"]


def test_a_work_that_is_ended_leaves_the_others_alone(recorder: RecordedTicker, client: Redis) -> None:
    def forever(_engine: Engine) -> Iterator[int]:
        while True:
            yield 1

    ended, other = recorder.ticker.start_stepped_call(forever), recorder.ticker.start_stepped_call(forever)
    wait_until(lambda: recorder.answers(ended) and recorder.answers(other))
    recorder.ticker.cancel_stepped_call(ended)
    recorder.until_over(ended)
    seen = len(recorder.answers(other))
    wait_until(lambda: len(recorder.answers(other)) > seen)
    assert not any(each.is_last for each in recorder.answers(other))


def test_requests_sent_with_a_poll_return_under_their_names(recorder: RecordedTicker, client: Redis) -> None:
    Queue("mail", client).put(b"{}", id="a")
    system = registry.create_system("native")
    jobs = {
        "here": (system.job_request("mail", b"a", -1),),
        "both": tuple(system.job_request("mail", id, 0) for id in (b"b", b"a")),
    }
    recorder.ticker.set_focus(Focus((MAIL,), requests=jobs))
    wait_until(lambda: any(isinstance(each, SnapshotTaken) and each.focus.requests for each in recorder.messages))
    snapshot = next(
        each.snapshot for each in recorder.messages if isinstance(each, SnapshotTaken) and each.focus.requests
    )
    assert set(snapshot.results) == {"here", "both"} and snapshot.job is None
    assert [job and job.id for job in snapshot.results["here"]] == [b"a"]
    assert [job and job.id for job in snapshot.results["both"]] == [None, b"a"]
    assert not any(isinstance(each, RefreshFailed) for each in recorder.messages)


def test_a_request_during_a_snapshot_is_answered_by_the_next_one_at_once(url: str, client: Redis) -> None:
    messages: list[TickerEvent] = []

    class Interrupted(Engine):
        """An engine during whose first snapshot the focus of the screen changes."""

        def take_snapshot(self, focus: Focus = FULL_FOCUS) -> Snapshot:
            snapshot = super().take_snapshot(focus)
            if focus is FULL_FOCUS:
                ticker.set_focus(Focus((MAIL,)))
            return snapshot

    ticker = Ticker(lambda: Interrupted(connect(url), [registry.create_system("native")]), messages.append, 3600.0)
    ticker.set_next_focus(FULL_FOCUS)
    ticker.start()
    try:
        wait_until(lambda: any(isinstance(each, SnapshotTaken) and each.focus.queues == (MAIL,) for each in messages))
    finally:
        ticker.stop()


# ── how often, and what it costs ─────────────────────────────────────────────────────────────────────────────


class Costs(Engine):
    """An engine whose snapshots take these times (ms), one after the other; the last time repeats."""

    def __init__(self, url: str, *ms: float) -> None:
        super().__init__(connect(url), [registry.create_system("native")])
        self.ms = [*ms]

    def take_snapshot(self, focus: Focus = FULL_FOCUS) -> Snapshot:
        ms = self.ms.pop(0) if len(self.ms) > 1 else self.ms[0]
        return replace(super().take_snapshot(focus), cost=Cost(1, 1, ms))


def waits_s(url: str, interval_s: float, *ms: float) -> list[float]:
    """Return the time between two snapshots, after each snapshot that took the given time."""
    found: list[float] = []

    def note(message: TickerEvent) -> None:
        if isinstance(message, SnapshotTaken):
            found.append(ticker.wait_s)

    ticker = Ticker(lambda: Costs(url, *ms), note, interval_s)
    ticker.start()
    wait_until(lambda: len(found) >= len(ms))
    ticker.stop()
    return [round(wait_s, 6) for wait_s in found[: len(ms)]]


def test_a_first_refresh_that_took_long_does_not_stretch_the_interval(client: Redis, url: str) -> None:
    assert waits_s(url, 0.02, 40, 1, 1) == [0.02, 0.02, 0.02]


def test_one_stall_does_not_stretch_the_interval(client: Redis, url: str) -> None:
    assert waits_s(url, 0.02, 1, 1, 40, 1, 1) == [0.02] * 5


def test_after_a_stall_of_two_refreshes_the_next_one_comes_within_two_intervals(client: Redis, url: str) -> None:
    assert waits_s(url, 0.02, 1, 1700, 1700, 1) == [0.02, 0.02, 0.04, 0.02]


def test_slow_refreshes_are_made_rarely_until_the_first_quick_one(client: Redis, url: str) -> None:
    assert waits_s(url, 0.02, 1, 30, 20, 25, 1, 1) == [0.02, 0.02, 0.04, 0.08, 0.02, 0.02]


def test_all_commands_of_an_interval_are_listed(client: Redis, url: str) -> None:
    Queue("mail", client).put(1)
    messages: list[TickerEvent] = []
    engine = Engine(connect(url, meter=Meter()), [registry.create_system("native")])
    ticker = Ticker(lambda: engine, messages.append, 0.05)
    ticker.start()
    wait_until(lambda: engine.refs)
    ticker.request_call(lambda engine: [engine.client.ping() for _ in range(500)])
    wait_until(lambda: any(isinstance(each, CallFinished) for each in messages))
    asked = next(at for at, each in enumerate(messages) if isinstance(each, CallFinished))
    wait_until(lambda: any(isinstance(each, SnapshotTaken) for each in messages[asked:]))
    ticker.stop()
    pictures = [each.snapshot for each in messages if isinstance(each, SnapshotTaken)]
    [first, *_others] = pictures
    assert first.interval_cost and first.interval_cost.commands > first.cost.commands, (
        "its connection, and its discovery"
    )
    item = next(each.snapshot for each in messages[asked:] if isinstance(each, SnapshotTaken))
    assert item.interval_cost and item.interval_cost.commands > 500 > item.cost.commands
    assert item.interval_cost.round_trips > 500 and item.interval_cost.ms > 0


def test_the_first_queue_of_a_new_system_is_seen_after_a_few_seconds(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker_module, "MIN_DISCOVERY_INTERVAL_S", 0.05)
    monkeypatch.setattr(ticker_module, "DISCOVERY_INTERVAL_FACTOR", 1)
    messages: list[TickerEvent] = []
    ticker = Ticker(lambda: Engine(connect(url), [registry.create_system("native")]), messages.append, 0.05)
    ticker.start()
    try:
        wait_until(lambda: any(isinstance(each, SnapshotTaken) for each in messages))
        assert ticker.engine.refs == []
        Queue("mail", client).put({}, id="a")
        wait_until(lambda: MAIL in ticker.engine.refs)
    finally:
        ticker.stop()


@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.parametrize("are_new", [True, False])
def test_a_discovery_is_followed_by_a_snapshot_only_if_it_ended_and_found_other_queues(
    *, has_ended: bool, are_new: bool
) -> None:
    engine = SimpleNamespace(refs=[1])

    def take_step() -> Iterator[Any]:
        if are_new:
            engine.refs = [1, 2]
        if not has_ended:
            yield object()

    steps, scheduled = take_step(), list[str]()
    state: Any = SimpleNamespace(
        engine=engine, _discovery=steps, _discovery_s=0.0, _has_new_queues=False, _refresh_due_s=9.0,
        _schedule_discovery=lambda: scheduled.append("next"),
    )  # fmt: skip
    Ticker._step_discovery(state, steps)
    assert (state._discovery is None, scheduled) == (has_ended, ["next"] * has_ended)
    assert state._refresh_due_s == (0.0 if has_ended and are_new else 9.0)
    assert state._has_new_queues is (are_new and not has_ended)


def test_a_stopped_ticker_wakes_its_thread() -> None:
    ticker = Ticker(lambda: pytest.fail("no thread runs"), [].append, 60.0)
    ticker.stop()
    assert ticker._inbox.get_nowait() is None
