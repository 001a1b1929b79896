"""Run the screen on a recording, for a screenshot of the time bar."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from recordings import build_incident, open_writer

from rqtui.config.settings import Settings
from rqtui.recording.replay import ReplayEngine
from rqtui.tui.app import Cockpit


def plant_recording(folder: Path) -> Path:
    """Write the recording of an incident, and return its path."""
    path = folder / "recordings" / "incident.rqt"
    if not path.exists():
        with open_writer(path, build_incident()):
            pass
    return path


@asynccontextmanager
async def open_still_replay(path: Path, size: tuple[int, int], keys: Sequence[str]) -> AsyncIterator[Cockpit]:
    """Run the app on a recording and press the keys, without the toasts that name each moment."""
    settings = Settings("redis://jobs-1:6379", read_only=True, may_unlock=False, is_recording=False)
    app = Cockpit(settings, create_engine=lambda _settings: ReplayEngine.open(path), is_replay=True)
    async with app.run_test(size=size) as pilot:
        for key in ("", *keys):
            before = app.session.snapshot
            if key:
                await pilot.press(key)
            while app.session.snapshot is before:
                await pilot.pause(0.03)
        app.clear_notifications()
        await pilot.pause(0.5)
        yield app
