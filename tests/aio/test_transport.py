"""Test that a request continues while its caller is cancelled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aio_facade import run_on_event_loop
from redis import exceptions

from rqtui.aio import transport
from rqtui.aio.transport import shield_from_cancellation
from rqtui.client.calls import Calls
from rqtui.client.codecs import BYTES
from rqtui.connection.redis_errors import error_replies
from rqtui.errors import RqtuiError


async def cancel_caller(most_s: float, doing: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Cancel a caller once `doing` has begun, and return what the loop reported about unawaited tasks."""
    items: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: items.append(context))
    task = asyncio.create_task(shield_from_cancellation(most_s, doing))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    del task
    gc.collect()
    return items


@run_on_event_loop
async def test_a_cancelled_caller_waits_for_the_end() -> None:
    ended = []

    async def doing() -> None:
        await asyncio.sleep(0.05)
        ended.append(True)

    assert await cancel_caller(20, doing) == [] and ended


@run_on_event_loop
async def test_it_does_not_wait_for_ever() -> None:
    ended = []

    async def doing() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    assert await cancel_caller(0.05, doing) == [] and ended


@run_on_event_loop
async def test_a_second_cancellation_ends_the_wait() -> None:
    doing = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            doing.set()

    task = asyncio.create_task(shield_from_cancellation(20, endless))
    for _ in range(2):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(doing.wait(), 20)


@run_on_event_loop
async def test_an_error_of_what_went_on_is_looked_at() -> None:
    async def doing() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("no reply")

    assert await cancel_caller(20, doing) == []


@run_on_event_loop
async def test_a_caller_that_is_not_cancelled_has_the_answer_or_the_error() -> None:
    async def failing() -> None:
        raise ValueError("no reply")

    assert await shield_from_cancellation(1, lambda: asyncio.sleep(0.01, "answer")) == "answer"
    with pytest.raises(ValueError, match="no reply"):
        await shield_from_cancellation(1, failing)


class Link:
    """A pool of one connection that gives the replies of a test, and writes down what is done with both."""

    def __init__(self, *replies: Any, fails_at: str = "", has_failover: bool = False) -> None:
        self.replies, self.fails_at, self.log = [*replies], fails_at, list[str]()
        self.reply_s, self.connection_kwargs = 0.01, {"find": None} if has_failover else {}

    async def note(self, line: str) -> None:
        self.log.append(line)
        if line == self.fails_at:
            raise exceptions.ConnectionError(f"no {line}")

    async def get_connection(self) -> Link:
        await self.note("get")
        return self

    async def ensure_connected(self, _connection: Any) -> None:
        await self.note("ensure")

    async def release(self, _connection: Any) -> None:
        await self.note("release")

    async def disconnect(self, nowait: bool) -> None:
        await self.note(f"disconnect {nowait}")

    async def send_packed_command(self, commands: list[bytes], check_health: bool) -> None:
        assert len(commands) == 1 and not check_health
        await self.note("send")

    async def read_response(self, disconnect_on_error: bool) -> Any:
        assert not disconnect_on_error
        reply = self.replies.pop(0)
        if reply == "never":
            await asyncio.Event().wait()
        if isinstance(reply, BaseException):
            raise reply
        return reply


@pytest.mark.parametrize(
    ("replies", "number", "found", "log"),
    [
        ([], 0, [], []),
        ([1, 2], 2, [1, 2], ["send"]),
        ([exceptions.ResponseError("no"), 2], 2, ["no", 2], ["send"]),
        ([1, exceptions.ConnectionError("lost")], 3, [1, "lost", "lost"], ["send", "disconnect True"]),
        ([1, "never"], 2, [1, "no reply within 0.01 s."], ["send", "disconnect True"]),
    ],
)
def test_each_command_has_a_reply_an_error_or_the_reason_why_it_is_lost(
    replies: list[Any], number: int, found: list[Any], log: list[str]
) -> None:
    link: Any = Link(*replies)
    received = asyncio.run(transport._send_and_receive(link, link, [b"x"] * number))
    assert [str(getattr(reply, "reason", reply)) for reply in received] == [str(reply) for reply in found]
    assert link.log == log


def test_an_unexpected_error_closes_the_connection_because_replies_are_on_their_way() -> None:
    link: Any = Link(KeyError("a mistake"))
    with pytest.raises(KeyError):
        asyncio.run(transport._send_and_receive(link, link, [b"x"]))
    assert link.log == ["send", "disconnect True"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [("PONG", ""), (exceptions.ResponseError("no"), "no"), (exceptions.ConnectionError("lost"), "lost")],
)
def test_a_plain_command_returns_its_reply_or_raises_its_error(reply: Any, error: str) -> None:
    link: Any = Link(reply)
    if error:
        with pytest.raises(exceptions.RedisError, match=error):
            asyncio.run(transport.execute_command(link, "PING"))
    else:
        assert asyncio.run(transport.execute_command(link, "PING")) == reply
    assert link.log[0] == "get" and link.log[-1] == "release"


PAUSE = Calls("mail", BYTES).call("pause")


def test_no_calls_take_no_connection_and_a_pool_without_one_answers_each_call() -> None:
    link: Any = Link()
    assert asyncio.run(transport.send_all_calls(link, [])) == [] and not link.log
    link = Link(fails_at="get")
    found = asyncio.run(transport.send_all_calls(link, [PAUSE, PAUSE]))
    assert [isinstance(error, RqtuiError) for error in found] == [True, True] and link.log == ["get"]


def test_the_connection_of_a_call_goes_back_to_the_pool_also_after_an_error() -> None:
    for reply in ([b"paused"], exceptions.ResponseError("ERR no")):
        link: Any = Link(reply)
        found = asyncio.run(transport.send_all_calls(link, [PAUSE]))
        assert link.log == ["get", "send", "release"]
        if isinstance(reply, list):
            assert transport.unwrap_reply(found[0]).word == "paused"
        else:
            with pytest.raises(RqtuiError):
                transport.unwrap_reply(found[0])
    link = Link([b"paused"])
    assert asyncio.run(transport.run_call(link, PAUSE)).word == "paused"


@pytest.mark.parametrize(("has_failover", "is_sent_again"), [(True, True), (False, False)])
def test_a_call_whose_key_moved_is_sent_again_where_addresses_are_looked_up(
    *, has_failover: bool, is_sent_again: bool
) -> None:
    answers: list[list[Any]] = [[error_replies.Elsewhere("moved"), "first"], ["second"]]
    sent: list[int] = []

    async def send(calls: Any) -> list[Any]:
        sent.append(len(calls))
        return answers.pop(0)

    link: Any = Link(has_failover=has_failover)
    found = asyncio.run(transport._send_with_failover(link, send, [PAUSE, PAUSE]))
    assert sent == ([2, 1] if is_sent_again else [2]) and found[1] == "first"
    assert (found[0] == "second") is is_sent_again


def test_a_replica_that_refuses_a_call_is_left() -> None:
    refusal = exceptions.ReadOnlyError("You can't write against a read only replica.")
    link: Any = Link(refusal)
    [found] = asyncio.run(transport.send_all_calls(link, [PAUSE]))
    assert isinstance(found, RqtuiError) and link.log == ["get", "send", "disconnect True", "release"]
