"""Formats over numbers, bodies cut at each byte, and previews of pages: `texts_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/text/test_texts_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from kept_text import assert_lines_match_file

from rqtui.text import fields, formats, json_fields, preview
from rqtui.text.preview import RowFields

KEPT = Path(__file__).with_name("texts_at_bounds.txt")
BOUNDS = (1, 2, 10, 60, 95, 100, 1_000, 10_000, 99_950, 100_000, 999_500, 1_024_000, 60_000, 3_600_000, 86_400_000)
NUMBERS = sorted({0, 10**12, 10**16} | {bound + by for bound in BOUNDS for by in (-1, 0, 1)})
FRACTIONS = (
    0.0001,
    9.5,
    10.5,
    10.0,
    0.016,
    0.0994 / 60,
    0.0995 / 60,
    0.0994,
    0.0995,
    0.5,
    1.25,
    9.94,
    9.95,
    99.94,
    99.96,
)
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
PACKED = b"\x83\xa2to\xa5a@b.c\xa4note\xc4\x03abc\xa4list\x93\x01\xc0\xc3"
BODY = '{"to":"a\\u00e9@b.c","n":[1,2.50,{"deep":true}],"text":"x, \\"y\\": [z]","empty":{},"none":null,"last":-1e3}'


def number_formats() -> Iterator[str]:
    for number in (*FRACTIONS, *NUMBERS):
        signed = [formats.format_age(each) + " " + formats.format_duration(each) for each in (number, -number)]
        parts = [*signed, formats.format_rate(number), formats.format_rate(-number)]
        if isinstance(number, int):
            parts += [formats.format_size(number), formats.format_quantity(number, "entry")]
            parts += [formats.format_count(each, exact, 5) for each in (number, -number) for exact in (True, False)]
            parts += [
                formats.format_count(number),
                formats.format_share(number, 1_000),
                formats.format_share(1, number),
            ]
        yield f"{number}: {' | '.join(parts)}"
    for left_ms in (None, -1, 0, 1, 999, 1_000, 60_000):
        until_ms = None if left_ms is None else NOW_MS + left_ms
        yield f"time left {left_ms}: {formats.format_time_left(until_ms, NOW_MS)!r}"
    for by_ms in (1 - DAY_MS, -DAY_MS, 0, DAY_MS - 1, DAY_MS):
        times = [
            len(function(NOW_MS + by_ms, NOW_MS)) for function in (formats.format_instant, formats.format_start_time)
        ]
        yield f"cells of a time {by_ms} ms from now: {times}"
    for missing in (formats.format_clock, formats.format_local_day, formats.format_date_and_time):
        yield f"a missing or impossible time: {missing(None)} {missing(10**18)}"
    yield formats.format_time_windows((0, 60_000))


def bars() -> Iterator[str]:
    for ascii_only in (False, True):
        for left_ms in (-1, 0, 1, 124, 125, 126, 374, 375, 376, 500, 999, 1_000, 1_001):
            full, rest = formats.build_lease_bar(left_ms, 1_000, 4, ascii_only)
            yield f"lease {left_ms}: {full}|{rest}"
        yield f"lease of 1 ms: {formats.build_lease_bar(0.5, 1, 4, ascii_only)}"
        yield f"lease without a length: {formats.build_lease_bar(5, 0, 4, ascii_only)}"
        for values in ((), (0,), (1,), (-1, 0, 2), tuple(range(9)), (0.5, 100, 100.5), (0, 0)):
            lines = [formats.build_sparkline(values, width, ascii_only) for width in (None, 0, 1, 3, 9)]
            yield f"sparkline {values}: {'|'.join(lines)}|"
        for counts in ((), (0, 0), (1,), (1, 1), (5, 0, 1), (1, 2, 3), (1, 1_000_000), (7, 7, 7)):
            named = list(zip("abc", counts, strict=False))
            lines = [
                "".join(key * len(cells) for key, cells in formats.build_share_bar(named, width, ascii_only))
                for width in (0, 1, 2, 3, 4, 10)
            ]
            yield f"shares {counts}: {'|'.join(lines)}"


def cells() -> Iterator[str]:
    for text in ("", "a", "日本語", "abcdefghij", "0123456789abcdef0123456789abcdef"):
        for width in (-1, 0, 1, 2, 3, 5, 6, 10, 11, 12, 13):
            fitted = [formats.fit_to_width(text, width, align) for align in ("left", "right", "center")]
            fitted += [formats.fit_to_width(text, width, ellipsis=".."), formats.elide_middle(text, width)]
            fitted += [formats.shorten_job_id(text, width), formats.shorten_job_id(text, width, ascii_only=True)]
            yield f"{text} in {width}: {'|'.join(fitted)}"
    for width in (1, 3, 4, 7, 8, 20):
        yield f"wrap {width}: {formats.wrap_to_width('one two  three 日本語', width)}"


def cut_bodies() -> Iterator[str]:
    for end in range(len(BODY) + 1):
        parsed = fields.parse_partial_body(BODY[:end].encode())
        yield f"{end}: {fields.format_as_json(parsed)} {json.dumps(fields.read_body_fields(BODY[:end].encode()))}"
    for end in range(len(PACKED) + 1):
        yield f"packed {end}: {fields.format_as_json(fields.parse_partial_body(PACKED[:end]))}"
        yield f"packed {end}: {json.dumps(fields.read_body_fields(PACKED[:end]))}"
    whole = {"a": [1, "b"], "c": "d" * 7}
    for inner in (json.dumps(whole), base64.b64encode(json.dumps(whole).encode()).decode()):
        for end in range(6, len(inner) + 1):
            text = inner[:end] + ("…" if end < len(inner) else "")
            yield f"inner {end}: {json.dumps(fields.read_body_fields(json.dumps({'v': text}).encode()))}"
    for length in (fields.MOST_CHARS - 1, fields.MOST_CHARS, fields.MOST_CHARS + 1):
        read = fields.read_body_fields(json.dumps({"v": "x" * length}).encode())
        yield f"{length} letters: {len(read['v'])} {read['v'][-2:]}"
    for count in (31, 32, 33):
        yield f"{count} fields: {len(fields.read_body_fields(json.dumps({f'f{n}': n for n in range(count)}).encode()))}"
    deep: object = 1
    for depth in range(9):
        yield f"depth {depth}: {json.dumps(fields.read_body_fields(json.dumps({'v': deep}).encode()))}"
        deep = {"v": deep, "w": depth}


def wrong_objects() -> Iterator[str]:
    for text in ("", " ", "[]", '"a":1}', '"{}"', "1", '{"a"', '{"a":1', '{"a":1,}', '{"a":1}x', "{a:1}", '{"a" 1}'):
        try:
            yield f"object {text!r}: {json_fields.read_json_fields(text.encode())}"
        except ValueError as error:
            yield f"object {text!r}: {error}"


def pages() -> Mapping[str, list[object]]:
    numbers = range(12)
    mails = [{"to": f"user{n}@shop.example.org", "kind": "welcome", "n": n, "at": NOW_MS + n} for n in numbers]
    return {
        "no row": [],
        "one row": mails[:1],
        "two rows": mails[:2],
        "mails": [*mails],
        "equal rows": [mails[0]] * 9,
        "texts": ["hello", "world"],
        "names in objects": [{"user": {"id": n, "name": f"n{n}"}, "shop": {"id": n % 3, "name": "s"}} for n in numbers],
        "items of lists": [{"args": [n, {"id": n * n}, "same"], "kwargs": {"code": f"c{n % 4}"}} for n in numbers],
        "fields of some rows": [
            {"a": n, **({"b": n % 2} if n % 3 else {}), **({"c": n} if n < 3 else {})} for n in numbers
        ],
        "equal fields": [{"a": n, "copy": n, "b": n // 6} for n in numbers],
        "shared beginnings": [{"path": f"/var/data/file-{n}.csv", "long": f"prefix:{'x' * 20}{n}"} for n in numbers],
        "one with the beginning": [{"url": "https://shop.example.org/"}, {"url": "https://shop.example.org/a"}] * 4,
        "ends of five to seven letters": [
            {f"f{size}": f"{'b' * (size - 1)}:{'v' * 9}{n}", f"e{size}": f"{n}{'w' * 9}@{'e' * (size - 1)}"}
            for size in (5, 6, 7)
            for n in numbers
        ],
        "equal values of 23 to 25 letters": [
            {f"s{size}": "s" * size for size in (23, 24, 25)} | {"n": n} for n in numbers
        ],
        "numbers": [{"price": n * 1.5, "count": -n, "flag": n % 2 == 0, "none": None} for n in numbers],
        "many fields": [{f"f{at}": (n * 7 + at) % (at + 1) for at in range(14)} for n in numbers],
        "long values": [{"long": f"{n}" * 60, "short": f"{n}"} for n in numbers],
        "secrets": [{"password": f"p{n}", "user": f"u{n}"} for n in numbers],
        "empty values": [{"empty": "", "n": n} for n in numbers],
        "lists": [[n, "same", {"id": n * n}] for n in numbers],
        "vague names": [
            {"type": "t", "value": n, "1": {"id": n + 5}, "order": {"id": n, "code": "c"}} for n in numbers
        ],
        "generated": [
            {"id": f"{n:032x}", "key": f"{n * n:016x}", "when": f"2026-11-22T04:{n:02}:11Z"} for n in numbers
        ],
    }


def rows_of(bodies: list[object], beside: tuple[str, ...] = ()) -> list[RowFields]:
    raw = [body.encode() if isinstance(body, str) else json.dumps(body).encode() for body in bodies]
    return [RowFields(preview.read_preview_fields(body), beside) for body in raw]


def previews() -> Iterator[str]:
    every = {title: rows_of(bodies) for title, bodies in pages().items()}
    choices = {title: preview.choose_preview_fields(rows) for title, rows in every.items()}
    for title, rows in every.items():
        choice = choices[title]
        yield f"== {title}: {choice.rows_read} rows"
        yield from (f"column {tuple(field)}" for field in choice.columns)
        yield from (f"other {tuple(field)}" for field in choice.others)
        yield from (f"same {tuple(value)}" for value in choice.same)
        shown = (*choice.columns, *choice.others)
        yield from (preview.format_field_pairs(row.fields, shown) for row in rows[:2])
        fitting = [other for other, others in every.items() if preview.is_choice_still_suitable(choice, others)]
        yield f"also suits {', '.join(fitting)}"
        short = [number for number in range(len(rows) + 1) if preview.is_choice_still_suitable(choice, rows[:number])]
        yield f"suits the first {short} rows"
        updated = preview.update_field_choice(choice, every["mails"])
        yield f"for mails: {[tuple(field) for field in updated.columns]} {[tuple(one) for one in updated.same]}"
    mails = pages()["mails"]
    for number in (7, 8, 9):
        is_suitable = preview.is_choice_still_suitable(choices["mails"], rows_of([mails[0]] * number))
        yield f"the choice from mails suits {number} equal mails: {is_suitable}"
    for number in range(5):
        sample = [RowFields({"v": "a"}, ("a",) if at < number else ()) for at in range(4)]
        values = [f"{at:032x}" if at < number else f"v{at}" for at in range(4)]
        _field, weight = preview._compute_field_weight("v", values, 4)
        yield f"{number} of 4 shown: {preview._is_value_shown_already('v', sample)}, generated: {weight:.3f}"
    labels = preview._choose_field_labels(["a", "b.a", "c.a", "0", "d.0", "e\n", "e⏎"])
    yield f"labels: {[*labels.values()]}"
    weighed = [(weight, True, preview.Field(f"f{weight}", "")) for weight in (0.29, 0.3, 0.31)]
    yield f"fields of enough weight: {[field.path for _weight, _is_common, field in preview._rank_fields(weighed)]}"
    field = preview.Field("to", "to", beginning="ab:", end="@x")
    values = ("ab:", "ab:c", "@x", "c@x", "ab:@x", "ab:c@x", "c")
    yield f"without shared ends: {[field.format_value(value) for value in values]}"
    beside = preview.choose_preview_fields(rows_of(mails, ("user1@shop.example.org", "1")))
    yield f"beside: {[field.path for field in beside.columns]}"
    for number in (1, 7, 8, 16):
        few = preview.choose_preview_fields(rows_of(mails[:number]))
        counts = [at for at in range(20) if preview.is_choice_still_suitable(few, rows_of([*mails, *mails][:at]))]
        yield f"a choice from {number} rows suits {counts}"


def ids() -> Iterator[str]:
    generated = [f"{n:04}{'ab' * 10}{n * 7:08}".encode() for n in range(10)]
    plain = [f"order-{n}".encode() for n in range(10)]
    for share in range(11):
        mixed = [*generated[:share], *plain[share:]]
        chosen = preview.choose_id_format(mixed)
        lines = [
            preview.choose_id_format(mixed, before) == before for before in (chosen, preview.choose_id_format(plain))
        ]
        shown = [preview.shorten_id_to_format(id, chosen) for id in mixed[::9]]
        yield f"{share} of 10 generated: {tuple(chosen)} {lines} {shown}"
    for number in range(5):
        given = [*plain[:number], *generated[: 4 - number]]
        is_suitable = preview._is_id_format_suitable(preview.IdFormat(7, "order-"), [id.decode() for id in given])
        yield f"a beginning of {number} of 4 ids: {is_suitable}"
    for number in (0, 1, 2):
        yield f"{number} ids: {tuple(preview.choose_id_format(generated[:number]))}"
    before = preview.choose_id_format(generated)
    for others in ([b"f" * 32, b"e" * 31 + b"f"], [generated[3], generated[3]], plain):
        yield f"other ids: {tuple(preview.choose_id_format(others, before))}"


def test_texts_match_the_stored_text() -> None:
    assert_lines_match_file(
        (line for part in (number_formats, bars, cells, cut_bodies, wrong_objects, previews, ids) for line in part()),
        KEPT,
    )


def test_ages_are_coarse_only_while_that_is_set() -> None:
    seconds = (9, 10, 19, 59, 60, 119, 3_599, 3_600)
    for is_coarse, ages in (
        (True, "9s 10s 10s 50s 1m 1m 59m 1h00"), (False, "9s 10s 19s 59s 1m00 1m59 59m59 1h00"),
    ):  # fmt: skip
        formats.set_age_rounding(is_coarse)
        assert " ".join(formats.format_age(1000 * each) for each in seconds) == ages
    days = {999: "999d", 1_000: "2.7y", 36_499: "100.0y", 36_500: "100y", 365_000: "999y", 400_000: "999y"}
    assert {day: formats.format_age(DAY_MS * day) for day in days} == days


def test_a_duration_is_spelled_in_its_two_largest_units() -> None:
    spelled = {
        0: "1 s", 1: "1 s", 59.4: "59 s", 60: "1 min", 61: "1 min 1 s", 3_599: "59 min 59 s", 3_600: "1 h",
        3_601: "1 h", 7_500: "2 h 5 min", 86_400: "1 d", 86_461: "1 d", 90_000: "1 d 1 h", 90_061: "1 d 1 h",
    }  # fmt: skip
    assert {seconds: formats.spell_duration(seconds) for seconds in spelled} == spelled
    assert formats.spell_duration(90_061, 1) == "1 d" and formats.spell_duration(90_061, 4) == "1 d 1 h 1 min 1 s"
