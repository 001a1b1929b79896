"""Test the records of undo: how many are kept, and how an operation is described."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.errors import UsageError
from rqtui.operations import undo_files


def write_undo_files(folder: Path, number: int) -> list[str]:
    return [undo_files.UndoFile(folder, f"v{n}", "native", "mail", "redis://here", "me").name for n in range(number)]


def test_the_newest_records_are_kept_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_files, "MAX_RECORDS", 3)
    before = write_undo_files(tmp_path, 3)
    assert set(undo_files.list_records(tmp_path)) == set(before)
    (more,) = write_undo_files(tmp_path, 1)
    assert len(undo_files.list_records(tmp_path)) == 3 and more in undo_files.list_records(tmp_path)


def test_the_folder_of_records_stays_within_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_undo_files(tmp_path, 2)
    size = sum((tmp_path / f"{name}.jsonl").stat().st_size for name in before)
    monkeypatch.setattr(undo_files, "MAX_FOLDER_BYTES", size)
    third = write_undo_files(tmp_path, 1)
    assert set(undo_files.list_records(tmp_path)) == {*before, *third}
    write_undo_files(tmp_path, 1)
    assert len(undo_files.list_records(tmp_path)) == 3  # the oldest went


def test_a_new_record_is_empty_and_nothing_can_be_undone_with_it(tmp_path: Path) -> None:
    file = undo_files.UndoFile(tmp_path, "delete", "native", "mail", "redis://here", "me")
    assert (file.jobs, file.bytes, file.can_be_undone) == (0, 0, False)
    record = undo_files.read_record(tmp_path, file.name)
    assert (record.verb, record.system, record.queue, record.undone_at_ms) == ("delete", "native", "mail", 0)


def test_the_answers_of_an_operation_are_counted_by_their_words(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(5)])
    assert shell(url, "act", "delete", "mail", "j0", "j1", "nosuch", "--yes").code == 1
    assert shell(url, "act", "purge", "mail", "--place", "ready", "--yes").code == 0
    purged, deleted = shell(url, "operations", "--json").json["operations"]
    assert (deleted["count"], sorted(deleted["answers"].values())) == (3, [1, 2])
    assert (purged["count"], list(purged["answers"].values())) == (3, [3])
    assert all(" " in words or words == "deleted" for words in deleted["answers"])


def delete_two_jobs(client: Redis, url: str, state_folder: Path) -> Path:
    """Delete two jobs of `mail`; return the path of the undo record."""
    Queue("mail", client).put_many([{"body": 1, "id": "one"}, {"body": 2, "id": "two"}])
    assert shell(url, "act", "delete", "mail", "one", "two", "--yes").code == 0
    (path,) = (state_folder / "undo").glob("*.jsonl")
    return path


def test_a_record_that_was_edited_by_hand_is_not_carried_out(client: Redis, url: str, state_folder: Path) -> None:
    path = delete_two_jobs(client, url, state_folder)
    whole = path.read_bytes()
    for was, now in (
        (b'"queue":"mail"', b'"queue":"bulk"'),
        (b'"verb":"delete"', b'"verb":"kill"'),
        (b'["one"', b'["ten"'),
        (b'"sum":"', b'"was":"'),
    ):
        assert was in whole
        path.write_bytes(whole.replace(was, now))
        result = shell(url, "undo")
        assert result.code == 2 and "was edited or renamed after rqtui wrote it" in result.err, (was, result)
        assert client.keys("rqtui:{bulk}*") == [] and client.zcard("rqtui:{mail}:ready") == 0
    path.write_bytes(whole)
    assert shell(url, "undo").code == 0 and client.zcard("rqtui:{mail}:ready") == 2


def test_a_record_under_the_name_of_another_is_not_carried_out(client: Redis, url: str, state_folder: Path) -> None:
    path = delete_two_jobs(client, url, state_folder)
    path.rename(path.with_name("1-delete-other.jsonl"))
    result = shell(url, "undo")
    assert result.code == 2 and "was edited or renamed" in result.err and client.zcard("rqtui:{mail}:ready") == 0


def test_notes_of_an_undo_after_a_cut_line_are_valid(client: Redis, url: str, state_folder: Path) -> None:
    path = delete_two_jobs(client, url, state_folder)
    path.write_bytes(path.read_bytes() + b'{"missed":')
    assert shell(url, "undo").code == 0 and client.zcard("rqtui:{mail}:ready") == 2
    again = shell(url, "undo")
    assert again.code == 2 and "that can be undone: 0" in again.err


def test_at_most_4_gib_of_a_record_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, max_bytes: int) -> bytes:
        raise OSError(errno.EFBIG, f"{path.name} has more than {max_bytes / 2**30} GiB")

    monkeypatch.setattr(undo_files, "files", SimpleNamespace(read_small_file=read))
    with pytest.raises(UsageError, match=r"17-1\.jsonl has more than 4\.0 GiB"):
        undo_files.read_record(tmp_path, "17-1")
