"""Prefetch: makes the next thing to send while the one before is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")
Sent = TypeVar("Sent")


def one_ahead(making: Iterator[Made], send: Callable[[Made], Sent]) -> Iterator[Sent]:
    """What `send` gives for each, in order; two are never under way at once, and none follows one that failed.

    `send` runs on a thread, where more than one is made; the second is made before the first is sent, to know that. An
    error of `send` is raised rather than one of making the next.
    """
    first = next(making, None)
    if first is None:
        return
    try:
        second = next(making, None)
    except BaseException:
        send(first)
        raise
    if second is None:
        yield send(first)
        return
    with ThreadPoolExecutor(1, "rqtui-ahead") as pool:
        sent: Future[Sent] = pool.submit(send, first)
        made: Made | None = second
        while made is not None:
            yield sent.result()
            sent = pool.submit(send, made)
            try:
                made = next(making, None)
            except BaseException:
                sent.result()
                raise
        yield sent.result()
