"""Parse points in time of the past, and open the recording of a Redis."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from rqtui.cli.past import parse_past_time
from rqtui.errors import UsageError


def test_a_time_has_a_zone_or_is_local_and_a_duration_is_ago() -> None:
    at_ms = 1_764_000_000_000
    moment = datetime.fromtimestamp(at_ms / 1000)
    assert parse_past_time(moment.isoformat(), "--at") == at_ms
    assert parse_past_time("2025-11-24T16:00Z", "--at") == at_ms == parse_past_time("2025-11-24 17:00+01:00", "--at")
    now_ms = time.time() * 1000
    assert now_ms - 7_200_000 <= parse_past_time("2h", "--at") + 1 <= time.time() * 1000 - 7_200_000 + 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("yesterday", "--at cannot be 'yesterday'"),
        ("2025-13-01", '"2025-13-01" is no time; write 2026-11-27T12:30'),
        ("12:30", '"12:30" is no time'),
        ("2200-01-01T00:00Z", "is in the future"),
        ("1960-01-01T00:00Z", "lies between 1970 and 2255"),
        ("-5m", "is no time"),
        ("", "--at cannot be ''"),
    ],
)
def test_what_is_no_time_of_the_past_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        parse_past_time(text, "--at")
