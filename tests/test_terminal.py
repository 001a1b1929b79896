"""The whole program in a real terminal (tmux), by keys, with other processes at work on the same Redis."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proxy import Proxy
from redis import Redis
from redis.exceptions import ConnectionError
from terminal import PATIENCE_S, ROOT, RQTUI, Terminal, terminal_of
from waiting import wait_until

from rqtui.client import Queue

pytestmark = pytest.mark.real_terminal
SMALL, LARGE = (80, 24), (160, 45)


@pytest.fixture
def small() -> Iterator[Terminal]:
    """A terminal of 80×24."""
    with terminal_of(*SMALL) as made:
        yield made


def ids(client: Redis, place: str) -> list[str]:
    return [id.decode() for id in client.zrange(f"rqtui:{{mail}}:{place}", 0, -1)]


def opens_the_board(terminal: Terminal, url: str) -> None:
    terminal.run(f"{RQTUI} {url}")
    terminal.until("mail", "▶ idle", "write")
    terminal.keys("Enter")
    terminal.until("1 scheduled", "5 dead", "N new")


def quits(terminal: Terminal) -> None:
    """From a board: to the overview, and out; the shell has its prompt again, and the exit code is 0."""
    terminal.keys("q")
    terminal.until("s sort")
    terminal.keys("q")
    terminal.until_back()
    terminal.run("echo code=$?.")
    terminal.until("code=0.")


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x45"])
def test_a_whole_run_looks_at_a_job_adds_one_and_leaves_the_shell_as_it_was(
    size: tuple[int, int], url: str, client: Redis
) -> None:
    Queue("mail", url).put({"to": "a@b.c"}, id="first")
    with terminal_of(*size) as terminal:
        opens_the_board(terminal, url)
        terminal.until("ready", "first")
        terminal.keys("Enter")
        terminal.until("first", "a@b.c", "in clear")
        terminal.keys("Escape")
        terminal.until_gone("in clear")

        terminal.keys("N")
        terminal.until("New job in mail", "cancel")
        terminal.keys("End", "BSpace", "BSpace")
        terminal.type('{"to": "z@y.x"}')
        terminal.until("z@y.x")
        terminal.tab()
        terminal.type("by-hand")
        terminal.until("by-hand")
        terminal.keys("Enter")
        terminal.until("enqueue: added", "by-hand")
        assert ids(client, "ready") == ["first", "by-hand"]
        assert client.hget("rqtui:{mail}:jobs", "by-hand").endswith(b'\n{"to": "z@y.x"}')
        quits(terminal)


def test_a_delayed_job_stays_past_its_time_while_the_dispatcher_is_off(
    small: Terminal, url: str, client: Redis
) -> None:
    mail = Queue("mail", url)
    mail.put({}, id="first")
    opens_the_board(small, url)
    small.keys(",")
    small.until("dispatcher of this screen is off", "■ off")
    mail.put({}, id="delayed", delay="200ms")
    small.keys("1")
    small.until("delayed", "1 due")
    assert (ids(client, "scheduled"), ids(client, "ready")) == (["delayed"], ["first"])
    small.keys(",")
    wait_until(lambda: ids(client, "ready") == ["first", "delayed"], PATIENCE_S, "the dispatcher moved it")
    assert ids(client, "scheduled") == []
    small.keys("2")
    small.until("first", "delayed")


def test_the_job_of_a_killed_worker_comes_back_when_the_reaper_is_on(
    small: Terminal, url: str, client: Redis, tmp_path: Path
) -> None:
    Queue("mail", url).put({}, id="first")
    opens_the_board(small, url)
    small.keys(".")
    small.until("reaper of this screen is off", "■ off")
    kill_a_worker_that_holds_a_job(url, tmp_path / "command")
    small.keys("3")
    small.until("first", "1 expired")
    assert (ids(client, "reserved"), ids(client, "ready")) == (["first"], [])
    small.keys(".")
    wait_until(lambda: ids(client, "ready") == ["first"], PATIENCE_S, "the reaper took it back")
    assert ids(client, "reserved") == []
    assert client.hget("rqtui:{mail}:attempts", "first").split()[0] == b"1"
    small.keys("2")
    small.until("first", "1-1 of 1")


def kill_a_worker_that_holds_a_job(url: str, pid_file: Path) -> None:
    """`rqtui work` of another shell begins a job and dies, and its command with it."""
    command = f"echo $$ > {pid_file}.new && mv {pid_file}.new {pid_file} && exec sleep 60"
    words = ["work", "mail", "--url", url, "--ttr", "1s", "--", "sh", "-c", command]
    worker = subprocess.Popen([sys.executable, "-m", "rqtui", *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_until(pid_file.exists, PATIENCE_S, "the worker began", every_s=0.05)
    finally:
        worker.kill()
        worker.wait()
        if pid_file.exists():  # the command has a session of its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_verbs_answer_with_the_words_of_their_scripts(small: Terminal, url: str, client: Redis) -> None:
    mail = Queue("mail", url)
    mail.put({}, id="held-1", keep="1h")
    mail.reserve(1, ttr="1h")
    opens_the_board(small, url)

    def acts(place: str, id: str, key: str, question: str, toast: str) -> None:
        small.keys(place)
        small.until(id)
        small.keys("G", key)
        if question:
            small.until(f"{question}: {id}")
            small.keys("y")
        small.until(f"{toast} · {id}")

    acts("3", "held-1", "A", "Finish", "ack: finished")
    mail.put({}, id="held-2", max_attempts=1)
    mail.reserve(1, ttr="1h")
    small.until_gone("held-1")  # its toast and its row: G means the job that is there
    acts("3", "held-2", "K", "Reject", "reject: failed")
    acts("5", "held-2", "R", "", "requeue: ready again")
    mail.put({}, id="waiting-1")
    acts("2", "waiting-1", "K", "Bury", "kill: buried")
    mail.put({}, id="later-1", delay="1h")
    acts("1", "later-1", "R", "", "promote: made ready")
    mail.put({}, id="later-2", delay="1h")
    acts("1", "later-2", "D", "Delete", "delete: deleted")
    mail.reserve(1, ttr="1h")
    acts("3", "held-2", "L", "", "release: given back")
    assert {place: ids(client, place) for place in ("scheduled", "ready", "reserved", "done", "dead")} == {
        "scheduled": [],
        "ready": ["held-2", "later-1"],
        "reserved": [],
        "done": ["held-1"],
        "dead": ["waiting-1"],
    }


# ── the terminal ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_and_gives_the_terminal_back(
    small: Terminal, url: str, client: Redis, number: signal.Signals
) -> None:
    Queue("mail", url).put({}, id="first")
    small.run(f"{RQTUI} {url}")
    small.until("mail", "▶ idle")
    threads = {"rqtui-dispatcher", "rqtui-reaper"}
    wait_until(lambda: threads <= {each["name"] for each in client.client_list()}, PATIENCE_S)
    os.kill(small.pid_of("rqtui"), number)
    small.until_back()
    small.run("echo still $((20 + 3))")
    small.until("still 23")
    wait_until(lambda: not [each for each in client.client_list() if each["name"].startswith("rqtui-")], PATIENCE_S)


def test_no_control_character_of_a_job_reaches_the_terminal(small: Terminal, url: str, client: Redis) -> None:
    evil = b"\x1b[31mred\x1b]0;owned\x07\x1b[2J\xc2\x9b1m \xe2\x80\xae[bold]x[/bold]"
    Queue("mail", url).put(evil, id="\x1b[5mid\x1b[0m\x07", name="[blink]n")
    title = small.title()
    opens_the_board(small, url)
    small.until("␛[5mid", "[blink]n")
    small.keys("Enter")
    small.until("␛[31mred␛]0;owned␇")
    drawn = small.text(escapes=True)
    assert not re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", re.sub(r"\x1b\[[\d;:]*m", "", drawn))
    assert "\x1b[5m" not in drawn
    small.keys("Escape", "q")
    small.until("s sort")
    assert "owned" not in small.title()
    small.keys("q")
    small.until_back()
    assert "owned" not in small.title() + title


def test_a_terminal_that_is_too_small_gets_a_sentence_and_a_picture_when_it_grows(url: str, client: Redis) -> None:
    Queue("mail", url).put({}, id="first")
    with terminal_of(40, 10) as tiny:
        tiny.run(f"{RQTUI} {url}")
        tiny.until("This terminal is 40×10", "q quits")
        tiny.resize(80, 24)
        tiny.until("mail", "▶ idle", "s sort")
        tiny.resize(40, 10)
        tiny.until("This terminal is 40×10")
        tiny.keys("q")
        tiny.until_back()


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_redis_it_says_why_and_comes_up_when_there_is_one(small: Terminal, url: str, client: Redis) -> None:
    Queue("mail", url).put({}, id="first")
    proxy = Proxy(url)
    proxy.listen()
    proxy.refuse()
    try:
        small.run(f"{RQTUI} redis://:sesame@127.0.0.1:{proxy.port}")
        small.until("No answer from Redis yet", f"127.0.0.1:{proxy.port}", "Nothing listens at", "The next try is in")
        assert "sesame@" not in small.text().partition("No answer")[2]
        small.until_match(r"The next try is in [2-9] s")  # more than one try was made
        proxy.listen()
        small.until("mail", "▶ idle", "1 queue", "write")
        small.until_gone("No answer from Redis yet")
        small.keys("q")
        small.until_back()
    finally:
        proxy.refuse()


def test_a_connection_that_is_cut_is_made_again(small: Terminal, url: str, client: Redis) -> None:
    Queue("mail", url).put({}, id="first")
    small.run(f"{RQTUI} {url}")
    small.until("mail", "▶ idle")
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    Queue("post", url).put({}, id="second")
    small.keys("r")
    small.until("mail", "post", "write")


def test_in_the_demo_jobs_travel_and_its_server_ends_with_it(small: Terminal) -> None:
    small.run(f"{RQTUI} demo delays --seed 3")
    port = int(small.until_match(r"127\.0\.0\.1:(\d+).*(?s:.*)6 worker \+.*7 stall.*8 kill")[1])
    small.until_match(r"\d+ ▸ \d+ ▸ \d+ ▸ ([3-9]|\d\d+)\b")  # scheduled ▸ ready ▸ reserved ▸ done
    with Redis(port=port) as server:
        assert server.zcard("rqtui:{mail}:done") >= 3
        small.keys("q")
        small.until("s sort", "reminders")
        small.keys("q")
        small.until_back()
        with pytest.raises(ConnectionError):
            server.ping()
