"""Errors: dead jobs and those that wait for another try, grouped by their cause.

`[` and `]` widen and narrow the groups: to class and frame, to the class alone, or to each message. Enter shows
a group: an example's whole error and its jobs. R and D act on the whole group: its members are looked for in the whole
place first, not only in the sample that the table was made from, and the question says how many more there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content

from rqtui.engine import ticker
from rqtui.model import Focus, Job, Ref, Snapshot, State
from rqtui.reports import errors
from rqtui.reports.errors import Errors as Report
from rqtui.reports.errors import Group, Grouping, Key, Members, Width
from rqtui.text import elision, formats
from rqtui.text.body import mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe, safe_lines
from rqtui.tui import keys
from rqtui.tui.format import timeline
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView, sides
from rqtui.tui.target import Target
from rqtui.tui.widgets import chrome
from rqtui.tui.widgets.table import Table
from rqtui.tui.widgets.text import LongText

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.verbs import Verb

NO_ERROR = "(no error is kept)"
FRAME_CELLS = 10, 26  # of the column of frames, at least and at most
_WIDTHS = tuple(Width)  # the widest first
_BY_WIDTH = {Width.CLASS: "by class", Width.FRAME: "by frame", Width.CAUSE: "by cause", Width.MESSAGE: "by message"}
_ORDERS: dict[str, Callable[[Group], float]] = {
    "count": lambda group: -group.count,
    "last": lambda group: -(group.last_ms or 0),
    "first": lambda group: group.first_ms or float("inf"),
    "error": lambda group: 0,
}


class Errors(ReportView):
    """The groups."""

    NAME = "errors"
    FILTER_HINT = "part of an error, a kind or a queue; /re/ err: job: !term"
    SORTS = tuple(_ORDERS)
    SORT_OF: ClassVar[Mapping[str, str]] = {"dead": "count", "error": "error", "first": "first", "last": "last"}
    TITLE_WORD = "errors"
    EMPTY = "no job has died, and none waits for another try"
    report: Report | None = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__(refs)
        self._example: Job | None = None  # as it came with the last picture
        self._members: dict[Ref, dict[bytes, Job]] = {}  # of the group that is about to be acted on
        self._search: Members | None = None
        self._request = 0  # of the search for them
        self._then: tuple[Verb, Group] | None = None  # what will be done with them
        self.width = Width.CAUSE
        self._frame_cells = 0  # of the widest frame
        self._last: Group | None = None  # under the cursor, as last drawn

    def columns(self) -> Sequence[Column]:
        """The queue only where there are several."""
        fit = elision.among(safe(self.session.named(ref)) for ref in self.session.refs)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=4, style="muted", fit=fit),)
        cells = self._frame_cells
        frame = (Column("frame", "raised at", cells, drop=1, style="muted"),) if cells else ()
        return (
            Column("dead", "dead", 5, align="right"),
            Column("retrying", "retry", 5, align="right"),
            Column("share", "share", 5, align="right", style="muted", drop=3),
            Column("error", "error", 32, weight=6),
            *frame,
            Column("kind", "job", 10, weight=1, drop=5),
            *queue,
            Column("first", "first", 6, align="right", style="muted", drop=6),
            Column("last", "last", 6, align="right", style="muted", drop=2),
        )

    def _draw_with_frames(self) -> None:
        """With a column for the frames, as wide as they are, where an error tells its own."""
        longest = max((len(group.frame) for group in self.groups()), default=0)
        cells = min(FRAME_CELLS[1], max(FRAME_CELLS[0], longest)) if longest else 0
        if cells == self._frame_cells:
            super().draw()
        else:
            self._frame_cells, cursor = cells, self.table.cursor_id
            self.table.reset()
            self.table.set_columns(self.columns())
            super().draw()
            if cursor is not None:
                self.table.move_to(cursor)
        self._follow()

    def _follow(self) -> None:
        """Of a larger sample a group may have another key: the cursor goes where its example is now."""
        last, known = self._last, {group.id: group for group in self.groups()}
        if last is not None and self.report and self.table.cursor_id == last.id and last.id not in known:
            self.table.move_to(errors.group_id(self.report, last.example))
        self._last = known.get(str(self.table.cursor_id), last)

    def make(self, engine: Engine) -> Iterator[Report | None]:
        """A sample of the dead and the scheduled."""
        return errors.report(engine, self.in_scope(), self.width)

    def learned(self) -> None:
        """How many causes each queue has."""
        if self.width is not Width.CAUSE:
            return
        groups = self.groups()
        for ref in self.in_scope():
            self.session.causes[ref] = frozenset(group.id for group in groups if ref in group.refs)

    def groups(self) -> tuple[Group, ...]:
        """All of them."""
        return self.report.groups if self.report else ()

    def fitting(self) -> list[Group]:
        """The groups by what was chosen."""
        order = _ORDERS[self.sort]
        fitting = (group for group in self.groups() if self.accepts(_as_job(group)))
        return sorted(fitting, key=lambda group: (order(group), group.message, group.key))

    def row(self, group: Group, now_ms: int) -> Row:
        """The line of a group."""
        named = [self.session.named(ref) for ref in group.refs]
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (_some(named),)
        frame: tuple[Cell, ...] = (safe(group.frame),) if self._frame_cells else ()
        total = self.report.count if self.report else 0
        return Row(
            group.id,
            (
                Piece(self._count(group.dead, 5), "state-dead" if group.dead else "muted"),
                Piece(self._count(group.retrying, 5), "state-scheduled" if group.retrying else "muted"),
                formats.share(group.count, total),
                safe(mask_text(group.short_message)) if group.message else Piece(NO_ERROR, "muted"),
                *frame,
                _some(group.kinds),
                *queue,
                _ago(group.first_ms, now_ms),
                _ago(group.last_ms, now_ms),
            ),
        )

    def summary(self) -> Sequence[Piece]:
        """How many errors, and how many jobs they stopped."""
        dead = sum(group.dead for group in self.groups())
        retrying = sum(group.retrying for group in self.groups())
        number = len(self.groups())
        silent = self.report.silent if self.report else ()
        return (
            Piece(formats.numbered(number, "error", 7), "strong"),
            Piece("   dead ", "muted"),
            Piece(self._count(dead), "state-dead" if dead else ""),
            Piece("   to be tried again ", "muted"),
            Piece(self._count(retrying), "state-scheduled" if retrying else ""),
            Piece(f"   {', '.join(silent)}: no errors kept" if silent else "", "muted"),
        )

    def second_line(self, width: int) -> chrome.Sides:
        """What the report comes to, how wide its groups are, and the sort."""
        if self.report is None:
            return super().second_line(width)
        left = Content.assemble(*((piece.text, f"${piece.style or 'data'}") for piece in self.summary()))
        signs = f"{keys.key('groups_wider')} {keys.key('groups_narrower')}"
        width_hint = chrome.hint(signs, _BY_WIDTH[self.width])
        rest = sides(left, self.sort, bool(self.refs))
        candidates = [(left, Content("   ").join([width_hint, right])) for left, right in rest if right]
        return chrome.first_that_fits([*candidates, (left, width_hint), (left, Content())], width)

    def group(self) -> Group | None:
        """The one under the cursor."""
        wanted = self.table.cursor_id
        return next((group for group in self.groups() if group.id == wanted), None)

    def target(self) -> Target:
        """The jobs of the group in one queue and place, dead ones first: it tells which keys mean something."""
        group = self.group()
        if group is None:
            return Target(self.refs[0]) if len(self.refs) == 1 else Target()
        example = group.example
        ref = Ref(example.layout, example.queue)
        jobs = [job for job in group.jobs if (job.layout, job.queue, job.place) == (*_pair(ref), example.place)]
        snapshot = self.session.snapshot
        queue = snapshot.queue(ref) if snapshot else None
        return Target(ref, example.place, tuple(jobs), queue=queue, state=example.state)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter: the group."""
        from rqtui.tui.screens.error_group import ErrorGroup

        group = self.group()
        if group is not None:
            self.host.go(ErrorGroup(group, formats.share(group.count, self.report.count if self.report else 0)))

    # -- wider and narrower groups --------------------------------------------------------------------------------

    def action_width(self, step: int) -> None:
        """Groups of more errors, or of fewer; the cursor stays on the error it stood on."""
        at = _WIDTHS.index(self.width) + step
        if not 0 <= at < len(_WIDTHS):
            self.host.say(f"the {'widest' if at < 0 else 'narrowest'} groups: {_BY_WIDTH[self.width]}.")
            return
        group = self.group()
        self._stop()  # a report that is on its way has groups of another width
        self.width = _WIDTHS[at]
        if self.report is None:
            self.anew()
            return
        self.report, self._coming = self.report.at(self.width), None
        self.table.another_list()
        self._draw_anew()
        if group is not None:
            example = _id(group.example)
            self.table.move_to(next((other.id for other in self.groups() if example in map(_id, other.jobs)), ""))
        self._due_s = 0.0  # groups that only wait have their dates from the next report

    # -- the example of a group, on a large terminal --------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """The table, and below it the whole error of an example."""
        yield from super().compose_view()
        yield LongText(id="example", classes="pane")

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """The example comes with the tick, with all of its attempts."""
        group = self.group() if self.has_preview else None
        wish = super().focus_wish(refs)
        return wish if group is None else wish._replace(job=(_ref_of(group.example), group.example.id))

    def show(self, snapshot: Snapshot) -> None:
        """The whole error as well."""
        if snapshot.job is not None:
            self._example = snapshot.job
        super().show(snapshot)

    def draw(self) -> None:
        """The example as well."""
        self.fit_table(self.table, len(self.groups()))
        self._draw_with_frames()
        self._show_example()

    def on_table_moved(self, event: Table.Moved) -> None:
        """The example of another group."""
        super().on_table_moved(event)
        if self.has_preview:
            self._show_example()
            self.host.look_soon()

    def _show_example(self) -> None:
        group, pane = self.group(), self.query_one("#example", LongText)
        if not self.has_preview:
            return
        if group is None:
            pane.border_title = Content(" an example ")
            pane.show(Content.styled("the error under the cursor is shown here in full", "$muted"))
            return
        job = group.example
        if self._example is not None and (self._example.id, self._example.queue) == (job.id, job.queue):
            job = self._example
        title = f" {formats.job_id(job.id, 24)} of {formats.elide_middle(safe(job.queue), 24)} "
        pane.border_title = Content.assemble((" an example ", "b $strong"), (title, "$muted"))
        pane.show(_example(job, pane.scrollable_content_region.width, self._now_ms))

    # -- acting on a group ----------------------------------------------------------------------------------------

    def begins(self, verb: Verb) -> bool:
        """Looks for all members of the group, then begins the verb with them."""
        group = self.group()
        if group is None or verb.scope != "job":
            return False
        if verb.script and group.count > 1:
            self.host.say(
                f"{verb.label}: {keys.renamed('that is for one job; Enter shows those of this error.')}", "warning"
            )
            return True
        if self._then is not None:
            return True
        states = tuple(state for state in errors.STATES if not verb.takes or state in verb.takes)
        self._members, self._search = {}, None
        self._then = verb, group
        grouping = self.report.grouping if self.report else Grouping()
        self._request = self.session.work(
            partial(_members_of, tuple(self.in_scope()), group.key, grouping, states), self._found
        )
        self._say()
        return True

    def _found(self, answered: ticker.Answered) -> None:
        if answered.request != self._request:
            return  # of a search that was given up
        step: Members | None = answered.result
        if step is not None:
            self._search = step
            self._members.setdefault(step.ref, {}).update((job.id, job) for job in step.jobs)
        if answered.is_last:
            then, self._then, members = self._then, None, self._members
            self._members = {}
            if answered.error:
                self.host.say(answered.error, "error")
            elif then is not None:
                self._begin(*then, members)
        if self.is_drawn:
            self._say()

    def _begin(self, verb: Verb, group: Group, members: dict[Ref, dict[bytes, Job]]) -> None:
        layouts = self.session.layouts
        chosen = []
        for ref, found in members.items():
            jobs = [job for job in found.values() if layouts[ref.layout].can(verb.name, job.place)]
            if jobs:
                chosen.append((ref, jobs))
        about = f'error "{group.message or NO_ERROR}"'
        if not chosen:
            self.host.say(f"{verb.name}: no job with {about} is there any more.", "warning")
            return
        counted = {_id(job) for job in group.jobs if layouts[job.layout].can(verb.name, job.place)}
        found_ids = {_id(job) for _ref, jobs in chosen for job in jobs}
        left = self._search.of if self._search is not None and self._search.left else 0
        self.host.begin_many(verb.name, chosen, about, _counted(counted, found_ids, left))

    def status(self) -> list[Piece]:
        """How far the search for the members of a group is, before all else."""
        if self._then is None:
            return super().status()
        found = sum(len(jobs) for jobs in self._members.values())
        looked, of = (self._search.looked, self._search.of) if self._search else (0, 0)
        far = f"{formats.count(found, width=9)} found, {formats.count(looked, width=9)} of {formats.count(of, width=9)}"
        return [Piece(f"{self._then[0].label}: {far} looked at · {keys.key('back')} stops ", "accented")]

    def steps_back(self) -> bool:
        """Esc ends a search before anything was changed."""
        if self._then is not None:
            self._then = None
            self.session.end_work(self._request)
            return True
        return super().steps_back()

    def on_unmount(self) -> None:
        """Nobody waits for the members any more."""
        self._then = None
        self.session.end_work(self._request)
        super().on_unmount()

    def acted(self, _ids: object) -> None:
        """The groups are others now."""
        self._due_s = 0.0


def _members_of(
    refs: tuple[Ref, ...], key: Key, grouping: Grouping, states: Sequence[State], engine: Engine
) -> Iterator[Members]:
    return errors.members(engine, refs, key, grouping, states)


def _id(job: Job) -> tuple[str, str, bytes]:
    return job.layout, job.queue, job.id


def _counted(counted: Collection[object], found: Collection[object], looked_at: int) -> str:
    """`2 500 counted here, 31 more match`: how the jobs that were found differ from those that the row counts."""
    more, gone = len(set(found) - set(counted)), len(set(counted) - set(found))
    words = [f"{formats.count(len(counted), width=9) if counted else 'none'} counted here"]
    words += [f"{formats.count(more, width=9)} more match" + ("es" if more == 1 else "")] if more else []
    words += [f"{formats.count(gone, width=9)} no longer there"] if gone else []
    words += [f"only the newest {formats.count(looked_at, width=9)} were looked at"] if looked_at else []
    return ", ".join(words)


def _ref_of(job: Job) -> Ref:
    return Ref(job.layout, job.queue)


def _example(job: Job, width: int, now_ms: int) -> Content:
    """The whole text of its last error, then its life."""
    error = job.history[-1].error if job.history else job.error or job.problem
    lines = [Content.styled(line, "$data") for line in safe_lines(mask_text(error))] or [
        Content.styled("no error is kept of this job", "$muted")
    ]
    tried = [f"attempts {job.attempts}"] if job.attempts else []
    known = [safe(job.name) or "job", job.place, *tried, f"worker {safe(job.worker) or formats.ZERO}"]
    line = timeline.life_line(job, max(20, min(width, 100)), now_ms)
    return Content("\n").join(
        [Content.styled("   ".join(known), "$muted"), Content(), *lines, *([Content(), line] if line else [])]
    )


def _pair(ref: Ref) -> tuple[str, str]:
    return ref.layout, ref.queue


def _as_job(group: Group) -> Job:
    """What the filter looks at."""
    queues = to_bytes(" ".join(ref.queue for ref in group.refs))
    words = f"{group.message}\n{group.frame}\n{group.example.error}"
    return Job(b"", "", "", "", State.DEAD, b"", name=" ".join(group.kinds), error=words, body=queues)


def _some(names: Sequence[str]) -> Cell:
    """The first of some names, and how many more there are."""
    if not names:
        return Piece(formats.ZERO, "muted")
    more = (Piece(f" +{len(names) - 1}", "muted"),) if len(names) > 1 else ()
    return (Piece(safe(names[0])), *more)


def _ago(at_ms: int | None, now_ms: int) -> str:
    return formats.ZERO if at_ms is None else formats.age(max(0, now_ms - at_ms))
