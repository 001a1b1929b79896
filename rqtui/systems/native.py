"""rqtui's own queue, as `lua/README.md` describes it (schema versions 1 and 2).

Keys of queue `q`: `rqtui:{q}:` followed by scheduled, ready, reserved, done, dead (sorted sets of ids), jobs, bodies,
attempts, errors, meta, workers (hashes), events, minutes (streams), wake (a marker). `rqtui:queues` is a set of names.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from math import isfinite
from typing import Any

from rqtui.client import native_record
from rqtui.client.native_keys import QUEUES, keys
from rqtui.errors import ServerError, UsageError
from rqtui.layout.layout import Answers, Ask, Layout, answered, uncounted
from rqtui.model import Attempt, Count, Finding, Job, Page, Place, Queue, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call, packed
from rqtui.text.names import to_bytes, to_text

_LOOKED_AT = 1000  # leases: a millisecond of the server
_GRACE_MS = 60_000  # that a worker may hold a lease before its first beat; the client's beats come every ten seconds
_FIGURES = 23  # columns of a row of `shared/tally.lua`; behind them stands its stamp
WHOLE = 10  # looks of which one tells of every queue, whatever its stamp is: twenty seconds of a screen
_NAMED = 3  # silent workers
_SCORES = {"scheduled": "due ms", "ready": "", "reserved": "deadline ms", "done": "forget ms", "dead": "died ms"}


class Native(Layout):
    """The native queue."""

    name = "native"
    places = tuple(Place(state.value, state, f"rqtui:{{<queue>}}:{state}", "zset", _SCORES[state]) for state in State)
    patterns = (r"^rqtui:{.*}:meta$",)
    loops_by_default = True
    has_json_bodies = True
    has_client = True
    names_key = QUEUES
    fits_cluster = True
    inspects = frozenset({State.RESERVED})
    finds_by_id = True
    tells = frozenset({"name", "tried", "error", "worker", "priority", "lease"})

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._tallies = 0

    def keys(self, queue: str) -> Mapping[str, str]:
        """Keys by name; raises UsageError for a name that would scatter them over slots."""
        return keys(queue)

    def discover(self, client: Any) -> Iterator[list[str]]:
        """The names in `rqtui:queues`; what a crash left out of it, the walk over the keys finds."""
        cursor = 0
        while True:
            cursor, found = client.sscan(QUEUES, cursor=cursor, count=1000)
            yield self.spotted(client, found)
            if cursor == 0:
                break

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """The queues of keys such as `rqtui:{mail}:meta`, or of plain names."""
        return [name for name in dict.fromkeys(_queue_of(item) for item in found) if name]

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it was ever used."""
        return bool(client.exists(to_bytes(keys(queue)["meta"])))

    def queue_ask(self, queue: str) -> Ask[Queue]:
        """Counts, ages and cumulative counters."""
        return Ask((self._read("counts", queue),), lambda answers: _queue(queue, answers[0]))

    def queues_ask(self, queues: Sequence[str]) -> Ask[list[Queue] | Ask[list[Queue]]]:
        """The same of many queues by one script. Of those at rest when this very ask was last read, plain reads tell
        whether they still are; those that are not have the script tell of them, in a second trip.

        In one of `WHOLE` asks the script tells of all, since hands, and a counter that could not be written, leave no
        trace in a stamp.
        """
        self._tallies += 1
        return _Together(queues, map(self.keys, queues), self._tallies).ask()

    def page_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """A page in the place's own order; offset -1 is the last page."""
        self.place(place)
        call = self._read("page", queue, place=place, offset=offset, limit=limit, body_bytes=body_bytes)
        return Ask((call,), lambda answers: _page(queue, place, offset, limit, answers[0]))

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """All about one job, with the history of its failed attempts."""
        call = self._read("show", queue, id=id, body_bytes=body_bytes)
        return Ask((call,), lambda answers: _shown(queue, id, answers))

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Everybody in the hash of workers, the late ones too."""
        return Ask((self._read("roster", queue),), lambda answers: _workers(queue, answers))

    def inspect_ask(self, queue: str) -> Ask[tuple[Finding, ...]]:
        """Leases of workers that do not beat, among those that end first."""
        call = self._read("leases", queue, limit=_LOOKED_AT, grace_ms=_GRACE_MS)
        return Ask((call,), lambda answers: _silent(queue, answers[0]))

    def announce(self, client: Any, queue: str) -> None:
        """Adds the name to `rqtui:queues`; in another slot, so after the script that made the queue."""
        client.sadd(QUEUES, to_bytes(queue))

    def retire(self, client: Any, queue: str) -> None:
        """Takes the name out of `rqtui:queues`."""
        client.srem(QUEUES, to_bytes(queue))

    def taken(self, queue: str, answer: Answer) -> tuple[Job, ...]:
        """The jobs in the answer of `reserve` or `pull`."""
        return tuple(_taken(queue, row) for row in answer.rows)

    def _read(self, script: str, queue: str, **args: object) -> Call:
        return self.call(self.scripts[script].name, queue, args)


LAYOUT = Native

_PLAIN = re.compile(r"[A-Za-z0-9_.:/+@-]{1,200}").fullmatch  # the name of a queue for sure: there may be ten thousand


def _queue_of(item: bytes) -> str:
    name = to_text(item)
    if name.startswith("rqtui:{") and name.endswith("}:meta"):
        name = name[7:-6]
    if _PLAIN(name):
        return name
    try:
        keys(name)
    except UsageError:
        return ""
    return name


_STATES = tuple((state.value, state) for state in State)


def _queue(queue: str, answer: Answer | Exception) -> Queue:
    if isinstance(answer, ServerError):
        return uncounted(queue, "native", answer)
    if isinstance(answer, Exception):
        raise answer
    v: Mapping[str, Any] = answer.values
    now_ms, age_ms = v["now_ms"], v["oldest_ms"]
    told = {**v, "since_ms": now_ms - age_ms if age_ms >= 0 else -1}
    return _counted(queue, now_ms, _note(_Counted(), tuple(told[column] for column in _columns())))


@cache
def _columns() -> tuple[str, ...]:
    """The columns of `shared/tally.lua`, in which `_counted` reads a queue; not the one that is about the row."""
    return tuple(column.name for column in scripts.load("shared")["tally"].returns["counted"].rows)[:_FIGURES]


@lru_cache(10_000)
def _count(place: str, state: State, number: int) -> Count:
    """The same object for the same count: of ten thousand queues most are 0."""
    return Count(place, state, number)


@dataclass(slots=True)
class _Counted:
    """What was counted last, and what was made of it; most queues are at rest most of the time.

    `heard` are the replies to `_question` that say the same as the stamp of the row.
    """

    row: tuple[Any, ...] = ()
    counts: tuple[Count, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    heard: list[Any] = field(default_factory=list)

    @property
    def is_at_rest(self) -> bool:
        """Whether jobs only waited in it, so that plain reads can tell that it is as it was."""
        return bool(self.row and self.row[-1])

    def is_still(self, replies: list[Any]) -> bool:
        """Whether these replies to `_question` say that the row holds, but for the time."""
        if replies == self.heard:
            return True
        others, number, first, told = replies
        if others != 0 or not isinstance(first, list) or not isinstance(told, list):
            return False
        if b" ".join([b"%d" % number, *(each or b"" for each in told), *(first or [b""])]) != self.row[-1]:
            return False
        self.heard = replies
        return True


class _Together:
    """Many queues that are counted again and again."""

    def __init__(self, queues: Sequence[str], every: Iterable[Mapping[str, str]], turn: int) -> None:
        self._queues = queues
        script = scripts.load("shared")["tally"]
        self._names = [key.name for key in script.keys_each]
        each = [[named[name] for name in self._names] for named in every]
        self._whole = script.call({}, {}, each_keys=each)
        self._before = [_Counted() for _queue in queues]
        self._packed: dict[int, bytes] = {}  # questions, each packed once
        self._turns = itertools.count(turn)  # not those of all asks in the same tick
        self._at_rest: list[int] = []  # which of the queues are asked whether they still are; the others are told whole
        self._calls = [self._whole]

    def ask(self) -> Ask[list[Queue] | Ask[list[Queue]]]:
        """The calls of the next look, which `read` makes others."""
        return Ask(self._calls, self._read)

    def _read(self, answers: Answers) -> list[Queue] | Ask[list[Queue]]:
        asked, self._calls[:] = self._at_rest, [self._whole]
        self._at_rest = []
        now_ms, told = 0, answers
        moved: list[int] = []
        if asked:
            replies = answered(answers[0]).values["replies"]
            clock, told = replies[0], answers[1:]
            now_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
            moved = [
                number
                for at, number in zip(range(1, len(replies), _READS), asked, strict=True)
                if not self._before[number].is_still(replies[at : at + _READS])
            ]
        if told:
            others = set(asked)
            now_ms = self._take([number for number in range(len(self._queues)) if number not in others], told[0])
        if not moved:
            return self._found(now_ms)
        return Ask([self._tally(moved)], lambda answers: self._found(self._take(moved, answers[0])))

    def _take(self, numbers: Sequence[int], told: Answer | Exception) -> int:
        """Takes in the rows of these queues; the instant that they are of."""
        answer = answered(told)
        for number, row in zip(numbers, answer.rows, strict=True):
            last = self._before[number]
            if row != last.row:
                _note(last, row)
        now_ms: int = answer.values["now_ms"]
        return now_ms

    def _found(self, now_ms: int) -> list[Queue]:
        """The queues as they are known by now; and the calls of the next look."""
        if next(self._turns) % WHOLE:
            self._at_rest = [number for number, last in enumerate(self._before) if last.is_at_rest]
        if self._at_rest:
            packed = [_TIME, *map(self._question, self._at_rest)]
            others = [number for number, last in enumerate(self._before) if not last.is_at_rest]
            reads = scripts.reads(packed, 1 + _READS * len(self._at_rest))
            self._calls[:] = [reads, *([self._tally(others)] if others else [])]
        return [_counted(queue, now_ms, last) for queue, last in zip(self._queues, self._before, strict=True)]

    def _tally(self, numbers: Sequence[int]) -> Call:
        return replace(self._whole, keys=[key for number in numbers for key in self._keys(number)])

    def _keys(self, number: int) -> Sequence[bytes | str]:
        """The keys of one of the queues, in the order of the script's header."""
        width = len(self._names)
        return self._whole.keys[number * width : (number + 1) * width]

    def _question(self, number: int) -> bytes:
        """Whether anything stands beside the ready jobs, and what the stamp of a row has."""
        found = self._packed.get(number)
        if found is None:
            named = dict(zip(self._names, map(to_bytes, self._keys(number)), strict=True))
            words = (
                (b"EXISTS", *(named[name] for name in ("scheduled", "reserved", "done", "dead", "workers"))),
                (b"ZCARD", named["ready"]),
                (b"ZRANGE", named["ready"], b"0", b"0"),
                (b"HMGET", named["meta"], b"token", b"paused", b"enqueued"),
            )
            found = self._packed[number] = b"".join(map(packed, words))
        return found


_READS = 4  # commands of a question
_TIME = b"*1\r\n$4\r\nTIME\r\n"


def _note(last: _Counted, row: tuple[Any, ...]) -> _Counted:
    """Takes in a row of `shared/tally.lua`."""
    last.row, last.heard = row, []
    last.counts = _counts(row[:5])
    counters = _counters(row[11], row[13:_FIGURES])
    if counters != last.counters:
        last.counters = counters
    return last


@lru_cache(1_000)
def _counts(numbers: tuple[int, ...]) -> tuple[Count, ...]:
    """The same object for the same counts, and so below: of ten thousand queues many are alike."""
    return tuple([_count(place, state, number) for (place, state), number in zip(_STATES, numbers, strict=True)])


@lru_cache(1_000)
def _counters(registered: int, figures: tuple[int, ...]) -> Mapping[str, int]:
    enqueued, leased, acked, rejected, died, ran_out, pulled, dispatched, unnoted, dead_max = figures
    return {
        "in": enqueued,
        "out": acked + pulled,
        "failed": rejected + ran_out,
        "dead": died,
        "reserved": leased,
        "dispatched": dispatched,
        "unnoted": unnoted,
        "dead_max": dead_max,
        "registered": registered,
    }


def _counted(queue: str, now_ms: int, last: _Counted) -> Queue:
    """A queue by its last row."""
    paused, since, due, deadline, overdue, expired, _registered, live = last.row[5:13]
    return Queue(
        queue,
        "native",
        last.counts,
        now_ms,
        paused >= 0,
        live,
        None if since < 0 else now_ms - since if since < now_ms else 0,
        due - now_ms if due >= 0 else None,
        deadline - now_ms if deadline >= 0 else None,
        overdue,
        expired,
        last.counters,
        paused_ms=paused if paused >= 0 else None,
    )


def _page(queue: str, place: str, offset: int, limit: int, answer: Answer | Exception) -> Page:
    if isinstance(answer, ServerError):
        return Page(queue, "native", place, (), 0, error=str(answer))
    if isinstance(answer, Exception):
        raise answer
    total: Any = answer.values["total"]
    first = offset if offset >= 0 else max(0, total - limit)
    jobs = []
    for row in answer.rows:
        id, score, record, size, body, line, error = row
        job = decode(queue, place, id, score, record, line)
        jobs.append(
            replace(
                job,
                max_attempts=job.max_attempts or answer.values["max_attempts"],
                body=body if body or size == 0 else None,
                body_bytes=size,
                error=text(error) or job.error,
            )
        )
    following = first + len(jobs)
    return Page(queue, "native", place, tuple(jobs), total, True, first, following if following < total else None)


def _shown(queue: str, id: bytes, answers: Answers) -> Job | None:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    if answer.word == "gone":
        return None
    v: Mapping[str, Any] = answer.values
    place = v["place"] or "dead"
    job = decode(queue, place, id, float(v["score"] or 0), v["record"], v["line"])
    past = history(v["errors"])
    whole = bool(v["body"]) or v["bytes"] == 0
    return replace(
        job,
        max_attempts=job.max_attempts or v["max_attempts"],
        body=v["body"] if whole else None,
        body_bytes=v["bytes"],
        history=past,
        line=v["line"],
        error=past[-1].error if past else job.error,
        problem=job.problem if v["place"] else "it stands in no place; rqtui check finds and repairs it",
    )


def _taken(queue: str, row: tuple[Any, ...]) -> Job:
    id, *lease, record, long_body = row
    body = long_body or record.partition(b"\n")[2]
    job = decode(queue, "reserved" if lease else "ready", id, 0.0, record, b"")
    job = replace(job, body=body, body_bytes=len(body))
    if not lease:
        return job
    token, attempt, most, ttr_ms = lease
    reserved_ms = int(token) // 1000  # a token is the microsecond of the lease
    return replace(
        job,
        token=token.encode(),
        attempts=attempt,
        max_attempts=most,
        ttr_ms=ttr_ms,
        reserved_ms=reserved_ms,
        deadline_ms=reserved_ms + ttr_ms,
    )


def _workers(queue: str, answers: Answers) -> tuple[Worker, ...]:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    workers = []
    for name, line in answer.rows:
        fields = line.split(b" ", 6)
        if len(fields) < 6 or not (_is_whole(fields[0]) and _is_whole(fields[1])):
            continue
        beat, ttl, order, started, pid, host = (text(field) for field in fields[:6])
        job = fields[6] if len(fields) > 6 else b""
        since = int(started) if _is_whole(fields[3]) else None
        workers.append(Worker(text(name), queue, int(beat), int(ttl), order, pid, host, since, job))
    return tuple(workers)


def _silent(queue: str, answer: Answer | Exception) -> tuple[Finding, ...]:
    """One finding for all leases of silent workers; the counts say what is wrong with the keys."""
    if isinstance(answer, ServerError):
        return ()
    if isinstance(answer, Exception):
        raise answer
    if not answer.rows:
        return ()
    from rqtui.text.formats import numbered  # rarely

    rows = sorted(answer.rows, key=lambda row: -row[1])
    jobs = sum(row[1] for row in rows)
    leases = numbered(jobs, "lease")
    since_ms = min(beat if beat >= 0 else since for _worker, _leases, beat, since in rows)
    names = [text(row[0]) or "a worker without a name" for row in rows]
    said, detail = f"{leases} of {names[0]}, which does not beat", ""
    if len(rows) > 1:
        said, detail = f"{leases} of {len(rows)} workers that do not beat", "held by " + ", ".join(names[:_NAMED])
        detail += f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    found = Finding("silent-leases", "warning", queue, said, key="w", detail=detail, since_ms=since_ms, jobs=jobs)
    return (found,)


def decode(queue: str, place: str, id: bytes, score: float, record: bytes, line: bytes) -> Job:
    """A job from its score, the header line of its record and its line of attempts (formats: `lua/README.md`).

    What cannot be read is said in `problem`; it never raises.
    """
    state = State(place)
    at = int(score) if isfinite(score) else 0
    known = _header(state, record) | _line(state, line)
    if state is State.SCHEDULED:
        known["due_ms"] = at
    if state is State.RESERVED:
        known["deadline_ms"] = at
    if state is State.DEAD or (state is State.DONE and "since_ms" not in known):
        known["since_ms"] = at
    return Job(id, queue, "native", place, state, id, **known)


def _header(state: State, record: bytes) -> dict[str, Any]:
    """What a record says in its first line."""
    try:
        enqueued, due, priority, ttr, most, _backoff, _cap, _keep, _bytes, name = map(
            text, native_record.fields(record)
        )
        return {
            "enqueued_ms": _whole(enqueued),
            "priority": _whole(priority),
            "ttr_ms": None if ttr == "-" else _whole(ttr),
            "max_attempts": None if most == "-" else _whole(most),
            "name": name,
            "since_ms": max(_whole(enqueued), 0 if due == "-" else _whole(due)),
        }
    except ValueError:
        if record:
            return {"problem": "its record cannot be read"}
        if state is State.DONE:
            return {"problem": "its id alone is remembered"}
        return {"problem": "it has no record: nothing is known of it but its id"}


def _line(state: State, line: bytes) -> dict[str, Any]:
    """What a line of attempts says; nothing where there is none."""
    if not line:
        return {}
    try:
        attempts, token, _score, at, priority, flag, worker = line.split(b" ", 6)
        since_ms = int(at) if _is_whole(at) else None
        known: dict[str, Any] = {"attempts": _whole(attempts), "since_ms": since_ms, "cancelled": flag == b"c"}
        if priority != b"-":
            known["priority"] = _whole(priority)
    except ValueError:
        return {"problem": "its line of attempts cannot be read"}
    known["worker"] = text(worker)
    if state is State.DONE and _is_whole(token):
        known["reserved_ms"] = int(token) // 1000  # it keeps the token of its last lease: the microsecond of its start
    return known | ({"reserved_ms": since_ms, "token": token} if state is State.RESERVED else {})


def history(errors: bytes) -> tuple[Attempt, ...]:
    """The failed attempts of a job, oldest first; what cannot be read is one attempt that says so."""
    if not errors:
        return ()
    try:
        entries = json.loads(errors.decode("utf-8", "replace"))
        told = ((_whole(start), _whole(end), _said(worker), _said(error)) for start, end, worker, error in entries)
        return tuple(Attempt(*each) for each in told)
    except (ValueError, TypeError, OverflowError, RecursionError):  # Infinity is a number in Python's JSON
        return (Attempt(0, 0, "", "the errors of this job cannot be read"),)


def _said(value: Any) -> str:
    """Text out of JSON, where `\\ud800` stands for half a letter: no text has it, but its bytes can be kept."""
    return to_text(str(value).encode("utf-8", "surrogatepass"))


_DIGITS = 17  # of a token; no instant, length or count has more


def _is_whole(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _DIGITS


def _whole(value: Any) -> int:
    """A number that somebody wrote down. Raises ValueError where it is none, or longer than any of ours."""
    number = int(value)
    if abs(number) >= 10**_DIGITS:
        raise ValueError("too long for an instant or a count")
    return number


def text(value: bytes) -> str:
    """Bytes as text that can be turned back into the same bytes."""
    return to_text(value)
