"""Measure the server's time per script, compared with bare scripts. `docs/performance.md` quotes the figures.

    python benchmarks/floor.py        a minute on two quiet cores

The figures are server CPU (INFO, user + sys) and time inside EVALSHA (commandstats) per job of enqueue, reserve and
ack. rqtui's scripts, bare scripts with the same moves, an empty EVALSHA and a PING take turns, and medians are printed.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from own.engine import BARE, BARE_KEYS, BODY, HEADER
from own.line import describe_machine
from redis import Redis

from rqtui.client.native_keys import build_queue_keys
from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server
from rqtui.ids import create_job_ids
from rqtui.scripts import script as scripts

ROUNDS = 15
CALLS = {1: 400, 50: 80}  # of each kind in one round, by the size of the batch

Moves = tuple[Callable[[Sequence[str]], Any], Callable[[Sequence[str]], Any], Callable[[Any], Any]]


def build_own_calls(client: Redis) -> Moves:
    """Return the calls of rqtui's scripts as its client sends them."""
    native, key = scripts.load_scripts("native"), build_queue_keys("floor")
    blank = [None] * (len(native["enqueue"].each) - 2)
    return (
        lambda ids: scripts.run_call(client, native["enqueue"].build_call(key, {}, [[id, BODY, *blank] for id in ids])),
        lambda ids: [
            row[:2]
            for row in scripts.run_call(
                client, native["reserve"].build_call(key, {"limit": len(ids), "worker": "floor"})
            ).rows
        ],
        lambda rows: scripts.run_call(client, native["ack"].build_call(key, {}, rows)),
    )


def build_bare_calls(client: Redis) -> Moves:
    """Return the calls of bare scripts that only make the same moves."""
    sha = {name: str(_decode_text(client.script_load(source))) for name, source in BARE.items()}

    def run_bare_script(name: str, *argv: Any) -> Any:
        return client.evalsha(sha[name], len(BARE_KEYS), *BARE_KEYS, *argv)

    return (
        lambda ids: run_bare_script("enqueue", *(value for id in ids for value in (id, HEADER + BODY))),
        lambda ids: [row[0] for row in run_bare_script("reserve", len(ids), "floor")],
        lambda rows: run_bare_script("ack", *rows),
    )


def _decode_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _read_spent_us(client: Redis) -> tuple[float, float]:
    cpu, commands = client.info("cpu"), client.info("commandstats")
    inside = commands.get("cmdstat_evalsha", {"usec": 0})["usec"]
    return (float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])) * 1e6, float(inside)


class Table:
    """The µs per job, of the server and inside EVALSHA, by row and column."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._found: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def add(self, row: str, column: str, jobs: int, step: Callable[[], Any]) -> Any:
        """Run a step and record its cost."""
        before = _read_spent_us(self._client)
        answer = step()
        after = _read_spent_us(self._client)
        self._found.setdefault((row, column), []).append(((after[0] - before[0]) / jobs, (after[1] - before[1]) / jobs))
        return answer

    def print(self) -> None:
        """Print the table as Markdown. The figure in parentheses is the time inside EVALSHA."""
        rows, columns = (list(dict.fromkeys(key[at] for key in self._found)) for at in (0, 1))
        print("| µs of the server per job | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
        for row in rows:
            print(f"| {row} | " + " | ".join(self._format_cell(row, column) for column in columns) + " |")

    def print_verdicts(self) -> None:
        """Print the ratio of rqtui's server time to that of the bare scripts, and whether it meets the goal."""
        for how, goal in (("one by one", 1.5), ("50 at once", 1.8)):
            ours, bare = (
                sum(
                    statistics.median(value[0] for value in self._found[f"{kind}, {how}", column])
                    for column in ("enqueue", "reserve", "ack")
                )
                for kind in ("ours", "bare")
            )
            word = "met" if ours <= goal * bare else "missed"
            print(f"{how}: {ours:.1f} µs, {ours / bare:.2f} times bare, goal ≤ {goal}: {word}")

    def _format_cell(self, row: str, column: str) -> str:
        values = self._found.get((row, column))
        if not values:
            return "—"
        server, inside = (statistics.median(value[at] for value in values) for at in (0, 1))
        return f"{server:.1f} ({inside:.1f})"


def _measure_lifecycles(table: Table, row: str, moves: Moves, parts: Sequence[Sequence[str]]) -> None:
    enqueue, reserve, ack = moves
    jobs = sum(map(len, parts))
    table.add(row, "enqueue", jobs, lambda: [enqueue(part) for part in parts])
    taken = table.add(row, "reserve", jobs, lambda: [reserve(part) for part in parts])
    table.add(row, "ack", jobs, lambda: [ack(rows) for rows in taken])


def _measure_empty_calls(table: Table, client: Redis) -> None:
    nothing = _decode_text(client.script_load("return 1"))
    argv = [*build_queue_keys("floor").values()][:11] + [""] * 12

    def measure_repeated_calls(row: str, call: Callable[..., Any], *words: Any) -> None:
        table.add(row, "a call", CALLS[1], lambda: [call(*words) for _ in range(CALLS[1])])

    measure_repeated_calls("an EVALSHA of nothing, 11 keys, 12 arguments", client.evalsha, nothing, 11, *argv)
    measure_repeated_calls("an EVALSHA of nothing", client.evalsha, nothing, 0)
    measure_repeated_calls("PING", client.ping)


def main() -> None:
    """Measure all rows and print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with start_server("system") as server, connect(server.url, timeout_s=60.0) as client:
        where = describe_machine(server.kind)
        print(f"{where['cpu']}, {where['cores']} cores, {where['server']}, Python {where['python']}; {ROUNDS} rounds\n")
        table = Table(client)
        kinds = {"ours": build_own_calls(client), "bare": build_bare_calls(client)}
        for _ in range(ROUNDS):
            for batch, calls in CALLS.items():
                for kind, moves in kinds.items():
                    parts = [create_job_ids(batch) for _ in range(calls)]
                    _measure_lifecycles(
                        table, f"{kind}, {'one by one' if batch == 1 else f'{batch} at once'}", moves, parts
                    )
            _measure_empty_calls(table, client)
        table.print()
        print()
        table.print_verdicts()


if __name__ == "__main__":
    main()
