"""Measure many queues, and many keys of other programs: processor time of Redis and of the screen."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from redis import exceptions

from rqtui.client.queue import BYTES, Queue

from . import stock_tools, worlds
from .environments import Missing
from .line import Bench, Line
from .terminal import run_terminal

MARK = "mail"
_WARM_S = 10.0  # the screen has opened, found its queues, and counted them in turn
_OVER_S = 20.0
_ROWS = 40  # that change each second
_CHANGING = (1, 100, 1_000, 10_000)
_EVERY_S = 2.0  # between two refreshes
_KEYS = ("user:%d", "session:%d:token", "cache:page:%d", "cart:%d:items", "order:%d", "rate:%d:min", "bull-%d", "a:%d")
_NO_INFO = "not measured: this server has no INFO"


def measure_foreign_keys(on: Bench) -> Iterator[Line]:
    """Measure commands on a Redis server that also has half a million keys of other programs."""
    number = on.size(500_000, 1_000)
    for start in range(0, number, 5_000):
        keys = range(start, min(start + 5_000, number))
        on.client.mset({_KEYS[key % len(_KEYS)] % key: b"x" for key in keys})
    _plant_queues(on, 3)
    with tempfile.TemporaryDirectory() as folder:
        runs = (("snapshot, the first time", ["snapshot"]), ("health, the next time", ["health"]))
        for name, words in (*runs, ("snapshot --walk, which reads all keys", ["snapshot", "--walk"])):
            spent = _measure_redis_s(on, lambda words=words: _run_rqtui_command(on, words, folder))  # type: ignore[misc]
            target = "" if "--walk" in words else "≤ 0.3"
            yield _build_line(f"{number} foreign keys: {name}, Redis", spent, "s", target)
        longest = _measure_longest_ms(on, lambda: _run_rqtui_command(on, ["snapshot", "--walk"], folder))
        note = "" if longest is not None else "not measured: this server has no slow log"
        yield Line("  its longest call", longest, "ms", "≤ 2", note)


def measure_loops_and_counts(on: Bench) -> Iterator[Line]:
    """Measure a screen with a hundred queues while the dispatcher and the reaper run."""
    _plant_queues(on, number := on.size(100, 3))
    yield from _measure_screen(on, f"{number} queues, loops on", redis_ms="≤ 1.5")


def measure_ten_thousand_queues(on: Bench) -> Iterator[Line]:
    """Measure a screen with ten thousand idle queues while the dispatcher and the reaper run."""
    _plant_queues(on, number := on.size(10_000, 50))
    yield from _measure_screen(on, f"{number} queues at rest", share="≤ 2", redis_share="≤ 1", memory="≤ 100")


def measure_changing_queues(on: Bench) -> Iterator[Line]:
    """Measure 1 to 10 000 queues, of which 40 change each second, compared with `rq info --interval`."""
    for number in _CHANGING:
        queues = on.size(number)
        on.client.flushall()
        _plant_queues(on, queues)
        with _change_rows(lambda at, n=queues: Queue(f"{MARK}{at % n:05}", on.client, BYTES).put(b"{}")):  # type: ignore[misc]
            yield from _measure_screen(on, f"{queues} queues, {min(queues, _ROWS)} of them change each second")
    if not on.beside:
        return
    try:
        rq = stock_tools.prepare_environment(stock_tools.RQ)
    except Missing as error:
        yield Line("rq info --interval 1", None, note=f"not measured: {error}")
        return
    command = [str(Path(rq.command[0]).parent / "rq"), "info", "--url", on.server.url, "--interval", "1"]
    for number in _CHANGING[:-1]:
        queues = on.size(number)
        on.client.flushall()
        worlds.send_in_pipelines(on.client, worlds.build_rq_queues(queues))
        with _change_rows(lambda at, n=queues: on.client.rpush(f"rq:queue:queue-{at % n}", "id")):  # type: ignore[misc]
            name = f"{queues} queues, {min(queues, _ROWS)} change: rq info --interval 1 of rq {rq.versions['rq']}"
            yield from _measure_screen(on, name, command=command, mark="queue-0")


@contextlib.contextmanager
def _change_rows(change: Callable[[int], object]) -> Iterator[None]:
    """Change 40 rows each second while the block runs. The first rows are visible on the screen."""
    is_over = threading.Event()

    def change_rows_each_second() -> None:
        while not is_over.wait(1.0):
            for at in range(_ROWS):
                change(at)

    thread = threading.Thread(target=change_rows_each_second, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _measure_screen(
    on: Bench,
    name: str,
    share: str = "",
    redis_share: str = "",
    redis_ms: str = "",
    memory: str = "",
    command: Sequence[str] = (),
    mark: str = MARK,
) -> Iterator[Line]:
    """Measure a program on a terminal: rqtui's screen, or `command` if it is given."""
    seconds = max(2.0, _OVER_S * on.scale)
    idle_s = _measure_redis_s(on, lambda: time.sleep(seconds))  # an idle Redis does something ten times a second
    with run_terminal(command or [sys.executable, "-m", "rqtui", on.server.url]) as shown:
        has_painted = shown.wait_for_text(mark) is not None
        shown.run(max(1.0, _WARM_S * on.scale))
        of_core: list[float | None] = []
        commands, sent = _count_commands(on), shown.bytes_read
        spent_s = _measure_redis_s(on, lambda: of_core.append(shown.share(seconds)))
        command_count, sent = _count_commands(on) - commands, shown.bytes_read - sent
        megabytes = shown.memory_mb() if has_painted else None
    note = f"beyond what it takes by itself; {command_count / seconds * _EVERY_S:.0f} commands" if commands else ""
    spent_s = None if spent_s is None or idle_s is None else max(0.0, spent_s - idle_s)
    spent_ms = None if spent_s is None else spent_s / seconds * _EVERY_S * 1000
    yield Line(f"{name}: the screen, of a core", of_core[0], "%", share)
    yield _build_line(
        f"{name}: Redis, of a core", None if spent_s is None else spent_s / seconds * 100, "%", redis_share
    )
    yield _build_line(f"{name}: Redis, per {_EVERY_S:.0f} s", spent_ms, "ms", redis_ms, note)
    yield Line(f"{name}: memory of the screen", megabytes, "MB", memory)
    yield Line(f"{name}: to the terminal", sent / seconds if has_painted else None, "bytes/s")


def _build_line(name: str, value: float | None, unit: str, target: str, note: str = "") -> Line:
    return Line(name, value, unit, target, _NO_INFO if value is None else note)


def _plant_queues(on: Bench, number: int) -> None:
    """Plant native queues with waiting jobs; every tenth also has a job that is due in two days."""
    for at in range(number):
        queue = Queue(f"{MARK}{at:05}", on.client, BYTES)
        queue.put_many([b"{}"] * (1 + at % 7))
        if at % 10 == 0:
            queue.put(b"{}", delay="2d")


def _run_rqtui_command(on: Bench, words: Sequence[str], folder: str) -> None:
    """Run an rqtui command as a program of its own, with its state folder in `folder`."""
    environment = {**os.environ, "RQTUI_STATE_DIR": folder, "REDIS_URL": on.server.url, "RQTUI_URL": on.server.url}
    command = [sys.executable, "-m", "rqtui", *words]
    subprocess.run(command, capture_output=True, env=environment, check=False, timeout=120)


def _measure_redis_s(on: Bench, work: Callable[[], Any]) -> float | None:
    """Return the processor seconds that Redis uses while `work` runs, or None if INFO does not report them."""
    before = _read_redis_cpu_s(on)
    work()
    after = _read_redis_cpu_s(on)
    return None if before is None or after is None else after - before


def _read_redis_cpu_s(on: Bench) -> float | None:
    """Return the processor seconds that Redis has used so far; None if INFO does not report them."""
    try:
        info = on.client.info("cpu")
    except exceptions.ResponseError:
        return None
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _count_commands(on: Bench) -> int:
    """Return how many commands Redis has run, also in scripts, or 0 if INFO does not report them."""
    try:
        return sum(int(row["calls"]) for row in on.client.info("commandstats").values())
    except exceptions.ResponseError:
        return 0


def _measure_longest_ms(on: Bench, work: Callable[[], Any]) -> float | None:
    """Return the milliseconds of the longest call while `work` runs, from the slow log."""
    try:
        before = on.client.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"] or "10000"
        on.client.config_set("slowlog-log-slower-than", 100)
        on.client.slowlog_reset()
        work()
        entries = on.client.slowlog_get(100_000)
        on.client.config_set("slowlog-log-slower-than", before)
    except exceptions.ResponseError:
        return None
    return max((float(entry["duration"]) for entry in entries), default=0.0) / 1000


MEASURES = (measure_foreign_keys, measure_loops_and_counts, measure_ten_thousand_queues, measure_changing_queues)
