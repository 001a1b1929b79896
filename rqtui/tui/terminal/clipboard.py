"""Copy text to the clipboard of the user's machine through the terminal.

tmux ignores OSC 52 by default, so `tmux load-buffer -w` passes the bytes on. GNU screen needs the sequence wrapped.
Every other terminal gets it unchanged. No terminal confirms the copy, so the result only says where the bytes were
sent. Text that is too long, or that cannot be sent, is written to a file that only its owner can read.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAX_BYTES = 56_244  # 74 992 characters of base64; xterm and mosh accept 74 994 in one OSC 52
TMUX_TIMEOUT_S = 5.0  # seconds to wait for tmux, which may be stopped
_SCREEN_BYTES = 500  # bytes of one DCS string; GNU screen drops strings beyond 768


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of copying to the clipboard.

    `where` names the terminal program that received the bytes, or is the path of the file that they were written to.
    `why` is the reason for the file, or "".
    """

    where: str
    why: str = ""


Writer = Callable[[str], object]


def send_to_clipboard(
    data: bytes, write: Writer | None, environ: Mapping[str, str] = os.environ, *, copy: Writer | None = None
) -> CopyResult:
    """Copy `data` to the user's clipboard in the way that this terminal supports, and return where the bytes were sent.

    `write` sends a text unchanged to the terminal. If it is None, `copy` gets the text: Textual's own function, which
    supports fewer terminals.

    The function may wait for tmux, so it is called on a thread. Raises OSError if not even a file can be written.
    """
    if len(data) > MAX_BYTES:
        return _copy_to_file(data, f"a clipboard behind a terminal takes {MAX_BYTES // 1000} kB at most")
    if environ.get("TMUX"):
        problem = _send_to_tmux(data, environ)
        return _copy_to_file(data, problem) if problem else CopyResult("tmux")
    if write is None:
        return _send_by_textual(data, copy, bool(environ.get("STY")))
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("STY"):
        write(_wrap_for_screen(sequence))
        return CopyResult("screen")
    write(sequence)
    return CopyResult("the terminal")


def _send_by_textual(data: bytes, copy: Writer | None, is_in_screen: bool) -> CopyResult:
    """Copy bytes to the clipboard with Textual's own function, or write them to a file where it cannot copy them.

    Textual's function sends only text, and does not wrap the sequence for GNU screen.
    """
    if copy is None or is_in_screen:
        return _copy_to_file(data, "this version of Textual has no way to this clipboard")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _copy_to_file(data, "this version of Textual copies only text")
    copy(text)
    return CopyResult("the terminal")


def _send_to_tmux(data: bytes, environ: Mapping[str, str]) -> str:
    """Send bytes to the paste buffer of tmux and to the outer terminal's clipboard; return the error message, or "".

    The option `-w` (tmux 3.2) passes the bytes on to the outer terminal.
    """
    program = shutil.which("tmux")
    if program is None:
        return "tmux is not on the PATH"
    try:
        result = subprocess.run(
            [program, "load-buffer", "-w", "-"],
            input=data,
            env={**os.environ, **environ},
            capture_output=True,
            timeout=TMUX_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tmux did not answer ({type(error).__name__})"
    if result.returncode == 0:
        return ""
    error_lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"tmux refused it: {error_lines[-1] if error_lines else f'exit {result.returncode}'}"


def _wrap_for_screen(sequence: str) -> str:
    """Wrap a terminal sequence in DCS strings that are short enough for GNU screen to pass on their content."""
    chunks = [sequence[start : start + _SCREEN_BYTES] for start in range(0, len(sequence), _SCREEN_BYTES)]
    return "".join(f"\x1bP{chunk}\x1b\\" for chunk in chunks)


def _copy_to_file(data: bytes, why: str) -> CopyResult:
    """Write the copied bytes to a temporary file that only its owner can read, for the reason `why`."""
    descriptor, path = tempfile.mkstemp(prefix="rqtui-copy-")  # created with mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return CopyResult(path, why)
