"""What the frames of a board's panes say: above the place, its count and its filter, below what is marked and in sight.

Pure: from a pane and the picture of its queue to pieces of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rqtui.model import Finding, Place, Queue
from rqtui.text import elision, formats, hearing
from rqtui.text.pieces import Cell, Piece, pieces_of
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.widgets.findings import in_frame
from rqtui.tui.widgets.pane import Pane

_FILTER_CELLS = 10  # that a filter has at least, before the names of the other places make room for it
_MOST_FILTER_CELLS = 40
_LEAST_FINDING = 34  # cells that a finding has in a frame before other words make room for it


def title(number: int, pane: Pane, queue: Queue | None, *, is_folded: bool = False) -> list[Piece]:
    """Of a pane among others: its key, its place, how many stand there, its filter; a folded one has no corner."""
    count = f" {_count(queue, pane.place)} "
    room = pane.outer_size.width - 9 - formats.cell_len(count)  # corners or blanks, and the key
    name = pane.place.name if room < _LEAST_LETTERS else formats.fit(pane.place.name, room).rstrip()
    return [
        *([Piece("  ")] if is_folded else []),
        Piece(f" {number} ", "muted"),
        Piece(name, f"state-{pane.place.state}"),
        Piece(count, "strong"),
        *_filter(pane, pane.size.width - len(pane.place.name) - 16),
    ]


def tabs(panes: Sequence[Pane], current: Pane, queue: Queue | None) -> list[Piece]:
    """Of a pane alone: all places by their keys with their counts, and its filter.

    If that is too long, the names of empty places go, then those of the others become shorter, the longest first; then
    their counts go.
    """
    least = min(_FILTER_CELLS, formats.cell_len(current.expression) + 2) if current.expression else 0
    pieces: list[Piece] = []
    names = frozenset(pane.place.name for pane in panes)
    for form in _FORMS:
        if 0 < form.letters < _LEAST_LETTERS and not _beginnings(names, form.letters):
            continue
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
    """What tabs say of places that are not in sight: names of at most so many `letters`, those of empty places too, and
    counts; of the place in sight `own_letters`. In a tight one an empty place is its key alone, and counts are short;
    `gap` is what stands between two of them beside the blank before a key. Where all else is too long, a key is joined
    to the name behind it."""

    letters: int = 99
    has_empty_names: bool = True
    has_counts: bool = True
    is_tight: bool = False
    gap: str = " "
    own_letters: int = 99
    is_joined: bool = False


_LEAST_LETTERS = 4  # of a name, with `…` for the others; fewer have to tell it apart as they are
_SHORTER = range(9, _LEAST_LETTERS - 1, -1)
_FORMS = (
    _Form(),
    _Form(has_empty_names=False),
    *(_Form(letters, has_empty_names=False) for letters in _SHORTER),
    *(_Form(letters, has_empty_names=False, is_tight=True) for letters in (*_SHORTER, 3, 2)),
    *(_Form(letters, has_empty_names=False, is_tight=True, gap="") for letters in (4, 3, 2)),
    _Form(2, has_empty_names=False, is_tight=True, gap="", own_letters=5),
    *(_Form(letters, has_empty_names=False, is_tight=True, gap="", is_joined=True) for letters in (4, 3, 2)),
    *(_Form(letters, has_counts=False) for letters in (*_SHORTER, 3, 2)),
    _Form(0, has_counts=False),
)


def _places(panes: Sequence[Pane], current: Pane, queue: Queue | None, form: _Form) -> list[Piece]:
    pieces = []
    names = _shortened(frozenset(pane.place.name for pane in panes), form.letters)
    for number, pane in enumerate(panes, 1):
        is_current = pane is current
        count = _count(queue, pane.place, 4 if form.is_tight and not is_current else 6)
        is_empty = count == formats.ZERO
        is_named = is_current or bool(form.letters and (form.has_empty_names or not is_empty))
        is_bare = form.is_tight and is_empty and not is_current
        behind_key = form.gap if is_bare or not is_named else "" if form.is_joined and not is_current else " "
        pieces.append(Piece(f" {number}{behind_key}", "accented" if is_current else "muted"))
        if is_named:
            own = formats.fit(pane.place.name, min(form.own_letters, len(pane.place.name)))
            name = own if is_current else names[pane.place.name]
            pieces.append(Piece(name + " ", f"state-{pane.place.state}" if is_current else "muted"))
        if queue is not None and (is_current or (form.has_counts and not is_bare)):
            hue = "strong" if is_current else "muted" if is_empty else f"state-{pane.place.state}"
            pieces.append(Piece(count + (" " if is_current else form.gap), hue))
    return pieces if form.gap else [*pieces, Piece(" ")]


@lru_cache(64)
def _shortened(names: frozenset[str], letters: int) -> dict[str, str]:
    """Names by their beginnings, as long as these tell them apart."""
    return _beginnings(names, letters) or elision.elided(names, letters)


def _beginnings(names: frozenset[str], letters: int) -> dict[str, str]:
    """Names by their first letters; one of several words that begins like another one by the first letters of its
    words, as `wchi` for `waiting_children` beside `wait`. Nothing where that tells them not apart."""
    made = {name: name[:letters] for name in names}
    often = Counter(made.values())
    for name, begins in made.items():
        *before, last = name.split("_")
        if often[begins] > 1 and before:
            made[name] = ("".join(word[:1] for word in before) + last)[:letters]
    return made if len({*made.values()}) == len(names) else {}


def _count(queue: Queue | None, place: Place, width: int = 8) -> str:
    if queue is None:
        return formats.NOT_YET
    counted = next((c for c in queue.counts if c.place == place.name), None)
    is_known = counted is not None and counted.is_known
    return formats.count(counted.count, counted.exact, width) if counted and is_known else formats.UNKNOWN


def _filter(pane: Pane, room: int) -> list[Piece]:
    """The filter, as much of it as has room."""
    if not pane.expression or room < _FILTER_CELLS // 2:
        return []
    text = formats.fit(f"/{safe(pane.expression)}", min(room, _MOST_FILTER_CELLS)).rstrip()
    return [Piece(text + " ", "accented")]


def below(
    pane: Pane,
    queue: Queue | None,
    *,
    is_current: bool,
    is_frozen: bool,
    findings: Sequence[Finding] = (),
    now_ms: int = 0,
) -> list[Piece]:
    """As much as has room, the most pressing first; of `findings`, which stand nowhere else, the worst."""
    page = pane.page
    total = pane.matching() if pane.accepts is not None else page.total if page else 0
    words: list[Piece] = []
    if pane.whole_place:
        that = " matches" if pane.accepts is not None else ""
        number = formats.count(total, width=12)
        if page is not None and pane.has_more and pane.accepts is None:
            number = formats.count(page.of or 0, False, 12)
        words.append(Piece(f"all {number}{that} marked", "accented"))
    elif pane.marks:
        gone = sum(1 for id in pane.marks if not pane.is_known(id))
        words.append(Piece(f"{len(pane.marks)} marked" + (f" ({gone} gone)" if gone else ""), "accented"))
    if is_frozen:
        words.append(Piece("frozen: p", "accented"))
    words += _found(pane)
    room = pane.size.width - 4
    words += _heard(pane, now_ms, room)
    hints = jobs.hints(queue, pane.place, pane.places) if not findings else []
    words += [
        Piece(hint if formats.cell_len(hint) + 3 <= room else hint.partition(":")[0], style) for hint, style in hints
    ]
    if page and pane.has_more and pane.found is None and pane.accepts is None:
        more = f"{formats.count(page.of or 0, False, 12)} in all: {keys.key('filter')} finds the others"
        words.append(Piece(more, "muted"))
    elif total and page and page.heard is not None and page.of is not None and pane.accepts is None:
        words.append(Piece(hearing.remembered(total, page.of), "muted"))
    elif total and page and page.of is not None and page.heard is None and pane.found is None:
        words.append(Piece(f"a sample of {formats.count(page.of, width=12)}: ] goes on", "muted"))
    if total and is_current:
        first, last = pane.in_sight
        is_all = page is None or page.exact or page.heard is not None
        words.append(Piece(f"{first + 1}-{min(last, total)} of {formats.count(total, is_all, 12)}", "muted"))
    words += same(pane) if is_current else []
    is_chosen = pane.accepts is not None or pane.whole_place  # what somebody asked for is said before what was found
    behind = _fitting(words, room - (_LEAST_FINDING if findings and not is_chosen else 0))
    left = room - sum(formats.cell_len(piece.text) for piece in behind) - 3
    said = in_frame(findings, left, now_ms) if left >= _LEAST_FINDING // 2 else []
    return [Piece(" "), *said, Piece(" ·" if behind else " ", "muted"), *behind] if said else behind


def _heard(pane: Pane, now_ms: int, room: int) -> list[Piece]:
    """Since when the jobs of a place without a key are heard, and what was missed; `since …` where there is no room."""
    heard = pane.page.heard if pane.page else None
    if heard is None or heard.since_ms is None:
        return []
    words = safe(hearing.said(heard, now_ms))
    fitting = words if formats.cell_len(words) + 3 <= room else words.removeprefix("heard ")
    return [Piece(fitting, "muted" if heard.is_whole else "state-reserved")]


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
    if not made.is_cut and pane.place.is_shared:
        return [Piece(f"{number} match", "strong"), Piece(f"among {_number(made.total)} of all queues", "muted")]
    if not made.is_cut:
        return [Piece(f"{number} of {_number(made.total)} match", "strong")]
    part = f"in the first {_number(made.looked)} of {_number(made.total)}"
    problem = [Piece(safe(made.problem), "state-dead")] if made.problem else []
    return [Piece(f"{number}+ match", "state-reserved"), Piece(part, "state-reserved"), *problem]


def _live(pane: Pane) -> str:
    page = pane.page
    if page is None:
        return formats.ZERO
    is_whole = len(page.jobs) >= page.total and not pane.has_more
    return _number(page.total) if is_whole else f"the {_number(len(page.jobs))} loaded"


def _hint(pane: Pane) -> list[Piece]:
    return [Piece("Enter looks through all", "accented")] if pane.is_too_long else []


def _number(number: int) -> str:
    return formats.count(number, width=9) if number else "0"
