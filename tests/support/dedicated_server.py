"""Run the tests on one running server instead of starting servers: `RQTUI_TEST_URL=redis://127.0.0.1:6379 pytest`.

The tests flush that server many times. So only this variable can name it, it must be empty at the start, and only one
process of pytest may use it. It replaces the system's own server; tests of other servers (wheels, fakeredis) skip.
`conftest.py` calls `explain_unusable_server` before the first test, and `open_dedicated_server` when a test needs the
server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from redis import Redis, RedisError

VARIABLE = "RQTUI_TEST_URL"


@dataclass(frozen=True, slots=True)
class DedicatedServer:
    """A Redis server that the user named, with the attributes of `EmbeddedServer` that tests use.

    The attributes of the server's process are missing, because the tests did not start the server.
    """

    url: str
    host: str
    port: int
    family: str
    version: str

    @property
    def kind(self) -> str:
        """Return the server's family, version and address as a text for people."""
        return f"{self.family.capitalize()} {self.version} ({self.host}:{self.port})"


def read_dedicated_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the server's URL from RQTUI_TEST_URL, or an empty string if the tests start their own servers."""
    return environ.get(VARIABLE, "")


def explain_unusable_server(url: str, workers: object) -> str:
    """Return a sentence that says why the tests may not use the named server, or an empty string if they may."""
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


def open_dedicated_server(url: str) -> Iterator[DedicatedServer]:
    """Yield the named server, and flush its databases at the end of the tests."""
    with Redis.from_url(url) as client:
        info = client.info("server")
        address = client.connection_pool.connection_kwargs
        family = "valkey" if "valkey_version" in info else "redis"
        yield DedicatedServer(url, address["host"], int(address["port"]), family, info[f"{family}_version"])
        client.flushall()
