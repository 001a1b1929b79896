"""Show dead jobs and jobs that wait for a retry, grouped by the cause of their error.

`[` and `]` widen and narrow the groups: by class, by class and frame, by cause, or by message. Enter opens a group with
an example's full error and its jobs. R and D act on a whole group. The group's members are then searched for in the
whole place, not only in the sample from which the table was built, and the confirmation shows how many more were found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.model import Focus, Job, Ref, Snapshot, State
from rqtui.reports import errors
from rqtui.reports.comparison import Selection
from rqtui.reports.errors import Errors as Report
from rqtui.reports.errors import Group, Grouping, Key, Width
from rqtui.text import elision, formats
from rqtui.text.masking import mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe, safe_lines
from rqtui.tui import keys
from rqtui.tui.format import timeline
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.group_search import NO_ERROR_TEXT, GroupSearch, build_group_target, build_job_key
from rqtui.tui.screens.report_view import ReportView, yield_second_line_variants
from rqtui.tui.target import Target
from rqtui.tui.view import find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.verbs import Verb

FRAME_CELLS = 10, 26  # minimum and maximum cells of the column of frames
_WIDTHS = tuple(Width)  # widest first
_WIDTH_NAMES = {Width.CLASS: "by class", Width.FRAME: "by frame", Width.CAUSE: "by cause", Width.MESSAGE: "by message"}
_SORT_KEYS: dict[str, Callable[[Group], float]] = {
    "count": lambda group: -group.count,
    "last": lambda group: -(group.last_ms or 0),
    "first": lambda group: group.first_ms or float("inf"),
    "error": lambda group: 0,
}


class Errors(ReportView):
    """The view of error groups of some queues, or of all queues."""

    NAME = "errors"
    SAMPLE_NOTE = ", the newest dead ones"
    DETAILS = "#example"
    FILTER_HINT = "part of an error, a kind or a queue; /re/ err: job: !term"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {"dead": "count", "error": "error", "first": "first", "last": "last"}
    TITLE_WORD = "errors"
    EMPTY = "no job has died, and none waits for another try"
    report: Report | None = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__(refs)
        self._example_job: Job | None = None  # the example in the last snapshot
        self._group_search = GroupSearch(self, self._update_frame_if_drawn)
        self.width = Width.CAUSE
        self._frame_cells = 0  # width of the frames column; 0: no column
        self._last_group: Group | None = None  # the group under the cursor at the last draw

    def build_columns(self) -> Sequence[Column]:
        """Return the columns of the table of errors.

        The queue has a column only if several queues are shown, the source line only if errors contain one.
        """
        fit_name = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        queue_columns = (
            () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=4, style="muted", fit=fit_name),)
        )
        cells = self._frame_cells
        frame_columns = (Column("frame", "raised at", cells, drop=1, style="muted"),) if cells else ()
        return (
            Column("dead", "dead", 5, align="right"),
            Column("retrying", "retry", 5, align="right"),
            Column("share", "share", 5, align="right", style="muted", drop=3),
            Column("error", "error", 32, weight=6),
            *frame_columns,
            Column("kind", "job", 10, weight=1, drop=5),
            *queue_columns,
            Column("first", "first", 6, align="right", style="muted", drop=6),
            Column("last", "last", 6, align="right", style="muted", drop=2),
        )

    def _draw_rows_with_frames(self) -> None:
        """Draw the rows of error groups.

        The column of source lines is as wide as the longest one, and missing if no error contains one.
        """
        longest = max((len(group.frame) for group in self.list_error_groups()), default=0)
        cells = min(FRAME_CELLS[1], max(FRAME_CELLS[0], longest)) if longest else 0
        if cells == self._frame_cells:
            super().draw()
        else:
            self._frame_cells, cursor = cells, self.table.cursor_id if self.table.is_touched else None
            self.table.clear_rows()
            self.table.set_columns(self.build_columns())
            super().draw()
            if cursor is not None:
                self.table.move_to(cursor)
        self._keep_cursor_on_group()

    def _keep_cursor_on_group(self) -> None:
        """Move the cursor with its error group, which may have another key in a larger sample."""
        previous, groups_by_id = self._last_group, {group.id: group for group in self.list_error_groups()}
        if (
            previous is not None
            and self.report
            and self.table.cursor_id == previous.id
            and previous.id not in groups_by_id
        ):
            was_moved, new_id = self.table.is_touched, errors.find_group_id(self.report, previous.example)
            # A group without a new id has left; its row stays until the cursor leaves it.
            if new_id != previous.id and self.table.move_to(new_id) and not was_moved:
                self.table.action_first()
        self._last_group = groups_by_id.get(str(self.table.cursor_id), previous)

    def build_report(self, engine: Engine) -> Iterator[Report | None]:
        """Read a sample of the dead and scheduled jobs, grouped by error; of a recording the causes of its moment."""
        state, snapshot = self.session.replay, self.session.snapshot
        if state is not None and snapshot is not None:
            from rqtui.recording.replay import build_recorded_errors

            refs = self.list_queues_in_scope()
            return iter([build_recorded_errors(state, snapshot, self.session.systems, refs, self.width)])
        return errors.yield_error_reports(engine, self.list_queues_in_scope(), self.width)

    def apply_report(self) -> None:
        """Store the causes of the errors in the session.

        The overview shows those of queues of which the report read all dead jobs. The report of an incident shows the
        causes of the most failed jobs.
        """
        from rqtui.reports import postmortem
        from rqtui.tui.widgets.queue_preview import select_causes_of_death

        if self.width is not Width.CAUSE or self.report is None or self.session.is_replay:
            return
        causes = postmortem.summarise_causes(self.report)
        self.session.largest_causes = postmortem.choose_larger_causes(self.session.largest_causes, causes)
        for ref in self.report.complete:
            causes_of_death = select_causes_of_death(self.report, ref)
            if causes_of_death is not None:
                self.session.death_causes[ref] = causes_of_death

    def explain_empty_report(self) -> str:
        """Return the sentence shown without errors; a recording has only those that a finding named."""
        return "no finding named a cause of failures at this time" if self.session.is_replay else self.EMPTY

    def list_error_groups(self) -> tuple[Group, ...]:
        """Return all error groups of the report."""
        return self.report.groups if self.report else ()

    def list_matching_items(self) -> list[Group]:
        """Return the error groups that match the filter, in the current sort order."""
        sort_key = _SORT_KEYS[self.sort]
        matching = (group for group in self.list_error_groups() if self.accepts(_convert_group_to_job(group)))
        return sorted(matching, key=lambda group: (sort_key(group), group.message, group.key))

    def build_row(self, group: Group, now_ms: int) -> Row:
        """Return the table row of an error group."""
        names = [self.session.format_name(ref) for ref in group.refs]
        queue_cells: tuple[Cell, ...] = () if len(self.refs) == 1 else (_format_first_name(names),)
        frame_cells: tuple[Cell, ...] = (safe(group.frame),) if self._frame_cells else ()
        total = self.report.count if self.report else 0
        return Row(
            group.id,
            (
                Piece(formats.format_count(group.dead, width=5), "state-dead" if group.dead else "muted"),
                Piece(formats.format_count(group.retrying, width=5), "state-scheduled" if group.retrying else "muted"),
                formats.format_share(group.count, total),
                safe(mask_text(group.short_message)) if group.message else Piece(NO_ERROR_TEXT, "muted"),
                *frame_cells,
                _format_first_name(group.kinds),
                *queue_cells,
                formats.format_age_since(group.first_ms, now_ms),
                formats.format_age_since(group.last_ms, now_ms),
            ),
        )

    def build_summary(self) -> Sequence[Piece]:
        """Return the number of error groups and of dead and retrying jobs, for the header."""
        dead = sum(group.dead for group in self.list_error_groups())
        retrying = sum(group.retrying for group in self.list_error_groups())
        group_count = len(self.list_error_groups())
        silent_systems = self.report.silent if self.report else ()
        return (
            Piece(formats.format_quantity(group_count, "error"), "strong"),
            Piece("   dead ", "muted"),
            Piece(formats.format_long_count(dead), "state-dead" if dead else ""),
            Piece("   waiting for a retry ", "muted"),
            Piece(formats.format_long_count(retrying), "state-scheduled" if retrying else ""),
            Piece(f"   {', '.join(silent_systems)}: no errors stored" if silent_systems else "", "muted"),
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the header's second line: totals of the errors report, the width of its groups, and the sort order."""
        if self.report is None:
            return super().build_second_line(width)
        summary = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in self.build_summary()))
        width_keys = f"{keys.find_current_key('groups_wider')} {keys.find_current_key('groups_narrower')}"
        width_hint = frame.format_key_hint(width_keys, _WIDTH_NAMES[self.width])
        variants = yield_second_line_variants(summary, self.sort, bool(self.refs))
        candidates = [(summary, Content("   ").join([width_hint, hints])) for summary, hints in variants if hints]
        return frame.choose_first_fitting([*candidates, (summary, width_hint), (summary, Content())], width)

    def find_selected_group(self) -> Group | None:
        """Return the error group under the cursor, or None without rows."""
        cursor_id = self.table.cursor_id
        return next((group for group in self.list_error_groups() if group.id == cursor_id), None)

    def build_target(self) -> Target:
        """Return the group's jobs in the queue and place of its example, which decide the usable keys.

        While the first report is built the jobs are left out: the example may change, so the keys of verbs stay grey.
        """
        group = self.find_selected_group()
        if group is None:
            return Target(find_only_queue(self.refs))
        return build_group_target(self.session, group, is_partial=self._is_report_partial)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the view of the error group under the cursor."""
        from rqtui.tui.screens.error_group import ErrorGroup

        group = self.find_selected_group()
        if group is not None:
            self.host.push_view(
                ErrorGroup(group, formats.format_share(group.count, self.report.count if self.report else 0))
            )

    def action_compare(self) -> None:
        """Open the differences between the jobs of the error group under the cursor and the other ended jobs.

        If no other job of the queue has ended, the ready jobs are compared with the group.
        """
        from rqtui.tui.screens.differences import Differences

        group, snapshot = self.find_selected_group(), self.session.snapshot
        if group is None or self.report is None:
            return
        ref = _build_queue_ref(group.example)
        places, queue = self.session.systems[ref.system].places, snapshot.find_queue(ref) if snapshot else None
        has_others = any(other is not group and ref in other.refs for other in self.list_error_groups())
        is_done_empty = queue is not None and not queue.count_in_state(State.DONE)
        compared_states = {*errors.STATES, State.DONE} if has_others or not is_done_empty else set(State)
        label = f"this error, {safe(mask_text(group.cause)) or NO_ERROR_TEXT}"
        is_member = partial(_is_member, self.report.grouping, group.key)
        failed = tuple(place.name for place in places if place.state in errors.STATES and place.has_failures)
        others = tuple(place.name for place in places if place.state in compared_states)
        self.host.push_view(
            Differences(ref, Selection(failed, accepts=is_member, label=label), Selection(others, label="other jobs"))
        )

    # -- wider and narrower groups --------------------------------------------------------------------------------

    def action_width(self, step: int) -> None:
        """Widen or narrow the error groups by one level; the cursor stays on its error."""
        position = _WIDTHS.index(self.width) + step
        if not 0 <= position < len(_WIDTHS):
            self.host.show_toast(f"the {'widest' if position < 0 else 'narrowest'} groups: {_WIDTH_NAMES[self.width]}.")
            return
        group = self.find_selected_group()
        self._stop_report()  # A report being built has groups of another width.
        self.width = _WIDTHS[position]
        if self.report is None:
            self.recompute()
            return
        self.report, self._partial_report = self.report.regroup(self.width), None
        self.table.expect_similar_list()
        self._rebuild_rows()
        if group is not None:
            example_key = build_job_key(group.example)
            self.table.move_to(
                next(
                    (other.id for other in self.list_error_groups() if example_key in map(build_job_key, other.jobs)),
                    "",
                )
            )
        self._next_report_s = 0.0  # The dates of groups without dead jobs come with the next report.

    # -- the example of a group, on a large terminal --------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Create the table of error groups and, below it, the pane with the details of one group."""
        yield from super().compose_view()
        yield LongText(id="example", classes="pane")

    def on_mount(self) -> None:
        """Keep the cursor on the most frequent error until the user moves it.

        That error may change while errors are read.
        """
        self.table.stays_first = True

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh the example job of the error group under the cursor, with all of its attempts."""
        group = self.find_selected_group() if self.has_preview and not self.session.is_replay else None
        focus = super().build_focus(refs)
        return focus if group is None else focus._replace(job=(_build_queue_ref(group.example), group.example.id))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Store the example job of a new snapshot, and redraw the errors."""
        if snapshot.job is not None:
            self._example_job = snapshot.job
        super().show_snapshot(snapshot)

    def draw(self) -> None:
        """Redraw the rows of error groups and the example of the group under the cursor."""
        self.fit_table_height(self.table, self.count_rows())
        self._draw_rows_with_frames()
        self._show_example_job()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the example of the error group to which the cursor moved."""
        super().on_table_moved(event)
        if self.has_preview:
            self._show_example_job()
            self.host.request_refresh_soon()

    def _show_example_job(self) -> None:
        group, pane = self.find_selected_group(), self.query_one("#example", LongText)
        if not self.has_preview:
            return
        if group is None or self.session.is_replay:
            pane.border_title = Content(" details ")
            text = "the error under the cursor is shown here in full"
            if self.session.is_replay:
                text = "The number of jobs among those that a health check read is recorded; the jobs are not."
            pane.show_text(Content.styled(text, "$muted"))
            return
        job = group.example
        if self._example_job is not None and (self._example_job.id, self._example_job.queue) == (job.id, job.queue):
            job = self._example_job
        share = formats.format_share(group.count, self.report.count if self.report else 0)
        pane.border_title = Content.assemble(
            (f" {formats.format_quantity(group.count, 'job')} ", "b $strong"), (f" {share} of all ", "$muted")
        )
        pane.show_text(_format_group_details(group, job, self.measure_details_width(pane), self._now_ms))

    def _update_frame_if_drawn(self) -> None:
        if self.is_drawn:
            self._update_frame()

    # -- acting on a group ----------------------------------------------------------------------------------------

    def handle_verb(self, verb: Verb) -> bool:
        """Search for all members of the error group, then start the verb on them.

        Return False for a verb that is not for jobs.
        """
        group = self.find_selected_group()
        if group is None or verb.scope != "job":
            return False
        return self._group_search.start_verb(
            verb, group, self.list_queues_in_scope(), self.report.grouping if self.report else Grouping()
        )

    def build_status(self) -> list[Piece]:
        """Return the progress of a running search for members of a group, else the status of the report."""
        return self._group_search.build_progress() or super().build_status()

    def step_back(self) -> bool:
        """Handle Esc: stop a running search for members of a group, before which nothing was changed."""
        return self._group_search.stop() or super().step_back()

    def on_unmount(self) -> None:
        """Stop the search for members and the report when the view of errors is closed."""
        self._group_search.stop()
        super().on_unmount()

    def handle_acted_jobs(self, _ids: object) -> None:
        """Build the errors report again soon, because a verb has changed the groups."""
        self._next_report_s = 0.0


def _is_member(grouping: Grouping, key: Key, job: Job) -> bool:
    """Return whether a job is in the error group with this key."""
    return errors.is_failure(job) and grouping.find_group_key(errors.parse_job_error(job)) == key


def _build_queue_ref(job: Job) -> Ref:
    return Ref(job.system, job.queue)


def _format_group_details(group: Group, example: Job, width: int, now_ms: int) -> Content:
    """Format an error group: its whole message, its times, places and kinds, then its newest job as an example."""
    message = safe(mask_text(group.message)) or NO_ERROR_TEXT
    dates = [
        f"{label} {formats.format_age_since(at_ms, now_ms)} ago"
        for label, at_ms in (("first", group.first_ms), ("last", group.last_ms))
        if at_ms is not None
    ]
    counts = [f"{formats.format_long_count(group.dead)} dead"] if group.dead else []
    counts += [f"{formats.format_long_count(group.retrying)} wait for a retry"] if group.retrying else []
    source = [f"raised at {safe(group.frame)}"] if group.frame else []
    kinds = [f"jobs: {', '.join(format_field_value(kind) for kind in group.kinds)}"] if any(group.kinds) else []
    facts = formats.wrap_to_width(" · ".join([*counts, *dates, *source, *kinds]), width)
    lines = [Content.styled(message, "$state-dead"), *(Content.styled(line, "$data") for line in facts), Content()]
    return Content("\n").join([*lines, _format_example_job(example, width, now_ms)])


def _format_example_job(job: Job, width: int, now_ms: int) -> Content:
    """Format the full last error of a job, then its life-line."""
    error = job.history[-1].error if job.history else job.error or job.problem
    lines = [Content.styled(line, "$data") for line in safe_lines(mask_text(error))] or [
        Content.styled("no error is stored with this job", "$muted")
    ]
    facts = [format_field_value(job.name)] if job.name else []
    facts += [f"{job.place} in {formats.elide_middle(safe(job.queue), 24)}"]
    facts += [formats.format_quantity(job.attempts, "attempt")] if job.attempts else []
    facts += [f"worker {format_field_value(job.worker)}"] if job.worker else []
    heading = Content.assemble(
        ("example  ", "b $strong"), (f"{formats.shorten_job_id(job.id, 24)} · {' · '.join(facts)}", "$muted")
    )
    life_line = timeline.format_job_timeline(job, min(width, 100), now_ms)
    return Content("\n").join([heading, *lines, *([Content(), life_line] if life_line else [])])


def _convert_group_to_job(group: Group) -> Job:
    """Build a job with the searchable texts of an error group, because filters work on jobs."""
    queues = to_bytes(" ".join(ref.queue for ref in group.refs))
    error_text = f"{group.message}\n{group.frame}\n{group.example.error}"
    return Job(b"", "", "", "", State.DEAD, b"", name=" ".join(group.kinds), error=error_text, body=queues)


def _format_first_name(names: Sequence[str]) -> Cell:
    """Return a cell with the first name, and how many more there are."""
    if not names:
        return Piece(formats.NONE, "muted")
    more = (Piece(f" +{len(names) - 1}", "muted"),) if len(names) > 1 else ()
    return (Piece(format_field_value(names[0])), *more)
