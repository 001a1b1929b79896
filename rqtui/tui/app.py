"""Provide the Textual app, which owns the session, the services and the views, and routes each key and message to them.

Widgets never wait for Redis: a key press puts a request into the ticker's inbox, and the reply comes back as a Textual
message. `services/verb_starter.py` starts the change that a key stands for, `screens/` draw, and `session.py` stores
what was read from Redis.
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
from rqtui.session import create_engine
from rqtui.text import formats
from rqtui.text.masking import set_mask_patterns
from rqtui.text.sanitise import safe
from rqtui.tui import keys, session
from rqtui.tui.format import theme
from rqtui.tui.screens import registry
from rqtui.tui.screens.overview import Overview
from rqtui.tui.services import crash
from rqtui.tui.services.batches import Batches
from rqtui.tui.services.connection_lost import AWAY_ACTIONS, AWAY_BINDINGS, ConnectionLost
from rqtui.tui.services.demo import DemoStrip
from rqtui.tui.services.frame_content import FrameContent
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.palette import CommandProvider, Palette
from rqtui.tui.services.profiles import Profiles, remove_invalid_settings
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.slow_link import SlowLink
from rqtui.tui.services.time_bar import TimeBar
from rqtui.tui.services.undo import Undo
from rqtui.tui.services.verb_starter import VerbStarter
from rqtui.tui.services.write_lock import WriteLock
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.terminal import hangup, hooks, job_control, style_cache, uncaught_error
from rqtui.tui.terminal.ascii_filter import ASCII
from rqtui.tui.widgets.toast import Toast

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.loops import Loop
    from rqtui.scenarios.run import Run
    from rqtui.verbs import Verb

REFRESH_DELAY_S = 0.06  # so that a held key requests one detail, not thirty
EXIT_TIMEOUT_S = 1.0  # longest wait for Redis when the program ends
DOUBLE_PRESS_S = 2.0  # longest time between two Ctrl+C presses that quit
TOAST_CELLS = 72  # cells per line of a toast


# Loaded with the first view or dialog, so that the first paint does not wait for it.
DEFERRED_CSS = Path(__file__).with_name("opened.tcss")
OVERVIEW, SECOND_OVERVIEW = "overview", "overview-anew"
"""Textual modes that alternate: a mode keeps its first screen, so a new session's overview needs another mode."""

CHANGES = ("verb", "undo")  # keys that are answered with a sentence in a recording
_STANDING_WARNINGS = frozenset({"no-persistence"})  # states that last: the overview shows them, and no toast does


class Cockpit(App[None]):
    """The terminal app of rqtui: a Textual app that owns the session, its services and the views."""

    CSS_PATH = Path(__file__).with_name("rqtui.tcss")  # absolute, so that a subclass in another folder finds it
    TITLE = "rqtui"
    # Bindings for a missing Redis come first: only these work while no Redis was ever reached.
    BINDINGS: ClassVar[list[BindingType]] = [*AWAY_BINDINGS, *keys.build_app_bindings()]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {CommandProvider}
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
        create_engine: Callable[[Settings], Engine] = create_engine,
        is_replay: bool = False,
    ) -> None:
        """Create the app for the Redis of `settings`; nothing is connected yet.

        `demo` is a running scenario. `open_queue` names a queue whose board is opened at the start. With
        `foreign_loops` the dispatcher and the reaper also serve queues of other systems from the start. With
        `is_replay`, `create_engine` returns a `ReplayEngine`, and nothing is connected at all.
        """
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        theme.register_themes(self, theme_name)  # type: ignore[arg-type]
        # The variables must be set before the style sheet is read, or `refresh_css` would have to read it again.
        self.stylesheet.set_variables(self.get_css_variables())
        self._stylesheet_theme: str | None = self.theme
        hooks.install_hooks(self)
        uncaught_error.install_error_output(self, self._describe_crash, settings.is_debug)
        set_mask_patterns(settings.redact)
        self._open_queue, self._make_engine, self._is_replay = open_queue, create_engine, is_replay
        self._refresh_timer: Timer | None = None
        self._last_interrupt_s = -DOUBLE_PRESS_S  # time.monotonic() of the last Ctrl+C
        self.navigation = Navigation(self, registry.create_view, self._show_top_view)
        self.connection_lost = ConnectionLost(self, self.navigation, self._switch_redis)
        is_colourless = theme_name == theme.ANSI != settings.theme
        self.profiles = Profiles(self, self._switch_session, self._is_long_change_running, is_colourless=is_colourless)
        self._open_session(settings, demo, interval_s, serves_foreign=foreign_loops)

    def _open_session(self, settings: Settings, demo: Run | None, interval_s: float, *, serves_foreign: bool) -> None:
        """Create a session for the Redis of `settings`, and the services that belong to that session."""
        navigation = self.navigation
        self.session = new_session = Session(
            settings,
            demo,
            lambda: self._make_engine(settings),
            self.post_message,
            interval_s,
            is_replay=self._is_replay,
        )
        self.time_bar = TimeBar(self, new_session)
        self.slow_link = SlowLink(self, settings.is_calm)
        self.journal = SessionJournal(self, new_session)
        self.undo = Undo(self, new_session, navigation)
        self.batches = Batches(self, new_session, navigation, self.journal)
        self.verb_starter = VerbStarter(self, new_session, navigation, self.batches, self.undo, self.journal)
        self.loops = Loops(self, new_session, navigation, serves_foreign=serves_foreign)
        self.write_lock = WriteLock(self, new_session, self.journal, self.loops, self.verb_starter.stop_running_changes)
        self.frame_content = FrameContent(
            self,
            new_session,
            navigation,
            self.verb_starter,
            self.undo,
            self.loops,
            self.write_lock,
            self._find_demo_message,
            self.time_bar.build_line,
        )
        profiles = self.profiles
        self.palette = Palette(
            self,
            new_session,
            navigation,
            self.verb_starter.list_offered_verbs,
            profiles.list_profile_commands,
            profiles.switch_to_url,
        )
        self.demo = DemoStrip(self, demo, navigation) if demo else None
        for binding in keys.build_demo_bindings(demo.controls) if demo else ():
            self.bind(binding.key, binding.action, description=binding.description, show=binding.show)
        self._shown_warnings: frozenset[tuple[str, str]] = frozenset()  # (kind, severity) of the shown toasts

    def _switch_session(self, settings: Settings, demo: Run | None) -> None:
        """Stop the current session, and open another one with its own overview. A replay is left by `q` only."""
        if self._is_replay:
            self.show_toast("A recording is open; start rqtui with a URL to see a Redis.", "warning")
            return
        previous = self.session
        self.verb_starter.stop_running_changes()
        self.write_lock.stop_timer()
        previous.ticker.stop(0)  # Do not wait: a step may be running on a slow link.
        previous.stop_recording()
        for loop in previous.loops.values():
            loop.stop(0)
        self._open_session(settings, demo, settings.interval_s, serves_foreign=demo is not None and demo.scenario.loops)
        mode = self.current_mode
        new_mode = OVERVIEW if mode == SECOND_OVERVIEW else SECOND_OVERVIEW
        self.add_mode(new_mode, Overview)
        self.switch_mode(new_mode)  # The first paint of the new overview starts the ticker.
        self.remove_mode(mode)

    def _is_long_change_running(self) -> bool:
        """Return whether a change of many jobs is running, which would stop with the session."""
        return self.verb_starter.format_progress() is not None

    def _switch_redis(self, settings: Settings, demo: Run | None) -> None:
        """Close the session of a Redis that never replied, and open a session of another Redis."""
        self.profiles.switch_to_settings(settings, demo=demo)
        if self.demo:
            self.demo.show_introduction()

    # -- start and end --------------------------------------------------------------------------------------------

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return rqtui's colours for themes that do not define them."""
        return theme.compute_default_variables(self.current_theme)

    def push_screen(self, screen: Any, *args: Any, **kwargs: Any) -> Any:
        """Open a view or a dialog. The first call also loads the style sheet for views and dialogs."""
        if not self.stylesheet.has_source(str(DEFERRED_CSS)):
            self.stylesheet.add_source(DEFERRED_CSS.read_text("utf-8"), (str(DEFERRED_CSS), ""))
        return super().push_screen(screen, *args, **kwargs)

    def refresh_css(self, animate: bool = True) -> None:
        """Reload the style sheet after a theme change.

        Textual also calls this method before the first paint. The style sheet was then just read with the same colours,
        so that call is skipped.
        """
        if self.theme != self._stylesheet_theme:
            self._stylesheet_theme = None
            super().refresh_css(animate)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters applied to every painted line; with `--ascii` they include the ASCII filter."""
        return [*super().get_line_filters(), *([ASCII] if self.session.settings.is_ascii else ())]

    def on_load(self) -> None:
        """Disable eager task execution in the event loop.

        From Python 3.12 on Textual starts tasks eagerly: fields of the first screen then look for the screen before it
        exists.
        """
        asyncio.get_running_loop().set_task_factory(None)

    def on_mount(self) -> None:
        """Install the signal handlers that end the program, start the clock, and apply the keymap."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Textual leaves the alternate screen and the mouse on when one of these ends it.
            loop.add_signal_handler(number, self.exit)
        job_control.call_on_sigquit(self.exit)
        hangup.watch_terminal(lambda: loop.call_soon_threadsafe(self.exit))
        self.screen_change_signal.subscribe(self, lambda _screen: style_cache.clear_style_cache())
        self._clock = self.set_interval(1.0, self._update_each_second)
        self.profiles.apply_configured_keymap()
        self.profiles.show_config_problems()
        if self.demo:
            self.demo.show_introduction()

    def schedule_connection(self) -> None:
        """Draw the overview without data, and connect to Redis after that first paint."""
        self.show_header()
        self.show_keys()
        self.call_after_refresh(self._start_ticker)

    def _start_ticker(self) -> None:
        """Start polling Redis after the first paint, and turn the garbage collector on again.

        Objects that exist by then live until the program ends, so they are frozen out of later collections.
        """
        if not gc.isenabled():  # `opening` disabled it
            gc.freeze()
            gc.enable()
        self.session.ticker.start()

    def on_unmount(self) -> None:
        """Stop the polling of Redis and the loops; wait at most `EXIT_TIMEOUT_S` seconds for all of them together."""
        stops = [self.session.ticker.stop, *(loop.stop for loop in self.session.loops.values())]
        stops.append(self.session.stop_recording)
        for stop in stops:
            stop(0)
        deadline_s = time.monotonic() + EXIT_TIMEOUT_S
        for stop in stops:
            stop(max(0.0, deadline_s - time.monotonic()))
        self.connection_lost.stop_demo_server()
        self.slow_link.restore_exact_ages()

    def _describe_crash(self, error: BaseException | None) -> str:
        """Return what the terminal prints after an unexpected error, for Textual's hook."""
        settings = self.session.settings
        return crash.format_crash_message(error, settings.url, is_debug=settings.is_debug)

    # -- from the engine's thread; messages of a closed session are ignored -------------------------------------------

    def on_connected(self, message: session.Connected) -> None:
        """Store the new engine in the session, and open the board that the command line requested."""
        if message.session is not self.session:
            return
        engine = message.event.engine
        self.session.set_engine(engine)
        self.journal.attach_undo_store(engine)
        self.loops.start_loops(engine)
        if self._open_queue:
            self.open_board(engine.resolve(self._open_queue))

    def on_refreshed(self, message: session.Refreshed) -> None:
        """Draw a new snapshot on the top view, and update header, footer and clock."""
        if message.session is not self.session:
            return
        current, snapshot = self.session, message.event.snapshot
        was_stale, is_first, previous_refs = (
            current.is_stale or current.snapshot is None,
            current.snapshot is None,
            current.refs,
        )
        current.store_refresh(message.event)
        self.time_bar.choose_interval()
        self._show_new_warnings()
        self.loops.announce_first_moves()
        self.slow_link.record_round_trip(snapshot.cost.ms)
        self._update_clock_timer()
        for stale_view in self.navigation.list_drawable_views() if was_stale else ():
            stale_view.show_connection_diagnosis(None)
            stale_view.set_dimmed(False)
        view = self.navigation.view
        if view and view.is_drawn:
            view.show_snapshot(snapshot)
            self.time_bar.select_queue(view)
            current.ticker.set_next_focus(view.build_focus(current.refs))
        self.show_header()
        self.show_keys()
        if is_first or previous_refs != current.refs:
            self.request_refresh()

    def on_lost(self, message: session.Lost) -> None:
        """Handle a lost connection: keep the last snapshot on screen, dimmed, and show the reason."""
        if message.session is not self.session:
            return
        self.session.connection_loss, self.session.refresh_failure = message.event, None
        self._update_clock_timer()
        for view in self.navigation.list_drawable_views():
            view.set_dimmed(True)
        self.connection_lost.show_connection_diagnosis()
        self.show_header()
        self.show_keys()

    def on_acted(self, message: session.Acted) -> None:
        """Pass the outcomes of a change to `services/batches`, which counts them."""
        if message.session is self.session:
            self.batches.record_outcomes(message.event)

    def on_answered(self, message: session.Answered) -> None:
        """Pass the result of an engine call to the callback that waits for it."""
        if message.session is self.session:
            self.session.deliver_result(message.event)

    def on_recording_failed(self, message: session.RecordingFailed) -> None:
        """Show why the session is not recorded. Everything else works as before."""
        if message.session is self.session:
            self.show_toast(message.event, "warning", timeout=10)

    def on_recording_read(self, message: session.RecordingRead) -> None:
        """Pass what was read from the recording to the view that waits for it."""
        if message.session is self.session:
            message.event()

    def on_failed(self, message: session.Failed) -> None:
        """Handle a failed refresh: keep the last snapshot on screen, dimmed, and show the error as a toast."""
        if message.session is not self.session:
            return
        previous, self.session.connection_loss, self.session.refresh_failure = (
            self.session.refresh_failure,
            None,
            message.event,
        )
        if previous is None or previous.error != message.event.error:
            self.show_toast(message.event.error, "error")
        self._update_clock_timer()
        for view in self.navigation.list_drawable_views():
            view.show_connection_diagnosis(None)
            view.set_dimmed(True)
        self.show_header()
        self.show_keys()

    def _show_new_warnings(self) -> None:
        """Show a toast for each kind of finding about the server that is new since the last refresh.

        The text of a finding may change at each refresh: `memory is 94 % full`, then `95 %`.
        """
        warnings = {(finding.kind, finding.severity): finding for finding in self.session.server_warnings}
        for key, finding in warnings.items():
            if key not in self._shown_warnings and finding.kind not in _STANDING_WARNINGS:
                self.show_toast(f"{finding.text.removesuffix('.')}: {finding.remedy}", "warning", timeout=20)
        self._shown_warnings = frozenset(warnings)

    def _update_clock_timer(self) -> None:
        """Run the one-second timer only while something on the screen changes between two refreshes.

        When nothing changes, the timer's ticks were an eighth of all work.
        """
        if self.session.is_stale or self.demo or self.session.ticker.wait_s > INTERVAL_S:
            self._clock.resume()
        else:
            self._clock.pause()

    def _update_each_second(self) -> None:
        """Update what changes every second: connection ages, loop states, demo figures and countdowns."""
        if self.demo:
            self.demo.show_new_message()
        if self.slow_link.is_calm:
            return
        if self.session.connection_loss:
            self.connection_lost.show_connection_diagnosis()
        self.show_header()
        view = self.navigation.view
        if view and view.is_drawn:
            view.show_recent_activity()
            view.update_countdowns()

    # -- from Textual -------------------------------------------------------------------------------------------------

    def on_app_blur(self) -> None:
        """Refresh less often while the terminal has no focus."""
        self.session.ticker.set_resting(True)

    def on_app_focus(self) -> None:
        """Refresh at the normal rate again when the terminal has the focus again."""
        self.session.ticker.set_resting(False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Stop the cursor of a focused input from blinking on a slow connection."""
        self.slow_link.stop_cursor_blink(event.widget)

    def handle_bindings_clash(self, clashed: set[Binding], _node: DOMNode) -> None:
        """Report bindings of the config file that use the same key as another binding."""
        self.profiles.report_key_clash(clashed)

    # -- the host of screens and services -----------------------------------------------------------------------------

    def show_toast(self, message: str, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        """Show a message in a toast, sanitised and wrapped."""
        lines = formats.wrap_to_width(safe(message), max(20, min(TOAST_CELLS, self.size.width - 8)))
        time_s = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(Notify(Toast("\n".join(lines), severity=severity, timeout=time_s)))

    def show_header(self) -> None:
        """Redraw the header lines of the current view, and a demo's strip."""
        self.frame_content.show_header()

    def show_keys(self) -> None:
        """Redraw the footer with the keys that work on the row under the cursor."""
        self.frame_content.show_keys()

    def request_refresh(self) -> None:
        """Request a refresh of the data that the top view shows."""
        view = self.navigation.view
        if view and view.is_drawn:
            self.session.ticker.set_focus(view.build_focus(self.session.refs))

    def request_refresh_soon(self) -> None:
        """Request a refresh of the top view's data after a short delay; repeated calls restart the delay."""
        if self._refresh_timer is not None:
            self._refresh_timer.stop()
        self._refresh_timer = self.set_timer(REFRESH_DELAY_S, self.request_refresh)

    def _show_top_view(self) -> None:
        """Redraw header, footer and data after another view came to the top."""
        self.connection_lost.show_connection_diagnosis()
        self.request_refresh()
        self.show_header()
        self.show_keys()

    def push_view(self, view: Screen[None]) -> None:
        """Open a view on top of the current one."""
        self.navigation.push_view(view)

    def open_board(self, ref: Ref) -> None:
        """Open the board of a queue."""
        self.navigation.open_board(ref)

    def open_incident(self, ref: Ref, finding: Finding) -> None:
        """Open the page about a finding of a queue."""
        self.navigation.open_incident(ref, finding)

    def open_job(self, ref: Ref, job: Job) -> None:
        """Open the page of a job."""
        self.navigation.open_job(ref, job)

    def open_search(self, expression: str) -> None:
        """Open the search for a filter expression in the jobs of all queues. Raises UsageError if it is invalid."""
        self.navigation.open_search(expression)

    def check_verb(self, key: str) -> bool | None:
        """Return whether the key of a verb works now: False hides the key, None shows the key greyed out."""
        return self.verb_starter.check_verb_key(key)

    def start_verb(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """Start a verb on a target: ask for confirmation if needed, then send the request."""
        self.verb_starter.start_verb(verb, target, is_chosen=is_chosen)

    def start_verb_on_jobs(
        self, verb: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Start a verb on jobs of several queues. See `Host.start_verb_on_jobs`."""
        self.verb_starter.start_verb_on_queues(verb, jobs_by_queue, about, count_difference)

    def find_relevant_loops(self) -> dict[str, tuple[Loop, bool]]:
        """Return the dispatcher and the reaper as {verb: (loop, whether it serves the queue in focus)}.

        A loop that cannot serve that queue is left out.
        """
        return self.loops.list_shown_loops()

    def export_operations(self) -> None:
        """Write a report of this session's changes to files."""
        if self._is_replay:
            self.show_toast("rqtui record --export writes a part of a recording to a file.", "warning")
            return
        self.journal.export_report()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works now: False hides its key, None shows its key greyed out."""
        if action == "replay" or (self._is_replay and action in CHANGES):
            return self._is_replay
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
        if action == "stop_changes":
            return self._is_long_change_running()
        return self.session.is_never_connected if action in AWAY_ACTIONS else True

    def action_replay(self, target: str, step: int) -> None:
        """Move the time of a recording, play it or pause it, or change its speed."""
        self.time_bar.move(target, step)

    def _refuse_in_replay(self) -> bool:
        """Show that nothing can be changed in a recording. Return whether a recording is open."""
        if self._is_replay:
            self.show_toast("This is a recording: nothing can be changed.", "warning")
        return self._is_replay

    def action_verb(self, key: str) -> None:
        """Start the verb that a key for changes means on the current view."""
        if self._refuse_in_replay():
            return
        self.verb_starter.start_verb_of_key(key)

    def action_undo(self) -> None:
        """Undo the last change of this session, or the change under the cursor."""
        if self._refuse_in_replay():
            return
        self.undo.undo_selected_change()

    def action_toggle_loop(self, verb: str) -> None:
        """Stop or start the dispatcher or the reaper."""
        self.loops.toggle_loop(verb)

    def action_step_loop(self, verb: str) -> None:
        """Run one step of the dispatcher or the reaper."""
        self.loops.run_loop_step(verb)

    def action_unlock(self, duration: str) -> None:
        """Allow changes from this screen for a duration such as `15m`."""
        self.write_lock.unlock_changes(duration)

    def action_lock(self) -> None:
        """Forbid changes from this screen."""
        self.write_lock.lock()

    def action_export_operations(self) -> None:
        """Write a report of this session's changes to files."""
        self.export_operations()

    async def action_back(self) -> None:
        """Close the top view, or undo its last step, such as a filter. Does nothing on the overview."""
        self.navigation.go_back()

    def action_stop_changes(self) -> None:
        """Stop the change of many jobs that is running."""
        self.verb_starter.stop_running_changes()

    async def action_quit_or_back(self) -> None:
        """Close the top view or undo its last step; on the overview, quit the program."""
        if self.navigation.is_at_first_view:
            self._quit_after_confirmation()
        else:
            await self.action_back()

    def _quit_after_confirmation(self) -> None:
        """Quit the program; ask first while a change of many jobs is running."""
        if not self._is_long_change_running():
            self.exit()
            return
        from rqtui.tui.widgets.question_dialog import create_stop_question

        def quit_if_user_confirmed(reply: object) -> None:
            if reply is not None:
                self.exit()

        self.push_screen(create_stop_question("Quit", "quit"), quit_if_user_confirmed)

    async def action_quit(self) -> None:
        """Quit the program; ask first while a change of many jobs is running."""
        self._quit_after_confirmation()

    def action_leave(self) -> None:
        """Handle Ctrl+C: copy the selection of an input, else show how to quit.

        A second press within `DOUBLE_PRESS_S` seconds quits at once.
        """
        if getattr(self.focused, "selected_text", ""):
            raise SkipAction
        now_s = time.monotonic()
        if now_s - self._last_interrupt_s <= DOUBLE_PRESS_S:
            self.exit()
            return
        self._last_interrupt_s = now_s
        instructions = (
            f"{keys.find_current_key('back')} goes one step back, {keys.find_current_key('quit')} on the overview quits"
        )
        self.show_toast(
            f"{instructions}; {keys.find_current_key('leave')} again leaves at once.", timeout=DOUBLE_PRESS_S
        )

    def action_suspend_process(self) -> None:
        """Handle Ctrl+Z: suspend the program until the shell runs `fg`."""
        try:
            suspended_s = job_control.stop_program(self)
        except SuspendNotSupported as error:
            self.show_toast(f"{keys.find_current_key('suspend')} stops nothing: {error}.", "warning")
            return
        self.session.ticker.request_refresh()
        if any(loop.is_running for loop in self.session.loops.values()):
            age = formats.format_age(suspended_s * 1000)
            self.show_toast(
                f"Resumed after {age}: the dispatcher and the reaper of this screen were also suspended.", "warning"
            )

    def action_open_view(self, name: str) -> None:
        """Open one of the views in `registry.VIEWS` by its name."""
        self.navigation.open_view(name)

    def action_list_views(self) -> None:
        """Show the list of views, from which a letter or Enter opens one."""
        from rqtui.tui.widgets.view_list import ViewList

        if not self.navigation.has_dialog:
            self.push_screen(ViewList(self.frame_content.list_view_links()), self._open_chosen_view)

    def _open_chosen_view(self, name: str | None) -> None:
        """Open the view that was chosen in the list of views, if any."""
        if name:
            self.navigation.open_view(name)

    def action_command_palette(self) -> None:
        """Open the search line of the command palette."""
        self.palette.open_finder()

    def action_help(self) -> None:
        """Show the help page with all keys, those that work here first."""
        self.navigation.show_keys_page(self._list_usable_keys())

    def _list_usable_keys(self) -> frozenset[str]:
        """Return the ids of this view's general keys and the names of the verbs that work here now."""
        name = self.navigation.view.NAME if self.navigation.view else ""
        general_ids = {
            general_key.id
            for general_key in keys.list_general_keys()
            if name in general_key.screens and self.palette.is_general_key_usable(general_key)
        }
        verbs = (
            self.verb_starter.find_verb_of_key(key) for key in keys.VERB_KEYS if self.verb_starter.check_verb_key(key)
        )
        return frozenset(general_ids | {verb.name for verb in verbs if verb is not None})

    def action_copy_as(self) -> None:
        """Ask in which format to copy the row under the cursor, or the marked rows."""
        from rqtui.tui.services.copying import Copying

        view = self.navigation.view
        if view is not None and not self.navigation.has_dialog:
            Copying(self, view).open_copy_dialog()

    def action_refresh_now(self) -> None:
        """Refresh now, search for new queues, and rebuild the report of the current view."""
        self.session.ticker.request_discovery()
        view = self.navigation.view
        if view is not None and view.is_drawn:
            view.recompute()

    def action_interval(self, factor: float) -> None:
        """Multiply the refresh interval by a factor."""
        self.session.change_refresh_interval(self.session.ticker.interval_s * factor)

    def action_show_incident(self) -> None:
        """Show the page about the finding under the cursor, or about the problems of the queue under the cursor."""
        self.navigation.open_incident_at_cursor()

    def action_demo(self) -> None:
        """Show the page of things to try in the running demo."""
        if self.demo:
            self.demo.show_page()

    def action_demo_control(self, name: str) -> None:
        """Run the control of the demo whose key in the strip was pressed."""
        if self.demo:
            self.demo.press_control(name)

    def _find_demo_message(self) -> str:
        """Return the current message of the running demo, or an empty text."""
        return self.demo.message if self.demo else ""

    def action_edit_url(self) -> None:
        """Ask for another Redis URL, while Redis has never replied."""
        self.connection_lost.edit_url()

    def action_open_demo(self) -> None:
        """Start a private Redis server with a demo and connect to it."""
        self.connection_lost.open_demo()


def run(settings: Settings, demo: Run | None = None, *, open_queue: str = "", interval_s: float | None = None) -> int:
    """Run the app until the user quits, and return the exit code.

    Raises UsageError for an invalid URL or system on the command line. Errors in the config file are shown on the
    screen, which opens all the same.
    """
    settings = remove_invalid_settings(settings)
    app = Cockpit(
        settings,
        demo,
        open_queue=open_queue,
        interval_s=interval_s or settings.interval_s,
        theme_name=theme.choose_theme_name(os.environ, settings.theme),
        foreign_loops=demo is not None and demo.scenario.loops,
    )
    app.run()
    return app.return_code or 0


def run_replay(settings: Settings, open_engine: Callable[[Settings], Engine]) -> int:
    """Run the app on a recording until the user quits, and return the exit code.

    `open_engine` opens the recording on the engine's thread. The URL of `settings` is only shown.
    """
    theme_name = theme.choose_theme_name(os.environ, settings.theme)
    app = Cockpit(settings, theme_name=theme_name, create_engine=open_engine, is_replay=True)
    app.run()
    return app.return_code or 0


__all__ = ["Cockpit", "run", "run_replay"]
