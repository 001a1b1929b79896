"""Test the exact bounds of `connection.reply_limits`; `faults/test_hostile_server.py` tests the limits together."""

from __future__ import annotations

import pytest

from rqtui.connection import reply_limits
from rqtui.connection.reply_limits import LimitedReader, ReplyTooLong

INCOMPLETE = object()


@pytest.fixture(autouse=True)
def _set_small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_limits, "FREE_BYTES", 0)
    monkeypatch.setattr(reply_limits, "LINE_BYTES", 100)


def test_a_line_whose_end_is_within_the_limit_is_read() -> None:
    reader = LimitedReader(notEnoughData=INCOMPLETE)
    reader.feed(b"+" + b"x" * 97)
    assert reader.gets() is INCOMPLETE
    reader.feed(b"\r\n")
    assert reader.gets() == b"x" * 97


def test_a_line_as_long_as_the_limit_is_refused_at_once() -> None:
    reader = LimitedReader(notEnoughData=INCOMPLETE)
    with pytest.raises(ReplyTooLong, match="a line of more than"):
        reader.feed(b"+" + b"x" * 99)


def test_small_values_may_end_at_any_byte_of_what_arrived() -> None:
    data = b"*3\r\n$1\r\na\r\n$2\r\nbb\r\n$3\r\nccc\r\n:7\r\n"
    for cut in range(1, len(data)):
        reader = LimitedReader(notEnoughData=INCOMPLETE)
        replies = []
        for part in (data[:cut], data[cut:]):
            reader.feed(part)
            while (reply := reader.gets()) is not INCOMPLETE:
                replies.append(reply)
        assert replies == [[b"a", b"bb", b"ccc"], 7]


@pytest.mark.parametrize("size", [10, 11])
def test_a_value_of_the_largest_size_is_read_and_a_longer_one_refused(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(reply_limits, "VALUE_BYTES", 10)
    reader = LimitedReader(notEnoughData=INCOMPLETE)
    data = b"$%d\r\n%s\r\n" % (size, b"x" * size)
    if size == 10:
        reader.feed(data)
        assert reader.gets() == b"x" * 10
        return
    with pytest.raises(ReplyTooLong, match="a value of 11 bytes"):
        reader.feed(data)
