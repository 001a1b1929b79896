"""Where to connect when that changes: the primary that sentinels name, or the node of a Cluster that owns a slot.

A connection that follows asks for its address each time it connects, and connects anew after an answer that says it
stands at the wrong place (READONLY, MOVED). Nothing is sent twice here: `scripts/transport.py` decides what may be.
`connect` makes these clients; what they are made of stands in the URL (`connection/urls.py`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from redis import Connection, Redis, SSLConnection
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import MovedError, NoPermissionError, ReadOnlyError, RedisError, ResponseError, TimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel

from rqtui.connection.error_messages import describe, describe_of_sentinel
from rqtui.connection.meter import metered, of_kind
from rqtui.connection.pool import Pool
from rqtui.connection.urls import Address, Hosts, shown
from rqtui.text.names import to_bytes

Find = Callable[[], Address]
_OF_A_PLACE = ("host", "port", "connection_class")


class NotFound(NoConnection):
    """Nobody says where to connect; the text is a sentence for a person."""


class _Follows:
    """What a connection does to follow; `find` tells where, `must_lead`: only a primary will do."""

    _sock: Any
    host: str
    port: int

    def __init__(self, *, find: Find, must_lead: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._find, self._must_lead = find, must_lead
        self.is_misplaced = False

    def connect(self) -> None:
        """Connects to where it belongs now, unless it stands there."""
        if self.is_misplaced:
            self.disconnect()  # type: ignore[attr-defined]
        if self._sock is not None:
            return
        self.host, self.port = self._find()
        self.is_misplaced = False
        super().connect()  # type: ignore[misc]
        if self._must_lead:
            self._refuse_a_replica()

    def read_response(self, *args: Any, **options: Any) -> Any:
        """A reply; one that says this is the wrong place is kept in mind for the next `connect`."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except (MovedError, ReadOnlyError):
            self.is_misplaced = True
            raise

    def _refuse_a_replica(self) -> None:
        """Sentinels may be behind: https://redis.io/docs/latest/develop/reference/sentinel-clients/ asks for this."""
        with contextlib.suppress(ResponseError):  # an ACL denies ROLE
            self.send_command("ROLE", check_health=False)  # type: ignore[attr-defined]
            role = self.read_response()[0]
            if role != b"master":
                self.disconnect()  # type: ignore[attr-defined]
                raise NotFound(f"{self.host}:{self.port}, which the sentinels name, is no primary yet.")


class Following(_Follows, Connection):
    """A connection that follows."""


class FollowingTls(_Follows, SSLConnection):
    """The same in TLS."""


def following(find: Find, options: Mapping[str, Any], *, must_lead: bool = False) -> Redis:
    """A client whose connections go where `find` says; `options` are those of a pool of connections."""
    given = options.get("connection_class", Connection)
    kept = {name: value for name, value in options.items() if name not in _OF_A_PLACE}
    kind: type = FollowingTls if issubclass(given, SSLConnection) else Following
    if meter := of_kind(given):
        kind = metered(kind, meter)
    return Redis.from_pool(Pool(connection_class=kind, find=find, must_lead=must_lead, **kept))


def follows(client: Any) -> bool:
    """Whether a second try of `client` may go to another server than the first."""
    return isinstance(client, Cluster) or has_failover(client.connection_pool)


def has_failover(pool: Any) -> bool:
    """The same of a pool of connections."""
    return "find" in pool.connection_kwargs


def client(hosts: Hosts, options: Mapping[str, Any]) -> Redis | Cluster:
    """A client of what stands behind these hosts, which has not connected yet."""
    return Cluster(hosts.hosts, options) if hosts.kind == "cluster" else _of_sentinels(hosts, options)


def _of_sentinels(hosts: Hosts, options: Mapping[str, Any]) -> Redis:
    return following(_Sentinels(hosts, options).find, options, must_lead=True)


class _Sentinels:
    """Those of a URL; `find` may be called by several threads."""

    def __init__(self, hosts: Hosts, options: Mapping[str, Any]) -> None:
        shared = {name: value for name, value in options.items() if name.startswith(("ssl_", "socket_"))}
        is_tls = issubclass(options.get("connection_class", Connection), SSLConnection)
        asked = {**shared, **hosts.login, "ssl": is_tls, "retry": Retry(NoBackoff(), 0), "protocol": 2}
        self._hosts = hosts
        self._theirs = Sentinel(hosts.hosts, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
        self._knew = 0  # who is asked first: one that is away costs a time-out for each connection

    def find(self) -> Address:
        """The address of the primary. Raises NotFound with a reason for each sentinel."""
        numbers, reasons = range(len(self._hosts.hosts)), []
        for number in sorted(numbers, key=lambda number: number != self._knew):
            address = self._hosts.hosts[number]
            try:
                primaries: Any = self._theirs.sentinels[number].sentinel_masters()
            except RedisError as error:
                reasons.append(describe_of_sentinel(error, address))
                continue
            state = primaries.get(self._hosts.service)
            if state and self._theirs.check_master_state(state, self._hosts.service):  # type: ignore[no-untyped-call]
                self._knew = number
                return str(state["ip"]), int(state["port"])
            reasons.append(f"{shown(address)} {'holds it for down' if state else 'does not know it'}.")
        at, service = self._hosts, self._hosts.service
        raise NotFound(f'The sentinels at {at} name no primary of "{service}": {" ".join(reasons)}')


def like_sentinels_of(pool: Any, options: Mapping[str, Any]) -> Redis:
    """A client that follows the same service as a pool of redis-py's own for sentinels."""
    rest = {name: value for name, value in options.items() if name != "connection_pool"}

    def find() -> Address:
        host, port = pool.sentinel_manager.discover_master(pool.service_name)
        return str(host), int(port)

    return following(find, {**rest, "connection_class": pool.connection_class}, must_lead=True)


class Cluster:
    """The nodes of a Cluster, found from any of `seeds`; a client of redis-py for each, made when it is needed.

    It has what the engine asks of a client: commands with a key go to the key's node, those without to one that
    answers. The map of slots is asked for at the first use, and again after `forget`. May be shared by threads.
    """

    is_cluster = True

    def __init__(self, seeds: Sequence[Address], options: Mapping[str, Any]) -> None:
        self._seeds, self.options = tuple(seeds), dict(options)
        self._slots: list[tuple[int, int, Address]] = []
        self._clients: dict[Address, Redis] = {}
        self._lock = threading.Lock()

    def like(self) -> Cluster:
        """Another for the same Cluster, with connections of its own."""
        return Cluster(self._seeds, self.options)

    # Where

    def forget(self) -> None:
        """What is known of the slots may be wrong: it is asked for at the next use."""
        self._slots = []

    def refresh(self) -> None:
        """Asks any node who owns which slots. Raises NotFound when none answers, NoPermissionError."""
        known = dict.fromkeys(address for _first, _last, address in self._slots)
        why = ""
        for address in dict.fromkeys([*known, *self._seeds, *self._clients]):
            try:
                found = self.at(address).execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
            except NoPermissionError:
                raise  # what the user may not here it may nowhere
            except RedisError as error:
                why = describe(error, f"redis://{shown(address)}")
                continue
            # A node that knows no address of its own leaves it empty: it is the one that was asked.
            self._slots = [
                (int(first), int(last), ((node[0] or b"").decode() or address[0], int(node[1])))
                for first, last, node, *_replicas in found
            ]
            return
        at = ", ".join(map(shown, self._seeds))
        raise NotFound(f"No node of the Cluster at {at} answers: {why}")

    def address_of(self, slot: int) -> Address:
        """The address of the node that owns a slot. Raises NotFound."""
        slots = self._slots
        if not slots:
            self.refresh()
            slots = self._slots
        for first, last, address in slots:
            if first <= slot <= last:
                return address
        self.forget()
        raise NotFound(f"No node of the Cluster serves slot {slot}, where this queue lies.")

    def at(self, address: Address) -> Redis:
        """The client of one node."""
        with self._lock:
            if address not in self._clients:
                kept = {name: value for name, value in self.options.items() if name not in ("host", "port")}
                pool = Pool(host=address[0], port=address[1], **kept)
                self._clients[address] = Redis.from_pool(pool)
            return self._clients[address]

    def of_key(self, key: str | bytes) -> Redis:
        """The client of the node that has `key` now. Raises NotFound."""
        return self.at(self.address_of(slot_of(key)))

    def following(self, key: str | bytes) -> Redis:
        """A client of its own for the slot of `key`, wherever that goes."""
        slot = slot_of(key)

        def find() -> Address:
            self.refresh()
            return self.address_of(slot)

        return following(find, self.options)

    def primaries(self) -> list[Redis]:
        """The clients of all nodes that own slots."""
        if not self._slots:
            self.refresh()
        return [self.at(address) for address in dict.fromkeys(address for _first, _last, address in self._slots)]

    def live(self) -> Redis:
        """The client of a node that answers."""
        lost: RedisError | None = None
        for node in self.primaries():
            try:
                with contextlib.suppress(NoPermissionError):  # which is an answer, too
                    node.ping()
                return node
            except (NoConnection, TimeoutError) as error:
                lost = error
        raise lost or NotFound("No node of the Cluster owns a slot.")

    # Commands, as redis-py has them

    def ping(self) -> bool:
        """Whether a node answers."""
        return bool(self.live())

    def time(self) -> Any:
        """The clock of one node."""
        return self.live().time()

    def execute_command(self, *words: Any) -> Any:
        """A command about the server, at one node."""
        return self.live().execute_command(*words)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = False) -> Any:
        """A pipeline of commands about the server, at one node."""
        return self.live().pipeline(transaction=transaction)

    def client_list(self) -> list[Any]:
        """The clients of all nodes that answer."""
        found: list[Any] = []
        for node in self.primaries():
            with contextlib.suppress(NoConnection, TimeoutError):
                found += node.client_list()
        return found

    def exists(self, key: str | bytes) -> Any:
        """Of one key."""
        return self.of_key(key).exists(key)

    def sadd(self, key: str | bytes, *members: Any) -> Any:
        """Of one key."""
        return self.of_key(key).sadd(key, *members)

    def srem(self, key: str | bytes, *members: Any) -> Any:
        """Of one key."""
        return self.of_key(key).srem(key, *members)

    def sscan(self, key: str | bytes, **options: Any) -> Any:
        """Of one key."""
        return self.of_key(key).sscan(key, **options)

    @property
    def connection_pool(self) -> Any:
        """The pool of the first node that the URL names, for its options."""
        return self.at(self._seeds[0]).connection_pool

    def close(self) -> None:
        """Closes what is not in use."""
        for node in list(self._clients.values()):
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def slot_of(key: str | bytes) -> int:
    """The slot of a key: CRC16 of what stands between the first braces, modulo 16384 (redis.io, Cluster spec)."""
    raw = to_bytes(key)
    return int(key_slot(raw))
