"""Loops: the dispatcher and the reaper of this screen, and for which queues they run.

Native queues are served from the start: their scripts are idempotent, so any number of loops may run. The queues of
other systems are served when a person says so (`,` and `.` on the queue), or from the start in a demo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rqtui.connection import connect
from rqtui.connection.meter import meter_of
from rqtui.model import Ref
from rqtui.reports.loops import LOOPS
from rqtui.text import formats
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop

IDLE = 30  # queues whose heads say nothing, looked at per round of a loop; the others have their turn
_DOES = {"dispatch": "falls due", "reap": "expires"}


class Loops:
    """The loops of a session: which run, and for which queues; with `serves_foreign` for all from the start."""

    def __init__(self, host: Host, session: Session, navigation: Navigation, *, serves_foreign: bool) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._serves_foreign = serves_foreign
        self._toggled: set[tuple[str, Ref | None]] = set()  # otherwise than it began; None: all native queues
        self._stepping: set[tuple[str, Ref | None]] = set()  # for one step

    def begin(self, engine: Engine) -> None:
        """Redis answers: the loops run, where this screen may change anything."""
        if self._session.is_read_only:
            return
        self._make(engine)
        for loop in self._session.loops.values():
            loop.start()

    def offer(self, engine: Engine) -> None:
        """Changes are on from now on: loops may run, and do when somebody starts them."""
        self._make(engine)
        self._toggled = {(verb, None) for verb in LOOPS}

    def withdraw(self) -> None:
        """Changes are off: no loop runs."""
        for loop in self._session.loops.values():
            loop.stop(0)
        self._session.loops.clear()

    def _make(self, engine: Engine) -> None:
        from rqtui.engine import loops
        from rqtui.engine.due_times import Heads

        heads = Heads(engine.layouts)
        engine.on_counted = heads.hear
        for verb, name in LOOPS.items():
            meter = meter_of(engine.client)
            client = connect.connect(self._session.settings.url, client_name=f"rqtui-{name}", meter=meter)

            self._session.loops[verb] = loops.Loop(
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
            return set(self._session.refs)
        snapshot = self._session.snapshot
        queues = snapshot.queues if snapshot else ()
        return {Ref(q.layout, q.name) for q in queues if (q.overdue if verb == "dispatch" else q.expired)}

    def is_served(self, verb: str, ref: Ref) -> bool:
        """Whether this screen's loop takes that queue along while it runs."""
        layout = self._session.layouts[ref.layout]
        begins = layout.loops_by_default or self._serves_foreign
        if not layout.can(verb) or self._session.denial(verb, ref):
            return False
        return begins != ((verb, self._key(ref)) in self._toggled)

    def _is_stepping(self, verb: str, ref: Ref) -> bool:
        if (verb, self._key(ref)) not in self._stepping or self._session.denial(verb, ref):
            return False
        return self._session.layouts[ref.layout].can(verb)

    def _key(self, ref: Ref | None) -> Ref | None:
        is_foreign = ref is not None and not self._session.layouts[ref.layout].loops_by_default
        return ref if is_foreign else None

    def shown(self) -> dict[str, tuple[Loop, bool]]:
        """The loops that mean something for the queue in focus, and whether each serves it."""
        ref = self._navigation.target().ref
        if ref is None or ref.layout not in self._session.layouts:
            return {verb: (loop, loop.is_running) for verb, loop in self._session.loops.items()}
        layout = self._session.layouts[ref.layout]
        return {
            verb: (loop, loop.is_running and self.is_served(verb, ref))
            for verb, loop in self._session.loops.items()
            if layout.can(verb)
        }

    def toggle(self, verb: str) -> None:
        """Stops or starts the dispatcher or the reaper: for all native queues, or for the foreign one in focus."""
        loop, ref = self._session.loops[verb], self._key(self._navigation.target().ref)
        if ref is not None and not self._session.layouts[ref.layout].can(verb):
            self._host.say(f"{ref.layout} needs no {LOOPS[verb]}.")
            return
        self._toggled ^= {(verb, ref)}
        where = f" for {ref.queue}" if ref else ""
        is_on = self.is_served(verb, ref) if ref is not None else (verb, None) not in self._toggled
        layout = ref.layout if ref else ""
        self._session.journal.note(LOOPS[verb], ref.queue if ref else "", layout, answers={"on" if is_on else "off": 1})
        others = any(self.is_served(verb, other) for other in self._session.refs if other != ref)
        if is_on or others:
            loop.start()
        else:
            loop.stop(0)
        if is_on:
            self._host.say(f"The {LOOPS[verb]} is on{where}.")
        else:
            words = f"The {LOOPS[verb]} of this screen is off{where}: what {_DOES[verb]} stays where it is."
            self._host.say(words, "warning")
        self._host.show_header()

    def step(self, verb: str) -> None:
        """One step of a loop, whether it runs or not, for what `toggle` would switch."""
        loop, key = self._session.loops[verb], (verb, self._key(self._navigation.target().ref))

        def run() -> None:
            self._stepping.add(key)
            done = loop.step()
            self._stepping.discard(key)
            words = done.error or f"{LOOPS[verb]}: {formats.count(done.moved) if done.moved else 'nothing'} moved"
            self._host.app.call_from_thread(self._host.say, words, "error" if done.error else "information")
            self._session.ticker.refresh()

        self._host.app.run_worker(run, thread=True, exclusive=False)
