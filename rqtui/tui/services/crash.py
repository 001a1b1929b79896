"""Report an unexpected error of rqtui as one sentence and a private file with the traceback.

Textual's own traceback prints the values of all variables, which include passwords and job bodies. The file (mode 0600)
has neither and can be attached to a bug report. `--debug` prints the traceback at once.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from urllib.parse import unquote, urlsplit

from rqtui.text.masking import mask_text
from rqtui.text.sanitise import safe_lines


def format_crash_message(error: BaseException | None, url: str, *, is_debug: bool) -> str:
    """Return what the terminal prints after an unexpected error: two sentences, or the traceback with `is_debug`."""
    traceback_text = format_masked_traceback(error)
    for secret in _list_passwords(url):
        traceback_text = traceback_text.replace(secret, "***")
    if is_debug:
        return traceback_text
    last_line = _find_last_line(traceback_text)
    file_sentence = _write_crash_file(traceback_text)
    return f"rqtui has a fault and had to stop: {last_line}\nNothing was lost in Redis. {file_sentence}"


def format_masked_traceback(error: BaseException | None) -> str:
    """Format the traceback of an error without the values of variables and without passwords."""
    lines = "".join(traceback.format_exception(error)) if error else "no error"
    return "\n".join(safe_lines(mask_secrets(lines)))


def mask_secrets(text: str) -> str:
    """Mask the passwords of URLs in `text`, and the values after `password=` and similar names."""
    return mask_text(text)


def _list_passwords(url: str) -> list[str]:
    """Return the password of a URL as it is written and as it is decoded, if it has at least three characters."""
    written = urlsplit(url).password or ""
    return [password for password in dict.fromkeys((written, unquote(written))) if len(password) > 2]


def _find_last_line(text: str) -> str:
    return text.strip().rsplit("\n", 1)[-1]


def _write_crash_file(traceback_text: str) -> str:
    """Write a traceback to a file that only its owner can read, and return a sentence that names the file."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="rqtui-crash-", suffix=".txt")  # 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(traceback_text + "\n")
    except OSError as error:
        return f"Its details could not be written to a file: {error.strerror}; --debug shows them."
    return f"Its details are in {path}; --debug shows them here."
