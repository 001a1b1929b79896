"""Test the findings above the rows of a board: the problem, its evidence, and the keys that help."""

from __future__ import annotations

import pytest

from rqtui.model import Finding, Queue, Verdict
from rqtui.tui.widgets import findings, frame

FAILING = Finding("failing", "critical", "q", "51 % of attempts fail", key="e", detail="mostly HTTPStatusError 410")
LATE = Finding("expired", "warning", "q", "50 leases expired", ". starts the reaper", key="w .")
OLD = Finding("oldest-ready", "warning", "q", "the oldest ready job waits for 9 min", "add workers")


def build_sides(queue: Queue, most: int, width: int, max_lines: int = 0) -> list[frame.Sides]:
    return [line.sides for line in findings.build_finding_lines(queue, most, width, 0, max_lines=max_lines)]


def format_findings(queue: Queue, most: int) -> list[tuple[str, str]]:
    return [(left.plain, right.plain) for left, right in build_sides(queue, most, 120)]


def test_a_finding_names_its_cause_and_at_the_right_the_keys_that_help() -> None:
    queue = Queue("q", "s", findings=(FAILING, LATE))
    first, second = format_findings(queue, 3)
    assert first == ("✕ 51 % of attempts fail, mostly HTTPStatusError 410", "e errors")
    assert second == ("▲ 50 leases expired", "w workers   . reaper")


def test_a_finding_without_a_key_shows_its_remedy() -> None:
    assert format_findings(Queue("q", "s", findings=(OLD,)), 3) == [
        ("▲ the oldest ready job waits for 9 min: add workers", "")
    ]


def test_a_sentence_is_wrapped_while_lines_are_left_and_then_loses_its_remedy() -> None:
    queue = Queue("q", "s", findings=(OLD, OLD))
    full = f"▲ {OLD.text}: {OLD.remedy} · 1 more finding"
    forms = (full, f"▲ {OLD.text} · 1 more finding", f"▲ {OLD.text}")
    for width in range(30, 120):
        for max_lines in (1, 2, 3):
            lines = [left for left, _right in build_sides(queue, 1, width, max_lines)]
            text = " ".join(line.plain.strip() for line in lines)
            assert max(line.cell_length for line in lines) <= width and len(lines) <= max_lines
            assert text in forms or (text.endswith("…") and max_lines == 1 and width < 50), (width, max_lines, text)
            assert text == full or max_lines < 3
    assert [left.plain for left, _right in build_sides(queue, 2, 48, max_lines=3)] == [
        f"▲ {OLD.text}: add",
        "  workers",
        f"▲ {OLD.text}",
    ]


def test_a_command_starts_a_line_rather_than_being_broken() -> None:
    remedy = "start a worker: rqtui work mail -- COMMAND"
    stuck = Finding("no-live-worker", "warning", "mail", "no worker is alive, and 2 jobs are ready", remedy, key="w")
    queue = Queue("mail", "native", findings=(stuck,))
    for width in range(46, 140):
        lines = [left.plain for left, _right in build_sides(queue, 1, width, max_lines=4)]
        assert any("rqtui work mail -- COMMAND" in line for line in lines), (width, lines)
    assert [left.plain for left, _right in build_sides(queue, 1, 76, max_lines=3)] == [
        "▲ no worker is alive, and 2 jobs are ready: start a worker:",
        "  rqtui work mail -- COMMAND",
    ]


def test_without_space_for_all_the_last_line_counts_the_others() -> None:
    queue = Queue("q", "s", findings=(FAILING, LATE, OLD))
    assert [left for left, _right in format_findings(queue, 1)] == [
        "✕ 51 % of attempts fail, mostly HTTPStatusError 410 · 2 more findings"
    ]


def test_a_queue_without_findings_shows_its_verdict() -> None:
    assert format_findings(Queue("q", "s"), 3) == [("✓ ok", "")]
    assert format_findings(Queue("q", "s", verdict=Verdict("unknown", "nobody can know")), 3) == [
        ("? nobody can know", "")
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    long = Finding("x", "critical", "q", "a name that goes on " * 12, key="e w", detail="and a cause " * 9)
    for left, right in build_sides(Queue("q", "s", findings=(long, FAILING)), 1, width):
        assert left.cell_length + 1 + right.cell_length <= width


def test_a_click_on_a_key_of_a_finding_presses_it() -> None:
    ((left, right),) = build_sides(Queue("q", "s", findings=(FAILING,)), 1, 120)
    line = frame.align_sides(left, right, 120)
    assert frame.find_key_at_cell(line, line.plain.index("errors")) == "e"
    assert not frame.find_key_at_cell(line, 5)


def test_a_shared_key_is_shown_with_the_verb_that_the_remedy_names() -> None:
    finding = Finding("left-in-paused", "critical", "q", "2 left in paused", "rqtui act resume q moves them", key="P")
    assert format_findings(Queue("q", "s", findings=(finding,)), 3)[0][1] == "P resume"


def build_lines_with_cursor(cursor: int, max_findings: int) -> list[tuple[str, str]]:
    queue = Queue("q", "s", findings=(FAILING, LATE, OLD))
    lines = findings.build_finding_lines(queue, max_findings, 80, 0, cursor=cursor)
    assert all(line.left.cell_length == 80 for line in lines if line.left.plain.startswith("▌"))
    return [(line.left.plain.strip(), line.finding.kind if line.finding else "") for line in lines]


def test_the_finding_under_the_cursor_is_shown_in_any_case_with_its_number() -> None:
    assert [kind for _text, kind in build_lines_with_cursor(1, 3)] == ["failing", "expired", "oldest-ready"]
    assert build_lines_with_cursor(1, 3)[1][0].startswith("▌ 50 leases expired")
    assert [kind for _text, kind in build_lines_with_cursor(1, 2)] == ["failing", "expired"]
    assert [kind for _text, kind in build_lines_with_cursor(2, 2)] == ["expired", "oldest-ready"]
    ((text, kind),) = build_lines_with_cursor(2, 1)
    assert text == "▌ the oldest ready job waits for 9 min: add workers · 3 of 3" and kind == "oldest-ready"


def test_the_key_of_the_finding_under_the_cursor_can_be_clicked() -> None:
    queue = Queue("q", "s", findings=(FAILING,))
    ((line, right, finding),) = findings.build_finding_lines(queue, 1, 80, 0, cursor=0)
    assert frame.find_key_at_cell(line, line.plain.index("e errors")) == "e"
    assert right.plain == "" and finding is FAILING
