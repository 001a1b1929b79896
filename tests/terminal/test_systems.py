"""The five systems in a real terminal (tmux, 80×24): every verb by its key, beside their authors' own workers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from orizuru_subject import SEEN, build_seen_record
from redis import Redis
from tmux import RQTUI, Terminal, small  # noqa: F401
from waiting import wait_until

from rqtui.scenarios.originals import dispatcher, orizuru, redisched, safe_pop, timeout_sets

pytestmark = [pytest.mark.real_terminal, pytest.mark.slow, pytest.mark.matrix]
LOOKS_EVERY_S = 1.0  # a loop
HOUR_MS = 3_600_000
LABELS = {
    "A": "A ack",
    "L": "L release",
    "K": "K reject",
    "R": "R run",
    "T": "T reschedule",
    "E": "E extend",
    "P": "P pause",
    "D": "D delete",
    "N": "N enqueue",
}


class Hand:
    """A person at a board."""

    def __init__(self, terminal: Terminal, url: str, spec: str, queue: str) -> None:
        self.terminal = terminal
        terminal.run(f"{RQTUI} -u {url} --system {spec}")
        terminal.until(f"{spec.partition(':')[0]}:{queue}", "1 queue", "write")
        terminal.keys("=", "=", "=")

    def sees(self, *words: str) -> str:
        """Wait for words on the screen."""
        return self.terminal.until(*words)

    def presses(self, *keys: str) -> None:
        self.terminal.keys(*keys)

    def acts(self, keys: str, becomes: Callable[[], object], *seen: str) -> None:
        """Press keys (`"text` types), then wait for a state of Redis and for words on the screen."""
        for key in keys.split():
            if key.startswith('"'):
                self.terminal.type(key[1:].replace("_", " "))
            else:
                self.terminal.keys(key)
        try:
            wait_until(becomes, 10, f"what {keys} does", every_s=0.02)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{self.terminal.text()}") from None
        self.terminal.until(*seen)

    def takes(self, verb: str, becomes: Callable[[], object], *seen: str) -> None:
        """Take the next job with a command of the palette, and confirm."""
        self.acts(f': "{verb} Enter', lambda: True, f"y {verb}   ")
        self.acts("y", becomes, *seen)

    def lacks(self, keys: str) -> None:
        """Check that these keys are not in the footer and do nothing."""
        footer = self.terminal.text().rstrip().splitlines()[-1]
        assert not [key for key in keys if LABELS[key] in footer], footer
        self.terminal.keys(*keys)
        assert "cancel" not in self.terminal.text(), "a dialog opened"

    def leaves(self, stays: Callable[[], object]) -> None:
        """For longer than a loop rests, nothing changes."""
        time.sleep(1.3 * LOOKS_EVERY_S)
        assert stays()


def test_dispatcher(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    delayed, ready = dispatcher.DELAYED, dispatcher.READY
    now_s = time.time()
    for number, task in enumerate((b"later-1", b"later-2", b"later-3")):
        dispatcher.put_delayed_task(client, task, int(now_s) + 3600 + number)
    client.rpush(ready, b"one", b"two")
    hand = Hand(small, url, "dispatcher", ready)
    hand.presses("Enter")
    hand.sees("views")  # the board opened, on the place where most jobs are
    hand.presses("2")
    hand.sees("1 delayed 3", "2 ready 2", "■ off", " one ")
    hand.lacks("ALKEP")
    hand.acts("D y", lambda: client.lrange(ready, 0, -1) == [b"two"], "2 ready 1")
    hand.acts('N "by_hand Tab Enter', lambda: client.lrange(ready, 0, -1) == [b"two", b"by hand"], "2 ready 2")
    hand.acts('N "due Tab "2h Enter', lambda: client.zscore(delayed, b"due"), "1 delayed 4")
    assert abs((client.zscore(delayed, b"due") or 0) - now_s - 7200) < 60
    hand.presses("1")
    hand.sees("later-1", "due in")
    hand.acts("R", lambda: client.lrange(ready, -1, -1) == [b"later-1"], "1 delayed 3", "2 ready 3")
    hand.acts('j T "5h Enter', lambda: (client.zscore(delayed, b"later-2") or 0) > now_s + 4 * 3600, "4h59")
    hand.presses("g")
    hand.acts("D y", lambda: client.zcard(delayed) == 2, "1 delayed 2")
    assert client.zscore(delayed, b"later-3") is None

    # Its dispatcher: off, a step, on, off.
    client.zadd(delayed, {b"now-1": now_s - 9})
    hand.sees("no dispatcher")
    hand.leaves(lambda: client.zscore(delayed, b"now-1"))
    hand.acts("<", lambda: client.lrange(ready, -1, -1) == [b"now-1"], "dispatcher: 1 moved")
    hand.acts(",", lambda: True, "dispatcher is on for readytasklist")
    client.zadd(delayed, {b"now-2": now_s - 9})
    wait_until(lambda: client.lrange(ready, -1, -1) == [b"now-2"], 5)
    hand.acts(",", lambda: True, "dispatcher of this screen is off for")
    client.zadd(delayed, {b"now-3": now_s - 9})
    hand.leaves(lambda: client.zscore(delayed, b"now-3"))
    hand.acts(".", lambda: True, "dispatcher needs no reaper")

    # Its own program and a worker, beside it.
    done: list[bytes] = []
    assert dispatcher.Dispatcher(client).step() == (1, 2, 5)
    worker = dispatcher.Worker(client, done.append)
    assert all(worker.step() for _ in range(5)) and done[0] == b"two"
    hand.presses("2")
    hand.sees("2 ready 1", "now-3", "1 delayed 2")
    hand.takes("pull", lambda: client.llen(ready) == 0, "2 ready 0")


def test_redisched(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    topic = redisched.Scheduler(client, "help")
    queued, reserved = "__REDIS_SCHED_QUEUED__help", "__REDIS_SCHED_RESERVED__help"
    for number, id in enumerate(("l1", "l2", "l3")):
        topic.put(id, b'{"n": 1}', 3600 + number)
    for number, id in enumerate(("a1", "a2", "a3", "d1", "d2")):
        topic.put(id, b'{"n": 2}', number - 60)
    assert [topic.reserve(600_000 + number) for number in range(3)] == [(b"a%d" % n, b'{"n": 2}') for n in (1, 2, 3)]
    hand = Hand(small, url, "redisched", "help")
    hand.presses("Enter")
    hand.sees("views")  # the board opened, on the place where most jobs are
    hand.presses("2")
    hand.sees("1 queued 3", "2 due 2", "3 reserved 3", "4 expired 0", "d1")
    hand.lacks("KP")
    hand.acts("D y", lambda: not client.hexists("__REDIS_SCHED_JOBS__help", "d1"), "2 due 1")
    hand.acts(
        'N "by_hand Tab "mine Enter', lambda: client.hget("__REDIS_SCHED_JOBS__help", "mine") == b"by hand", "2 due 2"
    )
    assert (client.zscore(queued, "mine") or 0) > 1e12, "in the unit of the others"
    hand.presses("1")
    hand.sees("l1", "59m")
    hand.acts("R", lambda: (client.zscore(queued, "l1") or 9e99) <= time.time() * 1000, "1 queued 2", "2 due 3")
    hand.acts('j T "5h Enter', lambda: (client.zscore(queued, "l2") or 0) > (time.time() + 4 * 3600) * 1000, "4h59")
    hand.presses("3")
    hand.sees("a1", "A ack")
    hand.acts("A y", lambda: not client.hexists("__REDIS_SCHED_JOBS__help", "a1"), "3 reserved 2")
    hand.acts(
        "j L y", lambda: client.zscore(queued, "a2") and not client.zscore(reserved, "a2"), "3 reserved 1", "2 due 4"
    )
    hand.acts('j E "2h Enter', lambda: (client.zscore(reserved, "a3") or 0) > time.time() * 1000 + HOUR_MS, "1h59")
    hand.acts(",", lambda: True, "redisched needs no dispatcher")

    # Its reaper: off, a step, on, off.
    client.zadd(reserved, {"a3": time.time() * 1000 - 9000})
    hand.sees("3 reserved 0", "4 expired 1", "no reaper has run")
    hand.acts("j", lambda: True, "no worker holds a job")
    hand.presses("4")
    hand.sees("no reaper has run", "a3")
    hand.leaves(lambda: client.zscore(reserved, "a3"))
    hand.acts(">", lambda: client.zcard(reserved) == 0, "reaper: 1 moved", "4 expired 0")
    hand.acts("j", lambda: True, "no lease is over")
    hand.acts(".", lambda: True, "reaper is on for help")
    topic.reserve(-9000)
    wait_until(lambda: client.zcard(reserved) == 0, 5)
    hand.acts(".", lambda: True, "reaper of this screen is off for")
    topic.reserve(-9000)
    hand.sees("4 expired 1")
    hand.leaves(lambda: client.zcard(reserved) == 1)
    hand.acts("j D y", lambda: client.zcard(reserved) == 0, "4 expired 0")
    hand.presses("w")
    hand.sees("stores no names of workers")
    hand.presses("Escape")
    hand.sees("3 reserved")

    # A worker of its own, beside it.
    worker = redisched.Worker(topic, pause=lambda _gap: hand.sees("3 reserved 1") and None)
    assert worker.step()
    hand.sees("2 due 3", "3 reserved 0")
    hand.takes("lease", lambda: client.zcard(reserved) == 1, "2 due 2", "3 reserved 1")
    hand.takes("pull", lambda: client.hlen("__REDIS_SCHED_JOBS__help") == 4, "2 due 1")


def test_timeout_sets(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    todo, running, done = timeout_sets.TODOS, timeout_sets.IN_PROGRESS, timeout_sets.DONE
    worker = timeout_sets.Worker(client, lock_ms=600_000)
    timeout_sets.add_items(client, [1, 2, 3, 4])
    for item in (b"1", b"2", b"3", b"4"):
        worker.take(item)
    timeout_sets.add_items(client, [11, 12])
    client.sadd(done, 21)
    hand = Hand(small, url, "timeout_sets", todo)
    hand.presses("Enter")
    hand.sees("views")  # the board opened, on the place where most jobs are
    hand.presses("1")
    hand.sees("1 todos 2", "2 in_progress 4", "3 done 1", "11", "12")
    hand.lacks("KTP")
    hand.acts("D y", lambda: client.scard(todo) == 1, "1 todos 1")
    hand.acts('N "42 Tab Enter', lambda: client.sismember(todo, 42), "1 todos 2")
    hand.presses("2")
    hand.sees("A ack", "left", "9m5")
    hand.acts("A y", lambda: (client.scard(running), client.scard(done)) == (3, 2), "2 in_progress 3", "3 done 2")
    hand.acts("j L y", lambda: (client.scard(running), client.scard(todo)) == (2, 3), "1 todos 3", "2 in_progress 2")
    assert sum(client.exists(f"{item}-lock") for item in (1, 2, 3, 4)) == 2
    locks = [f"{item.decode()}-lock" for item in client.smembers(running)]
    hand.acts('j E "2h Enter', lambda: any(client.pttl(lock) > HOUR_MS for lock in locks), "1h59")
    hand.presses("3")
    hand.sees("R requeue")
    hand.acts("R", lambda: (client.scard(done), client.scard(todo)) == (1, 4), "3 done 1", "1 todos 4")

    # Its cleaner: off, two steps, on.
    client.delete(*locks)
    hand.presses("2")
    hand.leaves(lambda: client.scard(running) == 2)
    hand.presses(">")
    wait_until(lambda: client.zcard("rqtui:{in_progress}:suspects") == 2, 5)
    assert client.scard(running) == 2, "seen once without a lock: its worker may be about to take one"
    time.sleep(2.1)
    hand.acts(">", lambda: client.scard(running) == 0, "reaper: 2 moved", "1 todos 6", "2 in_progress 0")
    hand.acts(".", lambda: True, "reaper is on for todos")
    client.smove(todo, running, 42)
    wait_until(lambda: client.sismember(todo, 42), 8)
    hand.acts(".", lambda: True, "reaper of this screen is off for")
    client.smove(todo, running, 42)
    hand.leaves(lambda: client.sismember(running, 42))
    hand.acts("j D y", lambda: client.scard(running) == 0, "2 in_progress 0", "1 todos 5")

    # Workers of its own, beside it.
    timeout_sets.Worker(client, work=lambda _item: hand.sees("2 in_progress 1", "1 todos 4") and None).step()
    hand.sees("2 in_progress 0", "3 done 2")
    hand.takes("lease", lambda: client.scard(running) == 1, "1 todos 3", "2 in_progress 1")
    hand.takes("pull", lambda: client.scard(done) == 3, "1 todos 2", "3 done 3")


def test_orizuru(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    worker = orizuru.Worker(client, "jobs", "w1")
    worker.register()
    worker.beat(600_000)
    bodies = [orizuru.push_job(client, "jobs", number, f"job-{number}") for number in range(9)]
    holding, rejected = orizuru.build_key("w1", "processing"), orizuru.build_key("w1", "unacked")
    for _ in range(4):
        worker.take_next()
    last = worker.take_next()
    assert last is not None
    last.reject()
    hand = Hand(small, url, "orizuru:source=jobs", "jobs")
    hand.presses("Enter")
    hand.sees("views")  # the board opened, on the place where most jobs are
    hand.presses("1")
    hand.sees("1 source 4", "2 processing 4", "3 unacked 1", "job-5")
    hand.lacks("TEP")
    hand.acts("D y", lambda: bodies[5] not in client.lrange("jobs", 0, -1), "1 source 3")
    new = orizuru.encode_struct(7, "new")
    hand.acts('N "[7,"new"] Tab Enter', lambda: client.lindex("jobs", 0) == new, "1 source 4")
    hand.presses("2")
    hand.sees("w1", "worker", "K reject", "job-0")
    hand.acts("A y", lambda: bodies[0] not in client.lrange(holding, 0, -1), "2 processing 3")
    hand.acts("j L y", lambda: client.lindex("jobs", -1) == bodies[1], "2 processing 2", "1 source 5")
    hand.acts("j K y", lambda: client.lindex(rejected, 0) == bodies[2], "2 processing 1", "3 unacked 2")
    hand.presses("3")
    hand.sees("job-4", "w1", "R requeue")
    hand.acts("R", lambda: bodies[4] in client.lrange("jobs", 0, -1), "3 unacked 1", "1 source 6")
    hand.acts("j D y", lambda: client.llen(rejected) == 0, "3 unacked 0")
    hand.acts("j", lambda: True, "no job is in unacked")
    hand.presses("w")
    hand.sees("w1", "running")
    hand.presses("Escape")
    hand.sees("3 unacked")

    # Its reaper, which the original has not: off, a step, on, off.
    dead = orizuru.Worker(client, "jobs", "gone")
    dead.beat(600_000)
    dead.take_next()

    def dies() -> None:
        """Stop the heartbeats of a consumer whose list a reaper has seen unchanged for an hour."""
        then_ms = int(time.time() * 1000) - HOUR_MS
        client.delete(orizuru.build_key("gone", "heartbeat"))
        client.hset(orizuru.HEARTBEATS, "gone", then_ms)
        client.hset(SEEN, "gone", build_seen_record(client.lindex(orizuru.build_key("gone", "processing"), 0), then_ms))

    dies()
    hand.presses("2")
    hand.sees("sent no heartbeat", "gone", "2 processing 2")
    hand.leaves(lambda: client.llen(orizuru.build_key("gone", "processing")) == 1)
    hand.acts(">", lambda: client.lindex("jobs", -1) == bodies[1], "reaper: 1 moved", "1 source 6")
    hand.acts(".", lambda: True, "reaper is on for jobs")
    dead.take_next()
    dies()
    wait_until(lambda: client.lindex("jobs", -1) == bodies[1], 5)
    hand.acts(".", lambda: True, "reaper of this screen is off for")
    dead.take_next()
    hand.leaves(lambda: client.llen(orizuru.build_key("gone", "processing")) == 1)

    # A consumer of its own, beside it.
    other = orizuru.Worker(client, "jobs", "w2", lambda _message: hand.sees("2 processing 3", "w2", "1 source 4"))
    other.register()
    other.beat(600_000)
    assert other.step() == "acked"
    hand.sees("2 processing 2", "1 source 4")
    hand.takes(
        "lease", lambda: client.llen(orizuru.build_key("rqtui", "processing")) == 1, "2 processing 3", "1 source 3"
    )
    hand.takes("pull", lambda: client.llen("jobs") == 2, "1 source 2")


def test_safe_pop(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    for id in ("a1", "a2", "a3", "f1", "f2"):
        client.set(f"q:data:{id}", f'{{"n": "{id}"}}', ex=86_400)
        client.lpush("q", id)
    worker = safe_pop.Worker(client, "q", block_s=0)
    assert [worker.safe_pop() for _ in range(3)] == [b"a1", b"a2", b"a3"]

    def entries(of: str) -> list[bytes]:
        return [entry for entry in client.lrange("q", 0, -1) if entry.split(b"|")[0] == of.encode()]

    hand = Hand(small, url, "safe_pop:queue=q,timeout_s=600", "q")
    hand.presses("Enter")
    hand.sees("views")  # the board opened, on the place where most jobs are
    hand.presses("1")
    hand.sees("1 ready 2", "2 in_progress 3", "3 expired 0", "f1")
    hand.lacks("KRTP")
    hand.acts("D y", lambda: not entries("f1") and not client.exists("q:data:f1"), "1 ready 1")
    hand.acts('N "by_hand Tab "mine Enter', lambda: client.get("q:data:mine") == b"by hand", "1 ready 2")
    assert client.lindex("q", 0) == b"mine"
    hand.presses("2")
    hand.sees("lease", "A ack", "a1")
    hand.acts("A y", lambda: not entries("a1") and not client.exists("q:data:a1"), "2 in_progress 2")
    hand.acts("j L y", lambda: entries("a2") == [b"a2"], "2 in_progress 1", "1 ready 3")
    before = entries("a3")
    hand.acts('j E "2h Enter', lambda: entries("a3") not in ([], before), "1h59")

    # Its reaper, which the original leaves to whoever pops: off, a step, on, off.
    client.lrem("q", 1, entries("a3")[0])
    client.rpush("q", b"a3|%d" % (time.time() - 700))
    hand.sees("2 in_progress 0", "3 expired 1", "no reaper has run")
    hand.presses("3")
    hand.sees("no reaper has run", "a3")
    hand.leaves(lambda: entries("a3") != [b"a3"])
    hand.acts(">", lambda: entries("a3") == [b"a3"], "reaper: 1 moved", "3 expired 0", "1 ready 4")
    hand.acts(".", lambda: True, "reaper is on for q")
    client.rpush("q", b"late|%d" % (time.time() - 700))
    wait_until(lambda: entries("late") == [b"late"], 5)
    hand.acts(".", lambda: True, "reaper of this screen is off for")
    client.lrem("q", 1, b"late")
    client.rpush("q", b"late|%d" % (time.time() - 700))
    hand.sees("3 expired 1")
    hand.leaves(lambda: entries("late") not in ([], [b"late"]))
    hand.acts("j D y", lambda: not entries("late"), "3 expired 0")

    # A worker of its own, beside it: what it has finished is marked, and its entry stays until a worker pops it.
    own = safe_pop.Worker(client, "q", lambda _id, _body: hand.sees("2 in_progress 1", "1 ready 3") and None, block_s=0)
    assert own.step() == "finished" and client.scard("q:done") == 1
    hand.takes("lease", lambda: sum(b"|" in entry for entry in client.lrange("q", 0, -1)) == 2, "2 in_progress 2")
    hand.takes("pull", lambda: client.llen("q") == 3, "1 ready 1")
