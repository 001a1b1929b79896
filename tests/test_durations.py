"""Durations and instants: what is understood, and that everything else gets a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from families import run_in_one_test

from rqtui.durations import compute_reconnect_delay_s, parse_duration, parse_duration_range, parse_instant
from rqtui.errors import UsageError


@run_in_one_test(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1.5h", 5_400_000),
        (" 90 s ", 90_000),
        ("90", 90_000),
        (90, 90_000),
        (0.25, 250),
        (0, 0),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_a_duration_is_milliseconds_seconds_minutes_hours_days_or_plain_seconds(text: object, ms: int) -> None:
    assert parse_duration(text) == ms  # type: ignore[arg-type]


@run_in_one_test(
    "value",
    ["", "soon", "1 week", "1h30m", "-5s", "1e3", "²", "0x10", "nan", -1, float("nan"), float("inf"), 1e300, 10**400]
    + ["200000d", True, None, b"5s", [], timedelta(seconds=-1), timedelta.max],
)
def test_a_value_that_is_no_duration_gets_a_sentence(value: object) -> None:
    with pytest.raises(UsageError, match=r"^the delay .*\.$"):
        parse_duration(value, "the delay")  # type: ignore[arg-type]


YEARS_100_MS = 100 * 366 * 86_400_000
LAST_INSTANT_MS = 9_007_199_254_740


@run_in_one_test(
    ("value", "ms"),
    [
        (YEARS_100_MS / 1000, YEARS_100_MS), (f"{YEARS_100_MS - 1}ms", YEARS_100_MS - 1), ("36600d", YEARS_100_MS),
        (f"{YEARS_100_MS + 1}ms", None), ("36601d", None), (-0.0004, None), (0.0004, 0), (0.0006, 1), (-0.0, 0),
    ],
)  # fmt: skip
def test_a_duration_is_at_most_100_years_and_never_negative(value: float | str, ms: int | None) -> None:
    if ms is not None:
        assert parse_duration(value) == ms
        return
    with pytest.raises(UsageError, match=r"cannot be (negative|longer than 100 years), as "):
        parse_duration(value)


@run_in_one_test(("ms", "is_valid"), [(-1, False), (0, True), (LAST_INSTANT_MS, True), (LAST_INSTANT_MS + 1, False)])
def test_an_instant_is_between_1970_and_2255(ms: int, is_valid: bool) -> None:
    if is_valid:
        assert parse_instant(ms) == ms
        return
    with pytest.raises(UsageError, match="lies between 1970 and 2255"):
        parse_instant(ms)


def test_a_range_may_have_two_equal_ends() -> None:
    assert parse_duration_range("1s..1s") == (1000, 1000)
    with pytest.raises(UsageError, match="from the shorter wait to the longer one"):
        parse_duration_range("1001ms..1s")


def test_the_waits_of_a_reconnection_grow_from_1_to_13_seconds() -> None:
    assert [compute_reconnect_delay_s(failures) for failures in range(9)] == [1, 1, 2, 3, 5, 8, 13, 13, 13]


@pytest.mark.parametrize(("letters", "quoted"), [(58, "'" + "x" * 58 + "'"), (59, "'" + "x" * 58 + "…")])
def test_a_refused_value_is_quoted_with_up_to_60_characters(letters: int, quoted: str) -> None:
    with pytest.raises(UsageError, match=f"^the delay cannot be {quoted}: "):
        parse_duration("x" * letters, "the delay")


def test_a_range_has_one_end_or_two() -> None:
    assert parse_duration_range("1s..1h") == (1000, 3_600_000)
    assert parse_duration_range(("1s", 60)) == (1000, 60_000)
    assert parse_duration_range("2s") == (2000, None)


@run_in_one_test("value", ["1h..1s", "..", "1s..", "1s..2s..3s", ("1s",), (1, 2, 3), None])
def test_a_value_that_is_no_range_gets_a_sentence(value: object) -> None:
    with pytest.raises(UsageError, match=r"\.$"):
        parse_duration_range(value)  # type: ignore[arg-type]


def test_an_instant_is_an_aware_datetime_or_milliseconds_since_1970() -> None:
    assert parse_instant(datetime(2026, 12, 1, 8, tzinfo=UTC)) == 1_796_112_000_000
    assert parse_instant(1_796_112_000_000) == 1_796_112_000_000


@run_in_one_test(
    "value",
    [
        datetime(2026, 12, 1),
        datetime(9999, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        -1,
        2**60,
        True,
        1.5,
        "now",
    ],
)
def test_a_value_that_is_no_instant_gets_a_sentence(value: object) -> None:
    with pytest.raises(UsageError, match=r"^due .*\.$"):
        parse_instant(value)  # type: ignore[arg-type]
