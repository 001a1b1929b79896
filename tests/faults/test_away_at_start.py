"""A long-running command waits for a server that is away or loads its data at the start; with --no-wait it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from fleet import Fleet, Server, kill_with_keys
from programs import COMMANDS, RQTUI, Programs, is_ready
from shell import shell
from waiting import wait_until

from rqtui.client.queue import Queue

ENOUGH = 60.0
NAMES = ("work", "events", "watch", "dispatch", "reap", "record")


@pytest.fixture
def server(fleet: Fleet) -> Server:
    found = fleet.start(appendonly="yes", aof_use_rdb_preamble="yes", loading_process_events_interval_bytes="1024")
    with Queue("mail", found.url) as queue:
        queue.put(1, delay=3600)
    return found


@pytest.mark.slow
def test_every_command_that_runs_on_waits_for_a_server_that_is_away_and_names_its_address(
    server: Server, tmp_path: Path
) -> None:
    server.kill()
    with Programs(server.url, tmp_path) as programs:
        for name in NAMES:
            programs.run(name, COMMANDS[name])
        for name in NAMES:
            told = lambda name=name: "Next try in" in programs.read_output(name)  # noqa: E731
            wait_until(lambda name=name, told=told: told() or programs.running[name].poll() is not None, ENOUGH, name)
            assert programs.running[name].poll() is None, f"{name} ended: {programs.read_output(name)}"
            assert f"127.0.0.1:{server.port}" in programs.read_output(name), name
        server.start()
        for name in NAMES:
            wait_until(lambda name=name: is_ready(programs, name, server.client), ENOUGH, f"{name} is at work")
        ends = programs.end(signal.SIGTERM)
        assert {name: end.code for name, end in ends.items()} == {
            "work": 0, "events": 0, "watch": 130, "dispatch": 143, "reap": 0, "record": 0,
        }  # fmt: skip


@pytest.mark.slow
def test_a_command_that_waits_for_its_server_ends_at_the_first_signal(server: Server, tmp_path: Path) -> None:
    server.kill()
    with Programs(server.url, tmp_path) as programs:
        for name in ("work", "watch"):
            programs.run(name, COMMANDS[name])
            wait_until(lambda name=name: "Next try in" in programs.read_output(name), ENOUGH, name)
        ends = programs.end(signal.SIGTERM)
    assert {name: end.code for name, end in ends.items()} == {"work": 0, "watch": 130}
    assert not any("Traceback" in end.err for end in ends.values())


LONG = (
    ("work", "mail", "--", "true"),
    ("events", "mail", "--follow"),
    ("snapshot", "--watch", "1"),
    ("snapshot", "mail", "--watch", "1"),
    ("dispatch", "mail"),
    ("reap",),
    ("record",),
    ("metrics", "--listen", "127.0.0.1:0"),
)


@pytest.mark.slow
def test_with_no_wait_every_command_that_runs_on_ends_where_the_server_is_away_or_loading(server: Server) -> None:
    kill_with_keys(server, 12_000)
    for words in LONG:
        ran = shell(server.url, words[0], "--no-wait", *words[1:])
        assert ran.code == 3, words
        assert f"127.0.0.1:{server.port}" in ran.err and "refused" in ran.err, words
        assert "Next try" not in ran.err, words
    server.words += ["--key-load-delay", "1000"]
    server.start()
    for words in LONG:
        ran = shell(server.url, words[0], "--no-wait", *words[1:])
        assert server.info("persistence")["loading"], "it was to be loading all the while"
        assert ran.code == 3 and f"127.0.0.1:{server.port} is still loading" in ran.err, words


@pytest.mark.parametrize("words", [("work", "mail", "--", "no-such-command"), ("work", "mail")])
def test_a_command_line_that_is_wrong_is_refused_before_the_server_is_waited_for(words: tuple[str, ...]) -> None:
    assert shell("redis://127.0.0.1:1", *words).code == 2


@pytest.mark.slow
def test_work_waits_for_a_server_that_loads_its_data(server: Server, tmp_path: Path) -> None:
    with Queue("mail", server.url) as queue:
        queue.put(1, id="a")
    kill_with_keys(server, 3_000)
    server.words += ["--key-load-delay", "1000"]
    server.start()
    with Programs(server.url, tmp_path) as programs:
        programs.run("work", [*RQTUI, "work", "mail", "--max-jobs", "1", "--", "true"])
        wait_until(lambda: "still loading" in programs.read_output("work"), ENOUGH, "the wait")
        assert programs.running["work"].wait(ENOUGH) == 0, programs.read_output("work")
    with Queue("mail", server.url) as queue:
        assert queue.counts()["acked"] == 1
