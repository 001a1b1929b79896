"""Test the findings above the rows of a board: the problem, its evidence, and the keys that help."""

from __future__ import annotations

import pytest

from rqtui.model import Finding, Queue, Verdict
from rqtui.tui.widgets import findings, frame

FAILING = Finding("failing", "critical", "q", "51 % of attempts fail", key="e", detail="mostly HTTPStatusError 410")
LATE = Finding("expired", "warning", "q", "50 leases expired", ". starts the reaper", key="w .")
OLD = Finding("oldest-ready", "warning", "q", "the oldest ready job waits for 9 m", "add workers, w shows them")


def format_findings(queue: Queue, most: int, width: int = 120) -> list[tuple[str, str]]:
    return [(left.plain, right.plain) for left, right in findings.format_findings(queue, most, width)]


def test_a_finding_names_its_cause_and_at_the_right_the_keys_that_help() -> None:
    queue = Queue("q", "s", findings=(FAILING, LATE))
    first, second = format_findings(queue, 3)
    assert first == ("● 51 % of attempts fail  mostly HTTPStatusError 410", "e errors")
    assert second == ("● 50 leases expired", "w workers   . reaper")


def test_a_finding_without_a_key_says_its_remedy() -> None:
    assert format_findings(Queue("q", "s", findings=(OLD,)), 3) == [
        ("● the oldest ready job waits for 9 m: add workers, w shows them", "")
    ]


def test_a_remedy_without_room_behind_its_finding_stands_below_it_whole_or_is_not_begun() -> None:
    queue = Queue("q", "s", findings=(OLD, OLD))
    text = f"● {OLD.text}"
    for width in range(40, 120):
        for below in (0, 1, 2):
            made = [left for left, _right in findings.format_findings(queue, 1, width, max_extra_lines=below)]
            said = " ".join(line.plain.strip() for line in made)
            assert max(line.cell_length for line in made) <= width and len(made) <= 1 + below
            begun = made[0].plain.removesuffix(" · and 1 finding more")
            assert begun.endswith(OLD.remedy) or begun.rstrip("…").strip() in text, "no part of it"
            assert OLD.remedy in said or len(made) == 1
        shown = "".join(piece.text for piece in findings.format_worst_finding((OLD,), width))
        assert shown.endswith(OLD.remedy) or shown.rstrip("…").strip() in text
    assert [left.plain for left, _right in findings.format_findings(queue, 2, 60, max_extra_lines=1)] == [
        text,
        f"  {OLD.remedy}",
        text,
    ]


def test_without_room_for_all_the_last_line_counts_the_others() -> None:
    queue = Queue("q", "s", findings=(FAILING, LATE, OLD))
    assert [left for left, _right in format_findings(queue, 1)] == [
        "● 51 % of attempts fail  mostly HTTPStatusError 410 · and 2 findings more"
    ]


def test_a_queue_without_findings_says_its_verdict() -> None:
    assert format_findings(Queue("q", "s"), 3) == [("● ok", "")]
    assert format_findings(Queue("q", "s", verdict=Verdict("unknown", "nobody can know")), 3) == [
        ("● nobody can know", "")
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    long = Finding("x", "critical", "q", "a name that goes on " * 12, key="e w", detail="and a cause " * 9)
    for left, right in findings.format_findings(Queue("q", "s", findings=(long, FAILING)), 1, width):
        assert left.cell_length + 1 + right.cell_length <= width


def test_a_click_on_a_key_of_a_finding_presses_it() -> None:
    ((left, right),) = findings.format_findings(Queue("q", "s", findings=(FAILING,)), 1, 120)
    line = frame.align_sides(left, right, 120)
    assert frame.find_key_at_cell(line, line.plain.index("errors")) == "e"
    assert not frame.find_key_at_cell(line, 5)


def test_in_a_frame_the_worst_stands_with_its_key_and_how_many_more_there_are() -> None:
    said = "".join(piece.text for piece in findings.format_worst_finding((FAILING, LATE), 50))
    assert said == "● 51 % of attempts fail · e +1"
    assert len("".join(piece.text for piece in findings.format_worst_finding((FAILING, LATE), 20))) <= 20
    assert findings.format_worst_finding((), 50) == []


def test_of_the_verbs_on_one_key_that_is_named_which_the_remedy_names() -> None:
    finding = Finding("left-in-paused", "critical", "q", "2 left in paused", "rqtui act resume q moves them", key="P")
    assert format_findings(Queue("q", "s", findings=(finding,)), 3)[0][1] == "P resume"
