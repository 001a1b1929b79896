"""Measure start-up and screen: wall time, processor time, memory and bytes, in a pseudo-terminal.

The screen runs as a program of its own, at 160×45 and with its usual interval of 2 s, and keys are pressed as a person
presses them. The time that a person waits is measured up to the byte that the terminal gets.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rqtui.client.queue import BYTES, Queue

from .line import Bench, Line
from .terminal import Terminal, run_terminal, start_delay_proxy

MARK = "painted"
_EMPTY_APP = f"""
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("{MARK}")
Empty().run()
"""
_EVERY_S = 2.0  # between two refreshes, by default
_LINK_S = 0.2
_KEY_MS = "≤ 50"
_COMPLETION = {"_RQTUI_COMPLETE": "complete_bash", "COMP_WORDS": "rqtui ", "COMP_CWORD": "1"}


def measure_start_up(on: Bench) -> Iterator[Line]:
    """Measure the wall time of `rqtui --version` and of a shell completion."""
    times = on.size(7, 1)
    rqtui = [sys.executable, "-m", "rqtui"]
    bare, _ = _measure_wall_s([sys.executable, "-c", "pass"], times)
    yield Line("bare Python, wall time", bare, "s")
    version, code = _measure_wall_s([*rqtui, "--version"], times)
    yield Line("rqtui --version, wall time", version, "s", "≤ 0.15", f"exit code {code}" if code else "")
    completion, code = _measure_wall_s(rqtui, times, _COMPLETION)
    yield Line("completion of commands, wall time", completion, "s", "≤ 0.15", f"exit code {code}" if code else "")


def _measure_wall_s(
    command: Sequence[str], times: int, variables: Mapping[str, str] | None = None
) -> tuple[float, int]:
    """Return the median wall time of a command after a first run that warms the disk cache, and its exit code."""
    environment = {**os.environ, **(variables or {})}
    spent = []
    code = 0
    for _ in range(times + 1):
        began = time.perf_counter()
        code = subprocess.run(command, capture_output=True, env=environment, check=False).returncode
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[1:]), code


def measure_first_paint(on: Bench) -> Iterator[Line]:
    """Measure the time to the first paint in a pseudo-terminal, compared with an empty Textual app."""
    Queue(MARK, on.client, BYTES).put_many([b'{"to":"a@b.example"}'] * on.size(1_000, 10))
    ours = [sys.executable, "-m", "rqtui", on.server.url]
    empty_s, ours_s, counted_s = _measure_paint_s(
        [([sys.executable, "-c", _EMPTY_APP], MARK), (ours, str(on.server.port)), (ours, MARK)], on.size(6, 1)
    )
    yield Line("first paint of an empty Textual app", empty_s, "s")
    note = "" if ours_s else "not measured: it did not paint"
    yield Line("first paint of rqtui: its header and its frames", ours_s, "s", note=note)
    yield Line("  against the empty app", ours_s / empty_s if ours_s and empty_s else None, "×", "≤ 1.2")
    yield Line("until the overview shows a queue and its counts", counted_s, "s", note=note)


def _measure_paint_s(programs: Sequence[tuple[Sequence[str], str]], times: int) -> list[float | None]:
    """Return each program's shortest time until its mark is painted. The programs take turns."""
    spent: list[list[float]] = [[] for _ in programs]
    for _ in range(times + 1):
        for number, (command, mark) in enumerate(programs):
            with run_terminal(command) as shown:
                painted = shown.wait_for_text(mark)
            spent[number] += [painted] if painted else []
    return [min(found, default=None) for found in spent]


def measure_idle_screen(on: Bench) -> Iterator[Line]:
    """Measure the screen while nothing changes, and while only an age changes, compared with an empty Textual app.

    The figures are the least processor time of three alternating runs over ten snapshots, on a terminal of 160×45 whose
    overview shows the queue under the cursor below the rows; and the bytes sent to the terminal meanwhile.
    """
    seconds = max(1.0, 10 * _EVERY_S * on.scale)
    empty = [sys.executable, "-c", _EMPTY_APP]
    queue = Queue(MARK, on.client, BYTES)
    for what, delay in (("in which jobs are due in two days", "2d"), ("of waiting jobs, whose age increases", None)):
        on.client.flushall()
        queue.put_many([b"{}"] * on.size(20_000, 10), delay=delay)
        runs: list[list[_IdleRun]] = [[], []]
        for _ in range(on.size(3, 1)):
            for found, command in zip(runs, (empty, _build_rqtui_command(on.server.url)), strict=True):
                with run_terminal(command) as shown:
                    if shown.wait_for_text(MARK):
                        found.append(_measure_idle_run(shown, seconds, _compute_warm_up_s(on)))
        app, ours = (min(found, default=None) for found in runs)
        note = "" if ours else "not measured"
        ratio = ours.ms / app.ms if ours and app and app.ms else None
        yield Line(f"an empty Textual app, over {seconds:.0f} s", app and app.ms, "ms/s")
        yield Line(f"the screen with a queue {what}", ours and ours.ms, "ms/s", note=note)
        yield Line("  against the empty app", ratio, "×", "≤ 1.5")
        yield Line("  per refresh to the terminal", ours and ours.sent / (seconds / _EVERY_S), "bytes")
    yield Line("memory of an empty Textual app", app and app.memory_mb, "MB")
    yield Line("memory of the screen at rest", ours and ours.memory_mb, "MB", "≤ 50", note)


class _IdleRun(NamedTuple):
    """Processor time per second, bytes to the terminal and memory of one run of an idle screen.

    Ordered by processor time.
    """

    ms: float
    sent: int
    memory_mb: float


def _measure_idle_run(shown: Terminal, seconds: float, warm_s: float) -> _IdleRun:
    shown.run(warm_s)
    before = shown.bytes_read
    share = shown.share(seconds)
    return _IdleRun(10 * (share or 0.0), shown.bytes_read - before, shown.memory_mb() or 0.0)


def measure_many_queues(on: Bench) -> Iterator[Line]:
    """Measure the screen with a thousand queues, of which 40 rows are visible."""
    number = on.size(1_000, 50)
    pipe = on.client.pipeline(transaction=False)
    for at in range(number):
        name = f"{MARK}{at:04}"
        pipe.hset(f"rqtui:{{{name}}}:meta", mapping={"version": 1, "in": at})
        pipe.zadd(f"rqtui:{{{name}}}:ready", {str(job): job for job in range(1 + at % 7)})
        pipe.sadd("rqtui:queues", name)
    pipe.execute()
    seconds = max(1.0, 20 * on.scale)
    with run_terminal(_build_rqtui_command(on.server.url)) as shown:
        has_painted = shown.wait_for_text(MARK) is not None
        share = _measure_cpu_share(shown, seconds, _compute_warm_up_s(on)) if has_painted else None
        memory = shown.memory_mb() if has_painted else None
        sent = shown.run(seconds) / (seconds / _EVERY_S) if has_painted else None
    yield Line(f"{number} queues at rest over {seconds:.0f} s, of a core", share, "%", "≤ 1")
    yield Line(f"  memory after {seconds + _compute_warm_up_s(on):.0f} s", memory, "MB", "≤ 150")
    yield Line("  to the terminal per refresh", sent, "bytes")


def measure_large_places(on: Bench) -> Iterator[Line]:
    """Measure pages, keys and memory for a queue with a million jobs in each place."""
    number = on.size(1_000_000, 2_000)
    queue = Queue(MARK, on.client, BYTES)
    for start in range(0, number, 50_000):
        queue.put_many([b'{"to":"a@b.example"}'] * min(50_000, number - start))
    for place in ("scheduled", "reserved", "done", "dead"):  # read-only, so they may have the same jobs
        on.client.zunionstore(f"rqtui:{{{MARK}}}:{place}", [f"rqtui:{{{MARK}}}:ready"])
    times = on.size(20, 3)
    with run_terminal([*_build_rqtui_command(on.server.url), "--read-only"]) as shown:
        _open_first_board(shown, _compute_warm_up_s(on))
        turned = [
            _measure_after_idle(shown, lambda key: shown.measure_ms_to_bytes(key, _PAGE_BYTES), "]")
            for _ in range(times)
        ]
        whole = [_measure_after_idle(shown, shown.measure_ms_to_last_byte, "]") for _ in range(times)]
        keys = [_measure_after_idle(shown, shown.measure_ms_to_first_byte, "jk"[at % 2]) for at in range(times)]
        yield Line(f"page change among {number} jobs, median", _compute_median(turned), "ms", "≤ 100")
        yield Line("  until the job beside it is there too, median", _compute_median(whole), "ms")
        yield Line("from a key to its paint, median", _compute_median(keys), "ms", _KEY_MS)
        yield Line("  and the slowest", _compute_worst(keys), "ms")
        yield Line("  memory", shown.memory_mb(), "MB", "≤ 150")
    with (
        start_delay_proxy(on.server.url, _LINK_S) as url,
        run_terminal([*_build_rqtui_command(url), "--read-only"]) as shown,
    ):
        _open_first_board(shown, _compute_warm_up_s(on))
        keys = [_measure_after_idle(shown, shown.measure_ms_to_first_byte, "jk"[at % 2]) for at in range(times)]
        yield Line(
            f"from a key to its paint on a link of {_LINK_S * 1000:.0f} ms, median",
            _compute_median(keys),
            "ms",
            _KEY_MS,
        )
        yield Line("  and the slowest", _compute_worst(keys), "ms")


def measure_busy_queue(on: Bench) -> Iterator[Line]:
    """Measure how many bytes a refresh of a busy queue sends to the terminal."""
    queue, is_over = Queue(MARK, on.client, BYTES), threading.Event()
    queue.put_many([b'{"to":"a@b.example"}'] * 200)

    def put_jobs_until_stopped() -> None:
        while not is_over.wait(0.02):
            queue.put_many([b'{"to":"a@b.example"}'] * 2)
            queue.ack_many(queue.reserve(2, ttr="30s"))

    seconds = max(1.0, 20 * on.scale)
    worker = threading.Thread(target=put_jobs_until_stopped, daemon=True)
    worker.start()
    with run_terminal(_build_rqtui_command(on.server.url)) as shown:
        has_painted = shown.wait_for_text(MARK) is not None
        overview = _measure_bytes_per_refresh(shown, seconds, _compute_warm_up_s(on)) if has_painted else None
        _open_first_board(shown, _compute_warm_up_s(on))
        board = _measure_bytes_per_refresh(shown, seconds, _compute_warm_up_s(on)) if has_painted else None
    is_over.set()
    worker.join()
    yield Line("a busy queue in the overview, to the terminal per refresh", overview, "bytes")
    yield Line("the board of a busy queue, to the terminal per refresh", board, "bytes")


_WARM_S = 3.0  # until it has imported and counted what it needs
_PAGE_BYTES = 500  # of the cells that differ between two pages of 40 rows; the first write has about 800


def _compute_warm_up_s(on: Bench) -> float:
    return max(0.7, _WARM_S * on.scale)


def _build_rqtui_command(url: str) -> list[str]:
    return [sys.executable, "-m", "rqtui", url]


def _measure_cpu_share(shown: Terminal, seconds: float, warm_s: float) -> float | None:
    """Return the percentage of a core that is used after the program has opened and imported its modules."""
    shown.run(warm_s)
    return shown.share(seconds)


def _measure_bytes_per_refresh(shown: Terminal, seconds: float, warm_s: float) -> float:
    """Return the bytes that one refresh sends, measured over `seconds`."""
    shown.run(warm_s)
    return shown.run(seconds) / (seconds / _EVERY_S)


def _open_first_board(shown: Terminal, warm_s: float) -> None:
    shown.wait_for_text(MARK)
    shown.run(warm_s)
    shown.press("\r")
    shown.run(1.0)


def _measure_after_idle(shown: Terminal, measure: Callable[[str], float | None], keys: str) -> float | None:
    """Press keys and run a measurement when nothing is being painted. The header's clock changes once a second."""
    shown.settle(0.1)
    return measure(keys)


def _compute_median(found: Sequence[float | None]) -> float | None:
    measured = [ms for ms in found if ms is not None]
    return statistics.median(measured) if measured else None


def _compute_worst(found: Sequence[float | None]) -> float | None:
    return max((ms for ms in found if ms is not None), default=None)


MEASURES = (
    measure_start_up,
    measure_first_paint,
    measure_idle_screen,
    measure_many_queues,
    measure_large_places,
    measure_busy_queue,
)
