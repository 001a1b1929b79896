"""Profiles: the part of the app that goes over to another Redis while the screen stands.

A switch ends the ticker and the loops, forgets what was seen, marked and counted of the old Redis, and begins anew on
the overview (`begin_session` of every part). Messages of the old ticker that still come are not heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode

from rqtui import config, in_force, server
from rqtui.config import Config
from rqtui.errors import RqtuiError, UsageError
from rqtui.settings import DEFAULT_URL, Settings
from rqtui.tui import keys, theme
from rqtui.tui.overview import Overview
from rqtui.tui.palette import Command, Word
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from rqtui.scenarios.run import Run

MOST_OF_A_PATH = 44  # letters of it in a toast


class Profiles(Part):
    """A mixin of the app."""

    _clashes_told: frozenset[str] = frozenset()

    def commands_of_profiles(self) -> Iterator[Command]:
        """A command per profile of the config file, as it is now."""
        file, here = self._config(), self.cockpit.settings.profile
        for name, profile in sorted(file.profiles.items() if file else ()):
            if name != here:
                url = server.mask(str(profile.get("url", "")))
                yield f"profile {name}", f"go over to {url or 'it'}", partial(self.go_to_profile, name)

    def words_of_profiles(self) -> Iterator[Word]:
        """`url redis://…`."""
        yield Word("url", "a URL", "go over to another Redis", self.go_to_url)

    def _config(self) -> Config | None:
        """The config file as it is now, if it can be read."""
        where = self.cockpit.settings.config
        try:
            return config.read(Path(where), Path(where).read_text("utf-8")) if where else None
        except (OSError, UnicodeDecodeError):
            return None

    def go_to_profile(self, name: str) -> None:
        """Goes over to a profile; says why where that cannot be."""
        app, file = self.cockpit, self._config()
        if file is None or name not in file.profiles:
            self.warn(f'There is no profile "{name}" in {app.settings.config or "any config file"}.')
            return
        given = in_force.Given(
            read_only=app.settings.is_asked_read_only,
            is_debug=app.settings.is_debug,
            log_format=app.settings.log_format,
            is_calm=app.settings.is_calm,
            is_ascii=app.settings.is_ascii,
        )
        made = in_force.of_profile(file, name, given)
        if made.sources["url"] == in_force.BUILT_IN:
            self.warn(f'{file.at("profiles", name)}: profile "{name}" has no url.')
            return
        self.switch_to(made.settings, f"profile {name}")

    def go_to_url(self, url: str) -> None:
        """Goes over to another Redis, which is of no profile; what was forbidden stays forbidden."""
        self.switch_to(replace(self.cockpit.settings, url=url, profile="", badge=""), server.mask(url))

    def switch_to(self, settings: Settings, where: str = "", demo: Run | None = None) -> None:
        """Goes over to other settings, asking first while a change of many jobs runs. `where` names them in a toast."""
        from rqtui.tui.app import make_engine

        app = self.cockpit
        try:
            make_engine(settings)  # nothing is sent
        except RqtuiError as error:
            app.say(str(error), "error")
            return
        if not app.progress():
            self._switch(settings, where, demo)
            return
        from rqtui.tui.dialogs import Question

        words = Content("A change of many jobs runs: it would stop here; what was done stays done.")
        question = Question("Leave this Redis", [words], (), "leave", True)

        def decided(given: object) -> None:
            if given is not None:
                app.call_later(self._switch, settings, where, demo)

        app.push_screen(question, decided)

    def _switch(self, settings: Settings, where: str, demo: Run | None) -> None:
        app = self.cockpit
        app.stop_changes()
        app.ticker.stop(0)  # not waited for: a step may be under way on a slow link
        for loop in app.loops.values():
            loop.stop(0)
        app.settings, app.demo, app.serves_foreign = settings, demo, demo is not None
        app.begin_session()
        app.ticker = app.make_ticker(settings.interval_s)
        while len(app.screen_stack) > 1:
            app.pop_screen()
        if not app.screen._result_callbacks:  # Textual's own first screen was never pushed, and cannot be switched
            app.screen._push_result_callback(app, None)
        app.switch_screen(Overview())  # its first picture starts the ticker
        app.show_theme(settings.theme or theme.DARK)
        if where:
            app.say(f"Now on {where}. Marks and undo of the Redis before are gone.")
        self.tell_config()

    def warn(self, words: str, severity: str = "error") -> None:
        """A sentence about the config file, which stays for a while. A long path is shortened: a toast would cut it."""
        path = self.cockpit.settings.config
        short = str(Path(path)).replace(str(Path.home()), "~", 1)
        short = short if len(short) <= MOST_OF_A_PATH else f"…/{Path(path).name}"
        self.cockpit.say(words.replace(path, short) if path else words, severity, timeout=20)

    def tell_config(self) -> None:
        """What is wrong in the config file, and what is worth a word about it."""
        for problem in self.cockpit.settings.problems:
            self.warn(problem)
        for note in self.cockpit.settings.notes:
            self.warn(note, "warning")

    # -- keys and colours of the file ---------------------------------------------------------------------------------

    def use_keymap(self) -> None:
        """Gives the bindings the keys of the config file; a wish that cannot be granted is told."""
        app = self.cockpit
        app.theme_changed_signal.subscribe(app, lambda chosen: app.on_theme_chosen(chosen.name))
        keys.take({})
        if not app.settings.keymap:
            return
        from rqtui.tui import keymap

        granted = keymap.checked(app.settings.keymap, self._config() or Config(Path(app.settings.config)))
        keys.take(granted.keymap)
        app.set_keymap(dict(granted.keymap))
        for problem in granted.problems:
            self.warn(problem)

    def handle_bindings_clash(self, clashed: set[Binding], _node: DOMNode) -> None:
        """A key of the keymap that something else here has already, a demo's strip for one: says which, once."""
        names = ", ".join(sorted(f"{keys.shown(each.key)} ({each.description})" for each in clashed))
        if names not in self._clashes_told:  # Textual asks anew with every key
            self._clashes_told |= {names}
            self.cockpit.say(f"keymap: these keys do something else now: {names}.", "warning")

    def show_theme(self, name: str) -> None:
        """Takes other colours, unless NO_COLOR forbids colours."""
        app = self.cockpit
        if not app.is_colourless and name in app.available_themes:
            app.theme = name


def openable(settings: Settings) -> Settings:
    """These settings, without what the config file has wrong in a URL, a layout or a theme: that is told on the screen.

    Raises UsageError where the command line is wrong.
    """
    from rqtui.tui import app, keymap

    problems = list(settings.problems)
    if settings.layouts or not app.PLAIN_URL.fullmatch(settings.url):
        try:
            app.make_engine(settings)  # what nobody can understand is refused before the screen opens
        except UsageError as error:
            if not settings.profile:
                raise
            problems.append(f"profile {settings.profile}: {error}")
            settings = replace(settings, url=DEFAULT_URL, layouts=(), read_only=True)
    if settings.theme and keymap.theme_problem(settings.theme):
        file = Path(settings.config)
        problems += keymap.theme_problems(config.read(file, file.read_text("utf-8")))
        settings = replace(settings, theme="")
    return replace(settings, problems=tuple(problems)) if problems else settings
