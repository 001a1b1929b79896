"""Situations of the truth suite, made by stock Sidekiq."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from beside import truth
from beside.sidekiq.stock import Stock
from beside.stock import SLOW_S, Worker
from waiting import wait_until

pytestmark = pytest.mark.beside


class Scene(truth.Scene):
    """The queue `default` of Sidekiq."""

    system = "sidekiq"

    def __init__(self, stock: Stock) -> None:
        super().__init__(stock)
        if int(stock.version.split(".")[0]) < 7:  # It counts no runs per minute.
            self.words = {("L1", "once"): "unknown"}

    def put(self, *ids: str) -> None:
        self.stock.push(*ids)

    def put_failing(self, *ids: str) -> None:
        self.stock.push(*ids, job="FatalJob", args=(7,))

    def put_due(self, *ids: str) -> None:
        self.stock.push(*ids, in_s=3600)
        for member in self.client.zrange("schedule", 0, -1):
            self.client.zadd("schedule", {member: time.time() - 20})

    def put_held(self, *ids: str) -> None:
        self.stock.push(*ids, job="SlowJob", args=("go",))

    def until_held(self, *ids: str) -> None:
        held = {*ids}
        wait_until(
            lambda: {each["jid"] for each in self.stock.do("work")} >= held, SLOW_S, "a heartbeat has them", 0.05
        )

    def start(self, name: str) -> Worker:
        return self.stock.start(name=name, threads=self.slots)

    def are_done(self, ids: Sequence[str]) -> bool:
        """Return whether all ran and are in no place any more."""
        return {*ids} <= {*self.stock.runs()} and not any(self.stock.do("where", jids=ids).values())

    def are_failed(self, ids: Sequence[str]) -> bool:
        return all(places == ["dead"] for places in self.stock.do("where", jids=ids).values())

    def silence(self, worker: Worker) -> None:
        self.stock.age(worker, 22)

    def quiet(self, worker: Worker) -> None:
        self.stock.do("tell", identity=self.stock.identity(worker), word="quiet")
        wait_until(lambda: all(each["quiet"] for each in self.stock.do("processes")), SLOW_S, "it is quiet", 0.05)

    def ready_key(self) -> str:
        return f"queue:{self.queue}"


@pytest.mark.parametrize("id", truth.find_rows("sidekiq"))
def test_a_situation_is_reported(id: str, stock: Stock) -> None:
    truth.check(Scene(stock), id)
