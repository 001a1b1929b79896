"""Session journal: writes down what this screen changes, and keeps what an undo needs.

A change is an entry of the journal once all answers to it are there, with the records that were kept of its jobs; the
journal itself is `operations.journal`, the records are `operations.undo`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.config.state_folder import state_folder
from rqtui.engine.ticker import Answered
from rqtui.model import Queue, Ref
from rqtui.operations.journal import Circumstances, Operation
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session
from rqtui.verbs import Field

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.tui.widgets.dialogs import Given


class SessionJournal:
    """The notes of a session."""

    def __init__(self, host: Host, session: Session) -> None:
        self._host, self._session = host, session
        self._was_asked = False  # why

    def keep(self, engine: Engine) -> None:
        """What this session changes through that engine is kept from now on, so that it can be undone."""
        from rqtui.operations.undo import Keeper

        session = self._session
        session.ask(lambda _engine: session.journal.settle(), self._tell_of_the_past)
        if session.is_read_only:
            return
        session.keeper = engine.keeper = Keeper(self._folder(), session.settings.url, session.journal)
        if session.keeper.problem:
            self._host.say(f"Nothing can be undone: {session.keeper.problem}.", "warning")

    def _tell_of_the_past(self, answered: Answered) -> None:
        """Changes that an earlier session was killed in."""
        for cut in answered.result or ():
            self._host.say(f"A change {cut.cut_words()}; {keys.of('operations', 'o')} shows it.", "warning", timeout=20)

    def _folder(self) -> Path:
        """That of a demo goes with its Redis, however the program ends."""
        demo = self._session.demo
        return Path(demo.folder) if demo and demo.folder else state_folder()

    def coming(self, verb: str, ref: Ref, how: Circumstances) -> None:
        """A change is sent now; what is known of it goes into its note."""
        snapshot = self._session.snapshot
        queue = snapshot.queue(ref) if snapshot else None
        before = _counts([queue]) if queue else {}
        told = replace(how, began_ms=int(time.time() * 1000), before=before)
        self._session.journal.coming(verb, ref.queue, ref.layout, told)

    def stopped(self, verb: str, refs: Iterable[Ref], words: str) -> None:
        """A change was stopped on the way; `words` say by what, after how many."""
        for ref in refs:
            self._session.journal.stopped(verb, ref.queue, ref.layout, words)

    def _count(self, operation: Operation, refs: Sequence[Ref]) -> None:
        """Counts what stands there now that the change is over, and adds it to the note."""
        session = self._session

        def count(engine: Engine) -> list[Queue]:
            return engine.ask_all([engine.layouts[ref.layout].queue_ask(ref.queue) for ref in refs])

        def counted(answered: Answered) -> None:
            if answered.result:
                session.journal.counted(operation, _counts(answered.result))

        session.ask(count, counted)

    def note(self, tally: Tally, error: str, refs: Sequence[Ref], is_under_way: Callable[[str, Ref], bool]) -> None:
        """Writes down a change that is over: an entry per verb, be it of several queues, with its undo records.

        Of a verb that `is_under_way` on a queue once more the record goes on.
        """
        session, made = self._session, self._session.journal
        told = session.keeper.told() if session.keeper else {}
        over = {key: told[key] for key in told if key[1] in refs and not is_under_way(*key)}
        for verb in dict.fromkeys(verb for verb, _ref in over):
            done = {ref: each for (name, ref), each in over.items() if name == verb}
            first, *others = done
            records = [session.close_record(verb, ref.layout, ref.queue) for ref in done]
            ids = [id for each in done.values() for id in each.ids]
            answers = sum((each.answers for each in done.values()), Counter())
            count, names = sum(each.count for each in done.values()), [ref.queue for ref in others]
            noted = made.note(verb, first.queue, first.layout, ids, answers, error, records, count, names)
            self._count(noted, list(done))
        if session.keeper:
            session.keeper.abandon(lambda verb, ref: ref in refs and not is_under_way(verb, ref))
        if not over:
            ref = tally.ref
            made.note(tally.verb, ref.queue, ref.layout, sorted(tally.ids), tally.words, error)

    def export(self) -> None:
        """Writes a report of this session; asks once why its changes were made."""
        kept = self._session.journal
        if self._was_asked or not kept.operations:
            self._write()
            return
        from rqtui.tui.widgets.dialogs import Question

        words = "what was found, what was done and what came of it, as Markdown and as JSON, into this folder"
        why = (Field("why", "why, in a few words"),)
        question = Question("Write the report", [Content(words)], why, "write", is_danger=False, is_form=True)

        def decided(given: Given | None) -> None:
            if given is None:
                return
            self._was_asked = True
            if said := given.values.get("why"):
                kept.explain(str(said))
            self._write()

        self._host.app.push_screen(question, decided)

    def _write(self) -> None:
        """Into the current folder, with plots of the queues it is about, where Redis answers."""
        session, kept = self._session, self._session.journal
        operations, sightings = kept.operations, kept.sightings
        refs = [Ref(each.layout, queue) for each in operations for queue in (each.queue, *each.others) if queue]
        refs += [Ref(one.layout, one.queue) for one in sightings]
        now_ms = session.snapshot.taken_ms if session.snapshot else 0

        def draw(engine: Engine) -> list[postmortem.Plot]:
            return postmortem.gathered(engine, [ref for ref in refs if ref.layout in engine.layouts], now_ms)

        def write(answered: Answered) -> None:
            plots = [*(answered.result or ()), *postmortem.sampled(session.watch.samples)]
            try:
                page, _data = postmortem.export(operations, Path.cwd(), sightings, plots)
            except OSError as error:
                self._host.say(f"The operations cannot be written here: {error.strerror or error}.", "error")
                return
            self._host.say(f"Written: {page.name} and .json, in {page.parent}")

        from rqtui.reports import postmortem

        session.ask(draw, write)


def _counts(queues: Iterable[Queue]) -> Mapping[str, Mapping[str, int]]:
    return {queue.name: queue.by_place() for queue in queues if not queue.error}
