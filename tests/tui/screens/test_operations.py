"""Test operations: every change made here is in a view, in a file of its owner, and on a post-mortem page."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from redis import Redis
from screens import NARROW, WIDE, Seeded, run_on_event_loop, screen
from shell import shell

from rqtui.connection import connect
from rqtui.operations import journal as operations
from rqtui.operations.journal import Journal, Operation
from rqtui.operations.undo import UndoRecorder
from rqtui.reports import postmortem

SNAPSHOTS = Path(__file__).parents[2] / "snapshots"
HOSTILE = "\x1b[31m|evil|\n# `x` [b]"


def journal(folder: Path) -> Journal:
    return Journal(folder, "redis://me:secret@db:6379", "prod")


# -- the journal --------------------------------------------------------------------------------------------------


def test_a_change_is_written_down_and_read_again_by_another_session(tmp_path: Path) -> None:
    operation = journal(tmp_path).record_change(
        "kill", "mail", "native", [b"a", b"\xff\x00"], {"killed": 2}, undo=["17-kill-x"]
    )
    (read,) = operations.load_operations(tmp_path)
    assert read == operation
    assert (read.ids, read.count, read.describe_outcomes(), read.profile) == (
        (b"a", b"\xff\x00"),
        2,
        "2 × killed",
        "prod",
    )
    assert re.fullmatch(r".+@.+", read.who)


def test_the_file_is_its_owners_alone_and_holds_no_password(tmp_path: Path) -> None:
    journal(tmp_path).record_change("kill", "mail", "native")
    path = tmp_path / operations.FILE_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text() and "redis://me:***@db:6379" in path.read_text()


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "FILE_BYTES", 2000)
    operation_journal = journal(tmp_path)
    for number in range(40):
        operation_journal.record_change("kill", f"q{number}", "native")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2 and max(sizes) < 3000
    assert operations.load_operations(tmp_path)[0].queue == "q39"


def test_a_line_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    journal(tmp_path).record_change("kill", "mail", "native")
    with (tmp_path / operations.FILE_NAME).open("ab") as file:
        file.write(b'{"half": \n[1]\n"text"\n')
    journal(tmp_path).record_change("delete", "mail", "native")
    assert [each.verb for each in operations.load_operations(tmp_path)] == ["delete", "kill"]


def test_only_the_first_ids_are_written_but_all_are_counted(tmp_path: Path) -> None:
    operation = journal(tmp_path).record_change(
        "delete", "mail", "native", [b"%d" % n for n in range(1500)], {"deleted": 1500}
    )
    assert (len(operation.ids), operation.count) == (operations.MAX_IDS, 1500)


def test_an_undone_change_is_marked_in_every_session(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.record_change("kill", "mail", "native", undo=["17-kill-x"])
    journal(tmp_path).mark_undone("17-kill-x")
    (read,) = operations.load_operations(tmp_path)
    assert operations.describe_undo(read).startswith("undone ")
    assert operations.describe_undo(first.operations[0]) == "can be undone"


def test_a_folder_that_cannot_be_written_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    operation_journal = journal(tmp_path / "state")
    operation_journal.record_change("kill", "mail", "native")
    assert "cannot be written" in operation_journal.problem and len(operation_journal.operations) == 1


def test_the_page_for_the_post_mortem_names_who_what_and_when_with_the_zone(tmp_path: Path) -> None:
    operation_journal = journal(tmp_path)
    operation_journal.record_change("kill", "mail", "native", [b"a"], {"killed": 1, "it is gone": 2})
    page = postmortem.build_markdown(operation_journal.operations)
    assert "* redis://me:\\*\\*\\*@db:6379 (profile prod)" in page
    assert re.search(r"\* \d{4}-\d\d-\d\d, times of the zone UTC[+-]\d\d:\d\d\n", page)
    assert re.search(r"\| \d\d:\d\d:\d\d \| .+@.+ \| kill \| native:mail \| 1 \|", page)
    assert "killed · 2 × it is gone" in page and "ids of the changed jobs are in the JSON file" in page


def test_hostile_data_is_plain_text_on_that_page(tmp_path: Path) -> None:
    operation_journal = journal(tmp_path)
    operation_journal.record_change("kill", HOSTILE, "native", [HOSTILE.encode()], {HOSTILE: 1}, HOSTILE)
    page = postmortem.build_markdown(operation_journal.operations)
    assert "\x1b" not in page and not re.search(r"(?<!\\)[`\[]", page)
    assert all(line.count("|") - line.count("\\|") == 5 for line in page.splitlines() if re.match(r"\| \d\d:", line))
    assert all(line.count("|") - line.count("\\|") == 9 for line in page.splitlines() if line.startswith("| 1 |"))
    assert (
        json.loads(json.dumps(postmortem.build_document(operation_journal.operations)))["operations"][0]["queue"]
        == HOSTILE
    )


# -- the view -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@run_on_event_loop
async def test_every_change_of_this_screen_is_there_with_its_answers(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two", "three")
    async with screen(url) as ui:
        await ui.press("enter", "space", "space", "K", "y")
        await ui.until(lambda: len(here.ids("dead")) == 2, "the burial")
        await ui.press("P", "y")
        await ui.until(lambda: client.hexists("rqtui:{mail}:meta", "paused"), "the pause")
        await ui.press("o")
        await ui.until_shown("kill", "2 × killed", "pause", "can be undone", "2 changes in this session")
        await ui.press("j", "enter")
        await ui.until_shown("kill mail", "one", "two", "answers")


@pytest.mark.slow
@run_on_event_loop
async def test_a_queue_whose_name_another_system_has_too_is_named_with_its_system(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    client.sadd("rq:queues", "rq:queue:mail")
    client.rpush("rq:queue:mail", "two")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("native", "rq")
        for number in (1, 2):
            await ui.press("P", "y")
            await ui.until(lambda number=number: len(ui.app.session.journal.operations) == number, "the pause")
            await ui.press("j")
        await ui.until_shown("pause       native:mail", "pause       rq:mail")
        await ui.press("o")
        await ui.until_shown("2 changes in this session", "native:mail", "rq:mail")


@pytest.mark.slow
@run_on_event_loop
async def test_z_takes_back_the_last_change_and_then_the_one_before(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two", "three")
    async with screen(url) as ui:
        await ui.press("enter", "D", "y")
        await ui.until(lambda: here.ids("ready") == ["two", "three"], "the deletion")
        await ui.press("j", "K", "y")
        await ui.until(lambda: here.ids("dead") != [], "the burial")
        await ui.until(lambda: len(ui.app.session.journal.operations) == 2, "both in the journal")
        await ui.press("z")
        await ui.until(lambda: here.ids("ready") == ["two", "three"], "the undo of kill")
        await ui.until_toast("undo of kill (mail): restored")
        await ui.press("z")
        await ui.until(lambda: here.ids("ready") == ["one", "two", "three"], "the undo of delete")
        await ui.until_toast("undo of delete (mail): restored")
        await ui.press("z")
        await ui.until_toast("Nothing to undo")


@pytest.mark.slow
@run_on_event_loop
async def test_z_in_the_view_takes_back_the_one_under_the_cursor(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    async with screen(url) as ui:
        await ui.press("enter", "D", "y")
        await ui.until(lambda: here.ids("ready") == ["two"], "the deletion")
        await ui.press("P", "y")
        await ui.until(lambda: len(ui.app.session.journal.operations) == 2, "both in the journal")
        await ui.press("o")
        await ui.until_shown("delete", "pause")
        await ui.press("j", "z")
        await ui.until(lambda: here.ids("ready") == ["one", "two"], "the undo of delete")
        await ui.until_shown("undone ")
        assert client.hexists("rqtui:{mail}:meta", "paused"), "the newer one stays"


@pytest.mark.slow
@run_on_event_loop
async def test_undo_reports_what_it_could_not_restore(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    async with screen(url) as ui:
        await ui.press("enter", "space", "space", "D", "y")
        await ui.until(lambda: len(ui.app.session.journal.operations) == 1, "the journal")
        here.put("two")
        await ui.press("z")
        toast = await ui.until_toast("undo of delete")
        assert "restored" in toast and "the id is taken" in toast


@pytest.mark.slow
@run_on_event_loop
async def test_a_purge_is_one_operation_and_comes_back(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put(*(f"job-{number:04}" for number in range(1200)))
    async with screen(url) as ui:
        await ui.press("enter", "colon", '"purge', "enter", "y")
        await ui.until(lambda: client.zcard("rqtui:{mail}:ready") == 0, "the purge")
        (operation,) = await ui.until(lambda: ui.app.session.journal.operations, "the journal")
        assert (operation.verb, operation.count) == ("purge", 1200)
        await ui.press("z")
        await ui.until(lambda: client.zcard("rqtui:{mail}:ready") == 1200, "the undo")


@pytest.mark.slow
@run_on_event_loop
async def test_the_journal_is_saved_as_markdown_and_json(
    url: str, client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Seeded(client)
    here.put("one")
    monkeypatch.chdir(tmp_path)
    async with screen(url) as ui:
        await ui.press("enter", "D", "y")
        await ui.until(lambda: ui.app.session.journal.operations, "the journal")
        await ui.until(lambda: ui.app.session.journal.operations[0].after, "it was counted after it")
        await ui.press("o", "s")
        await ui.until_shown("Write the report", "why, in a few words")
        await ui.press('"it was a test', "enter")
        await ui.until_toast("Written: rqtui-operations-", ".md and .json")
        (page,), (data,) = tmp_path.glob("*.md"), tmp_path.glob("*.json")
        assert "| delete | native:mail | 1 |" in page.read_text()
        assert "* why: it was a test" in page.read_text() and "in per minute, at most 1" in page.read_text()
        (actual,) = json.loads(data.read_text())["operations"]
        assert (actual["ids"], actual["why"]) == (["one"], "it was a test")
        assert (actual["before"]["mail"]["ready"], actual["after"]["mail"]["ready"]) == (1, 0)
        await ui.press("s")
        await ui.until(lambda: len(list(tmp_path.glob("*.md"))) == 2, "it is not asked twice")


@pytest.mark.slow
@run_on_event_loop
async def test_a_change_of_many_is_written_down_with_its_filter_and_what_stopped_it(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.bury(*(f"d{number}" for number in range(30)))
    async with screen(url) as ui:
        await ui.press("enter", "5", "asterisk", "R")
        await ui.until_shown("speed", "all at once")
        await ui.press("tab", "tab", '"1/s', "enter", "y")
        await ui.until_shown("1/s", "X stop")
        await ui.until(lambda: client.zcard("rqtui:{mail}:ready"), "the first drop")
        await ui.press("X")
        (result,) = await ui.until(lambda: ui.app.session.journal.operations, "the journal")
        assert result.chosen == "all of dead" and result.rate == "1/s"
        assert result.stopped.startswith("stopped by X after ")
        assert result.before["mail"]["dead"] == 30 and result.began_ms


@run_on_event_loop
async def test_the_loops_switched_here_are_in_the_journal(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    async with screen(url) as ui:
        await ui.press("comma", "comma")
        await ui.until(lambda: len(ui.app.session.journal.operations) == 2, "both")
        assert [(each.verb, each.describe_outcomes()) for each in ui.app.session.journal.operations] == [
            ("dispatcher", "on"),
            ("dispatcher", "off"),
        ]


@run_on_event_loop
async def test_an_empty_journal_reports_what_will_be_there(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    async with screen(url) as ui:
        await ui.press("o")
        await ui.until_shown("no change was made here yet", "nothing to undo")


@pytest.mark.slow
@run_on_event_loop
async def test_a_hostile_queue_and_id_are_harmless_in_the_view(url: str, client: Redis) -> None:
    async with screen(url) as ui:
        ui.app.session.journal.record_change("kill", HOSTILE, "native", [HOSTILE.encode()], {HOSTILE: 1})
        await ui.press("o")
        await ui.until_shown("kill", "␛[31m|evil|")
        await ui.press("enter")
        await ui.until_shown("answers", "ids")
        assert "\x1b" not in ui.text()


@pytest.mark.parametrize(("name", "size"), [("operations-80x24", NARROW), ("operations-160x45", WIDE)])
def test_the_view_matches_its_snapshot(url: str, client: Redis, name: str, size: tuple[int, int]) -> None:
    shown: list[str] = []

    @run_on_event_loop
    async def check_views() -> None:
        here = Seeded(client)
        here.put("one")
        async with screen(url, size) as ui:
            operation_journal = ui.app.session.journal
            operation_journal.who = "ada@desk"
            operation_journal.record_change(
                "requeue", "mail", "native", [b"a"] * 37, {"requeued": 37, "it is gone": 3}, undo=["1-requeue-a"]
            )
            operation_journal.record_change("delete", "images", "native", [b"b"], {"deleted": 1}, undo=["2-delete-b"])
            operation_journal.mark_undone("2-delete-b")
            operation_journal.record_change("ack", "mail", "native", [b"c"], {"acked": 1})
            operation_journal.record_change(
                "purge", "reports", "native", (), {}, "Redis is away: the rest was not sent"
            )
            await ui.press("o")
            await ui.until_shown("requeue", "can be undone")
            shown.append(_still(ui.text()))

    check_views()
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        path.write_text(shown[0])
    assert shown[0] == path.read_text()


def _still(text: str) -> str:
    """Without what changes from run to run: the header's first line, clocks and dates."""
    body = text.splitlines()[1:]
    still = re.sub(r"redis://127.0.0.1:\d+", lambda url: "redis://there".ljust(len(url[0])), "\n".join(body))
    still = re.sub(r"\d{4}-\d\d-\d\d", "2026-11-22", still)
    return re.sub(r"\d\d:\d\d(:\d\d)?", lambda found: "00:00:00"[: len(found[0])], still) + "\n"


# -- the same from the shell --------------------------------------------------------------------------------------


def test_act_is_undone_from_the_shell(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    assert shell(url, "act", "delete", "mail", "one", "two", "--yes").code == 0
    listed = shell(url, "undo", "--list", "--json").json["undo"]
    assert [(each["n"], each["verb"], each["queue"], each["jobs"]) for each in listed] == [
        (1, "delete", "native:mail", 2)
    ]
    here.put("two")
    done = shell(url, "undo", "--json")
    assert (done.code, done.json["of"], done.json["moved"]) == (1, "delete", 1)
    assert [(each["id"], each["word"]) for each in done.json["results"]] == [("one", "moved"), ("two", "exists")]
    assert here.ids("ready") == ["one", "two"]
    again = shell(url, "undo")
    assert again.code == 2 and "can be undone: 0" in again.err


def test_a_change_of_several_queues_is_undone_from_the_shell_as_one(
    url: str, client: Redis, state_folder: Path
) -> None:
    queues = [Seeded(client, name) for name in ("mail", "images")]
    records = []
    keeper = UndoRecorder(state_folder, connect.hide_url_passwords(url))
    for here in queues:
        here.put("one")
        here.engine.change_recorder = keeper
        here.engine.apply_verb("delete", here.ref, here.jobs("ready"))
        records.append(keeper.end_change("delete", "native", here.ref.queue))
    operation_journal = Journal(state_folder, url)
    operation_journal.record_change(
        "delete", "mail", "native", [b"one", b"one"], {"deleted": 2}, undo=records, others=["images"]
    )
    [listed] = shell(url, "undo", "--list", "--json").json["undo"]
    assert (listed["queue"], listed["others"], listed["jobs"]) == ("native:mail", ["native:images"], 2)
    done = shell(url, "undo")
    assert (done.code, done.err.strip()) == (0, "rqtui: undo of delete (mail and 1 more): 2 restored")
    assert [here.ids("ready") for here in queues] == [["one"], ["one"]]
    assert all(each.undone_at_ms for each in operations.load_operations(state_folder) if each.verb == "delete")
    assert "can be undone: 0" in shell(url, "undo").err


def test_act_says_before_it_acts_whether_it_can_be_undone(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    here.reserve()
    assert "rqtui undo undoes it." in shell(url, "act", "kill", "mail", "one", "--force").err.lower()
    assert "No undo: an acked job is finished." in shell(url, "act", "ack", "mail", "one").err
    assert here.ids("reserved") == ["one"]


def test_an_older_change_is_undone_by_its_number(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    shell(url, "act", "kill", "mail", "one", "--yes")
    shell(url, "act", "delete", "mail", "two", "--yes")
    done = shell(url, "undo", "2")
    assert done.code == 0 and "undo of kill (mail): 1 restored" in done.err
    assert here.ids("ready") == ["one"]


def test_a_change_of_another_redis_is_not_offered(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    shell(url, "act", "delete", "mail", "one", "--yes")
    assert shell(f"{url}/3", "undo", "--list", "--json").json == {"undo": []}


def test_operations_lists_the_changes_of_act(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two", "three")
    shell(url, "act", "kill", "mail", "one", "--yes")
    shell(url, "act", "purge", "mail", "--place", "ready", "--yes")
    shell(url, "act", "reserve", "mail")
    shell(url, "undo")
    document = shell(url, "operations", "--json").json["operations"]
    assert [(each["verb"], each["count"], bool(each["undone_at_ms"])) for each in document] == [
        ("undo", 2, False),
        ("reserve", 0, False),
        ("purge", 2, True),
        ("kill", 1, False),
    ]
    assert here.ids("ready") == ["two", "three"]
    page = shell(url, "operations", "--markdown").out
    assert "| purge | native:mail | 2 |" in page and "undone " in page
    assert "killed" in shell(url, "operations").out


def test_a_broken_record_hides_no_other(url: str, client: Redis, state_folder: Path) -> None:
    here = Seeded(client)
    here.put("one")
    shell(url, "act", "delete", "mail", "one", "--yes")
    (state_folder / "undo" / "9999999999999-delete-x.jsonl").write_text("{")
    done = shell(url, "undo")
    assert done.code == 0 and "cannot be read" in done.err and here.ids("ready") == ["one"]


def test_a_dry_run_is_no_operation(url: str, client: Redis) -> None:
    Seeded(client).put("one")
    shell(url, "act", "delete", "mail", "one", "--dry-run")
    assert shell(url, "operations", "--json").json == {"operations": []}


def test_an_operation_is_read_whatever_a_later_version_adds(tmp_path: Path) -> None:
    (tmp_path / operations.FILE_NAME).write_text(
        '{"at_ms": 1, "who": "a@b", "verb": "kill", "queue": "q", "layout": "native", "ids": [], "new": 1}\n'
    )
    assert operations.load_operations(tmp_path) == [Operation(1, "a@b", "kill", "q", "native")]
