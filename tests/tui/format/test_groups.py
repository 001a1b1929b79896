"""Groups of queues as one."""

from __future__ import annotations

from rqtui.model import Queue, Ref
from rqtui.tui.format import groups


def test_a_worker_of_several_queues_is_counted_once_or_said_to_be_uncertain() -> None:
    def queues(system: str, *workers: int | None) -> list[Queue]:
        return [Queue(f"q:{number}", system, workers=count) for number, count in enumerate(workers)]

    assert groups.count_group_workers(queues("own", 2, 3), ()) == (5, False)
    assert groups.count_group_workers(queues("shared", 2, 3), ["shared"]) == (3, True), "three, or up to five"
    assert groups.count_group_workers(queues("shared", 0, 3), ["shared"]) == (3, False)
    assert groups.count_group_workers([*queues("own", 2, 3), *queues("shared", 4, 4)], ["shared"]) == (9, True)
    assert groups.count_group_workers(queues("silent", None, None), ()) is None
    some = queues("shared", 2, 3)
    group = groups.QueueGroup("q:", tuple(Ref("shared", queue.name) for queue in some))
    one, other = groups.sum_group_queues(group, some), groups.sum_group_queues(group, some, ["shared"])
    assert one is not None and other is not None and (one.workers, other.workers) == (5, None)
