"""A thousand jobs through stock workers and rqtui's verbs at once: what is alike beside every system.

`beside/<system>/test_thousand.py` says which jobs, which verbs, and what has to have become of each.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import ClassVar, Generic, TypeVar

from beside.stock import RAN, SLOW_S, Stock, Worker
from redis import Redis
from shell import shell
from waiting import wait_until

TOGETHER = 5  # jobs per call of a verb
Act = Callable[[], None]
S = TypeVar("S", bound=Stock)


class Thousand(Generic[S]):
    """The jobs, `sizes` of each group, and what rqtui's verbs answered for each."""

    sizes: ClassVar[Mapping[str, int]]

    def __init__(self, stock: S, client: Redis, seed: int = 16) -> None:
        self.stock, self.client, self.rng = stock, client, Random(seed)
        self.ids = {group: [f"{group}-{n}" for n in range(size)] for group, size in self.sizes.items()}
        self.words: dict[str, list[tuple[str, str]]] = {id: [] for id in chain(*self.ids.values())}

    def of(self, *groups: str) -> Iterator[str]:
        """The jobs of these groups."""
        return chain(*(self.ids[group] for group in groups))

    def act(self, verb: str, *words: str) -> None:
        """A verb, whose answers are kept."""
        ran = shell(self.stock.url, "act", verb, self.stock.queue, *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, words, ran.out, ran.err)
        for result in json.loads(ran.out)["results"]:
            if result.get("id"):
                self.words[result["id"]].append((verb, result["word"]))

    def each(self, verb: str, group: str, *words: str) -> Iterator[Act]:
        """The verb, for some jobs of a group at a time."""
        ids = self.ids[group]
        for at in range(0, len(ids), TOGETHER):
            yield lambda some=ids[at : at + TOGETHER]: self.act(verb, *some, *words)

    def before(self, verb: str, group: str, *words: str) -> None:
        """The verb, for the first of a group, before anybody works: on a busy machine the rest may all be too late."""
        self.act(verb, *self.ids[group][:TOGETHER], *words)

    def some(self, verb: str, group: str, *words: str) -> Iterator[Act]:
        """The verb, for each of ten jobs of a group."""
        return (lambda id=id: self.act(verb, id, *words) for id in self.rng.sample(self.ids[group], 10))

    def put(self, id: str, body: object, *words: str) -> None:
        """A job that rqtui puts."""
        self.stock.rqtui("put", self.stock.queue, json.dumps(body), "--id", id, *words)

    def rest(self) -> None:
        """All workers rest for a moment."""
        for verb in ("pause", "resume"):
            self.stock.rqtui("act", verb, self.stock.queue, "--yes")

    def act_beside(self, acts: Sequence[Act], runs: int, half_way: Act) -> None:
        """All of that in a random order, spread over so many runs of the workers; `half_way` in the middle."""
        for at, act in enumerate(self.rng.sample(acts, len(acts))):
            ran = at * runs // len(acts)
            wait_until(lambda ran=ran: self.client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
            act()
            if at == len(acts) // 2:
                half_way()

    def counts(self) -> dict[str, int]:
        """How many stand in each place that holds some, by the one script that counts them all at once."""
        [queue] = self.stock.rqtui("snapshot")["queues"]
        return {place["place"]: place["count"] for place in queue["places"] if place["count"]}

    def answered(self, id: str, verb: str) -> bool:
        """Whether that verb has moved it."""
        return (verb, "moved") in self.words[id]

    def account(self, system: str, states: Mapping[str, object], workers: Sequence[Worker]) -> dict[str, list[str]]:
        """By whom each job was run, in order; each of the workers has run some. Tells it by groups."""
        runs = {**dict.fromkeys(self.words, []), **self.stock.runs()}
        by_whom = Counter(chain(*runs.values()))
        told = ", ".join(f"{name} {number}" for name, number in sorted(by_whom.items()))
        print(f"\n{system}: {by_whom.total()} runs of {len(self.words)} jobs by {told}")
        groups = Counter((id.partition("-")[0], len(runs[id]), str(states[id])) for id in self.words)
        for (group, number, state), jobs in sorted(groups.items()):
            print(f"  {jobs:4} {group:12} run {number} times, now {state}")
        assert set(by_whom) == {worker.name for worker in workers}
        return runs
