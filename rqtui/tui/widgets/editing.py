"""Editing a body: the field that holds raw bytes, its check while somebody types, and the way through $EDITOR.

What was not touched is what was there, byte for byte. A body that is no text, that holds control characters, or that
is too long for a field, is not drawn: it goes as it is, and $EDITOR opens it all the same. Nothing here talks to Redis.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Label, Static, TextArea

from rqtui.errors import UsageError
from rqtui.text import formats
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe
from rqtui.tui import keys

EDITABLE = 256 * 1024  # bytes; a longer one is slow to type in


def hint() -> str:
    """The keys of the field."""
    return f"{keys.of('dialog.editor', 'Ctrl+E')} $EDITOR  {keys.of('dialog.tidy', 'Ctrl+R')} tidy"


class BodyEditor(Vertical):
    """The bytes of a body, as text where they are some. `is_json`: what is typed has to be JSON."""

    DEFAULT_CSS = """
    BodyEditor { height: 6; }
    BodyEditor > Label { height: 1; }
    BodyEditor > .as-it-is { height: 1fr; padding: 0 1; color: $muted; background: $raised; display: none; }
    BodyEditor.-raw > TextArea { display: none; }
    BodyEditor.-raw > .as-it-is { display: block; }
    """

    class Checked(Message):
        """What was typed can be read, or why it cannot."""

        def __init__(self, problem: str) -> None:
            super().__init__()
            self.problem = problem

    def __init__(self, name: str, label: str, raw: bytes, is_json: bool) -> None:
        super().__init__(id=f"body-{name}")
        self._field, self._words = name, label
        self._raw, self._is_json = raw, is_json and len(raw) <= EDITABLE and (not raw or problem_of(raw) == "")
        self._drawn: str | None = None  # the text as the field gave it back when it was loaded

    def compose(self) -> ComposeResult:
        """What it is, and the text, or why there is none to see."""
        yield Label(Content(f"{self._words} ({'JSON' if self._is_json else 'as it is'}; Tab leaves it)"))
        area = TextArea("", id=f"field-{self._field}", tab_behavior="focus", compact=True)
        area.styles.height = "1fr"
        yield area
        yield Static("", classes="as-it-is")

    def on_mount(self) -> None:
        """Shows what it holds."""
        self._show()

    @property
    def suffix(self) -> str:
        """What the name of its file ends with, so that an editor knows what it is."""
        return ".json" if self._is_json else ".txt"

    @property
    def area(self) -> TextArea:
        """Where the text is typed."""
        return self.query_one(TextArea)

    def raw(self) -> bytes:
        """The bytes to send. Raises UsageError, with line and column, for text that should be JSON and is none."""
        if self._is_untouched():
            return self._raw
        made = to_bytes(self.area.text)
        problem = problem_of(made) if self._is_json else ""
        if problem:
            raise UsageError(problem)
        return made

    def replace(self, raw: bytes) -> None:
        """Other bytes, from an editor."""
        self._raw = raw
        self._show()
        self.check()

    def check(self) -> None:
        """Says whether what stands here can be sent."""
        try:
            self.raw()
        except UsageError as error:
            self.post_message(self.Checked(str(error)))
        else:
            problem = problem_of(self._raw) if self._is_json and self._is_untouched() and self._raw else ""
            self.post_message(self.Checked(problem))

    def tidy(self) -> None:
        """The same JSON with a line per member."""
        if self._is_json and not self.has_class("-raw"):
            try:
                text = tidied(self.raw().decode())
            except (UsageError, UnicodeDecodeError):
                self.check()
                return
            self.area.load_text(text)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """A letter more or less."""
        event.stop()
        if self._drawn is not None:
            self.check()

    def current(self) -> bytes:
        """What stands here now, right or wrong: for an editor, and for a form that is shown again."""
        return self._raw if self._is_untouched() else to_bytes(self.area.text)

    def _is_untouched(self) -> bool:
        return self.has_class("-raw") or self._drawn is None or self.area.text == self._drawn

    def _show(self) -> None:
        why = undrawable(self._raw)
        self.set_class(bool(why), "-raw")
        if why:
            editor = keys.of("dialog.editor", "Ctrl+E")
            words = f"{formats.size(len(self._raw))} {why}: it goes as it is, byte for byte. {editor} edits it."
            self.query_one(".as-it-is", Static).update(Content(words))
            self._drawn = None
            return
        self._drawn = None
        self.area.load_text(self._raw.decode())
        self._drawn = self.area.text


def undrawable(raw: bytes) -> str:
    """Why a body cannot stand in a field; empty when it can."""
    if len(raw) > EDITABLE:
        return "are too long for a form"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "that are no UTF-8"
    plain = text.replace("\n", "").replace("\t", "")
    return "with control characters" if safe(plain) != plain else ""


def problem_of(raw: bytes) -> str:
    """Why bytes are no JSON, with line and column; empty when they are."""

    def no_number(word: str) -> object:
        raise ValueError(f"{word} is no JSON number")

    try:
        json.loads(to_text(raw), parse_constant=no_number, parse_int=str)  # of 5000 digits
    except RecursionError:
        return "it is nested too deep."
    except json.JSONDecodeError as error:
        return f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except ValueError as error:
        return f"not JSON: {error}."
    return ""


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def tidied(text: str) -> str:
    """JSON with a line per member; nothing but the space between its tokens is changed. `text` is JSON."""
    made, depth, before = [], 0, ""
    for token in _TOKEN.findall(text):
        if token in ("}", "]"):
            depth -= 1
            made.append("" if before in ("{", "[") else "\n" + "  " * depth)
        elif before in ("{", "[", ","):
            made.append("\n" + "  " * depth)
        made.append(token + (" " if token == ":" else ""))
        depth += token in ("{", "[")
        before = token
    return "".join(made)


# -- $EDITOR ----------------------------------------------------------------------------------------------------------


def command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The person's editor and its options; UsageError where none is named."""
    words = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        made = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"$EDITOR cannot be read: {error}.") from None
    if not made:
        raise UsageError("$EDITOR is not set: export EDITOR=vi, or type here.")
    return made


def edited(raw: bytes, suffix: str, editor: list[str]) -> bytes:
    """What an editor makes of `raw`, in a file of one's own (0600) that is gone afterwards. Raises UsageError.

    An editor ends a file with a newline; one that was not there before is taken away.
    """
    try:
        number, name = tempfile.mkstemp(prefix="rqtui-", suffix=suffix)
    except OSError as error:
        raise UsageError(f"no file for an editor can be made: {error.strerror}; type here.") from None
    path = Path(name)
    try:
        with _kept(f"no file for {editor[0]} can be written"), os.fdopen(number, "wb") as file:
            file.write(raw)
        with _kept(f"{editor[0]} cannot be run"), _left_to_the_editor(signal.SIGINT, signal.SIGQUIT):
            done = subprocess.run([*editor, name], check=False)
        if done.returncode:
            ended = (
                f"was ended by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
            )
            raise UsageError(f"{editor[0]} {ended}; the body is as it was.")
        with _kept(f"what {editor[0]} left cannot be read"):
            made = path.read_bytes()
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return made[:-1] if made == raw + b"\n" or (made.endswith(b"\n") and not raw.endswith(b"\n")) else made


@contextlib.contextmanager
def _left_to_the_editor(*numbers: signal.Signals) -> Iterator[None]:
    """Ctrl+C in an editor is said to both: it ends the editor, or means something there, and never rqtui.

    By a handler that does nothing: what is ignored stays ignored in a program that is started.
    """
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _kept(what: str) -> Iterator[None]:
    """An error of the system inside as a sentence."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror}; the body is as it was.") from None
