"""Implement `work`: run a command of any language for each job of a queue."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE
from rqtui.cli.logs import set_up_logging
from rqtui.cli.session import NO_WAIT, Session
from rqtui.cli.signals import stop_on_signals
from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import UsageError
from rqtui.text.names import to_bytes

if TYPE_CHECKING:
    from rqtui.client.subprocess_worker import JobRun
    from rqtui.model import Ref

STDERR = 2


def work(
    session: Session,
    queue: QUEUE,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...", help="The command that runs for each job.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Run at most N jobs at once.")] = 1,
    ttr: Annotated[
        str | None,
        typer.Option("--ttr", metavar="30s", help="Lease each job for this time; heartbeats renew the lease."),
    ] = None,
    burst: Annotated[bool, typer.Option("--burst", help="Exit when no job is ready.")] = False,
    max_jobs: Annotated[int | None, typer.Option("--max-jobs", metavar="N", help="Exit after N jobs.")] = None,
    no_wait: NO_WAIT = False,
) -> int:
    """Run a command for each job of a queue.

    The job's body is on the standard input of the command; RQTUI_QUEUE, RQTUI_ID and RQTUI_ATTEMPT are in its
    environment. Exit 0 acks, 75 (EX_TEMPFAIL) releases, anything else rejects with the end of its standard error. The
    output of the command is passed on by whole lines; lines that begin with `rqtui:` are printed by rqtui.

    Example: rqtui work mail --concurrency 4 -- ./send-mail --fast
    """
    from rqtui import durations
    from rqtui.client.queue import BYTES, Queue

    session.refuse_if_read_only("work")
    set_up_logging(session.settings.log_format)
    ttr_ms = None if ttr is None else durations.parse_duration(ttr, "--ttr")
    from rqtui.client.subprocess_worker import check_worker_arguments
    from rqtui.client.subprocess_worker import run_command_per_job as run

    check_worker_arguments(command or [], concurrency, max_jobs)
    ref = session.retry_until_redis_answers(lambda: _resolve_work_queue(session, queue), no_wait=no_wait)
    reporter = _RunPrinter(session, ref.queue)
    with (
        Queue(ref.queue, session.settings.url, codec=BYTES) as worker_queue,
        stop_on_signals(worker_queue.client) as stop,
    ):
        counts = run(
            worker_queue,
            command or [],
            concurrency=concurrency,
            ttr_ms=ttr_ms,
            burst=burst,
            max_jobs=max_jobs,
            stop=stop,
            report=reporter,
            say=reporter.print_command_line,
        )
    if not session.as_json:
        output.print_message(
            "work: " + (" · ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "no job was run")
        )
    return stop.code


def _resolve_work_queue(session: Session, queue: str) -> Ref:
    """Return the queue whose jobs the command works on.

    Raises UsageError for another system, and Refused if a needed verb is denied.
    """
    engine = session.create_engine(runs_on=True)
    ref = engine.resolve_or_discover(queue)
    if not engine.systems[ref.system].has_client:
        raise UsageError(f"work speaks to {DEFAULT_SYSTEM} queues; {ref} is none.")
    for verb in ("reserve", "ack", "release", "reject"):
        engine.raise_if_refused(verb, ref)  # a worker needs all of these verbs
    return ref


class _RunPrinter:
    """A printer of the result of each run of a command: a line of text, or of JSON with --json."""

    def __init__(self, session: Session, queue: str) -> None:
        self._session, self._queue = session, queue
        self._turn = threading.Lock()

    def print_command_line(self, _id: str, stream: int, line: bytes) -> None:
        """Print a line that the command wrote to its stdout or stderr."""
        is_error = stream == STDERR or self._session.as_json  # with --json, stdout is reserved for documents
        with self._turn:
            output.print_line_of_other_program(line, sys.stderr if is_error else sys.stdout)

    def __call__(self, job_run: JobRun) -> None:
        """Print the result of one run of the command."""
        from rqtui.text.formats import format_duration
        from rqtui.text.masking import mask_text
        from rqtui.text.sanitise import format_id

        with self._turn:
            if self._session.as_json:
                line = {
                    **documents.build_queue_fields(self._queue),
                    **documents.build_id_fields(to_bytes(job_run.id)),
                    "name": documents.mask_job_text(job_run.name),
                    "attempt": job_run.attempt,
                    "outcome": job_run.outcome,
                    "exit_code": job_run.exit_code,
                    "run_ms": round(job_run.seconds * 1000),
                    "error": documents.mask_job_text(job_run.error),
                }
                output.write_json(line, is_stream=True)
                return
            cells = [
                format_id(job_run.id),
                mask_text(job_run.name),
                job_run.outcome,
                format_duration(job_run.seconds * 1000),
                mask_text(job_run.error.strip().split("\n")[-1])[:200],
            ]
            # The prefix distinguishes this line from the output of a command.
            output.write_lines(["rqtui: " + "  ".join(filter(None, cells))])
