"""Engine: one connection and some layouts; snapshots, acts and findings, for the screen and the command line alike.

It names no layout and knows no thread: `tick.py` runs it on a thread of its own for the screen, the command line
calls it directly. A snapshot is one pipeline, whatever the number of queues or jobs. What takes long (discovery,
filter scans, acts on many jobs) is a generator that makes one round trip per step, so that whoever runs it can look
up in between.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rqtui import health, scripts
from rqtui.errors import Denied, ReadOnly, UsageError, WrongType
from rqtui.layout import CHUNK, Answers, Ask, Layout, heard, sources, targets, typed
from rqtui.model import Cost, Finding, Focus, Job, Outcome, Page, Queue, Rate, Ref, Snapshot, Worker
from rqtui.server import translated

T = TypeVar("T")
EVERYTHING = Focus()
HISTORY = 60  # ticks of throughput that are remembered for the sparkline
WALK = 5000  # keys per step of the walk for queues: 2 ms of the server
INSPECT_S = 10.0  # between two looks for a system's own faults in one queue
INSPECTIONS = 20  # per tick


class Engine:
    """Looks at and changes the queues of one Redis through the layouts it is given.

    `client` is a connection as `server.connect` makes it. Changes raise ReadOnly while `read_only` is set. `others` are
    names of layouts that it was not given: `OTHER:mail` is then refused, and not taken for the name of a queue.
    """

    def __init__(
        self, client: Any, layouts: Sequence[Layout], read_only: bool = False, others: Collection[str] = ()
    ) -> None:
        self.client = client
        self.layouts = {layout.name: layout for layout in layouts}
        self.read_only, self.others = read_only, others
        self.refs: list[Ref] = []
        self._has_walked = False
        self._last: dict[Ref, tuple[float, Mapping[str, int]]] = {}
        self._history: dict[Ref, deque[float]] = {}
        self._inspected: dict[Ref, tuple[float, tuple[Finding, ...]]] = {}

    # -- looking --------------------------------------------------------------------------------------------------

    def discover(self) -> Iterator[list[Ref]]:
        """Finds queues, a round trip or two per step, and remembers them; yields what each step found.

        First what each layout can ask for directly, then one walk over all keys for the patterns of all layouts.
        """
        found: set[Ref] = set()
        for layout in self.layouts.values():
            steps = layout.discover(self.client)
            while True:
                names = self._unless_denied(layout, next, steps, None)
                if names is None:
                    break
                chunk = [Ref(layout.name, name) for name in names]
                found.update(chunk)
                yield chunk
        for spotted in self._walk():
            fresh = [ref for ref in spotted if ref not in found]
            found.update(fresh)
            yield fresh
        keep = {ref for ref in self.refs if ref not in found and ref in self._last}
        self.refs = sorted(found | keep, key=lambda ref: (ref.queue, ref.layout))

    def _walk(self) -> Iterator[list[Ref]]:
        """A bounded step over the keyspace at a time; nothing where an ACL denies SCAN."""
        self._has_walked = True
        patterns = [(layout, pattern) for layout in self.layouts.values() for pattern in layout.patterns]
        script = scripts.load("shared")["walk"]
        cursor = "0"
        while patterns:
            call = script.call({}, {"cursor": cursor, "limit": WALK}, [(pattern,) for _layout, pattern in patterns])
            try:
                answer = scripts.run(self.client, call)
            except Denied:
                return
            keys: dict[str, list[bytes]] = {}
            for number, key in answer.rows:
                keys.setdefault(patterns[number - 1][0].name, []).append(key)
            spotted: list[Ref] = []
            for name, found in keys.items():
                layout = self.layouts[name]
                names = self._unless_denied(layout, layout.spotted, self.client, found)
                spotted += [Ref(name, queue) for queue in names or ()]
            yield spotted
            cursor = answer.values["cursor"]
            if cursor == "0":
                return

    def seek(self, name: str) -> Ref:
        """The queue that a name means, as `find`; asks the layouts, a round trip each, for one not seen yet."""
        layout_name, colon, rest = name.partition(":")
        if not (colon and layout_name in self.layouts) and not any(ref.queue == name for ref in self.refs):
            seen = [
                Ref(layout.name, name)
                for layout in self._able(name)
                if self._unless_denied(layout, layout.recognises, self.client, name)
            ]
            self.refs = sorted([*self.refs, *seen], key=lambda ref: (ref.queue, ref.layout))
        found = self.find(name)
        if self.layouts[found.layout].learns_by_walk and not self._has_walked:
            for _spotted in self._walk():
                pass
        return found

    def _unless_denied(self, layout: Layout, look: Callable[..., T], *args: Any) -> T | None:
        """What `look` finds; None where an ACL keeps a system that nobody asked for out of sight."""
        try:
            with translated():
                return look(*args)
        except Denied:
            if layout.is_asked:
                raise
            return None

    def _able(self, name: str) -> Iterator[Layout]:
        """The layouts in which a queue can have that name."""
        for layout in self.layouts.values():
            with contextlib.suppress(UsageError):
                layout.keys(name)
                yield layout

    def find(self, name: str) -> Ref:
        """The queue that `NAME` or `LAYOUT:NAME` means.

        A name that stands in two layouts raises UsageError; a name that nobody has seen is a native queue.
        """
        layout_name, colon, rest = name.partition(":")
        if colon and layout_name in self.layouts:
            self.layouts[layout_name].keys(rest)
            return Ref(layout_name, rest)
        matches = [ref for ref in self.refs if ref.queue == name]
        if len(matches) > 1:
            raise UsageError(
                f'"{name}" stands in {" and ".join(ref.layout for ref in matches)}: say which, as LAYOUT:{name}.'
            )
        if matches:
            return matches[0]
        if colon and layout_name in self.others:
            raise UsageError(f'"{name}" means the layout {layout_name}, which --layout leaves out: name it as well.')
        first = "native" if "native" in self.layouts else next(iter(self.layouts))
        self.layouts[first].keys(name)
        return Ref(first, name)

    def words(self, ref: Ref) -> str:
        """What means this queue on a command line."""
        words = self.layouts[ref.layout].words(ref.queue)
        is_shared = sum(known.queue == ref.queue for known in self.refs) > 1
        return f"{ref.layout}:{words}" if is_shared and words == typed(ref.queue) else words

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """Counts of the focused queues, pages and job in one round trip; raises ServerError when there is no answer."""
        refs = self.refs if focus.queues is None else [*focus.queues]
        queue_asks = [self.layouts[ref.layout].queue_ask(ref.queue) for ref in refs]
        page_asks = [
            self.layouts[wish.ref.layout].page_ask(wish.ref.queue, wish.place, wish.offset, wish.limit, wish.body_bytes)
            for wish in focus.pages
        ]
        job_asks = []
        if focus.job:
            ref, id = focus.job
            job_asks = [_unless_wrong_type(self.layouts[ref.layout].job_ask(ref.queue, id, focus.job_body_bytes))]
        began = time.monotonic()
        inspections = self._inspections(refs, began)
        asks: list[Ask[Any]] = [*queue_asks, *page_asks, *job_asks, *inspections.values()]
        answers = self.ask_all(asks)
        for ref, found in zip(inspections, answers[len(asks) - len(inspections) :], strict=True):
            self._inspected[ref] = (began, found)
        cost = Cost(sum(len(ask.calls) for ask in asks), 1 if asks else 0, (time.monotonic() - began) * 1000)
        queues: list[Queue] = answers[: len(refs)]
        pages: list[Page] = answers[len(refs) : len(refs) + len(page_asks)]
        queues = [self._with_findings(ref, queue) for ref, queue in zip(refs, queues, strict=True)]
        rates = {ref: self._rate(ref, queue, began) for ref, queue in zip(refs, queues, strict=True) if not queue.error}
        judged = tuple(health.judged(queue, rates.get(ref)) for ref, queue in zip(refs, queues, strict=True))
        taken_ms = max((queue.counted_ms for queue in queues), default=0) or int(time.time() * 1000)
        job = answers[len(refs) + len(pages)] if job_asks else None
        return Snapshot(taken_ms, judged, tuple(pages), job, rates, cost)

    def _inspections(self, refs: Sequence[Ref], now_s: float) -> dict[Ref, Ask[tuple[Finding, ...]]]:
        """The looks for faults that are due, those that were longest ago first."""
        made: dict[Ref, Ask[tuple[Finding, ...]]] = {}
        never = (-INSPECT_S, ())
        for ref in sorted(refs, key=lambda ref: self._inspected.get(ref, never)[0]):
            if len(made) == INSPECTIONS or now_s - self._inspected.get(ref, never)[0] < INSPECT_S:
                break
            ask = self.layouts[ref.layout].inspect_ask(ref.queue)
            if ask is not None:
                made[ref] = ask
        return made

    def _with_findings(self, ref: Ref, queue: Queue) -> Queue:
        _at_s, found = self._inspected.get(ref, (0.0, ()))
        named = {finding.keys for finding in queue.findings if finding.kind == "wrong-type"}
        fresh = [one for one in found if one.kind != "wrong-type" or one.keys not in named]
        return replace(queue, findings=(*queue.findings, *fresh)) if fresh else queue

    def page(self, ref: Ref, place: str, offset: int = 0, limit: int = 50, body_bytes: int = 0) -> Page:
        """One page of a place."""
        return self.ask(self.layouts[ref.layout].page_ask(ref.queue, place, offset, limit, body_bytes))

    def job(self, ref: Ref, id: bytes, body_bytes: int = 65536) -> Job | None:
        """All about one job, None when there is no such job."""
        return self.ask(self.layouts[ref.layout].job_ask(ref.queue, id, body_bytes))

    def workers(self, ref: Ref) -> tuple[Worker, ...]:
        """Who works on a queue."""
        return self.ask(self.layouts[ref.layout].workers_ask(ref.queue))

    def scan(
        self, ref: Ref, place: str, accepts: Callable[[Job], bool], body_bytes: int = 4096, chunk: int = 200
    ) -> Iterator[list[Job]]:
        """The jobs of a place that `accepts` lets through, a round trip per step.

        The place may change meanwhile: what left is missed, what moved is met once or twice, and every act on it is
        answered per id.
        """
        offset: int | None = 0
        while offset is not None:
            page = self.page(ref, place, offset, chunk, body_bytes)
            if page.error:
                raise WrongType(page.error)
            yield [job for job in page.jobs if accepts(job)]
            offset = page.next

    def ask(self, ask: Ask[T]) -> T:
        """Sends one ask; a failure of any call is raised."""
        return ask.read(heard(scripts.run_all(self.client, ask.calls)))

    def ask_all(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Sends asks in one pipeline; a lost connection raises, an error of one ask is that ask's to read."""
        answers = heard(scripts.run_all(self.client, [call for ask in asks for call in ask.calls]))
        results, at = [], 0
        for ask in asks:
            results.append(ask.read(answers[at : at + len(ask.calls)]))
            at += len(ask.calls)
        return results

    # -- changing -------------------------------------------------------------------------------------------------

    def act(
        self, name: str, ref: Ref, jobs: Sequence[Job] = (), form: Mapping[str, object] | None = None
    ) -> list[Outcome]:
        """Does a verb at once; an outcome per job, or one for the queue. See `acts` for many jobs."""
        return [outcome for chunk in self.acts(name, ref, jobs, form) for outcome in chunk]

    def acts(
        self, name: str, ref: Ref, jobs: Sequence[Job] = (), form: Mapping[str, object] | None = None
    ) -> Iterator[list[Outcome]]:
        """Does a verb, a chunk of jobs per step.

        Raises ReadOnly or UsageError before anything is sent. When the connection is lost in between, the chunk that
        was under way answers `unknown` and the rest `not sent`; nothing is sent again.
        """
        layout = self.layouts[ref.layout]
        if self.read_only and not layout.script(name).read_only:
            raise ReadOnly(f"{name} changes the queue, and this session is read-only.")
        if any(job.is_partial for job in jobs):
            return self._acts_on_whole(name, ref, jobs, dict(form or {}))
        asks = layout.act_asks(name, ref.queue, jobs, dict(form or {}))
        return self._send(name, asks)

    def _acts_on_whole(
        self, name: str, ref: Ref, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> Iterator[list[Outcome]]:
        """Fetches members that are too long for a page, one at a time, and acts on each at once."""
        layout = self.layouts[ref.layout]
        short = [job for job in jobs if not job.is_partial]
        if short:
            yield from self._send(name, layout.act_asks(name, ref.queue, short, form))
        for job in jobs:
            if job.is_partial:
                whole = self.ask(layout.job_ask(ref.queue, job.id, -1))
                if whole is None or whole.is_partial or whole.place != job.place:
                    yield [Outcome(name, job.id, "gone", "it is not there any more")]
                else:
                    yield from self._send(name, layout.act_asks(name, ref.queue, [replace(whole, id=job.id)], form))

    def acts_on_place(
        self, name: str, ref: Ref, place: str, form: Mapping[str, object] | None = None
    ) -> Iterator[list[Outcome]]:
        """Does a verb to every job that stands in `place` now, a chunk per step; those that come later are left."""
        script = self.layouts[ref.layout].script(name)
        if not sources(script) or place in targets(script):
            yield from self._acts_on_those_who_stay(name, ref, place, form)
            return
        page = self.page(ref, place, 0, CHUNK)
        total, seen, offset = page.total if page.of is None else page.of, 0, 0
        while page.jobs and seen < total:
            jobs = page.jobs[: total - seen]
            outcomes = self.act(name, ref, jobs, form)
            seen += len(jobs)
            offset += sum(not outcome.moved for outcome in outcomes)
            yield outcomes
            if any(outcome.word in ("unknown", "not sent", "error") for outcome in outcomes):
                return
            page = self.page(ref, place, offset, CHUNK)

    def _acts_on_those_who_stay(
        self, name: str, ref: Ref, place: str, form: Mapping[str, object] | None
    ) -> Iterator[list[Outcome]]:
        """For a verb that only moves jobs inside the place: all are listed first, since it changes their order."""
        jobs: list[Job] = []
        page = self.page(ref, place, 0, CHUNK)
        while page.jobs and len(jobs) < page.total:
            jobs += page.jobs
            yield []
            page = self.page(ref, place, len(jobs), CHUNK)
        listed = list({job.id: job for job in jobs}.values())
        for start in range(0, len(listed), CHUNK):
            outcomes = self.act(name, ref, listed[start : start + CHUNK], form)
            yield outcomes
            if any(outcome.word in ("unknown", "not sent", "error") for outcome in outcomes):
                return

    def announce(self, ref: Ref) -> None:
        """Writes a queue's name where discovery finds it at once, after its first job was accepted."""
        layout = self.layouts[ref.layout]
        with translated():
            layout.announce(self.client, ref.queue)
        if ref not in self.refs:
            self.refs = sorted([*self.refs, ref], key=lambda known: (known.queue, known.layout))

    def retire(self, ref: Ref) -> None:
        """Takes a queue's name away again, after the whole queue was purged."""
        with translated():
            self.layouts[ref.layout].retire(self.client, ref.queue)
        self.refs = [known for known in self.refs if known != ref]

    def _send(self, name: str, asks: Sequence[Ask[list[Outcome]]]) -> Iterator[list[Outcome]]:
        done = 0
        for ask in asks:
            outcomes = ask.read(scripts.run_all(self.client, ask.calls))
            done += len(outcomes)
            yield outcomes
            if outcomes and outcomes[-1].word in ("unknown", "not sent"):
                rest = [job for other in asks for job in other.jobs][done:]
                yield [Outcome(name, job.id, "not sent", outcomes[-1].text) for job in rest]
                return

    # -- judging --------------------------------------------------------------------------------------------------

    def findings(self, refs: Sequence[Ref]) -> list[Finding]:
        """What is wrong with these queues and with the server."""
        snapshot = self.snapshot(Focus(queues=tuple(refs)))
        found = [finding for queue in snapshot.queues for finding in queue.findings]
        return [*found, *health.server_findings(self.client)]

    def _rate(self, ref: Ref, queue: Queue, now_s: float) -> Rate:
        before = self._last.get(ref)
        self._last[ref] = (now_s, queue.counters)
        history = self._history.setdefault(ref, deque(maxlen=HISTORY))
        if before is None or now_s - before[0] <= 0:
            return Rate(history=tuple(history))
        seconds, old = now_s - before[0], before[1]

        def per_second(name: str) -> float:
            return max(0, queue.counters.get(name, 0) - old.get(name, 0)) / seconds

        history.append(per_second("out"))
        return Rate(per_second("in"), per_second("out"), per_second("failed"), tuple(history))


def _unless_wrong_type(ask: Ask[Job | None]) -> Ask[Job | None]:
    """No job where a key of its queue is of another type: the counts of the same tick say so, and all else is shown."""

    def read(answers: Answers) -> Job | None:
        return None if any(isinstance(answer, WrongType) for answer in answers) else ask.read(answers)

    return replace(ask, read=read)


def with_layouts(client: Any, layouts: Sequence[Layout], read_only: bool = False) -> Engine:
    """An engine that has looked for queues once."""
    engine = Engine(client, layouts, read_only)
    for _chunk in engine.discover():
        pass
    return engine
