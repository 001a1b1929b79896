"""Formats at the very numbers where the next unit, the next digit or the next way to cut begins."""

from __future__ import annotations

import pytest

from rqtui.text import formats

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "—"), (0, "0s"), (999, "0s"), (1000, "1s"), (59_999, "59s"), (60_000, "1m00"), (61_000, "1m01"),
        (3_599_999, "59m59"), (3_600_000, "1h00"), (3_660_000, "1h01"), (DAY_MS - 1, "23h59"), (DAY_MS, "1d"),
        (1000 * DAY_MS - 1, "999d"), (1000 * DAY_MS, "2.7y"), (99.9 * 365 * DAY_MS, "99.9y"),
        (100 * 365 * DAY_MS, "100y"), (5000 * 365 * DAY_MS, "999y"), (-999, "0s"), (-1000, "-1s"), (-4000, "-4s"),
    ],
)  # fmt: skip
def test_an_age(ms: float | None, text: str) -> None:
    assert formats.format_age(ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(9, "9s"), (10, "10s"), (19, "10s"), (59, "50s"), (60, "1m"), (3599, "59m"), (3600, "1h00")]
)
def test_a_coarse_age(seconds: int, text: str) -> None:
    formats.set_age_rounding(True)
    try:
        assert formats.format_age(seconds * 1000) == text
    finally:
        formats.set_age_rounding(False)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "—"), (0, "0 ms"), (1.4, "1.4 ms"), (9.96, "10.0 ms"), (10, "10 ms"), (10.4, "10 ms"), (3, "3 ms"),
        (999, "999 ms"), (1000, "1.0s"), (1449, "1.4s"), (9999, "10.0s"), (10_000, "10s"), (60_000, "1m00"),
    ],
)  # fmt: skip
def test_a_duration(ms: float | None, text: str) -> None:
    assert formats.format_duration(ms) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (None, "?"), (0, "0/s"), (312, "312/s"), (0.4, "0.4/s"), (9.94, "9.9/s"), (9.95, "10/s"), (9.96, "10/s"),
        (2, "2/s"), (2.5, "2.5/s"), (12_400, "12.4k/s"), (0.1, "0.1/s"), (0.0995, "0.1/s"), (0.0994, "6.0/m"),
        (0.02, "1.2/m"), (0.001, "3.6/h"), (1, "1/s"), (1 / 60, "1/m"), (-3, "-3/s"), (-2.5, "-2.5/s"),
    ],
)  # fmt: skip
def test_a_rate(per_second: float | None, text: str) -> None:
    assert formats.format_rate(per_second) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "—"), (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1023, "1 kB"), (1024, "1 kB"), (4200, "4.1 kB"),
        (99 * 1024, "99 kB"), (102_348, "99.9 kB"), (102_349, "100 kB"), (1024**2, "1 MB"), (31_457_280, "30 MB"),
        (999 * 1024, "999 kB"), (1000 * 1024, "1 MB"), (1024**5, "1 PB"), (5000 * 1024**5, "5000 PB"),
    ],
)  # fmt: skip
def test_a_size(number: int | None, text: str) -> None:
    assert formats.format_size(number) == text


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], None, ""), ([0, 0], None, "▁▁"), ([1, 6], None, "▂▇"), ([1, 2, 3, 4, 5, 6], None, "▂▃▄▅▆▇"),
        ([1, 2], 4, "  ▄▇"), ([9, 1, 7], 2, "▂▇"), ([1, 2], 0, ""), ([-1, 0, 1], None, "▁▁▇"), ([0.5], 1, "▇"),
        ([1, 1.001, 6], None, "▂▃▇"),
    ],
)  # fmt: skip
def test_a_sparkline(values: list[float], width: int | None, line: str) -> None:
    assert formats.build_sparkline(values, width) == line


@pytest.mark.parametrize(
    ("left_ms", "lease_ms", "bar"),
    [(0, 10, ("!===", "")), (-1, 10, ("!===", "")), (1, 10, ("=", "---")), (5, 10, ("==", "--")), (9, 10, ("====", "")),
     (10, 10, ("====", "")), (20, 10, ("====", "")), (1, 0, ("====", ""))],
)  # fmt: skip
def test_a_lease_bar(left_ms: float, lease_ms: float, bar: tuple[str, str]) -> None:
    assert formats.build_lease_bar(left_ms, lease_ms, 4, ascii_only=True) == bar


@pytest.mark.parametrize(
    ("text", "width", "align", "fitted"),
    [("abc", 3, "left", "abc"), ("abcd", 3, "left", "ab…"), ("ab", 3, "left", "ab "), ("ab", 3, "right", " ab"),
     ("ab", 5, "center", " ab  "), ("ab", 1, "left", "…"), ("ab", 0, "left", ""), ("日本", 3, "left", "日…"),
     ("", 2, "left", "  ")],
)  # fmt: skip
def test_a_cell(text: str, width: int, align: str, fitted: str) -> None:
    assert formats.fit_to_width(text, width, align) == fitted
    assert formats.fit_to_width("abc", 1, ellipsis="...") == " "


@pytest.mark.parametrize(
    ("id", "width", "shown"),
    [
        ("need_some_help_email_4711", 25, "need_some_help_email_4711"),
        ("need_some_help_email_4711", 24, "need_some_he…_email_4711"),
        ("need_some_help_email_4711", 12, "need_s…_4711"), ("need_some_help_email_4711", 11, "…email_4711"),
        ("need_some_help_email_4711", 2, "…1"), ("need_some_help_email_4711", 1, "…"),
        ("0192f3a0-7c2e-7abc-8def-0123456789ab", 20, "…c-8def-0123456789ab"),
        ("0123456789abcdef", 15, "…23456789abcdef"),
        ("0123456789abcde", 14, "0123456…9abcde"),
    ],
)  # fmt: skip
def test_an_id(id: str, width: int, shown: str) -> None:
    assert formats.shorten_job_id(id, width) == shown


def test_a_text_that_fits_exactly_keeps_its_middle() -> None:
    assert [formats.elide_middle("abcdef", width) for width in (7, 6, 5, 3)] == ["abcdef", "abcdef", "ab…ef", "a…f"]
