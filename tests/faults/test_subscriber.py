"""The ear where links are not plain: over TLS, behind sentinels through a failover, in a Cluster whose node dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from authority import issue_certificates, tls_server
from fleet import Fleet
from redis import Redis
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.connection.subscriber import Subscriber

PATTERN = "a.*"


def wait_until_received(ear: Subscriber, publishers: Callable[[], list[Redis]], what: str) -> None:
    """Publish until a message arrives: a server that was promoted may not have been found yet."""

    def arrived() -> bool:
        for publisher in publishers():
            publisher.publish("a.1", what)
        return any(message.data == what.encode() for message in ear.take_messages())

    wait_until(arrived, what=what, every_s=0.05)


def test_it_listens_over_tls(tmp_path: Path) -> None:
    files = issue_certificates(tmp_path / "authority", "localhost")
    with (
        tls_server(files, tmp_path / "server") as port,
        connect(f"rediss://localhost:{port}?ssl_ca_certs={files.authority}") as client,
    ):
        ear = Subscriber(client)
        try:
            ear.subscribe([PATTERN])
            wait_until(lambda: ear.read_status(PATTERN).since_s, what="listening")
            client.publish("a.1", "x" * 100_000)  # several records of TLS
            found = wait_until(ear.take_messages, what="the message")
            assert [len(message.data) for message in found] == [100_000]
        finally:
            ear.close()


def test_it_follows_a_failover_behind_sentinels(fleet: Fleet) -> None:
    primary = fleet.start()
    replica = fleet.start(replicaof=primary)
    sentinel = fleet.sentinel(primary)
    wait_until(
        lambda: sentinel.client.execute_command("SENTINEL", "REPLICAS", "jobs"),
        what="the sentinel's view of the replica",
    )

    def leader() -> int:
        words = sentinel.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "jobs")
        return int(words[1])

    with connect(f"redis+sentinel://127.0.0.1:{sentinel.port}/jobs") as client:
        ear = Subscriber(client)
        try:
            ear.subscribe([PATTERN])
            wait_until(lambda: ear.read_status(PATTERN).since_s, what="listening")
            wait_until_received(ear, lambda: [primary.client], "before")
            primary.kill()
            wait_until(lambda: ear.read_status(PATTERN).problem, what="the loss")
            wait_until(lambda: leader() == replica.port, what="the failover", timeout_s=60)
            wait_until(lambda: not ear.read_status(PATTERN).problem, what="the link", timeout_s=60)
            wait_until_received(ear, lambda: [replica.client], "after")
            assert ear.read_status(PATTERN).missed_s > 0
        finally:
            ear.close()


def test_in_a_cluster_it_receives_events_of_all_nodes_and_changes_the_node_when_its_own_dies(fleet: Fleet) -> None:
    nodes = fleet.cluster(cluster_require_full_coverage="no")
    with connect("redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)) as client:
        ear = Subscriber(client)
        try:
            ear.subscribe([PATTERN])
            wait_until(lambda: ear.read_status(PATTERN).since_s, what="listening")
            for node in nodes:
                wait_until_received(ear, lambda node=node: [node.client], f"by {node.port}")
            own = next(node for node in nodes if node.client.execute_command("PUBSUB", "NUMPAT"))
            others = [node for node in nodes if node is not own]
            own.kill()
            wait_until(lambda: ear.read_status(PATTERN).problem, what="the loss")
            wait_until(lambda: not ear.read_status(PATTERN).problem, what="the link", timeout_s=60)
            wait_until_received(ear, lambda: [node.client for node in others], "after")
        finally:
            ear.close()
