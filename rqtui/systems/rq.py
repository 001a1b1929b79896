"""RQ (Redis Queue, Python, `rq/rq` 2.6 and 3.0): a list per queue, a sorted set per fate, a hash per job.

LIST `rq:queue:<q>` of ids, RPUSH in; `…:intermediate` between queue and start. ZSETs of ids: `rq:scheduled:<q>` by due,
`deferred`, `ready` (3.0) and `canceled` by since when, `finished` and `failed` by when they are forgotten; `rq:wip:<q>`
of `<id>:<execution>` by deadline. Scores are seconds, times in hashes `2026-11-22T04:43:55.938008Z`. In the HASH
`rq:job:<id>`, `data` is zlib of a pickle (or JSON) of (function, instance, args, kwargs). STREAM `rq:results:<id>`:
type 1 returned, 2 failed, 3 stopped, 4 and 5 asked to be retried. `rq` is the prefix, in 3.0 any. What is decoded here
is never run. Page: `docs/systems/rq.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from rqtui import durations
from rqtui.errors import UsageError
from rqtui.layout.foreign import Foreign, rows_by_name
from rqtui.layout.layout import Answers, Ask, answered
from rqtui.layout.option_values import matching, one_of
from rqtui.model import Attempt, Fact, Job, Place, Schedule, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call
from rqtui.text import pickles
from rqtui.text.body import inflated
from rqtui.text.names import to_bytes, to_text
from rqtui.text.pickling import pickled
from rqtui.text.sanitise import safe

ROSTER, ROSTERS = 150, 4  # workers per call, and calls for those of a queue
_READ_BYTES = 64 * 1024  # of what `data` inflates to, in a page; a job that is looked at alone: `pickles.MOST_BYTES`
_LONGEST_CALL = 1000  # characters
_MOST_QUEUES = 10_000  # that are looked through for a name, in one step
_NO_DATA, _NO_HASH, _NOT_A_HASH = -1, -2, -3
_LATEST_S = 1e11  # scores from here on, the year 5138, are no seconds
_PLACE_OF = {
    "scheduled": "scheduled",
    "deferred": "deferred",
    "rate_limited": "deferred",
    "ready_to_enqueue": "ready_to_enqueue",
    "created": "deferred",
    "queued": "queued",
    "started": "started",
    "finished": "finished",
    "failed": "failed",
    "stopped": "failed",
}


class Rq(Foreign):
    """RQ, of one prefix."""

    name = "rq"
    places = (
        Place("scheduled", State.SCHEDULED, "<prefix>:scheduled:<queue>", "zset", "due s"),
        Place("deferred", State.SCHEDULED, "<prefix>:deferred:<queue>", "zset", "since s"),
        Place("ready_to_enqueue", State.SCHEDULED, "<prefix>:ready:<queue>", "zset", "since s"),
        Place("queued", State.READY, "<prefix>:queue:<queue>", "list"),
        Place("started", State.RESERVED, "<prefix>:wip:<queue>", "zset", "deadline s"),
        Place("intermediate", State.RESERVED, "<prefix>:queue:<queue>:intermediate", "list"),
        Place("finished", State.DONE, "<prefix>:finished:<queue>", "zset", "forget s"),
        Place("failed", State.DEAD, "<prefix>:failed:<queue>", "zset", "forget s"),
        Place("canceled", State.DEAD, "<prefix>:canceled:<queue>", "zset", "since s", failures=False),
    )
    defaults = {"prefix": "rq", "serializer": "auto"}
    option_values = {
        "prefix": matching(r"[A-Za-z0-9_.:{}-]+", "letters, digits and _.:-{}"),  # rq/defaults.py 3.0
        "serializer": one_of("auto", "pickle", "json"),
    }
    only_option = "prefix"
    names_key = "rq:queues"
    finds_by_id = True
    tells = frozenset({"name", "error", "worker"})
    remedies = {
        "no-live-worker": "start one: rq worker {queue}",
        "oldest-ready": "add workers: rq worker {queue}",
        "backlog-grows": "add workers: rq worker {queue}",
        "due-not-dispatched": "",
        "expired-not-reaped": "",
    }
    has_json_bodies = True
    shares_workers = True
    page_at_once = 25
    at_once = 100  # a job is a hash, two sets and a place: 500 kept the server for 20 ms
    new_body = '{"func": "module.function", "args": [], "kwargs": {}}'
    effects = {
        "pause": "no worker takes a job of any queue of this RQ until it is resumed; jobs that are started go on",
        "resume": "workers take jobs of all queues of this RQ again, at once",
        "kill": "nobody runs them until they are requeued; jobs that wait for one of them stay deferred",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.names_key = f"{self.prefix}:queues"
        self.fits_cluster = re.search(r"\{[^}]+\}", self.prefix) is not None  # a tag: all keys share a slot
        self._serializers: dict[str, str] = {}  # by queue: what the jobs were made with that were seen there

    @property
    def prefix(self) -> str:
        """What stands before all keys."""
        return self.options["prefix"]

    def keys(self, queue: str) -> Mapping[str, str]:
        """The places, and what RQ keeps beside them. Raises UsageError without a name."""
        if not queue:
            raise UsageError("rq: a queue has a name.")
        prefix = self.prefix
        places = {p.name: p.key.replace("<prefix>", prefix).replace("<queue>", queue) for p in self.places}
        return {
            **places,
            "queues": self.names_key,
            "suspended": f"{prefix}:suspended",
            "workers": f"{prefix}:workers:{queue}",
            "lock": f"{prefix}:scheduler-lock:{queue}",
            "cron_schedulers": f"{prefix}:cron_schedulers",
            "cron_jobs": f"{prefix}:cron_jobs",
            "commands": f"{prefix}:pubsub:",
        }

    def discover(self, client: Any) -> Iterator[list[str]]:
        """The names in `rq:queues`."""
        cursor, first = 0, to_bytes(f"{self.prefix}:queue:")
        while True:
            cursor, found = client.sscan(to_bytes(self.names_key), cursor=cursor, count=1000)
            yield [to_text(key[len(first) :]) for key in found if key.startswith(first) and key != first]
            if cursor == 0:
                break

    def shown_by(self) -> Sequence[str]:
        """The names of its queues."""
        return (self.names_key,)

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it stands in `rq:queues`, or jobs do in one of its places."""
        keys = self.keys(queue)
        pipe = client.pipeline(transaction=False)
        pipe.exists(*(to_bytes(keys[place.name]) for place in self.places))
        named = re.sub(rb"([*?\[\]\\^-])", rb"\\\1", to_bytes(keys["queued"]))
        pipe.sscan(to_bytes(keys["queues"]), 0, match=named, count=_MOST_QUEUES)
        jobs, found = pipe.execute(raise_on_error=False)
        return (isinstance(jobs, int) and jobs > 0) or (not isinstance(found, Exception) and bool(found[1]))

    def acquaint(self, client: Any, queue: str) -> None:
        """A job of each of some places, so that it is known how the queue's jobs are written."""
        if self.options["serializer"] != "auto" or queue in self._serializers:
            return
        asks = [self.page_ask(queue, place, 0, 1, 0) for place in ("queued", "scheduled", "failed", "finished")]
        answers = scripts.run_all(client, [call for ask in asks for call in ask.calls])
        for ask, answer in zip(asks, answers, strict=True):
            if isinstance(answer, Answer):
                ask.read([answer])

    # -- workers and schedules ------------------------------------------------------------------------------------

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Everybody who registered for the queue; who died has no beat any more."""
        calls = tuple(self.call("roster", queue, {"offset": at * ROSTER, "limit": ROSTER}) for at in range(ROSTERS))

        def read(answers: Answers) -> tuple[Worker, ...]:
            found: dict[str, Worker] = {}
            for answer in map(answered, answers):
                now_ms = answer.values["now_ms"]
                workers = (_worker(queue, row, now_ms) for row in rows_by_name(answer))
                found.update((worker.name, worker) for worker in workers)
            return tuple(found[name] for name in sorted(found))

        return Ask(calls, read)

    def schedules_ask(self) -> Ask[tuple[Schedule, ...]]:
        """The jobs of all cron schedulers."""
        script = self.scripts["schedules"]
        keys = {key.name: f"{self.prefix}:{key.name}" for key in script.keys}
        call = script.call(keys, {"prefix": self.prefix})

        def read(answers: Answers) -> tuple[Schedule, ...]:
            return _schedules(rows_by_name(answered(answers[0])))

        return Ask((call,), read)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """All about one job, with the history of its runs."""
        call = self.call("show", queue, {"queue": queue, "id": id, "body_bytes": body_bytes})
        return Ask((call,), lambda answers: self._shown(queue, answers[0]))

    def _shown(self, queue: str, answer: Answer | Exception) -> Job | None:
        answer = answered(answer)
        if answer.word == "gone":
            return None
        row = {**answer.values, "more": rows_by_name(answer)}
        place = row["place"] or _PLACE_OF.get(row["status"], "canceled")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from the columns of `page`; with `more`, the table of `show`, all that is known of it."""
        more: Sequence[Mapping[str, Any]] | None = row.get("more")
        size, data, where = row["size"], row["data"], self.place(place)
        read = _read(data, _READ_BYTES if more is None else pickles.MOST_BYTES) if data else NOTHING
        if read.name and queue not in self._serializers:
            self._serializers[queue] = _serializer_of(data)
        description = to_text(row["description"])
        name, call = read.name, read.call
        if not name and not read.problem and (fits := _CALL.match(description)):
            name, call = fits[1], description
        times = {field: _instant_ms(row[field]) for field in _TIMES}
        score_ms = _score_ms(row["score"])
        since = {"queued": times["enqueued_at"], "finished": times["ended_at"], "failed": times["ended_at"]}
        if where.name in _SINCE:
            since[where.name] = times["created_at"] if score_ms is None else score_ms
        timeout = _whole(row["timeout"])
        error = _error(row["error"])
        history = _history(more or ())
        job = Job(
            id=row["id"],
            queue=queue,
            layout=self.name,
            place=where.name,
            state=where.state,
            member=row["member"],
            name=name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=times["enqueued_at"] if times["enqueued_at"] is not None else times["created_at"],
            due_ms=score_ms if where.name == "scheduled" else None,
            deadline_ms=score_ms if where.name == "started" else None,
            reserved_ms=times["started_at"] if where.state is State.RESERVED else None,
            since_ms=since.get(where.name),
            ttr_ms=timeout * 1000 if timeout is not None and timeout > 0 else None,
            worker=row["runner"] or row["worker_name"],
            error=error or (history[-1].error if history and where.state is State.DEAD else ""),
            history=history,
            call=call,
        )
        problems = [*self._problems(queue, job, row, now_ms), *([read.problem] if read.problem else [])]
        return replace(job, problem=safe("; ".join(problems)), facts=tuple(_facts(job, row, description, more)))

    def _problems(self, queue: str, job: Job, row: Mapping[str, Any], now_ms: int) -> Iterator[str]:
        """What is wrong with it, in words."""
        size, status, key = row["size"], row["status"], f"{self.prefix}:job:{to_text(row['id'])}"
        if size == _NOT_A_HASH:
            yield f"its key {key} holds what is no hash: another program uses this name"
            return
        if size == _NO_HASH:
            is_forgotten = job.place in _FORGOTTEN and (_score_ms(row["score"]) or now_ms) <= now_ms
            yield _FORGOTTEN_ID if is_forgotten else _GHOST
            return
        if size == _NO_DATA:
            yield "its hash has no data: no worker can run it"
        wrong = [name for name in _TIMES if row[name] and _instant_ms(row[name]) is None]
        if wrong:
            yield f"{wrong[0]} is no time: {row[wrong[0]][:40]!r}"
        is_endless = job.place in _MAY_BE_INFINITE and row["score"] == "inf"
        if row["score"] and _score_ms(row["score"]) is None and not is_endless:
            yield f"its score {row['score']} is no time in seconds"
        if "places" in row:
            yield from _standing(row["places"].split(), status)
        if row["origin"] and row["origin"] != queue:
            yield f"its hash says that it is of the queue {row['origin']}"
        if job.state in (State.READY, State.SCHEDULED) and 0 <= row["left_ms"] < _SOON_MS and not row["ttl"]:
            left_s = row["left_ms"] // 1000
            yield f"its hash vanishes in {left_s} s, run or not: a requeue left the time to live of its failure"

    # -- verbs ----------------------------------------------------------------------------------------------------

    def goals(self, name: str, job: Job) -> tuple[str, ...]:
        """As every layout; one that is tried again may have to wait for that, which no page of jobs says."""
        found = super().goals(name, job)
        return ("queued", "scheduled") if name == "reap" and found == ("queued",) else found

    def is_used_up(self, job: Job) -> bool:
        """RQ counts down: a job that has no retries left fails when its worker is gone."""
        left = next((fact.value for fact in job.facts if fact.name == _RETRIES_LEFT), "")
        return not (_whole(str(left)) or 0) > 0

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """As every layout; a reaper has with it what it writes down of a job that fails by it."""
        given = {"exc_string": _ABANDONED, **args} if name == "reap" else args
        return super().call(name, queue, given, rows)

    def encoded(self, body: bytes) -> bytes:
        """A job as a person writes it, or as it stands in a hash, as pickled `data`. Raises UsageError."""
        return bytes(_made(body, "pickle")["body"])

    def described(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """A job as a person writes one, `{"func": "tasks.add", "args": [1, 2]}`; what the row says goes first."""
        option = self.options["serializer"]
        serializer = self._serializers.get(queue, "pickle") if option == "auto" else option
        made = _made(bytes(row["body"]), serializer)  # type: ignore[call-overload]
        own = {name: value for name, value in row.items() if value not in (None, "")}
        _refuse_times(own)
        return {**made, **own, "body": made["body"]}


LAYOUT = Rq


def _worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker:
    """A worker from its row; its beat is good until RQ takes it for dead."""
    beat_ms = _instant_ms(row["last_heartbeat"]) or 0
    is_there = row["left_ms"] != _GONE and not row["death"]
    running = to_text(row["execution"]).partition(":")[0] or to_text(row["current_job"])
    queues = tuple(filter(None, row["queues"].split(",")))
    state = row["state"] if is_there else "gone"
    facts = [Fact(label, row[name]) for name, label in _COUNTS.items() if row[name]]
    if row["executions"] > 1:
        facts.append(Fact("runs", str(row["executions"])))
    if (seconds := _seconds(row["total_working_time"])) is not None:
        facts.append(Fact("worked for", round(1000 * seconds), "duration"))
    if row["version"]:
        facts.append(Fact("version", f"RQ {row['version']}, Python {row['python_version'].partition(' ')[0]}"))
    return Worker(
        to_text(row["worker"]),
        queue,
        beat_ms if is_there else 0,
        max(1, now_ms + row["left_ms"] - beat_ms) if is_there and row["left_ms"] >= 0 else _BUSY_TTL_MS,
        "stop" if row["shutdown_requested_date"] else "run",
        row["pid"],
        row["hostname"],
        _instant_ms(row["birth"]),
        to_bytes(running),
        queues,
        state,
        tuple(facts),
    )


_GONE = -2  # of a time to live: the key is not there
_BUSY_TTL_MS = 90_000  # rq/worker: job_monitoring_interval + 60 s, while it runs a job
_COUNTS = {"successful_job_count": "successful jobs", "failed_job_count": "failed jobs"}


def _schedules(rows: Sequence[Mapping[str, Any]]) -> tuple[Schedule, ...]:
    """A schedule for each job of each scheduler."""
    enqueued = {row["name"]: _score_ms(row["at_s"]) for row in rows if row["kind"] == "enqueued"}
    found: list[Schedule] = []
    for row in rows:
        if row["kind"] == "scheduler":
            found += _schedules_of(row, enqueued)
    living = Counter((each.name, each.queue, each.call, each.pattern) for each in found if each.enabled)
    return tuple(
        each._replace(problem=f"{number} schedulers enqueue it, each of them")
        if each.enabled and not each.problem and (number := living[each.name, each.queue, each.call, each.pattern]) > 1
        else each
        for each in found
    )


def _schedules_of(row: Mapping[str, Any], enqueued: Mapping[bytes, int | None]) -> Iterator[Schedule]:
    """The jobs of one scheduler, as it wrote them."""
    owner = to_text(row["name"])  # of itself host:pid:…
    if row["pid"] not in owner:
        owner += f" {row['pid']}@{row['hostname']}"
    is_there = row["left_ms"] != _GONE
    problem = "" if is_there else "its scheduler died: it is enqueued no more"
    try:
        jobs = json.loads(row["jobs"]) if row["jobs"] else None
    except (ValueError, RecursionError):
        jobs = None
    if not isinstance(jobs, list):
        problem = problem or "its scheduler does not say what it enqueues: RQ does so from 3.0 on"
        yield Schedule(to_text(row["name"]), "rq", "", "", owner=owner, enabled=is_there, problem=problem)
        return
    for job in jobs:
        told = {str(name): value for name, value in job.items()} if isinstance(job, dict) else {}
        function = str(told.get("func_name") or "")
        name = str(told.get("name") or function)
        interval, cron = told.get("interval"), told.get("cron")
        last_ms = _instant_ms(str(told.get("latest_enqueue_time") or ""))
        yield Schedule(
            name,
            "rq",
            str(told.get("queue_name") or ""),
            str(cron) if cron else f"every {interval} s" if interval else "",
            pickles.call_text(function, _loaded(told.get("args")), _loaded(told.get("kwargs")), _LONGEST_CALL),
            _instant_ms(str(told.get("next_enqueue_time") or "")),
            last_ms if last_ms is not None else enqueued.get(to_bytes(name)),
            owner,
            is_there,
            problem if function else problem or "its scheduler wrote what is no job",
        )


def _loaded(value: object) -> object:
    """Arguments of a cron job, JSON in JSON; what RQ could not write as JSON is told by its own words."""
    try:
        return json.loads(value) if isinstance(value, str) else ()
    except (ValueError, RecursionError):
        return [pickles.Name("", str(value))]


_TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")
_SINCE = frozenset({"deferred", "ready_to_enqueue", "canceled"})  # places whose scores say since when
_FORGOTTEN = frozenset({"finished", "failed"})  # and until when
_MAY_BE_INFINITE = frozenset({"finished", "failed", "deferred"})  # in RQ 2 who is deferred has no time
_SOON_MS = 86_400_000  # a failure is kept for a year, if nobody says otherwise
_GHOST = "its hash is gone: it counts, and nothing is known of it but its id"
_FORGOTTEN_ID = "its time is over, and its hash is gone: RQ's next clean-up takes the id away"
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")


def _standing(places: Sequence[str], status: str) -> Iterator[str]:
    """What is wrong with where a job stands."""
    if len(places) > 1:
        yield f"it stands in {' and in '.join(places)}"
    elif not places and status == "rate_limited":
        yield "it waits for its rate limit: it stands in no place of the queue until it may run"
    elif not places:
        yield f"its status is {status or 'missing'}, and it stands in no place of the queue: no worker will find it"


# -- what the bytes hold -----------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """A function and a call of it, or why neither is known."""

    name: str = ""
    call: str = ""
    problem: str = ""


NOTHING = _Read()


@lru_cache(maxsize=2000)
def _read(data: bytes, most: int) -> _Read:
    """The call in `data`; pages ask for the same jobs at every tick."""
    try:
        value = _value(data, most)
    except ValueError as error:
        return _Read(problem=f"{error}: it is shown as bytes")
    parts: Sequence[object] = value if isinstance(value, list | tuple) else ()
    if len(parts) != 4 or not isinstance(parts[0], str):
        return _Read(problem=f"its data is no call of RQ: {pickles.shown(value, 100)}")
    function, instance, args, kwargs = parts
    if instance is not None:
        function = f"{pickles.shown(instance, 200)}.{function}"
    return _Read(parts[0], pickles.call_text(str(function), args, kwargs, _LONGEST_CALL))


def _value(data: bytes, most: int) -> object:
    """What bytes of zlib, of a pickle or of JSON hold. Raises ValueError for what none of them is, and for too much."""
    inner = inflated(data, most) or data
    if len(inner) > most:
        raise ValueError(f"its data inflates to more than {most // 1024} kB, which is not read")
    if inner[:1] == b"\x80":
        try:
            return pickles.read(inner)
        except ValueError:
            raise ValueError("its data is no pickle that can be read") from None
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        raise ValueError("its data is neither a pickle nor JSON") from None


def _text(value: bytes) -> str:
    """A value of meta or of a result as JSON; what is neither pickle nor JSON as text."""
    try:
        return json.dumps(pickles.plain(_value(value, pickles.MOST_BYTES)), ensure_ascii=False)
    except ValueError:
        return to_text(value)


def _error(raw: bytes) -> str:
    """An error as it was raised, from zlib, with or without base64 around it; of a long one the beginning."""
    if not raw:
        return ""
    if raw[:1] != b"\x78":
        try:
            raw = base64.b64decode(raw[: len(raw) // 4 * 4], validate=True)
        except binascii.Error:
            return to_text(raw)
    return (inflated(raw, pickles.MOST_BYTES) or raw).decode("utf-8", "replace")


def _instant_ms(text: str) -> int | None:
    """A time of RQ's hashes; None where it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _score_ms(score: str) -> int | None:
    """A score, or a time of an execution, in ms; None for what is no time."""
    seconds = _seconds(score)
    return round(seconds * 1000) if seconds is not None and seconds >= 0 else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and abs(seconds) < _LATEST_S else None


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


# -- new jobs ----------------------------------------------------------------------------------------------------------

_SERIALIZERS: Mapping[str, Callable[[object], bytes]] = {  # rq/serializers.py 3.0
    "pickle": pickled,
    "json": lambda value: json.dumps(value).encode(),
}
_ABANDONED = base64.b64encode(
    zlib.compress(b"Moved to failed, due to AbandonedJobError: its worker died (found by rqtui)")
)
_HOW = 'a job is written as {"func": "tasks.add", "args": [1, 2], "kwargs": {}}'
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")  # RQ imports it: a module, and a name in it
_COLUMNS = {"timeout": "ttr_ms", "result_ttl": "keep_ms", "failure_ttl": "failure_ttl_ms", "ttl": "ttl_ms"}
_KNOWN = ("func", "args", "kwargs", *_COLUMNS, "retry", "retry_intervals", "description", "meta", "at_front")


def _serializer_of(data: bytes) -> str:
    return "pickle" if (inflated(data, 1) or data)[:1] == b"\x80" else "json"


def _made(body: bytes, serializer: str) -> dict[str, Any]:
    """The columns of `enqueue` for a job that a person wrote in JSON, or for `data` as it stands in a hash."""
    if inflated(body, 1):
        return {"body": body, "description": _read(body, _READ_BYTES).call}
    job = _written_job(body)
    function, args, kwargs = job["func"], job.get("args", []), job.get("kwargs", {})
    made: dict[str, Any] = {"description": pickles.call_text(function, args, kwargs, _LONGEST_CALL)}
    made |= {column: _lasting_ms(name, job[name]) for name, column in _COLUMNS.items() if name in job}
    made |= {name: job[name] for name in ("description", "at_front") if name in job}
    if "retry" in job:
        made["max_attempts"] = job["retry"] + 1
    if "retry_intervals" in job:
        made["retry_intervals"] = json.dumps(job["retry_intervals"])
    write = _SERIALIZERS[serializer]
    try:
        parts = (function, None, tuple(args) if serializer == "pickle" else args, kwargs)
        made["body"] = zlib.compress(write(parts))
        if "meta" in job:
            made["meta"] = write(job["meta"])
    except (RecursionError, UnicodeEncodeError):
        raise UsageError("rq: the arguments are nested too deeply.") from None
    return made


def _written_job(body: bytes) -> dict[str, Any]:
    """A job in JSON with its fields checked. Raises UsageError, which says how one is written."""
    try:
        job = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"rq: this body is no JSON; {_HOW}.") from None
    if not isinstance(job, dict) or not isinstance(job.get("func"), str):
        raise UsageError(f"rq: this body names no function; {_HOW}.")
    if not _FUNCTION.fullmatch(job["func"]):
        raise UsageError(f'rq: a function is named with its module, as in "tasks.add", not {job["func"]!r:.60}.')
    if unknown := [name for name in job if name not in _KNOWN]:
        raise UsageError(f'rq: a job has no "{unknown[0]:.40}"; it has {", ".join(_KNOWN)}.')
    for name, (fits, what) in _FITTING.items():
        if name in job and not fits(job[name]):
            raise UsageError(f"rq: {name} is {what}, not {job[name]!r:.60}.")
    return job


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000


_FITTING: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "args": (lambda value: isinstance(value, list), "a list"),
    "kwargs": (lambda value: isinstance(value, dict), "an object"),
    "meta": (lambda value: isinstance(value, dict), "an object"),
    "description": (lambda value: isinstance(value, str), "a text"),
    "at_front": (lambda value: isinstance(value, bool), "true or false"),
    "retry": (_is_number, "how often it is tried again"),
    "retry_intervals": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_number, value)),
        "a list of whole seconds",
    ),
}


def _lasting_ms(name: str, value: object) -> int:
    """A time in seconds, or as a person writes one (`1h`), in ms; -1, for ever, stays. Raises UsageError."""
    lasting_ms = -1 if value == -1 else durations.parse(value, name)  # type: ignore[arg-type]  # it refuses what is none
    _refuse_times({_COLUMNS[name]: lasting_ms})
    return lasting_ms


def _refuse_times(row: Mapping[str, object]) -> None:
    """Raises UsageError for a time to run or to live that RQ itself refuses (rq/queue.py 3.0, `create_job`)."""
    if row.get("ttr_ms") == 0:
        raise UsageError("rq: timeout is longer than 0; -1 lets a job run for ever.")
    if row.get("ttl_ms") in (0, -1):
        raise UsageError("rq: ttl is longer than 0; a job without one waits for ever.")


# -- all about one job -------------------------------------------------------------------------------------------------

_FAILED, _STOPPED = "2", "3"
_RETRIES_LEFT = "retries left"  # the name of a fact
_LONG = 65_536  # bytes of a field of a result: what is longer is cut
_DURATIONS = ("result_ttl", "failure_ttl")
_HIDDEN = frozenset({"meta", "dependency_ids", "dependency_id", "result", "last_heartbeat", *_DURATIONS})


def _records(more: Sequence[Mapping[str, Any]], kind: str) -> dict[bytes, dict[str, bytes]]:
    """The rows of a kind, as records by what they are of, in their order."""
    found: dict[bytes, dict[str, bytes]] = {}
    for row in more:
        if row["kind"] == kind:
            found.setdefault(row["of"], {})[to_text(row["name"])] = row["value"]
    return found


def _history(more: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """The runs that failed, the oldest first; RQ keeps the ends of ten, and of those that it tried again none."""
    runs = []
    for id, told in _records(more, "result").items():
        if to_text(told.get("type", b"")) in (_FAILED, _STOPPED):
            kept_ms = int(id.partition(b"-")[0])
            end_ms = _score_ms(to_text(told.get("execution_ended_at", b""))) or kept_ms
            start_ms = _score_ms(to_text(told.get("execution_started_at", b""))) or end_ms
            runs.append(
                Attempt(start_ms, end_ms, to_text(told.get("worker_name", b"")), _error(told.get("exc_string", b"")))
            )
    return tuple(runs)


def _facts(
    job: Job, row: Mapping[str, Any], description: str, more: Sequence[Mapping[str, Any]] | None
) -> Iterator[Fact]:
    """What RQ knows of a job and other systems do not, in the order in which a person asks for it."""
    if row["status"] and _PLACE_OF.get(row["status"], row["status"]) != job.place or row["status"] == "stopped":
        yield Fact("status", row["status"])
    if description and description != job.call:
        yield Fact("description", description)
    if row["retries_left"]:
        yield Fact(_RETRIES_LEFT, row["retries_left"])
    if row["rate_limit_key"]:
        yield Fact("rate limit", row["rate_limit_key"])
    for name, value in (("last beat", row["beat"]), ("seen by maintenance", row["seen"])):
        if (at_ms := _score_ms(value)) is not None:
            yield Fact(name, at_ms, "instant")
    if more is None:
        return
    fields = _records(more, "field").get(b"", {})
    for told in reversed(_records(more, "result").values()):
        if len(told.get("return_value", b"")) >= _LONG:
            yield Fact("result", f"longer than {_LONG // 1024} kB")
            break
        if "return_value" in told:
            yield Fact("result", _result(told["return_value"]), "json")
            break
    else:
        if fields.get("result"):
            yield Fact("result", _text(fields["result"]), "json")
    if fields.get("meta"):
        yield Fact("meta", _text(fields["meta"]), "json")
    for kind, label in (("dependency", "depends on"), ("dependent", "dependent")):
        for id, told in _records(more, kind).items():
            origin = to_text(told["origin"])
            yield Fact(label, id, "ref", "" if origin == job.queue else origin)
    for id, told in _records(more, "execution").items():
        beat_ms = _score_ms(to_text(told.get("last_heartbeat", b"")))
        yield Fact(
            "execution", f"{to_text(id)} by {to_text(told.get('worker_name', b'')) or 'a worker without a name'}"
        )
        if beat_ms is not None and not row["beat"]:
            yield Fact("last beat", beat_ms, "instant")
    for name, text in (
        ("timeout", row["timeout"]),
        ("ttl", row["ttl"]),
        *((n, to_text(fields.get(n, b""))) for n in _DURATIONS),
    ):
        seconds = _whole(text)
        if seconds is not None:
            label = name.replace("_", " ")
            yield Fact(label, seconds * 1000, "duration") if seconds >= 0 else Fact(label, "for ever")
    if job.place in _FORGOTTEN:
        until_ms = _score_ms(row["score"])
        yield Fact("forgotten", until_ms, "instant") if until_ms is not None else Fact("forgotten", "never")
    elif row["left_ms"] >= 0:
        yield Fact("hash vanishes", row["now_ms"] + row["left_ms"], "instant")
    for name, length in _records(more, "long").get(b"", {}).items():
        yield Fact(name.replace("_", " "), f"{to_text(length)} bytes: too long to be shown")
    for name, value in fields.items():
        if value and name not in _HIDDEN:
            at_ms = _instant_ms(to_text(value)) if name.endswith(("_at", "heartbeat")) else None
            label = name.replace("_", " ")
            yield Fact(label, to_text(value)) if at_ms is None else Fact(label, at_ms, "instant")


def _result(raw: bytes) -> str:
    """What a run returned, as JSON."""
    try:
        return _text(base64.b64decode(raw, validate=True))
    except binascii.Error:
        return to_text(raw)
