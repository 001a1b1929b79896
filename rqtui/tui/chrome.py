"""The frame around every view: two lines above (where, how it is, what the loops do) and one below (the keys)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from rqtui.loops import Loop
from rqtui.model import Queue, Rate, State
from rqtui.tui import display


@dataclass(frozen=True, slots=True)
class Status:
    """What the first line says."""

    url: str
    words: str
    is_lost: bool = False
    is_read_only: bool = False
    lost_for_s: float = 0.0
    cost: str = ""
    loops: tuple[str, ...] = ()


class Header(Widget):
    """Two lines of text; `left` and `right` of each, the right one cut first when there is no room."""

    DEFAULT_CSS = "Header { dock: top; height: 2; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[tuple[Content, Content], ...] = ()

    def show(self, lines: Sequence[tuple[Content, Content]]) -> None:
        """Draws these lines, if they changed."""
        if tuple(lines) != self._lines:
            self._lines = tuple(lines)
            self.refresh()

    def render(self) -> RenderResult:
        """The lines, left and right."""
        width = self.size.width - 2
        return Content("\n").join([spread(left, right, width) for left, right in self._lines])


class Footer(Widget):
    """One line: what the keys do here, grey where they cannot, and on the right whether changes are on."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._keys: tuple[tuple[str, str, bool], ...] = ()
        self._right = Content()

    def show(self, keys: Sequence[tuple[str, str, bool]], right: Content) -> None:
        """Draws keys (key, label, usable now), if they changed."""
        if tuple(keys) != self._keys or right != self._right:
            self._keys, self._right = tuple(keys), right
            self.refresh()

    def render(self) -> RenderResult:
        """As many keys as fit; the last two (palette and help) always do."""
        width = self.size.width - 2 - self._right.cell_length - 1
        pieces = [
            Content.assemble(
                (key, "b $accented" if usable else "$frame"), " ", (label, "$muted" if usable else "$frame")
            )
            for key, label, usable in self._keys
        ]
        tail = pieces[-2:]
        room = width - sum(piece.cell_length + 2 for piece in tail)
        head = []
        for piece in pieces[:-2]:
            room -= piece.cell_length + 2
            if room < 0:
                break
            head.append(piece)
        return spread(Content("  ").join([*head, *tail]), self._right, self.size.width - 2)


def spread(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the edges of `width` cells; what does not fit is cut from the left one's end."""
    room = width - right.cell_length
    if room < 8:
        right, room = Content(), width
    if left.cell_length > room - 1:
        left = left.truncate(max(1, room - 1), ellipsis=True)
    return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)


def loop_words(name: str, loop: Loop | None, is_narrow: bool) -> Content:
    """What a loop does: `dispatch ▶ 118/s`, `reap ■ off`, `reap ▶ ! Redis is away`."""
    label = {"dispatch": "dsp", "reap": "reap"}[name] if is_narrow else name
    if loop is None:
        return Content.styled(f"{label} off", "$muted")
    if not loop.is_running:
        return Content.assemble((f"{label} ", "$muted"), ("■ off", "$state-reserved"))
    rounds = list(loop.rounds)
    if rounds and rounds[-1].error:
        return Content.assemble((f"{label} ", "$muted"), (f"▶ waits {rounds[-1].wait_s:.0f}s", "$state-dead"))
    now = time.time()
    steps = [step for done in rounds for step in done.steps if now - step.at_s <= 5]
    moved = sum(step.moved for step in steps) / 5
    last = max((step.at_s for done in rounds for step in done.steps if step.moved), default=0.0)
    words = display.rate(moved) if moved else (f"{display.age((now - last) * 1000)} ago" if last else "idle")
    return Content.assemble(
        (f"{label} ", "$muted"), ("▶ ", "$state-ready"), (words, "$state-ready" if moved else "$data")
    )


def status_line(status: Status, loops: dict[str, Any], width: int) -> tuple[Content, Content]:
    """The first line of the header."""
    narrow = width < 100
    dot = ("● ", "$state-dead" if status.is_lost else "$state-ready")
    left = Content.assemble(
        dot, (display.safe(status.url), "$strong"), "  ", (status.words, "$state-dead" if status.is_lost else "$muted")
    )
    pieces = [loop_words(name, loop, narrow) for name, loop in loops.items()]
    if status.cost:
        pieces.append(Content.styled(status.cost, "$muted"))
    return left, Content("   " if not narrow else "  ").join(pieces)


def queue_line(queue: Queue, rate: Rate, width: int) -> tuple[Content, Content]:
    """The second line on a board: the states' counts, and how fast it goes."""
    wide = width >= 120
    pieces: list[Content] = [Content.styled(display.safe(queue.name), "b $strong")]
    for state in State:
        counts = [count for count in queue.counts if count.state is state]
        if not counts:
            continue
        number, exact = sum(c.count for c in counts), all(c.exact for c in counts)
        text = display.count(number, exact, 9) if wide else display.short_count(number, exact)
        hue = f"$state-{state}" if number else "$muted"
        pieces.append(Content.assemble((f"{state} " if wide else "", "$muted"), (text, hue)))
    left = Content("   " if wide else "  ").join(pieces)
    if queue.paused:
        left = Content.assemble(left, "  ", ("paused", "$state-reserved"))
    drains = rate.drains_s(queue.count("ready"))
    words = [Content.assemble(("in ", "$muted"), display.rate(rate.in_s))] if wide else []
    words.append(Content.assemble(("out ", "$muted"), display.rate(rate.out_s)))
    if any(rate.history):
        words.append(
            Content.styled(display.sparkline(rate.history[-20 if wide else -12 :], 20 if wide else 12), "$state-ready")
        )
    if wide and drains is not None:
        words.append(Content.assemble(("drains in ", "$muted"), display.age(drains * 1000)))
    return left, Content("  ").join(words)
