"""A queue worked off by a command of any language: what `rqtui work QUEUE -- COMMAND` does, as a function.

One process per job, from an argument list, never through a shell: the body on its standard input, RQTUI_QUEUE, RQTUI_ID
and RQTUI_ATTEMPT in its environment. Exit 0 acks, 75 (EX_TEMPFAIL) releases, anything else rejects with the end of its
standard error. The lease is extended while it runs; a command whose lease is lost or cancelled is ended.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rqtui.client.leased_job import ERROR_BYTES, Job
from rqtui.client.queue import Consumer, Queue
from rqtui.errors import RqtuiError, ServerError, UsageError

log = logging.getLogger("rqtui")

RELEASED = 75  # EX_TEMPFAIL of sysexits.h
FINISH_S = 10.0  # how long running commands may go on after a stop, before they are ended and their jobs released
TERM_S = 5.0  # between SIGTERM and SIGKILL
LOOK_S = 0.1  # how soon a lost lease, a stop, or a command that closed its standard error early is noticed
NO_COMMAND_DELAY_S = 5  # a job whose command could not be started waits so long: the machine needs a pause
CHUNK = 65_536
STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class Ran:
    """One job's run. `outcome` is acked, released, rejected, lost, cancelled or unsettled (Redis could not be told)."""

    id: str
    name: str
    attempt: int
    outcome: str
    exit_code: int | None
    seconds: float
    error: str = ""


@dataclass(slots=True)
class _Slots:
    """What the threads of one `work` share."""

    command: Sequence[str]
    report: Callable[[Ran], None]
    say: Callable[[str, int, bytes], None] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped_s: float | None = None  # since when running commands are asked to come to an end

    @property
    def must_end(self) -> bool:
        return self.stopped_s is not None and time.monotonic() > self.stopped_s + FINISH_S

    def tell(self, id: str, stream: int, line: bytes) -> None:
        with self.lock, contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            if self.say is not None:
                self.say(id, stream, line)

    def note(self, ran: Ran) -> None:
        with self.lock:
            self.counts[ran.outcome] += 1
            self.report(ran)


def work(
    queue: Queue,
    command: Sequence[str],
    *,
    concurrency: int = 1,
    ttr_ms: int | None = None,
    burst: bool = False,
    max_jobs: int | None = None,
    stop: threading.Event | None = None,
    report: Callable[[Ran], None] = lambda ran: None,
    say: Callable[[str, int, bytes], None] | None = None,
) -> Mapping[str, int]:
    """Run `command` for each job, up to `concurrency` at once, until `stop` is set; the counts of the outcomes.

    `burst` ends when nothing is ready, `max_jobs` after so many runs. After `stop` running commands have ten seconds to
    finish; then they are ended and their jobs released. `report` is told of each run, one at a time. `say` gets what
    the commands print: the job's id, 1 for standard output or 2 for standard error, and a whole line without its end.
    Without it both go where ours go.
    Raises UsageError when the command does not exist or an argument makes no sense.
    """
    _check(command, concurrency, max_jobs)
    stop = stop or threading.Event()
    slots = _Slots(command, report, say)
    free = threading.BoundedSemaphore(concurrency)
    threads: set[threading.Thread] = set()
    with queue.consumer(ttr=None if ttr_ms is None else ttr_ms / 1000, batch=1, burst=burst, stop=stop) as consumer:
        jobs = iter(consumer)
        started = 0
        try:
            while not consumer.is_stopping and (max_jobs is None or started < max_jobs):
                if not free.acquire(timeout=LOOK_S):
                    continue
                job = next(jobs, None)
                if job is None:
                    break
                started += 1
                thread = threading.Thread(target=_run_in_slot, args=(slots, job, free), name=f"rqtui-work-{started}")
                threads = {other for other in threads if other.is_alive()} | {thread}
                thread.start()
        except BaseException:  # an interrupt that nobody turned into `stop`: no command may outlive us
            slots.stopped_s = time.monotonic() - FINISH_S
            raise
        finally:
            jobs.close()
            _finish(slots, threads, consumer)
    return dict(slots.counts)


def _check(command: Sequence[str], concurrency: int, max_jobs: int | None) -> None:
    if not command:
        raise UsageError("A command is needed: rqtui work QUEUE -- COMMAND [ARGUMENT…].")
    if shutil.which(command[0]) is None:
        raise UsageError(f"There is no command {command[0]!r}: give its path, or a name that is on the PATH.")
    if concurrency < 1:
        raise UsageError(f"concurrency is at least 1, not {concurrency}.")
    if max_jobs is not None and max_jobs < 1:
        raise UsageError(f"max_jobs is at least 1, not {max_jobs}.")


def _finish(slots: _Slots, threads: set[threading.Thread], consumer: Consumer) -> None:
    """Wait for what still runs; once a stop is asked for, its time is limited."""
    for thread in threads:
        while thread.is_alive():
            thread.join(LOOK_S)
            if slots.stopped_s is None and consumer.is_stopping:
                slots.stopped_s = time.monotonic()


def _run_in_slot(slots: _Slots, job: Job, free: threading.Semaphore) -> None:
    began_s = time.monotonic()
    try:
        run = _Run(slots, job)
        try:
            outcome, exit_code, error = run.outcome()
        except RqtuiError as unsettled:
            outcome, exit_code, error = "unsettled", run.exit_code, str(unsettled)
            log.warning("queue %s: job %s: %s", job.queue, ascii(job.id), unsettled)
        slots.note(Ran(job.id, job.name, job.attempt, outcome, exit_code, time.monotonic() - began_s, error))
    finally:
        free.release()


class _Run:
    """One command for one job."""

    def __init__(self, slots: _Slots, job: Job) -> None:
        self._slots, self._job = slots, job
        self._tail = b""
        self._begun = {STDOUT: b"", STDERR: b""}  # the line that is not whole yet
        self._ended_as = ""  # why we ended it
        self._ending_s = 0.0
        self.exit_code: int | None = None

    def outcome(self) -> tuple[str, int | None, str]:
        """Run it, settle the job; what became of it, the exit code, and the error it was rejected with."""
        try:
            process = self._start()
        except (OSError, ValueError) as error:
            self._job.release(delay=NO_COMMAND_DELAY_S)
            return "released", None, f"the command could not be started: {error}"
        try:
            self._attend(process)
        finally:
            self._kill(process)
        self.exit_code = process.returncode
        return self._settled()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "RQTUI_QUEUE": self._job.queue,
            "RQTUI_ID": self._job.id.replace("\0", "\N{REPLACEMENT CHARACTER}"),  # no environment can hold a NUL
            "RQTUI_ATTEMPT": str(self._job.attempt),
        }
        return subprocess.Popen(
            self._slots.command,
            stdin=subprocess.PIPE,
            stdout=None if self._slots.say is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,  # Ctrl+C is ours to handle; and what the command starts ends with it
        )

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        """Feed it, read what it prints, watch over it, until it has ended."""
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
                for key, _ in selector.select(LOOK_S if selector.get_map() else 0):
                    if key.fileobj is process.stdin:
                        unsent = self._feed(process.stdin.fileno(), unsent)
                        if not unsent:
                            selector.unregister(process.stdin)
                            process.stdin.close()
                    elif not self._read(key.fd, key.data):
                        selector.unregister(key.fileobj)
                if self._has_ended(
                    process, is_open=process.stderr in {key.fileobj for key in selector.get_map().values()}
                ):
                    break
                self._watch(process)
        for pipe, stream in printed.items():
            self._read(pipe.fileno(), stream)
            self._end_line(stream)
        for pipe in (process.stdin, *printed):
            with contextlib.suppress(OSError):
                pipe.close()

    def _has_ended(self, process: subprocess.Popen[bytes], is_open: bool) -> bool:
        """Its standard error closes when it ends, which wakes us at once; a command may close it early, though."""
        if is_open:
            return process.poll() is not None
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _feed(self, fd: int, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(fd, unsent[:CHUNK]) :]
        except BlockingIOError:
            return unsent
        except OSError:  # it does not read its input to the end, which is its good right
            return unsent[:0]

    def _read(self, fd: int, stream: int) -> bool:
        """Pass on what it printed there, and remember the end of its errors; False at the end of the stream."""
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
            if self._slots.say is not None:
                self._say(chunk, stream)
                continue
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced by text alone
                sys.stderr.buffer.write(chunk)
                sys.stderr.buffer.flush()

    def _say(self, chunk: bytes, stream: int) -> None:
        """Tell the lines that are whole now; one that is longer than a chunk is told in pieces."""
        *lines, rest = (self._begun[stream] + chunk).split(b"\n")
        while len(rest) > CHUNK:
            lines, rest = [*lines, rest[:CHUNK]], rest[CHUNK:]
        self._begun[stream] = rest
        for line in lines:
            self._slots.tell(self._job.id, stream, line)

    def _end_line(self, stream: int) -> None:
        """Tell the last line, where nothing ended it."""
        if self._begun[stream]:
            self._slots.tell(self._job.id, stream, self._begun[stream])
            self._begun[stream] = b""

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """End it when its job is no longer ours, or when time is up."""
        if self._ended_as:
            if time.monotonic() > self._ending_s + TERM_S:
                self._signal(process, signal.SIGKILL)
            return
        for reason, is_so in (
            ("cancelled", self._job.cancelled),
            ("lost", self._job.lost),
            ("released", self._slots.must_end),
        ):
            if is_so:
                self._ended_as, self._ending_s = reason, time.monotonic()
                self._signal(process, signal.SIGTERM)
                return

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Whatever happened above, no command outlives its run."""
        if process.poll() is None:
            self._signal(process, signal.SIGKILL)
            process.wait()

    def _signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)

    def _settled(self) -> tuple[str, int | None, str]:
        code = self.exit_code
        if self._ended_as == "lost":
            return "lost", code, "the lease was lost while the command ran"
        if self._ended_as == "cancelled":
            return self._tell("reject", "cancelled", "cancelled")
        if code == 0:
            return self._tell("ack", "acked")
        if code == RELEASED or self._ended_as == "released":
            return self._tell("release", "released")
        error = f"exit code {code}" if code is not None and code > 0 else f"ended by {_signal_name(code)}"
        tail = self._tail.decode("utf-8", "replace").strip()
        return self._tell("reject", "rejected", f"{error}: {tail}" if tail else error)

    def _tell(self, verb: str, outcome: str, error: str = "") -> tuple[str, int | None, str]:
        """Settle the job. A lease that was over by then counts as lost; when Redis is away it is told later."""
        job = self._job
        try:
            word = job.reject(error) if verb == "reject" else job.ack() if verb == "ack" else job.release()
        except ServerError as away:
            job.settle_later(verb, error)
            return "unsettled", self.exit_code, str(away)
        return ("lost" if word in ("stale", "gone") else outcome), self.exit_code, error


def _signal_name(code: int | None) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(-(code or 0)).name
    return f"signal {-(code or 0)}"
