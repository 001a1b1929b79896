"""The clipboard of the machine that somebody sits at: how copied text gets there through a terminal.

tmux swallows OSC 52 unless it is told otherwise, so there it is asked to pass the bytes on itself; GNU screen wants the
sequence wrapped; every other terminal gets it plain. No terminal says whether it took it, so nothing here says more
than "sent". What is too long for the narrowest of them, or finds no way, goes into a file that only its owner reads.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MOST_BASE64 = 74_994  # letters of one OSC 52 that xterm, and mosh behind it, still take
MOST_BYTES = MOST_BASE64 // 4 * 3
TMUX_S = 5.0  # a tmux that is stopped must not hold us
_SCREEN_BYTES = 500  # of one DCS string; GNU screen drops those beyond 768


@dataclass(frozen=True, slots=True)
class Sent:
    """Where it went: `where` in words, and `why` it is a file where it is one."""

    where: str
    why: str = ""


Way = Callable[[str], object]


def send(data: bytes, write: Way | None, environ: Mapping[str, str] = os.environ, *, copy: Way | None = None) -> Sent:
    """Sends `data` to the clipboard by the way that this terminal has; `write` gets what goes to the terminal as it is.

    Where nothing can be written so, `copy` gets the text: Textual's own way, which knows less.

    It may wait for tmux, so it is called on a thread. Raises OSError when not even a file can be written.
    """
    if len(data) > MOST_BYTES:
        return _to_file(data, f"a clipboard behind a terminal takes {MOST_BYTES // 1000} kB at most")
    if environ.get("TMUX"):
        problem = _to_tmux(data, environ)
        return _to_file(data, problem) if problem else Sent("tmux")
    if write is None:
        return _by_textual(data, copy, bool(environ.get("STY")))
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("STY"):
        write(_wrapped(sequence))
        return Sent("screen")
    write(sequence)
    return Sent("the terminal")


def _by_textual(data: bytes, copy: Way | None, is_in_screen: bool) -> Sent:
    """Textual sends text, and does not wrap it for GNU screen."""
    if copy is None or is_in_screen:
        return _to_file(data, "this version of Textual has no way to this clipboard")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _to_file(data, "this version of Textual copies only text")
    copy(text)
    return Sent("the terminal")


def _to_tmux(data: bytes, environ: Mapping[str, str]) -> str:
    """What went wrong, empty when tmux took it; -w (tmux 3.2 and later) hands it on to the terminal outside."""
    program = shutil.which("tmux")
    if program is None:
        return "tmux is not on the PATH"
    try:
        done = subprocess.run(
            [program, "load-buffer", "-w", "-"],
            input=data,
            env={**os.environ, **environ},
            capture_output=True,
            timeout=TMUX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tmux did not answer ({type(error).__name__})"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"tmux refused it: {said[-1] if said else f'exit {done.returncode}'}"


def _wrapped(sequence: str) -> str:
    """The same for GNU screen, which hands on what stands in DCS strings, and takes only short ones."""
    parts = [sequence[at : at + _SCREEN_BYTES] for at in range(0, len(sequence), _SCREEN_BYTES)]
    return "".join(f"\x1bP{part}\x1b\\" for part in parts)


def _to_file(data: bytes, why: str) -> Sent:
    number, path = tempfile.mkstemp(prefix="rqtui-copy-")  # 0600
    with os.fdopen(number, "wb") as file:
        file.write(data)
    return Sent(path, why)
