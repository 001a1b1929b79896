"""Plot the last hour of a queue below the details of a worker or of a kind of jobs, on large terminals.

The counters per minute come with the refresh of the view. A system that counts nothing by the minute has a plot of its
last refreshes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widget import Widget

from rqtui.engine import history as stats
from rqtui.engine.history import History
from rqtui.model import Queue, Rate, Ref, Snapshot
from rqtui.text.sanitise import safe
from rqtui.tui.widgets import queue_preview

if TYPE_CHECKING:
    from rqtui.system_base.system import Request
    from rqtui.tui.session import Session

MAX_QUEUES = 20  # whose counters are cached
LEAST_ROWS, MOST_ROWS = 9, 18  # of the plot with its heading and its axis


class MinuteCounters:
    """The counters per minute of the queues that the cursor was on, and the requests for them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._histories: dict[Ref, History] = {}
        self._failed_refs: set[Ref] = set()  # queues whose counters could not be read at the last attempt
        self._requests: dict[tuple[Ref, int], Request[Any]] = {}

    def build_requests(self, ref: Ref | None) -> dict[str, tuple[Request[Any], ...]]:
        """Return the request for the counters of a queue, of the whole hour at first and then of the last minutes.

        An unchanged request is the same object as before, so that the ticker recognises an equal focus. Empty for a
        system without such counters.
        """
        system = self._session.systems.get(ref.system) if ref else None
        if ref is None or system is None or not stats.has_history(system):
            return {}
        key = (ref, 2 if ref in self._histories else queue_preview.HISTORY_MINUTES + 1)
        if key not in self._requests:
            while len(self._requests) >= 2 * MAX_QUEUES:
                del self._requests[next(iter(self._requests))]
            self._requests[key] = stats.build_history_request(system, ref.queue, key[1])
        return {"history": (self._requests[key],)}

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Merge the counters of a snapshot into the cached ones, and drop queues that were not read for the longest."""
        for history in snapshot.results.get("history", ()):
            if isinstance(history, History):
                cached = self._histories.pop(history.ref, None)
                self._histories[history.ref] = cached.merge(history) if cached else history
        requests = self._session.last_focus.requests.get("history", ())
        for request, result in zip(requests, snapshot.results.get("history", ()), strict=False):
            refs = {ref for (ref, _minutes), known in self._requests.items() if known is request}
            self._failed_refs = self._failed_refs | refs if isinstance(result, Exception) else self._failed_refs - refs
        while len(self._histories) > MAX_QUEUES:
            del self._histories[next(iter(self._histories))]

    def find_history(self, ref: Ref) -> History | None:
        """Return the counters of a queue, or None before they were read."""
        return self._histories.get(ref)

    def is_awaited(self, ref: Ref) -> bool:
        """Return whether the counters of a queue will come with the next snapshot and were not read before."""
        system = self._session.systems.get(ref.system)
        is_read = ref in self._histories or ref in self._failed_refs
        return system is not None and not is_read and not self._session.is_replay and stats.has_history(system)


class QueuePlot:
    """The plot of the last hour of one queue at a time: what to read for it, and its lines."""

    def __init__(self, session: Session) -> None:
        self._session, self._counters = session, MinuteCounters(session)
        self.build_requests = self._counters.build_requests
        self._queues: dict[Ref, Queue] = {}
        self._rates: Mapping[Ref, Rate] = {}
        self._now_ms = 0

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the counters, rates and counts of a snapshot."""
        self._counters.add_snapshot(snapshot)
        self._now_ms, self._rates = snapshot.taken_ms, snapshot.rates
        self._queues = snapshot.map_queues_by_ref()

    def add_below(self, text: Content, ref: Ref | None, pane: Widget, width: int) -> Content:
        """Return a text with the plot of a queue below it, if both fit into the pane; lines have `width` cells."""
        rows = pane.scrollable_content_region.height - len(text.split("\n", allow_blank=True))
        lines = self._build_lines(ref, width, rows)
        return Content("\n").join([text, *lines]) if lines else text

    def _build_lines(self, ref: Ref | None, width: int, rows: int) -> list[Content]:
        """Return the plot of a queue with a heading, in at most `rows` lines.

        Empty for a queue that was not counted, and for fewer than `LEAST_ROWS` rows.
        """
        queue = self._queues.get(ref) if ref else None
        if ref is None or queue is None or rows < LEAST_ROWS:
            return []
        history = self._counters.find_history(ref)
        rate, is_awaited = self._rates.get(ref, Rate()), self._counters.is_awaited(ref)
        details = queue_preview.QueueDetails(queue, rate, self._now_ms, history, is_history_awaited=is_awaited)
        heading = Content.assemble(
            ("queue ", "$muted"), (safe(self._session.format_name(ref)), "b $strong"), ("  ", "$muted")
        )
        rates = queue_preview.format_rates_line(details, max(20, width - heading.cell_length))
        plot_lines = queue_preview.build_queue_plot(
            details, width, min(rows, MOST_ROWS) - 2, ascii_only=self._session.settings.is_ascii
        )
        return [Content(), Content.assemble(heading, rates), *plot_lines]
