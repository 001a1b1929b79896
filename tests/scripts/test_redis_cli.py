"""`redis-cli --eval VERB.lua KEY … , ARG …` does what the header says, for every verb that `rqtui script` writes.

The command lines are made from the headers, so this is also the test that a header is enough to call a script.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from native_jobs import SCRIPTS, build_key, find_places, read_outcomes, run_script
from native_subject import NATIVE, USES
from redis import Redis

from rqtui.cli.main import main
from rqtui.testing.keyspace import dump
from rqtui.testing.subject import PreparedScript, list_words

pytestmark = pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")


def cli(client: Redis, *arguments: object) -> str:
    inputs = client.connection_pool.connection_kwargs
    command = ["redis-cli", "-h", inputs["host"], "-p", inputs["port"], *arguments]
    shown = [part if isinstance(part, bytes) else str(part) for part in command]
    return subprocess.run(shown, capture_output=True, check=True, timeout=20).stdout.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the complete scripts of the native queue to files, and return their folder."""
    path = tmp_path_factory.mktemp("scripts")
    assert main(["script", "--all", str(path)]) == 0
    return path / "native"


def eval_file(client: Redis, file: Path, keys: Sequence[object], argv: Sequence[object]) -> list[str]:
    """Run a script file by redis-cli, and return the lines of its raw output."""
    return cli(client, "--eval", file, *keys, ",", *argv).splitlines()


@pytest.mark.parametrize("name", SCRIPTS)
def test_redis_cli_runs_a_script_from_its_header(name: str, client: Redis, folder: Path) -> None:
    source = (USES[name].sources or SCRIPTS[name].sources or ("",))[0]
    prepared = PreparedScript.build(NATIVE, client, name, source)
    first_word = list_words(prepared.run())[0]
    expected = dump(client)
    prepared = PreparedScript.build(NATIVE, client, name, source)
    call = prepared.database.call(prepared.script, prepared.request)
    printed = eval_file(client, folder / f"{name}.lua", call.keys, call.argv)
    assert printed[0] == first_word
    assert dump(client) == expected


def test_an_operator_can_do_without_rqtui(client: Redis, folder: Path) -> None:
    """Enqueue, reserve and ack by hand: the empty string means the default, the server's clock for one."""
    keys = {name: [build_key(declared.name) for declared in script.keys] for name, script in SCRIPTS.items()}
    assert eval_file(client, folder / "enqueue.lua", keys["enqueue"], ["", 2, "job:1", "{}"]) == ["moved"]
    assert eval_file(client, folder / "enqueue.lua", keys["enqueue"], ["", "", "job:1", "{}", *[""] * 9]) == ["exists"]
    [refused] = eval_file(client, folder / "enqueue.lua", keys["enqueue"], ["", 1, "job:2"])[:1]
    assert "columns is a whole number from 2 to 11; nothing was changed" in refused
    word, _next_ms, id, token, *_ = eval_file(client, folder / "reserve.lua", keys["reserve"], ["", 1, "me", ""])
    assert (word, id) == ("moved", "job:1")
    assert eval_file(client, folder / "ack.lua", keys["ack"], ["", 60000, "job:1", token]) == ["moved"]
    assert find_places(client, b"job:1") == ["done"]
    assert read_outcomes(run_script(client, "ack", [(b"job:1", token)])) == ["done"]
    refused = eval_file(client, folder / "reserve.lua", keys["reserve"], ["", 0, "me", ""])
    assert "limit is 1 to 1000" in refused[0] and "nothing was changed" in refused[0]
