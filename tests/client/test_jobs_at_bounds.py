"""What leased jobs send and record, and the calls of a queue, with values at bounds: `jobs_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/client/test_jobs_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.client import calls, leased_job
from rqtui.client.calls import Batch, Calls, Put
from rqtui.client.codecs import BYTES
from rqtui.client.leased_job import ERROR_BYTES, Job
from rqtui.errors import UsageError
from rqtui.scripts.script import Call, Reply

KEPT = Path(__file__).with_name("jobs_at_bounds.txt")
NOW_S = 1_024.0


class Stage:
    """A queue and a consumer's buffer that write down what a job does with them."""

    def __init__(self, word: str = "moved", has_sink: bool = True, is_closed: bool = False) -> None:
        self.log: list[str] = []
        self.name, self.word, self.codec = "mail", word, BYTES
        self.is_closed = is_closed
        self.sink: Any = self if has_sink else None

    def settle(self, verb: str, job: Job, args: Mapping[str, object], *columns: object) -> Reply:
        self.log.append(f"{verb} {args} {columns} settling {job.settling}")
        if self.word == "lost":
            raise ConnectionError("lost")
        return Reply("", each=[Reply(self.word)])

    def put(self, *args: Any, **options: Any) -> None:
        self.log.append(f"put {args} {options}")

    def add_outcome(self, verb: str, job: Job, error: bytes = b"") -> None:
        self.log.append(f"later {verb} {error[-40:]!r}")

    def report_settled(self, job: Job) -> None:
        self.log.append(f"settled {job.outcome}")

    def lease(self, token: str = "t", **attributes: Any) -> Job:
        job = Job(self, b"a", token, 2, 5, 3_000, b"5:n\nbody", b"", sink=self.sink, began_s=NOW_S)  # type: ignore[arg-type]
        for name, value in attributes.items():
            setattr(job, name, value)
        return job

    def describe(self, call: Callable[..., object], *args: Any, **options: Any) -> str:
        try:
            found = call(*args, **options)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        lines, self.log = self.log, []
        return f"{found} | {' | '.join(lines)}".rstrip(" |")


def settled_jobs() -> Iterator[str]:
    for word, has_sink in (("moved", True), ("moved", False), ("stale", True), ("lost", True)):
        stage = Stage(word, has_sink)
        for name, args in (("ack", ()), ("ack", (0,)), ("reject", ()),
                           ("reject", ("no", True, 0)), ("reject", ("no",)), ("release", ()),
                           ("release", (0,)), ("push", (stage,))):  # fmt: skip
            job = stage.lease()
            options = {"priority": 3} if name == "push" else {}
            found = stage.describe(getattr(job, name), *args, **options)
            given = "" if name == "push" else args
            yield f"{name} {given} {word}, sink {has_sink}: {found}; settling {job.settling}, {job!r}"
    for verb in ("ack", "reject", "release", "extend", "push"):
        stage = Stage()
        found = stage.describe(getattr(stage.lease(""), verb), *([stage] if verb == "push" else []))
        yield f"{verb} of a pulled job: {found}"
    for verb in ("ack", "reject", "release"):
        for has_sink, is_closed in ((True, False), (True, True), (False, False)):
            stage = Stage(has_sink=has_sink, is_closed=is_closed)
            job = stage.lease()
            found = stage.describe(job.settle_later, verb, "no")
            yield f"{verb} later, sink {has_sink}, closed {is_closed}: {found}; {job.outcome}"
    yield f"later of a pulled job: {stage.describe(stage.lease('').settle_later, 'ack')}"
    stage = Stage()
    yield f"later of a pulled job with a consumer: {stage.describe(stage.lease('').settle_later, 'ack')}"


def left_blocks(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    for token in ("t", ""):
        for outcome in ("", "moved"):
            for error in (None, ValueError("no"), KeyboardInterrupt("stop")):
                stage = Stage()
                job = stage.lease(token, outcome=outcome)
                caplog.clear()
                found = stage.describe(job.__exit__, type(error) if error else None, error, None)
                logged = [record.getMessage() for record in caplog.records]
                yield f"token {token!r}, outcome {outcome!r}, {error!r}: {found}; {job.outcome!r}, logged {logged}"


def leases(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    clock = SimpleNamespace(now_s=NOW_S + 1, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(leased_job, "time", clock)
    stage = Stage("extended")
    for ttr in (None, 0, "1m"):
        job = stage.lease()
        yield f"extend {ttr}: {stage.describe(job.extend, ttr)}, until {job.until_s}"
    for word in ("extended", "cancelled", "stale", "gone"):
        for attributes in ({}, {"settling": True}, {"outcome": "moved"}):
            job = stage.lease(**attributes)
            job.apply_extend_reply(word, NOW_S + 5, 1_500)
            yield f"{word} of {attributes}: until {job.until_s}, cancelled {job.cancelled}, lost {job.lost}"
    for token in ("t", ""):
        for after_s in (2.9, 3.0, 3.1):
            for outcome in ("", "moved"):
                clock.now_s = NOW_S + after_s
                is_lost = stage.lease(token, outcome=outcome).lost
                yield f"after {after_s} s, token {token!r}, outcome {outcome!r}: lost {is_lost}"
    job = stage.lease()
    yield f"{job.id} {job.name!r} {job.attempts} {job.queue} {job.body!r} {job.body!r} {job.until_s}"
    for size in (ERROR_BYTES - 1, ERROR_BYTES, ERROR_BYTES + 1):
        texts = [leased_job.format_error_text(letter * (size // len(letter.encode()))) for letter in ("x", "é")]
        yield f"an error of {size} bytes: {[(len(text), text[:1], text[-1:]) for text in texts]}"
    yield f"errors: {leased_job.format_error_text(ValueError('no'))!r} {leased_job.format_error_text(' a ')!r}"


class Queue(Calls[str, Any]):
    """A queue that returns its calls instead of sending them."""

    def __init__(self) -> None:
        super().__init__("mail", BYTES)

    def _send_put(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Any:
        return f"{describe_call(call)}, given {is_given}, durable {durable}"

    def _run_and_read_word(self, call: Call) -> str:
        return describe_call(call)


def describe_call(call: Call) -> str:
    return f"{call.script.name} {call.argv} of {call.row_count} rows"


def sent_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(calls, "create_job_id", lambda: "new")
    monkeypatch.setattr(calls, "create_job_ids", lambda number: [f"n{at}" for at in range(number)])
    queue, stage = Queue(), Stage()
    for options in ({}, {"id": "b"}, {"name": ""}, {"name": "n"}, {"delay": 0}, {"due": 5}, {"delay": 1, "due": 5},
                    {"priority": 0}, {"ttr": "1s"}, {"max_attempts": 0}, {"backoff": "1s..1h"}, {"keep": 0},
                    {"durable": True}):  # fmt: skip
        yield f"put {options}: {stage.describe(queue.put, b'x', **options)}"
    yield f"put a part of bytes: {stage.describe(queue.put, bytearray(b'x'))}"
    for bodies in (
        [b"x", b"y"],
        [{"body": b"x", "id": "b"}, b"y"],
        [{"body": b"x", "priority": 0}, b"y"],
        [{"id": "b"}],
    ):
        for options in ({}, {"keep": 0}):
            found = stage.describe(lambda bodies=bodies, options=options: [
                (batch.ids, batch.has_given_ids, describe_call(batch.call))
                for batch in queue._build_put_batches(bodies, options)
            ])  # fmt: skip
            yield f"put {bodies} {options}: {found}"
    for given in (False, True):
        reply: Any = Reply("", each=[Reply("exists")])
        puts = Batch(["a"], given, SimpleNamespace()).build_puts(reply)  # type: ignore[arg-type]
        yield f"ids given {given}: {puts} {calls.build_put_result(b'a', given, reply)}"
    yield f"words: {calls.read_reply_word(Reply('paused', each=[Reply('x')]))} {calls.read_reply_word(reply)}"
    for verb, args in (("delete", ("a",)), ("delete", ("a", True)), ("cancel", ("a",)), ("kill", ("a", "no", True)),
                       ("promote", ("a",)), ("requeue", ("a",)), ("requeue", ("a", True)), ("reschedule", ("a",)),
                       ("reschedule", ("a", 0)), ("reschedule", ("a", None, 5)), ("reschedule", ("a", 1, 5)),
                       ("reprioritise", ("a", -3)), ("pause", ()), ("resume", ())):  # fmt: skip
        yield f"{verb} {args}: {stage.describe(getattr(queue, verb), *args)}"
    yield f"configure: {describe_call(queue._build_configure_call({'ttr_ms': 5, 'keep_ms': None}))}"
    for ttr in (None, 0, 0.001, 0.002):
        leased = queue._build_reserve_call(3, ttr, "w1")
        yield f"reserve {ttr}: {describe_call(leased)}; a consumer's lease: {queue._parse_consumer_ttr(ttr)}"
    for number in (0, 1, 1_000, 1_001):
        jobs: Any = [Stage().lease()] * number
        sizes = [(len(part), call.row_count) for part, call in queue._build_ack_calls(jobs)]
        yield f"ack {number} jobs: {sizes}"
    jobs = [stage.lease(), stage.lease()]
    words = calls.record_ack_outcomes(jobs, Reply("", each=[Reply("moved"), Reply("gone")]))
    yield f"acked: {words} {[job.outcome for job in jobs]} {stage.log}"
    stage.log.clear()
    clock = SimpleNamespace(now_s=0.0, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(calls, "time", clock)
    for clock.now_s in (0.0, calls.REGISTER_S, calls.REGISTER_S + 1, calls.REGISTER_S + 2):
        yield f"the name is due after {clock.now_s} s: {queue._is_registration_due()}"
    yield f"unknown option: {stage.describe(calls.build_enqueue_columns, {'tll': 5})}"
    with pytest.raises(UsageError, match="text or bytes, not int"):
        calls._encode_job_id(3)  # type: ignore[arg-type]
    assert calls._decode_job_id(b"\xff") == "\udcff" and Put("a", "moved").id == "a"


def test_jobs_and_calls_match_the_stored_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "rqtui")
    parts = (settled_jobs(), left_blocks(caplog), leases(monkeypatch), sent_calls(monkeypatch))
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__}", *part)), KEPT)
