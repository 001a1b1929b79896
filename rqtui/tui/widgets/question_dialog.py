"""Provide the dialog that asks before a change: a question with a form.

It never calls Redis and returns what was typed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, Label, Static

from rqtui import durations
from rqtui.errors import RqtuiError, UsageError
from rqtui.operations import rate_limit
from rqtui.text import formats
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.widgets import body_editor, question_text
from rqtui.tui.widgets.body_editor import BodyEditor, format_editor_hint
from rqtui.tui.widgets.leavable import Leavable
from rqtui.verbs import Field

Values = dict[str, object]
_BODY_KINDS = ("body", "bytes")  # JSON, and raw bytes of other systems
_HINTS = {  # what may be typed into an empty field, by the name of the field or its kind
    "rate": "all at once; or 5/s, 90/m",
    "canary": "none; for example 5",
    "canary_wait": "within 5m; or another time",
    "canary_run": "1h; or another time",
    "stop_at_failures": "never; or a number",
    "stop_at_depth": "never; or a number",
    "duration": "90s, 5m, 2h, 3d",
    "int": "a number",
    "queue": "the name of the queue",
}
MAX_CHOICES, MAX_CHOICES_WIDTH = 4, 40  # choices that an empty input names, and their cells
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)  # integers that Redis and Lua represent exactly


@dataclass(frozen=True, slots=True)
class FormReply:
    """The reply of a user to a question: values for the scripts, and the typed texts to show the form again."""

    values: Values
    typed: Mapping[str, str]
    bodies: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


class Tick(Checkbox, inherit_bindings=False):
    """A checkbox that is readable without colours. Enter in it accepts the whole form, as in every other field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle_button", show=False, id="tick.toggle"),
        Binding("enter", "screen.enter", show=False, id="tick.enter"),
    ]

    def render(self) -> Content:
        """Draw `[x] label` or `[ ] label`, as wide as Textual's own checkbox."""
        return Content.assemble(("[x] " if self.value else "[ ] ", "$accented"), self.label)


class Question(ModalScreen["FormReply | None"], Leavable):
    """A dialog before a change, with the form of the verb. It returns what was typed, or None if the user refused.

    The focus starts on Cancel: `y` accepts, Enter and Esc refuse. With `guard` this word must be typed before yes is
    possible. With `is_form` the focus starts in the first field, and Enter there accepts. Esc asks again before it
    discards typed text.

    `check` receives the values before the dialog closes, and raises an error that the dialog shows; nothing is sent
    then. `typed`, `bodies` (raw bytes) and `problem` show a form again that was filled in, or that Redis refused.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "leave", "no", show=False, id="dialog.no"),
        Binding("y", "accept", "yes", show=False, id="dialog.yes"),
        Binding("left,up", "app.focus_previous", show=False, id="dialog.previous"),
        Binding("right,down", "app.focus_next", show=False, id="dialog.next"),
        Binding("pageup", "scroll(-5)", show=False, id="dialog.page-up"),
        Binding("pagedown", "scroll(5)", show=False, id="dialog.page-down"),
        Binding("ctrl+e", "editor", show=False, priority=True, id="dialog.editor"),
        Binding("ctrl+r", "tidy", show=False, priority=True, id="dialog.tidy"),
    ]
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Question #above, Question #fields { height: auto; scrollbar-size-vertical: 1; }
    Question #buttons Button:disabled { color: $muted; text-opacity: 60%; }
    """

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
        *,
        bodies: Mapping[str, bytes] | None = None,
        guard: str = "",
        is_form: bool = False,
        describe_duration: Callable[[Mapping[str, str]], str] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._lines, self._fields = title, list(lines), fields
        self._yes, self._is_danger, self._check = yes, is_danger, check
        self._typed, self._first_problem = dict(typed or {}), problem
        self._bodies, self._guard = dict(bodies or {}), guard
        self._is_form, self._describe_duration = is_form, describe_duration
        self._initial_contents: dict[str, str | bytes] = {}  # initial contents of the fields, by name
        self._build_lines: Callable[[int], Sequence[Content]] | None = None  # the text for a number of rows
        self._problem = self._body_problem = ""  # current error of the form and of the typed body

    def compose(self) -> ComposeResult:
        """Create the text of the question, a row per field, the input for the guard word and the two buttons."""
        with Vertical(id="dialog", classes="danger" if self._is_danger else "") as dialog:
            dialog.border_title = Content(f" {self._title} ")
            dialog.border_subtitle = Content(self._build_key_hints())
            with VerticalScroll(id="above", can_focus=False):
                yield Static(Content("\n").join(self._lines), id="words")
            if self._fields:
                with VerticalScroll(id="fields", can_focus=False, classes="below" if self._lines else ""):
                    for field in self._fields:
                        yield from self._compose_field(field)
            if self._guard:
                with Horizontal(id="guard"):
                    yield Label(Content(f"type {formats.fit_to_width(safe(self._guard), 20).rstrip()}"))
                    yield Input(placeholder="to continue", id="guard-word", compact=True)
            if self._describe_duration is not None:
                yield Static("", id="duration")
            yield Static("", id="problem")
            with Horizontal(id="buttons"):
                yield Button(Content(self._yes), id="yes", compact=True, disabled=bool(self._guard))
                yield Button("cancel", id="no", compact=True)

    def _compose_field(self, field: Field) -> ComposeResult:
        value = self._typed.get(field.name, field.default)
        if field.kind in _BODY_KINDS:
            raw = self._bodies.get(field.name, to_bytes(value))
            yield BodyEditor(field.name, field.label, raw, field.kind == "body")
        else:
            yield from _compose_field_input(field, value)

    def _build_key_hints(self) -> str:
        yes_key, no_key = keys.find_dialog_key("dialog.yes", "y"), keys.find_dialog_key("dialog.no", "Esc")
        focused, tab_hint = self.focused, "Tab next   " if self._fields else ""
        if focused is None or focused.id == "no":
            return f" {yes_key} {self._yes}   {tab_hint}Enter, {no_key} cancel "
        if focused.id == "yes":
            return f" {yes_key}, Enter {self._yes}   {tab_hint}{no_key} cancel "
        if any(field.kind in _BODY_KINDS for field in self._fields):
            return f" {format_editor_hint()}  {no_key} cancel "
        enter_hint = f"Enter {self._yes}" if self._is_form else f"Enter goes to {self._yes}"
        return f" {enter_hint}   {tab_hint}{no_key} cancel "

    def on_descendant_focus(self) -> None:
        """Show in the dialog's frame what Enter does at the new focus."""
        self._fit_to_terminal()

    def on_mount(self) -> None:
        """Focus the first field of a form, else Cancel, where Enter does no harm."""
        self._initial_contents = {} if self._first_problem else self._read_field_contents()
        self._show_needed_fields()
        self._show_duration()
        if self._first_problem:
            self._show_problem(self._first_problem)
        # Set at once: `focus()` waits for the next event-loop turn, which is too late for a key pressed right after N.
        self.set_focus(self._find_first_focus())

    def _find_first_focus(self) -> Widget:
        for field in self._fields if self._is_form or self._first_problem else ():
            if field.kind not in _BODY_KINDS or not self.query_one(f"#body-{field.name}").has_class("-raw"):
                return self.query_one(f"#field-{field.name}")
        return self.query_one("#no")

    def on_resize(self) -> None:
        """Fit the dialog to the new terminal size so that the buttons stay visible."""
        self._fit_to_terminal()

    def replace_text(self, lines: Sequence[Content]) -> None:
        """Replace the text above the form, for example while a dry run counts."""
        self._lines, self._build_lines = list(lines), None
        if self.is_mounted and self.query("#words"):
            self.query_one("#words", Static).update(Content("\n").join(self._lines))
            self._show_duration()
            self._fit_to_terminal()

    def fit_text(self, build_lines: Callable[[int], Sequence[Content]]) -> None:
        """Replace the text above the form by what `build_lines` returns for the rows that the form leaves for it."""
        self._build_lines = build_lines
        if self.is_mounted and self.query("#words"):
            self._show_duration()
            self._fit_to_terminal()

    def _rebuild_text(self, rows: int) -> None:
        if self._build_lines is not None:
            self._lines = list(self._build_lines(rows))
            self.query_one("#words", Static).update(Content("\n").join(self._lines))

    def _fit_to_terminal(self) -> None:
        """Divide the rows of the terminal between the question's text and its form.

        The form gets at least three rows, or all it needs.
        """
        # The frame, the buttons and a problem take five rows.
        rows_left = self.app.size.height - 5 - 2 * bool(self._guard) - (self._describe_duration is not None)
        line_width = question_text.compute_line_width(self.app.size.width)
        field_count = len(self._used_fields)
        self._rebuild_text(rows_left - field_count - bool(field_count))
        text_rows = question_text.count_rows(self._lines, line_width)
        body_count = sum(1 for field in self._fields if field.kind in _BODY_KINDS)
        body_rows = max(4, min(_compute_editor_rows(self._bodies), rows_left - text_rows - field_count))
        needed_rows = field_count - body_count + body_count * body_rows
        gap = bool(self._lines) and bool(self._fields)
        form_rows = min(needed_rows, max(rows_left - text_rows - gap, 3, rows_left - 6))
        shown_text_rows = max(1, min(text_rows, rows_left - form_rows - gap)) if self._lines else 0
        self.query_one("#above").styles.height = shown_text_rows
        self.query_one("#dialog").border_subtitle = Content(
            " PgDn more  " * (shown_text_rows < text_rows) + self._build_key_hints()
        )
        if self._fields:
            self.query_one("#fields").styles.height = max(2, min(form_rows, rows_left - gap - bool(self._lines)))
        for editor in self.query(BodyEditor):
            editor.styles.height = body_rows

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Accept the form on yes, close the dialog on no."""
        if event.button.id == "no":
            self.action_leave()
        else:
            self.action_accept()

    def action_leave(self) -> None:
        """Close the dialog with the reply no. Ask again first if text was typed."""
        if self._read_field_contents() == self._initial_contents or not any(self._read_field_contents().values()):
            self.dismiss(None)
            return

        def discard_if_confirmed(reply: FormReply | None) -> None:
            if reply is not None:
                self.dismiss(None)

        lines = [Content("What was typed into the form would be gone.")]
        self.app.push_screen(Question("Leave the form", lines, (), "throw away", True), discard_if_confirmed)

    def _read_field_contents(self) -> dict[str, str | bytes]:
        """Return the contents of the form's text fields by their names."""
        contents: dict[str, str | bytes] = {}
        for field in self._fields:
            if field.kind in _BODY_KINDS:
                contents[field.name] = self.query_one(f"#body-{field.name}", BodyEditor).read_bytes()
            elif field.kind != "bool":
                contents[field.name] = self.query_one(f"#field-{field.name}", Input).value
        return contents

    def on_input_changed(self, event: Input.Changed) -> None:
        """Enable the yes button after the guard word was typed, and say how long the change takes as typed."""
        if event.input.id in ("field-rate", "field-canary"):
            self._show_duration()
        if any(event.input.id == f"field-{field.needs}" for field in self._fields):
            self._show_needed_fields()
        if event.input.id == "guard-word":
            self.query_one("#yes", Button).disabled = event.value.strip() != self._guard

    @property
    def _used_fields(self) -> list[Field]:
        """The fields without those that need another field which is empty."""
        return [
            field
            for field in self._fields
            if not field.needs or self.query_one(f"#field-{field.needs}", Input).value.strip()
        ]

    def _show_needed_fields(self) -> None:
        """Show the fields that need another field while that one is filled in, and hide them otherwise."""
        used = self._used_fields
        for field in self._fields:
            if field.needs:
                self.query_one(f"#row-{field.name}").display = field in used
        self._fit_to_terminal()

    def _show_duration(self) -> None:
        if self._describe_duration is not None:
            fields = ("rate", "canary")
            typed = {name: found.value for name in fields for found in self.query(f"#field-{name}").results(Input)}
            self.query_one("#duration", Static).update(Content(self._describe_duration(typed)))

    def on_input_submitted(self) -> None:
        """Handle Enter in a field of the form."""
        self.action_enter()

    def action_enter(self) -> None:
        """Accept a form, else move the focus to the input of the guard word or to the yes button."""
        if self._guard and self.query_one("#yes", Button).disabled:
            self.query_one("#guard-word").focus()
        elif self._is_form and not self._is_danger:
            self.action_accept()
        else:
            self.query_one("#yes").focus()

    def on_body_editor_checked(self, event: BodyEditor.Checked) -> None:
        """Show the error of a job's body while it is typed. Errors of other fields stay."""
        self._show_problem(event.problem, is_of_body=True)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text above the form by a number of lines."""
        self.query_one("#above").scroll_relative(y=lines, animate=False)

    def action_tidy(self) -> None:
        """Reformat every JSON body of the form with one line per member."""
        for editor in self.query(BodyEditor):
            editor.reformat()

    def action_editor(self) -> None:
        """Open the body of the form in the user's editor, and validate the result like typed text."""
        editors = self.query(BodyEditor)
        if not editors:
            return
        body, edited, problem = editors.first(), b"", ""
        try:
            command = body_editor.find_editor_command()
            with self.app.suspend():
                try:
                    edited = body_editor.edit_in_editor(body.read_bytes(), body.suffix, command)
                # Caught inside `suspend`: an error that leaves it does not restore the terminal.
                except UsageError as error:
                    problem = str(error)
        except SuspendNotSupported:
            problem = "this terminal cannot be handed to an editor."
        except UsageError as error:
            problem = str(error)
        if problem:
            self._show_problem(problem)
        else:
            body.replace_body(edited)
        self.app.refresh(repaint=True, layout=True)

    def action_accept(self) -> None:
        """Validate all fields of the form and close the dialog with their values, or show the first error."""
        if self._guard and self.query_one("#guard-word", Input).value.strip() != self._guard:
            self._show_problem(f"type {self._guard} first: this is where it counts.")
            self.query_one("#guard-word").focus()
            return
        self._problem = ""
        values: Values = {}
        for field in self._used_fields:
            try:
                value = self._read_field_value(field)
            except UsageError as error:
                self._show_problem(f"{field.label.strip()}: {error}", is_of_body=field.kind in _BODY_KINDS)
                self.query_one(f"#field-{field.name}").focus()
                return
            if value is not None:
                values[field.name] = value
        try:
            self._check(dict(values))
        except RqtuiError as error:
            self._show_problem(str(error))
            return
        self.dismiss(self._build_reply(values))

    def _read_field_value(self, field: Field) -> object | None:
        if field.kind in _BODY_KINDS:
            return self.query_one(f"#body-{field.name}", BodyEditor).encode_body()
        return parse_field_value(field, getattr(self.query_one(f"#field-{field.name}"), "value", ""))

    def _build_reply(self, values: Values) -> FormReply:
        typed, bodies = {}, {}
        for field in self._fields:
            if field.kind in _BODY_KINDS:
                bodies[field.name] = self.query_one(f"#body-{field.name}", BodyEditor).read_bytes()
                continue
            raw = getattr(self.query_one(f"#field-{field.name}"), "value", "")
            typed[field.name] = str(raw) if field.kind != "bool" else ("x" if raw else "")
        return FormReply(values, typed, bodies)

    def _show_problem(self, message: str, is_of_body: bool = False) -> None:
        if is_of_body:
            self._body_problem = message
        else:
            self._problem = message
        problem = self.query_one("#problem", Static)
        problem.update(Content(safe(self._body_problem or self._problem)))
        problem.display = bool(self._body_problem or self._problem)


def _compute_editor_rows(bodies: Mapping[str, bytes]) -> int:
    """Return the height of the editor for the largest of these bodies: its lines and a few to write in."""
    return 3 + max((raw[:4096].count(b"\n") + len(raw[:4096]) // 70 for raw in bodies.values()), default=3)


def parse_field_value(field: Field, raw: object) -> object | None:
    """Convert the typed text of a form's field to the script's argument. Return None for no input.

    Raises UsageError with an error message for invalid input.
    """
    if field.kind == "bool":
        return True if raw else None
    text = str(raw).strip()
    if not text:
        if "queue" in (field.name, field.kind):
            raise UsageError("say which.")
        return None
    if field.kind == "duration":
        return durations.parse_duration(text, "it")
    if field.kind == "rate":
        return rate_limit.parse_rate(text)
    if field.kind == "int":
        if not _INTEGER.fullmatch(text):
            raise UsageError(f'"{formats.elide_middle(safe(text), 30)}" is not a whole number.')
        return int(text)
    return text


def _compose_field_input(field: Field, value: str) -> ComposeResult:
    widget_id = f"field-{field.name}"
    if field.kind == "bool":
        yield Tick(Content(field.label), bool(value), id=widget_id, compact=True)
        return
    hint = _HINTS.get(field.name) or _format_choices(field.choices) or _HINTS.get(field.kind, "")
    suggester = SuggestFromList(field.choices) if field.choices else None
    with Horizontal(classes="row", id=f"row-{field.name}"):
        yield Label(Content(field.label))
        yield Input(value, placeholder=hint, suggester=suggester, id=widget_id, compact=True)


def _format_choices(choices: Sequence[str]) -> str:
    """Return the first choices of an input that still fit into it, such as `slow, bulk …`."""
    shown = ", ".join(map(safe, choices[:MAX_CHOICES]))
    return formats.elide_middle(shown, MAX_CHOICES_WIDTH) + (" …" if len(choices) > MAX_CHOICES else "")


def create_stop_question(title: str, yes: str) -> Question:
    """Create the question before an action that would stop a running change of many jobs."""
    warning = Content("A change of many jobs is running. It would stop here; what it has changed stays changed.")
    return Question(title, [warning], (), yes, True)
