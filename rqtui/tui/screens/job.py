"""The page of one job: what is known of it on the left, its body on the right."""

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
from rqtui.engine.ticker import Answered
from rqtui.model import Fact, Focus, Job, Queue, Rate, Ref, Snapshot
from rqtui.text import formats
from rqtui.text.body import BodyView, body_view, is_tree, viewers
from rqtui.text.body import secrets as body_secrets
from rqtui.text.names import to_bytes
from rqtui.text.sanitise import safe, shown_id
from rqtui.tui import keys
from rqtui.tui.format import jobs, timeline
from rqtui.tui.target import Target
from rqtui.tui.view import View, views
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.text import LongText, Text

MOST_BODY = 65536  # bytes that are fetched at each refresh
NARROW = 76  # columns; below, the body needs what the properties can spare
MOST_WHOLE = 1 << 20  # bytes that Enter fetches, once
_VIEW_NAMES = {"utf-8": "text"}


class _Drawn(NamedTuple):
    """All that the picture of a body depends on."""

    body: bytes
    viewer: str
    is_revealed: bool
    width: int
    secrets: object

    def view(self) -> BodyView:
        """The picture."""
        return body_view(self.body, self.is_revealed, MOST_WHOLE, self.width, self.viewer)


class JobPage(View):
    """One job, followed wherever it goes."""

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
        self._begin(job)

    def _begin(self, job: Job) -> None:
        self.seen = job
        self._link = 0  # of the links among its facts, the one that Enter opens
        self._is_gone = self._is_loading = False
        self._whole: bytes | None = None  # a long body that was asked for
        self._viewer = ""
        self._encoding = "omitted"
        self._drawn: _Drawn | None = None
        self._lines: Sequence[str] = ()
        self._match = (0, 0)

    def compose_view(self) -> ComposeResult:
        """Two scrolling texts."""
        with Horizontal(id="job"):
            with VerticalScroll(id="job-left", classes="pane") as left:
                left.border_title = Content(" job ")
                yield Text(id="job-properties")
            yield LongText(id="job-right", classes="pane")

    def on_mount(self) -> None:
        """The body scrolls first: it is the longer one."""
        self.query_one("#job-right").focus()

    def on_descendant_focus(self, _event: DescendantFocus) -> None:
        """The frame says what Enter does now."""
        if self.is_drawn and self._now_ms:
            self._draw_left()

    def on_resize(self, _event: Resize) -> None:
        """The life-line fits itself to the width."""
        self.set_class(self.size.width < NARROW, "-narrow")
        self.call_after_refresh(self._draw)

    def focus_wish(self, _refs: list[Ref]) -> Focus:
        """The queue's counts and the job, with its body unless that is long."""
        return Focus((self.ref,), (), (self.ref, self.seen.id), MOST_BODY)

    def show(self, snapshot: Snapshot) -> None:
        """Draws the job; one that is gone stays as it was last seen, and says so."""
        if snapshot.queue(self.ref) is None:
            return  # a picture that was asked for by the view below
        self._queue, self._rate = snapshot.queue(self.ref), snapshot.rates.get(self.ref) or Rate()
        self._now_ms = snapshot.taken_ms
        if snapshot.job is not None and snapshot.job.id == self.seen.id:
            self._is_gone, self.seen = False, snapshot.job
        elif self.session.is_pictured(self.ref, self.seen.id):
            self._is_gone = True
        self._draw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.is_drawn or not self._now_ms:
            return
        self._draw_left()
        self._draw_body()
        self._title_body()

    def _draw_left(self) -> None:
        left = self.query_one("#job-left")
        zone = safe(strftime("%Z", localtime(self._now_ms / 1000)))
        left.border_title = Content.assemble(" job ", (f" times in {zone} ", "$muted"))
        left.border_subtitle = self._words_for_links()
        parts = self._above()
        if self.seen.facts:
            now_ms, shown, on = self._now_ms, self.is_revealed, self._sheet
            parts.append(
                jobs.facts(self.seen.facts, now_ms, is_revealed=shown, are_links=True, chosen=self._link, on=on)
            )
        width = max(30, left.scrollable_content_region.width)
        line = timeline.life_line(self.seen, width, self._now_ms, self.is_revealed)
        parts += [Content(), line] if line else []
        errors = timeline.errors(self.seen, self.is_revealed)
        parts += [errors] if errors else []
        self.query_one("#job-properties", Text).show(Content("\n").join(parts))

    def _above(self) -> list[Content]:
        """What stands above the facts."""
        tells = self.session.layouts[self.ref.layout].tells
        parts = [jobs.properties(self.seen, self._now_ms, tells, self.is_revealed, self._sheet)]
        if self._is_gone:
            parts.insert(0, Content.styled("The job is gone; this is how it was last seen.\n", "$state-reserved"))
        return parts

    @property
    def _sheet(self) -> jobs.Sheet:
        return jobs.sheet(self.seen.facts, self.query_one("#job-left").scrollable_content_region.width)

    @property
    def _links(self) -> list[Fact]:
        return jobs.links(self.seen.facts)

    @property
    def _is_left(self) -> bool:
        """Whether the keys go to the pane with the links."""
        return self.focused is self.query_one("#job-left")

    def _words_for_links(self) -> Content:
        if not self._links:
            return Content()
        if self._body() is None and not self._is_left:
            return Content.styled(" Tab: links ", "$accented")
        opens = f"{keys.spelled(keys.key('open_job'))}: {safe(self._links[self._link].name)}"
        more = "" if len(self._links) == 1 else " · j k: others" if self._is_left else " · Tab: others"
        return Content.styled(f" {opens}{more} ", "$accented")

    def _body(self) -> bytes | None:
        return self._whole if self.seen.body is None else self.seen.body

    def _draw_body(self) -> None:
        """Its lines, made anew only when they are other ones: 64 kB of JSON take 20 ms."""
        right = self.query_one("#job-right", LongText)
        body = self._body()
        if body is None:
            self._drawn, self._encoding = None, "omitted" if self.seen.body_bytes else "none"
            right.show_lines(tuple(self._words_for_long()), _muted)
            return
        wanted = _Drawn(body, self._viewer, self.is_revealed, right.content_size.width, body_secrets())
        if wanted == self._drawn and self._lines:
            return
        self._drawn, self._lines = wanted, ("…",)
        if len(body) <= MOST_BODY:
            self._laid_out(wanted, wanted.view())
        else:  # a megabyte takes half a second
            right.show_lines(self._lines, _muted)
            self.run_worker(partial(self._lay_out, wanted), thread=True, exclusive=True, group="body")

    def _lay_out(self, wanted: _Drawn) -> None:
        view = wanted.view()
        self.app.call_from_thread(self._laid_out, wanted, view)

    def _laid_out(self, wanted: _Drawn, view: BodyView) -> None:
        if wanted != self._drawn or not self.is_drawn:
            return
        right = self.query_one("#job-right", LongText)
        if not self._viewer:
            self._encoding = view.encoding
        self._lines = view.text.split("\n")
        right.show_lines(self._lines, jobs.highlighted if is_tree(view.encoding) else Content)
        if self.filter_text:
            self._match = right.find(_pattern(self.filter_text))
        self._title_body()

    def _words_for_long(self) -> Sequence[str]:
        size = formats.size(self.seen.body_bytes)
        if not self.seen.body_bytes:
            return (jobs.NO_BODY,)
        if self._is_loading:
            return (f"{size} are on their way …",)
        if self.seen.body_bytes <= MOST_WHOLE:
            return (f"{size}: {keys.spelled(keys.key('open_job'))} shows it",)
        return (f"{size} are too many to show here.", "", "rqtui show --raw writes them to a pipe or a file.")

    def _title_body(self) -> None:
        right = self.query_one("#job-right", LongText)
        shown = self._viewer or _VIEW_NAMES.get(self._encoding, self._encoding)
        right.border_title = Content.assemble(
            " body ", (f"· {shown} · {formats.size(self.seen.body_bytes)} ", "$muted")
        )
        number, total = self._match
        sought = formats.elide_middle(safe(self.filter_text), 30)
        found = f"{number} of {total}" + (": n goes on" if total > 1 else "") if total else "not found"
        right.border_subtitle = Content.styled(f" /{sought} {found} ", "$accented") if self.filter_text else ""

    # -- what the app asks --------------------------------------------------------------------------------------------

    def target(self) -> Target:
        """This job, while it is there."""
        jobs_ = () if self._is_gone else (self.seen,)
        return Target(self.ref, self.seen.place, jobs_, False, self._queue, self.seen.state)

    def second_line(self, width: int) -> chrome.Sides:
        """The queue's counts."""
        if self._queue is None:
            return super().second_line(width)
        return chrome.queue_line(self._queue, self._rate, width, self.session.system_of(self.ref))

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.set_class(is_dim, "-dimmed")

    # -- keys ---------------------------------------------------------------------------------------------------------

    def action_scroll(self, lines: int) -> None:
        """Scrolls the pane that has the focus, that of the links from link to link; Tab gives it to the other one."""
        if self._is_left and 0 <= self._link + lines < len(self._links):
            self._link += lines
            self._draw_left()
            self._scroll_to_link()
        elif self.focused:
            self.focused.scroll_relative(y=lines, animate=False)

    def _scroll_to_link(self) -> None:
        """The chosen link comes into sight."""
        at = [number for number, fact in enumerate(self.seen.facts) if fact.kind == "ref"][self._link]
        before = jobs.facts(self.seen.facts[:at], self._now_ms, is_revealed=self.is_revealed, on=self._sheet)
        y = self.query_one("#job-properties", Text).rows_of(Content("\n").join([*self._above(), before]))
        self.query_one("#job-left").scroll_to_region(Region(0, y, 1, 1), animate=False)

    def action_reveal(self) -> None:
        """Shows what is masked, and back."""
        self.is_revealed = not self.is_revealed
        self._draw()

    def action_viewer(self) -> None:
        """The next way to look at the body."""
        ways = viewers(self._encoding)
        at = ways.index(self._viewer) if self._viewer in ways else 0
        self._viewer = ways[(at + 1) % len(ways)]
        self._draw()

    def action_open(self) -> None:
        """Fetches a body that is too long for every refresh, or opens the chosen link."""
        is_whole = self._body() is not None
        if self._links and (is_whole or self._is_left):
            self.action_link(self._link)
        elif not is_whole:
            self._fetch()

    def action_link(self, number: int) -> None:
        """Opens the job that a link leads to; back comes back here."""
        if number >= len(self._links):
            return
        self._link = number
        link = self._links[number]
        ref = Ref(self.ref.layout, link.queue or self.ref.queue)
        id = to_bytes(str(link.value) if isinstance(link.value, int) else link.value)

        def found(answer: Answered) -> None:
            if answer.error:
                self.host.say(answer.error, "error")
            elif answer.result is None:
                self.host.say(f"{safe(link.name)}: there is no job {shown_id(id)} in {safe(ref.queue)} any more.")
            elif self.is_on_top:
                self.host.open_job(ref, answer.result)

        self.session.ask(lambda engine: engine.job(ref, id, MOST_BODY), found)

    def _fetch(self) -> None:
        if self._body() is not None or self.seen.body_bytes > MOST_WHOLE or self._is_loading:
            return
        ref, id = self.ref, self.seen.id
        self._is_loading = True
        self.session.ask(lambda engine: engine.job(ref, id, MOST_WHOLE), self._loaded)
        self._draw()

    def _loaded(self, answer: Answered) -> None:
        self._is_loading = False
        job: Job | None = answer.result
        if answer.error:
            self.host.say(answer.error, "error")
        elif job is not None and job.id == self.seen.id:
            self._whole = job.body
        self._draw()

    def filtered(self, expression: str) -> None:
        """Looks for text in the body as it is shown, and goes to the first match."""
        right = self.query_one("#job-right", LongText)
        self._match = right.find(_pattern(expression) if expression else None)
        self.call_after_refresh(self._title_body)

    def filter_typed(self, expression: str) -> None:
        """The same while it is being typed, where it can be read."""
        if not expression.startswith("/"):
            self.filtered(expression.strip())

    def action_next_match(self) -> None:
        """The next match."""
        self._match = self.query_one("#job-right", LongText).find_next()
        self._title_body()

    def action_page(self, step: int) -> None:
        """The next job of the list from which this page was opened, or the one before."""
        below = [view for view in views(self.app.screen_stack) if view.lists_jobs_of(self.ref)]
        job = below[-1].step_job(step) if below else None
        if job is None:
            self.host.say(
                keys.renamed("This is the end of the list: Esc goes back to it.")
                if below
                else "There is no list below."
            )
            return
        self._begin(replace(job, body=job.body if job.body_bytes == len(job.body or b"") else None))
        self.query_one("#job-right", LongText).scroll_to(y=0, animate=False)
        self._draw()
        self.host.look_again()


def _pattern(expression: str) -> re.Pattern[str]:
    """Text as it is, or an expression between slashes, in whatever case; raises UsageError."""
    if expression.startswith("/") and len(expression) > 1:
        return filters.compiled(expression.strip("/"))
    return re.compile(re.escape(expression), re.IGNORECASE)


def _muted(line: str) -> Content:
    return Content.styled(line, "$muted")
