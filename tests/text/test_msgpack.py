"""MessagePack as people read it, and what is taken for it."""

from __future__ import annotations

import json
from typing import Any

import msgpack as packing
import pytest

from rqtui.errors import UsageError
from rqtui.text import msgpack


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1: "a", -2: "b"}, {"1": "a", "-2": "b"}),
        ({2.5: 1, True: 2, None: 3}, {"2.5": 1, "True": 2, "None": 3}),
        ({b"k": 1, b"\xff": 2}, {"k": 1, "base64:/w==": 2}),
        ([{1: [{2: b"\xff"}]}], [{"1": [{"2": "base64:/w=="}]}]),
        (list(range(20)), list(range(20))),
        ({n: n for n in range(20)}, {str(n): n for n in range(20)}),
        ([], []),
        ({}, {}),
        (list(range(70_000)), list(range(70_000))),
    ],
)
def test_a_map_or_an_array_is_shown_as_json_with_text_for_keys(value: Any, shown: Any) -> None:
    body = packing.packb(value)
    assert json.loads(msgpack.convert_msgpack_to_json(body)) == shown
    assert msgpack.is_msgpack(body) and not msgpack.is_msgpack(body + b"x") and not msgpack.is_msgpack(body[:-1])


@pytest.mark.parametrize("value", [1, -1, None, True, 2.5, "text", b"bytes"])
def test_a_single_value_is_not_shown_as_json(value: Any) -> None:
    assert msgpack.convert_msgpack_to_json(packing.packb(value)) == ""


def test_what_is_packed_is_a_list_or_an_object_of_json_or_messagepack_itself() -> None:
    assert packing.unpackb(msgpack.convert_json_to_msgpack(b'{"a": [1]}')) == {"a": [1]}
    assert packing.unpackb(msgpack.convert_json_to_msgpack(b"[1, 2]")) == [1, 2]
    for body in (packing.packb({1: 2}), packing.packb([1]), packing.packb("text"), b"\x80"):
        assert msgpack.convert_json_to_msgpack(body) == body
    for bad in (b"", b"1", b"text", b'"text"', b"\x7f", b"[1", b"[1e999999, 18446744073709551616]", b"\xc1"):
        with pytest.raises(UsageError, match="MessagePack"):
            msgpack.convert_json_to_msgpack(bad)


def test_the_beginning_of_a_map_with_a_list_for_a_key_is_none() -> None:
    assert msgpack.parse_partial_msgpack(b"\x81\x91\x00\x00") is None


SIZES = (*range(18), 65_535, 65_536)  # each has another first byte, up to 16; larger ones have lengths of 2 and 4 bytes


@pytest.mark.slow
def test_the_beginning_of_a_map_or_an_array_is_recognised_by_its_first_byte() -> None:
    seen = set()
    for size in SIZES:
        for value in (list(range(size)), {str(n): n for n in range(size)}):
            body = packing.packb(value)
            seen.add(body[0])
            assert (
                msgpack.parse_partial_msgpack(body) == value
                and json.loads(msgpack.convert_msgpack_to_json(body)) == value
            )
            if size:
                rest = (
                    value[:-1] if isinstance(value, list) else {name: n for name, n in value.items() if n != size - 1}
                )
                assert msgpack.parse_partial_msgpack(body[:-1]) == rest
    assert seen == {*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF}
    for first in {*range(256)} - seen:
        assert msgpack.parse_partial_msgpack(bytes([first]) + b"\x00" * 9) is None
        assert msgpack.convert_msgpack_to_json(bytes([first]) + b"\x00" * 9) == ""
