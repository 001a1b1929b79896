"""Test which earlier appearances of a finding, and which reactions to it, the report of an incident shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqtui.model import Finding, Queue, Ref
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import incident_page
from rqtui.reports.incident import (
    DAY_MS,
    MAX_PRECEDENTS,
    REACTION_MS,
    EndedFinding,
    Incident,
    build_past_incident,
    find_end_ms,
    find_precedents,
    find_same_finding,
    put_finding_first,
)
from rqtui.reports.incident_page import build_page_lines

REF = Ref("native", "mail")
NOW = 1_800_000_000_000


def find(
    sightings: list[Sighting], operations: list[Operation], since_ms: int = NOW - 60_000, kind: str = "failing"
) -> list[tuple[int, list[str], int | None]]:
    queue = Queue("mail", "native", findings=(Finding(kind, "critical", "mail", "55 % fail", since_ms=since_ms),))
    found = find_precedents(REF, queue, NOW, operations, sightings)
    return [(each.sighting.at_ms, [change.verb for change in each.changes], each.ended_ms) for each in found]


def sighting(at_ms: int, *, is_over: bool = False, queue: str = "mail", kind: str = "failing") -> Sighting:
    return Sighting(at_ms, queue, "native", kind, "critical", "40 % fail", is_over)


def operation(at_ms: int, verb: str = "requeue", queue: str = "mail") -> Operation:
    return Operation(at_ms, "ann", verb, queue, "native", began_ms=at_ms)


def test_a_reaction_within_an_hour_is_shown_with_the_end_of_the_finding() -> None:
    began = NOW - DAY_MS
    sightings = [sighting(began), sighting(began + 900_000, is_over=True)]
    operations = [operation(began + REACTION_MS), operation(began + 1, "release")]
    assert find(sightings, operations) == [(began, ["release", "requeue"], began + 900_000)]


def test_a_change_that_is_no_reaction_is_left_out() -> None:
    began = NOW - DAY_MS
    assert find([sighting(began)], [operation(began + REACTION_MS + 1), operation(began - 1)]) == []
    assert find([sighting(began)], [operation(began + 1, queue="other")]) == []
    assert find([sighting(began, queue="other")], [operation(began + 1)]) == []
    assert find([sighting(began, kind="paused")], [operation(began + 1)]) == []
    assert find([sighting(began, is_over=True)], [operation(began + 1)]) == []


def test_the_present_appearance_is_no_precedent() -> None:
    since_ms = NOW - 10 * 60_000
    assert find([sighting(since_ms - REACTION_MS)], [operation(since_ms - REACTION_MS + 1)], since_ms) == []
    earlier = since_ms - REACTION_MS - 1
    assert find([sighting(earlier)], [operation(earlier + 1)], since_ms) == [(earlier, ["requeue"], None)]


def test_the_newest_precedents_are_listed_first_and_their_number_is_bounded() -> None:
    starts = [NOW - day * DAY_MS for day in range(9, 1, -1)]
    found = find([sighting(at_ms) for at_ms in starts], [operation(at_ms + 5) for at_ms in reversed(starts)])
    assert [at_ms for at_ms, _changes, _ended in found] == starts[::-1][:MAX_PRECEDENTS]


def test_a_queue_without_findings_has_no_precedents() -> None:
    assert [*find_precedents(REF, Queue("mail", "native"), NOW, [operation(1)], [sighting(1)])] == []


A, B = Finding("failing", "critical", "mail", "55 % fail"), Finding("paused", "info", "mail", "paused")
C, D = (Finding("wrong-type", "critical", "mail", "another type", keys=(key,)) for key in "cd")


def test_the_report_is_about_the_finding_that_is_put_first() -> None:
    queue = Queue("mail", "native", findings=(A, C, D, B))
    assert put_finding_first(queue, B).findings == (B, A, C, D)
    began = NOW - DAY_MS
    sightings = [sighting(began, kind="paused"), sighting(began)]
    found = find_precedents(REF, put_finding_first(queue, B), NOW, [operation(began + 1)], sightings)
    assert [each.sighting.kind for each in found] == ["paused"]


def test_a_finding_is_found_again_by_its_kind_and_its_keys() -> None:
    queue = Queue("mail", "native", findings=(A, C, D))
    assert find_same_finding(queue, replace(D, text="since an hour")) == D
    assert find_same_finding(queue, replace(D, keys=("e",))) == C
    assert find_same_finding(queue, B) is None


def test_the_end_of_a_finding_is_known_only_if_its_last_record_is_its_end() -> None:
    sightings = [sighting(1), sighting(2, is_over=True)]
    assert find_end_ms(REF, "failing", sightings) == 2
    assert find_end_ms(REF, "failing", [*sightings, sighting(3)]) is None
    assert find_end_ms(REF, "paused", sightings) is None


def test_the_page_reports_a_finding_that_is_over_and_continues_with_the_worst_one() -> None:
    report = build_past_incident(Queue("mail", "native", findings=(A,)), NOW, (), (), ())
    lines = [*build_page_lines(replace(report, ended=EndedFinding(B, None)), "mail", ())]
    at = lines.index("findings")
    assert lines[at + 1 : at + 4] == [
        "  over      paused",
        "            when it ended is unknown; the page is about the worst finding now",
        "  critical  55 % fail",
    ]
    report = build_past_incident(Queue("mail", "native"), NOW, (), (), ())
    lines = [*build_page_lines(replace(report, ended=EndedFinding(B, NOW - 60_000)), "mail", ())]
    assert lines[at + 2].startswith("            it ended at ") and lines[at + 3] == "  none"


@pytest.mark.parametrize(
    ("recorded_ms", "known_ms", "line"),
    [
        (NOW - 60_000, NOW - 5_000, "(1m00), as far as is known"),
        (None, NOW - 5_000, "(5s), as far as is known"),
        (None, None, "unknown: no earlier look at this queue is recorded"),
    ],
)
def test_a_finding_began_when_it_was_recorded_first_else_when_it_says(
    recorded_ms: int | None, known_ms: int | None, line: str
) -> None:
    queue = Queue("mail", "native", findings=(Finding("failing", "warning", "mail", "fails", since_ms=known_ms),))
    report = Incident(Ref("native", "mail"), NOW, queue, recorded_begin_ms=recorded_ms)
    [since, course] = incident_page._build_course_lines(report, 80, 5)
    assert line in since and course == "  nothing is recorded or counted per minute of this queue"
