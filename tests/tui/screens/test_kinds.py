"""The view of kinds of jobs: what it shows, and what the keys do there."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import WIDE, run_on_event_loop, screen
from text_snapshots import check_snapshot, clock  # noqa: F401 (a fixture)

from rqtui.client.queue import Queue
from rqtui.tui.screens.kinds import build_kind_filter


@pytest.mark.slow
@run_on_event_loop
async def test_kinds_are_counted_and_enter_filters_the_board(url: str, client: Redis) -> None:
    mail = Queue("mail", client)
    for number in range(3):
        mail.put({}, id=f"s{number}", name="send")
    mail.put({}, id="d0", name="digest")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("b")
        await ui.until_shown("2 kinds of job", "send", "digest")
        await ui.press("enter")
        await ui.until(
            lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "board", "the board"
        )
        await ui.until(lambda: "s0" in ui.text() and "d0" not in ui.text(), "only those of the kind")
        assert "job:send" in ui.text()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "shown"), [("b", "1 kind of job"), ("w", "1 worker")])
@run_on_event_loop
async def test_a_large_terminal_has_a_plot_of_the_queue_below_the_details(
    key: str, shown: str, url: str, client: Redis
) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"name": "send", "body": {}} for _ in range(4)])
        for job in mail.reserve(2, worker="w1"):
            job.ack()
        mail.reserve(1, worker="w1")
        async with screen(url, WIDE, open_queue="mail") as ui:
            await ui.press(key)
            await ui.until_shown(shown, "ended attempts", "queue mail  in ")
        async with screen(url, open_queue="mail") as ui:
            await ui.press(key)
            await ui.until_shown(shown)
            assert "ended attempts" not in ui.text()


@run_on_event_loop
async def test_r_builds_the_report_again(url: str, client: Redis) -> None:
    mail = Queue("mail", client)
    mail.put({}, name="send")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("b")
        await ui.until_shown("1 kind of job")
        mail.put({}, name="digest")
        await ui.press("r")
        await ui.until_shown("2 kinds of job", "digest")


@run_on_event_loop
async def test_a_frozen_report_does_not_change(url: str, client: Redis) -> None:
    Queue("mail", client).put({}, name="send")
    async with screen(url, open_queue="mail") as ui:
        await ui.press("b")
        await ui.until_shown("1 kind of job")
        await ui.press("p")
        await ui.until_shown("frozen: p")


def test_a_kind_whose_name_is_in_another_is_distinguished() -> None:
    assert build_kind_filter("send", {"send", "digest"}) == "job:send"
    assert build_kind_filter("send", {"send", "send_later"}) == "job:/^send$/"
    assert build_kind_filter("two words", {"two words"}) == r"job:/^two\ words$/"
    assert build_kind_filter("a/b", {"a/b"}) == r"job:/^a\/b$/"
