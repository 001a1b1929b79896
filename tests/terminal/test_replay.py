"""`rqtui replay` in a real terminal (tmux): the time bar at 80×24, and the keys that move the time."""

from __future__ import annotations

from pathlib import Path

import pytest
from recordings import build_incident, open_writer
from tmux import RQTUI, Terminal, small  # noqa: F401

pytestmark = pytest.mark.real_terminal


@pytest.mark.slow
def test_a_recording_is_replayed_in_a_terminal(
    small: Terminal,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "recordings" / "a.rqt"
    with open_writer(path, build_incident()):
        pass
    small.run(f"clear; cd {path.parent}; TZ=UTC RQTUI_STATE_DIR={tmp_path / 'state'} {RQTUI} replay a.rqt")
    small.until("recording of redis://jobs-1:6379", "nothing can be changed", "2027-01-15 09:29:58", "▲", "◆")
    small.keys("<")
    small.until("2027-01-15 09:00:02", "450 jobs wait and no worker runs")
    small.keys("<")
    small.until("2027-01-15 08:20:05", "67 % fail")
    small.keys(".")
    small.until("2027-01-15 08:21:58")
    small.keys("}")
    small.until("2027-01-15 08:36:01", "requeue mail 37 × ready again")
    small.keys("D")
    small.until("This is a recording: nothing can be changed.")
    small.keys("(")
    small.until("2027-01-15 08:00:58")
    small.keys("=", "p")
    small.until("playing ×600")
    small.until("paused ×600", "2027-01-15 09:29:58")
    small.keys("q")
    small.until_back()
    assert not (tmp_path / "state").exists(), "a replay writes nothing"
