"""Layouts of other systems: their readers follow one contract, so that a system is its places, its keys and a `decode`.

The scripts `counts`, `page`, `show` and `faults` of its folder answer by names that are understood here (the contract
stands in `lua/README.md`). The systems that rqtui did not invent are of this kind; none of them is named here.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from rqtui.errors import ScriptError, ServerError
from rqtui.layout.entries import HEAD_BYTES, Entries, Entry, digest_of
from rqtui.layout.layout import Answers, Ask, Layout, answered, typed, uncounted
from rqtui.layout.overheard import Overheard
from rqtui.model import Count, Finding, Hearing, Job, Page, Place, Queue
from rqtui.scripts.script import Answer
from rqtui.text.formats import age
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import EMPTY_ID

LOOK_BACK = 1000  # entries of each place that are looked through for a digest nobody has seen here
_TYPED_BYTES = 200  # nobody types a longer id; rqtui jobs lists it
_FACTS = frozenset({"now_ms", "exact", "oldest_ms", "due_ms", "deadline_ms", "overdue", "expired", "workers", "paused"})


@dataclass(frozen=True, slots=True)
class Fault:
    """Words for one kind of finding: `{number}` how many, `{id}` an example, `{key}` the key, `{queue}` the queue,
    `{seconds:age}` a duration.

    In the remedy they are quoted for a shell, and `rqtui reap {queue}` names layout and options, too. `key` is what
    helps on a screen, as it is without a keymap.
    """

    severity: str
    text: str
    remedy: str
    key: str = ""


class Number(int):
    """A number in the words of a finding: `{number}` as it is, `{seconds:age}` as `14m28`."""

    def __format__(self, spec: str) -> str:
        return age(self * 1000) if spec == "age" else super().__format__(spec)


class Foreign(Layout):
    """A system of somebody else. `faults` are the words for what its `faults.lua` answers, by kind."""

    tally_at_once: ClassVar[int] = 25  # queues per call of `tally`, where it has one
    page_at_once: ClassVar[int] = 0  # jobs per call of `page`, where each is several reads; 0: as many as are asked for

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.faults = words_of(self.scripts.path)
        self.overheard = Overheard()  # what `overhear` keeps: the jobs of heard places
        self._counters: dict[tuple[str, ...], tuple[str, ...]] = {}

    @cached_property
    def _by_place(self) -> tuple[tuple[Place, Callable[..., Count], str, str, bool], ...]:
        """The places; of each what makes its counts, the names of the values that say whether it is exact, and of how
        many, and whether it is exact though a sample of others is not."""
        has_shared = any(place.is_shared for place in self.places)
        return tuple(
            (place, _counting(place), f"{place.name}_exact", f"{place.name}_of", has_shared and not place.is_shared)
            for place in self.places
        )

    @cached_property
    def _of_places(self) -> frozenset[str]:
        """Names of values that tell of a shared place; no counters."""
        return frozenset(name for _place, _make, *names, _alone in self._by_place for name in names)

    def _counted(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Which of the values of a script are counters; all of its answers have the same names."""
        names = (*values,)
        found = self._counters.get(names)
        if found is None:
            found = self._counters[names] = tuple(n for n in names if n not in _FACTS and n not in self._of_places)
        return found

    # -- what a subclass says -------------------------------------------------------------------------------------

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from the columns of `page` (or the values of `show`); says in `problem` what it cannot read."""
        raise NotImplementedError

    def counters(self, values: Mapping[str, Any]) -> Mapping[str, int]:
        """What of the counts only grows: `in`, `out`, `failed` make the rates."""
        return {}

    # -- derived --------------------------------------------------------------------------------------------------

    def words(self, queue: str) -> str:
        """`LAYOUT:NAME`, with its options where they are not the usual ones: without them it would be another queue."""
        spec, name = self.spec(queue), typed(f"{self.name}:{queue}")
        return f"--layout {typed(spec)} {name}" if spec else name

    def queue_ask(self, queue: str) -> Ask[Queue]:
        """What `counts` answers: a number per place, and what else it knows."""
        return Ask((self.call("counts", queue, {}),), lambda answers: self._queue(queue, answers[0]))

    def queues_ask(self, queues: Sequence[str]) -> Ask[list[Queue]] | None:
        """What `tally` answers, some queues per call: the columns of `counts`, a row per queue. None without it."""
        script = self.scripts.get("tally")
        if script is None:
            return None
        every = [self.keys(queue) for queue in queues]
        of_all = {key.name: every[0][key.name] for key in script.keys}
        names = [key.name for key in script.keys_each]
        args = {arg.name: self.options[arg.name] for arg in script.args if arg.name in self.options}
        calls = [
            script.call(of_all, args, each_keys=[[keys[name] for name in names] for keys in every[at:end]])
            for at, end in _parts(len(every), self.tally_at_once)
        ]

        def read(answers: Answers) -> list[Queue]:
            told = [
                Answer("counted", values={**answer.values, **row})
                for answer in map(answered, answers)
                for row in rows_by_name(answer)
            ]
            return [self._queue(queue, answer) for queue, answer in zip(queues, told, strict=True)]

        return Ask(tuple(calls), read)

    def page_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """What `page` answers, in the order of the place; offset -1 is the last page.

        A long page is several calls in one round trip, where the system says so.
        """
        place, size = self.place(place).name, self.page_at_once
        if self.is_heard(place):
            return Ask((), lambda _answers: self._heard_page(queue, place, offset, limit))
        if offset < 0 or not size or limit <= size:
            return self._part_ask(queue, place, offset, limit, body_bytes)
        asks = [self._part_ask(queue, place, offset + at, end - at, body_bytes) for at, end in _parts(limit, size)]

        def read(answers: Answers) -> Page:
            pages = [ask.read([answer]) for ask, answer in zip(asks, answers, strict=True)]
            jobs = tuple(job for page in pages for job in page.jobs)
            following = offset + len(jobs)
            return replace(pages[0], jobs=jobs, next=following if jobs and following < pages[0].total else None)

        return Ask(tuple(call for ask in asks for call in ask.calls), read)

    def _part_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        args = {"place": place, "offset": offset, "limit": limit, "body_bytes": body_bytes}
        call = self.call("page", queue, args)
        return Ask((call,), lambda answers: self._page(queue, place, offset, limit, answers[0]))

    def scan_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """Of a shared place what `scan` answers; of any other a page."""
        place = self.place(place).name
        if "scan" not in self.scripts or not self.is_shared(place):
            return self.page_ask(queue, place, offset, limit, body_bytes)
        args = {"place": place, "offset": offset, "limit": limit, "body_bytes": body_bytes}
        call = self.call("scan", queue, args)
        return Ask((call,), lambda answers: self._scanned(queue, place, offset, answers[0]))

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """What `show` answers; else what was heard of the job."""
        call = self.call("show", queue, {"id": id, "body_bytes": body_bytes})
        return Ask((call,), lambda answers: self._shown(queue, answers[0]) or self.overheard.job(queue, id))

    def inspect_ask(self, queue: str) -> Ask[tuple[Finding, ...]] | None:
        """What `faults` answers, in words."""
        if "faults" not in self.scripts:
            return None
        return Ask((self.call("faults", queue, {}),), lambda answers: self._findings(queue, answers[0]))

    def _queue(self, queue: str, answer: Answer | Exception) -> Queue:
        if isinstance(answer, ServerError):
            return uncounted(queue, self.name, answer)
        if isinstance(answer, Exception):
            raise answer
        v: Mapping[str, Any] = answer.values
        now = v["now_ms"]
        self.hear(now)
        exact = bool(v.get("exact", True))

        def at(name: str) -> int | None:
            value = v.get(name)
            return int(value) if value is not None and value != "" and value >= 0 else None

        due, deadline = at("due_ms"), at("deadline_ms")
        return Queue(
            queue,
            self.name,
            counts=tuple(
                [
                    self._heard_count(queue, place, make)
                    if place.is_heard
                    else make(v[place.name], bool(v.get(is_exact, exact or is_alone)), v.get(of))
                    for place, make, is_exact, of, is_alone in self._by_place
                ]
            ),
            counted_ms=now,
            paused=bool(v.get("paused")),
            workers=at("workers"),
            oldest_ready_ms=at("oldest_ms"),
            next_due_ms=None if due is None else due - now,
            next_expiry_ms=None if deadline is None else deadline - now,
            overdue=v.get("overdue", 0),
            expired=v.get("expired", 0),
            counters={
                **self.counters(v),
                **{name: value for name in self._counted(v) if isinstance(value := v[name], int)},
            },
        )

    def _heard_count(self, queue: str, place: Place, make: Callable[..., Count]) -> Count:
        counted, hearing = self.overheard.count(queue, place.name), self.hearing
        of = counted.of_all if hearing.since_ms is not None else None
        if given := self.overheard.given(queue, place.name):
            hearing = hearing._replace(given=given)
        return make(counted.of_queue, hearing.is_whole, of, hearing)

    def _heard_page(self, queue: str, place: str, offset: int, limit: int) -> Page:
        """What is remembered of it, the newest first."""
        number = self.overheard.count(queue, place).of_queue
        total, first, jobs = self.overheard.page(queue, place, offset, limit)
        following = first + len(jobs)
        return Page(
            queue,
            self.name,
            place,
            jobs,
            total,
            self.hearing.is_whole,
            first,
            following if jobs and following < total else None,
            of=number if number > total else None,
            heard=self.hearing,
        )

    def _page(self, queue: str, place: str, offset: int, limit: int, answer: Answer | Exception) -> Page:
        if isinstance(answer, ServerError):
            return Page(queue, self.name, place, (), 0, error=str(answer))
        if isinstance(answer, Exception):
            raise answer
        v: Mapping[str, Any] = answer.values
        self.hear(v["now_ms"])
        jobs = self.decode_rows(queue, place, rows_by_name(answer), v["now_ms"])
        first = offset if offset >= 0 else max(0, v["total"] - limit)
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
            of=v.get("of"),
        )

    def _scanned(self, queue: str, place: str, offset: int, answer: Answer | Exception) -> Page:
        page = self._page(queue, place, offset, 0, answer)
        return page if page.error or isinstance(answer, Exception) else replace(page, next=answer.values["next"])

    def decode_rows(self, queue: str, place: str, rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[Job]:
        """The jobs of a page; equal ids get numbers, since an id tells two rows apart."""
        seen: Counter[bytes] = Counter()
        jobs = []
        for row in rows:
            job = self.decode(queue, place, row, now_ms)
            seen[job.id] += 1
            jobs.append(job if seen[job.id] == 1 else replace(job, id=b"%s.%d" % (job.id, seen[job.id])))
        return jobs

    def _shown(self, queue: str, answer: Answer | Exception) -> Job | None:
        answer = answered(answer)
        if answer.word != self.scripts["show"].done_word:
            return None
        self.hear(answer.values["now_ms"])
        return self.decode(queue, answer.values["place"], answer.values, answer.values["now_ms"])

    def _findings(self, queue: str, answer: Answer | Exception) -> tuple[Finding, ...]:
        """Where a kind has several remedies, which of them fits stands behind a colon."""
        if isinstance(answer, ServerError):
            return uncounted(queue, self.name, answer).findings  # the key that the counts do not look at, or they too
        if isinstance(answer, Exception):
            raise answer
        found = []
        for row in rows_by_name(answer):
            fault = self.faults[row["kind"]]
            id: bytes = row["id"]
            numbers = {name: Number(value) for name, value in row.items() if isinstance(value, int)}
            words = {**row, **numbers, "id": id[:60].decode("utf-8", "backslashreplace") or EMPTY_ID, "queue": queue}
            # A remedy is pasted into a shell, and an id may hold anything.
            quoted = {name: typed(value) if isinstance(value, str | bytes) else value for name, value in row.items()}
            quoted |= {"id": typed(id) if len(id) <= _TYPED_BYTES else "ID", "queue": self.words(queue)}
            remedy = fault.remedy.replace(f"{self.name}:{{queue}}", "{queue}")
            found.append(
                Finding(
                    row["kind"].partition(":")[0].replace("_", "-"),
                    fault.severity,
                    queue,
                    fault.text.format(**words),
                    remedy.format(**quoted),
                    (row["key"],) if row["key"] else (),
                    (id,) if id else (),
                    key=fault.key,
                    jobs=row.get("number", 0),
                    since_ms=row.get("since_ms"),
                    until_ms=row.get("until_ms"),
                )
            )
        return tuple(found)

    def taken(self, queue: str, answer: Answer) -> tuple[Job, ...]:
        """The jobs in the answer of `reserve` or `pull`, whose rows have the columns of `page`."""
        reserved = next((place.name for place in self.places if place.state == "reserved"), "")
        place = reserved or self.scripts["pull"].sources[0]
        now_ms: Any = answer.values.get("now_ms", 0)
        return tuple(self.decode_rows(queue, place, rows_by_name(answer), now_ms)) if answer.rows else ()


class Entrywise(Foreign):
    """A system whose jobs are their bytes. Rows have the columns `head size tail`; `show` is asked for those three."""

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        super().__init__(*options, is_asked=is_asked)
        self.entries = Entries()

    def decode_entry(self, queue: str, place: str, entry: Entry, row: Mapping[str, Any], now_ms: int) -> Job:
        """A job from an entry and the other columns; its id is set by the caller."""
        raise NotImplementedError

    def decode(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int) -> Job:
        """One entry, alone."""
        return self._named(queue, place, row, now_ms, Counter())

    def decode_rows(self, queue: str, place: str, rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[Job]:
        """The entries of a page."""
        seen: Counter[bytes] = Counter()
        return [self._named(queue, place, row, now_ms, seen) for row in rows]

    def id_of(self, row: Mapping[str, object]) -> bytes:
        """The digest of the bytes."""
        body = row["body"]
        return Entry.of(body if isinstance(body, bytes) else to_bytes(str(body))).digest

    def _named(self, queue: str, place: str, row: Mapping[str, Any], now_ms: int, seen: Counter[bytes]) -> Job:
        entry = Entry.of_row(row)
        job = self.decode_entry(queue, place, entry, row, now_ms)
        return replace(
            job,
            id=self.entries.name(entry, seen),
            member=entry.head,
            body=entry.head if entry.is_whole else None,
            body_bytes=entry.size,
            is_partial=not entry.is_whole,
        )

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """By a digest that was seen here, by the bytes themselves, or by a digest among the first of each place."""
        known = self.entries.find(id)
        entry = known or Entry.of(id)
        args = {"head": entry.head, "size": entry.size, "tail": entry.tail, "body_bytes": body_bytes}
        calls = [self.call("show", queue, args)]
        if known is None:
            calls += [
                self.call("page", queue, {"place": p.name, "offset": 0, "limit": LOOK_BACK, "body_bytes": HEAD_BYTES})
                for p in self.places
            ]
        return Ask(tuple(calls), lambda answers: self._found(queue, id, answers))

    def _found(self, queue: str, id: bytes, answers: Answers) -> Job | None:
        job = self._shown(queue, answers[0])
        if job is not None:
            return replace(job, id=id if self.entries.find(id) else job.id)
        for place, answer in zip(self.places, answers[1:], strict=False):
            jobs = self._page(queue, place.name, 0, LOOK_BACK, answer).jobs
            if match := next((job for job in jobs if job.id == id or digest_of(job.id) == id), None):
                return replace(match, id=id)
        return None


def _counting(place: Place) -> Callable[..., Count]:
    """Makes the counts of a place, the same object for the same count: who looks again sees at once that nothing
    changed."""

    @lru_cache(1_000)
    def make(number: int, exact: bool, of: int | None, heard: Hearing | None = None) -> Count:
        return Count(place.name, place.state, number, exact, of, place.failures, heard)

    return make


def side_key(key: str, what: str) -> str:
    """A key of rqtui's own beside another system's `key`, in the same slot of a Cluster."""
    slot = key if re.search(r"\{[^}]+\}", key) else f"{{{key}}}"
    return f"rqtui:{slot}:{what}"


def rows_by_name(answer: Answer) -> list[dict[str, Any]]:
    """The table of an answer, a mapping per row."""
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _parts(number: int, size: int) -> list[tuple[int, int]]:
    """`number` things in parts of at most `size`: where each begins and ends."""
    return [(at, min(at + size, number)) for at in range(0, number, size)]


@cache
def words_of(folder: Path) -> Mapping[str, Fault]:
    """The findings of a system in words, by its `faults.toml`, if there is one. Raises ScriptError for a broken one."""
    path = folder / "faults.toml"
    if not path.is_file():
        return {}
    try:
        return {kind: Fault(**words) for kind, words in tomllib.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError) as error:
        raise ScriptError(f"lua/{path.parent.name}/{path.name}:1: {error}") from error
