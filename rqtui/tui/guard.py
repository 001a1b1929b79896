"""Guard: the part of the app that knows whether changes are on, keeps the journal of them, and takes them back.

A read-only session can be unlocked for a while and locks itself again; any session can be locked. While it is locked
nothing is sent that changes a queue, and no loop runs. `z` undoes the last change made here; the journal holds all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.app import SystemCommand
from textual.timer import Timer

from rqtui import operations
from rqtui.model import Outcome, Ref
from rqtui.operations import Journal, Operation
from rqtui.tui import display, happened, keys

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from rqtui.engine import Engine
    from rqtui.tick import Answered
    from rqtui.tui.acts import Tally
    from rqtui.tui.app import Cockpit
    from rqtui.undo import Keeper

UNLOCKS = {"5m": 300.0, "15m": 900.0, "1h": 3600.0}
_FAILED = ("error", "unknown", "not sent")


class Guard:
    """A mixin of the app."""

    journal: Journal
    keeper: Keeper | None
    _is_locked: bool
    _until_s: float  # by the clock on the wall, which goes on while a laptop sleeps; 0: for good
    _undoing: Operation | None
    _lock_timer: Timer | None = None

    @property
    def _guarded(self) -> Cockpit:
        return cast("Cockpit", self)

    def _begin_guard(self) -> None:
        """Called before anything is asked, and again for another Redis."""
        app = self._guarded
        self._is_locked, self._until_s, self._undoing, self.keeper = app.settings.read_only, 0.0, None, None
        if self._lock_timer is not None:
            self._lock_timer.stop()
        self._lock_timer = None
        self._folder_of_demo = _temporary() if app.demo else None
        folder = None if app.demo else operations.state_folder()
        self.journal = Journal(folder, app.settings.url, app.settings.profile, self._close_record)

    def guard_engine(self, engine: Engine) -> None:
        """What this session changes through that engine is kept from now on."""
        from rqtui.undo import Keeper

        if self.is_read_only:
            return
        demo = self._folder_of_demo
        folder = Path(demo.name) if demo else operations.state_folder()
        self.keeper = engine.keeper = Keeper(folder, self._guarded.settings.url)
        if self.keeper.problem:
            self._guarded.say(f"Nothing can be undone: {self.keeper.problem}.", "warning")

    def _close_record(self, verb: str, layout: str, queue: str) -> str:
        return self.keeper.close(verb, layout, queue) if self.keeper else ""

    # -- locked and unlocked ------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be changed now."""
        return self._is_locked

    def mode_words(self) -> str:
        """`read-only`, `write`, or `write until 04:12`."""
        if self._is_locked:
            return "read-only"
        return f"write until {display.clock(self._until_s * 1000)[:5]}" if self._until_s else "write"

    def unlock(self, name: str) -> None:
        """Lets changes through for so long (a name of UNLOCKS), from now on."""
        app, engine = self._guarded, self._guarded.engine
        if app.settings.read_only and not app.settings.may_unlock:
            app.say("This profile is read-only for good: its configuration says so.", "error")
            return
        if engine is None:
            app.say("Not connected yet.", "warning")
            return
        was_locked = self._is_locked
        self._is_locked, self._until_s = False, time.time() + UNLOCKS[name]
        engine.read_only = False
        if was_locked:
            self.guard_engine(engine)
            app.offer_loops(engine)
        if self._lock_timer is None:
            self._lock_timer = app.set_interval(0.5, self._lock_in_time)
        until = self.mode_words()
        self.journal.note("unlock", "", "", answers={until: 1})
        starts = f"{keys.key('dispatcher')} or {keys.key('reaper')}"
        app.say(f"Changes are on: {until}. The loops stay off until {starts} starts them.", "warning")
        self._show_mode()

    def lock(self) -> None:
        """No more changes from now on; what was sent is answered."""
        app = self._guarded
        if self._is_locked:
            return
        self._is_locked, self._until_s = True, 0.0
        if self._lock_timer is not None:
            self._lock_timer.stop()
            self._lock_timer = None
        if app.engine is not None:
            app.engine.read_only = True
        app.ticker.cancel()
        app.withdraw_loops()
        self.journal.note("lock", "", "", answers={"read-only": 1})
        app.say("Locked: this screen changes nothing now, and its loops are off.")
        self._show_mode()

    def _lock_in_time(self) -> None:
        if self._until_s and time.time() >= self._until_s:
            self.lock()

    def _show_mode(self) -> None:
        self._guarded.show_header()
        self._guarded.show_keys()
        self._guarded.refresh_bindings()

    def commands_of_the_guard(self) -> Iterable[SystemCommand]:
        """What the palette has for this."""
        app = self._guarded
        if app.settings.may_unlock or not app.settings.read_only:
            for name in UNLOCKS if app.settings.read_only or self._is_locked else ():
                yield SystemCommand(f"unlock {name}", "let changes through for so long", partial(self.unlock, name))
        if not self._is_locked:
            yield SystemCommand("lock now", "no more changes from this screen", self.lock)
        yield SystemCommand("export operations", "every change made here, as Markdown and JSON", self.export_operations)

    def note(self, tally: Tally, error: str, refs: Sequence[Ref]) -> None:
        """Writes down a change that is over: an entry per verb and queue, with its undo record."""
        told = self.keeper.told() if self.keeper else {}
        over = {key: told[key] for key in told if key[1] in refs and not self._guarded._open.get(key)}
        for (verb, ref), each in over.items():
            self.journal.note(verb, ref.queue, ref.layout, each.ids, each.answers, error, count=each.count)
        if not over:
            ref = tally.ref
            self.journal.note(tally.verb, ref.queue, ref.layout, sorted(tally.ids), tally.words, error)

    @property
    def can_undo(self) -> bool:
        """Whether `z` would find a change of this session."""
        return not self._is_locked and any(each.undo and not each.undone_at_ms for each in self.journal.operations)

    # -- undo ---------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Takes back the last change made here, or the one under the cursor."""
        app = self._guarded
        pick: Callable[[], Operation | None] | None = getattr(app.view, "picked", None)
        able = (each for each in self.journal.operations if each.undo and not each.undone_at_ms)
        operation = pick() if pick else next(able, None)
        if operation is None:
            app.say("Nothing to undo: no change was made here that has an undo.")
        elif operation.undone_at_ms:
            app.say(f"{operation.verb} was undone already.")
        elif not operation.undo:
            app.say(f"{operation.verb} has no undo.")
        elif self._undoing is not None:
            app.say("An undo is under way.")
        else:
            self.undo(operation)

    def undo(self, operation: Operation) -> None:
        """Takes a change back; what became of it is told and written down."""
        from rqtui import revert

        app, keeper = self._guarded, self.keeper
        if keeper is None or app.engine is None or app.lost:
            app.say("No changes now, so no undo either.", "warning")
            return
        self._undoing = operation
        got: list[Outcome] = []

        def then(answered: Answered) -> None:
            got.extend(answered.result or ())
            if answered.is_last:
                self._undone(operation, got, answered.error)

        app.work(lambda engine: revert.reverted(engine, keeper.folder, operation.undo), then)

    def _undone(self, operation: Operation, outcomes: list[Outcome], error: str) -> None:
        app = self._guarded
        self._undoing = None
        jobs = [outcome.id for outcome in outcomes if outcome.id]
        answers = Counter(outcome.text for outcome in outcomes)
        made = self.journal.note("undo", operation.queue, operation.layout, jobs, answers, error)
        is_whole = not error and not any(outcome.word in _FAILED for outcome in outcomes)
        if is_whole:
            self.journal.undone(operation.undo)
        told = made.words() or "nothing was changed"
        app.say(f"undo of {operation.verb} ({operation.queue}): {told}", "information" if is_whole else "error")
        app.changes.append(happened.Entry(time.time(), "undo", operation.queue, display.safe(told)))
        for view in app._views():
            view.acted(jobs)
        app.ticker.refresh()
        app.look_again()

    # -- the journal --------------------------------------------------------------------------------------------------

    def export_operations(self) -> None:
        """Writes the journal of this session into the current folder, as Markdown and as JSON."""
        try:
            page, _data = operations.export(self.journal.operations, Path.cwd())
        except OSError as error:
            self._guarded.say(f"The operations cannot be written here: {error.strerror or error}.", "error")
            return
        self._guarded.say(f"Written: {page.name} and .json, in {page.parent}")

    def denial(self, verb: str, ref: Ref | None) -> str:
        """Why a verb is refused on a queue; empty where it is not."""
        engine = self._guarded.engine
        return engine.denial(verb, ref) if engine and ref else ""


def _temporary() -> TemporaryDirectory[str]:
    """A folder that goes with the program: a demo's Redis is gone by then, too."""
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix="rqtui-")
