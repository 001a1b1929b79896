"""Process typed keys in order, however fast they arrive.

A slow link or a macro delivers several keys at once. Textual gives each of them to the widget that has the focus when
it arrives, although the key before may still be about to move the focus or to open a dialog: letters typed after `N
Tab` would land in the field before Tab. Here a key waits until the key before it has taken effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import iscoroutinefunction
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key, Paste

from rqtui.tui.terminal.hooks import has_parameters

MAX_WAIT_S = 1.0  # seconds after which the next key is processed in any case


def supports_installed_textual(app: App[Any]) -> bool:
    """Return whether all events of the app go through `on_event`, and have the flag `is_forwarded`."""
    return (
        iscoroutinefunction(app.on_event)
        and has_parameters(app.on_event, "event")
        and has_parameters(app.call_later, "callback")
        and not Key("a", "a").is_forwarded
        and not Paste("a").is_forwarded
        and hasattr(DOMNode, "ancestors_with_self")
    )


def install_hook(app: App[Any]) -> None:
    """Make the app process typed keys one at a time: each waits until the key before it has taken effect."""
    app.on_event = Typeahead(app).on_event  # type: ignore[method-assign]


class Typeahead:
    """The queue of typed keys and pastes of one app, which are processed one at a time."""

    def __init__(self, app: App[Any]) -> None:
        self._app, self._forward_event = app, app.on_event
        self._waiting: deque[Key | Paste] = deque()  # keys that wait for the one being processed
        self._in_progress: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a typed key is being processed, or waits for the key before it."""
        return self._in_progress is not None

    async def on_event(self, event: Event) -> None:
        """Handle an event of the app: a typed key waits for the key before it, any other event is forwarded at once."""
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            await self._forward_event(event)
        elif self._in_progress is None:
            await self._process_key(event)
        else:
            self._waiting.append(event)

    async def _process_key(self, event: Key | Paste) -> None:
        """Send a typed key to the focused widget, and start to wait until the key has taken effect."""
        target = self._app.focused or self._app.screen
        await self._forward_event(event)
        self._in_progress = asyncio.create_task(self._process_next_key(target))

    async def _process_next_key(self, target: DOMNode) -> None:
        """Wait until the key that was sent to `target` has taken effect, then process the next waiting key.

        The wait ends after one second in any case.
        """
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                await wait_for_key_effect(self._app, target)
        except TimeoutError:
            pass
        if self._waiting:
            self._app.call_later(self._process_key, self._waiting.popleft())
        else:
            self._in_progress = None


async def wait_for_key_effect(app: App[Any], target: DOMNode) -> None:
    """Wait until `target`, its ancestors and the screen have processed a key that was sent to `target`."""
    for node in target.ancestors_with_self:  # a key bubbles, and so do the messages of widgets about it
        await _wait_for_messages(node)
    await _wait_for_messages(app.screen)  # a new screen must have created its widgets and set the focus
    await _wait_for_messages(app)


async def _wait_for_messages(node: DOMNode) -> None:
    """Wait until a DOM node has processed its queued messages, and those that it sent to itself meanwhile."""
    for _ in range(2):
        processed = asyncio.Event()
        if not node.call_later(processed.set):
            return  # the node is closed
        await processed.wait()
