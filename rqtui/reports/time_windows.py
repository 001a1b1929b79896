"""Select the jobs of a place by when they were enqueued or ended: those of the last hour, and those of a day before.

A job without such a time is in no window. Only jobs that are still stored can be selected: a queue may have deleted or
requeued some of an earlier time. Called by `rqtui diff` and by the view of differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rqtui.engine.job_times import find_end_ms
from rqtui.errors import UsageError
from rqtui.model import Job, State
from rqtui.reports.comparison import Selection
from rqtui.system_base.system import System
from rqtui.text.formats import spell_duration

TIMES = ("enqueued", "ended")
ENDED_STATES = frozenset({State.DONE, State.DEAD})
_ATTRIBUTES = {"enqueued": "enqueued_hour", "ended": "ended_hour"}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The jobs whose time lies between two instants in ms; `begin_ms` None: at any time before `end_ms`."""

    time: str  # enqueued | ended
    begin_ms: int | None
    end_ms: int

    def __call__(self, job: Job) -> bool:
        """Return whether the time of a job is known and lies in the window."""
        at_ms = job.enqueued_ms if self.time == "enqueued" else find_end_ms(job)
        return at_ms is not None and (self.begin_ms or 0) <= at_ms < self.end_ms


def choose_time(system: System, words: Sequence[str]) -> str:
    """Return the time by which jobs of some places or states are selected: `ended` if all of them have ended."""
    states = {place.state for word in words for place in system.find_places(word)}
    return "ended" if states <= ENDED_STATES else "enqueued"


def select_by_time(
    a: Selection, b: Selection, time: str, now_ms: int, last_ms: int, ago_ms: int | None
) -> list[Selection]:
    """Return both selections, the first one of the last `last_ms`, the second one of the same time `ago_ms` before.

    Without `ago_ms` the second one has all earlier jobs. What the selections accept already is a further condition;
    jobs that are named by `ids` are not selected by time. Raises UsageError if the windows overlap.
    """
    if ago_ms is not None and ago_ms < last_ms:
        raise UsageError("--ago is shorter than --last, so that both groups would have the same jobs.")
    last = spell_duration(last_ms / 1000)
    windows = (
        (TimeWindow(time, now_ms - last_ms, now_ms + 1), f"in the last {last}"),
        (TimeWindow(time, None, now_ms - last_ms), "before that")
        if ago_ms is None
        else (
            TimeWindow(time, now_ms - ago_ms - last_ms, now_ms - ago_ms),
            f"in the same {last} {spell_duration(ago_ms / 1000)} earlier",
        ),
    )
    return [
        Selection(
            selection.words,
            selection.expression,
            window if selection.accepts is None else partial(_meets_both, selection.accepts, window),
            label=f"{selection}, {time} {when}",
            attributes=selection.attributes | {_ATTRIBUTES[time]},
        )
        for selection, (window, when) in zip((a, b), windows, strict=True)
    ]


def _meets_both(first: Callable[[Job], bool], second: Callable[[Job], bool], job: Job) -> bool:
    return first(job) and second(job)
