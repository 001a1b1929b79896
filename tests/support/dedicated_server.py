"""Run the tests on one running server instead of starting servers: `RQTUI_TEST_URL=redis://127.0.0.1:6379 pytest`.

The tests flush that server many times. So only this variable can name it, it must be empty at the start, and only one
process of pytest may use it. It replaces the system's own server; tests of other servers (wheels, fakeredis) skip.
`conftest.py` calls `find_refusal` before the first test, and `open_server` when a test needs the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from redis import Redis, RedisError

VARIABLE = "RQTUI_TEST_URL"


@dataclass(frozen=True, slots=True)
class DedicatedServer:
    """The attributes of a server that tests use: those of `EmbeddedServer`, without those of its process."""

    url: str
    host: str
    port: int
    family: str
    version: str

    @property
    def kind(self) -> str:
        """Family, version and address, for people."""
        return f"{self.family.capitalize()} {self.version} ({self.host}:{self.port})"


def read_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the named server, or an empty string if the tests start their own."""
    return environ.get(VARIABLE, "")


def find_refusal(url: str, workers: object) -> str:
    """Return a sentence that says why the tests may not run on this server, or an empty string if they may."""
    if workers:
        return f"{VARIABLE} names one server, and each worker of pytest would flush it: leave out -n."
    try:
        with Redis.from_url(url) as client:
            keys = sum(part["keys"] for part in client.info("keyspace").values())
    except (RedisError, OSError, ValueError) as error:
        return f"{VARIABLE}: the server cannot be used: {error}"
    if keys:
        return f"{VARIABLE}: the server holds {keys} keys, and the tests would flush it: name one that is empty."
    return ""


def open_server(url: str) -> Iterator[DedicatedServer]:
    """Yield the server, and flush it at the end."""
    with Redis.from_url(url) as client:
        info = client.info("server")
        address = client.connection_pool.connection_kwargs
        family = "valkey" if "valkey_version" in info else "redis"
        yield DedicatedServer(url, address["host"], int(address["port"]), family, info[f"{family}_version"])
        client.flushall()
