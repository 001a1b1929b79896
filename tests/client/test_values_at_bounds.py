"""Values that the client accepts or refuses, and waits, each below, at and above its bound."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Bare
from families import run_in_one_test

from rqtui.client import calls, consumer, durability, subprocess_worker, wakeup
from rqtui.client.calls import Calls
from rqtui.client.consumer import ConsumerLoop
from rqtui.client.native_keys import build_queue_keys
from rqtui.client.wakeup import WakeReason, WakeWaiter
from rqtui.errors import Unreachable, UsageError


@run_in_one_test(
    "name, is_valid",
    [
        ("", False), ("a", True), ("a" * 199, True), ("a" * 200, True), ("a" * 201, False), ("é" * 100, True),
        ("é" * 100 + "a", False), ("a{b", False), ("a}b", False), ("a b", False), ("a\nb", False), ("a\x7fb", False),
    ],
)  # fmt: skip
def test_a_queue_name_has_1_to_200_bytes(name: str, is_valid: bool) -> None:
    if is_valid:
        assert build_queue_keys(name)["ready"] == f"rqtui:{{{name}}}:ready"
        return
    with pytest.raises(UsageError, match="is no queue name: 1 to 200 bytes"):
        build_queue_keys(name)


@pytest.mark.parametrize("length", [59, 60, 61, 300])
def test_a_refused_name_is_quoted_with_up_to_60_characters(length: int) -> None:
    shown = ascii(" " * length) if length <= 60 else ascii(" " * 57 + "…")
    with pytest.raises(UsageError) as refused:
        build_queue_keys(" " * length)
    assert str(refused.value).startswith(f"{shown} is no queue name")


@run_in_one_test("size, is_valid", [(0, False), (1, True), (2, True), (511, True), (512, True), (513, False)])
def test_an_id_has_1_to_512_bytes(size: int, is_valid: bool) -> None:
    if is_valid:
        assert calls._encode_job_id("i" * size) == b"i" * size == calls._encode_job_id(b"i" * size)
        return
    with pytest.raises(UsageError, match=f"An id has 1 to 512 bytes; this one has {size}"):
        calls._encode_job_id("i" * size)


def find_batch_sizes(bodies: Sequence[bytes]) -> list[int]:
    """Return how many jobs each call of `put_many` has."""
    state: Any = SimpleNamespace(
        codec=SimpleNamespace(encode=lambda body: body), _build_put_batch=lambda rows: len(rows.bodies)
    )
    batches: Any = Calls._build_put_batches(state, bodies, {})
    return [*batches]


@run_in_one_test(
    "bodies, sizes",
    [
        ([], []), ([b""] * 999, [999]), ([b""] * 1_000, [1_000]), ([b""] * 1_001, [1_000, 1]),
        ([b"x" * 2_000_000] * 3, [2, 1]), ([b"x" * 1_999_999, b"xx", b"x"], [3]),
        ([b"x" * 3_999_999, b"", b"x", b"y"], [3, 1]),
    ],
)  # fmt: skip
def test_jobs_are_put_in_calls_of_a_thousand_or_four_million_bytes(bodies: list[bytes], sizes: list[int]) -> None:
    assert find_batch_sizes(bodies) == sizes


@run_in_one_test(
    "batch, is_valid", [(-1, False), (0, False), (1, True), (999, True), (1_000, True), (1_001, False), ("2", False)]
)
def test_a_consumer_leases_1_to_1000_jobs_at_a_time(batch: Any, is_valid: bool) -> None:
    error = find_refusal(batch=batch)
    assert error == ("" if is_valid else f"batch is 1 to 1000, not {batch!r}.")


@run_in_one_test(
    "name, is_valid", [("w" * 199, True), ("w" * 200, True), ("w" * 201, False), ("é" * 101, False), ("a\nb", False)]
)
def test_the_name_of_a_worker_has_up_to_200_bytes(name: str, is_valid: bool) -> None:
    assert ("A worker's name has up to 200 bytes" in find_refusal(worker=name)) is not is_valid


def find_refusal(**options: Any) -> str:
    """Return why a consumer with these options is refused; empty if it is not, as far as its options are read."""
    state: Any = object.__new__(ConsumerLoop)
    try:
        ConsumerLoop.__init__(state, SimpleNamespace(), **options)
    except UsageError as error:
        return str(error)
    except AttributeError:  # The options were accepted, and the queue of this test can nothing else.
        return ""
    return ""


@run_in_one_test(
    "concurrency, max_jobs, refused",
    [
        (0, None, "concurrency"),
        (1, None, ""),
        (1, 0, "max_jobs"),
        (1, 1, ""),
        (-1, 1, "concurrency"),
        (2, -1, "max_jobs"),
    ],
)
def test_a_worker_runs_at_least_one_command_and_one_job(concurrency: int, max_jobs: int | None, refused: str) -> None:
    if not refused:
        subprocess_worker.check_worker_arguments(["true"], concurrency, max_jobs)
        return
    with pytest.raises(UsageError, match=f"{refused} is at least 1, not"):
        subprocess_worker.check_worker_arguments(["true"], concurrency, max_jobs)


@run_in_one_test(
    "code, text",
    [
        (0, "exit code 0"),
        (1, "exit code 1"),
        (-15, "ended by SIGTERM"),
        (-1, "ended by SIGHUP"),
        (-99, "ended by signal 99"),
    ],
)
def test_a_command_that_a_signal_ended_is_described_by_the_signal(code: int, text: str) -> None:
    assert subprocess_worker._describe_exit_code(code) == text


def test_each_acked_job_has_its_outcome() -> None:
    jobs: list[Any] = [SimpleNamespace(words=[]) for _number in range(2)]
    for job in jobs:
        job.record_outcome = job.words.append
    reply = calls.Reply("", each=[calls.Reply("moved"), calls.Reply("stale")])
    assert calls.record_ack_outcomes(jobs, reply) == ["moved", "stale"]
    assert [job.words for job in jobs] == [["moved"], ["stale"]]


@run_in_one_test("confirmed, is_safe", [(0, False), (1, True), (2, True)])
def test_a_write_is_safe_if_one_file_or_replica_confirmed_it(confirmed: int, is_safe: bool) -> None:
    async def confirm_file(*_words: Any) -> list[int]:
        return [confirmed, 0]

    async def confirm_replica(*_words: Any) -> int:
        return confirmed

    assert asyncio.run(durability._is_write_on_disk(confirm_file)) is is_safe
    assert asyncio.run(durability._is_write_on_replica(confirm_replica)) is is_safe


# ── by a clock that does not move ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the clock of the consumer, which is at 1024 seconds until a test changes it."""
    stopped = SimpleNamespace(now_s=1_024.0)
    stopped.monotonic = lambda: stopped.now_s
    for module in (consumer, subprocess_worker):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=stopped.monotonic, sleep=time.sleep))
    return stopped


def test_commands_have_ten_seconds_after_a_stop(clock: SimpleNamespace) -> None:
    state = subprocess_worker._WorkState(["true"], lambda _run: None)
    assert not state.is_time_over
    for ago_s, is_over in ((9.75, False), (10.0, False), (10.25, True)):
        state.stopped_s = clock.now_s - ago_s
        assert state.is_time_over is is_over


@pytest.mark.parametrize(("ago_s", "is_killed"), [(4.75, False), (5.0, False), (5.25, True)])
def test_a_command_has_five_seconds_to_end(clock: SimpleNamespace, ago_s: float, is_killed: bool) -> None:
    signals: list[int] = []
    run: Any = Bare(
        subprocess_worker._CommandRun, _end_reason="lost", _terminated_s=clock.now_s - ago_s,
        _signal_command=lambda _process, number: signals.append(number),
    )  # fmt: skip
    run._terminate_if_needed(None)
    assert signals == [signal.SIGKILL] * is_killed


@pytest.mark.parametrize(
    ("flags", "reason"),
    [((0, 0, 0), ""), ((1, 1, 1), "cancelled"), ((0, 1, 1), "lost"), ((0, 0, 1), "released")],
)
def test_a_command_is_terminated_for_one_reason(clock: SimpleNamespace, flags: tuple[int, ...], reason: str) -> None:
    signals: list[int] = []
    cancelled, lost, is_time_over = flags
    run: Any = Bare(
        subprocess_worker._CommandRun, _end_reason="", _job=SimpleNamespace(cancelled=cancelled, lost=lost),
        _state=SimpleNamespace(is_time_over=is_time_over),
        _signal_command=lambda _process, number: signals.append(number),
    )  # fmt: skip
    subprocess_worker._CommandRun._terminate_if_needed(run, None)  # type: ignore[arg-type]
    assert run._end_reason == reason and signals == [signal.SIGTERM] * bool(reason)
    if reason:
        assert run._terminated_s == clock.now_s


@pytest.mark.parametrize(("by_s", "is_due"), [(-0.25, True), (0.0, True), (0.25, False)])
def test_a_job_is_due_at_its_time(clock: SimpleNamespace, by_s: float, is_due: bool) -> None:
    state: Any = SimpleNamespace(_next_due_s=clock.now_s + by_s)
    assert ConsumerLoop._has_due_jobs(state) is is_due
    assert not ConsumerLoop._has_due_jobs(SimpleNamespace(_next_due_s=None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("next_ms", "due_in_s", "is_stuck", "keeps_timer"),
    [
        (-1, None, False, True),
        (0, 0.0, True, False),
        (250, 0.25, False, False),
        (10_000, 10.0, False, False),
        (10_001, 10.001, False, True),
    ],
)
def test_the_reply_to_a_lease_says_when_the_next_job_is_due(
    clock: SimpleNamespace, next_ms: int, due_in_s: float | None, is_stuck: bool, keeps_timer: bool
) -> None:
    for rows in ([], [object()]):
        state: Any = SimpleNamespace(
            _build_leased_job=lambda row, _began_s: row, _buffer=[], _is_holding_timer=True,
            _heartbeat=SimpleNamespace(extend_leases_until_settled=lambda _jobs: None),
        )  # fmt: skip
        reply: Any = SimpleNamespace(values={"next_ms": next_ms}, rows=rows, word="some")
        assert ConsumerLoop._process_claim_reply(state, reply, clock.now_s) == "some"
        due_s = None if state._next_due_s is None else round(state._next_due_s - clock.now_s, 6)
        assert (due_s, state._is_stuck, state._is_busy) == (due_in_s, is_stuck, bool(rows))
        assert state._is_holding_timer is (keeps_timer or not rows) and state._buffer == rows


@pytest.mark.parametrize(
    ("due_in_s", "swept_ago_s", "is_holding", "timer_s"),
    [
        (-1.0, 0.0, True, 0.5), (-1.0, 0.25, True, 0.5), (-1.0, 0.5, True, 0.0), (-1.0, 0.75, True, 0.0),
        (9.0, 9.0, False, 9.125), (10.0, 9.0, False, 10.125), (10.25, 9.0, False, None), (10.25, 9.0, True, 10.25),
    ],
)  # fmt: skip
def test_a_wait_is_bounded_after_a_sweep_that_moved_nothing(
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    due_in_s: float,
    swept_ago_s: float,
    is_holding: bool,
    timer_s: float | None,
) -> None:
    monkeypatch.setattr(consumer, "SPIN_S", 0.5)
    monkeypatch.setattr(consumer, "LAG_S", (0.125, 0.125))
    timers: list[float | None] = []

    class Waiter:
        async def wait(self, timer_s: float | None, _stop: object) -> WakeReason:
            timers.append(timer_s)
            return WakeReason.NOTHING

    waiting: Any = SimpleNamespace(
        _waiter=Waiter(), _stop_signal=None, is_stopping=False, _is_holding_timer=is_holding, _is_stuck=True,
        _next_due_s=clock.now_s + due_in_s, _last_sweep_s=clock.now_s - swept_ago_s,
    )  # fmt: skip
    asyncio.run(ConsumerLoop._wait_for_work(waiting, "none"))
    assert timers == [timer_s]


class TimedReply:
    """A waiter whose BZPOPMIN is answered at a given time, or never; it logs what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reply_s: float | None = None) -> None:
        self.now_s, self.reply_s, self.log = 0.0, reply_s, list[str]()
        monkeypatch.setattr(wakeup, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self.waiter = Bare(
            WakeWaiter, _requested_s=None, _block_s=10.0, _client_id=7, pause=self.pause, _wait_for_event=self.wait,
            _open_wake_connection=lambda: True, _send_bzpopmin=self.send, _close_wake_connection=lambda: None,
            _read_wake_reply=lambda: WakeReason.MARKER,
        )  # fmt: skip

    def pause(self, seconds: float, _stop: object) -> bool:
        self.log.append(f"pause {seconds}")
        return False

    def send(self, _timer_s: float | None) -> None:
        self.log.append("send")
        self.waiter.__dict__["_requested_s"] = self.now_s

    def wait(self, until_s: float | None, _stop: object) -> WakeReason:
        self.now_s += 5.0
        is_over = until_s is not None and self.now_s >= until_s
        has_reply = self.reply_s is not None and self.now_s >= self.reply_s
        return WakeReason.TIMER if is_over else WakeReason.MARKER if has_reply else WakeReason.NOTHING


@pytest.mark.parametrize(("timer_s", "is_sent"), [(0.004, False), (0.005, False), (0.006, True), (None, True)])
def test_a_short_timer_needs_no_request(monkeypatch: pytest.MonkeyPatch, timer_s: float | None, is_sent: bool) -> None:
    timed = TimedReply(monkeypatch, 5.0)
    timed.waiter.wait(timer_s)
    assert timed.log == (["send"] if is_sent else [f"pause {timer_s}"])


@pytest.mark.parametrize(("reply_s", "is_lost"), [(15.0, False), (20.0, False), (25.0, True), (None, True)])
def test_a_reply_may_be_five_seconds_late(
    monkeypatch: pytest.MonkeyPatch, reply_s: float | None, is_lost: bool
) -> None:
    timed = TimedReply(monkeypatch, reply_s)
    if is_lost:
        with pytest.raises(Unreachable, match="Redis does not answer any more"):
            timed.waiter.wait(None)
        assert timed.now_s == 20
    else:
        assert timed.waiter.wait(None) is WakeReason.MARKER


@pytest.mark.parametrize(
    ("until_s", "marker_in", "reason", "timeouts"),
    [
        (None, 9, "NOTHING", [0.2, 0.2, 0.2, 0.2, 0.2]),
        (None, 2, "MARKER", [0.2, 0.2]),
        (0.5, 9, "TIMER", [0.2, 0.2, 0.1]),
        (0.2, 9, "TIMER", [0.2]),
        (0.001, 9, "TIMER", [0.01]),
        (0.0, 9, "TIMER", []),
    ],
)
def test_without_a_socket_the_wait_is_cut_into_slices(
    monkeypatch: pytest.MonkeyPatch, until_s: float | None, marker_in: int, reason: str, timeouts: list[float]
) -> None:
    monkeypatch.setattr(wakeup, "BLOCK_S", 1.0)
    timed, slices = TimedReply(monkeypatch), list[float]()

    def bzpopmin(_key: str, timeout: float) -> object:
        slices.append(timeout)
        timed.now_s = round(timed.now_s + timeout, 6)
        return len(slices) == marker_in

    timed.waiter.__dict__.update(_client=SimpleNamespace(bzpopmin=bzpopmin), _key="key")
    assert timed.waiter._wait_in_slices(until_s, None) is WakeReason[reason]
    assert slices == pytest.approx(timeouts)


@pytest.mark.parametrize("can_start", [True, False])
def test_a_step_runs_at_once_if_the_interpreter_begins_no_threads_any_more(
    monkeypatch: pytest.MonkeyPatch, *, can_start: bool
) -> None:
    log: list[str] = []

    class Thread:
        def __init__(self, target: Any, **options: Any) -> None:
            log.append(f"{options['name']}, daemon {options['daemon']}")

        def start(self) -> None:
            if not can_start:
                raise RuntimeError("can't start new thread at interpreter shutdown")

        def join(self, timeout_s: float) -> None:
            log.append(f"join {timeout_s}")

        def is_alive(self) -> bool:
            return can_start

    async def step() -> None:
        log.append("step")

    monkeypatch.setattr(consumer, "threading", SimpleNamespace(Thread=Thread))
    is_finished = asyncio.run(consumer.Consumer._run_with_timeout(None, step, 2.0))  # type: ignore[arg-type]
    assert is_finished is not can_start
    assert log == ["rqtui-hurry, daemon True", "join 2.0" if can_start else "step"]


@pytest.mark.parametrize(("requested_s", "log"), [(None, []), (0.0, ["close", "put wake 0"])])
def test_a_wait_that_no_command_can_end_is_closed_and_its_marker_put_back(
    requested_s: float | None, log: list[str]
) -> None:
    found: list[str] = []
    client = SimpleNamespace(zadd=lambda key, scores: found.extend(f"put {key} {score}" for score in scores.values()))
    waiter: Any = Bare(
        WakeWaiter, _requested_s=requested_s, _client_id=None, _client=client, _key="wake",
        _translate_wait_errors=nullcontext, _close_wake_connection=lambda: found.append("close"),
    )  # fmt: skip
    waiter.cancel_wait()
    assert found == log
