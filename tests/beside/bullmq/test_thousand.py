"""A thousand jobs through stock workers and rqtui's verbs at once; each id is accounted for: by whom, how often."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import Stock
from beside.thousand import Act, Thousand
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_MS = 3_600_000
BESIDE = 500  # runs, over which rqtui's verbs are spread
WORK_MS = 40


class BullMQ(Thousand[Stock]):
    """The jobs of BullMQ, and what rqtui does to them."""

    sizes = {
        "plain": 348,
        "flaky": 200,
        "killed": 100,
        "deleted": 100,
        "promoted": 100,
        "rescheduled": 50,
        "urgent": 50,
        "put": 50,
        "held": 2,
    }

    def enqueue(self) -> None:
        """Enqueue by stock BullMQ all jobs but those that rqtui puts and the held ones; some of them are delayed."""
        data, order = {"ms": WORK_MS}, {"order": 7}
        rows = [
            ["work", data, {"jobId": id}]
            for group in ("plain", "killed", "deleted", "urgent")
            for id in self.ids[group]
        ]
        rows += [["flaky", order, {"jobId": id}] for id in self.ids["flaky"]]
        self.rng.shuffle(rows)
        later = [*self.ids["promoted"], *self.ids["rescheduled"]]
        rows += [["work", data, {"jobId": id, "delay": HOUR_MS}] for id in later]
        self.stock.do("many", queue="mail", rows=rows)

    def acts(self) -> list[Act]:
        """Yield all acts of rqtui's verbs."""
        return [
            *self.each("kill", "killed"),
            *self.each("delete", "deleted"),
            *self.each("promote", "promoted"),
            *self.each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *self.each("reprioritise", "urgent", "--set", "priority=3"),
            *(lambda id=id: self.put(id, {"ms": WORK_MS}, "--name", "work") for id in self.ids["put"]),
            *self.some("bump", "plain"),
            *(self.requeue_failed for _ in range(10)),
            *(self.pause_workers for _ in range(3)),
        ]

    def requeue_failed(self) -> None:
        """Whatever failed of the one cause runs again."""
        self.act("requeue", "--place", "failed", "--filter", "err:hang")

    def is_over(self) -> bool:
        """Return whether no job waits or runs. Jobs that failed once are requeued."""
        self.requeue_failed()
        counts = self.stock.read_counts()
        return not any(counts[place] for place in counts if place not in ("completed", "failed"))


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = BullMQ(stock, client)
    stock.add(*of.ids["held"], name="hold", data={"key": "go"})
    killed = stock.start(name="killed", threads=2)  # both of its threads hold one: it takes no other job
    for id in of.ids["held"]:
        stock.until_ran(id)
    of.enqueue()
    of.before("kill", "killed")
    of.before("delete", "deleted")
    of.before("reprioritise", "urgent", "--set", "priority=3")
    workers = [killed, *(stock.start(name=f"w{n}", threads=3) for n in range(2))]

    def killed_half_way() -> None:
        killed.kill()
        assert not any(stock.rqtui("reap", "bullmq:mail", "--once")["reaped"].values()), "their locks live"
        for id in of.ids["held"]:
            stock.expire_lock(id)
        assert stock.rqtui("reap", "bullmq:mail", "--once")["reaped"] == {"ready": 2, "dead": 0}

    of.act_beside(of.acts(), BESIDE, killed_half_way)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    states = stock.states(*of.words)
    runs = of.account(f"BullMQ {stock.version}", states, workers)
    times = {id: len(runs[id]) for id in of.words}
    once = (1, "completed")
    for id in of.list_ids("plain", "promoted", "rescheduled", "urgent", "put"):
        assert (times[id], states[id]) == once, id
    for id in of.ids["flaky"]:
        assert (times[id], states[id]) == (2, "completed"), id
    for id in of.ids["killed"]:
        assert (times[id], states[id]) == ((0, "failed") if of.is_moved_by(id, "kill") else once), id
    for id in of.ids["deleted"]:
        gone = (min(times[id], 1), "unknown")  # it may have been done before
        assert (times[id], states[id]) == (gone if of.is_moved_by(id, "delete") else once), id
    for id in of.ids["held"]:
        assert (times[id], states[id], runs[id][0]) == (2, "completed", killed.name), id
    for verb in ("kill", "delete", "reprioritise"):
        assert any(of.is_moved_by(id, verb) for id in of.words), verb
    counts = stock.read_counts()
    assert {place: stock.counts()[place] for place in counts} == counts
    assert counts["failed"] == sum(states[id] == "failed" for id in of.words)
    assert counts["completed"] == sum(states[id] == "completed" for id in of.words)
