"""Findings as lines above the rows of a board, each with the keys that help; and as words in a frame.

Pure: from `model.Finding` to text. Whatever others wrote goes through `safe`.
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
from rqtui.tui.widgets.chrome import Sides, hint


def lines(queue: Queue, most: int, width: int, now_ms: int = 0, *, below: int = 0) -> list[Sides]:
    """A line for each of up to `most` findings, the worst first; the last says how many more there are. `ok` for none.

    A remedy that has no room behind its finding stands below it, where that takes no more than what is left of `below`
    lines for all of them; else it is left out whole. `now_ms` is the server's clock: what can be mended only until an
    instant says first how long that is.
    """
    if not queue.findings:
        hue = f"${HUES[queue.verdict.severity]}"
        return [(Content.assemble(("● ", hue), (safe(queue.verdict.text), "$muted")), Content())]
    shown = queue.findings[:most]
    more = len(queue.findings) - len(shown)
    made: list[Sides] = []
    for each in shown:
        line, is_helped = _line(each, more if each is shown[-1] else 0, width, now_ms)
        remedy = [] if is_helped else _wrapped(keys.renamed(each.remedy), width - _INDENT)
        made.append(line)
        if len(remedy) <= below:
            below -= len(remedy)
            made += [(Content.styled(" " * _INDENT + words, "$strong"), Content()) for words in remedy]
    return made


_INDENT = 2  # cells of the dot before a finding


def _wrapped(text: str, width: int) -> list[str]:
    return [line.plain.rstrip() for line in Content(safe(text)).wrap(max(8, width))]


def _line(finding: Finding, more: int, width: int, now_ms: int) -> tuple[Sides, bool]:
    """The line of a finding, and whether it says what helps, as far as that is known."""
    right = Content("   ").join(_helps(finding))
    rest = f" · and {formats.numbered(more, 'finding')} more" if more else ""
    is_said = finding.remedy[:1] in finding.key.split()  # by the key and its label at the right
    behind = finding.detail or ("" if is_said or not finding.key else keys.renamed(finding.remedy))
    about = f"  {safe(behind)}" if behind else ""
    ends = _ends(finding, now_ms)
    room = max(8, width - right.cell_length - 5 - len(rest) - len(ends))
    said, is_helped = _said(finding, room)
    left = room - formats.cell_len(said)
    about = about if formats.cell_len(about) <= left else ""
    hue = f"${HUES[finding.severity]}"
    line = Content.assemble(("● ", hue), (ends, hue), (said, "$strong"), (about, "$muted"), (rest, "$muted"))
    return (line, right), is_helped


def _said(finding: Finding, room: int) -> tuple[str, bool]:
    """(its text, with its remedy behind it where no key helps and both have room; whether no more is to be said)."""
    text, is_helped = safe(finding.text), bool(finding.key) or not finding.remedy
    both = text if is_helped else f"{text}: {safe(keys.renamed(finding.remedy))}"
    if formats.cell_len(both) <= room:
        return both, True
    return text if formats.cell_len(text) <= room else formats.fit(text, room).rstrip(), is_helped


def _ends(finding: Finding, now_ms: int) -> str:
    left = formats.left(finding.until_ms, now_ms)
    return f"{left}  " if left else ""


def _helps(finding: Finding) -> list[Content]:
    """Its keys and what they do; a click on one presses it."""
    return [hint(keys.renamed(key), _label(key, finding.remedy)) for key in finding.key.split()]


def _label(key: str, remedy: str) -> str:
    """What a key is called; of the verbs on one letter that which the remedy names."""
    for look in keys.LOOKS:
        if key in (keys.shown(each) for each in look.keys.split(",")) and not look.screens:
            return look.label
    verbs = keys.verbs_of(key)
    return next((verb.label for verb in (*(verb for verb in verbs if verb.name in remedy), *verbs)), "")


def in_frame(findings: Sequence[Finding], room: int, now_ms: int = 0) -> list[Piece]:
    """The worst finding in the words of a frame, the key that helps behind it: `● 12 expired · .`; none: nothing."""
    if not findings:
        return []
    worst = findings[0]
    key = f" · {keys.renamed(worst.key)}" if worst.key else ""
    more = f" +{len(findings) - 1}" if len(findings) > 1 else ""
    ends = _ends(worst, now_ms)
    said, _is_helped = _said(worst, max(8, room - 2 - len(key) - len(more) - len(ends)))
    return [
        Piece("● ", HUES[worst.severity]),
        *([Piece(ends, HUES[worst.severity])] if ends else []),
        Piece(said, "strong"),
        *([Piece(key, "accented")] if key else []),
        *([Piece(more, "muted")] if more else []),
    ]
