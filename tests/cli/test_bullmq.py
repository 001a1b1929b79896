"""BullMQ queues from the shell: put, act and the reports, with keys as BullMQ 6 writes them."""

from __future__ import annotations

import json

import pytest
from bullmq_subject import KEYS, build_job_key, plant_job, plant_queue, plant_scheduler
from redis import Redis
from shell import shell

from rqtui.testing.keyspace import dump

MAIL = "bullmq:mail"


@pytest.fixture
def mail(client: Redis) -> Redis:
    """Plant three waiting and two failed jobs."""
    plant_queue(client)
    for number in range(3):
        plant_job(client, f"w{number}", "wait")
    plant_job(client, "f0", "failed")
    plant_job(client, "f1", "failed", failedReason="no route", stacktrace="[]")
    return client


def read_opts(client: Redis, id: str) -> dict[str, object]:
    opts: dict[str, object] = json.loads(client.hget(build_job_key(id), "opts") or b"{}")
    return opts


def test_a_backoff_becomes_an_option_of_the_job(mail: Redis, url: str) -> None:
    put = ("put", MAIL, "{}", "--max-attempts", "3", "--backoff")
    ids = [shell(url, *put, backoff, "--json").json["results"][0]["id"] for backoff in ("5s", "5s..5s")]
    assert [read_opts(mail, id)["backoff"] for id in ids] == [
        {"type": "exponential", "delay": 5000},
        {"type": "fixed", "delay": 5000},
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--backoff", "5s..1h"), "BullMQ doubles the wait after each failure"),
        (("--backoff", "5s", "--opts", '{"backoff": 1000}'), "backoff is given twice"),
    ],
)
def test_a_backoff_that_bullmq_cannot_express_is_refused(
    mail: Redis, url: str, words: tuple[str, ...], said: str
) -> None:
    before = dump(mail)
    ran = shell(url, "put", MAIL, "{}", *words)
    assert ran.code == 2 and said in ran.err
    assert dump(mail) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "x=1"), 'unschedule has no field "x"; its fields: scheduler.'),
        (("--set", "p=bull:other:"), 'unschedule has no field "p"; its fields: scheduler.'),
        ((), "unschedule needs --set scheduler=VALUE."),
    ],
)
def test_unschedule_names_only_the_field_that_a_person_gives(
    mail: Redis, url: str, words: tuple[str, ...], said: str
) -> None:
    plant_scheduler(mail, "tick")
    before = dump(mail)
    ran = shell(url, "act", "unschedule", MAIL, *words, "--yes")
    assert ran.code == 2 and said in ran.err
    assert dump(mail) == before


def test_a_dry_run_of_purge_counts_the_jobs_by_place_error_and_age(mail: Redis, url: str) -> None:
    before = dump(mail)
    words = ("act", "purge", MAIL, "--place", "failed", "--dry-run")
    plan = shell(url, *words, "--json").json["plan"]
    assert (plan["total"], plan["by_place"]) == (2, [{"place": "failed", "count": 2}])
    assert {row["error"]: row["count"] for row in plan["by_error"]} == {"boom": 1, "no route": 1}
    assert shell(url, *words, "--limit", "1", "--json").json["plan"]["total"] == 1
    assert "dry run: 2 jobs" in shell(url, *words).err
    assert dump(mail) == before


def test_purge_of_a_whole_queue_names_the_places_that_it_takes_one_at_a_time(mail: Redis, url: str) -> None:
    ran = shell(url, "act", "purge", MAIL, "--all", "--yes")
    assert ran.code == 2 and "--place with one of delayed, " in ran.err


def test_the_reason_of_a_kill_is_the_failed_reason_of_the_job(mail: Redis, url: str) -> None:
    assert shell(url, "act", "kill", MAIL, "w0", "--why", "bad data", "--yes").code == 0
    assert mail.hget(build_job_key("w0"), "failedReason") == b"bad data"
    kill = ("act", "kill", MAIL, "w1", "--why", "of the journal", "--set", "reason=of the job", "--yes")
    assert shell(url, *kill).code == 0
    assert mail.hget(build_job_key("w1"), "failedReason") == b"of the job"


def test_a_place_that_a_verb_does_not_take_is_refused_before_a_question(mail: Redis, url: str) -> None:
    before = dump(mail)
    ran = shell(url, "act", "kill", MAIL, "--place", "failed", "--all")
    assert ran.code == 2
    assert "kill takes no jobs from failed; it takes jobs from delayed, prioritized, wait, paused." in ran.err
    assert dump(mail) == before
    assert mail.zcard(KEYS["failed"]) == 2
