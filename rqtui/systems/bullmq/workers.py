"""Find the workers of BullMQ by the connections of the server, and by the locks of running jobs.

BullMQ stores no list of workers. The connection of a worker shows its queue and its name; a worker without a name has
only the uuid in the locks that it renews. `system` lists the workers, `lock_holders` judges whether they were killed.
"""

from __future__ import annotations

import base64
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rqtui.errors import RqtuiError
from rqtui.model import Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.stored_values import parse_int
from rqtui.system_base.system import Replies, unwrap_reply
from rqtui.text.names import to_bytes, to_text

log = logging.getLogger("rqtui.systems.bullmq")
COMMANDS = ("CLIENT INFO", "CLIENT LIST")
WORKER_REFRESH_S = 10.0  # between two reads of the connections, for all queues together
VIEW_REFRESH_S = 1.0  # the same while the workers themselves are shown
# CLIENT LIST with 2 000 connections is 0.5 MB, for which the server works 4 ms: longer lists are read less often.
LONG_LIST_BYTES, LONG_LIST_FACTOR = 250_000, 3
LOCK_MS = 30_000  # classes/worker.js 6.7: lockDuration


class WorkerConnection(NamedTuple):
    """A connection on which a worker waits for jobs of a queue. `name` is empty for an unnamed worker."""

    queue: str
    name: str
    address: str
    since_s: int
    is_waiting: bool


class WorkerConnections:
    """The connections of workers by queue, as the last list of all connections of the server showed them.

    `by_queue` is None until the list was read, and while an ACL denies it. `error` is then the error of that denial.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.by_queue: dict[str, list[WorkerConnection]] | None = None
        self.error: RqtuiError | None = None
        self.has_seen_names = False  # whether a worker's connection has a name: some servers refuse them
        self._read_s = float("-inf")
        self._is_list_long = False

    @property
    def is_new(self) -> bool:
        """Whether the list was read just now, so that it has all workers that hold jobs."""
        return time.monotonic() - self._read_s < VIEW_REFRESH_S

    def build_calls(self, max_age_s: float, key: str) -> tuple[Call, ...]:
        """Build the commands that list all connections of the server, unless the last list is young enough.

        Scripts may not run these commands. The reply is for all queues: several requests of a round trip need one.
        `key` is a key of the system, which chooses the node of a cluster.
        """
        max_age_s *= LONG_LIST_FACTOR if self._is_list_long else 1
        now_s = time.monotonic()
        if now_s - self._read_s < max_age_s:
            return ()
        self._read_s = now_s
        return tuple(scripts.build_command(words, key) for words in COMMANDS)

    def store_replies(self, replies: Replies) -> None:
        """Store the connections of workers by queue, or the error if an ACL denies the list of connections."""
        if not replies:
            return
        try:
            connections = _parse_worker_connections(self._prefix, replies)
        except RqtuiError as error:  # without the right to list clients the workers are unknown
            log.debug("the list of connections cannot be read: %s", error)
            self.by_queue, self.error = None, error
            return
        self._is_list_long = len(unwrap_reply(replies[1]).values["reply"]) > LONG_LIST_BYTES
        self.has_seen_names = self.has_seen_names or bool(connections)
        self.by_queue, self.error = {}, None
        for connection in connections:
            self.by_queue.setdefault(connection.queue, []).append(connection)

    def list_of_queue(self, queue: str) -> Sequence[WorkerConnection]:
        """Return the connections of a queue's workers; none before the first list. Raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        return (self.by_queue or {}).get(queue, [])

    def count(self, queue: str) -> int | None:
        """Return the number of connections of a queue's workers; None if it is unknown."""
        return None if self.by_queue is None else len(self.by_queue.get(queue, ()))


def _parse_worker_connections(prefix: str, replies: Replies) -> list[WorkerConnection]:
    """Return the connections of workers among all connections to this database.

    Raises the error that Redis replied instead of a list. A worker names its connection `<prefix>:<base64 of the
    queue>`, followed by `:w:<name>` if the worker has a name (classes/worker.js 6.7). Other connections of its program
    have no such name.
    """
    own_fields, client_lines = (unwrap_reply(reply).values["reply"] for reply in replies[:2])
    database = _find_client_field(b"db", own_fields) or b"0"
    name_prefix = b" name=" + to_bytes(prefix) + b":"
    connections = []
    for line in client_lines.splitlines():
        if name_prefix not in line:
            continue
        full_name = _find_client_field(b"name", line)
        encoded, _, name = full_name[len(name_prefix) - len(b" name=") :].partition(b":")
        if _find_client_field(b"db", line) == database and (not name or name.startswith(b"w:")):
            try:
                queue = to_text(base64.b64decode(encoded, validate=True))
            except ValueError:
                continue
            is_waiting = b"b" in _find_client_field(b"flags", line)
            age_s = parse_int(to_text(_find_client_field(b"age", line))) or 0
            address = to_text(_find_client_field(b"addr", line))
            connections.append(WorkerConnection(queue, to_text(name[2:]), address, age_s, is_waiting))
    return connections


def _find_client_field(name: bytes, line: bytes) -> bytes:
    """Return the value of one field in a line of CLIENT LIST, `addr=10.0.0.1:5000 …`; empty if it is missing."""
    _before, found, rest = (b" " + line).partition(b" " + name + b"=")
    return rest.split(b" ", 1)[0].rstrip() if found else b""


def build_workers(
    queue: str, clients: Sequence[WorkerConnection], runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Iterator[Worker]:
    """Yield the workers of a queue: named ones by their connections, unnamed ones by their locks.

    An unnamed worker without a lock is listed by the address of its connection.
    """
    runs_by_worker: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        runs_by_worker.setdefault(run["pb"] or run["lock"].partition(":")[0], []).append(run)
    named_clients = [client for client in clients if client.name]
    name_counts: Counter[str] = Counter()
    for client in named_clients:
        name_counts[client.name] += 1
        name = client.name if name_counts[client.name] == 1 else f"{client.name} {client.address}"
        yield _build_worker(queue, name, client, runs_by_worker.get(name, ()), now_ms)
    unnamed_locks = [
        lock for lock, lock_runs in runs_by_worker.items() if lock and not any(run["pb"] for run in lock_runs)
    ]
    for lock in unnamed_locks:
        yield _build_worker(queue, lock, None, runs_by_worker[lock], now_ms)
    unnamed_clients = sorted(
        (client for client in clients if not client.name), key=lambda client: not client.is_waiting
    )
    for client in unnamed_clients[: max(0, len(unnamed_clients) - len(unnamed_locks))]:
        yield _build_worker(queue, client.address, client, (), now_ms)


def _build_worker(
    queue: str, name: str, client: WorkerConnection | None, runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Worker:
    """Build a worker that has a connection or renews a lock. Either proves that the worker is alive."""
    left_ms = [run["left_ms"] for run in runs if run["left_ms"] >= 0]
    facts = build_facts(
        (
            ("runs", str(len(runs)) if len(runs) > 1 else "", "text"),
            ("locks live", min(left_ms, default=None), "duration"),
            ("connection", client.address if client else "", "text"),
        )
    )
    return Worker(
        name,
        queue,
        now_ms,
        LOCK_MS,
        host=client.address.rpartition(":")[0] if client else "",
        started_ms=now_ms - 1000 * client.since_s if client else None,
        job=runs[-1]["id"] if runs else b"",
        state="runs" if runs else "waits" if client and client.is_waiting else "connected",
        facts=tuple(facts),
    )
