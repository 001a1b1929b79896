"""Runs a loop of the engine, dispatcher or reaper, in the foreground: what `dispatch` and `reap` share.

Both end on SIGTERM, SIGHUP and Ctrl+C after the step under way, and go on by themselves when Redis was away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from rqtui.cli import output
from rqtui.cli.logs import set_up_logging
from rqtui.cli.session import AWAY, DONE, REFUSED, Session
from rqtui.cli.signals import stopped_by_signals
from rqtui.errors import ServerError, UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Round, Step
    from rqtui.model import Ref

DISCOVER_S = 30.0  # how often new queues are looked for, when none was named
MOST = 1000
ONCE = Annotated[bool, typer.Option("--once", help="One batch, then exit.")]


def check_batch(given: int | None, option: str) -> None:
    """Raises UsageError for a number of jobs that one call cannot move."""
    if given is not None and not 1 <= given <= MOST:
        raise UsageError(f"{option} is a whole number from 1 to {MOST}.")


def run(
    session: Session,
    verb: str,
    queues: Sequence[str] | None,
    report: Report,
    *,
    limit: int | None,
    every_s: float | None = None,
    once: bool,
    args: dict[str, object] | None = None,
) -> int:
    """Runs the loop `verb` on queues until a signal ends it, or `once`; returns the exit code."""
    from rqtui.engine.due_times import LOOK_S
    from rqtui.engine.loops import Loop, mover

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
        if not any(step.ref.layout != report.unasked for step in done.steps) and not queues:
            output.say(_nobody(engine, verb, [layout.name for layout in able]))
        return REFUSED if any(step.error for step in done.steps if step.ref.layout != report.unasked) else DONE
    with stopped_by_signals(engine.client, command=verb) as stop:
        from rqtui.connection.connect import mask

        what = ", ".join(queues or ()) or f"all queues of {', '.join(layout.name for layout in able)}"
        output.say(f"{verb}: {what} at {mask(session.settings.url)}; Ctrl+C ends it.")
        others = [layout.name for layout in engine.layouts.values() if not layout.is_asked and layout.can(verb)]
        if others and not queues:
            output.say(f"queues of {', '.join(others)} are left alone unless they are named, or --layout names theirs.")
        loop.run(stop)
    return stop.code


def _nobody(engine: Engine, verb: str, able: Sequence[str]) -> str:
    """That no queue was there for the loop, and of the others that are, why they were left alone."""
    there = sorted({ref.layout for ref in engine.refs if ref.layout not in able})
    idle = [name for name in there if not engine.layouts[name].can(verb)]
    alone = [name for name in there if name not in idle]
    words = f"{verb}: no queue of {', '.join(able)} is here"
    words += f"; in {', '.join(idle)} nothing waits for a {verb}" if idle else ""
    if engine.others:  # they were not looked for
        words += "; queues of other systems are left alone unless they are named, or --layout names theirs"
    elif alone:
        words += f"; queues of {', '.join(alone)} are left alone unless they are named, or --layout names theirs"
    return f"{words}."


class _Wanted:
    """The queues that were named, or all that there are of the layouts that were asked for.

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
            for _chunk in self._engine.discover() if not self.names or self._learns() else ():
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

    def _learns(self) -> bool:
        """Whether a look for queues tells more than their names: who works on those that were named."""
        return any(layout.is_asked and layout.learns_by_walk for layout in self._engine.layouts.values())


class Report:
    """Writes the rounds of a loop: JSON lines, or a table whose titles come first; errors once each on stderr."""

    def __init__(
        self,
        session: Session,
        line: Callable[[Step | None, str, Round], dict[str, Any]],
        titles: Sequence[str],
        every_step: bool,
        unasked: str = "",
    ) -> None:
        """`unasked` is a layout that is served though nobody named it: its queues are told once they hold something."""
        self._session, self._line, self._titles, self._every_step = session, line, titles, every_step
        self._said: dict[str, str] = {}
        self._is_headed = False
        self.refs: _Wanted | None = None
        self.unasked = unasked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what was begun on stdout."""

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
                if not step.error and (step.moved or self._every_step) and not self._is_nothing(step)
            ]
        )

    def _is_nothing(self, step: Step) -> bool:
        return step.ref.layout == self.unasked and not any(step.values.get(n) for n in ("moved", "scheduled", "ready"))

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
        from rqtui.text.formats import fit
        from rqtui.text.sanitise import safe

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
