"""Describe during which time rqtui received the Pub/Sub events of a system, as text for frames, tables and stderr."""

from __future__ import annotations

from collections.abc import Sequence

from rqtui.model import EventCoverage
from rqtui.text.formats import format_age, format_long_count, format_quantity, format_start_time


def describe_event_coverage(coverage: EventCoverage, now_ms: float) -> str:
    """Return since when Pub/Sub events are received and what was missed, or why none are received.

    An example is `from Pub/Sub events since 05:12, 14s missed`.
    """
    if coverage.since_ms is None:
        return f"no Pub/Sub events: {coverage.problem}" if coverage.problem else "no Pub/Sub events are received"
    missed = [f"{format_age(coverage.missed_ms)} missed"] if coverage.missed_ms else []
    missed += [f"{format_quantity(coverage.dropped, 'message')} dropped"] if coverage.dropped else []
    missed += [f"no events now: {coverage.problem}"] if coverage.problem else []
    return ", ".join([f"from Pub/Sub events since {format_start_time(coverage.since_ms, now_ms)}", *missed])


def describe_empty_event_place(coverage: EventCoverage, now_ms: float) -> str:
    """Return the text for a place without jobs, if its jobs are counted from Pub/Sub events."""
    if coverage.since_ms is None:
        return f"no Pub/Sub events: {coverage.problem}" if coverage.problem else "no Pub/Sub event was received so far"
    return f"nothing {describe_event_coverage(coverage, now_ms)}"


def explain_missing_event_coverage(system: str, places: Sequence[str]) -> str:
    """Return the note that a one-time command received no Pub/Sub events, so that jobs in `places` are not counted."""
    return (
        f"{system} only publishes these jobs ({', '.join(places)}), and this command does not listen: "
        "the screen listens, and so do `snapshot --watch` and `metrics --listen`."
    )


def describe_cached_event_jobs(listed: int, in_all: int) -> str:
    """Describe how many of the jobs seen in Pub/Sub events are still in memory: `the last 1 000 of 5 000`.

    Empty if all of them are.
    """
    return f"the last {format_long_count(listed)} of {format_long_count(in_all)}"
