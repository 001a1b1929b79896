"""Show one group of dead jobs with the same error: the full error of the job under the cursor, and the group's jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters, ticker
from rqtui.engine.engine import Engine
from rqtui.model import Focus, Job, Ref, Snapshot
from rqtui.reports import errors
from rqtui.reports.errors import Group
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.pieces import Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe, safe_lines
from rqtui.text.tracebacks import summarize_error
from rqtui.tui.format import columns
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

ID_CELLS = 18
MIN_ERROR_CELLS = 32  # minimum cells of the error beside the facts of the second line
MAX_ROWS = 300  # redrawn at each refresh because rows contain ages
OTHER_COLUMNS = (
    Column("job", "job", 8, weight=3, drop=2),
    Column("queue", "queue", 8, weight=1, drop=5, style="muted"),
    Column("place", "place", 9, drop=4),
    Column("tried", "tried", 5, align="right", drop=3),
    Column("worker", "worker", 8, weight=1, drop=6, style="muted"),
    Column("said", "message", 24, weight=8, drop=7),
    Column("when", "when", 8, align="right", style="muted"),
)


class ErrorGroup(View):
    """The view of the jobs of one error group, as they were in the sample of the errors report."""

    NAME = "error"
    FILTER_HINT = "text /re/ !term id: job: err: worker:"
    DEFAULT_CSS: ClassVar[str] = """
    ErrorGroup #error-text { height: 4; max-height: 40%; padding: 0 1; overflow-x: hidden; scrollbar-size-vertical: 1; }
    ErrorGroup Table { height: 1fr; }
    """

    def __init__(self, group: Group, share: str = "") -> None:
        super().__init__()
        self.group, self.share = group, share
        self._jobs = {_build_job_key(job): job for job in group.jobs}
        self._matches_filter = filters.parse_filter("")
        self._changed_ids: set[bytes] = set()
        self._full_jobs: dict[str, Job] = {}  # jobs with their full errors, by id
        self._now_ms, self._height = 0, 4

    def compose_view(self) -> ComposeResult:
        """Create the pane of the error and the table of the group's jobs."""
        yield LongText(id="error-text", classes="pane")
        is_ascii = self.session.settings.is_ascii
        yield Table(
            _build_columns(()),
            empty="no job with this error is left",
            id="error-jobs",
            has_marks=False,
            ascii_only=is_ascii,
        )

    def on_mount(self) -> None:
        """Focus the table of the group's jobs."""
        self.query_one("#error-text").border_title = Content(" error ")
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of the group's jobs."""
        return self.query_one("#error-jobs", Table)

    def find_selected_job(self) -> Job | None:
        """Return the job under the cursor, or None without rows."""
        return self._jobs.get(str(self.table.cursor_id))

    def build_focus(self, _refs: list[Ref]) -> Focus:
        """Request at each refresh the counts of the queue of the job under the cursor."""
        ref = _build_queue_ref(self.find_selected_job() or self.group.example)
        return Focus((ref,))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the ages of the group's jobs at a new snapshot."""
        self._now_ms = snapshot.taken_ms
        self._redraw_jobs()

    def _redraw_jobs(self) -> None:
        jobs = [job for job in self.group.jobs if job.id not in self._changed_ids and self._matches_filter(job)]
        if (built := _build_columns(jobs[:MAX_ROWS])) != self.table.painter.columns:
            self.table.set_columns(built)
        self.table.update([_build_job_row(job, self._now_ms) for job in jobs[:MAX_ROWS]])
        number = formats.format_long_count(len(jobs))
        part = f"the newest {MAX_ROWS} of {number}" if len(jobs) > MAX_ROWS else number
        self.table.set_border_title(
            Piece(" jobs ", "strong"), Piece(f"{part} that were read with this error ", "muted")
        )
        self._show_error()

    def apply_filter(self, expression: str) -> None:
        """Show only the jobs of the group that match the filter expression."""
        self._matches_filter = filters.parse_filter(expression, [*self.session.systems.values()])
        self._redraw_jobs()

    def _show_error(self) -> None:
        job = self.find_selected_job() or self.group.example
        full_job = self._full_jobs.get(_build_job_key(job))
        if full_job is None:
            self._full_jobs[_build_job_key(job)] = job  # stored first, so that the full error is requested only once
            self.session.call_engine(lambda engine: _load_full_job(engine, job), self._store_full_job)
        pane, text = self.query_one("#error-text", LongText), _format_full_error(full_job or job)
        pane.show_text(text)
        # The pane only grows, so that the rows below do not move.
        self._height = max(self._height, text.plain.count("\n") + 3)
        pane.styles.height = self._height

    def _store_full_job(self, message: ticker.CallFinished) -> None:
        job: Job | None = message.result
        if job is not None and self.is_drawn:
            self._full_jobs[_build_job_key(job)] = job
            self._show_error()

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the group's error, and its source line, number of jobs, share and times, as far as they fit."""
        group = self.group
        error_text = safe(mask_text(group.message)) or "no error is stored with these jobs"
        ages = [(label, at_ms) for label, at_ms in (("first", group.first_ms), ("last", group.last_ms)) if at_ms]
        times = " · ".join(f"{label} {formats.format_age_since(at_ms, self._now_ms)}" for label, at_ms in ages)
        count_text = formats.format_quantity(group.count, "job") + (f", {self.share} of all" if self.share else "")
        facts = [safe(group.frame), count_text, times if self._now_ms else ""]
        error_line = Content.styled(formats.fit_to_width(error_text, width - 1).rstrip(), "$state-dead")
        sides = []
        for dropped in range(len(facts)):
            right = " · ".join(fact for fact in facts[: len(facts) - dropped] if fact)
            width_left = width - len(right) - 3
            if width_left >= min(len(error_text), MIN_ERROR_CELLS):
                short_error = Content.styled(
                    formats.fit_to_width(error_text, min(len(error_text), width_left)).rstrip(), "$state-dead"
                )
                sides.append((short_error, Content.styled(right, "$muted")))
        return sides[0] if sides else (error_line, Content())

    def build_target(self) -> Target:
        """Return the job under the cursor as the target of a verb."""
        job = self.find_selected_job()
        if job is None:
            return Target()
        snapshot, ref = self.session.snapshot, _build_queue_ref(job)
        queue = snapshot.find_queue(ref) if snapshot else None
        return Target(ref, job.place, (job,), queue=queue, state=job.state)

    def handle_acted_jobs(self, ids: Collection[bytes]) -> None:
        """Remove the jobs that a verb changed from the list."""
        self._changed_ids.update(ids)
        self._redraw_jobs()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of jobs while the connection is lost, or restore it."""
        self.table.dimmed = is_dim

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Show the error of the job to which the cursor moved."""
        self._show_error()
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the page of the job under the cursor."""
        job = self.find_selected_job()
        if job is not None:
            self.host.open_job(_build_queue_ref(job), job)


def _load_full_job(engine: Engine, job: Job) -> Job:
    return errors.load_full_error(engine, job)


def _build_queue_ref(job: Job) -> Ref:
    return Ref(job.system, job.queue)


def _build_job_key(job: Job) -> str:
    return f"{job.system}:{job.queue}\n{job.id.hex()}"


def _build_columns(jobs: Sequence[Job]) -> tuple[Column, ...]:
    """Return the columns for these jobs, with the column of ids no wider than the longest id."""
    return (Column("id", "id", columns.compute_id_cells((job.id for job in jobs), ID_CELLS)), *OTHER_COLUMNS)


def _build_job_row(job: Job, now_ms: int) -> Row:
    attempts = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
    at_ms = job.since_ms if job.due_ms is None else job.due_ms
    when = formats.NONE if at_ms is None else formats.format_age(abs(now_ms - at_ms))
    return Row(
        _build_job_key(job),
        (
            formats.shorten_job_id(job.id, ID_CELLS),
            format_field_value(job.name) if job.name else Piece(formats.NONE, "muted"),
            safe(job.queue),
            Piece(job.place, f"state-{job.state}"),
            attempts,
            format_field_value(job.worker),
            Piece(safe(mask_text(summarize_error(job.error or job.problem))), "state-dead"),
            f"in {when}" if job.due_ms is not None and job.due_ms > now_ms else when,
        ),
    )


def _format_full_error(job: Job) -> Content:
    """Format a job's error with its most important line first, then all of its lines."""
    lines = safe_lines(mask_text(job.error or job.problem)) or ["no error is stored with this job"]
    summary = safe(mask_text(summarize_error(job.error or job.problem)))
    heading = [Content.styled(summary, "$state-dead")] if summary and len(lines) > 1 else []
    error_lines = [Content.styled(line, "$data") for line in lines]
    return Content("\n").join([*heading, *error_lines])
