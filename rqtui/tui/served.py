"""Served: the part of the app that runs its dispatcher and reaper, and knows for which queues they do.

Native queues are served from the start: their scripts are idempotent, so any number of loops may run. The queues of
other systems are served when a person says so (`,` and `.` on the queue), or from the start in a demo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.content import Content

from rqtui import server
from rqtui.tui import display, help

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.loops import Loop
    from rqtui.model import Ref
    from rqtui.tui.app import Cockpit

LOOPS = {"dispatch": "dispatcher", "reap": "reaper"}
_DOES = {"dispatch": "falls due", "reap": "expires"}


class Served:
    """A mixin of the app."""

    loops: dict[str, Loop]
    _toggled: set[tuple[str, Ref | None]]  # otherwise than it began; None: all native queues
    _stepping: set[tuple[str, Ref | None]]  # for one step

    def _begin_serving(self, foreign_loops: bool) -> None:
        self.loops, self._foreign_loops = {}, foreign_loops
        self._toggled, self._stepping = set(), set()

    @property
    def _owner(self) -> Cockpit:
        return cast("Cockpit", self)

    def _make_loops(self, engine: Engine) -> None:
        from rqtui import loops

        if self._owner.settings.read_only:
            return
        for verb, name in LOOPS.items():
            client = server.connect(self._owner.settings.url, client_name=f"rqtui-{name}")

            def refs(verb: str = verb) -> list[Ref]:
                return [ref for ref in engine.refs if self.is_served(verb, ref) or self._is_stepping(verb, ref)]

            self.loops[verb] = loops.Loop(name, loops.mover(verb, client, engine.layouts, refs))
            self.loops[verb].start()

    def is_served(self, verb: str, ref: Ref) -> bool:
        """Whether this screen's loop takes that queue along while it runs."""
        layout = self._owner.layouts[ref.layout]
        begins = layout.loops_by_default or self._foreign_loops
        return layout.can(verb) and begins != ((verb, self._key(ref)) in self._toggled)

    def _is_stepping(self, verb: str, ref: Ref) -> bool:
        return (verb, self._key(ref)) in self._stepping and self._owner.layouts[ref.layout].can(verb)

    def _key(self, ref: Ref | None) -> Ref | None:
        is_foreign = ref is not None and not self._owner.layouts[ref.layout].loops_by_default
        return ref if is_foreign else None

    def shown_loops(self) -> dict[str, tuple[Loop, bool]]:
        """The loops that mean something for the queue in focus, and whether each serves it."""
        ref = self._owner.target().ref
        if ref is None or ref.layout not in self._owner.layouts:
            return {verb: (loop, loop.is_running) for verb, loop in self.loops.items()}
        layout = self._owner.layouts[ref.layout]
        return {
            verb: (loop, loop.is_running and self.is_served(verb, ref))
            for verb, loop in self.loops.items()
            if layout.can(verb)
        }

    def action_toggle_loop(self, verb: str) -> None:
        """Stops or starts the dispatcher or the reaper: for all native queues, or for the foreign one in focus."""
        loop, ref = self.loops[verb], self._key(self._owner.target().ref)
        if ref is not None and not self._owner.layouts[ref.layout].can(verb):
            self._owner.say(f"{ref.layout} needs no {LOOPS[verb]}.")
            return
        self._toggled ^= {(verb, ref)}
        where = f" for {ref.queue}" if ref else ""
        is_on = self.is_served(verb, ref) if ref is not None else (verb, None) not in self._toggled
        others = any(self.is_served(verb, other) for other in self._owner.refs if other != ref)
        if is_on or others:
            loop.start()
        else:
            loop.stop(0)
        if is_on:
            self._owner.say(f"The {LOOPS[verb]} is on{where}.")
        else:
            words = f"The {LOOPS[verb]} of this screen is off{where}: what {_DOES[verb]} stays where it is."
            self._owner.say(words, "warning")
        self._owner.show_header()

    def action_step_loop(self, verb: str) -> None:
        """One step of a loop, whether it runs or not, for what `action_toggle_loop` would switch."""
        loop, key = self.loops[verb], (verb, self._key(self._owner.target().ref))

        def step() -> None:
            self._stepping.add(key)
            done = loop.step()
            self._stepping.discard(key)
            words = done.error or f"{LOOPS[verb]}: {display.count(done.moved) if done.moved else 'nothing'} moved"
            self._owner.call_from_thread(self._owner.say, words, "error" if done.error else "information")
            self._owner.ticker.refresh()

        self._owner.run_worker(step, thread=True, exclusive=False)

    def action_loops(self) -> None:
        """What the loops did last."""
        off = Content("The loops are off: changes are not allowed here (--read-only).")
        ref = self._key(self._owner.target().ref)

        def states() -> dict[str, bool]:
            return {self.loops[verb].name: is_on for verb, (_loop, is_on) in self.shown_loops().items()}

        def page() -> Content:
            return help.loops_page(self.loops, ref.queue if ref else "", states()) if self.loops else off

        self._owner._show_page("loops", page)
