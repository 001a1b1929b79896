"""The app: a shell that holds the session, the services and the views, and hands each key and message to its owner.

Widgets never wait for Redis: a key becomes a request in the ticker's inbox, and its answer comes back as a message.
`services/changes.py` decides what a key means, `screens/` draw, `session.py` is what is known of Redis.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.actions import SkipAction
from textual.app import App, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.notifications import Notify, SeverityLevel
from textual.screen import Screen
from textual.timer import Timer

from rqtui.config.settings import INTERVAL_S, Settings
from rqtui.model import Finding, Job, Ref
from rqtui.session import make_engine
from rqtui.text import formats
from rqtui.text.body import also_mask
from rqtui.text.sanitise import safe
from rqtui.tui import keys, session
from rqtui.tui.format import theme
from rqtui.tui.screens import registry
from rqtui.tui.screens.overview import Overview
from rqtui.tui.services import crash
from rqtui.tui.services.batches import Batches
from rqtui.tui.services.changes import Changes
from rqtui.tui.services.connection_lost import AWAY_ACTIONS, AWAY_BINDINGS, ConnectionLost
from rqtui.tui.services.demo import DemoStrip
from rqtui.tui.services.header_footer import HeaderFooter
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.palette import Commands, Palette
from rqtui.tui.services.profiles import Profiles, openable
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.slow_link import SlowLink
from rqtui.tui.services.undo import Undo
from rqtui.tui.services.write_lock import WriteLock
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.terminal import fault, hangup, hooks, job_control, style_cache
from rqtui.tui.terminal.ascii_filter import ASCII
from rqtui.tui.widgets.toast import Toast

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop
    from rqtui.scenarios.run import Run
    from rqtui.verbs import Verb

SOON_S = 0.06  # a held key asks for one detail, not for thirty
LEAVE_S = 1.0  # that the end waits for Redis
TWICE_S = 2.0  # between two Ctrl+C that leave
TOAST = 72  # cells of a line


OPENED_CSS = Path(__file__).with_name("opened.tcss")  # a first picture does not wait for it
OVERVIEW, OVERVIEW_ANEW = "overview", "overview-anew"
"""The modes of the app, one at a time: the first screen of a mode stays, so another overview needs another mode."""


class Cockpit(App[None]):
    """rqtui on a terminal."""

    CSS_PATH = Path(__file__).with_name("rqtui.tcss")  # absolute, so that a subclass elsewhere finds it
    TITLE = "rqtui"
    # Those without Redis first: they mean something only while there is none, and nothing else does then.
    BINDINGS: ClassVar[list[BindingType]] = [*AWAY_BINDINGS, *keys.bindings()]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {OVERVIEW: Overview}
    DEFAULT_MODE = OVERVIEW

    def __init__(
        self,
        settings: Settings,
        demo: Run | None = None,
        *,
        interval_s: float = INTERVAL_S,
        open_queue: str = "",
        theme_name: str = theme.DARK,
        foreign_loops: bool = False,
        make_engine: Callable[[Settings], Engine] = make_engine,
    ) -> None:
        """`demo` is a running scenario; the board of `open_queue` is opened at the start.

        `foreign_loops`: the dispatcher and the reaper serve queues of other systems from the start, too.
        """
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        theme.install(self, theme_name)  # type: ignore[arg-type]
        self.stylesheet.set_variables(self.get_css_variables())  # before it is read: see `refresh_css`
        self._theme_read: str | None = self.theme
        hooks.install(self)
        fault.install(self, self._explain_fault, settings.is_debug)
        also_mask(settings.redact)
        self._open_queue, self._make_engine = open_queue, make_engine
        self._soon: Timer | None = None
        self._left_s = -TWICE_S  # when Ctrl+C was pressed last
        self.navigation = Navigation(self, registry.make, self._show_frame)
        self.connection_lost = ConnectionLost(self, self.navigation, self._restart)
        is_colourless = theme_name == theme.ANSI != settings.theme
        self.profiles = Profiles(self, self._switch, self._is_changing, is_colourless=is_colourless)
        self._open(settings, demo, interval_s, serves_foreign=foreign_loops)

    def _open(self, settings: Settings, demo: Run | None, interval_s: float, *, serves_foreign: bool) -> None:
        """A session with the Redis of the settings, of which nothing is known yet, and the services that go with it."""
        navigation = self.navigation
        self.session = made = Session(
            settings, demo, lambda: self._make_engine(settings), self.post_message, interval_s
        )
        self.slow_link = SlowLink(self, settings.is_calm)
        self.journal = SessionJournal(self, made)
        self.undo = Undo(self, made, navigation)
        self.batches = Batches(self, made, navigation, self.journal)
        self.changes = Changes(self, made, navigation, self.batches, self.undo, self.journal)
        self.loops = Loops(self, made, navigation, serves_foreign=serves_foreign)
        self.write_lock = WriteLock(self, made, self.journal, self.loops, self.changes.stop)
        self.header_footer = HeaderFooter(
            self, made, navigation, self.changes, self.undo, self.loops, self.write_lock, self._demo_words
        )
        profiles = self.profiles
        self.palette = Palette(self, made, navigation, self.changes.offered, profiles.commands, profiles.go_to_url)
        self.demo = DemoStrip(self, demo, navigation) if demo else None
        for each in keys.demo_bindings(demo.controls) if demo else ():
            self.bind(each.key, each.action, description=each.description, show=each.show)
        self._warned: tuple[Finding, ...] = ()

    def _switch(self, settings: Settings, demo: Run | None) -> None:
        """Ends the session, and opens another one on an overview of its own."""
        before = self.session
        self.changes.stop()
        self.write_lock.end()
        before.ticker.stop(0)  # not waited for: a step may be under way on a slow link
        for loop in before.loops.values():
            loop.stop(0)
        self._open(settings, demo, settings.interval_s, serves_foreign=demo is not None and demo.scenario.loops)
        mode = self.current_mode
        anew = OVERVIEW if mode == OVERVIEW_ANEW else OVERVIEW_ANEW
        self.add_mode(anew, Overview)
        self.switch_mode(anew)  # the first picture of its overview starts the ticker
        self.remove_mode(mode)

    def _is_changing(self) -> bool:
        """Whether a change of many jobs runs, which would stop with the session."""
        return self.changes.progress() is not None

    def _restart(self, settings: Settings, demo: Run | None) -> None:
        """Asks another Redis from now on; of this one nothing was ever seen."""
        self.profiles.switch_to(settings, demo=demo)
        if self.demo:
            self.demo.introduce()

    # -- start and end --------------------------------------------------------------------------------------------

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours for themes that lack them."""
        return theme.defaults(self.current_theme)

    def push_screen(self, screen: Any, *given: Any, **named: Any) -> Any:
        """Opens a view or a dialog; with the first of them the rules for all of them are read."""
        if not self.stylesheet.has_source(str(OPENED_CSS)):
            self.stylesheet.add_source(OPENED_CSS.read_text("utf-8"), (str(OPENED_CSS), ""))
        return super().push_screen(screen, *given, **named)

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for it before the first picture, too, where the stylesheet was read with these very colours."""
        if self.theme != self._theme_read:
            self._theme_read = None
            super().refresh_css(animate)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every painted line goes through."""
        return [*super().get_line_filters(), *([ASCII] if self.session.settings.is_ascii else ())]

    def on_load(self) -> None:
        """From Python 3.12 on Textual begins tasks eagerly: fields of the first screen then look for it too early."""
        asyncio.get_running_loop().set_task_factory(None)

    def on_mount(self) -> None:
        """Starts the threads, and listens to the signals that end a terminal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Textual leaves the alternate screen and the mouse on when one of these ends it.
            loop.add_signal_handler(number, self.exit)
        hangup.watch(lambda: loop.call_soon_threadsafe(self.exit))
        self.screen_change_signal.subscribe(self, lambda _screen: style_cache.forget())
        self._clock = self.set_interval(1.0, self._tell_time)
        self.profiles.use_keymap()
        self.profiles.tell_config()
        if self.demo:
            self.demo.introduce()

    def connect_soon(self) -> None:
        """The overview stands: draws what is known without Redis, and only then begins to talk to it."""
        self.show_header()
        self.show_keys()
        self.call_after_refresh(self._start_ticker)

    def _start_ticker(self) -> None:
        """The first picture stands: its objects stay until the end, and the rest may be collected from now on."""
        if not gc.isenabled():  # `opening` held it up
            gc.freeze()
            gc.enable()
        self.session.ticker.start()

    def on_unmount(self) -> None:
        """Ends the threads; what is under way is waited for, shortly, and for all of them together."""
        ends = [self.session.ticker.stop, *(loop.stop for loop in self.session.loops.values())]
        for stop in ends:
            stop(0)
        until_s = time.monotonic() + LEAVE_S
        for stop in ends:
            stop(max(0.0, until_s - time.monotonic()))
        self.connection_lost.end()
        self.slow_link.end()

    def _explain_fault(self, error: BaseException | None) -> str:
        settings = self.session.settings
        return crash.sentences(error, settings.url, is_debug=settings.is_debug)

    # -- from the engine's thread; what the one of a session that is over still says is of no interest ----------------

    def on_connected(self, message: session.Connected) -> None:
        """The engine was made."""
        if message.session is not self.session:
            return
        engine = message.what.engine
        self.session.connected(engine)
        self.journal.keep(engine)
        self.loops.begin(engine)
        if self._open_queue:
            self.open_board(engine.find(self._open_queue))

    def on_refreshed(self, message: session.Refreshed) -> None:
        """A picture was taken: draws it."""
        if message.session is not self.session:
            return
        now, snapshot = self.session, message.what.snapshot
        was_dark, is_first, known = now.is_old or now.snapshot is None, now.snapshot is None, now.refs
        now.pictured_anew(message.what)
        self._warn()
        self.slow_link.feel(snapshot.cost.ms)
        self._wind_clock()
        for drawn in self.navigation.drawn() if was_dark else ():
            drawn.diagnose(None)
            drawn.dim(False)
        view = self.navigation.view
        if view and view.is_drawn:
            view.show(snapshot)
            now.ticker.look_next_at(view.focus_wish(now.refs))
        self.show_header()
        self.show_keys()
        if is_first or known != now.refs:
            self.look_again()

    def on_lost(self, message: session.Lost) -> None:
        """Redis is away: the last picture stays, dimmed."""
        if message.session is not self.session:
            return
        self.session.lost, self.session.failed = message.what, None
        self._wind_clock()
        for view in self.navigation.drawn():
            view.dim(True)
        self.connection_lost.show()
        self.show_header()
        self.show_keys()

    def on_acted(self, message: session.Acted) -> None:
        """Outcomes of a change."""
        if message.session is self.session:
            self.batches.acted(message.what)

    def on_answered(self, message: session.Answered) -> None:
        """An answer to a question."""
        if message.session is self.session:
            self.session.answered(message.what)

    def on_failed(self, message: session.Failed) -> None:
        """A picture could not be taken: the last one stays, dimmed, under the reason."""
        if message.session is not self.session:
            return
        before, self.session.lost, self.session.failed = self.session.failed, None, message.what
        if before is None or before.error != message.what.error:
            self.say(message.what.error, "error")
        self._wind_clock()
        for view in self.navigation.drawn():
            view.diagnose(None)
            view.dim(True)
        self.show_header()
        self.show_keys()

    def _warn(self) -> None:
        """Says what is urgent about the server, when it begins to be so."""
        engine = self.session.engine
        now = engine.warnings if engine else ()
        for finding in now:
            if finding not in self._warned:
                self.say(f"{finding.text}: {finding.remedy}", "warning", timeout=20)
        self._warned = now

    def _wind_clock(self) -> None:
        """Runs the timer where something changes between two pictures: at rest its ticks were an eighth of the work."""
        if self.session.is_old or self.demo or self.session.ticker.wait_s > INTERVAL_S:
            self._clock.resume()
        else:
            self._clock.pause()

    def _tell_time(self) -> None:
        """What changes by itself: the ages of a lost connection, the loops' words, a demo's figures."""
        if self.demo:
            self.demo.tell()
        if self.slow_link.is_calm:
            return
        if self.session.lost:
            self.connection_lost.show()
        self.show_header()
        view = self.navigation.view
        if view and view.is_drawn:
            view.show_happened()
            view.count_down()

    # -- from Textual -------------------------------------------------------------------------------------------------

    def on_app_blur(self) -> None:
        """The terminal is not in sight, where it tells."""
        self.session.ticker.rest(True)

    def on_app_focus(self) -> None:
        """The terminal is in sight again."""
        self.session.ticker.rest(False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """On a slow link its cursor does not blink."""
        self.slow_link.focused(event.widget)

    def handle_bindings_clash(self, clashed: set[Binding], _node: DOMNode) -> None:
        """Two bindings have the same key."""
        self.profiles.tell_clash(clashed)

    # -- the host of screens and services -----------------------------------------------------------------------------

    def say(self, words: str, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        """A toast: what happened, in words that are made safe here."""
        lines = formats.wrap(safe(words), max(20, min(TOAST, self.size.width - 8)))
        time_s = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(Notify(Toast("\n".join(lines), severity=severity, timeout=time_s)))

    def show_header(self) -> None:
        """The two lines above and a demo's strip, as they are now."""
        self.header_footer.show_header()

    def show_keys(self) -> None:
        """The footer, for what is under the cursor now."""
        self.header_footer.show_keys()

    def look_again(self) -> None:
        """Takes a picture of what the view on top wants."""
        view = self.navigation.view
        if view and view.is_drawn:
            self.session.ticker.look_at(view.focus_wish(self.session.refs))

    def look_soon(self) -> None:
        """Takes it in a moment, once."""
        if self._soon is not None:
            self._soon.stop()
        self._soon = self.set_timer(SOON_S, self.look_again)

    def _show_frame(self) -> None:
        """Another view is on top."""
        self.connection_lost.show()
        self.look_again()
        self.show_header()
        self.show_keys()

    def go(self, view: Screen[None]) -> None:
        """Shows a view on top of this one."""
        self.navigation.go(view)

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""
        self.navigation.open_board(ref)

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""
        self.navigation.open_job(ref, job)

    def check_verb(self, key: str) -> bool | None:
        """Whether a verb's key works now: False hides it, None shows it grey."""
        return self.changes.check(key)

    def begin(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """The way from a verb to its request."""
        self.changes.begin(verb, target, is_chosen=is_chosen)

    def begin_many(self, verb: str, chosen: Sequence[tuple[Ref, Sequence[Job]]], about: str, counted: str = "") -> None:
        """A verb on jobs of several queues."""
        self.changes.begin_many(verb, chosen, about, counted)

    def shown_loops(self) -> dict[str, tuple[Loop, bool]]:
        """The loops that mean something for the queue in focus, and whether each serves it."""
        return self.loops.shown()

    def export_operations(self) -> None:
        """Writes the journal of this session into files."""
        self.journal.export()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hidden when changes are off or the layout has no such script; grey when it does not fit here."""
        if action == "verb":
            return self.check_verb(str(parameters[0]))
        if action in ("toggle_loop", "step_loop"):
            return not self.session.is_read_only and bool(self.session.loops)
        if action in ("undo", "lock"):
            return not self.session.is_read_only
        if action == "unlock":
            return self.write_lock.can_unlock
        if action == "demo":
            return self.demo is not None
        return self.session.is_away if action in AWAY_ACTIONS else True

    def action_verb(self, key: str) -> None:
        """Does what a key for changes means here."""
        self.changes.press(key)

    def action_undo(self) -> None:
        """Takes back a change."""
        self.undo.press()

    def action_toggle_loop(self, verb: str) -> None:
        """Stops or starts the dispatcher or the reaper."""
        self.loops.toggle(verb)

    def action_step_loop(self, verb: str) -> None:
        """One step of a loop."""
        self.loops.step(verb)

    def action_unlock(self, duration: str) -> None:
        """Lets changes through for so long."""
        self.write_lock.unlock(duration)

    def action_lock(self) -> None:
        """No more changes."""
        self.write_lock.lock()

    def action_export_operations(self) -> None:
        """Writes the journal of this session into files."""
        self.journal.export()

    async def action_back(self) -> None:
        """Stops a change of many jobs; else one step back; on the overview, nothing."""
        if not self.changes.stop():
            self.navigation.back()

    async def action_quit_or_back(self) -> None:
        """One step back; on the overview, the end."""
        if self.navigation.is_at_the_first:
            self._quit()
        else:
            await self.action_back()

    def _quit(self) -> None:
        """Ends the program, asking first while a change of many jobs runs."""
        if not self._is_changing():
            self.exit()
            return
        from rqtui.tui.widgets.dialogs import stops_changes

        def decided(given: object) -> None:
            if given is not None:
                self.exit()

        self.push_screen(stops_changes("Quit", "quit"), decided)

    async def action_quit(self) -> None:
        """The end."""
        self._quit()

    def action_leave(self) -> None:
        """Ctrl+C: copies what is selected in a field; else says how to leave, and the second time leaves at once."""
        if getattr(self.focused, "selected_text", ""):
            raise SkipAction
        now_s = time.monotonic()
        if now_s - self._left_s <= TWICE_S:
            self.exit()
            return
        self._left_s = now_s
        steps = f"{keys.key('back')} goes one step back, {keys.key('quit')} on the overview quits"
        self.say(f"{steps}; {keys.key('leave')} once more leaves at once.", timeout=TWICE_S)

    def action_suspend_process(self) -> None:
        """Ctrl+Z: stops until the shell says `fg`."""
        try:
            lasted_s = job_control.stop(self)
        except SuspendNotSupported as error:
            self.say(f"{keys.key('suspend')} stops nothing: {error}.", "warning")
            return
        self.session.ticker.refresh()
        if any(loop.is_running for loop in self.session.loops.values()):
            age = formats.age(lasted_s * 1000)
            self.say(f"Awake again after {age}: the loops of this screen stood still, too.", "warning")

    def action_open_view(self, name: str) -> None:
        """Goes to one of the views in `registry.VIEWS`."""
        self.navigation.open_view(name)

    def action_list_views(self) -> None:
        """The list of views, from which a letter or Enter leads to one."""
        from rqtui.tui.widgets.view_list import ViewList

        if not self.navigation.is_asking:
            self.push_screen(ViewList(self.header_footer.doors()), self._go_to_view)

    def _go_to_view(self, name: str | None) -> None:
        if name:
            self.navigation.open_view(name)

    def action_command_palette(self) -> None:
        """Finds anything."""
        self.palette.open()

    def action_help(self) -> None:
        """Every key."""
        self.navigation.show_keys_page(self._keys_here())

    def _keys_here(self) -> frozenset[str]:
        """The ids of this screen's looks and the names of the verbs that do something here and now."""
        name = self.navigation.view.NAME if self.navigation.view else ""
        looks = {look.id for look in keys.looks() if name in look.screens and self.palette.is_of_use(look)}
        verbs = (self.changes.verb_for(key) for key in keys.VERB_KEYS if self.changes.check(key))
        return frozenset(looks | {verb.name for verb in verbs if verb is not None})

    def action_copy_as(self) -> None:
        """Asks in which form to copy what is under the cursor, or marked."""
        from rqtui.tui.services.copying import Copying

        view = self.navigation.view
        if view is not None and not self.navigation.is_asking:
            Copying(self, view).offer()

    def action_refresh_now(self) -> None:
        """A new picture, and a look for new queues."""
        self.session.ticker.discover()
        view = self.navigation.view
        if view is not None and view.is_drawn:
            view.anew()

    def action_interval(self, factor: float) -> None:
        """Refreshes half as often or twice as often."""
        self.session.refresh_every(self.session.ticker.interval_s * factor)

    def action_demo(self) -> None:
        """What to try in this demo."""
        if self.demo:
            self.demo.show_page()

    def action_demo_control(self, name: str) -> None:
        """A key of the demo's strip."""
        if self.demo:
            self.demo.press(name)

    def _demo_words(self) -> str:
        return self.demo.words if self.demo else ""

    def action_edit_url(self) -> None:
        """Asks for another URL."""
        self.connection_lost.edit_url()

    def action_open_demo(self) -> None:
        """Starts a Redis of its own, and a demo on it."""
        self.connection_lost.open_demo()


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
        foreign_loops=demo is not None and demo.scenario.loops,
    )
    app.run()
    return app.return_code or 0


__all__ = ["Cockpit", "run"]
