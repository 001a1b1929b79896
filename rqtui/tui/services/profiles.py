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
    """The service that switches between profiles, and applies the keymap and theme of the config file.

    `open` replaces the session. `is_changing` returns whether a change of many jobs runs, which a switch would stop.
    `is_colourless` is true with NO_COLOR, which overrides the theme of a profile.
    """

    def __init__(
        self,
        host: Host,
        open_session: Callable[[Settings, Run | None], None],
        is_change_running: Callable[[], bool],
        *,
        is_colourless: bool,
    ) -> None:
        self._host, self._open_session, self._is_change_running = host, open_session, is_change_running
        self._is_colourless = is_colourless
        self._reported_clashes: frozenset[str] = frozenset()

    @property
    def _settings(self) -> Settings:
        return self._host.session.settings

    def list_profile_commands(self) -> Iterator[Command]:
        """Yield a palette command for each other profile in the current config file."""
        file, current_name = self._load_config(), self._settings.profile
        for name, profile in sorted(file.profiles.items() if file else ()):
            if name != current_name:
                url = connect.hide_url_passwords(str(profile.get("url", "")))
                yield Command(f"profile {name}", f"go over to {url or 'it'}", partial(self.switch_to_profile, name))

    def _load_config(self) -> Config | None:
        """Load the config file again. Return None if the file cannot be read."""
        path = self._settings.config
        try:
            return config.read_config_file(Path(path)) if path else None
        except (OSError, UnicodeDecodeError):
            return None

    def switch_to_profile(self, name: str) -> None:
        """Switch to the Redis of a profile, or show an error message if that is impossible."""
        settings, file = self._settings, self._load_config()
        if file is None or name not in file.profiles:
            self.show_config_message(f'There is no profile "{name}" in {settings.config or "any config file"}.')
            return
        command_line = resolve.CommandLine(
            read_only=settings.is_asked_read_only,
            is_debug=settings.is_debug,
            log_format=settings.log_format,
            is_calm=settings.is_calm,
            is_ascii=settings.is_ascii,
        )
        resolved = resolve.resolve_profile_settings(file, name, command_line)
        if resolved.sources["url"] == resolve.BUILT_IN:
            self.show_config_message(f'{file.format_key_position("profiles", name)}: profile "{name}" has no url.')
            return
        self.switch_to_settings(resolved.settings, f"profile {name}")

    def switch_to_url(self, url: str) -> None:
        """Switch to another Redis without a profile. Restrictions of the current settings still apply."""
        self.switch_to_settings(replace(self._settings, url=url, profile="", badge=""), connect.hide_url_passwords(url))

    def switch_to_settings(self, settings: Settings, name: str = "", demo: Run | None = None) -> None:
        """Switch to other settings, after a question if a change of many jobs runs. `name` names them in a toast."""
        try:
            create_engine(settings)  # validates the settings; nothing is sent
        except RqtuiError as error:
            self._host.show_toast(str(error), "error")
            return
        if not self._is_change_running():
            self._open_session_with_theme(settings, name, demo)
            return
        from rqtui.tui.widgets.question_dialog import create_stop_question

        def switch_if_confirmed(reply: object) -> None:
            if reply is not None:
                self._host.app.call_later(self._open_session_with_theme, settings, name, demo)

        self._host.app.push_screen(create_stop_question("Leave this Redis", "leave"), switch_if_confirmed)

    def _open_session_with_theme(self, settings: Settings, name: str, demo: Run | None) -> None:
        self._open_session(settings, demo)
        self._apply_theme(settings.theme or theme.DARK)
        if name:
            self._host.show_toast(f"Now on {name}. Marks and undo of the previous Redis are dropped.")
        self.show_config_problems()

    def show_config_message(self, message: str, severity: SeverityLevel = "error") -> None:
        """Show a sentence about the config file for 20 seconds. A long path is shortened to fit into the toast."""
        path = self._settings.config
        short_path = str(Path(path)).replace(str(Path.home()), "~", 1)
        short_path = short_path if len(short_path) <= MAX_PATH_CHARS else f"…/{Path(path).name}"
        self._host.show_toast(message.replace(path, short_path) if path else message, severity, timeout=20)

    def show_config_problems(self) -> None:
        """Show the problems and notes of the config file as toasts."""
        for problem in self._settings.problems:
            self.show_config_message(problem)
        for note in self._settings.notes:
            self.show_config_message(note, "warning")

    # -- keys and colours of the file ---------------------------------------------------------------------------------

    def apply_configured_keymap(self) -> None:
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
        names = ", ".join(sorted(f"{keys.format_keys(binding.key)} ({binding.description})" for binding in clashed))
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

    Raises UsageError for an invalid URL or system given on the command line.
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
