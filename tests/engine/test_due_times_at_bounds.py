"""Polls of due times by a given clock and given scores: `due_times_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_due_times_at_bounds.py` writes the text; review it as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.engine import due_times
from rqtui.engine.due_times import DuePoll, DueTimes
from rqtui.model import Count, Queue, Ref, State
from rqtui.systems import registry

KEPT = Path(__file__).with_name("due_times_at_bounds.txt")
NATIVE = {"native": registry.create_system("native")}
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
REFS = [Ref("native", f"q{number}") for number in range(41)]


class Redis:
    """A clock, and the due times of queues by number. A poll takes `duration_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.duration_s = 1000.0, 0.0
        self.in_ms: dict[int, float] = {}
        monkeypatch.setattr(due_times, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(due_times, "_read_first_scores", self.read_first_scores)

    def read_first_scores(self, _client: Any, _plan: Any) -> tuple[dict[int, float], int]:
        self.now_s += self.duration_s
        return {number: NOW_MS + in_ms for number, in_ms in self.in_ms.items()}, NOW_MS

    def describe(self, poll: DuePoll | None) -> str:
        assert poll is not None
        due = {ref.queue: round(1000 * (at_s - self.now_s)) for ref, at_s in poll.due_s.items()}
        origin = "of a snapshot" if poll.is_from_snapshot else "of a poll"
        return f"due in {due} ms, next in {poll.next_poll_s - self.now_s:.3f} s, {origin}"


def polls(redis: Redis) -> Iterator[str]:
    for in_ms in (-DAY_MS - 1, -DAY_MS, -0.5, 0, 0.5, 1, 9_999, 9_999.5, 10_000, 10_001):
        redis.in_ms = {0: in_ms}
        yield f"due in {in_ms}: {redis.describe(DueTimes(NATIVE).poll(None, 'dispatch', REFS[:1]))}"
    redis.in_ms = {}
    for durations_s in ((0.0, 0.0), (0.04, 0.06), (0.06, 0.05), (0.06, 0.07), (0.0, 0.2)):
        heads = DueTimes(NATIVE)
        for redis.duration_s in durations_s:
            redis.now_s += 100
            poll = heads.poll(None, "dispatch", REFS)
        yield f"polls of {durations_s} s: {redis.describe(poll)}"
    redis.duration_s = 0.0
    for passed_s in (0.0, 0.999, 1.0, 1.001):
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        before = heads.poll(None, "dispatch", REFS)
        redis.now_s += passed_s
        yield f"after {passed_s} s: a new poll {heads.poll(None, 'dispatch', REFS) is not before}"
    for refs in (REFS, REFS[:], REFS[:5]):
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        before = heads.poll(None, "dispatch", REFS)
        is_new = heads.poll(None, "dispatch", refs) is not before
        yield f"{'the same list' if refs is REFS else 'another list'} of {len(refs)} queues: a new poll {is_new}"
    for passed_s in (2.999, 3.0, 3.001):
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        before = heads.poll(None, "reap", REFS)
        redis.now_s += passed_s
        heads.poll(None, "dispatch", REFS)
        yield f"a verb requested {passed_s} s ago: a new poll {heads._polls['reap'] is not before}"


def plans() -> Iterator[str]:
    for number in (0, 1, 19, 20, 21, 39, 40, 41):
        heads = DueTimes(NATIVE)
        coverages = {verb: heads._find_covered_queues(verb, REFS[:number]) for verb in ("dispatch",)}
        plan = heads._build_poll_plan(coverages)
        yield f"{number} queues: {len(plan.refs)} keys in commands of {[group[:4] for group in plan.groups]}"


def snapshots(redis: Redis) -> Iterator[str]:
    def queue(in_ms: int | None) -> Queue:
        return Queue("q0", "native", (Count("scheduled", State.SCHEDULED, 1),), NOW_MS, next_due_ms=in_ms)

    for in_ms in (None, -1, 0, 9_999, 10_000, 10_001):
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        heads.poll(None, "dispatch", REFS[:1])
        heads.use_snapshot_counts({REFS[0]: queue(in_ms)})
        yield f"a snapshot, due in {in_ms}: {redis.describe(heads._polls['dispatch'])}"
    for passed_s in (2.999, 3.0, 3.001):
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        heads.poll(None, "dispatch", REFS[:1])
        redis.now_s += passed_s
        heads.use_snapshot_counts({REFS[0]: queue(5)})
        yield f"a snapshot {passed_s} s after a poll: {redis.describe(heads._polls['dispatch'])}"
        redis.now_s, heads = 1000.0, DueTimes(NATIVE)
        heads.poll(None, "dispatch", REFS[:1])
        heads.use_snapshot_counts({REFS[0]: queue(5)})
        redis.now_s += passed_s
        yield f"a poll {passed_s} s after a snapshot: {redis.describe(heads.poll(None, 'dispatch', REFS[:1]))}"


def counted_scores() -> Iterator[str]:
    """Yield the due times of a system whose verb takes jobs from places with these scores."""
    ref = Ref("any", "a")
    coverage = due_times._Coverage([ref], {ref: None})
    for scores in (("due ms",), ("deadline ms",), ("due ms", "deadline ms"), ("forget ms",), ("due ms", "forget ms")):
        places = [SimpleNamespace(name=score.split()[0], score=score) for score in scores]
        for forgets, place in (((), "forget"), (("forget",), "done"), (("forget",), "forget")):
            given = (Count(place, State.DONE, 1),)
            script = SimpleNamespace(sources=[place.name for place in places], forgets=forgets)
            stored = [*places, SimpleNamespace(name="forget", score="forget ms")]
            systems: Mapping[str, Any] = {"any": SimpleNamespace(script=lambda _, it=script: it, places=stored)}
            queue = Queue("a", "any", given, NOW_MS, next_due_ms=7, next_expiry_ms=5)
            due = due_times._extract_due_times_of_snapshot(systems, "reap", coverage, {ref: queue})
            yield f"{scores}, forgets {forgets}, counts {place}: {due and [*due.values()]}"


def test_due_times_match_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    redis = Redis(monkeypatch)
    lines = (line for part in (polls(redis), plans(), snapshots(redis), counted_scores()) for line in part)
    assert_lines_match_file(lines, KEPT)
