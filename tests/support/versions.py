"""What a test's server can do, by its version; Valkey says which Redis it is compatible with."""

from __future__ import annotations

from redis import Redis


def is_older(client: Redis, major: int, minor: int = 0) -> bool:
    """Whether the server is older than Redis `major.minor`."""
    found = client.info("server")["redis_version"].split(".")
    return (int(found[0]), int(found[1])) < (major, minor)
