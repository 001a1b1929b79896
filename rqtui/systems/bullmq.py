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

import base64
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from rqtui.errors import RqtuiError, UsageError
from rqtui.model import (
    MAX_BACKOFF_MS,
    Attempt,
    Fact,
    Finding,
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
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.option_values import NAME
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text.formats import format_quantity
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

log = logging.getLogger("rqtui.systems.bullmq")

QUEUES_PER_CALL = 25  # queues per call of `schedules`
DENIED_RETRY_S = 60.0  # between reads of a key that an ACL denied: each read adds an entry to the server's ACL log
MAX_DENIED = 10_000
WORKER_REFRESH_S = 10.0  # between two reads of the connections, for all queues together
VIEW_REFRESH_S = 1.0  # the same while the workers themselves are shown
DOUBT_PROBE_S = 2.0  # between two probes while it is open whether a worker was killed
# CLIENT LIST with 2 000 connections is 0.5 MB, for which the server works 4 ms: longer lists are read less often.
LONG_LIST_BYTES, LONG_LIST_FACTOR = 250_000, 3
DUE_FACTOR = 4096  # of scores in `delayed`: due ms × 4096 + arrival (commands/includes/getDelayedScore.lua 6.7)
_OTHER_KEYS = {
    "meta": "meta",
    "id": "id",
    "pc": "pc",
    "marker": "marker",
    "events": "events",
    "limiter": "limiter",
    "stalled": "stalled",
    "stalled_check": "stalled-check",
    "repeat": "repeat",
    "metrics_completed": "metrics:completed",
    "metrics_failed": "metrics:failed",
}
_LIMITS = ("concurrency", "limit_max", "limit_ms")
_NO_DATA, _NO_HASH, _NOT_A_HASH = -1, -2, -3
_MAX_CALL_LENGTH = 1000  # characters
_EARLIEST_MS, _LATEST_MS = 1e11, 1e14  # a number before 1973 or after 5138 is no time in ms


_RUNNERS_S = 120.0  # longer than a lock and the check for stalled jobs, after which another worker takes the job


class _Runners(NamedTuple):
    """The first and the current worker of a running job, and when the job was last seen (s by `time.monotonic`)."""

    first: str
    last: str
    seen_s: float


_MIN_RENEWAL_MS = 1_000  # a lock that ends later by as much was renewed, or belongs to a new run
_LATE_RENEWAL_MS = 1_000  # how late a living worker may renew a lock


class _Holder(NamedTuple):
    """A worker with running jobs. It renews each of their locks when half of the time is over (lockRenewTime)."""

    name: str  # empty: it has none
    ids: tuple[bytes, ...]  # its jobs
    left_ms: int  # until its last lock ends
    ends_ms: int  # when that is
    longest_ms: int  # the longest time left that was seen: its lockDuration is not shorter
    renewed_ms: int = 0  # when it was last seen to have renewed a lock, or taken a job; 0: never
    missing_ms: int = 0  # since when it, or one of several unnamed workers, has no connection; 0: that is not so

    @classmethod
    def update(cls, previous: _Holder | None, runs: Sequence[Mapping[str, Any]], now_ms: int) -> _Holder:
        """Return the state of a worker from the runs that it holds now and from its state at the previous poll."""
        left_ms, ids = max(run["left_ms"] for run in runs), tuple(run["id"] for run in runs)
        ends_ms = now_ms + left_ms
        if previous is None:
            return cls(runs[0]["pb"], ids, left_ms, ends_ms, left_ms)
        has_renewed = ends_ms > previous.ends_ms + _MIN_RENEWAL_MS
        return previous._replace(
            ids=ids,
            left_ms=left_ms,
            ends_ms=ends_ms,
            longest_ms=max(previous.longest_ms, left_ms),
            renewed_ms=now_ms if has_renewed else previous.renewed_ms,
        )

    @property
    def renews_no_lock(self) -> bool:
        """Whether the worker's locks have less time left than the locks of a live worker ever have."""
        return self.left_ms < self.longest_ms // 2 - _LATE_RENEWAL_MS

    @property
    def is_late(self) -> bool:
        """Whether a live worker with the default lockDuration would have renewed its locks by now."""
        return self.left_ms < _LOCK_MS // 2 - _LATE_RENEWAL_MS

    @property
    def was_killed(self) -> bool:
        """Whether the worker renews no lock, and no connection proves that it lives."""
        return self.renews_no_lock and (not self.name or self.missing_ms > 0)

    @property
    def is_missing(self) -> bool:
        """Whether the worker may have no connection, and has renewed no lock since it lost the connection.

        A worker that shuts down properly closes its waiting connection before it ends its jobs (classes/worker.js 5.81,
        whenCurrentJobsFinished): its next renewal of a lock shows that it was not killed.
        """
        return 0 < self.missing_ms >= self.renewed_ms and not self.renews_no_lock

    @property
    def may_be_late(self) -> bool:
        """Whether it is unknown if an unnamed worker with late locks is alive, because no lockDuration is stored."""
        return self.is_late and not (self.name or self.renewed_ms or self.missing_ms or self.renews_no_lock)


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
    converted_fields = ("backoff_ms", "backoff_cap_ms")
    finding_remedies = {
        "no-live-worker": "start the program whose Worker serves {queue}",
        "oldest-ready": "start more workers of {queue}, or give them more concurrency",
        "backlog-grows": "start more workers of {queue}, or give them more concurrency",
        "due-not-dispatched": "start a Worker of {queue}: workers alone move what is due",
        "expired-not-reaped": "",
    }
    commands = ("CLIENT INFO", "CLIENT LIST")
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
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.works_on_cluster = (
            re.search(r"\{[^}]+\}", self.prefix) is not None
        )  # a hash tag puts all keys into one slot
        literal = re.sub(r"(\W)", r"%\1", self.prefix)
        others = () if self.is_explicit else (r"^[^{]+:[^:{]+:meta$",)  # without the many keys of native queues
        self.key_patterns = (f"^{literal}:[^:]+:meta$", *others)
        self._denied_s: LruCache[bytes, float] = LruCache(MAX_DENIED)  # by `meta` key: when an ACL denied it
        self._cached_queues: tuple[str, ...] = ()  # queue names; replaced, never mutated, because threads read it
        self._connections: dict[str, list[_WorkerConnection]] | RqtuiError | None = None  # by queue; None: not read yet
        self._connections_read_s = float("-inf")
        self._is_list_long = False
        self._queues_without_runs: set[str] = set()  # queues without running jobs at the last count
        self._runners: dict[str, dict[bytes, _Runners]] = {}  # by queue and job
        self._holders: dict[str, dict[str, _Holder]] = {}  # by queue and uuid of the worker
        self._has_seen_names = False  # whether a worker's connection has a name: some servers refuse them
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
        if names and not isinstance(self._connections, dict):
            self._refresh_connections(client)
        return names

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a queue's `meta` key has BullMQ's fields."""
        return bool(self.find_queues_of_keys(client, [to_bytes(self.keys(queue)["meta"])]))

    # -- workers and schedules ------------------------------------------------------------------------------------

    def _build_connection_calls(self, max_age_s: float) -> tuple[Call, ...]:
        """Build the commands that list all connections of the server, unless the last list is young enough.

        Scripts may not run these commands. The reply is for all queues: several requests of a round trip need one.
        """
        max_age_s *= LONG_LIST_FACTOR if self._is_list_long else 1
        now_s = time.monotonic()
        if now_s - self._connections_read_s < max_age_s:
            return ()
        self._connections_read_s = now_s
        key = self.keys(next(iter(self._cached_queues), "any"))["meta"]
        return tuple(scripts.build_command(words, key) for words in self.commands)

    def _refresh_connections(self, client: Any) -> None:
        """Read the connections of workers, at most once per `WORKER_REFRESH_S`."""
        self._store_connections(scripts.send_calls(client, self._build_connection_calls(WORKER_REFRESH_S)))

    def _store_connections(self, replies: Replies) -> None:
        """Store the connections of workers by queue, or the error if an ACL denies the list of connections."""
        if not replies:
            return
        try:
            connections = _parse_worker_connections(self.prefix, replies)
        except RqtuiError as error:  # without the right to list clients the workers are unknown
            log.debug("the list of connections cannot be read: %s", error)
            self._connections = error
            return
        self._is_list_long = len(unwrap_reply(replies[1]).values["reply"]) > LONG_LIST_BYTES
        self._has_seen_names = self._has_seen_names or bool(connections)
        self._connections = {}
        for connection in connections:
            self._connections.setdefault(connection.queue, []).append(connection)

    def probe_interval_s(self, queue: str) -> float | None:
        """Return a short interval while it is open whether a worker of the queue was killed."""
        return DOUBT_PROBE_S if any(holder.is_missing for holder in self._list_holders(queue)) else None

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]]:
        """Build the request for the findings about one queue, and for the connections of workers if they are due."""
        call = self.build_call("faults", queue, {"from_id": self._probe_cursors.get(queue)})
        clients = self._build_connection_calls(WORKER_REFRESH_S)
        roster = () if queue in self._queues_without_runs else (self.build_call("roster", queue, {}),)

        def parse_findings(replies: Replies) -> tuple[Finding, ...]:
            self._store_connections(replies[1 : 1 + len(clients)])
            if isinstance(replies[0], Reply):
                self._probe_cursors[queue] = replies[0].values["next_id"]
            if not roster:
                self._holders.pop(queue, None)
                return self._parse_findings(queue, replies[0])
            return (*self._parse_findings(queue, replies[0]), *self._find_disconnected_workers(queue, replies[-1]))

        return Request((call, *clients, *roster), parse_findings)

    def _find_disconnected_workers(self, queue: str, reply: Reply | Exception) -> tuple[Finding, ...]:
        """Report running jobs whose worker has no connection, or renews no lock, although their locks are not over."""
        if isinstance(reply, Exception) or not isinstance(self._connections, dict):
            return ()
        now_ms: Any = reply.values["now_ms"]
        runs = [run for run in convert_rows_to_dicts(reply) if run["lock"] and run["left_ms"] >= 0]
        clients = self._connections.get(queue, [])
        connected = {client.name for client in clients if client.name}
        unnamed_count = sum(not client.name for client in clients)
        second_runs = self._find_second_runs(queue, [run for run in runs if run["pb"]], connected)
        self._update_holders(queue, runs, connected, unnamed_count, now_ms)
        holders = self._list_holders(queue)
        findings = (
            *_describe_silent_workers(queue, [holder for holder in holders if holder.was_killed]),
            *_describe_missing_workers(queue, [holder for holder in holders if holder.is_missing], unnamed_count),
            *_describe_late_locks(queue, [holder for holder in holders if holder.may_be_late]),
        )
        return (*findings, *second_runs)

    def _list_holders(self, queue: str) -> list[_Holder]:
        return list(self._holders.get(queue, {}).values())

    def _update_holders(
        self, queue: str, runs: Sequence[Mapping[str, Any]], connected: Collection[str], unnamed_count: int, now_ms: int
    ) -> None:
        """Update what is known of the workers that hold jobs, by the uuid in their locks.

        `connected` are the names of connected workers, `unnamed_count` is the number of the others. A worker that is
        younger than the list of connections is not missing.
        """
        runs_by_holder: dict[str, list[Mapping[str, Any]]] = {}
        for run in runs:
            runs_by_holder.setdefault(run["lock"].partition(":")[0], []).append(run)
        previous = self._holders.get(queue, {})
        holders = {uuid: _Holder.update(previous.get(uuid), held, now_ms) for uuid, held in runs_by_holder.items()}
        unnamed_living = sum(not holder.name and not holder.renews_no_lock for holder in holders.values())
        is_list_new = time.monotonic() - self._connections_read_s < VIEW_REFRESH_S
        for uuid, holder in holders.items():
            is_unconnected = holder.name not in connected if holder.name else unnamed_living > unnamed_count
            # Some servers refuse the names of connections.
            is_missing = self._has_seen_names and is_unconnected and (is_list_new or uuid in previous)
            holders[uuid] = holder._replace(missing_ms=(holder.missing_ms or now_ms) if is_missing else 0)
        self._holders[queue] = holders

    def _find_second_runs(
        self, queue: str, runs: Sequence[Mapping[str, Any]], connected: Collection[str]
    ) -> tuple[Finding, ...]:
        """Find jobs that a second worker runs while the first one is still connected: its event loop was blocked.

        A job stores only its last worker, so this process must have seen the first run.
        """
        now_s = time.monotonic()
        seen = {id: run for id, run in self._runners.get(queue, {}).items() if now_s - run.seen_s < _RUNNERS_S}
        self._runners[queue] = seen
        twice = []
        for run in runs:
            before = seen.get(run["id"], _Runners("", run["pb"], now_s))
            first = before.last if before.last != run["pb"] else before.first
            seen[run["id"]] = _Runners(first, run["pb"], now_s)
            if first in connected:
                twice.append((run["id"], first, run["pb"]))
        if not twice:
            return ()
        example_id, first, last = twice[0]
        such = f"{len(twice)} runs twice, such as {to_text(example_id)}"
        text = f"{such}: worker {first} lost the lock, and {last} took the job"
        remedy = (
            f"find what blocks the event loop of {first} for longer than the lock (30s), or set a longer lockDuration"
        )
        return (Finding("runs-twice", "warning", queue, text, remedy, ids=(example_id,), jobs=len(twice)),)

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the workers connected to a queue, and for unnamed workers that hold locks of jobs."""
        connection_calls = self._build_connection_calls(VIEW_REFRESH_S)

        def parse_workers(replies: Replies) -> tuple[Worker, ...]:
            self._store_connections(replies[:-1])
            roster = unwrap_reply(replies[-1])
            if isinstance(self._connections, RqtuiError):
                raise self._connections
            clients = (self._connections or {}).get(queue, [])
            workers = _build_workers(queue, clients, convert_rows_to_dicts(roster), roster.values["now_ms"])
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
                    _build_schedule(queues[batch * QUEUES_PER_CALL + row["queue"] - 1], row, now_ms)._replace(
                        system=self.name
                    )
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
        (self._queues_without_runs.discard if counted.count_in_place("active") else self._queues_without_runs.add)(
            queue
        )
        totals = self.counters(reply.values)  # the value named failed is a place, not a counter
        limits = {name: reply.values[name] for name in _LIMITS if reply.values[name]}
        connections = self._connections
        workers = len(connections.get(queue, ())) if isinstance(connections, dict) else None
        return counted._replace(
            is_paused=bool(reply.values["is_paused"]), workers=workers, counters={**totals, **limits}
        )

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
        added_ms, started_ms, ended_ms = (_parse_time_ms(row[field]) for field in _TIMES)
        traces = _parse_stack_traces(row["trace"])
        limit = _parse_json_object(row["opts"]).get("attempts")
        attempts = _parse_int(row["atm"]) or 0
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
            due_ms=_parse_due_ms(row["score"]) if place_of_job.name == "delayed" else None,
            deadline_ms=now_ms + max(0, row["lock_ms"]) if is_reserved else None,
            reserved_ms=started_ms if place_of_job.state in (State.RESERVED, State.DONE) else None,
            since_ms=_find_state_start_ms(place_of_job, row, now_ms),
            priority=_parse_int(row["priority"]) or 0,
            attempts=attempts,
            max_attempts=max(1, limit) if isinstance(limit, int) else None,
            worker=row["pb"] or (to_text(row["lock"].partition(b":")[0]) if is_reserved else ""),
            error="" if place_of_job.state is State.DONE else _choose_error_text(to_text(row["error"]), traces),
            history=_build_failed_attempts(traces, started_ms or 0, ended_ms or 0, row["pb"]) if "more" in row else (),
            problem=safe("; ".join(self._find_job_problems(queue, place_of_job.name, row))),
            call=_format_job_call(name, data) if name else "",
            facts=tuple(self._build_job_facts(queue, is_reserved, attempts, row)),
            ended_ms=ended_ms if place_of_job.state is State.DONE else None,
            waited_ms=_compute_wait_ms(row) if attempts <= 1 and place_of_job.state in _STARTED else None,
            ran_ms=max(0, ended_ms - started_ms) if ended_ms and started_ms and place_of_job.state in _ENDED else None,
        )

    def _find_job_problems(self, queue: str, place: str, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each problem of a job, such as a missing hash or invalid JSON."""
        size = row["size"]
        if size == _NOT_A_HASH:
            key = self.build_key_prefix(queue) + to_text(row["id"])
            yield f"its key {key} holds what is no hash: another program uses this name"
            return
        if size == _NO_HASH:
            yield "its hash is missing: a worker still runs it, without a name and without data"
            return
        if size == _NO_DATA:
            yield "its hash has no data: no worker can run it"
        elif row["data"] and not _is_valid_json(row["data"]):
            yield "its data is no JSON: a worker takes it, cannot read it and stalls; it never fails by itself"
        if row["opts"] and not _parse_json_object(row["opts"]) and row["opts"] != b"{}":
            yield "its opts are no JSON object: no worker can read them"
        if place == "delayed" and _parse_float(row["score"]) is not None and _parse_due_ms(row["score"]) is None:
            yield f"its score {row['score']} is no due time in ms × {DUE_FACTOR}"
        invalid_times = [name for name in _TIMES if row[name] and _parse_time_ms(row[name]) is None]
        if invalid_times:
            yield f"{_TIMES[invalid_times[0]]} is no time in ms: {row[invalid_times[0]][:40]!r}"
        if "places" in row:
            places = row["places"].split()
            if len(places) > 1:
                yield f"it is in {' and in '.join(places)}"
            elif not places:
                yield "it is in no place of the queue: no worker will find it"

    def _build_job_facts(self, queue: str, is_reserved: bool, attempts: int, row: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield the facts about a job that only BullMQ has, most useful first."""
        details: Sequence[Mapping[str, Any]] = row.get("more", ())
        fields = {to_text(detail["name"]): detail["value"] for detail in details if detail["kind"] == "field"}
        if "progress" in fields:
            yield _build_progress_fact(fields.pop("progress"))
        stalls, starts, lock_ms = row["stc"], _parse_int(row["ats"]), row["lock_ms"]
        yield from build_facts(
            (
                ("will fail", row["defa"], "text"),
                ("stalled", _STALLS.get(stalls, f"{stalls} times"), "text"),
                ("starts", "" if starts in (None, attempts + is_reserved) else str(starts), "text"),
                ("lock lives", lock_ms if is_reserved and lock_ms >= 0 else None, "duration"),
                ("lock", "none: no worker runs it" if is_reserved and lock_ms < 0 else "", "text"),
                ("scheduler", to_text(row["rjk"]), "text"),
                ("dedup id", to_text(row["deid"]), "text"),
            )
        )
        if "more" in row:
            yield from self._build_detail_facts(queue, row["opts"], details, fields)

    def _build_detail_facts(
        self, queue: str, opts: bytes, details: Sequence[Mapping[str, Any]], fields: dict[str, bytes]
    ) -> Iterator[Fact]:
        """Yield the facts that only `show` reads of a single job: its result, flow, log, options and other fields."""
        if "returnvalue" in fields:
            yield Fact("result", to_text(fields.pop("returnvalue")), "json")
        yield from self._build_flow_links(queue, details)
        yield from _build_log_facts(details)
        if _parse_json_object(opts).keys() - {"attempts"}:
            yield Fact("opts", to_text(opts), "json")
        for detail in details:
            if detail["kind"] == "long":
                yield Fact(to_text(detail["name"]), f"{to_text(detail['value'])} bytes: too long to show")
        for name, value in fields.items():
            at_ms = _parse_time_ms(to_text(value)) if name.endswith(("On", "At")) else None
            yield Fact(name, to_text(value)) if at_ms is None else Fact(name, at_ms, "instant")

    def _build_flow_links(self, queue: str, details: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        """Yield links to the parents of a job, the nearest first, and to its children and their children."""
        for number, detail in enumerate(detail for detail in details if detail["kind"] == "parent"):
            yield self._build_job_link("parent" if number == 0 else "its parent", detail["name"], queue)
        labels = {detail["of"]: to_text(detail["value"]) for detail in details if detail["kind"] == "name"}
        child_counts = {to_text(detail["name"]): detail["value"] for detail in details if detail["kind"] == "children"}
        listed = 0
        for detail in details:
            if detail["kind"] == "child":
                listed += 1
                label = _CHILD_LABELS.get(labels.get(detail["name"]) or to_text(detail["value"]), "child")
                yield self._build_job_link(label, detail["name"], queue)
                for grandchild in details:
                    if grandchild["kind"] == "below" and grandchild["of"] == detail["name"]:
                        grandchild_label = _CHILD_LABELS.get(to_text(grandchild["value"]), "child")
                        yield self._build_job_link(f"└ {grandchild_label}", grandchild["name"], queue)
        total = sum(int(value) for value in child_counts.values())
        if total > listed:
            yield Fact(
                "children",
                ", ".join(f"{to_text(value)} {label}" for label, value in child_counts.items() if value != b"0"),
            )

    def _build_job_link(self, name: str, key: bytes, queue: str) -> Fact:
        """Build a link to another job from its key. A key with another prefix is shown as text."""
        own_prefix = to_bytes(self.prefix) + b":"
        queue_bytes, colon, id = key[len(own_prefix) :].partition(b":")
        if not key.startswith(own_prefix) or not colon:
            return Fact(name, to_text(key))
        return Fact(name, id, "ref", "" if to_text(queue_bytes) == queue else to_text(queue_bytes))

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the attempts and the backoff that a job's `opts` set, for a move to the native queue.

        Jobs of a flow and the next job of a scheduler are refused, because other jobs need them.
        """
        facts = {fact.name: fact.value for fact in job.facts}
        obstacle = next((_OBSTACLES[name] for name in _OBSTACLES if name in facts), "")
        opts = _parse_json_object(to_bytes(str(facts.get("opts", "{}"))))
        backoff_ms, cap_ms, backoff_loss = _parse_backoff(opts.get("backoff"))
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
        _validate_job_data(body)
        return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job. An option in `opts` that has a column of its own is moved to it.

        The other options stay JSON, and a backoff is added to them. Raises UsageError for an option that is wrong or
        given twice.
        """
        given_columns = {name: value for name, value in row.items() if value not in (None, "", b"")}
        base_ms, cap_ms = (given_columns.pop(name, None) for name in self.converted_fields)
        opts = _parse_job_options(given_columns.pop("opts", b""))
        if base_ms is not None:
            if "backoff" in opts:
                raise UsageError("bullmq: backoff is given twice, by itself and in opts.")
            opts = {**opts, "backoff": _build_backoff_option(base_ms, cap_ms)}
        columns = _split_job_options(opts)
        if twice := sorted(columns.keys() & given_columns.keys()):
            raise UsageError(f"bullmq: {_OPTIONS[twice[0]]} is given twice, by itself and in opts.")
        return {"id": b"", **columns, **given_columns, "body": self.encode_body(bytes(given_columns.get("body", b"")))}  # type: ignore[call-overload]


SYSTEM = BullMQ


# -- workers and schedules ---------------------------------------------------------------------------------------------


class _WorkerConnection(NamedTuple):
    """A connection on which a worker waits for jobs of a queue. `name` is empty for an unnamed worker."""

    queue: str
    name: str
    address: str
    since_s: int
    is_waiting: bool


def _parse_worker_connections(prefix: str, replies: Replies) -> list[_WorkerConnection]:
    """Return the connections of workers among all connections to this database.

    Raises the error that Redis replied instead of a list. A worker names its connection `<prefix>:<base64 of the
    queue>`, followed by `:w:<name>` if the worker has a name (classes/worker.js 6.7). Other connections of its program
    have no such name.
    """
    own_fields, client_lines = (unwrap_reply(reply).values["reply"] for reply in replies[:2])
    database = _find_client_field(b"db", own_fields) or b"0"
    name_prefix = b" name=" + to_bytes(prefix) + b":"
    connections = []
    for line in client_lines.splitlines():
        if name_prefix not in line:
            continue
        full_name = _find_client_field(b"name", line)
        encoded, _, name = full_name[len(name_prefix) - len(b" name=") :].partition(b":")
        if _find_client_field(b"db", line) == database and (not name or name.startswith(b"w:")):
            try:
                queue = to_text(base64.b64decode(encoded, validate=True))
            except ValueError:
                continue
            is_waiting = b"b" in _find_client_field(b"flags", line)
            age_s = _parse_int(to_text(_find_client_field(b"age", line))) or 0
            address = to_text(_find_client_field(b"addr", line))
            connections.append(_WorkerConnection(queue, to_text(name[2:]), address, age_s, is_waiting))
    return connections


def _find_client_field(name: bytes, line: bytes) -> bytes:
    """Return the value of one field in a line of CLIENT LIST, `addr=10.0.0.1:5000 …`; empty if it is missing."""
    _before, found, rest = (b" " + line).partition(b" " + name + b"=")
    return rest.split(b" ", 1)[0].rstrip() if found else b""


def _describe_silent_workers(queue: str, holders: Sequence[_Holder]) -> Iterator[Finding]:
    """Yield the finding about jobs of workers that renew no lock and may have no connection."""
    if holders:
        clause = "which renews no lock" if len(holders) == 1 else "which renew no lock"
        cause = "killed, or their event loop is blocked" if any(not holder.name for holder in holders) else "killed"
        yield _build_worker_finding(queue, holders, clause, f"{cause}: they")


def _describe_missing_workers(queue: str, holders: Sequence[_Holder], unnamed_count: int) -> Iterator[Finding]:
    """Yield the findings about jobs of workers without a connection that have renewed no lock since.

    Of unnamed workers only the numbers of workers and of connections are known. Until a lock is late, a worker may also
    be stopping the polite way, which is information.
    """
    for is_late in (True, False):
        cause = "killed: they" if is_late else "killed, or stopping after these jobs: if killed, they"
        severity = "warning" if is_late else "info"
        chosen = [holder for holder in holders if holder.is_late == is_late]
        if named := [holder for holder in chosen if holder.name]:
            clause = "which has no connection" if len(named) == 1 else "which have no connection"
            yield replace(_build_worker_finding(queue, named, clause, cause), severity=severity)
        if unnamed := [holder for holder in chosen if not holder.name]:
            connected = str(unnamed_count) if unnamed_count else "none"
            clause = "which has no connection" if len(unnamed) == 1 else f"of which {connected} can have a connection"
            yield replace(_build_worker_finding(queue, unnamed, clause, cause), severity=severity)


def _describe_late_locks(queue: str, holders: Sequence[_Holder]) -> Iterator[Finding]:
    """Yield the information that it is unknown whether unnamed workers are alive: no lockDuration is stored."""
    if holders:
        clause = f"whose locks are late if their lockDuration is {_LOCK_MS // 1000} s"
        finding = _build_worker_finding(queue, holders, clause, "")
        remedy = "look again in 15 s: if the locks are renewed, the worker is alive"
        yield replace(finding, kind="late-locks", severity="info", remedy=remedy)


def _build_worker_finding(queue: str, holders: Sequence[_Holder], clause: str, cause: str) -> Finding:
    """Build the finding about jobs of workers that may have stopped. `clause` ends the sentence about the workers."""
    ids = [id for holder in holders for id in holder.ids]
    names = sorted({holder.name for holder in holders if holder.name})
    others = len(holders) - 1
    if names:
        workers = f"worker {names[0]}{f' and {others} more' if others else ''}"
    else:
        workers = f"{format_quantity(len(holders), 'worker')} without a name"
    left_s = -(-max(holder.left_ms for holder in holders) // 1000)
    return Finding(
        "worker-gone",
        "warning",
        queue,
        f"{len(ids)} held by {workers}, {clause}, such as {to_text(ids[0])}",
        f"{cause} come back when their locks expire, within {left_s} s, and a worker runs its stalled check",
        ids=(ids[0],),
        key="w",
        jobs=len(ids),
    )


def _build_workers(
    queue: str, clients: Sequence[_WorkerConnection], runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Iterator[Worker]:
    """Yield the workers of a queue: named ones by their connections, unnamed ones by their locks.

    An unnamed worker without a lock is listed by the address of its connection.
    """
    runs_by_worker: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        runs_by_worker.setdefault(run["pb"] or run["lock"].partition(":")[0], []).append(run)
    named_clients = [client for client in clients if client.name]
    name_counts: Counter[str] = Counter()
    for client in named_clients:
        name_counts[client.name] += 1
        name = client.name if name_counts[client.name] == 1 else f"{client.name} {client.address}"
        yield _build_worker(queue, name, client, runs_by_worker.get(name, ()), now_ms)
    unnamed_locks = [
        lock for lock, lock_runs in runs_by_worker.items() if lock and not any(run["pb"] for run in lock_runs)
    ]
    for lock in unnamed_locks:
        yield _build_worker(queue, lock, None, runs_by_worker[lock], now_ms)
    unnamed_clients = sorted(
        (client for client in clients if not client.name), key=lambda client: not client.is_waiting
    )
    for client in unnamed_clients[: max(0, len(unnamed_clients) - len(unnamed_locks))]:
        yield _build_worker(queue, client.address, client, (), now_ms)


def _build_worker(
    queue: str, name: str, client: _WorkerConnection | None, runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Worker:
    """Build a worker that has a connection or renews a lock. Either proves that the worker is alive."""
    left_ms = [run["left_ms"] for run in runs if run["left_ms"] >= 0]
    facts = build_facts(
        (
            ("runs", str(len(runs)) if len(runs) > 1 else "", "text"),
            ("locks live", min(left_ms, default=None), "duration"),
            ("connection", client.address if client else "", "text"),
        )
    )
    return Worker(
        name,
        queue,
        now_ms,
        _LOCK_MS,
        host=client.address.rpartition(":")[0] if client else "",
        started_ms=now_ms - 1000 * client.since_s if client else None,
        job=runs[-1]["id"] if runs else b"",
        state="runs" if runs else "waits" if client and client.is_waiting else "connected",
        facts=tuple(facts),
    )


_LOCK_MS = 30_000  # classes/worker.js 6.7: lockDuration


def _build_schedule(queue: str, row: Mapping[str, Any], now_ms: int) -> Schedule:
    """Build a schedule from the hash of a job scheduler.

    BullMQ adds the next job of a scheduler when the previous one starts, so a missing job stops the scheduler.
    """
    next_ms = _parse_time_ms(row["next_ms"])
    every, limit, count, ends_ms = (_parse_int(row[name]) for name in ("every", "limit", "count", "end_date"))
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
        BullMQ.name,
        queue,
        pattern,
        _format_job_call(row["name"] or name, row["data"]),
        next_ms,
        enabled=not (is_over and is_missing),
        problem=problem,
    )


# -- jobs --------------------------------------------------------------------------------------------------------------


def _parse_int(text: str) -> int | None:
    """Parse an integer of at most 15 digits; None for any other text."""
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _parse_float(text: str) -> float | None:
    """Parse a finite number; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _parse_time_ms(text: str) -> int | None:
    """Parse a time in ms since 1970; None for a number that is no plausible time."""
    number = _parse_float(text)
    return round(number) if number is not None and _EARLIEST_MS <= number < _LATEST_MS else None


def _parse_due_ms(score: str) -> int | None:
    """Parse a score of `delayed` to the due time in ms; None if it is no plausible time."""
    number = _parse_float(score)
    due_ms = 0 if number is None else round(number // DUE_FACTOR)
    return due_ms if _EARLIEST_MS <= due_ms < _LATEST_MS else None


def _find_state_start_ms(place: Place, row: Mapping[str, Any], now_ms: int) -> int | None:
    """Return since when a job is ready, or when it ended; None for delayed and running jobs."""
    if place.state is State.RESERVED or place.name == "delayed":
        return None
    if place.state is not State.READY:
        ended_ms = _parse_time_ms(row["finished_on"])
        return _parse_time_ms(row["score"]) if ended_ms is None else ended_ms
    delay_ms = _parse_json_object(row["opts"]).get("delay")
    due_ms = (_parse_time_ms(row["timestamp"]) or 0) + (delay_ms if isinstance(delay_ms, int) else 0)
    since_ms = max(due_ms, _parse_time_ms(row["processed_on"]) or 0)
    return min(since_ms, now_ms) if since_ms else None


_ENDED = (State.DONE, State.DEAD)
_STARTED = (State.RESERVED, *_ENDED)


def _compute_wait_ms(row: Mapping[str, Any]) -> int | None:
    """Return how long a job was ready before its first run; None if it ran before its delay was over (`promote`)."""
    added_ms, started_ms = _parse_time_ms(row["timestamp"]), _parse_time_ms(row["processed_on"])
    delay_ms = _parse_json_object(row["opts"]).get("delay")
    if added_ms is None or started_ms is None:
        return None
    wait_ms = started_ms - added_ms - (int(delay_ms) if isinstance(delay_ms, int | float) else 0)
    return wait_ms if wait_ms >= 0 else None


def _parse_json(raw: bytes) -> object:
    """Parse JSON to a value; None if the bytes are no JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=2000)
def _is_valid_json(raw: bytes) -> bool:
    return raw.strip() == b"null" or _parse_json(raw) is not None


def _parse_backoff(backoff: object) -> tuple[int, int, str]:
    """Parse the `backoff` option of a job. Returns base and cap in ms, and how the native queue would differ."""
    kind, delay = (backoff.get("type"), backoff.get("delay")) if isinstance(backoff, dict) else ("fixed", backoff)
    delay_ms = min(int(delay), MAX_BACKOFF_MS) if isinstance(delay, int | float) and delay > 0 else 0
    if not backoff or kind == "fixed":
        return delay_ms, delay_ms, ""
    if kind == "exponential":
        return delay_ms, MAX_BACKOFF_MS, ""
    return delay_ms, delay_ms, f"its back-off {str(kind)[:60]!r} is a function of its worker"


@lru_cache(maxsize=2000)
def _parse_json_object(raw: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; an empty one for any other bytes."""
    value = _parse_json(raw)
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=2000)
def _format_job_call(name: str, data: bytes) -> str:
    """Format a job as a call, `send({to: "a@b.c"})`. Data that is empty or no JSON gives a call without arguments."""
    value = _parse_json(data) if data else None
    arguments = "" if value in (None, {}, []) else _format_javascript(value)
    call = f"{name}({arguments})"
    return call if len(call) <= _MAX_CALL_LENGTH else call[: _MAX_CALL_LENGTH - 1] + "…"


_BARE = re.compile(r"[A-Za-z_$][\w$]*")


def _format_javascript(value: object) -> str:
    """Format a value as JavaScript source, with unquoted property names where possible."""
    if isinstance(value, dict):
        pairs = (
            f"{k if _BARE.fullmatch(k) else json.dumps(k, ensure_ascii=False)}: {_format_javascript(v)}"
            for k, v in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_javascript, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _parse_stack_traces(raw: bytes) -> tuple[str, ...]:
    """Parse the stack traces of a job's failed attempts, which are a JSON list, oldest first."""
    value = _parse_json(raw) if raw else None
    return tuple(trace for trace in value if isinstance(trace, str)) if isinstance(value, list) else ()


def _choose_error_text(reason: str, traces: Sequence[str]) -> str:
    """Return the last stack trace of a job if it contains the failure reason, else the reason alone."""
    last = traces[-1] if traces else ""
    return last if last and reason[:200] in last else reason


def _build_failed_attempts(traces: Sequence[str], started_ms: int, ended_ms: int, worker: str) -> tuple[Attempt, ...]:
    """Build the failed attempts of a job, oldest first. BullMQ stores times and worker only for the last one."""
    earlier = tuple(Attempt(0, 0, "", trace) for trace in traces[:-1])
    return (*earlier, *(Attempt(started_ms, ended_ms, worker, trace) for trace in traces[-1:]))


def _build_progress_fact(raw: bytes) -> Fact:
    """Build the fact of a job's progress: a number is a percentage, any other value is shown as JSON."""
    number = _parse_float(to_text(raw))
    return Fact("progress", f"{number:g} %") if number is not None else Fact("progress", to_text(raw), "json")


def _build_log_facts(details: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield the lines of a job's log as one fact, whose label has the number of all lines if not all were read."""
    lines = [to_text(detail["value"]) for detail in details if detail["kind"] == "log"]
    if lines:
        line_count = next((int(detail["value"]) for detail in details if detail["kind"] == "logged"), 0)
        yield Fact("log" if line_count <= len(lines) else f"log, {line_count} lines", "\n".join(lines), "trace")


_STALLS = {"": "", "0": "", "1": "once"}  # by the field `stc`
_TIMES = {"timestamp": "timestamp", "processed_on": "processedOn", "finished_on": "finishedOn"}
_CHILD_LABELS = {  # labels of a job's children by their state
    "waits": "waits for",
    "processed": "child done",
    "ignored": "child ignored",
    "failed": "child failed",
    "gone": "child gone",
}
_OBSTACLES = {
    "scheduler": "it is the next job of a scheduler, which would stop without it",
    **dict.fromkeys(("parent", "its parent"), "it belongs to a flow: its parent waits for it, or uses its result"),
    **dict.fromkeys(
        (*_CHILD_LABELS.values(), "child", "children"), "it belongs to a flow: it needs its children's results"
    ),
}


# -- new jobs ----------------------------------------------------------------------------------------------------------

_OPTIONS = {  # the columns of `enqueue`, as BullMQ calls them (classes/job.js 6.7, validateOptions)
    "id": "jobId",
    "delay_ms": "delay",
    "priority": "priority",
    "max_attempts": "attempts",
    "lifo": "lifo",
}
_STORED_NAMES = {"keepLogs": "kl"}  # options that BullMQ stores under another name (utils/index.js 6.7, optsEncodeMap)
_REFUSED_OPTIONS = frozenset(
    ["repeat", "parent", "deduplication", "debounce", "de", "telemetry", "tm", "rjk", "repeatJobKey", "prevMillis"]
)


def _validate_job_data(body: bytes) -> None:
    """Raise UsageError for data that `JSON.parse` refuses, because a job with such data would stall and never fail."""
    try:
        json.loads(body.decode("utf-8"), parse_constant=_refuse_json_constant)
    except (ValueError, RecursionError):
        raise UsageError(
            "bullmq: the data of a job must be JSON: a worker could not read this, and the job would stall "
            'for ever. Put a text in quotes: "hello"; rqtui put accepts it with --raw.'
        ) from None


def _refuse_json_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python parses but which are no JSON."""
    raise ValueError(name)  # NaN and Infinity are no JSON


def _build_backoff_option(base_ms: object, cap_ms: object) -> dict[str, object]:
    """Build the option `backoff` of a job: fixed if base and cap are equal, else exponential.

    Raises UsageError for another cap, because BullMQ doubles the wait without end. Source: classes/backoffs.ts 6.2.
    """
    if cap_ms not in (None, base_ms):
        raise UsageError(
            "bullmq: a backoff has no longest wait: BullMQ doubles the wait after each failure. Give --backoff 1s for "
            "that, or --backoff 1s..1s for the same wait each time."
        )
    return {"type": "exponential" if cap_ms is None else "fixed", "delay": base_ms}


def _parse_job_options(raw: object) -> dict[str, object]:
    """Parse the `opts` of a new job, which are a JSON object or a dict. Raises UsageError for anything else."""
    if not raw:
        return {}
    try:
        opts = json.loads(raw, parse_constant=_refuse_json_constant) if isinstance(raw, str | bytes) else raw
    except (ValueError, RecursionError):
        opts = None
    if not isinstance(opts, dict):
        raise UsageError('bullmq: opts are a JSON object, such as {"attempts": 3}.')
    return dict(opts)


def _split_job_options(opts: dict[str, object]) -> dict[str, object]:
    """Split the `opts` of a new job into `enqueue` columns and the remaining options as JSON.

    Raises UsageError for an option of a wrong type, and for one that only the application itself may set.
    """
    if refused_options := [name for name in opts if name in _REFUSED_OPTIONS]:
        raise UsageError(f"bullmq: only the application itself adds a job with the option {refused_options[0]}.")
    columns = {column: opts.pop(name) for column, name in _OPTIONS.items() if name in opts}
    for column, value in columns.items():
        wanted_type = {"id": str, "lifo": bool}.get(column, int)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (is_number if wanted_type is int else isinstance(value, wanted_type)):
            description = {str: "a text", bool: "true or false"}.get(wanted_type, "a whole number")
            raise UsageError(f"bullmq: {_OPTIONS[column]} in opts is {description}, not {value!r:.60}.")
    if opts:
        stored = {_STORED_NAMES.get(name, name): value for name, value in opts.items()}
        columns["opts"] = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return columns
