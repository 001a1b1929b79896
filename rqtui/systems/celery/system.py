r"""Read and change Celery queues on Redis (Python, Celery 5.7 on Kombu 5.7).

Kombu has a list per queue and priority, and one hash of the messages that workers hold. LISTs `<q>` and, for
priorities 3, 6, 9, `<q>\x06\x163` …: messages in JSON, LPUSH in, BRPOP out, 0 first. A message has `body` (base64 of
`[args, kwargs, embed]`), `content-type`, `headers` (`task`, `id`, `eta`, …) and `properties` (`delivery_tag`,
`delivery_info`, `priority`). HASH `unacked`: tag → `[message, exchange, routing key]`, of all queues; ZSET
`unacked_index`: tag by time of delivery, float seconds. SETs `_kombu.binding.<exchange>` of routing key, pattern and
queue, separated as above. STRING `celery-task-meta-<id>`: the result in JSON, for a day. Running and finished tasks
and workers are only published: `/<db>.celeryev/…`, `celery-task-meta-<id>`. Operators' page:
`docs/systems/celery.md`.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

from rqtui.errors import Refused, UsageError
from rqtui.model import (
    Fact,
    Finding,
    Job,
    KindStatistics,
    MigrationTerms,
    Outcome,
    Page,
    Place,
    Queue,
    State,
    Worker,
    WorkerInspection,
    WorkerList,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.entries import HEAD_BYTES, Entry
from rqtui.system_base.event_cache import MOST_WORKERS
from rqtui.system_base.foreign_system import EntrySystem, build_facts, convert_rows_to_dicts
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.option_values import NAME, NAME_OR_NOTHING, accept_pattern_values, accept_whole_number
from rqtui.system_base.system import Replies, Request, quote_for_shell, unwrap_reply
from rqtui.systems.celery import messages, payloads, remote_control
from rqtui.systems.celery.task_runs import (
    FINAL_PLACES,
    MAX_CACHED_JOBS,
    PLACES_BY_STATUS,
    TASK_EVENTS,
    CachedJob,
    TaskRuns,
)
from rqtui.systems.celery.unplaced_events import Evidence
from rqtui.systems.celery.worker_heartbeats import SILENT_MS, WORKER_EVENTS, WorkerHeartbeats
from rqtui.text import pickles
from rqtui.text.formats import format_age, format_quantity
from rqtui.text.json_fields import read_json_fields, replace_json_fields
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe
from rqtui.verbs import TO_QUEUE

QUEUES_PER_CALL = 50  # queues per call of `tally`: four lengths and a message each
MAX_MISSED = 1000
PROBED_MESSAGES = 20  # messages of a queue, and as many held ones, that a probe reads
MAX_SEARCHED_MESSAGES = 1000  # messages searched for an id at each end of a list
RESULTS_PER_CALL = 1000  # keys of results per call of `results`
MAX_RUNNING = 1000  # running jobs searched for their workers
DOUBTFUL_MS = 4_000  # two heartbeats are missing: the worker may be silent at the next refresh
KEPT_MS = 3_600_000  # how long a redelivery is reported
STILL_MS = 10_000  # all workers idle for this long with ready jobs: no worker takes from that queue
STUCK_MS = 60_000  # the same next message for this long, and no worker holds one of its queue
MIN_UNREPORTED = 10  # tasks that end without an event before the finding
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_HELD_IN = ("unacked", "late", "eta")  # places whose entries hold a message with its exchange and routing key
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_HIDDEN = re.compile(r"\.pidbox$|^celeryev(\.|$)")  # queues of Celery's own: commands to workers, events


R = TypeVar("R")


class Celery(EntrySystem):
    """Celery queues in one Redis database with one key prefix. Combines keys with published events and results."""

    name = "celery"
    heartbeat_event_interval_ms = 2_000  # celery/worker/heartbeat.py: the default of Heart.interval
    places = (
        Place("eta", State.SCHEDULED, "<prefix>unacked", "hash", where="eta > now", is_shared=True),
        Place("queue", State.READY, "<prefix><queue>", "list"),
        Place("unacked", State.RESERVED, "<prefix>unacked", "hash", where="taken >= now - visibility", is_shared=True),
        Place("late", State.RESERVED, "<prefix>unacked", "hash", where="taken < now - visibility", is_shared=True),
        Place("running", State.RESERVED, "", "", is_from_events=True),
        Place("succeeded", State.DONE, "", "", is_from_events=True),
        Place("failed", State.DEAD, "", "", is_from_events=True),
        Place("revoked", State.DEAD, "", "", has_failures=False, is_from_events=True),
    )
    defaults = {
        "prefix": "",
        "sep": r"\x06\x16",
        "steps": "0/3/6/9",
        "visibility": "3600",
        "unacked": "unacked",
        "fanout": "/{db}.",
        "events": "celeryev",
        "control": "celery",
    }
    option_values = {
        "prefix": NAME_OR_NOTHING,
        "sep": accept_pattern_values(r"(?:\\x[0-9a-fA-F]{2}|[^\\\s])+", r"characters, or such as \x06\x16"),
        "steps": accept_pattern_values(r"[0-9](?:/[0-9])*", "priorities such as 0/3/6/9"),
        "visibility": accept_whole_number(0, 999_999_999, "seconds"),
        "unacked": NAME,
        # kombu/transport/redis.py 5.7, `_receive_one`: of a channel that begins with `/` the exchange begins behind the
        # first dot, of another one it is the beginning: a worker takes nothing that comes by a channel of another form
        "fanout": accept_pattern_values(
            r"(?:/(?:\{db\}|[^\s*?\[\]\\,=.{}])*\.)?",
            "empty, or begins with / and ends with its only dot, such as /{db}. or /shop/{db}.",
        ),
        "events": NAME,
        "control": NAME,
    }
    shared_option = "prefix"
    queues_per_request = 1000
    known_fields = frozenset({"name", "tried", "error", "worker"})
    worker_name_pattern = re.compile(r"[^@\s]+@(?P<host>[^@\s]+)")  # node names
    finding_remedies = {
        "idle-workers": "",  # `nobody-consumes` reports the same from the heartbeats of workers
        "no-live-worker": "start one: celery -A APP worker -Q {queue}",
        "oldest-ready": "add workers: celery -A APP worker -Q {queue}",
        "backlog-grows": "add workers: celery -A APP worker -Q {queue}",
    }
    has_json_bodies = True
    body_id_example = '{"task": …, "id": …}'
    has_ids = True
    shares_workers = True
    key_patterns = (r"_kombu%.binding%.",)
    schedules_elsewhere = "celery beat keeps its schedule in a file and in memory"
    body_template = '{"task": "tasks.add", "args": [], "kwargs": {}}'
    jobs_per_call = 100  # the search in lists is limited in time, so fewer jobs are searched further
    verb_places = {
        "cancel": ("eta", "queue", "unacked", "late", "running"),
        "extend": ("eta", "unacked", "late"),
        "requeue": ("failed",),
    }
    missing_verbs = {
        "kill": "it has no place for dead tasks. Delete waiting messages, and revoke tasks that a worker holds",
        "promote": "the worker that holds a task keeps its ETA in memory: revoke it, and enqueue it again. A message "
        "that still waits in the queue can be rescheduled",
        "ack": "only the worker that holds a message can ack it. Revoke the task instead",
        "reject": "only the worker that holds a message can reject it. Revoke the task instead",
        "quiet": "Celery has no command for it: pause the queues of the worker, or stop it",
    }
    verb_labels = {"cancel": "revoke"}
    verb_effects = {
        "cancel": "a worker drops a waiting task when its turn comes. The process of a running task gets the signal; "
        "with `none` the task runs to its end. Workers remember this until they restart",
        "pause": "workers that listen now take nothing from it until it is resumed or they restart. Tasks that they "
        "hold continue, and a worker that starts later takes from it",
        "resume": "all workers that listen take from it, also those that did not before",
        "requeue": "each task runs again under its own id. If no message of it was seen, it gets the arguments of its "
        "events, and no task follows it in a chain",
        "release": "it runs again; if a live worker still holds it, it runs twice",
        "reap": "they run again; a task that a live worker still runs, runs twice",
        "grow": "it runs more tasks at once until it restarts; shrink reverses that",
        "shrink": "processes without a task end, and it runs fewer tasks at once until it restarts; grow reverses that",
        "rate_limit": "each worker that knows the task starts at most this many per unit of time, until it restarts; "
        "no key stores the limit that it had before",
        "time_limit": "workers stop tasks of that name at these limits until they restart; those of Celery 5.7 do so "
        "only after their next connection to Redis. No key stores the limits that the task had before",
        "stop": "it takes no more tasks, and ends when its running tasks are done; its other messages go back",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._queues: set[str] = set()  # names of discovered queues
        self._reporting_queue_count = 0  # number of queues when the reporting one was chosen
        self._heartbeats = WorkerHeartbeats(self.event_cache)
        self._runs = TaskRuns(self.name, self.place, self._queues, self.event_cache, self._heartbeats)
        self._abandoned_jobs: dict[str, tuple[Job, ...]] = {}  # by queue: jobs on its page held by silent workers
        self._next_messages: dict[str, NextMessage] = {}  # by queue
        self._delivery_tags: LruCache[bytes, bytes] = LruCache(MAX_CACHED_JOBS)  # delivery tags in `unacked`, by job id
        self._missed_jobs: set[tuple[str, bytes]] = set()  # jobs whose bytes were not found: searched by id
        self._paused_since_ms: dict[str, int] = {}  # by queue: when rqtui paused it; Redis stores no pause

    @property
    def prefix(self) -> str:
        """The prefix of all keys (`global_keyprefix`)."""
        return self.options["prefix"]

    @property
    def separator(self) -> str:
        """The text between a queue and its priority in a key, and between the three parts of a binding."""
        return to_text(_HEX.sub(lambda found: bytes.fromhex(to_text(found[1])), to_bytes(self.options["sep"])))

    @property
    def visibility_ms(self) -> int:
        """The time in ms after which Kombu delivers a message again if its worker has not acknowledged it."""
        return int(self.options["visibility"]) * 1000

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of the places and of Kombu's other data for a queue. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("celery: a queue has a name.")
        binding = {name: f"{self.prefix}_kombu.{name}.{queue}" for name in ("binding", "binding_permanent")}
        own = {"queue": f"{self.prefix}{queue}", "control": self.control, **binding}
        return {**own, "replies_of_workers": self.prefix + self._build_reply_name("rqtui"), **self._build_shared_keys()}

    def _build_reply_name(self, name: str) -> str:
        """Return the name of a list for replies of workers, without the prefix, as Kombu names them."""
        return f"{name}.reply.{self.options['control']}.pidbox"

    @property
    def control(self) -> str:
        """The Pub/Sub channel of the workers' mailbox, in the system's database (kombu/pidbox.py)."""
        return self._build_channel(f"{self.options['control']}.pidbox")

    def _build_channel(self, exchange: str) -> str:
        """Return the Pub/Sub channel of an exchange (kombu/transport/redis.py 5.7, `_get_publish_topic`)."""
        return f"{self.prefix}{self.options['fanout'].replace('{db}', str(self.database))}{exchange}"

    def _build_shared_keys(self) -> dict[str, str]:
        """Return the keys that all Celery queues of a database share, by the names that the scripts use."""
        unacked = f"{self.prefix}{self.options['unacked']}"
        index = {"unacked_index": f"{unacked}_index", "unacked_mutex": f"{unacked}_mutex"}
        replies = f"{self.prefix}_kombu.binding.reply.{self.options['control']}.pidbox"
        return {**dict.fromkeys(("unacked", "eta", "late"), unacked), **index, "replies": replies}

    def script_options(self, queue: str) -> dict[str, str]:
        """Return the options that the scripts of a queue need, with the separator as real characters."""
        return {**super().script_options(queue), "sep": self.separator}

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script for a queue.

        `speaks_for_all` is true if this queue reports the findings about all queues, which the script then returns.
        """
        options = {"speaks_for_all": self._reports_shared_findings(queue)}
        return super().build_call(name, queue, {**self.select_arguments(name, options), **args}, rows)

    def _reports_shared_findings(self, queue: str) -> bool:
        """Return whether this queue reports the findings about all queues.

        The queue `celery` does, else the first queue by name.
        """
        if self._reporting_queue_count != len(self._queues):
            self._reporting_queue_count = len(self._queues)
            self.event_cache.home = "celery" if "celery" in self._queues else min(self._queues, default="")
        return queue == self.event_cache.home or not self._queues

    def _build_shared_call(self, name: str) -> Call:
        """Build the call of a script that reads the keys that all queues share."""
        script, keys = self.scripts[name], self._build_shared_keys()
        options = {**self.options, "visibility": int(self.options["visibility"]), "sep": self.separator}
        return script.build_call(
            {key.name: keys[key.name] for key in script.keys}, self.select_arguments(name, options)
        )

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queues bound to the exchange `celery`, then the queues of messages that workers hold."""
        if not self.is_explicit and not self._has_kombu_keys(client):
            return
        yield self._read_bindings(client, [to_bytes(f"{self.prefix}_kombu.binding.celery")])
        reply = scripts.run_call(client, self._build_shared_call("spread"))
        held_queues = [row["queue"] for row in convert_rows_to_dicts(reply)]
        self._queues.update(held_queues)
        yield held_queues

    def marker_keys(self) -> Sequence[str]:
        """Return keys of which most databases with Celery have one: held messages, and the default queue's binding."""
        keys = self._build_shared_keys()
        return keys["unacked"], keys["unacked_index"], f"{self.prefix}_kombu.binding.celery"

    def _has_kombu_keys(self, client: Any) -> bool:
        """Return whether the keys of held messages have Kombu's types, or the default queue is bound."""
        pipe = client.pipeline(transaction=False)
        for key in self.marker_keys():
            pipe.type(to_bytes(key))
        key_types = [
            to_text(key_type) for key_type in pipe.execute(raise_on_error=False) if not isinstance(key_type, Exception)
        ]
        return key_types[:2] == ["hash", "zset"] or key_types[2:] == ["set"]

    def _read_bindings(self, client: Any, keys: Sequence[bytes]) -> list[str]:
        """Return the queues in the given binding tables, without the queues that Celery uses internally."""
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.sscan(key, 0, count=_MAX_BINDINGS)
        queues: set[str] = set()
        for reply in pipe.execute(raise_on_error=False):
            members = () if isinstance(reply, Exception) else reply[1]
            queues.update(parts[2] for member in members if len(parts := to_text(member).split(self.separator)) == 3)
        names = sorted(name for name in queues if name and not _HIDDEN.search(name))
        self._queues.update(names)
        return names

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues in all binding tables among the found keys.

        Adopts the prefix of these keys if none was configured.
        """
        prefixes = {to_text(key).partition("_kombu.binding.")[0] for key in found}
        if not self.is_explicit:
            self._adopt_prefix(prefixes)
        self.other_prefixes = (self.other_prefixes | prefixes) - {self.prefix}
        start = to_bytes(f"{self.prefix}_kombu.binding.")
        return self._read_bindings(client, [key for key in found if key.startswith(start)])

    def _adopt_prefix(self, prefixes: set[str]) -> None:
        """Use the prefix that all found keys share, if none was configured. Keys without a prefix take precedence."""
        if "" in prefixes and self.prefix:
            self._queues.clear()
        elif self._queues or len(prefixes) != 1:
            return
        prefix = "" if "" in prefixes else next(iter(prefixes))
        if self.option_values["prefix"].accepts(prefix):
            self.specs = ({**self.options, "prefix": prefix},)

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether a queue is bound as Celery binds one, or has a list in a database that Celery uses."""
        pipe = client.pipeline(transaction=False)
        pipe.sscan(to_bytes(f"{self.prefix}_kombu.binding.{queue}"), 0, count=_MAX_BINDINGS)
        for step in self.options["steps"].split("/"):
            pipe.type(to_bytes(f"{self.prefix}{queue}{'' if step == '0' else self.separator + step}"))
        binding, *key_types = pipe.execute(raise_on_error=False)
        if (
            not isinstance(binding, Exception)
            and to_bytes(f"{queue}{self.separator}{self.separator}{queue}") in binding[1]
        ):
            return True
        has_list = any(not isinstance(key_type, Exception) and to_text(key_type) == "list" for key_type in key_types)
        return has_list and (self.is_explicit or self._has_kombu_keys(client))

    # -- counts ---------------------------------------------------------------------------------------------------

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue]]:
        """Build the request for the counts of many queues.

        The keys that all queues share are read once; the lists of the queues are read in batches of `QUEUES_PER_CALL`.
        """
        script = self.scripts["tally"]
        options = {"sep": self.separator, "steps": self.options["steps"]}
        keys = [self.keys(queue)["queue"] for queue in queues]
        calls = [
            script.build_call({}, options, each_keys=[[key] for key in keys[start : start + QUEUES_PER_CALL]])
            for start in range(0, len(keys), QUEUES_PER_CALL)
        ]

        def parse_queues(replies: Replies) -> list[Queue]:
            shared, *tallies = map(unwrap_reply, replies)
            counts_by_queue = {row["queue"]: row for row in convert_rows_to_dicts(shared)}
            own_counts = [row for reply in tallies for row in convert_rows_to_dicts(reply)]
            for queue, row in [*counts_by_queue.items(), *zip(queues, own_counts, strict=True)]:
                for task in filter(None, row["tasks"].split("\n")):
                    self._runs.record_task_queue(task, queue)
            options = (
                {**_NO_COUNTS, **shared.values, **counts_by_queue.get(queue, {}), **row}
                for queue, row in zip(queues, own_counts, strict=True)
            )
            return [
                self._parse_queue(queue, Reply("counted", values=values))
                for queue, values in zip(queues, options, strict=True)
            ]

        return Request((self._build_shared_call("spread"), *calls), parse_queues)

    # -- published events ------------------------------------------------------------------------------------------

    def event_patterns(self) -> tuple[str, ...]:
        """Return the channel patterns of events in any database, and of results with and without the key prefix."""
        events = f"{self.prefix}{self.options['fanout'].replace('{db}', '*')}{self.options['events']}*"
        results = {f"{build_results_prefix(self.prefix)}celery-task-meta-*", "celery-task-meta-*"}
        return (events, *sorted(results))

    def record_event(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Record a published message of Celery: one event, several events, or the result of a task.

        The name of an event channel has the database number of the broker, unless the option `fanout` leaves it out.
        The name of a result channel has none, so results of apps in all databases of a Redis arrive here. A message
        whose channel does not show its database is kept until its job is known to belong to this database.
        """
        if _is_channel_of(channel, to_bytes(self._build_channel(self.options["events"]))):
            for event in payloads.decode_event_message(message):
                self._record_one_event(event, at_ms)
            return
        _before, is_result, id = channel.rpartition(b"celery-task-meta-")
        if is_result:
            record_one = partial(self._runs.record_result, id, message, at_ms)
            self._runs.record_or_keep_call(id, record_one, len(message), self._build_evidence(channel))

    def _record_one_event(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record an event of a worker, or of a task of this database; keep it if the task's database is unknown."""
        event_type, id = payloads.read_text_field(event, "type"), payloads.read_task_id(event)
        if event_type in WORKER_EVENTS:
            self._heartbeats.record_event(event, at_ms)
        elif event_type in TASK_EVENTS and ("{db}" in self.options["fanout"] or not id):
            self._runs.record_event_of_broker(event, at_ms)
        elif event_type in TASK_EVENTS:
            evidence = self._build_evidence(self._build_result_key(id), is_event=True)
            record_one = partial(self._runs.record_event, event, at_ms)
            self._runs.record_or_keep_call(id, record_one, len(repr(event)), evidence)

    def _build_result_key(self, id: bytes) -> bytes:
        return to_bytes(f"{build_results_prefix(self.prefix)}celery-task-meta-") + id

    def _build_evidence(self, key: bytes, *, is_event: bool = False) -> Evidence | None:
        """Return the result key that shows whether a task is of this database, or None if it would prove nothing.

        A result key without the prefix of this app may belong to another app.
        """
        has_own_prefix = key.startswith(self._build_result_key(b""))
        return Evidence(key, is_event) if has_own_prefix and not self.other_prefixes else None

    def event_requests(self) -> Sequence[Request[None]]:
        """Build the requests that check which of the kept results this database stores. Their tasks belong to it."""
        unchecked, script = [*self._runs.unplaced_events.unchecked.items()], self.scripts["results"]

        def record_checked_results(chunk: Sequence[tuple[bytes, Evidence]], replies: Replies) -> None:
            reply = replies[0]
            if isinstance(reply, Exception):
                return  # asked again with the next poll
            for (id, evidence), row in zip(chunk, convert_rows_to_dicts(reply), strict=True):
                self._runs.unplaced_events.unchecked.pop(id, None)
                if row["is_kept"] or (evidence.is_event and reply.values["is_alone"]):
                    self._runs.record_kept_calls(id)

        chunks = [unchecked[start : start + RESULTS_PER_CALL] for start in range(0, len(unchecked), RESULTS_PER_CALL)]
        return [
            Request(
                (script.build_call({}, {}, each_keys=[[evidence.key] for _id, evidence in chunk]),),
                partial(record_checked_results, chunk),
                may_fail=True,
            )
            for chunk in chunks
        ]

    # -- workers --------------------------------------------------------------------------------------------------

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for the workers that sent heartbeats. It has no calls: heartbeats are only published.

        No event names the queues from which a worker consumes. A worker that was asked (`inspect`) is listed in its
        queues alone, every other one in all queues, with a fact that says what is known.
        """
        running_jobs = [
            job for name in (queue, "") for job in self.event_cache.list_page(name, "running", 0, MAX_RUNNING)[2]
        ]
        running = {job.worker: job.id for job in [*self._runs.held_jobs.values(), *running_jobs]}

        def build_worker_list(_replies: Replies) -> tuple[Worker, ...]:
            now_ms = self.now_ms()
            kept_workers = self.event_cache.list_workers()
            workers = [worker for worker in kept_workers if self._heartbeats.may_consume(worker.name, queue)]
            count = format_quantity(len(kept_workers), "worker")
            note = f"only {count} with the newest events were kept; there may be more"
            return WorkerList(
                (
                    worker._replace(
                        queue=queue,
                        job=running.get(worker.name, b""),
                        state="silent" if worker.is_late(now_ms) else worker.state,
                        queues=self._heartbeats.consumed_queues.get(worker.name, worker.queues),
                        facts=(self._heartbeats.build_consumed_fact(worker), *worker.facts),
                    )
                    for worker in workers
                ),
                note if len(kept_workers) >= MOST_WORKERS else "",
            )

        return Request((), build_worker_list)

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]]:
        """Build a request for the runs per task that were counted from Pub/Sub events. It asks Redis nothing."""

        def build_statistics(_replies: Replies) -> tuple[KindStatistics, ...]:
            window_ms = self.now_ms() - (self.events_since_ms or self.now_ms())
            return tuple(
                statistics
                for statistics in self.event_cache.build_kind_statistics(window_ms)
                if statistics.queue == queue
            )

        return Request((), build_statistics)

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        counted = super()._parse_queue(queue, reply)
        if counted.error:
            return counted
        since_ms, now_ms = self.events_since_ms, counted.counted_ms
        is_long = since_ms is not None and now_ms - since_ms > SILENT_MS
        alive = self._heartbeats.count_consumers(queue, now_ms)
        paused_ms = self._paused_since_ms.get(queue)
        if paused_ms is not None and self.event_cache.find_newest_worker_start_ms() > paused_ms:
            paused_ms = None  # a worker started after the pause takes jobs
        findings = (
            self._find_event_findings(counted)
            if self.event_coverage.since_ms is not None and not self.event_coverage.problem
            else ()
        )
        return counted._replace(
            workers=alive if is_long or alive else None,
            findings=(*counted.findings, *findings),
            is_paused=paused_ms is not None,
            paused_ms=paused_ms,
        )

    # -- findings from events -----------------------------------------------------------------------------------

    def _find_event_findings(self, queue: Queue) -> tuple[Finding, ...]:
        """Return the findings about a queue that come from Pub/Sub events and that no key shows."""
        checks = (
            self._find_lost_jobs,
            self._find_abandoned_jobs,
            self._find_redelivered_jobs,
            self._find_unconsumed_queue,
            self._find_unreported_tasks,
        )
        return tuple(finding for find_problem in checks if (finding := find_problem(queue)) is not None)

    def _find_lost_jobs(self, queue: Queue) -> Finding | None:
        """Report the lost jobs of silent workers: they were acked before they ran, so no key holds them."""
        jobs = self.event_cache.list_page(queue.name, "running", 0, MAX_RUNNING)[2]
        lost_jobs = [job for job in jobs if self._heartbeats.is_silent(job.worker, queue.counted_ms)]
        if not lost_jobs:
            return None
        workers, example = _describe_workers(lost_jobs), to_text(lost_jobs[-1].id)
        text = f"{len(lost_jobs)} lost with {workers}, such as {example}: acked before they ran"
        remedy = (
            "enqueue them again: the place `running` of this screen shows their arguments; with acks_late none is lost"
        )
        return Finding("lost", "critical", queue.name, text, remedy, ids=(lost_jobs[-1].id,), jobs=len(lost_jobs))

    def _find_abandoned_jobs(self, queue: Queue) -> Finding | None:
        """Report jobs in `unacked` whose worker is silent. Kombu delivers them again after the visibility timeout."""
        abandoned = [
            job
            for job in self._abandoned_jobs.get(queue.name, ())
            if self._heartbeats.is_silent(job.worker, queue.counted_ms)
        ]
        if not abandoned or not queue.count_in_place("unacked"):
            return None
        job = abandoned[0]
        text = f"{len(abandoned)} held by {_describe_workers(abandoned)}, silent by now, such as {to_text(job.id)}"
        remedy = (
            f"rqtui act release {self.queue_argument(queue.name)} {quote_for_shell(job.id)} --force gives it out now"
        )
        key = self._build_shared_keys()["unacked"]
        return Finding(
            "abandoned",
            "critical",
            queue.name,
            text,
            remedy,
            (key,),
            (job.id,),
            jobs=len(abandoned),
            since_ms=job.reserved_ms,
        )

    def _find_redelivered_jobs(self, queue: Queue) -> Finding | None:
        """Report jobs that another program delivered again while they ran, or after they had succeeded."""
        redelivered = [
            (id, redelivery) for id, redelivery in self._runs.redeliveries.items() if redelivery.queue == queue.name
        ]
        recent = [(id, redelivery) for id, redelivery in redelivered if queue.counted_ms - redelivery.at_ms < KEPT_MS]
        if not recent:
            return None
        id, redelivery = recent[-1]
        circumstance = (
            f"while {redelivery.worker or 'a worker'} ran it"
            if redelivery.place == "running"
            else "after it had succeeded"
        )
        last = f"the last {to_text(id)} {circumstance}"
        text = f"{len(recent)} given out again, {last}: some program waits less long for an ack"
        remedy = "set the same visibility_timeout in workers, Flower and celery control, above the longest run and ETA"
        return Finding(
            "foreign-restore",
            "critical",
            queue.name,
            text,
            remedy,
            ids=(id,),
            since_ms=redelivery.at_ms,
            jobs=len(recent),
        )

    def _find_unconsumed_queue(self, queue: Queue) -> Finding | None:
        """Report a queue whose ready jobs no worker takes.

        Either all workers are idle, or the next job stays the same and no worker holds a job of the queue.
        """
        ready, now_ms = queue.count_in_place("queue"), queue.counted_ms
        idle_ms = self._heartbeats.idleness.compute_idle_since_ms(queue.name, ready, now_ms)
        live_workers = self.event_cache.count_live_workers(now_ms)
        has_held_jobs = any(queue.count_in_place(place) for place in ("unacked", "late", "eta", "running"))
        next_ms = self._next_messages.get(queue.name, NextMessage(b"", now_ms)).since_ms
        if not live_workers or idle_ms is None:
            return None
        if now_ms - idle_ms >= STILL_MS:
            since_ms, reason = idle_ms, f"idle: {format_quantity(live_workers, 'worker')}"
        elif (
            not has_held_jobs
            and now_ms - max(next_ms, self._heartbeats.idleness.find_ready_since_ms(queue.name)) >= STUCK_MS
        ):
            since_ms, reason = next_ms, "the first one does not change, and no worker holds any"
        else:
            return None
        text = f"{ready} ready, and no worker takes them: {reason}"
        resume = f"rqtui act resume {self.queue_argument(queue.name)}"
        remedy = (
            f"start one for it: celery -A APP worker -Q {quote_for_shell(queue.name)}; where it was paused: {resume}"
        )
        return Finding("nobody-consumes", "critical", queue.name, text, remedy, since_ms=since_ms, jobs=ready)

    def _find_unreported_tasks(self, queue: Queue) -> Finding | None:
        """Report finished tasks whose events and results did not arrive, or arrived without the queue's name."""
        if not self._reports_shared_findings(queue.name):
            return None
        unassigned = sum(self.event_cache.count("", place).of_queue for place in FINAL_PLACES)
        reported = sum(self.event_cache.count(queue.name, place).of_all for place in FINAL_PLACES)
        ended, unplaced = self._heartbeats.idleness.ended, len(self._runs.unplaced_events)
        is_silent = ended - reported >= MIN_UNREPORTED if unplaced else not reported and ended >= MIN_UNREPORTED
        if not unassigned and not is_silent:
            return None
        if unassigned:
            outcomes = f"{format_quantity(unassigned, 'outcome')} of {reported}"
            text = f"the queue of {outcomes} is unknown: no event names it, so they are counted here"
        elif unplaced:
            text = (
                f"workers ended {format_quantity(ended, 'task')} and reported {reported}; results of "
                f"{format_quantity(unplaced, 'task')} were published that this database does not know: their apps use "
                "another database, or keep results in one"
            )
        else:
            text = f"workers ended {format_quantity(ended, 'task')} since rqtui listens, and reported none of them"
        remedy = "start workers with -E, and set task_send_sent_event or result_extended; then events name the queue"
        return Finding("outcomes-untold", "warning", queue.name, text, remedy, jobs=unassigned or ended)

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]] | None:
        """Build the request for the findings about one queue.

        While events are recorded, the request also reads the next messages, which show the queue of a task, and the
        oldest held messages, which show what silent workers hold.
        """
        own_request = super().probe_request(queue)
        if own_request is None or self.events_since_ms is None:
            return own_request
        page_requests, own_call_count = (
            [self._page_part_request(queue, place, 0, PROBED_MESSAGES, 0) for place in ("queue", "unacked")],
            len(own_request.calls),
        )

        def parse_findings(replies: Replies) -> tuple[Finding, ...]:
            for request, reply in zip(page_requests, replies[own_call_count:], strict=True):
                request.parse([reply])
            return own_request.parse(replies[:own_call_count])

        return Request(
            (*own_request.calls, *(call for request in page_requests for call in request.calls)), parse_findings
        )

    def _parse_page(self, queue: str, place: str, offset: int, limit: int, reply: Reply | Exception) -> Page:
        page = super()._parse_page(queue, place, offset, limit, reply)
        if not page.error and (observe_page := _PAGE_OBSERVERS.get(place)) is not None:
            observe_page(self, page)
        return page

    def _record_next_message(self, page: Page) -> None:
        """Record which message is the next one of a queue, and since when."""
        if page.offset:
            return
        # A task that is tried again keeps its id. Its number of attempts distinguishes it from a queued message.
        first_id = b"%s %d" % (page.jobs[0].id, page.jobs[0].attempts) if page.jobs else b""
        if not first_id or self._next_messages.get(page.queue, NextMessage(b"", 0)).id != first_id:
            self._next_messages[page.queue] = NextMessage(first_id, self.now_ms())

    def _record_held_jobs(self, page: Page) -> None:
        """Record which held jobs of a page belong to workers that miss heartbeats.

        A page with all held jobs also shows which running jobs are not held any more.
        """
        if not page.offset and page.next is None and page.place_total is None:
            self._runs.move_unheld_jobs(page.queue, page.jobs)
        self._abandoned_jobs[page.queue] = tuple(
            job for job in page.jobs if self._heartbeats.is_silent(job.worker, self.now_ms(), DOUBTFUL_MS)
        )

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job with its result. If only the result is left, the job is built from that.

        The job is searched by the bytes last seen under this id, else by its id near both ends of each list. A job
        without an id in its message is searched by its digest among the first jobs of each place.
        """
        cached_entry = self.entries.find(id)
        entry = cached_entry or Entry(b"", 0, b"")
        plain_id = id if cached_entry is None else id.partition(b".")[0]
        args: dict[str, object] = {"id": plain_id, "head": entry.head, "size": entry.size, "tail": entry.tail}
        args |= {"body_bytes": body_bytes, "field": self._delivery_tags.get(id, b"")}
        calls = [self.build_call("show", queue, args)]
        is_found = cached_entry is not None and cached_entry.is_complete and (queue, id) not in self._missed_jobs
        list_ends = () if is_found else (0, -1)
        calls += [
            self.build_call("show", queue, {**args, "place": "queue", "offset": list_end}) for list_end in list_ends
        ]
        show_call_count = len(calls)
        searched_places = ["queue", "unacked", "late", "eta"] if not entry.size and _DIGEST.fullmatch(id) else []
        head = {"offset": 0, "limit": MAX_SEARCHED_MESSAGES, "body_bytes": HEAD_BYTES}
        calls += [self.build_call("page", queue, {**head, "place": place}) for place in searched_places]

        def parse_job(replies: Replies) -> Job | None:
            for reply in replies[:show_call_count]:
                if (job := self._parse_job(queue, reply)) is not None:
                    self._missed_jobs.discard((queue, id))
                    return replace(job, id=id)
            if len(self._missed_jobs) >= MAX_MISSED:
                self._missed_jobs.clear()  # jobs that are still missing are added again
            self._missed_jobs.add((queue, id))
            for place, reply in zip(searched_places, replies[show_call_count:], strict=True):
                jobs = self._parse_page(queue, place, 0, MAX_SEARCHED_MESSAGES, reply).jobs
                if (found_job := next((job for job in jobs if job.id == id), None)) is not None:
                    return found_job
            return self.event_cache.find_in_queue(queue, id) or self._build_ended_job(queue, id, replies[0])

        return Request(tuple(calls), parse_job)

    def _build_ended_job(self, queue: str, id: bytes, reply: Reply | Exception) -> Job | None:
        """Build a finished job from its stored result alone. Only an extended result has the name of the queue."""
        if not isinstance(reply, Reply) or reply.word != "ended":
            return None
        raw = reply.values["result"]
        assert isinstance(raw, bytes)
        result = payloads.parse_json_object(raw)
        if (place_name := PLACES_BY_STATUS.get(payloads.read_text_field(result, "status"))) is None:
            return None
        place, cached = self.place(place_name), self._runs.find(id)
        if place_name == "failed":
            self._runs.record_failed_result(id, raw)
        if (cached.queue or payloads.read_text_field(result, "queue") or queue) != queue:
            return None
        task, done_ms = payloads.read_text_field(result, "name"), messages.convert_time_ms(result.get("date_done"))
        known_queue = cached.queue or payloads.read_text_field(result, "queue")
        queue_facts = () if known_queue else (Fact("queue", "unknown: a result is found by its id alone"),)
        return Job(
            id=id,
            queue=queue,
            system=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            name=task,
            since_ms=done_ms,
            worker=payloads.read_text_field(result, "worker"),
            error=payloads.format_result_error(result),
            call=pickles.format_function_call(task, result.get("args"), result.get("kwargs"), messages.MAX_CALL_LENGTH)
            if task
            else "",
            facts=(*payloads.build_result_facts(result, has_error=True), *queue_facts),
        )

    def _build_named_job(
        self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]
    ) -> Job:
        job = super()._build_named_job(queue, place, row, now_ms, seen)
        if job.token:
            self._delivery_tags.store(job.id, job.token)
        return job

    def extract_body(self, entry: Entry, row: Mapping[str, Any]) -> bytes:
        """Return the message of an entry, without the exchange and routing key that `unacked` stores with it."""
        return messages.extract_message(entry.head) if row["tag"] else entry.head

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from the message in an entry of a place. Its id is the task id in the message."""
        message = messages.decode_message(entry.head, b"" if entry.is_complete else row["tail"], bool(row["tag"]))
        job = self._build_job_of_message(queue, self.place(place), message, row, now_ms)
        if not message.id:
            return job
        if entry.is_complete:
            self._runs.record_message(message.id, entry.head)
        return self._add_run_facts(
            job, self._runs.record_seen_job(queue, place, message.id, message, self.now_ms()), message.id
        )

    def _add_run_facts(self, job: Job, cached: CachedJob, id: bytes) -> Job:
        """Add worker, start of the run and failed attempts to a held job, as counted from Pub/Sub events."""
        if job.state is State.READY:
            return replace(job, history=cached.history)
        held_job = self._runs.held_jobs.get(id)
        start_facts = (Fact("running since", held_job.reserved_ms or 0, "instant"),) if held_job else ()
        worker = held_job.worker if held_job else cached.worker
        return replace(job, worker=worker, history=cached.history, facts=(*start_facts, *job.facts))

    def _build_job_of_message(
        self, queue: str, place: Place, message: messages.Message, row: Mapping[str, Any], now_ms: int
    ) -> Job:
        """Build the job of a decoded message in one place."""
        headers = message.headers
        delivered_ms = _convert_score_ms(row["score"])
        is_in_unacked = place.name in _HELD_IN
        retries = headers.get("retries")
        is_waiting = place.name == "queue"
        return Job(
            id=message.id,
            queue=queue,
            system=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            token=row["tag"],
            name=message.task,
            due_ms=message.eta_ms if place.name == "eta" or (is_waiting and (message.eta_ms or 0) > now_ms) else None,
            deadline_ms=delivered_ms + self.visibility_ms if is_in_unacked and delivered_ms is not None else None,
            reserved_ms=delivered_ms if is_in_unacked else None,
            priority=int(row["step"]) if row["step"] else message.priority,
            ttr_ms=messages.read_time_limit_ms(headers, 0),
            attempts=(retries if messages.is_count(retries) else 0) + (place.state is State.RESERVED),
            problem=safe("; ".join(_find_job_problems(message, row, now_ms if is_waiting else None))),
            call=message.call,
            facts=tuple(_build_job_facts(place, message, row, self.visibility_ms)),
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return how often a task was retried, and what it would lose in the native queue.

        One more run is allowed: only a task's own code retries it, which no message shows.
        """
        message = messages.decode_message(job.body or b"", b"", False)
        retries = message.headers.get("retries")
        attempts = retries if messages.is_count(retries) else 0
        losses = [
            f"it would not start its {messages.EMBED_LABELS[name]!r} afterwards"
            for name in messages.EMBED_LABELS
            if message.embed.get(name)
        ]
        if isinstance(group := message.headers.get("group"), str) and group:
            losses.append(f"the group {group[:60]} would wait for its result")
        if message.headers.get("expires") is not None:
            losses.append("it would run however late, though it expires")
        return MigrationTerms(attempts, attempts + 1, losses=tuple(losses))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def build_row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """Return the script values of a job: task id, priority of its list, and whether its broker is this database.

        A job without a place was named by its id alone. Its message is in no key if a worker acked it before the run,
        as Celery does by default: `cancel` then needs no message.
        """
        step = {"step": str(job.priority)} if job.place == "queue" else {}
        member = {} if job.place else {"member": b""}
        id = messages.decode_message(job.member, b"", bool(job.token)).id or job.id
        return {"id": id, **member, **step, "of_broker": self._runs.is_of_broker(id)}

    def explain_refusal(self, name: str, job: Job) -> str:
        """Return why a verb cannot act on a job; empty if it can.

        A message without an id cannot be cancelled, because workers drop messages by their ids.
        """
        is_seen = job.place in ("queue", *_HELD_IN) and not job.is_partial
        if name == "cancel" and is_seen and not messages.decode_message(job.member, b"", job.place in _HELD_IN).id:
            return "celery: it has no id, and workers drop messages by their ids. Delete it while it waits."
        return super().explain_refusal(name, job)

    def verb_requests(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Request[list[Outcome]]]:
        """Build the requests of a verb on jobs or on a queue.

        Redis stores no pause of Celery, so a pause is recorded here until the queue is resumed. A requeued job no
        longer counts as failed. Events of a moved job count in its new queue.
        """
        if any(arg.name == "reply" for arg in self.script(name).args):
            return [self._build_replied_request(name, queue, form)]
        requests = super().verb_requests(name, queue, jobs, form)
        if name == "move":
            return [self._record_moves(request, str(form[TO_QUEUE])) for request in requests]
        if name not in ("pause", "resume", "requeue"):
            return requests

        def add_outcome_recording(request: Request[list[Outcome]]) -> Request[list[Outcome]]:
            def parse_outcomes(replies: Replies) -> list[Outcome]:
                outcomes = request.parse(replies)
                if name != "requeue":
                    self._heartbeats.consumed_queues.clear()  # the workers were told to stop or to begin to consume
                if name == "requeue":
                    for outcome in outcomes:
                        if outcome.moved:
                            self._runs.reset_requeued_job(outcome.id)
                elif any(outcome.word == "paused" for outcome in outcomes):
                    self._paused_since_ms[queue] = self.now_ms()
                elif name == "resume":
                    self._paused_since_ms.pop(queue, None)
                return outcomes

            return replace(request, parse=parse_outcomes)

        return [add_outcome_recording(request) for request in requests]

    def _record_moves(self, request: Request[list[Outcome]], to_queue: str) -> Request[list[Outcome]]:
        """Return a request that also records the new queue and the new message of each moved job."""

        def parse_outcomes(replies: Replies) -> list[Outcome]:
            outcomes = request.parse(replies)
            for outcome, row in zip(outcomes, request.rows, strict=False):  # a request of refused jobs has no rows
                id, message = row["id"], row["new"]
                assert isinstance(id, bytes) and isinstance(message, bytes)
                if outcome.moved:
                    self._runs.record_moved_job(id, to_queue, message)
            return outcomes

        return replace(request, parse=parse_outcomes)

    def _build_replied_request(self, name: str, queue: str, form: Mapping[str, object]) -> Request[list[Outcome]]:
        """Build the request of a command to which workers reply; its outcome says which workers obeyed."""
        reply_list = self._build_reply_name(str(uuid4()))
        [command_request] = super().verb_requests(name, queue, (), {**form, "reply": reply_list})

        def count_asked_workers(outcomes: list[Outcome]) -> int:
            subscribers = outcomes[0].values.get("heard", 0) if outcomes[0].word == "asked" else 0
            return min(1, int(str(subscribers))) if "worker" in form else int(str(subscribers))

        def summarise_worker_replies(
            outcomes: list[Outcome], replies: Sequence[remote_control.WorkerReply], waited_s: float
        ) -> list[Outcome]:
            return [
                remote_control.summarise_replies(name, outcomes[0].id, replies, count_asked_workers(outcomes), waited_s)
            ]

        return self._await_worker_replies(command_request, reply_list, count_asked_workers, summarise_worker_replies)

    def inspect_request(self, queue: str, worker: str) -> Request[WorkerInspection]:
        """Build the request that asks a worker for its running tasks, its known tasks and its queues.

        `parse` raises Refused if no worker listens.
        """
        reply_list = self._build_reply_name(str(uuid4()))
        call = self.build_call("inspect", queue, {"worker": worker, "reply": reply_list})

        def check_worker_was_asked(script_replies: Replies) -> WorkerInspection:
            if (reply := unwrap_reply(script_replies[0])).word != "asked":
                raise Refused(f"{worker} was not asked: {reply.text}.")
            return remote_control.build_inspection(worker, (), self.now_ms(), 0)

        def build_inspection_so_far(
            _first: WorkerInspection, replies: Sequence[remote_control.WorkerReply], waited_s: float
        ) -> WorkerInspection:
            consumed_queues = remote_control.find_consumed_queues(worker, replies)
            if consumed_queues is not None:
                self._heartbeats.consumed_queues.store(worker, consumed_queues)
            return remote_control.build_inspection(worker, replies, self.now_ms(), waited_s)

        return self._await_worker_replies(
            Request((call,), check_worker_was_asked),
            reply_list,
            lambda _inspection: len(remote_control.INSPECTED),
            build_inspection_so_far,
        )

    def _await_worker_replies(
        self,
        command_request: Request[R],
        reply_list: str,
        count_expected: Callable[[R], int],
        build_result: Callable[[R, Sequence[remote_control.WorkerReply], float], R],
    ) -> Request[R]:
        """Return a request that sends a command, and then reads the list `reply_list` until all workers replied.

        Reading stops after `TIMEOUT_S`. `build_result` gets the first result, the worker replies so far, and the
        seconds since the command was sent.
        """
        key = self.prefix + reply_list
        sent: list[tuple[R, float]] = []  # the first result, and when it was there
        worker_replies: list[remote_control.WorkerReply] = []

        def parse_replies_so_far(script_replies: Replies) -> R:
            [(first, sent_s)] = sent
            if isinstance(script_replies[0], Reply):  # after an error the next read may find the replies
                rows = convert_rows_to_dicts(script_replies[0])
                worker_replies[:] = [each for row in rows for each in remote_control.parse_reply(row["reply"])]
            return build_result(first, worker_replies, time.monotonic() - sent_s)

        def build_next_read(result: R) -> Request[R] | None:
            if not sent:
                sent.append((result, time.monotonic()))
            [(first, sent_s)] = sent
            expected = count_expected(first)
            if len(worker_replies) >= expected or time.monotonic() - sent_s >= remote_control.TIMEOUT_S:
                return None
            call = self.scripts["collect"].build_call({"replies_of_workers": key}, {"expected": expected})
            return Request((call,), parse_replies_so_far, follow=build_next_read)

        return replace(command_request, follow=build_next_read)

    def _build_requeued_message(self, job: Job) -> bytes:
        """Build the message that runs a failed job again, from its cached message or its reported arguments.

        Its delivery tag is derived from the failure, so that a second requeue of the same failure is recognised. Raises
        UsageError if the arguments or the queue are unknown.
        """
        if job.place != "failed":
            raise UsageError(f"celery: only failed tasks are requeued, and this one is in {job.place}.")
        failed_job = self.event_cache.find(job.id)
        if failed_job is not None and not failed_job.queue:
            raise UsageError("celery: its queue is unknown. Enqueue the task again, into its queue.")
        if not self._runs.is_of_broker(job.id) and self.other_prefixes:
            raise UsageError(
                "celery: only its result is known, and several apps with other prefixes share this database, "
                "so its app is unknown. Enqueue the task again, into its queue."
            )
        delivery_tag = json.dumps(str(uuid5(NAMESPACE_OID, f"{to_text(job.id)} {job.since_ms}"))).encode()
        header_changes = {"eta": b"null", "expires": b"null", "retries": b"0", "redelivered": None}
        if cached_message := self._runs.messages.get(job.id):
            message = messages.extract_message(cached_message)
            try:
                delivery_info = replace_json_fields(
                    read_json_fields(read_json_fields(message)["properties"])["delivery_info"], {"redelivered": None}
                )
                message = messages.replace_message_fields(message, "headers", header_changes)
                return messages.replace_message_fields(
                    message, "properties", {"delivery_tag": delivery_tag, "delivery_info": delivery_info}
                )
            except (KeyError, ValueError):
                pass  # a message of the first task protocol has no such headers
        if task_body := self._runs.task_bodies.get(job.id) or messages.build_task_of_reprs(
            *self._runs.call_reprs.get(job.id, ("", "", ""))
        ):
            message = self._build_enqueue_columns(job.queue, {"body": task_body, "id": job.id})["body"]
            return messages.replace_message_fields(message, "properties", {"delivery_tag": delivery_tag})
        raise UsageError(
            "celery: its arguments are unknown. They come from its message, if that was seen in a list or in unacked, "
            "from a result with result_extended, or from workers with -E if they are short and plain. Enqueue it again."
        )

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return the message of a job with a new priority, ETA or queue; empty if its bytes are no message of Celery.

        For `requeue` of a failed job, return the message that runs the job again. Raises UsageError if its arguments
        are unknown.
        """
        if name == "requeue":
            return self._build_requeued_message(job)
        if name == "move":
            return _address_member(job.member, str(form.get(TO_QUEUE) or ""))
        is_timed = name == "reschedule" and ("priority" not in form or bool({"delay_ms", "due_ms"} & form.keys()))
        eta_change = {"eta": self._encode_eta_json(form)} if is_timed else {}
        has_priority = "priority" in form or not is_timed
        priority_change = {"priority": b"%d" % messages.parse_priority(form.get("priority"))} if has_priority else {}
        try:
            member = (
                messages.replace_message_fields(job.member, "properties", priority_change)
                if priority_change
                else job.member
            )
            return messages.replace_message_fields(member, "headers", eta_change) if eta_change else member
        except ValueError:
            return b""

    def _encode_eta_json(self, form: Mapping[str, object]) -> bytes:
        """Encode the due time in a form (`delay_ms` or `due_ms`) as a JSON ETA; null for a time in the past.

        Raises UsageError for a delay above the visibility timeout, because Kombu would deliver the task twice.
        """
        now_ms, delay_ms, due_ms = self.now_ms(), form.get("delay_ms"), form.get("due_ms")
        eta_ms = now_ms + delay_ms if isinstance(delay_ms, int) else due_ms if isinstance(due_ms, int) else now_ms
        if eta_ms - now_ms > self.visibility_ms:
            raise UsageError(
                f"celery: a task that is due in more than {format_age(self.visibility_ms)} "
                "would run twice: Kombu delivers a message again that is not acked within its visibility_timeout. If "
                "yours is longer, use --system celery:visibility=SECONDS."
            )
        return json.dumps(messages.format_time(eta_ms)).encode() if eta_ms > now_ms else b"null"

    def encode_body(self, body: bytes) -> bytes:
        """Encode a task that a person wrote as JSON to a message of Celery. Raises UsageError for a wrong field."""
        return bytes(self._build_enqueue_columns("celery", {"body": body})["body"])

    def format_editable_body(self, job: Job) -> bytes:
        """Return the message of a job for an editor, with its base64 arguments as JSON if they can be decoded."""
        body = super().format_editable_body(job)
        try:
            fields = read_json_fields(body)
            all_fields = {**read_json_fields(fields["properties"]), **fields}
            if (json.loads(all_fields["content-type"]), json.loads(all_fields["body_encoding"])) != (
                "application/json",
                "base64",
            ):
                return body
            call = base64.b64decode(json.loads(fields["body"]), validate=True)
            return replace_json_fields(body, {"body": call}) if isinstance(json.loads(call), list) else body
        except (KeyError, TypeError, ValueError, RecursionError):
            return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns of a new job from a task in JSON or from a full message.

        Values in `row`, such as a delay or a priority, take precedence over those in the JSON. Raises UsageError.
        """
        return self._build_enqueue_columns(
            queue, {name: value for name, value in row.items() if value not in (None, "", b"")}
        )

    def _build_enqueue_columns(self, queue: str, row: Mapping[str, object]) -> dict[str, Any]:
        """Build the `enqueue` columns of a task in JSON, or of a full message, from a row without empty values."""
        body = to_bytes(row["body"])  # type: ignore[arg-type]
        task = messages.parse_written_task(body)
        id = to_text(to_bytes(row["id"])) if "id" in row else None  # type: ignore[arg-type]
        if id is not None and not messages.ID.fullmatch(id):
            raise UsageError("celery: an id is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
        is_timed = bool({"delay_ms", "due_ms"} & row.keys())
        if "headers" in task:
            changes = {"eta": self._encode_eta_json(row)} if is_timed else {}
            message = messages.copy_message(body, queue, id, changes, row.get("priority"))
        else:
            due_fields = {"due_ms": messages.convert_time_ms(task["eta"])} if task.get("eta") else {}
            due_fields |= {"delay_ms": round(task["countdown"] * 1000)} if "countdown" in task else {}
            expires = task.get("expires")
            if messages.is_number(expires):
                expires = messages.format_time(self.now_ms() + round(expires * 1000))
            options = messages.Options(
                id or task.get("id") or str(uuid4()),
                self._encode_eta_json(row if is_timed else due_fields),
                json.dumps(expires).encode(),
                messages.parse_priority(row.get("priority", task.get("priority", 0))),
            )
            message = messages.create_message(body, task, queue, options)
        return {"id": json.loads(read_json_fields(read_json_fields(message)["headers"])["id"]), "body": message}


SYSTEM = Celery

_MAX_BINDINGS = 10_000
_NO_COUNTS = dict.fromkeys(("eta", "unacked", "late", "expired"), 0)


class NextMessage(NamedTuple):
    """The id of the next message of a queue, and since when it has been the next one."""

    id: bytes
    since_ms: int


_PAGE_OBSERVERS: Mapping[str, Callable[[Celery, Page], None]] = {
    "queue": Celery._record_next_message,
    "unacked": Celery._record_held_jobs,
}
"""Methods that record findings from a page, by place."""


def _address_member(member: bytes, to_queue: str) -> bytes:
    """Return a message that names another queue; empty if its bytes are no message of Celery. Raises UsageError."""
    try:
        to_queue.encode()
    except UnicodeEncodeError:
        raise UsageError("celery: a message names its queue in UTF-8, and this name is not UTF-8.") from None
    try:
        return messages.address_message(member, to_queue)
    except (KeyError, ValueError):
        return b""


def build_results_prefix(prefix: str) -> str:
    """Return the prefix of result keys in an app with this key prefix (celery/backends/base.py 5.7)."""
    return prefix if not prefix or prefix[-1] in ":_-." else f"{prefix}_"


def _describe_workers(jobs: Sequence[Job]) -> str:
    """Return the name of the worker that runs the given jobs; for several workers their number and the first name."""
    names = sorted({job.worker for job in jobs})
    return names[0] if len(names) == 1 else f"{format_quantity(len(names), 'worker')}, {names[0]} among them"


def _is_channel_of(channel: bytes, exchange: bytes) -> bool:
    """Return whether a channel belongs to an exchange, or with `fanout_patterns` to one of its routing keys."""
    return channel == exchange or channel.startswith(exchange + b"/")


# -- what is shown of a job --------------------------------------------------------------------------------------------


def _convert_score_ms(score: str) -> int | None:
    """Convert a score in seconds to ms; None if it is no plausible time."""
    try:
        score_s = float(score)
    except ValueError:
        return None
    return round(score_s * 1000) if 0 <= score_s < 1e11 else None


def _find_job_problems(message: messages.Message, row: Mapping[str, Any], now_ms: int | None) -> Iterator[str]:
    """Yield a sentence for each problem of a message. `now_ms` is given only for a job in the list of its queue."""
    if message.problem:
        yield message.problem
    if message.headers.get("eta") is not None and message.eta_ms is None:
        yield f"its eta is no time: {message.headers['eta']!r:.60}"
    expires_ms = messages.convert_time_ms(message.headers.get("expires"))
    if now_ms is not None and expires_ms is not None and expires_ms <= now_ms:
        yield f"expired, and dropped by the worker that takes it: {message.call or 'no task'}"
    if row["tag"] and _convert_score_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"


def _build_job_facts(
    place: Place, message: messages.Message, row: Mapping[str, Any], visibility_ms: int
) -> Iterator[Fact]:
    """Yield the facts about a task that only Celery has, most useful first."""
    if row.get("result"):
        yield from payloads.build_result_facts(
            payloads.parse_json_object(row["result"]) or {"result": to_text(row["result"][:1000])}
        )
    if place.name != "eta":
        yield from build_facts([("eta", message.eta_ms, "instant")])
    elif (delivered_ms := _convert_score_ms(row["score"])) is not None and (
        message.eta_ms or 0
    ) > delivered_ms + visibility_ms:
        yield Fact("given out again", delivered_ms + visibility_ms, "instant")
    yield from message.facts
