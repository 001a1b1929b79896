"""Test paths into decoded bodies: the value at a path through dicts, lists and names with dots."""

from __future__ import annotations

from families import run_in_one_test

from rqtui.text.paths import find_values_at_path

BODY = {"a": {"b": 1, "c.d": 2}, "items": [{"sku": "x"}, {"sku": "y"}, 7], "e.f": {"g": 3}, "none": None}


@run_in_one_test(
    ("path", "found"),
    [
        ("", [BODY]),
        ("a.b", [1]),
        ("a.c.d", [2]),
        ("e.f.g", [3]),
        ("none", [None]),
        ("items.0.sku", ["x"]),
        ("items.1.sku", ["y"]),
        ("items.2", [7]),
        ("items.3", []),
        ("items.-1", []),
        ("items.²", []),
        ("items.sku", ["x", "y"]),
        ("items.nothing", []),
        ("a.nothing", []),
        ("a.b.c", []),
        ("nothing", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_path_finds_what_is_there(path: str, found: list[object]) -> None:
    assert list(find_values_at_path(BODY, path.split(".") if path else [])) == found
