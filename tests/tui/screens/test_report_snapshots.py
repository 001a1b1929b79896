"""Compare views that show reports with text snapshots, with seeded data and a stopped clock."""

from __future__ import annotations

import asyncio

import pytest
from redis import Redis
from text_snapshots import NARROW, SMALL, WIDE, check_snapshot_sizes, clock  # noqa: F401 (a fixture)

from screenshots.seeded import Seed

SIZES = (WIDE, NARROW, SMALL)
LOOKS = {
    "workers": ("w",),
    "kinds": ("b",),
    "errors": ("e",),
    "error": ("e", "enter"),
    "groups": ("2", "quotation_mark"),
    "differences": ("2", "vertical_line"),
}


@pytest.fixture(scope="module")
def planted_url(request: pytest.FixtureRequest) -> str:
    """Plant a day's problems at a fixed time, and return the URL of the server."""
    server = request.getfixturevalue("real_server")
    with Redis.from_url(server.url) as client:
        client.flushall()
        mail = Seed(client, "mail")
        mail.put(30, 9_000_000, 4_000_000)
        for number in range(12):
            at_ms = 3_900_000 - 60_000 * number
            kind = ("TimeoutError: smtp 10.0.0.{n} did not answer within 5.{n} s", "KeyError: 'vat_id'")[
                number % 3 == 0
            ]
            mail.fail(mail.take(1, at_ms, "w2"), at_ms - 700, kind.replace("{n}", str(number)), final=True)
        mail.fail(mail.take(4, 90_000, "w5"), 60_000, "SMTPRecipientsRefused: 550 no such user 'zoë'", delay_ms=600_000)
        mail.put(40, 252_000, 2_000)
        mail.put(9, 9_000, 1_000, delay_ms=3_600_000)
        mail.finish(mail.take(6, 60_000, "w4"), 55_000)
        for number, worker in enumerate(("w1", "w2", "w3", "w1")):
            mail.do("reserve", 27_000 - 4_600 * number, {"limit": 1, "worker": worker, "ttr_ms": 300_000})
        for worker, before_ms in (("w1", 1_000), ("w2", 4_000), ("w3", 75_000), ("w4", 12_000), ("w9", 4_000_000)):
            row = {"worker": worker, "ttl_ms": 60_000, "host": "jobs-1", "pid": "4711"}
            mail.do("beat", before_ms, row)
        mail.do("quiet", 900, {}, [{"worker": "w4"}])
    return server.url


@pytest.mark.slow
@pytest.mark.parametrize("view", LOOKS)
def test_it_matches_its_snapshot(
    clock: None,  # noqa: F811
    planted_url: str,
    view: str,
) -> None:
    asyncio.run(check_snapshot_sizes(planted_url, view, SIZES, ("mail", *LOOKS[view])))
