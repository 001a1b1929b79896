"""Test the demo's incident, fixed by a person who knows the keys only from the screen, at 80×24.

From the alarm to the report: three causes with 5 000 dead jobs, 20 000 that wait, 200 jobs held by silent workers. The
keys are counted; each step waits for the text that suggests the next key.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from redis import Redis
from screens import NARROW, Screen, run_on_event_loop
from shell import shell
from waiting import wait_until

from rqtui.config.settings import Settings
from rqtui.connection.embedded import start_server
from rqtui.scenarios import create_run, find_scenario
from rqtui.tui.app import Cockpit
from rqtui.tui.screens.errors import Errors

MOST = 18  # keys, with the one that plays the developer
DEAD, HELD = "rqtui:{orders}:dead", "rqtui:{orders}:reserved"


@pytest.mark.matrix
@pytest.mark.slow
@run_on_event_loop
async def test_from_the_alarm_to_the_report_in_18_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pressed: list[str] = []
    with (
        start_server("auto") as server,
        create_run(find_scenario("incident"), server.url, 1, server.pid) as play,
        Redis.from_url(server.url) as client,
    ):
        app = Cockpit(Settings(server.url, ("native",)), play, interval_s=0.25)
        async with app.run_test(size=NARROW, notifications=True) as pilot:
            ui = Screen(app, pilot)

            async def press(*keys: str) -> None:
                pressed.extend(keys)
                await ui.press(*keys)

            # The alarm: the worst queue is first, under the cursor, and says what is wrong.
            await ui.until_shown("orders", "5 000", "; views")
            assert client.zcard(DEAD) >= 5_000

            # The causes: three, with the line of code that each comes from.
            await press("e")
            await ui.until_shown("CardDeclined", "TimeoutError", "IntegrityError", "charge.py:88", "2 500")

            # The jobs of the silent workers go back; the workers with problems are first.
            await press("w")
            await ui.until_shown("orders-eu-7", "orders-eu-9", "silent 2 with 200 jobs")
            await press("L")
            await ui.until_shown("Release 100 jobs of orders-eu-")
            await press("y")
            await ui.until_toast("100 released")
            await ui.until_shown("silent 2 with 100 jobs")
            await press("g", "L")
            await ui.until_shown("Release 100 jobs of orders-eu-")
            await press("y")
            await ui.until(lambda: not silent(client), "the leases of the silent workers are over")

            # The fix is deployed; then the jobs of each cause run again.
            await press("underscore")
            await ui.until(lambda: play.compute_status().is_fixed, "the code is fixed")
            await press("e")
            for cause, left in (("CardDeclined", 2_500), ("TimeoutError", 1_200), ("IntegrityError", 0)):
                await ui.until(lambda cause=cause: cause in largest(app), f"{cause} is the largest")
                await press("R")
                await ui.until_shown("speed", "y requeue")
                await press("y")
                await ui.until(lambda left=left: client.zcard(DEAD) <= left + 100, f"{left} are dead")
            assert client.zcard(DEAD) < 100

            # What happened, for those who were not there.
            await press("o")
            await ui.until_shown("requeue", "release")
            await press("s")
            await ui.until_shown("why, in a few words")
            await press("enter")
            await ui.until_toast("Written: rqtui-operations-")
    assert len(pressed) <= MOST, pressed
    (page,) = tmp_path.glob("*.md")
    text = page.read_text()
    assert text.count("| requeue |") == 3 and text.count("| release |") == 2
    assert "5 000 jobs are dead" in text and "failed per minute" in text
    causes, rest = text.partition("## Timeline")[::2]
    assert re.findall(r"^\| (\d+) \| (\w+)", causes, re.MULTILINE)[0][1] == "CardDeclined"
    assert all(line in causes for line in ("charge.py:88", "http.py:41", "db.py:12")), causes
    # The attempts had failed for more than half an hour before this screen was opened.
    failing, first_change = (
        re.search(rf"^\| (\S+) \| {what} .*", rest, re.MULTILINE) for what in ("critical", "change")
    )
    assert failing and first_change and failing[1] < first_change[1] and "attempts fail" in failing[0]
    assert "dead 5000 → 2500" in rest
    # A slow machine meets more findings, and problems of more queues: each is one line of the timeline, or a section.
    page, *sections = re.split(r"^## (?=.*\(native\)$)", text, flags=re.MULTILINE)
    other_lines = [line for line in page.splitlines() if not re.match(r"\| \d\d:\d\d:\d\d \|", line)]
    lengths = [len(other_lines), *(section.count("\n") for section in sections)]
    assert sections and lengths[0] <= 45 and max(lengths[1:]) <= 30, lengths


@pytest.mark.matrix
@pytest.mark.slow
def test_from_the_alarm_to_the_report_in_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        start_server("auto") as server,
        create_run(find_scenario("incident"), server.url, 1, server.pid) as play,
        Redis.from_url(server.url) as client,
    ):
        wait_until(
            lambda: " of attempts fail" in shell(server.url, "health", "orders").out, 60, "failures are reported"
        )
        assert shell(server.url, "health", "orders").code == 2
        causes = shell(server.url, "errors", "orders").out
        assert "CardDeclined" in causes and "charge.py:88" in causes
        differences = shell(server.url, *["diff", "orders", "dead", "dead,ready", "--filter", "err:CardDeclined"]).out
        assert differences.splitlines()[2].startswith(".card_country = FR in 100 % of A"), differences

        play.toggle_fix()
        words = "act requeue orders --place dead --filter err:CardDeclined --canary 5 --rate 500/s --why"
        change = shell(server.url, *words.split(), "the gateway is back")
        assert change.code == 0 and "5 of 5 jobs succeeded; 2495 others follow at 500/s" in change.err, change.err
        assert client.zcard(DEAD) == 2_500

        page = shell(server.url, "incident", "orders").out
        assert "requeue: 2500 × requeued (the gateway is back)" in page, page
        report = shell(server.url, *["operations", "--markdown", "--limit", "20"]).out
        assert "| requeue |" in report and "the gateway is back" in report


def largest(app: Cockpit) -> str:
    """Return the group of dead jobs in the first row."""
    view = app.navigation.view
    groups = view.list_matching_items() if isinstance(view, Errors) else []
    return groups[0].message if groups and groups[0].dead else ""


def silent(client: Redis) -> int:
    """Return how many of the silent workers hold jobs."""
    lines = client.hmget("rqtui:{orders}:attempts", client.zrange(HELD, 0, -1)) if client.zcard(HELD) else []
    return len({line.rsplit(b" ", 1)[-1] for line in lines if line and line.endswith((b"orders-eu-7", b"orders-eu-9"))})
