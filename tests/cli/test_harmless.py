"""Test that no hostile text reaches a stream unchanged, with hostile data in every value and field name.

Queue names, ids, names, bodies, errors, workers, events and settings contain ESC with its sequences, C1, bidi,
invisible letters, line ends and bytes that are no text. Every command runs on a terminal and in a pipe. The terminal of
these tests has no colours, so that no sequence at all is rqtui's own.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import hostile_text
import pytest
import shell as shells
from ptys import run_in_pty
from redis import Redis
from shell import ROOT, build_environment, shell

from rqtui.cli import logs
from rqtui.cli.main import COMMANDS
from rqtui.client.queue import Queue
from rqtui.operations.journal import Operation
from rqtui.reports.postmortem import build_markdown
from rqtui.text.sanitise import safe
from rqtui.tui.services import crash

EVIL = (
    "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x9b31m\x9d0;x\x9c\u202e\u2066\u1160\u3164\u2800\u200b"
    "\u2028\U000e0041\x7f\r\nx"
)
RAW = EVIL.encode() + b"\xff\x9b"
MILD = "x\x9b31m\x9d0;x\x9c\u202e\u1160\u200b\u2028"  # where the scripts refuse ASCII's control characters


def plant(client: Redis, url: str) -> None:
    """Plant jobs of every system, well-formed around hostile words, and such a word beside the contents of each key."""
    with Queue("mail", url) as queue:
        queue.put({EVIL: [EVIL]}, id=EVIL, name=MILD)
        queue.put({EVIL: 1}, id="dead", name=MILD, max_attempts=1)
        queue.put({EVIL: 1}, id="retried", name=MILD)
        for job in queue.reserve(10, worker=MILD):
            if job.id != EVIL:
                job.reject(EVIL, final=job.id == "dead")
        queue.put({EVIL: 1}, id="ready", name=MILD)
        queue.put({EVIL: 1}, id="later", name=MILD, delay=3600)
    client.hset("rqtui:{mail}:workers", EVIL, f"{2**42} 60000 run 1799999999000 1{EVIL} {EVIL} {EVIL}")
    client.xadd("rqtui:{mail}:events", {"verb": EVIL, "id": EVIL, "worker": EVIL, EVIL: EVIL})
    client.zadd("delayedtaskset", {EVIL: 1, RAW: 2**40})
    client.rpush("readytasklist", EVIL, RAW)
    client.hset("__REDIS_SCHED_JOBS__topic", mapping={EVIL: EVIL, RAW: RAW})
    client.zadd("__REDIS_SCHED_QUEUED__topic", {EVIL: 1, RAW: 1e12})
    client.zadd("__REDIS_SCHED_RESERVED__topic", {"held" + EVIL: 1e12})
    client.sadd("todos", EVIL, RAW)
    client.sadd("in_progress", "running" + EVIL)
    client.set("running" + EVIL + "-lock", EVIL)
    client.sadd("orizuru:consumers", EVIL)
    client.hset("orizuru:heartbeats", EVIL, EVIL)
    client.lpush(f"orizuru:consumers:{EVIL}:processing", EVIL, RAW)
    client.lpush(f"orizuru:consumers:{EVIL}:unacked", EVIL)
    client.lpush("list", EVIL, RAW, f"{EVIL}|1")
    client.sadd("list:done", EVIL)
    client.lpush(f"list{EVIL}", EVIL)
    client.sadd(f"list{EVIL}:done", EVIL)
    client.hset(f"__REDIS_SCHED_JOBS__{EVIL}", EVIL, EVIL)
    for key in list(client.scan_iter()):
        _poison(client, key)


def _poison(client: Redis, key: bytes) -> None:
    """Add another hostile entry to a key, under a hostile field name."""
    kind = client.type(key)
    if kind == b"hash":
        client.hset(key, EVIL + ".", EVIL)
    elif kind == b"list":
        client.rpush(key, EVIL + ".")
    elif kind == b"set":
        client.sadd(key, EVIL + ".")
    elif kind == b"zset":
        client.zadd(key, {EVIL + ".": 5.0})
    elif kind == b"stream":
        last = client.xrevrange(key, count=1)[0][0]
        client.xadd(key, {EVIL: EVIL, "verb": EVIL}, id=last.decode().split("-")[0] + "-*")


@pytest.fixture
def world(client: Redis, url: str, settings: Callable[[str, str], None]) -> Iterator[str]:
    settings("slowlog-log-slower-than", "0")  # the view of Redis shows slow commands
    shell(url, "events", "mail", "--record")
    plant(client, url)
    settings("slowlog-log-slower-than", "-1")
    yield url


NAMES = ("mail", "dispatcher:readytasklist", "redisched:topic", "timeout_sets:todos", "orizuru:list", "safe_pop:list")
LOOKS: list[tuple[str, ...]] = [
    *(
        (name,)
        for name in (
            "snapshot",
            "workers",
            "errors",
            "kinds",
            "health",
            "events",
            "stats",
            "loops",
            "redis",
            "schedules",
        )
    ),
    *((name, each) for name in ("snapshot", "health", "jobs", "check", "errors", "kinds", "workers") for each in NAMES),
    ("snapshot", EVIL),
    ("snapshot", f"safe_pop:list{EVIL}"),
    ("search", "e"),
    *(("incident", name) for name in (*NAMES, EVIL)),
    ("record", "--status"),
    ("replay",),
    ("replay", EVIL),
    ("new-system", EVIL),
    *(("group", name, "--by", by) for name in NAMES for by in ("kind", "error", f".{EVIL.replace(' ', '')}")),
    ("group", "mail", "dead", "--by", "error"),
    ("group", "mail", EVIL),
    ("group", "mail", "--by", EVIL),
    ("diff", "mail", "dead", "ready"),
    ("diff", "mail", EVIL, EVIL),
    ("diff", "mail", "ready", "--filter", EVIL.replace(" ", "")),
    ("jobs", "mail", "ready", "--filter", EVIL.replace(" ", "")),
    ("jobs", "mail", EVIL),
    *(("show", "mail", id) for id in (EVIL, "dead", "retried", "ready", "nobody" + EVIL)),
    *(("show", name, EVIL, "--body") for name in NAMES[1:]),
    ("show", "mail", "dead", "--reveal"),
    ("systems",),
    ("config",),
    ("metrics",),
    ("acl", "viewer", "mail", f"safe_pop:list{EVIL}"),
    ("acl", "viewer", "mail", "--user", EVIL),
    ("script", "native/counts"),
    ("script", f"native/{EVIL}"),
    ("script", EVIL),
    ("script", "--all", f"/dev/null/{EVIL}"),
    ("operations", "--all"),
    ("operations", "--markdown"),
    ("undo", "--list"),
    ("migrate", "dispatcher:readytasklist", "native:mail", "--dry-run"),
    ("bench", EVIL),
    ("demo", EVIL, "--headless"),
    ("demo", "--list"),
    (EVIL,),
    ("snapshot", f"--{EVIL}"),
    ("--system", f"native:{EVIL}=1", "snapshot"),
    ("--profile", EVIL, "snapshot"),
    ("-u", f"redis://{EVIL}", "snapshot"),
]
CHANGES: list[tuple[str, ...]] = [
    ("act", EVIL, "mail", "a"),
    ("act", "requeue", "mail", EVIL),
    ("act", "delete", "mail", EVIL),
    ("act", "delete", "mail", "--place", "dead", "--all", "--dry-run"),
    ("act", "requeue", "mail", "--place", "dead", "--all", "--set", f"{EVIL}={EVIL}"),
    ("act", "extend", "mail", EVIL, "--set", f"ttr_ms={EVIL}"),
    ("act", "configure", "mail", "--set", f"{EVIL}={EVIL}"),
    ("act", "kill", "mail", "ready", "--set", f"reason={EVIL}", "--yes"),
    ("act", "reserve", "mail"),
    ("act", "reserve", "safe_pop:list", "--limit", "5"),
    ("act", "pull", "dispatcher:readytasklist", "--yes", "--limit", "5"),
    ("act", "duplicate", "mail", EVIL, "--set", f"id=copy{EVIL}"),
    ("act", "delete", "timeout_sets:todos", EVIL, "--yes"),
    ("put", "mail", json.dumps(EVIL), "--id", "new" + EVIL, "--name", EVIL),
    ("put", "mail", EVIL),
    ("put", "mail", "--lines", EVIL),
    ("check", "mail", "--repair"),
    ("reap", "mail", "--once", "-v"),
    ("reap", "--system", "redisched", "--once", "-v"),
    ("dispatch", "dispatcher:readytasklist", "--once", "-v"),
    ("work", "mail", "--burst", "--", "sh", "-c", "cat; cat >&2; env | grep RQTUI_ID; exit 3"),
    ("work", "mail", "--", EVIL),
    ("migrate", "redisched:topic", "native:mail"),
    ("undo",),
    ("operations",),
]
MODES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "terminal": (True, ()),
    "pipe": (False, ()),
    "json": (False, ("--json",)),
    "json on a terminal": (True, ("--json",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [*([*MODES][:3]), pytest.param("json on a terminal", marks=pytest.mark.matrix)])
def test_no_command_lets_anything_through(world: str, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    is_terminal, options = MODES[mode]
    monkeypatch.setattr(shells._Stream, "isatty", lambda self: is_terminal, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "300")
    found, walked = [], set()
    for words in (*LOOKS, *CHANGES):
        at = words.index("--") if "--" in words else len(words)
        command = next((word for word in words if word in COMMANDS), "")
        has_json = COMMANDS.get(command, {}).get("has_json", True)
        walked.add(command)
        ran = shell(world, *words[:at], *(options if command and has_json else ()), *words[at:])
        for stream, text in (("stdout", ran.out), ("stderr", ran.err)):
            if harm := hostile_text.find_harmful_character(text):
                found.append(f"{' '.join(map(safe, words))}: {stream} lets {harm} through: {safe(text)[:300]}")
        if "should not happen" in ran.err or "Traceback" in ran.err:
            found.append(f"{' '.join(map(safe, words))}: {ran.err}")
    assert found == []
    assert walked - {""} == set(COMMANDS), "every command was walked"


@pytest.mark.slow
def test_a_real_terminal_gets_no_command_of_an_event(world: str) -> None:
    with run_in_pty(
        [sys.executable, "-m", "rqtui", "events", "mail"], RQTUI_URL=world, RQTUI_CONFIG=os.devnull
    ) as terminal:
        terminal.until_ended()
    assert "␛]0;owned".encode() in terminal.output
    assert hostile_text.find_foreign_control_characters(terminal.output) == b""
    assert b"\x1b" not in terminal.output


def test_questions_on_a_terminal_are_harmless(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells._Stream, "isatty", lambda self: True, raising=False)
    ran = shell(world, "act", "delete", f"safe_pop:list{EVIL}", "--place", "ready", "--all")
    assert "[y/N]" in ran.err and hostile_text.find_harmful_character(ran.err) == ""


# -- what is no command ---------------------------------------------------------------------------------------------


def test_a_page_of_operations_and_the_report_of_a_crash_are_harmless() -> None:
    operation = Operation(
        1, EVIL, EVIL, EVIL, "native", (RAW,), 1, {EVIL: 1}, EVIL, profile=EVIL, url=EVIL, others=(EVIL,)
    )
    assert hostile_text.find_harmful_character(build_markdown([operation])) == ""
    assert hostile_text.find_harmful_character(crash.format_masked_traceback(ValueError(EVIL))) == ""


def test_a_log_line_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("rqtui")
    before, level = logger.handlers, logger.level
    try:
        for form in ("text", "json"):
            logs.set_up_logging(form)
            try:
                raise ValueError(EVIL)
            except ValueError:
                logger.exception("queue %s", EVIL)
    finally:
        logger.handlers, logger.level = before, level
    err = capsys.readouterr().err
    assert "owned" in err and hostile_text.find_harmful_character(err) == ""


@pytest.mark.slow
def test_a_traceback_of_debug_is_harmless(url: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rqtui", "--debug", "--system", f"native:{EVIL}=1", "snapshot"]
    ran = subprocess.run(words, env=build_environment(url), capture_output=True, timeout=30)
    err = ran.stderr.decode("utf-8", "surrogateescape")
    assert "Traceback" in err and "owned" in err
    assert hostile_text.find_harmful_character(err) == ""
    assert ran.returncode == 1


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_completion_offers_no_profile_that_is_not_what_it_looks_like(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.toml"
    names = ["plain", EVIL, "pla\u1160in"]
    quoted = ['"' + "".join(f"\\U{ord(char):08x}" for char in name) + '"' for name in names]
    path.write_text("".join(f"[profiles.{name}]\nurl = 'redis://x'\n" for name in quoted))
    asked = {"_RQTUI_COMPLETE": f"complete_{kind}", "COMP_WORDS": "rqtui --profile ", "COMP_CWORD": "2"}
    asked |= {"_TYPER_COMPLETE_ARGS": "rqtui --profile ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    variables = {**os.environ, **build_environment(""), **asked, "RQTUI_CONFIG": str(path)}
    ran = subprocess.run([sys.executable, "-m", "rqtui"], env=variables, capture_output=True, cwd=ROOT, timeout=30)
    out = ran.stdout.decode()
    assert "plain" in out and "owned" not in out
    assert hostile_text.find_harmful_character(out + ran.stderr.decode()) == ""


def test_no_command_writes_but_through_output() -> None:
    """Only `cli/output.py` calls `print` or the streams' own `write`, except for `--version`, which has no data."""
    found = []
    for path in sorted((ROOT / "rqtui" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or path.name == "output.py":
                continue
            called = ast.unparse(node.func)
            is_ours = called in (
                "act_result.write",
                "output.write",
                "spool.writelines",
            )  # a temporary file, read back by output
            writes = called == "print" or not is_ours and called.endswith((".write", ".writelines", ".echo"))
            if writes and not ast.unparse(node).startswith("print(f'rqtui {__version__}'"):
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert [each for each in found if not each.startswith("metrics_server.py")] == []


# -- what harmless is -------------------------------------------------------------------------------------------------

# Default_Ignorable_Code_Point of Unicode (DerivedCoreProperties.txt), and what is drawn as nothing though it is none.
IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
    (0x2800, 0x2800), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159),
)  # fmt: skip


def _codes() -> Iterator[int]:
    yield from range(0x32000)
    yield from range(0xE0000, 0xE1000)
    yield from random.Random(1).sample(range(0x32000, 0x110000), 20_000)


@pytest.mark.slow
def test_no_character_that_commands_or_hides_stays() -> None:
    ignorable = {code for first, last in IGNORABLE for code in range(first, last + 1)}
    left = []
    for code in _codes():
        char = chr(code)
        kind = unicodedata.category(char)
        if code in ignorable or kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            for text in (char, f"a{char}b"):
                shown = safe(text)
                if char in shown or shown in ("", "ab"):
                    left.append(f"U+{code:04X}")
    assert left == []


def test_every_command_line_of_this_test_is_hostile() -> None:
    """The words themselves would be noticed, were they let through."""
    assert (
        hostile_text.find_harmful_character(EVIL.replace("\n", ""))
        and hostile_text.find_harmful_character("\u1160")
        and hostile_text.find_harmful_character("\x7f")
    )
