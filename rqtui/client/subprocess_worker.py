"""Run a command in any language for each job of a queue: the worker behind `rqtui work QUEUE -- COMMAND`.

Each job gets a process of its own, started from an argument list and never through a shell. The body is on its standard
input; RQTUI_QUEUE, RQTUI_ID and RQTUI_ATTEMPT are in its environment. Exit code 0 acks the job, 75 (EX_TEMPFAIL)
releases it, any other code rejects it with the end of the standard error. The lease is extended while the command runs.
A command is terminated when its lease is lost or its job is cancelled.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rqtui.client.leased_job import ERROR_BYTES, Job
from rqtui.client.queue import Consumer, Queue
from rqtui.errors import RqtuiError, ServerError, UsageError

log = logging.getLogger("rqtui")

RELEASE_EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h
FINISH_S = 10.0  # how long commands may continue after a stop, before they are terminated and their jobs released
TERM_S = 5.0  # between SIGTERM and SIGKILL
CHECK_S = 0.1  # how soon a lost lease, a stop, or a command that closed its standard error early is noticed
NO_COMMAND_DELAY_S = 5  # delay of a job whose command could not be started: the machine may lack memory or processes
CHUNK = 65_536
STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class JobRun:
    """The result of running the command for one job.

    `outcome` is acked, released, rejected, lost, cancelled or unsettled (Redis could not be reached).
    """

    id: str
    name: str
    attempt: int
    outcome: str
    exit_code: int | None
    seconds: float
    error: str = ""


@dataclass(slots=True)
class _WorkState:
    """The state that the threads of one `run_command_per_job` share."""

    command: Sequence[str]
    report: Callable[[JobRun], None]
    say: Callable[[str, int, bytes], None] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped_s: float | None = None  # when the stop was requested, by time.monotonic; None: not yet

    @property
    def is_time_over(self) -> bool:
        return self.stopped_s is not None and time.monotonic() > self.stopped_s + FINISH_S

    def report_line(self, id: str, stream: int, line: bytes) -> None:
        with self.lock, contextlib.suppress(OSError, ValueError):  # the reader of the output has closed it
            if self.say is not None:
                self.say(id, stream, line)

    def record_run(self, job_run: JobRun) -> None:
        with self.lock:
            self.counts[job_run.outcome] += 1
            self.report(job_run)


def run_command_per_job(
    queue: Queue,
    command: Sequence[str],
    *,
    concurrency: int = 1,
    ttr_ms: int | None = None,
    burst: bool = False,
    max_jobs: int | None = None,
    stop: threading.Event | None = None,
    report: Callable[[JobRun], None] = lambda ran: None,
    say: Callable[[str, int, bytes], None] | None = None,
) -> Mapping[str, int]:
    """Run a command for each job of a queue, up to `concurrency` at once, until `stop` is set.

    Returns counts by outcome. `burst` ends when no job is ready, `max_jobs` after so many runs. After `stop`, running
    commands have ten seconds to finish; then they are terminated and their jobs released. `report` is called for each
    run, one at a time. `say` receives each printed line: the job's id, 1 for standard output or 2 for standard error,
    and the line without its end. Without `say`, both streams go to this process's output. Raises UsageError for a
    missing command or an invalid argument.
    """
    check_worker_arguments(command, concurrency, max_jobs)
    stop = stop or threading.Event()
    state = _WorkState(command, report, say)
    free_slots = threading.BoundedSemaphore(concurrency)
    threads: set[threading.Thread] = set()
    with queue.consumer(ttr=None if ttr_ms is None else ttr_ms / 1000, batch=1, burst=burst, stop=stop) as consumer:
        jobs = iter(consumer)
        started = 0
        try:
            while not consumer.is_stopping and (max_jobs is None or started < max_jobs):
                if not free_slots.acquire(timeout=CHECK_S):
                    continue
                job = next(jobs, None)
                if job is None:
                    break
                started += 1
                thread = threading.Thread(
                    target=_run_job_in_slot, args=(state, job, free_slots), name=f"rqtui-work-{started}"
                )
                threads = {other for other in threads if other.is_alive()} | {thread}
                thread.start()
        except BaseException:  # an interrupt that no handler turned into `stop`: no command may outlive this process
            state.stopped_s = time.monotonic() - FINISH_S
            raise
        finally:
            jobs.close()
            _wait_for_threads(state, threads, consumer)
    return dict(state.counts)


def check_worker_arguments(command: Sequence[str], concurrency: int, max_jobs: int | None) -> None:
    """Raise UsageError if the worker's command does not exist or an argument is invalid."""
    if not command:
        raise UsageError("A command is needed: rqtui work QUEUE -- COMMAND [ARGUMENT…].")
    if shutil.which(command[0]) is None:
        raise UsageError(f"There is no command {command[0]!r}: give its path, or a name that is on the PATH.")
    if concurrency < 1:
        raise UsageError(f"concurrency is at least 1, not {concurrency}.")
    if max_jobs is not None and max_jobs < 1:
        raise UsageError(f"max_jobs is at least 1, not {max_jobs}.")


def _wait_for_threads(state: _WorkState, threads: Iterable[threading.Thread], consumer: Consumer) -> None:
    """Wait for all running commands. After a stop they have `FINISH_S` seconds."""
    for thread in threads:
        while thread.is_alive():
            thread.join(CHECK_S)
            if state.stopped_s is None and consumer.is_stopping:
                state.stopped_s = time.monotonic()


def _run_job_in_slot(state: _WorkState, job: Job, free_slots: threading.Semaphore) -> None:
    began_s = time.monotonic()
    try:
        run = _CommandRun(state, job)
        try:
            outcome, exit_code, error = run.run()
        except RqtuiError as unsettled:
            outcome, exit_code, error = "unsettled", run.exit_code, str(unsettled)
            log.warning("queue %s: job %s: %s", job.queue, ascii(job.id), unsettled)
        state.record_run(JobRun(job.id, job.name, job.attempt, outcome, exit_code, time.monotonic() - began_s, error))
    finally:
        free_slots.release()


class _CommandRun:
    """One run of the command, for one job."""

    def __init__(self, state: _WorkState, job: Job) -> None:
        self._state, self._job = state, job
        self._tail = b""
        self._partial_lines = {STDOUT: b"", STDERR: b""}  # the last line of each stream, still without its end
        self._end_reason = ""  # why this worker terminated the command: cancelled, lost or released
        self._terminated_s: float  # set with the reason
        self.exit_code: int | None = None

    def run(self) -> tuple[str, int | None, str]:
        """Run the command and settle its job. Returns the outcome, the exit code and the error message."""
        try:
            process = self._start_command()
        except (OSError, ValueError) as error:
            self._job.release(delay=NO_COMMAND_DELAY_S)
            return "released", None, f"the command could not be started: {error}"
        try:
            self._exchange_with_command(process)
        finally:
            self._kill_if_running(process)
        self.exit_code = process.returncode
        return self._settle_by_exit_code(process.returncode)

    def _start_command(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "RQTUI_QUEUE": self._job.queue,
            "RQTUI_ID": self._job.id.replace("\0", "\N{REPLACEMENT CHARACTER}"),  # no environment can contain a NUL
            "RQTUI_ATTEMPT": str(self._job.attempt),
        }
        return subprocess.Popen(
            self._state.command,
            stdin=subprocess.PIPE,
            stdout=None if self._state.say is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            # Ctrl+C then reaches only this process, and signals to the group also reach the command's own children.
            start_new_session=True,
        )

    def _exchange_with_command(self, process: subprocess.Popen[bytes]) -> None:
        """Write the job's body to the command, read the output and check the lease, until the command has ended."""
        assert process.stdin and process.stderr
        printed = {process.stderr: STDERR, **({process.stdout: STDOUT} if process.stdout else {})}
        for pipe in (process.stdin, *printed):
            os.set_blocking(pipe.fileno(), False)
        unsent = memoryview(self._job.raw)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE)
            for pipe, stream in printed.items():
                selector.register(pipe, selectors.EVENT_READ, stream)
            while True:
                for key, _ in selector.select(CHECK_S if selector.get_map() else 0):
                    if key.fileobj is process.stdin:
                        unsent = self._write_command_input(process.stdin.fileno(), unsent)
                        if not unsent:
                            selector.unregister(process.stdin)
                            process.stdin.close()
                    elif not self._read_command_output(key.fd, key.data):
                        selector.unregister(key.fileobj)
                if self._has_command_ended(
                    process, is_open=process.stderr in {key.fileobj for key in selector.get_map().values()}
                ):
                    break
                self._terminate_if_needed(process)
        for pipe, stream in printed.items():
            self._read_command_output(pipe.fileno(), stream)
            self._report_last_line(stream)
        for pipe in (process.stdin, *printed):
            with contextlib.suppress(OSError):
                pipe.close()

    def _has_command_ended(self, process: subprocess.Popen[bytes], is_open: bool) -> bool:
        """Return whether the command has ended.

        The end of its standard error wakes the selector. A command that closed it early is polled every `CHECK_S`.
        """
        if is_open:
            return process.poll() is not None
        try:
            process.wait(CHECK_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write_command_input(self, fd: int, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(fd, unsent[:CHUNK]) :]
        except BlockingIOError:
            return unsent
        except OSError:  # the command closed its input without reading all of it, which is allowed
            return unsent[:0]

    def _read_command_output(self, fd: int, stream: int) -> bool:
        """Report the available output of a command's stream; return False at its end.

        The end of the errors is stored.
        """
        while True:
            try:
                chunk = os.read(fd, CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            if stream == STDERR:
                self._tail = (self._tail + chunk)[-ERROR_BYTES:]
            if self._state.say is not None:
                self._report_output_lines(chunk, stream)
                continue
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced by text alone
                sys.stderr.buffer.write(chunk)
                sys.stderr.buffer.flush()

    def _report_output_lines(self, chunk: bytes, stream: int) -> None:
        """Report the complete lines of a command's output; a line longer than a chunk is reported in pieces."""
        *lines, partial_line = (self._partial_lines[stream] + chunk).split(b"\n")
        while len(partial_line) > CHUNK:
            lines, partial_line = [*lines, partial_line[:CHUNK]], partial_line[CHUNK:]
        self._partial_lines[stream] = partial_line
        for line in lines:
            self._state.report_line(self._job.id, stream, line)

    def _report_last_line(self, stream: int) -> None:
        """Report the last line of a command's output if it has no line end."""
        if self._partial_lines[stream]:
            self._state.report_line(self._job.id, stream, self._partial_lines[stream])
            self._partial_lines[stream] = b""

    def _terminate_if_needed(self, process: subprocess.Popen[bytes]) -> None:
        """Terminate the command if its job is cancelled, if the lease is lost, or if the time after a stop is over."""
        if self._end_reason:
            if time.monotonic() > self._terminated_s + TERM_S:
                self._signal_command(process, signal.SIGKILL)
            return
        for reason, has_reason in (
            ("cancelled", self._job.cancelled),
            ("lost", self._job.lost),
            ("released", self._state.is_time_over),
        ):
            if has_reason:
                self._end_reason, self._terminated_s = reason, time.monotonic()
                self._signal_command(process, signal.SIGTERM)
                return

    def _kill_if_running(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the command if it still runs, so that no command outlives its run."""
        if process.poll() is None:
            self._signal_command(process, signal.SIGKILL)
            process.wait()

    def _signal_command(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)

    def _settle_by_exit_code(self, code: int) -> tuple[str, int | None, str]:
        if self._end_reason == "lost":
            return "lost", code, "the lease was lost while the command ran"
        if self._end_reason == "cancelled":
            return self._settle_job("reject", "cancelled", "cancelled")
        if code == 0:
            return self._settle_job("ack", "acked")
        if code == RELEASE_EXIT_CODE or self._end_reason == "released":
            return self._settle_job("release", "released")
        error = _describe_exit_code(code)
        tail = self._tail.decode("utf-8", "replace").strip()
        return self._settle_job("reject", "rejected", f"{error}: {tail}" if tail else error)

    def _settle_job(self, verb: str, outcome: str, error: str = "") -> tuple[str, int | None, str]:
        """Settle the job of the command. A lease that is over counts as lost.

        While Redis is unreachable, the job is settled later.
        """
        job = self._job
        try:
            word = job.reject(error) if verb == "reject" else job.ack() if verb == "ack" else job.release()
        except ServerError as unsettled:
            job.settle_later(verb, error)
            return "unsettled", self.exit_code, str(unsettled)
        return ("lost" if word in ("stale", "gone") else outcome), self.exit_code, error


def _describe_exit_code(code: int) -> str:
    """Return the exit code of a process as text. A negative one is the number of the signal that ended the process."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
