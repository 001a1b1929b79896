"""By job: how many of each kind stand where, how many failed, how long they wait and run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rqtui.model import Job, State
from rqtui.reports import kinds
from rqtui.reports.kinds import Kind
from rqtui.reports.kinds import Kinds as Report
from rqtui.text import elision, formats
from rqtui.text.names import to_bytes
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens.report_view import ReportView
from rqtui.tui.target import Target
from rqtui.tui.view import top
from rqtui.tui.widgets.table import Table

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

_ORDERS: dict[str, Callable[[Kind], int]] = {
    "count": lambda kind: -kind.count,
    "name": lambda kind: 0,
    "failed": lambda kind: -kind.failed,
    "waits": lambda kind: -(kind.wait_ms or -1),
    "runs": lambda kind: -(kind.run_ms or -1),
    "ran": lambda kind: -(kind.figures.processed if kind.figures else -1),
    "failing": lambda kind: -round(1e6 * ((kind.figures.failing if kind.figures else None) or 0)),
}
SHARE = 16
_LOOKED_AT_FIRST = (State.READY, State.RESERVED, State.DEAD, State.SCHEDULED, State.DONE)
_SHORT = {State.SCHEDULED: "sched", State.RESERVED: "resvd"}


class Kinds(ReportView):
    """The kinds of jobs."""

    NAME = "kinds"
    FILTER_HINT = "part of a kind or of a queue; !term turns it round"
    SORTS = tuple(_ORDERS)
    SORT_OF: ClassVar[Mapping[str, str]] = {
        "job": "name",
        "kind": "name",
        "count": "count",
        "failed": "failed",
        "waits": "waits",
        "runs": "runs",
        "ran": "ran",
        "failing": "failing",
    }
    TITLE_WORD = "by job"
    EMPTY = "no jobs: N enqueues one"
    report: Report | None = None

    def columns(self) -> Sequence[Column]:
        """The queue only where there are several."""
        fit = elision.among(safe(self.session.named(ref)) for ref in self.session.refs)
        queue = () if len(self.refs) == 1 else (Column("queue", "queue", 8, weight=2, drop=1, style="muted", fit=fit),)
        drops = {State.SCHEDULED: 6, State.READY: 0, State.RESERVED: 5, State.DONE: 7, State.DEAD: 0}
        counts = (Column(state, _SHORT.get(state, state), 6, align="right", drop=drops[state]) for state in State)
        return (
            Column("kind", "job", 12, weight=3, style="strong"),
            *queue,
            *counts,
            Column("share", "share", SHARE, drop=8),
            Column("failed", "failed", 6, align="right", drop=2),
            Column("waits", "waits", 6, align="right", style="muted", drop=3),
            Column("runs", "runs", 6, align="right", style="muted", drop=3),
            Column("oldest", "oldest", 6, align="right", style="muted", drop=4),
            *(_FIGURES if self.report is not None and self.report.has_figures else ()),
        )

    def learned(self) -> None:
        """A system that keeps figures has columns for them."""
        if (columns := tuple(self.columns())) != self.table.painter.columns:
            self.table.set_columns(columns)

    def make(self, engine: Engine) -> Iterator[Report | None]:
        """A sample of each place."""
        return kinds.report(engine, self.in_scope())

    def why_empty(self) -> str:
        """Systems without kinds say so."""
        silent = self.report.silent if self.report else ()
        return (
            f"{' and '.join(silent)} keeps no kinds of jobs: {keys.key('back')} goes back"
            if silent
            else keys.renamed(self.EMPTY)
        )

    def fitting(self) -> list[Kind]:
        """The kinds by what was chosen."""
        found = self.report.kinds if self.report else ()
        order = _ORDERS[self.sort]
        fitting = (kind for kind in found if self.accepts(_as_job(kind)))
        return sorted(fitting, key=lambda kind: (order(kind), kind.name, kind.ref.queue))

    def row(self, kind: Kind, _now_ms: int) -> Row:
        """The line of a kind in a queue."""
        named = safe(kind.name) if kind.name else Piece("(no kind)", "muted")
        name: Cell = safe(self.session.named(kind.ref)) if kind.ref.queue else Piece(formats.UNKNOWN, "muted")
        queue: tuple[Cell, ...] = () if len(self.refs) == 1 else (name,)
        cells = (
            named,
            *queue,
            *(self._cell(kind.counts.get(state, 0), f"state-{state}") for state in State),
            tuple(Piece(text, f"state-{state}") for state, text in _share(kind)),
            self._cell(kind.failed, "critical"),
            formats.age(kind.wait_ms),
            formats.duration(kind.run_ms).replace(" ", ""),
            formats.age(kind.oldest_ready_ms),
            *(_figures(kind) if self.report is not None and self.report.has_figures else ()),
        )
        return Row(_id(kind), cells)

    def _cell(self, number: int, style: str) -> Cell:
        return Piece(self._count(number, 6), style if number else "muted")

    def summary(self) -> Sequence[Piece]:
        """How many kinds, and how many of their jobs failed."""
        found = self.report.kinds if self.report else ()
        failed = sum(kind.failed for kind in found)
        number = len({kind.name for kind in found})
        silent = self.report.silent if self.report else ()
        found_spans = self.report.spans_ms if self.report else ()
        return (
            Piece(f"{formats.numbered(number, 'kind')} of job", "strong"),
            Piece("   jobs ", "muted"),
            Piece(self._count(sum(kind.count for kind in found))),
            Piece("   failed ", "muted"),
            Piece(self._count(failed), "state-dead" if failed else ""),
            Piece(f"   ran, failing, mean {formats.spans(found_spans)}" if found_spans else "", "muted"),
            Piece(f"   {', '.join(silent)}: no kinds" if silent else "", "muted"),
        )

    def kind(self) -> Kind | None:
        """The one under the cursor."""
        wanted = self.table.cursor_id
        return next((kind for kind in (self.report.kinds if self.report else ()) if _id(kind) == wanted), None)

    def target(self) -> Target:
        """The queue of the kind under the cursor."""
        kind = self.kind()
        ref = kind.ref if kind and kind.ref.queue else self.refs[0] if len(self.refs) == 1 else None
        snapshot = self.session.snapshot
        return Target(ref, queue=snapshot.queue(ref) if ref and snapshot else None)

    def on_table_opened(self, _event: Table.Opened) -> None:
        """Enter: the board, with this kind alone."""
        kind = self.kind()
        if kind is None or self.report is None or not kind.ref.queue:  # of a kind that is in no queue now
            return
        names = {other.name for other in self.report.kinds if other.ref == kind.ref}
        state = next((state for state in _LOOKED_AT_FIRST if kind.counts.get(state)), State.READY)
        self.host.open_board(kind.ref)
        self.app.call_after_refresh(self._narrow, state, expression(kind.name, names))

    def _narrow(self, state: State, wanted: str) -> None:
        view = top(self.app.screen_stack)
        if view is not None:
            view.narrow(state, wanted)


def expression(name: str, names: set[str]) -> str:
    """The filter that lets a kind through, and no other of these: `job:send`, or `job:/^send$/`."""
    is_word = re.fullmatch(r"[^\s\"'/]+", name) is not None
    if is_word and not any(name.lower() in other.lower() for other in names - {name}):
        return f"job:{name}"
    return f"job:/^{re.escape(name).replace('/', chr(92) + '/')}$/"


_FIGURES = (
    Column("ran", "ran", 6, align="right", drop=1),
    Column("failing", "failing", 7, align="right", drop=2),
    Column("mean", "mean", 6, align="right", style="muted", drop=3),
)


def _figures(kind: Kind) -> tuple[Cell, ...]:
    """How often it ran, which share of that failed, and how long it took, as its system keeps it."""
    kept = kind.figures
    if kept is None:
        return (Piece(formats.UNKNOWN, "muted"),) * 3
    return (
        formats.count(kept.processed, width=6),
        Piece(formats.share(kept.failed, kept.processed), "critical" if kept.failed else "muted"),
        formats.duration(kept.mean_ms).replace(" ", ""),
    )


def _id(kind: Kind) -> str:
    return f"{kind.ref}\n{kind.name}"


def _as_job(kind: Kind) -> Job:
    """What the filter looks at."""
    text = to_bytes(kind.ref.queue)
    return Job(b"", kind.ref.queue, kind.ref.layout, "", State.READY, b"", name=kind.name, body=text)


def _share(kind: Kind) -> list[tuple[State, str]]:
    return formats.share_bar([(state, kind.counts.get(state, 0)) for state in State], SHARE)
