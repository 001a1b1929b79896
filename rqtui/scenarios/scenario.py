"""What a scenario is, as data: its queues, its jobs in order of arrival, how work on them goes, what to try and watch.

Nothing here talks to Redis or looks at a clock: the jobs of a scenario follow from its seed alone, so that two runs
with one seed are comparable. Native scenarios stand in `stories.py`, those of other systems in a module each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from zlib import crc32

PLAY_S = 20.0  # without a screen, where nobody says how long


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job before it is put; its fields are the columns of `enqueue`."""

    id: str
    body: bytes
    name: str = ""
    delay_ms: int | None = None
    due_ms: int | None = None
    priority: int | None = None
    ttr_ms: int | None = None
    max_attempts: int | None = None
    backoff_ms: int | None = None
    backoff_cap_ms: int | None = None
    keep_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is put into `queue`, `at_ms` after the scenario began."""

    at_ms: int
    queue: str
    job: NewJob


@dataclass(frozen=True, slots=True)
class Kind:
    """How work on one kind of job goes: how long it takes, how often it fails and why, whether it kills its worker.

    `fails` is the share of attempts that fail, `doomed` the share of jobs that fail at every attempt.
    """

    name: str
    run_ms: tuple[int, int] = (200, 900)
    fails: float = 0.0
    doomed: float = 0.0
    errors: tuple[str, ...] = ()
    kills: bool = False


_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def filled(error: str, number: int) -> str:
    """An error with its holes filled as `number` has it: {n} a number, {hex} 12 digits, {mixed} 10 letters and digits.

    A hole has another filling each time it occurs.
    """
    rng = Random(number)

    def fill(hole: re.Match[str]) -> str:
        if hole[1] == "n":
            return str(rng.randrange(1, 30))
        if hole[1] == "hex":
            return f"{rng.getrandbits(48):012x}"
        return "".join(rng.choices(_LETTERS, k=10))

    return re.sub(r"\{(n|hex|mixed)\}", fill, error) if "{" in error else error


@dataclass(frozen=True, slots=True)
class Fate:
    """How one attempt at one job ends: after `run_ms`, well (`error` is empty) or not, or with the worker's death."""

    run_ms: int
    error: str = ""
    kills: bool = False


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue of a scenario: its settings, how many workers begin on it, and how many jobs each takes at once."""

    name: str
    workers: int
    batch: int = 1
    settings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastGroup:
    """Jobs that came before anybody looked, `minutes_ago`, and what became of them.

    With an `error` they failed with it at every attempt and died; with a `worker` it leased them for `ttr_ms` and has
    been silent since; with neither they wait. Those that wait are the youngest of their queue.
    """

    minutes_ago: int
    queue: str
    error: str
    jobs: tuple[NewJob, ...]
    worker: str = ""
    ttr_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Control:
    """A key of the demo's strip; `name` is what `Run.press` takes."""

    key: str
    name: str
    label: str
    text: str


CONTROLS: tuple[Control, ...] = (
    Control("6", "add", "worker +", "one more worker"),
    Control("7", "stall", "stall", "a worker hangs, holding its job; its late ack will be refused"),
    Control("8", "kill", "kill", "a worker dies, holding its job"),
    Control("9", "burst", "burst", "many jobs at once"),
    Control("0", "poison", "poison", "a job that kills every worker that takes it"),
    Control("(", "slower", "slower", "half the speed"),
    Control(")", "faster", "faster", "twice the speed"),
    Control("!", "cut", "cut Redis", "Redis does not answer for ten seconds"),
)
"""Every key of the strip. These signs mean nothing else on any screen, and a digit nothing else where the system of the
scenario has fewer places: see `beside_places`."""
_SIGNS = {"6": "@", "7": "#", "8": "$", "9": "^"}


def beside_places(controls: tuple[Control, ...]) -> tuple[Control, ...]:
    """The same controls for a system of more than five places, whose places have the digits: on signs."""
    return tuple(replace(each, key=_SIGNS.get(each.key, each.key)) for each in controls)


CHECK = Control("%", "check", "check", "look for every job that was put: is each in exactly one place, is one lost?")
FIX = Control("_", "fix", "fix", "the code that fails is repaired; what is dead can be requeued")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What people are told of a scenario, whatever system it plays on. `layout` is what stands behind `--layout`.

    `loops`: rqtui's dispatcher and reaper run on its screen from the start.
    """

    name: str
    summary: str
    tries: tuple[tuple[str, str], ...]  # (keys, what happens)
    watch: tuple[str, ...]
    layout: str = "native"
    controls: tuple[Control, ...] = CONTROLS
    loops: bool = True

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues it plays on, the most telling one first."""
        raise NotImplementedError

    def length(self, seconds: float | None) -> str:
        """How long it plays without a screen when it is asked for `seconds` (None: as long as it likes), in words."""
        return f"{seconds or PLAY_S:g} s"


_ACTS = ((0.2, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.6, "poison"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeScenario(Scenario):
    """A scenario on rqtui's own queues, with its simulated workers.

    `plan(seed)` yields its jobs without end, in order of arrival; `extra(seed)` those of bursts.
    `sizes`, largest first, bound the plan where it is a fixed number of jobs: the first that the server takes in
    `FILL_S` seconds at the speed it shows with the first thousand.
    `cut_at_s`: when Redis is held for the first time, beside a screen (0: never). `acts`: in a run without a screen,
    which control is pressed when, in shares of its length. `is_proved`: every id that was put is looked for at the end.
    """

    queues: tuple[QueuePlan, ...]
    kinds: Mapping[str, Kind]
    plan: Callable[[int], Iterator[Arrival]]
    extra: Callable[[int], Iterator[Arrival]]
    burst: int = 50
    past: Callable[[int], tuple[PastGroup, ...]] = lambda _seed: ()
    sizes: tuple[int, ...] = ()
    cut_at_s: float = 0.0
    acts: tuple[tuple[float, str], ...] = _ACTS
    is_proved: bool = False

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The names of its queues."""
        return tuple(plan.name for plan in self.queues)

    def fate(self, seed: int, name: str, id: bytes, attempt: int) -> Fate:
        """How attempt number `attempt` at a job ends; the same for the same seed, job and attempt."""
        kind = self.kinds.get(name) or _ANY
        low, high = kind.run_ms
        roll, pick = divmod(crc32(b"%d:%d:%s" % (seed, attempt, id)), 1 << 16)
        run_ms = low + (high - low) * pick // 65535
        if kind.kills:
            return Fate(run_ms, kills=True)
        is_doomed = kind.doomed > 0 and crc32(b"%d:doomed:%s" % (seed, id)) < kind.doomed * 2**32
        if kind.errors and (is_doomed or roll < kind.fails * 2**16):
            return Fate(run_ms, filled(kind.errors[pick % len(kind.errors)], crc32(id) + attempt))
        return Fate(run_ms)


FILL_S = 5.0  # Redis takes 60 000 a second and more, fakeredis some thousands: no size is a close call
_ANY = Kind("")  # jobs that a person adds by hand


def size_for(scenario: NativeScenario, jobs_s: float) -> int | None:
    """How many jobs the plan has on a server that takes `jobs_s` a second; None where the plan is endless."""
    if not scenario.sizes:
        return None
    return next((size for size in scenario.sizes if size <= jobs_s * FILL_S), scenario.sizes[-1])
