"""Session: one Redis as this screen knows it, from its settings to the last picture; and what its thread says.

It is replaced as a whole when a person goes over to another Redis: the services of the old one go with it, a view keeps
the session that it was opened in, and each message names its own, so that nothing of the old one is heard. What the
engine's thread finds becomes a Textual message here, a class each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from textual.message import Message

from rqtui.config.settings import DEFAULT_SYSTEM, LONGEST_S, SHORTEST_S, Settings
from rqtui.config.state_folder import state_folder
from rqtui.connection import connect
from rqtui.engine import ticker as tick
from rqtui.errors import UsageError
from rqtui.model import Focus, Queue, Ref, Snapshot
from rqtui.operations.journal import Journal
from rqtui.operations.watch import Watch
from rqtui.text.names import named, twins
from rqtui.tui.format import recent

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop
    from rqtui.layout.layout import Layout
    from rqtui.operations.undo import Keeper
    from rqtui.scenarios.run import Run

REMEMBERED = 200  # changes made here


class Told(Message):
    """What the thread of a session says."""

    def __init__(self, session: Session, what: Any) -> None:
        super().__init__()
        self.session, self.what = session, what


class Connected(Told):
    """The engine was made."""

    what: tick.Connected


class Refreshed(Told):
    """A new picture."""

    what: tick.Refreshed


class Lost(Told):
    """Redis is away."""

    what: tick.Lost


class Acted(Told):
    """Outcomes of a verb."""

    what: tick.Acted


class Answered(Told):
    """An answer to a question, or a step of a work."""

    what: tick.Answered


class Failed(Told):
    """A picture could not be taken."""

    what: tick.Failed


MESSAGES: Mapping[type[tick.Message], type[Told]] = {
    tick.Connected: Connected,
    tick.Refreshed: Refreshed,
    tick.Lost: Lost,
    tick.Acted: Acted,
    tick.Answered: Answered,
    tick.Failed: Failed,
}


class Session:
    """What is known of one Redis. `make` makes its engine, on its thread; `post` takes the messages from there."""

    def __init__(
        self,
        settings: Settings,
        demo: Run | None,
        make: Callable[[], Engine],
        post: Callable[[Message], object],
        interval_s: float,
    ) -> None:
        self.settings, self.demo, self._post = settings, demo, post
        self.ticker = tick.Ticker(make, self._tell, interval_s)
        self.engine: Engine | None = None
        self.layouts: Mapping[str, Layout] = {}
        self.refs: list[Ref] = []
        self._engine_refs: list[Ref] | None = None  # of which these are a copy
        self.twins: frozenset[str] = frozenset()  # names that queues of several systems have
        self.snapshot: Snapshot | None = None
        self.pictured = Focus()  # what the last picture was asked to show
        self._pictured_s = 0.0  # `time.monotonic`
        self.known: dict[Ref, Queue] = {}  # every queue as it was counted last
        self.causes: dict[Ref, frozenset[str]] = {}  # of a queue's dead jobs, as far as somebody looked at them
        self.lost: tick.Lost | None = None
        self.failed: tick.Failed | None = None
        self.is_read_only = settings.read_only  # now: the write lock changes it
        self.keeper: Keeper | None = None
        self.journal = Journal(None if demo else state_folder(), settings.url, settings.profile, self.close_record)
        self.watch = Watch(self.journal.found)
        self.loops: dict[str, Loop] = {}
        self.filters: list[str] = []  # that were typed here, the newest last
        self.changes: deque[recent.Entry] = deque(maxlen=REMEMBERED)
        self._waiting: dict[int, Callable[[tick.Answered], None]] = {}  # by the id of what was asked

    def _tell(self, what: tick.Message) -> None:
        self._post(MESSAGES[type(what)](self, what))

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        """Whether Redis was asked, and has never answered."""
        return self.lost is not None and self.snapshot is None

    @property
    def is_old(self) -> bool:
        """Whether the picture is of the past: no other could be taken since."""
        return self.lost is not None or self.failed is not None

    @property
    def now_ms(self) -> int:
        """The server's clock, carried on from the last picture; 0 before there is one."""
        return self.snapshot.taken_ms + int(1000 * (time.monotonic() - self._pictured_s)) if self.snapshot else 0

    def connected(self, engine: Engine) -> None:
        """The engine was made."""
        self.engine, self.layouts = engine, engine.layouts

    def pictured_anew(self, message: tick.Refreshed) -> None:
        """A picture was taken: Redis is there."""
        self.lost = self.failed = None
        self.snapshot = message.snapshot
        known = self.engine.refs if self.engine else []
        if known is not self._engine_refs:  # a list that is replaced when there are others, never changed
            self._engine_refs, self.refs, self.twins = known, list(known), twins(known)
        self.watch.look(message.snapshot)
        self.pictured, self._pictured_s = message.focus, time.monotonic()
        self.known.update((Ref(queue.layout, queue.name), queue) for queue in message.snapshot.queues)
        if len(self.known) > len(self.refs):
            here = set(self.refs)
            self.known = {ref: queue for ref, queue in self.known.items() if ref in here}

    def is_pictured(self, ref: Ref, id: bytes) -> bool:
        """Whether the last picture was asked for this job."""
        return self.pictured.job == (ref, id)

    def system_of(self, ref: Ref) -> str:
        """Which system a queue belongs to, where that is worth a word: it is another one than ours."""
        return "" if ref.layout == DEFAULT_SYSTEM else ref.layout

    def named(self, ref: Ref) -> str:
        """The name of a queue, with its system where queues of several systems have that name."""
        return named(ref, self.twins)

    def find(self, name: str) -> Ref:
        """The queue of that name; UsageError in words where it cannot be one."""
        if self.engine is None:
            raise UsageError("not connected yet.")
        return self.engine.find(name)

    def denial(self, verb: str, ref: Ref | None) -> str:
        """Why a verb is refused on a queue; empty where it is not."""
        return self.engine.denial(verb, ref) if self.engine and ref else ""

    def refresh_every(self, seconds: float) -> None:
        """The time between two pictures, between 0.25 s and a minute; takes one at once."""
        self.ticker.interval_s = min(LONGEST_S, max(SHORTEST_S, seconds))
        self.ticker.refresh()

    def happened(self, most: int) -> list[recent.Entry]:
        """What the loops and this screen did lately, and what was found, the newest first."""
        found = [recent.found(one) for one in self.journal.sightings[-most:]] if most else []
        return recent.entries(self.loops.values(), [*self.changes, *found], most)

    def close_record(self, verb: str, layout: str, queue: str) -> str:
        """The name of the undo record that ends here; empty where nothing was kept."""
        return self.keeper.close(verb, layout, queue) if self.keeper else ""

    @property
    def url(self) -> str:
        """Its URL, without a password."""
        return connect.mask(self.settings.url)

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, function: Callable[[Engine], Any], then: Callable[[tick.Answered], None]) -> int:
        """Runs a short function with the engine, on its thread; `then` gets the answer, on this one. The id of it."""
        return self._asked(self.ticker.call(function), then)

    def work(self, function: Callable[[Engine], Iterator[Any]], then: Callable[[tick.Answered], None]) -> int:
        """The same with a generator of round trips; `then` gets each step. `end_work` ends it."""
        return self._asked(self.ticker.work(function), then)

    def end_work(self, id: int) -> None:
        """Ends a work after the step under way; its last answer follows."""
        self.ticker.end_work(id)

    def answered(self, answer: tick.Answered) -> None:
        """Hands an answer to whoever waits for it."""
        then = self._waiting.pop(answer.request) if answer.is_last else self._waiting[answer.request]
        then(answer)

    def _asked(self, id: int, then: Callable[[tick.Answered], None]) -> int:
        self._waiting[id] = then
        return id
