"""Run the engine's dispatcher or reaper in the foreground, for the commands `dispatch` and `reap`.

Both end on SIGTERM, SIGHUP and Ctrl+C after the step in progress, and resume when Redis is reachable again.
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
ONCE = Annotated[bool, typer.Option("--once", help="Exit after one batch.")]


def check_batch_size(batch_size: int | None, option: str) -> None:
    """Raise UsageError if the batch size given with `option` is more than one call can move."""
    if batch_size is not None and not 1 <= batch_size <= MAX_BATCH:
        raise UsageError(f"{option} is a whole number from 1 to {MAX_BATCH}.")


def run_foreground_loop(
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
    """Run the dispatcher or the reaper on queues until a signal ends the loop, and return the exit code.

    `verb` is dispatch or reap. With `once` only one step is run.
    """
    from rqtui.engine.due_times import POLL_INTERVAL_S
    from rqtui.engine.loops import Loop, build_round

    session.refuse_if_read_only(verb)
    set_up_logging(session.settings.log_format)
    engine = session.create_engine(reached=once or no_wait, runs_on=no_wait)
    able = [system for system in engine.systems.values() if system.can(verb) and (queues or system.is_explicit)]
    _check_loop_systems(engine, verb, able, args or {})
    refs = _LoopQueues(engine, verb, queues or ())
    with suppress(ServerError):  # Redis is away: the loop reports it and waits
        refs.check_named_queues()
    report.refs = refs
    work = build_round(
        verb, engine.client, engine.systems, refs, limit=limit, max_wait_s=every_s or POLL_INTERVAL_S, args=args
    )
    loop = Loop(verb, work, report)
    names = [system.name for system in able]
    if once:
        return _run_one_step(engine, loop, report, refs, names)
    with stop_on_signals(engine.client, command=verb) as stop:
        _report_loop_start(session, engine, refs, names)
        loop.run(stop)
    return stop.code


def _check_loop_systems(engine: Engine, verb: str, able: Sequence[System], args: Collection[str]) -> None:
    """Raise UsageError if no system has the script of `verb` (dispatch or reap), or no script takes an argument."""
    if not able:
        raise UsageError(f"{', '.join(engine.systems)}: no {verb} is needed there; nothing waits for one.")
    accepted = {arg.name for system in able for arg in system.script(verb).args}
    for name in args:
        if name not in accepted:
            raise UsageError(f"--{name} is nothing for {', '.join(system.name for system in able)}.")


def _run_one_step(engine: Engine, loop: Loop, report: Report, refs: _LoopQueues, able: Sequence[str]) -> int:
    """Run one step of a dispatcher or reaper and return the exit code. `able` names the systems that have the loop."""
    round_ = loop.step()
    if round_.error:
        return UNREACHABLE
    steps = [step for step in round_.steps if step.ref.system != report.unasked]
    if not steps and not refs.names:
        output.print_message(_explain_no_queue(engine, refs.verb, able))
    return REFUSED if any(step.error for step in steps) else DONE


def _report_loop_start(session: Session, engine: Engine, refs: _LoopQueues, able: Sequence[str]) -> None:
    """Print on which queues a dispatcher or reaper starts, and which systems are left out."""
    from rqtui.connection.connect import hide_url_passwords

    verb = refs.verb
    queues_text = ", ".join(refs.names) or f"all queues of {', '.join(able)}"
    output.print_message(f"{verb}: {queues_text} at {hide_url_passwords(session.settings.url)}; Ctrl+C ends it.")
    unused_systems = [system.name for system in engine.systems.values() if not system.is_explicit and system.can(verb)]
    if unused_systems and not refs.names:
        output.print_message(
            f"queues of {', '.join(unused_systems)} are left alone unless they are named, or --system names theirs."
        )


def _explain_no_queue(engine: Engine, verb: str, able: Sequence[str]) -> str:
    """Return a sentence that no queue needs a dispatcher or reaper, and why the existing queues are left out."""
    systems = sorted({ref.system for ref in engine.refs if ref.system not in able})
    idle = [name for name in systems if not engine.systems[name].can(verb)]
    alone = [name for name in systems if name not in idle]
    sentence = f"{verb}: no queue of {', '.join(able)} is here"
    sentence += f"; in {', '.join(idle)} nothing waits for a {verb}" if idle else ""
    if engine.others:  # queues of these systems were not searched for
        sentence += "; queues of other systems are left alone unless they are named, or --system names theirs"
    elif alone:
        sentence += f"; queues of {', '.join(alone)} are left alone unless they are named, or --system names theirs"
    return f"{sentence}."


class _LoopQueues:
    """The queues that a dispatcher or reaper works on: the named ones, or all queues of the requested systems.

    New queues are searched for every 30 seconds. If the search fails it raises, and the loop backs off.
    """

    def __init__(self, engine: Engine, verb: str, names: Sequence[str]) -> None:
        self.verb, self.names = verb, names
        self._engine = engine
        self._due_s = 0.0
        self._named: list[Ref] = []
        self._reported: set[Ref] = set()

    def __call__(self) -> Sequence[Ref]:
        """Return the queues to work on. Searches for new queues first if 30 seconds have passed."""
        if time.monotonic() >= self._due_s:
            for _chunk in self._engine.discover() if not self.names or self._needs_queue_search() else ():
                pass
            self._named = [self._engine.resolve_or_discover(name) for name in self.names]
            self._due_s = time.monotonic() + DISCOVER_S
        for ref in self._named:
            self.check_queue(ref)
        return self._named or [ref for ref in self._engine.refs if self._is_queue_included(ref)]

    def _is_queue_included(self, ref: Ref) -> bool:
        """Return whether the loop works on a queue that was not named on the command line.

        A queue where the verb is denied is left out, and reported once.
        """
        if not self._engine.systems[ref.system].is_explicit:
            return False
        denial = self._engine.explain_denial(self.verb, ref)
        if denial and ref not in self._reported:
            self._reported.add(ref)
            output.print_message(f"{ref} is left alone: {denial}")
        return not denial

    def check_named_queues(self) -> None:
        """Raise UsageError or Refused if the loop cannot serve a named queue. Searches for names without a system."""
        for name in self.names:
            has_system = name.partition(":")[0] in self._engine.systems
            self.check_queue(self._engine.resolve(name) if has_system else self._engine.resolve_or_discover(name))

    def check_queue(self, ref: Ref) -> None:
        """Raise UsageError if a queue's system has no such loop, or Refused if the verb is denied."""
        system = self._engine.systems[ref.system]
        if not system.can(self.verb):
            raise UsageError(f"{ref}: no {self.verb} is needed in {system.name}; nothing waits for one.")
        self._engine.raise_if_refused(self.verb, ref)

    def _needs_queue_search(self) -> bool:
        """Return whether a search for queues also finds data that named queues need, such as their workers."""
        return any(system.is_explicit and system.needs_key_walk for system in self._engine.systems.values())


class Report:
    """A printer of what a dispatcher or reaper did: JSON lines or a table on stdout, and each error once on stderr."""

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
        """End the output on stdout. Subclasses print a last line here."""

    def __call__(self, finished_round: Round) -> None:
        """Print the result of one round of a dispatcher or reaper."""
        if finished_round.error:
            self._print_unless_repeated(
                "", self._session.format_retry_message(finished_round.error, finished_round.wait_s)
            )
            self._write_lines([self._line(None, queue, finished_round) for queue in self._list_named_queues()])
            return
        self._last_sentences.pop("", None)
        for step in finished_round.steps:
            self._print_unless_repeated(step.ref.queue, step.error and f"{step.ref.queue}: {step.error}")
        self._write_lines(
            [
                self._line(step, step.ref.queue, finished_round)
                for step in finished_round.steps
                if not step.error and (step.moved or self._every_step) and not self._is_unrequested_empty_step(step)
            ]
        )

    def _is_unrequested_empty_step(self, step: ScriptStep) -> bool:
        """Return whether a step belongs to an unrequested system and neither moved nor found a job."""
        return step.ref.system == self.unasked and not any(step.values.get(n) for n in ("moved", "scheduled", "ready"))

    def _list_named_queues(self) -> list[str]:
        return (
            list(self.refs.names) if self._session.as_json and self.refs else []
        )  # other queues cannot be found while Redis is away

    def _print_unless_repeated(self, key: str, sentence: str) -> None:
        """Print a sentence unless it was the last one printed under the same `key`."""
        if sentence and self._last_sentences.get(key) != sentence:
            output.print_message(sentence)
        self._last_sentences[key] = sentence

    def _write_lines(self, lines: Sequence[dict[str, Any]]) -> None:
        for line in lines:
            if self._session.as_json:
                output.write_json(line, is_stream=True)
            else:
                self._write_table_row(line)

    def _write_table_row(self, line: dict[str, Any]) -> None:
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
