"""Layout: places and scripts of one queue system; everything else about it is derived from the two.

A subclass (one per file in `systems/`) says its places, its keys, how queues are discovered and how its records are
decoded. It never talks to Redis itself: it makes `Ask`s, calls of scripts with a function that reads the answers, and
the engine sends the asks of a whole tick in one round trip. What a layout can do is what its folder of scripts holds.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rqtui.errors import RqtuiError, ServerError, Unknown, Unreachable, UsageError, WrongType, reason
from rqtui.ids import new_id
from rqtui.layout.option_values import OptionValue
from rqtui.model import UNHEARD, Figures, Finding, Hearing, Job, Outcome, Page, Place, Queue, Schedule, State, Worker
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call, Script
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe
from rqtui.verbs import VERBS, Verb, verb

log = logging.getLogger("rqtui.layout")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Answers = Sequence["Answer | Exception"]
CHUNK = 500  # ids per script call: the server is never busy for more than a few milliseconds


@dataclass(frozen=True, slots=True)
class Ask(Generic[T_co]):
    """Calls to send, and what their answers mean; what is read may make them others for the next time."""

    calls: Sequence[Call]
    read: Callable[[Answers], T_co]
    jobs: tuple[Job, ...] = ()  # the jobs that were asked about, in the order of the outcomes
    rows: tuple[Mapping[str, object], ...] = ()  # what the script is told of each, where it is one call
    may_fail: bool = False  # when it and all others do, that is not taken for a server that tells nothing


class Layout:
    """One queue system. `options` are the words behind `--layout NAME:key=value`, merged into the defaults.

    Several, where it was named several times: `specs`. `is_asked` is False when nobody named it, and it is here only
    in case its keys are; then it claims no queue that it does not see.
    """

    name: ClassVar[str]
    places: ClassVar[tuple[Place, ...]]
    defaults: ClassVar[Mapping[str, str]] = {}
    option_values: ClassVar[Mapping[str, OptionValue]] = {}  # by option: what fits it; of others anything
    only_option: ClassVar[str] = ""  # one that all queues share, so that there is one value of it at a time
    queue_option: ClassVar[str] = ""  # the option that names the queue, where one does
    patterns: tuple[str, ...] = ()  # Lua patterns of keys that tell of a queue, for the walk over all keys
    commands: ClassVar[tuple[str, ...]] = ()  # that it sends beside its scripts (`script.command`): `CLIENT LIST`
    learns_by_walk: ClassVar[bool] = False  # the walk tells it what no key of a queue does: who works on it
    loops_by_default: ClassVar[bool] = False  # its dispatcher and reaper may run unasked
    has_json_bodies: ClassVar[bool] = False  # a person who types a body types JSON; else any bytes
    has_client: ClassVar[bool] = False  # `rqtui.client.Queue` puts into its queues, and its workers take from them
    names_key: str = ""  # the key that holds the names of its queues, where there is one
    fits_cluster: bool = False  # all keys of a queue lie in one slot
    folder: ClassVar[Path | None] = None  # of its scripts, where another package brings it; None: `lua/<name>`
    inspects: ClassVar[frozenset[State]] = frozenset()  # who has no job there needs no look for faults; none: all do
    finds_by_id: ClassVar[bool] = False  # `job_ask` looks a job up directly, however many there are
    keeps_ids: ClassVar[bool] = False  # jobs have ids of their own, by which `job_ask` finds those that are near an end
    tells: ClassVar[frozenset[str]] = (
        frozenset()
    )  # of name, tried, error, worker, priority, lease: what it knows of a job
    effects: ClassVar[
        Mapping[str, str]
    ] = {}  # by verb: what it does here, where that is more than the table of verbs says
    remedies: ClassVar[
        Mapping[str, str]
    ] = {}  # by kind of a finding of any queue: what helps; empty: it says it better
    shares_workers: ClassVar[bool] = False  # one worker may serve several queues, and is counted in each of them
    together: ClassVar[int] = 50  # queues per `queues_ask`: a millisecond of the server, where one script counts them
    at_once: ClassVar[int] = CHUNK  # jobs per call of a verb, fewer where one costs the server more
    takes: ClassVar[
        Mapping[str, tuple[str, ...]]
    ] = {}  # by a verb whose script moves nothing: its places, where the table of verbs does not tell them
    lacks: ClassVar[Mapping[str, str]] = {}  # by a verb that a person may look for in vain: why there is none
    beyond_redis: ClassVar[str] = ""  # where its schedules are, if it keeps none in Redis: "celery beat has a file"
    new_body: ClassVar[str] = "{}"  # what the body of a new job looks like, for a form to begin with

    def __init__(self, *options: Mapping[str, str], is_asked: bool = True) -> None:
        for spec in options:
            unknown = sorted(set(spec) - set(self.defaults))
            if unknown:
                known = ", ".join(self.defaults) or "none"
                raise UsageError(f"layout {self.name} has no option {', '.join(unknown)}; its options: {known}.")
        self.specs: tuple[dict[str, str], ...] = tuple({**self.defaults, **spec} for spec in options or ({},))
        if self.only_option and len(self.specs) > 1:
            raise UsageError(f"layout {self.name}: one {self.only_option} at a time; run rqtui once for each.")
        for spec in self.specs:
            for option, (fits, words) in self.option_values.items():
                if not fits(spec[option]):
                    raise UsageError(f'layout {self.name}: {option} is {words}, not "{spec[option]}".')
        self.is_asked = is_asked
        self.scripts: scripts.Folder = scripts.load(self.folder or self.name)
        self.hearing: Hearing = UNHEARD  # set by the engine, before it hands on what was heard
        self._clock = (0, 0.0)  # the server's clock in ms, and this machine's monotonic one, when it was told

    @property
    def options(self) -> dict[str, str]:
        """The options of queues that no option names."""
        return self.specs[0]

    def options_of(self, queue: str) -> dict[str, str]:
        """The options of one queue: those of the `--layout` that named it, else the first with this queue's name."""
        if not self.queue_option:
            return self.options
        found = next((spec for spec in self.specs if spec[self.queue_option] == queue), None)
        return found or {**self.options, self.queue_option: queue}

    def told(self, queue: str) -> dict[str, str]:
        """What scripts are told of the options of a queue, where a person types one otherwise than it is."""
        return self.options_of(queue)

    def spec(self, queue: str) -> str:
        """`LAYOUT:key=value,…`, what `--layout` says for this queue; empty where the usual options are enough."""
        options = self.options_of(queue)
        unusual = [n for n in options if n != self.queue_option and options[n] != self.defaults[n]]
        told = ",".join(f"{n}={options[n]}" for n in (self.queue_option, *unusual) if n)
        return f"{self.name}:{told}" if unusual else ""

    def named(self) -> list[str]:
        """The queues that the options name."""
        return [spec[self.queue_option] for spec in self.specs if spec[self.queue_option]] if self.queue_option else []

    # -- what a subclass says -------------------------------------------------------------------------------------

    def keys(self, queue: str) -> Mapping[str, str]:
        """Every key of `queue` by the name that script headers use."""
        raise NotImplementedError

    def discover(self, client: Any) -> Iterator[list[str]]:
        """Queue names that can be asked for directly, a chunk per round trip; raises nothing but `ServerError`.

        Those that the options name; of a layout that nobody asked for, those that are there.
        """
        yield [queue for queue in self.named() if self.is_asked or self.is_there(client, queue)]

    def shown_by(self) -> Sequence[str]:
        """Keys, one of which is there wherever `discover` finds a queue that nobody asked for: those of all systems are
        asked for at once, and where none is there `discover` is not called. Empty: it always is."""
        return ()

    def is_there(self, client: Any, queue: str) -> bool:
        """Whether keys of that name are plainly this system's, asked in one round trip."""
        return False

    def spotted(self, client: Any, found: Sequence[bytes]) -> list[str]:
        """The queues that keys tell of which fit one of `patterns`; may look at them, in one round trip."""
        return []

    def recognises(self, client: Any, queue: str) -> bool:
        """Whether it has a queue of that name, asked in one round trip."""
        return queue in self.named() and (self.is_asked or self.is_there(client, queue))

    def queue_ask(self, queue: str) -> Ask[Queue]:
        """Counts and state of a queue."""
        raise NotImplementedError

    def queues_ask(self, queues: Sequence[str]) -> Ask[list[Queue] | Ask[list[Queue]]] | None:
        """The same of many queues by one script, which raises when it cannot; None where a system has none.

        Where more has to be asked of those that changed, an ask is read in place of the queues.
        """
        return None

    def page_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """`limit` jobs of `place` from `offset` on, with at most `body_bytes` of each body."""
        raise NotImplementedError

    def scan_ask(self, queue: str, place: str, offset: int, limit: int, body_bytes: int) -> Ask[Page]:
        """A step of a walk that meets every job of `place` once, from `offset` on, which the page before called `next`.

        Of a shared place the offsets are ranks among the jobs of all queues: a step looks at a bounded number of them,
        and finds up to `limit` of the queue's, or none. `next` is the rank behind the last one that it looked at.
        """
        return self.page_ask(queue, place, offset, limit, body_bytes)

    def job_ask(self, queue: str, id: bytes, body_bytes: int) -> Ask[Job | None]:
        """All about one job; a body longer than `body_bytes` is left out (-1: never)."""
        raise NotImplementedError

    def workers_ask(self, queue: str) -> Ask[tuple[Worker, ...]]:
        """Asks for the workers of the queue."""
        return Ask((), lambda _answers: ())

    def schedules_ask(self) -> Ask[tuple[Schedule, ...]] | None:
        """What it enqueues again and again, of all its queues; None where Redis holds nothing of that."""
        return None

    def kinds_ask(self, queue: str) -> Ask[tuple[Figures, ...]] | None:
        """What it keeps of each kind of job; None where it keeps nothing.

        Figures about all queues (without a `queue`) are asked for once, by any queue's name.
        """
        return None

    def acquaint(self, client: Any, queue: str) -> None:
        """Looks at a queue before a new job, where how one is written depends on those that are there."""

    def announce(self, client: Any, queue: str) -> None:
        """Makes a new queue known, where the system keeps names."""

    def retire(self, client: Any, queue: str) -> None:
        """Takes a purged queue's name away, where the system keeps names."""

    def taken(self, queue: str, answer: Answer) -> tuple[Job, ...]:
        """The jobs that a script has just handed out, leased (each has a token) or pulled."""
        raise NotImplementedError

    def next_sample(self, queue: str, place: str) -> None:
        """Of a place without an order, from now on other members than those that were shown."""

    def inspect_ask(self, queue: str) -> Ask[tuple[Finding, ...]] | None:
        """A bounded look for this system's own faults, a few times a minute; None where it has none."""
        return None

    def hears(self) -> tuple[str, ...]:
        """Patterns of the channels (as of PSUBSCRIBE) that tell what no key does; () where a system publishes nothing.

        They may depend on the options alone. Somebody listens while a queue of this system is in sight of a screen.
        """
        return ()

    def overhear(self, channel: bytes, message: bytes, at_ms: int) -> None:
        """Takes in a message that came at that instant of the server's clock; never raises for what it cannot read.

        It is called on the thread of the engine, before the counts of a tick. A very long message is cut at its end.
        """

    def row_values(self, queue: str, job: Job) -> Mapping[str, object]:
        """What a job gives to a script's columns beyond `id`, `token`, `place`, `member` and `worker`."""
        return {}

    def rewritten(self, name: str, job: Job, form: Mapping[str, object]) -> bytes:
        """The bytes that verb `name` puts in the place of `job.member`, where its script has the column `new`.

        The script swaps them only for the bytes that were seen: Lua never encodes a body anew. Raises UsageError for a
        job that cannot be rewritten; it is left as it is, and the others are not.
        """
        raise NotImplementedError

    def tail(self, queue: str, script: Script) -> Sequence[Mapping[str, object]]:
        """The rows of a script that is called for the queue as a whole, where it has columns (names of workers …)."""
        return ()

    def encoded(self, body: bytes) -> bytes:
        """A body as this system's workers read it; raises UsageError for one that they could not."""
        return body

    def described(self, queue: str, row: Mapping[str, object]) -> Mapping[str, object]:
        """The columns of `enqueue` for a new job, where a person's body says more than the body; see `encoded`."""
        return {**row, "body": self.encoded(bytes(row["body"]))}  # type: ignore[call-overload]

    def editable(self, job: Job) -> bytes:
        """The body of a job as a person edits one, for `described` to read."""
        return job.body or b""

    def id_of(self, row: Mapping[str, object]) -> bytes:
        """What a job that was put with these fields is called."""
        id = row.get("id", b"")
        return id if isinstance(id, bytes) else to_bytes(str(id))

    def words(self, queue: str) -> str:
        """What means this queue on a command line."""
        return typed(queue)

    # -- derived --------------------------------------------------------------------------------------------------

    def hear(self, now_ms: int) -> None:
        """Takes note of the server's clock, which an answer told."""
        self._clock = (now_ms, time.monotonic())

    def now_ms(self) -> int:
        """The server's clock as it was last heard, gone on since; this machine's, where nothing was heard yet."""
        heard_ms, at_s = self._clock
        return heard_ms + int((time.monotonic() - at_s) * 1000) if heard_ms else time.time_ns() // 1_000_000

    @property
    def heard_since_ms(self) -> int | None:
        """The instant since when somebody listens to what this system publishes; None: nobody does."""
        return self.hearing.since_ms

    def place(self, name: str) -> Place:
        """The place of that name; the first of that state where no place is called so."""
        return self.places_of(name)[0]

    def places_of(self, word: str) -> tuple[Place, ...]:
        """The place of that name; all of that state where no place is called so. Raises UsageError for neither."""
        found = tuple(place for place in self.places if place.name == word)
        found = found or tuple(place for place in self.places if place.state == word)
        if not found:
            raise UsageError(
                f'{self.name} has no place "{word}"; its places: {", ".join(p.name for p in self.places)}.'
            )
        return found

    def is_shared(self, place: str) -> bool:
        """Whether a place holds the jobs of all queues; with an empty name, whether any place does."""
        meant = [self.place(place)] if place else self.places
        return any(each.is_shared and not each.is_heard for each in meant)

    def is_heard(self, place: str) -> bool:
        """Whether a place has no key, and holds what was heard."""
        return self.place(place).is_heard

    def purges_by_job(self, place: str) -> bool:
        """Whether a purge of a place (empty: of all) deletes job by job: what others have in a shared one stays."""
        return self.is_shared(place) and self.can("delete", place)

    def script(self, name: str) -> Script:
        """The script of a verb."""
        found = self.scripts.get(name)
        if found is None:
            known = ", ".join(sorted(name for name, script in self.scripts.items() if not script.read_only))
            why = self.lacks.get(name)
            raise UsageError(f'{self.name} has no verb "{name}"' + (f": {why}." if why else f"; its verbs: {known}."))
        return found

    def can(self, name: str, place: str = "") -> bool:
        """Whether the folder holds that verb, and whether it takes jobs from `place` (any when empty)."""
        script = self.scripts.get(name)
        if script is None:
            return False
        row = verb(name)
        if place and name in self.takes:
            return place in self.takes[name]
        if place and self.is_heard(place) and place not in script.sources:
            return False
        if not place or row.scope != "job":
            return True
        takes = row.takes or tuple(self.place(source).state for source in script.sources)
        return self.place(place).state in takes and (not script.sources or place in script.sources)

    def goals(self, name: str, job: Job) -> tuple[str, ...]:
        """The places where a job may go when a loop takes it by that verb; empty where it leaves the queue.

        It goes back, or to the dead when its attempts are used up.
        """
        places = [place for place in self.script(name).targets if place]
        dead = {place.name for place in self.places if place.state is State.DEAD}
        is_over = job.cancelled or (name == "reap" and self.is_used_up(job))
        return tuple([place for place in places if (place in dead) == is_over][:1] or places[:1])

    def is_used_up(self, job: Job) -> bool:
        """Whether a job that is reaped is not tried again."""
        return job.max_attempts is not None and job.attempts >= job.max_attempts

    def only_as_read(self, name: str, job: Job) -> dict[str, object]:
        """What makes a verb take a job only as it was read, for its form; empty where a script cannot tell."""
        can_tell = any(column.name == "line" for column in self.script(name).each)
        return {"line": job.line or b"-"} if can_tell else {}

    def verbs(self) -> tuple[Verb, ...]:
        """Every changing verb of the folder, in the order of the table, the unknown last."""
        order = {row.name: number for number, row in enumerate(VERBS)}
        names = sorted((n for n, s in self.scripts.items() if not s.read_only), key=lambda n: (order.get(n, 999), n))
        return tuple(verb(name, self.scripts[name].summary) for name in names)

    def call(
        self, name: str, queue: str, args: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()
    ) -> Call:
        """A call of a script with the keys of `queue`; arguments that the script does not declare are left away."""
        script = self.script(name)
        known = {arg.name for arg in script.args}
        columns = {arg.name for arg in script.each}
        stray = sorted(set(args) - known - columns)
        if stray:
            raise UsageError(
                f"{name} has no field {', '.join(stray)}; its fields: {', '.join(sorted(known | columns))}."
            )
        keys, options = self.keys(queue), self.told(queue)
        scalars = {arg.name: args[arg.name] for arg in script.args if arg.name in args}
        for arg in script.args:
            if arg.name not in scalars and arg.name in options:
                scalars[arg.name] = int(options[arg.name]) if arg.type == "int" else options[arg.name]
        if "queue" not in scalars and any(arg.name == "queue" for arg in script.args):
            scalars["queue"] = queue
        rows = rows or self.tail(queue, script)
        tail = [{arg.name: row[arg.name] for arg in script.each if arg.name in row} for row in rows]
        return script.call({key.name: keys[key.name] for key in script.keys}, scalars, tail)

    def fitting(self, name: str, values: Mapping[str, object]) -> dict[str, object]:
        """What of these values the script of that name takes as arguments."""
        taken = {arg.name for arg in self.script(name).args}
        return {name: value for name, value in values.items() if name in taken}

    def act_asks(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object]
    ) -> list[Ask[list[Outcome]]]:
        """What sends verb `name` for `jobs` (empty: for the queue or the place named in the form), a chunk per ask.

        A value is looked up in the form, then in the job, then in the layout's options.
        """
        script = self.script(name)
        if not jobs:
            self.refuse_what_was_heard(name, {str(form.get("place") or "")})
        if isinstance(body := form.get("body"), bytes | str):
            form = self.described(queue, {**form, "body": to_bytes(body)})
        if not jobs:
            rows = [form] if script.per_row or any(column.name in form for column in script.each) else []
            call = self.call(name, queue, form, rows)
            return [Ask((call,), lambda answers: _read_whole(script, form, answers[0]))]
        refused = [(job, Outcome(name, job.id, "refused", why)) for job in jobs if (why := self.refusal(name, job))]
        jobs = [job for job in jobs if not self.refusal(name, job)]
        new: dict[int, bytes] = {}  # by `id()` of a job: two in a list may have the same name
        if any(column.name == "new" for column in script.each):
            for job in jobs:
                try:
                    new[id(job)] = b"" if job.is_partial else self.rewritten(name, job, form)
                except UsageError as error:  # of this job alone
                    refused.append((job, Outcome(name, job.id, "refused", str(error))))
            jobs = [job for job in jobs if id(job) in new]
        chunks = _chunks(jobs, self.at_once, by_place=any(arg.name == "place" for arg in script.args))
        asks = [self._chunk_ask(name, queue, chunk, form, new) for chunk in chunks]
        return [*([_told(refused)] if refused else []), *asks]

    def can_resume(self, queue: Queue) -> bool:
        """Whether a resume does something for a queue, as it was counted."""
        return queue.paused

    def refuse_what_was_heard(self, name: str, places: Collection[str]) -> None:
        """Raises UsageError for a verb on places without a key, unless it takes jobs there (`can`)."""
        for place in self.places:
            if place.name in places and (why := self._heard_why(name, place.name)):
                raise UsageError(why)

    def refusal(self, name: str, job: Job) -> str:
        """Why a verb cannot be asked for this job, of which Redis need not be asked; empty where it can."""
        return self._heard_why(name, job.place)

    def _heard_why(self, name: str, place: str) -> str:
        """Why a verb takes no job of this place, if that is since the place has no key."""
        if not any(each.is_heard and each.name == place for each in self.places) or self.can(name, place):
            return ""
        return f"{name} takes no job from {place}: what stands there was heard, and Redis holds nothing of it."

    def put_ask(self, queue: str, rows: Sequence[Mapping[str, object]]) -> Ask[list[Outcome]]:
        """What puts new jobs, an outcome per row; raises UsageError for a field that this system does not keep."""
        script = self.script("enqueue")
        columns = [column.name for column in script.each]
        stray = sorted({name for row in rows for name in row} - set(columns))
        if stray:
            wrong, given = (", ".join(_as_given(names)) for names in (stray, columns))
            raise UsageError(f"{self.name} keeps no {wrong}; a job of it is given {given}.")
        made = [self.described(queue, row) for row in rows]
        if "id" in columns:
            made = [{"id": new_id(), **row} for row in made]
        call = self.call("enqueue", queue, {}, made)
        ids = [self.id_of(row) for row in made]

        def read(answers: Answers) -> list[Outcome]:
            answer = answers[0]
            each: Sequence[Answer | Exception] = answer.each if isinstance(answer, Answer) else [answer] * len(ids)
            return [_read_one(script, id, one) for id, one in zip(ids, each, strict=True)]

        return Ask((call,), read)

    def _chunk_ask(
        self, name: str, queue: str, jobs: Sequence[Job], form: Mapping[str, object], new: Mapping[int, bytes]
    ) -> Ask[list[Outcome]]:
        script = self.script(name)
        rows = [
            {
                "id": job.id,
                "token": job.token,
                "member": job.member,
                "worker": job.worker,
                **self.row_values(queue, job),
                **form,
                **({"new": new[id(job)]} if new else {}),
            }
            for job in jobs
        ]
        scalars = {arg.name for arg in script.args}
        args = {key: value for key, value in form.items() if key in scalars or key not in {a.name for a in script.each}}
        if "place" in scalars:
            args.setdefault("place", jobs[0].place)
        if script.each:
            call = self.call(name, queue, args, rows)
            return Ask((call,), lambda answers: _read_each(script, jobs, answers[0]), tuple(jobs), tuple(rows))
        calls = tuple(
            self.call(name, queue, {**{k: v for k, v in row.items() if k in scalars}, **args}) for row in rows
        )
        return Ask(
            calls,
            lambda answers: [_read_one(script, job.id, answer) for job, answer in zip(jobs, answers, strict=True)],
            tuple(jobs),
        )


GIVEN = ("id", "body", "name", "delay", "due", "priority", "ttr", "max_attempts", "backoff", "keep")


def _as_given(columns: Sequence[str]) -> list[str]:
    """What a person gives a new job, of these columns of a script; what is none of it stands as it is, if alone."""
    known = {column.removesuffix("_ms") for column in columns}
    return [name for name in GIVEN if name in known] or list(columns)


def late_place(places: Sequence[Place]) -> Place | None:
    """The place of reserved jobs whose lease is over, where a system tells them from the others of the same key."""
    reserved = [place for place in places if place.state is State.RESERVED and place.where]
    return reserved[-1] if len(reserved) > 1 else None


def speaks_for_state(place: Place, places: Sequence[Place]) -> bool:
    """Whether what is counted of a whole state (due, expired, paused) is said at this one of its places.

    That is the place whose scores are the times it is counted by, else the first of its state.
    """
    alike = [other for other in places if other.state is place.state]
    timed = [other for other in alike if other.score.startswith(_TIMED_BY.get(place.state, "-"))]
    return place is (timed or alike)[0]


_TIMED_BY = {State.SCHEDULED: "due", State.RESERVED: "deadline"}


def apart(make: Callable[[], Ask[T]], instead: Callable[[Exception], T]) -> Ask[T]:
    """The ask that `make` makes; where it cannot be made or read, `instead` says so in place of the answer.

    One queue that cannot be read stops no other. An answer that never came is everybody's, and `heard` raises it.
    """
    try:
        ask = make()
    except Exception as error:
        failed = error
        return Ask((), lambda _answers: instead(failed))

    def read(answers: Answers) -> T:
        try:
            return ask.read(answers)
        except Exception as error:
            return instead(error)

    return replace(ask, read=read)


def queue_ask(layout: Layout, queue: str) -> Ask[Queue]:
    """Counts and state of one queue among others; of one that cannot be counted, why."""
    return apart(lambda: layout.queue_ask(queue), lambda error: uncounted(queue, layout.name, error))


def page_ask(layout: Layout, queue: str, place: str, offset: int, limit: int, body_bytes: int = 0) -> Ask[Page]:
    """A page of one queue among others; of one that cannot be read, why."""
    return apart(
        lambda: layout.page_ask(queue, place, offset, limit, body_bytes),
        lambda error: Page(queue, layout.name, place, (), 0, error=reason(error, log)),
    )


def uncounted(queue: str, layout: str, error: Exception) -> Queue:
    """A queue that could not be counted, and why; a key of another program is named."""
    found: tuple[Finding, ...] = ()
    if isinstance(error, WrongType) and error.key:
        found = (held_by_another(queue, error.key, str(error)),)
    return Queue(queue, layout, workers=None, error=reason(error, log), findings=found)


def held_by_another(queue: str, key: str, text: str) -> Finding:
    """What is wrong with a key of a queue that holds another type than its place."""
    remedy = "find out whose key it is; RENAME it, or choose another name for the queue"
    return Finding("wrong-type", "critical", queue, text, remedy, (key,))


def typed(word: str | bytes) -> str:
    """A word as a shell reads it: quoted where it must be, bytes that are no text as `$'\\xff'`."""
    raw = to_bytes(word)
    text = raw.decode("utf-8", "backslashreplace")
    if text.encode() == raw and safe(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in raw) + "'"


def answered(answer: Answer | Exception) -> Answer:
    """The answer; raises what came instead of one."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def heard(answers: Answers, judged: Answers | None = None) -> Answers:
    """The answers, when Redis gave any: raises the ServerError that stands for a lost connection or for all of them.

    `judged` are those of them that may not all be errors.
    """
    for answer in answers:
        if isinstance(answer, Unreachable | Unknown):
            raise answer
    answers = answers if judged is None else judged
    errors = [answer for answer in answers if isinstance(answer, ServerError) and not isinstance(answer, WrongType)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    return answers


def _chunks(jobs: Sequence[Job], size: int, by_place: bool) -> Iterator[list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.place if by_place else "", []).append(job)
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def _told(refused: Sequence[tuple[Job, Outcome]]) -> Ask[list[Outcome]]:
    """The outcomes of jobs that nothing is asked for."""
    return Ask((), lambda _answers: [outcome for _job, outcome in refused], tuple(job for job, _outcome in refused))


def _read_whole(script: Script, form: Mapping[str, object], answer: Answer | Exception) -> list[Outcome]:
    if isinstance(answer, Answer) and answer.each:
        id = form.get("id", form.get("worker", b""))
        return [_read_one(script, id if isinstance(id, bytes) else to_bytes(str(id)), answer.each[0])]
    return [_read_one(script, b"", answer)]


def _read_each(script: Script, jobs: Sequence[Job], answer: Answer | Exception) -> list[Outcome]:
    if isinstance(answer, Exception):
        return [_read_one(script, job.id, answer) for job in jobs]
    return [_read_one(script, job.id, each) for job, each in zip(jobs, answer.each, strict=True)]


def _read_one(script: Script, id: bytes, answer: Answer | Exception) -> Outcome:
    if isinstance(answer, Unknown):
        return Outcome(script.name, id, "unknown", f"the reply was lost, it may have happened: {answer}")
    if isinstance(answer, Unreachable):
        return Outcome(script.name, id, "not sent", str(answer))
    if isinstance(answer, RqtuiError):
        return Outcome(script.name, id, "error", str(answer))
    if isinstance(answer, Exception):
        raise answer
    id = id or answer.values.get("id") or b""  # of a new job, where the system gave it one
    if answer.word != script.done_word:
        return Outcome(script.name, id, answer.word, answer.text, 0, dict(answer.values))
    counted = answer.values.get("moved")
    moved = counted if isinstance(counted, int) else len(answer.rows) or 1
    return Outcome(script.name, id, answer.word, answer.text, moved, dict(answer.values))
