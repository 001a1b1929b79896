"""What a waiter on an event loop sends, waits for and returns, by a clock that moves only while it waits.

`waits_at_bounds.txt` has every line. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/aio/test_waits_at_bounds.py` writes the
text; review the difference as code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from redis import exceptions

from rqtui.aio import wakeup
from rqtui.aio.wakeup import WakeWaiter
from rqtui.client.wakeup import BLOCK_S, GRACE_S, UNBLOCK_LAG_S

KEPT = Path(__file__).with_name("waits_at_bounds.txt")
MARKER = [b"key", b"wake", b"0"]
DENIED: Any = exceptions.NoPermissionError("denied")
LOST = exceptions.ConnectionError("Connection refused")


class Server:
    """A server that replies to BZPOPMIN and CLIENT at given times, and the clock of the waiter."""

    def __init__(self, replies: dict[float, Any], client_id: Any = 7, unblock: Any = None) -> None:
        self.now_s, self.replies, self.client_id, self.unblock = 0.0, replies, client_id, unblock
        self.log: list[str] = []
        self.interrupts: dict[float, Any] = {}
        self.is_connected = False
        self._reply: asyncio.Future[Any] | None = None

    def monotonic(self) -> float:
        return self.now_s

    # As a pool

    def check_event_loop(self) -> None:
        pass

    def create_extra_connection(self) -> Any:
        self.log.append("create")
        return self

    async def ensure_connected(self, _connection: Any) -> None:
        self.log.append("connect")
        self.is_connected = True

    # As a connection

    async def send_packed_command(self, commands: list[bytes], check_health: bool) -> None:
        words = commands[0].decode().split("\r\n")[2::2]
        self.log.append(f"send {' '.join(words)}" + (" with a check" if check_health else ""))

    async def read_response(self) -> Any:
        self._reply = asyncio.get_running_loop().create_future()
        return await self._reply

    async def disconnect(self, nowait: bool) -> None:
        self.log.append(f"disconnect {nowait}")
        self.is_connected = False

    async def execute(self, _pool: Any, *words: Any) -> Any:
        if isinstance(words[0], Server):
            words = words[1:]
        self.log.append(" ".join(map(str, words)))
        found = self.client_id if words[:2] == ("CLIENT", "ID") else self.unblock if words[0] == "CLIENT" else None
        if isinstance(found, Exception):
            raise found
        if words[1] == "UNBLOCK" and found is not None:
            self.answer(found)
        return found

    def answer(self, reply: Any) -> None:
        assert self._reply is not None
        if isinstance(reply, Exception):
            self._reply.set_exception(reply)
        else:
            self._reply.set_result(None if reply == "nothing" else reply)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass until the next reply or interrupt, at most some seconds."""
        await asyncio.sleep(0)  # The task that reads the reply begins.
        self.log.append(f"wait {seconds:g}")
        seconds = seconds or 0.001  # A clock never stops for long.
        due_s = min([*(self.replies if self._reply else ()), *self.interrupts], default=1e9)
        is_due = due_s <= self.now_s + seconds
        self.now_s = due_s if is_due else self.now_s + seconds
        if is_due and due_s in self.interrupts:
            self.interrupts.pop(due_s)()
        elif is_due:
            self.answer(self.replies.pop(due_s))
        for _turn in range(3):
            await asyncio.sleep(0)


def run(story: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    async def play() -> str:
        waiter = WakeWaiter(server, "key")  # type: ignore[arg-type]
        waiter._wait_for_event = server.pass_time  # type: ignore[method-assign]
        try:
            return str(await story(waiter))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            await waiter.close()

    with monkeypatch.context() as patch:
        patch.setattr(wakeup, "time", SimpleNamespace(monotonic=server.monotonic))
        patch.setattr(wakeup, "execute_command", server.execute)
        patch.setattr(wakeup, "execute_on_connection", server.execute)
        found = asyncio.run(play())
    return f"{found} at {server.now_s:g} s: {', '.join(server.log)}"


def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    end_s = BLOCK_S + GRACE_S
    for client_id in (7, DENIED):
        for timer_s in (None, 0.0, UNBLOCK_LAG_S, UNBLOCK_LAG_S + 0.001, 1.0, BLOCK_S, end_s, end_s + 1):
            for replies in ({}, {0.003: MARKER}, {BLOCK_S: "nothing"}, {end_s: MARKER})[: 4 if timer_s else 2]:
                title = f"timer {timer_s}, id {client_id}, replies at {[*replies]}"
                server = Server({**replies}, client_id)
                yield f"{title}: {run(lambda waiter, timer_s=timer_s: waiter.wait(timer_s), server, monkeypatch)}"
    for name, reply in (("lost", LOST), ("denied", DENIED)):
        yield f"{name}: {run(lambda waiter: waiter.wait(None), Server({1.0: reply}), monkeypatch)}"


def interrupts(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for timer_s in (None, 0.004, 2.0):
        for at_s in (0.002, 1.0):

            async def interrupt(waiter: WakeWaiter, timer_s: Any = timer_s, at_s: float = at_s) -> str:
                waiter._pool.interrupts[at_s] = waiter.interrupt  # type: ignore[attr-defined]
                first = await waiter.wait(timer_s)
                return f"{first}, then {await waiter.wait(0.001)}"

            yield f"interrupted at {at_s}, timer {timer_s}: {run(interrupt, Server({}), monkeypatch)}"
    stop = asyncio.Event()
    for seconds in (-1.0, 0.0, 0.5):
        for is_set in (False, True):
            stop.set() if is_set else stop.clear()
            paused = run(lambda waiter, seconds=seconds: waiter.pause(seconds, stop), Server({}), monkeypatch)
            yield f"pause of {seconds}, stop {is_set}: {paused}"
            waited = run(lambda waiter: waiter.wait(None, stop), Server({0.5: MARKER}), monkeypatch)
            yield f"wait with a stop {is_set}: {waited}"


def cancelled_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    async def wait_twice(waiter: WakeWaiter) -> str:
        waiter._pool.interrupts[0.5] = waiter.interrupt  # type: ignore[attr-defined]
        found = [str(await waiter.wait(1.0))]
        await waiter.cancel_wait()
        await waiter.cancel_wait()
        found.append(str(await waiter.wait(1.0)))
        return " ".join(found)

    for client_id in (7, DENIED):
        for unblock in ("nothing", MARKER, DENIED, LOST):
            found = run(wait_twice, Server({}, client_id, unblock), monkeypatch)
            yield f"cancelled, id {client_id}, unblocked with {unblock}: {found}"

    async def wait_on(waiter: WakeWaiter) -> str:
        return f"{await waiter.wait(1.0)} {await waiter.wait(1.0)} {await waiter.wait(0.001)}"

    yield f"continued: {run(wait_on, Server({1.5: MARKER}), monkeypatch)}"
    yield f"restored: {run(lambda waiter: waiter.restore_marker(), Server({}), monkeypatch)}"


def test_waits_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_lines_match_file([*waits(monkeypatch), *interrupts(monkeypatch), *cancelled_waits(monkeypatch)], KEPT)
