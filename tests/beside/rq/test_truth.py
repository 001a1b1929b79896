"""Situations of the truth suite, made by stock RQ. Limits, and jobs that wait for a failed one, with their fixes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from beside import truth
from beside.rq.stock import FIXED, Stock, age_leases
from beside.stock import Worker
from redis import Redis

pytestmark = pytest.mark.beside


class Scene(truth.Scene):
    """The queue `default` of RQ."""

    system = "rq"
    slots = 1

    def put(self, *ids: str) -> None:
        self.stock.do("many", queue=self.queue, rows=[[id, "shop.add", [1, 2]] for id in ids])

    def put_failing(self, *ids: str) -> None:
        self.stock.do("many", queue=self.queue, rows=[[id, "shop.confirm", [7]] for id in ids])

    def put_due(self, *ids: str) -> None:
        self.start("w1")  # without a scheduler
        self.stock.do("later", queue=self.queue, func="shop.add", rows=[[id, [1, 2]] for id in ids], in_s=-20)

    def put_held(self, *ids: str) -> None:
        self.stock.do("many", queue=self.queue, rows=[[id, "shop.hold", ["go"]] for id in ids])

    def start(self, name: str) -> Worker:
        return self.stock.start(name=name)

    def are_done(self, ids: Sequence[str]) -> bool:
        return set(self.stock.do("statuses", ids=ids)) == {"finished"}

    def are_failed(self, ids: Sequence[str]) -> bool:
        return set(self.stock.do("statuses", ids=ids)) == {"failed"}

    def silence(self, worker: Worker) -> None:
        age_leases(self.client, self.queue, 90, worker.name)

    def pause(self) -> None:
        self.stock.do("suspended", wish=True)

    def fail_parent(self) -> None:
        self.put_failing("charge")
        for at in range(3):
            self.stock.do(
                "enqueue", queue=self.queue, func="shop.add", args=[1, 2], id=f"mail-{at}", depends_on="charge"
            )
        self.start("w1")
        self.stock.until("charge", "failed")

    def ready_key(self) -> str:
        return f"rq:queue:{self.queue}"


@pytest.mark.parametrize("id", truth.find_rows("rq"))
def test_a_situation_is_reported(id: str, stock: Stock) -> None:
    truth.check(Scene(stock), id)


def test_jobs_that_wait_for_a_failed_job_are_found_and_run_after_its_requeue(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[7], id="charge")
    waiting = [f"mail-{number}" for number in range(3)]
    for id in waiting:
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id, depends_on="charge")
    assert not stock.has_finding("parent-failed")
    with stock.worker():
        stock.until("charge", "failed")
    finding = stock.find_finding("parent-failed")
    assert (finding["severity"], finding["jobs"], finding["ids"]) == ("warning", 3, ["charge"])
    assert stock.do("statuses", ids=waiting) == ["deferred"] * 3
    client.set(FIXED, 1)
    stock.apply_fix(finding, "rqtui act requeue rq:default charge")
    assert not stock.has_finding("parent-failed")
    with stock.worker():
        for id in waiting:
            stock.until(id, "finished")


def test_jobs_behind_a_rate_limit_are_information(stock: Stock) -> None:
    if stock.version.startswith("2."):
        pytest.skip("RQ has rate limits from 3.0 on")
    for number in range(3):
        stock.do("limited", queue="default", func="shop.add", args=[1, 2], id=f"limited-{number}", key="smtp")
    finding = stock.find_finding("held-by-limit")
    assert (finding["severity"], finding["jobs"]) == ("info", 2)
    assert "at its limit of 1 job at once" in finding["text"] and "smtp" in finding["text"]
    with stock.worker():
        for number in range(3):
            stock.until(f"limited-{number}", "finished")
    assert not stock.has_finding("held-by-limit")
