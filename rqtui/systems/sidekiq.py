"""Sidekiq (Ruby, 6.4 to 8): a list per queue, three sorted sets for all queues, hashes of what each process runs.

SET `queues`; LIST `queue:<q>` of jobs in JSON, LPUSH in, BRPOP out. ZSETs `schedule` and `retry` by due, `dead` by
when a job died, float seconds. A process writes every 10 s (6.4: 5) the HASH `<identity>` (`info`, `busy`, `beat`, …)
and `<identity>:work` (6.x: `:workers`): thread → `{"queue", "payload", "run_at"}`; `payload` is the job's exact text.
Both expire after 60 s: what a killed process held is gone with them. Times are ms in Sidekiq 8, float seconds before.
`<namespace>:` stands before all keys where redis-namespace was used, up to Sidekiq 6. Page: `docs/systems/sidekiq.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from rqtui.errors import UsageError
from rqtui.layout.entries import HEAD_BYTES, TAIL_BYTES, Entry
from rqtui.layout.foreign import Entrywise, rows_by_name
from rqtui.layout.layout import Answers, Ask, answered
from rqtui.layout.option_values import NAME_OR_NOTHING
from rqtui.model import (
    Attempt,
    Fact,
    Figures,
    Finding,
    Job,
    Outcome,
    Page,
    Place,
    Queue,
    Schedule,
    State,
    Worker,
)
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call
from rqtui.text.body import inflated
from rqtui.text.fields import partial
from rqtui.text.formats import numbered, size
from rqtui.text.json_fields import fields, spliced
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

TOGETHER = 200  # queues per call of `tally`
LOOK_BACK = 1000  # jobs of each end of a place that are looked through for an id
MOST_MISSED = 1000
_MOST_QUEUES = 10_000  # that are looked through for a name, in one step
_READ_BYTES = 1024 * 1024  # a longer job is read by its beginning and its end
_TRACE_BYTES = 256 * 1024  # of what `error_backtrace` is and inflates to
_LONGEST_CALL = 1000  # characters
_LATEST_S = 1e11  # from here on a number is ms: as seconds it is the year 5138
_RETRIES = 25  # lib/sidekiq/job_retry.rb: DEFAULT_MAX_RETRY_ATTEMPTS


class Sidekiq(Entrywise):
    """Sidekiq, of one namespace."""

    name = "sidekiq"
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
    only_option = "namespace"
    together = 1000
    tells = frozenset({"name", "tried", "error", "worker"})
    has_json_bodies = True
    keeps_ids = True
    shares_workers = True
    new_body = '{"class": "HardJob", "args": []}'
    at_once = 100  # an entry of a queue is looked for among as many as time allows: the fewer, the further
    lacks = {"pause": "only its paid editions have it. To stop all work on a queue, quiet its processes"}
    effects = {
        "kill": "they are dead until they are requeued, no death handler is called, and the oldest beyond 9 999 go",
        "release": "they run again; one that its process ended after its last beat runs twice",
        "reap": "they run again; one that its process ended after its last beat runs twice",
    }
    remedies = {
        "no-live-worker": "start one: bundle exec sidekiq -q {queue}",
        "oldest-ready": "add processes or threads: bundle exec sidekiq -c 10 -q {queue}",
        "backlog-grows": "add processes or threads: bundle exec sidekiq -c 10 -q {queue}",
        "due-not-dispatched": "",
        "expired-not-reaped": "",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.names_key = f"{self.prefix}queues"
        self.lost = Lost()
        self._writes_ms = False  # times of new jobs; what is seconds, every Sidekiq reads
        self._missed: set[tuple[str, bytes]] = set()  # jobs whose bytes stand nowhere any more: they are sought by id

    @property
    def prefix(self) -> str:
        """What stands before all keys: the namespace and a colon, or nothing."""
        namespace = self.options["namespace"]
        return f"{namespace}:" if namespace else ""

    def keys(self, queue: str) -> Mapping[str, str]:
        """The places, and what Sidekiq keeps beside them. Raises UsageError without a name."""
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

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """As every layout; scripts are told what stands before all keys."""
        return super().call(name, queue, {**self.fitting(name, {"prefix": self.prefix}), **args}, rows)

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """The names in `queues`, and those that jobs name which wait, died or run."""
        if not self.is_asked and not self._is_here(client):
            return
        cursor = 0
        while True:
            cursor, found = client.sscan(to_bytes(self.names_key), cursor=cursor, count=1000)
            yield [to_text(name) for name in found if name]
            if cursor == 0:
                break
        for name in ("spread", "crew"):
            answer = scripts.run(client, self._call_of_all(name))
            yield [row["queue"] for row in rows_by_name(answer) if row.get("workers", 0) == 0 or row["work"]]

    def shown_by(self) -> Sequence[str]:
        """The names of its queues, and what it keeps besides."""
        return (self.names_key, *(self.prefix + name for name in _OWN))

    def _is_here(self, client: Any) -> bool:
        """Whether `queues` is a set beside another key of Sidekiq's: the name alone could be anybody's."""
        pipe = client.pipeline(transaction=False)
        pipe.type(to_bytes(self.names_key))
        pipe.exists(*(to_bytes(self.prefix + name) for name in ("stat:processed", *_OWN)))
        for name in _OWN:
            pipe.type(to_bytes(self.prefix + name))
        kind, others, *kinds = pipe.execute(raise_on_error=False)
        if isinstance(kind, Exception) or to_text(kind) not in ("set", "none"):
            return False
        is_own = any(
            not isinstance(found, Exception) and to_text(found) == wanted
            for found, wanted in zip(kinds, _OWN.values(), strict=True)
        )
        return is_own or (to_text(kind) == "set" and others == 1) or (to_text(kind) == "set" and self._has_list(client))

    def _has_list(self, client: Any) -> bool:
        """Whether one of the first names in `queues` has a list."""
        _cursor, names = client.sscan(to_bytes(self.names_key), 0, count=20)
        return bool(names) and client.exists(*(to_bytes(f"{self.prefix}queue:") + name for name in names)) > 0

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it stands in `queues`, or has a list where Sidekiq is."""
        pipe = client.pipeline(transaction=False)
        named = re.sub(rb"([*?\[\]\\^-])", rb"\\\1", to_bytes(queue))
        pipe.sscan(to_bytes(self.names_key), 0, match=named, count=_MOST_QUEUES)
        pipe.type(to_bytes(f"{self.prefix}queue:{queue}"))
        found, kind = pipe.execute(raise_on_error=False)
        if not isinstance(found, Exception) and found[1]:
            return self.is_asked or self._is_here(client)
        return not isinstance(kind, Exception) and to_text(kind) == "list" and (self.is_asked or self._is_here(client))

    def _call_of_all(self, name: str) -> Call:
        """A call of a script that is about all queues."""
        script = self.scripts[name]
        keys = {key.name: self.prefix + _SCHEDULES.get(key.name, key.name) for key in script.keys}
        return script.call(keys, self.fitting(name, {"prefix": self.prefix}))

    # -- counts ---------------------------------------------------------------------------------------------------

    def queue_ask(self, queue: str) -> Ask[Queue]:
        """What `counts` answers, and what dead processes hold, which is remembered."""

        def read(answers: Answers) -> Queue:
            self.lost.look(answers[1])
            return self._queue(queue, answers[0])

        return Ask((self.call("counts", queue, {}), self._call_of_all("held")), read)

    def queues_ask(self, queues: Sequence[str]) -> Ask[list[Queue]]:
        """Counts of many queues: what is theirs alone some at a time, what they share once for all."""
        script = self.scripts["tally"]
        keys = [self.keys(queue)["queue"] for queue in queues]
        calls = [
            script.call({}, {}, each_keys=[[key] for key in keys[at : at + TOGETHER]])
            for at in range(0, len(keys), TOGETHER)
        ]

        def read(answers: Answers) -> list[Queue]:
            self.lost.look(answers[2])
            shared, crew, *tallies = [answered(answer) for answer in (*answers[:2], *answers[3:])]
            own = [row for answer in tallies for row in rows_by_name(answer)]
            theirs = {row["queue"]: row for row in rows_by_name(shared)}
            held = {row["queue"]: row for row in rows_by_name(crew)}
            every = zip(queues, own, strict=True)
            told = [(queue, {**theirs.get(queue, {}), **held.get(queue, {}), **row}) for queue, row in every]
            return [
                self._queue(queue, Answer("counted", values={**_NOTHING, **shared.values, **crew.values, **row}))
                for queue, row in told
            ]

        shared_by_all = [self._call_of_all(name) for name in ("spread", "crew", "held")]
        return Ask((*shared_by_all, *calls), read)

    def _queue(self, queue: str, answer: Answer | Exception) -> Queue:
        values = answer.values if isinstance(answer, Answer) else {}
        if isinstance(answer, Answer):
            told = {"lost": self.lost.count(queue), "lost_exact": True, **answer.values}
            answer = Answer("counted", values=told)
        made = super()._queue(queue, answer)
        if lost := self._lost_findings(queue):
            made = made._replace(findings=(*made.findings, *lost))
        ended = _whole(str(values.get("processed", "")))
        if ended is None or not all(count.exact for count in made.counts):
            return made
        failed = min(ended, _whole(str(values["failed"])) or 0)
        done = ended - failed
        told = {"in": done + sum(made.by_place().values()), "out": done, "failed": failed}
        return made._replace(counters={**made.counters, **told})

    def _lost_findings(self, queue: str) -> tuple[Finding, ...]:
        """The jobs that are remembered here alone."""
        lost = self.lost.of(queue)
        if not lost:
            return ()
        jid, worker = _read(lost[0].job, b"").jid, to_text(lost[0].worker)
        text = f"{len(lost)} lost with {worker}, such as {to_text(jid)}: this rqtui alone remembers them, until it ends"
        remedy = "release them in the place lost: they are the next to run"
        found = Finding("lost", "critical", queue, text, remedy, ids=(jid,), since_ms=lost[0].beat_ms, jobs=len(lost))
        return (found,)

    # -- processes ------------------------------------------------------------------------------------------------

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """The processes that work on the queue, by what they last told of themselves, and those whose jobs are lost."""

        def read(answers: Answers) -> tuple[Worker, ...]:
            answer = answered(answers[0])
            workers = (_worker(queue, row, answer.values["now_ms"]) for row in rows_by_name(answer))
            found = {worker.name: worker for worker in workers if worker is not None and queue in worker.queues}
            return tuple(sorted(({each.name: each for each in self.lost.workers(queue)} | found).values()))

        return Ask((self._call_of_all("roster"),), read)

    def schedules_ask(self) -> Ask[tuple[Schedule, ...]]:
        """The jobs of sidekiq-cron and of sidekiq-scheduler."""

        def read(answers: Answers) -> tuple[Schedule, ...]:
            answer = answered(answers[0])
            is_seen_to = bool(answer.values["alive"])
            return tuple(_schedule(row, is_seen_to) for row in rows_by_name(answer))

        return Ask((self._call_of_all("schedules"),), read)

    def kinds_ask(self, queue: str) -> Ask[tuple[Figures, ...]]:
        """What Sidekiq 7 and later count of each class, of all queues together."""

        def read(answers: Answers) -> tuple[Figures, ...]:
            answer = answered(answers[0])
            over_ms = answer.values["over_ms"]
            assert isinstance(over_ms, int)
            return tuple(_figures(row, over_ms) for row in rows_by_name(answer))

        return Ask((self.call("kinds", queue, {}),), read)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def scan_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """A step of a walk; what runs and what is lost can be listed whole."""
        by_page = self.place(place).state is State.RESERVED
        return (self.page_ask if by_page else super().scan_ask)(queue, place, offset, limit, body_bytes)

    def page_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """A page; that of `lost` stands here, and is looked for in Redis."""
        if self.place(place).name != "lost":
            return super().page_ask(queue, place, offset, limit, body_bytes)
        found = self.lost.of(queue)
        first = max(0, len(found) - limit) if offset < 0 else offset
        shown = found[first : first + limit]
        if not shown:
            return Ask((), lambda _answers: Page(queue, self.name, "lost", (), len(found), offset=first))
        rows = [{"id": _read(held.job, b"").jid, "member": held.job} for held in shown]

        def read(answers: Answers) -> Page:
            answer = answered(answers[0])
            stand = {row["id"] for row in rows_by_name(answer)}
            self.lost.forget(queue, [held.job for held in shown if _read(held.job, b"").jid in stand])
            left = [held.row() for held in shown if _read(held.job, b"").jid not in stand]
            jobs = self.decode_rows(queue, "lost", left, answer.values["now_ms"])
            following = first + len(shown)
            total = self.lost.count(queue)
            return Page(
                queue, self.name, "lost", tuple(jobs), total, True, first, following if following < total else None
            )

        return Ask((self.call("stands", queue, {}, rows),), read)

    def act_asks(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Ask[list[Outcome]]]:
        """As every layout; a lost job that stands somewhere again, or that was given up, is remembered no more."""
        return [self._forgetting(queue, ask) for ask in super().act_asks(name, queue, jobs, form)]

    def _forgetting(self, queue: str, ask: Ask[list[Outcome]]) -> Ask[list[Outcome]]:
        members = [job.member for job in ask.jobs if job.place == "lost"]
        if not members:
            return ask

        def read(answers: Answers) -> list[Outcome]:
            outcomes = ask.read(answers)
            done = {outcome.id for outcome in outcomes if outcome.moved or outcome.word in ("moved", "queued")}
            self.lost.forget(queue, [job.member for job in ask.jobs if job.id in done])
            return outcomes

        return replace(ask, read=read)

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """By the bytes that were seen here under this id; else by the id, near both ends of each place; one that has no
        jid, by its digest among the first of each place."""
        known = self.entries.find(id)
        entry = known or Entry(b"", 0, b"")
        plain = id if known is None else id.partition(b".")[0]
        args: dict[str, object] = {"id": plain, "head": entry.head, "size": entry.size, "tail": entry.tail}
        args["body_bytes"] = body_bytes
        calls = [self.call("show", queue, args)]
        if known is None or not known.is_whole or (queue, id) in self._missed:
            among = [(place, offset) for place in ("queue", "retry", "schedule", "dead") for offset in (0, -LOOK_BACK)]
            calls += [self.call("show", queue, {**args, "place": at, "offset": offset}) for at, offset in among]
        asked = len(calls)
        nameless = ["queue", "retry", "schedule", "dead"] if known is None and _DIGEST.fullmatch(id) else []
        head = {"offset": 0, "limit": LOOK_BACK, "body_bytes": HEAD_BYTES}
        calls += [self.call("page", queue, {**head, "place": place}) for place in nameless]

        def read(answers: Answers) -> Job | None:
            jobs = (self._shown(queue, answer) for answer in answers[:asked])
            job = next((job for job in jobs if job is not None), None) or self._remembered(queue, plain)
            pages = zip(nameless, answers[asked:], strict=False) if job is None else ()
            read_jobs = (job for place, answer in pages for job in self._page(queue, place, 0, LOOK_BACK, answer).jobs)
            job = job or next((each for each in read_jobs if each.id == id), None)
            (self._missed.add if job is None and len(self._missed) < MOST_MISSED else self._missed.discard)((queue, id))
            return None if job is None else replace(job, id=id)

        return Ask(tuple(calls), read)

    def _remembered(self, queue: str, id: bytes) -> Job | None:
        """A lost job."""
        found = next((held for held in self.lost.of(queue) if _read(held.job, b"").jid == id), None)
        return self.decode(queue, "lost", found.row(), 0) if found else None

    def id_of(self, row: Mapping[str, object]) -> bytes:
        """The `jid` of a new job."""
        return to_bytes(str(row["id"]))

    def _named(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]) -> Job:
        """A job from its row, called by its jid, or by a digest of its bytes where it has none."""
        head, length = row["head"], row["size"]
        is_whole = len(head) >= length
        tail = (head if is_whole else row["tail"])[-TAIL_BYTES:]
        read = _read(head, b"" if is_whole else row["tail"])
        id = self.entries.name(Entry(head, length, tail), seen, read.jid)
        job = self._job(queue, self.place(place), read, row, now_ms)
        return replace(
            job,
            id=id,
            member=head,
            body=head if is_whole else None,
            body_bytes=length,
            is_partial=not is_whole,
        )

    def _job(self, queue: str, place: Place, read: _Read, row: Mapping[str, Any], now_ms: int) -> Job:
        told = read.told
        score_ms = instant_ms(row["score"])
        since = {"queue": instant_ms(told.get("enqueued_at")), "dead": score_ms, "lost": score_ms}
        enqueued_ms = instant_ms(told.get("enqueued_at"))
        is_reserved = place.state is State.RESERVED
        silent_ms = _silent_ms(row)
        failed_ms = instant_ms(told.get("retried_at")) or instant_ms(told.get("failed_at"))
        failures = told.get("retry_count")
        failed = failures + 1 if isinstance(failures, int) and failures >= 0 else 0
        return Job(
            id=b"",
            queue=queue,
            layout=self.name,
            place=place.name,
            state=place.state,
            member=b"",
            token=row["token"],
            name=read.name,
            enqueued_ms=enqueued_ms if enqueued_ms is not None else instant_ms(told.get("created_at")),
            due_ms=score_ms if place.state is State.SCHEDULED else None,
            deadline_ms=None if silent_ms is None else now_ms - silent_ms + TTL_MS,
            reserved_ms=score_ms if is_reserved else None,
            since_ms=since.get(place.name),
            attempts=failed + is_reserved,
            cancelled=bool(row.get("cancelled")),
            max_attempts=_most(told.get("retry")),
            worker=row["worker"],
            error=read.error,
            history=(Attempt(0, failed_ms, "", read.error),) if read.error and failed_ms else (),
            problem=safe("; ".join(_problems(place, read, row))),
            call=read.call,
            facts=tuple(_facts(place, read, row)),
        )

    # -- verbs ----------------------------------------------------------------------------------------------------

    def row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """The `jid`, which several jobs may have: the others of a page are called otherwise."""
        return {"jid": _read(job.member, b"").jid}

    def rewritten(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """The job as Sidekiq's client pushes it when it is retried by hand; no bytes for what is no job."""
        try:
            return _pushed(job.member, job.queue, self.now_ms(), self._writes_ms, is_retry=job.place != "schedule")
        except ValueError:
            return b""

    def acquaint(self, client: Any, queue: str) -> None:
        """A job of each of some places: their times tell which Sidekiq is there."""
        asks = [self.page_ask(queue, place, 0, 1, 0) for place in ("queue", "retry", "schedule", "dead")]
        answers = scripts.run_all(client, [call for ask in asks for call in ask.calls])
        for ask, answer in zip(asks, answers, strict=True):
            for job in ask.read([answer]).jobs if isinstance(answer, Answer) else ():
                if (in_ms := _has_ms(_read(job.member, b"").told)) is not None:
                    self._writes_ms = in_ms
                    return

    def encoded(self, body: bytes) -> bytes:
        """A job as it stands in a queue, from what a person wrote. Raises UsageError."""
        return bytes(_made("default", {"body": body}, self.now_ms(), self._writes_ms)["body"])

    def described(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """A job as a person writes one, `{"class": "HardJob", "args": [1, 2]}`; what the row says goes first."""
        given = {name: value for name, value in row.items() if value not in (None, "", b"")}
        return {**given, **_made(queue, given, self.now_ms(), self._writes_ms)}


LAYOUT = Sidekiq


_OWN = {"schedule": "zset", "retry": "zset", "dead": "zset", "processes": "set"}
_NOTHING = {name: 0 for name in ("schedule", "retry", "dead", "work", "expired", "workers", "overdue")} | {"due_ms": -1}


# -- what killed processes held ----------------------------------------------------------------------------------------

TTL_MS = 60_000  # lib/sidekiq/launcher.rb: `<identity>` and `<identity>:work` expire so long after a beat
LATE_MS = 20_000  # a beat comes every 10 s (Sidekiq 6 and older: 5)


class Held(NamedTuple):
    """A job that a process held which did not beat any more, and when it was last seen there."""

    queue: str
    worker: bytes
    thread: bytes
    job: bytes
    run_at: str
    beat_ms: int
    seen_ms: int

    def row(self) -> dict[str, Any]:
        """The columns of a page."""
        token = self.worker + b" " + self.thread
        told = {"head": self.job, "size": len(self.job), "tail": b"", "score": self.run_at, "token": token}
        return {**told, "worker": to_text(self.worker), "beat_ms": ""}


class Lost:
    """What killed processes held and Redis does not have any more, as this program saw it; nothing is written for it.

    A job is lost when its process was silent with the job in its hands, and both are gone since. A process that beats
    again keeps its jobs; one that leaves the list before its time is over took its leave, or somebody rescued its jobs.
    """

    MOST, MOST_BYTES, KEPT_MS = 1000, 16 * 1024 * 1024, 3_600_000

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[bytes, bytes, bytes], Held] = OrderedDict()
        self._gone: set[tuple[bytes, bytes, bytes]] = set()

    def count(self, queue: str) -> int:
        """How many jobs of a queue are lost."""
        return sum(self._seen[key].queue == queue for key in self._gone)

    def of(self, queue: str) -> list[Held]:
        """The lost jobs of a queue, the one that began first at the head."""
        return [held for key, held in self._seen.items() if key in self._gone and held.queue == queue]

    def workers(self, queue: str) -> Iterator[Worker]:
        """The processes that lost jobs of a queue were held by."""
        for name in dict.fromkeys(held.worker for held in self.of(queue)):
            held = [self._seen[key] for key in self._gone if key[0] == name]
            host, pid, _nonce = ("::" + to_text(name)).rsplit(":", 2)
            of = numbered(len(held), "job")
            yield Worker(
                to_text(name),
                queue,
                max(each.beat_ms for each in held),
                LATE_MS,
                pid=pid,
                host=host.lstrip(":"),
                queues=tuple(sorted({each.queue for each in held})),
                state=f"killed with {of}, which this rqtui alone remembers",
            )

    def forget(self, queue: str, jobs: Sequence[bytes]) -> None:
        """Jobs that stand somewhere again, by their bytes."""
        for key in [key for key, held in self._seen.items() if held.queue == queue and held.job in jobs]:
            self._drop(key)

    def look(self, answer: Answer | Exception) -> None:
        """What `held` has just answered; nothing where it failed."""
        if isinstance(answer, Exception):
            return
        now_ms = answer.values["now_ms"]
        assert isinstance(now_ms, int)
        rows = rows_by_name(answer)
        if not self._seen and not any(row["job"] for row in rows):
            return
        ages = {row["worker"]: row["beat_ms"] for row in rows if not row["thread"]}
        here = {(row["worker"], row["thread"], row["job"]): row for row in rows if row["job"]}
        for key, row in here.items():
            beat_ms = now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else now_ms - TTL_MS + max(0, row["left_ms"])
            held = Held(row["queue"], *key, row["run_at"], beat_ms, now_ms)
            self._seen[key] = held
            self._gone.discard(key)
        for key in [key for key in self._seen if key not in here]:
            self._judge(key, ages.get(key[0]), now_ms)
        while len(self._seen) > self.MOST or sum(len(held.job) for held in self._seen.values()) > self.MOST_BYTES:
            self._drop(next(iter(self._seen)))

    def _judge(self, key: tuple[bytes, bytes, bytes], age_ms: int | None, now_ms: int) -> None:
        """What became of a job that no process holds any more; `age_ms` of its process's beat, None: not listed."""
        held = self._seen[key]
        if key in self._gone:
            if now_ms - held.seen_ms > self.KEPT_MS:
                self._drop(key)
            return
        is_back = age_ms is not None and 0 <= age_ms <= LATE_MS
        is_early = now_ms < held.beat_ms + TTL_MS - 1000
        is_long_ago = now_ms - held.seen_ms > TTL_MS  # nobody looked meanwhile: it may have come back, and ended
        if is_back or is_early or is_long_ago:
            self._drop(key)
        else:
            self._gone.add(key)

    def _drop(self, key: tuple[bytes, bytes, bytes]) -> None:
        self._seen.pop(key, None)
        self._gone.discard(key)


# -- processes ---------------------------------------------------------------------------------------------------------

_ORDERS = {"TSTP": "quiet", "USR1": "quiet", "TERM": "stop"}


def _worker(queue: str, row: Mapping[str, Any], now_ms: int) -> Worker | None:
    """A process from its row; None for one that left nothing but its name."""
    told = _object(row["info"])
    if not told:
        return None
    capsules = told.get("capsules")
    capsules = capsules if isinstance(capsules, dict) else {}
    weights = [each.get("weights") for each in capsules.values() if isinstance(each, dict)]
    named = [name for each in weights if isinstance(each, dict) for name in each]
    named += [name for name in _list(told.get("queues")) if isinstance(name, str)]
    is_quiet = row["quiet"] == "true"
    is_late = row["beat_ms"] > LATE_MS or row["beat_ms"] < 0
    busy = _whole(row["busy"]) or 0
    threads = _whole(row["concurrency"]) or _whole(str(told.get("concurrency", "")))
    state = "silent" if is_late else "quiet" if is_quiet else "busy" if busy else "idle"
    facts = [Fact("busy", f"{busy} of {threads}" if threads else str(busy))]
    for label, value in (("rss", row["rss"]), ("rtt", row["rtt_us"])):
        number = _whole(value)
        if number is not None:
            facts.append(Fact(label, size(number * 1024) if label == "rss" else f"{number / 1000:.1f} ms"))
    labels = [str(each) for each in _list(told.get("labels"))]
    version = told.get("version")
    words = {
        "version": f"Sidekiq {version}" if isinstance(version, str) else "",
        "tag": str(told.get("tag") or ""),
        "labels": ", ".join(labels),
        "capsules": ", ".join(_capsules(capsules)) if len(capsules) > 1 else "",
        "embedded": "yes: it obeys no signals" if told.get("embedded") is True else "",
    }
    facts += [Fact(name, value) for name, value in words.items() if value]
    return Worker(
        to_text(row["worker"]),
        queue,
        now_ms - row["beat_ms"] if row["beat_ms"] >= 0 else 0,
        LATE_MS,
        _ORDERS.get(row["order"], "quiet" if is_quiet else "run"),
        str(told.get("pid") or ""),
        str(told.get("hostname") or ""),
        instant_ms(told.get("started_at")),
        b"",
        tuple(dict.fromkeys(named)),
        state,
        tuple(facts),
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
_UNSEEN = "no process of Sidekiq runs: nobody enqueues it"


def _schedule(row: Mapping[str, Any], is_seen_to: bool) -> Schedule:
    """A schedule from its row; of sidekiq-cron the queue stands in the message that it enqueues."""
    told, name = _object(row["told"]), to_text(row["name"])
    if row["kind"] == "cron":
        args = _parsed(row["args"]) if row["args"] else told.get("args")
        kind, pattern, is_on = row["class"] or str(told.get("class") or ""), row["pattern"], row["status"] != "disabled"
    else:
        args = told.get("args")
        kind, pattern = str(told.get("class") or name), _pattern(told)
        is_on = _object(to_bytes(row["status"])).get("enabled", told.get("enabled", True)) is not False
    problem = "" if is_seen_to or not is_on else _UNSEEN
    if not row["is_there"]:
        problem = "its record is gone: nobody enqueues it"
    elif not pattern or not kind:
        problem = "its record does not say what is enqueued when"
    values = args if isinstance(args, list) else [] if args is None else [args]
    return Schedule(
        name,
        "sidekiq",
        str(told.get("queue") or "default"),
        pattern,
        _call(kind, [_argument(each) for each in values]) if kind else "",
        _written_ms(row["next"]),
        _written_ms(row["last"]),
        "sidekiq-cron" if row["kind"] == "cron" else "sidekiq-scheduler",
        is_on,
        problem,
    )


def _pattern(told: Mapping[str, Any]) -> str:
    """When sidekiq-scheduler enqueues a job: `cron`, or `every 45m` and the like, with or without options behind it."""
    for word in ("cron", "every", "interval", "at", "in"):
        value = told.get(word)
        first = value[0] if isinstance(value, list) and value else value
        if first:
            return str(first) if word == "cron" else f"{word} {first}"
    return ""


def _parsed(raw: bytes) -> object:
    """Arguments in JSON; a text that is none is the only argument."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return to_text(raw)


def _written_ms(text: str) -> int | None:
    """A time as the schedulers write it, `2026-11-22 04:43:55 +0100` or UTC; None for none."""
    try:
        at = datetime.fromisoformat(re.sub(r" (UTC|Z)$", " +0000", text).replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _figures(row: Mapping[str, Any], over_ms: int) -> Figures:
    """What is counted of a class; failed runs are not timed."""
    done = row["processed"] - row["failed"]
    mean_ms = round(row["ms"] / done) if done > 0 and row["ms"] else None
    return Figures(to_text(row["kind"]), row["processed"], row["failed"], mean_ms, over_ms)


def _capsules(capsules: Mapping[str, Any]) -> Iterator[str]:
    for name, told in capsules.items():
        weights = told.get("weights") if isinstance(told, dict) else None
        queues = ", ".join(weights) if isinstance(weights, dict) else ""
        threads = told.get("concurrency") if isinstance(told, dict) else None
        yield f"{name} ({numbered(threads, 'thread') if isinstance(threads, int) else 'threads'}: {queues})"


def _object(raw: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for anything else."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


# -- what the bytes hold -----------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """A job as its JSON tells: what it calls, its error, its fields; `problem` where it cannot be read."""

    told: Mapping[str, Any]
    jid: bytes = b""
    name: str = ""
    call: str = ""
    error: str = ""
    problem: str = ""


@lru_cache(maxsize=2000)
def _read(head: bytes, tail: bytes) -> _Read:
    """A job from its bytes, or from the beginning and the end of them; pages ask for the same jobs at every tick."""
    problem = ""
    told: object
    if tail or len(head) > _READ_BYTES:
        told = _both_ends(head, tail or head[-2048:])
    else:
        try:
            told = json.loads(head)
        except (ValueError, RecursionError):
            return _Read({}, problem="its bytes are no JSON: Sidekiq loses it when it is due, and cannot run it")
    if not isinstance(told, dict):
        return _Read({}, problem="its JSON is no object: no job of Sidekiq")
    jid = told.get("jid")
    name, args = _unwrapped(told)
    if not name:
        problem = "it names no class: no worker can run it"
    elif not isinstance(told.get("args"), list) and not tail:
        problem = "it has no list of arguments: no worker can run it"
    return _Read(
        told,
        to_bytes(jid) if isinstance(jid, str) and jid.isascii() else b"",
        name,
        _call(name, args) if name else "",
        _error(told),
        problem,
    )


def _both_ends(head: bytes, tail: bytes) -> object:
    """What the beginning and the end of a long job tell: the last of its fields stand behind the arguments."""
    told = partial(head[: 64 * 1024])
    if not isinstance(told, dict):
        return told
    ending = tail.decode("utf-8", "replace")
    for name in _BEHIND:
        found = re.findall(rf'"{name}": ?("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)', ending)
        if found:
            told[name] = json.loads(found[-1], strict=False)
    return told


_BEHIND = (
    *("jid", "queue", "created_at", "enqueued_at", "retry", "retry_count", "failed_at", "retried_at", "bid"),
    *("error_class", "error_message"),
)
_WRAPPERS = ("ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper")  # api.rb 8
_MAILERS = ("ActionMailer::DeliveryJob", "ActionMailer::MailDeliveryJob")


def _unwrapped(told: Mapping[str, Any]) -> tuple[str, Sequence[object]]:
    """What is run, and with which arguments: of ActiveJob the job itself, of a mail its mailer and method."""
    name, args = told.get("class"), told.get("args")
    name, args = name if isinstance(name, str) else "", args if isinstance(args, list) else []
    if name not in _WRAPPERS:
        shown = told.get("display_class")
        return shown if isinstance(shown, str) else name, [*args[:-1], Word("[encrypted]")] if told.get(
            "encrypt"
        ) else args
    inner = args[0] if args and isinstance(args[0], dict) else {}
    wrapped = told.get("wrapped") or inner.get("job_class") or name
    given = inner.get("arguments")
    values = [_argument(each) for each in given] if isinstance(given, list) else []
    if wrapped in _MAILERS and len(values) >= 2:
        return f"{values[0]}.{values[1]}", _mail_arguments(values[3:])
    return str(wrapped), values


def _mail_arguments(values: Sequence[object]) -> list[object]:
    """What a mailer's method is given: `MailDeliveryJob` has it in `args`, and `params` beside it."""
    if len(values) == 1 and isinstance(values[0], dict) and "args" in values[0]:
        inner = values[0]["args"]
        params = [{"params": values[0]["params"]}] if values[0].get("params") else []
        return [*(inner if isinstance(inner, list) else [inner]), *params]
    return list(values)


class Word(str):
    """A text that is shown without quotes: a GlobalID, the name of a symbol."""

    __slots__ = ()


def _argument(value: object, depth: int = 0) -> object:
    """An argument of ActiveJob as the job gets it (ActiveJob 7, `ActiveJob::Arguments`); what it adds is left out."""
    if depth > 40:
        return Word("…")
    if isinstance(value, list):
        return [_argument(each, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(found := value.get("_aj_globalid"), str):
        return Word(found)
    if "_aj_serialized" in value and "value" in value:
        kind = str(value["_aj_serialized"]).rpartition("::")[2]
        inner = _argument(value["value"], depth + 1)
        return Word(f":{inner}") if kind == "SymbolSerializer" else inner
    symbols = value.get("_aj_symbol_keys") or value.get("_aj_ruby2_keywords")
    are_symbols = set(symbols) if isinstance(symbols, list) and all(isinstance(one, str) for one in symbols) else set()
    return {
        Word(f"{key}") if key in are_symbols else key: _argument(each, depth + 1)
        for key, each in value.items()
        if not key.startswith("_aj_")
    }


def _call(name: str, args: Sequence[object]) -> str:
    """A call as one would type it in Ruby: `HardJob.perform(1, "two")`; a mailer's method is named already."""
    parts: list[str] = []
    left = _LONGEST_CALL - len(name)
    for each in args:
        if left <= 0:
            parts.append("…")
            break
        text = _ruby(each, left)
        if isinstance(each, dict) and each and all(isinstance(key, Word) for key in each) and each is args[-1]:
            text = text[1:-1]  # keywords
        parts.append(text)
        left -= len(text) + 2
    method = "" if "." in name.rpartition("::")[2] else ".perform"
    text = f"{name}{method}({', '.join(parts)})"
    return text if len(text) <= _LONGEST_CALL else f"{text[:_LONGEST_CALL]}…"


def _ruby(value: object, most: int, depth: int = 0) -> str:
    """A value as Ruby writes it, of at most about `most` characters."""
    if depth > 40 or most <= 0:
        return "…"
    if value is None:
        return "nil"
    if isinstance(value, Word):
        return value[:most]
    if isinstance(value, str):
        return json.dumps(value[:most], ensure_ascii=False)[: -1 if len(value) > most else None] + (
            "…" if len(value) > most else ""
        )
    if isinstance(value, list | dict):
        parts, left = [], most
        pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        for key, each in pairs:
            text = _ruby(each, left, depth + 1)
            if key is not None:
                text = f"{key}: {text}" if isinstance(key, Word) else f"{_ruby(key, left)} => {text}"
            parts.append(text)
            left -= len(text) + 2
            if left <= 0:
                parts.append("…")
                break
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{', '.join(parts)}{closing}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 3000:
        return f"<a number of {value.bit_length()} bits>"
    return json.dumps(value)


def _error(told: Mapping[str, Any]) -> str:
    """The last error as Ruby writes one: class, message, and the lines of its backtrace."""
    kind, message = told.get("error_class"), told.get("error_message")
    said = ": ".join(str(each) for each in (kind, message) if each)
    trace = told.get("error_backtrace")
    lines = _backtrace(trace) if isinstance(trace, str) else trace if isinstance(trace, list) else []
    return "\n".join([said, *(f"    {line}" for line in lines if isinstance(line, str))]) if lines else said


def _backtrace(text: str) -> Sequence[object]:
    """The lines in `error_backtrace`: base64 of zlib of JSON (job_retry.rb, since Sidekiq 6); none where it is not."""
    if len(text) > _TRACE_BYTES:
        return ()
    try:
        found = json.loads(inflated(base64.b64decode(text), _TRACE_BYTES))
    except (binascii.Error, ValueError, RecursionError):
        return ()
    return found if isinstance(found, list) else ()


def _problems(place: Place, read: _Read, row: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a job, in words."""
    if read.problem:
        yield read.problem
        return
    if row["score"] and instant_ms(row["score"]) is None:
        yield f"its score {row['score'][:40]} is no time in seconds"
    elif row["score"] and place.name != "work" and float(row["score"]) >= _LATEST_S:
        yield "its score is in milliseconds: as seconds, which Sidekiq reads, it is due after the year 5000"
    if not read.jid:
        yield "it has no jid: Sidekiq's own pages cannot find it"
    if place.name != "dead" and "retry" not in read.told and not row["tail"]:
        yield 'it has no "retry": it vanishes where its class cannot be loaded'
    for name in ("created_at", "enqueued_at", "failed_at", "retried_at"):
        if read.told.get(name) is not None and instant_ms(read.told[name]) is None:
            yield f"{name} is no time: {str(read.told[name])[:40]!r}"


def _silent_ms(row: Mapping[str, Any]) -> int | None:
    """For how long the process of a running job has been silent; None where it beats, and where nobody knows."""
    silent_ms = _whole(row["beat_ms"])
    return silent_ms if silent_ms is not None and silent_ms > LATE_MS else None


def _facts(place: Place, read: _Read, row: Mapping[str, Any]) -> Iterator[Fact]:
    """What Sidekiq knows of a job and other systems do not, in the order in which a person asks for it."""
    told = read.told
    if place.name == "lost":
        yield Fact("kept by", "this rqtui alone: its process was killed, and Redis has it no more")
    tags = told.get("tags")
    if isinstance(tags, list) and tags:
        yield Fact("tags", ", ".join(str(tag) for tag in tags[:20]))
    if isinstance(told.get("bid"), str):
        yield Fact("batch", told["bid"])
    if (wrapper := told.get("class")) in _WRAPPERS:
        inner = told["args"][0] if isinstance(told.get("args"), list) and told["args"] else {}
        yield Fact(
            "wrapped by",
            "ActiveJob"
            + (f" {inner['job_id']}" if isinstance(inner, dict) and isinstance(inner.get("job_id"), str) else ""),
        )
    elif wrapper != read.name and isinstance(wrapper, str):
        yield Fact("class", wrapper)
    for name, label in (("failed_at", "first failed"), ("retried_at", "last failed"), ("created_at", "created")):
        if (at_ms := instant_ms(told.get(name))) is not None:
            yield Fact(label, at_ms, "instant")
    if isinstance(told.get("retry_for"), int):
        yield Fact("retried for", told["retry_for"] * 1000, "duration")
    if told.get("retry") is False:
        yield Fact("retry", "no: a failure ends it")
    if row.get("executions"):
        yield Fact("runs of the iteration", row["executions"])
        yield Fact("cursor", row["cursor"], "json")
    if (ran_s := _seconds(row.get("runtime", ""))) is not None:
        yield Fact("iterated for", round(ran_s * 1000), "duration")
    if row["worker"]:
        yield Fact("thread", to_text(row["token"]).rpartition(" ")[2])
    if (silent_ms := _silent_ms(row)) is not None:
        yield Fact("process silent for", silent_ms, "duration")


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and 0 <= seconds < _LATEST_S else None


def _most(retry: object) -> int | None:
    """How often a job runs at most, by its field `retry`; None where the field does not tell."""
    if retry is True:
        return _RETRIES + 1
    if retry is False:
        return 1
    return retry + 1 if isinstance(retry, int) and retry >= 0 else None


def instant_ms(value: object) -> int | None:
    """An instant in ms since 1970: ms as Sidekiq 8 writes, seconds as 7 and scores do; None for neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        at = float(value)
    except (ValueError, OverflowError):
        return None
    if not isfinite(at) or not 0 <= at < 9e15:
        return None
    return round(at * 1000) if at < _LATEST_S else round(at)


# -- new and rewritten jobs --------------------------------------------------------------------------------------------

_HOW = 'a job is written as {"class": "HardJob", "args": [1, 2]}'
_JID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_DIGEST = re.compile(rb"[0-9a-f]{12}(?:\.\d+)?")
_INSTANTS = ("enqueued_at", "created_at", "retried_at", "failed_at")


def _has_ms(told: Mapping[str, Any]) -> bool | None:
    """Whether the times of a job are ms, as Sidekiq 8 writes them; None where it has none."""
    times = [told[name] for name in _INSTANTS if isinstance(told.get(name), int | float)]
    return any(isinstance(time, int) and time >= _LATEST_S for time in times) if times else None


def _time(at_ms: int, in_ms: bool) -> bytes:
    """An instant as Sidekiq 8 writes it, or as those before do: it tells the two apart by the point."""
    return b"%d" % at_ms if in_ms else b"%.3f" % (at_ms / 1000)


def _pushed(member: bytes, queue: str, now_ms: int, writes_ms: bool, is_retry: bool) -> bytes:
    """A job that is enqueued now (`Client#push`), one retry less counted (`SortedEntry#retry`, api.rb 6.4 and 8).

    Raises ValueError for what is no job.
    """
    told, own = json.loads(member), fields(member)
    if not isinstance(told.get("class"), str) or not isinstance(told.get("args"), list):
        raise ValueError("it has no class and arguments")
    count = told.get("retry_count")
    changes: dict[str, bytes | None] = {"at": None}
    if is_retry and isinstance(count, int) and not isinstance(count, bool):
        changes["retry_count"] = b"%d" % (count - 1)
    in_ms = _has_ms(told)
    return _completed(member, own, queue, now_ms, writes_ms if in_ms is None else in_ms, changes)


def _completed(
    body: bytes, own: Mapping[str, bytes], queue: str, now_ms: int, in_ms: bool, changes: Mapping[str, bytes | None]
) -> bytes:
    """A job with all that Sidekiq's client gives one, and these changes."""
    known = {
        "jid": json.dumps(secrets.token_hex(12)).encode(),
        "queue": json.dumps(queue).encode(),
        "retry": b"true",
        "created_at": _time(now_ms, in_ms),
    }
    missing = {name: value for name, value in known.items() if own.get(name, b"null") == b"null"}
    return spliced(body, {**missing, "enqueued_at": _time(now_ms, in_ms), **changes})


def _made(queue: str, row: Mapping[str, object], now_ms: int, writes_ms: bool) -> dict[str, Any]:
    """The columns of `enqueue` for a job that a person wrote in JSON. Raises UsageError."""
    body = to_bytes(row["body"])  # type: ignore[arg-type]
    told = _written_job(body)
    if told.get("queue", queue) != queue:
        raise UsageError(f'sidekiq: this body says "queue": {told["queue"]!r:.60}, and it is put into {queue}.')
    jid = to_text(to_bytes(row["id"])) if "id" in row else told.get("jid")  # type: ignore[arg-type]
    if jid is not None and not (isinstance(jid, str) and _JID.fullmatch(jid)):
        raise UsageError("sidekiq: a jid is of 1 to 200 letters, digits and _.:-; leave it out, and one is made.")
    made: dict[str, Any] = {}
    if "at" in told and not {"delay_ms", "due_ms"} & row.keys():
        made["due_ms"] = instant_ms(told["at"])
    delay_ms, due_ms = row.get("delay_ms"), {**row, **made}.get("due_ms")
    is_later = (isinstance(delay_ms, int) and delay_ms > 0) or (isinstance(due_ms, int) and due_ms > now_ms)
    in_ms = _has_ms(told)
    jid = jid or secrets.token_hex(12)
    changes: dict[str, bytes | None] = {"at": None, "jid": json.dumps(jid).encode()}
    if is_later:
        changes["enqueued_at"] = None  # it is not enqueued yet (client.rb 8, `atomic_push`)
    in_ms = writes_ms if in_ms is None else in_ms
    return {**made, "id": jid, "body": _completed(body, fields(body), queue, now_ms, in_ms, changes)}


def _written_job(body: bytes) -> dict[str, Any]:
    """A job in JSON with its fields checked, as `JobUtil#validate` does (job_util.rb 6.4 and 8). Raises UsageError."""
    try:
        fields(body)
        body.decode()
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(f"sidekiq: this body is no JSON object; {_HOW}.") from None
    if "class" not in told and "job_class" in told:
        raise UsageError(
            f'sidekiq: a job of ActiveJob is put with what wraps it: {{"class": "{_WRAPPERS[1]}", '
            '"wrapped": "MailJob", "args": [{"job_class": "MailJob", …}]}.'
        )
    for name, (fits, what) in _FITTING.items():
        if name in told and not fits(told[name]):
            raise UsageError(f'sidekiq: "{name}" is {what}, not {told[name]!r:.60}; {_HOW}.')
    if missing := [name for name in ("class", "args") if name not in told]:
        raise UsageError(f'sidekiq: this body has no "{missing[0]}"; {_HOW}.')
    return dict(told)


_FITTING: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "class": (lambda value: isinstance(value, str) and bool(value), "the name of a class"),
    "args": (lambda value: isinstance(value, list), "a list"),
    "queue": (lambda value: isinstance(value, str) and bool(value), "the name of a queue"),
    "retry": (lambda value: isinstance(value, bool) or _is_count(value), "true, false, or how often"),
    "retry_for": (lambda value: _is_count(value) and value <= 1_000_000_000, "seconds, from the first failure on"),
    "at": (lambda value: not isinstance(value, bool) and instant_ms(value) is not None, "when it is due, in seconds"),
    "tags": (lambda value: isinstance(value, list), "a list"),
}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
