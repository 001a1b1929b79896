"""Replies of Redis whose size is at a limit, by limits that are small enough for a test.

`replies_at_bounds.txt` has what comes of random replies and of replies of each form.
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/connection/test_replies_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest
from families import run_in_one_test
from kept_text import assert_lines_match_file
from redis import Redis

from rqtui.connection import reply_limits
from rqtui.connection.buffered_replies import append_received_replies
from rqtui.connection.redis_errors import acl_denials
from rqtui.connection.reply_limits import LimitedReader, ReplyTooLong, UnexpectedReply, check_reply_types
from rqtui.errors import Denied

INCOMPLETE = object()
KEPT = Path(__file__).with_name("replies_at_bounds.txt")


def read_all(*parts: bytes) -> object:
    """Return the replies that arrive in these parts, or the text of the error."""
    reader, replies = LimitedReader(notEnoughData=INCOMPLETE), []
    try:
        for part in parts:
            reader.feed(part)
            while (reply := reader.gets()) is not INCOMPLETE:
                replies.append(reply)
    except ReplyTooLong as error:
        return str(error)
    return replies


@run_in_one_test(
    "items, expected",
    [
        (b"*2\r\n:1\r\n:2\r\n", [[1, 2]]),
        (b"*3\r\n:1\r\n:2\r\n:3\r\n", [[1, 2, 3]]),
        (b"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "its reply has 4 values, and rqtui reads 3 at most"),
        (b"*2\r\n*1\r\n:1\r\n:2\r\n", [[[1], 2]]),
        (b"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", "its reply has 4 values, and rqtui reads 3 at most"),
        (b"*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:4\r\n:5\r\n:6\r\n", [[1, 2, 3], [4, 5, 6]]),
        (b"*0\r\n*-1\r\n$-1\r\n$0\r\n\r\n", [[], None, None, b""]),
    ],
)
def test_a_reply_has_at_most_so_many_values_nested_ones_included(items: bytes, expected: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_limits, "FREE_BYTES", 0)
        patch.setattr(reply_limits, "REPLY_ITEMS", 3)
        assert read_all(items) == expected
        assert read_all(*(items[at : at + 1] for at in range(len(items)))) == expected


@run_in_one_test("size, is_read", [(35, True), (36, True), (37, False)])
def test_a_reply_has_at_most_so_many_bytes(size: int, is_read: bool) -> None:
    value = b"$%d\r\n%s\r\n" % (size, b"x" * size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_limits, "FREE_BYTES", 0)
        patch.setattr(reply_limits, "REPLY_BYTES", 43)
        for parts in ((value,), (value[:20], value[20:])):
            assert read_all(*parts) == ([b"x" * size] if is_read else "its reply has more than 0 MB")
        assert read_all(b"$1\r\na\r\n" + b"$36\r\n" + b"x" * 36 + b"\r\n") == [b"a", b"x" * 36], "each reply on its own"


@run_in_one_test("free_bytes, is_checked", [(10, True), (11, False), (12, False)])
def test_a_short_reply_is_not_checked_while_so_many_bytes_have_arrived(free_bytes: int, is_checked: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_limits, "FREE_BYTES", free_bytes)
        patch.setattr(reply_limits, "VALUE_BYTES", 4)
        assert read_all(b"$5\r\nabcde\r\n"[:11]) == (
            "its reply has a value of 5 bytes, and Redis allows 0 MB" if is_checked else [b"abcde"]
        )


@pytest.mark.parametrize("begun", range(1, 10))
def test_the_length_of_a_long_table_is_checked_before_hiredis_reads_it(begun: int) -> None:
    header = b"*4194305\r\n"
    assert read_all(header[:begun], header[begun:]) == "its reply has 4194305 values, and rqtui reads 4194304 at most"
    assert (
        read_all(b":1\r\n", header[:begun], header[begun:])
        == "its reply has 4194305 values, and rqtui reads 4194304 at most"
    )


@run_in_one_test("length", [4_095, 4_096, 4_097])
def test_an_error_text_has_at_most_4096_characters(length: int) -> None:
    text = reply_limits._truncate_error_text("e" * length)
    assert text == ("e" * length if length <= 4_096 else "e" * 4_095 + "…")


@run_in_one_test("most, expected", [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 2])])
def test_so_many_received_replies_are_read(most: int, expected: list[int]) -> None:
    reader = hiredis.Reader()
    reader.feed(b":1\r\n:2\r\n:")
    connection: Any = SimpleNamespace(_parser=SimpleNamespace(_reader=reader))
    replies: list[Any] = []
    append_received_replies(connection, replies, most)
    assert replies == expected


SOURCE = "local a\nredis.call('GET', KEYS[1])\nredis.pcall('DEL', KEYS[1]) redis.call('GET', KEYS[2])"


@run_in_one_test("line, commands", [(0, []), (1, []), (2, ["GET"]), (3, ["DEL", "GET"]), (4, [])])
def test_the_commands_of_a_line_of_a_script_are_found(line: int, commands: list[str]) -> None:
    reply = (
        f"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:{line}."
    )
    assert acl_denials.find_called_commands(reply, SOURCE) == commands


@run_in_one_test("number", [1, 2, 3, 4, 5])
def test_a_denied_key_is_named_with_few_others(number: int) -> None:
    reply = "NOPERM No permissions to access a key"
    text = str(acl_denials.add_missing_right(Denied("denied"), reply, "", [*(f"k{at}" for at in range(number)), "k0"]))
    shown = [name for name in ("k0", "k1", "k2", "k3", "k4") if f"~{name}" in text]
    assert len(shown) == min(number, 3) and (f"(and {number - 3} more)" in text) is (number > 3)


def build_reply(random: Random, depth: int = 0) -> bytes:
    kind = random.choice("*$$$$:+-" if depth < 3 else "$:")
    if kind == "*":
        items = [build_reply(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3)))]
        return b"*%d\r\n" % len(items) + b"".join(items)
    size = random.choice((0, 1, 2, 5, 9, 10, 11))
    if kind == "$":
        return b"$-1\r\n" if random.random() < 0.1 else b"$%d\r\n%s\r\n" % (size, b"*$:+\r\n12345"[:size])
    return kind.encode() + b"7" * max(1, size) + b"\r\n"


def random_replies(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for seed in range(150):
        random = Random(seed)
        limits = {
            "FREE_BYTES": random.choice((0, 0, 10, 30)),
            "VALUE_BYTES": random.choice((9, 10, 99)),
            "REPLY_BYTES": random.choice((20, 40, 99)),
            "REPLY_ITEMS": random.choice((2, 3, 9)),
            "LINE_BYTES": random.choice((9, 12, 99)),
        }
        for name, value in limits.items():
            monkeypatch.setattr(reply_limits, name, value)
        data = b"".join(build_reply(random) for _ in range(random.choice((1, 2, 4))))
        cuts = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(random.choice((0, 1, 3, 9))))})
        found = read_all(*(data[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)))
        yield f"{[*limits.values()]} {data!r:.60} {cuts}: {found}"


def forms() -> Iterator[str]:
    """Yield which replies are accepted for a command of each form."""
    callbacks: Any = check_reply_types(Redis()).response_callbacks
    replies: dict[str, list[object]] = {
        "LLEN": [5, b"5", None, True, [5]],
        "GET": [b"x", None, 5, [b"x"]],
        "LRANGE": [[], [b"x", None], [5], b"x", None, [b"x", [b"y"]]],
        "SCAN": [[b"0", []], [b"0", [b"x"]], [b"0"], [b"0", [], []], [5, []], [b"0", [5]], [b"0", 5], (b"0", []), None],
        "HGETALL": [[5, 6], None],
    }
    for command, found in replies.items():
        for reply in found:
            try:
                yield f"{command} {reply!r}: {callbacks[command](reply)!r}"
            except UnexpectedReply as error:
                yield f"{command} {reply!r}: {error}"
    yield f"known commands: {[name in callbacks for name in ('llen', 'LLEN', 'PING', 'NOSUCH')]}"


def test_random_replies_and_forms_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        lines = [*random_replies(patch)]
    assert_lines_match_file([*lines, *forms()], KEPT)


def test_the_limits_are_those_of_redis() -> None:
    table = b"*1000000\r\n"
    assert read_all(table + b"$536870912\r\n") == []
    assert read_all(table + b"$536870913\r\n") == "its reply has a value of 536870913 bytes, and Redis allows 512 MB"
    line = b"+" + b"x" * ((4 << 20) - 1)
    assert read_all(line) == []
    assert read_all(line + b"x") == "its reply has a line of more than 2 MB"
