"""`dispatch` and `reap`: the loops of the screen in the foreground, for machines without one.

Both end on SIGTERM, SIGHUP and Ctrl+C after the step under way, and go on by themselves when Redis was away.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.looking import QUEUES
from rqtui.commands.session import AWAY, DONE, INTERRUPTED, REFUSED, Session, command
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.loops import Round, Step
    from rqtui.model import Ref

DISCOVER_S = 30.0  # how often new queues are looked for, when none was named
MOST = 1000

VERBOSE = Annotated[
    bool, typer.Option("-v", "--verbose", help="A line for every step, not only for those that moved jobs.")
]
ONCE = Annotated[bool, typer.Option("--once", help="One batch, then exit.")]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "dispatch")(dispatch)
    command(app, "reap")(reap)


def dispatch(
    session: Session,
    queues: QUEUES = None,
    batch_size: Annotated[int | None, typer.Option("-n", "--batch-size", metavar="N", help="Jobs per batch.")] = None,
    delayed_key: Annotated[
        str | None, typer.Option("-d", "--delayed-task-zset-key", metavar="K", help="Layout dispatcher.")
    ] = None,
    ready_key: Annotated[
        str | None, typer.Option("-r", "--ready-task-list-key", metavar="K", help="Layout dispatcher.")
    ] = None,
    verbose: VERBOSE = False,
    once: ONCE = False,
) -> int:
    """Make jobs ready when they are due, until it is stopped.

    Example: rqtui dispatch mail --verbose
    """
    for option, given in (("-d/--delayed-task-zset-key", delayed_key), ("-r/--ready-task-list-key", ready_key)):
        if given is not None:
            raise UsageError(
                f"{option} names a key of the layout dispatcher; a native queue's keys follow from its name."
            )
    _check_batch(batch_size, "-n/--batch-size")
    report = _Report(session, _dispatched, ("queue", "dispatched", "delayed", "ready", "backing_off"), verbose or once)
    return _loop(session, "dispatch", queues, batch_size, None, once, report)


def reap(
    session: Session,
    queues: QUEUES = None,
    every_s: Annotated[
        float | None, typer.Option("--every", metavar="S", help="Look at least so often (seconds).")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Leases per batch.")] = None,
    gc: Annotated[
        bool, typer.Option("--gc", help="Also clear up after consumers that are gone (layout orizuru).")
    ] = False,
    verbose: VERBOSE = False,
    once: ONCE = False,
) -> int:
    """Take back expired leases, until it is stopped.

    Example: rqtui reap mail --once --json
    """
    if gc:
        raise UsageError("--gc is for layouts that leave things of dead consumers behind; native queues do not.")
    if every_s is not None and not 0.01 <= every_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--every is a number of seconds between 0.01 and 86400.")
    _check_batch(limit, "--limit")
    report = _Report(session, _reaped, ("queue", "ready", "dead", "next_ms"), verbose or once)
    return _loop(session, "reap", queues, limit, every_s, once, report)


def _check_batch(given: int | None, option: str) -> None:
    if given is not None and not 1 <= given <= MOST:
        raise UsageError(f"{option} is a whole number from 1 to {MOST}.")


def _loop(
    session: Session,
    verb: str,
    queues: Sequence[str] | None,
    limit: int | None,
    every_s: float | None,
    once: bool,
    report: _Report,
) -> int:
    from rqtui.loops import LOOK_S, Loop, mover

    session.refuse_if_read_only(verb)
    set_up_logging(session.settings.log_format)
    engine = session.engine(discover=once and not queues, reached=once)
    if not once and len(engine.layouts) > 1:
        output.say("several layouts are looked at: name a queue as LAYOUT:NAME where two have it.")
    named = [engine.find(name) for name in queues or ()]
    refs: Callable[[], Sequence[Ref]] = (lambda: named) if named else _Found(engine, fresh=once)
    report.refs = refs
    work = mover(verb, engine.client, engine.layouts, refs, limit=limit, every_s=every_s or LOOK_S)
    loop = Loop(verb, work, report)
    if once:
        done = loop.step()
        if done.error:
            return AWAY
        return REFUSED if any(step.error for step in done.steps) else DONE
    with stopped_by_signals() as stop:
        from rqtui.server import mask

        what = ", ".join(str(ref.queue) for ref in named) or "all queues"
        output.say(f"{verb}: {what} at {mask(session.settings.url)}; Ctrl+C ends it.")
        loop.run(stop)
    return stop.code


class _Found:
    """All queues there are, looked for every half minute; what cannot be asked raises, and the loop backs off."""

    def __init__(self, engine: Engine, fresh: bool) -> None:
        self._engine = engine
        self._due_s = time.monotonic() + DISCOVER_S if fresh else 0.0

    def __call__(self) -> Sequence[Ref]:
        """The queues."""
        if time.monotonic() >= self._due_s:
            for _chunk in self._engine.discover():
                pass
            self._due_s = time.monotonic() + DISCOVER_S
        return self._engine.refs


class _Report:
    """Writes the rounds of a loop: JSON lines, or a table whose titles come first; errors once each on stderr."""

    def __init__(
        self,
        session: Session,
        line: Callable[[Step | None, str, Round], dict[str, Any]],
        titles: Sequence[str],
        every_step: bool,
    ) -> None:
        self._session, self._line, self._titles, self._every_step = session, line, titles, every_step
        self._said: dict[str, str] = {}
        self._is_headed = False
        self.refs: Callable[[], Sequence[Ref]] = tuple

    def __call__(self, done: Round) -> None:
        """Reports one round."""
        if done.error:
            self._say("", f"{done.error} Next try in {done.wait_s:g} s.")
            self._write([self._line(None, queue, done) for queue in self._known()])
            return
        self._said.pop("", None)
        for step in done.steps:
            self._say(step.ref.queue, step.error and f"{step.ref.queue}: {step.error}")
        self._write(
            [
                self._line(step, step.ref.queue, done)
                for step in done.steps
                if not step.error and (step.moved or self._every_step)
            ]
        )

    def _known(self) -> list[str]:
        from rqtui.errors import RqtuiError

        try:
            return [ref.queue for ref in self.refs()] if self._session.as_json else []
        except RqtuiError:  # nobody was named, and the names cannot be asked for now
            return []

    def _say(self, key: str, sentence: str) -> None:
        if sentence and self._said.get(key) != sentence:
            output.say(sentence)
        self._said[key] = sentence

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        for line in lines:
            if self._session.as_json:
                output.write_json(line, is_stream=True)
            else:
                self._write_row(line)

    def _write_row(self, line: dict[str, Any]) -> None:
        from rqtui.tui.display import fit, safe

        flat = {**line, **line.get("reaped", {}), "backing_off": line.get("backing_off_ms")}
        if not self._is_headed:
            self._is_headed = True
            output.write_lines(
                ["  ".join([fit(self._titles[0], 24), *(fit(t, 11, "right") for t in self._titles[1:])])]
            )
        cells = [fit(safe(str(line["queue"])), 24), *(fit(_shown(flat.get(t)), 11, "right") for t in self._titles[1:])]
        output.write_lines(["  ".join(cells)])


def _shown(value: object) -> str:
    return "·" if value is None else str(value)


def _dispatched(step: Step | None, queue: str, done: Round) -> dict[str, Any]:
    """`ready` counts before the batch, as the program that this format comes from has it (redis_queue_dispatcher)."""
    values = step.values if step else {}
    return {
        "queue": documents.text(queue),
        "dispatched": step.moved if step else 0,
        "delayed": values.get("scheduled"),
        "ready": values.get("ready"),
        "backing_off_ms": round(done.wait_s * 1000),
    }


def _reaped(step: Step | None, queue: str, done: Round) -> dict[str, Any]:
    values = step.values if step else {}
    reaped = {"ready": values.get("ready", 0), "dead": values.get("dead", 0)}
    next_ms = values.get("next_ms", -1)
    line: dict[str, Any] = {
        "queue": documents.text(queue),
        "reaped": reaped,
        "next_ms": next_ms if next_ms >= 0 else None,
    }
    return line if step else {**line, "backing_off_ms": round(done.wait_s * 1000)}


# ── signals and logs ─────────────────────────────────────────────────────────────────────────────────────────


class Stop(threading.Event):
    """Set by a signal; `code` is what the command exits with: 130 after Ctrl+C, 0 when it was asked to end."""

    code = DONE


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """An event that SIGINT, SIGTERM and SIGHUP set; a second Ctrl+C interrupts at once."""
    stop = Stop()

    def end(number: int, _frame: object) -> None:
        if number == signal.SIGINT:
            if stop.is_set():
                raise KeyboardInterrupt
            stop.code = INTERRUPTED
        stop.set()

    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread alone
        yield stop
        return
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _JsonLines(logging.Formatter):
    """A log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        import json

        line = {"at_ms": int(record.created * 1000), "level": record.levelname.lower(), "logger": record.name}
        line["text"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(log_format: str) -> None:
    """Logs of our own loggers go to stderr, as text or as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonLines() if log_format == "json" else logging.Formatter("rqtui: %(levelname)s %(message)s")
    )
    logger = logging.getLogger("rqtui")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING)
