"""The way to the screen: `cli/demo.py` aside, no other module of `cli` imports anything of `tui`.

Opening it must not wait for typer, whose import takes longer than a first picture.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from rqtui.config.settings import Settings
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.config.file import Config

# How long the engine's thread may decode while the one that paints waits. Measured from a key to its paint while a
# filter looks through 300 000 jobs, all of which fit: 139 ms at the median with Python's 5 ms, 52 with half of one.
SWITCH_S = 0.0005


def screen(settings: Settings) -> int:
    """Opens the screen until the person leaves. Raises UsageError without a terminal, or for a URL that is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal. Without one: rqtui snapshot, rqtui jobs, rqtui --help.")
    # Two looks through everything that was just imported, in vain, take a fifth of the time to the first picture.
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    try:
        from rqtui.tui.app import run

        return run(settings)
    finally:
        gc.enable()


def problems(config: Config) -> list[str]:
    """What only the screen finds wrong in the config file: names of keys and of themes."""
    from rqtui.tui.services.keymap import checked, theme_problems

    return [*checked(config.keymap, config).problems, *theme_problems(config)]
