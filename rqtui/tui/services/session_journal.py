"""Session journal: writes down what this screen changes, and keeps what an undo needs.

A change is an entry of the journal once all answers to it are there, with the records that were kept of its jobs; the
journal itself is `operations.journal`, the records are `operations.undo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rqtui.engine.ticker import Answered
from rqtui.model import Ref
from rqtui.operations import journal
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.tally import Tally
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from rqtui.engine.engine import Engine


class SessionJournal:
    """The notes of a session."""

    def __init__(self, host: Host, session: Session) -> None:
        self._host, self._session = host, session
        self._folder_of_demo: TemporaryDirectory[str] | None = None

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
        if not self._session.demo:
            return journal.state_folder()
        if self._folder_of_demo is None:  # one that goes with the program: a demo's Redis is gone by then, too
            from tempfile import TemporaryDirectory

            self._folder_of_demo = TemporaryDirectory(prefix="rqtui-")
        return Path(self._folder_of_demo.name)

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
            made.note(verb, first.queue, first.layout, ids, answers, error, records, count, names)
        if session.keeper:
            session.keeper.abandon(lambda verb, ref: ref in refs and not is_under_way(verb, ref))
        if not over:
            ref = tally.ref
            made.note(tally.verb, ref.queue, ref.layout, sorted(tally.ids), tally.words, error)

    def export(self) -> None:
        """Writes the journal of this session into the current folder, as Markdown and as JSON."""
        try:
            page, _data = journal.export(self._session.journal.operations, Path.cwd())
        except OSError as error:
            self._host.say(f"The operations cannot be written here: {error.strerror or error}.", "error")
            return
        self._host.say(f"Written: {page.name} and .json, in {page.parent}")
