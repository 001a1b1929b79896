"""Provide the page that shows the first jobs of a change while they run, and asks whether the others shall follow.

The page never calls Redis. `services/rate_limited_changes` passes each poll to the page, and acts on its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.format import canary as format_canary
from rqtui.tui.widgets.leavable import Leavable

if TYPE_CHECKING:
    from rqtui.operations.canary import CanaryProgress
    from rqtui.operations.canary_jobs import FirstJob
    from rqtui.operations.rate_limit import Limits

_MOST_CELLS = 150  # the widest page, as in the style sheet
_FRAME_CELLS = 6  # border and padding
_FRAME_ROWS = 2
_BAR_CELLS = 1  # of the scrollbar


class Reply(StrEnum):
    """What a person chose on the page of a canary."""

    CLOSE = "close"  # the change continues
    STOP = "stop"  # stop the change, or send no other jobs
    ACCEPT = "accept"  # send the other jobs
    OPEN = "open"  # open the page of the job that failed


class CanaryPage(ModalScreen[Reply], Leavable):
    """The page of the first jobs of a change: a line per job, then a question or the reason why the change stopped.

    While the jobs run, Esc closes the page and leaves the change alone. At the question the keys are those of every
    question: `y` accepts, Enter and Esc refuse.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "leave", "no", show=False, id="dialog.no"),
        Binding("y", "accept", "yes", show=False, id="dialog.yes"),
        Binding("X", "stop", "stop", show=False, id="stop"),
        Binding("enter", "open_job", "open the failed job", show=False, id="job.open"),
        Binding("left,up", "app.focus_previous", show=False, id="dialog.previous"),
        Binding("right,down", "app.focus_next", show=False, id="dialog.next"),
        Binding("k,pageup", "scroll(-5)", show=False, id="dialog.page-up"),
        Binding("j,pagedown,space", "scroll(5)", show=False, id="dialog.page-down"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, verb: str, past: str, limits: Limits) -> None:
        super().__init__()
        self._verb, self._past, self._limits = verb, past, limits
        self._progress: CanaryProgress | None = None
        self._others = 0  # the jobs that follow after the first ones
        self._foot: tuple[tuple[str, str], ...] = ()  # sentences with their styles
        self.failure: FirstJob | None = None  # the job that Enter opens after the change was stopped
        self._is_asking = self._is_over = False

    def compose(self) -> ComposeResult:
        """Create the limits, the list of jobs, the question and its buttons."""
        with Vertical(id="canary"):
            yield Static(id="canary-head")
            with VerticalScroll(id="canary-jobs", can_focus=False):
                yield Static("Sending the first jobs …", id="canary-lines")
            yield Static(id="canary-foot")
            with Horizontal(id="buttons"):
                yield Button(Content(self._verb), id="yes", compact=True)
                yield Button("cancel", id="no", compact=True)

    def on_mount(self) -> None:
        """Show what is known so far."""
        self._draw()

    def on_resize(self) -> None:
        """Fit the lines to the new size of the terminal."""
        self._draw()

    # -- what the service shows ---------------------------------------------------------------------------------------

    def show_progress(self, progress: CanaryProgress, others: int) -> None:
        """Show the first jobs as a poll found them. `others` is the number of jobs that follow after them."""
        self._progress, self._others = progress, others
        self._draw()

    def ask_for_others(self, question: str, note: str) -> None:
        """Ask whether the other jobs shall follow, with the focus on Cancel."""
        self._is_asking = True
        self._foot = ((question, "b $strong"), (note, "$muted"))
        self._draw()
        if self.is_mounted:
            with suppress(NoMatches):  # as in `_draw`
                self.set_focus(self.query_one("#no"))

    def show_end(self, sentences: Sequence[tuple[str, str]], failure: FirstJob | None = None) -> None:
        """Show why the change has ended, as sentences with their styles. Enter opens the job that failed."""
        self._is_asking, self._is_over = False, True
        self._foot, self.failure = tuple(sentences), failure
        self.set_focus(None)
        self._draw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw the page, unless its widgets do not exist yet, or some are already removed because the page closes."""
        if self.is_mounted:
            with suppress(NoMatches):
                self._draw_widgets()

    def _draw_widgets(self) -> None:
        page = self.query_one("#canary", Vertical)
        width = max(20, min(_MOST_CELLS, self.app.size.width * 96 // 100) - _FRAME_CELLS)
        head = [Content.styled(line, "$muted") for line in self._list_head_lines(width)]
        foot = [
            Content.styled(line, style) for text, style in self._foot for line in formats.wrap_to_width(text, width)
        ]
        rows_left = self.app.size.height - _FRAME_ROWS - 2 * self._is_asking
        rows_left -= sum(len(texts) + 1 for texts in (head, foot) if texts)  # each has an empty row beside it
        lines = [Content.styled("Sending the first jobs …", "$muted")]
        if self._progress is not None:
            lines = format_canary.format_first_jobs(self._progress, self._past, width - _BAR_CELLS, rows_left - 2)
            lines += [Content()] * (len(lines) + 2 <= rows_left)
            lines.append(format_canary.format_bar_legend(self._progress))
        page.border_title = Content(f" {self._build_title()} ")
        page.border_subtitle = Content(f" {self._build_key_hints(len(lines) > rows_left)} ")
        head_text = self.query_one("#canary-head", Static)
        head_text.update(Content("\n").join(head))
        head_text.display = bool(head)
        self.query_one("#canary-lines", Static).update(Content("\n").join(lines))
        self.query_one("#canary-jobs").styles.height = max(1, min(len(lines), rows_left))
        foot_text = self.query_one("#canary-foot", Static)
        foot_text.update(Content("\n").join(foot))
        foot_text.display = bool(foot)
        self.query_one("#buttons").display = self._is_asking

    def _build_title(self) -> str:
        counts = format_canary.describe_counts(self._progress) if self._progress is not None else "sending"
        number = self._progress.total if self._progress is not None else self._limits.canary_jobs or 0
        return f"{self._verb.capitalize()} {formats.format_quantity(number, 'job')} first: {counts}"

    def _list_head_lines(self, width: int) -> list[str]:
        """Return the lines about what the change waits for; none after the first jobs have ended."""
        if self._is_asking or self._is_over or self._progress is None:
            return []
        others = formats.format_quantity(self._others, "other job")
        follow = "follows" if self._others == 1 else "follow"
        limit = format_canary.describe_limit(self._progress, self._limits.canary_wait_s, self._limits.canary_run_s)
        return [
            line
            for text in (f"The {others} {follow} only if all of these succeed." if self._others else "", limit)
            if text
            for line in formats.wrap_to_width(text, width)
        ]

    def _build_key_hints(self, has_more: bool) -> str:
        yes_key, no_key = keys.find_dialog_key("dialog.yes", "y"), keys.find_dialog_key("dialog.no", "Esc")
        more = "j k more   " if has_more else ""
        if self._is_asking:
            return f"{more}{yes_key} {self._verb}   Enter, {no_key} cancel"
        if self._is_over:
            enter = f"{keys.find_dialog_key('job.open', 'Enter')} opens the failed job   " if self.failure else ""
            return f"{more}{enter}{no_key} closes"
        return f"{more}{keys.find_current_key('stop')} stops the change   {no_key} closes this page only"

    # -- keys ---------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Close the page. At the question this means that no other job is sent."""
        self.dismiss(Reply.STOP if self._is_asking else Reply.CLOSE)

    def action_accept(self) -> None:
        """Send the other jobs, if that is the question."""
        if self._is_asking:
            self.dismiss(Reply.ACCEPT)

    def action_stop(self) -> None:
        """Stop the change, unless it has ended."""
        if not self._is_over:
            self.dismiss(Reply.STOP)

    def action_open_job(self) -> None:
        """Open the page of the job that failed, after the change was stopped."""
        if self.failure is not None:
            self.dismiss(Reply.OPEN)

    def action_scroll(self, lines: int) -> None:
        """Scroll the list of jobs by a number of lines."""
        self.query_one("#canary-jobs").scroll_relative(y=lines, animate=False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Accept or refuse the question."""
        self.dismiss(Reply.ACCEPT if event.button.id == "yes" else Reply.STOP)
