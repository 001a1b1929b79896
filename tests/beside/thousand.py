"""Run a thousand jobs with stock workers and rqtui's verbs at the same time, with any system.

`beside/<system>/test_thousand.py` defines the jobs, the verbs, and the expected result of each job.
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


_ID_IN_BODY = {"celery": "id", "sidekiq": "jid"}
"""Where a body names its id, by the systems in which `put --id` is refused."""


class Thousand(Generic[S]):
    """Jobs in groups of the sizes `sizes`, and the words that rqtui's verbs returned for each."""

    sizes: ClassVar[Mapping[str, int]]

    def __init__(self, stock: S, client: Redis, seed: int = 16) -> None:
        self.stock, self.client, self.rng = stock, client, Random(seed)
        self.ids = {group: [f"{group}-{n}" for n in range(size)] for group, size in self.sizes.items()}
        self.words: dict[str, list[tuple[str, str]]] = {id: [] for id in chain(*self.ids.values())}

    def list_ids(self, *groups: str) -> Iterator[str]:
        """Return the jobs of these groups."""
        return chain(*(self.ids[group] for group in groups))

    def act(self, verb: str, *words: str) -> None:
        """Run a verb and keep the word of each job."""
        ran = shell(self.stock.url, "act", verb, self.stock.queue, *words, "--yes", "--json")
        assert ran.code in (0, 1), (verb, words, ran.out, ran.err)
        for result in json.loads(ran.out)["results"]:
            if result.get("id"):
                self.words[result["id"]].append((verb, result["word"]))

    def each(self, verb: str, group: str, *words: str) -> Iterator[Act]:
        """Yield acts that run the verb on all jobs of a group, TOGETHER at a time."""
        ids = self.ids[group]
        for at in range(0, len(ids), TOGETHER):
            yield lambda some=ids[at : at + TOGETHER]: self.act(verb, *some, *words)

    def before(self, verb: str, group: str, *words: str) -> None:
        """Run the verb on the first jobs of a group before the workers start, because later ones may come too late."""
        self.act(verb, *self.ids[group][:TOGETHER], *words)

    def some(self, verb: str, group: str, *words: str) -> Iterator[Act]:
        """Yield acts that run the verb on each of ten jobs of a group."""
        return (lambda id=id: self.act(verb, id, *words) for id in self.rng.sample(self.ids[group], 10))

    def put(self, id: str, body: Mapping[str, object], *words: str) -> None:
        """Put a job with rqtui."""
        key = _ID_IN_BODY.get(self.stock.queue.partition(":")[0])
        named, option = ({**body, key: id}, ()) if key else (body, ("--id", id))
        self.stock.rqtui("put", self.stock.queue, json.dumps(named), *option, *words)

    def pause_workers(self) -> None:
        """Pause and resume all workers."""
        for verb in ("pause", "resume"):
            self.stock.rqtui("act", verb, self.stock.queue, "--yes")

    def act_beside(self, acts: Sequence[Act], runs: int, half_way: Act) -> None:
        """Run the acts in random order, spread over `runs` runs of the workers, with `half_way` in the middle."""
        for at, act in enumerate(self.rng.sample(acts, len(acts))):
            ran = at * runs // len(acts)
            wait_until(lambda ran=ran: self.client.llen(RAN) >= ran, SLOW_S, "the workers work", 0.01)
            act()
            if at == len(acts) // 2:
                half_way()

    def counts(self) -> dict[str, int]:
        """Return the jobs per place that is not empty, counted by one script."""
        [queue] = self.stock.rqtui("snapshot")["queues"]
        return {place["place"]: place["count"] for place in queue["places"] if place["count"]}

    def is_moved_by(self, id: str, verb: str) -> bool:
        """Return whether this verb moved the job."""
        return (verb, "moved") in self.words[id]

    def account(self, system: str, states: Mapping[str, object], workers: Sequence[Worker]) -> dict[str, list[str]]:
        """Return the workers that ran each job. Print the runs by group, and check that each worker ran some."""
        runs = {**dict.fromkeys(self.words, []), **self.stock.runs()}
        by_whom = Counter(chain(*runs.values()))
        runs_by_worker = ", ".join(f"{name} {number}" for name, number in sorted(by_whom.items()))
        print(f"\n{system}: {by_whom.total()} runs of {len(self.words)} jobs by {runs_by_worker}")
        groups = Counter((id.partition("-")[0], len(runs[id]), str(states[id])) for id in self.words)
        for (group, number, state), jobs in sorted(groups.items()):
            print(f"  {jobs:4} {group:12} run {number} times, now {state}")
        assert set(by_whom) == {worker.name for worker in workers}
        return runs
