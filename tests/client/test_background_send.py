"""Of things that are made and then sent, the next is made while the one before is under way."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from redis import Redis

from rqtui.client import calls
from rqtui.client.background_send import send_in_background
from rqtui.client.queue import Queue
from rqtui.errors import Refused, UsageError


def test_all_are_sent_in_order_and_one_at_a_time() -> None:
    under_way, most, sent = 0, 0, []

    def send(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        sent.append(number)
        under_way -= 1
        return -number

    for count in range(6):
        sent.clear()
        assert list(send_in_background(iter(range(count)), send)) == [-number for number in range(count)]
        assert sent == list(range(count))
    assert most == 1


def test_the_next_is_made_while_one_is_under_way() -> None:
    is_made = threading.Event()

    def making() -> Iterator[int]:
        yield from (1, 2)
        is_made.set()
        yield 3

    def send(number: int) -> bool:
        return is_made.wait(20) if number == 2 else True

    assert list(send_in_background(making(), send)) == [True, True, True]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_no_batch_follows_a_failed_one(failing: int) -> None:
    sent = []

    def send(number: int) -> int:
        sent.append(number)
        if number == failing:
            raise Refused("full")
        return number

    with pytest.raises(Refused):
        list(send_in_background(iter(range(1, 6)), send))
    assert sent == list(range(1, failing + 1))


@pytest.mark.parametrize("made", [1, 2, 3, 4])
def test_jobs_yielded_before_an_error_are_sent(made: int) -> None:
    sent: list[int] = []

    def making() -> Iterator[int]:
        yield from range(made)
        raise UsageError("no body")

    with pytest.raises(UsageError):
        list(send_in_background(making(), sent.append))
    assert sent == list(range(made))


def test_a_job_that_cannot_be_described_leaves_the_batches_before_it_in(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_JOBS_PER_CALL", 10)
    queue = Queue("mail", client)
    with pytest.raises(UsageError, match="Job 26"):
        queue.put_many([*range(25), {"id": "x"}])
    assert queue.counts()["ready"] == 20
