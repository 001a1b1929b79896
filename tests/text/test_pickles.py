"""Pickles are read and never loaded: what they hold, what they would do, and how little a hostile one costs."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pickle
import pickletools
import uuid
import zlib
from collections import OrderedDict, defaultdict
from typing import Any

import pytest
from families import run_in_one_test

from rqtui.text import pickles
from rqtui.text.body import convert_binary_to_json, render_body
from rqtui.text.fields import format_as_json, parse_partial_body


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


RUN: list[str] = []


def run(what: str) -> None:
    RUN.append(what)


class Bomb:
    """Loading it would run something."""

    def __reduce__(self) -> Any:
        return run, ("loaded",)


@run_in_one_test("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back_as_they_were(protocol: int) -> None:
    value = {"to": ["a@b.c", 1, -7, 2**70, 1.5, True, None], "raw": "ü\x1b", "nested": {"a": [], "b": {}}}
    data = pickle.dumps(value, protocol)
    assert pickles.is_pickle(data)
    assert pickles.convert_to_json_types(pickles.parse_pickle(data)) == value


@run_in_one_test(
    ("value", "text"),
    [
        (("tasks.add", None, (1, 2), {"retry": True}), "('tasks.add', None, (1, 2), {'retry': True})"),
        (datetime.date(2026, 11, 22), "datetime.date(b'\\x07\\xea\\x0b\\x16')"),
        (decimal.Decimal("1.50"), "decimal.Decimal('1.50')"),
        ({1, 2} - {2}, "{1}"),
        (frozenset(), "frozenset()"),
        (OrderedDict(a=1), "collections.OrderedDict() of [('a', 1)]"),
        (defaultdict(list, {"a": [1]}), "collections.defaultdict(list) of [('a', [1])]"),
        (Point(1, 2), f"{__name__}.Point() with {{'x': 1, 'y': 2}}"),
        ((1,), "(1,)"),
        (b"\x00\xff", "b'\\x00\\xff'"),
    ],
)
def test_objects_of_a_pickle_are_shown_in_python_notation(value: object, text: str) -> None:
    assert pickles.format_as_python(pickles.parse_pickle(pickle.dumps(value, 4))) == text


@run_in_one_test("protocol", (0, 1))
def test_pickles_of_old_protocols_are_parsed(protocol: int) -> None:
    assert pickles.format_as_python(
        pickles.parse_pickle(pickle.dumps([{"a": (1, "x")}, Point(1, 2)], protocol))
    ).startswith("[{'a': (1, 'x')}, ")


def test_every_opcode_has_its_meaning() -> None:
    known_opcodes = pickles._IGNORED | set(pickles._CONSTANTS) | pickles._LITERALS | pickles._PUTS | pickles._GETS
    assert {opcode.name for opcode in pickletools.opcodes} == known_opcodes | set(pickles._OPERATIONS) | {"STOP"}


@run_in_one_test(
    "data",
    [
        b"",
        b"no pickle",
        b"\x80\x04.",
        b"\x80\x05h\x00.",
        b"\x80\x02(.",
        b"\x80\x04\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.",
        b"\x80\x02]e.",
        b"\x80\x02}K\x01s.",
        b"\x80\x04K\x01",
        b"\x80\x02" + b"K\x01" * pickles.MOST_BYTES + b".",
    ],
)
def test_bytes_that_are_no_pickle_are_refused_in_a_sentence(data: bytes) -> None:
    assert not pickles.is_pickle(data)
    with pytest.raises(ValueError, match="pickle"):
        pickles.parse_pickle(data)


def test_bytes_of_any_kind_are_read_or_refused() -> None:
    whole = pickle.dumps(("tasks.add", None, ([1, {"a": b"x"}], Point(1, 2)), {}), 4)
    for at in range(len(whole)):
        for byte in (0, 0x28, 0x65, 0x81, 0x94, 0xFF):
            try:
                pickles.format_as_python(pickles.parse_pickle(whole[:at] + bytes([byte]) + whole[at + 1 :]))
            except ValueError:
                continue


def test_a_value_that_contains_itself_a_thousandfold_is_cut() -> None:
    # ((((…), (…)), …): each level twice the one below, by the memo; and a list in itself.
    doubling = b"\x80\x02]q\x00" + b"".join(b"(h%ch%clq%c" % (n, n, n + 1) for n in range(60)) + b"."
    itself = b"\x80\x02]q\x00h\x00a."
    for data in (doubling, itself):
        value = pickles.parse_pickle(data)
        assert len(pickles.format_as_python(value)) <= pickles.MOST_SHOWN + 1
        assert len(json.dumps(pickles.convert_to_json_types(value))) < 10 * pickles.MOST_SHOWN


def test_a_text_of_64_kb_is_whole_and_a_longer_one_is_cut() -> None:
    for size in (65_534, 65_535):  # without the quotes
        text = pickles.format_as_python("x" * size)
        assert (len(text), text[-1]) == ((65_536, "'") if size == 65_534 else (65_537, "…"))


@pytest.mark.parametrize(("bits", "is_number"), [(1, True), (4000, True), (4001, False)])
def test_a_number_is_a_number_up_to_the_bits_that_python_writes(bits: int, is_number: bool) -> None:
    converted = pickles.convert_to_json_types(2 ** (bits - 1))
    assert converted == (2 ** (bits - 1) if is_number else f"<a number of {bits} bits>")


def test_a_call_is_described_in_a_sentence() -> None:
    func, _instance, args, kwargs = pickles.parse_pickle(pickle.dumps(("tasks.add", None, (1, 2), {"retry": True}), 5))  # type: ignore[misc]
    assert pickles.format_function_call(func, args, kwargs) == "tasks.add(1, 2, retry=True)"
    assert pickles.format_function_call("tasks.add", [1], {"a": "b"}) == "tasks.add(1, a='b')"
    assert pickles.format_function_call("tasks.add", None, None) == "tasks.add()"
    assert pickles.format_function_call("f", ["x" * 100], {}, max_chars=20) == "f('xxxxxxxxxxxxxxxxx…"


def test_a_body_that_is_pickled_or_compressed_is_shown_and_searched() -> None:
    value = {"user": "ada", "password": "hunter2", "at": uuid.UUID(int=7)}
    data = pickle.dumps(value)
    for body, encoding in ((data, "pickle"), (zlib.compress(data), "zlib pickle")):
        view = render_body(body)
        assert view.encoding == encoding
        assert '"user": "ada"' in view.text
        assert "hunter2" not in view.text and "hunter2" in render_body(body, revealed=True).text
        assert "uuid.UUID()" in convert_binary_to_json(body)
        assert parse_partial_body(body)["user"] == "ada"  # type: ignore[index]
    assert render_body(zlib.compress(b'{"a": 1}')).encoding == "zlib json"
    assert format_as_json(parse_partial_body(zlib.compress(b'{"a": 1}'))) == '{"a": 1}'
    assert render_body(zlib.compress(b"plain words")).encoding == "zlib utf-8"


def test_a_zlib_bomb_costs_what_is_shown_of_it() -> None:
    bomb = zlib.compress(b"\x00" * 5_000_000)
    view = render_body(bomb)
    assert view.encoding == "zlib hex"
    assert view.text.endswith("\n…")
    assert parse_partial_body(bomb) is None
    assert render_body(zlib.compress(zlib.compress(b'{"a": 1}'))).encoding == "zlib hex"


def test_no_part_of_a_pickle_is_executed() -> None:
    data = pickle.dumps(Bomb())
    assert pickles.format_as_python(pickles.parse_pickle(data)) == f"{__name__}.run('loaded')"
    assert render_body(data).encoding == "pickle" and convert_binary_to_json(data)
    assert not RUN
    pickle.loads(data)  # noqa: S301  # our own: what loading would do
    assert RUN.pop() == "loaded"
    assert (
        pickle.dumps(os.system)
        and pickles.format_as_python(pickles.parse_pickle(pickle.dumps(os.system))) == "posix.system"
    )


@run_in_one_test(
    ("data", "text"),
    [
        (b"(S'one'\nicollections\nCounter\n.", "collections.Counter('one')"),
        (b"(ccollections\nCounter\nS'one'\no.", "collections.Counter('one')"),
        (b"(ccollections\nCounter\no.", "collections.Counter()"),
        (b"ccollections\nCounter\n(S'one'\ntR.", "collections.Counter('one')"),
        (b"\x80\x02ccollections\nCounter\n)\x81.", "collections.Counter()"),
        (b"(I1\nI2\n0I3\nt.", "(1, 3)"),
        (b"(I1\n(I2\nI3\n1t.", "(1,)"),
        (b"I1\n2\x86.", "(1, 1)"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_instructions_of_old_protocols_are_read(data: bytes, text: str) -> None:
    assert pickles.format_as_python(pickles.parse_pickle(data), 1000) == text


def test_a_plain_value_has_at_most_so_many_parts() -> None:
    whole = pickles.parse_pickle(pickle.dumps([1, [2, 3], 4]))
    found = [pickles.convert_to_json_types(whole, most) for most in (1, 2, 3, 5, 6)]
    assert found == [[], [1], [1, []], [1, [2, 3], "…"], [1, [2, 3], 4]]


# ── the items of a dict with their bytes ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", range(1, 6))
def test_the_items_of_a_pickled_dict_have_the_positions_of_their_bytes(protocol: int) -> None:
    row = {"t": 3, "a": (1, "t", [2, {"a": None}]), "k": {"t": ("a",)}, "end": True}
    data = pickle.dumps(row, protocol)
    items = pickles.parse_pickled_dict(data)
    assert [item.key for item in items] == [*row]
    assert items[0].value == 3 and items[3].value is True
    for item, following in zip(items, items[1:], strict=False):
        assert item.start < item.middle < item.end == following.start
    changed = data[: items[0].middle] + b"N" + data[items[0].end :]
    assert pickle.loads(pickles.remove_frames(changed)) == {**row, "t": None}  # noqa: S301


def test_a_pickled_dict_that_is_cut_off_has_the_items_before_the_cut() -> None:
    data = pickle.dumps({"t": 3, "s": False, "r": ValueError("x" * 1000), "q": "mail"}, 4)
    items = {item.key: item.value for item in pickles.parse_pickled_dict(data[:200])}
    assert items == {"t": 3, "s": False}
    for other in (pickle.dumps([1]), b"", b"x", pickle.dumps({})):
        with pytest.raises(ValueError, match="no pickle of a dict"):
            pickles.parse_pickled_dict(other)
