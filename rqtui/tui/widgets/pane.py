"""Provide the pane of a board that lists the jobs of one place, all of them or those that match a filter.

A short place is filtered at each refresh; a long one shows the result of a scan (`place_scan.ScanResult`). Visible jobs
that the page does not contain are requested one by one in the same round trip: `build_job_requests` builds the
requests, `apply_job_state` receives the results. The pane itself sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rqtui.engine import filters
from rqtui.model import Job, Page, PageSelection, Place, Ref
from rqtui.system_base.system import Replies, Request
from rqtui.text import event_coverage
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import columns
from rqtui.tui.format.jobs import format_unmet_place
from rqtui.tui.format.rows import Column, Id, Row
from rqtui.tui.widgets.place_scan import FILTER_BYTES, ScanResult
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.system_base.system import System

MARGIN_ROWS = 20  # rows loaded beyond the visible ones, so that moving the cursor needs no wait
MAX_LIVE_JOBS = 200  # a place with more jobs is scanned instead of filtered at each refresh
MAX_REQUESTED_JOBS = 60  # most jobs requested one by one in a round trip
_MIN_ROWS = 20


class JobState(NamedTuple):
    """The reply to the request for one job of a pane: the job, or None if it is missing."""

    place: str  # place of the pane
    id: bytes
    job: Job | None


class Pane(Table):
    """The table of the jobs of one place on a board."""

    def __init__(
        self,
        ref: Ref,
        place: Place,
        places: tuple[Place, ...],
        known_fields: frozenset[str],
        empty_text: str,
        configured: tuple[str, ...] = (),
        ascii_only: bool = False,
    ) -> None:
        """Create the pane of a place. `places` are all places of its system, `configured` the configured columns."""
        self._choice = columns.ColumnChoice()
        self._configured = configured
        self.known_fields = known_fields
        self._id_cells = columns.LONG_ID_CELLS
        self._is_short = False
        self.place, self.places = place, places
        super().__init__(self._build_columns(), empty=empty_text, id=f"pane-{place.name}", ascii_only=ascii_only)
        self.ref = ref
        self.empty_text = empty_text
        self.is_queue_gone = False
        self.wanted_offset = 0
        self.wanted_limit = 0
        self.is_whole_place = False
        self.jobs: dict[bytes, Job] = {}
        self.page: Page | None = None
        self.expression = ""
        self.job_filter: filters.Filter | None = None
        self.scan_result: ScanResult | None = None
        self.left_places: dict[bytes, str] = {}  # new places of marked jobs that left ("": missing)
        self._cached_requests: tuple[tuple[bytes, ...], tuple[Request[JobState], ...]] = ((), ())
        self._refresh_count = 0  # counts refreshes, to choose the next marked jobs to request

    # -- columns ------------------------------------------------------------------------------------------------------

    def _list_column_names(self) -> tuple[str, ...]:
        return columns.choose_column_names(self.place.state, self._choice.filled, self._configured, self.known_fields)

    def _build_columns(self) -> tuple[Column, ...]:
        are_configured = bool(self._configured)
        state, is_timed = self.place.state, self.place.score.startswith("due")
        names, cells, choice = self._list_column_names(), self._id_cells, self._choice
        pane_columns = columns.build_columns(
            state, names, cells, choice, are_configured=are_configured, is_timed=is_timed
        )
        return columns.adapt_columns_to_side_pane(pane_columns) if self._is_short else pane_columns

    def set_id_width(self, id_cells: int, *, is_short: bool) -> None:
        """Set the width of ids for the next page. A short pane shows only the job and its time, without header."""
        if (id_cells, is_short) != (self._id_cells, self._is_short):
            self._id_cells, self._is_short = id_cells, is_short
            self.show_header = not is_short
            self.set_columns(self._build_columns())
            self.update_scrollbar()

    def _choose_columns(self, jobs: Sequence[Job], now_ms: int) -> None:
        """Choose the columns that distinguish these jobs, and keep the previous choice while it still does."""
        self._choice = columns.choose_job_columns(self._choice, jobs, now_ms)
        if (pane_columns := self._build_columns()) != self.painter.columns:
            self.set_columns(pane_columns)

    @property
    def shared_values(self) -> tuple[tuple[str, str], ...]:
        """The (name, value) pairs that all loaded jobs of the pane share and no row shows; the frame shows them."""
        return self._choice.common_values

    # -- requests ---------------------------------------------------------------------------------------------

    def build_page_selection(self) -> PageSelection | None:
        """Return the page of jobs that the pane needs now, or None while it shows the result of a scan."""
        if self.scan_result is not None:
            return None
        limit = max(self.wanted_limit, max(_MIN_ROWS, self.size.height) + 2 * MARGIN_ROWS)
        if self.job_filter is None:
            offset, body_bytes = self.wanted_offset, self.count_body_bytes()
        else:
            offset, limit = 0, MAX_LIVE_JOBS
            body_bytes = max(self.count_body_bytes(), self.count_filter_bytes())
        if self.place.is_newest_last and self.page is not None:
            limit = min(limit, self.page.total + MARGIN_ROWS)  # a longer page from the end reads the first jobs twice
        return PageSelection(self.ref, self.place.name, offset, limit, body_bytes, self.place.is_newest_last)

    def count_body_bytes(self) -> int:
        """Return how many bytes of each job's body the columns of the pane need."""
        return columns.count_needed_body_bytes(self._list_column_names())

    def count_filter_bytes(self) -> int:
        """Return how many bytes of each job's body the filter of the pane reads."""
        return FILTER_BYTES if self.job_filter is not None and self.job_filter.needs_job_bodies else 0

    def build_job_requests(self, system: System) -> tuple[Request[JobState], ...]:
        """Build the requests for visible jobs of a scan and for marked jobs outside the page of the pane."""
        ids = (*self._list_visible_result_ids(), *self._list_next_marked_ids())
        if ids != self._cached_requests[0]:
            self._cached_requests = ids, tuple(self._build_job_request(system, job_id) for job_id in ids)
        return self._cached_requests[1]

    def _list_visible_result_ids(self) -> tuple[bytes, ...]:
        if self.scan_result is None:
            return ()
        first, last = self.visible_range
        return tuple(self.scan_result.ids[first : min(last, first + MAX_REQUESTED_JOBS)])

    def _list_next_marked_ids(self) -> tuple[bytes, ...]:
        """Return some of the marked jobs that are not loaded. Each refresh returns the next ones."""
        is_complete = self.page is not None and self.page.next is None and not self.page.offset and not self.has_more
        if self.is_whole_place or (is_complete and self.scan_result is None):
            return ()
        shown_ids = set(self._list_visible_result_ids()) if self.scan_result is not None else self._list_page_ids()
        missing_ids = [job_id for job_id in self.marks if isinstance(job_id, bytes) and job_id not in shown_ids]
        start = self._refresh_count * MAX_REQUESTED_JOBS % len(missing_ids) if missing_ids else 0
        return tuple(islice((*missing_ids[start:], *missing_ids[:start]), min(MAX_REQUESTED_JOBS, len(missing_ids))))

    def _build_job_request(self, system: System, job_id: bytes) -> Request[JobState]:
        request = system.job_request(self.ref.queue, job_id, self.count_body_bytes())

        def parse_job_state(replies: Replies) -> JobState:
            return JobState(self.place.name, job_id, request.parse(replies))

        return Request(request.calls, parse_job_state)

    def _list_page_ids(self) -> set[bytes]:
        return {job.id for job in self.page.jobs} if self.page else set()

    # -- drawing ------------------------------------------------------------------------------------------------

    def show_page(self, page: Page, now_ms: int, leaving: Mapping[Id, str] | None = None) -> None:
        """Show a page of the place's jobs.

        `leaving` has jobs of the previous page with their new places, which are shown for one more refresh.
        """
        self.page = page
        now_ms = page.record.taken_ms if page.record is not None else now_ms  # ages of recorded jobs are those of then
        for job in page.jobs:
            self.left_places.pop(job.id, None)
        accepts = self.job_filter
        jobs = page.jobs if accepts is None else tuple(job for job in page.jobs if accepts(job))
        total = page.total if accepts is None else len(jobs)
        self._choose_columns(jobs or page.jobs, now_ms)
        leaving_rows = self._build_leaving_rows(leaving or {}, now_ms)
        self._cache_shown_jobs(jobs)
        self.empty = page.error or self._explain_empty_pane(now_ms)
        rows = self._build_job_rows(jobs, now_ms, {})
        all_rows = _insert_leaving_rows(rows, leaving_rows, self.rows)
        self.skips_missing_rows = True
        self.update(all_rows, total + len(all_rows) - len(rows), page.offset)

    def show_scan_result(self, now_ms: int) -> None:
        """Show the visible part of the jobs that a scan found."""
        if self.scan_result is None:
            return
        offset = min(self.wanted_offset, max(0, len(self.scan_result.ids) - 1))
        limit = max(self.wanted_limit, max(_MIN_ROWS, self.size.height) + 2 * MARGIN_ROWS)
        jobs = self.scan_result.slice_jobs(offset, limit)
        self._cache_shown_jobs(jobs)
        self.empty = self._explain_empty_pane(now_ms)
        self._choose_columns(jobs, now_ms)
        self.skips_missing_rows = False  # a scanned job stays in its line
        self.update(self._build_job_rows(jobs, now_ms, self.scan_result.left_places), len(self.scan_result.ids), offset)

    def apply_job_state(self, state: JobState) -> None:
        """Update a job of the pane with the reply to its request."""
        if self.scan_result is not None:
            self.scan_result.update_job(state.id, self.place.name, state.job)
        if state.job is not None and state.job.place == self.place.name:
            self.left_places.pop(state.id, None)
        elif state.id in self.marks:
            self.left_places[state.id] = state.job.place if state.job is not None else ""

    def advance_marks(self) -> None:
        """Advance to the next marked jobs that are requested, after each snapshot."""
        self._refresh_count += 1

    def _cache_shown_jobs(self, jobs: Sequence[Job]) -> None:
        """Cache the jobs of the shown page.

        Jobs of earlier pages stay cached while they are marked or under the cursor.
        """
        kept_ids = {*self.marks, self.cursor_id}
        self.jobs = {job_id: job for job_id, job in self.jobs.items() if job_id in kept_ids}
        self.jobs.update((job.id, job) for job in jobs)

    def _build_job_rows(self, jobs: Sequence[Job], now_ms: int, new_places: Mapping[bytes, str]) -> list[Row]:
        names, choice = self._list_column_names(), self._choice
        return [
            columns.build_job_row(job, now_ms, self._id_cells, names, choice, new_places.get(job.id)) for job in jobs
        ]

    def _build_leaving_rows(self, leaving: Mapping[Id, str], now_ms: int) -> dict[Id, Row]:
        jobs = {job_id: self.jobs[job_id] for job_id in leaving if isinstance(job_id, bytes) and job_id in self.jobs}
        names, choice = self._list_column_names(), self._choice
        return {
            job_id: columns.build_job_row(job, now_ms, self._id_cells, names, choice, leaving[job_id])
            for job_id, job in jobs.items()
        }

    def _explain_empty_pane(self, now_ms: int) -> str:
        if self.page is not None and self.page.coverage is not None and not self.expression:
            return safe(event_coverage.describe_empty_event_place(self.page.coverage, now_ms))
        if self.is_queue_gone:
            queue = safe(self.ref.queue)
            back = keys.find_current_key("back")
            return f"{queue} no longer exists: Redis has none of its keys. {back} goes back; new jobs appear here"
        if not self.expression:
            is_sampled = self.place.is_key_per_job and self.page is not None and not self.page.is_exact
            return format_unmet_place(self.place) if is_sampled else self.empty_text
        filter_text = format_field_value(self.expression)
        if self.scan_result is not None and not self.scan_result.is_finished:
            return f"no job matches {filter_text} so far"
        return f"no job matches {filter_text}: {keys.apply_keymap('/ changes it, Esc shows all')}"

    # -- the filter ---------------------------------------------------------------------------------------------------

    def set_filter(self, expression: str, system: System) -> None:
        """Set the filter of the pane. Raises UsageError for an invalid expression, and changes nothing then."""
        accepts = filters.parse_filter(expression, [system]) if expression else None
        position = self._find_cursor_position()
        self.expression, self.job_filter, self.scan_result, self.is_whole_place = expression, accepts, None, False
        self.tints_arrivals = not expression
        self.wanted_offset, self.wanted_limit = max(0, position - self.size.height), 0
        self._choice = columns.ColumnChoice()
        self.expect_similar_list(0 if expression else position)

    def _find_cursor_position(self) -> int:
        """Return the position of the cursor's job in the whole place; 0 if it is unknown."""
        if self.scan_result is not None and isinstance(self.cursor_id, bytes):
            return self.scan_result.positions.get(self.cursor_id, 0)
        ids = [job.id for job in self.page.jobs] if self.page else []
        if self.page is not None and self.cursor_id in ids:
            return self.page.offset + ids.index(self.cursor_id)
        return 0

    @property
    def has_more(self) -> bool:
        """Whether a shared place may contain more jobs of this queue behind those that can be listed."""
        page, is_shared_list = self.page, self.place.is_shared and not self.place.is_from_events
        return is_shared_list and page is not None and page.place_total is not None

    @property
    def is_too_long(self) -> bool:
        """Whether the place has too many jobs to filter all of them at each refresh, so that a filter needs a scan."""
        page = self.page
        is_long = page is not None and (page.total > MAX_LIVE_JOBS or self.has_more)
        return self.job_filter is not None and self.scan_result is None and is_long

    def is_match(self, job_id: Id, job_filter: filters.Filter) -> bool:
        """Return whether a loaded job matches a filter.

        A job that is shown under the pane's own filter matches it, even if its body is not loaded.
        """
        job = self.jobs.get(job_id) if isinstance(job_id, bytes) else None
        return job is not None and (self.job_filter is job_filter or job_filter(job))

    def count_matches(self) -> int:
        """Return the number of jobs of the place that match the pane's filter."""
        if self.scan_result is not None:
            return len(self.scan_result.ids)
        return sum(1 for job in self.page.jobs if self.job_filter is None or self.job_filter(job)) if self.page else 0

    # -- selected jobs -----------------------------------------------------------------------------------------------

    def action_unmark_all(self) -> None:
        """Clear all marks of jobs and the selection of the whole place."""
        self.is_whole_place = False
        self.left_places.clear()
        super().action_unmark_all()

    def find_current_job(self) -> Job | None:
        """Return the job under the cursor of the pane, or None."""
        return self.jobs.get(self.cursor_id) if isinstance(self.cursor_id, bytes) else None

    def is_still_in_place(self, job_id: object) -> bool:
        """Return whether a job is still in the place of the pane, according to the last refresh."""
        if job_id in self.left_places or (self.scan_result is not None and job_id in self.scan_result.left_places):
            return False
        page = self.page
        if self.scan_result is not None or page is None:
            return True
        return self.has_more or page.total > len(page.jobs) or any(job.id == job_id for job in page.jobs)

    def list_selected_jobs(self) -> tuple[Job, ...]:
        """Return all matching jobs if the whole place is selected, else the marked jobs or the one under the cursor."""
        if self.is_whole_place and self.job_filter is not None:
            return self.scan_result.list_present_jobs() if self.scan_result is not None else self._list_live_matches()
        marked = tuple(self.jobs[job_id] for job_id in self.marks if isinstance(job_id, bytes) and job_id in self.jobs)
        current_job = self.find_current_job()
        return marked or ((current_job,) if current_job and not self.is_cursor_row_missing else ())

    def _list_live_matches(self) -> tuple[Job, ...]:
        """Return the jobs of the loaded page that match the pane's filter."""
        accepts = self.job_filter
        return tuple(job for job in self.page.jobs if accepts is None or accepts(job)) if self.page else ()


def _insert_leaving_rows(
    rows: Sequence[Row], leaving_rows: Mapping[Id, Row], previous_rows: Sequence[Row]
) -> list[Row]:
    """Insert the rows of jobs that just left the list, each behind the row that was above it."""
    if not leaving_rows:
        return list(rows)
    present = {row.id for row in rows}
    rows_behind: dict[Id | None, list[Row]] = {}
    previous_id: Id | None = None
    for row in previous_rows:
        if row.id in present:
            previous_id = row.id
        elif row.id in leaving_rows:
            rows_behind.setdefault(previous_id, []).append(leaving_rows[row.id])
    merged = list(rows_behind.get(None, ()))
    for row in rows:
        merged += [row, *rows_behind.get(row.id, ())]
    return merged
