"""Test findings that can be fixed only until a time: the remaining time is shown everywhere, and they come first."""

from __future__ import annotations

from mill_system import Mill, add_mill_jobs, mill
from redis import Redis
from shell import shell

from rqtui.cli import findings as shell_findings
from rqtui.engine.health import rules
from rqtui.engine.health.urgency import compute_queue_urgency
from rqtui.model import Count, Finding, Queue, State
from rqtui.text import formats
from rqtui.tui.format import queues
from rqtui.tui.widgets import findings

__all__ = ["mill"]  # a fixture
NOW_MS = 1_800_000_000_000


def test_the_remaining_time_is_shown_first_and_sorts_the_findings() -> None:
    def build_finding(kind: str, jobs: int, until_ms: int | None = None) -> Finding:
        return Finding(kind, "critical", "flour", f"{kind} is there", jobs=jobs, until_ms=until_ms)

    counts = (Count("ready", State.READY, 9),)
    faults = (
        build_finding("rain", 900),
        build_finding("mouse", 3, NOW_MS + 41_900),
        build_finding("rat", 9, NOW_MS + 90_000),
    )
    queue = rules.attach_findings(Queue("flour", "mill", counts, NOW_MS, workers=1, findings=faults))
    assert [one.kind for one in queue.findings] == ["mouse", "rat", "rain"]
    assert compute_queue_urgency(queue) > compute_queue_urgency(
        Queue("bran", "mill", counts, NOW_MS, findings=(build_finding("rain", 900),))
    )

    def format_texts(now_ms: int) -> tuple[str, str, str]:
        row = "".join(piece.text for piece in queues.build_verdict_pieces(queue, now_ms))
        (line,) = findings.build_finding_lines(queue, 1, 80, now_ms)
        (narrow_line,) = findings.build_finding_lines(queue, 1, 40, now_ms)
        return row, line.left.plain, narrow_line.left.plain

    for text in format_texts(NOW_MS):
        assert text.startswith("✕ 41s left  mouse is there"), text
    assert all(text.startswith("✕ 40s left") for text in format_texts(NOW_MS + 1_000)), "without another look"
    assert all(text.startswith("✕ too late") for text in format_texts(NOW_MS + 42_000))
    assert len(format_texts(NOW_MS)[2]) <= 40
    assert (formats.format_time_left(NOW_MS + 65_000, NOW_MS), formats.format_time_left(None, NOW_MS)) == (
        "1m05 left",
        "",
    )


def test_the_shell_shows_the_time_left_relative_to_the_time_of_its_snapshot() -> None:
    finding = Finding("mouse", "critical", "flour", "mice are there", "call the cat", until_ms=NOW_MS + 41_000)
    assert shell_findings.format_findings([finding], "flour", NOW_MS) == [
        "critical  flour: mice are there, 41s left · call the cat"
    ]
    left_ms = [
        shell_findings.build_finding_document(finding, "flour", "mill", now_ms)["left_ms"]
        for now_ms in (NOW_MS, NOW_MS + 42_000, None)
    ]
    assert left_ms == [41_000, 0, None]


def test_health_shows_until_when(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "deferred", "d1")
    s, _us = client.time()
    client.hset("mill:mice", "flour", (s + 3_600) * 1000)
    ran = shell(url, "--system", "mill", "health", "flour", "--json")
    [mouse] = [one for one in ran.json["findings"] if one["kind"] == "mouse"]
    assert ran.code == 2 and mouse["until_at_ms"] == (s + 3_600) * 1000 and 3_500_000 < mouse["left_ms"] <= 3_600_000
    assert " left  3 jobs stand" in shell(url, "--system", "mill", "snapshot").out
    text = shell(url, "--system", "mill", "health", "flour").out
    assert "3 jobs stand before a mouse, 59m" in text and " left · rqtui act delete" in text
