"""The way to a Redis: connect to a URL, say in words why that failed, and find out what stands there.

The only module that sets connection options; everyone else gets a client from `connect()`. It sends nothing by itself
but a name for `CLIENT LIST`; `probe()` asks. Scripts are run by `scripts/script.py`, servers are started by
`connection/embedded.py`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from rqtui.connection import passwords, tls
from rqtui.connection.error_messages import describe
from rqtui.connection.nodes import is_cluster
from rqtui.connection.urls import hosts_of
from rqtui.errors import Denied, ServerError, Unreachable, UsageError

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.meter import Meter

DEFAULT_URL = "redis://localhost:6379"
SCHEMES = ("redis", "rediss", "unix")
# What a URL may set after its `?`; not retries, protocol or decoding, on which the meaning of an answer hangs.
URL_OPTIONS = ("db", "username", "password", "client_name", "socket_timeout", "socket_connect_timeout")


def connect(
    url: str,
    *,
    timeout_s: float = 5.0,
    block_s: float = 0.0,
    client_name: str = "rqtui",
    meter: Meter | None = None,
) -> Redis:
    """A client for `url` that has not connected yet: bytes in and out, RESP2, nothing is ever sent twice.

    `timeout_s` bounds connecting and each reply; `block_s` is what a blocking command may wait on top of it. What is
    asked counts on `meter`.
    Raises UsageError when the URL cannot be understood; connecting happens at the first command.
    """
    from redis import Connection, Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from rqtui.connection.pool import Pool

    hosts = hosts_of(url, mask(url))
    options = _url_options(hosts.single if hosts else url)
    name = options.pop("client_name", client_name)
    options["socket_timeout"] = options.get("socket_timeout", timeout_s) + block_s
    options.setdefault("socket_connect_timeout", timeout_s)
    # redis-py 8.1 retries by default, time-outs too: an EVAL whose reply was lost was sent 11 times (LIBRARIES, F1).
    options |= {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "protocol": 2,
        "decode_responses": False,
        "health_check_interval": 0,
        "driver_info": None,
        "redis_connect_func": Greeting(name),
    }
    if meter is not None:
        from rqtui.connection.meter import metered

        options["connection_class"] = metered(options.get("connection_class", Connection), meter)
    if hosts is None:
        return Redis.from_pool(Pool(**options))
    from rqtui.connection import cluster

    return cluster.client(hosts, options)  # type: ignore[return-value]  # a Cluster has what is asked of it


_NOT_TAKEN_OVER = ("himport_registry", "maint_notifications_config", "maint_notifications_pool_handler")


def connect_like(client: Redis) -> Redis:
    """A client for the same server and user as `client`, with connections of its own and the options of `connect`.

    Raises UsageError for what has no pool of connections to take the options from (asynchronous, RedisCluster).
    """
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from rqtui.connection.pool import Pool

    if is_cluster(client):
        return client.like()  # type: ignore[attr-defined, no-any-return]
    if not isinstance(client, Redis):
        raise no_client(client, "redis.Redis")
    options = options_like(client.connection_pool.connection_kwargs)
    options["retry"] = Retry(NoBackoff(), 0)
    if hasattr(client.connection_pool, "sentinel_manager"):
        from rqtui.connection import cluster as topology

        return topology.like_sentinels_of(client.connection_pool, options)
    return Redis.from_pool(Pool(connection_class=client.connection_pool.connection_class, **options))


def options_like(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a pool of connections of redis-py as `connect` sets them, without `retry`, a class per caller."""
    options = {
        name: value for name, value in given.items() if name not in _NOT_TAKEN_OVER and not name.startswith("orig_")
    }
    options["socket_timeout"] = options.get("socket_timeout") or 5.0
    options.update(retry_on_error=[], protocol=2, decode_responses=False, health_check_interval=0)
    return options


def no_client(client: object, needed: str) -> UsageError:
    """Says what is needed in the place of `client`."""
    is_theirs = "Cluster" in type(client).__name__
    url = "redis+cluster://HOST:PORT" if is_theirs else "URL of a Redis"
    return UsageError(f"A {needed} or the {url} is needed, not {type(client).__name__}.")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a new connection says: password and database, then its name, which an ACL may refuse without harm."""

    client_name: str

    def __call__(self, connection: Any) -> None:
        """Say it."""
        from redis.exceptions import ResponseError

        with protected_mode_told():
            connection.on_connect()
        if self.client_name:
            with contextlib.suppress(ResponseError), protected_mode_told():
                connection.send_command("CLIENT", "SETNAME", self.client_name, check_health=False)
                connection.read_response()


@contextlib.contextmanager
def protected_mode_told() -> Iterator[None]:
    """A server in protected mode answers the first command with that, whatever it was, and hangs up."""
    from redis.exceptions import ConnectionError as NoConnection
    from redis.exceptions import ResponseError

    try:
        yield
    except ResponseError as error:
        if "protected mode" not in str(error):
            raise
        raise NoConnection("Redis is running in protected mode: set a password there to let other hosts in.") from None


def _url_options(url: str) -> dict[str, Any]:
    """The keyword arguments that redis-py makes of `url`, after everything it would let pass silently was refused."""
    from redis.connection import parse_url

    shown = mask(url)
    if not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        raise UsageError(
            f'"{shown}" is not the URL of a Redis: that starts with redis://, rediss:// (TLS), unix://, '
            f"redis+sentinel:// or redis+cluster://, as in {DEFAULT_URL}/0."
        )
    if any(character.isspace() or not character.isprintable() for character in url):
        raise UsageError(f"The URL {shown!r} holds a space or a control character: write it as %20 or the like.")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its text quotes a part of the URL, which may be one of the password
        raise UsageError(
            f'The URL "{shown}" has no valid host and port. '
            "In a password, / ? # @ and : are written %2F %3F %23 %40 and %3A."
        ) from None
    if parts.fragment:
        raise UsageError(f'The URL "{shown}" has a part after #, which means nothing here; in a password write %23.')
    _refuse_unknown_options(shown, parts.scheme, parts.query)
    if parts.scheme == "unix" and not parts.path:
        raise UsageError(f'The URL "{shown}" names no socket: write unix:///path/to/redis.sock.')
    if parts.scheme != "unix" and not re.fullmatch(r"/?|/\d+", unquote(parts.path)):
        raise UsageError(f'The URL "{shown}" has no database number after the host: write {DEFAULT_URL}/0.')
    try:
        options = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise UsageError(f'The URL "{shown}" cannot be used: {error}') from None
    if parts.scheme == "rediss":
        tls.check(shown, options)
    return options


def _refuse_unknown_options(shown: str, scheme: str, query: str) -> None:
    is_tls = scheme == "rediss"
    known = (*URL_OPTIONS, *(tls.OPTIONS if is_tls else ()))
    for name in parse_qs(query, keep_blank_values=True):
        if name in tls.OPTIONS and not is_tls:
            raise UsageError(f'The URL "{shown}" has the option {name!r}, which is for TLS: then it starts rediss://.')
        if name not in known:
            what = (
                "an option" if "@" in query else f"the option {name!r}"
            )  # it may be a part of a password with a ? in it
            raise UsageError(f'The URL "{shown}" has {what}, which is not one of {", ".join(known)}.')


def mask(url: str) -> str:
    """`url` without its passwords, also where it is no valid URL; for everything that a person or a log reads."""
    return passwords.masked(url)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What stands at the other end; what could not be asked is None, and `denied` names why."""

    kind: str  # redis | valkey | fakeredis | unknown
    version: str = ""
    role: str = ""  # primary | replica
    mode: str = ""  # standalone | cluster | sentinel
    used_bytes: int | None = None
    maxmemory_bytes: int | None = None  # 0 means no limit
    policy: str = ""  # maxmemory-policy
    is_persistent: bool | None = None  # an append-only file is kept, or snapshots are saved
    clients: int | None = None
    uptime_s: int | None = None
    denied: tuple[str, ...] = ()  # "INFO: this user has no permissions …"

    @property
    def title(self) -> str:
        """For people: `Valkey 9.1.2`."""
        return " ".join(filter(None, [_TITLES.get(self.kind, "Redis?"), self.version]))


_TITLES = {"redis": "Redis", "valkey": "Valkey", "fakeredis": "fakeredis"}
_ROLES = {"master": "primary", "slave": "replica", "replica": "replica"}


def probe(client: Redis, url: str = "") -> ServerInfo:
    """Ask the server who it is: HELLO, INFO and CONFIG, each of which an ACL, a managed service or fakeredis may lack.

    Raises Unreachable or Denied, in the words of `describe()`, when there is no talking to it at all.
    """
    reach(client, url)
    denied: list[str] = []
    hello = _asked(client, url, denied, "HELLO")
    info = _asked(client, url, denied, "INFO")
    settings = _asked(client, url, denied, "CONFIG GET save")
    return server_info(hello, info, settings, denied)


def server_info(
    hello: Mapping[str, str], info: Mapping[str, str], settings: Mapping[str, str], denied: Sequence[str] = ()
) -> ServerInfo:
    """What HELLO, INFO and CONFIG GET tell, each of which may be empty."""
    return ServerInfo(
        kind=_family(hello, info),
        version=info.get("valkey_version") or hello.get("version") or info.get("redis_version") or "",
        role=_ROLES.get(hello.get("role") or info.get("role", ""), ""),
        mode=hello.get("mode") or info.get("redis_mode") or "",
        used_bytes=_number(info, "used_memory"),
        maxmemory_bytes=_number(info, "maxmemory"),
        policy=info.get("maxmemory_policy", ""),
        is_persistent=_is_persistent(info, settings),
        clients=_number(info, "connected_clients"),
        uptime_s=_number(info, "uptime_in_seconds"),
        denied=tuple(denied),
    )


def reach(client: Redis, url: str = "") -> None:
    """Connect, greet, choose the database; what fails here fails for every command. Raises Unreachable or Denied."""
    from redis.exceptions import AuthenticationError, RedisError

    try:
        if is_cluster(client):
            client.refresh()  # type: ignore[attr-defined]
        else:
            client.connection_pool.release(client.connection_pool.get_connection())
    except AuthenticationError as error:
        raise Denied(describe(error, url)) from error
    except (RedisError, OSError) as error:
        raise Unreachable(describe(error, url)) from error


@contextlib.contextmanager
def translated(url: str = "") -> Iterator[None]:
    """Errors of redis-py inside, from plain commands, come out as ours, in the words of `describe()`."""
    from redis import exceptions

    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError, exceptions.ReadOnlyError) as error:
        raise Denied(describe(error, url)) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise Unreachable(describe(error, url)) from error
    except exceptions.RedisError as error:
        raise ServerError(describe(error, url)) from error


def _asked(client: Redis, url: str, denied: list[str], command: str) -> dict[str, str]:
    """The reply to `command` as text by name; empty, and a line in `denied`, when the server refuses just that."""
    from redis.exceptions import AuthenticationError, RedisError, ResponseError

    try:
        return _pairs(client.execute_command(*command.split()))  # type: ignore[no-untyped-call]
    except AuthenticationError as error:
        raise Denied(describe(error, url)) from error
    except ResponseError as error:
        if re.match("NOAUTH|authentication required", str(error), re.IGNORECASE):
            raise Denied(describe(error, url)) from error
        denied.append(f"{command}: {error}")
        return {}
    except (RedisError, OSError) as error:
        raise Unreachable(describe(error, url)) from error


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _pairs(reply: Any) -> dict[str, str]:
    if isinstance(reply, Mapping):
        return {_text(name): _text(value) for name, value in reply.items()}
    return {_text(name): _text(value) for name, value in zip(reply[::2], reply[1::2], strict=False)}


def _family(hello: Mapping[str, str], info: Mapping[str, str]) -> str:
    named = hello.get("server", "") or info.get("server_name", "")
    if "valkey_version" in info or named == "valkey":
        return "valkey"
    if named in _TITLES:
        return named
    return "redis" if "redis_version" in info else "unknown"


def _number(info: Mapping[str, str], name: str) -> int | None:
    value = info.get(name, "")
    return int(value) if re.fullmatch(r"-?\d+", value) else None


def _is_persistent(info: Mapping[str, str], settings: Mapping[str, str]) -> bool | None:
    if info.get("aof_enabled") == "1" or settings.get("save"):
        return True
    return False if "aof_enabled" in info and "save" in settings else None
