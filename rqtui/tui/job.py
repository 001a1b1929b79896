"""The page of one job: what is known of it on the left, its body on the right."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from rqtui.model import Focus, Job, Queue, Ref, Snapshot
from rqtui.tui import display, jobs
from rqtui.tui.view import Target, View

MOST_BODY = 65536


class JobPage(View):
    """One job, followed wherever it goes."""

    NAME = "job"

    def __init__(self, ref: Ref, job: Job) -> None:
        super().__init__()
        self.ref, self.seen = ref, job
        self._queue: Queue | None = None
        self._is_gone = False
        self._is_revealed = False
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """Two scrolling texts."""
        with Horizontal(id="job"):
            with VerticalScroll(id="job-left", classes="pane") as left:
                left.border_title = Content("job")
                yield Static("", id="job-properties")
            with VerticalScroll(id="job-right", classes="pane") as right:
                right.border_title = Content("body")
                yield Static("", id="job-body")

    def on_mount(self) -> None:
        """The body scrolls first: it is the longer one."""
        self.query_one("#job-right").focus()

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The queue's counts and the whole job."""
        return Focus((self.ref,), (), (self.ref, self.seen.id), MOST_BODY)

    def show(self, snapshot: Snapshot) -> None:
        """Draws the job; one that is gone stays as it was last seen, and says so."""
        self._queue = snapshot.queue(self.ref)
        self._now_ms = snapshot.taken_ms
        if self.is_frozen:
            return
        self._is_gone = snapshot.job is None
        if snapshot.job is not None:
            self.seen = snapshot.job
        self._draw()

    def _draw(self) -> None:
        left = self.query_one("#job-left")
        parts = [jobs.properties(self.seen, self._now_ms)]
        if self._is_gone:
            parts.insert(0, Content.styled("It is gone; this is how it was last seen.\n", "$state-reserved"))
        parts += [
            Content.assemble("\n", ("life-line", "b $strong")),
            jobs.life_line(self.seen, max(30, left.size.width - 2)),
        ]
        errors = [attempt for attempt in self.seen.history if attempt.error]
        if errors:
            parts += [
                Content.assemble("\n", ("last error", "b $strong")),
                Content("\n".join(display.safe_lines(errors[-1].error))),
            ]
        self.query_one("#job-properties", Static).update(Content("\n").join(parts))
        encoding, text = jobs.body(self.seen, self._is_revealed)
        if self.seen.body is None:
            text = Content.styled(
                f"{display.size(self.seen.body_bytes)} are too many to show here: rqtui show --body", "$muted"
            )
        right = self.query_one("#job-right")
        right.border_title = Content(f"body · {encoding} · {display.size(self.seen.body_bytes)}")
        self.query_one("#job-body", Static).update(text)

    def target(self) -> Target:
        """This job, while it is there."""
        return Target(self.ref, self.seen.place, () if self._is_gone else (self.seen,), False, self._queue)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.set_class(is_dim, "-dimmed")

    def action_reveal(self) -> None:
        """Shows what is masked, and back."""
        self._is_revealed = not self._is_revealed
        self._draw()
