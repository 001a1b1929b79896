"""Test how the command line prints durations, times and options of a job, and unneeded loops."""

from __future__ import annotations

import time

from mill_system import Mill, add_mill_jobs, mill
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.testing import keyspace

__all__ = ["mill"]  # a fixture
DEAD = "rqtui:{mail}:dead"


def test_an_instant_is_no_duration_and_a_duration_has_a_unit(client: Redis, url: str) -> None:
    Queue("mail", client).put({}, id="a", delay="1h")

    def due_ms() -> float:
        return client.zscore("rqtui:{mail}:scheduled", "a")

    for value in ("due=2040-01-01T00:00:00Z", "due_ms=2208988800000", "due=2208988800000"):
        assert shell(url, "act", "reschedule", "mail", "a", "--set", "delay=1h").code == 0 and due_ms() < 2e12
        assert shell(url, "act", "reschedule", "mail", "a", "--set", value).code == 0 and due_ms() == 2208988800000, (
            value
        )
    for value, words in {
        "due=30s": "--set due: it is an instant, 2026-12-01T08:00Z, or milliseconds since 1970; for a time from now",
        "due_ms=soon": "--set due: it is an instant",
        "due=2040-01-01T00:00:00": "--set due needs a time zone",
        "delay_ms=soon": "--set delay_ms: it is milliseconds, or 500ms, 30s, 5m, 2h or 3d; in delay= a number",
        "delay=soon": "a plain number means seconds",
    }.items():
        ran = shell(url, "act", "reschedule", "mail", "a", "--set", value)
        assert ran.code == 2 and words in ran.err, (value, ran.err)
    assert due_ms() == 2208988800000


def test_a_field_that_a_job_cannot_have_is_refused_with_a_list_of_the_allowed_ones(client: Redis, url: str) -> None:
    for queue, option, can in (
        ("rq:default", "--priority=3", "id, body, delay, due, ttr, max_attempts, keep"),
        ("dispatcher:ready", "--name=x", "body, delay, due"),
        ("orizuru:jobs", "--ttr=5s", "body"),
    ):
        spec = queue.replace(":", ":source=" if queue.startswith("orizuru") else ":ready=", 1)
        system = () if queue.startswith("rq") else ("--system", spec)
        ran = shell(url, *system, "put", queue, '{"func": "tasks.add"}', option)
        name = option[2:].partition("=")[0]
        assert ran.code == 2 and f" keeps no {name}; a job of it is given " in ran.err, ran.err
        assert ran.err.strip().endswith(f"is given {can}."), ran.err
    assert not client.keys("*")


def test_a_loop_that_no_queue_needs_reports_it(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    client.sadd("rq:queues", "rq:queue:default")
    client.rpush("rq:queue:default", "j1")
    client.hset("rq:job:j1", "status", "queued")
    for verb, words in {
        "reap": "no queue of native is here; in mill nothing waits for a reap; queues of rq are left alone",
        "dispatch": "no queue of native, dispatcher is here; queues of other systems are left alone",
    }.items():
        ran = shell(url, verb, "--once")
        assert ran.code == 0 and f"{verb}: {words}" in ran.err, ran.err
        assert not shell(url, "--system", "rq", verb, "--once").err.count("left alone")
    Queue("mail", client).put({})
    assert "no queue" not in shell(url, "reap", "--once").err


def test_a_celery_task_that_no_worker_reports_is_missing_and_not_refused(client: Redis, url: str) -> None:
    client.sadd("_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    ran = shell(url, "act", "requeue", "celery:celery", "nope", "--yes", "--json")
    assert [each["word"] for each in ran.json["results"]] == ["gone"] and ran.code == 1


def test_a_finding_names_its_example_once(client: Redis, url: str) -> None:
    client.sadd("rq:queues", "rq:queue:default")
    client.zadd("rq:failed:default", {"a-ghost": 9e9})
    line = next(line for line in shell(url, "health", "rq:default").out.splitlines() if "a-ghost" in line)
    assert line.partition(" · ")[0].count("a-ghost") == 1


def test_another_programs_key_in_one_place_leaves_the_jobs_of_the_others_listed(client: Redis, url: str) -> None:
    client.sadd("rq:queues", "rq:queue:default")
    client.rpush("rq:queue:default", "j1")
    client.hset("rq:job:j1", "status", "queued")
    client.set("rq:finished:default", "another program's")
    ran = shell(url, "jobs", "rq:default", "--json")
    assert [each["place"] for each in ran.json["places"]] == ["queued"] and ran.code == 1
    assert "rq:finished:default holds a string" in ran.err


def test_sentences_about_another_programs_key_begin_with_the_key(client: Redis, url: str) -> None:
    client.sadd("rq:queues", "rq:queue:default")
    client.set("rq:failed:default", "another program's")
    client.rpush("rq:queue:default", "waits")
    client.hset("rq:job:waits", mapping={"status": "queued", "origin": "default", "data": "x"})
    client.set("rqtui:{broken}:ready", "another program's")
    Queue("mail", client).put({}, id="a")
    client.set(DEAD, "another program's")
    for command in (("snapshot",), ("health",)):
        out = shell(url, *command).out
        assert "key rq:failed:default holds a string: another program uses this name, and RQ fails on it" in out, out
        assert f"key {DEAD} holds a string, not a zset: another program uses this name" in out, out
        assert "Nothing was changed" not in out and "counts: " not in out, out
    before = keyspace.dump(client)
    for line in (("jobs", "mail", "dead"), ("jobs", "rq:default", "failed")):
        ran = shell(url, *line)
        assert ran.code == 1 and ran.err.startswith("rqtui: key r") and ran.err.endswith("this name\n"), ran
    for line in [("put", "broken", "1")]:
        ran = shell(url, *line)
        last = ran.err.splitlines()[-1]
        assert ran.code == 1 and last.startswith("rqtui: key r"), ran
        assert last.endswith("another program uses this name. Nothing was changed."), ran
    assert keyspace.dump(client) == before


def test_the_time_of_jobs_that_wait_for_other_jobs_is_since_when(client: Redis, url: str) -> None:
    client.sadd("rq:queues", "rq:queue:default")
    now_s = time.time()
    for place, ahead_s in (("deferred", -300), ("scheduled", 300)):
        client.zadd(f"rq:{place}:default", {f"j-{place}": now_s + ahead_s})
        client.hset(f"rq:job:j-{place}", mapping={"status": place, "origin": "default"})
    client.hset("bull:mail:meta", "version", "bullmq:6.7.0")
    client.hset("bull:mail:1", mapping={"name": "send", "data": "{}", "opts": "{}"})
    client.zadd("bull:mail:waiting-children", {"1": int((now_s - 300) * 1000)})
    for line, title in (
        ("rq:default deferred", "waits"), ("rq:default scheduled", "due in"), ("bullmq:mail waiting_children", "waits"),
    ):  # fmt: skip
        head = shell(url, "jobs", *line.split()).out.splitlines()[0]
        assert f"  {title}  " in head and ("due in" in head) is (title == "due in"), head
