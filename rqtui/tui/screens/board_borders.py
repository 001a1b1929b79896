"""Build the frame texts of a board's panes: place, count and filter at the top, marks and visible rows at the bottom.

The functions are pure, from a pane and its queue to pieces of text.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import NamedTuple

from rqtui.model import Page, Place, Queue
from rqtui.text import elision, event_coverage, formats
from rqtui.text.pieces import Cell, Piece, convert_cell_to_pieces
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format import jobs
from rqtui.tui.widgets.pane import Pane

_FILTER_CELLS = 10  # minimum cells of a filter before the names of other places are shortened for it
_MOST_FILTER_CELLS = 40


def build_pane_title(number: int, pane: Pane, queue: Queue | None, *, is_folded: bool = False) -> list[Piece]:
    """Return the frame title of a pane beside others: its key, place name, count and filter.

    A folded pane has no corner, so two blanks replace it.
    """
    count = f" {_format_place_count(queue, pane.place)} "
    name_cells = pane.outer_size.width - 9 - formats.cell_len(count)  # minus corners or blanks, and the key
    name = (
        pane.place.name if name_cells < _LEAST_LETTERS else formats.fit_to_width(pane.place.name, name_cells).rstrip()
    )
    return [
        *([Piece("  ")] if is_folded else []),
        Piece(f" {number} ", "muted"),
        Piece(name, f"state-{pane.place.state}"),
        Piece(count, "strong"),
        *_format_filter_pieces(pane, pane.size.width - len(pane.place.name) - 16),
    ]


def build_title_with_tabs(panes: Sequence[Pane], current: Pane, queue: Queue | None) -> list[Piece]:
    """Return the frame title of a pane shown alone: all places with their keys and counts, and its filter.

    If that is too long, first the names of empty places are dropped, then counts are shortened and tabs are separated
    by single blanks. Only then the other names are shortened, the longest first, and finally their counts are dropped.
    """
    min_filter_cells = min(_FILTER_CELLS, formats.cell_len(current.expression) + 2) if current.expression else 0
    pieces: list[Piece] = []
    names = frozenset(pane.place.name for pane in panes)
    for form in _FORMS:
        if 0 < form.letters < _LEAST_LETTERS and not _take_first_letters(names, form.letters):
            continue
        pieces = _build_place_tabs(panes, current, queue, form)
        if _count_free_cells(current, pieces) >= min_filter_cells:
            break
    return [*pieces, *_format_filter_pieces(current, _count_free_cells(current, pieces))]


def build_tabs_on_two_lines(
    panes: Sequence[Pane], current: Pane, queue: Queue | None, width: int, *, has_line: bool = False
) -> tuple[list[Piece], list[Piece]] | None:
    """Return the tabs of all places with whole names as a line of `width` cells above the frame, and the frame's title.

    None if whole names fit into the title alone and the line does not exist yet (`has_line`), or if they do not even
    fit into both.
    """
    if not has_line and _count_free_cells(current, _build_place_tabs(panes, current, queue, _WHOLE_FORMS[-1])) >= 0:
        return None
    for form in _WHOLE_FORMS:
        tabs = _list_place_tabs(panes, current, queue, form)
        line: list[Piece] = []
        while len(tabs) > 1 and sum(formats.cell_len(piece.text) for piece in (*line, *tabs[0])) <= width:
            line += tabs.pop(0)
        title = [piece for tab in tabs for piece in tab]
        filter_cells = min(_FILTER_CELLS, formats.cell_len(current.expression) + 2) if current.expression else 0
        if _count_free_cells(current, title) >= filter_cells:
            return line, [*title, *_format_filter_pieces(current, _count_free_cells(current, title))]
    return None


def find_clicked_place_number(cells: Sequence[Cell], x: int) -> int:
    """Return the number of the place whose tab is `x` cells from the left of a frame's top line, or 0."""
    number, end = 0, 0
    for text, _style in (piece for cell in cells for piece in convert_cell_to_pieces(cell)):
        if end > x or text.startswith("/"):
            break
        word = text.strip()
        if text.startswith(" ") and word.isdecimal() and (not number or int(word) == number + 1):
            number = int(word)
        end += formats.cell_len(text)
    return number if end > x >= 0 else 0


def _count_free_cells(pane: Pane, pieces: Sequence[Piece]) -> int:
    return pane.size.width - sum(formats.cell_len(piece.text) for piece in pieces) - 4


class _TabForm(NamedTuple):
    """One way to shorten the tabs in a frame, which are tried in order until the tabs fit.

    `letters` is the maximum length of the names of other places, `own_letters` that of the current place.
    `has_empty_names` and `has_counts` say whether empty places have names and places have counts. In a tight form an
    empty place is only its key, and counts are short. `gap` separates two tabs in addition to the blank before a key. A
    joined form has no blank between a key and its name. `is_rounded` shortens `20.9k` to `21k`.
    """

    letters: int = sys.maxsize
    has_empty_names: bool = True
    has_counts: bool = True
    is_tight: bool = False
    gap: str = " "
    own_letters: int = sys.maxsize
    is_joined: bool = False
    is_rounded: bool = False


_LEAST_LETTERS = 4  # letters of a shortened name with `…`; shorter names must be distinct without it
_SHORTER = range(9, _LEAST_LETTERS - 1, -1)
_FORMS = (
    _TabForm(),
    _TabForm(has_empty_names=False),
    _TabForm(has_empty_names=False, is_tight=True),
    _TabForm(has_empty_names=False, is_tight=True, gap=""),
    _TabForm(has_empty_names=False, is_tight=True, gap="", is_rounded=True),
    *(_TabForm(letters, has_empty_names=False) for letters in _SHORTER),
    *(_TabForm(letters, has_empty_names=False, is_tight=True) for letters in (*_SHORTER, 3, 2)),
    *(_TabForm(letters, has_empty_names=False, is_tight=True, gap="") for letters in (4, 3, 2)),
    _TabForm(2, has_empty_names=False, is_tight=True, gap="", own_letters=5),
    *(_TabForm(letters, has_empty_names=False, is_tight=True, gap="", is_joined=True) for letters in (4, 3, 2)),
    *(_TabForm(letters, has_counts=False) for letters in (*_SHORTER, 3, 2)),
    _TabForm(0, has_counts=False),
)


_WHOLE_FORMS = _FORMS[:5]  # the forms in which no name loses a letter


def _build_place_tabs(panes: Sequence[Pane], current: Pane, queue: Queue | None, form: _TabForm) -> list[Piece]:
    pieces = [piece for tab in _list_place_tabs(panes, current, queue, form) for piece in tab]
    return pieces if form.gap else [*pieces, Piece(" ")]


def _list_place_tabs(panes: Sequence[Pane], current: Pane, queue: Queue | None, form: _TabForm) -> list[list[Piece]]:
    """Return the tab of each place in one form."""
    names = _shorten_place_names(frozenset(pane.place.name for pane in panes), form.letters)
    return [
        _build_current_tab(number, pane.place, queue, form)
        if pane is current
        else _build_other_tab(number, pane.place, names[pane.place.name], queue, form)
        for number, pane in enumerate(panes, 1)
    ]


def _build_current_tab(number: int, place: Place, queue: Queue | None, form: _TabForm) -> list[Piece]:
    name = formats.fit_to_width(place.name, min(form.own_letters, len(place.name)))
    count = [Piece(f"{_format_tab_count(queue, place, form, 6 if form.gap else 4)}{form.gap}", "strong")]
    tab = [Piece(f" {number} ", "accented"), Piece(f"{name} ", f"state-{place.state}")]
    return [*tab, *count] if queue is not None else tab


def _build_other_tab(number: int, place: Place, name: str, queue: Queue | None, form: _TabForm) -> list[Piece]:
    count = _format_tab_count(queue, place, form, 4 if form.is_tight else 6)
    is_empty = count == formats.ZERO
    is_named = bool(form.letters and (form.has_empty_names or not is_empty))
    is_only_key = is_empty and (form.is_tight or not is_named)
    separator = form.gap if is_only_key or not is_named else "" if form.is_joined else " "
    pieces = [Piece(f" {number}{separator}", "muted")]
    if is_named:
        pieces.append(Piece(f"{name} ", "muted"))
    if queue is not None and form.has_counts and not is_only_key:
        pieces.append(Piece(count + form.gap, "muted" if is_empty else f"state-{place.state}"))
    return pieces


def _format_tab_count(queue: Queue | None, place: Place, form: _TabForm, width: int) -> str:
    """Return the number of jobs of a place; in a form with rounded counts `21k` instead of `20.9k`."""
    count = _format_place_count(queue, place, width)
    sign = formats.ABOUT if count.startswith(formats.ABOUT) else ""
    integer, _point, fraction = count.removeprefix(sign).partition(".")
    if not form.is_rounded or not fraction or len(integer) < 2:
        return count
    return f"{sign}{round(float(f'{integer}.{fraction[:-1]}'))}{fraction[-1]}"


@lru_cache(64)
def _shorten_place_names(names: frozenset[str], letters: int) -> dict[str, str]:
    """Shorten place names to at most `letters` letters, each still distinct."""
    return _take_first_letters(names, letters) or elision.elide_names(names, letters)


def _take_first_letters(names: frozenset[str], letters: int) -> dict[str, str]:
    """Shorten names to their first letters, or return {} if two of them would be equal.

    A name of several words that begins like another name uses the first letters of its words: `wchi` for
    `waiting_children` beside `wait`.
    """
    short_names = {name: name[:letters] for name in names}
    frequency = Counter(short_names.values())
    for name, beginning in short_names.items():
        *first_words, last_word = name.split("_")
        if frequency[beginning] > 1 and first_words:
            short_names[name] = ("".join(word[:1] for word in first_words) + last_word)[:letters]
    return short_names if len({*short_names.values()}) == len(names) else {}


def _format_place_count(queue: Queue | None, place: Place, width: int = 8) -> str:
    if queue is None:
        return formats.NOT_YET
    place_count = next((count for count in queue.counts if count.place == place.name), None)
    is_known = place_count is not None and place_count.is_count_known
    return (
        formats.format_count(place_count.count, place_count.is_exact, width)
        if place_count and is_known
        else formats.UNKNOWN
    )


def _format_filter_pieces(pane: Pane, cells: int) -> list[Piece]:
    """Return the filter of a pane for its frame, cut to `cells` cells; empty without a filter."""
    if not pane.expression or cells < _FILTER_CELLS // 2:
        return []
    text = formats.fit_to_width(f"/{format_field_value(pane.expression)}", min(cells, _MOST_FILTER_CELLS)).rstrip()
    return [Piece(text + " ", "accented")]


def build_pane_bottom_line(
    pane: Pane,
    queue: Queue | None,
    *,
    is_current: bool,
    is_frozen: bool,
    scripts: Container[str],
    now_ms: int,
) -> list[Piece]:
    """Return the bottom line of a pane's frame: the most important texts that fit.

    `scripts` are the names of the system's scripts.
    """
    page = pane.page
    total = pane.count_matches() if pane.job_filter is not None else page.total if page else 0
    texts = _format_mark_count(pane, total)
    if is_frozen:
        texts.append(Piece("frozen: p", "accented"))
    texts += _format_match_count(pane)
    width = pane.size.width - 4
    texts += _format_event_coverage(pane, now_ms, width)
    texts += _format_record(pane, width)
    hints = jobs.build_place_hints(queue, pane.place, pane.places, scripts)
    texts += [
        Piece(hint if formats.cell_len(hint) + 3 <= width else hint.partition(":")[0], style) for hint, style in hints
    ]
    texts += _format_loaded_part(pane, total)
    if total and is_current:
        first, last = pane.visible_range
        is_exact = page is None or page.is_exact or page.coverage is not None
        texts.append(
            Piece(f"rows {first + 1}-{min(last, total)} of {formats.format_count(total, is_exact, 12)}", "muted")
        )
    texts += format_common_values(pane) if is_current else []
    return _join_fitting_texts(texts, width)


def _format_mark_count(pane: Pane, total: int) -> list[Piece]:
    """Return how many jobs of the pane are marked, empty for none.

    `total` jobs are in the place or match its filter.
    """
    if pane.is_whole_place:
        suffix = " matches" if pane.job_filter is not None else ""
        number = formats.format_count(total, width=12)
        if pane.page is not None and pane.has_more and pane.job_filter is None:
            number = formats.format_count(pane.page.place_total or 0, False, 12)
        return [Piece(f"all {number}{suffix} marked", "accented")]
    if not pane.marks:
        return []
    missing_marks = sum(1 for job_id in pane.marks if not pane.is_still_in_place(job_id))
    missing_text = f" ({missing_marks} gone)" if missing_marks else ""
    return [Piece(f"{len(pane.marks)} marked{missing_text}", "accented")]


def _format_loaded_part(pane: Pane, total: int) -> list[Piece]:
    """Return of which longer list, place or sample the loaded jobs of a pane are a part.

    The result is empty if all jobs of the place are loaded.
    """
    page = pane.page
    if page is None:
        return []
    if pane.has_more and pane.scan_result is None and pane.job_filter is None:
        members = formats.format_count(page.place_total or 0, False, 12)
        list_hint = f"{members} in all: {keys.find_current_key('filter')} finds the others"
        return [Piece(list_hint, "muted")]
    if not total or page.place_total is None:
        return []
    if page.coverage is not None and pane.job_filter is None:
        return [Piece(event_coverage.describe_cached_event_jobs(total, page.place_total), "muted")]
    if page.coverage is None and pane.scan_result is None:
        return [Piece(f"part of {formats.format_count(page.place_total, width=12)}: ] shows the next", "muted")]
    return []


def _format_record(pane: Pane, width: int) -> list[Piece]:
    """Return how many of the jobs of a place were recorded, and when, shortened if it does not fit `width` cells.

    The result is empty for a pane with the jobs of now.
    """
    page = pane.page
    if page is None or page.record is None:
        return []
    at_ms, total, is_exact = page.record
    part = f"first {len(page.jobs)}"
    if total is not None and total <= len(page.jobs):
        part = f"all {len(page.jobs)}"
    elif total is not None:
        part += f" of {formats.format_count(total, is_exact, 12)}"
    clock = formats.format_clock(at_ms)
    text = f"{part}, at {clock}"
    fitting_text = text if formats.cell_len(text) + 3 <= width else f"{part.removeprefix('first ')}, {clock}"
    return [Piece(fitting_text, "strong")]


def _format_event_coverage(pane: Pane, now_ms: int, width: int) -> list[Piece]:
    """Return since when jobs of a place without a key are counted from Pub/Sub events, shortened to `width` cells."""
    coverage = pane.page.coverage if pane.page else None
    if coverage is None or coverage.since_ms is None:
        return []
    text = safe(event_coverage.describe_event_coverage(coverage, now_ms))
    fitting_text = text if formats.cell_len(text) + 3 <= width else text.removeprefix("from Pub/Sub events ")
    return [Piece(fitting_text, "muted" if coverage.is_complete else "state-reserved")]


def format_common_values(pane: Pane) -> list[Piece]:
    """Return the values that all rows of a pane have in common, such as `in every row: queue orders, attempts 1/5`."""
    pairs = ", ".join(f"{name} {value}" for name, value in pane.shared_values)
    return [Piece(f"in every row: {pairs}", "muted")] if pairs and pane.rows else []


def _join_fitting_texts(texts: Sequence[Piece], cells_left: int) -> list[Piece]:
    pieces: list[Piece] = []
    for text_piece in texts:
        cells = formats.cell_len(text_piece.text) + 3
        if cells > cells_left and (pieces or cells_left <= 0):
            continue
        cells_left -= cells
        pieces += [Piece(" · " if pieces else " ", "muted"), text_piece]
    return [*pieces, Piece(" ")] if pieces else []


def _format_match_count(pane: Pane) -> list[Piece]:
    """Return how many jobs match the pane's filter, and how much of the place was searched."""
    page, scan = pane.page, pane.scan_result
    if pane.job_filter is None:
        return []
    number = _format_number(pane.count_matches())
    if scan is None:
        if page is None:
            return []
        total = _format_loaded_total(page, pane.has_more)
        return [Piece(f"{number} of {total} match", "strong"), *_format_scan_hint(pane)]
    if not scan.is_finished:
        progress = f"{formats.format_long_count(scan.scanned)} of {formats.format_long_count(scan.total)} searched"
        return [
            Piece(f"{number} match", "strong"),
            Piece(progress, "muted"),
            Piece(keys.apply_keymap("Esc stops"), "accented"),
        ]
    if not scan.is_cut and pane.place.is_shared:
        return [Piece(f"{number} match", "strong"), Piece(f"among {_format_number(scan.total)} of all queues", "muted")]
    if not scan.is_cut:
        return [Piece(f"{number} of {_format_number(scan.total)} match", "strong")]
    scope_text = f"in the first {_format_number(scan.scanned)} of {_format_number(scan.total)}"
    problem = [Piece(format_field_value(scan.problem), "state-dead")] if scan.problem else []
    return [Piece(f"{number}+ match", "state-reserved"), Piece(scope_text, "state-reserved"), *problem]


def _format_loaded_total(page: Page, has_more: bool) -> str:
    is_complete = len(page.jobs) >= page.total and not has_more
    return _format_number(page.total) if is_complete else f"the {_format_number(len(page.jobs))} loaded"


def _format_scan_hint(pane: Pane) -> list[Piece]:
    return [Piece("Enter searches all", "accented")] if pane.is_too_long else []


def _format_number(number: int) -> str:
    return formats.format_long_count(number) if number else "0"
