"""The view of the groups of a place: what it shows, which fields its keys switch, and how it leads to the jobs."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import Screen, run_on_event_loop, screen

from rqtui.client import Queue
from rqtui.reports import groups
from rqtui.tui.screens.groups import Groups


@pytest.fixture
def tenants(client: Redis) -> None:
    with Queue("mail", client) as mail:
        bodies = [{"tenant": "acme", "token": f"hunter{n}"} for n in range(6)]
        bodies += [{"tenant": "globex"}] * 3 + [{"plan": "pro"}]
        mail.put_many([{"body": body, "name": "send", "id": f"j{n}"} for n, body in enumerate(bodies)])


async def open_groups_by_tenant(ui: Screen) -> None:
    await ui.until_shown("ready 10")
    await ui.press("quotation_mark")
    await ui.until_shown("1 group by kind", "send", "100 %")
    for _ in range(6):
        if "by .tenant" in ui.text():
            return
        await ui.press("right_square_bracket")
        await ui.until(lambda: "reading" not in ui.text(), "the report by another field")
    raise AssertionError(ui.text())


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_the_jobs_of_a_place_are_grouped_and_enter_shows_those_of_a_group(url: str) -> None:
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await open_groups_by_tenant(ui)
        await ui.until_shown("3 groups by .tenant", "acme", "60 %", "globex", "(none)", "6 of 10 jobs")
        assert "rqtui act delete mail --place ready --filter .tenant:acme --dry-run" in " ".join(
            ui.text().replace("│", " ").split()
        )
        assert "hunter" not in ui.text()
        await ui.press("j", "enter")
        await ui.until_shown("/.tenant:glo", "j6")
        assert "j0" not in ui.text()
        await ui.press("asterisk", "D")
        await ui.until_shown("Delete 3 jobs?", "They match /.tenant:globex.", "z undoes it")
        await ui.press("y")
        await ui.until_toast("3 deleted")
        await ui.press("z")
        await ui.until_toast("undo of delete", "restored")
        await ui.press("escape", "escape")
        await ui.until_shown("3 groups by .tenant")


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_the_groups_are_filtered_and_sorted_and_a_group_without_a_filter_is_explained(url: str) -> None:
    async with screen(url, open_queue="mail", size=(160, 45)) as ui:
        await open_groups_by_tenant(ui)
        await ui.press("slash", '"glo', "enter")
        await ui.until(lambda: "acme" not in ui.text().partition("under the cursor")[0], "only the matching group")
        await ui.press("escape", "s")
        await ui.until_shown("sort: value", "acme")
        while "by .token" not in ui.text():
            await ui.press("left_square_bracket")
            await ui.until(lambda: "reading" not in ui.text(), "the report by another field")
        await ui.until_shown("No filter selects them: the value is masked.")
        await ui.press("enter")
        await ui.until_toast("the board cannot show this group: the value is masked.")


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_the_jobs_of_an_age_are_shown_and_changed_on_the_board(url: str) -> None:
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await ui.until_shown("ready 10")
        await ui.press("quotation_mark")
        await ui.until_shown("1 group by kind")
        while "by age" not in ui.text():
            await ui.press("left_square_bracket")
            await ui.until(lambda: "reading" not in ui.text(), "the report by another field")
        await ui.until_shown("under 1 minute", "--filter 'age<1m' --dry-run")
        await ui.press("enter")
        await ui.until_shown("/age<1m", "j9")
        await ui.press("asterisk", "D")
        await ui.until_shown("Delete 10 jobs?", "They match /age<1m.")


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_a_filter_of_the_board_limits_the_groups(url: str) -> None:
    async with screen(url, open_queue="mail", size=(160, 45)) as ui:
        await ui.until_shown("ready 10")
        await ui.press("slash", '".tenant:acme', "enter")
        await ui.until_shown("/.tenant:acme")
        await ui.press("quotation_mark")
        await ui.until_shown("1 group by kind", "ready of mail with .tenant:acme by kind")
        await ui.until_shown("6 of 6 matching jobs that were read", "'job:/^send\\Z/ .tenant:acme'")


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_a_sample_and_an_empty_place_are_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_JOBS", 5)
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await ui.until_shown("ready 10")
        await ui.press("quotation_mark")
        await ui.until_shown("5 of 10 jobs read", "~10")
        await ui.press("escape", "5", "quotation_mark")
        await ui.until_shown("no job is in dead")


@pytest.mark.slow
@pytest.mark.parametrize(("worker", "is_known"), [("box:1:0a1b2", True), ("w1", False)])
@run_on_event_loop
async def test_the_host_is_one_of_the_fields_only_where_one_is_known(
    worker: str, is_known: bool, client: Redis, url: str
) -> None:
    with Queue("mail", client) as mail:
        mail.put_many([{"body": n, "name": "send", "id": f"j{n}"} for n in range(2)])
        for job in mail.reserve(2, worker=worker):
            job.reject("Oops", final=True)
    fields = set()
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await ui.until_shown("dead 2")
        await ui.press("5", "quotation_mark")
        await ui.until_shown("1 group by kind")
        for _ in range(6):
            view = ui.app.navigation.view
            assert isinstance(view, Groups)
            fields.add(view.by)
            if view.by == "host":
                await ui.until_shown("1 group by host", "box", "100 %")
                await ui.press("enter")
                await ui.until_shown("/worker:/^", "j0", "j1")
                break
            await ui.press("right_square_bracket")
            await ui.until(lambda: "reading" not in ui.text(), "the report by another field")
    assert ("host" in fields) is is_known and {"kind", "worker"} <= fields
