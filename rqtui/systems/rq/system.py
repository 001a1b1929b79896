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

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import Job, MigrationTerms, Place, Queue, Schedule, State, Worker, WorkerList
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.foreign_system import ForeignSystem, build_facts, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.option_values import accept_listed_words, accept_pattern_values
from rqtui.system_base.stored_values import parse_int
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.systems.rq.job_facts import RETRIES_LEFT, build_job_facts, parse_failed_runs
from rqtui.systems.rq.job_format import (
    ABANDONED,
    GONE,
    PLACES_BY_STATUS,
    READ_BYTES,
    TIMES,
    DecodedCall,
    compute_native_backoff,
    convert_score_ms,
    decode_call,
    decode_error,
    detect_serializer,
    find_job_problems,
    find_place_entry_ms,
    parse_retry_intervals,
    parse_seconds,
    parse_time_ms,
)
from rqtui.systems.rq.new_jobs import build_enqueue_columns, check_job_durations
from rqtui.systems.rq.schedules import build_schedules
from rqtui.text import pickles
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

WORKERS_PER_CALL = 150
MIN_WORKERS, MAX_WORKERS = 600, 20_000  # workers of a queue that are read: before their number is known, and at most
_MAX_SCANNED_QUEUES = 10_000  # names scanned for one queue, in one step
_BUSY_TTL_MS = 90_000  # rq/worker: job_monitoring_interval + 60 s, while it runs a job
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_ENDED = (State.DONE, State.DEAD)
_STARTED = (State.RESERVED, *_ENDED)
_FOLLOW_UPS = {
    "success_callback_name": "callback on success",
    "failure_callback_name": "callback on failure",
    "stopped_callback_name": "callback when it is stopped",
    "repeats_left": "repetition",
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
        # A hash tag puts all keys into one slot.
        self.works_on_cluster = re.search(r"\{[^}]+\}", self.prefix) is not None
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
            schedules = build_schedules(convert_rows_to_dicts(reply), reply.values["now_ms"])
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
        place = row["place"] or PLACES_BY_STATUS.get(row["status"], "canceled")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page`, or from a row with the table `more` of `show`, which has further facts."""
        details: Sequence[Mapping[str, Any]] | None = row.get("more")
        size, data, place_of_job = row["size"], row["data"], self.place(place)
        decoded = self._decode_job_call(queue, row, READ_BYTES if details is None else pickles.MOST_BYTES)
        times = {field: parse_time_ms(row[field]) for field in TIMES}
        score_ms = convert_score_ms(row["score"])
        error = decode_error(row["error"])
        history = parse_failed_runs(details or ())
        state = place_of_job.state
        problems = (*find_job_problems(self.prefix, queue, place_of_job, row, now_ms), decoded.problem)
        return Job(
            id=row["id"],
            queue=queue,
            system=self.name,
            place=place_of_job.name,
            state=state,
            member=row["member"],
            name=decoded.name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=times["enqueued_at"] if times["enqueued_at"] is not None else times["created_at"],
            due_ms=score_ms if place_of_job.name == "scheduled" else None,
            deadline_ms=score_ms if place_of_job.name == "started" else None,
            reserved_ms=times["started_at"] if state in (State.RESERVED, State.DONE) else None,
            since_ms=find_place_entry_ms(place_of_job.name, times, score_ms),
            ttr_ms=max(0, parse_int(row["timeout"]) or 0) * 1000 or None,
            worker=row["runner"] or row["worker_name"],
            error=error or (history[-1].error if history and state is State.DEAD else ""),
            history=history,
            problem=safe("; ".join(filter(None, problems))),
            call=decoded.call,
            facts=tuple(build_job_facts(queue, place_of_job.name, decoded.call, row)),
            ended_ms=times["ended_at"] if state is State.DONE else None,
            waited_ms=_compute_span_ms(times["started_at"], times["enqueued_at"]) if state in _STARTED else None,
            ran_ms=_compute_span_ms(times["ended_at"], times["started_at"]) if state in _ENDED else None,
        )

    def _decode_job_call(self, queue: str, row: Mapping[str, Any], most_bytes: int) -> DecodedCall:
        """Decode the call of a job from its data; without data from its description, which RQ writes as a call."""
        data = row["data"]
        decoded = decode_call(data, most_bytes) if data else DecodedCall()
        if decoded.name and queue not in self._serializers:
            self._serializers[queue] = detect_serializer(data)
        description = to_text(row["description"])
        if not (decoded.name or decoded.problem) and (match := _CALL.match(description)):
            return DecodedCall(match[1], description)
        return decoded

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the remaining retries and the backoff of a job, for a move to the native queue.

        A job with dependents is refused, because these would wait for ever.
        """
        facts = {fact.name.replace(" ", "_"): str(fact.value) for fact in job.facts}
        retries_left = max(0, parse_int(facts.get("retries_left", "")) or 0)
        attempts = (parse_int(facts.get("number_of_retries", "")) or 0) + (job.state is State.DEAD)
        backoff_ms, cap_ms, backoff_loss = compute_native_backoff(
            parse_retry_intervals(facts.get("retry_intervals", "")), retries_left, attempts
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
        max_attempts = attempts + retries_left + (job.state is not State.DEAD)
        return MigrationTerms(attempts, max_attempts, backoff_ms, cap_ms, tuple(losses), obstacle)

    # -- verbs ----------------------------------------------------------------------------------------------------

    def find_target_places(self, name: str, job: Job) -> tuple[str, ...]:
        """Return the places that a verb may move a job to.

        A reaped job with retries left may be scheduled instead of queued, which pages of jobs do not show.
        """
        places = super().find_target_places(name, job)
        return ("queued", "scheduled") if name == "reap" and places == ("queued",) else places

    def has_no_attempts_left(self, job: Job) -> bool:
        """Return whether a job has no retries left, so that it fails if its worker is lost."""
        left = next((fact.value for fact in job.facts if fact.name == RETRIES_LEFT), "")
        return not (parse_int(str(left)) or 0) > 0

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script. `reap` also gets the error text that it stores with jobs that fail."""
        all_args = {"exc_string": ABANDONED, **args} if name == "reap" else args
        return super().build_call(name, queue, all_args, rows)

    def encode_body(self, body: bytes) -> bytes:
        """Encode a job written as JSON as pickled `data`, or return `data` as it is. Raises UsageError."""
        return bytes(build_enqueue_columns(body, "pickle")["body"])

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job such as `{"func": "tasks.add", "args": [1, 2]}`.

        Columns given in `row` take precedence. Raises UsageError for invalid fields.
        """
        option = self.options["serializer"]
        serializer = self._serializers.get(queue, "pickle") if option == "auto" else option
        columns = build_enqueue_columns(bytes(row["body"]), serializer)  # type: ignore[call-overload]
        own = {name: value for name, value in row.items() if value not in (None, "")}
        check_job_durations(own)
        return {**columns, **own, "body": columns["body"]}


SYSTEM = Rq


def _build_worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker:
    """Build a worker from its row. Its heartbeat is valid until RQ considers the worker dead."""
    heartbeat_ms = parse_time_ms(row["last_heartbeat"]) or 0
    is_registered = row["left_ms"] != GONE and not row["death"]
    job_id = to_text(row["execution"]).partition(":")[0] or to_text(row["current_job"])
    queues = tuple(filter(None, row["queues"].split(",")))
    state = row["state"] if is_registered else "gone"
    worked_s = parse_seconds(row["total_working_time"])
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
        parse_time_ms(row["birth"]),
        to_bytes(job_id),
        queues,
        state,
        tuple(facts),
    )


def _compute_span_ms(end_ms: int | None, begin_ms: int | None) -> int | None:
    """Return the time in ms between two times of a job; None if one is missing, or if they are of different runs."""
    return end_ms - begin_ms if end_ms is not None and begin_ms is not None and end_ms >= begin_ms else None
