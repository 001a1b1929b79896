"""A place that all queues of a system share: counted and listed by queue, and changed only where the queue's jobs are.

The mill's counts look at its first 100 jobs, a step of a walk at 50.
"""

from __future__ import annotations

import pytest
from mill_system import Mill, add_mill_jobs, mill
from redis import Redis
from shell import Ran, shell

from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Ref
from rqtui.operations import rate_limit
from rqtui.reports import errors, kinds, plans

__all__ = ["mill"]  # a fixture
FLOUR, BRAN = Ref("mill", "flour"), Ref("mill", "bran")
MINE = [f"f{number}" for number in range(60)]
THEIRS = [f"b{number}" for number in range(239)]


@pytest.fixture
def run(client: Redis, url: str, mill: type[Mill]):  # type: ignore[no-untyped-def]
    """Run a command line on 300 jobs of which every fifth is of flour: 60, of which one belongs to no queue."""
    theirs = iter(THEIRS)
    for number, mine in enumerate(MINE):
        error = "ValueError: chaff" if number % 2 else ""
        add_mill_jobs(client, "flour", "deferred", mine, error=error, call="mill.sift()")
        for _at, id in zip(range(4), theirs, strict=False):
            add_mill_jobs(client, "bran", "deferred", id, call="mill.shake()")
    client.rpush("mill:deferred", "nobody's")

    def command(*words: str) -> Ran:
        ran = shell(url, "--system", "mill", *words)
        assert "Traceback" not in ran.err and "should not happen" not in ran.err
        return ran

    return command


def list_deferred(client: Redis) -> list[str]:
    """Return the jobs in the shared place."""
    return [id.decode() for id in client.lrange("mill:deferred", 0, -1)]


def ids(document: dict[str, list[dict[str, str]]]) -> list[str]:
    """Return the ids of a page of jobs."""
    return [job["id"] for job in document["jobs"]]


def test_a_shared_place_is_counted_by_queue_and_once_for_all(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    document = run("snapshot", "--json").json
    counted = {queue["queue"]: queue["places"][1] for queue in document["queues"]}
    assert counted["flour"] == {"place": "deferred", "state": "scheduled", "count": 60, "exact": False}
    assert (counted["bran"]["count"], counted["bran"]["exact"]) == (240, False), "its share of the first hundred"
    [shared] = document["shared"]
    assert shared == {"layout": "mill", "place": "deferred", "state": "scheduled", "count": 300, "unassigned": None}
    assert "~60" in run("snapshot").out
    metrics = run("metrics").out
    assert 'rqtui_jobs_sampled{layout="mill",queue="flour",place="deferred",state="scheduled"} 1' in metrics
    assert 'rqtui_shared_jobs{layout="mill",place="deferred",state="scheduled"} 300' in metrics
    for id in THEIRS[20:]:  # now all of them are looked at
        client.lrem("mill:deferred", 1, id)
    document = run("snapshot", "--json").json
    assert [queue["places"][1]["count"] for queue in document["queues"]] == [20, 60]
    assert all(queue["places"][1]["exact"] for queue in document["queues"])
    assert document["shared"][0]["unassigned"] == 1, "what nobody can attribute is not lost from sight"
    assert "1 job of mill in deferred: of no queue that is known here." in run("snapshot").err
    assert run("snapshot", "flour", "--json").json["shared"][0]["unassigned"] is None, "not all queues were counted"


def test_the_pages_of_a_shared_place_meet_each_job_of_a_queue_once(run) -> None:  # type: ignore[no-untyped-def]
    for limit in (7, 60, 500):
        found: list[str] = []
        cursor: list[str] = []
        while True:
            page = run("jobs", "flour", "deferred", "--limit", str(limit), *cursor, "--json").json
            found += ids(page)
            assert len(page["jobs"]) <= limit and page["total"] == 60
            assert page["exact"] == (limit == 500), "of all it is known how many there are"
            if page["next"] is None:
                break
            cursor = ["--cursor", page["next"]]
        assert found == MINE, limit
    page = run("jobs", "flour", "deferred", "--limit", "70", "--json").json
    assert (ids(page), page["total"], page["next"]) == (MINE, 60, None)
    some = run("jobs", "flour", "deferred", "--filter", "id:f5", "--json").json
    assert ids(some) == ["f5", *(f"f5{number}" for number in range(10))]
    assert "7 of ~60 in deferred" in run("jobs", "flour", "deferred", "--limit", "7").err
    assert [page["place"] for page in run("jobs", "flour", "--json").json["places"]] == ["deferred"]


def test_a_change_of_many_jobs_leaves_the_jobs_of_other_queues(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    others = [id for id in list_deferred(client) if id not in MINE]
    plan = run("act", "promote", "flour", "--place", "deferred", "--all", "--dry-run", "--json")
    assert len(plan.json["results"]) == 60
    assert run("act", "promote", "flour", "--place", "deferred", "--filter", "id:f1", "--json").json["moved"] == 11
    assert run("act", "kill", "flour", "--place", "deferred", "--all", "--yes", "--json").json["moved"] == 49
    assert list_deferred(client) == others
    assert (client.llen("mill:queued:flour"), client.llen("mill:canceled:flour")) == (11, 49)
    ran = run("act", "promote", "bran", "--place", "deferred", "--all", "--rate", "9000/s", "--json")
    assert (ran.code, ran.json["moved"], list_deferred(client)) == (0, 239, ["nobody's"])


def test_a_purge_of_a_shared_place_deletes_the_jobs_of_its_queue(client: Redis, run) -> None:  # type: ignore[no-untyped-def]
    others = [id for id in list_deferred(client) if id not in MINE]
    add_mill_jobs(client, "flour", "failed", "x1", "x2")
    add_mill_jobs(client, "bran", "failed", "y1")
    some = run("act", "purge", "flour", "--place", "deferred", "--limit", "7", "--yes", "--json")
    assert (some.code, some.json["moved"]) == (0, 7)
    whole = run("act", "purge", "flour", "--all", "--yes", "--json")
    assert (whole.code, whole.json["moved"]) == (0, 55)
    assert list_deferred(client) == others and not client.llen("mill:failed:flour") and client.llen("mill:failed:bran")
    assert "nothing is there" in run("act", "purge", "flour", "--place", "deferred", "--yes").out


@pytest.fixture
def engine(client: Redis, run) -> Engine:  # type: ignore[no-untyped-def]
    """Create an engine on the queue with shared places, without a command."""
    return build_engine(client, [Mill()])


def test_reports_go_through_a_shared_place_for_each_queue(client: Redis, engine: Engine) -> None:
    *_steps, actual = errors.yield_error_reports(engine, [FLOUR, BRAN])
    assert actual is not None and [(group.count, group.refs) for group in actual.groups] == [(30, (FLOUR,))]
    assert actual.size.is_complete, "the walks ended, so that all was looked at"
    *_steps, found = kinds.yield_kind_reports(engine, [FLOUR, BRAN])
    assert found is not None and [(kind.name, kind.count) for kind in found.kinds] == [
        ("mill.shake", 239),
        ("mill.sift", 60),
    ]
    *_steps, plan = plans.yield_place_plans(engine, FLOUR, "deferred")
    assert (plan.total, plan.looked, plan.exact) == (60, 60, True)
    members = [
        job.id.decode()
        for step in errors.yield_group_members(engine, [FLOUR, BRAN], actual.groups[0].key, actual.grouping)
        for job in step.jobs
    ]
    assert sorted(members) == sorted(MINE[1::2])
    add_mill_jobs(
        client, "flour", "deferred", *(f"late{number}" for number in range(9))
    )  # more than the counts make of it
    steps = rate_limit.yield_rate_limited_steps(
        engine, "promote", [(FLOUR, ())], {}, rate_limit.Limits(9_000), place="deferred"
    )
    assert sum(len(step.outcomes) for step in steps) == 69
    assert client.llen("mill:queued:flour") == 69
