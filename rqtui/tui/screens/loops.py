"""The view of the loops: state of dispatcher and reaper, the jobs that each takes next, and their last steps.

States and steps are those of this screen. The next jobs are the heads of the places from which the loops take jobs,
read with each refresh. Loops of other screens and of `rqtui dispatch` and `rqtui reap` are recognised by their
connection names, which are read every 10 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
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
from rqtui.tui.view import View
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
    Column("id", "id", ID_CELLS),
    Column("worker", "worker", 8, weight=2, drop=3, style="muted"),
    Column("tried", "tried", 5, align="right", drop=2),
    Column("becomes", "becomes", 8),
)
_STEP_COLUMNS = (
    Column("time", "time", 8, style="muted"),
    Column("loop", "loop", 8),
    Column("queue", "queue", 10, weight=2, style="strong"),
    Column("moved", "moved", 6, align="right"),
    Column("ms", "took", 7, align="right", drop=1, style="muted"),
    Column("values", "answer", 14, weight=4, drop=2),
)


class Loops(View):
    """The dispatcher and the reaper of this screen."""

    NAME = "loops"
    DEFAULT_CSS = """
    Loops #states { height: 4; padding: 0 1; }
    Loops #tables { layout: vertical; height: 1fr; }
    Loops #tables.-wide { layout: horizontal; }
    Loops #tables.-wide Table { width: 5fr; height: 1fr; }
    Loops #tables.-wide #steps { width: 4fr; }
    """
    EMPTY: ClassVar[str] = "no job is due and no lease runs: nothing to take"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self.refs = refs
        self._queues: dict[Ref, Queue] = {}
        self._other_loops: dict[str, int] = {}
        self._asked_s = 0.0
        self._turn = 0
        self._text = Content()

    def compose_view(self) -> ComposeResult:
        """Yield the states of both loops, the table of next jobs, and the table of last steps."""
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
        """Focus the table of next jobs."""
        self._arrange()
        self._find_table("next").focus()

    def on_resize(self, _event: Resize) -> None:
        """Arrange the tables for the new size, and fit the states to the width."""
        self._arrange()
        self.call_after_refresh(self.show_steps)

    def _arrange(self) -> None:
        """Put the tables side by side on a wide terminal, and hide the steps on a low one."""
        width, height = self.app.size
        self.query_one("#tables").set_class(width >= SIDE_BY_SIDE_FROM, "-wide")
        self._find_table("steps").display = height >= STEPS_FROM_ROWS

    def _find_table(self, name: str) -> Table:
        return self.query_one(f"#{name}", Table)

    # -- the next refresh ---------------------------------------------------------------------------------------------

    def build_target(self) -> Target:
        """Return the queue for which the view was opened: a queue of another system has its own loop switches."""
        ref = self.refs[0] if len(self.refs) == 1 else None
        return Target(ref, queue=self._queues.get(ref) if ref else None)

    def list_scope(self) -> tuple[Ref, ...]:
        """Return the queues for which the view was opened."""
        return self.refs

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request the heads of the nearest queues and of the view's own, their counts, and those of others in turn."""
        own = [ref for ref in self.refs if ref in refs][:MAX_QUEUES]
        systems = self.session.systems
        heads = [
            head
            for verb in LOOPS
            for head in report.select_places(verb, self._find_covered_queues(), systems, MAX_QUEUES, own)
        ]
        heads = list(dict.fromkeys(heads))
        turn = [refs[(self._turn + step) % len(refs)] for step in range(min(MAX_COUNTED_AT_ONCE, len(refs)))]
        counted = dict.fromkeys([*own, *(ref for ref, _place in heads), *turn])
        return Focus(tuple(counted), tuple(PageSelection(ref, place, 0, HEAD_JOBS) for ref, place in heads))

    def _find_covered_queues(self) -> dict[Ref, Queue]:
        """Return the queues that the view covers: the opened queue of another system, else all counted queues."""
        ref = self.build_target().ref
        is_foreign = ref is not None and bool(self.session.find_foreign_system(ref))
        return (
            {queue_ref: queue for queue_ref, queue in self._queues.items() if queue_ref == ref}
            if is_foreign
            else self._queues
        )

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the states, the next jobs, and the last steps."""
        is_first = not self._queues
        refs = self.session.refs
        counted = {Ref(queue.system, queue.name): queue for queue in snapshot.queues}
        self._queues = {ref: queue for ref, queue in {**self._queues, **counted}.items() if ref in set(refs)}
        self._turn = (self._turn + MAX_COUNTED_AT_ONCE) % len(refs) if len(refs) > MAX_COUNTED_AT_ONCE else 0
        systems, covered = self.session.systems, self._find_covered_queues()
        next_jobs = (item for item in report.list_upcoming(snapshot, systems) if item.ref in covered)
        sorted_jobs = sorted(next_jobs, key=lambda item: item.in_ms)
        self._find_table("next").update(
            [_build_next_row(item, systems[item.ref.system], self.session.format_name) for item in sorted_jobs]
        )
        self._find_table("next").set_border_title(Piece(" next jobs ", "strong"))
        self.show_steps()
        if is_first and self._queues and not snapshot.pages:
            self.host.request_refresh()  # The counts now show which heads to read.
        if time.monotonic() - self._asked_s > CONNECTIONS_INTERVAL_S:
            self._asked_s = time.monotonic()
            self.session.call_engine(report.count_connections, self._store_other_loops)

    def _store_other_loops(self, message: CallFinished) -> None:
        if self.is_drawn:
            self._other_loops = message.result or {}
            self.show_steps()

    def show_steps(self) -> None:
        """Draw the states and the last steps of this screen's loops."""
        loops = self.host.find_relevant_loops()
        steps = sorted(_list_steps(self.session.loops), key=lambda step: -step[0].at_s)[:MAX_STEPS]
        self._find_table("steps").update([_build_step_row(*step, self.session.format_name) for step in steps])
        self._find_table("steps").set_border_title(Piece(" steps ", "strong"))
        pane = self.query_one("#states", Static)
        ref, width = self.build_target().ref, pane.content_size.width
        is_foreign = ref is not None and bool(self.session.find_foreign_system(ref))
        pane.border_title = Content(f" loops for {safe(ref.queue)} " if ref and is_foreign else " loops ")
        off_text = Content.styled("The loops are off: changes are not allowed here (read-only).", "$muted")
        lines = [
            self._format_state(verb, *loops[verb], width)
            if verb in loops
            else Content.styled(f"{verb}  not needed", "$muted")
            for verb in LOOPS
        ]
        text = Content("\n").join(lines if self.session.loops else [off_text])
        if not text.is_same(self._text):
            self._text = text
            pane.update(text, layout=False)

    def _format_state(self, verb: str, loop: Loop, is_on: bool, width: int) -> Content:
        """Format the state of one loop: whether it runs, its rate, batch size, delay, next job, and failures."""
        rounds = list(loop.rounds)
        last = rounds[-1] if rounds else None
        systems = self.session.systems
        due_ms = [
            ms
            for queue in self._find_covered_queues().values()
            if (ms := report.compute_next_ms(verb, queue, systems)) is not None
        ]
        facts = _format_next(verb, min(due_ms, default=None))
        key, step = (",", "<") if verb == "dispatch" else (".", ">")
        if last and is_on:
            facts.append(
                _format_fact(
                    "tries again after" if last.error else "looks every", formats.format_duration(last.wait_s * 1000)
                )
            )
        facts += [_format_fact("at most", f"{last.batch} at once")] if last and last.batch else []
        others = self._other_loops.get(verb, 0) - (loop.is_running and any(round_.at_s for round_ in rounds))
        facts += [_format_fact("running elsewhere", str(others))] if others > 0 else []
        failed = sum(bool(round_.error) or any(step.error for step in round_.steps) for round_ in rounds)
        facts = [*([Content.styled(f"{failed} failed", "$state-dead")] if failed else []), *facts]
        pieces = [frame.format_loop_state(f"{verb:<8}", loop, is_on, False), *facts]
        pieces = [_pad(piece, cells) for piece, cells in zip(pieces, chain(STATE_CELLS, repeat(0)), strict=False)]
        switch = " stop  " if is_on else " start  "
        keys = Content.assemble((key, "b $accented"), (switch, "$muted"), (step, "b $accented"), (" step", "$muted"))
        shorter = ((Content("   ").join(pieces[:most]), keys) for most in range(len(pieces), 0, -1))
        return frame.align_sides(*frame.choose_first_fitting(shorter, width), width)

    def build_second_line(self, _width: int) -> frame.Sides:
        """Return how many jobs are late for a loop in the counted queues."""
        queues, systems = self._find_covered_queues().values(), self.session.systems
        facts = [
            ("due", report.count_late("dispatch", queues, systems)),
            ("leases expired", report.count_late("reap", queues, systems)),
        ]
        pieces = [
            Content.assemble(
                (f"   {name} ", "$muted"), (formats.format_count(number), "$state-dead" if number else "$muted")
            )
            for name, number in facts
        ]
        return Content.assemble(("loops", "b $strong"), *pieces), Content()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the tables while the connection is lost, or restore them."""
        for name in ("next", "steps"):
            self._find_table(name).dimmed = is_dim

    def on_table_opened(self, event: Table.Opened) -> None:
        """Open the board of the queue of the selected next job."""
        if event.table.id == "next":
            system, queue, _id = str(event.id).split("\0", 2)
            self.host.open_board(Ref(system, queue))


def _format_next(verb: str, nearest_ms: int | None) -> list[Content]:
    """Return how late the loop's nearest job is, and in how long it is due. `nearest_ms` is negative for late jobs."""
    is_late = nearest_ms is not None and nearest_ms <= -1000
    late = f"{formats.format_age(-nearest_ms)} late" if nearest_ms is not None and is_late else "nothing late"
    none = "nothing due" if verb == "dispatch" else "no lease runs"
    is_ahead = nearest_ms is not None and nearest_ms > 0
    return [
        Content.styled(late, "$state-dead" if is_late else "$muted"),
        _format_fact("next in", formats.format_age(nearest_ms))
        if is_ahead
        else Content.styled("" if is_late else none, "$muted"),
    ]


def _format_fact(name: str, value: str) -> Content:
    return Content.assemble((f"{name} ", "$muted"), value)


def _pad(piece: Content, cells: int) -> Content:
    return Content.assemble(piece, " " * max(0, cells - piece.cell_length))


def _build_next_row(coming: UpcomingJob, system: System, named: Callable[[Ref], str]) -> Row:
    job = coming.job
    when = (
        formats.format_age(-coming.in_ms) + " late"
        if coming.in_ms <= -1000
        else "in " + formats.format_age(max(0, coming.in_ms))
    )
    tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts or formats.ZERO)
    cells: tuple[Cell, ...] = (
        Piece(when, "critical" if coming.in_ms <= -5000 else "" if coming.in_ms <= 60_000 else "muted"),
        coming.verb,
        safe(named(coming.ref)),
        formats.shorten_job_id(job.id, ID_CELLS),
        format_field_value(job.worker) or formats.ZERO,
        tried,
        _format_goal(coming, system),
    )
    return Row(f"{coming.ref.system}\0{coming.ref.queue}\0{coming.verb}{job.id!r}", cells)


def _format_goal(coming: UpcomingJob, system: System) -> Piece:
    """Return the place to which the loop moves the job, `retried` for one of several places, or `gone` for none."""
    goals = system.find_target_places(coming.verb, coming.job)
    if not goals:
        return Piece("gone", "muted")
    return Piece(goals[0] if len(goals) == 1 else "retried", f"state-{system.place(goals[0]).state}")


def _list_steps(loops: dict[str, Loop]) -> Iterator[tuple[ScriptStep, Round, str]]:
    """Yield the steps that moved jobs or failed; a round that failed as a whole yields one step without a queue."""
    from rqtui.engine.loops import ScriptStep

    for verb, loop in loops.items():
        for round_ in list(loop.rounds):
            if round_.error:
                yield ScriptStep(verb, Ref("", ""), at_s=round_.at_s, error=round_.error), round_, verb
            yield from ((step, round_, verb) for step in round_.steps if step.moved or step.error)


def _build_step_row(step: ScriptStep, round_: Round, verb: str, named: Callable[[Ref], str]) -> Row:
    values = {name: n for name, n in step.values.items() if name not in ("moved", "next_ms") and n}
    answer = ", ".join(f"{safe(name)} {safe(str(value))}" for name, value in values.items())
    cells: tuple[Cell, ...] = (
        formats.format_clock(step.at_s * 1000),
        verb,
        safe(named(step.ref)) if step.ref.queue else formats.ZERO,
        Piece(formats.format_count(step.moved), "state-ready" if verb == "dispatch" else "state-reserved"),
        formats.format_duration(round(round_.ms, 1)) if round_.ms else formats.ZERO,
        Piece(safe(step.error), "critical") if step.error else Piece(answer, "muted"),
    )
    return Row(f"{verb}\0{step.at_s}\0{step.ref}", cells)
