"""A layout as the conformance suite sees it, and the worlds that the suite builds from it.

A `Subject` describes a layout by data: its scripts, its places, how jobs get there as the real system writes them, and
a `Use` per script. A `World` is a database with its jobs, a `Scene` one script before its work in a world. Nothing here
knows any layout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from redis import ConnectionPool, Redis

from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Script
from rqtui.testing import keyspace


@dataclass(frozen=True)
class Planted:
    """A job that stands in `place` (nowhere when empty); `token` proves its reservation."""

    id: bytes
    place: str = ""
    token: str = ""


@dataclass(frozen=True)
class Request:
    """What a script is called with, besides the keys that the subject names."""

    args: Mapping[str, object] = field(default_factory=dict)
    rows: Sequence[Sequence[object]] = ()
    keys: Mapping[str, str] = field(default_factory=dict)  # instead of the subject's
    each_keys: Sequence[Any] = ()


@dataclass(frozen=True)
class Use:
    """How a script is asked to do its work on some jobs.

    `request` gets the jobs; a script that `chooses` for itself is told only how many. `ripe`: it takes only those
    whose time has come. `sources` says where its jobs stand, where `moves` does not. `prepare` brings about what must
    be so before (paused, damaged). `reach` tells how to get each word that the plain request does not bring. `reads`
    asserts on what a reader answers. `repeats`: asked again it acts again, by its nature.
    """

    request: Callable[[Sequence[Planted]], Request]
    sources: tuple[str, ...] = ()
    chooses: bool = False
    ripe: bool = False
    repeats: bool = False
    knows_jobs: bool = True  # it is told ids; False: it acts on the queue as a whole
    prepare: Callable[[World, Sequence[Planted]], None] | None = None
    reach: Mapping[str, Callable[[World], Request]] = field(default_factory=dict)
    reads: Callable[[World, Answer], None] | None = None


@dataclass(frozen=True)
class Subject:
    """A layout as this suite sees it.

    `plant` writes jobs into a place, oldest first (`ripe`: those whose time has come); `members` are the ids of a place
    in its order; `facts` all that the system keeps of one job; `body` its body, None where there is none.
    """

    name: str
    scripts: Mapping[str, Script]
    places: tuple[str, ...]
    key: Callable[[str], str]
    plant: Callable[[Redis, str, Sequence[bytes], bool], list[Planted]]
    members: Callable[[Redis, str], list[bytes]]
    facts: Callable[[Redis, bytes], object]
    body: Callable[[Redis, bytes], bytes | None]
    uses: Mapping[str, Use]
    is_derived: Callable[[str], bool] = lambda key: False  # a key that a `derived` line covers
    alike: frozenset[str] = frozenset()  # places for which another stands in a plain run: same type, same verbs
    unguarded: frozenset[str] = frozenset()  # verbs that look at the type of no key that a call has no need of


class World:
    """A database in which a subject's jobs stand, and the calls on it."""

    def __init__(self, subject: Subject, client: Redis) -> None:
        self.subject, self.client = subject, client
        self.planted: list[Planted] = []
        self._numbers = count(1)
        client.flushall()

    def plant(self, place: str, number: int = 1, ripe: bool = False) -> list[Planted]:
        """Jobs in `place`, younger than those that stand there."""
        ids = [b"%s-%d" % (place.encode(), next(self._numbers)) for _ in range(number)]
        jobs = self.subject.plant(self.client, place, ids, ripe)
        self.planted += jobs
        return jobs

    def new(self) -> Planted:
        """A job that nobody knows yet."""
        return Planted(b"new-%d" % next(self._numbers), token="1")  # noqa: S106

    def call(self, script: Script, request: Request) -> scripts.Call:
        names = [key.name for key in script.keys]
        keys = {name: request.keys.get(name) or self.subject.key(name) for name in names}
        return script.call(keys, request.args, request.rows, each_keys=request.each_keys)

    def run(self, script: Script, request: Request, client: Redis | None = None) -> Answer:
        answer = scripts.run(client or self.client, self.call(script, request))
        undeclared = set(words_of(answer)) - set(script.returns)
        assert not undeclared, f"undeclared answers: {undeclared}"
        return answer

    def dump(self) -> keyspace.Keyspace:
        return keyspace.dump(self.client)

    def members(self) -> dict[str, list[bytes]]:
        return {place: self.subject.members(self.client, place) for place in self.subject.places}

    def bodies(self) -> dict[bytes, bytes | None]:
        return {job.id: self.subject.body(self.client, job.id) for job in self.planted}

    def as_user(self, *rules: str) -> Redis:
        """A client whose user may do only what the ACL rules say."""
        execute: Any = self.client.execute_command
        execute("ACL", "SETUSER", "conformance", "reset", "on", "nopass", "&*", *rules)
        pool = self.client.connection_pool
        known = {**pool.connection_kwargs, "username": "conformance", "password": "any"}
        return Redis.from_pool(ConnectionPool(connection_class=pool.connection_class, **known))


def words_of(answer: Answer) -> list[str]:
    return [row.word for row in answer.each] if answer.each else [answer.word] if answer.word else []


KEPT, KEPT_S = 50, 5.0


@dataclass(frozen=True)
class Kept:
    """The keys of a world as Redis dumps them, to be put back in one trip: planting them anew takes twenty.

    What was planted stands by the clock, so it is kept only for a moment.
    """

    until_s: float
    keys: list[tuple[bytes, int, bytes]]  # name, how long it lives (ms; 0: for good), what DUMP says
    planted: list[Planted]
    targets: list[Planted]
    next_number: int

    @classmethod
    def of(cls, world: World, targets: list[Planted]) -> Kept:
        number = next(world._numbers)
        world._numbers = count(number)
        until_s = time.monotonic() + KEPT_S
        return cls(until_s, keyspace.copies(world.client), [*world.planted], [*targets], number)

    def put_back(self, world: World) -> list[Planted]:
        """Brings an empty world to that state; the jobs that a script shall work on."""
        keyspace.put_back(world.client, self.keys)
        world.planted, world._numbers = [*self.planted], count(self.next_number)
        return [*self.targets]


_KEPT: dict[Any, Kept] = {}


@dataclass(frozen=True)
class Scene:
    """A script, the place its jobs come from, and a world where neighbours stand before and behind them."""

    world: World
    script: Script
    use: Use
    source: str
    targets: list[Planted]

    @classmethod
    def build(cls, subject: Subject, client: Redis, name: str, source: str, number: int = 1) -> Scene:
        world, script, use = World(subject, client), subject.scripts[name], subject.uses[name]
        same = (subject.plant, subject.places, client.connection_pool, source, number, use.ripe, use.chooses)
        kept = _KEPT.get(same)
        if kept is not None and time.monotonic() < kept.until_s:
            targets = kept.put_back(world)
        else:
            for place in subject.places:
                if not (use.chooses and place == source):
                    world.plant(place)
            targets = world.plant(source, number, use.ripe) if source else [world.new() for _ in range(number)]
            for place in subject.places:
                world.plant(place, 2)
            if len(_KEPT) >= KEPT:
                _KEPT.clear()
            _KEPT[same] = Kept.of(world, targets)
        if use.prepare:
            use.prepare(world, targets)
        return cls(world, script, use, source, targets)

    @property
    def request(self) -> Request:
        return self.use.request(self.targets)

    def run(self, client: Redis | None = None) -> Answer:
        return self.world.run(self.script, self.request, client)

    @property
    def goals(self) -> set[str]:
        return {target for move in self.script.moves if self._fits(move) for target in move.targets}

    @property
    def may_leave(self) -> bool:
        return any(move.leaves for move in self.script.moves if self._fits(move))

    def _fits(self, move: Any) -> bool:
        return self.source in move.sources if self.source else not move.sources

    def homes(self, job: Planted) -> list[str]:
        return [place for place, ids in self.world.members().items() if job.id in ids]
