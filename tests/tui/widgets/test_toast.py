"""Test a toast whose time ends while it is mounted: the program continues, and the toast disappears."""

from __future__ import annotations

import time

import pytest
from redis import Redis
from screens import run_on_event_loop, screen
from textual import notifications
from textual.notifications import Notify
from textual.widgets._toast import Toast as Shown

from rqtui.tui.widgets.toast import Toast


class Ending(Toast):
    """One whose time ends between Textual's two questions, by 0.3 ms."""

    asked = 0

    @property
    def has_expired(self) -> bool:
        self.asked += 1
        self.raised_at = time.time() - self.timeout - 0.0003
        return False


@run_on_event_loop
async def test_a_toast_whose_time_ends_while_it_is_put_up_goes_and_the_program_continues(
    url: str, client: Redis
) -> None:
    client.set("other", 1)
    async with screen(url) as ui:
        ending = Ending("It is done.", timeout=60)
        ui.app.post_message(Notify(ending))
        await ui.until(lambda: ending.asked and not ui.app.screen.query(Shown), "the toast is gone")
        await ui.press("question_mark")
        await ui.until_shown("On the current row")


def test_a_toast_is_over_when_its_time_is_over() -> None:
    toast = Toast("It is done.", timeout=60)
    assert not toast.has_expired and 59 < toast.time_left <= 60
    toast.raised_at -= 61
    assert toast.has_expired and toast.time_left > 0


def test_a_toast_is_over_at_the_end_of_its_time_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    toast = Toast("It is done.", timeout=60, raised_at=100)
    for now_s, has_expired, left_s in ((159.5, False, 0.5), (160.0, True, 0.01), (170.0, True, 0.01)):
        monkeypatch.setattr(notifications, "time", lambda now_s=now_s: now_s)
        assert (toast.has_expired, toast.time_left) == (has_expired, left_s)
