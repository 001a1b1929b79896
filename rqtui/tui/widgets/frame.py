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
from textual.geometry import Region
from textual.strip import Strip as Painted
from textual.widget import Widget

from rqtui.model import Queue, Rate, State
from rqtui.text import formats
from rqtui.text.elision import Fit
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.widgets.lines_pane import render_text_line

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop

Sides = tuple[Content, Content]
_assemble_cached = lru_cache(1024)(Content.assemble)  # cached, because most texts of the frame repeat at every refresh
VIEWS_FROM_ROWS = 30  # terminals with this many rows show a line of views
VIEW_NAMES_FROM_CELLS = 112  # terminals with this many cells show the names of all views
_MIN_SHARE_ATTEMPTS = 10  # as of the finding `failing`: one of three is no pattern
_MINUTE_MS, _RECENT_MS = 60_000, 300_000  # recent activity covers five minutes and up to a checkpoint more
RECENT_S = 5.0  # period over which a loop's rate is measured


class Bar(Widget):
    """A widget of lines, each with a text at the left and one at the right edge.

    Only lines that changed are redrawn.
    """

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Sides] = []

    def show_lines(self, *lines: Sides) -> None:
        """Show these (left, right) lines, and redraw the ones that changed."""
        previous, self._lines = self._lines, list(lines)
        if len(lines) != len(previous):
            self.refresh(layout=self.styles.is_auto_height)
            return
        changed = [
            y
            for y, (line, previous_line) in enumerate(zip(lines, previous, strict=True))
            if not _are_sides_equal(line, previous_line)
        ]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render(self) -> RenderResult:
        """Return all lines of the frame's part as one text."""
        return Content("\n").join([align_sides(left, right, self.size.width) for left, right in self._lines])

    def render_line(self, y: int) -> Painted:
        """Draw line `y` only, because usually one line of the frame changes."""
        width = self.size.width
        return render_text_line(self, align_sides(*self._lines[y], width) if y < len(self._lines) else Content(), width)

    def on_click(self, event: Click) -> None:
        """Press the key whose hint was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self._lines):
            line = align_sides(*self._lines[offset.y], self.size.width)
            if not press_key_at_cell(self, line, offset.x):
                self.handle_text_click(offset.y)

    def handle_text_click(self, y: int) -> None:
        """Handle a click beside the keys of line `y`. Subclasses override it."""


def press_key_at_cell(widget: Widget, line: Content, at: int) -> bool:
    """Press the key whose hint covers the cell `at` of a line of a widget. Return whether there is one."""
    sign = find_key_at_cell(line, at)
    if sign:
        widget.app.simulate_key(keys.to_textual_key(sign))
    return bool(sign)


def find_key_at_cell(line: Content, at: int) -> str:
    """Return the key whose hint (from `format_key_hint`) covers the cell `at` of a line, or ""."""
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
    """The header of a view: two lines, and a third with the views on a high terminal."""

    DEFAULT_CSS = "Header { dock: top; height: 2; padding: 0 1; }"


class Strip(Bar):
    """The line of a running demo with its keys and its progress."""

    DEFAULT_CSS = "Strip { dock: bottom; height: 1; padding: 0 1; margin-bottom: 1; background: $raised; }"


class Footer(Bar):
    """The line with the keys that work on the current view and the state of the write lock."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; padding: 0 1; }"


def _are_sides_equal(now: Sides, before: Sides) -> bool:
    # `==` of Content compares only the characters, so it would miss a dot that turns red.
    return now[0].is_same(before[0]) and now[1].is_same(before[1])


def align_sides(left: Content, right: Content, width: int) -> Content:
    """Place `left` and `right` at the edges of `width` cells. If both do not fit, drop `right`, then cut `left`."""
    if left.cell_length + right.cell_length + bool(right) > width:
        left_width = width - right.cell_length - 1
        if left_width < 12:
            right, left_width = Content(), width
        left = left.truncate(max(1, left_width), ellipsis=True)
    return Content.assemble(left, " " * (width - left.cell_length - right.cell_length), right)


def choose_first_fitting(candidates: Iterable[Sides], width: int) -> Sides:
    """Return the first (left, right) candidate that fits into `width` cells, else the last one."""
    candidate = (Content(), Content())
    for left, right in candidates:
        candidate = (left, right)
        if left.cell_length + right.cell_length + 2 <= width:
            break
    return candidate


# -- header ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """The parts of the header's first line: connection, cost of a refresh, profile, server finding and write lock."""

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
    problem: Content = Content()  # the worst finding about the server, with the key that shows all of them
    mode: Content = Content()  # whether changes are possible


def format_status_line(status: Status, loops: Mapping[str, tuple[Loop, bool]] | None, width: int) -> Sides:
    """Format the header's first line: connection and profile on the left, server finding, loops and mode on the right.

    `loops` has each loop and whether it serves the current queue. It is None if changes are locked.
    """

    def build_connection_side(url: str, words: str) -> Content:
        is_wrong = status.is_lost or status.is_wrong
        hue = "$state-dead" if is_wrong else "$state-ready"
        status_text = (f"  {words}" if words else "", "$state-dead" if is_wrong else "$muted")
        badge = (f" {status.badge} ", f"b $ground on {'$state-dead' if status.is_guarded else '$accented'}")
        badge_pieces = (badge, " ") if status.badge else ()
        return _assemble_cached(*badge_pieces, ("✕ " if is_wrong else "● ", hue), (url, "$strong"), status_text)

    def build_state_side(is_short: bool, cost: str, *, has_loops: bool = True) -> Content:
        if status.is_lost:
            return Content()  # the loops wait too; the left side shows the next attempt
        pieces = [status.problem] if status.problem else []
        pieces += [
            format_loop_state(name, loop, is_on, is_short)
            for name, (loop, is_on) in (loops or {}).items()
            if has_loops or not is_on  # A loop that is off is news also where space is short.
        ]
        pieces += [_assemble_cached((cost, "$muted"))] if cost else []
        pieces += [status.mode] if status.mode else []
        return Content("  " if is_short else "   ").join(pieces)

    url = safe(status.url)
    short_url = status.profile or url.partition("://")[2] or url
    url = f"{status.profile}  {url}" if status.profile else url
    short_words, cost = status.short_words, status.short_cost
    elided = formats.elide_middle(short_url, 24)
    important_words = short_words if status.is_lost or status.is_wrong else ""
    variants = (
        (url, status.words, False, status.cost, True),
        (url, status.words, True, cost, True),
        (url, short_words, False, cost, True),
        (url, short_words, True, cost, True),
        (short_url, short_words, True, cost, True),
        (short_url, short_words, True, "", True),
        (short_url, short_words, True, "", False),
        (elided, short_words, True, "", False),
        (elided, important_words, True, "", False),
        (formats.elide_middle(short_url, 14), important_words, True, "", False),
    )
    return choose_first_fitting(
        (
            (build_connection_side(url, status_text), build_state_side(is_short, cost, has_loops=has_loops))
            for url, status_text, is_short, cost, has_loops in variants
        ),
        width,
    )


def format_loop_state(name: str, loop: Loop, is_on: bool, is_short: bool) -> Content:
    """Format the state of a dispatcher or reaper: `dispatch ▶ 118/s`, `reap ■ off`, `reap ▶ waits 5s`."""
    label = name
    if not is_on:
        return _assemble_cached((f"{label} ", "$muted"), ("■ off", "$state-reserved"))
    rounds = list(loop.rounds)
    if rounds and rounds[-1].error:
        return _assemble_cached((f"{label} ", "$muted"), (f"▶ waits {rounds[-1].wait_s:.0f}s", "$state-dead"))
    now_s, moved, last_s = time.time(), 0, 0.0
    for round in reversed(rounds):
        for step in round.steps:
            if step.moved:
                moved += step.moved if now_s - step.at_s <= RECENT_S else 0
                last_s = max(last_s, step.at_s)
        if last_s and now_s - last_s > RECENT_S:
            break  # rounds are ordered by time, so the rest is older
    ago_text = "" if is_short else " ago"
    state_text = (
        formats.format_rate(moved / RECENT_S)
        if moved
        else (formats.format_age((now_s - last_s) * 1000) + ago_text if last_s else "idle")
    )
    return _assemble_cached(
        (f"{label} ", "$muted"), ("▶ ", "$state-ready"), (state_text, "$state-ready" if moved else "$data")
    )


class ViewLink(NamedTuple):
    """An entry of the header for one view: its key, label, number of rows, and whether it is the current view."""

    name: str
    key: str
    label: str
    number: str = ""
    is_current: bool = False


def format_views_line(place: str, queue_name: str, links: Sequence[ViewLink], find_hint: Content, width: int) -> Sides:
    """Format the header's line of views: `queues ▸ mail e errors 3 w workers 9`. A click on an entry opens the view.

    If space is short, first the gaps shrink, then a long queue name, then the labels of views without a number are
    dropped.
    """

    def build_location(cells: int) -> Content:
        name = formats.elide_middle(safe(queue_name), cells) if queue_name else ""
        pieces = ((place, "$muted"), (" ▸ ", "$muted"), (name, "b $strong")) if name else ((place, "b $strong"),)
        return _assemble_cached(*pieces)

    def build_line_sides(gap: int, cells: int, label_of: Callable[[ViewLink], str], right: Content) -> Sides:
        pieces = [_format_view_link(link, label_of(link)) for link in links]
        return Content(" " * gap).join([build_location(cells), *pieces]), right

    def choose_label_of_counted_view(link: ViewLink) -> str:
        return link.label if link.number or link.is_current else ""

    variants = (
        (4, 48, _choose_full_label, find_hint),
        (3, 32, _choose_full_label, find_hint),
        (2, 24, _choose_full_label, Content()),
        (2, 16, _choose_full_label, Content()),
        (2, 16, choose_label_of_counted_view, Content()),
        (2, 12, lambda _door: "", Content()),
    )
    return choose_first_fitting((build_line_sides(*step) for step in variants), width)


def _choose_full_label(link: ViewLink) -> str:
    return link.label


def _format_view_link(link: ViewLink, label: str) -> Content:
    number = (f" {link.number}", "$muted" if link.number == formats.ZERO else "$data") if link.number else ""
    label_text = f" {label}" if label else ""
    return _assemble_cached(
        (link.key, "b $accented"), (label_text, "b $strong" if link.is_current else "$muted"), number
    )


def format_queue_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """Format the header line about a queue: its name and `system`, the counts per state, and its throughput.

    `fit` shortens a long name.
    """
    name, paused = _format_queue_name(queue, width, fit), _format_pause_mark(queue)
    drain_s = rate.estimate_drain_s(queue.count_in_state(State.READY))
    name_and_system = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out, window = _format_in_and_out_rates(queue, rate)

    def build_throughput_text(cells: int, *prefix_pieces: Content) -> Content:
        return _join_nonempty(*prefix_pieces, out, *([window] if cells > 8 else []), _format_sparkline(rate, cells))

    drain_pieces = (
        [Content.assemble(("drains in ", "$muted"), formats.format_age(drain_s * 1000))] if drain_s is not None else []
    )
    counts, short_counts = _format_state_counts(queue, True), _format_state_counts(queue, False)
    counts_text = Content("   ").join([counts, *paused])
    short_counts_text = Content("   ").join([short_counts, *paused])
    return choose_first_fitting(
        (
            (Content.assemble(name_and_system, "   ", counts_text), build_throughput_text(20, *drain_pieces, in_)),
            (Content.assemble(name_and_system, "   ", counts_text), build_throughput_text(12, in_)),
            (Content.assemble(name, "   ", counts_text), build_throughput_text(12, in_)),
            (Content.assemble(name, "  ", short_counts_text), build_throughput_text(12, *drain_pieces)),
            (Content.assemble(name, "  ", short_counts_text), build_throughput_text(8)),
            (Content.assemble(name, "  ", short_counts_text), Content("")),
        ),
        width,
    )


def format_board_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """Format the header line about a queue on a board whose tabs show the counts: throughput, ages and other facts.

    If space is short, `system` is dropped first, then the facts from the last one on. The outgoing rate is dropped
    last.
    """
    name, paused, facts = (
        _format_queue_name(queue, width, fit),
        _format_pause_mark(queue),
        _list_queue_facts(queue, rate),
    )
    name_and_system = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out, window = _format_in_and_out_rates(queue, rate)

    def build_facts_side(first: Content, number: int) -> Content:
        return Content("   ").join([first, *paused, *facts[:number]])

    def build_throughput_text(cells: int) -> Content:
        return _join_nonempty(in_, out, window, _format_sparkline(rate, cells))

    min_facts = min(3, len(facts))  # facts that are shown beside a sparkline
    return choose_first_fitting(
        (
            *((build_facts_side(name_and_system, len(facts)), build_throughput_text(cells)) for cells in (20, 12)),
            *(
                (build_facts_side(name, number), build_throughput_text(cells))
                for number in range(len(facts), min_facts - 1, -1)
                for cells in (12, 8)
            ),
            *((build_facts_side(name, number), build_throughput_text(0)) for number in range(min_facts, 1, -1)),
            *((build_facts_side(name, number), out) for number in range(min_facts, -1, -1)),
            (build_facts_side(name, 0), Content()),
        ),
        width,
    )


def _list_queue_facts(queue: Queue, rate: Rate) -> list[Content]:
    """Return the facts about a queue that no count shows, the most urgent first."""
    drain_s = rate.estimate_drain_s(queue.count_in_state(State.READY))
    failing = format_failure_share(rate, is_short=True) if rate.recent.failed else []
    is_late = bool(queue.overdue), bool(queue.expired)
    facts = (
        ("", f"{formats.format_count(queue.overdue)} due" if is_late[0] else "", "$state-scheduled"),
        ("", f"{formats.format_quantity(queue.expired, 'lease')} over" if is_late[1] else "", "$state-reserved"),
        ("oldest ", formats.format_age(queue.oldest_ready_ms) if queue.oldest_ready_ms is not None else "", "$data"),
        ("drains in ", formats.format_age(drain_s * 1000) if drain_s is not None else "", "$data"),
        ("workers ", formats.format_count(queue.workers) if queue.workers is not None else "", "$data"),
        ("next due in ", _format_time_ahead(queue.next_due_ms, is_late[0]), "$data"),
        ("next lease ends in ", _format_time_ahead(queue.next_expiry_ms, is_late[1]), "$data"),
    )
    fact_texts = [Content.assemble((label, "$muted"), (value, hue)) for label, value, hue in facts if value]
    return [Content.assemble(*failing), *fact_texts] if failing else fact_texts


def _format_time_ahead(ms: int | None, is_late: bool) -> str:
    return "" if ms is None or is_late else formats.format_age(ms)


def _format_queue_name(queue: Queue, width: int, fit: Fit) -> Content:
    return Content.styled(fit(safe(queue.name), max(12, width // 4)), "b $strong")


def _format_pause_mark(queue: Queue) -> list[Content]:
    return [Content.styled("paused", "$state-reserved")] if queue.is_paused else []


def _format_in_and_out_rates(queue: Queue, rate: Rate) -> tuple[Content, Content, Content]:
    """Format the rates of enqueued and completed jobs and the time that they cover.

    Returns empty texts if the queue's system has no counters.
    """
    if not ({"in", "out"} & set(queue.counters) or rate.in_s > 0 or any(rate.history)):
        return Content(), Content(), Content()
    return (
        Content.assemble(("in ", "$muted"), formats.format_rate(rate.in_s)),
        Content.assemble(("out ", "$muted"), formats.format_rate(rate.out_s)),
        Content.styled(format_rate_window(rate), "$muted"),
    )


def _format_sparkline(rate: Rate, cells: int) -> Content:
    bars = formats.build_sparkline(rate.history[-cells:], cells) if cells and any(rate.history) else ""
    return Content.styled(bars, "$state-ready")


def _join_nonempty(*pieces: Content) -> Content:
    return Content("  ").join([piece for piece in pieces if piece.cell_length])


def _format_state_counts(queue: Queue, has_all: bool) -> Content:
    """Format a queue's counts per state: `scheduled 3 901   ready 12 431 …`, or only those of ready and dead jobs."""
    pieces: list[Content] = []
    for state in State if has_all else (State.READY, State.DEAD):
        counts = [count for count in queue.counts if count.state is state and count.is_count_known]
        if not counts:
            continue
        number, is_exact = sum(count.count for count in counts), all(count.is_exact for count in counts)
        hue = f"$state-{state}" if number else "$muted"
        pieces.append(Content.assemble((f"{state} ", "$muted"), (formats.format_count(number, is_exact, 9), hue)))
    return Content("   ").join(pieces)


def format_overview_totals(
    queue_count: int, rate: Rate, match_count: int | None = None, *, is_short: bool = False
) -> Content:
    """Format the throughput of all queues together, for the overview.

    `match_count` is the number that match a filter.
    """
    queue_text = formats.format_quantity(queue_count, "queue", 7)
    gap = "  " if is_short else "   "
    return _assemble_cached(
        (queue_text if match_count is None else f"{formats.format_count(match_count)} of {queue_text}", "b $strong"),
        (f"{gap}in ", "$muted"),
        formats.format_rate(rate.in_s),
        (f"{gap}out ", "$muted"),
        formats.format_rate(rate.out_s),
        (f" {format_rate_window(rate)}".rstrip(), "$muted"),
        *format_failure_share(rate, gap, is_short=is_short),
    )


def format_rate_window(rate: Rate) -> str:
    """Format the time that the rates per second cover: `(1 min)`, or less if a queue was watched for less.

    Empty while the rates are unknown. The exact seconds of a shorter time would change at each refresh.
    """
    return f"({_format_minutes(rate.window_ms)})" if rate.window_ms else ""


def _format_minutes(ms: int) -> str:
    return f"{ms // _MINUTE_MS} min" if ms >= _MINUTE_MS else "<1 min"


def format_failure_share(rate: Rate, gap: str = "", *, is_short: bool = False) -> list[tuple[str, str]]:
    """Format the share of failed attempts and its time window, in styled pieces: `58 % fail (5 min)`.

    The window is that of the finding `failing`: at most the last five minutes. Fewer than ten attempts are no basis for
    a share, so their numbers are shown: `2 of 3 fail (<1 min)`. `gap` is put before the text. Returns an empty list if
    no attempt ended in the window.
    """
    recent, share = rate.recent, rate.recent.failure_share
    if share is None:
        return []
    ended = recent.completed + recent.failed
    percent = f"{100 * share:.0f} %" if not 0 < share < 0.01 else "<1 %"
    if ended < _MIN_SHARE_ATTEMPTS:
        percent = f"{recent.failed} of {ended}"
    window = _format_minutes(min(rate.recent.duration_ms, _RECENT_MS))
    return [
        (f"{gap}{percent}", "$state-dead" if share else "$data"),
        (f" {_describe_failures(ended, is_short=is_short)} ({window})", "$muted"),
    ]


def _describe_failures(ended: int, *, is_short: bool) -> str:
    """Return the words after a share of failed attempts; after few attempts, those of `2 of 3 attempts failed`."""
    if is_short:
        return "fail"
    return "attempts failed" if ended < _MIN_SHARE_ATTEMPTS else "of attempts fail"


# -- footer ------------------------------------------------------------------------------------------------------------

_USABLE_STYLE = "b $accented"
Key = tuple[str, str, bool]  # displayed key, label, whether it is usable now


def format_keys_line(
    verbs: Sequence[Key], near: Sequence[Key], rest: Sequence[Key], last: Sequence[Key], mode: Content, width: int
) -> Sides:
    """Format the footer: as many keys as fit, always with the first of `near` and all of `last`.

    If the verbs do not fit, the keys before the last one lose their labels: first the palette, then the views.
    """
    tail = [_format_key(*key) for key in last]
    width_left = width - mode.cell_length - 2
    for index, number in zip(range(len(last) - 2, -1, -1), (2, 1), strict=False):
        if _count_cells(_format_key(*key) for key in (*verbs, *near[:number])) + _count_cells(tail) > width_left:
            sign, _label, is_usable = last[index]
            tail[index] = _format_key(sign, "", is_usable)
    width_left -= _count_cells(tail)
    required = [_format_key(*key) for key in near[:1]]
    first_keys = [*_format_fitting_keys(verbs, width_left - _count_cells(required)), *required]
    return Content("  ").join(
        [*first_keys, *_format_fitting_keys((*near[1:], *rest), width_left - _count_cells(first_keys)), *tail]
    ), mode


def _count_cells(pieces: Iterable[Content]) -> int:
    """Return the width in cells of these texts with the gap behind each."""
    return sum(piece.cell_length + 2 for piece in pieces)


def _format_fitting_keys(keys: Iterable[Key], width_left: int) -> list[Content]:
    fitting = []
    for piece in (_format_key(*key) for key in keys):
        width_left -= piece.cell_length + 2
        if width_left < 0:
            break
        fitting.append(piece)
    return fitting


def format_key_hint(key: str, label: str) -> Content:
    """Format a key and its label in the style of the frame, as in `R requeue`."""
    return _format_key(key, label, True)


def _format_key(key: str, label: str, is_usable: bool) -> Content:
    label_text = f" {label}" if label else ""
    return _assemble_cached(
        (key, _USABLE_STYLE if is_usable else "$frame"), (label_text, "$muted" if is_usable else "$frame")
    )


def format_strip_line(keys: Sequence[tuple[str, str]], figures: Sequence[str], alarm: str, width: int) -> Sides:
    """Format a demo's keys and as many of its figures as fit. The last key is always shown."""
    alarm_pieces = [Content.styled(alarm, "b $state-dead")] if alarm else []
    *first_keys, last_key = [(key, label, True) for key, label in keys]
    width_left = width - _count_cells([_format_key(*last_key), *alarm_pieces])
    left = Content("  ").join([*_format_fitting_keys(first_keys, width_left), _format_key(*last_key)])

    def build_figures_side(number: int) -> Content:
        return Content("   ").join([*alarm_pieces, *(Content.styled(figure, "$data") for figure in figures[:number])])

    return choose_first_fitting(((left, build_figures_side(number)) for number in range(len(figures), -1, -1)), width)
