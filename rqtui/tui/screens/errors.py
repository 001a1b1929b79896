"""The errors view: dead jobs and jobs that wait for a retry, grouped by the cause of their error.

`[` and `]` widen and narrow the groups: by class, by class and frame, by cause, or by message. Enter opens a group with
an example's full error and its jobs. R and D act on a whole group. The group's members are then searched for in the
whole place, not only in the sample from which the table was built, and the confirmation shows how many more were found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import ticker
from rqtui.model import Focus, Job, Ref, Snapshot, State
from rqtui.reports import errors
from rqtui.reports.errors import Errors as Report
from rqtui.reports.errors import Group, Grouping, Key, Members, Width
from rqtui.text import elision, formats
from rqtui.text.masking import mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe, safe_lines
from rqtui.tui import keys
from rqtui.tui.format import timeline
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView, build_second_lines
from rqtui.tui.target import Target
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.verbs import Verb

NO_ERROR_TEXT = "(no error is kept)"
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
    """The groups of errors of some queues, or of all queues."""

    NAME = "errors"
    FILTER_HINT = "part of an error, a kind or a queue; /re/ err: job: !term"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {"dead": "count", "error": "error", "first": "first", "last": "last"}
    TITLE_WORD = "errors"
    EMPTY = "no job has died, and none waits for another try"
    report: Report | None = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__(refs)
        self._example_job: Job | None = None  # the example in the last snapshot
        self._members: dict[Ref, dict[bytes, Job]] = {}  # members found so far of the group to act on
        self._search: Members | None = None
        self._search_call = 0  # id of the running search
        self._pending_verb: tuple[Verb, Group] | None = None  # the verb and the group for which members are searched
        self.width = Width.CAUSE
        self._frame_cells = 0  # width of the frames column; 0: no column
        self._last_group: Group | None = None  # the group under the cursor at the last draw

    def build_columns(self) -> Sequence[Column]:
        """Return the columns; the queue only if several are shown, the frame only if errors contain one."""
        fit = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=4, style="muted", fit=fit),)
        cells = self._frame_cells
        raised_at = (Column("frame", "raised at", cells, drop=1, style="muted"),) if cells else ()
        return (
            Column("dead", "dead", 5, align="right"),
            Column("retrying", "retry", 5, align="right"),
            Column("share", "share", 5, align="right", style="muted", drop=3),
            Column("error", "error", 32, weight=6),
            *raised_at,
            Column("kind", "job", 10, weight=1, drop=5),
            *queue,
            Column("first", "first", 6, align="right", style="muted", drop=6),
            Column("last", "last", 6, align="right", style="muted", drop=2),
        )

    def _draw_with_frames(self) -> None:
        """Draw the rows, with a column for the frames as wide as the longest one if any error contains a frame."""
        longest = max((len(group.frame) for group in self.list_groups()), default=0)
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
        self._follow_group()

    def _follow_group(self) -> None:
        """Move the cursor with its group: in a larger sample a group may have another key."""
        previous, groups_by_id = self._last_group, {group.id: group for group in self.list_groups()}
        if (
            previous is not None
            and self.report
            and self.table.cursor_id == previous.id
            and previous.id not in groups_by_id
        ):
            is_touched, new_id = self.table.is_touched, errors.find_group_id(self.report, previous.example)
            # A group without a new id has left; its row stays until the cursor leaves it.
            if new_id != previous.id and self.table.move_to(new_id) and not is_touched:
                self.table.action_first()
        self._last_group = groups_by_id.get(str(self.table.cursor_id), previous)

    def build_report(self, engine: Engine) -> Iterator[Report | None]:
        """Read a sample of the dead and scheduled jobs, grouped by error."""
        return errors.yield_error_reports(engine, self.list_queues_in_scope(), self.width)

    def apply_report(self) -> None:
        """Store the error groups of each queue in the session."""
        if self.width is not Width.CAUSE:
            return
        groups = self.list_groups()
        for ref in self.list_queues_in_scope():
            self.session.death_causes[ref] = frozenset(group.id for group in groups if ref in group.refs)

    def list_groups(self) -> tuple[Group, ...]:
        """Return all groups of the report."""
        return self.report.groups if self.report else ()

    def list_matching_items(self) -> list[Group]:
        """Return the groups that match the filter, in the current sort order."""
        order = _SORT_KEYS[self.sort]
        matching = (group for group in self.list_groups() if self.accepts(_as_job(group)))
        return sorted(matching, key=lambda group: (order(group), group.message, group.key))

    def build_row(self, group: Group, now_ms: int) -> Row:
        """Return the table row of a group."""
        names = [self.session.format_name(ref) for ref in group.refs]
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (_format_names(names),)
        raised_at: tuple[Cell, ...] = (safe(group.frame),) if self._frame_cells else ()
        total = self.report.count if self.report else 0
        return Row(
            group.id,
            (
                Piece(self._format_count(group.dead, 5), "state-dead" if group.dead else "muted"),
                Piece(self._format_count(group.retrying, 5), "state-scheduled" if group.retrying else "muted"),
                formats.format_share(group.count, total),
                safe(mask_text(group.short_message)) if group.message else Piece(NO_ERROR_TEXT, "muted"),
                *raised_at,
                _format_names(group.kinds),
                *queue,
                _format_age(group.first_ms, now_ms),
                _format_age(group.last_ms, now_ms),
            ),
        )

    def build_summary(self) -> Sequence[Piece]:
        """Return the number of errors and of the dead and retrying jobs."""
        dead = sum(group.dead for group in self.list_groups())
        retrying = sum(group.retrying for group in self.list_groups())
        number = len(self.list_groups())
        silent = self.report.silent if self.report else ()
        return (
            Piece(formats.format_quantity(number, "error", 7), "strong"),
            Piece("   dead ", "muted"),
            Piece(self._format_count(dead), "state-dead" if dead else ""),
            Piece("   to be tried again ", "muted"),
            Piece(self._format_count(retrying), "state-scheduled" if retrying else ""),
            Piece(f"   {', '.join(silent)}: no errors kept" if silent else "", "muted"),
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the report's totals, the width of its groups, and the sort order."""
        if self.report is None:
            return super().build_second_line(width)
        left = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in self.build_summary()))
        signs = f"{keys.find_current_key('groups_wider')} {keys.find_current_key('groups_narrower')}"
        width_hint = frame.format_hint(signs, _WIDTH_NAMES[self.width])
        rest = build_second_lines(left, self.sort, bool(self.refs))
        candidates = [(left, Content("   ").join([width_hint, right])) for left, right in rest if right]
        return frame.choose_first_fitting([*candidates, (left, width_hint), (left, Content())], width)

    def find_selected_group(self) -> Group | None:
        """Return the group under the cursor."""
        cursor_id = self.table.cursor_id
        return next((group for group in self.list_groups() if group.id == cursor_id), None)

    def build_target(self) -> Target:
        """Return the group's jobs in the queue and place of its example, which decide the usable keys."""
        group = self.find_selected_group()
        if group is None:
            return Target(self.refs[0]) if len(self.refs) == 1 else Target()
        example = group.example
        ref = Ref(example.system, example.queue)
        jobs = [job for job in group.jobs if (job.system, job.queue, job.place) == (*_to_pair(ref), example.place)]
        snapshot = self.session.snapshot
        queue = snapshot.find_queue(ref) if snapshot else None
        return Target(ref, example.place, tuple(jobs), queue=queue, state=example.state)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the group under the cursor."""
        from rqtui.tui.screens.error_group import ErrorGroup

        group = self.find_selected_group()
        if group is not None:
            self.host.push_view(
                ErrorGroup(group, formats.format_share(group.count, self.report.count if self.report else 0))
            )

    # -- wider and narrower groups --------------------------------------------------------------------------------

    def action_width(self, step: int) -> None:
        """Widen or narrow the groups by one level; the cursor stays on its error."""
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
            example = _build_job_key(group.example)
            self.table.move_to(
                next((other.id for other in self.list_groups() if example in map(_build_job_key, other.jobs)), "")
            )
        self._next_report_s = 0.0  # The dates of groups without dead jobs come with the next report.

    # -- the example of a group, on a large terminal --------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Yield the table and, below it, the pane with the full error of an example."""
        yield from super().compose_view()
        yield LongText(id="example", classes="pane")

    def on_mount(self) -> None:
        """Keep the cursor on the most frequent error, which changes while errors are read, until it is moved."""
        self.table.stays_first = True

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request the example of the group under the cursor with all of its attempts."""
        group = self.find_selected_group() if self.has_preview else None
        wish = super().build_focus(refs)
        return wish if group is None else wish._replace(job=(_build_ref(group.example), group.example.id))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Store the example from the snapshot, and redraw."""
        if snapshot.job is not None:
            self._example_job = snapshot.job
        super().show_snapshot(snapshot)

    def draw(self) -> None:
        """Redraw the rows and the example."""
        self.fit_table(self.table, len(self.list_groups()))
        self._draw_with_frames()
        self._show_example()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Show the example of another group."""
        super().on_table_moved(event)
        if self.has_preview:
            self._show_example()
            self.host.request_refresh_soon()

    def _show_example(self) -> None:
        group, pane = self.find_selected_group(), self.query_one("#example", LongText)
        if not self.has_preview:
            return
        if group is None:
            pane.border_title = Content(" an example ")
            pane.show_text(Content.styled("the error under the cursor is shown here in full", "$muted"))
            return
        job = group.example
        if self._example_job is not None and (self._example_job.id, self._example_job.queue) == (job.id, job.queue):
            job = self._example_job
        title = f" {formats.shorten_job_id(job.id, 24)} of {formats.elide_middle(safe(job.queue), 24)} "
        pane.border_title = Content.assemble((" an example ", "b $strong"), (title, "$muted"))
        pane.show_text(_format_example(job, pane.scrollable_content_region.width, self._now_ms))

    # -- acting on a group ----------------------------------------------------------------------------------------

    def handle_verb(self, verb: Verb) -> bool:
        """Search for all members of the group, then start the verb on them."""
        group = self.find_selected_group()
        if group is None or verb.scope != "job":
            return False
        if verb.script and group.count > 1:
            self.host.show_toast(
                f"{verb.label}: {keys.apply_keymap('that is for one job; Enter shows those of this error.')}", "warning"
            )
            return True
        if self._pending_verb is not None:
            return True
        states = tuple(state for state in errors.STATES if not verb.takes or state in verb.takes)
        self._members, self._search = {}, None
        self._pending_verb = verb, group
        grouping = self.report.grouping if self.report else Grouping()
        self._search_call = self.session.run_steps(
            partial(_search_members, tuple(self.list_queues_in_scope()), group.key, grouping, states),
            self._handle_search_step,
        )
        self._update_frame()
        return True

    def _handle_search_step(self, message: ticker.CallFinished) -> None:
        if message.request_id != self._search_call:
            return  # an answer of a stopped search
        step: Members | None = message.result
        if step is not None:
            self._search = step
            self._members.setdefault(step.ref, {}).update((job.id, job) for job in step.jobs)
        if message.is_last:
            verb_and_group, self._pending_verb, members = self._pending_verb, None, self._members
            self._members = {}
            if message.error:
                self.host.show_toast(message.error, "error")
            elif verb_and_group is not None:
                self._start_verb_on_members(*verb_and_group, members)
        if self.is_drawn:
            self._update_frame()

    def _start_verb_on_members(self, verb: Verb, group: Group, members: dict[Ref, dict[bytes, Job]]) -> None:
        systems = self.session.systems
        chosen = []
        for ref, jobs_by_id in members.items():
            jobs = [job for job in jobs_by_id.values() if systems[ref.system].can(verb.name, job.place)]
            if jobs:
                chosen.append((ref, jobs))
        about = f'error "{group.message or NO_ERROR_TEXT}"'
        if not chosen:
            self.host.show_toast(f"{verb.name}: no job with {about} is there any more.", "warning")
            return
        counted = {_build_job_key(job) for job in group.jobs if systems[job.system].can(verb.name, job.place)}
        found_ids = {_build_job_key(job) for _ref, jobs in chosen for job in jobs}
        newest_searched = self._search.of if self._search is not None and self._search.left else 0
        self.host.start_verb_on_jobs(
            verb.name, chosen, about, _describe_difference(counted, found_ids, newest_searched)
        )

    def build_status(self) -> list[Piece]:
        """Return the progress of a running search for members, else the status of the report."""
        if self._pending_verb is None:
            return super().build_status()
        found_jobs = sum(len(jobs) for jobs in self._members.values())
        searched, total = (self._search.looked, self._search.of) if self._search else (0, 0)
        numbers = [formats.format_count(number, width=9) for number in (found_jobs, searched, total)]
        progress = f"{numbers[0]} found, {numbers[1]} of {numbers[2]}"
        return [
            Piece(
                f"{self._pending_verb[0].label}: {progress} looked at · {keys.find_current_key('back')} stops ",
                "accented",
            )
        ]

    def step_back(self) -> bool:
        """Stop a running search for members; nothing was changed yet."""
        if self._pending_verb is not None:
            self._pending_verb = None
            self.session.stop_steps(self._search_call)
            return True
        return super().step_back()

    def on_unmount(self) -> None:
        """Stop the search for members and the report."""
        self._pending_verb = None
        self.session.stop_steps(self._search_call)
        super().on_unmount()

    def handle_acted_jobs(self, _ids: object) -> None:
        """Build the report again soon, because the groups have changed."""
        self._next_report_s = 0.0


def _search_members(
    refs: tuple[Ref, ...], key: Key, grouping: Grouping, states: Sequence[State], engine: Engine
) -> Iterator[Members]:
    return errors.yield_members(engine, refs, key, grouping, states)


def _build_job_key(job: Job) -> tuple[str, str, bytes]:
    return job.system, job.queue, job.id


def _describe_difference(row_jobs: Collection[object], found: Collection[object], looked_at: int) -> str:
    """Describe how the jobs that were found differ from those in the row: `2 500 counted here, 31 more match`."""
    more, missing = len(set(found) - set(row_jobs)), len(set(row_jobs) - set(found))
    texts = [f"{formats.format_count(len(row_jobs), width=9) if row_jobs else 'none'} counted here"]
    texts += [f"{formats.format_count(more, width=9)} more match" + ("es" if more == 1 else "")] if more else []
    texts += [f"{formats.format_count(missing, width=9)} no longer there"] if missing else []
    texts += [f"only the newest {formats.format_count(looked_at, width=9)} were looked at"] if looked_at else []
    return ", ".join(texts)


def _build_ref(job: Job) -> Ref:
    return Ref(job.system, job.queue)


def _format_example(job: Job, width: int, now_ms: int) -> Content:
    """Format the full last error of a job, then its timeline."""
    error = job.history[-1].error if job.history else job.error or job.problem
    lines = [Content.styled(line, "$data") for line in safe_lines(mask_text(error))] or [
        Content.styled("no error is kept of this job", "$muted")
    ]
    attempts = [f"attempts {job.attempts}"] if job.attempts else []
    facts = [
        format_field_value(job.name) or "job",
        job.place,
        *attempts,
        f"worker {format_field_value(job.worker) or formats.ZERO}",
    ]
    line = timeline.format_life_line(job, max(20, min(width, 100)), now_ms)
    return Content("\n").join(
        [Content.styled("   ".join(facts), "$muted"), Content(), *lines, *([Content(), line] if line else [])]
    )


def _to_pair(ref: Ref) -> tuple[str, str]:
    return ref.system, ref.queue


def _as_job(group: Group) -> Job:
    """Build a job with the searchable texts of a group, because filters work on jobs."""
    queues = to_bytes(" ".join(ref.queue for ref in group.refs))
    error_text = f"{group.message}\n{group.frame}\n{group.example.error}"
    return Job(b"", "", "", "", State.DEAD, b"", name=" ".join(group.kinds), error=error_text, body=queues)


def _format_names(names: Sequence[str]) -> Cell:
    """Return the first name, and how many more there are."""
    if not names:
        return Piece(formats.ZERO, "muted")
    more = (Piece(f" +{len(names) - 1}", "muted"),) if len(names) > 1 else ()
    return (Piece(format_field_value(names[0])), *more)


def _format_age(at_ms: int | None, now_ms: int) -> str:
    return formats.ZERO if at_ms is None else formats.format_age(max(0, now_ms - at_ms))
