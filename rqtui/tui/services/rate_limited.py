"""Rate-limited changes, or drips: runs one by a timer, shows how far it is, and stops it.

`operations/rate_limit` does the work and holds the brake; a step is asked of the engine's thread when the one before
was answered, so that a slow link makes fewer steps and never a queue of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer

from rqtui.engine import ticker
from rqtui.model import Job, Ref
from rqtui.operations.journal import Circumstances
from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.batches import Batches
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rqtui.engine.engine import Engine
    from rqtui.operations import rate_limit


@dataclass(slots=True)
class _Drip:
    """A drip that goes on."""

    verb: str
    refs: tuple[Ref, ...]
    chosen: Sequence[tuple[Ref, Sequence[Job]]]
    form: Mapping[str, object]
    place: str
    brake: rate_limit.Brake
    tally: Tally
    steps: Iterator[rate_limit.Step] | None = None
    last: rate_limit.Step | None = None
    is_waiting: bool = False
    is_stopped: bool = False
    timer: Timer | None = None

    def step(self, engine: Engine) -> rate_limit.Step | None:
        """The next step; on the engine's thread."""
        from rqtui.operations import rate_limit as drip

        if self.steps is None:
            self.steps = drip.steps(engine, self.verb, self.chosen, self.form, self.brake, place=self.place)
        return next(self.steps, None)


class RateLimited:
    """The drip of a session; one at a time."""

    def __init__(
        self, host: Host, session: Session, navigation: Navigation, batches: Batches, journal: SessionJournal
    ) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._batches, self._journal = batches, journal
        self._drip: _Drip | None = None

    def start(
        self,
        verb: str,
        chosen: Sequence[tuple[Ref, Sequence[Job]]],
        form: Mapping[str, object],
        brake: rate_limit.Brake,
        place: str,
        how: Circumstances,
    ) -> None:
        """Begins a drip, unless one goes on."""
        from rqtui.operations.rate_limit import EVERY_S

        if self._drip is not None:
            self._host.say(keys.renamed("A drip runs already: Esc stops it."), "warning")
            return
        refs = tuple(ref for ref, _jobs in chosen)
        self._drip = _Drip(verb, refs, chosen, form, place, brake, Tally(verb, refs[0]))
        for ref in refs:
            self._journal.coming(verb, ref, how)
        self._drip.timer = self._host.app.set_interval(EVERY_S, self._next_drop)
        self._next_drop()

    def _next_drop(self) -> None:
        going = self._drip
        if going is None or going.is_waiting:
            return
        going.is_waiting = True
        self._session.ask(going.step, lambda answered: self._dropped(going, answered))

    def _dropped(self, going: _Drip, answered: ticker.Answered) -> None:
        step: rate_limit.Step | None = answered.result
        if going is not self._drip:
            return  # it was ended meanwhile
        going.is_waiting = False
        if step is not None:
            going.tally.add([outcome for _ref, outcome in step.outcomes])
            going.last = step
            if step.outcomes:
                self._session.ticker.refresh()
        stopped = step.stopped if step is not None else answered.error or "it is over"
        if stopped or going.is_stopped:
            self._end(going, stopped, answered.error)
        self._host.show_keys()

    def stop(self) -> bool:
        """Ends the drip after the step under way; False where none goes on."""
        going = self._drip
        if going is None:
            return False
        going.is_stopped = True
        if going.timer:
            going.timer.stop()
        if not going.is_waiting:
            self._end(going, "", "")
        return True

    def _end(self, going: _Drip, stopped: str, error: str) -> None:
        if going.timer:
            going.timer.stop()
        self._drip = None
        if going.is_stopped and not stopped and going.last:
            stopped = f"stopped by {keys.key('back')} after {going.last.done} of {going.last.total}"
        if stopped.startswith("stopped"):
            self._journal.stopped(going.verb, going.refs, stopped)
            self._host.say(f"drip {going.verb}: {stopped}.", "warning", timeout=12)
        self._batches.tell(going.tally, error, going.refs)
        for view in self._navigation.drawn():
            view.acted(going.tally.ids)

    def progress(self) -> Content | None:
        """How far the drip is; None where none goes on."""
        going = self._drip
        if going is None:
            return None
        done, total = (going.last.done, going.last.total) if going.last else (0, 0)
        words = f"drip {going.verb} {formats.count(done)} of {formats.count(total)} · {formats.rate(going.brake.per_s)}"
        failures = going.last.failures if going.last else 0
        more = f" · {formats.count(failures)} failed" if failures else ""
        return Content.assemble((words + more, "$accented"), (keys.renamed("  Esc stops"), "$muted"))
