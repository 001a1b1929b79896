"""The board of a queue: one place in the middle, from 120 columns the others short beside it, tabs below; a detail pane
from 140. It opens on the place that has the trouble, else on the fullest; above the rows stand the findings.

Each place has its own filter: a short one is filtered at each refresh, a long one is scanned for what fits.
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
from rqtui.layout.layout import late_place
from rqtui.model import Focus, Job, Page, Queue, Rate, Ref, Snapshot, State
from rqtui.text import elision, paths
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import columns, jobs, timeline
from rqtui.tui.format.rows import Id
from rqtui.tui.screens import board_borders, board_layout
from rqtui.tui.screens.board_layout import Shape
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import board_scan, chrome, findings
from rqtui.tui.widgets.pane import Pane, Told
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text import Text

if TYPE_CHECKING:
    from rqtui.engine.ticker import Answered
    from rqtui.layout.layout import Layout

LONG_IDS_FROM = 180  # cells of a terminal, where other panes stand beside the one in the middle
FOLDS_MS = 30_000  # that a place is empty before it folds: its neighbours would jump up and down
MANY_FINDINGS = (40, 3)  # from so many rows of a terminal on, so many findings; below one
REMEDY_LINES = 2  # that remedies have below their findings, all together
REDRAW_S = 0.2  # between two pictures of a scan under way
PATHS_OF = 50  # jobs of a page, whose bodies tell which paths there are
FACT_LINES = 6  # of each fact of a job beside the panes
LEAVING = 4  # a fourth of a pane's rows: when more left at once, none is shown for once more


class Board(View):
    """One queue."""

    NAME = "board"
    FILTER_HINT = "text /re/ !term id: job: call: err: body: .path:  Tab paths  ↑ earlier"
    BINDINGS: ClassVar[list[BindingType]] = list(keys.board_bindings())

    def __init__(self, ref: Ref, layout: Layout) -> None:
        super().__init__()
        self.ref, self.layout_of_queue = ref, layout
        ready = next((place for place in layout.places if place.state is State.READY), layout.places[0])
        self._current = ready.name
        self._queue: Queue | None = None
        self._rate = Rate()
        self._is_zoomed = False
        self._had_jobs = False
        self._sought: filters.Filter | None = None  # the last filter, for `n`
        self._scans: dict[str, int] = {}  # their requests by place, while they are under way
        self._drawn_s = 0.0
        self._last: Snapshot | None = None
        self._panes: list[Pane] = []
        self._shape, self._is_arranged = Shape(self._current), False
        self._held_ms: dict[str, int] = {}  # when each place was last seen with jobs
        self._is_chosen = False  # whether the place in focus was: by a person, or by what the first picture showed
        self._lines = 1  # of findings; only more, so that rows stand still

    def compose_view(self) -> ComposeResult:
        """The findings, the panes and the detail; what does not fit is hidden."""
        self._panes = list(self._made())
        yield chrome.Findings(id="findings")
        with Grid(id="panes"):
            yield from self._panes
            with VerticalScroll(id="detail", classes="pane", can_focus=False):
                yield Text(id="detail-text")

    def _made(self) -> Iterator[Pane]:
        """A pane per place."""
        system, settings, may_change = self.layout_of_queue, self.session.settings, not self.session.is_read_only
        late = late_place(system.places)
        for place in system.places:
            empty = jobs.empty(place, system.places, is_late=place is late, may_change=may_change)
            chosen, _unknown = columns.wanted(settings.columns, place.state)
            yield Pane(self.ref, place, system.places, system.tells, empty, chosen, settings.is_ascii)

    def on_mount(self) -> None:
        """The focus begins on ready, until the first picture tells where it belongs."""
        self.query_one("#detail").border_title = Content(" job ")
        self._arrange()
        self.set_focus(self.pane())  # at once: the first picture may move it
        self._say_unknown_columns()

    def on_unmount(self) -> None:
        """Nobody waits for what a scan finds."""
        self._end_scans()

    def _say_unknown_columns(self) -> None:
        settings = self.session.settings.columns
        unknown = {name for pane in self.panes() for name in columns.wanted(settings, pane.place.state)[1]}
        if unknown:
            known = ", ".join(columns.NAMES)
            self.host.say(f"no such column: {', '.join(sorted(unknown))}; there are {known}, body.PATH.", "warning")

    # -- panes ----------------------------------------------------------------------------------------------------

    def panes(self) -> list[Pane]:
        """All panes, in the order of the places."""
        return self._panes

    def pane(self) -> Pane:
        """The pane that has the focus, or had it last."""
        return next(pane for pane in self._panes if pane.place.name == self._current)

    def _shown(self) -> list[Pane]:
        """The panes that have room for rows."""
        return [pane for pane in self._panes if pane.place.name in self._shape.in_sight]

    def _watched(self) -> list[Pane]:
        """The panes whose pages are asked for: side by side also the folded ones, where a job may arrive."""
        is_wide = self.size.width >= board_layout.WIDE and not self._is_zoomed
        return self._panes if is_wide else self._shown()

    def _arrange(self) -> None:
        names = [pane.place.name for pane in self._panes]
        empty = None if self._queue is None else [name for name in names if self._is_empty(name, self._queue)]
        made = board_layout.shape(self.size.width, names, self._current, empty, is_zoomed=self._is_zoomed)
        is_long = not made.side or self.size.width >= LONG_IDS_FROM
        for pane in self._panes:
            is_current = pane.place.name == self._current
            id_cells = columns.LONG_ID if is_current and is_long else columns.SHORT_ID
            pane.set_form(id_cells, is_short=not is_current)
        self.query_one(chrome.Findings).display = self.is_high
        if made != self._shape or not self._is_arranged:
            self._lay_out(made)
        self.titles()

    def _is_empty(self, name: str, queue: Queue) -> bool:
        """Whether a place holds nothing, and has not for a while; a filter keeps it open."""
        if queue.count(name):
            self._held_ms[name] = queue.counted_ms
        pane = next(pane for pane in self._panes if pane.place.name == name)
        return not pane.expression and queue.counted_ms - self._held_ms.get(name, 0) > FOLDS_MS

    def _lay_out(self, made: Shape) -> None:
        """The grid: the short panes one below the other, the current one and the detail as high as all of them."""
        self._shape, self._is_arranged = made, True
        grid, detail = self.query_one("#panes", Grid), self.query_one("#detail")
        shown, span = (made.current, *made.side), max(1, len(made.side))
        first = made.side[:1]
        order = {name: at for at, name in enumerate((*first, made.current, "", *made.side[1:]))}
        grid.sort_children(key=lambda child: order.get(child.place.name if isinstance(child, Pane) else "", 99))
        grid.styles.grid_size_columns = len(made.columns.split())
        grid.styles.grid_columns, grid.styles.grid_rows = made.columns, made.rows
        for pane in self._panes:
            pane.display = pane.place.name in shown
            pane.set_class(pane.place.name in made.folded, "-folded")
            pane.styles.row_span = span if pane.place.name == made.current else 1
        detail.styles.row_span = span
        detail.display = made.has_detail

    def titles(self) -> None:
        """The frames' words, as they are now."""
        panes, current = self.panes(), self.pane()
        found = self._queue.findings if self._queue and not self.is_high else ()
        for number, pane in enumerate(panes, 1):
            if pane is current and not self._shape.side:
                pane.set_title(*board_borders.tabs(panes, pane, self._queue))
            else:
                is_folded = pane.place.name in self._shape.folded
                pane.set_title(*board_borders.title(number, pane, self._queue, is_folded=is_folded))
            is_current = pane is current
            pane.set_subtitle(
                *board_borders.below(
                    pane,
                    self._queue,
                    is_current=is_current,
                    is_frozen=self.is_frozen,
                    findings=found if is_current else (),
                    now_ms=self.session.now_ms,
                )
                if pane.place.name not in self._shape.folded
                else ()
            )

    def _show_findings(self, queue: Queue) -> None:
        least, most = MANY_FINDINGS
        most = most if self.app.size.height >= least else 1
        lines = findings.lines(queue, most, self.app.size.width - 2, self.session.now_ms, below=REMEDY_LINES)
        self._lines = max(self._lines, len(lines))
        self.query_one(chrome.Findings).show(*lines, *[(Content(), Content())] * (self._lines - len(lines)))

    def count_down(self) -> None:
        """How long its findings can be mended."""
        if self._queue and any(finding.until_ms is not None for finding in self._queue.findings):
            self._show_findings(self._queue)
            self.titles()

    # -- what the app asks ----------------------------------------------------------------------------------------

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The queue, the pages in sight, the job of the detail pane, and those that no page tells of."""
        job = self.pane().job()
        has_detail = self.query_one("#detail").display and job is not None
        shown = self._watched()
        pages = tuple(wish for pane in shown if (wish := pane.wish()) is not None)
        asks = tuple(ask for pane in shown for ask in pane.asks(self.layout_of_queue))
        return Focus((self.ref,), pages, (self.ref, job.id) if has_detail and job else None, 4096, {"told": asks})

    def show(self, snapshot: Snapshot) -> None:
        """Draws a new picture; while frozen the rows stand and only the counts run."""
        queue = snapshot.queue(self.ref)
        if queue is None:
            return  # a picture that was asked for by the view below
        self._queue, self._rate, self._last = queue, snapshot.rates.get(self.ref) or Rate(), snapshot
        self._look_for_the_end(queue)
        self._show_findings(queue)
        if not self._is_chosen and not queue.error:
            self._is_chosen = True
            system = self.layout_of_queue
            self._go_to(board_layout.first_place(system.places, queue, system.keys(self.ref.queue)))
        self._show_panes(snapshot)
        self._arrange()
        self._show_detail(snapshot)

    def _show_panes(self, snapshot: Snapshot) -> None:
        told = [answer for answer in snapshot.answers.get("told", ()) if isinstance(answer, Told)]
        leaving = self._leaving(snapshot)
        for pane in self._watched():
            if self.is_frozen and pane.page is not None:
                continue  # one that was not seen yet has no rows that could stand
            for answer in told:
                if answer.place == pane.place.name:
                    pane.take(answer)
            pane.took_turn()
            page = snapshot.page(self.ref, pane.place.name)
            if pane.found is not None:
                pane.show_found(snapshot.taken_ms)
            elif page is not None:
                pane.show_page(page, snapshot.taken_ms, leaving.get(pane.place.name))
                if pane.is_too_long and not self.filter_line.is_open:
                    self.scan(pane)

    def _leaving(self, snapshot: Snapshot) -> dict[str, dict[Id, str]]:
        """By place: jobs that went from one pane in sight to another one; for one picture they are seen in both."""
        pages = [
            (pane, pane.page, page)
            for pane in self._watched()
            if pane.page is not None and (page := snapshot.page(self.ref, pane.place.name)) is not None
        ]
        arrived: dict[Id, str] = {}
        for pane, before, now in pages:
            known = {job.id for job in before.jobs}
            arrived.update((job.id, pane.place.name) for job in now.jobs if job.id not in known)
        made: dict[str, dict[Id, str]] = {}
        for pane, before, now in pages:
            there = {job.id for job in now.jobs}
            left = [job.id for job in before.jobs if job.id not in there]
            if len(left) <= max(1, pane.room // LEAVING):
                made[pane.place.name] = {id: arrived[id] for id in left if id in arrived}
        return made

    def _look_for_the_end(self, queue: Queue) -> None:
        """A queue whose keys went away while its board is open: the panes say so, until jobs come again."""
        has_jobs = any(count.count for count in queue.counts)
        is_over = self._had_jobs and not has_jobs and not queue.error and not queue.counters.get("in")
        self._had_jobs = self._had_jobs or has_jobs
        for pane in self.panes():
            pane.is_queue_gone = is_over

    def _show_detail(self, snapshot: Snapshot) -> None:
        detail = self.query_one("#detail")
        if not detail.display:
            return
        job = self.pane().job()
        if job and snapshot.job and snapshot.job.id == job.id:
            job = snapshot.job
        text = self.query_one("#detail-text", Text)
        if job is None:
            text.show(Content.styled("no job under the cursor", "$muted"))
            return
        is_gone = snapshot.job is None and self.session.is_pictured(self.ref, job.id)
        encoding, body = jobs.body(job, detail.content_size.width)
        width, now_ms = detail.scrollable_content_region.width, snapshot.taken_ms
        on = jobs.sheet(job.facts, width)
        line = timeline.life_line(job, max(20, width), now_ms)
        text.show(
            Content("\n").join(
                [
                    *(
                        [Content.styled("The job is gone; this is how it was last seen.\n", "$state-reserved")]
                        if is_gone
                        else []
                    ),
                    jobs.properties(job, now_ms, self.layout_of_queue.tells, on=on),
                    *([jobs.facts(job.facts, now_ms, most=FACT_LINES, on=on)] if job.facts else []),
                    *([Content(), line] if line else []),
                    Content.assemble("\n", ("body", "b $strong"), (f"  {encoding}", "$muted")),
                    body,
                ]
            )
        )

    def target(self) -> Target:
        """What a verb would act on."""
        pane = self.pane()
        expression = pane.expression if pane.whole_place else ""
        is_whole = pane.whole_place and not expression
        chosen = () if is_whole else pane.chosen()
        state = pane.place.state
        looked = pane.found.looked if expression and pane.found is not None and pane.found.is_partial else 0
        return Target(self.ref, pane.place.name, chosen, is_whole, self._queue, state, filter=expression, looked=looked)

    def second_line(self, width: int) -> chrome.Sides:
        """How fast the queue goes; on a wide screen its counts, which stand in the tabs of a narrow one."""
        if self._queue is None:
            return super().second_line(width)
        fit = elision.among(safe(ref.queue) for ref in self.session.refs)
        line = chrome.queue_line if self.size.width >= board_layout.WIDE else chrome.board_line
        return line(self._queue, self._rate, width, self.session.system_of(self.ref), fit)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        for pane in self.panes():
            pane.dimmed = is_dim
        self.query_one("#detail").set_class(is_dim, "-dimmed")

    def acts(self) -> None:
        """The cursor stays where it was when the key was pressed."""
        self.pane().stay()

    def acted(self, ids: Collection[bytes]) -> None:
        """Takes the marks off jobs that were acted on; all that was found is looked for again."""
        pane = self.pane()
        if pane.whole_place and pane.found is not None and ids:
            self.anew()
        pane.whole_place = False
        pane.unmark(ids)

    @property
    def filter_text(self) -> str:
        """The filter of the place in focus."""
        return self.pane().expression

    @filter_text.setter
    def filter_text(self, expression: str) -> None:
        """The filter holds already: `filtered` gave it to the pane."""

    # -- the filter line ----------------------------------------------------------------------------------------------

    def filter_typed(self, expression: str) -> None:
        """Shows at once what is loaded and fits."""
        pane = self.pane()
        try:
            filters.parse(expression.strip())
        except UsageError:
            return  # not finished
        if expression.strip() != pane.expression:
            self._end_scan(pane)
            pane.filter(expression.strip())
            self.draw(pane)

    def filtered(self, expression: str) -> None:
        """From now on the place shows only what fits; a long place is scanned for it."""
        pane = self.pane()
        filters.parse(expression)
        self._end_scan(pane)
        pane.filter(expression)
        self._sought = pane.accepts or self._sought
        self.draw(pane)
        if pane.is_too_long:
            self.scan(pane)
        self.host.look_again()
        self.host.show_keys()

    def steps_back(self) -> bool:
        """Esc stops a scan and keeps what was found; the next one takes the filter away, then the zoom."""
        pane = self.pane()
        if pane.place.name in self._scans:
            self._end_scan(pane, stopped=True)
            self.titles()
            return True
        if pane.expression:
            self.filtered("")
            return True
        if self._is_zoomed:
            self.action_zoom()
            return True
        return False

    def anew(self) -> None:
        """`r` scans again."""
        pane = self.pane()
        if pane.found is not None:
            self._end_scan(pane)
            pane.found = None
            self.scan(pane)

    def action_next_match(self) -> None:
        """The cursor goes to the next job that fits: of those that are shown, or that are loaded."""
        pane, fits = self.pane(), self._sought
        if fits is None:
            self.host.say("n goes to the next job that a filter lets through: / makes one.")
        elif not pane.move_to_next(lambda row: not row.is_gone and pane.lets_through(row.id, fits)):
            self.host.say("No other job that is loaded here fits the last filter; / looks through the whole place.")

    def look_for_paths(self, then: Callable[[Sequence[str]], None]) -> None:
        """Those of the page in sight, whose bodies are fetched for it."""
        pane = self.pane()
        ref, place, offset = pane.ref, pane.place.name, pane.page.offset if pane.page else 0

        def fetched(answer: Answered) -> None:
            page: Page | None = answer.result
            if page is not None:
                then(paths.paths_of(paths.decoded(job.body) for job in page.jobs if job.body))

        self.session.ask(lambda engine: engine.page(ref, place, offset, PATHS_OF, board_scan.FILTER_BYTES), fetched)

    # -- scans --------------------------------------------------------------------------------------------------------

    def scan(self, pane: Pane) -> None:
        """Begins to look through a pane's place."""
        if pane.accepts is None:
            return
        pane.found, pane.offset_wanted = board_scan.Found(), 0
        pane.another_list()
        body_bytes = max(pane.filter_bytes(), pane.body_bytes())
        steps = board_scan.scan(pane.ref, pane.place.name, pane.accepts, body_bytes, pane.body_bytes())
        self._scans[pane.place.name] = self.session.work(steps, partial(self._scanned, pane, pane.found))
        self.draw(pane)

    def _end_scan(self, pane: Pane, *, stopped: bool = False) -> None:
        request = self._scans.pop(pane.place.name, None)
        if request is None:
            return
        self.session.end_work(request)
        if pane.found is not None:
            pane.found.end(stopped=stopped)

    def _end_scans(self) -> None:
        """The board is left."""
        for request in self._scans.values():
            self.session.end_work(request)
        self._scans.clear()

    def _scanned(self, pane: Pane, into: board_scan.Found, answer: Answered) -> None:
        """A step of a scan, or its end."""
        if pane.found is not into or into.is_over:
            return  # another one began, or Esc came first
        if not answer.is_last:
            into.add(answer.result)
        else:
            into.end(problem=answer.error)
            self._scans.pop(pane.place.name, None)
        now = time.monotonic()
        if answer.is_last or now - self._drawn_s > REDRAW_S:
            self._drawn_s = now
            self.draw(pane)
        if answer.is_last:
            self.host.show_keys()
            self.host.look_again()  # those in sight are looked at again

    def draw(self, pane: Pane) -> None:
        """Draws a pane again from what is known."""
        if not self.is_drawn or self._last is None:
            return
        if pane.found is not None:
            pane.show_found(self._last.taken_ms)
        elif pane.page is not None:
            pane.show_page(pane.page, self._last.taken_ms)
        self.titles()

    # -- keys -----------------------------------------------------------------------------------------------------

    def numbered(self) -> int:
        """The places."""
        return len(self.layout_of_queue.places)

    def action_place(self, number: int) -> None:
        """Goes to the place of that number."""
        panes = self.panes()
        if number <= len(panes):
            self._go(panes[number - 1])

    def action_pane(self, step: int) -> None:
        """Goes to the next place, or the one before."""
        panes = self.panes()
        self._go(panes[(panes.index(self.pane()) + step) % len(panes)])

    def action_page(self, pages: int) -> None:
        """Turns the page; behind the last one of a sample comes another sample."""
        pane = self.pane()
        is_apart = pane.place.is_shared or pane.place.is_heard
        is_sample = pane.page is not None and pane.page.of is not None and not is_apart
        if pages > 0 and pane.is_at_end and is_sample and pane.found is None:
            ref, place = pane.ref, pane.place.name
            self.session.ask(lambda engine: engine.layouts[ref.layout].next_sample(ref.queue, place), self._sampled)
            pane.offset_wanted = 0
            pane.another_list()
        else:
            pane.action_page(pages)

    def _sampled(self, _answer: Answered) -> None:
        self.host.look_again()

    def action_zoom(self) -> None:
        """One pane over the whole width, and back."""
        self._is_zoomed = not self._is_zoomed
        self._arrange()
        self.call_after_refresh(self.host.look_again)

    def action_mark_all(self) -> None:
        """Chooses the whole place, also what is not loaded; with a filter, all that it lets through."""
        self.pane().whole_place = not self.pane().whole_place
        self.titles()
        self.host.show_keys()

    def narrow(self, state: State, expression: str) -> None:
        """Goes to the place of a state, of several to the one with the most jobs, and lets a filter hold there."""
        queue = self._queue or self.session.known.get(self.ref)
        places = [
            (number, place) for number, place in enumerate(self.layout_of_queue.places, 1) if place.state is state
        ]
        self.action_place(max(places, key=lambda at: queue.count(at[1].name) if queue else 0, default=(1, None))[0])
        self.hold_filter(expression)

    def stand_at(self, place: str) -> None:
        """Goes to the place of that name; one that is not drawn yet opens on it."""
        if not self.is_drawn:
            self._current = place
            return
        self.action_place([pane.place.name for pane in self.panes()].index(place) + 1)

    def lists_jobs_of(self, ref: Ref) -> bool:
        """Those of its own queue."""
        return ref == self.ref

    def step_job(self, step: int) -> Job | None:
        """The job after the one under the cursor, or before it; the cursor goes there. None: it is the last loaded."""
        pane = self.pane()
        before = pane.cursor_id
        pane.action_move(step)
        job = pane.job()
        return job if job is not None and job.id != before else None

    def _go_to(self, name: str) -> None:
        if name != self._current:
            self._go(next(pane for pane in self._panes if pane.place.name == name))

    def _go(self, pane: Pane) -> None:
        self._current, self._is_chosen = pane.place.name, True
        pane.display = True  # a hidden one cannot have the focus, and one that hides gives it to its neighbour
        self.set_focus(pane)
        self._arrange()
        self.call_after_refresh(self.host.look_again)  # how many rows it wants is known when it is laid out

    # -- events ---------------------------------------------------------------------------------------------------

    def on_resize(self, _event: Resize) -> None:
        """Side by side or tabs, as wide as it is."""
        self._arrange()
        self.host.look_again()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """A click on a pane makes it the current one."""
        is_there = event.widget is self.focused  # else this is about a pane that had the focus for a moment
        if is_there and isinstance(event.widget, Pane) and event.widget.place.name != self._current:
            self._current, self._is_chosen = event.widget.place.name, True
            self._arrange()
            self.host.look_again()
        self.host.show_keys()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """The detail follows the cursor."""
        self.host.show_keys()
        self.titles()
        if self.query_one("#detail").display:
            self.host.look_soon()

    def on_table_title_clicked(self, event: Table.TitleClicked) -> None:
        """A click on the words of a place goes there."""
        number = board_borders.place_at(event.table.title, event.at)
        if number:
            self.action_place(number)

    def on_table_fitted(self, _event: Table.Fitted) -> None:
        """The frame says which rows are in sight."""
        self.titles()

    def on_table_marked(self, _event: Table.Marked) -> None:
        """The frame says how many."""
        self.titles()
        self.host.show_keys()

    def on_table_wanted(self, event: Table.Wanted) -> None:
        """Another part of the list is needed."""
        if isinstance(event.table, Pane):
            event.table.offset_wanted, event.table.limit_wanted = event.offset, event.limit
            self.draw(event.table) if event.table.found is not None else self.host.look_again()

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter opens the job."""
        pane = event.table
        job = pane.job() if isinstance(pane, Pane) else None
        if job:
            self.host.open_job(self.ref, job)
