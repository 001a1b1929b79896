"""One server that runs already, instead of those that the tests start: `RQTUI_TEST_URL=redis://127.0.0.1:6379 pytest`.

The tests flush that server, again and again. So it must be named here and nowhere else, it must be empty when they
begin, and one process of pytest has it to itself. It takes the place of the system's own server; the tests of the
other servers (wheels, fakeredis) skip. `conftest.py` asks `refusal` before the first test, and `dedicated` for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from redis import Redis, RedisError

VARIABLE = "RQTUI_TEST_URL"


@dataclass(frozen=True, slots=True)
class DedicatedServer:
    """What tests ask of a server: the same names as `EmbeddedServer` has, but for those of its process."""

    url: str
    host: str
    port: int
    family: str
    version: str

    @property
    def kind(self) -> str:
        """Family, version and address, for people."""
        return f"{self.family.capitalize()} {self.version} ({self.host}:{self.port})"


def named(environ: Mapping[str, str] = os.environ) -> str:
    """The URL of the server; empty where the tests start their own."""
    return environ.get(VARIABLE, "")


def refusal(url: str, workers: object) -> str:
    """Why the tests may not run on this server, as a sentence; empty where they may."""
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


def dedicated(url: str) -> Iterator[DedicatedServer]:
    """The server, which is left as empty as it was."""
    with Redis.from_url(url) as client:
        info = client.info("server")
        address = client.connection_pool.connection_kwargs
        family = "valkey" if "valkey_version" in info else "redis"
        yield DedicatedServer(url, address["host"], int(address["port"]), family, info[f"{family}_version"])
        client.flushall()
