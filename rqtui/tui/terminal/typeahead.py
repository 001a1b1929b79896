"""Typeahead: keys keep their order, however fast they come.

A slow link hands over several keys at once, and so does a macro. Textual gives each of them to the widget that has the
focus when it arrives, though the key before it may still be about to move the focus or to open a dialog: letters typed
after `N Tab` would land in the field before Tab. Here a key waits until the one before it has had its effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import iscoroutinefunction
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key, Paste

from rqtui.tui.terminal.hooks import takes

PATIENCE_S = 1.0  # after which the next key goes on, whatever holds up the one before


def fits(app: App[Any]) -> bool:
    """Whether every event of an app comes by `on_event`, and tells that it was handed on to a widget already."""
    return (
        iscoroutinefunction(app.on_event)
        and takes(app.on_event, "event")
        and takes(app.call_later, "callback")
        and not Key("a", "a").is_forwarded
        and not Paste("a").is_forwarded
        and hasattr(DOMNode, "ancestors_with_self")
    )


def install(app: App[Any]) -> None:
    """Lets what is typed into the app go on one by one."""
    app.on_event = Typeahead(app).on_event  # type: ignore[method-assign]


class Typeahead:
    """The keys of one app."""

    def __init__(self, app: App[Any]) -> None:
        self._app, self._hand_on = app, app.on_event
        self._typed: deque[Key | Paste] = deque()  # what came while one was on its way
        self._on_its_way: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a key is on its way, or waits for another."""
        return self._on_its_way is not None

    async def on_event(self, event: Event) -> None:
        """Every event of the app comes through here; what is typed goes on one by one."""
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            await self._hand_on(event)
        elif self._on_its_way is None:
            await self._let_on(event)
        else:
            self._typed.append(event)

    async def _let_on(self, event: Key | Paste) -> None:
        target = self._app.focused or self._app.screen
        await self._hand_on(event)
        self._on_its_way = asyncio.create_task(self._follow(target))

    async def _follow(self, target: DOMNode) -> None:
        """Lets the next one on when the one that was given to `target` has had its effect."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await has_had_its_effect(self._app, target)
        except TimeoutError:
            pass
        if self._typed:
            self._app.call_later(self._let_on, self._typed.popleft())
        else:
            self._on_its_way = None


async def has_had_its_effect(app: App[Any], target: DOMNode) -> None:
    """Waits until a key that was given to `target` has had its effect."""
    for node in target.ancestors_with_self:  # a key bubbles, and so does what a widget says of it
        await _has_dealt(node)
    await _has_dealt(app.screen)  # one that was opened: its widgets are made, and one has the focus
    await _has_dealt(app)


async def _has_dealt(node: DOMNode) -> None:
    """Waits until a node has dealt with what it was sent, and with what it sent to itself meanwhile."""
    for _ in range(2):
        dealt = asyncio.Event()
        if not node.call_later(dealt.set):
            return  # it is closed
        await dealt.wait()
