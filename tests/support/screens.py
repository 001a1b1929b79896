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
from contextlib import asynccontextmanager, suppress
from typing import Any

import stylesheets
from hostile import harm
from redis import Redis
from rich.cells import cell_len
from textual._context import active_app
from textual.app import App
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets._toast import Toast
from waiting import PATIENCE_S

from rqtui.config.settings import Settings
from rqtui.engine.engine import Engine, with_layouts
from rqtui.model import Job
from rqtui.systems import registry
from rqtui.tui.app import Cockpit
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.terminal import typeahead
from rqtui.tui.view import View

WIDE, NARROW = (160, 45), (80, 24)
PLACES = ("1", "2", "3", "4", "5")
MOMENT_S = 0.2
HANGS_S = 300.0  # no test takes so long, on a busy machine either
RARELY_S = 5.0  # between two pictures: no Redis of a test is so slow

stylesheets.share()


def on_screen(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Lets pytest run an asynchronous test; its arguments stay fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), HANGS_S))

    return run


class Screen:
    """An app that runs, and the hand on its keys."""

    def __init__(self, app: Cockpit, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        self.toasts: list[str] = []
        self.asks_again = True  # False in a test that counts pictures: each comes only when the app takes it
        self._paints = 0
        self._read: tuple[object, float, str] = (None, 0.0, "")
        app.post_display_hook = self._painted  # type: ignore[method-assign]  # Textual's own, for tests

    def _painted(self) -> None:
        self._paints += 1

    async def press(self, *keys: str) -> None:
        """Presses keys one after the other; `"text` types the letters of text."""
        active_app.set(self.app)  # of two apps in one test: what a view asks of its app here, it asks of its own
        for key in keys:
            above = self.app.screen
            for each in key[1:] if key.startswith('"') else [key]:
                self.app.post_message(pressed(each))
                if self._typeahead is None:
                    await self._has_had_its_effect()
            await self._have_had_their_effect()
            now = self.app.screen
            if isinstance(now, View) and (key in PLACES or now is not above or _awaits_report(now)):
                await self._settle()

    async def _have_had_their_effect(self) -> None:
        """Waits until the app has dealt with all keys, and its widgets with what came of them."""
        arrived = asyncio.Event()
        self.app.call_later(arrived.set)
        keys = self._typeahead
        while not self.app._exit and ((keys is not None and keys.is_busy) or not arrived.is_set()):
            await asyncio.sleep(0.001)
        if not self.app._exit:
            await self.pilot.pause(0)

    @property
    def _typeahead(self) -> typeahead.Typeahead | None:
        """What keeps the keys in their order; None where Textual does as it likes."""
        hook = getattr(self.app.on_event, "__self__", None)
        return hook if isinstance(hook, typeahead.Typeahead) else None

    async def _has_had_its_effect(self) -> None:
        """Waits as a person does before the next key, where nothing else makes it wait."""
        target = self.app.focused or self.app.screen
        with suppress(TimeoutError):
            async with asyncio.timeout(typeahead.PATIENCE_S):
                await typeahead.has_had_its_effect(self.app, target)

    async def _settle(self) -> None:
        """Gives a view time to get what it asked for, as a person would; where Redis is away, a moment."""
        deadline = time.monotonic() + (0.1 if self.app.session.lost else 2.0)
        while not self._is_pictured() and time.monotonic() < deadline:
            await self._look_again_in(0.01)

    def _is_pictured(self) -> bool:
        view = self.app.navigation.view
        return view is None or (
            view.focus_wish(self.app.session.refs) == self.app.session.pictured and not _awaits_report(view)
        )

    async def until(self, holds: Callable[[], Any], what: str = "", timeout_s: float = PATIENCE_S) -> Any:
        """Waits for a condition; what it gave back. A shorter time than PATIENCE_S is taken for that."""
        active_app.set(self.app)
        deadline = time.monotonic() + max(timeout_s, PATIENCE_S)
        asks_s = time.monotonic() + 1
        while True:
            self._note_toasts()
            value = holds()
            if value:
                return value
            if time.monotonic() > asks_s:
                asks_s += 1
                self._ask_again()
            assert time.monotonic() < deadline, f"{what or 'it'} did not come true; the screen:\n{self.text()}"
            await self._look_again_in(0.02)

    async def until_shown(self, *words: str) -> None:
        """Waits until all these words stand on the screen."""

        def are_shown() -> bool:
            text = self.text()
            return all(word in text for word in words)

        await self.until(are_shown, f"{words} on the screen")

    async def until_told(self, *words: str) -> str:
        """Waits for a toast with all these words."""
        await self.until(lambda: any(all(w in told for w in words) for told in self.toasts), f"a toast with {words}")
        return next(told for told in self.toasts if all(word in told for word in words))

    async def until_refreshed(self) -> None:
        """Waits for a picture that was taken after now."""
        before = self.app.session.snapshot
        await self.until(lambda: self.app.session.snapshot is not before, "a new picture")

    def _ask_again(self) -> None:
        """An app on a machine that stood still for a moment takes Redis for slow, and looks at it rarely."""
        ticker = self.app.session.ticker
        if self.asks_again and not ticker.is_resting and ticker.wait_s > RARELY_S:
            ticker.refresh()

    async def _look_again_in(self, seconds: float) -> None:
        """Lets the app work for so long, and paint. A pause of the pilot sends a message to each widget: 2 ms."""
        await asyncio.sleep(seconds)
        self.app.screen._on_timer_update()

    def text(self) -> str:
        """What stands on the screen; read anew when something was painted, and after a moment."""
        now_s, which = time.monotonic(), (self._paints, id(self.app.screen))
        if self._read[0] != which or now_s > self._read[1] + MOMENT_S:
            self._read = (which, now_s, text_of(self.app))
        return self._read[2]

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
    interval_s: float = 0.25,
    **options: Any,
) -> AsyncIterator[Screen]:
    """The app on `url`, or with these settings, once it has its first picture."""
    settings = Settings(url, layouts, read_only=read_only) if isinstance(url, str) else url
    app = Cockpit(settings, interval_s=interval_s, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        it = Screen(app, pilot)
        await it.until(lambda: app.session.snapshot is not None or app.session.lost is not None, "a first picture")
        yield it


class Seeded:
    """A queue with jobs in every place, put there by the scripts."""

    def __init__(self, client: Redis, queue: str = "mail") -> None:
        self.engine: Engine = with_layouts(client, [registry.make("native")])
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


VIEW_KEYS = {
    "workers": "w",
    "kinds": "b",
    "errors": "e",
    "events": "f",
    "metrics": "m",
    "loops": "t",
    "schedules": "ampersand",
    "redis": "i",
    "operations": "o",
}


async def opened_view(it: Screen, name: str) -> None:
    """Opens a side view by its key, and waits for a picture of it."""
    await it.press(VIEW_KEYS[name])
    await it.until(lambda: it.app.navigation.view is not None and name == it.app.navigation.view.NAME, name)
    await it.until_refreshed()


async def back_to_overview(it: Screen) -> None:
    """Leaves by Escape whatever is open above the overview."""

    def is_there() -> bool:
        view = it.app.navigation.view
        return view is not None and view is it.app.screen and view.NAME == "overview"

    for _step in range(8):
        if not is_there():
            await it.press("escape")
    assert is_there(), it.text()


def judge(it: Screen) -> None:
    """Every painted row is as wide as the terminal, and holds nothing that commands it."""
    size = it.app.size
    strips = it.app.screen._compositor.render_strips()
    assert len(strips) == size.height
    for y, strip in enumerate(strips):
        row = "".join(segment.text for segment in strip if not segment.control)
        assert not harm(row, ""), (y, harm(row), row)
        assert not any(segment.control for segment in strip)
        assert cell_len(row) == size.width, (y, cell_len(row), row)
