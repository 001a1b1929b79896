"""A pane of a board: the jobs of one place, all of them or those that a filter lets through.

A filter is live where the place is short (its page is filtered at each refresh), and works on what a scan found
(`found.Found`) where it is long. Jobs that are shown but cannot be told by the page are asked for one by one, in the
same round trip: `asks` makes the questions, `told` takes the answers. It sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rqtui.engine import filters
from rqtui.layout.layout import Answers, Ask
from rqtui.model import Job, Page, PageWish, Place, Ref
from rqtui.text import hearing
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import columns
from rqtui.tui.format.rows import Column, Id, Row
from rqtui.tui.widgets.board_scan import FILTER_BYTES, Found
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.layout.layout import Layout

MARGIN = 20  # rows loaded beyond what is seen, so that a key finds them there
LIVE = 200  # jobs of a place that is filtered at each refresh; a longer one is scanned
ASKED = 60  # jobs asked for one by one in a round trip
_FEWEST_ROWS = 20


class Told(NamedTuple):
    """What became of a job that a pane asked for."""

    place: str  # the pane's
    id: bytes
    job: Job | None


class Pane(Table):
    """The jobs of one place."""

    def __init__(
        self,
        ref: Ref,
        place: Place,
        places: tuple[Place, ...],
        tells: frozenset[str],
        empty: str,
        chosen: tuple[str, ...] = (),
        ascii_only: bool = False,
    ) -> None:
        """`places`: all of its system; `chosen`: the columns that somebody wants instead of the usual ones."""
        self._choice = columns.Choice()
        self._chosen = chosen
        self.tells = tells
        self._id_cells = columns.LONG_ID
        self._is_short = False
        self.place, self.places = place, places
        super().__init__(self._columns(), empty=empty, id=f"pane-{place.name}", ascii_only=ascii_only)
        self.ref = ref
        self.says_empty = empty
        self.is_queue_gone = False
        self.offset_wanted = 0
        self.limit_wanted = 0
        self.whole_place = False
        self.jobs: dict[bytes, Job] = {}
        self.page: Page | None = None
        self.expression = ""
        self.accepts: filters.Filter | None = None
        self.found: Found | None = None
        self.left: dict[bytes, str] = {}  # marked ones that are elsewhere now ("": nowhere)
        self._asks_of: tuple[tuple[bytes, ...], tuple[Ask[Told], ...]] = ((), ())
        self._turn = 0  # of the marked ones that are asked for

    # -- columns ------------------------------------------------------------------------------------------------------

    def _names(self) -> tuple[str, ...]:
        return columns.shown(self.place.state, self._choice.told, self._chosen, self.tells)

    def _columns(self) -> tuple[Column, ...]:
        chosen = bool(self._chosen)
        state, is_timed = self.place.state, self.place.score.startswith("due")
        names, cells, choice = self._names(), self._id_cells, self._choice
        made = columns.columns(state, names, cells, choice, are_chosen=chosen, is_timed=is_timed)
        return columns.short(made) if self._is_short else made

    def set_form(self, id_cells: int, *, is_short: bool) -> None:
        """How much of an id is shown, which the next page has; a short one has the job and its time, and no header."""
        if (id_cells, is_short) != (self._id_cells, self._is_short):
            self._id_cells, self._is_short = id_cells, is_short
            self.show_header = not is_short
            self.set_columns(self._columns())
            self.measure()

    def _learn(self, seen: Sequence[Job], now_ms: int) -> None:
        """What tells these jobs apart is chosen from the first page, and kept while it does."""
        self._choice = columns.choose(self._choice, seen, now_ms)
        if (made := self._columns()) != self.painter.columns:
            self.set_columns(made)

    @property
    def same(self) -> tuple[tuple[str, str], ...]:
        """(name, value) of what all loaded jobs have in common and no row shows, for the frame to say."""
        return self._choice.same

    # -- what it asks for ---------------------------------------------------------------------------------------------

    def wish(self) -> PageWish | None:
        """The page that it needs now; None where it shows what was found."""
        if self.found is not None:
            return None
        limit = max(self.limit_wanted, max(_FEWEST_ROWS, self.size.height) + 2 * MARGIN)
        if self.accepts is None:
            return PageWish(self.ref, self.place.name, self.offset_wanted, limit, self.body_bytes())
        return PageWish(self.ref, self.place.name, 0, LIVE, max(self.body_bytes(), self.filter_bytes()))

    def body_bytes(self) -> int:
        """How much of each body its columns need."""
        return columns.body_bytes(self._names())

    def filter_bytes(self) -> int:
        """How much of each body its filter reads."""
        return FILTER_BYTES if self.accepts is not None and self.accepts.reads_body else 0

    def asks(self, layout: Layout) -> tuple[Ask[Told], ...]:
        """Questions for the found jobs in sight, and for marked ones that the page does not tell of."""
        ids = (*self._found_in_sight(), *self._marks_in_turn())
        if ids != self._asks_of[0]:
            self._asks_of = ids, tuple(self._ask(layout, id) for id in ids)
        return self._asks_of[1]

    def _found_in_sight(self) -> tuple[bytes, ...]:
        if self.found is None:
            return ()
        first, last = self.in_sight
        return tuple(self.found.ids[first : min(last, first + ASKED)])

    def _marks_in_turn(self) -> tuple[bytes, ...]:
        """Some of the marked jobs that are not loaded; each refresh the next ones."""
        is_whole = self.page is not None and self.page.next is None and not self.page.offset and not self.has_more
        if self.whole_place or (is_whole and self.found is None):
            return ()
        shown = set(self._found_in_sight()) if self.found is not None else self._paged()
        away = [id for id in self.marks if isinstance(id, bytes) and id not in shown]
        start = self._turn * ASKED % len(away) if away else 0
        return tuple(islice((*away[start:], *away[:start]), min(ASKED, len(away))))

    def _ask(self, layout: Layout, id: bytes) -> Ask[Told]:
        ask = layout.job_ask(self.ref.queue, id, self.body_bytes())

        def read(answers: Answers) -> Told:
            return Told(self.place.name, id, ask.read(answers))

        return Ask(ask.calls, read)

    def _paged(self) -> set[bytes]:
        return {job.id for job in self.page.jobs} if self.page else set()

    # -- what it shows ------------------------------------------------------------------------------------------------

    def show_page(self, page: Page, now_ms: int, leaving: Mapping[Id, str] | None = None) -> None:
        """Draws a page; `leaving` are jobs of the one before, and where they are now: they stay for this once."""
        self.page = page
        for job in page.jobs:
            self.left.pop(job.id, None)
        accepts = self.accepts
        jobs = page.jobs if accepts is None else tuple(job for job in page.jobs if accepts(job))
        total = page.total if accepts is None else len(jobs)
        self._learn(jobs or page.jobs, now_ms)
        gone = self._gone_rows(leaving or {}, now_ms)
        self._keep(jobs)
        self.empty = page.error or self._emptiness(now_ms)
        rows = self._rows(jobs, now_ms)
        shown = _with_leaving(rows, gone, self.rows)
        self.lets_go = True
        self.update(shown, total + len(shown) - len(rows), page.offset)

    def show_found(self, now_ms: int) -> None:
        """Draws the part of what was found that is in sight."""
        if self.found is None:
            return
        offset = min(self.offset_wanted, max(0, len(self.found.ids) - 1))
        limit = max(self.limit_wanted, max(_FEWEST_ROWS, self.size.height) + 2 * MARGIN)
        jobs = self.found.page(offset, limit)
        self._keep(jobs)
        self.empty = self._emptiness(now_ms)
        self._learn(jobs, now_ms)
        self.lets_go = False  # what was found stays in its line
        self.update(self._rows(jobs, now_ms, self.found.left), len(self.found.ids), offset)

    def take(self, told: Told) -> None:
        """What became of a job that was asked for."""
        if self.found is not None:
            self.found.seen(told.id, self.place.name, told.job)
        if told.job is not None and told.job.place == self.place.name:
            self.left.pop(told.id, None)
        elif told.id in self.marks:
            self.left[told.id] = told.job.place if told.job is not None else ""

    def took_turn(self) -> None:
        """A picture came: other marked jobs are asked for in the next one."""
        self._turn += 1

    def _keep(self, jobs: Sequence[Job]) -> None:
        """These are known now; jobs of earlier pages stay known as long as they are marked or under the cursor."""
        keep = {*self.marks, self.cursor_id}
        self.jobs = {id: job for id, job in self.jobs.items() if id in keep}
        self.jobs.update((job.id, job) for job in jobs)

    def _rows(self, jobs: Sequence[Job], now_ms: int, left: Mapping[bytes, str] | None = None) -> list[Row]:
        names, left, choice = self._names(), left or {}, self._choice
        return [columns.row(job, now_ms, self._id_cells, names, choice, left.get(job.id)) for job in jobs]

    def _gone_rows(self, leaving: Mapping[Id, str], now_ms: int) -> dict[Id, Row]:
        known = {id: self.jobs[id] for id in leaving if isinstance(id, bytes) and id in self.jobs}
        names, choice = self._names(), self._choice
        return {id: columns.row(job, now_ms, self._id_cells, names, choice, leaving[id]) for id, job in known.items()}

    def _emptiness(self, now_ms: int) -> str:
        if self.page is not None and self.page.heard is not None and not self.expression:
            return safe(hearing.emptiness(self.page.heard, now_ms))
        if self.is_queue_gone:
            queue = safe(self.ref.queue)
            back = keys.key("back")
            return f"nothing is left of {queue}: its keys are gone from Redis. {back} goes back; new jobs show here"
        if not self.expression:
            return self.says_empty
        sought = safe(self.expression)
        if self.found is not None and not self.found.is_over:
            return f"no job matches {sought} so far"
        return f"no job matches {sought}: {keys.renamed('/ changes it, Esc shows all')}"

    # -- the filter ---------------------------------------------------------------------------------------------------

    def filter(self, expression: str) -> None:
        """Shows only what this lets through from now on. Raises UsageError, and changes nothing, if it is none."""
        accepts = filters.parse(expression) if expression else None
        at = self._stands_at()
        self.expression, self.accepts, self.found, self.whole_place = expression, accepts, None, False
        self.tints_arrivals = not expression
        self.offset_wanted, self.limit_wanted = max(0, at - self.size.height), 0
        self._choice = columns.Choice()
        self.another_list(0 if expression else at)

    def _stands_at(self) -> int:
        """Where in the whole place the cursor's job stands, as far as is known."""
        if self.found is not None and isinstance(self.cursor_id, bytes):
            return self.found.places.get(self.cursor_id, 0)
        ids = [job.id for job in self.page.jobs] if self.page else []
        if self.page is not None and self.cursor_id in ids:
            return self.page.offset + ids.index(self.cursor_id)
        return 0

    @property
    def has_more(self) -> bool:
        """Whether jobs of this queue may stand in a shared place behind those that can be listed."""
        page, is_apart = self.page, self.place.is_shared and not self.place.is_heard
        return is_apart and page is not None and page.of is not None

    @property
    def is_too_long(self) -> bool:
        """Whether its filter needs a scan."""
        page = self.page
        is_long = page is not None and (page.total > LIVE or self.has_more)
        return self.accepts is not None and self.found is None and is_long

    def lets_through(self, id: Id, fits: filters.Filter) -> bool:
        """Whether a loaded job fits; what is shown fits the pane's own filter, also where its body is not here."""
        job = self.jobs.get(id) if isinstance(id, bytes) else None
        return job is not None and (self.accepts is fits or fits(job))

    def matching(self) -> int:
        """How many jobs the filter let through."""
        if self.found is not None:
            return len(self.found.ids)
        return sum(1 for job in self.page.jobs if self.accepts is None or self.accepts(job)) if self.page else 0

    # -- what is chosen -----------------------------------------------------------------------------------------------

    def action_unmark_all(self) -> None:
        """Chooses nothing, neither marked jobs nor the whole place."""
        self.whole_place = False
        self.left.clear()
        super().action_unmark_all()

    def job(self) -> Job | None:
        """The job under the cursor."""
        return self.jobs.get(self.cursor_id) if isinstance(self.cursor_id, bytes) else None

    def is_known(self, id: object) -> bool:
        """Whether that job is still in the place, as far as is known."""
        if id in self.left or (self.found is not None and id in self.found.left):
            return False
        page = self.page
        if self.found is not None or page is None:
            return True
        return self.has_more or page.total > len(page.jobs) or any(job.id == id for job in page.jobs)

    def chosen(self) -> tuple[Job, ...]:
        """All that fits, when that was chosen; else the marked jobs, or the one under the cursor."""
        if self.whole_place and self.accepts is not None:
            return self.found.there() if self.found is not None else self._fitting()
        marked = tuple(self.jobs[id] for id in self.marks if isinstance(id, bytes) and id in self.jobs)
        under = self.job()
        return marked or ((under,) if under and not self.is_cursor_gone else ())

    def _fitting(self) -> tuple[Job, ...]:
        accepts = self.accepts
        return tuple(job for job in self.page.jobs if accepts is None or accepts(job)) if self.page else ()


def _with_leaving(rows: Sequence[Row], gone: Mapping[Id, Row], before: Sequence[Row]) -> list[Row]:
    """The rows with those that just left, each behind the row that stood above it."""
    if not gone:
        return list(rows)
    present = {row.id for row in rows}
    behind: dict[Id | None, list[Row]] = {}
    above: Id | None = None
    for row in before:
        if row.id in present:
            above = row.id
        elif row.id in gone:
            behind.setdefault(above, []).append(gone[row.id])
    made = list(behind.get(None, ()))
    for row in rows:
        made += [row, *behind.get(row.id, ())]
    return made
