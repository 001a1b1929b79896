r"""Read and change Celery queues on Redis (Python, Celery 5.7 on Kombu 5.7).

Kombu has a list per queue and priority, and one hash of the messages that workers hold. LISTs `<q>` and, for
priorities 3, 6, 9, `<q>\x06\x163` …: messages in JSON, LPUSH in, BRPOP out, 0 first. A message has `body` (base64 of
`[args, kwargs, embed]`), `content-type`, `headers` (`task`, `id`, `eta`, …) and `properties` (`delivery_tag`,
`delivery_info`, `priority`). HASH `unacked`: tag → `[message, exchange, routing key]`, of all queues; ZSET
`unacked_index`: tag by time of delivery, float seconds. SETs `_kombu.binding.<exchange>` of routing key, pattern and
queue, separated as above. STRING `celery-task-meta-<id>`: the result in JSON, for a day. Running and finished tasks
and workers are only published: `/<db>.celeryev/…`, `celery-task-meta-<id>`. Operators' page: `docs/systems/celery.md`.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

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
    State,
    Worker,
    WorkerList,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply
from rqtui.system_base.entries import HEAD_BYTES, Entry
from rqtui.system_base.event_cache import MOST_WORKERS
from rqtui.system_base.foreign_system import EntrySystem, list_facts, read_rows
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.option_values import NAME, NAME_OR_NOTHING, accept_pattern, accept_whole_number
from rqtui.system_base.system import Replies, Request, quote_for_shell, unwrap_reply
from rqtui.systems.celery import messages
from rqtui.text import pickles
from rqtui.text.fields import parse_partial as read_partial_json
from rqtui.text.formats import format_age, format_quantity
from rqtui.text.json_fields import read_fields, replace_fields
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

QUEUES_PER_CALL = 50  # queues per call of `tally`: four lengths and a message each
MAX_MISSED = 1000
PROBED_MESSAGES = 20  # messages of a queue, and as many held ones, that a probe reads
MAX_SEARCHED_MESSAGES = 1000  # messages searched for an id at each end of a list
_CUT_BYTES = 64 * 1024  # of a result that was cut
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_HELD_IN = ("unacked", "late", "eta")  # places whose entries hold a message with its exchange and routing key
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_HIDDEN = re.compile(r"\.pidbox$|^celeryev(\.|$)")  # queues of Celery's own: commands to workers, events


RecordEvent: TypeAlias = Callable[["Celery", Mapping[str, Any], int], None]


class Celery(EntrySystem):
    """Celery on Redis with one key prefix. It combines keys with published events and results."""

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
        "sep": accept_pattern(r"(?:\\x[0-9a-fA-F]{2}|[^\\\s])+", r"characters, or such as \x06\x16"),
        "steps": accept_pattern(r"[0-9](?:/[0-9])*", "priorities such as 0/3/6/9"),
        "visibility": accept_whole_number(0, 999_999_999, "seconds"),
        "unacked": NAME,
        # kombu/transport/redis.py 5.7, `_receive_one`: of a channel that begins with `/` the exchange begins behind the
        # first dot, of another one it is the beginning: a worker takes nothing that comes by a channel of another form
        "fanout": accept_pattern(
            r"(?:/(?:\{db\}|[^\s*?\[\]\\,=.{}])*\.)?",
            "empty, or begins with / and ends with its only dot, such as /{db}. or /shop/{db}.",
        ),
        "events": NAME,
        "control": NAME,
    }
    shared_option = "prefix"
    queues_per_request = 1000
    known_fields = frozenset({"name", "tried", "error", "worker"})
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
        "kill": "it keeps no place for the dead. Delete what waits, and cancel what a worker holds",
        "promote": "an ETA stands in the memory of the worker that holds it: cancel it, and put it anew. One that "
        "still waits in the queue is rescheduled",
        "ack": "only the worker that holds a message can ack it. Cancel it",
        "reject": "only the worker that holds a message can reject it. Cancel it",
        "quiet": "a worker is told queue by queue what to take: pause its queues, or stop it",
    }
    verb_effects = {
        "cancel": "its worker drops it when its turn comes, or ends the process that runs it; workers remember that "
        "until they are started anew",
        "pause": "the workers that listen take nothing from it, until they are told or started anew; what they hold "
        "goes on, and a worker that is started later takes from it",
        "resume": "all workers that listen take from it, those too that did not before",
        "requeue": "each runs again under its own id; where no message of it was seen, with the arguments that were "
        "told, and nothing runs behind it",
        "release": "it runs again; where a living worker holds it, it runs twice",
        "reap": "they run again; one that a living worker still runs, runs twice",
        "stop": "it takes no more tasks, and ends when those that run are done; what it has not begun goes back",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self._queues: set[str] = set()  # names of discovered queues
        self._chosen_of = 0  # number of queues when the reporting one was chosen
        self._known: LruCache[bytes, CachedJob] = LruCache(MAX_CACHED_JOBS)  # jobs by id
        self._queues_of: LruCache[str, set[str]] = LruCache(MAX_TASKS)  # by task: the queues where it was seen
        self._guessed: LruCache[bytes, str] = LruCache(
            MAX_CACHED_JOBS
        )  # the task of each job whose queue is guessed by that
        self._held: LruCache[bytes, Job] = LruCache(MAX_CACHED_JOBS)  # running jobs that are also in `unacked`
        self._again: LruCache[bytes, Redelivery] = LruCache(
            MAX_REDELIVERIES
        )  # deliveries of jobs that already ran, by id
        self._orphans: dict[str, tuple[Job, ...]] = {}  # by queue: jobs on its page held by silent workers
        self._stillness = WorkerIdleness()
        self._idle_since_ms: LruCache[str, int] = LruCache(MAX_WORKERS)  # by worker: the first idle heartbeat in a row
        self._next: dict[str, NextMessage] = {}  # by queue
        self._tags: LruCache[bytes, bytes] = LruCache(MAX_CACHED_JOBS)  # delivery tags in `unacked`, by job id
        self._messages: LruCache[bytes, bytes] = LruCache(MAX_CALLS)  # full messages or their entries, by job id
        self._calls: LruCache[bytes, bytes] = LruCache(MAX_CALLS)  # tasks in JSON from results, by job id
        self._reprs: LruCache[bytes, tuple[str, str, str]] = LruCache(
            MAX_CALLS
        )  # (task, args, kwargs) from events, by job id
        self._missed: set[tuple[str, bytes]] = set()  # jobs whose bytes were not found: searched by id
        self._left: LruCache[str, None] = LruCache(MAX_OFFLINE_WORKERS)  # workers that went offline
        self._database = 0  # its number is part of channel names
        self._unplaced = UnplacedEvents()
        self._has_other_prefixes = False  # keys of Celery with another prefix were seen in this database
        self._paused: dict[str, int] = {}  # by queue: when rqtui paused it; Redis stores no pause

    @property
    def prefix(self) -> str:
        """The prefix of all keys (`global_keyprefix`)."""
        return self.options["prefix"]

    @property
    def separator(self) -> str:
        """The separator between a queue and its priority, and between the three parts of a binding."""
        return to_text(_HEX.sub(lambda found: bytes.fromhex(to_text(found[1])), to_bytes(self.options["sep"])))

    @property
    def visibility_ms(self) -> int:
        """The time in ms after which Kombu delivers a message again that a worker still holds."""
        return int(self.options["visibility"]) * 1000

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of the places and of Kombu's other data for a queue. Raises UsageError for an empty name."""
        if not queue:
            raise UsageError("celery: a queue has a name.")
        binding = {name: f"{self.prefix}_kombu.{name}.{queue}" for name in ("binding", "binding_permanent")}
        return {"queue": f"{self.prefix}{queue}", "control": self.control, **binding, **self._build_shared_keys()}

    @property
    def control(self) -> str:
        """The channel of the workers' mailbox, in the database that was read last (kombu/pidbox.py)."""
        return self._build_channel(f"{self.options['control']}.pidbox")

    def _build_channel(self, exchange: str) -> str:
        """Return the Pub/Sub channel of an exchange (kombu/transport/redis.py 5.7, `_get_publish_topic`)."""
        return f"{self.prefix}{self.options['fanout'].replace('{db}', str(self._database))}{exchange}"

    def _build_shared_keys(self) -> dict[str, str]:
        """Return the keys that all queues share."""
        unacked = f"{self.prefix}{self.options['unacked']}"
        index = {"unacked_index": f"{unacked}_index", "unacked_mutex": f"{unacked}_mutex"}
        replies = f"{self.prefix}_kombu.binding.reply.{self.options['control']}.pidbox"
        return {**dict.fromkeys(("unacked", "eta", "late"), unacked), **index, "replies": replies}

    def script_options(self, queue: str) -> dict[str, str]:
        """Return the options for scripts, with the separator decoded."""
        return {**super().script_options(queue), "sep": self.separator}

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script; the script also learns whether this queue reports findings about all queues."""
        told = {"speaks_for_all": self._reports_for_all(queue)}
        return super().build_call(name, queue, {**self.select_arguments(name, told), **args}, rows)

    def _reports_for_all(self, queue: str) -> bool:
        """Return whether findings about all queues are reported for this queue."""
        if self._chosen_of != len(self._queues):
            self._chosen_of = len(self._queues)
            self.event_cache.home = "celery" if "celery" in self._queues else min(self._queues, default="")
        return queue == self.event_cache.home or not self._queues

    def _build_shared_call(self, name: str) -> Call:
        """Build the call of a script that reads data of all queues."""
        script, keys = self.scripts[name], self._build_shared_keys()
        told = {**self.options, "visibility": int(self.options["visibility"]), "sep": self.separator}
        return script.build_call({key.name: keys[key.name] for key in script.keys}, self.select_arguments(name, told))

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Yield the queues bound like `celery`, and the queues of messages that workers hold."""
        self._database = _find_database(client)
        if not self.is_explicit and not self._is_present(client):
            return
        yield self._read_bindings(client, [to_bytes(f"{self.prefix}_kombu.binding.celery")])
        answer = scripts.run(client, self._build_shared_call("spread"))
        held = [row["queue"] for row in read_rows(answer)]
        self._queues.update(held)
        yield held

    def marker_keys(self) -> Sequence[str]:
        """Return the keys of held messages and of the default queue's binding."""
        keys = self._build_shared_keys()
        return keys["unacked"], keys["unacked_index"], f"{self.prefix}_kombu.binding.celery"

    def _is_present(self, client: Any) -> bool:
        """Return whether the shared keys have Kombu's types, or the default queue is bound."""
        pipe = client.pipeline(transaction=False)
        for key in self.marker_keys():
            pipe.type(to_bytes(key))
        found = [to_text(kind) for kind in pipe.execute(raise_on_error=False) if not isinstance(kind, Exception)]
        return found[:2] == ["hash", "zset"] or found[2:] == ["set"]

    def _read_bindings(self, client: Any, keys: Sequence[bytes]) -> list[str]:
        """Return the queues in these binding tables, without Celery's internal queues."""
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.sscan(key, 0, count=_MAX_BINDINGS)
        found: set[str] = set()
        for answer in pipe.execute(raise_on_error=False):
            members = () if isinstance(answer, Exception) else answer[1]
            found.update(parts[2] for member in members if len(parts := to_text(member).split(self.separator)) == 3)
        names = sorted(name for name in found if name and not _HIDDEN.search(name))
        self._queues.update(names)
        return names

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues bound to any exchange."""
        self._database = _find_database(client)
        prefixes = {to_text(key).partition("_kombu.binding.")[0] for key in found}
        if not self.is_explicit:
            self._adopt_prefix(prefixes)
        self._has_other_prefixes = self._has_other_prefixes or bool(prefixes - {self.prefix})
        start = to_bytes(f"{self.prefix}_kombu.binding.")
        return self._read_bindings(client, [key for key in found if key.startswith(start)])

    def _adopt_prefix(self, prefixes: set[str]) -> None:
        """Adopt the prefix that all found keys share if none was configured; keys without a prefix come first."""
        if "" in prefixes and self.prefix:
            self._queues.clear()
        elif self._queues or len(prefixes) != 1:
            return
        prefix = "" if "" in prefixes else next(iter(prefixes))
        if self.option_values["prefix"].accepts(prefix):
            self.specs = ({**self.options, "prefix": prefix},)

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the queue is bound as Celery binds one, or has a list in a database that Celery uses."""
        self._database = _find_database(client)
        pipe = client.pipeline(transaction=False)
        pipe.sscan(to_bytes(f"{self.prefix}_kombu.binding.{queue}"), 0, count=_MAX_BINDINGS)
        for step in self.options["steps"].split("/"):
            pipe.type(to_bytes(f"{self.prefix}{queue}{'' if step == '0' else self.separator + step}"))
        bound, *kinds = pipe.execute(raise_on_error=False)
        if not isinstance(bound, Exception) and to_bytes(f"{queue}{self.separator}{self.separator}{queue}") in bound[1]:
            return True
        has_list = any(not isinstance(kind, Exception) and to_text(kind) == "list" for kind in kinds)
        return has_list and (self.is_explicit or self._is_present(client))

    # -- counts ---------------------------------------------------------------------------------------------------

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue]]:
        """Build the request for the counts of many queues.

        Data that all queues share is read once; the lists of the queues are read in batches of `QUEUES_PER_CALL`.
        """
        script = self.scripts["tally"]
        told = {"sep": self.separator, "steps": self.options["steps"]}
        keys = [self.keys(queue)["queue"] for queue in queues]
        calls = [
            script.build_call({}, told, each_keys=[[key] for key in keys[at : at + QUEUES_PER_CALL]])
            for at in range(0, len(keys), QUEUES_PER_CALL)
        ]

        def parse_reply(answers: Replies) -> list[Queue]:
            shared, *tallies = map(unwrap_reply, answers)
            theirs = {row["queue"]: row for row in read_rows(shared)}
            own = [row for answer in tallies for row in read_rows(answer)]
            for queue, row in [*theirs.items(), *zip(queues, own, strict=True)]:
                for task in filter(None, row["tasks"].split("\n")):
                    self._record_task_queue(task, queue)
            told = (
                {**_NO_COUNTS, **shared.values, **theirs.get(queue, {}), **row}
                for queue, row in zip(queues, own, strict=True)
            )
            return [
                self._parse_queue(queue, Reply("counted", values=values))
                for queue, values in zip(queues, told, strict=True)
            ]

        return Request((self._build_shared_call("spread"), *calls), parse_reply)

    # -- published events ------------------------------------------------------------------------------------------

    def event_patterns(self) -> tuple[str, ...]:
        """Return the channel patterns of events in any database, and of results with and without the prefix."""
        events = f"{self.prefix}{self.options['fanout'].replace('{db}', '*')}{self.options['events']}*"
        results = {f"{build_results_prefix(self.prefix)}celery-task-meta-*", "celery-task-meta-*"}
        return (events, *sorted(results))

    def record_event(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Record a published event, several events in one message, or a result.

        The name of an event channel has the database number of the broker, unless the option `fanout` leaves it out.
        The name of a result channel has none, so results of apps in all databases of a Redis arrive here. A message
        whose channel does not show its database waits in `_unplaced` until its job is known to belong to this database.
        """
        if _is_channel_of(channel, to_bytes(self._build_channel(self.options["events"]))):
            for event in _decode_events(message):
                if (take := _EVENT_HANDLERS.get(_read_text(event, "type"))) is not None:
                    self._record_task_event(take, event, at_ms)
            return
        _before, is_result, id = channel.rpartition(b"celery-task-meta-")
        if is_result:
            self._record_or_keep(id, partial(self._record_result_message, id, message, at_ms), len(message), channel)

    def _record_task_event(self, take: RecordEvent, event: Mapping[str, Any], at_ms: int) -> None:
        """Record an event at once if its channel or its id shows that it belongs to this database; else keep it."""
        id = _read_id(event)
        if not id:
            take(self, event, at_ms)  # an event of a worker has no job id
        elif "{db}" in self.options["fanout"]:
            self._update_cached_job(
                id, task=_read_text(event, "name"), queue=_read_text(event, "queue"), is_of_broker=True
            )
            self._record_kept(id)
            take(self, event, at_ms)
        else:
            key = to_bytes(f"{build_results_prefix(self.prefix)}celery-task-meta-") + id
            self._record_or_keep(id, partial(take, self, event, at_ms), len(repr(event)), key, is_event=True)

    def _record_result_message(self, id: bytes, message: bytes, at_ms: int) -> None:
        """Record the result of a job of this database."""
        told = _parse_object(message)
        if isinstance(told.get("status"), str):
            self._record_result(id, told, at_ms)
            if told["status"] == "FAILURE":
                _keep_if_short(self._calls, id, messages.build_task_of_result(message))

    def _record_or_keep(
        self, id: bytes, take: Callable[[], None], size: int, key: bytes, *, is_event: bool = False
    ) -> None:
        """Call `take` if the job is known to belong to this database; else keep the call and check for a result later.

        A result without the prefix of this app may belong to an app without one, so its key proves nothing here.
        """
        if id in self._known:
            take()
            return
        is_own = key.startswith(to_bytes(f"{build_results_prefix(self.prefix)}celery-task-meta-"))
        evidence = Evidence(key, is_event) if is_own and not self._has_other_prefixes else None
        self._unplaced.add(id, take, size, evidence)

    def _record_kept(self, id: bytes) -> None:
        """Record the events and results kept for a job, because the job belongs to this database."""
        for take in self._unplaced.pop(id):
            take()

    def event_requests(self) -> Sequence[Request[None]]:
        """Build the requests that check which published results this database stores; their jobs then belong to it."""
        unchecked, script = [*self._unplaced.unchecked.items()], self.scripts["results"]

        def parse_reply(chunk: Sequence[tuple[bytes, Evidence]], answers: Replies) -> None:
            answer = answers[0]
            if isinstance(answer, Exception):
                return  # asked again with the next poll
            for (id, evidence), row in zip(chunk, read_rows(answer), strict=True):
                self._unplaced.unchecked.pop(id, None)
                if row["is_kept"] or (evidence.is_event and answer.values["is_alone"]):
                    self._record_kept(id)

        chunks = [unchecked[at : at + RESULTS_PER_CALL] for at in range(0, len(unchecked), RESULTS_PER_CALL)]
        return [
            Request(
                (script.build_call({}, {}, each_keys=[[evidence.key] for _id, evidence in chunk]),),
                partial(parse_reply, chunk),
                may_fail=True,
            )
            for chunk in chunks
        ]

    def _update_cached_job(self, id: bytes, **told: Any) -> CachedJob:
        """Merge new values into the cached facts about a job, and return them."""
        known = self._known.get(id) or CachedJob()
        known = known._replace(**{name: value for name, value in told.items() if value not in (None, "")})
        self._known.store(id, known)
        if known.queue and self._guessed.pop(id, None) is not None:
            self.event_cache.clear_queue(id)
            self.event_cache.assign_queue(id, known.queue)
        if known.task and known.queue:
            self._record_task_queue(known.task, known.queue)
        return known

    def _record_task_queue(self, task: str, queue: str) -> None:
        """Record that a task was seen in a queue, and assign outcomes of unknown queue to it.

        When the task is seen in a second queue, the outcomes assigned by guess lose their queue again.
        """
        found = self._queues_of.get(task) or self._queues_of.store(task, set())
        if queue in found:
            return
        found.add(queue)
        if len(found) == 1:
            for id in [job.id for job in self.event_cache.yield_unassigned_jobs() if job.name == task]:
                self.event_cache.assign_queue(id, queue, GUESSED)
                self._record_guess(id, task)
        elif len(found) == 2:
            for id in [id for id, guessed in self._guessed.items() if guessed == task]:
                del self._guessed[id]
                self.event_cache.clear_queue(id)

    def _record_guess(self, id: bytes, task: str) -> None:
        self._guessed.store(id, task)

    def _find_queue(self, known: CachedJob) -> str:
        """Return the reported queue of a job, else the only queue of its task, else the only queue; empty if none."""
        for found in ({known.queue} - {""}, self._queues_of.get(known.task, set()), self._queues):
            if len(found) == 1:
                return next(iter(found))
        return ""

    def _record_seen_job(self, queue: str, place: str, id: bytes, read: messages.Message) -> CachedJob:
        """Record a job that was read from a list or from `unacked`."""
        known = self._known.get(id)
        if known is None or known.queue != queue or not known.task or not known.is_of_broker:
            known = self._update_cached_job(id, queue=queue, task=read.task, call=read.call, is_of_broker=True)
            self._record_kept(id)
        if (heard := self.event_cache.find(id)) is not None:
            if heard.place == "running" and place in ("unacked", "late"):
                self._held.store(id, replace(heard, queue=queue))
                self.event_cache.discard(id)
            else:
                self.event_cache.assign_queue(id, queue)
        if place == "queue" and read.is_redelivered and id not in self._again:
            self._record_redelivery(id, queue, self.now_ms())
        return known

    def _record_redelivery(self, id: bytes, queue: str, at_ms: int) -> None:
        """Record that a job was delivered again although it runs or has succeeded."""
        job = self._held.get(id) or self.event_cache.find(id)
        if job is None or (job.place == "running" and self._is_silent(job.worker, at_ms)):
            return
        if job.place in ("running", "succeeded"):
            self._again.store(id, Redelivery(job.queue or queue, job.place, job.worker, at_ms))

    def _is_silent(self, worker: str, now_ms: int, after_ms: int | None = None) -> bool:
        """Return whether a worker that sent events before sent no heartbeat for `after_ms`, or for its own limit."""
        known = self.event_cache.find_worker(worker)
        if known is None:
            return worker in self._left
        return now_ms - known.heartbeat_ms > (known.ttl_ms if after_ms is None else after_ms)

    def _release_unheld(self, queue: str, jobs: Sequence[Job]) -> None:
        """Move running jobs that are no longer in `unacked` to the event cache, because only events report them now."""
        here = {job.id for job in jobs}
        for id in [id for id, job in self._held.items() if job.queue == queue and id not in here]:
            self.event_cache.record_job(self._held.pop(id))

    def _record_task(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a `task-sent` or `task-received` event: the call and its queue."""
        id, task = _read_id(event), _read_text(event, "name")
        queue = _read_text(event, "queue")
        worker = _read_text(event, "hostname") if event.get("type") == "task-received" else ""
        call = messages.format_call_of_reprs(task, event.get("args"), event.get("kwargs")) if task else ""
        known = self._update_cached_job(
            id, task=task, call=call, queue=queue, worker=worker, retries=_read_count(event.get("retries"))
        )
        if worker and known.queue:
            self._record_served_queue(worker, known.queue)
        if task:
            _keep_if_short(self._reprs, id, (task, _read_text(event, "args"), _read_text(event, "kwargs")))

    def _record_started(self, event: Mapping[str, Any], at_ms: int) -> None:
        id, before = _read_id(event), self.event_cache.find(_read_id(event))
        if before is not None and before.place in _FINAL_PLACES and not self._known.get(id, CachedJob()).has_told_end:
            return  # Events are published in batches, so the result of this run may have arrived before.
        # With task_track_started a result reports the same start, mostly before the batch with this event arrives.
        is_reported = before is not None and before.place == "running"
        if not is_reported or self._known.get(id, CachedJob()).has_start_event:
            self._record_redelivery(id, "", at_ms)
        worker = _read_text(event, "hostname")
        known = self._update_cached_job(id, worker=worker, started_ms=at_ms, has_told_end=False, has_start_event=True)
        self._store_state(id, "running", known, at_ms)

    def _record_succeeded(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._record_end(event, "succeeded", at_ms, (Fact("result", _read_text(event, "result")),))

    def _record_failed(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._record_end(
            event, "failed", at_ms, (), _read_text(event, "traceback").strip() or _read_text(event, "exception")
        )

    def _record_revoked(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record that a task was revoked, expired or was rejected by its own code."""
        why = "expired" if event.get("expired") else "terminated" if event.get("terminated") else "revoked"
        if event.get("type") == "task-rejected":
            why = "rejected by its task"
            if event.get("requeue"):
                self._drop_running(_read_id(event))
                return
        self._record_end(event, "revoked", at_ms, (Fact("ended by", why),))

    def _record_retried(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a failed run whose task was put into the queue again with a later due time."""
        id, error = _read_id(event), _read_text(event, "traceback").strip() or _read_text(event, "exception")
        known = self._update_cached_job(id, worker=_read_text(event, "hostname"), has_start_event=False)
        tried = Attempt(known.started_ms or 0, at_ms, known.worker, error)
        self._update_cached_job(id, history=(*known.history, tried)[-MAX_ATTEMPTS:])
        self._count_run(id, known, "retried", at_ms, failed=True)
        self._drop_running(id)

    def _drop_running(self, id: bytes) -> None:
        self._held.pop(id, None)
        if (job := self.event_cache.find(id)) is not None and job.place == "running":
            self.event_cache.discard(id)

    def _record_end(
        self, event: Mapping[str, Any], place: str, at_ms: int, facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """Record an event that ends a run."""
        id, runtime = _read_id(event), event.get("runtime")
        took_ms = round(runtime * 1000) if messages.is_number(runtime) else None
        known = self._update_cached_job(
            id, worker=_read_text(event, "hostname"), took_ms=took_ms, has_told_end=True, has_start_event=False
        )
        if place != "revoked":
            self._count_run(id, known, place, at_ms, failed=place == "failed")
        self._store_state(id, place, known, at_ms, facts, error)

    def _record_result(self, id: bytes, told: Mapping[str, Any], at_ms: int) -> None:
        """Record a result from the result backend; with `result_extended` it includes task, queue and worker."""
        task = _read_text(told, "name")
        call = pickles.format_call(task, told.get("args"), told.get("kwargs"), messages.MAX_CALL_LENGTH) if task else ""
        queue = _read_text(told, "queue")
        queue = queue if queue in self._queues else ""  # the field has a routing key, which may be no queue
        known = self._update_cached_job(id, task=task, call=call, queue=queue, worker=_read_text(told, "worker"))
        status = told["status"]
        if status == "STARTED":
            known = self._update_cached_job(id, started_ms=known.started_ms or at_ms)
        place = _PLACE_OF.get(status)
        if place is None:
            return
        error = _format_error(told)
        if place in ("succeeded", "failed"):
            self._count_run(id, known, place, at_ms, failed=place == "failed")
        self._store_state(id, place, known, at_ms, tuple(build_result_facts(told, has_error=True)), error)

    def _count_run(self, id: bytes, known: CachedJob, ended: str, at_ms: int, *, failed: bool) -> None:
        """Count a run once, although both an event and a result report it."""
        run = (known.started_ms or 0, ended)
        if known.counted != run:
            self._update_cached_job(id, counted=run)
            self.event_cache.record_run(self._find_queue(known), known.task, failed=failed)
        if known.took_ms is not None and known.timed != run:
            self._update_cached_job(id, timed=run)
            self.event_cache.record_duration(self._find_queue(known), known.task, known.took_ms)

    def _store_state(
        self, id: bytes, place: str, known: CachedJob, at_ms: int, facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """Store the latest state of a job; facts of an event and a result about the same end are merged."""
        before = self.event_cache.find(id)
        before = before if before is not None and before.place == place else None
        self._held.pop(id, None)
        if place == "succeeded":
            self._messages.pop(id, None)
            self._calls.pop(id, None)
            self._reprs.pop(id, None)
        where = self.place(place)
        kept = {fact.name: fact for fact in (before.facts if before else ()) if fact.name != GUESSED.name}
        if known.took_ms is not None and where.state is not State.RESERVED:
            kept["took"] = Fact("took", known.took_ms, "duration")
        kept |= {fact.name: fact for fact in facts}
        whose = self._find_queue(known)
        if known.queue:
            kept.pop("queue", None)  # it was guessed
        if whose and not known.queue and len(self._queues) > 1:
            kept[GUESSED.name] = GUESSED
            self._record_guess(id, known.task)
        self.event_cache.record_job(
            Job(
                id=id,
                queue=whose,
                system=self.name,
                place=place,
                state=where.state,
                member=b"",
                name=known.task,
                reserved_ms=known.started_ms,
                since_ms=before.since_ms if before else at_ms,
                attempts=known.retries + 1,
                worker=known.worker,
                error=(error if len(error) >= len(before.error) else before.error) if before else error,
                history=known.history,
                call=known.call,
                facts=tuple(kept.values()),
            )
        )

    # -- workers --------------------------------------------------------------------------------------------------

    def _record_worker(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Record a worker's heartbeat, sent every 2 s by default, with and without `-E`."""
        name = _read_text(event, "hostname")
        if not name:
            return
        if event.get("type") == "worker-offline":
            self.event_cache.remove_worker(name)
            self._left.store(name, None)
            return
        self._left.pop(name, None)
        before = self.event_cache.find_worker(name)
        self._stillness.record_heartbeat(
            name, _read_count(event.get("active")) or 0, _read_count(event.get("processed")) or 0, at_ms
        )
        active, freq = _read_count(event.get("active")), event.get("freq")
        self._drop_ended_runs(name, active, at_ms)
        facts = [Fact("active", str(active or 0)), Fact("processed", str(_read_count(event.get("processed")) or 0))]
        loads = event.get("loadavg")
        if isinstance(loads, list) and all(messages.is_number(load) for load in loads):
            facts.append(Fact("load", " ".join(f"{load:.2f}" for load in loads[:3])))
        ident, version = _read_text(event, "sw_ident"), _read_text(event, "sw_ver")
        if version:
            facts.append(Fact("version", f"{'Celery' if ident == 'py-celery' else ident} {version}"))
        self.event_cache.record_heartbeat(
            Worker(
                name,
                "",
                at_ms,
                max(SILENT_MS, round(2000 * freq) if messages.is_number(freq) else 0),
                pid=str(_read_count(event.get("pid")) or ""),
                host=name.partition("@")[2],
                started_ms=before.started_ms if before else at_ms if event.get("type") == "worker-online" else None,
                queues=before.queues if before else (),
                state="busy" if active else "idle",
                facts=tuple(facts),
            )
        )

    def _drop_ended_runs(self, worker: str, active: int | None, at_ms: int) -> None:
        """Drop runs that began before a worker became idle: they ended, and the event about it was not received.

        A worker is idle if its heartbeats report no active task for `IDLE_MS`. Events of tasks are sent in batches, so
        that a start may be received after a later heartbeat.
        """
        if active != 0:
            self._idle_since_ms.pop(worker, None)
            return
        since_ms = self._idle_since_ms.get(worker)
        if since_ms is None:
            self._idle_since_ms.store(worker, at_ms)
        elif at_ms - since_ms >= IDLE_MS:
            for job in [*self.event_cache.yield_jobs("running")]:
                if job.worker == worker and job.since_ms is not None and job.since_ms < since_ms:
                    self.event_cache.discard(job.id)

    def _record_served_queue(self, worker: str, queue: str) -> None:
        """Record that a worker took a job of a queue."""
        known = self.event_cache.find_worker(worker)
        if known is not None and queue not in known.queues:
            self.event_cache.record_heartbeat(known._replace(queues=tuple(sorted({*known.queues, queue}))))

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for all workers counted from Pub/Sub events.

        No event names the queues that a worker serves, so every queue lists all workers.
        """
        heard = [job for name in (queue, "") for job in self.event_cache.list_page(name, "running", 0, MAX_RUNNING)[2]]
        running = {job.worker: job.id for job in [*self._held.values(), *heard]}

        def parse_reply(_answers: Replies) -> tuple[Worker, ...]:
            now_ms = self.now_ms()
            workers = self.event_cache.list_workers()
            number = format_quantity(len(workers), "worker")
            note = f"only {number} with the newest events were kept; there may be more"
            return WorkerList(
                (
                    worker._replace(
                        queue=queue,
                        job=running.get(worker.name, b""),
                        state="silent" if worker.is_late(now_ms) else worker.state,
                    )
                    for worker in workers
                ),
                note if len(workers) >= MOST_WORKERS else "",
            )

        return Request((), parse_reply)

    def kinds_request(self, queue: str) -> Request[tuple[KindStatistics, ...]]:
        """Build the request for the runs per task, counted from Pub/Sub events."""

        def parse_reply(_answers: Replies) -> tuple[KindStatistics, ...]:
            over_ms = self.now_ms() - (self.events_since_ms or self.now_ms())
            return tuple(each for each in self.event_cache.build_kind_statistics(over_ms) if each.queue == queue)

        return Request((), parse_reply)

    def _parse_queue(self, queue: str, answer: Reply | Exception) -> Queue:
        counted = super()._parse_queue(queue, answer)
        if counted.error:
            return counted
        since_ms, now_ms = self.events_since_ms, counted.counted_ms
        is_long = since_ms is not None and now_ms - since_ms > SILENT_MS
        alive = self.event_cache.count_alive(now_ms)
        paused_ms = self._paused.get(queue)
        if paused_ms is not None and self.event_cache.find_newest_start_ms() > paused_ms:
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
        """Return the findings that come from Pub/Sub events, which no key shows."""
        looks = (
            self._find_lost,
            self._find_abandoned,
            self._find_redelivered,
            self._find_unconsumed,
            self._find_unreported,
        )
        return tuple(found for look in looks if (found := look(queue)) is not None)

    def _find_lost(self, queue: Queue) -> Finding | None:
        """Find running jobs that were acked before they ran and whose worker is gone: no key holds them any more."""
        jobs = self.event_cache.list_page(queue.name, "running", 0, MAX_RUNNING)[2]
        lost = [job for job in jobs if self._is_silent(job.worker, queue.counted_ms)]
        if not lost:
            return None
        text = f"{len(lost)} lost with {_describe_workers(lost)}, such as {to_text(lost[-1].id)}: acked before they ran"
        remedy = "put them anew: this screen's place running tells their arguments; with acks_late none is lost"
        return Finding("lost", "critical", queue.name, text, remedy, ids=(lost[-1].id,), jobs=len(lost))

    def _find_abandoned(self, queue: Queue) -> Finding | None:
        """Find jobs in `unacked` whose worker is gone: Kombu delivers them again only after the visibility timeout."""
        found = [job for job in self._orphans.get(queue.name, ()) if self._is_silent(job.worker, queue.counted_ms)]
        if not found or not queue.count_in_place("unacked"):
            return None
        job = found[0]
        text = f"{len(found)} held by {_describe_workers(found)}, silent by now, such as {to_text(job.id)}"
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
            jobs=len(found),
            since_ms=job.reserved_ms,
        )

    def _find_redelivered(self, queue: Queue) -> Finding | None:
        """Find jobs that another program delivered again while they ran or after they had succeeded."""
        again = [(id, each) for id, each in self._again.items() if each.queue == queue.name]
        recent = [(id, each) for id, each in again if queue.counted_ms - each.at_ms < KEPT_MS]
        if not recent:
            return None
        id, each = recent[-1]
        when = f"while {each.worker or 'a worker'} ran it" if each.place == "running" else "after it had succeeded"
        text = f"{len(recent)} given out again, the last {to_text(id)} {when}: some program waits less long for an ack"
        remedy = "set the same visibility_timeout in workers, Flower and celery control, above the longest run and ETA"
        return Finding(
            "foreign-restore", "critical", queue.name, text, remedy, ids=(id,), since_ms=each.at_ms, jobs=len(recent)
        )

    def _find_unconsumed(self, queue: Queue) -> Finding | None:
        """Find a queue whose ready jobs no worker takes.

        Either all workers are idle, or the next job stays the next one and no worker holds a job of the queue.
        """
        waiting, now_ms = queue.count_in_place("queue"), queue.counted_ms
        idle_ms = self._stillness.compute_idle_since_ms(queue.name, waiting, now_ms)
        alive = self.event_cache.count_alive(now_ms)
        is_held = any(queue.count_in_place(place) for place in ("unacked", "late", "eta", "running"))
        next_ms = self._next.get(queue.name, NextMessage(b"", now_ms)).since_ms
        if not alive or idle_ms is None:
            return None
        if now_ms - idle_ms >= STILL_MS:
            since_ms, why = idle_ms, f"idle: {format_quantity(alive, 'worker')}"
        elif not is_held and now_ms - max(next_ms, self._stillness.find_ready_since_ms(queue.name)) >= STUCK_MS:
            since_ms, why = next_ms, "the next one stays the next, and no worker holds any"
        else:
            return None
        text = f"{waiting} ready, and nobody takes them: {why}"
        resume = f"rqtui act resume {self.queue_argument(queue.name)}"
        remedy = (
            f"start one for it: celery -A APP worker -Q {quote_for_shell(queue.name)}; where it was paused: {resume}"
        )
        return Finding("nobody-consumes", "critical", queue.name, text, remedy, since_ms=since_ms, jobs=waiting)

    def _find_unreported(self, queue: Queue) -> Finding | None:
        """Find finished tasks that no event or result reported, or reported without their queue."""
        if not self._reports_for_all(queue.name):
            return None
        nobodys = sum(self.event_cache.count("", place).of_queue for place in _FINAL_PLACES)
        told = sum(self.event_cache.count(queue.name, place).of_all for place in _FINAL_PLACES)
        ended, elsewhere = self._stillness.ended, len(self._unplaced)
        is_silent = ended - told >= MIN_UNREPORTED if elsewhere else not told and ended >= MIN_UNREPORTED
        if not nobodys and not is_silent:
            return None
        if nobodys:
            text = f"nobody told which queue {format_quantity(nobodys, 'outcome')} of {told} belong to: they stand here"
        elif elsewhere:
            text = (
                f"workers ended {format_quantity(ended, 'task')} and told of {told}; "
                f"{format_quantity(elsewhere, 'task')} that this "
                "database does not know had results published: their apps use another database, or keep results in one"
            )
        else:
            text = f"workers ended {format_quantity(ended, 'task')} since somebody listens, and tell nothing of them"
        remedy = "start workers with -E, and set task_send_sent_event or result_extended: then it is told"
        return Finding("outcomes-untold", "warning", queue.name, text, remedy, jobs=nobodys or ended)

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]] | None:
        """Build the request for this system's findings.

        While events are recorded it also reads the next messages, which show the queue of a task, and the oldest held
        ones, which show what silent workers hold.
        """
        faults = super().probe_request(queue)
        if faults is None or self.events_since_ms is None:
            return faults
        more, own = (
            [self._page_part_request(queue, place, 0, PROBED_MESSAGES, 0) for place in ("queue", "unacked")],
            len(faults.calls),
        )

        def parse_reply(answers: Replies) -> tuple[Finding, ...]:
            for ask, answer in zip(more, answers[own:], strict=True):
                ask.parse([answer])
            return faults.parse(answers[:own])

        return Request((*faults.calls, *(call for ask in more for call in ask.calls)), parse_reply)

    def _parse_page(self, queue: str, place: str, offset: int, limit: int, answer: Reply | Exception) -> Page:
        page = super()._parse_page(queue, place, offset, limit, answer)
        if not page.error and (see := _PAGE_OBSERVERS.get(place)) is not None:
            see(self, page)
        return page

    def _record_next_message(self, page: Page) -> None:
        """Record which message is the next one of its queue, and since when."""
        if page.offset:
            return
        first = page.jobs[0].id if page.jobs else b""
        if not first or self._next.get(page.queue, NextMessage(b"", 0)).id != first:
            self._next[page.queue] = NextMessage(first, self.now_ms())

    def _record_held_jobs(self, page: Page) -> None:
        """Record the held jobs of workers that miss heartbeats; a full page also shows which jobs are not held now."""
        if not page.offset and page.next is None and page.place_total is None:
            self._release_unheld(page.queue, page.jobs)
        self._orphans[page.queue] = tuple(
            job for job in page.jobs if self._is_silent(job.worker, self.now_ms(), DOUBTFUL_MS)
        )

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job with its result, or for its result alone if nothing else is left.

        The job is searched by the bytes last seen under this id, else by its id near both ends of each list. A job
        without an id is searched by its digest among the first jobs of each place.
        """
        known = self.entries.find(id)
        entry = known or Entry(b"", 0, b"")
        plain = id if known is None else id.partition(b".")[0]
        args: dict[str, object] = {"id": plain, "head": entry.head, "size": entry.size, "tail": entry.tail}
        args |= {"body_bytes": body_bytes, "field": self._tags.get(id, b"")}
        calls = [self.build_call("show", queue, args)]
        is_found = known is not None and known.is_complete and (queue, id) not in self._missed
        ends = () if is_found else (0, -1)
        calls += [self.build_call("show", queue, {**args, "place": "queue", "offset": at}) for at in ends]
        asked = len(calls)
        nameless = ["queue", "unacked", "late", "eta"] if not entry.size and _DIGEST.fullmatch(id) else []
        head = {"offset": 0, "limit": MAX_SEARCHED_MESSAGES, "body_bytes": HEAD_BYTES}
        calls += [self.build_call("page", queue, {**head, "place": place}) for place in nameless]

        def parse_reply(answers: Replies) -> Job | None:
            for answer in answers[:asked]:
                if (job := self._parse_job(queue, answer)) is not None:
                    self._missed.discard((queue, id))
                    return replace(job, id=id)
            if len(self._missed) >= MAX_MISSED:
                self._missed.clear()  # jobs that are still missing are added again
            self._missed.add((queue, id))
            for place, answer in zip(nameless, answers[asked:], strict=True):
                jobs = self._parse_page(queue, place, 0, MAX_SEARCHED_MESSAGES, answer).jobs
                if (match := next((job for job in jobs if job.id == id), None)) is not None:
                    return match
            return self.event_cache.find_in_queue(queue, id) or self._build_ended_job(queue, id, answers[0])

        return Request(tuple(calls), parse_reply)

    def _build_ended_job(self, queue: str, id: bytes, answer: Reply | Exception) -> Job | None:
        """Build a job from its result, if nothing else is left; only an extended result has the queue."""
        if not isinstance(answer, Reply) or answer.word != "ended":
            return None
        raw = answer.values["result"]
        assert isinstance(raw, bytes)
        told = _parse_object(raw)
        if (ended := _PLACE_OF.get(_read_text(told, "status"))) is None:
            return None
        place, known = self.place(ended), self._known.get(id, CachedJob())
        if ended == "failed":
            _keep_if_short(self._calls, id, messages.build_task_of_result(raw))
        if (known.queue or _read_text(told, "queue") or queue) != queue:
            return None
        task, done_ms = _read_text(told, "name"), messages.convert_time_ms(told.get("date_done"))
        is_told = known.queue or _read_text(told, "queue")
        whose = () if is_told else (Fact("queue", "not told: a result is found by its id alone"),)
        return Job(
            id=id,
            queue=queue,
            system=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            name=task,
            since_ms=done_ms,
            worker=_read_text(told, "worker"),
            error=_format_error(told),
            call=pickles.format_call(task, told.get("args"), told.get("kwargs"), messages.MAX_CALL_LENGTH)
            if task
            else "",
            facts=(*build_result_facts(told, has_error=True), *whose),
        )

    def _build_named_job(
        self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]
    ) -> Job:
        job = super()._build_named_job(queue, place, row, now_ms, seen)
        if job.token:
            self._tags.store(job.id, job.token)
        return job

    def extract_body(self, entry: Entry, row: Mapping[str, Any]) -> bytes:
        """Return the message, without the exchange and routing key of a message that a worker holds."""
        return messages.extract_message(entry.head) if row["tag"] else entry.head

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from its message; its id is that of the message."""
        read = messages.decode_message(entry.head, b"" if entry.is_complete else row["tail"], bool(row["tag"]))
        job = self._build_job(queue, self.place(place), read, row, now_ms)
        if not read.id:
            return job
        if entry.is_complete:
            _keep_if_short(self._messages, read.id, entry.head)
        return self._add_run(job, self._record_seen_job(queue, place, read.id, read), read.id)

    def _add_run(self, job: Job, known: CachedJob, id: bytes) -> Job:
        """Add worker, start of the run and failed attempts to a held job, as counted from Pub/Sub events."""
        if job.state is State.READY:
            return replace(job, history=known.history)
        held = self._held.get(id)
        started = (Fact("running since", held.reserved_ms or 0, "instant"),) if held else ()
        worker = held.worker if held else known.worker
        return replace(job, worker=worker, history=known.history, facts=(*started, *job.facts))

    def _build_job(self, queue: str, place: Place, read: messages.Message, row: Mapping[str, Any], now_ms: int) -> Job:
        headers = read.headers
        taken_ms = _convert_score_ms(row["score"])
        is_held = place.name in _HELD_IN
        retries = headers.get("retries")
        waits = place.name == "queue"
        return Job(
            id=read.id,
            queue=queue,
            system=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            token=row["tag"],
            name=read.task,
            due_ms=read.eta_ms if place.name == "eta" or (waits and (read.eta_ms or 0) > now_ms) else None,
            deadline_ms=taken_ms + self.visibility_ms if is_held and taken_ms is not None else None,
            reserved_ms=taken_ms if is_held else None,
            priority=int(row["step"]) if row["step"] else read.priority,
            ttr_ms=messages.read_time_limit_ms(headers, 0),
            attempts=(retries if messages.is_count(retries) else 0) + (place.state is State.RESERVED),
            problem=safe("; ".join(_find_problems(read, row, now_ms if waits else None))),
            call=read.call,
            facts=tuple(_build_facts(place, read, row, self.visibility_ms)),
        )

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return one run: only a task's own code retries it after a failure, which no message shows."""
        read = messages.decode_message(job.body or b"", b"", False)
        retries = read.headers.get("retries")
        attempts = retries if messages.is_count(retries) else 0
        losses = [
            f"it would not start its {messages.EMBED_LABELS[name]!r} afterwards"
            for name in messages.EMBED_LABELS
            if read.embed.get(name)
        ]
        if isinstance(group := read.headers.get("group"), str) and group:
            losses.append(f"the group {group[:60]} would wait for its result")
        if read.headers.get("expires") is not None:
            losses.append("it would run however late, though it expires")
        return MigrationTerms(attempts, attempts + 1, losses=tuple(losses))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def build_row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """Return the id of a job as its worker has it, and the priority of the list where the job was seen."""
        step = {"step": str(job.priority)} if job.place == "queue" else {}
        id = messages.decode_message(job.member, b"", bool(job.token)).id or job.id
        return {"id": id, **step, "of_broker": self._is_of_broker(id)}

    def _is_of_broker(self, id: bytes) -> bool:
        """Return whether a message or an event of this database named the job, so that its broker is this database."""
        return self._known.get(id, CachedJob()).is_of_broker or id in self._messages

    def explain_refusal(self, name: str, job: Job) -> str:
        """Explain why a verb cannot be used for a job.

        A message without an id cannot be cancelled, because workers drop messages by their ids.
        """
        is_seen = job.place in ("queue", *_HELD_IN) and not job.is_partial
        if name == "cancel" and is_seen and not messages.decode_message(job.member, b"", job.place in _HELD_IN).id:
            return "celery: it has no id by which a worker could be told. Delete it while it waits."
        return super().explain_refusal(name, job)

    def verb_requests(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Request[list[Outcome]]]:
        """Build the requests of a verb.

        A pause is stored until it is resumed, and requeued jobs no longer count as failed.
        """
        asks = super().verb_requests(name, queue, jobs, form)
        if name not in ("pause", "resume", "requeue"):
            return asks

        def remember_outcomes(ask: Request[list[Outcome]]) -> Request[list[Outcome]]:
            def parse_reply(answers: Replies) -> list[Outcome]:
                outcomes = ask.parse(answers)
                if name == "requeue":
                    for outcome in outcomes:
                        if outcome.moved:
                            self._reset_requeued_job(outcome.id)
                elif any(outcome.word == "paused" for outcome in outcomes):
                    self._paused[queue] = self.now_ms()
                elif name == "resume":
                    self._paused.pop(queue, None)
                return outcomes

            return replace(ask, parse=parse_reply)

        return [remember_outcomes(ask) for ask in asks]

    def _reset_requeued_job(self, id: bytes) -> None:
        """Reset the cached facts of a requeued failed job, so that its next run is counted separately."""
        failed, known = self.event_cache.find(id), self._known.get(id, CachedJob())
        if failed is None or failed.place != "failed":
            return
        self.event_cache.discard(id)
        tried = Attempt(failed.reserved_ms or 0, failed.since_ms or 0, failed.worker, failed.error)
        self._known.store(
            id,
            known._replace(
                retries=0,
                started_ms=None,
                took_ms=None,
                has_told_end=False,
                history=(*known.history, tried)[-MAX_ATTEMPTS:],
                counted=(0, ""),
                timed=(0, ""),
            ),
        )

    def _build_requeued_message(self, job: Job) -> bytes:
        """Build the message that runs a failed job again, from its cached message or its reported call.

        Its delivery tag is derived from the failure, so that a second requeue of the same failure is recognised. Raises
        UsageError.
        """
        if job.place != "failed":
            raise UsageError(f"celery: what failed is requeued, and this is in {job.place}.")
        failed = self.event_cache.find(job.id)
        if failed is not None and not failed.queue:
            raise UsageError("celery: nobody told of which queue it is. Put the task anew, into its queue.")
        if not self._is_of_broker(job.id) and self._has_other_prefixes:
            raise UsageError(
                "celery: only its result is known, and several apps with other prefixes share this database: nobody "
                "told whose task it is. Put the task anew, into its queue."
            )
        tag = json.dumps(str(uuid5(NAMESPACE_OID, f"{to_text(job.id)} {job.since_ms}"))).encode()
        again = {"eta": b"null", "expires": b"null", "retries": b"0", "redelivered": None}
        if seen := self._messages.get(job.id):
            message = messages.extract_message(seen)
            try:
                info = replace_fields(
                    read_fields(read_fields(message)["properties"])["delivery_info"], {"redelivered": None}
                )
                message = messages.replace_message_fields(message, "headers", again)
                return messages.replace_message_fields(
                    message, "properties", {"delivery_tag": tag, "delivery_info": info}
                )
            except (KeyError, ValueError):
                pass  # a message of the first task protocol has no such headers
        if call := self._calls.get(job.id) or messages.build_task_of_reprs(*self._reprs.get(job.id, ("", "", ""))):
            message = self._build_columns(job.queue, {"body": call, "id": job.id})["body"]
            return messages.replace_message_fields(message, "properties", {"delivery_tag": tag})
        raise UsageError(
            "celery: its arguments are not known. What tells them: its message, seen here in a list or in unacked; a "
            "result with result_extended; workers with -E, where they are short and plain. Put the task anew."
        )

    def rewrite_member(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """Return the message with a new priority or ETA; empty if the bytes are no message of Celery.

        For a failed job, return the message that runs it again. Raises UsageError if its arguments are unknown.
        """
        if name == "requeue":
            return self._build_requeued_message(job)
        is_timed = name == "reschedule" and ("priority" not in form or bool({"delay_ms", "due_ms"} & form.keys()))
        eta = {"eta": self._encode_eta(form)} if is_timed else {}
        is_ordered = "priority" in form or not is_timed
        order = {"priority": b"%d" % messages.check_priority(form.get("priority"))} if is_ordered else {}
        try:
            member = messages.replace_message_fields(job.member, "properties", order) if order else job.member
            return messages.replace_message_fields(member, "headers", eta) if eta else member
        except ValueError:
            return b""

    def _encode_eta(self, form: Mapping[str, object]) -> bytes:
        """Return the ETA of a form's `delay_ms` or `due_ms` as JSON; null for a time in the past. Raises UsageError."""
        now_ms, delay_ms, due_ms = self.now_ms(), form.get("delay_ms"), form.get("due_ms")
        at_ms = now_ms + delay_ms if isinstance(delay_ms, int) else due_ms if isinstance(due_ms, int) else now_ms
        if at_ms - now_ms > self.visibility_ms:
            raise UsageError(
                f"celery: a task that is due in more than {format_age(self.visibility_ms)} "
                f"would run twice: Kombu gives out "
                "again what nobody acked in its visibility_timeout. Where that is longer, say "
                "--system celery:visibility=SECONDS."
            )
        return json.dumps(messages.format_time(at_ms)).encode() if at_ms > now_ms else b"null"

    def encode_body(self, body: bytes) -> bytes:
        """Encode a task written by a person as a message. Raises UsageError."""
        return bytes(self._build_columns("celery", {"body": body})["body"])

    def format_editable_body(self, job: Job) -> bytes:
        """Return the message with its encoded arguments as JSON, for editing."""
        body = super().format_editable_body(job)
        try:
            own = read_fields(body)
            told = {**read_fields(own["properties"]), **own}
            if (json.loads(told["content-type"]), json.loads(told["body_encoding"])) != ("application/json", "base64"):
                return body
            call = base64.b64decode(json.loads(own["body"]), validate=True)
            return replace_fields(body, {"body": call}) if isinstance(json.loads(call), list) else body
        except (KeyError, TypeError, ValueError, RecursionError):
            return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns for a task in JSON or a full message.

        Columns in `row` take precedence. Raises UsageError.
        """
        return self._build_columns(queue, {name: value for name, value in row.items() if value not in (None, "", b"")})

    def _build_columns(self, queue: str, row: Mapping[str, object]) -> dict[str, Any]:
        """Build the `enqueue` columns for a task written in JSON."""
        body = to_bytes(row["body"])  # type: ignore[arg-type]
        told = messages.parse_written_task(body)
        id = to_text(to_bytes(row["id"])) if "id" in row else None  # type: ignore[arg-type]
        if id is not None and not messages.ID.fullmatch(id):
            raise UsageError("celery: an id is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
        is_timed = bool({"delay_ms", "due_ms"} & row.keys())
        if "headers" in told:
            changes = {"eta": self._encode_eta(row)} if is_timed else {}
            message = messages.copy_message(body, queue, id, changes, row.get("priority"))
        else:
            due_ms = {"due_ms": messages.convert_time_ms(told["eta"])} if told.get("eta") else {}
            due_ms |= {"delay_ms": round(told["countdown"] * 1000)} if "countdown" in told else {}
            expires = told.get("expires")
            if messages.is_number(expires):
                expires = messages.format_time(self.now_ms() + round(expires * 1000))
            options = messages.Options(
                id or told.get("id") or str(uuid4()),
                self._encode_eta(row if is_timed else due_ms),
                json.dumps(expires).encode(),
                messages.check_priority(row.get("priority", told.get("priority", 0))),
            )
            message = messages.create_message(body, told, queue, options)
        return {"id": json.loads(read_fields(read_fields(message)["headers"])["id"]), "body": message}


SYSTEM = Celery

_MAX_BINDINGS = 10_000
_NO_COUNTS = dict.fromkeys(("eta", "unacked", "late", "expired"), 0) | {"due_ms": -1, "deadline_ms": -1}


# -- cached events -----------------------------------------------------------------------------------------------------

MAX_CACHED_JOBS = 20_000  # jobs cached by id
MAX_TASKS = 10_000  # tasks whose queues are cached
MAX_CALLS = 4000  # cached tasks of at most 4 kB, and as many messages, to put failed jobs again
MAX_ATTEMPTS = 10  # cached failed runs per job
GUESSED = Fact("queue", "guessed: its task was seen in no other one")
MAX_RUNNING = 1000  # running jobs searched for their workers
IDLE_MS = 4_000  # two intervals of heartbeats, which is longer than events wait for their batch
DOUBTFUL_MS = 4_000  # two heartbeats are missing: the worker may be silent at the next refresh
SILENT_MS = 10_000  # without a heartbeat, which comes every 2 s (celery/worker/heartbeat.py)


MAX_OFFLINE_WORKERS = 1000  # workers that went offline
MAX_WORKERS = 1000  # workers whose last heartbeat is cached
MAX_UNPLACED = 50_000  # jobs, as many as the Pub/Sub event cache keeps
MAX_UNPLACED_BYTES = 16 * 1024 * 1024  # of their events and results
RESULTS_PER_CALL = 1000  # keys of results per call of `results`
MAX_REDELIVERIES = 1000  # redelivered jobs
KEPT_MS = 3_600_000  # how long a redelivery is reported
STILL_MS = 15_000  # all workers idle for this long with ready jobs: no worker takes from that queue
STUCK_MS = 60_000  # the same next message for this long, and no worker holds one of its queue
MIN_UNREPORTED = 10  # tasks that end without an event before the finding


class Redelivery(NamedTuple):
    """A job that was delivered again: its queue, place and worker at that time, and when it was seen."""

    queue: str
    place: str
    worker: str
    at_ms: int


@dataclass(slots=True)
class _KeptEvents:
    """The kept events and results of one job, in order, and their approximate size in bytes."""

    takes: list[Callable[[], None]] = field(default_factory=list)
    bytes: int = 0


class Evidence(NamedTuple):
    """The key of a result that, if present, proves that a job belongs to this database.

    An event (`is_event`) also belongs to this database if no other database of the server has a key.
    """

    key: bytes
    is_event: bool


class UnplacedEvents:
    """A bounded store of events and results whose jobs are not known to belong to this database.

    `unchecked` maps job ids to evidence that was not yet looked up.
    """

    def __init__(self, most: int = MAX_UNPLACED, most_bytes: int = MAX_UNPLACED_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._waiting: OrderedDict[bytes, _KeptEvents] = OrderedDict()
        self._bytes = self._forgotten = 0
        self.unchecked: dict[bytes, Evidence] = {}

    def __len__(self) -> int:
        """Return the number of jobs not known to belong to this database, including dropped ones."""
        return len(self._waiting) + self._forgotten

    def add(self, id: bytes, take: Callable[[], None], size: int, evidence: Evidence | None) -> None:
        """Keep a call that records an event or result of a job, with its evidence.

        The oldest jobs are dropped beyond the limits.
        """
        waiting = self._waiting.setdefault(id, _KeptEvents())
        waiting.takes.append(take)
        waiting.bytes += size
        self._bytes += size
        self._waiting.move_to_end(id)
        if evidence is not None:
            self.unchecked[id] = evidence
        while len(self._waiting) > self._most or self._bytes > self._most_bytes:
            self.pop(next(iter(self._waiting)))
            self._forgotten += 1

    def pop(self, id: bytes) -> Sequence[Callable[[], None]]:
        """Remove and return the calls kept for a job."""
        self.unchecked.pop(id, None)
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return ()
        self._bytes -= waiting.bytes
        return waiting.takes


class NextMessage(NamedTuple):
    """The next message of a queue, and since when it has been the next one."""

    id: bytes
    since_ms: int


class WorkerIdleness:
    """Since when all workers have been idle, and how many tasks they finished, from the numbers in their heartbeats."""

    def __init__(self) -> None:
        self.ended = 0
        self._told: LruCache[str, tuple[int, int]] = LruCache(MAX_WORKERS)  # by worker: active, processed
        self._moved_ms = 0
        self._waits_ms: dict[str, int] = {}  # by queue: since when jobs are ready

    def record_heartbeat(self, worker: str, active: int, processed: int, at_ms: int) -> None:
        """Record the active and processed tasks from a worker's heartbeat."""
        before = self._told.get(worker)
        if before is None or active or processed != before[1]:
            self._moved_ms = at_ms
        if before is not None:
            self.ended += max(0, processed - active - max(0, before[1] - before[0]))
        self._told.store(worker, (active, processed))

    def compute_idle_since_ms(self, queue: str, waiting: int, now_ms: int) -> int | None:
        """Return since when jobs of a queue have been ready and all workers idle; None if no job is ready."""
        if not waiting:
            self._waits_ms.pop(queue, None)
            return None
        return max(self._waits_ms.setdefault(queue, now_ms), self._moved_ms)

    def find_ready_since_ms(self, queue: str) -> int:
        """Return since when jobs of a queue have been ready; 0 if none is."""
        return self._waits_ms.get(queue, 0)


class CachedJob(NamedTuple):
    """The cached facts about one job from keys and events.

    `counted` and `timed` identify the run (start, end) that is already in the statistics.
    """

    queue: str = ""
    task: str = ""
    call: str = ""
    worker: str = ""
    retries: int = 0
    started_ms: int | None = None
    took_ms: int | None = None
    has_told_end: bool = False  # an event reported the end; it is the last event of a run
    has_start_event: bool = False  # an event reported the start of the current run
    is_of_broker: bool = False  # a message or event of this database had its id; else only its result is known
    history: tuple[Attempt, ...] = ()
    counted: tuple[int, str] = (0, "")
    timed: tuple[int, str] = (0, "")


_EVENT_HANDLERS: Mapping[str, RecordEvent] = {
    "task-sent": Celery._record_task,
    "task-received": Celery._record_task,
    "task-started": Celery._record_started,
    "task-succeeded": Celery._record_succeeded,
    "task-failed": Celery._record_failed,
    "task-retried": Celery._record_retried,
    "task-revoked": Celery._record_revoked,
    "task-rejected": Celery._record_revoked,
    "worker-online": Celery._record_worker,
    "worker-heartbeat": Celery._record_worker,
    "worker-offline": Celery._record_worker,
}
_PAGE_OBSERVERS: Mapping[str, Callable[[Celery, Page], None]] = {
    "queue": Celery._record_next_message,
    "unacked": Celery._record_held_jobs,
}
"""Methods that record findings from a page, by place."""
_FINAL_PLACES = ("succeeded", "failed", "revoked")
_PLACE_OF = {"SUCCESS": "succeeded", "FAILURE": "failed", "REVOKED": "revoked", "STARTED": "running"}


def build_results_prefix(prefix: str) -> str:
    """Return the prefix of result keys in an app with this key prefix (celery/backends/base.py 5.7)."""
    return prefix if not prefix or prefix[-1] in ":_-." else f"{prefix}_"


def _describe_workers(jobs: Sequence[Job]) -> str:
    """Name the worker of these jobs, or the number of workers and the first of them."""
    names = sorted({job.worker for job in jobs})
    return names[0] if len(names) == 1 else f"{format_quantity(len(names), 'worker')}, {names[0]} among them"


def _is_channel_of(channel: bytes, exchange: bytes) -> bool:
    """Return whether a channel is that of an exchange or, with `fanout_patterns`, of one of its routing keys."""
    return channel == exchange or channel.startswith(exchange + b"/")


def _decode_events(message: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the events in a message of Kombu, which holds one event or a list."""
    told = _parse_object(message)
    headers, properties = (messages.as_dict(told.get(part)) for part in ("headers", "properties"))
    body, _trouble = messages.decode_body(told, headers, properties)
    if told.get("content-type") != "application/json":
        body = pickles.to_plain(body)
    for event in body if isinstance(body, list) else [body]:
        if isinstance(event, dict) and isinstance(event.get("uuid", ""), str):
            yield event


def _parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object, or the beginning of a truncated one. Return an empty dict for any other text."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = read_partial_json(raw[:_CUT_BYTES])
    return found if isinstance(found, dict) else {}


def _read_id(event: Mapping[str, Any]) -> bytes:
    return str(event.get("uuid", "")).encode("utf-8", "replace")


def _read_text(told: Mapping[str, Any], name: str) -> str:
    """Return a field of an event as text; a lone surrogate becomes a question mark."""
    value = told.get(name)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _read_count(value: object) -> int | None:
    return value if messages.is_count(value) else None


T = TypeVar("T", bytes, tuple[str, str, str])


def _keep_if_short(store: LruCache[bytes, T], id: bytes, told: T) -> None:
    """Keep a value from which a failed job can be put again, unless it is longer than `HEAD_BYTES`."""
    if not told or sum(map(len, told if isinstance(told, tuple) else (told,))) > HEAD_BYTES:
        return
    store.store(id, told)


def _format_error(told: Mapping[str, Any]) -> str:
    """Return the error in a result: its traceback, or `ValueError: boom`; empty if it has none."""
    if told.get("status") not in ("FAILURE", "REVOKED", "RETRY"):
        return ""
    result = messages.as_dict(told.get("result"))
    message = result.get("exc_message")
    words = ", ".join(str(each) for each in message) if isinstance(message, list) else str(message or "")
    said = ": ".join(filter(None, (str(result.get("exc_type") or ""), words)))
    return _read_text(told, "traceback").strip() or said


# -- what is shown of a job --------------------------------------------------------------------------------------------


def _convert_score_ms(score: str) -> int | None:
    try:
        at = float(score)
    except ValueError:
        return None
    return round(at * 1000) if 0 <= at < 1e11 else None


def _find_problems(read: messages.Message, row: Mapping[str, Any], now_ms: int | None) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong with a job; `now_ms` is given only for waiting jobs."""
    if read.problem:
        yield read.problem
    if read.headers.get("eta") is not None and read.eta_ms is None:
        yield f"its eta is no time: {read.headers['eta']!r:.60}"
    expires_ms = messages.convert_time_ms(read.headers.get("expires"))
    if now_ms is not None and expires_ms is not None and expires_ms <= now_ms:
        yield f"expired, and dropped by the worker that takes it: {read.call or 'no task'}"
    if row["tag"] and _convert_score_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"


def _build_facts(place: Place, read: messages.Message, row: Mapping[str, Any], visibility_ms: int) -> Iterator[Fact]:
    """Yield the facts about a job that only Celery has, most useful first."""
    if row.get("result"):
        yield from build_result_facts(_parse_object(row["result"]) or {"result": to_text(row["result"][:1000])})
    if place.name != "eta":
        yield from list_facts([("eta", read.eta_ms, "instant")])
    elif (taken_ms := _convert_score_ms(row["score"])) is not None and (read.eta_ms or 0) > taken_ms + visibility_ms:
        yield Fact("given out again", taken_ms + visibility_ms, "instant")
    yield from read.facts


def build_result_facts(told: Mapping[str, Any], has_error: bool = False) -> Iterator[Fact]:
    """Yield the facts of a stored result; without its traceback if the job already `has_error`."""
    yield Fact("status", _read_text(told, "status"))
    if (done_ms := messages.convert_time_ms(told.get("date_done"))) is not None:
        yield Fact("ended", done_ms, "instant")
    if told.get("result") is not None and not (has_error and told.get("status") == "FAILURE"):
        yield Fact("result", json.dumps(told["result"], ensure_ascii=False), "json")
    if not has_error and _read_text(told, "traceback"):
        yield Fact("traceback", _read_text(told, "traceback"), "trace")
    if isinstance(parent := told.get("parent_id"), str) and parent != told.get(
        "task_id"
    ):  # a retried task is its own parent
        yield Fact("parent", parent, "ref")
    children = told.get("children")
    for child in children[:MAX_CHILDREN] if isinstance(children, list) else ():
        id = child[0][0] if isinstance(child, list) and child and isinstance(child[0], list) and child[0] else None
        if isinstance(id, str):
            yield Fact("child", id, "ref")


MAX_CHILDREN = 20


def _find_database(client: Any) -> int:
    """Return the database number of a client; 0 in a Cluster."""
    given = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    return int(given.get("db") or 0)
