"""A thousand jobs through stock workers and rqtui's verbs at once; every id is accounted for: who ran it, how often."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random

import pytest
from beside.celery.stock import STEPS, Stock
from beside.stock import RAN, SLOW_S
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S, TOGETHER = 3600, 5
BESIDE = 600  # runs, over which rqtui's verbs are spread
SIZES = {
    "plain": 418,
    "flaky": 150,
    "revoked": 100,
    "deleted": 130,
    "later": 50,
    "undue": 50,
    "put": 100,
    "held": 2,
}
ONCE = ("plain", "put", "later")
RECEIVED = re.compile(r"Task [\w.]+\[([\w-]+)\] received")  # in the log of a worker
Act = Callable[[], None]


class Thousand:
    """The jobs, and what rqtui's verbs answered for each."""

    def __init__(self, stock: Stock, client: Redis, seed: int) -> None:
        self.stock, self.client, self.rng = stock, client, Random(seed)
        self.ids = {group: [f"{group}-{n}" for n in range(size)] for group, size in SIZES.items()}
        self.words: dict[str, list[tuple[str, str]]] = {id: [] for id in chain(*self.ids.values())}

    def enqueue(self) -> None:
        """All but those that rqtui puts and those that are held, by stock Celery: what rqtui takes out comes last."""
        rows = [[id, "shop.work", [1, 2]] for id in self.ids["plain"]]
        rows += [[id, "shop.flaky", [7]] for id in self.ids["flaky"]]
        last = [[id, "shop.work", [1, 2]] for group in ("revoked", "deleted") for id in self.ids[group]]
        for of, *priorities in ((rows, 0, 3, 6), (last, 0, 6, 9)):
            self.rng.shuffle(of)
            for at, priority in enumerate(priorities):
                self.stock.do("many", rows=of[at :: len(priorities)], priority=priority)
        later = [[id, "shop.add", [3, 4]] for group in ("later", "undue") for id in self.ids[group]]
        self.stock.do("many", rows=later, countdown=HOUR_S)

    def act(self, verb: str, *words: str) -> None:
        """A verb, whose answers are kept."""
        ran = shell(self.stock.url, "act", verb, self.stock.queue, *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, words, ran.out, ran.err)
        for result in json.loads(ran.out)["results"]:
            if result.get("id"):
                self.words[result["id"]].append((verb, result["word"]))

    def acts(self) -> list[Act]:
        """All that rqtui does while the workers work, in a random order; pause and resume now and then."""

        def each(verb: str, group: str, *words: str) -> Iterator[Act]:
            ids = self.ids[group]
            for at in range(0, len(ids), TOGETHER):
                yield lambda some=ids[at : at + TOGETHER]: self.act(verb, *some, *words)

        def put(id: str) -> None:
            body = json.dumps({"task": "shop.add", "args": [5, 6]})
            more = ["--priority", str(self.rng.choice((3, 6, 9)))] if self.rng.random() < 0.5 else []
            self.stock.rqtui("put", self.stock.queue, body, "--id", id, *more)

        found = [
            *each("cancel", "revoked"),
            *each("delete", "deleted"),
            *(lambda id=id: put(id) for id in self.ids["put"]),
            *(lambda id=id: self.act("bump", id) for id in self.rng.sample(self.ids["plain"], 10)),
            *(
                lambda id=id: self.act("reprioritise", id, "--set", "priority=6")
                for id in self.rng.sample(self.ids["flaky"], 10)
            ),
            *(self.rest for _ in range(2)),
        ]
        self.rng.shuffle(found)
        return found

    def rest(self) -> None:
        """All workers rest for a moment."""
        shell(self.stock.url, "act", "pause", self.stock.queue, "--yes")
        shell(self.stock.url, "act", "resume", self.stock.queue, "--yes")

    def is_over(self) -> bool:
        """Whether nothing waits in a list, and workers hold only what is not due; what is late is reaped."""
        self.stock.rqtui("reap", self.stock.queue, "--once")
        waits = any(self.client.llen(f"default{step}") for step in STEPS)
        return not waits and not self.stock.unacked().keys() - {*self.ids["undue"]}

    def answered(self, id: str, verb: str) -> bool:
        """Whether that verb has moved it."""
        return (verb, "moved") in self.words[id]


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Thousand(stock, client, seed=16)
    stock.configure(task_acks_late=True)
    killed = stock.holding(*of.ids["held"], worker="killed")
    of.enqueue()
    for at in range(0, SIZES["later"], TOGETHER):
        of.act("reschedule", *of.ids["later"][at : at + TOGETHER], "--set", "delay_ms=0")
    workers = [killed, *(stock.start(name=f"w{n}", events=n == 0) for n in range(3))]
    acts = of.acts()
    for at, act in enumerate(acts):
        ran = at * BESIDE // len(acts)
        wait_until(lambda ran=ran: client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
        act()
        if at == len(acts) // 2:
            killed.kill()
    assert not any(stock.rqtui("reap", stock.queue, "--once")["reaped"].values()), "nothing is late"
    lost = {*RECEIVED.findall(killed.said)} & {*stock.unacked()}
    assert lost >= {*of.ids["held"]}
    stock.age(HOUR_S + 60, *lost)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    runs, statuses = stock.runs(), dict(zip(of.words, stock.do("statuses", ids=[*of.words]), strict=True))
    times = {id: len(runs[id]) for id in of.words}
    account = Counter((id.partition("-")[0], times[id], statuses[id]) for id in of.words)
    by_whom = ", ".join(f"{name} {number}" for name, number in sorted(Counter(chain(*runs.values())).items()))
    print(f"\nCelery {stock.do('version')}: {sum(times.values())} runs of {len(times)} jobs by {by_whom}")
    for (group, number, status), jobs in sorted(account.items(), key=str):
        print(f"  {jobs:4} {group:12} run {number} times, now {status}")
    assert set(chain(*runs.values())) == {worker.name for worker in workers}
    words = Counter((id.partition("-")[0], *word) for id, said in of.words.items() for word in said)
    for (group, verb, word), jobs in sorted(words.items()):
        print(f"  {jobs:4} {group:12} {verb}: {word}")
    print(f"  {len(lost)} were held by the worker that was killed, {len(lost & {*of.ids['undue']})} of them not due")
    for id in chain(*(of.ids[group] for group in ONCE)):
        assert (times[id], statuses[id]) == (1, "SUCCESS"), id
    for id in of.ids["flaky"]:
        assert (times[id], statuses[id]) == (2, "SUCCESS"), id
    for id in of.ids["revoked"]:
        assert (times[id], statuses[id]) in ((0, "REVOKED"), (1, "SUCCESS")), id
    for id in of.ids["deleted"]:
        assert (times[id], statuses[id]) == ((0, "PENDING") if of.answered(id, "delete") else (1, "SUCCESS")), id
    for id in of.ids["undue"]:
        assert (times[id], statuses[id]) == (0, "PENDING"), id
    for id in of.ids["held"]:
        assert (times[id], statuses[id], runs[id][0]) == (2, "SUCCESS", killed.name), id
    assert any(times[id] == 0 for id in of.ids["revoked"])
    assert any(of.answered(id, "delete") for id in of.ids["deleted"])
    assert {*stock.unacked()} == {*of.ids["undue"]}
