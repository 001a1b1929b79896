"""Opening the screen: the one thing that must not wait for typer, whose import takes longer than a first picture."""

from __future__ import annotations

import sys

from rqtui.errors import UsageError
from rqtui.settings import Settings


def screen(settings: Settings) -> int:
    """Opens the screen until the person leaves. Raises UsageError without a terminal, or for a URL that is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal. Without one: rqtui snapshot, rqtui jobs, rqtui --help.")
    from rqtui.tui.app import run

    return run(settings)
