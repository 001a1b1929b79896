"""A thousand jobs through stock workers and rqtui's verbs at once; every id is accounted for: who ran it, how often."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random

import pytest
from beside.rq.stock import RAN, SLOW_S, Stock
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S, TOGETHER = 3600, 5
BESIDE = 600  # runs, over which rqtui's verbs are spread
SIZES = {
    "plain": 398,
    "flaky": 200,
    "killed": 100,
    "deleted": 100,
    "promoted": 100,
    "rescheduled": 50,
    "put": 50,
    "held": 2,
}
Act = Callable[[], None]


class Thousand:
    """The jobs, and what rqtui's verbs answered for each."""

    def __init__(self, stock: Stock, client: Redis, seed: int) -> None:
        self.stock, self.client, self.rng = stock, client, Random(seed)
        self.ids = {group: [f"{group}-{n}" for n in range(size)] for group, size in SIZES.items()}
        self.words: dict[str, list[tuple[str, str]]] = {id: [] for id in chain(*self.ids.values())}

    def enqueue(self) -> None:
        """All but those that rqtui puts, by stock RQ: half of them later, in an order of their own."""
        rows = [[id, "shop.add", [1, 2]] for group in ("plain", "killed", "deleted") for id in self.ids[group]]
        rows += [[id, "shop.flaky", [7]] for id in self.ids["flaky"]]
        self.rng.shuffle(rows)
        held = [[id, "shop.hold", ["go"]] for id in self.ids["held"]]
        self.stock.do("many", queue="default", rows=[*held, *rows])
        later = [*self.ids["promoted"], *self.ids["rescheduled"]]
        self.stock.do("later", queue="default", func="shop.add", rows=[[id, [3, 4]] for id in later], in_s=HOUR_S)

    def act(self, verb: str, *words: str) -> None:
        """A verb, whose answers are kept."""
        ran = shell(self.stock.url, "act", verb, "rq:default", *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, words, ran.out, ran.err)
        for result in json.loads(ran.out)["results"]:
            if result.get("id"):
                self.words[result["id"]].append((verb, result["word"]))

    def acts(self) -> list[Act]:
        """All that rqtui does, in a random order; requeue, pause and resume now and then."""

        def each(verb: str, group: str, *words: str) -> Iterator[Act]:
            ids = self.ids[group]
            for at in range(0, len(ids), TOGETHER):
                yield lambda some=ids[at : at + TOGETHER]: self.act(verb, *some, *words)

        def put(id: str) -> None:
            body = json.dumps({"func": "shop.add", "args": [5, 6]})
            shell(self.stock.url, "put", "rq:default", body, "--id", id)

        found = [
            *each("kill", "killed"),
            *each("delete", "deleted"),
            *each("promote", "promoted"),
            *each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *(lambda id=id: put(id) for id in self.ids["put"]),
            *(lambda id=id: self.act("bump", id) for id in self.rng.sample(self.ids["plain"], 10)),
            *(self.requeue_failed for _ in range(10)),
            *(self.rest for _ in range(2)),
        ]
        self.rng.shuffle(found)
        return found

    def requeue_failed(self) -> None:
        """Whatever is failed runs again."""
        self.act("requeue", "--place", "failed", "--all")

    def rest(self) -> None:
        """All workers rest for a moment."""
        shell(self.stock.url, "act", "pause", "rq:default", "--yes")
        assert self.stock.do("suspended")
        shell(self.stock.url, "act", "resume", "rq:default", "--yes")

    def is_over(self) -> bool:
        """Whether nothing waits, runs or is failed; what is failed is requeued, what is due is dispatched."""
        self.stock.rqtui("dispatch", "rq:default", "--once")
        counts = self.counts()
        if "failed" in counts:
            self.requeue_failed()
        return not counts.keys() - {"finished", "canceled"}

    def counts(self) -> dict[str, int]:
        """How many stand in each place that holds some, by the one script that counts them all at once."""
        [queue] = self.stock.rqtui("snapshot")["queues"]
        return {place["place"]: place["count"] for place in queue["places"] if place["count"]}

    def answered(self, id: str, verb: str) -> bool:
        """Whether that verb has moved it."""
        return (verb, "moved") in self.words[id]


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Thousand(stock, client, seed=16)
    of.enqueue()
    killed = stock.start(name="killed", options=("--with-scheduler",))
    first, second = of.ids["held"]
    stock.until_ran(first)
    workers = [killed, *(stock.start(name=f"w{n}") for n in range(3))]
    acts = of.acts()
    for at, act in enumerate(acts):
        ran = at * BESIDE // len(acts)
        wait_until(lambda ran=ran: client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
        act()
        if at == len(acts) // 2:
            killed.kill()  # it was the only scheduler, too
    _its_time_is_over(client, killed.name)
    wait_until(lambda: _reap(stock), SLOW_S, "what the dead worker held is reaped", 0.1)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    runs, statuses = stock.runs(), dict(zip(of.words, stock.do("statuses", ids=[*of.words]), strict=True))
    times = {id: len(runs[id]) for id in of.words}
    account = Counter((id.partition("-")[0], times[id], statuses[id]) for id in of.words)
    print(f"\nRQ {stock.version}: {sum(times.values())} runs of {len(times)} jobs by " + _by_whom(runs))
    for (group, number, status), jobs in sorted(account.items(), key=str):
        print(f"  {jobs:4} {group:12} run {number} times, now {status}")
    assert set(chain(*runs.values())) == {worker.name for worker in workers}
    for id in chain(*(of.ids[group] for group in ("plain", "promoted", "rescheduled", "put"))):
        assert (times[id], statuses[id]) == (1, "finished"), id
    for id in of.ids["flaky"]:
        assert (times[id], statuses[id]) == (2, "finished"), id
    for id in of.ids["killed"]:
        assert (times[id], statuses[id]) == ((0, "canceled") if of.answered(id, "kill") else (1, "finished")), id
    for id in of.ids["deleted"]:
        assert statuses[id] == (None if of.answered(id, "delete") else "finished"), id
        assert times[id] == (1 if statuses[id] else times[id]) <= 1, id
    assert (times[first], statuses[first], runs[first][0]) == (2, "finished", killed.name)
    assert (times[second], statuses[second]) == (1, "finished")
    assert any(of.answered(id, "kill") for id in of.ids["killed"])
    assert any(of.answered(id, "delete") for id in of.ids["deleted"])
    assert of.counts() == Counter(status for status in statuses.values() if status)


def _its_time_is_over(client: Redis, worker: str) -> None:
    """What comes of a minute and a half without a beat: its keys are gone, its lease and its lock are over."""
    for member in client.zrange("rq:wip:default", 0, -1):
        job = member.decode().partition(":")[0]
        if client.hget(f"rq:job:{job}", "worker_name") == worker.encode():
            client.zadd("rq:wip:default", {member: time.time() - 1})
            client.delete(f"rq:execution:{member.decode()}")
    client.delete(f"rq:worker:{worker}", f"rq:worker:{worker}:executions", "rq:scheduler-lock:default")


def _reap(stock: Stock) -> bool:
    return any(stock.rqtui("reap", "rq:default", "--once")["reaped"].values())


def _by_whom(runs: dict[str, list[str]]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(Counter(chain(*runs.values())).items()))
