"""URLs of several hosts: the sentinels that know a primary, or nodes of a Cluster. Text only; nothing connects here.

    redis+sentinel://[USER:PASSWORD@]HOST[:26379][,HOST…]/SERVICE[/DB][?sentinel_username=…&sentinel_password=…]
    redis+cluster://[USER:PASSWORD@]HOST[:6379][,HOST…]

`rediss+…` is the same with TLS. User and password are those of Redis. `connect` calls this, `cluster` follows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rqtui.errors import UsageError

Address = tuple[str, int]
PORTS = {"sentinel": 26379, "cluster": 6379}
_URL = re.compile(r"(rediss?)\+(sentinel|cluster)://([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?(#.*)?", re.DOTALL)
_OF_SENTINELS = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclass(frozen=True, slots=True)
class Hosts:
    """What such a URL says: `kind` is sentinel or cluster, `single` the URL of a lone server at the first host."""

    kind: str
    hosts: tuple[Address, ...]
    single: str = field(repr=False)  # it holds the password
    service: str = ""
    login: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the sentinels themselves

    def __str__(self) -> str:
        return ", ".join(map(shown, self.hosts))


def shown(address: Address) -> str:
    """An address as it stands in a URL: `[::1]:6379`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hosts_of(url: str, shown: str) -> Hosts | None:
    """The hosts of a URL that may name several; None for any other. Raises UsageError, which shows it as `shown`."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme, kind, authority, path, query, fragment = match.groups()
    login, at, names = authority.rpartition("@")
    hosts = tuple(_address(name, kind, shown) for name in names.split(","))
    service, database = _service_and_database(kind, path or "", shown)
    options = parse_qsl(query or "", keep_blank_values=True)
    own = {_OF_SENTINELS[name]: value for name, value in options if name in _OF_SENTINELS and kind == "sentinel"}
    if "db" in dict(options):
        raise UsageError(f'The URL "{shown}" cannot have the option db; a database stands behind the service, as /2.')
    rest = [(name, value) for name, value in options if name not in _OF_SENTINELS or kind != "sentinel"]
    first = f"[{hosts[0][0]}]" if ":" in hosts[0][0] else hosts[0][0]
    single = f"{scheme}://{login}{at}{first}:{hosts[0][1]}{database}"
    single += f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return Hosts(kind, hosts, single + (fragment or ""), service, own)


def _address(name: str, kind: str, shown: str) -> Address:
    try:
        parts = urlsplit(f"//{name}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UsageError(
            f'The URL "{shown}" has no valid host and port: write {_example(kind)}. '
            "In a password, / ? # @ and : are written %2F %3F %23 %40 and %3A."
        )
    return host, port or PORTS[kind]


def _service_and_database(kind: str, path: str, shown: str) -> tuple[str, str]:
    """(service, the path of the database). A Cluster has neither, but for the database 0."""
    if kind == "cluster":
        if path not in ("", "/", "/0"):
            raise UsageError(f'The URL "{shown}" names a database; a Cluster has only 0: write {_example(kind)}.')
        return "", ""
    service, slash, database = path.removeprefix("/").partition("/")
    if not service:
        raise UsageError(f'The URL "{shown}" names no service: write {_example(kind)}.')
    return unquote(service), slash + database


def _example(kind: str) -> str:
    return {
        "sentinel": "redis+sentinel://HOST:26379,HOST:26379/SERVICE/0",
        "cluster": "redis+cluster://HOST:6379,HOST:6379",
    }[kind]
