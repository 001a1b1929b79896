"""What a command asks on a terminal, and which answers it takes: `rqtui act` before a dangerous verb."""

from __future__ import annotations

from pathlib import Path

import pytest
import shell as shells
from families import run_in_one_test
from redis import Redis
from screens import Seeded
from shell import shell

NO = "nothing was changed."


@pytest.fixture
def guarded(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text('[profiles.production]\nurl = "redis://127.0.0.1:1"\nguarded = true\n')
    return file


@run_in_one_test(
    "is_guarded, answer, is_done",
    [
        *((False, answer, True) for answer in ("y", "Y", "yes", "YES", " y ")),
        *((False, answer, False) for answer in ("", "n", "no", "mail", "ye", "yy")),
        *((True, answer, True) for answer in ("mail", " mail")),
        *((True, answer, False) for answer in ("", "y", "yes", "Mail", "mai", "mail2")),
    ],
)
def test_a_dangerous_verb_runs_only_after_the_answer_that_it_asks_for(
    client: Redis,
    url: str,
    guarded: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_guarded: bool,
    answer: str,
    is_done: bool,
) -> None:
    monkeypatch.setattr(shells._Stream, "isatty", lambda self: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    Seeded(client).put("a")
    options = ("--config", str(guarded), "--profile", "production", "--url", url) if is_guarded else ()
    ran = shell(url, *options, "act", "delete", "mail", "a", stdin=f"{answer}\n".encode())
    assert ("type mail to continue:" if is_guarded else "[y/N]") in ran.err
    assert ran.code == (0 if is_done else 1)
    assert (NO in ran.err) != is_done
    assert client.zcard("rqtui:{mail}:ready") == (not is_done)


def test_a_dangerous_verb_on_jobs_that_it_does_not_take_is_refused_without_a_question(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells._Stream, "isatty", lambda self: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    seeded = Seeded(client)
    seeded.bury("dead-1", "dead-2")
    seeded.put("ready-1")
    ran = shell(url, "act", "kill", "mail", "dead-1", "dead-2", "missing", stdin=b"")
    assert ran.code == 1 and "[y/N]" not in ran.err
    assert ran.out.count("it is dead, where kill takes none") == 2 and "no such job" in ran.out
    ran = shell(url, "act", "kill", "mail", "dead-1", "ready-1", stdin=b"y\n")
    assert "Kill 2 jobs of mail?" in ran.err and seeded.ids("ready") == []
    assert sorted(seeded.ids("dead")) == ["dead-1", "dead-2", "ready-1"]
    seeded.put("held-1")
    seeded.reserve()
    assert "it is reserved, where kill takes none" in shell(url, "act", "kill", "mail", "held-1", "--dry-run").out
    assert "kill would be asked for" in shell(url, "act", "kill", "mail", "held-1", "--force", "--dry-run").out
    ran = shell(url, "act", "kill", "mail", "held-1", "--force", stdin=b"y\n")
    assert "Kill 1 job of mail?" in ran.err and "held-1" in seeded.ids("dead")


@run_in_one_test(
    "words, opens",
    [
        ((), True), (("redis://127.0.0.1:1",), True), (("rediss://:x@a:1/2",), True),
        (("-x://a",), False), (("snapshot",), False), (("--version",), False), (("mail",), False),
        (("redis://127.0.0.1:1", "snapshot"), False),
    ],
)  # fmt: skip
def test_a_line_without_a_command_opens_the_screen(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], opens: bool
) -> None:
    opened: list[tuple[str, ...]] = []

    def open_screen(*given: str) -> int:
        opened.append(given)
        return 0

    monkeypatch.setattr("rqtui.cli.main._open_screen", open_screen)
    shell("redis://127.0.0.1:1", *words)
    assert opened == ([words] if opens else [])


@pytest.mark.parametrize("loop", ["dispatch", "reap"])
def test_the_columns_of_a_loop_are_below_their_titles(client: Redis, url: str, loop: str) -> None:
    for queue in ("mail", "a-queue-whose-name-is-much-longer-than-its-column"):
        Seeded(client, queue).put("a")
        titles, row = shell(url, loop, queue, "--once").out.splitlines()
        assert len(titles) == len(row) == 24 + 13 * len(titles.split()[1:])
        assert row.startswith(f"{queue[:23]}") and titles.index("queue") == 0
