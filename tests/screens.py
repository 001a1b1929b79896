"""The screen under test: the app on a real server, driven by the keys a person presses, read as text.

    @on_screen
    async def test_…(url, client):
        async with screen(url) as it:
            await it.press("enter", "D", "y")
            await it.until(lambda: client.zcard(…) == 0)
            assert "deleted" in it.text()

Every wait has a deadline and a condition; a refresh comes every 0.25 s.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis import Redis
from textual.app import App
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from rqtui import layouts
from rqtui.engine import Engine, with_layouts
from rqtui.model import Job
from rqtui.settings import Settings
from rqtui.tui.app import Cockpit
from rqtui.tui.report_view import ReportView
from rqtui.tui.view import View

WIDE, NARROW = (160, 45), (80, 24)
PLACES = ("1", "2", "3", "4", "5")


def on_screen(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Lets pytest run an asynchronous test; its arguments stay fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), 60))

    return run


class Screen:
    """An app that runs, and the hand on its keys."""

    def __init__(self, app: Cockpit, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        self.toasts: list[str] = []

    async def press(self, *keys: str) -> None:
        """Presses keys one after the other; `"text` types the letters of text."""
        for key in keys:
            above = self.app.screen
            for each in key[1:] if key.startswith('"') else [key]:
                self.app.post_message(pressed(each))
            await self._have_had_their_effect()
            now = self.app.screen
            if isinstance(now, View) and (key in PLACES or now is not above or _awaits_report(now)):
                await self._settle()

    async def _have_had_their_effect(self) -> None:
        """Waits until the app has dealt with all keys, and its widgets with what came of them."""
        arrived = asyncio.Event()
        self.app.call_later(arrived.set)
        while not self.app._exit and (self.app.is_busy_with_keys or not arrived.is_set()):
            await self.pilot.pause(0.001)
        if not self.app._exit:
            await self.pilot.pause(0)

    async def _settle(self) -> None:
        """Gives a view time to get what it asked for, as a person would; where Redis is away, a moment."""
        deadline = time.monotonic() + (0.1 if self.app.lost else 2.0)
        while not self._is_pictured() and time.monotonic() < deadline:
            await self.pilot.pause(0.01)

    def _is_pictured(self) -> bool:
        view = self.app.view
        return view is None or (view.focus_wish(self.app.refs) == self.app._pictured and not _awaits_report(view))

    async def until(self, holds: Callable[[], Any], what: str = "", timeout_s: float = 10.0) -> Any:
        """Waits for a condition; what it gave back."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._note_toasts()
            value = holds()
            if value:
                return value
            assert time.monotonic() < deadline, f"{what or 'it'} did not come true; the screen:\n{self.text()}"
            await self.pilot.pause(0.02)

    async def until_shown(self, *words: str) -> None:
        """Waits until all these words stand on the screen."""
        await self.until(lambda: all(word in self.text() for word in words), f"{words} on the screen")

    async def until_told(self, *words: str) -> str:
        """Waits for a toast with all these words."""
        await self.until(lambda: any(all(w in told for w in words) for told in self.toasts), f"a toast with {words}")
        return next(told for told in self.toasts if all(word in told for word in words))

    async def until_refreshed(self) -> None:
        """Waits for a picture that was taken after now."""
        before = self.app.snapshot
        await self.until(lambda: self.app.snapshot is not before, "a new picture")

    def text(self) -> str:
        """What stands on the screen."""
        return text_of(self.app)

    def _note_toasts(self) -> None:
        for toast in self.app.screen.query(Toast):
            said = str(toast.render())
            if said not in self.toasts:
                self.toasts.append(said)


def _awaits_report(view: View) -> bool:
    return isinstance(view, ReportView) and view.report is None


def pressed(key: str) -> Key:
    """What a terminal says of a letter, or of a key by its name."""
    if len(key) > 1:
        return Key(key, " " if key == "space" else None)
    return Key(_character_to_key(key), key)


def text_of(app: App[Any]) -> str:
    """What stands on an app's screen, as lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in strips)


@asynccontextmanager
async def screen(
    url: str | Settings,
    size: tuple[int, int] = NARROW,
    *,
    read_only: bool = False,
    layouts: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[Screen]:
    """The app on `url`, or with these settings, once it has its first picture."""
    settings = Settings(url, layouts, read_only=read_only) if isinstance(url, str) else url
    app = Cockpit(settings, interval_s=0.25, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        it = Screen(app, pilot)
        await it.until(lambda: app.snapshot is not None or app.lost is not None, "a first picture")
        yield it


class Seeded:
    """A queue with jobs in every place, put there by the scripts."""

    def __init__(self, client: Redis, queue: str = "mail") -> None:
        self.engine: Engine = with_layouts(client, [layouts.make("native")])
        self.client, self.queue = client, queue
        self.ref = self.engine.find(queue)

    def put(self, *ids: str, **form: Any) -> None:
        """Jobs that wait, in this order."""
        for id in ids:
            self.engine.act("enqueue", self.ref, (), {"id": id, "body": b'{"to": "a@b.c"}', "name": "send", **form})
        self.engine.announce(self.ref)

    def reserve(self, number: int = 1, **form: Any) -> tuple[Job, ...]:
        """Hands out jobs to worker w1."""
        self.engine.act("reserve", self.ref, (), {"limit": number, "worker": "w1", **form})
        return self.jobs("reserved")

    def bury(self, *ids: str) -> None:
        """Jobs that died of an error."""
        self.put(*ids, priority=-100)
        self.reserve(len(ids))
        held = [job for job in self.jobs("reserved") if job.id.decode() in ids]
        self.engine.act("reject", self.ref, held, {"error": "TimeoutError: smtp", "final": True})

    def jobs(self, place: str) -> tuple[Job, ...]:
        """What stands in a place."""
        return self.engine.page(self.ref, place, 0, 500).jobs

    def ids(self, place: str) -> list[str]:
        """The ids in a place, in its order."""
        return [job.id.decode() for job in self.jobs(place)]

    def job(self, id: str) -> Job | None:
        """One job, wherever it is."""
        return self.engine.job(self.ref, id.encode())
