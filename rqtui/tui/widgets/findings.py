"""Show health findings as lines with the keys that fix them, above the rows of a board and in the overview's preview.

The functions are pure, from `model.Finding` to text. Text from Redis goes through `safe`. While a widget of findings
has the focus, its cursor is on one of them, and Enter opens the page about it; a click on a sentence does the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from rqtui.model import Finding, Queue, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.queues import HUES
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.frame import Sides, format_key_hint
from rqtui.tui.widgets.lines_pane import LinesPane
from rqtui.tui.widgets.paint import GLYPHS
from rqtui.tui.widgets.table import Table


class FindingLine(NamedTuple):
    """A line about a finding: the text, the keys at its right, and the finding; None for a queue without findings."""

    left: Content
    right: Content
    finding: Finding | None

    @property
    def sides(self) -> Sides:
        """The texts at the left and at the right."""
        return self.left, self.right


def build_finding_lines(
    queue: Queue, max_findings: int, width: int, now_ms: int, *, max_lines: int = 0, cursor: int | None = None
) -> list[FindingLine]:
    """Format a queue's worst findings, at most `max_findings`, as sentences with the keys that fix them.

    Without findings, show the queue's verdict. Sentences are wrapped as long as all findings fit into `max_lines`. The
    last line says how many findings are hidden. `now_ms` is the server's clock: a finding that can be fixed only for a
    limited time starts with the time that is left. `cursor` is the position of a finding that is shown in any case, on
    a background of its own; the last line has its number instead.
    """
    if not queue.findings:
        sign = (f"{formats.SEVERITY_SIGNS[queue.verdict.severity]} ", f"${HUES[queue.verdict.severity]}")
        return [FindingLine(Content.assemble(sign, (safe(queue.verdict.text), "$muted")), Content(), None)]
    number = max(1, min(max_findings, max_lines or max_findings))
    first = 0 if cursor is None else max(0, cursor - number + 1)
    shown = queue.findings[first : first + number]
    hidden_count = len(queue.findings) - len(shown)
    hidden_text = f" · {formats.format_quantity(hidden_count, 'more finding')}"
    if cursor is not None:
        hidden_text = f" · {cursor + 1} of {len(queue.findings)}"
    lines: list[FindingLine] = []
    for position, finding in enumerate(shown, 1):
        remaining = len(shown) - position
        more_text = hidden_text if hidden_count and not remaining else ""
        sides = _format_finding(finding, more_text, width, now_ms, max(1, max_lines - len(lines) - remaining))
        if cursor == first + position - 1:
            sides = [_add_cursor(left, right, width, finding) for left, right in sides]
        lines += [FindingLine(left, right, finding) for left, right in sides]
    return lines


def _add_cursor(left: Content, right: Content, width: int, finding: Finding) -> Sides:
    """Return a line of the finding under the cursor: a bar in place of its sign, on the background of the cursor."""
    text = Content.assemble((f"{GLYPHS[0].cursor} ", f"${HUES[finding.severity]}"), left[_INDENT:])
    return frame.align_sides(text, right, width).stylize_before("on $cursor-row"), Content()


_COMMAND = re.compile(r"(?:rqtui|redis-cli) [^;]*\Z")  # at the end of a fix
_INDENT = 2  # width of the sign before a finding


def _format_finding(finding: Finding, more_text: str, width: int, now_ms: int, max_lines: int) -> list[Sides]:
    """Format a finding in at most `max_lines` lines, with its keys at the right of the first one.

    The detail, the fix and then `more_text` are left out if they do not fit.
    """
    from rqtui.engine.health import rules  # imported late, so that the first paint does not wait for the rules

    key_hints = Content("   ").join(format_finding_keys(finding))
    hue = f"${HUES[finding.severity]}"
    width_left = max(8, width - key_hints.cell_length - _INDENT - 2)
    head = Content.assemble(
        (_format_finding_time_left(finding, now_ms), hue),
        (safe(rules.format_dated_problem(finding, now_ms)), "$strong"),
    )
    lines: list[Content] = []
    additions = [f"{safe(detail)}{more_text}" for detail in (*_list_finding_details(finding), "")]
    for addition in (*additions, ""):
        lines = _wrap_around_command(Content.assemble(head, (addition, "$muted")), width_left)
        if len(lines) <= max_lines:
            break
    if rest := lines[max_lines - 1 :]:
        lines = [*lines[: max_lines - 1], Content(" ").join(rest).truncate(width_left, ellipsis=True)]
    sign = (f"{formats.SEVERITY_SIGNS[finding.severity]} ", hue)
    return [
        (Content.assemble(" " * _INDENT, line), Content()) if number else (Content.assemble(sign, line), key_hints)
        for number, line in enumerate(lines)
    ]


def _wrap_around_command(text: Content, width: int) -> list[Content]:
    """Wrap a text, and start a line with the command at its end if it would be broken otherwise: it is copied whole."""
    lines = [line.rstrip() for line in text.wrap(width)]
    command = _COMMAND.search(text.plain)
    if command is None or any(command[0] in line.plain for line in lines):
        return lines
    parts = (text[: command.start()], text[command.start() :])
    return [line.rstrip() for part in parts for line in part.wrap(width)]


def _list_finding_details(finding: Finding) -> list[str]:
    """Return what may follow the problem of a finding: its detail and its fix, or only one of them."""
    has_remedy_key = finding.remedy[:1] in finding.key.split()  # the key and its label at the right say the same
    remedy = keys.apply_keymap(finding.remedy) if finding.remedy and not has_remedy_key else ""
    detail_text, remedy_text = f", {finding.detail}" if finding.detail else "", f": {remedy}" if remedy else ""
    texts = [detail_text + remedy_text, *([] if finding.key else [remedy_text]), detail_text, remedy_text]
    return [text for text in dict.fromkeys(texts) if text]


def _format_finding_time_left(finding: Finding, now_ms: int) -> str:
    time_left = formats.format_time_left(finding.until_ms, now_ms)
    return f"{time_left}  " if time_left else ""


def format_finding_keys(finding: Finding) -> list[Content]:
    """Return the keys that fix a finding with their labels. A click on a key presses it."""
    return [
        format_key_hint(keys.apply_keymap(key), _find_key_label(key, finding.remedy)) for key in finding.key.split()
    ]


def _find_key_label(key: str, remedy: str) -> str:
    """Return the label of a key. If several verbs share the key, prefer the verb that the finding's remedy names."""
    for general_key in keys.GENERAL_KEYS:
        if key in (keys.format_keys(text) for text in general_key.keys.split(",")) and not general_key.screens:
            return general_key.label
    verbs = keys.find_verbs_on_key(key)
    return next((verb.label for verb in (*(verb for verb in verbs if verb.name in remedy), *verbs)), "")


# -- the cursor --------------------------------------------------------------------------------------------------------

_TABLE_KEYS = ("table.down", "table.up", "table.first", "table.last", "table.open")


class FindingCursor(Widget):
    """A widget that shows the findings of a queue, and has a cursor on one of them while it has the focus.

    A click does not focus it, so that a clicked key acts on the row under the cursor of the list.
    """

    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        binding for binding in Table.BINDINGS if isinstance(binding, Binding) and binding.id in _TABLE_KEYS
    ]

    class Moved(Message):
        """Message that the cursor is on another finding, or that it appeared or disappeared with the focus."""

    class Opened(Message):
        """Message that a finding of a queue was opened, by Enter or by a click on its sentence."""

        def __init__(self, ref: Ref, finding: Finding) -> None:
            super().__init__()
            self.ref, self.finding = ref, finding

    _ref: Ref | None = None
    _findings: Sequence[Finding] = ()
    _position: int  # in the findings
    _is_moved = False  # whether a person moved the cursor on the findings of this queue

    @property
    def cursor(self) -> int | None:
        """The position of the finding under the cursor; None while another widget has the focus."""
        return self._position if self.has_focus and self._findings else None

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor; None while another widget has the focus."""
        return self._findings[self._position] if self.has_focus and self._findings else None

    def set_findings(self, ref: Ref | None, findings: Sequence[Finding]) -> None:
        """Set the queue and its findings. A cursor that a person moved stays on its kind of finding.

        Without findings the widget cannot get the focus.
        """
        is_kept = ref == self._ref and bool(self._findings) and (self._is_moved or self.has_focus)
        kind = self._findings[self._position].kind if is_kept else ""
        same = [position for position, finding in enumerate(findings) if finding.kind == kind]
        if not same:
            self._position = 0
        elif self._position not in same:
            self._position = same[0]
        self._is_moved = self._is_moved and is_kept
        self._ref, self._findings, self.can_focus = ref, findings, bool(findings)

    def find_finding_at(self, y: int) -> Finding | None:
        """Return the finding whose sentence is on line `y`."""
        raise NotImplementedError

    def action_move(self, step: int) -> None:
        """Move the cursor by a number of findings."""
        self._move_to(self._position + step)

    def action_first(self) -> None:
        """Move the cursor to the first finding."""
        self._move_to(0)

    def action_last(self) -> None:
        """Move the cursor to the last finding."""
        self._move_to(len(self._findings) - 1)

    def _move_to(self, position: int) -> None:
        self._position, self._is_moved = max(0, min(position, len(self._findings) - 1)), True
        self.post_message(self.Moved())

    def action_open(self) -> None:
        """Open the finding under the cursor."""
        if self._ref is not None and self.finding is not None:
            self.post_message(self.Opened(self._ref, self.finding))

    def open_finding_at(self, y: int) -> None:
        """Open the finding whose sentence on line `y` was clicked."""
        finding = self.find_finding_at(y) if self._findings else None
        if self._ref is not None and finding is not None:
            self.post_message(self.Opened(self._ref, finding))

    def on_focus(self) -> None:
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        self.post_message(self.Moved())


class Findings(frame.Bar, FindingCursor):
    """The lines above the rows of a board with the health findings of its queue, and below them a line of tabs."""

    DEFAULT_CSS = "Findings { height: auto; padding: 0 1; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._finding_lines: Sequence[FindingLine] = ()

    def show_findings(self, finding_lines: Sequence[FindingLine], *other_lines: Sides) -> None:
        """Show lines of findings, and other lines below them."""
        self._finding_lines = finding_lines
        self.show_lines(*(line.sides for line in finding_lines), *other_lines)

    def get_content_height(self, _container: Size, _viewport: Size, _width: int) -> int:
        """Return the number of lines, or 1 for the line with the verdict if there are no findings."""
        return max(1, len(self._lines))

    def find_finding_at(self, y: int) -> Finding | None:
        """Return the finding whose sentence is on line `y`."""
        return self._finding_lines[y].finding if y < len(self._finding_lines) else None

    def handle_text_click(self, y: int) -> None:
        """Open the finding whose sentence was clicked."""
        self.open_finding_at(y)


class FindingsPane(LinesPane, FindingCursor):
    """The preview of a queue, which begins with its findings. `find_finding` returns the finding on a line."""

    def __init__(
        self,
        build_lines: Callable[[int, int], Sequence[Content]],
        find_finding: Callable[[int], Finding | None],
        id: str,
    ) -> None:
        super().__init__(build_lines, id)
        self._find_finding = find_finding

    def find_finding_at(self, y: int) -> Finding | None:
        """Return the finding whose sentence is on line `y`."""
        return self._find_finding(y)

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked, or open the finding whose sentence was."""
        offset = event.get_content_offset(self)
        if offset is None or not 0 <= offset.y < len(self._lines):
            return
        if not frame.press_key_at_cell(self, self._lines[offset.y], offset.x):
            self.open_finding_at(offset.y)
