"""Show the dispatcher and the reaper: their state, the jobs that each takes next, and their last steps.

States and steps are those of this screen. The next jobs are the heads of the places from which the loops take jobs,
read with each refresh. Loops of other screens and of `rqtui dispatch` and `rqtui reap` are recognised by their
connection names, which are read every 10 s.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.model import Focus, PageSelection, Queue, Ref, Snapshot
from rqtui.reports import loops as report
from rqtui.reports.loops import LOOPS, UpcomingJob
from rqtui.system_base.system import System
from rqtui.text import formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop, Round, ScriptStep
    from rqtui.engine.ticker import CallFinished

MAX_COUNTED_AT_ONCE = 100  # queues counted per refresh; with more queues, some in turn
MAX_QUEUES = 4  # queues per loop whose heads are read: those with the nearest jobs
HEAD_JOBS = 12  # jobs per head
MAX_STEPS = 200  # steps listed
CONNECTIONS_INTERVAL_S = 10.0  # between two searches for loops of other processes
SIDE_BY_SIDE_FROM = 140  # terminal cells from which on the tables are side by side
STEPS_FROM_ROWS = 20  # terminal rows below which the steps are hidden
STATE_CELLS = (20, 12, 13, 18)  # widths of the first texts of a loop, so that both loops align
ID_CELLS = 12  # cells of an id: its end, which differs between generated ids

_NEXT_COLUMNS = (
    Column("when", "when", 9, align="right"),
    Column("loop", "loop", 8),
    Column("queue", "queue", 7, weight=4, style="strong", drop=1),
    Column("id", "id", ID_CELLS, drop=4),
    Column("job", "job", 8, weight=3),
    Column("worker", "worker", 8, weight=2, drop=6, style="muted"),
    Column("tried", "tried", 5, align="right", drop=5),
    Column("becomes", "becomes", 8),
)
_STEP_COLUMNS = (
    Column("time", "time", 8, style="muted"),
    Column("loop", "loop", 8),
    Column("queue", "queue", 7, weight=2, style="strong"),
    Column("moved", "moved", 6, align="right"),
    Column("ms", "took", 7, align="right", drop=1, style="muted"),
    Column("values", "answer", 10, weight=4, drop=2),
)


class Loops(View):
    """The view of the dispatcher and the reaper (the loops) of this screen."""

    NAME = "loops"
    DEFAULT_CSS = """
    Loops #states { height: 4; padding: 0 1; }
    Loops #tables { layout: vertical; height: 1fr; }
    Loops #tables.-wide { layout: horizontal; }
    Loops #tables.-wide Table { width: 3fr; height: 1fr; }
    Loops #tables.-wide #steps { width: 2fr; }
    """
    EMPTY: ClassVar[str] = "no job is due and no lease runs: nothing to take"
    EMPTY_BUT_LATE: ClassVar[str] = "the late jobs are only counted; the board lists them"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self.refs = refs
        self._queues: dict[Ref, Queue] = {}
        self._other_loops: Counter[str] = Counter()
        self._connections_read_s = 0.0
        self._next_position = 0
        self._state_text = Content()

    def compose_view(self) -> ComposeResult:
        """Create the states of dispatcher and reaper, the table of next jobs, and the table of last steps."""
        with Static("", id="states", classes="pane") as pane:
            pane.border_title = Content(" loops ")
        with Container(id="tables"):
            yield Table(_NEXT_COLUMNS, empty=self.EMPTY, id="next", has_marks=False)
            yield Table(
                _STEP_COLUMNS,
                empty="moved nothing yet: < and > make one step, , and . switch them",
                id="steps",
                has_marks=False,
            )

    def on_mount(self) -> None:
        """Focus the table of the jobs that the loops take next."""
        self._arrange_tables()
        self._find_table("next").focus()

    def on_resize(self, _event: Resize) -> None:
        """Arrange the tables for the new terminal size, and fit the states of the loops to the width."""
        self._arrange_tables()
        self.call_after_refresh(self.show_steps)

    def _arrange_tables(self) -> None:
        """Put the tables of jobs and steps side by side on a wide terminal, and hide the steps on a low one."""
        width, height = self.app.size
        self.query_one("#tables").set_class(width >= SIDE_BY_SIDE_FROM, "-wide")
        self._find_table("steps").display = height >= STEPS_FROM_ROWS

    def _find_table(self, name: str) -> Table:
        return self.query_one(f"#{name}", Table)

    # -- the next refresh ---------------------------------------------------------------------------------------------

    def build_target(self) -> Target:
        """Return the queue for which the view was opened: a queue of another system has its own loop switches."""
        ref = find_only_queue(self.refs)
        return Target(ref, queue=self._queues.get(ref) if ref else None)

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues for which the view of loops was opened."""
        return self.refs

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh the counts and the heads of the queues whose jobs the loops take next.

        These are the view's own queues and the ones with the nearest jobs. Of the other queues, some are counted in
        turn.
        """
        own_refs = [ref for ref in self.refs if ref in refs][:MAX_QUEUES]
        systems = self.session.systems
        places = [
            place
            for verb in LOOPS
            for place in report.select_places(verb, self._find_covered_queues(), systems, MAX_QUEUES, own_refs)
        ]
        places = list(dict.fromkeys(places))
        turn_refs = [
            refs[(self._next_position + step) % len(refs)] for step in range(min(MAX_COUNTED_AT_ONCE, len(refs)))
        ]
        counted_refs = dict.fromkeys([*own_refs, *(ref for ref, _place in places), *turn_refs])
        return Focus(tuple(counted_refs), tuple(PageSelection(ref, place, 0, HEAD_JOBS) for ref, place in places))

    def _find_covered_queues(self) -> dict[Ref, Queue]:
        """Return the queues of which the view shows late and next jobs.

        They are the queue of another system for which the view was opened, or else all counted queues.
        """
        ref = self.build_target().ref
        is_foreign = ref is not None and bool(self.session.find_foreign_system_name(ref))
        return (
            {queue_ref: queue for queue_ref, queue in self._queues.items() if queue_ref == ref}
            if is_foreign
            else self._queues
        )

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the states of the loops, the jobs that they take next, and their last steps."""
        is_first = not self._queues
        refs = self.session.refs
        counted = {Ref(queue.system, queue.name): queue for queue in snapshot.queues}
        self._queues = {ref: queue for ref, queue in {**self._queues, **counted}.items() if ref in set(refs)}
        self._next_position = (
            (self._next_position + MAX_COUNTED_AT_ONCE) % len(refs) if len(refs) > MAX_COUNTED_AT_ONCE else 0
        )
        systems, covered = self.session.systems, self._find_covered_queues()
        queues = covered.values()
        has_late = any(report.count_late_jobs(verb, queues, systems) for verb in LOOPS)
        self._find_table("next").empty = self.EMPTY_BUT_LATE if has_late else self.EMPTY
        upcoming_jobs = (
            upcoming for upcoming in report.yield_upcoming_jobs(snapshot, systems) if upcoming.ref in covered
        )
        sorted_jobs = sorted(upcoming_jobs, key=lambda upcoming: upcoming.in_ms)
        self._find_table("next").update(
            [
                _build_upcoming_row(upcoming, systems[upcoming.ref.system], self.session.format_name)
                for upcoming in sorted_jobs
            ]
        )
        self._find_table("next").set_border_title(Piece(" next jobs ", "strong"))
        self.show_steps()
        if is_first and self._queues and not snapshot.pages:
            self.host.request_refresh()  # The counts now show which heads to read.
        if time.monotonic() - self._connections_read_s > CONNECTIONS_INTERVAL_S:
            self._connections_read_s = time.monotonic()
            self.session.call_engine(report.count_loop_connections, self._store_other_loops)

    def _store_other_loops(self, message: CallFinished) -> None:
        if self.is_drawn:
            self._other_loops = Counter(message.result)
            self.show_steps()

    def show_steps(self) -> None:
        """Draw the states and the last steps of this screen's loops."""
        loops = self.host.find_relevant_loops()
        steps = sorted(_yield_loop_steps(self.session.loops), key=lambda step: -step[0].at_s)[:MAX_STEPS]
        self._find_table("steps").update([_build_step_row(*step, self.session.format_name) for step in steps])
        self._find_table("steps").set_border_title(Piece(" steps ", "strong"))
        state_pane = self.query_one("#states", Static)
        ref, width = self.build_target().ref, state_pane.content_size.width
        is_foreign = ref is not None and bool(self.session.find_foreign_system_name(ref))
        state_pane.border_title = Content(f" loops for {safe(ref.queue)} " if ref and is_foreign else " loops ")
        off_text = Content.styled("The loops are off: changes are not allowed here (read-only).", "$muted")
        lines = [
            self._format_loop_state(verb, *loops[verb], width)
            if verb in loops
            else Content.styled(f"{verb}  not needed", "$muted")
            for verb in LOOPS
        ]
        state_text = Content("\n").join(lines if self.session.loops else [off_text])
        if not state_text.is_same(self._state_text):
            self._state_text = state_text
            state_pane.update(state_text, layout=False)

    def _format_loop_state(self, verb: str, loop: Loop, is_on: bool, width: int) -> Content:
        """Format the state of one loop: whether it runs, its rate, batch size, delay, next job, and failures."""
        rounds = list(loop.rounds)
        last_round = rounds[-1] if rounds else None
        systems = self.session.systems
        queues = self._find_covered_queues().values()
        due_ms = [ms for queue in queues if (ms := report.compute_ms_until_work(verb, queue, systems)) is not None]
        facts = _format_nearest_job(verb, min(due_ms, default=None), report.count_late_jobs(verb, queues, systems))
        key, step = (",", "<") if verb == "dispatch" else (".", ">")
        if last_round and is_on:
            facts.append(
                _format_fact(
                    "tries again after" if last_round.error else "runs every",
                    formats.format_duration(last_round.wait_s * 1000),
                )
            )
        facts += [_format_fact("at most", f"{last_round.batch} at once")] if last_round and last_round.batch else []
        other_count = self._other_loops[verb] - (loop.is_running and any(round_.at_s for round_ in rounds))
        facts += [_format_fact("running elsewhere", str(other_count))] if other_count > 0 else []
        failed = sum(bool(round_.error) or any(step.error for step in round_.steps) for round_ in rounds)
        facts = [*([Content.styled(f"{failed} failed", "$state-dead")] if failed else []), *facts]
        pieces = [frame.format_loop_state(f"{verb:<8}", loop, is_on, False), *facts]
        pieces[: len(STATE_CELLS)] = map(_pad_content, pieces, STATE_CELLS)
        switch_label = " stop  " if is_on else " start  "
        key_hints = Content.assemble(
            (key, "b $accented"), (switch_label, "$muted"), (step, "b $accented"), (" step", "$muted")
        )
        variants = ((Content("   ").join(pieces[:count]), key_hints) for count in range(len(pieces), 0, -1))
        return frame.align_sides(*frame.choose_first_fitting(variants, width), width)

    def build_second_line(self, _width: int) -> frame.Sides:
        """Return for the header how many jobs are late for a loop in the counted queues."""
        queues, systems = self._find_covered_queues().values(), self.session.systems
        facts = [
            ("due", report.count_late_jobs("dispatch", queues, systems)),
            ("leases expired", report.count_late_jobs("reap", queues, systems)),
        ]
        pieces = [
            Content.assemble(
                (f"   {name} ", "$muted"), (formats.format_count(number), "$state-dead" if number else "$muted")
            )
            for name, number in facts
        ]
        return Content.assemble(("loops", "b $strong"), *pieces), Content()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the tables of the loops while the connection is lost, or restore them."""
        for name in ("next", "steps"):
            self._find_table(name).dimmed = is_dim

    def on_table_opened(self, event: Table.Opened) -> None:
        """Open the board of the queue of the selected next job."""
        if event.table.id == "next":
            system, queue, _id = str(event.id).split("\0", 2)
            self.host.open_board(Ref(system, queue))


def _format_nearest_job(verb: str, nearest_ms: int | None, late_count: int) -> list[Content]:
    """Return how late the loop's nearest job is, and in how long it is due. `nearest_ms` is negative for a late job.

    Of a system that only counts its late jobs, such as Sidekiq its leases, return how many are late.
    """
    if nearest_ms is None and late_count:
        return [Content.styled(f"{formats.format_count(late_count)} late", "$state-dead"), Content()]
    is_late = nearest_ms is not None and nearest_ms <= -1000
    late_text = f"{formats.format_age(-nearest_ms)} late" if nearest_ms is not None and is_late else "nothing late"
    no_job_text = "nothing due" if verb == "dispatch" else "no lease runs"
    is_in_future = nearest_ms is not None and nearest_ms > 0
    return [
        Content.styled(late_text, "$state-dead" if is_late else "$muted"),
        _format_fact("next in", formats.format_age(nearest_ms))
        if is_in_future
        else Content.styled("" if is_late else no_job_text, "$muted"),
    ]


def _format_fact(name: str, value: str) -> Content:
    return Content.assemble((f"{name} ", "$muted"), value)


def _pad_content(piece: Content, cells: int) -> Content:
    return Content.assemble(piece, " " * (cells - piece.cell_length))


def _build_upcoming_row(upcoming: UpcomingJob, system: System, format_name: Callable[[Ref], str]) -> Row:
    job = upcoming.job
    time_text = (
        formats.format_age(-upcoming.in_ms) + " late"
        if upcoming.in_ms <= -1000
        else "in " + formats.format_age(upcoming.in_ms)
    )
    attempts = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts)
    cells: tuple[Cell, ...] = (
        Piece(time_text, "critical" if upcoming.in_ms <= -5000 else "" if upcoming.in_ms <= 60_000 else "muted"),
        upcoming.verb,
        safe(format_name(upcoming.ref)),
        formats.shorten_job_id(job.id, ID_CELLS),
        format_field_value(job.name) or formats.NONE,
        format_field_value(job.worker) or formats.NONE,
        attempts,
        _format_target_place(upcoming, system),
    )
    return Row(f"{upcoming.ref.system}\0{upcoming.ref.queue}\0{upcoming.verb}{job.id!r}", cells)


def _format_target_place(upcoming: UpcomingJob, system: System) -> Piece:
    """Return the place to which the loop moves the job, `retried` for one of several places, or `gone` for none."""
    target_places = system.find_target_places(upcoming.verb, upcoming.job)
    if not target_places:
        return Piece("gone", "muted")
    first, *others = target_places
    return Piece("retried" if others else first, f"state-{system.place(first).state}")


def _yield_loop_steps(loops: dict[str, Loop]) -> Iterator[tuple[ScriptStep, Round, str]]:
    """Yield the steps of loops that moved jobs or failed, each with its round and verb.

    A round that failed as a whole yields one step without a queue.
    """
    from rqtui.engine.loops import ScriptStep

    for verb, loop in loops.items():
        for round_ in list(loop.rounds):
            if round_.error:
                yield ScriptStep(verb, Ref("", ""), at_s=round_.at_s, error=round_.error), round_, verb
            yield from ((step, round_, verb) for step in round_.steps if step.moved or step.error)


def _build_step_row(step: ScriptStep, round_: Round, verb: str, format_name: Callable[[Ref], str]) -> Row:
    values = {name: value for name, value in step.values.items() if name not in ("moved", "next_ms") and value}
    reply_text = ", ".join(f"{safe(name)} {safe(str(value))}" for name, value in values.items())
    cells: tuple[Cell, ...] = (
        formats.format_clock(step.at_s * 1000),
        verb,
        safe(format_name(step.ref)) if step.ref.queue else formats.NONE,
        Piece(formats.format_count(step.moved), "state-ready" if verb == "dispatch" else "state-reserved"),
        formats.format_duration(round(round_.ms, 1)) if round_.ms else formats.NONE,
        Piece(safe(step.error), "critical") if step.error else Piece(reply_text, "muted"),
    )
    return Row(f"{verb}\0{step.at_s}\0{step.ref}", cells)
