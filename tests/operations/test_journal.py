"""Test the journal of changes: what is kept in memory, what its file contains, and what other sessions read there."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from rqtui.operations import journal
from rqtui.operations.journal import FILE_NAME, Circumstances, Journal, Operation, load_operations

HERE, ELSEWHERE = "redis://here:6379/0", "redis://elsewhere:6379/0"


def record_change(book: Journal, *verbs: str, undo: tuple[str, ...] = ()) -> None:
    for verb in verbs:
        book.record_change(verb, "mail", "native", [b"a", b"\xff"], {"done": 2}, undo=undo)


def test_an_undone_operation_is_the_one_all_of_whose_records_were_undone(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE)
    record_change(book, "none")
    record_change(book, "one", undo=("a",))
    record_change(book, "two", undo=("b", "c"))
    record_change(book, "other", undo=("d",))
    book.mark_undone("a", "b", "c")
    assert {each.verb for each in book.operations if each.undone_at_ms} == {"one", "two"}
    assert {each.verb for each in load_operations(tmp_path) if each.undone_at_ms} == {"one", "two"}
    record_change(book, "half", undo=("e", "f"))
    book.mark_undone("e")
    assert book.operations[0].undone_at_ms == load_operations(tmp_path)[0].undone_at_ms == 0


def test_an_operation_whose_records_are_missing_has_no_undo_any_more() -> None:
    book = Journal(None)
    record_change(book, "one", undo=("a",))
    record_change(book, "two", undo=("a", "b"))
    record_change(book, "other", undo=("c",))
    book.mark_not_undoable(["a"])
    assert {each.verb: each.undo for each in book.operations} == {"one": (), "two": ("a", "b"), "other": ("c",)}
    book.mark_not_undoable(["a", "b", "z"])
    assert {each.verb: each.undo for each in book.operations} == {"one": (), "two": (), "other": ("c",)}


def test_earlier_operations_are_those_of_other_sessions_on_the_same_redis(tmp_path: Path) -> None:
    before, elsewhere = Journal(tmp_path, HERE), Journal(tmp_path, ELSEWHERE)
    record_change(before, "first", "second")
    record_change(elsewhere, "third")
    book = Journal(tmp_path, HERE)
    record_change(book, "mine")
    assert [each.verb for each in book.load_earlier_operations()] == ["second", "first"]
    assert [each.verb for each in book.operations] == ["mine"]
    assert Journal(None, HERE).load_earlier_operations() == []


def test_a_record_read_again_equals_the_written_one(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE, "prod")
    book.record_change(
        "requeue", "mail", "native", [b"a", b"\xff"], {"ready again": 2, "gone": 1}, "an error", ("u",), 9, ("b",)
    )
    assert load_operations(tmp_path) == book.operations
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    (tmp_path / FILE_NAME).open("a").write('no json\n{"verb": "x", "ids": [], "at_ms": -1}\n[]\n')
    assert load_operations(tmp_path) == book.operations


def test_an_operation_over_several_systems_names_each(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE)
    for system in ("rq", "bullmq"):
        book.expect_change("delete", "mail", system, Circumstances(before={"mail": {"ready": len(system)}}))
    operation = book.record_change("delete", "mail", "rq", others=["mail", "bulk"], other_systems=["bullmq", "rq"])
    assert operation.refs == (("rq", "mail"), ("bullmq", "mail"), ("rq", "bulk"))
    assert operation.queue_label == operation.full_queue_label == "rq:mail and 2 more of rq, bullmq"
    assert operation.before == {"rq:mail": {"ready": 2}, "bullmq:mail": {"ready": 6}}
    assert load_operations(tmp_path) == [operation]
    one = book.record_change("delete", "mail", "rq", others=["bulk"])
    assert one.refs == (("rq", "mail"), ("rq", "bulk")) and one.full_queue_label == "rq:mail and 1 more"


def test_ids_are_cut_and_their_number_is_shown(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    operation = book.record_change("delete", "mail", "native", [b"%d" % n for n in range(1001)])
    assert (len(operation.ids), operation.ids[-1], operation.count) == (1000, b"999", 1001)
    assert book.record_change("delete", "mail", "native", [b"a"], count=7).count == 7
    assert load_operations(tmp_path)[1].count == 1001


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    for number in range(501):
        book.record_change(f"v{number}", "mail", "native")
    assert [len(book.operations), book.operations[0].verb, book.operations[-1].verb] == [500, "v500", "v1"]
    assert [each.verb for each in load_operations(tmp_path, 2)] == ["v500", "v499"]
    assert len(load_operations(tmp_path)) == 500


def test_a_file_that_is_full_becomes_the_second_and_both_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal(tmp_path)
    record_change(book, "first")
    monkeypatch.setattr(journal, "FILE_BYTES", (tmp_path / FILE_NAME).stat().st_size)
    record_change(book, "second")
    assert not (tmp_path / f"{FILE_NAME}.1").exists()
    record_change(book, "third")
    assert json.loads((tmp_path / FILE_NAME).read_text())["verb"] == "third"
    assert [each.verb for each in load_operations(tmp_path)] == ["third", "second", "first"]


@pytest.mark.parametrize(
    ("answers", "error", "others", "words", "where"),
    [
        ({}, "", (), "", "mail"),
        ({"ready again": 1}, "", ("b",), "ready again", "mail and 1 more"),
        ({"ready again": 2, "gone": 1}, "", ("b", "c"), "2 × ready again · gone", "mail and 2 more"),
        ({"gone": 3}, "it broke", (), "3 × gone · it broke", "mail"),
    ],
)
def test_an_operation_is_described_in_a_sentence(
    answers: dict[str, int], error: str, others: tuple[str, ...], words: str, where: str
) -> None:
    operation = Operation(1, "me", "requeue", "mail", "native", answers=answers, error=error, others=others)
    assert (operation.describe_outcomes(), operation.queue_label) == (words, where)
    cut = Operation(1, "me", "requeue", "mail", "native", error="cut short: 3 of 5")
    assert cut.describe_interruption() == "was cut short: requeue (mail), 3 of 5"


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe"])
def test_a_file_that_is_not_ours_alone_is_not_written_to(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    folder = tmp_path / "state"
    folder.mkdir()
    if kind == "link":
        (folder / FILE_NAME).symlink_to(other)
    elif kind == "hard link":
        (folder / FILE_NAME).hardlink_to(other)
    else:
        os.mkfifo(folder / FILE_NAME)
    book = Journal(folder)
    record_change(book, "one")
    assert "cannot be written" in book.problem and other.read_text() == "theirs"


def test_a_user_without_a_name_is_shown_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing_user() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", raise_missing_user)
    assert journal.find_current_user().startswith(f"{os.getuid()}@")


def test_a_file_that_cannot_be_written_is_reported_and_the_change_is_recorded(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    book = Journal(tmp_path)
    record_change(book, "one")
    assert "cannot be written" in book.problem and str(tmp_path / FILE_NAME) in book.problem
    assert [each.verb for each in book.operations] == ["one"]


def test_after_a_line_that_was_cut_anywhere_the_next_operation_is_read_again(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE)
    record_change(book, "first", "second")
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    begin = whole.index(b"\n") + 1
    for end in range(begin, len(whole) + 1):
        path.write_bytes(whole[:end])
        record_change(book, "third")
        stored = [each.verb for each in load_operations(tmp_path)]
        assert stored == (["third", "second", "first"] if end >= len(whole) - 1 else ["third", "first"]), end


@pytest.mark.slow
def test_of_writers_that_find_the_journal_full_at_the_same_time_no_note_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FILE_BYTES", 10_000)  # of which the notes of one round are a fraction
    filler = json.dumps({"finding": "x" * 10_000}).encode() + b"\n"
    together = threading.Barrier(4)
    often = sys.getswitchinterval()

    def write(folder: Path, verb: str) -> None:
        book = Journal(folder)
        together.wait(timeout=60)
        record_change(book, verb)

    sys.setswitchinterval(1e-6)
    try:
        for trial in range(300):
            folder = tmp_path / str(trial)
            record_change(Journal(folder), "before")
            journal.append_line(folder / FILE_NAME, filler)
            writers = [threading.Thread(target=write, args=(folder, str(number))) for number in range(4)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            assert {each.verb for each in load_operations(folder)} == {"before", "0", "1", "2", "3"}, trial
    finally:
        sys.setswitchinterval(often)


def test_a_program_that_holds_the_lock_of_the_journal_delays_a_note_and_loses_none(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    record_change(book, "first")
    with (tmp_path / FILE_NAME).open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        record_change(book, "second")
    assert [each.verb for each in load_operations(tmp_path)] == ["second", "first"] and not book.problem


def test_a_journal_that_cannot_be_read_is_reported_by_the_session_that_requests_earlier_operations(
    tmp_path: Path,
) -> None:
    (tmp_path / FILE_NAME).mkdir()
    book = Journal(tmp_path)
    assert (
        book.load_earlier_operations() == []
        and book.problem == f"The journal {tmp_path / FILE_NAME} cannot be read: Is a directory."
    )
