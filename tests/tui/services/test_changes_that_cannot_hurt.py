"""What an operator fears: a change of several queues, an undo cut short, a full disk, a lock that falls meanwhile."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proxy import Proxy
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine, build_engine
from rqtui.errors import RqtuiError, UsageError
from rqtui.model import Ref
from rqtui.operations import revert, undo_files
from rqtui.operations.journal import Circumstances
from rqtui.operations.undo import UndoRecorder
from rqtui.systems import registry
from rqtui.tui.widgets import place_scan


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Simulate a full disk: the system writes a part of the data, and refuses the next byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class RecordedQueue(Seeded):
    """A queue whose changes are recorded for undo."""

    def __init__(self, client: Redis, folder: Path, queue: str = "mail") -> None:
        super().__init__(client, queue)
        self.keeper = UndoRecorder(folder, "redis://here")
        self.engine.change_recorder = self.keeper

    def fill(self, number: int) -> None:
        """Put this number of waiting jobs."""
        rows = [{"id": f"j{n:05}", "body": b"{}"} for n in range(number)]
        for start in range(0, number, 1000):
            self.engine.send_request(self.engine.systems["native"].put_request(self.queue, rows[start : start + 1000]))
        self.engine.register_queue(self.ref)

    def delete_all(self) -> str:
        """Delete all jobs and return the name of the undo record."""
        for _chunk in self.engine.apply_verb_to_place("delete", self.ref, "ready"):
            pass
        return self.keeper.end_change("delete", "native", self.queue)

    def total(self, place: str = "ready") -> int:
        return self.engine.fetch_page(self.ref, place, 0, 1).total


@pytest.fixture
def it(client: Redis, tmp_path: Path) -> RecordedQueue:
    return RecordedQueue(client, tmp_path)


# ── the record on the disk ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_disk_that_takes_a_part_of_the_record_stops_the_change(it: RecordedQueue) -> None:
    it.put("one", "two", body=b"x" * 50_000)
    with no_file_longer_than(80_000), pytest.raises(RqtuiError, match="nothing more was changed"):
        it.delete_all()
    assert it.ids("ready") == ["one", "two"]


def test_after_that_the_message_reports_no_undo_and_a_repeated_change_is_made(it: RecordedQueue) -> None:
    it.put("one", "two", body=b"x" * 50_000)
    with no_file_longer_than(80_000):
        with pytest.raises(RqtuiError):
            it.delete_all()
        it.keeper.end_change("delete", "native", "mail")
        assert "cannot be written" in it.keeper.check_problem()
        assert it.delete_all() == "" and it.ids("ready") == []
    assert it.keeper.check_problem() == "", "there is room again"
    it.put("three")
    assert it.delete_all() != ""


def test_a_full_disk_after_the_change_hides_no_answer_of_it(it: RecordedQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    it.fill(3)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = undo_files.UndoFile.write_jobs

    def then_it_is_full(self: undo_files.UndoFile, found: list[undo_files.SavedJob]) -> None:
        rows(self, found)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.path.stat().st_size, limit[1]))

    monkeypatch.setattr(undo_files.UndoFile, "write_jobs", then_it_is_full)
    steps = it.engine.yield_verb_steps("delete", it.ref, it.jobs("ready"))
    try:
        assert [one.word for one in next(steps)] == ["moved"] * 3
        with pytest.raises(RqtuiError, match="cannot be written"):
            next(steps)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    (outcomes,) = it.keeper.open_changes().values()
    assert outcomes.count == 3


def test_a_record_of_another_version_is_refused_in_a_sentence(it: RecordedQueue) -> None:
    it.fill(1)
    name = it.delete_all()
    path = it.keeper.folder / f"{name}.jsonl"
    path.write_text(path.read_text().replace('"version":2', '"version":1'))
    with pytest.raises(UsageError, match="another version"):
        undo_files.read_record(it.keeper.folder, name)


def test_two_programs_that_free_space_at_the_same_time_stop_no_change(
    it: RecordedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = undo_files.list_records
    monkeypatch.setattr(
        undo_files, "list_records", lambda folder: [*names(folder), "1-delete-gone"]
    )  # the other was faster
    it.fill(1)
    assert it.delete_all() != "" and it.total() == 0


def test_jobs_that_did_not_fit_into_the_undo_are_reported(it: RecordedQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    it.fill(700)
    monkeypatch.setattr(undo_files, "OPERATION_BYTES", 1000)
    name = it.delete_all()
    outcomes = [one for step in revert.revert_record(it.engine, it.keeper.folder, name) for one in step]
    assert it.total() == 500
    assert outcomes[-1].text == "200 more were changed; they did not fit into the undo"


# ── undo, cut short ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_undo_that_was_ended_continues_with_the_rest_and_asks_no_job_twice(it: RecordedQueue) -> None:
    it.fill(1200)
    name = it.delete_all()
    steps = revert.revert_record(it.engine, it.keeper.folder, name)
    assert len(next(steps)) == 500
    steps.close()  # type: ignore[attr-defined]
    rest = [one.text for step in revert.revert_record(it.engine, it.keeper.folder, name) for one in step]
    assert rest == ["restored"] * 700 and it.total() == 1200
    with pytest.raises(UsageError, match="undone already"):
        next(revert.revert_record(it.engine, it.keeper.folder, name))


def test_a_lock_ends_an_undo_between_two_steps(it: RecordedQueue) -> None:
    it.fill(1200)
    name = it.delete_all()
    steps = revert.revert_record(it.engine, it.keeper.folder, name)
    next(steps)
    it.engine.read_only = True
    with pytest.raises(RqtuiError, match="locked"):
        next(steps)
    assert it.total() == 500


def test_a_link_that_drops_in_an_undo_leaves_the_rest_for_the_next(url: str, client: Redis, tmp_path: Path) -> None:
    with Proxy(url) as proxy, connect(proxy.url) as link:
        here = RecordedQueue(link, tmp_path)
        here.fill(1200)
        name = here.delete_all()
        steps = revert.revert_record(here.engine, here.keeper.folder, name)
        next(steps)
        proxy.fail("lose reply", "EVALSHA")
        assert {one.word for one in next(steps)} == {"unknown"}
        assert next(steps, None) is None and not undo_files.read_record(here.keeper.folder, name).undone_at_ms
        again = [one.word for step in revert.revert_record(here.engine, here.keeper.folder, name) for one in step]
        assert sorted(set(again)) == ["exists", "moved"] and len(again) == 700
        assert here.total() == 1200


def test_a_queue_restored_after_a_purge_is_found_again(it: RecordedQueue) -> None:
    it.fill(2)
    name = it.delete_all()
    it.engine.apply_verb("purge", it.ref, (), {"limit": 1000, "force": True})
    it.engine.unregister_queue(it.ref)
    for _step in revert.revert_record(it.engine, it.keeper.folder, name):
        pass
    assert build_engine(it.client, [registry.create_system("native")]).refs == [it.ref] and it.total() == 2


def test_an_undo_is_for_the_redis_on_which_it_was_done(it: RecordedQueue) -> None:
    it.fill(1)
    name = it.delete_all()
    with pytest.raises(UsageError, match="redis://here, and this is redis://there"):
        list(revert.revert_record(it.engine, it.keeper.folder, name, "redis://there"))
    assert it.total() == 0


# ── on the screen ────────────────────────────────────────────────────────────────────────────────────────────────────


async def delete_over(ui: Screen, heres: list[Seeded]) -> None:
    """Delete the ready jobs of these queues as one change."""
    ui.app.start_verb_on_jobs("delete", [(here.ref, here.jobs("ready")) for here in heres], "an error")
    await ui.until_shown("y delete   Enter, Esc cancel")
    await ui.press("y")
    await ui.until(lambda: not any(here.ids("ready") for here in heres), "the deletion")


@run_on_event_loop
async def test_a_change_of_several_queues_is_one_z(url: str, client: Redis) -> None:
    heres = [Seeded(client, queue) for queue in ("mail", "pay", "sms")]
    for here in heres:
        here.put("one", "two")
    async with screen(url) as ui:
        await delete_over(ui, heres)
        await ui.until_toast("6 deleted")
        (operation,) = ui.app.session.journal.operations
        assert (operation.queue_label, operation.count, len(operation.undo)) == ("mail and 2 more", 6, 3)
        await ui.press("z")
        await ui.until_toast("undo of delete (mail and 2 more): 6 × restored")
        assert [here.ids("ready") for here in heres] == [["one", "two"]] * 3
        await ui.press("z")
        await ui.until_toast("Nothing to undo")


@run_on_event_loop
async def test_a_queue_with_a_lost_undo_record_does_not_block_the_others(
    url: str, client: Redis, state_folder: Path
) -> None:
    heres = [Seeded(client, queue) for queue in ("mail", "pay")]
    for here in heres:
        here.put("one")
    async with screen(url) as ui:
        await delete_over(ui, heres)
        await ui.until(lambda: ui.app.session.journal.operations, "the note")
        (state_folder / "undo" / f"{ui.app.session.journal.operations[0].undo[0]}.jsonl").write_text("{")
        await ui.press("z")
        await ui.until_toast("undo of delete (mail and 1 more): restored", "cannot be read")
        assert [here.ids("ready") for here in heres] == [[], ["one"]]


@pytest.mark.slow
@run_on_event_loop
async def test_z_reports_what_it_cannot_read_and_continues_with_the_change_before(
    url: str, client: Redis, state_folder: Path
) -> None:
    here = Seeded(client)
    here.put("one", "two")
    async with screen(url) as ui:
        await ui.press("enter")
        for number in (1, 2):
            await ui.until_shown("D delete")
            await ui.press("D")
            await ui.until_shown("y delete   Enter, Esc cancel")
            await ui.press("y")
            await ui.until(lambda number=number: len(ui.app.session.journal.operations) == number, "the deletion")
            await ui.until_refreshed()
            await ui.press("j")  # off the row of the one that is gone
        (state_folder / "undo" / f"{ui.app.session.journal.operations[0].undo[0]}.jsonl").unlink()
        await ui.press("z")
        await ui.until_toast("there is no undo record")
        await ui.press("z")
        await ui.until(lambda: here.ids("ready") == ["one"], "the undo of the first")


@pytest.mark.slow
@run_on_event_loop
async def test_an_undo_of_thousands_shows_how_far_it_is_and_x_ends_it(url: str, client: Redis) -> None:
    here = Seeded(client)
    rows = [{"id": f"j{n:05}", "body": b"{}"} for n in range(4000)]
    for start in range(0, 4000, 1000):
        here.engine.send_request(here.engine.systems["native"].put_request("mail", rows[start : start + 1000]))
    here.engine.register_queue(here.ref)
    async with screen(url) as ui:
        await ui.press("enter", "2", "asterisk", "D")
        await ui.until_shown("y delete   Enter, Esc cancel", "z undoes it")
        await ui.press("y")
        await ui.until_toast("4 000 deleted")
        client.client_pause(60_000, all=False)  # Redis answers, and changes nothing for now
        try:
            await ui.press("z")
            await ui.until_shown("undo of delete 0 of 4 000", "X stop")
            await ui.press("X")
        finally:
            client.client_unpause()
        await ui.until_toast("stopped: z continues with")
        assert client.zcard("rqtui:{mail}:ready") < 4000
        await ui.press("z")
        await ui.until(lambda: client.zcard("rqtui:{mail}:ready") == 4000, "the rest")


@pytest.mark.slow
@run_on_event_loop
async def test_a_lock_that_closes_while_a_question_is_open_lets_nothing_through(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one", "two")
    async with screen(url, read_only=True) as ui:
        await ui.press("enter")
        ui.app.write_lock.unlock_changes("5m")
        await ui.until_shown("D delete")
        await ui.press("D")
        await ui.until_shown("y delete   Enter, Esc cancel")
        ui.app.write_lock._until_s = time.time()
        await ui.until(lambda: ui.app.session.is_read_only, "the lock")
        await ui.press("y")
        await ui.until_shown("delete changes the queue, and this session is read-only.")
        assert here.ids("ready") == ["one", "two"]


@run_on_event_loop
async def test_a_lock_ends_a_throttled_requeue(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.bury(*(f"d{n}" for n in range(20)))
    async with screen(url) as ui:
        from rqtui.operations import rate_limit

        ui.app.verb_starter.rate_limited.start_change(
            "requeue", [(here.ref, here.jobs("dead"))], {}, rate_limit.Limits(5.0), "", Circumstances()
        )
        await ui.until(lambda: here.ids("ready"), "the first drop")
        ui.app.write_lock.lock()
        await ui.until(lambda: ui.app.verb_starter.rate_limited.format_progress() is None, "the end of the drip")
        left = len(here.ids("dead"))
        await ui.until_refreshed()
        await ui.until_refreshed()
        assert len(here.ids("dead")) == left > 0


@pytest.mark.slow
@run_on_event_loop
async def test_two_operators_on_one_job_do_it_once(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.bury("one")
    async with screen(url) as ours, screen(url) as theirs:
        for each in (ours, theirs):
            await each.press("enter", "5")
            await each.until_shown("one", "R ")
        await ours.press("D")
        await theirs.press("R")
        await theirs.until(lambda: here.ids("ready") == ["one"], "their requeue")
        await ours.press("y")
        await ours.until_toast("it is in another place", "ready")
        assert here.ids("ready") == ["one"]
        await ours.press("z")
        await ours.until_toast("Nothing to undo")
        await theirs.press("z")
        await theirs.until(lambda: here.ids("dead") == ["one"], "their undo")


def acl_engine(url: str, client: Redis, rules: str) -> Engine:
    client.execute_command("ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "&*", "+@all", *rules.split())
    link = connect(url.replace("redis://", "redis://op:pw@", 1))
    return build_engine(link, [registry.create_system("native")])


def test_where_the_acl_denies_a_command_of_a_script_nothing_is_changed_and_the_rest_is_not_sent(
    url: str, client: Redis, tmp_path: Path
) -> None:
    here = RecordedQueue(client, tmp_path)
    here.fill(700)
    try:
        engine = acl_engine(url, client, "-zrem")
        engine.change_recorder = UndoRecorder(tmp_path / "other")
        outcomes = [
            one for step in engine.yield_verb_steps("delete", Ref("native", "mail"), here.jobs("ready")) for one in step
        ]
        assert {one.word for one in outcomes} <= {"error", "not sent"} and "ACL" in outcomes[0].text
        assert here.total() == 700
        assert engine.change_recorder.end_change("delete", "native", "mail") == ""
    finally:
        client.execute_command("ACL", "DELUSER", "op")


@run_on_event_loop
async def test_a_folder_that_cannot_be_written_is_reported_in_the_question(
    url: str, client: Redis, state_folder: Path
) -> None:
    state_folder.mkdir(parents=True, exist_ok=True)
    here = Seeded(client)
    here.put("one")
    async with screen(Settings(url)) as ui:
        await ui.press("enter")
        (state_folder / "undo").rmdir()
        (state_folder / "undo").write_text("no folder any more")
        await ui.press("D")
        await ui.until_shown("no undo: ", "cannot be written")
        await ui.press("y")
        await ui.until(lambda: here.ids("ready") == [], "the deletion")


@pytest.mark.slow
@run_on_event_loop
async def test_the_frame_of_a_question_reports_what_enter_does_where_the_focus_is(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.bury("one")
    async with screen(Settings(url, is_guarded=True)) as ui:
        await ui.press("enter", "5", "D")
        await ui.until_shown("y delete   Enter, Esc cancel")
        ui.app.screen.query_one("#guard-word").focus()
        await ui.until_shown("Enter goes to delete   Esc cancel")
        await ui.press('"mail', "enter")
        await ui.until_shown("y, Enter delete   Esc cancel")
        assert here.ids("dead") == ["one"]
        await ui.press("enter")
        await ui.until(lambda: here.ids("dead") == [], "the deletion")


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_that_did_not_read_all_jobs_reports_it_before_a_change(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Seeded(client)
    rows = [{"id": f"j{n:05}", "body": b"{}"} for n in range(2500)]
    for start in range(0, 2500, 500):
        here.engine.send_request(here.engine.systems["native"].put_request("mail", rows[start : start + 500]))
    here.engine.register_queue(here.ref)
    scan = place_scan.create_scan
    monkeypatch.setattr(place_scan, "create_scan", lambda *given: scan(*given, max_scanned=1000))
    async with screen(url, (100, 30)) as ui:
        await ui.press("enter", "2", "slash", '"id:j0', "enter")
        pane = ui.app.navigation.view.find_current_pane()  # type: ignore[union-attr]
        await ui.until(lambda: pane.scan_result is not None and pane.scan_result.is_finished, "the scan")
        await ui.press("asterisk", "D")
        await ui.until_shown("Only the first 1 000 jobs were searched, not the rest.")
        await ui.press("n")
        assert client.zcard("rqtui:{mail}:ready") == 2500


@pytest.mark.slow
@run_on_event_loop
async def test_bodies_and_errors_that_a_filter_cut_are_whole_in_a_copy_and_after_an_undo(
    url: str, client: Redis
) -> None:
    here = Seeded(client)
    error, body = "E" * 3000 + " the end", b'{"long": "' + b"x" * 9000 + b'"}'
    here.put("one", body=body)
    here.engine.apply_verb("reject", here.ref, here.reserve(), {"error": error, "final": True})
    for start in range(0, 2500, 500):
        rows = [{"id": f"j{n:05}", "body": b"{}"} for n in range(start, start + 500)]
        here.engine.send_request(here.engine.systems["native"].put_request("mail", rows))
    moved = [
        job for offset in range(0, 2500, 500) for job in here.engine.fetch_page(here.ref, "ready", offset, 500).jobs
    ]
    here.engine.apply_verb("kill", here.ref, moved)
    before = client.hget("rqtui:{mail}:errors", "one"), client.hget("rqtui:{mail}:bodies", "one")
    async with screen(url, (100, 30)) as ui:
        await ui.press("enter", "5", "slash", '"err:EEE', "enter")
        await ui.until_shown("one")
        pane = ui.app.navigation.view.find_current_pane()  # type: ignore[union-attr]
        await ui.until(lambda: pane.scan_result is not None and pane.scan_result.is_finished, "the scan")
        assert len(pane.scan_result.jobs[b"one"].error) < len(error), "what the filter keeps is cut"
        await ui.press("D")
        await ui.until_shown("y delete   Enter, Esc cancel")
        await ui.press("y")
        await ui.until(lambda: not client.hexists("rqtui:{mail}:jobs", "one"), "the deletion")
        await ui.until_toast("deleted")
        await ui.press("z")
        await ui.until(lambda: client.hexists("rqtui:{mail}:jobs", "one"), "the undo")
        assert (client.hget("rqtui:{mail}:errors", "one"), client.hget("rqtui:{mail}:bodies", "one")) == before
