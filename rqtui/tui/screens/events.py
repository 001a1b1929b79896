"""The view of events, newest first; opening the view turns recording on, and after it is closed recording expires.

Each refresh reads the events after the last one already read. For a system that records no events, the view shows what
this screen and its loops did.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine.ticker import CallFinished
from rqtui.errors import RqtuiError
from rqtui.model import Focus, Rate, Ref, Snapshot, State
from rqtui.reports import events
from rqtui.reports.events import Event, Feed
from rqtui.system_base.system import Request, System
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.table import Table

MAX_EVENTS = 10_000  # events kept in memory
MAX_QUEUES = 50  # queues read together
MAX_OWN_ENTRIES = 200  # entries of this screen shown for systems without events
MAX_COUNTED_VERBS = 4  # verbs counted in the frame


class Events(View):
    """The events of one queue, or of several queues merged by time."""

    NAME = "events"
    FILTER_HINT = "verb, id, worker or queue; !word leaves out, /re/ searches"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._initial_refs, self._refs = refs, refs
        self._busiest: tuple[Ref, ...] = ()  # chosen once, so that the queues shown do not change
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)  # newest first
        self._waiting: list[Event] = []  # events not yet in the rows, oldest first
        self._feeds: dict[Ref, Feed] = {}
        self._last_ids: dict[Ref, str] = {}
        self._requests: dict[Ref, tuple[str, Request[Feed]]] = {}
        self._rows: deque[Row] = deque(maxlen=MAX_EVENTS)
        self._events_by_key: dict[str, Event] = {}
        self._rows_signature: tuple[object, ...] = ()
        self._is_settled = False
        self._gaps = 0
        self._id_cells = 0  # the longest id so far
        self._matches_filter: Callable[[Event], bool] = events.build_matcher("")
        self._is_asking = False
        self._refused: dict[Ref, str] = {}  # reason by queue, where recording was refused
        self._last_warning = ""  # the last warning shown
        self._read_error = ""  # error of the last read
        self._snapshot: Snapshot | None = None

    def compose_view(self) -> ComposeResult:
        """Yield the table."""
        self._refs = self._initial_refs or tuple(self.session.refs)
        yield Table(
            build_columns(len(self._refs) > 1, self._id_cells),
            empty="looking …",
            id="events",
            ascii_only=self.session.settings.is_ascii,
            has_marks=False,
        )

    def on_mount(self) -> None:
        """Focus the table, and follow new events."""
        self._table.follow_head = True
        self._table.focus()

    @property
    def _table(self) -> Table:
        return self.query_one("#events", Table)

    # -- the next refresh ---------------------------------------------------------------------------------------------

    @property
    def _read_refs(self) -> list[Ref]:
        """The queues whose events are read; of more than `MAX_QUEUES` the busiest."""
        systems = self.session.systems
        recorded = [ref for ref in self._refs if ref.system in systems and events.has_events(systems[ref.system])]
        if len(recorded) <= MAX_QUEUES:
            return recorded
        self._busiest = self._busiest or self.select_busiest(recorded, MAX_QUEUES)
        return list(self._busiest)

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request the events after the last one already read, and the counts of the queues."""
        systems = self.session.systems
        for ref in self._read_refs:
            after = self._last_ids.get(ref, "")
            if self._requests.get(ref, ("-",))[0] != after:  # An unchanged wish must contain the same object.
                self._requests[ref] = after, events.feed_request(systems[ref.system], ref.queue, after)
        requests = tuple(self._requests[ref][1] for ref in self._read_refs)
        return Focus(tuple(self._read_refs) or self._refs[:MAX_QUEUES], requests={"events": requests})

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Add the new events of a snapshot, and draw them unless the rows are frozen."""
        is_first, self._snapshot = self._snapshot is None, snapshot
        fresh: list[Event] = []
        self._read_error = ""
        for reply in snapshot.results.get("events", ()):
            if isinstance(reply, Feed) and reply.ref in self._refs:
                fresh += self._take_unread(reply)
            elif isinstance(reply, RqtuiError):
                self._read_error = self._read_error or str(reply)
        if self._read_error:
            self._show_warning_once(f"Some events cannot be read: {self._read_error}")
        self._waiting += sorted(fresh, key=lambda event: event.order)
        del self._waiting[:-MAX_EVENTS]
        if is_first or not self.is_frozen:  # `p` may be pressed before the first snapshot.
            self._show_waiting()
        self._extend_recording()
        self._draw()

    def _take_unread(self, feed: Feed) -> tuple[Event, ...]:
        """Return the events of a reply that were not read before: a request may have been sent twice."""
        last_id = self._last_ids.get(feed.ref, "")
        self._feeds[feed.ref] = feed
        fresh = tuple(
            event for event in feed.events if not last_id or _build_event_position(event) > _parse_position(last_id)
        )
        if fresh:
            self._last_ids[feed.ref] = feed.last
            self._gaps += bool(last_id and feed.has_gap)
        return fresh

    def _show_waiting(self) -> None:
        """Move the waiting events into the rows."""
        for event in self._waiting:
            if len(self._events) == MAX_EVENTS:
                self._events_by_key.pop(self._events[-1].key, None)
            self._events.appendleft(event)
            self._events_by_key[event.key] = event
            self._id_cells = max(self._id_cells, formats.cell_len(safe(event.id)))
            if self._matches_filter(event):
                self._rows.appendleft(self._build_row(event))
        self._waiting.clear()

    def _extend_recording(self) -> None:
        """Extend the recording of events before it expires, if changes are allowed."""
        if self._is_asking or self.session.is_read_only:
            return
        expiring = events.compute_renewals({ref: feed for ref, feed in self._feeds.items() if ref not in self._refused})
        if expiring:
            self._is_asking = True
            self.session.call_engine(
                lambda engine: events.record_events(engine, tuple(expiring), expiring), self._handle_recording
            )

    def _handle_recording(self, message: CallFinished) -> None:
        self._is_asking = False
        self._refused |= message.result or {}
        if reason := message.error or next(iter(self._refused.values()), ""):
            self._show_warning_once(f"Not everything is recorded: {reason}")
        elif self.is_drawn:
            self.host.request_refresh()

    def _show_warning_once(self, words: str) -> None:
        """Show a warning as a toast, unless it equals the last one."""
        if words != self._last_warning:
            self._last_warning = words
            self.host.show_toast(words, "warning")

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        table = self._table
        table.empty = self._explain_empty_table()
        if (built := build_columns(len(self._refs) > 1, self._id_cells)) != table.painter.columns:
            table.set_columns(built)
        rows: Iterable[Row] = self._rows
        if not self._read_refs and self.session.systems:
            listed = set(self._refs)
            entries = [entry for entry in self.session.list_recent_entries(MAX_OWN_ENTRIES) if entry.ref in listed]
            format_queues = (
                partial(RecentEvent.format_queues, twins=self.session.ambiguous_names) if len(self._refs) > 1 else None
            )
            rows = [_build_own_row(number, entry, format_queues) for number, entry in enumerate(entries)]
        sign = (self._rows[0].id if self._rows else None, len(self._rows), self.filter_text)
        is_same, self._rows_signature = sign == self._rows_signature, sign
        if not (is_same and self._is_settled and self._rows):  # Updating 10 000 unchanged rows takes 8 ms.
            table.update(rows)
        self._is_settled = is_same  # The tint of new rows is removed by the second update.
        self._update_frame()

    def _explain_empty_table(self) -> str:
        """Return the sentence shown if there are no rows."""
        if not self._refs:
            return keys.apply_keymap("no queues yet: Esc, then N enqueues a job")
        if not self._read_refs:
            return f"{self._refs[0].system} records no events; the steps of this screen and its loops appear here"
        if self._read_error and not self._feeds:
            return f"no events can be read: {self._read_error}"
        if self.filter_text:
            return keys.apply_keymap("no event matches the filter: / changes it, Esc in it shows all")
        if not all(feed.is_known for feed in self._feeds.values()):
            return keys.apply_keymap("this queue holds nothing yet: N enqueues a job")
        if any(feed.is_recording for feed in self._feeds.values()):
            return "no event since recording began; new events appear here"
        return "nothing is recorded" if self.session.is_read_only else "recording begins …"

    def _update_frame(self) -> None:
        """Update the frame: recording and following in the title, the most frequent verbs at the bottom."""
        words = self._describe_recording()
        paused = [
            Piece(
                f" paused: {keys.find_current_key('freeze')} goes on, {formats.format_count(len(self._waiting))} wait ",
                "accented",
            )
        ]
        follow_hint = [] if self._table.follow_head else [Piece(keys.apply_keymap(" g follows again "), "accented")]
        self._table.set_border_title(Piece(" events ", "strong"), *words, *(paused if self.is_frozen else follow_hint))
        verb_counts = Counter(event.verb for event in self._events if self._matches_filter(event)).most_common(
            MAX_COUNTED_VERBS
        )
        summed = "   ".join(f"{verb} {formats.format_count(number)}" for verb, number in verb_counts)
        gap = [Piece(" more events than could be read ", "warning")] if self._gaps else []
        self._table.set_subtitle(*gap, *([Piece(f" {summed} ", "muted")] if summed else []))

    def _describe_recording(self) -> Sequence[Piece]:
        read_refs = self._read_refs
        if not read_refs:
            return (Piece("what this screen did "),) if self._refs else ()
        more = len(self._refs) - len(read_refs)
        busiest_text = f"· the {len(read_refs)} busiest of {len(self._refs)} queues " if self._busiest else ""
        others = (Piece(busiest_text or f"· {more} more not shown ", "muted"),) if more else ()
        if any(feed.is_recording for feed in self._feeds.values()):
            return (Piece("● recording ", "state-ready"), *others)
        if self._read_error and not self._feeds:
            return (Piece("○ cannot be read ", "warning"), *others)
        if self.session.is_read_only:
            return (Piece("○ not recorded, and read-only cannot begin it ", "warning"), *others)
        return (Piece("○ not recorded ", "warning"), *others)

    def _build_row(self, event: Event) -> Row:
        system = self.session.systems.get(event.ref.system)
        id = safe(event.id) or Piece("the queue", "muted")
        cells: list[Cell] = [Piece(formats.format_clock(event.at_ms) + f".{event.at_ms % 1000:03}", "muted")]
        cells += [safe(self.session.format_name(event.ref))] if len(self._refs) > 1 else []
        sign = Piece("× " if event.is_failure else "  ", "state-dead")
        style = "state-dead" if event.is_failure else _choose_style(system, event.verb)
        cells += [(sign, Piece(safe(event.verb), style)), id]
        cells += [
            Piece(_describe_move(system, event.verb), "muted"),
            format_field_value(event.worker or mask_text(event.detail)),
        ]
        return Row(event.key, tuple(cells))

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the counts of the queue, or the number of queues if there are several."""
        queue = self._snapshot.find_queue(self._refs[0]) if len(self._refs) == 1 and self._snapshot else None
        if queue is not None and self._snapshot is not None:
            rate = self._snapshot.rates.get(self._refs[0], Rate())
            return frame.format_queue_line(queue, rate, width, self.session.find_foreign_system(self._refs[0]))
        return Content.styled(f"{len(self._refs)} queues", "b $strong"), Content()

    def list_scope(self) -> tuple[Ref, ...]:
        """Return the queues for which the view was opened."""
        return self._initial_refs

    def build_target(self) -> Target:
        """Return the queue of the event under the cursor, or the view's only queue."""
        event = self._events_by_key.get(str(self._table.cursor_id)) if self.is_drawn else None
        ref = event.ref if event else (self._refs[0] if len(self._refs) == 1 else None)
        return Target(ref, queue=self._snapshot.find_queue(ref) if ref and self._snapshot else None)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table while the connection is lost, or restore it."""
        self._table.dimmed = is_dim

    # -- keys ---------------------------------------------------------------------------------------------------------

    def apply_filter(self, expression: str) -> None:
        """Show only the events that match every word of the expression."""
        self._matches_filter = events.build_matcher(expression)
        self._rows = deque(
            (self._build_row(event) for event in self._events if self._matches_filter(event)), maxlen=MAX_EVENTS
        )
        self.filter_text, self._rows_signature = expression, ()
        self._table.clear_rows()
        self._update_following()
        self._draw()

    def action_next_failure(self) -> None:
        """Move the cursor to the next older failure, and from the oldest one to the newest."""
        row_ids = [row.id for row in self._rows]
        failures = [
            position
            for position, key in enumerate(row_ids)
            if (event := self._events_by_key.get(str(key))) and event.is_failure
        ]
        if not failures:
            self.host.show_toast("No failure among the events that are shown.")
            return
        cursor_position = row_ids.index(self._table.cursor_id) if self._table.cursor_id in row_ids else -1
        self._table.follow_head = False
        self._table.move_to(
            row_ids[next((position for position in failures if position > cursor_position), failures[0])]
        )
        self._update_frame()

    def action_freeze(self) -> None:
        """Freeze the rows, or unfreeze them and add the events that arrived meanwhile."""
        super().action_freeze()
        self._update_frame()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Follow new events while the cursor is on the first row; elsewhere the rows do not move."""
        self._update_following()
        self.host.show_keys()

    def _update_following(self) -> None:
        """Follow new events if the cursor is on the first row, or there are none."""
        first = self._rows[0].id if self._rows else None
        self._table.follow_head = self._table.cursor_id in (None, first)
        self._update_frame()

    def on_table_opened(self, opened: Table.Opened) -> None:
        """Open the page of the event's job, if the job still exists."""
        event = self._events_by_key.get(str(opened.id))
        if event is None or not event.id:
            self.host.show_toast("This event is about the queue, not about a job.")
            return

        def open_job(message: CallFinished) -> None:
            if message.error or message.result is None:
                self.host.show_toast(message.error or f"{safe(event.id)} is gone.")
            elif self.is_on_top:
                self.host.open_job(event.ref, message.result)

        self.session.call_engine(lambda engine: engine.fetch_job(event.ref, event.id), open_job)


def build_columns(has_queues: bool, id_cells: int) -> tuple[Column, ...]:
    """Return the columns of the table of events. Without events, `id_cells` is 0; otherwise no id is longer."""
    queue = (Column("queue", "queue", 12, weight=1, style="muted"),) if has_queues else ()
    return (
        Column("time", "time", 12),
        *queue,
        Column("verb", "  happened", 14),
        Column(
            "id", "job", min(16, max(9, id_cells)) if id_cells else 16, weight=2, style="strong", most=max(9, id_cells)
        ),
        Column("way", "moved", 26, drop=3),
        Column("worker", "worker or detail", 10, weight=2, drop=1, style="muted"),
    )


def _build_own_row(number: int, entry: RecentEvent, where: Callable[[RecentEvent], str] | None) -> Row:
    """Build the row of an action of this screen or of a step of its loops.

    `where` formats the queue of an entry; it is None if there is only one queue.
    """
    words = entry.words or f"{formats.format_count(entry.moved)} moved"
    queue = [safe(where(entry))] if where else []
    at = Piece(formats.format_clock(entry.at_s * 1000), "muted")
    cells: tuple[Cell, ...] = (at, *queue, f"  {entry.verb}", safe(words), "", "")
    return Row(f"{entry.at_s}-{number}", cells)


@cache
def _describe_move(system: System | None, verb: str) -> str:
    """Describe from which places to which places a verb moves jobs, as in the header of its script."""
    script = system.scripts.get(verb) if system else None
    if script is None or not script.moves:
        return ""
    sources, targets = " | ".join(script.sources), " | ".join(script.targets)
    if len(script.sources) > 2:
        sources = "any"
    if len(script.targets) > 2:
        targets = "any"
    return f"{sources} → {targets}".strip()


@cache
def _choose_style(system: System | None, verb: str) -> str:
    """Return the style of the state to which a verb moves jobs, or an empty string if the verb has no target."""
    script = system.scripts.get(verb) if system else None
    if system is None or script is None or not script.targets:
        return ""
    return f"state-{State(system.place(script.targets[0]).state)}"


def _build_event_position(event: Event) -> tuple[int, int]:
    return event.at_ms, event.number


def _parse_position(event_id: str) -> tuple[int, int]:
    ms, _dash, number = event_id.partition("-")
    return int(ms), int(number)
