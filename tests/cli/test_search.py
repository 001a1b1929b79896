"""`rqtui search`: what it prints to people and as JSON."""

from __future__ import annotations

import pytest
from redis import Redis
from shell import shell

from rqtui.client import Queue
from rqtui.reports import search


@pytest.fixture
def shops(client: Redis) -> None:
    with Queue("mail", client) as mail, Queue("shop", client) as shop:
        mail.put({"customer": {"id": 4711}, "password": "hunter2"}, id="a", name="send")
        shop.put_many([{"body": {"customer": {"id": 304711}}}] * (search.MAX_LISTED + 1))


@pytest.mark.usefixtures("shops")
def test_the_matching_jobs_of_each_place_are_listed_and_counted(url: str) -> None:
    ran = shell(url, "search", ".customer.id:4711")
    assert ran.code == 0 and ran.out.splitlines()[0] == "mail ready: 1 of 1 jobs match"
    assert "a  send" in ran.out and "hunter2" not in ran.out and "shop" not in ran.out
    ran = shell(url, "search", "4711", "shop")
    assert ran.out.splitlines()[0] == "shop ready: 21 of 21 jobs match" and ran.out.endswith("… and 1 more\n")
    ran = shell(url, "search", "nothing")
    assert (ran.code, ran.out) == (0, "") and "no job that was read matches" in ran.err


@pytest.mark.usefixtures("shops")
def test_the_document_has_the_places_and_the_size_of_the_sample(url: str) -> None:
    document = shell(url, "search", ".customer.id:4711", "--json").json
    assert (document["looked"], document["of"], document["exact"], document["matched"]) == (22, 22, True, 1)
    [place] = document["places"]
    assert (place["queue"], place["layout"], place["place"], place["matched"]) == ("mail", "native", "ready", 1)
    assert [job["id"] for job in place["jobs"]] == ["a"]


def test_an_empty_or_broken_expression_is_refused(url: str) -> None:
    for expression, sentence in (("", "write what to find"), ("/[/", "cannot be read")):
        ran = shell(url, "search", expression)
        assert ran.code == 2 and sentence in ran.err
