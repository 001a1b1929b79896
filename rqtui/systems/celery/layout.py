"""Celery (Python, Celery 5.7 on Kombu 5.7): a list per queue and priority, and one hash of what workers hold.

LISTs `<q>` and, for priorities 3, 6, 9, `<q>\\x06\\x163` …: messages in JSON, LPUSH in, BRPOP out, 0 first. A message
has `body` (base64 of `[args, kwargs, embed]`), `content-type`, `headers` (`task`, `id`, `eta`, …) and `properties`
(`delivery_tag`, `delivery_info`, `priority`). HASH `unacked`: tag → `[message, exchange, routing key]`, of all queues;
ZSET `unacked_index`: tag by when it was taken, float seconds. SETs `_kombu.binding.<exchange>` of routing key, pattern
and queue, parted as above. STRING `celery-task-meta-<id>`: the result in JSON, for a day. What runs, what ended and who
works is only published: `/<db>.celeryev/…`, `celery-task-meta-<id>`. Page: `docs/systems/celery.md`.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

from rqtui.errors import UsageError
from rqtui.layout.entries import HEAD_BYTES, TAIL_BYTES, Entry
from rqtui.layout.foreign import Entrywise, rows_by_name
from rqtui.layout.layout import Answers, Ask, answered, typed
from rqtui.layout.option_values import NAME, NAME_OR_NOTHING, matching, whole
from rqtui.layout.recent import Recent
from rqtui.model import Attempt, Fact, Figures, Finding, Job, Outcome, Page, Place, Queue, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call
from rqtui.systems.celery import messages
from rqtui.text import pickles
from rqtui.text.fields import partial
from rqtui.text.formats import age, numbered
from rqtui.text.json_fields import fields, spliced
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

TOGETHER = 50  # queues per call of `tally`: four lengths and a message each
MOST_MISSED = 1000
NEXT = 20  # messages of a queue, and as many that workers hold, that are looked at a few times a minute
LOOK_BACK = 1000  # messages of each end of a list that are looked through for an id
_CUT_BYTES = 64 * 1024  # of a result that was cut
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_HELD_IN = ("unacked", "late", "eta")  # places whose entries hold a message with its exchange and routing key
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_HIDDEN = re.compile(r"\.pidbox$|^celeryev(\.|$)")  # queues of Celery's own: commands to workers, events


class Celery(Entrywise):
    """Celery on Redis, of one prefix."""

    name = "celery"
    places = (
        Place("eta", State.SCHEDULED, "<prefix>unacked", "hash", where="eta > now", is_shared=True),
        Place("queue", State.READY, "<prefix><queue>", "list"),
        Place("unacked", State.RESERVED, "<prefix>unacked", "hash", where="taken >= now - visibility", is_shared=True),
        Place("late", State.RESERVED, "<prefix>unacked", "hash", where="taken < now - visibility", is_shared=True),
        Place("running", State.RESERVED, "", "", is_heard=True),
        Place("succeeded", State.DONE, "", "", is_heard=True),
        Place("failed", State.DEAD, "", "", is_heard=True),
        Place("revoked", State.DEAD, "", "", failures=False, is_heard=True),
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
        "sep": matching(r"(?:\\x[0-9a-fA-F]{2}|[^\\\s])+", r"characters, or such as \x06\x16"),
        "steps": matching(r"[0-9](?:/[0-9])*", "priorities such as 0/3/6/9"),
        "visibility": whole(0, 999_999_999, "seconds"),
        "unacked": NAME,
        # kombu/transport/redis.py 5.7, `_receive_one`: of a channel that begins with `/` the exchange begins behind the
        # first dot, of another one it is the beginning: a worker takes nothing that comes by a channel of another form
        "fanout": matching(
            r"(?:/(?:\{db\}|[^\s*?\[\]\\,=.{}])*\.)?",
            "empty, or begins with / and ends with its only dot, such as /{db}. or /shop/{db}.",
        ),
        "events": NAME,
        "control": NAME,
    }
    only_option = "prefix"
    together = 1000
    tells = frozenset({"name", "tried", "error", "worker"})
    has_json_bodies = True
    keeps_ids = True
    shares_workers = True
    patterns = (r"_kombu%.binding%.",)
    beyond_redis = "celery beat keeps its schedule in a file and in memory"
    new_body = '{"task": "tasks.add", "args": [], "kwargs": {}}'
    at_once = 100  # a message of a list is looked for among as many as time allows: the fewer, the further
    takes = {
        "cancel": ("eta", "queue", "unacked", "late", "running"),
        "extend": ("eta", "unacked", "late"),
        "requeue": ("failed",),
    }
    lacks = {
        "kill": "it keeps no place for the dead. Delete what waits, and cancel what a worker holds",
        "promote": "an ETA stands in the memory of the worker that holds it: cancel it, and put it anew. One that "
        "still waits in the queue is rescheduled",
        "ack": "only the worker that holds a message can ack it. Cancel it",
        "reject": "only the worker that holds a message can reject it. Cancel it",
        "quiet": "a worker is told queue by queue what to take: pause its queues, or stop it",
    }
    effects = {
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
        self._queues: set[str] = set()  # that were seen
        self._chosen_of = 0  # how many they were when the one was chosen that speaks for all
        self._known: Recent[bytes, Known] = Recent(MOST_KNOWN)  # jobs by id
        self._queues_of: Recent[str, set[str]] = Recent(MOST_TASKS)  # by task: where it was seen
        self._guessed: Recent[bytes, str] = Recent(MOST_KNOWN)  # the task of each job whose queue is guessed by that
        self._held: Recent[bytes, Job] = Recent(MOST_KNOWN)  # running ones that stand in `unacked`, too
        self._again: Recent[bytes, Again] = Recent(MOST_AGAIN)  # given out though they ran, by id
        self._orphans: dict[str, tuple[Job, ...]] = {}  # by queue: on its page, of workers that beat no more
        self._stillness = Stillness()
        self._next: dict[str, Next] = {}  # by queue
        self._tags: Recent[bytes, bytes] = Recent(MOST_KNOWN)  # of what stands in `unacked`, by id
        self._messages: Recent[bytes, bytes] = Recent(MOST_CALLS)  # that were seen whole, or their entries, by id
        self._calls: Recent[bytes, bytes] = Recent(MOST_CALLS)  # that a result told, as a person writes a task, by id
        self._reprs: Recent[bytes, tuple[str, str, str]] = Recent(MOST_CALLS)  # that events told: task, args, kwargs
        self._missed: set[tuple[str, bytes]] = set()  # jobs whose bytes stand nowhere any more: they are sought by id
        self._left: Recent[str, None] = Recent(MOST_LEFT)  # workers that took their leave
        self._database = 0  # its number stands in the names of channels
        self._paused: dict[str, int] = {}  # by queue: when it was paused from here; Redis keeps nothing of it

    @property
    def prefix(self) -> str:
        """What stands before all keys: `global_keyprefix`."""
        return self.options["prefix"]

    @property
    def sep(self) -> str:
        """What parts a queue from its priority, and the three parts of a binding."""
        return to_text(_HEX.sub(lambda found: bytes.fromhex(to_text(found[1])), to_bytes(self.options["sep"])))

    @property
    def visibility_ms(self) -> int:
        """After how long Kombu gives out again what a worker holds."""
        return int(self.options["visibility"]) * 1000

    def keys(self, queue: str) -> Mapping[str, str]:
        """The places, and what Kombu keeps beside them. Raises UsageError without a name."""
        if not queue:
            raise UsageError("celery: a queue has a name.")
        binding = {name: f"{self.prefix}_kombu.{name}.{queue}" for name in ("binding", "binding_permanent")}
        return {"queue": f"{self.prefix}{queue}", "control": self.control, **binding, **self._shared_keys()}

    @property
    def control(self) -> str:
        """The channel of the workers' mailbox, of the database that was last looked at (kombu/pidbox.py)."""
        return self._channel(f"{self.options['control']}.pidbox")

    def _channel(self, exchange: str) -> str:
        """Where a message to all who listen is published (kombu/transport/redis.py 5.7, `_get_publish_topic`)."""
        return f"{self.prefix}{self.options['fanout'].replace('{db}', str(self._database))}{exchange}"

    def _shared_keys(self) -> dict[str, str]:
        """The keys of all queues together."""
        unacked = f"{self.prefix}{self.options['unacked']}"
        index = {"unacked_index": f"{unacked}_index", "unacked_mutex": f"{unacked}_mutex"}
        replies = f"{self.prefix}_kombu.binding.reply.{self.options['control']}.pidbox"
        return {**dict.fromkeys(("unacked", "eta", "late"), unacked), **index, "replies": replies}

    def told(self, queue: str) -> dict[str, str]:
        """The options, with the separator as it is."""
        return {**super().told(queue), "sep": self.sep}

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """As every layout; scripts are told who tells what is about all queues."""
        told = {"speaks_for_all": self._speaks_for_all(queue)}
        return super().call(name, queue, {**self.fitting(name, told), **args}, rows)

    def _speaks_for_all(self, queue: str) -> bool:
        """Whether what is wrong with all queues is told of this one."""
        if self._chosen_of != len(self._queues):
            self._chosen_of = len(self._queues)
            self.overheard.home = "celery" if "celery" in self._queues else min(self._queues, default="")
        return queue == self.overheard.home or not self._queues

    def _call_of_all(self, name: str) -> Call:
        """A call of a script that is about all queues."""
        script, keys = self.scripts[name], self._shared_keys()
        told = {**self.options, "visibility": int(self.options["visibility"]), "sep": self.sep}
        return script.call({key.name: keys[key.name] for key in script.keys}, self.fitting(name, told))

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """The queue `celery`, where it is bound, and those that messages name which workers hold."""
        self._database = _database_of(client)
        if not self.is_asked and not self._is_here(client):
            return
        yield self._bound(client, [to_bytes(f"{self.prefix}_kombu.binding.celery")])
        answer = scripts.run(client, self._call_of_all("spread"))
        held = [row["queue"] for row in rows_by_name(answer)]
        self._queues.update(held)
        yield held

    def shown_by(self) -> Sequence[str]:
        """What workers hold, and its own queue's binding."""
        keys = self._shared_keys()
        return keys["unacked"], keys["unacked_index"], f"{self.prefix}_kombu.binding.celery"

    def _is_here(self, client: Any) -> bool:
        """Whether the keys of all queues are of Kombu's types, or its own queue is bound."""
        pipe = client.pipeline(transaction=False)
        for key in self.shown_by():
            pipe.type(to_bytes(key))
        found = [to_text(kind) for kind in pipe.execute(raise_on_error=False) if not isinstance(kind, Exception)]
        return found[:2] == ["hash", "zset"] or found[2:] == ["set"]

    def _bound(self, client: Any, keys: Sequence[bytes]) -> list[str]:
        """The queues that these tables of bindings name, those of Celery's own left out."""
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.sscan(key, 0, count=_MOST_BINDINGS)
        found: set[str] = set()
        for answer in pipe.execute(raise_on_error=False):
            members = () if isinstance(answer, Exception) else answer[1]
            found.update(parts[2] for member in members if len(parts := to_text(member).split(self.sep)) == 3)
        names = sorted(name for name in found if name and not _HIDDEN.search(name))
        self._queues.update(names)
        return names

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """The queues that are bound, of any exchange."""
        self._database = _database_of(client)
        if not self.is_asked:
            self._take_prefix({to_text(key).partition("_kombu.binding.")[0] for key in found})
        start = to_bytes(f"{self.prefix}_kombu.binding.")
        return self._bound(client, [key for key in found if key.startswith(start)])

    def _take_prefix(self, prefixes: set[str]) -> None:
        """The prefix that all keys have which were seen: nobody told one. Keys without one go first."""
        if "" in prefixes and self.prefix:
            self._queues.clear()
        elif self._queues or len(prefixes) != 1:
            return
        prefix = "" if "" in prefixes else next(iter(prefixes))
        if self.option_values["prefix"].fits(prefix):
            self.specs = ({**self.options, "prefix": prefix},)

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it is bound as Celery binds a queue, or has a list where Celery is."""
        self._database = _database_of(client)
        pipe = client.pipeline(transaction=False)
        pipe.sscan(to_bytes(f"{self.prefix}_kombu.binding.{queue}"), 0, count=_MOST_BINDINGS)
        for step in self.options["steps"].split("/"):
            pipe.type(to_bytes(f"{self.prefix}{queue}{'' if step == '0' else self.sep + step}"))
        bound, *kinds = pipe.execute(raise_on_error=False)
        if not isinstance(bound, Exception) and to_bytes(f"{queue}{self.sep}{self.sep}{queue}") in bound[1]:
            return True
        has_list = any(not isinstance(kind, Exception) and to_text(kind) == "list" for kind in kinds)
        return has_list and (self.is_asked or self._is_here(client))

    # -- counts ---------------------------------------------------------------------------------------------------

    def queues_ask(self, queues: Sequence[str]) -> Ask[list[Queue]]:
        """Counts of many queues: what is theirs alone some at a time, what they share once for all."""
        script = self.scripts["tally"]
        told = {"sep": self.sep, "steps": self.options["steps"]}
        keys = [self.keys(queue)["queue"] for queue in queues]
        calls = [
            script.call({}, told, each_keys=[[key] for key in keys[at : at + TOGETHER]])
            for at in range(0, len(keys), TOGETHER)
        ]

        def read(answers: Answers) -> list[Queue]:
            shared, *tallies = map(answered, answers)
            theirs = {row["queue"]: row for row in rows_by_name(shared)}
            own = [row for answer in tallies for row in rows_by_name(answer)]
            for queue, row in [*theirs.items(), *zip(queues, own, strict=True)]:
                for task in filter(None, row["tasks"].split("\n")):
                    self._note(task, queue)
            told = (
                {**_NOTHING, **shared.values, **theirs.get(queue, {}), **row}
                for queue, row in zip(queues, own, strict=True)
            )
            return [
                self._queue(queue, Answer("counted", values=values)) for queue, values in zip(queues, told, strict=True)
            ]

        return Ask((self._call_of_all("spread"), *calls), read)

    # -- what is heard --------------------------------------------------------------------------------------------

    def hears(self) -> tuple[str, ...]:
        """Events of workers and of tasks, of any database; results, which may stand without the prefix."""
        events = f"{self.prefix}{self.options['fanout'].replace('{db}', '*')}{self.options['events']}*"
        results = {f"{results_prefix(self.prefix)}celery-task-meta-*", "celery-task-meta-*"}
        return (events, *sorted(results))

    def overhear(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Takes in an event, several in one message, or a result."""
        if _is_of(channel, to_bytes(self._channel(self.options["events"]))):
            for event in _events(message):
                if (take := _TAKEN.get(_text(event, "type"))) is not None:
                    take(self, event, at_ms)
            return
        _before, is_result, id = channel.rpartition(b"celery-task-meta-")
        told = _object(message) if is_result else {}
        is_own = channel.startswith(to_bytes(results_prefix(self.prefix) + "celery-task-meta-"))
        if isinstance(told.get("status"), str) and (is_own or id in self._known):
            self._hear_result(id, told, at_ms)
            if told["status"] == "FAILURE":
                _remember(self._calls, id, messages.call_of_result(message))

    def _tell(self, id: bytes, **told: Any) -> Known:
        """What is known of a job, with what is told of it now."""
        known = self._known.get(id) or Known()
        known = known._replace(**{name: value for name, value in told.items() if value not in (None, "")})
        self._known.keep(id, known)
        if known.queue and self._guessed.pop(id, None) is not None:
            self.overheard.disown(id)
            self.overheard.assign(id, known.queue)
        if known.task and known.queue:
            self._note(known.task, known.queue)
        return known

    def _note(self, task: str, queue: str) -> None:
        """A task was seen in a queue: outcomes of which nobody told whose they are may be of it.

        Once it is seen in a second one, what was guessed before is nobody's again.
        """
        found = self._queues_of.get(task) or self._queues_of.keep(task, set())
        if queue in found:
            return
        found.add(queue)
        if len(found) == 1:
            for id in [job.id for job in self.overheard.nobodys() if job.name == task]:
                self.overheard.assign(id, queue, GUESSED)
                self._guess(id, task)
        elif len(found) == 2:
            for id in [id for id, guessed in self._guessed.items() if guessed == task]:
                del self._guessed[id]
                self.overheard.disown(id)

    def _guess(self, id: bytes, task: str) -> None:
        self._guessed.keep(id, task)

    def _whose(self, known: Known) -> str:
        """The queue of a job: told, or the only one of its task, or the only one at all; empty where nobody knows."""
        for found in ({known.queue} - {""}, self._queues_of.get(known.task, set()), self._queues):
            if len(found) == 1:
                return next(iter(found))
        return ""

    def _met(self, queue: str, place: str, id: bytes, read: messages.Message) -> Known:
        """A job that stands in a list or in `unacked`."""
        known = self._known.get(id)
        if known is None or known.queue != queue or not known.task:
            known = self._tell(id, queue=queue, task=read.task, call=read.call)
        if (heard := self.overheard.find(id)) is not None:
            if heard.place == "running" and place in ("unacked", "late"):
                self._held.keep(id, replace(heard, queue=queue))
                self.overheard.drop(id)
            else:
                self.overheard.assign(id, queue)
        if place == "queue" and read.is_redelivered and id not in self._again:
            self._run_again(id, queue, self.now_ms())
        return known

    def _run_again(self, id: bytes, queue: str, at_ms: int) -> None:
        """A job is given out that runs, as far as was heard, or that has run: which is noted."""
        job = self._held.get(id) or self.overheard.find(id)
        if job is None or (job.place == "running" and self._is_silent(job.worker, at_ms)):
            return
        if job.place in ("running", "succeeded"):
            self._again.keep(id, Again(job.queue or queue, job.place, job.worker, at_ms))

    def _is_silent(self, worker: str, now_ms: int) -> bool:
        """Whether a worker was heard, and is not any more."""
        known = self.overheard.worker(worker)
        return worker in self._left if known is None else known.is_late(now_ms)

    def _released(self, queue: str, jobs: Sequence[Job]) -> None:
        """Running jobs of this queue that stand in `unacked` no more: only what was heard tells of them again."""
        here = {job.id for job in jobs}
        for id in [id for id, job in self._held.items() if job.queue == queue and id not in here]:
            self.overheard.take(self._held.pop(id))

    def _hear_task(self, event: Mapping[str, Any], at_ms: int) -> None:
        """`task-sent` and `task-received`: what is called, and where."""
        id, task = _id(event), _text(event, "name")
        queue = _text(event, "queue")
        worker = _text(event, "hostname") if event.get("type") == "task-received" else ""
        call = messages.repr_call(task, event.get("args"), event.get("kwargs")) if task else ""
        known = self._tell(id, task=task, call=call, queue=queue, worker=worker, retries=_count(event.get("retries")))
        if worker and known.queue:
            self._serves(worker, known.queue)
        if task:
            _remember(self._reprs, id, (task, _text(event, "args"), _text(event, "kwargs")))

    def _hear_started(self, event: Mapping[str, Any], at_ms: int) -> None:
        id, before = _id(event), self.overheard.find(_id(event))
        if before is not None and before.place in _ENDS and not self._known.get(id, Known()).has_told_end:
            return  # of the run whose result came already: a worker publishes that at once, and events together
        self._run_again(id, "", at_ms)
        known = self._tell(id, worker=_text(event, "hostname"), started_ms=at_ms, has_told_end=False)
        self._take(id, "running", known, at_ms)

    def _hear_succeeded(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._end(event, "succeeded", at_ms, (Fact("result", _text(event, "result")),))

    def _hear_failed(self, event: Mapping[str, Any], at_ms: int) -> None:
        self._end(event, "failed", at_ms, (), _text(event, "traceback").strip() or _text(event, "exception"))

    def _hear_revoked(self, event: Mapping[str, Any], at_ms: int) -> None:
        """Somebody revoked it, or it expired, or its task threw it back."""
        why = "expired" if event.get("expired") else "terminated" if event.get("terminated") else "revoked"
        if event.get("type") == "task-rejected":
            why = "rejected by its task"
            if event.get("requeue"):
                self._gone(_id(event))
                return
        self._end(event, "revoked", at_ms, (Fact("ended by", why),))

    def _hear_retried(self, event: Mapping[str, Any], at_ms: int) -> None:
        """It failed, and is in the queue again, due later."""
        id, error = _id(event), _text(event, "traceback").strip() or _text(event, "exception")
        known = self._tell(id, worker=_text(event, "hostname"))
        tried = Attempt(known.started_ms or 0, at_ms, known.worker, error)
        self._tell(id, history=(*known.history, tried)[-MOST_TRIED:])
        self._count(id, known, "retried", at_ms, failed=True)
        self._gone(id)

    def _gone(self, id: bytes) -> None:
        self._held.pop(id, None)
        if (job := self.overheard.find(id)) is not None and job.place == "running":
            self.overheard.drop(id)

    def _end(
        self, event: Mapping[str, Any], place: str, at_ms: int, facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """An event that ends a run."""
        id, runtime = _id(event), event.get("runtime")
        took_ms = round(runtime * 1000) if messages.is_number(runtime) else None
        known = self._tell(id, worker=_text(event, "hostname"), took_ms=took_ms, has_told_end=True)
        if place != "revoked":
            self._count(id, known, place, at_ms, failed=place == "failed")
        self._take(id, place, known, at_ms, facts, error)

    def _hear_result(self, id: bytes, told: Mapping[str, Any], at_ms: int) -> None:
        """What a worker wrote into the result backend; with `result_extended` it says task, queue and worker."""
        task = _text(told, "name")
        call = pickles.call_text(task, told.get("args"), told.get("kwargs"), messages.LONGEST_CALL) if task else ""
        queue = _text(told, "queue")
        queue = queue if queue in self._queues else ""  # it is a routing key
        known = self._tell(id, task=task, call=call, queue=queue, worker=_text(told, "worker"))
        status = told["status"]
        if status == "STARTED":
            known = self._tell(id, started_ms=known.started_ms or at_ms)
        place = _PLACE_OF.get(status)
        if place is None:
            return
        error = _error(told)
        if place in ("succeeded", "failed"):
            self._count(id, known, place, at_ms, failed=place == "failed")
        self._take(id, place, known, at_ms, tuple(result_facts(told, has_error=True)), error)

    def _count(self, id: bytes, known: Known, ended: str, at_ms: int, *, failed: bool) -> None:
        """Counts a run once: an event and a result tell of the same one."""
        run = (known.started_ms or 0, ended)
        if known.counted != run:
            self._tell(id, counted=run)
            self.overheard.ran(self._whose(known), known.task, failed=failed)
        if known.took_ms is not None and known.timed != run:
            self._tell(id, timed=run)
            self.overheard.took(self._whose(known), known.task, known.took_ms)

    def _take(
        self, id: bytes, place: str, known: Known, at_ms: int, facts: Sequence[Fact] = (), error: str = ""
    ) -> None:
        """The last that was heard of a job; of one end an event and a result tell, each something of its own."""
        before = self.overheard.find(id)
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
        whose = self._whose(known)
        if known.queue:
            kept.pop("queue", None)  # it was guessed
        if whose and not known.queue and len(self._queues) > 1:
            kept[GUESSED.name] = GUESSED
            self._guess(id, known.task)
        self.overheard.take(
            Job(
                id=id,
                queue=whose,
                layout=self.name,
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

    def _hear_worker(self, event: Mapping[str, Any], at_ms: int) -> None:
        """A worker beats, every 2 s unless it was told otherwise, with `-E` and without it."""
        name = _text(event, "hostname")
        if not name:
            return
        if event.get("type") == "worker-offline":
            self.overheard.left(name)
            self._left.keep(name, None)
            return
        self._left.pop(name, None)
        before = self.overheard.worker(name)
        self._stillness.beat(name, _count(event.get("active")) or 0, _count(event.get("processed")) or 0, at_ms)
        active, freq = _count(event.get("active")), event.get("freq")
        facts = [Fact("active", str(active or 0)), Fact("processed", str(_count(event.get("processed")) or 0))]
        loads = event.get("loadavg")
        if isinstance(loads, list) and all(messages.is_number(load) for load in loads):
            facts.append(Fact("load", " ".join(f"{load:.2f}" for load in loads[:3])))
        ident, version = _text(event, "sw_ident"), _text(event, "sw_ver")
        if version:
            facts.append(Fact("version", f"{'Celery' if ident == 'py-celery' else ident} {version}"))
        self.overheard.beat(
            Worker(
                name,
                "",
                at_ms,
                max(SILENT_MS, round(2000 * freq) if messages.is_number(freq) else 0),
                pid=str(_count(event.get("pid")) or ""),
                host=name.partition("@")[2],
                started_ms=before.started_ms if before else at_ms if event.get("type") == "worker-online" else None,
                queues=before.queues if before else (),
                state="busy" if active else "idle",
                facts=tuple(facts),
            )
        )

    def _serves(self, worker: str, queue: str) -> None:
        """A worker took a job of a queue."""
        known = self.overheard.worker(worker)
        if known is not None and queue not in known.queues:
            self.overheard.beat(known._replace(queues=tuple(sorted({*known.queues, queue}))))

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """All workers that were heard: none of them tells from which queues it takes."""
        heard = [job for name in (queue, "") for job in self.overheard.page(name, "running", 0, MOST_RUNNING)[2]]
        running = {job.worker: job.id for job in [*self._held.values(), *heard]}

        def read(_answers: Answers) -> tuple[Worker, ...]:
            now_ms = self.now_ms()
            return tuple(
                worker._replace(
                    queue=queue,
                    job=running.get(worker.name, b""),
                    state="silent" if worker.is_late(now_ms) else worker.state,
                )
                for worker in self.overheard.workers()
            )

        return Ask((), read)

    def kinds_ask(self, queue: str) -> Ask[tuple[Figures, ...]]:
        """The runs that were heard of, by task."""

        def read(_answers: Answers) -> tuple[Figures, ...]:
            over_ms = self.now_ms() - (self.heard_since_ms or self.now_ms())
            return tuple(each for each in self.overheard.figures(over_ms) if each.queue == queue)

        return Ask((), read)

    def _queue(self, queue: str, answer: Answer | Exception) -> Queue:
        made = super()._queue(queue, answer)
        if made.error:
            return made
        since_ms, now_ms = self.heard_since_ms, made.counted_ms
        is_long = since_ms is not None and now_ms - since_ms > SILENT_MS
        alive = self.overheard.alive(now_ms)
        paused_ms = self._paused.get(queue)
        if paused_ms is not None and self.overheard.youngest_ms() > paused_ms:
            paused_ms = None  # who was started since takes from it
        found = self._heard_findings(made) if self.hearing.since_ms is not None and not self.hearing.problem else ()
        return made._replace(
            workers=alive if is_long or alive else None,
            findings=(*made.findings, *found),
            paused=paused_ms is not None,
            paused_ms=paused_ms,
        )

    # -- what goes wrong, as it was heard --------------------------------------------------------------------------

    def _heard_findings(self, queue: Queue) -> tuple[Finding, ...]:
        """What no key tells."""
        looks = (self._lost, self._abandoned, self._given_again, self._unconsumed, self._untold)
        return tuple(found for look in looks if (found := look(queue)) is not None)

    def _lost(self, queue: Queue) -> Finding | None:
        """Running jobs that were acked when they began, whose worker is gone: no key has them."""
        jobs = self.overheard.page(queue.name, "running", 0, MOST_RUNNING)[2]
        lost = [job for job in jobs if self._is_silent(job.worker, queue.counted_ms)]
        if not lost:
            return None
        text = f"{len(lost)} lost with {_workers(lost)}, such as {to_text(lost[-1].id)}: acked before they ran"
        remedy = "put them anew: this screen's place running tells their arguments; with acks_late none is lost"
        return Finding("lost", "critical", queue.name, text, remedy, ids=(lost[-1].id,), jobs=len(lost))

    def _abandoned(self, queue: Queue) -> Finding | None:
        """Jobs of `unacked` whose worker is gone: Kombu gives them out again when their time is over."""
        found = [job for job in self._orphans.get(queue.name, ()) if self._is_silent(job.worker, queue.counted_ms)]
        if not found or not queue.count("unacked"):
            return None
        job = found[0]
        text = f"{len(found)} held by {_workers(found)}, silent by now, such as {to_text(job.id)}"
        remedy = f"rqtui act release {self.words(queue.name)} {typed(job.id)} --force gives it out now"
        key = self._shared_keys()["unacked"]
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

    def _given_again(self, queue: Queue) -> Finding | None:
        """Jobs that somebody gave out again while they ran, or after they had ended well."""
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

    def _unconsumed(self, queue: Queue) -> Finding | None:
        """Jobs are ready, and all workers are idle; or the next one stays the next, and no worker holds any of them."""
        waiting, now_ms = queue.count("queue"), queue.counted_ms
        idle_ms = self._stillness.since_ms(queue.name, waiting, now_ms)
        alive = self.overheard.alive(now_ms)
        is_held = any(queue.count(place) for place in ("unacked", "late", "eta", "running"))
        next_ms = self._next.get(queue.name, Next(b"", now_ms)).since_ms
        if not alive or idle_ms is None:
            return None
        if now_ms - idle_ms >= STILL_MS:
            since_ms, why = idle_ms, f"idle: {numbered(alive, 'worker')}"
        elif not is_held and now_ms - max(next_ms, self._stillness.waits_ms(queue.name)) >= STUCK_MS:
            since_ms, why = next_ms, "the next one stays the next, and no worker holds any"
        else:
            return None
        text = f"{waiting} ready, and nobody takes them: {why}"
        resume = f"rqtui act resume {self.words(queue.name)}"
        remedy = f"start one for it: celery -A APP worker -Q {typed(queue.name)}; where it was paused: {resume}"
        return Finding("nobody-consumes", "critical", queue.name, text, remedy, since_ms=since_ms, jobs=waiting)

    def _untold(self, queue: Queue) -> Finding | None:
        """Workers ended tasks, and nobody told which, or of which queue."""
        if not self._speaks_for_all(queue.name):
            return None
        nobodys = sum(self.overheard.count("", place).of_queue for place in _ENDS)
        told = sum(self.overheard.count(queue.name, place).of_all for place in _ENDS)
        ended = self._stillness.ended
        if not nobodys and (told or ended < MOST_SILENT):
            return None
        text = (
            f"nobody told which queue {numbered(nobodys, 'outcome')} of {told} belong to: they stand here"
            if nobodys
            else f"workers ended {numbered(ended, 'task')} since somebody listens, and tell nothing of them"
        )
        remedy = "start workers with -E, and set task_send_sent_event or result_extended: then it is told"
        return Finding("outcomes-untold", "warning", queue.name, text, remedy, jobs=nobodys or ended)

    def inspect_ask(self, queue: str) -> Ask[tuple[Finding, ...]] | None:
        """As every layout; while somebody listens also the next messages, which tell whose an outcome of a task is, and
        what was taken first, which tells what a worker holds that beats no more."""
        faults = super().inspect_ask(queue)
        if faults is None or self.heard_since_ms is None:
            return faults
        more, own = [self._part_ask(queue, place, 0, NEXT, 0) for place in ("queue", "unacked")], len(faults.calls)

        def read(answers: Answers) -> tuple[Finding, ...]:
            for ask, answer in zip(more, answers[own:], strict=True):
                ask.read([answer])
            return faults.read(answers[:own])

        return Ask((*faults.calls, *(call for ask in more for call in ask.calls)), read)

    def _page(self, queue: str, place: str, offset: int, limit: int, answer: Answer | Exception) -> Page:
        page = super()._page(queue, place, offset, limit, answer)
        if not page.error and (see := _SEES.get(place)) is not None:
            see(self, page)
        return page

    def _see_next(self, page: Page) -> None:
        """Which message is the next one of its queue, and since when."""
        if page.offset:
            return
        first = page.jobs[0].id if page.jobs else b""
        if not first or self._next.get(page.queue, Next(b"", 0)).id != first:
            self._next[page.queue] = Next(first, self.now_ms())

    def _see_held(self, page: Page) -> None:
        """Whose worker is gone; and, where the page has all that workers hold, what they hold no more."""
        if not page.offset and page.next is None and page.of is None:
            self._released(page.queue, page.jobs)
        self._orphans[page.queue] = tuple(job for job in page.jobs if self._is_silent(job.worker, self.now_ms()))

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """By the bytes that were seen here under this id; else by the id, near both ends of each list; one that has no
        id, by its digest among the first of each place. With its result; that alone, where nothing else is left."""
        known = self.entries.find(id)
        entry = known or Entry(b"", 0, b"")
        plain = id if known is None else id.partition(b".")[0]
        args: dict[str, object] = {"id": plain, "head": entry.head, "size": entry.size, "tail": entry.tail}
        args |= {"body_bytes": body_bytes, "field": self._tags.get(id, b"")}
        calls = [self.call("show", queue, args)]
        is_found = known is not None and known.is_whole and (queue, id) not in self._missed
        ends = () if is_found else (0, -1)
        calls += [self.call("show", queue, {**args, "place": "queue", "offset": at}) for at in ends]
        asked = len(calls)
        nameless = ["queue", "unacked", "late", "eta"] if not entry.size and _DIGEST.fullmatch(id) else []
        head = {"offset": 0, "limit": LOOK_BACK, "body_bytes": HEAD_BYTES}
        calls += [self.call("page", queue, {**head, "place": place}) for place in nameless]

        def read(answers: Answers) -> Job | None:
            for answer in answers[:asked]:
                if (job := self._shown(queue, answer)) is not None:
                    self._missed.discard((queue, id))
                    return replace(job, id=id)
            if len(self._missed) >= MOST_MISSED:
                self._missed.clear()  # those that still stand nowhere come back at their next look
            self._missed.add((queue, id))
            for place, answer in zip(nameless, answers[asked:], strict=True):
                jobs = self._page(queue, place, 0, LOOK_BACK, answer).jobs
                if (match := next((job for job in jobs if job.id == id), None)) is not None:
                    return match
            return self.overheard.job(queue, id) or self._ended(queue, id, answers[0])

        return Ask(tuple(calls), read)

    def _ended(self, queue: str, id: bytes, answer: Answer | Exception) -> Job | None:
        """A job of which only its result is left; it tells the queue only where it is an extended one."""
        if not isinstance(answer, Answer) or answer.word != "ended":
            return None
        raw = answer.values["result"]
        assert isinstance(raw, bytes)
        told = _object(raw)
        if (ended := _PLACE_OF.get(_text(told, "status"))) is None:
            return None
        place, known = self.place(ended), self._known.get(id, Known())
        if ended == "failed":
            _remember(self._calls, id, messages.call_of_result(raw))
        if (known.queue or _text(told, "queue") or queue) != queue:
            return None
        task, done_ms = _text(told, "name"), messages.instant_ms(told.get("date_done"))
        is_told = known.queue or _text(told, "queue")
        whose = () if is_told else (Fact("queue", "not told: a result is found by its id alone"),)
        return Job(
            id=id,
            queue=queue,
            layout=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            name=task,
            since_ms=done_ms,
            worker=_text(told, "worker"),
            error=_error(told),
            call=pickles.call_text(task, told.get("args"), told.get("kwargs"), messages.LONGEST_CALL) if task else "",
            facts=(*result_facts(told, has_error=True), *whose),
        )

    def id_of(self, row: Mapping[str, object]) -> bytes:
        """The id of a new job."""
        return to_bytes(str(row["id"]))

    def _named(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]) -> Job:
        """A job from its row, called by its id, or by a digest of its bytes where it has none."""
        head, length = row["head"], row["size"]
        is_whole = len(head) >= length
        tail = (head if is_whole else row["tail"])[-TAIL_BYTES:]
        read = messages.read(head, b"" if is_whole else row["tail"], bool(row["tag"]))
        id = self.entries.name(Entry(head, length, tail), seen, read.id)
        if row["tag"]:
            self._tags.keep(id, row["tag"])
        job = self._job(queue, self.place(place), read, row, now_ms)
        if read.id:
            job = self._with_run(job, self._met(queue, place, read.id, read), read.id)
            if is_whole:
                _remember(self._messages, read.id, head)
        body = messages.message_of(head) if row["tag"] and is_whole else head
        return replace(
            job,
            id=id,
            member=head,
            body=body if is_whole else None,
            body_bytes=len(body) if is_whole else length,
            is_partial=not is_whole,
        )

    def _with_run(self, job: Job, known: Known, id: bytes) -> Job:
        """A job of `unacked` with what was heard of it: who has it, and since when it runs."""
        if job.state is State.READY:
            return replace(job, history=known.history)
        held = self._held.get(id)
        started = (Fact("running since", held.reserved_ms or 0, "instant"),) if held else ()
        worker = held.worker if held else known.worker
        return replace(job, worker=worker, history=known.history, facts=(*started, *job.facts))

    def _job(self, queue: str, place: Place, read: messages.Message, row: Mapping[str, Any], now_ms: int) -> Job:
        headers = read.headers
        taken_ms = _score_ms(row["score"])
        is_held = place.name in _HELD_IN
        retries = headers.get("retries")
        limits = headers.get("timelimit")
        hard = limits[0] if isinstance(limits, list) and limits else None
        waits = place.name == "queue"
        return Job(
            id=b"",
            queue=queue,
            layout=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            token=row["tag"],
            name=read.task,
            due_ms=read.eta_ms if place.name == "eta" or (waits and (read.eta_ms or 0) > now_ms) else None,
            deadline_ms=taken_ms + self.visibility_ms if is_held and taken_ms is not None else None,
            reserved_ms=taken_ms if is_held else None,
            priority=int(row["step"]) if row["step"] else read.priority,
            ttr_ms=round(hard * 1000) if messages.is_number(hard) else None,
            attempts=(retries if messages.is_count(retries) else 0) + (place.state is State.RESERVED),
            problem=safe("; ".join(_problems(read, row, now_ms if waits else None))),
            call=read.call,
            facts=tuple(_facts(place, read, row, self.visibility_ms)),
        )

    # -- verbs ----------------------------------------------------------------------------------------------------

    def row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """The priority of the list where a job was seen; the id as its worker knows it."""
        step = {"step": str(job.priority)} if job.place == "queue" else {}
        return {"id": messages.read(job.member, b"", bool(job.token)).id or job.id, **step}

    def refusal(self, name: str, job: Job) -> str:
        """Also a message without an id: a worker is told by its id what to drop."""
        is_seen = job.place in ("queue", *_HELD_IN) and not job.is_partial
        if name == "cancel" and is_seen and not messages.read(job.member, b"", job.place in _HELD_IN).id:
            return "celery: it has no id by which a worker could be told. Delete it while it waits."
        return super().refusal(name, job)

    def act_asks(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Ask[list[Outcome]]]:
        """As every layout; a pause is remembered until it is resumed, and what was requeued has failed no more."""
        asks = super().act_asks(name, queue, jobs, form)
        if name not in ("pause", "resume", "requeue"):
            return asks

        def remembering(ask: Ask[list[Outcome]]) -> Ask[list[Outcome]]:
            def read(answers: Answers) -> list[Outcome]:
                outcomes = ask.read(answers)
                if name == "requeue":
                    for outcome in outcomes:
                        if outcome.moved:
                            self._put_anew(outcome.id)
                elif any(outcome.word == "paused" for outcome in outcomes):
                    self._paused[queue] = self.now_ms()
                elif name == "resume":
                    self._paused.pop(queue, None)
                return outcomes

            return replace(ask, read=read)

        return [remembering(ask) for ask in asks]

    def _put_anew(self, id: bytes) -> None:
        """A failed job is in the queue again: its next run is another one, and counts as that."""
        failed, known = self.overheard.find(id), self._known.get(id, Known())
        if failed is None or failed.place != "failed":
            return
        self.overheard.drop(id)
        tried = Attempt(failed.reserved_ms or 0, failed.since_ms or 0, failed.worker, failed.error)
        self._known.keep(
            id,
            known._replace(
                retries=0,
                started_ms=None,
                took_ms=None,
                has_told_end=False,
                history=(*known.history, tried)[-MOST_TRIED:],
                counted=(0, ""),
                timed=(0, ""),
            ),
        )

    def _anew(self, job: Job) -> bytes:
        """The message that runs a failed job again, of the message that was seen, or of the call that was told.

        Its tag is made of the failure, so that a second call of the verb for the same one is known. Raises UsageError.
        """
        if job.place != "failed":
            raise UsageError(f"celery: what failed is requeued, and this is in {job.place}.")
        failed = self.overheard.find(job.id)
        if failed is not None and not failed.queue:
            raise UsageError("celery: nobody told of which queue it is. Put the task anew, into its queue.")
        tag = json.dumps(str(uuid5(NAMESPACE_OID, f"{to_text(job.id)} {job.since_ms}"))).encode()
        again = {"eta": b"null", "expires": b"null", "retries": b"0", "redelivered": None}
        if seen := self._messages.get(job.id):
            message = messages.message_of(seen)
            try:
                info = spliced(fields(fields(message)["properties"])["delivery_info"], {"redelivered": None})
                message = messages.with_fields(message, "headers", again)
                return messages.with_fields(message, "properties", {"delivery_tag": tag, "delivery_info": info})
            except (KeyError, ValueError):
                pass  # of the first task protocol
        if call := self._calls.get(job.id) or messages.call_of_reprs(*self._reprs.get(job.id, ("", "", ""))):
            made = self._made(job.queue, {"body": call, "id": job.id})["body"]
            return messages.with_fields(made, "properties", {"delivery_tag": tag})
        raise UsageError(
            "celery: its arguments are not known. What tells them: its message, seen here in a list or in unacked; a "
            "result with result_extended; workers with -E, where they are short and plain. Put the task anew."
        )

    def rewritten(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """The message with another priority, or another ETA; no bytes for what is no message of Celery.

        Of a failed job the message that runs it again. Raises UsageError where its arguments are not known.
        """
        if name == "requeue":
            return self._anew(job)
        is_timed = name == "reschedule" and ("priority" not in form or bool({"delay_ms", "due_ms"} & form.keys()))
        eta = {"eta": self._eta(form)} if is_timed else {}
        is_ordered = "priority" in form or not is_timed
        order = {"priority": b"%d" % messages.priority_of(form.get("priority"))} if is_ordered else {}
        try:
            member = messages.with_fields(job.member, "properties", order) if order else job.member
            return messages.with_fields(member, "headers", eta) if eta else member
        except ValueError:
            return b""

    def _eta(self, form: Mapping[str, object]) -> bytes:
        """The ETA of a form's `delay_ms` or `due_ms` as JSON; null for one that is over. Raises UsageError."""
        now_ms, delay_ms, due_ms = self.now_ms(), form.get("delay_ms"), form.get("due_ms")
        at_ms = now_ms + delay_ms if isinstance(delay_ms, int) else due_ms if isinstance(due_ms, int) else now_ms
        if at_ms - now_ms > self.visibility_ms:
            raise UsageError(
                f"celery: a task that is due in more than {age(self.visibility_ms)} would run twice: Kombu gives out "
                "again what nobody acked in its visibility_timeout. Where that is longer, say "
                "--layout celery:visibility=SECONDS."
            )
        return json.dumps(messages.written(at_ms)).encode() if at_ms > now_ms else b"null"

    def encoded(self, body: bytes) -> bytes:
        """A message as it stands in a queue, from what a person wrote. Raises UsageError."""
        return bytes(self._made("celery", {"body": body})["body"])

    def editable(self, job: Job) -> bytes:
        """The message with its arguments in JSON, where they stand encoded."""
        body = super().editable(job)
        try:
            own = fields(body)
            told = {**fields(own["properties"]), **own}
            if (json.loads(told["content-type"]), json.loads(told["body_encoding"])) != ("application/json", "base64"):
                return body
            call = base64.b64decode(json.loads(own["body"]), validate=True)
            return spliced(body, {"body": call}) if isinstance(json.loads(call), list) else body
        except (KeyError, TypeError, ValueError, RecursionError):
            return body

    def described(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """A task as a person writes one, or a whole message; what the row says goes first. Raises UsageError."""
        return self._made(queue, {name: value for name, value in row.items() if value not in (None, "", b"")})

    def _made(self, queue: str, row: Mapping[str, object]) -> dict[str, Any]:
        """The columns of `enqueue` for a task that is written in JSON."""
        body = to_bytes(row["body"])  # type: ignore[arg-type]
        told = messages.written_task(body)
        id = to_text(to_bytes(row["id"])) if "id" in row else None  # type: ignore[arg-type]
        if id is not None and not messages.ID.fullmatch(id):
            raise UsageError("celery: an id is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
        is_timed = bool({"delay_ms", "due_ms"} & row.keys())
        if "headers" in told:
            changes = {"eta": self._eta(row)} if is_timed else {}
            message = messages.copied(body, queue, id, changes, row.get("priority"))
        else:
            due_ms = {"due_ms": messages.instant_ms(told["eta"])} if told.get("eta") else {}
            due_ms |= {"delay_ms": round(told["countdown"] * 1000)} if "countdown" in told else {}
            expires = told.get("expires")
            if messages.is_number(expires):
                expires = messages.written(self.now_ms() + round(expires * 1000))
            options = messages.Options(
                id or told.get("id") or str(uuid4()),
                self._eta(row if is_timed else due_ms),
                json.dumps(expires).encode(),
                messages.priority_of(row.get("priority", told.get("priority", 0))),
            )
            message = messages.made(body, told, queue, options)
        return {"id": json.loads(fields(fields(message)["headers"])["id"]), "body": message}


LAYOUT = Celery

_MOST_BINDINGS = 10_000
_NOTHING = dict.fromkeys(("eta", "unacked", "late", "expired"), 0) | {"due_ms": -1, "deadline_ms": -1}


# -- what was heard ----------------------------------------------------------------------------------------------------

MOST_KNOWN = 20_000  # jobs that are remembered by their ids
MOST_TASKS = 10_000  # of which it is remembered in which queues they were seen
MOST_CALLS = 4000  # of at most 4 kB, of which it is remembered how they are put anew; as many messages
MOST_TRIED = 10  # failed runs that are remembered of a job
GUESSED = Fact("queue", "guessed: its task was seen in no other one")
MOST_RUNNING = 1000  # that are looked through for who runs them
SILENT_MS = 10_000  # a worker that does not beat for so long is silent: it beats every 2 s (celery/worker/heartbeat.py)


MOST_LEFT = 1000  # workers that took their leave
MOST_BEATING = 1000  # of which it is remembered what they last told
MOST_AGAIN = 1000  # jobs that were given out again
KEPT_MS = 3_600_000  # how long that is told
STILL_MS = 15_000  # for so long no worker does anything, and jobs are ready: nobody takes from that queue
STUCK_MS = 60_000  # for so long the next message stays the next, and no worker holds one of its queue
MOST_SILENT = 10  # tasks that end without a word before that is told


class Again(NamedTuple):
    """A job that was given out again: its queue, where it stood then, who had it, when that was seen."""

    queue: str
    place: str
    worker: str
    at_ms: int


class Next(NamedTuple):
    """The message that is the next one of a queue, and since when."""

    id: bytes
    since_ms: int


class Stillness:
    """Since when no worker does anything, by what they tell of themselves; and how many tasks they ended."""

    def __init__(self) -> None:
        self.ended = 0
        self._told: Recent[str, tuple[int, int]] = Recent(MOST_BEATING)  # by worker: active, processed
        self._moved_ms = 0
        self._waits_ms: dict[str, int] = {}  # by queue: since when jobs are ready

    def beat(self, worker: str, active: int, processed: int, at_ms: int) -> None:
        """What a worker tells."""
        before = self._told.get(worker)
        if before is None or active or processed != before[1]:
            self._moved_ms = at_ms
        if before is not None:
            self.ended += max(0, processed - active - max(0, before[1] - before[0]))
        self._told.keep(worker, (active, processed))

    def since_ms(self, queue: str, waiting: int, now_ms: int) -> int | None:
        """Since when jobs of a queue are ready and no worker does anything; None where that is not so."""
        if not waiting:
            self._waits_ms.pop(queue, None)
            return None
        return max(self._waits_ms.setdefault(queue, now_ms), self._moved_ms)

    def waits_ms(self, queue: str) -> int:
        """Since when jobs of a queue are ready, 0 where none is."""
        return self._waits_ms.get(queue, 0)


class Known(NamedTuple):
    """What was seen and heard of a job; `counted` and `timed` are the run, by start and end, that the figures have."""

    queue: str = ""
    task: str = ""
    call: str = ""
    worker: str = ""
    retries: int = 0
    started_ms: int | None = None
    took_ms: int | None = None
    has_told_end: bool = False  # by an event, which comes behind all others of its run
    history: tuple[Attempt, ...] = ()
    counted: tuple[int, str] = (0, "")
    timed: tuple[int, str] = (0, "")


_TAKEN: Mapping[str, Callable[[Celery, Mapping[str, Any], int], None]] = {
    "task-sent": Celery._hear_task,
    "task-received": Celery._hear_task,
    "task-started": Celery._hear_started,
    "task-succeeded": Celery._hear_succeeded,
    "task-failed": Celery._hear_failed,
    "task-retried": Celery._hear_retried,
    "task-revoked": Celery._hear_revoked,
    "task-rejected": Celery._hear_revoked,
    "worker-online": Celery._hear_worker,
    "worker-heartbeat": Celery._hear_worker,
    "worker-offline": Celery._hear_worker,
}
_SEES: Mapping[str, Callable[[Celery, Page], None]] = {"queue": Celery._see_next, "unacked": Celery._see_held}
"""What a page of a place tells of what goes wrong there."""
_ENDS = ("succeeded", "failed", "revoked")
_PLACE_OF = {"SUCCESS": "succeeded", "FAILURE": "failed", "REVOKED": "revoked", "STARTED": "running"}


def results_prefix(prefix: str) -> str:
    """What stands before the keys of results where an app gives both the same prefix (celery/backends/base.py 5.7)."""
    return prefix if not prefix or prefix[-1] in ":_-." else f"{prefix}_"


def _workers(jobs: Sequence[Job]) -> str:
    """Who has these jobs: by name where it is one worker, else how many."""
    names = sorted({job.worker for job in jobs})
    return names[0] if len(names) == 1 else f"{numbered(len(names), 'worker')}, {names[0]} among them"


def _is_of(channel: bytes, exchange: bytes) -> bool:
    """Whether that is the channel of an exchange, or of a routing key of it: with `fanout_patterns` it has one."""
    return channel == exchange or channel.startswith(exchange + b"/")


def _events(message: bytes) -> Iterator[Mapping[str, Any]]:
    """The events in a message of Kombu: one, or a list of them."""
    told = _object(message)
    headers, properties = (messages.as_dict(told.get(part)) for part in ("headers", "properties"))
    body, _trouble = messages.body_of(told, headers, properties)
    if told.get("content-type") != "application/json":
        body = pickles.plain(body)
    for event in body if isinstance(body, list) else [body]:
        if isinstance(event, dict) and isinstance(event.get("uuid", ""), str):
            yield event


def _object(raw: bytes) -> dict[str, Any]:
    """A JSON object, of one that was cut the beginning; an empty one for anything else."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = partial(raw[:_CUT_BYTES])
    return found if isinstance(found, dict) else {}


def _id(event: Mapping[str, Any]) -> bytes:
    return str(event.get("uuid", "")).encode("utf-8", "replace")


def _text(told: Mapping[str, Any], name: str) -> str:
    """A text of an event; half a pair of UTF-16, which JSON can hold and no text of ours, is a question mark."""
    value = told.get(name)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if messages.is_count(value) else None


T = TypeVar("T", bytes, tuple[str, str, str])


def _remember(store: Recent[bytes, T], id: bytes, told: T) -> None:
    """Keeps what a failure of this job would be put anew from, as far as it is short; the oldest are forgotten."""
    if not told or sum(map(len, told if isinstance(told, tuple) else (told,))) > HEAD_BYTES:
        return
    store.keep(id, told)


def _error(told: Mapping[str, Any]) -> str:
    """The error in a result: its traceback, or `ValueError: boom`; empty where it tells of none."""
    if told.get("status") not in ("FAILURE", "REVOKED", "RETRY"):
        return ""
    result = messages.as_dict(told.get("result"))
    message = result.get("exc_message")
    words = ", ".join(str(each) for each in message) if isinstance(message, list) else str(message or "")
    said = ": ".join(filter(None, (str(result.get("exc_type") or ""), words)))
    return _text(told, "traceback").strip() or said


# -- what is shown of a job --------------------------------------------------------------------------------------------


def _score_ms(score: str) -> int | None:
    try:
        at = float(score)
    except ValueError:
        return None
    return round(at * 1000) if 0 <= at < 1e11 else None


def _problems(read: messages.Message, row: Mapping[str, Any], now_ms: int | None) -> Iterator[str]:
    """What is wrong with a job, in words; `now_ms` is for one that waits."""
    if read.problem:
        yield read.problem
    if read.headers.get("eta") is not None and read.eta_ms is None:
        yield f"its eta is no time: {read.headers['eta']!r:.60}"
    expires_ms = messages.instant_ms(read.headers.get("expires"))
    if now_ms is not None and expires_ms is not None and expires_ms <= now_ms:
        yield f"expired, and dropped by the worker that takes it: {read.call or 'no task'}"
    if row["tag"] and _score_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"


def _facts(place: Place, read: messages.Message, row: Mapping[str, Any], visibility_ms: int) -> Iterator[Fact]:
    """What Celery knows of a job and other systems do not, in the order in which a person asks for it."""
    headers, properties = read.headers, read.properties
    if row.get("result"):
        yield from result_facts(_object(row["result"]) or {"result": to_text(row["result"][:1000])})
    if read.eta_ms is not None and place.name != "eta":
        yield Fact("eta", read.eta_ms, "instant")
    taken_ms = _score_ms(row["score"])
    if place.name == "eta" and taken_ms is not None and (read.eta_ms or 0) > taken_ms + visibility_ms:
        yield Fact("given out again", taken_ms + visibility_ms, "instant")
    if (expires_ms := messages.instant_ms(headers.get("expires"))) is not None:
        yield Fact("expires", expires_ms, "instant")
    limits = headers.get("timelimit")
    for label, limit in zip(
        ("time limit", "soft time limit"), limits if isinstance(limits, list) else (), strict=False
    ):
        if messages.is_number(limit):
            yield Fact(label, round(limit * 1000), "duration")
    id = to_text(read.id)
    for name, label in (("root_id", "root"), ("parent_id", "parent")):
        if isinstance(other := headers.get(name), str) and other and other != id:
            yield Fact(label, other, "ref")
    for name in ("group", "shadow", "origin"):
        if isinstance(value := headers.get(name), str) and value:
            yield Fact(name, value)
    for name, label in _EMBED.items():
        if value := read.embed.get(name):
            yield Fact(label, _signatures(value) or json.dumps(value), "text")
    if headers.get("ignore_result") is True:
        yield Fact("result is", "ignored")
    if messages.as_dict(headers.get("stamps")):
        yield Fact("stamps", json.dumps(headers["stamps"]), "json")
    if read.content not in ("", "application/json"):
        yield Fact("body", read.content)
    if isinstance(how := headers.get("compression"), str):
        yield Fact("compression", how)
    delivered = messages.as_dict(properties.get("delivery_info"))
    if read.is_redelivered:
        yield Fact("redelivered", "yes: a worker had it before")
    if delivered.get("exchange"):
        yield Fact("exchange", f"{delivered['exchange']} with the routing key {delivered.get('routing_key', '')}")
    if isinstance(tag := properties.get("delivery_tag"), str):
        yield Fact("delivery tag", tag)


_EMBED = {"callbacks": "then", "errbacks": "on error", "chain": "chain", "chord": "chord"}


def _signatures(value: object) -> str:
    """Tasks that run afterwards, as calls; empty where they are none."""
    calls = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict) or not isinstance(each.get("task"), str):
            return ""
        calls.append(pickles.call_text(each["task"], each.get("args"), each.get("kwargs"), 200))
    return ", ".join(calls)


def result_facts(told: Mapping[str, Any], has_error: bool = False) -> Iterator[Fact]:
    """What a result backend keeps of a job; without its traceback, where it `has_error` already."""
    yield Fact("status", _text(told, "status"))
    if (done_ms := messages.instant_ms(told.get("date_done"))) is not None:
        yield Fact("ended", done_ms, "instant")
    if told.get("result") is not None and not (has_error and told.get("status") == "FAILURE"):
        yield Fact("result", json.dumps(told["result"], ensure_ascii=False), "json")
    if not has_error and _text(told, "traceback"):
        yield Fact("traceback", _text(told, "traceback"), "trace")
    if isinstance(parent := told.get("parent_id"), str) and parent != told.get("task_id"):  # itself, tried again
        yield Fact("parent", parent, "ref")
    children = told.get("children")
    for child in children[:MOST_CHILDREN] if isinstance(children, list) else ():
        id = child[0][0] if isinstance(child, list) and child and isinstance(child[0], list) and child[0] else None
        if isinstance(id, str):
            yield Fact("child", id, "ref")


MOST_CHILDREN = 20


def _database_of(client: Any) -> int:
    """The number of the database that a client looks at; 0 in a Cluster."""
    given = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    return int(given.get("db") or 0)
