"""Commands that a worker runs for its jobs, step by step, with given processes, pipes and a given clock.

`commands_at_bounds.txt` has every line. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/client/test_commands_at_bounds.py`
writes the text; review the difference as code.
"""

from __future__ import annotations

import io
import logging
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.client import subprocess_worker as worker
from rqtui.client.subprocess_worker import _CommandRun, _WorkState
from rqtui.errors import ServerError, UsageError

KEPT = Path(__file__).with_name("commands_at_bounds.txt")
NOW_S = 1_024.0


class Stage:
    """A leased job, its worker's state and a command's process that write down what is done with them."""

    def __init__(self, *, word: str = "moved", has_reader: bool = True, **attributes: Any) -> None:
        self.log: list[str] = []
        self.word, self.polled, self.late_waits = word, [None], 0
        usual = {
            "cancelled": False,
            "lost": False,
            "id": "a\0b",
            "name": "n",
            "attempt": 2,
            "queue": "mail",
            "raw": b"xyz",
        }
        self.job: Any = SimpleNamespace(
            **{**usual, **attributes}, ack=lambda: self.settle("ack"),
            release=lambda **more: self.settle("release", more),
            reject=lambda error: self.settle("reject", error),
            settle_later=lambda verb, error: self.log.append(f"later {verb} {error!r}"),
        )  # fmt: skip
        self.state = _WorkState(
            ["cmd"], lambda run: self.log.append(f"ran {replace(run, seconds=0.0)}"), self.say if has_reader else None
        )
        self.command = _CommandRun(self.state, self.job)
        self.process: Any = SimpleNamespace(
            pid=7,
            returncode=3,
            poll=lambda: self.polled.pop(0) if len(self.polled) > 1 else self.polled[0],
            wait=self.wait,
        )

    def say(self, id: str, stream: int, line: bytes) -> None:
        self.log.append(f"says {stream} {line[:9]!r} of {len(line)}")

    def settle(self, verb: str, more: object = "") -> str:
        self.log.append(f"{verb} {more}".strip())
        if self.word == "unreachable":
            raise ServerError("Redis is away")
        return self.word

    def wait(self, seconds: float | None = None) -> None:
        self.log.append(f"wait {seconds}")
        if self.late_waits:
            self.late_waits -= 1
            raise subprocess.TimeoutExpired("cmd", seconds or 0.0)

    def take(self) -> str:
        lines, self.log[:] = [*self.log], []
        return " | ".join(lines) or "nothing"


def settled_runs() -> Iterator[str]:
    for code in (0, 1, worker.RELEASE_EXIT_CODE, 255, -9, -999):
        yield f"code {code}: {worker._describe_exit_code(code)}"
        for reason in ("", "cancelled", "lost", "released"):
            stage = Stage()
            stage.command._end_reason, stage.command._tail = reason, b" boom \xff\n" if code == 1 else b""
            found = stage.command._settle_by_exit_code(code)
            yield f"code {code}, {reason or 'not terminated'}: {found} {stage.take()}"
    for word in ("moved", "done", "stale", "gone", "unreachable"):
        for verb in ("ack", "reject", "release"):
            stage = Stage(word=word)
            stage.command.exit_code = 3
            yield f"{verb}, {word}: {stage.command._settle_job(verb, 'settled', 'boom')} {stage.take()}"


def terminations(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    clock = SimpleNamespace(now_s=NOW_S, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(worker, "time", clock)
    sent: list[str] = []
    monkeypatch.setattr(worker, "os", SimpleNamespace(killpg=lambda pid, number: sent.append(f"{pid} {number.name}")))
    cases: Sequence[dict[str, bool]] = ({}, {"cancelled": True}, {"lost": True}, {"cancelled": True, "lost": True})
    for attributes in cases:
        for stopped_s in (None, NOW_S - worker.FINISH_S, NOW_S - worker.FINISH_S - 1):
            stage = Stage(**attributes)
            stage.state.stopped_s = stopped_s
            is_over, reasons = stage.state.is_time_over, []
            for after_s in (0.0, worker.TERM_S, worker.TERM_S + 1, worker.TERM_S + 2):
                clock.now_s = NOW_S + after_s
                stage.command._terminate_if_needed(stage.process)
                reasons.append(stage.command._end_reason)
            clock.now_s = NOW_S
            found = f"{reasons[0]!r}, then {reasons[-1]!r}, {sent}"
            yield f"{attributes}, stopped {stopped_s}: over {is_over}, {found}"
            sent.clear()
    for code in (None, 0):
        stage = Stage()
        stage.polled = [code]
        stage.command._kill_if_running(stage.process)
        yield f"kill, code {code}: {stage.take()} {sent}"
        sent.clear()
    for is_open in (True, False):
        for code, late_waits in ((None, 1), (0, 0)):
            stage = Stage()
            stage.polled, stage.late_waits = [code], late_waits
            has_ended = stage.command._has_command_ended(stage.process, is_open)
            yield f"errors open {is_open}, code {code}: ended {has_ended}, {stage.take()}"


def exchanged_bytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    results: list[Any] = []

    def play(*_args: Any) -> Any:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(worker, "os", SimpleNamespace(read=play, write=play))
    monkeypatch.setattr(worker, "sys", SimpleNamespace(stderr=SimpleNamespace(buffer=io.BytesIO())))
    chunk = b"x" * worker.CHUNK
    outputs: Sequence[Sequence[Any]] = (
        (b"",), (BlockingIOError(),), (OSError(),), (b"a\nb", b""), (b"a\nb", b"c\n\nd", BlockingIOError()),
        (chunk, b""), (chunk + b"y", b""), (chunk + b"y\n", b""), (chunk * 2 + b"y", BlockingIOError()),
        (b"e" * (worker.ERROR_BYTES - 1), b"f", b"g", b""),
    )  # fmt: skip
    for has_reader in (True, False):
        for stream in (worker.STDOUT, worker.STDERR):
            for output in outputs:
                stage = Stage(has_reader=has_reader)
                results[:] = output
                is_open = stage.command._read_command_output(5, stream)
                stage.command._report_last_line(stream)
                stage.command._report_last_line(stream)
                tail = stage.command._tail
                given = [f"{len(each)} bytes" if isinstance(each, bytes) else type(each).__name__ for each in output]
                said = stage.take()
                yield f"reader {has_reader}, {stream}, {given}: open {is_open}, {said}, tail {len(tail)} {tail[:2]!r}"
    printed = worker.sys.stderr.buffer.getvalue()  # type: ignore[attr-defined]
    yield f"printed here: {len(printed)} bytes"
    for result in (0, 2, 3, BlockingIOError(), BrokenPipeError()):
        results[:] = [result]
        yield f"wrote {result!r} of 3: {bytes(Stage().command._write_command_input(5, memoryview(b'xyz')))!r} are left"


def runs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    started: list[Any] = []

    def start(*args: Any, **options: Any) -> Any:
        started.append((args, options))
        raise OSError("no such file")

    usual = {name: getattr(subprocess, name) for name in ("PIPE", "Popen", "TimeoutExpired")}
    monkeypatch.setattr(worker, "subprocess", SimpleNamespace(**{**usual, "Popen": start}))
    for has_reader in (True, False):
        stage = Stage(has_reader=has_reader)
        found = stage.command.run()
        environment = {name: value for name, value in started[-1][1].pop("env").items() if name.startswith("RQTUI_")}
        variables = {name: environment[name] for name in ("RQTUI_QUEUE", "RQTUI_ID", "RQTUI_ATTEMPT")}
        yield f"not started, reader {has_reader}: {found} {stage.take()}; {started[-1]} {variables}"
    for failure in (None, ServerError("away"), ValueError("a mistake")):
        stage = Stage()
        slots: Any = SimpleNamespace(release=lambda stage=stage: stage.log.append("slot"))

        def run(_command: Any, failure: Any = failure) -> tuple[str, int, str]:
            if failure:
                raise failure
            return "acked", 0, ""

        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(_CommandRun, "run", run)
            try:
                worker._run_job_in_slot(stage.state, stage.job, slots)
            except ValueError as error:
                stage.log.append(f"raised {error}")
        logged = [record.getMessage() for record in caplog.records]
        yield f"run that ends with {failure!r}: {stage.take()}, {dict(stage.state.counts)}, logged {logged}"
    for command, concurrency, max_jobs in (([], 1, None), (["no-such-command-here"], 1, None), (["sh"], 0, None),
                                           (["sh"], 1, 0), (["sh"], 1, 1)):  # fmt: skip
        try:
            worker.check_worker_arguments(command, concurrency, max_jobs)
        except UsageError as error:
            yield f"{command}, {concurrency}, {max_jobs}: {error}"
    for is_stopping in (False, True):
        stage, alive = Stage(), [True, True, False]
        consumer: Any = SimpleNamespace(is_stopping=is_stopping)
        thread: Any = SimpleNamespace(
            is_alive=partial(alive.pop, 0), join=lambda seconds, stage=stage: stage.log.append(f"join {seconds}")
        )
        worker._wait_for_threads(stage.state, [thread], consumer)
        yield f"waited, stopping {is_stopping}: {stage.take()}, stopped {stage.state.stopped_s is not None}"


def test_a_closed_reader_of_the_output_ends_no_command() -> None:
    for error in (OSError("closed"), ValueError("closed")):

        def say(*_args: object, error: Exception = error) -> None:
            raise error

        _WorkState(["cmd"], lambda run: None, say).report_line("a", 1, b"x")


def test_a_body_is_written_and_all_output_is_read_before_a_command_has_ended() -> None:
    stage = Stage(raw=b"")
    pipes = [os.pipe() for _ in range(3)]
    os.write(pipes[1][1], b"out")
    os.write(pipes[2][1], b"err\n")
    for at in (1, 2):
        os.close(pipes[at][1])
    stage.process.stdin = os.fdopen(pipes[0][1], "wb", 0)
    stage.process.stdout, stage.process.stderr = (os.fdopen(pipes[at][0], "rb", 0) for at in (1, 2))
    stage.polled = [None, 0]
    stage.command._exchange_with_command(stage.process)
    os.close(pipes[0][0])
    said = sorted(stage.log)
    assert said == ["says 1 b'out' of 3", "says 2 b'err' of 3", f"wait {worker.CHECK_S}"]
    assert all(pipe.closed for pipe in (stage.process.stdin, stage.process.stdout, stage.process.stderr))


def test_commands_match_the_stored_text(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rqtui")
    lines: list[str] = []
    for part in (lambda patch: settled_runs(), terminations, exchanged_bytes, lambda patch: runs(patch, caplog)):
        with monkeypatch.context() as patch:
            lines += part(patch)
    assert_lines_match_file(lines, KEPT)
