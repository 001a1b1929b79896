"""A thousand jobs through stock processes and rqtui's verbs at once; each id is accounted for: by whom, how often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random

import pytest
from beside.sidekiq.stock import SLOW_S, Stock
from beside.stock import RAN
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
        """All but those that rqtui puts and those that are held, by stock Sidekiq; some of them later."""
        rows = [(jid, "HardJob") for group in ("plain", "killed", "deleted") for jid in self.ids[group]]
        rows += [(jid, "FlakyJob") for jid in self.ids["flaky"]]
        self.rng.shuffle(rows)
        self.stock.do("push", items=[{"class": job, "args": [1, 2], "jid": jid} for jid, job in rows])
        self.stock.push(*self.ids["promoted"], *self.ids["rescheduled"], args=(3, 4), in_s=HOUR_S)

    def act(self, verb: str, *words: str) -> None:
        """A verb, whose answers are kept."""
        ran = shell(self.stock.url, "act", verb, "sidekiq:default", *words, "--yes", "--json")
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

        def put(jid: str) -> None:
            body = json.dumps({"class": "HardJob", "args": [5, 6]})
            shell(self.stock.url, "put", "sidekiq:default", body, "--id", jid)

        found = [
            *each("kill", "killed"),
            *each("delete", "deleted"),
            *each("promote", "promoted"),
            *each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *(lambda jid=jid: put(jid) for jid in self.ids["put"]),
            *(lambda jid=jid: self.act("bump", jid) for jid in self.rng.sample(self.ids["plain"], 10)),
            *(self.retry_failed for _ in range(10)),
        ]
        self.rng.shuffle(found)
        return found

    def retry_failed(self) -> None:
        """Whatever waits for a retry runs now."""
        self.act("promote", "--place", "retry", "--all")

    def is_over(self) -> bool:
        """Whether nothing waits or runs; what is to be tried again is tried now."""
        counts = self.counts()
        if "retry" in counts:
            self.retry_failed()
        return not counts.keys() - {"dead"}

    def counts(self) -> dict[str, int]:
        """How many stand in each place that holds some."""
        [queue] = self.stock.rqtui("snapshot")["queues"]
        return {place["place"]: place["count"] for place in queue["places"] if place["count"]}

    def answered(self, id: str, verb: str) -> bool:
        """Whether that verb has moved it."""
        return (verb, "moved") in self.words[id]


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Thousand(stock, client, seed=16)
    killed = stock.holding(*of.ids["held"], worker="killed")  # both of its threads: it takes no other job
    of.enqueue()
    workers = [killed, *(stock.start(name=f"w{n}", threads=3) for n in range(2))]
    acts = of.acts()
    for at, act in enumerate(acts):
        ran = at * BESIDE // len(acts)
        wait_until(lambda ran=ran: client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
        act()
        if at == len(acts) // 2:
            killed.kill()
            assert not any(stock.rqtui("reap", "sidekiq:default", "--once")["reaped"].values()), "it beat just now"
            stock.age(killed, 32)
            assert stock.rqtui("reap", "sidekiq:default", "--once")["reaped"] == {"ready": 2, "dead": 0}
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    runs, places = stock.runs(), stock.do("where", jids=[*of.words])
    times = {id: len(runs[id]) for id in of.words}
    account = Counter((id.partition("-")[0], times[id], " ".join(places[id]) or "gone") for id in of.words)
    by_whom = ", ".join(f"{name} {number}" for name, number in sorted(Counter(chain(*runs.values())).items()))
    print(f"\nSidekiq {stock.version}: {sum(times.values())} runs of {len(times)} jobs by {by_whom}")
    for (group, number, place), jobs in sorted(account.items(), key=str):
        print(f"  {jobs:4} {group:12} run {number} times, now {place}")
    assert set(chain(*runs.values())) == {worker.name for worker in workers}
    for id in chain(*(of.ids[group] for group in ("plain", "promoted", "rescheduled", "put"))):
        assert (times[id], places[id]) == (1, []), id
    for id in of.ids["flaky"]:
        assert (times[id], places[id]) == (2, []), id
    for id in of.ids["killed"]:
        assert (times[id], places[id]) == ((0, ["dead"]) if of.answered(id, "kill") else (1, [])), id
    for id in of.ids["deleted"]:
        assert (times[id], places[id]) == (0 if of.answered(id, "delete") else 1, []), id
    for id in of.ids["held"]:
        assert (times[id], places[id], runs[id][0]) == (2, [], killed.name), id
    assert any(of.answered(id, "kill") for id in of.ids["killed"])
    assert any(of.answered(id, "delete") for id in of.ids["deleted"])
    assert of.counts().get("dead", 0) == sum(places[id] == ["dead"] for id in of.words)
