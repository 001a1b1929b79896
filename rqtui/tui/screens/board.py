"""Show the board of one queue: a pane per place, the queue's findings above them, and on wide terminals a job's detail.

One place is in the middle; from 120 columns the others are short panes beside it, below that they are tabs. The detail
pane needs 140 columns. The board opens on the place of the worst finding, else on the fullest. Each place has its own
filter: a short place is filtered at each refresh, a long one is scanned for matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus, Resize

from rqtui.engine import filters
from rqtui.errors import UsageError
from rqtui.model import Focus, Job, Page, Queue, Rate, Ref, Snapshot, State
from rqtui.reports.comparison import Selection
from rqtui.system_base.system import find_late_place
from rqtui.text import elision, formats, paths
from rqtui.text.pieces import Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import columns, jobs, timeline
from rqtui.tui.format.rows import Id
from rqtui.tui.screens import board_borders, board_layout
from rqtui.tui.screens.board_layout import BoardLayout
from rqtui.tui.target import Target
from rqtui.tui.view import TABLE_FRAME_ROWS, View
from rqtui.tui.widgets import findings, frame, place_scan
from rqtui.tui.widgets.findings import FindingLine, Findings
from rqtui.tui.widgets.long_text import Text
from rqtui.tui.widgets.pane import JobState, Pane
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.ticker import CallFinished
    from rqtui.system_base.system import System

LONG_IDS_FROM_CELLS = 180  # terminal cells from which on ids are long while panes are side by side
FOLD_AFTER_MS = 30_000  # A place must be empty this long before it folds, or its neighbours would jump up and down.
# The findings above the panes: (terminal rows from which on, most findings, most lines of their sentences).
FINDING_SPACE = ((40, 3, 5), (30, 1, 3), (0, 1, 2))
LIST_STEP, LEAST_JOB_ROWS = 4, 8  # on a narrow terminal: rows of the list, and of the job detail below it
REDRAW_S = 0.2  # between two redraws of a running scan
JOBS_READ_FOR_PATHS = 50  # jobs of a page whose bodies are read for paths
MAX_FACT_LINES = 6  # per fact of a job in the detail pane
LEAVING_DIVISOR = 4  # If more than 1/4 of a pane's rows left at once, none of them is shown again.


class Board(View):
    """The view of one queue with a pane for each of its places."""

    NAME = "board"
    FILTER_HINT = "text /re/ !term id: err: .path:exact .path:~part age>10m  Tab paths  ↑ earlier"
    BINDINGS: ClassVar[list[BindingType]] = list(keys.build_tab_bindings("board"))

    def __init__(self, ref: Ref, system: System) -> None:
        super().__init__()
        self.ref, self.system_of_queue = ref, system
        ready = next((place for place in system.places if place.state is State.READY), system.places[0])
        self._current = ready.name
        self._queue: Queue | None = None
        self._rate = Rate()
        self._is_zoomed = False
        self._has_had_jobs = False
        self._last_filter: filters.Filter | None = None  # the last filter, used by `n`
        self._scans: dict[str, int] = {}  # requests of running scans, by place
        self._drawn_s = 0.0
        self._last_snapshot: Snapshot | None = None
        self._panes: list[Pane] = []
        self._board_layout, self._is_layout_applied = BoardLayout(self._current), False
        self._last_filled_ms: dict[str, int] = {}  # server time when each place last had jobs
        self._is_place_chosen = False  # whether the current place was chosen by the person or by the first snapshot
        self._list_size = ("", 0)  # the current place, and the rows that its jobs needed at most
        self._finding_lines = 1  # lines of findings; only grows, so that the rows below do not move
        self._finding_rows: list[FindingLine] = []
        self._tab_line: list[frame.Sides] = []  # a line of tabs below the findings, if the frame's title is too short

    def compose_view(self) -> ComposeResult:
        """Create the findings, the panes of the places and the job detail of a board.

        `_arrange_panes` hides what does not fit.
        """
        self._panes = list(self._create_panes())
        yield Findings(id="findings")
        with Grid(id="panes"):
            yield from self._panes
            with VerticalScroll(id="detail", classes="pane", can_focus=False):
                yield Text(id="detail-text")

    def _create_panes(self) -> Iterator[Pane]:
        """Yield a new pane for each place of the queue."""
        system, settings, may_change = self.system_of_queue, self.session.settings, not self.session.is_read_only
        late_place = find_late_place(system.places)
        for place in system.places:
            empty_sentence = jobs.format_empty_place(
                place, system.places, is_late=place is late_place, can_change=may_change
            )
            configured, _unknown = columns.read_configured_columns(settings.columns, place.state)
            yield Pane(
                self.ref, place, system.places, system.known_fields, empty_sentence, configured, settings.is_ascii
            )

    def on_mount(self) -> None:
        """Focus the pane of the ready place until the first snapshot selects another one."""
        self.query_one("#detail").border_title = Content(" job ")
        self._arrange_panes()
        self.set_focus(self.find_current_pane())  # Set now, because the first snapshot may move the focus.
        self._warn_about_unknown_columns()

    def on_unmount(self) -> None:
        """Stop the running scans of places when the board is closed."""
        self._stop_all_scans()

    def _warn_about_unknown_columns(self) -> None:
        settings = self.session.settings.columns
        unknown = {
            name
            for pane in self.list_panes()
            for name in columns.read_configured_columns(settings, pane.place.state)[1]
        }
        if unknown:
            valid_names = ", ".join(columns.NAMES)
            self.host.show_toast(
                f"unknown column: {', '.join(sorted(unknown))}; there are {valid_names}, body.PATH.", "warning"
            )

    # -- panes ----------------------------------------------------------------------------------------------------

    def list_panes(self) -> list[Pane]:
        """Return the panes of all places, in the order of the places."""
        return self._panes

    def find_current_pane(self) -> Pane:
        """Return the pane of the board that has the focus, or had it last."""
        return next(pane for pane in self._panes if pane.place.name == self._current)

    def _list_panes_with_rows(self) -> list[Pane]:
        """Return the panes that show rows, because they are neither hidden nor folded."""
        return [pane for pane in self._panes if pane.place.name in self._board_layout.in_sight]

    def _list_requested_panes(self) -> list[Pane]:
        """Return the panes whose pages each refresh requests.

        On wide terminals these include folded panes, which a job may enter.
        """
        is_wide = self.size.width >= board_layout.SIDE_BY_SIDE_FROM and not self._is_zoomed
        return self._panes if is_wide else self._list_panes_with_rows()

    def _arrange_panes(self) -> None:
        """Compute the layout of the panes for the terminal's size, and apply it."""
        names = [pane.place.name for pane in self._panes]
        empty_names = (
            None if self._queue is None else [name for name in names if self._is_place_empty(name, self._queue)]
        )
        new_layout = board_layout.compute_board_layout(
            self.size.width,
            names,
            self._current,
            empty_names,
            is_zoomed=self._is_zoomed,
            list_rows=self._compute_list_rows(),
        )
        has_long_ids = not new_layout.side or self.size.width >= LONG_IDS_FROM_CELLS
        for pane in self._panes:
            is_current = pane.place.name == self._current
            id_cells = columns.LONG_ID_CELLS if is_current and has_long_ids else columns.SHORT_ID_CELLS
            pane.set_id_width(id_cells, is_short=not is_current)
        if new_layout != self._board_layout or not self._is_layout_applied:
            self._apply_layout(new_layout)
        self.update_pane_frames()

    def _compute_list_rows(self) -> int:
        """Return the rows that the current pane needs, or 0 if no rows are left for the job detail below it.

        The rows are a multiple of `LIST_STEP` and do not shrink while the place stays, so that the detail rarely moves.
        """
        pane = self.find_current_pane()
        count = pane.count_matches() if pane.job_filter is not None else 0
        if pane.job_filter is None and self._queue is not None:
            count = self._queue.count_in_place(self._current)
        if not count:
            return 0
        place, rows = self._list_size
        wanted = -(-count // LIST_STEP) * LIST_STEP
        wanted = max(wanted, rows) if place == self._current else wanted
        self._list_size = self._current, wanted
        needed = wanted + TABLE_FRAME_ROWS
        return needed if self.count_content_rows() - needed >= LEAST_JOB_ROWS else 0

    def count_note_rows(self) -> int:
        """Return the number of rows of the findings and the tabs above the panes."""
        return (self._finding_lines if self._shows_findings else 0) + len(self._tab_line)

    def _is_place_empty(self, name: str, queue: Queue) -> bool:
        """Return whether a place had no jobs for `FOLD_AFTER_MS`. A place with a filter never counts as empty."""
        if queue.count_in_place(name):
            self._last_filled_ms[name] = queue.counted_ms
        pane = next(pane for pane in self._panes if pane.place.name == name)
        filled_ms = self._last_filled_ms.get(name)
        return not pane.expression and (filled_ms is None or queue.counted_ms - filled_ms > FOLD_AFTER_MS)

    def _apply_layout(self, new_layout: BoardLayout) -> None:
        """Apply a layout to the grid: short panes in a column, the current pane and the job detail at full height."""
        self._board_layout, self._is_layout_applied = new_layout, True
        grid, detail = self.query_one("#panes", Grid), self.query_one("#detail")
        visible_names, row_span = (new_layout.current, *new_layout.side), max(1, len(new_layout.side))
        left_pane = new_layout.side[:1]
        positions = {
            name: position for position, name in enumerate((*left_pane, new_layout.current, "", *new_layout.side[1:]))
        }
        grid.sort_children(
            key=lambda child: positions.get(child.place.name if isinstance(child, Pane) else "", len(positions))
        )
        grid.styles.grid_size_columns = len(new_layout.columns.split())
        grid.styles.grid_columns, grid.styles.grid_rows = new_layout.columns, new_layout.rows
        for pane in self._panes:
            pane.display = pane.place.name in visible_names
            pane.set_class(pane.place.name in new_layout.folded, "-folded")
            pane.styles.row_span = row_span if pane.place.name == new_layout.current else 1
        detail.styles.row_span = row_span
        detail.display = new_layout.has_detail

    def _show_tabs(self, list_panes: Sequence[Pane], current: Pane) -> list[Piece]:
        """Show the tabs of all places, and return those in the title of the current pane.

        If their names do not fit there, the first of them are in a line above the pane. The line stays while the board
        is open, so that the rows do not move when a count changes.
        """
        tabs = board_borders.build_tabs_on_two_lines(
            list_panes, current, self._queue, self.app.size.width - 2, has_line=bool(self._tab_line)
        )
        if tabs is None:
            self._tab_line = []
            return board_borders.build_title_with_tabs(list_panes, current, self._queue)
        line, title = tabs
        self._tab_line = [
            (Content.assemble(*(content for piece in line for content in _format_tab_piece(piece))), Content())
        ]
        return title

    def update_pane_frames(self) -> None:
        """Update the titles and bottom lines of the panes of all places, and the lines above the panes."""
        self._tab_line = self._tab_line if not self._board_layout.side else []
        self._update_titles()
        finding_rows = self._finding_rows if self._shows_findings else []
        findings_bar = self.query_one(Findings)
        findings_bar.display = self._shows_findings or bool(self._tab_line)
        findings_bar.show_findings(finding_rows, *self._tab_line)

    @property
    def _shows_findings(self) -> bool:
        """Whether the findings, or the verdict of a queue without findings, have lines above the panes."""
        return self.is_high or bool(self._queue and self._queue.findings)

    def _update_titles(self) -> None:
        list_panes, current = self.list_panes(), self.find_current_pane()
        for number, pane in enumerate(list_panes, 1):
            if pane is current and not self._board_layout.side:
                pane.set_border_title(*self._show_tabs(list_panes, pane))
            else:
                is_folded = pane.place.name in self._board_layout.folded
                pane.set_border_title(*board_borders.build_pane_title(number, pane, self._queue, is_folded=is_folded))
            is_current = pane is current
            pane.set_subtitle(
                *board_borders.build_pane_bottom_line(
                    pane,
                    self._queue,
                    is_current=is_current,
                    is_frozen=self.is_frozen,
                    scripts=self.session.systems[self.ref.system].scripts,
                    now_ms=self.session.now_ms,
                )
                if pane.place.name not in self._board_layout.folded
                else ()
            )

    def _show_findings(self, queue: Queue) -> None:
        findings_bar = self.query_one(Findings)
        findings_bar.set_findings(self.ref, queue.findings)
        if not queue.findings:
            self.leave_findings()
        width, height = self.app.size
        _rows, max_findings, max_lines = next(space for space in FINDING_SPACE if height >= space[0])
        lines = findings.build_finding_lines(
            queue, max_findings, width - 2, self.session.now_ms, max_lines=max_lines, cursor=findings_bar.cursor
        )
        self._finding_lines = max(self._finding_lines, len(lines))
        empty_line = FindingLine(Content(), Content(), None)
        self._finding_rows = [*lines, *[empty_line] * (self._finding_lines - len(lines))]

    def update_countdowns(self) -> None:
        """Redraw the time left to act on the queue's findings."""
        if self._queue and any(finding.until_ms is not None for finding in self._queue.findings):
            self._show_findings(self._queue)
            self.update_pane_frames()

    # -- the next refresh -----------------------------------------------------------------------------------------

    def build_focus(self, _refs: list[Ref]) -> Focus:
        """Return what the board needs of the next refresh: its queue, the pages in sight, and the job in the detail.

        Marked jobs that are on no page are requested one by one.
        """
        job = self.find_current_pane().find_current_job()
        has_detail = self.query_one("#detail").display
        panes = self._list_requested_panes()
        pages = tuple(selection for pane in panes if (selection := pane.build_page_selection()) is not None)
        requests = tuple(request for pane in panes for request in pane.build_job_requests(self.system_of_queue))
        return Focus(
            (self.ref,), pages, (self.ref, job.id) if has_detail and job else None, 4096, {"pane requests": requests}
        )

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw a new snapshot on the board; while the rows are frozen, only the counts change."""
        queue = snapshot.find_queue(self.ref)
        if queue is None:
            return  # requested by the view below
        self._queue, self._rate, self._last_snapshot = queue, snapshot.rates.get(self.ref) or Rate(), snapshot
        self._mark_panes_of_deleted_queue(queue)
        self._show_findings(queue)
        if not self._is_place_chosen and not queue.error:
            self._is_place_chosen = True
            system = self.system_of_queue
            self._go_to_named_place(board_layout.choose_first_place(system.places, queue, system.keys(self.ref.queue)))
        self._show_panes(snapshot)
        self._arrange_panes()
        self._show_job_detail(snapshot)

    def _show_panes(self, snapshot: Snapshot) -> None:
        pane_replies = [reply for reply in snapshot.results.get("pane requests", ()) if isinstance(reply, JobState)]
        leaving = self._find_leaving_jobs(snapshot)
        for pane in self._list_requested_panes():
            if self.is_frozen and pane.page is not None:
                continue  # A pane without a page has no rows to freeze.
            for reply in pane_replies:
                if reply.place == pane.place.name:
                    pane.apply_job_state(reply)
            pane.advance_marks()
            page = snapshot.find_page(self.ref, pane.place.name)
            if pane.scan_result is not None:
                pane.show_scan_result(snapshot.taken_ms)
            elif page is not None:
                pane.show_page(page, snapshot.taken_ms, leaving.get(pane.place.name))
                if pane.is_too_long and not self.filter_line.is_open:
                    self.start_scan(pane)

    def _find_leaving_jobs(self, snapshot: Snapshot) -> dict[str, dict[Id, str]]:
        """Return {place: {id: new place}} of the jobs that moved to another visible pane since the last snapshot.

        For one refresh these jobs are shown in both panes.
        """
        pages = [
            (pane, pane.page, page)
            for pane in self._list_requested_panes()
            if pane.page is not None and (page := snapshot.find_page(self.ref, pane.place.name)) is not None
        ]
        arrived: dict[Id, str] = {}
        for pane, previous, current in pages:
            previous_ids = {job.id for job in previous.jobs}
            arrived.update((job.id, pane.place.name) for job in current.jobs if job.id not in previous_ids)
        leaving: dict[str, dict[Id, str]] = {}
        for pane, previous, current in pages:
            current_ids = {job.id for job in current.jobs}
            left_ids = [job.id for job in previous.jobs if job.id not in current_ids]
            if len(left_ids) <= max(1, pane.visible_lines // LEAVING_DIVISOR):
                leaving[pane.place.name] = {id: arrived[id] for id in left_ids if id in arrived}
        return leaving

    def _mark_panes_of_deleted_queue(self, queue: Queue) -> None:
        """Show in all panes that the queue was deleted while its board is open, until the queue has jobs again."""
        has_jobs = any(count.count for count in queue.counts)
        is_deleted = self._has_had_jobs and not has_jobs and not queue.error and not queue.counters.get("in")
        self._has_had_jobs = self._has_had_jobs or has_jobs
        for pane in self.list_panes():
            pane.is_queue_gone = is_deleted

    def _show_job_detail(self, snapshot: Snapshot) -> None:
        detail = self.query_one("#detail")
        if not detail.display:
            return
        job = self.find_current_pane().find_current_job()
        if job and snapshot.job and snapshot.job.id == job.id:
            job = snapshot.job
        text_pane = self.query_one("#detail-text", Text)
        if job is None:
            text_pane.show_text(Content.styled("no job under the cursor", "$muted"))
            return
        is_missing = snapshot.job is None and self.session.has_requested_job(self.ref, job.id)
        encoding, body = jobs.format_job_body(job, detail.content_size.width)
        width, now_ms = detail.scrollable_content_region.width, snapshot.taken_ms
        layout = jobs.choose_property_layout(job.facts, width)
        life_line = timeline.format_job_timeline(job, width, now_ms)
        text_pane.show_text(
            Content("\n").join(
                [
                    *([jobs.format_missing_job(in_replay=self.session.is_replay)] if is_missing else []),
                    jobs.format_job_properties(job, now_ms, self.system_of_queue.known_fields, layout=layout),
                    *(
                        [jobs.format_job_facts(job.facts, now_ms, max_lines=MAX_FACT_LINES, layout=layout)]
                        if job.facts
                        else []
                    ),
                    *([Content(), life_line] if life_line else []),
                    Content.assemble("\n", ("body", "b $strong"), (f"  {encoding}", "$muted")),
                    body,
                ]
            )
        )

    def build_target(self) -> Target:
        """Return the marked jobs, the job under the cursor, or the whole place as the target of a verb.

        While the cursor is on a finding, the target is the queue: the job under the cursor of a pane is not meant then.
        """
        if self.find_selected_finding() is not None:
            return Target(self.ref, queue=self._queue)
        pane = self.find_current_pane()
        expression = pane.expression if pane.is_whole_place else ""
        is_whole = pane.is_whole_place and not expression
        selected_jobs = () if is_whole else pane.list_selected_jobs()
        state = pane.place.state
        scanned_jobs = (
            pane.scan_result.scanned
            if expression and pane.scan_result is not None and pane.scan_result.is_partial
            else 0
        )
        return Target(
            self.ref,
            pane.place.name,
            selected_jobs,
            is_whole,
            self._queue,
            state,
            filter=expression,
            scanned_jobs=scanned_jobs,
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the header's second line: the queue's throughput, and on wide screens the counts per place."""
        if self._queue is None:
            return super().build_second_line(width)
        fit_name = elision.create_name_fitter(safe(ref.queue) for ref in self.session.refs)
        format_line = (
            frame.format_queue_line if self.size.width >= board_layout.SIDE_BY_SIDE_FROM else frame.format_board_line
        )
        return format_line(self._queue, self._rate, width, self.session.find_foreign_system_name(self.ref), fit_name)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the panes of the board while the connection is lost, or restore them."""
        for pane in self.list_panes():
            pane.dimmed = is_dim
        self.query_one("#detail").set_class(is_dim, "-dimmed")

    def prepare_for_verb(self) -> None:
        """Keep the cursor of the current pane on the job on which the verb's key was pressed."""
        self.find_current_pane().keep_cursor_on_row()

    def handle_acted_jobs(self, ids: Collection[bytes]) -> None:
        """Unmark the jobs that a verb changed, and scan the place again if the whole filtered place was marked."""
        pane = self.find_current_pane()
        if pane.is_whole_place and pane.scan_result is not None and ids:
            self.recompute()
        pane.is_whole_place = False
        pane.unmark_rows(ids)

    @property
    def filter_text(self) -> str:
        """Ignore the filter text that the base class assigns: `apply_filter` has set the filter of the pane."""
        return self.find_current_pane().expression

    @filter_text.setter
    def filter_text(self, expression: str) -> None:
        """Ignore the value: `apply_filter` has already set the filter of the pane."""

    # -- the filter line ----------------------------------------------------------------------------------------------

    def preview_filter(self, expression: str) -> None:
        """Apply a filter to the loaded jobs of the current place while the filter is typed."""
        pane = self.find_current_pane()
        system = self.session.systems[pane.ref.system]
        try:
            filters.parse_filter(expression.strip(), [system])
        except UsageError:
            return  # not complete yet
        if expression.strip() != pane.expression:
            self._stop_scan(pane)
            pane.set_filter(expression.strip(), system)
            self.redraw_pane(pane)

    def apply_filter(self, expression: str) -> None:
        """Apply a filter to the current place; a long place is scanned for matches."""
        pane = self.find_current_pane()
        system = self.session.systems[pane.ref.system]
        filters.parse_filter(expression, [system])
        self._stop_scan(pane)
        pane.set_filter(expression, system)
        self._last_filter = pane.job_filter or self._last_filter
        self.redraw_pane(pane)
        if pane.is_too_long:
            self.start_scan(pane)
        self.host.request_refresh()
        self.host.show_keys()

    def step_back(self) -> bool:
        """Handle Esc on the board: leave the findings, stop a scan, remove the filter of all places, or show all panes.

        A stopped scan keeps its matches. Returns whether one of these was done.
        """
        if self.leave_findings():
            return True
        pane = self.find_current_pane()
        if pane.place.name in self._scans:
            self._stop_scan(pane, is_stopped_early=True)
            self.update_pane_frames()
            return True
        if pane.expression:
            for other in self._panes:
                if other is not pane and other.expression:
                    self._stop_scan(other)
                    other.set_filter("", self.session.systems[other.ref.system])
                    self.redraw_pane(other)
            self.apply_filter("")
            return True
        if self._is_zoomed:
            self.action_zoom()
            return True
        return False

    def recompute(self) -> None:
        """Repeat the scan of the current place for its filter, if there was a scan."""
        pane = self.find_current_pane()
        if pane.scan_result is not None:
            self._stop_scan(pane)
            pane.scan_result = None
            self.start_scan(pane)

    def action_next_match(self) -> None:
        """Move the cursor to the next loaded job that matches the last filter."""
        pane, last_filter = self.find_current_pane(), self._last_filter
        if last_filter is None:
            self.host.show_toast("n goes to the next job that a filter lets through: / makes one.")
        elif not pane.move_to_next(lambda row: not row.is_gone and pane.is_match(row.id, last_filter)):
            self.host.show_toast("No other job that is loaded here fits the last filter; / searches the whole place.")

    def load_body_paths(self, handle_paths: Callable[[Sequence[str]], None]) -> None:
        """Fetch the job bodies of the page in sight, and pass the paths of the values in them to `handle_paths`."""
        pane = self.find_current_pane()
        ref, place, offset = pane.ref, pane.place.name, pane.page.offset if pane.page else 0
        offset = -1 - offset if pane.place.is_newest_last else offset

        def pass_body_paths(message: CallFinished) -> None:
            page: Page | None = message.result
            if page is not None:
                handle_paths(paths.list_value_paths(paths.decode_body(job.body) for job in page.jobs if job.body))

        self.session.call_engine(
            lambda engine: engine.fetch_page(ref, place, offset, JOBS_READ_FOR_PATHS, place_scan.FILTER_BYTES),
            pass_body_paths,
        )

    # -- scans --------------------------------------------------------------------------------------------------------

    def start_scan(self, pane: Pane) -> None:
        """Start a scan of a pane's whole place for jobs that match its filter."""
        if pane.job_filter is None:
            return
        pane.scan_result, pane.wanted_offset = place_scan.ScanResult(), 0
        pane.expect_similar_list()
        body_bytes = max(pane.count_filter_bytes(), pane.count_body_bytes())
        steps = place_scan.create_scan(pane.ref, pane.place.name, pane.job_filter, body_bytes, pane.count_body_bytes())
        self._scans[pane.place.name] = self.session.run_steps(
            steps, partial(self._handle_scan_step, pane, pane.scan_result)
        )
        self.redraw_pane(pane)

    def _stop_scan(self, pane: Pane, *, is_stopped_early: bool = False) -> None:
        request = self._scans.pop(pane.place.name, None)
        if request is None:
            return
        self.session.stop_steps(request)
        if pane.scan_result is not None:
            pane.scan_result.mark_finished(is_stopped_early=is_stopped_early)

    def _stop_all_scans(self) -> None:
        """Stop the running scans of all places."""
        for request in self._scans.values():
            self.session.stop_steps(request)
        self._scans.clear()

    def _handle_scan_step(self, pane: Pane, matches: place_scan.ScanResult, message: CallFinished) -> None:
        """Handle one step of a place's scan, or its end, and redraw the pane at intervals."""
        if pane.scan_result is not matches or matches.is_finished:
            return  # A newer scan was started, or this one was stopped.
        if not message.is_last:
            matches.add_step(message.result)
        else:
            matches.mark_finished(problem=message.error)
            self._scans.pop(pane.place.name, None)
        now_s = time.monotonic()
        if message.is_last or now_s - self._drawn_s > REDRAW_S:
            self._drawn_s = now_s
            self.redraw_pane(pane)
        if message.is_last:
            self.host.show_keys()
            self.host.request_refresh()  # Refresh the jobs in sight.

    def redraw_pane(self, pane: Pane) -> None:
        """Redraw the pane of a place from the jobs already read."""
        if not self.is_drawn or self._last_snapshot is None:
            return
        if pane.scan_result is not None:
            pane.show_scan_result(self._last_snapshot.taken_ms)
        elif pane.page is not None:
            pane.show_page(pane.page, self._last_snapshot.taken_ms)
        self.update_pane_frames()

    # -- keys -----------------------------------------------------------------------------------------------------

    def count_numbered_items(self) -> int:
        """Return the number of places, which the number keys select."""
        return len(self.system_of_queue.places)

    def action_place(self, number: int) -> None:
        """Go to the pane of the place with this number."""
        list_panes = self.list_panes()
        if number <= len(list_panes):
            self._go_to_pane(list_panes[number - 1])

    def action_pane(self, step: int) -> None:
        """Go to the pane of the next place, or with `step` -1 of the previous one.

        The findings are between the last place and the first.
        """
        findings_bar = self.query_one(Findings)
        stops = [*self.list_panes(), *([findings_bar] if findings_bar.focusable else [])]
        current = findings_bar if findings_bar.has_focus else self.find_current_pane()
        following = stops[(stops.index(current) + step) % len(stops)]
        if isinstance(following, Pane):
            self._go_to_pane(following)
        else:
            self.set_focus(following)

    def find_list(self) -> Pane:
        """Return the pane that gets the focus back from the findings."""
        return self.find_current_pane()

    def on_finding_cursor_moved(self, _event: Findings.Moved) -> None:
        """Show the cursor on another finding, or none after the findings lost the focus."""
        if self.is_drawn and self._queue is not None:
            self._show_findings(self._queue)
            self.update_pane_frames()
            self.host.show_keys()

    def action_page(self, pages: int) -> None:
        """Turn the page of the current place; after the last page of a sample, draw another sample."""
        pane = self.find_current_pane()
        is_never_sampled = pane.place.is_shared or pane.place.is_from_events
        is_sample = pane.page is not None and pane.page.place_total is not None and not is_never_sampled
        if pages > 0 and pane.is_at_end and is_sample and pane.scan_result is None:
            ref, place = pane.ref, pane.place.name
            self.session.call_engine(
                lambda engine: engine.systems[ref.system].draw_next_sample(ref.queue, place),
                self._request_sample_refresh,
            )
            pane.wanted_offset = 0
            pane.expect_similar_list()
        else:
            pane.action_page(pages)

    def _request_sample_refresh(self, _call_result: CallFinished) -> None:
        """Request a refresh after another sample of an unordered place was drawn."""
        self.host.request_refresh()

    def action_zoom(self) -> None:
        """Show the current pane over the whole width, or show the other panes again."""
        self._is_zoomed = not self._is_zoomed
        self._arrange_panes()
        self.call_after_refresh(self.host.request_refresh)

    def action_mark_all(self) -> None:
        """Mark all jobs of the current place, including jobs that are not loaded; with a filter, all of its matches."""
        self.find_current_pane().is_whole_place = not self.find_current_pane().is_whole_place
        self.update_pane_frames()
        self.host.show_keys()

    # -- groups and differences ---------------------------------------------------------------------------------------

    def action_group_jobs(self) -> None:
        """Open the groups of the jobs of the current place, of its matches if it has a filter."""
        from rqtui.tui.screens.groups import Groups

        pane = self.find_current_pane()
        view = Groups(self.ref, pane.place.name, pane.expression)
        self.host.push_view(view)
        self.load_body_paths(view.set_body_paths)

    def action_compare(self) -> None:
        """Open the differences between the marked jobs, the matches of the filter or the place, and the other jobs."""
        from rqtui.tui.screens.differences import Differences

        self.host.push_view(Differences(self.ref, *self._select_compared_jobs()))

    def _select_compared_jobs(self) -> tuple[Selection, Selection]:
        """Return the groups to compare: marked jobs, else matches, against their place; else the place and the others.

        Dead jobs are compared with the done ones if there are any. A place that is the only one of its system is
        compared with itself, which the comparison refuses with a reason.
        """
        pane = self.find_current_pane()
        place = (pane.place.name,)
        marked = tuple(job_id for job_id in pane.marks if isinstance(job_id, bytes))
        if marked and not pane.is_whole_place:
            label = formats.format_quantity(len(marked), "marked job")
            return Selection(place, ids=marked, label=label), Selection(place, label=f"the other jobs of {place[0]}")
        if pane.expression:
            return Selection(place, pane.expression), Selection(place)
        done = [other.name for other in self.system_of_queue.places if other.state is State.DONE]
        has_done = self._queue is not None and self._queue.count_in_state(State.DONE)
        if pane.place.state is State.DEAD and has_done:
            return Selection(place), Selection(tuple(done))
        others = tuple(other.name for other in self.system_of_queue.places if other.name not in place)
        return Selection(place), Selection(others or place, label="the other places" if others else "")

    def filter_place_of_state(self, state: State, expression: str) -> None:
        """Go to the place of a state, the fullest if there are several, and apply a filter there."""
        queue = self._queue or self.session.latest_queues.get(self.ref) or Queue(self.ref.queue, self.ref.system)
        places = [
            (number, place) for number, place in enumerate(self.system_of_queue.places, 1) if place.state is state
        ]
        self.action_place(
            max(
                places,
                key=lambda numbered_place: queue.count_in_place(numbered_place[1].name),
                default=(1, None),
            )[0]
        )
        self.confirm_filter(expression)

    def go_to_place(self, place: str) -> None:
        """Go to the place of this name; a board that is not drawn yet will open on it."""
        if not self.is_drawn:
            self._current = place
            return
        self.action_place([pane.place.name for pane in self.list_panes()].index(place) + 1)

    def is_list_of_queue(self, ref: Ref) -> bool:
        """Return whether the board lists the jobs of the queue `ref`."""
        return ref == self.ref

    def move_to_other_job(self, step: int) -> Job | None:
        """Move the cursor `step` jobs further and return that job, or None after the last loaded job."""
        pane = self.find_current_pane()
        previous_id = pane.cursor_id
        pane.action_move(step)
        job = pane.find_current_job()
        return job if job is not None and job.id != previous_id else None

    def _go_to_named_place(self, name: str) -> None:
        if name != self._current:
            self._go_to_pane(next(pane for pane in self._panes if pane.place.name == name))

    def _go_to_pane(self, pane: Pane) -> None:
        previous = self.find_current_pane()
        self._current, self._is_place_chosen = pane.place.name, True
        self._keep_filter(previous)
        pane.display = True  # A hidden pane cannot have the focus, and a pane that hides passes it to its neighbour.
        self.set_focus(pane)
        self._arrange_panes()
        self.call_after_refresh(self.host.request_refresh)  # The number of visible rows is known only after layout.

    def _keep_filter(self, previous: Pane) -> None:
        """Apply the filter of the previous place to the current one, and say so."""
        pane = self.find_current_pane()
        if pane.expression == previous.expression:
            return
        self.apply_filter(previous.expression)
        if previous.expression:
            text = format_field_value(previous.expression)
            self.host.show_toast(keys.apply_keymap(f"Filtered here too: /{text}. Esc shows all jobs."))

    # -- events ---------------------------------------------------------------------------------------------------

    def on_resize(self, _event: Resize) -> None:
        """Arrange the panes for the new terminal size, side by side or as tabs."""
        self._arrange_panes()
        self.host.request_refresh()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Make the clicked pane the current one."""
        is_still_focused = event.widget is self.focused  # False for a pane that had the focus only for a moment.
        if is_still_focused and isinstance(event.widget, Pane) and event.widget.place.name != self._current:
            previous = self.find_current_pane()
            self._current, self._is_place_chosen = event.widget.place.name, True
            self._keep_filter(previous)
            self._arrange_panes()
            self.host.request_refresh()
        self.host.show_keys()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update the keys, the frames and the job detail after the cursor moved."""
        self.host.show_keys()
        self.update_pane_frames()
        if self.query_one("#detail").display:
            self.host.request_refresh_soon()

    def on_table_title_clicked(self, event: Table.TitleClicked) -> None:
        """Go to the place whose tab in a frame was clicked."""
        number = board_borders.find_clicked_place_number(event.table.title, event.at)
        if number:
            self.action_place(number)

    def on_table_fitted(self, _event: Table.Fitted) -> None:
        """Update the range of visible rows that the frames show."""
        self.update_pane_frames()

    def on_table_marked(self, _event: Table.Marked) -> None:
        """Update the number of marked jobs that the frame shows."""
        self.update_pane_frames()
        self.host.show_keys()

    def on_table_wanted(self, event: Table.Wanted) -> None:
        """Load the part of a place's jobs to which the user scrolled."""
        if isinstance(event.table, Pane):
            event.table.wanted_offset, event.table.wanted_limit = event.offset, event.limit
            self.redraw_pane(event.table) if event.table.scan_result is not None else self.host.request_refresh()

    def on_table_opened(self, event: Table.Opened) -> None:
        """Open the page of the job under the cursor."""
        pane = event.table
        job = pane.find_current_job() if isinstance(pane, Pane) else None
        if job:
            self.host.open_job(self.ref, job)


def _format_tab_piece(piece: Piece) -> Iterator[Content]:
    """Yield the contents of a part of a tab above the panes. The number of a place is a key that can be clicked."""
    key = piece.text.strip()
    if not key.isdecimal() or not piece.text.startswith(" "):
        yield Content.styled(piece.text, f"${piece.style or 'data'}")
        return
    before, _key, after = piece.text.partition(key)
    yield Content(before)
    yield frame.format_key_hint(key, "")
    yield Content(after)
