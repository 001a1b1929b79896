"""What a server is asked to do in a block, as MONITOR tells, and which of that may change a key: looking does not."""

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
def monitored(client: Redis) -> Iterator[list[list[str]]]:
    """The commands that the server runs in the block, as MONITOR tells them, those of scripts too."""
    seen: list[list[str]] = []
    is_on = threading.Event()

    def listen() -> None:
        with client.monitor() as monitor:
            is_on.set()
            for told in monitor.listen():
                if told["command"] == "PING the end":
                    return
                seen.append(told["command"].split(" "))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    is_on.wait(30)
    try:
        yield seen
    finally:
        while thread.is_alive():
            client.execute_command("PING", "the end")
            thread.join(0.2)


def writes(client: Redis, seen: list[list[str]]) -> list[list[str]]:
    """Those that may change a key."""
    known: dict[str, bool] = {}
    for name in {words[0].lower() for words in seen}:
        info = client.execute_command("COMMAND", "INFO", name)
        flags = {str(flag) for found in (info.values() if isinstance(info, dict) else info) for flag in _flags(found)}
        known[name] = any("write" in flag for flag in flags)
    return [words for words in seen if known[words[0].lower()]]


def _flags(found: Any) -> Any:
    return found["flags"] if isinstance(found, dict) else (found or [None, None, []])[2]


def looked(
    stock: Stock,
    client: Redis,
    looks: Sequence[Sequence[str]],
    writing: Callable[[], object],
    telling: Sequence[str] = ("health", "workers"),
) -> list[list[str]]:
    """What the server was asked by these commands of rqtui, of which none writes; the same check sees that `writing`
    does. The exit code of those that are `telling` may say that something is wrong."""
    before = dump(client)
    with monitored(client) as seen:
        for words in looks:
            ran = shell(stock.url, *words, "--json")
            assert ran.code == 0 or words[0] in telling, (words, ran.out, ran.err)
    assert len(seen) > len(looks)
    assert writes(client, seen) == []
    assert dump(client) == before
    with monitored(client) as written:
        writing()
    assert writes(client, written), "the check sees writes"
    return seen
