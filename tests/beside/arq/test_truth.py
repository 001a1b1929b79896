"""Situations of the truth suite, made by stock arq."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from beside import truth
from beside.arq.stock import Stock
from beside.stock import Worker

pytestmark = pytest.mark.beside


class Scene(truth.Scene):
    """The default queue of arq."""

    system = "arq"
    queue = "arq:queue"

    def put(self, *ids: str) -> None:
        for id in ids:
            self.stock.do("enqueue", func="add", args=[1, 2], id=id)

    def put_failing(self, *ids: str) -> None:
        for id in ids:
            self.stock.do("enqueue", func="confirm", args=[7], id=id)

    def put_held(self, *ids: str) -> None:
        for id in ids:
            self.stock.do("enqueue", func="hold", args=["go"], id=id)

    def start(self, name: str) -> Worker:
        return self.stock.start(SHOP_MAX_JOBS=str(self.slots))

    def are_done(self, ids: Sequence[str]) -> bool:
        results = self.stock.do("results")
        return all(results.get(id, [False])[0] for id in ids)

    def are_failed(self, ids: Sequence[str]) -> bool:
        results = self.stock.do("results")
        return all(not results.get(id, [True])[0] for id in ids)


@pytest.mark.parametrize("id", truth.find_rows("arq"))
def test_a_situation_is_reported(id: str, stock: Stock) -> None:
    truth.check(Scene(stock), id)
