"""Sidekiq from the shell: the runs that it counts by the day, with keys as Sidekiq 6.4 to 8 write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from shell import shell

from rqtui.testing.keyspace import dump


@pytest.fixture
def today(client: Redis) -> datetime:
    """Plant a queue, and runs of today, of two days ago and of a day before the last 30 (launcher.rb, flush_stats)."""
    now = datetime.fromtimestamp(int(client.time()[0]), UTC)
    client.sadd("queues", "mail")
    client.lpush("queue:mail", '{"class":"HardJob","args":[],"jid":"0123456789abcdef01234567","queue":"mail"}')
    for back, processed, failed in ((0, 12_345, 31), (2, 5_000, 0), (40, 7, 7)):
        day = f"{now - timedelta(days=back):%Y-%m-%d}"
        client.set(f"stat:processed:{day}", processed)
        client.set(f"stat:failed:{day}", failed)
    client.mset({"stat:processed": 17_352, "stat:failed": 38})
    return now


def test_stats_are_the_runs_of_the_last_days_of_all_queues(client: Redis, url: str, today: datetime) -> None:
    before = dump(client)
    [stats] = shell(url, "stats", "sidekiq:mail", "--json").json
    assert stats["minutes"] is None
    assert [(day["processed"], day["failed"]) for day in stats["days"]] == [(5_000, 0), (0, 0), (12_345, 31)]
    assert stats["days"][0]["date"] == f"{today - timedelta(days=2):%Y-%m-%d}"
    text = shell(url, "stats", "sidekiq:mail").out
    assert "3 days of all queues; today 12 345 ran and 31 failed" in text
    assert dump(client) == before


def test_a_namespace_has_its_own_days(client: Redis, url: str, today: datetime) -> None:
    client.sadd("app:queues", "mail")
    client.lpush("app:queue:mail", '{"class":"HardJob","args":[],"jid":"0123456789abcdef01234567","queue":"mail"}')
    client.set(f"app:stat:processed:{today:%Y-%m-%d}", 3)
    [stats] = shell(url, "--system", "sidekiq:namespace=app", "stats", "sidekiq:mail", "--json").json
    assert stats["days"] == [{"date": f"{today:%Y-%m-%d}", "processed": 3, "failed": 0}]


def test_keys_that_hold_no_counts_are_days_without_runs(client: Redis, url: str, today: datetime) -> None:
    client.delete(f"stat:processed:{today:%Y-%m-%d}")
    client.lpush(f"stat:processed:{today:%Y-%m-%d}", "x")
    client.set(f"stat:failed:{today:%Y-%m-%d}", "many")
    [stats] = shell(url, "stats", "sidekiq:mail", "--json").json
    assert [(day["processed"], day["failed"]) for day in stats["days"]] == [(5_000, 0), (0, 0), (0, 0)]
