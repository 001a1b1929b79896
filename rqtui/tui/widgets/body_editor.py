"""Edit the body of a job: the input for raw bytes, its validation, and the call of $EDITOR.

An untouched body keeps its exact bytes. A body that is not UTF-8, has control characters or is too long is not shown in
the field and sent as it is; $EDITOR can still open it. Nothing here calls Redis.
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

MAX_EDITABLE_BYTES = 256 * 1024  # bytes; typing in a longer body is slow


def format_editor_hint() -> str:
    """Return the hint that names the keys of the input field for a job's body."""
    editor, tidy = keys.find_dialog_key("dialog.editor", "Ctrl+E"), keys.find_dialog_key("dialog.tidy", "Ctrl+R")
    return f"{editor} $EDITOR  {tidy} tidy"


class BodyEditor(Vertical):
    """An input field for the bytes of a job's body, shown as text if possible. With `is_json` the text must be JSON."""

    DEFAULT_CSS = """
    BodyEditor { height: 6; }
    BodyEditor > Label { height: 1; }
    BodyEditor > .as-it-is { height: 1fr; padding: 0 1; color: $muted; background: $raised; display: none; }
    BodyEditor.-raw > TextArea { display: none; }
    BodyEditor.-raw > .as-it-is { display: block; }
    """

    class Checked(Message):
        """Message with the error of the typed body, or "" if the body is valid."""

        def __init__(self, problem: str) -> None:
            super().__init__()
            self.problem = problem

    def __init__(self, name: str, label: str, raw: bytes, is_json: bool) -> None:
        super().__init__(id=f"body-{name}")
        self._field, self._words = name, label
        self._raw, self._is_json = (
            raw,
            is_json and len(raw) <= MAX_EDITABLE_BYTES and (not raw or find_json_problem(raw) == ""),
        )
        self._loaded_text: str | None = None  # text that the field returned after loading, to detect edits

    def compose(self) -> ComposeResult:
        """Create the label and the text area, or the reason why the body cannot be shown."""
        yield Label(Content(f"{self._words} ({'JSON' if self._is_json else 'as it is'}; Tab leaves it)"))
        area = TextArea("", id=f"field-{self._field}", tab_behavior="focus", compact=True)
        area.styles.height = "1fr"
        yield area
        yield Static("", classes="as-it-is")

    def on_mount(self) -> None:
        """Show the body in the text area when the field is created."""
        self._show_body()

    @property
    def suffix(self) -> str:
        """The suffix of the file that an editor opens, which shows the editor the type of the text."""
        return ".json" if self._is_json else ".txt"

    @property
    def area(self) -> TextArea:
        """The text area in which the body is typed."""
        return self.query_one(TextArea)

    def encode_body(self) -> bytes:
        """Return the bytes of the body to send. Raises UsageError with line and column for invalid JSON."""
        if self._is_unedited():
            return self._raw
        encoded = to_bytes(self.area.text)
        problem = find_json_problem(encoded) if self._is_json else ""
        if problem:
            raise UsageError(problem)
        return encoded

    def replace_body(self, raw: bytes) -> None:
        """Replace the body in the field, for example by the result of an editor."""
        self._raw = raw
        self._show_body()
        self.post_check_result()

    def post_check_result(self) -> None:
        """Post the message `Checked` with the error of the current body."""
        try:
            self.encode_body()
        except UsageError as error:
            self.post_message(self.Checked(str(error)))
        else:
            problem = find_json_problem(self._raw) if self._is_json and self._is_unedited() and self._raw else ""
            self.post_message(self.Checked(problem))

    def reformat(self) -> None:
        """Reformat the JSON body in the field with one line per member."""
        if self._is_json and not self.has_class("-raw"):
            try:
                text = reformat_json(self.encode_body().decode())
            except (UsageError, UnicodeDecodeError):
                self.post_check_result()
                return
            self.area.load_text(text)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Validate the body after each edit."""
        event.stop()
        if self._loaded_text is not None:
            self.post_check_result()

    def read_bytes(self) -> bytes:
        """Return the current bytes of the field, valid or not, for an editor or for a form that is shown again."""
        return self._raw if self._is_unedited() else to_bytes(self.area.text)

    def _is_unedited(self) -> bool:
        return self.has_class("-raw") or self._loaded_text is None or self.area.text == self._loaded_text

    def _show_body(self) -> None:
        reason = explain_unshowable_body(self._raw)
        self.set_class(bool(reason), "-raw")
        if reason:
            editor = keys.find_dialog_key("dialog.editor", "Ctrl+E")
            notice = (
                f"{formats.format_size(len(self._raw))} {reason}: it goes as it is, byte for byte. {editor} edits it."
            )
            self.query_one(".as-it-is", Static).update(Content(notice))
            self._loaded_text = None
            return
        self._loaded_text = None
        self.area.load_text(self._raw.decode())
        self._loaded_text = self.area.text


def explain_unshowable_body(raw: bytes) -> str:
    """Return why a body cannot be shown in a text field, or "" if it can."""
    if len(raw) > MAX_EDITABLE_BYTES:
        return "are too long for a form"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "that are no UTF-8"
    plain = text.replace("\n", "").replace("\t", "")
    return "with control characters" if safe(plain) != plain else ""


def find_json_problem(raw: bytes) -> str:
    """Return why bytes are not valid JSON, with line and column, or "" if they are valid."""

    def refuse_json_constant(word: str) -> object:
        raise ValueError(f"{word} is no JSON number")

    try:
        # Parse_int=str accepts numbers of 5 000 digits.
        json.loads(to_text(raw), parse_constant=refuse_json_constant, parse_int=str)
    except RecursionError:
        return "it is nested too deeply."
    except json.JSONDecodeError as error:
        return f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except ValueError as error:
        return f"not JSON: {error}."
    return ""


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def reformat_json(text: str) -> str:
    """Reformat valid JSON with one line per member. Only the whitespace between tokens changes."""
    pieces, depth, previous = [], 0, ""
    for token in _TOKEN.findall(text):
        if token in ("}", "]"):
            depth -= 1
            pieces.append("" if previous in ("{", "[") else "\n" + "  " * depth)
        elif previous in ("{", "[", ","):
            pieces.append("\n" + "  " * depth)
        pieces.append(token + (" " if token == ":" else ""))
        depth += token in ("{", "[")
        previous = token
    return "".join(pieces)


# -- $EDITOR ----------------------------------------------------------------------------------------------------------


def find_editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of the user's editor. Raises UsageError if $VISUAL and $EDITOR are not set."""
    command = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"$EDITOR cannot be read: {error}.") from None
    if not arguments:
        raise UsageError("$EDITOR is not set: export EDITOR=vi, or type here.")
    return arguments


def edit_in_editor(raw: bytes, suffix: str, editor: list[str]) -> bytes:
    """Edit bytes in the user's editor and return the result. Raises UsageError.

    The private file (0600) is deleted afterwards. A newline that the editor added at the end is removed.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix="rqtui-", suffix=suffix)
    except OSError as error:
        raise UsageError(f"no file for an editor can be made: {error.strerror}; type here.") from None
    path = Path(name)
    try:
        with _convert_os_errors(f"no file for {editor[0]} can be written"), os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        with _convert_os_errors(f"{editor[0]} cannot be run"), _ignore_signals(signal.SIGINT, signal.SIGQUIT):
            process = subprocess.run([*editor, name], check=False)
        if code := process.returncode:
            exit_text = f"was ended by signal {-code}" if -code in signal.valid_signals() else f"ended with {code}"
            raise UsageError(f"{editor[0]} {exit_text}; the body is as it was.")
        with _convert_os_errors(f"what {editor[0]} left cannot be read"):
            content = path.read_bytes()
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return content[:-1] if content == raw + b"\n" or (content.endswith(b"\n") and not raw.endswith(b"\n")) else content


@contextlib.contextmanager
def _ignore_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Ignore signals such as Ctrl+C in rqtui while an editor runs, because the terminal sends them to both programs.

    A handler that does nothing is used, because an ignored signal would stay ignored in the editor too.
    """
    previous_handlers = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _convert_os_errors(action: str) -> Iterator[None]:
    """Convert an OSError inside the block to a UsageError whose sentence begins with `action`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{action}: {error.strerror}; the body is as it was.") from None
