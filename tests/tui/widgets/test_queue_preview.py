"""Test the titles of the preview of a queue."""

from __future__ import annotations

from rqtui.model import Ref
from rqtui.recording.records import ErrorCount
from rqtui.tui.widgets import queue_preview


def test_recorded_causes_name_their_sample_and_no_time() -> None:
    causes = queue_preview.collect_recorded_causes([ErrorCount(Ref("native", "mail"), 0, "TimeoutError", 25)], 7)
    title = queue_preview.format_causes_title(causes, 1_764_000_000_000)
    assert title == "1 cause in 25 failed jobs, as findings named them"
