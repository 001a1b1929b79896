"""Dialogs: a question with a form, and pages of text. None of them talks to Redis; each returns what was typed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, Label, Static, TextArea

from rqtui import durations
from rqtui.errors import UsageError
from rqtui.verbs import Field

Values = dict[str, object]


class Question(ModalScreen["Values | None"]):
    """Asks before a change: what, how many, where, what is lost; with the verb's form. None means no.

    A dangerous question has its focus on Cancel. Bad input is said in the dialog, and nothing is sent.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "dismiss(None)", "no", show=False),
        Binding("y", "accept", "yes", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(
        self, title: Content, lines: Sequence[Content], fields: Sequence[Field], yes: str, is_danger: bool
    ) -> None:
        super().__init__()
        self._title, self._lines, self._fields = title, lines, fields
        self._yes, self._is_danger = yes, is_danger

    def compose(self) -> ComposeResult:
        """Title, words, a row per field, the two buttons."""
        with Vertical(id="dialog", classes="danger" if self._is_danger else "") as dialog:
            dialog.border_title = self._title
            if self._lines:
                yield Static(Content("\n").join(self._lines), id="words")
            if self._fields:
                with VerticalScroll(id="fields", can_focus=False):
                    for field in self._fields:
                        yield from _row(field)
            yield Static("", id="problem")
            with Horizontal(id="buttons"):
                yield Button(self._yes, id="yes", compact=True, variant="error" if self._is_danger else "primary")
                yield Button("Cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """The focus stands where Enter does no harm."""
        inputs = self.query("Input, TextArea, Checkbox")
        if self._is_danger:
            self.query_one("#no").focus()
        elif inputs:
            inputs.first().focus()
        else:
            self.query_one("#yes").focus()

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
        for field in self._fields:
            widget = self.query_one(f"#field-{field.name}")
            raw = widget.text if isinstance(widget, TextArea) else getattr(widget, "value", "")
            try:
                value = read(field, raw)
            except UsageError as error:
                problem = self.query_one("#problem", Static)
                problem.update(Content(f"{field.label}: {error}"))
                problem.display = True
                widget.focus()
                return
            if value is not None:
                values[field.name] = value
        self.dismiss(values)


def read(field: Field, raw: object) -> object | None:
    """What was typed as the script's argument; None when nothing was; UsageError in words when it cannot be."""
    if field.kind == "bool":
        return True if raw else None
    text = str(raw)
    if field.kind == "body":
        try:
            json.loads(text)
        except ValueError as error:
            raise UsageError(f"not JSON: {error}") from None
        return text.encode("utf-8", "surrogateescape")
    text = text.strip()
    if not text:
        return None
    if field.kind == "duration":
        return durations.parse(text)
    if field.kind == "int":
        try:
            return int(text)
        except ValueError:
            raise UsageError(f'"{text}" is not a whole number') from None
    return text


def _row(field: Field) -> ComposeResult:
    name = f"field-{field.name}"
    if field.kind == "bool":
        yield Checkbox(Content(field.label), id=name, compact=True)
        return
    hint = {"duration": "90s, 5m, 2h, 3d", "int": "a number"}.get(field.kind, "")
    if field.kind == "body":
        yield Label(Content(f"{field.label} (JSON; Tab leaves it)"))
        yield TextArea(field.default, id=name, tab_behavior="focus", compact=True)
        return
    with Horizontal(classes="row"):
        yield Label(Content(field.label))
        yield Input(field.default, placeholder=hint, id=name, compact=True)


class Pages(ModalScreen[None]):
    """A page of text to read: the help, the last steps of the loops."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,t,enter", "dismiss(None)", "close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, text: Content) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """One scrolling text in a frame."""
        with VerticalScroll(id="page") as page:
            page.border_title = Content(self._title)
            page.border_subtitle = Content("Esc closes")
            yield Static(self._text)

    def action_scroll(self, lines: int) -> None:
        """Scrolls by lines."""
        self.query_one("#page").scroll_relative(y=lines, animate=False)
