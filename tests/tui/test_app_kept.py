"""What the app, its views and its session do in each of their states: `app_kept.txt` has every line.

The methods get a replacement of their object. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/test_app_kept.py` writes the
text; review the difference as code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Bare
from kept_text import assert_lines_match_file
from service_stage import JOBS, MAIL, NEWS, SYSTEMS, Recorder, Stage, describe
from text_snapshots import stopped_clock  # noqa: F401
from textual.actions import SkipAction
from textual.app import SuspendNotSupported
from textual.geometry import Size

from rqtui.config.settings import INTERVAL_S, Settings
from rqtui.engine import ticker
from rqtui.errors import UsageError
from rqtui.model import Finding, Focus, Queue, Ref, Snapshot
from rqtui.recording.replay import REPLAY_RESULT
from rqtui.tui import app as app_module
from rqtui.tui import keys, session, view
from rqtui.tui.app import Cockpit
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.services import copying
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets.frame import VIEWS_FROM_ROWS

KEPT = Path(__file__).with_name("app_kept.txt")
NOW_MS = 1_800_000_000_000


class Clock:
    """A clock that a test sets."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


CLOCK = Clock()


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_sizes() -> Iterator[str]:
    stage = Stage()
    for width, height in (
        (119, 34),
        (120, 33),
        (120, 34),
        (60, 12),
        (59, 12),
        (60, 11),
        (200, VIEWS_FROM_ROWS - 1),
        (60, VIEWS_FROM_ROWS),
    ):
        self: Any = Recorder(
            "view",
            stage.lines,
            app=SimpleNamespace(size=Size(width, height)),
            strip=SimpleNamespace(display=True),
            is_high=height >= VIEWS_FROM_ROWS,
            count_note_rows=lambda: 2,
            scrollable=0,
        )
        facts = [prop.fget(self) for prop in (View.is_high, View.is_large)]
        rows = [View.count_content_rows(self)]
        self.strip.display, self.count_note_rows = False, lambda: 0
        rows.append(View.count_content_rows(self))
        yield f"{width}x{height}: {facts} {rows}"
        for was_small in (False, True):
            for focused in (None, "list"):
                self.__dict__.update(
                    is_too_small=was_small,
                    is_large=facts[1],
                    focused=focused,
                    _too_small=Recorder("sentence", stage.lines),
                    _focused_when_large=focused and Recorder("list", stage.lines, is_attached=True),
                )
                yield from stage.run(f"small before {was_small}, {focused}", View.check_terminal_size, self)
    for region_width, width in ((0, 24), (0, 25), (0, 26), (0, 80), (7, 80)):
        self = SimpleNamespace(app=SimpleNamespace(size=Size(width, 24)))
        pane: Any = SimpleNamespace(scrollable_content_region=SimpleNamespace(width=region_width))
        yield f"details of {region_width} in {width}: {View.measure_details_width(self, pane)}"
    for is_large, space in ((True, 40), (True, 28), (False, 20)):
        for rows in (0, 1, 3, 4, 5, 6, 10, 12, 13, 14, 19, 40):
            self = Recorder(
                "view",
                stage.lines,
                is_large=is_large,
                count_content_rows=lambda space=space: space,
                _table_height="",
                DETAILS="#details",
                query_one=lambda _name: SimpleNamespace(),
            )
            table: Any = SimpleNamespace(styles=SimpleNamespace(height=None))
            View.fit_table_height(self, table, rows)
            yield f"{rows} rows in {space}, large {is_large}: {table.styles.height} {self._has_preview}"
            table.styles.height = "kept"
            View.fit_table_height(self, table, rows)
            yield f"  again {table.styles.height}"


def describe_views() -> Iterator[str]:
    stage = Stage()
    refs = [Ref("native", name) for name in "abc"]
    fitting: list[Any] = [
        SimpleNamespace(rank_by_activity=lambda _refs: []),
        SimpleNamespace(rank_by_activity=lambda refs: refs[::-1]),
    ]
    for limit in (1, 2, 3, 4):
        for views in ([], fitting):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(view, "filter_views", lambda _stack, views=views: views)
                self: Any = SimpleNamespace(app=SimpleNamespace(screen_stack=()))
                yield (
                    f"{limit} busiest of {len(views)} views: {describe(View.select_busiest_queues(self, refs, limit))}"
                )
    for sort in ("name", "age", "size"):
        self = Recorder("view", stage.lines, SORTS=("name", "age", "size"), SORT_OF={"n": "name"}, sort=sort)
        yield from stage.run(f"next sort after {sort}", View.select_next_sort, self)
        yield f"  {self.sort}"
        for column in ("n", "x"):
            yield from stage.run(f"head {column}", View.on_table_head_clicked, self, SimpleNamespace(column=column))
            yield f"  {self.sort}"
    for number in ("1", "4", "5"):
        self = SimpleNamespace(count_numbered_items=lambda: 4)
        yield f"digit {number}: {View.check_action(self, 'place', (number, '9'))}"
    yield f"no digits: {View.count_numbered_items(self)} {View.count_note_rows(self)}"
    for has_hint in ("", "jobs"):
        self = Recorder(
            "view",
            stage.lines,
            FILTER_HINT=has_hint,
            focused="list",
            filter_line=Recorder("line", stage.lines),
            session=SimpleNamespace(filters=["a"]),
        )
        yield from stage.run(f"filter {has_hint!r}", View.action_filter, self)
    for attributes in ({}, {"is_open": False}, {"is_at_path": True}):
        line = Recorder("line", stage.lines, **{"is_open": True, "is_at_path": False, **attributes})
        self = Recorder("view", stage.lines, filter_line=line)
        for widget in (line, "other"):
            yield from stage.run(
                f"typed {attributes} {widget == 'other'}",
                View.on_input_changed,
                self,
                SimpleNamespace(input=widget, value="x"),
            )
    table = Recorder("table", stage.lines, is_attached=True)
    for is_valid in (True, False):
        for before in (None, table, Recorder("gone", stage.lines, is_attached=False)):
            self = Recorder(
                "view", stage.lines, filter_line=line, _focused_before=before, host=stage.host, filter_text="old"
            )
            if not is_valid:
                self.apply_filter = lambda expression: (_ for _ in ()).throw(UsageError(f"{expression} is none"))
            yield from stage.run(f"confirm {is_valid} {describe(before)}", View.confirm_filter, self, "x")
            yield f"  {self.filter_text}"
            self.confirm_filter = lambda expression, is_valid=is_valid: (
                stage.lines.append(f"confirm {expression}") or is_valid
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(view, "Table", Recorder)
                for value, widget in ((" x ", line), ("  ", line), ("x", "other")):
                    yield from stage.run(
                        f"enter {value!r}", View.on_input_submitted, self, SimpleNamespace(input=widget, value=value)
                    )
    for leaves, text in ((True, "x"), (False, "x"), (False, "")):
        self = Recorder("view", stage.lines, leave_findings=lambda leaves=leaves: leaves, filter_text=text)
        yield from stage.run(f"back {leaves} {text!r}", View.step_back, self)
    for diagnosis in (None, "text"):
        self = SimpleNamespace(_diagnosis=Recorder("diagnosis", stage.lines))
        yield from stage.run(f"diagnosis {diagnosis}", View.show_connection_diagnosis, self, diagnosis)
        yield f"  {self._diagnosis.display}"
    for is_frozen in (False, True):
        self = Recorder("view", stage.lines, is_frozen=is_frozen, host=stage.host)
        yield from stage.run("freeze", View.action_freeze, self)
        yield f"  {self.is_frozen}"
    self = Recorder("view", stage.lines, host=stage.host)
    yield from stage.run("resize", View.on_resize, self, None)
    yield from stage.run("opened", View.on_finding_cursor_opened, self, SimpleNamespace(ref=MAIL, finding="finding"))
    yield from stage.run("left", View.on_filter_line_left, self)
    self.filter_line = SimpleNamespace(set_body_paths="set paths")
    yield from stage.run("paths", View.on_filter_line_wants_paths, self)
    yield from stage.run("typing", View.preview_filter, self, "x")
    self.find_list = lambda: "list"
    for focused in (Recorder("cursor", [], finding="finding"), "list"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(view, "FindingCursor", Recorder)
            self.focused = focused
            yield from stage.run("leaving the findings", View.leave_findings, self)
            yield f"  {View.find_selected_finding(self)} {View.list_focus_keys(self)}"
    yield f"only queue {[describe(view.find_only_queue(refs)) for refs in ((), (MAIL,), (MAIL, NEWS))]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "line_cache", Recorder("line_cache", stage.lines))
        yield from stage.run("mounting", View.on_mount, self)


def describe_bare_views() -> Iterator[str]:
    app = SimpleNamespace(screen_stack=[])
    first, second = (Bare(View, app=app, title=title) for title in ("first", "second"))
    dialog = SimpleNamespace(title="dialog")
    for stack in ([], [dialog], [first], [first, dialog], [first, second], [second, first, dialog]):
        app.screen_stack = stack
        titles = [[each.title for each in screens] for screens in (stack, view.filter_views(stack))]
        top = view.find_top_view(stack)
        yield f"views of {titles[0]}: {titles[1]}, top {top and top.title}, first on top {first.is_on_top}"
    for is_composed in (False, True):
        for children in ((), ("header",)):
            drawn = Bare(View, is_composed=is_composed, header="header", children=children).is_drawn
            yield f"composed {is_composed} of {len(children)}: drawn {drawn}"
    for demo in (None, "demo"):
        for is_replay in (False, True):
            lines: list[str] = []
            composed = Bare(
                View, header="header", footer="footer", filter_line=SimpleNamespace(name="filter line", paths="paths"),
                strip=SimpleNamespace(name="strip", display=None), _diagnosis="diagnosis", _too_small="too small",
                session=SimpleNamespace(demo=demo, is_replay=is_replay), compose_view=lambda: iter(("list",)),
                check_terminal_size=lambda lines=lines: lines.append("checked"),
            )  # fmt: skip
            widgets = [getattr(each, "name", each) for each in composed.compose()]
            yield f"demo {demo}, replay {is_replay}: {lines} {widgets} strip {composed.strip.display}"
    usual = Bare(View)
    yield f"usual: {describe(usual.build_target())} {usual.build_focus([MAIL])} {describe(usual.list_scope_queues())}"
    yield f"usual line: {describe(usual.build_second_line(80))}, views {[*usual.compose_view()]}"
    asked = [usual.allows_verb(None), usual.handle_verb(None), usual.offers_action("x"), usual.is_list_of_queue(MAIL)]
    yield f"usual answers: {asked} {usual.find_list()} {usual.find_selected_operation()} {usual.move_to_other_job(1)}"
    scoped = Bare(View, build_target=lambda: Target(NEWS))
    yield f"scope of a queue: {describe(scoped.list_scope_queues())}"


# ── the app ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_app(stage: Stage, **attributes: Any) -> Any:
    parts = (
        "navigation",
        "connection_lost",
        "profiles",
        "time_bar",
        "slow_link",
        "journal",
        "undo",
        "batches",
        "verb_starter",
        "loops",
        "write_lock",
        "frame_content",
        "palette",
    )
    services = {name: Recorder(name, stage.lines) for name in parts} | {"navigation": stage.navigation}
    services["slow_link"].is_calm = False
    return Recorder(
        "app",
        stage.lines,
        **{
            **services,
            "session": stage.session,
            "demo": None,
            "_is_replay": False,
            "_open_queue": "",
            "_shown_warnings": frozenset(),
            "size": Size(80, 24),
            "NOTIFICATION_TIMEOUT": 5.0,
            "_clock": Recorder("clock", stage.lines),
            "_last_interrupt_s": -2.0,
            "focused": None,
            "_refresh_timer": None,
            "_is_long_change_running": lambda: False,
            **attributes,
        },
    )


def describe_toasts() -> Iterator[str]:
    words = " ".join(f"word{number}" for number in range(30))
    for width in (10, 27, 28, 29, 79, 80, 81, 200):
        stage = Stage()
        app = build_app(stage, size=Size(width, 24))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app_module, "Notify", lambda toast: toast)
            patch.setattr(
                app_module,
                "Toast",
                lambda message, severity, timeout: (max(map(len, message.split("\n"))), severity, timeout),
            )
            yield from stage.run(f"toast in {width}", Cockpit.show_toast, app, words)
            yield from stage.run("a long word", Cockpit.show_toast, app, "x" * 300)
            yield from stage.run("for a while", Cockpit.show_toast, app, "x\x1b", "error", 0.0)


def describe_messages() -> Iterator[str]:
    warning, other = (
        Finding("memory", "warning", "", "memory is full.", "add memory"),
        Finding("no-persistence", "warning", "", "x", "y"),
    )
    critical = Finding("memory", "critical", "", "memory is full", "add memory")
    stage = Stage()
    app = build_app(stage)
    for warnings in ((), (warning,), (warning, other), (critical,), (), (warning,)):
        stage.session.server_warnings = warnings
        yield from stage.run(f"{len(warnings)} warnings", Cockpit._show_new_warnings, app)
    for is_stale, has_demo, wait_s in (
        (False, None, 1.0),
        (True, None, 1.0),
        (False, "demo", 1.0),
        (False, None, INTERVAL_S),
        (False, None, INTERVAL_S + 0.1),
        (False, None, 0.5),
    ):
        stage.session.is_stale, app.demo, stage.ticker.wait_s = is_stale, has_demo, wait_s
        yield from stage.run(f"clock {is_stale} {has_demo} {wait_s}", Cockpit._update_clock_timer, app)
    app.demo = Recorder("demo", stage.lines, message="text")
    for has_demo in (True, False):
        app.demo = app.demo if has_demo else None
        for is_calm in (False, True):
            for loss in (None, "lost"):
                for is_drawn in (True, False):
                    app.slow_link.is_calm, stage.session.connection_loss, stage.view.is_drawn = is_calm, loss, is_drawn
                    yield from stage.run(
                        f"second {has_demo} {is_calm} {loss} {is_drawn}", Cockpit._update_each_second, app
                    )
    stage.navigation.view = None
    app.slow_link.is_calm = False
    yield from stage.run("second without a view", Cockpit._update_each_second, app)
    stage = Stage()
    app = build_app(stage)
    lost, failed = ticker.ServerLost("away", 1.0, 2.0), ticker.RefreshFailed("no", 1.0, 2.0)
    engine = Recorder("new engine", stage.lines, resolve=lambda name: Ref("native", name))
    snapshot = Snapshot(NOW_MS)
    calls: dict[str, tuple[Callable[..., object], Any]] = {
        "connected": (Cockpit.on_connected, SimpleNamespace(engine=engine)),
        "lost": (Cockpit.on_lost, lost),
        "acted": (Cockpit.on_acted, "acted"),
        "answered": (Cockpit.on_answered, "answered"),
        "not recorded": (Cockpit.on_recording_failed, "no room"),
        "read": (Cockpit.on_recording_read, lambda: stage.lines.append("read")),
        "failed": (Cockpit.on_failed, failed),
        "failed again": (Cockpit.on_failed, failed),
        "failed otherwise": (Cockpit.on_failed, failed._replace(error="else")),
        "refreshed": (Cockpit.on_refreshed, SimpleNamespace(snapshot=snapshot)),
    }
    for is_current in (True, False):
        for title, (handle, event) in calls.items():
            stage.session.is_stale = title == "refreshed"
            yield from stage.run(
                f"{title} {is_current}",
                handle,
                app,
                SimpleNamespace(session=stage.session if is_current else None, event=event),
            )
            yield f"  {stage.session.connection_loss} {stage.session.refresh_failure}"
    for open_queue in ("", "mail"):
        app._open_queue = open_queue
        yield from stage.run(
            f"open {open_queue!r}",
            Cockpit.on_connected,
            app,
            SimpleNamespace(session=stage.session, event=SimpleNamespace(engine=engine)),
        )
    for is_stale in (False, True):
        for first in (None, "snapshot"):
            for refs in ([MAIL], [MAIL, NEWS]):
                for drawn in (True, False):
                    stage = Stage(is_stale=is_stale, snapshot=first, refs=[MAIL])
                    stage.view.is_drawn = drawn
                    stage.session.store_refresh = lambda _event, refs=refs, stage=stage: setattr(
                        stage.session, "refs", refs
                    )
                    app = build_app(stage)
                    event = SimpleNamespace(snapshot=snapshot)
                    yield from stage.run(
                        f"refreshed {is_stale} {first} {len(refs)} {drawn}",
                        Cockpit.on_refreshed,
                        app,
                        SimpleNamespace(session=stage.session, event=event),
                    )


def describe_actions() -> Iterator[str]:
    actions = (
        "replay",
        "verb",
        "undo",
        "toggle_loop",
        "step_loop",
        "lock",
        "unlock",
        "demo",
        "stop_changes",
        "edit_url",
        "open_demo",
        "other",
    )
    for is_replay, is_read_only, loops, demo, is_running, is_never in (
        (False, False, {}, None, False, False),
        (True, False, {"a": 1}, "demo", True, True),
        (False, True, {"a": 1}, None, True, False),
        (False, False, {"a": 1}, "x", False, True),
    ):
        stage = Stage(is_read_only=is_read_only, loops=loops, is_never_connected=is_never)
        app = build_app(
            stage,
            _is_replay=is_replay,
            demo=demo,
            _is_long_change_running=lambda is_running=is_running: is_running,
            check_verb=lambda key: f"key {key}",
            write_lock=SimpleNamespace(can_unlock="maybe"),
        )
        checked = {action: Cockpit.check_action(app, action, ("R", "x")) for action in actions}
        yield f"{is_replay} {is_read_only} {len(loops)} {demo} {is_running}: {checked}"
        app._refuse_in_replay = lambda app=app: Cockpit._refuse_in_replay(app)
        for action in (
            lambda app=app: Cockpit.action_verb(app, "R"),
            lambda app=app: Cockpit.action_undo(app),
            lambda app=app: Cockpit.export_operations(app),
        ):
            yield from stage.run("action", action)
    stage = Stage()
    for is_running in (False, True):
        app = build_app(stage, _is_long_change_running=lambda is_running=is_running: is_running)
        yield from stage.run(f"quit {is_running}", Cockpit._quit_after_confirmation, app)
        if is_running:
            answer = app.find_last_call("push_screen")[1]
            yield from stage.run("no", answer, None)
            yield from stage.run("yes", answer, True)
    app = build_app(stage)
    for now_s in (1000.0, 1002.1, 1004.1, 1004.1):
        CLOCK.now_s = now_s
        yield from stage.run(f"ctrl+c at {now_s}", Cockpit.action_leave, app)
    app = build_app(stage)
    CLOCK.now_s = 1.0
    yield from stage.run("ctrl+c just after the start", Cockpit.action_leave, app)
    CLOCK.now_s = 3.0
    yield from stage.run("ctrl+c two seconds later", Cockpit.action_leave, app)
    app.focused = SimpleNamespace(selected_text="text")
    with pytest.raises(SkipAction):
        Cockpit.action_leave(app)
    for loops in (
        {},
        {"a": SimpleNamespace(is_running=False)},
        {"a": SimpleNamespace(is_running=False), "b": SimpleNamespace(is_running=True)},
    ):
        for error in (None, SuspendNotSupported("no shell")):
            stage = Stage(loops=loops)
            with pytest.MonkeyPatch.context() as patch:

                def stop(_app: object, error: Exception | None = error) -> float:
                    if error is not None:
                        raise error
                    return 999.6

                patch.setattr(app_module.job_control, "stop_program", stop)
                yield from stage.run(
                    f"suspended {len(loops)} {error}", Cockpit.action_suspend_process, build_app(stage)
                )
    for has_dialog in (False, True):
        stage.navigation.has_dialog = has_dialog
        app = build_app(stage, frame_content=SimpleNamespace(list_view_links=tuple))
        yield from stage.run(f"views {has_dialog}", Cockpit.action_list_views, app)
    for name in ("errors", "", None):
        yield from stage.run(f"chosen {name}", Cockpit._open_chosen_view, app, name)
    for is_drawn in (True, False):
        stage.view.is_drawn = is_drawn
        yield from stage.run("refresh now", Cockpit.action_refresh_now, app)
        yield from stage.run("request", Cockpit.request_refresh, app)
    app.set_timer = lambda *args, record=app.set_timer: record(*args) or Recorder("timer", stage.lines)
    yield from stage.run("soon", Cockpit.request_refresh_soon, app)
    yield from stage.run("soon again", Cockpit.request_refresh_soon, app)
    yield from stage.run("top view", Cockpit._show_top_view, app)
    yield from stage.run("connecting", Cockpit.schedule_connection, app)
    yield from stage.run("slower", Cockpit.action_interval, app, 2.0)
    yield from stage.run("blur", Cockpit.on_app_blur, app)
    yield from stage.run("focus", Cockpit.on_app_focus, app)
    for demo in (None, Recorder("demo", stage.lines, message="text")):
        app.demo = demo
        yield from stage.run("demo page", Cockpit.action_demo, app)
        yield from stage.run("demo control", Cockpit.action_demo_control, app, "faster")
        yield from stage.run("demo message", Cockpit._find_demo_message, app)
        yield from stage.run("another Redis", Cockpit._switch_redis, app, "settings", demo)


def describe_delegations() -> Iterator[str]:
    """Yield what the methods do that pass a key or a call on to one service."""
    stage = Stage()
    app = build_app(stage, _list_usable_keys=lambda: frozenset({"errors"}), _refuse_in_replay=lambda: False)
    calls: dict[str, tuple[Any, ...]] = {
        "show_header": (), "show_keys": (), "push_view": ("view",), "open_board": (MAIL,), "open_job": (MAIL, "job"),
        "open_incident": (MAIL, "finding"), "open_search": ("x",), "check_verb": ("R",),
        "start_verb": ("verb", "target"), "start_verb_on_jobs": ("requeue", [], "/x", "1 more."),
        "find_relevant_loops": (), "export_operations": (), "handle_bindings_clash": (set(), None),
        "on_descendant_focus": (SimpleNamespace(widget="widget"),), "action_replay": ("play", 1),
        "action_verb": ("R",), "action_undo": (), "action_toggle_loop": ("reap",), "action_step_loop": ("reap",),
        "action_unlock": ("15m",), "action_lock": (), "action_export_operations": (), "action_stop_changes": (),
        "action_open_view": ("errors",), "action_command_palette": (), "action_help": (), "action_edit_url": (),
        "action_open_demo": (), "action_show_incident": (),
    }  # fmt: skip
    for name, arguments in calls.items():
        yield from stage.run(name, getattr(Cockpit, name), app, *arguments)
    for is_first in (False, True):
        stage.navigation.is_at_first_view = is_first
        app.action_back = lambda: Cockpit.action_back(app)
        for name in ("action_back", "action_quit", "action_quit_or_back"):
            yield from stage.run(f"{name} {is_first}", lambda name=name: asyncio.run(getattr(Cockpit, name)(app)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "Copying", lambda *args: Recorder(f"copying of {describe(args)}", stage.lines))
        for view in (stage.view, None):
            for has_dialog in (False, True):
                stage.navigation.view, stage.navigation.has_dialog = view, has_dialog
                yield from stage.run(f"copy {view is None} {has_dialog}", Cockpit.action_copy_as, app)
    for demo in (None, Recorder("demo", stage.lines)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "get_running_loop", lambda: Recorder("loop", stage.lines))
            for name in ("job_control", "hangup", "style_cache"):
                patch.setattr(app_module, name, Recorder(name, stage.lines))
            app.demo, app.screen_change_signal = demo, Recorder("screens", stage.lines)
            yield from stage.run("loading", Cockpit.on_load, app)
            yield from stage.run("mounting", Cockpit.on_mount, app)
            yield from stage.run("another screen", app.screen_change_signal.find_last_call("subscribe")[1], "screen")
            yield from stage.run("hangup", app_module.hangup.find_last_call("watch_terminal")[0])
    stage.navigation.view = stage.view
    app.palette.is_general_key_usable = lambda general_key: general_key.id > "m"
    app.verb_starter.check_verb_key = lambda key: key in "RP"
    app.verb_starter.find_verb_of_key = lambda key: SimpleNamespace(name="requeue") if key == "R" else None
    for view in (stage.view, None):
        stage.navigation.view = view
        yield f"usable keys: {describe(Cockpit._list_usable_keys(app))}"


def describe_end() -> Iterator[str]:
    stage = Stage()
    stage.session.loops = {name: Recorder(name, stage.lines) for name in ("dispatch", "reap")}
    app = build_app(stage, current_mode=app_module.OVERVIEW)
    for stop in (stage.session.loops["dispatch"].stop,):
        stage.session.loops["dispatch"].stop = lambda seconds, stop=stop: (
            stop(seconds) or setattr(CLOCK, "now_s", CLOCK.now_s + 0.7 * bool(seconds))
        )
    yield from stage.run("end", Cockpit.on_unmount, app)
    for mode in (app_module.OVERVIEW, app_module.SECOND_OVERVIEW):
        for is_replay in (False, True):
            app.current_mode, app._is_replay = mode, is_replay
            yield from stage.run(
                f"another session {mode} {is_replay}",
                Cockpit._switch_session,
                app,
                SimpleNamespace(interval_s=3.0),
                None,
            )
    yield from stage.run(
        "a demo",
        Cockpit._switch_session,
        build_app(stage, current_mode="x"),
        SimpleNamespace(interval_s=3.0),
        SimpleNamespace(scenario=SimpleNamespace(loops=True)),
    )
    for is_enabled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                app_module, "gc", Recorder("gc", stage.lines, isenabled=lambda is_enabled=is_enabled: is_enabled)
            )
            yield from stage.run(f"start {is_enabled}", Cockpit._start_ticker, app)
    assert gc.isenabled()
    for code in (None, 0, 3):
        with pytest.MonkeyPatch.context() as patch:
            made: list[Any] = []

            def make(*args: Any, made: list[Any] = made, code: int | None = code, **options: Any) -> Any:
                made.append((options.get("interval_s"), options.get("is_replay"), options.get("foreign_loops")))
                return SimpleNamespace(run=lambda: made.append("ran"), return_code=code)

            patch.setattr(app_module, "Cockpit", make)
            demo: Any = SimpleNamespace(scenario=SimpleNamespace(loops=True)) if code else None
            results = (
                app_module.run(Settings(), demo, interval_s=code),
                app_module.run_replay(Settings(), lambda _settings: None),
            )
            yield f"exit {results}: {made}"


# ── the session ──────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_session() -> Iterator[str]:
    posted: list[Any] = []
    made = Session(Settings("redis://:pw@here"), SimpleNamespace(folder=""), lambda: None, posted.append, 1.0)
    yield (
        f"at first {made.now_ms} {made.url} {made.is_never_connected} {made.is_replica} "
        f"{made.server_warnings} {made.has_recording}"
    )
    engine: Any = SimpleNamespace(
        systems=SYSTEMS,
        refs=[MAIL, JOBS],
        warnings=(),
        explain_denial=lambda verb, ref: f"{verb} {ref.queue}",
        resolve=lambda name: Ref("native", name),
    )
    yield f"denied {made.explain_denial('x', MAIL)!r}"
    with pytest.raises(UsageError, match="not connected"):
        made.find("mail")
    made.set_engine(engine)
    yield f"denied {made.explain_denial('x', MAIL)!r} {made.explain_denial('x', None)!r} {describe(made.find('mail'))}"
    made.connection_loss = ticker.ServerLost("x", 1.0, 2.0)
    yield f"never {made.is_never_connected}"
    for queues, refs in (
        (("mail", "news"), [MAIL, NEWS]),
        (("mail",), [MAIL, NEWS]),
        (("mail",), [MAIL]),
        (("mail", "gone"), [MAIL]),
        ((), [MAIL, JOBS, Ref("rq", "mail")]),
    ):
        engine.refs = refs
        CLOCK.now_s = 1000.0
        focus = Focus((MAIL,))
        message = SimpleNamespace(
            snapshot=Snapshot(NOW_MS, tuple(Queue(name, "native") for name in queues)), focus=focus
        )
        made.store_refresh(message)
        CLOCK.now_s = 1001.5
        yield (
            f"{queues} {describe(refs)}: {describe(list(made.latest_queues))} {describe(made.refs)} "
            f"{describe(made.ambiguous_names)} {made.now_ms - NOW_MS} {made.last_focus is focus}"
            f" {made.is_stale} {made.refs is refs}"
        )
        kept = made.refs
        made.store_refresh(message)
        yield f"  same list {made.refs is kept}"
    warnings = tuple(Finding(kind, "warning", "", "x") for kind in ("no-persistence", "read-only-replica"))
    engine.warnings = warnings
    yield f"warnings of a demo {[each.kind for each in made.server_warnings]} {made.is_replica}"
    made.demo = None
    yield f"warnings {[each.kind for each in made.server_warnings]}"
    yield (
        f"names {[made.find_foreign_system_name(ref) for ref in (MAIL, JOBS)]} "
        f"{[made.format_name(ref) for ref in (MAIL, JOBS)]}"
    )
    yield f"records {made.close_undo_record('a', 'b', 'c')!r}"
    made.keeper = SimpleNamespace(end_change=lambda *names: "-".join(names))
    yield f"records {made.close_undo_record('a', 'b', 'c')!r}"
    stage = Stage()
    made.ticker = stage.ticker
    for seconds in (0.1, 0.25, 1.0, 60.0, 61.0):
        yield from stage.run(f"interval {seconds}", made.change_refresh_interval, seconds)
        yield f"  {stage.ticker.interval_s}"
    for number in range(201):
        made.changes.append(RecentEvent(float(number), "undo", MAIL, f"change {number}"))
    yield f"changes {len(made.changes)}, the first {made.changes[0].words}"
    made.journal = SimpleNamespace(sightings=[1, 2, 3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.recent, "convert_finding_change", lambda sighting: f"finding {sighting}")
        patch.setattr(
            session.recent,
            "list_recent_events",
            lambda _loops, events, limit: (len(events), events[-1] if events else None, limit),
        )
        yield f"recent {[made.list_recent_entries(limit) for limit in (0, 1, 2, 9)]}"
    made.ticker.request_call = lambda _function: 7
    made.ticker.start_stepped_call = lambda _function: 8
    ids = (
        made.call_engine(lambda _engine: None, stage.lines.append),
        made.run_steps(lambda _engine: iter(()), stage.lines.append),
    )
    for message in (
        ticker.CallFinished(7, "whole"),
        ticker.CallFinished(8, "step", is_last=False),
        ticker.CallFinished(8, "end"),
    ):
        made.deliver_result(message)
    yield f"calls {ids} {stage.lines} {made._callbacks}"
    yield from stage.run("stopping", made.stop_steps, 8)
    message = SimpleNamespace(snapshot=made.snapshot, focus=Focus())
    made.is_replay, CLOCK.now_s = True, 1009.0
    yield f"in a replay {made.now_ms - NOW_MS}"
    made.watch, made.is_replay = Recorder("watch", stage.lines), False
    yield from stage.run("watched", made.store_refresh, message)
    stored: list[Any] = []
    made._store_replay_state, made.is_replay = stored.append, True
    yield from stage.run("replayed", made.store_refresh, message)
    yield f"  {stored == [message.snapshot]}"
    made._recorder = Recorder("recorder", stage.lines)
    yield f"reads {made.read_recording('read', lambda *answer: stage.lines.append(f'answered {answer}'))}"
    answer_reading = made._recorder.find_last_call("read")[1]
    posted.clear()
    answer_reading("rows", "")
    made._report_recording_problem("no room")
    yield f"posted {[(type(each).__name__, each.session is made, describe(each.event)) for each in posted]}"
    posted[0].event()
    yield f"  {stage.lines}"
    made._recorder = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rqtui.recording.replay.RecordedJournal", Recorder)
        patch.setattr(session.recent, "convert_operation", lambda operation: f"converted {operation}")
        patch.setattr(
            "rqtui.tui.widgets.queue_preview.collect_recorded_causes", lambda causes, dead: (len(causes), dead)
        )
        replay = SimpleNamespace(
            operations=tuple(range(201)), causes=(SimpleNamespace(ref=MAIL), SimpleNamespace(ref=NEWS))
        )
        made.journal = Recorder("journal", stage.lines)
        snapshot = Snapshot(NOW_MS, (Queue("mail", "native"),), results={REPLAY_RESULT: (replay,)})
        yield from stage.run("a moment of a recording", Session._store_replay_state, made, snapshot)
        yield f"  {len(made.changes)} {made.changes[0]} {made.changes[-1]} {describe(made.death_causes)}"
        replay.operations = (7, 8)
        yield from stage.run("an earlier moment", Session._store_replay_state, made, snapshot)
        yield f"  {list(made.changes)}"
    stage.lines.clear()
    posted.clear()
    for is_recording in (False, True):
        recorded = Session(
            Settings("redis://here", is_recording=is_recording, record_mb=3, record_days=4),
            None,
            lambda: None,
            posted.append,
            1.0,
        )
        seen: list[Any] = []
        recorded.ticker = Recorder("ticker", stage.lines, engine="engine")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "rqtui.recording.recorder.Recorder",
                lambda *args: seen.append((args[1], args[2], args[5])) or Recorder("recorder", stage.lines),
            )
            for event in (
                ticker.CallFinished(1),
                ticker.SnapshotTaken(Snapshot(NOW_MS), Focus()),
                ticker.CallFinished(1),
            ):
                recorded._post_event(event)
        yield f"recording {is_recording}: {seen} {stage.lines} {[type(each).__name__ for each in posted]}"
        yield f"  reads {recorded.read_recording(lambda _writer: 5, lambda *_args: None)} {recorded.has_recording}"
        recorded.stop_recording(2.0)
        recorded._post_event(ticker.CallFinished(1))
        yield f"  stopped {stage.lines} {recorded._is_recording}"
        stage.lines.clear()
        posted.clear()


def test_what_app_views_and_session_do_matches_the_stored_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys.set_keymap({})
    monkeypatch.setattr(app_module, "time", CLOCK)
    monkeypatch.setattr(session, "time", CLOCK)
    parts: tuple[Callable[[], Iterator[str]], ...] = (
        describe_sizes,
        describe_views,
        describe_bare_views,
        describe_toasts,
        describe_messages,
        describe_actions,
        describe_delegations,
        describe_end,
        describe_session,
    )
    assert_lines_match_file((line for part in parts for line in part()), KEPT)
