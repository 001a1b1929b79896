"""Test that ages on the command line use the server's clock, however wrong this machine's clock is."""

from __future__ import annotations

import re
import time

import pytest
from redis import Redis
from screens import Seeded
from shell import shell

DAYS = 1000
COMMANDS = (
    ("snapshot",),
    *(("jobs", "mail", place) for place in ("scheduled", "ready", "reserved", "done", "dead")),
    ("jobs", "redisched:news", "reserved"),
    ("jobs", "readytasklist", "delayed"),
    ("show", "mail", "held"),
    ("workers",),
    ("errors",),
    ("kinds",),
    *(("group", "mail", place, "--by", "age") for place in ("scheduled", "ready", "reserved", "done", "dead")),
    ("diff", "mail", "dead", "done"),
    ("loops",),
    ("stats", "mail"),
    ("health", "mail"),
)


@pytest.fixture
def planted(client: Redis) -> Redis:
    """Plant a job in every place, with the current time, and a lease of other systems."""
    mail = Seeded(client)
    mail.put("finished", keep_ms=600_000)
    mail.reserve(1)
    mail.engine.apply_verb("ack", mail.ref, mail.jobs("reserved"))
    mail.bury("dead")
    mail.put("held")
    mail.reserve(1, ttr_ms=600_000)
    mail.put("later", delay_ms=600_000)
    mail.put("waits")
    mail.engine.apply_verb("beat", mail.ref, (), {"worker": "w1", "ttl_ms": 600_000})
    seconds, _micros = client.time()
    client.hset("__REDIS_SCHED_JOBS__news", mapping={"a": "1"})
    client.zadd("__REDIS_SCHED_RESERVED__news", {"a": seconds * 1000 + 600_000})
    client.zadd("delayedtaskset", {"task": seconds + 600})
    return client


def shape(out: str) -> str:
    """Return printed text with its numbers replaced, without the last minute of a plot and the finding of the clock."""
    out = "".join(line for line in out.splitlines(keepends=True) if "the clock of Redis is" not in line)
    return re.sub(r"[0-9]+", "0", re.sub("[·▁▂▃▄▅▆▇█]{20,}", "a plot", out))


@pytest.mark.slow
@pytest.mark.parametrize("off", [DAYS, -DAYS])
def test_an_age_is_reported_by_the_servers_clock(
    planted: Redis, url: str, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    right = [shell(url, *words) for words in COMMANDS]
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + off * 86_400)
    for words, before in zip(COMMANDS, right, strict=True):
        now = shell(url, *words)
        assert before.out, words
        assert (now.code, shape(now.out), shape(now.err)) == (before.code, shape(before.out), shape(before.err)), words


@pytest.mark.parametrize("off", [DAYS, -DAYS])
def test_an_instant_is_the_servers_also_where_nothing_could_be_counted(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + off * 86_400)
    for key in ("", "rqtui:{mail}:ready"):
        if key:
            client.set(key, "another program's")
        document = shell(url, "snapshot", *(["mail"] if key else []), "--json").json
        assert abs(document["taken_at_ms"] - client.time()[0] * 1000) < 60_000, key
