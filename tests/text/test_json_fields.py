"""A field of a JSON object is changed, and every other byte stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqtui.text.json_fields import read_json_fields, replace_json_fields

BODY = b' {"a": 12345678901234567890.50, "b" :[1.0e2,"}\\u00e9\xff"],"c":{"b":1} , "d":null}\n'


def test_unchanged_parts_stay_byte_for_byte() -> None:
    for changes, expected in (
        ({}, BODY),
        ({"d": b"-1"}, BODY.replace(b"null", b"-1")),
        ({"c": None}, BODY.replace(b',"c":{"b":1}', b"")),
        ({"a": None}, BODY.replace(b'"a": 12345678901234567890.50, ', b"")),
        ({"d": None, "e": b"1"}, BODY.replace(b' , "d":null}', b',"e":1}')),
        ({name: None for name in "abcd"}, b" {}\n"),
        ({"a": None, "b": None, "c": None, "d": None, "e": b"1"}, b' {"e":1}\n'),
    ):
        assert replace_json_fields(BODY, changes) == expected, changes
    assert replace_json_fields(b"{ }", {"e": b"1"}) == b'{"e":1 }'
    assert replace_json_fields(b'{"a":1,"b":2,"\\u0061":3}', {"a": b"4"}) == b'{"a":1,"b":2,"\\u0061":4}'
    assert replace_json_fields(b'{"a":1,"b":2,"a":3}', {"a": None}) == b'{"b":2}'
    assert read_json_fields(BODY)["a"] == b"12345678901234567890.50" and [*read_json_fields(BODY)] == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_a_value_that_is_no_object_is_described_as_such() -> None:
    wrong = (b"", b"[1]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}', b'{"a":1 "b":2}', b'{"a":1}x', b"{a:1}")
    for text in (*wrong, b'{"a":NaN}', b'{"a":' + b"[" * 100_000, b"\xff\xfe", b'{"a":"' + b"x" * 100):
        with pytest.raises(ValueError):
            read_json_fields(text)
        with pytest.raises(ValueError):
            replace_json_fields(text, {"a": b"1"})


NAMES = st.text('ab"\\', max_size=3)
VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, st.none() | VALUES), st.booleans())
def test_it_reads_as_if_it_had_been_changed_and_written_again(old: dict, new: dict, is_spaced: bool) -> None:  # type: ignore[type-arg]
    text = json.dumps(old, indent=2 if is_spaced else None).encode()
    actual_text = replace_json_fields(
        text, {name: None if value is None else json.dumps(value).encode() for name, value in new.items()}
    )
    expected = {**old, **new}
    assert json.loads(actual_text) == {name: value for name, value in expected.items() if new.get(name, 0) is not None}
