"""Searching: the part of a board that filters its panes: live, by a scan, and what Esc, `r` and `n` do about it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from rqtui import filters
from rqtui.errors import UsageError
from rqtui.tui import display, filter_scan, keys
from rqtui.tui.rows import Piece
from rqtui.tui.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from rqtui.model import Snapshot
    from rqtui.tick import Answered
    from rqtui.tui.pane import Pane

REDRAW_S = 0.2  # between two pictures of a scan under way


class Searching(View):
    """What a board does with filters; each place has its own."""

    FILTER_HINT = "text  /re/  !term  id:  job:  err:  worker:  body:"

    def __init__(self) -> None:
        super().__init__()
        self._sought: filters.Filter | None = None  # the last one, for `n`
        self._scans: dict[str, Callable[[Answered], None]] = {}  # by place, while they are under way
        self._drawn_s = 0.0
        self._last: Snapshot | None = None

    def pane(self) -> Pane:
        """The pane that has the focus."""
        raise NotImplementedError

    def titles(self) -> None:
        """The frames' words, as they are now."""
        raise NotImplementedError

    @property
    def filter_text(self) -> str:
        """The filter of the place in focus."""
        return self.pane().expression

    @filter_text.setter
    def filter_text(self, expression: str) -> None:
        """It holds already: `filtered` gave it to the pane."""

    # -- the filter line ----------------------------------------------------------------------------------------------

    def filter_typed(self, expression: str) -> None:
        """Shows at once what is loaded and fits."""
        pane = self.pane()
        try:
            filters.parse(expression.strip())
        except UsageError:
            return  # not finished
        if expression.strip() != pane.expression:
            self._end_scan(pane)
            pane.filter(expression.strip())
            self.draw(pane)

    def filtered(self, expression: str) -> None:
        """From now on the place shows only what fits; a long place is scanned for it."""
        pane = self.pane()
        filters.parse(expression)
        self._end_scan(pane)
        pane.filter(expression)
        self._sought = pane.accepts or self._sought
        self.draw(pane)
        if pane.is_too_long:
            self.scan(pane)
        self.look_again()
        self.app_keys_changed()

    def steps_back(self) -> bool:
        """Esc stops a scan and keeps what was found; the next one takes the filter away."""
        pane = self.pane()
        if pane.place.name in self._scans:
            self._end_scan(pane, stopped=True)
            self.titles()
            return True
        if pane.expression:
            self.filtered("")
            return True
        return False

    def anew(self) -> None:
        """`r` scans again."""
        pane = self.pane()
        if pane.found is not None:
            self._end_scan(pane)
            pane.found = None
            self.scan(pane)

    def action_next_match(self) -> None:
        """The cursor goes to the next job that fits: of those that are shown, or that are loaded."""
        pane, fits = self.pane(), self._sought
        if fits is None:
            self.cockpit.say("n goes to the next job that a filter lets through: / makes one.")
        elif not pane.move_to_next(lambda row: not row.is_gone and pane.lets_through(row.id, fits)):
            self.cockpit.say("No other job that is loaded here fits the last filter; / looks through the whole place.")

    # -- scans --------------------------------------------------------------------------------------------------------

    def scan(self, pane: Pane) -> None:
        """Begins to look through a pane's place."""
        if pane.accepts is None:
            return
        pane.found, pane.offset_wanted = filter_scan.Found(), 0
        pane.another_list()
        body_bytes = max(pane.filter_bytes(), pane.body_bytes())
        steps = filter_scan.scan(pane.ref, pane.place.name, pane.accepts, body_bytes, pane.body_bytes())
        then = partial(self._scanned, pane, pane.found)
        self._scans[pane.place.name] = then
        self.cockpit.work(steps, then)
        self.draw(pane)

    def _end_scan(self, pane: Pane, *, stopped: bool = False) -> None:
        then = self._scans.pop(pane.place.name, None)
        if then is None:
            return
        self.cockpit.ticker.end_work(then)
        if pane.found is not None:
            pane.found.end(stopped=stopped)

    def end_scans(self) -> None:
        """The board is left."""
        for then in self._scans.values():
            self.cockpit.ticker.end_work(then)
        self._scans.clear()

    def _scanned(self, pane: Pane, into: filter_scan.Found, answer: Answered) -> None:
        """A step of a scan, or its end."""
        if pane.found is not into or into.is_over:
            return  # another one began, or Esc came first
        if not answer.is_last:
            into.add(answer.result)
        else:
            into.end(problem=answer.error)
            self._scans.pop(pane.place.name, None)
        now = time.monotonic()
        if answer.is_last or now - self._drawn_s > REDRAW_S:
            self._drawn_s = now
            self.draw(pane)
        if answer.is_last:
            self.app_keys_changed()
            self.look_again()  # those in sight are looked at again

    def draw(self, pane: Pane) -> None:
        """Draws a pane again from what is known."""
        if not self.is_drawn or self._last is None:
            return
        if pane.found is not None:
            pane.show_found(self._last.taken_ms)
        elif pane.page is not None:
            pane.show_page(pane.page, self._last.taken_ms)
        self.titles()


def words(pane: Pane) -> list[Piece]:
    """What the frame says of a pane's filter."""
    if pane.accepts is None or (pane.page is None and pane.found is None):
        return []
    number = _number(pane.matching())
    if pane.found is None:
        return [Piece(f"{number} of {_live(pane)} match", "strong"), *_hint(pane)]
    made = pane.found
    if not made.is_over:
        looked = f"{display.count(made.looked, width=9)} of {display.count(made.total, width=9)} looked at"
        return [
            Piece(f"{number} match", "strong"),
            Piece(looked, "muted"),
            Piece(keys.renamed("Esc stops"), "accented"),
        ]
    if not made.is_cut:
        return [Piece(f"{number} of {_number(made.total)} match", "strong")]
    part = f"in the first {_number(made.looked)} of {_number(made.total)}"
    problem = [Piece(display.safe(made.problem), "state-dead")] if made.problem else []
    return [Piece(f"{number}+ match", "state-reserved"), Piece(part, "state-reserved"), *problem]


def _live(pane: Pane) -> str:
    page = pane.page
    if page is None:
        return display.ZERO
    return _number(page.total) if len(page.jobs) >= page.total else f"the {_number(len(page.jobs))} loaded"


def _hint(pane: Pane) -> list[Piece]:
    return [Piece("Enter looks through all", "accented")] if pane.is_too_long else []


def _number(number: int) -> str:
    return display.count(number, width=9) if number else "0"
