"""Facts in words: every kind, what is not of its kind, secrets, and what would command a terminal."""

from __future__ import annotations

import pytest
from hostile_text import find_harmful_character

from rqtui.model import Fact
from rqtui.reports.jobs import build_fact_documents as documents
from rqtui.text.facts import build_fact_lines, format_fact
from rqtui.text.masking import MASK


@pytest.mark.parametrize(
    ("fact", "lines"),
    [
        (Fact("status", "started"), ("started",)),
        (Fact("tries", 3), ("3",)),
        (Fact("meta", '{"a": 1, "token": "x"}', "json"), ("{", '  "a": 1,', f'  "token": {MASK}', "}")),
        (Fact("meta", "{no json", "json"), ("{no json",)),
        (Fact("trace", "a\n  b\nE: password=hunter2", "trace"), ("a", "  b", f"E: password={MASK}")),
        (Fact("seen", 0, "instant"), ("1970-01-01 00:00:00 UTC",)),
        (Fact("seen", "never", "instant"), ("never",)),
        (Fact("seen", 10**30, "instant"), ("?",)),
        (Fact("timeout", 180_000, "duration"), ("3m00",)),
        (Fact("parent", b"a\xff", "ref"), ("a\\xff",)),
        (Fact("parent", b"", "ref"), ("''",)),
        (Fact("parent", "a", "ref", "mail"), ("a in mail",)),
        (Fact("password", "hunter2"), (MASK,)),
        (Fact("new", "what comes later", "colour"), ("what comes later",)),
    ],
)
def test_a_fact_is_formatted_by_its_kind(fact: Fact, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rqtui.text.facts.format_date_and_time", lambda ms: "?" if ms > 1 else "1970-01-01 00:00:00 UTC"
    )
    assert format_fact(fact).lines == lines


def test_data_of_strangers_is_harmless_bounded_and_revealed_only_on_request() -> None:
    evil = "\x1b]0;x\x07\u202e\ud800"
    for kind in ("text", "json", "trace", "instant", "duration", "ref"):
        for value in (evil, evil.encode("utf-8", "replace"), 10**40, -1):
            for line in build_fact_lines(Fact(evil, value, kind, evil)):
                assert not find_harmful_character(line, ""), (kind, value, line)
    assert len(format_fact(Fact("trace", "line\n" * 100_000, "trace")).lines) == 201
    assert format_fact(Fact("password", "hunter2"), is_revealed=True).lines == ("hunter2",)
    assert format_fact(Fact("log", "token=abc"), is_revealed=True).lines == ("token=abc",)
    assert build_fact_lines(Fact("a name that is longer than its column", "x")) == [
        "a name that is longer than its column x"
    ]


def test_a_document_has_values_by_their_kinds() -> None:
    found = documents(
        [
            Fact("meta", '{"a": [1.5]}', "json"),
            Fact("meta", "{", "json"),
            Fact("seen", 5, "instant"),
            Fact("parent", b"p\xff", "ref", "mail"),
        ]
    )
    assert found == [
        {"name": "meta", "value": {"a": [1.5]}, "kind": "json"},
        {"name": "meta", "value": "{", "kind": "json"},
        {"name": "seen", "value": 5, "kind": "instant"},
        {"name": "parent", "value": "cP8=", "value_encoding": "base64", "kind": "ref", "queue": "mail"},
    ]
