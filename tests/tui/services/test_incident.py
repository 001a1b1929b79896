"""Test the page about the trouble of one queue, which the apostrophe opens on every view."""

from __future__ import annotations

from redis import Redis
from screens import Seeded, run_on_event_loop, screen

from rqtui.model import Finding
from rqtui.tui.services.incident import describe_fixes


@run_on_event_loop
async def test_the_page_names_errors_and_differences_and_closes_with_esc(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.bury(*(f"d{number}" for number in range(8)))
    seeded.put("ready1")
    async with screen(url, (100, 45)) as ui:
        await ui.until_shown("mail")
        await ui.press("apostrophe")
        await ui.until_shown("incident: mail", "findings", "errors", "TimeoutError: smtp", "what differs")
        await ui.press("escape")
        await ui.until(lambda: "incident: mail" not in ui.text(), "the page is closed")
        assert ui.app.navigation.is_at_first_view


@run_on_event_loop
async def test_without_a_queue_under_the_cursor_a_sentence_reports_it(url: str, client: Redis) -> None:
    assert client.dbsize() == 0
    async with screen(url) as ui:
        await ui.until_shown("no queues")
        await ui.press("apostrophe")
        await ui.until_toast("Put the cursor on a queue")


def test_a_fix_is_the_key_with_its_label_or_the_remedy() -> None:
    findings = [
        Finding("failing", "critical", "mail", "55 % fail", key="e"),
        Finding("failing", "critical", "mail", "again", key="e"),
        Finding("lost", "critical", "mail", "2 lost", "rqtui act restore mail a"),
        Finding("ok", "info", "mail", "nothing to do"),
    ]
    assert describe_fixes(findings) == ["e errors", "rqtui act restore mail a"]
