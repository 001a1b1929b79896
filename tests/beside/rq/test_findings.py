"""`rqtui health` finds faults of RQ and of killed workers. Its fix repairs them for stock RQ."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import pytest
from beside.rq.stock import FIXED, SLOW_S, Stock, age_leases
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
DAY_S = 24 * 3600


def find_finding(stock: Stock, kind: str) -> dict[str, Any]:
    """Return the only finding of this kind, and check its queue."""
    finding = stock.find_finding(kind)
    assert finding["queue"] == "default"
    return finding


def test_abandoned_jobs_and_a_missing_worker_are_found_after_kill_9(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.hold", args=["go"], id="again", retries=2)
    first = stock.start(name="first")
    stock.until_ran("again")
    second = stock.run_holding("once", "second")
    assert not stock.has_finding("abandoned")
    first.kill()
    second.kill()
    assert not stock.has_finding("abandoned"), "its lease is not over"
    age_leases(client, "default", 600)
    gone, abandoned = find_finding(stock, "worker-gone"), find_finding(stock, "abandoned")
    assert set(gone["keys"]) <= {"rq:workers:default"}
    assert abandoned["jobs"] == 2 or "2" in abandoned["text"]
    assert {"again", "once"} & set(abandoned["ids"])
    stock.apply_fix(abandoned, "rqtui reap rq:default")
    assert not stock.has_finding("abandoned")
    assert stock.do("statuses", ids=["again", "once"]) == ["queued", "failed"]
    assert "AbandonedJobError" in stock.do("job", id="once")["error"]
    for worker in ("first", "second"):
        gone = find_finding(stock, "worker-gone")
        [command] = re.findall(r"redis-cli SREM \S+ \S+?(?=[;.\s]|$)", gone["remedy"])
        stock.apply_fix(gone, command)
        assert worker in "first second"
    assert not stock.has_finding("worker-gone")
    assert stock.do("workers") == []
    client.set("go", 1)
    stock.start(name="third")
    stock.until("again", "finished")
    assert stock.runs() == {"again": ["first", "third"], "once": ["second"]}


def test_no_scheduler_where_delayed_jobs_and_retries_wait_for_ever(stock: Stock, client: Redis) -> None:
    for id in ("reminder", "another"):
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id, in_s=0)
    stock.start()
    wait_until(lambda: all(late_s < 0 for late_s in stock.do("due", queue="default").values()), what="they are due")
    finding = find_finding(stock, "no-scheduler")
    assert finding["severity"] == "critical"
    stock.apply_fix(finding, "rqtui dispatch rq:default")
    for id in ("reminder", "another"):
        stock.until(id, "finished")
    assert not stock.has_finding("no-scheduler")
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="third", in_s=0)
    wait_until(lambda: stock.has_finding("no-scheduler"), what="it is due")
    stock.start(options=("--with-scheduler",))
    stock.until("third", "finished")
    assert not stock.has_finding("no-scheduler")
    assert {len(runs) for runs in stock.runs().values()} == {1}


def test_vanishing_after_a_stock_requeue(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[7], id="bad", failure_ttl=500)
    with stock.worker():
        stock.until("bad", "failed")
    stock.do("requeue", queue="default", id="bad")
    assert 0 < stock.do("job", id="bad")["ttl"] <= 500
    finding = find_finding(stock, "vanishing")
    assert "bad" in finding["ids"]
    stock.apply_fix(finding, "redis-cli PERSIST rq:job:bad")
    assert stock.do("job", id="bad")["ttl"] == -1
    assert not stock.has_finding("vanishing")
    client.set(FIXED, 1)
    stock.start()
    stock.until("bad", "finished")


def test_a_ghost_whose_time_to_live_is_over_counts_until_it_is_deleted(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="brief", ttl=1)
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="lasting")
    wait_until(lambda: stock.do("job", id="brief") is None, what="its time is over")
    assert stock.do("counts", queue="default")["queued"] == 2
    finding = find_finding(stock, "ghost")
    assert (finding["ids"], finding["keys"][:1]) == (["brief"], ["rq:queue:default"])
    stock.apply_fix(finding, "rqtui act delete rq:default brief")
    assert stock.do("counts", queue="default")["queued"] == 1
    assert not stock.has_finding("ghost")


def test_stale_in_between_when_a_worker_is_killed_before_it_begins(stock: Stock, client: Redis) -> None:
    worker = stock.start(name="first")
    wait_until(lambda: _is_blocked(client), SLOW_S, "it waits for a job")
    worker.process.send_signal(signal.SIGSTOP)
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="stuck")
    assert client.lrange("rq:queue:default:intermediate", 0, -1) == [b"stuck"]
    worker.kill()
    age_leases(client, "default", DAY_S)
    finding = find_finding(stock, "stale-intermediate")
    assert finding["ids"] == ["stuck"]
    stock.apply_fix(finding, "rqtui reap rq:default")
    first_seen = "rq:queue:default:intermediate:first_seen:stuck"
    if client.exists(first_seen):  # it is noted at the first look, as RQ notes it, and taken out a minute later
        assert find_finding(stock, "stale-intermediate")["ids"] == ["stuck"]
        client.set(first_seen, time.time() - 61, ex=DAY_S)
        stock.apply_fix(finding, "rqtui reap rq:default")
    assert not stock.has_finding("stale-intermediate")
    assert stock.do("ids", queue="default", place="queued") == ["stuck"]
    stock.start(name="second")
    assert stock.until("stuck", "finished")["value"] == 3
    assert stock.runs() == {"stuck": ["second"]}


def _is_blocked(client: Redis) -> bool:
    return any(each["cmd"].lower() in ("blmove", "blpop") for each in client.client_list())


def test_an_id_that_stock_leaves_in_between_after_its_job_has_expired(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="brief", ttl=1)
    wait_until(lambda: stock.do("job", id="brief") is None, what="its time is over")
    with stock.worker():
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="next")
        stock.until("next", "finished")
    assert client.lrange("rq:queue:default:intermediate", 0, -1) == [b"brief"]
    finding = find_finding(stock, "ghost")
    assert (finding["ids"], finding["keys"][:1]) == (["brief"], ["rq:queue:default:intermediate"])
    stock.apply_fix(finding, "rqtui reap rq:default")
    assert client.llen("rq:queue:default:intermediate") == 0
    assert not stock.has_finding("ghost")


def test_a_scheduler_that_hangs_keeps_its_lock_and_is_reported(stock: Stock, client: Redis) -> None:
    hanging = stock.start(name="hanging", options=("--with-scheduler",))
    wait_until(lambda: client.exists("rq:scheduler-lock:default"), SLOW_S, "it is the scheduler")
    hanging.stop()
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="reminder", in_s=0)
    client.zadd("rq:scheduled:default", {"reminder": int(time.time()) - 300})
    assert not stock.has_finding("no-scheduler")
    finding = find_finding(stock, "scheduler-behind")
    hanging.kill()
    client.delete("rq:scheduler-lock:default")  # after 61 s
    stock.apply_fix(finding, "rqtui dispatch rq:default")
    assert not stock.has_finding("scheduler-behind")
    stock.start()
    stock.until("reminder", "finished")
    assert len(stock.runs()["reminder"]) == 1


def test_a_worker_of_two_queues_that_is_killed_with_a_job_in_hand_loses_it_and_rqtui_reports_it(
    stock: Stock, client: Redis
) -> None:
    worker = stock.start("default", "low")
    wait_until(lambda: _is_blocked(client), SLOW_S, "it waits for a job")
    worker.process.send_signal(signal.SIGSTOP)
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="lost")
    worker.kill()
    assert not any(stock.do("counts", queue="default").values())
    ran = shell(stock.url, "show", "rq:default", "lost")
    assert "it is in no place of the queue: no worker will find it" in " ".join(ran.out.split())
    assert stock.act("delete", "lost", code=1) == {"lost": "taken"}
    assert stock.act("delete", "lost", "--force") == {"lost": "moved"}
    assert stock.do("job", id="lost") is None


def test_schedules_of_stock_cron_are_listed_and_a_missing_cron_is_reported(stock: Stock, client: Redis) -> None:
    cron = stock.cron()
    shown = wait_until(lambda: stock.rqtui("schedules"), SLOW_S, "rqtui shows the schedule", 0.1)
    if stock.version.startswith("3."):
        wait_until(lambda: len(stock.rqtui("schedules")) == 2, SLOW_S, "both of its jobs", 0.1)
        by_call = {each["call"]: each for each in stock.rqtui("schedules")}
        assert set(by_call) == {"shop.add(1, 2)", "shop.add(3, 4)"}
        night = by_call["shop.add(1, 2)"]
        assert (night["queue"], night["layout"], night["pattern"]) == ("default", "rq", "0 3 * * *")
        assert night["next_at_ms"] > time.time() * 1000
        assert "3600" in by_call["shop.add(3, 4)"]["pattern"] or "1h" in by_call["shop.add(3, 4)"]["pattern"]
        assert not night["problem"]
    else:
        assert ["from 3.0 on" in each["problem"] for each in shown] == [True]  # it is there, and does not say for what
    cron.kill()
    for key in [*client.scan_iter("rq:cron_scheduler:*")]:
        client.expire(key, 0)  # two minutes later
    assert all(each["problem"] for each in stock.rqtui("schedules"))


COPIES = """
for n = 1, tonumber(ARGV[2]) do
  local id = ARGV[1] .. '-' .. n
  redis.call('COPY', 'rq:job:' .. ARGV[1], 'rq:job:' .. id)
  redis.call('COPY', 'rq:results:' .. ARGV[1], 'rq:results:' .. id)
  redis.call('ZADD', KEYS[1], redis.call('ZSCORE', KEYS[1], ARGV[1]), id)
end"""


def test_heavy_results_of_jobs_that_are_kept(stock: Stock, client: Redis) -> None:
    """RQ makes one job and its result; the other twenty thousand are copies of their keys, to spare an hour."""
    stock.do("enqueue", queue="default", func="shop.letters", args=[4000], id="one", result_ttl=DAY_S)
    with stock.worker():
        stock.until("one", "finished")
    assert not stock.has_finding("heavy-results")
    client.eval(COPIES, 1, "rq:finished:default", "one", 20_000)
    assert stock.do("counts", queue="default")["finished"] == 20_001
    finding = find_finding(stock, "heavy-results")
    stock.apply_fix(finding, "rqtui act delete rq:default --place finished --all")
    assert not stock.has_finding("heavy-results")
    assert stock.do("counts", queue="default")["finished"] == 0
    assert not [*client.scan_iter("rq:results:*", count=1000)]
