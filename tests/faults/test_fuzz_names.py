"""Fuzz names of any bytes: every system, every command that takes a queue, documents, metrics and files.

A key whose name is no UTF-8 is a queue like any other. An unreadable queue is in its own row with a reason, and no
other queue is affected.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzzing
import named_queues
import pytest
from hostile_text import find_harmful_character
from named_queues import (
    NAMES,
    SYSTEMS,
    NamedSystem,
    build_queue_name,
    can_be_named,
    convert_name_to_argument,
    plant_named_queue,
)
from redis import Redis
from screens import Seeded
from shell import ROOT, Ran, build_environment, shell

from rqtui.cli.main import COMMANDS
from rqtui.errors import UsageError
from rqtui.systems import registry
from rqtui.testing.keyspace import dump
from rqtui.text import names
from rqtui.text.sanitise import restore_unprintable_characters, safe

NO_QUEUE = {
    "systems",
    "new-system",
    "script",
    "demo",
    "replay",
    "bench",
    "config",
    "redis",
}  # commands that are about no queue
LOOKS = ("snapshot", "incident", "jobs", "workers", "errors", "kinds", "health", "loops", "schedules", "stats")
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)


def run_command(url: str, *words: str, codes: tuple[int, ...] = (0, 1, 2)) -> Ran:
    """Run a command line, and check that it neither crashes nor prints control characters or undecodable text."""
    ran = shell(url, *words)
    assert "should not happen" not in ran.err and "Traceback" not in ran.err, (words, ran.err)
    assert ran.code in codes, (words, ran)
    assert not find_harmful_character(ran.out) and not find_harmful_character(ran.err), (words, ran)
    if "--json" in words:
        for line in ran.out.splitlines() if ran.out.startswith("{") and ran.out.count("\n") > 1 else [ran.out]:
            for each in strings(json.loads(line) if line.strip() else ""):
                each.encode()  # no lone surrogate
    return ran


def strings(document: Any) -> Iterator[str]:
    """Return every text in a JSON document, with the member names."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from strings(value)
    elif isinstance(document, list):
        for value in document:
            yield from strings(value)
    elif isinstance(document, str):
        yield document


def commands(system: NamedSystem, name: bytes) -> Iterator[tuple[str, ...]]:
    """Return a command line for each command that takes a queue; commands that change the queue come last."""
    queue = f"{system.system}:{convert_name_to_argument(build_queue_name(system, name))}"
    for look in LOOKS:
        yield look, queue
        yield look, queue, "--json"
    yield "show", queue, "a\udcff", "--json"
    yield "show", queue, "a\udcff"
    yield "search", "a\udcff", queue, "--json"
    yield "search", "a\udcff", queue
    place = registry.create_system(system.system).places[0].name
    yield "group", queue, place, "--by", ".a", "--json"
    yield "group", queue, place
    yield "diff", queue, place, "--filter", "a\udcff", "--json"
    yield "diff", queue, place, "--filter", "a\udcff"
    yield "check", queue, "--json"
    yield "events", queue, "--json"
    yield "acl", "operator", queue
    yield ("metrics",)
    yield "record", "--once", "--json"
    yield "record", "--once"
    yield "migrate", queue, "native:goal", "--dry-run", "--json"
    yield "migrate", queue, "native:goal", "--dry-run"
    yield "put", queue, '"x"', "--json"
    yield "put", queue, '"x"'
    yield "act", "delete", queue, "--all", "--place", "ready", "--dry-run", "--json"
    yield "act", "delete", queue, "nowhere\udcff", "--json"
    yield "act", "delete", queue, "b", "--yes", "--json"
    yield "act", "delete", queue, "a\udcff"
    yield "act", "reserve", queue, "--json"
    yield "act", "pause", queue, "--json"
    yield "undo", "--list", "--json"
    yield "undo", "--list"
    yield ("undo",)
    yield ("operations",)
    yield "operations", "--json"
    yield "operations", "--markdown"
    yield "dispatch", queue, "--once", "--json"
    yield "dispatch", queue, "--once", "--verbose"
    yield "reap", queue, "--once", "--json"
    yield "reap", queue, "--once", "--verbose"
    yield "work", queue, "--burst", "--", "true"
    yield "migrate", queue, "native:goal", "--json"


def test_every_command_is_among_those_that_are_tried() -> None:
    tried = {words[0] for words in commands(SYSTEMS[0], b"\xff")}
    assert set(COMMANDS) - NO_QUEUE == tried


@pytest.mark.slow
@every_system
@fuzzing.parametrize_cases(1)
def test_every_command_takes_a_queue_whose_name_is_no_text(
    client: Redis, url: str, system: NamedSystem, cases: int
) -> None:
    for name in NAMES[:cases]:
        if can_be_named(system, name):
            client.flushall()
            plant_named_queue(client, system, name)
            for words in commands(system, name):
                run_command(url, "--system", system.spec(name), *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [SYSTEMS[0], *(pytest.param(each, marks=pytest.mark.matrix) for each in SYSTEMS[1:])], ids=str
)
@fuzzing.parametrize_cases(1)
def test_every_command_takes_names_that_chance_made(client: Redis, url: str, system: NamedSystem, cases: int) -> None:
    for number in range(min(cases, 300)):
        name = named_queues.build_name_of_any_bytes(random.Random(f"{system}{number}"))
        if can_be_named(system, name):
            client.flushall()
            plant_named_queue(client, system, name)
            for words in commands(system, name):
                run_command(url, "--system", system.spec(name), *words)


@pytest.mark.slow
def test_all_of_them_at_once_are_counted_beside_the_others(any_server: Any, any_client: Redis) -> None:
    seeded = Seeded(any_client)
    seeded.put("one", "two")
    for system in SYSTEMS:
        if system.is_seen:
            for name in NAMES:
                plant_named_queue(any_client, system, name)
    any_client.sadd("rqtui:queues", b"\x9b", b"ma\xffil")
    any_client.hset(b"rqtui:{\x9b}:meta", "a", "b")
    found = run_command(any_server.url, "snapshot", "--json", codes=(0,)).json["queues"]
    assert [one for one in found if one.get("error")] == []
    assert {one["layout"] for one in found} >= {"native", "redisched", "safe_pop"}
    mail = next(one for one in found if one["queue"] == "mail" and one["layout"] == "native")
    assert mail["places"][1]["count"] == 2
    read = {names.to_bytes(one["queue"]) for one in found if one.get("queue_encoding") != "base64"}
    coded = {one["queue"] for one in found if one.get("queue_encoding") == "base64"}
    assert len(coded) == len(NAMES) and read == {b"mail"}
    for words in (*LOOKS[2:], "snapshot", "metrics", "reap --once", "dispatch --once"):
        run_command(any_server.url, *words.split())
        if words in LOOKS:
            run_command(any_server.url, words, "--json")
    assert "\nrqtui_up 1\n" in run_command(any_server.url, "metrics", codes=(0,)).out
    reaped = run_command(any_server.url, "--system", "redisched", "reap", "--once", "--json", codes=(0,))
    assert sum(line["reaped"]["ready"] for line in reaped.lines) == len(NAMES)


@pytest.mark.parametrize("plant", ["redisched", "safe_pop"])
def test_one_such_foreign_key_changes_no_poll(client: Redis, url: str, plant: str) -> None:
    Seeded(client).put("one")
    if plant == "redisched":
        client.hset(b"__REDIS_SCHED_JOBS__\x9b", "a", "b")
    else:
        client.lpush(b"\x9b", "a")
        client.sadd(b"\x9b:done", "a")
    for words in (("snapshot",), ("loops",), ("metrics",), ("health",), ("stats",), ("workers",), ("errors",)):
        ran = run_command(url, *words)
        assert "rqtui_up 0" not in ran.out
    shown = run_command(url, "snapshot", codes=(0,)).out
    assert "mail" in shown and "\\x9b" in shown


# -- typed back -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_system
def test_a_printed_name_is_accepted(client: Redis, url: str, system: NamedSystem) -> None:
    for name in NAMES if system.system == "safe_pop" else NAMES[:3]:
        if can_be_named(system, name):
            client.flushall()
            is_understood(client, url, system, name)


def is_understood(client: Redis, url: str, system: NamedSystem, name: bytes) -> None:
    """Return whether the printed name, the name in a document and the raw name all select the same queue."""
    plant_named_queue(client, system, name)
    before = dump(client)
    at = ("--system", system.spec(name))
    raw = build_queue_name(system, name)
    [document] = [
        one
        for one in run_command(url, *at, "snapshot", "--json", codes=(0,)).json["queues"]
        if one["layout"] == system.system
    ]
    assert document["queue_encoding"] == "base64"
    shown = next(
        line for line in run_command(url, *at, "snapshot", codes=(0,)).out.splitlines() if system.system in line
    )
    words = {safe(raw), f"base64:{document['queue']}", convert_name_to_argument(raw)}
    assert shown.startswith(f"{safe(raw)} ")
    for word in words:
        for typed in (word, f"{system.system}:{word}"):
            found = run_command(url, *at, "snapshot", "--json", "--", typed, codes=(0,)).json["queues"]
            assert [(one["queue"], one["layout"]) for one in found] == [(document["queue"], system.system)], typed
            assert found[0]["places"] == document["places"]
    assert dump(client) == before


def test_a_name_that_is_really_spelt_so_is_meant_first(client: Redis, url: str) -> None:
    for name in (b"\x9b", b"\\x9b"):
        client.lpush(name, "a", *(["b"] if name == b"\x9b" else []))
        client.sadd(name + b":done", "x")
    found = run_command(url, "snapshot", "safe_pop:\\x9b", "--json", codes=(0,)).json["queues"]
    assert [(one["queue"], one["places"][0]["count"]) for one in found] == [("\\x9b", 1)]


@fuzzing.parametrize_cases(1500)
def test_what_is_shown_of_a_name_reads_back_as_what_shows_the_same(cases: int) -> None:
    source = random.Random(7)
    for _ in range(cases):
        name = names.to_text(fuzzing.build_hostile_bytes(source)[:80])
        for is_ascii in (False, True):
            shown = safe(name, is_ascii)
            assert safe(restore_unprintable_characters(shown), is_ascii) == shown, (name, shown)
    assert restore_unprintable_characters("\\x9b␛[31m‹202E›⏎") == "\udc9b\x1b[31m\u202e\n"


def test_a_profile_denies_verbs_on_such_queues(client: Redis, url: str, tmp_path: Path) -> None:
    client.lpush(b"\x9bmail", "a")
    client.sadd(b"\x9bmail:done", "c")
    config = tmp_path / "config.toml"
    config.write_text(f"""[profiles.here]\nurl = "{url}"\n[profiles.here.deny]\n'\\x9b*' = ["delete"]\n""")
    words = ("--config", str(config), "--profile", "here", "act", "delete", "safe_pop:\udc9bmail", "a", "--yes")
    ran = run_command(url, *words, codes=(1,))
    assert "delete is denied" in ran.err and client.llen(b"\x9bmail") == 1


# -- as a program of its own ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_program_takes_such_words_from_a_shell(client: Redis, url: str, tmp_path: Path) -> None:
    client.lpush(b"\x9b", "a", "b")
    client.sadd(b"\x9b:done", "c")
    for language in ("C", "C.UTF-8"):
        ran = subprocess.run(
            [sys.executable, "-m", "rqtui", "snapshot", b"safe_pop:\x9b", "--json"],
            env={**build_environment(url), "LC_ALL": language, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["queues"][0]["queue"] == "mw=="


# -- the pair ---------------------------------------------------------------------------------------------------------


def test_any_bytes_are_restored_from_the_text_that_stands_for_them() -> None:
    source = random.Random(11)
    for raw in (*NAMES, *(source.randbytes(source.randrange(9)) for _ in range(2000))):
        assert names.to_bytes(names.to_text(raw)) == raw == names.to_bytes(raw)
    with pytest.raises(UsageError, match="half of a surrogate pair"):
        names.to_bytes("\ud800")


def test_no_other_module_converts_names_to_bytes_or_bytes_to_names() -> None:
    allowed = {"names.py", "msgpack.py"}  # MessagePack decodes bodies by itself
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "rqtui").rglob("*.py"))
        if path.name not in allowed and '"surrogateescape"' in path.read_text("utf-8")
    ]
    assert os.path.exists(ROOT / "rqtui" / "text" / "names.py") and found == []
