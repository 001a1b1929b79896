"""The walk over all keys: bounded in a command, resumed by the next one, and kept in a file that is never believed."""

from __future__ import annotations

import itertools
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from bare_objects import Bare
from redis import Redis
from shell import shell

from rqtui.connection.connect import connect
from rqtui.connection.meter import Meter, find_client_meter
from rqtui.engine import walk
from rqtui.engine.discovery import Discovery
from rqtui.engine.engine import Engine
from rqtui.errors import Denied
from rqtui.model import Ref
from rqtui.scripts import script as scripts
from rqtui.systems import registry

OTHERS = 3000  # keys of another program
BUDGET = 1000
MAIL, NEWS = Ref("bullmq", "mail"), Ref("native", "news")


@pytest.fixture
def full(client: Redis, monkeypatch: pytest.MonkeyPatch) -> Redis:
    """Plant a database of more keys than a command reads, with a BullMQ queue and a native one of the same name."""
    monkeypatch.setattr("rqtui.engine.discovery.MAX_KEYS_PER_DISCOVERY", BUDGET)
    monkeypatch.setattr(walk, "MAX_KEYS_PER_DISCOVERY", BUDGET)
    monkeypatch.setattr(walk, "REST_FACTOR", 1e9)
    monkeypatch.setattr(Engine.discover, "__defaults__", (False, BUDGET))
    client.mset({f"other:{number}": 1 for number in range(OTHERS)})
    client.hset("bull:mail:meta", mapping={"version": "bullmq:5.81.2"})
    client.sadd("rqtui:queues", "news")
    return client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "walks"


def command(client: Redis, folder: Path | None) -> Engine:
    """Return what a command knows that searches for queues once."""
    engine = Engine(client, registry.create_systems(), walks=folder)
    for _chunk in engine.discover():
        pass
    return engine


def commands_until_all(client: Redis, folder: Path) -> Iterator[Engine]:
    while True:
        engine = command(client, folder)
        yield engine
        if not engine.describe_unread_keys():
            return


def scans(client: Redis) -> int:
    return int(client.info("commandstats").get("cmdstat_scan", {}).get("calls", 0))


def test_a_command_reads_a_limited_number_of_keys_and_the_next_one_continues(full: Redis, folder: Path) -> None:
    engines = []
    for engine in commands_until_all(full, folder):
        full.config_resetstat()
        engines.append(engine)
    sentences = [engine.describe_unread_keys() for engine in engines]
    assert all(NEWS in engine.refs for engine in engines), "what stands in a list of names needs no walk"
    assert len(engines) in (3, 4) and MAIL in engines[-1].refs
    walked_keys = [int(re.match(r"\d+", words.replace(" ", ""))[0]) for words in sentences[:-1]]  # type: ignore[index]
    steps = [after - before for before, after in itertools.pairwise([0, *walked_keys])]
    assert all(BUDGET <= step <= BUDGET + 2 * walk.MAX_STEP_KEYS for step in steps), walked_keys
    assert "of about 3 002 keys" in sentences[0] and "--walk searches all" in sentences[0]
    full.config_resetstat()
    again = command(full, folder)
    assert again.refs == engines[-1].refs and not again.describe_unread_keys()
    assert scans(full) == 0, "a whole walk is over, and the next is not due"


def test_a_small_database_is_walked_over_each_time_and_leaves_no_file(client: Redis, folder: Path) -> None:
    assert command(client, folder).refs == []
    client.hset("bull:mail:meta", mapping={"version": "bullmq:5.81.2"})
    engine = command(client, folder)
    assert engine.refs == [MAIL] and not engine.describe_unread_keys() and not folder.exists()


def test_keys_read_from_the_file_are_checked_again(full: Redis, folder: Path) -> None:
    full.set("bq:mail:id", 1)
    *_, engine = commands_until_all(full, folder)
    assert [one.system for one in engine.unsupported_systems] == ["bee-queue"]
    assert [one.system for one in command(full, folder).unsupported_systems] == ["bee-queue"]
    full.delete("bull:mail:meta", "bq:mail:id")
    engine = command(full, folder)
    assert engine.refs == [NEWS] and engine.unsupported_systems == ()


def test_a_request_for_all_keys_shows_all(full: Redis, folder: Path) -> None:
    engine = Engine(full, registry.create_systems(), walks=folder)
    for _chunk in engine.discover(fully=True):
        pass
    assert engine.refs == [MAIL, NEWS] and not engine.describe_unread_keys()
    assert command(full, folder).refs == [MAIL, NEWS], "and the next command knows it"
    full.hset("bull:late:meta", mapping={"version": "bullmq:5.81.2"})
    assert Ref("bullmq", "late") not in command(full, folder).refs, "it rests"
    for _chunk in (late := command(full, folder)).discover(fully=True):
        pass
    assert Ref("bullmq", "late") in late.refs


def spoilt(file: Path) -> Iterator[tuple[str, bytes]]:
    """Return damaged versions of a file by the kind of damage."""
    whole = file.read_bytes()
    document = json.loads(whole)
    yield from {"empty": b"", "half": whole[: len(whole) // 2], "bytes": b"\xff\x00", "deep": b"[" * 100_000}.items()
    wrong = {
        "version": 99,
        "run": "of another server",
        "cursor": "one",
        "looked": None,
        "due_s": "soon",
        "whole": [],
        "begun": 1,
    }
    for name, value in wrong.items():
        yield name, json.dumps({**document, name: value}).encode()
    yield (
        "keys",
        json.dumps({**document, "whole": {**document["whole"], "keys": {"bullmq": 3, "nobody": ["a"]}}}).encode(),
    )
    yield "no system", json.dumps({**document, "whole": {**document["whole"], "keys": {"nobody": ["a"]}}}).encode()
    yield "list", b"[1]"


def test_a_file_that_is_broken_or_of_another_run_does_no_harm(full: Redis, folder: Path) -> None:
    for _engine in commands_until_all(full, folder):
        pass
    [file] = folder.glob("*.json")
    failed = []
    for name, content in [*spoilt(file)]:
        file.write_bytes(content)
        try:
            *_, engine = commands_until_all(full, folder)
        except Exception as error:
            failed.append(f"{name}: {error!r}")
            continue
        if name != "no system" and engine.refs != [MAIL, NEWS]:
            failed.append(f"{name}: {engine.refs}")
    assert failed == []
    file.unlink()
    file.mkdir()
    assert NEWS in command(full, folder).refs, "a folder stands in its place: nothing is kept"


def test_the_file_is_its_owners_alone_and_holds_no_password(full: Redis, url: str, state_folder: Path) -> None:
    full.config_set("requirepass", "s3cret-word")
    try:
        with_password = url.replace("redis://", "redis://:s3cret-word@")
        ran = shell(with_password, "snapshot")
        assert ran.code == 0 and "keys were searched" in ran.err
    finally:
        full.config_set("requirepass", "")
    [file] = (state_folder / "walks").glob("*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "s3cret" not in file.read_text() and "s3cret" not in file.name


def test_the_option_walk_sees_all_at_once(full: Redis, url: str) -> None:
    cut, whole = shell(url, "health"), shell(url, "health", "--walk", "--json")
    assert "1 0" in cut.err and "--walk searches all" in cut.err
    assert whole.err == ""
    queues = [each["queue"] for each in shell(url, "--walk", "snapshot", "--json").json["queues"]]
    assert sorted(queues) == ["mail", "news"]
    assert 'queue="mail"' in shell(url, "metrics", "--walk").out, (
        "it holds for commands that look for queues by themselves"
    )


def test_two_databases_and_two_sets_of_systems_have_files_of_their_own(full: Redis, folder: Path, url: str) -> None:
    command(full, folder)
    other = connect(f"{url}/1")
    assert command(other, folder).refs == []
    engine = Engine(full, [registry.create_system("bullmq")], walks=folder)
    for _chunk in engine.discover():
        pass
    assert len([*folder.glob("*.json")]) == 2, "database 1 is small, and has none"


def test_the_meter_counts_the_walk(full: Redis, url: str) -> None:
    metered = connect(url, meter=Meter())
    meter = find_client_meter(metered)
    assert meter is not None
    engine = Engine(metered, registry.create_systems())
    for _chunk in engine.discover():
        pass
    before = meter.compute_total_cost()
    full.config_resetstat()
    for _chunk in engine.discover(fully=True):
        pass
    assert (meter.compute_total_cost() - before).round_trips > scans(full) >= OTHERS / walk.MAX_STEP_KEYS - 1


def test_a_lost_connection_loses_no_step(full: Redis) -> None:
    engine = Engine(full, registry.create_systems())
    steps = engine.discover(fully=True)
    for _chunk in steps:
        if engine._walk.progress.keys_walked:
            break
    steps.close()
    walked_keys = engine._walk.progress.keys_walked
    assert 0 < walked_keys < OTHERS
    full.config_resetstat()
    for _chunk in engine.discover(max_keys=None):
        pass
    assert engine.refs == [MAIL, NEWS]
    assert scans(full) <= (OTHERS - walked_keys) / walk.MAX_STEP_KEYS + 3


PATTERNS = (
    *(
        "^bq:",
        "^bq:[^:]+:id$",
        "^b",
        "^a*bc",
        "^ab-c",
        "^ab?c",
        "^ab+c",
        "^a",
        "done$",
        ":done$",
        "%d$",
        "^%ab",
        "^[ab]c",
        "x",
    ),
    *("^_k.", "^{a}:", ".", "^celery$", "^__RE.", "e$", "^rq.*z$", "%.z$", "^$"),
)
KEYS = (
    *(
        "bq:mail:id",
        "bq:",
        "bq",
        "b",
        "bc",
        "abc",
        "aabc",
        "ac",
        "abbc",
        "c",
        "a:done",
        "done",
        ":done",
        "e",
        "7",
        "x7",
    ),
    *("_kombu", "_k", "{a}:b", "{", "celery", "celery2", "__REDIS", "rq:queues:z", "rq.z", "cab", "\u00e9e", "x" * 300),
)


def test_the_script_tries_no_pattern_in_vain_and_misses_none(any_client: Redis) -> None:
    """It looks at the ends of a key before it tries a pattern; Lua's own `find` says what fits."""
    any_client.mset(dict.fromkeys(KEYS, 1))
    script = scripts.load_scripts("shared")["walk"]
    rows = [(pattern,) for pattern in (*PATTERNS, *PATTERNS)]
    answer = scripts.run_call(
        any_client, script.build_call({}, {"cursor": "0", "limit": 10_000, "counted": len(PATTERNS)}, rows)
    )
    test = "if string.find(ARGV[at], ARGV[1]) then found[#found + 1] = ARGV[at] end"
    source = f"local found = {{}} for at = 2, #ARGV do {test} end return found"
    fits = {pattern: set(any_client.eval(source, 0, pattern, *KEYS)) for pattern in PATTERNS}
    entries_by_pattern: dict[str, set[bytes]] = {pattern: set() for pattern in PATTERNS}
    examples: dict[str, list[bytes]] = {}
    for number, key in answer.rows:
        if number <= len(PATTERNS):
            entries_by_pattern[PATTERNS[number - 1]].add(key)
        else:
            examples.setdefault(PATTERNS[number - 1 - len(PATTERNS)], []).append(key)
    assert entries_by_pattern == fits
    counts = dict(zip(PATTERNS, map(int, str(answer.values["counts"]).split()), strict=True))
    assert counts == {pattern: len(keys) for pattern, keys in fits.items()}
    assert all(len(keys) == 1 and keys[0] in fits[pattern] for pattern, keys in examples.items())
    assert examples.keys() == {pattern for pattern, keys in fits.items() if keys}
    assert (answer.values["looked"], answer.values["cursor"]) == (len(set(KEYS)), "0")


def test_systems_that_are_not_here_cost_one_trip_together(url: str, client: Redis) -> None:
    client.sadd("rqtui:queues", "news")
    engine = Engine(connect(url, meter=Meter()), registry.create_systems())
    meter = find_client_meter(engine.client)
    assert meter

    def discover_queues() -> tuple[list[Ref], int]:
        before = meter.compute_total_cost()
        for _chunk in engine.discover():
            pass
        return engine.refs, (meter.compute_total_cost() - before).round_trips

    discover_queues()
    assert discover_queues() == ([NEWS], 3), "what shows the others, the native names, a step of the walk"
    client.sadd("rq:queues", "rq:queue:mail")
    assert discover_queues() == ([Ref("rq", "mail"), NEWS], 4)
    client.set("orizuru:consumers", "somebody's")
    assert discover_queues()[0] == [Ref("rq", "mail"), NEWS]


@pytest.mark.parametrize("is_found_by_walk", [False, True])
@pytest.mark.parametrize("is_explicit", [False, True])
def test_a_denied_walk_is_reported_for_requested_systems_that_need_it(
    is_explicit: bool, is_found_by_walk: bool
) -> None:
    system = SimpleNamespace(name="tasks", is_explicit=is_explicit, is_found_by_walk=is_found_by_walk)
    discovery = Bare(Discovery, systems={"tasks": system}, problems={})
    discovery._report_unwalked_systems(Denied("no permission for SCAN"))
    is_reported = is_explicit and is_found_by_walk
    assert [finding.remedy for finding in discovery.problems.values()] == [
        "name them: rqtui snapshot tasks:QUEUE"
    ] * is_reported
