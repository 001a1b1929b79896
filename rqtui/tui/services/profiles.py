"""Switch to another Redis while the app runs, and report the problems of the config file.

A switch replaces the session with all its data, marks and counts, and starts again on the overview.
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
from rqtui.session import create_engine
from rqtui.tui import keys
from rqtui.tui.format import theme
from rqtui.tui.host import Host
from rqtui.tui.services.palette import Command

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from rqtui.scenarios.run import Run

# URLs that are valid without asking redis-py, whose import is slow.
PLAIN_URL = re.compile(r"redis://[\w.-]+(:\d{1,5})?(/\d*)?", re.ASCII)
MAX_PATH_CHARS = 44  # longest path in a toast


class Profiles:
    """Switches between profiles, and applies the keymap and theme of the config file.

    `open` replaces the session. `is_changing` returns whether a change of many jobs runs, which a switch would stop.
    `is_colourless` is true with NO_COLOR, which overrides the theme of a profile.
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
        self._reported_clashes: frozenset[str] = frozenset()

    @property
    def _settings(self) -> Settings:
        return self._host.session.settings

    def list_commands(self) -> Iterator[Command]:
        """Yield a palette command for each other profile in the current config file."""
        file, here = self._load_config(), self._settings.profile
        for name, profile in sorted(file.profiles.items() if file else ()):
            if name != here:
                url = connect.mask(str(profile.get("url", "")))
                yield Command(f"profile {name}", f"go over to {url or 'it'}", partial(self.switch_to_profile, name))

    def _load_config(self) -> Config | None:
        """Load the config file again. Return None if it cannot be read."""
        where = self._settings.config
        try:
            return config.read_config_file(Path(where)) if where else None
        except (OSError, UnicodeDecodeError):
            return None

    def switch_to_profile(self, name: str) -> None:
        """Switch to a profile, or show an error message if that is impossible."""
        settings, file = self._settings, self._load_config()
        if file is None or name not in file.profiles:
            self.show_config_message(f'There is no profile "{name}" in {settings.config or "any config file"}.')
            return
        given = resolve.CommandLine(
            read_only=settings.is_asked_read_only,
            is_debug=settings.is_debug,
            log_format=settings.log_format,
            is_calm=settings.is_calm,
            is_ascii=settings.is_ascii,
        )
        resolved = resolve.resolve_profile_settings(file, name, given)
        if resolved.sources["url"] == resolve.BUILT_IN:
            self.show_config_message(f'{file.format_key_position("profiles", name)}: profile "{name}" has no url.')
            return
        self.switch_to(resolved.settings, f"profile {name}")

    def switch_to_url(self, url: str) -> None:
        """Switch to another Redis without a profile. Restrictions of the current settings still apply."""
        self.switch_to(replace(self._settings, url=url, profile="", badge=""), connect.mask(url))

    def switch_to(self, settings: Settings, where: str = "", demo: Run | None = None) -> None:
        """Switch to other settings, after a question if a change of many jobs runs. `where` names them in a toast."""
        try:
            create_engine(settings)  # validates the settings; nothing is sent
        except RqtuiError as error:
            self._host.show_toast(str(error), "error")
            return
        if not self._is_changing():
            self._switch(settings, where, demo)
            return
        from rqtui.tui.widgets.question_dialog import create_stop_question

        def handle_decision(given: object) -> None:
            if given is not None:
                self._host.app.call_later(self._switch, settings, where, demo)

        self._host.app.push_screen(create_stop_question("Leave this Redis", "leave"), handle_decision)

    def _switch(self, settings: Settings, where: str, demo: Run | None) -> None:
        self._open(settings, demo)
        self._apply_theme(settings.theme or theme.DARK)
        if where:
            self._host.show_toast(f"Now on {where}. Marks and undo of the Redis before are gone.")
        self.show_config_problems()

    def show_config_message(self, words: str, severity: SeverityLevel = "error") -> None:
        """Show a sentence about the config file for 20 seconds. A long path is shortened to fit into the toast."""
        path = self._settings.config
        short = str(Path(path)).replace(str(Path.home()), "~", 1)
        short = short if len(short) <= MAX_PATH_CHARS else f"…/{Path(path).name}"
        self._host.show_toast(words.replace(path, short) if path else words, severity, timeout=20)

    def show_config_problems(self) -> None:
        """Show the problems and notes of the config file as toasts."""
        for problem in self._settings.problems:
            self.show_config_message(problem)
        for note in self._settings.notes:
            self.show_config_message(note, "warning")

    # -- keys and colours of the file ---------------------------------------------------------------------------------

    def apply_keymap(self) -> None:
        """Apply the keymap of the config file, and show its invalid entries as toasts."""
        app, settings = self._host.app, self._settings
        app.theme_changed_signal.subscribe(app, lambda chosen: self._show_theme_hint(chosen.name))
        keys.set_keymap({})
        if not settings.keymap:
            return
        from rqtui.tui.services import keymap

        keymap_check = keymap.validate_keymap(settings.keymap, self._load_config() or Config(Path(settings.config)))
        keys.set_keymap(keymap_check.keymap)
        app.set_keymap(dict(keymap_check.keymap))
        for problem in keymap_check.problems:
            self.show_config_message(problem)

    def report_key_clash(self, clashed: set[Binding]) -> None:
        """Report once which keys of the keymap another binding of this screen uses, for example a demo's strip."""
        names = ", ".join(sorted(f"{keys.format_keys(each.key)} ({each.description})" for each in clashed))
        if names not in self._reported_clashes:  # Textual reports the clash again with every key
            self._reported_clashes |= {names}
            self._host.show_toast(f"keymap: these keys do something else now: {names}.", "warning")

    def _apply_theme(self, name: str) -> None:
        """Switch to a theme, unless NO_COLOR is set or the theme is unknown."""
        if not self._is_colourless and name in self._host.app.available_themes:
            self._host.app.theme = name

    def _show_theme_hint(self, name: str) -> None:
        """Show how to keep a theme that was chosen in the app: the line to write into the config file."""
        settings = self._settings
        if name in (settings.theme or theme.DARK, theme.ANSI if self._is_colourless else ""):
            return
        where = f"[profiles.{settings.profile}] of " if settings.profile else ""
        file = settings.config or "the config file"
        self._host.show_toast(f'To keep these colours, write  theme = "{name}"  into {where}{file}.')


def remove_invalid_settings(settings: Settings) -> Settings:
    """Return settings without the invalid URL, system or theme of a profile, and add the problems to show on screen.

    Raises UsageError for a URL or system given on the command line.
    """
    from rqtui.tui.services import keymap

    problems = list(settings.problems)
    if settings.systems or not PLAIN_URL.fullmatch(settings.url):
        try:
            create_engine(settings)  # invalid settings are refused before the screen opens
        except UsageError as error:
            if not settings.profile:
                raise
            problems.append(f"profile {settings.profile}: {error}")
            settings = replace(settings, url=DEFAULT_URL, systems=(), read_only=True)
    if settings.theme and keymap.explain_unknown_theme(settings.theme):
        problems += keymap.find_theme_problems(config.read_config_file(Path(settings.config)))
        settings = replace(settings, theme="")
    return replace(settings, problems=tuple(problems)) if problems else settings
