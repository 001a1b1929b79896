"""What the frames of a board's panes say: above the place, its count and its filter, below what is marked and in sight.

Pure: from a pane and the picture of its queue to pieces of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rqtui.model import Finding, Place, Queue
from rqtui.text import formats
from rqtui.text.pieces import Cell, Piece, pieces_of
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.widgets.findings import in_frame
from rqtui.tui.widgets.pane import Pane

_FILTER_CELLS = 10  # that a filter has at least, before the names of the other places make room for it
_MOST_FILTER_CELLS = 40
_LEAST_FINDING = 34  # cells that a finding has in a frame before other words make room for it


def title(number: int, pane: Pane, queue: Queue | None) -> list[Piece]:
    """Of a pane among others: its key, its place, how many stand there, its filter."""
    return [
        Piece(f" {number} ", "muted"),
        Piece(pane.place.name, f"state-{pane.place.state}"),
        Piece(f" {_count(queue, pane.place)} ", "strong"),
        *_filter(pane, pane.size.width - len(pane.place.name) - 16),
    ]


def tabs(panes: Sequence[Pane], current: Pane, queue: Queue | None) -> list[Piece]:
    """Of a pane alone: all places by their keys with their counts, and its filter.

    If that is too long, the names of the others go, those of empty places first, then their counts.
    """
    least = min(_FILTER_CELLS, formats.cell_len(current.expression) + 2) if current.expression else 0
    pieces: list[Piece] = []
    for form in _FORMS:
        pieces = _places(panes, current, queue, form)
        if _room(current, pieces) >= least:
            break
    return [*pieces, *_filter(current, _room(current, pieces))]


def place_at(cells: Sequence[Cell], at: int) -> int:
    """The number of the place whose words stand `at` cells from the beginning of a frame's top line; 0: none does."""
    number, end = 0, 0
    for text, _style in (piece for cell in cells for piece in pieces_of(cell)):
        if end > at or text.startswith("/"):
            break
        word = text.strip()
        if text.startswith(" ") and word.isdecimal() and (not number or int(word) == number + 1):
            number = int(word)
        end += formats.cell_len(text)
    return number if end > at >= 0 else 0


def _room(pane: Pane, pieces: Sequence[Piece]) -> int:
    return pane.size.width - sum(formats.cell_len(piece.text) for piece in pieces) - 4


class _Form(NamedTuple):
    """What tabs say of places that are not in sight: names, those of empty places too, and counts."""

    has_names: bool = True
    has_empty_names: bool = True
    has_counts: bool = True


_FORMS = (_Form(), _Form(has_empty_names=False), _Form(has_names=False), _Form(has_names=False, has_counts=False))


def _places(panes: Sequence[Pane], current: Pane, queue: Queue | None, form: _Form) -> list[Piece]:
    pieces = []
    for number, pane in enumerate(panes, 1):
        is_current = pane is current
        count = _count(queue, pane.place, 6)
        is_empty = count == formats.ZERO
        pieces.append(Piece(f" {number} ", "accented" if is_current else "muted"))
        if is_current or (form.has_names and (form.has_empty_names or not is_empty)):
            pieces.append(Piece(pane.place.name + " ", f"state-{pane.place.state}" if is_current else "muted"))
        if queue is not None and (is_current or form.has_counts):
            hue = "strong" if is_current else "muted" if is_empty else f"state-{pane.place.state}"
            pieces.append(Piece(count + " ", hue))
    return pieces


def _count(queue: Queue | None, place: Place, width: int = 8) -> str:
    if queue is None:
        return formats.NOT_YET
    counted = next((c for c in queue.counts if c.place == place.name), None)
    return formats.count(counted.count, counted.exact, width) if counted else formats.UNKNOWN


def _filter(pane: Pane, room: int) -> list[Piece]:
    """The filter, as much of it as has room."""
    if not pane.expression or room < _FILTER_CELLS // 2:
        return []
    text = formats.fit(f"/{safe(pane.expression)}", min(room, _MOST_FILTER_CELLS)).rstrip()
    return [Piece(text + " ", "accented")]


def below(
    pane: Pane, queue: Queue | None, *, is_current: bool, is_frozen: bool, findings: Sequence[Finding] = ()
) -> list[Piece]:
    """As much as has room, the most pressing first; of `findings`, which stand nowhere else, the worst."""
    page = pane.page
    total = pane.matching() if pane.accepts is not None else page.total if page else 0
    words: list[Piece] = []
    if pane.whole_place:
        that = " matches" if pane.accepts is not None else ""
        words.append(Piece(f"all {formats.count(total, width=12)}{that} marked", "accented"))
    elif pane.marks:
        gone = sum(1 for id in pane.marks if not pane.is_known(id))
        words.append(Piece(f"{len(pane.marks)} marked" + (f" ({gone} gone)" if gone else ""), "accented"))
    if is_frozen:
        words.append(Piece("frozen: p", "accented"))
    words += _found(pane)
    hints = jobs.hints(queue, pane.place.state, pane.late_at) if not findings else []
    words += [Piece(hint, style) for hint, style in hints]
    if total and page and page.of is not None and pane.found is None:
        words.append(Piece(f"a sample of {formats.count(page.of, width=12)}: ] goes on", "muted"))
    if total and is_current:
        first, last = pane.in_sight
        words.append(Piece(f"{first + 1}-{min(last, total)} of {formats.count(total, width=12)}", "muted"))
    words += same(pane) if is_current else []
    room = pane.size.width - 4
    is_chosen = pane.accepts is not None or pane.whole_place  # what somebody asked for is said before what was found
    behind = _fitting(words, room - (_LEAST_FINDING if findings and not is_chosen else 0))
    left = room - sum(formats.cell_len(piece.text) for piece in behind) - 3
    said = in_frame(findings, left) if left >= _LEAST_FINDING // 2 else []
    return [Piece(" "), *said, Piece(" ·" if behind else " ", "muted"), *behind] if said else behind


def same(pane: Pane) -> list[Piece]:
    """`all have queue=orders, attempts=1/5`: what no row says."""
    pairs = ", ".join(f"{name}={value}" for name, value in pane.same)
    return [Piece(f"all have {pairs}", "muted")] if pairs and pane.rows else []


def _fitting(words: Sequence[Piece], room: int) -> list[Piece]:
    said: list[Piece] = []
    for word in words:
        cells = formats.cell_len(word.text) + 3
        if cells > room and (said or room <= 0):
            continue
        room -= cells
        said += [Piece(" · " if said else " ", "muted"), word]
    return [*said, Piece(" ")] if said else []


def _found(pane: Pane) -> list[Piece]:
    """What the frame says of a pane's filter."""
    if pane.accepts is None or (pane.page is None and pane.found is None):
        return []
    number = _number(pane.matching())
    if pane.found is None:
        return [Piece(f"{number} of {_live(pane)} match", "strong"), *_hint(pane)]
    made = pane.found
    if not made.is_over:
        looked = f"{formats.count(made.looked, width=9)} of {formats.count(made.total, width=9)} looked at"
        return [
            Piece(f"{number} match", "strong"),
            Piece(looked, "muted"),
            Piece(keys.renamed("Esc stops"), "accented"),
        ]
    if not made.is_cut:
        return [Piece(f"{number} of {_number(made.total)} match", "strong")]
    part = f"in the first {_number(made.looked)} of {_number(made.total)}"
    problem = [Piece(safe(made.problem), "state-dead")] if made.problem else []
    return [Piece(f"{number}+ match", "state-reserved"), Piece(part, "state-reserved"), *problem]


def _live(pane: Pane) -> str:
    page = pane.page
    if page is None:
        return formats.ZERO
    return _number(page.total) if len(page.jobs) >= page.total else f"the {_number(len(page.jobs))} loaded"


def _hint(pane: Pane) -> list[Piece]:
    return [Piece("Enter looks through all", "accented")] if pane.is_too_long else []


def _number(number: int) -> str:
    return formats.count(number, width=9) if number else "0"
