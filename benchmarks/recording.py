"""Measure the cost of a recording: processor time of `rqtui record`, bytes of its file, and bytes written to the disk.

    python benchmarks/recording.py                        50 queues, of which half have traffic, for two minutes
    python benchmarks/recording.py --queues 1000 --seconds 60
    python benchmarks/recording.py --jobs 20              with the first 20 jobs of each place, once a minute

The command runs as users run it, beside a server without other clients. Jobs are put and acknowledged while it runs;
the first ten seconds, in which it starts, do not count. A second part feeds a recorder with an hour of snapshots as
fast as it takes them, for the bytes of an hour and the share of the recorder in the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from own.line import Line, describe_machine

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server
from rqtui.engine.engine import Engine
from rqtui.engine.rates import Totals
from rqtui.model import Cause, Count, Finding, Focus, Job, Page, PageSelection, Snapshot, State
from rqtui.model import Queue as CountedQueue
from rqtui.recording.page_collector import PageCollector
from rqtui.recording.recorder import Recorder
from rqtui.recording.store import Limits
from rqtui.systems.registry import create_system

QUEUES, SECONDS, INTERVAL_S = 50, 120.0, 2.0
START_S = 10.0  # the command starts and finds the queues
HOUR_POLLS = int(3600 / INTERVAL_S)
NOW_MS = int(time.time() * 1000)
CPU_TARGET, BYTES_TARGET = "≤ 2", "≤ 20"


def measure_command(url: str, queues: int, seconds: float, jobs: int) -> Iterator[Line]:
    """Yield the processor time and the writes of `rqtui record` while jobs flow through half of the queues.

    The first `jobs` jobs of each place are recorded.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "RQTUI_STATE_DIR": folder, "RQTUI_CONFIG": os.devnull}
        words = [sys.executable, "-m", "rqtui", "record", url, "--every", str(INTERVAL_S), "--jobs", str(jobs)]
        with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                _move_jobs(url, queues, START_S)
                before, began_s = _read_process(process.pid), time.monotonic()
                _move_jobs(url, queues, seconds)
                after, elapsed_s = _read_process(process.pid), time.monotonic() - began_s
            finally:
                process.terminate()
        (file,) = Path(folder).glob("recordings/*.rqt")
        with sqlite3.connect(file) as connection:
            ((polls,),) = connection.execute("SELECT sum(polls) FROM server_period").fetchall()
        connection.close()
    share = 100 * (after[0] - before[0]) / elapsed_s
    note = f"{polls} refreshes, one every {INTERVAL_S:g} s"
    yield Line(f"rqtui record, {queues} queues, of a core", round(share, 2), "%", CPU_TARGET, note)
    written_mb = (after[1] - before[1]) / elapsed_s * 3600 / 1e6
    yield Line("its writes to the disk, with SQLite's journal", round(written_mb, 1), "MB/h", "", "")


def measure_pages(url: str, queues: int, jobs: int) -> Iterator[Line]:
    """Yield what reading the first `jobs` jobs of each place of all queues adds to the refreshes of a minute."""
    collector = PageCollector(jobs)
    pages_read = commands = sent_bytes = 0
    with connect(url) as client:
        engine = Engine(client, [create_system("native")])
        for _step in engine.discover():
            pass
        counted = engine.take_snapshot(Focus(is_thorough=True))
        while pages := collector.choose_selections(counted, engine.systems):
            plain, plain_bytes = _measure_snapshot(engine, Focus())
            taken, page_bytes = _measure_snapshot(engine, Focus(pages=pages))
            pages_read += len(pages)
            commands += taken.cost.commands - plain.cost.commands
            sent_bytes += page_bytes - plain_bytes
            collector.add_pages(taken, pages)
    yield Line(f"first {jobs} jobs of each place, {queues} queues", pages_read, "pages/min", "", "")
    yield Line("their commands", commands, "/min", "", "in the round trips of the refreshes")
    yield Line("their replies", round(sent_bytes / 1e6, 2), "MB/min", "", "")


def _measure_snapshot(engine: Engine, focus: Focus) -> tuple[Snapshot, int]:
    """Return a snapshot, and the bytes that Redis sent for it."""
    before = engine.client.info("stats")["total_net_output_bytes"]
    snapshot = engine.take_snapshot(focus)
    return snapshot, engine.client.info("stats")["total_net_output_bytes"] - before


def measure_hour(queues: int, jobs: int, polls: int = HOUR_POLLS) -> Iterator[Line]:
    """Yield the size of the file after an hour of snapshots, and the processor time of the recorder in this hour.

    The first `jobs` jobs of each place are recorded: those of four places in each queue, which change each minute in
    every second one.
    """
    source, systems = random.Random(1), {"native": create_system("native")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recordings" / "hour.rqt"
        recorder = Recorder(path, "redis://benchmark", Limits(), print, job_limit=jobs)
        now_ms, totals, cpu_s = NOW_MS, [Totals()] * queues, 0.0
        for poll in range(polls):
            for number in range(0, queues, 2):
                ended = source.randrange(20)
                totals[number] = Totals(*(total + ended for total in totals[number][:3]), 0, 0)
            snapshot = _build_snapshot(now_ms + int(poll * INTERVAL_S * 1000), queues, source)
            selections = recorder.choose_pages(snapshot, systems)
            snapshot = replace(snapshot, pages=tuple(_build_page(selection, poll) for selection in selections))
            began_s = time.process_time()
            recorder.record_snapshot(snapshot, lambda ref: totals[int(ref.queue)], selections=selections)
            while recorder.has_pending_records:
                time.sleep(0.0005)
            cpu_s += time.process_time() - began_s
        began_s = time.process_time()
        recorder.close(60)
        cpu_s += time.process_time() - began_s
        size_mb = path.stat().st_size / 1e6
    yield Line(
        f"the file after an hour, {queues} queues",
        round(size_mb, 2),
        "MB",
        "" if jobs else BYTES_TARGET,
        "half of them busy",
    )
    note = "without reading Redis"
    yield Line("the recorder alone, of a core", round(100 * cpu_s / (polls * INTERVAL_S), 3), "%", "", note)


def _build_snapshot(taken_ms: int, queues: int, source: random.Random) -> Snapshot:
    """Build a snapshot in which every second queue has traffic, and every tenth a finding with causes."""
    counted = []
    for number in range(queues):
        is_busy = number % 2 == 0
        counts = tuple(Count(state.value, state, source.randrange(1000) if is_busy else 7) for state in State)
        causes = (Cause("ConnectionError: mail.example.com", source.randrange(50)), Cause("ValueError", 3))
        finding = Finding("failing", "warning", str(number), "40 % of attempts fail", causes=causes)
        counted.append(
            CountedQueue(
                str(number),
                "native",
                counts,
                taken_ms,
                workers=3,
                oldest_ready_ms=source.randrange(10_000) if is_busy else None,
                counters={"in": 0, "out": 0, "failed": 0, "dead": 0},
                findings=(finding,) if number % 10 == 0 else (),
            )
        )
    return Snapshot(taken_ms, tuple(counted))


def _build_body(number: int) -> dict[str, str]:
    """Build a body of about 200 bytes of JSON, of which most differs from that of other numbers."""
    return {"to": "ada@example.com", "template": "welcome-2", "text": random.Random(number).randbytes(72).hex()}


def _build_page(selection: PageSelection, poll: int) -> Page:
    """Build a page of jobs with bodies of 200 bytes. Those of every second queue differ in each minute."""
    queue, place = selection.ref.queue, selection.place
    first = poll if int(queue) % 2 == 0 else 0
    jobs = tuple(
        Job(
            f"job-{number:08}".encode(), queue, "native", place, State(place), b"", name="send_mail",
            body=(body := json.dumps(_build_body(number)).encode()), body_bytes=len(body), enqueued_ms=NOW_MS + number,
            since_ms=NOW_MS + first, attempts=1, max_attempts=5,
            error="ConnectionError: mail.example.com" if place == "dead" else "",
        )
        for number in range(first, first + selection.limit)
    )  # fmt: skip
    return Page(queue, "native", place, jobs, 1000)


def _fill_queues(url: str, queues: int, jobs: int) -> None:
    """Put more than `jobs` jobs with bodies of 200 bytes into each of four places of all queues."""
    bodies = [_build_body(number) for number in range((jobs + 5) * 3)]
    with connect(url) as client:
        for number in range(queues):
            queue = Queue(f"queue-{number}", client)
            queue.put_many([{"body": body, "name": "send_mail", "max_attempts": 1} for body in bodies])
            for job in queue.reserve(jobs + 5):
                job.reject("ConnectionError: mail.example.com")
            for job in queue.reserve(jobs + 5):
                job.ack(keep="1h")
            queue.put_many([{"body": body, "name": "send_mail", "delay": 3600} for body in bodies[: jobs + 5]])


def _move_jobs(url: str, queues: int, seconds: float) -> None:
    """Put and acknowledge a few jobs per second in every second queue, for some seconds."""
    end_s = time.monotonic() + seconds
    with connect(url) as client:
        opened = [Queue(f"queue-{number}", client) for number in range(queues)]
        for queue in opened:
            queue.put("waiting", delay=3600)
        while time.monotonic() < end_s:
            began_s = time.monotonic()
            for queue in opened[::2]:
                queue.put("job")
                for job in queue.reserve():
                    job.ack()
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began_s)))


def _read_process(pid: int) -> tuple[float, int]:
    """Return the processor time of a process in seconds, and the bytes that it wrote to the disk."""
    nanoseconds = sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return nanoseconds / 1e9, int(fields["wchar"])


def main() -> None:
    """Measure both parts, and print the machine and the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    with start_server("system") as server:
        where = describe_machine(server.kind)
        print(
            f"{where['cpu']}, {where['cores']} cores, {where['server']}, Python {where['python']}, "
            f"SQLite {sqlite3.sqlite_version}; load {os.getloadavg()[0]:.1f}\n"
        )
        if options.jobs:
            _fill_queues(server.url, options.queues, options.jobs)
        for line in chain(
            measure_command(server.url, options.queues, options.seconds, options.jobs),
            measure_pages(server.url, options.queues, options.jobs) if options.jobs else (),
            measure_hour(options.queues, options.jobs),
        ):
            print(line.text(), flush=True)


if __name__ == "__main__":
    main()
