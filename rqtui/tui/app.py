"""The app: holds the engine's thread, the loops and the last picture, and carries keys to verbs.

Widgets never wait for Redis: a key becomes a request in the ticker's inbox, and its answer comes back as a message.
`acts.py` decides what a key means here, `chrome.py` what the lines around a view say.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual._compositor import ChopsUpdate
from textual._styles_cache import StylesCache
from textual.app import App
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

from rqtui import server, tick
from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Ref, Snapshot
from rqtui.settings import INTERVAL_S, LONGEST_S, SHORTEST_S, Settings
from rqtui.tui import display, hangup, happened, keys, theme
from rqtui.tui.ascii_look import ASCII
from rqtui.tui.away import AWAY_ACTIONS, AWAY_BINDINGS, Away
from rqtui.tui.calm import Calm
from rqtui.tui.changes import Changes
from rqtui.tui.crash import Crash
from rqtui.tui.frame import Frame
from rqtui.tui.guard import Guard
from rqtui.tui.navigation import Navigation
from rqtui.tui.overview import Overview
from rqtui.tui.palette import Palette
from rqtui.tui.playing import Playing
from rqtui.tui.profiles import Profiles, openable
from rqtui.tui.served import Served
from rqtui.tui.spans import Spans
from rqtui.tui.typeahead import Typeahead
from rqtui.tui.view import Target, View

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rqtui.engine import Engine
    from rqtui.layout import Layout
    from rqtui.scenarios.run import Run

PLAIN_URL = re.compile(r"redis://[\w.-]+(:\d{1,5})?(/\d*)?", re.ASCII)  # beyond doubt, without importing redis
SOON_S = 0.06  # a held key asks for one detail, not for thirty
REMEMBERED = 200  # changes made here
LEAVE_S = 1.0  # that the end waits for Redis
TOAST = 72  # cells of a line


class Heard(Message):
    """A message of the ticker's thread."""

    def __init__(self, ticker: tick.Ticker, what: tick.Message) -> None:
        super().__init__()
        self.ticker, self.what = ticker, what


class Cockpit(
    Changes, Frame, Served, Away, Calm, Crash, Guard, Navigation, Palette, Playing, Profiles, Typeahead, App[None]
):
    """rqtui on a terminal."""

    CSS_PATH = Path(__file__).with_name("rqtui.tcss")  # absolute, so that a subclass elsewhere finds it
    TITLE = "rqtui"
    # Those of `Away` first: they mean something only while there is no Redis, and nothing else does then.
    BINDINGS: ClassVar[list[BindingType]] = [*AWAY_BINDINGS, *keys.bindings()]

    def __init__(
        self,
        settings: Settings,
        demo: Run | None = None,
        *,
        interval_s: float = INTERVAL_S,
        open_queue: str = "",
        theme_name: str = theme.DARK,
        foreign_loops: bool = False,
    ) -> None:
        """`demo` is a running scenario; the board of `open_queue` is opened at the start.

        `foreign_loops`: the dispatcher and the reaper serve queues of other systems from the start, too.
        """
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        theme.install(self, theme_name)  # type: ignore[arg-type]
        self.stylesheet.set_variables(self.get_css_variables())  # before it is read: see `refresh_css`
        self._is_css_fresh = True
        self.is_colourless = theme_name == theme.ANSI != settings.theme  # by NO_COLOR, whatever a profile says
        self.settings = settings
        display.also_mask(settings.redact)
        self.demo = demo
        self._open_queue = open_queue
        self.ticker = self.make_ticker(interval_s)
        self.serves_foreign = foreign_loops
        self.layouts: Mapping[
            str, Layout
        ] = {}  # outlive a session: the view of the one before may draw itself once more
        self._soon: Timer | None = None
        self.begin_session()

    def begin_session(self) -> None:
        """Nothing is known of the Redis of the settings."""
        super().begin_session()
        self.engine: Engine | None = None
        self.refs: list[Ref] = []
        self.snapshot: Snapshot | None = None
        self.lost: tick.Lost | None = None
        self._pictured = Focus()
        self._warned: tuple[Finding, ...] = ()
        self.changes: deque[happened.Entry] = deque(maxlen=REMEMBERED)

    # -- start and end --------------------------------------------------------------------------------------------

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours for themes that lack them."""
        return theme.defaults(self.current_theme)

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for it before the first picture, too, where the stylesheet was read with these very colours."""
        if not self._is_css_fresh:
            super().refresh_css(animate)
        self._is_css_fresh = False

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every painted line goes through."""
        return [*super().get_line_filters(), *([ASCII] if self.settings.is_ascii else ())]

    def get_default_screen(self) -> Screen[Any]:
        """The overview is what everything begins and ends on."""
        return Overview()

    def on_mount(self) -> None:
        """Starts the threads, and listens to the signals that end a terminal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Textual leaves the alternate screen and the mouse on when one of these ends it.
            loop.add_signal_handler(number, self.exit)
        hangup.watch(lambda: loop.call_soon_threadsafe(self.exit))
        # Textual 8 keeps the last 1 024 widgets' painted lines alive in the cache of a method, also of views that are
        # closed: with one opened each five seconds the screen grew by 3.5 MB a minute.
        self.screen_change_signal.subscribe(self, lambda _screen: StylesCache.get_inner_outer.cache_clear())
        self._clock = self.set_interval(1.0, self._tell_time)
        self.use_keymap()
        self.tell_config()
        self.introduce_demo()

    def connect_soon(self) -> None:
        """The overview stands: draws what is known without Redis, and only then begins to talk to it."""
        self.show_header()
        self.show_keys()
        self.call_after_refresh(self._start_ticker)

    def _start_ticker(self) -> None:
        """The first picture stands: what was made for it stays for good, and the rest may be collected from now on."""
        if not gc.isenabled():  # `opening` held it up
            gc.freeze()
            gc.enable()
        self.ticker.start()

    def _connected(self, message: tick.Ready) -> None:
        self.engine, self.layouts = message.engine, message.engine.layouts
        self.guard_engine(message.engine)
        self.begin_loops(message.engine)
        if self._open_queue:
            self.open_board(message.engine.find(self._open_queue))

    def on_unmount(self) -> None:
        """Ends the threads; what is under way is waited for, shortly, and for all of them together."""
        ends = [self.ticker.stop, *(loop.stop for loop in self.loops.values())]
        for stop in ends:
            stop(0)
        until_s = time.monotonic() + LEAVE_S
        for stop in ends:
            stop(max(0.0, until_s - time.monotonic()))

    # -- from the threads -----------------------------------------------------------------------------------------

    def make_ticker(self, interval_s: float) -> tick.Ticker:
        """The thread that talks to the Redis of the settings."""
        settings = self.settings
        ticker = tick.Ticker(lambda: make_engine(settings), lambda what: self._post(what, ticker), interval_s)
        return ticker

    def _post(self, what: tick.Message, ticker: tick.Ticker | None = None) -> None:
        self.post_message(Heard(ticker or self.ticker, what))

    def on_heard(self, message: Heard) -> None:
        """A picture, a loss, outcomes, an answer; what a ticker still says after a switch is of no interest."""
        if message.ticker is not self.ticker:
            return
        what = message.what
        if isinstance(what, tick.Ready):
            self._connected(what)
        elif isinstance(what, tick.Refreshed):
            self._refreshed(what)
        elif isinstance(what, tick.Lost):
            self._lose(what)
        elif isinstance(what, tick.Acted):
            self.acted(what)
        elif callable(what.key):
            what.key(what)
        elif what.error:
            self.say(what.error, "error")

    def _refreshed(self, message: tick.Refreshed) -> None:
        was_lost, self.lost = self.lost is not None, None
        is_first = self.snapshot is None
        known = self.refs
        self.snapshot, self.refs = message.snapshot, list(self.engine.refs) if self.engine else []
        self._pictured = message.focus
        self._warn()
        self.feel(message.snapshot.cost.ms)
        self._wind_clock()
        if was_lost or is_first:
            for drawn in self.drawn_views():
                drawn.diagnose(None)
                drawn.dim(False)
        view = self.view
        if view and view.is_drawn:
            view.show(message.snapshot)
            self.ticker.look_next_at(view.focus_wish(self.refs))
        self.show_header()
        self.show_keys()
        if is_first or known != self.refs:
            self.look_again()

    def _warn(self) -> None:
        """Says what is urgent about the server, when it begins to be so."""
        now = self.engine.warnings if self.engine else ()
        for finding in now:
            if finding not in self._warned:
                self.say(f"{finding.text}: {finding.remedy}", "warning", timeout=20)
        self._warned = now

    def _lose(self, message: tick.Lost) -> None:
        self.lost = message
        self._wind_clock()
        for view in self.drawn_views():
            view.dim(True)
        self.show_diagnosis()
        self.show_header()
        self.show_keys()

    def _wind_clock(self) -> None:
        """It goes where something changes between two pictures: at rest its ticks alone were an eighth of the work."""
        if self.lost or self.demo or self.ticker.wait_s > INTERVAL_S:
            self._clock.resume()
        else:
            self._clock.pause()

    def _tell_time(self) -> None:
        """What changes by itself: the ages of a lost connection, the loops' words, a demo's figures."""
        self.tell_demo()
        if self.is_calm:
            return
        if self.lost:
            self.show_diagnosis()
        self.show_header()
        view = self.view
        if isinstance(view, Overview) and view.is_drawn:
            view.show_happened()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """What Textual sends to the terminal, as few bytes of it as do."""
        super()._display(screen, Spans.of(renderable) if isinstance(renderable, ChopsUpdate) else renderable)

    # -- the picture ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """The full screen on top, under any dialog."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, View)), None)

    def drawn_views(self) -> list[View]:
        """The views on the stack that can be drawn into, the one on top last."""
        return [screen for screen in self.screen_stack if isinstance(screen, View) and screen.is_drawn]

    def target(self) -> Target:
        """What a verb would act on now."""
        return self.view.target() if self.view else Target()

    def system_of(self, ref: Ref) -> str:
        """Which system a queue belongs to, where that is worth a word: it is another one than ours."""
        return "" if self.layouts[ref.layout].loops_by_default else ref.layout

    def is_pictured(self, ref: Ref, id: bytes) -> bool:
        """Whether the last picture was asked for this job."""
        return self._pictured.job == (ref, id)

    def find(self, name: str) -> Ref:
        """The queue of that name; UsageError in words where it cannot be one."""
        if self.engine is None:
            raise UsageError("not connected yet.")
        return self.engine.find(name)

    def look_again(self) -> None:
        """Takes a picture of what the view on top wants."""
        view = self.view
        if view and view.is_drawn:
            self.ticker.look_at(view.focus_wish(self.refs))

    def look_soon(self) -> None:
        """Takes it in a moment, once."""
        if self._soon is not None:
            self._soon.stop()
        self._soon = self.set_timer(SOON_S, self.look_again)

    def happened(self, most: int) -> list[happened.Entry]:
        """What the loops and this screen did lately, the newest first."""
        return happened.entries(self.loops.values(), self.changes, most)

    # -- keys that look -------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hidden when changes are off or the layout has no such script; grey when it does not fit here."""
        if action in ("toggle_loop", "step_loop"):
            return not self.is_read_only and bool(self.loops)
        if action == "undo":
            return not self.is_read_only
        if action == "demo":
            return self.demo is not None
        if action in AWAY_ACTIONS:
            return self.is_away
        return self.check_verb(str(parameters[0])) if action == "verb" else True

    def ask(self, function: Callable[[Engine], Any], then: Callable[[tick.Answered], None]) -> None:
        """Runs a short function with the engine, on its thread; `then` gets the answer, on this one."""
        self.ticker.call(then, function)

    def work(self, function: Callable[[Engine], Iterator[Any]], then: Callable[[tick.Answered], None]) -> None:
        """The same with a generator of round trips; `then` gets each step. `ticker.end_work(then)` ends it."""
        self.ticker.work(then, function)

    def action_copy_as(self) -> None:
        """Asks in which form to copy what is under the cursor, or marked."""
        from rqtui.tui.copying import Copying

        Copying(self).offer()

    def action_refresh_now(self) -> None:
        """A new picture, and a look for new queues."""
        self.ticker.discover()
        if self.view is not None and self.view.is_drawn:
            self.view.anew()

    def action_interval(self, factor: float) -> None:
        """Refreshes half as often or twice as often, between 0.25 s and a minute."""
        self.set_interval_s(self.ticker.interval_s * factor)

    def set_interval_s(self, seconds: float) -> None:
        """Refreshes so often from now on."""
        self.ticker.interval_s = min(LONGEST_S, max(SHORTEST_S, seconds))
        self.ticker.refresh()

    def say(self, words: str, severity: str = "information", timeout: float | None = None) -> None:
        """A toast: what happened, in words that are made safe here."""
        lines = display.wrap(display.safe(words), max(20, min(TOAST, self.size.width - 8)))
        self.notify("\n".join(lines), severity=severity, markup=False, timeout=timeout)  # type: ignore[arg-type]


def make_engine(settings: Settings) -> Engine:
    """The engine of these settings; nothing is sent yet. Raises UsageError for a layout or a URL that cannot be."""
    from rqtui import layouts
    from rqtui.engine import Engine

    client, made = server.connect(settings.url), layouts.make_all(settings.layouts)
    return Engine(client, made, settings.read_only, denied=settings.denied, profile=settings.profile)


def run(settings: Settings, demo: Run | None = None, *, open_queue: str = "", interval_s: float | None = None) -> int:
    """Opens the screen until the person leaves; returns the exit code.

    Raises UsageError for a URL or a layout of the command line that cannot be. What the config file has wrong is said
    on the screen, which opens all the same.
    """
    settings = openable(settings)
    app = Cockpit(
        settings,
        demo,
        open_queue=open_queue,
        interval_s=interval_s or settings.interval_s,
        theme_name=theme.preferred(os.environ, settings.theme),
        foreign_loops=demo is not None,
    )
    app.run()
    return app.return_code or 0


__all__ = ["Cockpit", "run"]
