"""Create clients whose server may change: the primary that sentinels name, or the Cluster node that owns a slot.

Such a connection asks for its address each time it connects. It reconnects after a reply that shows the wrong server
(READONLY, MOVED), or when `sentinels` cut it after a failover. No command is sent twice here: `scripts/transport.py`
decides which may be. `connect` creates these clients from a URL (`connection/urls.py`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from weakref import WeakValueDictionary

from redis import Connection, Redis, SSLConnection
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import MovedError, NoPermissionError, ReadOnlyError, RedisError, ResponseError, TimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel

from rqtui.connection.meter import add_meter_to_class, find_class_meter
from rqtui.connection.pool import Pool, copy_pool_options
from rqtui.connection.redis_errors.connecting import describe_connection_error
from rqtui.connection.reply_limits import LimitedParser, check_reply_types
from rqtui.connection.sentinels import NotFound, Sentinels, Watched
from rqtui.connection.urls import Address, Hosts, format_address
from rqtui.text.names import to_bytes

FindAddress = Callable[[], Address]
_ADDRESS_OPTIONS = ("host", "port", "connection_class")


class _ReaddressingMixin:
    """Mixin of a connection that asks `find` for its address each time it connects.

    With `must_lead`, only a primary is accepted.
    """

    _sock: Any
    host: str
    port: int

    def __init__(self, *, find: FindAddress, must_lead: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._find, self._must_lead = find, must_lead
        self.is_misplaced = False

    def connect(self) -> None:
        """Connect to the server whose address `find` returns, unless already connected to the right server."""
        if self.is_misplaced:
            self.disconnect()  # type: ignore[attr-defined]
        if self._sock is not None:
            return
        self.host, self.port = self._find()
        self.is_misplaced = False
        super().connect()  # type: ignore[misc]
        if self._must_lead:
            self._require_primary()
        register_for_failover(self._find, self)

    @property
    def is_open(self) -> bool:
        """Whether the connection to Redis has a socket."""
        return self._sock is not None

    def cut_connection(self) -> None:
        """Cut the connection from another thread. A request that waits for a reply fails; the next use reconnects."""
        self.is_misplaced = True
        if (sock := self._sock) is not None:
            # The socket may be closed meanwhile. A TLS session is ended by the thread that uses it.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply of Redis. After MOVED or READONLY, the next `connect` asks for the server's address again."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except (MovedError, ReadOnlyError):
            self.is_misplaced = True
            raise

    def _require_primary(self) -> None:
        """Raise NotFound unless the server is a primary, because sentinels may still name an old one.

        Required by https://redis.io/docs/latest/develop/reference/sentinel-clients/.
        """
        with contextlib.suppress(ResponseError):  # An ACL may deny ROLE.
            self.send_command("ROLE", check_health=False)  # type: ignore[attr-defined]
            role = self.read_response()[0]
            if role != b"master":
                self.disconnect()  # type: ignore[attr-defined]
                raise NotFound(f"{self.host}:{self.port}, which the sentinels name, is no primary yet.")


def register_for_failover(find: Callable[..., Any], connection: Watched) -> None:
    """Let the sentinels behind `find` close `connection` when another server becomes primary.

    A connection to a Cluster node needs no such watch: a node that lost the slot replies MOVED.
    """
    owner = getattr(find, "__self__", None)
    if isinstance(owner, Sentinels):
        owner.watch_connection(connection)


class Following(_ReaddressingMixin, Connection):
    """A TCP connection that asks for its address each time it connects."""


class FollowingTls(_ReaddressingMixin, SSLConnection):
    """A TLS connection that asks for its address each time it connects."""


def create_following_client(find: FindAddress, options: Mapping[str, Any], *, must_lead: bool = False) -> Redis:
    """Create a Redis client whose connections ask `find` for their address each time they connect.

    `options` are those of a connection pool.
    """
    original = options.get("connection_class", Connection)
    pool_options = {name: value for name, value in options.items() if name not in _ADDRESS_OPTIONS}
    kind: type = FollowingTls if issubclass(original, SSLConnection) else Following
    if meter := find_class_meter(original):
        kind = add_meter_to_class(kind, meter)
    return check_reply_types(
        Redis.from_pool(Pool(connection_class=kind, find=find, must_lead=must_lead, **pool_options))
    )


def can_change_server(client: Any) -> bool:
    """Return whether a retry by a Redis client may reach another server than the first attempt (sentinels, Cluster)."""
    return isinstance(client, Cluster) or has_failover(client.connection_pool)


def has_failover(pool: Any) -> bool:
    """Return whether the connections of a pool ask for their address each time they connect."""
    return "find" in pool.connection_kwargs


def create_multi_host_client(hosts: Hosts, options: Mapping[str, Any]) -> Redis | Cluster:
    """Create a client for the sentinels or Cluster nodes in `hosts`.

    No connection is opened before the first command.
    """
    return Cluster(hosts.hosts, options) if hosts.kind == "cluster" else _create_sentinel_client(hosts, options)


def _create_sentinel_client(hosts: Hosts, options: Mapping[str, Any]) -> Redis:
    return create_following_client(_find_shared_sentinels(hosts, options).find_primary, options, must_lead=True)


_shared: WeakValueDictionary[Any, Sentinels] = WeakValueDictionary()
"""Sentinels by URL, so that the queues and engines of a process share the threads that watch them."""


def _find_shared_sentinels(hosts: Hosts, options: Mapping[str, Any]) -> Sentinels:
    shared_options = {name: value for name, value in options.items() if name.startswith(("ssl_", "socket_"))}
    is_tls = issubclass(options.get("connection_class", Connection), SSLConnection)
    key = (hosts.hosts, hosts.service, is_tls, *sorted({**shared_options, **hosts.login}.items()))
    if (sentinels := _shared.get(key)) is None:
        login = {**shared_options, **hosts.login, "ssl": is_tls, "retry": Retry(NoBackoff(), 0), "protocol": 2}
        manager = Sentinel(hosts.hosts, sentinel_kwargs=login)  # type: ignore[no-untyped-call]
        for sentinel in manager.sentinels:  # No option of `Redis` sets the parser.
            sentinel.connection_pool.connection_kwargs["parser_class"] = LimitedParser
        clients = [*zip(hosts.hosts, manager.sentinels, strict=True)]
        sentinels = _shared[key] = Sentinels(hosts.service, clients, manager.check_master_state)
    return sentinels


def copy_pool_sentinels(pool: Any) -> Sentinels:
    """Build the sentinels of a redis-py sentinel pool, threaded or asyncio, with new connections that rqtui owns."""
    manager, clients = pool.sentinel_manager, []
    for sentinel in manager.sentinels:
        original = sentinel.connection_pool
        is_tls = "SSL" in original.connection_class.__name__
        options = copy_pool_options(original.connection_kwargs) | {"retry": Retry(NoBackoff(), 0)}
        client = Redis.from_pool(Pool(connection_class=SSLConnection if is_tls else Connection, **options))
        clients.append(((str(options["host"]), int(options["port"])), client))
    return Sentinels(pool.service_name, clients, manager.check_master_state)


def copy_sentinel_client(pool: Any, options: Mapping[str, Any]) -> Redis:
    """Create a client that follows the primary of the same sentinel service as a redis-py sentinel pool."""
    client_options = {name: value for name, value in options.items() if name != "connection_pool"}
    return create_following_client(
        copy_pool_sentinels(pool).find_primary,
        {**client_options, "connection_class": pool.connection_class},
        must_lead=True,
    )


class Cluster:
    """A client for all nodes of a Redis Cluster, discovered from any of `seeds`, with one redis-py client per node.

    It has the methods that the engine needs. A command with a key goes to the node that owns the key, a command without
    one to a node that answers. The slot map is read at the first use, and again after `discard_slot_map`. Threads may
    share the client.
    """

    is_cluster = True

    def __init__(self, seeds: Sequence[Address], options: Mapping[str, Any]) -> None:
        self._seeds, self.options = tuple(seeds), dict(options)
        self._slots: list[tuple[int, int, Address]] = []
        self._clients: dict[Address, Redis] = {}
        self._lock = threading.Lock()

    def clone(self) -> Cluster:
        """Create another client for the same Redis Cluster, with its own connections."""
        return Cluster(self._seeds, self.options)

    # Slots and nodes

    def discard_slot_map(self) -> None:
        """Discard the map of Cluster slots to nodes, which may be outdated. The next use reads it again."""
        self._slots = []

    def read_slot_map(self) -> None:
        """Read the map of Cluster slots to nodes from any node.

        Raises NotFound if no node answers, and NoPermissionError.
        """
        cached = dict.fromkeys(address for _first, _last, address in self._slots)
        reason = ""
        for address in dict.fromkeys([*cached, *self._seeds, *self._clients]):
            try:
                slots = self.find_or_create_node_client(address).execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
            except NoPermissionError:
                raise  # The user has the same rights on every node.
            except RedisError as error:
                reason = describe_connection_error(error, f"redis://{format_address(address)}")
                continue
            # A node that does not know its own address leaves it empty; use the address of the request then.
            self._slots = [
                (int(first), int(last), ((node[0] or b"").decode() or address[0], int(node[1])))
                for first, last, node, *_replicas in slots
            ]
            return
        seeds = ", ".join(map(format_address, self._seeds))
        raise NotFound(f"No node of the Cluster at {seeds} answers: {reason}")

    def find_slot_address(self, slot: int) -> Address:
        """Return the address of the Cluster node that owns a slot. Raises NotFound if no node does."""
        slots = self._slots
        if not slots:
            self.read_slot_map()
            slots = self._slots
        for first, last, address in slots:
            if first <= slot <= last:
                return address
        self.discard_slot_map()
        raise NotFound(f"No node of the Cluster serves slot {slot}, where this queue lies.")

    def find_or_create_node_client(self, address: Address) -> Redis:
        """Return the client of the Cluster node at an address; the first call for an address creates the client."""
        with self._lock:
            if address not in self._clients:
                options = {name: value for name, value in self.options.items() if name not in ("host", "port")}
                pool = Pool(host=address[0], port=address[1], **options)
                self._clients[address] = check_reply_types(Redis.from_pool(pool))
            return self._clients[address]

    def find_key_client(self, key: str | bytes) -> Redis:
        """Return the client of the Cluster node that owns a key now. Raises NotFound."""
        return self.find_or_create_node_client(self.find_slot_address(compute_key_slot(key)))

    def create_key_client(self, key: str | bytes) -> Redis:
        """Create a separate client for the slot of a key, which follows the slot when it moves to another node."""
        slot = compute_key_slot(key)

        def find_slot_owner() -> Address:
            self.read_slot_map()
            return self.find_slot_address(slot)

        return create_following_client(find_slot_owner, self.options)

    def list_primary_clients(self) -> list[Redis]:
        """Return the clients of all Cluster nodes that own slots."""
        if not self._slots:
            self.read_slot_map()
        return [
            self.find_or_create_node_client(address)
            for address in dict.fromkeys(address for _first, _last, address in self._slots)
        ]

    def find_live_node_client(self) -> Redis:
        """Return the client of a Cluster node that answers. Raises an error of redis-py if none does."""
        last_error: RedisError | None = None
        for node in self.list_primary_clients():
            try:
                with contextlib.suppress(NoPermissionError):  # This error is a reply too.
                    node.ping()
                return node
            except (NoConnection, TimeoutError) as error:
                last_error = error
        raise last_error or NotFound("No node of the Cluster owns a slot.")

    # Commands with the signatures of redis-py

    def ping(self) -> bool:
        """Return True if a node of the Cluster answers. Raises an error of redis-py if none does."""
        return bool(self.find_live_node_client())

    def time(self) -> Any:
        """Return the time (TIME) of one Cluster node."""
        return self.find_live_node_client().time()

    def execute_command(self, *words: Any) -> Any:
        """Run a command without a key on one Cluster node that answers."""
        return self.find_live_node_client().execute_command(*words)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = False) -> Any:
        """Create a pipeline, for commands without keys, on one Cluster node."""
        return self.find_live_node_client().pipeline(transaction=transaction)

    def client_list(self) -> list[Any]:
        """Return the client connections (CLIENT LIST) of all Cluster nodes that answer."""
        connections: list[Any] = []
        for node in self.list_primary_clients():
            with contextlib.suppress(NoConnection, TimeoutError):
                connections += node.client_list()
        return connections

    def exists(self, key: str | bytes) -> Any:
        """Return 1 if `key` exists, else 0."""
        return self.find_key_client(key).exists(key)

    def sadd(self, key: str | bytes, *members: Any) -> Any:
        """Add members to the set at `key`."""
        return self.find_key_client(key).sadd(key, *members)

    def srem(self, key: str | bytes, *members: Any) -> Any:
        """Remove members from the set at `key`."""
        return self.find_key_client(key).srem(key, *members)

    def sscan(self, key: str | bytes, **options: Any) -> Any:
        """Read one page of the set at `key` with SSCAN."""
        return self.find_key_client(key).sscan(key, **options)

    @property
    def connection_pool(self) -> Any:
        """The pool of the first Cluster node in the URL, whose options other clients copy."""
        return self.find_or_create_node_client(self._seeds[0]).connection_pool

    def close(self) -> None:
        """Close the idle connections to all Cluster nodes."""
        for node in list(self._clients.values()):
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def compute_key_slot(key: str | bytes) -> int:
    """Return the Cluster slot of a key: CRC16 of the part between the first braces, modulo 16384.

    Source: Redis Cluster specification, redis.io.
    """
    raw = to_bytes(key)
    return int(key_slot(raw))
