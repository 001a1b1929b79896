"""Dripping: the part of the app that runs a drip by a timer, shows how far it is, and stops it.

`rqtui.drip` does the work and holds the brake; a step is asked of the engine's thread when the one before was
answered, so that a slow link makes fewer steps and never a queue of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer

from rqtui import tick
from rqtui.model import Job, Ref
from rqtui.tui import acts, display, keys
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rqtui import drip
    from rqtui.engine import Engine


@dataclass(slots=True)
class _Drip:
    """A drip that goes on."""

    verb: str
    refs: tuple[Ref, ...]
    chosen: Sequence[tuple[Ref, Sequence[Job]]]
    form: Mapping[str, object]
    place: str
    brake: drip.Brake
    tally: acts.Tally
    steps: Iterator[drip.Step] | None = None
    last: drip.Step | None = None
    is_waiting: bool = False
    is_stopped: bool = False
    timer: Timer | None = None

    def step(self, engine: Engine) -> drip.Step | None:
        """The next step; on the engine's thread."""
        from rqtui import drip

        if self.steps is None:
            self.steps = drip.steps(engine, self.verb, self.chosen, self.form, self.brake, place=self.place)
        return next(self.steps, None)


class Dripping(Part):
    """A mixin of the app."""

    _drip: _Drip | None

    def begin_session(self) -> None:
        """No drip goes on."""
        super().begin_session()
        self._drip = None

    def start_drip(
        self,
        verb: str,
        chosen: Sequence[tuple[Ref, Sequence[Job]]],
        form: Mapping[str, object],
        brake: drip.Brake,
        place: str = "",
    ) -> None:
        """Begins a drip; one at a time."""
        from rqtui.drip import EVERY_S

        if self._drip is not None:
            self.cockpit.say(keys.renamed("A drip is going on already: Esc stops it."), "warning")
            return
        refs = tuple(ref for ref, _jobs in chosen)
        self._drip = _Drip(verb, refs, chosen, form, place, brake, acts.Tally(verb, refs[0]))
        self._drip.timer = self.cockpit.set_interval(EVERY_S, self._next_drop)
        self._next_drop()

    def _next_drop(self) -> None:
        going = self._drip
        if going is None or going.is_waiting:
            return
        going.is_waiting = True
        self.cockpit.ask(going.step, lambda answered: self._dropped(going, answered))

    def _dropped(self, going: _Drip, answered: tick.Answered) -> None:
        step: drip.Step | None = answered.result
        if going is not self._drip:
            return  # of another Redis, which was left meanwhile
        going.is_waiting = False
        if step is not None:
            going.tally.add([outcome for _ref, outcome in step.outcomes])
            going.last = step
            if step.outcomes:
                self.cockpit.ticker.refresh()
        stopped = step.stopped if step is not None else answered.error or "it is over"
        if stopped or going.is_stopped:
            self._end_drip(going, stopped, answered.error)
        self.cockpit.show_keys()

    def stop_drip(self) -> bool:
        """Ends the drip after the step under way; False where none goes on."""
        going = self._drip
        if going is None:
            return False
        going.is_stopped = True
        if going.timer:
            going.timer.stop()
        if not going.is_waiting:
            self._end_drip(going, "", "")
        return True

    def _end_drip(self, going: _Drip, stopped: str, error: str) -> None:
        if going.timer:
            going.timer.stop()
        self._drip = None
        if going.is_stopped and not stopped and going.last:
            stopped = f"stopped by {keys.key('back')} after {going.last.done} of {going.last.total}"
        if stopped.startswith("stopped"):
            self.cockpit.say(f"drip {going.verb}: {stopped}.", "warning", timeout=12)
        self.cockpit.tell(going.tally, error, going.refs)
        for view in self.cockpit.drawn_views():
            view.acted(going.tally.ids)

    def drip_progress(self) -> Content | None:
        """How far the drip is; None where none goes on."""
        going = self._drip
        if going is None:
            return None
        done, total = (going.last.done, going.last.total) if going.last else (0, 0)
        words = f"drip {going.verb} {display.count(done)} of {display.count(total)} · {display.rate(going.brake.per_s)}"
        failures = going.last.failures if going.last else 0
        more = f" · {display.count(failures)} failed" if failures else ""
        return Content.assemble((words + more, "$accented"), (keys.renamed("  Esc stops"), "$muted"))
