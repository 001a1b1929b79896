"""Read and change rqtui's own queue, whose keys `lua/README.md` describes (schema versions 1 and 2).

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
from rqtui.client.native_keys import QUEUES, build_queue_keys
from rqtui.errors import ServerError, UsageError
from rqtui.model import Attempt, Count, Finding, Job, Page, Place, Queue, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply, pack_command
from rqtui.system_base.system import Replies, Request, System, build_uncounted_queue, unwrap_reply
from rqtui.text.names import join_names, to_bytes, to_text

_MAX_LEASES = 1000  # leases per probe, which take the server a millisecond
_GRACE_MS = 60_000  # from lease to first heartbeat; the client sends heartbeats every ten seconds
_QUEUE_COLUMNS = 23  # columns of a row of `shared/tally.lua` before its stamp
FULL_COUNT_POLLS = 10  # every tenth poll counts all queues whatever their stamps are: 20 s on a screen
_MAX_NAMED_WORKERS = 3  # silent workers named in a finding
_MAX_INTERRUPTED = 20  # jobs of each place that are searched for repeatedly interrupted ones
_INTERRUPTED_MS = 86_400_000  # dead jobs that died earlier are not searched
_SCORES = {"scheduled": "due ms", "ready": "", "reserved": "deadline ms", "done": "forget ms", "dead": "died ms"}


class Native(System):
    """The native queue system of rqtui, whose Lua scripts are in `lua/native/`."""

    name = "native"
    places = tuple(Place(state.value, state, f"rqtui:{{<queue>}}:{state}", "zset", _SCORES[state]) for state in State)
    key_patterns = (r"^rqtui:{.*}:meta$",)
    loops_by_default = True
    has_json_bodies = True
    has_client = True
    queue_names_key = QUEUES
    works_on_cluster = True
    first_heartbeat_ms = _GRACE_MS
    can_find_by_id = True
    known_fields = frozenset({"name", "tried", "error", "worker", "priority", "lease"})
    worker_name_pattern = re.compile(r"(?P<host>[^\s:]+):\d+:[0-9a-f]{5}", re.ASCII)  # client/consumer.py
    verb_places = {"kill": ("scheduled", "ready")}  # the script kills reserved jobs too, for `repair`

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._tallies = 0

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a native queue, by the names that the scripts use."""
        return build_queue_keys(queue)

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queue names in the set `rqtui:queues`, one batch per round trip."""
        cursor = 0
        while True:
            cursor, found = client.sscan(QUEUES, cursor=cursor, count=1000)
            yield self.find_queues_of_keys(client, found)
            if cursor == 0:
                break

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queue names of keys such as `rqtui:{mail}:meta`, or of plain queue names."""
        return [name for name in dict.fromkeys(_parse_queue_name(item) for item in found) if name]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a native queue was ever used."""
        return bool(client.exists(to_bytes(build_queue_keys(queue)["meta"])))

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build the request for the counts, ages and cumulative counters of one queue."""
        return Request((self._build_script_call("counts", queue),), lambda replies: _parse_queue(queue, replies[0]))

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue] | Request[list[Queue]]]:
        """Build the request for the counts of many native queues, which one script returns."""
        self._tallies += 1
        return _QueueBatch(queues, map(self.keys, queues), self._tallies).build_request()

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one page of jobs in place order; a negative offset counts from the end."""
        self.place(place)
        call = self._build_script_call("page", queue, place=place, offset=offset, limit=limit, body_bytes=body_bytes)
        return Request((call,), lambda replies: _parse_page(queue, place, offset, limit, replies[0]))

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job with the history of its failed attempts."""
        call = self._build_script_call("show", queue, id=id, body_bytes=body_bytes)
        return Request((call,), lambda replies: _parse_job(queue, id, replies))

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for all workers in the `workers` hash of a queue, including those with late heartbeats."""
        return Request((self._build_script_call("roster", queue),), lambda replies: _parse_workers(queue, replies))

    def needs_probe(self, queue: Queue) -> bool:
        """Return whether a queue has reserved jobs, or jobs whose leases expired and that may be ready or dead now."""
        if not queue.counters.get("expired", 0):
            return queue.count_in_state(State.RESERVED) > 0
        return any(map(queue.count_in_state, (State.RESERVED, State.READY, State.DEAD)))

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]]:
        """Build the request that finds leases of workers without a heartbeat, and jobs that lost several leases."""
        leases = self._build_script_call("leases", queue, limit=_MAX_LEASES, grace_ms=_GRACE_MS)
        interrupted = self._build_script_call("interrupted", queue, within_ms=_INTERRUPTED_MS, limit=_MAX_INTERRUPTED)

        def parse_findings(replies: Replies) -> tuple[Finding, ...]:
            silent, lost = map(_read_probe_rows, replies)
            return _build_silent_leases_finding(queue, silent) + _build_interrupted_jobs_finding(queue, lost)

        return Request((leases, interrupted), parse_findings)

    def register_queue(self, client: Any, queue: str) -> None:
        """Add a queue name to the set `rqtui:queues`."""
        client.sadd(QUEUES, to_bytes(queue))

    def unregister_queue(self, client: Any, queue: str) -> None:
        """Remove a queue name from the set `rqtui:queues`."""
        client.srem(QUEUES, to_bytes(queue))

    def read_taken_jobs(self, queue: str, reply: Reply) -> tuple[Job, ...]:
        """Return the jobs in the reply of `reserve` or `pull`."""
        return tuple(_parse_taken_job(queue, row) for row in reply.rows)

    def _build_script_call(self, script: str, queue: str, **args: object) -> Call:
        """Build a call of a native script for a queue."""
        return self.build_call(self.scripts[script].name, queue, args)


SYSTEM = Native

_is_plain_name = re.compile(r"[A-Za-z0-9_.:/+@-]{1,200}").fullmatch  # a fast check, for 10 000 names


def _parse_queue_name(item: bytes) -> str:
    """Return the queue of a `meta` key or of a queue name; empty for a name that no native queue can have."""
    name = to_text(item)
    if name.startswith("rqtui:{") and name.endswith("}:meta"):
        name = name[7:-6]
    if _is_plain_name(name):
        return name
    try:
        build_queue_keys(name)
    except UsageError:
        return ""
    return name


_STATES = tuple((state.value, state) for state in State)


def _parse_queue(queue: str, reply: Reply | Exception) -> Queue:
    """Build a queue from the reply of the script `counts`, or from its error."""
    if isinstance(reply, ServerError):
        return build_uncounted_queue(queue, "native", reply)
    if isinstance(reply, Exception):
        raise reply
    counts: Mapping[str, Any] = reply.values
    now_ms, age_ms = counts["now_ms"], counts["oldest_ms"]
    values = {**counts, "since_ms": now_ms - age_ms if age_ms >= 0 else -1}
    return _build_queue(
        queue, now_ms, _store_tally_row(_CountedQueue(), tuple(values[column] for column in _list_queue_columns()))
    )


@cache
def _list_queue_columns() -> tuple[str, ...]:
    """Return the columns of `shared/tally.lua` that describe a queue, without those that only show changes."""
    return tuple(column.name for column in scripts.load_scripts("shared")["tally"].returns["counted"].rows)[
        :_QUEUE_COLUMNS
    ]


@lru_cache(10_000)
def _intern_count(place: str, state: State, number: int) -> Count:
    """Return one shared `Count` object per value, to save memory: most counts of 10 000 queues are 0."""
    return Count(place, state, number)


@dataclass(slots=True)
class _CountedQueue:
    """The last count of one queue (a row of `shared/tally.lua`), and the `Count`s and counters computed from it.

    `matching_replies` are replies to `_pack_idle_check` that show an unchanged queue. Caching pays because most queues
    are idle.
    """

    row: tuple[Any, ...] = ()
    counts: tuple[Count, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    matching_replies: list[Any] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Return whether a queue has only ready jobs. Plain reads can then check if the queue changed."""
        return bool(self.row and self.row[-1])

    def is_unchanged(self, replies: list[Any]) -> bool:
        """Return whether replies to an idle check show that only the time has changed since the last count."""
        if replies == self.matching_replies:
            return True
        other_keys, ready, first, meta = replies
        if other_keys != 0 or not isinstance(first, list) or not isinstance(meta, list):
            return False
        if b" ".join([b"%d" % ready, *(value or b"" for value in meta), *(first or [b""])]) != self.row[-1]:
            return False
        self.matching_replies = replies
        return True


class _QueueBatch:
    """The counts of many native queues, which the same request updates at each poll."""

    def __init__(self, queues: Sequence[str], keys_by_queue: Iterable[Mapping[str, str]], first_poll: int) -> None:
        self._queues = queues
        script = scripts.load_scripts("shared")["tally"]
        self._names = [key.name for key in script.keys_each]
        script_keys = [[queue_keys[name] for name in self._names] for queue_keys in keys_by_queue]
        self._full_call = script.build_call({}, {}, each_keys=script_keys)
        self._counted_queues = [_CountedQueue() for _queue in queues]
        self._packed: dict[int, bytes] = {}  # packed reads by queue number
        self._polls = itertools.count(
            first_poll
        )  # starts differ, so that full counts of several requests fall into different polls
        self._idle_numbers: list[int] = []  # queues that are only checked for changes
        self._calls = [self._full_call]

    def build_request(self) -> Request[list[Queue] | Request[list[Queue]]]:
        """Build the request of the next poll. Parsing its replies prepares the calls of the poll after it."""
        return Request(self._calls, self._parse_poll_replies)

    def _parse_poll_replies(self, replies: Replies) -> list[Queue] | Request[list[Queue]]:
        """Return the counted queues, or a further request for queues whose idle check shows a change."""
        checked_numbers, self._calls[:] = self._idle_numbers, [self._full_call]
        self._idle_numbers = []
        now_ms, tally_replies = 0, replies
        changed_numbers: list[int] = []
        if checked_numbers:
            check_replies = unwrap_reply(replies[0]).values["replies"]
            clock, tally_replies = check_replies[0], replies[1:]
            now_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
            changed_numbers = [
                number
                for start, number in zip(range(1, len(check_replies), _READS_PER_CHECK), checked_numbers, strict=True)
                if not self._counted_queues[number].is_unchanged(check_replies[start : start + _READS_PER_CHECK])
            ]
        if tally_replies:
            checked = set(checked_numbers)
            now_ms = self._store_tally_rows(
                [number for number in range(len(self._queues)) if number not in checked], tally_replies[0]
            )
        if not changed_numbers:
            return self._build_counted_queues(now_ms)
        return Request(
            [self._build_tally_call(changed_numbers)],
            lambda replies: self._build_counted_queues(self._store_tally_rows(changed_numbers, replies[0])),
        )

    def _store_tally_rows(self, numbers: Sequence[int], tally_reply: Reply | Exception) -> int:
        """Store the counts of the given queues. Return the server time in ms at which they were counted."""
        reply = unwrap_reply(tally_reply)
        for number, row in zip(numbers, reply.rows, strict=True):
            counted = self._counted_queues[number]
            if row != counted.row:
                _store_tally_row(counted, row)
        now_ms: int = reply.values["now_ms"]
        return now_ms

    def _build_counted_queues(self, now_ms: int) -> list[Queue]:
        """Build the queues with their counts, and prepare the calls of the next poll."""
        if next(self._polls) % FULL_COUNT_POLLS:
            self._idle_numbers = [number for number, counted in enumerate(self._counted_queues) if counted.is_idle]
        if self._idle_numbers:
            commands = [_TIME, *map(self._pack_idle_check, self._idle_numbers)]
            busy_numbers = [number for number, counted in enumerate(self._counted_queues) if not counted.is_idle]
            reads = scripts.build_read_commands(commands, 1 + _READS_PER_CHECK * len(self._idle_numbers))
            self._calls[:] = [reads, *([self._build_tally_call(busy_numbers)] if busy_numbers else [])]
        return [
            _build_queue(queue, now_ms, counted)
            for queue, counted in zip(self._queues, self._counted_queues, strict=True)
        ]

    def _build_tally_call(self, numbers: Sequence[int]) -> Call:
        """Build the call of `shared/tally.lua` for the queues with these numbers."""
        return replace(self._full_call, keys=[key for number in numbers for key in self._list_keys_of_queue(number)])

    def _list_keys_of_queue(self, number: int) -> Sequence[bytes | str]:
        """Return the keys of one queue, in the order of the script's header."""
        width = len(self._names)
        return self._full_call.keys[number * width : (number + 1) * width]

    def _pack_idle_check(self, number: int) -> bytes:
        """Pack the read commands that show whether an idle queue changed since its last count."""
        packed = self._packed.get(number)
        if packed is None:
            queue_keys = dict(zip(self._names, map(to_bytes, self._list_keys_of_queue(number)), strict=True))
            commands = (
                (b"EXISTS", *(queue_keys[name] for name in ("scheduled", "reserved", "done", "dead", "workers"))),
                (b"ZCARD", queue_keys["ready"]),
                (b"ZRANGE", queue_keys["ready"], b"0", b"0"),
                (b"HMGET", queue_keys["meta"], b"token", b"paused", b"enqueued"),
            )
            packed = self._packed[number] = b"".join(map(pack_command, commands))
        return packed


_READS_PER_CHECK = 4  # commands that check one idle queue
_TIME = b"*1\r\n$4\r\nTIME\r\n"


def _store_tally_row(counted: _CountedQueue, row: tuple[Any, ...]) -> _CountedQueue:
    """Store the count of one queue (a row of `shared/tally.lua`), with the `Count`s and counters computed from it."""
    counted.row, counted.matching_replies = row, []
    counted.counts = _intern_counts(row[:5])
    counters = _intern_counters(row[11], row[13:_QUEUE_COLUMNS])
    if counters != counted.counters:
        counted.counters = counters
    return counted


@lru_cache(1_000)
def _intern_counts(numbers: tuple[int, ...]) -> tuple[Count, ...]:
    """Return one shared tuple for equal counts per place, to save memory: many of 10 000 queues are alike."""
    return tuple([_intern_count(place, state, number) for (place, state), number in zip(_STATES, numbers, strict=True)])


@lru_cache(1_000)
def _intern_counters(registered: int, figures: tuple[int, ...]) -> Mapping[str, int]:
    """Return one shared mapping for equal counters, by the names that rates and findings use."""
    enqueued, leased, acked, rejected, died, ran_out, pulled, dispatched, unnoted, dead_max = figures
    return {
        "in": enqueued,
        "out": acked + pulled,
        "failed": rejected + ran_out,
        "dead": died,
        "expired": ran_out,
        "reserved": leased,
        "dispatched": dispatched,
        "unnoted": unnoted,
        "dead_max": dead_max,
        "registered": registered,
    }


def _build_queue(queue: str, now_ms: int, counted: _CountedQueue) -> Queue:
    """Build a `Queue` from the last count of a queue."""
    paused_since_ms, ready_since_ms, due_ms, deadline_ms, overdue, expired, _registered, live_workers = counted.row[
        5:13
    ]
    return Queue(
        queue,
        "native",
        counted.counts,
        now_ms,
        paused_since_ms >= 0,
        live_workers,
        None if ready_since_ms < 0 else now_ms - ready_since_ms if ready_since_ms < now_ms else 0,
        due_ms - now_ms if due_ms >= 0 else None,
        deadline_ms - now_ms if deadline_ms >= 0 else None,
        overdue,
        expired,
        counted.counters,
        paused_ms=paused_since_ms if paused_since_ms >= 0 else None,
    )


def _parse_page(queue: str, place: str, offset: int, limit: int, reply: Reply | Exception) -> Page:
    """Build a page of jobs from the reply of the script `page`, or from its error."""
    if isinstance(reply, ServerError):
        return Page(queue, "native", place, (), 0, error=str(reply))
    if isinstance(reply, Exception):
        raise reply
    total: Any = reply.values["total"]
    first = offset if offset >= 0 else max(0, total - limit + offset + 1)
    jobs = []
    for row in reply.rows:
        id, score, record, size, body, line, error = row
        job = decode_job(queue, place, id, score, record, line)
        jobs.append(
            replace(
                job,
                max_attempts=job.max_attempts or reply.values["max_attempts"],
                body=body if body or size == 0 else None,
                body_bytes=size,
                error=decode_text(error) or job.error,
            )
        )
    next_offset = first + len(jobs)
    return Page(queue, "native", place, tuple(jobs), total, True, first, next_offset if next_offset < total else None)


def _parse_job(queue: str, id: bytes, replies: Replies) -> Job | None:
    """Build a job from the reply of the script `show`; None if the job is missing."""
    reply = replies[0]
    if isinstance(reply, Exception):
        raise reply
    if reply.word == "gone":
        return None
    values: Mapping[str, Any] = reply.values
    place = values["place"] or "dead"
    job = decode_job(queue, place, id, float(values["score"] or 0), values["record"], values["line"])
    history = parse_history(values["errors"])
    is_complete = bool(values["body"]) or values["bytes"] == 0
    return replace(
        job,
        max_attempts=job.max_attempts or values["max_attempts"],
        body=values["body"] if is_complete else None,
        body_bytes=values["bytes"],
        history=history,
        attempts_line=values["line"],
        error=history[-1].error if history else job.error,
        problem=job.problem if values["place"] else "it is in no place; rqtui check finds and repairs it",
    )


def _parse_taken_job(queue: str, row: tuple[Any, ...]) -> Job:
    """Build a job from a row of the reply of `reserve` or `pull`."""
    id, *lease, record, long_body = row
    body = long_body or record.partition(b"\n")[2]
    job = decode_job(queue, "reserved" if lease else "ready", id, 0.0, record, b"")
    job = replace(job, body=body, body_bytes=len(body))
    if not lease:
        return job
    token, attempt, most, ttr_ms = lease
    reserved_ms = int(token) // 1000  # a token is the time of the lease in microseconds
    return replace(
        job,
        token=token.encode(),
        attempts=attempt,
        max_attempts=most,
        ttr_ms=ttr_ms,
        reserved_ms=reserved_ms,
        deadline_ms=reserved_ms + ttr_ms,
    )


def _parse_workers(queue: str, replies: Replies) -> tuple[Worker, ...]:
    """Build the workers of a queue from the reply of the script `roster`, which lists them with their heartbeats."""
    reply = replies[0]
    if isinstance(reply, Exception):
        raise reply
    workers = []
    for name, line in reply.rows:
        fields = line.split(b" ", 6)
        if len(fields) < 6 or not (_is_number(fields[0]) and _is_number(fields[1])):
            continue
        beat, ttl, order, started, pid, host = (decode_text(field) for field in fields[:6])
        job = fields[6] if len(fields) > 6 else b""
        since = int(started) if _is_number(fields[3]) else None
        workers.append(Worker(decode_text(name), queue, int(beat), int(ttl), order, pid, host, since, job))
    return tuple(workers)


def _read_probe_rows(reply: Reply | Exception) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a probe's reply; none for an error of the server, which the counts report."""
    return () if isinstance(reply, ServerError) else unwrap_reply(reply).rows


def _build_silent_leases_finding(queue: str, found: Sequence[tuple[Any, ...]]) -> tuple[Finding, ...]:
    """Build one finding for all leases of workers without a heartbeat, from the rows of the script `leases`."""
    if not found:
        return ()
    from rqtui.text.formats import format_quantity  # imported here because findings are rare

    rows = sorted(found, key=lambda row: -row[1])
    jobs = sum(row[1] for row in rows)
    holds = f"{'hold' if len(rows) > 1 else 'holds'} {format_quantity(jobs, 'job')}"
    since_ms = min(beat if beat >= 0 else since for _worker, _leases, beat, since in rows)
    names = [decode_text(row[0]) or "a worker without a name" for row in rows]
    text, detail = f"{names[0]} {holds} and has sent no heartbeat", ""
    if len(rows) > 1:
        text, detail = (
            f"{format_quantity(len(rows), 'worker')} {holds} and have sent no heartbeat",
            join_names(names, _MAX_NAMED_WORKERS),
        )
    finding = Finding("silent-leases", "warning", queue, text, key="w", detail=detail, since_ms=since_ms, jobs=jobs)
    return (finding,)


def _build_interrupted_jobs_finding(queue: str, found: Sequence[tuple[Any, ...]]) -> tuple[Finding, ...]:
    """Build one finding for the jobs that lost leases, from the rows of the script `interrupted`.

    The finding names the job that lost the most leases.
    """
    if not found:
        return ()
    from rqtui.text.formats import format_quantity  # imported here because findings are rare
    from rqtui.text.sanitise import format_id, safe

    rows = sorted(found, key=lambda row: -row[2])
    id, place, leases, died, _since_ms, record = rows[0]
    name = str(_parse_record_header(State.READY, record + b"\n").get("name") or "")
    job = f"job {format_id(id)}{f' ({safe(name)})' if name else ''}"
    if died >= 2:
        text = f"{job} was running when {format_quantity(died, 'worker')} died"
    else:
        times = format_quantity(leases + 1, "time")
        text = f"{job} is given out {times}: its worker runs it for longer than the lease, and does not extend it"
    others = f"{format_quantity(len(rows) - 1, 'other job')} too" if len(rows) > 1 else ""
    finding = Finding(
        "interrupted",
        "warning",
        queue,
        text,
        "find out why before it runs again" if place != "dead" else "find out why before it is requeued",
        ids=tuple(row[0] for row in rows),
        detail=others,
        since_ms=min(row[4] for row in rows) or None,
        jobs=len(rows),
    )
    return (finding,)


def decode_job(queue: str, place: str, id: bytes, score: float, record: bytes, line: bytes) -> Job:
    """Build a job from its score, the header line of its record and its attempts line.

    `lua/README.md` describes the formats.
    """
    state = State(place)
    at = int(score) if isfinite(score) else 0
    fields = _parse_record_header(state, record) | _parse_attempts_line(state, line)
    if state is State.SCHEDULED:
        fields["due_ms"] = at
    if state is State.RESERVED:
        fields["deadline_ms"] = at
    if state is State.DEAD or (state is State.DONE and "since_ms" not in fields):
        fields["since_ms"] = at
    return Job(id, queue, "native", place, state, id, **fields)


def _parse_record_header(state: State, record: bytes) -> dict[str, Any]:
    """Parse the first line of a job's record. An unreadable record gives a `problem`."""
    try:
        enqueued, due, priority, ttr, most, _backoff, _cap, _keep, _bytes, name = map(
            decode_text, native_record.parse_record_fields(record)
        )
        return {
            "enqueued_ms": _parse_int(enqueued),
            "priority": _parse_int(priority),
            "ttr_ms": None if ttr == "-" else _parse_int(ttr),
            "max_attempts": None if most == "-" else _parse_int(most),
            "name": name,
            "since_ms": max(_parse_int(enqueued), 0 if due == "-" else _parse_int(due)),
        }
    except ValueError:
        if record:
            return {"problem": "its record cannot be read"}
        if state is State.DONE:
            return {"problem": "its id alone is remembered"}
        return {"problem": "it has no record: nothing is known of it but its id"}


def _parse_attempts_line(state: State, line: bytes) -> dict[str, Any]:
    """Parse one value of the `attempts` hash of a queue; an empty dict for a missing value."""
    if not line:
        return {}
    try:
        attempts, token, _score, at, priority, flag, worker = line.split(b" ", 6)
        since_ms = int(at) if _is_number(at) else None
        fields: dict[str, Any] = {"attempts": _parse_int(attempts), "since_ms": since_ms, "is_cancelled": flag == b"c"}
        if priority != b"-":
            fields["priority"] = _parse_int(priority)
    except ValueError:
        return {"problem": "its line of attempts cannot be read"}
    fields["worker"] = decode_text(worker)
    if state is State.DONE and _is_number(token):
        fields["reserved_ms"] = int(token) // 1000  # the token is the start of the last lease in µs
    return fields | ({"reserved_ms": since_ms, "token": token} if state is State.RESERVED else {})


def parse_history(errors: bytes) -> tuple[Attempt, ...]:
    """Parse the failed attempts of a job, oldest first. Unreadable JSON gives one attempt whose error says so."""
    if not errors:
        return ()
    try:
        entries = json.loads(errors.decode("utf-8", "replace"))
        return tuple(
            Attempt(_parse_int(start), _parse_int(end), _to_lossless_text(worker), _to_lossless_text(error))
            for start, end, worker, error in entries
        )
    except (ValueError, TypeError, OverflowError, RecursionError):  # Infinity is a number in Python's JSON
        return (Attempt(0, 0, "", "the errors of this job cannot be read"),)


def _to_lossless_text(value: Any) -> str:
    r"""Convert a JSON value to text. A lone surrogate such as `\ud800`, which text cannot contain, keeps its bytes."""
    return to_text(str(value).encode("utf-8", "surrogatepass"))


_DIGITS = 17  # of a token; no time, length or count has more


def _is_number(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _DIGITS


def _parse_int(value: Any) -> int:
    """Convert a JSON value to an integer. Raises ValueError for no number, or for one with too many digits."""
    number = int(value)
    if abs(number) >= 10**_DIGITS:
        raise ValueError("too long for an instant or a count")
    return number


def decode_text(value: bytes) -> str:
    """Decode bytes to text that encodes back to the same bytes."""
    return to_text(value)
