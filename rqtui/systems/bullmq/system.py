"""Read and change BullMQ queues (Node, `taskforcesh/bullmq` 5 and 6).

BullMQ has a list of ids to take from, sorted sets and a hash per job. All keys of a queue begin with
`<prefix>:<queue>:`. LISTs `wait`, `active`, and in BullMQ 5 for paused queues `paused`: LPUSH in, popped at the right.
ZSETs `delayed` by due ms × 4096, `prioritized` by priority × 2^32 + arrival, `waiting-children`, `completed`, `failed`
by ms. HASH `<id>`: `data` and `opts` are JSON, `stacktrace` a JSON list, `atm` attempts made, `ats` starts, `stc`
stalls, `rjk` scheduler, `deid` deduplication, `parentKey` the key of the parent. STRING `<id>:lock`,
`<worker uuid>:<n>` with an expiry, is the only sign that a job still runs. A queue exists if its HASH `meta` has
`version` or `opts.maxLenEvents`; Bull 4 uses the same prefix without these fields.
Operators' page: `docs/systems/bullmq.md`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import Finding, Job, MigrationTerms, Place, Queue, Schedule, State, Worker, WorkerList
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.foreign_system import ForeignSystem, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.option_values import NAME
from rqtui.system_base.stored_values import parse_int
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.systems.bullmq.job_facts import OBSTACLES, build_job_facts
from rqtui.systems.bullmq.job_format import (
    TIMES,
    build_failed_attempts,
    choose_error_text,
    compute_wait_ms,
    find_job_problems,
    find_state_start_ms,
    format_job_call,
    parse_backoff,
    parse_due_ms,
    parse_json_object,
    parse_stack_traces,
    parse_time_ms,
)
from rqtui.systems.bullmq.lock_holders import LockHolders
from rqtui.systems.bullmq.new_jobs import BACKOFF_COLUMNS, build_enqueue_columns, validate_job_data
from rqtui.systems.bullmq.workers import COMMANDS, VIEW_REFRESH_S, WORKER_REFRESH_S, WorkerConnections, build_workers
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

QUEUES_PER_CALL = 25  # queues per call of `schedules`
DENIED_RETRY_S = 60.0  # between reads of a key that an ACL denied: each read adds an entry to the server's ACL log
MAX_DENIED = 10_000
DOUBT_PROBE_S = 2.0  # between two probes while it is open whether a worker was killed
_OTHER_KEYS = {
    **{name: name for name in ("meta", "id", "pc", "marker", "events", "limiter", "stalled")},
    "stalled_check": "stalled-check",
    "repeat": "repeat",
    "metrics_completed": "metrics:completed",
    "metrics_failed": "metrics:failed",
}
_LIMITS = ("concurrency", "limit_max", "limit_ms")
_ENDED = (State.DONE, State.DEAD)
_STARTED = (State.RESERVED, *_ENDED)


class BullMQ(ForeignSystem):
    """BullMQ queues with one key prefix, read from and written to Redis keys alone."""

    name = "bullmq"
    places = (
        Place("delayed", State.SCHEDULED, "<prefix>:<queue>:delayed", "zset", "due ms × 4096"),
        Place("waiting_children", State.SCHEDULED, "<prefix>:<queue>:waiting-children", "zset", "since ms"),
        Place("prioritized", State.READY, "<prefix>:<queue>:prioritized", "zset", "priority × 2^32 + arrival"),
        Place("wait", State.READY, "<prefix>:<queue>:wait", "list"),
        Place("paused", State.READY, "<prefix>:<queue>:paused", "list"),
        Place("active", State.RESERVED, "<prefix>:<queue>:active", "list"),
        Place("completed", State.DONE, "<prefix>:<queue>:completed", "zset", "since ms"),
        Place("failed", State.DEAD, "<prefix>:<queue>:failed", "zset", "since ms"),
    )
    defaults = {"prefix": "bull"}
    option_values = {"prefix": NAME}
    shared_option = "prefix"
    missing_history = "no worker keeps metrics"
    unmigrated_places = {"waiting_children": "it waits for its children: move the queue again when they are done"}
    take_order = ("wait", "paused", "prioritized")  # commands/includes/moveToActive 6.7: a priority comes last
    can_find_by_id = True
    known_fields = frozenset({"name", "tried", "error", "worker"})
    has_json_bodies = True
    converted_fields = BACKOFF_COLUMNS
    finding_remedies = {
        "no-live-worker": "start the program whose Worker serves {queue}",
        "oldest-ready": "start more workers of {queue}, or give them more concurrency",
        "backlog-grows": "start more workers of {queue}, or give them more concurrency",
        "due-not-dispatched": "start a Worker of {queue}: workers alone move what is due",
        "expired-not-reaped": "",
    }
    commands = COMMANDS
    jobs_per_page_call = 25
    jobs_per_call = 100  # a job is a hash with five keys around it
    verb_labels = {"requeue": "retry", "delete": "remove"}
    verb_effects = {
        "kill": "they fail with this reason, and do not run until they are retried",
        "delete": "a parent that waits for one of them no longer does, and runs if it waits for no other job",
        "release": "they run next; a job whose worker still holds its lock is not released",
    }
    missing_verbs = {
        "reserve": "a job is taken with a lock that only its worker renews; its end also moves parents and schedulers",
        "ack": "only the worker that holds its lock can end a job: its parent and scheduler change with it",
        "move": "BullMQ numbers the jobs of each queue on its own: in another queue a job has another id, which its "
        "application and its parent do not know",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        # A hash tag puts all keys into one slot.
        self.works_on_cluster = re.search(r"\{[^}]+\}", self.prefix) is not None
        literal = re.sub(r"(\W)", r"%\1", self.prefix)
        others = () if self.is_explicit else (r"^[^{]+:[^:{]+:meta$",)  # without the many keys of native queues
        self.key_patterns = (f"^{literal}:[^:]+:meta$", *others)
        self._denied_s: LruCache[bytes, float] = LruCache(MAX_DENIED)  # by `meta` key: when an ACL denied it
        self._cached_queues: tuple[str, ...] = ()  # queue names; replaced, never mutated, because threads read it
        self._connections = WorkerConnections(self.prefix)
        self._lock_holders = LockHolders(self._connections)
        self._queues_without_runs: set[str] = set()  # queues without running jobs at the last count
        self._probe_cursors: dict[str, int] = {}  # by queue: where the scan for jobs in no place continues

    @property
    def prefix(self) -> str:
        """The prefix of all BullMQ keys, `bull` by default."""
        return self.options["prefix"]

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue's places and of BullMQ's other data, by the names that the scripts use.

        Raises UsageError for a queue name that BullMQ refuses.
        """
        if not queue:
            raise UsageError("bullmq: a queue has a name.")
        if ":" in queue:
            raise UsageError(f'bullmq: a queue has no ":" in its name, and "{queue:.60}" has.')
        key_prefix = self.build_key_prefix(queue)
        places = {place.name: place.key.rpartition(":")[2] for place in self.places}
        return {name: key_prefix + key for name, key in (places | _OTHER_KEYS).items()}

    def build_key_prefix(self, queue: str) -> str:
        """Return the prefix that all keys of one queue have, `bull:mail:`."""
        return f"{self.prefix}:{queue}:"

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script for a queue. Scripts that derive keys of jobs also get the queue's key prefix."""
        return super().build_call(
            name, queue, {**self.select_arguments(name, {"p": self.build_key_prefix(queue)}), **args}, rows
        )

    def can_resume(self, queue: Queue) -> bool:
        """Return whether a resume has an effect: the queue is paused, or an upgrade of BullMQ left jobs in `paused`."""
        return queue.is_paused or queue.count_in_place("paused") > 0

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Count the workers connected to queues that are already known, and yield no queue.

        Only a walk over all keys finds BullMQ queues.
        """
        if self._cached_queues:
            self._refresh_connections(client)
        yield []

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues whose `meta` key has BullMQ's fields. Another program may have a key of that name.

        Stores the prefixes of the `meta` keys of other applications.
        """
        from redis.exceptions import NoPermissionError

        now_s = time.monotonic()
        found = [key for key in dict.fromkeys(found) if now_s - self._denied_s.get(key, float("-inf")) > DENIED_RETRY_S]
        pipe = client.pipeline(transaction=False)
        for key in found:
            pipe.hmget(key, "version", "opts.maxLenEvents")
        replies = pipe.execute(raise_on_error=False)
        for key, reply in zip(found, replies, strict=True):
            if isinstance(reply, NoPermissionError):
                self._denied_s.store(key, now_s)
        names = []
        for key, fields in zip(found, replies, strict=True):
            prefix, queue = to_text(key).removesuffix(":meta").rsplit(":", 1)
            if not isinstance(fields, list):
                continue
            if prefix == self.prefix and any(field is not None for field in fields):
                names.append(queue)
            elif prefix != self.prefix and (fields[0] or b"").startswith(b"bullmq:"):
                self.other_prefixes |= {prefix}
        if not set(names) <= set(self._cached_queues):
            self._cached_queues = tuple(dict.fromkeys((*self._cached_queues, *names)))
        if names and self._connections.by_queue is None:
            self._refresh_connections(client)
        return names

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a queue's `meta` key has BullMQ's fields."""
        return bool(self.find_queues_of_keys(client, [to_bytes(self.keys(queue)["meta"])]))

    # -- workers and schedules ------------------------------------------------------------------------------------

    def _build_connection_calls(self, max_age_s: float) -> tuple[Call, ...]:
        """Build the commands that list the connections of workers, unless the last list is young enough."""
        return self._connections.build_calls(max_age_s, self.keys(next(iter(self._cached_queues), "any"))["meta"])

    def _refresh_connections(self, client: Any) -> None:
        """Read the connections of workers, at most once per `WORKER_REFRESH_S`."""
        self._connections.store_replies(scripts.send_calls(client, self._build_connection_calls(WORKER_REFRESH_S)))

    def probe_interval_s(self, queue: str) -> float | None:
        """Return a short interval while it is open whether a worker of the queue was killed."""
        return DOUBT_PROBE_S if self._lock_holders.has_missing(queue) else None

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]]:
        """Build the request for the findings about one queue, and for the connections of workers if they are due."""
        call = self.build_call("faults", queue, {"from_id": self._probe_cursors.get(queue)})
        clients = self._build_connection_calls(WORKER_REFRESH_S)
        roster = () if queue in self._queues_without_runs else (self.build_call("roster", queue, {}),)

        def parse_findings(replies: Replies) -> tuple[Finding, ...]:
            self._connections.store_replies(replies[1 : 1 + len(clients)])
            if isinstance(replies[0], Reply):
                self._probe_cursors[queue] = replies[0].values["next_id"]
            if not roster:
                self._lock_holders.forget_queue(queue)
                return self._parse_findings(queue, replies[0])
            return (*self._parse_findings(queue, replies[0]), *self._lock_holders.update(queue, replies[-1]))

        return Request((call, *clients, *roster), parse_findings)

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the workers connected to a queue, and for unnamed workers that hold locks of jobs."""
        connection_calls = self._build_connection_calls(VIEW_REFRESH_S)

        def parse_workers(replies: Replies) -> tuple[Worker, ...]:
            self._connections.store_replies(replies[:-1])
            roster = unwrap_reply(replies[-1])
            clients = self._connections.list_of_queue(queue)
            workers = build_workers(queue, clients, convert_rows_to_dicts(roster), roster.values["now_ms"])
            note = describe_unread_rest(len(roster.rows), roster.values["total"], f"running jobs of {queue}")
            return WorkerList(workers, note and f"{note} for the workers that hold their locks")

        return Request((*connection_calls, self.build_call("roster", queue, {})), parse_workers)

    def schedules_request(self) -> Request[tuple[Schedule, ...]]:
        """Build the request for the job schedulers of all known queues."""
        script = self.scripts["schedules"]
        queues = self._cached_queues
        calls = tuple(
            script.build_call(
                {}, {}, each_keys=[[self.keys(queue)["repeat"]] for queue in queues[batch : batch + QUEUES_PER_CALL]]
            )
            for batch in range(0, len(queues), QUEUES_PER_CALL)
        )

        def parse_schedules(replies: Replies) -> tuple[Schedule, ...]:
            schedules: list[Schedule] = []
            for batch, reply in enumerate(map(unwrap_reply, replies)):
                now_ms = reply.values["now_ms"]
                schedules += (
                    _build_schedule(self.name, queues[batch * QUEUES_PER_CALL + row["queue"] - 1], row, now_ms)
                    for row in convert_rows_to_dicts(reply)
                )
            return tuple(schedules)

        return Request(calls, parse_schedules)

    # -- counts ---------------------------------------------------------------------------------------------------

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the number of jobs ever added, and of completed and failed jobs if the workers keep metrics."""
        counters = {"in": values["added"]} if values["added"] >= 0 else {}
        if values["succeeded"] >= 0:
            counters |= {"out": values["succeeded"], "failed": values["died"], "dead": values["died"]}
        return counters

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        counted = super()._parse_queue(queue, reply)
        if isinstance(reply, Exception):
            return counted
        has_runs = counted.count_in_place("active") > 0
        (self._queues_without_runs.discard if has_runs else self._queues_without_runs.add)(queue)
        totals = self.counters(reply.values)  # the value named failed is a place, not a counter
        limits = {name: reply.values[name] for name in _LIMITS if reply.values[name]}
        is_paused, workers = bool(reply.values["is_paused"]), self._connections.count(queue)
        return counted._replace(is_paused=is_paused, workers=workers, counters={**totals, **limits})

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _parse_job(self, queue: str, reply: Reply | Exception) -> Job | None:
        reply = unwrap_reply(reply)
        if reply.word == "gone":
            return None
        row = {**reply.values, "more": convert_rows_to_dicts(reply)}
        place = row["place"] or ("failed" if row["error"] else "completed" if row["finished_on"] else "wait")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page`, or from a row with the table `more` of `show`, which has further facts."""
        size, data, place_of_job, name = row["size"], row["data"], self.place(place), row["name"]
        is_reserved = place_of_job.state is State.RESERVED
        added_ms, started_ms, ended_ms = (parse_time_ms(row[field]) for field in TIMES)
        traces = parse_stack_traces(row["trace"])
        limit = parse_json_object(row["opts"]).get("attempts")
        attempts = parse_int(row["atm"]) or 0
        return Job(
            id=row["id"],
            queue=queue,
            system=self.name,
            place=place_of_job.name,
            state=place_of_job.state,
            member=row["member"],
            token=row["lock"],
            name=name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=added_ms,
            due_ms=parse_due_ms(row["score"]) if place_of_job.name == "delayed" else None,
            deadline_ms=now_ms + max(0, row["lock_ms"]) if is_reserved else None,
            reserved_ms=started_ms if place_of_job.state in (State.RESERVED, State.DONE) else None,
            since_ms=find_state_start_ms(place_of_job, row, now_ms),
            priority=parse_int(row["priority"]) or 0,
            attempts=attempts,
            max_attempts=max(1, limit) if isinstance(limit, int) else None,
            worker=row["pb"] or (to_text(row["lock"].partition(b":")[0]) if is_reserved else ""),
            error="" if place_of_job.state is State.DONE else choose_error_text(to_text(row["error"]), traces),
            history=build_failed_attempts(traces, started_ms or 0, ended_ms or 0, row["pb"]) if "more" in row else (),
            problem=safe("; ".join(find_job_problems(self.build_key_prefix(queue), place_of_job.name, row))),
            call=format_job_call(name, data) if name else "",
            facts=tuple(build_job_facts(self.prefix, queue, is_reserved, attempts, row)),
            ended_ms=ended_ms if place_of_job.state is State.DONE else None,
            waited_ms=compute_wait_ms(row) if attempts <= 1 and place_of_job.state in _STARTED else None,
            ran_ms=max(0, ended_ms - started_ms) if ended_ms and started_ms and place_of_job.state in _ENDED else None,
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the attempts and the backoff that a job's `opts` set, for a move to the native queue.

        Jobs of a flow and the next job of a scheduler are refused, because other jobs need them.
        """
        facts = {fact.name: fact.value for fact in job.facts}
        obstacle = next((OBSTACLES[name] for name in OBSTACLES if name in facts), "")
        opts = parse_json_object(to_bytes(str(facts.get("opts", "{}"))))
        backoff_ms, cap_ms, backoff_loss = parse_backoff(opts.get("backoff"))
        losses = [backoff_loss] if backoff_loss else []
        if "dedup id" in facts:
            losses.append("its deduplication id would no longer keep equal jobs out")
        if isinstance(opts.get("group"), dict):
            losses.append("it would leave its group, whose limits BullMQ Pro enforces")
        if "will fail" in facts:
            losses.append("it would not fail at its next start, as BullMQ has it noted")
        return MigrationTerms(job.attempts, job.max_attempts or 1, backoff_ms, cap_ms, tuple(losses), obstacle)

    # -- verbs ----------------------------------------------------------------------------------------------------

    def encode_body(self, body: bytes) -> bytes:
        """Return the data of a new job as it is. Raises UsageError for data that a worker could not parse."""
        validate_job_data(body)
        return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job. Raises UsageError for an option that is wrong or given twice."""
        return build_enqueue_columns(row)


SYSTEM = BullMQ


def _build_schedule(system: str, queue: str, row: Mapping[str, Any], now_ms: int) -> Schedule:
    """Build a schedule from the hash of a job scheduler.

    BullMQ adds the next job of a scheduler when the previous one starts, so a missing job stops the scheduler.
    """
    next_ms = parse_time_ms(row["next_ms"])
    every, limit, count, ends_ms = (parse_int(row[name]) for name in ("every", "limit", "count", "end_date"))
    pattern = f"every {every / 1000:g} s" if every else " ".join(filter(None, (row["pattern"], row["tz"])))
    is_over = bool(limit and count and count >= limit) or bool(ends_ms and ends_ms < now_ms)
    is_missing = row["next_state"] in ("gone", "ended")
    problem = ""
    if is_missing and not is_over:
        event = "is missing" if row["next_state"] == "gone" else "ended, and none came after it"
        problem = f"its next job {event}: it stopped until its program upserts it again"
    if not row["name"]:
        problem = problem or "its hash is missing: BullMQ knows no template of its jobs"
    name = to_text(row["id"])
    return Schedule(
        name,
        system,
        queue,
        pattern,
        format_job_call(row["name"] or name, row["data"]),
        next_ms,
        enabled=not (is_over and is_missing),
        problem=problem,
    )
