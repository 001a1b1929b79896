"""Undo, where not all can be put back: what can goes, the rest is named, and no other change is taken for it."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.operations import undo


@pytest.mark.parametrize("odd", ["bad|id", "|7"])
def test_one_odd_id_hinders_no_other(client: Redis, url: str, odd: str) -> None:
    client.lpush("crawl", "a", odd, *(f"c{number}" for number in range(20)), "b")
    client.sadd("crawl:done", "x")
    ran = shell(url, "act", "delete", "safe_pop:crawl", "--place", "ready", "--all", "--yes", "--json")
    assert client.llen("crawl") == 0, ran
    before = ran.json["moved"]
    undone = shell(url, "undo")
    assert undone.code == 1
    assert client.llen("crawl") == before - 1 and odd.encode() not in client.lrange("crawl", 0, -1)
    assert f"{before - 1} restored" in undone.err and "was not put back:" in undone.err
    again = shell(url, "undo", "--list", "--json").json["undo"]
    assert [row["n"] for row in again] == [None]  # it is done: what was refused would be again


def test_a_change_of_too_many_jobs_reports_that_it_has_no_undo(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAX_SAVED_JOBS", 5)
    seeded = Seeded(client)
    seeded.put(*(f"j{number}" for number in range(9)))
    assert "no undo" not in shell(url, "act", "delete", "mail", "j0", "--yes").err
    many = shell(url, "act", "delete", "mail", "--place", "ready", "--all", "--yes")
    assert many.code == 0 and "no undo: it is kept for at most 5 jobs" in many.err
    refused = shell(url, "undo")
    assert refused.code == 1 and "delete (mail) of 8 jobs has no undo" in refused.err and "rqtui undo 2" in refused.err
    assert seeded.ids("ready") == []
    rows = shell(url, "undo", "--list", "--json").json["undo"]
    assert [(row["n"], row["jobs"], row["can_be_undone"]) for row in rows] == [(1, 8, False), (2, 1, True)]
    assert "8 (no undo)" in shell(url, "undo", "--list").out
    assert shell(url, "undo", "2").code == 0
    assert seeded.ids("ready") == ["j0"]


def test_a_change_that_is_not_dangerous_reports_its_undo_too(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAX_SAVED_JOBS", 2)
    seeded = Seeded(client)
    seeded.bury("a", "b", "c")
    assert (
        "no undo: it is kept for at most 2 jobs" in shell(url, "act", "requeue", "mail", "--place", "dead", "--all").err
    )
    Seeded(client, "other").bury("d")
    assert "no undo" not in shell(url, "act", "requeue", "other", "--place", "dead", "--all").err


@pytest.mark.slow
@run_on_event_loop
async def test_on_the_screen_undo_never_means_the_change_before(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAX_SAVED_JOBS", 3)
    seeded = Seeded(client)
    seeded.put(*(f"j{number}" for number in range(6)))
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "2", "g", "D", "y")
        await ui.until(lambda: len(seeded.ids("ready")) == 5)
        await ui.press("*", "D", "y")
        await ui.until(lambda: seeded.ids("ready") == [])
        await ui.until(lambda: len(ui.app.session.journal.operations) == 2)
        await ui.press("z")
        await ui.until_toast("has no undo")
        assert seeded.ids("ready") == []
