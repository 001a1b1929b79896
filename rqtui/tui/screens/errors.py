"""Errors: dead jobs and those that wait for another try, grouped by what their errors have in common.

Enter shows a group: an example's whole error and its jobs. R and D act on the whole group: its members are looked for
in the whole place first, not only in the sample that the table was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rqtui.engine import ticker
from rqtui.model import Job, Ref, State
from rqtui.reports import errors
from rqtui.reports.errors import Errors as Report
from rqtui.reports.errors import Group, Members
from rqtui.text import formats
from rqtui.text.body import mask_text
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.verbs import Verb

NO_ERROR = "(no error is kept)"
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
    TITLE_WORD = "errors"
    EMPTY = "no job has died, and none waits for another try"
    report: Report | None = None

    def __init__(self, refs: tuple[Ref, ...] = ()) -> None:
        super().__init__(refs)
        self._members: dict[Ref, dict[bytes, Job]] = {}  # of the group that is about to be acted on
        self._search: Members | None = None
        self._request = 0  # of the search for them
        self._then: tuple[Verb, str] | None = None  # what will be done with them, and what they are called

    def columns(self) -> Sequence[Column]:
        """The queue only where there are several."""
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=1, drop=4, style="muted"),)
        return (
            Column("dead", "dead", 5, align="right"),
            Column("retrying", "retry", 5, align="right"),
            Column("error", "error", 35, weight=6),
            Column("kind", "job", 10, weight=1, drop=5),
            *queue,
            Column("first", "first", 6, align="right", style="muted", drop=6),
            Column("last", "last", 6, align="right", style="muted", drop=2),
        )

    def make(self, engine: Engine) -> Iterator[Report | None]:
        """A sample of the dead and the scheduled."""
        return errors.report(engine, self.in_scope())

    def groups(self) -> tuple[Group, ...]:
        """All of them."""
        return self.report.groups if self.report else ()

    def fitting(self) -> list[Group]:
        """The groups by what was chosen."""
        order = _ORDERS[self.sort]
        fitting = (group for group in self.groups() if self.accepts(_as_job(group)))
        return sorted(fitting, key=lambda group: (order(group), group.message))

    def row(self, group: Group, now_ms: int) -> Row:
        """The line of a group."""
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (_some([ref.queue for ref in group.refs]),)
        return Row(
            group.message,
            (
                Piece(self._count(group.dead, 5), "state-dead" if group.dead else "muted"),
                Piece(self._count(group.retrying, 5), "state-scheduled" if group.retrying else "muted"),
                safe(mask_text(group.message)) if group.message else Piece(NO_ERROR, "muted"),
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

    def group(self) -> Group | None:
        """The one under the cursor."""
        wanted = self.table.cursor_id
        return next((group for group in self.groups() if group.message == wanted), None)

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
            self.host.go(ErrorGroup(group))

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
        self._then = verb, f'error "{group.message or NO_ERROR}"'
        self._request = self.session.work(
            partial(_members_of, tuple(self.in_scope()), group.message, states), self._found
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
                verb, about = then
                if self._search is not None and self._search.left:
                    about += f", among the newest {formats.count(self._search.of, width=9)}"
                self._begin(verb, about, members)
        if self.is_drawn:
            self._say()

    def _begin(self, verb: Verb, about: str, members: dict[Ref, dict[bytes, Job]]) -> None:
        layouts = self.session.layouts
        chosen = []
        for ref, found in members.items():
            jobs = [job for job in found.values() if layouts[ref.layout].can(verb.name, job.place)]
            if jobs:
                chosen.append((ref, jobs))
        if chosen:
            self.host.begin_many(verb.name, chosen, about)
        else:
            self.host.say(f"{verb.name}: no job with {about} is there any more.", "warning")

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


def _members_of(refs: tuple[Ref, ...], message: str, states: Sequence[State], engine: Engine) -> Iterator[Members]:
    return errors.members(engine, refs, message, states)


def _pair(ref: Ref) -> tuple[str, str]:
    return ref.layout, ref.queue


def _as_job(group: Group) -> Job:
    """What the filter looks at."""
    queues = to_bytes(" ".join(ref.queue for ref in group.refs))
    words = f"{group.message}\n{group.example.error}"
    return Job(b"", "", "", "", State.DEAD, b"", name=" ".join(group.kinds), error=words, body=queues)


def _some(names: Sequence[str]) -> Cell:
    """The first of some names, and how many more there are."""
    if not names:
        return Piece(formats.ZERO, "muted")
    more = (Piece(f" +{len(names) - 1}", "muted"),) if len(names) > 1 else ()
    return (Piece(safe(names[0])), *more)


def _ago(at_ms: int | None, now_ms: int) -> str:
    return formats.ZERO if at_ms is None else formats.age(max(0, now_ms - at_ms))
