"""Guard: the part of the app that knows whether changes are on, keeps the journal of them, and takes them back.

A read-only session can be unlocked for a while and locks itself again; any session can be locked. While it is locked
nothing is sent that changes a queue, and no loop runs. `z` undoes the last change made here; the journal holds all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.content import Content
from textual.timer import Timer

from rqtui import operations, server
from rqtui.model import Outcome, Ref
from rqtui.operations import Journal, Operation
from rqtui.tui import display, happened, keys
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from rqtui.engine import Engine
    from rqtui.tick import Answered
    from rqtui.tui.acts import Tally
    from rqtui.undo import Keeper

UNLOCKS = {"5m": 300.0, "15m": 900.0, "1h": 3600.0}
SHORT = 500  # jobs: an undo of more shows how far it is
_FAILED = ("error", "unknown", "not sent")


@dataclass(slots=True)
class Undoing:
    """An undo that goes on: of `total` jobs, a step after the other."""

    operation: Operation
    total: int
    then: Callable[[Answered], None]
    outcomes: list[Outcome] = field(default_factory=list)
    is_stopped: bool = False


class Guard(Part):
    """A mixin of the app."""

    journal: Journal
    keeper: Keeper | None
    _is_locked: bool
    _until_s: float  # by the clock on the wall, which goes on while a laptop sleeps; 0: for good
    _at_most_s = 0.0  # the same by the monotonic clock, which nobody sets back
    _undoing: Undoing | None
    _lock_timer: Timer | None = None

    def begin_session(self) -> None:
        """As the settings say; what another Redis was changed by is of no use here."""
        super().begin_session()
        app = self.cockpit
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
        self.keeper = engine.keeper = Keeper(folder, self.cockpit.settings.url)
        if self.keeper.problem:
            self.cockpit.say(f"Nothing can be undone: {self.keeper.problem}.", "warning")

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
        app, engine = self.cockpit, self.cockpit.engine
        if app.settings.read_only and not app.settings.may_unlock:
            app.say("This profile is read-only for good: its configuration says so.", "error")
            return
        if engine is None:
            app.say("Not connected yet.", "warning")
            return
        was_locked = self._is_locked
        self._is_locked, self._until_s = False, time.time() + UNLOCKS[name]
        self._at_most_s = time.monotonic() + UNLOCKS[name]
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
        app = self.cockpit
        if self._is_locked:
            return
        self._is_locked, self._until_s = True, 0.0
        if self._lock_timer is not None:
            self._lock_timer.stop()
            self._lock_timer = None
        if app.engine is not None:
            app.engine.read_only = True
        app.stop_changes()
        app.ticker.cancel()
        app.withdraw_loops()
        self.journal.note("lock", "", "", answers={"read-only": 1})
        app.say("Locked: this screen changes nothing now, and its loops are off.")
        self._show_mode()

    def _lock_in_time(self) -> None:
        if self._until_s and (time.time() >= self._until_s or time.monotonic() >= self._at_most_s):
            self.lock()

    def _show_mode(self) -> None:
        self.cockpit.show_header()
        self.cockpit.show_keys()
        self.cockpit.refresh_bindings()

    def commands_of_the_guard(self) -> Iterable[SystemCommand]:
        """What the palette has for this."""
        app = self.cockpit
        if app.settings.may_unlock or not app.settings.read_only:
            for name in UNLOCKS if app.settings.read_only or self._is_locked else ():
                yield SystemCommand(f"unlock {name}", "let changes through for so long", partial(self.unlock, name))
        if not self._is_locked:
            yield SystemCommand("lock now", "no more changes from this screen", self.lock)
        yield SystemCommand("export operations", "every change made here, as Markdown and JSON", self.export_operations)

    def note(self, tally: Tally, error: str, refs: Sequence[Ref]) -> None:
        """Writes down a change that is over: an entry per verb, be it of several queues, with its undo records."""
        told = self.keeper.told() if self.keeper else {}
        over = {key: told[key] for key in told if key[1] in refs and not self.cockpit.is_under_way(*key)}
        for verb in dict.fromkeys(verb for verb, _ref in over):
            done = {ref: each for (name, ref), each in over.items() if name == verb}
            first, *others = done
            records = [self._close_record(verb, ref.layout, ref.queue) for ref in done]
            ids = [id for each in done.values() for id in each.ids]
            answers = sum((each.answers for each in done.values()), Counter())
            count, names = sum(each.count for each in done.values()), [ref.queue for ref in others]
            self.journal.note(verb, first.queue, first.layout, ids, answers, error, records, count, names)
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
        app = self.cockpit
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

        app, keeper = self.cockpit, self.keeper
        if keeper is None or app.engine is None or app.lost:
            app.say("No changes now, so no undo either.", "warning")
            return

        def then(answered: Answered) -> None:
            if self._undoing is not going:
                return  # of another Redis, which was left meanwhile
            going.outcomes += answered.result or ()
            if answered.is_last:
                self._undone(going, answered.error)
            app.show_keys()

        self._undoing = going = Undoing(operation, operation.count, then)
        url = server.mask(app.settings.url)
        app.work(lambda engine: revert.all_reverted(engine, keeper.folder, operation.undo, url), then)
        app.show_keys()

    def stop_undo(self) -> bool:
        """Ends the undo after the step under way; `z` goes on with the rest. False where no long one goes on."""
        if self._undoing is None:
            return False
        self._undoing.is_stopped = True
        self.cockpit.ticker.end_work(self._undoing.then)
        return self._undoing.total > SHORT

    def undo_progress(self) -> Content | None:
        """How far the undo is; None where none goes on, or a short one."""
        going = self._undoing
        if going is None or going.total <= SHORT:
            return None
        done = display.count(len(going.outcomes), width=9) if going.outcomes else "0"
        words = f"undo of {going.operation.verb} {done} of {display.count(going.total, width=9)}"
        return Content.assemble((words, "$accented"), (keys.renamed("  Esc stops"), "$muted"))

    def _undone(self, going: Undoing, error: str) -> None:
        app, operation, outcomes = self.cockpit, going.operation, going.outcomes
        self._undoing = None
        if going.is_stopped and not error:
            error = keys.renamed("stopped: z goes on with the rest")
        jobs = [outcome.id for outcome in outcomes if outcome.id]
        answers = Counter(outcome.text for outcome in outcomes)
        queue, layout = operation.queue, operation.layout
        made = self.journal.note("undo", queue, layout, jobs, answers, error, others=operation.others)
        is_whole = not error and not any(outcome.word in _FAILED for outcome in outcomes)
        lacking = [outcome for outcome in outcomes if outcome.word == "no record"]
        if lacking and len(lacking) == len(outcomes):
            self.journal.without_undo(operation.undo)  # `z` goes on to the one before
        elif is_whole:
            self.journal.undone(*operation.undo)
        told = made.words() or "nothing was changed"
        is_good = is_whole and not lacking
        app.say(f"undo of {operation.verb} ({operation.where}): {told}", "information" if is_good else "error")
        app.changes.append(happened.Entry(time.time(), "undo", operation.where, display.safe(told)))
        for view in app.drawn_views():
            view.acted(jobs)
        app.ticker.refresh()
        app.look_again()

    # -- the journal --------------------------------------------------------------------------------------------------

    def export_operations(self) -> None:
        """Writes the journal of this session into the current folder, as Markdown and as JSON."""
        try:
            page, _data = operations.export(self.journal.operations, Path.cwd())
        except OSError as error:
            self.cockpit.say(f"The operations cannot be written here: {error.strerror or error}.", "error")
            return
        self.cockpit.say(f"Written: {page.name} and .json, in {page.parent}")

    def denial(self, verb: str, ref: Ref | None) -> str:
        """Why a verb is refused on a queue; empty where it is not."""
        engine = self.cockpit.engine
        return engine.denial(verb, ref) if engine and ref else ""


def _temporary() -> TemporaryDirectory[str]:
    """A folder that goes with the program: a demo's Redis is gone by then, too."""
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix="rqtui-")
