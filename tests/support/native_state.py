"""The state of the native queue's model, in dicts and lists, and the keys that Redis must hold for it.

`native_model` adds the verbs. `read_parsed_keys` reads the keys of Redis into the same structure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from native_jobs import HASHES, KEYS, PLACES, build_key
from redis import Redis

SETTINGS = {
    "ttr_ms": 30_000,
    "max_attempts": 5,
    "backoff_ms": 1000,
    "backoff_cap_ms": 3_600_000,
    "keep_ms": 0,
    "unique_ms": 0,
    "dead_max": 100_000,
    "dead_ttl_ms": 30 * 24 * 3_600_000,
    "done_max": 100_000,
}
OPTIONS = ("ttr_ms", "max_attempts", "backoff_ms", "backoff_cap_ms", "keep_ms")
LIVE, ENDED = ("scheduled", "ready", "reserved"), ("done", "dead")
Outcome = str | tuple[Any, ...]


@dataclass
class AttemptLine:
    """The value of a native job in the hash `attempts`.

    The value exists from the first reservation or change by an operator.
    """

    attempts: int = 0
    token: str = "-"
    score: int = 0
    at_ms: int = 0
    priority: int | None = None
    flag: str = "-"
    worker: str = ""

    def text(self) -> bytes:
        """Return the bytes that Redis stores for these attempts."""
        own = "-" if self.priority is None else self.priority
        return f"{self.attempts} {self.token} {self.score} {self.at_ms} {own} {self.flag} {self.worker}".encode()


@dataclass
class State:
    """The model of a native queue at one instant; `now_ms` is the test's clock."""

    now_ms: int
    places: dict[str, dict[bytes, int]] = field(default_factory=lambda: {name: {} for name in (*LIVE, *ENDED)})
    records: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    lines: dict[bytes, AttemptLine] = field(default_factory=dict)
    errors: dict[bytes, list[list[Any]]] = field(default_factory=dict)
    meta: dict[str, int | str] = field(default_factory=dict)
    minutes: list[tuple[int, dict[str, int | str]]] = field(default_factory=list)
    events: list[tuple[str, bytes]] = field(default_factory=list)
    workers: dict[bytes, list[Any]] = field(default_factory=dict)
    wake: bool = False

    # --- parts of several verbs ---

    def find_job_place(self, id: bytes) -> str:
        """Return the place of the model that contains a job; empty if none does."""
        return next((name for name, ids in self.places.items() if id in ids), "")

    def sort_ids(self, place: str) -> list[bytes]:
        return sorted(self.places[place], key=lambda id: (self.places[place][id], id))

    def read_setting(self, name: str, own: int | None = None) -> int:
        """Return a setting of the queue as a number: the job's own value, else that of the queue, else the default."""
        return own if own is not None else int(self.meta.get(name, SETTINGS[name]))

    def move_job(self, id: bytes, place: str, score: int) -> None:
        self.places[self.find_job_place(id) or place].pop(id, None)
        self.places[place][id] = score

    def erase_job(self, id: bytes) -> None:
        """Delete a job from the model with all of its data."""
        self.places.get(self.find_job_place(id), {}).pop(id, None)
        for job_values in (self.records, self.lines, self.errors):
            job_values.pop(id, None)

    def assign_ready_score(self, priority: int) -> int:
        """Assign the score of the next job that enters ready."""
        self.meta["seq"] = int(self.meta.get("seq", 0)) + 1
        return priority * 2**40 + int(self.meta["seq"])

    def find_priority(self, id: bytes) -> int:
        line = self.lines.get(id)
        return line.priority if line and line.priority is not None else self.records[id]["priority"]

    def compute_ms_to_next_job(self) -> int:
        at = [*self.places["scheduled"].values(), *self.places["reserved"].values()]
        return max(0, min(at) - self.now_ms) if at else -1

    def find_next_due_ms(self) -> float:
        return min(self.places["scheduled"].values(), default=float("inf"))

    def is_lease_valid(self, id: bytes, token: str) -> bool:
        return id in self.places["reserved"] and self.lines[id].token == token

    def has_job_data(self, id: bytes) -> bool:
        return id in self.records or id in self.lines

    def record_changes(self, verb: str, ids: Sequence[bytes], **counters: int) -> None:
        """Record a change of jobs: the counters, a new minute, and an event per job while events are recorded."""
        watched = self.is_recording_events()
        minute = self.now_ms - self.now_ms % 60_000
        if minute > int(self.meta.get("minute", 0)):
            self.meta["minute"] = minute
            self.minutes.append((minute, dict(self.meta)))
        for name, by in counters.items():
            if by or name != "dead":
                self.meta[name] = int(self.meta.get(name, 0)) + by
        if watched:
            self.events += [(verb, id) for id in ids]

    def is_recording_events(self) -> bool:
        """Return whether events of the queue are being recorded at the test's clock."""
        watch = str(self.meta.get("events", "off"))
        return watch == "on" or (watch.isdigit() and int(watch) > self.now_ms)

    def delete_old_jobs(self, place: str, until_ms: int, max_jobs: int, batch: int) -> None:
        """Delete at most `max_jobs` of the jobs of a place whose time ended before `until_ms`."""
        ids = self.sort_ids(place)
        old_ids = [id for id in ids if self.places[place][id] <= until_ms][:batch]
        over = min(batch, len(ids) - max_jobs)
        old_ids = ids[:over] if over > len(old_ids) else old_ids
        for id in old_ids:
            self.erase_job(id)
        if old_ids:
            self.meta["forgotten"] = int(self.meta.get("forgotten", 0)) + len(old_ids)

    def delete_old_done_jobs(self, batch: int) -> None:
        self.delete_old_jobs("done", self.now_ms, self.read_setting("done_max"), batch)

    def delete_old_dead_jobs(self, batch: int) -> None:
        self.delete_old_jobs(
            "dead", self.now_ms - self.read_setting("dead_ttl_ms"), self.read_setting("dead_max"), batch
        )

    def record_failure(self, id: bytes, start_ms: int, worker: str, reason: str) -> None:
        """Add a failed attempt to the error history of a job."""
        self.errors[id] = [*self.errors.get(id, []), [start_ms, self.now_ms, worker, reason]][-10:]

    def apply_to_rows(
        self, rows: Sequence[Any], apply_to_row: Callable[[Any], tuple[Outcome, bytes | None]]
    ) -> tuple[list[Outcome], list[bytes]]:
        """Apply a function to each row. Return the reply words, and the ids of the changed jobs."""
        outcomes = [apply_to_row(row) for row in rows]
        return [reply_word for reply_word, _ in outcomes], [id for _, id in outcomes if id is not None]

    # --- the keys in Redis ---

    def build_keyspace(self) -> dict[str, Any]:
        """Build the parsed value of each Redis key of the queue by the key's name, without empty keys."""
        long = {id: record["body"] for id, record in self.records.items() if len(record["body"]) > 4096}
        everything = {
            **self.places,
            "jobs": {id: _build_record(record) for id, record in self.records.items()},
            "bodies": long,
            "attempts": {id: line.text() for id, line in self.lines.items()},
            "errors": self.errors,
            "meta": {name: str(value) for name, value in self.meta.items()},
            "minutes": [(at, {name: str(value) for name, value in counters.items()}) for at, counters in self.minutes],
            "events": self.events,
            "workers": {
                name: f"{beat} 1000000000000 {order} {since} - - ".encode() + job
                for name, (beat, order, since, job) in self.workers.items()
            },
            "wake": {b"wake": 0} if self.wake else {},
        }
        return {name: value for name, value in everything.items() if value}


def _build_record(record: dict[str, Any]) -> bytes:
    columns = [record["enqueued"], record["due"], record["priority"], *(record[name] for name in OPTIONS)]
    body = record["body"]
    if record["is_plain"] and len(body) <= 4096:
        return f"{record['enqueued']}:{record['name']}\n".encode() + body
    columns += [len(body) if len(body) > 4096 else None, record["name"]]
    head = " ".join("-" if value is None else str(value) for value in columns)
    return head.encode() + b"\n" + (b"" if len(body) > 4096 else body)


def read_parsed_keys(client: Redis) -> dict[str, Any]:
    """Read all keys of the native queue in the structure of `State.build_keyspace`, in one round trip.

    One round trip, because every step of the model test calls this function.
    """
    pipe = client.pipeline(transaction=False)
    for name in PLACES:
        pipe.zrange(build_key(name), 0, -1, withscores=True)
    for name in (*HASHES, "meta", "workers"):
        pipe.hgetall(build_key(name))
    for name in ("events", "minutes"):
        pipe.xrange(build_key(name))
    pipe.zrange(build_key("wake"), 0, -1, withscores=True).keys("*")
    *values, keys = pipe.execute()
    state = dict(zip((*PLACES, *HASHES, "meta", "workers", "events", "minutes", "wake"), values, strict=True))
    assert set(keys) <= {build_key(name).encode() for name in KEYS}, "an unknown key"
    state |= {name: dict(state[name]) for name in (*PLACES, "wake")}
    state["errors"] = {id: json.loads(text) for id, text in state["errors"].items()}
    state["meta"] = _decode_fields(state["meta"])
    state["minutes"] = [(int(at.split(b"-")[0]), _decode_fields(fields)) for at, fields in state["minutes"]]
    state["events"] = [(fields[b"verb"].decode(), fields.get(b"id", b"")) for _, fields in state["events"]]
    return {name: value for name, value in state.items() if value}


def _decode_fields(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}
