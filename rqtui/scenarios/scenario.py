"""The data classes that define a scenario: queues, arriving jobs, how work on them ends, and what a person can try.

No function in this module talks to Redis or reads a clock. The jobs of a scenario follow from its seed alone, so that
two runs with one seed are comparable. `native_scenarios.py` defines the native scenarios; each other system has a
module of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from zlib import crc32

PLAY_S = 20.0  # the default length of a run without a screen


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job before it is enqueued; its fields are the columns of the `enqueue` script."""

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
    """A job that is enqueued into `queue`, `at_ms` after the scenario started."""

    at_ms: int
    queue: str
    job: NewJob


@dataclass(frozen=True, slots=True)
class Kind:
    """The behaviour of one kind of job: its run time, its failures with their errors, and whether it kills its worker.

    `fails` is the share of attempts that fail, `doomed` the share of jobs that fail at every attempt. A job whose id
    passes `is_special` behaves like the kind `special` instead, so that a field of its body can be the cause.
    """

    name: str
    run_ms: tuple[int, int] = (200, 900)
    fails: float = 0.0
    doomed: float = 0.0
    errors: tuple[str, ...] = ()
    kills: bool = False
    special: Kind | None = None
    is_special: Callable[[bytes], bool] = lambda _id: False


_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def fill_placeholders(error: str, number: int) -> str:
    """Return `error` with its placeholders filled by random text, with `number` as the seed.

    {n} becomes a number, {hex} 12 hexadecimal digits, {mixed} 10 letters and digits. Each occurrence has its own value.
    """
    rng = Random(number)

    def fill_placeholder(placeholder: re.Match[str]) -> str:
        if placeholder[1] == "n":
            return str(rng.randrange(1, 30))
        if placeholder[1] == "hex":
            return f"{rng.getrandbits(48):012x}"
        return "".join(rng.choices(_LETTERS, k=10))

    return re.sub(r"\{(n|hex|mixed)\}", fill_placeholder, error) if "{" in error else error


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How one attempt at a job ends after `run_ms`: success (`error` is empty), failure, or the worker's death."""

    run_ms: int
    error: str = ""
    kills: bool = False


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue of a scenario: its settings, its initial workers, and how many jobs each reserves at once."""

    name: str
    workers: int
    batch: int = 1
    settings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastGroup:
    """A group of jobs enqueued `minutes_ago` before the scenario starts, and their outcome.

    With an `error`, the jobs failed with it at every attempt and died. With a `worker`, it leased them for `ttr_ms` and
    has sent no heartbeat since. With neither, they are ready. Ready groups must be the newest of their queue.
    """

    minutes_ago: int
    queue: str
    error: str
    jobs: tuple[NewJob, ...]
    worker: str = ""
    ttr_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Control:
    """A key of the demo with which a person changes the running scenario; `name` is the argument of `Run.press`."""

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
"""The usual keys of the strip. No screen uses the signs otherwise, and none uses the digits if the system of the
scenario has fewer places: see `replace_digit_keys`."""
_SIGNS = {"6": "@", "7": "#", "8": "$", "9": "^"}


def replace_digit_keys(controls: tuple[Control, ...]) -> tuple[Control, ...]:
    """Return the controls with signs instead of digits as their keys.

    In systems with more than five places the digits select places.
    """
    return tuple(replace(each, key=_SIGNS.get(each.key, each.key)) for each in controls)


CHECK = Control("%", "check", "check", "check every job that was put: is each in exactly one place, or lost?")
FIX = Control("_", "fix", "fix", "the code that fails is repaired; what is dead can be requeued")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The description of a scenario on any system. `system` is the value of the option `--system`.

    `loops`: rqtui's dispatcher and reaper run on its screen from the start.
    """

    name: str
    summary: str
    tries: tuple[tuple[str, str], ...]  # (keys, what happens)
    watch: tuple[str, ...]
    system: str = "native"
    controls: tuple[Control, ...] = CONTROLS
    loops: bool = True

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The names of the scenario's queues, the most informative one first."""
        raise NotImplementedError

    def describe_length(self, seconds: float | None) -> str:
        """Describe how long a run without a screen takes. `seconds` is the requested length, or None."""
        return f"{seconds or PLAY_S:g} s"


_ACTS = ((0.2, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"), (0.6, "poison"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeScenario(Scenario):
    """A scenario on rqtui's own queues, with its simulated workers.

    `plan(seed)` yields the jobs in order of arrival, without end; `extra(seed)` yields the jobs of bursts. `sizes`,
    largest first, are the possible numbers of jobs of a plan that ends: the run takes the first size that the server
    accepts in `FILL_S` seconds, estimated from the first thousand jobs. `cut_at_s` is when Redis is suspended for the
    first time in a run with a screen (0: never). `acts` lists the controls that a run without a screen presses, each
    with its time as a share of the run's length. `is_proved`: at the end, every accepted id is searched for.
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
        """The names of the scenario's queues."""
        return tuple(plan.name for plan in self.queues)

    def choose_attempt_outcome(self, seed: int, name: str, id: bytes, attempt: int) -> AttemptOutcome:
        """Return how one attempt at a job ends. Equal seed, job and attempt give an equal result."""
        kind = self.kinds.get(name) or _ANY
        if kind.special is not None and kind.is_special(id):
            kind = kind.special
        low, high = kind.run_ms
        roll, pick = divmod(crc32(b"%d:%d:%s" % (seed, attempt, id)), 1 << 16)
        run_ms = low + (high - low) * pick // 65535
        if kind.kills:
            return AttemptOutcome(run_ms, kills=True)
        is_doomed = kind.doomed > 0 and crc32(b"%d:doomed:%s" % (seed, id)) < kind.doomed * 2**32
        if kind.errors and (is_doomed or roll < kind.fails * 2**16):
            return AttemptOutcome(run_ms, fill_placeholders(kind.errors[pick % len(kind.errors)], crc32(id) + attempt))
        return AttemptOutcome(run_ms)


FILL_S = 5.0  # Redis accepts 60 000 jobs per second or more, fakeredis a few thousand: the choice is clear
_ANY = Kind("")  # for jobs that a person adds by hand


def choose_size(scenario: NativeScenario, jobs_s: float) -> int | None:
    """Return the plan's job count for a server that accepts `jobs_s` per second; None for an endless plan."""
    if not scenario.sizes:
        return None
    return next((size for size in scenario.sizes if size <= jobs_s * FILL_S), scenario.sizes[-1])
