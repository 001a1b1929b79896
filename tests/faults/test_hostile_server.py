"""A server that no Redis is, or that means harm: its replies cost no memory, and each command ends with a sentence."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hiredis import Reader
from hostile_server import REPLIES, HostileServer
from redis import exceptions
from screens import run_on_event_loop, screen
from shell import build_environment

from rqtui.aio import Queue as LoopQueue
from rqtui.client import Queue
from rqtui.connection import reply_limits
from rqtui.connection.connect import connect
from rqtui.connection.reply_limits import LimitedReader, ReplyTooLong, UnexpectedReply
from rqtui.errors import RqtuiError

COMMANDS = (
    ["snapshot"],
    ["health"],
    ["put", "mail", "1"],
    ["jobs", "mail", "ready"],
    ["act", "requeue", "mail", "--place", "dead", "--all", "--yes"],
)
PROGRAM = Path(__file__).parent.parent / "support" / "hostile_server.py"
MOST_MB = 250  # the program with the tests' helpers takes 90
NOT_WHOLE = object()


@pytest.mark.slow
def test_no_reply_of_a_server_takes_much_memory_or_ends_a_command_without_a_sentence(tmp_path: Path) -> None:
    env = build_environment("") | {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    env["PYTHONPATH"] += f":{PROGRAM.parent}"
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(COMMANDS)], env=env, capture_output=True, timeout=300, check=True
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) == len(REPLIES) * len(COMMANDS)
    wrong = [row for row in rows if (reason := _what_is_wrong(row)) and row.update(reason=reason) is None]
    assert not wrong, json.dumps(wrong, indent=1)


def _what_is_wrong(row: dict[str, Any]) -> str:
    if row["megabytes"] > MOST_MB:
        return "memory"
    if row["code"] == 0 and row["reply"] != "an empty table":
        return "success"
    if "Traceback" in row["err"] or "should not happen" in row["err"]:
        return "no sentence"
    if len(row["err"]) > 10_000 or (row["code"] and not row["err"]):
        return "too many words, or none"
    return "slow" if row["seconds"] > 30 else ""


def test_a_server_that_answers_a_number_to_everything_is_no_redis() -> None:
    with HostileServer(REPLIES["a number"], greets=False) as server, pytest.raises(UnexpectedReply, match="SETNAME"):
        connect(server.url).ping()


@pytest.mark.parametrize("name", ["a value of 10^12 bytes", "a table of 2^31 numbers", "a line without an end"])
def test_a_queue_refuses_a_reply_without_an_end_on_a_thread_and_in_an_event_loop(name: str) -> None:
    with HostileServer(REPLIES[name]) as server:
        with Queue("mail", server.url) as queue, pytest.raises(RqtuiError, match="its reply has"):
            queue.reserve()

        async def reserve() -> None:
            async with LoopQueue("mail", server.url) as queue:
                await queue.reserve()

        with pytest.raises(RqtuiError, match="its reply has"):
            asyncio.run(reserve())


@run_on_event_loop
async def test_the_screen_starts_and_explains_why_it_shows_nothing() -> None:
    with HostileServer(REPLIES["a table of 2^31 numbers"]) as server:
        async with screen(server.url, (120, 35)) as ui:
            await ui.until_shown("does not answer as a Redis does")


def test_an_error_of_a_server_is_cut_to_4_kb() -> None:
    with HostileServer(REPLIES["an error of 1 MB"]) as server, pytest.raises(exceptions.ResponseError) as error:
        connect(server.url).ping()
    assert len(str(error.value)) <= 4096 and str(error.value).endswith("…")


def _replies(reader: Reader, data: bytes, step: int) -> list[Any]:
    """Yield the replies in `data`, which arrives in pieces, each as soon as it is complete."""
    found = []
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        while (reply := reader.gets()) is not NOT_WHOLE:
            found.append(reply)
    return found


@pytest.mark.parametrize("step", [1, 7, 64, 1000, 10**6])
def test_replies_within_the_limits_are_read_as_without_limits_however_they_arrive(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_limits, "FREE_BYTES", 50)
    body = b"*99999999\r\n$999999999999\r\n" * 9  # a body may hold what would be a header elsewhere
    bulk = b"$%d\r\n%b\r\n" % (len(body), body)
    some = b"*4\r\n:1\r\n*-1\r\n*2\r\n" + bulk + b"$-1\r\n+OK\r\n" + b"$0\r\n\r\n" + b"*0\r\n" + bulk + b":12345\r\n"
    data = some * 20
    plain = _replies(Reader(notEnoughData=NOT_WHOLE), data, step)
    assert _replies(LimitedReader(notEnoughData=NOT_WHOLE), data, step) == plain and len(plain) == 100


@pytest.mark.parametrize("step", [1, 5, 64])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"*1\r\n*4194304\r\n", "4194305 values"),
        (b"*2\r\n$3\r\nabc\r\n*2147483647\r\n", "values"),
        (b"$5\r\nabcde\r\n*5000000\r\n", "values"),
    ],
)
def test_a_table_beyond_the_limit_is_refused_before_space_is_reserved_for_it(
    data: bytes, words: str, step: int
) -> None:
    with pytest.raises(ReplyTooLong, match=words):
        _replies(LimitedReader(notEnoughData=NOT_WHOLE), data, step)


def test_limits_are_for_one_reply_and_not_for_all_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_limits, "FREE_BYTES", 100)
    monkeypatch.setattr(reply_limits, "REPLY_BYTES", 1_000)
    one = b"$500\r\n" + b"x" * 500 + b"\r\n"
    assert len(_replies(LimitedReader(notEnoughData=NOT_WHOLE), one * 50, 700)) == 50
    with pytest.raises(ReplyTooLong, match="more than"):
        _replies(LimitedReader(notEnoughData=NOT_WHOLE), b"*3\r\n" + one * 3, 700)


@pytest.mark.parametrize("step", [5, 64, 1000])
def test_a_long_table_of_small_values_is_read_and_its_bytes_are_dropped(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_limits, "FREE_BYTES", 100)
    values = [b"v" * (number % 13) for number in range(400)]
    table = b"*%d\r\n" % len(values) + b"".join(b"$%d\r\n%b\r\n" % (len(value), value) for value in values)
    reader, data = LimitedReader(notEnoughData=NOT_WHOLE), table * 5 + b"+OK\r\n" * 100
    found, kept_bytes = [], 0
    for start in range(0, len(data), step):
        reader.feed(bytearray(data[start : start + step]))
        while (reply := reader.gets()) is not NOT_WHOLE:  # one more command than there are replies, as redis-py does
            found.append(reply)
        kept_bytes = max(kept_bytes, len(reader._head))
    assert found == [values] * 5 + [b"OK"] * 100
    assert kept_bytes <= 100 + step
    monkeypatch.setattr(reply_limits, "REPLY_BYTES", len(table) - 1)
    with pytest.raises(ReplyTooLong, match="more than"):
        _replies(LimitedReader(notEnoughData=NOT_WHOLE), table, step)
