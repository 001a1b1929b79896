"""Find the other databases of a Redis server that have queues: one rqtui reads one database.

Programs choose the database by a number in their URL, so a person may look at the wrong one, or miss an application.
Called by the overview and by `snapshot`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqtui.connection.connect import copy_client
from rqtui.connection.nodes import is_cluster
from rqtui.engine.discovery import find_database_number
from rqtui.errors import RqtuiError
from rqtui.text.formats import format_quantity
from rqtui.text.masking import mask_url

if TYPE_CHECKING:
    from rqtui.config.settings import Settings

MAX_DATABASES = 16  # Redis has sixteen databases by default
MAX_KEYS = 2_000  # keys of each that a walk reads for systems that store no names of queues


class OtherDatabase(NamedTuple):
    """A database with queues: its number, how many queues were found, and their systems."""

    number: int
    queues: int
    systems: tuple[str, ...]


def find_other_databases(
    client: Any, settings: Settings, used_databases: Sequence[int] | None = None
) -> Iterator[OtherDatabase | None]:
    """Yield each other database of the server with queues, one per step, and None for one without.

    `used_databases` are the databases that have keys, if they are known from INFO. Nothing is yielded for a Cluster,
    which has one database, and for a user without the right to INFO.
    """
    if is_cluster(client):
        return
    own_number = find_database_number(client)
    if used_databases is None:
        used_databases = _list_databases_with_keys(client)
    numbers = [number for number in used_databases if number != own_number]
    for number in numbers[:MAX_DATABASES]:
        yield _find_queues(client, number, settings)


def _list_databases_with_keys(client: Any) -> Sequence[int]:
    from redis.exceptions import RedisError

    with contextlib.suppress(RedisError):
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in client.info("keyspace")]
        numbers = [name.removeprefix("db") for name in names if name.startswith("db")]
        return sorted(int(number) for number in numbers if number.isdigit())
    return ()


def _find_queues(client: Any, number: int, settings: Settings) -> OtherDatabase | None:
    """Return the queues of a database, found by one discovery on a connection of its own."""
    from rqtui.engine.engine import Engine
    from rqtui.systems import registry

    systems = registry.create_systems(settings.systems) if settings.systems else registry.create_usable_systems()[0]
    with copy_client(client) as own_client:
        own_client.connection_pool.connection_kwargs["db"] = number
        engine = Engine(own_client, systems)
        try:
            for _chunk in engine.discover(max_keys=MAX_KEYS):
                pass
        except RqtuiError:  # such as an ACL that denies this database
            return None
        found = Counter(engine.systems[ref.system].name for ref in engine.refs)
    return OtherDatabase(number, found.total(), tuple(found)) if found else None


def describe_other_databases(databases: Sequence[OtherDatabase], url: str) -> str:
    """Return a sentence per database with queues, each with the command that opens it; empty if there is none."""
    return "\n".join(
        f"database {each.number} of this Redis has {format_quantity(each.queues, 'queue')} "
        f"({', '.join(each.systems)}): rqtui {mask_url(build_database_url(url, each.number))}"
        for each in databases
    )


def build_database_url(url: str, number: int) -> str:
    """Return the URL of another database of the same server."""
    address, mark, query = url.partition("?")
    scheme, separator, rest = address.partition("://")
    options = "&".join(option for option in query.split("&") if option and not option.startswith("db="))
    if scheme == "unix":
        return f"{address}?{'&'.join(filter(None, [options, f'db={number}']))}"
    parts = rest.split("/")
    kept = parts[:2] if "+sentinel" in scheme else parts[:1]
    return f"{scheme}{separator}{'/'.join(kept)}/{number}{mark if options else ''}{options}"
