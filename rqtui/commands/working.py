"""`work`: a command of any language for each job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.commands import documents, output
from rqtui.commands.ending import stopped_by_signals
from rqtui.commands.looking import QUEUE
from rqtui.commands.looping import set_up_logging
from rqtui.commands.session import Session, command
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.work import Ran

STDERR = 2


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "work")(work)


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
    (EX_TEMPFAIL) releases, anything else rejects with the end of its standard error.

    Example: rqtui work mail --concurrency 4 -- ./send-mail --fast
    """
    from rqtui import durations
    from rqtui.client import BYTES, Queue

    session.refuse_if_read_only("work")
    set_up_logging(session.settings.log_format)
    ttr_ms = None if ttr is None else durations.parse(ttr, "--ttr")
    engine = session.engine()
    ref = engine.seek(queue)
    if ref.layout != "native":
        raise UsageError(f"work speaks to native queues; {ref} is none.")
    for verb in ("reserve", "ack", "release", "reject"):
        engine.refuse(verb, ref)  # whoever may not do one of them cannot work
    from rqtui.work import work as run

    with Queue(ref.queue, session.settings.url, codec=BYTES) as named, stopped_by_signals(named.client) as stop:
        counts = run(
            named,
            words or [],
            concurrency=concurrency,
            ttr_ms=ttr_ms,
            burst=burst,
            max_jobs=max_jobs,
            stop=stop,
            report=_Reporter(session, ref.queue),
            output=STDERR if session.as_json else None,  # stdout is for our lines then
        )
    if not session.as_json:
        output.say(
            "work: " + (" · ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "no job was run")
        )
    return stop.code


class _Reporter:
    """A line for each run, on stdout; JSON lines with --json."""

    def __init__(self, session: Session, queue: str) -> None:
        self._session, self._queue = session, queue
        self._turn = threading.Lock()

    def __call__(self, ran: Ran) -> None:
        """Reports one run."""
        from rqtui.tui.display import duration, safe

        with self._turn:
            if self._session.as_json:
                line = {
                    "queue": documents.text(self._queue),
                    **documents.id_fields(ran.id.encode("utf-8", "surrogateescape")),
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
                ran.id,
                ran.name,
                ran.outcome,
                duration(ran.seconds * 1000),
                ran.error.strip().split("\n")[-1][:200],
            ]
            output.write_lines(["  ".join(safe(word) for word in words if word)])
