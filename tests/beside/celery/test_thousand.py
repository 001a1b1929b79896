"""A thousand jobs through stock workers and rqtui's verbs at once; every id is accounted for: who ran it, how often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from beside.celery.stock import STEPS, Stock
from beside.stock import SLOW_S, Worker
from beside.thousand import TOGETHER, Act, Thousand
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
BESIDE = 600  # runs, over which rqtui's verbs are spread
ONCE = ("plain", "put", "later")
RECEIVED = re.compile(r"Task [\w.]+\[([\w-]+)\] received")  # in the log of a worker


class Celery(Thousand[Stock]):
    """The jobs of Celery, and what rqtui does to them."""

    sizes = {
        "plain": 418,
        "flaky": 150,
        "revoked": 100,
        "deleted": 130,
        "later": 50,
        "undue": 50,
        "put": 100,
        "held": 2,
    }

    workers: Sequence[Worker] = ()

    def enqueue(self) -> None:
        """Enqueue by stock Celery all jobs but those that rqtui puts and the held ones; rqtui's targets come last."""
        rows = [[id, "shop.work", [1, 2]] for id in self.ids["plain"]]
        rows += [[id, "shop.flaky", [7]] for id in self.ids["flaky"]]
        last = [[id, "shop.work", [1, 2]] for group in ("revoked", "deleted") for id in self.ids[group]]
        for of, *priorities in ((rows, 0, 3, 6), (last, 0, 6, 9)):
            self.rng.shuffle(of)
            for at, priority in enumerate(priorities):
                self.stock.do("many", rows=of[at :: len(priorities)], priority=priority)
        later = [[id, "shop.add", [3, 4]] for group in ("later", "undue") for id in self.ids[group]]
        self.stock.do("many", rows=later, countdown=HOUR_S)

    def acts(self) -> list[Act]:
        """Yield all acts of rqtui while the workers work, with pause and resume now and then."""

        def put(id: str) -> None:
            more = ["--priority", str(self.rng.choice((3, 6, 9)))] if self.rng.random() < 0.5 else []
            self.put(id, {"task": "shop.add", "args": [5, 6]}, *more)

        return [
            *self.each("cancel", "revoked"),
            *self.each("delete", "deleted"),
            *(lambda id=id: put(id) for id in self.ids["put"]),
            *self.some("bump", "plain"),
            *self.some("reprioritise", "flaky", "--set", "priority=6"),
            *(self.pause_workers for _ in range(2)),
        ]

    def pause_workers(self) -> None:
        """Pause and resume all workers, and wait for each order, because a busy worker obeys them in any order."""
        for verb, word in (("pause", "Canceling queue"), ("resume", "Started consuming")):
            said = {worker: worker.read_log().count(word) for worker in self.workers if worker.process.poll() is None}
            self.stock.rqtui("act", verb, self.stock.queue, "--yes")

            def is_done(word: str = word, said: dict[Worker, int] = said) -> bool:
                return all(worker.read_log().count(word) > number for worker, number in said.items())

            wait_until(is_done, SLOW_S, f"{verb} is done by all", 0.02)

    def is_over(self) -> bool:
        """Return whether no list has jobs and workers hold only jobs that are not due. Late jobs are reaped."""
        self.stock.rqtui("reap", self.stock.queue, "--once")
        waits = any(self.client.llen(f"default{step}") for step in STEPS)
        return not waits and not self.stock.read_unacked().keys() - {*self.ids["undue"]}


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Celery(stock, client)
    stock.configure(task_acks_late=True)
    killed = stock.run_holding(*of.ids["held"], worker="killed")
    of.enqueue()
    for at in range(0, len(of.ids["later"]), TOGETHER):
        of.act("reschedule", *of.ids["later"][at : at + TOGETHER], "--set", "delay_ms=0")
    of.before("delete", "deleted")
    of.workers = [killed, *(stock.start(name=f"w{n}", events=n == 0) for n in range(3))]
    of.act_beside(of.acts(), BESIDE, killed.kill)
    assert not any(stock.rqtui("reap", stock.queue, "--once")["reaped"].values()), "nothing is late"
    lost = {*RECEIVED.findall(killed.read_log())} & {*stock.read_unacked()}
    assert lost >= {*of.ids["held"]}
    stock.age(HOUR_S + 60, *lost)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    statuses = dict(zip(of.words, stock.do("statuses", ids=[*of.words]), strict=True))
    runs = of.account(f"Celery {stock.do('version')}", statuses, of.workers)
    times = {id: len(runs[id]) for id in of.words}
    words = Counter((id.partition("-")[0], *word) for id, sentence in of.words.items() for word in sentence)
    for (group, verb, word), jobs in sorted(words.items()):
        print(f"  {jobs:4} {group:12} {verb}: {word}")
    print(f"  {len(lost)} were held by the worker that was killed, {len(lost & {*of.ids['undue']})} of them not due")
    for id in of.list_ids(*ONCE):
        assert (times[id], statuses[id]) == (1, "SUCCESS"), id
    for id in of.ids["flaky"]:
        assert (times[id], statuses[id]) == (2, "SUCCESS"), id
    for id in of.ids["revoked"]:
        assert (times[id], statuses[id]) in ((0, "REVOKED"), (1, "SUCCESS")), id
    for id in of.ids["deleted"]:
        assert (times[id], statuses[id]) == ((0, "PENDING") if of.is_moved_by(id, "delete") else (1, "SUCCESS")), id
    for id in of.ids["undue"]:
        assert (times[id], statuses[id]) == (0, "PENDING"), id
    for id in of.ids["held"]:
        assert (times[id], statuses[id], runs[id][0]) == (2, "SUCCESS", killed.name), id
    assert any(times[id] == 0 for id in of.ids["revoked"])
    assert any(of.is_moved_by(id, "delete") for id in of.ids["deleted"])
    assert {*stock.read_unacked()} == {*of.ids["undue"]}
