"""Show a table of all queues or queue groups, and panes for recent activity and the queue under the cursor.

On a large terminal the table takes only the lines that it needs. The rest shows the queue under the cursor: its last
hour, the reasons of its verdict, and the errors of its dead jobs.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Queue, Rate, RecentActivity, Ref, Snapshot, State, Worker
from rqtui.text import elision, formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import groups, queues, recent
from rqtui.tui.format.groups import QueueGroup
from rqtui.tui.format.rows import Id, LazyCells, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.findings import FindingsPane
from rqtui.tui.widgets.lines_pane import LinesPane
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from textual.timer import Timer

    from rqtui.engine.filters import Term
    from rqtui.engine.ticker import CallFinished
    from rqtui.reports.other_databases import OtherDatabase
    from rqtui.system_base.system import Request
    from rqtui.tui.screens.queue_plot import MinuteCounters
    from rqtui.tui.widgets.queue_preview import DeathCauses, QueueDetails
    from rqtui.verbs import Verb

# With up to 100 queues each refresh counts all of them. With more, it counts those in sight, and some others in turn.
MAX_COUNTED_AT_ONCE = 100
SHOW_AGE_FROM_MS = 60_000  # from this age on, the frame shows the age of counts of queues out of sight
MAX_CACHED_ROWS = 1000  # rows that are cached
COUNTED_IN_TURN = 50  # of 1 000 queues each is counted within 40 s, for 0.5 % of a core
RECENT_FROM_ROWS = 30  # terminal rows from which on the recent activity is shown
MIN_RECENT_LINES = 5  # minimum lines of recent activity
MAX_PREVIEW_QUEUES = 20  # queues whose preview data is cached
PREVIEW_WAIT_S = 0.3  # how long the preview of another row waits for the counters of its last hour
PREVIEW_STEP_MS = 5_000  # the preview of a queue at rest is as old as this at most
INDENT = 2  # cells per level of groups
EMPTY = "no queues yet: N enqueues a job, or point rqtui at another Redis"
NO_MATCH = "no queue matches: / changes the filter; in it, Enter searches the jobs of all queues, Esc clears it"


class Overview(View):
    """The first view: all queues of this Redis, one per row or grouped by the beginning of their names."""

    NAME = "overview"
    DETAILS = "#below"
    BINDINGS: ClassVar[list[BindingType]] = list(keys.build_tab_bindings("overview"))
    IS_FIRST = True
    CAN_CREATE_QUEUES = True
    SORTS = queues.SORTS
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "queue": "name",
        "ready": "ready",
        "dead": "dead",
        "oldest": "oldest",
        "rate": "out",
        "spark": "out",
        "verdict": "worst first",
    }
    FILTER_HINT = "part of a name, a system or a state; /re/ !term; no match: Enter searches all jobs"
    DEFAULT_CSS = """
    Overview #unspoken { height: auto; max-height: 4; padding: 0 2; color: $muted; display: none; }
    Overview #unspoken.-dimmed { text-opacity: 60%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort = queues.SORTS[0]
        self._terms: tuple[Term, ...] = ()  # terms of the current filter
        self._levels = 0  # levels of groups; 0: no groups
        self._unfolded: set[str] = set()
        self._shared_prefix = ""  # the common beginning of all names, if they are long
        self._has_long_names = False
        # The queues and ambiguous names for which `_shared_prefix` was computed.
        self._named_refs: tuple[list[Ref], frozenset[str]] = ([], frozenset())
        self._pruned_refs: list[Ref] = []  # the session's queues when missing ones were last removed
        self._has_shared = False  # whether a system has places shared by all of its queues
        self._layout_inputs: tuple[object, ...] = ()  # the inputs from which the columns were chosen
        self._drawn_items: dict[str, Ref | QueueGroup] | None = None  # the rows in the table
        self._cells = self._build_cells  # one bound method, shared by all rows
        self._counted_queues: dict[Ref, Queue] = {}
        self._row_signs: dict[Ref, queues.RowSigns] = {}
        self._rates: dict[Ref, Rate] = {}
        self._active_refs: set[Ref] = set()  # queues with a rate above zero
        self._total_rate = Rate()  # the total, summed once per snapshot because the header is drawn each second
        self._match_count = 0  # number of queues that match the filter
        self._prefixes: dict[str, str] = {}  # prefix of the enclosing group, by row id
        self._depths: dict[str, int] = {}
        self._labels: frozenset[str] = frozenset()
        self._longest_label = 0  # cells of the longest label, with its indent
        self._longest_verdict = 0  # cells of the longest verdict so far; only grows, so that the columns rarely change
        self._sort_keys: dict[Ref, tuple[object, ...]] = {}
        self._ordered_refs: list[Ref] | None = None  # the session's queues that have sort keys, if all are listed
        self._items_by_id: dict[str, Ref | QueueGroup] = {}
        self._cached_rows: dict[str, tuple[object, Row]] = {}
        self._table_rows: dict[str, Row] = {}  # the rows of single queues in the table
        self._frozen_queues: dict[Ref, Queue] = {}  # the queues when the rows were frozen
        self._frozen_s = 0.0
        self._next_position = 0
        self._overview_shape = queues.OverviewShape()
        self._recent_text = Content()
        self._is_preview_ready = False  # The first paint does not wait for the modules of the preview.
        self._preview_timer: Timer | None = None  # runs while the preview waits for the counters of its queue
        # The inputs from which `_preview_lines` were built: details, width, height, and the cursor on the findings.
        self._preview_inputs: tuple[QueueDetails, int, int, int | None] | None = None
        self._preview_lines: list[Content] = []
        self._now_ms = 0
        self._workers: dict[Ref, tuple[Worker, ...]] = {}
        self._requests: dict[tuple[Ref, str], Request[Any]] = {}
        self._other_databases: list[OtherDatabase] = []  # databases of the server that have queues, too
        self._has_searched_databases = False

    def compose_view(self) -> ComposeResult:
        """Create the table of queues, the preview and the recent activity."""
        yield Table(
            queues.build_overview_columns(self._overview_shape),
            empty=keys.apply_keymap(EMPTY),
            id="queues",
            has_marks=False,
        )
        yield Static("", id="unspoken", markup=False)
        with Horizontal(id="below"):
            yield FindingsPane(self._build_preview_lines, self._find_finding_in_preview, id="preview")
            with Vertical(id="aside"):
                yield LinesPane(self._build_cause_lines, id="causes")
                with Static("", id="happened", classes="pane") as pane:
                    pane.border_title = Content(" what happened ")

    def on_mount(self) -> None:
        """Focus the table of queues, and schedule the connection to Redis."""
        self._update_frame()
        self._choose_columns()
        self._table.focus()
        self.call_next(self.host.schedule_connection)

    @property
    def _table(self) -> Table:
        return self.query_one("#queues", Table)

    def on_resize(self, _event: Resize) -> None:
        """Choose the columns and number widths that fit the new terminal size."""
        self._choose_columns()
        self._draw_rows()

    def _choose_columns(self) -> None:
        """Choose the columns for the terminal's width and the names of the queues.

        Does nothing if these are unchanged.
        """
        width, height = self.app.size
        refs, labels, longest = self.session.refs, self._labels, self._longest_label
        inputs = (width, height, refs, labels, longest, self._longest_verdict)
        if len(inputs) == len(self._layout_inputs) and all(map(operator.is_, inputs, self._layout_inputs)):
            return
        self._layout_inputs = inputs
        new_shape = queues.choose_overview_shape(
            width, self.session.refs, self._labels, self._longest_label, self._longest_verdict
        )
        if new_shape != self._overview_shape:
            self._overview_shape = new_shape
            self._table.set_columns(queues.build_overview_columns(new_shape))
            self._cached_rows.clear()
            self._table_rows.clear()
            self._drawn_items = None
        self._fit_table()

    def _fit_table(self) -> None:
        """Set the height of the table. A tall terminal that has no preview shows the recent activity instead."""
        number = len(self._items_by_id if self._terms or self._levels else self.session.refs)
        self.fit_table_height(self._table, number + (2 if self._table.foot else 0))
        is_recent = not self.has_preview and self.app.size.height >= RECENT_FROM_ROWS
        below = self.query_one("#below")
        if is_recent != below.has_class("-recent"):
            below.set_class(is_recent, "-recent")
        below.display = is_recent or self.has_preview

    def count_note_rows(self) -> int:
        """Return the number of rows of the notice below the queues."""
        notice = self.query_one("#unspoken", Static)
        return max(1, notice.size.height) if notice.display else 0

    # -- the next refresh ---------------------------------------------------------------------------------------------

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Return the queues to count at a refresh.

        These are all queues while they are few, else the rows in sight and some of the others in turn.
        """
        requests = self._build_preview_requests()
        if len(refs) <= MAX_COUNTED_AT_ONCE:
            return Focus(tuple(refs), requests=requests)
        listed = set(refs)
        first, last = self._table.visible_range
        rows = [
            self._items_by_id[str(row.id)] for row in self._table.rows[first:last] if str(row.id) in self._items_by_id
        ]
        visible_refs = [
            ref for row in rows for ref in (row.refs if isinstance(row, QueueGroup) else (row,)) if ref in listed
        ]
        turn_refs = [refs[(self._next_position + step) % len(refs)] for step in range(COUNTED_IN_TURN)]
        return Focus(tuple(dict.fromkeys([*visible_refs[:MAX_COUNTED_AT_ONCE], *turn_refs])), requests=requests)

    def _build_preview_requests(self) -> dict[str, tuple[Request[Any], ...]]:
        """Return the requests that the preview of the row under the cursor needs.

        For a queue: its counters per minute, its workers and, when more jobs have died, a sample of its dead jobs. For
        a group only the dead jobs, one queue per refresh.
        """
        selected = self._find_selected_row() if self.has_preview and self._is_preview_ready else None
        if isinstance(selected, QueueGroup):
            samples = (self._build_dead_sample_requests(ref) for ref in self._sort_unsampled_first(selected))
            return next(filter(None, samples), {})
        queue_ref = selected
        system = self.session.systems.get(queue_ref.system) if queue_ref else None
        if queue_ref is None or system is None:
            return {}
        requests = self._counters.build_requests(queue_ref)
        queue = self._counted_queues.get(queue_ref)
        if queue and queue.workers:
            requests["workers"] = (
                self._find_or_create_request(queue_ref, "workers", lambda: system.workers_request(queue_ref.queue)),
            )
        return requests | self._build_dead_sample_requests(queue_ref)

    @cached_property
    def _counters(self) -> MinuteCounters:
        from rqtui.tui.screens.queue_plot import MinuteCounters  # late, so that the first paint does not wait for it

        return MinuteCounters(self.session)

    def _find_or_create_request(self, ref: Ref, name: str, create_request: Callable[[], Request[Any]]) -> Request[Any]:
        """Return the cached request of this name for a queue, so that an unchanged focus contains the same object."""
        if (ref, name) not in self._requests:
            while len(self._requests) >= 3 * MAX_PREVIEW_QUEUES:
                del self._requests[next(iter(self._requests))]
            self._requests[ref, name] = create_request()
        return self._requests[ref, name]

    def _sort_unsampled_first(self, group: QueueGroup) -> list[Ref]:
        """Return the queues of a group whose dead jobs are sampled, those without a sample first."""
        return sorted(self._find_queues_with_dead_jobs(group), key=lambda ref: ref in self.session.death_causes)

    def _find_queues_with_dead_jobs(self, group: QueueGroup) -> list[Ref]:
        """Return the queues of a group with the most dead jobs, at most half of the cache size."""
        dead = {ref: self._counted_queues[ref].count_failed() for ref in group.refs if ref in self._counted_queues}
        return sorted((ref for ref in dead if dead[ref]), key=lambda ref: -dead[ref])[: MAX_PREVIEW_QUEUES // 2]

    def _build_dead_sample_requests(self, ref: Ref) -> dict[str, tuple[Request[Any], ...]]:
        """Return the request that samples a queue's dead jobs, unless their causes are known or not shown.

        What is known is outdated if the number of dead jobs has changed by more than 2 % since.
        """
        from rqtui.engine.dead_sample import build_dead_sample_request, is_outdated

        queue, system = self._counted_queues.get(ref), self.session.systems.get(ref.system)
        if queue is None or system is None or not self.is_large:
            return {}
        dead, cached_causes = queue.count_failed(), self.session.death_causes.get(ref)
        if not dead or (cached_causes is not None and not is_outdated(cached_causes.dead, dead)):
            return {}
        request = self._find_or_create_request(ref, f"dead {dead}", lambda: build_dead_sample_request(system, queue))
        return {"dead": (request,)}

    def _cache_preview_data(self, snapshot: Snapshot) -> None:
        """Cache what a snapshot contains for the preview of queues: histories, workers and causes of death."""
        self._now_ms = snapshot.taken_ms
        if not self.has_preview or not self._is_preview_ready:
            return
        self._counters.add_snapshot(snapshot)
        self._cache_workers(snapshot)
        self._cache_causes(snapshot)
        while len(self._workers) > MAX_PREVIEW_QUEUES:
            del self._workers[next(iter(self._workers))]

    def _cache_workers(self, snapshot: Snapshot) -> None:
        """Cache the workers of the queues for which the last refresh requested them."""
        worker_requests = self.session.last_focus.requests.get("workers", ())
        for request, workers in zip(worker_requests, snapshot.results.get("workers", ()), strict=False):
            ref = next(
                (ref for (ref, _name), known_request in self._requests.items() if known_request is request), None
            )
            if ref is not None and isinstance(workers, tuple):
                self._workers[ref] = workers

    def _cache_causes(self, snapshot: Snapshot) -> None:
        """Store the causes of death found in a sample of dead jobs, for this and other views of the session."""
        from rqtui.engine.dead_sample import DeadSample
        from rqtui.tui.widgets import queue_preview

        for sample in snapshot.results.get("dead", ()):
            if isinstance(sample, DeadSample):
                causes = queue_preview.group_causes_of_death(sample, snapshot.taken_ms)
                self.session.death_causes[sample.ref] = causes

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the latest counts of every queue in the current sort order."""
        self._search_other_databases()
        self._choose_columns()
        self._cache_preview_data(snapshot)
        refs = self.session.refs
        counted = snapshot.map_queues_by_ref()
        self._counted_queues.update(counted)
        self._row_signs.update((ref, queues.find_row_signs(queue)) for ref, queue in counted.items())
        self._rates.update(snapshot.rates)
        if refs is not self._pruned_refs or len(self._counted_queues) > len(refs):
            listed = set(refs)
            for cache in (self._counted_queues, self._row_signs, self._rates):
                for ref in cache.keys() - listed:
                    del cache[ref]
            self._pruned_refs = refs
            if self.session.is_replay:
                self._table.expect_similar_list()  # A queue of another moment must not stay under the cursor.
                self._drawn_items = None
            systems = self.session.systems
            system_names = {ref.system for ref in refs} & systems.keys()
            self._has_shared = any(
                place.is_shared or place.is_from_events for name in system_names for place in systems[name].places
            )
        self._total_rate = self._sum_active_rates(snapshot.rates)
        if not self.is_frozen and self._is_out_of_order(refs, counted):
            self._sort_rows(counted)
        self._longest_verdict = max(self._longest_verdict, queues.measure_longest_verdict(counted.values()))
        self._choose_columns()
        self._draw_rows(counted)
        if not self._is_preview_ready and refs:
            self.call_after_refresh(self._begin_preview)
        if len(refs) > MAX_COUNTED_AT_ONCE:  # the next refresh counts other queues
            self._next_position = (self._next_position + COUNTED_IN_TURN) % len(refs)

    def _begin_preview(self) -> None:
        """Show the preview from now on, because the rows were painted."""
        if not self._is_preview_ready and self.is_drawn:
            self._is_preview_ready = True
            self._show_preview()
            if self.has_preview:
                self.host.request_refresh_soon()

    def _sum_active_rates(self, new_rates: Mapping[Ref, Rate]) -> Rate:
        """Return the sum of the throughput of all queues; idle queues contribute only the length of their history."""
        for ref, rate in new_rates.items():
            if rate.in_s or rate.out_s or rate.recent.failure_share is not None or any(rate.history):
                self._active_refs.add(ref)
            else:
                self._active_refs.discard(ref)
        self._active_refs &= self._rates.keys()
        idle_rate = max((rate for rate in new_rates.values()), key=lambda rate: len(rate.history), default=Rate())
        idle_rate = Rate(
            history=(0.0,) * len(idle_rate.history),
            recent=RecentActivity(idle_rate.recent.duration_ms),
            window_ms=idle_rate.window_ms,
        )
        return groups.sum_queue_rates([*(self._rates[ref] for ref in self._active_refs), idle_rate])

    def rank_by_activity(self, refs: Collection[Ref]) -> list[Ref]:
        """Sort queues by their throughput, then by their number of waiting jobs, highest first."""

        def measure_activity(ref: Ref) -> tuple[float, int]:
            rate, queue = self._rates.get(ref, Rate()), self._counted_queues.get(ref)
            waiting = sum(queue.count_in_state(state) for state in (State.READY, State.SCHEDULED)) if queue else 0
            return rate.in_s + rate.out_s, waiting

        return sorted(refs, key=measure_activity, reverse=True)

    def _is_out_of_order(self, refs: list[Ref], counted: Collection[Ref]) -> bool:
        """Return whether a counted queue may have another position in the sort order now.

        This check saves sorting: sorting a thousand queues takes as long as counting 50.
        """
        is_flat = not self._levels and not self._terms and len(refs) == len(self._sort_keys)
        return not is_flat or any(self._sort_keys.get(ref) != self._compute_sort_key(ref) for ref in counted)

    def _sort_rows(self, counted: Collection[Ref] = ()) -> None:
        """Compute the rows and their order. If `counted` is given, only these queues may have moved.

        Of ten thousand queues some hundred are counted per refresh; the others keep their labels and sort keys.
        """
        if counted and self._ordered_refs is self.session.refs and not self._levels and not self._terms:
            self._move_counted_rows(counted)
            return
        refs = [ref for ref in self.session.refs if self._matches_filter(ref)]
        self._ordered_refs = None if self._levels or self._terms else self.session.refs
        self._sort_keys = {ref: self._compute_sort_key(ref) for ref in refs}
        refs.sort(key=self._sort_keys.__getitem__)
        self._update_shared_prefix(self.session.refs)
        self._match_count = len(refs)
        self._items_by_id, self._prefixes, self._depths = {}, {}, {}
        if self._levels:
            self._add_group_rows(refs, self._shared_prefix, 0)
        else:
            self._items_by_id = {str(ref): ref for ref in refs}
        self._cached_rows = {row_id: row for row_id, row in self._cached_rows.items() if row_id in self._items_by_id}
        self._table_rows = {row_id: row for row_id, row in self._table_rows.items() if row_id in self._items_by_id}
        labels = [self._build_row_label(row_id) for row_id in self._items_by_id]
        self._labels = frozenset(name for _row_signs, _before, name in labels)
        self._longest_label = max((formats.cell_len("".join(label)) for label in labels), default=0)
        self._choose_columns()

    def _move_counted_rows(self, counted: Collection[Ref]) -> None:
        """Sort the listed rows again after only the queues in `counted` have new sort keys."""
        self._sort_keys.update({ref: self._compute_sort_key(ref) for ref in counted if ref in self._sort_keys})
        listed = sorted(self._items_by_id.items(), key=lambda row: self._sort_keys[row[1]])  # type: ignore[index]
        self._items_by_id = dict(listed)

    def _update_shared_prefix(self, refs: list[Ref]) -> None:
        """Compute the common beginning of all queue names, which rows leave out if a name is long."""
        if (refs, self.session.ambiguous_names) != self._named_refs:
            self._named_refs = list(refs), self.session.ambiguous_names
            self._has_long_names = any(formats.cell_len(safe(ref.queue)) > queues.WHOLE_NAME_CELLS for ref in refs)
            self._shared_prefix = (
                elision.find_shared_name_prefix({ref.queue for ref in refs}) if self._has_long_names else ""
            )
            self._cached_rows.clear()
            self._table_rows.clear()

    def _add_group_rows(self, refs: list[Ref], within: str, depth: int) -> None:
        """Add rows for these queues in groups, and below each unfolded group its members."""
        for group in sorted(groups.group_queues(refs, within), key=self._compute_group_sort_key):
            item: Ref | QueueGroup = group
            if not group.prefix:
                [item] = group.refs
            row_id = item.id if isinstance(item, QueueGroup) else str(item)
            self._items_by_id[row_id] = item
            self._prefixes[row_id], self._depths[row_id] = within, depth
            if group.prefix in self._unfolded:
                self._add_group_rows(list(group.refs), group.prefix, depth + 1)

    def _build_row_label(self, row_id: str) -> tuple[str, str, str]:
        """Return a row's label as (indent and fold sign, shared beginning, rest of the name).

        Long names omit the shared beginning. On a narrow terminal, which has no column of systems, the system precedes
        a name that several systems share.
        """
        item = self._items_by_id[row_id]
        within = self._prefixes.get(row_id, self._shared_prefix)
        signs = " " * INDENT * self._depths.get(row_id, 0) + ("  " if self._levels else "")
        if isinstance(item, QueueGroup):
            signs = signs[:-2] + ("▾ " if item.prefix in self._unfolded else "▸ ")
        if (
            isinstance(item, Ref)
            and item.queue in self.session.ambiguous_names
            and self.app.size.width < queues.SYSTEMS_FIT_CELLS
        ):
            return signs, f"{item.system}:", safe(item.queue[len(within) :])  # too narrow for a column of systems
        name = item.prefix if isinstance(item, QueueGroup) else item.queue
        return signs, "" if self._has_long_names else safe(within), safe(name[len(within) :])

    def _matches_filter(self, ref: Ref) -> bool:
        return self._do_terms_match(self._terms, ref)

    def _do_terms_match(self, terms: Sequence[Term], ref: Ref) -> bool:
        """Return whether a queue's name, system or verdict matches every term."""
        if not terms:
            return True
        queue = self._counted_queues.get(ref)
        text = f"{ref.queue} {ref.system} {queue.verdict.text if queue else ''}"
        return all(bool(term.pattern.search(text)) != term.is_negated for term in terms)

    def _compute_sort_key(self, ref: Ref) -> tuple[object, ...]:
        return queues.compute_queue_sort_key(self.sort, ref.queue, self._counted_queues.get(ref), self._rates.get(ref))

    def _compute_group_sort_key(self, group: QueueGroup) -> tuple[object, ...]:
        return queues.compute_queue_sort_key(self.sort, group.prefix or group.refs[0].queue, *self._sum_group(group))

    def _sum_group(self, group: QueueGroup) -> tuple[Queue | None, Rate | None]:
        """Return the combined counts and throughput of a group; a group of one queue has that queue's own."""
        if not group.prefix:
            [ref] = group.refs
            return self._counted_queues.get(ref), self._rates.get(ref)
        counted = [self._counted_queues[ref] for ref in group.refs if ref in self._counted_queues]
        systems = self.session.systems
        sharing = [name for name in {ref.system for ref in group.refs} if systems[name].shares_workers]
        return groups.sum_group_queues(
            group, counted, sharing, self._find_complete_systems(group.refs)
        ), groups.sum_queue_rates([self._rates[ref] for ref in group.refs if ref in self._rates])

    def _find_complete_systems(self, refs: Collection[Ref]) -> set[str]:
        """Return the systems whose queues are all among `refs` and counted."""
        counted = {ref for ref in refs if ref in self._counted_queues}
        left_out = {ref.system for ref in self.session.refs if ref not in counted}
        return {ref.system for ref in counted} - left_out

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_rows(self, counted: Collection[Ref] | None = None) -> None:
        """Draw the rows of the overview. Only the queues in `counted` can have changed; None redraws all rows.

        If the rows and their order are unchanged, only the rows of `counted` are rebuilt.
        """
        self._show_warnings()
        if len(self._cached_rows) > len(self._items_by_id) or len(self._cached_rows) > MAX_CACHED_ROWS:
            visible_ids = self._list_visible_ids()
            self._cached_rows = {row_id: row for row_id, row in self._cached_rows.items() if row_id in visible_ids}
        self._table.foot = queues.format_legend(
            set(self._row_signs.values()), is_complete=len(self._counted_queues) == len(self.session.refs)
        )
        visible_ids = self._list_visible_ids()
        if counted is None:
            self._table_rows.clear()
        changed = {row_id: ref for ref in counted or () if (row_id := str(ref)) in self._items_by_id}
        self._table_rows.update(
            (row_id, self._build_lazy_row(row_id, ref, visible_ids)) for row_id, ref in changed.items()
        )
        if counted is not None and self._items_by_id is self._drawn_items and not self._levels:
            self._table.replace_rows([self._table_rows[row_id] for row_id in changed])
        else:
            self._drawn_items = self._items_by_id
            self._table.update(
                [self._find_or_build_row(row_id, item, visible_ids) for row_id, item in self._items_by_id.items()]
            )
        self._fit_table()
        self._update_frame()
        self.show_recent_activity()
        self._show_preview()

    def update_countdowns(self) -> None:
        """Redraw the rows whose verdict shows how much time is left to act."""
        refs_with_deadline = [ref for ref, queue in self._counted_queues.items() if queue.verdict.until_ms is not None]
        if refs_with_deadline:
            self._draw_rows(refs_with_deadline)

    def _list_visible_ids(self) -> frozenset[str]:
        first, last = self._table.visible_range
        return frozenset(str(row.id) for row in self._table.rows[first:last])

    def _find_or_build_row(self, row_id: str, item: Ref | QueueGroup, visible_ids: Collection[str]) -> Row:
        if isinstance(item, QueueGroup):
            return self._build_cached_row(row_id, item)
        row = self._table_rows.get(row_id)
        if row is None:
            row = self._table_rows[row_id] = self._build_lazy_row(row_id, item, visible_ids)
        return row

    def _build_lazy_row(self, row_id: str, item: Ref | QueueGroup, visible_ids: Collection[str]) -> Row:
        """Build a row of the table; with many queues, rows out of sight are built when they are painted."""
        if len(self._items_by_id) <= MAX_COUNTED_AT_ONCE or isinstance(item, QueueGroup) or row_id in visible_ids:
            return self._build_cached_row(row_id, item)
        self._cached_rows.pop(row_id, None)
        return Row(row_id, LazyCells(self._cells, row_id))

    def _build_cells(self, row_id: Id) -> Sequence[Cell]:
        """Return the cells of a row that scrolled into sight, or none if the row is no longer listed."""
        item = self._items_by_id.get(str(row_id))
        return self._build_cached_row(str(row_id), item).cells if item is not None else ()

    def _build_cached_row(self, row_id: str, item: Ref | QueueGroup) -> Row:
        """Return the row of a queue or group, rebuilt only if the values that it shows changed."""
        indent, prefix, name = self._build_row_label(row_id)
        if isinstance(item, QueueGroup):
            queue, rate = self._sum_group(item)
        else:
            queue, rate = self._counted_queues.get(item), self._rates.get(item)
        label = (Piece(indent), Piece(prefix, "muted"), Piece(name, "strong")) if indent or prefix else name
        now_ms = self.session.now_ms
        shown_values = (
            label,
            (*queues.collect_shown_values(queue, rate), queues.format_time_left(queue, now_ms)),
            self._count_changes_since_freeze(item),
        )
        cached = self._cached_rows.get(row_id)
        if cached is None or cached[0] != shown_values:
            cached = self._cached_rows[row_id] = (
                shown_values,
                queues.build_queue_row(
                    row_id, label, item.system, queue, rate, self._overview_shape, shown_values[2], now_ms
                ),
            )
        return cached[1]

    def _count_changes_since_freeze(self, item: Ref | QueueGroup | None) -> queues.ChangesSince | None:
        """Return the jobs enqueued and finished since the rows were frozen, or None while they are not frozen.

        `item` None means all queues.
        """
        if not self.is_frozen:
            return None
        refs = item.refs if isinstance(item, QueueGroup) else (item,) if item else tuple(self._counted_queues)
        changed = [
            queues.compute_changes(self._frozen_queues[ref], self._counted_queues[ref])
            for ref in refs
            if ref in self._frozen_queues and ref in self._counted_queues
        ]
        return queues.ChangesSince(sum(change.added for change in changed), sum(change.removed for change in changed))

    def _update_frame(self) -> None:
        """Update the table's frame: full name and verdict of the row under the cursor, filter, and age of counts."""
        selected = self._find_selected_row()
        ref = selected if isinstance(selected, Ref) else None
        system = self.session.find_foreign_system_name(ref) if ref and self._overview_shape.is_narrow else ""
        full_name = str(ref) if system else ref.queue if ref and self._has_long_names else ""
        name_pieces = [Piece(f"{safe(full_name)} ", "muted")] if full_name else []
        filter_pieces = [Piece(f"/{self.filter_text} ", "accented")] if self.filter_text else []
        self._table.set_border_title(
            Piece(" queues ", "strong"), *filter_pieces, *([] if self.has_preview else name_pieces)
        )
        queue = (
            self._sum_group(selected if isinstance(selected, QueueGroup) else QueueGroup("", (selected,)))[0]
            if selected
            else None
        )
        frozen_pieces = [Piece(keys.apply_keymap(" frozen: p continues "), "accented")] if self.is_frozen else []
        has_verdict = queue is not None and bool(queue.findings) and not self.has_preview
        verdict_pieces = queues.build_verdict_pieces(queue, self.session.now_ms) if queue and has_verdict else ()
        age_pieces = [
            Piece(f" out of sight: counted within {formats.format_age(self._compute_max_count_age_ms())} ", "muted")
        ]
        is_old = self._compute_max_count_age_ms() > SHOW_AGE_FROM_MS
        self._table.set_subtitle(
            *frozen_pieces,
            *(age_pieces if is_old else []),
            *([Piece(" "), *verdict_pieces, Piece(" ")] if verdict_pieces else []),
        )

    def _compute_max_count_age_ms(self) -> int:
        """Return the maximum age in ms of counts of queues out of sight; 0 if every refresh counts all queues."""
        number = len(self.session.refs)
        return (
            round(1000 * self.session.ticker.wait_s * -(-number // COUNTED_IN_TURN))
            if number > MAX_COUNTED_AT_ONCE
            else 0
        )

    def _show_warnings(self) -> None:
        """Show unsupported systems below the rows, or in place of no rows."""
        engine, notice = self.session.engine, ""
        if engine and engine.unsupported_systems:
            from rqtui.systems.by_sight import describe_unsupported_systems

            notice = describe_unsupported_systems(engine.unsupported_systems)
        if engine and any(system.other_prefixes for system in engine.systems.values()):
            from rqtui.systems.by_sight import describe_other_prefixes

            notice = "\n".join(filter(None, [notice, describe_other_prefixes(engine.systems.values())]))
        if self._has_shared:
            from rqtui.reports.shared_places import describe_unassigned, list_shared_places

            shared_text = describe_unassigned(
                list_shared_places(self._counted_queues.values(), self._find_complete_systems(self._counted_queues))
            )
            notice = "\n".join(filter(None, [notice, shared_text]))
        if self._other_databases:
            from rqtui.reports.other_databases import describe_other_databases

            url = self.session.settings.url
            notice = "\n".join(filter(None, [notice, describe_other_databases(self._other_databases, url)]))
        is_only_notice = bool(notice) and not self.session.refs
        is_filtered = bool(self._terms and self.session.refs)
        self._table.empty = (
            notice if is_only_notice and not is_filtered else keys.apply_keymap(NO_MATCH if is_filtered else EMPTY)
        )
        _show_or_hide_text(self.query_one("#unspoken", Static), "" if is_only_notice else notice)

    def _search_other_databases(self) -> None:
        """Search the other databases of the server for queues, once: this rqtui shows one database."""
        if self._has_searched_databases or self.session.demo or self.session.is_replay:
            return
        from rqtui.reports.other_databases import find_other_databases

        self._has_searched_databases = True
        settings = self.session.settings

        def store_database(step: CallFinished) -> None:
            if step.result is not None and not step.is_last:
                self._other_databases.append(step.result)
                if self.is_drawn:
                    self._show_warnings()

        self.session.run_steps(lambda engine: find_other_databases(engine.client, settings), store_database)

    def show_recent_activity(self) -> None:
        """Show the recent steps of the loops and recent changes of this screen."""
        pane = self.query_one("#happened", Static)
        if not (self.is_large or self.query_one("#below").has_class("-recent")):
            return
        max_lines = max(MIN_RECENT_LINES, pane.content_size.height) if self.is_large else MIN_RECENT_LINES
        text = recent.format_recent_events(
            self.session.list_recent_entries(max_lines),
            pane.content_size.width,
            self.session.ambiguous_names,
            "nothing in the hour before" if self.session.is_replay else recent.NOTHING_HAPPENED,
            rows=max_lines,
        )
        if not text.is_same(self._recent_text):
            self._recent_text = text
            pane.update(text, layout=False)

    # -- the preview --------------------------------------------------------------------------------------------------

    def _show_preview_when_read(self) -> None:
        """Show the preview of the row to which the cursor moved, at once or with the counters of its last hour.

        On a fast link these come within a blink, and a plot that is painted once takes half of the bytes. The preview
        of the previous row keeps its title until then. After `PREVIEW_WAIT_S` the rest is shown without the counters.
        """
        if self._preview_timer is not None:
            self._preview_timer.stop()
            self._preview_timer = None
        selected = self._find_selected_row()
        is_shown = self.has_preview and self._is_preview_ready
        if is_shown and isinstance(selected, Ref) and self._counters.is_awaited(selected):
            self._preview_timer = self.set_timer(PREVIEW_WAIT_S, self._show_preview)
        else:
            self._show_preview()

    def _show_preview(self) -> None:
        """Set the titles of the preview panes of the selected queue, and redraw the panes."""
        if not self.has_preview or not self._is_preview_ready:
            return
        selected = self._find_selected_row()
        name = selected.prefix if isinstance(selected, QueueGroup) else selected.queue if selected else ""
        if isinstance(selected, Ref) and self.session.find_foreign_system_name(selected):
            name = str(selected)
        queue = self._counted_queues.get(selected) if isinstance(selected, Ref) else None
        span_text = formats.format_quantity(len(queue.findings), "finding") if queue and queue.findings else ""
        preview_pane, causes_pane = self.query_one("#preview", FindingsPane), self.query_one("#causes", LinesPane)
        preview_pane.set_findings(selected if isinstance(selected, Ref) else None, queue.findings if queue else ())
        if queue is None or not queue.findings:
            self.leave_findings()
        preview_pane.set_border_title(
            Content.assemble(
                (f" {formats.elide_middle(safe(name), 60)} ", "b $strong"),
                (f"  {span_text} " * bool(span_text), "$muted"),
            )
        )
        from rqtui.tui.widgets import queue_preview

        summary = queue_preview.format_causes_title(self._find_causes_of_death(selected), self._now_ms)
        summary = f"{summary} " if summary else ""
        causes_pane.set_border_title(
            Content.assemble(
                (" errors ", "b $state-dead" if summary else "b $strong"), (f"  {summary}" * bool(summary), "$muted")
            )
        )
        preview_pane.redraw_changes()
        causes_pane.redraw_changes()

    def _find_causes_of_death(self, item: Ref | QueueGroup | None) -> DeathCauses:
        """Return the known causes of death of a row, its number of dead jobs, and how many of them were read."""
        from rqtui.tui.widgets import queue_preview

        cached_causes = self.session.death_causes
        if not isinstance(item, QueueGroup):
            return cached_causes.get(item, queue_preview.DeathCauses()) if item else queue_preview.DeathCauses()
        dead = sum(self._counted_queues[ref].count_failed() for ref in item.refs if ref in self._counted_queues)
        refs = self._find_queues_with_dead_jobs(item)
        return queue_preview.merge_causes_of_death([cached_causes[ref] for ref in refs if ref in cached_causes], dead)

    def _build_preview_lines(self, width: int, height: int) -> list[Content]:
        """Return the lines of the preview of the queue or group under the cursor."""
        selected = self._find_selected_row()
        if not self._is_preview_ready:
            return []
        if selected is None:
            return [Content.styled("the queue under the cursor appears here", "$muted")]
        from rqtui.tui.widgets import queue_preview

        if isinstance(selected, QueueGroup):
            queue, rate = self._sum_group(selected)
            if queue is None:
                return [Content.styled("not counted yet", "$muted")]
            members = [self._counted_queues[ref] for ref in selected.refs if ref in self._counted_queues]
            group_details = queue_preview.QueueDetails(queue, rate or Rate(), self._now_ms)
            return queue_preview.build_group_preview(
                group_details, members, width, height, ascii_only=self.session.settings.is_ascii
            )
        queue = self._counted_queues.get(selected)
        if queue is None:
            return [Content.styled("not counted yet", "$muted")]
        changes = tuple(entry for entry in self.session.changes if entry.ref == selected)
        has_countdown = any(finding.until_ms is not None for finding in queue.findings)
        step_ms = 1 if has_countdown else PREVIEW_STEP_MS
        preview_data = queue_preview.QueueDetails(
            queue._replace(counted_ms=0),
            self._rates.get(selected, Rate()),
            self._now_ms // step_ms * step_ms,
            self._counters.find_history(selected),
            self._workers.get(selected),
            changes,
            self.session.is_replay,
            self._counters.is_awaited(selected),
        )
        inputs = (preview_data, width, height, self.query_one("#preview", FindingsPane).cursor)
        if inputs != self._preview_inputs:  # Of a queue at rest nothing is built again.
            self._preview_inputs = inputs
            self._preview_lines = queue_preview.build_queue_preview(*inputs, ascii_only=self.session.settings.is_ascii)
        return self._preview_lines

    def _find_finding_in_preview(self, y: int) -> Finding | None:
        """Return the finding whose sentence is on line `y` of the preview."""
        from rqtui.tui.widgets import queue_preview

        lines = queue_preview.build_preview_findings(*self._preview_inputs) if self._preview_inputs else []
        return lines[y].finding if y < len(lines) else None

    def _build_cause_lines(self, width: int, height: int) -> list[Content]:
        """Return the lines with the causes of death of the queue or group under the cursor."""
        selected = self._find_selected_row()
        queue = (
            self._sum_group(selected)[0]
            if isinstance(selected, QueueGroup)
            else self._counted_queues.get(selected)
            if selected
            else None
        )
        if queue is None or not queue.count_failed():
            stores_dead_jobs = queue is not None and any(count.state is State.DEAD for count in queue.counts)
            reason = "no job has died" if stores_dead_jobs else "its system stores no dead jobs" if queue else ""
            reason = "not known" if queue and queue.error else reason
            return [Content.styled(reason, "$muted")]
        from rqtui.tui.widgets import queue_preview

        return queue_preview.format_causes_of_death(
            self._find_causes_of_death(selected).causes, self._now_ms, width, height
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return for the header the totals of all queues and the sort order; while frozen, the changes since then."""
        match_count = self._match_count if self.filter_text else None
        totals = frame.format_overview_totals(len(self.session.refs), self._total_rate, match_count)
        short_totals = frame.format_overview_totals(
            len(self.session.refs), self._total_rate, match_count, is_short=True
        )
        changes = self._count_changes_since_freeze(None)
        if changes is None:
            group_hint = frame.format_key_hint(
                keys.find_current_key("group"), f"groups {self._levels}" if self._levels else "groups"
            )
            sort_hint = frame.format_key_hint(keys.find_current_key("sort"), f"sort: {self.sort}")
            hint_variants = [Content("   ").join([group_hint, sort_hint]), sort_hint]
            if self._shared_prefix:
                prefix_hint = Content.styled(f"{safe(self._shared_prefix)} is left out of the names", "$muted")
                hint_variants[:0] = [
                    Content("   ").join([*hints, prefix_hint]) for hints in ([group_hint, sort_hint], [sort_hint], [])
                ]
            candidates = [(totals, hint) for hint in hint_variants]
            candidates += [(short_totals, sort_hint), (short_totals, Content())]
            return frame.choose_first_fitting(candidates, width)
        age = formats.format_age((time.time() - self._frozen_s) * 1000)
        change_text = Content.assemble(
            (f"in {age}  ", "$muted"), (f"+{changes.added} −{changes.removed}", "b $accented")
        )
        return totals, change_text

    def _find_selected_row(self) -> Ref | QueueGroup | None:
        return self._items_by_id.get(str(self._table.cursor_id))

    def select_queue(self, ref: Ref) -> None:
        """Move the cursor to a queue. It stays where it is if the queue is in a folded group or filtered out."""
        self._table.move_to(str(ref))

    def ref(self) -> Ref | None:
        """Return the queue under the cursor, or None on a group."""
        selected = self._find_selected_row()
        return selected if isinstance(selected, Ref) else None

    def allows_verb(self, verb: Verb) -> bool:
        """Return whether a verb applies to queues; the overview lists no jobs."""
        return verb.scope != "job"

    def build_target(self) -> Target:
        """Return the queue under the cursor as the target of a verb."""
        ref = self.ref()
        return Target(ref, queue=self._counted_queues.get(ref) if ref else None)

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queue under the cursor, or the queues of the group under the cursor."""
        selected = self._find_selected_row()
        return selected.refs if isinstance(selected, QueueGroup) else (selected,) if selected else ()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table and the panes of the overview while the connection is lost, or restore them."""
        self._table.dimmed = is_dim
        for selector in ("#happened", "#unspoken", "#preview", "#causes"):
            self.query_one(selector).set_class(is_dim, "-dimmed")

    # -- the filter ---------------------------------------------------------------------------------------------------

    def apply_filter(self, expression: str) -> None:
        """Show only the queues that match the filter expression."""
        self._terms = _parse_queue_filter(expression)
        self.filter_text = expression
        self._sort_and_draw()

    def confirm_filter(self, expression: str) -> bool:
        """Apply a filter for queues. If no queue matches it, open the search for it in the jobs of all queues."""
        if not expression or not self.session.refs or self._matches_a_queue(expression):
            return super().confirm_filter(expression)
        super().confirm_filter("")
        self.session.filters.append(expression)
        self.host.open_search(expression)
        return False

    def _matches_a_queue(self, expression: str) -> bool:
        """Return whether a filter matches a queue, or cannot be parsed. Fields and paths of jobs match no queue."""
        try:
            terms = _parse_queue_filter(expression)
        except OnlyJobsError:
            return False
        except UsageError:
            return True
        return any(self._do_terms_match(terms, ref) for ref in self.session.refs)

    def preview_filter(self, expression: str) -> None:
        """Apply a filter for queues while it is typed; keep the rows while it cannot be parsed."""
        try:
            self._terms = _parse_queue_filter(expression.strip())
        except UsageError:
            return
        self._sort_and_draw()

    # -- keys and events ------------------------------------------------------------------------------------------

    def find_list(self) -> Table:
        """Return the table of queues, which gets the focus back from the findings."""
        return self._table

    def action_findings(self) -> None:
        """Move the focus from the table to the findings in the preview, or back."""
        preview_pane = self.query_one("#preview", FindingsPane)
        if self.leave_findings():
            return
        if preview_pane.focusable and self.has_preview:
            self.set_focus(preview_pane)
        else:
            is_group = isinstance(self._find_selected_row(), QueueGroup)
            selected, own = ("group", " of its own") if is_group else ("queue", "")
            self.host.show_toast(
                f"The {selected} under the cursor has no findings{own}."
                if self.has_preview
                else "A higher terminal shows the findings of the queue below the list."
            )

    def on_finding_cursor_moved(self, _event: FindingsPane.Moved) -> None:
        """Show the cursor on another finding, or none after the findings lost the focus.

        Meanwhile the table keeps its cursor on the queue of the findings.
        """
        if self.is_drawn:
            if self.find_selected_finding() is not None:
                self._table.keep_cursor_on_row()
                self._table.repaint_changes()
            self._show_preview()
            self.host.show_keys()

    def action_sort(self) -> None:
        """Switch the overview to the next sort order."""
        self.select_next_sort()

    def redraw_sorted(self) -> None:
        """Redraw the rows of the overview after the sort order changed."""
        self._sort_and_draw()

    def action_group(self) -> None:
        """Group the queues by the beginning of their names, one level deeper per call, and finally ungroup them.

        The cursor stays on its queue or on the group that contains it.
        """
        selected = self._find_selected_row()
        refs = [ref for ref in self.session.refs if self._matches_filter(ref)]
        self._levels = (
            self._levels + 1 if self._levels < max(1, groups.count_group_levels(refs, self._shared_prefix)) else 0
        )
        self._unfolded = groups.collect_group_prefixes(refs, self._shared_prefix, self._levels - 1)
        self._sort_and_draw()
        if isinstance(selected, QueueGroup) and selected.id not in self._items_by_id:
            self._table.move_to(str(selected.refs[0]))
        elif isinstance(selected, Ref) and str(selected) not in self._items_by_id:
            group_ids = (
                row_id
                for row_id, item in self._items_by_id.items()
                if isinstance(item, QueueGroup) and selected in item.refs
            )
            self._table.move_to([*group_ids][-1])

    def action_freeze(self) -> None:
        """Freeze the rows of the overview while the counters continue, or unfreeze them."""
        self._frozen_queues, self._frozen_s = dict(self._counted_queues), time.time()
        super().action_freeze()
        self._sort_and_draw()

    def _sort_and_draw(self) -> None:
        self._sort_rows()
        self._draw_rows()
        self.host.show_header()
        if len(self.session.refs) > MAX_COUNTED_AT_ONCE:
            self.host.request_refresh_soon()  # Other rows may be in sight.

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the board of the queue under the cursor, or fold or unfold the group."""
        selected = self._find_selected_row()
        if isinstance(selected, QueueGroup):
            self._unfolded ^= {selected.prefix}
            self._sort_and_draw()
        elif selected:
            self.host.open_board(selected)

    def on_table_cell_clicked(self, event: Table.CellClicked) -> None:
        """Handle a click on a verdict: open the view that its finding suggests, else the board of the queue."""
        ref = self.ref()
        queue = self._counted_queues.get(ref) if ref else None
        if event.column != "verdict" or ref is None or queue is None or not queue.findings:
            return
        view = keys.find_view_in_text(queue.findings[0].key or queue.findings[0].remedy)
        if view:
            self.app.simulate_key(keys.find_view_key(view))
        else:
            self.host.open_board(ref)

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update keys, header and preview for the row to which the cursor moved."""
        self._update_frame()
        self._show_preview_when_read()
        self.host.show_keys()
        self.host.show_header()
        if len(self.session.refs) > MAX_COUNTED_AT_ONCE or self.has_preview:
            self.host.request_refresh_soon()  # Other rows may be in sight, and the preview shows another row.


def _show_or_hide_text(pane: Static, text: str) -> None:
    """Show a text in a pane, or hide the pane if there is none. A pane with an equal text is not painted again."""
    pane.display = bool(text)
    if text and str(pane.content) != text:
        pane.update(text)


class OnlyJobsError(UsageError):
    """A filter names a field that only jobs have, so it matches no queue."""


def _parse_queue_filter(expression: str) -> tuple[Term, ...]:
    """Parse a filter for queues. Raises UsageError if it is invalid or names a field that only jobs have."""
    from rqtui.engine import filters

    parsed = filters.parse_filter(expression)
    field = next((term.field for term in parsed.terms if term.field), "")
    if field:
        raise OnlyJobsError(f"{field} is for jobs; queues are filtered by name, system and verdict.")
    return parsed.text_terms
