"""The numbers that commands take: the first and the last are taken, and those beside them are refused."""

from __future__ import annotations

import pytest
from families import run_in_one_test
from redis import Redis
from shell import shell

from rqtui.cli import demo
from rqtui.cli.metrics import parse_listen_address
from rqtui.client.queue import Queue
from rqtui.errors import UsageError

NUMBERS = [
    ("demo --list --seconds", ("0.1", "86400"), ("0.09", "86400.1", "nan", "-1")),
    ("reap mail --once --every", ("0.01", "86400"), ("0.009", "86400.1", "nan")),
    ("reap mail --once --limit", ("1", "1000"), ("0", "1001", "-1")),
    ("dispatch mail --once -n", ("1", "1000", "1001"), ("0", "-1")),
    ("stats mail --minutes", ("1", "1440"), ("0", "1441")),
    ("loops mail --limit", ("1", "1000"), ("0", "1001")),
    ("events mail --limit", ("0", "1", "1000"), ("-1", "1001")),
    ("jobs mail ready --limit", ("1", "5000"), ("0", "-1")),
    ("operations --limit", ("1",), ("0",)),
    ("undo", ("1",), ("0", "-1")),
    ("act delete mail --place ready --all --dry-run --limit", ("1",), ("0",)),
    ("act delete mail --place ready --all --yes --rate 1000/s --stop-at-failures", ("1",), ("0",)),
    ("act delete mail --place ready --all --yes --rate 1000/s --stop-at-depth", ("1",), ("0",)),
]


@run_in_one_test(("command", "good", "bad"), NUMBERS, ids=str)
def test_a_number_is_taken_up_to_its_bounds_and_refused_beyond(
    client: Redis, url: str, command: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    for number in good:
        Queue("mail", client).put({}, id="a")
        ran = shell(url, *command.split(), number)
        assert ran.code in (0, 1) or "that can be undone" in ran.err, (number, ran.err)
    for number in bad:
        ran = shell(url, *command.split(), number)
        assert ran.code == 2, (number, ran.err)
        assert command.rpartition(" ")[2] in ran.err or "whole number" in ran.err or number[0] == "-", (number, ran.err)


@run_in_one_test(
    ("given", "is_good"),
    [
        ({"seconds": demo.MAX_SECONDS}, True), ({"seconds": 1e-9}, True), ({"seconds": 0}, False),
        ({"seconds": demo.MAX_SECONDS + 1}, False), ({"seed": 0}, True), ({"seed": 2**63 - 1}, True),
        ({"seed": -1}, False), ({"seed": 2**63}, False),
    ],
)  # fmt: skip
def test_the_numbers_of_a_demo(given: dict[str, float], is_good: bool) -> None:
    with pytest.raises(UsageError, match="needs a terminal" if is_good else next(iter(given))):
        demo.run_scenario("delays", **given)  # type: ignore[arg-type]


@run_in_one_test(
    ("listen", "host", "port"),
    [
        ("9000", "127.0.0.1", 9000), (":0", "127.0.0.1", 0), ("0.0.0.0:65535", "0.0.0.0", 65535), ("[::1]:9", "::1", 9),
        ("65536", "", 0), ("a:b", "", 0), ("", "", 0),
        ("::1:9", "", 0), ("-1", "", 0), ("host:65536", "", 0), ("²", "", 0),
    ],
)  # fmt: skip
def test_an_address_to_listen_at(listen: str, host: str, port: int) -> None:
    if host:
        assert parse_listen_address(listen) == (host, port)
    else:
        with pytest.raises(UsageError, match="is no address"):
            parse_listen_address(listen)
