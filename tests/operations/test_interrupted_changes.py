"""Test a change whose program is killed: the next start reports what was done, and it can be undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from shell import build_environment, shell

from rqtui.model import Outcome
from rqtui.operations import journal, revert, undo_files
from rqtui.operations.journal import Journal
from rqtui.operations.undo import UndoRecorder

MANY = 3000
HOOK = """
import asyncio, os, signal, sys
from rqtui.engine.engine import Engine
real, calls = Engine.send_verb_requests, []
def send(self, name, ref, asks):
    for outcomes in real(self, name, ref, asks):
        yield outcomes
        calls.append(1)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
Engine.send_verb_requests = send
"""
KILLED = f"""{HOOK}
from rqtui.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_killed_change(url: str, *words: str) -> None:
    """Run a command that is killed after four chunks of 500 jobs."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, *words],
        env={**build_environment(url)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran


@pytest.fixture
def dead(client: Redis) -> Seeded:
    """Plant a queue with many dead jobs."""
    seeded = Seeded(client)
    seeded.engine.apply_verb("enqueue", seeded.ref, (), {"id": "j0", "body": b"1"})
    seeded.engine.register_queue(seeded.ref)
    for start in range(0, MANY, 1000):
        rows = [{"id": f"n{number:05}", "body": b"1"} for number in range(start, start + 1000)]
        seeded.engine.send_request(seeded.engine.systems["native"].put_request("mail", rows))
    return seeded


@pytest.mark.slow
def test_an_act_that_was_killed_is_reported_and_taken_back(
    client: Redis, url: str, dead: Seeded, tmp_path: Path
) -> None:
    before = dead.client.zcard("rqtui:{mail}:ready")
    run_killed_change(url, "act", "kill", "mail", "--place", "ready", "--all", "--yes")
    assert client.zcard("rqtui:{mail}:dead") == 2000
    result = shell(url, "operations")
    assert "cut short: 2000 of 3001" in result.out
    result = shell(url, "act", "pause", "mail")
    assert "a change was cut short: kill (mail), 2000 of 3001; rqtui operations shows it" in result.err
    assert "cut short" not in shell(url, "act", "resume", "mail").err  # it is said once
    [cut] = [one for one in shell(url, "operations", "--json").json["operations"] if one["verb"] == "kill"]
    assert (cut["count"], cut["error"], len(cut["undo"])) == (2000, "cut short: 2000 of 3001", 1)
    rows = shell(url, "undo", "--list", "--json").json["undo"]
    number = next(row["n"] for row in rows if row["verb"] == "kill")
    undone = shell(url, "undo", str(number))
    assert undone.code == 0, undone
    assert client.zcard("rqtui:{mail}:dead") == 0 and client.zcard("rqtui:{mail}:ready") == before


@pytest.mark.slow
def test_the_next_screen_reports_it_and_shows_it(client: Redis, url: str, dead: Seeded) -> None:
    run_killed_change(url, "act", "kill", "mail", "--place", "ready", "--all", "--yes")

    @run_on_event_loop
    async def run() -> None:
        async with screen(url, WIDE) as ui:
            await ui.until_toast("A change was cut short: kill (mail), 2000 of 3001; o shows it.")
            await ui.press("o")
            await ui.until_shown("cut short: 2000 of 3001")
            await ui.press("g", "z")
            await ui.until(lambda: client.zcard("rqtui:{mail}:dead") == 0, "the undo", timeout_s=30)

    run()


@pytest.mark.slow
def test_a_screen_that_is_killed_in_a_bulk_leaves_a_trace(
    client: Redis, url: str, dead: Seeded, state_folder: Path
) -> None:
    program = f"""{HOOK}
from screens import screen
async def main():
    async with screen({url!r}, (160, 45)) as it:
        await it.press("enter", "2")
        await it.until_shown("n00001")
        await it.press("*", "K")
        await it.until_shown("Kill all", "in ready")
        await it.press("y")
        await asyncio.Event().wait()
asyncio.run(main())
"""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**build_environment(url), **paths},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr[-2000:]
    assert client.zcard("rqtui:{mail}:dead") == 2000
    assert "cut short: 2000 of 3001" in shell(url, "operations").out
    assert "cut short" in shell(url, "undo", "--list").err
    assert shell(url, "undo").code == 0
    assert client.zcard("rqtui:{mail}:dead") == 0


# -- the journal ------------------------------------------------------------------------------------------------------


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / journal.FILE_NAME).read_bytes().splitlines()]


def test_a_change_that_continues_is_not_cut_short(tmp_path: Path) -> None:
    new_journal = Journal(tmp_path, "redis://here")
    id = new_journal.begin_change("kill", "mail", "native", 5000)
    new_journal.record_progress(id, 500, {"died": 500}, "")
    assert journal.load_operations(tmp_path) == [] and Journal(tmp_path, "redis://here").recover_interrupted() == []
    new_journal.end_change(id)
    new_journal.record_change("kill", "mail", "native", count=5000)
    assert [(each.verb, each.count, each.error) for each in journal.load_operations(tmp_path)] == [("kill", 5000, "")]
    assert lines(tmp_path)[-1]["ends"] == [id]


def dead_program(path: Path) -> None:
    """Change the journal so that a program which no longer runs appears to have written it."""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    text = (path / journal.FILE_NAME).read_text()
    (path / journal.FILE_NAME).write_text(
        text.replace(journal._identify_process(os.getpid()), gone.stdout.decode().strip())
    )


def test_two_programs_that_find_it_report_one_change(tmp_path: Path) -> None:
    new_journal = Journal(tmp_path, "redis://here")
    new_journal.record_progress(new_journal.begin_change("kill", "mail", "native", 5000), 4000, {"died": 4000}, "")
    dead_program(tmp_path)
    assert Journal(tmp_path, "redis://elsewhere").recover_interrupted() == []
    before = (tmp_path / journal.FILE_NAME).read_bytes()
    [first] = Journal(tmp_path, "redis://here").recover_interrupted()
    actual = (tmp_path / journal.FILE_NAME).read_bytes()[len(before) :]
    with (tmp_path / journal.FILE_NAME).open("ab") as file:
        file.write(actual)  # the other found it in the same moment
    assert first.describe_interruption() == "was cut short: kill (mail), 4000 of 5000"
    assert journal.load_operations(tmp_path) == [first] and first.answers == {"died": 4000}
    assert Journal(tmp_path, "redis://here").recover_interrupted() == []


def test_of_another_machine_it_counts_as_cut_short_after_a_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_journal = Journal(tmp_path, "redis://here")
    new_journal.who = "me@elsewhere"
    new_journal.begin_change("kill", "mail", "native", 5000)
    assert journal.load_operations(tmp_path) == []
    monkeypatch.setattr(journal, "SILENT_MS", -1)
    assert [each.error for each in journal.load_operations(tmp_path)] == ["cut short: 0 of 5000"]


def test_lines_of_such_changes_that_cannot_be_read_hide_no_others(tmp_path: Path) -> None:
    new_journal = Journal(tmp_path, "redis://here")
    new_journal.record_change("kill", "mail", "native")
    with (tmp_path / journal.FILE_NAME).open("ab") as file:
        file.write(
            b'{"begun": []}\n{"begun": "x", "at_ms": 1}\n{"went": "y"}\n{"ended": 5}\n{"begun":"z","at_ms":1e99}\n'
        )
        file.write(b'{"begun": "w", "at_ms": 1, "who": 1, "process": "a:b", "total": "many"}\n')
    assert [each.verb for each in journal.load_operations(tmp_path)] == ["kill"]
    assert Journal(tmp_path, "redis://here").recover_interrupted() == []


def test_a_change_that_was_refused_before_it_began_leaves_nothing(client: Redis, tmp_path: Path) -> None:
    seeded = Seeded(client)
    seeded.put("a", "b")
    new_journal = Journal(tmp_path, "redis://here")
    seeded.engine.change_recorder = keeper = UndoRecorder(tmp_path, "redis://here", new_journal)
    keeper.begin_change("kill", seeded.ref, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undo_files, "append_line", lambda *_args, **_named: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(Exception, match="cannot be written"):
            seeded.engine.apply_verb("kill", seeded.ref, seeded.jobs("ready"))
    keeper.discard_unchanged(lambda _verb, _ref: True)
    dead_program(tmp_path)
    assert journal.load_operations(tmp_path) == []


def test_jobs_are_on_the_disk_before_they_are_changed(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = Seeded(client)
    seeded.put("a")
    seeded.engine.change_recorder = keeper = UndoRecorder(tmp_path, "redis://here", Journal(tmp_path, "redis://here"))
    synced: list[tuple[bool, int]] = []
    fsync = os.fsync

    def note_and_sync(descriptor: int) -> None:
        synced.append((b'"rows"' in os.pread(descriptor, 1 << 20, 0), len(seeded.jobs("ready"))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_and_sync)
    seeded.engine.apply_verb("kill", seeded.ref, seeded.jobs("ready"))
    assert synced == [(True, 1)] and not seeded.jobs("ready")
    keeper.end_change("kill", "native", "mail")


def test_a_change_of_one_job_writes_one_line(client: Redis, tmp_path: Path) -> None:
    seeded = Seeded(client)
    seeded.put("a", "b")
    new_journal = Journal(tmp_path, "redis://here")
    seeded.engine.change_recorder = keeper = UndoRecorder(tmp_path, "redis://here", new_journal)
    seeded.engine.apply_verb("kill", seeded.ref, seeded.jobs("ready")[:1])
    new_journal.record_change("kill", "mail", "native", undo=[keeper.end_change("kill", "native", "mail")])
    assert len(lines(tmp_path)) == 1


def test_a_chunk_whose_answer_never_came_is_part_of_the_undo(client: Redis, tmp_path: Path) -> None:
    seeded = Seeded(client)
    seeded.put("a", "b", "c")
    new_journal = Journal(tmp_path, "redis://here")
    seeded.engine.change_recorder = keeper = UndoRecorder(tmp_path, "redis://here", new_journal)
    jobs = seeded.jobs("ready")
    seeded.engine.apply_verb("delete", seeded.ref, jobs[:2])
    stored = keeper.save_jobs(seeded.engine, "delete", seeded.ref, jobs[2:])
    assert stored is not None  # and killed here, when the call was sent
    dead_program(tmp_path)
    [cut] = Journal(tmp_path, "redis://here").recover_interrupted()
    assert cut.error == "cut short: 2 of 2" or cut.error.startswith("its program ended")
    outcomes: list[Outcome] = [
        one for chunk in revert.revert_record(seeded.engine, keeper.folder, cut.undo[0]) for one in chunk
    ]
    assert sorted(one.text for one in outcomes) == ["nothing changed", "restored", "restored"]
    assert seeded.ids("ready") == ["a", "b", "c"]
