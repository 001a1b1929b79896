"""What views and questions write where one field is missing or at a bound: `rows_at_bounds.txt` has every line.

The functions are called without a screen: a builder of rows that is a method gets the few attributes that it reads.
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/screens/test_rows_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kept_text import assert_lines_match_file, diff_lines
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content

from rqtui import verbs
from rqtui.engine.loops import Round, ScriptStep
from rqtui.model import (
    Attempt,
    Count,
    EventCoverage,
    Fact,
    Finding,
    Job,
    KindStatistics,
    Place,
    Queue,
    Rate,
    Ref,
    Schedule,
    State,
    Verdict,
    Worker,
    WorkerInspection,
)
from rqtui.operations.journal import Operation
from rqtui.reports.course import Mark
from rqtui.reports.errors import Group
from rqtui.reports.events import Event
from rqtui.reports.kinds import Kind
from rqtui.reports.loops import UpcomingJob
from rqtui.reports.plans import Plan
from rqtui.reports.workers import WorkerEntry, WorkerHealth
from rqtui.systems import registry
from rqtui.text import formats
from rqtui.text.pieces import convert_cell_to_pieces
from rqtui.tui.format import columns
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.format.rows import Column, Row, fit_columns
from rqtui.tui.screens import (
    board_layout,
    demo_chooser,
    differences,
    error_group,
    errors,
    events,
    group_search,
    groups,
    kinds,
    loops,
    metrics,
    operations,
    schedules,
    search,
    workers,
)
from rqtui.tui.screens.board import Board
from rqtui.tui.target import Target
from rqtui.tui.widgets import frame, question_text, queue_preview, view_list

KEPT = Path(__file__).with_name("rows_at_bounds.txt")
NOW_MS = 1_800_000_000_000
TIMES = (None, NOW_MS - 60_000, NOW_MS - 1, NOW_MS, NOW_MS + 1, NOW_MS + 60_000)
MAIL, NEWS, ELSEWHERE = Ref("native", "mail"), Ref("native", "news"), Ref("rq", "mail")
NATIVE = registry.create_system("native")
SESSION = SimpleNamespace(format_name=lambda ref: f"{ref.system}:{ref.queue}", systems={"native": NATIVE}, refs=())
VIEW: Any = SimpleNamespace(
    session=SESSION, refs=(MAIL, NEWS), _refs=(MAIL, NEWS), _now_ms=NOW_MS, _fact_names=("threads",),
    report=SimpleNamespace(has_figures=True), _build_count_cell=lambda number, style: f"{number} {style}",
    _entries=(), _frame_cells=20, by="queue", _kinds={(MAIL, b"j1"): "send"},
    _build_fact_columns=lambda: (Column("threads", "threads", 7, drop=9),),
)  # fmt: skip
ONE_QUEUE: Any = SimpleNamespace(**{**vars(VIEW), "refs": (MAIL,), "_refs": (MAIL,), "report": None})
VIEWS = {"several queues": VIEW, "one queue": ONE_QUEUE}
JOB = Job(
    b"j1", "mail", "native", "reserved", State.RESERVED, b"j1", b"t7", "send", b'{"to":"a@b.c"}', 14,
    enqueued_ms=NOW_MS - 90_000, deadline_ms=NOW_MS + 30_000, reserved_ms=NOW_MS - 20_000, attempts=2, max_attempts=5,
    since_ms=NOW_MS - 70_000, worker="w1", error="Traceback:\n  line\nBoom: token=abc1234567",
    history=(Attempt(NOW_MS - 80_000, NOW_MS - 70_000, "w0", "Boom: no"),),
)  # fmt: skip
OTHER_JOB = replace(JOB, id=b"j2", token=b"", worker="w2", deadline_ms=NOW_MS - 1)
WORKER = Worker(
    "w1", "mail", NOW_MS - 5_000, 60_000, "run", "77", "host", NOW_MS - 900_000, b"j0", facts=(Fact("threads", 5),)
)
SEVERAL = WORKER._replace(queues=("mail", "news"))
GROUP = Group(
    ("k",), "Boom: no", "Boom", "charge.py:88", 2, 3, 1, NOW_MS - 90_000, NOW_MS - 30_000, ("send", "charge"),
    (MAIL, NEWS), (JOB,),
)  # fmt: skip
KIND = Kind(
    MAIL, "send", {State.READY: 4, State.DEAD: 2}, 3, 61_000, 250, 900,
    figures=KindStatistics("send", 8, 2, 120, 3_600_000, "mail"),
)  # fmt: skip
SCHEDULE = Schedule("nightly", "rq", "mail", "0 3 * * *", "clean()", NOW_MS + 90_000, NOW_MS - 90_000, "w1")
STEP = ScriptStep("dispatch", MAIL, 3, 500, {"moved": 3, "next_ms": 5, "forgotten": 2, "kept": 0}, NOW_MS / 1000)
OPERATION = Operation(
    NOW_MS, "me", "requeue", "mail", "native", (b"j1",), 3, {"moved": 2, "gone": 1}, undo=("u1",), others=("news",)
)
EVENT = Event(MAIL, NOW_MS + 7, 1, "reserve", b"j1", "w1")
QUEUE = Queue(
    "mail", "native",
    (Count("scheduled", State.SCHEDULED, 0), Count("ready", State.READY, 30), Count("dead", State.DEAD, 1)),
    NOW_MS, workers=2, oldest_ready_ms=61_000, next_due_ms=5_000, next_expiry_ms=7_000, counters={"dead_max": 100_000},
    findings=(Finding("failing", "critical", "mail", "51 % fail", "look at the errors"),),
    verdict=Verdict("critical", "51 % of the attempts of the last five minutes failed"),
)  # fmt: skip
WORKERS = tuple(
    WORKER._replace(name=f"worker-{number:02}", heartbeat_ms=NOW_MS - 1000 * number) for number in range(14)
)
DETAILS = queue_preview.QueueDetails(QUEUE, Rate(1.5, 2.5), NOW_MS, workers=WORKERS[:3])
CAUSE = queue_preview.DeathCause("e1", "Boom: no", "a.py:1", 3, NOW_MS - 90_000, NOW_MS - 60_000, "send")
OTHER_CAUSE = replace(CAUSE, jobs=2, first_ms=NOW_MS - 200_000, last_ms=NOW_MS - 1)
CAUSES = queue_preview.DeathCauses((CAUSE, replace(CAUSE, id="e2", text="", kind="")), 5, 5, NOW_MS)
PLAN = Plan(
    7,
    7,
    ((MAIL, 4), (NEWS, 3)),
    (("dead", 4), ("ready", 3)),
    (("Boom", 3), ("", 1)),
    (("1 h", 3), ("2 h", 4)),
    (JOB, JOB),
)
TARGET = Target(MAIL, "reserved", (JOB, OTHER_JOB), queue=QUEUE, state=State.RESERVED)
VERBS = [
    verb for verb in verbs.VERBS if verb.name in ("delete", "kill", "purge", "release", "requeue", "enqueue", "pause")
]


def with_fields(value: Any, **fields: Any) -> Any:
    return replace(value, **fields) if is_dataclass(value) else value._replace(**fields)


def write(*values: object) -> Iterator[str]:
    """Yield the lines of rows, contents and texts, with the names of their styles."""
    for value in values:
        if isinstance(value, Row):
            for number, cell in enumerate(value.cells):
                pieces = [f"{piece.text}<{piece.style}>" for piece in convert_cell_to_pieces(cell)]
                yield f"{number}: {' '.join(pieces)} {value.style}{' gone' * value.is_gone}"
        elif isinstance(value, Content):
            yield from value.markup.split("\n")
        elif isinstance(value, list):
            yield from write(*value)
        else:
            yield str(value)


def write_worker(entry: WorkerEntry) -> Iterable[object]:
    for view in (VIEW, ONE_QUEUE):
        yield workers.Workers._build_worker_row(view, entry)
    for used in ((), ("release",), ("reap",), ("release", "reap")):
        yield workers._describe_held_jobs(entry, NOW_MS, used)
    yield workers._format_worker_details(entry, NOW_MS, 60, 0)
    yield workers._format_process(entry)


def write_kind(kind: Kind) -> Iterable[object]:
    yield from (kinds.Kinds.build_row(view, kind, NOW_MS) for view in (VIEW, ONE_QUEUE))


def write_group(group: Group) -> Iterable[object]:
    yield errors._format_group_details(group, JOB, 60, NOW_MS)
    yield Row("", (errors._format_first_name(group.kinds), formats.format_age_since(group.last_ms, NOW_MS)))


def write_failed_job(job: Job) -> Iterable[object]:
    yield from (error_group._build_job_row(job, NOW_MS), error_group._format_full_error(job))
    yield errors._format_example_job(job, 60, NOW_MS)
    yield from (workers._format_held_job(job, NOW_MS, width) for width in (60, 156))
    for in_ms in (-5_001, -5_000, -1_000, -999, 0, 60_000, 60_001):
        for verb in ("dispatch", "reap"):
            yield loops._build_upcoming_row(UpcomingJob(in_ms, verb, MAIL, job), NATIVE, SESSION.format_name)


def write_target(target: Target) -> Iterable[object]:
    for total in (1, 2, 4_000):
        yield question_text.describe_target(target, total)
    for verb in VERBS:
        yield f"{verb.name}: {question_text.build_question_title(verb, target, 2, 'mail')}"
        yield question_text.build_question_lines(verb, target, "redis://here", "")
        yield question_text.describe_undo_of_change(NATIVE, verb, 2, target.place)


def write_plan(plan: Plan) -> Iterable[object]:
    for refs in ((MAIL,), (MAIL, NEWS)):
        yield question_text.format_dry_run(plan, 7, refs, 60)


def write_details(details: queue_preview.QueueDetails) -> Iterable[object]:
    for width, height in ((60, 5), (100, 9), (40, 26), (30, 1)):
        yield f"-- {width} {height}"
        yield queue_preview.build_queue_preview(details, width, height)
    yield queue_preview.build_group_preview(details, [QUEUE, details.queue._replace(name="a")], 60, 9)


def write_causes(causes: queue_preview.DeathCauses) -> Iterable[object]:
    yield from (queue_preview.format_causes_title(causes, NOW_MS + ms) for ms in (0, 59_999, 60_000))
    for width, height in ((60, 4), (60, 3), (20, 1)):
        yield queue_preview.format_causes_of_death(causes.causes, NOW_MS, width, height)
    merged = queue_preview.merge_causes_of_death([causes, causes._replace(causes=(OTHER_CAUSE,), taken_ms=5)], 9)
    yield repr(merged)


MARKS = (("a", 3), ("b", 1), ("c", 1), ("d", 1), ("e", 1))
Case = tuple[str, Any, Callable[[Any], Iterable[object]], dict[str, tuple[Any, ...]]]
CASES: tuple[Case, ...] = (
    ("worker", WorkerEntry(MAIL, "w1", WorkerHealth.RUNNING, WORKER, (JOB,), True), write_worker, {
        "worker": (None, SEVERAL, *(WORKER._replace(heartbeat_ms=ms or 0) for ms in TIMES), WORKER._replace(pid=""),
                   WORKER._replace(host=""), WORKER._replace(pid="", host=""), WORKER._replace(job=b""),
                   WORKER._replace(started_ms=None), WORKER._replace(facts=())),
        "jobs": ((), (JOB, JOB), (replace(JOB, reserved_ms=None),), (replace(JOB, deadline_ms=None),), (OTHER_JOB,),
                 (JOB,) * workers.MAX_HELD_LINES, (JOB,) * (workers.MAX_HELD_LINES + 1), (replace(JOB, name=""),)),
        "health": (WorkerHealth.GONE, WorkerHealth.EXPIRED, WorkerHealth.UNSEEN), "is_whole": (False,),
    }),
    ("replies", WorkerInspection("w1", NOW_MS - 5_000, 1_500, (Fact("pool", 4),)),
     lambda inspection: (workers._format_inspection(inspection, each, NOW_MS, 60) for each in (False, True)),
     {"at_ms": (NOW_MS, NOW_MS + 1), "facts": ((),), "problem": ("no reply",)}),
    ("kind", KIND, write_kind, {
        "ref": (NEWS, Ref("native", "")), "name": ("", "a\x1bb"), "counts": ({},), "failed": (0,),
        "wait_ms": (None, 0), "run_ms": (None, 0, 12_000), "oldest_ready_ms": (None, 0),
        "figures": (None, KindStatistics("send", 8, 0), KindStatistics("send", 0, 0)),
    }),
    ("error group", GROUP, write_group, {
        "message": ("",), "frame": ("",), "dead": (0,), "retrying": (0,), "first_ms": TIMES, "last_ms": TIMES,
        "kinds": ((), ("a",), ("", ""), ("a", "b", "c")),
    }),
    ("failed job", JOB, write_failed_job, {
        "due_ms": TIMES, "since_ms": (None, NOW_MS + 1), "max_attempts": (None,), "attempts": (0, 1, 5), "name": ("",),
        "worker": ("",), "error": ("", "short"), "history": ((),), "problem": ("broken",), "deadline_ms": TIMES,
        "reserved_ms": (None, NOW_MS + 1),
    }),
    ("schedule", SCHEDULE,
     lambda schedule: (schedules.Schedules._build_schedule_row(view, schedule) for view in (VIEW, ONE_QUEUE)),
     {"problem": ("no queue",), "enabled": (False,), "next_ms": TIMES, "last_ms": TIMES, "call": ("",),
      "owner": ("",)}),
    ("step of a loop", STEP,
     lambda step: (loops._build_step_row(step, Round(ms=ms), step.verb, SESSION.format_name) for ms in (0.0, 1.24)),
     {"verb": ("reap",), "ref": (Ref("", ""),), "moved": (0,), "error": ("away",), "values": ({},)}),
    ("operation", OPERATION,
     lambda each: [operations._format_operation_queues(each),
                   *(operations._build_operation_row("k", each, is_own, "mail") for is_own in (True, False))],
     {"error": ("denied",), "undo": ((),), "undone_at_ms": (NOW_MS,), "others": ((),), "queue": ("",),
      "other_systems": (("rq",),)}),
    ("event", EVENT, lambda event: (events.Events._build_event_row(view, event) for view in (VIEW, ONE_QUEUE)), {
        "ref": (ELSEWHERE,), "verb": ("reject", "nosuch", "delete", "requeue"), "id": (b"",), "worker": ("",),
        "detail": ("token=abc1234567",),
    }),
    ("own event", RecentEvent(NOW_MS / 1000, "dispatch", MAIL, "", 3),
     lambda event: (events._build_own_event_row(1, event, name) for name in (None, lambda _event: "mail")),
     {"words": ("done",), "moved": (0,)}),
    ("target", TARGET, write_target, {
        "jobs": ((), (JOB,), (OTHER_JOB,), (JOB,) * 3, (JOB,) * 4, (replace(JOB, worker=""),)),
        "workers": (("w1",), ("w1", "w2")),
        "is_whole_place": (True,), "place": ("",), "holder": ("w1",), "ref": (None,), "state": (None, State.READY),
        "filter": ("x",),
    }),
    ("plan", PLAN, write_plan, {
        "total": (1, 8), "looked": (3,), "by_queue": (((MAIL, 7),),), "by_place": ((), (("dead", 7),)),
        "samples": ((),),
        "by_error": ((), MARKS[:4], MARKS, (*MARKS, ("f", 1))), "by_age": ((), (("1 h", 7),)),
    }),
    ("queue", DETAILS, write_details, {
        "queue": (QUEUE._replace(error="broken"), QUEUE._replace(workers=None), QUEUE._replace(overdue=2, expired=1),
                  QUEUE._replace(counts=()),
                  QUEUE._replace(oldest_ready_ms=None, next_due_ms=None, next_expiry_ms=None),
                  QUEUE._replace(counters={}), QUEUE._replace(findings=QUEUE.findings * 7), QUEUE._replace(findings=()),
                  QUEUE._replace(counts=(Count("ended", State.DONE, 8, coverage=EventCoverage(None)),)),
                  QUEUE._replace(verdict=Verdict())),
        "workers": (None, (), WORKERS[:1], WORKERS[:12], WORKERS),
    }),
    ("causes of death", CAUSES, write_causes, {
        "causes": ((), (replace(CAUSE, first_ms=None),), (replace(CAUSE, last_ms=None),), (replace(CAUSE, frame=""),)),
        "dead": (6, 1), "retrying": (0, 3),
    }),
)  # fmt: skip


def describe_cases() -> Iterator[str]:
    for title, value, describe, fields in CASES:
        usual = [*write(*describe(value))]
        yield from (f"== {title}", *usual)
        for name, others in fields.items():
            for other in others:
                yield f"== {title} with {name} {repr(other)[:60].rstrip()}"
                yield from diff_lines(usual, [*write(*describe(with_fields(value, **{name: other})))])


def describe_functions() -> Iterator[str]:
    """Yield what functions of one or two numbers return."""
    for nearest_ms in (None, -1001, -1000, -999, 0, 1, 61_000):
        for verb in ("dispatch", "reap"):
            yield f"nearest {nearest_ms} {verb}: {[*write(loops._format_nearest_job(verb, nearest_ms, 0))]}"
    for row_jobs, found_jobs in (((), ()), ((), (1,)), ((1,), (1, 2)), ((1, 2), (2,)), ((1, 2), (2, 3, 4))):
        for searched in (0, 5_000):
            yield f"{row_jobs} {found_jobs}: {group_search._describe_search_difference(row_jobs, found_jobs, searched)}"
    for step in (None, SimpleNamespace(looked=0, of=0), SimpleNamespace(looked=5, of=5_000)):
        search: Any = SimpleNamespace(_pending_verb=(verbs.VERBS[0],), _members={MAIL: {b"a": JOB}}, _search_step=step)
        yield f"search after {step}: {[*write(*group_search.GroupSearch.build_progress(search))]}"
    idle = WorkerEntry(MAIL, "w1", WorkerHealth.IDLE, WORKER, (), True)
    running, gone = replace(idle, health=WorkerHealth.RUNNING, jobs=(JOB,)), replace(idle, health=WorkerHealth.GONE)
    for entries in ((), (idle,), (running, running), (gone,), (replace(gone, jobs=(JOB, JOB)), idle)):
        view: Any = SimpleNamespace(_entries=entries, sort="name", refs=())
        yield from (f"workers {len(entries)}: {line}" for line in write(*workers.Workers.build_second_line(view, 120)))
    for counters in ({}, {"in": 1}, {"out": 1}, {"failed": 1}):
        for rate in (Rate(), Rate(in_s=0.5), Rate(out_s=0.5), Rate(history=(0.0, 2.0))):
            rates = frame._format_in_and_out_rates(QUEUE._replace(counters=counters), rate)
            yield f"rates of {counters} {rate.in_s} {rate.out_s} {rate.history}: {[*write(*rates)]}"
    for span_ms in (3_600_000, 172_800_000, 172_800_001):
        plot: Any = SimpleNamespace(_begin_ms=NOW_MS - span_ms, _end_ms=NOW_MS)
        plot._marks = [Mark(NOW_MS + at_ms, kind, "") for kind in ("finding", "change") for at_ms in (-span_ms, -1, 0)]
        for width in (9, 23, 24, 40):
            axis = metrics.PlotPane._format_time_axis(plot, width)
            signs = "".join(sign for sign, _style in metrics.PlotPane._build_mark_pieces(plot, width))
            yield f"times of {span_ms} in {width}: {axis!r} {signs!r}"
    for width in (4, 5, 6, 16, 17, 18, 19, 24, 25, 26, 40):
        yield f"sides of {width}: {frame.align_sides(Content('left of the two'), Content('right'), width).plain!r}"
    for count in (0, 1, 4, 5, 9):
        for height in (14, 15, 16, 18, 19, 20, 22, 23, 24):
            board: Any = SimpleNamespace(
                find_current_pane=lambda: SimpleNamespace(job_filter=None), _list_size=("", 0), _current="ready",
                _queue=SimpleNamespace(count_in_place=lambda _place, count=count: count),
                count_content_rows=lambda height=height: height,
            )  # fmt: skip
            yield f"a list of {count} jobs in {height} rows: {Board._compute_list_rows(board)}"
    for width in (0, 27, 28, 29, 80, 86, 87, 88, 200):
        yield f"line of {width}: {question_text.compute_line_width(width)}"
    for refs in ((MAIL,), (MAIL, NEWS, ELSEWHERE), (MAIL,) * 4):
        for place, total in (("dead", 1), ("", 2)):
            yield from write(question_text.format_location(refs, place, "redis://here", total))
    for done, total in ((0, 0), (0, 2), (3, 0), (3, 2_500)):
        yield from write(question_text.format_progress("requeue", done, total, ("5/s", "")))
    for number in (None, 0, 0.4, 1, 1500.0):
        yield f"{number}: {queue_preview._format_short_number(number)}"
    for place in (Place("ready", State.READY, "k", "list"), Place("done", State.DONE, "k", "zset")):
        for count in (0, 3):
            queue = Queue("q", "s", (Count(place.name, place.state, count),))
            yield f"{place.name} {count}: {board_layout._compute_fullness_key(place, queue)}"


def describe_columns() -> Iterator[str]:
    """Yield the columns of each table and their widths, at each width where a column appears, and on wide screens."""
    builders: dict[str, Callable[[Any], Iterable[Column]]] = {
        "workers": workers.Workers._build_columns,
        "schedules": schedules.Schedules._build_columns,
        "errors": errors.Errors.build_columns,
        "kinds": kinds.Kinds.build_columns,
        "groups": groups.Groups.build_columns,
        "search": search.Search.build_columns,
        "differences": differences.Differences.build_columns,
        "jobs of an error": lambda _view: error_group._build_columns([JOB]),
    }
    tables = {f"{name}, {title}": [*build(view)] for name, build in builders.items() for title, view in VIEWS.items()}
    for state in State:
        names = columns._DEFAULT_NAMES[state]
        choice = columns.ColumnChoice(filled=frozenset(columns._COLUMNS))
        tables[f"{state} jobs"] = [*columns.build_columns(state, names, 16, choice)]
        tables[f"{state} jobs, configured"] = [
            *columns.build_columns(state, columns.NAMES[1:], 16, choice, are_configured=True)
        ]
    fixed = {
        "next steps": loops._NEXT_COLUMNS, "steps": loops._STEP_COLUMNS, "operations": operations.COLUMNS,
        "statistics of kinds": kinds._STATISTICS_COLUMNS, "jobs of an error without ids": error_group.OTHER_COLUMNS,
        "views": view_list.COLUMNS, "scenarios": demo_chooser._COLUMNS,
        "events": events.build_event_columns(True, 0), "events of a queue": events.build_event_columns(False, 20),
    }  # fmt: skip
    for title, table_columns in {**tables, **fixed}.items():
        shown: list[int] = []
        for width in range(20, 261):
            visible = fit_columns(table_columns, width, 2)
            numbers = [column for column, _cells in visible]
            if numbers != shown or width in (118, 158, 260):
                cells = [f"{table_columns[at].title or table_columns[at].key} {cells}" for at, cells in visible]
                yield f"{title}, {width} cells: {', '.join(cells)}"
            shown = numbers


def test_rows_match_the_stored_text(stopped_clock: None) -> None:  # noqa: F811
    assert_lines_match_file((*describe_cases(), *describe_functions(), *describe_columns()), KEPT)
