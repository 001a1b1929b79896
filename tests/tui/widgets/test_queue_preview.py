"""Test the preview of a queue: its titles, and its lines before and after the counters of the last hour came."""

from __future__ import annotations

import pytest

from rqtui.engine.history import History
from rqtui.model import Count, Queue, Rate, Ref, State, Verdict
from rqtui.recording.records import ErrorCount
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.widgets import queue_preview

MINUTE_MS = 60_000
NOW_MS = 1_764_000_000_000 // MINUTE_MS * MINUTE_MS + 30_000
REF = Ref("native", "mail")
QUEUE = Queue("mail", "native", (Count("ready", State.READY, 6),), NOW_MS, workers=0, verdict=Verdict("ok", "fine"))


def test_recorded_causes_name_their_sample_and_no_time() -> None:
    causes = queue_preview.collect_recorded_causes([ErrorCount(Ref("native", "mail"), 0, "TimeoutError", 25)], 7)
    title = queue_preview.format_causes_title(causes, 1_764_000_000_000)
    assert title == "1 cause in 25 failed jobs, as findings named them"


def build_lines(now_ms: int, history: History | None, height: int) -> list[str]:
    details = queue_preview.QueueDetails(QUEUE, Rate(), now_ms, history, is_history_awaited=history is None)
    return [line.plain.rstrip() for line in queue_preview.build_queue_preview(details, 74, height, ascii_only=True)]


@pytest.mark.parametrize("height", [24, 30, 8, 5])
def test_only_the_plot_of_a_preview_changes_when_the_counters_come(height: int) -> None:
    counted = {"enqueued": 9, "acked": 3}
    history = History(REF, counted, {NOW_MS - 90_000: counted}, NOW_MS - 90_000)
    before, after = build_lines(NOW_MS, None, height), build_lines(NOW_MS, history, height)
    assert len(before) == len(after)
    replaced = [line.strip() for line, other in zip(before, after, strict=True) if line != other and line]
    assert replaced == ["reading the last hour"]


def test_jobs_of_a_minute_that_begins_after_the_time_of_the_preview_did_not_wait_for_the_hour_before() -> None:
    """The time of the preview is rounded down, so that the last minute of the counters may begin after it."""
    begin_ms = NOW_MS // MINUTE_MS * MINUTE_MS
    history = History(REF, {"enqueued": 6}, {begin_ms: {"enqueued": 0}})
    lines = build_lines(begin_ms, history, 24)
    assert sum(line.count("#") for line in lines) == sum("#" in line for line in lines) > 5


def test_a_change_is_marked_in_the_plot_at_its_time() -> None:
    counted = {"enqueued": 9, "acked": 3}
    history = History(REF, counted, {NOW_MS - 90_000: counted}, NOW_MS - 90_000)
    for ago_s, column in ((3_599, 7), (1_800, 37), (900, 52), (600, 57)):
        change = RecentEvent(NOW_MS / 1000 - ago_s, "pause", REF, "paused")
        details = queue_preview.QueueDetails(QUEUE, Rate(), NOW_MS, history, changes=(change,))
        lines = queue_preview.build_queue_plot(details, 68, 6, ascii_only=True)
        assert [[at for at, sign in enumerate(line.plain) if sign == "|"] for line in lines] == [[column]] * 5 + [[]]


def test_causes_of_death_are_shown_in_full_where_the_pane_has_the_rows() -> None:
    text = "CardDeclined: the charge of the customer was declined by the bank of the card, which gave no reason"
    cause = queue_preview.DeathCause("e1", text, "charge.py:88", 3, NOW_MS - 90_000, NOW_MS - 60_000, "charge_card")
    lines = [line.plain for line in queue_preview.format_causes_of_death([cause, cause], NOW_MS, 50, 12)]
    assert (
        " ".join(" ".join(lines[:5]).split()) == f"3 {text} charge.py:88 · first 1m30 ago · last 1m00 ago · charge_card"
    )
    assert len(lines) == 10 and max(map(len, lines)) <= 50
    narrow = [line.plain for line in queue_preview.format_causes_of_death([cause, cause], NOW_MS, 50, 9)]
    assert len(narrow) == 4 and narrow[0].endswith("…")
