"""`rqtui replay` on the command line: which recording it opens, and what it says about one that it cannot open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from recordings import build_incident, open_writer
from shell import shell

from rqtui.recording.files import find_recording_path, list_recordings
from rqtui.recording.store import Writer

NO_TERMINAL = "the screen needs a terminal. Without one: rqtui snapshot --at"
AWAY = "redis://127.0.0.1:1"


def plant(path: Path) -> Path:
    with open_writer(path, build_incident()):
        pass
    return path


def damage(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return plant(tmp_path / "recordings" / "a.rqt")


def test_a_good_file_gets_as_far_as_the_terminal(file: Path) -> None:
    for words in ((), ("--at", "2027-01-15T08:20Z")):
        ran = shell(AWAY, "replay", str(file), *words)
        # The planted recording is of 2027, which is the future until then.
        assert (ran.code, ran.out) == (2, "") and (NO_TERMINAL in ran.err or "in the future" in ran.err)


def test_files_that_are_no_recording_are_one_sentence(file: Path, tmp_path: Path) -> None:
    folder = file.parent
    (folder / "cut.rqt").write_bytes(file.read_bytes()[:9_000])
    (folder / "text.rqt").write_text("queue,count\n" * 1_000)
    (folder / "nothing.rqt").write_bytes(b"")
    damage(folder / "foreign.rqt", "CREATE TABLE photo (id INTEGER)")
    damage(plant(folder / "newer.rqt"), "PRAGMA user_version = 7")
    damage(plant(folder / "tables.rqt"), "DROP TABLE finding")
    damage(plant(folder / "times.rqt"), "UPDATE finding SET begin_ms = 'soon'")
    damage(plant(folder / "values.rqt"), "UPDATE period SET workers = 'many', end_ms = 'late'")
    damage(plant(folder / "ends.rqt"), "UPDATE finding SET end_ms = 'late'")
    Writer.open(folder / "empty.rqt").close()
    for name, sentence in {
        "missing.rqt": "there is no recording",
        "cut.rqt": "is no recording of rqtui, or is damaged",
        "text.rqt": "is no recording of rqtui, or is damaged",
        "nothing.rqt": "is empty: nothing was recorded yet",
        "empty.rqt": "is empty: nothing was recorded yet",
        "foreign.rqt": "is a database of another program, not a recording of rqtui",
        "newer.rqt": "has format 7, and this rqtui reads format 1: update rqtui",
        "tables.rqt": "has other tables than a recording of format 1",
        "times.rqt": "has a record that cannot be read",
        "values.rqt": "has a record that cannot be read",
        "ends.rqt": "has a record that cannot be read",
        "": "is no regular file",
    }.items():
        ran = shell(AWAY, "replay", str(folder / name))
        assert (ran.code, ran.out) == (1, ""), name
        assert sentence in ran.err and ran.err.count("\n") == 1 and "Traceback" not in ran.err, (name, ran.err)


def test_a_time_outside_the_recording_names_what_it_covers(file: Path) -> None:
    ran = shell(AWAY, "replay", str(file), "--at", "2020-01-01T00:00Z")
    assert ran.code == 1 and "nothing is recorded at 2020-01-01" in ran.err and "it covers 2027-01-15" in ran.err
    for words, sentence in ((("--at", "soon"), "--at cannot be 'soon'"), (("a", "b"), "unexpected")):
        ran = shell(AWAY, "replay", *words)
        assert ran.code == 2 and sentence in ran.err


def test_without_a_file_the_recording_of_the_redis_or_the_only_one_is_opened(state_folder: Path) -> None:
    ran = shell(AWAY, "replay")
    assert ran.code == 1 and "there is no recording on this machine: rqtui record writes one" in ran.err
    plant(find_recording_path(state_folder, "redis://jobs-1:6379"))
    assert NO_TERMINAL in shell(AWAY, "replay").err
    ran = shell(AWAY, "replay", "--url", "redis://jobs-2:6379")
    assert ran.code == 1 and "there is no recording" in ran.err, "the Redis that was named has none"
    plant(find_recording_path(state_folder, "redis://jobs-2:6379"))
    assert NO_TERMINAL in shell(AWAY, "replay", "--url", "redis://jobs-2:6379").err
    assert NO_TERMINAL in shell("redis://jobs-1:6379", "replay").err
    (state_folder / "recordings" / "bad.rqt").write_text("no")
    Writer.open(state_folder / "recordings" / "new.rqt", "redis://jobs-3:6379").close()
    ran = shell(AWAY, "replay")
    assert ran.code == 2 and "there are several recordings: name one of these files" in ran.err
    lines = ran.out.splitlines()
    assert len(lines) == len(list_recordings(state_folder)) == 4
    assert sum("redis://jobs-1:6379  2027-01-15" in line for line in lines) == 2, "the planted ones name their Redis"
    assert any("new.rqt  redis://jobs-3:6379  empty" in line for line in lines)
    assert any("bad.rqt  " in line and "is no recording of rqtui" in line for line in lines)
