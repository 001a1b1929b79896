"""Show one page about a queue with problems: since when, how many, what differs, what helped before, what helps now.

The page is about the worst finding of the queue, or about a chosen one until that is over. The report is built in steps
on the engine's thread. The recorded past is read by the recorder of this process, which has the recording open. The
keys of verbs act on all jobs of the largest group of errors, as on the view of errors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.engine.ticker import CallFinished
from rqtui.model import Finding, Focus, Queue, Ref, Snapshot
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.screens.group_search import NO_ERROR_TEXT, GroupSearch, build_group_target
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.findings import format_finding_keys
from rqtui.tui.widgets.table import build_scroll_bindings

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.recording.course import RecordedPast
    from rqtui.recording.store import Writer
    from rqtui.reports.errors import Group
    from rqtui.reports.incident import Incident
    from rqtui.verbs import Verb

INTERVAL_S = 30.0  # between two reports
FRAME_CELLS = 7  # of the frame, its padding and the scroll bar
PLOT_ROWS, LARGE_PLOT_ROWS = 4, 8


class PageScroll(VerticalScroll):
    """The scrolling container of the page, which uses the same keys as tables."""

    BINDINGS: ClassVar[list[BindingType]] = build_scroll_bindings("incident")


class IncidentPage(View):
    """The page about the queue `ref`. It is about `finding` first, or without one about the queue's worst finding."""

    NAME = "incident"
    AUTO_FOCUS = "#incident-page"
    DEFAULT_CSS = """
    #incident-page { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    #incident-page Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open_group", "open", show=False, id="incident.open"),
    ]

    def __init__(self, ref: Ref, finding: Finding | None = None) -> None:
        super().__init__()
        self._ref, self._finding = ref, finding
        self._is_over = False  # whether the chosen finding was over when the report was requested
        self._report: Incident | None = None
        self.past: RecordedPast | None = None
        self._is_complete = False  # whether the shown report is complete
        self._request: int | None = None  # the running call that builds the report
        self._next_report_s = 0.0
        self._error = self._recording_problem = ""
        self._now_ms = 0
        self._group_search = GroupSearch(self, self._show_status)

    def compose_view(self) -> ComposeResult:
        """Create the scrolling text of the page."""
        with PageScroll(id="incident-page", classes="pane") as page:
            page.border_title = Content.styled(f" incident: {safe(self.session.format_name(self._ref))} ", "b $strong")
            yield Static(Content.styled("reading …", "$muted"), id="incident-text")

    def on_resize(self, event: Resize) -> None:
        """Draw the page for the new width."""
        self._draw()

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request the counts and findings of the queue at each refresh; the report is built between the refreshes."""
        return Focus((self._ref,))

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queue of the page, so that a view opened from here shows the same queue."""
        return (self._ref,)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Build the report at the first snapshot, every 30 s, and when the chosen finding ends or appears again."""
        queue = snapshot.find_queue(self._ref)
        if queue is not None and self._finding is not None:
            is_over = self._find_chosen_finding(queue) is None
            self._next_report_s = self._next_report_s if is_over == self._is_over else 0.0
        is_moved, self._now_ms = self.session.is_replay and snapshot.taken_ms != self._now_ms, snapshot.taken_ms
        if is_moved or time.monotonic() >= self._next_report_s:
            self.recompute()
        self._show_status()

    # -- the report -------------------------------------------------------------------------------------------------

    def recompute(self) -> None:
        """Start to build the report, unless it is already being built."""
        snapshot = self.session.snapshot
        queue = snapshot.find_queue(self._ref) if snapshot is not None else None
        if self._request is not None or self.session.engine is None or snapshot is None or queue is None:
            return
        from rqtui.reports.incident import put_finding_first

        self._next_report_s, taken_ms = time.monotonic() + INTERVAL_S, snapshot.taken_ms
        present = self._find_chosen_finding(queue)
        ended = None if present is not None else self._finding
        self._is_over = ended is not None
        if present is not None:
            self._finding, queue = present, put_finding_first(queue, present)
        self._request = self.session.run_steps(
            lambda engine: self._yield_reports(engine, queue, taken_ms, ended), self._handle_step
        )
        self.session.read_recording(lambda store: self._read_past(store, queue, taken_ms), self._store_past)

    def _find_chosen_finding(self, queue: Queue) -> Finding | None:
        """Return the chosen finding as the queue has it now, or None if none was chosen or it is over."""
        from rqtui.reports.incident import find_same_finding

        return find_same_finding(queue, self._finding) if self._finding is not None else None

    def _yield_reports(
        self, engine: Engine, queue: Queue, taken_ms: int, ended: Finding | None
    ) -> Iterator[Incident | None]:
        """Build the report on the engine's thread, step by step; in a replay from the recording.

        `ended` is the chosen finding if it is over.
        """
        from rqtui.reports.incident import EndedFinding, find_end_ms, yield_incident_reports

        journal = self.session.journal
        sightings = journal.load_sightings()
        ended_finding = EndedFinding(ended, find_end_ms(self._ref, ended.kind, sightings)) if ended else None
        reports: Iterator[Incident | None]
        if self.session.is_replay:
            reports = iter([engine.build_incident(queue)])  # type: ignore[attr-defined]
        else:
            operations = [*journal.operations, *journal.load_earlier_operations()]
            reports = yield_incident_reports(engine, self._ref, queue, taken_ms, operations, sightings)
        return (report and replace(report, ended=ended_finding) for report in reports)

    def _read_past(self, store: Writer, queue: Queue, taken_ms: int) -> RecordedPast:
        """Read the recorded past on the recorder's thread."""
        from rqtui.recording.course import read_past

        journal = self.session.journal
        operations = [*journal.operations, *journal.load_earlier_operations()]
        return read_past(store, self._ref, queue, taken_ms, operations, journal.load_sightings())

    def _handle_step(self, message: CallFinished) -> None:
        if message.request_id != self._request:
            return  # an answer of a stopped report
        step: Incident | None = message.result
        if message.is_last:
            self._request, self._error = None, message.error
        if step is not None and (step.is_complete or not self._is_complete):
            self._report, self._is_complete = step, step.is_complete
        if message.is_last or step is not None:
            self._draw()

    def _store_past(self, past: RecordedPast | None, problem: str) -> None:
        self._recording_problem = problem
        if past is not None:
            self.past = past
        self._draw()

    def on_unmount(self) -> None:
        """Stop building the report and the search for the jobs of a group when the page is closed."""
        self._group_search.stop()
        if self._request is not None:
            self.session.stop_steps(self._request)
            self._request = None

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.is_drawn:
            return
        report = self.build_complete_report()
        if report is not None:
            first, others = report.queue.findings[:1], report.queue.findings[1:]
            fixes = [*describe_fixes(first), *self._list_group_keys(), *describe_fixes(others)]
            fixes = list(dict.fromkeys(fixes))
            if self.session.is_replay:
                fixes = ["this is a recording: nothing can be changed"]
            rows = LARGE_PLOT_ROWS if self.is_large else PLOT_ROWS
            text = build_page(report, self.session.format_name(self._ref), fixes, self.app.size.width, rows)
            if self._recording_problem:
                problem = f"The recording cannot be read: {safe(self._recording_problem)}"
                text = Content.assemble(text, "\n\n", (problem, "$muted"))
            self.query_one("#incident-text", Static).update(text)
        self._show_status()
        self.host.show_header()
        self.host.show_keys()

    def build_complete_report(self) -> Incident | None:
        """Return the report with what was recorded, or None before the first step."""
        if self._report is None or self.past is None:
            return self._report
        from rqtui.recording.course import add_past

        return add_past(self._report, self.past)

    def _show_status(self) -> None:
        """Show the progress of a search, the error of the report or its age in the frame."""
        if not self.is_drawn:
            return
        pieces = self._group_search.build_progress()
        if pieces:
            text = Content.assemble(*((piece.text, f"${piece.style}") for piece in pieces))
        elif self._error:
            text = Content.styled(f" {safe(self._error)} ", "$state-dead")
        elif self._request is not None:
            text = Content.styled(" reading … ", "$accented")
        else:
            age = formats.format_age_since(self._report.taken_ms, self._now_ms) if self._report else ""
            hint = f" {age} old, {keys.find_current_key('refresh')} reads again " if age else ""
            text = Content.styled(hint, "$muted")
        self.query_one("#incident-page").border_subtitle = text

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the chosen finding as it is now, or without one the worst finding of the queue."""
        from rqtui.engine.health.rules import format_dated_problem

        snapshot = self.session.snapshot
        queue = snapshot.find_queue(self._ref) if snapshot else None
        if queue is None:
            return Content(), Content()
        finding = self._find_chosen_finding(queue)
        text = format_dated_problem(finding, self._now_ms) if finding is not None else queue.verdict.text
        text = formats.fit_to_width(safe(text), width - 1).rstrip()
        return Content.styled(text, "$strong"), Content()

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the page while the connection is lost, or restore it."""
        self.query_one("#incident-page").set_class(is_dim, "-dimmed")

    # -- keys -------------------------------------------------------------------------------------------------------

    @property
    def group(self) -> Group | None:
        """The group of errors that the keys of verbs act on: the largest one with dead jobs, else the largest one."""
        groups = self._report.errors.groups if self._report is not None and self._report.errors is not None else ()
        return next((group for group in groups if group.dead), groups[0] if groups else None)

    def build_target(self) -> Target:
        """Return the jobs of the largest group of errors, or the queue without any."""
        if self.group is not None:
            return build_group_target(self.session, self.group)
        snapshot = self.session.snapshot
        return Target(self._ref, queue=snapshot.find_queue(self._ref) if snapshot else None)

    def handle_verb(self, verb: Verb) -> bool:
        """Search for all members of the group, then start the verb on them. Return False for a verb not for jobs."""
        group, report = self.group, self._report
        if group is None or report is None or report.errors is None or verb.scope != "job":
            return False
        return self._group_search.start_verb(verb, group, (self._ref,), report.errors.grouping)

    def handle_acted_jobs(self, _ids: object) -> None:
        """Build the report again soon, because a verb has changed the jobs."""
        self._next_report_s = 0.0

    def step_back(self) -> bool:
        """Handle Esc: stop a running search for the jobs of a group, before which nothing was changed."""
        return self._group_search.stop() or super().step_back()

    def action_open_group(self) -> None:
        """Open the jobs of the group that the keys of verbs act on."""
        from rqtui.tui.screens.error_group import ErrorGroup

        if self.group is not None:
            self.host.push_view(ErrorGroup(self.group))

    def _list_group_keys(self) -> list[str]:
        """Return a line for the keys that act on the group: which jobs they are, and how to see them."""
        group = self.group
        if group is None:
            return []
        from rqtui.reports.jobs import mask_job_text

        message = mask_job_text(group.short_message) or NO_ERROR_TEXT
        enter = keys.spell_out_signs(keys.find_current_key("open_group"))
        lines = [f"{enter} shows the {formats.format_quantity(group.count, 'job')} with {message}"]
        if self.host.check_verb("R"):
            jobs = formats.format_quantity(group.dead, "dead job") if group.dead else "jobs"
            lines.append(f"{keys.find_current_key('R')} requeues the {jobs} with this error, after a question")
        elif self.session.is_read_only:
            lines.append("no change is allowed on this screen: it is read-only")
        return lines


def build_page(report: Incident, name: str, fixes: Sequence[str], width: int, plot_rows: int = PLOT_ROWS) -> Content:
    """Build the page of an incident, with bold titles and lines that fit a window of `width` cells."""
    from rqtui.reports.incident_page import build_page_lines

    cells = max(20, width - FRAME_CELLS)
    lines: list[Content] = []
    for number, line in enumerate(build_page_lines(report, name, fixes, plot_size=(cells, plot_rows))):
        is_title = bool(line) and not line.startswith(" ") and number > 0
        lines += [Content.styled(line, "b $accented")] if is_title else _wrap_line(line, cells)
    return Content("\n").join(lines)


_LABEL = re.compile(r" *\S+ {2,}")


def _wrap_line(line: str, width: int) -> list[Content]:
    """Break a line into lines of at most `width` cells; all but the first are indented by two more cells."""
    if formats.cell_len(line) <= width:
        return [Content(line)]
    indent = " " * (len(line) - len(line.lstrip(" ")))
    label = _LABEL.match(line)  # its spaces align the lines below each other
    head = label[0] if label else indent
    first, *others = formats.wrap_to_width(line.removeprefix(head), width - len(head) - 2)
    return [Content(head + first), *(Content(f"{indent}  {part}") for part in others)]


def describe_fixes(findings: Sequence[Finding]) -> list[str]:
    """Return what helps against each finding: the key of the screen, or the remedy."""
    fixes = []
    for finding in findings:
        key_hints = "   ".join(hint.plain for hint in format_finding_keys(finding))
        fixes += [key_hints, finding.remedy if finding.remedy[:1] not in finding.key.split() else ""]
    return list(dict.fromkeys(filter(None, fixes)))
