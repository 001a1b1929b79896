"""What the services of a session do in each of its states: `session_kept.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/services/test_session_kept.py` writes the text; review the difference as code.
"""

# ruff: noqa: B023  # each function runs in the turn of the loop that defines it

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file
from service_stage import JOBS, MAIL, NEWS, SYSTEMS, Recorder, Stage, describe
from text_snapshots import stopped_clock  # noqa: F401
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size

from rqtui import scenarios
from rqtui.config.file import Config
from rqtui.config.settings import Settings
from rqtui.connection import embedded
from rqtui.engine.ticker import CallFinished, ServerLost
from rqtui.errors import RqtuiError
from rqtui.model import Count, Finding, Job, Queue, Ref, Snapshot, State
from rqtui.operations.journal import Circumstances, Operation
from rqtui.tui import keys
from rqtui.tui.format.copy_formats import COPY_FORMATS, ClipboardData, JobSource
from rqtui.tui.format.rows import Row
from rqtui.tui.services import connection_lost, copying, crash, demo, keymap, profiles, session_journal, write_lock
from rqtui.tui.services.connection_lost import ConnectionLost
from rqtui.tui.services.copying import Copying
from rqtui.tui.services.demo import DemoStrip
from rqtui.tui.services.loops import Loops
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.services.outcome_counts import OutcomeCounts
from rqtui.tui.services.profiles import Profiles
from rqtui.tui.services.session_journal import SessionJournal
from rqtui.tui.services.write_lock import WriteLock
from rqtui.tui.target import Target
from rqtui.tui.terminal import clipboard
from rqtui.tui.widgets.question_dialog import FormReply

KEPT = Path(__file__).with_name("session_kept.txt")
NOW_S, NOW_MS = 1000.0, 1_800_000_000_000
JOB = Job(b"j1", "mail", "native", "dead", State.DEAD, b"j1", body=b"{}")


class Clock:
    """A clock that a test sets."""

    now_s, wall_s = NOW_S, NOW_MS / 1000

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.wall_s


CLOCK = Clock()


# ── a Redis that never replied ───────────────────────────────────────────────────────────────────────────────────────


def describe_lost_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    urls = (
        "redis://host",
        "redis://user@host:6380/3",
        "redis://:pw@host",
        "rediss://u%40:p%40ss@host/0",
        "unix:///a%20b?db=2",
        "redis+sentinel://a:1,b:2/mymaster/1",
        "redis+cluster://a:1,b:2",
        "redis:///2",
        "redis://host/1?db=2",
    )
    for url in urls:
        for is_low in (False, True):
            diagnosis = connection_lost.format_diagnosis(url, "away\x1b", 3.5, is_low)
            yield f"{url} {is_low}: {describe(diagnosis)}"
    for next_s in (-1.0, 0.4, 0.6):
        yield connection_lost.format_diagnosis("redis://host", "away", next_s, True).plain.split(chr(10))[-2]
    for old, edited in (
        ("redis://:pw@h", "redis://:***@h/1"),
        ("redis://h", "redis://:***@h"),
        ("redis://:p@h", "redis://:***@h:***@i"),
    ):
        yield f"password: {connection_lost.restore_password(old, edited)}"
    for height in (21, 22, 23):
        stage = Stage(connection_loss=ServerLost("away", 0.0, NOW_S + 2.6), is_never_connected=True)
        stage.app.size = Size(80, height)
        service = ConnectionLost(stage.host, stage.navigation, stage.host.switch)
        yield from stage.run(f"in {height} rows", service.show_connection_diagnosis)
    stage.session.is_never_connected = False
    yield from stage.run("after a snapshot", service.show_connection_diagnosis)
    stage.session.is_never_connected, stage.session.connection_loss = True, None
    yield from stage.run("connected", service.show_connection_diagnosis)
    stage.host.session.settings = Settings("redis://:pw@host", profile="eu")
    yield from stage.run("editing", service.edit_url)
    stage.app._calls["push_screen"][1]("")
    yield from stage.run("an edited one", stage.app.find_last_call("push_screen")[1], "redis://other")
    yield from stage.run("none", stage.app.find_last_call("push_screen")[1], "")
    for url in ("redis://:***@new:6380", "nosuch://x", "  redis://new  "):
        problem = Recorder("problem", stage.lines, display=False)
        dialog = Recorder(
            "dialog", stage.lines, _url="redis://:pw@old", query_one=lambda *_args, problem=problem: problem
        )
        event = SimpleNamespace(value=url)
        yield from stage.run(f"entering {url!r}", connection_lost.EditUrl.on_input_submitted, dialog, event)
        yield f"  {problem.display}"
    yield from stage.run("closing without a demo", service.stop_demo_server)
    yield from stage.run("demo", service.open_demo)
    server = SimpleNamespace(url="redis://own", pid=7, folder="folder")
    monkeypatch.setattr(
        embedded, "start_server", lambda kind: stage.lines.append(f"server {kind}") or nullcontext(server)
    )
    monkeypatch.setattr(
        scenarios,
        "create_run",
        lambda scenario, *args: stage.lines.append(f"run {scenario.name} {args}") or nullcontext("run"),
    )
    yield from stage.run("starting it", stage.app.find_last_call("run_worker")[0])
    service._servers.callback(lambda: stage.lines.append("stopped"))
    yield from stage.run("closing it", service.stop_demo_server)

    def refuse(_kind: str) -> Any:
        raise RqtuiError("no server is installed.")

    monkeypatch.setattr(embedded, "start_server", refuse)
    yield from stage.run("without a server", service._start_demo)


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(copying.screen_text, "is_screen_readable", lambda view: view.is_readable)
    monkeypatch.setattr(copying.screen_text, "read_screen_lines", lambda _view: ["a", "b"])
    monkeypatch.setattr(copying, "_find_table", lambda view: view.table)
    rows = [Row(f"r{number}", (f"cell {number}",)) for number in range(3)]
    table: Any = SimpleNamespace(rows=rows, marks=(), cursor_id="r1", painter=SimpleNamespace(columns=()))
    targets = {
        "nothing": Target(), "a queue": Target(MAIL), "a job": Target(MAIL, "dead", (replace(JOB, id=b"x" * 31),)),
        "a short one": Target(MAIL, "dead", (replace(JOB, id=b"x" * 30),)), "two": Target(MAIL, "dead", (JOB, JOB)),
        "of a foreign system": Target(JOBS, "failed", (JOB,)),
    }  # fmt: skip
    for title, target in targets.items():
        stage = Stage()
        stage.view.__dict__.update(
            build_target=lambda target=target: target,
            is_revealed=False,
            session=stage.session,
            is_readable=title != "two",
            table=None,
        )
        service = Copying(stage.host, stage.view)
        heading, choices = service._build_copy_choices(stage.view)
        yield f"copying {title}: {heading!r} {[choice[:2] for choice in choices]}"
    for marks, cursor in (((), "r1"), ((), "gone"), (("r0", "r2"), "r1"), (("r0",), "r1")):
        table.marks, table.cursor_id = marks, cursor
        made = copying._build_row_choices(
            table, lambda _table, rows: stage.lines.append(f"copied {[row.id for row in rows]}")
        )
        yield f"rows {marks} {cursor}: {[choice[:2] for choice in made]}"
        for choice in made:
            yield from stage.run(choice[0], choice[2])
    table.rows = []
    yield f"no rows: {copying._build_row_choices(table, lambda *_args: None)}"
    table.rows, stage.view.table = rows, table
    stage.view.build_target = lambda: Target(MAIL)
    yield from stage.run("asking", service.open_copy_dialog)
    accept = stage.app.find_last_call("push_screen")[1]
    yield from stage.run("nothing", accept, None)
    results = {
        "terminal": clipboard.CopyResult("the terminal"),
        "file": clipboard.CopyResult("FOLDER/copy", "it is too long"),
    }
    monkeypatch.setattr(copying.raw_output, "find_terminal_writer", lambda _app: None)
    stage.app.call_from_thread = lambda function, *args: function(*args)
    stage.view.is_readable = True
    service.open_copy_dialog()
    accept = stage.app.find_last_call("push_screen")[1]
    for key in ("i", "t", "s"):
        for name, result in results.items():
            monkeypatch.setattr(
                clipboard,
                "send_to_clipboard",
                lambda data, *_args, result=result, **_more: stage.lines.append(f"sent {data!r}") or result,
            )
            yield from stage.run(f"{key} to {name}", accept, key)
            yield from stage.run("sending", stage.app.find_last_call("run_worker")[0])

    def fail(*_args: object, **_more: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr(clipboard, "send_to_clipboard", fail)
    yield from stage.run("without room", stage.app.find_last_call("run_worker")[0])
    monkeypatch.setattr(
        clipboard,
        "send_to_clipboard",
        lambda data, *_args, **_more: stage.lines.append(f"sent {data!r}") or results["terminal"],
    )
    for missing in (0, 1, 2):
        service._send_to_clipboard(ClipboardData(b"abc", "x"), missing)
        yield from stage.run(f"{missing} missing", stage.app.find_last_call("run_worker")[0])
    source = JobSource(SYSTEMS["native"], "mail", "redis://here", False)
    for copy_format in COPY_FORMATS:
        for number in (1, 500, 501):
            if number > 1 and not copy_format.needs_body:
                continue
            yield from stage.run(
                f"{copy_format.key} of {number}", service._copy_jobs, copy_format, MAIL, (JOB,) * number, source
            )
    collect = stage.session.find_last_call("run_steps")[1]
    for results_of_steps in ((JOB,), (None,), ()):
        service._copy_jobs(next(each for each in COPY_FORMATS if each.needs_body), MAIL, (JOB, JOB), source)
        start, collect = stage.session.find_last_call("run_steps")
        for result in results_of_steps:
            collect(CallFinished(1, result, is_last=False))
        yield from stage.run(f"the end after {results_of_steps}", collect, CallFinished(1))
        yield from stage.run("an error", collect, CallFinished(1, None, "denied"))
    engine = Recorder("engine", stage.lines)
    yield from stage.run("fetching", lambda: list(start(engine)))
    for focused in (None, "x"):
        view = SimpleNamespace(
            focused=focused, query=lambda _kind: [SimpleNamespace(display=shown, name=shown) for shown in (False, True)]
        )
        monkeypatch.undo()
        yield f"table: {copying._find_table(view)}"
    monkeypatch.setattr(copying, "Table", Recorder)
    view.focused = Recorder("focused", [])
    yield f"table: {describe(copying._find_table(view))}"
    line = SimpleNamespace(screen=Recorder("dialog", stage.lines), _key="i")
    yield from stage.run("a click on a choice", copying.ChoiceLine.on_click, line)
    for key, character in (("a", "a"), ("i", "i"), ("q", "q"), ("escape", None), ("up", None), ("y", "y")):
        dialog: Any = Recorder("dialog", stage.lines, _choices=[("i", "id")], app=stage.app)
        event = Recorder("event", stage.lines, key=key, character=character, is_printable=character is not None)
        yield from stage.run(f"key {key}", copying.ChoiceDialog.on_key, dialog, event)


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def build_loops(stage: Stage, serves_foreign: bool = False) -> Loops:
    for verb in ("dispatch", "reap"):
        rounds = [SimpleNamespace(moved=0), SimpleNamespace(moved=1 if verb == "reap" else 3)]
        stage.session.loops[verb] = Recorder(
            verb, stage.lines, rounds=rounds, is_running=True, step=lambda: SimpleNamespace(moved=0, error="")
        )
    return Loops(stage.host, stage.session, stage.navigation, serves_foreign=serves_foreign)


def list_shown(loops: Loops) -> str:
    return describe({verb: is_serving for verb, (_loop, is_serving) in loops.list_shown_loops().items()})


def describe_loops() -> Iterator[str]:
    celery = Ref("celery", "c")
    for is_demo in (False, True):
        stage = Stage(loops={}, demo="demo" if is_demo else None)
        loops = build_loops(stage)
        yield from stage.run(f"first moves, demo {is_demo}", loops.announce_first_moves)
        yield from stage.run("once", loops.announce_first_moves)
    for is_read_only in (False, True):
        stage = Stage(loops={}, is_read_only=is_read_only)
        loops = build_loops(stage)
        loops._create_loops = lambda _engine: stage.lines.append("created")
        yield from stage.run(f"start, read-only {is_read_only}", loops.start_loops, stage.session.engine)
        yield from stage.run("after an unlock", loops.create_loops_after_unlock, stage.session.engine)
        yield f"  served {[loops.is_served(verb, ref) for verb in ('dispatch', 'reap') for ref in (MAIL, JOBS)]}"
        yield from stage.run("stop", loops.stop_loops)
        yield f"  loops {stage.session.loops}"
    for serves_foreign in (False, True):
        for ref in (None, MAIL, JOBS, Ref("gone", "x")):
            stage = Stage(loops={}, refs=[MAIL, JOBS])
            stage.target = Target(ref)
            loops = build_loops(stage, serves_foreign)
            lister = loops._create_queue_lister("dispatch", stage.session.engine)
            stage.session.engine.refs = [MAIL, NEWS, JOBS]
            yield f"-- {describe(ref)}, foreign {serves_foreign}: {describe(lister())}"
            for verb in ("dispatch", "reap"):
                if ref is not None and ref.system == "gone":
                    yield f"  shown {list_shown(loops)}"
                    continue
                for _ in range(2):
                    yield from stage.run(f"toggle {verb}", loops.toggle_loop, verb)
                    yield f"  shown {list_shown(loops)}, lists {describe(lister())}"
                yield from stage.run(f"step {verb}", loops.run_loop_step, verb)
                stage.app.call_from_thread = lambda function, *args: function(*args)
                for moved, error in ((0, ""), (2_000, ""), (0, "away")):
                    stage.session.loops[verb].step = lambda moved=moved, error=error: (
                        stage.lines.append(f"lists {describe(lister())} {loops._is_step_requested(verb, MAIL)}")
                        or stage.lines.append(f"urgent {describe(loops._find_urgent_queues(verb))}")
                        or SimpleNamespace(moved=moved, error=error)
                    )
                    yield from stage.run("running it", stage.app.find_last_call("run_worker")[0])
                yield f"  then {describe(lister())} {describe(loops._stepping)}"
    stage = Stage(loops={}, refs=[MAIL, JOBS], explain_denial=lambda verb, ref: "no" if ref == MAIL else "")
    loops = build_loops(stage)
    yield f"denied: {[loops.is_served('dispatch', ref) for ref in (MAIL, NEWS)]}"
    stage.session.systems = {**SYSTEMS, "celery": SimpleNamespace(can=lambda _verb: False, loops_by_default=False)}
    stage.target = Target(celery)
    yield from stage.run("a system without a loop", loops.toggle_loop, "dispatch")
    yield f"  {describe(loops.list_shown_loops())} {loops._is_step_requested('dispatch', celery)}"
    loops._stepping = {("dispatch", celery), ("dispatch", None)}
    yield f"  {[loops._is_step_requested('dispatch', ref) for ref in (celery, MAIL, NEWS, JOBS)]}"
    for running in (False, True):
        stage.session.loops["dispatch"].is_running, stage.target = running, Target(NEWS)
        yield f"  running {running}: {loops.list_shown_loops()['dispatch'][1]}"
    changed = loops._create_queue_lister("dispatch", stage.session.engine)
    first = changed()
    stage.session.engine.refs = list(stage.session.engine.refs)
    yield f"  cached {changed() is not first} {changed() is changed()}"


# ── lock, demo, crash ────────────────────────────────────────────────────────────────────────────────────────────────


def describe_created_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stage = Stage(loops={})
    service = Loops(stage.host, stage.session, stage.navigation, serves_foreign=False)
    monkeypatch.setattr("rqtui.tui.services.loops.find_client_meter", lambda _client: "meter")
    monkeypatch.setattr(
        "rqtui.tui.services.loops.connect.connect",
        lambda url, **options: (
            stage.lines.append(f"connect {url} {describe(options)}") or Recorder("client", stage.lines)
        ),
    )
    monkeypatch.setattr(
        "rqtui.engine.loops.build_round", lambda *args, **options: (describe(args[:2]), describe(options))
    )
    monkeypatch.setattr(
        "rqtui.engine.loops.Loop",
        lambda name, build, on_stop: (
            stage.lines.append(f"loop {name} {build}") or Recorder(name, stage.lines, stop=on_stop)
        ),
    )
    monkeypatch.setattr("rqtui.engine.due_times.DueTimes", lambda _systems: Recorder("due times", []))
    yield from stage.run("creating loops", service._create_loops, stage.session.engine)
    for loop in stage.session.loops.values():
        yield from stage.run("stopping one", loop.stop)


def describe_lock() -> Iterator[str]:
    for read_only, may_unlock in ((False, False), (True, False), (True, True)):
        for is_read_only in (False, True):
            for has_engine in (True, False):
                stage = Stage(is_read_only=is_read_only)
                if not has_engine:
                    stage.session.engine = None
                stage.settings.read_only, stage.settings.may_unlock = read_only, may_unlock
                lock = WriteLock(
                    stage.host,
                    stage.session,
                    Recorder("journal", stage.lines),
                    Recorder("loops", stage.lines),
                    stage.host.stop_changes,
                )
                stage.app.set_interval = lambda *args, record=stage.app.set_interval: (
                    record(*args) or Recorder("timer", stage.lines)
                )
                yield (
                    f"-- {read_only} {may_unlock} {is_read_only} {has_engine}: {lock.can_unlock} "
                    f"{lock.format_lock_state()}"
                )
                yield from stage.run("unlock", lock.unlock_changes, "90s")
                yield (
                    f"  {lock.can_unlock} {lock.format_lock_state()} {stage.session.is_read_only} "
                    f"{has_engine and stage.session.engine.read_only}"
                )
                yield from stage.run("longer", lock.unlock_changes, "15m")
                for after_s, wall_s in ((899.0, 899.0), (0.0, 900.0), (900.0, 0.0)):
                    CLOCK.now_s, CLOCK.wall_s = NOW_S + after_s, NOW_MS / 1000 + wall_s
                    yield from stage.run(f"after {after_s} {wall_s}", lock._lock_if_expired)
                    CLOCK.now_s, CLOCK.wall_s = NOW_S, NOW_MS / 1000
                    if stage.session.is_read_only and has_engine and may_unlock:
                        lock.unlock_changes("15m")
                yield from stage.run("lock", lock.lock)
                yield from stage.run("again", lock.lock)
                yield f"  {lock.format_lock_state()} {has_engine and stage.session.engine.read_only}"
                yield from stage.run("without an end", lock._lock_if_expired)
                yield from stage.run("timer", lock.stop_timer)


def describe_demo() -> Iterator[str]:
    stage = Stage()
    scenario = SimpleNamespace(name="delays", summary="jobs are late", tries=(), watches=())
    run = Recorder(
        "run",
        stage.lines,
        scenario=scenario,
        press=lambda name: f"pressed {name}",
        compute_status=lambda: SimpleNamespace(message=run.message),
        message="",
    )
    strip = DemoStrip(stage.host, run, stage.navigation)
    yield f"at first {strip.message!r}"
    yield from stage.run("introduction", strip.show_introduction)
    for after_s in (0.0, 7.9, 8.0, 8.1):
        CLOCK.now_s = NOW_S + after_s
        yield f"after {after_s}: {strip.message!r}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rqtui.tui.widgets.help_content.build_demo_page", lambda scenario, url: f"{scenario.name} {url}")
        yield from stage.run("its page", strip.show_page)
        yield f"  {stage.navigation.find_last_call('show_page')[1]()}"
    yield from stage.run("a control", strip.press_control, "faster")
    yield f"  {strip.message!r}"
    yield from stage.run("a slow one", strip.press_control, "check")
    stage.app.call_from_thread = lambda function, *args: function(*args)
    yield from stage.run("running it", stage.app.find_last_call("run_worker")[0])
    yield f"  {strip.message!r}"
    for message in ("", "a worker died", "a worker died", "", "another"):
        run.message = message
        yield from stage.run(f"new {message!r}", strip.show_new_message)
        yield f"  {strip.message!r}"
    CLOCK.now_s = NOW_S


def describe_crashes(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    monkeypatch.setattr(crash.tempfile, "tempdir", str(folder))
    for url in ("redis://h", "redis://:ab@h", "redis://:abc@h", "redis://:a%20c@h", "redis://:a%20@h"):
        yield f"{url}: {crash._list_passwords(url)}"
    for error in (None, ValueError("secret abc here"), ValueError("first\nsecond\nthird")):
        for is_debug in (False, True):
            text = crash.format_crash_message(error, "redis://:abc@h", is_debug=is_debug)
            yield text.split("rqtui-crash-")[0]
    yield from sorted(f"{file.stat().st_mode & 0o777:o} {file.read_text()!r}" for file in folder.iterdir())
    monkeypatch.setattr(crash.tempfile, "tempdir", str(folder / "missing"))
    yield crash.format_crash_message(None, "redis://h", is_debug=False)


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def describe_journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    queue = Queue("mail", "native", (Count("ready", State.READY, 3),))
    for snapshot in (
        None,
        Snapshot(NOW_MS),
        Snapshot(NOW_MS, (queue,)),
        Snapshot(NOW_MS, (queue._replace(error="broken"),)),
    ):
        stage = Stage(snapshot=snapshot)
        yield from stage.run(
            "announcing",
            SessionJournal(stage.host, stage.session).announce_change,
            "requeue",
            MAIL,
            Circumstances(why="x"),
        )
    yield from stage.run(
        "stopped", SessionJournal(stage.host, stage.session).record_stop, "requeue", (MAIL, JOBS), "by me"
    )
    record = SimpleNamespace(ids=[b"j1"], answers=Counter({"moved": 2}), count=2)
    open_records = {
        ("requeue", MAIL): record,
        ("requeue", JOBS): record,
        ("delete", MAIL): record,
        ("requeue", NEWS): record,
    }
    counts = OutcomeCounts("requeue", MAIL)
    counts.ids, counts.words = {b"b": None, b"a": None}, Counter({"gone": 1})
    for records in (None, {}, open_records):
        for is_under_way in (False, True):
            keeper = None
            stage = Stage()
            if records is not None:
                keeper = Recorder("keeper", stage.lines, open_changes=lambda records=records: records)
            stage.session.keeper = keeper
            stage.session.close_undo_record = lambda *names: "-".join(names)
            stage.journal.record_change = lambda *args, record=stage.journal.record_change: (
                record(*args) or SimpleNamespace(is_of_several_systems=True)
            )
            service = SessionJournal(stage.host, stage.session)
            yield from stage.run(
                f"records {records and len(records)}, under way {is_under_way}",
                service.record_change,
                counts,
                "no",
                [MAIL, JOBS],
                lambda verb, _ref, is_under_way=is_under_way: is_under_way and verb == "delete",
            )
            if keeper is not None:
                unchanged = keeper.find_last_call("discard_unchanged")[0]
                yield f"  discards {[unchanged(verb, ref) for verb in ('requeue', 'delete') for ref in (MAIL, NEWS)]}"
            if "call_engine" in stage.session._calls:
                stage.session.engine.send_requests = len
                fetch = stage.session.find_last_call("call_engine")[0]
                yield from stage.run("counting", fetch, stage.session.engine)
                yield from stage.answer("counts", [queue, Queue("jobs", "rq", error="broken")])
                yield from stage.answer("no counts", [])
    for demo_folder in (None, "", "folder"):
        run = None if demo_folder is None else SimpleNamespace(folder=demo_folder)
        for is_read_only in (False, True):
            stage = Stage(demo=run, is_read_only=is_read_only)
            monkeypatch.setattr(session_journal, "find_state_folder", lambda: Path("state"))
            service = SessionJournal(stage.host, stage.session)
            for problem in ("", "it is full"):
                monkeypatch.setattr(
                    "rqtui.operations.undo.UndoRecorder",
                    lambda folder, url, journal, problem=problem: Recorder(
                        f"keeper {folder} {url}", [], problem=problem
                    ),
                )
                yield from stage.run(
                    f"attach {demo_folder} {is_read_only}", service.attach_undo_store, stage.session.engine
                )
                yield (
                    f"  {describe(stage.session.keeper)} "
                    f"{stage.session.keeper is vars(stage.session.engine).get('change_recorder')}"
                )
    yield from stage.answer("nothing interrupted", ())
    yield from stage.answer("interrupted", (SimpleNamespace(describe_interruption=lambda: "was interrupted"),) * 2)
    operation = Operation(NOW_MS, "me", "requeue", "mail", "native", others=("jobs",), other_systems=("rq",))
    for operations in ([], [operation]):
        stage = Stage(
            snapshot=Snapshot(NOW_MS) if operations else None, largest_causes=None, watch=SimpleNamespace(samples=())
        )
        stage.journal.operations, stage.journal.sightings = (
            operations,
            [SimpleNamespace(system="gone", queue="x"), SimpleNamespace(system="native", queue="mail")],
        )
        service = SessionJournal(stage.host, stage.session)
        yield from stage.run(f"report of {len(operations)}", service.export_report)
        if operations:
            accept = stage.app.find_last_call("push_screen")[1]
            yield from stage.run("no", accept, None)
            yield from stage.run("asked again", service.export_report)
            yield from stage.run("no reason", accept, FormReply({}, {}))
            yield from stage.run("yes", accept, FormReply({"why": "x"}, {}))
            yield from stage.run("a second one", service.export_report)
        from rqtui.reports import postmortem

        for name in ("plot_last_hour", "load_error_causes", "plot_samples", "choose_larger_causes"):
            monkeypatch.setattr(
                postmortem, name, lambda *args, name=name: stage.lines.append(f"{name} {describe(args)}") or [name]
            )
        monkeypatch.setattr(
            postmortem,
            "export_report",
            lambda *args: stage.lines.append(f"export {describe(args[2:])}") or (Path("/x/report.md"), None),
        )
        read, write = stage.session.find_last_call("call_engine")
        yield from stage.run("reading", read, stage.session.engine)
        yield from stage.run("writing", lambda write=write: write(CallFinished(1, (["plot"], "causes"))))
        yield from stage.run("without Redis", lambda write=write: write(CallFinished(1, None, "away")))

        def fail(*_args: object) -> None:
            raise OSError(13, "Permission denied")

        monkeypatch.setattr(postmortem, "export_report", fail)
        yield from stage.run("refused", write, CallFinished(1, None))


# ── keymap, profiles, navigation ─────────────────────────────────────────────────────────────────────────────────────


def describe_keymap() -> Iterator[str]:
    for id, binding in keymap.list_movable_bindings().items():
        yield f"{id}: {binding.keys} {binding.screens} {binding.name}"
    names = keymap.map_keymap_names_to_ids()
    yield f"names: { ({name: id for name, id in names.items() if name != id}) }"
    for key in (
        "d",
        "ctrl+d",
        "comma",
        "enter",
        "",
        "nosuch",
        "shift+nosuch",
        "latin_small_letter_a",
        "a+b",
        "ab",
        "ctrl+latin_small_letter_a",
        "f25",
        "up",
        "slash",
        "ctrl+slash",
        "ctrl+backslash",
        "ctrl+nosuch",
    ):
        yield f"{key!r}: {keymap._is_valid_key(keymap._to_textual_key(key))}"
    for first, second in (
        ((), ()),
        ((), ("a",)),
        (("a",), ("b",)),
        (("a", "b"), ("b",)),
        (("A",), ()),
        (("A",), ("A",)),
        (("aB",), ()),
        (("a", "B"), ("a",)),
    ):
        yield f"{first} {second}: {keymap._has_common_screen(first, second)}"
    config = Config(Path("config.toml"))
    for entries in (
        {},
        {"pause": "ctrl+t"},
        {"pause": "x, e"},
        {"workers": "e", "errors": "w"},
        {"workers": "e"},
        {"nosuch": "x"},
        {"pause": "hyper"},
        {"workers": "z", "errors": "z", "kinds": "z"},
        {"errors": "f5", "filter": "f5"},
    ):
        checked = keymap.validate_keymap(entries, config)
        yield f"{entries}: {checked.keymap} {checked.problems}"
    for name in ("nosuch", "rqtui-drak", "nord"):
        yield f"theme {name}: {keymap.explain_unknown_theme(name)[:60]!r}"


def describe_profiles(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    file = folder / "config.toml"
    file.write_text(
        '[profiles.eu]\nurl = "redis://:pw@eu"\ntheme = "nord"\n[profiles.us]\nread_only = true\n[profiles.b]\nurl = "redis://b"\n'
    )

    def build(settings: Settings, is_running: bool = False, is_colourless: bool = False) -> tuple[Stage, Profiles]:
        stage = Stage()
        stage.session.settings = settings
        stage.app.__dict__.update(
            available_themes={"nord", "rqtui-dark", "rqtui"},
            theme="before",
            theme_changed_signal=Recorder("signal", stage.lines),
        )
        return stage, Profiles(stage.host, stage.host.open_session, lambda: is_running, is_colourless=is_colourless)

    usual = Settings("redis://here", config=str(file), profile="b", is_calm=True)
    for settings in (usual, replace(usual, config=""), replace(usual, config=str(folder / "gone.toml"))):
        stage, service = build(settings)
        for command in service.list_profile_commands():
            yield f"{command.title}: {command.help}"
        for name in ("eu", "us", "gone"):
            yield from stage.run(f"to {name}", service.switch_to_profile, name)
            yield f"  theme {stage.app.theme}"
    for is_colourless in (False, True):
        stage, service = build(
            replace(usual, problems=("a", "b"), notes=("c",)), is_running=True, is_colourless=is_colourless
        )
        yield from stage.run("during a change", service.switch_to_url, "redis://:pw@new")
        accept = stage.app.find_last_call("push_screen")[1]
        yield from stage.run("no", accept, None)
        yield from stage.run("yes", accept, True)
        for theme, name in (("nord", "new"), ("", ""), ("nosuch", "")):
            stage.app.theme = "before"
            yield from stage.run("opening", service._open_session_with_theme, replace(usual, theme=theme), name, None)
            yield f"  theme {stage.app.theme}"
        for profile, config in (("eu", "config.toml"), ("", "")):
            stage.session.settings = replace(usual, profile=profile, config=config, theme="nord")
            for chosen in ("nord", "rqtui-dark", "textual-ansi", "ansi", "other"):
                yield from stage.run(f"hint of {chosen} {is_colourless}", service._show_theme_hint, chosen)
    for url in ("nosuch://x", "redis://h:99999", "redis://other"):
        stage, service = build(usual)
        yield from stage.run(f"to {url}", service.switch_to_url, url)
    for length in (43, 44, 45):
        path = "/" + "d" * (length - 13) + "/config.toml"
        stage, service = build(replace(usual, config=path))
        yield from stage.run(f"{len(path)} letters", service.show_config_message, f"{path}: bad")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    for path in ("/home/me/config.toml", "/home/me/home/me/config.toml"):
        stage, service = build(replace(usual, config=path))
        yield from stage.run("at home", service.show_config_message, f"{path}: bad", "warning")
    for entries in ({}, {"pause": "ctrl+t"}, {"workers": "e"}):
        stage, service = build(replace(usual, keymap=entries))
        keys.set_keymap({"verb_P": "x"})
        yield from stage.run(f"keymap {entries}", service.apply_configured_keymap)
        yield f"  pause is {keys.find_current_key('P')}"
        stage.app.theme_changed_signal.find_last_call("subscribe")[1](SimpleNamespace(name="nord"))
        yield f"  {[line for line in stage.lines]}"
        clashed = {Binding("W", "bell", "bell"), Binding("ctrl+a", "x", "more")}
        yield from stage.run("a clash", service.report_key_clash, clashed)
        yield from stage.run("again", service.report_key_clash, clashed)
    keys.set_keymap({})
    for url in (
        "redis://host",
        "redis://host:12345/3",
        "redis://host:123456",
        "redis://a@host",
        "rediss://host",
        "redis://host/x",
        "redis://hö",
    ):
        yield f"plain {url}: {profiles.PLAIN_URL.fullmatch(url) is not None}"
    for settings in (
        usual,
        replace(usual, url="nosuch://x"),
        replace(usual, systems=("nosuch",)),
        replace(usual, theme="nosuch", problems=("a",)),
        replace(usual, url="nosuch://x", profile=""),
        replace(usual, theme="nord"),
    ):
        try:
            checked = profiles.remove_invalid_settings(settings)
            facts = (checked.url, checked.systems, checked.read_only, checked.theme, checked.problems)
            yield f"{facts} {checked is settings}"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"


def describe_navigation(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from rqtui.tui.services import navigation as module

    class FakeView(Recorder):
        """A view of the stack."""

    monkeypatch.setattr(module, "View", FakeView)
    monkeypatch.setattr(module, "filter_views", lambda stack: [each for each in stack if isinstance(each, FakeView)])
    monkeypatch.setattr(
        module,
        "find_top_view",
        lambda stack: next((each for each in reversed(stack) if isinstance(each, FakeView)), None),
    )

    def build(name: str = "board", depth: int = 2, **attributes: Any) -> tuple[Stage, Navigation, FakeView]:
        stage = Stage()
        view = FakeView(
            "view",
            stage.lines,
            NAME=name,
            IS_FIRST=False,
            is_drawn=True,
            is_composed=True,
            build_target=lambda: Target(MAIL),
            step_back=lambda: False,
            list_scope_queues=lambda: (MAIL,),
            is_list_of_queue=lambda ref: ref == MAIL,
            find_selected_finding=lambda: None,
        )
        view.__dict__.update(attributes)
        first = FakeView("first", stage.lines, NAME="overview", is_drawn=False, IS_FIRST=True)
        stage.app.screen_stack = [first, view][2 - depth :] if depth else []
        stage.app.screen = stage.app.screen_stack[-1] if depth else None
        make = stage.host.create_view
        return (
            stage,
            Navigation(
                stage.host,
                lambda *args: make(*args) or FakeView(str(args[0]), [], NAME=args[0]),
                stage.host.refresh_frame,
            ),
            view,
        )

    finding = Finding("failing", "critical", "mail", "x")
    for title, depth, name in (
        ("usual", 2, "board"),
        ("only", 1, "overview"),
        ("none", 0, ""),
        ("incident", 2, "incident"),
        ("errors", 2, "errors"),
    ):
        for has_dialog in (False, True):
            for is_replay in (False, True):
                for ref in (MAIL, None):
                    stage, navigation, view = build(name, depth, build_target=lambda ref=ref: Target(ref))
                    if has_dialog:
                        stage.app.screen = Recorder("dialog", stage.lines)
                    stage.session.is_replay = is_replay
                    if ref is None:
                        yield from stage.run(
                            f"{title} {has_dialog}, no queue: incident", navigation.open_incident_at_cursor
                        )
                        continue
                    yield (
                        f"-- {title}, dialog {has_dialog} {navigation.has_dialog}, replay {is_replay}, first "
                        f"{navigation.is_at_first_view}"
                    )
                    yield f"  {describe(navigation.find_target().ref)} {len(navigation.list_drawable_views())}"
                    yield from stage.run("incident at the cursor", navigation.open_incident_at_cursor)
                    yield from stage.run("incident", navigation.open_incident, MAIL, finding)
                    for view_name in ("errors", "board", "metrics", "kinds"):
                        yield from stage.run(f"open {view_name}", navigation.open_view, view_name)
                    yield from stage.run("back", navigation.go_back)
                    yield from stage.run("board", navigation.open_board, MAIL)
                    yield from stage.run("job", navigation.open_job, MAIL, JOB)
                    yield from stage.run("search", navigation.open_search, "x")
                    for queue in (MAIL, NEWS):
                        yield from stage.run("job on its board", navigation.open_job_on_board, queue, JOB)
    stage, navigation, view = build(step_back=lambda: True)
    yield from stage.run("a step back", navigation.go_back)
    for attributes in (
        {},
        {"is_composed": False, "call_after_refresh": lambda _function: True},
        {"is_composed": False, "call_after_refresh": lambda _function: False},
        {"is_drawn": False},
    ):
        for snapshot in (None, "snapshot"):
            stage, navigation, view = build(**attributes)
            stage.session.__dict__.update(snapshot=snapshot, is_stale=True)
            yield from stage.run(f"drawing {sorted(attributes)} {snapshot}", navigation.draw_opened_view)
    for ref, run in ((None, None), (MAIL, None), (JOBS, SimpleNamespace(controls=()))):
        stage, navigation, view = build(build_target=lambda ref=ref: Target(ref))
        stage.session.demo = run
        yield from stage.run("keys", navigation.show_keys_page, frozenset({"errors"}))
    yield from stage.run("page", navigation.show_page, "title", lambda: Content("text"))


def test_what_the_services_of_a_session_do_matches_the_stored_text(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    keys.set_keymap({})
    parts: tuple[Callable[[], Iterator[str]], ...] = (
        describe_loops, lambda: describe_created_loops(patch), describe_lock, describe_demo, describe_keymap,
        lambda: describe_crashes(patch, tmp_path / "crash"), lambda: describe_journal(patch),
        lambda: describe_profiles(patch, tmp_path), lambda: describe_navigation(patch),
        lambda: describe_lost_connection(patch), lambda: describe_copies(patch),
    )  # fmt: skip
    (tmp_path / "crash").mkdir()
    lines: list[str] = []
    for part in parts:
        with monkeypatch.context() as patch:
            for module in (connection_lost, demo, session_journal, write_lock):
                patch.setattr(module, "time", CLOCK)
            lines += part()
    assert_lines_match_file([line.replace(str(tmp_path), "FOLDER") for line in lines], KEPT)
