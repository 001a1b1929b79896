"""Send an item on a background thread while the next item is built. `Queue.put_many` uses it for its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def send_in_background(items: Iterator[Item], send: Callable[[Item], Result]) -> Iterator[Result]:
    """Call `send` for each item, one at a time, and yield the results in order. A failure ends the iteration.

    With more than one item, `send` runs on a background thread while the next item is built. If both fail, the error of
    `send` is raised.
    """
    first = next(items, None)
    if first is None:
        return
    try:
        second = next(items, None)
    except BaseException:
        send(first)
        raise
    if second is None:
        yield send(first)
        return
    with ThreadPoolExecutor(1, "rqtui-ahead") as pool:
        result: Future[Result] = pool.submit(send, first)
        item: Item | None = second
        while item is not None:
            yield result.result()
            result = pool.submit(send, item)
            try:
                item = next(items, None)
            except BaseException:
                result.result()
                raise
        yield result.result()
