"""Connect to a Redis URL, read the server's properties, and convert errors of redis-py to rqtui's errors.

This is the only module that sets connection options; all others get a client from `connect()`. It sends only a name for
`CLIENT LIST`, and the commands that read a server's properties. `scripts/script.py` runs scripts, and
`connection/embedded.py` starts servers.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from rqtui.connection import tls
from rqtui.connection.nodes import is_cluster
from rqtui.connection.redis_errors.connecting import describe_connection_error
from rqtui.connection.urls import parse_multi_host_url
from rqtui.errors import Denied, ReplicaOnly, ServerError, Unreachable, UsageError
from rqtui.text.masking import mask_url

if TYPE_CHECKING:
    from redis import Redis

    from rqtui.connection.meter import Meter

DEFAULT_URL = "redis://localhost:6379"
SCHEMES = ("redis", "rediss", "unix")
# The options that a URL may set after its `?`. Retries, protocol and decoding are fixed: the code depends on them.
URL_OPTIONS = ("db", "username", "password", "client_name", "socket_timeout", "socket_connect_timeout")


def connect(
    url: str,
    *,
    timeout_s: float = 5.0,
    block_s: float = 0.0,
    client_name: str = "rqtui",
    meter: Meter | None = None,
    reads_server_state: bool = False,
    sends_script_texts: bool = False,
) -> Redis:
    """Create a Redis client for a URL; it connects at its first command. Bytes in and out, RESP2, no automatic retries.

    `timeout_s` limits connecting and waiting for each reply. `block_s` is added for blocking commands. Commands are
    counted on `meter`. With `reads_server_state`, the first connection also reads what `read_server_state` returns.
    With `sends_script_texts`, the first call of each script to a single server sends its text, so that a server without
    the script needs no second round trip. Raises UsageError if the URL is not valid.
    """
    from redis import Connection, Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from rqtui.connection.pool import Pool
    from rqtui.connection.reply_limits import LimitedParser, check_reply_types

    hosts = parse_multi_host_url(url, hide_url_passwords(url))
    options = _parse_single_server_url(hosts.single if hosts else url)
    name = options.pop("client_name", client_name)
    options["socket_timeout"] = options.get("socket_timeout", timeout_s) + block_s
    options.setdefault("socket_connect_timeout", timeout_s)
    # redis-py 8.1 retries by default, also after a time-out: it sent an EVAL whose reply was lost 11 times
    # (LIBRARIES, F1).
    options |= {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "protocol": 2,
        "decode_responses": False,
        "health_check_interval": 0,
        "driver_info": None,
        "redis_connect_func": Greeting(name, reads_server_state and hosts is None),
        "parser_class": LimitedParser,
    }
    if meter is not None:
        from rqtui.connection.meter import add_meter_to_class

        options["connection_class"] = add_meter_to_class(options.get("connection_class", Connection), meter)
    if hosts is None:
        pool = Pool(**options)
        pool.sent_scripts = set() if sends_script_texts else None
        return check_reply_types(Redis.from_pool(pool))
    from rqtui.connection import cluster

    return cluster.create_multi_host_client(hosts, options)  # type: ignore[return-value]  # Cluster has the methods that callers use.


def copy_client(client: Redis) -> Redis:
    """Create a client for the same server and user as `client`, with its own connections and the options of `connect`.

    Raises UsageError for a client without a connection pool to copy the options from (asynchronous, RedisCluster).
    """
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from rqtui.connection.pool import Pool, copy_pool_options
    from rqtui.connection.reply_limits import check_reply_types

    if is_cluster(client):
        return client.clone()  # type: ignore[attr-defined, no-any-return]
    if not isinstance(client, Redis):
        raise build_wrong_client_error(client, "redis.Redis")
    options = copy_pool_options(client.connection_pool.connection_kwargs)
    options["retry"] = Retry(NoBackoff(), 0)
    if hasattr(client.connection_pool, "sentinel_manager"):
        from rqtui.connection import cluster as topology

        return topology.copy_sentinel_client(client.connection_pool, options)
    return check_reply_types(Redis.from_pool(Pool(connection_class=client.connection_pool.connection_class, **options)))


def build_wrong_client_error(client: object, needed: str) -> UsageError:
    """Build the UsageError for a Redis client of a wrong type; `needed` is the type that was expected."""
    is_other_cluster = "Cluster" in type(client).__name__
    url = "redis+cluster://HOST:PORT" if is_other_cluster else "URL of a Redis"
    return UsageError(f"A {needed} or the {url} is needed, not {type(client).__name__}.")


@dataclass(slots=True)
class Greeting:
    """The first commands on a new connection: password, database, and a client name, which an ACL may refuse.

    With `reads_server_state`, the first connection also reads INFO in the round trip of the client name. The text of
    each section is in `server_state` until `read_server_state` takes it.
    """

    client_name: str
    reads_server_state: bool = False
    server_state: tuple[Any, ...] | None = None

    def __call__(self, connection: Any) -> None:
        """Send the first commands over a new connection to Redis."""
        from redis.exceptions import ResponseError

        with translate_protected_mode_error():
            connection.on_connect()
        commands: list[tuple[str, ...]] = [("CLIENT", "SETNAME", self.client_name)] if self.client_name else []
        if self.reads_server_state:
            commands += [("INFO", section) for section in SERVER_STATE_SECTIONS]
        if not commands:
            return
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        if self.client_name:
            with contextlib.suppress(ResponseError), translate_protected_mode_error():
                check_client_name_reply(connection.read_response())
        if self.reads_server_state:
            self.reads_server_state = False
            self.server_state = tuple(_read_reply_or_error(connection) for _section in SERVER_STATE_SECTIONS)


def _read_reply_or_error(connection: Any) -> Any:
    """Read one reply of a connection. An error reply of Redis is returned as an exception, not raised."""
    from redis.exceptions import ResponseError

    try:
        return connection.read_response()
    except ResponseError as error:
        return error


# The sections of INFO with a server's role, memory and eviction policy. Redis 6.2 takes one section at a time.
SERVER_STATE_SECTIONS = ("memory", "replication")


def read_server_state(client: Redis) -> ServerInfo:
    """Read the role, the memory and the eviction policy of a server, in one round trip.

    No round trip is needed if the first connection of the client already read them (`connect(…,
    reads_server_state=True)`) and this is the first call. A property that the server refuses to show is None. Raises
    the errors of redis-py for a lost connection.
    """
    from redis._parsers.helpers import parse_info

    greeting = getattr(client, "connection_pool", None) and client.connection_pool.connection_kwargs.get(
        "redis_connect_func"
    )
    if isinstance(greeting, Greeting) and greeting.server_state is not None:
        texts, greeting.server_state = greeting.server_state, None
        replies = [parse_info(text) for text in texts if isinstance(text, bytes)]  # type: ignore[no-untyped-call]
    else:
        pipe = client.pipeline(transaction=False)
        for section in SERVER_STATE_SECTIONS:
            pipe.info(section)
        replies = [reply for reply in pipe.execute(raise_on_error=False) if isinstance(reply, dict)]
    return build_server_info(
        {}, {str(name): str(value) for reply_fields in replies for name, value in reply_fields.items()}, {}
    )


def check_client_name_reply(reply: object) -> None:
    """Raise UnexpectedReply if a server replied to CLIENT SETNAME with anything that no Redis server sends."""
    from rqtui.connection.reply_limits import UnexpectedReply

    if reply != b"OK" and reply is not True:  # fakeredis returns True within a process.
        raise UnexpectedReply("CLIENT SETNAME", reply)


@contextlib.contextmanager
def translate_protected_mode_error() -> Iterator[None]:
    """Raise a ConnectionError if Redis replies, inside this `with` block, that it is in protected mode.

    Such a server replies with an error to the first command, whatever the command is, and closes the connection.
    """
    from redis.exceptions import ConnectionError as NoConnection
    from redis.exceptions import ResponseError

    try:
        yield
    except ResponseError as error:
        if "protected mode" not in str(error):
            raise
        raise NoConnection("Redis is running in protected mode: set a password there to let other hosts in.") from None


def _parse_single_server_url(url: str) -> dict[str, Any]:
    """Return redis-py's keyword arguments for the URL of one server.

    Raises UsageError, also for errors in the URL that redis-py would ignore.
    """
    from redis.connection import parse_url

    shown = hide_url_passwords(url)
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
    except ValueError:  # The text of the error is not shown: it quotes a part of the URL, perhaps of the password.
        raise UsageError(
            f'The URL "{shown}" has no valid host and port. '
            "In a password, / ? # @ and : are written %2F %3F %23 %40 and %3A."
        ) from None
    if parts.fragment:
        raise UsageError(f'The URL "{shown}" has a part after #, which means nothing here; in a password write %23.')
    _refuse_unknown_url_options(shown, parts.scheme, parts.query)
    if parts.scheme == "unix" and not parts.path:
        raise UsageError(f'The URL "{shown}" names no socket: write unix:///path/to/redis.sock.')
    if parts.scheme != "unix" and not re.fullmatch(r"/?|/\d+", unquote(parts.path)):
        raise UsageError(f'The URL "{shown}" has no database number after the host: write {DEFAULT_URL}/0.')
    try:
        options = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise UsageError(f'The URL "{shown}" cannot be used: {error}') from None
    if parts.scheme == "rediss":
        tls.check_tls_options(shown, options)
    return options


def _refuse_unknown_url_options(shown: str, scheme: str, query: str) -> None:
    is_tls = scheme == "rediss"
    allowed = (*URL_OPTIONS, *(tls.OPTIONS if is_tls else ()))
    for name in parse_qs(query, keep_blank_values=True):
        if name in tls.OPTIONS and not is_tls:
            raise UsageError(f'The URL "{shown}" has the option {name!r}, which is for TLS: then it starts rediss://.')
        if name not in allowed:
            # With an @ in the query, the name may be part of a password that contains a question mark.
            option = "an option" if "@" in query else f"the option {name!r}"
            raise UsageError(f'The URL "{shown}" has {option}, which is not one of {", ".join(allowed)}.')


def hide_url_passwords(url: str) -> str:
    """Return the URL of a Redis server without its passwords, also if the URL is not valid.

    Every text that a person reads uses this form of the URL.
    """
    return mask_url(url)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The properties of a Redis server, such as its version, role and memory.

    A property that could not be read is None or empty, and `denied` has the reason.
    """

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
    is_read_only: bool = False  # a replica that refuses changes
    databases: tuple[int, ...] = ()  # the numbers of the databases that have keys
    skew_ms: float | None = None  # how far the server's clock is ahead of this machine's, correct to half of `rtt_ms`
    rtt_ms: float = 0.0  # the round trip in which the clock was read

    @property
    def title(self) -> str:
        """The name and version of the Redis server for people: `Valkey 9.1.2`."""
        return " ".join(filter(None, [_TITLES.get(self.kind, "Redis?"), self.version]))


_TITLES = {"redis": "Redis", "valkey": "Valkey", "fakeredis": "fakeredis"}
_ROLES = {"master": "primary", "slave": "replica", "replica": "replica"}


def read_server_info(client: Redis, url: str = "") -> ServerInfo:
    """Read the properties of a Redis server with HELLO, INFO, CONFIG and TIME, in one round trip.

    An ACL, a managed service or fakeredis may lack any of these commands; a refused command is noted in `denied`.
    Raises Unreachable or Denied, with the text of `describe_connection_error`, if no command works.
    """
    open_and_authenticate(client, url)
    denied: list[str] = []
    commands = ("HELLO", "INFO", "CONFIG GET save")
    (hello, info, settings), skew_ms, rtt_ms = _read_command_pairs_and_clock(client, url, denied, commands)
    return replace(build_server_info(hello, info, settings, denied), skew_ms=skew_ms, rtt_ms=rtt_ms)


def build_server_info(
    hello: Mapping[str, str], info: Mapping[str, str], settings: Mapping[str, str], denied: Sequence[str] = ()
) -> ServerInfo:
    """Build a ServerInfo from the replies to HELLO, INFO and CONFIG GET, each of which may be empty."""
    role = _ROLES.get(hello.get("role") or info.get("role", ""), "")
    return ServerInfo(
        kind=_detect_server_family(hello, info),
        version=info.get("valkey_version") or hello.get("version") or info.get("redis_version") or "",
        role=role,
        is_read_only=role == "replica" and info.get("slave_read_only", "1") != "0",
        mode=hello.get("mode") or info.get("redis_mode") or "",
        used_bytes=_parse_info_number(info, "used_memory"),
        maxmemory_bytes=_parse_info_number(info, "maxmemory"),
        policy=info.get("maxmemory_policy", ""),
        is_persistent=_is_persistent(info, settings),
        clients=_parse_info_number(info, "connected_clients"),
        uptime_s=_parse_info_number(info, "uptime_in_seconds"),
        denied=tuple(denied),
        databases=tuple(sorted(int(name[2:]) for name in info if re.fullmatch(r"db\d+", name))),
    )


def compute_clock_skew_ms(moment: Sequence[int], sent_s: float, replied_s: float) -> float:
    """Return how far a server's clock is ahead, from its reply to TIME and the local times around it."""
    return int(moment[0]) * 1000 + int(moment[1]) / 1000 - 500 * (sent_s + replied_s)


def open_and_authenticate(client: Redis, url: str = "") -> None:
    """Open a connection to Redis, authenticate and select the database. Raises Unreachable or Denied."""
    from redis.exceptions import AuthenticationError, RedisError

    try:
        if is_cluster(client):
            client.read_slot_map()  # type: ignore[attr-defined]
        else:
            client.connection_pool.release(client.connection_pool.get_connection())
    except AuthenticationError as error:
        raise Denied(describe_connection_error(error, url)) from error
    except (RedisError, OSError) as error:
        raise Unreachable(describe_connection_error(error, url)) from error


@contextlib.contextmanager
def translate_redis_errors(url: str = "") -> Iterator[None]:
    """Convert redis-py's errors in this `with` block, which runs plain commands, to rqtui's errors.

    Their texts are those of `describe_connection_error`.
    """
    from redis import exceptions

    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        raise Denied(describe_connection_error(error, url)) from error
    except exceptions.ReadOnlyError as error:
        raise ReplicaOnly(describe_connection_error(error, url)) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise Unreachable(describe_connection_error(error, url)) from error
    except exceptions.RedisError as error:
        raise ServerError(describe_connection_error(error, url)) from error


def _read_command_pairs_and_clock(
    client: Redis, url: str, denied: list[str], commands: Sequence[str]
) -> tuple[list[dict[str, str]], float | None, float]:
    """Run commands whose replies are maps, and TIME. Return the replies as text by name, and `skew_ms` and `rtt_ms`.

    If the server refuses a command, add it to `denied` and return {} for it. Without the right to TIME `skew_ms` is
    None.
    """
    from redis.exceptions import AuthenticationError, RedisError, ResponseError

    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command.split())  # type: ignore[no-untyped-call]
    pipe.time()
    sent_s = time.time()
    try:
        *replies, moment = pipe.execute(raise_on_error=False)
        replied_s = time.time()
    except AuthenticationError as error:
        raise Denied(describe_connection_error(error, url)) from error
    except (RedisError, OSError) as error:
        raise Unreachable(describe_connection_error(error, url)) from error
    pairs: list[dict[str, str]] = []
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, AuthenticationError) or (
            isinstance(reply, ResponseError) and re.match("NOAUTH|authentication required", str(reply), re.IGNORECASE)
        ):
            raise Denied(describe_connection_error(reply, url)) from reply
        if isinstance(reply, ResponseError):
            denied.append(f"{command}: {reply}")
        elif isinstance(reply, Exception):
            raise Unreachable(describe_connection_error(reply, url)) from reply
        pairs.append({} if isinstance(reply, Exception) else _parse_reply_pairs(command, reply))
    skew_ms = None if isinstance(moment, Exception) else compute_clock_skew_ms(moment, sent_s, replied_s)
    return pairs, skew_ms, 1000 * (replied_s - sent_s)


def _decode_reply_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _parse_reply_pairs(command: str, reply: Any) -> dict[str, str]:
    if isinstance(reply, Mapping):
        return {_decode_reply_text(name): _decode_reply_text(value) for name, value in reply.items()}
    if not isinstance(reply, list):
        from rqtui.connection.reply_limits import UnexpectedReply

        raise UnexpectedReply(command, reply)
    return {
        _decode_reply_text(name): _decode_reply_text(value)
        for name, value in zip(reply[::2], reply[1::2], strict=False)
    }


def _detect_server_family(hello: Mapping[str, str], info: Mapping[str, str]) -> str:
    server_name = hello.get("server", "") or info.get("server_name", "")
    if "valkey_version" in info or server_name == "valkey":
        return "valkey"
    if server_name in _TITLES:
        return server_name
    return "redis" if "redis_version" in info else "unknown"


def _parse_info_number(info: Mapping[str, str], name: str) -> int | None:
    value = info.get(name, "")
    return int(value) if re.fullmatch(r"-?\d+", value) else None


def _is_persistent(info: Mapping[str, str], settings: Mapping[str, str]) -> bool | None:
    if info.get("aof_enabled") == "1" or settings.get("save"):
        return True
    return False if "aof_enabled" in info and "save" in settings else None
