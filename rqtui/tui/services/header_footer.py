"""Header and footer: the words of the lines around a view, a demo's strip among them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.config.settings import DEFAULT_SYSTEM
from rqtui.engine import ticker as tick
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.changes import Changes
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.undo import Undo
from rqtui.tui.services.view_counts import how_many, means_something
from rqtui.tui.services.write_lock import WriteLock
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.terminal import ascii_filter
from rqtui.tui.widgets import chrome

if TYPE_CHECKING:
    from rqtui.tui.view import View
    from rqtui.verbs import Verb


TREMBLE_MS = 1.0  # by which the time of a tick differs from the last one, though nothing is otherwise


class HeaderFooter:
    """The lines around the views of a session."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        changes: Changes,
        undo: Undo,
        loops: Loops,
        lock: WriteLock,
        demo_words: Callable[[], str],
    ) -> None:
        """`demo_words` are what a running demo says now, instead of its keys."""
        self._host, self._session, self._navigation = host, session, navigation
        self._changes, self._undo, self._loops, self._lock = changes, undo, loops, lock
        self._demo_words = demo_words
        self._felt: dict[str, float] = {}  # times as the header says them

    def show_header(self) -> None:
        """The two lines above and a demo's strip, as they are now."""
        view = self._navigation.view
        if view is None or not view.is_drawn or not self._host.app.is_running:
            return
        width = self._host.app.size.width - 2
        shown = None if self._session.is_read_only else self._loops.shown()
        second = view.second_line(width)
        wrong = self._session.failed or (self._session.snapshot and self._session.lost)
        if wrong:
            second = (Content.styled(safe(wrong.error), "$state-dead"), Content())
        views = [self._views(view, width)] if view.is_high else []
        view.header.show(chrome.status_line(self._status(), shown, width), *views, second)
        view.set_class(self._session.settings.is_guarded, "-guarded")
        if self._session.demo:
            view.strip.show(self._strip(width))

    def doors(self) -> list[chrome.Door]:
        """The views, with how much each would show of what the one in sight is about."""
        view = self._navigation.view
        refs = view.scope() if view else ()
        made = []
        for look in (look for look in keys.LOOKS if look.id in keys.VIEWS):
            is_here = view is not None and look.id == view.NAME
            if not is_here and not means_something(look.id, self._session):
                continue
            found = how_many(look.id, self._session, refs)
            number = f"{formats.count(found.number)}{'+' * found.is_more}" if found else ""
            made.append(chrome.Door(look.id, keys.key(look.id), look.label, number, is_here))
        return made

    def _views(self, view: View, width: int) -> chrome.Sides:
        """The third line: which queues, and the views about them."""
        refs = view.scope()
        about = refs[0].queue if len(refs) == 1 else f"{len(refs)} queues" if refs else ""
        find = next(look.label for look in keys.LOOKS if look.id == "palette")
        return chrome.views_line("queues", about, self.doors(), chrome.hint(keys.key("palette"), find), width)

    def _status(self) -> chrome.Status:
        settings = self._session.settings
        badge, profile = safe(settings.badge), safe(settings.profile)
        return replace(self._connection(), badge=badge, profile=profile, is_guarded=settings.is_guarded)

    def _connection(self) -> chrome.Status:
        url = self._session.url
        wrong = self._session.lost or self._session.failed
        if wrong:
            now = time.monotonic()
            age, wait_s = formats.age((now - wrong.since_s) * 1000), max(0, wrong.next_s - now)
            said = f"lost {age} ago" if self._session.lost else f"no picture for {age}"
            return chrome.Status(url, f"{said}, next try in {wait_s:.0f} s", said, is_lost=True)
        if self._session.snapshot is None:
            return chrome.Status(url, "connecting …")
        systems = self._systems()
        number = formats.numbered(len(self._session.refs), "queue")
        cost = self._session.snapshot.spent or self._session.snapshot.cost
        calls = formats.numbered(cost.commands, "call")
        ms, rtt_ms = self._steady("tick", cost.ms), self._steady("rtt", cost.rtt_ms)
        spent, every = formats.duration(ms), self._every()
        worked = f"~{formats.duration(max(0.0, ms - cost.trips * rtt_ms))} + RTT {formats.duration(rtt_ms)}"
        return chrome.Status(
            url,
            systems,
            number,
            f"{calls} · {worked if cost.rtt_ms else spent} / {every}",
            f"{spent}/{every}",
        )

    def _systems(self) -> str:
        """`native 6 · dispatcher 3`: how many queues there are of each system, the most first."""
        found = Counter(ref.layout for ref in self._session.refs)
        if len(found) < 2:
            number = formats.numbered(len(self._session.refs), "queue")
            return f"{next(iter(found), DEFAULT_SYSTEM)} · {number}"
        ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        return " · ".join(f"{name} {formats.count(number)}" for name, number in ranked)

    def _steady(self, name: str, ms: float) -> float:
        """A time that trembles, as it was said last, until it is another one: each change is sent to the terminal."""
        before = self._felt.get(name)
        if before is None or ms > 2 * before + TREMBLE_MS or ms < before / 2 - TREMBLE_MS:
            self._felt[name] = ms
        return self._felt[name]

    def _every(self) -> str:
        """How long it is between two pictures, and why, where it is longer than asked for."""
        ticker = self._session.ticker
        if ticker.is_resting:
            return f"{ticker.interval_s * tick.RESTING:g} s, resting"
        is_wider = ticker.wait_s > ticker.interval_s * 1.05
        return f"{ticker.wait_s:.1f} s, widened" if is_wider else f"{ticker.interval_s:g} s"

    def _strip(self, width: int) -> chrome.Sides:
        if self._session.demo is None:
            return Content(), Content()
        if words := self._demo_words():
            try_it = chrome.hint("d", "try")
            said = formats.fit(safe(words), max(8, width - try_it.cell_length - 2)).rstrip()
            return Content.styled(said, "$strong"), try_it
        now = self._session.demo.status()
        planned = f" of {formats.count(now.planned, width=9)}" if now.planned else ""
        figures = [
            formats.numbered(now.workers, "worker") + (f", {now.stalled} hang" if now.stalled else ""),
            f"×{now.speed:g}",
            f"{now.jobs_s:.1f}/s",
            f"{formats.count(now.put, width=9)}{planned} put",
        ]
        alarm = "Redis is cut off" if now.is_cut else ""
        return chrome.strip_line([*_strip_keys(self._session.demo.controls), ("d", "try")], figures, alarm, width)

    def show_keys(self) -> None:
        """The footer, for what is under the cursor now."""
        view = self._navigation.view
        if view is None or not view.is_drawn:
            return
        target = self._navigation.target()
        acting = {key: self._changes.check(key, target) for key in keys.VERB_KEYS}
        verbs = {
            key: self._changes.verb_for(key, target) or self._named(key, target)
            for key, state in acting.items()
            if state is not False
        }
        looks = [look for look in keys.footer_of(view.NAME) if self._is_of_use(look)]

        def of_verbs(kind: str) -> list[chrome.Key]:
            return [
                (keys.key(key), verb.label, bool(acting[key]))
                for key, verb in verbs.items()
                if kind == ("grey" if not acting[key] else _kind(verb))
            ]

        def of_looks(*ids: str) -> list[chrome.Key]:
            return [(self._spelled(look), look.label, True) for id in ids for look in looks if look.id == id]

        own = of_looks(*(look.id for look in looks if look.id not in (*keys.NEAR, *keys.LAST)))
        of_queue = of_verbs("queue")
        middle = [*of_queue, *own] if view.NAME == "board" else [*own, *of_queue]
        rare = [*of_verbs("way"), *(of_verbs("grey") if view.NAME in keys.LISTS else [])]
        groups = (of_verbs("job"), of_looks(*keys.NEAR), [*middle, *rare], of_looks(*keys.LAST))
        view.footer.show(chrome.keys_line(*groups, self._mode(), self._host.app.size.width - 2))

    def _is_of_use(self, look: keys.Look) -> bool:
        """Whether a key that looks does something now."""
        if look.id == "undo":
            return self._undo.is_possible
        if look.id == "views":  # where the header has no room for their names
            view, width = self._navigation.view, self._host.app.size.width
            return view is not None and not (view.is_high and width >= chrome.NAMED)
        return not look.action.startswith(("toggle_loop", "step_loop")) or (
            not self._session.is_read_only and bool(self._session.loops)
        )

    def _spelled(self, look: keys.Look) -> str:
        """Its key; as a word where the terminal has no sign for it."""
        key = keys.key(look.id)
        return ascii_filter.spelled(key) if self._session.settings.is_ascii else key

    def _named(self, key: str, target: Target) -> Verb:
        """What a key that can do nothing now is called: the first verb on it that this system has."""
        ref = target.ref
        system = self._session.layouts.get(ref.layout) if ref else None
        verbs = keys.verbs_of(key)
        return next((verb for verb in verbs if system is None or system.can(verb.name)), verbs[0])

    def _mode(self) -> Content:
        if self._session.lost:
            return Content.styled("Redis is away: no changes", "$state-dead")
        if self._session.is_read_only:
            return Content.styled("read-only", "$state-ready")
        return self._changes.progress() or Content.styled(self._lock.words(), "$accented")


def _kind(verb: Verb) -> str:
    """Where a verb stands in the footer; `way` is another way to use a script."""
    return "way" if verb.script else "queue" if verb.scope == "queue" else "job"


def _strip_keys(controls: Iterable[keys.Control]) -> list[tuple[str, str]]:
    """The strip's keys and labels; slower and faster are one."""
    made: list[tuple[str, str]] = []
    for control in controls:
        if control.name == "faster" and made and made[-1][1] == "slower":
            made[-1] = (f"{made[-1][0]} {control.key}", "speed")
        else:
            made.append((control.key, control.label))
    return made
