"""Draw the frame around every view: header, demo strip and footer.

Text that does not fit is replaced by shorter forms, step by step, before anything is cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.geometry import Region, Size
from textual.strip import Strip as Painted
from textual.widget import Widget

from rqtui.model import Queue, Rate, State
from rqtui.text import formats
from rqtui.text.elision import Fit
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.widgets.lines_pane import render_strip

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop

Sides = tuple[Content, Content]
_assemble_cached = lru_cache(1024)(Content.assemble)  # cached, because most texts of the frame repeat at every refresh
VIEWS_FROM_ROWS = 30  # terminals with this many rows show a line of views
VIEW_NAMES_FROM_CELLS = 112  # terminals with this many cells show the names of all views
RECENT_S = 5.0  # period over which a loop's rate is measured


class Bar(Widget):
    """Lines with a left and a right side. Only lines that changed are redrawn."""

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Sides] = []

    def show_lines(self, *lines: Sides) -> None:
        """Show these lines, and redraw the ones that changed."""
        previous, self._lines = self._lines, list(lines)
        if len(lines) != len(previous):
            self.refresh(layout=self.styles.is_auto_height)
            return
        changed = [y for y, (now, was) in enumerate(zip(lines, previous, strict=True)) if not _is_unchanged(now, was)]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render(self) -> RenderResult:
        """Return all lines as one text."""
        return Content("\n").join([align_sides(left, right, self.size.width) for left, right in self._lines])

    def render_line(self, y: int) -> Painted:
        """Draw line `y` only, because usually one line changes."""
        width = self.size.width
        return render_strip(self, align_sides(*self._lines[y], width) if y < len(self._lines) else Content(), width)

    def on_click(self, event: Click) -> None:
        """Press the key whose hint was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self._lines):
            sign = find_key_at(align_sides(*self._lines[offset.y], self.size.width), offset.x)
            if sign:
                self.app.simulate_key(keys.to_textual_key(sign))


def find_key_at(line: Content, at: int) -> str:
    """Return the key whose hint (from `format_hint`) covers the cell `at` of a line, or ""."""
    text = line.plain
    at = next((index for index in range(len(text)) if formats.cell_len(text[: index + 1]) > at), len(text))
    for span in line.spans:
        if span.style == _USABLE_STYLE and span.start <= at < len(text) and "  " not in text[span.start : at + 1]:
            following = [
                other.start for other in line.spans if other.style == _USABLE_STYLE and other.start > span.start
            ]
            if not following or at < following[0]:
                return text[span.start : span.end].split(" ")[0]
    return ""


class Header(Bar):
    """The header: two lines, and a third with the views on a high terminal."""

    DEFAULT_CSS = "Header { dock: top; height: 2; padding: 0 1; }"


class Findings(Bar):
    """The findings of a queue above the rows of its board."""

    DEFAULT_CSS = "Findings { height: auto; padding: 0 1; }"

    def get_content_height(self, _container: Size, _viewport: Size, _width: int) -> int:
        """Return the number of findings, at least one line for the verdict."""
        return max(1, len(self._lines))


class Strip(Bar):
    """The line of a demo: its keys and its progress."""

    DEFAULT_CSS = "Strip { dock: bottom; height: 1; padding: 0 1; margin-bottom: 1; background: $raised; }"


class Footer(Bar):
    """The line with the keys that work here and the state of the write lock."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; padding: 0 1; }"


def _is_unchanged(now: Sides, before: Sides) -> bool:
    # `==` of Content compares only the characters, so it would miss a dot that turns red.
    return now[0].is_same(before[0]) and now[1].is_same(before[1])


def align_sides(left: Content, right: Content, width: int) -> Content:
    """Place `left` and `right` at the edges of `width` cells. If both do not fit, drop `right`, then cut `left`."""
    if left.cell_length + right.cell_length + 1 > width:
        room = width - right.cell_length - 1
        if room < 12:
            right, room = Content(), width
        if left.cell_length > room:
            left = left.truncate(max(1, room), ellipsis=True)
    return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)


def choose_first_fitting(candidates: Iterable[Sides], width: int) -> Sides:
    """Return the first candidate that fits into `width` cells, else the last one."""
    chosen = (Content(), Content())
    for left, right in candidates:
        chosen = (left, right)
        if left.cell_length + right.cell_length + 2 <= width:
            break
    return chosen


# -- above ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """The parts of the header's first line."""

    url: str
    words: str = ""
    short_words: str = ""
    cost: str = ""
    short_cost: str = ""
    is_lost: bool = False
    is_wrong: bool = False  # connected, but to a server that cannot be used for changes
    badge: str = ""
    profile: str = ""
    is_guarded: bool = False


def format_status_line(status: Status, loops: Mapping[str, tuple[Loop, bool]] | None, width: int) -> Sides:
    """Format the first line of the header.

    `loops` has each loop and whether it serves the current queue. It is None if changes are locked.
    """

    def build_left(url: str, words: str) -> Content:
        is_wrong = status.is_lost or status.is_wrong
        hue = "$state-dead" if is_wrong else "$state-ready"
        said = (f"  {words}" if words else "", "$state-dead" if is_wrong else "$muted")
        badge = (f" {status.badge} ", f"b $ground on {'$state-dead' if status.is_guarded else '$accented'}")
        before = (badge, " ") if status.badge else ()
        return _assemble_cached(*before, ("● ", hue), (url, "$strong"), said)

    def build_right(is_short: bool, cost: str) -> Content:
        if status.is_lost:
            return Content()  # the loops wait too; the left side shows the next attempt
        pieces = [format_loop_state(name, loop, is_on, is_short) for name, (loop, is_on) in (loops or {}).items()]
        if loops is None:
            pieces.append(_assemble_cached(("loops off", "$muted")))
        pieces += [_assemble_cached((cost, "$muted"))] if cost else []
        return Content("  " if is_short else "   ").join(pieces)

    url = safe(status.url)
    bare = status.profile or url.partition("://")[2] or url
    url = f"{status.profile}  {url}" if status.profile else url
    short, cost = status.short_words, status.short_cost
    elided = formats.elide_middle(bare, 24)
    steps = (
        (url, status.words, False, status.cost),
        (url, status.words, True, cost),
        (url, short, False, cost),
        (url, short, True, cost),
        (bare, short, True, cost),
        (bare, short, True, ""),
        (elided, short, True, ""),
        (elided, short if status.is_lost or status.is_wrong else "", True, ""),
    )
    return choose_first_fitting(
        ((build_left(url, said), build_right(is_short, cost)) for url, said, is_short, cost in steps), width
    )


def format_loop_state(name: str, loop: Loop, is_on: bool, is_short: bool) -> Content:
    """Format the state of a loop: `dispatch ▶ 118/s`, `reap ■ off`, `reap ▶ waits 5s`."""
    label = {"dispatch": "dsp"}.get(name, name) if is_short else name
    if not is_on:
        return _assemble_cached((f"{label} ", "$muted"), ("■ off", "$state-reserved"))
    rounds = list(loop.rounds)
    if rounds and rounds[-1].error:
        return _assemble_cached((f"{label} ", "$muted"), (f"▶ waits {rounds[-1].wait_s:.0f}s", "$state-dead"))
    now, moved, last = time.time(), 0, 0.0
    for done in reversed(rounds):
        for step in done.steps:
            if step.moved:
                moved += step.moved if now - step.at_s <= RECENT_S else 0
                last = max(last, step.at_s)
        if last and now - last > RECENT_S:
            break  # rounds are ordered by time, so the rest is older
    ago = "" if is_short else " ago"
    words = (
        formats.format_rate(moved / RECENT_S)
        if moved
        else (formats.format_age((now - last) * 1000) + ago if last else "idle")
    )
    return _assemble_cached(
        (f"{label} ", "$muted"), ("▶ ", "$state-ready"), (words, "$state-ready" if moved else "$data")
    )


class ViewLink(NamedTuple):
    """An entry of the header for one view: its key, label, number of rows, and whether it is the current view."""

    name: str
    key: str
    label: str
    number: str = ""
    is_current: bool = False


def format_views_line(place: str, about: str, links: Sequence[ViewLink], find: Content, width: int) -> Sides:
    """Format the header's line of views: `queues ▸ mail   e errors 3  w workers 9`. A click on an entry opens the view.

    If space is short, first the gaps shrink, then a long queue name, then the labels of views without a number are
    dropped.
    """

    def build_location(cells: int) -> Content:
        name = formats.elide_middle(safe(about), cells) if about else ""
        here = ((place, "$muted"), (" ▸ ", "$muted"), (name, "b $strong")) if name else ((place, "b $strong"),)
        return _assemble_cached(*here)

    def build_sides(gap: int, cells: int, label_of: Callable[[ViewLink], str], right: Content) -> Sides:
        pieces = [_format_link(door, label_of(door)) for door in links]
        return Content(" " * gap).join([build_location(cells), *pieces]), right

    def label_with_number(door: ViewLink) -> str:
        return door.label if door.number or door.is_current else ""

    steps = (
        (4, 48, build_full_label, find),
        (3, 32, build_full_label, find),
        (2, 24, build_full_label, Content()),
        (2, 16, build_full_label, Content()),
        (2, 16, label_with_number, Content()),
        (2, 12, lambda _door: "", Content()),
    )
    return choose_first_fitting((build_sides(*step) for step in steps), width)


def build_full_label(door: ViewLink) -> str:
    return door.label


def _format_link(link: ViewLink, label: str) -> Content:
    number = (f" {link.number}", "$muted" if link.number == formats.ZERO else "$data") if link.number else ""
    words = f" {label}" if label else ""
    return _assemble_cached((link.key, "b $accented"), (words, "b $strong" if link.is_current else "$muted"), number)


def format_queue_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """Format the line about a queue: its name and `system`, the counts per state, and its throughput.

    `fit` shortens a long name.
    """
    name, paused = _format_name(queue, width, fit), _format_paused(queue)
    drains = rate.estimate_drain_s(queue.count_in_state(State.READY))
    named = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out = _format_rates(queue, rate)

    def build_speed(cells: int, *more: Content) -> Content:
        return _join_present(*more, out, _format_sparkline(rate, cells))

    until = (
        [Content.assemble(("drains in ", "$muted"), formats.format_age(drains * 1000))] if drains is not None else []
    )
    words, arrows = _format_counts(queue, True), _format_counts(queue, False)
    said = Content("   ").join([words, *paused])
    short = Content("   ").join([arrows, *paused])
    return choose_first_fitting(
        (
            (Content.assemble(named, "   ", said), build_speed(20, *until, in_)),
            (Content.assemble(named, "   ", said), build_speed(12, in_)),
            (Content.assemble(name, "   ", said), build_speed(12, in_)),
            (Content.assemble(name, "  ", short), build_speed(12, *until)),
            (Content.assemble(name, "  ", short), build_speed(8)),
            (Content.assemble(name, "  ", short), Content("")),
        ),
        width,
    )


def format_board_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """Format the line about a queue on a board whose tabs show the counts: throughput, ages and other facts.

    If space is short, `system` is dropped first, then the facts from the last one on. The outgoing rate is dropped
    last.
    """
    name, paused, facts = _format_name(queue, width, fit), _format_paused(queue), _list_facts(queue, rate)
    named = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out = _format_rates(queue, rate)

    def build_left(of: Content, number: int) -> Content:
        return Content("   ").join([of, *paused, *facts[:number]])

    def build_speed(cells: int) -> Content:
        return _join_present(in_, out, _format_sparkline(rate, cells))

    some = min(3, len(facts))  # facts that are shown beside a sparkline
    return choose_first_fitting(
        (
            *((build_left(named, len(facts)), build_speed(cells)) for cells in (20, 12)),
            *(
                (build_left(name, number), build_speed(cells))
                for number in range(len(facts), some - 1, -1)
                for cells in (12, 8)
            ),
            *((build_left(name, number), build_speed(0)) for number in range(some, 1, -1)),
            *((build_left(name, number), out) for number in range(some, -1, -1)),
            (build_left(name, 0), Content()),
        ),
        width,
    )


def _list_facts(queue: Queue, rate: Rate) -> list[Content]:
    """Return the facts about a queue that no count shows, the most urgent first."""
    drains, failed = rate.estimate_drain_s(queue.count_in_state(State.READY)), rate.failed_s
    is_late = bool(queue.overdue), bool(queue.expired)
    facts = (
        ("failing ", f"{100 * failed / (rate.out_s + failed):.1f} %" if failed else "", "$state-dead"),
        ("", f"{formats.format_count(queue.overdue)} due" if is_late[0] else "", "$state-scheduled"),
        ("", f"{formats.format_quantity(queue.expired, 'lease')} over" if is_late[1] else "", "$state-reserved"),
        ("oldest ", formats.format_age(queue.oldest_ready_ms) if queue.oldest_ready_ms is not None else "", "$data"),
        ("drains in ", formats.format_age(drains * 1000) if drains is not None else "", "$data"),
        ("workers ", formats.format_count(queue.workers) if queue.workers is not None else "", "$data"),
        ("next due in ", _format_time_ahead(queue.next_due_ms, is_late[0]), "$data"),
        ("next lease ends in ", _format_time_ahead(queue.next_expiry_ms, is_late[1]), "$data"),
    )
    return [Content.assemble((label, "$muted"), (value, hue)) for label, value, hue in facts if value]


def _format_time_ahead(ms: int | None, is_late: bool) -> str:
    return "" if ms is None or is_late else formats.format_age(ms)


def _format_name(queue: Queue, width: int, fit: Fit) -> Content:
    return Content.styled(fit(safe(queue.name), max(12, width // 4)), "b $strong")


def _format_paused(queue: Queue) -> list[Content]:
    return [Content.styled("paused", "$state-reserved")] if queue.is_paused else []


def _format_rates(queue: Queue, rate: Rate) -> tuple[Content, Content]:
    """Format the rates of enqueued and completed jobs per second, or nothing if the system has no counters."""
    if not ({"in", "out"} & set(queue.counters) or rate.in_s > 0 or any(rate.history)):
        return Content(), Content()
    return (
        Content.assemble(("in ", "$muted"), formats.format_rate(rate.in_s)),
        Content.assemble(("out ", "$muted"), formats.format_rate(rate.out_s)),
    )


def _format_sparkline(rate: Rate, cells: int) -> Content:
    shown = formats.build_sparkline(rate.history[-cells:], cells) if cells and any(rate.history) else ""
    return Content.styled(shown, "$state-ready")


def _join_present(*pieces: Content) -> Content:
    return Content("  ").join([piece for piece in pieces if piece.cell_length])


def _format_counts(queue: Queue, has_words: bool) -> Content:
    """Format the counts per state: `scheduled 3 901   ready 12 431 …`, or `901 ▸ 12 431 ▸ 64 ▸ 1.2M × 9 912`."""
    pieces: list[Content] = []
    for state in State:
        counts = [count for count in queue.counts if count.state is state and count.is_count_known]
        if not counts:
            continue
        number, exact = sum(c.count for c in counts), all(c.is_exact for c in counts)
        hue = f"$state-{state}" if number else "$muted"
        if has_words:
            pieces.append(Content.assemble((f"{state} ", "$muted"), (formats.format_count(number, exact, 9), hue)))
            continue
        sign = "" if not pieces else (" × " if state is State.DEAD else " ▸ ")
        pieces.append(Content.assemble((sign, "$muted"), (formats.format_count(number, exact), hue)))
    return Content("   " if has_words else "").join(pieces)


def format_totals(number: int, rate: Rate, found: int | None = None) -> Content:
    """Format the rates of all queues together, for the overview. `found` is the number that match a filter."""
    share = 100 * rate.failed_s / (rate.out_s + rate.failed_s) if rate.failed_s else 0.0
    failing = (f"{share:.1f} %", "$state-dead") if share else (formats.ZERO, "$data")
    several = formats.format_quantity(number, "queue", 7)
    return _assemble_cached(
        (several if found is None else f"{formats.format_count(found)} of {several}", "b $strong"),
        ("   in ", "$muted"),
        formats.format_rate(rate.in_s),
        ("   out ", "$muted"),
        formats.format_rate(rate.out_s),
        ("   failing ", "$muted"),
        failing,
    )


# -- below ------------------------------------------------------------------------------------------------------------

_USABLE_STYLE = "b $accented"
Key = tuple[str, str, bool]  # displayed key, label, whether it is usable now


def format_keys_line(
    verbs: Sequence[Key], near: Sequence[Key], rest: Sequence[Key], last: Sequence[Key], mode: Content, width: int
) -> Sides:
    """Format the footer: as many keys as fit, always with the first of `near` and all of `last`.

    If the verbs do not fit, the keys before the last one lose their labels: first the palette, then the views.
    """
    tail = [_format_key(*key) for key in last]
    room = width - mode.cell_length - 2
    for at, number in zip(range(len(last) - 2, -1, -1), (2, 1), strict=False):
        if _count_cells(_format_key(*key) for key in (*verbs, *near[:number])) + _count_cells(tail) > room:
            sign, _label, is_usable = last[at]
            tail[at] = _format_key(sign, "", is_usable)
    room -= _count_cells(tail)
    must = [_format_key(*key) for key in near[:1]]
    head = [*_format_fitting_keys(verbs, room - _count_cells(must)), *must]
    return Content("  ").join(
        [*head, *_format_fitting_keys((*near[1:], *rest), room - _count_cells(head)), *tail]
    ), mode


def _count_cells(pieces: Iterable[Content]) -> int:
    """Return the width of these texts with the gap behind each."""
    return sum(piece.cell_length + 2 for piece in pieces)


def _format_fitting_keys(keys: Iterable[Key], room: int) -> list[Content]:
    fitting = []
    for piece in (_format_key(*key) for key in keys):
        room -= piece.cell_length + 2
        if room < 0:
            break
        fitting.append(piece)
    return fitting


def format_hint(key: str, label: str) -> Content:
    """Format a key and its label in the style of the frame."""
    return _format_key(key, label, True)


def _format_key(key: str, label: str, is_usable: bool) -> Content:
    said = f" {label}" if label else ""
    return _assemble_cached(
        (key, _USABLE_STYLE if is_usable else "$frame"), (said, "$muted" if is_usable else "$frame")
    )


def format_strip_line(keys: Sequence[tuple[str, str]], figures: Sequence[str], alarm: str, width: int) -> Sides:
    """Format a demo's keys and as many of its figures as fit. The last key is always shown."""
    alarmed = [Content.styled(alarm, "b $state-dead")] if alarm else []
    *first, last = [(key, label, True) for key, label in keys]
    room = width - _count_cells([_format_key(*last), *alarmed])
    left = Content("  ").join([*_format_fitting_keys(first, room), _format_key(*last)])

    def build_right(number: int) -> Content:
        return Content("   ").join([*alarmed, *(Content.styled(each, "$data") for each in figures[:number])])

    return choose_first_fitting(((left, build_right(number)) for number in range(len(figures), -1, -1)), width)
