"""orizuru: the lists of a Rust crate of that name, a source and two lists per consumer.

LIST `<source>`, LPUSH in and BRPOPLPUSH out, to LIST `orizuru:consumers:<name>:processing`; rejected jobs in LIST
`orizuru:consumers:<name>:unacked`. SET `orizuru:consumers` of registered names; STRING
`orizuru:consumers:<name>:heartbeat` (unix ms, PX) and HASH `orizuru:heartbeats` name → unix ms. A job is its bytes,
MessagePack of a struct. Its README says that the garbage collector brings rejected jobs back to the source; its code
brings them to *processing*, where nobody reads them, and nothing in it reads the heartbeats. Which source a consumer
reads is not stored, so the source is an option. Page: `docs/systems/orizuru.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.errors import ServerError, UsageError
from rqtui.layout.entries import Entry
from rqtui.layout.foreign import Entrywise, rows_by_name
from rqtui.layout.key_types import kinds
from rqtui.layout.layout import Answers, Ask
from rqtui.layout.option_values import whole
from rqtui.model import Job, Place, State, Worker
from rqtui.scripts.script import Call, Script
from rqtui.text.msgpack import is_packed, packed
from rqtui.text.names import to_text

CONSUMERS, HEARTBEATS, PREFIX = "orizuru:consumers", "orizuru:heartbeats", "orizuru:consumers:"
SEEN = "rqtui:{orizuru}:seen"  # ours: since when the lists of silent consumers stand as they are
NO_SOURCE = "rqtui:{orizuru}:unknown-source"  # stands for a source that nobody named; nothing ever writes it
_REMEMBERED = 1000  # consumers that the walk over the keys has seen; the scripts look at no more either
_CHECKED_BYTES = 65536  # longer bodies are not decoded for every row of a page
_UNREADABLE = "its body is no MessagePack: no consumer can read it"


class Orizuru(Entrywise):
    """A source and everybody's lists; without a source, everybody's lists alone, in a queue called `orizuru`."""

    name = "orizuru"
    places = (
        Place("source", State.READY, "<queue>", "list"),
        Place("processing", State.RESERVED, PREFIX + "<worker>:processing", "list"),
        Place("unacked", State.DEAD, PREFIX + "<worker>:unacked", "list"),
    )
    defaults = {"source": "", "silent_ms": "60000"}
    option_values = {"silent_ms": whole(1, 10**12, "milliseconds")}
    queue_option = "source"
    tells = frozenset({"worker", "owner"})
    learns_by_walk = True
    patterns = (r"^orizuru:consumers:.*:processing$", r"^orizuru:consumers:.*:unacked$")

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._spotted: tuple[str, ...] = ()  # replaced, never changed: loops read it on threads of their own
        for spec in self.specs:
            if spec["source"]:
                self.keys(spec["source"])

    def keys(self, queue: str) -> Mapping[str, str]:
        """The source, and the two registries; consumers' keys are made in the scripts."""
        if not queue or queue in (CONSUMERS, HEARTBEATS) or queue.startswith(PREFIX):
            raise UsageError(f'orizuru: "{queue}" is no source; name the list that producers push to.')
        source = NO_SOURCE if self._is_nameless(queue) else queue
        return {"source": source, "consumers": CONSUMERS, "heartbeats": HEARTBEATS, "seen": SEEN}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """The sources that were named; else one nameless queue where a registry is there."""
        if self.is_asked and self.named():
            yield self.named()
        else:
            yield [self.name] if _is_there(client) else []

    def shown_by(self) -> Sequence[str]:
        """Who is registered, or beats."""
        return CONSUMERS, HEARTBEATS

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Remembers whose lists these are; without a named source they are a queue of their own."""
        lists = [key for key, kind in zip(found, kinds(client, found), strict=True) if kind == "list"]
        names = [to_text(key).removeprefix(PREFIX).rpartition(":")[0] for key in lists]
        self._spotted = tuple(dict.fromkeys([*names, *self._spotted]))[:_REMEMBERED]
        return [self.name] if lists and not self.named() else []

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it was named, or is the nameless one and somebody is registered or beats."""
        return super().recognises(client, queue) or (self._is_nameless(queue) and _is_there(client))

    def tail(self, queue: str, script: Script) -> Sequence[Mapping[str, object]]:
        """The consumers whose lists were seen, for scripts that look at all of them."""
        if script.per_row or not any(column.name == "worker" for column in script.each):
            return ()
        return [{"worker": name} for name in self._spotted]

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """As every layout; a verb that needs the source is refused where nobody named it."""
        script = self.script(name)
        needs_source = "source" in script.targets or script.sources == ("source",)
        if needs_source and self._is_nameless(queue):
            raise UsageError(
                f"{name} needs the source list, which orizuru does not store: say --layout orizuru:source=KEY."
            )
        return super().call(name, queue, args, rows)

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Consumers that ever beat, the silent ones too; without a beat there is no age, and `faults` names them."""
        silent_ms = int(self.options_of(queue)["silent_ms"])
        call = self.call("roster", queue, {})
        return Ask((call,), lambda answers: _workers(queue, silent_ms, answers))

    def encoded(self, body: bytes) -> bytes:
        """A list or an object of JSON as MessagePack, which a consumer reads as its struct."""
        return packed(body)

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job and whose it is; the lease ends when its consumer counts as dead."""
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
            problem=_UNREADABLE if is_short and not is_packed(entry.head) else "",
        )

    def words(self, queue: str) -> str:
        """As every layout; of the nameless queue, what has to be said first."""
        return "--layout orizuru:source=KEY orizuru:KEY" if self._is_nameless(queue) else super().words(queue)

    def _is_nameless(self, queue: str) -> bool:
        return queue == self.name and queue not in self.named()


LAYOUT = Orizuru


def _is_there(client: Any) -> bool:
    registry, heartbeats = kinds(client, [CONSUMERS, HEARTBEATS])
    return registry == "set" or heartbeats == "hash"


def _workers(queue: str, silent_ms: int, answers: Answers) -> tuple[Worker, ...]:
    answer = answers[0]
    if isinstance(answer, ServerError):
        return ()  # the counts say what is wrong with the keys
    if isinstance(answer, Exception):
        raise answer
    return tuple(Worker(to_text(row["worker"]), queue, row["beat_ms"], silent_ms) for row in rows_by_name(answer))
