"""Read and change RQ queues (Redis Queue, Python, `rq/rq` 2.6 and 3.0).

RQ has a list per queue, a sorted set per outcome and a hash per job. LIST `rq:queue:<q>` of ids, RPUSH in;
`…:intermediate` between queue and start. ZSETs of ids: `rq:scheduled:<q>` by due time, `deferred`, `ready` (3.0) and
`canceled` by the time of entry, `finished` and `failed` by the time of deletion; `rq:wip:<q>` of `<id>:<execution>` by
deadline. Scores are seconds, times in hashes have the form `2026-11-22T04:43:55.938008Z`. In the HASH `rq:job:<id>`,
`data` is zlib of a pickle (or JSON) of (function, instance, args, kwargs). STREAM `rq:results:<id>`: type 1 returned,
2 failed, 3 stopped, 4 and 5 asked for a retry. `rq` is the prefix; RQ 3.0 allows any. Decoded data is never executed.
Operators' page: `docs/systems/rq.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from rqtui import durations
from rqtui.errors import UsageError
from rqtui.model import (
    MAX_BACKOFF_MS,
    Attempt,
    Fact,
    Job,
    MigrationTerms,
    Place,
    Queue,
    Schedule,
    State,
    Worker,
    WorkerList,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.foreign_system import ForeignSystem, build_facts, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.option_values import accept_listed_words, accept_pattern_values
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text import pickles
from rqtui.text.body import decompress_zlib
from rqtui.text.names import to_bytes, to_text
from rqtui.text.pickling import write_pickle
from rqtui.text.sanitise import safe

WORKERS_PER_CALL = 150
MIN_WORKERS, MAX_WORKERS = 600, 20_000  # workers of a queue that are read: before their number is known, and at most
_READ_BYTES = 64 * 1024  # of inflated `data` per job of a page; for a single job `pickles.MOST_BYTES`
_MAX_CALL_LENGTH = 1000  # characters
_MAX_SCANNED_QUEUES = 10_000  # names scanned for one queue, in one step
_NO_DATA, _NO_HASH, _NOT_A_HASH = -1, -2, -3
_MAX_SECONDS = 1e11  # scores from the year 5138 on are no seconds
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


class Rq(ForeignSystem):
    """RQ queues (Redis Queue for Python) with one key prefix."""

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
        Place("canceled", State.DEAD, "<prefix>:canceled:<queue>", "zset", "since s", has_failures=False),
    )
    defaults = {"prefix": "rq", "serializer": "auto"}
    option_values = {
        "prefix": accept_pattern_values(r"[A-Za-z0-9_.:{}-]+", "letters, digits and _.:-{}"),  # rq/defaults.py 3.0
        "serializer": accept_listed_words("auto", "pickle", "json"),
    }
    shared_option = "prefix"
    unmigrated_places = {
        "deferred": "it waits for other jobs: move the queue again when they are done",
        "ready_to_enqueue": "RQ is about to enqueue it: move the queue again then",
        "canceled": "it was canceled, so no worker runs it",
    }
    queue_names_key = "rq:queues"
    can_find_by_id = True
    known_fields = frozenset({"name", "error", "worker"})
    finding_remedies = {
        "no-live-worker": "start one: rq worker {queue}",
        "oldest-ready": "add workers: rq worker {queue}",
        "backlog-grows": "add workers: rq worker {queue}",
        "overtaken": "start a worker that lists {queue} first: rq worker {queue}",
        "schedule-stopped": "start its scheduler again: rq cron CONFIG.py",
        "due-not-dispatched": "",
        "expired-not-reaped": "",
    }
    has_json_bodies = True
    shares_workers = True
    has_ordered_queues = True
    checks_schedules = True
    jobs_per_page_call = 25
    jobs_per_call = 100  # a job is a hash, two sets and a place: 500 blocked the server for 20 ms
    body_template = '{"func": "module.function", "args": [], "kwargs": {}}'
    verb_labels = {"kill": "cancel", "cancel": "stop"}
    verb_effects = {
        "pause": "no worker takes a job of any queue of this RQ until it is resumed; started jobs continue",
        "resume": "workers take jobs of all queues of this RQ again, at once",
        "kill": "no worker runs them until they are requeued; jobs that depend on one of them stay deferred",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.queue_names_key = f"{self.prefix}:queues"
        self.works_on_cluster = (
            re.search(r"\{[^}]+\}", self.prefix) is not None
        )  # a hash tag puts all keys into one slot
        self._worker_counts: dict[str, int] = {}  # by queue: the workers of the last poll, which size the next request
        self._serializers: dict[str, str] = {}  # by queue: the serializer of its last decoded job

    @property
    def prefix(self) -> str:
        """The prefix of all RQ keys, `rq` by default."""
        return self.options["prefix"]

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue's places and of RQ's other data, by the names that the scripts use.

        Raises UsageError for an empty queue name.
        """
        if not queue:
            raise UsageError("rq: a queue has a name.")
        prefix = self.prefix
        places = {p.name: p.key.replace("<prefix>", prefix).replace("<queue>", queue) for p in self.places}
        return {
            **places,
            "queues": self.queue_names_key,
            "suspended": f"{prefix}:suspended",
            "workers": f"{prefix}:workers:{queue}",
            "lock": f"{prefix}:scheduler-lock:{queue}",
            "cron_schedulers": f"{prefix}:cron_schedulers",
            "cron_jobs": f"{prefix}:cron_jobs",
            "scheduled_jobs": f"{prefix}:scheduler:scheduled_jobs",
            "commands": f"{prefix}:pubsub:",
        }

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queue names in `rq:queues`, one batch per round trip."""
        cursor, first = 0, to_bytes(f"{self.prefix}:queue:")
        while True:
            cursor, found = client.sscan(to_bytes(self.queue_names_key), cursor=cursor, count=1000)
            yield [to_text(key[len(first) :]) for key in found if key.startswith(first) and key != first]
            if cursor == 0:
                break

    def marker_keys(self) -> Sequence[str]:
        """Return the key of the queue names, which exists wherever RQ is used."""
        return (self.queue_names_key,)

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a queue is in `rq:queues` or has jobs in one of its places."""
        keys = self.keys(queue)
        pipe = client.pipeline(transaction=False)
        pipe.exists(*(to_bytes(keys[place.name]) for place in self.places))
        pattern = re.sub(rb"([*?\[\]\\^-])", rb"\\\1", to_bytes(keys["queued"]))
        pipe.sscan(to_bytes(keys["queues"]), 0, match=pattern, count=_MAX_SCANNED_QUEUES)
        existing_keys, matches = pipe.execute(raise_on_error=False)
        return (isinstance(existing_keys, int) and existing_keys > 0) or (
            not isinstance(matches, Exception) and bool(matches[1])
        )

    def learn_job_format(self, client: Any, queue: str) -> None:
        """Detect from one job each of four places whether a queue's jobs are pickles or JSON.

        Skipped if an option sets the serializer or an earlier job showed it.
        """
        if self.options["serializer"] != "auto" or queue in self._serializers:
            return
        requests = [self.page_request(queue, place, 0, 1, 0) for place in ("queued", "scheduled", "failed", "finished")]
        replies = scripts.send_calls(client, [call for request in requests for call in request.calls])
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(reply, Reply):
                request.parse([reply])

    # -- workers and schedules ------------------------------------------------------------------------------------

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for all workers registered for a queue. Dead workers are returned without a heartbeat."""
        max_workers = min(MAX_WORKERS, max(MIN_WORKERS, self._worker_counts.get(queue, 0)))
        calls = tuple(
            self.build_call("roster", queue, {"offset": offset, "limit": min(WORKERS_PER_CALL, max_workers - offset)})
            for offset in range(0, max_workers, WORKERS_PER_CALL)
        )

        def parse_workers(replies: Replies) -> tuple[Worker, ...]:
            workers_by_name: dict[str, Worker] = {}
            total = 0
            for reply in map(unwrap_reply, replies):
                now_ms, total = reply.values["now_ms"], reply.values["total"]
                workers = (_build_worker(queue, row, now_ms) for row in convert_rows_to_dicts(reply))
                workers_by_name.update((worker.name, worker) for worker in workers)
            self._worker_counts[queue] = total
            note = describe_unread_rest(min(max_workers, total), total, f"workers of {queue}")
            return WorkerList((workers_by_name[name] for name in sorted(workers_by_name)), note)

        return Request(calls, parse_workers)

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        counted = super()._parse_queue(queue, reply)
        if counted.workers is not None:
            self._worker_counts[queue] = counted.workers
        return counted

    def schedules_request(self) -> Request[tuple[Schedule, ...]]:
        """Build the request for the recurring jobs of all cron schedulers."""
        script = self.scripts["schedules"]
        keys = {name: key for name, key in self.keys("any").items() if name in {key.name for key in script.keys}}
        call = script.build_call(keys, {"prefix": self.prefix})

        def parse_schedules(replies: Replies) -> tuple[Schedule, ...]:
            reply = unwrap_reply(replies[0])
            schedules = _build_schedules(convert_rows_to_dicts(reply), reply.values["now_ms"])
            return tuple(schedule._replace(system=self.name) for schedule in schedules)

        return Request((call,), parse_schedules)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job with the history of its runs."""
        call = self.build_call("show", queue, {"queue": queue, "id": id, "body_bytes": body_bytes})
        return Request((call,), lambda replies: self._parse_job(queue, replies[0]))

    def _parse_job(self, queue: str, reply: Reply | Exception) -> Job | None:
        reply = unwrap_reply(reply)
        if reply.word == "gone":
            return None
        row = {**reply.values, "more": convert_rows_to_dicts(reply)}
        place = row["place"] or _PLACE_OF.get(row["status"], "canceled")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page`, or from a row with the table `more` of `show`, which has further facts."""
        details: Sequence[Mapping[str, Any]] | None = row.get("more")
        size, data, place_of_job = row["size"], row["data"], self.place(place)
        decoded = self._decode_job_call(queue, row, _READ_BYTES if details is None else pickles.MOST_BYTES)
        times = {field: _parse_time_ms(row[field]) for field in _TIMES}
        score_ms = _convert_score_ms(row["score"])
        error = _decode_error(row["error"])
        history = _parse_failed_runs(details or ())
        problems = (*self._find_job_problems(queue, place_of_job, row, now_ms), decoded.problem)
        return Job(
            id=row["id"],
            queue=queue,
            system=self.name,
            place=place_of_job.name,
            state=place_of_job.state,
            member=row["member"],
            name=decoded.name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=times["enqueued_at"] if times["enqueued_at"] is not None else times["created_at"],
            due_ms=score_ms if place_of_job.name == "scheduled" else None,
            deadline_ms=score_ms if place_of_job.name == "started" else None,
            reserved_ms=times["started_at"] if place_of_job.state in (State.RESERVED, State.DONE) else None,
            since_ms=_find_place_entry_ms(place_of_job.name, times, score_ms),
            ttr_ms=max(0, _parse_int(row["timeout"]) or 0) * 1000 or None,
            worker=row["runner"] or row["worker_name"],
            error=error or (history[-1].error if history and place_of_job.state is State.DEAD else ""),
            history=history,
            problem=safe("; ".join(filter(None, problems))),
            call=decoded.call,
            facts=tuple(_build_job_facts(queue, place_of_job.name, decoded.call, row)),
            ended_ms=times["ended_at"] if place_of_job.state is State.DONE else None,
            waited_ms=_compute_span_ms(times["started_at"], times["enqueued_at"])
            if place_of_job.state in _STARTED
            else None,
            ran_ms=_compute_span_ms(times["ended_at"], times["started_at"]) if place_of_job.state in _ENDED else None,
        )

    def _decode_job_call(self, queue: str, row: Mapping[str, Any], most_bytes: int) -> _DecodedCall:
        """Decode the call of a job from its data; without data from its description, which RQ writes as a call."""
        data = row["data"]
        decoded = _decode_call(data, most_bytes) if data else _DecodedCall()
        if decoded.name and queue not in self._serializers:
            self._serializers[queue] = _detect_serializer(data)
        if (
            not decoded.name
            and not decoded.problem
            and (match := _CALL.match(description := to_text(row["description"])))
        ):
            return _DecodedCall(match[1], description)
        return decoded

    def _find_job_problems(self, queue: str, place: Place, row: Mapping[str, Any], now_ms: int) -> Iterator[str]:
        """Yield a sentence for each problem of a job, such as a missing hash or an invalid time."""
        size = row["size"]
        if size == _NOT_A_HASH:
            key = f"{self.prefix}:job:{to_text(row['id'])}"
            yield f"its key {key} holds what is no hash: another program uses this name"
            return
        if size == _NO_HASH:
            is_forgotten = place.name in _FORGOTTEN and (_convert_score_ms(row["score"]) or now_ms) <= now_ms
            yield _FORGOTTEN_ID if is_forgotten else _GHOST
            return
        if size == _NO_DATA:
            yield "its hash has no data: no worker can run it"
        yield from _describe_wrong_times(place.name, row)
        if "places" in row:
            yield from _describe_wrong_places(row["places"].split(), row["status"])
        if row["origin"] and row["origin"] != queue:
            yield f"its hash says that it is of the queue {row['origin']}"
        if place.state in (State.READY, State.SCHEDULED) and 0 <= row["left_ms"] < _SOON_MS and not row["ttl"]:
            left_s = row["left_ms"] // 1000
            yield f"its hash vanishes in {left_s} s, run or not: a requeue left the time to live of its failure"

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the remaining retries and the backoff of a job, for a move to the native queue.

        A job with dependents is refused, because these would wait for ever.
        """
        facts = {fact.name.replace(" ", "_"): str(fact.value) for fact in job.facts}
        retries_left = max(0, _parse_int(facts.get("retries_left", "")) or 0)
        attempts = (_parse_int(facts.get("number_of_retries", "")) or 0) + (job.state is State.DEAD)
        backoff_ms, cap_ms, backoff_loss = _compute_native_backoff(
            _parse_retry_intervals(facts.get("retry_intervals", "")), retries_left, attempts
        )
        losses = [backoff_loss] if backoff_loss else []
        losses += [f"its {_FOLLOW_UPS[name]} would not happen" for name in _FOLLOW_UPS if facts.get(name)]
        if "ttl" in facts and facts["ttl"] != "for ever":
            losses.append("it would run however late, though it has a time to live in the queue")
        obstacle = ""
        if "dependent" in facts:
            obstacle = "other jobs wait for it: they would wait for ever"
        elif "rate_limit" in facts:
            obstacle = "it counts for a rate limit, which RQ keeps"
        return MigrationTerms(
            attempts,
            attempts + retries_left + (job.state is not State.DEAD),
            backoff_ms,
            cap_ms,
            tuple(losses),
            obstacle,
        )

    # -- verbs ----------------------------------------------------------------------------------------------------

    def find_target_places(self, name: str, job: Job) -> tuple[str, ...]:
        """Return the places that a verb may move a job to.

        A reaped job with retries left may be scheduled instead of queued, which pages of jobs do not show.
        """
        places = super().find_target_places(name, job)
        return ("queued", "scheduled") if name == "reap" and places == ("queued",) else places

    def has_no_attempts_left(self, job: Job) -> bool:
        """Return whether a job has no retries left, so that it fails if its worker is lost."""
        left = next((fact.value for fact in job.facts if fact.name == _RETRIES_LEFT), "")
        return not (_parse_int(str(left)) or 0) > 0

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script. `reap` also gets the error text that it stores with jobs that fail."""
        all_args = {"exc_string": _ABANDONED, **args} if name == "reap" else args
        return super().build_call(name, queue, all_args, rows)

    def encode_body(self, body: bytes) -> bytes:
        """Encode a job written as JSON as pickled `data`, or return `data` as it is. Raises UsageError."""
        return bytes(_build_enqueue_columns(body, "pickle")["body"])

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job such as `{"func": "tasks.add", "args": [1, 2]}`.

        Columns given in `row` take precedence. Raises UsageError for invalid fields.
        """
        option = self.options["serializer"]
        serializer = self._serializers.get(queue, "pickle") if option == "auto" else option
        columns = _build_enqueue_columns(bytes(row["body"]), serializer)  # type: ignore[call-overload]
        own = {name: value for name, value in row.items() if value not in (None, "")}
        _check_job_durations(own)
        return {**columns, **own, "body": columns["body"]}


SYSTEM = Rq


def _build_worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker:
    """Build a worker from its row. Its heartbeat is valid until RQ considers the worker dead."""
    heartbeat_ms = _parse_time_ms(row["last_heartbeat"]) or 0
    is_registered = row["left_ms"] != _GONE and not row["death"]
    job_id = to_text(row["execution"]).partition(":")[0] or to_text(row["current_job"])
    queues = tuple(filter(None, row["queues"].split(",")))
    state = row["state"] if is_registered else "gone"
    worked_s = _parse_seconds(row["total_working_time"])
    python = row["python_version"].partition(" ")[0]
    facts = build_facts(
        (
            ("successful jobs", row["successful_job_count"], "text"),
            ("failed jobs", row["failed_job_count"], "text"),
            ("runs", str(row["executions"]) if row["executions"] > 1 else "", "text"),
            ("worked for", None if worked_s is None else round(1000 * worked_s), "duration"),
            ("version", f"RQ {row['version']}, Python {python}" if row["version"] else "", "text"),
        )
    )
    return Worker(
        to_text(row["worker"]),
        queue,
        heartbeat_ms if is_registered else 0,
        max(1, now_ms + row["left_ms"] - heartbeat_ms) if is_registered and row["left_ms"] >= 0 else _BUSY_TTL_MS,
        "stop" if row["shutdown_requested_date"] else "run",
        row["pid"],
        row["hostname"],
        _parse_time_ms(row["birth"]),
        to_bytes(job_id),
        queues,
        state,
        tuple(facts),
    )


_GONE = -2  # PTTL of a missing key
_BUSY_TTL_MS = 90_000  # rq/worker: job_monitoring_interval + 60 s, while it runs a job


_LATE_MS = 150_000  # rq_scheduler/scheduler.py 0.14: it looks every 60 s, unless it was started with another interval


def _build_schedules(rows: Sequence[Mapping[str, Any]], now_ms: int) -> tuple[Schedule, ...]:
    """Build a schedule for each job of each cron scheduler. A job of several schedulers gets a problem.

    Of a dead scheduler whose record expired, only the names and last runs of its jobs are left.
    """
    enqueued = {row["name"]: _convert_score_ms(row["at_s"]) for row in rows if row["kind"] == "enqueued"}
    schedules: list[Schedule] = []
    for row in rows:
        if row["kind"] == "scheduler":
            schedules += _build_schedules_of_scheduler(row, enqueued, now_ms)
        elif row["kind"] == "scheduled":
            schedules.append(_parse_scheduled_job(row, now_ms))
    schedulers_by_schedule = Counter(
        (schedule.name, schedule.queue, schedule.call, schedule.pattern) for schedule in schedules if schedule.enabled
    )
    names = {each.name for each in schedules}
    if any(row["kind"] == "scheduler" and row["left_ms"] == _GONE for row in rows):
        schedules += (
            Schedule(
                name,
                "rq",
                to_text(row["origin"]),
                "",
                last_ms=_convert_score_ms(row["at_s"]),
                enabled=False,
                problem=_DEAD_SCHEDULER,
            )
            for row in rows
            if row["kind"] == "enqueued" and (name := to_text(row["name"])) not in names
        )
    return tuple(
        schedule._replace(problem=f"{scheduler_count} schedulers enqueue it, each of them")
        if schedule.enabled
        and not schedule.problem
        and (scheduler_count := schedulers_by_schedule[schedule.name, schedule.queue, schedule.call, schedule.pattern])
        > 1
        else schedule
        for schedule in schedules
    )


_DEAD_SCHEDULER = "its scheduler died: it is enqueued no more"
_LATE_SCHEDULER = "its scheduler does not enqueue it: it hangs or died"
_SCHEDULER_SILENT_MS = 75_000  # a scheduler sends a heartbeat at least every minute
_SCHEDULER_LATE_MS = 4_000  # a scheduler wakes when a run is due


def _build_schedules_of_scheduler(
    row: Mapping[str, Any], enqueued: Mapping[bytes, int | None], now_ms: int
) -> Iterator[Schedule]:
    """Yield the schedules of one cron scheduler, as the scheduler stored them in Redis."""
    owner = to_text(row["name"])  # by default host:pid:…
    if row["pid"] not in owner:
        owner += f" {row['pid']}@{row['hostname']}"
    beat_ms = _convert_score_ms(row["at_s"])
    is_registered = row["left_ms"] != _GONE and (beat_ms is None or now_ms - beat_ms < _SCHEDULER_SILENT_MS)
    problem = "" if is_registered else _DEAD_SCHEDULER
    try:
        jobs = json.loads(row["jobs"]) if row["jobs"] else None
    except (ValueError, RecursionError):
        jobs = None
    if not isinstance(jobs, list):
        problem = problem or "its scheduler does not say what it enqueues: RQ does so from 3.0 on"
        yield Schedule(to_text(row["name"]), "rq", "", "", owner=owner, enabled=is_registered, problem=problem)
        return
    for job in jobs:
        fields = {str(name): value for name, value in job.items()} if isinstance(job, dict) else {}
        function = str(fields.get("func_name") or "")
        name = str(fields.get("name") or function)
        interval, cron = fields.get("interval"), fields.get("cron")
        next_ms = _parse_time_ms(str(fields.get("next_enqueue_time") or ""))
        is_late = next_ms is not None and now_ms - next_ms > _SCHEDULER_LATE_MS
        last_ms = _parse_time_ms(str(fields.get("latest_enqueue_time") or ""))
        yield Schedule(
            name,
            "rq",
            str(fields.get("queue_name") or ""),
            str(cron) if cron else f"every {interval} s" if interval else "",
            pickles.format_function_call(
                function,
                _parse_cron_arguments(fields.get("args")),
                _parse_cron_arguments(fields.get("kwargs")),
                _MAX_CALL_LENGTH,
            ),
            next_ms,
            last_ms if last_ms is not None else enqueued.get(to_bytes(name)),
            owner,
            is_registered,
            problem
            or ("" if function else "its scheduler wrote what is no job")
            or (_LATE_SCHEDULER if is_late else ""),
        )


def _parse_scheduled_job(row: Mapping[str, Any], now_ms: int) -> Schedule:
    """Build the schedule of a job of rq-scheduler 0.14: the job itself is enqueued again and again, or once.

    Its `meta` has `interval` (s) or `cron_string`, and `repeat`, the number of runs that are left.
    """
    try:
        meta = pickles.convert_to_json_types(_decode_stored_value(row["meta"], _READ_BYTES)) if row["meta"] else {}
    except ValueError:
        meta = None
    settings = meta if isinstance(meta, dict) else {}
    interval, cron, repeat = (settings.get(name) for name in ("interval", "cron_string", "repeat"))
    is_missing = row["left_ms"] == _GONE
    once = "" if meta is None or is_missing else "once"
    pattern = f"every {interval} s" if interval else str(cron) if cron else once
    pattern += f", {repeat} more times" if isinstance(repeat, int) and pattern not in ("", "once") else ""
    next_ms = _convert_score_ms(row["at_s"])
    problem = ""
    if is_missing:
        problem = "its job is missing: rq-scheduler drops it"
    elif meta is None:
        problem = "its meta cannot be read: when it runs again is unknown"
    elif next_ms is not None and next_ms < now_ms - _LATE_MS:
        problem = "it is overdue: no rq-scheduler seems to run"
    return Schedule(
        to_text(row["name"]),
        "rq",
        to_text(row["origin"]),
        pattern,
        to_text(row["description"]),
        next_ms,
        problem=problem,
    )


def _parse_cron_arguments(value: object) -> object:
    """Parse the arguments of a cron job, which are JSON inside JSON.

    Text that is no JSON is returned as one plain value.
    """
    try:
        return json.loads(value) if isinstance(value, str) else ()
    except (ValueError, RecursionError):
        return [pickles.Name("", str(value))]


_TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")
_SINCE = frozenset({"deferred", "ready_to_enqueue", "canceled"})  # places whose score is the time of entry
_SINCE_FIELDS = {"queued": "enqueued_at", "finished": "ended_at", "failed": "ended_at"}
_FORGOTTEN = frozenset({"finished", "failed"})  # places whose score is the time of deletion
_MAY_BE_INFINITE = frozenset({"finished", "failed", "deferred"})  # RQ 2 stores deferred jobs without a time
_SOON_MS = 86_400_000  # RQ keeps failures for a year by default
_GHOST = "its hash is missing: it is counted, and only its id is known"
_FORGOTTEN_ID = "its time is over and its hash is missing: the next clean-up of RQ removes the id"
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")


_ENDED = (State.DONE, State.DEAD)
_STARTED = (State.RESERVED, *_ENDED)


def _compute_span_ms(end_ms: int | None, begin_ms: int | None) -> int | None:
    """Return the time in ms between two times of a job; None if one is missing, or if they are of different runs."""
    return end_ms - begin_ms if end_ms is not None and begin_ms is not None and end_ms >= begin_ms else None


def _find_place_entry_ms(place: str, times: Mapping[str, int | None], score_ms: int | None) -> int | None:
    """Return since when a job is in its place; None if RQ stores no such time."""
    if place in _SINCE:
        return times["created_at"] if score_ms is None else score_ms
    return times.get(_SINCE_FIELDS.get(place, ""))


def _describe_wrong_times(place: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each invalid time or score of a job."""
    invalid_times = [name for name in _TIMES if row[name] and _parse_time_ms(row[name]) is None]
    if invalid_times:
        yield f"{invalid_times[0]} is no time: {row[invalid_times[0]][:40]!r}"
    is_endless = place in _MAY_BE_INFINITE and row["score"] == "inf"
    if row["score"] and _convert_score_ms(row["score"]) is None and not is_endless:
        yield f"its score {row['score']} is no time in seconds"


def _describe_wrong_places(places: Sequence[str], status: str) -> Iterator[str]:
    """Yield a sentence if a job is in several places at once, or in none."""
    if len(places) > 1:
        yield f"it is in {' and in '.join(places)}"
    elif not places and status == "rate_limited":
        yield "it waits for its rate limit, and is in no place of the queue until it may run"
    elif not places:
        yield f"its status is {status or 'missing'}, and it is in no place of the queue: no worker will find it"


# -- decoding job data -------------------------------------------------------------------------------------------------


class _DecodedCall(NamedTuple):
    """The function and the call decoded from a job's data, or the problem that prevented it."""

    name: str = ""
    call: str = ""
    problem: str = ""


@lru_cache(maxsize=2000)
def _decode_call(data: bytes, max_bytes: int) -> _DecodedCall:
    """Decode the call in the `data` of a job. Cached, because every poll reads the same jobs again."""
    try:
        value = _decode_stored_value(data, max_bytes)
    except ValueError as error:
        return _DecodedCall(problem=f"{error}: it is shown as bytes")
    parts: Sequence[object] = value if isinstance(value, list | tuple) else ()
    if len(parts) != 4 or not isinstance(parts[0], str):
        return _DecodedCall(problem=f"its data is no call of RQ: {pickles.format_as_python(value, 100)}")
    function, instance, args, kwargs = parts
    if instance is not None:
        function = f"{pickles.format_as_python(instance, 200)}.{function}"
    return _DecodedCall(parts[0], pickles.format_function_call(str(function), args, kwargs, _MAX_CALL_LENGTH))


def _decode_stored_value(data: bytes, max_bytes: int) -> object:
    """Decode a pickle or JSON, compressed with zlib or plain.

    Raises ValueError for any other format, or if the data inflates to more than `max_bytes` bytes.
    """
    inflated = decompress_zlib(data, max_bytes) or data
    if len(inflated) > max_bytes:
        raise ValueError(f"its data inflates to more than {max_bytes // 1024} kB, which is not read")
    if inflated[:1] == b"\x80":
        try:
            return pickles.parse_pickle(inflated)
        except ValueError:
            raise ValueError("its data is no pickle that can be read") from None
    try:
        return json.loads(inflated)
    except (ValueError, RecursionError):
        raise ValueError("its data is neither a pickle nor JSON") from None


def _format_stored_value(value: bytes) -> str:
    """Format a value of `meta` or of a result as JSON, or as text if it is neither pickle nor JSON."""
    try:
        return json.dumps(
            pickles.convert_to_json_types(_decode_stored_value(value, pickles.MOST_BYTES)), ensure_ascii=False
        )
    except ValueError:
        return to_text(value)


def _decode_error(raw: bytes) -> str:
    """Decode an error text that is compressed with zlib, with or without base64 around it.

    A long text is cut at the end.
    """
    if not raw:
        return ""
    if raw[:1] != b"\x78":
        try:
            raw = base64.b64decode(raw[: len(raw) // 4 * 4], validate=True)
        except binascii.Error:
            return to_text(raw)
    return (decompress_zlib(raw, pickles.MOST_BYTES) or raw).decode("utf-8", "replace")


def _parse_time_ms(text: str) -> int | None:
    """Parse a time of RQ's hashes to ms; None if it is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _convert_score_ms(score: str) -> int | None:
    """Convert a score, or the time of an execution, from seconds to ms; None if it is no time."""
    seconds = _parse_seconds(score)
    return round(seconds * 1000) if seconds is not None and seconds >= 0 else None


def _parse_seconds(text: str) -> float | None:
    """Parse a number of seconds; None for a text that is no plausible number."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and abs(seconds) < _MAX_SECONDS else None


def _parse_int(text: str) -> int | None:
    """Parse an integer of at most 15 digits; None for any other text."""
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


_FOLLOW_UPS = {
    "success_callback_name": "callback on success",
    "failure_callback_name": "callback on failure",
    "stopped_callback_name": "callback when it is stopped",
    "repeats_left": "repetition",
}


def _parse_retry_intervals(text: str) -> list[float]:
    """Parse the field `retry_intervals` (seconds between attempts); an empty list for an invalid value."""
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    intervals = value if isinstance(value, list) else [value]
    return (
        intervals
        if all(isinstance(seconds, int | float) and 0 <= seconds < _MAX_SECONDS for seconds in intervals)
        else []
    )


def _compute_native_backoff(intervals: Sequence[float], retries_left: int, attempts: int) -> tuple[int, int, str]:
    """Return base and cap in ms of a doubling back-off, and what the native queue would do differently.

    RQ waits for the interval `len - left`, and for the first if there are more retries than intervals.
    """
    waits = (
        [round(1000 * intervals[max(0, len(intervals) - n)]) for n in range(retries_left, 0, -1)] if intervals else []
    )
    if not waits or not any(waits):
        return 0, 0, ""
    first, cap_ms = waits[0], min(max(waits), MAX_BACKOFF_MS)
    base_ms = first if cap_ms == first else -(-first // 2**attempts)
    if all(wait == min(cap_ms, base_ms * 2 ** min(attempts + n, 60)) for n, wait in enumerate(waits)):
        return base_ms, cap_ms, ""
    return base_ms, cap_ms, "its retry intervals are no constant wait and none that doubles"


# -- new jobs ----------------------------------------------------------------------------------------------------------

_SERIALIZERS: Mapping[str, Callable[[object], bytes]] = {  # rq/serializers.py 3.0
    "pickle": write_pickle,
    "json": lambda value: json.dumps(value).encode(),
}
_ABANDONED = base64.b64encode(
    zlib.compress(b"Moved to failed, due to AbandonedJobError: its worker died (found by rqtui)")
)
_FORMAT_HINT = 'a job is written as {"func": "tasks.add", "args": [1, 2], "kwargs": {}}'
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")  # RQ imports it: a module, and a name in it
_COLUMNS = {"timeout": "ttr_ms", "result_ttl": "keep_ms", "failure_ttl": "failure_ttl_ms", "ttl": "ttl_ms"}
_JOB_FIELDS = ("func", "args", "kwargs", *_COLUMNS, "retry", "retry_intervals", "description", "meta", "at_front")


def _detect_serializer(data: bytes) -> str:
    """Return whether the `data` of a job is a pickle or JSON: `pickle` or `json`."""
    return "pickle" if (decompress_zlib(data, 1) or data)[:1] == b"\x80" else "json"


def _build_enqueue_columns(body: bytes, serializer: str) -> dict[str, Any]:
    """Build the `enqueue` columns of a job written in JSON, or of `data` copied from a hash. Raises UsageError."""
    if decompress_zlib(body, 1):
        return {"body": body, "description": _decode_call(body, _READ_BYTES).call}
    job = _parse_written_job(body)
    function, args, kwargs = job["func"], job.get("args", []), job.get("kwargs", {})
    columns: dict[str, Any] = {"description": pickles.format_function_call(function, args, kwargs, _MAX_CALL_LENGTH)}
    columns |= {column: _parse_duration_ms(name, job[name]) for name, column in _COLUMNS.items() if name in job}
    columns |= {name: job[name] for name in ("description", "at_front") if name in job}
    if "retry" in job:
        columns["max_attempts"] = job["retry"] + 1
    if "retry_intervals" in job:
        columns["retry_intervals"] = json.dumps(job["retry_intervals"])
    write = _SERIALIZERS[serializer]
    try:
        parts = (function, None, tuple(args) if serializer == "pickle" else args, kwargs)
        columns["body"] = zlib.compress(write(parts))
        if "meta" in job:
            columns["meta"] = write(job["meta"])
    except (RecursionError, UnicodeEncodeError):
        raise UsageError("rq: the arguments are nested too deeply.") from None
    return columns


def _parse_written_job(body: bytes) -> dict[str, Any]:
    """Parse and check a job that a person wrote in JSON. Raises UsageError, whose text explains the format."""
    try:
        job = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"rq: this body is no JSON; {_FORMAT_HINT}.") from None
    if not isinstance(job, dict) or not isinstance(job.get("func"), str):
        raise UsageError(f"rq: this body names no function; {_FORMAT_HINT}.")
    if not _FUNCTION.fullmatch(job["func"]):
        raise UsageError(f'rq: a function is named with its module, as in "tasks.add", not {job["func"]!r:.60}.')
    if unknown := [name for name in job if name not in _JOB_FIELDS]:
        raise UsageError(f'rq: a job has no "{unknown[0]:.40}"; it has {", ".join(_JOB_FIELDS)}.')
    for name, (is_valid, description) in _FIELD_CHECKS.items():
        if name in job and not is_valid(job[name]):
            raise UsageError(f"rq: {name} is {description}, not {job[name]!r:.60}.")
    return job


def _is_small_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000


_FIELD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "args": (lambda value: isinstance(value, list), "a list"),
    "kwargs": (lambda value: isinstance(value, dict), "an object"),
    "meta": (lambda value: isinstance(value, dict), "an object"),
    "description": (lambda value: isinstance(value, str), "a text"),
    "at_front": (lambda value: isinstance(value, bool), "true or false"),
    "retry": (_is_small_count, "how often it is tried again"),
    "retry_intervals": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_small_count, value)),
        "a list of whole seconds",
    ),
}


def _parse_duration_ms(name: str, value: object) -> int:
    """Convert seconds or a duration such as `1h` to ms; -1 (for ever) stays -1. Raises UsageError."""
    # `parse_duration` refuses values of other types.
    lasting_ms = -1 if value == -1 else durations.parse_duration(value, name)  # type: ignore[arg-type]
    _check_job_durations({_COLUMNS[name]: lasting_ms})
    return lasting_ms


def _check_job_durations(row: Mapping[str, object]) -> None:
    """Raise UsageError for a timeout or ttl that RQ itself refuses (rq/queue.py 3.0, `create_job`)."""
    if row.get("ttr_ms") == 0:
        raise UsageError("rq: timeout is longer than 0; -1 lets a job run for ever.")
    if row.get("ttl_ms") in (0, -1):
        raise UsageError("rq: ttl is longer than 0; a job without one waits for ever.")


# -- one job in full ---------------------------------------------------------------------------------------------------

_FAILED, _STOPPED = "2", "3"
_RETRIES_LEFT = "retries left"  # the name of a fact
_MAX_FIELD_BYTES = 65_536  # bytes of a result field; longer fields are cut
_DURATIONS = ("result_ttl", "failure_ttl")
_HIDDEN = frozenset({"meta", "dependency_ids", "dependency_id", "result", "last_heartbeat", *_DURATIONS})


def _group_detail_rows(details: Sequence[Mapping[str, Any]], kind: str) -> dict[bytes, dict[str, bytes]]:
    """Return the rows of one kind in the table of `show`, as a dict of fields per owner."""
    fields_by_owner: dict[bytes, dict[str, bytes]] = {}
    for row in details:
        if row["kind"] == kind:
            fields_by_owner.setdefault(row["of"], {})[to_text(row["name"])] = row["value"]
    return fields_by_owner


def _parse_failed_runs(details: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    """Parse the failed runs of a job, oldest first.

    RQ stores the results of the last ten runs, except those that were retried.
    """
    runs = []
    for id, fields in _group_detail_rows(details, "result").items():
        if to_text(fields.get("type", b"")) in (_FAILED, _STOPPED):
            kept_ms = int(id.partition(b"-")[0])
            end_ms = _convert_score_ms(to_text(fields.get("execution_ended_at", b""))) or kept_ms
            start_ms = _convert_score_ms(to_text(fields.get("execution_started_at", b""))) or end_ms
            runs.append(
                Attempt(
                    start_ms,
                    end_ms,
                    to_text(fields.get("worker_name", b"")),
                    _decode_error(fields.get("exc_string", b"")),
                )
            )
    return tuple(runs)


def _build_job_facts(queue: str, place: str, call: str, row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the facts about a job that only RQ has, most useful first."""
    status, description = row["status"], to_text(row["description"])
    is_elsewhere = status == "stopped" or _PLACE_OF.get(status, status) != place
    yield from build_facts(
        (
            ("status", status if is_elsewhere else "", "text"),
            ("description", description if description != call else "", "text"),
            (_RETRIES_LEFT, row["retries_left"], "text"),
            ("rate limit", row["rate_limit_key"], "text"),
            ("heartbeat", _convert_score_ms(row["beat"]), "instant"),
            ("seen by maintenance", _convert_score_ms(row["seen"]), "instant"),
        )
    )
    if "more" in row:
        yield from _build_detail_facts(queue, place, row, row["more"])


def _build_detail_facts(
    queue: str, place: str, row: Mapping[str, Any], details: Sequence[Mapping[str, Any]]
) -> Iterator[Fact]:
    """Yield the facts that only `show` reads of a single job: its hash, results, dependencies and executions."""
    fields = _group_detail_rows(details, "field").get(b"", {})
    yield from _build_result_fact(details, fields)
    if fields.get("meta"):
        yield Fact("meta", _format_stored_value(fields["meta"]), "json")
    for kind, label in (("dependency", "depends on"), ("dependent", "dependent")):
        for id, record in _group_detail_rows(details, kind).items():
            origin = to_text(record["origin"])
            yield Fact(label, id, "ref", "" if origin == queue else origin)
    for id, record in _group_detail_rows(details, "execution").items():
        worker = to_text(record.get("worker_name", b"")) or "a worker without a name"
        yield Fact("execution", f"{to_text(id)} by {worker}")
        beat_ms = _convert_score_ms(to_text(record.get("last_heartbeat", b"")))
        if beat_ms is not None and not row["beat"]:
            yield Fact("heartbeat", beat_ms, "instant")
    yield from _build_lifetime_facts(place, row, fields)
    for name, length in _group_detail_rows(details, "long").get(b"", {}).items():
        yield Fact(name.replace("_", " "), f"{to_text(length)} bytes: too long to show")
    for name, value in fields.items():
        if value and name not in _HIDDEN:
            yield _build_field_fact(name, to_text(value))


def _build_result_fact(details: Sequence[Mapping[str, Any]], fields: Mapping[str, bytes]) -> Iterator[Fact]:
    """Yield the result of a job: that of the newest run that returned a value, else the one in its hash."""
    for result in reversed(_group_detail_rows(details, "result").values()):
        if "return_value" in result:
            raw = result["return_value"]
            is_long = len(raw) >= _MAX_FIELD_BYTES
            yield (
                Fact("result", f"longer than {_MAX_FIELD_BYTES // 1024} kB")
                if is_long
                else Fact("result", _decode_result(raw), "json")
            )
            return
    if fields.get("result"):
        yield Fact("result", _format_stored_value(fields["result"]), "json")


def _build_lifetime_facts(place: str, row: Mapping[str, Any], fields: Mapping[str, bytes]) -> Iterator[Fact]:
    """Yield how long a job may run, wait and be kept, and when its id or its hash is deleted."""
    kept = {name: to_text(fields.get(name, b"")) for name in _DURATIONS}
    for name, text in {"timeout": row["timeout"], "ttl": row["ttl"], **kept}.items():
        label, seconds = name.replace("_", " "), _parse_int(text)
        if seconds is not None:
            yield Fact(label, seconds * 1000, "duration") if seconds >= 0 else Fact(label, "for ever")
    if place in _FORGOTTEN:
        until_ms = _convert_score_ms(row["score"])
        yield Fact("forgotten", "never") if until_ms is None else Fact("forgotten", until_ms, "instant")
    elif row["left_ms"] >= 0:
        yield Fact("hash vanishes", row["now_ms"] + row["left_ms"], "instant")


def _build_field_fact(name: str, text: str) -> Fact:
    """Build the fact of any other field of a job's hash. A field named like a time is shown as a time."""
    label = name.replace("_", " ")
    at_ms = _parse_time_ms(text) if name.endswith(("_at", "heartbeat")) else None
    return Fact(label, text) if at_ms is None else Fact(label, at_ms, "instant")


def _decode_result(raw: bytes) -> str:
    """Decode the return value of a run to JSON text."""
    try:
        return _format_stored_value(base64.b64decode(raw, validate=True))
    except binascii.Error:
        return to_text(raw)
