"""What header, footer and strip show in each state of a session: `frame_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/services/test_frame_kept.py` writes the text; review the difference as code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file, diff_lines
from service_stage import JOBS, MAIL, NEWS, SYSTEMS, Recorder, Stage, describe
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content
from textual.geometry import Size

from rqtui.engine.ticker import RefreshFailed, ServerLost
from rqtui.model import Cost, Count, Finding, Job, Queue, Ref, Snapshot, State
from rqtui.recording.replay import ReplayState
from rqtui.scenarios.scenario import CONTROLS
from rqtui.systems import registry
from rqtui.tui import keys
from rqtui.tui.services import frame_content, slow_link, time_bar, view_counts
from rqtui.tui.services.frame_content import FrameContent
from rqtui.tui.services.time_bar import TimeBar
from rqtui.tui.target import Target
from rqtui.tui.widgets.queue_preview import DeathCauses
from rqtui.verbs import VERBS_BY_NAME

KEPT = Path(__file__).with_name("frame_kept.txt")
NOW_S = 5_000.0
NOW_MS = 1_800_000_000_000
WARNING = Finding("memory", "warning", "", "memory is 94 % full: evicts soon", "add memory")
OTHER_WARNING = Finding("slow", "warning", "", "Redis is slow", "wait")
CRITICAL = Finding("full", "critical", "", "memory is full", "add memory")
JOB = Job(b"j1", "mail", "native", "ready", State.READY, b"j1")


def build_frame(stage: Stage, message: str = "") -> FrameContent:
    verb_starter = Recorder(
        "verb_starter",
        stage.lines,
        check_verb_key=lambda key, _target: {"R": True, "K": None, "P": True}.get(key, False),
        find_verb_of_key=lambda key, _target: VERBS_BY_NAME.get({"R": "requeue", "P": "pause"}.get(key, "")),
        format_progress=lambda: stage.session.progress,
    )
    stage.session.progress = None
    return FrameContent(
        stage.host, stage.session, stage.navigation, verb_starter,
        Recorder("undo", stage.lines, is_possible=stage.session.is_read_only is False),
        Recorder("loops", stage.lines, list_shown_loops=dict),
        Recorder("lock", stage.lines, format_lock_state=lambda: "write until 04:12"),
        lambda: stage.session.message, lambda width: (Content(f"bar of {width}"), Content()),
    )  # fmt: skip


def describe_status() -> Iterator[str]:
    queues = (Queue("mail", "native"),)
    snapshot = Snapshot(NOW_MS, queues, cost=Cost(3, 1, 2.0, 1.0))
    failed, lost = RefreshFailed("no", NOW_S - 61, NOW_S + 1.4), ServerLost("away", NOW_S - 59, NOW_S - 1)
    states: dict[str, dict[str, Any]] = {
        "connecting": {},
        "usual": {"snapshot": snapshot},
        "measured": {"snapshot": snapshot, "refs": [MAIL]},
        "interval": {
            "snapshot": Snapshot(NOW_MS, queues, cost=Cost(3, 1, 2.0), interval_cost=Cost(1, 1, 7.0)),
            "refs": [],
        },
        "two systems": {"snapshot": snapshot, "refs": [JOBS, MAIL]},
        "systems": {"snapshot": snapshot, "refs": [JOBS, Ref("celery", "c"), NEWS, MAIL]},
        "replay": {"snapshot": snapshot, "is_replay": True},
        "replica": {"snapshot": snapshot, "is_replica": True},
        "failed": {"snapshot": snapshot, "refresh_failure": failed},
        "lost": {"snapshot": snapshot, "connection_loss": lost},
        "failed for a minute": {"refresh_failure": failed._replace(since_s=NOW_S - 59.96)},
        "both": {"snapshot": snapshot, "connection_loss": lost, "refresh_failure": failed},
        "never": {"connection_loss": lost},
        "read-only": {"is_read_only": True},
    }
    for title, state in states.items():
        stage = Stage(**state)
        content = build_frame(stage)
        yield from stage.run(title, content._build_connection_status)
        yield f"  mode: {describe(content._build_lock_text())} footer: {describe(content._build_mode_text())}"
        stage.session.progress = Content("half")
        yield f"  during a change: {describe(content._build_mode_text())}"
        stage.settings.badge, stage.settings.profile, stage.settings.is_guarded = "live\x1b", "eu", True
        yield from stage.run("with a profile", content._build_status)
    stage = Stage()
    content = build_frame(stage)
    long = [(Finding("full", "critical", "", f"{'x' * cells}: y"),) for cells in (39, 40, 41)]
    for warnings in (
        (),
        (WARNING,),
        (CRITICAL,),
        (WARNING, CRITICAL),
        (WARNING, WARNING, CRITICAL),
        (WARNING, OTHER_WARNING),
        *long,
    ):
        stage.session.server_warnings = warnings
        yield f"{len(warnings)} warnings: {describe(content._build_server_problem())}"
    for durations in ((4.0, 9.0, 9.1, 3.55, 3.5), (0.0, 1.0, 1.1), (10.0, 4.0, 3.9), (2.0, 5.0, 5.01), (0.5, 2.0, 2.1)):
        stage = Stage()
        content = build_frame(stage)
        shown = [content._smooth_duration("tick", ms) for ms in durations]
        yield f"durations {durations}: {shown} and another {content._smooth_duration('rtt', 9.0)}"
    for interval_s, wait_s, is_resting in ((1.0, 1.0, False), (1.0, 1.05, False), (1.0, 1.06, False), (2.5, 9.0, True)):
        stage.ticker.interval_s, stage.ticker.wait_s, stage.ticker.is_resting = interval_s, wait_s, is_resting
        yield f"every {interval_s} {wait_s} {is_resting}: {content._format_refresh_interval()}"


def describe_header() -> Iterator[str]:
    states: dict[str, Callable[[Stage], object]] = {
        "usual": lambda _stage: None,
        "without a view": lambda stage: setattr(stage.navigation, "view", None),
        "not drawn": lambda stage: setattr(stage.view, "is_drawn", False),
        "ended": lambda stage: setattr(stage.app, "is_running", False),
        "low": lambda stage: setattr(stage.view, "is_high", False),
        "read-only": lambda stage: setattr(stage.session, "is_read_only", True),
        "lost before a snapshot": lambda stage: setattr(
            stage.session, "connection_loss", ServerLost("away\x1b", 1.0, 2.0)
        ),
        "lost": lambda stage: stage.session.__dict__.update(
            snapshot=Snapshot(NOW_MS), connection_loss=ServerLost("away", 1.0, 2.0)
        ),
        "failed": lambda stage: setattr(stage.session, "refresh_failure", RefreshFailed("no", 1.0, 2.0)),
        "replay": lambda stage: stage.session.__dict__.update(is_replay=True, demo="demo"),
        "several queues": lambda stage: setattr(stage.view, "list_scope_queues", lambda: (MAIL, NEWS)),
        "no queue": lambda stage: setattr(stage.view, "list_scope_queues", tuple),
        "guarded": lambda stage: setattr(stage.settings, "is_guarded", True),
    }
    usual: list[str] = []
    for title, change in states.items():
        stage = Stage()
        content = build_frame(stage)
        change(stage)
        lines = [*stage.run(title, content.show_header)]
        yield lines[0]
        yield from diff_lines(usual, lines[1:]) if usual else lines[1:]
        usual = usual or lines[1:]
    for view_name in ("overview", "errors", "operations"):
        for is_replay in (False, True):
            stage = Stage(
                is_replay=is_replay,
                server_warnings=(WARNING,) * 1200,
                latest_queues={MAIL: Queue("mail", "native", workers=2)},
            )
            stage.view.NAME = view_name
            yield f"links of {view_name} {is_replay}: {describe(build_frame(stage).list_view_links())}"


def describe_footer() -> Iterator[str]:
    states: dict[str, Callable[[Stage], object]] = {
        "usual": lambda _stage: None,
        "without a view": lambda stage: setattr(stage.navigation, "view", None),
        "not drawn": lambda stage: setattr(stage.view, "is_drawn", False),
        "overview": lambda stage: setattr(stage.view, "NAME", "overview"),
        "errors": lambda stage: setattr(stage.view, "NAME", "errors"),
        "loops": lambda stage: setattr(stage.view, "NAME", "loops"),
        "ascii": lambda stage: setattr(stage.settings, "is_ascii", True),
        "findings": lambda stage: setattr(stage.view, "list_focus_keys", lambda: (("open", "incident"),)),
        "replay": lambda stage: stage.session.__dict__.update(is_replay=True),
        "playing": lambda stage: stage.session.__dict__.update(is_replay=True, replay=SimpleNamespace(is_playing=True)),
        "findings of a replay": lambda stage: (
            stage.session.__dict__.update(is_replay=True),
            setattr(stage.view, "list_focus_keys", lambda: (("open", "x"),)),
        ),
        "offers nothing": lambda stage: setattr(stage.view, "offers_action", lambda _action: False),
        "no queue": lambda stage: setattr(stage, "target", Target()),
        "another system": lambda stage: setattr(stage, "target", Target(JOBS)),
    }
    for width in (80, 240):
        for title, change in states.items():
            stage = Stage()
            stage.app.size = Size(width, 40)
            content = build_frame(stage)
            change(stage)
            yield from stage.run(f"{title}, {width} cells", content.show_keys)
    stage = Stage()
    for width in range(40, 160):
        stage.app.size = Size(width, 40)
        build_frame(stage).show_keys()
        (sides,) = stage.view.footer.find_last_call("show_lines")
        yield f"footer of {width}: {[len(side.plain) for side in sides]}"
    stage.lines.clear()
    for width, is_high in ((111, True), (112, True), (112, False)):
        stage = Stage()
        stage.app.size, stage.view.is_high = Size(width, 40), is_high
        views = next(key for key in keys.GENERAL_KEYS if key.id == "views")
        yield f"views in {width} {is_high}: {build_frame(stage)._is_general_key_usable(views)}"
    for is_read_only in (False, True):
        for loops in ({}, {"dispatch": 1}):
            stage = Stage(is_read_only=is_read_only, loops=loops)
            usable = [key.id for key in keys.GENERAL_KEYS if build_frame(stage)._is_general_key_usable(key)]
            yield f"usable {is_read_only} {len(loops)}: {usable}"
    stage.session.systems = {**SYSTEMS, "timeout_sets": registry.create_system("timeout_sets")}
    content = build_frame(stage)
    for key in keys.VERB_KEYS:
        verbs = [
            content._find_disabled_verb(key, Target(ref))
            for ref in (None, MAIL, JOBS, Ref("gone", "x"), Ref("timeout_sets", "x"))
        ]
        yield f"grey {key}: {[(verb.name, verb.label) for verb in verbs]}"
    groups = [(verb.name, frame_content._choose_verb_group(verb)) for verb in VERBS_BY_NAME.values()]
    yield f"groups: {groups}"


def describe_strip() -> Iterator[str]:
    figures = {
        "workers": 3,
        "stalled": 0,
        "speed": 2.0,
        "jobs_s": 1.26,
        "put": 12_345,
        "planned": None,
        "is_cut": False,
    }
    yield f"keys: {frame_content._list_strip_keys(CONTROLS)}"
    yield (
        f"keys: {frame_content._list_strip_keys([CONTROLS[0], *[each for each in CONTROLS if each.name == 'faster']])}"
    )
    yield f"keys: {frame_content._list_strip_keys([each for each in CONTROLS if each.name == 'faster'])}"
    slower = next(each for each in CONTROLS if each.name == "slower")
    yield f"keys: {frame_content._list_strip_keys([slower, CONTROLS[0]])}"
    stage = Stage(message="")
    yield f"without a demo: {describe(build_frame(stage)._build_demo_strip(80))}"
    for title, changes in (
        ("usual", {}), ("hanging", {"stalled": 2}), ("planned", {"planned": 20_000}), ("cut", {"is_cut": True}),
    ):  # fmt: skip
        status = SimpleNamespace(**{**figures, **changes})
        stage = Stage(message="", demo=SimpleNamespace(compute_status=lambda status=status: status, controls=CONTROLS))
        yield f"{title}: {describe(build_frame(stage)._build_demo_strip(200))}"
    for width in (10, 16, 17, 18, 19, 40):
        stage.session.message = "a message of some length\x1b"
        yield f"message in {width}: {describe(build_frame(stage)._build_demo_strip(width))}"
    yield from stage.run("header of a demo", build_frame(stage).show_header)


def describe_time_bar() -> Iterator[str]:
    state = ReplayState(NOW_MS, NOW_MS, 60_000, NOW_MS - 10_000, NOW_MS + 9_999, False, 4, (), (), ())
    for findings, changes, spans, at_ms in (
        ((), (), (), 0), ((-10_000,), (), (), -10_000), ((-8_001,), (-8_000, 9_999), (), 9_999),
        ((-8_000, -6_000), (-8_000,), ((-10_000, 10_000),), -6_000), ((), (), ((-10_000, -8_000), (-5_999, -4_000)), 0),
        ((), (), ((-4_000, -2_001), (0, 1), (9_999, 10_000)), -2_000), ((10_000,), (-10_001,), (), 20_000),
        ((), (), ((-10_000, 10_000),), -20_000),
    ):  # fmt: skip
        drawn = state._replace(
            at_ms=NOW_MS + at_ms,
            findings=tuple(NOW_MS + ms for ms in findings),
            changes=tuple(NOW_MS + ms for ms in changes),
            spans=tuple((NOW_MS + begin, NOW_MS + end) for begin, end in spans),
        )
        bars = [describe(time_bar.draw_time_bar(drawn, cells)) for cells in (1, 10)]
        yield f"bar {findings} {changes} {spans} {at_ms}: {bars}"
    empty = state._replace(begin_ms=NOW_MS, end_ms=NOW_MS - 1)
    yield f"empty: {describe(time_bar.draw_time_bar(empty, 3))}"
    at_once = state._replace(begin_ms=NOW_MS, end_ms=NOW_MS, findings=(NOW_MS,))
    yield f"a finding in one ms: {[describe(time_bar.draw_time_bar(at_once, cells)) for cells in (2, 3)]}"
    yield f"one ms: {describe(time_bar.draw_time_bar(state._replace(begin_ms=NOW_MS, end_ms=NOW_MS), 2))}"
    stage = Stage()
    bar = TimeBar(stage.host, stage.session)
    yield f"no state: {describe(bar.build_line(80))}"
    for span_ms in (86_399_999, 86_400_000, 86_400_001):
        for width in (20, 33, 34, 35, 36, *range(50, 58), 99, 100, 120):
            for is_playing in (False, True):
                stage.session.replay = state._replace(is_playing=is_playing, end_ms=state.begin_ms + span_ms)
                yield f"{span_ms} in {width}, {is_playing}: {describe(bar.build_line(width))}"
    for playing, interval_s in ((None, 1.0), (False, 1.0), (False, 30.0), (True, 30.0), (True, 0.5)):
        stage.session.replay = None if playing is None else state._replace(is_playing=playing)
        stage.ticker.interval_s = interval_s
        yield from stage.run(f"playing {playing} {interval_s}", bar.choose_interval)
        yield f"  now {stage.ticker.interval_s}"


def describe_moves() -> Iterator[str]:
    state = ReplayState(NOW_MS, NOW_MS, 60_000, 0, NOW_MS, False, 4, (), (), ())
    finding = Finding("failing", "critical", "mail", "x", "", since_ms=NOW_MS + 5)
    queues = (Queue("news", "native"), Queue("mail", "native", findings=(finding,)))
    operation = SimpleNamespace(at_ms=NOW_MS + 7, refs=(NEWS, MAIL))
    for target, step in (("play", 1), ("speed", -1), ("record", 2), ("finding", 1), ("change", -1)):
        for replay in (None, state):
            stage = Stage(replay=replay, snapshot=Snapshot(NOW_MS, queues))
            stage.session.engine = Recorder("replay", stage.lines)
            bar = TimeBar(stage.host, stage.session)
            yield from stage.run(f"{target} {step} {replay is not None}", bar.move, target, step)
            yield from stage.answer("the reply")
            yield from stage.answer("a sentence", "at the end")
            yield from stage.answer("an error", error="gone")
            if bar._jumped_ms:
                yield from stage.run("not moved yet", bar.select_queue, stage.view)
            for at_ms in (NOW_MS + 5, NOW_MS + 7, NOW_MS + 9):
                if replay is not None:
                    stage.session.replay = state._replace(at_ms=at_ms, operations=(operation,))
                yield from stage.run(f"moved by {at_ms - NOW_MS}", bar.select_queue, stage.view)
                bar._jumped_ms = bar._jumped_ms or (NOW_MS if target == "finding" else 0)
            stage.session.snapshot = None
            yield from stage.run("no snapshot", bar.select_queue, stage.view)


def describe_counts() -> Iterator[str]:
    session = Stage().session
    session.systems = {name: SimpleNamespace(shares_workers=name == "rq") for name in ("native", "rq")}
    for queues in ({}, {MAIL: 2}, {MAIL: 2, NEWS: 3}, {MAIL: None}, {MAIL: 0, NEWS: None}, {MAIL: 2, JOBS: 5}):
        session.latest_queues = {
            ref: Queue(ref.queue, ref.system, (Count("dead", State.DEAD, 1),), workers=workers)
            for ref, workers in queues.items()
        }
        for refs in ((), (MAIL,), (MAIL, NEWS)):
            counts = [
                view_counts.count_view_rows(name, session, refs) for name in ("workers", "redis", "operations", "kinds")
            ]
            yield f"rows of {len(queues)} queues {list(queues.values())} for {len(refs)}: {describe(counts)}"
    session.server_warnings, session.journal.operations = (WARNING,), [1, 2]
    yield f"rows: {[view_counts.count_view_rows(name, session, ()) for name in ('redis', 'operations')]}"
    for refs in ([MAIL], [JOBS], [MAIL, JOBS], [Ref("gone", "x")]):
        stage = Stage(refs=refs)
        relevant = [view_counts.is_view_relevant(name, stage.session) for name in ("schedules", "errors")]
        yield f"relevant for {describe(refs)}: {relevant}"


def describe_error_counts() -> Iterator[str]:
    session = Stage().session
    failed = {
        ref: Queue(ref.queue, ref.system, (Count("dead", State.DEAD, 2), Count("later", State.SCHEDULED, later)))
        for ref, later in ((MAIL, 0), (NEWS, 3))
    }
    empty = Queue("mail", "native", (Count("dead", State.DEAD, 0),))
    read: Any = DeathCauses((SimpleNamespace(id="Boom"),), dead=2, read=2)
    known = {
        "complete": read,
        "partial": read._replace(read=1),
        "outdated": read._replace(dead=99, read=99),
        "with retries": read._replace(retrying=0),
    }
    for queues in ({}, {MAIL: empty}, {MAIL: failed[MAIL]}, {NEWS: failed[NEWS]}, failed):
        session.latest_queues = queues
        for title, causes in (("nothing", None), *known.items()):
            for refs in ((), (MAIL,)) if causes else ((),):
                session.death_causes = dict.fromkeys(refs or queues, causes) if causes else {}
                shown = describe(view_counts.count_view_rows("errors", session, ()))
                yield f"errors of {[ref.queue for ref in queues]}, read {title} {len(session.death_causes)}: {shown}"


def describe_slow_link() -> Iterator[str]:
    for number in (2, 3):
        link = slow_link.SlowLink(Stage().host, False)
        for _ in range(number):
            link.record_round_trip(151.0)
        yield f"{number} slow ones at the start: {link.is_calm}"
    for is_asked in (False, True):
        stage = Stage()
        link = slow_link.SlowLink(stage.host, is_asked)
        for title, times in (
            ("at the bound", [150.0] * 4), ("two slow", [150.1, 150.1, 1.0]), ("three slow", [150.1] * 3),
            ("nine fast", [1.0] * 9 + [151.0]), ("ten fast", [150.0] * 10), ("slow again", [151.0] * 3),
        ):  # fmt: skip
            lines = [*stage.run(title, lambda times=times: [link.record_round_trip(ms) for ms in times])]
            yield from (f"{is_asked} {line}" for line in lines)
            widget = SimpleNamespace(cursor_blink="as before")
            link.stop_cursor_blink(widget)
            yield f"  calm {link.is_calm} {stage.app.animation_level} {slow_link.formats.format_age(61_500)} {widget}"
        link.stop_cursor_blink(SimpleNamespace())
        link.restore_exact_ages()
        yield f"closed: {slow_link.formats.format_age(61_500)}"


def test_what_the_frame_shows_matches_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    keys.set_keymap({})
    monkeypatch.setattr(frame_content, "time", SimpleNamespace(monotonic=lambda: NOW_S))
    parts = (describe_status, describe_header, describe_footer, describe_strip, describe_time_bar, describe_moves,
             describe_counts, describe_error_counts, describe_slow_link)  # fmt: skip
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
