"""Drains a queue of another system: leases or parks its jobs so that nobody else gets them, and ends them there.

Which way a queue has follows from the scripts of its layout: due jobs are leased where there are leases, parked
where there is the verb `park`; jobs that are not due are copied first and then deleted, and so are those that are due
where there is neither and a job is known by its id. Used by `operations/migration.py` alone.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from rqtui.connection.connect import translated
from rqtui.engine.engine import Engine
from rqtui.errors import Refused, UsageError, WrongType
from rqtui.layout.foreign import side_key
from rqtui.layout.layout import Layout
from rqtui.model import Job, Outcome, Place, Ref, State
from rqtui.scripts import script as scripts
from rqtui.text.formats import numbered
from rqtui.text.names import to_bytes, to_text

SET_ASIDE = "leaving"  # what `park` calls the key of jobs on their way
WORKER = "rqtui-migrate"  # who holds those that are leased
MOST = 200  # jobs per batch: a script call each of 2 to 4 ms
MOST_BYTES = 8 << 20  # of bodies per batch, as far as the last one tells
LOCK_MS = 15_000


@dataclass(frozen=True, slots=True)
class Copy:
    """A job of the source, and what it is called in the target."""

    id: bytes
    job: Job


def ways(engine: Engine, source: Ref, target: Ref) -> list[Way]:
    """The ways in which jobs of this queue can be taken, by what its layout's scripts do."""
    layout = engine.layouts[source.layout]
    waiting = [place for place in layout.places if is_open(place) and layout.can("delete", place.name)]
    if {"park", "forget"} <= layout.scripts.keys():
        return [Parked(engine, source, target)]
    if not {"reserve", "ack", "release"} <= layout.scripts.keys():
        if not ((layout.finds_by_id or layout.keeps_ids) and waiting):
            raise UsageError(f"jobs of {layout.name} cannot be taken safely: it has neither leases nor the verb park.")
        return [Deleted(engine, source, waiting)]
    is_fenced = any(column.name == "token" for column in layout.scripts["ack"].each)
    found: list[Way] = [Leased(engine, source) if is_fenced else Consumed(engine, source, target)]
    return [*found, *(Waiting(engine, source, place) for place in waiting if place.state is State.SCHEDULED)]


def is_open(place: Place) -> bool:
    """Whether jobs of a place wait for a worker or for their time, and for nothing else."""
    return place.state is State.READY or (place.state is State.SCHEDULED and not place.score.startswith("since"))


class Way:
    """One way of taking jobs. `is_numbered`: they have no ids of their own, and get some for the batch."""

    is_numbered = False

    def __init__(self, engine: Engine, ref: Ref) -> None:
        self.engine, self.ref = engine, ref
        self.layout: Layout = engine.layouts[ref.layout]
        self._limit = 4

    def begin(self) -> None:
        """Before the first batch."""

    def batches(self) -> Iterator[list[Job]]:
        """Jobs that nobody else can take now (or that `settle` will find taken), until there are none."""
        raise NotImplementedError

    def named(self, jobs: Sequence[Job]) -> list[Copy]:
        """What the copies are called."""
        return [Copy(job.id, job) for job in jobs]

    def settle(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Ends the originals, in one call."""
        raise NotImplementedError

    def settled(self) -> None:
        """After `settle`."""

    def fates(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """What became of the originals of a broken run's copies, by their ids; asked after `begin`.

        Those that are still to be ended, and those that a worker took before they were: their copies must not run.
        """
        found = self.engine.ask_all([self.layout.job_ask(self.ref.queue, id, 0) for id in ids])
        there = zip(ids, found, strict=True)
        return {id for id, job in there if job is not None and job.state is not State.DONE}, set()

    def end(self, held: Sequence[Job]) -> None:
        """After the last batch; `held` are the skipped ones."""

    def set_aside(self) -> dict[str, int]:
        """Jobs on their way that stand in no place of the layout, where there are any."""
        return {}

    def _adapt(self, jobs: Sequence[Job]) -> None:
        mean = sum(job.body_bytes for job in jobs) // max(1, len(jobs)) + 1
        self._limit = max(1, min(MOST, self._limit * 4, MOST_BYTES // mean))


class Leased(Way):
    """Jobs with ids and tokens: whoever else takes one over makes the ack `stale`."""

    lease_ms = 60_000

    def batches(self) -> Iterator[list[Job]]:
        """Leases, until there is nothing to lease; expired leases are reaped first, as the system's reaper would."""
        if self.layout.can("reap"):
            self.engine.act("reap", self.ref, (), {"limit": 1000})
        while jobs := self._reserved():
            yield jobs
            self._adapt(jobs)

    def _reserved(self) -> list[Job]:
        wishes = {"limit": self._limit, "worker": WORKER, "ttr_ms": self.lease_ms}
        call = self.layout.call("reserve", self.ref.queue, self.layout.fitting("reserve", wishes))
        return list(self.layout.taken(self.ref.queue, scripts.run(self.engine.client, call)))

    def settle(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Acknowledges them with their tokens; `marked` is as good: its entry is dropped when it comes by."""
        outcomes = self.engine.act("ack", self.ref, jobs, {}) if jobs else []
        return [replace(outcome, moved=1) if outcome.word == "marked" else outcome for outcome in outcomes]

    def end(self, held: Sequence[Job]) -> None:
        """Back to where they were."""
        leased = [job for job in held if job.state is State.RESERVED]
        if leased:
            self.engine.act("release", self.ref, leased, {})


class Waiting(Way):
    """Jobs that are not due: copied with their due time, then deleted. Where a worker was faster, the copy goes."""

    def __init__(self, engine: Engine, ref: Ref, place: Place) -> None:
        super().__init__(engine, ref)
        self.place = place
        self._left = self._moved = 0

    def batches(self) -> Iterator[list[Job]]:
        """A walk over the place; those that stay are stepped over."""
        offset = 0
        while True:
            page = self.engine.page(self.ref, self.place.name, offset, MOST, 65_536)
            if page.error:
                raise WrongType(page.error)
            if not page.jobs:
                return
            self._left = self._moved = 0
            yield list(page.jobs)
            offset += len(page.jobs) - (self._left if self._moved else 0)

    def settle(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Deletes them, unless somebody has taken them, or other jobs wait for them."""
        form = self.layout.fitting("delete", {"sparing": True})
        outcomes = self.engine.act("delete", self.ref, jobs, form) if jobs else []
        self._left, self._moved = len(jobs), sum(outcome.moved for outcome in outcomes)
        return outcomes


class Deleted(Waiting):
    """The same in several places, where nothing is leased: an original that is found was not ended."""

    def __init__(self, engine: Engine, ref: Ref, places: Sequence[Place]) -> None:
        super().__init__(engine, ref, places[0])
        self._places = places

    def batches(self) -> Iterator[list[Job]]:
        """One place after the other."""
        for place in self._places:
            self.place = place
            yield from super().batches()

    def fates(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Those that still wait, and those that went on."""
        found = self.engine.ask_all([self.layout.job_ask(self.ref.queue, id, 0) for id in ids])
        there = {id: is_open(self.layout.place(job.place)) for id, job in zip(ids, found, strict=True) if job}
        return {id for id in there if there[id]}, {id for id in there if not there[id]}


class Numbered(Way):
    """Jobs that are their bytes: a copy is called by the digest of its body, of the batch and of its number in it.

    Equal bodies are several jobs, so the digest alone would lose all but one. The batch's name is kept in Redis until
    the batch is settled, and a batch is taken, copied and settled by a script call each: a later run that finds what a
    broken one left has the whole batch and its name, gives the same ids, and `exists` then means this very copy.
    """

    is_numbered = True

    def __init__(self, engine: Engine, ref: Ref, target: Ref) -> None:
        super().__init__(engine, ref)
        self._client, self._target = engine.client, str(target)
        self._name_key, self._lock_key = (to_bytes(side_key(ref.queue, what)) for what in ("migration", "migrator"))
        self._me, self._name = secrets.token_hex(8), ""
        self._found: list[Job] = []
        self._is_settled = False

    def leftovers(self) -> list[Job]:
        """The batch that a broken run did not settle."""
        raise NotImplementedError

    def fresh(self) -> list[Job]:
        """The next batch."""
        raise NotImplementedError

    def begin(self) -> None:
        """Waits until no other run moves this queue, and looks for the batch of a broken one."""
        with translated():
            deadline_s = time.monotonic() + LOCK_MS / 1000 + 1
            while not self._client.set(self._lock_key, self._me, nx=True, px=LOCK_MS):
                if time.monotonic() > deadline_s:
                    raise Refused(f"another migration of {self.ref} is running.")
                time.sleep(0.2)
            name, _space, target = to_text(self._client.get(self._name_key) or b"").partition(" ")
        found = self.leftovers()
        if found and name and target != self._target:
            raise UsageError(
                f"a migration of {self.ref} to {target} was broken off, {numbered(len(found), 'job')} did not arrive: "
                f"finish it first with: rqtui migrate {self.ref} {target}"
            )
        self._found, self._name = found, name
        if not (found and name):
            self.settled()

    def batches(self) -> Iterator[list[Job]]:
        """The batch of a broken run, then new ones."""
        while True:
            self._stay()
            jobs, self._found = self._found or self.fresh(), []
            if not jobs:
                return
            self._is_settled = False
            yield jobs
            self._adapt(jobs)

    def _stay(self) -> None:
        """Keeps the lock, unless a batch took so long that somebody else may have it."""
        with translated():
            if self._client.get(self._lock_key) != self._me.encode():
                raise Refused(f"another migration of {self.ref} has begun; this one ends here.")
            self._client.pexpire(self._lock_key, LOCK_MS)

    def fates(self, ids: Sequence[bytes]) -> tuple[set[bytes], set[bytes]]:
        """All are to be ended while the batch of the broken run is there: it goes as a whole."""
        return set(ids) if self._found else set(), set()

    def named(self, jobs: Sequence[Job]) -> list[Copy]:
        """Equal bodies in their order."""
        seen: Counter[bytes] = Counter()
        copies = []
        for job in jobs:
            digest = blake2b(job.body or b"", digest_size=16, key=to_bytes(self._name)).hexdigest().encode()
            seen[digest] += 1
            copies.append(Copy(digest if seen[digest] == 1 else b"%s:%d" % (digest, seen[digest]), job))
        return copies

    def settled(self) -> None:
        """The next batch gets a name of its own."""
        self._name = secrets.token_hex(8)
        with translated():
            self._client.set(self._name_key, to_bytes(f"{self._name} {self._target}"))
        self._is_settled = True

    def end(self, held: Sequence[Job]) -> None:
        """Leaves nothing behind, unless a batch is still on its way."""
        with translated():
            if self._client.get(self._lock_key) == self._me.encode():
                self._client.delete(self._lock_key, *([self._name_key] if self._is_settled else []))


class Parked(Numbered):
    """No leases: `park` sets a batch aside, in the key `leaving` as `<due ms or 0> <body>`, and `forget` ends it."""

    def set_aside(self) -> dict[str, int]:
        """The list `leaving`."""
        with translated():
            count = self._client.llen(to_bytes(self.layout.keys(self.ref.queue)[SET_ASIDE]))
        return {SET_ASIDE: count} if count else {}

    def leftovers(self) -> list[Job]:
        """All of them: `park` answers them first, and with a limit of their number nothing else."""
        count = self.set_aside().get(SET_ASIDE, 0)
        return self._parked(count) if count else []

    def fresh(self) -> list[Job]:
        """The next from any place."""
        return self._parked(self._limit)

    def _parked(self, limit: int) -> list[Job]:
        answer = scripts.run(self._client, self.layout.call("park", self.ref.queue, {"limit": limit}))
        return [self._job(row[0]) for row in answer.rows]

    def _job(self, entry: bytes) -> Job:
        due, _space, body = entry.partition(b" ")
        place = self.layout.place(State.READY)
        digest = blake2b(body, digest_size=6).hexdigest().encode()
        queue, name = self.ref.queue, self.layout.name
        return Job(
            digest, queue, name, place.name, place.state, entry, body=body, body_bytes=len(body), due_ms=int(due)
        )

    def settle(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Forgets the batch. Nobody but a migration takes from that list: what is `gone` was settled by one."""
        call = self.layout.call("forget", self.ref.queue, {}, [{"member": job.member} for job in jobs])
        answer = scripts.run(self._client, call)
        return [Outcome("forget", job.id, one.word, one.text, 1) for job, one in zip(jobs, answer.each, strict=True)]


class Consumed(Numbered, Leased):
    """Leases without tokens: the batch is what a consumer of our own name holds."""

    lease_ms = 600_000  # a broken run's batch goes back to the source after this, so the next run should be sooner

    def leftovers(self) -> list[Job]:
        """What it holds at the start."""
        found: list[Job] = []
        for place in self.layout.places:
            if place.state is State.RESERVED:
                for jobs in self.engine.scan(self.ref, place.name, lambda job: job.worker == WORKER, 1 << 20):
                    found += jobs
        return found

    def fresh(self) -> list[Job]:
        """The next from the source."""
        return self._reserved()

    def end(self, held: Sequence[Job]) -> None:
        """Strikes our name from where `reserve` wrote it, when nothing is on its way."""
        self._is_settled = self._is_settled and not self.leftovers()
        super().end(held)
        script, keys = self.layout.script("reserve"), self.layout.keys(self.ref.queue)
        written = [key for key in script.keys if key.name in script.writes and self._is_settled]
        with translated():
            for key in written:
                if key.type in ("set", "hash"):
                    (self._client.srem if key.type == "set" else self._client.hdel)(to_bytes(keys[key.name]), WORKER)
