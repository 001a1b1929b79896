"""Run the same code with a client of one Redis server or a client of a Cluster. redis-py is imported late."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.cluster import Cluster


def is_cluster(client: Any) -> bool:
    """Return whether a client is a `cluster.Cluster`, which has a connection to each node of a Redis Cluster."""
    return bool(getattr(client, "is_cluster", False))


def find_key_client(client: Redis | Cluster, key: str) -> Redis:
    """Return a client for commands on a key: `client` itself, or for a Cluster a client that follows the key's slot."""
    return client.create_key_client(key) if is_cluster(client) else client  # type: ignore[union-attr, return-value]


def list_node_clients(client: Redis | Cluster) -> list[Redis]:
    """Return the clients of all primaries of a Cluster; for a client of one server, the client itself.

    Raises an error of redis-py if no node answers.
    """
    return client.list_primary_clients() if is_cluster(client) else [client]  # type: ignore[union-attr, list-item]


def ping_server(client: Redis | Cluster) -> None:
    """Return after Redis has replied to a PING, also if an ACL denied the command.

    Raises an error of redis-py if no reply arrives.
    """
    from redis.exceptions import NoPermissionError

    with contextlib.suppress(NoPermissionError):
        client.ping()
