"""`rqtui health` finds faults of BullMQ and of killed workers. Its fix repairs them for stock BullMQ."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import SLOW_S, P, Stock
from beside.environments import BULLMQ, build_bullmq
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_MS = 3_600_000
FIVE, SIX = sorted(BULLMQ)


def test_jobs_of_a_killed_worker_are_found_and_reaped_and_another_one_finishes_them(
    stock: Stock, client: Redis
) -> None:
    worker = stock.run_holding("held", "killed")
    assert not stock.has_finding("stalled")
    assert stock.rqtui("reap", "bullmq:mail", "--once")["reaped"] == {"ready": 0, "dead": 0}
    worker.kill()
    assert not stock.has_finding("stalled"), "its lock lives"
    stock.expire_lock("held")
    finding = stock.find_finding("stalled")
    assert (finding["jobs"], finding["ids"]) == (1, ["held"])
    stock.apply_fix(finding, "rqtui reap bullmq:mail --once")
    assert stock.state("held") == "waiting"
    assert not stock.has_finding("stalled")
    client.set("go", 1)
    with stock.worker(name="next"):
        stock.until("held", "completed")
    assert stock.runs() == {"held": ["killed", "next"]}


def test_jobs_left_in_paused_after_an_upgrade_are_found_and_none_is_lost(
    client: Redis, url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Check both faults on one server, which BullMQ 5 leaves when it pauses and BullMQ 6 continues."""
    old = Stock(build_bullmq(FIVE), FIVE, url, tmp_path_factory.mktemp("old"))
    new = Stock(build_bullmq(SIX), SIX, url, tmp_path_factory.mktemp("new"))
    with old, new:
        old.do("whole", queue="mail", verb="pause")
        old.add("old-1", "old-2")
        new.add("new-1")
        assert [client.llen(f"{P}{key}") for key in ("paused", "wait")] == [2, 1], "6 leaves it in wait"
        finding = new.find_finding("mixed")
        assert finding["severity"] == "critical"
        new.apply_fix(finding, "rqtui act resume bullmq:mail")
        assert new.do("ids", queue="mail", state="wait") == ["old-1", "old-2", "new-1"]
        assert not new.has_finding("mixed")
        old.do("whole", queue="mail", verb="pause")
        client.hdel(f"{P}meta", "paused")  # as a hand does that knows only BullMQ 6
        left = new.find_finding("left-in-paused")
        assert left["jobs"] == 3
        with new.worker():
            new.apply_fix(left, "rqtui act resume bullmq:mail")
            for id in ("old-1", "old-2", "new-1"):
                new.until(id, "completed")
        assert not new.has_finding("left-in-paused")
        assert {id: len(runs) for id, runs in new.runs().items()} == {"old-1": 1, "old-2": 1, "new-1": 1}


def test_jobs_lost_from_every_place_by_a_resume_of_bullmq_5_are_found_and_queued_again(
    client: Redis, url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = Stock(build_bullmq(FIVE), FIVE, url, tmp_path_factory.mktemp("old"))
    new = Stock(build_bullmq(SIX), SIX, url, tmp_path_factory.mktemp("new"))
    with old, new:
        old.do("whole", queue="mail", verb="pause")
        old.add("kept")
        lost = new.do("add", queue="mail", name="work", data={}, opts={})
        old.do("whole", queue="mail", verb="resume")
        assert new.states("kept", lost) == {"kept": "waiting", lost: "unknown"}
        finding = new.find_finding("orphan")
        assert (finding["severity"], finding["ids"]) == ("critical", [lost])
        for command in (f"redis-cli LPUSH {P}wait {lost}", f"redis-cli ZADD {P}marker 0 0"):
            new.apply_fix(finding, command)
        assert not new.has_finding("orphan")
        with new.worker():
            for id in ("kept", lost):
                new.until(id, "completed")


def test_data_that_is_no_json_stalls_and_never_fails_and_is_found_and_killed(stock: Stock, client: Redis) -> None:
    stock.add("poison")
    client.hset(f"{P}poison", "data", b"{no json")
    for times in (1, 2):
        taker = stock.start()
        wait_until(lambda times=times: client.hget(f"{P}poison", "ats") == b"%d" % times, SLOW_S, "it is taken", 0.02)
        taker.kill()
        stock.expire_lock("poison")
        stock.apply_fix(stock.find_finding("poison-active"), "rqtui reap bullmq:mail --once")
    assert stock.state("poison") == "waiting"
    finding = stock.find_finding("poison")
    assert finding["severity"] == "critical"
    stock.apply_fix(finding, "rqtui act kill bullmq:mail poison")
    assert not stock.has_finding("poison")
    assert stock.state("poison") == "failed"
    stock.add("good")
    with stock.worker():
        stock.until("good", "completed")
    assert [*stock.runs()] == ["good"]


def test_an_id_whose_hash_is_missing_is_run_without_a_name_and_found_before(stock: Stock, client: Redis) -> None:
    stock.add("ghost")
    client.delete(f"{P}ghost")
    with stock.worker():
        stock.until_ran("ghost")
        wait_until(lambda: client.llen(f"{P}active") == 0, SLOW_S, "it has ended", 0.02)
    assert client.zrange(f"{P}completed", 0, -1) == [b"ghost"]
    stock.apply_fix(stock.find_finding("ghost"), "rqtui act delete bullmq:mail ghost")
    assert not client.exists(f"{P}completed")
    stock.add("other", "good")
    client.delete(f"{P}other")
    finding = stock.find_finding("ghost")
    assert finding["ids"] == ["other"]
    stock.apply_fix(finding, "rqtui act delete bullmq:mail other")
    assert not stock.has_finding("ghost")
    with stock.worker():
        stock.until("good", "completed")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"ghost": 1, "good": 1}


def test_a_deduplication_key_without_a_job_swallows_in_5_and_is_found(stock: Stock, client: Redis) -> None:
    opts = {"deduplication": {"id": "once"}}
    first = stock.do("add", queue="mail", name="work", data={}, opts=opts)
    client.delete(f"{P}{first}")
    client.lrem(f"{P}wait", 0, first)
    second = stock.do("add", queue="mail", name="work", data={}, opts=opts)
    assert stock.read_counts()["wait"] == (0 if stock.is_5 else 1)
    if stock.is_5:
        assert second == first, "it was swallowed"
        finding = stock.find_finding("stale-dedup")
        assert finding["severity"] == "critical"
        stock.apply_fix(finding, f"redis-cli DEL {P}de:once")
        assert not stock.has_finding("stale-dedup")
        second = stock.do("add", queue="mail", name="work", data={}, opts=opts)
    assert stock.act("delete", second) == {second: "moved"}
    assert not client.exists(f"{P}de:once"), "delete frees it"
    third = stock.do("add", queue="mail", name="work", data={}, opts=opts)
    with stock.worker():
        stock.until(third, "completed")


def test_a_scheduler_whose_next_job_is_missing_is_found_and_taken_off(stock: Stock, client: Redis) -> None:
    for id in ("stopped", "goes-on"):
        stock.do("schedule", queue="mail", id=id, every={"every": HOUR_MS}, name="work", data={"of": id})
    entries_by_name = {each["name"]: each for each in stock.rqtui("schedules")}
    assert {*entries_by_name} == {*stock.do("schedulers", queue="mail")}
    assert {each["pattern"] for each in entries_by_name.values()} == {"every 3600 s"}
    jobs = [
        id
        for place in ("delayed", "wait", "paused")
        for id in stock.do("ids", queue="mail", state=place)
        if "stopped" in id
    ]
    assert jobs
    for id in jobs:  # as a hand does in redis-cli
        client.zrem(f"{P}delayed", id)
        client.lrem(f"{P}wait", 0, id)
        client.delete(f"{P}{id}")
    client.zadd(f"{P}repeat", {"stopped": 1000})
    finding = stock.find_finding("scheduler-stopped")
    stock.apply_fix(finding, "rqtui act unschedule bullmq:mail --set scheduler=stopped")
    assert not stock.has_finding("scheduler-stopped")
    assert stock.do("schedulers", queue="mail") == ["goes-on"]
    stock.rqtui("act", "unschedule", "bullmq:mail", "--set", "scheduler=goes-on", "--yes")
    assert stock.do("schedulers", queue="mail") == []
    assert client.zcard(f"{P}delayed") == 0


def test_a_parent_whose_child_is_missing_waits_for_ever_and_is_found(stock: Stock, client: Redis) -> None:
    children = [{"name": "confirm", "queueName": "mail", "data": {"order": 1}, "opts": {"jobId": "child"}}]
    stock.do("flow", tree={"name": "work", "queueName": "mail", "opts": {"jobId": "parent"}, "children": children})
    with stock.worker():
        stock.until("child", "failed")
    finding = stock.find_finding("parent-of-failed")
    assert finding["ids"] == ["parent"]
    assert "rqtui act requeue" in finding["remedy"]
    client.zrem(f"{P}failed", "child")
    client.delete(f"{P}child")
    gone = stock.find_finding("parent-of-none")
    stock.apply_fix(gone, f"redis-cli SREM {P}parent:dependencies {P}child")
    free = stock.find_finding("parent-free")
    for command in free["remedy"].split(" && "):
        stock.apply_fix(free, command)
    assert not any(stock.has_finding(kind) for kind in ("parent-free", "parent-of-none", "parent-of-failed"))
    with stock.worker():
        stock.until("parent", "completed")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"child": 1, "parent": 1}
