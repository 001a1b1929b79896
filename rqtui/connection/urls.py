"""Parse URLs with several hosts: the sentinels of a service, or nodes of a Cluster. Opens no connection.

    redis+sentinel://[USER:PASSWORD@]HOST[:26379][,HOST…]/SERVICE[/DB][?sentinel_username=…&sentinel_password=…]
    redis+cluster://[USER:PASSWORD@]HOST[:6379][,HOST…]

`rediss+…` is the same with TLS. User and password are those of Redis. Called by `connect`; `cluster` uses the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

from rqtui.errors import UsageError

Address = tuple[str, int]
PORTS = {"sentinel": 26379, "cluster": 6379}
_URL = re.compile(r"(rediss?)\+(sentinel|cluster)://([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?(#.*)?", re.DOTALL)
_OF_SENTINELS = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclass(frozen=True, slots=True)
class Hosts:
    """A parsed URL with several hosts, of sentinels or of Cluster nodes (`kind`).

    `single` is the URL of one server at the first host.
    """

    kind: str
    hosts: tuple[Address, ...]
    single: str = field(repr=False)  # it holds the password
    service: str = ""
    login: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the sentinels themselves

    def __str__(self) -> str:
        return ", ".join(map(format_address, self.hosts))


def format_address(address: Address) -> str:
    """Format the host and port of a server as in a URL: `[::1]:6379`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_database(url: str) -> str:
    """Return the number of the database in the URL of one server: its option `db`, or else its path."""
    parts = urlsplit(url)
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return parse_qs(parts.query).get("db", [path])[0] or "0"


def parse_multi_host_url(url: str, shown: str) -> Hosts | None:
    """Parse the URL of sentinels or Cluster nodes (`redis+sentinel://`, `redis+cluster://`); None for any other URL.

    Raises UsageError, which quotes the URL as `shown`.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme, kind, authority, path, query, fragment = match.groups()
    login, at_sign, names = authority.rpartition("@")
    hosts = tuple(_parse_host_and_port(name, kind, shown) for name in names.split(","))
    service, database = _parse_service_and_database(kind, path or "", shown)
    options = parse_qsl(query or "", keep_blank_values=True)
    sentinel_login = {
        _OF_SENTINELS[name]: value for name, value in options if name in _OF_SENTINELS and kind == "sentinel"
    }
    if "db" in dict(options):
        raise UsageError(f'The URL "{shown}" cannot have the option db; write the database after the service, as /2.')
    other_options = [(name, value) for name, value in options if name not in _OF_SENTINELS or kind != "sentinel"]
    first_host = f"[{hosts[0][0]}]" if ":" in hosts[0][0] else hosts[0][0]
    single = f"{scheme}://{login}{at_sign}{first_host}:{hosts[0][1]}{database}"
    single += f"?{urlencode(other_options, quote_via=quote)}" if other_options else ""
    return Hosts(kind, hosts, single + (fragment or ""), service, sentinel_login)


def _parse_host_and_port(name: str, kind: str, shown: str) -> Address:
    try:
        parts = urlsplit(f"//{name}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UsageError(
            f'The URL "{shown}" has no valid host and port: write {_build_example_url(kind)}. '
            "In a password, / ? # @ and : are written %2F %3F %23 %40 and %3A."
        )
    return host, port or PORTS[kind]


def _parse_service_and_database(kind: str, path: str, shown: str) -> tuple[str, str]:
    """Return the sentinel service in the path of a URL, and the path of the database. A Cluster has neither."""
    if kind == "cluster":
        if path not in ("", "/", "/0"):
            raise UsageError(
                f'The URL "{shown}" names a database; a Cluster has only 0: write {_build_example_url(kind)}.'
            )
        return "", ""
    service, slash, database = path.removeprefix("/").partition("/")
    if not service:
        raise UsageError(f'The URL "{shown}" names no service: write {_build_example_url(kind)}.')
    return unquote(service), slash + database


def _build_example_url(kind: str) -> str:
    return {
        "sentinel": "redis+sentinel://HOST:26379,HOST:26379/SERVICE/0",
        "cluster": "redis+cluster://HOST:6379,HOST:6379",
    }[kind]
