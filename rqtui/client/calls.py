"""What is asked of a queue, whoever sends it: bodies, options and ids become calls of scripts, answers become words.

`Calls` is what `rqtui.client.Queue`, which waits where it is called, and `rqtui.aio.Queue`, which is awaited, have in
common: all but the sending.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from rqtui import durations
from rqtui.client import native_keys
from rqtui.client.codecs import Codec
from rqtui.client.leased_job import Leased, Word
from rqtui.durations import Duration
from rqtui.errors import ServerError, Unknown, UsageError
from rqtui.ids import ID_BYTES, new_id, new_ids
from rqtui.scripts.script import Answer, Call, KeysOf, load
from rqtui.scripts.values import Wire
from rqtui.text.names import to_bytes, to_text

MOST = 1000  # jobs in one call, as the scripts have it
MOST_BYTES = 4_000_000  # of bodies in one call of put_many: Redis runs nothing else meanwhile
REGISTER_S = 60.0  # how often a producer puts its queue's name on the list: purging the queue takes it off
NOTHING: Mapping[str, Any] = MappingProxyType({})
OPTIONS = ("name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep")
_NO_OPTIONS = (None,) * len(OPTIONS)


class Put(NamedTuple):
    """What became of one job that was put: `moved`, or `exists` when the queue knew its id already."""

    id: str
    word: str


def _moved(ids: Iterable[str]) -> list[Put]:
    """A Put for each, made without a step of Python for each."""
    return list(map(tuple.__new__, repeat(Put), zip(ids, repeat("moved"), strict=False)))


Entered = TypeVar("Entered")
"""What `put` gives: a Put, or what is awaited for it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs that go in one call."""

    ids: list[Any]
    has_given_ids: bool
    call: Call

    def puts(self, answer: Answer) -> list[Put]:
        """What became of each."""
        if not self.has_given_ids:  # an id of ours can only exist by our own first try
            return _moved(self.ids)
        return [Put(_text(id), one.word) for id, one in zip(self.ids, answer.each, strict=True)]


@dataclass(slots=True)
class _Rows:
    """The jobs of a batch, column by column; and the ids that are given, by row."""

    bodies: list[bytes] = field(default_factory=list)
    others: list[Mapping[str, Any]] = field(default_factory=list)
    ids_given: dict[int, bytes] = field(default_factory=dict)


class Calls(Generic[Word, Entered]):
    """A queue by name, as far as it sends nothing. Raises UsageError for a name that is no queue name."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.name = name
        self.codec = codec
        self.keys: Mapping[str, str] = native_keys.keys(name)
        self._scripts = load("native")
        self._keys_of: dict[str, KeysOf] = {}
        self._plain = self._keys_for("enqueue").shortest_rows()  # of jobs with an id and a body alone, as most are
        self._registered_s: float | None = None

    # Putting

    def put(
        self,
        body: Any,
        id: str | bytes | None = None,
        name: str = "",
        delay: Duration | None = None,
        due: datetime | int | None = None,
        priority: int | None = None,
        ttr: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Duration | tuple[Duration, Duration] | None = None,
        keep: Duration | None = None,
        durable: bool = False,
    ) -> Entered:
        """Enqueue one job; with an `id` of your own a second put is a no-op (`exists`), in whatever state the job is.

        `name`: the kind of job. `delay` or `due` (an aware datetime, or ms since 1970): not before then. `priority`:
        -4096 to 4095, lower first. `ttr`: how long a lease lasts. `backoff`: the first wait after a failure, or
        `"1s..1h"`. `keep`: how long the done job stays. What is left out is the queue's default.
        `durable`: return only when the job is on disk (WAITAOF) or on a replica (WAIT), whichever the server offers;
        behind sentinels and in a Cluster on a replica.
        Raises UsageError, CodecError, Refused, ServerError; Unknown when it may or may not be in.
        """
        given = (name or None, delay, due, priority, ttr, max_attempts, backoff, keep)
        encoded = self.codec.encode(body)
        job_id = new_id() if id is None else _checked_id(id)
        if given == _NO_OPTIONS and type(encoded) is bytes:
            call = self._plain.call([job_id, encoded], 1)
        else:
            made = columns(dict(zip(OPTIONS, given, strict=True)))
            call = self._rows([job_id], [encoded], [made])
        return self._enter(job_id, id is not None, call, durable)

    def _enter(self, id: str | bytes, is_given: bool, call: Call, durable: bool) -> Entered:
        raise NotImplementedError

    def _batches(self, items: Iterable[Any], options: Mapping[str, Any]) -> Iterator[Batch]:
        """The jobs, as many at a time as a call may have, with ids, in the order of the script's columns."""
        common, encode = columns(options), self.codec.encode
        rows, size = _Rows(), 0
        for number, item in enumerate(items, 1):
            if isinstance(item, dict):
                given, body, others = self._described(item, number, options)
                if given is not None:
                    rows.ids_given[len(rows.bodies)] = given
            else:
                body, others = encode(item), common
            rows.bodies.append(body)
            rows.others.append(others)
            size += len(body)
            if len(rows.bodies) >= MOST or size >= MOST_BYTES:
                yield self._with_ids(rows)
                rows, size = _Rows(), 0
        if rows.bodies:
            yield self._with_ids(rows)

    def _described(
        self, item: Mapping[str, Any], number: int, options: Mapping[str, Any]
    ) -> tuple[bytes | None, bytes, Mapping[str, Any]]:
        if "body" not in item:
            raise UsageError(f'Job {number}: a dict describes a job and needs "body": {{"body": …, "id": …}}.')
        given = {**options, **item}
        body, job_id = given.pop("body"), given.pop("id", None)
        made = columns(given)
        return None if job_id is None else _checked_id(job_id), self.codec.encode(body), made

    def _with_ids(self, rows: _Rows) -> Batch:
        ids: list[Any] = list(new_ids(len(rows.bodies)))
        for at, id in rows.ids_given.items():
            ids[at] = id
        return Batch(ids, bool(rows.ids_given), self._rows(ids, rows.bodies, rows.others))

    def _rows(self, ids: Sequence[Wire], bodies: Sequence[bytes], others: Sequence[Mapping[str, Any]]) -> Call:
        """Jobs as a call: ids, encoded bodies, other columns."""
        if not any(others) and set(map(type, bodies)) == {bytes}:  # as most are: nothing to be looked at
            words: list[Wire] = [b""] * (2 * len(bodies))
            words[::2], words[1::2] = ids, bodies
            return self._plain.call(words, len(bodies))
        described = [{"id": id, "body": body, **made} for id, body, made in zip(ids, bodies, others, strict=True)]
        return self.call("enqueue", NOTHING, described)

    def _has_to_register(self) -> bool:
        """Whether it is time to put the queue's name on the list, which lies in another slot, so that no script can
        write it; discovery finds what is missing there."""
        now_s = time.monotonic()
        if self._registered_s is not None and now_s <= self._registered_s + REGISTER_S:
            return False
        self._registered_s = now_s
        return True

    # Taking

    def _reserve(self, n: int, ttr: Duration | None, worker: str) -> Call:
        ttr_ms = None if ttr is None else durations.parse(ttr, "ttr")
        return self.call("reserve", {"limit": n, "worker": worker, "ttr_ms": ttr_ms})

    def _acks(self, jobs: Sequence[Leased[Any]]) -> Iterator[tuple[Sequence[Leased[Any]], Call]]:
        """The calls that ack jobs, each with its part of them."""
        for at in range(0, len(jobs), MOST):
            part = jobs[at : at + MOST]
            yield part, self.call("ack", NOTHING, [(job.id_bytes, job.token) for job in part])

    # By id

    def delete(self, id: str | bytes, force: bool = False) -> Word:
        """Remove a job, wherever it is: moved, gone, or reserved (a worker holds it, which `force` ignores)."""
        return self._act("delete", id, {"force": force}, "", "")

    def cancel(self, id: str | bytes) -> Word:
        """Ask the worker that holds a job to stop it: asked, wrong_place or gone."""
        return self._act("cancel", id, {}, "")

    def kill(self, id: str | bytes, reason: str = "", force: bool = False) -> Word:
        """Kill a live job: moved, reserved (unless `force`), wrong_place or gone."""
        return self._act("kill", id, {"reason": reason, "force": force}, "")

    def promote(self, id: str | bytes) -> Word:
        """Make a scheduled job ready now: moved, wrong_place or gone."""
        return self._act("promote", id, {})

    def requeue(self, id: str | bytes, keep_attempts: bool = False) -> Word:
        """Run a dead job again, or a done one that was kept: moved, wrong_place, bodyless or gone."""
        return self._act("requeue", id, {"keep_attempts": keep_attempts})

    def reschedule(self, id: str | bytes, delay: Duration | None = None, due: datetime | int | None = None) -> Word:
        """Give a scheduled or ready job another time: moved, wrong_place or gone."""
        if (delay is None) == (due is None):
            raise UsageError("reschedule needs a delay or a due time: one of them.")
        when = (
            {"due_ms": durations.instant(due)}
            if due is not None
            else {"delay_ms": durations.parse(delay or 0, "delay")}
        )
        return self._act("reschedule", id, when)

    def reprioritise(self, id: str | bytes, priority: int) -> Word:
        """Give a scheduled or ready job another priority: changed, wrong_place or gone."""
        return self._act("reprioritise", id, {"priority": priority})

    def _act(self, verb: str, id: str | bytes, args: Mapping[str, object], *columns: object) -> Word:
        return self._word(self.call(verb, args, [(_checked_id(id), *columns)]))

    def _word(self, call: Call) -> Word:
        """Send a call; the word of its answer, or of its one row."""
        raise NotImplementedError

    # The queue itself

    def pause(self) -> Word:
        """Hand out no jobs, to anybody: paused or already."""
        return self._word(self.call("pause"))

    def resume(self) -> Word:
        """Hand them out again: resumed or already."""
        return self._word(self.call("resume"))

    def _configure(self, settings: Mapping[str, object]) -> Call:
        rows = [(name, None if value is None else str(value)) for name, value in settings.items()]
        return self.call("configure", {}, rows)

    # What jobs and consumers use

    def call(
        self,
        verb: str,
        args: Mapping[str, object] = NOTHING,
        rows: Iterable[Mapping[str, object] | Sequence[object]] = (),
    ) -> Call:
        """A call of the script `verb` on the keys of this queue."""
        return self._scripts[verb].call(self._keys_for(verb), args, rows)

    def _keys_for(self, verb: str) -> KeysOf:
        keys = self._keys_of.get(verb)
        if keys is None:
            keys = self._keys_of[verb] = self._scripts[verb].on(self.keys)
        return keys

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


def put_of(id: str | bytes, is_given: bool, answer: Answer) -> Put:
    """What became of one job; an id of ours can only exist by our own first try."""
    return Put(_text(id), answer.each[0].word if is_given else "moved")


def word_of(answer: Answer) -> str:
    """The word of an answer, or of its one row."""
    return answer.word or answer.each[0].word


def settled(jobs: Sequence[Leased[Any]], answer: Answer) -> list[str]:
    """A word for each of `jobs`, which take it in."""
    words = [one.word for one in answer.each]
    for job, word in zip(jobs, words, strict=True):
        job.settled(word)
    return words


def sent_twice(lost: Unknown, error: ServerError) -> Unknown:
    """The reply to a put was lost, and the second try failed: the first may have got in."""
    return Unknown(f"{lost} It was sent once more: {error}")


_AS_COLUMNS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "delay": lambda value: {"delay_ms": durations.parse(value, "delay")},
    "due": lambda value: {"due_ms": durations.instant(value)},
    "ttr": lambda value: {"ttr_ms": durations.parse(value, "ttr")},
    "keep": lambda value: {"keep_ms": durations.parse(value, "keep")},
    "backoff": lambda value: dict(zip(("backoff_ms", "backoff_cap_ms"), durations.parse_range(value), strict=True)),
}


def columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `put` as columns of an `enqueue` script: delay → delay_ms, `1s..1h` → two of them, and so on."""
    made: dict[str, Any] = {}
    for option, value in given.items():
        if option not in OPTIONS:
            raise UsageError(f"There is no option {option!r}; a job has id, body, {', '.join(OPTIONS)}.")
        if value is not None:
            made.update(_AS_COLUMNS[option](value) if option in _AS_COLUMNS else {option: value})
    if made.get("delay_ms") is not None and made.get("due_ms") is not None:
        raise UsageError("delay and due exclude each other: give one of them.")
    return made


def _checked_id(id: str | bytes) -> bytes:
    if not isinstance(id, str | bytes):
        raise UsageError(f"An id is text or bytes, not {type(id).__name__}.")
    encoded = to_bytes(id)
    if not 1 <= len(encoded) <= ID_BYTES:
        raise UsageError(f"An id has 1 to {ID_BYTES} bytes; this one has {len(encoded)}.")
    return encoded


def _text(id: str | bytes) -> str:
    return id if isinstance(id, str) else to_text(id)
