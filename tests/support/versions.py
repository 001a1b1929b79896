"""Version checks of a test's server. Valkey reports the Redis version that it is compatible with."""

from __future__ import annotations

from redis import Redis


def is_server_older(client: Redis, major: int, minor: int = 0) -> bool:
    """Return whether the server is older than Redis `major.minor`."""
    version = client.info("server")["redis_version"].split(".")
    return (int(version[0]), int(version[1])) < (major, minor)
