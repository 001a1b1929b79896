"""Format health findings as lines above the rows of a board, with the keys that fix them, and as words in a frame.

The functions are pure, from `model.Finding` to text. Text from Redis goes through `safe`.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rqtui.model import Finding, Queue
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.queues import HUES
from rqtui.tui.widgets.frame import Sides, format_key_hint


def format_findings(
    queue: Queue, max_findings: int, width: int, now_ms: int = 0, *, max_extra_lines: int = 0
) -> list[Sides]:
    """Format a queue's worst findings, at most `max_findings`, one line each.

    Without findings, show the queue's verdict.

    The last line says how many findings are hidden. A remedy that does not fit behind its finding is shown below it, as
    long as the `max_extra_lines` for all findings suffice; otherwise it is left out. `now_ms` is the server's clock: a
    finding that can be fixed only for a limited time starts with the time that is left.
    """
    if not queue.findings:
        hue = f"${HUES[queue.verdict.severity]}"
        return [(Content.assemble(("● ", hue), (safe(queue.verdict.text), "$muted")), Content())]
    shown = queue.findings[:max_findings]
    hidden_count = len(queue.findings) - len(shown)
    formatted: list[Sides] = []
    for finding in shown:
        line, has_remedy = _format_finding_line(finding, hidden_count if finding is shown[-1] else 0, width, now_ms)
        remedy = [] if has_remedy else _wrap_text(keys.apply_keymap(finding.remedy), width - _INDENT)
        formatted.append(line)
        if len(remedy) <= max_extra_lines:
            max_extra_lines -= len(remedy)
            formatted += [(Content.styled(" " * _INDENT + words, "$strong"), Content()) for words in remedy]
    return formatted


_INDENT = 2  # width of the dot before a finding


def _wrap_text(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(safe(text)).wrap(max(8, width))]


def _format_finding_line(finding: Finding, more: int, width: int, now_ms: int) -> tuple[Sides, bool]:
    """Return (line of a finding, whether the line also shows how to fix it)."""
    key_hints = Content("   ").join(_format_finding_keys(finding))
    more_text = f" · and {formats.format_quantity(more, 'finding')} more" if more else ""
    has_remedy_key = finding.remedy[:1] in finding.key.split()  # the key and its label at the right say the same
    detail = finding.detail or ("" if has_remedy_key or not finding.key else keys.apply_keymap(finding.remedy))
    detail_text = f"  {safe(detail)}" if detail else ""
    time_left = _format_finding_time_left(finding, now_ms)
    width_left = max(8, width - key_hints.cell_length - 5 - len(more_text) - len(time_left))
    text, has_remedy = _fit_finding_text(finding, width_left)
    spare = width_left - formats.cell_len(text)
    detail_text = detail_text if formats.cell_len(detail_text) <= spare else ""
    hue = f"${HUES[finding.severity]}"
    line = Content.assemble(
        ("● ", hue), (time_left, hue), (text, "$strong"), (detail_text, "$muted"), (more_text, "$muted")
    )
    return (line, key_hints), has_remedy


def _fit_finding_text(finding: Finding, width: int) -> tuple[str, bool]:
    """Return the text of a finding with its fix if both fit in `width` cells, and whether the fix is included.

    Without the fix, the text alone is fitted into `width` cells.
    """
    text, has_remedy = safe(finding.text), bool(finding.key) or not finding.remedy
    full_text = text if has_remedy else f"{text}: {safe(keys.apply_keymap(finding.remedy))}"
    if formats.cell_len(full_text) <= width:
        return full_text, True
    return text if formats.cell_len(text) <= width else formats.fit_to_width(text, width).rstrip(), has_remedy


def _format_finding_time_left(finding: Finding, now_ms: int) -> str:
    time_left = formats.format_time_left(finding.until_ms, now_ms)
    return f"{time_left}  " if time_left else ""


def _format_finding_keys(finding: Finding) -> list[Content]:
    """Return the keys that fix a finding with their labels. A click on a key presses it."""
    return [
        format_key_hint(keys.apply_keymap(key), _find_key_label(key, finding.remedy)) for key in finding.key.split()
    ]


def _find_key_label(key: str, remedy: str) -> str:
    """Return the label of a key. If several verbs share the key, prefer the verb that the finding's remedy names."""
    for general_key in keys.GENERAL_KEYS:
        if key in (keys.format_keys(text) for text in general_key.keys.split(",")) and not general_key.screens:
            return general_key.label
    verbs = keys.find_verbs_on_key(key)
    return next((verb.label for verb in (*(verb for verb in verbs if verb.name in remedy), *verbs)), "")


def format_worst_finding(findings: Sequence[Finding], width: int, now_ms: int = 0) -> list[Piece]:
    """Format the worst finding for a frame, with its key: `● 12 expired · .`. Empty if there are no findings."""
    if not findings:
        return []
    worst = findings[0]
    key = f" · {keys.apply_keymap(worst.key)}" if worst.key else ""
    more_text = f" +{len(findings) - 1}" if len(findings) > 1 else ""
    time_left = _format_finding_time_left(worst, now_ms)
    text, _has_remedy = _fit_finding_text(worst, max(8, width - 2 - len(key) - len(more_text) - len(time_left)))
    return [
        Piece("● ", HUES[worst.severity]),
        *([Piece(time_left, HUES[worst.severity])] if time_left else []),
        Piece(text, "strong"),
        *([Piece(key, "accented")] if key else []),
        *([Piece(more_text, "muted")] if more_text else []),
    ]
