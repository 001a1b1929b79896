"""`rqtui script`: complete scripts on stdout, or all of them in a folder, byte for byte as Redis gets them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from redis import Redis
from shell import shell

from rqtui.scripts.script import list_script_folders, load_scripts

NOWHERE = "redis://127.0.0.1:1"


def test_a_script_is_printed_as_redis_gets_it() -> None:
    promote = load_scripts("native")["promote"]
    ran = shell(NOWHERE, "script", "native/promote")
    assert (ran.code, ran.err) == (0, "")
    assert hashlib.sha1(ran.out.encode(), usedforsecurity=False).hexdigest() == promote.sha
    assert ran.out.startswith("-- Promote scheduled jobs: make them ready now.\n")
    assert "\n-- KEYS     scheduled  zset    id by due (ms)\n--          ready      zset    id by " in ran.out
    assert "\n--          wake       zset    the marker that blocked consumers wait on\n-- ARGV     now_ms?" in ran.out
    assert "\n-- from lua/native/blocks/note.lua:" in ran.out and "-- include:" not in ran.out


def test_a_printed_script_runs_as_it_is(client: Redis) -> None:
    text = shell(NOWHERE, "script", "native/counts").out
    keys = [f"rqtui:{{mail}}:{key.name}" for key in load_scripts("native")["counts"].keys]
    assert client.eval(text, len(keys), *keys, "")[0] == b"counts"  # type: ignore[index]


def test_all_scripts_are_written_to_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "scripts"
    ran = shell(NOWHERE, "script", "--all", str(folder))
    written = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.lua")}
    expected = {
        f"{name}/{verb}.lua": one.source.encode()
        for name in list_script_folders()
        for verb, one in load_scripts(name).items()
    }
    assert (ran.code, ran.out, written) == (0, "", expected)
    assert f"wrote {len(written)} scripts to {folder}." in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "script takes SYSTEM/VERB, or --all DIR; `rqtui systems` lists the systems and their verbs."),
        (
            ("native/promote", "--all", "there"),
            "script takes SYSTEM/VERB, or --all DIR; `rqtui systems` lists the systems and their verbs.",
        ),
        (("nothing/promote",), "there is no system nothing; the systems: arq, bullmq,"),
        (("native/nothing",), "native/nothing is no script; those of native: ack, "),
        (("native",), "native is no script; those of native: ack, "),
        (("native/promote", "--json"), "no such option"),
    ],
)
def test_a_wrong_command_line_is_a_sentence(words: tuple[str, ...], says: str) -> None:
    ran = shell(NOWHERE, "script", *words)
    assert (ran.code, ran.out) == (2, "") and says in ran.err


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = shell(NOWHERE, "script", "--all", str(tmp_path / "file"))
    assert ran.code == 2 and ran.err.startswith(f"rqtui: {tmp_path / 'file'}") and "cannot be written: " in ran.err
