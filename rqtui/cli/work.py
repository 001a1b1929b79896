"""`work`: a command of any language for each job."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import documents, output
from rqtui.cli.arguments import QUEUE
from rqtui.cli.logs import set_up_logging
from rqtui.cli.session import Session
from rqtui.cli.signals import stopped_by_signals
from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.errors import UsageError
from rqtui.text.names import to_bytes

if TYPE_CHECKING:
    from rqtui.client.subprocess_worker import Ran

STDERR = 2


def work(
    session: Session,
    queue: QUEUE,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...", help="What runs for each job.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="So many at once.")] = 1,
    ttr: Annotated[
        str | None, typer.Option("--ttr", metavar="30s", help="How long a lease lasts between two beats.")
    ] = None,
    burst: Annotated[bool, typer.Option("--burst", help="End when nothing is ready.")] = False,
    max_jobs: Annotated[int | None, typer.Option("--max-jobs", metavar="N", help="End after so many.")] = None,
) -> int:
    """Run a command for each job of a queue.

    The body is on its standard input; RQTUI_QUEUE, RQTUI_ID and RQTUI_ATTEMPT stand in its environment. Exit 0 acks, 75
    (EX_TEMPFAIL) releases, anything else rejects with the end of its standard error. What it prints is passed on by
    whole lines; those that begin with `rqtui:` are ours.

    Example: rqtui work mail --concurrency 4 -- ./send-mail --fast
    """
    from rqtui import durations
    from rqtui.client.queue import BYTES, Queue

    session.refuse_if_read_only("work")
    set_up_logging(session.settings.log_format)
    ttr_ms = None if ttr is None else durations.parse(ttr, "--ttr")
    engine = session.engine()
    ref = engine.seek(queue)
    if not engine.layouts[ref.layout].has_client:
        raise UsageError(f"work speaks to {DEFAULT_SYSTEM} queues; {ref} is none.")
    for verb in ("reserve", "ack", "release", "reject"):
        engine.refuse(verb, ref)  # whoever may not do one of them cannot work
    from rqtui.client.subprocess_worker import work as run

    reporter = _Reporter(session, ref.queue)
    with Queue(ref.queue, session.settings.url, codec=BYTES) as named, stopped_by_signals(named.client) as stop:
        counts = run(
            named,
            words or [],
            concurrency=concurrency,
            ttr_ms=ttr_ms,
            burst=burst,
            max_jobs=max_jobs,
            stop=stop,
            report=reporter,
            say=reporter.say,
        )
    if not session.as_json:
        output.say(
            "work: " + (" · ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "no job was run")
        )
    return stop.code


class _Reporter:
    """A line for each run, on stdout, JSON with --json; and between them the lines that the commands print."""

    def __init__(self, session: Session, queue: str) -> None:
        self._session, self._queue = session, queue
        self._turn = threading.Lock()

    def say(self, _id: str, stream: int, line: bytes) -> None:
        """Passes on a line that a command printed."""
        is_error = stream == STDERR or self._session.as_json  # stdout is for our lines then
        with self._turn:
            output.pass_on(line, sys.stderr if is_error else sys.stdout)

    def __call__(self, ran: Ran) -> None:
        """Reports one run."""
        from rqtui.text.formats import duration
        from rqtui.text.sanitise import shown_id

        with self._turn:
            if self._session.as_json:
                line = {
                    **documents.queue_fields(self._queue),
                    **documents.id_fields(to_bytes(ran.id)),
                    "name": documents.text(ran.name) or None,
                    "attempt": ran.attempt,
                    "outcome": ran.outcome,
                    "exit_code": ran.exit_code,
                    "run_ms": round(ran.seconds * 1000),
                    "error": documents.text(ran.error) or None,
                }
                output.write_json(line, is_stream=True)
                return
            words = [
                shown_id(ran.id),
                ran.name,
                ran.outcome,
                duration(ran.seconds * 1000),
                ran.error.strip().split("\n")[-1][:200],
            ]
            output.write_lines(["rqtui: " + "  ".join(filter(None, words))])  # so that it is nobody else's line
