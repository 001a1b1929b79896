"""Write lock: whether changes are on.

A read-only session can be unlocked for a while and locks itself again; any session can be locked. While it is locked
nothing is sent that changes a queue, and no loop runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.timer import Timer

from rqtui import durations
from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.session import Session


class WriteLock:
    """The lock of a session; `stop_changes` ends what is under way when it closes."""

    def __init__(
        self, host: Host, session: Session, journal: SessionJournal, loops: Loops, stop_changes: Callable[[], object]
    ) -> None:
        self._host, self._session = host, session
        self._journal, self._loops, self._stop_changes = journal, loops, stop_changes
        self._until_s = 0.0  # by the clock on the wall, which goes on while a laptop sleeps; 0: for good
        self._at_most_s = 0.0  # the same by the monotonic clock, which nobody sets back
        self._timer: Timer | None = None

    @property
    def can_unlock(self) -> bool:
        """Whether there is something to unlock, or a time to prolong."""
        settings = self._session.settings
        return settings.may_unlock if settings.read_only else self._session.is_read_only

    def words(self) -> str:
        """`read-only`, `write`, or `write until 04:12`."""
        if self._session.is_read_only:
            return "read-only"
        return f"write until {formats.clock(self._until_s * 1000)[:5]}" if self._until_s else "write"

    def unlock(self, duration: str) -> None:
        """Lets changes through for so long (`15m`), from now on."""
        session, engine = self._session, self._session.engine
        if session.settings.read_only and not session.settings.may_unlock:
            self._host.say("This profile is always read-only: its configuration says so.", "error")
            return
        if engine is None:
            self._host.say("Not connected yet.", "warning")
            return
        seconds = durations.parse(duration, "the time") / 1000
        was_locked = session.is_read_only
        session.is_read_only, self._until_s = False, time.time() + seconds
        self._at_most_s = time.monotonic() + seconds
        engine.read_only = False
        if was_locked:
            self._journal.keep(engine)
            self._loops.offer(engine)
        if self._timer is None:
            self._timer = self._host.app.set_interval(0.5, self._lock_in_time)
        until = self.words()
        session.journal.note("unlock", "", "", answers={until: 1})
        starts = f"{keys.key('dispatcher')} or {keys.key('reaper')}"
        self._host.say(f"Changes are on: {until}. The loops stay off until {starts} starts them.", "warning")
        self._show()

    def lock(self) -> None:
        """No more changes from now on; what was sent is answered."""
        session = self._session
        if session.is_read_only:
            return
        session.is_read_only, self._until_s = True, 0.0
        self.end()
        if session.engine is not None:
            session.engine.read_only = True
        self._stop_changes()
        session.ticker.cancel()
        self._loops.withdraw()
        session.journal.note("lock", "", "", answers={"read-only": 1})
        self._host.say("Locked: this screen changes nothing now, and its loops are off.")
        self._show()

    def end(self) -> None:
        """The session is over, or locked: there is no time to wait for."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _lock_in_time(self) -> None:
        if self._until_s and (time.time() >= self._until_s or time.monotonic() >= self._at_most_s):
            self.lock()

    def _show(self) -> None:
        self._host.show_header()
        self._host.show_keys()
        self._host.app.refresh_bindings()
