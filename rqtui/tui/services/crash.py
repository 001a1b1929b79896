"""Crash: an error of rqtui's own becomes a sentence, and a file with the details that only its owner may read.

Textual prints a traceback with the values of all variables, and among those are passwords and the bodies of jobs. Here
it has neither; `--debug` prints it at once. The file is for the report of the fault.
"""

from __future__ import annotations

import os
import re
import tempfile
import traceback
from urllib.parse import unquote, urlsplit

from rqtui.text.body import mask_text
from rqtui.text.sanitise import safe_lines

_PASSWORD = re.compile(r"(\w+://[^\s:@/]*):\S+@")  # in every URL, wherever it stands


def sentences(error: BaseException | None, url: str, *, is_debug: bool) -> str:
    """What the terminal shows of an error that nobody caught: a sentence or two; in debugging, the traceback."""
    words = report(error)
    for secret in _passwords(url):
        words = words.replace(secret, "***")
    if is_debug:
        return words
    return f"rqtui has a fault and had to stop: {_last(words)}\nNothing was lost in Redis. {_kept(words)}"


def report(error: BaseException | None) -> str:
    """The traceback of an error, without the values of variables, and without passwords."""
    lines = "".join(traceback.format_exception(error)) if error else "no error"
    return "\n".join(safe_lines(masked(lines)))


def masked(text: str) -> str:
    """`text` with the passwords of its URLs masked, and what stands behind `password=` and its like."""
    return mask_text(_PASSWORD.sub(r"\1:***@", text))


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
