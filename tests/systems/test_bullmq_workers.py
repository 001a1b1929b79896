"""Check what the locks of running jobs and the names of connections say about the workers of BullMQ queues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Finding, Ref
from rqtui.scenarios.originals.bullmq import build_connection_name
from rqtui.scripts import script as scripts
from rqtui.systems import registry
from rqtui.systems.bullmq import workers
from rqtui.systems.bullmq.system import DOUBT_PROBE_S, BullMQ

LOCK_MS = 30_000


def _plant_run(
    client: Redis, id: str, worker: str, name: str = "", queue: str = "mail", left_ms: int = LOCK_MS
) -> None:
    """Plant a running job with the lock of a worker."""
    key = f"bull:{queue}"
    client.hset(f"{key}:meta", "version", "bullmq:6.7.0")
    client.lpush(f"{key}:active", id)
    fields = {"name": "send", "data": "{}", "opts": "{}", "timestamp": 1, "processedOn": int(time.time() * 1000)}
    client.hset(f"{key}:{id}", mapping={**fields, **({"pb": name} if name else {})})  # type: ignore[arg-type]
    client.set(f"{key}:{id}:lock", f"{worker}:1", px=left_ms)


@contextmanager
def _connect_workers(url: str, *names: str, queue: str = "mail") -> Iterator[None]:
    """Open the waiting connection of a worker for each name; an empty name is that of an unnamed worker."""
    connections = [Redis.from_url(url, single_connection_client=True) for _name in names]
    try:
        for connection, name in zip(connections, names, strict=True):
            connection.client_setname(build_connection_name(queue, name))
        yield
    finally:
        for connection in connections:
            connection.close()


def _open_engine(client: Redis) -> Engine:
    return build_engine(client, [registry.create_system("bullmq")])


def _probe(engine: Engine, queue: str = "mail") -> list[tuple[str, str, str]]:
    """Return kind, severity and text of the findings about workers, from one more probe with a new list of workers."""
    system = engine.systems["bullmq"]
    assert isinstance(system, BullMQ)
    system._connections._read_s = float("-inf")
    findings: tuple[Finding, ...] = engine.send_request(system.probe_request(queue))
    return [(each.kind, each.severity, each.text) for each in findings if each.kind in ("worker-gone", "late-locks")]


def test_workers_without_names_that_outnumber_their_connections_are_information_until_a_lock_is_late(
    client: Redis, url: str
) -> None:
    for number in (1, 2, 3):
        _plant_run(client, str(number), f"uuid-{number}")
    with _connect_workers(url, "", ""):
        engine = _open_engine(client)
        text = "3 held by 3 workers without a name, of which 2 can have a connection, such as"
        ((kind, severity, found),) = _probe(engine)
        assert (kind, severity) == ("worker-gone", "info") and found.startswith(text)
        for number in (2, 3):
            client.pexpire(f"bull:mail:{number}:lock", LOCK_MS + 5_000)  # these renew their locks
        client.pexpire("bull:mail:1:lock", 13_000)
        assert _probe(engine) == [
            ("worker-gone", "warning", "1 held by 1 worker without a name, which renews no lock, such as 1")
        ]


def test_a_worker_that_renews_a_lock_after_its_connection_closed_lives(client: Redis, url: str) -> None:
    _plant_run(client, "1", "uuid-1", "closing", left_ms=20_000)
    with _connect_workers(url, "other"):
        engine = _open_engine(client)
        assert [found[:2] for found in _probe(engine)] == [("worker-gone", "info")]
        time.sleep(0.005)  # the renewal must be later by a millisecond
        client.pexpire("bull:mail:1:lock", LOCK_MS)
        assert _probe(engine) == []


def test_a_short_lock_duration_is_no_late_lock_once_a_renewal_was_seen(client: Redis, url: str) -> None:
    _plant_run(client, "1", "uuid-1", left_ms=5_000)
    with _connect_workers(url, ""):
        engine = _open_engine(client)
        assert [found[:2] for found in _probe(engine)] == [("late-locks", "info")]
        for left_ms in (8_000, 5_000, 8_000):
            client.pexpire("bull:mail:1:lock", left_ms)
            assert _probe(engine) == []


def test_a_connected_worker_with_a_name_is_never_gone(client: Redis, url: str) -> None:
    _plant_run(client, "1", "uuid-1", "alice")
    with _connect_workers(url, "alice"):
        engine = _open_engine(client)
        assert _probe(engine) == []
        client.pexpire("bull:mail:1:lock", 5_000)
        assert _probe(engine) == []


def test_the_next_probe_comes_early_while_it_is_open_whether_a_worker_was_killed(client: Redis, url: str) -> None:
    _plant_run(client, "1", "uuid-1", "killed")
    with _connect_workers(url, "other"):
        engine = _open_engine(client)
        system = engine.systems["bullmq"]
        assert system.probe_interval_s("mail") is None
        _probe(engine)
        assert system.probe_interval_s("mail") == DOUBT_PROBE_S
        client.delete("bull:mail:active")
        engine.take_snapshot()
        _probe(engine)
        assert system.probe_interval_s("mail") is None


def test_the_connections_are_listed_once_for_all_queues(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [f"queue-{number}" for number in range(8)]
    for queue in queues:
        _plant_run(client, "1", "uuid-1", "w1", queue)
    sent: list[str] = []
    build_command = scripts.build_command
    monkeypatch.setattr(scripts, "build_command", lambda words, key: (sent.append(words), build_command(words, key))[1])
    now_s = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with _connect_workers(url, "w1", queue="queue-0"):
        engine = _open_engine(client)
        for _look in range(6):
            engine.take_snapshot()
            now_s[0] += 2
        assert sent.count("CLIENT LIST") == 2, "at the start, and after ten seconds"
        sent.clear()
        for queue in queues:
            engine.fetch_workers(Ref("bullmq", queue))
        assert sent.count("CLIENT LIST") == 1


def test_a_long_list_of_connections_is_read_less_often(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "LONG_LIST_BYTES", 100)
    _plant_run(client, "1", "uuid-1", "w1")
    sent: list[str] = []
    build_command = scripts.build_command
    monkeypatch.setattr(scripts, "build_command", lambda words, key: (sent.append(words), build_command(words, key))[1])
    now_s = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with _connect_workers(url, "w1"):
        engine = _open_engine(client)
        for _look in range(15):
            engine.take_snapshot()
            now_s[0] += 2
        assert sent.count("CLIENT LIST") == 1
        now_s[0] += 2
        engine.take_snapshot()
        assert sent.count("CLIENT LIST") == 2
