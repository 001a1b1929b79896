"""The view of events, the newest first; opening it turns recording on, leaving it lets recording lapse.

The feed comes with each tick, from the last event that is known on. A system that records none shows what this
screen and its loops did there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine.ticker import Answered
from rqtui.errors import RqtuiError
from rqtui.layout.layout import Ask, Layout
from rqtui.model import Focus, Rate, Ref, Snapshot, State
from rqtui.reports import events
from rqtui.reports.events import Event, Feed
from rqtui.text import formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.recent import Entry
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table

KEPT = 10_000  # events in memory
QUEUES = 50  # that are followed together
HAPPENED = 200  # steps of this screen, where nothing else is recorded
SUMMED = 4  # verbs in the frame


class Events(View):
    """The feed of one queue, or of several by time."""

    NAME = "events"
    FILTER_HINT = "verb, id, worker or queue; !word leaves out, /re/ searches"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._given, self._refs = refs, refs
        self._busiest: tuple[Ref, ...] = ()  # of more queues than can be followed; chosen once, so that none jumps
        self._kept: deque[Event] = deque(maxlen=KEPT)  # the newest first
        self._waiting: list[Event] = []  # that came while the rows stand still, the oldest first
        self._feeds: dict[Ref, Feed] = {}
        self._after: dict[Ref, str] = {}
        self._asks: dict[Ref, tuple[str, Ask[Feed]]] = {}
        self._rows: deque[Row] = deque(maxlen=KEPT)
        self._by_key: dict[str, Event] = {}
        self._sign: tuple[object, ...] = ()
        self._is_settled = False
        self._gaps = 0
        self._fits: Callable[[Event], bool] = events.matcher("")
        self._is_asking = False
        self._refused: dict[Ref, str] = {}  # queues that may not be recorded, and why
        self._complaint = ""  # said last, once
        self._unread = ""  # why events could not be read this time
        self._snapshot: Snapshot | None = None

    def compose_view(self) -> ComposeResult:
        """The table."""
        self._refs = self._given or tuple(self.session.refs)
        yield Table(
            columns(len(self._refs) > 1),
            empty="looking …",
            id="events",
            ascii_only=self.session.settings.is_ascii,
            has_marks=False,
        )

    def on_mount(self) -> None:
        """The keys go to the table."""
        self._table.follow_head = True
        self._table.focus()

    @property
    def _table(self) -> Table:
        return self.query_one("#events", Table)

    # -- what the app asks --------------------------------------------------------------------------------------------

    @property
    def _told(self) -> list[Ref]:
        """The queues that tell events, of too many the busiest."""
        layouts = self.session.layouts
        able = [ref for ref in self._refs if ref.layout in layouts and events.has_events(layouts[ref.layout])]
        if len(able) <= QUEUES:
            return able
        self._busiest = self._busiest or self.busiest(able, QUEUES)
        return list(self._busiest)

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """The events after those that are known, and the queues' own counts."""
        layouts = self.session.layouts
        for ref in self._told:
            after = self._after.get(ref, "")
            if self._asks.get(ref, ("-",))[0] != after:  # the same wish is the same object
                self._asks[ref] = after, events.feed_ask(layouts[ref.layout], ref.queue, after)
        asks = tuple(self._asks[ref][1] for ref in self._told)
        return Focus(tuple(self._told) or self._refs[:QUEUES], asks={"events": asks})

    def show(self, snapshot: Snapshot) -> None:
        """Takes what is new, and draws it unless the rows stand still."""
        is_first, self._snapshot = self._snapshot is None, snapshot
        fresh: list[Event] = []
        self._unread = ""
        for answer in snapshot.answers.get("events", ()):
            if isinstance(answer, Feed) and answer.ref in self._refs:
                fresh += self._new(answer)
            elif isinstance(answer, RqtuiError):
                self._unread = self._unread or str(answer)
        if self._unread:
            self._complain(f"Some events cannot be read: {self._unread}")
        self._waiting += sorted(fresh, key=lambda event: event.order)
        del self._waiting[:-KEPT]
        if is_first or not self.is_frozen:  # `p` may have been typed ahead
            self._take()
        self._record()
        self._draw()

    def _new(self, feed: Feed) -> tuple[Event, ...]:
        """The events that were not seen yet: a picture may have been asked for twice."""
        known = self._after.get(feed.ref, "")
        self._feeds[feed.ref] = feed
        fresh = tuple(event for event in feed.events if not known or _number(event) > _parsed(known))
        if fresh:
            self._after[feed.ref] = feed.last
            self._gaps += bool(known and feed.has_gap)
        return fresh

    def _take(self) -> None:
        for event in self._waiting:
            if len(self._kept) == KEPT:
                self._by_key.pop(self._kept[-1].key, None)
            self._kept.appendleft(event)
            self._by_key[event.key] = event
            if self._fits(event):
                self._rows.appendleft(self._row(event))
        self._waiting.clear()

    def _record(self) -> None:
        """Asks for some more time of recording, where it would lapse and changes are allowed."""
        if self._is_asking or self.session.is_read_only:
            return
        due = events.due({ref: feed for ref, feed in self._feeds.items() if ref not in self._refused})
        if due:
            self._is_asking = True
            self.session.ask(lambda engine: events.record(engine, tuple(due), due), self._recorded)

    def _recorded(self, answered: Answered) -> None:
        self._is_asking = False
        self._refused |= answered.result or {}
        if why := answered.error or next(iter(self._refused.values()), ""):
            self._complain(f"Not everything is recorded: {why}")
        elif self.is_drawn:
            self.host.look_again()

    def _complain(self, words: str) -> None:
        """A toast, once."""
        if words != self._complaint:
            self._complaint = words
            self.host.say(words, "warning")

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        table = self._table
        table.empty = self._nothing()
        rows: Iterable[Row] = self._rows
        if not self._told and self.session.layouts:
            here = set(self._refs)
            done = [entry for entry in self.session.happened(HAPPENED) if entry.ref in here]
            where = partial(Entry.where, twins=self.session.twins) if len(self._refs) > 1 else None
            rows = [_step(number, entry, where) for number, entry in enumerate(done)]
        sign = (self._rows[0].id if self._rows else None, len(self._rows), self.filter_text)
        is_same, self._sign = sign == self._sign, sign
        if not (is_same and self._is_settled and self._rows):  # ten thousand rows that are the same cost 8 ms
            table.update(rows)
        self._is_settled = is_same  # the tint of what arrived goes with the second look
        self._say()

    def _nothing(self) -> str:
        if not self._refs:
            return keys.renamed("no queues yet: Esc, then N enqueues a job")
        if not self._told:
            return f"{self._refs[0].layout} records no events; the steps of this screen and its loops appear here"
        if self._unread and not self._feeds:
            return f"no events can be read: {self._unread}"
        if self.filter_text:
            return keys.renamed("no event matches the filter: / changes it, Esc in it shows all")
        if not all(feed.is_known for feed in self._feeds.values()):
            return keys.renamed("this queue holds nothing yet: N enqueues a job")
        if any(feed.is_recording for feed in self._feeds.values()):
            return "no event since recording began; new events appear here"
        return "nothing is recorded" if self.session.is_read_only else "recording begins …"

    def _say(self) -> None:
        """Whether it is recorded and followed, in the frame; below, what happened how often."""
        words = self._status()
        frozen = [
            Piece(f" paused: {keys.key('freeze')} goes on, {formats.count(len(self._waiting))} wait ", "accented")
        ]
        behind = [] if self._table.follow_head else [Piece(keys.renamed(" g follows again "), "accented")]
        self._table.set_title(Piece(" events ", "strong"), *words, *(frozen if self.is_frozen else behind))
        counted = Counter(event.verb for event in self._kept if self._fits(event)).most_common(SUMMED)
        summed = "   ".join(f"{verb} {formats.count(number)}" for verb, number in counted)
        gap = [Piece(" more events than could be read ", "warning")] if self._gaps else []
        self._table.set_subtitle(*gap, *([Piece(f" {summed} ", "muted")] if summed else []))

    def _status(self) -> Sequence[Piece]:
        told = self._told
        if not told:
            return (Piece("what this screen did "),) if self._refs else ()
        more = len(self._refs) - len(told)
        which = f"· the {len(told)} busiest of {len(self._refs)} queues " if self._busiest else ""
        others = (Piece(which or f"· {more} more not shown ", "muted"),) if more else ()
        if any(feed.is_recording for feed in self._feeds.values()):
            return (Piece("● recording ", "state-ready"), *others)
        if self._unread and not self._feeds:
            return (Piece("○ cannot be read ", "warning"), *others)
        if self.session.is_read_only:
            return (Piece("○ not recorded, and read-only cannot begin it ", "warning"), *others)
        return (Piece("○ not recorded ", "warning"), *others)

    def _row(self, event: Event) -> Row:
        layout = self.session.layouts.get(event.ref.layout)
        id = safe(event.id) or Piece("the queue", "muted")
        cells: list[Cell] = [Piece(formats.clock(event.at_ms) + f".{event.at_ms % 1000:03}", "muted")]
        cells += [safe(self.session.named(event.ref))] if len(self._refs) > 1 else []
        sign = Piece("× " if event.is_failure else "  ", "state-dead")
        style = "state-dead" if event.is_failure else _hue(layout, event.verb)
        cells += [(sign, Piece(safe(event.verb), style)), id]
        cells += [Piece(_way(layout, event.verb), "muted"), safe(event.worker)]
        return Row(event.key, tuple(cells))

    def second_line(self, width: int) -> chrome.Sides:
        """The queue's own counts; of several, how many."""
        queue = self._snapshot.queue(self._refs[0]) if len(self._refs) == 1 and self._snapshot else None
        if queue is not None and self._snapshot is not None:
            rate = self._snapshot.rates.get(self._refs[0], Rate())
            return chrome.queue_line(queue, rate, width, self.session.system_of(self._refs[0]))
        return Content.styled(f"{len(self._refs)} queues", "b $strong"), Content()

    def scope(self) -> tuple[Ref, ...]:
        """The same queues."""
        return self._given

    def target(self) -> Target:
        """The queue of the event under the cursor, else the only one."""
        event = self._by_key.get(str(self._table.cursor_id)) if self.is_drawn else None
        ref = event.ref if event else (self._refs[0] if len(self._refs) == 1 else None)
        return Target(ref, queue=self._snapshot.queue(ref) if ref and self._snapshot else None)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self._table.dimmed = is_dim

    # -- keys ---------------------------------------------------------------------------------------------------------

    def filtered(self, expression: str) -> None:
        """Only events in which every word stands."""
        self._fits = events.matcher(expression)
        self._rows = deque((self._row(event) for event in self._kept if self._fits(event)), maxlen=KEPT)
        self.filter_text, self._sign = expression, ()
        self._table.reset()
        self._follow()
        self._draw()

    def action_next_failure(self) -> None:
        """The cursor to the next older failure; from the last of them to the first."""
        shown = [row.id for row in self._rows]
        failed = [at for at, key in enumerate(shown) if (event := self._by_key.get(str(key))) and event.is_failure]
        if not failed:
            self.host.say("No failure among the events that are shown.")
            return
        here = shown.index(self._table.cursor_id) if self._table.cursor_id in shown else -1
        self._table.follow_head = False
        self._table.move_to(shown[next((at for at in failed if at > here), failed[0])])
        self._say()

    def action_freeze(self) -> None:
        """Lets the rows stand, or takes what came meanwhile."""
        super().action_freeze()
        self._say()

    def on_table_moved(self, event: Table.Moved) -> None:
        """On the first row the feed is followed; away from it nothing moves under the cursor."""
        self._follow()
        self.host.show_keys()

    def _follow(self) -> None:
        first = self._rows[0].id if self._rows else None
        self._table.follow_head = self._table.cursor_id in (None, first)
        self._say()

    def on_table_opened(self, opened: Table.Opened) -> None:
        """Enter opens the job, if it is still there."""
        event = self._by_key.get(str(opened.id))
        if event is None or not event.id:
            self.host.say("This event is about the queue, not about a job.")
            return

        def shown(answered: Answered) -> None:
            if answered.error or answered.result is None:
                self.host.say(answered.error or f"{safe(event.id)} is gone.")
            elif self.is_on_top:
                self.host.open_job(event.ref, answered.result)

        self.session.ask(lambda engine: engine.job(event.ref, event.id), shown)


def columns(has_queues: bool) -> tuple[Column, ...]:
    """The columns of the feed."""
    queue = (Column("queue", "queue", 12, weight=1, style="muted"),) if has_queues else ()
    return (
        Column("time", "time", 12),
        *queue,
        Column("verb", "  happened", 14),
        Column("id", "job", 16, weight=2, style="strong"),
        Column("way", "moved", 26, drop=3),
        Column("worker", "worker", 10, weight=1, drop=1, style="muted"),
    )


def _step(number: int, entry: Entry, where: Callable[[Entry], str] | None) -> Row:
    """What a loop or a key of this screen did, as a line of the feed; `where` names its queue, None: there is one."""
    words = entry.words or f"{formats.count(entry.moved)} moved"
    queue = [safe(where(entry))] if where else []
    at = Piece(formats.clock(entry.at_s * 1000), "muted")
    cells: tuple[Cell, ...] = (at, *queue, f"  {entry.verb}", safe(words), "", "")
    return Row(f"{entry.at_s}-{number}", cells)


@cache
def _way(layout: Layout | None, verb: str) -> str:
    """From where to where a verb brings jobs, as its header says."""
    script = layout.scripts.get(verb) if layout else None
    if script is None or not script.moves:
        return ""
    here, there = " | ".join(script.sources), " | ".join(script.targets)
    if len(script.sources) > 2:
        here = "any"
    if len(script.targets) > 2:
        there = "any"
    return f"{here} → {there}".strip()


@cache
def _hue(layout: Layout | None, verb: str) -> str:
    """The hue of the state that a verb brings jobs to, unless something is wrong with them."""
    script = layout.scripts.get(verb) if layout else None
    if layout is None or script is None or not script.targets:
        return ""
    return f"state-{State(layout.place(script.targets[0]).state)}"


def _number(event: Event) -> tuple[int, int]:
    return event.at_ms, event.number


def _parsed(after: str) -> tuple[int, int]:
    ms, _dash, number = after.partition("-")
    return int(ms), int(number)
