"""TLS to sentinels and to the nodes of a Cluster, which want a certificate of ours: followed, refused, explained."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from authority import Files, issue_certificates
from fleet import Fleet, Server
from redis.exceptions import RedisError
from screens import run_on_event_loop, screen
from shell import shell
from waiting import wait_until
from workers import Worker

from rqtui.client.queue import Queue
from rqtui.errors import ServerError

NAMES = ("red", "green", "blue", "mail", "sms", "pdf")
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return issue_certificates(tmp_path_factory.mktemp("authority"), "127.0.0.1")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Another authority, of which no server has heard."""
    return issue_certificates(tmp_path_factory.mktemp("stranger"), "127.0.0.1")


@pytest.fixture
def fleet(files: Files) -> Iterator[Fleet]:
    with Fleet(files) as fleet:
        yield fleet


class Watched:
    """A primary, its replica and the sentinel that watches them, all in TLS alone."""

    def __init__(self, fleet: Fleet) -> None:
        self.primary = fleet.start()
        self.replica = fleet.start(replicaof=self.primary)
        self.sentinel = fleet.sentinel(self.primary)
        self.hosts = f"127.0.0.1:{self.sentinel.port}"
        self.url = f"rediss+sentinel://127.0.0.1:1,{self.hosts}/jobs{fleet.options}"
        wait_until(self._sees_replica, what="the sentinel's view of the replica")

    def _sees_replica(self) -> bool:
        return len(self.sentinel.client.execute_command("SENTINEL", "REPLICAS", "jobs")) == 1


@pytest.fixture
def watched(fleet: Fleet) -> Watched:
    return Watched(fleet)


def _leads(server: Server) -> bool:
    try:
        return server.info("replication")["role"] == "master"
    except RedisError:  # one that is promoted closes all connections
        return False


def _stepped_calls(queue: Queue) -> bool:
    try:
        queue.counts()
    except ServerError:
        return False
    return True


# Sentinels -----------------------------------------------------------------------------------------------------------


def test_the_primary_that_sentinels_with_tls_name_is_followed_through_a_failover(watched: Watched) -> None:
    ran: list[str] = []
    stop = threading.Event()

    def consume() -> None:
        with Queue("mail", watched.url) as queue:
            for job in queue.consume(ttr=30, stop=stop):
                with job:
                    ran.append(job.id)

    worker = threading.Thread(target=consume, daemon=True)
    with Queue("mail", watched.url) as queue:
        worker.start()
        queue.put(1, id="before")
        wait_until(lambda: ran == ["before"])
        assert shell(watched.url, "snapshot", "--json").json["queues"][0]["queue"] == "mail"
        wait_until(lambda: watched.replica.client.exists("rqtui:{mail}:meta"))
        watched.primary.kill()
        wait_until(lambda: _leads(watched.replica), what="the failover")
        wait_until(lambda: _stepped_calls(queue), what="the way to the new primary")
        queue.put(2, id="after")
        wait_until(lambda: ran[-1] == "after", what="the worker's return")
        stop.set()
        worker.join(30)
    assert watched.replica.client.zcard("rqtui:{mail}:ready") == 0


def test_a_worker_with_tls_leaves_an_old_primary_that_continues_answering(kind: Any, watched: Watched) -> None:
    with kind("mail", watched.url) as queue, Worker(watched.url, kind=kind) as worker:
        queue.put(1, id="before")
        wait_until(lambda: worker.ran == ["before"])
        wait_until(lambda: watched.replica.client.exists("rqtui:{mail}:meta"))
        watched.primary.pause()
        wait_until(lambda: _leads(watched.replica), what="the failover")
        watched.primary.resume()
        with Queue("mail", watched.replica.url) as new:
            new.put(2, id="after")
        wait_until(lambda: "after" in worker.ran, what="the worker's way to the new primary")
        assert _leads(watched.primary), "the old primary was demoted before this test could show anything"
        assert worker.error is None


@run_on_event_loop
async def test_the_screen_behind_sentinels_with_tls_shows_the_queues(watched: Watched) -> None:
    with Queue("mail", watched.url) as queue:
        queue.put(1, id="a")
    async with screen(watched.url, (120, 35)) as ui:
        await ui.until_shown("mail")


def test_problems_of_the_tls_of_sentinels_are_reported(watched: Watched, files: Files, stranger: Files) -> None:
    at = f"rediss+sentinel://{watched.hosts}/jobs"
    for options, sentence in (
        (
            f"?ssl_ca_certs={stranger.authority}",
            "certificate that is not trusted. Name its authority with ?ssl_ca_certs",
        ),
        ("", "certificate that is not trusted"),
        (f"?ssl_ca_certs={files.authority}", "?ssl_certfile=FILE&ssl_keyfile=FILE"),
        (
            stranger.options.replace(str(stranger.authority), str(files.authority)),
            "?ssl_certfile=FILE&ssl_keyfile=FILE",
        ),
    ):
        result = shell(at + options, "put", "mail", "1")
        assert result.code == 3 and watched.hosts in result.err and sentence in result.err, (options, result.err)
    result = shell(at.replace("rediss", "redis"), "put", "mail", "1")
    assert result.code == 3 and "rediss" in result.err, result.err
    result = shell(f"rediss+sentinel://localhost:{watched.sentinel.port}/jobs{files.options}", "put", "mail", "1")
    assert result.code == 3 and "another host name" in result.err, result.err


# A Cluster -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(files: Files) -> Iterator[list[Server]]:
    with Fleet(files) as fleet:
        yield fleet.cluster()


@pytest.fixture
def cluster(nodes: list[Server], files: Files) -> str:
    """Return the URL of the empty nodes."""
    for node in nodes:
        node.client.flushall()
    return f"rediss+cluster://127.0.0.1:1,127.0.0.1:{nodes[0].port}{files.options}"


def test_queues_on_all_nodes_with_tls_are_put_to_waited_for_and_shown(cluster: str, nodes: list[Server]) -> None:
    stop = threading.Event()
    ran: list[str] = []

    def consume(name: str) -> None:
        with Queue(name, cluster) as queue:
            for job in queue.consume(ttr=30, stop=stop):
                with job:
                    ran.append(f"{name} {job.id}")

    workers = [threading.Thread(target=consume, args=(name,), daemon=True) for name in NAMES]
    for worker in workers:
        worker.start()
    for name in NAMES:
        with Queue(name, cluster) as queue:
            queue.put(1, id="now")
            queue.put(1, id="soon", delay="100ms")
    wait_until(lambda: sorted(ran) == sorted(f"{name} {id}" for name in NAMES for id in ("now", "soon")))
    stop.set()
    for worker in workers:
        worker.join(30)
    assert all(node.client.dbsize() for node in nodes)
    found = shell(cluster, "snapshot", "--json").json["queues"]
    assert {queue["queue"] for queue in found} == set(NAMES)
    assert shell(cluster, "dispatch", "--once").code == 0


@run_on_event_loop
async def test_the_screen_of_a_cluster_with_tls_changes_a_queue(cluster: str) -> None:
    with Queue("pdf", cluster) as queue:
        queue.put(1, id="a", delay="1h")
        async with screen(cluster, (120, 35), open_queue="pdf") as ui:
            await ui.until_shown("pdf", "scheduled")
            await ui.press("1", "R")
            await ui.until(lambda: queue.counts()["ready"] == 1, "the promotion")


def test_problems_of_the_tls_of_a_cluster_are_reported(
    cluster: str, nodes: list[Server], files: Files, stranger: Files
) -> None:
    at = f"rediss+cluster://127.0.0.1:{nodes[0].port}"
    for options, sentence in (
        (
            f"?ssl_ca_certs={stranger.authority}",
            "certificate that is not trusted. Name its authority with ?ssl_ca_certs",
        ),
        (f"?ssl_ca_certs={files.authority}", "?ssl_certfile=FILE&ssl_keyfile=FILE"),
    ):
        result = shell(at + options, "put", "mail", "1")
        assert result.code == 3 and f"127.0.0.1:{nodes[0].port}" in result.err and sentence in result.err, (
            options,
            result.err,
        )
    result = shell(at.replace("rediss", "redis"), "put", "mail", "1")
    assert result.code == 3 and "rediss" in result.err, result.err
    result = shell(at.replace("127.0.0.1", "localhost") + files.options, "put", "mail", "1")
    assert result.code == 3 and "another host name" in result.err, result.err
