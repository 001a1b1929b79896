"""Show the events of queues, newest first.

Recording is on while the view is open, and expires after the view is closed.

Each refresh reads the events after the last one already read, and the kinds of the jobs in sight. For a system that
records no events, the view shows what this screen and its loops did.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine.ticker import CallFinished
from rqtui.errors import RqtuiError
from rqtui.model import Focus, Job, Rate, Ref, Snapshot, State
from rqtui.reports import events
from rqtui.reports.events import Event, Feed
from rqtui.system_base.system import Replies, Request, System
from rqtui.text import formats
from rqtui.text.masking import mask_text
from rqtui.text.pieces import Cell, Piece
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import timeline
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText
from rqtui.tui.widgets.table import Table

MAX_EVENTS = 10_000  # events kept in memory
MAX_QUEUES = 50  # queues read together
MAX_OWN_ENTRIES = 200  # entries of this screen shown for systems without events
GENERATED_ID_CELLS = 10  # cells of a generated id, of which the end is shown
MAX_KINDS_PER_REFRESH = 5  # jobs in sight whose kind is read with a refresh, in the same round trip
MAX_COUNTED_VERBS = 4  # verbs counted in the frame


class Events(View):
    """The view of the events of one queue, or of several queues merged by time."""

    NAME = "events"
    DETAILS = "#event"
    DEFAULT_CSS = "Events #event { height: 1fr; padding: 0 1; display: none; scrollbar-gutter: stable; }"
    FILTER_HINT = "verb, id, worker or queue; !word leaves out, /re/ searches"

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._initial_refs, self._refs = refs, refs
        self._busiest: tuple[Ref, ...] = ()  # chosen once, so that the queues shown do not change
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)  # newest first
        self._waiting_events: list[Event] = []  # events not yet in the rows, oldest first
        self._feeds: dict[Ref, Feed] = {}
        self._last_ids: dict[Ref, str] = {}
        self._requests: dict[Ref, tuple[str, Request[Feed]]] = {}
        self._kinds: dict[tuple[Ref, bytes], str] = {}  # of jobs that were in sight; empty for a job without a kind
        self._kind_requests: dict[tuple[Ref, bytes], Request[_JobKind]] = {}
        self._rows: deque[Row] = deque(maxlen=MAX_EVENTS)
        self._events_by_key: dict[str, Event] = {}
        self._rows_signature: tuple[object, ...] = ()
        self._is_settled = False
        self._gaps = 0
        self._id_cells = 0  # the longest id so far
        self._matches_filter: Callable[[Event], bool] = events.build_event_matcher("")
        self._is_extending = False
        self._refused: dict[Ref, str] = {}  # reason by queue, where recording was refused
        self._last_warning = ""  # the last warning shown
        self._read_error = ""  # error of the last read
        self._snapshot: Snapshot | None = None
        self._job: Job | None = None  # the job of the event under the cursor, in the last snapshot

    def compose_view(self) -> ComposeResult:
        """Create the table of events and, below it, the pane with the event under the cursor."""
        self._refs = self._initial_refs or tuple(self.session.refs)
        yield Table(
            build_event_columns(len(self._refs) > 1, self._id_cells),
            empty="reading …",
            id="events",
            ascii_only=self.session.settings.is_ascii,
            has_marks=False,
        )
        yield LongText(id="event", classes="pane")

    def on_mount(self) -> None:
        """Focus the table of events, and follow new events."""
        self._table.follow_head = True
        self._table.focus()

    @property
    def _table(self) -> Table:
        return self.query_one("#events", Table)

    # -- the next refresh ---------------------------------------------------------------------------------------------

    @property
    def _read_refs(self) -> list[Ref]:
        """The queues whose events are read; of more than `MAX_QUEUES` queues the busiest."""
        systems = self.session.systems
        recorded = [ref for ref in self._refs if ref.system in systems and events.has_events(systems[ref.system])]
        if len(recorded) <= MAX_QUEUES:
            return recorded
        self._busiest = self._busiest or self.select_busiest_queues(recorded, MAX_QUEUES)
        return list(self._busiest)

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh the events after the last one already read, and the counts of the queues."""
        systems = self.session.systems
        for ref in self._read_refs:
            after = self._last_ids.get(ref, "")
            if self._requests.get(ref, ("-",))[0] != after:  # An unchanged focus must contain the same object.
                self._requests[ref] = after, events.feed_request(systems[ref.system], ref.queue, after)
        requests = tuple(self._requests[ref][1] for ref in self._read_refs)
        self._kind_requests = {
            key: self._kind_requests.get(key) or _build_kind_request(systems[key[0].system], *key)
            for key in self._list_jobs_of_unknown_kind()
        }
        groups = {"events": requests, "kinds": tuple(self._kind_requests.values())}
        focus = Focus(tuple(self._read_refs) or self._refs[:MAX_QUEUES], requests=groups)
        event = self._find_selected_event() if self.has_preview else None
        return focus._replace(job=(event.ref, event.id)) if event is not None and event.id else focus

    def _list_jobs_of_unknown_kind(self) -> list[tuple[Ref, bytes]]:
        """Return the jobs of the events in sight whose kind was not read yet."""
        if not self.is_drawn:
            return []
        first, last = self._table.visible_range
        events_in_sight = [self._events_by_key.get(str(row.id)) for row in self._table.rows[first:last]]
        jobs = dict.fromkeys((event.ref, event.id) for event in events_in_sight if event is not None and event.id)
        return [key for key in jobs if key not in self._kinds][:MAX_KINDS_PER_REFRESH]

    def _store_kinds(self, snapshot: Snapshot) -> None:
        """Store the kinds of jobs that a snapshot contains, and rebuild the rows of the events of these jobs."""
        results = [result for result in snapshot.results.get("kinds", ()) if isinstance(result, _JobKind)]
        new_kinds = {(result.ref, result.id): result.kind for result in results}
        if len(self._kinds) > MAX_EVENTS:
            self._kinds.clear()
        self._kinds |= new_kinds
        for position, row in enumerate(self._rows if new_kinds else ()):
            event = self._events_by_key.get(str(row.id))
            if event is not None and new_kinds.get((event.ref, event.id)):
                self._rows[position] = self._build_event_row(event)
                self._rows_signature = ()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Add the new events of a snapshot, and draw them unless the rows are frozen."""
        is_first, self._snapshot = self._snapshot is None, snapshot
        self._job = snapshot.job
        new_events: list[Event] = []
        self._read_error = ""
        for reply in snapshot.results.get("events", ()):
            if isinstance(reply, Feed) and reply.ref in self._refs:
                new_events += self._take_new_events(reply)
            elif isinstance(reply, RqtuiError):
                self._read_error = self._read_error or str(reply)
        if self._read_error:
            self._show_warning_once(f"Some events cannot be read: {self._read_error}")
        self._waiting_events += sorted(new_events, key=lambda event: event.order)
        del self._waiting_events[:-MAX_EVENTS]
        if is_first or not self.is_frozen:  # `p` may be pressed before the first snapshot.
            self._add_waiting_events()
        self._store_kinds(snapshot)
        self._extend_recording()
        self._draw_events()

    def _take_new_events(self, feed: Feed) -> tuple[Event, ...]:
        """Return the events of a reply that were not read before, because a request may have been sent twice."""
        last_id = self._last_ids.get(feed.ref, "")
        self._feeds[feed.ref] = feed
        new_events = tuple(
            event
            for event in feed.events
            if not last_id or _build_event_position(event) > _parse_event_position(last_id)
        )
        if new_events:
            self._last_ids[feed.ref] = feed.last
            self._gaps += bool(last_id and feed.has_gap)
        return new_events

    def _add_waiting_events(self) -> None:
        """Move the events that wait for the next redraw into the rows."""
        for event in self._waiting_events:
            if len(self._events) == MAX_EVENTS:
                self._events_by_key.pop(self._events[-1].key, None)
            self._events.appendleft(event)
            self._events_by_key[event.key] = event
            job_id = safe(event.id)
            id_cells = GENERATED_ID_CELLS if formats.is_generated_id(job_id) else formats.cell_len(job_id)
            self._id_cells = max(self._id_cells, id_cells)
            if self._matches_filter(event):
                self._rows.appendleft(self._build_event_row(event))
        self._waiting_events.clear()

    def _extend_recording(self) -> None:
        """Extend the recording of events before it expires, if changes are allowed."""
        if self._is_extending or self.session.is_read_only:
            return
        expiring = events.compute_renewals({ref: feed for ref, feed in self._feeds.items() if ref not in self._refused})
        if expiring:
            self._is_extending = True
            self.session.call_engine(
                lambda engine: events.record_events(engine, tuple(expiring), expiring), self._handle_recording_result
            )

    def _handle_recording_result(self, message: CallFinished) -> None:
        self._is_extending = False
        self._refused |= message.result or {}
        if reason := message.error or next(iter(self._refused.values()), ""):
            self._show_warning_once(f"Not everything is recorded: {reason}")
        elif self.is_drawn:
            self.host.request_refresh()

    def _show_warning_once(self, warning: str) -> None:
        """Show a warning as a toast, unless it equals the last warning."""
        if warning != self._last_warning:
            self._last_warning = warning
            self.host.show_toast(warning, "warning")

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_events(self) -> None:
        table = self._table
        table.empty = self.explain_empty_table()
        if (built := build_event_columns(len(self._refs) > 1, self._id_cells)) != table.painter.columns:
            table.set_columns(built)
        rows: Iterable[Row] = self._rows
        if not self._read_refs and self.session.systems:
            listed = set(self._refs)
            entries = [entry for entry in self.session.list_recent_entries(MAX_OWN_ENTRIES) if entry.ref in listed]
            format_queues = (
                partial(RecentEvent.format_queues, twins=self.session.ambiguous_names) if len(self._refs) > 1 else None
            )
            rows = [_build_own_event_row(number, entry, format_queues) for number, entry in enumerate(entries)]
        signature = (self._rows[0].id if self._rows else None, len(self._rows), self.filter_text)
        is_unchanged, self._rows_signature = signature == self._rows_signature, signature
        if not (is_unchanged and self._is_settled and self._rows):  # Updating 10 000 unchanged rows takes 8 ms.
            self.fit_table_height(table, len(self._rows))
            table.update(rows)
        self._is_settled = is_unchanged  # The tint of new rows is removed by the second update.
        self._update_frame()
        self._show_event_details()

    def _find_selected_event(self) -> Event | None:
        return self._events_by_key.get(str(self._table.cursor_id)) if self.is_drawn else None

    def _show_event_details(self) -> None:
        """Show the event under the cursor in whole sentences, and its job as it is now."""
        if not self.has_preview:
            return
        event, pane = self._find_selected_event(), self.query_one("#event", LongText)
        if event is None or self._snapshot is None:
            pane.border_title = Content(" details ")
            pane.show_text(Content.styled("the event under the cursor is shown here", "$muted"))
            return
        job = self._job if self._job is not None and self._job.id == event.id else None
        kind = f" {format_field_value(job.name)} " if job is not None and job.name else ""
        pane.border_title = Content.assemble((f" {safe(event.verb)} ", "b $strong"), (kind, "$muted"))
        move = _describe_move(self.session.systems.get(event.ref.system), event.verb)
        facts = [
            ("when", formats.format_date_and_time(event.at_ms)),
            ("job", safe(event.id) or "none; this event is about the queue"),
            ("queue", safe(self.session.format_name(event.ref))),
            ("moved", move),
            ("worker", format_field_value(event.worker)),
            ("detail", format_field_value(mask_text(event.detail))),
        ]
        lines = [Content.assemble((f"{name:<8}", "$muted"), (text, "$strong")) for name, text in facts if text]
        if job is not None:
            width, now_ms = self.measure_details_width(pane), self._snapshot.taken_ms
            lines += [Content(), Content.assemble(("the job is now in ", "$muted"), (job.place, f"$state-{job.state}"))]
            life_line = timeline.format_job_timeline(job, min(width, 100), now_ms)
            lines += [life_line] if life_line else []
        pane.show_text(Content("\n").join(lines))

    def explain_empty_table(self) -> str:
        """Return the sentence that the table of events shows without rows."""
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
        """Update the table's frame: recording and following in the title, the most frequent verbs at the bottom."""
        recording_pieces = self._describe_recording()
        waiting = formats.format_count(len(self._waiting_events))
        paused_pieces = [Piece(f" paused: {keys.find_current_key('freeze')} continues, {waiting} wait ", "accented")]
        follow_hint = [] if self._table.follow_head else [Piece(keys.apply_keymap(" g follows again "), "accented")]
        self._table.set_border_title(
            Piece(" events ", "strong"), *recording_pieces, *(paused_pieces if self.is_frozen else follow_hint)
        )
        verb_counts = Counter(event.verb for event in self._events if self._matches_filter(event)).most_common(
            MAX_COUNTED_VERBS
        )
        verb_text = "   ".join(f"{verb} {formats.format_count(number)}" for verb, number in verb_counts)
        gap_pieces = [Piece(" more events than could be read ", "warning")] if self._gaps else []
        self._table.set_subtitle(*gap_pieces, *([Piece(f" {verb_text} ", "muted")] if verb_text else []))

    def _describe_recording(self) -> Sequence[Piece]:
        read_refs = self._read_refs
        if not read_refs:
            return (Piece("what this screen did "),) if self._refs else ()
        unread_count = len(self._refs) - len(read_refs)
        busiest_text = f"· the {len(read_refs)} busiest of {len(self._refs)} queues " if self._busiest else ""
        other_pieces = (Piece(busiest_text or f"· {unread_count} more not shown ", "muted"),) if unread_count else ()
        if any(feed.is_recording for feed in self._feeds.values()):
            return (Piece("● recording ", "state-ready"), *other_pieces)
        if self._read_error and not self._feeds:
            return (Piece("○ cannot be read ", "warning"), *other_pieces)
        if self.session.is_read_only:
            return (Piece("○ not recorded, and read-only cannot begin it ", "warning"), *other_pieces)
        return (Piece("○ not recorded ", "warning"), *other_pieces)

    def _build_event_row(self, event: Event) -> Row:
        system = self.session.systems.get(event.ref.system)
        job_cell = safe(event.id) or Piece("the queue", "muted")
        cells: list[Cell] = [Piece(formats.format_clock(event.at_ms) + f".{event.at_ms % 1000:03}", "muted")]
        cells += [safe(self.session.format_name(event.ref))] if len(self._refs) > 1 else []
        failure_mark = Piece("× " if event.is_failure else "  ", "state-dead")
        style = "state-dead" if event.is_failure else _choose_verb_style(system, event.verb)
        kind = format_field_value(self._kinds.get((event.ref, event.id), ""))
        cells += [(failure_mark, Piece(safe(event.verb), style)), job_cell, kind]
        cells += [
            Piece(_describe_move(system, event.verb), "muted"),
            format_field_value(event.worker or mask_text(event.detail)),
        ]
        return Row(event.key, tuple(cells))

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the counts of the queue, or the number of queues if there are several, for the header."""
        only = find_only_queue(self._refs)
        queue = self._snapshot.find_queue(only) if only and self._snapshot else None
        if queue is not None and self._snapshot is not None:
            rate = self._snapshot.rates.get(self._refs[0], Rate())
            return frame.format_queue_line(queue, rate, width, self.session.find_foreign_system_name(self._refs[0]))
        return Content.styled(f"{len(self._refs)} queues", "b $strong"), Content()

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues for which the view of events was opened."""
        return self._initial_refs

    def build_target(self) -> Target:
        """Return the queue of the event under the cursor, or the view's only queue, as the target of a verb."""
        event = self._find_selected_event()
        ref = event.ref if event else find_only_queue(self._refs)
        return Target(ref, queue=self._snapshot.find_queue(ref) if ref and self._snapshot else None)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the table of events while the connection is lost, or restore it."""
        self._table.dimmed = is_dim

    # -- keys ---------------------------------------------------------------------------------------------------------

    def apply_filter(self, expression: str) -> None:
        """Show only the events that match every word of the filter expression."""
        self._matches_filter = events.build_event_matcher(expression)
        self._rows = deque(
            (self._build_event_row(event) for event in self._events if self._matches_filter(event)), maxlen=MAX_EVENTS
        )
        self.filter_text, self._rows_signature = expression, ()
        self._table.clear_rows()
        self._update_follow_mode()
        self._draw_events()

    def action_next_failure(self) -> None:
        """Move the cursor to the next older failed event, and from the oldest one to the newest."""
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
        """Freeze the rows of events, or unfreeze them and add the events that arrived meanwhile."""
        super().action_freeze()
        self._update_frame()

    def on_table_moved(self, event: Table.Moved) -> None:
        """Follow new events while the cursor is on the first row; elsewhere the rows do not move."""
        self._update_follow_mode()
        self.host.show_keys()
        if self.has_preview:
            self._show_event_details()
            self.host.request_refresh_soon()

    def _update_follow_mode(self) -> None:
        """Follow new events if the cursor is on the first row or there is no row; else keep the rows in place."""
        first = self._rows[0].id if self._rows else None
        self._table.follow_head = self._table.cursor_id in (None, first)
        self._update_frame()

    def on_table_opened(self, opened: Table.Opened) -> None:
        """Open the page of the job that the selected event is about, if the job still exists."""
        event = self._events_by_key.get(str(opened.id))
        if event is None or not event.id:
            self.host.show_toast("This event is about the queue, not about a job.")
            return

        def open_fetched_job(message: CallFinished) -> None:
            if message.error or message.result is None:
                self.host.show_toast(message.error or f"{safe(event.id)} no longer exists.")
            elif self.is_on_top:
                self.host.open_job(event.ref, message.result)

        self.session.call_engine(lambda engine: engine.fetch_job(event.ref, event.id), open_fetched_job)


def build_event_columns(has_queues: bool, id_cells: int) -> tuple[Column, ...]:
    """Return the columns of the table of events, with a column for the queue if `has_queues`."""
    queue_columns = (Column("queue", "queue", 12, weight=1, style="muted"),) if has_queues else ()
    return (
        Column("time", "time", 12),
        *queue_columns,
        Column("verb", "  happened", 14),
        Column(
            "id",
            "job id",
            min(16, max(9, id_cells)) if id_cells else GENERATED_ID_CELLS,
            weight=2,
            style="strong",
            most=max(9, id_cells),
            fit=formats.shorten_job_id,
        ),
        Column("kind", "job", 12, weight=2, most=32, drop=2),
        Column("way", "from → to", 26, weight=2, most=32, drop=3),
        Column("worker", "worker or detail", 16, weight=2, drop=1, style="muted"),
    )


class _JobKind(NamedTuple):
    """The kind of one job; empty for a job without a kind and for a deleted job."""

    ref: Ref
    id: bytes
    kind: str


def _build_kind_request(system: System, ref: Ref, id: bytes) -> Request[_JobKind]:
    """Build the request for the kind of a job, without its body."""
    request = system.job_request(ref.queue, id, 0)

    def parse_kind(replies: Replies) -> _JobKind:
        job = request.parse(replies)
        return _JobKind(ref, id, job.name if job is not None else "")

    return Request(request.calls, parse_kind, may_fail=True)


def _build_own_event_row(number: int, event: RecentEvent, format_queue: Callable[[RecentEvent], str] | None) -> Row:
    """Build the row of an action of this screen or of a step of its loops, for a system that records no events.

    `format_queue` formats the queue of the action; it is None if there is only one queue.
    """
    description = event.words or f"{formats.format_count(event.moved)} moved"
    queue_cells = [safe(format_queue(event))] if format_queue else []
    time_cell = Piece(formats.format_clock(event.at_s * 1000), "muted")
    cells: tuple[Cell, ...] = (time_cell, *queue_cells, f"  {event.verb}", safe(description), "", "", "")
    return Row(f"{event.at_s}-{number}", cells)


@cache
def _describe_move(system: System | None, verb: str) -> str:
    """Describe from which places to which places a verb moves jobs, as in the header of its script."""
    script = system.scripts.get(verb) if system else None
    if script is None or not script.moves:
        return ""
    sources, targets = " or ".join(script.sources), " or ".join(script.targets)
    if len(script.sources) > 2:
        sources = "any"
    if len(script.targets) > 2:
        targets = "any"
    return f"{sources} → {targets}".strip()


@cache
def _choose_verb_style(system: System | None, verb: str) -> str:
    """Return the style of the state to which a verb moves jobs, or an empty string if the verb has no target."""
    script = system.scripts.get(verb) if system else None
    if system is None or script is None or not script.targets:
        return ""
    return f"state-{State(system.place(script.targets[0]).state)}"


def _build_event_position(event: Event) -> tuple[int, int]:
    return event.at_ms, event.number


def _parse_event_position(event_id: str) -> tuple[int, int]:
    ms, _dash, number = event_id.partition("-")
    return int(ms), int(number)
