"""`rqtui dispatch` in place of redis_queue_dispatcher: its options, its table, its signals, and what it does better."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from families import run_in_one_test
from proxy import Proxy
from redis import Redis
from shell import shell, start_process
from waiting import wait_until

from rqtui.client.queue import Queue

PATIENCE_S = 20.0


def tasks(client: Redis, *due_s: float, key: str = "delayedtaskset") -> None:
    client.zadd(key, {f"task-{number}": due for number, due in enumerate(due_s)})


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    program = start_process("redis://127.0.0.1:1", "dispatch", *words)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def wait_for_error(program: subprocess.Popen[bytes], words: str) -> None:
    """Wait until a program has printed these words on stderr."""
    assert program.stderr
    lines = iter(program.stderr.readline, b"")
    assert any(words.encode() in line for line in lines), f"it ended without {words!r}"


@pytest.mark.parametrize(
    "words",
    [
        ("-d", "later", "-r", "now", "-n", "10", "-v"),
        ("--delayed-task-zset-key", "later", "--ready-task-list-key", "now", "--batch-size", "10", "--verbose"),
        ("--system", "dispatcher", "-d", "later", "-r", "now", "-n", "10"),
        ("--system", "dispatcher:delayed=later,ready=now", "-n", "10"),
    ],
)
def test_the_options_of_the_original_mean_what_they_meant(client: Redis, url: str, words: tuple[str, ...]) -> None:
    tasks(client, *(time.time() - n for n in range(12)), key="later")
    for dispatched in (10, 12):
        assert shell("redis://127.0.0.1:1", "dispatch", "-u", url, *words, "--once").code == 0
        assert client.llen("now") == dispatched
    assert client.lrange("now", 0, -1) == [b"task-%d" % n for n in reversed(range(12))]


@pytest.mark.slow
def test_the_loop_continues_until_a_stop_is_requested(client: Redis, url: str) -> None:
    tasks(client, *(time.time() - n for n in range(12)), key="later")
    with running("-u", url, "-d", "later", "-r", "now", "-n", "10", "-v") as program:
        wait_until(lambda: client.llen("now") == 12, PATIENCE_S, "all were dispatched")
        assert client.lrange("now", 0, -1) == [b"task-%d" % n for n in reversed(range(12))]
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE_S) == 143


def test_the_long_option_for_the_url_is_known(client: Redis, url: str) -> None:
    tasks(client, 1)
    ran = shell("redis://127.0.0.1:1", "dispatch", "--system", "dispatcher", "--redis-url", url, "--once")
    assert ran.code == 0
    assert client.lrange("readytasklist", 0, -1) == [b"task-0"]


@pytest.mark.slow
def test_without_a_key_of_it_in_redis_it_waits_for_the_default_names(client: Redis, url: str) -> None:
    with running("-u", url, "--system", "dispatcher", "--json") as program:
        wait_for_error(program, "Ctrl+C ends it.")
        tasks(client, time.time())
        wait_until(lambda: client.llen("readytasklist") == 1, PATIENCE_S, "it was dispatched")


EDGE = "+---------------+---------------+---------------+---------------+"
TITLES = "|  dispatched   |    delayed    |     ready     |  backing_off  |"


def test_verbose_prints_the_table_of_the_original(client: Redis, url: str) -> None:
    tasks(client, 1, 2, time.time() + 60)
    client.rpush("readytasklist", "before")
    ran = shell(url, "dispatch", "--system", "dispatcher", "-v", "--once")
    row = "|       2       |       1       |       1       |       1       |"  # ready: before the batch
    assert ran.out.splitlines() == [EDGE, TITLES, EDGE, row, EDGE]


def count_script_calls(client: Redis) -> int:
    """Return how often a script was called: the dispatcher reads its queues by one script."""
    actual = client.info("commandstats")
    return sum(actual.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "evalsha_ro"))


@pytest.mark.slow
def test_its_table_has_no_line_where_nothing_changed(client: Redis, url: str) -> None:
    tasks(client, time.time() + 60)
    with running("-u", url, "-v", "--system", "dispatcher") as program:
        assert program.stdout
        lines = [program.stdout.readline().decode().rstrip() for _ in range(4)]
        before = count_script_calls(client)
        wait_until(lambda: count_script_calls(client) >= before + 2, PATIENCE_S, "it looked twice more")
        client.rpush("readytasklist", "another")
        lines.append(program.stdout.readline().decode().rstrip())
        program.send_signal(signal.SIGTERM)
        lines += program.stdout.read().decode().splitlines()
    first, second = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[3:5])
    assert lines[:3] == [EDGE, TITLES, EDGE] and lines[-1] == EDGE and len(lines) == 6
    assert (first, second) == (["0", "1", "0", "1"], ["0", "1", "1", "1"])


@pytest.mark.slow
def test_its_titles_come_again_after_51_lines(client: Redis, url: str) -> None:
    tasks(client, *(time.time() - 1 for _ in range(60)))
    with running("-u", url, "-v", "--system", "dispatcher", "-n", "1") as program:
        wait_until(lambda: client.llen("readytasklist") == 60, 20, "all were dispatched")
        program.send_signal(signal.SIGTERM)
        out, _err = program.communicate(timeout=10)
    lines = out.decode().splitlines()
    assert [number for number, line in enumerate(lines) if line == TITLES] == [1, 1 + 3 + 51]


def test_without_a_key_or_a_system_it_serves_the_default_names(client: Redis, url: str) -> None:
    tasks(client, 1)
    ran = shell(url, "dispatch", "-v", "--once")
    assert (ran.code, client.lrange("readytasklist", 0, -1)) == (0, [b"task-0"])
    assert ran.out.splitlines()[3] == "|       1       |       0       |       0       |       1       |"


def test_the_default_names_are_served_beside_the_native_queues(client: Redis, url: str) -> None:
    with Queue("mail", client) as queue:
        queue.put(1, delay=0.001)
    tasks(client, 1)
    time.sleep(0.01)
    ran = shell(url, "dispatch", "--once", "--json")
    assert {(line["queue"], line["dispatched"]) for line in ran.lines} == {("mail", 1), ("readytasklist", 1)}


def test_a_system_without_keys_is_not_reported(client: Redis, url: str) -> None:
    with Queue("mail", client) as queue:
        queue.put(1)
    ran = shell(url, "dispatch", "--once", "--json")
    assert [line["queue"] for line in ran.lines] == ["mail"]


def test_default_names_that_another_program_uses_are_no_fault_of_the_native_queues(client: Redis, url: str) -> None:
    client.set("readytasklist", "a string")
    client.set("delayedtaskset", "a string")
    ran = shell(url, "dispatch", "--once")
    assert ran.code == 0 and "holds a string" in ran.err
    assert shell(url, "dispatch", "--system", "dispatcher", "--once").code == 1


def test_a_queue_that_is_named_is_served_alone(client: Redis, url: str) -> None:
    tasks(client, 1)
    with Queue("mail", client) as queue:
        queue.put(1)
    shell(url, "dispatch", "mail", "--once")
    assert client.zcard("delayedtaskset") == 1


@pytest.mark.slow
def test_an_interrupt_ends_it_though_a_script_had_it_ignored(client: Redis, url: str) -> None:
    def as_a_shell_does() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with Proxy(url) as proxy:
        for is_starting in (False, True):
            proxy.is_blackhole = is_starting  # then it never hears from Redis, and is never done with its start
            seen = len(proxy.requests)
            options = ("--once",) if is_starting else ()
            program = start_process(f"{proxy.url}?socket_timeout=300", "dispatch", *options, preexec_fn=as_a_shell_does)
            try:
                wait_until(lambda seen=seen: len(proxy.requests) > seen, 20, "it asks Redis")
                if not is_starting:
                    assert program.stderr and b"Ctrl+C ends it" in program.stderr.readline()
                program.send_signal(signal.SIGINT)
                assert program.wait(20) == 130
            finally:
                program.kill()
                program.wait()


@pytest.mark.slow
@pytest.mark.parametrize("is_starting", [True, False], ids=["while it starts", "later"])
@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        (("dispatch",), signal.SIGTERM, 143),
        pytest.param(("dispatch",), signal.SIGHUP, 0, marks=pytest.mark.matrix),
        pytest.param(("reap",), signal.SIGTERM, 0, marks=pytest.mark.matrix),
        pytest.param(("reap",), signal.SIGHUP, 0, marks=pytest.mark.matrix),
        pytest.param(("work", "mail", "--", "true"), signal.SIGTERM, 0, marks=pytest.mark.matrix),
        (("work", "mail", "--", "true"), signal.SIGHUP, 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value.name if isinstance(value, signal.Signals) else "",
)
def test_asked_to_end_while_it_starts_it_ends_with_the_same_code_as_later(
    client: Redis, url: str, words: tuple[str, ...], number: int, code: int, is_starting: bool
) -> None:
    command, *after = words
    with Proxy(url) as proxy:
        proxy.is_blackhole = is_starting  # then it never hears from Redis, so it is never done with its start
        options = ("--once",) if is_starting and command != "work" else ()
        program = start_process(f"{proxy.url}?socket_timeout=300", command, *options, *after)
        try:
            wait_until(lambda: proxy.requests, 20, "it asks Redis")
            if not is_starting and command == "work":
                wait_until(lambda: client.exists("rqtui:{mail}:workers"), 20, "it waits for jobs")
            elif not is_starting:
                assert program.stderr and b"Ctrl+C ends it" in program.stderr.readline()
            program.send_signal(number)
            assert program.wait(20) == code
        finally:
            program.kill()
            program.wait()


def test_verbose_says_dispatched_delayed_ready_and_the_wait_for_every_step(client: Redis, url: str) -> None:
    tasks(client, 1, 2, time.time() + 60)
    client.rpush("readytasklist", "before")
    ran = shell(url, "dispatch", "--system", "dispatcher", "-vv", "--once")
    title, line = ran.out.splitlines()
    assert title.split() == ["queue", "dispatched", "delayed", "ready", "backing_off"]
    assert line.split()[:4] == ["readytasklist", "2", "1", "1"]  # ready counts before the batch
    assert 0 < int(line.split()[4]) <= 1000
    [document] = shell(url, "dispatch", "--system", "dispatcher", "--once", "--json").lines
    assert (document["dispatched"], document["delayed"], document["ready"]) == (0, 1, 3)


@pytest.mark.slow
def test_however_long_it_idles_it_looks_again_within_a_second(client: Redis, url: str) -> None:
    with running("-u", url, "--system", "dispatcher", "--verbose", "--json") as program:
        assert program.stdout
        steps = [json.loads(program.stdout.readline()) for _ in range(4)]
        assert [step["dispatched"] for step in steps] == [0] * 4
        assert max(step["backing_off_ms"] for step in steps) <= 1000  # the original waits longer after each
        tasks(client, time.time())
        wait_until(lambda: client.llen("readytasklist") == 1, PATIENCE_S, "it was dispatched")


@pytest.mark.slow
def test_it_outlives_a_redis_that_goes_away(client: Redis, url: str) -> None:
    with Proxy(url) as proxy, running("-u", f"redis://127.0.0.1:{proxy.port}", "--system", "dispatcher") as program:
        wait_for_error(program, "Ctrl+C ends it.")
        proxy.refuse()
        tasks(client, time.time())
        wait_for_error(program, "Next try in")
        assert program.poll() is None
        proxy.listen()
        wait_until(lambda: client.llen("readytasklist") == 1, PATIENCE_S, "it was dispatched")


@run_in_one_test(
    ("words", "sentence"),
    [
        (("dispatch", "--system", "redisched", "-d", "later"), "--system dispatcher"),
        (("dispatch", "--system", "redisched"), "no dispatch is needed"),
        (("dispatch", "--system", "nosuch"), "there are: arq, bullmq, celery, dispatcher, native"),
        (("dispatch", "--system", "dispatcher:redy=x"), "its options: ready, delayed"),
        (("dispatch", "--system", "dispatcher:ready"), "is not key=value"),
        (("dispatch", "-d", "a,b"), "comma"),
        (("dispatch", "-d", "same", "-r", "same"), "two keys"),
        (("reap", "--gc"), "--gc is nothing for"),
        (("reap", "--system", "dispatcher"), "no reap is needed"),
    ],
)
def test_impossible_options_get_a_sentence(client: Redis, url: str, words: tuple[str, ...], sentence: str) -> None:
    ran = shell(url, *words, "--once")
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_two_dispatchers_and_an_original_take_each_task_once(client: Redis, url: str) -> None:
    from rqtui.scenarios.originals.dispatcher import Dispatcher

    tasks(client, *(time.time() - 1 for _ in range(3000)))
    original = Dispatcher(client)
    with running("-u", url, "--system", "dispatcher"), running("-u", url, "--system", "dispatcher", "-n", "7"):
        while client.zcard("delayedtaskset"):
            original.step()
        wait_until(lambda: client.llen("readytasklist") == 3000, PATIENCE_S, "all are there")
    assert len(set(client.lrange("readytasklist", 0, -1))) == 3000


def test_json_lines_are_what_the_contract_says(client: Redis, url: str) -> None:
    tasks(client, 1)
    [line] = shell(url, "dispatch", "--system", "dispatcher", "--once", "--json").lines
    assert line == {"queue": "readytasklist", "dispatched": 1, "delayed": 0, "ready": 0, "backing_off_ms": 1000}
    assert json.dumps(line)


def test_a_batch_size_beyond_ours_is_taken_as_ours(client: Redis, url: str) -> None:
    tasks(client, 1)
    ran = shell(url, "dispatch", "--system", "dispatcher", "-n", "5000", "--once")
    assert (ran.code, client.llen("readytasklist")) == (0, 1)
    assert "batches of 1000" in ran.err


@pytest.mark.slow
def test_without_a_system_it_reports_whose_queues_it_serves(client: Redis, url: str) -> None:
    with running("-u", url) as program:
        first = program.stderr.readline().decode()  # type: ignore[union-attr]
    assert "all queues of native, dispatcher" in first


def test_a_list_named_by_an_option_of_a_system_belongs_to_no_other_one(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    ran = shell(url, "--system", "dispatcher", "--system", "safe_pop", "jobs", "readytasklist", "ready", "--json")
    assert (ran.code, ran.json["layout"]) == (0, "dispatcher")
