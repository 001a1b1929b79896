"""Run the app on a real server, press keys as a person would, and read the screen as text.

    @run_on_event_loop
    async def test_…(url, client):
        async with screen(url) as ui:
            await ui.press("enter", "D", "y")
            await ui.until(lambda: client.zcard(…) == 0)
            assert "deleted" in ui.text()

Every wait has a deadline and a condition; a refresh comes every 0.25 s.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import stylesheets
from hostile_text import find_harmful_character
from redis import Redis, RedisError
from rich.cells import cell_len
from textual._context import active_app
from textual.app import App
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets._toast import Toast, ToastRack
from waiting import PATIENCE_S

from rqtui.config.settings import Settings
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Job
from rqtui.systems import registry
from rqtui.tui.app import Cockpit
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.terminal import typeahead
from rqtui.tui.view import View

WIDE, NARROW = (160, 45), (80, 24)
PLACES = ("1", "2", "3", "4", "5")
MOMENT_S = 0.2
HANGS_S = 300.0  # longer than any test takes, also on a busy machine
SLOW_REFRESH_S = 5.0  # a refresh interval that only a stopped machine causes, because no Redis of a test is so slow

stylesheets.share_parsed_rules()


def run_on_event_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test of the screen in an event loop, as a decorator. Its arguments stay fixtures."""

    @functools.wraps(test)
    def run_test(*args: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), HANGS_S))

    return run_test


class Screen:
    """A running app with methods that press keys and read the screen as text."""

    def __init__(self, app: Cockpit, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        self.toasts: list[str] = []
        self.may_request_refresh = True  # False in a test that counts refreshes, so that only the app requests them
        self._paints = 0
        self._read: tuple[object, float, str] = (None, 0.0, "")
        app.post_display_hook = self._count_paint  # type: ignore[method-assign]  # a hook of Textual for tests

    def _count_paint(self) -> None:
        self._paints += 1

    async def press(self, *keys: str) -> None:
        """Press keys one after the other; `"text` types the letters of text."""
        active_app.set(self.app)  # with two apps in one test, a view would otherwise use the other app
        for key in keys:
            above = self.app.screen
            for each in key[1:] if key.startswith('"') else [key]:
                self.app.post_message(build_key_event(each))
                if self._typeahead is None:
                    await self._wait_for_effect()
            await self._wait_for_all_effects()
            now = self.app.screen
            if isinstance(now, View) and (key in PLACES or now is not above or _is_waiting_for_report(now)):
                await self._wait_for_view_data()

    async def _wait_for_all_effects(self) -> None:
        """Wait until the app has handled all pressed keys, and its widgets the messages that followed."""
        arrived = asyncio.Event()
        self.app.call_later(arrived.set)
        keys = self._typeahead
        while not self.app._exit and ((keys is not None and keys.is_busy) or not arrived.is_set()):
            await asyncio.sleep(0.001)
        if not self.app._exit:
            await self.pilot.pause(0)

    @property
    def _typeahead(self) -> typeahead.Typeahead | None:
        """Return the hook that keeps keys in order, or None if the hooks into Textual are off."""
        hook = getattr(self.app.on_event, "__self__", None)
        return hook if isinstance(hook, typeahead.Typeahead) else None

    async def _wait_for_effect(self) -> None:
        """Wait for the effect of a pressed key, if the hook that reports effects is on."""
        target = self.app.focused or self.app.screen
        with suppress(TimeoutError):
            async with asyncio.timeout(typeahead.MAX_WAIT_S):
                await typeahead.wait_for_key_effect(self.app, target)

    async def _wait_for_view_data(self) -> None:
        """Wait up to 2 s for the data of a view, or 0.1 s if Redis does not reply."""
        deadline = time.monotonic() + (0.1 if self.app.session.connection_loss else 2.0)
        while not self._is_up_to_date() and time.monotonic() < deadline:
            await self._run_app_for(0.01)

    def _is_up_to_date(self) -> bool:
        view = self.app.navigation.view
        return view is None or (
            view.build_focus(self.app.session.refs) == self.app.session.last_focus and not _is_waiting_for_report(view)
        )

    async def until(self, holds: Callable[[], Any], what: str = "", timeout_s: float = PATIENCE_S) -> Any:
        """Wait until `holds` returns a true value, and return the value. A timeout is at least PATIENCE_S."""
        active_app.set(self.app)
        deadline = time.monotonic() + max(timeout_s, PATIENCE_S)
        next_request_s = time.monotonic() + 1
        while True:
            self._record_shown_toasts()
            value = holds()
            if value:
                return value
            if time.monotonic() > next_request_s:
                next_request_s += 1
                self._request_slow_refresh()
            assert time.monotonic() < deadline, f"{what or 'ui'} did not come true; the screen:\n{self.text()}"
            await self._run_app_for(0.02)

    async def until_shown(self, *words: str) -> None:
        """Wait until all these words are on the screen."""

        def are_all_words_shown() -> bool:
            text = self.text()
            return all(word in text for word in words)

        await self.until(are_all_words_shown, f"{words} on the screen")

    async def until_toast(self, *words: str) -> str:
        """Wait for a notification (toast) with all these words."""
        await self.until(
            lambda: any(all(word in toast for word in words) for toast in self.toasts), f"a toast with {words}"
        )
        return next(toast for toast in self.toasts if all(word in toast for word in words))

    async def until_refreshed(self) -> None:
        """Wait for a snapshot that the app takes after this call."""
        before = self.app.session.snapshot
        await self.until(lambda: self.app.session.snapshot is not before, "a new snapshot")

    def _request_slow_refresh(self) -> None:
        """Request a refresh if the app polls rarely because a pause of the machine made Redis seem slow."""
        ticker = self.app.session.ticker
        if self.may_request_refresh and not ticker.is_resting and ticker.wait_s > SLOW_REFRESH_S:
            ticker.request_refresh()

    async def _run_app_for(self, seconds: float) -> None:
        """Let the app run for `seconds`, then paint. A pause of the pilot would message each widget: 2 ms."""
        await asyncio.sleep(seconds)
        self.app.screen._on_timer_update()

    def text(self) -> str:
        """Return the text on the screen, which is cached until the next paint and for MOMENT_S at most."""
        now_s, which = time.monotonic(), (self._paints, id(self.app.screen))
        if self._read[0] != which or now_s > self._read[1] + MOMENT_S:
            self._read = (which, now_s, read_text(self.app))
        return self._read[2]

    def _record_shown_toasts(self) -> None:
        for toast in self._list_toasts():
            text = str(toast.render())
            if text not in self.toasts:
                self.toasts.append(text)

    def _list_toasts(self) -> list[Toast]:
        """Return the toasts of the top screen. A query would test every widget."""
        racks = (child for child in self.app.screen.children if isinstance(child, ToastRack))
        toasts = (toast for rack in racks for holder in rack.children for toast in holder.children)
        return [toast for toast in toasts if isinstance(toast, Toast)]


def _is_waiting_for_report(view: View) -> bool:
    return isinstance(view, ReportView) and view.report is None


def build_key_event(key: str) -> Key:
    """Return the Textual key event of a letter or of a named key."""
    if len(key) > 1:
        return Key(key, " " if key == "space" else None)
    return Key(_character_to_key(key), key)


def read_text(app: App[Any]) -> str:
    """Return the text on an app's screen, as lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in strips)


@asynccontextmanager
async def screen(
    url: str | Settings,
    size: tuple[int, int] = NARROW,
    *,
    read_only: bool = False,
    systems: tuple[str, ...] = (),
    interval_s: float = 0.25,
    **options: Any,
) -> AsyncIterator[Screen]:
    """Start the app on `url`, or with these settings, and wait for its first snapshot."""
    settings = Settings(url, systems, read_only=read_only) if isinstance(url, str) else url
    app = Cockpit(settings, interval_s=interval_s, **options)
    with set_unreachable_save_point(settings.url):
        async with app.run_test(size=size, notifications=True) as pilot:
            ui = Screen(app, pilot)
            await ui.until(
                lambda: app.session.snapshot is not None or app.session.connection_loss is not None, "a first snapshot"
            )
            yield ui


@contextmanager
def set_unreachable_save_point(url: str) -> Iterator[None]:
    """Give a server a save point that no test reaches: the screen warns of a server without one.

    The original setting is restored at the end of the `with` block.
    """

    def set_save_points(value: str) -> None:
        with (
            suppress(RedisError, OSError, ValueError, AttributeError),
            Redis.from_url(url, socket_timeout=1.0) as client,
        ):
            client.config_set("save", value)

    set_save_points("86400 1000000000")
    try:
        yield
    finally:
        set_save_points("")


class Seeded:
    """A native queue that a test fills by scripts, with jobs in every place."""

    def __init__(self, client: Redis, queue: str = "mail") -> None:
        self.engine: Engine = build_engine(client, [registry.create_system("native")])
        self.client, self.queue = client, queue
        self.ref = self.engine.resolve(queue)

    def put(self, *ids: str, **form: Any) -> None:
        """Add waiting jobs to the seeded queue in this order."""
        for id in ids:
            self.engine.apply_verb(
                "enqueue", self.ref, (), {"id": id, "body": b'{"to": "a@b.c"}', "name": "send", **form}
            )
        self.engine.register_queue(self.ref)

    def reserve(self, number: int = 1, **form: Any) -> tuple[Job, ...]:
        """Lease the next jobs of the seeded queue to the worker w1."""
        self.engine.apply_verb("reserve", self.ref, (), {"limit": number, "worker": "w1", **form})
        return self.jobs("reserved")

    def bury(self, *ids: str) -> None:
        """Add dead jobs that failed with an error to the seeded queue."""
        self.put(*ids, priority=-100)
        self.reserve(len(ids))
        reserved = [job for job in self.jobs("reserved") if job.id.decode() in ids]
        self.engine.apply_verb("reject", self.ref, reserved, {"error": "TimeoutError: smtp", "final": True})

    def jobs(self, place: str) -> tuple[Job, ...]:
        """Return the jobs in a place of the seeded queue."""
        return self.engine.fetch_page(self.ref, place, 0, 500).jobs

    def ids(self, place: str) -> list[str]:
        """Return the ids in a place of the seeded queue, in its order."""
        return [job.id.decode() for job in self.jobs(place)]

    def job(self, id: str) -> Job | None:
        """Return one job of the seeded queue from any place."""
        return self.engine.fetch_job(self.ref, id.encode())


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


async def open_view(running_app: Screen, name: str) -> None:
    """Open a side view of the screen by its key, and wait for its first data."""
    await running_app.press(VIEW_KEYS[name])
    await running_app.until(
        lambda: running_app.app.navigation.view is not None and name == running_app.app.navigation.view.NAME, name
    )
    await running_app.until_refreshed()


async def return_to_overview(running_app: Screen) -> None:
    """Close all views above the overview with Escape."""

    def is_overview_open() -> bool:
        view = running_app.app.navigation.view
        return view is not None and view is running_app.app.screen and view.NAME == "overview"

    for _step in range(8):
        if not is_overview_open():
            await running_app.press("escape")
    assert is_overview_open(), running_app.text()


def check_painted_rows(running_app: Screen) -> None:
    """Check that every painted row is as wide as the terminal and has no control characters."""
    size = running_app.app.size
    strips = running_app.app.screen._compositor.render_strips()
    assert len(strips) == size.height
    for y, strip in enumerate(strips):
        row = "".join(segment.text for segment in strip if not segment.control)
        assert not find_harmful_character(row, ""), (y, find_harmful_character(row), row)
        assert not any(segment.control for segment in strip)
        assert cell_len(row) == size.width, (y, cell_len(row), row)
