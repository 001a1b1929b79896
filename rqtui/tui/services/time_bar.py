"""Show the time bar of a replay below the views, and move the moment of the recording by its keys.

The bar shows whether the recording is played and how fast, the moment, and the span of the recording with its gaps, its
findings and its changes. The recording itself is read on the engine's thread (`rqtui.recording.replay`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from textual.content import Content

from rqtui.engine.ticker import CallFinished
from rqtui.text import formats
from rqtui.tui.host import Host
from rqtui.tui.session import Session
from rqtui.tui.widgets.frame import Sides

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.recording.replay import ReplayEngine, ReplayState
    from rqtui.tui.view import View

PLAYING_S, PAUSED_S = 0.5, 30.0  # between two snapshots
DAY_MS = 86_400_000
MIN_BAR_CELLS = 8
FINDING, CHANGE, MOMENT, RECORDED, GAP = "▲", "◆", "●", "─", " "
_HUES = {FINDING: "$state-dead", CHANGE: "$accented", RECORDED: "$frame"}
LEGEND_FROM_CELLS = 100  # the footer names the signs, too


class TimeBar:
    """The line with the time of a replay. It stays unused in a session with a Redis."""

    def __init__(self, host: Host, session: Session) -> None:
        self._host, self._session = host, session
        self._jumped_ms = 0  # the moment before a jump to a finding or a change, whose queue is selected then; 0: none

    def choose_interval(self) -> None:
        """Let the engine take snapshots often only while the recording is played."""
        state, ticker = self._session.replay, self._session.ticker
        if state is None:
            return
        interval_s = PLAYING_S if state.is_playing else PAUSED_S
        if interval_s != ticker.interval_s:
            ticker.interval_s = interval_s
            ticker.request_refresh()  # The next one was scheduled by the former interval.

    def move(self, target: str, step: int) -> None:
        """Move the moment to another record, finding or change or to an end, play or pause, or change the speed."""

        def move_engine(engine: Engine) -> str:
            replay = cast("ReplayEngine", engine)
            if target == "play":
                return replay.toggle_playing()
            return replay.change_speed(step) if target == "speed" else replay.move(target, step)

        if target in ("finding", "change") and self._session.replay is not None:
            self._jumped_ms = self._session.replay.at_ms
        self._session.call_engine(move_engine, self._show_result)

    def select_queue(self, view: View) -> None:
        """Move the cursor of a list of queues to that of the finding or change to which a key jumped."""
        state, snapshot = self._session.replay, self._session.snapshot
        if not self._jumped_ms or state is None or snapshot is None or state.at_ms == self._jumped_ms:
            return
        self._jumped_ms = 0
        queues = snapshot.map_queues_by_ref().items()
        refs = [ref for ref, queue in queues if any(each.since_ms == state.at_ms for each in queue.findings)]
        refs += [ref for operation in state.operations if operation.at_ms == state.at_ms for ref in operation.refs]
        if refs:
            view.select_queue(refs[0])

    def _show_result(self, call_result: CallFinished) -> None:
        """Show the sentence about the new moment, and draw the moment."""
        self._host.app.clear_notifications()  # of an earlier moment
        if sentence := call_result.error or call_result.result:
            self._host.show_toast(sentence, "error" if call_result.error else "information")
        self._session.ticker.request_refresh()

    def build_line(self, width: int) -> Sides:
        """Return the time bar for `width` cells: state, speed and moment, and the bar between its first and last time.

        What does not fit is left out: first the legend, then the times at the ends of the bar.
        """
        state = self._session.replay
        if state is None:
            return Content.styled("reading the recording …", "$muted"), Content()
        sign, hue = ("▶ playing", "$state-ready") if state.is_playing else ("■ paused", "$muted")
        moment = formats.format_date_and_time(state.at_ms)[:19]
        left = Content.assemble((f"{sign} ×{state.speed} ", hue), (f" {moment} ", "b $strong"))
        begin, end = (_format_end(at_ms, state) for at_ms in (state.begin_ms, state.end_ms))
        legend = Content.assemble(
            (f"  {FINDING} ", _HUES[FINDING]),
            ("finding", "$muted"),
            (f"  {CHANGE} ", _HUES[CHANGE]),
            ("change", "$muted"),
        )
        right = legend if width >= LEGEND_FROM_CELLS else Content()
        cells = width - left.cell_length - right.cell_length - len(begin) - len(end) - 3
        if cells < MIN_BAR_CELLS:
            begin = end = ""
            cells = width - left.cell_length - right.cell_length - 1
        bar = draw_time_bar(state, max(1, cells))
        begin_text, end_text = (f"{begin} " if begin else "", f" {end}" if end else "")
        return Content.assemble(left, (begin_text, "$muted"), bar, (end_text, "$muted")), right


def draw_time_bar(state: ReplayState, cells: int) -> Content:
    """Draw the span of a recording in `cells` cells: gaps, findings, changes, and the moment above all of them."""
    length_ms = max(1, state.end_ms - state.begin_ms + 1)
    at_cell = min(cells - 1, max(0, (state.at_ms - state.begin_ms) * cells // length_ms))
    signs: list[tuple[str, str]] = []
    for number in range(cells):
        begin_ms, end_ms = (state.begin_ms + edge * length_ms // cells for edge in (number, number + 1))
        sign = GAP
        if _has_time(state.findings, begin_ms, end_ms):
            sign = FINDING
        elif _has_time(state.changes, begin_ms, end_ms):
            sign = CHANGE
        elif _is_recorded(state.spans, begin_ms, end_ms):
            sign = RECORDED
        hue = _HUES.get(sign, "$frame")
        if number == at_cell:  # "bold", because a click on a text with the style "b $accented" presses it as a key
            sign, hue = MOMENT, "bold $strong" if sign in (RECORDED, GAP) else f"bold {hue}"
        signs.append((sign, hue))
    return Content.assemble(*signs)


def _has_time(times_ms: Sequence[int], begin_ms: int, end_ms: int) -> bool:
    """Return whether one of these sorted times lies in a span."""
    position = bisect_left(times_ms, begin_ms)
    return position < len(times_ms) and times_ms[position] < end_ms


def _is_recorded(spans: Sequence[tuple[int, int]], begin_ms: int, end_ms: int) -> bool:
    """Return whether a recorded span has a part in the span of a cell."""
    position = bisect_left(spans, end_ms, key=itemgetter(0)) - 1
    return position >= 0 and spans[position][1] > begin_ms


def _format_end(at_ms: int, state: ReplayState) -> str:
    """Format an end of the bar: its clock, or its date if the recording is longer than a day."""
    text = formats.format_date_and_time(at_ms)
    return text[5:10] if state.end_ms - state.begin_ms > DAY_MS else text[11:16]
