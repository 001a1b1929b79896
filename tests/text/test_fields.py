"""Fields of bodies by their paths: from whole bodies, from beginnings, through envelopes; secrets stay masked."""

from __future__ import annotations

import base64
import json
import pickle
import random
import zlib

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rqtui.text.fields import MOST_CHARS, MOST_FIELDS, Number, read_body_fields
from rqtui.text.masking import MASK

ORDER = {
    "id": "031k",
    "order": 300112,
    "customer": {"email": "c412@shop", "plan": None, "vip": True},
    "amount": 80.10,
    "items": [{"sku": "a-1"}, {"sku": "b-2"}],
    "token": "tok_secret",
}
SEEN = {
    "id": "031k",
    "order": "300112",
    "customer.email": "c412@shop",
    "customer.vip": "true",
    "amount": "80.1",
    "items.0.sku": "a-1",
    "items.1.sku": "b-2",
    "token": MASK,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def dump_value(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("pack", [dump_value, msgpack.packb], ids=["json", "msgpack"])
def test_values_are_listed_by_their_paths_in_the_order_of_the_body(pack: object) -> None:
    assert list(read_body_fields(pack(ORDER)).items()) == list(SEEN.items())  # type: ignore[operator]


def test_numbers_are_reported_as_they_were_written() -> None:
    found = read_body_fields(b'{"amount": 80.10, "big": 123456789012345678901, "text": "7", "e": 1e5}')
    assert found == {"amount": "80.10", "big": "123456789012345678901", "text": "7", "e": "1e5"}
    assert [isinstance(value, Number) for value in found.values()] == [True, True, False, True]


@pytest.mark.parametrize("pack", [dump_value, msgpack.packb], ids=["json", "msgpack"])
def test_the_complete_members_of_a_cut_body_are_read(pack: object) -> None:
    body = pack({"order": 300112, "customer": {"email": "c412@shop"}, "note": "x" * 90_000})  # type: ignore[operator]
    found = read_body_fields(body[:300])
    assert found["order"] == "300112" and found["customer.email"] == "c412@shop"
    assert read_body_fields(body[:14]).get("order") in (None, "300112")  # never half a number


def test_a_text_that_is_cut_off_reports_it_and_a_number_is_not_claimed() -> None:
    assert read_body_fields(b'{"a": 1, "to": "ada@exa') == {"a": "1", "to": "ada@exa…"}
    assert read_body_fields(b'{"a": 1, "to": "ada\\u00e') == {"a": "1", "to": "ada…"}
    assert read_body_fields(b'{"a": 1, "amount": 31') == {"a": "1"}
    assert read_body_fields(b'{"a": 1, "amoun') == {"a": "1"}
    assert read_body_fields(b'{"a": {"b": [1, 2') == {"a.b.0": "1"}


@pytest.mark.parametrize("wrap", [lambda raw: raw.decode(), lambda raw: base64.b64encode(raw).decode()])
def test_json_in_an_envelope_is_looked_into(wrap: object) -> None:
    body = dump_value({"type": "send", "payload": wrap(dump_value(ORDER))})  # type: ignore[operator]
    assert read_body_fields(body) == {"type": "send", **{f"payload.{path}": value for path, value in SEEN.items()}}
    found = read_body_fields(body[:80])
    assert found["payload.id"] == "031k" and "tok_secret" not in str(found)


def test_arguments_of_a_call_are_listed_by_their_numbers() -> None:
    assert read_body_fields(dump_value({"class": "Mail", "args": [7, "ada"]})) == {
        "class": "Mail",
        "args.0": "7",
        "args.1": "ada",
    }
    assert read_body_fields(dump_value([[7, "ada"], {"retry": False}])) == {
        "0.0": "7",
        "0.1": "ada",
        "1.retry": "false",
    }


@pytest.mark.parametrize(
    "body", [b"", b"resize a.jpg", b"42", b'"text"', b"\xff\x00\x01", b"[[[[[[[[[1]]]]]]]]]", b"{}"]
)
def test_other_bodies_have_no_fields(body: bytes) -> None:
    assert read_body_fields(body) == {}


def test_a_huge_body_costs_what_a_small_one_does() -> None:
    found = read_body_fields(dump_value({f"k{n}": "v" * 1000 for n in range(3000)}))
    assert 0 < len(found) <= MOST_FIELDS
    assert all(len(value) <= MOST_CHARS for value in found.values())
    assert read_body_fields(b"[" * 100_000) == {}


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [25, pytest.param(500, marks=pytest.mark.matrix)])
def test_every_beginning_of_every_body_is_read_without_an_error(bodies: int) -> None:
    @settings(max_examples=bodies, deadline=None)
    @given(st.dictionaries(st.text(), JSON), st.integers(min_value=0, max_value=400))
    def is_read(value: dict[str, object], cut: int) -> None:
        for body in (dump_value(value), base64.b64encode(dump_value(value)), dump_value({"p": json.dumps(value)})):
            assert all(isinstance(shown, str) for shown in read_body_fields(body[:cut]).values())

    is_read()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_without_an_error(body: bytes) -> None:
    assert all(isinstance(shown, str) for shown in read_body_fields(body).values())


def test_a_pickle_and_what_is_in_zlib_are_read_but_never_loaded() -> None:
    call = {"func": "mail.send", "args": [7, "ada"], "password": "x"}
    seen = {"func": "mail.send", "args.0": "7", "args.1": "ada", "password": MASK}
    assert read_body_fields(pickle.dumps(call)) == read_body_fields(zlib.compress(pickle.dumps(call))) == seen
    packed = zlib.compress(dump_value({**call, "note": random.Random(1).randbytes(3000).hex()}))
    assert read_body_fields(packed[:500])["func"] == "mail.send"
    assert read_body_fields(pickle.dumps({"a": 1})[:-1]) == {}


def build_nested_value(depth: int) -> object:
    return 1 if depth == 0 else {"a": build_nested_value(depth - 1)}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ([0, 1, 2, 3, 4, 5], ["0", "1", "2", "3"]),  # four items of a list
        (build_nested_value(1), ["a"]),
        (build_nested_value(6), ["a.a.a.a.a.a"]),  # six levels
        (build_nested_value(7), []),
        ({str(n): n for n in range(40)}, [str(n) for n in range(MOST_FIELDS)]),
    ],
    ids=["list", "one", "six", "seven", "many"],
)
def test_fields_end_at_their_bounds(body: object, paths: list[str]) -> None:
    assert list(read_body_fields(dump_value(body))) == paths


@pytest.mark.parametrize("length", [MOST_CHARS - 1, MOST_CHARS, MOST_CHARS + 1])
def test_a_long_text_is_cut_to_the_same_length(length: int) -> None:
    [text] = read_body_fields(dump_value({"a": "x" * length})).values()
    assert text == ("x" * length if length <= MOST_CHARS else "x" * (MOST_CHARS - 1) + "…")
