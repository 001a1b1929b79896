"""Provide the base class of queue systems, and the requests and replies that systems exchange with the engine.

A subclass (one per file in `systems/`) declares its places, its keys, how its queues are discovered and how its records
are decoded. A system does not talk to Redis itself, except in the methods that take a `client`: it builds `Request`s
(script calls with a function that parses the replies), and the engine sends the requests of one refresh in one round
trip. The scripts in a system's folder define which verbs it supports.
"""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rqtui.errors import RqtuiError, ServerError, Unknown, Unreachable, UsageError, WrongType, describe_and_log_error
from rqtui.ids import create_job_id
from rqtui.model import (
    NO_EVENT_COVERAGE,
    EventCoverage,
    Finding,
    Job,
    KindStatistics,
    MigrationTerms,
    Outcome,
    Page,
    PageSelection,
    Place,
    Queue,
    Schedule,
    State,
    Worker,
    WorkerInspection,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply, Script
from rqtui.system_base.option_values import OptionValue
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe
from rqtui.verbs import TO_QUEUE, VERBS, Verb, find_verb

log = logging.getLogger("rqtui.system_base")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Replies = Sequence["Reply | Exception"]
# Jobs per script call. With more, one call would keep the server busy for more than a few milliseconds.
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """Script calls to send, and the function `parse`, which converts their replies to a result.

    `parse` may also change the state of the system, so that its next request differs.
    """

    calls: Sequence[Call]
    parse: Callable[[Replies], T_co]
    # The jobs of the request, in the order of the outcomes.
    jobs: tuple[Job, ...] = ()
    # The script's columns for each job, if the request is one call.
    rows: tuple[Mapping[str, object], ...] = ()
    # An error of this request does not count when rqtui decides whether the server refuses everything.
    may_fail: bool = False
    # Returns the next request while the result is not final, such as when workers have not replied yet. Only verbs and
    # inspections send it.
    follow: Callable[[Any], Request[T_co] | None] | None = None


class System:
    """A queue system: its places, keys, scripts and options. The base class for authors of systems.

    Each positional argument is the mapping of one option `--system NAME:key=value`. It is merged into `defaults`, and
    `specs` has all of them. `is_explicit` is False if no option named the system and rqtui only looks for its keys;
    then the system claims no queue whose keys it does not see.
    """

    # The name of the system, as in `--system NAME`. If one rqtui shows several applications of a system, the name of an
    # instance is `NAME@APPLICATION`, and that of its class stays.
    name: str
    # The places of a queue, in the order in which screens list them.
    places: ClassVar[tuple[Place, ...]]
    # The options of the system with their default values.
    defaults: ClassVar[Mapping[str, str]] = {}
    # The allowed values by option; an option that is not listed takes any value.
    option_values: ClassVar[Mapping[str, OptionValue]] = {}
    # The option that has the same value for all queues of an instance; each value of it needs an instance of its own.
    shared_option: ClassVar[str] = ""
    # The option that names the queue, if there is one.
    queue_option: ClassVar[str] = ""
    # Lua patterns of keys that reveal a queue, for the walk over all keys.
    key_patterns: tuple[str, ...] = ()
    # Redis commands that the system sends in addition to its scripts (`script.build_command`), such as `CLIENT LIST`.
    commands: ClassVar[tuple[str, ...]] = ()
    # Whether the walk over all keys finds facts that no key of a queue holds, such as the workers of a queue.
    needs_key_walk: ClassVar[bool] = False
    # Whether the dispatcher and the reaper of rqtui may run without being asked for.
    loops_by_default: ClassVar[bool] = False
    # Whether a person types bodies as JSON; otherwise a body may be any bytes.
    has_json_bodies: ClassVar[bool] = False
    # Whether `rqtui.client.Queue` puts jobs into these queues and takes jobs from them.
    has_client: ClassVar[bool] = False
    # The key that holds the names of all queues, if there is one.
    queue_names_key: str = ""
    # Whether all keys of a queue are in one hash slot.
    works_on_cluster: bool = False
    # The number of the Redis database, which the engine sets. It is part of the names of some Pub/Sub channels.
    database: int = 0
    # The key prefixes of this system that a walk found and that no option names: their queues are not listed.
    other_prefixes: frozenset[str] = frozenset()
    # The folder of the scripts, for a system from another package; None: `lua/<name>`.
    folder: ClassVar[Path | None] = None
    # Only queues with jobs in one of these states need probes; if empty, all queues need them.
    probed_states: ClassVar[frozenset[State]] = frozenset()
    # The names in `Queue.counters` that this system computes from counts, so that they can decrease.
    derived_counters: ClassVar[frozenset[str]] = frozenset()
    # The interval (ms) of the Pub/Sub events from which alone workers are known; None: Redis stores the workers.
    heartbeat_event_interval_ms: ClassVar[int | None] = None
    # The time (ms) within which a worker that holds a job sends its first heartbeat; None: unknown.
    first_heartbeat_ms: ClassVar[int | None] = None
    # Whether `job_request` finds a job directly, however many jobs there are.
    can_find_by_id: ClassVar[bool] = False
    # An example of a body that contains an id, if `put --id` cannot prevent putting the same id twice.
    body_id_example: ClassVar[str] = ""
    # Whether jobs have ids of their own; `job_request` finds a job by id if it is near an end of its place.
    has_ids: ClassVar[bool] = False
    # The facts that the system stores about a job. `name`: `kinds` groups by it. `tried`: attempts are shown, and jobs
    # that are tried again and again are a finding. `error`: `errors` groups by it, and findings name causes. `worker`:
    # the view and the command `workers` list the system. `priority`: overtaken jobs are a finding. `lease`: the
    # length of a lease is shown. `owner`: the list of dead jobs has a column with the worker.
    known_fields: ClassVar[frozenset[str]] = frozenset()
    # Facts that the system does not store, beside those that its counts and `known_fields` show to be unknown.
    unknown_facts: ClassVar[tuple[str, ...]] = ()
    # What the users of this system call a verb, by verb, if they have another word for it: retry for requeue.
    verb_labels: ClassVar[Mapping[str, str]] = {}
    # The effect of a verb in this system, by verb, if the table of verbs does not say enough.
    verb_effects: ClassVar[Mapping[str, str]] = {}
    # The fix for a general finding in this system, by kind of finding; an empty text shows no general fix.
    finding_remedies: ClassVar[Mapping[str, str]] = {}
    # Whether one worker may serve several queues; it is then counted in each of them.
    shares_workers: ClassVar[bool] = False
    # Whether a worker takes a job of a queue only when the queues before it in its list are empty.
    has_ordered_queues: ClassVar[bool] = False
    # Whether a schedule whose program stopped is a finding, read by `schedules_request` for all queues at once.
    checks_schedules: ClassVar[bool] = False
    # Whether `ends_request` reads how many runs ended in each of the last minutes.
    records_ends: ClassVar[bool] = False
    # Queues per `queues_request`. If one script counts them all, 50 queues take about a millisecond of the server.
    queues_per_request: ClassVar[int] = 50
    # Jobs per call of a verb; choose fewer if one job costs the server more.
    jobs_per_call: ClassVar[int] = CHUNK
    # The reason why a migration leaves the jobs of a place there, by place of waiting or dead jobs.
    unmigrated_places: ClassVar[Mapping[str, str]] = {}
    # The ready places in the order in which workers take from them, if `places` has another order.
    take_order: ClassVar[tuple[str, ...]] = ()
    # The places in which a verb is offered, by verb, where `moves` of its script and the table of verbs do not say it.
    verb_places: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # The names that workers give themselves, with the group `host`, if the machine is a part of the name.
    worker_name_pattern: ClassVar[re.Pattern[str] | None] = None
    # The reason why a verb that a person may expect does not exist, by verb.
    missing_verbs: ClassVar[Mapping[str, str]] = {}
    # Why a queue may have no counters per minute.
    missing_history: ClassVar[str] = "counts nothing"
    # Where the schedules are stored if not in Redis, such as "celery beat has a file".
    schedules_elsewhere: ClassVar[str] = ""
    # Fields of a new job that are no column of `enqueue`, such as `delay_ms` where `enqueue` has only `due_ms`:
    # `build_new_job` converts them to other columns.
    converted_fields: ClassVar[tuple[str, ...]] = ()
    # An example of the body of a new job, with which a form starts.
    body_template: ClassVar[str] = "{}"

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        for spec in options:
            unknown = sorted(set(spec) - set(self.defaults))
            if unknown:
                option_names = ", ".join(self.defaults) or "none"
                raise UsageError(f"system {self.name} has no option {', '.join(unknown)}; its options: {option_names}.")
        self.specs: tuple[dict[str, str], ...] = tuple({**self.defaults, **spec} for spec in options or ({},))
        if self.shared_option and len(self.specs) > 1:
            raise UsageError(f"system {self.name}: one --system for each {self.shared_option}.")
        for spec in self.specs:
            for option, (fits, words) in self.option_values.items():
                if not fits(spec[option]):
                    raise UsageError(f'system {self.name}: {option} is {words}, not "{spec[option]}".')
        self.is_explicit = is_asked
        self.scripts: scripts.Folder = scripts.load_scripts(self.folder or self.name)
        self.event_coverage: EventCoverage = NO_EVENT_COVERAGE  # set by the engine before it passes on events
        self._clock = (0, 0.0)  # the server's clock (ms) and time.monotonic() when it was received

    @property
    def options(self) -> dict[str, str]:
        """The options of the system for queues that no `--system` names."""
        return self.specs[0]

    def options_of(self, queue: str) -> dict[str, str]:
        """Return the options that `--system` gave this system for one queue.

        If several `--system` were given, the one that names the queue counts, else the first one. The options of the
        first one get the queue's name under the key that the attribute `queue_option` holds.
        """
        if not self.queue_option:
            return self.options
        named_options = next((spec for spec in self.specs if spec[self.queue_option] == queue), None)
        return named_options or {**self.options, self.queue_option: queue}

    def script_options(self, queue: str) -> dict[str, str]:
        """Return the options of a queue in the form in which the system's scripts expect them.

        Override it if a person types an option differently from how the script needs it.
        """
        return self.options_of(queue)

    def format_spec(self, queue: str) -> str:
        """Return the text `SYSTEM:key=value,…` to give to `--system` for this queue; empty if it needs no options."""
        options = self.options_of(queue)
        unusual = [n for n in options if n != self.queue_option and options[n] != self.defaults[n]]
        option_text = ",".join(f"{n}={options[n]}" for n in (self.queue_option, *unusual) if n)
        return f"{type(self).name}:{option_text}" if unusual else ""

    def named_queues(self) -> list[str]:
        """Return the queues that the options of the system (`--system`) name."""
        return [spec[self.queue_option] for spec in self.specs if spec[self.queue_option]] if self.queue_option else []

    # -- hooks that a subclass implements -------------------------------------------------------------------------

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return every Redis key of a queue, by the name that script headers use."""
        raise NotImplementedError

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the names of the system's queues in lists, one list per round trip.

        Raises no error except `ServerError`. By default these are the queues that the options name; if the system is
        not explicit, only those whose keys exist.
        """
        yield [queue for queue in self.named_queues() if self.is_explicit or self.has_keys_of(client, queue)]

    def marker_keys(self) -> Sequence[str]:
        """Return keys of which at least one exists wherever `discover` finds a queue of a system that is not explicit.

        The engine checks the marker keys of all systems at once and skips `discover` if none exists. If empty,
        `discover` is always called.
        """
        return ()

    def has_keys_of(self, client: Any, queue: str) -> bool:
        """Return whether the keys of a queue of that name clearly belong to this system. Takes one round trip."""
        return False

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues to which keys found by a walk belong; each key matches one of `key_patterns`.

        May read the keys, in one round trip.
        """
        return []

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the system has a queue of that name. Takes at most one round trip."""
        return queue in self.named_queues() and (self.is_explicit or self.has_keys_of(client, queue))

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build the request for the job counts and the state of one queue."""
        raise NotImplementedError

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue] | Request[list[Queue]]] | None:
        """Build one request for the job counts of many queues; None if the system has no script for that.

        Its `parse` raises if the script failed. If queues that changed need more calls, it returns
        another request instead of the queues.
        """
        return None

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one page of jobs: `limit` jobs of a place from `offset` on.

        At most `body_bytes` of each body are read. Offset -1 is the last page, and -1 - n the page that ends n jobs
        before the end; near the head of the place it is the first page.
        """
        raise NotImplementedError

    def scan_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one step of a scan that visits every job of a place once.

        `offset` is the `next` of the previous page. In a shared place, offsets are ranks among the jobs of all queues:
        a step reads a bounded number of them and returns up to `limit` jobs of this queue, possibly none; `next` is
        then the rank after the last job that was read.
        """
        return self.page_request(queue, place, offset, limit, body_bytes)

    def backward_scan_request(
        self, queue: str, place: str, older_jobs: int | None, limit: int, body_bytes: int
    ) -> Request[Page]:
        """Build the request for one step of a scan that visits the jobs of a place from its end to its head.

        `older_jobs` is that of the previous page (None: begin at the end), so jobs that are appended during the scan
        do not change it. In the page, `offset` and `next` count from the end. See `scan_request` for a shared place.
        """
        if older_jobs is None:
            request = self.page_request(queue, place, -1, limit, body_bytes)
        else:
            first = max(0, older_jobs - limit)
            request = self.page_request(queue, place, first, older_jobs - first, body_bytes)
        return Request(request.calls, lambda replies: reverse_page(request.parse(replies)))

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for all data of one job. A body longer than `body_bytes` is left out (-1: never)."""
        raise NotImplementedError

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the workers of a queue: a `WorkerList`, or any tuple of `Worker`. By default none.

        Needs `worker` in `known_fields` and a reserved place. Findings about idle or missing workers also need the
        number of live workers, which the script `counts` returns as `workers`.
        """
        return Request((), lambda _replies: ())

    def inspect_request(self, queue: str, worker: str) -> Request[WorkerInspection] | None:
        """Build the request that asks a worker about itself; None if workers of this system reply to no questions."""
        return None

    def schedules_request(self) -> Request[tuple[Schedule, ...]] | None:
        """Build the request for the recurring jobs (schedules) of all queues; None if Redis holds none."""
        return None

    def ends_request(self, queue: str) -> Request[Sequence[tuple[int, int, int]]] | None:
        """Build the request for the runs that ended in each of the last minutes, or return None.

        The result has (start of the minute in ms, runs, failed runs). It is empty if the runs of a queue are unknown.
        """
        return None

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]] | None:
        """Build the request for the system's statistics per kind of job; None if the system keeps none.

        Statistics about all queues (without a `queue`) are requested once, with the name of any queue.
        """
        return None

    def learn_job_format(self, client: Any, queue: str) -> None:
        """Read existing jobs of a queue before a job is put, if the format of a new job depends on them."""

    def register_queue(self, client: Any, queue: str) -> None:
        """Add a new queue to the system's list of queue names in Redis, if the system keeps one."""

    def unregister_queue(self, client: Any, queue: str) -> None:
        """Remove a purged queue from the system's list of queue names in Redis, if the system keeps one."""

    def read_taken_jobs(self, queue: str, reply: Reply) -> tuple[Job, ...]:
        """Return the jobs in the reply of a script that just leased or pulled them. Leased jobs have a token."""
        raise NotImplementedError

    def draw_next_sample(self, queue: str, place: str) -> None:
        """Let the next page of an unordered place show other members than those shown so far."""

    def probe_interval_s(self, queue: str) -> float | None:
        """Return when the next `probe_request` of a queue is due (s after the last one); None: at the usual time."""
        return None

    def needs_probe(self, queue: Queue) -> bool:
        """Return whether a queue may have findings of its system, judging by its counts (`probed_states`).

        Cheap: no I/O.
        """
        return not self.probed_states or any(queue.count_in_state(state) for state in self.probed_states)

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]] | None:
        """Build the request for a bounded check for the system's own health findings; None if it has none.

        The engine sends it a few times a minute.
        """
        return None

    @property
    def is_found_by_walk(self) -> bool:
        """Whether queues are found only by a walk over all keys (SCAN), because no key holds their names."""
        return bool(self.key_patterns) and not self.queue_names_key

    def event_patterns(self) -> tuple[str, ...]:
        """Return the Pub/Sub channel patterns (PSUBSCRIBE) of events that no key records; empty if there are none.

        The patterns may depend only on the options. rqtui subscribes while a screen shows a queue of this system.
        """
        return ()

    def record_event(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Process a Pub/Sub message of the system, received at `at_ms` (server clock).

        A message of unknown format is ignored.

        Called on the engine's thread before the counts of a poll are read. Very long messages are truncated at their
        end.
        """

    def event_requests(self) -> Sequence[Request[None]]:
        """Build the requests needed to interpret Pub/Sub events; they are parsed before the counts of a poll."""
        return ()

    def build_row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """Return the values of a job for script columns other than `id`, `token`, `place`, `member` and `worker`."""
        return {}

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return the bytes that verb `name` writes in place of `job.member`, for scripts with the column `new`.

        The script replaces the member only if it still has the bytes that were read; Lua never re-encodes a body. If a
        job is an id and a record, set `Job.member` to the record as it was read, and `is_partial` if the page cut it.
        `form` has the arguments of the script's header by name, such as `delay_ms`. Raises UsageError for a job that
        cannot be rewritten: that job stays as it is, and the other jobs are still changed.
        """
        raise NotImplementedError

    def build_queue_rows(self, queue: str, script: Script) -> Sequence[Mapping[str, object]]:
        """Return the rows for a script that acts on a whole queue and has columns (names of workers …)."""
        return ()

    def encode_body(self, body: bytes) -> bytes:
        """Return a job's body in the form that the system's workers read.

        Raises UsageError if they could not read it.
        """
        return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Return the columns of the script `enqueue` for a new job. The body of `row` is encoded by `encode_body`.

        Override it if a typed body contains more than the body of the job. `row` has only the fields that were given:
        `body` (bytes), `id` (bytes or str), `name` (str), `delay_ms` and `due_ms` (int), `priority` (int) and others of
        `enqueue` and of `converted_fields`. Raises UsageError for a body that no worker could run.
        """
        return {**row, "body": self.encode_body(bytes(row["body"]))}  # type: ignore[call-overload]

    def format_editable_body(self, job: Job) -> bytes:
        """Return the body of a job in the form in which a person edits it; `build_new_job` parses that form."""
        return job.body or b""

    def read_new_id(self, row: Mapping[str, object]) -> bytes:
        """Return the id of a job that was put with these fields."""
        id = row.get("id", b"")
        return id if isinstance(id, bytes) else to_bytes(str(id))

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return the attempts, backoff and losses with which `job` would continue in the native queue.

        Used by a migration.

        The job comes from `job_request` or a lease: it has its body, and all facts if `can_find_by_id` is set.
        """
        return MigrationTerms(max(0, job.attempts - (job.state is State.RESERVED)), job.max_attempts)

    def queue_argument(self, queue: str) -> str:
        """Return the argument that names a queue on rqtui's command line, quoted for a shell."""
        return quote_for_shell(queue)

    # -- derived --------------------------------------------------------------------------------------------------

    def set_server_time(self, now_ms: int) -> None:
        """Store the Redis server's current time (ms since 1970), as a reply reported it, for `now_ms`."""
        self._clock = (now_ms, time.monotonic())

    def now_ms(self) -> int:
        """Return the server's time (ms since 1970), extrapolated from the last reply.

        Before the first reply, this machine's clock is used.
        """
        heard_ms, at_s = self._clock
        return heard_ms + int((time.monotonic() - at_s) * 1000) if heard_ms else time.time_ns() // 1_000_000

    @property
    def last_reply_s(self) -> float:
        """When the system last received the server's time (`time.monotonic()`); 0 before the first reply."""
        return self._clock[1]

    @property
    def events_since_ms(self) -> int | None:
        """The time since when rqtui listens to this system's Pub/Sub events; None if it does not listen."""
        return self.event_coverage.since_ms

    def place(self, name: str) -> Place:
        """Return the place of the system with that name, or else the first place of the state with that name.

        Raises UsageError if no place fits.
        """
        return self.find_places(name)[0]

    def find_places(self, word: str) -> tuple[Place, ...]:
        """Return the place of the system called `word`, or else all places of the state called `word`.

        Raises UsageError if no place fits.
        """
        places = tuple(place for place in self.places if place.name == word)
        places = places or tuple(place for place in self.places if place.state == word)
        if not places:
            raise UsageError(
                f'{self.name} has no place "{word}"; its places: {", ".join(p.name for p in self.places)}.'
            )
        return places

    def is_shared(self, place: str) -> bool:
        """Return whether a place holds the jobs of all queues of the system in one Redis key.

        With an empty name, return whether the system has any such place.
        """
        checked_places = [self.place(place)] if place else self.places
        return any(checked_place.is_shared and not checked_place.is_from_events for checked_place in checked_places)

    def is_from_events(self, place: str) -> bool:
        """Return whether a place has no Redis key, so that its jobs are known only from Pub/Sub events."""
        return self.place(place).is_from_events

    def purges_by_job(self, place: str) -> bool:
        """Return whether a purge of a place (empty: of all) deletes job by job, so that other queues' jobs stay."""
        return self.is_shared(place) and self.can("delete", place)

    def script(self, name: str) -> Script:
        """Return the Lua script of a verb. Raises UsageError with the reason or the known verbs if there is none."""
        script_found = self.scripts.get(name)
        if script_found is None:
            verb_names = ", ".join(sorted(name for name, script in self.scripts.items() if not script.read_only))
            reason = self.missing_verbs.get(name)
            raise UsageError(
                f'{self.name} has no verb "{name}"' + (f": {reason}." if reason else f"; its verbs: {verb_names}.")
            )
        return script_found

    def can(self, name: str, place: str = "") -> bool:
        """Return whether the system has a verb, and whether the verb takes jobs from `place` (empty: any place)."""
        script = self.scripts.get(name)
        if script is None:
            return False
        row = find_verb(name)
        if place and name in self.verb_places:
            return place in self.verb_places[name]
        if place and self.is_from_events(place) and place not in script.sources:
            return False
        if not place or row.scope != "job":
            return True
        return place in script.sources if script.sources else self.place(place).state in row.takes

    def find_target_places(self, name: str, job: Job) -> tuple[str, ...]:
        """Return the place to which verb `name` moves a job, in a tuple that is empty if the job leaves the queue.

        The job goes back, or to the dead jobs if it was cancelled or has no attempts left.
        """
        places = [place for place in self.script(name).targets if place]
        dead = {place.name for place in self.places if place.state is State.DEAD}
        is_over = job.is_cancelled or (name == "reap" and self.has_no_attempts_left(job))
        return tuple([place for place in places if (place in dead) == is_over][:1] or places[:1])

    def has_no_attempts_left(self, job: Job) -> bool:
        """Return whether a job that is reaped would not be tried again."""
        return job.max_attempts is not None and job.attempts >= job.max_attempts

    def unchanged_guard(self, name: str, job: Job) -> dict[str, object]:
        """Return the arguments that let a verb change a job only if it is still as it was read.

        Empty if the script of the verb cannot check that.
        """
        can_tell = any(column.name == "line" for column in self.script(name).each)
        return {"line": job.attempts_line or b"-"} if can_tell else {}

    def verbs(self) -> tuple[Verb, ...]:
        """Return every changing verb of the system, in the order of the table `VERBS`; unlisted verbs come last."""
        order = {row.name: number for number, row in enumerate(VERBS)}
        names = sorted((n for n, s in self.scripts.items() if not s.read_only), key=lambda n: (order.get(n, 999), n))
        return tuple(find_verb(name, self.scripts[name].summary) for name in names)

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build a call of one of the system's scripts with the keys of a queue.

        Raises UsageError for a field that the script does not declare. Arguments that are missing in `args` are filled
        from the options of the queue.
        """
        script = self.script(name)
        argument_names = {arg.name for arg in script.args}
        columns = {arg.name for arg in script.each}
        unknown_fields = sorted(set(args) - argument_names - columns)
        if unknown_fields:
            known_fields = ", ".join(sorted(argument_names | columns))
            raise UsageError(f"{name} has no field {', '.join(unknown_fields)}; its fields: {known_fields}.")
        options, to_queue = self.script_options(queue), str(args.get(TO_QUEUE) or "")
        if to_queue:
            self.check_target_queue(queue, to_queue)
        keys = self.collect_script_keys(script, queue, to_queue)
        scalars = {arg.name: args[arg.name] for arg in script.args if arg.name in args}
        for arg in script.args:
            if arg.name not in scalars and arg.name in options:
                scalars[arg.name] = int(options[arg.name]) if arg.type == "int" else options[arg.name]
        if "queue" not in scalars and any(arg.name == "queue" for arg in script.args):
            scalars["queue"] = queue
        rows = rows or self.build_queue_rows(queue, script)
        tail = [{arg.name: row[arg.name] for arg in script.each if arg.name in row} for row in rows]
        return script.build_call({key.name: keys[key.name] for key in script.keys}, scalars, tail)

    def check_target_queue(self, queue: str, to_queue: str) -> None:
        """Raise UsageError if jobs of a queue cannot move to `to_queue`: the same queue, or an impossible name."""
        if to_queue == queue:
            raise UsageError(f"the jobs are in {queue} already; name another queue.")
        self.keys(to_queue)

    def collect_script_keys(self, script: Script, queue: str, to_queue: str) -> Mapping[str, str]:
        """Return the keys of a queue by the names that `script` uses.

        A script with the argument `to_queue` also gets the keys of that queue, whose names begin with `to_`, and as
        `queues` the key with the names of all queues, if the system has one.
        """
        keys = self.keys(queue)
        if not script.moves_to_queue:
            return keys
        other = {f"to_{name}": key for name, key in self.keys(to_queue).items()}
        return {"queues": self.queue_names_key, **keys, **other}

    def select_arguments(self, name: str, values: Mapping[str, object]) -> dict[str, object]:
        """Return the entries of `values` that a script of the system takes as arguments."""
        argument_names = {arg.name for arg in self.script(name).args}
        return {name: value for name, value in values.items() if name in argument_names}

    def verb_requests(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Request[list[Outcome]]]:
        """Build the requests that run a verb on jobs, one per chunk of jobs.

        Without jobs the verb acts on the queue, or on the place named in the form. A value comes from the form, else
        from the job, else from the system's options.
        """
        if not jobs:
            self.refuse_event_places(name, {str(form.get("place") or "")})
        if isinstance(body := form.get("body"), bytes | str):
            form = self.build_new_job(queue, {**form, "body": to_bytes(body)})
        if not jobs:
            return [self._queue_verb_request(name, queue, form)]
        able, new, refused = self._split_refused_jobs(name, jobs, form)
        by_place = any(arg.name == "place" for arg in self.script(name).args)
        chunks = _split_jobs_into_chunks(able, self.jobs_per_call, by_place=by_place)
        requests = [self._chunk_verb_request(name, queue, chunk, form, new) for chunk in chunks]
        return [*([_build_refused_request(refused)] if refused else []), *requests]

    def _queue_verb_request(self, name: str, queue: str, form: Mapping[str, object]) -> Request[list[Outcome]]:
        """Build the request that runs a verb on a whole queue, or on the place that `form` names."""
        script = self.script(name)
        rows = [form] if script.per_row or any(column.name in form for column in script.each) else []
        call = self.build_call(name, queue, form, rows)
        return Request((call,), lambda replies: _convert_reply_to_queue_outcomes(script, form, replies[0]))

    def _split_refused_jobs(
        self, name: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> tuple[list[Job], dict[int, bytes], list[tuple[Job, Outcome]]]:
        """Split jobs into those a verb can change, their new bytes, and those it must refuse, each with an outcome.

        The new bytes are stored by `id()` of the job, because two jobs in a list may have the same id. They are empty
        if the script takes none.
        """
        able: list[Job] = []
        new: dict[int, bytes] = {}
        refused: list[tuple[Job, Outcome]] = []
        is_rewritten = any(column.name == "new" for column in self.script(name).each)
        for job in jobs:
            reason = self.explain_refusal(name, job)
            if is_rewritten and not reason:
                try:
                    new[id(job)] = b"" if job.is_partial else self.rewrite_member(name, job, form)
                except UsageError as error:  # Only this job is refused.
                    reason = str(error)
            if reason:
                refused.append((job, Outcome(name, job.id, "refused", reason)))
            else:
                able.append(job)
        return able, new, refused

    def can_resume(self, queue: Queue) -> bool:
        """Return whether resuming a queue would have an effect, judging by its counts."""
        return queue.is_paused

    def refuse_event_places(self, name: str, places: Collection[str]) -> None:
        """Raise UsageError if a verb cannot act on one of `places` because that place has no Redis key."""
        for place in self.places:
            if place.name in places and (why := self._explain_event_place(name, place.name)):
                raise UsageError(why)

    def explain_refusal(self, name: str, job: Job) -> str:
        """Return why a verb cannot act on a job, as far as known without asking Redis; empty if it can."""
        return self._explain_event_place(name, job.place)

    def _explain_event_place(self, name: str, place: str) -> str:
        """Return why a verb takes no job from a place, if the reason is that the place has no Redis key; else empty."""
        if not any(
            listed_place.is_from_events and listed_place.name == place for listed_place in self.places
        ) or self.can(name, place):
            return ""
        return f"{name} takes no job from {place}: its jobs were seen in Pub/Sub events, and Redis does not store them."

    def put_request(self, queue: str, rows: Sequence[Mapping[str, object]]) -> Request[list[Outcome]]:
        """Build the request that puts new jobs; its result has one outcome per row.

        Raises UsageError for a field that this system does not store.
        """
        script = self.script("enqueue")
        columns = [column.name for column in script.each]
        taken = {*columns, *self.converted_fields}
        unknown_fields = sorted({name for row in rows for name in row} - taken)
        if unknown_fields:
            unknown_text, known_text = (
                ", ".join(_list_user_fields(names)) for names in (unknown_fields, [*columns, *self.converted_fields])
            )
            raise UsageError(f"{self.name} keeps no {unknown_text}; a job of it is given {known_text}.")
        new_jobs = [self.build_new_job(queue, row) for row in rows]
        if "id" in columns:
            new_jobs = [{"id": create_job_id(), **row} for row in new_jobs]
        call = self.build_call("enqueue", queue, {}, new_jobs)
        ids = [self.read_new_id(row) for row in new_jobs]

        def parse_outcomes(replies: Replies) -> list[Outcome]:
            answer = replies[0]
            each: Sequence[Reply | Exception] = answer.each if isinstance(answer, Reply) else [answer] * len(ids)
            return [_convert_reply_to_outcome(script, id, reply) for id, reply in zip(ids, each, strict=True)]

        return Request((call,), parse_outcomes)

    def _chunk_verb_request(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object], new: Mapping[int, bytes]
    ) -> Request[list[Outcome]]:
        script = self.script(name)
        rows = [
            {
                "id": job.id,
                "token": job.token,
                "member": job.member,
                "worker": job.worker,
                **self.build_row_values(queue, job),
                **form,
                **({"new": new[id(job)]} if new else {}),
            }
            for job in jobs
        ]
        scalars = {arg.name for arg in script.args}
        args = {key: value for key, value in form.items() if key in scalars or key not in {a.name for a in script.each}}
        if "place" in scalars:
            args.setdefault("place", jobs[0].place)
        if script.each:
            call = self.build_call(name, queue, args, rows)
            return Request(
                (call,),
                lambda replies: _convert_reply_to_job_outcomes(script, jobs, replies[0]),
                tuple(jobs),
                tuple(rows),
            )
        calls = tuple(
            self.build_call(name, queue, {**{k: v for k, v in row.items() if k in scalars}, **args}) for row in rows
        )
        return Request(
            calls,
            lambda replies: [
                _convert_reply_to_outcome(script, job.id, reply) for job, reply in zip(jobs, replies, strict=True)
            ],
            tuple(jobs),
        )


USER_FIELDS = ("id", "body", "name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep")


def _list_user_fields(columns: Sequence[str]) -> list[str]:
    """Return the fields that a person fills in for a new job: those of `columns` that are no internal ones.

    If all columns are internal, return all of them.
    """
    field_names = {column.removesuffix("_ms") for column in columns}
    return [name for name in USER_FIELDS if name in field_names] or list(columns)


def find_late_place(places: Sequence[Place]) -> Place | None:
    """Return the place of leased jobs that are past their deadline, if a system shows them as a place of their own."""
    reserved = [place for place in places if place.state is State.RESERVED and place.where]
    return reserved[-1] if len(reserved) > 1 else None


def is_state_counted_at(place: Place, places: Sequence[Place]) -> bool:
    """Return whether the numbers of a whole state (due, expired, paused jobs) are shown at this one of its places.

    That is the place whose scores are the counted times, or else the first place of its state.
    """
    same_state = [other_place for other_place in places if other_place.state is place.state]
    timed_places = [
        other_place for other_place in same_state if other_place.score.startswith(_TIMED_BY.get(place.state, "-"))
    ]
    return place is (timed_places or same_state)[0]


_TIMED_BY = {State.SCHEDULED: "due", State.RESERVED: "deadline"}


def isolate_request(build: Callable[[], Request[T]], build_error_result: Callable[[Exception], T]) -> Request[T]:
    """Build a request that never raises: if `build` or its parsing fails, the result is that of `build_error_result`.

    This way one unreadable queue does not stop the others. A lost connection affects all requests, so it is raised
    separately, by `raise_if_connection_lost`.
    """
    try:
        ask = build()
        if not isinstance(ask, Request):  # from another package
            raise TypeError(f"a method returned {type(ask).__name__} instead of a Request")
    except Exception as error:
        failed = error
        return Request((), lambda _replies: build_error_result(failed))

    def parse_or_convert_error(replies: Replies) -> T:
        try:
            return ask.parse(replies)
        except Exception as error:
            return build_error_result(error)

    return replace(ask, parse=parse_or_convert_error)


def queue_request(system: System, queue: str) -> Request[Queue]:
    """Build a request for the counts of one queue that returns a `Queue` with an error message instead of raising."""
    return isolate_request(
        lambda: system.queue_request(queue), lambda error: build_uncounted_queue(queue, system.name, error)
    )


def page_request(system: System, selection: PageSelection) -> Request[Page]:
    """Build a request for one page of jobs that returns a `Page` with an error message instead of raising."""
    (_system, queue), place, offset, limit, body_bytes, is_newest_first = selection

    def build_request() -> Request[Page]:
        if not is_newest_first:
            return system.page_request(queue, place, offset, limit, body_bytes)
        request = system.page_request(queue, place, -1 - offset, limit, body_bytes)
        return Request(request.calls, lambda replies: reverse_page(request.parse(replies)))

    return isolate_request(
        build_request, lambda error: Page(queue, system.name, place, (), 0, error=describe_and_log_error(error, log))
    )


def reverse_page(page: Page) -> Page:
    """Return a page with its jobs backwards; `offset` and `next` then count from the end of the place."""
    offset = max(0, page.total - page.offset - len(page.jobs))
    next_offset = offset + len(page.jobs) if page.offset and page.jobs else None
    return replace(page, jobs=page.jobs[::-1], offset=offset, next=next_offset)


def build_uncounted_queue(queue: str, system: str, error: Exception) -> Queue:
    """Build the `Queue` of a queue whose jobs could not be counted.

    The `Queue` has the error, and a health finding if a key has the wrong type.
    """
    findings: tuple[Finding, ...] = ()
    if isinstance(error, WrongType) and error.key:
        findings = (describe_foreign_key(queue, error.key, str(error)),)
    return Queue(queue, system, workers=None, error=describe_and_log_error(error, log), findings=findings)


def describe_foreign_key(queue: str, key: str, text: str) -> Finding:
    """Build the health finding for a key of a queue that has another type than its place needs."""
    remedy = "find out which program owns the key, then RENAME it, or choose another name for the queue"
    return Finding("wrong-type", "critical", queue, text, remedy, (key,))


def quote_for_shell(word: str | bytes) -> str:
    r"""Quote a word for a shell if it needs quotes; bytes that are not text become `$'\xff'`."""
    raw = to_bytes(word)
    text = raw.decode("utf-8", "backslashreplace")
    if text.encode() == raw and safe(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in raw) + "'"


def unwrap_reply(reply: Reply | Exception) -> Reply:
    """Return the reply of a script call, or raise the error that was returned in its place."""
    if isinstance(reply, Exception):
        raise reply
    return reply


def raise_if_connection_lost(replies: Replies, checked: Replies | None = None) -> Replies:
    """Return the replies of script calls; raise the ServerError if the connection was lost or every reply is an error.

    If `checked` is given, only these replies decide whether every reply is an error.
    """
    for reply in replies:
        if isinstance(reply, Unreachable | Unknown):
            raise reply
    replies = replies if checked is None else checked
    errors = [reply for reply in replies if isinstance(reply, ServerError) and not isinstance(reply, WrongType)]
    if errors and len(errors) == len(replies):
        raise errors[0]
    return replies


def _split_jobs_into_chunks(jobs: Sequence[Job], size: int, by_place: bool) -> Iterator[list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.place if by_place else "", []).append(job)
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def _build_refused_request(refused: Sequence[tuple[Job, Outcome]]) -> Request[list[Outcome]]:
    """Build a request without calls that returns the given outcomes of refused jobs."""
    return Request((), lambda _replies: [outcome for _job, outcome in refused], tuple(job for job, _outcome in refused))


def _convert_reply_to_queue_outcomes(
    script: Script, form: Mapping[str, object], reply: Reply | Exception
) -> list[Outcome]:
    if isinstance(reply, Reply) and reply.each:
        id = form.get("id", form.get("worker", b""))
        return [_convert_reply_to_outcome(script, id if isinstance(id, bytes) else to_bytes(str(id)), reply.each[0])]
    return [_convert_reply_to_outcome(script, b"", reply)]


def _convert_reply_to_job_outcomes(script: Script, jobs: Sequence[Job], reply: Reply | Exception) -> list[Outcome]:
    if isinstance(reply, Exception):
        return [_convert_reply_to_outcome(script, job.id, reply) for job in jobs]
    return [
        _convert_reply_to_outcome(script, job.id, job_reply) for job, job_reply in zip(jobs, reply.each, strict=True)
    ]


def _convert_reply_to_outcome(script: Script, id: bytes, reply: Reply | Exception) -> Outcome:
    if isinstance(reply, Unknown):
        return Outcome(script.name, id, "unknown", f"the reply was lost, it may have happened: {reply}")
    if isinstance(reply, Unreachable):
        return Outcome(script.name, id, "not sent", str(reply))
    if isinstance(reply, RqtuiError):
        return Outcome(script.name, id, "error", str(reply))
    if isinstance(reply, Exception):
        raise reply
    id = id or reply.values.get("id") or b""  # the system may have chosen the id of a new job
    if reply.word != script.done_word:
        return Outcome(script.name, id, reply.word, reply.text, 0, dict(reply.values))
    counted = reply.values.get("moved")
    moved = counted if isinstance(counted, int) else len(reply.rows) or 1
    return Outcome(script.name, id, reply.word, reply.text, moved, dict(reply.values))
