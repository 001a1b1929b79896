"""What the plots of metrics read, compute and show at each bound: `metrics_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/screens/test_metrics_at_bounds.py` writes the text.
"""

# ruff: noqa: B023 (a function is called before its loop continues)
from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Actor, Bare, describe, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401

from rqtui.engine.history import Day, History
from rqtui.model import Count, Queue, Ref, Snapshot, State
from rqtui.recording.flows import MinuteTotals
from rqtui.reports.course import Mark
from rqtui.systems import registry
from rqtui.tui.screens import metrics
from rqtui.tui.screens.metrics import Chart, Metrics, PlotPane, RecordedRange, Sample

KEPT = Path(__file__).with_name("metrics_at_bounds.txt")
END_MS = 1_800_000_000_000
MAIL, NEWS, TASKS, STEPS = Ref("native", "mail"), Ref("native", "news"), Ref("sidekiq", "mail"), Ref("dispatcher", "a")
SYSTEMS = {name: registry.create_system(name) for name in ("native", "sidekiq", "dispatcher")}


def build_history(ref: Ref = MAIL, *, begin_minutes: int = 3) -> History:
    """Return counters that grow by 60, 120, … per minute; the last minute has begun 15 s before the end."""
    minutes = {
        END_MS - 15_000 - 60_000 * at: {"enqueued": 600 - 60 * at, "acked": 300 - 30 * at, "rejected": 30 - 3 * at}
        for at in range(begin_minutes, -1, -1)
    }
    counters = {"enqueued": 700, "acked": 350, "rejected": 33}
    return History(ref, counters, minutes, min(minutes))


def build_view(log: list[str], *refs: Ref, **attributes: Any) -> Any:
    session = Actor(
        log, "session", systems=SYSTEMS, refs=list(refs), is_replay=False, has_recording=False, engine=None,
        journal=SimpleNamespace(operations=(), sightings=()), settings=SimpleNamespace(is_ascii=False),
    )  # fmt: skip
    usual: dict[str, Any] = {
        **{name: value for name, value in vars(Metrics(refs)).items() if name in _OWN_NAMES},
        "_refs": refs, "session": session, "host": Actor(log, "host"), "is_drawn": True,
    }  # fmt: skip
    return Bare(Metrics, **{**usual, **attributes})


_OWN_NAMES = {
    "_initial_refs", "_left_out_count", "_range_index", "_drawn_ms", "_loaded_minutes", "_histories", "_requests",
    "_days", "_samples", "_previous_counters", "_snapshot", "_recorded", "_recorded_minutes", "_marks",
    "_next_recorded_s", "_recording_problem", "_recorded_requests", "_mark_requests",
}  # fmt: skip


def write_chart(chart: Chart) -> Iterator[str]:
    area, line = (
        [(round(at - END_MS), None if value is None else round(value, 3)) for at, value in points]
        for points in (chart.area, chart.line)
    )
    yield f"  {chart.title} {chart.note!r} {chart.is_level} {area} {line}"
    yield f"    {metrics._format_chart_title(chart, ' ', '  ', ' ').plain!r}"


def describe_plots() -> Iterator[str]:
    log: list[str] = []
    area = [(END_MS - 50_000 + 10_000 * at, float(at * 7)) for at in range(5)]
    marks = [Mark(END_MS - 30_000, "finding", ""), Mark(END_MS - 30_000, "change", ""), Mark(END_MS - 1, "change", "")]
    for width, height, has_marks, ascii_only, points in (
        (10, 9, True, True, area), (11, 9, True, True, area), (30, 2, True, True, area), (30, 1, False, True, area),
        (30, 5, True, True, area), (30, 6, True, True, area), (30, 6, True, False, area), (30, 6, True, True, ()),
        (40, 7, False, True, area),
    ):  # fmt: skip
        pane = Bare(
            PlotPane, _chart=Chart("throughput", points, points[:2], "out", "in"), _begin_ms=END_MS - 60_000.0,
            _end_ms=float(END_MS), _marks=marks if has_marks else (), _ascii_only=ascii_only,
            content_size=SimpleNamespace(width=width, height=height),
        )  # fmt: skip
        yield f"plot of {width} x {height} {has_marks} {ascii_only}:"
        yield from (f"  {line.markup!r}" for line in pane.render().split("\n"))
    for width in (20, *range(30, 45), 60):
        for note in ("", "a note"):
            pane = Bare(PlotPane, outer_size=SimpleNamespace(width=width), refresh=lambda: log.append("painted"))
            pane.show_chart(Chart("throughput", area, area, "out", "in", note=note), 0, 1)
            yield f"title in {width}: {pane.border_title.plain!r} {pane.border_subtitle.plain!r} {take(log)}"
    for size in ((71, 18), (72, 17), (72, 18)):
        view = build_view(log, app=SimpleNamespace(size=size), query_one=lambda name: Actor(log, name))
        view._arrange_plots()
        yield f"arranged in {size}: {take(log)}"
    for value in (0.0, 0.4, 999.4, 999.9, 1000.0, 61_000.0):
        yield f"time of {value}: {metrics._format_time_span(value)} {metrics._format_rate(value)}"


def describe_samples() -> Iterator[str]:
    log: list[str] = []
    new = Metrics((MAIL,))
    numbers = {name: value for name, value in vars(new).items() if name in _OWN_NAMES and isinstance(value, int)}
    yield f"at first: {numbers} {new._samples.maxlen} {Sample(1)}"
    for number in (0, 49, 50, 51):
        candidates = tuple(Ref("native", f"q{at}") for at in range(number))
        view = build_view(log, *candidates, select_busiest_queues=lambda refs, limit: refs[:limit])
        view._initial_refs = candidates if number < 50 else ()
        with contextlib.suppress(LookupError, RuntimeError):  # No app is running, so the grid has no parent.
            next(iter(view.compose_view()))
        yield f"plotted of {number}: {len(view._refs)} {view._left_out_count} {take(log)}"
        view._refs = view._refs or (Ref("native", "q" * 60),) * (number == 49)
        for width in (40, 60, 110):
            left, right = view.build_second_line(width)
            yield f"  in {width}: {left.plain!r} {right.plain!r}"
    for width in (20, 33, 36, 39, 42, 120):
        left, right = build_view(log, Ref("native", "q" * 60)).build_second_line(width)
        yield f"a long name in {width}: {left.plain!r} {right.plain!r}"
    view = build_view(log, MAIL)
    for at_ms, ready, oldest, done in (
        (1_000, 2, 500, 10),
        (1_000, 3, 1, 11),
        (1_001, 2, None, 12),
        (3_001, 0, None, 11),
        (5_001, 0, None, 27),
        (6_001, 0, None, 4),
        (7_001, 0, None, 3),
    ):
        counts = (
            Count("ready", State.READY, ready),
            Count("done", State.DONE, 5),
            Count("reserved", State.RESERVED, 1),
        )
        counters = {"in": 2 * done, "out": done} if done > 4 else {"in": 2 * done, "failed": done}
        view._add_sample(at_ms, [Queue("mail", "native", counts, counters=counters, oldest_ready_ms=oldest)])
        yield f"sample at {at_ms}: {len(view._samples)} {view._samples[-1]}"
    for minutes, samples, drawn_ms in (
        (0, (), 0), (0, (Sample(END_MS),), END_MS), (1, (Sample(END_MS),), END_MS), (2, (), 0),
        (1, (Sample(END_MS - 60_000), Sample(END_MS)), END_MS - 1), (2, (Sample(0), Sample(END_MS)), END_MS - 10_000),
        (2, (Sample(END_MS),), END_MS - 9_999), (2, (Sample(END_MS),), END_MS - 10_000),
    ):  # fmt: skip
        view = build_view(
            log, MAIL, _range_index=minutes, _samples=deque(samples), _drawn_ms=drawn_ms, _loaded_minutes=9
        )
        vars(view).update(_draw_charts=lambda: log.append("draw"), _load_counters=lambda: log.append("load"),
                          _load_recorded=lambda: log.append("recorded"))  # fmt: skip
        view.show_snapshot(Snapshot(END_MS))
        yield f"snapshot of range {minutes} {len(samples)} {drawn_ms - END_MS}: {take(log)}"
    view = build_view(log, MAIL, _draw_recorded_charts=lambda _snapshot: log.append("replay"))
    view.session.is_replay = True
    view.show_snapshot(Snapshot(END_MS))
    yield f"snapshot of a replay: {take(log)}"
    for queues, loaded, next_s in (((), 0, 0.0), ((MAIL,), 0, 0.0), ((MAIL, NEWS), 5, float("inf"))):
        counted = tuple(Queue(ref.queue, ref.system, counters={"in": 1}) for ref in queues)
        view = build_view(log, MAIL, NEWS, _loaded_minutes=loaded, _next_recorded_s=next_s)
        vars(view).update(_draw_charts=lambda: log.append("draw"), _load_counters=lambda: log.append("load"),
                          _load_recorded=lambda: log.append("recorded"))  # fmt: skip
        view._histories = {MAIL: build_history(begin_minutes=1)}
        results = {"history": (build_history(), build_history(NEWS), RuntimeError("away"))}
        view.show_snapshot(Snapshot(END_MS, counted, results=results))
        numbers = len(view._samples), len(view._histories[MAIL].minutes), len(view._histories)
        yield f"snapshot with {len(queues)} of 2: {take(log)} {numbers}"


def describe_ranges() -> Iterator[str]:
    log: list[str] = []
    for refs in ((), (MAIL,), (TASKS,), (STEPS,), (MAIL, STEPS)):
        for is_replay, has_recording in ((False, False), (False, True), (True, False)):
            for index in range(5):
                view = build_view(log, *refs, _range_index=index)
                view.session.is_replay, view.session.has_recording = is_replay, has_recording
                yield (
                    f"range {index} of {describe(refs)} {is_replay} {has_recording}: {view._minutes} "
                    f"{view._is_range_by_days} {view._is_range_recorded} "
                    f"{view.build_second_line(150)[0].plain!r} "
                    f"{view.count_numbered_items()} {view._format_ranges(['a'] * len(view._ranges), ' ').markup}"
                )
    for histories in ({}, {MAIL: History(MAIL)}, {MAIL: build_history()}):
        view = build_view(log, MAIL, STEPS, _histories=histories)
        yield f"counting with {len(histories)}: {view._count_counting_queues()} {view.build_second_line(150)[0].plain}"
    for number in (1, 3, 4):
        for is_replay in (False, True):
            view = build_view(log, MAIL)
            view.session.is_replay = is_replay
            for name in ("_load_counters", "_load_recorded", "_load_days", "_draw_charts"):
                vars(view)[name] = lambda name=name: log.append(name)
            view.action_place(number)
            yield f"key {number} {is_replay}: {view._range_index} {take(log)}"
            for step in (-1, 1, 1, 1, 1):
                view.action_page(step)
                yield f"  step {step}: {view._range_index} {len(log)}"
                log.clear()
    for loaded, index, refs in (
        (0, 0, (MAIL,)),
        (6, 0, (MAIL,)),
        (5, 0, (MAIL,)),
        (60, 1, (MAIL,)),
        (61, 1, (MAIL,)),
        (0, 0, (STEPS,)),
    ):
        view = build_view(log, *refs, _loaded_minutes=loaded, _range_index=index)
        view._load_counters()
        yield f"loaded {loaded} of range {index}: {take(log)} {view._loaded_minutes}"
    for message in (
        SimpleNamespace(error="away", result=None),
        SimpleNamespace(error="", result=build_history()),
        SimpleNamespace(error="", result=None),
    ):
        for is_drawn in (False, True):
            view = build_view(log, MAIL, _loaded_minutes=6, is_drawn=is_drawn, _draw_charts=lambda: log.append("draw"))
            view._store_counters(message)
            numbers = view._loaded_minutes, len(view._histories)
            yield f"counters {message.error} {message.result is not None} {is_drawn}: {take(log)} {numbers}"
    for snapshot, has_recording in ((None, True), (Snapshot(END_MS), False), (Snapshot(END_MS), True)):
        view = build_view(log, MAIL, _snapshot=snapshot)
        view.session.has_recording = has_recording
        view._load_recorded()
        yield f"recording {snapshot is not None} {has_recording}: {take(log)} {view._next_recorded_s > 0}"
    recorded = RecordedRange(5, (), (Mark(1, "change", ""),))
    for is_drawn in (False, True):
        view = build_view(log, MAIL, is_drawn=is_drawn, _draw_charts=lambda: log.append("draw"))
        for result, problem in (
            (None, "denied"),
            (None, "denied"),
            (recorded, ""),
            (recorded._replace(minutes=60), ""),
            (None, ""),
        ):
            view._store_recorded(result, problem)
            kept = view._recorded_minutes, view._marks
            yield f"recorded {result and result.minutes} {problem} {is_drawn}: {take(log)} {kept}"
    for at_ms in (None, 0, END_MS):
        for refs in ((MAIL,), (TASKS,)):
            view = build_view(log, *refs, _samples=deque([] if at_ms is None else [Sample(at_ms)]))
            requests: list[Any] = []
            engine: Any = SimpleNamespace(send_requests_isolated=requests.extend)
            if at_ms:
                view._samples.appendleft(Sample(1))
            view.session.call_engine = lambda call, _handle: log.append("read days") or call(engine)
            view._load_days()
            log.extend(str(request.args[1:]) for request in requests)
            yield f"days of {describe(refs)} at {at_ms}: {take(log)}"
    view = build_view(log, TASKS, _draw_charts=lambda: log.append("draw"))
    for result in (None, (RuntimeError("away"),), ((Day("2027-01-14", 5, 1),),)):
        view._store_days(SimpleNamespace(result=result))
        yield f"stored days: {take(log)} {view._days}"
    view = build_view(log, MAIL, STEPS)
    first = view.build_focus([]).requests["history"]
    yield f"commands: {[call.argv for call in first[0].calls]}"
    yield f"requested: {len(first)} {view.build_focus([]).requests['history'][0] is first[0]} {[*view._requests]}"
    for engine in (None, Actor(log, "engine")):
        view = build_view(log, MAIL)
        view.session.is_replay, view.session.engine = True, engine
        for _time in range(2):
            requests = view.build_focus([]).requests
            yield f"replay {engine is not None}: { {name: len(each) for name, each in requests.items()} } {take(log)}"


def describe_charts() -> Iterator[str]:
    log: list[str] = []
    samples = deque([Sample(END_MS - 90_000 + 30_000 * at, 1.0, 2.0, 0.5, 1_007 + at, 1_000 * at) for at in range(4)])
    for refs, histories, index in (
        ((MAIL,), {MAIL: build_history()}, 0), ((MAIL,), {MAIL: build_history()}, 1), ((MAIL,), {}, 0),
        ((MAIL,), {MAIL: History(MAIL)}, 1), ((MAIL, NEWS), {MAIL: build_history(), NEWS: build_history(NEWS)}, 1),
        ((TASKS,), {TASKS: History(TASKS, {"completed": 4}, {END_MS - 75_000: {"completed": 1}}, END_MS - 75_000)}, 1),
    ):  # fmt: skip
        view = build_view(log, *refs, _histories=histories, _range_index=index, _samples=samples)
        yield f"charts of {describe(refs)} {len(histories)} {index}:"
        for chart in view._build_charts(END_MS - view._minutes * 60_000, END_MS):
            yield from write_chart(chart)
    for depth in (0, 600, 1_007):
        late = deque([Sample(END_MS - 75_000, 1.0, 2.0, 0.5, depth), Sample(END_MS, 1.0, 2.0, 0.5, depth)])
        for index in (0, 1):
            view = build_view(log, MAIL, _histories={MAIL: build_history()}, _range_index=index, _samples=late)
            yield f"charts of depth {depth}, {index}:"
            for chart in view._build_charts(END_MS - 300_000, END_MS):
                yield from write_chart(chart)
    days = (Day("2027-01-14", 8_640, 86), Day("2027-01-15", 500, 5))
    for end_ms in (END_MS, Day("2027-01-15", 0, 0).begin_ms + 500, Day("2027-01-15", 0, 0).begin_ms + 2_000):
        view = build_view(log, TASKS, _range_index=3, _days={"sidekiq": days}, _samples=samples)
        yield f"days until {end_ms - END_MS}:"
        for chart in view._build_charts(END_MS - 1, end_ms):
            yield from write_chart(chart)
    minutes: list[tuple[int, Counter[str]]] = [
        (END_MS - at_ms, Counter(acked=120)) for at_ms in (90_000, 60_000, 30_000, 500)
    ]
    for until_ms in (None, END_MS - 60_000, END_MS - 29_999):
        rates = metrics._compute_minute_rates(minutes, "out", END_MS, until_ms)
        yield f"rates until {until_ms and until_ms - END_MS}: {[(at - END_MS, rate) for at, rate in rates]}"
    step = MinuteTotals(END_MS - 180_000, 60_000, 30_000, 60, 30, 3, 9, 1_500)
    for title, totals in (
        ("nothing", ()), ("one", (step,)), ("at the start", (step._replace(at_ms=END_MS - 300_000),)),
        ("unwatched", (step._replace(watched_ms=0),)),
        ("two and a gap", (step, step._replace(at_ms=END_MS - 119_999, unfinished=None, oldest_ready_ms=None))),
        ("two without a gap", (step, step._replace(at_ms=END_MS - 120_000, enqueued=0, completed=0))),
        ("until a minute before the end", (step._replace(at_ms=END_MS - 120_000),)),
        ("until more than a minute before the end", (step._replace(at_ms=END_MS - 120_001),)),
        ("watched too long", (step._replace(watched_ms=900_000),)),
    ):  # fmt: skip
        yield f"recorded, {title}:"
        for chart in metrics.build_recorded_charts(totals, END_MS - 300_000, END_MS):
            yield from write_chart(chart)
    for recorded_minutes, index in ((10_080, 3), (5, 3), (0, 0)):
        view = build_view(
            log, MAIL, _range_index=index, _samples=samples, _recorded=(step,), _recorded_minutes=recorded_minutes
        )
        view.session.has_recording = True
        view._show_charts = lambda charts, begin_ms, end_ms: log.append(
            f"{charts[0].note} {begin_ms - END_MS} {end_ms - END_MS}"
        )
        view._draw_charts()
        yield f"drawn {recorded_minutes} {index}: {take(log)} {view._drawn_ms - END_MS}"
    view = build_view(log, MAIL)
    view._draw_charts()
    yield f"drawn without samples: {take(log)} {view._drawn_ms}"
    view = build_view(log, MAIL, _show_charts=lambda charts, begin_ms, end_ms: log.append(f"{begin_ms - end_ms}"))
    view._draw_recorded_charts(
        Snapshot(END_MS, results={"recorded": (RuntimeError(), (step,)), "marks": (RuntimeError(), ())})
    )
    yield f"recorded of a replay: {take(log)} {len(view._recorded)} {view._marks}"
    for marks in (None, (Mark(5, "change", ""),)):
        yield f"marks: {build_view(log, MAIL, _marks=marks)._list_marks(0, 9)}"
    for refs in ((), (MAIL,), (MAIL, NEWS)):
        for snapshot in (None, Snapshot(END_MS, (Queue("mail", "native"),))):
            target = build_view(log, *refs, _snapshot=snapshot).build_target()
            yield f"target of {len(refs)}: {target.ref} {target.queue is not None}"
    for is_dim in (False, True):
        build_view(log, query_one=lambda name: Actor(log, name)).set_dimmed(is_dim)
        yield take(log)


@pytest.mark.usefixtures("stopped_clock")
def test_the_plots_of_metrics_at_their_bounds_match_the_stored_text() -> None:
    parts = (describe_plots, describe_samples, describe_ranges, describe_charts)
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
