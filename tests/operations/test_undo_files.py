"""The records of undo: how many are kept, and how an operation is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.operations import undo_files


def made(folder: Path, number: int) -> list[str]:
    return [undo_files.File(folder, f"v{n}", "native", "mail", "redis://here", "me").name for n in range(number)]


def test_the_newest_records_are_kept_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_files, "FILES", 3)
    before = made(tmp_path, 3)
    assert set(undo_files.names(tmp_path)) == set(before)
    (more,) = made(tmp_path, 1)
    assert len(undo_files.names(tmp_path)) == 3 and more in undo_files.names(tmp_path)


def test_the_folder_of_records_stays_within_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(tmp_path, 2)
    size = sum((tmp_path / f"{name}.jsonl").stat().st_size for name in before)
    monkeypatch.setattr(undo_files, "FOLDER_BYTES", size)
    third = made(tmp_path, 1)
    assert set(undo_files.names(tmp_path)) == {*before, *third}
    made(tmp_path, 1)
    assert len(undo_files.names(tmp_path)) == 3  # the oldest went


def test_a_new_record_is_empty_and_nothing_can_be_undone_with_it(tmp_path: Path) -> None:
    file = undo_files.File(tmp_path, "delete", "native", "mail", "redis://here", "me")
    assert (file.jobs, file.bytes, file.can_be_undone) == (0, 0, False)
    kept = undo_files.read(tmp_path, file.name)
    assert (kept.verb, kept.layout, kept.queue, kept.undone_at_ms) == ("delete", "native", "mail", 0)


def test_the_answers_of_an_operation_are_counted_by_their_words(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(5)])
    assert shell(url, "act", "delete", "mail", "j0", "j1", "nosuch", "--yes").code == 1
    assert shell(url, "act", "purge", "mail", "--place", "ready", "--yes").code == 0
    purged, deleted = shell(url, "operations", "--json").json["operations"]
    assert (deleted["count"], sorted(deleted["answers"].values())) == (3, [1, 2])
    assert (purged["count"], list(purged["answers"].values())) == (3, [3])
    assert all(" " in words or words == "deleted" for words in deleted["answers"])
