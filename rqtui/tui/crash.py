"""Crash: what a person sees of an error that is ours: a sentence, and a file with the rest that only they may read.

Textual prints a traceback with the values of all variables, and among those are passwords and the bodies of jobs. Here
it has neither; `--debug` prints it at once. The file is for the report of the fault.
"""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rich.text import Text

from rqtui.tui import display
from rqtui.tui.part import Part

if TYPE_CHECKING:
    pass

_PASSWORD = re.compile(r"(\w+://[^\s:@/]*):\S+@")  # in every URL, wherever it stands


class Crash(Part):
    """A mixin of the app; it stands before Textual's App, whose method it replaces."""

    def _fatal_error(self) -> None:
        """Ends the app after an error that nobody caught."""
        app = self.cockpit
        app._close_messages_no_wait()
        if app._exit_renderables:
            return  # one that came of the first: that one tells
        words = report(app._exception)
        for secret in _passwords(app.settings.url):
            words = words.replace(secret, "***")
        if not app.settings.is_debug:
            words = f"rqtui has a fault and had to stop: {_last(words)}\nNothing was lost in Redis. {_kept(words)}"
        app._exit_renderables.append(Text(words))


def report(error: BaseException | None) -> str:
    """The traceback of an error, without the values of variables, and without passwords."""
    lines = "".join(traceback.format_exception(error)) if error else "no error"
    return "\n".join(display.safe_lines(masked(lines)))


def masked(text: str) -> str:
    """`text` with the passwords of its URLs masked, and what stands behind `password=` and its like."""
    return display.mask_text(_PASSWORD.sub(r"\1:***@", text))


def _passwords(url: str) -> list[str]:
    """The password of a URL as it stands there and as it is meant."""
    written = urlsplit(url).password or ""
    return [each for each in dict.fromkeys((written, unquote(written))) if len(each) > 2]


def _last(words: str) -> str:
    return words.strip().rsplit("\n", 1)[-1]


def _kept(words: str) -> str:
    """Where the traceback is now."""
    try:
        number, path = tempfile.mkstemp(prefix="rqtui-crash-", suffix=".txt")  # 0600
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(words + "\n")
    except OSError as error:
        return f"Its details could not be written to a file: {error.strerror}; --debug shows them."
    return f"Its details are in {path}; --debug shows them here."
