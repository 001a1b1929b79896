"""Read and change the lists of orizuru, a Rust crate with a source list and two lists per consumer.

LIST `<source>`, LPUSH in and BRPOPLPUSH out, to LIST `orizuru:consumers:<name>:processing`; rejected jobs in LIST
`orizuru:consumers:<name>:unacked`. SET `orizuru:consumers` of registered names; STRING
`orizuru:consumers:<name>:heartbeat` (unix ms, PX) and HASH `orizuru:heartbeats` name → unix ms. A job is its bytes,
MessagePack of a struct. According to its README the garbage collector moves rejected jobs back to the source; its code
moves them to *processing*, which no consumer reads, and nothing in it reads the heartbeats. The source of a consumer is
not stored, so the source is an option. Operators' page: `docs/systems/orizuru.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.errors import ServerError, UsageError
from rqtui.model import Job, MigrationTerms, Place, State, Worker, WorkerList
from rqtui.scripts.script import Call, Script
from rqtui.system_base.entries import Entry
from rqtui.system_base.foreign_system import EntrySystem, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.key_types import read_key_types
from rqtui.system_base.option_values import accept_whole_number
from rqtui.system_base.system import Replies, Request
from rqtui.text.msgpack import convert_json_to_msgpack, is_msgpack
from rqtui.text.names import to_text

CONSUMERS, HEARTBEATS, PREFIX = "orizuru:consumers", "orizuru:heartbeats", "orizuru:consumers:"
SEEN_KEY = "rqtui:{orizuru}:seen"  # rqtui's own key: since when the lists of silent consumers are unchanged
NO_SOURCE_KEY = "rqtui:{orizuru}:unknown-source"  # replaces the key of an unnamed source; never written
_MAX_CONSUMERS = 1000  # consumers found by the key walk; the scripts read no more either
_CHECKED_BYTES = 65536  # decoding longer bodies would slow down every page
_UNREADABLE = "its body is no MessagePack: no consumer can read it"


class Orizuru(EntrySystem):
    """The queue system of orizuru: a source list, and lists of running and rejected jobs per consumer.

    Without a named source the lists of all consumers form one queue called `orizuru`.
    """

    name = "orizuru"
    places = (
        Place("source", State.READY, "<queue>", "list"),
        Place("processing", State.RESERVED, PREFIX + "<worker>:processing", "list"),
        Place("unacked", State.DEAD, PREFIX + "<worker>:unacked", "list"),
    )
    defaults = {"source": "", "silent_ms": "60000"}
    option_values = {"silent_ms": accept_whole_number(1, 10**12, "milliseconds")}
    queue_option = "source"
    known_fields = frozenset({"worker", "owner"})
    needs_key_walk = True
    unmigrated_places = {
        "unacked": "its consumer rejected it; it has no id, so equal jobs cannot be distinguished: requeue or delete it"
    }
    key_patterns = (r"^orizuru:consumers:.*:processing$", r"^orizuru:consumers:.*:unacked$")

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._found_consumers: tuple[str, ...] = ()  # replaced, never mutated, because background threads read it
        for spec in self.specs:
            if spec["source"]:
                self.keys(spec["source"])

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the source list and the two registries. The scripts derive the keys of consumers."""
        if not queue or queue in (CONSUMERS, HEARTBEATS) or queue.startswith(PREFIX):
            raise UsageError(f'orizuru: "{queue}" is no source; name the list that producers push to.')
        source = NO_SOURCE_KEY if self._is_unnamed(queue) else queue
        return {"source": source, "consumers": CONSUMERS, "heartbeats": HEARTBEATS, "seen": SEEN_KEY}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the named sources; without any the queue `orizuru`, if a registry of consumers exists."""
        if self.is_explicit and self.named_queues():
            yield self.named_queues()
        else:
            yield [self.name] if _has_consumer_registry(client) else []

    def marker_keys(self) -> Sequence[str]:
        """Return the keys of registered consumers and of heartbeats."""
        return CONSUMERS, HEARTBEATS

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Store the consumers whose lists were found. Without a named source return their queue `orizuru`."""
        lists = [key for key, kind in zip(found, read_key_types(client, found), strict=True) if kind == "list"]
        names = [to_text(key).removeprefix(PREFIX).rpartition(":")[0] for key in lists]
        self._found_consumers = tuple(dict.fromkeys([*names, *self._found_consumers]))[:_MAX_CONSUMERS]
        return [self.name] if lists and not self.named_queues() else []

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether an option names the queue, or it is the queue `orizuru` and consumers are registered."""
        return super().has_queue(client, queue) or (self._is_unnamed(queue) and _has_consumer_registry(client))

    def build_queue_rows(self, queue: str, script: Script) -> Sequence[Mapping[str, object]]:
        """Return the consumers that the key walk found, for scripts that read the lists of all consumers."""
        if script.per_row or not any(column.name == "worker" for column in script.each):
            return ()
        return [{"worker": name} for name in self._found_consumers]

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script. Raises UsageError for a verb that needs a source if no source was named."""
        script = self.script(name)
        needs_source = "source" in script.targets or script.sources == ("source",)
        if needs_source and self._is_unnamed(queue):
            raise UsageError(
                f"{name} needs the source list, which orizuru does not store: say --system orizuru:source=KEY."
            )
        return super().build_call(name, queue, args, rows)

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for all consumers that ever sent a heartbeat, including silent ones."""
        silent_ms = int(self.options_of(queue)["silent_ms"])
        call = self.build_call("roster", queue, {})
        return Request((call,), lambda replies: _parse_workers(queue, silent_ms, replies))

    def encode_body(self, body: bytes) -> bytes:
        """Convert a JSON list or object to MessagePack, which a consumer decodes to its struct."""
        return convert_json_to_msgpack(body)

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job with its consumer. The lease ends when the consumer counts as dead."""
        is_short = entry.size <= min(_CHECKED_BYTES, len(entry.head))
        return Job(
            b"",
            queue,
            self.name,
            place,
            self.place(place).state,
            entry.head,
            worker=to_text(row["worker"]),
            deadline_ms=row["deadline_ms"] if row["deadline_ms"] >= 0 else None,
            ttr_ms=int(self.options_of(queue)["silent_ms"]) if row["deadline_ms"] >= 0 else None,
            problem=_UNREADABLE if is_short and not is_msgpack(entry.head) else "",
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return one attempt for a migrated job: a rejected job is not delivered again."""
        return MigrationTerms(0, 1)

    def queue_argument(self, queue: str) -> str:
        """Return the command-line argument of a queue; for the queue `orizuru` with the option to add first."""
        return "--system orizuru:source=KEY orizuru:KEY" if self._is_unnamed(queue) else super().queue_argument(queue)

    def _is_unnamed(self, queue: str) -> bool:
        """Return whether a queue stands for the lists of all consumers, because no option names its source list."""
        return queue == self.name and queue not in self.named_queues()


SYSTEM = Orizuru


def _has_consumer_registry(client: Any) -> bool:
    """Return whether Redis has a registry of consumers."""
    registry, heartbeats = read_key_types(client, [CONSUMERS, HEARTBEATS])
    return registry == "set" or heartbeats == "hash"


def _parse_workers(queue: str, silent_ms: int, replies: Replies) -> tuple[Worker, ...]:
    reply = replies[0]
    if isinstance(reply, ServerError):
        return ()  # the counts already report wrong keys
    if isinstance(reply, Exception):
        raise reply
    workers = (Worker(to_text(row["worker"]), queue, row["beat_ms"], silent_ms) for row in convert_rows_to_dicts(reply))
    return WorkerList(workers, describe_unread_rest(len(reply.rows), reply.values["total"], "consumers of orizuru"))
