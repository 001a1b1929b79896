"""A system with all that a system may have, from the shell: nine places, calls, facts, workers, schedules, effects."""

from __future__ import annotations

import pytest
from json_shapes import WORKER, check_shape
from mill_system import NAMES, Mill, add_mill_jobs, add_mill_schedule, add_mill_worker, mill
from redis import Redis
from shell import Ran, shell

__all__ = ["mill"]  # a fixture
FACTS = [
    ["status", "started"],
    ["meta", '{"progress": 40, "password": "hunter2"}', "json"],
    ["parent", "q1", "ref"],
    ["child", "x1", "ref", "bran"],
    ["beat", 1_700_000_000_000, "instant"],
    ["raised", "Traceback:\n  in f\x1b[31m\nE: password=hunter2", "trace"],
]


@pytest.fixture
def run(client: Redis, url: str, mill: type[Mill]):  # type: ignore[no-untyped-def]
    """Run a command line on a mill queue with jobs in each of its nine places."""
    for number, place in enumerate(NAMES, 1):
        add_mill_jobs(client, "flour", place, *[f"{place}{n}" for n in range(number)])

    def command(*words: str) -> Ran:
        ran = shell(url, "--system", "mill", *words)
        assert "Traceback" not in ran.err and "should not happen" not in ran.err
        return ran

    return command


def test_nine_places_are_in_every_document(run) -> None:  # type: ignore[no-untyped-def]
    [queue] = run("snapshot", "flour", "--json").json["queues"]
    assert [(each["place"], each["count"]) for each in queue["places"]] == [
        (place, number) for number, place in enumerate(NAMES, 1)
    ]
    table = run("snapshot", "flour").out.splitlines()
    assert table[1].split()[:8] == ["flour", "mill", "3", "7", "11", "7", "17", "0"]  # by state
    metrics = run("metrics").out
    assert 'rqtui_jobs{layout="mill",queue="flour",place="canceled",state="dead"} 9' in metrics
    assert metrics.count("rqtui_jobs{") == 9
    places = run("jobs", "flour", "--json").json["places"]
    assert [page["place"] for page in places] == list(NAMES)
    assert [page["total"] for page in places] == list(range(1, 10))
    ran = run("act", "requeue", "flour", "--place", "failed", "--all", "--json")
    assert (ran.code, ran.json["moved"]) == (0, 8)


def test_the_word_of_a_state_means_all_of_its_places(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    ids = [*(f"failed{n}" for n in range(8)), *(f"canceled{n}" for n in range(9))]
    whole = run("jobs", "flour", "dead", "--json").json
    assert [job["id"] for job in whole["jobs"]] == ids and {job["place"] for job in whole["jobs"]} == {
        "failed",
        "canceled",
    }
    assert (whole["place"], whole["total"], whole["exact"], whole["next"]) == ("dead", 17, True, None)
    for limit in (3, 8, 20):  # within a place, at the end of one, beyond all
        found, cursor = [], []
        while True:
            page = run("jobs", "flour", "dead", "--limit", str(limit), *cursor, "--json").json
            assert page["total"] == 17 and len(page["jobs"]) <= limit
            found += [job["id"] for job in page["jobs"]]
            if page["next"] is None:
                break
            cursor = ["--cursor", page["next"]]
        assert found == ids, limit
    some = run("jobs", "flour", "dead", "--filter", "id:d7", "--json").json
    assert [(job["id"], job["place"]) for job in some["jobs"]] == [("failed7", "failed"), ("canceled7", "canceled")]
    assert run("jobs", "flour", "scheduled", "--json").json["total"] == 1, "a place's own name goes first"
    table = run("jobs", "flour", "dead")
    assert [line.split()[:2] for line in (table.out.splitlines()[i] for i in (0, 1, 9))] == [
        ["id", "place"],
        ["failed0", "failed"],
        ["canceled0", "canceled"],
    ]
    assert "17 of 17 in failed, canceled" in table.err
    wrong = run("jobs", "flour", "dead", "--cursor", "started:3")
    assert wrong.code == 2 and '"started:3" is no cursor' in wrong.err

    ran = run("act", "requeue", "flour", "--place", "dead", "--all")
    assert ran.code == 2 and client.llen("mill:canceled:flour") == 9
    assert "dead means 2 places of mill: failed, canceled; name with --place the one" in ran.err
    only = run("act", "delete", "flour", "--place", "reserved", "--all", "--dry-run", "--json")
    assert (only.code, only.json["results"][0]["id"]) == (0, "intermediate0"), "the only one that the verb takes"


def test_calls_and_facts_are_shown_and_reported(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    add_mill_jobs(client, "flour", "failed", "f1", call="mill.grind('wheat', token='abc')", facts=FACTS)
    add_mill_jobs(client, "flour", "failed", "f2", error="Traceback:\n  in f\nValueError: chaff, password=hunter2")
    [job] = run("jobs", "flour", "failed", "--filter", "call:wheat", "--json").json["jobs"]
    assert (job["id"], job["call"]) == ("f1", "mill.grind('wheat', token=••••••••)")
    table = run("jobs", "flour", "failed").out
    assert "ValueError: chaff, password=••" in table and "in f" not in table, "what happened, of a traceback"
    assert "error or call" in table and "mill.grind('wheat', token=••" in table and "abc" not in table
    document = run("show", "flour", "f1", "--json").json
    assert document["facts"] == [
        {"name": "status", "value": "started", "kind": "text"},
        {"name": "meta", "value": {"progress": 40, "password": "••••••••"}, "kind": "json"},
        {"name": "parent", "value": "q1", "kind": "ref"},
        {"name": "child", "value": "x1", "kind": "ref", "queue": "bran"},
        {"name": "beat", "value": 1_700_000_000_000, "kind": "instant"},
        {"name": "raised", "value": FACTS[-1][1].replace("hunter2", "••••••••"), "kind": "trace"},
    ]
    shown = run("show", "flour", "f1").out
    assert "call         mill.grind('wheat', token=••" in shown and "child        x1 in bran" in shown
    assert "raised\n  Traceback:\n    in f␛[31m\n  E: password=••" in shown
    assert "hunter2" not in shown and "\x1b" not in shown
    assert shown.index("status") < shown.index("meta") < shown.index("parent") < shown.index("raised")
    assert "hunter2" in run("show", "flour", "f1", "--reveal").out


def test_a_worker_of_several_queues_is_listed_once_and_ordered_to_stop(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    add_mill_jobs(client, "bran", "intermediate", "b1", worker="w1")
    add_mill_worker(client, "w1", ["flour", "bran"], job="b1", state="busy", facts=[["jobs run", 41]])
    [worker] = run("workers", "--json").json
    check_shape(worker, WORKER)
    assert (worker["worker"], worker["queue"], worker["queues"]) == ("w1", "bran", ["flour", "bran"])
    assert (worker["state"], worker["system_state"]) == ("running", "busy")
    assert worker["facts"] == [{"name": "jobs run", "value": 41, "kind": "text"}]
    assert [job["id"] for job in worker["held"]] == ["b1"]
    assert "flour, bran" in run("workers").out
    assert run("act", "stop", "flour", "w1").code == 0
    assert client.lrange("mill:orders", 0, -1) == [b"stop w1"]


def test_a_verb_that_does_more_here_than_its_name_says_asks_first(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    ran = run("act", "pause", "flour")
    assert ran.code == 1 and not client.exists("mill:paused")
    assert "pause on flour does more than its name says and was not done; --yes does it" in ran.err
    assert "What happens: every queue of this mill rests, not this one alone." in ran.err
    assert run("act", "pause", "flour", "--yes").code == 0 and client.exists("mill:paused")
    effects = {
        "pause": "every queue of this mill rests, not this one alone",
        "resume": "workers get its jobs again, at once",  # the same in every system
    }
    for verb, effect in effects.items():
        plan = run("act", verb, "flour", "--dry-run", "--json")
        assert (plan.code, plan.json["dry_run"], plan.json["effect"]) == (0, True, effect)


def test_schedules_are_listed_by_their_next_time(client: Redis, url: str, run) -> None:  # type: ignore[no-untyped-def]
    s, _us = client.time()
    add_mill_schedule(
        client, "nightly", "flour", "0 3 * * *", call="mill.clean()", next_ms=s * 1000 + 7_230_000, owner="cron-1"
    )
    add_mill_schedule(client, "lost", "bran", "every 60 s", problem="nobody sees to it", next_ms=s * 1000 - 60_000)
    add_mill_schedule(client, "asleep", "flour", "@weekly", enabled=False, last_ms=s * 1000)
    lost, nightly, asleep = run("schedules", "--json").json
    assert nightly == {
        "name": "nightly",
        "queue": "flour",
        "layout": "mill",
        "pattern": "0 3 * * *",
        "call": "mill.clean()",
        "next_at_ms": s * 1000 + 7_230_000,
        "last_at_ms": None,
        "owner": "cron-1",
        "enabled": True,
        "problem": None,
    }
    assert (lost["name"], lost["problem"]) == ("lost", "nobody sees to it") and not asleep["enabled"]
    rows = [line.split() for line in run("schedules").out.splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        ["wrong", "lost", "bran"],
        ["on", "nightly", "flour"],
        ["off", "asleep", "flour"],
    ]
    assert {each["name"] for each in run("schedules", "flour", "--json").json} == {"nightly", "asleep"}
    client.delete("mill:schedules")
    assert "no schedule is stored here." in run("schedules").err
    client.set("mill:schedules", "x")
    wrong = run("schedules", "--json")
    assert (wrong.code, wrong.json) == (1, []) and "mill:schedules" in wrong.err
    ran = shell(url, "--system", "native", "schedules")
    assert (
        ran.code == 0
        and "no system found here stores schedules in Redis; rqtui shows the schedules of bullmq, mill" in ran.err
    )


def test_a_missing_right_is_reported_only_for_systems_that_are_present(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">x", "~rqtui:*", "~mill:queues", "+@all")
    narrow = url.replace("redis://", "redis://narrow:x@")
    try:
        ran = shell(narrow, "schedules")
        assert ran.code == 0 and "no system found here stores schedules in Redis" in ran.err
        ran = shell(narrow, "--system", "mill", "schedules", "--json")
        assert (ran.code, ran.json) == (1, []) and "denies" in ran.err and "should not happen" not in ran.err
    finally:
        client.execute_command("ACL", "DELUSER", "narrow")
