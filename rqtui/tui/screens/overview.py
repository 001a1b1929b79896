"""The overview: every queue a row, or every group of them, and below, where there is room, what happened lately.

On a large terminal the queues take the lines that they need, and the rest shows the one under the cursor: its last
hour, why its verdict is what it is, what its dead jobs died of.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.errors import UsageError
from rqtui.model import Focus, PageWish, Queue, Rate, Ref, Snapshot, State, Worker
from rqtui.text import elision, formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import groups, queues, recent
from rqtui.tui.format.groups import Group
from rqtui.tui.format.rows import Id, Later, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.drawn import Drawn
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.filters import Term
    from rqtui.engine.history import History
    from rqtui.layout.layout import Ask
    from rqtui.tui.widgets.preview import Cause
    from rqtui.verbs import Verb

AT_ONCE = 100  # queues counted per tick; of more, those in sight and some of the others in turn
OLD_MS = 60_000  # from which on it is said how old the figures of queues out of sight may be
KEPT = 1000  # rows that were in sight
IN_TURN = 50  # a thousand queues: each counted anew within 40 s, for half a percent of a core
WITH_HAPPENED = 30  # rows of a terminal
HAPPENED = 5  # lines of it, at least
SAMPLE, PARTS = 30, 3  # dead jobs that tell what they died of: from the beginning, the middle and the end of the place
PREVIEWED = 20  # queues whose history is remembered
INDENT = 2  # cells, of each level of groups
EMPTY = "no queues yet: N enqueues a job, or point rqtui at another Redis"
NO_MATCH = "no queue matches the filter: / changes it, Esc in it clears it"


class Overview(View):
    """All queues of this Redis."""

    NAME = "overview"
    IS_FIRST = True
    MAKES_QUEUES = True
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
    FILTER_HINT = "a part of a name, a system or a verdict; /regular expression/ and !not"
    DEFAULT_CSS = """
    Overview #unspoken { height: auto; max-height: 4; padding: 0 2; color: $muted; display: none; }
    Overview #unspoken.-dimmed { text-opacity: 60%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort = queues.SORTS[0]
        self._terms: tuple[Term, ...] = ()  # of the filter that holds
        self._levels = 0  # of groups that were asked for; 0: none
        self._unfolded: set[str] = set()
        self._left_out = ""  # what all names begin with, where they are long
        self._is_long = False
        self._named_of: tuple[list[Ref], frozenset[str]] = ([], frozenset())  # these queues, and twins, are named so
        self._of: list[Ref] = []  # the queues of the session, when what is known was looked through
        self._has_shared = False  # some are of a system with places that tell of the jobs of all queues
        self._arranged: tuple[object, ...] = ()  # by what the columns were chosen
        self._drawn: dict[str, Ref | Group] | None = None  # the rows that the table has
        self._cells = self._cells_of  # one object for all of them
        self._known: dict[Ref, Queue] = {}
        self._signs: dict[Ref, queues.Signs] = {}
        self._rates: dict[Ref, Rate] = {}
        self._moving: set[Ref] = set()  # the queues whose rates are not nothing
        self._rate = Rate()  # of all together, summed once per picture: the second line is asked for each second
        self._found = 0  # queues that fit the filter
        self._within: dict[str, str] = {}  # by id of a row: the beginning of the group that it stands in
        self._depths: dict[str, int] = {}
        self._labels: frozenset[str] = frozenset()
        self._longest = 0  # cells of a label, with what stands before it
        self._keys: dict[Ref, tuple[object, ...]] = {}
        self._ordered: list[Ref] | None = None  # the queues of the session that have keys, where all are listed
        self._by_id: dict[str, Ref | Group] = {}
        self._rows: dict[str, tuple[object, Row]] = {}
        self._lines: dict[str, Row] = {}  # what the table has of the queues
        self._before: dict[Ref, Queue] = {}  # as they were when the rows began to stand
        self._frozen_s = 0.0
        self._turn = 0
        self._shape = queues.Shape()
        self._text = Content()
        self._now_ms = 0
        self._histories: dict[Ref, History] = {}
        self._workers: dict[Ref, tuple[Worker, ...]] = {}
        self._causes: dict[Ref, tuple[Cause, ...]] = {}
        self._sampled: dict[Ref, tuple[int, int]] = {}  # how many were dead then, and how many were looked at
        self._wished: dict[Ref, int] = {}  # how many were dead when these were asked for
        self._asks: dict[tuple[Ref, str], Ask[Any]] = {}

    def compose_view(self) -> ComposeResult:
        """The table, which other systems are here, and what happened."""
        yield Table(queues.columns(self._shape), empty=keys.renamed(EMPTY), id="queues", has_marks=False)
        yield Static("", id="unspoken", markup=False)
        with Horizontal(id="below"):
            yield Drawn(self._draw_preview, id="preview")
            with Vertical(id="aside"):
                yield Drawn(self._draw_causes, id="causes")
                with Static("", id="happened", classes="pane") as pane:
                    pane.border_title = Content(" what happened ")

    def on_mount(self) -> None:
        """The keys go to the table; with this view everything begins."""
        self._say()
        self._arrange()
        self._table.focus()
        self.call_next(self.host.connect_soon)

    @property
    def _table(self) -> Table:
        return self.query_one("#queues", Table)

    def on_resize(self, _event: Resize) -> None:
        """Short numbers on a narrow terminal."""
        self._arrange()
        self._draw()

    def _arrange(self) -> None:
        width, height = self.app.size
        refs, labels, longest = self.session.refs, self._labels, self._longest
        by = (width, height, refs, labels, longest)
        if len(by) == len(self._arranged) and all(map(operator.is_, by, self._arranged)):
            return
        self._arranged = by
        shape = queues.shape(width, self.session.refs, self._labels, self._longest)
        if shape != self._shape:
            self._shape = shape
            self._table.set_columns(queues.columns(shape))
            self._rows.clear()
            self._lines.clear()
            self._drawn = None
        self.query_one("#below").display = height >= WITH_HAPPENED
        self.fit_table(self._table, len(self.session.refs))

    # -- what the app asks --------------------------------------------------------------------------------------------

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """All queues while they are few; else those in sight and, in turn, some of the others."""
        pages, asks = self._wishes()
        if len(refs) <= AT_ONCE:
            return Focus(tuple(refs), pages, asks=asks)
        known = set(refs)
        first, last = self._table.in_sight
        rows = [self._by_id[str(row.id)] for row in self._table.rows[first:last] if str(row.id) in self._by_id]
        seen = [ref for row in rows for ref in (row.refs if isinstance(row, Group) else (row,)) if ref in known]
        turn = [refs[(self._turn + step) % len(refs)] for step in range(IN_TURN)]
        return Focus(tuple(dict.fromkeys([*seen[:AT_ONCE], *turn])), pages, asks=asks)

    def _wishes(self) -> tuple[tuple[PageWish, ...], dict[str, tuple[Ask[Any], ...]]]:
        """What the preview needs to know of the queue under the cursor: its minutes, its workers, and, when others have
        died since, some of its dead jobs; of a group these alone, of one queue after the other."""
        shown = self._under_cursor() if self.has_preview else None
        if isinstance(shown, Group):
            return next(
                filter(None, (self._dead_wish(ref, self._known.get(ref)) for ref in self._in_turn(shown))), ()
            ), {}
        ref = shown
        layout = self.session.layouts.get(ref.layout) if ref else None
        if ref is None or layout is None:
            return (), {}
        from rqtui.engine import history as stats  # the first picture does not wait for it
        from rqtui.tui.widgets import preview

        asks: dict[str, tuple[Ask[Any], ...]] = {}
        if stats.has_stats(layout):
            minutes = 2 if ref in self._histories else preview.MINUTES + 1
            asks["history"] = (
                self._ask(ref, f"history {minutes}", lambda: stats.history_ask(layout, ref.queue, minutes)),
            )
        queue = self._known.get(ref)
        if queue and queue.workers:
            asks["workers"] = (self._ask(ref, "workers", lambda: layout.workers_ask(ref.queue)),)
        return self._dead_wish(ref, queue), asks

    def _ask(self, ref: Ref, name: str, make: Callable[[], Ask[Any]]) -> Ask[Any]:
        """The same object as last time: a wish is another one when what it asks for is."""
        if (ref, name) not in self._asks:
            while len(self._asks) >= 3 * PREVIEWED:
                del self._asks[next(iter(self._asks))]
            self._asks[ref, name] = make()
        return self._asks[ref, name]

    def _in_turn(self, group: Group) -> list[Ref]:
        """The queues of a group whose dead jobs are looked at: those of which nobody has seen any, then the others."""
        return sorted(self._with_dead(group), key=lambda ref: ref in self._sampled)

    def _with_dead(self, group: Group) -> list[Ref]:
        """The queues of a group with the most dead jobs, as many as are remembered."""
        dead = {ref: self._known[ref].count_in(State.DEAD) for ref in group.refs if ref in self._known}
        return sorted((ref for ref in dead if dead[ref]), key=lambda ref: -dead[ref])[: PREVIEWED // 2]

    def _dead_wish(self, ref: Ref, queue: Queue | None) -> tuple[PageWish, ...]:
        dead = [count for count in queue.counts if count.state is State.DEAD and count.count] if queue else []
        if not dead or self._sampled.get(ref, (0, 0))[0] == dead[0].count:
            return ()
        count, self._wished[ref] = dead[0].count, dead[0].count
        layout = self.session.layouts.get(ref.layout)
        if count <= SAMPLE * PARTS or (layout is not None and layout.is_shared(dead[0].place)):
            return (PageWish(ref, dead[0].place, 0, SAMPLE * PARTS),)
        offsets = (0, (count - SAMPLE) // 2, count - SAMPLE)
        return tuple(PageWish(ref, dead[0].place, offset, SAMPLE) for offset in offsets)

    def _take(self, snapshot: Snapshot) -> None:
        """What the last picture tells of the queue under the cursor, and of others that were under it."""
        self._now_ms = snapshot.taken_ms
        if not self.has_preview:
            return
        from rqtui.engine.history import History
        from rqtui.tui.widgets import preview

        for answer in snapshot.answers.get("history", ()):
            if isinstance(answer, History):
                known = self._histories.pop(answer.ref, None)
                self._histories[answer.ref] = known.updated(answer) if known else answer
        asked = self.session.pictured.asks.get("workers", ())
        for ask, found in zip(asked, snapshot.answers.get("workers", ()), strict=False):
            ref = next((ref for (ref, _name), made in self._asks.items() if made is ask), None)
            if ref is not None and isinstance(found, tuple):
                self._workers[ref] = found
        for ref in {Ref(page.layout, page.queue) for page in snapshot.pages if not page.error}:
            pages = [page for page in snapshot.pages if (page.layout, page.queue) == ref]
            died = {job.id: job for page in pages for job in page.jobs}
            self._causes[ref] = preview.causes(died.values())
            self._sampled[ref] = (self._wished.get(ref, 0), len(died))
            if ref not in self.session.causes:
                self.session.causes[ref] = frozenset(cause.id for cause in self._causes[ref])
        for remembered in (self._histories, self._workers, self._causes, self._sampled, self._wished):
            while len(remembered) > PREVIEWED:
                del remembered[next(iter(remembered))]

    def show(self, snapshot: Snapshot) -> None:
        """Draws what is known of every queue, in the order of the sort."""
        self._arrange()
        self._take(snapshot)
        refs = self.session.refs
        counted = {Ref(queue.layout, queue.name): queue for queue in snapshot.queues}
        self._known.update(counted)
        self._signs.update((ref, queues.signs(queue)) for ref, queue in counted.items())
        self._rates.update(snapshot.rates)
        if refs is not self._of or len(self._known) > len(refs):
            here = set(refs)
            for about in (self._known, self._signs, self._rates):
                for ref in about.keys() - here:
                    del about[ref]
            self._of = refs
            layouts = self.session.layouts
            systems = {ref.layout for ref in refs} & layouts.keys()
            self._has_shared = any(
                place.is_shared or place.is_heard for name in systems for place in layouts[name].places
            )
        self._rate = self._rate_of_all(snapshot.rates)
        if not self.is_frozen and self._is_out_of_order(refs, counted):
            self._order(counted)
        self._draw(counted)
        if len(refs) > AT_ONCE:  # the next picture is about others
            self._turn = (self._turn + IN_TURN) % len(refs)

    def _rate_of_all(self, fresh: Mapping[Ref, Rate]) -> Rate:
        """The sum of all rates; of queues at rest only how far back one looks counts."""
        for ref, rate in fresh.items():
            if rate.in_s or rate.out_s or rate.failed_s or any(rate.history):
                self._moving.add(ref)
            else:
                self._moving.discard(ref)
        self._moving &= self._rates.keys()
        resting = max((rate for rate in fresh.values()), key=lambda rate: len(rate.history), default=Rate())
        resting = Rate(history=(0.0,) * len(resting.history))
        return groups.rate([*(self._rates[ref] for ref in self._moving), resting])

    def ranked(self, refs: Collection[Ref]) -> list[Ref]:
        """Where most moves first, then where most waits; as last counted."""

        def how_busy(ref: Ref) -> tuple[float, int]:
            rate, queue = self._rates.get(ref, Rate()), self._known.get(ref)
            waiting = sum(queue.count_in(state) for state in (State.READY, State.SCHEDULED)) if queue else 0
            return rate.in_s + rate.out_s, waiting

        return sorted(refs, key=how_busy, reverse=True)

    def _is_out_of_order(self, refs: list[Ref], counted: Collection[Ref]) -> bool:
        """Whether what was counted may stand elsewhere now: to sort a thousand queues takes as long as to count 50."""
        is_simple = not self._levels and not self._terms and len(refs) == len(self._keys)
        return not is_simple or any(self._keys.get(ref) != self._sort_key(ref) for ref in counted)

    def _order(self, counted: Collection[Ref] = ()) -> None:
        """Which rows there are now, and in which order; only those that were `counted` may stand elsewhere (none: all).

        Of ten thousand queues some hundred are counted: the others keep their names and their keys.
        """
        if counted and self._ordered is self.session.refs and not self._levels and not self._terms:
            self._keys.update({ref: self._sort_key(ref) for ref in counted if ref in self._keys})
            listed = sorted(self._by_id.items(), key=lambda row: self._keys[row[1]])  # type: ignore[index]
            self._by_id = dict(listed)
            return
        refs = [ref for ref in self.session.refs if self._fits(ref)]
        self._ordered = None if self._levels or self._terms else self.session.refs
        self._keys = {ref: self._sort_key(ref) for ref in refs}
        refs.sort(key=self._keys.__getitem__)
        self._leave_out(self.session.refs)
        self._found = len(refs)
        self._by_id, self._within, self._depths = {}, {}, {}
        if self._levels:
            self._lay(refs, self._left_out, 0)
        else:
            self._by_id = {str(ref): ref for ref in refs}
        self._rows = {id: made for id, made in self._rows.items() if id in self._by_id}
        self._lines = {id: line for id, line in self._lines.items() if id in self._by_id}
        labels = [self._label(id) for id in self._by_id]
        self._labels = frozenset(name for _signs, _before, name in labels)
        self._longest = max((formats.cell_len("".join(label)) for label in labels), default=0)
        self._arrange()

    def _leave_out(self, refs: list[Ref]) -> None:
        """Of long names what all of them begin with is left out."""
        if (refs, self.session.twins) != self._named_of:
            self._named_of = list(refs), self.session.twins
            self._is_long = any(formats.cell_len(safe(ref.queue)) > queues.WHOLE_NAME for ref in refs)
            self._left_out = elision.shared_beginning({ref.queue for ref in refs}) if self._is_long else ""
            self._rows.clear()
            self._lines.clear()

    def _lay(self, refs: list[Ref], within: str, depth: int) -> None:
        """The rows of these queues, in groups; those of a group that is unfolded below it."""
        for group in sorted(groups.grouped(refs, within), key=self._group_key):
            id = group.id if group.prefix else str(group.refs[0])
            self._by_id[id] = group if group.prefix else group.refs[0]
            self._within[id], self._depths[id] = within, depth
            if group.prefix in self._unfolded:
                self._lay(list(group.refs), group.prefix, depth + 1)

    def _label(self, id: str) -> tuple[str, str, str]:
        """(indent and sign, the beginning that others share, the rest) of a row; of long names that is left out.

        Where it is narrow, the system stands before a name that queues of several systems have.
        """
        shown = self._by_id[id]
        within = self._within.get(id, self._left_out)
        signs = " " * INDENT * self._depths.get(id, 0) + ("  " if self._levels else "")
        if isinstance(shown, Group):
            signs = signs[:-2] + ("▾ " if shown.prefix in self._unfolded else "▸ ")
        if isinstance(shown, Ref) and shown.queue in self.session.twins and self.app.size.width < queues.WITH_SYSTEMS:
            return signs, f"{shown.layout}:", safe(shown.queue[len(within) :])  # there is no column of systems
        name = shown.prefix if isinstance(shown, Group) else shown.queue
        return signs, "" if self._is_long else safe(within), safe(name[len(within) :])

    def _fits(self, ref: Ref) -> bool:
        if not self._terms:
            return True
        queue = self._known.get(ref)
        text = f"{ref.queue} {ref.layout} {queue.verdict.text if queue else ''}"
        return all(bool(term.pattern.search(text)) != term.is_negated for term in self._terms)

    def _sort_key(self, ref: Ref) -> tuple[object, ...]:
        return queues.sort_key(self.sort, ref.queue, self._known.get(ref), self._rates.get(ref))

    def _group_key(self, group: Group) -> tuple[object, ...]:
        return queues.sort_key(self.sort, group.prefix or group.refs[0].queue, *self._sum(group))

    def _sum(self, group: Group) -> tuple[Queue | None, Rate | None]:
        """What a group counts together; one queue alone counts for itself."""
        if not group.prefix:
            return self._known.get(group.refs[0]), self._rates.get(group.refs[0])
        known = [self._known[ref] for ref in group.refs if ref in self._known]
        layouts = self.session.layouts
        sharing = [name for name in {ref.layout for ref in group.refs} if layouts[name].shares_workers]
        return groups.total(group, known, sharing, self._whole(group.refs)), groups.rate(
            [self._rates[ref] for ref in group.refs if ref in self._rates]
        )

    def _whole(self, refs: Collection[Ref]) -> set[str]:
        """The systems all of whose queues are among these, and counted."""
        seen = {ref for ref in refs if ref in self._known}
        left_out = {ref.layout for ref in self.session.refs if ref not in seen}
        return {ref.layout for ref in seen} - left_out

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self, counted: Collection[Ref] | None = None) -> None:
        """Draws all rows; only queues that were `counted` can look otherwise (None: all, for something else is).

        Where the rows are those of the last time, in their order, only these are made.
        """
        self._say_empty()
        if len(self._rows) > len(self._by_id) or len(self._rows) > KEPT:
            in_sight = self._ids_in_sight()
            self._rows = {id: made for id, made in self._rows.items() if id in in_sight}
        self._table.foot = queues.legend(set(self._signs.values()), is_all=len(self._known) == len(self.session.refs))
        in_sight = self._ids_in_sight()
        if counted is None:
            self._lines.clear()
        fresh = {id: ref for ref in counted or () if (id := str(ref)) in self._by_id}
        self._lines.update((id, self._line(id, ref, in_sight)) for id, ref in fresh.items())
        if counted is not None and self._by_id is self._drawn and not self._levels:
            self._table.exchange([self._lines[id] for id in fresh])
        else:
            self._drawn = self._by_id
            self._table.update([self._listed(id, shown, in_sight) for id, shown in self._by_id.items()])
        self._say()
        self.show_happened()
        self._show_preview()

    def count_down(self) -> None:
        """Draws the rows whose verdict says how long it can be mended."""
        ending = [ref for ref, queue in self._known.items() if queue.verdict.until_ms is not None]
        if ending:
            self._draw(ending)

    def _ids_in_sight(self) -> frozenset[str]:
        first, last = self._table.in_sight
        return frozenset(str(row.id) for row in self._table.rows[first:last])

    def _listed(self, id: str, shown: Ref | Group, in_sight: Collection[str]) -> Row:
        if isinstance(shown, Group):
            return self._row(id, shown)
        line = self._lines.get(id)
        if line is None:
            line = self._lines[id] = self._line(id, shown, in_sight)
        return line

    def _line(self, id: str, shown: Ref | Group, in_sight: Collection[str]) -> Row:
        """A row for the table; of many those that are out of sight are made when they are drawn."""
        if len(self._by_id) <= AT_ONCE or isinstance(shown, Group) or id in in_sight:
            return self._row(id, shown)
        self._rows.pop(id, None)
        return Row(id, Later(self._cells, id))

    def _cells_of(self, id: Id) -> Sequence[Cell]:
        """The cells of a row that came into sight; nothing where it is not listed any more."""
        shown = self._by_id.get(str(id))
        return self._row(str(id), shown).cells if shown is not None else ()

    def _row(self, id: str, shown: Ref | Group) -> Row:
        """A line, made anew only when what it shows is another: there may be a thousand."""
        signs, before, name = self._label(id)
        if isinstance(shown, Group):
            queue, rate = self._sum(shown)
        else:
            queue, rate = self._known.get(shown), self._rates.get(shown)
        label = (Piece(signs), Piece(before, "muted"), Piece(name, "strong")) if signs or before else name
        now_ms = self.session.now_ms
        facts = (label, (*queues.facts(queue, rate), queues.time_left(queue, now_ms)), self._since(shown))
        made = self._rows.get(id)
        if made is None or made[0] != facts:
            system = shown.system if isinstance(shown, Group) else shown.layout
            made = self._rows[id] = (facts, queues.line(id, label, system, queue, rate, self._shape, facts[2], now_ms))
        return made[1]

    def _since(self, shown: Ref | Group | None) -> queues.Since | None:
        """What came and went while the rows stand; None while they do not. `shown` None: of all queues."""
        if not self.is_frozen:
            return None
        refs = shown.refs if isinstance(shown, Group) else (shown,) if shown else tuple(self._known)
        changed = [
            queues.changed(self._before[ref], self._known[ref])
            for ref in refs
            if ref in self._before and ref in self._known
        ]
        return queues.Since(sum(each.came for each in changed), sum(each.went for each in changed))

    def _say(self) -> None:
        """Of the row under the cursor: the whole verdict, for where the column cuts it, and its system, likewise."""
        shown = self._under_cursor()
        ref = shown if isinstance(shown, Ref) else None
        system = self.session.system_of(ref) if ref and self._shape.is_narrow else ""
        whole = str(ref) if system else ref.queue if ref and self._is_long else ""
        named = [Piece(f"{safe(whole)} ", "muted")] if whole else []
        filtered = [Piece(f"/{self.filter_text} ", "accented")] if self.filter_text else []
        self._table.set_title(Piece(" queues ", "strong"), *filtered, *named)
        queue = self._sum(shown if isinstance(shown, Group) else Group("", (shown,)))[0] if shown else None
        frozen = [Piece(keys.renamed(" frozen: p goes on "), "accented")] if self.is_frozen else []
        said = queues.verdict(queue, self.session.now_ms) if queue and queue.findings else ()
        older = [Piece(f" out of sight: counted within {formats.age(self._turn_ms())} ", "muted")]
        is_old = self._turn_ms() > OLD_MS
        self._table.set_subtitle(
            *frozen, *(older if is_old else []), *([Piece(" "), *said, Piece(" ")] if said else [])
        )

    def _turn_ms(self) -> int:
        """How old what is told of a queue out of sight may be; 0 where all are counted at each picture."""
        number = len(self.session.refs)
        return round(1000 * self.session.ticker.wait_s * -(-number // IN_TURN)) if number > AT_ONCE else 0

    def _say_empty(self) -> None:
        """What is urgent about the server, and which systems are here that rqtui does not speak: for these, where the
        rows would be, or at the foot.
        """
        engine, words = self.session.engine, ""
        if engine and engine.unspoken:
            from rqtui.systems.by_sight import sentence

            words = sentence(engine.unspoken)
        if self._has_shared:
            from rqtui.reports.shared_places import sentence as unassigned
            from rqtui.reports.shared_places import shared_places

            said = unassigned(shared_places(self._known.values(), self._whole(self._known)))
            words = "\n".join(filter(None, [words, said]))
        urgent = [f"{finding.text}: {finding.remedy}" for finding in engine.warnings] if engine else []
        is_alone = bool(words) and not self.session.refs
        is_filtered = bool(self._terms and self.session.refs)
        self._table.empty = words if is_alone and not is_filtered else keys.renamed(NO_MATCH if is_filtered else EMPTY)
        foot = self.query_one("#unspoken", Static)
        foot_words = "\n".join([*urgent, *([] if is_alone or not words else [words])])
        foot.display = bool(foot_words)
        if foot.display and str(foot.content) != foot_words:
            foot.update(foot_words)

    def show_happened(self) -> None:
        """What the loops and this screen did lately."""
        pane = self.query_one("#happened", Static)
        if not self.query_one("#below").display:
            return
        most = max(HAPPENED, pane.content_size.height) if self.has_preview else HAPPENED
        text = recent.lines(self.session.happened(most), pane.content_size.width, self.session.twins)
        if not text.is_same(self._text):
            self._text = text
            pane.update(text, layout=False)

    # -- the preview --------------------------------------------------------------------------------------------------

    def _show_preview(self) -> None:
        """The frames' words, and what is in them."""
        if not self.has_preview:
            return
        shown = self._under_cursor()
        name = shown.prefix if isinstance(shown, Group) else shown.queue if shown else ""
        span = "the last hour" if isinstance(shown, Ref) and shown in self._histories else ""
        about, causes = self.query_one("#preview", Drawn), self.query_one("#causes", Drawn)
        about.title(
            Content.assemble((f" {formats.elide_middle(safe(name), 40)} ", "b $strong"), (f"{span} ", "$muted"))
        )
        found, dead, looked = self._died_of(shown)
        number = formats.numbered(len(found), "cause") if found else ""
        of = f"{formats.count(looked)} of {formats.count(dead, width=9)}" if looked < dead else f"{formats.count(dead)}"
        words = f"{number} among {of} dead " if found else ""
        causes.title(Content.assemble((" errors ", "b $state-dead" if found else "b $strong"), (words, "$muted")))
        about.look_again()
        causes.look_again()

    def _died_of(self, shown: Ref | Group | None) -> tuple[tuple[Cause, ...], int, int]:
        """The causes of death that are known, of how many dead jobs, and how many of these were looked at."""
        if not isinstance(shown, Group):
            return self._causes.get(shown, ()) if shown else (), *(
                self._sampled.get(shown, (0, 0)) if shown else (0, 0)
            )
        from rqtui.tui.widgets import preview

        looked = [ref for ref in self._with_dead(shown) if ref in self._sampled]
        dead = sum(self._known[ref].count_in(State.DEAD) for ref in shown.refs if ref in self._known)
        found = preview.together(self._causes[ref] for ref in looked)
        return found, dead, sum(self._sampled[ref][1] for ref in looked)

    def _draw_preview(self, width: int, height: int) -> list[Content]:
        shown = self._under_cursor()
        if shown is None:
            return [Content.styled("the queue under the cursor is shown here", "$muted")]
        from rqtui.tui.widgets import preview

        if isinstance(shown, Group):
            queue, rate = self._sum(shown)
            if queue is None:
                return [Content.styled("not counted yet", "$muted")]
            each = [self._known[ref] for ref in shown.refs if ref in self._known]
            sum_ = preview.Seen(queue, rate or Rate(), self._now_ms)
            return preview.group_lines(sum_, each, width, height, ascii_only=self.session.settings.is_ascii)
        queue = self._known.get(shown)
        if queue is None:
            return [Content.styled("not counted yet", "$muted")]
        changes = tuple(entry for entry in self.session.changes if entry.ref == shown)
        seen = preview.Seen(
            queue,
            self._rates.get(shown, Rate()),
            self._now_ms,
            self._histories.get(shown),
            self._workers.get(shown),
            changes,
        )
        return preview.lines(seen, width, height, ascii_only=self.session.settings.is_ascii)

    def _draw_causes(self, width: int, height: int) -> list[Content]:
        shown = self._under_cursor()
        queue = self._sum(shown)[0] if isinstance(shown, Group) else self._known.get(shown) if shown else None
        if queue is None or not queue.count_in(State.DEAD):
            keeps = queue is not None and any(count.state is State.DEAD for count in queue.counts)
            words = "no job has died" if keeps else "its system keeps no dead jobs" if queue else ""
            words = "not known" if queue and queue.error else words
            return [Content.styled(words, "$muted")]
        from rqtui.tui.widgets import preview

        return preview.cause_lines(self._died_of(shown)[0], self._now_ms, width, height)

    def second_line(self, width: int) -> chrome.Sides:
        """What all queues do together, and the sort; while the rows stand, what came and went since."""
        found = self._found if self.filter_text else None
        left = chrome.totals(len(self.session.refs), self._rate, found)
        since = self._since(None)
        if since is None:
            grouped = chrome.hint(keys.key("group"), f"groups {self._levels}" if self._levels else "groups")
            sort = chrome.hint(keys.key("sort"), f"sort: {self.sort}")
            rights = [Content("   ").join([grouped, sort]), sort, Content()]
            if self._left_out:
                left_out = Content.styled(f"{safe(self._left_out)} is left out of the names", "$muted")
                rights[:0] = [Content("   ").join([*more, left_out]) for more in ([grouped, sort], [sort], [])]
            return chrome.first_that_fits([(left, right) for right in rights], width)
        age = formats.age((time.time() - self._frozen_s) * 1000)
        ran = Content.assemble((f"in {age}  ", "$muted"), (f"+{since.came} −{since.went}", "b $accented"))
        return left, ran

    def _under_cursor(self) -> Ref | Group | None:
        return self._by_id.get(str(self._table.cursor_id))

    def ref(self) -> Ref | None:
        """The queue under the cursor; none on a group."""
        shown = self._under_cursor()
        return shown if isinstance(shown, Ref) else None

    def allows(self, verb: Verb) -> bool:
        """There are no jobs here, only queues."""
        return verb.scope != "job"

    def target(self) -> Target:
        """The queue under the cursor, for the verbs on queues."""
        ref = self.ref()
        return Target(ref, queue=self._known.get(ref) if ref else None)

    def scope(self) -> tuple[Ref, ...]:
        """The queue under the cursor, or those of the group."""
        shown = self._under_cursor()
        return shown.refs if isinstance(shown, Group) else (shown,) if shown else ()

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self._table.dimmed = is_dim
        for id in ("#happened", "#unspoken", "#preview", "#causes"):
            self.query_one(id).set_class(is_dim, "-dimmed")

    # -- the filter ---------------------------------------------------------------------------------------------------

    def filtered(self, expression: str) -> None:
        """Shows only the queues that fit."""
        self._terms = _parsed(expression)
        self.filter_text = expression
        self._redraw()

    def filter_typed(self, expression: str) -> None:
        """As it is being typed; while it cannot be read, the rows stay as they are."""
        try:
            self._terms = _parsed(expression.strip())
        except UsageError:
            return
        self._redraw()

    # -- keys and events ------------------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """The next sort."""
        self.sort_by_the_next()

    def sorted_anew(self) -> None:
        """Another order."""
        self._redraw()

    def action_group(self) -> None:
        """Groups the queues by the beginning of their names, then a level deeper each time, and then no more; the
        cursor stays with what it was on."""
        shown = self._under_cursor()
        refs = [ref for ref in self.session.refs if self._fits(ref)]
        self._levels = self._levels + 1 if self._levels < max(1, groups.depth(refs, self._left_out)) else 0
        self._unfolded = groups.prefixes(refs, self._left_out, self._levels - 1)
        self._redraw()
        if isinstance(shown, Group) and shown.id not in self._by_id:
            self._table.move_to(str(shown.refs[0]))
        elif isinstance(shown, Ref) and str(shown) not in self._by_id:
            holds = (id for id, each in self._by_id.items() if isinstance(each, Group) and shown in each.refs)
            self._table.move_to([*holds][-1])

    def action_freeze(self) -> None:
        """Lets the rows stand while the counters run, and back."""
        self._before, self._frozen_s = dict(self._known), time.time()
        super().action_freeze()
        self._redraw()

    def _redraw(self) -> None:
        self._order()
        self._draw()
        self.host.show_header()
        if len(self.session.refs) > AT_ONCE:
            self.host.look_soon()  # others may be in sight now

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter opens the board of a queue, and folds or unfolds a group."""
        shown = self._under_cursor()
        if isinstance(shown, Group):
            self._unfolded ^= {shown.prefix}
            self._redraw()
        elif shown:
            self.host.open_board(shown)

    def on_table_cell_clicked(self, event: Table.CellClicked) -> None:
        """A click on a verdict goes where its key leads: to a view, else to the board."""
        ref = self.ref()
        queue = self._known.get(ref) if ref else None
        if event.column != "verdict" or ref is None or queue is None or not queue.findings:
            return
        view = keys.view_named_in(queue.findings[0].key or queue.findings[0].remedy)
        if view:
            self.app.simulate_key(keys.view_key(view))
        else:
            self.host.open_board(ref)

    def on_table_moved(self, _event: Table.Moved) -> None:
        """Other keys may apply to another queue."""
        self._say()
        self._show_preview()
        self.host.show_keys()
        self.host.show_header()
        if len(self.session.refs) > AT_ONCE or self.has_preview:
            self.host.look_soon()  # others may be in sight now, and the preview is of another one


def _parsed(expression: str) -> tuple[Term, ...]:
    """The filter of queues; raises UsageError, also for a field, which only jobs have."""
    from rqtui.engine import filters

    made = filters.parse(expression)
    field = next((term.field for term in made.terms if term.field), "")
    if field:
        raise UsageError(f"{field}: is for jobs; queues are filtered by name, system and verdict.")
    return made.terms
