"""Formatting: what a person reads, and that nothing they read can command their terminal."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import unicodedata

import msgpack
import pytest
from families import run_in_one_test
from hypothesis import given
from hypothesis import strategies as st

from rqtui.text import formats
from rqtui.text.body import render_body
from rqtui.text.formats import cell_len
from rqtui.text.masking import MASK
from rqtui.text.sanitise import has_replacement_symbols, restore_unprintable_characters, safe

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u3164"

hostile = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200),
    st.text(st.sampled_from([*map(chr, range(0x00, 0xA1)), *BIDI, *ZERO_WIDTH, "\ud800", "é", "日", "❤", "\ufe0f"])),
)


def assert_harmless(text: str, allowed: str = "") -> None:
    for char in text:
        if char in allowed:
            continue
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), hex(ord(char))
        assert char not in BIDI + ZERO_WIDTH
    text.encode()  # no lone surrogate: stdout would raise


# ── safe ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(hostile, st.booleans())
def test_no_byte_of_data_can_be_a_control_sequence(data: str | bytes, ascii_only: bool) -> None:
    shown = safe(data, ascii_only)
    assert_harmless(shown)
    assert safe(shown, ascii_only) == shown


@run_in_one_test(
    ("data", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("a\x00b\x7f", "a␀b␡"),
        ("one\ntwo\tthree\r", "one⏎two⇥three␍"),
        ("\x9b31m", "‹009B›31m"),
        ("abc\u202egnp.exe", "abc‹202E›gnp.exe"),
        ("a\u200bb\ufeff", "a‹200B›b‹FEFF›"),
        (b"caf\xc3\xa9 \xff\xfe", "café \\xff\\xfe"),
        ("\udcff\ud800", "\\xff‹D800›"),
        ("\u2028", "⏎"),
        ("\u0301x", "◌\u0301x"),
        ("❤\ufe0f 👍🏽", "❤ 👍"),
        ("a\ufe0f", "a‹FE0F›"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("日本語 é", "日本語 é"),
    ],
)
def test_invisible_characters_are_shown_as_symbols(data: str | bytes, shown: str) -> None:
    assert safe(data) == shown


@run_in_one_test(
    ("typed", "meant"),
    [
        ("\\x80", "\udc80"),
        ("\\xff", "\udcff"),
        ("\\x7f", "\\x7f"),  # a byte of ASCII is never shown like that
        ("‹202E›", "\u202e"),
        ("<202E>", "\u202e"),
        ("‹10FFFF›", "\U0010ffff"),
        ("‹110000›", "‹110000›"),  # one beyond the last code point
        ("‹20E›", "‹20E›"),
        ("^[", "\x1b"),
        ("^@", "\0"),
        ("^?", "\x7f"),
        ("\\n", "\n"),
        ("\\t", "\t"),
        ("⏎", "\n"),
        ("⇥", "\t"),
        ("␀", "\0"),
        ("␟", "\x1f"),
        ("␡", "\x7f"),
        ("plain", "plain"),
    ],
)
def test_a_typed_symbol_means_the_character_that_it_stands_for(typed: str, meant: str) -> None:
    assert restore_unprintable_characters(typed) == meant
    assert has_replacement_symbols(typed) == (typed not in ("\\x7f", "‹20E›", "plain"))


def test_the_symbols_of_ascii_are_ascii() -> None:
    assert safe("\x1b[m\n\t\u202e\x9b", ascii_only=True) == "^[[m\\n\\t<202E><009B>"


def test_a_hundred_marks_on_one_letter_do_not_paint_over_the_neighbours() -> None:
    shown = safe("e" + "\u0301" * 100 + "x")
    assert shown == "e\u0301\u0301\u0301�x"


# ── numbers and times ────────────────────────────────────────────────────────────────────────────────────────

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@run_in_one_test(
    ("ms", "shown"),
    [
        (None, "—"),
        (0, "0s"),
        (-999, "0s"),
        (12 * SECOND, "12s"),
        (4 * MINUTE + 12 * SECOND, "4m12"),
        (5 * HOUR + 7 * MINUTE, "5h07"),
        (3 * DAY + 5 * HOUR, "3d"),
        (1000 * DAY, "2.7y"),
        (-4 * SECOND, "-4s"),
        (-(23 * HOUR + 59 * MINUTE), "-23h59"),
    ],
)
def test_an_age_is_short(ms: float | None, shown: str) -> None:
    assert formats.format_age(ms) == shown


@given(st.integers(-(10**18), 10**18))
def test_no_age_is_wider_than_six_cells(ms: int) -> None:
    assert cell_len(formats.format_age(ms)) <= 6


@given(st.one_of(st.integers(-(10**20), 10**20), st.floats()))
def test_an_impossible_instant_does_not_break_the_page(ms: float) -> None:
    assert formats.format_clock(ms)
    assert formats.format_date_and_time(ms)


def test_counts_are_exact_where_they_fit() -> None:
    assert [formats.format_count(n) for n in (0, 64, 12_431, 999_999, 1_234_567)] == [
        "0",
        "64",
        "12 431",
        "999 999",
        "1.2M",
    ]
    assert formats.format_count(12_431, width=5) == "12.4k"
    assert formats.format_count(1_234_567, exact=False) == "~1.2M"


@given(st.integers(0, 10**17))
def test_a_short_count_has_at_most_six_cells(number: int) -> None:
    assert cell_len(formats.format_short_count(number, exact=False)) <= 6


def test_rates_sizes_and_durations_have_their_unit() -> None:
    assert [formats.format_rate(n) for n in (None, 0, 0.4, 312, 12_431)] == ["?", "0/s", "0.4/s", "312/s", "12.4k/s"]
    assert [formats.format_rate(n) for n in (0.1, 0.05, 0.02, 1 / 3600, 1e-6)] == [
        "0.1/s",
        "3/m",
        "1.2/m",
        "1/h",
        "0.0/h",
    ]
    assert [formats.format_size(n) for n in (0, 214, 4200, 30 << 20)] == ["0 B", "214 B", "4.1 kB", "30 MB"]
    assert [formats.format_duration(ms) for ms in (1.44, 41, 1400, 90_000)] == ["1.4 ms", "41 ms", "1.4s", "1m30"]


# ── bars ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sparkline_shows_the_newest_and_blanks_before_the_first() -> None:
    assert formats.build_sparkline(range(7)) == "▁▂▃▄▅▆▇"
    assert formats.build_sparkline(range(7), width=3) == "▅▆▇"
    assert formats.build_sparkline([1], width=3) == "  ▇"
    assert formats.build_sparkline([]) == ""
    assert formats.build_sparkline(range(9), ascii_only=True).isascii()


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_a_lease_bar_keeps_its_width(left_ms: int, lease_ms: int, width: int, ascii_only: bool) -> None:
    left, used = formats.build_lease_bar(left_ms, lease_ms, width, ascii_only)
    assert left
    assert cell_len(left + used) == width


def test_a_lease_bar_shortens_and_is_full_again_when_late() -> None:
    lengths = [len(formats.build_lease_bar(left, 30, 10, True)[0].strip("-")) for left in (30, 20, 10, 1, -1)]
    assert lengths == [10, 7, 3, 1, 10]


@given(st.lists(st.integers(0, 10**9), max_size=5), st.integers(5, 60))
def test_a_share_bar_fills_its_width_and_hides_no_state(counts: list[int], width: int) -> None:
    parts = formats.build_share_bar(list(enumerate(counts)), width)
    assert [key for key, _ in parts] == [key for key, number in enumerate(counts) if number]
    assert sum(len(text) for _, text in parts) == (width if parts else 0)
    assert all(text for _, text in parts)


# ── cells ────────────────────────────────────────────────────────────────────────────────────────────────────

cells = st.text(st.sampled_from("ab…日本é❤🇩🇪\u0301 "), max_size=30).map(safe)


@given(cells, st.integers(0, 20), st.sampled_from(["left", "right", "center"]))
def test_fit_makes_exactly_the_width(text: str, width: int, align: str) -> None:
    assert cell_len(formats.fit_to_width(text, width, align)) == width


@given(cells, st.integers(1, 20))
def test_nothing_elided_is_too_wide(text: str, width: int) -> None:
    assert cell_len(formats.elide_middle(text, width)) <= width
    assert cell_len(formats.shorten_job_id(text, width)) <= width
    assert all(cell_len(line) <= width for line in formats.wrap_to_width(text, width))


def test_a_generated_id_shows_its_end_and_a_given_id_both_ends() -> None:
    assert formats.shorten_job_id("0192f3a0-7c2e-7abc-8def-0123456789ab", 8) == "…56789ab"
    assert formats.shorten_job_id("01JDB3K5WQ9ZT4M8N2X7C6V1RE", 8) == "…X7C6V1RE"[0] + "7C6V1RE"
    assert formats.shorten_job_id("need_some_help_email_4711", 16) == "need_som…il_4711"
    assert formats.shorten_job_id(b"short\x1b", 16) == "short␛"


def test_a_noun_has_the_plural_of_its_ending() -> None:
    nouns = ("job", "process", "body", "key", "delay")
    assert [formats.format_quantity(2, noun) for noun in nouns] == [
        "2 jobs", "2 processes", "2 bodies", "2 keys", "2 delays",
    ]  # fmt: skip
    assert [formats.format_quantity(number, "key") for number in (0, 1)] == ["no keys", "1 key"]


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(hostile)
def test_no_body_can_command_the_terminal(data: str | bytes) -> None:
    body = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    for each in (body, b'{"a":' + body + b"}", msgpack.packb([body]), json.dumps({"x": repr(body)}).encode()):
        assert_harmless(render_body(each).text, allowed="\n")


def test_json_is_indented_and_keeps_what_was_sent() -> None:
    view = render_body(b'{"z":1.0e5,"z":2,"e":{},"t":"\\u00e9\\u001b","n":[123456789012345678901234567890]}')
    assert view.encoding == "json"
    assert view.text.split("\n") == [
        "{",
        '  "z": 1.0e5,',
        '  "z": 2,',
        '  "e": {},',
        '  "t": "é\\u001b",',
        '  "n": [',
        "    123456789012345678901234567890",
        "  ]",
        "}",
    ]


@run_in_one_test(
    ("body", "encoding", "start"),
    [
        (b"", "empty", ""),
        (b"12", "json", "12"),
        (b"hello\r\n\x1b[31mworld", "utf-8", "hello\n␛[31mworld"),
        (msgpack.packb({"a": 1, 2: b"\xff", "n": None}), "msgpack", '{\n  "a": 1,\n  "2": "base64:/w==",\n  "n": null'),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "hex", "00000000  89 50 4e 47 0d 0a 1a 0a  00 00"),
        (b"\x80\x04\x95\x0f\x00\x00\x00", "hex", "00000000  80 04 95"),  # a pickle is not unpickled
        (b"{not json", "utf-8", "{not json"),
    ],
)
def test_a_body_is_shown_as_what_it_is(body: bytes, encoding: str, start: str) -> None:
    view = render_body(body)
    assert view.encoding == encoding
    assert view.text.startswith(start)


@run_in_one_test(
    "body",
    [
        b'{"password": "hunter2"}',
        b'{"a": [{"dbPassword": {"x": ["hunter2", "hunter2"]}}, 1]}',
        b'{"pass\\u0077ord": "hunter2"}',
        b'{"Authorization": "Bearer hunter2", "x": 1}',
        b'{"x-api-token": "hunter2"',
        b"user=me&password=hunter2&x=1",
        b"Authorization: Bearer hunter2\nx: 1",
        b"Set-Cookie: sid=hunter2",
        b'{"secret": "' + b"hunter2" * 20_000,
        b'{"secret": {"a": "' + b"hunter2" * 20_000,
        b"token='hunter2' token: \"hunter2\"",
        msgpack.packb({"session_token": "hunter2"}),
    ],
)
def test_secrets_are_masked_until_revealed(body: bytes) -> None:
    masked, revealed = render_body(body).text, render_body(body, revealed=True).text
    assert "hunter2" not in masked
    assert MASK in masked
    assert "hunter2" in revealed


def test_text_beside_a_secret_is_not_masked() -> None:
    text = render_body(b'{"token": {"a": [1, {"b": 2}]}, "kind": "x", "list": [{"cookie": 1}, "y"]}').text
    assert text.split("\n") == [
        "{",
        f'  "token": {MASK},',
        '  "kind": "x",',
        '  "list": [',
        "    {",
        f'      "cookie": {MASK}',
        "    },",
        '    "y"',
        "  ]",
        "}",
    ]


@pytest.mark.slow
@run_in_one_test(
    "body",
    [
        b"[" * 10_000_000,
        b'{"password":' * 20_000,
        b'"' + b"\\" * 1_000_000,
        b"token" * 100_000,
        b"token=  " * 100_000,
        b"1" * 1_000_000,
        "é".encode() * 500_000,
        b"\x91" * 65_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"\x1b" * 1_000_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_no_body_is_too_long_or_too_deep_to_look_at(body: bytes) -> None:
    began = time.process_time()
    view = render_body(body)
    assert time.process_time() - began < 2
    assert len(view.text) < 500_000
    if len(body) > 65536:
        assert view.text.endswith(f"of {len(body)} bytes")


def test_the_command_line_can_format_without_textual() -> None:
    code = "import sys, rqtui.text.formats; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
