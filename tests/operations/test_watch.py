"""Test sightings of findings over time: a finding appears once, disappears once, and does not repeat by flickering."""

from __future__ import annotations

from rqtui.model import Count, Finding, Queue, Ref, Snapshot, State
from rqtui.operations import watch
from rqtui.operations.journal import Sighting
from rqtui.operations.watch import SnapshotWatch

PAUSED = Finding("paused", "warning", "mail", "paused")
OLD = Finding("oldest-ready", "warning", "mail", "the oldest ready job waits for 9m00")


def build_snapshot(at_s: int, *findings: Finding, dead: int = 0, name: str = "mail") -> Snapshot:
    counts = (Count("dead", State.DEAD, dead),)
    return Snapshot(at_s * 1000, (Queue(name, "native", counts, findings=findings),))


def test_a_finding_is_reported_when_it_comes_and_when_it_has_disappeared() -> None:
    items: list[Sighting] = []
    look = SnapshotWatch(items.append).record_snapshot
    for at_s in (0, 2):
        look(build_snapshot(at_s, PAUSED))
    look(build_snapshot(4, PAUSED, OLD))
    look(build_snapshot(8, OLD))
    assert [(one.at_ms, one.kind, one.is_over) for one in items] == [
        (0, "paused", False),
        (4000, "oldest-ready", False),
    ]
    look(build_snapshot(14, OLD))
    assert items[2:] == [Sighting(14_000, "mail", "native", "paused", "warning", "paused", True)]


def test_a_finding_that_flickers_or_was_not_checked_has_not_ended() -> None:
    items: list[Sighting] = []
    look = SnapshotWatch(items.append).record_snapshot
    for at_s in range(0, 60, 4):
        look(build_snapshot(at_s, *([PAUSED] if at_s % 8 else [])))
        look(build_snapshot(at_s, name="other"))
    look(Snapshot(10**9))
    assert [one.kind for one in items] == ["paused"]


def test_a_queue_with_a_finding_is_counted_now_and_then_and_a_few_queues_only() -> None:
    snapshot_watch = SnapshotWatch(lambda _one: None)
    for at_s in range(0, 40, 2):
        snapshot_watch.record_snapshot(build_snapshot(at_s, PAUSED, dead=at_s))
        snapshot_watch.record_snapshot(build_snapshot(at_s, dead=at_s, name="well"))
    assert [(one.at_ms, one.counts[State.DEAD]) for one in snapshot_watch.samples[Ref("native", "mail")]] == [
        (0, 0), (10_000, 10), (20_000, 20), (30_000, 30),
    ]  # fmt: skip
    assert list(snapshot_watch.samples) == [Ref("native", "mail")]
    for number in range(100):
        snapshot_watch.record_snapshot(build_snapshot(50, PAUSED, name=f"q{number}"))
    assert len(snapshot_watch.samples) == watch.MAX_QUEUES
