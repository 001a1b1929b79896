"""`dispatch` and `reap`: the loops of the screen in the foreground, for machines without one.

Both end on SIGTERM, SIGHUP and Ctrl+C after the step under way, and go on by themselves when Redis was away.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rqtui.commands import documents, output
from rqtui.commands.ending import stopped_by_signals
from rqtui.commands.looking import QUEUES
from rqtui.commands.session import AWAY, DONE, REFUSED, Session, command
from rqtui.errors import ServerError, UsageError

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
    if batch_size is not None and batch_size > MOST:  # the original takes any
        output.say(f"-n {batch_size} is more than a call may move: batches of {MOST}.")
        batch_size = MOST
    _check_batch(batch_size, "-n/--batch-size")
    keys = {name: key for name, key in (("delayed", delayed_key), ("ready", ready_key)) if key is not None}
    report = _Report(session, _dispatched, ("queue", "dispatched", "delayed", "ready", "backing_off"), verbose or once)
    return _loop(_with_keys(session, keys), "dispatch", queues, report, limit=batch_size, once=once)


def reap(
    session: Session,
    queues: QUEUES = None,
    every_s: Annotated[
        float | None, typer.Option("--every", metavar="S", help="Look at least so often (seconds).")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Leases per batch.")] = None,
    gc: Annotated[bool, typer.Option("--gc", help="Also what consumers rejected goes back (layout orizuru).")] = False,
    verbose: VERBOSE = False,
    once: ONCE = False,
) -> int:
    """Take back expired leases, until it is stopped.

    Example: rqtui reap mail --once --json
    """
    if every_s is not None and not 0.01 <= every_s <= 86_400:  # a day; NaN is refused too
        raise UsageError("--every is a number of seconds between 0.01 and 86400.")
    _check_batch(limit, "--limit")
    report = _Report(session, _reaped, ("queue", "ready", "dead", "next_ms"), verbose or once)
    args: dict[str, object] = {"gc": True} if gc else {}
    return _loop(session, "reap", queues, report, limit=limit, every_s=every_s, once=once, args=args)


def _with_keys(session: Session, keys: dict[str, str]) -> Session:
    """The session whose layout with the options `delayed` and `ready` has these keys, as the original's options say."""
    from rqtui import layouts

    if not keys:
        return session
    [name] = [known for known in layouts.names() if {"delayed", "ready"} <= set(layouts.make(known).defaults)]
    given = [spec for spec in session.settings.layouts if spec.partition(":")[0] == name]
    if session.settings.layouts and not given:
        raise UsageError(f"-d and -r name keys of the layout {name}; say --layout {name}, or leave --layout away.")
    if any("," in key for key in keys.values()):
        raise UsageError("a key with a comma cannot be an option of a layout.")
    added = ",".join(f"{option}={key}" for option, key in keys.items())
    before = given[0] if given else name
    spec = f"{before}{',' if ':' in before else ':'}{added}"
    return replace(session, settings=replace(session.settings, layouts=(spec,)))


def _check_batch(given: int | None, option: str) -> None:
    if given is not None and not 1 <= given <= MOST:
        raise UsageError(f"{option} is a whole number from 1 to {MOST}.")


def _loop(
    session: Session,
    verb: str,
    queues: Sequence[str] | None,
    report: _Report,
    *,
    limit: int | None,
    every_s: float | None = None,
    once: bool,
    args: dict[str, object] | None = None,
) -> int:
    from rqtui.heads import LOOK_S
    from rqtui.loops import Loop, mover

    session.refuse_if_read_only(verb)
    set_up_logging(session.settings.log_format)
    engine = session.engine(reached=once)
    able = [layout for layout in engine.layouts.values() if layout.can(verb) and (queues or layout.is_asked)]
    if not able:
        raise UsageError(f"{', '.join(engine.layouts)}: no {verb} is needed there; nothing waits for one.")
    for name in args or {}:
        if not any(arg.name == name for layout in able for arg in layout.script(verb).args):
            raise UsageError(f"--{name} is nothing for {', '.join(layout.name for layout in able)}.")
    refs = _Wanted(engine, verb, queues or ())
    with suppress(ServerError):  # it is away: the loop says so, and waits for it
        for name in queues or ():
            refs.check(engine.find(name) if name.partition(":")[0] in engine.layouts else engine.seek(name))
    report.refs = refs
    work = mover(verb, engine.client, engine.layouts, refs, limit=limit, every_s=every_s or LOOK_S, args=args)
    loop = Loop(verb, work, report)
    if once:
        done = loop.step()
        if done.error:
            return AWAY
        return REFUSED if any(step.error for step in done.steps) else DONE
    with stopped_by_signals(engine.client) as stop:
        from rqtui.server import mask

        what = ", ".join(queues or ()) or f"all queues of {', '.join(layout.name for layout in able)}"
        output.say(f"{verb}: {what} at {mask(session.settings.url)}; Ctrl+C ends it.")
        others = [layout.name for layout in engine.layouts.values() if not layout.is_asked and layout.can(verb)]
        if others and not queues:
            output.say(f"queues of {', '.join(others)} are left alone unless they are named, or --layout names theirs.")
        loop.run(stop)
    return stop.code


class _Wanted:
    """The queues that were named, or all that there are of the layouts that were asked for (without any: native ones).

    They are looked for every half minute; when that fails it raises, and the loop backs off.
    """

    def __init__(self, engine: Engine, verb: str, names: Sequence[str]) -> None:
        self.names = names
        self._engine, self._verb = engine, verb
        self._due_s = 0.0
        self._named: list[Ref] = []
        self._told: set[Ref] = set()

    def __call__(self) -> Sequence[Ref]:
        """The queues."""
        if time.monotonic() >= self._due_s:
            # Also when all were named: a layout may learn there who works on its queues.
            for _chunk in self._engine.discover() if not self.names or self._is_foreign() else ():
                pass
            self._named = [self._engine.seek(name) for name in self.names]
            self._due_s = time.monotonic() + DISCOVER_S
        for ref in self._named:
            self.check(ref)
        return self._named or [ref for ref in self._engine.refs if self._is_ours(ref)]

    def _is_ours(self, ref: Ref) -> bool:
        """Whether a queue that nobody named is taken along; where the verb is denied it is not, which is said once."""
        if not self._engine.layouts[ref.layout].is_asked:
            return False
        denial = self._engine.denial(self._verb, ref)
        if denial and ref not in self._told:
            self._told.add(ref)
            output.say(f"{ref} is left alone: {denial}")
        return not denial

    def check(self, ref: Ref) -> None:
        """Raises UsageError for a queue of a system that has no such loop, Refused where the verb is denied."""
        layout = self._engine.layouts[ref.layout]
        if not layout.can(self._verb):
            raise UsageError(f"{ref}: no {self._verb} is needed in {layout.name}; nothing waits for one.")
        self._engine.refuse(self._verb, ref)

    def _is_foreign(self) -> bool:
        return any(layout.is_asked and not layout.loops_by_default for layout in self._engine.layouts.values())


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
        self.refs: _Wanted | None = None

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
        return list(self.refs.names) if self._session.as_json and self.refs else []  # others cannot be asked for now

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


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────


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
