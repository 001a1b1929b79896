"""The command line in hard times: closed streams, full disks, broken records, denied verbs, copies of jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from screens import Seeded
from shell import Ran, build_environment, shell

from rqtui.operations import undo_files
from rqtui.testing import keyspace

PROFILE = """
[profiles.careful]
url = "{url}"
[profiles.careful.deny]
"mail*" = [{verbs}]
[profiles.looking]
url = "{url}"
read_only = true
"""


@pytest.fixture
def mail(client: Redis) -> Seeded:
    seeded = Seeded(client)
    seeded.put("a", "b")
    return seeded


def run_in_shell(url: str, line: str) -> subprocess.CompletedProcess[str]:
    """Run `rqtui LINE` by /bin/sh, with the redirections of the line."""
    command = f"{sys.executable} -m rqtui {line}"
    return subprocess.run(["sh", "-c", command], env=build_environment(url), capture_output=True, text=True, timeout=30)


# -- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "closed", [">&-", "<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.matrix) for one in ("2>&-", "<&-"))]
)
def test_a_change_is_made_though_streams_are_closed(mail: Seeded, url: str, closed: str) -> None:
    ran = run_in_shell(url, f"act kill mail a --yes {closed}")
    assert (ran.returncode, mail.ids("dead")) == (0, ["a"])
    assert "should not happen" not in ran.stderr


@pytest.mark.slow
def test_without_a_standard_input_no_question_is_asked(mail: Seeded, url: str) -> None:
    ran = run_in_shell(url, "act kill mail a <&-")
    assert (ran.returncode, mail.ids("dead")) == (1, [])
    assert "--yes" in ran.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "line",
    [
        "snapshot",
        "acl viewer mail",
        *(pytest.param(more, marks=pytest.mark.matrix) for more in ("snapshot --json", "operations --markdown")),
    ],
)
def test_a_full_disk_is_a_sentence(mail: Seeded, url: str, line: str) -> None:
    ran = run_in_shell(url, f"{line} > /dev/full")
    assert ran.returncode == 1
    assert ran.stderr.startswith("rqtui: what this command prints cannot be written: No space left on device.")


# -- the state folder -------------------------------------------------------------------------------------------------


def test_without_a_state_folder_a_change_is_made_after_a_word(
    mail: Seeded, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RQTUI_STATE_DIR", str(tmp_path / "file"))
    refused = shell(url, "act", "kill", "mail", "a")
    assert (refused.code, mail.ids("dead")) == (1, [])
    assert "No undo:" in refused.err and "rqtui undo reverts" not in refused.err
    done = shell(url, "act", "kill", "mail", "a", "--yes")
    assert (done.code, mail.ids("dead")) == (0, ["a"])
    assert done.err.startswith("rqtui: nothing can be undone:")


def test_a_change_without_effect_offers_no_undo(mail: Seeded, url: str) -> None:
    assert shell(url, "act", "requeue", "mail", "a").code == 1
    [actual] = shell(url, "operations", "--json").json["operations"]
    assert actual["verb"] == "requeue" and not actual["undo"]
    assert "can be undone: 0" in shell(url, "undo").err


HEAD = {"verb": "kill", "layout": "native", "queue": "mail", "who": "me", "at_ms": 1}
BROKEN: dict[str, list[Any]] = {
    "empty": [],
    "no head": [{}],
    "lines that are no objects": [HEAD, [1, 2]],
    "other cells": [HEAD, {"rows": [["a", 1]]}, {"left": [], "corrected": [], "untold": []}],
    "a number": [HEAD, {"left": 7, "corrected": [], "untold": []}],
    "a job nobody described": [HEAD, {"rows": []}, {"left": [], "corrected": [], "untold": ["x"]}],
    "a system from the future": [
        {**HEAD, "layout": "future"},
        {"left": [["", "", ""]], "corrected": [], "untold": []},
    ],
}


@pytest.mark.parametrize("lines", BROKEN.values(), ids=BROKEN)
def test_a_record_that_cannot_be_read_is_reported_and_the_next_is_taken_back(
    mail: Seeded, url: str, state_folder: Path, lines: list[Any]
) -> None:
    shell(url, "act", "kill", "mail", "a", "--yes")
    [name] = undo_files.list_records(state_folder / "undo")
    path = state_folder / "undo" / "9999999999999-kill-ffffff.jsonl"
    path.write_text("".join(json.dumps({**line, "url": url} if line is lines[0] else line) + "\n" for line in lines))
    listed = shell(url, "undo", "--list", "--json")
    assert [one["verb"] for one in listed.json["undo"]] == ["kill"]
    assert not listed.err or "9999999999999-kill-ffffff" in listed.err
    ran = shell(url, "undo")
    assert (ran.code, mail.ids("dead"), mail.ids("ready")) == (0, [], ["a", "b"])
    assert undo_files.read_record(state_folder / "undo", name).undone_at_ms


# -- what may not be done ---------------------------------------------------------------------------------------------


def under(url: str, tmp_path: Path, profile: str, *words: str, verbs: str = '"kill"') -> Ran:
    path = tmp_path / "rqtui.toml"
    path.write_text(PROFILE.format(url=url, verbs=verbs))
    before, dashes, after = list(words), [], []
    if "--" in before:
        at = before.index("--")
        before, dashes, after = before[:at], ["--"], before[at + 1 :]
    return shell("", *before, "--config", str(path), "--profile", profile, *dashes, *after)


CHANGES: list[tuple[tuple[str, ...], str]] = [
    (("put", "mail", "1"), "enqueue"),
    (("work", "mail", "--burst", "--", "true"), "reserve"),
    (("work", "mail", "--burst", "--", "true"), "ack"),
    (("dispatch", "mail", "--once"), "dispatch"),
    (("reap", "mail", "--once"), "reap"),
    (("act", "kill", "mail", "a", "--yes"), "kill"),
    (("act", "reserve", "mail"), "reserve"),
    (("act", "duplicate", "mail", "a"), "enqueue"),
    (("act", "edit-and-retry", "mail", "a"), "delete"),
    (("act", "drip-requeue", "mail", "a"), "requeue"),
    (("act", "pause", "mail"), "pause"),
    *((("migrate", "mail", "native:mail-2"), verb) for verb in ("enqueue", "delete")),
]


@pytest.mark.parametrize(("words", "verb"), CHANGES, ids=lambda given: given if isinstance(given, str) else given[0])
def test_a_denied_verb_is_refused_by_every_command(
    mail: Seeded, client: Redis, url: str, tmp_path: Path, words: tuple[str, ...], verb: str
) -> None:
    before = keyspace.dump(client)
    ran = under(url, tmp_path, "careful", *words, verbs=f'"{verb}"')
    assert ran.code == 1
    assert f'{verb} is denied on queues like "mail*" by the profile "careful"' in ran.err
    assert keyspace.dump(client) == before


@pytest.mark.parametrize("words", [words for words, _verb in CHANGES], ids=" ".join)
def test_a_read_only_profile_reports_that_it_is_the_reason(
    mail: Seeded, client: Redis, url: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    before = keyspace.dump(client)
    ran = under(url, tmp_path, "looking", *words)
    assert ran.code == 1
    assert 'the profile "looking" is read-only' in ran.err
    assert keyspace.dump(client) == before


def test_a_dispatcher_for_all_queues_leaves_the_denied_alone(
    mail: Seeded, client: Redis, url: str, tmp_path: Path
) -> None:
    other = Seeded(client, "images")
    for seeded in (mail, other):
        seeded.put("later", delay_ms=1)
    ran = under(url, tmp_path, "careful", "dispatch", "--once", verbs='"dispatch"')
    assert (ran.code, mail.ids("scheduled"), other.ids("scheduled")) == (0, ["later"], [])
    assert "native:mail is left alone: dispatch is denied" in ran.err


# -- copies -----------------------------------------------------------------------------------------------------------


def test_a_duplicate_has_all_of_the_original_but_its_id(mail: Seeded, url: str) -> None:
    mail.put("old", body=b'{"n":1}', priority=7, max_attempts=3, ttr_ms=9000)
    [result] = shell(url, "act", "duplicate", "mail", "old", "--json").json["results"]
    new, old = mail.job(result["id"]), mail.job("old")
    assert new is not None and old is not None and new.id != old.id
    for name in ("body", "name", "priority", "max_attempts", "ttr_ms", "place"):
        assert getattr(new, name) == getattr(old, name), name


def test_a_copy_that_is_denied_is_refused_before_its_job_is_read(mail: Seeded, url: str, tmp_path: Path) -> None:
    ran = under(url, tmp_path, "careful", "act", "duplicate", "mail", "missing", verbs='"enqueue"')
    assert ran.code == 1 and "enqueue is denied" in ran.err


def test_an_id_that_is_taken_is_no_copy_and_the_original_stays(mail: Seeded, url: str) -> None:
    ran = shell(url, "act", "edit-and-retry", "mail", "a", "--set", "id=b", "--json")
    assert (ran.code, [one["word"] for one in ran.json["results"]]) == (1, ["exists"])
    assert mail.ids("ready") == ["a", "b"]


def test_edit_and_retry_puts_the_new_body_and_ends_the_dead_job(mail: Seeded, url: str) -> None:
    mail.bury("dead")
    ran = shell(url, "act", "edit-and-retry", "mail", "dead", "--set", 'body={"to": 2}', "--set", "id=new", "--json")
    assert [(one["id"], one["text"]) for one in ran.json["results"]] == [("new", "enqueued"), ("dead", "deleted")]
    job = mail.job("new")
    assert (mail.ids("dead"), job and job.body) == ([], b'{"to": 2}')
    assert shell(url, "undo").code == 0
    assert mail.ids("dead") == ["dead"]


@pytest.mark.parametrize("given", ["body=no json", "nosuch=1", "delete_original=perhaps"])
def test_a_copy_that_cannot_be_is_refused_before_anything_is_put(
    mail: Seeded, client: Redis, url: str, given: str
) -> None:
    before = keyspace.dump(client)
    assert shell(url, "act", "duplicate", "mail", "a", "--set", given).code == 2
    assert keyspace.dump(client) == before


def test_a_held_job_may_be_copied_but_not_edited_away(mail: Seeded, url: str) -> None:
    mail.reserve()
    assert shell(url, "act", "edit-and-retry", "mail", "a").code == 1
    assert shell(url, "act", "duplicate", "mail", "a", "--set", "id=c").code == 0
    assert (mail.ids("reserved"), mail.ids("ready")) == (["a"], ["b", "c"])
