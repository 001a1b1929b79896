"""What the preview of a queue shows at each bound of its size and of its data: `previews_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/widgets/test_previews_at_bounds.py` writes the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import describe
from kept_text import assert_lines_match_file, utc_time_zone
from textual.content import Content

from rqtui.engine.history import History
from rqtui.model import Count, Finding, Job, Queue, Rate, RecentActivity, Ref, State, Verdict, Worker
from rqtui.recording.records import ErrorCount
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.widgets import queue_preview
from rqtui.tui.widgets.queue_preview import DeathCause, DeathCauses, QueueDetails

KEPT = Path(__file__).with_name("previews_at_bounds.txt")
MINUTE_MS = 60_000
NOW_MS = 1_800_000_000_000 // MINUTE_MS * MINUTE_MS + 30_000
MAIL = Ref("native", "mail")
COUNTS = (
    Count("ready", State.READY, 6), Count("scheduled", State.SCHEDULED, 0), Count("reserved", State.RESERVED, 1),
    Count("done", State.DONE, 80, False), Count("dead", State.DEAD, 100_000),
)  # fmt: skip
QUEUE = Queue("mail", "native", COUNTS, NOW_MS, workers=2, oldest_ready_ms=90_000, verdict=Verdict("ok", "fine"))
FINDING = Finding("failing", "critical", "mail", "51 % of the attempts fail", "look at the errors", key="e")
RATE = Rate(2.0, 3.5, history=(1.0, 0.0, 4.0), window_ms=MINUTE_MS, recent=RecentActivity(300_000, 9, 1))


def build_history(*minutes: tuple[int, int, int, int], **fields: Any) -> History:
    """Return the counters of a queue: for each minute (minutes ago, enqueued, acked, failed), cumulative."""
    total: Counter[str] = Counter()
    kept = {}
    for ago, enqueued, acked, failed in sorted(minutes, reverse=True):
        kept[NOW_MS // MINUTE_MS * MINUTE_MS - ago * MINUTE_MS] = dict(total)
        total.update(enqueued=enqueued, acked=acked, rejected=failed)
    return History(MAIL, dict(total) or {"enqueued": 0}, kept, **fields)


HISTORY = build_history((70, 9, 9, 9), (59, 5, 2, 1), (30, 9, 40, 0), (1, 3, 2, 2), (0, 4, 3, 1))


def write_lines(lines: Sequence[Content]) -> Iterator[str]:
    yield from (f"  |{line.plain.rstrip()}" for line in lines)


def describe_sizes() -> Iterator[str]:
    """Yield a preview at each height, for a queue with and without findings, history and bars."""
    details = {
        "counted": QueueDetails(QUEUE, RATE, NOW_MS, HISTORY),
        "awaited": QueueDetails(QUEUE, RATE, NOW_MS, is_history_awaited=True),
        "polls": QueueDetails(QUEUE, RATE, NOW_MS),
        "failing": QueueDetails(
            QUEUE._replace(findings=(FINDING,) * 8, verdict=Verdict("critical", "fails")), RATE, NOW_MS, HISTORY
        ),
    }
    for title, each in details.items():
        for height in (*range(17), 24, 25, 26, 33):
            lines = queue_preview.build_queue_preview(each, 70, height)
            signs = " ".join(line.plain.split(" ")[0] or "·" for line in lines)
            found = len(queue_preview.build_preview_findings(each, 70, height))
            yield f"{title} in {height} rows: {len(lines)} {found} {signs}"
        for width in (30, 70):
            yield f"{title} in {width} cells"
            yield from write_lines(queue_preview.build_queue_preview(each, width, 15, 1, ascii_only=width == 30))
            yield from write_lines(queue_preview.build_queue_preview(each, width, 8, 1, ascii_only=width == 30))


def describe_trends() -> Iterator[str]:
    """Yield the plot and the one line that replaces it, for each kind of history."""
    histories: dict[str, dict[str, Any]] = {
        "nothing": {"history": build_history()},
        "nothing but starts": {"history": History(MAIL, {"acked": 0}, {NOW_MS - 90_000: {"acked": 0}})},
        "ended": {"history": HISTORY},
        "one ended": {"history": build_history((30, 0, 1, 0))},
        "failed only": {"history": build_history((30, 0, 0, 5), (29, 0, 0, 1))},
        "this minute": {"history": build_history((0, 1, 9, 3))},
        "none ended": {"history": build_history((30, 7, 0, 0), (2, 3, 0, 0))},
        "a later minute": {"history": build_history((-2, 7, 3, 0))},
        "no flows": {"history": History(MAIL, {})},
        "polls": {},
        "quiet polls": {"rate": Rate(history=(0.0, 0.0))},
        "one poll": {"rate": Rate(history=(2.0,))},
        "no polls": {"rate": Rate()},
        "recorded": {"rate": Rate(), "is_recorded": True},
        "changed": {
            "history": HISTORY,
            "changes": tuple(
                RecentEvent(NOW_MS / 1000 - ago_s, "requeue", MAIL, "w" * length)
                for ago_s, length in ((0, 29), (3600, 31), (1800, 40), (3700, 1))
            ),
        },
        "changed first": {
            "history": HISTORY,
            "changes": (RecentEvent(NOW_MS / 1000 - 900, "delete", MAIL, "one"),
                        RecentEvent(NOW_MS / 1000 - 901, "requeue", MAIL, "two")),
        },
    }  # fmt: skip
    for title, fields in histories.items():
        details = QueueDetails(**{"queue": QUEUE, "rate": RATE, "now_ms": NOW_MS, **fields})
        for width, ascii_only in ((20, True), (60, False), (140, False)):
            yield f"{title} in {width}: {describe(queue_preview._format_trend_line(details, width, ascii_only))}"
        for width, height, ascii_only in ((40, 4, False), (30, 5, True), (66, 6, False)):
            yield f"{title}, plotted in {width} x {height}"
            for line in queue_preview.build_queue_plot(details, width, height, ascii_only=ascii_only):
                yield f"  |{line.plain}"
            yield f"  {line.markup.strip()}"
        yield f"{title}, rates: {queue_preview.format_rates_line(details, 110).plain.rstrip()}"
    for ready, rate in (
        (6, Rate(1.0, 2.0)),
        (6, Rate(2.0, 2.0)),
        (0, Rate(1.0, 2.0)),
        (6, Rate(0.0, 0.0, recent=RecentActivity(300_000, 5, 0), window_ms=300_000)),
    ):
        details = QueueDetails(QUEUE._replace(counts=(Count("ready", State.READY, ready),)), rate, NOW_MS)
        yield f"rates of {ready}: {describe(queue_preview.format_rates_line(details, 90))}"


def build_workers(number: int, late: int, name: str = "worker-%d") -> tuple[Worker, ...]:
    return tuple(
        Worker(name % at, "mail", NOW_MS - (90_000 if at < late else 0), 60_000) for at in range(number)
    )  # fmt: skip


def describe_places() -> Iterator[str]:
    """Yield the summary, the bars and the workers of queues."""
    for changes in (
        {},
        {"error": "WRONGTYPE"},
        {"oldest_ready_ms": None},
        {"next_due_ms": 0, "next_expiry_ms": 0},
        {"next_due_ms": 5_000, "next_expiry_ms": 7_000, "overdue": 1, "expired": 1},
        {"overdue": 2, "expired": 2},
        {"counters": {"dead_max": 1}},
        {"counters": {"dead_max": 100_000_000}},
        {"workers": None},
        {"workers": 0},
        {"counts": ()},
        {"counts": (Count("dead", State.DEAD, 0), Count("ready", State.READY, 0))},
        {"counts": (Count("a long place", State.DEAD, 1), Count("日本", State.READY, 3, False),
                    Count("waits", State.SCHEDULED, -1))},
    ):  # fmt: skip
        details = QueueDetails(QUEUE._replace(**changes), RATE, NOW_MS)
        for width in (10, 40):
            yield f"{describe(changes)} in {width}"
            yield from write_lines(queue_preview._format_places_summary(details, width))
            bars = queue_preview._format_place_bars(details, width) if "counts" in changes or not changes else []
            yield from (f"  {describe(bar)}" for bar in bars)
    for number, late in ((0, 0), (1, 0), (1, 1), (2, 1), (12, 0), (13, 0), (13, 13), (26, 13)):
        for name in ("w%d", "worker-of-a-long-name-in-eu-west-%d"):
            details = QueueDetails(
                QUEUE._replace(workers=number), RATE, NOW_MS, None, build_workers(number, late, name)
            )
            texts = {queue_preview._format_worker_names(details, width): width for width in range(400, 20, -1)}
            yield from (f"{number} workers, {late} late, from {width}: {text}" for text, width in texts.items())


CAUSE = DeathCause(
    "e1", "CardDeclined: the bank said no", "charge.py:88", 3, NOW_MS - 90_000, NOW_MS - 60_000, "charge_card"
)


def describe_causes() -> Iterator[str]:
    """Yield titles and lines of causes of death, in full and cut."""
    yield f"no causes: {DeathCauses()}"
    for fields in (
        {},
        {"dead": 3, "read": 2},
        {"dead": 3, "read": 3},
        {"dead": 1, "read": 1, "retrying": 0},
        {"dead": 3, "read": 3, "retrying": 2},
        {"dead": 3, "read": 1, "retrying": 1},
        {"is_recorded": True, "read": 1},
    ):
        for ago_ms in (0, 59_999, 60_000, 90_000_000):
            causes = DeathCauses((CAUSE,), taken_ms=NOW_MS - ago_ms, **fields)
            yield (
                f"{fields} {ago_ms}: {causes.is_complete} {queue_preview.format_causes_title(causes, NOW_MS)!r} "
                f"{queue_preview.format_causes_title(causes._replace(causes=()), NOW_MS)!r}"
            )
    others = (
        CAUSE,
        replace(CAUSE, id="e2", text="", frame="", first_ms=None, last_ms=None, kind="", jobs=1_234_567),
        replace(CAUSE, id="e3", text="Timeout " * 9, last_ms=None),
    )
    for number in range(4):
        for width in (10, 18, 40):
            for height in (0, 1, 2, 3, 5, 6, 12, 20):
                lines = queue_preview.format_causes_of_death(others[:number], NOW_MS, width, height)
                shape = [len(line.plain) for line in lines]
                yield f"{number} causes in {width} x {height}: {shape} {lines[-1].plain.strip() if lines else ''}"
    yield from (
        f"  {describe(line)}" for line in queue_preview.format_causes_of_death(others, NOW_MS, 44, 20)
    )  # fmt: skip
    merged = queue_preview.merge_causes_of_death(
        (
            DeathCauses((CAUSE, others[1]), 4, 4, NOW_MS - 5, 2),
            DeathCauses(
                (replace(CAUSE, jobs=1_234_565, first_ms=NOW_MS - 99_000, last_ms=None), others[2]), 1, 1, NOW_MS
            ),
            DeathCauses((replace(others[1], jobs=0, first_ms=5, last_ms=7),), 1, 1, NOW_MS),
        ),
        9,
    )
    yield f"merged: {describe(merged)}"
    yield f"merged none: {describe(queue_preview.merge_causes_of_death((), 0))}"
    recorded = [ErrorCount(MAIL, 0, "TimeoutError", 25), ErrorCount(MAIL, 0, "KeyError", 5)]
    yield f"recorded: {describe(queue_preview.collect_recorded_causes(recorded, 7))}"
    job = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", name="send", error="KeyError: 'a'", since_ms=NOW_MS)
    jobs = [
        job,
        replace(job, id=b"j2", name="post"),
        replace(job, id=b"j3", name="post"),
        replace(job, id=b"j4", name="", error="Boom"),
    ]
    sample: Any = SimpleNamespace(list_jobs=lambda: jobs, dead=9)
    yield f"grouped: {describe(queue_preview.group_causes_of_death(sample, NOW_MS))}"


def describe_groups() -> Iterator[str]:
    """Yield the preview of a group of queues at each height: totals, verdicts worst first, and the rest as a number."""
    severities = ("ok", "warning", "critical", "unknown", "info", "warning", "ok", "ok")
    queues = [
        QUEUE._replace(
            name=f"q{at}" if at % 2 else f"queue-of-a-long-name-{at}" * 2, verdict=Verdict(each, f"{each} " * 9)
        )
        for at, each in enumerate(severities)
    ]
    totals = QueueDetails(QUEUE, RATE, NOW_MS, HISTORY)
    for number in (1, 6, 7, 8):
        for height in (*range(20), 31):
            lines = queue_preview.build_group_preview(totals, queues[:number], 80, height)
            yield f"{number} queues in {height} rows: {len(lines)} " + " ".join(
                (line.plain.split() or ["·"])[0] for line in lines
            )
    for width in (20, 44, 60, 120):
        yield f"8 queues in {width}"
        yield from write_lines(queue_preview.build_group_preview(totals, queues, width, 24, ascii_only=width == 44))
    yield f"styles {[describe(queue_preview._format_verdict(queue, 60)) for queue in queues]}"


@pytest.mark.slow
def test_previews_at_their_bounds_match_the_stored_text() -> None:
    parts = (describe_sizes, describe_trends, describe_places, describe_causes, describe_groups)
    with utc_time_zone():
        assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
