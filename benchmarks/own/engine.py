"""Measure the native queue and the engine: server CPU, memory and time."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redis import Redis, exceptions

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import BYTES, Queue
from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.ids import create_job_ids
from rqtui.model import Focus, PageSelection, Ref
from rqtui.scripts import script as scripts
from rqtui.systems import registry

from . import awaited
from .line import Bench, Line
from .other_queues import OTHER_QUEUES

BODY = b"x" * 200
ROUNDS = 10  # ours and the bare scripts take turns, so that a busy moment of the machine hits both

# The same moves and nothing else: the same records, scores, lines and deadlines come about, in the order that one
# sequence and the server's clock give. No guard, no answer per id, no counter, no setting, no retention, no wake-up.
BARE = {
    "enqueue": """
local seq = redis.call('HINCRBY', KEYS[5], 'seq', #ARGV / 2)
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], seq + i, ARGV[i])
end""",
    "reserve": """
local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local heads, rows = redis.call('ZPOPMIN', KEYS[2], ARGV[1]), {}
local token = redis.call('HINCRBY', KEYS[5], 'token', #heads / 2)
for i = 1, #heads, 2 do
  redis.call('HSET', KEYS[3], heads[i], '1 ' .. token + i .. ' ' .. heads[i + 1] .. ' ' .. now_ms .. ' - - ' .. ARGV[2])
  redis.call('ZADD', KEYS[4], now_ms + 30000, heads[i])
  rows[#rows + 1] = {heads[i], token + i, redis.call('HGET', KEYS[1], heads[i])}
end
return rows""",
    "ack": """
for i = 1, #ARGV do
  redis.call('ZREM', KEYS[4], ARGV[i])
  redis.call('HDEL', KEYS[1], ARGV[i])
  redis.call('HDEL', KEYS[3], ARGV[i])
end""",
}
BARE_KEYS = tuple(f"rqtui:{{bare!}}:{name}" for name in ("jobs", "ready", "attempts", "reserved", "meta"))
HEADER = b"1764547200000:\n"

Lifecycle = Callable[[Sequence[str]], None]


def measure_lifecycle_cpu(on: Bench) -> Iterator[Line]:
    """Measure the server's CPU time per lifecycle of a job (enqueue, reserve, ack), compared with three bare scripts.

    The bare scripts make the same moves.
    """
    for batch, target, lifecycles in ((1, "≤ 1.5", 6_000), (50, "≤ 1.8", 60_000)):
        how = "one by one" if batch == 1 else f"in batches of {batch}"
        per_round = on.size(lifecycles // ROUNDS, batch) // batch * batch
        spent = _measure_cpu_us(on, batch, per_round)
        if spent is None:
            yield Line(f"server CPU per lifecycle, {how}", None, note="not measured: this server has no INFO")
            continue
        ours, bare = spent
        yield Line(f"server CPU per lifecycle, {how}", ours, "µs", note=f"bare scripts {bare:.1f} µs")
        yield Line(f"  against bare scripts, {how}", ours / bare if bare else None, "×", target)


def _measure_cpu_us(on: Bench, batch: int, per_round: int) -> tuple[float, float] | None:
    """Return the microseconds of server CPU per lifecycle: rqtui's and the bare scripts'."""
    if _read_server_cpu_s(on.client) is None:
        return None
    total = {"ours": 0.0, "bare": 0.0}
    runs: dict[str, Lifecycle] = {"ours": _build_own_lifecycle(on.client), "bare": _build_bare_lifecycle(on.client)}
    for run in runs.values():
        run(create_job_ids(batch))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            ids = create_job_ids(per_round)
            before = _read_server_cpu_s(on.client) or 0.0
            for at in range(0, per_round, batch):
                run(ids[at : at + batch])
            total[name] += (_read_server_cpu_s(on.client) or 0.0) - before
    count = ROUNDS * per_round / 1e6
    return total["ours"] / count, total["bare"] / count


def _read_server_cpu_s(client: Any) -> float | None:
    try:
        info = client.info("cpu")
    except exceptions.ResponseError:
        return None
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _build_own_lifecycle(client: Any) -> Lifecycle:
    """Return a function that enqueues, reserves and acks jobs with rqtui's scripts."""
    native, key = scripts.load_scripts("native"), build_queue_keys("bench")
    blank = [None] * (len(native["enqueue"].each) - 2)

    def run_lifecycles(ids: Sequence[str]) -> None:
        scripts.run_call(client, native["enqueue"].build_call(key, {}, [[id, BODY, *blank] for id in ids]))
        taken = scripts.run_call(client, native["reserve"].build_call(key, {"limit": len(ids), "worker": "bench"}))
        scripts.run_call(client, native["ack"].build_call(key, {}, [row[:2] for row in taken.rows]))

    return run_lifecycles


def _build_bare_lifecycle(client: Any) -> Lifecycle:
    """Return a function that enqueues, reserves and acks jobs with bare scripts, which make only the moves."""
    sha = {name: client.script_load(source) for name, source in BARE.items()}
    record = HEADER + BODY

    def run_bare_lifecycles(ids: Sequence[str]) -> None:
        rows = [value for id in ids for value in (id, record)]
        client.evalsha(sha["enqueue"], len(BARE_KEYS), *BARE_KEYS, *rows)
        taken = client.evalsha(sha["reserve"], len(BARE_KEYS), *BARE_KEYS, len(ids), "bench")
        client.evalsha(sha["ack"], len(BARE_KEYS), *BARE_KEYS, *(row[0] for row in taken))

    return run_bare_lifecycles


def measure_memory_per_job(on: Bench) -> Iterator[Line]:
    """Measure the server's memory per waiting job with a body of 200 bytes and a generated id."""
    count = on.size(30_000, 500)
    name = f"memory per waiting job, of {count}"
    queue = Queue("bench", on.client, BYTES)
    queue.put(BODY)  # loads the scripts
    on.client.flushall()
    try:
        before = int(on.client.info("memory")["used_memory"])
    except exceptions.ResponseError:
        yield Line(name, None, note="not measured: this server has no INFO")
        return
    queue.put_many([BODY] * count)
    after = int(on.client.info("memory")["used_memory"])
    yield Line(name, (after - before) / count, "bytes", "≤ 425" if count >= 30_000 else "")


def measure_idle_latency(on: Bench) -> Iterator[Line]:
    """Measure the time from put to running on an idle queue where a consumer waits."""
    count = on.size(300, 10)
    queue = Queue("bench", on.server.url, BYTES)
    arrived: list[float] = []
    took = threading.Semaphore(0)
    stop = threading.Event()

    def consume_jobs() -> None:
        for job in Queue("bench", on.server.url, BYTES).consume(stop=stop):
            arrived.append(time.perf_counter())
            with job:
                pass
            took.release()

    worker = threading.Thread(target=consume_jobs, name="rqtui-bench", daemon=True)
    worker.start()
    waits = []
    for _ in range(count):
        time.sleep(0.02)  # the consumer settles, looks again and blocks
        began = time.perf_counter()
        queue.put(BODY)
        if not took.acquire(timeout=15):
            break
        waits.append((arrived[-1] - began) * 1000)
    stop.set()
    with contextlib.suppress(RuntimeError):
        worker.join(15)
    if not waits:
        yield Line("put → running on an idle queue, median", None, note="not measured: no job arrived in 15 s")
        return
    slow = statistics.quantiles(waits, n=20)[-1] if len(waits) > 1 else waits[0]
    yield Line("put → running on an idle queue, median", statistics.median(waits), "ms", "≤ 2", f"95 %: {slow:.2f} ms")


def measure_drain(on: Bench) -> Iterator[Line]:
    """Measure how fast one process drains no-op jobs through `queue.consume`."""
    count = on.size(60_000, 500)
    queue = Queue("bench", on.server.url, BYTES)
    queue.put_many([b"{}"] * count)
    began, done = time.perf_counter(), 0
    for job in queue.consume(burst=True):
        with job:
            done += 1
    yield Line("drain of no-op jobs, one process", done / (time.perf_counter() - began), "jobs/s", note=f"{done} jobs")


def measure_single_puts(on: Bench) -> Iterator[Line]:
    """Measure the process time and the duration of single puts, compared with redis-py's RPUSH."""
    count = on.size(10_000, 100) // ROUNDS
    spent: dict[str, list[tuple[float, float]]] = {"put": [], "rpush": []}
    with Queue("bench", on.server.url, BYTES) as queue, Redis.from_url(on.server.url, protocol=2) as plain:
        calls: dict[str, Callable[[], Any]] = {"put": lambda: queue.put(BODY), "rpush": lambda: plain.rpush("l", BODY)}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                call()  # connects, loads
                began, began_cpu = time.perf_counter(), time.process_time()
                for _ in range(count):
                    call()
                took = (time.process_time() - began_cpu, time.perf_counter() - began)
                spent[name].append((took[0] / count * 1e6, took[1] / count * 1e6))
    (cpu, wall), (plain_cpu, plain_wall) = (
        [statistics.median(each[at] for each in spent[name]) for at in (0, 1)] for name in calls
    )
    yield Line("put one by one, client CPU", cpu, "µs", "≤ 30", f"an RPUSH of redis-py {plain_cpu:.1f} µs")
    yield Line("put one by one", wall, "µs", note=f"an RPUSH of redis-py {plain_wall:.0f} µs")


def measure_bulk_put(on: Bench) -> Iterator[Line]:
    """Measure how fast jobs are put in bulk, 1000 per call."""
    count = on.size(100_000, 1_000)
    queue = Queue("bench", on.server.url, BYTES)
    queue.put(BODY)
    began, began_cpu = time.perf_counter(), time.process_time()
    queue.put_many([BODY] * count)
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    yield Line("bulk put, 1000 per call", count / wall, "jobs/s", "≥ 60000")
    yield Line("bulk put, client CPU per job", cpu / count * 1e6, "µs", "≤ 5.9")


def measure_tick_trips(on: Bench) -> Iterator[Line]:
    """Measure how many round trips a refresh of the screen takes, and how long they take."""
    queues = [f"bench-{number}" for number in range(on.size(200, 3))]
    for name in queues:
        Queue(name, on.client, BYTES).put_many([BODY] * on.size(50, 5))
    refs = tuple(Ref("native", name) for name in queues)
    pages = tuple(
        PageSelection(refs[0], place, limit=50) for place in ("scheduled", "ready", "reserved", "done", "dead")
    )
    with connect(on.server.url) as client:
        engine = Engine(client, [registry.create_system("native")])
        for looked_at in (1, len(refs)):
            focus = Focus(refs[:looked_at], pages)
            engine.take_snapshot(focus)
            with _record_trips(client) as trips:
                cost = engine.take_snapshot(focus).cost
            plural = "queue" if looked_at == 1 else "queues"
            note = f"{cost.commands} commands, {cost.ms:.1f} ms"
            yield Line(f"round trips per tick, {looked_at} {plural}, 5 pages", len(trips), "", "≤ 1", note)


@contextlib.contextmanager
def _record_trips(client: Any) -> Iterator[list[int]]:
    """Yield a list that gets the size of each round trip that the client makes inside the `with` block."""
    pool = client.connection_pool
    connection = pool.get_connection()
    sent: list[int] = []
    send = connection.send_packed_command

    def send_and_count(command: Any, check_health: bool = True) -> None:
        sent.append(len(command))
        send(command, check_health=check_health)

    connection.send_packed_command = send_and_count
    pool.release(connection)
    try:
        yield sent
    finally:
        connection.send_packed_command = send


MEASURES = (
    measure_lifecycle_cpu,
    measure_memory_per_job,
    measure_idle_latency,
    measure_drain,
    measure_single_puts,
    measure_bulk_put,
    *awaited.MEASURES,
    measure_tick_trips,
    *OTHER_QUEUES,
)
