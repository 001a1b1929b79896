"""Compare rqtui's dispatcher and reaper with the programs of other systems, on the same keys and the same server.

Each comparison is a `Race`: plant the keys, let one side work until no job is left, do the same for the other, compare.
A side also costs other clients time, which is its longest single call in the server's slow log.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rqtui.engine.engine import Engine
from rqtui.engine.loops import build_round
from rqtui.errors import ServerError
from rqtui.model import Ref
from rqtui.scenarios.originals.bullmq import build_connection_name
from rqtui.scripts import script as scripts
from rqtui.systems import registry

from .calls import FLOOR_US, MOST_MS, NO_SLOW_LOG, measure_reads, record_longest_call
from .line import Bench, Line
from .worlds import build_body, send_in_pipelines

ROUNDS = 3  # medians of so many
SLOW_ONE_S = 5.0  # a side that takes longer is measured once

Side = Callable[[], int]  # works until nothing is left, says how many it moved


@dataclass(frozen=True, slots=True)
class Race:
    """A comparison of rqtui with another system's program: `plant` writes jobs, `original` and `ours` move them.

    `original_share` is the part of the jobs that the other program gets, because all of them would take it minutes.
    """

    name: str
    what: str  # how the original does it
    number: int
    plant: Callable[[Any, int], None]
    original: Callable[[Any], Side]
    ours: Callable[[Any], Side]
    original_share: float = 1.0


def _measure_race(on: Bench, race: Race) -> Iterator[Line]:
    """Yield the lines of a race: jobs per second of both sides, their ratio, and the longest call of each."""
    number = on.size(race.number, 20)
    ours_s, ours_ms, ours_note = _measure_rounds(on.client, race.plant, number, race.ours)
    part = max(20, round(number * race.original_share))
    original_s, original_ms, original_note = _measure_rounds(on.client, race.plant, part, race.original)
    yield Line(f"{race.name}: rqtui", ours_s, "jobs/s", note=ours_note)
    yield Line(f"{race.name}: the original", original_s, "jobs/s", note=f"{original_note}; {race.what}")
    yield Line("  rqtui against the original", ours_s / original_s if original_s else None, "×")
    yield Line("  longest call of rqtui", ours_ms, "ms", MOST_MS, _format_call_note(ours_ms))
    yield Line("  longest call of the original", original_ms, "ms", note=_format_call_note(original_ms))


def _format_call_note(longest_ms: float | None) -> str:
    if longest_ms is None:
        return NO_SLOW_LOG
    return "or less" if longest_ms <= FLOOR_US / 1000 else ""


def _measure_rounds(
    client: Any, plant: Callable[[Any, int], None], number: int, side: Callable[[Any], Side]
) -> tuple[float, float | None, str]:
    """Return the median jobs/s and longest call (ms) of several rounds, and how many rounds of which size ran."""
    rates: list[float] = []
    longest: list[float] = []
    moved = 0
    while len(rates) < ROUNDS:
        client.flushall()
        plant(client, number)
        work = side(client)
        with record_longest_call(client) as calls:
            began = time.perf_counter()
            moved = work()
            seconds = time.perf_counter() - began
        rates.append(moved / seconds)
        longest += calls
        if seconds > SLOW_ONE_S:
            break
    times = "once" if len(rates) == 1 else f"{len(rates)} times"
    missing = "" if moved == number else f" of {number}"
    return statistics.median(rates), statistics.median(longest) if longest else None, f"{moved}{missing} jobs, {times}"


def _build_loop_run(client: Any, spec: str, verb: str, queue: str, args: Mapping[str, object] | None = None) -> Side:
    """Return a function that runs rqtui's dispatcher or reaper on one queue until a round is not full.

    The function returns the number of jobs moved.
    """
    system = registry.create_system(spec)
    work = build_round(verb, client, {system.name: system}, lambda: (Ref(system.name, queue),), args=args)

    def run_loop_until_done() -> int:
        moved = 0
        while True:
            done = work()
            moved += done.moved
            errors = [step.error for step in done.steps if step.error]
            if errors:
                raise ServerError(errors[0])
            if not done.is_full:
                return moved

    return run_loop_until_done


def _build_double_reap(client: Any, spec: str, queue: str, later_ms: int) -> Side:
    """Return a function that runs the reaper twice, the second time with a clock that is `later_ms` ahead."""
    now_ms = int(time.time() * 1000)
    passes = [_build_loop_run(client, spec, "reap", queue, {"now_ms": at_ms}) for at_ms in (now_ms, now_ms + later_ms)]
    return lambda: sum(one() for one in passes)


def _build_repetition(step: Callable[[], int]) -> Side:
    """Return a function that repeats a step until the step moves nothing, and returns the number of moved jobs."""

    def repeat_step_until_done() -> int:
        moved = 0
        while done := step():
            moved += done
        return moved

    return repeat_step_until_done


# -- the races ----------------------------------------------------------------------------------------------------


def measure_due_dispatch(on: Bench) -> Iterator[Line]:
    """Measure how fast due tasks of redis_queue_dispatcher are moved from the sorted set to the list."""
    from rqtui.scenarios.originals import dispatcher

    def plant_due_tasks(client: Any, number: int) -> None:
        now_s = int(time.time())
        send_in_pipelines(client, (("ZADD", dispatcher.DELAYED, now_s - 60, build_body(n)) for n in range(number)))

    def build_original_dispatcher(client: Any) -> Side:
        program = dispatcher.Dispatcher(client, batch=10)
        return _build_repetition(lambda: (program.step() or (0,))[0])

    def build_own_dispatcher(client: Any) -> Side:
        return _build_loop_run(client, "dispatcher", "dispatch", dispatcher.READY)

    what = "a script call per 10 tasks"
    yield from _measure_race(
        on,
        Race("dispatcher: dispatch", what, 100_000, plant_due_tasks, build_original_dispatcher, build_own_dispatcher),
    )


def measure_expired_requeue(on: Bench) -> Iterator[Line]:
    """Measure how fast redisched jobs with expired leases are moved back to the queue."""
    from rqtui.scenarios.originals import redisched

    def plant_expired_leases(client: Any, number: int) -> None:
        past_ms = int(time.time() * 1000) - 60_000
        send_in_pipelines(
            client, (("HSET", "__REDIS_SCHED_JOBS__bench", f"job-{n}", build_body(n)) for n in range(number))
        )
        send_in_pipelines(
            client, (("ZADD", "__REDIS_SCHED_RESERVED__bench", past_ms, f"job-{n}") for n in range(number))
        )

    def build_original_requeue(client: Any) -> Side:
        program = redisched.Scheduler(client, "bench", "ms")
        return _build_repetition(lambda: int(program.requeue()))

    def build_own_reaper(client: Any) -> Side:
        return _build_loop_run(client, "redisched:topic=bench,unit=ms", "reap", "bench")

    what = "a script call per 1000 jobs"
    yield from _measure_race(
        on, Race("redisched: requeue", what, 100_000, plant_expired_leases, build_original_requeue, build_own_reaper)
    )


def measure_lost_cleaning(on: Bench) -> Iterator[Line]:
    """Measure how fast timeout_sets items without a lock are moved back to `todos`."""
    from rqtui.scenarios.originals import timeout_sets

    def plant_unlocked_items(client: Any, number: int) -> None:
        send_in_pipelines(client, (("SADD", timeout_sets.IN_PROGRESS, n) for n in range(number)))

    def build_original_cleaner(client: Any) -> Side:
        return _build_repetition(timeout_sets.Cleaner(client).step)

    def build_own_reaper(client: Any) -> Side:  # what was seen twice without a lock goes back
        return _build_double_reap(client, "timeout_sets", timeout_sets.TODOS, 3_000)

    what = "SMEMBERS, then two round trips per item"
    yield from _measure_race(
        on,
        Race("timeout_sets: clean", what, 100_000, plant_unlocked_items, build_original_cleaner, build_own_reaper, 0.2),
    )


def measure_late_handout(on: Bench) -> Iterator[Line]:
    """Measure how fast safe_pop entries past their timeout become ready again."""
    from rqtui.scenarios.originals import safe_pop

    def plant_late_entries(client: Any, number: int) -> None:
        past_s = int(time.time()) - 600
        send_in_pipelines(client, (("LPUSH", "bench", f"job-{n}|{past_s}") for n in range(number)))

    def build_original_worker(client: Any) -> Side:
        worker = safe_pop.Worker(client, "bench", has_data=False, block_s=0)
        return _build_repetition(lambda: int(worker.safe_pop() is not None))

    def build_own_reaper(client: Any) -> Side:
        return _build_loop_run(client, "safe_pop:queue=bench", "reap", "bench")

    what = "no cleaner: a worker pops each, asks for its mark, pushes it"
    yield from _measure_race(
        on, Race("safe_pop: reap", what, 100_000, plant_late_entries, build_original_worker, build_own_reaper, 0.2)
    )


def measure_dead_consumer(on: Bench) -> Iterator[Line]:
    """Measure how fast the jobs of a dead orizuru consumer are moved back to the source."""
    from rqtui.scenarios.originals import orizuru

    def plant_dead_consumer(client: Any, number: int) -> None:
        client.sadd(orizuru.CONSUMERS, "dead")
        client.hset(orizuru.HEARTBEATS, "dead", int(time.time() * 1000) - 600_000)
        for what in ("processing", "unacked"):
            key = orizuru.build_key("dead", what)
            send_in_pipelines(client, (("LPUSH", key, orizuru.encode_struct(n)) for n in range(number)))

    def build_original_collector(client: Any) -> Side:
        return lambda: orizuru.collect_unacked(client)

    def build_own_reaper(client: Any) -> Side:  # a list that has not changed is that of a dead consumer
        return _build_double_reap(client, "orizuru:source=bench", "bench", 600_000)

    what = "never gives it back: its collector moves as many rejected ones, a round trip each"
    yield from _measure_race(
        on, Race("orizuru: reap", what, 100_000, plant_dead_consumer, build_original_collector, build_own_reaper, 0.2)
    )


def measure_long_list_count(on: Bench) -> Iterator[Line]:
    """Measure how long counting the places of a long safe_pop list takes."""
    number = on.size(1_000_000, 2_000)
    now_s = int(time.time())
    entries = (f"job-{n}|{now_s - n % 60}" if n % 3 else f"job-{n}" for n in range(number))
    send_in_pipelines(on.client, (("LPUSH", "bench", entry) for entry in entries))
    system = registry.create_system("safe_pop:queue=bench")
    engine, ref = Engine(on.client, [system]), Ref(system.name, "bench")
    page = system.places[0].name
    yield from measure_reads(
        on,
        (
            f"safe_pop: counting {number} entries, longest call",
            lambda: engine.send_request(system.queue_request("bench")),
        ),
        (f"safe_pop: a page of {number} entries, longest call", lambda: engine.fetch_page(ref, page, 0, 50)),
    )
    name = "  the whole list read, as a client without rqtui would"
    yield from measure_reads(on, (name, lambda: on.client.lrange("bench", 0, -1)), target="")


def measure_connection_list(on: Bench) -> Iterator[Line]:
    """Measure the time of CLIENT LIST, by which rqtui finds the workers of BullMQ, with many connections."""
    number = on.size(900, 50)  # more may need more open files than a process may have
    names = (build_connection_name(f"queue-{n % 50}", f"worker-{n}") for n in range(number))
    connections = []
    try:
        for name in names:
            connection = on.client.connection_pool.connection_class(**on.client.connection_pool.connection_kwargs)
            connection.connect()
            connection.send_command("CLIENT", "SETNAME", name)
            connection.read_response()
            connections.append(connection)
        system = registry.create_system("bullmq")
        began_s = time.perf_counter()
        reply = scripts.run_call(on.client, scripts.build_command("CLIENT LIST", "bull:queue-0:meta"))
        read_ms = 1000 * (time.perf_counter() - began_s)
        engine = Engine(on.client, [system])
        began_s = time.perf_counter()
        workers = engine.fetch_workers(Ref(system.name, "queue-0"))
        all_ms = 1000 * (time.perf_counter() - began_s)
    finally:
        for connection in connections:
            connection.disconnect()
    listed = reply.values["reply"]
    yield Line(
        f"bullmq: a list of {number} connections", len(listed) / 1000, "kB", note="read every 10 s, if long 30 s"
    )
    yield Line("  until it arrived", read_ms, "ms")
    yield Line(f"  and parsed, with the {len(workers)} workers of one queue", all_ms, "ms")


MEASURES = (
    measure_due_dispatch,
    measure_expired_requeue,
    measure_lost_cleaning,
    measure_late_handout,
    measure_dead_consumer,
    measure_long_list_count,
    measure_connection_list,
)
