"""redisched: delayed jobs by id, primitives in Lua with glue in Node and in Go. See docs/systems/redisched.md.

Keys of topic `T`: hash `__REDIS_SCHED_JOBS__T` (id → body), sorted sets `__REDIS_SCHED_QUEUED__T` (id → due) and
`__REDIS_SCHED_RESERVED__T` (id → end of the lease, which is the token). The Node glue writes milliseconds, the Go glue
seconds; a score from 10¹¹ on is milliseconds, whatever the option says. Its README calls `release` the end of a job;
its code puts the job back, and its servers finish one with `delete`: so does `ack` here. Ours alone is
`rqtui:{__REDIS_SCHED_RESERVED__T}:expiries`, how many leases rqtui saw expire, for the thousand most frequent ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from rqtui.errors import UsageError
from rqtui.layout.foreign import Foreign
from rqtui.layout.option_values import one_of, whole
from rqtui.model import Finding, Job, Place, State
from rqtui.scripts.script import Answer
from rqtui.text.names import to_bytes, to_text

_PREFIXES = {
    "jobs": ("__REDIS_SCHED_JOBS__", b"hash"),
    "queued": ("__REDIS_SCHED_QUEUED__", b"zset"),
    "reserved": ("__REDIS_SCHED_RESERVED__", b"zset"),
}
_QUEUED, _RESERVED = (_PREFIXES[name][0] + "<queue>" for name in ("queued", "reserved"))
_MS_FROM = 1e11  # 1973 in milliseconds, the year 5138 in seconds
_MOST_MS = 2**53
_INSTANTS = {State.SCHEDULED: "due_ms", State.READY: "since_ms", State.RESERVED: "deadline_ms"}


class Redisched(Foreign):
    """Topics of redisched."""

    name = "redisched"
    places = (
        Place("queued", State.SCHEDULED, _QUEUED, "zset", "due ms or s", "score > now"),
        Place("due", State.READY, _QUEUED, "zset", "due ms or s", "score <= now"),
        Place("reserved", State.RESERVED, _RESERVED, "zset", "deadline ms or s", "score > now"),
        Place("expired", State.RESERVED, _RESERVED, "zset", "deadline ms or s", "score <= now"),
    )
    defaults = {"topic": "", "unit": "auto", "ttr_ms": "60000"}
    option_values = {"unit": one_of("auto", "ms", "s"), "ttr_ms": whole(1, 365 * 86_400_000, "milliseconds")}
    queue_option = "topic"
    patterns = tuple(f"^{prefix}." for prefix, _type in _PREFIXES.values())

    def keys(self, queue: str) -> Mapping[str, str]:
        """Keys by name; raises UsageError for a topic without a name."""
        if not queue:
            raise UsageError("a topic of redisched has a name, as in --layout redisched:topic=mail.")
        own = {name: prefix + queue for name, (prefix, _type) in _PREFIXES.items()}
        return {**own, "expiries": f"rqtui:{{{own['reserved']}}}:expiries"}

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """The topics of keys that begin with one of the prefixes, where the key is of the right type."""
        keys = [(key, *about) for key in found for about in _PREFIXES.values() if key.startswith(about[0].encode())]
        pipe = client.pipeline(transaction=False)
        for key, _prefix, _right in keys:
            pipe.type(key)
        fits = [
            to_text(key[len(prefix) :])
            for (key, prefix, right), type in zip(keys, pipe.execute(), strict=True)
            if type == right
        ]
        only = self.named() if self.is_asked else []
        return [topic for topic in dict.fromkeys(fits) if topic and (not only or topic in only)]

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it was named, or one of its keys is there with the right type."""
        if super().recognises(client, queue):
            return True
        keys = self.keys(queue)
        pipe = client.pipeline(transaction=False)
        for name in _PREFIXES:
            pipe.type(to_bytes(keys[name]))
        return any(type == right for type, (_prefix, right) in zip(pipe.execute(), _PREFIXES.values(), strict=True))

    def _findings(self, queue: str, answer: Answer | Exception) -> tuple[Finding, ...]:
        found = super()._findings(queue, answer)
        words = self.words(queue)
        if words.startswith("--layout "):  # a topic with other options keeps them: of two layouts for it one counts
            in_ms = type(self)({**self.options_of(queue), "unit": "ms"}).words(queue)
            plain = f"--layout redisched:unit=ms act repair {words}"
            found = tuple(replace(one, remedy=one.remedy.replace(plain, f"act repair {in_ms}", 1)) for one in found)
        return found

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from its id, its score and its body."""
        state, at_ms = self.place(place).state, _ms(row["score"])
        body = row["body"] if row["has_body"] and (row["body"] or not row["bytes"]) else None
        token = row["score"] if state is State.RESERVED else b""
        known: dict[str, Any] = {_INSTANTS[state]: at_ms, "attempts": row["expiries"], "problem": _problem(row, at_ms)}
        known["ttr_ms"] = (
            int(self.options_of(queue)["ttr_ms"]) if token else None
        )  # what it was leased for nobody keeps
        id: bytes = row["id"]
        return Job(id, queue, self.name, place, state, id, token, body=body, body_bytes=row["bytes"], **known)


def _ms(score: bytes) -> int | None:
    """An instant from a score of either unit; None for what is none."""
    try:
        value = float(score)
    except ValueError:
        return None
    value = value if value >= _MS_FROM else value * 1000
    return int(value) if isfinite(value) and abs(value) <= _MOST_MS else None


def _problem(row: Mapping[str, Any], at_ms: int | None) -> str:
    if not row["has_body"]:
        return "it has no body: its own workers are handed nothing"
    if row.get("both"):
        return "it is queued and reserved at once: it was put again while a worker held it"
    if row["score"] and at_ms is None:
        return f"its score {row['score'].decode('ascii', 'replace')} is no instant"
    return "" if row["score"] or "both" not in row else "it stands in no place: repair makes it due"


LAYOUT = Redisched
