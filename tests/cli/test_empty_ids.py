"""An id without a letter: in other systems it is one, and a person must see that it is there."""

from __future__ import annotations

import pytest
from redis import Redis
from shell import shell

from rqtui.operations.journal import Operation
from rqtui.reports.postmortem import build_document
from rqtui.text.formats import shorten_job_id


@pytest.fixture
def world(client: Redis, url: str) -> str:
    client.hset("__REDIS_SCHED_JOBS__topic", mapping={"": "body", "other": "body"})
    client.zadd("__REDIS_SCHED_QUEUED__topic", {"": 1.0, "other": 1.7e12})
    client.sadd("todos", "", "url1")
    client.hset("__REDIS_SCHED_JOBS__ghostly", "other", "body")
    client.zadd("__REDIS_SCHED_QUEUED__ghostly", {"": 1.7e12, "other": 1.7e12})
    return url


def columns(out: str) -> list[str]:
    """Return the first column of a printed table, without its title."""
    return [line.split()[0] for line in out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("jobs", "redisched:topic", "ready"), ["''", "other"]),
        (("jobs", "timeout_sets:todos", "todos"), ["''", "url1"]),
    ],
)
def test_a_list_shows_it(world: str, words: tuple[str, ...], lines: list[str]) -> None:
    assert sorted(columns(shell(world, *words).out)) == sorted(lines)
    assert "" in [job["id"] for job in shell(world, *words, "--json").json["jobs"]]


def test_the_answers_of_act_show_it_and_not_the_queue_in_its_place(world: str) -> None:
    ran = shell(world, "act", "delete", "redisched:topic", "", "nobody", "--yes")
    assert columns(ran.out) == ["''", "nobody"]


def test_texts_about_a_queue_still_name_the_queue(client: Redis, url: str) -> None:
    assert columns(shell(url, "act", "pause", "mail").out) == ["mail"]


def test_a_job_that_is_handed_out_shows_it(world: str) -> None:
    ran = shell(world, "act", "reserve", "redisched:topic", "--set", "ttr_ms=60s")
    assert columns(ran.out) == ["''"]
    assert [
        one["id"]
        for one in shell(world, "act", "reserve", "timeout_sets:todos", "--limit", "2", "--json").json["results"]
    ]


def test_its_page_shows_it(world: str) -> None:
    assert shell(world, "show", "redisched:topic", "").out.splitlines()[0].split() == ["id", "''"]
    assert shell(world, "show", "redisched:topic", "", "--json").json["id"] == ""


def test_its_loops_and_findings_show_it(world: str, client: Redis) -> None:
    client.zrem("__REDIS_SCHED_QUEUED__topic", "")
    client.zadd("__REDIS_SCHED_RESERVED__topic", {"": 1.7e12})
    assert " '' " in shell(world, "loops", "redisched:topic").out
    assert "such as '':" in shell(world, "health", "redisched:ghostly").out


def test_what_prints_ids_elsewhere_shows_it() -> None:
    document = build_document([Operation(1, "who", "delete", "q", "native", (b"",), 1)])
    assert document["operations"][0]["ids"] == [""]
    assert shorten_job_id(b"", 10) == "''"
