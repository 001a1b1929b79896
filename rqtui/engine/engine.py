"""Engine: one connection and some layouts; snapshots, acts and findings, for the screen and the command line alike.

It names no layout and knows no thread: `engine/ticker.py` runs it on a thread of its own for the screen, the command
line calls it directly. A snapshot is one pipeline, whatever the number of jobs and for up to a thousand queues, and a
second one for queues that are told not to be at rest any more, or that fail with others. What takes long (discovery,
filter scans, acts on many jobs) is a generator that makes one round trip per step, so that whoever runs it can look up
in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from rqtui.config import thresholds
from rqtui.config.thresholds import Thresholds
from rqtui.connection.connect import translated
from rqtui.engine import health
from rqtui.engine.counts import Counting
from rqtui.engine.discovery import Discovery
from rqtui.engine.inspection import AFTERWARDS, AT_FIRST, KINDS, Inspections
from rqtui.engine.judging import Judging
from rqtui.engine.listening import Listening
from rqtui.engine.rates import Rates
from rqtui.errors import ReadOnly, Refused, RqtuiError, ServerError, WrongType, reason
from rqtui.layout.layout import CHUNK, Answers, Ask, Layout, apart, heard, page_ask
from rqtui.model import Cost, Finding, Focus, Job, Outcome, Page, PageWish, Queue, Ref, Snapshot, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call
from rqtui.text.sanitise import safe

log = logging.getLogger("rqtui.engine")

T = TypeVar("T")
EVERYTHING = Focus()
PART = 1000  # queues counted per trip: what is asked and answered takes 3 kB of memory for each
FALLS_UNDER = {"purge": "delete"}  # who may not delete a job may not delete a place of them


class Kept(Protocol):
    """Jobs that were written down before a change; `before` and `after` are sent with it, in the same round trip."""

    @property
    def before(self) -> tuple[Call, ...]: ...
    @property
    def after(self) -> tuple[Call, ...]: ...
    def told(self, outcomes: Sequence[Outcome], before: Answers, after: Answers) -> None:
        """What became of them."""


class Keeper(Protocol):
    """Keeps jobs as they were before a change, to undo it (`undo.Keeper`); `problem` says why it cannot be undone."""

    problem: str

    def expect(self, verb: str, ref: Ref, total: int) -> None:
        """Takes note that a change of `total` jobs begins."""

    def keep(
        self, engine: Engine, verb: str, ref: Ref, jobs: Sequence[Job], rows_of: Sequence[Mapping[str, object]]
    ) -> Kept | None:
        """Writes these jobs down; None where the verb cannot be undone. `rows_of`: what its script is told of each."""

    def changed(self, verb: str, ref: Ref, outcomes: Sequence[Outcome]) -> None:
        """Records the outcomes."""

    def stopped(self, verb: str, ref: Ref, words: str) -> None:
        """The change under way was stopped; `words` say by what, after how many."""

    def instead(
        self, engine: Engine, verb: str, ref: Ref, form: Mapping[str, object]
    ) -> Iterator[list[Outcome]] | None:
        """Another way to do the same that can be undone; None: there is none, or none is needed."""


class Sought(NamedTuple):
    """Jobs found by an id, each with its queue; the systems in which none was looked up; queues that gave an error."""

    jobs: tuple[tuple[Ref, Job], ...]
    systems: tuple[str, ...] = ()
    failed: int = 0


class Engine(Discovery):
    """Looks at and changes the queues of one Redis through the layouts it is given.

    `client` is a connection as `connect` makes it. Changes raise ReadOnly while `read_only` is set. `others` are
    names of layouts that it was not given: `OTHER:mail` is then refused, and not taken for the name of a queue.
    `denied` are pairs of a queue's pattern (as of a shell) and the verbs refused there, by the profile of that name;
    `limits` are pairs of such a pattern and what is a finding there. `left_out` are sentences about
    systems that cannot be used. `walks` and `walks_all`: see `Discovery`.
    """

    def __init__(
        self,
        client: Any,
        layouts: Sequence[Layout],
        read_only: bool = False,
        others: Collection[str] = (),
        *,
        denied: Sequence[tuple[str, tuple[str, ...]]] = (),
        profile: str = "",
        limits: thresholds.Rules = (),
        left_out: Sequence[str] = (),
        walks: Path | None = None,
        walks_all: bool = False,
    ) -> None:
        super().__init__(client, layouts, others, left_out, walks, walks_all)
        self.read_only = read_only
        self.denied, self.profile = tuple(denied), profile
        self.keeper: Keeper | None = None
        self.warnings: tuple[Finding, ...] = ()  # about the server; whoever runs the engine looks now and then
        self._rates = Rates()
        self._inspections = Inspections(self.layouts)
        self._limits, self._limits_of = tuple(limits), dict[Ref, Thresholds]()
        self._judging = Judging(self.layouts, self._rates, self._inspections, self.limits)
        self._counting = Counting(self.layouts)
        self.on_counted: Callable[[Mapping[Ref, Queue]], None] = lambda _queues: None  # told of each picture's counts
        self._listening: Listening | None = None

    # -- looking --------------------------------------------------------------------------------------------------

    def is_counted(self, ref: Ref) -> bool:
        """Whether it was counted before."""
        return ref in self._rates

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """Counts of the focused queues, pages and job in a round trip, or two, and one more for each other `PART` of
        queues; raises ServerError without an answer."""
        refs = self.refs if focus.queues is None else [*focus.queues]
        if self._listening is not None:
            self._listening.look(self.layouts[name] for name in dict.fromkeys(ref.layout for ref in refs))
            self._listening.hand_on()
        groups: dict[object, Sequence[Ask[Any]]] = {
            "queues": self._counting.asks(self.client, refs[:PART]),
            "pages": [self._page_ask(wish) for wish in focus.pages],
            "job": self._job_asks(focus),
            **{("asks", name): [_or_its_error(ask) for ask in asks] for name, asks in focus.asks.items()},
        }
        began = time.monotonic()
        inspections = self._inspections.asks(refs, began, KINDS)
        groups["inspections"] = [*inspections.values()]
        sent = _commands(ask for asks in groups.values() for ask in asks)  # before they are read: some change then
        trips = 1 if sent else 0
        answers = self._ask_groups(groups)
        marks = self._inspections.take(dict(zip(inspections, answers["inspections"], strict=True)), began)
        is_answered = any(asks for name, asks in groups.items() if name != "queues")
        queues, besides = self._counting.read(answers["queues"], self.ask_all, is_answered=is_answered)
        sent, trips = sent + sum(map(_commands, besides)), trips + len(besides)
        for at in range(PART, len(refs), PART):
            asks = self._counting.asks(self.client, refs[at : at + PART])
            sent, trips = sent + _commands(asks), trips + 1
            more, besides = self._counting.read(self.ask_all(asks), self.ask_all, is_answered=True)
            sent, trips = sent + sum(map(_commands, besides)), trips + len(besides)
            queues += more
        counted = dict(zip(refs, queues, strict=True))
        self.on_counted(counted)
        rates = {ref: self._rates.since_last(ref, queue, began) for ref, queue in counted.items() if not queue.error}
        judged = self._judging.judged(counted, rates, marks)
        if focus.is_thorough:
            for kinds in (AT_FIRST, AFTERWARDS):
                looks = self._inspections.asks(refs, began, kinds, is_all=True)
                heard_of = self.ask_all([replace(ask, may_fail=True) for ask in looks.values()]) if looks else []
                found = dict(zip(looks, heard_of, strict=True))
                judged = self._judging.judged(counted, rates, self._inspections.take(found, began))
                sent, trips = sent + _commands(looks.values()), trips + bool(looks)
        cost = Cost(sent, trips, (time.monotonic() - began) * 1000)
        taken_ms = self.taken_ms(queues)
        (job,) = answers["job"] or (None,)
        told = {name: tuple(answers["asks", name]) for name in focus.asks}
        shown = tuple(judged[ref] for ref in refs)
        return Snapshot(taken_ms, shown, tuple(answers["pages"]), job, rates, cost, told, refs=tuple(refs))

    def listen(self) -> None:
        """From now on systems that publish what they keep nowhere are listened to, once a queue of one is looked at.

        For whoever looks again and again, and calls `close` at the end.
        """
        if self._listening is None:
            self._listening = Listening(self.client)

    @property
    def is_listening(self) -> bool:
        """Whether `overhear` should be called now and then."""
        return self._listening is not None and self._listening.is_open

    def overhear(self) -> None:
        """Brings what was heard to the layouts; a snapshot does so, too."""
        if self._listening is not None:
            self._listening.hand_on()

    def close(self) -> None:
        """Listens no more; the client is whose it was."""
        if self._listening is not None:
            self._listening.close()

    def limits(self, ref: Ref) -> Thresholds:
        """From when on a number about that queue is a finding."""
        if not self._limits:
            return thresholds.DEFAULTS
        found = self._limits_of.get(ref)
        if found is None:
            found = self._limits_of[ref] = thresholds.of(self._limits, _names(ref))
        return found

    def _page_ask(self, wish: PageWish) -> Ask[Page]:
        layout = self.layouts[wish.ref.layout]
        return page_ask(layout, wish.ref.queue, wish.place, wish.offset, wish.limit, wish.body_bytes)

    def _job_asks(self, focus: Focus) -> list[Ask[Job | None]]:
        if focus.job is None:
            return []
        ref, id = focus.job
        layout = self.layouts[ref.layout]
        # No job where its queue cannot be read: the counts of the same tick say why, and all else is shown.
        return [apart(lambda: layout.job_ask(ref.queue, id, focus.job_body_bytes), _no_job)]

    def _ask_groups(self, groups: Mapping[object, Sequence[Ask[Any]]]) -> dict[object, list[Any]]:
        """Sends all groups in one pipeline; the answers by the same names."""
        left = iter(self.ask_all([ask for asks in groups.values() for ask in asks]))
        return {name: [next(left) for _ask in asks] for name, asks in groups.items()}

    def taken_ms(self, queues: Sequence[Queue]) -> int:
        """When these queues were counted, by the server's clock; now, where none could be."""
        return max((queue.counted_ms for queue in queues), default=0) or self.now_ms()

    def now_ms(self) -> int:
        """The server's clock, of which every instant of a job is; that of this machine may be anywhere."""
        with translated():
            seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def page(self, ref: Ref, place: str, offset: int = 0, limit: int = 50, body_bytes: int = 0) -> Page:
        """One page of a place."""
        return self.ask(self.layouts[ref.layout].page_ask(ref.queue, place, offset, limit, body_bytes))

    def job(self, ref: Ref, id: bytes, body_bytes: int = 65536) -> Job | None:
        """All about one job, None when there is no such job."""
        return self.ask(self.layouts[ref.layout].job_ask(ref.queue, id, body_bytes))

    def jobs_of_any_queue(self, ids: Sequence[bytes]) -> Sought:
        """The jobs of these ids in all known queues, looked up directly, all in one round trip.

        A system whose jobs can only be looked through, entry by entry, is left out and named.
        """
        asked = [(ref, id) for ref in self.refs if self.layouts[ref.layout].finds_by_id for id in ids]
        answers = self.ask_each(partial(self.layouts[ref.layout].job_ask, ref.queue, id, 0) for ref, id in asked)
        found = [(ref, job) for (ref, _id), job in zip(asked, answers, strict=True) if isinstance(job, Job)]
        failed = {ref for (ref, _id), answer in zip(asked, answers, strict=True) if isinstance(answer, RqtuiError)}
        left_out = sorted({ref.layout for ref in self.refs if not self.layouts[ref.layout].finds_by_id})
        return Sought(tuple(found), tuple(left_out), len(failed))

    def workers(self, ref: Ref) -> tuple[Worker, ...]:
        """The workers of a queue."""
        return self.ask(self.layouts[ref.layout].workers_ask(ref.queue))

    def scan(
        self, ref: Ref, place: str, accepts: Callable[[Job], bool], body_bytes: int = 4096, chunk: int = 200
    ) -> Iterator[list[Job]]:
        """The jobs of a place that `accepts` lets through, a round trip per step.

        The place may change meanwhile: what left is missed, what moved is met once or twice, and every act on it is
        answered per id.
        """
        for page in self.walk(ref, place, chunk, body_bytes):
            yield [job for job in page.jobs if accepts(job)]

    def walk(self, ref: Ref, place: str, chunk: int = 200, body_bytes: int = 0, offset: int = 0) -> Iterator[Page]:
        """The jobs of a place, page by page, each once; of a shared place those of this queue, met among all others."""
        following: int | None = offset
        while following is not None:
            page = self.step(ref, place, following, chunk, body_bytes)
            if page.error:
                raise WrongType(page.error)
            yield page
            following = page.next

    def step(self, ref: Ref, place: str, offset: int, limit: int, body_bytes: int = 0) -> Page:
        """One step of a walk; see `Layout.scan_ask`."""
        return self.ask(self.layouts[ref.layout].scan_ask(ref.queue, place, offset, limit, body_bytes))

    def ask(self, ask: Ask[T]) -> T:
        """Sends one ask; a failure of any call is raised."""
        return ask.read(heard(scripts.run_all(self.client, ask.calls)))

    def ask_all(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Sends asks in one pipeline; a lost connection raises, an error of one ask is that ask's to read."""
        answers = scripts.run_all(self.client, [call for ask in asks for call in ask.calls])
        left = iter(answers)
        shares = [[next(left) for _call in ask.calls] for ask in asks]
        heard(answers, [each for ask, share in zip(asks, shares, strict=True) if not ask.may_fail for each in share])
        return [ask.read(share) for ask, share in zip(asks, shares, strict=True)]

    def ask_each(self, makes: Iterable[Callable[[], Ask[Any]]]) -> list[Any]:
        """The same; in place of one that cannot be made or read its error, an RqtuiError."""
        return self.ask_all([replace(apart(make, _error), may_fail=True) for make in makes])

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
        self.refuse(name, ref)
        if any(job.is_partial for job in jobs):
            return self.acts_on_whole(name, ref, jobs, dict(form or {}))
        if name == "purge" and not jobs and layout.purges_by_job(str((form or {}).get("place") or "")):
            return self._purges_by_job(ref, dict(form or {}))
        asks = layout.act_asks(name, ref.queue, jobs, dict(form or {}))
        if self.keeper is not None:
            self.keeper.expect(name, ref, len(jobs))
            instead = None if jobs else self.keeper.instead(self, name, ref, form or {})
            if instead is not None:
                return instead
        return self.send(name, ref, asks)

    def denial(self, name: str, ref: Ref) -> str:
        """Why a verb is refused on a queue, in a sentence that names the profile; empty where it is not."""
        names = _names(ref)
        for pattern, verbs in self.denied:
            if not any(fnmatchcase(name, pattern) for name in names):
                continue
            falls = next((n for n in (name, FALLS_UNDER.get(name)) if n and any(fnmatchcase(n, v) for v in verbs)), "")
            if falls:
                of = f'the profile "{self.profile}"' if self.profile else "the configuration"
                why = "" if falls == name else f", as {falls} is"
                return f'{name} is denied on queues like "{pattern}" by {of}{why}; nothing was changed.'
        return ""

    def refuse(self, name: str, ref: Ref) -> None:
        """Raises, before anything is sent, for a verb that may not be done here."""
        if self.layouts[ref.layout].script(name).read_only:
            return
        if self.read_only:
            raise ReadOnly(f"{name} changes the queue, and this session is read-only.")
        if denial := self.denial(name, ref):
            raise Refused(denial)

    def acts_on_whole(
        self, name: str, ref: Ref, jobs: Sequence[Job], form: Mapping[str, object], script: str = ""
    ) -> Iterator[list[Outcome]]:
        """Fetches members that are too long for a page, one at a time, and acts on each at once.

        `script` is what does it, where that has another name than what a person asked for.
        """
        layout, script = self.layouts[ref.layout], script or name
        short = [job for job in jobs if not job.is_partial]
        if short:
            yield from self.send(name, ref, layout.act_asks(script, ref.queue, short, form))
        for job in jobs:
            if job.is_partial:
                whole = self.ask(layout.job_ask(ref.queue, job.id, -1))
                if whole is None or whole.is_partial or whole.place != job.place:
                    yield [Outcome(name, job.id, "gone", "it is not there any more")]
                else:
                    asks = layout.act_asks(script, ref.queue, [replace(whole, id=job.id)], form)
                    yield from self.send(name, ref, asks)

    def acts_on_place(
        self, name: str, ref: Ref, place: str, form: Mapping[str, object] | None = None
    ) -> Iterator[list[Outcome]]:
        """Does a verb to every job that stands in `place` now, a chunk per step; those that come later are left."""
        script = self.layouts[ref.layout].script(name)
        self.refuse(name, ref)
        if not script.sources or place in script.targets:
            yield from self._acts_on_those_who_stay(name, ref, place, form)
            return
        page = self.page(ref, place, 0, CHUNK)
        total = page.in_all
        if self.keeper is not None:
            self.keeper.expect(name, ref, total)
        if self.layouts[ref.layout].is_shared(place):
            yield from self._acts_among_others(name, ref, place, form)
            return
        seen, offset = 0, 0
        while page.jobs and seen < total:
            jobs = page.jobs[: total - seen]
            outcomes = self.act(name, ref, jobs, form)
            seen += len(jobs)
            offset += sum(not outcome.moved for outcome in outcomes)
            yield outcomes
            if any(outcome.is_lost for outcome in outcomes):
                return
            page = self.page(ref, place, offset, CHUNK)

    def _acts_among_others(
        self, name: str, ref: Ref, place: str, form: Mapping[str, object] | None
    ) -> Iterator[list[Outcome]]:
        """On the jobs of this queue in a shared place: one walk, whose rank goes back by as many as left the place."""
        page = self.step(ref, place, 0, CHUNK)
        left = page.total
        while True:
            if page.error:
                raise WrongType(page.error)
            outcomes = self.act(name, ref, page.jobs, form) if page.jobs else []
            yield outcomes
            left -= page.passed
            is_lost = any(outcome.is_lost for outcome in outcomes)
            if page.next is None or is_lost or left <= 0:
                return
            page = self.step(ref, place, page.next - sum(bool(outcome.moved) for outcome in outcomes), CHUNK)

    def _purges_by_job(self, ref: Ref, form: Mapping[str, object]) -> Iterator[list[Outcome]]:
        """A purge that deletes the jobs of this queue, and answers as the script does for each part of them.

        At most `limit` of the form; `left` is 1 where that ended it.
        """
        layout, wanted = self.layouts[ref.layout], str(form.get("place") or "")
        limit = form.get("limit")
        most, moved, returns = limit if isinstance(limit, int) else None, 0, layout.script("purge").returns
        places = [wanted] if wanted else [place.name for place in layout.places if layout.can("delete", place.name)]
        if self.keeper is not None:
            pages = [self.page(ref, place, 0, 1) for place in places]
            self.keeper.expect("purge", ref, sum(page.in_all for page in pages))
        given = layout.fitting("delete", {key: value for key, value in form.items() if key == "force"})
        for place in places:
            offset: int | None = 0
            while offset is not None and (most is None or moved < most):
                page = self.step(ref, place, offset, CHUNK if most is None else min(CHUNK, most - moved))
                if page.error:
                    raise WrongType(page.error)
                chunks = self.acts_on_whole("purge", ref, page.jobs, given, "delete")
                outcomes = [one for chunk in chunks for one in chunk]
                lost = next((one for one in outcomes if one.is_lost), None)
                if lost is not None:
                    yield [Outcome("purge", b"", lost.word, lost.text)]
                    return
                gone = sum(one.moved for one in outcomes)
                moved, offset = moved + gone, None if page.next is None else page.next - gone
                values = {"moved": gone, "left": int(most is not None and moved >= most)}
                yield [Outcome("purge", b"", "moved", returns["moved"].text, gone, values)] if gone else []
        if not moved:
            yield [Outcome("purge", b"", "empty", returns["empty"].text)]

    def _acts_on_those_who_stay(
        self, name: str, ref: Ref, place: str, form: Mapping[str, object] | None
    ) -> Iterator[list[Outcome]]:
        """For a verb that only moves jobs inside the place: all are listed first, since it changes their order."""
        jobs: list[Job] = []
        for page in self.walk(ref, place, CHUNK):
            jobs += page.jobs
            yield []
        listed = list({job.id: job for job in jobs}.values())
        if self.keeper is not None:
            self.keeper.expect(name, ref, len(listed))
        for start in range(0, len(listed), CHUNK):
            outcomes = self.act(name, ref, listed[start : start + CHUNK], form)
            yield outcomes
            if any(outcome.is_lost for outcome in outcomes):
                return

    def announce(self, ref: Ref) -> None:
        """Writes a queue's name where discovery finds it at once, after its first job was accepted."""
        layout = self.layouts[ref.layout]
        with translated():
            layout.announce(self.client, ref.queue)
        if ref not in self.refs:
            self._remember([ref])

    def retire(self, ref: Ref) -> None:
        """Takes a queue's name away again, after the whole queue was purged."""
        with translated():
            self.layouts[ref.layout].retire(self.client, ref.queue)
        self.refs = [known for known in self.refs if known != ref]

    def send(self, name: str, ref: Ref, asks: Sequence[Ask[list[Outcome]]]) -> Iterator[list[Outcome]]:
        """Sends what does a verb, an ask per step, each written down before where there is a keeper."""
        done = 0
        for ask in asks:
            kept = self.keeper.keep(self, name, ref, ask.jobs, ask.rows) if self.keeper else None
            before, after = (kept.before, kept.after) if kept else ((), ())
            answers = scripts.run_all(self.client, [*before, *ask.calls, *after])
            first, last = len(before), len(before) + len(ask.calls)
            outcomes = ask.read(answers[first:last])
            if self.keeper:
                self.keeper.changed(name, ref, outcomes)
            unwritten: RqtuiError | None = None
            try:
                if kept:
                    kept.told(outcomes, answers[:first], answers[last:])
            except RqtuiError as error:  # these jobs were changed: that is told first
                unwritten = error
            done += len(outcomes)
            yield outcomes
            if unwritten:
                raise unwritten
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


def _commands(asks: Iterable[Ask[Any]]) -> int:
    """How many commands these asks are."""
    return sum(call.replies for ask in asks for call in ask.calls)


def _names(ref: Ref) -> tuple[str, ...]:
    """What a pattern in a config file may fit: the file holds text, a name may not."""
    return ref.queue, str(ref), safe(ref.queue), safe(str(ref))


def _no_job(error: Exception) -> Job | None:
    """None, unless it is the whole server that says so."""
    if isinstance(error, ServerError) and not isinstance(error, WrongType):
        raise error
    reason(error, log)
    return None


def _or_its_error(ask: Ask[Any]) -> Ask[Any]:
    """The error of an ask instead of its answer: what else the same tick shows goes on."""
    return apart(lambda: ask, _error)


def _error(error: Exception) -> RqtuiError:
    return error if isinstance(error, RqtuiError) else RqtuiError(reason(error, log))


def with_layouts(client: Any, layouts: Sequence[Layout], read_only: bool = False) -> Engine:
    """An engine that has looked for queues once."""
    engine = Engine(client, layouts, read_only)
    for _chunk in engine.discover():
        pass
    return engine
