"""The app: holds the engine's thread, the loops and the last picture, and carries keys to verbs.

Widgets never wait for Redis: a key becomes a request in the ticker's inbox, and its answer comes back as a message. The
table of verbs decides what a key means here (`verb_for`), `check_action` what is shown, grey or hidden.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.content import Content
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

from rqtui import layouts, loops, server, tick
from rqtui.engine import Engine
from rqtui.model import Job, Outcome, Rate, Ref, Snapshot, State
from rqtui.settings import Settings
from rqtui.tui import chrome, display, help, keys, theme
from rqtui.tui.board import Board
from rqtui.tui.dialogs import Pages, Question, Values
from rqtui.tui.job import JobPage
from rqtui.tui.overview import Overview
from rqtui.tui.view import Target, View
from rqtui.verbs import Verb

LOOPS = {"dispatch": "dispatcher", "reap": "reaper"}
SOON_S = 0.06  # a held key asks for one detail, not for thirty
MANY = 1  # more jobs than that are asked about, also for verbs where nothing can be lost


class Heard(Message):
    """A message of the ticker's thread."""

    def __init__(self, what: tick.Message) -> None:
        super().__init__()
        self.what = what


class Looped(Message):
    """A loop did a round."""


class Cockpit(App[None]):
    """rqtui on a terminal."""

    CSS_PATH = "rqtui.tcss"
    TITLE = "rqtui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = list(keys.bindings())

    def __init__(
        self,
        settings: Settings,
        demo: Any = None,
        *,
        interval_s: float = 2.0,
        open_queue: str = "",
        theme_name: str = theme.DARK,
    ) -> None:
        """`demo` is a running scenario; the board of `open_queue` is opened at the start."""
        super().__init__(ansi_color=theme_name == theme.ANSI or None)
        self.settings = settings
        self.demo = demo
        self._open_queue = open_queue
        made = [layouts.make(spec) for spec in settings.layouts]
        self.engine = Engine(server.connect(settings.url), made, settings.read_only)
        self.ticker = tick.Ticker(self.engine, self._post, interval_s)
        self.loops: dict[str, loops.Loop] = {}
        self.snapshot: Snapshot | None = None
        self.lost: tick.Lost | None = None
        self.refs: list[Ref] = []
        self._theme_name = theme_name
        self._soon: Timer | None = None
        self._answers: dict[object, Callable[[tick.Answered], None]] = {}
        self._tallies: dict[tuple[str, Ref], list[Outcome]] = {}

    # -- start and end --------------------------------------------------------------------------------------------

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours for themes that lack them."""
        return theme.defaults(self.current_theme)

    def on_mount(self) -> None:
        """Opens the overview, starts the threads, and listens to the signals that end a terminal."""
        theme.install(self, self._theme_name)  # type: ignore[arg-type]
        for name in ("SIGTERM", "SIGHUP"):
            # Textual leaves the alternate screen and the mouse on when one of these ends it.
            self._loop.add_signal_handler(getattr(signal, name), self.exit) if self._loop else None
        self.push_screen(Overview())
        self._make_loops()
        self.ticker.start()
        self.set_interval(1.0, self._clock)
        if self._open_queue:
            self.open_board(self.engine.find(self._open_queue))

    def _make_loops(self) -> None:
        for verb, name in LOOPS.items():
            client = server.connect(self.settings.url, client_name=f"rqtui-{name}")
            work = loops.mover(verb, client, self.engine.layouts, self._loop_refs)
            loop = loops.Loop(name, work, lambda _round: self._post_loop())
            self.loops[verb] = loop
            if not self.settings.read_only:
                loop.start()

    def _loop_refs(self) -> list[Ref]:
        return [ref for ref in self.engine.refs if self.engine.layouts[ref.layout].loops_by_default]

    def on_unmount(self) -> None:
        """Ends the threads; what is under way is waited for, shortly."""
        self.ticker.stop()
        for loop in self.loops.values():
            loop.stop()

    # -- from the threads -----------------------------------------------------------------------------------------

    def _post(self, what: tick.Message) -> None:
        self.post_message(Heard(what))

    def _post_loop(self) -> None:
        self.post_message(Looped())

    def on_heard(self, message: Heard) -> None:
        """A picture, a loss, outcomes, an answer."""
        table: dict[type, Callable[[Any], None]] = {
            tick.Refreshed: self._refreshed,
            tick.Lost: self._lose,
            tick.Acted: self._acted,
            tick.Answered: self._answered,
        }
        table[type(message.what)](message.what)

    def on_looped(self) -> None:
        """The header says what the loops do."""
        self._show_header()

    def _refreshed(self, message: tick.Refreshed) -> None:
        was_lost, self.lost = self.lost is not None, None
        is_first = self.snapshot is None
        known = self.refs
        self.snapshot, self.refs = message.snapshot, list(self.engine.refs)
        for drawn in self._views():
            drawn.diagnose(None)
            if was_lost:
                drawn.dim(False)
        view = self.view
        if view and view.is_drawn:
            view.show(message.snapshot)
        self._show_header()
        self.show_keys()
        if is_first or known != self.refs:
            self.look_again()

    def _lose(self, message: tick.Lost) -> None:
        self.lost = message
        for view in self._views():
            view.dim(True)
            if self.snapshot is None:
                view.diagnose(help.diagnosis(self.settings.url, message.error))
        self._show_header()
        self.show_keys()

    def _acted(self, message: tick.Acted) -> None:
        tally = self._tallies.setdefault((message.verb, message.ref), [])
        tally += message.outcomes
        if not message.is_last:
            return
        del self._tallies[message.verb, message.ref]
        if message.error:
            self.notify(display.safe(message.error), severity="error", markup=False)
        if tally:
            severity = "information" if any(outcome.moved for outcome in tally) else "warning"
            self.notify(summary(tally), severity=severity, markup=False)  # type: ignore[arg-type]
        for view in self._views():
            view.acted([outcome.id for outcome in tally])

    def _answered(self, message: tick.Answered) -> None:
        handler = self._answers.pop(message.key, None)
        if message.error:
            self.notify(display.safe(message.error), severity="error", markup=False)
        elif handler:
            handler(message)

    def _clock(self) -> None:
        if self.lost:
            self._show_header()

    # -- the picture ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """The full screen on top, under any dialog."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, View)), None)

    def _views(self) -> list[View]:
        return [screen for screen in self.screen_stack if isinstance(screen, View) and screen.is_drawn]

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

    def _show_header(self) -> None:
        view = self.view
        if view is None or not view.is_drawn or not self.is_running:
            return
        width = self.size.width
        is_off = self.settings.read_only
        shown: dict[str, Any] = {name: None if is_off else loop for name, loop in self.loops.items()}
        view.header.show((chrome.status_line(self._status(), shown, width), self._second_line(view, width)))

    def _status(self) -> chrome.Status:
        url = server.mask(self.settings.url)
        if self.lost:
            now = time.monotonic()
            age, wait = display.age((now - self.lost.since_s) * 1000), max(0, self.lost.next_s - now)
            return chrome.Status(url, f"lost {age} ago, next try in {wait:.0f} s", is_lost=True)
        if self.snapshot is None:
            return chrome.Status(url, "connecting …")
        names = ", ".join(sorted({ref.layout for ref in self.refs})) or "native"
        cost = self.snapshot.cost
        plural = "queue" if len(self.refs) == 1 else "queues"
        words = f"{names} · {len(self.refs)} {plural}" if self.size.width >= 100 else f"{len(self.refs)} {plural}"
        spent = f"{cost.commands} cmds · {cost.ms:.1f} ms / {self.ticker.interval_s:g} s"
        return chrome.Status(url, words, cost=spent if self.size.width >= 100 else f"{cost.ms:.1f} ms")

    def _second_line(self, view: View, width: int) -> tuple[Content, Content]:
        target = view.target()
        if isinstance(view, Overview) or target.queue is None or self.snapshot is None:
            incoming, outgoing, failed = view.totals() if isinstance(view, Overview) else (0.0, 0.0, 0.0)
            share = 100 * failed / outgoing if outgoing else 0
            pieces = [
                ("in ", display.rate(incoming)),
                ("out ", display.rate(outgoing)),
                ("failing ", f"{share:.1f} %" if share else "·"),
            ]
            left = Content("   ").join([Content.assemble((label, "$muted"), value) for label, value in pieces])
            return left, Content.styled(self.demo.strip() if self.demo else "", "$muted")
        ref = target.ref
        rate = self.snapshot.rates.get(ref) if ref else None
        return chrome.queue_line(target.queue, rate or Rate(), width)

    def show_keys(self) -> None:
        """The footer, for what is under the cursor now."""
        view = self.view
        if view is None or not view.is_drawn:
            return
        shown: list[tuple[str, str, bool]] = []
        for key in keys.VERB_KEYS:
            usable = self.check_action("verb", (key,))
            if usable is False:
                continue
            verb = self.verb_for(key) or keys.verbs_of(key)[0]
            shown.append((key, verb.label, bool(usable)))
        shown.sort(key=lambda item: not item[2])
        for look in keys.LOOKS:
            if look.in_footer and (not look.screens or view.NAME in look.screens):
                shown.append((keys.shown(look.keys.split(",")[0]), look.label, True))
        mode = (
            Content.styled("read-only", "$state-ready")
            if self.settings.read_only
            else Content.styled("write", "$accented")
        )
        if self.lost:
            mode = Content.styled("no changes: Redis is away", "$state-dead")
        view.footer.show(shown, mode)

    def on_resize(self, _event: Resize) -> None:
        """Everything fits itself to the new size."""
        for view in self._views():
            view.check_size()
        self._show_header()
        self.show_keys()

    # -- verbs ----------------------------------------------------------------------------------------------------

    def verb_for(self, key: str) -> Verb | None:
        """Which verb a key means for what is under the cursor; None when it can do nothing here."""
        target = self.view.target() if self.view else Target()
        if target.ref is None:
            return next((verb for verb in keys.verbs_of(key) if verb.name == "enqueue"), None)
        system = self.engine.layouts[target.ref.layout]
        for verb in keys.verbs_of(key):
            if not system.can(verb.name):
                continue
            if verb.scope == "queue" and _fits_queue(verb.name, target):
                return verb
            if verb.scope == "job" and target.place and (target.jobs or target.whole):
                places = {job.place for job in target.jobs} or {target.place}
                if all(system.can(verb.name, place) for place in places):
                    return verb
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hidden when changes are off or the layout has no such script; grey when it does not fit here."""
        if action in ("toggle_loop", "step_loop"):
            return not self.settings.read_only
        if action != "verb":
            return True
        if self.settings.read_only:
            return False
        key = str(parameters[0])
        view = self.view
        if view is None or self.lost:
            return None
        if isinstance(view, Overview) and all(verb.scope == "job" for verb in keys.verbs_of(key)):
            return False
        return True if self.verb_for(key) else None

    def action_verb(self, key: str) -> None:
        """Asks what has to be asked, and sends the verb."""
        verb, target = self.verb_for(key), self.view.target() if self.view else Target()
        if verb:
            self.begin(verb, target)

    def begin(self, verb: Verb, target: Target) -> None:
        """The way from a verb to its request: a question where one is due, then the inbox."""
        ref = target.ref or (self.refs[0] if self.refs else Ref("native", "default"))
        many = target.whole or len(target.jobs) > MANY
        fields = verb.form if verb.name != "enqueue" or target.ref else (help.QUEUE_FIELD, *verb.form)
        if not (verb.danger or fields or many):
            self._send(verb, ref, target, {})
            return
        total = self._total(target)
        lines = help.question_lines(verb, target, total, server.mask(self.settings.url))
        title = Content(
            f" {verb.question or verb.label} {help.what(target, total) if verb.scope == 'job' else ref.queue} "
        )
        dialog = Question(title, lines, fields, verb.label, verb.danger)

        def decided(values: Values | None) -> None:
            if values is not None:
                self._send(verb, ref, target, values)

        self.push_screen(dialog, decided)

    def _total(self, target: Target) -> int:
        page = self.snapshot.page(target.ref, target.place) if self.snapshot and target.ref else None
        return page.total if target.whole and page else len(target.jobs)

    def _send(self, verb: Verb, ref: Ref, target: Target, values: Values) -> None:
        if "queue" in values:
            ref = self.engine.find(str(values.pop("queue")))
        for name, form in _by_verb(verb, values):
            script = self.engine.layouts[ref.layout].script(name)
            takes_force = any(arg.name == "force" for arg in script.args)
            if takes_force and (
                target.place == State.RESERVED or any(job.state is State.RESERVED for job in target.jobs)
            ):
                form["force"] = True  # the dialog has said that a worker holds it
            if name == "enqueue":
                self.ticker.call(object(), lambda engine: engine.announce(ref))
            if target.whole and verb.scope == "job":
                self.ticker.act_on_place(name, ref, target.place, form)
            else:
                self.ticker.act(name, ref, target.jobs if verb.scope == "job" else (), form)

    # -- other keys -----------------------------------------------------------------------------------------------

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""
        self.push_screen(Board(ref, self.engine.layouts[ref.layout]), lambda _none: self.look_again())
        self.call_after_refresh(self._opened)

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""
        self.push_screen(JobPage(ref, job), lambda _none: self.look_again())
        self.call_after_refresh(self._opened)

    def _opened(self) -> None:
        if self.view and self.view.is_drawn and self.snapshot:
            self.view.show(self.snapshot)
        self.look_again()
        self._show_header()
        self.show_keys()

    async def action_back(self) -> None:
        """One step back; on the overview, nothing."""
        if len([screen for screen in self.screen_stack if isinstance(screen, View)]) > 1:
            self.pop_screen()
            self._opened()

    async def action_quit_or_back(self) -> None:
        """One step back; on the overview, the end."""
        if isinstance(self.screen, Overview):
            self.exit()
        else:
            await self.action_back()

    def action_toggle_loop(self, name: str) -> None:
        """Stops or starts the dispatcher or the reaper."""
        loop = self.loops[name]
        if loop.is_running:
            loop.stop(0)
            self.notify(
                f"The {LOOPS[name]} is off: what falls {'due' if name == 'dispatch' else 'late'} stays where it is."
            )
        else:
            loop.start()
            self.notify(f"The {LOOPS[name]} is on.")
        self._show_header()

    def action_step_loop(self, name: str) -> None:
        """One step of a loop, whether it runs or not."""

        def step() -> None:
            done = self.loops[name].step()
            words = done.error or f"{LOOPS[name]}: {display.count(done.moved) if done.moved else 'nothing'} moved"
            self.call_from_thread(
                self.notify, display.safe(words), severity="error" if done.error else "information", markup=False
            )
            self.ticker.refresh()

        self.run_worker(step, thread=True, exclusive=False)

    def action_loops(self) -> None:
        """What the loops did last."""
        self.push_screen(Pages("loops", help.loops_page(self.loops)))

    def action_help(self) -> None:
        """Every key."""
        self.push_screen(Pages("keys", help.keys_page()))

    def action_refresh_now(self) -> None:
        """A new picture, and a look for new queues."""
        self.ticker.discover()

    def action_interval(self, factor: float) -> None:
        """Refreshes half as often or twice as often, between 0.25 s and a minute."""
        self.ticker.interval_s = min(60.0, max(0.25, self.ticker.interval_s * factor))
        self.ticker.refresh()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every look, and every verb of the layout, also those without a key."""
        yield SystemCommand("keys", "every key", self.action_help)
        yield SystemCommand("loops", "what the dispatcher and the reaper did last", self.action_loops)
        yield SystemCommand("theme", "other colours", self.action_change_theme)
        yield SystemCommand("quit", "stop rqtui", self.exit)
        target = self.view.target() if self.view else Target()
        if self.settings.read_only or target.ref is None:
            return
        system = self.engine.layouts[target.ref.layout]
        for verb in system.verbs():
            fits = verb.scope != "job" or ((target.jobs or target.whole) and system.can(verb.name, target.place))
            if verb.hidden or not fits or (verb.scope == "place" and not target.place):
                continue
            summary_line = system.scripts[verb.name].summary
            yield SystemCommand(verb.name, summary_line, lambda verb=verb: self.begin(verb, target))


def _fits_queue(name: str, target: Target) -> bool:
    if name in ("pause", "resume"):
        is_paused = bool(target.queue and target.queue.paused)
        return is_paused == (name == "resume")
    return True


def _by_verb(verb: Verb, values: Values) -> list[tuple[str, Values]]:
    """The form's values by the verb they belong to: one form may serve two verbs (due time and priority)."""
    sorted_values: dict[str, Values] = {}
    owners = {field.name: field.verb or verb.name for field in verb.form}
    for name, value in values.items():
        sorted_values.setdefault(owners.get(name, verb.name), {})[name] = value
    if not sorted_values:
        return [] if any(field.verb for field in verb.form) else [(verb.name, dict(verb.fixed))]
    return [(name, {**form, **dict(verb.fixed)}) for name, form in sorted_values.items()]


def summary(outcomes: list[Outcome]) -> str:
    """`37 requeued · 3 it is neither dead nor done (2 done, 1 reserved)`: the header's own words, counted."""
    words: Counter[str] = Counter()
    where: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        words[outcome.text or outcome.word] += outcome.moved or 1
        place = outcome.values.get("place")
        if isinstance(place, str) and place and not outcome.moved:
            where.setdefault(outcome.text, Counter())[place] += 1
    pieces = []
    for text, number in words.items():
        places = ", ".join(f"{count} {place}" for place, count in where.get(text, Counter()).items())
        pieces.append(f"{number} {text}" + (f" ({places})" if places else ""))
    name = display.safe(outcomes[0].id) if len(outcomes) == 1 and outcomes[0].id else ""
    return f"{outcomes[0].verb}: " + " · ".join(pieces) + (f" · {name}" if name else "")


def run(settings: Settings, demo: Any = None, *, open_queue: str = "", interval_s: float = 2.0) -> int:
    """Opens the screen until the person leaves; returns the exit code."""
    chosen = theme.preferred(os.environ)
    app = Cockpit(settings, demo, open_queue=open_queue, interval_s=interval_s, theme_name=chosen)
    app.run()
    return app.return_code or 0


__all__ = ["Cockpit", "run", "summary"]
