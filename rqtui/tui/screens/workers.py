"""Show the workers: what each one runs and since when, and the jobs that silent workers still hold.

The data comes with each refresh: of each queue in scope the list of workers and one page of its reserved jobs. Keys for
jobs act on the jobs that the worker under the cursor holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.model import Focus, Job, Queue, Ref, Snapshot, State, WorkerInspection
from rqtui.reports import workers
from rqtui.reports.workers import UNHEALTHY, WorkerEntry, WorkerHealth
from rqtui.system_base.system import Request, System
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.format.columns import compute_id_cells, format_error_line
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.queue_plot import QueuePlot
from rqtui.tui.screens.report_view import yield_second_line_variants
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.ticker import CallFinished
    from rqtui.verbs import Verb

_SORT_KEYS: dict[str, Callable[[WorkerEntry], tuple[object, ...]]] = {
    "trouble first": workers.compute_worker_sort_key,
    "name": lambda entry: (entry.name, entry.ref.queue),
    "longest held": lambda entry: (entry.since_ms or float("inf"), entry.name),
    "last heartbeat": lambda entry: (entry.worker.heartbeat_ms if entry.worker else 0, entry.name),
}
ID_CELLS = 18
MAX_HELD_LINES = 100  # held jobs in the details of a worker
HELD_NAME_CELLS = 32  # cells of the kind of a held job in a wide line
WIDE_CELLS = 110  # of the details, from which a held job has its age and its last error beside it
MAX_ROWS = 500  # redrawn at each refresh because rows contain ages
MIN_FACT_CELLS = 8  # minimum cells of a column for a fact that a system stores about workers
FACT_DROPS = (1, 3)
COUNTED_IN_TURN = 100  # queues counted per refresh in addition to the busy ones
_HUES = {
    WorkerHealth.GONE: "state-dead",
    WorkerHealth.LATE: "state-dead",
    WorkerHealth.SILENT: "state-dead",
    WorkerHealth.EXPIRED: "state-dead",
    WorkerHealth.STOPPING: "state-reserved",
    WorkerHealth.QUIET: "state-reserved",
    WorkerHealth.UNSEEN: "muted",
    WorkerHealth.RUNNING: "state-ready",
    WorkerHealth.IDLE: "muted",
}


def _find_health_sign(health: WorkerHealth) -> str:
    if health in UNHEALTHY:
        return formats.SEVERITY_SIGNS["critical"]
    return formats.SEVERITY_SIGNS["ok" if health in (WorkerHealth.RUNNING, WorkerHealth.IDLE) else "info"]


EMPTY = "no worker sends heartbeats, and no job is reserved"


class Workers(View):
    """The view of the workers of some queues, or of all queues if none is given."""

    NAME = "workers"
    DETAILS = "#about"
    FILTER_HINT = "part of a worker, a host, a job or a queue; !term excludes"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "state": "trouble first",
        "worker": "name",
        "since": "longest held",
        "beat": "last heartbeat",
    }
    DEFAULT_CSS: ClassVar[str] = (
        "Workers #about { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    )

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = self._initial_refs = refs
        self.sort = self.SORTS[0]
        self._expression, self._matches_filter = "", filters.parse_filter("")
        self._counted_queues: dict[Ref, Queue] = {}
        self._requested_refs: tuple[Ref, ...] = ()
        self._requests: dict[Ref, tuple[Request[Any], ...]] = {}
        self._entries: tuple[WorkerEntry, ...] = ()
        self._fact_names: tuple[str, ...] = ()  # the names of the facts that have columns
        self._problems: tuple[str, ...] = ()
        self._read_refs: tuple[Ref, ...] | None = None
        self._inspections: dict[str, WorkerInspection] = {}  # by id of the worker's row
        self._asked: set[str] = set()  # rows of workers that were asked and may still reply
        self._next_position = 0
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """Create the table of workers, and a pane with the details of the worker under the cursor."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self._build_columns(), empty="reading …", id="workers", has_marks=False, ascii_only=is_ascii)
        yield LongText(id="about", classes="pane")

    def on_mount(self) -> None:
        """Focus the table of workers."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of workers."""
        return self.query_one("#workers", Table)

    def _build_columns(self) -> tuple[Column, ...]:
        fit_queue = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        fit_worker = elision.create_name_fitter(format_field_value(entry.name) for entry in self._entries)
        queue_columns = (
            ()
            if len(self.refs) == 1
            else (Column("queue", "queue", 8, weight=1, drop=3, style="muted", fit=fit_queue),)
        )
        return (
            Column("state", "state", 12),
            Column("worker", "worker", 12 if self._fact_names else 13, weight=2, style="strong", fit=fit_worker),
            *queue_columns,
            Column("holds", "holds", 5, align="right", drop=4),
            *self._build_fact_columns(),
            Column("job", "job", 10, weight=3, drop=2),
            Column("id", "id", compute_id_cells(map(_find_job_id, self._entries), ID_CELLS), drop=6),
            Column("since", "for", 6, align="right", style="muted"),
            Column("left", "lease", 6, align="right", drop=5),
            Column("beat", "heartbeat", 9, align="right"),
            Column("up", "up", 6, align="right", style="muted", drop=8),
            Column("where", "pid @ host", 12, weight=1, style="muted", drop=7),
        )

    def _build_fact_columns(self) -> tuple[Column, ...]:
        texts = {
            name: [workers.format_worker_fact(entry, name) for entry in self._entries] for name in self._fact_names
        }
        return tuple(
            Column(f"fact {name}", safe(name), min(MIN_FACT_CELLS, cells), weight=2, most=cells, drop=drop)
            for (name, values), drop in zip(texts.items(), FACT_DROPS, strict=False)
            for cells in [max(map(formats.cell_len, (safe(name), *values)))]
        )

    # -- the next refresh -----------------------------------------------------------------------------------------

    def list_queues_in_scope(self, refs: Sequence[Ref]) -> list[Ref]:
        """Return the queues whose workers are shown."""
        return [*self.refs] or list(refs)

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh counts, workers and reserved jobs.

        Of more than a hundred queues only those of the busy ones.
        """
        scope, systems = self.list_queues_in_scope(refs), self.session.systems
        busy_refs = frozenset(ref for ref, queue in self._counted_queues.items() if _is_queue_busy(queue))
        self._requested_refs = workers.choose_queues(scope, systems, busy_refs)
        turn_refs = [
            scope[(self._next_position + step) % len(scope)] for step in range(min(COUNTED_IN_TURN, len(scope)))
        ]
        requests = workers.group_worker_requests(self._find_or_create_requests(ref) for ref in self._requested_refs)
        plotted = self._find_plotted_queue()
        refs_to_count = dict.fromkeys([*self._requested_refs, *turn_refs, *([plotted] if plotted else [])])
        return Focus(tuple(refs_to_count), requests={**requests, **self._plot.build_requests(plotted)})

    @cached_property
    def _plot(self) -> QueuePlot:
        return QueuePlot(self.session)

    def _find_plotted_queue(self) -> Ref | None:
        """Return the queue of the worker under the cursor if a plot of it fits: on large terminals."""
        entry = self.find_selected_worker() if self.is_large and self.has_preview else None
        return entry.ref if entry else None

    def _find_or_create_requests(self, ref: Ref) -> tuple[Request[Any], ...]:
        """Return the requests for the workers of a queue.

        Unchanged requests are the same objects as before, so that the ticker recognises an equal focus.
        """
        new_requests = workers.build_worker_requests(
            self.session.systems[ref.system], ref.queue, len(self._requested_refs)
        )
        cached = self._requests.get(ref, ())
        if [request.calls for request in new_requests] != [request.calls for request in cached]:
            self._requests[ref] = new_requests
        return self._requests.get(ref, ())

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the workers of a new snapshot."""
        if any(len(snapshot.results.get(group, ())) != len(self._requested_refs) for group in workers.GROUPS):
            return  # requested by the view below, or before the queues were listed
        self._now_ms = snapshot.taken_ms
        self._plot.add_snapshot(snapshot)
        self._counted_queues.update((Ref(queue.system, queue.name), queue) for queue in snapshot.queues)
        if len(self.list_queues_in_scope(self.session.refs)) > COUNTED_IN_TURN:
            self._next_position += COUNTED_IN_TURN
        # If the queues changed while frozen, read once: there are no rows of the new queues to freeze.
        if not self.is_frozen or self._read_refs != self.refs:
            self._read_refs = self.refs
            self._entries, self._problems = workers.parse_workers(
                self._requested_refs, self.session.systems, snapshot.results, self._now_ms
            )
            self._fact_names = workers.choose_fact_names(self._entries)
        self._draw_workers()

    def _draw_workers(self) -> None:
        self.table.empty = self.explain_empty_table()
        # The columns depend on the names of the workers.
        if (columns := self._build_columns()) != self.table.painter.columns:
            self.table.set_columns(columns)
        self.table.update([self._build_worker_row(entry) for entry in self._list_matching_workers()[:MAX_ROWS]])
        only = find_only_queue(self.refs)
        scope_text = safe(only.queue) if only else f"{len(self.refs) or 'all'} queues"
        filter_pieces = [Piece(f"/{format_field_value(self._expression)} ", "accented")] if self._expression else []
        self.table.set_border_title(
            Piece(" workers ", "strong"), Piece(f"of {formats.elide_middle(scope_text, 32)} ", "muted"), *filter_pieces
        )
        self.table.set_subtitle(*self._build_bottom_line())
        self.fit_table_height(self.table, min(MAX_ROWS, len(self._list_matching_workers())))
        self._show_worker_facts()
        self.host.show_header()
        self.host.show_keys()

    def _build_bottom_line(self) -> list[Piece]:
        """Return the bottom line of the frame: read errors, limits, and the keys that help the selected worker."""
        texts = [Piece("frozen: p", "accented")] if self.is_frozen else []
        texts += [Piece(safe(self._problems[0]), "critical")] if self._problems else []
        readable_refs = [ref for ref in self.list_queues_in_scope(self.session.refs) if self._stores_workers(ref)]
        if len(readable_refs) > len(self._requested_refs):
            texts.append(
                Piece(f"{len(self._requested_refs)} of {formats.format_count(len(readable_refs))} queues", "warning")
            )
        if len(self._entries) > MAX_ROWS:
            texts.append(Piece(f"the first {MAX_ROWS}", "warning"))
        if any(not entry.is_whole and entry.jobs for entry in self._entries):
            texts.append(Piece("of the leases that end first", "warning"))
        entry = self.find_selected_worker()
        if entry is not None and entry.health in UNHEALTHY and entry.jobs:
            texts.append(Piece(_describe_held_jobs(entry, self._now_ms, self._find_usable_verbs(entry)), "critical"))
        elif entry is not None and entry.worker is not None:
            texts += [Piece(keys.apply_keymap("a asks it"), "muted")] if self.check_action("ask", ()) else []
            commands = self._list_worker_commands(entry)
            texts += (
                [Piece(keys.apply_keymap(f": asks it to {_join_alternatives(commands)}"), "muted")] if commands else []
            )
        pieces = [piece for text in texts for piece in (Piece(" · ", "muted"), text)][1:]
        return [Piece(" "), *pieces, Piece(" ")] if pieces else []

    def _list_worker_commands(self, entry: WorkerEntry) -> list[str]:
        """Return the commands that can be sent to this worker now, as parts of a sentence."""
        if self.session.is_read_only:
            return []
        can_run = self.session.systems[entry.ref.system].can
        commands = [text for verb, text in _COMMAND_TEXTS.items() if can_run(verb)]
        if can_run("cancel") and entry.jobs:
            commands.append("cancel its job" if len(entry.jobs) == 1 else "cancel its jobs")
        return commands

    def _show_worker_facts(self) -> None:
        """Show the details of the worker under the cursor. The replies of a worker that was asked are always shown."""
        pane, entry = self.query_one("#about", LongText), self.find_selected_worker()
        has_replies = bool(self._asked or self._inspections)
        pane.display = self.has_preview or has_replies
        if not pane.display:
            return
        name = formats.elide_middle(format_field_value(entry.name), 40) if entry else "worker"
        pane.border_title = Content.styled(f" {name} ", "b $strong")
        width = self.measure_details_width(pane)
        rows = pane.scrollable_content_region.height
        parts: list[Content] = []
        if entry and entry.id in self._inspections:
            parts.append(_format_inspection(self._inspections[entry.id], entry.id in self._asked, self._now_ms, width))
        if entry:
            parts.append(_format_worker_details(entry, self._now_ms, width, rows))
        text = Content("\n").join(part for part in parts if part)
        pane.show_text(self._plot.add_below(text, self._find_plotted_queue(), pane, width))

    def _find_usable_verbs(self, entry: WorkerEntry) -> Collection[str]:
        """Return which of the verbs `release` and `reap` can be used on the jobs of this worker now."""
        verbs = ["release"] if self.host.check_verb("L") is not False else []
        can_reap = self.session.systems[entry.ref.system].can("reap") and not self.session.is_read_only
        return [*verbs, *(["reap"] if can_reap else [])]

    def explain_empty_table(self) -> str:
        """Return the text that the table shows while it has no rows."""
        scope = self.list_queues_in_scope(self.session.refs)
        silent_systems = sorted({ref.system for ref in scope if not self._stores_workers(ref)})
        if self._expression and self._entries:
            return (
                f"no worker matches /{format_field_value(self._expression)}: {keys.apply_keymap('/ and Esc clear it')}"
            )
        if scope and not any(self._stores_workers(ref) for ref in scope):
            verb_form = "stores" if len(silent_systems) == 1 else "store"
            names = " and ".join(silent_systems)
            return f"{names} {verb_form} no names of workers: {keys.find_current_key('back')} goes back"
        systems = {ref.system: self.session.systems[ref.system] for ref in scope if self._stores_workers(ref)}
        if waiting := [name for name, system in systems.items() if not has_received_heartbeats(system)]:
            return f"waiting for heartbeats of {' and '.join(waiting)}, which only publishes them"
        return EMPTY

    def _stores_workers(self, ref: Ref) -> bool:
        return ref.system in self.session.systems and workers.has_workers(self.session.systems[ref.system])

    def _list_matching_workers(self) -> list[WorkerEntry]:
        return sorted(
            (entry for entry in self._entries if self._matches_filter(_convert_worker_to_job(entry))),
            key=_SORT_KEYS[self.sort],
        )

    def _build_worker_row(self, entry: WorkerEntry) -> Row:
        now_ms, job, worker = self._now_ms, entry.job, entry.worker
        hue = _HUES[entry.health]
        more_queues = f" +{len(entry.queues) - 1}" if len(entry.queues) > 1 else ""
        queue_cells: tuple[Cell, ...] = (
            () if len(self.refs) == 1 else (safe(self.session.format_name(entry.ref)) + more_queues,)
        )
        job_id = _find_job_id(entry)
        cells = (
            (
                Piece(f"{_find_health_sign(entry.health)} ", hue),
                Piece(entry.health.value, hue if entry.health in UNHEALTHY else ""),
            ),
            format_field_value(entry.name),
            *queue_cells,
            Piece(_format_held_job_count([entry]), "state-reserved" if entry.jobs else "muted"),
            *(workers.format_worker_fact(entry, name) or Piece(formats.NONE, "muted") for name in self._fact_names),
            format_field_value(job.name) if job and job.name else Piece(formats.NONE, "muted"),
            formats.shorten_job_id(job_id, ID_CELLS) if job_id else Piece(formats.NONE, "muted"),
            formats.format_age_since(entry.since_ms, now_ms),
            _format_lease_time_left(entry, now_ms),
            _format_heartbeat(entry, now_ms),
            formats.format_age(now_ms - worker.started_ms) if worker and worker.started_ms else formats.NONE,
            _format_process(entry),
        )
        return Row(entry.id, cells)

    def build_second_line(self, width: int) -> frame.Sides:
        """Return for the header the number of workers, of silent workers, and of the jobs they hold."""
        silent_entries = [entry for entry in self._entries if entry.health in UNHEALTHY]
        running_count = sum(entry.health is WorkerHealth.RUNNING for entry in self._entries)
        stuck_jobs = sum(len(entry.jobs) for entry in silent_entries)
        number = len(self._entries)
        summary = Content.assemble(
            (formats.format_quantity(number, "worker", 7), "b $strong"),
            ("   running ", "$muted"),
            (formats.format_count(running_count), "$state-ready" if running_count else "$data"),
            ("   hold ", "$muted"),
            (
                _format_held_job_count(self._entries),
                "$state-reserved" if any(entry.jobs for entry in self._entries) else "$data",
            ),
            ("   silent ", "$muted"),
            (formats.format_count(len(silent_entries)), "$state-dead" if silent_entries else "$data"),
            (f" with {formats.format_quantity(stuck_jobs, 'job')}" if stuck_jobs else "", "$state-dead"),
        )
        return frame.choose_first_fitting(yield_second_line_variants(summary, self.sort, bool(self.refs)), width)

    def find_selected_worker(self) -> WorkerEntry | None:
        """Return the worker under the cursor, or None without rows."""
        cursor_id = self.table.cursor_id
        return next((entry for entry in self._entries if entry.id == cursor_id), None)

    def build_target(self) -> Target:
        """Return the worker under the cursor and the jobs that it holds in one queue, as the target of a verb."""
        entry = self.find_selected_worker()
        if entry is None:
            ref = find_only_queue(self.refs)
            return Target(ref, queue=self._counted_queues.get(ref) if ref else None)
        worker_names = (entry.name,) if entry.worker is not None else ()
        held_jobs = tuple(job for job in entry.jobs if job.queue == entry.ref.queue)
        place = held_jobs[0].place if held_jobs else ""
        state = State.RESERVED if held_jobs else None
        return Target(
            entry.ref, place, held_jobs, queue=self._counted_queues.get(entry.ref), state=state, workers=worker_names
        )

    def handle_verb(self, verb: Verb) -> bool:
        """Start a verb on the jobs that the worker under the cursor holds, without the worker itself as a target.

        Return False for a verb that is not for jobs.
        """
        if verb.scope != "job":
            return False
        entry = self.find_selected_worker()
        self.host.start_verb(verb, replace(self.build_target(), workers=(), holder=entry.name if entry else ""))
        return True

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues of the view of workers, so that a view opened from here shows the same queues."""
        return self.refs

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of workers while the connection is lost, or restore it."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works here. Only the workers of some systems can be asked."""
        if action != "ask":
            return super().check_action(action, parameters)
        if not self.offers_action("screen.ask"):
            return False
        entry = self.find_selected_worker()
        can_ask = (
            entry is not None and entry.worker is not None and self.session.systems[entry.ref.system].can("inspect")
        )
        return True if can_ask else None

    def offers_action(self, action: str) -> bool:
        """Return whether a key's action exists in this view. Inspecting a worker needs the script `inspect`."""
        return action != "screen.ask" or (
            not self.session.is_read_only
            and any(self.session.systems[entry.ref.system].can("inspect") for entry in self._entries)
        )

    def action_ask(self) -> None:
        """Send the selected worker questions about its tasks and queues, and show its replies below the table."""
        entry = self.find_selected_worker()
        if entry is None or entry.worker is None or entry.id in self._asked:
            return
        ref, name, id = entry.ref, entry.name, entry.id
        self._asked.add(id)
        self._inspections[id] = WorkerInspection(name, self._now_ms, 0)
        self.session.run_steps(lambda engine: engine.inspect_worker(ref, name), partial(self._record_inspection, id))
        self._show_worker_facts()

    def _record_inspection(self, id: str, message: CallFinished) -> None:
        """Store the replies that a worker has sent so far, and show them."""
        if message.result is not None:
            self._inspections[id] = message.result
        if message.is_last:
            self._asked.discard(id)
        if message.error:
            self._inspections.pop(id, None)
            self.host.show_toast(message.error, "warning")
        if self.is_drawn:
            self._show_worker_facts()

    def action_widen(self) -> None:
        """Switch between the workers of the queues for which the view was opened and those of all queues."""
        self.refs = self._initial_refs if not self.refs else ()
        self._entries, self._requested_refs = (), ()
        self.table.clear_rows()
        self._draw_workers()
        self.host.request_refresh()

    def action_sort(self) -> None:
        """Switch the workers to the next sort order."""
        self.select_next_sort()

    def redraw_sorted(self) -> None:
        """Redraw the workers after the sort order changed."""
        self._draw_workers()

    def apply_filter(self, expression: str) -> None:
        """Show only the workers that match the expression, in the filter syntax of jobs."""
        self._matches_filter, self._expression = filters.parse_text_filter(expression), expression
        self._draw_workers()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update keys, frame and facts for the worker to which the cursor moved."""
        self.table.set_subtitle(*self._build_bottom_line())
        self._show_worker_facts()
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the page of the job that the selected worker runs."""
        entry = self.find_selected_worker()
        if entry is None:
            return
        if entry.job is not None:
            self.host.open_job(entry.ref, entry.job)
        elif entry.worker is not None and entry.worker.job:
            self.session.call_engine(partial(_find_worker_job, entry, entry.worker.job), self._open_worker_job)
        else:
            self.host.show_toast(f"{format_field_value(entry.name)} holds no job.")

    def _open_worker_job(self, message: CallFinished) -> None:
        if message.error or message.result is None:
            self.host.show_toast(message.error or "It has finished that job.")
        elif self.is_on_top:
            self.host.open_job(*message.result)


def has_received_heartbeats(system: System) -> bool:
    """Return whether rqtui has listened long enough for a heartbeat of each worker of a system.

    True for a system that stores its workers in Redis.
    """
    interval_ms, since_ms = system.heartbeat_event_interval_ms, system.events_since_ms
    return interval_ms is None or (since_ms is not None and system.now_ms() - since_ms > interval_ms * 1.25)


def _is_queue_busy(queue: Queue) -> bool:
    """Return whether a worker is registered on the queue or has a reserved job of the queue."""
    return bool(queue.count_in_state(State.RESERVED) or queue.workers or queue.counters.get("registered"))


def _describe_held_jobs(entry: WorkerEntry, now_ms: int, usable_verbs: Collection[str]) -> str:
    """Describe the jobs of a silent worker and the keys that move them."""
    job_count = len(entry.jobs)
    jobs_text = "its job" if job_count == 1 else f"its {job_count} jobs"
    expired_count = sum(job.deadline_ms is not None and job.deadline_ms < now_ms for job in entry.jobs)
    hints = ["L releases"] if "release" in usable_verbs else []
    hints += [f"> reaps {expired_count}"] if expired_count and "reap" in usable_verbs else []
    if not hints:
        return f"{jobs_text} {'waits' if job_count == 1 else 'wait'} for a reaper"
    return f"{jobs_text}: " + keys.apply_keymap(", ".join(hints))


def _join_alternatives(texts: Sequence[str]) -> str:
    """Join texts as in `stop, grow or shrink`."""
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


_COMMAND_TEXTS = {"quiet": "be quiet", "stop": "stop", "grow": "grow", "shrink": "shrink"}  # sentence parts by verb


def _find_worker_job(entry: WorkerEntry, job_id: bytes, engine: Engine) -> tuple[Ref, Job] | None:
    """Find the job that a worker reports, in any of the worker's queues; None if no queue contains the job."""
    for queue in entry.queues:
        ref = Ref(entry.ref.system, queue)
        if (job := engine.fetch_job(ref, job_id, 0)) is not None:
            return ref, job
    return None


def _format_worker_details(entry: WorkerEntry, now_ms: int, width: int, rows: int) -> Content:
    """Format a worker: its health as a sentence, what its system stores about it, and the jobs that it holds.

    `rows` is the number of visible lines (0: unknown). An empty line is left out if it would hide the first job.
    """
    sentence = _describe_worker(entry, now_ms)
    hue = "$state-dead" if entry.health in UNHEALTHY else "$strong"
    lines = [Content.styled(line, hue) for line in formats.wrap_to_width(sentence, width)]
    facts = _format_worker_facts(entry, now_ms, width)
    if not entry.jobs:
        return Content("\n").join([*lines, *([facts] if facts else [])])
    kinds = Counter(format_field_value(job.name) for job in entry.jobs if job.name).most_common(4)
    if kinds:
        kind_text = " · ".join(f"{name} {formats.format_count(number)}" for name, number in kinds)
        lines.append(Content.styled(formats.fit_to_width(f"jobs it holds: {kind_text}", width).rstrip(), "$muted"))
    lines += [facts] if facts else []
    is_head_last = rows == sum(line.plain.count("\n") + 1 for line in lines) + 2
    lines += [] if is_head_last else [Content()]
    lines += [Content.styled(_HELD_JOB_HEAD + (_HELD_JOB_REST if width >= WIDE_CELLS else ""), "$muted")]
    lines += [_format_held_job(job, now_ms, width) for job in entry.jobs[:MAX_HELD_LINES]]
    hidden_count = len(entry.jobs) - MAX_HELD_LINES
    lines += [Content.styled(f"and {formats.format_quantity(hidden_count, 'more job')}", "$muted")] * (hidden_count > 0)
    return Content("\n").join(lines)


_HELD_JOB_HEAD = f"{'held for':>8}  {'lease ends':>10}  {'attempts':>8}  {'id':<22}  job"
_HELD_JOB_REST = f"{'':<{HELD_NAME_CELLS - 3}}  {'enqueued':>10}  last error"


def _format_held_job(job: Job, now_ms: int, width: int) -> Content:
    """Format a job that a worker holds as a line; a wide line also has its age and its last error."""
    held = formats.format_age_since(job.reserved_ms, now_ms)
    left_ms = None if job.deadline_ms is None else job.deadline_ms - now_ms
    lease = formats.NONE if left_ms is None else f"in {formats.format_age(left_ms)}" if left_ms >= 0 else "over"
    attempts = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
    job_id = formats.fit_to_width(formats.shorten_job_id(job.id, 22), 22)
    line = Content.assemble(
        f"{held:>8}  ",
        (f"{lease:>10}", "$state-dead" if left_ms is not None and left_ms < 0 else "$data"),
        (f"  {attempts:>8}  {job_id}  ", "$muted"),
    )
    name = format_field_value(job.name) or formats.NONE
    if width < WIDE_CELLS:
        return Content.assemble(line, name)
    enqueued = formats.NONE if job.enqueued_ms is None else f"{formats.format_age_since(job.enqueued_ms, now_ms)} ago"
    error = format_error_line(job.error) if job.error else ""
    error_cells = width - line.cell_length - HELD_NAME_CELLS - 14
    return Content.assemble(
        line,
        formats.fit_to_width(name, HELD_NAME_CELLS),
        (f"  {enqueued:>10}  ", "$muted"),
        (formats.fit_to_width(error, error_cells).rstrip(), "$state-dead"),
    )


def _describe_worker(entry: WorkerEntry, now_ms: int) -> str:
    """Describe the health of a worker as sentences: its last heartbeat, and the jobs that it holds."""
    worker, jobs_text = entry.worker, formats.format_quantity(len(entry.jobs), "job")
    ends_ms = [job.deadline_ms for job in entry.jobs if job.deadline_ms is not None]
    holds = f"It holds {jobs_text}" if entry.jobs else "It holds no job"
    if entry.has_unknown_jobs:
        holds = "It runs jobs that began before rqtui listened, so they are not known"
    if ends_ms:
        left_ms = min(ends_ms) - now_ms
        holds += (
            f"; the first lease ends in {formats.format_age(left_ms)}" if left_ms >= 0 else "; the first lease is over"
        )
    if worker is None:
        beat = "This worker never sent a heartbeat"
    elif not worker.heartbeat_ms:
        beat = "The time of this worker's last heartbeat is unknown"
    elif entry.health in UNHEALTHY:
        beat = f"This worker stopped sending heartbeats {formats.format_age(now_ms - worker.heartbeat_ms)} ago"
    else:
        beat = f"The last heartbeat of this worker came {formats.format_age_since(worker.heartbeat_ms, now_ms)} ago"
    started = (
        f" It started {formats.format_age(now_ms - worker.started_ms)} ago." if worker and worker.started_ms else ""
    )
    return f"{beat}. {holds}.{started}"


def _format_worker_facts(entry: WorkerEntry, now_ms: int, width: int) -> Content:
    """Format all that is known about a worker: state, queues and facts.

    The queues of a worker that is known by events are one of its facts, as far as they are known.
    """
    worker = entry.worker
    properties = [
        ("state", format_field_value(worker.state) if worker else ""),
        ("queues", "" if entry.is_known_by_events else ", ".join(map(safe, entry.queues))),
    ]
    facts = worker.facts if worker else ()
    layout = jobs.choose_property_layout(facts, width)
    lines = [layout.format_line(name, value) for name, value in properties if value]
    return Content("\n").join([*lines, *([jobs.format_job_facts(facts, now_ms, layout=layout)] if facts else [])])


def _format_inspection(inspection: WorkerInspection, is_waiting: bool, now_ms: int, width: int) -> Content:
    """Format the replies of a worker, below a line that says when it was asked and for how long rqtui waited."""
    waited = f"{inspection.waited_ms / 1000:.1f} s"
    if is_waiting:
        head = Content.styled(f"asked; waiting for replies: {waited}", "$accented")
    elif inspection.problem:
        head = Content.styled(safe(inspection.problem), "$warning")
    else:
        age = formats.format_age_since(inspection.at_ms, now_ms)
        head = Content.styled(f"asked {age} ago; it replied within {waited}", "$muted")
    layout = jobs.choose_property_layout(inspection.facts, width)
    facts = jobs.format_job_facts(inspection.facts, now_ms, layout=layout)
    return Content("\n").join([head, facts] if facts else [head])


def _convert_worker_to_job(entry: WorkerEntry) -> Job:
    """Build a job with the searchable texts of a worker, because filters work on jobs."""
    job, worker = entry.job, entry.worker
    search_text = to_bytes(f"{' '.join(entry.queues)} {entry.health} {worker.host if worker else ''}")
    job_id = job.id if job else worker.job if worker else b""
    return Job(
        job_id, "", "", "", State.RESERVED, b"", name=job.name if job else "", worker=entry.name, body=search_text
    )


def _format_held_job_count(entries: Iterable[WorkerEntry]) -> str:
    """Format how many jobs these workers hold, with `~` if not all reserved jobs were read; `?` if none is known."""
    entries = tuple(entries)
    if any(entry.has_unknown_jobs for entry in entries) and not any(entry.jobs for entry in entries):
        return "?"
    entries_with_jobs = [entry for entry in entries if entry.jobs]
    return formats.format_count(
        sum(len(entry.jobs) for entry in entries_with_jobs), exact=all(entry.is_whole for entry in entries_with_jobs)
    )


def _format_lease_time_left(entry: WorkerEntry, now_ms: int) -> Cell:
    """Return the cell with the remaining time of the worker's lease that ends first."""
    ends = [job.deadline_ms for job in entry.jobs if job.deadline_ms is not None]
    if not ends:
        return Piece(formats.NONE, "muted")
    left_ms = min(ends) - now_ms
    return Piece(formats.format_age(left_ms), "state-dead" if left_ms < 0 else "muted")


def _format_heartbeat(entry: WorkerEntry, now_ms: int) -> Cell:
    if entry.worker is None:
        return Piece("never", "state-dead" if entry.health in UNHEALTHY else "muted")
    if not entry.worker.heartbeat_ms:
        return Piece(formats.UNKNOWN, "state-dead")
    is_silent = entry.health in UNHEALTHY
    return Piece(formats.format_age_since(entry.worker.heartbeat_ms, now_ms), "state-dead" if is_silent else "muted")


def _format_process(entry: WorkerEntry) -> str:
    worker = entry.worker
    if worker is None or not (worker.pid or worker.host):
        return formats.NONE
    return " @ ".join(safe(part) for part in (worker.pid, worker.host) if part)


def _find_job_id(entry: WorkerEntry) -> bytes:
    """Return the id of the job that a worker runs; empty if there is none."""
    return entry.job.id if entry.job else entry.worker.job if entry.worker else b""
