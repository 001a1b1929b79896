"""Test the view of schedules: what comes next, what is wrong, and the text if no system has schedules."""

from __future__ import annotations

import time

import pytest
from mill_system import Mill, add_mill_jobs, add_mill_schedule, mill
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen

from rqtui.systems import registry

__all__ = ["mill"]  # a fixture


@pytest.mark.slow
@run_on_event_loop
async def test_schedules_are_in_their_order_and_a_wrong_one_reports_what_is_wrong(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    now_ms = int(time.time() * 1000)
    add_mill_jobs(client, "bran", "queued", "b1")
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_schedule(
        client,
        "nightly",
        "flour",
        "0 3 * * *",
        call="mill.clean(token='abc')",
        next_ms=now_ms + 7_200_000,
        owner="cron-1",
    )
    add_mill_schedule(
        client, "hourly\x1b[2J", "flour", "0 * * * *", next_ms=now_ms + 3_600_000, last_ms=now_ms - 600_000
    )
    add_mill_schedule(client, "lost", "bran", "every 60 s", problem="nobody sees to it", next_ms=now_ms - 60_000)
    add_mill_schedule(client, "asleep", "gone", "@weekly", enabled=False)
    async with screen(url, WIDE, systems=("mill",)) as ui:
        await ui.until_shown("& schedules")
        await ui.press("j", "ampersand", "quotation_mark")
        await ui.until_shown(
            "4 schedules   off 1   wrong 1", "mill.clean(token=••", "hourly␛[2J", "59m", "10m0", "-1m0"
        )
        lines = ui.text().splitlines()
        at = [
            next(y for y, line in enumerate(lines) if name in line) for name in ("lost", "hourly", "nightly", "asleep")
        ]
        assert at == sorted(at) and "· off" in lines[at[3]] and "cron-1" in lines[at[2]]
        assert lines[at[0]].count("nobody sees to it") == 1 and "wrong" in lines[at[0]]
        assert "abc" not in ui.text()
        await ui.until(
            lambda: "nobody sees to it" in ui.text().splitlines()[-2], "in the frame, as it is under the cursor"
        )
        await ui.press("s", "s")
        await ui.until_shown("sort: name")
        await ui.press("slash", '"call:clean', "enter")
        await ui.until(lambda: "nightly" in ui.text() and "hourly" not in ui.text())
        await ui.press("enter")
        await ui.until_shown("queues ▸ flour", "3 queued 1")
        await ui.press("escape", "quotation_mark", "slash", "escape")
        await ui.until_shown("schedules of flour", "2 schedules")
        client.delete("mill:schedules")
        await ui.until_shown("no schedules   off 0")


@run_on_event_loop
async def test_without_a_system_of_schedules_a_sentence_names_those_that_have_them(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch, mill: type[Mill]
) -> None:
    Seeded(client).put("a1")
    async with screen(url, WIDE, systems=("native",)) as ui:
        assert "& schedules" not in ui.text(), "no door to an empty room"
        await ui.press("ampersand")
        await ui.until_shown("no system found here stores schedules in Redis; rqtui shows", "& schedules")
        await ui.press("escape")
        await ui.until_shown("mail")


@run_on_event_loop
async def test_a_user_without_rights_on_what_is_not_there_sees_the_sentence_and_no_error(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    Seeded(client).put("a1")
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">x", "~rqtui:*", "~mill:queues", "+@all")
    try:
        async with screen(url.replace("redis://", "redis://narrow:x@"), WIDE) as ui:
            await ui.press("ampersand", "quotation_mark")
            await ui.until_shown("no system found here stores schedules in Redis")
            await ui.until_refreshed()
            assert "denies" not in ui.text() and ui.app.session.refresh_failure is None
    finally:
        client.execute_command("ACL", "DELUSER", "narrow")


def test_every_system_that_keeps_schedules_is_named(mill: type[Mill]) -> None:
    from rqtui.reports import schedules

    assert "mill" in schedules.list_supporting_systems() and "native" not in schedules.list_supporting_systems()
    assert set(schedules.list_supporting_systems()) <= set(registry.list_system_names())
