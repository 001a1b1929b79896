"""The board of a queue: a pane per place, side by side from 120 columns, tabs below; a detail pane from 140."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus, Resize

from rqtui.model import Focus, Job, Page, PageWish, Place, Queue, Rate, Ref, Snapshot, State
from rqtui.tui import chrome, display, jobs, keys
from rqtui.tui.rows import Piece
from rqtui.tui.table import Table
from rqtui.tui.text import Text
from rqtui.tui.view import Target, View

if TYPE_CHECKING:
    from rqtui.layout import Layout

WIDE = 120
WITH_DETAIL = 140
ALL_PLACES = 200  # five panes and a detail need that much to be read; below, done is shown while it is current
FEW_PLACES = 4  # these have room side by side, also done
MARGIN = 20  # rows loaded beyond what is seen, so that a key finds them there


class Pane(Table):
    """The jobs of one place."""

    def __init__(self, ref: Ref, place: Place, tells: frozenset[str], empty: str, late_at: int = 0) -> None:
        """`late_at`: the key of the pane with the expired ones of this state, when that is another."""
        self._told = jobs.told((), tells, 0)
        super().__init__(jobs.columns(place.state, jobs.LONG_ID, self._told), empty=empty, id=f"pane-{place.name}")
        self.ref, self.place, self.tells, self.late_at = ref, place, tells, late_at
        self._says_empty = empty
        self._has_shown = False
        self.offset_wanted = 0
        self.limit_wanted = 0
        self.whole_place = False
        self.jobs: dict[bytes, Job] = {}
        self.page: Page | None = None
        self._id_cells = jobs.LONG_ID

    def set_id_cells(self, cells: int) -> None:
        """How much of an id is shown; the next page has it."""
        if cells != self._id_cells:
            self._id_cells = cells
            self.set_columns(jobs.columns(self.place.state, cells, self._told))

    def wish(self) -> PageWish:
        """The page that it needs now."""
        limit = max(self.limit_wanted, max(20, self.size.height) + 2 * MARGIN)
        body_bytes = 0 if "name" in self.tells else jobs.PREVIEW_BYTES
        return PageWish(self.ref, self.place.name, self.offset_wanted, limit, body_bytes)

    def show_page(self, page: Page, now_ms: int) -> None:
        """Draws a page; jobs of earlier pages stay known as long as they are marked or under the cursor."""
        keep = {*self.marks, self.cursor_id}
        self.jobs = {id: job for id, job in self.jobs.items() if id in keep}
        self.jobs.update((job.id, job) for job in page.jobs)
        self.page = page
        self.empty = page.error or self._says_empty
        self._learn(page.jobs, now_ms)
        rows = [jobs.row(job, now_ms, self._id_cells, self._told) for job in page.jobs]
        self.update(rows, page.total, page.offset)

    def _learn(self, seen: Sequence[Job], now_ms: int) -> None:
        """Columns that no job has anything for go with the first page of jobs; what later ones have comes back."""
        if not seen:
            return
        told = jobs.told(seen, self.tells, now_ms) | (self._told if self._has_shown else frozenset())
        self._has_shown = True
        if told != self._told:
            self._told = told
            self.set_columns(jobs.columns(self.place.state, self._id_cells, told))

    def action_unmark_all(self) -> None:
        """Chooses nothing, neither marked jobs nor the whole place."""
        self.whole_place = False
        super().action_unmark_all()

    def job(self) -> Job | None:
        """The job under the cursor."""
        return self.jobs.get(self.cursor_id) if isinstance(self.cursor_id, bytes) else None

    def is_known(self, id: object) -> bool:
        """Whether that job is still in the place, as far as the loaded page tells."""
        page = self.page
        return page is None or page.total > len(page.jobs) or any(job.id == id for job in page.jobs)

    def chosen(self) -> list[Job]:
        """The marked jobs, or the one under the cursor."""
        marked = [self.jobs[id] for id in self.marks if isinstance(id, bytes) and id in self.jobs]
        under = self.job()
        return marked or ([under] if under and not self.is_cursor_gone else [])


class Board(View):
    """One queue."""

    NAME = "board"
    BINDINGS: ClassVar[list[BindingType]] = list(keys.board_bindings())

    def __init__(self, ref: Ref, layout: Layout) -> None:
        super().__init__()
        self.ref, self.layout_of_queue = ref, layout
        ready = next((place for place in layout.places if place.state is State.READY), layout.places[0])
        self._current = ready.name
        self._queue: Queue | None = None
        self._rate = Rate()

    def compose_view(self) -> ComposeResult:
        """The panes and the detail, next to each other; what does not fit is hidden."""
        with Horizontal(id="panes"):
            yield from self._made()
            with VerticalScroll(id="detail", classes="pane", can_focus=False):
                yield Text("", id="detail-text")

    def _made(self) -> Iterator[Pane]:
        """A pane per place; of two places of reserved jobs the second holds those whose lease is over."""
        system, may_change = self.layout_of_queue, not self.cockpit.settings.read_only
        reserved = [number for number, place in enumerate(system.places, 1) if place.state is State.RESERVED]
        late = reserved[-1] if len(reserved) > 1 else 0
        for number, place in enumerate(system.places, 1):
            empty = jobs.empty(place, number == late, may_change=may_change)
            late_at = late if number in reserved[:-1] else 0
            yield Pane(self.ref, place, system.tells, empty, late_at)

    def on_mount(self) -> None:
        """The focus begins on ready."""
        self.query_one("#detail").border_title = Content(" job ")
        self._arrange()
        self.pane().focus()

    # -- panes ----------------------------------------------------------------------------------------------------

    def panes(self) -> list[Pane]:
        """All panes, in the order of the places."""
        return list(self.query(Pane))

    def pane(self) -> Pane:
        """The pane that has the focus, or had it last."""
        return self.query_one(f"#pane-{self._current}", Pane)

    def _shown(self) -> list[Pane]:
        if self.size.width < WIDE:
            return [self.pane()]
        narrowed = self.size.width < ALL_PLACES and len(self.layout_of_queue.places) > FEW_PLACES
        return [
            pane for pane in self.panes() if not narrowed or pane is self.pane() or pane.place.state is not State.DONE
        ]

    def _count(self, place: Place, width: int = 8) -> str:
        counted = next((c for c in self._queue.counts if c.place == place.name), None) if self._queue else None
        return display.count(counted.count, counted.exact, width) if counted else display.ZERO

    def _arrange(self) -> None:
        shown = self._shown()
        for pane in self.panes():
            pane.display = pane in shown
            pane.set_id_cells(jobs.LONG_ID if len(shown) == 1 else jobs.SHORT_ID)
        self.query_one("#detail").display = self.size.width >= WITH_DETAIL
        self._titles()

    def _titles(self) -> None:
        is_wide = self.size.width >= WIDE
        for number, pane in enumerate(self.panes(), 1):
            if is_wide:
                hue = f"state-{pane.place.state}"
                pane.set_title(
                    Piece(f" {number} ", "muted"),
                    Piece(pane.place.name, hue),
                    Piece(f" {self._count(pane.place)} ", "strong"),
                )
            elif pane is self.pane():
                pane.set_title(*self._tabs())
            pane.set_subtitle(*self._below(pane))

    def _tabs(self) -> list[Piece]:
        """The places by their keys; with their counts where the line above, which counts by state, cannot say them."""
        pieces = []
        has_own_names = any(pane.place.name != pane.place.state for pane in self.panes())
        for number, pane in enumerate(self.panes(), 1):
            is_current = pane is self.pane()
            pieces.append(Piece(f" {number} ", "accented" if is_current else "muted"))
            pieces.append(Piece(pane.place.name + " ", f"state-{pane.place.state}" if is_current else "muted"))
            if has_own_names:
                pieces.append(Piece(self._count(pane.place, 6) + " ", "strong" if is_current else "muted"))
        return pieces

    def _below(self, pane: Pane) -> list[Piece]:
        """What the frame says below: as much as has room, the most pressing first."""
        total = pane.page.total if pane.page else 0
        first, last = pane.in_sight
        words: list[Piece] = []
        if pane.whole_place:
            words.append(Piece(f"all {display.count(total, width=12)} chosen", "accented"))
        elif pane.marks:
            gone = sum(1 for id in pane.marks if not pane.is_known(id))
            words.append(Piece(f"{len(pane.marks)} marked" + (f", {gone} gone" if gone else ""), "accented"))
        if self.is_frozen:
            words.append(Piece("frozen: p", "accented"))
        words += [Piece(hint, style) for hint, style in jobs.hints(self._queue, pane.place.state, pane.late_at)]
        if total and pane.page and pane.page.of is not None:
            words.append(Piece(f"a sample of {display.count(pane.page.of, width=12)}", "muted"))
        if total and pane is self.pane():
            words.append(Piece(f"{first + 1}-{min(last, total)} of {display.count(total, width=12)}", "muted"))
        room = pane.size.width - 4
        said: list[Piece] = []
        for word in words:
            room -= display.cell_len(word.text) + 3
            if room < 0 and said:
                break
            said += [Piece(" · " if said else " ", "muted"), word]
        return [*said, Piece(" ")] if said else []

    # -- what the app asks ----------------------------------------------------------------------------------------

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The queue, the pages in sight, and the job of the detail pane."""
        job = self.pane().job()
        detail = self.query_one("#detail").display and job is not None
        return Focus(
            (self.ref,), tuple(p.wish() for p in self._shown()), (self.ref, job.id) if detail and job else None, 4096
        )

    def show(self, snapshot: Snapshot) -> None:
        """Draws a new picture; while frozen the rows stand and only the counts run."""
        queue = snapshot.queue(self.ref)
        if queue is None:
            return  # a picture that was asked for by the view below
        self._queue, self._rate = queue, snapshot.rates.get(self.ref) or Rate()
        if not self.is_frozen:
            for pane in self._shown():
                page = snapshot.page(self.ref, pane.place.name)
                if page is not None:
                    pane.show_page(page, snapshot.taken_ms)
        self._arrange()
        self._show_detail(snapshot)

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
        encoding, body = jobs.body(job, detail.content_size.width)
        life = jobs.life_line(job, max(20, detail.content_size.width))
        text.show(
            Content("\n").join(
                [
                    jobs.properties(job, snapshot.taken_ms, self.layout_of_queue.tells),
                    *([Content(), life] if life else []),
                    Content.assemble("\n", ("body", "b $strong"), (f"  {encoding}", "$muted")),
                    body,
                ]
            )
        )

    def target(self) -> Target:
        """What a verb would act on."""
        pane = self.pane()
        return Target(
            self.ref,
            pane.place.name,
            () if pane.whole_place else tuple(pane.chosen()),
            pane.whole_place,
            self._queue,
            pane.place.state,
        )

    def second_line(self, width: int) -> chrome.Sides:
        """The queue's counts, and how fast it goes."""
        if self._queue is None:
            return super().second_line(width)
        return chrome.queue_line(self._queue, self._rate, width, self.cockpit.system_of(self.ref))

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        for pane in self.panes():
            pane.dimmed = is_dim
        self.query_one("#detail").set_class(is_dim, "-dimmed")

    def acted(self, ids: Collection[bytes]) -> None:
        """Takes the marks off jobs that were acted on."""
        pane = self.pane()
        pane.whole_place = False
        pane.unmark(ids)

    # -- keys -----------------------------------------------------------------------------------------------------

    def action_place(self, number: int) -> None:
        """Goes to the place of that number."""
        panes = self.panes()
        if number <= len(panes):
            self._go(panes[number - 1])

    def action_pane(self, step: int) -> None:
        """Goes to the next place, or the one before."""
        panes = self.panes() if self.size.width < WIDE else self._shown()
        self._go(panes[(panes.index(self.pane()) + step) % len(panes)])

    def action_page(self, pages: int) -> None:
        """Turns the page."""
        self.pane().action_page(pages)

    def action_mark_all(self) -> None:
        """Chooses the whole place, also what is not loaded."""
        self.pane().whole_place = not self.pane().whole_place
        self._titles()
        self.app_keys_changed()

    def _go(self, pane: Pane) -> None:
        self._current = pane.place.name
        pane.display = True  # a hidden one cannot have the focus, and one that hides gives it to its neighbour
        self.set_focus(pane)
        self._arrange()
        self.call_after_refresh(self.look_again)  # how many rows it wants is known when it is laid out

    # -- events ---------------------------------------------------------------------------------------------------

    def on_resize(self, _event: Resize) -> None:
        """Side by side or tabs, as wide as it is."""
        self._arrange()
        self.look_again()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """A click on a pane makes it the current one."""
        if isinstance(event.widget, Pane) and event.widget.place.name != self._current:
            self._current = event.widget.place.name
            self._arrange()
            self.look_again()
        self.app_keys_changed()

    def on_table_moved(self, _event: Table.Moved) -> None:
        """The detail follows the cursor."""
        self.app_keys_changed()
        self._titles()
        if self.query_one("#detail").display:
            self.look_soon()

    def on_table_fitted(self, _event: Table.Fitted) -> None:
        """The frame says which rows are in sight."""
        self._titles()

    def on_table_marked(self, _event: Table.Marked) -> None:
        """The frame says how many."""
        self._titles()
        self.app_keys_changed()

    def on_table_wanted(self, event: Table.Wanted) -> None:
        """Another part of the list is needed."""
        if isinstance(event.table, Pane):
            event.table.offset_wanted, event.table.limit_wanted = event.offset, event.limit
            self.look_again()

    def on_table_opened(self, event: Table.Opened) -> None:
        """Enter opens the job."""
        pane = event.table
        job = pane.job() if isinstance(pane, Pane) else None
        if job:
            self.open_job(self.ref, job)
