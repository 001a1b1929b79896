"""Measure what rqtui costs over a slow link: round trips to Redis, seconds, and bytes to the terminal.

    python benchmarks/far.py             about two minutes
    python benchmarks/far.py --rtt 0.5   another round trip time for the figures in seconds

Round trips and bytes are counted and do not depend on the speed of the machine. Each command runs twice: on a server
that has none of its scripts yet (the figure), and again. Peers that are installed here are measured in the same way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

from own.environments import Missing, create_python_environment, find_cache_folder
from own.line import Line, describe_machine
from own.link import open_link
from own.runner import format_heading
from own.terminal import Terminal, run_terminal
from redis import Redis

from rqtui.client.queue import BYTES, Queue
from rqtui.config.state_folder import STATE_VARIABLE
from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server

QUEUES, JOBS = 12, 20
LARGE, SMALL = (45, 160), (24, 80)  # rows, columns
RQTUI = (sys.executable, "-m", "rqtui")
COMMANDS = (
    (("put", "queue00", "{}"), "≤ 4"),
    (("act", "promote", "queue00", "later"), "≤ 4"),
    (("snapshot",), "≤ 6"),
    (("health",), "≤ 6"),
    (("jobs", "queue00"), "≤ 6"),
)
PEERS = {  # URL stands for that of the link
    "rq": ("rq.cli", "info", "--url", "URL", "--raw"),
    "celery": ("celery", "--broker", "URL", "inspect", "ping", "--timeout", "1"),
}
REST_S = 30.0


def fill_server(client: Redis) -> None:
    """Put jobs into queues of which no worker is alive."""
    for number in range(QUEUES):
        Queue(f"queue{number:02}", client, BYTES).put_many([b'{"to":"a@b.example"}'] * (JOBS + number))
    Queue("queue00", client, BYTES).put(b"{}", id="later", delay="2d")


def measure_commands(url: str, client: Redis, rtt_s: float) -> Iterator[Line]:
    """Yield the round trips of each command, and the seconds of one at the round trip time."""
    fill_server(client)
    for words, goal in COMMANDS:
        client.script_flush()
        (first, sent), (again, _sent) = _count_round_trips(url, words), _count_round_trips(url, words)
        yield Line(f"round trips: {' '.join(words)}", first, "", goal, f"{again} again; {sent / 1000:.1f} kB sent")
        if words[0] in ("put", "snapshot"):
            began_s = time.perf_counter()
            _count_round_trips(url, words, rtt_s)
            yield Line(f"  at a round trip time of {rtt_s:g} s", time.perf_counter() - began_s, "s")


def _count_round_trips(url: str, words: Sequence[str], rtt_s: float = 0.0) -> tuple[int, int]:
    """Run a command of rqtui over a link, and return its round trips and the bytes that it sent."""
    with open_link(url, rtt_s) as link:
        subprocess.run([*RQTUI, *words, "--url", f"{link.url}?socket_timeout=60"], capture_output=True, check=False)
        return link.round_trips, link.bytes_sent


def measure_peers(url: str, client: Redis) -> Iterator[Line]:
    """Yield the round trips of the commands of other projects, and of `rqtui snapshot`, on a server with RQ queues."""
    client.flushall()
    for number in range(QUEUES):
        client.sadd("rq:queues", f"rq:queue:queue{number:02}")
        client.rpush(f"rq:queue:queue{number:02}", *(f"job{at}" for at in range(JOBS)))
    where = f"{QUEUES} queues of RQ, no worker"
    try:
        environment = create_python_environment(find_cache_folder() / "far", ("rq", "celery[redis]"))
    except Missing as error:
        yield Line("peers", None, note=str(error))
        return
    for package, words in PEERS.items():
        with open_link(url) as link:
            command = [*environment.command, "-m", *(link.url if word == "URL" else word for word in words)]
            code = subprocess.run(command, capture_output=True, check=False).returncode
            shown = " ".join(word for word in words if word not in ("URL", "--url", "--broker"))
            note = f"{package} {environment.versions[package]}, exit code {code}; {where}"
            yield Line(f"round trips: {shown.removeprefix('rq.cli ')}", link.round_trips, note=note)
    yield Line("round trips: rqtui snapshot", _count_round_trips(url, ["snapshot"])[0], note=where)
    client.flushall()
    fill_server(client)


def measure_first_snapshot(url: str, rtt_s: float) -> Iterator[Line]:
    """Yield the seconds until the first snapshot is on the screen, over a slow link."""
    with run_terminal([*RQTUI, url]) as shown:  # compiles the modules, as an installed program has them
        shown.wait_for_text("queue00")
        shown.run(3.0)
    with open_link(url, rtt_s) as link, run_terminal([*RQTUI, f"{link.url}?socket_timeout=60"]) as shown:
        seconds = shown.wait_for_text("queue00")
        goal = "≤ 9" if rtt_s == 2 else ""
        name = f"first snapshot on the screen, round trip time {rtt_s:g} s"
        yield Line(name, seconds, "s", goal, f"{link.round_trips} round trips until then")


def measure_screen(url: str) -> Iterator[Line]:
    """Yield the bytes to the terminal for keys, and at rest."""
    for size, rest_goal, cursor_goal, enter_goal in ((LARGE, "", "≤ 2000", "≤ 25000"), (SMALL, "≤ 150", "", "")):
        where = f"{size[1]}×{size[0]}"
        with run_terminal([*RQTUI, url], size) as shown:
            shown.wait_for_text("queue00")
            shown.run(6.0)
            moves = [_count_key_bytes(shown, key) for key in "jjjjkkkkjjjj"]
            yield Line(f"bytes for j or k on the overview, {where}, median", statistics.median(moves), "", cursor_goal,
                       f"of {len(moves)}: {min(moves)} … {max(moves)}, snapshots of that time included")  # fmt: skip
            opened = []
            for _ in range(4):
                opened.append(_count_key_bytes(shown, "\r", 1.5))
                _count_key_bytes(shown, "\x1b", 1.0)
            yield Line(f"bytes for Enter on a queue, {where}, median", statistics.median(opened), "", enter_goal,
                       f"of {len(opened)}: {min(opened)} … {max(opened)}")  # fmt: skip
            rest = shown.run(REST_S) / REST_S
            yield Line(f"bytes per second at rest, {where}", rest, "", rest_goal, f"over {REST_S:.0f} s")


def _count_key_bytes(shown: Terminal, key: str, seconds: float = 0.7) -> int:
    """Press a key when nothing is being painted, and return the bytes of the next seconds."""
    shown.settle(0.1)
    shown.press(key)
    return shown.run(seconds)


def measure_snapshots_per_change(url: str, client: Redis) -> Iterator[Line]:
    """Yield how many snapshots a key takes that changes one job: what is sent after the change until all is quiet."""
    with open_link(url) as link, run_terminal([*RQTUI, link.url], LARGE) as shown:
        shown.wait_for_text("queue00")
        shown.run(4.0)
        shown.press("\r")
        shown.run(2.0)
        before = len(link.requests)
        shown.press("D")
        shown.run(1.5)
        shown.press("y")
        shown.run(1.2)  # shorter than the time between two snapshots
        requests = link.requests[before:]
        changes = [at for at, each in enumerate(requests) if b"EVALSHA\r\n" in each or b"EVAL\r\n" in each]
        # A snapshot of a board reads several places at once; the counts for the journal are one call.
        count = sum(each.count(b"EVALSHA_RO") > 1 for each in requests[changes[0] + 1 :]) if changes else None
        yield Line("snapshots after a key that deletes one job", count, "", "≤ 1", "" if changes else "it did nothing")


def main() -> None:
    """Print each figure with its goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rtt", type=float, default=2.0, metavar="SECONDS", help="round trip time (default: 2)")
    rtt_s = parser.parse_args().rtt
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, start_server("auto") as server:
        os.environ |= {STATE_VARIABLE: folder, "RQTUI_CONFIG": os.devnull}
        with connect(server.url, timeout_s=60.0) as client:
            print(format_heading(describe_machine(server.kind)), flush=True)
            for lines in (
                measure_commands(server.url, client, rtt_s),
                measure_peers(server.url, client),
                measure_first_snapshot(server.url, rtt_s),
                measure_screen(server.url),
                measure_snapshots_per_change(server.url, client),
            ):
                for line in lines:
                    print(line.text(), flush=True)


if __name__ == "__main__":
    main()
