"""The texts about the time during which Pub/Sub events were received."""

from __future__ import annotations

from families import run_in_one_test

from rqtui.model import EventCoverage
from rqtui.text import event_coverage

NOW_MS = 1_800_000_000_000


@run_in_one_test(
    "coverage, text, empty_place",
    [
        (EventCoverage(), "no Pub/Sub events are received", "no Pub/Sub event was received so far"),
        (EventCoverage(problem="denied"), "no Pub/Sub events: denied", "no Pub/Sub events: denied"),
        (EventCoverage(0), "from Pub/Sub events since START", "nothing from Pub/Sub events since START"),
        (EventCoverage(0, 1_000), "from Pub/Sub events since START, 1s missed", ""),
        (EventCoverage(0, 0, 1), "from Pub/Sub events since START, 1 message dropped", ""),
        (
            EventCoverage(0, 2_000, 3, "lost"),
            "from Pub/Sub events since START, 2s missed, 3 messages dropped, no events now: lost",
            "",
        ),
    ],
)
def test_missed_and_dropped_events_are_named(coverage: EventCoverage, text: str, empty_place: str) -> None:
    start = event_coverage.format_start_time(0, NOW_MS)
    assert event_coverage.describe_event_coverage(coverage, NOW_MS) == text.replace("START", start)
    if empty_place:
        found = event_coverage.describe_empty_event_place(coverage, NOW_MS)
        assert found == empty_place.replace("START", start)


def test_a_command_that_does_not_listen_names_the_places_that_it_cannot_count() -> None:
    note = event_coverage.explain_missing_event_coverage("celery", ["running", "failed"])
    assert note.startswith("celery only publishes these jobs (running, failed), and this command does not listen")
    assert event_coverage.describe_cached_event_jobs(1_000, 5_000).replace("\N{NARROW NO-BREAK SPACE}", " ") in (
        "the last 1 000 of 5 000", "the last 1000 of 5000",
    )  # fmt: skip
