"""Test that severities differ without colours, also with `--ascii`."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import rqtui
from rqtui.model import Count, Finding, Queue, State, Verdict
from rqtui.text import formats
from rqtui.text.pieces import convert_cell_to_pieces
from rqtui.tui.format import queues
from rqtui.tui.terminal.ascii_filter import to_ascii

_OF_DATA = frozenset("\ufffd\u2421")  # stand for bytes of data


def test_each_severity_has_a_sign_of_its_own_also_in_ascii() -> None:
    signs = [formats.SEVERITY_SIGNS[severity] for severity in ("critical", "warning", "ok", "info")]
    assert signs == ["✕", "▲", "✓", "·"]
    assert [to_ascii(sign) for sign in signs] == ["X", "!", "+", "-"]


def test_every_sign_of_the_program_has_a_sign_in_ascii() -> None:
    """Controls and data are letters of other alphabets; signs are symbols and punctuation of the program itself."""
    folder = Path(rqtui.__file__).parent
    texts = [file.read_text("utf-8") for part in ("tui", "text", "reports") for file in (folder / part).rglob("*.py")]
    signs = {sign for sign in set("".join(texts)) if not sign.isascii() and unicodedata.category(sign)[0] in "PS"}
    assert {"▾", "÷", "✕"} <= signs
    assert [sign for sign in sorted(signs - _OF_DATA) if "?" in to_ascii(sign)] == []


def test_letters_with_a_stroke_keep_their_base_letter_in_ascii() -> None:
    assert to_ascii("Łódź København Đà Nẵng") == "Lodz Kobenhavn Da Nang"


def test_the_narrow_column_of_states_shows_the_worst_finding_in_a_few_words() -> None:
    findings = {
        Finding("failing", "critical", "q", "55 % of attempts fail", jobs=900): "✕ 55 % fail",
        Finding("dead-many", "warning", "q", "5 000 jobs are dead", jobs=5_000): "▲ 5k dead",
        Finding(
            "no-live-worker", "warning", "q", "no worker serves this queue, and 3 jobs are ready", jobs=3
        ): "▲ no worker",
        Finding("paused", "info", "q", "paused"): "· paused",
        Finding("left-in-paused", "warning", "q", "24 jobs in a list that nobody reads"): "▲ left in paused",
        Finding("lost-on-kill", "critical", "q", "3 jobs will be lost", until_ms=28_400): "✕ jobs lost in 28s",
    }
    for finding, words in findings.items():
        queue = Queue("q", "native", (Count("ready", State.READY, 3),), findings=(finding,))
        queue = queue._replace(verdict=Verdict(finding.severity, finding.text, until_ms=finding.until_ms))
        row = queues.build_queue_row("q", "q", "native", queue, None, queues.OverviewShape(is_narrow=True), None, 0)
        assert "".join(piece.text for piece in convert_cell_to_pieces(row.cells[-1])) == words
