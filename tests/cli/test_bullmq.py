"""BullMQ queues from the shell: put, act and the reports, with keys as BullMQ 6 writes them."""

from __future__ import annotations

import json

import pytest
from bullmq_subject import (
    HOUR,
    KEYS,
    NOW,
    build_job_key,
    plant_events,
    plant_job,
    plant_metrics,
    plant_queue,
    plant_scheduler,
)
from redis import Redis
from shell import shell

from rqtui.engine.engine import build_engine
from rqtui.reports.events import Feed, feed_request
from rqtui.system_base.system import Request
from rqtui.systems.bullmq.system import BullMQ
from rqtui.testing.keyspace import dump

MAIL = "bullmq:mail"


def send(client: Redis, request: Request[Feed]) -> Feed:
    return build_engine(client, [BullMQ()]).send_request(request)


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


def test_health_names_the_application_of_a_queue_whose_name_two_prefixes_have(client: Redis, url: str) -> None:
    for prefix in ("bull", "shop"):
        client.hset(f"{prefix}:mail:meta", "version", "bullmq:6.7.0")
        client.lpush(f"{prefix}:mail:wait", "1")
        client.hset(f"{prefix}:mail:1", mapping={"name": "send", "timestamp": NOW, "data": "{}", "opts": "{}"})
    ran = shell(url, "--system", "bullmq", "--system", "bullmq:prefix=shop", "health")
    names = [line.split()[1] for line in ran.out.splitlines() if "no worker serves this queue" in line]
    assert sorted(names) == ["bullmq:mail:", "bullmq@shop:mail:"]


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


# ── what BullMQ records ──────────────────────────────────────────────────────────────────────────────────────


def test_events_are_those_that_bullmq_records_with_the_reason_of_a_failure(mail: Redis, url: str) -> None:
    plant_events(
        mail,
        {"event": "added", "jobId": "7", "name": "send"},
        {"event": "active", "jobId": "7", "prev": "waiting"},
        {"event": "failed", "jobId": "7", "failedReason": "login with password=hunter2", "prev": "active"},
        {"event": "drained"},
    )
    before = dump(mail)
    events = shell(url, "events", MAIL, "--json").lines
    assert [(event["verb"], event["id"], event["detail"]) for event in events] == [
        ("added", "7", "send"),
        ("active", "7", "from waiting"),
        ("failed", "7", "login with password=••••••••"),
        ("drained", "", None),
    ]
    assert [event["event"] for event in events] == ["1-0", "2-0", "3-0", "4-0"]
    text = shell(url, "events", MAIL, "--filter", "failed", "--record")
    assert "× failed" in text.out and "password=•" in text.out and "hunter2" not in text.out
    assert text.err == "", "BullMQ records its events always, so there is nothing to turn on"
    assert dump(mail) == before


def test_events_that_bullmq_does_not_keep_are_not_promised(mail: Redis, url: str) -> None:
    mail.hset(KEYS["meta"], "opts.maxLenEvents", 0)
    ran = shell(url, "events", MAIL, "--record")
    assert "nothing is recorded: the programs of bullmq decide" in ran.err


def test_a_page_of_events_ends_before_large_return_values_fill_the_memory(mail: Redis) -> None:
    plant_events(mail, *[{"event": "completed", "jobId": str(n), "returnvalue": "x" * 100_000} for n in range(100)])
    system = BullMQ()
    feed = send(mail, feed_request(system, "mail"))
    assert feed.has_gap and 20 <= len(feed.events) < 40 and feed.events[-1].id == b"99"
    first = send(mail, feed_request(system, "mail", newest=False))
    rest = send(mail, feed_request(system, "mail", first.last, newest=False))
    assert (first.events[0].id, rest.events[0].id) == (b"0", b"%d" % len(first.events))


MINUTE = 60_000


@pytest.fixture
def now_ms(client: Redis) -> int:
    return int(client.time()[0]) * 1000


def test_stats_are_the_metrics_of_the_workers_minute_by_minute(mail: Redis, url: str, now_ms: int) -> None:
    plant_metrics(mail, "completed", [5, 0, 7], 3, now_ms)
    plant_metrics(mail, "failed", [1], 2, now_ms - 2 * MINUTE)
    [stats] = shell(url, "stats", MAIL, "--minutes", "10", "--json").json
    assert stats["totals"] == {"completed": 15, "failed": 3}
    last_ms = now_ms - now_ms % MINUTE
    ended = {row["minute_at_ms"]: (row["out"], row["failed"]) for row in stats["minutes"]}
    assert [ended[last_ms - ago * MINUTE] for ago in (3, 2, 1, 0)] == [(7, 1), (0, 2), (5, 0), (3, 0)]
    assert min(ended) == last_ms - 3 * MINUTE, "before the first data point nothing is known"
    assert {(row["in"], row["depth"]) for row in stats["minutes"]} == {(None, None)}
    assert stats["rates"]["in_s"] is None and stats["rates"]["out_s"] == 15 / (60 * len(ended))
    [_titles, row] = shell(url, "stats", MAIL).out.splitlines()
    assert row.split()[:3] == ["mail", "bullmq", "?"]


def test_metrics_that_were_trimmed_are_known_from_their_oldest_minute(mail: Redis, url: str, now_ms: int) -> None:
    plant_metrics(mail, "completed", [5, 5], 0, now_ms, before=1000)
    plant_metrics(mail, "failed", [1, 1, 1, 1], 0, now_ms)
    [stats] = shell(url, "stats", MAIL, "--minutes", "30", "--json").json
    ended = [(row["out"], row["failed"]) for row in stats["minutes"]]
    assert ended[:3] == [(5, 1), (5, 1), (0, 0)]


def test_without_metrics_stats_report_it(mail: Redis, url: str) -> None:
    [stats] = shell(url, "stats", MAIL, "--json").json
    assert (stats["minutes"], stats["totals"], stats["rates"]) == (None, None, None)
    assert "no worker keeps metrics" in shell(url, "stats", MAIL).out


def test_kinds_wait_and_run_as_long_as_the_times_of_ended_jobs_say(client: Redis, url: str) -> None:
    plant_queue(client)
    for number, (wait_ms, run_ms) in enumerate([(1_000, 300), (3_000, 500), (9_000, 100)]):
        started_ms = NOW + wait_ms
        times = {"timestamp": NOW, "processedOn": started_ms, "finishedOn": started_ms + run_ms}
        plant_job(client, f"j{number}", "failed" if number == 1 else "completed", **times)
    delayed = {"timestamp": NOW, "processedOn": NOW + 61_000, "finishedOn": NOW + 61_300, "opts": '{"delay":60000}'}
    plant_job(client, "delayed", "completed", **delayed)
    plant_job(client, "retried", "completed", **{**delayed, "processedOn": NOW + HOUR, "finishedOn": NOW + HOUR}, atm=2)
    [kind] = shell(url, "kinds", MAIL, "--json").json["kinds"]
    assert (kind["name"], kind["wait_ms"], kind["run_ms"]) == ("send", 2_000, 300)


def test_a_job_that_was_promoted_before_its_delay_was_over_has_no_known_wait(client: Redis, url: str) -> None:
    plant_queue(client)
    plant_job(client, "a", "completed", timestamp=NOW, processedOn=NOW + 5, finishedOn=NOW + 9, opts='{"delay":60000}')
    [kind] = shell(url, "kinds", MAIL, "--json").json["kinds"]
    assert (kind["wait_ms"], kind["run_ms"]) == (None, 4)


def test_a_purge_of_bullmq_asks_for_a_place_and_offers_no_whole_queue(url: str, client: Redis) -> None:
    bare, whole = (shell(url, "act", "purge", "bullmq:mail", *words) for words in ((), ("--all",)))
    assert bare.code == 2 and "purge needs --place PLACE, one of delayed, waiting_children, prioritized" in bare.err
    assert whole.code == 2 and "one place of bullmq at a time" in whole.err


def test_several_prefixes_are_named_with_the_options_that_list_their_queues(client: Redis, url: str) -> None:
    for prefix in ("bull", "shop", "crm"):
        client.hset(f"{prefix}:mail:meta", mapping={"version": "bullmq:6.7.0", "opts.maxLenEvents": "10000"})
    client.hset("other:mail:meta", "version", "1")
    client.hset("bull:{news}:meta", "version", "bullmq:6.7.0")
    ran = shell(url, "snapshot")
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [["mail", "bullmq"], ["{news}", "bullmq"]]
    assert "begin with crm and shop." in ran.err
    options = ("--system", "bullmq:prefix=bull", "--system", "bullmq:prefix=crm", "--system", "bullmq:prefix=shop")
    assert " ".join(options) in ran.err
    named = shell(url, *options, "snapshot")
    assert "begin with" not in named.err
    assert {"bullmq", "bullmq@crm", "bullmq@shop"} <= set(named.out.split())
