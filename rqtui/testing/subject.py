"""Describe a system for the conformance suite, and build test databases from the description.

A `Subject` describes a system by data: its scripts, its places, how the real system writes jobs there, and a `Use` per
script. A `JobDatabase` is a Redis database with jobs of the system, a `PreparedScript` one script that is ready to run
in such a database. Nothing in this module depends on a particular system.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from redis import ConnectionPool, Redis

from rqtui.model import Job
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Reply, Script
from rqtui.system_base.system import System
from rqtui.testing import keyspace


@dataclass(frozen=True)
class Planted:
    """A job that a test wrote into the place `place` (empty: the job exists in no place). `token` proves its lease."""

    id: bytes
    place: str = ""
    token: str = ""


@dataclass(frozen=True)
class Request:
    """The arguments of a script call in a test, without the keys that the subject names."""

    args: Mapping[str, object] = field(default_factory=dict)
    rows: Sequence[Sequence[object]] = ()
    keys: Mapping[str, str] = field(default_factory=dict)  # override the subject's keys
    each_keys: Sequence[Any] = ()


@dataclass(frozen=True)
class Use:
    """The way to call one script for some jobs in the conformance suite.

    `request` builds the call's arguments for some jobs. `chooses`: the script chooses its jobs, and only their number
    counts. `ripe`: the script takes only jobs that are due. `sources` names the places of its jobs if the header's
    `moves` line does not. `prepare` creates a state that must exist before the call (paused, damaged). `reach` maps
    words that the usual call does not return to functions that build a call which does. `reads` checks the reply of a
    read-only script. `repeats`: a second call acts again by design.
    """

    request: Callable[[Sequence[Planted]], Request]
    sources: tuple[str, ...] = ()
    chooses: bool = False
    ripe: bool = False
    repeats: bool = False
    knows_jobs: bool = True  # the call names job ids; False: the script acts on the whole queue
    prepare: Callable[[JobDatabase, Sequence[Planted]], None] | None = None
    reach: Mapping[str, Callable[[JobDatabase], Request]] = field(default_factory=dict)
    reads: Callable[[JobDatabase, Reply], None] | None = None


@dataclass(frozen=True)
class Subject:
    """The description of a queue system for the conformance suite.

    `key` returns a key by the name that scripts use. `plant(client, place, ids, ripe)` writes jobs into a place, the
    oldest first; with `ripe`, jobs that are due. `members` returns the ids in a place, in its order. `facts` returns
    all data that the system stores about one job. `body` returns a job's body, or None if none is stored.

    `run_system_checks` needs `system` and `queue` too. `identify` returns for a job that rqtui shows the id by which
    `members` names it. `new_body` is the body of a new job as a person types it; empty: the system's `body_template`.
    `shown_facts` has the attributes of `Job` that every planted job of a place shows, by place, such as
    {"failed": {"attempts": 1}}. `attempts_after` computes the attempts that a job shows after a verb from those that
    it showed before, by verb, such as {"requeue": lambda attempts: 0}; other verbs must keep them. `faults` makes the
    fault of each kind in `faults.toml`; None leaves the findings unchecked. `unordered` names places whose jobs have no
    order. `is_discoverable` is False if only an option names the queue.
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
    alike: frozenset[str] = frozenset()  # places that a plain run skips, because another has the same type and verbs
    unguarded: frozenset[str] = frozenset()  # verbs that do not check the type of a key that the call does not need
    system: System | None = None
    queue: str = ""
    identify: Callable[[Job], bytes] = lambda job: job.id
    new_body: bytes = b""
    has_plain_bodies: bool = False  # `body` returns what rqtui shows, byte for byte
    shown_facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    attempts_after: Mapping[str, Callable[[int], int]] = field(default_factory=dict)
    faults: Mapping[str, Callable[[Redis], None]] | None = None
    unordered: frozenset[str] = frozenset()
    is_discoverable: bool = True


class JobDatabase:
    """A Redis database for tests with jobs of one system, and the script calls on it.

    The constructor empties the database.
    """

    def __init__(self, subject: Subject, client: Redis) -> None:
        self.subject, self.client = subject, client
        self.planted: list[Planted] = []
        self._job_numbers = count(1)
        client.flushall()

    def plant(self, place: str, number: int = 1, ripe: bool = False) -> list[Planted]:
        """Write new jobs into a place of the test database, newer than the present ones, and return them."""
        ids = [b"%s-%d" % (place.encode(), next(self._job_numbers)) for _ in range(number)]
        jobs = self.subject.plant(self.client, place, ids, ripe)
        self.planted += jobs
        return jobs

    def create_absent_job(self) -> Planted:
        """Return a job that is not in the test database."""
        return Planted(b"new-%d" % next(self._job_numbers), token="1")  # noqa: S106

    def call(self, script: Script, request: Request) -> scripts.Call:
        """Build a call of a script with the keys of the described system."""
        names = [key.name for key in script.keys]
        keys = {name: request.keys.get(name) or self.subject.key(name) for name in names}
        return script.build_call(keys, request.args, request.rows, each_keys=request.each_keys)

    def run(self, script: Script, request: Request, client: Redis | None = None) -> Reply:
        """Run a script on the test database, with another Redis client if one is given, and return its reply."""
        reply = scripts.run_call(client or self.client, self.call(script, request))
        undeclared = set(list_words(reply)) - set(script.returns)
        assert not undeclared, f"undeclared answers: {undeclared}"
        return reply

    def dump(self) -> keyspace.Keyspace:
        """Return every key of the test database with its value."""
        return keyspace.dump(self.client)

    def read_members(self) -> dict[str, list[bytes]]:
        """Return the ids of the jobs in each place, in the order of the place."""
        return {place: self.subject.members(self.client, place) for place in self.subject.places}

    def read_bodies(self) -> dict[bytes, bytes | None]:
        """Return the body of every job that was planted, by id; None for a job without a stored body."""
        return {job.id: self.subject.body(self.client, job.id) for job in self.planted}

    def create_restricted_client(self, *rules: str) -> Redis:
        """Return a Redis client whose user has only the rights of the given ACL rules."""
        execute: Any = self.client.execute_command
        execute("ACL", "SETUSER", "conformance", "reset", "on", "nopass", "&*", *rules)
        pool = self.client.connection_pool
        connection_options = {**pool.connection_kwargs, "username": "conformance", "password": "any"}
        return Redis.from_pool(ConnectionPool(connection_class=pool.connection_class, **connection_options))


def list_words(reply: Reply) -> list[str]:
    """Return the words of a script's reply: one per row of the call, or the only one, or none."""
    return [row.word for row in reply.each] if reply.each else [reply.word] if reply.word else []


MAX_SAVED_WORLDS, SAVED_DATABASE_S = 50, 5.0


@dataclass(frozen=True)
class SavedDatabase:
    """The raw values of a test database's keys. Restoring them takes one round trip, planting jobs again takes twenty.

    Due times of planted jobs depend on the clock, so the values are used only for `SAVED_DATABASE_S` seconds.
    """

    until_s: float
    keys: list[tuple[bytes, int, bytes]]  # name, time to live (ms; 0: none), DUMP value
    planted: list[Planted]
    targets: list[Planted]
    next_number: int

    @classmethod
    def save(cls, database: JobDatabase, targets: list[Planted]) -> SavedDatabase:
        """Save the raw values of a test database, with the jobs that a script acts on."""
        number = next(database._job_numbers)
        database._job_numbers = count(number)
        until_s = time.monotonic() + SAVED_DATABASE_S
        return cls(until_s, keyspace.dump_raw_values(database.client), [*database.planted], [*targets], number)

    def restore(self, database: JobDatabase) -> list[Planted]:
        """Restore the saved keys in an empty test database; return the jobs that a script acts on."""
        keyspace.restore_raw_values(database.client, self.keys)
        database.planted, database._job_numbers = [*self.planted], count(self.next_number)
        return [*self.targets]


_SAVED_DATABASES: dict[Any, SavedDatabase] = {}


@dataclass(frozen=True)
class PreparedScript:
    """A script that is ready to run in a test database with jobs before and after those that the script acts on."""

    database: JobDatabase
    script: Script
    use: Use
    source: str
    targets: list[Planted]

    @classmethod
    def build(cls, subject: Subject, client: Redis, name: str, source: str, number: int = 1) -> PreparedScript:
        """Plant jobs in every place of the system, and return the script `name` with the jobs that it will act on.

        `source` is the place of these jobs, `number` how many they are.
        """
        database, script, use = JobDatabase(subject, client), subject.scripts[name], subject.uses[name]
        cache_key = (subject.plant, subject.places, client.connection_pool, source, number, use.ripe, use.chooses)
        saved = _SAVED_DATABASES.get(cache_key)
        if saved is not None and time.monotonic() < saved.until_s:
            targets = saved.restore(database)
        else:
            for place in subject.places:
                if not (use.chooses and place == source):
                    database.plant(place)
            targets = (
                database.plant(source, number, use.ripe)
                if source
                else [database.create_absent_job() for _ in range(number)]
            )
            for place in subject.places:
                database.plant(place, 2)
            if len(_SAVED_DATABASES) >= MAX_SAVED_WORLDS:
                _SAVED_DATABASES.clear()
            _SAVED_DATABASES[cache_key] = SavedDatabase.save(database, targets)
        if use.prepare:
            use.prepare(database, targets)
        return cls(database, script, use, source, targets)

    @property
    def request(self) -> Request:
        """The arguments of the script call for the jobs that it acts on."""
        return self.use.request(self.targets)

    def run(self, client: Redis | None = None) -> Reply:
        """Run the prepared script and return its reply."""
        return self.database.run(self.script, self.request, client)

    @property
    def target_places(self) -> set[str]:
        """The places to which the script's header lets the jobs move."""
        return {target for move in self.script.moves if self._has_source(move) for target in move.targets}

    @property
    def can_leave(self) -> bool:
        """Whether the script's header lets the jobs leave the queue."""
        return any(move.leaves for move in self.script.moves if self._has_source(move))

    def _has_source(self, move: Any) -> bool:
        """Return whether a declared move takes jobs from the place that this test uses."""
        return self.source in move.sources if self.source else not move.sources

    def find_places(self, job: Planted) -> list[str]:
        """Return the places of the test database that contain a planted job."""
        return [place for place, ids in self.database.read_members().items() if job.id in ids]
