"""The command line as people use it: bad input, sentences, exit codes, streams and signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from families import run_in_one_test
from redis import Redis
from shell import ROOT, build_environment, shell, start_process
from waiting import PATIENCE_S, wait_until

from rqtui.cli import act, main, put, screen
from rqtui.cli.main import COMMANDS, _open_screen
from rqtui.client.queue import BYTES, Queue
from rqtui.config.state_folder import find_state_folder
from rqtui.errors import UsageError
from rqtui.model import Job, Page, Ref, State
from rqtui.operations import undo
from rqtui.operations.journal import Journal
from rqtui.systems.registry import create_system
from rqtui.testing.keyspace import dump, plant

NOWHERE = "redis://127.0.0.1:1"


def read_line(program: subprocess.Popen[bytes]) -> bytes:
    assert program.stdout is not None
    return program.stdout.readline()


# ── the way in ───────────────────────────────────────────────────────────────────────────────────────────────


def test_version_imports_neither_redis_nor_textual_nor_typer() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rqtui", "--version"],
        capture_output=True,
        env=build_environment(NOWHERE),
        check=True,
    )
    assert done.stdout.startswith(b"rqtui ")
    imported = {line.rsplit(b"|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not imported & {b"redis", b"textual", b"typer", b"rich"}


def test_completion_imports_neither_redis_nor_textual_nor_pydantic() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rqtui"],
        capture_output=True,
        env={**build_environment(NOWHERE), "_RQTUI_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "rqtui sna"},
        check=True,
    )
    assert b"snapshot" in done.stdout
    imported = {line.rsplit(b"|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not imported & {b"redis", b"textual", b"pydantic", b"rich", b"msgpack"}


def test_completion_of_a_command_names_all_of_them_and_imports_none_that_the_shell_does_not_explain() -> None:
    code = (
        "import sys; from rqtui.cli.main import COMMANDS, main; main([]);"
        "print(*(name for name in COMMANDS if f'rqtui.cli.{name}' in sys.modules), file=sys.stderr)"
    )
    bash = {"_RQTUI_COMPLETE": "complete_bash", "COMP_WORDS": "rqtui ", "COMP_CWORD": "1"}
    zsh = {"_RQTUI_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "rqtui s"}
    shown, explained = (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env=build_environment(NOWHERE) | asked, check=True
        )
        for asked in (bash, zsh)
    )
    assert shown.stdout.decode().split() == list(COMMANDS)
    assert shown.stderr.split() == []
    assert b'"snapshot":"Print the counts' in explained.stdout
    assert explained.stderr.split() == [b"snapshot", b"search", b"show", b"stats", b"schedules", b"systems", b"script"]


def test_a_command_is_in_the_module_of_its_name_and_imports_that_of_no_other() -> None:
    code = (
        "import sys; from rqtui.cli.main import COMMANDS, main; main(['jobs', '--help']);"
        "print(*(name for name in COMMANDS if f'rqtui.cli.{name}' in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=build_environment(NOWHERE), check=True)
    assert b"rqtui jobs mail dead" in done.stdout
    assert done.stderr.split() == [b"jobs"]


def test_completion_offers_the_options_of_a_command() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_RQTUI_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", "rqtui put --del")
        patch.setenv("COMP_CWORD", "2")
        done = subprocess.run([sys.executable, "-m", "rqtui"], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.split() == [b"--delay"]


def test_the_help_lists_every_command_in_a_group_with_a_whole_sentence() -> None:
    ran = shell(NOWHERE, "--help")
    lines = ran.out.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("Look:") :] if line.startswith("  ") and line[2] != " "]
    assert sorted(listed) == sorted(COMMANDS)
    assert "..." not in ran.out[ran.out.index("Look:") :]
    assert max(map(len, lines)) <= 80


def test_a_typing_error_names_the_nearest_command() -> None:
    ran = shell(NOWHERE, "snapshto")
    assert ran.code == 2
    assert 'there is no command "snapshto". Did you mean "snapshot"?' in ran.err
    assert ran.out == ""


@run_in_one_test(
    "name",
    [
        "snapshot",
        "jobs",
        "show",
        "health",
        "check",
        "systems",
        "put",
        "act",
        "work",
        "dispatch",
        "reap",
        "migrate",
        "workers",
        "demo",
        "bench",
    ],
)
def test_every_command_has_help_with_an_example(name: str) -> None:
    ran = shell(NOWHERE, name, "--help")
    assert ran.code == 0
    assert f"Example: rqtui {name}" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    "words", [(), ("redis://localhost:1",), ("--read-only", "redis://localhost:1", "--system", "native")]
)
def test_without_a_terminal_the_screen_reports_what_to_do_instead(words: tuple[str, ...]) -> None:
    ran = shell(NOWHERE, *words)
    assert ran.code == 2
    assert "needs a terminal" in ran.err


def test_after_a_url_no_command_follows_and_the_password_is_masked() -> None:
    ran = shell(NOWHERE, "redis://:secret@localhost:1", "put", "mail", "1")
    assert ran.code == 2
    assert "rqtui put … --url redis://:***@localhost:1" in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize("words", [("--url", "{url}", "snapshot", "--json"), ("snapshot", "--json", "-u", "{url}")])
def test_common_options_are_before_or_after_the_command(client: Redis, url: str, words: tuple[str, ...]) -> None:
    assert shell(NOWHERE, *(word.format(url=url) for word in words)).code == 0


@pytest.mark.slow
def test_the_url_of_the_command_line_wins_over_the_environment(client: Redis, url: str) -> None:
    assert shell(url, "snapshot", "-u", NOWHERE).code == 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDIS_URL", url)
        patch.delenv("RQTUI_URL", raising=False)
        done = subprocess.run([sys.executable, "-m", "rqtui", "snapshot", "--json"], capture_output=True, cwd=ROOT)
    assert json.loads(done.stdout)["server"]["url"] == url


# ── sentences instead of tracebacks ──────────────────────────────────────────────────────────────────────────


@run_in_one_test(
    "words",
    [
        ("snapshot",),
        ("snapshot", "mail", "--json"),
        ("jobs", "mail", "ready"),
        ("show", "mail", "a"),
        ("check", "mail"),
        ("put", "mail", "1"),
        ("act", "pause", "mail"),
        ("work", "mail", "--no-wait", "--", "true"),
        ("dispatch", "mail", "--once"),
        ("reap", "--once", "--json"),
        ("health",),
    ],
)
def test_an_unreachable_redis_is_exit_3_and_a_sentence(words: tuple[str, ...]) -> None:
    ran = shell(NOWHERE, *words)
    assert ran.code == 3
    assert "127.0.0.1:1" in ran.err
    assert "refused" in ran.err
    assert "Traceback" not in ran.err


def test_a_wrong_password_is_exit_3_and_never_shown(client: Redis, url: str) -> None:
    ran = shell(url.replace("redis://", "redis://:hunter2@"), "snapshot")
    assert ran.code == 3
    assert "password" in ran.err
    assert "hunter2" not in ran.err + ran.out


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(Exception, match="refused"):
        shell(NOWHERE, "snapshot", "--debug")


@pytest.mark.slow
@run_in_one_test(
    ("words", "code", "sentence"),
    [
        (("put", "mail", "hello"), 2, "is not JSON"),
        (("put", "mail", "NaN"), 2, "is not JSON"),
        (("put", "mail"), 2, "needs a body"),
        (("put", "mail", '"\\ud800"'), 2, "surrogate"),
        (("put", "mail", "1", "--delay", "NaN"), 2, "delay cannot be 'NaN'"),
        (("put", "mail", "1", "--delay", "-5s"), 2, "delay cannot be '-5s'"),
        (("put", "mail", "1", "--delay", "99999d"), 2, "100 years"),
        (("put", "mail", "1", "--due", "tomorrow"), 2, "2026-12-01T08:00Z"),
        (("put", "mail", "1", "--due", "2026-12-01T08:00"), 2, "time zone"),
        (("put", "mail", "1", "--due", "2026-12-01T08:00Z", "--delay", "1s"), 2, "exclude each other"),
        (("put", "mail", "1", "--priority", "NaN"), 2, "a whole number is needed"),
        (("put", "mail", "1", "--priority", "999999"), 1, "-4096 to 4095"),
        (("put", "mail", "1", "--max-attempts", "0"), 1, "max_attempts"),
        (("put", "mail", "1", "--backoff", "1h..1s"), 2, "shorter"),
        (("put", "mail", "1", "--id", ""), 2, "1 to 512 bytes"),
        (("put", "mail", "1", "--id", "x" * 600), 2, "1 to 512 bytes"),
        (("put", "ma il", "1"), 2, "no queue name"),
        (("put", "{mail}", "1"), 2, "no queue name"),
        (("put", "ma\x1bil", "1"), 2, "no queue name"),
        (("put", "", "1"), 2, "no queue name"),
        (("put", "m" * 300, "1"), 2, "no queue name"),
        (("put", "mail", "1", "--lines", "x"), 2, "leave BODY away"),
        (("put", "mail", "--lines", "/does/not/exist"), 2, "cannot be read"),
        (("put", "mail", "1", "--read-only"), 1, "--read-only"),
        (("--system", "nosuch", "snapshot"), 2, "there is no system"),
        (("--system", "native:x=1", "snapshot"), 2, "no option"),
        (("jobs", "mail", "nowhere"), 2, "scheduled, ready, reserved, done, dead"),
        (("jobs", "mail", "ready", "--cursor", "x"), 2, "no cursor"),
        (("jobs", "mail", "ready", "--limit", "0"), 2, "--limit"),
        (("jobs", "mail", "ready", "--filter", "/(/"), 2, "cannot be read"),
        (("snapshot", "--watch", "nan"), 2, "--watch"),
        (("act", "frobnicate", "mail", "a"), 2, "its verbs: ack"),
        (("act", "enqueue", "mail", "a"), 2, "rqtui put"),
        (("act", "counts", "mail"), 2, "no verb"),
        (("act", "promote", "mail"), 2, "which jobs"),
        (("act", "promote", "mail", "--place", "scheduled"), 2, "--filter"),
        (("act", "promote", "mail", "a", "--all"), 2, "not both"),
        (("act", "promote", "mail", "a", "--set", "x=1"), 2, 'no field "x"'),
        (("act", "extend", "mail", "a", "--set", "ttr=soon"), 2, "ttr_ms cannot be"),
        (("act", "promote", "mail", "a", "--force"), 2, "knows no --force"),
        (("act", "ack", "mail", "a", "b", "--token", "1", "--yes"), 2, "one job"),
        (("act", "pause", "mail", "a"), 2, "whole queue"),
        (("act", "purge", "mail", "--yes"), 2, "--all for the whole queue"),
        (("act", "configure", "mail", "--set", "nosuch=1"), 1, "no setting nosuch"),
        (("act", "configure", "mail"), 2, "--set"),
        (("work", "mail"), 2, "command is needed"),
        (("work", "mail", "--", "no-such-command-here"), 2, "no command"),
        (("work", "mail", "--ttr", "x", "--", "true"), 2, "--ttr cannot be"),
        (("dispatch", "-n", "0"), 2, "1 to 1000"),
        (("dispatch", "--read-only"), 1, "--read-only"),
        (("reap", "--gc"), 2, "--gc"),
        (("reap", "--every", "nan"), 2, "--every"),
        (("demo", "--server", "mainframe"), 2, "auto, system, wheel, fake"),
        (("snapshot", "--log-format", "xml"), 2, "text or json"),
        (("snapshot", "--nosuch"), 2, "no such option"),
        (("health", "--nosuch"), 3, "no such option"),
        (("health", "ma il"), 3, "no queue name"),
    ],
)
def test_bad_input_gets_a_sentence_and_writes_nothing(
    client: Redis, url: str, words: tuple[str, ...], code: int, sentence: str
) -> None:
    Queue("mail", client).put({"n": 1}, id="a")
    before = dump(client)
    ran = shell(url, *words)
    assert (ran.code, ran.out) == (code, "")
    assert sentence in ran.err.replace("\n", " ")
    assert "Traceback" not in ran.err
    assert dump(client) == before


def test_a_key_of_another_type_is_named_and_left_alone(client: Redis, url: str) -> None:
    plant(client, {"rqtui:{mail}:ready": "a string of somebody else"})
    before = dump(client)
    ran = shell(url, "put", "mail", "1")
    assert ran.code == 1
    assert "rqtui:{mail}:ready holds a string, not a zset" in ran.err
    assert dump(client) == before
    health = shell(url, "health", "mail", "--json")
    assert health.code == 2
    assert "wrong-type" in {finding["kind"] for finding in health.json["findings"]}


def test_hostile_text_of_a_job_never_reaches_the_terminal(client: Redis, url: str) -> None:
    hostile = "\x1b]0;owned\x07[bold]x[/bold]\x9b31m\u202e"
    Queue("mail", client, codec=BYTES).put(hostile.encode(), id="evil\x1b[2J", name="[red]name[/red]")
    for words in (
        ("jobs", "mail", "ready"),
        ("jobs", "mail", "ready", "--json"),
        ("show", "mail", "evil\x1b[2J"),
        ("show", "mail", "evil\x1b[2J", "--json"),
        ("show", "mail", "nosuch\x1b[2J"),
        ("act", "promote", "mail", "evil\x1b[2J"),
    ):
        ran = shell(url, *words)
        for control in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert control not in ran.out + ran.err, words
    assert "[red]name[/red]" in shell(url, "jobs", "mail", "ready").out


# ── put ──────────────────────────────────────────────────────────────────────────────────────────────────────


@run_in_one_test(
    ("words", "stdin", "stored"),
    [
        (('{"to": "a"}',), b"", b'{"to": "a"}'),
        (('"hello \\u00e9"',), b"", "hello é".encode()),
        (("[1, 2.50]",), b"", b"[1, 2.50]"),
        (("null",), b"", b"null"),
        (("-",), b'  {"a": 1}\n', b'{"a": 1}'),
        (("hello", "--raw"), b"", b"hello"),
        (("-", "--raw"), b"\x00\xff\n", b"\x00\xff\n"),
    ],
)
def test_a_body_is_stored_as_it_says(
    client: Redis, url: str, words: tuple[str, ...], stdin: bytes, stored: bytes
) -> None:
    assert shell(url, "put", "mail", "--id", "a", *words, stdin=stdin).code == 0
    [job] = Queue("mail", client, codec=BYTES).reserve()
    assert job.raw == stored


@pytest.mark.parametrize("from_stdin", [False, True])
def test_a_body_of_the_greatest_size_is_stored_and_one_of_a_byte_more_is_refused(
    client: Redis, url: str, from_stdin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put, "MAX_BODY_BYTES", 4)
    for body, code in (("12345", 2), ("1234", 0)):
        ran = shell(url, "put", "mail", "-" if from_stdin else body, "--raw", stdin=body.encode() * from_stdin)
        assert (ran.code, "the body has more than 4 bytes" in ran.err) == (code, code == 2)
    assert [job.raw for job in Queue("mail", client, codec=BYTES).reserve(2)] == [b"1234"]


def test_all_options_of_put_arrive(client: Redis, url: str) -> None:
    shell(
        url, "put", "mail", "1", "--id", "a", "--name", "send", "--due", "2035-12-01T08:00Z", "--priority", "-7",
        "--ttr", "90s", "--max-attempts", "3", "--backoff", "2s..10m", "--keep", "1h",
    )  # fmt: skip
    record = client.hget("rqtui:{mail}:jobs", "a")
    assert isinstance(record, bytes)
    header = record.split(b"\n")[0].split(b" ", 1)[1]
    assert header == b"2080108800000 -7 90000 3 2000 600000 3600000 - send"


def test_a_put_queue_is_found_by_name(client: Redis, url: str) -> None:
    shell(url, "put", "mail", "1")
    assert client.smembers("rqtui:queues") == {b"mail"}
    assert [queue["queue"] for queue in shell(url, "snapshot", "--json").json["queues"]] == ["mail"]


def test_lines_are_put_in_batches_and_may_be_put_again(client: Redis, url: str, tmp_path: Path) -> None:
    lines = [json.dumps({"body": {"n": n}, "id": f"j{n}", "max-attempts": 2}) for n in range(2500)]
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    assert shell(url, "put", "mail", "--lines", str(path)).out == "2500 enqueued, 0 exist already\n"
    assert client.zcard("rqtui:{mail}:ready") == 2500
    ran = shell(url, "put", "mail", "--lines", "-", "--json", stdin=path.read_bytes())
    assert {result["word"] for result in ran.json["results"]} == {"exists"}
    assert ran.code == 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("not json", "line 1002: it is not JSON"),
        ("[1]", 'line 1002: a line is an object with a "body"'),
        ('{"id": "a"}', 'line 1002: a line is an object with a "body"'),
        ('{"body": 1, "colour": "red"}', 'line 1002: there is no "colour"'),
        ('{"body": 1, "delay": "soon"}', "line 1002: delay cannot be"),
        ('{"body": 1, "priority": "high"}', "line 1002: priority is a whole number"),
        ('{"body": 1, "id": 7}', "line 1002: id is text"),
        (f'{{"body": 1, "id": "{"x" * 2_000_000}"}}', "line 1002: an id has 1 to 512 bytes; this one has 2000000"),
        ('{"body": 1, "id": "\\ud800"}', "surrogate"),
        ('{"body": 1, "due": "noon"}', "line 1002: due cannot be"),
    ],
)
def test_a_bad_line_of_a_file_is_named_before_anything_is_put(
    client: Redis, url: str, tmp_path: Path, line: str, sentence: str
) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"body": 1}\n' * 1001 + line + "\n")
    ran = shell(url, "put", "mail", "--lines", str(path))
    assert ran.code == 2
    assert sentence in ran.err
    assert dump(client) == {}


def test_a_bad_line_of_a_pipe_ends_with_what_is_in_already(client: Redis, url: str) -> None:
    ran = shell(url, "put", "mail", "--lines", "-", stdin=b'{"body": 1}\n' * 1001 + b"oops\n")
    assert ran.code == 1
    assert "line 1002" in ran.err
    assert "Jobs in the queue from the batches before: 1000." in ran.err
    assert client.zcard("rqtui:{mail}:ready") == 1000


# ── jobs and show ────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_follow_one_another_without_gap_or_overlap(client: Redis, url: str) -> None:
    Queue("mail", client).put_many([{"body": n, "id": f"j{n:04}"} for n in range(1234)])
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        page = shell(url, "jobs", "mail", "ready", "--limit", "600", *cursor, "--json").json
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        cursor = ["--cursor", page["next"]]
    assert seen == [f"j{n:04}" for n in range(1234)]


def test_a_filter_continues_where_the_last_page_ended(client: Redis, url: str) -> None:
    Queue("mail", client).put_many(
        [{"body": {"n": n}, "id": f"j{n:04}", "name": "odd" if n % 2 else "even"} for n in range(900)]
    )
    first = shell(url, "jobs", "mail", "ready", "--filter", "job:odd", "--limit", "300", "--json").json
    assert [job["id"] for job in first["jobs"]] == [f"j{n:04}" for n in range(1, 600, 2)]
    rest = shell(
        url, "jobs", "mail", "ready", "--filter", "job:odd", "--limit", "300", "--cursor", first["next"], "--json"
    ).json
    assert [job["id"] for job in rest["jobs"]] == [f"j{n:04}" for n in range(601, 900, 2)]
    assert rest["next"] is None


@run_in_one_test(
    ("body", "shown"),
    [
        (b'{"a": [1, 2.5, null]}', {"bytes": 21, "encoding": "json", "value": {"a": [1, 2.5, None]}}),
        ("grüß".encode(), {"bytes": 6, "encoding": "utf-8", "value": "grüß"}),
        (b"", {"bytes": 0, "encoding": "utf-8", "value": ""}),
        (b"NaN", {"bytes": 3, "encoding": "utf-8", "value": "NaN"}),
        (b"1e999", {"bytes": 5, "encoding": "utf-8", "value": "1e999"}),
        (b"[" * 60_000, {"bytes": 60_000, "encoding": "utf-8", "value": "[" * 60_000}),
        (
            b"\x82\xa1a\x01\xa1b\x93\x01\x02\x03",
            {"bytes": 10, "encoding": "msgpack", "value": {"a": 1, "b": [1, 2, 3]}},
        ),
        (b"\xff\x00", {"bytes": 2, "encoding": "base64", "value": "/wA="}),
        (b"x" * 65_537, {"bytes": 65_537, "encoding": "omitted", "value": None}),
    ],
)
def test_a_body_is_shown_by_what_it_is(client: Redis, url: str, body: bytes, shown: dict[str, object]) -> None:
    Queue("mail", client, codec=BYTES).put(body, id="a")
    assert shell(url, "show", "mail", "a", "--json").json["body"] == shown
    assert shell(url, "jobs", "mail", "ready", "--json").json["jobs"][0]["body"] == shown


def test_a_long_body_comes_when_it_is_requested(client: Redis, url: str) -> None:
    Queue("mail", client, codec=BYTES).put(b"x" * 100_000, id="a")
    assert shell(url, "show", "mail", "a", "--json", "--body").json["body"]["value"] == "x" * 100_000
    assert shell(url, "show", "mail", "a", "--raw").out == "x" * 100_000


def test_ids_that_are_no_text_are_base64_and_can_be_acted_on(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id=b"\xff\xfe")
    [job] = shell(url, "jobs", "mail", "ready", "--json").json["jobs"]
    assert (job["id"], job["id_encoding"]) == ("//4=", "base64")
    ran = shell(url, "act", "delete", "mail", os.fsdecode(b"\xff\xfe"), "--yes", "--json")
    assert ran.json["moved"] == 1


# ── act ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_id_has_its_answer_in_the_order_given(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put(1, id="later", delay=60)
    queue.put(1, id="now")
    ran = shell(url, "act", "promote", "mail", "now", "later", "nosuch", "--json")
    assert ran.code == 1
    assert [(r["id"], r["word"]) for r in ran.json["results"]] == [
        ("now", "wrong_place"),
        ("later", "moved"),
        ("nosuch", "gone"),
    ]
    assert ran.json["moved"] == 1


def test_the_displayed_token_is_sent_and_another_one_is_stale(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put(1, id="a")
    queue.reserve()
    assert (
        shell(url, "act", "ack", "mail", "a", "--token", "1", "--yes", "--json").json["results"][0]["word"] == "stale"
    )
    assert shell(url, "act", "ack", "mail", "a", "--yes", "--json").json["results"][0]["word"] == "moved"


def test_a_dangerous_verb_without_a_terminal_needs_yes(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    before = dump(client)
    ran = shell(url, "act", "delete", "mail", "a")
    assert ran.code == 1
    assert "--yes" in ran.err
    assert dump(client) == before
    assert shell(url, "act", "delete", "mail", "a", "--yes").code == 0


def test_a_filter_acts_on_what_it_finds_and_a_dry_run_on_nothing(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "id": f"j{n}"} for n in range(4)])
    for job in queue.reserve(4):
        job.reject("TimeoutError" if job.id < "j2" else "KeyError", final=True)
    words = ("act", "requeue", "mail", "--place", "dead", "--filter", "err:timeout", "--json")
    before = dump(client)
    dry = shell(url, *words, "--dry-run")
    assert (dry.code, dry.json["moved"], [r["id"] for r in dry.json["results"]]) == (0, 0, ["j0", "j1"])
    assert dump(client) == before
    assert shell(url, *words, "--limit", "1").json["moved"] == 1
    assert shell(url, *words).json["moved"] == 1
    assert client.zrange("rqtui:{mail}:dead", 0, -1) == [b"j2", b"j3"]
    nothing = shell(url, *words)
    assert (nothing.code, nothing.json["results"]) == (0, [])


@pytest.mark.slow
def test_a_filter_acts_on_all_that_it_finds_in_a_long_place(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n, "name": "send" if n % 2 else "keep"} for n in range(2400)])
    for limit, left in ((("--limit", "700"), 1700), ((), 1200)):
        ran = shell(url, "act", "delete", "mail", "--place", "ready", "--filter", "job:send", *limit, "--yes", "--json")
        assert ran.code == 0, ran.err
        assert client.zcard("rqtui:{mail}:ready") == left
    assert shell(url, "jobs", "mail", "ready", "--filter", "job:send", "--json").json["jobs"] == []


def test_a_screenful_of_answers_is_reported_one_by_one_and_more_are_counted(client: Redis, url: str) -> None:
    for number, is_told in ((50, True), (51, False)):
        Queue("mail", client).put_many([{"body": n, "id": f"job-{n}"} for n in range(number)])
        ran = shell(url, "act", "delete", "mail", "--place", "ready", "--all", "--yes")
        assert ran.code == 0 and f"delete: {number} moved" in ran.err
        assert ran.out.count("job-") == (number if is_told else 0)


def test_a_list_shows_how_long_a_job_still_waits_or_has_waited(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put(1, id="later", delay="5d")
    queue.put(2, id="held")
    queue.reserve(1, ttr="3d")
    queue.put(3, id="ready")
    for place, sentence in (("scheduled", "4d"), ("reserved", "2d"), ("ready", "s")):
        _titles, row = shell(url, "jobs", "mail", place).out.splitlines()
        assert any(word.endswith(sentence) and word[0].isdigit() for word in row.split()), row


def test_a_dangerous_change_reports_whether_it_can_be_undone(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MAX_SAVED_JOBS", 3)
    for number, sentence in ((3, "rqtui undo undoes it"), (4, "No undo: it is kept for at most 3 jobs")):
        Queue("mail", client).put_many([{"body": n, "id": f"j{n}"} for n in range(number)])
        ran = shell(url, "act", "delete", "mail", "--place", "ready", "--all")
        assert ran.code == 1 and f"{number} jobs of mail" in ran.err and sentence in ran.err, ran.err


def test_a_list_shows_the_error_of_a_job_else_its_body_else_its_size(client: Redis, url: str) -> None:
    queue = Queue("mail", client, codec=BYTES)
    queue.put(b"its body", id="failed")
    queue.reserve(1)[0].reject("boom", final=True)
    queue.put(b"its body", id="short")
    queue.put(b"x" * 200_000, id="long")
    rows = {
        row.split()[0]: row for place in ("dead", "ready") for row in shell(url, "jobs", "mail", place).out.splitlines()
    }
    assert "boom" in rows["failed"] and "its body" not in rows["failed"]
    assert "its body" in rows["short"] and rows["long"].rstrip().endswith("195 kB")


def test_many_jobs_are_acted_on_in_chunks(client: Redis, url: str) -> None:
    Queue("mail", client).put_many([{"body": n} for n in range(1700)])
    ran = shell(url, "act", "kill", "mail", "--place", "ready", "--all", "--yes", "--set", "reason=tidy", "--json")
    assert (ran.code, ran.json["moved"]) == (0, 1700)
    assert client.zcard("rqtui:{mail}:dead") == 1700


def test_reserve_hands_out_a_job_and_nothing_is_no_failure(client: Redis, url: str) -> None:
    Queue("mail", client).put({"n": 1}, id="a", name="kind", ttr=7)
    [result] = shell(url, "act", "reserve", "mail", "--json", "--set", "worker=me").json["results"]
    job = result["job"]
    assert (result["id"], result["word"], job["place"], job["attempts"]) == ("a", "moved", "reserved", 1)
    assert (job["body"]["value"], job["name"], job["ttr_ms"]) == ({"n": 1}, "kind", 7000)
    shown = shell(url, "show", "mail", "a", "--json").json
    assert (shown["token"], shown["worker"]) == (job["token"], "me")
    assert abs(shown["deadline_at_ms"] - job["deadline_at_ms"]) <= 1
    nothing = shell(url, "act", "reserve", "mail", "--json")
    assert (nothing.code, nothing.json["results"]) == (0, [])


def test_pull_takes_a_job_for_good(client: Redis, url: str) -> None:
    Queue("mail", client, codec=BYTES).put(b"x" * 5000, id="a")
    assert shell(url, "act", "pull", "mail").code == 1
    [result] = shell(url, "act", "pull", "mail", "--yes", "--json").json["results"]
    assert (result["id"], result["job"]["body"]["bytes"]) == ("a", 5000)
    assert shell(url, "show", "mail", "a").code == 1


@pytest.mark.slow
def test_purge_empties_a_place_or_removes_the_queue(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put_many([{"body": n} for n in range(2500)])
    queue.put(1, id="later", delay=60)
    assert (
        shell(url, "act", "purge", "mail", "--place", "ready", "--limit", "1200", "--yes", "--json").json["moved"]
        == 1200
    )
    assert shell(url, "act", "purge", "mail", "--place", "ready", "--yes", "--json").json["moved"] == 1300
    assert client.zcard("rqtui:{mail}:scheduled") == 1
    assert shell(url, "act", "purge", "mail", "--all", "--yes", "--json").json["moved"] == 1
    assert dump(client) == {}


def test_asking_twice_for_the_same_state_is_a_success(client: Redis, url: str) -> None:
    Queue("mail", client).put(1)
    assert [shell(url, "act", "pause", "mail").code for _ in range(2)] == [0, 0]
    assert shell(url, "snapshot", "mail", "--json").json["queues"][0]["paused"] is True
    assert [shell(url, "act", "resume", "mail").code for _ in range(2)] == [0, 0]


def test_settings_take_durations_and_an_empty_value_brings_the_default_back(client: Redis, url: str) -> None:
    assert shell(url, "act", "configure", "mail", "--set", "ttr_ms=2m", "--set", "max_attempts=9").code == 0
    assert client.hmget("rqtui:{mail}:meta", "ttr_ms", "max_attempts") == [b"120000", b"9"]
    assert shell(url, "act", "configure", "mail", "--set", "ttr_ms=").code == 0
    assert client.hget("rqtui:{mail}:meta", "ttr_ms") is None


def test_read_only_refuses_every_change_and_allows_every_read(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a", delay=60)
    before = dump(client)
    for words in (
        ("act", "promote", "mail", "a"),
        ("act", "pause", "mail"),
        ("act", "reserve", "mail"),
        ("check", "mail", "--repair"),
        ("reap", "mail", "--once"),
        ("work", "mail", "--burst", "--", "true"),
    ):
        assert shell(url, "--read-only", *words).code == 1, words
    for words in (("snapshot",), ("jobs", "mail", "scheduled"), ("show", "mail", "a"), ("check", "mail")):
        assert shell(url, "--read-only", *words).code == 0, words
    assert shell(url, "--read-only", "act", "promote", "mail", "a", "--dry-run").code == 0
    assert dump(client) == before


# ── check and health ─────────────────────────────────────────────────────────────────────────────────────────


def test_check_names_what_is_broken_and_repair_fixes_it(client: Redis, url: str) -> None:
    Queue("mail", client).put_many([{"body": n, "id": f"j{n}"} for n in range(5)])
    client.zadd("rqtui:{mail}:dead", {"j0": 1})  # in two places
    client.zrem("rqtui:{mail}:ready", "j1")  # in none
    client.hset("rqtui:{mail}:errors", "ghost", "[]")  # a line of no job
    ran = shell(url, "check", "mail", "--json")
    assert ran.code == 1
    assert {(f["kind"], *f["ids"]) for f in ran.json["findings"]} == {
        ("two-places", "j0"),
        ("no-place", "j1"),
        ("orphan-line", "ghost"),
    }
    assert shell(url, "check", "mail").code == 1
    repaired = shell(url, "check", "mail", "--repair", "--json")
    assert (repaired.code, repaired.json["repaired"], repaired.json["findings"]) == (0, 3, [])
    assert shell(url, "check", "mail").code == 0


def test_the_exit_code_of_health_is_that_of_the_worst_finding(client: Redis, url: str, settings) -> None:
    settings("save", "3600 1")
    Queue("mail", client).put(1, delay=3600)  # that a ready one has no worker would be reported after five seconds
    assert (shell(url, "health").code, shell(url, "health", "--json").json["severity"]) == (0, "ok")
    shell(url, "act", "pause", "mail")
    ran = shell(url, "health", "mail", "--json")
    assert (ran.code, ran.json["severity"]) == (0, "ok")
    assert ran.json["findings"][0]["remedy"] == "rqtui act resume mail"
    settings("save", "")
    assert (shell(url, "health").code, shell(url, "health", "--json").json["severity"]) == (1, "warning")
    away = shell(NOWHERE, "health", "--json")
    assert (away.code, away.json) == (3, {"severity": "unknown", "findings": [], "unknown": []})


def test_a_queue_that_was_never_seen_is_reported_as_unknown(client: Redis, url: str) -> None:
    ran = shell(url, "snapshot", "mial", "--json")
    assert ran.code == 0
    assert 'nothing is known of a queue "mial"' in ran.err


def test_an_empty_queue_that_its_system_names_is_known(client: Redis, url: str) -> None:
    client.sadd("queues", "drained")
    client.set("stat:processed", 1)
    assert shell(url, "snapshot", "drained").err == ""
    assert 'nothing is known of a queue "other"' in shell(url, "snapshot", "sidekiq:other").err


# ── programs that go on: signals, pipes, outages ─────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGHUP, 0, marks=pytest.mark.matrix),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.matrix),
    ],
)
def test_a_signal_ends_the_dispatcher_after_its_step(client: Redis, url: str, number: int, code: int) -> None:
    Queue("mail", client).put(1, id="a", delay=0.05)
    program = start_process(url, "dispatch", "mail", "--json")
    assert json.loads(read_line(program)) == {
        "queue": "mail",
        "dispatched": 1,
        "delayed": 0,
        "ready": 0,
        "backing_off_ms": 1000,
    }
    program.send_signal(number)
    _out, err = program.communicate(timeout=10)
    assert program.returncode == code
    assert b"Traceback" not in err


@pytest.mark.slow
def test_each_document_of_a_stream_comes_at_once_through_a_pipe(client: Redis, url: str) -> None:
    program = start_process(url, "snapshot", "--watch", "3600", "--json")
    try:
        assert program.stdout is not None
        assert select.select([program.stdout], [], [], PATIENCE_S)[0], "the next one comes in an hour"
        assert json.loads(program.stdout.readline())["queues"] == []
    finally:
        program.kill()
        program.communicate()


def test_the_list_of_what_can_be_undone_reports_where_bodies_are_kept(client: Redis, url: str) -> None:
    assert "no change was kept here" in shell(url, "undo", "--list").err
    Queue("mail", client).put(1, id="a")
    assert shell(url, "act", "delete", "mail", "a", "--yes").code == 0
    error_output = shell(url, "undo", "--list").err
    assert (
        "bodies of deleted jobs in clear, readable for you alone: " in error_output and "no change" not in error_output
    )


def test_a_search_in_a_place_shows_how_many_of_its_jobs_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = SimpleNamespace(total=None, steps=0)
    bar.add_steps = lambda number: setattr(bar, "steps", bar.steps + number)
    monkeypatch.setattr(act.output, "show_progress", lambda _label: nullcontext(bar))
    pages = [
        Page("mail", "native", "dead", (Job(b"%d" % n, "mail", "native", "dead", State.DEAD, b""),), 7) for n in (1, 2)
    ]
    engine: Any = SimpleNamespace(systems={"native": create_system("native")}, walk_pages=lambda *_: pages)
    request: Any = SimpleNamespace(expression="id:1", ref=Ref("native", "mail"), place="dead")
    assert [[job.id for job in found] for found in act._scan_place(engine, request)] == [[b"1"], []]
    assert (bar.total, bar.steps) == (7, 2)


def test_an_aborted_question_ends_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def abort(*_arguments: object, **_options: object) -> int:
        raise typer.Abort

    monkeypatch.setattr(main, "build_application", lambda: abort)
    assert main._run_command_line(["act", "delete", "mail", "a"]) == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [(KeyboardInterrupt(), 130, ""), (UsageError("this is no URL."), 2, "rqtui: this is no URL.\n")],
)
def test_a_screen_that_cannot_open_ends_with_a_code(
    url: str,
    error: BaseException,
    code: int,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def raise_error(_settings: object) -> int:
        raise error

    monkeypatch.setattr(screen, "screen", raise_error)
    assert (_open_screen(url), capsys.readouterr().err) == (code, printed)


@pytest.mark.slow
def test_ctrl_c_during_a_watch_is_exit_130(client: Redis, url: str) -> None:
    program = start_process(url, "snapshot", "--watch", "0.05", "--json")
    assert "queues" in json.loads(read_line(program))
    program.send_signal(signal.SIGINT)
    _out, err = program.communicate(timeout=10)
    assert program.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(client: Redis, url: str) -> None:
    program = start_process(url, "snapshot", "--watch", "0.05", "--json")
    read_line(program)
    assert program.stdout is not None
    program.stdout.close()
    assert program.wait(timeout=10) == 0
    assert program.stderr is not None
    assert program.stderr.read() == b""


def test_the_reaper_shows_what_it_took_back(client: Redis, url: str) -> None:
    queue = Queue("mail", client)
    queue.put(1, id="a")
    queue.put(1, id="b", max_attempts=1)
    queue.reserve(2, ttr=0.01)
    time.sleep(0.02)
    [line] = shell(url, "reap", "mail", "--once", "--json").lines
    assert line == {"queue": "mail", "reaped": {"ready": 1, "dead": 1}, "next_ms": None}
    queue.put(1, id="c")
    queue.reserve(2, ttr=0.01)
    time.sleep(0.02)
    [line] = shell(url, "reap", "mail", "--once", "--limit", "1", "--json").lines
    assert line == {"queue": "mail", "reaped": {"ready": 1, "dead": 0}, "next_ms": 0}, "another is over, too"


@pytest.mark.slow
def test_the_dispatcher_continues_when_redis_comes_back(client: Redis, url: str) -> None:
    from proxy import Proxy

    Queue("mail", client).put(1, id="a", delay=0.2)
    with Proxy(url) as proxy:
        proxy.refuse()
        program = start_process(f"redis://127.0.0.1:{proxy.port}", "dispatch", "mail", "--json")
        away = json.loads(read_line(program))
        assert away == {"queue": "mail", "dispatched": 0, "delayed": None, "ready": None, "backing_off_ms": 1000}
        proxy.listen()
        lines = iter(lambda: json.loads(read_line(program)), None)
        assert next(line for line in lines if line["dispatched"])["dispatched"] == 1
        program.terminate()
        program.communicate(timeout=10)
    assert program.returncode == 143


def test_a_dispatcher_without_a_name_finds_all_queues(client: Redis, url: str) -> None:
    for name in ("a", "b"):
        Queue(name, client).put(1, delay=0.01)
    time.sleep(0.02)
    lines = shell(url, "dispatch", "--once", "--json").lines
    assert {(line["queue"], line["dispatched"]) for line in lines} == {("a", 1), ("b", 1)}


def test_work_runs_a_command_per_job_and_settles_by_its_exit_code(client: Redis, url: str, capfd) -> None:
    queue = Queue("mail", client)
    queue.put({"do": "ack"}, id="good", name="kind")
    queue.put({"do": "fail"}, id="bad", max_attempts=1)
    script = 'read body; case "$body" in *fail*) echo broken >&2; exit 3;; esac; test "$RQTUI_ID" = good'
    ran = shell(url, "work", "mail", "--burst", "--json", "--", "sh", "-c", script)
    assert ran.code == 0
    assert [(line["id"], line["outcome"], line["exit_code"]) for line in ran.lines] == [
        ("good", "acked", 0),
        ("bad", "rejected", 3),
    ]
    shown = shell(url, "show", "mail", "bad", "--json").json
    assert shown["place"] == "dead"
    assert "broken" in shown["error"]


@pytest.mark.slow
def test_sigterm_lets_a_running_command_finish(client: Redis, url: str, tmp_path: Path) -> None:
    Queue("mail", client).put(1, id="a")
    begun = tmp_path / "begun"
    program = start_process(url, "work", "mail", "--", "sh", "-c", f"touch {begun}; sleep 0.3")
    wait_until(begun.exists, what="the command runs")  # a job that is only reserved would be given back instead
    program.terminate()
    program.communicate(timeout=15)
    assert program.returncode == 0
    assert client.zcard("rqtui:{mail}:reserved") == 0
    assert client.hget("rqtui:{mail}:meta", "acked") == b"1"


def test_logs_may_be_json_lines() -> None:
    import logging

    from rqtui.cli.logs import _JsonLines

    record = logging.LogRecord("rqtui.engine.loops", logging.WARNING, "x.py", 1, "lost %s", ("it",), None)
    line = json.loads(_JsonLines().format(record))
    assert (line["level"], line["logger"], line["text"]) == ("warning", "rqtui.engine.loops", "lost it")


def test_an_id_that_is_no_text_is_named_as_documents_write_it(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id=b"bin\xff")
    [job] = shell(url, "jobs", "mail", "ready", "--json").json["jobs"]
    assert (job["id"], job["id_encoding"]) == ("Ymlu/w==", "base64")
    assert shell(url, "show", "mail", "base64:Ymlu/w==", "--json").json["id"] == "Ymlu/w=="
    assert shell(url, "show", "mail", "base64:%").code == 2
    assert shell(url, "act", "delete", "mail", "base64:Ymlu/w==", "--yes").code == 0
    assert Queue("mail", client).counts()["ready"] == 0


def test_a_change_of_too_many_jobs_is_listed_at_its_time_and_has_no_undo(client: Redis, url: str) -> None:
    Queue("mail", client).put(1, id="a")
    journal = Journal(find_state_folder(), url)
    journal.record_change("kill", "mail", "native", count=20_000)
    assert shell(url, "act", "delete", "mail", "a", "--yes").code == 0
    journal.record_change("requeue", "mail", "native", count=20_000)
    listed = shell(url, "undo", "--list", "--json").json["undo"]
    assert [each["verb"] for each in listed] == ["requeue", "delete", "kill"]
    refused = shell(url, "undo")
    assert refused.code != 0 and "requeue (mail) of 20 000 jobs has no undo" in refused.err
    assert "the change before it is: rqtui undo 2" in refused.err


def test_a_reader_of_the_version_that_goes_away_ends_it_quietly(client: Redis, url: str) -> None:
    program = start_process(url, "--version")
    assert program.stdout is not None and program.stderr is not None
    program.stdout.close()
    assert (program.wait(timeout=PATIENCE_S), program.stderr.read()) == (0, b"")
