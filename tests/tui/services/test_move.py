"""`M` moves jobs to another queue: the form, its errors, a group of jobs by filter, and the undo."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import run_on_event_loop, screen

from rqtui.client import Queue


@pytest.fixture
def tenants(client: Redis) -> None:
    with Queue("mail", client) as mail, Queue("slow", client) as slow:
        bodies = [{"tenant": "acme"}] * 6 + [{"tenant": "globex"}] * 3
        mail.put_many([{"body": body, "id": f"j{n}"} for n, body in enumerate(bodies)])
        slow.put({"tenant": "initech"}, id="s0")


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_the_jobs_of_a_tenant_are_moved_to_another_queue_and_back(url: str, client: Redis) -> None:
    async with screen(url, open_queue="mail", size=(80, 24)) as ui:
        await ui.until_shown("ready 9")
        await ui.press("slash", '".tenant:acme', "enter")
        await ui.until(lambda: "globex" not in ui.text(), "only the matches")
        await ui.press("asterisk", "M")
        await ui.until_shown("Move 6 jobs?", "They match /.tenant:acme.", "to the queue", "slow", "z undoes it")
        await ui.press("enter")
        await ui.until_shown("say which")
        await ui.press('"mail', "enter")
        await ui.until_shown("the jobs are in mail already; name another queue")
        await ui.press("ctrl+u", "s", "right")
        await ui.until(lambda: "slow" in ui.text(), "the suggested name")
        await ui.press("enter")
        await ui.until_toast("6 moved")
        assert client.zcard("rqtui:{slow}:ready") == 7 and client.zcard("rqtui:{mail}:ready") == 3
        await ui.press("z")
        await ui.until_toast("undo of move", "restored")
        assert client.zrange("rqtui:{mail}:ready", 0, -1) == [b"j%d" % number for number in range(9)]
        assert client.zrange("rqtui:{slow}:ready", 0, -1) == [b"s0"]


@pytest.mark.slow
@pytest.mark.usefixtures("tenants")
@run_on_event_loop
async def test_one_job_is_moved_by_a_form_that_offers_the_other_queues(url: str, client: Redis) -> None:
    async with screen(url, open_queue="mail", size=(160, 45)) as ui:
        await ui.until_shown("ready 9", "j8", "M move")
        await ui.press("M")
        await ui.until_shown("Move j0?", "to the queue", "slow")
        await ui.press('"bulk', "enter")
        await ui.until_toast("move: moved to the other queue · j0")
        assert client.zrange("rqtui:{bulk}:ready", 0, -1) == [b"j0"]
