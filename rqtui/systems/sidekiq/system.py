"""Read and change Sidekiq queues (Ruby, Sidekiq 6.4 to 8).

Sidekiq has a list per queue, three sorted sets for all queues, and hashes of what each process runs. SET `queues`;
LIST `queue:<q>` of jobs in JSON, LPUSH in, BRPOP out. ZSETs `schedule` and `retry` by due time, `dead` by time of
death, float seconds. A process writes every 10 s (6.4: 5) the HASH `<identity>` (`info`, `busy`, `beat`, …) and
`<identity>:work` (6.x: `:workers`): thread → `{"queue", "payload", "run_at"}`; `payload` is the job's exact text. Both
expire after 60 s, and the jobs of a killed process are lost with them. Times are ms in Sidekiq 8, float seconds before.
All keys begin with `<namespace>:` if redis-namespace was used, up to Sidekiq 6.
Operators' page: `docs/systems/sidekiq.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rqtui.errors import UsageError
from rqtui.model import (
    Attempt,
    Fact,
    Finding,
    Job,
    KindStatistics,
    MigrationTerms,
    Outcome,
    Page,
    Place,
    Queue,
    Schedule,
    State,
    Worker,
    WorkerList,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.entries import HEAD_BYTES, TAIL_BYTES, Entry
from rqtui.system_base.foreign_system import EntrySystem, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.option_values import NAME_OR_NOTHING
from rqtui.system_base.stored_values import parse_count
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.systems.sidekiq.job_format import READ_BYTES, build_run_facts, convert_time_ms, decode_job, find_job_problems
from rqtui.systems.sidekiq.lost_jobs import LATE_MS, TTL_MS, LostJobs
from rqtui.systems.sidekiq.new_jobs import build_enqueue_columns, has_ms_times, rewrite_for_push, rewrite_for_queue
from rqtui.systems.sidekiq.processes import build_worker
from rqtui.systems.sidekiq.schedules import SCHEDULE_KEYS, build_schedule
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe
from rqtui.verbs import TO_QUEUE

QUEUES_PER_CALL = 200  # queues per call of `tally`
MAX_SEARCHED_JOBS = 1000  # jobs searched for an id at each end of a place
MAX_MISSED = 1000
_SEARCHED_PLACES = ("queue", "retry", "schedule", "dead")
_MAX_SCANNED_QUEUES = 10_000  # names scanned for one queue, in one step
_RETRIES = 25  # lib/sidekiq/job_retry.rb: DEFAULT_MAX_RETRY_ATTEMPTS
_BACKOFF_MS, _BACKOFF_CAP_MS = 30_000, 331_791_000  # the first waits 15 to 30 s, the last of 25 up to 24^4 + 15 s
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_MARKER_TYPES = {"schedule": "zset", "retry": "zset", "dead": "zset", "processes": "set"}
_NO_COUNTS = {name: 0 for name in ("schedule", "retry", "dead", "work", "expired", "workers", "overdue")} | {
    "due_ms": -1
}
_KEPT_HERE = Fact("kept by", "this rqtui alone: its process was killed, and Redis has it no more")
_PROMISES = {
    "bid": "its batch",
    "unique_for": "its unique lock",
    "unique_token": "its unique lock",
    "lock": "its unique lock",
    "lock_digest": "its unique lock",
    "expires_in": "its time of expiry",
    "expiry": "its time of expiry",
    "retry_for": "the time for which it is retried",
}


class Sidekiq(EntrySystem):
    """Sidekiq queues (Ruby) with one namespace."""

    name = "sidekiq"
    derived_counters = frozenset({"in"})
    places = (
        Place("schedule", State.SCHEDULED, "<namespace>schedule", "zset", "due s", is_shared=True),
        Place("retry", State.SCHEDULED, "<namespace>retry", "zset", "due s", is_shared=True),
        Place("queue", State.READY, "<namespace>queue:<queue>", "list"),
        Place("work", State.RESERVED, "<namespace><worker>:work", "hash", is_shared=True),
        Place("lost", State.RESERVED, "<namespace><worker>:work", "hash", is_shared=True),
        Place("dead", State.DEAD, "<namespace>dead", "zset", "since s", is_shared=True),
    )
    defaults = {"namespace": ""}
    option_values = {"namespace": NAME_OR_NOTHING}
    shared_option = "namespace"
    queues_per_request = 1000
    known_fields = frozenset({"name", "tried", "error", "worker"})
    worker_name_pattern = re.compile(r"(?P<host>[^\s:]+):\d+:[0-9a-f]{12}", re.ASCII)  # `identity` of component.rb
    has_json_bodies = True
    body_id_example = '{"class": …, "args": …, "jid": …}'
    has_ids = True
    shares_workers = True
    body_template = '{"class": "HardJob", "args": []}'
    jobs_per_call = 100  # the search for queue entries is limited in time, so fewer jobs are searched further
    missing_verbs = {"pause": "only its paid editions have it. To stop all work on a queue, quiet its processes"}
    verb_labels = {"requeue": "retry now", "promote": "add to queue"}
    verb_effects = {
        "kill": "they stay dead until they are retried. No death handler is called, and only the newest 9 999 are kept",
        "release": "they run again; a job that its process finished after its last heartbeat runs twice",
        "reap": "they run again; a job that its process finished after its last heartbeat runs twice",
    }
    finding_remedies = {
        "no-live-worker": "start one: bundle exec sidekiq -q {queue}",
        "oldest-ready": "add processes or threads: bundle exec sidekiq -c 10 -q {queue}",
        "backlog-grows": "add processes or threads: bundle exec sidekiq -c 10 -q {queue}",
        "schedule-stopped": "start a process: bundle exec sidekiq",
        "due-not-dispatched": "",
        "expired-not-reaped": "",
    }
    checks_schedules = True
    records_ends = True

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.queue_names_key = f"{self.prefix}queues"
        self.lost = LostJobs()
        self._writes_ms = False  # whether new jobs get times in ms; every Sidekiq reads seconds
        self._missed: set[tuple[str, bytes]] = set()  # jobs whose bytes were not found: searched by id

    @property
    def prefix(self) -> str:
        """The prefix of all Sidekiq keys: the namespace and a colon, or nothing."""
        namespace = self.options["namespace"]
        return f"{namespace}:" if namespace else ""

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of a queue's places and of Sidekiq's other data. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("sidekiq: a queue has a name.")
        prefix = self.prefix
        return {
            **{name: f"{prefix}{name}" for name in ("schedule", "retry", "dead", "queues")},
            **{name: f"{prefix}{key}" for name, key in SCHEDULE_KEYS.items()},
            "queue": f"{prefix}queue:{queue}",
            "work": f"{prefix}processes",
            "lost": f"{prefix}processes",
            "stat_processed": f"{prefix}stat:processed",
            "stat_failed": f"{prefix}stat:failed",
        }

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script for a queue. Scripts that derive keys also get the namespace prefix."""
        return super().build_call(name, queue, {**self.select_arguments(name, {"prefix": self.prefix}), **args}, rows)

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queue names in the set `queues`, then the queues of waiting, dead and running jobs."""
        if not self.is_explicit and not self._has_sidekiq_keys(client):
            return
        cursor = 0
        while True:
            cursor, names = client.sscan(to_bytes(self.queue_names_key), cursor=cursor, count=1000)
            yield [to_text(name) for name in names if name]
            if cursor == 0:
                break
        for name in ("spread", "crew"):
            reply = scripts.run_call(client, self._build_shared_call(name))
            yield [row["queue"] for row in convert_rows_to_dicts(reply) if row.get("workers", 0) == 0 or row["work"]]

    def marker_keys(self) -> Sequence[str]:
        """Return keys that a database with Sidekiq has: queue names, schedule, retry and dead sets, processes."""
        return (self.queue_names_key, *(self.prefix + name for name in _MARKER_TYPES))

    def _has_sidekiq_keys(self, client: Any) -> bool:
        """Return whether Sidekiq uses this database. A set called `queues` alone could belong to any program."""
        pipe = client.pipeline(transaction=False)
        pipe.type(to_bytes(self.queue_names_key))
        pipe.exists(*(to_bytes(self.prefix + name) for name in ("stat:processed", *_MARKER_TYPES)))
        for name in _MARKER_TYPES:
            pipe.type(to_bytes(self.prefix + name))
        names_type, existing_markers, *marker_types = pipe.execute(raise_on_error=False)
        if isinstance(names_type, Exception) or to_text(names_type) not in ("set", "none"):
            return False
        has_marker = any(
            not isinstance(marker_type, Exception) and to_text(marker_type) == expected_type
            for marker_type, expected_type in zip(marker_types, _MARKER_TYPES.values(), strict=True)
        )
        return has_marker or (to_text(names_type) == "set" and (existing_markers == 1 or self._has_queue_list(client)))

    def _has_queue_list(self, client: Any) -> bool:
        """Return whether one of the first queues named in the set `queues` has a list."""
        _cursor, names = client.sscan(to_bytes(self.queue_names_key), 0, count=20)
        return bool(names) and client.exists(*(to_bytes(f"{self.prefix}queue:") + name for name in names)) > 0

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a queue is in the set `queues` or has a list, in a database that Sidekiq uses."""
        pipe = client.pipeline(transaction=False)
        pattern = re.sub(rb"([*?\[\]\\^-])", rb"\\\1", to_bytes(queue))
        pipe.sscan(to_bytes(self.queue_names_key), 0, match=pattern, count=_MAX_SCANNED_QUEUES)
        pipe.type(to_bytes(f"{self.prefix}queue:{queue}"))
        matches, list_type = pipe.execute(raise_on_error=False)
        is_named = not isinstance(matches, Exception) and bool(matches[1])
        has_list = not isinstance(list_type, Exception) and to_text(list_type) == "list"
        return (is_named or has_list) and (self.is_explicit or self._has_sidekiq_keys(client))

    def _build_shared_call(self, name: str) -> Call:
        """Build the call of a script that reads data of all queues."""
        script = self.scripts[name]
        keys = {key.name: self.prefix + SCHEDULE_KEYS.get(key.name, key.name) for key in script.keys}
        return script.build_call(keys, self.select_arguments(name, {"prefix": self.prefix}))

    # -- counts ---------------------------------------------------------------------------------------------------

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build the request for the counts of one queue. It also records which jobs silent processes hold."""

        def parse_queue(replies: Replies) -> Queue:
            self.lost.update_jobs(replies[1])
            return self._parse_queue(queue, replies[0])

        return Request((self.build_call("counts", queue, {}), self._build_shared_call("held")), parse_queue)

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue]]:
        """Build the request for the counts of many queues.

        Data that all queues share is read once; the lists of the queues are read in batches of `QUEUES_PER_CALL`.
        """
        script = self.scripts["tally"]
        keys = [self.keys(queue)["queue"] for queue in queues]
        calls = [
            script.build_call({}, {}, each_keys=[[key] for key in keys[start : start + QUEUES_PER_CALL]])
            for start in range(0, len(keys), QUEUES_PER_CALL)
        ]

        def parse_queues(replies: Replies) -> list[Queue]:
            self.lost.update_jobs(replies[2])
            shared, crew, *tallies = [unwrap_reply(reply) for reply in (*replies[:2], *replies[3:])]
            own_counts = [row for reply in tallies for row in convert_rows_to_dicts(reply)]
            shared_counts = {row["queue"]: row for row in convert_rows_to_dicts(shared)}
            crew_counts = {row["queue"]: row for row in convert_rows_to_dicts(crew)}
            values = {**_NO_COUNTS, **shared.values, **crew.values}
            merged_counts = [
                (queue, {**values, **shared_counts.get(queue, {}), **crew_counts.get(queue, {}), **row})
                for queue, row in zip(queues, own_counts, strict=True)
            ]
            return [self._parse_queue(queue, Reply("counted", values=counts)) for queue, counts in merged_counts]

        shared_by_all = [self._build_shared_call(name) for name in ("spread", "crew", "held")]
        return Request((*shared_by_all, *calls), parse_queues)

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        values = reply.values if isinstance(reply, Reply) else {}
        if isinstance(reply, Reply):
            extra_counts = {"lost": self.lost.count(queue), "lost_exact": True, **reply.values}
            reply = Reply("counted", values=extra_counts)
        counted = super()._parse_queue(queue, reply)
        if lost_findings := self._find_lost_jobs(queue):
            counted = counted._replace(findings=(*counted.findings, *lost_findings))
        processed = parse_count(str(values.get("processed", "")))
        if processed is None:
            return counted
        failed = min(processed, parse_count(str(values["failed"])) or 0)
        extra_counts = {"out": processed - failed, "failed": failed}
        if all(count.is_exact for count in counted.counts):
            extra_counts["in"] = processed - failed + sum(counted.map_counts_by_place().values())
        return counted._replace(counters={**counted.counters, **extra_counts})

    def _find_lost_jobs(self, queue: str) -> tuple[Finding, ...]:
        """Report lost jobs of a queue, which only this rqtui process still has."""
        lost_jobs = self.lost.list_jobs(queue)
        if not lost_jobs:
            return ()
        jid, worker = decode_job(lost_jobs[0].job, b"").jid, to_text(lost_jobs[0].worker)
        lost = f"{len(lost_jobs)} lost with {worker}, such as {to_text(jid)}"
        text = f"{lost}: only this rqtui has them, until it ends"
        remedy = "release them in the place lost: they are the next to run"
        finding = Finding(
            "lost", "critical", queue, text, remedy, ids=(jid,), since_ms=lost_jobs[0].beat_ms, jobs=len(lost_jobs)
        )
        return (finding,)

    # -- processes ------------------------------------------------------------------------------------------------

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the processes that serve a queue, including killed ones whose jobs are lost."""

        def parse_workers(replies: Replies) -> tuple[Worker, ...]:
            reply = unwrap_reply(replies[0])
            workers = (build_worker(queue, row, reply.values["now_ms"]) for row in convert_rows_to_dicts(reply))
            serving = {worker.name: worker for worker in workers if worker is not None and queue in worker.queues}
            killed = {worker.name: worker for worker in self.lost.list_workers(queue)}
            note = describe_unread_rest(len(reply.rows), reply.values["total"], "processes of Sidekiq")
            return WorkerList(sorted((killed | serving).values()), note)

        return Request((self._build_shared_call("roster"),), parse_workers)

    def schedules_request(self) -> Request[tuple[Schedule, ...]]:
        """Build the request for the recurring jobs of sidekiq-cron and of sidekiq-scheduler."""

        def parse_schedules(replies: Replies) -> tuple[Schedule, ...]:
            reply = unwrap_reply(replies[0])
            has_process = bool(reply.values["alive"])
            return tuple(build_schedule(self.name, row, has_process) for row in convert_rows_to_dicts(reply))

        return Request((self._build_shared_call("schedules"),), parse_schedules)

    def ends_request(self, queue: str) -> Request[Sequence[tuple[int, int, int]]]:
        """Build the request for the runs per minute, which Sidekiq 7 and later record per class and not per queue."""

        def parse_runs_per_minute(replies: Replies) -> Sequence[tuple[int, int, int]]:
            reply = unwrap_reply(replies[0])
            rows = convert_rows_to_dicts(reply) if reply.values["only"] else ()
            minutes = [(row["at_ms"], row["processed"], row["failed"]) for row in rows]
            return minutes if reply.values["recorded"] or any(runs for _at_ms, runs, _failed in minutes) else ()

        return Request((self.build_call("minutes", queue, {"queue": queue}),), parse_runs_per_minute)

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]]:
        """Build the request for the statistics per class of Sidekiq 7 and later, of all queues together."""

        def parse_statistics(replies: Replies) -> tuple[KindStatistics, ...]:
            reply = unwrap_reply(replies[0])
            window_ms = reply.values["over_ms"]
            assert isinstance(window_ms, int)
            return tuple(_build_class_statistics(row, window_ms) for row in convert_rows_to_dicts(reply))

        return Request((self.build_call("kinds", queue, {}),), parse_statistics)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def scan_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one step of a walk over a place. Running and lost jobs are read as pages."""
        by_page = self.place(place).state is State.RESERVED
        return (self.page_request if by_page else super().scan_request)(queue, place, offset, limit, body_bytes)

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one page of the jobs of a place.

        Lost jobs are read from memory; those that Redis has again are removed from memory and left out.
        """
        if self.place(place).name != "lost":
            return super().page_request(queue, place, offset, limit, body_bytes)
        lost_jobs = self.lost.list_jobs(queue)
        first = max(0, len(lost_jobs) - limit) if offset < 0 else offset
        page_jobs = lost_jobs[first : first + limit]
        if not page_jobs:
            return Request((), lambda _replies: Page(queue, self.name, "lost", (), len(lost_jobs), offset=first))
        rows = [{"id": decode_job(held.job, b"").jid, "member": held.job} for held in page_jobs]

        def parse_page(replies: Replies) -> Page:
            reply = unwrap_reply(replies[0])
            returned_ids = {row["id"] for row in convert_rows_to_dicts(reply)}
            self.lost.remove_jobs(queue, [row["member"] for row in rows if row["id"] in returned_ids])
            held_jobs = zip(page_jobs, rows, strict=True)
            rows_of_lost = [held.build_row() for held, row in held_jobs if row["id"] not in returned_ids]
            jobs = self.decode_rows(queue, "lost", rows_of_lost, reply.values["now_ms"])
            next_offset = first + len(jobs)  # the jobs that Redis has again are in memory no more
            total = self.lost.count(queue)
            return Page(
                queue, self.name, "lost", tuple(jobs), total, True, first, next_offset if next_offset < total else None
            )

        return Request((self.build_call("stands", queue, {}, rows),), parse_page)

    def verb_requests(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Request[list[Outcome]]]:
        """Build the requests of a verb. Lost jobs that the verb moved are removed from memory."""
        return [
            self._add_removal_of_moved_lost_jobs(queue, request)
            for request in super().verb_requests(name, queue, jobs, form)
        ]

    def _add_removal_of_moved_lost_jobs(self, queue: str, request: Request[list[Outcome]]) -> Request[list[Outcome]]:
        """Extend a request so that lost jobs which its verb moved back to Redis are removed from memory."""
        members = [job.member for job in request.jobs if job.place == "lost"]
        if not members:
            return request

        def parse_outcomes(replies: Replies) -> list[Outcome]:
            outcomes = request.parse(replies)
            moved_ids = {outcome.id for outcome in outcomes if outcome.moved or outcome.word in ("moved", "queued")}
            self.lost.remove_jobs(queue, [job.member for job in request.jobs if job.id in moved_ids])
            return outcomes

        return replace(request, parse=parse_outcomes)

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job.

        The job is searched by the bytes last seen under this id, else by its id near both ends of each place. A job
        without a jid is searched by its digest among the first jobs of each place.
        """
        cached = self.entries.find(id)
        entry = cached or Entry(b"", 0, b"")
        plain_id = id if cached is None else id.partition(b".")[0]
        args: dict[str, object] = {"id": plain_id, "head": entry.head, "size": entry.size, "tail": entry.tail}
        args["body_bytes"] = body_bytes
        calls = [self.build_call("show", queue, args)]
        if cached is None or not cached.is_complete or (queue, id) in self._missed:
            calls += [
                self.build_call("show", queue, {**args, "place": place, "offset": offset})
                for place in _SEARCHED_PLACES
                for offset in (0, -MAX_SEARCHED_JOBS)
            ]
        show_call_count = len(calls)
        searched_places = _SEARCHED_PLACES if cached is None and _DIGEST.fullmatch(id) else ()
        head = {"offset": 0, "limit": MAX_SEARCHED_JOBS, "body_bytes": HEAD_BYTES}
        calls += [self.build_call("page", queue, {**head, "place": place}) for place in searched_places]

        def parse_job(replies: Replies) -> Job | None:
            jobs = (self._parse_job(queue, reply) for reply in replies[:show_call_count])
            job = next((job for job in jobs if job is not None), None) or self._find_lost_job(queue, plain_id)
            pages = zip(searched_places, replies[show_call_count:], strict=False) if job is None else ()
            read_jobs = (
                job
                for place, reply in pages
                for job in self._parse_page(queue, place, 0, MAX_SEARCHED_JOBS, reply).jobs
            )
            job = job or next((candidate for candidate in read_jobs if candidate.id == id), None)
            (self._missed.add if job is None and len(self._missed) < MAX_MISSED else self._missed.discard)((queue, id))
            return None if job is None else replace(job, id=id)

        return Request(tuple(calls), parse_job)

    def _find_lost_job(self, queue: str, id: bytes) -> Job | None:
        """Return the lost job of a queue with that jid; None if there is none."""
        lost_job = next((held for held in self.lost.list_jobs(queue) if decode_job(held.job, b"").jid == id), None)
        return self.decode(queue, "lost", lost_job.build_row(), 0) if lost_job else None

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from its JSON and the other columns of its row. Its id is the jid."""
        place_of_job = self.place(place)
        decoded = decode_job(entry.head, b"" if entry.is_complete else row["tail"])
        fields = decoded.fields
        score_ms = convert_time_ms(row["score"])
        enqueued_ms = convert_time_ms(fields.get("enqueued_at"))
        since_ms_by_place = {"queue": enqueued_ms, "dead": score_ms, "lost": score_ms}
        is_reserved = place_of_job.state is State.RESERVED
        silent_ms = _compute_silence_ms(row)
        failed_ms = convert_time_ms(fields.get("retried_at")) or convert_time_ms(fields.get("failed_at"))
        failures = fields.get("retry_count")
        failed_runs = failures + 1 if isinstance(failures, int) and failures >= 0 else 0
        return Job(
            id=decoded.jid,
            queue=queue,
            system=self.name,
            place=place_of_job.name,
            state=place_of_job.state,
            member=entry.head,
            token=row["token"],
            name=decoded.name,
            enqueued_ms=enqueued_ms if enqueued_ms is not None else convert_time_ms(fields.get("created_at")),
            due_ms=score_ms if place_of_job.state is State.SCHEDULED else None,
            deadline_ms=None if silent_ms is None else now_ms - silent_ms + TTL_MS,
            reserved_ms=score_ms if is_reserved else None,
            since_ms=since_ms_by_place.get(place_of_job.name),
            attempts=failed_runs + is_reserved,
            is_cancelled=bool(row.get("cancelled")),
            max_attempts=_compute_max_attempts(fields.get("retry")),
            worker=row["worker"],
            error=decoded.error,
            history=(Attempt(0, failed_ms, "", decoded.error),) if decoded.error and failed_ms else (),
            problem=safe("; ".join(find_job_problems(place_of_job, decoded, row))),
            call=decoded.call,
            facts=(
                *((_KEPT_HERE,) if place_of_job.name == "lost" else ()),
                *decoded.facts,
                *build_run_facts(row, silent_ms),
            ),
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the attempts that `retry` allows a migrated job, and the native backoff nearest to Sidekiq's.

        Sidekiq waits (failures - 1)^4 + 15 seconds.
        """
        body = job.body or b""
        fields = decode_job(body, body[-TAIL_BYTES:] if len(body) > READ_BYTES else b"").fields
        losses = [f"{promise} would not hold" for field, promise in _PROMISES.items() if fields.get(field)]
        max_attempts = _RETRIES + 1 if job.max_attempts is None else job.max_attempts
        attempts = max(0, job.attempts - (job.state is State.RESERVED))
        return MigrationTerms(attempts, max_attempts, _BACKOFF_MS, _BACKOFF_CAP_MS, tuple(losses))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def build_row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """Return the place of a job for a script, and its `jid`.

        If several jobs have the same jid, their ids in rqtui differ from it.
        """
        return {"jid": decode_job(job.member, b"").jid, "place": job.place}

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return a job as Sidekiq's client pushes it after a manual retry, or in another queue, for the verb `move`.

        Returns empty bytes if the bytes are no job, and raises UsageError if the job cannot change its queue.
        """
        try:
            if name == "move":
                return rewrite_for_queue(job.member, job.queue, str(form.get(TO_QUEUE, "")))
            return rewrite_for_push(
                job.member, job.queue, self.now_ms(), self._writes_ms, is_retry=job.place != "schedule"
            )
        except ValueError:
            return b""

    def learn_job_format(self, client: Any, queue: str) -> None:
        """Detect from one job each of four places whether this Sidekiq writes times in ms or in seconds."""
        requests = [self.page_request(queue, place, 0, 1, 0) for place in _SEARCHED_PLACES]
        replies = scripts.send_calls(client, [call for request in requests for call in request.calls])
        for request, reply in zip(requests, replies, strict=True):
            for job in request.parse([reply]).jobs if isinstance(reply, Reply) else ():
                if (has_ms := has_ms_times(decode_job(job.member, b"").fields)) is not None:
                    self._writes_ms = has_ms
                    return

    def encode_body(self, body: bytes) -> bytes:
        """Encode a job that a person wrote as a queue stores it. Raises UsageError."""
        return bytes(build_enqueue_columns("default", {"body": body}, self.now_ms(), self._writes_ms)["body"])

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job such as `{"class": "HardJob", "args": [1, 2]}`.

        Columns given in `row` take precedence. Raises UsageError for invalid fields.
        """
        columns = {name: value for name, value in row.items() if value not in (None, "", b"")}
        return {**columns, **build_enqueue_columns(queue, columns, self.now_ms(), self._writes_ms)}


SYSTEM = Sidekiq


def _build_class_statistics(row: Mapping[str, Any], window_ms: int) -> KindStatistics:
    """Build the statistics of a job class. The mean covers successful runs, because failed runs are not timed."""
    successful = row["processed"] - row["failed"]
    mean_ms = round(row["ms"] / successful) if successful > 0 and row["ms"] else None
    return KindStatistics(to_text(row["kind"]), row["processed"], row["failed"], mean_ms, window_ms)


def _compute_silence_ms(row: Mapping[str, Any]) -> int | None:
    """Return how long the process of a running job has been silent; None if it sends heartbeats or is unknown."""
    silent_ms = parse_count(row["beat_ms"])
    return silent_ms if silent_ms is not None and silent_ms > LATE_MS else None


def _compute_max_attempts(retry: object) -> int | None:
    """Return the maximum number of runs that the field `retry` allows; None for an invalid value."""
    if retry is True:
        return _RETRIES + 1
    if retry is False:
        return 1
    return retry + 1 if isinstance(retry, int) and retry >= 0 else None
