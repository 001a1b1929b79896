"""BullMQ (Node, `taskforcesh/bullmq` 5 and 6): a list of ids to take from, sorted sets around it, a hash per job.

All keys of a queue begin with `<prefix>:<queue>:`. LISTs `wait`, `active`, and of a paused BullMQ 5 `paused`: LPUSH in,
popped at the right. ZSETs `delayed` by due ms × 4096, `prioritized` by priority × 2^32 + arrival, `waiting-children`,
`completed`, `failed` by ms. HASH `<id>`: `data` and `opts` are JSON, `stacktrace` a JSON list, `atm` attempts made,
`ats` starts, `stc` stalls, `rjk` scheduler, `deid` deduplication, `parentKey` the key of the parent.
STRING `<id>:lock`, `<worker uuid>:<n>` with an expiry, is the only sign of life of a run. A queue is there when HASH
`meta` has `version` or `opts.maxLenEvents`; Bull 4 shares the prefix and has none. Page: `docs/systems/bullmq.md`.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from rqtui.errors import RqtuiError, UsageError
from rqtui.layout.foreign import Foreign, rows_by_name
from rqtui.layout.layout import Answers, Ask, answered
from rqtui.layout.option_values import NAME
from rqtui.model import Attempt, Fact, Finding, Job, Place, Queue, Schedule, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

log = logging.getLogger("rqtui.systems.bullmq")

TOGETHER = 25  # queues per call of `schedules`
HEARD_S = 10.0  # between two looks at who is connected
UNIT = 4096  # of scores in `delayed`: due ms × 4096 + arrival (commands/includes/getDelayedScore.lua 6.7)
_SIDE = {
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
_LONGEST_CALL = 1000  # characters
_EARLIEST_MS, _LATEST_MS = 1e11, 1e14  # what is before 1973 or after 5138 is no time in ms


class BullMQ(Foreign):
    """BullMQ, of one prefix."""

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
    only_option = "prefix"
    finds_by_id = True
    tells = frozenset({"name", "tried", "error", "worker"})
    has_json_bodies = True
    remedies = {
        "no-live-worker": "start the program whose Worker serves {queue}",
        "oldest-ready": "start more workers of {queue}, or give them more concurrency",
        "backlog-grows": "start more workers of {queue}, or give them more concurrency",
        "due-not-dispatched": "start a Worker of {queue}: workers alone move what is due",
        "expired-not-reaped": "",
    }
    commands = ("CLIENT INFO", "CLIENT LIST")
    page_at_once = 25
    at_once = 100  # a job is a hash with five keys around it
    effects = {
        "kill": "they fail with this reason, and run no more until they are requeued",
        "delete": "a parent that waits for one of them is told, and runs if it waits for nothing else",
        "release": "they run again, next of all; only those whose worker holds no lock any more are given back",
    }
    lacks = {
        "reserve": "a job is taken with a lock that only its worker renews; its end moves parents and schedulers, too",
        "ack": "only the worker that holds its lock ends a job: its parent and its scheduler have a part in it",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.fits_cluster = re.search(r"\{[^}]+\}", self.prefix) is not None  # a tag: all keys share a slot
        literal = re.sub(r"(\W)", r"%\1", self.prefix)
        self.patterns = (f"^{literal}:[^:]+:meta$",)
        self._seen: tuple[str, ...] = ()  # queues, for what is asked of all of them; replaced, never changed
        self._workers: Counter[str] | None = None  # by queue: how many are connected; None: nobody knows
        self._heard_s = float("-inf")
        self._from_id: dict[str, int] = {}  # by queue: where the look for jobs in no place goes on

    @property
    def prefix(self) -> str:
        """What stands before all keys."""
        return self.options["prefix"]

    def keys(self, queue: str) -> Mapping[str, str]:
        """The places, and what BullMQ keeps beside them. Raises UsageError for a name that BullMQ refuses."""
        if not queue:
            raise UsageError("bullmq: a queue has a name.")
        if ":" in queue:
            raise UsageError(f'bullmq: a queue has no ":" in its name, and "{queue:.60}" has.')
        p = self.before(queue)
        places = {place.name: place.key.rpartition(":")[2] for place in self.places}
        return {name: p + key for name, key in (places | _SIDE).items()}

    def before(self, queue: str) -> str:
        """What stands before all keys of a queue."""
        return f"{self.prefix}:{queue}:"

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """As every layout; scripts that make keys are told what stands before all of them."""
        return super().call(name, queue, {**self.fitting(name, {"p": self.before(queue)}), **args}, rows)

    def can_resume(self, queue: Queue) -> bool:
        """Also where jobs were left in `paused` by an upgrade."""
        return queue.paused or queue.count("paused") > 0

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """None: the walk over all keys finds them. Who works on those that are known is looked at."""
        if self._seen:
            self._look_for_workers(client)
        yield []

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """The queues whose `meta` is one: another program may have a key of that name."""
        pipe = client.pipeline(transaction=False)
        for key in found:
            pipe.hmget(key, "version", "opts.maxLenEvents")
        told = pipe.execute(raise_on_error=False)
        first, last = len(to_bytes(self.prefix)) + 1, -len(":meta")
        names = [
            to_text(key[first:last])
            for key, fields in zip(found, told, strict=True)
            if isinstance(fields, list) and any(field is not None for field in fields)
        ]
        if not set(names) <= set(self._seen):
            self._seen = tuple(dict.fromkeys((*self._seen, *names)))
        if names and self._workers is None:
            self._look_for_workers(client)
        return names

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether its `meta` is one."""
        return bool(self.spotted(client, [to_bytes(self.keys(queue)["meta"])]))

    # -- workers and schedules ------------------------------------------------------------------------------------

    def _connected(self) -> tuple[Call, ...]:
        """What asks who is connected: no script may."""
        key = self.keys(next(iter(self._seen), "any"))["meta"]
        return tuple(scripts.command(words, key) for words in self.commands)

    def _look_for_workers(self, client: Any) -> None:
        """Counts the workers of each queue, a few times a minute at most."""
        if time.monotonic() - self._heard_s >= HEARD_S:
            self._hear(scripts.run_all(client, self._connected()))

    def _hear(self, answers: Answers) -> None:
        self._heard_s = time.monotonic()
        try:
            clients = _clients(self.prefix, answers)
        except RqtuiError as error:  # a right that is missing: nobody knows then
            log.debug("who is connected is not told: %s", error)
            self._workers = None
        else:
            self._workers = Counter(each.queue for each in clients)

    def inspect_ask(self, queue: str) -> Ask[tuple[Finding, ...]]:
        """What `faults` answers; now and then who is connected is asked along with it."""
        call = self.call("faults", queue, {"from_id": self._from_id.get(queue)})
        is_due = time.monotonic() - self._heard_s >= HEARD_S
        if is_due:
            self._heard_s = time.monotonic()

        def read(answers: Answers) -> tuple[Finding, ...]:
            if is_due:
                self._hear(answers[1:])
            if isinstance(answers[0], Answer):
                self._from_id[queue] = answers[0].values["next_id"]
            return self._findings(queue, answers[0])

        return Ask((call, *(self._connected() if is_due else ())), read)

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Who is connected to work on the queue, and who holds locks there without a name."""

        def read(answers: Answers) -> tuple[Worker, ...]:
            roster = answered(answers[-1])
            clients = [each for each in _clients(self.prefix, answers) if each.queue == queue]
            return tuple(_workers(queue, clients, rows_by_name(roster), roster.values["now_ms"]))

        return Ask((*self._connected(), self.call("roster", queue, {})), read)

    def schedules_ask(self) -> Ask[tuple[Schedule, ...]]:
        """The job schedulers of the queues that were seen."""
        script = self.scripts["schedules"]
        queues = self._seen
        calls = tuple(
            script.call({}, {}, each_keys=[[self.keys(queue)["repeat"]] for queue in queues[at : at + TOGETHER]])
            for at in range(0, len(queues), TOGETHER)
        )

        def read(answers: Answers) -> tuple[Schedule, ...]:
            found: list[Schedule] = []
            for at, answer in enumerate(map(answered, answers)):
                now_ms = answer.values["now_ms"]
                found += (
                    _schedule(queues[at * TOGETHER + row["queue"] - 1], row, now_ms) for row in rows_by_name(answer)
                )
            return tuple(found)

        return Ask(calls, read)

    # -- counts ---------------------------------------------------------------------------------------------------

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Jobs that were ever added, and, where workers keep metrics, those that succeeded and died."""
        told = {"in": values["added"]} if values["added"] >= 0 else {}
        if values["succeeded"] >= 0:
            told |= {"out": values["succeeded"], "failed": values["died"], "dead": values["died"]}
        return told

    def _queue(self, queue: str, answer: Answer | Exception) -> Queue:
        found = super()._queue(queue, answer)
        if isinstance(answer, Exception):
            return found
        own = self.counters(answer.values)  # of all values one is called failed, and is a place
        limits = {name: answer.values[name] for name in _LIMITS if answer.values[name]}
        workers = None if self._workers is None else self._workers[queue]
        return found._replace(paused=bool(answer.values["is_paused"]), workers=workers, counters={**own, **limits})

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _shown(self, queue: str, answer: Answer | Exception) -> Job | None:
        answer = answered(answer)
        if answer.word == "gone":
            return None
        row = {**answer.values, "more": rows_by_name(answer)}
        place = row["place"] or ("failed" if row["error"] else "completed" if row["finished_on"] else "wait")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from the columns of `page`; with `more`, the table of `show`, all that is known of it."""
        size, data, where, name = row["size"], row["data"], self.place(place), row["name"]
        opts = _object(row["opts"])
        score = _number(row["score"])
        added_ms, started_ms, ended_ms = (_at_ms(row[field]) for field in ("timestamp", "processed_on", "finished_on"))
        due_ms = round(score // UNIT) if where.name == "delayed" and score is not None else None
        traces = _traces(row["trace"])
        error = "" if where.state is State.DONE else _error(to_text(row["error"]), traces)
        since_ms = ended_ms if ended_ms is not None else _at_ms(row["score"])
        if where.state is State.READY:
            delay_ms = opts.get("delay")
            delay_ms = delay_ms if isinstance(delay_ms, int) else 0
            since_ms = max((added_ms or 0) + delay_ms, started_ms or 0) or None
            since_ms = min(since_ms, now_ms) if since_ms else None
        limit = opts.get("attempts")
        lock = row["lock"]
        job = Job(
            id=row["id"],
            queue=queue,
            layout=self.name,
            place=where.name,
            state=where.state,
            member=row["member"],
            token=lock,
            name=name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=added_ms,
            due_ms=due_ms if due_ms is not None and _EARLIEST_MS <= due_ms < _LATEST_MS else None,
            deadline_ms=now_ms + max(0, row["lock_ms"]) if where.state is State.RESERVED else None,
            reserved_ms=started_ms if where.state is State.RESERVED else None,
            since_ms=since_ms if where.state is not State.RESERVED and where.name != "delayed" else None,
            priority=_whole(row["priority"]) or 0,
            attempts=_whole(row["atm"]) or 0,
            max_attempts=max(1, limit) if isinstance(limit, int) else None,
            worker=row["pb"] or to_text(lock.partition(b":")[0]) if where.state is State.RESERVED else row["pb"],
            error=error,
            history=_history(traces, started_ms or 0, ended_ms or 0, row["pb"]) if "more" in row else (),
            call=_call(name, data) if name else "",
        )
        problems = self._problems(queue, job, row, due_ms)
        return replace(job, problem=safe("; ".join(problems)), facts=tuple(self._facts(job, row, now_ms)))

    def _problems(self, queue: str, job: Job, row: Mapping[str, Any], due_ms: int | None) -> Iterator[str]:
        """What is wrong with it, in words."""
        size, key = row["size"], self.before(queue) + to_text(row["id"])
        if size == _NOT_A_HASH:
            yield f"its key {key} holds what is no hash: another program uses this name"
            return
        if size == _NO_HASH:
            yield "its hash is gone: a worker runs it all the same, without a name and without data"
            return
        if size == _NO_DATA:
            yield "its hash has no data: no worker can run it"
        elif row["data"] and not _is_json(row["data"]):
            yield "its data is no JSON: a worker takes it, cannot read it and stalls; it never fails by itself"
        if row["opts"] and not _object(row["opts"]) and row["opts"] != b"{}":
            yield "its opts are no JSON object: no worker can read them"
        if due_ms is not None and job.due_ms is None:
            yield f"its score {row['score']} is no due time in ms × {UNIT}"
        wrong = [name for name in _TIMES if row[name] and _at_ms(row[name]) is None]
        if wrong:
            yield f"{_TIMES[wrong[0]]} is no time in ms: {row[wrong[0]][:40]!r}"
        if "places" in row:
            places = row["places"].split()
            if len(places) > 1:
                yield f"it stands in {' and in '.join(places)}"
            elif not places:
                yield "it stands in no place of the queue: no worker will find it"

    def _facts(self, job: Job, row: Mapping[str, Any], now_ms: int) -> Iterator[Fact]:
        """What BullMQ knows of a job and other systems do not, in the order in which a person asks for it."""
        more: Sequence[Mapping[str, Any]] | None = row.get("more")
        fields = {to_text(each["name"]): each["value"] for each in more or () if each["kind"] == "field"}
        if "progress" in fields:
            yield _progress(fields.pop("progress"))
        if row["defa"]:
            yield Fact("will fail", row["defa"])
        if row["stc"] not in ("", "0"):
            yield Fact("stalled", f"{row['stc']} times" if row["stc"] != "1" else "once")
        if (starts := _whole(row["ats"])) is not None and starts != job.attempts + (job.state is State.RESERVED):
            yield Fact("starts", str(starts))
        if job.state is State.RESERVED:
            is_held = row["lock_ms"] >= 0
            yield (
                Fact("lock lives", row["lock_ms"], "duration") if is_held else Fact("lock", "none: nobody works on it")
            )
        if row["rjk"]:
            yield Fact("scheduler", to_text(row["rjk"]))
        if row["deid"]:
            yield Fact("dedup id", to_text(row["deid"]))
        if more is None:
            return
        if "returnvalue" in fields:
            yield Fact("result", to_text(fields.pop("returnvalue")), "json")
        yield from self._family(job, more)
        lines = [to_text(each["value"]) for each in more if each["kind"] == "log"]
        if lines:
            number = next((to_text(each["value"]) for each in more if each["kind"] == "logged"), "")
            yield Fact("log" if int(number or 0) <= len(lines) else f"log, {number} lines", "\n".join(lines), "trace")
        if _object(row["opts"]).keys() - {"attempts"}:
            yield Fact("opts", to_text(row["opts"]), "json")
        for each in more:
            if each["kind"] == "long":
                yield Fact(to_text(each["name"]), f"{to_text(each['value'])} bytes: too long to be shown")
        for name, value in fields.items():
            at_ms = _at_ms(to_text(value)) if name.endswith(("On", "At")) else None
            yield Fact(name, to_text(value)) if at_ms is None else Fact(name, at_ms, "instant")

    def _family(self, job: Job, more: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        """The jobs that wait for this one, the nearest first, and those that it waits for, with theirs below each."""
        for number, each in enumerate(each for each in more if each["kind"] == "parent"):
            yield self._link("parent" if number == 0 else "its parent", each["name"], job.queue)
        wrong = {each["of"]: to_text(each["value"]) for each in more if each["kind"] == "name"}
        numbers = {to_text(each["name"]): each["value"] for each in more if each["kind"] == "children"}
        listed = 0
        for each in more:
            if each["kind"] == "child":
                listed += 1
                what = _BECAME.get(wrong.get(each["name"]) or to_text(each["value"]), "child")
                yield self._link(what, each["name"], job.queue)
                for below in more:
                    if below["kind"] == "below" and below["of"] == each["name"]:
                        became = _BECAME.get(to_text(below["value"]), "child")
                        yield self._link(f"└ {became}", below["name"], job.queue)
        total = sum(int(value) for value in numbers.values())
        if total > listed:
            yield Fact(
                "children", ", ".join(f"{to_text(value)} {what}" for what, value in numbers.items() if value != b"0")
            )

    def _link(self, name: str, key: bytes, queue: str) -> Fact:
        """A job by its key, as a link; the key as text where another prefix stands before it."""
        own = to_bytes(self.prefix) + b":"
        where, colon, id = key[len(own) :].partition(b":")
        if not key.startswith(own) or not colon:
            return Fact(name, to_text(key))
        return Fact(name, id, "ref", "" if to_text(where) == queue else to_text(where))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def encoded(self, body: bytes) -> bytes:
        """The data of a job, as it was typed. Raises UsageError for what a worker could not read."""
        _refuse_data(body)
        return body

    def described(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """The columns of `enqueue`: what of `opts` has a column goes there, the rest stays JSON. Raises UsageError."""
        given = {name: value for name, value in row.items() if value not in (None, "", b"")}
        made = _of_options(given.pop("opts", b""))
        if twice := sorted(made.keys() & given.keys()):
            raise UsageError(f"bullmq: {_OPTIONS[twice[0]]} is given twice, by itself and in opts.")
        return {"id": b"", **made, **given, "body": self.encoded(bytes(given.get("body", b"")))}  # type: ignore[call-overload]


LAYOUT = BullMQ


# -- workers and schedules ---------------------------------------------------------------------------------------------


class _Client(NamedTuple):
    """A connection on which a worker waits for jobs of a queue; `name` is empty where the worker has none."""

    queue: str
    name: str
    address: str
    since_s: int
    is_waiting: bool


def _clients(prefix: str, answers: Answers) -> list[_Client]:
    """The workers among all connections of this database. Raises what Redis answered instead of a list.

    A worker calls its connection `<prefix>:<base64 of the queue>`, with `:w:<name>` if it has a name
    (classes/worker.js 6.7); the others of its program have no such name.
    """
    own, every = (answered(answer).values["reply"] for answer in answers[:2])
    database = _told(own).get(b"db", b"0")
    sign = b" name=" + to_bytes(prefix) + b":"
    found = []
    for line in every.splitlines():
        if sign not in line:
            continue
        told = _told(line)
        encoded, _, name = told[b"name"][len(sign) - len(b" name=") :].partition(b":")
        if told.get(b"db") == database and (not name or name.startswith(b"w:")):
            try:
                queue = to_text(base64.b64decode(encoded, validate=True))
            except ValueError:
                continue
            waits = b"b" in told.get(b"flags", b"")
            age_s = _whole(to_text(told.get(b"age", b""))) or 0
            found.append(_Client(queue, to_text(name[2:]), to_text(told.get(b"addr", b"")), age_s, waits))
    return found


def _told(line: bytes) -> dict[bytes, bytes]:
    """The fields of a line of CLIENT LIST."""
    return {name: value for name, _, value in (pair.partition(b"=") for pair in line.split())}


def _workers(
    queue: str, clients: Sequence[_Client], runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Iterator[Worker]:
    """The workers with a name by their connections; those without one by their locks, the idle by their connections."""
    held: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        held.setdefault(run["pb"] or run["lock"].partition(":")[0], []).append(run)
    named = [each for each in clients if each.name]
    seen: Counter[str] = Counter()
    for each in named:
        seen[each.name] += 1
        name = each.name if seen[each.name] == 1 else f"{each.name} {each.address}"
        yield _worker(queue, name, each, held.get(name, ()), now_ms)
    nameless = [lock for lock, its in held.items() if lock and not any(run["pb"] for run in its)]
    for lock in nameless:
        yield _worker(queue, lock, None, held[lock], now_ms)
    idle = sorted((each for each in clients if not each.name), key=lambda each: not each.is_waiting)
    for each in idle[: max(0, len(idle) - len(nameless))]:
        yield _worker(queue, each.address, each, (), now_ms)


def _worker(queue: str, name: str, client: _Client | None, runs: Sequence[Mapping[str, Any]], now_ms: int) -> Worker:
    """A worker that is connected, or that renews a lock: as long as it does either it lives."""
    left_ms = [run["left_ms"] for run in runs if run["left_ms"] >= 0]
    facts = [Fact("runs", str(len(runs)))] if len(runs) > 1 else []
    if left_ms:
        facts.append(Fact("locks live", min(left_ms), "duration"))
    if client is not None:
        facts.append(Fact("connection", client.address))
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


def _schedule(queue: str, row: Mapping[str, Any], now_ms: int) -> Schedule:
    """A job scheduler from its hash; BullMQ adds its next job when it begins to run the one before."""
    next_ms = _at_ms(row["next_ms"])
    every, limit, count, ends_ms = (_whole(row[name]) for name in ("every", "limit", "count", "end_date"))
    pattern = f"every {every / 1000:g} s" if every else " ".join(filter(None, (row["pattern"], row["tz"])))
    is_over = bool(limit and count and count >= limit) or bool(ends_ms and ends_ms < now_ms)
    is_missing = row["standing"] in ("gone", "ended")
    problem = ""
    if is_missing and not is_over:
        what = "is gone" if row["standing"] == "gone" else "ended, and none came after it"
        problem = f"its next job {what}: it stopped until its program upserts it again"
    if not row["name"]:
        problem = problem or "its hash is missing: BullMQ knows no template of its jobs"
    name = to_text(row["id"])
    return Schedule(
        name,
        BullMQ.name,
        queue,
        pattern,
        _call(row["name"] or name, row["data"]),
        next_ms,
        enabled=not (is_over and is_missing),
        problem=problem,
    )


# -- jobs --------------------------------------------------------------------------------------------------------------


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _at_ms(text: str) -> int | None:
    """A time in ms; None for what is none."""
    number = _number(text)
    return round(number) if number is not None and _EARLIEST_MS <= number < _LATEST_MS else None


def _loaded(raw: bytes) -> object:
    """What JSON holds; None where it is none."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=2000)
def _is_json(raw: bytes) -> bool:
    return raw.strip() == b"null" or _loaded(raw) is not None


@lru_cache(maxsize=2000)
def _object(raw: bytes) -> Mapping[str, Any]:
    value = _loaded(raw)
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=2000)
def _call(name: str, data: bytes) -> str:
    """What a worker is asked for: `send({to: "a@b.c"})`; only the name where the data cannot be read or is empty."""
    value = _loaded(data) if data else None
    given = "" if value in (None, {}, []) else _written(value)
    call = f"{name}({given})"
    return call if len(call) <= _LONGEST_CALL else call[: _LONGEST_CALL - 1] + "…"


_BARE = re.compile(r"[A-Za-z_$][\w$]*")


def _written(value: object) -> str:
    """A value as JavaScript writes it: names without quotes where they need none."""
    if isinstance(value, dict):
        pairs = (
            f"{k if _BARE.fullmatch(k) else json.dumps(k, ensure_ascii=False)}: {_written(v)}" for k, v in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _traces(raw: bytes) -> tuple[str, ...]:
    """The stack traces of a job, the oldest first."""
    value = _loaded(raw) if raw else None
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _error(reason: str, traces: Sequence[str]) -> str:
    """Why it failed: the trace of the last attempt where it tells of that reason, else the reason alone."""
    last = traces[-1] if traces else ""
    return last if last and reason[:200] in last else reason


def _history(traces: Sequence[str], started_ms: int, ended_ms: int, worker: str) -> tuple[Attempt, ...]:
    """The attempts that failed, the oldest first; BullMQ keeps the times and the worker of the last alone."""
    earlier = tuple(Attempt(0, 0, "", trace) for trace in traces[:-1])
    return (*earlier, *(Attempt(started_ms, ended_ms, worker, trace) for trace in traces[-1:]))


def _progress(raw: bytes) -> Fact:
    """A number is a percentage, as boards show it; anything else is shown as it is."""
    number = _number(to_text(raw))
    return Fact("progress", f"{number:g} %") if number is not None else Fact("progress", to_text(raw), "json")


_TIMES = {"timestamp": "timestamp", "processed_on": "processedOn", "finished_on": "finishedOn"}
_BECAME = {  # of the jobs that a job waits for
    "waits": "waits for",
    "processed": "child done",
    "ignored": "child ignored",
    "failed": "child failed",
    "gone": "child gone",
}


# -- new jobs ----------------------------------------------------------------------------------------------------------

_OPTIONS = {  # the columns of `enqueue`, as BullMQ calls them (classes/job.js 6.7, validateOptions)
    "id": "jobId",
    "delay_ms": "delay",
    "priority": "priority",
    "max_attempts": "attempts",
    "lifo": "lifo",
}
_STORED = {"keepLogs": "kl"}  # options that BullMQ stores under another name (utils/index.js 6.7, optsEncodeMap)
_NOT_OURS = frozenset(
    ["repeat", "parent", "deduplication", "debounce", "de", "telemetry", "tm", "rjk", "repeatJobKey", "prevMillis"]
)


def _refuse_data(body: bytes) -> None:
    """Raises UsageError for what `JSON.parse` does not take: such a job stalls for ever, and never fails."""
    try:
        json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise UsageError(
            "bullmq: the data of a job is JSON, and this is none: a worker could not read it, and the job would stall "
            'for ever. A text stands in quotes: "hello"; rqtui put takes it with --raw.'
        ) from None


def _no_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _of_options(raw: object) -> dict[str, object]:
    """The columns that `opts` of a new job say, and `opts` itself: what is left of them. Raises UsageError."""
    if not raw:
        return {}
    try:
        opts = json.loads(raw, parse_constant=_no_constant) if isinstance(raw, str | bytes) else raw
    except (ValueError, RecursionError):
        opts = None
    if not isinstance(opts, dict):
        raise UsageError('bullmq: opts are a JSON object, such as {"attempts": 3}.')
    if strange := [name for name in opts if name in _NOT_OURS]:
        raise UsageError(f"bullmq: only the application itself adds a job with the option {strange[0]}.")
    made = {column: opts.pop(name) for column, name in _OPTIONS.items() if name in opts}
    for column, value in made.items():
        wanted = {"id": str, "lifo": bool}.get(column, int)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (is_number if wanted is int else isinstance(value, wanted)):
            what = {str: "a text", bool: "true or false"}.get(wanted, "a whole number")
            raise UsageError(f"bullmq: {_OPTIONS[column]} in opts is {what}, not {value!r:.60}.")
    if opts:
        stored = {_STORED.get(name, name): value for name, value in opts.items()}
        made["opts"] = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return made
