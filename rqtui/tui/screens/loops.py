"""The view of the loops: the state of dispatcher and reaper, the next jobs of each, and the last steps.

Their states and steps are this screen's own; the next jobs are the heads of the places they take from, which go
along in the tick's round trip. Loops of other screens and of `rqtui dispatch` and `rqtui reap` are known by the names
of their connections, which are asked for now and then.
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

from rqtui.layout.layout import Layout
from rqtui.model import Focus, PageWish, Queue, Ref, Snapshot
from rqtui.reports import loops as report
from rqtui.reports.loops import LOOPS, Coming
from rqtui.text import formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop, Round, Step
    from rqtui.engine.ticker import Answered

AT_ONCE = 100  # queues that are counted per tick; of more, some in turn
QUEUES = 4  # whose heads are looked at, of each loop: those that are nearest
HEAD = 12  # jobs of each
STEPS = 200  # that are listed
ELSEWHERE_S = 10.0  # between two looks for loops of others
WIDE = 140  # cells of a terminal, from which on the tables stand side by side
LOW = 20  # rows of a terminal, below which the steps have no room
CELLS = (20, 12, 13, 18)  # of a loop's first words, so that those of both stand under each other
ID = 12  # cells of an id: its end, which tells generated ones apart

_NEXT = (
    Column("when", "when", 9, align="right"),
    Column("loop", "loop", 8),
    Column("queue", "queue", 7, weight=4, style="strong", drop=1),
    Column("id", "id", ID),
    Column("worker", "worker", 8, weight=2, drop=3, style="muted"),
    Column("tried", "tried", 5, align="right", drop=2),
    Column("becomes", "becomes", 8),
)
_STEPS = (
    Column("time", "time", 8, style="muted"),
    Column("loop", "loop", 8),
    Column("queue", "queue", 10, weight=2, style="strong"),
    Column("moved", "moved", 6, align="right"),
    Column("ms", "took", 7, align="right", drop=1, style="muted"),
    Column("values", "answer", 14, weight=4, drop=2),
)


class Loops(View):
    """Dispatcher and reaper."""

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
        self._elsewhere: dict[str, int] = {}
        self._asked_s = 0.0
        self._turn = 0
        self._text = Content()

    def compose_view(self) -> ComposeResult:
        """The two states, the next jobs, the last steps."""
        with Static("", id="states", classes="pane") as pane:
            pane.border_title = Content(" loops ")
        with Container(id="tables"):
            yield Table(_NEXT, empty=self.EMPTY, id="next", has_marks=False)
            yield Table(
                _STEPS,
                empty="moved nothing yet: < and > make one step, , and . switch them",
                id="steps",
                has_marks=False,
            )

    def on_mount(self) -> None:
        """The keys go to the table of the next jobs."""
        self._arrange()
        self._table("next").focus()

    def on_resize(self, _event: Resize) -> None:
        """Side by side where there is room; without the steps where there is little; the states as wide as it is."""
        self._arrange()
        self.call_after_refresh(self.show_steps)

    def _arrange(self) -> None:
        width, height = self.app.size
        self.query_one("#tables").set_class(width >= WIDE, "-wide")
        self._table("steps").display = height >= LOW

    def _table(self, name: str) -> Table:
        return self.query_one(f"#{name}", Table)

    # -- what the app asks --------------------------------------------------------------------------------------------

    def target(self) -> Target:
        """The queue that it was opened on: of another system, its loops are switched."""
        ref = self.refs[0] if len(self.refs) == 1 else None
        return Target(ref, queue=self._queues.get(ref) if ref else None)

    def scope(self) -> tuple[Ref, ...]:
        """The same queues."""
        return self.refs

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """The heads of its queues and of those that are nearest; the counts of these, and of others in turn."""
        mine = [ref for ref in self.refs if ref in refs][:QUEUES]
        layouts = self.session.layouts
        heads = [head for verb in LOOPS for head in report.heads(verb, self._about(), layouts, QUEUES, mine)]
        heads = list(dict.fromkeys(heads))
        turn = [refs[(self._turn + step) % len(refs)] for step in range(min(AT_ONCE, len(refs)))]
        counted = dict.fromkeys([*mine, *(ref for ref, _place in heads), *turn])
        return Focus(tuple(counted), tuple(PageWish(ref, place, 0, HEAD) for ref, place in heads))

    def _about(self) -> dict[Ref, Queue]:
        """The queues that it tells of: the one of another system that it was opened on, else all that are known."""
        ref = self.target().ref
        is_foreign = ref is not None and bool(self.session.system_of(ref))
        return {at: queue for at, queue in self._queues.items() if at == ref} if is_foreign else self._queues

    def show(self, snapshot: Snapshot) -> None:
        """Draws the states, the next jobs, and the last steps."""
        is_first = not self._queues
        refs = self.session.refs
        counted = {Ref(queue.layout, queue.name): queue for queue in snapshot.queues}
        self._queues = {ref: queue for ref, queue in {**self._queues, **counted}.items() if ref in set(refs)}
        self._turn = (self._turn + AT_ONCE) % len(refs) if len(refs) > AT_ONCE else 0
        layouts, about = self.session.layouts, self._about()
        found = (each for each in report.coming(snapshot, layouts) if each.ref in about)
        coming = sorted(found, key=lambda each: each.in_ms)
        self._table("next").update([_next_row(each, layouts[each.ref.layout], self.session.named) for each in coming])
        self._table("next").set_title(Piece(" next jobs ", "strong"))
        self.show_steps()
        if is_first and self._queues and not snapshot.pages:
            self.host.look_again()  # now it is known which heads to look at
        if time.monotonic() - self._asked_s > ELSEWHERE_S:
            self._asked_s = time.monotonic()
            self.session.ask(report.connections, self._heard)

    def _heard(self, answered: Answered) -> None:
        if self.is_drawn:
            self._elsewhere = answered.result or {}
            self.show_steps()

    def show_steps(self) -> None:
        """What the loops of this screen do and did."""
        shown = self.host.shown_loops()
        steps = sorted(_steps(self.session.loops), key=lambda step: -step[0].at_s)[:STEPS]
        self._table("steps").update([_step_row(*step, self.session.named) for step in steps])
        self._table("steps").set_title(Piece(" steps ", "strong"))
        pane = self.query_one("#states", Static)
        ref, width = self.target().ref, pane.content_size.width
        is_foreign = ref is not None and bool(self.session.system_of(ref))
        pane.border_title = Content(f" loops for {safe(ref.queue)} " if ref and is_foreign else " loops ")
        none = Content.styled("The loops are off: changes are not allowed here (read-only).", "$muted")
        lines = [
            self._state(verb, *shown[verb], width) if verb in shown else Content.styled(f"{verb}  not needed", "$muted")
            for verb in LOOPS
        ]
        text = Content("\n").join(lines if self.session.loops else [none])
        if not text.is_same(self._text):
            self._text = text
            pane.update(text, layout=False)

    def _state(self, verb: str, loop: Loop, is_on: bool, width: int) -> Content:
        """A line: whether it runs and how fast, what it takes at once, how late it is, what comes, what went wrong."""
        rounds = list(loop.rounds)
        last = rounds[-1] if rounds else None
        layouts = self.session.layouts
        due = [ms for queue in self._about().values() if (ms := report.next_ms(verb, queue, layouts)) is not None]
        nearest = min(due, default=None)
        key, step = (",", "<") if verb == "dispatch" else (".", ">")
        is_late = nearest is not None and nearest <= -1000
        late = f"{formats.age(-nearest)} late" if nearest is not None and is_late else "nothing late"
        facts = [Content.styled(late, "$state-dead" if is_late else "$muted")]
        none = "nothing due" if verb == "dispatch" else "no lease runs"
        is_near = nearest is not None and nearest > 0
        facts += [
            _fact("next in", formats.age(nearest)) if is_near else Content.styled("" if is_late else none, "$muted")
        ]
        if last and is_on:
            facts.append(
                _fact("tries again after" if last.error else "looks every", formats.duration(last.wait_s * 1000))
            )
        facts += [_fact("at most", f"{last.batch} at once")] if last and last.batch else []
        others = self._elsewhere.get(verb, 0) - (loop.is_running and any(r.at_s for r in rounds))
        facts += [_fact("running elsewhere", str(others))] if others > 0 else []
        failed = sum(bool(done.error) or any(step.error for step in done.steps) for done in rounds)
        facts = [*([Content.styled(f"{failed} failed", "$state-dead")] if failed else []), *facts]
        pieces = [chrome.loop_words(f"{verb:<8}", loop, is_on, False), *facts]
        pieces = [_padded(piece, cells) for piece, cells in zip(pieces, chain(CELLS, repeat(0)), strict=False)]
        switch = " stop  " if is_on else " start  "
        keys = Content.assemble((key, "b $accented"), (switch, "$muted"), (step, "b $accented"), (" step", "$muted"))
        shorter = ((Content("   ").join(pieces[:most]), keys) for most in range(len(pieces), 0, -1))
        return chrome.spread(*chrome.first_that_fits(shorter, width), width)

    def second_line(self, _width: int) -> chrome.Sides:
        """How many jobs are late for a loop, over the queues that were counted."""
        queues, layouts = self._about().values(), self.session.layouts
        facts = [
            ("due", report.late("dispatch", queues, layouts)),
            ("leases expired", report.late("reap", queues, layouts)),
        ]
        said = [
            Content.assemble((f"   {name} ", "$muted"), (formats.count(n), "$state-dead" if n else "$muted"))
            for name, n in facts
        ]
        return Content.assemble(("loops", "b $strong"), *said), Content()

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        for name in ("next", "steps"):
            self._table(name).dimmed = is_dim

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter on somebody who is next opens the board."""
        if event.table.id == "next":
            layout, queue, _id = str(event.id).split("\0", 2)
            self.host.open_board(Ref(layout, queue))


def _fact(name: str, value: str) -> Content:
    return Content.assemble((f"{name} ", "$muted"), value)


def _padded(piece: Content, cells: int) -> Content:
    return Content.assemble(piece, " " * max(0, cells - piece.cell_length))


def _next_row(coming: Coming, layout: Layout, named: Callable[[Ref], str]) -> Row:
    job = coming.job
    when = formats.age(-coming.in_ms) + " late" if coming.in_ms <= -1000 else "in " + formats.age(max(0, coming.in_ms))
    tried = f"{job.attempts}/{job.max_attempts}" if job.max_attempts else str(job.attempts or formats.ZERO)
    cells: tuple[Cell, ...] = (
        Piece(when, "critical" if coming.in_ms <= -5000 else "" if coming.in_ms <= 60_000 else "muted"),
        coming.verb,
        safe(named(coming.ref)),
        formats.job_id(job.id, ID),
        safe(job.worker) or formats.ZERO,
        tried,
        _goal(coming, layout),
    )
    return Row(f"{coming.ref.layout}\0{coming.ref.queue}\0{coming.verb}{job.id!r}", cells)


def _goal(coming: Coming, layout: Layout) -> Piece:
    """Where the job goes when the loop takes it; `retried` where that is one of several places."""
    goals = layout.goals(coming.verb, coming.job)
    if not goals:
        return Piece("gone", "muted")
    return Piece(goals[0] if len(goals) == 1 else "retried", f"state-{layout.place(goals[0]).state}")


def _steps(loops: dict[str, Loop]) -> Iterator[tuple[Step, Round, str]]:
    """The steps that moved or failed; of a round that failed as a whole, one without a queue."""
    from rqtui.engine.loops import Step

    for verb, loop in loops.items():
        for done in list(loop.rounds):
            if done.error:
                yield Step(verb, Ref("", ""), at_s=done.at_s, error=done.error), done, verb
            yield from ((step, done, verb) for step in done.steps if step.moved or step.error)


def _step_row(step: Step, done: Round, verb: str, named: Callable[[Ref], str]) -> Row:
    values = {name: n for name, n in step.values.items() if name not in ("moved", "next_ms") and n}
    answer = ", ".join(f"{safe(name)} {safe(str(value))}" for name, value in values.items())
    cells: tuple[Cell, ...] = (
        formats.clock(step.at_s * 1000),
        verb,
        safe(named(step.ref)) if step.ref.queue else formats.ZERO,
        Piece(formats.count(step.moved), "state-ready" if verb == "dispatch" else "state-reserved"),
        formats.duration(round(done.ms, 1)) if done.ms else formats.ZERO,
        Piece(safe(step.error), "critical") if step.error else Piece(answer, "muted"),
    )
    return Row(f"{verb}\0{step.at_s}\0{step.ref}", cells)
