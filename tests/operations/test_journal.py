"""The journal of changes: what is kept in memory, what stands in its file, and what other sessions read there."""

from __future__ import annotations

import getpass
import json
import os
import stat
from pathlib import Path

import pytest

from rqtui.operations import journal
from rqtui.operations.journal import FILE, Journal, Operation, past

HERE, ELSEWHERE = "redis://here:6379/0", "redis://elsewhere:6379/0"


def noted(book: Journal, *verbs: str, undo: tuple[str, ...] = ()) -> None:
    for verb in verbs:
        book.note(verb, "mail", "native", [b"a", b"\xff"], {"done": 2}, undo=undo)


def test_an_undone_operation_is_the_one_all_of_whose_records_were_undone(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE)
    noted(book, "none")
    noted(book, "one", undo=("a",))
    noted(book, "two", undo=("b", "c"))
    noted(book, "other", undo=("d",))
    book.undone("a", "b", "c")
    assert {each.verb for each in book.operations if each.undone_at_ms} == {"one", "two"}
    assert {each.verb for each in past(tmp_path) if each.undone_at_ms} == {"one", "two"}
    noted(book, "half", undo=("e", "f"))
    book.undone("e")
    assert book.operations[0].undone_at_ms == past(tmp_path)[0].undone_at_ms == 0


def test_an_operation_whose_records_are_gone_has_no_undo_any_more() -> None:
    book = Journal(None)
    noted(book, "one", undo=("a",))
    noted(book, "two", undo=("a", "b"))
    noted(book, "other", undo=("c",))
    book.without_undo(["a"])
    assert {each.verb: each.undo for each in book.operations} == {"one": (), "two": ("a", "b"), "other": ("c",)}
    book.without_undo(["a", "b", "z"])
    assert {each.verb: each.undo for each in book.operations} == {"one": (), "two": (), "other": ("c",)}


def test_earlier_operations_are_those_of_other_sessions_on_the_same_redis(tmp_path: Path) -> None:
    before, elsewhere = Journal(tmp_path, HERE), Journal(tmp_path, ELSEWHERE)
    noted(before, "first", "second")
    noted(elsewhere, "third")
    book = Journal(tmp_path, HERE)
    noted(book, "mine")
    assert [each.verb for each in book.earlier()] == ["second", "first"]
    assert [each.verb for each in book.operations] == ["mine"]
    assert Journal(None, HERE).earlier() == []


def test_what_is_read_again_is_what_was_written(tmp_path: Path) -> None:
    book = Journal(tmp_path, HERE, "prod")
    book.note(
        "requeue", "mail", "native", [b"a", b"\xff"], {"ready again": 2, "gone": 1}, "an error", ("u",), 9, ("b",)
    )
    assert past(tmp_path) == book.operations
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    (tmp_path / FILE).open("a").write('no json\n{"verb": "x", "ids": [], "at_ms": -1}\n[]\n')
    assert past(tmp_path) == book.operations


def test_ids_are_cut_and_their_number_is_told(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    made = book.note("delete", "mail", "native", [b"%d" % n for n in range(1001)])
    assert (len(made.ids), made.ids[-1], made.count) == (1000, b"999", 1001)
    assert book.note("delete", "mail", "native", [b"a"], count=7).count == 7
    assert past(tmp_path)[1].count == 1001


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    for number in range(501):
        book.note(f"v{number}", "mail", "native")
    assert [len(book.operations), book.operations[0].verb, book.operations[-1].verb] == [500, "v500", "v1"]
    assert [each.verb for each in past(tmp_path, 2)] == ["v500", "v499"]
    assert len(past(tmp_path)) == 500


def test_a_file_that_is_full_becomes_the_second_and_both_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal(tmp_path)
    noted(book, "first")
    monkeypatch.setattr(journal, "FILE_BYTES", (tmp_path / FILE).stat().st_size)
    noted(book, "second")
    assert not (tmp_path / f"{FILE}.1").exists()
    noted(book, "third")
    assert json.loads((tmp_path / FILE).read_text())["verb"] == "third"
    assert [each.verb for each in past(tmp_path)] == ["third", "second", "first"]


@pytest.mark.parametrize(
    ("answers", "error", "others", "words", "where"),
    [
        ({}, "", (), "", "mail"),
        ({"ready again": 1}, "", ("b",), "ready again", "mail and 1 more"),
        ({"ready again": 2, "gone": 1}, "", ("b", "c"), "2 × ready again · gone", "mail and 2 more"),
        ({"gone": 3}, "it broke", (), "3 × gone · it broke", "mail"),
    ],
)
def test_an_operation_in_words(
    answers: dict[str, int], error: str, others: tuple[str, ...], words: str, where: str
) -> None:
    made = Operation(1, "me", "requeue", "mail", "native", answers=answers, error=error, others=others)
    assert (made.words(), made.where) == (words, where)
    cut = Operation(1, "me", "requeue", "mail", "native", error="cut short: 3 of 5")
    assert cut.cut_words() == "was cut short: requeue (mail), 3 of 5"


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe"])
def test_what_is_no_file_of_ours_alone_is_not_written_to(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_text("theirs")
    folder = tmp_path / "state"
    folder.mkdir()
    if kind == "link":
        (folder / FILE).symlink_to(other)
    elif kind == "hard link":
        (folder / FILE).hardlink_to(other)
    else:
        os.mkfifo(folder / FILE)
    book = Journal(folder)
    noted(book, "one")
    assert "cannot be written" in book.problem and other.read_text() == "theirs"


def test_a_user_without_a_name_is_told_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert journal.who().startswith(f"{os.getuid()}@")


def test_a_file_that_cannot_be_written_is_told_and_the_change_is_noted(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    book = Journal(tmp_path)
    noted(book, "one")
    assert "cannot be written" in book.problem and str(tmp_path / FILE) in book.problem
    assert [each.verb for each in book.operations] == ["one"]
