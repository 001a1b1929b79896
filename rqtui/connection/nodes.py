"""The servers behind a client: one, or the nodes of a Cluster (`cluster.Cluster`). It imports redis-py late."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.cluster import Cluster


def is_cluster(client: Any) -> bool:
    """Whether it stands for all nodes of a Cluster."""
    return bool(getattr(client, "is_cluster", False))


def of_key(client: Redis | Cluster, key: str) -> Redis:
    """A client for all in the slot of `key`, wherever that goes: `client` itself, unless that is a Cluster."""
    return client.following(key) if is_cluster(client) else client  # type: ignore[union-attr, return-value]


def nodes(client: Redis | Cluster) -> list[Redis]:
    """The client itself, or one for each primary of a Cluster. Raises an error of redis-py when none answers."""
    return client.primaries() if is_cluster(client) else [client]  # type: ignore[union-attr, list-item]


def ping(client: Redis | Cluster) -> None:
    """Returns once the server has answered, also that this user may not ask: an ACL may deny even PING.

    Raises an error of redis-py when it does not.
    """
    from redis.exceptions import NoPermissionError

    with contextlib.suppress(NoPermissionError):
        client.ping()
