"""Profiles: goes over to another Redis while the screen stands, and tells what the config file has wrong.

A switch replaces the session, with all that was seen, marked and counted of the old Redis, and begins anew on the
overview.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.binding import Binding

from rqtui.config import file as config
from rqtui.config import resolve
from rqtui.config.file import Config
from rqtui.config.settings import DEFAULT_URL, Settings
from rqtui.connection import connect
from rqtui.errors import RqtuiError, UsageError
from rqtui.session import make_engine
from rqtui.tui import keys
from rqtui.tui.format import theme
from rqtui.tui.host import Host
from rqtui.tui.services.palette import Command

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from rqtui.scenarios.run import Run

PLAIN_URL = re.compile(r"redis://[\w.-]+(:\d{1,5})?(/\d*)?", re.ASCII)  # beyond doubt, without importing redis
MOST_OF_A_PATH = 44  # letters of it in a toast


class Profiles:
    """Profiles, and what else the config file says of the screen.

    `open` replaces the session; `is_changing` tells whether a change of many jobs runs, which would stop then.
    `is_colourless`: by NO_COLOR, whatever a profile says.
    """

    def __init__(
        self,
        host: Host,
        open: Callable[[Settings, Run | None], None],
        is_changing: Callable[[], bool],
        *,
        is_colourless: bool,
    ) -> None:
        self._host, self._open, self._is_changing = host, open, is_changing
        self._is_colourless = is_colourless
        self._clashes_told: frozenset[str] = frozenset()

    @property
    def _settings(self) -> Settings:
        return self._host.session.settings

    def commands(self) -> Iterator[Command]:
        """A command per profile of the config file, as it is now."""
        file, here = self._config(), self._settings.profile
        for name, profile in sorted(file.profiles.items() if file else ()):
            if name != here:
                url = connect.mask(str(profile.get("url", "")))
                yield Command(f"profile {name}", f"go over to {url or 'it'}", partial(self.go_to_profile, name))

    def _config(self) -> Config | None:
        """The config file as it is now, if it can be read."""
        where = self._settings.config
        try:
            return config.read(Path(where), Path(where).read_text("utf-8")) if where else None
        except (OSError, UnicodeDecodeError):
            return None

    def go_to_profile(self, name: str) -> None:
        """Goes over to a profile; says why where that cannot be."""
        settings, file = self._settings, self._config()
        if file is None or name not in file.profiles:
            self.warn(f'There is no profile "{name}" in {settings.config or "any config file"}.')
            return
        given = resolve.Given(
            read_only=settings.is_asked_read_only,
            is_debug=settings.is_debug,
            log_format=settings.log_format,
            is_calm=settings.is_calm,
            is_ascii=settings.is_ascii,
        )
        made = resolve.of_profile(file, name, given)
        if made.sources["url"] == resolve.BUILT_IN:
            self.warn(f'{file.at("profiles", name)}: profile "{name}" has no url.')
            return
        self.switch_to(made.settings, f"profile {name}")

    def go_to_url(self, url: str) -> None:
        """Goes over to another Redis, which is of no profile; what was forbidden stays forbidden."""
        self.switch_to(replace(self._settings, url=url, profile="", badge=""), connect.mask(url))

    def switch_to(self, settings: Settings, where: str = "", demo: Run | None = None) -> None:
        """Goes over to other settings, asking first while a change of many jobs runs. `where` names them in a toast."""
        try:
            make_engine(settings)  # nothing is sent
        except RqtuiError as error:
            self._host.say(str(error), "error")
            return
        if not self._is_changing():
            self._switch(settings, where, demo)
            return
        from rqtui.tui.widgets.dialogs import stops_changes

        def decided(given: object) -> None:
            if given is not None:
                self._host.app.call_later(self._switch, settings, where, demo)

        self._host.app.push_screen(stops_changes("Leave this Redis", "leave"), decided)

    def _switch(self, settings: Settings, where: str, demo: Run | None) -> None:
        self._open(settings, demo)
        self._show_theme(settings.theme or theme.DARK)
        if where:
            self._host.say(f"Now on {where}. Marks and undo of the Redis before are gone.")
        self.tell_config()

    def warn(self, words: str, severity: SeverityLevel = "error") -> None:
        """A sentence about the config file, which stays for a while. A long path is shortened: a toast would cut it."""
        path = self._settings.config
        short = str(Path(path)).replace(str(Path.home()), "~", 1)
        short = short if len(short) <= MOST_OF_A_PATH else f"…/{Path(path).name}"
        self._host.say(words.replace(path, short) if path else words, severity, timeout=20)

    def tell_config(self) -> None:
        """What is wrong in the config file, and what is worth a word about it."""
        for problem in self._settings.problems:
            self.warn(problem)
        for note in self._settings.notes:
            self.warn(note, "warning")

    # -- keys and colours of the file ---------------------------------------------------------------------------------

    def use_keymap(self) -> None:
        """Gives the bindings the keys of the config file; a wish that cannot be granted is told."""
        app, settings = self._host.app, self._settings
        app.theme_changed_signal.subscribe(app, lambda chosen: self._theme_chosen(chosen.name))
        keys.take({})
        if not settings.keymap:
            return
        from rqtui.tui.services import keymap

        granted = keymap.checked(settings.keymap, self._config() or Config(Path(settings.config)))
        keys.take(granted.keymap)
        app.set_keymap(dict(granted.keymap))
        for problem in granted.problems:
            self.warn(problem)

    def tell_clash(self, clashed: set[Binding]) -> None:
        """A key of the keymap that something else here has already, a demo's strip for one: says which, once."""
        names = ", ".join(sorted(f"{keys.shown(each.key)} ({each.description})" for each in clashed))
        if names not in self._clashes_told:  # Textual asks anew with every key
            self._clashes_told |= {names}
            self._host.say(f"keymap: these keys do something else now: {names}.", "warning")

    def _show_theme(self, name: str) -> None:
        """Takes other colours, unless NO_COLOR forbids colours."""
        if not self._is_colourless and name in self._host.app.available_themes:
            self._host.app.theme = name

    def _theme_chosen(self, name: str) -> None:
        """Another theme was chosen: says what keeps it."""
        settings = self._settings
        if name in (settings.theme or theme.DARK, theme.ANSI if self._is_colourless else ""):
            return
        where = f"[profiles.{settings.profile}] of " if settings.profile else ""
        file = settings.config or "the config file"
        self._host.say(f'To keep these colours, write  theme = "{name}"  into {where}{file}.')


def openable(settings: Settings) -> Settings:
    """These settings, without what the config file has wrong in a URL, a layout or a theme: that is told on the screen.

    Raises UsageError where the command line is wrong.
    """
    from rqtui.tui.services import keymap

    problems = list(settings.problems)
    if settings.layouts or not PLAIN_URL.fullmatch(settings.url):
        try:
            make_engine(settings)  # what nobody can understand is refused before the screen opens
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
