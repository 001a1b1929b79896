"""Served: the part of the app that runs its dispatcher and reaper, and knows for which queues they do.

Native queues are served from the start: their scripts are idempotent, so any number of loops may run. The queues of
other systems are served when a person says so (`,` and `.` on the queue), or from the start in a demo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rqtui import server
from rqtui.model import Ref
from rqtui.reports.loops import LOOPS
from rqtui.tui import display
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.loops import Loop

IDLE = 30  # queues whose heads say nothing, looked at per round of a loop; the others have their turn
_DOES = {"dispatch": "falls due", "reap": "expires"}


class Served(Part):
    """A mixin of the app."""

    loops: dict[str, Loop]
    serves_foreign: bool  # from the start
    _toggled: set[tuple[str, Ref | None]]  # otherwise than it began; None: all native queues
    _stepping: set[tuple[str, Ref | None]]  # for one step

    def begin_session(self) -> None:
        """No loop runs, until there is a connection."""
        super().begin_session()
        self.loops = {}
        self._toggled, self._stepping = set(), set()

    def begin_loops(self, engine: Engine) -> None:
        """There is a connection: they run, where this screen may change anything."""
        if self.cockpit.is_read_only:
            return
        self._new_loops(engine)
        for loop in self.loops.values():
            loop.start()

    def offer_loops(self, engine: Engine) -> None:
        """Changes are on from now on: loops may run, and do when somebody starts them."""
        self._new_loops(engine)
        self._toggled = {(verb, None) for verb in LOOPS}

    def withdraw_loops(self) -> None:
        """Changes are off: no loop runs."""
        for loop in self.loops.values():
            loop.stop(0)
        self.loops.clear()

    def _new_loops(self, engine: Engine) -> None:
        from rqtui import loops
        from rqtui.heads import Heads

        heads = Heads(engine.layouts)
        for verb, name in LOOPS.items():
            client = server.connect(self.cockpit.settings.url, client_name=f"rqtui-{name}")

            self.loops[verb] = loops.Loop(
                name,
                loops.mover(
                    verb,
                    client,
                    engine.layouts,
                    self._refs_of(verb, engine),
                    most_idle=IDLE,
                    urgent=partial(self._late, verb),
                    heads=heads,
                ),
                rest=client.close,
            )

    def _refs_of(self, verb: str, engine: Engine) -> Callable[[], list[Ref]]:
        """What names the queues of a loop, made anew only when something changed: it is asked once a second."""
        made: list[Ref] = []
        among: list[Ref] | None = None
        of: tuple[object, ...] = ()

        def refs() -> list[Ref]:
            nonlocal made, among, of
            known, now = engine.refs, (frozenset(self._toggled), frozenset(self._stepping))
            if known is not among or now != of:  # the list is replaced when there are others, never changed
                made = [ref for ref in known if self.is_served(verb, ref) or self._is_stepping(verb, ref)]
                among, of = known, now
            return made

        return refs

    def _late(self, verb: str) -> set[Ref]:
        """The queues of the last picture in which a loop has work; all of them, for a step that a person asked for."""
        if any(stepped == verb for stepped, _ref in self._stepping):
            return set(self.cockpit.refs)
        snapshot = self.cockpit.snapshot
        queues = snapshot.queues if snapshot else ()
        return {Ref(q.layout, q.name) for q in queues if (q.overdue if verb == "dispatch" else q.expired)}

    def is_served(self, verb: str, ref: Ref) -> bool:
        """Whether this screen's loop takes that queue along while it runs."""
        layout = self.cockpit.layouts[ref.layout]
        begins = layout.loops_by_default or self.serves_foreign
        if not layout.can(verb) or self.cockpit.denial(verb, ref):
            return False
        return begins != ((verb, self._key(ref)) in self._toggled)

    def _is_stepping(self, verb: str, ref: Ref) -> bool:
        if (verb, self._key(ref)) not in self._stepping or self.cockpit.denial(verb, ref):
            return False
        return self.cockpit.layouts[ref.layout].can(verb)

    def _key(self, ref: Ref | None) -> Ref | None:
        is_foreign = ref is not None and not self.cockpit.layouts[ref.layout].loops_by_default
        return ref if is_foreign else None

    def shown_loops(self) -> dict[str, tuple[Loop, bool]]:
        """The loops that mean something for the queue in focus, and whether each serves it."""
        ref = self.cockpit.target().ref
        if ref is None or ref.layout not in self.cockpit.layouts:
            return {verb: (loop, loop.is_running) for verb, loop in self.loops.items()}
        layout = self.cockpit.layouts[ref.layout]
        return {
            verb: (loop, loop.is_running and self.is_served(verb, ref))
            for verb, loop in self.loops.items()
            if layout.can(verb)
        }

    def action_toggle_loop(self, verb: str) -> None:
        """Stops or starts the dispatcher or the reaper: for all native queues, or for the foreign one in focus."""
        loop, ref = self.loops[verb], self._key(self.cockpit.target().ref)
        if ref is not None and not self.cockpit.layouts[ref.layout].can(verb):
            self.cockpit.say(f"{ref.layout} needs no {LOOPS[verb]}.")
            return
        self._toggled ^= {(verb, ref)}
        where = f" for {ref.queue}" if ref else ""
        is_on = self.is_served(verb, ref) if ref is not None else (verb, None) not in self._toggled
        layout = ref.layout if ref else ""
        self.cockpit.journal.note(LOOPS[verb], ref.queue if ref else "", layout, answers={"on" if is_on else "off": 1})
        others = any(self.is_served(verb, other) for other in self.cockpit.refs if other != ref)
        if is_on or others:
            loop.start()
        else:
            loop.stop(0)
        if is_on:
            self.cockpit.say(f"The {LOOPS[verb]} is on{where}.")
        else:
            words = f"The {LOOPS[verb]} of this screen is off{where}: what {_DOES[verb]} stays where it is."
            self.cockpit.say(words, "warning")
        self.cockpit.show_header()

    def action_step_loop(self, verb: str) -> None:
        """One step of a loop, whether it runs or not, for what `action_toggle_loop` would switch."""
        loop, key = self.loops[verb], (verb, self._key(self.cockpit.target().ref))

        def step() -> None:
            self._stepping.add(key)
            done = loop.step()
            self._stepping.discard(key)
            words = done.error or f"{LOOPS[verb]}: {display.count(done.moved) if done.moved else 'nothing'} moved"
            self.cockpit.call_from_thread(self.cockpit.say, words, "error" if done.error else "information")
            self.cockpit.ticker.refresh()

        self.cockpit.run_worker(step, thread=True, exclusive=False)
