"""Sample the dead jobs of a queue from all parts of its places.

The health probes and the overview use the same sample. Jobs that died together often have the same cause, so a sample
from one end of a place would miss causes: the place is divided into parts of equal size, and a block of jobs is read at
a random position of each part. The first and the last block are the ends of the place: in a place in the order of
death, one of them has the jobs that died last. Jobs that a person cancelled did not fail, and are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from rqtui.model import Count, Job, Page, Queue, Ref, State
from rqtui.system_base.system import Replies, Request, System

BLOCKS_PER_PLACE, BLOCK_JOBS = 24, 10
_ORDERED_TYPES = ("list", "zset", "stream")
MAX_CHANGE = 0.02  # share of the dead jobs that may come or go before what is known of them is outdated


class DeadSample(NamedTuple):
    """A sample of the dead jobs of a queue: the blocks of jobs read of each place, in the order of the place.

    `is_ordered`: every place is in the order of death and belongs to the queue alone, so that the jobs that died last
    are in the sample.
    """

    ref: Ref
    dead: int  # the failed dead jobs of the queue when the sample was requested
    places: tuple[tuple[tuple[Job, ...], ...], ...]
    is_ordered: bool = True

    def list_jobs(self) -> list[Job]:
        """Return the sampled jobs. A job that was read in two blocks appears once."""
        return [*{(job.place, job.id): job for blocks in self.places for block in blocks for job in block}.values()]


def is_outdated(dead_then: int, dead_now: int) -> bool:
    """Return whether so many dead jobs came or went that a sample or a report of them is outdated."""
    return abs(dead_now - dead_then) > MAX_CHANGE * dead_then


def build_dead_sample_request(system: System, queue: Queue) -> Request[DeadSample]:
    """Build the request that samples the dead jobs of a queue; a place of at most 240 jobs is read completely."""
    requests: list[Request[Page]] = []
    block_counts: list[int] = []  # per place
    is_ordered = True
    for count in queue.counts:
        if count.state is not State.DEAD or not count.count or not count.has_failures:
            continue
        is_shared = system.is_shared(count.place)
        place = system.place(count.place)
        is_ordered &= place.type in _ORDERED_TYPES and not (is_shared or place.is_from_events or place.is_key_per_job)
        build_page_request = system.scan_request if is_shared else system.page_request
        blocks = [*_choose_blocks(count, is_shared)]
        block_counts.append(len(blocks))
        requests += [build_page_request(queue.name, count.place, offset, limit, 0) for offset, limit in blocks]
    ref, dead = Ref(queue.system, queue.name), queue.count_failed()

    def parse_sample(replies: Replies) -> DeadSample:
        remaining = iter(replies)
        blocks = iter([tuple(request.parse([next(remaining) for _ in request.calls]).jobs) for request in requests])
        places = tuple(tuple(next(blocks) for _ in range(number)) for number in block_counts)
        return DeadSample(ref, dead, places, is_ordered)

    return Request(tuple(call for request in requests for call in request.calls), parse_sample)


def _choose_blocks(count: Count, is_shared: bool) -> Iterator[tuple[int, int]]:
    """Yield the position and length of each block to read of a place.

    The first block begins at the head of the place, and the last one ends at its end. In a shared place, positions are
    ranks among the jobs of all queues.
    """
    size = (count.shared_total if is_shared else None) or count.count
    if size <= BLOCKS_PER_PLACE * BLOCK_JOBS:
        yield 0, size
        return
    generator = random.Random(size)  # noqa: S311  no secret; equal numbers give an equal sample
    for block in range(BLOCKS_PER_PLACE):
        begin, end = (size * part // BLOCKS_PER_PLACE for part in (block, block + 1))
        last = max(begin, end - BLOCK_JOBS)
        at_end = {0: 0, BLOCKS_PER_PLACE - 1: last}
        yield at_end.get(block, generator.randint(begin, last)), BLOCK_JOBS
