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
from collections.abc import Iterator, Mapping, Sequence
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
from rqtui.system_base.foreign_system import ForeignSystem, describe_unread, list_facts, read_rows
from rqtui.system_base.lru_cache import LruCache
from rqtui.system_base.option_values import NAME
from rqtui.system_base.system import Replies, Request, unwrap_reply
from rqtui.text.names import to_bytes, to_text
from rqtui.text.sanitise import safe

log = logging.getLogger("rqtui.systems.bullmq")

QUEUES_PER_CALL = 25  # queues per call of `schedules`
DENIED_RETRY_S = 60.0  # between reads of a key that an ACL denied: each read adds an entry to the server's ACL log
MAX_DENIED = 10_000
WORKER_REFRESH_S = 10.0  # between two reads of the connected workers
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


class BullMQ(ForeignSystem):
    """BullMQ with one key prefix."""

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
    verb_effects = {
        "kill": "they fail with this reason, and run no more until they are requeued",
        "delete": "a parent that waits for one of them is told, and runs if it waits for nothing else",
        "release": "they run again, next of all; only those whose worker holds no lock any more are given back",
    }
    missing_verbs = {
        "reserve": "a job is taken with a lock that only its worker renews; its end moves parents and schedulers, too",
        "ack": "only the worker that holds its lock ends a job: its parent and its scheduler have a part in it",
    }

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.works_on_cluster = (
            re.search(r"\{[^}]+\}", self.prefix) is not None
        )  # a hash tag puts all keys into one slot
        literal = re.sub(r"(\W)", r"%\1", self.prefix)
        self.key_patterns = (f"^{literal}:[^:]+:meta$",)
        self._denied_s: LruCache[bytes, float] = LruCache(MAX_DENIED)  # by `meta` key: when an ACL denied it
        self._cached_queues: tuple[str, ...] = ()  # queue names; replaced, never mutated, because threads read it
        self._workers: Counter[str] | None = None  # by queue: connected workers; None: unknown
        self._workers_checked_s = float("-inf")
        self._idle: set[str] = set()  # queues without running jobs at the last count
        self._probe_cursors: dict[str, int] = {}  # by queue: where the scan for jobs in no place continues

    @property
    def prefix(self) -> str:
        """The prefix of all keys."""
        return self.options["prefix"]

    def keys(self, queue: str) -> Mapping[str, str]:
        """Return the keys of the places and of BullMQ's other data.

        Raises UsageError for a name that BullMQ refuses.
        """
        if not queue:
            raise UsageError("bullmq: a queue has a name.")
        if ":" in queue:
            raise UsageError(f'bullmq: a queue has no ":" in its name, and "{queue:.60}" has.')
        p = self.build_key_prefix(queue)
        places = {place.name: place.key.rpartition(":")[2] for place in self.places}
        return {name: p + key for name, key in (places | _OTHER_KEYS).items()}

    def build_key_prefix(self, queue: str) -> str:
        """Return the prefix of all keys of a queue."""
        return f"{self.prefix}:{queue}:"

    def build_call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """Build the call of a script; scripts that derive keys also get the prefix of the queue's keys."""
        return super().build_call(
            name, queue, {**self.select_arguments(name, {"p": self.build_key_prefix(queue)}), **args}, rows
        )

    def can_resume(self, queue: Queue) -> bool:
        """Return whether a resume has an effect: the queue is paused, or an upgrade left jobs in `paused`."""
        return queue.is_paused or queue.count_in_place("paused") > 0

    # -- queues ---------------------------------------------------------------------------------------------------

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Count the connected workers of cached queues, and yield an empty batch: only the key walk finds queues."""
        if self._cached_queues:
            self._refresh_workers(client)
        yield []

    def find_queues_of_keys(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """Return the queues whose `meta` key has BullMQ's fields; another program may have a key of that name."""
        from redis.exceptions import NoPermissionError

        now_s = time.monotonic()
        found = [key for key in found if now_s - self._denied_s.get(key, float("-inf")) > DENIED_RETRY_S]
        pipe = client.pipeline(transaction=False)
        for key in found:
            pipe.hmget(key, "version", "opts.maxLenEvents")
        told = pipe.execute(raise_on_error=False)
        for key, answer in zip(found, told, strict=True):
            if isinstance(answer, NoPermissionError):
                self._denied_s.store(key, now_s)
        first, last = len(to_bytes(self.prefix)) + 1, -len(":meta")
        names = [
            to_text(key[first:last])
            for key, fields in zip(found, told, strict=True)
            if isinstance(fields, list) and any(field is not None for field in fields)
        ]
        if not set(names) <= set(self._cached_queues):
            self._cached_queues = tuple(dict.fromkeys((*self._cached_queues, *names)))
        if names and self._workers is None:
            self._refresh_workers(client)
        return names

    def has_queue(self, client: Any, queue: str) -> bool:
        """Return whether the queue's `meta` key has BullMQ's fields."""
        return bool(self.find_queues_of_keys(client, [to_bytes(self.keys(queue)["meta"])]))

    # -- workers and schedules ------------------------------------------------------------------------------------

    def _build_client_calls(self) -> tuple[Call, ...]:
        """Build the commands that list all connections; scripts may not run them."""
        key = self.keys(next(iter(self._cached_queues), "any"))["meta"]
        return tuple(scripts.build_command(words, key) for words in self.commands)

    def _refresh_workers(self, client: Any) -> None:
        """Count the connected workers of each queue, at most once per `WORKER_REFRESH_S`."""
        if time.monotonic() - self._workers_checked_s >= WORKER_REFRESH_S:
            self._record_workers(scripts.run_all(client, self._build_client_calls()))

    def _record_workers(self, answers: Replies) -> None:
        self._workers_checked_s = time.monotonic()
        try:
            clients = _parse_clients(self.prefix, answers)
        except RqtuiError as error:  # without the right to list clients the workers are unknown
            log.debug("who is connected is not told: %s", error)
            self._workers = None
        else:
            self._workers = Counter(each.queue for each in clients)

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]]:
        """Build the request for the findings of `faults`.

        At most once per `WORKER_REFRESH_S` it also counts the connected workers.
        """
        call = self.build_call("faults", queue, {"from_id": self._probe_cursors.get(queue)})
        has_runs = queue not in self._idle
        is_due = time.monotonic() - self._workers_checked_s >= WORKER_REFRESH_S
        if is_due:
            self._workers_checked_s = time.monotonic()

        def parse_reply(answers: Replies) -> tuple[Finding, ...]:
            if is_due:
                self._record_workers(answers[1:3])
            if isinstance(answers[0], Reply):
                self._probe_cursors[queue] = answers[0].values["next_id"]
            gone = self._find_gone_workers(queue, answers[1:]) if has_runs else ()
            return (*self._parse_findings(queue, answers[0]), *gone)

        clients = self._build_client_calls() if is_due or has_runs else ()
        roster = (self.build_call("roster", queue, {}),) if has_runs else ()
        return Request((call, *clients, *roster), parse_reply)

    def _find_gone_workers(self, queue: str, answers: Replies) -> tuple[Finding, ...]:
        """Find running jobs whose named worker has no connection: it was killed, and their locks are not over yet."""
        try:
            clients = _parse_clients(self.prefix, answers)
            runs = [run for run in read_rows(unwrap_reply(answers[2])) if run["pb"] and run["left_ms"] >= 0]
        except RqtuiError as error:
            log.debug("who holds jobs is not told: %s", error)
            return ()
        connected = {each.name for each in clients if each.queue == queue}
        held = [run for run in runs if run["pb"] not in connected]
        if not held or not any(each.name for each in clients):  # Some servers refuse the names of connections.
            return ()
        names = sorted({run["pb"] for run in held})
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        left_s = -(-max(run["left_ms"] for run in held) // 1000)
        text = f"{len(held)} held by worker {names[0]}{more}, which has no connection, such as {to_text(held[0]['id'])}"
        remedy = f"they come back when their locks expire, within {left_s} s, and a worker runs its stalled check"
        return (Finding("worker-gone", "warning", queue, text, remedy, ids=(held[0]["id"],), key="w", jobs=len(held)),)

    def workers_request(self, queue: str) -> Request[tuple[Worker, ...]]:
        """Build the request for workers connected to the queue, and for unnamed workers that hold locks."""

        def parse_reply(answers: Replies) -> tuple[Worker, ...]:
            roster = unwrap_reply(answers[-1])
            clients = [each for each in _parse_clients(self.prefix, answers) if each.queue == queue]
            workers = _build_workers(queue, clients, read_rows(roster), roster.values["now_ms"])
            note = describe_unread(len(roster.rows), roster.values["total"], f"running jobs of {queue}")
            return WorkerList(workers, note and f"{note} for the workers that hold their locks")

        return Request((*self._build_client_calls(), self.build_call("roster", queue, {})), parse_reply)

    def schedules_request(self) -> Request[tuple[Schedule, ...]]:
        """Build the request for the job schedulers of all cached queues."""
        script = self.scripts["schedules"]
        queues = self._cached_queues
        calls = tuple(
            script.build_call(
                {}, {}, each_keys=[[self.keys(queue)["repeat"]] for queue in queues[at : at + QUEUES_PER_CALL]]
            )
            for at in range(0, len(queues), QUEUES_PER_CALL)
        )

        def parse_reply(answers: Replies) -> tuple[Schedule, ...]:
            found: list[Schedule] = []
            for at, answer in enumerate(map(unwrap_reply, answers)):
                now_ms = answer.values["now_ms"]
                found += (
                    _build_schedule(queues[at * QUEUES_PER_CALL + row["queue"] - 1], row, now_ms)
                    for row in read_rows(answer)
                )
            return tuple(found)

        return Request(calls, parse_reply)

    # -- counts ---------------------------------------------------------------------------------------------------

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the number of jobs ever added, and of succeeded and dead jobs if the workers keep metrics."""
        counters = {"in": values["added"]} if values["added"] >= 0 else {}
        if values["succeeded"] >= 0:
            counters |= {"out": values["succeeded"], "failed": values["died"], "dead": values["died"]}
        return counters

    def _parse_queue(self, queue: str, answer: Reply | Exception) -> Queue:
        counted = super()._parse_queue(queue, answer)
        if isinstance(answer, Exception):
            return counted
        (self._idle.discard if counted.count_in_place("active") else self._idle.add)(queue)
        own = self.counters(answer.values)  # the value named failed is a place, not a counter
        limits = {name: answer.values[name] for name in _LIMITS if answer.values[name]}
        workers = None if self._workers is None else self._workers[queue]
        return counted._replace(is_paused=bool(answer.values["is_paused"]), workers=workers, counters={**own, **limits})

    # -- jobs -----------------------------------------------------------------------------------------------------

    def _parse_job(self, queue: str, answer: Reply | Exception) -> Job | None:
        answer = unwrap_reply(answer)
        if answer.word == "gone":
            return None
        row = {**answer.values, "more": read_rows(answer)}
        place = row["place"] or ("failed" if row["error"] else "completed" if row["finished_on"] else "wait")
        return self.decode(queue, place, row, row["now_ms"])

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of `page`; with `more`, the table of `show`, including its history and all facts."""
        size, data, where, name = row["size"], row["data"], self.place(place), row["name"]
        is_reserved = where.state is State.RESERVED
        added_ms, started_ms, ended_ms = (_parse_time_ms(row[field]) for field in _TIMES)
        traces = _parse_traces(row["trace"])
        limit = _parse_object(row["opts"]).get("attempts")
        attempts = _parse_int(row["atm"]) or 0
        return Job(
            id=row["id"],
            queue=queue,
            system=self.name,
            place=where.name,
            state=where.state,
            member=row["member"],
            token=row["lock"],
            name=name,
            body=data if data or size == 0 else None,
            body_bytes=max(0, size),
            enqueued_ms=added_ms,
            due_ms=_parse_due_ms(row["score"]) if where.name == "delayed" else None,
            deadline_ms=now_ms + max(0, row["lock_ms"]) if is_reserved else None,
            reserved_ms=started_ms if where.state in (State.RESERVED, State.DONE) else None,
            since_ms=_find_since_ms(where, row, now_ms),
            priority=_parse_int(row["priority"]) or 0,
            attempts=attempts,
            max_attempts=max(1, limit) if isinstance(limit, int) else None,
            worker=row["pb"] or (to_text(row["lock"].partition(b":")[0]) if is_reserved else ""),
            error="" if where.state is State.DONE else _choose_error(to_text(row["error"]), traces),
            history=_build_history(traces, started_ms or 0, ended_ms or 0, row["pb"]) if "more" in row else (),
            problem=safe("; ".join(self._find_problems(queue, where.name, row))),
            call=_format_call(name, data) if name else "",
            facts=tuple(self._build_facts(queue, is_reserved, attempts, row)),
            ended_ms=ended_ms if where.state is State.DONE else None,
        )

    def _find_problems(self, queue: str, place: str, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each thing that is wrong with a job."""
        size = row["size"]
        if size == _NOT_A_HASH:
            key = self.build_key_prefix(queue) + to_text(row["id"])
            yield f"its key {key} holds what is no hash: another program uses this name"
            return
        if size == _NO_HASH:
            yield "its hash is gone: a worker runs it all the same, without a name and without data"
            return
        if size == _NO_DATA:
            yield "its hash has no data: no worker can run it"
        elif row["data"] and not _is_json(row["data"]):
            yield "its data is no JSON: a worker takes it, cannot read it and stalls; it never fails by itself"
        if row["opts"] and not _parse_object(row["opts"]) and row["opts"] != b"{}":
            yield "its opts are no JSON object: no worker can read them"
        if place == "delayed" and _parse_float(row["score"]) is not None and _parse_due_ms(row["score"]) is None:
            yield f"its score {row['score']} is no due time in ms × {DUE_FACTOR}"
        wrong = [name for name in _TIMES if row[name] and _parse_time_ms(row[name]) is None]
        if wrong:
            yield f"{_TIMES[wrong[0]]} is no time in ms: {row[wrong[0]][:40]!r}"
        if "places" in row:
            places = row["places"].split()
            if len(places) > 1:
                yield f"it stands in {' and in '.join(places)}"
            elif not places:
                yield "it stands in no place of the queue: no worker will find it"

    def _build_facts(self, queue: str, is_reserved: bool, attempts: int, row: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield the facts about a job that only BullMQ has, most useful first."""
        more: Sequence[Mapping[str, Any]] = row.get("more", ())
        fields = {to_text(each["name"]): each["value"] for each in more if each["kind"] == "field"}
        if "progress" in fields:
            yield _build_progress(fields.pop("progress"))
        stalls, starts, lock_ms = row["stc"], _parse_int(row["ats"]), row["lock_ms"]
        yield from list_facts(
            (
                ("will fail", row["defa"], "text"),
                ("stalled", _STALLS.get(stalls, f"{stalls} times"), "text"),
                ("starts", "" if starts in (None, attempts + is_reserved) else str(starts), "text"),
                ("lock lives", lock_ms if is_reserved and lock_ms >= 0 else None, "duration"),
                ("lock", "none: nobody works on it" if is_reserved and lock_ms < 0 else "", "text"),
                ("scheduler", to_text(row["rjk"]), "text"),
                ("dedup id", to_text(row["deid"]), "text"),
            )
        )
        if "more" in row:
            yield from self._build_details(queue, row["opts"], more, fields)

    def _build_details(
        self, queue: str, opts: bytes, more: Sequence[Mapping[str, Any]], fields: dict[str, bytes]
    ) -> Iterator[Fact]:
        """Yield the facts that only `show` reads, for a single job: its result, flow, log, options and other fields."""
        if "returnvalue" in fields:
            yield Fact("result", to_text(fields.pop("returnvalue")), "json")
        yield from self._build_flow_links(queue, more)
        yield from _build_log(more)
        if _parse_object(opts).keys() - {"attempts"}:
            yield Fact("opts", to_text(opts), "json")
        for each in more:
            if each["kind"] == "long":
                yield Fact(to_text(each["name"]), f"{to_text(each['value'])} bytes: too long to be shown")
        for name, value in fields.items():
            at_ms = _parse_time_ms(to_text(value)) if name.endswith(("On", "At")) else None
            yield Fact(name, to_text(value)) if at_ms is None else Fact(name, at_ms, "instant")

    def _build_flow_links(self, queue: str, more: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
        """Yield links to the parents of a job, the nearest first, and to its children with their children."""
        for number, each in enumerate(each for each in more if each["kind"] == "parent"):
            yield self._build_link("parent" if number == 0 else "its parent", each["name"], queue)
        wrong = {each["of"]: to_text(each["value"]) for each in more if each["kind"] == "name"}
        numbers = {to_text(each["name"]): each["value"] for each in more if each["kind"] == "children"}
        listed = 0
        for each in more:
            if each["kind"] == "child":
                listed += 1
                what = _CHILD_LABELS.get(wrong.get(each["name"]) or to_text(each["value"]), "child")
                yield self._build_link(what, each["name"], queue)
                for below in more:
                    if below["kind"] == "below" and below["of"] == each["name"]:
                        became = _CHILD_LABELS.get(to_text(below["value"]), "child")
                        yield self._build_link(f"└ {became}", below["name"], queue)
        total = sum(int(value) for value in numbers.values())
        if total > listed:
            yield Fact(
                "children", ", ".join(f"{to_text(value)} {what}" for what, value in numbers.items() if value != b"0")
            )

    def _build_link(self, name: str, key: bytes, queue: str) -> Fact:
        """Build a link to a job from its key; a key with another prefix is shown as text."""
        own = to_bytes(self.prefix) + b":"
        where, colon, id = key[len(own) :].partition(b":")
        if not key.startswith(own) or not colon:
            return Fact(name, to_text(key))
        return Fact(name, id, "ref", "" if to_text(where) == queue else to_text(where))

    def migration_terms(self, job: Job) -> MigrationTerms:
        """Return what `opts` asks for.

        Jobs of a flow and a scheduler's next job are refused, because other jobs need them.
        """
        told = {fact.name: fact.value for fact in job.facts}
        obstacle = next((_OBSTACLES[name] for name in _OBSTACLES if name in told), "")
        opts = _parse_object(to_bytes(str(told.get("opts", "{}"))))
        backoff_ms, cap_ms, unknown = _compute_backoff(opts.get("backoff"))
        losses = [unknown] if unknown else []
        if "dedup id" in told:
            losses.append("its deduplication id would no longer keep equal jobs out")
        if isinstance(opts.get("group"), dict):
            losses.append("it would leave its group, whose limits BullMQ Pro enforces")
        if "will fail" in told:
            losses.append("it would not fail at its next start, as BullMQ has it noted")
        return MigrationTerms(job.attempts, job.max_attempts or 1, backoff_ms, cap_ms, tuple(losses), obstacle)

    # -- verbs ----------------------------------------------------------------------------------------------------

    def encode_body(self, body: bytes) -> bytes:
        """Return the data of a job unchanged. Raises UsageError for data that a worker could not parse."""
        _check_data(body)
        return body

    def build_new_job(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """Build the `enqueue` columns: fields of `opts` that have a column go there, the rest stays JSON.

        A backoff becomes a field of `opts`. Raises UsageError.
        """
        given = {name: value for name, value in row.items() if value not in (None, "", b"")}
        base_ms, cap_ms = (given.pop(name, None) for name in self.converted_fields)
        opts = _parse_options(given.pop("opts", b""))
        if base_ms is not None:
            if "backoff" in opts:
                raise UsageError("bullmq: backoff is given twice, by itself and in opts.")
            opts = {**opts, "backoff": _build_backoff(base_ms, cap_ms)}
        columns = _split_options(opts)
        if twice := sorted(columns.keys() & given.keys()):
            raise UsageError(f"bullmq: {_OPTIONS[twice[0]]} is given twice, by itself and in opts.")
        return {"id": b"", **columns, **given, "body": self.encode_body(bytes(given.get("body", b"")))}  # type: ignore[call-overload]


SYSTEM = BullMQ


# -- workers and schedules ---------------------------------------------------------------------------------------------


class _Client(NamedTuple):
    """A connection on which a worker waits for jobs of a queue; `name` is empty for an unnamed worker."""

    queue: str
    name: str
    address: str
    since_s: int
    is_waiting: bool


def _parse_clients(prefix: str, answers: Replies) -> list[_Client]:
    """Return the workers among all connections of this database. Raises the error that Redis replied instead of a list.

    A worker names its connection `<prefix>:<base64 of the queue>`, followed by `:w:<name>` if the worker has a name
    (classes/worker.js 6.7). Other connections of its program have no such name.
    """
    own, every = (unwrap_reply(answer).values["reply"] for answer in answers[:2])
    database = _parse_client_fields(own).get(b"db", b"0")
    sign = b" name=" + to_bytes(prefix) + b":"
    found = []
    for line in every.splitlines():
        if sign not in line:
            continue
        told = _parse_client_fields(line)
        encoded, _, name = told[b"name"][len(sign) - len(b" name=") :].partition(b":")
        if told.get(b"db") == database and (not name or name.startswith(b"w:")):
            try:
                queue = to_text(base64.b64decode(encoded, validate=True))
            except ValueError:
                continue
            waits = b"b" in told.get(b"flags", b"")
            age_s = _parse_int(to_text(told.get(b"age", b""))) or 0
            found.append(_Client(queue, to_text(name[2:]), to_text(told.get(b"addr", b"")), age_s, waits))
    return found


def _parse_client_fields(line: bytes) -> dict[bytes, bytes]:
    """Parse the fields of one line of CLIENT LIST."""
    return {name: value for name, _, value in (pair.partition(b"=") for pair in line.split())}


def _build_workers(
    queue: str, clients: Sequence[_Client], runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Iterator[Worker]:
    """Yield named workers by their connections and unnamed ones by their locks.

    Unnamed workers without a lock are listed by the address of their connection.
    """
    held: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        held.setdefault(run["pb"] or run["lock"].partition(":")[0], []).append(run)
    named = [each for each in clients if each.name]
    seen: Counter[str] = Counter()
    for each in named:
        seen[each.name] += 1
        name = each.name if seen[each.name] == 1 else f"{each.name} {each.address}"
        yield _build_worker(queue, name, each, held.get(name, ()), now_ms)
    nameless = [lock for lock, its in held.items() if lock and not any(run["pb"] for run in its)]
    for lock in nameless:
        yield _build_worker(queue, lock, None, held[lock], now_ms)
    idle = sorted((each for each in clients if not each.name), key=lambda each: not each.is_waiting)
    for each in idle[: max(0, len(idle) - len(nameless))]:
        yield _build_worker(queue, each.address, each, (), now_ms)


def _build_worker(
    queue: str, name: str, client: _Client | None, runs: Sequence[Mapping[str, Any]], now_ms: int
) -> Worker:
    """Build a worker that is connected or renews a lock; either proves that it is alive."""
    left_ms = [run["left_ms"] for run in runs if run["left_ms"] >= 0]
    facts = list_facts(
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
        _format_call(row["name"] or name, row["data"]),
        next_ms,
        enabled=not (is_over and is_missing),
        problem=problem,
    )


# -- jobs --------------------------------------------------------------------------------------------------------------


def _parse_int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _parse_float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _parse_time_ms(text: str) -> int | None:
    """Parse a time in ms; None if it is no plausible time."""
    number = _parse_float(text)
    return round(number) if number is not None and _EARLIEST_MS <= number < _LATEST_MS else None


def _parse_due_ms(score: str) -> int | None:
    """Parse a score of `delayed` to ms; None if it is no plausible time."""
    number = _parse_float(score)
    due_ms = 0 if number is None else round(number // DUE_FACTOR)
    return due_ms if _EARLIEST_MS <= due_ms < _LATEST_MS else None


def _find_since_ms(place: Place, row: Mapping[str, Any], now_ms: int) -> int | None:
    """Return since when a job is ready, or when it ended; None for delayed and running jobs."""
    if place.state is State.RESERVED or place.name == "delayed":
        return None
    if place.state is not State.READY:
        ended_ms = _parse_time_ms(row["finished_on"])
        return _parse_time_ms(row["score"]) if ended_ms is None else ended_ms
    delay_ms = _parse_object(row["opts"]).get("delay")
    due_ms = (_parse_time_ms(row["timestamp"]) or 0) + (delay_ms if isinstance(delay_ms, int) else 0)
    since_ms = max(due_ms, _parse_time_ms(row["processed_on"]) or 0)
    return min(since_ms, now_ms) if since_ms else None


def _parse_json(raw: bytes) -> object:
    """Parse JSON; None for invalid JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=2000)
def _is_json(raw: bytes) -> bool:
    return raw.strip() == b"null" or _parse_json(raw) is not None


def _compute_backoff(told: object) -> tuple[int, int, str]:
    """Return base and cap in ms of the wait between attempts, and what the native queue would do differently."""
    kind, delay = (told.get("type"), told.get("delay")) if isinstance(told, dict) else ("fixed", told)
    delay_ms = min(int(delay), MAX_BACKOFF_MS) if isinstance(delay, int | float) and delay > 0 else 0
    if not told or kind == "fixed":
        return delay_ms, delay_ms, ""
    if kind == "exponential":
        return delay_ms, MAX_BACKOFF_MS, ""
    return delay_ms, delay_ms, f"its back-off {str(kind)[:60]!r} is a function of its worker"


@lru_cache(maxsize=2000)
def _parse_object(raw: bytes) -> Mapping[str, Any]:
    value = _parse_json(raw)
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=2000)
def _format_call(name: str, data: bytes) -> str:
    """Format a job as a call, `send({to: "a@b.c"})`; without arguments if the data is empty or cannot be parsed."""
    value = _parse_json(data) if data else None
    given = "" if value in (None, {}, []) else _format_javascript(value)
    call = f"{name}({given})"
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


def _parse_traces(raw: bytes) -> tuple[str, ...]:
    """Parse the stack traces of a job, oldest first."""
    value = _parse_json(raw) if raw else None
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _choose_error(reason: str, traces: Sequence[str]) -> str:
    """Return the last stack trace if it contains the failure reason, else the reason alone."""
    last = traces[-1] if traces else ""
    return last if last and reason[:200] in last else reason


def _build_history(traces: Sequence[str], started_ms: int, ended_ms: int, worker: str) -> tuple[Attempt, ...]:
    """Build the failed attempts, oldest first; BullMQ keeps times and worker only of the last one."""
    earlier = tuple(Attempt(0, 0, "", trace) for trace in traces[:-1])
    return (*earlier, *(Attempt(started_ms, ended_ms, worker, trace) for trace in traces[-1:]))


def _build_progress(raw: bytes) -> Fact:
    """Build the progress fact: a number is a percentage, any other value is shown as JSON."""
    number = _parse_float(to_text(raw))
    return Fact("progress", f"{number:g} %") if number is not None else Fact("progress", to_text(raw), "json")


def _build_log(more: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield the lines of a job's log that were read, with the number of all lines if these are more."""
    lines = [to_text(each["value"]) for each in more if each["kind"] == "log"]
    if lines:
        number = next((int(each["value"]) for each in more if each["kind"] == "logged"), 0)
        yield Fact("log" if number <= len(lines) else f"log, {number} lines", "\n".join(lines), "trace")


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


def _check_data(body: bytes) -> None:
    """Raise UsageError for data that `JSON.parse` refuses: such a job would stall for ever and never fail."""
    try:
        json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise UsageError(
            "bullmq: the data of a job is JSON, and this is none: a worker could not read it, and the job would stall "
            'for ever. A text stands in quotes: "hello"; rqtui put takes it with --raw.'
        ) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _build_backoff(base_ms: object, cap_ms: object) -> dict[str, object]:
    """Build the option `backoff` of a job (classes/backoffs.ts 6.2): fixed if base and cap are equal, else exponential.

    Raises UsageError for another cap, because BullMQ doubles the wait without end.
    """
    if cap_ms not in (None, base_ms):
        raise UsageError(
            "bullmq: a backoff has no longest wait: BullMQ doubles the wait after each failure. Give --backoff 1s for "
            "that, or --backoff 1s..1s for the same wait each time."
        )
    return {"type": "exponential" if cap_ms is None else "fixed", "delay": base_ms}


def _parse_options(raw: object) -> dict[str, object]:
    """Parse `opts` of a new job, which are JSON or a dict. Raises UsageError."""
    if not raw:
        return {}
    try:
        opts = json.loads(raw, parse_constant=_refuse_constant) if isinstance(raw, str | bytes) else raw
    except (ValueError, RecursionError):
        opts = None
    if not isinstance(opts, dict):
        raise UsageError('bullmq: opts are a JSON object, such as {"attempts": 3}.')
    return dict(opts)


def _split_options(opts: dict[str, object]) -> dict[str, object]:
    """Split `opts` of a new job into `enqueue` columns and the remaining options as JSON. Raises UsageError."""
    if strange := [name for name in opts if name in _REFUSED_OPTIONS]:
        raise UsageError(f"bullmq: only the application itself adds a job with the option {strange[0]}.")
    columns = {column: opts.pop(name) for column, name in _OPTIONS.items() if name in opts}
    for column, value in columns.items():
        wanted = {"id": str, "lifo": bool}.get(column, int)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not (is_number if wanted is int else isinstance(value, wanted)):
            what = {str: "a text", bool: "true or false"}.get(wanted, "a whole number")
            raise UsageError(f"bullmq: {_OPTIONS[column]} in opts is {what}, not {value!r:.60}.")
    if opts:
        stored = {_STORED_NAMES.get(name, name): value for name, value in opts.items()}
        columns["opts"] = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return columns
