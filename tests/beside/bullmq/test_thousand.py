"""A thousand jobs through stock workers and rqtui's verbs at once; each id is accounted for: by whom, how often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random

import pytest
from beside.bullmq.stock import SLOW_S, Stock
from beside.stock import RAN
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_MS, TOGETHER = 3_600_000, 5
BESIDE = 500  # runs, over which rqtui's verbs are spread
WORK_MS = 40
SIZES = {
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
Act = Callable[[], None]


class Thousand:
    """The jobs, and what rqtui's verbs answered for each."""

    def __init__(self, stock: Stock, client: Redis, seed: int) -> None:
        self.stock, self.client, self.rng = stock, client, Random(seed)
        self.ids = {group: [f"{group}-{n}" for n in range(size)] for group, size in SIZES.items()}
        self.words: dict[str, list[tuple[str, str]]] = {id: [] for id in chain(*self.ids.values())}

    def enqueue(self) -> None:
        """All but those that rqtui puts and those that are held, by stock BullMQ; some of them later."""
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

    def act(self, verb: str, *words: str) -> None:
        """A verb, whose answers are kept."""
        ran = shell(self.stock.url, "act", verb, "bullmq:mail", *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, words, ran.out, ran.err)
        for result in json.loads(ran.out)["results"]:
            if result.get("id"):
                self.words[result["id"]].append((verb, result["word"]))

    def acts(self) -> list[Act]:
        """All that rqtui does, in a random order."""

        def each(verb: str, group: str, *words: str) -> Iterator[Act]:
            ids = self.ids[group]
            for at in range(0, len(ids), TOGETHER):
                yield lambda some=ids[at : at + TOGETHER]: self.act(verb, *some, *words)

        def put(id: str) -> None:
            body = json.dumps({"ms": WORK_MS})
            shell(self.stock.url, "put", "bullmq:mail", body, "--name", "work", "--id", id)

        found = [
            *each("kill", "killed"),
            *each("delete", "deleted"),
            *each("promote", "promoted"),
            *each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *each("reprioritise", "urgent", "--set", "priority=3"),
            *(lambda id=id: put(id) for id in self.ids["put"]),
            *(lambda id=id: self.act("bump", id) for id in self.rng.sample(self.ids["plain"], 10)),
            *(self.requeue_failed for _ in range(10)),
            *(self.pause_and_resume for _ in range(3)),
        ]
        self.rng.shuffle(found)
        return found

    def requeue_failed(self) -> None:
        """Whatever failed of the one cause runs again."""
        self.act("requeue", "--place", "failed", "--filter", "err:hang")

    def pause_and_resume(self) -> None:
        """No job is taken for a moment."""
        for verb in ("pause", "resume"):
            self.stock.rqtui("act", verb, "bullmq:mail", "--yes")

    def is_over(self) -> bool:
        """Whether nothing waits or runs; what failed once is requeued."""
        self.requeue_failed()
        counts = self.stock.shown()
        return not any(counts[place] for place in counts if place not in ("completed", "failed"))

    def answered(self, id: str, verb: str) -> bool:
        """Whether that verb has moved it."""
        return (verb, "moved") in self.words[id]


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Thousand(stock, client, seed=16)
    stock.add(*of.ids["held"], name="hold", data={"key": "go"})
    killed = stock.start(name="killed", threads=2)  # both of its threads hold one: it takes no other job
    for id in of.ids["held"]:
        stock.until_ran(id)
    of.enqueue()
    workers = [killed, *(stock.start(name=f"w{n}", threads=3) for n in range(2))]
    acts = of.acts()
    for at, act in enumerate(acts):
        ran = at * BESIDE // len(acts)
        wait_until(lambda ran=ran: client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
        act()
        if at == len(acts) // 2:
            killed.kill()
            assert not any(stock.rqtui("reap", "bullmq:mail", "--once")["reaped"].values()), "their locks live"
            for id in of.ids["held"]:
                stock.lock_over(id)
            assert stock.rqtui("reap", "bullmq:mail", "--once")["reaped"] == {"ready": 2, "dead": 0}
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    runs, states = stock.runs(), stock.states(*of.words)
    times = {id: len(runs[id]) for id in of.words}
    account = Counter((id.partition("-")[0], times[id], states[id]) for id in of.words)
    by_whom = ", ".join(f"{name} {number}" for name, number in sorted(Counter(chain(*runs.values())).items()))
    print(f"\nBullMQ {stock.version}: {sum(times.values())} runs of {len(times)} jobs by {by_whom}")
    for (group, number, state), jobs in sorted(account.items(), key=str):
        print(f"  {jobs:4} {group:12} run {number} times, now {state}")
    assert set(chain(*runs.values())) == {worker.name for worker in workers}
    once = (1, "completed")
    for id in chain(*(of.ids[group] for group in ("plain", "promoted", "rescheduled", "urgent", "put"))):
        assert (times[id], states[id]) == once, id
    for id in of.ids["flaky"]:
        assert (times[id], states[id]) == (2, "completed"), id
    for id in of.ids["killed"]:
        assert (times[id], states[id]) == ((0, "failed") if of.answered(id, "kill") else once), id
    for id in of.ids["deleted"]:
        gone = (min(times[id], 1), "unknown")  # it may have been done before
        assert (times[id], states[id]) == (gone if of.answered(id, "delete") else once), id
    for id in of.ids["held"]:
        assert (times[id], states[id], runs[id][0]) == (2, "completed", killed.name), id
    for verb in ("kill", "delete", "reprioritise"):
        assert any(of.answered(id, verb) for id in of.words), verb
    shown = stock.shown()
    assert {place: stock.counts()[place] for place in shown} == shown
    assert shown["failed"] == sum(states[id] == "failed" for id in of.words)
    assert shown["completed"] == sum(states[id] == "completed" for id in of.words)
