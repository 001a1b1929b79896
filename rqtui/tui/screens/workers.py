"""The view of workers: what each one runs and since when, and the jobs that silent workers still hold.

The data comes with each refresh: of each queue in scope the list of workers and one page of its reserved jobs. Keys for
jobs act on the jobs that the worker under the cursor holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.model import Focus, Job, Queue, Ref, Snapshot, State, WorkerInspection
from rqtui.reports import workers
from rqtui.reports.workers import TROUBLED, WorkerEntry, WorkerHealth
from rqtui.system_base.system import Request, System
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.format.columns import compute_id_cells
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import build_second_lines
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.ticker import CallFinished
    from rqtui.verbs import Verb

_SORT_KEYS: dict[str, Callable[[WorkerEntry], tuple[object, ...]]] = {
    "trouble first": workers.compute_worker_sort_key,
    "name": lambda seat: (seat.name, seat.ref.queue),
    "longest held": lambda seat: (seat.since_ms or float("inf"), seat.name),
    "last beat": lambda seat: (seat.worker.heartbeat_ms if seat.worker else 0, seat.name),
}
ID_CELLS = 18
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
EMPTY = "no worker gives a sign of life, and nothing is reserved"


class Workers(View):
    """The workers of some queues, or of all queues if none is given."""

    NAME = "workers"
    FILTER_HINT = "part of a worker, a host, a job or a queue; !term turns it round"
    SORTS = tuple(_SORT_KEYS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "state": "trouble first",
        "worker": "name",
        "since": "longest held",
        "beat": "last beat",
    }
    DEFAULT_CSS: ClassVar[str] = "Workers Table { height: 2fr; } Workers #about { height: 1fr; padding: 0 1; }"

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = self._initial_refs = refs
        self.sort = self.SORTS[0]
        self._expression, self._matches_filter = "", filters.parse_filter("")
        self._counted_queues: dict[Ref, Queue] = {}
        self._requested_refs: tuple[Ref, ...] = ()
        self._requests: dict[Ref, tuple[Request[Any], ...]] = {}
        self._seats: tuple[WorkerEntry, ...] = ()
        self._facts: tuple[str, ...] = ()  # the names of the facts that have columns
        self._problems: tuple[str, ...] = ()
        self._read_refs: tuple[Ref, ...] | None = None
        self._inspections: dict[str, WorkerInspection] = {}  # by id of the worker's row
        self._asked: set[str] = set()  # rows of workers that were asked and may still reply
        self._turn = 0
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """Yield the table, and a pane with facts that only some systems store about a worker."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self._build_columns(), empty="looking …", id="workers", has_marks=False, ascii_only=is_ascii)
        yield LongText(id="about", classes="pane")

    def on_mount(self) -> None:
        """Focus the table."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The table of workers."""
        return self.query_one("#workers", Table)

    def _build_columns(self) -> tuple[Column, ...]:
        fit = elision.create_name_fitter(safe(self.session.format_name(ref)) for ref in self.session.refs)
        among = elision.create_name_fitter(format_field_value(seat.name) for seat in self._seats)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=3, style="muted", fit=fit),)
        return (
            Column("state", "state", 13),
            Column("worker", "worker", 12 if self._facts else 14, weight=2, style="strong", fit=among),
            *queue,
            Column("holds", "holds", 5, align="right", drop=4),
            *self._build_fact_columns(),
            Column("job", "job", 10 if self._facts else 12, weight=3, drop=2),
            Column("id", "id", compute_id_cells(map(_find_job_id, self._seats), ID_CELLS), drop=6),
            Column("since", "for", 6, align="right", style="muted"),
            Column("left", "lease", 6, align="right", drop=5),
            Column("beat", "beat", 6, align="right"),
            Column("up", "up", 6, align="right", style="muted", drop=8),
            Column("where", "pid @ host", 12, weight=1, style="muted", drop=7),
        )

    def _build_fact_columns(self) -> tuple[Column, ...]:
        texts = {name: [workers.format_worker_fact(seat, name) for seat in self._seats] for name in self._facts}
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
        """Request counts, workers and reserved jobs; of more than a hundred queues only of the busy ones."""
        scope, systems = self.list_queues_in_scope(refs), self.session.systems
        busy = frozenset(ref for ref, queue in self._counted_queues.items() if _is_busy(queue))
        self._requested_refs = workers.choose_queues(scope, systems, busy)
        others = [scope[(self._turn + step) % len(scope)] for step in range(min(COUNTED_IN_TURN, len(scope)))]
        requests = workers.group_requests(self._find_cached_requests(ref) for ref in self._requested_refs)
        return Focus(tuple(dict.fromkeys([*self._requested_refs, *others])), requests=requests)

    def _find_cached_requests(self, ref: Ref) -> tuple[Request[Any], ...]:
        """Return the requests for a queue.

        Unchanged requests are the same objects as before, so that the ticker recognises an equal wish.
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
        self._counted_queues.update((Ref(queue.system, queue.name), queue) for queue in snapshot.queues)
        if len(self.list_queues_in_scope(self.session.refs)) > COUNTED_IN_TURN:
            self._turn += COUNTED_IN_TURN
        # If the queues changed while frozen, read once: there are no rows of the new queues to freeze.
        if not self.is_frozen or self._read_refs != self.refs:
            self._read_refs = self.refs
            self._seats, self._problems = workers.parse_workers(
                self._requested_refs, self.session.systems, snapshot.results, self._now_ms
            )
            self._facts = workers.choose_fact_names(self._seats)
        self._draw()

    def _draw(self) -> None:
        self.table.empty = self._explain_empty_table()
        # The columns depend on the names of the workers.
        if (columns := self._build_columns()) != self.table.painter.columns:
            self.table.set_columns(columns)
        self.table.update([self._build_row(seat) for seat in self._list_matching_seats()[:MAX_ROWS]])
        scope_text = safe(self.refs[0].queue) if len(self.refs) == 1 else f"{len(self.refs) or 'all'} queues"
        filter_pieces = [Piece(f"/{format_field_value(self._expression)} ", "accented")] if self._expression else []
        self.table.set_border_title(
            Piece(" workers ", "strong"), Piece(f"of {formats.elide_middle(scope_text, 32)} ", "muted"), *filter_pieces
        )
        self.table.set_subtitle(*self._build_bottom_line())
        self._show_about()
        self.host.show_header()
        self.host.show_keys()

    def _build_bottom_line(self) -> list[Piece]:
        """Return the bottom line of the frame: read errors, limits, and the keys that help the selected worker."""
        texts = [Piece("frozen: p", "accented")] if self.is_frozen else []
        texts += [Piece(safe(self._problems[0]), "critical")] if self._problems else []
        readable = [ref for ref in self.list_queues_in_scope(self.session.refs) if self._keeps_workers(ref)]
        if len(readable) > len(self._requested_refs):
            texts.append(
                Piece(f"{len(self._requested_refs)} of {formats.format_count(len(readable))} queues", "warning")
            )
        if len(self._seats) > MAX_ROWS:
            texts.append(Piece(f"the first {MAX_ROWS}", "warning"))
        if any(not seat.is_whole and seat.jobs for seat in self._seats):
            texts.append(Piece("of the leases that end first", "warning"))
        seat = self.find_selected_worker()
        if seat is not None and seat.standing in TROUBLED and seat.jobs:
            texts.append(Piece(_describe_held_jobs(seat, self._now_ms, self._find_usable_verbs(seat)), "critical"))
        elif seat is not None and seat.worker is not None:
            texts += [Piece(keys.apply_keymap("a asks it"), "muted")] if self.check_action("ask", ()) else []
            commands = self._list_commands(seat)
            texts += [Piece(keys.apply_keymap(f": tells it {' or '.join(commands)}"), "muted")] if commands else []
        pieces = [piece for text in texts for piece in (Piece(" · ", "muted"), text)][1:]
        return [Piece(" "), *pieces, Piece(" ")] if pieces else []

    def _list_commands(self, seat: WorkerEntry) -> list[str]:
        """Return the commands that can be sent to this worker now, as parts of a sentence."""
        if self.session.is_read_only:
            return []
        can_run = self.session.systems[seat.ref.system].can
        commands = [text for verb, text in _COMMAND_TEXTS.items() if can_run(verb)]
        if can_run("cancel") and seat.jobs:
            commands.append("to cancel its job" if len(seat.jobs) == 1 else "to cancel its jobs")
        return commands

    def _show_about(self) -> None:
        """Show the facts of the worker under the cursor, if any system stores more than the columns show."""
        pane, seat = self.query_one("#about", LongText), self.find_selected_worker()
        pane.display = bool(self._asked or self._inspections) or any(_has_more_facts(other) for other in self._seats)
        if not pane.display:
            return
        name = formats.elide_middle(format_field_value(seat.name), 40) if seat else "worker"
        pane.border_title = Content.styled(f" {name} ", "b $strong")
        width = pane.scrollable_content_region.width
        parts = [_format_facts(seat, self._now_ms, width)] if seat else []
        if seat and seat.id in self._inspections:
            parts.insert(0, _format_inspection(self._inspections[seat.id], seat.id in self._asked, self._now_ms, width))
        pane.show_text(Content("\n").join(part for part in parts if part))

    def _find_usable_verbs(self, seat: WorkerEntry) -> Collection[str]:
        """Return which of `release` and `reap` can be used on the jobs of this worker now."""
        released = ["release"] if self.host.check_verb("L") is not False else []
        can_reap = self.session.systems[seat.ref.system].can("reap") and not self.session.is_read_only
        return [*released, *(["reap"] if can_reap else [])]

    def _explain_empty_table(self) -> str:
        scope = self.list_queues_in_scope(self.session.refs)
        silent = sorted({ref.system for ref in scope if not self._keeps_workers(ref)})
        if self._expression and self._seats:
            return (
                f"no worker matches /{format_field_value(self._expression)}: {keys.apply_keymap('/ and Esc clear it')}"
            )
        if scope and not any(self._keeps_workers(ref) for ref in scope):
            keep = "keeps" if len(silent) == 1 else "keep"
            return f"{' and '.join(silent)} {keep} no names of workers: {keys.find_current_key('back')} goes back"
        systems = {ref.system: self.session.systems[ref.system] for ref in scope if self._keeps_workers(ref)}
        if waiting := [name for name, system in systems.items() if not has_heard_heartbeats(system)]:
            return f"waiting for heartbeats of {' and '.join(waiting)}, which only publishes them"
        return EMPTY

    def _keeps_workers(self, ref: Ref) -> bool:
        return ref.system in self.session.systems and workers.has_workers(self.session.systems[ref.system])

    def _list_matching_seats(self) -> list[WorkerEntry]:
        return sorted((seat for seat in self._seats if self._matches_filter(_as_job(seat))), key=_SORT_KEYS[self.sort])

    def _build_row(self, seat: WorkerEntry) -> Row:
        now_ms, job, worker = self._now_ms, seat.job, seat.worker
        hue = _HUES[seat.standing]
        more_queues = f" +{len(seat.queues) - 1}" if len(seat.queues) > 1 else ""
        queue: tuple[Cell, ...] = (
            () if len(self.refs) == 1 else (safe(self.session.format_name(seat.ref)) + more_queues,)
        )
        id = _find_job_id(seat)
        cells = (
            (Piece("● ", hue), Piece(seat.standing.value, hue if seat.standing in TROUBLED else "")),
            format_field_value(seat.name),
            *queue,
            Piece(_format_held_jobs([seat]), "state-reserved" if seat.jobs else "muted"),
            *(workers.format_worker_fact(seat, name) or Piece(formats.ZERO, "muted") for name in self._facts),
            format_field_value(job.name) if job and job.name else Piece(formats.ZERO, "muted"),
            formats.shorten_job_id(id, ID_CELLS) if id else Piece(formats.ZERO, "muted"),
            formats.ZERO if seat.since_ms is None else formats.format_age(max(0, now_ms - seat.since_ms)),
            _format_lease_left(seat, now_ms),
            _format_heartbeat(seat, now_ms),
            formats.format_age(now_ms - worker.started_ms) if worker and worker.started_ms else formats.ZERO,
            _format_process(seat),
        )
        return Row(seat.id, cells)

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the number of workers, of silent workers, and of the jobs they hold."""
        troubled = [seat for seat in self._seats if seat.standing in TROUBLED]
        running = sum(seat.standing is WorkerHealth.RUNNING for seat in self._seats)
        stuck = sum(len(seat.jobs) for seat in troubled)
        number = len(self._seats)
        left = Content.assemble(
            (formats.format_quantity(number, "worker", 7), "b $strong"),
            ("   running ", "$muted"),
            (formats.format_count(running), "$state-ready" if running else "$data"),
            ("   hold ", "$muted"),
            (_format_held_jobs(self._seats), "$state-reserved" if any(seat.jobs for seat in self._seats) else "$data"),
            ("   silent ", "$muted"),
            (formats.format_count(len(troubled)), "$state-dead" if troubled else "$data"),
            (f" with {formats.format_quantity(stuck, 'job')}" if stuck else "", "$state-dead"),
        )
        return frame.choose_first_fitting(build_second_lines(left, self.sort, bool(self.refs)), width)

    def find_selected_worker(self) -> WorkerEntry | None:
        """Return the worker under the cursor."""
        cursor_id = self.table.cursor_id
        return next((seat for seat in self._seats if seat.id == cursor_id), None)

    def build_target(self) -> Target:
        """Return the worker under the cursor and the jobs that it holds in one queue."""
        seat = self.find_selected_worker()
        if seat is None:
            ref = self.refs[0] if len(self.refs) == 1 else None
            return Target(ref, queue=self._counted_queues.get(ref) if ref else None)
        names = (seat.name,) if seat.worker is not None else ()
        held = tuple(job for job in seat.jobs if job.queue == seat.ref.queue)
        place = held[0].place if held else ""
        state = State.RESERVED if held else None
        return Target(seat.ref, place, held, queue=self._counted_queues.get(seat.ref), state=state, workers=names)

    def handle_verb(self, verb: Verb) -> bool:
        """Start a verb on jobs with the jobs that the worker holds, without the worker itself as a target."""
        if verb.scope != "job":
            return False
        seat = self.find_selected_worker()
        self.host.start_verb(verb, replace(self.build_target(), workers=(), holder=seat.name if seat else ""))
        return True

    def list_scope(self) -> tuple[Ref, ...]:
        """Return this view's own queues, so that a view opened from here shows the same queues."""
        return self.refs

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table while the connection is lost, or restore it."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action works here. Only the workers of some systems can be asked."""
        if action != "ask":
            return super().check_action(action, parameters)
        if self.session.is_read_only or not any(
            self.session.systems[seat.ref.system].can("inspect") for seat in self._seats
        ):
            return False
        seat = self.find_selected_worker()
        can_ask = seat is not None and seat.worker is not None and self.session.systems[seat.ref.system].can("inspect")
        return True if can_ask else None

    def action_ask(self) -> None:
        """Ask the worker under the cursor about itself, and show its replies in the pane below the table."""
        seat = self.find_selected_worker()
        if seat is None or seat.worker is None or seat.id in self._asked:
            return
        ref, name, id = seat.ref, seat.name, seat.id
        self._asked.add(id)
        self._inspections[id] = WorkerInspection(name, self._now_ms, 0)
        self.session.run_steps(lambda engine: engine.inspect_worker(ref, name), partial(self._record_inspection, id))
        self._show_about()

    def _record_inspection(self, id: str, message: CallFinished) -> None:
        """Store what a worker has replied so far."""
        if message.result is not None:
            self._inspections[id] = message.result
        if message.is_last:
            self._asked.discard(id)
        if message.error:
            self._inspections.pop(id, None)
            self.host.show_toast(message.error, "warning")
        if self.is_drawn:
            self._show_about()

    def action_widen(self) -> None:
        """Switch between the queues for which the view was opened and all queues."""
        self.refs = self._initial_refs if not self.refs else ()
        self._seats, self._requested_refs = (), ()
        self.table.clear_rows()
        self._draw()
        self.host.request_refresh()

    def action_sort(self) -> None:
        """Switch to the next sort order."""
        self.select_next_sort()

    def redraw_sorted(self) -> None:
        """Redraw the rows after the sort order changed."""
        self._draw()

    def apply_filter(self, expression: str) -> None:
        """Show only the workers that match the expression, in the filter syntax of jobs."""
        self._matches_filter, self._expression = filters.parse_filter(expression), expression
        self._draw()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Update keys, frame and facts for another worker."""
        self.table.set_subtitle(*self._build_bottom_line())
        self._show_about()
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Open the page of the job that the worker runs."""
        seat = self.find_selected_worker()
        if seat is None:
            return
        if seat.job is not None:
            self.host.open_job(seat.ref, seat.job)
        elif seat.worker is not None and seat.worker.job:
            self.session.call_engine(partial(_find_worker_job, seat, seat.worker.job), self._open_found_job)
        else:
            self.host.show_toast(f"{format_field_value(seat.name)} holds no job.")

    def _open_found_job(self, message: CallFinished) -> None:
        if message.error or message.result is None:
            self.host.show_toast(message.error or "It has finished that job.")
        elif self.is_on_top:
            self.host.open_job(*message.result)


def has_heard_heartbeats(system: System) -> bool:
    """Return whether each worker of a system had time for a heartbeat since rqtui listens, or Redis stores them."""
    interval_ms, since_ms = system.heartbeat_event_interval_ms, system.events_since_ms
    return interval_ms is None or (since_ms is not None and system.now_ms() - since_ms > interval_ms * 1.25)


def _is_busy(queue: Queue) -> bool:
    """Return whether a worker is registered on the queue or has a reserved job."""
    return bool(queue.count_in_state(State.RESERVED) or queue.workers or queue.counters.get("registered"))


def _describe_held_jobs(seat: WorkerEntry, now_ms: int, able: Collection[str]) -> str:
    """Describe the jobs of a silent worker and the keys that move them."""
    number = len(seat.jobs)
    jobs = "its job" if number == 1 else f"its {number} jobs"
    expired = sum(job.deadline_ms is not None and job.deadline_ms < now_ms for job in seat.jobs)
    hints = ["L releases"] if "release" in able else []
    hints += [f"> reaps {expired}"] if expired and "reap" in able else []
    if not hints:
        return f"{jobs} {'waits' if number == 1 else 'wait'} for a reaper"
    return f"{jobs}: " + keys.apply_keymap(", ".join(hints))


_COMMAND_TEXTS = {
    "quiet": "to be quiet",
    "stop": "to stop",
    "grow": "to grow",
    "shrink": "to shrink",
}  # sentence parts by verb


def _find_worker_job(seat: WorkerEntry, id: bytes, engine: Engine) -> tuple[Ref, Job] | None:
    """Find the job that a worker reports, in any of the worker's queues; None if no queue contains it."""
    for queue in seat.queues:
        ref = Ref(seat.ref.system, queue)
        if (job := engine.fetch_job(ref, id, 0)) is not None:
            return ref, job
    return None


def _has_more_facts(seat: WorkerEntry) -> bool:
    worker = seat.worker
    return worker is not None and bool(worker.facts or worker.state or len(worker.queues) > 1)


def _format_facts(seat: WorkerEntry, now_ms: int, width: int) -> Content:
    """Format what the worker's system stores about it."""
    worker = seat.worker
    pairs = [
        ("state", format_field_value(worker.state) if worker else ""),
        ("queues", ", ".join(map(safe, seat.queues))),
    ]
    facts = worker.facts if worker else ()
    sheet = jobs.choose_property_layout(facts, width)
    lines = [sheet.format_line(name, value) for name, value in pairs if value]
    return Content("\n").join([*lines, *([jobs.format_job_facts(facts, now_ms, layout=sheet)] if facts else [])])


def _format_inspection(inspection: WorkerInspection, is_waiting: bool, now_ms: int, width: int) -> Content:
    """Format the replies of a worker, below a line that says when it was asked and for how long rqtui waited."""
    waited = f"{inspection.waited_ms / 1000:.1f} s"
    if is_waiting:
        head = Content.styled(f"asked; waiting for replies: {waited}", "$accented")
    elif inspection.problem:
        head = Content.styled(safe(inspection.problem), "$warning")
    else:
        age = formats.format_age(max(0, now_ms - inspection.at_ms))
        head = Content.styled(f"asked {age} ago; it replied within {waited}", "$muted")
    layout = jobs.choose_property_layout(inspection.facts, width)
    facts = jobs.format_job_facts(inspection.facts, now_ms, layout=layout)
    return Content("\n").join([head, facts] if facts else [head])


def _as_job(seat: WorkerEntry) -> Job:
    """Build a job with the searchable texts of a worker, because filters work on jobs."""
    job, worker = seat.job, seat.worker
    search_text = to_bytes(f"{' '.join(seat.queues)} {seat.standing} {worker.host if worker else ''}")
    id = job.id if job else worker.job if worker else b""
    return Job(id, "", "", "", State.RESERVED, b"", name=job.name if job else "", worker=seat.name, body=search_text)


def _format_held_jobs(seats: Iterable[WorkerEntry]) -> str:
    """Format how many jobs these workers hold, with `~` if not all reserved jobs were read."""
    counted = [seat for seat in seats if seat.jobs]
    return formats.format_count(sum(len(seat.jobs) for seat in counted), exact=all(seat.is_whole for seat in counted))


def _format_lease_left(seat: WorkerEntry, now_ms: int) -> Cell:
    """Return the remaining time of the lease that ends first."""
    ends = [job.deadline_ms for job in seat.jobs if job.deadline_ms is not None]
    if not ends:
        return Piece(formats.ZERO, "muted")
    left_ms = min(ends) - now_ms
    return Piece(formats.format_age(left_ms), "state-dead" if left_ms < 0 else "muted")


def _format_heartbeat(seat: WorkerEntry, now_ms: int) -> Cell:
    if seat.worker is None:
        return Piece("never", "state-dead" if seat.standing in TROUBLED else "muted")
    if not seat.worker.heartbeat_ms:
        return Piece(formats.UNKNOWN, "state-dead")
    is_silent = seat.standing in TROUBLED
    return Piece(formats.format_age(max(0, now_ms - seat.worker.heartbeat_ms)), "state-dead" if is_silent else "muted")


def _format_process(seat: WorkerEntry) -> str:
    worker = seat.worker
    if worker is None or not (worker.pid or worker.host):
        return formats.ZERO
    return " @ ".join(safe(part) for part in (worker.pid, worker.host) if part)


def _find_job_id(seat: WorkerEntry) -> bytes:
    """Return the id of the job that a worker runs; empty if there is none."""
    return seat.job.id if seat.job else seat.worker.job if seat.worker else b""
