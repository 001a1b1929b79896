"""Test the page that `rqtui incident` prints about a queue in trouble, and its document."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import Seeded
from shell import shell

from rqtui.client.queue import Queue


@pytest.fixture
def failed(client: Redis) -> Seeded:
    """Plant 30 dead jobs of customers in FR, and 30 done jobs of customers elsewhere."""
    seeded = Seeded(client)
    with Queue("mail", client) as queue:
        queue.configure(keep_ms=3_600_000)
        queue.put_many([{"id": f"bad{n}", "name": "charge", "body": {"country": "FR", "n": n}} for n in range(30)])
        for job in queue.reserve(30, worker="w1"):
            job.reject("CardDeclined: charge ch_1 was declined", final=True)
        queue.put_many([{"id": f"ok{n}", "name": "charge", "body": {"country": "DE", "n": n}} for n in range(30)])
        for job in queue.reserve(30, worker="w1"):
            job.ack()
    return seeded


@pytest.mark.usefixtures("failed")
def test_the_page_names_cause_difference_and_commands(url: str) -> None:
    ran = shell(url, "incident", "mail")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("mail (native) at ") and lines[0].endswith("ready 0, reserved 0, done 30, dead 30")
    titles = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert titles == [
        "findings",
        "since when",
        "errors",
        "workers",
        "what differs",
        "changes of the last 24 hours, made from this machine",
        "what helps now",
    ]
    assert "  30 jobs, dead or waiting for a retry, were read" in lines
    assert any(line.strip().startswith("30  CardDeclined: charge") for line in lines)
    assert "  dead (30 of 30 read), against done (30 of 30 read)" in lines
    assert "  .country = FR in 100 % of dead, 0 % of done" in lines
    assert "  rqtui diff mail dead done" in lines
    assert "  after the fix: rqtui act requeue mail --place dead --all --canary 5" in lines


def test_a_change_is_listed_with_its_author_and_reason(url: str, failed: Seeded) -> None:
    assert shell(url, *["act", "requeue", "mail", "bad1", "--why", "fixed"]).code == 0
    lines = shell(url, "incident", "mail").out.splitlines()
    [line] = [line for line in lines if "requeue: requeued" in line]
    assert line.endswith("(fixed)")


@pytest.mark.usefixtures("failed")
def test_the_document_has_the_same_parts(url: str) -> None:
    document = shell(url, "incident", "mail", "--json").json
    assert (document["queue"], document["layout"], document["counts"]["dead"]) == ("mail", "native", 30)
    [group] = document["errors"]["groups"]
    assert group["error"].startswith("CardDeclined: charge ch_")
    assert document["differences"]["differences"][0]["conditions"] == [
        {"field": ".country", "operator": "=", "value": "FR"}
    ]
    assert document["not_compared"] is None and document["changes"] == [] and document["precedents"] == []
    assert document["commands"][-1].endswith("--canary 5")


def test_a_quiet_queue_needs_nothing(url: str, client: Redis) -> None:
    with Queue("mail", client) as queue:
        queue.put({"a": 1})
    ran = shell(url, "incident", "mail")
    assert ran.code == 0 and "  no error is stored" in ran.out and "  not compared: no dead job is stored" in ran.out
    document = shell(url, "incident", "mail", "--json").json
    assert (document["errors"], document["differences"], document["not_compared"]) == (
        None,
        None,
        "no dead job is stored",
    )


def test_a_system_without_names_of_workers_shows_unknown(url: str, client: Redis) -> None:
    client.rpush("readytasklist", "a")
    ran = shell(url, "--system", "dispatcher", "incident", "dispatcher:readytasklist")
    assert ran.code == 0 and "  unknown: dispatcher stores no names of workers" in ran.out


def test_dead_jobs_alone_are_compared_with_nothing(url: str, client: Redis) -> None:
    Seeded(client).bury("d1", "d2")
    ran = shell(url, "incident", "mail")
    assert "  not compared: no done or ready job is stored that the dead ones could be compared with" in ran.out


def test_an_unknown_queue_is_empty_and_said_to_be_unknown(url: str) -> None:
    ran = shell(url, "incident", "rq:nosuch")
    assert ran.code == 0 and 'nothing is known of a queue "nosuch" (rq)' in ran.err


@pytest.mark.usefixtures("failed")
def test_the_page_begins_with_the_finding_that_is_named(url: str, client: Redis) -> None:
    assert shell(url, "act", "pause", "mail").code == 0
    kinds = [finding["kind"] for finding in shell(url, "incident", "mail", "--json").json["findings"]]
    assert len(kinds) > 1 and kinds[-1] == "paused"
    document = shell(url, "incident", "mail", "--finding", "paused", "--json").json
    assert [finding["kind"] for finding in document["findings"]] == ["paused", *kinds[:-1]]
    assert document["commands"][0] == "rqtui act resume mail"
    assert document["since_at_ms"] == document["findings"][0]["since_at_ms"]
    lines = shell(url, "incident", "mail", "--finding", "paused").out.splitlines()
    assert lines[lines.index("findings") + 1].startswith("  info      paused")


@pytest.mark.usefixtures("failed")
def test_a_finding_that_the_queue_does_not_have_is_refused_with_those_that_it_has(url: str, client: Redis) -> None:
    ran = shell(url, "incident", "mail", "--finding", "overtaken")
    assert (ran.code, ran.out) == (2, "")
    assert """--finding: queue "mail" has no finding 'overtaken'; its findings: failing""" in ran.err
    with Queue("quiet", client) as queue:
        queue.put({"a": 1}, delay=3600)
    ran = shell(url, "incident", "quiet", "--finding", "failing")
    assert ran.code == 2 and "has no finding 'failing'; it has none." in ran.err
