"""Plot the last hour of a queue below the details of a worker or of a kind of jobs, on large terminals.

The counters per minute come with the refresh of the view. A system that counts nothing by the minute has a plot of its
last refreshes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content

from rqtui.engine import history as stats
from rqtui.engine.history import History
from rqtui.model import Queue, Rate, Ref, Snapshot
from rqtui.text.sanitise import safe
from rqtui.tui.widgets import queue_preview

if TYPE_CHECKING:
    from rqtui.system_base.system import Request, System
    from rqtui.tui.session import Session

MAX_QUEUES = 20  # whose counters are cached
LEAST_ROWS, MOST_ROWS = 9, 18  # of the plot with its heading and its axis


class QueuePlot:
    """The plot of the last hour of one queue at a time: what to read for it, and its lines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._histories: dict[Ref, History] = {}
        self._requests: dict[tuple[Ref, int], Request[Any]] = {}
        self._queues: dict[Ref, Queue] = {}
        self._rates: dict[Ref, Rate] = {}
        self._now_ms = 0

    def build_requests(self, ref: Ref | None) -> dict[str, tuple[Request[Any], ...]]:
        """Return the request for the counters of a queue per minute, all of the hour at first and then the last ones.

        An unchanged request is the same object as before, so that the ticker recognises an equal focus.
        """
        system: System | None = self._session.systems.get(ref.system) if ref else None
        if ref is None or system is None or not stats.has_history(system):
            return {}
        minutes = 2 if ref in self._histories else queue_preview.HISTORY_MINUTES + 1
        if (ref, minutes) not in self._requests:
            while len(self._requests) >= 2 * MAX_QUEUES:
                del self._requests[next(iter(self._requests))]
            self._requests[ref, minutes] = stats.build_history_request(system, ref.queue, minutes)
        return {"history": (self._requests[ref, minutes],)}

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the counters, rates and counts of a snapshot."""
        self._now_ms = snapshot.taken_ms
        self._queues = {Ref(queue.system, queue.name): queue for queue in snapshot.queues}
        self._rates = dict(snapshot.rates)
        for history in snapshot.results.get("history", ()):
            if isinstance(history, History):
                cached = self._histories.pop(history.ref, None)
                self._histories[history.ref] = cached.merge(history) if cached else history
        while len(self._histories) > MAX_QUEUES:
            del self._histories[next(iter(self._histories))]

    def build_lines(self, ref: Ref | None, width: int, rows: int) -> list[Content]:
        """Return the plot of a queue with a heading, in at most `rows` lines.

        Empty for a queue that was not counted, and for fewer than `LEAST_ROWS` rows.
        """
        queue = self._queues.get(ref) if ref else None
        if ref is None or queue is None or rows < LEAST_ROWS:
            return []
        details = queue_preview.QueueDetails(
            queue, self._rates.get(ref, Rate()), self._now_ms, self._histories.get(ref), None
        )
        heading = Content.assemble(
            ("queue ", "$muted"), (safe(self._session.format_name(ref)), "b $strong"), ("  ", "$muted")
        )
        rates = queue_preview.format_rates_line(details, max(20, width - heading.cell_length))
        is_ascii = self._session.settings.is_ascii
        plot_rows = min(rows, MOST_ROWS) - 2
        plot_lines = queue_preview.build_queue_plot(details, width, plot_rows, ascii_only=is_ascii)
        return [Content(), Content.assemble(heading, rates), *plot_lines]


def fit_plot(text: Content, plot: QueuePlot, ref: Ref | None, width: int, height: int) -> Content:
    """Add the plot of a queue below a text if it fits into the pane of `height` rows."""
    used = sum(max(1, -(-line.cell_length // max(1, width))) for line in text.split("\n", allow_blank=True))
    lines = plot.build_lines(ref, width, height - used)
    return Content("\n").join([text, *lines]) if lines else text
