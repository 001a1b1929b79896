"""A thousand jobs through stock workers and rqtui's verbs at once; every id is accounted for: who ran it, how often."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from beside.rq.stock import SLOW_S, Stock
from beside.thousand import Act, Thousand
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
BESIDE = 600  # runs, over which rqtui's verbs are spread


class Rq(Thousand[Stock]):
    """The jobs of RQ, and what rqtui does to them."""

    sizes = {
        "plain": 398,
        "flaky": 200,
        "killed": 100,
        "deleted": 100,
        "promoted": 100,
        "rescheduled": 50,
        "put": 50,
        "held": 2,
    }

    def enqueue(self) -> None:
        """Enqueue by stock RQ all jobs but those that rqtui puts; half of them are scheduled, in another order."""
        rows = [[id, "shop.add", [1, 2]] for group in ("plain", "killed", "deleted") for id in self.ids[group]]
        rows += [[id, "shop.flaky", [7]] for id in self.ids["flaky"]]
        self.rng.shuffle(rows)
        held = [[id, "shop.hold", ["go"]] for id in self.ids["held"]]
        self.stock.do("many", queue="default", rows=[*held, *rows])
        later = [*self.ids["promoted"], *self.ids["rescheduled"]]
        self.stock.do("later", queue="default", func="shop.add", rows=[[id, [3, 4]] for id in later], in_s=HOUR_S)

    def acts(self) -> list[Act]:
        """Yield all acts of rqtui, with requeue, pause and resume now and then."""
        return [
            *self.each("kill", "killed"),
            *self.each("delete", "deleted"),
            *self.each("promote", "promoted"),
            *self.each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *(lambda id=id: self.put(id, {"func": "shop.add", "args": [5, 6]}) for id in self.ids["put"]),
            *self.some("bump", "plain"),
            *(self.requeue_failed for _ in range(10)),
            *(self.pause_workers for _ in range(2)),
        ]

    def requeue_failed(self) -> None:
        """Whatever is failed runs again."""
        self.act("requeue", "--place", "failed", "--all")

    def pause_workers(self) -> None:
        """Pause and resume all workers."""
        self.stock.rqtui("act", "pause", self.stock.queue, "--yes")
        assert self.stock.do("suspended")
        self.stock.rqtui("act", "resume", self.stock.queue, "--yes")

    def is_over(self) -> bool:
        """Return whether no job waits, runs or is failed. Failed jobs are requeued, due jobs are dispatched."""
        self.stock.rqtui("dispatch", "rq:default", "--once")
        counts = self.counts()
        if "failed" in counts:
            self.requeue_failed()
        return not counts.keys() - {"finished", "canceled"}


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Rq(stock, client)
    of.enqueue()
    killed = stock.start(name="killed", options=("--with-scheduler",))
    first, second = of.ids["held"]
    stock.until_ran(first)
    of.before("kill", "killed")
    of.before("delete", "deleted")
    workers = [killed, *(stock.start(name=f"w{n}") for n in range(3))]
    of.act_beside(of.acts(), BESIDE, killed.kill)  # it was the only scheduler, too
    _its_time_is_over(client, killed.name)
    wait_until(lambda: _reap(stock), SLOW_S, "what the dead worker held is reaped", 0.1)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    statuses = dict(zip(of.words, stock.do("statuses", ids=[*of.words]), strict=True))
    runs = of.account(f"RQ {stock.version}", statuses, workers)
    times = {id: len(runs[id]) for id in of.words}
    for id in of.list_ids("plain", "promoted", "rescheduled", "put"):
        assert (times[id], statuses[id]) == (1, "finished"), id
    for id in of.ids["flaky"]:
        assert (times[id], statuses[id]) == (2, "finished"), id
    for id in of.ids["killed"]:
        assert (times[id], statuses[id]) == ((0, "canceled") if of.is_moved_by(id, "kill") else (1, "finished")), id
    for id in of.ids["deleted"]:
        assert statuses[id] == (None if of.is_moved_by(id, "delete") else "finished"), id
        assert times[id] == (1 if statuses[id] else times[id]) <= 1, id
    assert (times[first], statuses[first], runs[first][0]) == (2, "finished", killed.name)
    assert (times[second], statuses[second]) == (1, "finished")
    assert any(of.is_moved_by(id, "kill") for id in of.ids["killed"])
    assert any(of.is_moved_by(id, "delete") for id in of.ids["deleted"])
    assert of.counts() == Counter(status for status in statuses.values() if status)


def _its_time_is_over(client: Redis, worker: str) -> None:
    """Make a worker look as after 90 s without a heartbeat: no keys, an expired lease and an expired lock."""
    for member in client.zrange("rq:wip:default", 0, -1):
        job = member.decode().partition(":")[0]
        if client.hget(f"rq:job:{job}", "worker_name") == worker.encode():
            client.zadd("rq:wip:default", {member: time.time() - 1})
            client.delete(f"rq:execution:{member.decode()}")
    client.delete(f"rq:worker:{worker}", f"rq:worker:{worker}:executions", "rq:scheduler-lock:default")


def _reap(stock: Stock) -> bool:
    return any(stock.rqtui("reap", "rq:default", "--once")["reaped"].values())
