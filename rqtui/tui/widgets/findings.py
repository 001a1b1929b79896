"""Format health findings as lines above the rows of a board, with the keys that fix them, and as words in a frame.

Pure functions from `model.Finding` to text. Text from Redis goes through `safe`.
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
from rqtui.tui.widgets.frame import Sides, format_hint


def format_findings(
    queue: Queue, max_findings: int, width: int, now_ms: int = 0, *, max_extra_lines: int = 0
) -> list[Sides]:
    """Format up to `max_findings` findings, one line each, worst first. Without findings, show the queue's verdict.

    The last line says how many findings are hidden. A remedy that does not fit behind its finding is shown below it, as
    long as the `max_extra_lines` for all findings suffice; otherwise it is left out. `now_ms` is the server's clock: a
    finding that can be fixed only for a limited time starts with the time that is left.
    """
    if not queue.findings:
        hue = f"${HUES[queue.verdict.severity]}"
        return [(Content.assemble(("● ", hue), (safe(queue.verdict.text), "$muted")), Content())]
    shown = queue.findings[:max_findings]
    more = len(queue.findings) - len(shown)
    formatted: list[Sides] = []
    for each in shown:
        line, is_helped = _format_finding(each, more if each is shown[-1] else 0, width, now_ms)
        remedy = [] if is_helped else _wrap(keys.apply_keymap(each.remedy), width - _INDENT)
        formatted.append(line)
        if len(remedy) <= max_extra_lines:
            max_extra_lines -= len(remedy)
            formatted += [(Content.styled(" " * _INDENT + words, "$strong"), Content()) for words in remedy]
    return formatted


_INDENT = 2  # width of the dot before a finding


def _wrap(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(safe(text)).wrap(max(8, width))]


def _format_finding(finding: Finding, more: int, width: int, now_ms: int) -> tuple[Sides, bool]:
    """Return the line of a finding, and whether the line also shows how to fix it."""
    right = Content("   ").join(_format_keys(finding))
    rest = f" · and {formats.format_quantity(more, 'finding')} more" if more else ""
    is_said = finding.remedy[:1] in finding.key.split()  # the key and its label at the right say the same
    behind = finding.detail or ("" if is_said or not finding.key else keys.apply_keymap(finding.remedy))
    about = f"  {safe(behind)}" if behind else ""
    ends = _format_time_left(finding, now_ms)
    room = max(8, width - right.cell_length - 5 - len(rest) - len(ends))
    said, is_helped = _fit_text(finding, room)
    left = room - formats.cell_len(said)
    about = about if formats.cell_len(about) <= left else ""
    hue = f"${HUES[finding.severity]}"
    line = Content.assemble(("● ", hue), (ends, hue), (said, "$strong"), (about, "$muted"), (rest, "$muted"))
    return (line, right), is_helped


def _fit_text(finding: Finding, room: int) -> tuple[str, bool]:
    """Return the finding's text, with its remedy if both fit, and whether the remedy needs no further line."""
    text, is_helped = safe(finding.text), bool(finding.key) or not finding.remedy
    both = text if is_helped else f"{text}: {safe(keys.apply_keymap(finding.remedy))}"
    if formats.cell_len(both) <= room:
        return both, True
    return text if formats.cell_len(text) <= room else formats.fit_to_width(text, room).rstrip(), is_helped


def _format_time_left(finding: Finding, now_ms: int) -> str:
    left = formats.format_time_left(finding.until_ms, now_ms)
    return f"{left}  " if left else ""


def _format_keys(finding: Finding) -> list[Content]:
    """Return the keys of a finding with their labels. A click on one presses it."""
    return [format_hint(keys.apply_keymap(key), _find_label(key, finding.remedy)) for key in finding.key.split()]


def _find_label(key: str, remedy: str) -> str:
    """Return the label of a key. If several verbs share the key, prefer the one that the remedy names."""
    for look in keys.GENERAL_KEYS:
        if key in (keys.format_keys(each) for each in look.keys.split(",")) and not look.screens:
            return look.label
    verbs = keys.find_verbs_on_key(key)
    return next((verb.label for verb in (*(verb for verb in verbs if verb.name in remedy), *verbs)), "")


def format_for_frame(findings: Sequence[Finding], room: int, now_ms: int = 0) -> list[Piece]:
    """Format the worst finding for a frame, with its key: `● 12 expired · .`. Empty if there are no findings."""
    if not findings:
        return []
    worst = findings[0]
    key = f" · {keys.apply_keymap(worst.key)}" if worst.key else ""
    more = f" +{len(findings) - 1}" if len(findings) > 1 else ""
    ends = _format_time_left(worst, now_ms)
    said, _is_helped = _fit_text(worst, max(8, room - 2 - len(key) - len(more) - len(ends)))
    return [
        Piece("● ", HUES[worst.severity]),
        *([Piece(ends, HUES[worst.severity])] if ends else []),
        Piece(said, "strong"),
        *([Piece(key, "accented")] if key else []),
        *([Piece(more, "muted")] if more else []),
    ]
