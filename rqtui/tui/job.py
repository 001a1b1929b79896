"""The page of one job: what is known of it on the left, its body on the right."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize

from rqtui.model import Focus, Job, Queue, Rate, Ref, Snapshot
from rqtui.tui import chrome, display, jobs
from rqtui.tui.text import LongText, Text
from rqtui.tui.view import Target, View

MOST_BODY = 65536


class JobPage(View):
    """One job, followed wherever it goes."""

    NAME = "job"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(1)", "Down", show=False, id="job.down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="job.up"),
    ]

    def __init__(self, ref: Ref, job: Job) -> None:
        super().__init__()
        self.ref, self.seen = ref, job
        self._queue: Queue | None = None
        self._rate = Rate()
        self._is_gone = False
        self._is_revealed = False
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """Two scrolling texts."""
        with Horizontal(id="job"):
            with VerticalScroll(id="job-left", classes="pane") as left:
                left.border_title = Content(" job ")
                yield Text("", id="job-properties")
            yield LongText(id="job-right", classes="pane")

    def on_mount(self) -> None:
        """The body scrolls first: it is the longer one."""
        self.query_one("#job-right").focus()

    def on_resize(self, _event: Resize) -> None:
        """The life-line fits itself to the width."""
        self.call_after_refresh(self._draw)

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The queue's counts and the whole job."""
        return Focus((self.ref,), (), (self.ref, self.seen.id), MOST_BODY)

    def show(self, snapshot: Snapshot) -> None:
        """Draws the job; one that is gone stays as it was last seen, and says so."""
        if snapshot.queue(self.ref) is None:
            return  # a picture that was asked for by the view below
        self._queue, self._rate = snapshot.queue(self.ref), snapshot.rates.get(self.ref) or Rate()
        self._now_ms = snapshot.taken_ms
        if snapshot.job is not None and snapshot.job.id == self.seen.id:
            self._is_gone, self.seen = False, snapshot.job
        elif self.cockpit.is_pictured(self.ref, self.seen.id):
            self._is_gone = True
        self._draw()

    def _draw(self) -> None:
        if not self.is_drawn or not self._now_ms:
            return
        left = self.query_one("#job-left")
        parts = [jobs.properties(self.seen, self._now_ms, self.cockpit.layouts[self.ref.layout].tells)]
        if self._is_gone:
            parts.insert(0, Content.styled("It is gone; this is how it was last seen.\n", "$state-reserved"))
        width = max(30, left.content_size.width)
        life = jobs.life_line(self.seen, width)
        parts += [Content(), life] if life else []
        errors = [attempt for attempt in self.seen.history if attempt.error]
        if errors:
            text = Content("\n".join(display.safe_lines(errors[-1].error)))
            parts += [Content.styled("\nlast error", "b $strong"), text]
        self.query_one("#job-properties", Text).show(Content("\n").join(parts))
        right = self.query_one("#job-right", LongText)
        encoding, body = jobs.body(self.seen, right.content_size.width, self._is_revealed)
        if self.seen.body is None:
            words = f"{display.size(self.seen.body_bytes)} are too many to show here: rqtui show --body"
            body = Content.styled(words, "$muted")
        title = f" body · {encoding} · {display.size(self.seen.body_bytes)} "
        right.border_title = Content(title)
        right.show(body)

    def target(self) -> Target:
        """This job, while it is there."""
        jobs_ = () if self._is_gone else (self.seen,)
        return Target(self.ref, self.seen.place, jobs_, False, self._queue, self.seen.state)

    def second_line(self, width: int) -> chrome.Sides:
        """The queue's counts."""
        if self._queue is None:
            return super().second_line(width)
        return chrome.queue_line(self._queue, self._rate, width, self.cockpit.system_of(self.ref))

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.set_class(is_dim, "-dimmed")

    def action_scroll(self, lines: int) -> None:
        """Scrolls the pane that has the focus; Tab gives it to the other one."""
        if self.focused:
            self.focused.scroll_relative(y=lines, animate=False)

    def action_reveal(self) -> None:
        """Shows what is masked, and back."""
        self._is_revealed = not self._is_revealed
        self._draw()
