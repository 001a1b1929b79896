"""`rqtui diff`: what it prints to people and as JSON."""

from __future__ import annotations

import pytest
from redis import Redis
from shell import shell

from rqtui.client import Queue


@pytest.fixture
def shop(client: Redis) -> None:
    """Plant 40 dead jobs of FR and 40 done jobs of DE; a quarter of the dead ones have another error."""
    with Queue("shop", client) as shop:
        bodies = [{"country": country, "token": f"secret-{n}"} for n in range(40) for country in ("FR", "DE")]
        shop.put_many([{"body": body, "keep": "1h", "id": f"{n:02}"} for n, body in enumerate(bodies)])
        for job in shop.reserve(80, worker="w1"):
            if int(job.id) % 2:
                job.ack()
            else:
                job.reject("TimeoutError: x" if int(job.id) % 8 == 0 else "shop.CardDeclined: x", final=True)


@pytest.mark.usefixtures("shop")
def test_the_difference_is_printed_with_both_shares_and_the_samples(url: str) -> None:
    ran = shell(url, "diff", "shop", "dead", "done")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "dead (40 of 40 read)",
        "done (40 of 40 read)",
        ".country = FR in 100 % of dead, 0 % of done (p < 1e-12; other values that differ: 1)",
    ]


@pytest.mark.usefixtures("shop")
def test_the_document_has_the_measure_the_samples_and_the_differences(url: str) -> None:
    document = shell(url, "diff", "shop", "dead", "done", "--json").json
    assert (document["queue"], document["looked"], document["of"], document["exact"]) == ("shop", 80, 80, True)
    assert "Fisher" in document["measure"] and document["compared"]["left_out"] == []
    numbers = {"jobs": 40, "looked": 40, "of": 40, "random": True}
    assert document["a"] == {"places": ["dead"], "filter": None, "window": None, **numbers}
    [country] = document["differences"]
    assert country["conditions"] == [{"field": ".country", "operator": "=", "value": "FR"}]
    assert (country["a_share"], country["b_share"], country["difference"]) == (1.0, 0.0, 1.0)
    assert country["p"] < 1e-12 and not country["explained"] and "secret" not in str(document)


@pytest.mark.usefixtures("shop")
def test_an_error_is_compared_with_the_rest(url: str) -> None:
    ran = shell(url, "diff", "shop", "dead", "dead,done", "--filter", "err:CardDeclined")
    assert ran.out.splitlines()[:2] == [
        "A: dead with err:CardDeclined (30 match, 40 of 40 read)",
        "B: dead and done (80 of 80 read)",
    ]
    assert ".country = FR in 100 % of A, 20 % of B" in ran.out and "selected by it: err" in ran.err
    ran = shell(url, "diff", "shop", "--filter", "err:CardDeclined")
    assert "no field differs more than by chance" in ran.out


@pytest.mark.usefixtures("shop")
def test_two_filters_are_compared(url: str) -> None:
    document = shell(url, "diff", "shop", "dead", "--filter", "err:Card", "--against", "err:Timeout", "--json").json
    assert (document["a"]["jobs"], document["b"]["jobs"], document["differences"]) == (30, 10, [])


@pytest.mark.usefixtures("shop")
def test_results_of_runs_are_listed_apart(client: Redis, url: str) -> None:
    with Queue("shop", client) as shop:
        shop.put_many([{"body": {"country": "FR"}} for _ in range(40)])
    lines = shell(url, "diff", "shop", "ready", "done").out.splitlines()
    at = lines.index("known only after a run:")
    assert lines[at + 1].startswith("  attempts = 0 in 100 % of ready, 0 % of done") and at > 2


@pytest.mark.usefixtures("shop")
def test_nothing_to_compare_is_refused_or_explained(url: str) -> None:
    for words, sentence in (
        ((), "name two places to compare"),
        (("dead", "dead"), "both groups are the same jobs"),
        (("dead", "nowhere"), 'has no place "nowhere"'),
        (("dead", "done", "--filter", "/[/"), "cannot be read"),
    ):
        ran = shell(url, "diff", "shop", *words)
        assert ran.code == 2 and sentence in ran.err, words
    ran = shell(url, "diff", "shop", "dead", "ready")
    assert ran.code == 0 and "nothing to compare: no job that was read is ready." in ran.out


@pytest.mark.usefixtures("shop")
def test_jobs_that_died_now_are_compared_with_those_of_yesterday(client: Redis, url: str) -> None:
    """Twenty dead jobs of the shop are moved to the same time yesterday, and ten to two days ago."""
    members = client.zrange("rqtui:{shop}:dead", 0, -1)
    now_ms = int(client.time()[0]) * 1000
    for number, member in enumerate(members[:30]):
        days = 1 if number < 20 else 2
        client.zadd("rqtui:{shop}:dead", {member: now_ms - days * 86_400_000 - 60_000})
    document = shell(url, *["diff", "shop", "dead", "--last", "10m", "--ago", "1d", "--json"]).json
    assert (document["a"]["jobs"], document["b"]["jobs"]) == (10, 20)
    assert document["a"]["window"]["time"] == "ended" and document["compared"]["left_out"] == ["ended_hour"]
    assert document["b"]["window"]["end_at_ms"] - document["b"]["window"]["begin_at_ms"] == 600_000
    ran = shell(url, *["diff", "shop", "dead", "--last", "10m"])
    assert ran.out.splitlines()[:2] == [
        "A: dead, ended in the last 10 min (10 match, 40 of 40 read)",
        "B: dead, ended before that (30 match, 40 of 40 read)",
    ]
    assert "still stored" in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("diff shop dead --ago 1d", "go with --last"),
        ("diff shop dead --last 1h --time died", "--time is enqueued or ended"),
        ("diff shop dead --last 1d --ago 1h", "--ago is shorter than --last"),
        ("diff shop dead --last soon", "--last cannot be 'soon'"),
    ],
)
def test_times_that_cannot_be_compared_are_refused(shop: None, url: str, words: str, sentence: str) -> None:
    ran = shell(url, *words.split())
    assert ran.code == 2 and sentence in ran.err


def test_the_host_of_the_worker_is_compared(client: Redis, url: str) -> None:
    with Queue("shop", client) as shop:
        shop.put_many([{"body": {"n": n}, "keep": "1h", "id": f"{n:02}"} for n in range(60)])
        for number in range(60):
            [job] = shop.reserve(1, worker=f"host-{number % 2}:{number}:0a1f3")
            if number % 2:
                job.ack()
            else:
                job.reject("TimeoutError: x", final=True)
    ran = shell(url, "diff", "shop", "dead", "done")
    assert "host = host-0 in 100 % of dead, 0 % of done" in ran.out
