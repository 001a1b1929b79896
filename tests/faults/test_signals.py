"""SIGTERM, SIGHUP and SIGINT end whatever runs: with one signal, in order, also while Redis is silent or away.

How long it took is printed, never judged: a signal that is not enough meets a time-out of minutes here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from programs import COMMANDS, CONSUME, PATIENCE_S, RQTUI, Programs
from proxy import Proxy
from queue_check import find_misplaced_jobs
from redis import Redis
from shell import build_environment
from soak_run import is_process_alive
from waiting import wait_until

from rqtui.cli.signals import interrupt_on_signals
from rqtui.client.queue import Queue

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process leaves behind is read from /proc")
SLOW = "?socket_timeout=300"  # so that what waits for a reply is not helped by its time-out
INTERRUPTED = {"put", "watch", "demo"}  # these do one thing, and are broken off
AS_A_SHELL_SAYS = {("dispatch", signal.SIGTERM): 143}  # the drop-in
MAIL = "rqtui:{mail}:"


def fault(programs: Programs, number: int, client: Redis, before: set[str]) -> list[str]:
    """Send a signal to the programs, and return a sentence about each wrong end."""
    ends = programs.end(number)
    found = []
    for name, end in ends.items():
        wanted = AS_A_SHELL_SAYS.get((name, number), 0)
        if number == signal.SIGINT or name in INTERRUPTED:
            wanted = 0 if name == "consume" else 130
        if end.code != wanted:
            found.append(f"{name}: exit code {end.code}, not {wanted}: {end.err}")
        if "Traceback" in end.err:
            found.append(f"{name}: {end.err}")
        found += [f"{name}: its child {pid} lives on" for pid in end.left]
    found += [f"left in the temporary folder: {name}" for name in programs.list_temporary_files()]
    if left := {each["id"] for each in client.client_list()} - before:
        found.append(f"{len(left)} connections are left")
    return found


def reap_and_reserve(queue: Queue) -> list[Any]:
    """Reap expired jobs and reserve one."""
    queue._run_verb("reap", {"limit": 10})
    return queue.reserve()


def list_client_ids(client: Redis) -> set[str]:
    return {each["id"] for each in client.client_list()}


@pytest.mark.parametrize(
    ("number", "names"),
    [
        (signal.SIGTERM, ("dispatch", "work", "consume", "put", "record", "metrics", "demo")),
        pytest.param(signal.SIGTERM, tuple(COMMANDS), marks=pytest.mark.matrix),
        pytest.param(signal.SIGHUP, ("dispatch", "work", "put", "metrics", "demo"), marks=pytest.mark.matrix),
        pytest.param(signal.SIGINT, ("reap", "record", "events", "work", "consume", "watch"), marks=pytest.mark.matrix),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_one_signal_ends_every_program_in_order(
    client: Redis, url: str, tmp_path: Path, number: int, names: tuple[str, ...]
) -> None:
    with Queue("mail", client) as queue:
        queue.put(1, delay=3600)
    before = list_client_ids(client)
    with Programs(url, tmp_path) as programs:
        programs.start(*names, client=client)
        assert fault(programs, number, client, before) == []
    assert client.hgetall(f"{MAIL}workers") == {}, "a worker that left is on the list no more"
    assert find_misplaced_jobs(client, "mail") == []


def test_an_interrupt_during_an_import_keeps_the_exit_code(tmp_path: Path) -> None:
    # Stands for a signal that arrives while a dataclass is created, which runs `exec` of a string.
    (tmp_path / "sitecustomize.py").write_text(
        """
import rqtui.cli.main
def interrupted_main():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130
rqtui.cli.main.main = interrupted_main
"""
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    assert subprocess.run(RQTUI, env={**os.environ, "PYTHONPATH": path}, check=False).returncode == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.matrix)],
    ids=lambda number: number.name,
)
def test_one_signal_is_enough_while_redis_is_silent(client: Redis, url: str, tmp_path: Path, number: int) -> None:
    with Queue("mail", client) as queue, Proxy(url) as proxy:
        queue.put(1, delay=3600)
        with Programs(proxy.url + SLOW, tmp_path) as programs:
            names = ("dispatch", "events", "work") if number == signal.SIGTERM else ("reap", "metrics", "consume")
            programs.start(*names, client=client)
            proxy.is_blackhole = True
            seen = len(proxy.requests)
            wait_until(lambda: len(proxy.requests) > seen, PATIENCE_S, "somebody asks in vain")
            ends = programs.end(number)
        assert {name: end.code for name, end in ends.items()} == {
            name: AS_A_SHELL_SAYS.get((name, number), 0) for name in names
        }
        assert not any("Traceback" in end.err for end in ends.values()), ends
        if "consume" in ends:
            assert "could not be sent to Redis" in ends["consume"].err


@pytest.mark.slow
def test_one_signal_is_enough_while_redis_is_away(client: Redis, url: str, tmp_path: Path) -> None:
    with Proxy(url) as proxy, Programs(proxy.url, tmp_path) as programs:
        names = ("dispatch", "metrics", "consume")
        programs.start(*names, client=client)
        proxy.refuse()
        wait_until(lambda: "Next try in" in programs.read_output("dispatch"), PATIENCE_S, "the dispatcher waits")
        wait_until(lambda: "Trying again in" in programs.read_output("consume"), PATIENCE_S, "the consumer waits")
        ends = programs.end(signal.SIGTERM)
    assert {name: end.code for name, end in ends.items()} == {**dict.fromkeys(names, 0), "dispatch": 143}


@pytest.mark.slow
def test_a_hangup_that_was_ignored_at_the_start_stays_ignored(client: Redis, url: str, tmp_path: Path) -> None:
    def as_nohup_does() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with Queue("mail", client) as queue, Programs(url, tmp_path, preexec_fn=as_nohup_does) as programs:
        programs.start("dispatch", client=client)
        programs.running["dispatch"].send_signal(signal.SIGHUP)
        queue.put(1, delay=0.01)
        wait_until(lambda: queue.counts()["ready"] == 1, PATIENCE_S, "it goes on")
        assert programs.end(signal.SIGTERM)["dispatch"].code == 143


@pytest.mark.slow
def test_a_signal_that_comes_while_the_event_is_read_ends_it_all_the_same() -> None:
    code = """
import os, signal, threading, time
from rqtui.cli.signals import stop_on_signals
def send():
    time.sleep(0.0003)
    os.kill(os.getpid(), signal.SIGTERM)
for number in range(150):
    with stop_on_signals() as stop:
        threading.Thread(target=send).start()
        while not stop.wait(0):      # mostly inside the lock of the event, where the handler must not want it
            pass
print("ended")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], env=build_environment(""), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.stdout == "ended\n", ran.stderr


# ── in the middle of a change ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["delete", "mail", "--place", "ready", "--all"], signal.SIGTERM),
        pytest.param(["purge", "mail", "--place", "ready"], signal.SIGHUP, marks=pytest.mark.matrix),
        (["kill", "mail", "--place", "ready", "--filter", "job:x"], signal.SIGINT),
    ],
    ids=["all of a place", "a place at once", "what a filter finds"],
)
def test_a_change_of_many_jobs_that_is_broken_off_reports_what_was_done(
    client: Redis, url: str, tmp_path: Path, words: list[str], number: int
) -> None:
    total = 12_000
    with Queue("mail", client) as queue:
        queue.put_many([{"body": {}, "id": f"j{n}", "name": "x"} for n in range(total)])
    with Proxy(url) as proxy, Programs(proxy.url, tmp_path) as programs:
        act = programs.run("act", [*RQTUI, "act", *words, "--yes", "--json"])

        def slowed() -> int:
            done = total - client.zcard(f"{MAIL}ready")
            proxy.delay_s = 0.2 if done else 0.0
            return done

        wait_until(slowed, PATIENCE_S, "it began", every_s=0.001)
        act.send_signal(number)
        assert act.wait(PATIENCE_S) == 130, programs.read_output("act")
        document = json.loads(programs.read_output("act", "out"))
        moved = total - client.zcard(f"{MAIL}ready")
        assert 0 < document["moved"] == moved < total
        assert f"stopped after {moved} of {total}: interrupted." in programs.read_output("act")
    assert find_misplaced_jobs(client, "mail") == []


@pytest.mark.slow
def test_lines_are_enqueued_as_far_as_the_command_reported(client: Redis, url: str, tmp_path: Path) -> None:
    with Proxy(url) as proxy, Programs(proxy.url, tmp_path) as programs:
        put = programs.run("put", [*RQTUI, "put", "mail", "--lines", "-"])
        assert put.stdin
        os.set_blocking(put.stdin.fileno(), True)
        lines = b"".join(b'{"body": 1, "id": "j%d"}\n' % n for n in range(2_500))
        put.stdin.write(lines)
        put.stdin.flush()
        wait_until(lambda: client.zcard(f"{MAIL}ready"), PATIENCE_S, "some are in")
        put.send_signal(signal.SIGTERM)  # the pipe stays open: it waits for more
        assert put.wait(PATIENCE_S) == 130
        match = re.search(r"interrupted: jobs in the queue: (\d+), and perhaps the batch", programs.read_output("put"))
        assert match, programs.read_output("put")
        assert int(match[1]) <= client.zcard(f"{MAIL}ready") <= int(match[1]) + 1000
    assert find_misplaced_jobs(client, "mail") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_that_interrupts_no_system_call_of_the_main_thread_is_received(number: int) -> None:
    """As one does that comes just before a system call; here it comes to another thread."""
    read, write = os.pipe()
    ends = threading.Timer(PATIENCE_S, os.write, (write, b"it waited for that"))

    def sends() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    with interrupt_on_signals() as came, pytest.raises(KeyboardInterrupt):
        ends.start()
        threading.Timer(0.2, sends).start()
        os.read(read, 1)
    ends.cancel()
    os.write(write, b".")
    assert os.read(read, 64) == b"."
    assert came == ([] if number == signal.SIGINT else [number])
    os.close(read)
    os.close(write)


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_worker_that_is_asked_to_end_finishes_what_runs_and_leaves_the_rest(
    client: Redis, url: str, tmp_path: Path
) -> None:
    with Queue("mail", client) as queue, Programs(url, tmp_path) as programs:
        queue.put_many(range(3))
        begun, go = tmp_path / "begun", tmp_path / "go"
        script = f"touch {begun}; while ! test -e {go}; do sleep 0.05; done"
        work = programs.run("work", [*RQTUI, "work", "mail", "--json", "--", "sh", "-c", script])
        wait_until(begun.exists, PATIENCE_S)
        work.send_signal(signal.SIGHUP)
        wait_until(lambda: queue.counts()["ready"] == 2, PATIENCE_S)
        go.touch()
        assert work.wait(PATIENCE_S) == 0
        assert [json.loads(line)["outcome"] for line in programs.read_output("work", "out").splitlines()] == ["acked"]
        counts = queue.counts()
        assert (counts["acked"], counts["ready"], counts["reserved"]) == (1, 2, 0)


@pytest.mark.long
def test_a_command_that_ignores_sigterm_is_killed_and_its_job_released(client: Redis, url: str, tmp_path: Path) -> None:
    with Queue("mail", client) as queue, Programs(url, tmp_path) as programs:
        queue.put(1)
        pid = tmp_path / "pid"
        script = f"trap '' TERM HUP INT; echo $$ > {pid}; while :; do sleep 0.1; done"
        work = programs.run("work", [*RQTUI, "work", "mail", "--json", "--", "sh", "-c", script])
        wait_until(lambda: pid.exists() and pid.read_text().strip(), PATIENCE_S)
        work.send_signal(signal.SIGTERM)
        assert work.wait(PATIENCE_S) == 0
        lines = programs.read_output("work", "out").splitlines()
        assert [json.loads(line)["outcome"] for line in lines] == ["released"]
        assert not is_process_alive(int(pid.read_text()))
        assert queue.counts()["ready"] == 1


@pytest.mark.slow
def test_a_consumer_that_slept_past_its_lease_is_informed_that_it_came_too_late(
    client: Redis, url: str, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    waiting = f"""open({str(begun)!r}, 'w').close()
            while not __import__('os').path.exists({str(go)!r}):
                __import__('time').sleep(0.01)"""
    code = CONSUME.replace("pass", waiting).replace("consumer()", "consumer(ttr=0.5)")
    with Queue("mail", client) as queue, Programs(url, tmp_path) as programs:
        queue.put(1, id="a")
        sleeper = programs.run("sleeper", [sys.executable, "-c", code, url])
        wait_until(begun.exists, PATIENCE_S)
        sleeper.send_signal(signal.SIGSTOP)
        [job] = wait_until(lambda: reap_and_reserve(queue), PATIENCE_S, "its lease is over")
        assert (job.id, job.attempt) == ("a", 2)
        assert job.ack() == "moved"
        go.touch()
        sleeper.send_signal(signal.SIGCONT)
        wait_until(lambda: "ack of job 'a' came too late" in programs.read_output("sleeper"), PATIENCE_S)
        assert programs.end(signal.SIGTERM)["sleeper"].code == 0
        counts = queue.counts()
        assert (counts["acked"], counts["reserved"], counts["ready"]) == (1, 0, 0)


@pytest.mark.slow
def test_a_command_whose_worker_slept_past_its_lease_counts_as_lost(client: Redis, url: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Queue("mail", client) as queue, Programs(url, tmp_path) as programs:
        queue.put(1, id="a")
        command = [*RQTUI, "work", "mail", "--ttr", "500ms", "--max-jobs", "1", "--json", "--"]
        work = programs.run("work", [*command, "sh", "-c", f"touch {begun}; sleep 0.5"])
        wait_until(begun.exists, PATIENCE_S)
        work.send_signal(signal.SIGSTOP)
        [job] = wait_until(lambda: reap_and_reserve(queue), PATIENCE_S, "its lease is over")
        assert job.ack() == "moved"
        work.send_signal(signal.SIGCONT)
        assert work.wait(PATIENCE_S) == 0
        [line] = [json.loads(each) for each in programs.read_output("work", "out").splitlines()]
        assert line["outcome"] == "lost"
        assert queue.counts()["acked"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "child",
    [
        "sys.exit(0)",
        "multiprocessing",
        *(pytest.param(way, marks=pytest.mark.matrix) for way in ("pass", "raise ValueError")),
    ],
)
def test_a_process_that_a_handler_forks_settles_nothing_and_takes_nothing(
    client: Redis, url: str, tmp_path: Path, child: str
) -> None:
    code = f"""
import multiprocessing, os, sys
from rqtui.client import Queue
with Queue("mail", sys.argv[1]) as queue:
    for job in queue.consume(batch=5, burst=True):
        with job:
            os.write(1, job.id.encode() + b"\\n")
            if job.id == "j1" and {child!r} == "multiprocessing":
                there = multiprocessing.get_context("fork").Process(target=queue.put, args=(1,), kwargs={{"id": "new"}})
                there.start()
                there.join()
            elif job.id == "j1" and os.fork() == 0:
                {"pass" if child == "multiprocessing" else child}
            elif job.id == "j1":
                os.wait()
"""
    ids = [f"j{n}" for n in range(5)]
    with Queue("mail", client) as queue, Programs(url, tmp_path) as programs:
        queue.put_many([{"body": 1, "id": id} for id in ids])
        forker = programs.run("forker", [sys.executable, "-c", code, url])
        assert forker.wait(PATIENCE_S) == 0, programs.read_output("forker")
        new = ["new"] if child == "multiprocessing" else []
        assert programs.read_output("forker", "out").split() == [*ids, *new]
        assert "too late" not in programs.read_output("forker")
        counts: dict[str, Any] = queue.counts()
        assert (counts["acked"], counts["reserved"], counts["ready"]) == (5 + len(new), 0, 0)


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_a_stream_quietly(client: Redis, url: str, tmp_path: Path) -> None:
    with Queue("mail", client) as queue:
        queue.put_many(range(300))
    line = f"{sys.executable} -m rqtui jobs mail ready --limit 300 --json | head -c 20; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", line], env=build_environment(url), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.stdout.splitlines()[-1].endswith("0"), ran
    assert ran.stderr == ""
