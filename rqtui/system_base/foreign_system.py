"""Provide the base class of queue systems of other projects: a subclass adds only places, keys and a `decode`.

The scripts `counts`, `page`, `show` and `faults` of its folder return values by fixed names (see `lua/README.md`).
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from rqtui.errors import ScriptError, ServerError
from rqtui.model import Count, EventCoverage, Fact, Finding, Job, Page, Place, Queue
from rqtui.scripts.script import Reply
from rqtui.system_base.entries import HEAD_BYTES, Entries, Entry, strip_name_number
from rqtui.system_base.event_cache import EventCache
from rqtui.system_base.system import Replies, Request, System, build_uncounted_queue, quote_for_shell, unwrap_reply
from rqtui.text.formats import format_age, format_long_count, format_quantity
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import EMPTY_ID

_MAX_OFFSET = 10**12  # more jobs than any place holds; `page_guard.lua` accepts 15 characters
LOOK_BACK = 1000  # entries of each place that are searched for a digest that is not cached
_TYPED_BYTES = 200  # a longer id is not typed by hand; rqtui jobs lists it
_FACTS = frozenset({"now_ms", "exact", "oldest_ms", "due_ms", "deadline_ms", "overdue", "expired", "workers", "paused"})


@dataclass(frozen=True, slots=True)
class FindingText:
    """The texts for one kind of health finding of a system, with placeholders.

    `{number:job}` is how many jobs were found, or what the noun says, `{id}` an example, `{key}` its Redis key,
    `{queue}` the queue, `{seconds:age}` a duration. In the remedy they are quoted for a shell, and
    `rqtui reap {queue}` also names system and options. `key` is the fix by a key on a screen, without a keymap.
    """

    severity: str
    text: str
    remedy: str
    key: str = ""


class Number(int):
    """A number in the text of a health finding.

    `{number:job}` is `1 job` or `3 jobs`, `{number:is|are}` the word for one or for several, `{seconds:age}` `14m28`.
    """

    def __format__(self, spec: str) -> str:
        if spec == "age":
            return format_age(self * 1000)
        if "|" in spec:
            one, _bar, several = spec.partition("|")
            return one if self == 1 else several
        return format_quantity(int(self), spec) if spec else super().__format__(spec)


class ForeignSystem(System):
    """A queue system of another project, whose `page` script returns rows that `decode` converts to jobs.

    `finding_texts` has the texts for the health findings of its `faults.lua`, by kind of finding.
    """

    # Workers of another project are started by its own commands, and `rqtui work` serves native queues only.
    finding_remedies: ClassVar[Mapping[str, str]] = {
        "no-live-worker": "start a worker of {queue}",
        "oldest-ready": "add workers of {queue}",
        "backlog-grows": "add workers of {queue}",
    }
    # Queues per call of the script `tally`, for a system that has this script.
    queues_per_tally: ClassVar[int] = 25
    # Jobs per call of the script `page`, if reading a job takes several commands; 0: as many as the caller asks for.
    jobs_per_page_call: ClassVar[int] = 0

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.finding_texts = load_finding_texts(self.scripts.path)
        self.event_cache = EventCache()  # the jobs of places that are known only from events
        self._counters: dict[tuple[str, ...], tuple[str, ...]] = {}

    @cached_property
    def _place_counters(self) -> tuple[tuple[Place, Callable[..., Count], str, str, bool], ...]:
        """For each place: a factory of its count, and the names of the reply values for exactness and total.

        The last item says whether the place is exact although shared places are sampled.
        """
        has_shared = any(place.is_shared for place in self.places)
        return tuple(
            (
                place,
                _build_cached_count_factory(place),
                f"{place.name}_exact",
                f"{place.name}_of",
                has_shared and not place.is_shared,
            )
            for place in self.places
        )

    @cached_property
    def _place_value_names(self) -> frozenset[str]:
        """The names of values that count the jobs in a place, or describe that count; they are not counters."""
        return frozenset(name for place, _make, *names, _alone in self._place_counters for name in (place.name, *names))

    def _find_counter_names(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of those values in a reply that are counters.

        All replies of one script have the same names, so the result is cached. The number of jobs in a place is no
        counter: it decreases, and a place may be called `failed` or `reserved`.
        """
        names = (*values,)
        counter_names = self._counters.get(names)
        if counter_names is None:
            counter_names = self._counters[names] = tuple(
                n for n in names if n not in _FACTS and n not in self._place_value_names
            )
        return counter_names

    # -- what a subclass says -------------------------------------------------------------------------------------

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a row of the script `page`, or from the values of `show`.

        If a part of the row cannot be decoded, the job's `problem` says which part and why.
        """
        raise NotImplementedError

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the counts of a queue that only grow; `in`, `out` and `failed` are the basis of the rates."""
        return {}

    # -- derived --------------------------------------------------------------------------------------------------

    def queue_argument(self, queue: str) -> str:
        """Return `SYSTEM:NAME`, with a `--system` option if the options of the queue are not the defaults."""
        spec, name = self.format_spec(queue), quote_for_shell(f"{type(self).name}:{queue}")
        return f"--system {quote_for_shell(spec)} {name}" if spec else name

    def queue_request(self, queue: str) -> Request[Queue]:
        """Build the request that counts a queue with the script `counts`: a number per place, and other facts."""
        return Request((self.build_call("counts", queue, {}),), lambda replies: self._parse_queue(queue, replies[0]))

    def queues_request(self, queues: Sequence[str]) -> Request[list[Queue]] | None:
        """Build the request that counts the jobs of many queues with the script `tally`, or None without such a script.

        A reply has the columns of `counts`, one row per queue; a call counts `queues_per_tally` queues.
        """
        script = self.scripts.get("tally")
        if script is None:
            return None
        keys_by_queue = [self.keys(queue) for queue in queues]
        shared_keys = {key.name: keys_by_queue[0][key.name] for key in script.keys}
        names = [key.name for key in script.keys_each]
        args = {arg.name: self.options[arg.name] for arg in script.args if arg.name in self.options}
        calls = [
            script.build_call(
                shared_keys, args, each_keys=[[keys[name] for name in names] for keys in keys_by_queue[start:end]]
            )
            for start, end in _split_into_ranges(len(keys_by_queue), self.queues_per_tally)
        ]

        def parse_queues(replies: Replies) -> list[Queue]:
            queue_replies = [
                Reply("counted", values={**reply.values, **row})
                for reply in map(unwrap_reply, replies)
                for row in convert_rows_to_dicts(reply)
            ]
            return [self._parse_queue(queue, reply) for queue, reply in zip(queues, queue_replies, strict=True)]

        return Request(tuple(calls), parse_queues)

    def page_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for a page of jobs with the script `page`; a negative offset counts from the end.

        The jobs are in the order of the place. If the system limits the jobs per call, a long page is several calls in
        one round trip.
        """
        place, size = self.place(place).name, self.jobs_per_page_call
        if self.is_from_events(place):
            return Request((), lambda _replies: self._build_event_page(queue, place, offset, limit))
        if not size or limit <= size:
            return self._page_part_request(queue, place, offset, limit, body_bytes)
        part_requests = [
            self._page_part_request(
                queue, place, offset - start if offset < 0 else offset + start, end - start, body_bytes
            )
            for start, end in _split_into_ranges(limit, size)
        ]

        def join_page_parts(replies: Replies) -> Page:
            pages = [request.parse([reply]) for request, reply in zip(part_requests, replies, strict=True)]
            if offset < 0:
                return _join_backward_pages(pages)
            jobs = tuple(job for page in pages for job in page.jobs)
            following = offset + len(jobs)
            return replace(pages[0], jobs=jobs, next=following if jobs and following < pages[0].total else None)

        return Request(tuple(call for request in part_requests for call in request.calls), join_page_parts)

    def _page_part_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        args = {"place": place, "offset": offset, "limit": limit, "body_bytes": body_bytes}
        call = self.build_call("page", queue, args)
        return Request((call,), lambda replies: self._parse_page(queue, place, offset, limit, replies[0]))

    def scan_request(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Request[Page]:
        """Build the request for one step through all jobs of a place: with the script `scan` if the place is shared."""
        place = self.place(place).name
        if "scan" not in self.scripts or not self.is_shared(place):
            return self.page_request(queue, place, offset, limit, body_bytes)
        args = {"place": place, "offset": offset, "limit": limit, "body_bytes": body_bytes}
        call = self.build_call("scan", queue, args)
        return Request((call,), lambda replies: self._parse_scan_page(queue, place, offset, replies[0]))

    def backward_scan_request(
        self, queue: str, place: str, older_jobs: int | None, limit: int, body_bytes: int
    ) -> Request[Page]:
        """Build the request for one step backwards through a place: with the script `scan` if the place is shared."""
        place = self.place(place).name
        if "scan" not in self.scripts or not self.is_shared(place):
            return super().backward_scan_request(queue, place, older_jobs, limit, body_bytes)
        before = _MAX_OFFSET if older_jobs is None else older_jobs
        args = {"place": place, "offset": -1 - before, "limit": limit, "body_bytes": body_bytes}
        call = self.build_call("scan", queue, args)

        def parse_page(replies: Replies) -> Page:
            page = self._parse_scan_page(queue, place, 0, replies[0])
            older = None if page.next is None else page.total - page.next
            return replace(page, offset=max(0, page.total - before), next=older)

        return Request((call,), parse_page)

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job with the script `show`.

        If Redis no longer has the job, the job is returned as of its last Pub/Sub event.
        """
        call = self.build_call("show", queue, {"id": id, "body_bytes": body_bytes})
        return Request(
            (call,), lambda replies: self._parse_job(queue, replies[0]) or self.event_cache.find_in_queue(queue, id)
        )

    def probe_request(self, queue: str) -> Request[tuple[Finding, ...]] | None:
        """Build the request for the system's own health findings with the script `faults`; None if there is none."""
        if "faults" not in self.scripts:
            return None
        return Request((self.build_call("faults", queue, {}),), lambda replies: self._parse_findings(queue, replies[0]))

    def _parse_queue(self, queue: str, reply: Reply | Exception) -> Queue:
        if isinstance(reply, ServerError):
            return build_uncounted_queue(queue, self.name, reply)
        if isinstance(reply, Exception):
            raise reply
        v: Mapping[str, Any] = reply.values
        now = v["now_ms"]
        self.set_server_time(now)
        exact = bool(v.get("exact", True))

        def read_number_value(name: str) -> int | None:
            value = v.get(name)
            return int(value) if value is not None and value != "" and value >= 0 else None

        due, deadline = read_number_value("due_ms"), read_number_value("deadline_ms")
        return Queue(
            queue,
            self.name,
            counts=tuple(
                [
                    self._build_event_count(queue, place, make)
                    if place.is_from_events
                    else self._build_record_count(queue, place)
                    if place.is_key_per_job
                    else make(v[place.name], bool(v.get(is_exact, exact or is_alone)), v.get(of))
                    for place, make, is_exact, of, is_alone in self._place_counters
                ]
            ),
            counted_ms=now,
            is_paused=bool(v.get("paused")),
            workers=read_number_value("workers"),
            oldest_ready_ms=read_number_value("oldest_ms"),
            next_due_ms=None if due is None else due - now,
            next_expiry_ms=None if deadline is None else deadline - now,
            overdue=v.get("overdue", 0),
            expired=v.get("expired", 0),
            counters={
                **self.counters(v),
                **{name: value for name in self._find_counter_names(v) if isinstance(value := v[name], int)},
            },
        )

    def _build_event_count(self, queue: str, place: Place, build_count: Callable[..., Count]) -> Count:
        event_count, coverage = self.event_cache.count(queue, place.name), self.event_coverage
        shared_total = event_count.of_all if coverage.since_ms is not None else None
        if reassigned := self.event_cache.count_reassigned(queue, place.name):
            coverage = coverage._replace(reassigned=reassigned)
        return build_count(event_count.of_queue, coverage.is_complete, shared_total, coverage)

    def _build_record_count(self, queue: str, place: Place) -> Count:
        """Return the count of a place whose jobs are keys of their own. Only `RecordSystem` has such places."""
        raise NotImplementedError

    def _build_event_page(self, queue: str, place: str, offset: int, limit: int) -> Page:
        """Return the cached jobs of a place that is filled from Pub/Sub events, newest first."""
        number = self.event_cache.count(queue, place).of_queue
        total, first, jobs = self.event_cache.list_page(queue, place, offset, limit)
        following = first + len(jobs)
        return Page(
            queue,
            self.name,
            place,
            jobs,
            total,
            self.event_coverage.is_complete,
            first,
            following if jobs and following < total else None,
            place_total=number if number > total else None,
            coverage=self.event_coverage,
        )

    def _parse_page(self, queue: str, place: str, offset: int, limit: int, reply: Reply | Exception) -> Page:
        if isinstance(reply, ServerError):
            return Page(queue, self.name, place, (), 0, error=str(reply))
        if isinstance(reply, Exception):
            raise reply
        v: Mapping[str, Any] = reply.values
        self.set_server_time(v["now_ms"])
        jobs = self.decode_rows(queue, place, convert_rows_to_dicts(reply), v["now_ms"])
        first = offset if offset >= 0 else max(0, v["total"] - limit + offset + 1)
        following = first + len(jobs)
        return Page(
            queue,
            self.name,
            place,
            tuple(jobs),
            v["total"],
            bool(v.get("exact", True)),
            first,
            following if following < v["total"] and jobs else None,
            place_total=v.get("of"),
        )

    def _parse_scan_page(self, queue: str, place: str, offset: int, reply: Reply | Exception) -> Page:
        page = self._parse_page(queue, place, offset, 0, reply)
        return page if page.error or isinstance(reply, Exception) else replace(page, next=reply.values["next"])

    def decode_rows(self, queue: str, place: str, rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[Job]:
        """Build the jobs of a page from the rows of a reply.

        Equal ids get a number, because rows are distinguished by id.
        """
        seen: Counter[bytes] = Counter()
        jobs = []
        for row in rows:
            job = self.decode(queue, place, row, now_ms)
            seen[job.id] += 1
            jobs.append(job if seen[job.id] == 1 else replace(job, id=b"%s.%d" % (job.id, seen[job.id])))
        return jobs

    def _parse_job(self, queue: str, reply: Reply | Exception) -> Job | None:
        reply = unwrap_reply(reply)
        if reply.word != self.scripts["show"].done_word:
            return None
        self.set_server_time(reply.values["now_ms"])
        return self.decode(queue, reply.values["place"], reply.values, reply.values["now_ms"])

    def _parse_findings(self, queue: str, reply: Reply | Exception) -> tuple[Finding, ...]:
        """Build the health findings of a reply. If a kind has several texts, the word after a colon selects one."""
        if isinstance(reply, ServerError):
            return build_uncounted_queue(
                queue, self.name, reply
            ).findings  # the key that the counts do not look at, or they too
        if isinstance(reply, Exception):
            raise reply
        findings = []
        for row in convert_rows_to_dicts(reply):
            texts = self.finding_texts[row["kind"]]
            id: bytes = row["id"]
            numbers = {name: Number(value) for name, value in row.items() if isinstance(value, int)}
            words = {**row, **numbers, "id": id[:60].decode("utf-8", "backslashreplace") or EMPTY_ID, "queue": queue}
            # A remedy is pasted into a shell, and an id may hold anything.
            quoted = {
                name: quote_for_shell(value) if isinstance(value, str | bytes) else value for name, value in row.items()
            }
            quoted |= {
                "id": quote_for_shell(id) if len(id) <= _TYPED_BYTES else "ID",
                "queue": self.queue_argument(queue),
            }
            remedy = texts.remedy.replace(f"{type(self).name}:{{queue}}", "{queue}")
            findings.append(
                Finding(
                    row["kind"].partition(":")[0].replace("_", "-"),
                    texts.severity,
                    queue,
                    texts.text.format(**words),
                    remedy.format(**quoted),
                    (row["key"],) if row["key"] else (),
                    (id,) if id else (),
                    key=texts.key,
                    jobs=row.get("number", 0),
                    since_ms=row.get("since_ms"),
                    until_ms=row.get("until_ms"),
                )
            )
        return tuple(findings)

    def read_taken_jobs(self, queue: str, reply: Reply) -> tuple[Job, ...]:
        """Return the jobs in the reply of the script `reserve` or `pull`, whose rows have the columns of `page`."""
        reserved = next((place.name for place in self.places if place.state == "reserved"), "")
        place = reserved or self.scripts["pull"].sources[0]
        now_ms: Any = reply.values.get("now_ms", 0)
        return tuple(self.decode_rows(queue, place, convert_rows_to_dicts(reply), now_ms)) if reply.rows else ()


class EntrySystem(ForeignSystem):
    """A queue system whose jobs are only bytes. Rows have the columns `head size tail`; `show` takes these three."""

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.entries = Entries()

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build a job from a list or set entry and the other columns; the id is empty if the entry contains none.

        The caller sets the id of such a job and everything that follows from the entry's bytes.
        """
        raise NotImplementedError

    def extract_body(self, entry: Entry, row: Mapping[str, Any]) -> bytes:
        """Return the body of the job that an entry contains; the entry has all its bytes."""
        return entry.head

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """Build the job of a single entry that a script returned."""
        return self._build_named_job(queue, place, row, now_ms, Counter())

    def decode_rows(self, queue: str, place: str, rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[Job]:
        """Build the jobs of a page of entries. Jobs without an id get a digest of their bytes as id."""
        seen: Counter[bytes] = Counter()
        return [self._build_named_job(queue, place, row, now_ms, seen) for row in rows]

    def read_new_id(self, row: Mapping[str, object]) -> bytes:
        """Return the id of a job that was just put; the digest of its bytes if jobs have no ids."""
        if self.has_ids:
            return super().read_new_id(row)
        body = row["body"]
        return Entry.from_bytes(body if isinstance(body, bytes) else to_bytes(str(body))).digest

    def _build_named_job(
        self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]
    ) -> Job:
        entry = Entry.from_row(row)
        job = self.decode_entry(queue, place, entry, row, now_ms)
        body = self.extract_body(entry, row) if entry.is_complete else None
        return replace(
            job,
            id=self.entries.assign_name(entry, seen, job.id),
            member=entry.head,
            body=body,
            body_bytes=entry.size if body is None else len(body),
            is_partial=body is None,
        )

    def job_request(self, queue: str, id: bytes, body_bytes: int) -> Request[Job | None]:
        """Build the request for one job, named by a digest or by its bytes.

        A digest that was not assigned in this process is searched among the first entries of each place.
        """
        named_entry = self.entries.find(id)
        entry = named_entry or Entry.from_bytes(id)
        args = {"head": entry.head, "size": entry.size, "tail": entry.tail, "body_bytes": body_bytes}
        calls = [self.build_call("show", queue, args)]
        if named_entry is None:
            calls += [
                self.build_call(
                    "page", queue, {"place": p.name, "offset": 0, "limit": LOOK_BACK, "body_bytes": HEAD_BYTES}
                )
                for p in self.places
            ]
        return Request(tuple(calls), lambda replies: self._find_job(queue, id, replies))

    def _find_job(self, queue: str, id: bytes, replies: Replies) -> Job | None:
        job = self._parse_job(queue, replies[0])
        if job is not None:
            return replace(job, id=id if self.entries.find(id) else job.id)
        for place, reply in zip(self.places, replies[1:], strict=False):
            jobs = self._parse_page(queue, place.name, 0, LOOK_BACK, reply).jobs
            if match := next((job for job in jobs if job.id == id or strip_name_number(job.id) == id), None):
                return replace(match, id=id)
        return None


def _build_cached_count_factory(place: Place) -> Callable[..., Count]:
    """Return a function that builds the counts of a place. Equal counts are the same object, so comparing is cheap."""

    @lru_cache(1_000)
    def build_cached_count(number: int, exact: bool, of: int | None, coverage: EventCoverage | None = None) -> Count:
        return Count(place.name, place.state, number, exact, of, place.has_failures, coverage)

    return build_cached_count


def build_side_key(key: str, suffix: str) -> str:
    """Return the name of a key of rqtui beside another system's `key`, in the same hash slot of a Cluster."""
    slot = key if re.search(r"\{[^}]+\}", key) else f"{{{key}}}"
    return f"rqtui:{slot}:{suffix}"


def convert_rows_to_dicts(reply: Reply) -> list[dict[str, Any]]:
    """Return the table in a script's reply as one dict per row, by column name."""
    return [dict(zip(reply.columns, row, strict=True)) for row in reply.rows]


def build_facts(rows: Iterable[tuple[str, str | int | None, str]]) -> list[Fact]:
    """Build a fact for each row (label, value, kind) whose value is neither None nor an empty text."""
    return [Fact(label, value, kind) for label, value, kind in rows if value is not None and value != ""]


def describe_unread_rest(read: int, total: int, what: str) -> str:
    """Describe how many of `total` jobs or other things (`what`) were read; empty if all were read."""
    return f"{format_long_count(read)} of {format_long_count(total)} {what} were read" if read < total else ""


def _join_backward_pages(pages: Sequence[Page]) -> Page:
    """Join the pages before the end of a place, of which each ends where the previous one begins.

    The first page of the place may reach into its successor, and jobs may be appended between two calls: jobs that the
    pages after it contain are left out.
    """
    last, jobs, first = pages[0], pages[0].jobs, pages[0].offset
    for page in pages[1:]:
        jobs = page.jobs[: max(0, first - page.offset)] + jobs
        first = min(first, page.offset)
    return replace(last, jobs=jobs, offset=first)


def _split_into_ranges(number: int, size: int) -> list[tuple[int, int]]:
    """Split the numbers below `number` into ranges of at most `size`; return their starts and ends."""
    return [(start, min(start + size, number)) for start in range(0, number, size)]


@cache
def load_finding_texts(folder: Path) -> Mapping[str, FindingText]:
    """Load the texts of a system's health findings from `faults.toml`, if there is one.

    Raises ScriptError if the file is invalid.
    """
    path = folder / "faults.toml"
    if not path.is_file():
        return {}
    try:
        return {kind: FindingText(**words) for kind, words in tomllib.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError) as error:
        raise ScriptError(f"lua/{path.parent.name}/{path.name}:1: {error}") from error
