"""Dialogs: a question with a form, and pages of text. None of them talks to Redis; each returns what was typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, Label, Static, TextArea

from rqtui import durations
from rqtui.errors import RqtuiError, UsageError
from rqtui.tui import display
from rqtui.verbs import Field

Values = dict[str, object]
_BODIES = ("body", "bytes")  # JSON, and what other systems take as it is
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)  # what Redis and Lua count exactly


@dataclass(frozen=True, slots=True)
class Given:
    """What a person answered: values for the scripts, and the form as it was typed, to show it again."""

    values: Values
    typed: Mapping[str, str]


class Tick(Checkbox):
    """A checkbox that can be read without colours."""

    def render(self) -> Content:
        """`[x] label` or `[ ] label`, as wide as Textual's own."""
        return Content.assemble(("[x] " if self.value else "[ ] ", "$accented"), self.label)


class Question(ModalScreen["Given | None"]):
    """Asks before a change: what, how many, where, what is lost; with the verb's form. None means no.

    A dangerous question has its focus on Cancel. Bad input is said in the dialog, and nothing is sent: `check` gets
    the values before they are returned and raises what is wrong with them. `typed` and `problem` show a form again
    that Redis refused.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "dismiss(None)", "no", show=False, id="dialog.no"),
        Binding("y", "accept", "yes", show=False, id="dialog.yes"),
        Binding("left,up", "app.focus_previous", show=False, id="dialog.previous"),
        Binding("right,down", "app.focus_next", show=False, id="dialog.next"),
    ]
    AUTO_FOCUS = ""

    def __init__(
        self,
        title: str,
        lines: Sequence[Content],
        fields: Sequence[Field],
        yes: str,
        is_danger: bool,
        check: Callable[[Values], None] = lambda _values: None,
        typed: Mapping[str, str] | None = None,
        problem: str = "",
    ) -> None:
        super().__init__()
        self._title, self._lines, self._fields = title, lines, fields
        self._yes, self._is_danger, self._check = yes, is_danger, check
        self._typed, self._first_problem = dict(typed or {}), problem

    def compose(self) -> ComposeResult:
        """Title, words, a row per field, the two buttons."""
        with Vertical(id="dialog", classes="danger" if self._is_danger else "") as dialog:
            dialog.border_title = Content(f" {self._title} ")
            dialog.border_subtitle = Content(" y yes   n no " if not self._fields else " Enter yes   Esc no ")
            if self._lines:
                yield Static(Content("\n").join(self._lines), id="words")
            if self._fields:
                with VerticalScroll(id="fields", can_focus=False, classes="below" if self._lines else ""):
                    for field in self._fields:
                        yield from _row(field, self._typed.get(field.name, field.default))
            yield Static("", id="problem")
            with Horizontal(id="buttons"):
                yield Button(Content(self._yes), id="yes", compact=True)
                yield Button("cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """The focus stands where Enter does no harm."""
        self._fit()
        inputs = self.query("Input, TextArea, Checkbox")
        if self._first_problem:
            self._say(self._first_problem)
        first = inputs.first() if inputs else self.query_one("#yes")
        # At once: `focus()` would wait for the next turn, and a key that follows N closely would come too early.
        self.set_focus(self.query_one("#no") if self._is_danger and not self._first_problem else first)

    def on_resize(self) -> None:
        """The buttons stay in sight, however low the terminal is."""
        self._fit()

    def _fit(self) -> None:
        if self._fields:
            body = any(field.kind in _BODIES for field in self._fields)
            rows = len(self._fields) + (5 if body else 0)
            room = self.app.size.height - 7 - len(self._lines) - bool(self._lines)
            self.query_one("#fields").styles.height = max(2, min(rows, room))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Yes checks the form; no does nothing."""
        if event.button.id == "no":
            self.dismiss(None)
        else:
            self.action_accept()

    def on_input_submitted(self) -> None:
        """Enter in a field means yes, except where danger wants the button."""
        if self._is_danger:
            self.query_one("#yes").focus()
        else:
            self.action_accept()

    def action_accept(self) -> None:
        """Takes what was typed, when all of it can be taken."""
        values: Values = {}
        typed: dict[str, str] = {}
        for field in self._fields:
            widget = self.query_one(f"#field-{field.name}")
            raw = widget.text if isinstance(widget, TextArea) else getattr(widget, "value", "")
            typed[field.name] = str(raw) if field.kind != "bool" else ("x" if raw else "")
            try:
                value = read(field, raw)
            except UsageError as error:
                self._say(f"{field.label}: {error}")
                widget.focus()
                return
            if value is not None:
                values[field.name] = value
        try:
            self._check(dict(values))
        except RqtuiError as error:
            self._say(str(error))
            return
        self.dismiss(Given(values, typed))

    def _say(self, words: str) -> None:
        problem = self.query_one("#problem", Static)
        problem.update(Content(display.safe(words)))
        problem.display = True


def read(field: Field, raw: object) -> object | None:
    """What was typed as the script's argument; None when nothing was; UsageError in words when it cannot be."""
    if field.kind == "bool":
        return True if raw else None
    text = str(raw)
    if field.kind == "body":
        return _json(text)
    if field.kind == "bytes":
        return text.encode("utf-8", "surrogateescape")
    text = text.strip()
    if not text:
        if field.name == "queue":
            raise UsageError("say which.")
        return None
    if field.kind == "duration":
        return durations.parse(text, "it")
    if field.kind == "int":
        if not _INTEGER.fullmatch(text):
            raise UsageError(f'"{display.elide_middle(display.safe(text), 30)}" is not a whole number.')
        return int(text)
    return text


def _json(text: str) -> bytes:
    def no_number(word: str) -> object:
        raise ValueError(f"{word} is no JSON number")

    try:
        json.loads(text, parse_constant=no_number, parse_int=str)  # str: an integer of 5000 digits is fine
        return text.encode("utf-8", "surrogateescape")
    except RecursionError:
        raise UsageError("it is nested too deep.") from None
    except ValueError as error:
        raise UsageError(f"not JSON: {error}.") from None


def _row(field: Field, value: str) -> ComposeResult:
    name = f"field-{field.name}"
    if field.kind == "bool":
        yield Tick(Content(field.label), bool(value), id=name, compact=True)
        return
    hint = {"duration": "90s, 5m, 2h, 3d", "int": "a number"}.get(field.kind, "")
    if field.kind in _BODIES:
        how = "JSON" if field.kind == "body" else "as it is"
        yield Label(Content(f"{field.label} ({how}; Tab leaves it)"))
        yield TextArea(value, id=name, tab_behavior="focus", compact=True)
        return
    with Horizontal(classes="row"):
        yield Label(Content(field.label))
        yield Input(value, placeholder=hint, id=name, compact=True)


class Pages(ModalScreen[None]):
    """A page of text to read: the help, the last steps of the loops. `again` makes a page that changes anew."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,t,w,d,enter", "dismiss(None)", "close", show=False, id="page.close"),
        Binding("j,down", "scroll(1)", show=False, id="page.down"),
        Binding("k,up", "scroll(-1)", show=False, id="page.up"),
        Binding("space,pagedown", "scroll(10)", show=False, id="page.page-down"),
        Binding("pageup", "scroll(-10)", show=False, id="page.page-up"),
    ]

    def __init__(self, title: str, text: Content, again: Callable[[], Content] | None = None) -> None:
        super().__init__()
        self._title, self._text, self._again = title, text, again

    def compose(self) -> ComposeResult:
        """One scrolling text in a frame."""
        with VerticalScroll(id="page") as page:
            page.border_title = Content(f" {self._title} ")
            page.border_subtitle = Content(" j k scroll   Esc closes ")
            yield Static(self._text, id="page-text")

    def on_mount(self) -> None:
        """A page that changes is made anew every second."""
        if self._again is not None:
            self.set_interval(1.0, self._renew)

    def _renew(self) -> None:
        text = self._again() if self._again else self._text
        if not text.is_same(self._text):
            self._text = text
            self.query_one("#page-text", Static).update(text)

    def action_scroll(self, lines: int) -> None:
        """Scrolls by lines."""
        self.query_one("#page").scroll_relative(y=lines, animate=False)
