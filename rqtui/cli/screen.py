"""Open the terminal screen. Apart from `cli/demo.py`, no other module of `cli` imports from `tui`.

This module does not import typer, whose import takes longer than the first snapshot.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from rqtui.config.settings import Settings
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from rqtui.config.file import Config

# Seconds that the engine's thread may decode while the painting thread waits. From a key press to its paint, during a
# filter over 300 000 matching jobs, the median is 139 ms with Python's default of 5 ms, and 52 ms with 0.5 ms.
SWITCH_INTERVAL_S = 0.0005


def screen(settings: Settings) -> int:
    """Open the terminal screen and return its exit code. Raises UsageError without a terminal or for a wrong URL."""
    require_terminal("rqtui snapshot, rqtui jobs, rqtui --help")
    # Two garbage collections of the modules just imported free nothing, and take a fifth of the time to the first
    # snapshot.
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        from rqtui.tui.app import run

        return run(settings)
    finally:
        gc.enable()


def replay_screen(settings: Settings, path: Path, at_ms: int | None) -> int:
    """Open the terminal screen on a recording and return its exit code. Raises UsageError without a terminal."""
    require_terminal("rqtui snapshot --at, rqtui health --at, rqtui errors --at")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    from rqtui.recording.replay import ReplayEngine
    from rqtui.tui.app import run_replay

    return run_replay(settings, lambda _settings: ReplayEngine.open(path, at_ms))


def require_terminal(alternatives: str) -> None:
    """Raise UsageError, with the commands to use instead, if stdin or stdout is no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"the screen needs a terminal. Without one: {alternatives}.")


def find_screen_config_errors(config: Config) -> list[str]:
    """Return the config file errors that only the screen can find: unknown keys and themes."""
    from rqtui.tui.services.keymap import find_theme_problems, validate_keymap

    return [*validate_keymap(config.keymap, config).problems, *find_theme_problems(config)]
