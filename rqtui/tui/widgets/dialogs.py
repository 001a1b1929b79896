"""Dialogs: a question with a form, and pages of text. None of them talks to Redis; each returns what was typed."""

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
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, Label, Static

from rqtui import durations
from rqtui.errors import RqtuiError, UsageError
from rqtui.operations import rate_limit
from rqtui.text import formats
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.widgets import editing, questions
from rqtui.tui.widgets.editing import BodyEditor, hint
from rqtui.tui.widgets.leavable import Leavable
from rqtui.verbs import Field

Values = dict[str, object]
_BODIES = ("body", "bytes")  # JSON, and what other systems take as it is
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)  # what Redis and Lua count exactly


@dataclass(frozen=True, slots=True)
class Given:
    """What a person answered: values for the scripts, and the form as it was typed, to show it again."""

    values: Values
    typed: Mapping[str, str]
    bodies: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


class Tick(Checkbox, inherit_bindings=False):
    """A checkbox that can be read without colours; Enter means yes to the whole form, as it does in every field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "toggle_button", show=False, id="tick.toggle"),
        Binding("enter", "screen.enter", show=False, id="tick.enter"),
    ]

    def render(self) -> Content:
        """`[x] label` or `[ ] label`, as wide as Textual's own."""
        return Content.assemble(("[x] " if self.value else "[ ] ", "$accented"), self.label)


class Question(ModalScreen["Given | None"], Leavable):
    """Asks before a change: what, how many, where, what is lost; with the verb's form. None means no.

    The focus is on Cancel: `y` does it, Enter and Esc leave it; with `guard` that word has to be typed before yes can
    be said. One that `is_form` means nothing before something was filled in: its focus begins in the first field, and
    Enter there means yes. Esc throws away what was typed into fields only after another question.
    Bad input is said in the dialog, and nothing is sent: `check` gets the values before they are returned and raises
    what is wrong with them. `typed`, `bodies` (raw) and `problem` show a form that was filled in, or that Redis
    refused.
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
    ) -> None:
        super().__init__()
        self._title, self._lines, self._fields = title, list(lines), fields
        self._yes, self._is_danger, self._check = yes, is_danger, check
        self._typed, self._first_problem = dict(typed or {}), problem
        self._bodies, self._guard = dict(bodies or {}), guard
        self._is_form = is_form
        self._began_with: dict[str, str | bytes] = {}  # what stood in the fields, by their names
        self._said = self._said_of_body = ""  # what is wrong, in general and with the body as it is typed

    def compose(self) -> ComposeResult:
        """Title, words, a row per field, the word to type, the two buttons."""
        with Vertical(id="dialog", classes="danger" if self._is_danger else "") as dialog:
            dialog.border_title = Content(f" {self._title} ")
            dialog.border_subtitle = Content(self._subtitle())
            with VerticalScroll(id="above", can_focus=False):
                yield Static(Content("\n").join(self._lines), id="words")
            if self._fields:
                with VerticalScroll(id="fields", can_focus=False, classes="below" if self._lines else ""):
                    for each in self._fields:
                        yield from self._row(each)
            if self._guard:
                with Horizontal(id="guard"):
                    yield Label(Content(f"type {formats.fit(safe(self._guard), 20).rstrip()}"))
                    yield Input(placeholder="to go on", id="guard-word", compact=True)
            yield Static("", id="problem")
            with Horizontal(id="buttons"):
                yield Button(Content(self._yes), id="yes", compact=True, disabled=bool(self._guard))
                yield Button("cancel", id="no", compact=True)

    def _row(self, field: Field) -> ComposeResult:
        value = self._typed.get(field.name, field.default)
        if field.kind in _BODIES:
            raw = self._bodies.get(field.name, to_bytes(value))
            yield BodyEditor(field.name, field.label, raw, field.kind == "body")
        else:
            yield from _row(field, value)

    def _subtitle(self) -> str:
        yes, no = keys.of("dialog.yes", "y"), keys.of("dialog.no", "Esc")
        focused = self.focused
        if focused is None or focused.id == "no":
            return f" {yes} {self._yes}   Enter, {no} no "
        if focused.id == "yes":
            return f" {yes}, Enter {self._yes}   {no} no "
        if any(field.kind in _BODIES for field in self._fields):
            return f" {hint()}  {no} no "
        return f" Enter {self._yes}   {no} no " if self._is_form else f" Enter goes on   {no} no "

    def on_descendant_focus(self) -> None:
        """The frame says what Enter does where the focus is now."""
        self._fit()

    def on_mount(self) -> None:
        """The focus stands where Enter does no harm."""
        self._began_with = {} if self._first_problem else self._filled_in()
        self._fit()
        if self._first_problem:
            self._say(self._first_problem)
        # At once: `focus()` would wait for the next turn, and a key that follows N closely would come too early.
        self.set_focus(self._first())

    def _first(self) -> Widget:
        for field in self._fields if self._is_form or self._first_problem else ():
            if field.kind not in _BODIES or not self.query_one(f"#body-{field.name}").has_class("-raw"):
                return self.query_one(f"#field-{field.name}")
        return self.query_one("#no")

    def on_resize(self) -> None:
        """The buttons stay in sight, however low the terminal is."""
        self._fit()

    def show_lines(self, lines: Sequence[Content]) -> None:
        """Other words above the form: a count goes on."""
        self._lines = list(lines)
        if self.is_mounted and self.query("#words"):
            self.query_one("#words", Static).update(Content("\n").join(self._lines))
            self._fit()

    def _fit(self) -> None:
        """Words and form share the rows between title and buttons; the form keeps three, or all it needs."""
        room = self.app.size.height - 5 - 2 * bool(self._guard)  # frame, buttons, the word to type, a problem
        inner = questions.room(self.app.size.width)
        words = sum(max(1, -(-line.cell_length // inner)) for line in self._lines)
        bodies = sum(1 for field in self._fields if field.kind in _BODIES)
        body = max(4, min(_body_rows(self._bodies), room - words - len(self._fields)))
        rows = len(self._fields) - bodies + bodies * body
        gap = bool(self._lines) and bool(self._fields)
        form = min(rows, max(room - words - gap, 3, room - 6))
        above = max(1, min(words, room - form - gap)) if self._lines else 0
        self.query_one("#above").styles.height = above
        self.query_one("#dialog").border_subtitle = Content(" PgDn more  " * (above < words) + self._subtitle())
        if self._fields:
            self.query_one("#fields").styles.height = max(2, min(form, room - gap - bool(self._lines)))
        for editor in self.query(BodyEditor):
            editor.styles.height = body

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Yes checks the form; no does nothing."""
        if event.button.id == "no":
            self.action_leave()
        else:
            self.action_accept()

    def action_leave(self) -> None:
        """No; where something was typed, only after another question."""
        if self._filled_in() == self._began_with or not any(self._filled_in().values()):
            self.dismiss(None)
            return

        def decided(given: Given | None) -> None:
            if given is not None:
                self.dismiss(None)

        words = [Content("What was typed into the form would be gone.")]
        self.app.push_screen(Question("Leave the form", words, (), "throw away", True), decided)

    def _filled_in(self) -> dict[str, str | bytes]:
        """What stands in the fields that take text, by their names."""
        made: dict[str, str | bytes] = {}
        for field in self._fields:
            if field.kind in _BODIES:
                made[field.name] = self.query_one(f"#body-{field.name}", BodyEditor).current()
            elif field.kind != "bool":
                made[field.name] = self.query_one(f"#field-{field.name}", Input).value
        return made

    def on_input_changed(self, event: Input.Changed) -> None:
        """Yes can be said once the word is typed."""
        if event.input.id == "guard-word":
            self.query_one("#yes", Button).disabled = event.value.strip() != self._guard

    def on_input_submitted(self) -> None:
        """Enter in a field."""
        self.action_enter()

    def action_enter(self) -> None:
        """Enter in a field means yes to a form; in a question it goes on to the word to type, or to the button."""
        if self._guard and self.query_one("#yes", Button).disabled:
            self.query_one("#guard-word").focus()
        elif self._is_form and not self._is_danger:
            self.action_accept()
        else:
            self.query_one("#yes").focus()

    def on_body_editor_checked(self, event: BodyEditor.Checked) -> None:
        """What is wrong with a body is said while it is typed; what was said of something else stays."""
        self._say(event.problem, of_body=True)

    def action_scroll(self, lines: int) -> None:
        """Scrolls the words above."""
        self.query_one("#above").scroll_relative(y=lines, animate=False)

    def action_tidy(self) -> None:
        """A line per member, in every body."""
        for editor in self.query(BodyEditor):
            editor.tidy()

    def action_editor(self) -> None:
        """Gives the terminal to the person's editor, with the body; what comes back is checked like what is typed."""
        editors = self.query(BodyEditor)
        if not editors:
            return
        body, made, said = editors.first(), b"", ""
        try:
            words = editing.command()
            with self.app.suspend():
                try:
                    made = editing.edited(body.current(), body.suffix, words)
                except UsageError as error:  # in here: what passes `suspend` leaves the terminal as the editor had it
                    said = str(error)
        except SuspendNotSupported:
            said = "this terminal cannot be handed to an editor."
        except UsageError as error:
            said = str(error)
        if said:
            self._say(said)
        else:
            body.replace(made)
        self.app.refresh(repaint=True, layout=True)

    def action_accept(self) -> None:
        """Takes what was typed, when all of it can be taken."""
        if self._guard and self.query_one("#guard-word", Input).value.strip() != self._guard:
            self._say(f"type {self._guard} first: this is where it counts.")
            self.query_one("#guard-word").focus()
            return
        self._said = ""
        values: Values = {}
        for field in self._fields:
            try:
                value = self._value(field)
            except UsageError as error:
                self._say(f"{field.label}: {error}", of_body=field.kind in _BODIES)
                self.query_one(f"#field-{field.name}").focus()
                return
            if value is not None:
                values[field.name] = value
        try:
            self._check(dict(values))
        except RqtuiError as error:
            self._say(str(error))
            return
        self.dismiss(self._given(values))

    def _value(self, field: Field) -> object | None:
        if field.kind in _BODIES:
            return self.query_one(f"#body-{field.name}", BodyEditor).raw()
        return read(field, getattr(self.query_one(f"#field-{field.name}"), "value", ""))

    def _given(self, values: Values) -> Given:
        typed, bodies = {}, {}
        for field in self._fields:
            if field.kind in _BODIES:
                bodies[field.name] = self.query_one(f"#body-{field.name}", BodyEditor).current()
                continue
            raw = getattr(self.query_one(f"#field-{field.name}"), "value", "")
            typed[field.name] = str(raw) if field.kind != "bool" else ("x" if raw else "")
        return Given(values, typed, bodies)

    def _say(self, words: str, of_body: bool = False) -> None:
        if of_body:
            self._said_of_body = words
        else:
            self._said = words
        problem = self.query_one("#problem", Static)
        problem.update(Content(safe(self._said_of_body or self._said)))
        problem.display = bool(self._said_of_body or self._said)


def _body_rows(bodies: Mapping[str, bytes]) -> int:
    """As many rows as a body has lines, and two to write in."""
    return 3 + max((raw[:4096].count(b"\n") + len(raw[:4096]) // 70 for raw in bodies.values()), default=3)


def read(field: Field, raw: object) -> object | None:
    """What was typed as the script's argument; None when nothing was; UsageError in words when it cannot be."""
    if field.kind == "bool":
        return True if raw else None
    text = str(raw).strip()
    if not text:
        if field.name == "queue":
            raise UsageError("say which.")
        return None
    if field.kind == "duration":
        return durations.parse(text, "it")
    if field.kind == "rate":
        return rate_limit.rate(text)
    if field.kind == "int":
        if not _INTEGER.fullmatch(text):
            raise UsageError(f'"{formats.elide_middle(safe(text), 30)}" is not a whole number.')
        return int(text)
    return text


def _row(field: Field, value: str) -> ComposeResult:
    name = f"field-{field.name}"
    if field.kind == "bool":
        yield Tick(Content(field.label), bool(value), id=name, compact=True)
        return
    hint = {"duration": "90s, 5m, 2h, 3d", "int": "a number", "rate": "at once; or 5/s, 90/m"}.get(field.kind, "")
    with Horizontal(classes="row"):
        yield Label(Content(field.label))
        yield Input(value, placeholder=hint, id=name, compact=True)


def stops_changes(title: str, yes: str) -> Question:
    """Asks before something that would stop a change of many jobs."""
    words = Content("A change of many jobs runs: it would stop here; what was done stays done.")
    return Question(title, [words], (), yes, True)


class Pages(ModalScreen[None], Leavable):
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
            page.border_subtitle = Content(f" j k scroll   {keys.of('page.close', 'Esc')} closes ")
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
