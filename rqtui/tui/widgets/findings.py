"""Format health findings as lines above the rows of a board, with the keys that fix them, and as words in a frame.

The functions are pure, from `model.Finding` to text. Text from Redis goes through `safe`.
"""

from __future__ import annotations

import re

from textual.content import Content

from rqtui.model import Finding, Queue
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.queues import HUES
from rqtui.tui.widgets.frame import Sides, format_key_hint


def format_findings(queue: Queue, max_findings: int, width: int, now_ms: int = 0, *, max_lines: int = 0) -> list[Sides]:
    """Format a queue's worst findings, at most `max_findings`, as sentences with the keys that fix them.

    Without findings, show the queue's verdict. Sentences are wrapped as long as all findings fit into `max_lines`. The
    last line says how many findings are hidden. `now_ms` is the server's clock: a finding that can be fixed only for a
    limited time starts with the time that is left.
    """
    if not queue.findings:
        sign = (f"{formats.SEVERITY_SIGNS[queue.verdict.severity]} ", f"${HUES[queue.verdict.severity]}")
        return [(Content.assemble(sign, (safe(queue.verdict.text), "$muted")), Content())]
    shown = queue.findings[: max(1, min(max_findings, max_lines or max_findings))]
    hidden_count = len(queue.findings) - len(shown)
    lines: list[Sides] = []
    for position, finding in enumerate(shown, 1):
        remaining = len(shown) - position
        more_text = f" · {formats.format_quantity(hidden_count, 'more finding')}" if not remaining else ""
        lines += _format_finding(
            finding, more_text if hidden_count else "", width, now_ms, max(1, max_lines - len(lines) - remaining)
        )
    return lines


_COMMAND = re.compile(r"(?:rqtui|redis-cli) [^;]*\Z")  # at the end of a fix
_INDENT = 2  # width of the sign before a finding


def _format_finding(finding: Finding, more_text: str, width: int, now_ms: int, max_lines: int) -> list[Sides]:
    """Format a finding in at most `max_lines` lines, with its keys at the right of the first one.

    The detail, the fix and then `more_text` are left out if they do not fit.
    """
    from rqtui.engine.health import rules  # imported late, so that the first paint does not wait for the rules

    key_hints = Content("   ").join(format_finding_keys(finding))
    hue = f"${HUES[finding.severity]}"
    width_left = max(8, width - key_hints.cell_length - _INDENT - 2)
    head = Content.assemble(
        (_format_finding_time_left(finding, now_ms), hue),
        (safe(rules.format_dated_problem(finding, now_ms)), "$strong"),
    )
    lines: list[Content] = []
    additions = [f"{safe(detail)}{more_text}" for detail in (*_list_finding_details(finding), "")]
    for addition in (*additions, ""):
        lines = _wrap_around_command(Content.assemble(head, (addition, "$muted")), width_left)
        if len(lines) <= max_lines:
            break
    if len(lines) > max_lines:
        rest = Content(" ").join(lines[max_lines - 1 :])
        lines = [*lines[: max_lines - 1], rest.truncate(width_left, ellipsis=True)]
    sign = (f"{formats.SEVERITY_SIGNS[finding.severity]} ", hue)
    return [
        (Content.assemble(" " * _INDENT, line), Content()) if number else (Content.assemble(sign, line), key_hints)
        for number, line in enumerate(lines)
    ]


def _wrap_around_command(text: Content, width: int) -> list[Content]:
    """Wrap a text, and start a line with the command at its end if it would be broken otherwise: it is copied whole."""
    lines = [line.rstrip() for line in text.wrap(width)]
    command = _COMMAND.search(text.plain)
    if command is None or any(command[0] in line.plain for line in lines):
        return lines
    parts = (text[: command.start()], text[command.start() :])
    return [line.rstrip() for part in parts for line in part.wrap(width)]


def _list_finding_details(finding: Finding) -> list[str]:
    """Return what may follow the problem of a finding: its detail and its fix, or only one of them."""
    has_remedy_key = finding.remedy[:1] in finding.key.split()  # the key and its label at the right say the same
    remedy = keys.apply_keymap(finding.remedy) if finding.remedy and not has_remedy_key else ""
    detail_text, remedy_text = f", {finding.detail}" if finding.detail else "", f": {remedy}" if remedy else ""
    texts = [detail_text + remedy_text, *([] if finding.key else [remedy_text]), detail_text, remedy_text]
    return [text for text in dict.fromkeys(texts) if text]


def _format_finding_time_left(finding: Finding, now_ms: int) -> str:
    time_left = formats.format_time_left(finding.until_ms, now_ms)
    return f"{time_left}  " if time_left else ""


def format_finding_keys(finding: Finding) -> list[Content]:
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
