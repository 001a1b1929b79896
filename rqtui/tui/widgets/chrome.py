"""The frame around every view: two lines above (where, how it is, what the loops do), a demo's strip, the keys below.

What does not fit is said shorter, in steps, before anything is cut.
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
from rqtui.tui.widgets.drawn import strip

if TYPE_CHECKING:
    from rqtui.engine.loops import Loop

Sides = tuple[Content, Content]
_said = lru_cache(1024)(Content.assemble)  # the frame says the same at nearly every picture: made once
HIGH = 30  # rows of a terminal from which on there is a line for the views
NAMED = 112  # cells of it from which on all of them have names there
RECENT_S = 5.0  # a loop's rate is that of the last seconds


class Bar(Widget):
    """Lines with a left and a right side, drawn again only where they changed."""

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Sides] = []

    def show(self, *lines: Sides) -> None:
        """Draws these lines."""
        before, self._lines = self._lines, list(lines)
        if len(lines) != len(before):
            self.refresh(layout=self.styles.is_auto_height)
            return
        changed = [y for y, (now, was) in enumerate(zip(lines, before, strict=True)) if not _is_same(now, was)]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render(self) -> RenderResult:
        """The lines, left and right."""
        return Content("\n").join([spread(left, right, self.size.width) for left, right in self._lines])

    def render_line(self, y: int) -> Painted:
        """Line `y`: what changes is mostly one of them."""
        width = self.size.width
        return strip(self, spread(*self._lines[y], width) if y < len(self._lines) else Content(), width)

    def on_click(self, event: Click) -> None:
        """A click on a key, or on the words behind it, presses the key."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self._lines):
            sign = key_at(spread(*self._lines[offset.y], self.size.width), offset.x)
            if sign:
                self.app.simulate_key(keys.named(sign))


def key_at(line: Content, at: int) -> str:
    """The key whose hint (`hint` made it) stands at a cell of a line; empty where none does."""
    text = line.plain
    at = next((index for index in range(len(text)) if formats.cell_len(text[: index + 1]) > at), len(text))
    for span in line.spans:
        if span.style == _USABLE and span.start <= at < len(text) and "  " not in text[span.start : at + 1]:
            following = [other.start for other in line.spans if other.style == _USABLE and other.start > span.start]
            if not following or at < following[0]:
                return text[span.start : span.end].split(" ")[0]
    return ""


class Header(Bar):
    """The two lines above; a third with the views, where the terminal is high."""

    DEFAULT_CSS = "Header { dock: top; height: 2; padding: 0 1; }"


class Findings(Bar):
    """What is wrong with a queue, above the rows of its board."""

    DEFAULT_CSS = "Findings { height: auto; padding: 0 1; }"

    def get_content_height(self, _container: Size, _viewport: Size, _width: int) -> int:
        """As many as there are, one at least: there always is a verdict."""
        return max(1, len(self._lines))


class Strip(Bar):
    """A demo's line: its keys, and how it goes."""

    DEFAULT_CSS = "Strip { dock: bottom; height: 1; padding: 0 1; margin-bottom: 1; background: $raised; }"


class Footer(Bar):
    """The keys that mean something here, and whether changes are on."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; padding: 0 1; }"


def _is_same(now: Sides, before: Sides) -> bool:
    # Content's own == compares the letters only, and a dot that turns red has the same letter.
    return now[0].is_same(before[0]) and now[1].is_same(before[1])


def spread(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the edges of `width` cells; without room for both, `right` goes, then `left` is cut."""
    if left.cell_length + right.cell_length + 1 > width:
        room = width - right.cell_length - 1
        if room < 12:
            right, room = Content(), width
        if left.cell_length > room:
            left = left.truncate(max(1, room), ellipsis=True)
    return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)


def first_that_fits(candidates: Iterable[Sides], width: int) -> Sides:
    """The first of these that has room, else the last."""
    chosen = (Content(), Content())
    for left, right in candidates:
        chosen = (left, right)
        if left.cell_length + right.cell_length + 2 <= width:
            break
    return chosen


# -- above ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """What the first line says."""

    url: str
    words: str = ""
    short_words: str = ""
    cost: str = ""
    short_cost: str = ""
    is_lost: bool = False
    badge: str = ""
    profile: str = ""
    is_guarded: bool = False


def status_line(status: Status, loops: Mapping[str, tuple[Loop, bool]] | None, width: int) -> Sides:
    """The first line of the header; `loops`, with whether each serves what is seen, is None where changes are off."""

    def left(url: str, words: str) -> Content:
        hue = "$state-dead" if status.is_lost else "$state-ready"
        said = (f"  {words}" if words else "", "$state-dead" if status.is_lost else "$muted")
        badge = (f" {status.badge} ", f"b $ground on {'$state-dead' if status.is_guarded else '$accented'}")
        before = (badge, " ") if status.badge else ()
        return _said(*before, ("● ", hue), (url, "$strong"), said)

    def right(is_short: bool, cost: str) -> Content:
        if status.is_lost:
            return Content()  # the loops wait as well; when the next try comes is said on the left
        pieces = [loop_words(name, loop, is_on, is_short) for name, (loop, is_on) in (loops or {}).items()]
        if loops is None:
            pieces.append(_said(("loops off", "$muted")))
        pieces += [_said((cost, "$muted"))] if cost else []
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
        (elided, short if status.is_lost else "", True, ""),
    )
    return first_that_fits(((left(url, said), right(is_short, cost)) for url, said, is_short, cost in steps), width)


def loop_words(name: str, loop: Loop, is_on: bool, is_short: bool) -> Content:
    """What a loop does: `dispatch ▶ 118/s`, `reap ■ off`, `reap ▶ waits 5s`."""
    label = {"dispatch": "dsp"}.get(name, name) if is_short else name
    if not is_on:
        return _said((f"{label} ", "$muted"), ("■ off", "$state-reserved"))
    rounds = list(loop.rounds)
    if rounds and rounds[-1].error:
        return _said((f"{label} ", "$muted"), (f"▶ waits {rounds[-1].wait_s:.0f}s", "$state-dead"))
    now, moved, last = time.time(), 0, 0.0
    for done in reversed(rounds):
        for step in done.steps:
            if step.moved:
                moved += step.moved if now - step.at_s <= RECENT_S else 0
                last = max(last, step.at_s)
        if last and now - last > RECENT_S:
            break  # the newest stand last: what comes now is older
    ago = "" if is_short else " ago"
    words = formats.rate(moved / RECENT_S) if moved else (formats.age((now - last) * 1000) + ago if last else "idle")
    return _said((f"{label} ", "$muted"), ("▶ ", "$state-ready"), (words, "$state-ready" if moved else "$data"))


class Door(NamedTuple):
    """A view as the header names it: its key, its label, how much is in it, and whether it is the one in sight."""

    name: str
    key: str
    label: str
    number: str = ""
    is_here: bool = False


def views_line(place: str, about: str, doors: Sequence[Door], find: Content, width: int) -> Sides:
    """The views by their keys, behind where one is: `queues ▸ mail   e errors 3  w workers 9`; a click goes there.

    Without room the gaps go first, then the end of a long name, then the labels of those that have no number.
    """

    def where(cells: int) -> Content:
        name = formats.elide_middle(safe(about), cells) if about else ""
        here = ((place, "$muted"), (" ▸ ", "$muted"), (name, "b $strong")) if name else ((place, "b $strong"),)
        return _said(*here)

    def shown(gap: int, cells: int, label_of: Callable[[Door], str], right: Content) -> Sides:
        pieces = [_door(door, label_of(door)) for door in doors]
        return Content(" " * gap).join([where(cells), *pieces]), right

    def with_number(door: Door) -> str:
        return door.label if door.number or door.is_here else ""

    steps = (
        (4, 48, _label, find),
        (3, 32, _label, find),
        (2, 24, _label, Content()),
        (2, 16, _label, Content()),
        (2, 16, with_number, Content()),
        (2, 12, lambda _door: "", Content()),
    )
    return first_that_fits((shown(*step) for step in steps), width)


def _label(door: Door) -> str:
    return door.label


def _door(door: Door, label: str) -> Content:
    number = (f" {door.number}", "$muted" if door.number == formats.ZERO else "$data") if door.number else ""
    words = f" {label}" if label else ""
    return _said((door.key, "b $accented"), (words, "b $strong" if door.is_here else "$muted"), number)


def queue_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """The second line of what is about a queue: its name and `system`, the states' counts, and how fast it goes.

    `fit` shortens a long name.
    """
    name, paused = _name(queue, width, fit), _paused(queue)
    drains = rate.drains_s(queue.count_in(State.READY))
    named = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out = _in_and_out(queue, rate)

    def speed(cells: int, *more: Content) -> Content:
        return _beside(*more, out, _spark(rate, cells))

    until = [Content.assemble(("drains in ", "$muted"), formats.age(drains * 1000))] if drains is not None else []
    words, arrows = _counts(queue, True), _counts(queue, False)
    said = Content("   ").join([words, *paused])
    short = Content("   ").join([arrows, *paused])
    return first_that_fits(
        (
            (Content.assemble(named, "   ", said), speed(20, *until, in_)),
            (Content.assemble(named, "   ", said), speed(12, in_)),
            (Content.assemble(name, "   ", said), speed(12, in_)),
            (Content.assemble(name, "  ", short), speed(12, *until)),
            (Content.assemble(name, "  ", short), speed(8)),
            (Content.assemble(name, "  ", short), Content("")),
        ),
        width,
    )


def board_line(queue: Queue, rate: Rate, width: int, system: str = "", fit: Fit = formats.elide_middle) -> Sides:
    """The second line on a board whose frame has tabs, which tell the counts: how it goes, and what waits how long.

    Where room is short the `system` goes first, then the facts from the last on; the last of all are how many come out.
    """
    name, paused, facts = _name(queue, width, fit), _paused(queue), _facts(queue, rate)
    named = Content.assemble(name, (f"  {system}", "$muted")) if system else name
    in_, out = _in_and_out(queue, rate)

    def left(of: Content, number: int) -> Content:
        return Content("   ").join([of, *paused, *facts[:number]])

    def speed(cells: int) -> Content:
        return _beside(in_, out, _spark(rate, cells))

    some = min(3, len(facts))  # that stand before a sparkline
    return first_that_fits(
        (
            *((left(named, len(facts)), speed(cells)) for cells in (20, 12)),
            *((left(name, number), speed(cells)) for number in range(len(facts), some - 1, -1) for cells in (12, 8)),
            *((left(name, number), speed(0)) for number in range(some, 1, -1)),
            *((left(name, number), out) for number in range(some, -1, -1)),
            (left(name, 0), Content()),
        ),
        width,
    )


def _facts(queue: Queue, rate: Rate) -> list[Content]:
    """What no count tells, the most pressing first."""
    drains, failed = rate.drains_s(queue.count_in(State.READY)), rate.failed_s
    is_late = bool(queue.overdue), bool(queue.expired)
    said = (
        ("failing ", f"{100 * failed / (rate.out_s + failed):.1f} %" if failed else "", "$state-dead"),
        ("", f"{formats.count(queue.overdue)} due" if is_late[0] else "", "$state-scheduled"),
        ("", f"{formats.numbered(queue.expired, 'lease')} over" if is_late[1] else "", "$state-reserved"),
        ("oldest ", formats.age(queue.oldest_ready_ms) if queue.oldest_ready_ms is not None else "", "$data"),
        ("drains in ", formats.age(drains * 1000) if drains is not None else "", "$data"),
        ("workers ", formats.count(queue.workers) if queue.workers is not None else "", "$data"),
        ("next due in ", _ahead(queue.next_due_ms, is_late[0]), "$data"),
        ("next lease ends in ", _ahead(queue.next_expiry_ms, is_late[1]), "$data"),
    )
    return [Content.assemble((label, "$muted"), (value, hue)) for label, value, hue in said if value]


def _ahead(ms: int | None, is_late: bool) -> str:
    return "" if ms is None or is_late else formats.age(ms)


def _name(queue: Queue, width: int, fit: Fit) -> Content:
    return Content.styled(fit(safe(queue.name), max(12, width // 4)), "b $strong")


def _paused(queue: Queue) -> list[Content]:
    return [Content.styled("paused", "$state-reserved")] if queue.paused else []


def _in_and_out(queue: Queue, rate: Rate) -> tuple[Content, Content]:
    """Per second; nothing where nobody counts."""
    if not ({"in", "out"} & set(queue.counters) or rate.in_s > 0 or any(rate.history)):
        return Content(), Content()
    return (
        Content.assemble(("in ", "$muted"), formats.rate(rate.in_s)),
        Content.assemble(("out ", "$muted"), formats.rate(rate.out_s)),
    )


def _spark(rate: Rate, cells: int) -> Content:
    shown = formats.sparkline(rate.history[-cells:], cells) if cells and any(rate.history) else ""
    return Content.styled(shown, "$state-ready")


def _beside(*pieces: Content) -> Content:
    return Content("  ").join([piece for piece in pieces if piece.cell_length])


def _counts(queue: Queue, has_words: bool) -> Content:
    """`scheduled 3 901   ready 12 431 …`, or `901 ▸ 12 431 ▸ 64 ▸ 1.2M × 9 912`."""
    pieces: list[Content] = []
    for state in State:
        counts = [count for count in queue.counts if count.state is state and count.is_known]
        if not counts:
            continue
        number, exact = sum(c.count for c in counts), all(c.exact for c in counts)
        hue = f"$state-{state}" if number else "$muted"
        if has_words:
            pieces.append(Content.assemble((f"{state} ", "$muted"), (formats.count(number, exact, 9), hue)))
            continue
        sign = "" if not pieces else (" × " if state is State.DEAD else " ▸ ")
        pieces.append(Content.assemble((sign, "$muted"), (formats.count(number, exact), hue)))
    return Content("   " if has_words else "").join(pieces)


def totals(number: int, rate: Rate, found: int | None = None) -> Content:
    """What all queues do together, for the second line on the overview; `found` of them fit a filter."""
    share = 100 * rate.failed_s / (rate.out_s + rate.failed_s) if rate.failed_s else 0.0
    failing = (f"{share:.1f} %", "$state-dead") if share else (formats.ZERO, "$data")
    several = formats.numbered(number, "queue", 7)
    return _said(
        (several if found is None else f"{formats.count(found)} of {several}", "b $strong"),
        ("   in ", "$muted"),
        formats.rate(rate.in_s),
        ("   out ", "$muted"),
        formats.rate(rate.out_s),
        ("   failing ", "$muted"),
        failing,
    )


# -- below ------------------------------------------------------------------------------------------------------------

_USABLE = "b $accented"
Key = tuple[str, str, bool]  # as it is read, its label, usable now


def keys_line(
    verbs: Sequence[Key], near: Sequence[Key], rest: Sequence[Key], last: Sequence[Key], mode: Content, width: int
) -> Sides:
    """As many keys as have room, and always the first of `near` and the `last` ones.

    Where the verbs have no room, those before the last one are their signs alone: first the palette, then the views.
    """
    tail = [_key(*key) for key in last]
    room = width - mode.cell_length - 2
    for at, number in zip(range(len(last) - 2, -1, -1), (2, 1), strict=False):
        if _cells(_key(*key) for key in (*verbs, *near[:number])) + _cells(tail) > room:
            sign, _label, is_usable = last[at]
            tail[at] = _key(sign, "", is_usable)
    room -= _cells(tail)
    must = [_key(*key) for key in near[:1]]
    head = [*_fitting(verbs, room - _cells(must)), *must]
    return Content("  ").join([*head, *_fitting((*near[1:], *rest), room - _cells(head)), *tail]), mode


def _cells(pieces: Iterable[Content]) -> int:
    """What they take, with the space behind each."""
    return sum(piece.cell_length + 2 for piece in pieces)


def _fitting(keys: Iterable[Key], room: int) -> list[Content]:
    fitting = []
    for piece in (_key(*key) for key in keys):
        room -= piece.cell_length + 2
        if room < 0:
            break
        fitting.append(piece)
    return fitting


def hint(key: str, label: str) -> Content:
    """A key and what it does, as everywhere in the frame."""
    return _key(key, label, True)


def _key(key: str, label: str, is_usable: bool) -> Content:
    said = f" {label}" if label else ""
    return _said((key, _USABLE if is_usable else "$frame"), (said, "$muted" if is_usable else "$frame"))


def strip_line(keys: Sequence[tuple[str, str]], figures: Sequence[str], alarm: str, width: int) -> Sides:
    """A demo's keys on the left, the last always, and as many of its figures as have room, the first ones longest."""
    alarmed = [Content.styled(alarm, "b $state-dead")] if alarm else []
    *first, last = [(key, label, True) for key, label in keys]
    room = width - _cells([_key(*last), *alarmed])
    left = Content("  ").join([*_fitting(first, room), _key(*last)])

    def right(number: int) -> Content:
        return Content("   ").join([*alarmed, *(Content.styled(each, "$data") for each in figures[:number])])

    return first_that_fits(((left, right(number)) for number in range(len(figures), -1, -1)), width)
