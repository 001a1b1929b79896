"""Situations of the truth suite, made by stock Celery."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from beside import truth
from beside.celery.stock import Stock
from beside.stock import Worker

pytestmark = pytest.mark.beside


class Scene(truth.Scene):
    """The queue `default` of Celery, with late acknowledgements and events."""

    system = "celery"

    def __init__(self, stock: Stock) -> None:
        super().__init__(stock)
        stock.configure(task_acks_late=True, worker_prefetch_multiplier=1)

    def put(self, *ids: str) -> None:
        self.stock.do("many", rows=[[id, "shop.add", [1, 2]] for id in ids])

    def put_failing(self, *ids: str) -> None:
        self.stock.do("many", rows=[[id, "shop.confirm", [7]] for id in ids])

    def put_held(self, *ids: str) -> None:
        self.stock.do("many", rows=[[id, "shop.hold", ["go"]] for id in ids])

    def start(self, name: str) -> Worker:
        return self.stock.start(name=name, pool="prefork", slots=self.slots, events=True)

    def are_done(self, ids: Sequence[str]) -> bool:
        return set(self.stock.do("statuses", ids=ids)) == {"SUCCESS"}

    def are_failed(self, ids: Sequence[str]) -> bool:
        return set(self.stock.do("statuses", ids=ids)) == {"FAILURE"}

    def quiet(self, worker: Worker) -> None:
        self.stock.do("control", command="cancel_consumer", queue=self.queue)


@pytest.mark.parametrize("id", truth.find_rows("celery"))
def test_a_situation_is_reported(id: str, stock: Stock) -> None:
    truth.check(Scene(stock), id)
