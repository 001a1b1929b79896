"""The engine: takes snapshots of queues, changes jobs and evaluates health over one connection to Redis.

The screen and the command line use it. The engine names no system and starts no thread: `engine/ticker.py` runs it on a
thread for the screen, the command line calls it directly. A snapshot is one pipeline for any number of jobs and up to a
thousand queues. A second pipeline follows for queues that turn out not to be idle, or whose shared script failed. Long
work (discovery, filter scans, changes of many jobs) is a generator with one round trip per step, so that the caller can
do other things in between.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from rqtui.config import thresholds
from rqtui.config.thresholds import Thresholds
from rqtui.connection.connect import ServerInfo, translate_redis_errors
from rqtui.connection.nodes import is_cluster, ping_server
from rqtui.engine.counts import QueueCounter
from rqtui.engine.discovery import Discovery
from rqtui.engine.event_listener import EventListener
from rqtui.engine.health import rules, server_rules
from rqtui.engine.health.evaluation import HealthEvaluator
from rqtui.engine.health.failure_probes import MAX_CAUSES
from rqtui.engine.health.probe_results import CompleteCauses
from rqtui.engine.health.probes import KINDS_BY_COUNTS, KINDS_BY_FINDINGS, PROBE_KINDS, Probes
from rqtui.engine.rates import Checkpoint, Rates, Totals
from rqtui.errors import ReadOnly, Refused, RqtuiError, ServerError, UsageError, WrongType, describe_and_log_error
from rqtui.model import (
    Cause,
    Cost,
    Finding,
    Focus,
    Job,
    Outcome,
    Page,
    PageSelection,
    Queue,
    Rate,
    Ref,
    Snapshot,
    Worker,
    WorkerInspection,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.read_ahead import ReadAhead
from rqtui.scripts.script import Call
from rqtui.system_base.system import (
    CHUNK,
    Replies,
    Request,
    System,
    isolate_request,
    page_request,
    raise_if_connection_lost,
)
from rqtui.text.sanitise import safe
from rqtui.verbs import TO_QUEUE

log = logging.getLogger("rqtui.engine")

T = TypeVar("T")
FULL_FOCUS = Focus()
FOLLOW_S = 0.05  # between two requests for replies of workers
QUEUES_PER_ROUND_TRIP = 1000  # queues counted per round trip: requests and replies take 3 kB of memory per queue
IMPLYING_VERBS = {"purge": "delete"}  # Whoever may not delete a job may not delete a place of jobs either.


class SavedJobs(Protocol):
    """Jobs that were saved before a change, so that the change can be undone.

    The calls `before` and `after` are sent with the change, in the same round trip.
    """

    @property
    def before(self) -> tuple[Call, ...]: ...
    @property
    def after(self) -> tuple[Call, ...]: ...
    def record_outcomes(self, outcomes: Sequence[Outcome], before: Replies, after: Replies) -> None:
        """Record how the change left these jobs, from the replies to the calls in the attributes of these names."""


class ChangeRecorder(Protocol):
    """Saves jobs as they were before a change, so that the change can be undone (`operations/undo.py`).

    `problem` says why a change cannot be undone.
    """

    problem: str

    def begin_change(self, verb: str, ref: Ref, total: int) -> None:
        """Record that a change of `total` jobs of a queue begins."""

    def save_jobs(
        self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job], script_rows: Sequence[Mapping[str, object]]
    ) -> SavedJobs | None:
        """Save jobs before a change, or return None if the verb cannot be undone.

        `script_rows` are the arguments that the verb's script gets for each job.
        """

    def record_outcomes(self, verb: str, ref: Ref, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of a change, for the journal."""

    def update_states_after(self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job]) -> None:
        """Save the state of changed jobs again, after a later step of the same change moved them in their place."""

    def record_stop(self, verb: str, ref: Ref, reason: str) -> None:
        """Record that a change was stopped before its end. `reason` says what stopped it, after how many jobs."""

    def replace_verb(
        self, engine: Engine, verb: str, ref: Ref, form: Mapping[str, object]
    ) -> Iterator[list[Outcome]] | None:
        """Return the steps of another change with the same effect that can be undone.

        Returns None if there is no such change, or if the verb itself can be undone.
        """


class JobSearch(NamedTuple):
    """The result of a search for jobs by id: the jobs found, and what was not searched.

    `skipped_systems` cannot look up an id; `failed_queues` is the number of queues that raised an error.
    """

    jobs: tuple[tuple[Ref, Job], ...]
    skipped_systems: tuple[str, ...] = ()
    failed_queues: int = 0


class Engine(Discovery):
    """Reads and changes the queues of one Redis server through its systems.

    `client` is a connection returned by `connect`. Changes raise ReadOnly while `read_only` is set. `others` are names
    of systems that were left out: `OTHER:mail` is refused then, and not read as the name of a queue. `denied` are pairs
    of a shell pattern for queues and the verbs refused there, from the profile `profile`; `limits` are pairs of such a
    pattern and the thresholds for findings. `left_out` are sentences about systems that cannot be used. `walks` and
    `walks_all`: see `Discovery`.
    """

    def __init__(
        self,
        client: Any,
        systems: Sequence[System],
        read_only: bool = False,
        others: Collection[str] = (),
        *,
        denied: Sequence[tuple[str, tuple[str, ...]]] = (),
        profile: str = "",
        limits: thresholds.Rules = (),
        left_out: Sequence[str] = (),
        walks: Path | None = None,
        walks_all: bool = False,
    ) -> None:
        super().__init__(client, systems, others, left_out, walks, walks_all)
        self.read_only = read_only
        self.denied, self.profile = tuple(denied), profile
        self.change_recorder: ChangeRecorder | None = None
        self.warnings: tuple[Finding, ...] = ()  # about the server; set by the thread or command that runs the engine
        self.server_infos: tuple[ServerInfo, ...] = ()  # of the nodes; set with `warnings`
        self._rates = Rates()
        self._probes = Probes(self.systems)
        self._threshold_rules, self._thresholds_by_ref = tuple(limits), dict[Ref, Thresholds]()
        self._health = HealthEvaluator(self.systems, self._rates, self._probes, self.find_thresholds)
        self._counting = QueueCounter(self.systems)
        self.on_snapshot_counts: Callable[[Mapping[Ref, Queue]], None] = lambda _queues: (
            None
        )  # called with the counts of each snapshot
        self._event_listener: EventListener | None = None

    # -- reading --------------------------------------------------------------------------------------------------

    def was_counted_before(self, ref: Ref) -> bool:
        """Return whether a queue was counted by an earlier snapshot of this engine."""
        return ref in self._rates

    def find_totals(self, ref: Ref) -> Totals | None:
        """Return the totals of a queue at the last snapshot that counted it, or None if no snapshot did."""
        return self._rates.find_totals(ref)

    def add_earlier_checkpoints(self, ref: Ref, checkpoints: Sequence[Checkpoint]) -> None:
        """Add totals of a queue from before its first snapshot, the newest first. The next snapshot uses them."""
        for checkpoint in checkpoints:
            self._rates.add_earlier_activity(ref, checkpoint)

    def take_snapshot(self, focus: Focus = FULL_FOCUS) -> Snapshot:
        """Return a snapshot with the counts and findings of the focused queues, and the focused pages and job.

        Takes one round trip, a second one for queues that need another request, and one more for each further
        `QUEUES_PER_ROUND_TRIP` queues. Raises ServerError if Redis sends no reply.
        """
        refs = self.refs if focus.queues is None else [*focus.queues]
        groups = self._build_snapshot_requests(focus, refs)
        began_s = time.monotonic()
        probes = self._probes.build_due_requests(refs, began_s, PROBE_KINDS)
        groups["inspections"] = [*probes.values()]
        sent = _SentRequests()
        sent.add(request for requests in groups.values() for request in requests)
        replies = self._send_request_groups(groups)
        checkpoints = self._probes.store_results(dict(zip(probes, replies["inspections"], strict=True)), began_s)
        is_answered = any(requests for name, requests in groups.items() if name not in ("queues", "overheard"))
        queues = self._collect_queue_counts(replies["queues"], is_answered, sent)
        for start in range(QUEUES_PER_ROUND_TRIP, len(refs), QUEUES_PER_ROUND_TRIP):
            requests = self._counting.build_requests(self.client, refs[start : start + QUEUES_PER_ROUND_TRIP])
            sent.add(requests)
            queues += self._collect_queue_counts(self.send_requests(requests), True, sent)
        counted_queues = dict(zip(refs, queues, strict=True))
        self.on_snapshot_counts(counted_queues)
        rates = {
            ref: self._rates.compute_rate(ref, queue, began_s)
            for ref, queue in counted_queues.items()
            if not queue.error
        }
        queues_with_findings = self._health.attach_findings(counted_queues, rates, checkpoints)
        if focus.is_thorough:
            queues_with_findings = self._run_all_probes(counted_queues, rates, began_s, sent)
        cost = Cost(sent.commands, sent.round_trips, (time.monotonic() - began_s) * 1000)
        taken_ms = self.compute_taken_ms(queues)
        (job,) = replies["job"] or (None,)
        extra_results = {name: tuple(replies["asks", name]) for name in focus.requests}
        focused_queues = tuple(queues_with_findings[ref] for ref in refs)
        return Snapshot(
            taken_ms, focused_queues, tuple(replies["pages"]), job, rates, cost, extra_results, refs=tuple(refs)
        )

    def attach_idle_workers(self, ref: Ref, queue: Queue, rate: Rate) -> Queue:
        """Return a queue with the finding about idle workers, if it was watched for as long as a command can wait."""
        return rules.attach_idle_workers(queue, rate, self._probes.find_probe_results(ref, queue))

    def _build_snapshot_requests(self, focus: Focus, refs: Sequence[Ref]) -> dict[object, Sequence[Request[Any]]]:
        """Build the requests of the first round trip of a snapshot, in groups by what they read.

        Pub/Sub events that arrived before are delivered first, so that the counts include them.
        """
        events: Sequence[Request[Any]] = ()
        if self._event_listener is not None:
            self._event_listener.subscribe(self.systems[name] for name in dict.fromkeys(ref.system for ref in refs))
            self._event_listener.deliver()
            events = self._event_listener.build_requests()
        return {
            "overheard": events,  # sent before the counts
            "queues": self._counting.build_requests(self.client, refs[:QUEUES_PER_ROUND_TRIP]),
            "pages": [self._build_page_request(selection) for selection in focus.pages],
            "job": self._build_job_requests(focus),
            **{
                ("asks", name): [_return_error_as_result(request) for request in requests]
                for name, requests in focus.requests.items()
            },
        }

    def _collect_queue_counts(self, results: Sequence[Any], is_answered: bool, sent: _SentRequests) -> list[Queue]:
        """Return the queues counted by these results; queues that need another request take a second round trip."""
        queues, follow_ups = self._counting.collect_counts(results, self.send_requests, is_answered=is_answered)
        for requests in follow_ups:
            sent.add(requests)
        return queues

    def _run_all_probes(
        self, counted: Mapping[Ref, Queue], rates: dict[Ref, Rate], began_s: float, sent: _SentRequests
    ) -> dict[Ref, Queue]:
        """Run all health probes for a single snapshot: those that depend on counts, then those that depend on findings.

        Returns the queues with their findings.
        """
        for kind_names in (KINDS_BY_COUNTS, KINDS_BY_FINDINGS):
            probes = self._probes.build_due_requests([*counted], began_s, kind_names, is_all=True)
            requests = [replace(request, may_fail=True) for request in probes.values()]
            sent.add(requests)
            results = dict(zip(probes, self.send_requests(requests) if requests else (), strict=True))
            evaluated = self._health.attach_findings(counted, rates, self._probes.store_results(results, began_s))
        return evaluated

    def check_server(self) -> bool:
        """Check the role and the memory of the server, and store the findings. Return whether there are any."""
        findings, self.server_infos = server_rules.check_server_state(self.client)
        self.warnings = (*findings, *self.problems.values())
        return bool(findings)

    def ping(self) -> None:
        """Ask the server for a reply, to measure a round trip."""
        with translate_redis_errors():
            ping_server(self.client)

    def start_listening(self) -> None:
        """Listen to Pub/Sub events of systems that do not store them, from the first snapshot with such a queue on.

        For callers that take snapshots repeatedly and call `stop_listening` at the end.
        """
        if self._event_listener is None:
            self._event_listener = EventListener(self.client)

    @property
    def is_listening(self) -> bool:
        """Return whether Pub/Sub events arrive, so that `deliver_events` should be called about once a second."""
        return self._event_listener is not None and self._event_listener.is_open

    def deliver_events(self) -> None:
        """Pass the Pub/Sub events received so far to their systems. A snapshot does this as well."""
        if self._event_listener is not None:
            self._event_listener.deliver()

    def stop_listening(self) -> None:
        """Stop listening to Pub/Sub events. The client stays open, because it belongs to the caller."""
        if self._event_listener is not None:
            self._event_listener.close()

    def find_thresholds(self, ref: Ref) -> Thresholds:
        """Return the configured thresholds of a queue. A number that reaches its threshold becomes a finding."""
        if not self._threshold_rules:
            return thresholds.DEFAULTS
        thresholds_of_ref = self._thresholds_by_ref.get(ref)
        if thresholds_of_ref is None:
            thresholds_of_ref = self._thresholds_by_ref[ref] = thresholds.find_queue_thresholds(
                self._threshold_rules, _list_matching_names(ref)
            )
        return thresholds_of_ref

    def _build_page_request(self, selection: PageSelection) -> Request[Page]:
        return page_request(self.systems[selection.ref.system], selection)

    def _build_job_requests(self, focus: Focus) -> list[Request[Job | None]]:
        if focus.job is None:
            return []
        ref, id = focus.job
        system = self.systems[ref.system]
        # A queue that cannot be read shows no job: the counts of the same snapshot say why, and all else is shown.
        return [
            isolate_request(lambda: system.job_request(ref.queue, id, focus.job_body_bytes), _ignore_error_of_queue)
        ]

    def _send_request_groups(self, groups: Mapping[object, Sequence[Request[Any]]]) -> dict[object, list[Any]]:
        """Send all groups of requests in one pipeline, and return the results under the same names."""
        results = iter(self.send_requests([request for requests in groups.values() for request in requests]))
        return {name: [next(results) for _request in requests] for name, requests in groups.items()}

    def compute_taken_ms(self, queues: Sequence[Queue]) -> int:
        """Return when these queues were counted, in ms by the server's clock; the server's time now if none was."""
        return max((queue.counted_ms for queue in queues), default=0) or self.fetch_server_time_ms()

    def fetch_server_time_ms(self) -> int:
        """Return the server's time in ms. Times of jobs come from this clock; the local clock may differ."""
        with translate_redis_errors():
            seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def fetch_page(self, ref: Ref, place: str, offset: int = 0, limit: int = 50, body_bytes: int = 0) -> Page:
        """Fetch one page of the jobs of a place."""
        return self.send_request(self.systems[ref.system].page_request(ref.queue, place, offset, limit, body_bytes))

    def fetch_job(self, ref: Ref, id: bytes, body_bytes: int = 65536) -> Job | None:
        """Fetch one job with all its data, or None if no such job exists."""
        return self.send_request(self.systems[ref.system].job_request(ref.queue, id, body_bytes))

    def find_jobs_by_id(self, ids: Sequence[bytes]) -> JobSearch:
        """Look up job ids in all discovered queues, in one round trip.

        A system that can find a job only by scanning its entries is skipped, and named in the result.
        """
        searched = [(ref, id) for ref in self.refs if self.systems[ref.system].can_find_by_id for id in ids]
        results = self.send_requests_isolated(
            partial(self.systems[ref.system].job_request, ref.queue, id, 0) for ref, id in searched
        )
        matches = [(ref, job) for (ref, _id), job in zip(searched, results, strict=True) if isinstance(job, Job)]
        failed_queues = {
            ref for (ref, _id), result in zip(searched, results, strict=True) if isinstance(result, RqtuiError)
        }
        skipped_systems = sorted({ref.system for ref in self.refs if not self.systems[ref.system].can_find_by_id})
        return JobSearch(tuple(matches), tuple(skipped_systems), len(failed_queues))

    def fetch_workers(self, ref: Ref) -> tuple[Worker, ...]:
        """Fetch the workers of a queue."""
        return self.send_request(self.systems[ref.system].workers_request(ref.queue))

    def scan_jobs(
        self, ref: Ref, place: str, accepts: Callable[[Job], bool], body_bytes: int = 4096, chunk: int = 200
    ) -> Iterator[list[Job]]:
        """Yield the jobs of a place that `accepts` returns true for, one round trip per step.

        The place may change during the scan: a job that left is missed, and a job that moved may be yielded twice.
        Every change of a scanned job reports its outcome by id.
        """
        for page in self.walk_pages(ref, place, chunk, body_bytes):
            yield [job for job in page.jobs if accepts(job)]

    def walk_pages(
        self, ref: Ref, place: str, chunk: int = 200, body_bytes: int = 0, offset: int = 0
    ) -> Iterator[Page]:
        """Yield the jobs of a place page by page. From a shared place only the jobs of this queue are yielded."""
        next_offset: int | None = offset
        while next_offset is not None:
            page = self.fetch_scan_page(ref, place, next_offset, chunk, body_bytes)
            if page.error:
                raise WrongType(page.error)
            yield page
            next_offset = page.next

    def fetch_scan_page(self, ref: Ref, place: str, offset: int, limit: int, body_bytes: int = 0) -> Page:
        """Fetch the next page of a scan of a place, starting at `offset`; see `System.scan_request`."""
        return self.send_request(self.systems[ref.system].scan_request(ref.queue, place, offset, limit, body_bytes))

    def fetch_backward_scan_page(
        self, ref: Ref, place: str, older_jobs: int | None, limit: int, body_bytes: int = 0
    ) -> Page:
        """Fetch the next page of a scan from the end of a place; see `System.backward_scan_request`."""
        system = self.systems[ref.system]
        return self.send_request(system.backward_scan_request(ref.queue, place, older_jobs, limit, body_bytes))

    def send_request(self, request: Request[T]) -> T:
        """Send one request and return its parsed result. Raises the error of any of its calls."""
        return request.parse(raise_if_connection_lost(scripts.send_calls(self.client, request.calls)))

    def send_requests(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Send requests in one pipeline and return their results. Raises only if the connection was lost.

        A request with `may_fail` parses its error itself; see `Request`.
        """
        replies = scripts.send_calls(self.client, [call for request in requests for call in request.calls])
        remaining = iter(replies)
        replies_by_request = [[next(remaining) for _call in request.calls] for request in requests]
        raise_if_connection_lost(
            replies,
            [
                reply
                for request, request_replies in zip(requests, replies_by_request, strict=True)
                if not request.may_fail
                for reply in request_replies
            ],
        )
        return [
            request.parse(request_replies)
            for request, request_replies in zip(requests, replies_by_request, strict=True)
        ]

    def read_ahead(self, requests: Sequence[Request[Any]], after: Sequence[Request[Any]] = ()) -> None:
        """Read now, in one round trip, what the next steps will request. A change makes these results outdated.

        The requests in `after` are sent after the next change, in the same round trip. Nothing is read ahead where the
        server may lack a script: its call would be sent again, behind later ones.
        """
        pool: Any = getattr(self.client, "connection_pool", None)
        if getattr(pool, "sent_scripts", None) is None:
            return
        ahead = ReadAhead()
        calls = [call for request in requests for call in request.calls]
        ahead.fetch(calls, partial(scripts.send_calls, self.client))
        ahead.after = tuple(call for request in after for call in request.calls)
        pool.read_ahead = ahead

    def end_read_ahead(self) -> None:
        """Drop what `read_ahead` has read or would still send."""
        pool: Any = getattr(self.client, "connection_pool", None)
        if getattr(pool, "read_ahead", None) is not None:
            pool.read_ahead = None

    def send_requests_isolated(self, builders: Iterable[Callable[[], Request[Any]]]) -> list[Any]:
        """Build requests and send them in one pipeline. One that fails has its RqtuiError as the result."""
        return self.send_requests(
            [replace(isolate_request(build, _convert_to_rqtui_error), may_fail=True) for build in builders]
        )

    # -- changing -------------------------------------------------------------------------------------------------

    def apply_verb(
        self, verb: str, ref: Ref, jobs: Sequence[Job] = (), form: Mapping[str, object] | None = None
    ) -> list[Outcome]:
        """Apply a verb to jobs or to a queue, and return all outcomes: one per job, or one for the queue.

        For many jobs use `yield_verb_steps`, which returns after each chunk.
        """
        return [outcome for chunk in self.yield_verb_steps(verb, ref, jobs, form) for outcome in chunk]

    def yield_verb_steps(
        self, verb: str, ref: Ref, jobs: Sequence[Job] = (), form: Mapping[str, object] | None = None
    ) -> Iterator[list[Outcome]]:
        """Apply a verb to jobs, one chunk per step. Yield the outcomes of each chunk.

        Raises ReadOnly, Refused or UsageError before anything is sent. If the connection is lost, the jobs of the chunk
        that was sent get the outcome `unknown` and the rest `not sent`; nothing is sent again.
        """
        system = self.systems[ref.system]
        self.raise_if_refused(verb, ref)
        form = self.check_target_queue(verb, ref, form or {})
        if any(job.is_partial for job in jobs):
            return self.apply_verb_to_long_jobs(verb, ref, jobs, form)
        if verb == "purge" and not jobs and system.purges_by_job(str(form.get("place") or "")):
            return self._purge_by_deleting_jobs(ref, form)
        requests = system.verb_requests(verb, ref.queue, jobs, form)
        if self.change_recorder is not None:
            self.change_recorder.begin_change(verb, ref, len(jobs))
            replacement = None if jobs else self.change_recorder.replace_verb(self, verb, ref, form)
            if replacement is not None:
                return replacement
        return self.send_verb_requests(verb, ref, requests)

    def explain_denial(self, verb: str, ref: Ref) -> str:
        """Return why the configuration denies a verb on a queue, as a sentence; empty if the verb is allowed."""
        names = _list_matching_names(ref)
        for pattern, verbs in self.denied:
            if not any(fnmatchcase(name, pattern) for name in names):
                continue
            denied_verb = next(
                (
                    name
                    for name in (verb, IMPLYING_VERBS.get(verb))
                    if name and any(fnmatchcase(name, verb_pattern) for verb_pattern in verbs)
                ),
                "",
            )
            if denied_verb:
                source = f'the profile "{self.profile}"' if self.profile else "the configuration"
                relation = "" if denied_verb == verb else f", as {denied_verb} is"
                return f'{verb} is denied on queues like "{pattern}" by {source}{relation}; nothing was changed.'
        return ""

    def raise_if_refused(self, verb: str, ref: Ref) -> None:
        """Raise ReadOnly or Refused, before anything is sent, if a verb must not be applied to a queue."""
        if self.systems[ref.system].script(verb).read_only:
            return
        if self.read_only:
            raise ReadOnly(f"{verb} changes the queue, and this session is read-only.")
        if denial := self.explain_denial(verb, ref):
            raise Refused(denial)

    def check_target_queue(self, verb: str, ref: Ref, form: Mapping[str, object]) -> Mapping[str, object]:
        """Return the form of a verb, with the plain name of the queue to which it moves jobs, if it moves them there.

        The name may be typed as `SYSTEM:QUEUE`. Raises UsageError if jobs cannot be moved there, and Refused if the
        configuration denies it.
        """
        system = self.systems[ref.system]
        if not system.script(verb).moves_to_queue:
            return form
        target = Ref(ref.system, str(form.get(TO_QUEUE) or "").removeprefix(f"{ref.system}:"))
        if not target.queue:
            raise UsageError(f"{verb} needs the name of another queue of {ref.system}.")
        system.check_target_queue(ref.queue, target.queue)
        if is_cluster(self.client):
            raise UsageError(
                f"{verb} changes two queues at once, and in a Cluster they can be on two servers: "
                f"put copies into {target.queue} with rqtui put, then delete the originals."
            )
        for denied_verb in (verb, "enqueue"):
            if denial := self.explain_denial(denied_verb, target):
                raise Refused(denial)
        return {**form, TO_QUEUE: target.queue}

    def apply_verb_to_long_jobs(
        self, verb: str, ref: Ref, jobs: Sequence[Job], form: Mapping[str, object], script: str = ""
    ) -> Iterator[list[Outcome]]:
        """Apply a verb to jobs of which some are too long for a page. These are fetched completely, one at a time.

        The jobs keep their order. `script` is the script to run, if its name differs from the verb that was requested.
        """
        system, script = self.systems[ref.system], script or verb
        for is_partial, group in groupby(jobs, lambda job: job.is_partial):
            if not is_partial:
                requests = system.verb_requests(script, ref.queue, list(group), form)
                yield from self.send_verb_requests(verb, ref, requests)
                continue
            for job in group:
                complete_job = self.send_request(system.job_request(ref.queue, job.id, -1))
                if complete_job is None or complete_job.is_partial or complete_job.place != job.place:
                    yield [Outcome(verb, job.id, "gone", "it is not there any more")]
                else:
                    requests = system.verb_requests(script, ref.queue, [replace(complete_job, id=job.id)], form)
                    yield from self.send_verb_requests(verb, ref, requests)

    def apply_verb_to_place(
        self, verb: str, ref: Ref, place: str, form: Mapping[str, object] | None = None
    ) -> Iterator[list[Outcome]]:
        """Apply a verb to every job that is in a place now, one chunk per step. Later jobs stay unchanged."""
        system, script = self.systems[ref.system], self.systems[ref.system].script(verb)
        self.raise_if_refused(verb, ref)
        # A job that moves to another queue stays in the key of a place that all queues share.
        stays_in_key = system.is_shared(place) and script.moves_to_queue
        if not script.sources or place in script.targets or stays_in_key:
            yield from self._apply_verb_to_listed_jobs(verb, ref, place, form)
            return
        page = self.fetch_page(ref, place, 0, CHUNK)
        total = page.job_count
        if self.change_recorder is not None:
            self.change_recorder.begin_change(verb, ref, total)
        if system.is_shared(place):
            yield from self._apply_verb_to_shared_place(verb, ref, place, form)
            return
        seen, offset = 0, 0
        while page.jobs and seen < total:
            jobs = page.jobs[: total - seen]
            outcomes = self.apply_verb(verb, ref, jobs, form)
            seen += len(jobs)
            offset += sum(not outcome.moved for outcome in outcomes)
            yield outcomes
            if any(outcome.is_lost for outcome in outcomes):
                return
            page = self.fetch_page(ref, place, offset, CHUNK)

    def _apply_verb_to_shared_place(
        self, verb: str, ref: Ref, place: str, form: Mapping[str, object] | None
    ) -> Iterator[list[Outcome]]:
        """Apply a verb to the jobs of one queue in a place of all queues, in one walk.

        The offset goes back by the number of jobs that left the place, because the following jobs moved up.
        """
        page = self.fetch_scan_page(ref, place, 0, CHUNK)
        unread_entries = page.total
        while True:
            if page.error:
                raise WrongType(page.error)
            outcomes = self.apply_verb(verb, ref, page.jobs, form) if page.jobs else []
            yield outcomes
            unread_entries -= page.scanned_entries
            is_lost = any(outcome.is_lost for outcome in outcomes)
            if page.next is None or is_lost or unread_entries <= 0:
                return
            page = self.fetch_scan_page(ref, place, page.next - sum(bool(outcome.moved) for outcome in outcomes), CHUNK)

    def _purge_by_deleting_jobs(self, ref: Ref, form: Mapping[str, object]) -> Iterator[list[Outcome]]:
        """Purge a place or a queue by deleting its jobs one by one, with the outcomes of a purge script.

        At most `limit` jobs of the form are deleted. `left` in the outcome is 1 if the limit ended the purge.
        """
        system, place_name, limit = self.systems[ref.system], str(form.get("place") or ""), form.get("limit")
        max_jobs, deleted_jobs, result_words = (
            limit if isinstance(limit, int) else sys.maxsize,
            0,
            system.script("purge").returns,
        )
        places = (
            [place_name] if place_name else [place.name for place in system.places if system.can("delete", place.name)]
        )
        if self.change_recorder is not None:
            pages = [self.fetch_page(ref, place, 0, 1) for place in places]
            self.change_recorder.begin_change("purge", ref, sum(page.job_count for page in pages))
        delete_arguments = system.select_arguments(
            "delete", {key: value for key, value in form.items() if key == "force"}
        )
        for place in places:
            for outcomes in self._delete_jobs_of_place(ref, place, delete_arguments, max_jobs - deleted_jobs):
                if lost_outcome := next((outcome for outcome in outcomes if outcome.is_lost), None):
                    yield [Outcome("purge", b"", lost_outcome.word, lost_outcome.text)]
                    return
                deleted = sum(outcome.moved for outcome in outcomes)
                deleted_jobs += deleted
                values = {"moved": deleted, "left": int(deleted_jobs >= max_jobs)}
                yield [Outcome("purge", b"", "moved", result_words["moved"].text, deleted, values)] if deleted else []
        if not deleted_jobs:
            yield [Outcome("purge", b"", "empty", result_words["empty"].text)]

    def _delete_jobs_of_place(
        self, ref: Ref, place: str, delete_arguments: Mapping[str, object], max_jobs: int
    ) -> Iterator[list[Outcome]]:
        """Delete at most `max_jobs` jobs of a queue in one place for a purge, one page per step."""
        offset: int | None = 0
        while offset is not None and max_jobs > 0:
            page = self.fetch_scan_page(ref, place, offset, min(CHUNK, max_jobs))
            if page.error:
                raise WrongType(page.error)
            chunks = self.apply_verb_to_long_jobs("purge", ref, page.jobs, delete_arguments, "delete")
            outcomes = [outcome for chunk in chunks for outcome in chunk]
            yield outcomes
            deleted = sum(outcome.moved for outcome in outcomes)
            max_jobs -= deleted
            offset = None if page.next is None else page.next - deleted

    def _apply_verb_to_listed_jobs(
        self, verb: str, ref: Ref, place: str, form: Mapping[str, object] | None
    ) -> Iterator[list[Outcome]]:
        """Apply a verb that moves jobs only inside the key of their place.

        All jobs are listed before the first change, because the verb changes their order.
        """
        jobs: list[Job] = []
        for page in self.walk_pages(ref, place, CHUNK):
            jobs += page.jobs
            yield []
        distinct_jobs = list({job.id: job for job in jobs}.values())
        if self.change_recorder is not None:
            self.change_recorder.begin_change(verb, ref, len(distinct_jobs))
        for start in range(0, len(distinct_jobs), CHUNK):
            outcomes = self.apply_verb(verb, ref, distinct_jobs[start : start + CHUNK], form)
            yield outcomes
            if any(outcome.is_lost for outcome in outcomes):
                return

    def register_queue(self, ref: Ref) -> None:
        """Register a queue's name for discovery, after its first job was accepted."""
        system = self.systems[ref.system]
        with translate_redis_errors():
            system.register_queue(self.client, ref.queue)
        if ref not in self.refs:
            self._add_refs([ref])

    def unregister_queue(self, ref: Ref) -> None:
        """Remove a queue's name from discovery, after the whole queue was purged."""
        with translate_redis_errors():
            self.systems[ref.system].unregister_queue(self.client, ref.queue)
        self.refs = [other for other in self.refs if other != ref]

    def send_verb_requests(
        self, verb: str, ref: Ref, requests: Sequence[Request[list[Outcome]]]
    ) -> Iterator[list[Outcome]]:
        """Send the requests of a verb, one per step, and yield their outcomes.

        A change recorder, if there is one, saves the jobs of each request before the request is sent.
        """
        finished_jobs = 0
        for request in requests:
            saved_jobs = (
                self.change_recorder.save_jobs(self, verb, ref, request.jobs, request.rows)
                if self.change_recorder and request.calls  # none: all of its jobs are refused
                else None
            )
            calls_before, calls_after = (saved_jobs.before, saved_jobs.after) if saved_jobs else ((), ())
            replies = scripts.send_calls(self.client, [*calls_before, *request.calls, *calls_after])
            first, last = len(calls_before), len(calls_before) + len(request.calls)
            outcomes = request.parse(replies[first:last])
            for followed in self._send_follow_up_requests(request, outcomes):
                outcomes = followed
                yield []
            if self.change_recorder:
                self.change_recorder.record_outcomes(verb, ref, outcomes)
            write_error: RqtuiError | None = None
            try:
                if saved_jobs:
                    saved_jobs.record_outcomes(outcomes, replies[:first], replies[last:])
            except RqtuiError as error:  # These jobs were changed, so their outcomes are yielded first.
                write_error = error
            finished_jobs += len(outcomes)
            yield outcomes
            if write_error:
                raise write_error
            if outcomes and outcomes[-1].word in ("unknown", "not sent"):
                unsent_jobs = [job for other in requests for job in other.jobs][finished_jobs:]
                yield [Outcome(verb, job.id, "not sent", outcomes[-1].text) for job in unsent_jobs]
                return

    def _send_follow_up_requests(self, request: Request[T], result: T) -> Iterator[T]:
        """Send the follow-up requests of a request, such as reads of the replies of workers, and yield their results.

        Waits between two requests, so that each step takes `FOLLOW_S`. Ends with a result that has no further request.
        """
        follow = request.follow
        while follow is not None and (following := follow(result)) is not None:
            self.end_read_ahead()  # The queue changes until the worker has replied.
            time.sleep(FOLLOW_S)
            result, follow = following.parse(scripts.send_calls(self.client, following.calls)), following.follow
            yield result

    def inspect_worker(self, ref: Ref, worker: str) -> Iterator[WorkerInspection]:
        """Send a worker the system's questions about its tasks and queues, and yield its replies so far.

        The last inspection is complete. Each step takes one round trip and `FOLLOW_S`. Raises ReadOnly or Refused
        before anything is sent, and UsageError if workers of the system reply to no questions.
        """
        request = self.systems[ref.system].inspect_request(ref.queue, worker)
        if request is None:
            raise UsageError(f"{ref.system}: its workers reply to no questions. rqtui workers shows what is stored.")
        if self.read_only:
            raise ReadOnly("inspect sends commands to a worker, and this session is read-only.")
        if denial := self.explain_denial("inspect", ref):
            raise Refused(denial)
        result = request.parse(scripts.send_calls(self.client, request.calls))
        yield result
        yield from self._send_follow_up_requests(request, result)

    # -- health ---------------------------------------------------------------------------------------------------

    def store_complete_causes(self, ref: Ref, dead: int, causes: Sequence[Cause]) -> None:
        """Store the main causes of all `dead` dead jobs of a queue, read by a report.

        Findings show them instead of the causes of a sample, until the number of dead jobs has changed by more than
        2 %.
        """
        self._probes.store_complete_causes(ref, CompleteCauses(dead, tuple(causes[:MAX_CAUSES])))

    def collect_findings(self, refs: Sequence[Ref]) -> list[Finding]:
        """Take a snapshot, and return the findings about these queues and about the server."""
        snapshot = self.take_snapshot(Focus(queues=tuple(refs)))
        findings = [finding for queue in snapshot.queues for finding in queue.findings]
        return [*findings, *server_rules.find_server_problems(self.client)]


class _SentRequests:
    """Counts the commands and the round trips that a snapshot has sent so far."""

    def __init__(self) -> None:
        self.commands = self.round_trips = 0

    def add(self, requests: Iterable[Request[Any]]) -> None:
        """Count the commands of one round trip. Called before they are sent, because parsing changes some requests."""
        commands = sum(call.reply_count for request in requests for call in request.calls)
        self.commands += commands
        self.round_trips += bool(commands)


def _list_matching_names(ref: Ref) -> tuple[str, ...]:
    """Return the names of a queue that a pattern in a config file may match.

    A config file contains text, while the name of a queue may be any bytes.
    """
    return ref.queue, str(ref), safe(ref.queue), safe(str(ref))


def _ignore_error_of_queue(error: Exception) -> Job | None:
    """Return None for an error that concerns one queue; raise an error that concerns the whole server."""
    if isinstance(error, ServerError) and not isinstance(error, WrongType):
        raise error
    describe_and_log_error(error, log)
    return None


def _return_error_as_result(request: Request[Any]) -> Request[Any]:
    """Return a request whose result is its error if it fails, so that the rest of the snapshot is still shown."""
    return isolate_request(lambda: request, _convert_to_rqtui_error)


def _convert_to_rqtui_error(error: Exception) -> RqtuiError:
    """Return an RqtuiError unchanged, and any other error as an RqtuiError with its description, which is logged."""
    return error if isinstance(error, RqtuiError) else RqtuiError(describe_and_log_error(error, log))


def build_engine(client: Any, systems: Sequence[System], read_only: bool = False) -> Engine:
    """Build an engine for a client, and run one discovery of queues."""
    engine = Engine(client, systems, read_only)
    for _chunk in engine.discover():
        pass
    return engine
