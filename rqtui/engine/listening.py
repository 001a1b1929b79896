"""Listening: what systems publish and keep nowhere, brought to their layouts.

One ear (`connection/ear.py`) for all of them, which opens when a queue of such a system is in sight for the first time,
and listens from then on. Its messages are handed on here, on the thread of the engine, so that a layout needs no lock.
A layout is told since when somebody listens for it, and what was missed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from rqtui.connection.ear import Ear
from rqtui.errors import told
from rqtui.layout.layout import Layout
from rqtui.model import Hearing
from rqtui.text.names import to_bytes

log = logging.getLogger("rqtui.engine.listening")


class Listening:
    """The ear of an engine, and the layouts that it listens for."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._ear: Ear | None = None
        self._layouts: dict[str, Layout] = {}
        self._patterns: dict[str, tuple[str, ...]] = {}  # by layout
        self._faulty: set[str] = set()  # layouts that could not read a message
        self._since_ms: dict[str, int] = {}  # by layout: told once, since clocks drift

    @property
    def is_open(self) -> bool:
        """Whether somebody listens."""
        return self._ear is not None

    def look(self, layouts: Iterable[Layout]) -> None:
        """Queues of these are in sight: what they publish is listened to from now on."""
        for layout in layouts:
            if layout.name in self._layouts or not (patterns := layout.hears()):
                continue
            self._layouts[layout.name], self._patterns[layout.name] = layout, patterns
            if self._ear is None:
                self._ear = Ear(self._client)
            self._ear.listen(patterns)

    def hand_on(self) -> None:
        """Brings what came since the last call to the layouts, in the order in which it came."""
        if self._ear is None:
            return
        messages, now_s = self._ear.take(), time.monotonic()
        meant: dict[bytes, list[Layout]] = {}
        for name, layout in self._layouts.items():
            layout.hearing = self._hearing(layout, now_s)
            for pattern in self._patterns[name]:
                meant.setdefault(to_bytes(pattern), []).append(layout)
        for message in messages:
            for layout in meant.get(message.pattern, ()):
                at_ms = layout.now_ms() - int((now_s - message.at_s) * 1000)
                try:
                    layout.overhear(message.channel, message.data, at_ms)
                except Exception as error:  # of this message alone; a layout that raises is at fault, and told once
                    (log.debug if layout.name in self._faulty else log.error)("%s: %s", layout.name, told(error))
                    self._faulty.add(layout.name)

    def _hearing(self, layout: Layout, now_s: float) -> Hearing:
        assert self._ear is not None
        heard = [self._ear.heard(pattern) for pattern in self._patterns[layout.name]]
        problem = next((each.problem for each in heard if each.problem), "")
        begun = [each.since_s for each in heard if each.since_s is not None]
        if not begun:
            return Hearing(problem=problem)
        since_ms = self._since_ms.setdefault(layout.name, layout.now_ms() - int((now_s - min(begun)) * 1000))
        missed_ms = int(max(each.missed_s for each in heard) * 1000)
        return Hearing(since_ms, missed_ms, self._ear.dropped, problem)

    def close(self) -> None:
        """Listens no more."""
        if self._ear is not None:
            self._ear.close()
