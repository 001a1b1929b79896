"""Show one job: its properties, facts and life-line on the left, its body on the right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import localtime, strftime
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus, Resize
from textual.geometry import Region

from rqtui.engine import filters
from rqtui.engine.ticker import CallFinished
from rqtui.model import Fact, Focus, Job, Queue, Rate, Ref, Snapshot
from rqtui.text import formats
from rqtui.text.body import BodyView, is_shown_as_json, list_body_viewers, render_body
from rqtui.text.masking import build_masking_cache_key as body_secrets
from rqtui.text.names import to_bytes
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import format_id, safe
from rqtui.tui import keys
from rqtui.tui.format import jobs, timeline
from rqtui.tui.target import Target
from rqtui.tui.view import View, filter_views
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.long_text import LongText, Text

MAX_REFRESHED_BODY = 65536  # bytes of a body fetched at each refresh
MIN_WIDE_ERROR = 200  # letters of errors from which on they may get the wider column
NARROW_CELLS = 76  # columns; on narrower terminals the properties give space to the body
MAX_FETCHED_BODY = 1 << 20  # bytes of a body that Enter fetches, once
_VIEW_NAMES = {"utf-8": "text"}


class _BodyInputs(NamedTuple):
    """The inputs of a formatted body, compared to find out whether the body must be formatted again."""

    body: bytes
    viewer: str
    is_revealed: bool
    width: int
    secrets: object

    def format_body(self) -> BodyView:
        """Format the job's body with these inputs."""
        return render_body(self.body, self.is_revealed, MAX_FETCHED_BODY, self.width, self.viewer)


class JobPage(View):
    """The page of one job, which follows the job to other places."""

    NAME = "job"
    FILTER_HINT = "text or /re/ in the body"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", "Down", show=False, id="job.down"),
        Binding("k,up", "scroll(-1)", "Up", show=False, id="job.up"),
        Binding("enter", "open", "Open", show=False, id="job.open"),
    ]

    def __init__(self, ref: Ref, job: Job) -> None:
        super().__init__()
        self.ref = ref
        self._queue: Queue | None = None
        self._rate = Rate()
        self._now_ms = 0
        self._set_job(job)

    def _set_job(self, job: Job) -> None:
        """Show `job` on the page, and reset everything that belongs to the previous job."""
        self.job = job
        self._link_index = 0  # index of the link that Enter opens
        self._is_missing = self._is_loading = False
        self._fetched_body: bytes | None = None  # a long body fetched by Enter
        self._viewer = ""
        self._encoding = "omitted"
        self._body_inputs: _BodyInputs | None = None
        self._lines: Sequence[str] = ()
        self._error_letters = 0  # length of the errors of all attempts
        self._match_position = (0, 0)

    def compose_view(self) -> ComposeResult:
        """Create two scrolling panes: the job's properties and its body."""
        with Horizontal(id="job"):
            with VerticalScroll(id="job-left", classes="pane") as left:
                left.border_title = Content(" job ")
                yield Text(id="job-properties")
            yield LongText(id="job-right", classes="pane")

    def on_mount(self) -> None:
        """Focus the pane of the job's body, which is usually longer than the properties."""
        self.query_one("#job-right").focus()

    def on_descendant_focus(self, _event: DescendantFocus) -> None:
        """Update the text in the frame that says what Enter does, after another pane got the focus."""
        if self.is_drawn and self._now_ms:
            self._draw_property_pane()

    def on_resize(self, _event: Resize) -> None:
        """Fit the job's life-line and body to the new width."""
        self.set_class(self.size.width < NARROW_CELLS, "-narrow")
        self.call_after_refresh(self._draw_page)

    def build_focus(self, _refs: list[Ref]) -> Focus:
        """Request at each refresh the queue's counts and the job, its body only up to `MAX_REFRESHED_BODY` bytes."""
        return Focus((self.ref,), (), (self.ref, self.job.id), MAX_REFRESHED_BODY)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Draw the job of a new snapshot; a missing job stays as it was last seen, with a note."""
        if snapshot.find_queue(self.ref) is None:
            return  # requested by the view below
        self._queue, self._rate = snapshot.find_queue(self.ref), snapshot.rates.get(self.ref) or Rate()
        self._now_ms = snapshot.taken_ms
        if snapshot.job is not None and snapshot.job.id == self.job.id:
            self._is_missing, self.job = False, snapshot.job
        elif self.session.has_requested_job(self.ref, self.job.id):
            self._is_missing = True
        self._draw_page()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_page(self) -> None:
        if not self.is_drawn or not self._now_ms:
            return
        self._draw_property_pane()
        self._draw_body()
        self._update_body_frame()
        self._choose_wider_pane()

    def _choose_wider_pane(self) -> None:
        """Give the wider column to the errors of the attempts if they are longer than the body."""
        is_error_longer = self._error_letters > max(sum(map(len, self._lines)), MIN_WIDE_ERROR)
        if is_error_longer != self.has_class("-long-error"):
            self.set_class(is_error_longer, "-long-error")

    def _draw_property_pane(self) -> None:
        pane = self.query_one("#job-left")
        time_zone = safe(strftime("%Z", localtime(self._now_ms / 1000)))
        pane.border_title = Content.assemble(" job ", (f" times in {time_zone} ", "$muted"))
        pane.border_subtitle = self._describe_links()
        contents = self._build_properties()
        if self.job.facts:
            now_ms, is_revealed, layout = self._now_ms, self.is_revealed, self._property_layout
            contents.append(
                jobs.format_job_facts(
                    self.job.facts,
                    now_ms,
                    is_revealed=is_revealed,
                    chosen_link=self._link_index,
                    layout=layout,
                )
            )
        width = max(30, pane.scrollable_content_region.width)
        life_line = timeline.format_job_timeline(self.job, width, self._now_ms, self.is_revealed)
        contents += [Content(), life_line] if life_line else []
        errors = timeline.format_attempt_errors(self.job, self.is_revealed)
        contents += [errors] if errors else []
        self._error_letters = len(errors.plain)
        self.query_one("#job-properties", Text).show_text(Content("\n").join(contents))

    def _build_properties(self) -> list[Content]:
        """Return the texts above the facts: the job's properties, and a note if the job is missing."""
        known_fields = self.session.systems[self.ref.system].known_fields
        contents = [
            jobs.format_job_properties(self.job, self._now_ms, known_fields, self.is_revealed, self._property_layout)
        ]
        if self._is_missing:
            return [jobs.format_missing_job(in_replay=self.session.is_replay), *contents]
        return contents

    @property
    def _property_layout(self) -> jobs.PropertyLayout:
        return jobs.choose_property_layout(self.job.facts, self.query_one("#job-left").scrollable_content_region.width)

    @property
    def _links(self) -> list[Fact]:
        """The facts of the job that lead to another job."""
        return jobs.select_job_links(self.job.facts)

    @property
    def _is_property_pane_focused(self) -> bool:
        """Whether the pane of properties, which contains the links, has the focus."""
        return self.focused is self.query_one("#job-left")

    def _describe_links(self) -> Content:
        """Return a line that says which link Enter opens, and how many there are."""
        if not self._links:
            return Content()
        if self._find_body() is None and not self._is_property_pane_focused:
            return Content.styled(" Tab: links ", "$accented")
        hint = f"{keys.spell_out_signs(keys.find_current_key('open_job'))}: {safe(self._links[self._link_index].name)}"
        key_hint = (
            "" if len(self._links) == 1 else " · j k: others" if self._is_property_pane_focused else " · Tab: others"
        )
        return Content.styled(f" {hint}{key_hint} ", "$accented")

    def _find_body(self) -> bytes | None:
        """Return the bytes of the job's body: of the last refresh, else those fetched once; None if neither exists."""
        return self._fetched_body if self.job.body is None else self.job.body

    def _draw_body(self) -> None:
        """Draw the job's body, formatted again only if its inputs changed: formatting 64 kB of JSON takes 20 ms."""
        pane = self.query_one("#job-right", LongText)
        body = self._find_body()
        if body is None:
            self._body_inputs, self._encoding = None, "omitted" if self.job.body_bytes else "none"
            pane.show_lines(tuple(self._describe_long_body()), _style_line_muted)
            return
        new_inputs = _BodyInputs(body, self._viewer, self.is_revealed, pane.content_size.width, body_secrets())
        if new_inputs == self._body_inputs and self._lines:
            return
        self._body_inputs, self._lines = new_inputs, ("…",)
        if len(body) <= MAX_REFRESHED_BODY:
            self._show_body(new_inputs, new_inputs.format_body())
        else:  # Formatting 1 MB takes 0.5 s, so it runs in a background thread.
            pane.show_lines(self._lines, _style_line_muted)
            self.run_worker(partial(self._format_body_in_thread, new_inputs), thread=True, exclusive=True, group="body")

    def _format_body_in_thread(self, inputs: _BodyInputs) -> None:
        view = inputs.format_body()
        self.app.call_from_thread(self._show_body, inputs, view)

    def _show_body(self, inputs: _BodyInputs, view: BodyView) -> None:
        if inputs != self._body_inputs or not self.is_drawn:
            return
        pane = self.query_one("#job-right", LongText)
        if not self._viewer:
            self._encoding = view.encoding
        self._lines = view.text.split("\n")
        pane.show_lines(self._lines, jobs.highlight_json if is_shown_as_json(view.encoding) else Content)
        if self.filter_text:
            self._match_position = pane.find_first_match(_compile_body_search(self.filter_text))
        self._update_body_frame()

    def _describe_long_body(self) -> Sequence[str]:
        """Return the lines shown in place of a body that was not read: its size, and how to read it."""
        size = formats.format_size(self.job.body_bytes)
        if not self.job.body_bytes:
            return (jobs.NO_BODY,)
        if self.session.is_replay:
            return (f"The body of {size} was not recorded.",)
        if self._is_loading:
            return (f"{size} are on their way …",)
        if self.job.body_bytes <= MAX_FETCHED_BODY:
            return (f"{size}: {keys.spell_out_signs(keys.find_current_key('open_job'))} shows it",)
        return (f"{size} are too many to show here.", "", "rqtui show --raw writes them to a pipe or a file.")

    def _update_body_frame(self) -> None:
        pane = self.query_one("#job-right", LongText)
        view_name = self._viewer or _VIEW_NAMES.get(self._encoding, self._encoding)
        pane.border_title = Content.assemble(
            " body ", (f"· {view_name} · {formats.format_size(self.job.body_bytes)} ", "$muted")
        )
        number, total = self._match_position
        search_text = formats.elide_middle(format_field_value(self.filter_text), 30)
        match_text = f"{number} of {total}" + (": n next" if total > 1 else "") if total else "not found"
        pane.border_subtitle = Content.styled(f" /{search_text} {match_text} ", "$accented") if self.filter_text else ""

    # -- target and header --------------------------------------------------------------------------------------------

    def build_target(self) -> Target:
        """Return the job of the page as the target of a verb, or no job if it is missing."""
        target_jobs = () if self._is_missing else (self.job,)
        return Target(self.ref, self.job.place, target_jobs, False, self._queue, self.job.state)

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the counts of the job's queue for the header."""
        if self._queue is None:
            return super().build_second_line(width)
        return frame.format_queue_line(self._queue, self._rate, width, self.session.find_foreign_system_name(self.ref))

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the page of the job while the connection is lost, or restore it."""
        self.set_class(is_dim, "-dimmed")

    # -- keys ---------------------------------------------------------------------------------------------------------

    def action_scroll(self, lines: int) -> None:
        """Scroll the focused pane by `lines`.

        In the pane of properties, move from link to link as long as there is one.
        """
        if self._is_property_pane_focused and 0 <= self._link_index + lines < len(self._links):
            self._link_index += lines
            self._draw_property_pane()
            self._scroll_to_chosen_link()
        elif self.focused:
            self.focused.scroll_relative(y=lines, animate=False)

    def _scroll_to_chosen_link(self) -> None:
        """Scroll the chosen link of the job's properties into sight."""
        position = [number for number, fact in enumerate(self.job.facts) if fact.kind == "ref"][self._link_index]
        facts_above = jobs.format_job_facts(
            self.job.facts[:position], self._now_ms, is_revealed=self.is_revealed, layout=self._property_layout
        )
        y = self.query_one("#job-properties", Text).count_text_rows(
            Content("\n").join([*self._build_properties(), facts_above])
        )
        self.query_one("#job-left").scroll_to_region(Region(0, y, 1, 1), animate=False)

    def action_reveal(self) -> None:
        """Show the masked values of the job and record that in the journal, or mask the values again."""
        if self.session.is_replay:
            self.host.show_toast("Secrets were masked when the job was recorded.", "warning")
            return
        self.is_revealed = not self.is_revealed
        if self.is_revealed:
            self.session.journal.record_reveal("a job on the screen", self.ref.queue, self.ref.system, [self.job.id])
        self._draw_page()

    def action_viewer(self) -> None:
        """Switch to the next format in which the job's body can be shown. A recorded body is text, and has no other."""
        if self.session.is_replay:
            return
        viewer_names = list_body_viewers(self._encoding)
        position = viewer_names.index(self._viewer) if self._viewer in viewer_names else 0
        self._viewer = viewer_names[(position + 1) % len(viewer_names)]
        self._draw_page()

    def action_open(self) -> None:
        """Fetch a body that is too long for every refresh, or open the chosen link to another job."""
        has_body = self._find_body() is not None
        if self._links and (has_body or self._is_property_pane_focused):
            self.action_link(self._link_index)
        elif not has_body:
            self._fetch_long_body()

    def action_link(self, number: int) -> None:
        """Open the job that a link of this job leads to; Esc returns to this page."""
        if number >= len(self._links):
            return
        self._link_index = number
        link = self._links[number]
        ref = Ref(self.ref.system, link.queue or self.ref.queue)
        job_id = to_bytes(str(link.value) if isinstance(link.value, int) else link.value)

        def open_linked_job(message: CallFinished) -> None:
            if message.error:
                self.host.show_toast(message.error, "error")
            elif message.result is None:
                self.host.show_toast(
                    f"{safe(link.name)}: there is no job {format_id(job_id)} in {safe(ref.queue)} any more."
                )
            elif self.is_on_top:
                self.host.open_job(ref, message.result)

        self.session.call_engine(lambda engine: engine.fetch_job(ref, job_id, MAX_REFRESHED_BODY), open_linked_job)

    def _fetch_long_body(self) -> None:
        """Fetch the job's body of up to `MAX_FETCHED_BODY` bytes once."""
        if self._find_body() is not None or self.job.body_bytes > MAX_FETCHED_BODY or self._is_loading:
            return
        if self.session.is_replay:
            return
        ref, job_id = self.ref, self.job.id
        self._is_loading = True
        self.session.call_engine(
            lambda engine: engine.fetch_job(ref, job_id, MAX_FETCHED_BODY), self._store_fetched_body
        )
        self._draw_page()

    def _store_fetched_body(self, message: CallFinished) -> None:
        self._is_loading = False
        job: Job | None = message.result
        if message.error:
            self.host.show_toast(message.error, "error")
        elif job is not None and job.id == self.job.id:
            self._fetched_body = job.body
        self._draw_page()

    def apply_filter(self, expression: str) -> None:
        """Search for text in the body as it is shown, and scroll to the first match."""
        right = self.query_one("#job-right", LongText)
        self._match_position = right.find_first_match(_compile_body_search(expression) if expression else None)
        self.call_after_refresh(self._update_body_frame)

    def preview_filter(self, expression: str) -> None:
        """Search for plain text in the body while it is typed; a regular expression is searched only after Enter."""
        if not expression.startswith("/"):
            self.apply_filter(expression.strip())

    def action_next_match(self) -> None:
        """Scroll to the next match of the search in the job's body."""
        self._match_position = self.query_one("#job-right", LongText).find_next_match()
        self._update_body_frame()

    def action_page(self, step: int) -> None:
        """Show the next or previous job of the list from which this page was opened."""
        lists = [view for view in filter_views(self.app.screen_stack) if view.is_list_of_queue(self.ref)]
        job = lists[-1].move_to_other_job(step) if lists else None
        if job is None:
            self.host.show_toast(
                keys.apply_keymap("This is the end of the list: Esc goes back to it.")
                if lists
                else "There is no list below."
            )
            return
        self._set_job(replace(job, body=job.body if job.body_bytes == len(job.body or b"") else None))
        self.query_one("#job-right", LongText).scroll_to(y=0, animate=False)
        self._draw_page()
        self.host.request_refresh()


def _compile_body_search(expression: str) -> re.Pattern[str]:
    """Compile a search in a body: plain text, or a regular expression between slashes, ignoring case.

    Raises UsageError for an invalid regular expression.
    """
    if expression.startswith("/") and len(expression) > 1:
        return filters.compile_filter_pattern(expression.strip("/"))
    return re.compile(re.escape(expression), re.IGNORECASE)


def _style_line_muted(line: str) -> Content:
    return Content.styled(line, "$muted")
