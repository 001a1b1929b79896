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

import base64
import binascii
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

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
from rqtui.system_base.foreign_system import EntrySystem, build_facts, convert_rows_to_dicts, describe_unread_rest
from rqtui.system_base.option_values import NAME_OR_NOTHING
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text.body import decompress_zlib
from rqtui.text.fields import parse_partial_body
from rqtui.text.formats import format_quantity, format_size
from rqtui.text.json_fields import read_json_fields, replace_json_fields
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

QUEUES_PER_CALL = 200  # queues per call of `tally`
MAX_SEARCHED_JOBS = 1000  # jobs searched for an id at each end of a place
MAX_MISSED = 1000
_MAX_SCANNED_QUEUES = 10_000  # names scanned for one queue, in one step
_READ_BYTES = 1024 * 1024  # of a longer job only the beginning and the end are read
_TRACE_BYTES = 256 * 1024  # of `error_backtrace`, stored and inflated
_MAX_CALL_LENGTH = 1000  # characters
_MIN_MS_VALUE = 1e11  # larger numbers are ms: as seconds they are after the year 5138
_RETRIES = 25  # lib/sidekiq/job_retry.rb: DEFAULT_MAX_RETRY_ATTEMPTS


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
            **{name: f"{prefix}{key}" for name, key in _SCHEDULES.items()},
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
        return (
            has_marker
            or (to_text(names_type) == "set" and existing_markers == 1)
            or (to_text(names_type) == "set" and self._has_queue_list(client))
        )

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
        if not isinstance(matches, Exception) and matches[1]:
            return self.is_explicit or self._has_sidekiq_keys(client)
        return (
            not isinstance(list_type, Exception)
            and to_text(list_type) == "list"
            and (self.is_explicit or self._has_sidekiq_keys(client))
        )

    def _build_shared_call(self, name: str) -> Call:
        """Build the call of a script that reads data of all queues."""
        script = self.scripts[name]
        keys = {key.name: self.prefix + _SCHEDULES.get(key.name, key.name) for key in script.keys}
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
            queues_with_counts = zip(queues, own_counts, strict=True)
            merged_counts = [
                (queue, {**shared_counts.get(queue, {}), **crew_counts.get(queue, {}), **row})
                for queue, row in queues_with_counts
            ]
            return [
                self._parse_queue(queue, Reply("counted", values={**_NO_COUNTS, **shared.values, **crew.values, **row}))
                for queue, row in merged_counts
            ]

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
        processed = _parse_int(str(values.get("processed", "")))
        if processed is None:
            return counted
        failed = min(processed, _parse_int(str(values["failed"])) or 0)
        extra_counts = {"out": processed - failed, "failed": failed}
        if all(count.is_exact for count in counted.counts):
            extra_counts["in"] = processed - failed + sum(counted.map_counts_by_place().values())
        return counted._replace(counters={**counted.counters, **extra_counts})

    def _find_lost_jobs(self, queue: str) -> tuple[Finding, ...]:
        """Report lost jobs of a queue, which only this rqtui process still has."""
        lost_jobs = self.lost.list_jobs(queue)
        if not lost_jobs:
            return ()
        jid, worker = _decode_job(lost_jobs[0].job, b"").jid, to_text(lost_jobs[0].worker)
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
            workers = (_build_worker(queue, row, reply.values["now_ms"]) for row in convert_rows_to_dicts(reply))
            workers_by_name = {
                worker.name: worker for worker in workers if worker is not None and queue in worker.queues
            }
            listed = sorted(
                ({worker.name: worker for worker in self.lost.list_workers(queue)} | workers_by_name).values()
            )
            return WorkerList(
                listed, describe_unread_rest(len(reply.rows), reply.values["total"], "processes of Sidekiq")
            )

        return Request((self._build_shared_call("roster"),), parse_workers)

    def schedules_request(self) -> Request[tuple[Schedule, ...]]:
        """Build the request for the recurring jobs of sidekiq-cron and of sidekiq-scheduler."""

        def parse_schedules(replies: Replies) -> tuple[Schedule, ...]:
            reply = unwrap_reply(replies[0])
            has_process = bool(reply.values["alive"])
            return tuple(
                _build_schedule(row, has_process)._replace(system=self.name) for row in convert_rows_to_dicts(reply)
            )

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
        rows = [{"id": _decode_job(held.job, b"").jid, "member": held.job} for held in page_jobs]

        def parse_page(replies: Replies) -> Page:
            reply = unwrap_reply(replies[0])
            returned_ids = {row["id"] for row in convert_rows_to_dicts(reply)}
            self.lost.remove_jobs(
                queue, [held.job for held in page_jobs if _decode_job(held.job, b"").jid in returned_ids]
            )
            rows_of_lost = [
                held.build_row() for held in page_jobs if _decode_job(held.job, b"").jid not in returned_ids
            ]
            jobs = self.decode_rows(queue, "lost", rows_of_lost, reply.values["now_ms"])
            next_offset = first + len(page_jobs)
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
            searches = [
                (place, offset)
                for place in ("queue", "retry", "schedule", "dead")
                for offset in (0, -MAX_SEARCHED_JOBS)
            ]
            calls += [
                self.build_call("show", queue, {**args, "place": place_name, "offset": offset})
                for place_name, offset in searches
            ]
        show_call_count = len(calls)
        searched_places = ["queue", "retry", "schedule", "dead"] if cached is None and _DIGEST.fullmatch(id) else []
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
        lost_job = next((held for held in self.lost.list_jobs(queue) if _decode_job(held.job, b"").jid == id), None)
        return self.decode(queue, "lost", lost_job.build_row(), 0) if lost_job else None

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from its JSON and the other columns of its row. Its id is the jid."""
        place_of_job = self.place(place)
        decoded = _decode_job(entry.head, b"" if entry.is_complete else row["tail"])
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
            problem=safe("; ".join(_find_job_problems(place_of_job, decoded, row))),
            call=decoded.call,
            facts=(
                *((_KEPT_HERE,) if place_of_job.name == "lost" else ()),
                *decoded.facts,
                *_build_run_facts(row, silent_ms),
            ),
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the attempts that `retry` allows a migrated job, and the native backoff nearest to Sidekiq's.

        Sidekiq waits (failures - 1)^4 + 15 seconds.
        """
        body = job.body or b""
        fields = _decode_job(body, body[-TAIL_BYTES:] if len(body) > _READ_BYTES else b"").fields
        losses = [f"{promise} would not hold" for field, promise in _PROMISES.items() if fields.get(field)]
        max_attempts = _RETRIES + 1 if job.max_attempts is None else job.max_attempts
        attempts = max(0, job.attempts - (job.state is State.RESERVED))
        return MigrationTerms(attempts, max_attempts, _BACKOFF_MS, _BACKOFF_CAP_MS, tuple(losses))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def build_row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """Return the `jid` of a job for a script.

        If several jobs have the same jid, their ids in rqtui differ from it.
        """
        return {"jid": _decode_job(job.member, b"").jid}

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return a job as Sidekiq's client pushes it after a manual retry; empty if the bytes are no job."""
        try:
            return _rewrite_for_push(
                job.member, job.queue, self.now_ms(), self._writes_ms, is_retry=job.place != "schedule"
            )
        except ValueError:
            return b""

    def learn_job_format(self, client: Any, queue: str) -> None:
        """Detect from one job each of four places whether this Sidekiq writes times in ms or in seconds."""
        requests = [self.page_request(queue, place, 0, 1, 0) for place in ("queue", "retry", "schedule", "dead")]
        replies = scripts.send_calls(client, [call for request in requests for call in request.calls])
        for request, reply in zip(requests, replies, strict=True):
            for job in request.parse([reply]).jobs if isinstance(reply, Reply) else ():
                if (has_ms := _has_ms_times(_decode_job(job.member, b"").fields)) is not None:
                    self._writes_ms = has_ms
                    return

    def encode_body(self, body: bytes) -> bytes:
        """Encode a job that a person wrote as a queue stores it. Raises UsageError."""
        return bytes(_build_enqueue_columns("default", {"body": body}, self.now_ms(), self._writes_ms)["body"])

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job such as `{"class": "HardJob", "args": [1, 2]}`.

        Columns given in `row` take precedence. Raises UsageError for invalid fields.
        """
        columns = {name: value for name, value in row.items() if value not in (None, "", b"")}
        return {**columns, **_build_enqueue_columns(queue, columns, self.now_ms(), self._writes_ms)}


SYSTEM = Sidekiq


_MARKER_TYPES = {"schedule": "zset", "retry": "zset", "dead": "zset", "processes": "set"}
_NO_COUNTS = {name: 0 for name in ("schedule", "retry", "dead", "work", "expired", "workers", "overdue")} | {
    "due_ms": -1
}


# -- jobs of killed processes ------------------------------------------------------------------------------------------

TTL_MS = 60_000  # lib/sidekiq/launcher.rb: `<identity>` and `<identity>:work` expire this long after a heartbeat
LATE_MS = 20_000  # a heartbeat comes every 10 s (Sidekiq 6 and older: 5)


class HeldJob(NamedTuple):
    """A job of a process that stopped sending heartbeats, and when the job was last seen in that process."""

    queue: str
    worker: bytes
    thread: bytes
    job: bytes
    run_at: str
    beat_ms: int
    seen_ms: int

    def build_row(self) -> dict[str, Any]:
        """Build a row of a page for a held job, with the columns of the script `page`."""
        token = self.worker + b" " + self.thread
        columns = {"head": self.job, "size": len(self.job), "tail": b"", "score": self.run_at, "token": token}
        return {**columns, "worker": to_text(self.worker), "beat_ms": ""}


class LostJobs:
    """Jobs that were lost with killed processes, stored in the memory of this program only.

    A job is lost if its process stopped sending heartbeats while it held the job, and both have since disappeared. A
    process that sends heartbeats again keeps its jobs. If a process left the list before its keys expired, it shut down
    properly or another program rescued its jobs.
    """

    MOST, MOST_BYTES, KEPT_MS = 1000, 16 * 1024 * 1024, 3_600_000

    def __init__(self) -> None:
        self._held_jobs: OrderedDict[tuple[bytes, bytes, bytes], HeldJob] = OrderedDict()
        self._lost_keys: set[tuple[bytes, bytes, bytes]] = set()

    def count(self, queue: str) -> int:
        """Return the number of lost jobs of a queue."""
        return sum(self._held_jobs[key].queue == queue for key in self._lost_keys)

    def list_jobs(self, queue: str) -> list[HeldJob]:
        """Return the lost jobs of a queue, in the order in which they were first seen."""
        return [held for key, held in self._held_jobs.items() if key in self._lost_keys and held.queue == queue]

    def list_workers(self, queue: str) -> Iterator[Worker]:
        """Yield the killed processes that held lost jobs of a queue."""
        for name in dict.fromkeys(held.worker for held in self.list_jobs(queue)):
            held = [self._held_jobs[key] for key in self._lost_keys if key[0] == name]
            host, pid, _nonce = ("::" + to_text(name)).rsplit(":", 2)
            job_count = format_quantity(len(held), "job")
            yield Worker(
                to_text(name),
                queue,
                max(held_job.beat_ms for held_job in held),
                LATE_MS,
                pid=pid,
                host=host.lstrip(":"),
                queues=tuple(sorted({held_job.queue for held_job in held})),
                state=f"killed with {job_count}, which only this rqtui has",
            )

    def remove_jobs(self, queue: str, jobs: Sequence[bytes]) -> None:
        """Remove lost jobs of a queue by their bytes, because Redis has them again."""
        for key in [key for key, held in self._held_jobs.items() if held.queue == queue and held.job in jobs]:
            self._drop_job(key)

    def update_jobs(self, reply: Reply | Exception) -> None:
        """Update the held and lost jobs from a reply of the script `held`. An error changes nothing."""
        if isinstance(reply, Exception):
            return
        now_ms = reply.values["now_ms"]
        assert isinstance(now_ms, int)
        rows = convert_rows_to_dicts(reply)
        if not self._held_jobs and not any(row["job"] for row in rows):
            return
        ages = {row["worker"]: row["beat_ms"] for row in rows if not row["thread"]}
        rows_by_key = {(row["worker"], row["thread"], row["job"]): row for row in rows if row["job"]}
        for key, row in rows_by_key.items():
            beat_ms = now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else now_ms - TTL_MS + max(0, row["left_ms"])
            held = HeldJob(row["queue"], *key, row["run_at"], beat_ms, now_ms)
            self._held_jobs[key] = held
            self._lost_keys.discard(key)
        for key in [key for key in self._held_jobs if key not in rows_by_key]:
            self._classify_missing_job(key, ages.get(key[0]), now_ms)
        while (
            len(self._held_jobs) > self.MOST
            or sum(len(held.job) for held in self._held_jobs.values()) > self.MOST_BYTES
        ):
            self._drop_job(next(iter(self._held_jobs)))

    def _classify_missing_job(self, key: tuple[bytes, bytes, bytes], age_ms: int | None, now_ms: int) -> None:
        """Decide whether a job that no process holds any more is lost.

        `age_ms` is the age of its process's last heartbeat; None if the process is not listed.
        """
        held = self._held_jobs[key]
        if key in self._lost_keys:
            if now_ms - held.seen_ms > self.KEPT_MS:
                self._drop_job(key)
            return
        is_alive = age_ms is not None and 0 <= age_ms <= LATE_MS
        is_before_expiry = now_ms < held.beat_ms + TTL_MS - 1000
        is_long_ago = now_ms - held.seen_ms > TTL_MS  # without polls in between, the job may have returned and ended
        if is_alive or is_before_expiry or is_long_ago:
            self._drop_job(key)
        else:
            self._lost_keys.add(key)

    def _drop_job(self, key: tuple[bytes, bytes, bytes]) -> None:
        self._held_jobs.pop(key, None)
        self._lost_keys.discard(key)


# -- processes ---------------------------------------------------------------------------------------------------------

_ORDERS = {"TSTP": "quiet", "USR1": "quiet", "TERM": "stop"}


def _build_worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker | None:
    """Build a Sidekiq process from its row; None if only its name is left in Redis."""
    info = _parse_json_object(row["info"])
    if not info:
        return None
    is_quiet = row["quiet"] == "true"
    is_late = not 0 <= row["beat_ms"] <= LATE_MS
    busy = _parse_int(row["busy"]) or 0
    state = "silent" if is_late else "quiet" if is_quiet else "busy" if busy else "idle"
    return Worker(
        to_text(row["worker"]),
        queue,
        now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else 0,
        LATE_MS,
        _ORDERS.get(row["order"], "quiet" if is_quiet else "run"),
        str(info.get("pid") or ""),
        str(info.get("hostname") or ""),
        convert_time_ms(info.get("started_at")),
        b"",
        _list_served_queues(info),
        state,
        tuple(_build_worker_facts(info, row, busy)),
    )


def _list_served_queues(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the queues that a process serves: those of its capsules and those of its own list."""
    weights = [
        capsule.get("weights") for capsule in _as_dict(info.get("capsules")).values() if isinstance(capsule, dict)
    ]
    names = [name for capsule in weights if isinstance(capsule, dict) for name in capsule]
    names += [name for name in _as_list(info.get("queues")) if isinstance(name, str)]
    return tuple(dict.fromkeys(names))


def _build_worker_facts(info: Mapping[str, Any], row: Mapping[str, Any], busy: int) -> list[Fact]:
    """Build the facts about a process that only Sidekiq has."""
    threads = _parse_int(row["concurrency"]) or _parse_int(str(info.get("concurrency", "")))
    rss_kb, rtt_us = _parse_int(row["rss"]), _parse_int(row["rtt_us"])
    capsules, version = _as_dict(info.get("capsules")), info.get("version")
    return build_facts(
        (
            ("busy", f"{busy} of {threads}" if threads else str(busy), "text"),
            ("rss", "" if rss_kb is None else format_size(rss_kb * 1024), "text"),
            ("rtt", "" if rtt_us is None else f"{rtt_us / 1000:.1f} ms", "text"),
            ("version", f"Sidekiq {version}" if isinstance(version, str) else "", "text"),
            ("tag", str(info.get("tag") or ""), "text"),
            ("labels", ", ".join(map(str, _as_list(info.get("labels")))), "text"),
            ("capsules", ", ".join(_format_capsules(capsules)) if len(capsules) > 1 else "", "text"),
            ("embedded", "yes: it obeys no signals" if info.get("embedded") is True else "", "text"),
        )
    )


_SCHEDULES = {  # lib/sidekiq/cron/job.rb 1.8 and 2; sidekiq-scheduler 5, redis_manager.rb
    "cron_jobs": "cron_jobs",
    "cron_default": "cron_jobs:default",
    "schedules": "schedules",
    "next_times": "sidekiq-scheduler:next_times",
    "last_times": "sidekiq-scheduler:last_times",
    "states": "sidekiq-scheduler:states",
    "processes": "processes",
}
_NO_PROCESS = "no process of Sidekiq runs that could enqueue it"


def _build_schedule(row: Mapping[str, Any], has_process: bool) -> Schedule:
    """Build a schedule from its row. For sidekiq-cron the queue is in the message that the schedule enqueues."""
    record, name = _parse_json_object(row["definition"]), to_text(row["name"])
    if row["kind"] == "cron":
        args = _parse_schedule_arguments(row["args"]) if row["args"] else record.get("args")
        kind, pattern, is_enabled = (
            row["class"] or str(record.get("class") or ""),
            row["pattern"],
            row["status"] != "disabled",
        )
    else:
        args = record.get("args")
        kind, pattern = str(record.get("class") or name), _format_schedule_pattern(record)
        is_enabled = (
            _parse_json_object(to_bytes(row["status"])).get("enabled", record.get("enabled", True)) is not False
        )
    problem = "" if has_process or not is_enabled else _NO_PROCESS
    if not row["is_there"]:
        problem = "its record is missing: it is not enqueued"
    elif not pattern or not kind:
        problem = "its record does not say what is enqueued when"
    values = args if isinstance(args, list) else [] if args is None else [args]
    return Schedule(
        name,
        "sidekiq",
        str(record.get("queue") or "default"),
        pattern,
        _format_job_call(kind, [_decode_argument(argument) for argument in values]) if kind else "",
        _parse_schedule_time_ms(row["next"]),
        _parse_schedule_time_ms(row["last"]),
        "sidekiq-cron" if row["kind"] == "cron" else "sidekiq-scheduler",
        is_enabled,
        problem,
    )


def _format_schedule_pattern(record: Mapping[str, Any]) -> str:
    """Return when sidekiq-scheduler enqueues a job: its `cron` or a field such as `every 45m`, without options.

    Empty if the record has none of these fields.
    """
    for field in ("cron", "every", "interval", "at", "in"):
        value = record.get(field)
        first = value[0] if isinstance(value, list) and value else value
        if first:
            return str(first) if field == "cron" else f"{field} {first}"
    return ""


def _parse_schedule_arguments(raw: bytes) -> object:
    """Parse the JSON arguments of a schedule. Invalid JSON is returned as one text."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return to_text(raw)


def _parse_schedule_time_ms(text: str) -> int | None:
    """Parse a time of a scheduler, `2026-11-22 04:43:55 +0100` or UTC, to ms; None for no time."""
    try:
        moment = datetime.fromisoformat(re.sub(r" (UTC|Z)$", " +0000", text).replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _build_class_statistics(row: Mapping[str, Any], window_ms: int) -> KindStatistics:
    """Build the statistics of a job class. The mean covers successful runs, because failed runs are not timed."""
    successful = row["processed"] - row["failed"]
    mean_ms = round(row["ms"] / successful) if successful > 0 and row["ms"] else None
    return KindStatistics(to_text(row["kind"]), row["processed"], row["failed"], mean_ms, window_ms)


def _format_capsules(capsules: Mapping[str, Any]) -> Iterator[str]:
    """Yield each capsule of a process as `name (threads: queues)`."""
    for name, capsule in capsules.items():
        weights = capsule.get("weights") if isinstance(capsule, dict) else None
        queues = ", ".join(weights) if isinstance(weights, dict) else ""
        threads = capsule.get("concurrency") if isinstance(capsule, dict) else None
        yield f"{name} ({format_quantity(threads, 'thread') if isinstance(threads, int) else 'threads'}: {queues})"


def _parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; an empty dict for anything else."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _as_dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _parse_int(text: str) -> int | None:
    """Parse a number of at most 15 digits; None for any other text."""
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


# -- decoding job bytes ------------------------------------------------------------------------------------------------


class _DecodedJob(NamedTuple):
    """A job decoded from its JSON: call, error, facts and fields, and `problem` if it could not be decoded."""

    fields: Mapping[str, Any]
    jid: bytes = b""
    name: str = ""
    call: str = ""
    error: str = ""
    problem: str = ""
    facts: tuple[Fact, ...] = ()


@lru_cache(maxsize=2000)
def _decode_job(head: bytes, tail: bytes) -> _DecodedJob:
    """Decode a job from its bytes, or from its beginning and end.

    Cached, because every poll reads the same jobs again.
    """
    problem = ""
    fields: object
    if tail or len(head) > _READ_BYTES:
        fields = _parse_both_ends(head, tail or head[-2048:])
    else:
        try:
            fields = json.loads(head)
        except (ValueError, RecursionError):
            return _DecodedJob({}, problem="its bytes are no JSON: Sidekiq loses it when it is due, and cannot run it")
    if not isinstance(fields, dict):
        return _DecodedJob({}, problem="its JSON is no object: no job of Sidekiq")
    jid = fields.get("jid")
    name, args = _unwrap_job(fields)
    if not name:
        problem = "it names no class: no worker can run it"
    elif not isinstance(fields.get("args"), list) and not tail:
        problem = "it has no list of arguments: no worker can run it"
    return _DecodedJob(
        fields,
        to_bytes(jid) if isinstance(jid, str) and jid.isascii() else b"",
        name,
        _format_job_call(name, args) if name else "",
        _format_job_error(fields),
        problem,
        tuple(_build_job_facts(fields, name)),
    )


def _parse_both_ends(head: bytes, tail: bytes) -> object:
    """Parse the fields at the beginning and the end of a long job. The fields at the end follow the arguments."""
    fields = parse_partial_body(head[: 64 * 1024])
    if not isinstance(fields, dict):
        return fields
    ending = tail.decode("utf-8", "replace")
    for name in _TRAILING_FIELDS:
        matches = re.findall(rf'"{name}": ?("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)', ending)
        if matches:
            fields[name] = json.loads(matches[-1], strict=False)
    return fields


_TRAILING_FIELDS = (
    *("jid", "queue", "created_at", "enqueued_at", "retry", "retry_count", "failed_at", "retried_at", "bid"),
    *("error_class", "error_message"),
)
_WRAPPERS = ("ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper")  # api.rb 8
_MAILERS = ("ActionMailer::DeliveryJob", "ActionMailer::MailDeliveryJob")


def _unwrap_job(fields: Mapping[str, Any]) -> tuple[str, Sequence[object]]:
    """Return the class and arguments of a job: for ActiveJob the inner job, for a mail its mailer and method."""
    name, args = fields.get("class"), fields.get("args")
    name, args = name if isinstance(name, str) else "", args if isinstance(args, list) else []
    if name not in _WRAPPERS:
        display_class = fields.get("display_class")
        return display_class if isinstance(display_class, str) else name, [
            *args[:-1],
            BareText("[encrypted]"),
        ] if fields.get("encrypt") else args
    inner = args[0] if args and isinstance(args[0], dict) else {}
    wrapped = fields.get("wrapped") or inner.get("job_class") or name
    serialized = inner.get("arguments")
    values = [_decode_argument(each) for each in serialized] if isinstance(serialized, list) else []
    if wrapped in _MAILERS and len(values) >= 2:
        return f"{values[0]}.{values[1]}", _unwrap_mail_arguments(values[3:])
    return str(wrapped), values


def _unwrap_mail_arguments(values: Sequence[object]) -> list[object]:
    """Return the arguments of a mailer's method. `MailDeliveryJob` stores them in `args`, next to `params`."""
    if len(values) == 1 and isinstance(values[0], dict) and "args" in values[0]:
        inner = values[0]["args"]
        params = [{"params": values[0]["params"]}] if values[0].get("params") else []
        return [*(inner if isinstance(inner, list) else [inner]), *params]
    return list(values)


class BareText(str):
    """A text that is shown without quotes, such as a GlobalID or the name of a symbol."""

    __slots__ = ()


def _decode_argument(value: object, depth: int = 0) -> object:
    """Convert a serialized argument of ActiveJob to the value that the job receives.

    Source: ActiveJob 7, `ActiveJob::Arguments`. The keys that ActiveJob adds are left out.
    """
    if depth > 40:
        return BareText("…")
    if isinstance(value, list):
        return [_decode_argument(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(found := value.get("_aj_globalid"), str):
        return BareText(found)
    if "_aj_serialized" in value and "value" in value:
        kind = str(value["_aj_serialized"]).rpartition("::")[2]
        inner = _decode_argument(value["value"], depth + 1)
        return BareText(f":{inner}") if kind == "SymbolSerializer" else inner
    symbols = value.get("_aj_symbol_keys") or value.get("_aj_ruby2_keywords")
    are_symbols = set(symbols) if isinstance(symbols, list) and all(isinstance(one, str) for one in symbols) else set()
    return {
        BareText(f"{key}") if key in are_symbols else key: _decode_argument(each, depth + 1)
        for key, each in value.items()
        if not key.startswith("_aj_")
    }


def _format_job_call(name: str, args: Sequence[object]) -> str:
    """Format a job as a Ruby call, `HardJob.perform(1, "two")`. The name of a mail already has its method."""
    parts: list[str] = []
    free_characters = _MAX_CALL_LENGTH - len(name)
    for argument in args:
        if free_characters <= 0:
            parts.append("…")
            break
        text = _format_ruby(argument, free_characters)
        if (
            isinstance(argument, dict)
            and argument
            and all(isinstance(key, BareText) for key in argument)
            and argument is args[-1]
        ):
            text = text[1:-1]  # keywords
        parts.append(text)
        free_characters -= len(text) + 2
    method = "" if "." in name.rpartition("::")[2] else ".perform"
    text = f"{name}{method}({', '.join(parts)})"
    return text if len(text) <= _MAX_CALL_LENGTH else f"{text[:_MAX_CALL_LENGTH]}…"


def _format_ruby(value: object, max_length: int, depth: int = 0) -> str:
    """Format a value as Ruby source, cut to about `max_length` characters."""
    if depth > 40 or max_length <= 0:
        return "…"
    if value is None:
        return "nil"
    if isinstance(value, BareText):
        return value[:max_length]
    if isinstance(value, str):
        return json.dumps(value[:max_length], ensure_ascii=False)[: -1 if len(value) > max_length else None] + (
            "…" if len(value) > max_length else ""
        )
    if isinstance(value, list | dict):
        parts, free_characters = [], max_length
        pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for key, item in pairs:
            text = _format_ruby(item, free_characters, depth + 1)
            if key is not None:
                text = (
                    f"{key}: {text}" if isinstance(key, BareText) else f"{_format_ruby(key, free_characters)} => {text}"
                )
            parts.append(text)
            free_characters -= len(text) + 2
            if free_characters <= 0:
                parts.append("…")
                break
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{', '.join(parts)}{closing}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 3000:
        return f"<a number of {value.bit_length()} bits>"
    return json.dumps(value)


def _format_job_error(fields: Mapping[str, Any]) -> str:
    """Format the last error of a job as Ruby does: class, message and the lines of its backtrace."""
    kind, message = fields.get("error_class"), fields.get("error_message")
    summary = ": ".join(str(each) for each in (kind, message) if each)
    trace = fields.get("error_backtrace")
    lines = _decode_backtrace(trace) if isinstance(trace, str) else trace if isinstance(trace, list) else []
    return "\n".join([summary, *(f"    {line}" for line in lines if isinstance(line, str))]) if lines else summary


def _decode_backtrace(text: str) -> Sequence[object]:
    """Decode `error_backtrace`: base64 of zlib of a JSON list (job_retry.rb, since Sidekiq 6).

    Returns an empty list if the text is invalid.
    """
    if len(text) > _TRACE_BYTES:
        return ()
    try:
        lines = json.loads(decompress_zlib(base64.b64decode(text), _TRACE_BYTES))
    except (binascii.Error, ValueError, RecursionError):
        return ()
    return lines if isinstance(lines, list) else ()


def _find_job_problems(place: Place, decoded: _DecodedJob, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each problem of a job, such as a missing jid or an invalid time."""
    if decoded.problem:
        yield decoded.problem
        return
    if row["score"] and convert_time_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"
    elif row["score"] and place.name != "work" and float(row["score"]) >= _MIN_MS_VALUE:
        yield "its score is in milliseconds: as seconds, which Sidekiq reads, it is due after the year 5000"
    if not decoded.jid:
        yield "it has no jid: Sidekiq's own pages cannot find it"
    if place.name != "dead" and "retry" not in decoded.fields and not row["tail"]:
        yield 'it has no "retry": it vanishes where its class cannot be loaded'
    for name in ("created_at", "enqueued_at", "failed_at", "retried_at"):
        if decoded.fields.get(name) is not None and convert_time_ms(decoded.fields[name]) is None:
            yield f"{name} is no time: {str(decoded.fields[name])[:40]!r}"


def _compute_silence_ms(row: Mapping[str, Any]) -> int | None:
    """Return how long the process of a running job has been silent; None if it sends heartbeats or is unknown."""
    silent_ms = _parse_int(row["beat_ms"])
    return silent_ms if silent_ms is not None and silent_ms > LATE_MS else None


def _build_job_facts(fields: Mapping[str, Any], name: str) -> list[Fact]:
    """Build the facts in the JSON of a job that only Sidekiq has, most useful first."""
    batch, retried_s = fields.get("bid"), fields.get("retry_for")
    return build_facts(
        (
            ("tags", ", ".join(map(str, _as_list(fields.get("tags"))[:20])), "text"),
            ("batch", batch if isinstance(batch, str) else "", "text"),
            _describe_wrapper(fields, name),
            ("first failed", convert_time_ms(fields.get("failed_at")), "instant"),
            ("last failed", convert_time_ms(fields.get("retried_at")), "instant"),
            ("created", convert_time_ms(fields.get("created_at")), "instant"),
            ("retried for", retried_s * 1000 if isinstance(retried_s, int) else None, "duration"),
            ("retry", "no: a failure ends it" if fields.get("retry") is False else "", "text"),
        )
    )


def _describe_wrapper(fields: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Return the fact about the class that wraps a job (ActiveJob), as a row of `list_facts`.

    The row is empty if no class wraps the job.
    """
    wrapper, args = fields.get("class"), _as_list(fields.get("args"))
    if wrapper in _WRAPPERS:
        id = _as_dict(args[0]).get("job_id") if args else None
        return "wrapped by", f"ActiveJob {id}" if isinstance(id, str) else "ActiveJob", "text"
    return "class", wrapper if isinstance(wrapper, str) and wrapper != name else "", "text"


def _build_run_facts(row: Mapping[str, Any], silent_ms: int | None) -> Iterator[Fact]:
    """Yield the facts about the run of a job, most useful first.

    `silent_ms` is the time since its process sent a heartbeat; None if it is alive.
    """
    if row.get("executions"):
        yield Fact("runs of the iteration", row["executions"])
        yield Fact("cursor", row["cursor"], "json")
    if row.get("runtime") and (ran_s := _parse_seconds(row["runtime"])) is not None:
        yield Fact("iterated for", round(ran_s * 1000), "duration")
    if row["worker"]:
        yield Fact("thread", to_text(row["token"]).rpartition(" ")[2])
    if silent_ms is not None:
        yield Fact("process silent for", silent_ms, "duration")


_KEPT_HERE = Fact("kept by", "this rqtui alone: its process was killed, and Redis has it no more")


def _parse_seconds(text: str) -> float | None:
    """Parse a number of seconds; None for a text that is no plausible number."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and 0 <= seconds < _MIN_MS_VALUE else None


_BACKOFF_MS, _BACKOFF_CAP_MS = 30_000, 331_791_000  # the first waits 15 to 30 s, the last of 25 up to 24^4 + 15 s
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


def _compute_max_attempts(retry: object) -> int | None:
    """Return the maximum number of runs that the field `retry` allows; None for an invalid value."""
    if retry is True:
        return _RETRIES + 1
    if retry is False:
        return 1
    return retry + 1 if isinstance(retry, int) and retry >= 0 else None


def convert_time_ms(value: object) -> int | None:
    """Convert a time of Sidekiq to ms since 1970; None for a value that is no time.

    Sidekiq 8 writes ms; Sidekiq 7 and scores are in seconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not isfinite(number) or not 0 <= number < 9e15:
        return None
    return round(number * 1000) if number < _MIN_MS_VALUE else round(number)


# -- new and rewritten jobs --------------------------------------------------------------------------------------------

_FORMAT_HINT = 'a job is written as {"class": "HardJob", "args": [1, 2]}'
_JID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_TIME_FIELDS = ("enqueued_at", "created_at", "retried_at", "failed_at")


def _has_ms_times(fields: Mapping[str, Any]) -> bool | None:
    """Return whether a job's times are ms, as Sidekiq 8 writes them; None if it has no times."""
    times = [fields[name] for name in _TIME_FIELDS if isinstance(fields.get(name), int | float)]
    return any(isinstance(time, int) and time >= _MIN_MS_VALUE for time in times) if times else None


def _format_time(at_ms: int, in_ms: bool) -> bytes:
    """Format a time as Sidekiq 8 (ms) or an earlier version (seconds) does.

    Sidekiq 8 distinguishes the two by the decimal point.
    """
    return b"%d" % at_ms if in_ms else b"%.3f" % (at_ms / 1000)


def _rewrite_for_push(member: bytes, queue: str, now_ms: int, writes_ms: bool, is_retry: bool) -> bytes:
    """Rewrite a job to be enqueued now (`Client#push`), with one retry less if `is_retry`.

    Source: `SortedEntry#retry`, api.rb 6.4 and 8. Raises ValueError if the bytes are no job.
    """
    fields, raw_fields = json.loads(member), read_json_fields(member)
    if not isinstance(fields.get("class"), str) or not isinstance(fields.get("args"), list):
        raise ValueError("it has no class and arguments")
    count = fields.get("retry_count")
    changes: dict[str, bytes | None] = {"at": None}
    if is_retry and isinstance(count, int) and not isinstance(count, bool):
        changes["retry_count"] = b"%d" % (count - 1)
    has_ms = _has_ms_times(fields)
    return _add_client_fields(member, raw_fields, queue, now_ms, writes_ms if has_ms is None else has_ms, changes)


def _add_client_fields(
    body: bytes,
    raw_fields: Mapping[str, bytes],
    queue: str,
    now_ms: int,
    has_ms: bool,
    changes: Mapping[str, bytes | None],
) -> bytes:
    """Add the fields that Sidekiq's client adds to a job, and apply `changes`."""
    defaults = {
        "jid": json.dumps(secrets.token_hex(12)).encode(),
        "queue": json.dumps(queue).encode(),
        "retry": b"true",
        "created_at": _format_time(now_ms, has_ms),
    }
    missing = {name: value for name, value in defaults.items() if raw_fields.get(name, b"null") == b"null"}
    return replace_json_fields(body, {**missing, "enqueued_at": _format_time(now_ms, has_ms), **changes})


def _build_enqueue_columns(queue: str, row: Mapping[str, object], now_ms: int, writes_ms: bool) -> dict[str, Any]:
    """Build the `enqueue` columns of a job that a person wrote in JSON. Raises UsageError."""
    body = to_bytes(row["body"])  # type: ignore[arg-type]
    fields = _parse_written_job(body)
    if fields.get("queue", queue) != queue:
        raise UsageError(f'sidekiq: this body says "queue": {fields["queue"]!r:.60}, and it is put into {queue}.')
    jid = to_text(to_bytes(row["id"])) if "id" in row else fields.get("jid")  # type: ignore[arg-type]
    if jid is not None and not (isinstance(jid, str) and _JID.fullmatch(jid)):
        raise UsageError("sidekiq: a jid is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
    due: dict[str, Any] = {}
    if "at" in fields and not {"delay_ms", "due_ms"} & row.keys():
        due["due_ms"] = convert_time_ms(fields["at"])
    delay_ms, due_ms = row.get("delay_ms"), {**row, **due}.get("due_ms")
    is_later = (isinstance(delay_ms, int) and delay_ms > 0) or (isinstance(due_ms, int) and due_ms > now_ms)
    has_ms = _has_ms_times(fields)
    jid = jid or secrets.token_hex(12)
    changes: dict[str, bytes | None] = {"at": None, "jid": json.dumps(jid).encode()}
    if is_later:
        changes["enqueued_at"] = None  # it is not enqueued yet (client.rb 8, `atomic_push`)
    has_ms = writes_ms if has_ms is None else has_ms
    return {**due, "id": jid, "body": _add_client_fields(body, read_json_fields(body), queue, now_ms, has_ms, changes)}


def _parse_written_job(body: bytes) -> dict[str, Any]:
    """Parse and check a job that a person wrote in JSON, as `JobUtil#validate` does (job_util.rb 6.4 and 8).

    Raises UsageError for an invalid field.
    """
    try:
        read_json_fields(body)
        body.decode()
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"sidekiq: this body is no JSON object; {_FORMAT_HINT}.") from None
    if "class" not in fields and "job_class" in fields:
        raise UsageError(
            f'sidekiq: a job of ActiveJob is put with what wraps it: {{"class": "{_WRAPPERS[1]}", '
            '"wrapped": "MailJob", "args": [{"job_class": "MailJob", …}]}.'
        )
    for name, (is_valid, description) in _FIELD_CHECKS.items():
        if name in fields and not is_valid(fields[name]):
            raise UsageError(f'sidekiq: "{name}" is {description}, not {fields[name]!r:.60}; {_FORMAT_HINT}.')
    if missing := [name for name in ("class", "args") if name not in fields]:
        raise UsageError(f'sidekiq: this body has no "{missing[0]}"; {_FORMAT_HINT}.')
    return dict(fields)


_FIELD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "class": (lambda value: isinstance(value, str) and bool(value), "the name of a class"),
    "args": (lambda value: isinstance(value, list), "a list"),
    "queue": (lambda value: isinstance(value, str) and bool(value), "the name of a queue"),
    "retry": (lambda value: isinstance(value, bool) or _is_count_value(value), "true, false, or how often"),
    "retry_for": (
        lambda value: _is_count_value(value) and value <= 1_000_000_000,
        "seconds, from the first failure on",
    ),
    "at": (
        lambda value: not isinstance(value, bool) and convert_time_ms(value) is not None,
        "when it is due, in seconds",
    ),
    "tags": (lambda value: isinstance(value, list), "a list"),
}


def _is_count_value(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
