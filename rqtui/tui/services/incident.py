"""Show a page about a queue with problems: findings, errors, workers, differences and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.engine.ticker import CallFinished
from rqtui.model import Finding, Queue, Ref
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.session import Session
from rqtui.tui.widgets.findings import format_finding_keys

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.reports.incident import Incident


class IncidentPages:
    """The service that reads the report of an incident and shows it as a page."""

    def __init__(self, host: Host, session: Session, navigation: Navigation) -> None:
        self._host, self._session, self._navigation = host, session, navigation
        self._request: int | None = None  # the running call that builds the report

    def show_incident(self) -> None:
        """Read the report of the queue under the cursor, and show it when it is complete."""
        ref, snapshot = self._navigation.find_target().ref, self._session.snapshot
        queue = snapshot.find_queue(ref) if ref is not None and snapshot is not None else None
        if ref is None or snapshot is None or queue is None:
            self._host.show_toast("Put the cursor on a queue: the page is about one queue.", "warning")
            return
        if self._request is not None:
            self._session.stop_steps(self._request)
        self._host.show_toast(f"Reading {safe(self._session.format_name(ref))} …", timeout=2)
        taken_ms = snapshot.taken_ms
        self._request = self._session.run_steps(
            lambda engine: self._yield_reports(engine, ref, queue, taken_ms), self._handle_step
        )

    def _yield_reports(self, engine: Engine, ref: Ref, queue: Queue, taken_ms: int) -> Iterator[Incident | None]:
        """Build the report on the engine's thread, step by step."""
        from rqtui.reports.incident import yield_incident_reports

        journal = self._session.journal
        operations = [*journal.operations, *journal.load_earlier_operations()]
        return yield_incident_reports(engine, ref, queue, taken_ms, operations, journal.load_sightings())

    def _handle_step(self, call_result: CallFinished) -> None:
        if call_result.error:
            self._host.show_toast(f"The page could not be read: {safe(call_result.error)}", "warning")
        report: Incident | None = call_result.result
        if call_result.is_last:
            self._request = None
        if report is None or self._navigation.has_dialog:
            return
        name = self._session.format_name(report.ref)
        self._navigation.show_page(f"incident: {name}", lambda: build_page(report, name, self._host.app.size.width))


def build_page(report: Incident, name: str, width: int) -> Content:
    """Build the page of an incident, with bold titles and lines that fit a window of `width` cells."""
    from rqtui.reports.incident_page import build_page_lines

    lines: list[Content] = []
    for number, line in enumerate(build_page_lines(report, name, describe_fixes(report.queue.findings))):
        is_title = bool(line) and not line.startswith(" ") and number > 0
        lines += [Content.styled(line, "b $accented")] if is_title else _wrap_line(line, max(20, width - 14))
    return Content("\n").join(lines)


def _wrap_line(line: str, width: int) -> list[Content]:
    """Break a line into lines of at most `width` cells; all but the first are indented by two more cells."""
    if formats.cell_len(line) <= width:
        return [Content(line)]
    indent = " " * (len(line) - len(line.lstrip(" ")))
    parts = formats.wrap_to_width(line, width - len(indent) - 2)
    return [Content(f"{indent}{'  ' if number else ''}{part}") for number, part in enumerate(parts)]


def describe_fixes(findings: Sequence[Finding]) -> list[str]:
    """Return what helps against each finding: the key of the screen, or the remedy."""
    fixes = []
    for finding in findings:
        key_hints = "   ".join(hint.plain for hint in format_finding_keys(finding))
        fixes += [key_hints, finding.remedy if finding.remedy[:1] not in finding.key.split() else ""]
    return list(dict.fromkeys(filter(None, fixes)))
