"""Run a loop of the engine, the dispatcher or the reaper, in the foreground. Used by `dispatch` and `reap`.

Both end on SIGTERM, SIGHUP and Ctrl+C after the step in progress, and resume by themselves after Redis was away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from rqtui.cli import output
from rqtui.cli.logs import set_up_logging
from rqtui.cli.session import DONE, REFUSED, UNREACHABLE, Session
from rqtui.cli.signals import stop_on_signals
from rqtui.errors import ServerError, UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop, Round, ScriptStep
    from rqtui.model import Ref
    from rqtui.system_base.system import System

DISCOVER_S = 30.0  # seconds between two searches for queues, if none was named
MAX_BATCH = 1000
ONCE = Annotated[bool, typer.Option("--once", help="One batch, then exit.")]


def check_batch_size(given: int | None, option: str) -> None:
    """Raise UsageError if one call cannot move so many jobs."""
    if given is not None and not 1 <= given <= MAX_BATCH:
        raise UsageError(f"{option} is a whole number from 1 to {MAX_BATCH}.")


def run_loop(
    session: Session,
    verb: str,
    queues: Sequence[str] | None,
    report: Report,
    *,
    limit: int | None,
    every_s: float | None = None,
    once: bool,
    args: dict[str, object] | None = None,
    no_wait: bool = False,
) -> int:
    """Run the loop `verb` on queues until a signal ends it, or one step with `once`; return the exit code."""
    from rqtui.engine.due_times import POLL_INTERVAL_S
    from rqtui.engine.loops import Loop, build_round

    session.refuse_if_read_only(verb)
    set_up_logging(session.settings.log_format)
    engine = session.create_engine(reached=once or no_wait, runs_on=no_wait)
    able = [system for system in engine.systems.values() if system.can(verb) and (queues or system.is_explicit)]
    _check_systems(engine, verb, able, args or {})
    refs = _LoopQueues(engine, verb, queues or ())
    with suppress(ServerError):  # Redis is away: the loop reports it and waits
        refs.check_names()
    report.refs = refs
    work = build_round(
        verb, engine.client, engine.systems, refs, limit=limit, max_wait_s=every_s or POLL_INTERVAL_S, args=args
    )
    loop = Loop(verb, work, report)
    names = [system.name for system in able]
    if once:
        return _run_once(engine, loop, report, refs, names)
    with stop_on_signals(engine.client, command=verb) as stop:
        _report_start(session, engine, refs, names)
        loop.run(stop)
    return stop.code


def _check_systems(engine: Engine, verb: str, able: Sequence[System], args: Collection[str]) -> None:
    """Raise UsageError if no system has the loop, or if no script of these systems takes one of the arguments."""
    if not able:
        raise UsageError(f"{', '.join(engine.systems)}: no {verb} is needed there; nothing waits for one.")
    accepted = {arg.name for system in able for arg in system.script(verb).args}
    for name in args:
        if name not in accepted:
            raise UsageError(f"--{name} is nothing for {', '.join(system.name for system in able)}.")


def _run_once(engine: Engine, loop: Loop, report: Report, refs: _LoopQueues, able: Sequence[str]) -> int:
    """Run one step of the loop and return the exit code. `able` are the names of the systems that have the loop."""
    round_ = loop.step()
    if round_.error:
        return UNREACHABLE
    steps = [step for step in round_.steps if step.ref.system != report.unasked]
    if not steps and not refs.names:
        output.print_message(_explain_no_queue(engine, refs.verb, able))
    return REFUSED if any(step.error for step in steps) else DONE


def _report_start(session: Session, engine: Engine, refs: _LoopQueues, able: Sequence[str]) -> None:
    """Report on which queues the loop begins, and which systems it leaves alone."""
    from rqtui.connection.connect import mask

    verb = refs.verb
    what = ", ".join(refs.names) or f"all queues of {', '.join(able)}"
    output.print_message(f"{verb}: {what} at {mask(session.settings.url)}; Ctrl+C ends it.")
    others = [system.name for system in engine.systems.values() if not system.is_explicit and system.can(verb)]
    if others and not refs.names:
        output.print_message(
            f"queues of {', '.join(others)} are left alone unless they are named, or --system names theirs."
        )


def _explain_no_queue(engine: Engine, verb: str, able: Sequence[str]) -> str:
    """Return a sentence that no queue needs the loop, and why the existing queues are left alone."""
    systems = sorted({ref.system for ref in engine.refs if ref.system not in able})
    idle = [name for name in systems if not engine.systems[name].can(verb)]
    alone = [name for name in systems if name not in idle]
    words = f"{verb}: no queue of {', '.join(able)} is here"
    words += f"; in {', '.join(idle)} nothing waits for a {verb}" if idle else ""
    if engine.others:  # queues of these systems were not searched for
        words += "; queues of other systems are left alone unless they are named, or --system names theirs"
    elif alone:
        words += f"; queues of {', '.join(alone)} are left alone unless they are named, or --system names theirs"
    return f"{words}."


class _LoopQueues:
    """The queues that a loop works on: the named ones, or all queues of the requested systems.

    It searches for queues every 30 seconds. If that fails it raises, and the loop backs off.
    """

    def __init__(self, engine: Engine, verb: str, names: Sequence[str]) -> None:
        self.verb, self.names = verb, names
        self._engine = engine
        self._due_s = 0.0
        self._named: list[Ref] = []
        self._reported: set[Ref] = set()

    def __call__(self) -> Sequence[Ref]:
        """Return the queues to work on, after a new search if one is due."""
        if time.monotonic() >= self._due_s:
            for _chunk in self._engine.discover() if not self.names or self._needs_discovery() else ():
                pass
            self._named = [self._engine.resolve_or_discover(name) for name in self.names]
            self._due_s = time.monotonic() + DISCOVER_S
        for ref in self._named:
            self.check(ref)
        return self._named or [ref for ref in self._engine.refs if self._is_included(ref)]

    def _is_included(self, ref: Ref) -> bool:
        """Return whether an unnamed queue is included. A queue where the verb is denied is reported once."""
        if not self._engine.systems[ref.system].is_explicit:
            return False
        denial = self._engine.explain_denial(self.verb, ref)
        if denial and ref not in self._reported:
            self._reported.add(ref)
            output.print_message(f"{ref} is left alone: {denial}")
        return not denial

    def check_names(self) -> None:
        """Raise UsageError or Refused if the loop cannot work on a named queue. Searches for names without a system."""
        for name in self.names:
            has_system = name.partition(":")[0] in self._engine.systems
            self.check(self._engine.resolve(name) if has_system else self._engine.resolve_or_discover(name))

    def check(self, ref: Ref) -> None:
        """Raise UsageError if the queue's system has no such loop, or Refused if the verb is denied."""
        system = self._engine.systems[ref.system]
        if not system.can(self.verb):
            raise UsageError(f"{ref}: no {self.verb} is needed in {system.name}; nothing waits for one.")
        self._engine.raise_if_refused(self.verb, ref)

    def _needs_discovery(self) -> bool:
        """Return whether a search for queues also finds data about named queues, such as their workers."""
        return any(system.is_explicit and system.needs_key_walk for system in self._engine.systems.values())


class Report:
    """Prints the rounds of a loop as JSON lines or as a table with titles, and each error once on stderr."""

    def __init__(
        self,
        session: Session,
        line: Callable[[ScriptStep | None, str, Round], dict[str, Any]],
        titles: Sequence[str],
        every_step: bool,
        unasked: str = "",
    ) -> None:
        """Store how rounds are printed.

        `unasked` is a system that is served although it was not requested: its queues are printed only once they hold
        jobs.
        """
        self._session, self._line, self._titles, self._every_step = session, line, titles, every_step
        self._last_sentences: dict[str, str] = {}
        self._is_headed = False
        self.refs: _LoopQueues | None = None
        self.unasked = unasked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the output on stdout. Does nothing here."""

    def __call__(self, done: Round) -> None:
        """Print one round of the loop."""
        if done.error:
            self._print_once("", self._session.format_retry(done.error, done.wait_s))
            self._write_lines([self._line(None, queue, done) for queue in self._list_named_queues()])
            return
        self._last_sentences.pop("", None)
        for step in done.steps:
            self._print_once(step.ref.queue, step.error and f"{step.ref.queue}: {step.error}")
        self._write_lines(
            [
                self._line(step, step.ref.queue, done)
                for step in done.steps
                if not step.error and (step.moved or self._every_step) and not self._is_empty_step(step)
            ]
        )

    def _is_empty_step(self, step: ScriptStep) -> bool:
        """Return whether the step is of an unrequested system and moved and found no jobs."""
        return step.ref.system == self.unasked and not any(step.values.get(n) for n in ("moved", "scheduled", "ready"))

    def _list_named_queues(self) -> list[str]:
        return (
            list(self.refs.names) if self._session.as_json and self.refs else []
        )  # other queues cannot be found while Redis is away

    def _print_once(self, key: str, sentence: str) -> None:
        """Print a sentence unless it was the last one printed for `key`."""
        if sentence and self._last_sentences.get(key) != sentence:
            output.print_message(sentence)
        self._last_sentences[key] = sentence

    def _write_lines(self, lines: Sequence[dict[str, Any]]) -> None:
        for line in lines:
            if self._session.as_json:
                output.write_json(line, is_stream=True)
            else:
                self._write_row(line)

    def _write_row(self, line: dict[str, Any]) -> None:
        from rqtui.text.formats import fit_to_width
        from rqtui.text.sanitise import safe

        flat = {**line, **line.get("reaped", {}), "backing_off": line.get("backing_off_ms")}
        if not self._is_headed:
            self._is_headed = True
            output.write_lines(
                [
                    "  ".join(
                        [fit_to_width(self._titles[0], 24), *(fit_to_width(t, 11, "right") for t in self._titles[1:])]
                    )
                ]
            )
        cells = [
            fit_to_width(safe(str(line["queue"])), 24),
            *(fit_to_width(_format_cell(flat.get(t)), 11, "right") for t in self._titles[1:]),
        ]
        output.write_lines(["  ".join(cells)])


def _format_cell(value: object) -> str:
    return "·" if value is None else str(value)
