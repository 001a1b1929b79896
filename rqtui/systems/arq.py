"""Read and change the queues of arq 0.28: asyncio jobs in Python, kept in one sorted set per queue.

A queue is the sorted set of its name (`arq:queue` by default): id by due time in ms. An id stays there while its job
runs; the key `arq:in-progress:<id>` shows that. Records are pickles by id, in keys that all queues share:
`arq:job:<id>` {t try, f function, a args, k kwargs, et enqueue time ms}, and after the run `arq:result:<id>`, which
adds {s success, r result or exception, st start ms, ft finish ms, q queue, id} (arq/jobs.py). `arq:retry:<id>` counts
the runs that began, and `arq:abort` has the ids of abort requests. Results have no list: `record_system.py` finds them.
Operators' page: `docs/systems/arq.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from rqtui.errors import UsageError
from rqtui.model import Finding, Job, MigrationTerms, Place, State
from rqtui.scripts.script import Reply
from rqtui.system_base.foreign_system import build_facts
from rqtui.system_base.key_types import read_key_types
from rqtui.system_base.option_values import accept_whole_number
from rqtui.system_base.record_system import RecordSystem
from rqtui.text import pickles
from rqtui.text.names import to_bytes, to_text
from rqtui.text.pickling import write_pickle
from rqtui.text.sanitise import safe

DEFAULT_QUEUE = "arq:queue"
_HEALTH_SUFFIX = ":health-check"
_DAY_MS = 86_400_000
_PAGE_BYTES = 4096  # a longer record is listed without its bytes
_MAX_CALL_LENGTH = 4000
_TAIL_QUEUE = re.compile(rb"\x8c\x01q\x94?\x8c(?P<size>.)(?P<name>.*)", re.DOTALL)
_FORMAT_HINT = 'a job is written as {"function": "name", "args": [1, 2], "kwargs": {}}'
_NO_RECORD = "its record expired: a worker will fail it as job expired, without a run"
_FOREIGN_RECORD = "its record is no pickle of arq: a job_serializer wrote it, and it is shown as bytes"
_FOREIGN_KEY = "the key of its record holds no string: another program uses this name"
_LATE_S = 5  # a worker takes a due job at its next poll, half a second later, unless it runs as many as it may
_IDLE_MS = 15_000  # the time for which the first due job must be watched where a worker has reported
_LATE_PROBE_S = 5.0
_UNREAD_ERROR = "unknown: the result is too long to be read"


class Arq(RecordSystem):
    """Queues of arq, whose results are keys of their own."""

    name = "arq"
    places = (
        Place("deferred", State.SCHEDULED, "<queue>", "zset", "due ms", "score > now"),
        Place("queued", State.READY, "<queue>", "zset", "due ms", "score <= now"),
        Place("in_progress", State.RESERVED, "<queue>", "zset", "due ms", "arq:in-progress:<id> exists"),
        Place("complete", State.DONE, "arq:result:<id>", "string", where="s is True", is_key_per_job=True),
        Place("failed", State.DEAD, "arq:result:<id>", "string", where="s is False", is_key_per_job=True),
    )
    defaults = {"queue": "", "expires_ms": str(_DAY_MS)}
    option_values = {"expires_ms": accept_whole_number(1, 365 * _DAY_MS, "milliseconds")}
    queue_option = "queue"
    key_patterns = (r"^arq:queue$", r":health%-check$")
    can_find_by_id = True
    has_ids = True
    has_json_bodies = True
    known_fields = frozenset({"name", "tried", "error", "lease"})
    # An in-progress key names no worker, and the number of runs grows by `Retry` as by the death of a worker.
    unknown_facts = ("workers that hold jobs", "repeated runs")
    jobs_per_call = 200
    body_template = '{"function": "name", "args": [], "kwargs": {}}'
    verb_labels = {"cancel": "abort"}
    verb_effects = {
        "cancel": "a worker with allow_abort_jobs aborts them at its next poll; other workers run them to their end",
        "release": "another worker starts them now; a job whose worker is alive runs twice",
    }
    verb_places = {"cancel": ("in_progress",)}
    missing_verbs = {
        "pause": "arq has no pause: stop its workers",
        "kill": "arq has no place for killed jobs: delete it, or cancel it if it runs",
        "reap": "the in-progress key of a dead worker expires by itself; release does it now",
    }
    finding_remedies = {
        "oldest-ready": "add workers: arq MODULE.WorkerSettings",
        "backlog-grows": "add workers: arq MODULE.WorkerSettings",
        "due-not-dispatched": "",
        "expired-not-reaped": "",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._heads: dict[str, _WaitingHead] = {}  # by queue; only where jobs are due and none runs

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue, by the names that the scripts use. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("arq: a queue has a name, such as arq:queue.")
        return {"ids": queue, "abort": "arq:abort", "health_check": queue + _HEALTH_SUFFIX}

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queues that options name; without options, the default queue if it exists or arq was requested."""
        if named := self.named_queues():
            yield [queue for queue in named if self.is_explicit or self.has_keys_of(client, queue)]
        else:
            yield [DEFAULT_QUEUE] if self.is_explicit or self.has_keys_of(client, DEFAULT_QUEUE) else []

    def marker_keys(self) -> Sequence[str]:
        """Return the sorted set and the health check of each queue that options name, or of the default queue."""
        return [key for queue in self.named_queues() or [DEFAULT_QUEUE] for key in (queue, queue + _HEALTH_SUFFIX)]

    def has_keys_of(self, client: Any, queue: str) -> bool:
        """Return whether a queue of that name has jobs, or a worker that reported."""
        kind, health_kind = read_key_types(client, [queue, queue + _HEALTH_SUFFIX])
        return kind == "zset" or (health_kind == "string" and kind == "none")

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the default queue if its sorted set was found, and each queue whose health check was found.

        Other programs have keys of that name, too: the value must be a report of arq.
        """
        names = [to_text(key).removesuffix(_HEALTH_SUFFIX) for key in found]
        pipe = client.pipeline(transaction=False)
        for name in names:
            pipe.type(to_bytes(name))
            pipe.getrange(to_bytes(name + _HEALTH_SUFFIX), 0, 200)
        replies = pipe.execute(raise_on_error=False)
        queues = [
            name
            for name, kind, report in zip(names, replies[::2], replies[1::2], strict=True)
            if (name == DEFAULT_QUEUE and kind == b"zset") or (isinstance(report, bytes) and b"j_complete=" in report)
        ]
        only = self.named_queues() if self.is_explicit else []
        return [queue for queue in dict.fromkeys(queues) if queue and (not only or queue in only)]

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether an option names the queue, or it has jobs, or a worker of it reported."""
        return super().has_queue(client, queue) or self.has_keys_of(client, queue)

    # -- findings -------------------------------------------------------------------------------------------------

    def probe_interval_s(self, queue: str) -> float | None:
        """Return a short interval while jobs are due and none runs."""
        return _LATE_PROBE_S if queue in self._heads else None

    def _parse_findings(self, queue: str, reply: Reply | Exception) -> tuple[Finding, ...]:
        """Build the findings, and leave out due jobs that a worker may be about to take.

        Between two polls a worker with quick jobs runs none. Jobs that wait are reported if no job of the queue ended
        meanwhile, and, where a worker has reported, if the first of them was seen for some time.
        """
        if isinstance(reply, Exception):
            return super()._parse_findings(queue, reply)
        now_ms: Any = reply.values["now_ms"]
        last_end_ms = self.record_sample.find_last_end_ms(queue)
        head, rows = None, []
        for values in reply.rows:
            row = dict(zip(reply.columns, values, strict=True))
            if row["kind"] in ("no_live_worker", "idle_workers"):
                head = _WaitingHead.update(self._heads.get(queue), row["id"], row["other"], now_ms)
                watched_ms = now_ms - head.seen_ms
                is_late = row["seconds"] >= _LATE_S and now_ms - last_end_ms >= 1000 * _LATE_S
                if not is_late or (row["kind"] == "idle_workers" and watched_ms < _IDLE_MS):
                    continue
            rows.append(values)
        self._heads.pop(queue, None)
        if head is not None:
            self._heads[queue] = head
        return super()._parse_findings(queue, replace(reply, rows=rows))

    # -- jobs -----------------------------------------------------------------------------------------------------

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page`, or from the values of `show`, which may be a stored result."""
        if row["result"]:
            record = {**row, "record": row["result"]}
            return self.decode_record(record, now_ms, is_page=False)
        data, where = row["record"], self.place(place)
        call = _decode_call(data) if data else _DecodedCall()
        due_ms, lease_ms = _convert_score_ms(row["score"]), row["lease_ms"]
        is_running = where.state is State.RESERVED
        expiry_ms = now_ms + lease_ms if lease_ms >= 0 else None
        problem = call.problem
        if row["size"] <= 0:
            problem = "" if is_running else _NO_RECORD if row["size"] == 0 else _FOREIGN_KEY
        return Job(
            row["id"],
            queue,
            self.name,
            where.name,
            where.state,
            row["id"],
            token=str(expiry_ms if lease_ms >= 0 else -1).encode() if is_running else b"",
            name=call.name,
            call=call.call,
            body=data if data and len(data) == row["size"] else None,
            body_bytes=max(0, row["size"]),
            enqueued_ms=call.enqueued_ms,
            due_ms=due_ms if where.state is State.SCHEDULED else None,
            since_ms=due_ms if where.state is State.READY else None,
            deadline_ms=expiry_ms if is_running else None,
            attempts=int(row["tries"]) if row["tries"].isdigit() else 0,
            is_cancelled=bool(row["asked_ms"]),
            problem=problem,
            facts=tuple(
                build_facts(
                    [
                        ("due", due_ms if is_running else None, "instant"),
                        ("record expires", now_ms + row["left_ms"] if row["left_ms"] >= 0 else None, "instant"),
                        ("abort asked", _convert_score_ms(row["asked_ms"]), "instant"),
                    ]
                )
            ),
        )

    def decode_record(self, row: Mapping[str, Any], now_ms: int, is_page: bool = True) -> Job:
        """Build the job of a stored result. Its bytes show whether it failed, and in which queue it was.

        Results of a queue that is unknown are shown in the default queue.
        """
        data, size, left_ms = row["record"], row["size"], row["left_ms"]
        result = _decode_result(data, row["tail"])
        state = State.DEAD if result.is_failed else State.DONE
        is_whole = len(data) == size and (not is_page or size <= _PAGE_BYTES)
        expiry_ms = now_ms + left_ms if left_ms >= 0 else None
        return Job(
            row["id"],
            result.queue or DEFAULT_QUEUE,
            self.name,
            "failed" if result.is_failed else "complete",
            state,
            data if is_whole else row["id"],
            name=result.call.name,
            call=result.call.call,
            body=data if is_whole else None,
            body_bytes=size,
            is_partial=not is_whole,
            enqueued_ms=result.call.enqueued_ms,
            reserved_ms=result.started_ms,
            since_ms=result.ended_ms,
            ran_ms=None
            if result.ended_ms is None or result.started_ms is None
            else max(0, result.ended_ms - result.started_ms),
            attempts=result.tries,
            error=result.error,
            problem=result.call.problem,
            facts=tuple(
                build_facts([("result", result.value, "text"), ("result expires", expiry_ms, "instant")]),
            ),
        )

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Any:
        """Build the request for one job. A result of another queue is not returned."""
        request = super().job_request(queue, id, body_bytes)

        def parse_job(replies: Any) -> Job | None:
            job = request.parse(replies)
            return job if job is None or job.queue == queue else None

        return type(request)(request.calls, parse_job)

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the runs so far of a migrated job. The number of runs allowed is a setting of arq's workers."""
        return MigrationTerms(max(0, job.attempts - (job.state is State.RESERVED)), None)

    # -- verbs ----------------------------------------------------------------------------------------------------

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return the record of a new job with the call of a failed one. Raises UsageError if its bytes are no result.

        The arguments keep their bytes, so that objects are requeued, too.
        """
        try:
            return _build_job_record(job.member, self.now_ms())
        except ValueError as error:
            raise UsageError(f"arq: {error}.") from None

    def encode_body(self, body: bytes) -> bytes:
        """Encode a job written as JSON as the pickle that workers read; a pickle of a job or a result is accepted, too.

        Raises UsageError for any other body.
        """
        if body[:1] == b"\x80":
            try:
                return _build_job_record(body, self.now_ms())
            except ValueError as error:
                raise UsageError(f"arq: {error}.") from None
        return _encode_job(body, self.now_ms())


SYSTEM = Arq


# -- records -----------------------------------------------------------------------------------------------------------


class _WaitingHead(NamedTuple):
    """The first due job of a queue in which no job runs, and since when this process has seen it there."""

    id: bytes
    runs: int
    seen_ms: int

    @classmethod
    def update(cls, previous: _WaitingHead | None, id: bytes, runs: int, now_ms: int) -> _WaitingHead:
        """Return the head of now; the same job with the same number of runs keeps its time."""
        is_same = previous is not None and (previous.id, previous.runs) == (id, runs)
        return previous if previous is not None and is_same else cls(id, runs, now_ms)


class _DecodedCall(NamedTuple):
    """The function call in a record, and when it was enqueued (ms), or the problem that prevented reading it."""

    name: str = ""
    call: str = ""
    enqueued_ms: int | None = None
    problem: str = ""


class _DecodedResult(NamedTuple):
    """A stored result: its call, its queue (empty: unknown), and how its last run ended."""

    call: _DecodedCall
    queue: str = ""
    is_failed: bool = False
    tries: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    error: str = ""
    value: str = ""


@lru_cache(maxsize=2000)
def _decode_call(data: bytes) -> _DecodedCall:
    """Decode the call of a record. Cached, because every poll reads the same jobs again."""
    return _build_call(_read_items(data))


def _read_items(data: bytes) -> dict[object, object]:
    try:
        return {item.key: item.value for item in pickles.parse_pickled_dict(data) if isinstance(item.key, str)}
    except ValueError:
        return {}


def _build_call(items: Mapping[object, object]) -> _DecodedCall:
    function = items.get("f")
    if not isinstance(function, str):
        return _DecodedCall(problem=_FOREIGN_RECORD)
    call = pickles.format_function_call(function, items.get("a", ()), items.get("k", {}), _MAX_CALL_LENGTH)
    return _DecodedCall(safe(function), call, _convert_time_ms(items.get("et")))


@lru_cache(maxsize=2000)
def _decode_result(data: bytes, tail: bytes) -> _DecodedResult:
    """Decode a result. If it is long, `data` is its beginning and `tail` its end, which names the queue."""
    items = _read_items(data)
    call, value = _build_call(items), items.get("r")
    queue = items.get("q")
    is_failed = items.get("s") is False
    tries = items.get("t")
    return _DecodedResult(
        call,
        queue if isinstance(queue, str) else _read_tail_queue(tail),
        is_failed,
        tries if isinstance(tries, int) and tries in range(1_000_000) else 0,
        _convert_time_ms(items.get("st")),
        _convert_time_ms(items.get("ft")),
        _format_error(value) if is_failed else "",
        "" if is_failed or "r" not in items else pickles.format_as_python(value, _MAX_CALL_LENGTH),
    )


def _read_tail_queue(tail: bytes) -> str:
    match = _TAIL_QUEUE.search(tail)
    return to_text(match["name"][: match["size"][0]]) if match else ""


def _format_error(value: object) -> str:
    """Format the exception in a result as `ValueError: no such order`; another value as Python writes it."""
    if isinstance(value, pickles.Call) and isinstance(value.function, pickles.Name):
        name, args = str(value.function), value.args
        texts = [arg if isinstance(arg, str) else pickles.format_as_python(arg, 1000) for arg in args]
        return safe(f"{name}: {', '.join(texts)}" if texts else name)
    return _UNREAD_ERROR if value is None else safe(pickles.format_as_python(value, 1000))


def _convert_time_ms(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def _convert_score_ms(score: str) -> int | None:
    try:
        value = float(score)
    except ValueError:
        return None
    return int(value) if abs(value) < 2**53 else None


def _build_job_record(data: bytes, now_ms: int) -> bytes:
    """Return the record of a new job with the call of a job or result, enqueued now and without tries.

    The bytes of the arguments are copied. Raises ValueError if `data` is no complete record of arq.
    """
    items = {item.key: item for item in pickles.parse_pickled_dict(data)}
    try:
        tries, *call, enqueued = (items[name] for name in ("t", "f", "a", "k", "et"))
    except KeyError:
        raise ValueError("its bytes are no record of a job that arq's own serializer wrote") from None
    starts = [item.start for item in (tries, *call, enqueued)]
    if starts != sorted(starts):
        raise ValueError("its record has an unknown order")
    parts = (
        data[: tries.middle],
        write_pickle(None)[2:-1],
        data[tries.end : enqueued.middle],
        write_pickle(now_ms)[2:-1],
        b"u.",
    )
    return pickles.remove_frames(b"".join(parts))


def _encode_job(body: bytes, now_ms: int) -> bytes:
    """Encode a job that a person wrote in JSON. Raises UsageError, whose text explains the format."""
    try:
        job = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"arq: this body is no JSON; {_FORMAT_HINT}.") from None
    if not isinstance(job, dict) or not isinstance(job.get("function"), str) or not job["function"]:
        raise UsageError(f"arq: this body names no function; {_FORMAT_HINT}.")
    if unknown := [name for name in job if name not in ("function", "args", "kwargs")]:
        raise UsageError(f'arq: a job has no "{unknown[0]:.40}"; it has function, args, kwargs.')
    args, kwargs = job.get("args", []), job.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UsageError(f"arq: args is a list and kwargs an object; {_FORMAT_HINT}.")
    try:
        return write_pickle({"t": None, "f": job["function"], "a": tuple(args), "k": kwargs, "et": now_ms})
    except (RecursionError, ValueError):
        raise UsageError("arq: the arguments are nested too deeply.") from None
