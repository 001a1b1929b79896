"""Run the dispatcher and the reaper (the loops) of this screen, and choose the queues they serve.

Native queues are served from the start, because their scripts are idempotent and any number of loops may run. Queues of
other systems are served when a person enables them (`,` and `.` on the queue), or from the start in a demo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rqtui.connection import connect
from rqtui.connection.meter import find_client_meter
from rqtui.model import Ref
from rqtui.reports.loops import LOOPS
from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop

MAX_IDLE_PER_ROUND = 30  # queues without a known due time that a loop reads per round, in turn
_TRIGGERS = {"dispatch": "falls due", "reap": "expires"}
_MOVED_JOBS = {"dispatch": "due job", "reap": "expired lease"}


class Loops:
    """The dispatcher and reaper of a session. With `serves_foreign` they serve queues of all systems from the start."""

    def __init__(self, host: Host, session: Session, navigation: Navigation, *, serves_foreign: bool) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._serves_foreign = serves_foreign
        # Loops switched from their initial state; None: all native queues.
        self._toggled: set[tuple[str, Ref | None]] = set()
        self._stepping: set[tuple[str, Ref | None]] = set()  # loops that run a single requested step
        self._announced: set[str] = set()  # loops whose first moved jobs were shown

    def start_loops(self, engine: Engine) -> None:
        """Create and start dispatcher and reaper after the first connection, unless the session is read-only."""
        if self._session.is_read_only:
            return
        self._create_loops(engine)
        for loop in self._session.loops.values():
            loop.start()

    def announce_first_moves(self) -> None:
        """Show once for each loop that it moved jobs: a person who only opened the screen has changed the queues.

        A demo moves jobs all the time, and shows them elsewhere.
        """
        if self._session.demo:
            return
        for verb, loop in self._session.loops.items():
            moved = 0 if verb in self._announced else sum(loop_round.moved for loop_round in list(loop.rounds))
            if moved:
                self._announced.add(verb)
                jobs = formats.format_quantity(moved, _MOVED_JOBS[verb])
                key = keys.find_current_key(LOOPS[verb])
                self._host.show_toast(f"The {LOOPS[verb]} of this screen is on and moved {jobs}; {key} stops it.")

    def create_loops_after_unlock(self, engine: Engine) -> None:
        """Create the dispatcher and the reaper after changes were unlocked.

        They serve no native queue until a person starts them.
        """
        self._create_loops(engine)
        self._toggled = {(verb, None) for verb in LOOPS}

    def stop_loops(self) -> None:
        """Stop and remove the dispatcher and the reaper, because changes are locked."""
        for loop in self._session.loops.values():
            loop.stop(0)
        self._session.loops.clear()

    def _create_loops(self, engine: Engine) -> None:
        """Create the dispatcher and the reaper of this screen, each with its own connection."""
        from rqtui.engine import loops
        from rqtui.engine.due_times import DueTimes

        due_times = DueTimes(engine.systems)
        engine.on_snapshot_counts = due_times.use_snapshot_counts
        for verb, name in LOOPS.items():
            meter = find_client_meter(engine.client)
            client = connect.connect(self._session.settings.url, client_name=f"rqtui-{name}", meter=meter)

            self._session.loops[verb] = loops.Loop(
                name,
                loops.build_round(
                    verb,
                    client,
                    engine.systems,
                    self._create_queue_lister(verb, engine),
                    max_idle=MAX_IDLE_PER_ROUND,
                    urgent_refs=partial(self._find_urgent_queues, verb),
                    due_times=due_times,
                ),
                on_stop=client.close,
            )

    def _create_queue_lister(self, verb: str, engine: Engine) -> Callable[[], list[Ref]]:
        """Return a function that lists the queues of a loop.

        The list is cached, because the function is called once a second.
        """
        served_refs: list[Ref] = []
        previous_refs: list[Ref] | None = None
        previous_state: tuple[object, ...] = ()

        def list_queues_of_loop() -> list[Ref]:
            nonlocal served_refs, previous_refs, previous_state
            refs, state = engine.refs, (frozenset(self._toggled), frozenset(self._stepping))
            # The engine replaces the list of queues and never changes it in place.
            if refs is not previous_refs or state != previous_state:
                served_refs = [ref for ref in refs if self.is_served(verb, ref) or self._is_step_requested(verb, ref)]
                previous_refs, previous_state = refs, state
            return served_refs

        return list_queues_of_loop

    def _find_urgent_queues(self, verb: str) -> set[Ref]:
        """Return the queues of the last snapshot with work for a loop, or all queues during a requested single step."""
        if any(stepping_verb == verb for stepping_verb, _ref in self._stepping):
            return set(self._session.refs)
        snapshot = self._session.snapshot
        queues = snapshot.queues if snapshot else ()
        return {
            Ref(queue.system, queue.name)
            for queue in queues
            if (queue.overdue if verb == "dispatch" else queue.expired)
        }

    def is_served(self, verb: str, ref: Ref) -> bool:
        """Return whether this screen's dispatcher or reaper serves that queue while it runs."""
        system = self._session.systems[ref.system]
        is_served_from_start = system.loops_by_default or self._serves_foreign
        if not system.can(verb) or self._session.explain_denial(verb, ref):
            return False
        return is_served_from_start != ((verb, self._find_foreign_queue(ref)) in self._toggled)

    def _is_step_requested(self, verb: str, ref: Ref) -> bool:
        """Return whether a person requested a single step of a loop for that queue, and its system allows it."""
        if (verb, self._find_foreign_queue(ref)) not in self._stepping or self._session.explain_denial(verb, ref):
            return False
        return self._session.systems[ref.system].can(verb)

    def _find_foreign_queue(self, ref: Ref | None) -> Ref | None:
        """Return the given queue if it belongs to another system than the native one, else None."""
        is_foreign = ref is not None and not self._session.systems[ref.system].loops_by_default
        return ref if is_foreign else None

    def list_shown_loops(self) -> dict[str, tuple[Loop, bool]]:
        """Return the dispatcher and the reaper as {verb: (loop, whether it serves the current queue now)}.

        A loop that cannot serve the current queue is left out.
        """
        ref = self._navigation.find_target().ref
        if ref is None or ref.system not in self._session.systems:
            return {verb: (loop, loop.is_running) for verb, loop in self._session.loops.items()}
        system = self._session.systems[ref.system]
        return {
            verb: (loop, loop.is_running and self.is_served(verb, ref))
            for verb, loop in self._session.loops.items()
            if system.can(verb)
        }

    def toggle_loop(self, verb: str) -> None:
        """Stop or start the dispatcher or the reaper for all native queues.

        If the current queue is of another system, the loop is stopped or started for that queue only.
        """
        loop, ref = self._session.loops[verb], self._find_foreign_queue(self._navigation.find_target().ref)
        if ref is not None and not self._session.systems[ref.system].can(verb):
            self._host.show_toast(f"{ref.system} needs no {LOOPS[verb]}.")
            return
        self._toggled ^= {(verb, ref)}
        scope = f" for {ref.queue}" if ref else ""
        is_on = self.is_served(verb, ref) if ref is not None else (verb, None) not in self._toggled
        system = ref.system if ref else ""
        self._session.journal.record_change(
            LOOPS[verb], ref.queue if ref else "", system, answers={"on" if is_on else "off": 1}
        )
        serves_others = any(self.is_served(verb, other) for other in self._session.refs if other != ref)
        if is_on or serves_others:
            loop.start()
        else:
            loop.stop(0)
        if is_on:
            self._host.show_toast(f"The {LOOPS[verb]} is on{scope}.")
        else:
            warning = f"The {LOOPS[verb]} of this screen is off{scope}: what {_TRIGGERS[verb]} stays where it is."
            self._host.show_toast(warning, "warning")
        self._host.show_header()

    def run_loop_step(self, verb: str) -> None:
        """Run one step of the dispatcher or the reaper, even if it is stopped, for the current queue."""
        loop, key = self._session.loops[verb], (verb, self._find_foreign_queue(self._navigation.find_target().ref))

        def run_step_in_thread() -> None:
            self._stepping.add(key)
            loop_round = loop.step()
            self._stepping.discard(key)
            result = (
                loop_round.error
                or f"{LOOPS[verb]}: {formats.format_count(loop_round.moved) if loop_round.moved else 'nothing'} moved"
            )
            self._host.app.call_from_thread(
                self._host.show_toast, result, "error" if loop_round.error else "information"
            )
            self._session.ticker.request_refresh()

        self._host.app.run_worker(run_step_in_thread, thread=True, exclusive=False)
