"""The whole program in a real terminal (tmux), by keys, with other processes at work on the same Redis."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import Redis
from tmux import PATIENCE_S, ROOT, RQTUI, Terminal, small, terminal
from waiting import wait_until

from rqtui.client.queue import Queue

__all__ = ["small", "terminal"]  # fixtures

pytestmark = pytest.mark.real_terminal


def ids(client: Redis, place: str) -> list[str]:
    return [id.decode() for id in client.zrange(f"rqtui:{{mail}}:{place}", 0, -1)]


def test_a_whole_run(terminal: Terminal, url: str, client: Redis, tmp_path: Path) -> None:
    mail = Queue("mail", url)
    mail.put({"to": "a@b.c"}, id="first")
    terminal.run(f"{RQTUI} {url}")
    terminal.until(url.partition("://")[2], "mail", "write")
    terminal.keys("Enter")
    terminal.until("ready", "first")

    # N adds a job.
    terminal.keys("N")
    terminal.until("Enqueue a job in mail", "cancel")
    terminal.keys("Tab")
    terminal.type("by-hand")
    terminal.keys("Enter")
    terminal.until("enqueue: enqueued", "by-hand")
    assert ids(client, "ready") == ["first", "by-hand"]

    # A delayed job stays in scheduled past its time while the dispatcher is off, and arrives when it is on.
    terminal.keys(",")
    terminal.until("dispatcher of this screen is off", "■ off")
    mail.put({}, id="delayed", delay="200ms")
    terminal.keys("1")
    wait_until(lambda: re.search(r"delayed .* -\d+s", terminal.text()), PATIENCE_S, "it is past its time")
    assert ids(client, "scheduled") == ["delayed"]
    terminal.keys(",")
    wait_until(lambda: ids(client, "scheduled") == [], PATIENCE_S, "the dispatcher moved it")
    assert ids(client, "ready") == ["first", "by-hand", "delayed"]

    # A worker that is killed leaves its job reserved while the reaper is off; it comes back when it is on.
    terminal.keys(".")
    terminal.until("reaper of this screen is off")
    started = tmp_path / "started"
    worker = subprocess.Popen(
        [sys.executable, "-m", "rqtui", "work", "mail", "--url", url, "--ttr", "2s", "--max-jobs", "1", "--"]
        + ["sh", "-c", f"touch {started}; sleep 60"],
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        wait_until(started.exists, PATIENCE_S, "the worker began")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    terminal.keys("3")
    wait_until(lambda: re.search("1 lease over|1 (lease )?expired", terminal.text()), PATIENCE_S, "its lease is over")
    assert ids(client, "reserved") == ["first"]
    terminal.keys(".")
    wait_until(lambda: ids(client, "reserved") == [], PATIENCE_S, "the reaper took it back")
    terminal.keys("2")
    terminal.until("first", "by-hand", "delayed")

    terminal.keys("q")
    terminal.until("s sort")
    terminal.keys("q")
    terminal.until_back()


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.matrix)],
    ids=lambda number: number.name,
)
def test_a_signal_ends_it_and_gives_the_terminal_back(small: Terminal, url: str, client: Redis, number: int) -> None:
    Queue("mail", url).put({}, id="first")
    others = {each["id"] for each in client.client_list()}

    def connections() -> set[str]:
        return {each["name"] for each in client.client_list() if each["id"] not in others}

    small.run(f"{RQTUI} {url}")
    small.until("mail", "write")
    wait_until(lambda: {"rqtui", "rqtui-dispatcher", "rqtui-reaper"} <= connections(), PATIENCE_S, "the loops run")
    os.kill(small.pid_of("rqtui"), number)
    small.until_back()
    small.run("echo still $((20 + 3))")
    small.until("still 23")
    wait_until(lambda: not connections(), PATIENCE_S, "its connections are closed")


def test_no_control_character_of_a_job_reaches_the_terminal(small: Terminal, url: str, client: Redis) -> None:
    evil = b"\x1b[31mred\x1b]0;owned\x07\x1b[2J\xc2\x9b1m \xe2\x80\xae[bold]x[/bold]"
    queue = Queue("mail", url)
    queue.put(evil, id="\x1b[5mid\x1b[0m\x07", name="[blink]n")
    small.run(f"{RQTUI} {url}")
    small.until("mail", "write")
    small.keys("Enter")
    small.until("␛[5mid", "[blink]n")
    small.keys("Enter")
    small.until("␛[31mred␛]0;owned␇")
    colours = re.sub(r"\x1b\[[\d;:]*m", "", small.text(escapes=True))
    assert not re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", colours)
    assert "\x1b[5m" not in small.text(escapes=True)
    assert "owned" not in small._run_tmux("display-message", "-p", "#{pane_title}")


def test_redis_goes_away_and_comes_back_under_its_eyes(small: Terminal, url: str, client: Redis) -> None:
    Queue("mail", url).put({}, id="first")
    port = urlsplit(url).port
    small.run(f"{RQTUI} redis://127.0.0.1:{port}")
    small.until("mail", "write")
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    small.until("mail", "write")
    small.keys("q")
    small.until_back()
    small.run(f"{RQTUI} redis://:sesame@127.0.0.1:1")
    small.until("No answer from Redis yet", "host", "The next try is in")
    assert "sesame@" not in small.text()
    small.keys("q")
    small.until_back()
