"""A thousand jobs through stock processes and rqtui's verbs at once; each id is accounted for: by whom, how often."""

from __future__ import annotations

import pytest
from beside.sidekiq.stock import Stock
from beside.thousand import Act, Thousand
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
BESIDE = 600  # runs, over which rqtui's verbs are spread


class Sidekiq(Thousand[Stock]):
    """The jobs of Sidekiq, and what rqtui does to them."""

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
        """Enqueue by stock Sidekiq all jobs but those that rqtui puts and the held ones; some are scheduled."""
        rows = [(jid, "HardJob") for group in ("plain", "killed", "deleted") for jid in self.ids[group]]
        rows += [(jid, "FlakyJob") for jid in self.ids["flaky"]]
        self.rng.shuffle(rows)
        self.stock.do("push", items=[{"class": job, "args": [1, 2], "jid": jid} for jid, job in rows])
        self.stock.push(*self.ids["promoted"], *self.ids["rescheduled"], args=(3, 4), in_s=HOUR_S)

    def acts(self) -> list[Act]:
        """Yield all acts of rqtui's verbs."""
        return [
            *self.each("kill", "killed"),
            *self.each("delete", "deleted"),
            *self.each("promote", "promoted"),
            *self.each("reschedule", "rescheduled", "--set", "delay_ms=0"),
            *(lambda jid=jid: self.put(jid, {"class": "HardJob", "args": [5, 6]}) for jid in self.ids["put"]),
            *self.some("bump", "plain"),
            *(self.retry_failed for _ in range(10)),
        ]

    def retry_failed(self) -> None:
        """Whatever waits for a retry runs now."""
        self.act("promote", "--place", "retry", "--all")

    def is_over(self) -> bool:
        """Return whether no job waits or runs. Retries are made due at once."""
        counts = self.counts()
        if "retry" in counts:
            self.retry_failed()
        return not counts.keys() - {"dead"}


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_thousand_jobs_are_each_accounted_for(stock: Stock, client: Redis) -> None:
    of = Sidekiq(stock, client)
    killed = stock.run_holding(*of.ids["held"], worker="killed")  # both of its threads: it takes no other job
    of.enqueue()
    of.before("kill", "killed")
    of.before("delete", "deleted")
    workers = [killed, *(stock.start(name=f"w{n}", threads=3) for n in range(2))]

    def killed_half_way() -> None:
        killed.kill()
        assert not any(stock.rqtui("reap", "sidekiq:default", "--once")["reaped"].values()), "it beat just now"
        stock.age(killed, 32)
        assert stock.rqtui("reap", "sidekiq:default", "--once")["reaped"] == {"ready": 2, "dead": 0}

    of.act_beside(of.acts(), BESIDE, killed_half_way)
    client.set("go", 1)
    wait_until(of.is_over, 180, "all is done", 0.3)

    places = stock.do("where", jids=[*of.words])
    runs = of.account(f"Sidekiq {stock.version}", {id: " ".join(places[id]) or "gone" for id in of.words}, workers)
    times = {id: len(runs[id]) for id in of.words}
    for id in of.list_ids("plain", "promoted", "rescheduled", "put"):
        assert (times[id], places[id]) == (1, []), id
    for id in of.ids["flaky"]:
        assert (times[id], places[id]) == (2, []), id
    for id in of.ids["killed"]:
        assert (times[id], places[id]) == ((0, ["dead"]) if of.is_moved_by(id, "kill") else (1, [])), id
    for id in of.ids["deleted"]:
        assert (times[id], places[id]) == (0 if of.is_moved_by(id, "delete") else 1, []), id
    for id in of.ids["held"]:
        assert (times[id], places[id], runs[id][0]) == (2, [], killed.name), id
    assert any(of.is_moved_by(id, "kill") for id in of.ids["killed"])
    assert any(of.is_moved_by(id, "delete") for id in of.ids["deleted"])
    assert of.counts().get("dead", 0) == sum(places[id] == ["dead"] for id in of.words)
