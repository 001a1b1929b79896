"""The view of workers: what each does and since when, and which jobs the silent ones still hold.

It rides in the tick: of each queue in sight the list of workers and a page of what is reserved. Keys for jobs act on
the jobs that the worker under the cursor holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import filters
from rqtui.layout.layout import Ask
from rqtui.model import Focus, Job, Queue, Ref, Snapshot, State
from rqtui.reports import workers
from rqtui.reports.workers import TROUBLED, Seat, Standing
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import sides
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text import LongText

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.engine.ticker import Answered
    from rqtui.verbs import Verb

_ORDERS: dict[str, Callable[[Seat], tuple[object, ...]]] = {
    "trouble first": workers.rank,
    "name": lambda seat: (seat.name, seat.ref.queue),
    "longest held": lambda seat: (seat.since_ms or float("inf"), seat.name),
    "last beat": lambda seat: (seat.worker.beat_ms if seat.worker else 0, seat.name),
}
ID_CELLS = 18
MOST_ROWS = 500  # drawn at each tick, since their ages go on
FACT_CELLS = 8  # that what a system tells of its workers has at least, in a column of its own
FACT_DROPS = (1, 3)
IN_TURN = 100  # queues that are counted in turn, of more than a screen is about
_HUES = {
    Standing.GONE: "state-dead",
    Standing.LATE: "state-dead",
    Standing.EXPIRED: "state-dead",
    Standing.STOPPING: "state-reserved",
    Standing.QUIET: "state-reserved",
    Standing.UNSEEN: "muted",
    Standing.RUNNING: "state-ready",
    Standing.IDLE: "muted",
}
EMPTY = "no worker gives a sign of life, and nothing is reserved"


class Workers(View):
    """The workers of some queues; of all of them where none is named."""

    NAME = "workers"
    FILTER_HINT = "part of a worker, a host, a job or a queue; !term turns it round"
    SORTS = tuple(_ORDERS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "state": "trouble first",
        "worker": "name",
        "since": "longest held",
        "beat": "last beat",
    }
    DEFAULT_CSS: ClassVar[str] = "Workers Table { height: 2fr; } Workers #about { height: 1fr; padding: 0 1; }"

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__()
        self.refs = self._named = refs
        self.sort = self.SORTS[0]
        self._expression, self._accepts = "", filters.parse("")
        self._known: dict[Ref, Queue] = {}
        self._asked: tuple[Ref, ...] = ()
        self._asks: dict[Ref, tuple[Ask[Any], ...]] = {}
        self._seats: tuple[Seat, ...] = ()
        self._facts: tuple[str, ...] = ()  # the names of those that have columns
        self._problems: tuple[str, ...] = ()
        self._read_of: tuple[Ref, ...] | None = None
        self._turn = 0
        self._now_ms = 0

    def compose_view(self) -> ComposeResult:
        """The table, and below it what a system knows of the worker under the cursor and others do not."""
        is_ascii = self.session.settings.is_ascii
        yield Table(self._columns(), empty="looking …", id="workers", has_marks=False, ascii_only=is_ascii)
        yield LongText(id="about", classes="pane")

    def on_mount(self) -> None:
        """The keys go to the table."""
        self.table.focus()

    @property
    def table(self) -> Table:
        """The workers."""
        return self.query_one("#workers", Table)

    def _columns(self) -> tuple[Column, ...]:
        fit = elision.among(safe(self.session.named(ref)) for ref in self.session.refs)
        among = elision.among(safe(seat.name) for seat in self._seats)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=3, style="muted", fit=fit),)
        return (
            Column("state", "state", 13),
            Column("worker", "worker", 12 if self._facts else 14, weight=2, style="strong", fit=among),
            *queue,
            Column("holds", "holds", 5, align="right", drop=4),
            *self._fact_columns(),
            Column("job", "job", 10 if self._facts else 12, weight=3, drop=2),
            Column("id", "id", ID_CELLS, drop=6),
            Column("since", "for", 6, align="right", style="muted"),
            Column("left", "lease", 6, align="right", drop=5),
            Column("beat", "beat", 6, align="right"),
            Column("up", "up", 6, align="right", style="muted", drop=8),
            Column("where", "pid @ host", 12, weight=1, style="muted", drop=7),
        )

    def _fact_columns(self) -> tuple[Column, ...]:
        texts = {name: [workers.fact(seat, name) for seat in self._seats] for name in self._facts}
        return tuple(
            Column(f"fact {name}", safe(name), min(FACT_CELLS, cells), weight=2, most=cells, drop=drop)
            for (name, shown), drop in zip(texts.items(), FACT_DROPS, strict=False)
            for cells in [max(map(formats.cell_len, (safe(name), *shown)))]
        )

    # -- what the app asks ----------------------------------------------------------------------------------------

    def in_scope(self, refs: Sequence[Ref]) -> list[Ref]:
        """The queues it is about."""
        return [*self.refs] or list(refs)

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """Counts, lists of workers and what is reserved; of more than a hundred queues those that are busy."""
        scope, layouts = self.in_scope(refs), self.session.layouts
        busy = frozenset(ref for ref, queue in self._known.items() if _is_busy(queue))
        self._asked = workers.chosen(scope, layouts, busy)
        others = [scope[(self._turn + step) % len(scope)] for step in range(min(IN_TURN, len(scope)))]
        asks = workers.grouped(self._asks_of(ref) for ref in self._asked)
        return Focus(tuple(dict.fromkeys([*self._asked, *others])), asks=asks)

    def _asks_of(self, ref: Ref) -> tuple[Ask[Any], ...]:
        """The same asks as before while they would send the same: so that an equal wish can be told."""
        fresh = workers.asks(self.session.layouts[ref.layout], ref.queue, len(self._asked))
        known = self._asks.get(ref, ())
        if [ask.calls for ask in fresh] != [ask.calls for ask in known]:
            self._asks[ref] = fresh
        return self._asks.get(ref, ())

    def show(self, snapshot: Snapshot) -> None:
        """The workers of a new picture."""
        if any(len(snapshot.answers.get(group, ())) != len(self._asked) for group in workers.GROUPS):
            return  # a picture that was asked for by the view below, or before the queues were known
        self._now_ms = snapshot.taken_ms
        self._known.update((Ref(queue.layout, queue.name), queue) for queue in snapshot.queues)
        if len(self.in_scope(self.session.refs)) > IN_TURN:
            self._turn += IN_TURN
        if not self.is_frozen or self._read_of != self.refs:  # of these there are no rows yet that could stand
            self._read_of = self.refs
            self._seats, self._problems = workers.read(self._asked, snapshot.answers, self._now_ms)
            self._facts = workers.fact_names(self._seats)
        self._draw()

    def _draw(self) -> None:
        self.table.empty = self._sentence()
        if (columns := self._columns()) != self.table.painter.columns:  # workers with other names
            self.table.set_columns(columns)
        self.table.update([self._row(seat) for seat in self._shown()[:MOST_ROWS]])
        about = safe(self.refs[0].queue) if len(self.refs) == 1 else f"{len(self.refs) or 'all'} queues"
        wanted = [Piece(f"/{safe(self._expression)} ", "accented")] if self._expression else []
        self.table.set_title(
            Piece(" workers ", "strong"), Piece(f"of {formats.elide_middle(about, 32)} ", "muted"), *wanted
        )
        self.table.set_subtitle(*self._below())
        self._show_about()
        self.host.show_header()
        self.host.show_keys()

    def _below(self) -> list[Piece]:
        """What the frame says below: what could not be read, what was left out, what to press for the worst."""
        words = [Piece("frozen: p", "accented")] if self.is_frozen else []
        words += [Piece(safe(self._problems[0]), "critical")] if self._problems else []
        able = [ref for ref in self.in_scope(self.session.refs) if self._keeps_workers(ref)]
        if len(able) > len(self._asked):
            words.append(Piece(f"{len(self._asked)} of {formats.count(len(able))} queues", "warning"))
        if len(self._seats) > MOST_ROWS:
            words.append(Piece(f"the first {MOST_ROWS}", "warning"))
        if any(not seat.is_whole and seat.jobs for seat in self._seats):
            words.append(Piece("of the leases that end first", "warning"))
        seat = self.seat()
        if seat is not None and seat.standing in TROUBLED and seat.jobs:
            words.append(Piece(_help(seat, self._now_ms, self._keys_of(seat)), "critical"))
        elif seat is not None and seat.worker is not None:
            can = self.session.layouts[seat.ref.layout].can
            told = [words for verb, words in _TOLD.items() if can(verb) and not self.session.is_read_only]
            if can("cancel") and seat.jobs and not self.session.is_read_only:
                told.append("to cancel its job" if len(seat.jobs) == 1 else "to cancel its jobs")
            words += [Piece(keys.renamed(f": tells it {' or '.join(told)}"), "muted")] if told else []
        pieces = [piece for word in words for piece in (Piece(" · ", "muted"), word)][1:]
        return [Piece(" "), *pieces, Piece(" ")] if pieces else []

    def _show_about(self) -> None:
        """Only where a system knows more of its workers than the row says."""
        about, seat = self.query_one("#about", LongText), self.seat()
        about.display = any(_knows_more(each) for each in self._seats)
        if not about.display:
            return
        name = formats.elide_middle(safe(seat.name), 40) if seat else "worker"
        about.border_title = Content.styled(f" {name} ", "b $strong")
        about.show(_about(seat, self._now_ms, about.scrollable_content_region.width) if seat else Content())

    def _keys_of(self, seat: Seat) -> Collection[str]:
        """Which of `release` and `reap` help here now."""
        released = ["release"] if self.host.check_verb("L") is not False else []
        can_reap = self.session.layouts[seat.ref.layout].can("reap") and not self.session.is_read_only
        return [*released, *(["reap"] if can_reap else [])]

    def _sentence(self) -> str:
        scope = self.in_scope(self.session.refs)
        silent = sorted({ref.layout for ref in scope if not self._keeps_workers(ref)})
        if self._expression and self._seats:
            return f"no worker matches /{safe(self._expression)}: {keys.renamed('/ and Esc clear it')}"
        if scope and not any(self._keeps_workers(ref) for ref in scope):
            keep = "keeps" if len(silent) == 1 else "keep"
            return f"{' and '.join(silent)} {keep} no names of workers: {keys.key('back')} goes back"
        return EMPTY

    def _keeps_workers(self, ref: Ref) -> bool:
        return ref.layout in self.session.layouts and workers.keeps_workers(self.session.layouts[ref.layout])

    def _shown(self) -> list[Seat]:
        return sorted((seat for seat in self._seats if self._accepts(_as_job(seat))), key=_ORDERS[self.sort])

    def _row(self, seat: Seat) -> Row:
        now_ms, job, worker = self._now_ms, seat.job, seat.worker
        hue = _HUES[seat.standing]
        more = f" +{len(seat.queues) - 1}" if len(seat.queues) > 1 else ""
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (safe(self.session.named(seat.ref)) + more,)
        id = job.id if job else worker.job if worker else b""
        cells = (
            (Piece("● ", hue), Piece(seat.standing.value, hue if seat.standing in TROUBLED else "")),
            safe(seat.name),
            *queue,
            Piece(_held([seat]), "state-reserved" if seat.jobs else "muted"),
            *(workers.fact(seat, name) or Piece(formats.ZERO, "muted") for name in self._facts),
            safe(job.name) if job and job.name else Piece(formats.ZERO, "muted"),
            formats.job_id(id, ID_CELLS) if id else Piece(formats.ZERO, "muted"),
            formats.ZERO if seat.since_ms is None else formats.age(max(0, now_ms - seat.since_ms)),
            _left(seat, now_ms),
            _beat(seat, now_ms),
            formats.age(now_ms - worker.started_ms) if worker and worker.started_ms else formats.ZERO,
            _where(seat),
        )
        return Row(seat.id, cells)

    def second_line(self, width: int) -> chrome.Sides:
        """How many workers there are, how many of them are in trouble, and what they hold."""
        troubled = [seat for seat in self._seats if seat.standing in TROUBLED]
        running = sum(seat.standing is Standing.RUNNING for seat in self._seats)
        stuck = sum(len(seat.jobs) for seat in troubled)
        number = len(self._seats)
        left = Content.assemble(
            (formats.numbered(number, "worker", 7), "b $strong"),
            ("   running ", "$muted"),
            (formats.count(running), "$state-ready" if running else "$data"),
            ("   hold ", "$muted"),
            (_held(self._seats), "$state-reserved" if any(seat.jobs for seat in self._seats) else "$data"),
            ("   silent ", "$muted"),
            (formats.count(len(troubled)), "$state-dead" if troubled else "$data"),
            (f" with {formats.numbered(stuck, 'job')}" if stuck else "", "$state-dead"),
        )
        return chrome.first_that_fits(sides(left, self.sort, bool(self.refs)), width)

    def seat(self) -> Seat | None:
        """The worker under the cursor."""
        wanted = self.table.cursor_id
        return next((seat for seat in self._seats if seat.id == wanted), None)

    def target(self) -> Target:
        """The jobs that the worker under the cursor holds, those of one queue, and the worker itself."""
        seat = self.seat()
        if seat is None:
            ref = self.refs[0] if len(self.refs) == 1 else None
            return Target(ref, queue=self._known.get(ref) if ref else None)
        names = (seat.name,) if seat.worker is not None else ()
        held = tuple(job for job in seat.jobs if job.queue == seat.ref.queue)
        place = held[0].place if held else ""
        state = State.RESERVED if held else None
        return Target(seat.ref, place, held, queue=self._known.get(seat.ref), state=state, workers=names)

    def begins(self, verb: Verb) -> bool:
        """A verb on jobs is about those that the worker holds, and not about the worker."""
        if verb.scope != "job":
            return False
        seat = self.seat()
        self.host.begin(verb, replace(self.target(), workers=(), holder=seat.name if seat else ""))
        return True

    def scope(self) -> tuple[Ref, ...]:
        """From one side view to another the queues stay the same."""
        return self.refs

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.table.dimmed = is_dim

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_widen(self) -> None:
        """All queues instead of those that it was opened with, and back."""
        self.refs = self._named if not self.refs else ()
        self._seats, self._asked = (), ()
        self.table.reset()
        self._draw()
        self.host.look_again()

    def action_sort(self) -> None:
        """The next sort."""
        self.sort_by_the_next()

    def sorted_anew(self) -> None:
        """Another order."""
        self._draw()

    def filtered(self, expression: str) -> None:
        """Shows the workers that fit; the grammar is that of jobs."""
        self._accepts, self._expression = filters.parse(expression), expression
        self._draw()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Other keys may apply to another worker."""
        self.table.set_subtitle(*self._below())
        self._show_about()
        self.host.show_keys()

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the job that it does."""
        seat = self.seat()
        if seat is None:
            return
        if seat.job is not None:
            self.host.open_job(seat.ref, seat.job)
        elif seat.worker is not None and seat.worker.job:
            self.session.ask(partial(_looked_up, seat, seat.worker.job), self._looked_up)
        else:
            self.host.say(f"{seat.name} holds no job.")

    def _looked_up(self, answer: Answered) -> None:
        if answer.error or answer.result is None:
            self.host.say(answer.error or "It has finished that job.")
        elif self.is_on_top:
            self.host.open_job(*answer.result)


def _is_busy(queue: Queue) -> bool:
    """Whether somebody works on it, or did until lately."""
    return bool(queue.count_in(State.RESERVED) or queue.workers or queue.counters.get("registered"))


def _help(seat: Seat, now_ms: int, able: Collection[str]) -> str:
    """What becomes of the jobs of a silent worker, and the keys that help."""
    number = len(seat.jobs)
    jobs = "its job" if number == 1 else f"its {number} jobs"
    over = sum(job.deadline_ms is not None and job.deadline_ms < now_ms for job in seat.jobs)
    helps = ["L releases"] if "release" in able else []
    helps += [f"> reaps {over}"] if over and "reap" in able else []
    if not helps:
        return f"{jobs} {'waits' if number == 1 else 'wait'} for a reaper"
    return f"{jobs}: " + keys.renamed(", ".join(helps))


_TOLD = {"quiet": "to be quiet", "stop": "to stop"}  # by verb


def _looked_up(seat: Seat, id: bytes, engine: Engine) -> tuple[Ref, Job] | None:
    """The job that a worker says it does, in whichever of its queues; None where it is in none."""
    for queue in seat.queues:
        ref = Ref(seat.ref.layout, queue)
        if (job := engine.job(ref, id, 0)) is not None:
            return ref, job
    return None


def _knows_more(seat: Seat) -> bool:
    worker = seat.worker
    return worker is not None and bool(worker.facts or worker.state or len(worker.queues) > 1)


def _about(seat: Seat, now_ms: int, width: int) -> Content:
    """What its system says of a worker."""
    worker = seat.worker
    known = [("state", safe(worker.state) if worker else ""), ("queues", ", ".join(map(safe, seat.queues)))]
    facts = worker.facts if worker else ()
    on = jobs.sheet(facts, width)
    lines = [on.line(name, value) for name, value in known if value]
    return Content("\n").join([*lines, *([jobs.facts(facts, now_ms, on=on)] if facts else [])])


def _as_job(seat: Seat) -> Job:
    """What the filter looks at."""
    job, worker = seat.job, seat.worker
    words = to_bytes(f"{' '.join(seat.queues)} {seat.standing} {worker.host if worker else ''}")
    id = job.id if job else worker.job if worker else b""
    return Job(id, "", "", "", State.RESERVED, b"", name=job.name if job else "", worker=seat.name, body=words)


def _held(seats: Iterable[Seat]) -> str:
    """How many jobs they hold; `~` where more may be theirs than were looked at."""
    counted = [seat for seat in seats if seat.jobs]
    return formats.count(sum(len(seat.jobs) for seat in counted), exact=all(seat.is_whole for seat in counted))


def _left(seat: Seat, now_ms: int) -> Cell:
    """What is left of the lease that ends first."""
    ends = [job.deadline_ms for job in seat.jobs if job.deadline_ms is not None]
    if not ends:
        return Piece(formats.ZERO, "muted")
    left_ms = min(ends) - now_ms
    return Piece(formats.age(left_ms), "state-dead" if left_ms < 0 else "muted")


def _beat(seat: Seat, now_ms: int) -> Cell:
    if seat.worker is None:
        return Piece("never", "muted")
    if not seat.worker.beat_ms:
        return Piece(formats.UNKNOWN, "state-dead")
    is_silent = seat.standing in TROUBLED
    return Piece(formats.age(max(0, now_ms - seat.worker.beat_ms)), "state-dead" if is_silent else "muted")


def _where(seat: Seat) -> str:
    worker = seat.worker
    if worker is None or not (worker.pid or worker.host):
        return formats.ZERO
    return " @ ".join(safe(part) for part in (worker.pid, worker.host) if part)
