"""ErrorGroup: one group of errors: the whole error of the job under the cursor above, the jobs of the group below."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters, ticker
from rqtui.engine.engine import Engine
from rqtui.model import Focus, Job, Ref, Snapshot
from rqtui.reports import errors
from rqtui.reports.errors import Group
from rqtui.text import formats
from rqtui.text.body import mask_text
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe, safe_lines
from rqtui.text.tracebacks import line_of
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text import LongText

ID_CELLS = 18
NAME_CELLS = 32  # of an error's name that stay beside its figures
MOST_ROWS = 300  # drawn at each tick, since their ages go on
COLUMNS = (
    Column("id", "id", ID_CELLS),
    Column("job", "job", 8, weight=3, drop=2),
    Column("queue", "queue", 8, weight=1, drop=5, style="muted"),
    Column("place", "place", 9, drop=4),
    Column("tried", "tried", 5, align="right", drop=3),
    Column("worker", "worker", 8, weight=1, drop=6, style="muted"),
    Column("said", "message", 24, weight=8, drop=7),
    Column("when", "when", 8, align="right", style="muted"),
)


class ErrorGroup(View):
    """The jobs of a group, as the sample has them."""

    NAME = "error"
    FILTER_HINT = "text /re/ !term id: job: err: worker:"
    DEFAULT_CSS: ClassVar[str] = """
    ErrorGroup #error-text { height: 4; max-height: 40%; padding: 0 1; overflow-x: hidden; scrollbar-size-vertical: 1; }
    ErrorGroup Table { height: 1fr; }
    """

    def __init__(self, group: Group, share: str = "") -> None:
        super().__init__()
        self.group, self.share = group, share
        self._jobs = {_id(job): job for job in group.jobs}
        self._accepts = filters.parse("")
        self._acted_on: set[bytes] = set()
        self._whole: dict[str, Job] = {}  # with the whole of their errors
        self._now_ms, self._height = 0, 4

    def compose_view(self) -> ComposeResult:
        """The error above, the jobs below."""
        yield LongText(id="error-text", classes="pane")
        is_ascii = self.session.settings.is_ascii
        yield Table(
            COLUMNS, empty="no job with this error is left", id="error-jobs", has_marks=False, ascii_only=is_ascii
        )

    def on_mount(self) -> None:
        """The keys go to the jobs."""
        self.query_one("#error-text").border_title = Content(" error ")
        self.table.focus()

    @property
    def table(self) -> Table:
        """The jobs."""
        return self.query_one("#error-jobs", Table)

    def job(self) -> Job | None:
        """The one under the cursor."""
        return self._jobs.get(str(self.table.cursor_id))

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The counts of the queue under the cursor."""
        ref = _ref(self.job() or self.group.example)
        return Focus((ref,))

    def show(self, snapshot: Snapshot) -> None:
        """Ages go on."""
        self._now_ms = snapshot.taken_ms
        self._draw()

    def _draw(self) -> None:
        jobs = [job for job in self.group.jobs if job.id not in self._acted_on and self._accepts(job)]
        self.table.update([_row(job, self._now_ms) for job in jobs[:MOST_ROWS]])
        number = formats.count(len(jobs), width=9)
        if len(jobs) > MOST_ROWS:
            number = f"{MOST_ROWS} of {number}"
        self.table.set_title(Piece(" jobs ", "strong"), Piece(f"{number} with this error in the sample ", "muted"))
        self._show_error()

    def filtered(self, expression: str) -> None:
        """Shows the jobs that fit."""
        self._accepts = filters.parse(expression)
        self._draw()

    def _show_error(self) -> None:
        job = self.job() or self.group.example
        known = self._whole.get(_id(job))
        if known is None:
            self._whole[_id(job)] = job  # asked for once
            self.session.ask(lambda engine: _whole(engine, job), self._heard)
        pane, text = self.query_one("#error-text", LongText), _error_text(known or job)
        pane.show(text)
        self._height = max(self._height, text.plain.count("\n") + 3)  # it only grows: rows should stand still
        pane.styles.height = self._height

    def _heard(self, answered: ticker.Answered) -> None:
        job: Job | None = answered.result
        if job is not None and self.is_drawn:
            self._whole[_id(job)] = job
            self._show_error()

    def second_line(self, width: int) -> chrome.Sides:
        """What the group is called; how many jobs it has and what part of all that is, where and when they failed."""
        group = self.group
        words = safe(mask_text(group.message)) or "no error is kept of these jobs"
        ages = [(word, at_ms) for word, at_ms in (("first", group.first_ms), ("last", group.last_ms)) if at_ms]
        times = " · ".join(f"{word} {formats.age(max(0, self._now_ms - at_ms))}" for word, at_ms in ages)
        counted = formats.numbered(group.count, "job") + (f", {self.share} of all" if self.share else "")
        facts = [safe(group.frame), counted, times if self._now_ms else ""]
        name = Content.styled(formats.fit(words, max(10, width - 1)).rstrip(), "$state-dead")
        sides = []
        for left_out in range(len(facts)):
            right = " · ".join(fact for fact in facts[: len(facts) - left_out] if fact)
            room = width - len(right) - 3
            if room >= min(len(words), NAME_CELLS):
                short = Content.styled(formats.fit(words, min(len(words), room)).rstrip(), "$state-dead")
                sides.append((short, Content.styled(right, "$muted")))
        return sides[0] if sides else (name, Content())

    def target(self) -> Target:
        """The job under the cursor."""
        job = self.job()
        if job is None:
            return Target()
        snapshot, ref = self.session.snapshot, _ref(job)
        queue = snapshot.queue(ref) if snapshot else None
        return Target(ref, job.place, (job,), queue=queue, state=job.state)

    def acted(self, ids: Collection[bytes]) -> None:
        """Jobs that were acted on are no part of the group any more."""
        self._acted_on.update(ids)
        self._draw()

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.table.dimmed = is_dim

    def on_table_moved(self, _event: Table.Moved) -> None:
        """The error above is that of the job under the cursor."""
        self._show_error()
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the job."""
        job = self.job()
        if job is not None:
            self.host.open_job(_ref(job), job)


def _whole(engine: Engine, job: Job) -> Job:
    return errors.whole(engine, job)


def _ref(job: Job) -> Ref:
    return Ref(job.layout, job.queue)


def _id(job: Job) -> str:
    return f"{job.layout}:{job.queue}\n{job.id.hex()}"


def _row(job: Job, now_ms: int) -> Row:
    tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts or formats.ZERO)
    at_ms = job.since_ms if job.due_ms is None else job.due_ms
    when = formats.ZERO if at_ms is None else formats.age(abs(now_ms - at_ms))
    return Row(
        _id(job),
        (
            formats.job_id(job.id, ID_CELLS),
            safe(job.name) if job.name else Piece(formats.ZERO, "muted"),
            safe(job.queue),
            Piece(job.place, f"state-{job.state}"),
            tried,
            safe(job.worker),
            Piece(safe(mask_text(line_of(job.error or job.problem))), "state-dead"),
            f"in {when}" if job.due_ms is not None and job.due_ms > now_ms else when,
        ),
    )


def _error_text(job: Job) -> Content:
    """The lines of an error as they are, what matters most of it first."""
    lines = safe_lines(mask_text(job.error or job.problem)) or ["no error is kept of this job"]
    last = safe(mask_text(line_of(job.error or job.problem)))
    head = [Content.styled(last, "$state-dead")] if last and len(lines) > 1 else []
    body = [Content.styled(line, "$data") for line in lines]
    return Content("\n").join([*head, *body])
