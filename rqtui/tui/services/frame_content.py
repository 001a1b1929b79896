"""Compute the text of the header, the footer and the demo's strip around a view."""

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
from rqtui.tui.format.queues import HUES
from rqtui.tui.host import Host
from rqtui.tui.services import verb_resolution
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.undo import Undo
from rqtui.tui.services.verb_starter import VerbStarter
from rqtui.tui.services.view_counts import count_view_rows, is_view_relevant
from rqtui.tui.services.write_lock import WriteLock
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.terminal import ascii_filter
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame

if TYPE_CHECKING:
    from rqtui.verbs import Verb


MAX_PROBLEM_CELLS = 40  # of a finding about the server in the header
MIN_CHANGE_MS = 1.0  # usual variation of a refresh's duration


class FrameContent:
    """The service that draws the header and the footer of the views of a session."""

    def __init__(
        self,
        host: Host,
        session: Session,
        navigation: Navigation,
        verb_starter: VerbStarter,
        undo: Undo,
        loops: Loops,
        lock: WriteLock,
        demo_message: Callable[[], str],
        build_time_bar: Callable[[int], frame.Sides],
    ) -> None:
        """Connect the services that are shown. `demo_message` returns the demo's message, shown instead of its keys.

        `build_time_bar` returns the time bar of a replay for a width.
        """
        self._host, self._session, self._navigation = host, session, navigation
        self._verb_starter, self._undo, self._loops, self._lock = verb_starter, undo, loops, lock
        self._demo_message, self._build_time_bar = demo_message, build_time_bar
        self._shown_durations_ms: dict[str, float] = {}  # durations as the header shows them

    def show_header(self) -> None:
        """Redraw the header lines of the current view, and the demo's strip."""
        view = self._navigation.view
        if view is None or not view.is_drawn or not self._host.app.is_running:
            return
        width = self._host.app.size.width - 2
        shown_loops = None if self._session.is_read_only else self._loops.list_shown_loops()
        second_line = view.build_second_line(width)
        failure = self._session.refresh_failure or (self._session.snapshot and self._session.connection_loss)
        if failure:
            second_line = (Content.styled(safe(failure.error), "$state-dead"), Content())
        views_lines = [self._build_views_line(view, width)] if view.is_high else []
        view.header.show_lines(
            frame.format_status_line(self._build_status(), shown_loops, width), *views_lines, second_line
        )
        view.set_class(self._session.settings.is_guarded, "-guarded")
        if self._session.is_replay:
            view.strip.show_lines(self._build_time_bar(width))
        elif self._session.demo:
            view.strip.show_lines(self._build_demo_strip(width))

    def list_view_links(self) -> list[frame.ViewLink]:
        """Return the views that the header offers, each with its number of rows for the current view's queues."""
        view = self._navigation.view
        refs = view.list_scope_queues() if view else ()
        links = []
        for key in (key for key in keys.GENERAL_KEYS if key.id in keys.VIEWS):
            is_current = view is not None and key.id == view.NAME
            if not is_current and not is_view_relevant(key.id, self._session):
                continue
            row_count = count_view_rows(key.id, self._session, refs)
            count_text = (
                f"{formats.format_count(row_count.number)}{'+' * row_count.is_lower_bound}" if row_count else ""
            )
            links.append(frame.ViewLink(key.id, keys.find_current_key(key.id), key.label, count_text, is_current))
        return links

    def _build_views_line(self, view: View, width: int) -> frame.Sides:
        """Build the header's third line: the queues of this view, and the other views about them."""
        refs = view.list_scope_queues()
        only = find_only_queue(refs)
        scope_text = only.queue if only else f"{len(refs)} queues" if refs else ""
        palette_label = next(key.label for key in keys.GENERAL_KEYS if key.id == "palette")
        return frame.format_views_line(
            "queues",
            scope_text,
            self.list_view_links(),
            frame.format_key_hint(keys.find_current_key("palette"), palette_label),
            width,
        )

    def _build_status(self) -> frame.Status:
        settings = self._session.settings
        badge, profile = safe(settings.badge), safe(settings.profile)
        return replace(
            self._build_connection_status(),
            badge=badge,
            profile=profile,
            is_guarded=settings.is_guarded,
            problem=self._build_server_problem(),
            mode=self._build_lock_text(),
        )

    def _build_server_problem(self) -> Content:
        """Return the worst finding about the server in a few words, with the key of the view that shows all of them."""
        findings = self._session.server_warnings
        if not findings:
            return Content()
        worst = next((finding for finding in findings if finding.severity == "critical"), findings[0])
        text = formats.fit_to_width(safe(worst.text.partition(":")[0]), MAX_PROBLEM_CELLS).rstrip()
        more_text = f" +{len(findings) - 1}" if len(findings) > 1 else ""
        hue = f"${HUES[worst.severity]}"
        return Content.assemble(
            (f"{formats.SEVERITY_SIGNS[worst.severity]} {text}{more_text}  ", hue),
            frame.format_key_hint(keys.find_current_key("redis"), ""),
        )

    def _build_connection_status(self) -> frame.Status:
        url = self._session.url
        failure = self._session.connection_loss or self._session.refresh_failure
        if failure:
            now = time.monotonic()
            age, wait_s = formats.format_age((now - failure.since_s) * 1000), max(0, failure.next_s - now)
            state = f"connection lost {age} ago" if self._session.connection_loss else f"no new data for {age}"
            if self._session.connection_loss and self._session.snapshot is None:
                state = f"not connected for {age}"
            return frame.Status(url, f"{state}, next try in {wait_s:.0f} s", state, is_lost=True)
        if self._session.snapshot is None:
            return frame.Status(url, "connecting …")
        systems = self._format_system_counts()
        queue_count = formats.format_quantity(len(self._session.refs), "queue")
        if self._session.is_replay:
            return frame.Status(f"recording of {url}", systems, queue_count)
        if self._session.is_replica:
            state = "READ-ONLY REPLICA: no change is possible"
            return frame.Status(url, f"{state}  {systems}", "READ-ONLY REPLICA", is_wrong=True)
        cost = self._session.snapshot.interval_cost or self._session.snapshot.cost
        commands = formats.format_quantity(cost.commands, "command")
        ms, rtt_ms = self._smooth_duration("tick", cost.ms), self._smooth_duration("rtt", cost.rtt_ms)
        duration, interval = formats.format_duration(ms), self._format_refresh_interval()
        round_trip = f" (round trip {formats.format_duration(rtt_ms)})" if cost.rtt_ms else ""
        return frame.Status(
            url,
            systems,
            queue_count,
            f"{commands} in {duration}{round_trip}, every {interval}",
            f"{duration} every {interval}",
        )

    def _format_system_counts(self) -> str:
        """Format the number of queues per system, largest first: `native 6 · dispatcher 3`."""
        queue_counts = Counter(ref.system for ref in self._session.refs)
        if len(queue_counts) < 2:
            number = formats.format_quantity(len(self._session.refs), "queue")
            return f"{next(iter(queue_counts), DEFAULT_SYSTEM)} · {number}"
        ranked = sorted(queue_counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return " · ".join(f"{name} {formats.format_count(number)}" for name, number in ranked)

    def _smooth_duration(self, name: str, ms: float) -> float:
        """Return a duration to display without small changes: each changed text is sent to the terminal."""
        previous_ms = self._shown_durations_ms.get(name)
        if previous_ms is None or ms > 2 * previous_ms + MIN_CHANGE_MS or ms < previous_ms / 2 - MIN_CHANGE_MS:
            self._shown_durations_ms[name] = ms
        return self._shown_durations_ms[name]

    def _format_refresh_interval(self) -> str:
        """Format the refresh interval, and the reason if it is longer than configured."""
        ticker = self._session.ticker
        if ticker.is_resting:
            return f"{ticker.interval_s * tick.HIDDEN_INTERVAL_FACTOR:g} s, resting"
        is_wider = ticker.wait_s > ticker.interval_s * 1.05
        return f"{ticker.wait_s:.1f} s, widened" if is_wider else f"{ticker.interval_s:g} s"

    def _build_demo_strip(self, width: int) -> frame.Sides:
        if self._session.demo is None:
            return Content(), Content()
        if message := self._demo_message():
            try_hint = frame.format_key_hint("d", "try")
            message_text = formats.fit_to_width(safe(message), max(8, width - try_hint.cell_length - 2)).rstrip()
            return Content.styled(message_text, "$strong"), try_hint
        demo_status = self._session.demo.compute_status()
        planned_text = f" of {formats.format_long_count(demo_status.planned)}" if demo_status.planned else ""
        facts = [
            formats.format_quantity(demo_status.workers, "worker")
            + (f", {demo_status.stalled} hang" if demo_status.stalled else ""),
            f"×{demo_status.speed:g}",
            f"{demo_status.jobs_s:.1f}/s",
            f"{formats.format_long_count(demo_status.put)}{planned_text} put",
        ]
        alarm = "Redis is cut off" if demo_status.is_cut else ""
        return frame.format_strip_line(
            [*_list_strip_keys(self._session.demo.controls), ("d", "try")], facts, alarm, width
        )

    def show_keys(self) -> None:
        """Redraw the footer with the keys that apply to the current row or queue."""
        view = self._navigation.view
        if view is None or not view.is_drawn:
            return
        target = self._navigation.find_target()
        key_states = {key: self._verb_starter.check_verb_key(key, target) for key in keys.VERB_KEYS}
        verbs = {
            key: self._verb_starter.find_verb_of_key(key, target) or self._find_disabled_verb(key, target)
            for key, state in key_states.items()
            if state is not False
        }
        general_keys = [
            general_key
            for general_key in keys.list_footer_keys(view.NAME)
            if self._is_general_key_usable(general_key) and view.offers_action(general_key.action)
        ]

        def list_verb_keys(kind: str) -> list[frame.Key]:
            return [
                (keys.find_current_key(key), verb.label, bool(key_states[key]))
                for key, verb in verbs.items()
                if kind == ("grey" if not key_states[key] else _choose_verb_group(verb))
            ]

        def list_general_keys(*ids: str) -> list[frame.Key]:
            return [
                (self._spell_key(general_key.id), general_key.label, True)
                for id in ids
                for general_key in general_keys
                if general_key.id == id
            ]

        view_keys = list_general_keys(
            *(
                general_key.id
                for general_key in general_keys
                if general_key.id not in (*keys.FOOTER_AFTER_VERBS, *keys.FOOTER_END)
            )
        )
        queue_keys = list_verb_keys("queue")
        middle_keys = [*queue_keys, *view_keys] if view.NAME == "board" else [*view_keys, *queue_keys]
        rare_keys = [*list_verb_keys("way"), *(list_verb_keys("grey") if view.NAME in keys.LISTS else [])]
        first_keys = self._list_time_keys() if self._session.is_replay else list_verb_keys("job")
        near_keys = [] if self._session.is_replay else list_general_keys(*keys.FOOTER_AFTER_VERBS)
        if focus_keys := view.list_focus_keys():
            time_keys = first_keys if self._session.is_replay else []
            first_keys = [*((self._spell_key(name), label, True) for name, label in focus_keys), *time_keys]
            near_keys, middle_keys, rare_keys = [], queue_keys, []
        groups = (first_keys, near_keys, [*middle_keys, *rare_keys], list_general_keys(*keys.FOOTER_END))
        view.footer.show_lines(frame.format_keys_line(*groups, self._build_mode_text(), self._host.app.size.width - 2))

    def _list_time_keys(self) -> list[frame.Key]:
        """Return the keys of the time bar of a replay: two keys that belong together have one label."""
        playing = self._session.replay is not None and self._session.replay.is_playing
        return [
            (" ".join(map(keys.find_current_key, ids)), "pause" if playing and label == "play" else label, True)
            for ids, label in keys.REPLAY_FOOTER
        ]

    def _is_general_key_usable(self, general_key: keys.GeneralKey) -> bool:
        """Return whether a key that changes nothing works now."""
        if self._session.is_replay and not keys.is_used_in_replay(general_key):
            return False
        if general_key.id == "undo":
            return self._undo.is_possible
        if general_key.id == "views":  # only if the header is too narrow for their names
            view, width = self._navigation.view, self._host.app.size.width
            return view is not None and not (view.is_high and width >= frame.VIEW_NAMES_FROM_CELLS)
        return not general_key.action.startswith(("toggle_loop", "step_loop")) or (
            not self._session.is_read_only and bool(self._session.loops)
        )

    def _spell_key(self, name: str) -> str:
        """Return the key of a row of the key table, spelled as a word if the terminal cannot show its sign."""
        key = keys.find_current_key(name)
        return ascii_filter.spell_key(key) if self._session.settings.is_ascii else key

    def _find_disabled_verb(self, key: str, target: Target) -> Verb:
        """Return the verb that labels a disabled key: the first one of the key that the target's system has."""
        ref = target.ref
        system = self._session.systems.get(ref.system) if ref else None
        verbs = keys.find_verbs_on_key(key)
        if system is None:
            return verbs[0]
        return verb_resolution.add_system_texts(system, next((v for v in verbs if system.can(v.name)), verbs[0]))

    def _build_mode_text(self) -> Content:
        """Return the footer's right side: why no change is possible, or the progress of a change."""
        if self._session.connection_loss:
            return Content.styled("Redis is away: no changes", "$state-dead")
        return self._verb_starter.format_progress() or Content()

    def _build_lock_text(self) -> Content:
        if self._session.is_replay:
            return Content.styled("nothing can be changed", "$muted")
        if self._session.is_read_only:
            return Content.styled("read-only", "$state-ready")
        return Content.styled(self._lock.format_lock_state(), "$accented")


def _choose_verb_group(verb: Verb) -> str:
    """Return the footer group of a verb: `job`, `queue`, or `way` for rare ones and aliases of other scripts."""
    return "way" if verb.script or verb.is_rare else "queue" if verb.scope == "queue" else "job"


def _list_strip_keys(controls: Iterable[keys.Control]) -> list[tuple[str, str]]:
    """Return the (key, label) pairs of a demo's controls, with "slower" and "faster" as one entry."""
    key_labels: list[tuple[str, str]] = []
    for control in controls:
        if control.name == "faster" and key_labels and key_labels[-1][1] == "slower":
            key_labels[-1] = (f"{key_labels[-1][0]} {control.key}", "speed")
        else:
            key_labels.append((control.key, control.label))
    return key_labels
