"""Read and change the topics of redisched: delayed jobs by id, Lua scripts used from Node and Go.

Keys of topic `T`: hash `__REDIS_SCHED_JOBS__T` (id → body), sorted sets `__REDIS_SCHED_QUEUED__T` (id → due) and
`__REDIS_SCHED_RESERVED__T` (id → end of the lease, which is the token). The Node code writes milliseconds, the Go code
seconds; a score from 10¹¹ on is milliseconds, whatever the option says. Its README calls `release` the end of a job;
its code puts the job back, and its servers finish one with `delete`: so does `ack` here. Only
`rqtui:{__REDIS_SCHED_RESERVED__T}:expiries` is rqtui's own key: how many leases rqtui saw expire, for the thousand most
frequent ids. Operators' page: `docs/systems/redisched.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import MAX_ATTEMPTS, Finding, Job, MigrationTerms, Place, State
from rqtui.scripts.script import Reply
from rqtui.system_base.foreign_system import ForeignSystem
from rqtui.system_base.option_values import accept_listed_words, accept_whole_number
from rqtui.text.names import to_bytes, to_text

_PREFIXES = {
    "jobs": ("__REDIS_SCHED_JOBS__", b"hash"),
    "queued": ("__REDIS_SCHED_QUEUED__", b"zset"),
    "reserved": ("__REDIS_SCHED_RESERVED__", b"zset"),
}
_QUEUED, _RESERVED = (_PREFIXES[name][0] + "<queue>" for name in ("queued", "reserved"))
_MIN_MS_SCORE = 1e11  # 1973 in milliseconds, the year 5138 in seconds
_MAX_MS = 2**53
_TIME_FIELDS = {State.SCHEDULED: "due_ms", State.READY: "since_ms", State.RESERVED: "deadline_ms"}


class Redisched(ForeignSystem):
    """The queue system of redisched, whose topics are shown as queues."""

    name = "redisched"
    places = (
        Place("queued", State.SCHEDULED, _QUEUED, "zset", "due ms or s", "score > now"),
        Place("due", State.READY, _QUEUED, "zset", "due ms or s", "score <= now"),
        Place("reserved", State.RESERVED, _RESERVED, "zset", "deadline ms or s", "score > now"),
        Place("expired", State.RESERVED, _RESERVED, "zset", "deadline ms or s", "score <= now"),
    )
    defaults = {"topic": "", "unit": "auto", "ttr_ms": "60000"}
    option_values = {
        "unit": accept_listed_words("auto", "ms", "s"),
        "ttr_ms": accept_whole_number(1, 365 * 86_400_000, "milliseconds"),
    }
    queue_option = "topic"
    key_patterns = tuple(f"^{prefix}." for prefix, _type in _PREFIXES.values())

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a topic, by the names that the scripts use. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("a topic of redisched has a name, as in --system redisched:topic=mail.")
        own = {name: prefix + queue for name, (prefix, _type) in _PREFIXES.items()}
        return {**own, "expiries": f"rqtui:{{{own['reserved']}}}:expiries"}

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the topics of keys that begin with one of the prefixes and have the right type."""
        keys = [(key, *about) for key in found for about in _PREFIXES.values() if key.startswith(about[0].encode())]
        pipe = client.pipeline(transaction=False)
        for key, _prefix, _right in keys:
            pipe.type(key)
        fits = [
            to_text(key[len(prefix) :])
            for (key, prefix, right), type in zip(keys, pipe.execute(), strict=True)
            if type == right
        ]
        only = self.named_queues() if self.is_explicit else []
        return [topic for topic in dict.fromkeys(fits) if topic and (not only or topic in only)]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether an option names the topic, or one of its keys exists with the right type."""
        if super().has_queue(client, queue):
            return True
        keys = self.keys(queue)
        pipe = client.pipeline(transaction=False)
        for name in _PREFIXES:
            pipe.type(to_bytes(keys[name]))
        return any(type == right for type, (_prefix, right) in zip(pipe.execute(), _PREFIXES.values(), strict=True))

    def _parse_findings(self, queue: str, reply: Reply | Exception) -> tuple[Finding, ...]:
        found = super()._parse_findings(queue, reply)
        words = self.queue_argument(queue)
        if words.startswith("--system "):  # a topic keeps its other options, because only one system can serve it
            in_ms = type(self)({**self.options_of(queue), "unit": "ms"}).queue_argument(queue)
            plain = f"--system redisched:unit=ms act repair {words}"
            found = tuple(replace(one, remedy=one.remedy.replace(plain, f"act repair {in_ms}", 1)) for one in found)
        return found

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from its id, score and body."""
        state, at_ms = self.place(place).state, _convert_score_ms(row["score"])
        body = row["body"] if row["has_body"] and (row["body"] or not row["bytes"]) else None
        token = row["score"] if state is State.RESERVED else b""
        fields: dict[str, Any] = {
            _TIME_FIELDS[state]: at_ms,
            "attempts": row["expiries"],
            "problem": _describe_problem(row, at_ms),
        }
        fields["ttr_ms"] = (
            int(self.options_of(queue)["ttr_ms"]) if token else None
        )  # redisched does not store the duration of a lease
        id: bytes = row["id"]
        return Job(id, queue, self.name, place, state, id, token, body=body, body_bytes=row["bytes"], **fields)

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return unlimited attempts for a migrated job: an unfinished job is due again when its lease ends."""
        lease_ms = int(self.options_of(job.queue)["ttr_ms"])
        return MigrationTerms(job.attempts, MAX_ATTEMPTS, lease_ms, lease_ms)


def _convert_score_ms(score: bytes) -> int | None:
    """Convert a score in ms or s to ms; None if it is no plausible time."""
    try:
        value = float(score)
    except ValueError:
        return None
    value = value if value >= _MIN_MS_SCORE else value * 1000
    return int(value) if isfinite(value) and abs(value) <= _MAX_MS else None


def _describe_problem(row: Mapping[str, Any], at_ms: int | None) -> str:
    if not row["has_body"]:
        return "it has no body: its own workers are handed nothing"
    if row.get("both"):
        return "it is queued and reserved at once: it was put again while a worker held it"
    if row["score"] and at_ms is None:
        return f"its score {row['score'].decode('ascii', 'replace')} is no instant"
    return "" if row["score"] or "both" not in row else "it is in no place: repair makes it due"


SYSTEM = Redisched
