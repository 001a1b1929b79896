"""Record with MONITOR which commands a server runs, and check that reading runs no command that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from beside.stock import Stock
from redis import Redis
from shell import shell

from rqtui.testing.keyspace import dump


@contextmanager
def record_commands(client: Redis) -> Iterator[list[list[str]]]:
    """Record the commands that the server runs during the block, including those of scripts."""
    seen: list[list[str]] = []
    is_on = threading.Event()

    def listen() -> None:
        with client.monitor() as monitor:
            is_on.set()
            for entry in monitor.listen():
                if entry["command"] == "PING the end":
                    return
                seen.append(entry["command"].split(" "))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    is_on.wait(30)
    try:
        yield seen
    finally:
        while thread.is_alive():
            client.execute_command("PING", "the end")
            thread.join(0.2)


def filter_writes(client: Redis, seen: list[list[str]]) -> list[list[str]]:
    """Return the commands that may change a key."""
    is_write: dict[str, bool] = {}
    for name in {words[0].lower() for words in seen}:
        info = client.execute_command("COMMAND", "INFO", name)
        flags = {
            str(flag) for found in (info.values() if isinstance(info, dict) else info) for flag in _read_flags(found)
        }
        is_write[name] = any("write" in flag for flag in flags)
    return [words for words in seen if is_write[words[0].lower()]]


def _read_flags(found: Any) -> Any:
    return found["flags"] if isinstance(found, dict) else (found or [None, None, []])[2]


def check_reads_only(
    stock: Stock,
    client: Redis,
    looks: Sequence[Sequence[str]],
    writing: Callable[[], object],
    telling: Sequence[str] = ("health", "workers"),
) -> list[list[str]]:
    """Check that these commands of rqtui write nothing, and that the check notices `writing`. Return what they ran.

    Commands in `telling` may exit with another code than 0, because they report findings.
    """
    before = dump(client)
    with record_commands(client) as seen:
        for words in looks:
            ran = shell(stock.url, *words, "--json")
            assert ran.code == 0 or words[0] in telling, (words, ran.out, ran.err)
    assert len(seen) > len(looks)
    assert filter_writes(client, seen) == []
    assert dump(client) == before
    with record_commands(client) as written:
        writing()
    assert filter_writes(client, written), "the check sees writes"
    return seen
