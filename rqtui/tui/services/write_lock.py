"""Lock and unlock the changes of a session.

A read-only session can be unlocked for some time and locks itself again. Any session can be locked. A locked session
sends nothing that changes a queue, and runs no loop.
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
    """The write lock of a session. `stop_changes` ends the changes under way when the session is locked."""

    def __init__(
        self, host: Host, session: Session, journal: SessionJournal, loops: Loops, stop_changes: Callable[[], object]
    ) -> None:
        self._host, self._session = host, session
        self._journal, self._loops, self._stop_changes = journal, loops, stop_changes
        self._until_s = 0.0  # wall clock, which advances while a laptop sleeps; 0: no limit
        self._monotonic_until_s = 0.0  # the same on the monotonic clock, which is never set back
        self._timer: Timer | None = None

    @property
    def can_unlock(self) -> bool:
        """Whether the session can be unlocked, or its unlocked time extended."""
        settings = self._session.settings
        return settings.may_unlock if settings.read_only else self._session.is_read_only

    def format_lock_state(self) -> str:
        """Return the state of the write lock for the footer: `read-only`, `write`, or `write until 04:12`."""
        if self._session.is_read_only:
            return "read-only"
        return f"write until {formats.format_clock(self._until_s * 1000)[:5]}" if self._until_s else "write"

    def unlock_changes(self, duration: str) -> None:
        """Allow changes for a duration such as `15m`, starting now."""
        session, engine = self._session, self._session.engine
        if session.settings.read_only and not session.settings.may_unlock:
            self._host.show_toast("This profile is always read-only: its configuration says so.", "error")
            return
        if engine is None:
            self._host.show_toast("Not connected yet.", "warning")
            return
        seconds = durations.parse_duration(duration, "the time") / 1000
        was_locked = session.is_read_only
        session.is_read_only, self._until_s = False, time.time() + seconds
        self._monotonic_until_s = time.monotonic() + seconds
        engine.read_only = False
        if was_locked:
            self._journal.attach_undo_store(engine)
            self._loops.create_loops_after_unlock(engine)
        if self._timer is None:
            self._timer = self._host.app.set_interval(0.5, self._lock_if_expired)
        state_text = self.format_lock_state()
        session.journal.record_change("unlock", "", "", answers={state_text: 1})
        start_keys = f"{keys.find_current_key('dispatcher')} or {keys.find_current_key('reaper')}"
        self._host.show_toast(
            f"Changes are on: {state_text}. The loops stay off until {start_keys} starts them.", "warning"
        )
        self._redraw_frame()

    def lock(self) -> None:
        """Forbid changes from now on. Requests that were already sent are still answered."""
        session = self._session
        if session.is_read_only:
            return
        session.is_read_only, self._until_s = True, 0.0
        self.stop_timer()
        if session.engine is not None:
            session.engine.read_only = True
        self._stop_changes()
        session.ticker.cancel_changes()
        self._loops.stop_loops()
        session.journal.record_change("lock", "", "", answers={"read-only": 1})
        self._host.show_toast("Locked: this screen changes nothing now, and its loops are off.")
        self._redraw_frame()

    def stop_timer(self) -> None:
        """Stop the timer that locks changes again, because the session ended or was locked."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _lock_if_expired(self) -> None:
        if self._until_s and (time.time() >= self._until_s or time.monotonic() >= self._monotonic_until_s):
            self.lock()

    def _redraw_frame(self) -> None:
        self._host.show_header()
        self._host.show_keys()
        self._host.app.refresh_bindings()
