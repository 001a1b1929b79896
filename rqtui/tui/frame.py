"""Frame: the part of the app that says what the lines around a view say: the header, a demo's strip, the keys below."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from textual.content import Content

from rqtui import server, tick
from rqtui.tui import chrome, display, keys, plain

if TYPE_CHECKING:
    from rqtui.tui.app import Cockpit
    from rqtui.verbs import Verb


class Frame:
    """A mixin of the app."""

    @property
    def _held(self) -> Cockpit:
        return cast("Cockpit", self)

    def show_header(self) -> None:
        """The two lines above and a demo's strip, as they are now."""
        view = self._held.view
        if view is None or not view.is_drawn or not self._held.is_running:
            return
        width = self._held.size.width - 2
        shown = None if self._held.is_read_only else self._held.shown_loops()
        second = view.second_line(width)
        if self._held.lost and self._held.snapshot:
            second = (Content.styled(display.safe(self._held.lost.error), "$state-dead"), Content())
        view.header.show(chrome.status_line(self._status(), shown, width), second)
        view.set_class(self._held.settings.is_guarded, "-guarded")
        if self._held.demo:
            view.strip.show(self._strip(width))

    def _status(self) -> chrome.Status:
        settings = self._held.settings
        badge, profile = display.safe(settings.badge), display.safe(settings.profile)
        return replace(self._connection(), badge=badge, profile=profile, is_guarded=settings.is_guarded)

    def _connection(self) -> chrome.Status:
        url = server.mask(self._held.settings.url)
        if self._held.lost:
            now = time.monotonic()
            age, wait_s = display.age((now - self._held.lost.since_s) * 1000), max(0, self._held.lost.next_s - now)
            return chrome.Status(url, f"lost {age} ago, next try in {wait_s:.0f} s", f"lost {age} ago", is_lost=True)
        if self._held.snapshot is None:
            return chrome.Status(url, "connecting …")
        systems = ", ".join(sorted({ref.layout for ref in self._held.refs})) or "native"
        number = f"{len(self._held.refs)} {'queue' if len(self._held.refs) == 1 else 'queues'}"
        cost = self._held.snapshot.cost
        calls = f"{cost.commands} {'call' if cost.commands == 1 else 'calls'}"
        spent, every = display.duration(cost.ms), self._every()
        worked = f"~{display.duration(max(0.0, cost.ms - cost.rtt_ms))} + RTT {display.duration(cost.rtt_ms)}"
        return chrome.Status(
            url,
            f"{systems} · {number}",
            number,
            f"{calls} · {worked if cost.rtt_ms else spent} / {every}",
            f"{spent}/{every}",
        )

    def _every(self) -> str:
        """How long it is between two pictures, and why, where it is longer than asked for."""
        ticker = self._held.ticker
        if ticker.is_resting:
            return f"{ticker.interval_s * tick.RESTING:g} s, resting"
        is_wider = ticker.wait_s > ticker.interval_s * 1.05
        return f"{ticker.wait_s:.1f} s, widened" if is_wider else f"{ticker.interval_s:g} s"

    def on_app_blur(self) -> None:
        """The terminal is not in sight, where it tells."""
        self._held.ticker.rest(True)

    def on_app_focus(self) -> None:
        """It is again."""
        self._held.ticker.rest(False)

    def _strip(self, width: int) -> chrome.Sides:
        if self._held.demo is None:
            return Content(), Content()
        now = self._held.demo.status()
        planned = f" of {display.count(now.planned, width=9)}" if now.planned else ""
        figures = [
            f"{now.workers} workers" + (f", {now.stalled} hang" if now.stalled else ""),
            f"×{now.speed:g}",
            f"{now.jobs_s:.1f}/s",
            f"{display.count(now.put, width=9)}{planned} put",
        ]
        alarm = "Redis is cut off" if now.is_cut else ""
        return chrome.strip_line([*_strip_keys(self._held.demo.controls), ("d", "try")], figures, alarm, width)

    def show_keys(self) -> None:
        """The footer, for what is under the cursor now."""
        view = self._held.view
        if view is None or not view.is_drawn:
            return
        usable: list[chrome.Key] = []
        rare: list[chrome.Key] = []  # verbs that take whichever job is next, which is a worker's business
        grey: list[chrome.Key] = []
        for key in keys.VERB_KEYS:
            state = self._held.check_action("verb", (key,))
            if state is not False:
                verb = self._held.verb_for(key) or self._named(key)
                group = (rare if verb.fixed else usable) if state else grey
                group.append((keys.key(key), verb.label, bool(state)))
        spell = plain.spelled if self._held.settings.is_ascii else str
        looks = [
            (spell(keys.key(look.id)), look.label, True)
            for look in keys.LOOKS
            if look.in_footer
            and (not look.screens or view.NAME in look.screens)
            and (look.id != "undo" or self._held.can_undo)
        ]
        width = self._held.size.width - 2
        view.footer.show(chrome.keys_line([*usable, *looks[:-2], *rare, *grey], looks[-2:], self._mode(), width))

    def _named(self, key: str) -> Verb:
        """What a key that can do nothing now is called: the first verb on it that this system has."""
        ref = self._held.target().ref
        system = self._held.layouts.get(ref.layout) if ref else None
        verbs = keys.verbs_of(key)
        return next((verb for verb in verbs if system is None or system.can(verb.name)), verbs[0])

    def _mode(self) -> Content:
        if self._held.lost:
            return Content.styled("Redis is away: no changes", "$state-dead")
        if self._held.is_read_only:
            return Content.styled("read-only", "$state-ready")
        return self._held.progress() or Content.styled(self._held.mode_words(), "$accented")


def _strip_keys(controls: Iterable[keys.Control]) -> list[tuple[str, str]]:
    """The strip's keys and labels; slower and faster are one."""
    made: list[tuple[str, str]] = []
    for control in controls:
        if control.name == "faster" and made and made[-1][1] == "slower":
            made[-1] = (f"{made[-1][0]} {control.key}", "speed")
        else:
            made.append((control.key, control.label))
    return made
