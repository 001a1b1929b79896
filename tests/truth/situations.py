"""The situations of the truth suite: what happens in a queue, and what rqtui must then report, or must not.

`play` lets a situation happen in a world. The seconds that it yields pass on the clock while the living programs go on;
then the screens are refreshed. `OPEN` opens the second screen. Numbers of jobs are smaller than in the titles where
only their ratio matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis import Redis
from truth.worlds import WORLDS, DoesNotApply, Error, World, pass_time

OPEN = -1.0
DAY_S = 86_400
CARD = Error("CardDeclined", "no funds", "billing", 42)
TIMEOUT = Error("TimeoutError", "api.example.org did not reply", "api", 7)
KEY = Error("KeyError", "'total'", "orders", 130)
NO_WORKER = {"no-live-worker", "no-consumer", "nobody-consumes", "silent-leases", "idle-workers", "worker-gone"}
GONE = {"silent-leases", "abandoned", "lost-on-kill", "stalled", "silent-consumer", "lost-lock", "worker-gone", "lost"}
GONE |= {"expired-not-reaped", "stale-process"}


CRITICAL = {"abandoned", "lost", "lost-on-kill", "orphan", "no-scheduler", "nobody-consumes", "scheduler-stopped"}
CRITICAL |= {"wrong-type", "foreign-restore"}
HELP = r".* · .*(workers|processes)"
RUNS_TWICE = r"job-000001\b.*(given out 2 times|w2 took)|^1 given out again, the last job-000001\b"
FREED = r".* · .*(reap|release|come back|gives back|SREM)"  # how to give the jobs of a worker out again


class ReportedFinding(NamedTuple):
    """One finding: its kind, severity, queue and all of its text."""

    kind: str
    severity: str
    queue: str
    text: str


class Expected(NamedTuple):
    """A finding of the queue that must be reported: its kinds and severity, and a pattern of its text.

    The text includes causes and remedy. Without `severity`, kinds in `CRITICAL` are critical and others warnings;
    `loud` is either. In the pattern, `HELD` stands for the number of jobs that a worker holds, `KEY` for the key of the
    ready jobs, and `START` for what the command that starts a worker must contain.
    """

    kinds: set[str]
    pattern: str
    severity: str = ""

    def fits(self, told: ReportedFinding, world: World) -> bool:
        """Return whether a finding is the expected one."""
        severity = self.severity or ("critical" if told.kind in CRITICAL else "warning")
        severities = ("warning", "critical") if severity == "loud" else (severity,)
        if told.kind not in self.kinds or told.severity not in severities or told.queue != world.queue:
            return False
        values = {"HELD": str(count_held(world)), "KEY": re.escape(world.ready_key())}
        values["START"] = "rqtui work" if world.system == "native" else re.escape(world.queue)
        pattern = re.sub("HELD|KEY|START", lambda name: values[name[0]], self.pattern)
        return re.search(pattern, told.text, re.DOTALL) is not None


def count_held(world: World) -> int:
    """Return how many jobs a worker holds when it is interrupted."""
    return min(5, world.slots)


@dataclass(frozen=True)
class Situation:
    """One row of the suite. Without `expected` warnings, every warning and critical finding is false.

    `facts` are the unknown facts that explain why nothing is reported. `tolerated` are kinds that may be reported.
    """

    id: str
    title: str
    play: Callable[[World], Iterator[float]]
    expected: Sequence[Expected] = ()
    facts: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()
    only_critical: bool = False
    only_info: frozenset[str] = frozenset()  # kinds that may be reported as information alone
    prepare: Callable[[World], None] | None = None  # what happened before the first screen was opened

    @property
    def is_loud(self) -> bool:
        """Return whether a warning must be reported."""
        return any(each.severity != "info" for each in self.expected)


def work(world: World, seconds: float, came: int, went: int, *errors: Error) -> Iterator[float]:
    """Put and run jobs every 10 s."""
    for _ in range(round(seconds / 10)):
        world.put(came)
        world.run(went, *errors)
        yield 10


def need_workers(world: World) -> None:
    if not world.has_workers:
        raise DoesNotApply("it stores no list of workers")


def need_failures(world: World) -> None:
    if not world.keeps_failures:
        raise DoesNotApply("it stores nothing about a failed job")


# -- quiet -------------------------------------------------------------------------------------------------------------


def play_empty(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from pass_time(20)
    world.stop("w1", "w2")
    yield OPEN
    yield from pass_time(30)


def play_busy(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 60, 20, 20)
    yield OPEN
    yield from work(world, 30, 20, 20)


def plant_old_dead(world: World) -> None:
    world.fail_earlier(200, KEY, 2 * DAY_S)


def play_old_dead(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 30, 20, 20)
    world.forget_done()
    yield OPEN
    yield from pass_time(20)


def play_retries(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    for step in range(9):
        if step == 6:
            yield OPEN
        world.put(20)
        world.retry(2, TIMEOUT)
        world.run(18)
        yield 5
        world.run(2)
        yield 5


def play_scheduled(world: World) -> Iterator[float]:
    world.start("w1")
    world.schedule(300, DAY_S)
    yield from pass_time(20)
    yield OPEN
    yield from pass_time(20)


def play_paused(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    world.pause()
    world.put(50)
    yield from pass_time(600, 60)
    yield OPEN
    yield from pass_time(20)


def play_deploy(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 20, 10, 10)
    world.stop("w1", "w2")
    world.put(20)
    yield OPEN
    yield from pass_time(20)
    world.start("w3", "w4")
    world.run(20)
    yield 5


def play_long_job(world: World) -> Iterator[float]:
    if not world.can_extend:
        raise DoesNotApply("a worker cannot extend its lease: a job longer than that is given out again")
    world.start("w1", "w2")
    options = {"rq": {"timeout": 900}, "arq": {"timeout_s": 900}}.get(world.system, {})
    world.put(1, **options)
    world.hold("w1", 1)
    yield from pass_time(480, 20)
    yield OPEN
    yield from pass_time(60, 20)


def play_burst(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield 10
    world.put(300)
    for step in range(6):
        if step == 3:
            yield OPEN
        world.run(50)
        yield 10


def play_expiry(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 30, 20, 20)
    world.forget_done()
    yield OPEN
    yield from pass_time(20)


def play_other_fails(world: World) -> Iterator[float]:
    need_failures(world)
    url = f"{world.url.rpartition('/')[0]}/9"
    client = Redis.from_url(url)
    world.clock.mirror(client)
    other = WORLDS[world.system](client, world.clock, url)
    world.start("w1")
    other.start("x1")
    for step in range(6):
        if step == 4:
            yield OPEN
        world.put(10)
        world.run(10)
        other.put(10)
        other.run(10, CARD)
        other.beat()
        yield 10


def play_requeue(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield 10
    world.requeue_dead()
    for step in range(4):
        if step == 2:
            yield OPEN
        world.run(50)
        yield 10


def play_polite_stop(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 20, 10, 10)
    world.stop("w1", "w2")
    yield OPEN
    yield from pass_time(60)


def play_first_second(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    world.put(10)
    world.run(8)
    yield 1
    yield OPEN
    yield 1


def play_limit(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    world.limit(2)
    world.put(20)
    world.hold("w1", min(2, world.slots))
    yield from pass_time(60, 20)
    yield OPEN
    yield from pass_time(30, 10)


# -- loud --------------------------------------------------------------------------------------------------------------


def play_sudden_failure(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 120, 10, 10)
    yield from work(world, 60, 10, 10, CARD)
    yield OPEN
    yield from pass_time(10)


def play_three_causes(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    errors = [CARD, TIMEOUT, CARD, KEY, CARD, TIMEOUT, CARD, KEY, CARD, TIMEOUT]
    for step in range(28):
        if step == 27:
            yield OPEN
        world.put(10)
        world.run(6)
        world.run(4, *(errors[4 * step % 10 :] + errors)[:4])
        yield 10


def play_no_worker(world: World) -> Iterator[float]:
    world.put(20)
    yield OPEN
    yield from pass_time(10)


def play_killed_idle(world: World) -> Iterator[float]:
    if world.system != "arq":  # Its workers are not listed, but its idle ones take a due job at once.
        need_workers(world)
    world.start("w1", "w2")
    yield from work(world, 20, 10, 10)
    world.kill("w1", "w2")
    yield 10
    world.put(30)
    yield OPEN
    yield from pass_time(30)


# How soon a worker that was killed or stopped is reported, in seconds. 15 s are wanted, or three heartbeats; where the
# system allows neither, `docs/health.md` has the reason.
SILENCE_S = {"celery": 15, "timeout_sets": 15, "bullmq": 20, "sidekiq": 25}
SILENCE_S |= {"native": 40, "redisched": 65, "orizuru": 65, "rq": 90}
UNREPORTED_S = 60  # how long the others work on where the system never shows that a worker was lost


def need_lasting_leases(world: World) -> None:
    if world.system == "safe_pop":
        raise DoesNotApply("its other workers take the jobs again when the lease is over")


def play_interrupted_work(world: World, interrupt: Callable[[str], object]) -> Iterator[float]:
    """Let one of three workers hold jobs, interrupt it, and let the others work on until it must be reported."""
    need_lasting_leases(world)
    world.start("w1", "w2", "w3")
    yield from work(world, 20, 10, 10)
    world.put(count_held(world))
    world.hold("w1", count_held(world))
    if world.can_extend:
        yield 10
    world.has_dispatcher = False
    interrupt("w1")
    yield OPEN
    yield from work_until_reported(world)


def work_until_reported(world: World, *errors: Error) -> Iterator[float]:
    """Let the other workers work on until the interrupted worker must be reported."""
    tens, rest_s = divmod(SILENCE_S.get(world.system, UNREPORTED_S), 10)
    yield from work(world, 10 * tens, 10, 10, *errors)
    if rest_s:
        yield rest_s


def play_killed_busy(world: World) -> Iterator[float]:
    yield from play_interrupted_work(world, world.kill)


def play_killed_unnamed(world: World) -> Iterator[float]:
    if world.system != "bullmq":
        raise DoesNotApply("each of its workers has a name, or none has one")
    world.names_workers = False
    yield from play_interrupted_work(world, world.kill)


def play_closing_worker(world: World) -> Iterator[float]:
    """Stop a worker the polite way: its connection closes while it ends its job and renews the lock."""
    if world.system != "bullmq":
        raise DoesNotApply("no connection of its workers ends before their last job")
    world.start("w1", "w2")
    world.put(1)
    world.hold("w1", 1)
    yield 10
    yield OPEN
    world.alive["w1"].connection.close()
    yield from pass_time(122, 1)


def play_stopped_worker(world: World) -> Iterator[float]:
    if world.system == "bullmq":
        raise DoesNotApply("its other workers take the jobs back before a stopped worker can be told from a busy one")
    yield from play_interrupted_work(world, world.freeze)


def play_missing_dispatcher(world: World) -> Iterator[float]:
    if world.system in ("redisched", "celery", "arq"):
        raise DoesNotApply("its workers take due jobs themselves")
    world.has_dispatcher = False
    if world.system in ("rq", "native"):
        world.start("w1")
    world.schedule(20, 30)
    yield from pass_time(30)
    yield OPEN
    yield from pass_time(15)


def play_growing(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 60, 40, 10)
    yield OPEN
    yield from work(world, 60, 40, 10)


def play_quiet_workers(world: World) -> Iterator[float]:
    need_workers(world)
    world.start("w1", "w2")
    yield from work(world, 20, 10, 10)
    world.quiet("w1", "w2")
    yield 5
    world.put(20)
    yield OPEN
    yield from pass_time(15)


def play_wrong_type(world: World) -> Iterator[float]:
    world.start("w1")
    world.put(5)
    yield 10
    world.spoil()
    yield OPEN
    yield from pass_time(30)


def play_several(world: World) -> Iterator[float]:
    world.start("w1", "w2", "w3")
    yield from work(world, 30, 10, 10)
    world.put(count_held(world))
    world.hold("w1", count_held(world))
    yield from work(world, 60, 10, 10, CARD)
    world.has_dispatcher = False
    world.kill("w1")
    yield OPEN
    yield from work_until_reported(world, CARD)


def play_long_run(world: World) -> Iterator[float]:
    if not world.stores_runs:
        raise DoesNotApply("it stores no kind of a job, or not when its run began")
    world.start("w1", "w2")
    yield from work(world, 40, 10, 10)
    world.put(1)
    world.hold("w1", 1)
    yield from pass_time(50)
    yield OPEN
    yield from pass_time(30)


def play_poison(world: World) -> Iterator[float]:
    yield from world.poison()
    yield OPEN
    yield from pass_time(10)


def play_starvation(world: World) -> Iterator[float]:
    for step, seconds in enumerate(world.starve()):
        if step == 31:
            yield OPEN
        yield seconds


def play_stopped_schedule(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    world.start_schedule(60)
    yield from pass_time(60)
    world.renew_schedule()
    world.stop_schedule()
    yield from pass_time(60)
    yield OPEN
    yield from pass_time(15)


def play_lost(world: World) -> Iterator[float]:
    yield from world.lose()
    yield OPEN
    yield from pass_time(10)


def play_failed_parent(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield 10
    world.fail_parent()
    yield OPEN
    yield from pass_time(30)


def play_overrun(world: World) -> Iterator[float]:
    yield from world.overrun()
    yield OPEN
    yield from pass_time(10)


def play_storm(world: World) -> Iterator[float]:
    world.start("w1", "w2")
    yield from work(world, 20, 10, 10)
    for _ in range(5):
        world.put_retried("charge")
        yield 1
    for step in range(12):
        if step == 8:
            yield OPEN
        world.storm(5)
        yield 5


FAILURES, MINUTES, WORKERS, LEASES = "failures", "failures of the last minutes", "workers", "leases"
GROWTH, IDLE, WAITS, RUNS = "growth", "idle workers", "waiting times", "repeated runs"
EARLIER = "runs before rqtui listened"
LOCKS = "workers that hold jobs"
SITUATIONS: Sequence[Situation] = (
    Situation("Q1", "empty queue, with and without workers", play_empty),
    Situation("Q2", "busy: as many jobs come as go, all succeed", play_busy),
    Situation("Q3", "200 dead jobs of the day before yesterday, everything fine since", play_old_dead,
              prepare=plant_old_dead),
    Situation("Q4", "10 % of first attempts fail and succeed at the second", play_retries),
    Situation("Q5", "300 jobs scheduled for tomorrow", play_scheduled),
    Situation("Q6", "paused by a person, jobs waiting", play_paused,
              (Expected({"paused"}, r"^paused\b.* · (P|rqtui act resume)", "info"),)),
    Situation("Q7", "deploy: all workers stop and start within 20 s while jobs wait", play_deploy, only_critical=True),
    Situation("Q8", "a 10-minute job, its worker alive", play_long_job),
    Situation("Q9", "300 jobs at once, drained in 60 s", play_burst),
    Situation("Q10", "finished jobs expire", play_expiry),
    Situation("Q11", "the same system in another database of this Redis fails", play_other_fails),
    Situation("Q12", "a person requeues 200 dead jobs by the system's own tool", play_requeue,
              prepare=plant_old_dead),
    Situation("Q13", "workers stopped the polite way with nothing waiting", play_polite_stop),
    Situation("Q13b", "a worker stopped the polite way ends a job of two minutes", play_closing_worker),
    Situation("Q14", "screen opened one second ago on a well queue", play_first_second),
    Situation("Q15", "a queue works at its limit of jobs at once", play_limit,
              (Expected({"at-limit", "held-by-limit"}, r"of 2 jobs at once: (2 .* 18 ready|5) jobs wait", "info"),)),
    Situation(
        "L1", "120 jobs went well, then 60 of 60 fail in a minute", play_sudden_failure,
        (Expected({"failing"}, r"^100 % .*\b([5-7]\d) of \1 in the last minute.*\(CardDeclined 60\)", "critical"),),
        frozenset({FAILURES, MINUTES, EARLIER}),
    ),
    Situation(
        "L2", "40 % of attempts fail for 5 minutes, three causes 50/30/20", play_three_causes,
        (Expected({"failing"}, r"^40 % .*\(CardDeclined 5\d, TimeoutError 3\d, KeyError 2\d\)"),),
        frozenset({FAILURES, MINUTES, EARLIER}),
    ),
    Situation(
        "L3", "jobs ready, no worker has ever been there", play_no_worker,
        (Expected(NO_WORKER, r"\b20 (ready jobs|jobs are ready).* · start .*\bSTART\b"),), frozenset({WORKERS, IDLE}),
    ),
    Situation(
        "L4", "workers killed with -9 while idle, then jobs come", play_killed_idle,
        (Expected(NO_WORKER, r"\b30 (ready jobs|jobs are ready).* · ((re)?start |rqtui workers)"),),
        frozenset({WORKERS, IDLE}),
    ),
    Situation(
        "L5", "worker killed with -9 while it runs jobs, others alive", play_killed_busy,
        (Expected(GONE, r"\bHELD\b" + FREED),), frozenset({LEASES, LOCKS, EARLIER}),
    ),
    Situation(
        "L5b", "worker without a name killed with -9 while it runs jobs, others alive", play_killed_unnamed,
        (Expected(GONE, r"\bHELD\b" + FREED),), frozenset({LOCKS}),
    ),
    Situation(
        "L6", "worker stopped (SIGSTOP) while it runs jobs, others alive", play_stopped_worker,
        (Expected(GONE, r"\bHELD\b" + FREED),), frozenset({LEASES, LOCKS, EARLIER}),
    ),
    Situation(
        "L7", "worker alive, a job runs 20 times longer than its kind usually does", play_long_run,
        (Expected({"long-run"}, r"(?i)^job job-000041 \(\S*send_?mail\) .*for 1 min on \S*w1\b.*usually \d+ ms"),),
        frozenset({EARLIER}),
    ),
    Situation(
        "L8", "a job kills the two workers that run it", play_poison,
        (Expected({"interrupted"}, r"^job job-000001\b.*running when 2 workers died"),), frozenset({RUNS}),
    ),
    Situation(
        "L9", "20 due jobs, and no scheduler or dispatcher", play_missing_dispatcher,
        (Expected({"due-not-dispatched", "no-scheduler", "nobody-polls"},
                  r"^20 (jobs are )?due\b.* · .*(dispatch|[Ss]tart)"),),
    ),
    Situation(
        "L10", "four times as many jobs come as go, for two minutes", play_growing,
        (Expected({"backlog-grows"},
                  r"^the queue grows by (2\.[5-9]|3\.[0-5])/s while [01]\.\d/s leave it \(last [12] min\)" + HELP),),
        frozenset({GROWTH}),
        tolerated=frozenset({"oldest-ready"}),
    ),
    Situation(
        "L11", "a job waits for five minutes while jobs that came later are taken", play_starvation,
        (Expected({"overtaken", "starving"}, r"\b5 ?m.*(first|behind|before)"),), frozenset({WAITS}),
    ),
    Situation(
        "L12", "workers quiet while jobs wait", play_quiet_workers,
        (Expected({"idle-workers", "nobody-consumes", "no-consumer"}, r"\b20 ready\b.* · (start|rqtui workers)"),),
        frozenset({WORKERS, IDLE}),
    ),
    Situation(
        "L13", "the program of a schedule stopped", play_stopped_schedule,
        (Expected({"schedule-stopped", "scheduler-stopped"}, r"\breport\b.*(last run 20.*due 20|1[05]s ago).* · "),),
    ),
    Situation(
        "L14", "a job is lost by the system itself", play_lost,
        (Expected({"lost", "lost-on-kill", "orphan", "stale-intermediate", "expired"}, r"^[12] .*such as \S+.* · "),),
        frozenset({EARLIER}), tolerated=frozenset({"worker-gone"}),
    ),
    Situation(
        "L15", "three jobs wait for a job that failed for good", play_failed_parent,
        (Expected({"parent-failed", "parent-of-failed"}, r"\b3\b.*(wait|child).*requeue"),),
    ),
    Situation("L17", "a key of the wrong type", play_wrong_type,
              (Expected({"wrong-type"}, r"^key KEY holds a string\b.* · find out which program"),)),
    Situation(
        "L18", "a job runs longer than the time after which it is given out again", play_overrun,
        (Expected({"interrupted", "foreign-restore", "runs-twice"}, RUNS_TWICE),),
        frozenset({RUNS, EARLIER}),
    ),
    Situation(
        "L19", "one kind fails at every attempt and comes back at once", play_storm,
        (Expected({"retry-storm"}, r"(?i)charge.*\b[2-7]\d attempts a minute, \d+ % of"),),
        frozenset({FAILURES, RUNS}), tolerated=frozenset({"failing"}),
    ),
    Situation(
        "L20", "at once: all attempts fail, a worker was killed, 200 old dead jobs", play_several,
        (Expected({"failing"}, r"^(7|8|9|10)\d % .*CardDeclined", "critical"), Expected(GONE, r"\b[15]\b" + FREED)),
        frozenset({FAILURES, MINUTES, EARLIER, LOCKS}),
        prepare=plant_old_dead, only_info=frozenset({"dead-many"}),
    ),
)  # fmt: skip
