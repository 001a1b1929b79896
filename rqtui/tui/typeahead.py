"""Typeahead: the part of the app that keeps keys in their order, however fast they come.

A slow link hands over several keys at once, and so does a macro. Textual gives each of them to the widget that has the
focus when it arrives, though the key before it may still be about to move the focus or to open a dialog: letters typed
after `N Tab` would land in the field before Tab. Here a key waits until the one before it has had its effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Event, Key, Paste

from rqtui.tui.part import Part

if TYPE_CHECKING:
    from textual.app import App

    class _Base(Part, App[None]): ...
else:
    _Base = Part

PATIENCE_S = 1.0  # after which the next key goes on, whatever holds up the one before


class Typeahead(_Base):
    """A mixin of the app; it stands before Textual's App, whose method it refines."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._typed: deque[Key | Paste] = deque()  # what came while one was on its way
        self._on_its_way: asyncio.Task[None] | None = None

    def get_driver_class(self) -> type[Driver]:
        """The one that reads the keyboard."""
        from textual.drivers.linux_driver import LinuxDriver  # not there on Windows

        from rqtui.tui.driver import QuietDriver

        chosen = super().get_driver_class()
        return QuietDriver if chosen is LinuxDriver else chosen

    @property
    def is_busy_with_keys(self) -> bool:
        """Whether one is on its way, or waits for another."""
        return self._on_its_way is not None

    async def on_event(self, event: Event) -> None:
        """Every event of the app comes through here; what is typed goes on one by one."""
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._on_its_way is None:
            await self._let_on(event)
        else:
            self._typed.append(event)

    async def _let_on(self, event: Key | Paste) -> None:
        target = self.focused or self.screen
        await super().on_event(event)
        self._on_its_way = asyncio.create_task(self._follow(target))

    async def _follow(self, target: DOMNode) -> None:
        """Lets the next one on when the one that was given to `target` has had its effect."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                for node in target.ancestors_with_self:  # a key bubbles, and so does what a widget says of it
                    await _has_dealt(node)
                await _has_dealt(self.screen)  # one that was opened: its widgets are made, and one has the focus
                await _has_dealt(self)
        except TimeoutError:
            pass
        if self._typed:
            self.call_later(self._let_on, self._typed.popleft())
        else:
            self._on_its_way = None


async def _has_dealt(node: DOMNode) -> None:
    """Waits until a node has dealt with what it was sent, and with what it sent to itself meanwhile."""
    for _ in range(2):
        dealt = asyncio.Event()
        if not node.call_later(dealt.set):
            return  # it is closed
        await dealt.wait()
