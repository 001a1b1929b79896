"""`rqtui dispatch` in place of redis_queue_dispatcher: its options, its table, its signals, and what it does better."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from proxy import Proxy
from redis import Redis
from shell import process, shell
from waiting import wait_until


def tasks(client: Redis, *due_s: float, key: str = "delayedtaskset") -> None:
    client.zadd(key, {f"task-{number}": due for number, due in enumerate(due_s)})


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    program = process("redis://127.0.0.1:1", "dispatch", *words)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize(
    "words",
    [
        ("-d", "later", "-r", "now", "-n", "10", "-v"),
        ("--delayed-task-zset-key", "later", "--ready-task-list-key", "now", "--batch-size", "10", "--verbose"),
        ("--layout", "dispatcher", "-d", "later", "-r", "now"),
        ("--layout", "dispatcher:delayed=later,ready=now"),
    ],
)
def test_the_options_of_the_original_mean_what_they_meant(client: Redis, url: str, words: tuple[str, ...]) -> None:
    tasks(client, *(time.time() - n for n in range(12)), key="later")
    with running("-u", url, *words) as program:
        wait_until(lambda: client.llen("now") == 12, 10, "all were dispatched")
        assert client.lrange("now", 0, -1) == [b"task-%d" % n for n in reversed(range(12))]
        program.send_signal(signal.SIGTERM)
        assert program.wait(5) == 0


def test_the_long_option_for_the_url_is_known(client: Redis, url: str) -> None:
    tasks(client, 1)
    ran = shell("redis://127.0.0.1:1", "dispatch", "--layout", "dispatcher", "--redis-url", url, "--once")
    assert ran.code == 0
    assert client.lrange("readytasklist", 0, -1) == [b"task-0"]


def test_without_a_key_of_it_in_redis_it_waits_for_the_default_names(client: Redis, url: str) -> None:
    with running("-u", url, "--layout", "dispatcher", "--json") as program:
        time.sleep(1)
        assert program.poll() is None
        tasks(client, time.time())
        wait_until(lambda: client.llen("readytasklist") == 1, 5, "it was dispatched")


def test_verbose_says_dispatched_delayed_ready_and_the_wait_for_every_step(client: Redis, url: str) -> None:
    tasks(client, 1, 2, time.time() + 60)
    client.rpush("readytasklist", "before")
    ran = shell(url, "dispatch", "--layout", "dispatcher", "-v", "--once")
    title, line = ran.out.splitlines()
    assert title.split() == ["queue", "dispatched", "delayed", "ready", "backing_off"]
    assert line.split()[:4] == ["readytasklist", "2", "1", "1"]  # ready counts before the batch
    assert 0 < int(line.split()[4]) <= 1000
    [document] = shell(url, "dispatch", "--layout", "dispatcher", "--once", "--json").lines
    assert (document["dispatched"], document["delayed"], document["ready"]) == (0, 1, 3)


def test_a_task_that_comes_while_it_idles_is_less_than_a_second_late(client: Redis, url: str) -> None:
    with running("-u", url, "--layout", "dispatcher"):
        time.sleep(2.5)  # the original would sleep for three seconds and more by now
        tasks(client, time.time())
        began = time.monotonic()
        wait_until(lambda: client.llen("readytasklist") == 1, 5, "it was dispatched")
        assert time.monotonic() - began < 1.5


def test_it_outlives_a_redis_that_goes_away(client: Redis, url: str) -> None:
    tasks(client, time.time() + 1)
    with Proxy(url) as proxy, running("-u", f"redis://127.0.0.1:{proxy.port}", "--layout", "dispatcher") as program:
        time.sleep(0.7)
        proxy.refuse()
        time.sleep(1.5)
        assert program.poll() is None
        proxy.listen()
        wait_until(lambda: client.llen("readytasklist") == 1, 10, "it was dispatched")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("dispatch", "--layout", "redisched", "-d", "later"), "--layout dispatcher"),
        (("dispatch", "--layout", "redisched"), "no dispatch is needed"),
        (("dispatch", "--layout", "nosuch"), "there are: dispatcher, native"),
        (("dispatch", "--layout", "dispatcher:redy=x"), "its options: ready, delayed"),
        (("dispatch", "--layout", "dispatcher:ready"), "is not key=value"),
        (("dispatch", "-d", "a,b"), "comma"),
        (("dispatch", "-d", "same", "-r", "same"), "two keys"),
        (("reap", "--gc"), "--gc is nothing for"),
        (("reap", "--layout", "dispatcher"), "no reap is needed"),
    ],
)
def test_what_cannot_be_meant_gets_a_sentence(client: Redis, url: str, words: tuple[str, ...], sentence: str) -> None:
    ran = shell(url, *words, "--once")
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_two_dispatchers_and_an_original_take_each_task_once(client: Redis, url: str) -> None:
    from rqtui.scenarios.originals.dispatcher import Dispatcher

    tasks(client, *(time.time() - 1 for _ in range(3000)))
    original = Dispatcher(client)
    with running("-u", url, "--layout", "dispatcher"), running("-u", url, "--layout", "dispatcher", "-n", "7"):
        while client.zcard("delayedtaskset"):
            original.step()
        wait_until(lambda: client.llen("readytasklist") == 3000, 10, "all are there")
    assert len(set(client.lrange("readytasklist", 0, -1))) == 3000


def test_json_lines_are_what_the_contract_says(client: Redis, url: str) -> None:
    tasks(client, 1)
    [line] = shell(url, "dispatch", "--layout", "dispatcher", "--once", "--json").lines
    assert line == {"queue": "readytasklist", "dispatched": 1, "delayed": 0, "ready": 0, "backing_off_ms": 1000}
    assert json.dumps(line)


def test_a_batch_size_beyond_ours_is_taken_as_ours(client: Redis, url: str) -> None:
    tasks(client, 1)
    ran = shell(url, "dispatch", "--layout", "dispatcher", "-n", "5000", "--once")
    assert (ran.code, client.llen("readytasklist")) == (0, 1)
    assert "batches of 1000" in ran.err


def test_without_a_layout_it_says_whose_queues_it_leaves_alone(client: Redis, url: str) -> None:
    with running("-u", url) as program:
        said = [program.stderr.readline().decode() for _ in range(2)]  # type: ignore[union-attr]
    assert "all queues of native" in said[0]
    assert "dispatcher are left alone unless they are named" in said[1]


def test_a_list_that_a_layout_was_told_of_is_no_other_ones(client: Redis, url: str) -> None:
    client.rpush("readytasklist", "a")
    ran = shell(url, "--layout", "dispatcher", "--layout", "safe_pop", "jobs", "readytasklist", "ready", "--json")
    assert (ran.code, ran.json["layout"]) == (0, "dispatcher")
