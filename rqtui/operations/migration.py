"""Migration: the jobs of a foreign queue become jobs of a native one, while workers and producers of both go on.

Batch by batch: take jobs out of the others' reach, put copies that nobody can run yet, end the originals, let
the copies run. So a job is always in one of the queues and can never be run in both; what a broken run left on its way,
the next one finishes. How jobs are taken is said in `operations/drain.py`; no layout is named here. Used by `rqtui
migrate`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.connection.connect import translated
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, ServerError, Unknown, UsageError
from rqtui.ids import ID_BYTES
from rqtui.layout.foreign import side_key
from rqtui.layout.layout import late_place
from rqtui.model import Focus, Job, Outcome, Ref, State
from rqtui.operations.drain import SET_ASIDE, Copy, Way, is_open, ways
from rqtui.text.names import to_bytes

HOLD_MS = 600_000  # a copy stays scheduled until its original is ended, or so long when a run breaks off in between
LOOK_AT = 1000  # jobs of a place that could not be taken, to say why


@dataclass(frozen=True, slots=True)
class Skipped:
    """A job that was not moved, and why."""

    id: bytes
    text: str


@dataclass(slots=True)
class Report:
    """What a migration did so far; `left` has the jobs by place of the source that are neither moved nor done."""

    moved: int = 0
    known: int = 0  # of those moved, the target had the copy already
    finished: int = 0  # copies of a broken run whose originals were ended, and which could not run yet
    would: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was skipped and nothing is left."""
        return not self.skipped and not any(self.left.values())


class Migration:
    """Moves the jobs of `source` to the queue `target` of the default system; `engine` has the layouts of both.

    Raises UsageError where the source's system cannot be left, or the target is none that can be moved to.
    """

    def __init__(self, engine: Engine, source: Ref, target: Ref) -> None:
        if target.layout != DEFAULT_SYSTEM:
            goal = f"{DEFAULT_SYSTEM}:{target.queue}"
            raise UsageError(f"a migration ends in a {DEFAULT_SYSTEM} queue, as in {goal}; {target} is none.")
        if source.layout == DEFAULT_SYSTEM:
            raise UsageError(f"{source} is a {DEFAULT_SYSTEM} queue already; name another system's, as LAYOUT:SOURCE.")
        self.engine, self.source, self.target = engine, source, target
        self.report = Report()
        self._layout, self._goal = engine.layouts[source.layout], engine.layouts[target.layout]
        self._goal.keys(target.queue)
        self._ways = ways(engine, source, target)
        late = late_place(self._layout.places)
        self._open = {  # whose jobs are taken
            *(place.name for place in self._layout.places if is_open(place)),
            *([late.name] if late else []),
            SET_ASIDE,
        }
        self._held: dict[bytes, Job] = {}  # skipped, and kept from being taken again until the end
        self._refused: dict[bytes, str] = {}  # why the source's system would not let it go
        side = to_bytes(side_key(source.queue, f"copies:{target}"))
        self._on_the_way = side  # a hash: copies that wait for the end of their originals, and when those were due
        self._is_announced = False
        self._began_ms = 0  # by the server's clock

    def total(self) -> int:
        """How many jobs stand where they would be taken."""
        counts = self._counts()
        return sum(counts.get(name, 0) for name in self._open)

    def look(self) -> Iterator[int]:
        """A dry run: fills `would`, `skipped` and `left` of the report, yields how many jobs each step looked at."""
        counts = self._counts()
        would = {name: counts[name] for name in counts if name in self._open}
        left = {name: 0 if name in would else number for name, number in counts.items()}
        for place in self._layout.places:
            if place.name in would:
                for jobs in self.engine.scan(self.source, place.name, lambda job: True, body_bytes=0, chunk=500):
                    wrong = [Skipped(job.id, text) for job in jobs if (text := self._problem(job))]
                    self.report.skipped += wrong
                    would[place.name] = max(0, would[place.name] - len(wrong))
                    left[place.name] += len(wrong)
                    yield len(jobs)
        self.report.would, self.report.left = would, left

    def steps(self) -> Iterator[int]:
        """Moves a batch per step and yields how many it moved, until nothing can be taken.

        It may be abandoned between two steps; `close` must follow. Raises ServerError and Refused: the batch that was
        on its way is then finished by the next run, or comes out of the target's `scheduled` after ten minutes.
        What `_on_the_way` names is no job's only trace: where it is lost, those ten minutes are waited for.
        """
        self._began_ms = self.engine.now_ms() + 1
        time.sleep(0.002)  # so that no copy of an earlier run is of the same millisecond
        for way in self._ways:
            way.begin()
        yield from self._finished()
        is_moving = True
        while is_moving:
            is_moving = False
            for way in self._ways:
                for jobs in way.batches():
                    moved = self._move(way, jobs)
                    is_moving = is_moving or moved > 0
                    yield moved

    def close(self) -> None:
        """Gives back what was skipped, counts what is left, and says of the first of those why they could not go."""
        for way in self._ways:
            way.end(list(self._held.values()))
        self._held = {}
        self.report.left = self._counts()
        said = {one.id for one in self.report.skipped}
        for place in self._layout.places:
            if place.name in self._open and self.report.left.get(place.name):
                page = self.engine.page(self.source, place.name, 0, LOOK_AT)
                found = [Skipped(job.id, text) for job in page.jobs if (text := self._stays(job))]
                self.report.skipped += [one for one in found if one.id not in said]

    def _stays(self, job: Job) -> str:
        return self._problem(job) or self._refused.get(job.id, "")

    def note(self) -> str:
        """What a worker of the target cannot do with these jobs, in words; empty where there is no such thing."""
        for place in self._layout.places:
            if place.name in self._open - {SET_ASIDE}:
                page = self.engine.page(self.source, place.name, 0, 1, 4096)
                calls = [job.call for job in page.jobs if job.call]
                if calls:
                    return (
                        f"jobs of {self.source} are calls, such as {calls[0]:.60}: a {DEFAULT_SYSTEM} worker does not "
                        "make them, it gives each body to its command, byte for byte."
                    )
        return ""

    def _counts(self) -> dict[str, int]:
        """The jobs by place that are not done, and those on their way by the key they are in."""
        [queue] = self.engine.snapshot(Focus(queues=(self.source,))).queues
        if queue.error:
            raise ServerError(queue.error)
        found = {count.place: count.count for count in queue.counts if count.state is not State.DONE}
        for way in self._ways:
            found |= way.set_aside()
        return found

    # -- one batch ------------------------------------------------------------------------------------------------

    def _move(self, way: Way, jobs: Sequence[Job]) -> int:
        """Copies, ends the originals, lets the copies run; the answer is how many are in the target now."""
        copies = way.named([whole for job in jobs if (whole := self._able(way, job))])
        if not copies:
            return 0
        now_ms = self.engine.now_ms()
        ours: list[tuple[Copy, bool]] = []  # and whether the target had it already
        for copy, word in zip(copies, self._copied(copies, now_ms), strict=True):
            is_known = word != "moved"
            text = self._difference(copy) if is_known and not way.is_numbered else ""
            if text:
                self._skip(copy.job, text)
            else:
                ours.append((copy, is_known))
        self._mark([copy for copy, _is_known in ours], now_ms)
        outcomes = [_said(one) for one in way.settle([copy.job for copy, _is_known in ours])]
        way.settled()
        self._refused |= {
            copy.id: one.text for (copy, _is_known), one in zip(ours, outcomes, strict=True) if not one.moved
        }
        ended = [pair for pair, outcome in zip(ours, outcomes, strict=True) if outcome.moved]
        lost = [copy for (copy, _is_known), outcome in zip(ours, outcomes, strict=True) if not outcome.moved]
        self._let_go([copy for copy, _is_known in ended], now_ms)
        self._take_back(lost)
        self._unmark([copy.id for copy, _is_known in ours])
        self.report.moved += len(ended)
        self.report.known += sum(is_known for _copy, is_known in ended)
        return len(ended)

    def _able(self, way: Way, job: Job) -> Job | None:
        """The job with its body, long ones fetched one by one; None when it cannot be moved or is gone."""
        text = self._problem(job)
        if not text and (job.is_partial or job.body is None or len(job.body) < job.body_bytes):
            found = self.engine.job(self.source, job.id, -1)
            if found is None:
                return None
            job = replace(job, body=found.body, body_bytes=found.body_bytes, member=found.member, is_partial=False)
            text = self._problem(job) or ("" if job.body is not None else "its body is not there")
        if text:
            self._skip(job, text)
        return None if text else job

    def _problem(self, job: Job) -> str:
        """Why a job cannot become a native one; empty when it can. What is its bytes always can."""
        if self._ways[0].is_numbered:
            return ""
        if job.problem:
            return job.problem
        if not 1 <= len(job.id) <= ID_BYTES:
            return f"its id has {len(job.id)} bytes; a {DEFAULT_SYSTEM} id has 1 to {ID_BYTES}"
        return ""

    def _skip(self, job: Job, text: str) -> None:
        if job.id not in self._held:
            self.report.skipped.append(Skipped(job.id, text))
        self._held[job.id] = job

    def _copied(self, copies: Sequence[Copy], now_ms: int) -> list[str]:
        """Puts the copies in one call, due no sooner than the hold ends; the target's words."""
        rows = [
            {
                "id": copy.id,
                "body": copy.job.body,
                "due_ms": max(now_ms + HOLD_MS, copy.job.due_ms or 0),
                **({"name": copy.job.name} if copy.job.name else {}),
            }
            for copy in copies
        ]
        outcomes = self.engine.ask(self._goal.put_ask(self.target.queue, rows))
        words = [_said(outcome).word for outcome in outcomes]
        if not self._is_announced:
            self.engine.announce(self.target)
            self._is_announced = True
        return words

    def _difference(self, copy: Copy) -> str:
        """Why the target's job of that id is not the copy that a broken run put; empty when it is, or ran already."""
        found = self.engine.job(self.target, copy.id, copy.job.body_bytes)
        if found is None or (found.enqueued_ms or 0) >= self._began_ms:
            return f"{self.target} got a job of this id a moment ago; this one stays: migrate again when that is done"
        if found.state is State.DONE and found.body is None:
            return ""
        return "" if found.body == copy.job.body else f"{self.target} has a job of this id with another body"

    def _mark(self, copies: Sequence[Copy], now_ms: int) -> None:
        """Writes down what is held, before the originals go: a run that breaks off then leaves nothing but copies."""
        held = {copy.id: copy.job.due_ms or 0 for copy in copies if (copy.job.due_ms or 0) < now_ms + HOLD_MS}
        if held:
            with translated():
                self.engine.client.hset(self._on_the_way, mapping=held)

    def _unmark(self, ids: Sequence[bytes]) -> None:
        if ids:
            with translated():
                self.engine.client.hdel(self._on_the_way, *ids)

    def _finished(self) -> Iterator[int]:
        """Lets the copies run whose originals a broken run had ended; yields 0 if there were any."""
        with translated():
            held = self.engine.client.hgetall(self._on_the_way)
        fates = [way.fates(list(held)) for way in self._ways] if held else []
        kept, ran = (set[bytes]().union(*(fate[at] for fate in fates)) for at in (0, 1))
        self._take_back([Copy(id, self._there(id)) for id in held if id in ran])
        ids = [id for id in held if id not in kept]
        asks = [self._goal.job_ask(self.target.queue, id, 0) for id in ids]
        found = [job for job in self.engine.ask_all(asks) if job and job.state is State.SCHEDULED and not job.attempts]
        originals = [replace(job, due_ms=int(held[job.id])) for job in found]
        copies = [Copy(job.id, job) for job in originals]
        self.report.finished = self._let_go(copies, self.engine.now_ms()) if copies else 0
        self._unmark(ids)
        if ids:
            yield 0

    def _let_go(self, copies: Sequence[Copy], now_ms: int) -> int:
        """Ends the hold: ready now, or scheduled for when the original was due. How many of them were held."""
        due = [self._there(copy.id) for copy in copies if (copy.job.due_ms or 0) <= now_ms]
        asks = self._goal.act_asks("promote", self.target.queue, due, {}) if due else []
        for copy in copies:
            due_ms = copy.job.due_ms or 0
            if now_ms < due_ms < now_ms + HOLD_MS:
                there = [self._there(copy.id)]
                asks += self._goal.act_asks("reschedule", self.target.queue, there, {"due_ms": due_ms})
        return sum(_said(outcome).moved for outcomes in self.engine.ask_all(asks) for outcome in outcomes)

    def _take_back(self, copies: Sequence[Copy]) -> None:
        """Removes copies whose originals went to somebody else in the meantime; nobody can have run them yet."""
        jobs = [self._there(copy.id) for copy in copies]
        outcomes = self.engine.act("delete", self.target, jobs, {"place": "scheduled"}) if jobs else []
        for copy, outcome in zip(copies, outcomes, strict=True):
            if not _said(outcome).moved:
                text = f"the original's worker took it while it moved, and {self.target} has it too: {outcome.text}"
                self.report.skipped.append(Skipped(copy.job.id, text))

    def _there(self, id: bytes) -> Job:
        return Job(id, self.target.queue, self.target.layout, "scheduled", State.SCHEDULED, id)


def _said(outcome: Outcome) -> Outcome:
    """The outcome; raises where Redis did not say what became of the job."""
    if outcome.word == "error":
        raise Refused(outcome.text)
    if outcome.word in ("unknown", "not sent"):
        raise Unknown(outcome.text)
    return outcome
