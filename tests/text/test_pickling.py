"""Plain values as pickles: what Python reads of them is what was written, and nothing but plain values is taken."""

from __future__ import annotations

import pickle

import pytest

from rqtui.text import pickles
from rqtui.text.pickling import write_pickle

VALUES = (
    None, True, False, 0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, -(2**64), 10**700, 1.5, -0.0, 1e300,
    "", "text", "äö €", "\ud800", "x" * 70_000, [], [1, "two", None], (), (1,), {}, {"a": [1, {"b": (2.5, True)}]},
    ("tasks.add", None, (1, 2), {"c": 3}),
)  # fmt: skip


def test_python_and_we_read_what_was_written() -> None:
    for value in VALUES:
        read = pickle.loads(write_pickle(value))  # noqa: S301 (written here)
        assert (read, type(read)) == (value, type(value))
    assert pickles.is_pickle(write_pickle({"a": [1, (2,)]}))
    assert pickles.format_as_python(pickles.parse_pickle(write_pickle(["x", 1]))) == "['x', 1]"


def test_a_value_that_is_not_plain_is_refused() -> None:
    for value in (b"bytes", object(), {1, 2}, [open], 1j):
        with pytest.raises(ValueError, match="is no plain value"):
            write_pickle(value)
