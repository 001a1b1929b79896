"""Replies that are read ahead: each is used once, and never after a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from rqtui.connection.connect import connect
from rqtui.engine.engine import Engine
from rqtui.model import Ref
from rqtui.scripts import script as scripts
from rqtui.scripts.read_ahead import ReadAhead
from rqtui.systems.registry import create_systems

REF = Ref("native", "mail")


@pytest.fixture
def sender(url: str, client: Redis) -> Iterator[Redis]:
    """Connect as the engine does: a script that the server lacks is not sent again, behind later calls."""
    with connect(url, sends_script_texts=True) as connected:
        yield connected


def _counts(client: Redis) -> tuple[Any, Any, list[int], Any]:
    """Return a read-ahead store, a call that counts a queue, the sizes of what was sent, and the sender."""
    sizes: list[int] = []

    def send(calls: Any) -> list[Any]:
        sizes.append(len(calls))
        return scripts.send_calls(client, calls)

    system = Engine(client, create_systems(("native",))).systems["native"]
    [call] = system.queue_request("mail").calls
    return ReadAhead(), (system, call), sizes, send


def _put(system: Any) -> Any:
    return system.put_request("mail", [{"body": b"1"}]).calls[0]


def test_a_stored_reply_is_used_once(sender: Redis) -> None:
    ahead, (_system, call), sizes, send = _counts(sender)
    ahead.fetch([call], send)
    first, second = ahead.send_calls([call], send), ahead.send_calls([call], send)
    assert sizes == [1, 1]
    assert first[0].word == second[0].word


def test_a_change_makes_what_was_read_outdated_and_carries_the_calls_after_it(sender: Redis) -> None:
    ahead, (system, call), sizes, send = _counts(sender)
    ahead.fetch([call], send)
    ahead.after = (call,)
    assert len(ahead.send_calls([_put(system)], send)) == 1
    assert sizes == [1, 2]
    [counted] = ahead.send_calls([call], send)
    assert sizes == [1, 2]
    assert system.queue_request("mail").parse([counted]).map_counts_by_place()["ready"] == 1
    ahead.send_calls([_put(system)], send)
    [counted] = ahead.send_calls([call], send)
    assert sizes == [1, 2, 1, 1]
    assert system.queue_request("mail").parse([counted]).map_counts_by_place()["ready"] == 2


def test_a_call_that_was_not_read_ahead_is_sent_and_so_is_one_that_failed(sender: Redis) -> None:
    ahead, (system, call), sizes, send = _counts(sender)
    sender.set("rqtui:{mail}:ready", "x")
    ahead.fetch([call], send)
    other = system.queue_request("other").calls[0]
    ahead.send_calls([call, other], send)
    assert sizes == [1, 2]
