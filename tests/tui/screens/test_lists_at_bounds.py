# ruff: noqa: B023 (a function is called before its loop continues)
"""What the lists of workers, events, errors and operations do at each bound: `lists_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_lists_at_bounds.py` writes the text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import SYSTEMS, Actor, build_bare_view, describe, silence, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401

from rqtui import verbs
from rqtui.errors import RqtuiError
from rqtui.model import Count, Fact, Job, Page, Queue, Rate, Ref, Snapshot, State, Worker, WorkerInspection
from rqtui.operations.journal import Operation
from rqtui.recording.records import ErrorCount
from rqtui.reports.errors import Errors as Report
from rqtui.reports.errors import Group, Width
from rqtui.reports.events import Event, Feed
from rqtui.reports.sampling import Extent
from rqtui.reports.workers import WorkerEntry, WorkerHealth
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.format.rows import Row
from rqtui.tui.screens import errors, events, operations, workers
from rqtui.tui.screens.errors import Errors
from rqtui.tui.screens.events import Events
from rqtui.tui.screens.operations import Operations
from rqtui.tui.screens.workers import Workers

KEPT = Path(__file__).with_name("lists_at_bounds.txt")
NOW_MS = 1_800_000_000_000
MAIL, NEWS, TASKS, STEPS = Ref("native", "mail"), Ref("native", "news"), Ref("celery", "mail"), Ref("dispatcher", "a")
JOB = Job(
    b"j1", "mail", "native", "reserved", State.RESERVED, b"j1", name="send", worker="w1", error="Boom: no",
    reserved_ms=NOW_MS - 20_000, deadline_ms=NOW_MS + 30_000, attempts=1, enqueued_ms=NOW_MS - 60_000,
)  # fmt: skip
WORKER = Worker(
    "w1", "mail", NOW_MS - 5_000, 60_000, "run", "77", "host", NOW_MS - 900_000, facts=(Fact("threads", 5),)
)
ENTRY = WorkerEntry(MAIL, "w1", WorkerHealth.RUNNING, WORKER, (JOB,), True)
IDLE = replace(ENTRY, name="w2", health=WorkerHealth.IDLE, jobs=(), worker=WORKER._replace(name="w2"))
GONE = replace(ENTRY, name="w3", health=WorkerHealth.GONE, jobs=(JOB, JOB))
EXTENT = Extent(NOW_MS - 9_000, 5, 5, 1, 1)


def number_refs(number: int) -> list[Ref]:
    return [Ref("native", f"q{at}") for at in range(number)]


def build_queue(name: str, **numbers: int) -> Queue:
    counts = tuple(Count(state.value, state, numbers.get(state.value, 0)) for state in State)
    return Queue(name, "native", counts, NOW_MS)


# -- workers ----------------------------------------------------------------------------------------------------------


def build_workers(log: list[str], *refs: Ref, **attributes: Any) -> Any:
    plot = Actor(
        log, "plot", build_requests=lambda ref: {"history": (str(ref),)} if ref else {},
        add_below=lambda text, ref, *_: log.append(f"plot of {ref}") or text,
    )  # fmt: skip
    return build_bare_view(log, Workers(), *refs, **{"_plot": plot, "_now_ms": NOW_MS, **attributes})


def describe_requested_workers() -> Iterator[str]:
    log: list[str] = []
    for number in (1, 99, 100, 101, 250):
        for position in (0, 240):
            refs = number_refs(number)
            view = build_workers(log, *refs, _next_position=position)
            view._counted_queues = {refs[0]: build_queue("q0", reserved=1), refs[-1]: build_queue("q", ready=5)}
            focus = view.build_focus(refs)
            counted = [int(ref.queue[1:]) for ref in focus.queues]
            yield (
                f"focus of {number} from {position}: {len(view._requested_refs)} {counted[:3]} {len(counted)} "
                f"{counted[-2:]}"
            )
            again = view.build_focus(refs).requests
            assert all(
                one is other for name in again for one, other in zip(again[name], focus.requests[name], strict=True)
            )
            results = {"workers": ((),) * len(view._requested_refs), "held": ((),) * len(view._requested_refs)}
            silence(view, "_draw_workers").show_snapshot(Snapshot(NOW_MS + 1, results=results))
            yield f"  then {view._next_position} {view._now_ms - NOW_MS} {take(log)}"
    page = Page("mail", "native", "reserved", (JOB,), 1)
    for count, is_frozen, read in (
        (0, False, None),
        (1, False, None),
        (1, True, ()),
        (1, True, (MAIL,)),
        (2, False, None),
    ):
        view = silence(
            build_workers(log, MAIL, _requested_refs=(MAIL,), is_frozen=is_frozen, _read_refs=read), "_draw_workers"
        )
        results = {"workers": ((WORKER,),) * count, "held": (page,) * count}
        view.show_snapshot(Snapshot(NOW_MS, (build_queue("mail"),), results=results))
        kept = len(view._entries), view._fact_names, len(view._counted_queues), view._read_refs
        yield f"replies of {count} queues {is_frozen} {read}: {take(log)} {kept}"
    for is_large, has_preview, cursor in (
        (True, True, ENTRY.id),
        (True, False, ENTRY.id),
        (False, True, ENTRY.id),
        (True, True, ""),
    ):
        view = build_workers(log, MAIL, is_large=is_large, has_preview=has_preview, _entries=(IDLE, ENTRY))
        view.table.cursor_id = cursor
        view.build_focus([MAIL])
        yield (
            f"plotted {is_large} {has_preview} {cursor}: {view._find_plotted_queue()} "
            f"{[*view.build_focus([MAIL]).requests]}"
        )
    queue = build_queue("mail")
    for each in (
        queue,
        build_queue("mail", reserved=1),
        queue._replace(workers=1),
        queue._replace(counters={"registered": 1}),
    ):
        yield f"busy: {workers._is_queue_busy(each)}"
    for since_ms, interval_ms in ((None, None), (None, 2_000), (NOW_MS - 2_500, 2_000), (NOW_MS - 2_501, 2_000)):
        system: Any = SimpleNamespace(
            heartbeat_event_interval_ms=interval_ms, events_since_ms=since_ms, now_ms=lambda: NOW_MS
        )
        yield (
            f"heartbeats since {since_ms and since_ms - NOW_MS} of {interval_ms}: "
            f"{workers.has_received_heartbeats(system)}"
        )


def describe_worker_rows() -> Iterator[str]:
    log: list[str] = []
    for number in (0, 1, 2, 500, 501):
        entries = tuple(replace(IDLE, name=f"w{at:03}") for at in range(number))
        for refs in ((), (Ref("native", "q" * 33),), (MAIL, NEWS)):
            view = silence(
                build_workers(log, MAIL, NEWS, _entries=entries, refs=refs, _expression="w"), "_show_worker_facts"
            )
            view.table.update = lambda rows: log.append(f"{len(rows)} rows")
            view.table.set_columns = lambda columns: log.append(f"{len(columns)} columns")
            view._draw_workers()
            yield f"{number} workers of {len(refs)}: {take(log)}"
            view.table.painter.columns = view._build_columns()
            view._draw_workers()
            yield f"  again: {[line for line in log if 'columns' in line]}"
            log.clear()
    for entry, entries, problems, requested, is_frozen in (
        (None, (), (), (MAIL, NEWS), False), (None, (ENTRY,), ("denied", "x"), (MAIL,), True),
        (GONE, (GONE,), (), (MAIL, NEWS), False), (replace(GONE, jobs=()), (GONE,), (), (MAIL, NEWS), False),
        (ENTRY, (ENTRY,), (), (MAIL, NEWS), False), (replace(ENTRY, worker=None), (ENTRY,), (), (MAIL, NEWS), False),
        (ENTRY, (replace(ENTRY, is_whole=False),), (), (MAIL, NEWS), False),
        (ENTRY, (replace(ENTRY, is_whole=False, jobs=()),), (), (MAIL, NEWS), False),
    ):  # fmt: skip
        for can_ask, commands in ((None, []), (True, ["stop"])):
            view = build_workers(
                log, MAIL, NEWS, _entries=entries, _problems=problems, _requested_refs=requested, is_frozen=is_frozen,
                find_selected_worker=lambda entry=entry: entry, check_action=lambda *_: can_ask,
                _list_worker_commands=lambda _entry: commands, _find_usable_verbs=lambda _entry: ["release"],
            )  # fmt: skip
            yield f"bottom of {entry and entry.name} {can_ask}: {describe(view._build_bottom_line())}"
    for system in ("native", "celery", "rq"):
        for jobs in ((), (JOB,), (JOB, JOB)):
            for is_read_only in (False, True):
                view = build_workers(log, MAIL)
                view.session.is_read_only = is_read_only
                entry = replace(ENTRY, ref=Ref(system, "mail"), jobs=jobs)
                commands = view._list_worker_commands(entry)
                for check in (None, True, False):
                    view.host.check_verb = lambda _key: check
                    yield f"orders of {system} {len(jobs)} {is_read_only}: {commands} {view._find_usable_verbs(entry)}"
    stored = [build_workers(log)._stores_workers(Ref(name, "a")) for name in ("native", "dispatcher", "other")]
    yield f"workers stored: {stored}"
    long_id = b"a long id of a person and a program"
    ending = replace(JOB, id=long_id, deadline_ms=NOW_MS, error="Boom " * 40)
    for entry in (replace(ENTRY, jobs=(ending,)), replace(ENTRY, jobs=(), has_unknown_jobs=True), GONE):
        view = build_workers(log, MAIL, _entries=(entry,))
        yield f"row {describe(view._build_worker_row(entry).cells)} {view._build_columns()[-6].width}"
        yield f"  {workers._describe_held_jobs(entry, NOW_MS, ('release', 'reap'))}"
        for width in (10, 19, 21, 60, 109, 110, 120):
            yield f"  in {width}: {workers._format_worker_details(entry, NOW_MS, width, 0).plain!r}"
        rows = [workers._format_worker_details(entry, NOW_MS, 20, rows).plain.count("\n") for rows in range(20)]
        yield f"  lines by rows: {rows}"
    late = replace(ENTRY, name="b", worker=WORKER._replace(heartbeat_ms=0))
    for names in (("a", "z"), ("z", "a")):
        view = build_workers(log, MAIL, sort="last heartbeat")
        view._entries = (replace(ENTRY, name=names[0], worker=None), replace(late, name=names[1]))
        yield f"without heartbeats: {[entry.name for entry in view._list_matching_workers()]}"
    for texts in (["a"], ["a", "b"], ["a", "b", "c"]):
        yield workers._join_alternatives(texts)
    for names, facts in (
        ((), ()),
        (("threads",), (Fact("threads", 5),)),
        (("threads", "pool", "x"), (Fact("pool", "p" * 30), Fact("x", 1))),
    ):
        view = build_workers(
            log, MAIL, _fact_names=names, _entries=(replace(ENTRY, worker=WORKER._replace(facts=facts)),)
        )
        described = [describe(column._replace(fit=None)) for column in view._build_fact_columns()]
        yield f"columns of facts: {described}"
        yield f"  columns {[(column.key, column.width) for column in view._build_columns()]}"
    for width in (30, 60, 75, 90, 120):
        for entries in ((), (ENTRY, IDLE, GONE), (replace(IDLE, has_unknown_jobs=True),)):
            view = build_workers(log, MAIL, _entries=entries, refs=(MAIL,))
            yield f"second line of {width}: {describe(view.build_second_line(width))}"
    for sort in Workers.SORTS:
        view = build_workers(log, MAIL, _entries=(ENTRY, IDLE, GONE, replace(ENTRY, name="w0", worker=None)), sort=sort)
        yield f"by {sort}: {[entry.name for entry in view._list_matching_workers()]}"
    kinds = tuple(replace(JOB, name=name) for name in ("a", "a", "b", "c", "d", "e", ""))
    for rows in (0, 9, 10, 11, 12):
        for width in (10, 60, 110):
            text = workers._format_worker_details(replace(ENTRY, jobs=kinds[:4]), NOW_MS, width, rows).plain
            yield (
                f"details in {width} x {rows}: {text!r}"
                if rows in (0, 10)
                else f"details in {rows}: {text.count(chr(10))}"
            )
    yield workers._format_worker_details(replace(ENTRY, jobs=kinds), NOW_MS, 110, 0).plain
    yield workers._format_worker_details(replace(ENTRY, jobs=()), NOW_MS, 60, 0).plain


def describe_worker_keys() -> Iterator[str]:
    log: list[str] = []
    for entry in (None, ENTRY, replace(ENTRY, name="w" * 41)):
        inspection = WorkerInspection("w1", NOW_MS - 5_000, 1_500, (Fact("pool", 4),))
        view = build_workers(log, MAIL, _inspections={entry.id: inspection} if entry else {}, _asked=set())
        view.find_selected_worker = lambda entry=entry: entry
        view._show_worker_facts()
        yield f"replies of {entry and entry.name}: {take(log)}"
        for asked, inspections, has_preview in (
            ((), {}, True),
            ((), {}, False),
            (("x",), {}, False),
            ((), {"native:mail w1": 1}, False),
        ):
            view = build_workers(log, MAIL, has_preview=has_preview, _asked=set(asked), _inspections=dict(inspections))
            view.find_selected_worker = lambda entry=entry: entry
            view._show_worker_facts()
            about = view.query_one()
            yield (
                f"details {entry and entry.name} {asked} {has_preview}: {about.display} "
                f"{describe(about.border_title)} {take(log)}"
            )
            about.border_title = None
    for entry in (
        None,
        ENTRY,
        IDLE,
        replace(ENTRY, worker=None),
        replace(ENTRY, jobs=(replace(JOB, queue="news"), JOB)),
    ):
        for refs in ((), (MAIL,)):
            view = build_workers(log, MAIL, refs=refs, find_selected_worker=lambda entry=entry: entry)
            view._counted_queues = {MAIL: build_queue("mail")}
            yield f"target of {entry and entry.name} {refs}: {describe(replace(view.build_target(), queue=None))}"
        for name in ("release", "pause"):
            verb = verbs.VERBS_BY_NAME[name]
            view.host.start_verb = lambda verb, target: log.append(
                f"start {verb.name} {target.holder!r} {target.workers}"
            )
            yield f"verb {name}: {view.handle_verb(verb)} {take(log)}"
        for ref in (MAIL, Ref("celery", "mail")):
            shown = entry and replace(entry, ref=ref)
            view = build_workers(log, MAIL, _entries=(shown,) if shown else (), find_selected_worker=lambda: shown)
            for is_read_only in (False, True):
                view.session.is_read_only = is_read_only
                yield (
                    f"asking {ref} {is_read_only}: {view.check_action('ask', ())} "
                    f"{view.offers_action('screen.ask')} {view.offers_action('x')}"
                )
            view.session.is_read_only = False
            silence(view, "_show_worker_facts")
            for _time in range(2):
                view.action_ask()
                yield f"asked: {take(log)} {describe(view._asked)} {describe(view._inspections)}"
            for message in (
                SimpleNamespace(result=5, is_last=False, error=""),
                SimpleNamespace(result=None, is_last=True, error="away"),
            ):
                for is_drawn in (False, True):
                    view.is_drawn = is_drawn
                    view._asked.add("id")
                    view._record_inspection("id", message)
                    yield f"reply: {take(log)} {describe(view._asked)} {[*view._inspections]}"
            view.on_table_opened(None)
            yield f"opened: {take(log)}"
            view.on_table_moved(None)
            yield f"moved: {take(log)}"
            silence(view, "_draw_workers").action_sort()
            yield f"sorted: {take(log)} {view.sort} {view.check_action('place', ('1',))}"
        waiting = entry and replace(entry, jobs=(), worker=WORKER._replace(job=b"j9"))
        view = build_workers(log, MAIL, find_selected_worker=lambda: waiting)
        view.on_table_opened(None)
        yield f"opened with a job of the heartbeat: {take(log)}"
    for error, result, is_on_top in (
        ("away", None, True),
        ("", None, True),
        ("", (MAIL, JOB), True),
        ("", (MAIL, JOB), False),
    ):
        view = build_workers(log, MAIL, is_on_top=is_on_top)
        view._open_worker_job(SimpleNamespace(error=error, result=result))
        yield f"found {error} {result is not None} {is_on_top}: {take(log)[:60]}"
    for refs in ((), (MAIL,)):
        view = silence(build_workers(log, refs=refs, _initial_refs=(MAIL,), _entries=(ENTRY,)), "_draw_workers")
        view.action_widen()
        yield f"widened from {len(refs)}: {view.refs} {view._entries} {view._requested_refs} {take(log)}"
    view = silence(build_workers(log), "_draw_workers")
    for expression in ("w", ""):
        view.apply_filter(expression)
        yield f"filter {expression!r}: {take(log)} {view._expression!r}"
    engine: Any = SimpleNamespace(
        fetch_job=lambda ref, job_id, size: log.append(f"{size} bytes") or JOB if ref.queue == "news" else None
    )
    several = replace(ENTRY, worker=WORKER._replace(queues=("mail", "news")))
    found_jobs = [workers._find_worker_job(entry, b"j", engine) for entry in (several, ENTRY)]
    yield f"read of the job: {take(log)}"
    yield f"job of a worker: {[each and str(each[0]) for each in found_jobs]}"
    found = workers._convert_worker_to_job(replace(IDLE, worker=WORKER._replace(job=b"j9")))
    yield f"searched: {found.id} {found.name} {found.body}"


# -- events -----------------------------------------------------------------------------------------------------------


def build_event(number: int, verb: str = "reserve", ref: Ref = MAIL, **fields: Any) -> Event:
    return Event(ref, NOW_MS + number, number, verb, b"job%d" % number, **fields)


def build_events(log: list[str], *refs: Ref, **attributes: Any) -> Any:
    return build_bare_view(log, Events(refs), *refs, **attributes)


def describe_event_requests() -> Iterator[str]:
    log: list[str] = []
    for number in (49, 50, 51):
        refs = number_refs(number)
        view = build_events(log, *refs, STEPS, select_busiest_queues=lambda refs, limit: tuple(refs[-limit:]))
        yield (
            f"events of {number}: {len(view._read_refs)} {len(view._busiest)} {view._read_refs[0]} "
            f"{describe(view._describe_recording())}"
        )
        first, second = view.build_focus([]), view.build_focus([])
        assert first.requests["events"][0] is second.requests["events"][0]
        assert type(first.requests["events"][0]).__name__ == "Request"
        yield f"  focus {len(first.queues)} {len(first.requests['events'])}"
    view = build_events(log, *[Ref("dispatcher", f"q{at}") for at in range(60)])
    yield f"without events: {len(view.build_focus([]).queues)} {describe(view._describe_recording())}"
    for number in (0, 1, 5, 6, 7):
        for is_drawn in (False, True):
            shown = [build_event(at) for at in range(number)] + [Event(MAIL, NOW_MS, 99, "pause")]
            view = build_events(log, MAIL, is_drawn=is_drawn, _events_by_key={event.key: event for event in shown})
            view._table.rows = [Row("gone", ()), *(Row(event.key, ()) for event in shown)]
            view._table.visible_range = (0, number + 2)
            view._kinds = {(MAIL, b"job0"): ""}
            view._table.cursor_id = shown[0].key
            asked = [each[1] for each in view._list_jobs_of_unknown_kind()]
            kinds = [view.build_focus([]).requests["kinds"] for _time in range(2)]
            assert all(one is other for one, other in zip(*kinds, strict=True))
            yield f"kinds of {number} {is_drawn}: {asked} {view.build_focus([]).job}"
    for known in (9_999, 10_000, 10_001):
        view = build_events(log, MAIL, _kinds={(MAIL, b"%d" % at): "" for at in range(known)}, _rows_signature=(1,))
        event = build_event(1)
        view._rows, view._events_by_key = deque([Row(event.key, ("old",)), Row("other", ())]), {event.key: event}
        view._store_kinds(
            Snapshot(NOW_MS, results={"kinds": (events._JobKind(MAIL, b"job1", "send"), RqtuiError("away"))})
        )
        yield f"kinds of {known} jobs: {len(view._kinds)} {view._rows_signature} {len(view._rows[0].cells)}"
    for known in (9_999, 10_000):
        first = build_event(0)
        view = build_events(log, MAIL, _waiting_events=[build_event(1), build_event(2, "reject")])
        view._events.extend([*[build_event(7)] * (known - 1), first])
        view._events_by_key, view._build_event_row = {first.key: first}, lambda event: Row(event.key, ())
        view._add_waiting_events()
        numbers = (
            len(view._events),
            len(view._events_by_key),
            len(view._rows),
            view._id_cells,
            len(view._waiting_events),
        )
        yield f"added to {known}: {numbers} {view._events[0].number}"
    for job_id in (b"", b"a", b"0123456789abcdef0123456789abcdef", b"a long id of a person"):
        view = build_events(log, MAIL, _waiting_events=[replace(build_event(1), id=job_id)])
        view._add_waiting_events()
        yield f"id {job_id!r}: {view._id_cells}"
    for cells in (0, 1, 8, 9, 10, 16, 17, 30):
        for has_queues in (False, True):
            columns = [
                (column.key, column.width, column.most) for column in events.build_event_columns(has_queues, cells)
            ]
            yield f"columns of ids of {cells}: {columns}"
    for last_id in ("", f"{NOW_MS + 1}-1", f"{NOW_MS + 2}-2", f"{NOW_MS + 1}-2"):
        for has_gap in (False, True):
            view = build_events(log, MAIL, _last_ids={MAIL: last_id} if last_id else {})
            found = view._take_new_events(Feed(MAIL, (build_event(1), build_event(2)), has_gap=has_gap))
            yield (
                f"new after {last_id[-3:]} {has_gap}: {[event.number for event in found]} {view._gaps} "
                f"{view._last_ids[MAIL][-3:]}"
            )


def describe_event_snapshots() -> Iterator[str]:
    log: list[str] = []
    feeds = (
        Feed(MAIL, (build_event(1),)),
        Feed(NEWS, (build_event(5, ref=NEWS),)),
        RqtuiError("denied."),
        RqtuiError("other"),
    )
    for is_first in (False, True):
        for is_frozen in (False, True):
            view = build_events(log, MAIL, is_frozen=is_frozen, _snapshot=None if is_first else Snapshot(1))
            silence(view, "_extend_recording", "_draw_events", "_store_kinds")
            view._waiting_events = [build_event(0)] * 10_000
            view._build_event_row = lambda event: Row(event.key, ())
            view.show_snapshot(Snapshot(NOW_MS, job=JOB, results={"events": feeds}))
            calls = [line[:70] for line in log]
            log.clear()
            yield (
                f"snapshot {is_first} {is_frozen}: {calls} {len(view._events)} {len(view._waiting_events)} "
                f"{view._read_error}"
            )
            view.show_snapshot(Snapshot(NOW_MS, results={"events": feeds[2:]}))
            yield f"  again: {[line for line in log if 'toast' in line]} {view._job}"
            log.clear()
    for is_extending, is_read_only, refused, until_ms in (
        (False, False, {}, 0), (True, False, {}, 0), (False, True, {}, 0), (False, False, {MAIL: "full"}, 0),
        (False, False, {}, -1),
    ):  # fmt: skip
        feed = Feed(MAIL, now_ms=NOW_MS, until_ms=until_ms)
        view = build_events(log, MAIL, _is_extending=is_extending, _refused=refused, _feeds={MAIL: feed})
        view.session.is_read_only = is_read_only
        view._extend_recording()
        yield f"recording {is_extending} {is_read_only} {len(refused)} {until_ms}: {take(log)} {view._is_extending}"
    for result, error in ((None, ""), ({}, ""), ({MAIL: "full"}, ""), (None, "away")):
        for is_drawn in (False, True):
            view = build_events(log, MAIL, is_drawn=is_drawn, _is_extending=True)
            for _time in range(2):
                view._handle_recording_result(SimpleNamespace(result=result, error=error))
                yield f"recorded {result} {error} {is_drawn}: {take(log)} {view._is_extending} {len(view._refused)}"
    view = silence(build_events(log, MAIL), "_update_frame", "_show_event_details")
    view._table.update = lambda rows: log.append(f"update {len(rows)}")
    view._table.set_columns = lambda columns: log.append(f"{len(columns)} columns")
    for number in (0, 0, 1, 1, 1, 2):
        view._rows = deque(Row(f"r{at}", ()) for at in range(number, 0, -1))
        view._draw_events()
        yield f"drawn {number}: {take(log)} {view._is_settled}"
        view._table.painter.columns = events.build_event_columns(False, 0)
    for refs in ((MAIL,), (MAIL, NEWS)):
        for initial in (refs, ()):
            view = silence(build_events(log, *refs, _initial_refs=initial), "_update_frame", "_show_event_details")
            composed = next(iter(view.compose_view()))
            view._table.set_columns = lambda columns: log.append(f"{len(columns)} columns")
            view._draw_events()
            yield f"table of {len(refs)} {len(initial)}: {len(composed.painter.columns)} {len(view._refs)} {log[0]}"
            log.clear()
    view = silence(build_events(log, MAIL), "_update_frame", "_show_event_details")
    view._table.update = lambda rows: log.append(f"update {len(rows)}")
    for ids in (("r2", "r1"), ("r2", "r1"), ("r2", "r1"), ("r3", "r1")):
        view._rows = deque(Row(row_id, ()) for row_id in ids)
        view._draw_events()
        yield f"drawn {ids}: {[line for line in log if 'update' in line]}"
        log.clear()
    entries = [RecentEvent(NOW_MS / 1000, "dispatch", ref, "", 3) for ref in (STEPS, MAIL)]
    for refs in ((STEPS,), (STEPS, Ref("dispatcher", "b"))):
        view = silence(build_events(log, *refs), "_update_frame", "_show_event_details")
        view.session.list_recent_entries = lambda rows: log.append(f"recent {rows}") or entries
        view._table.update = lambda rows: log.append(f"update {[len(row.cells) for row in rows]}")
        view._draw_events()
        yield f"own events of {len(refs)}: {[line for line in log if 'columns' not in line]}"
        log.clear()


def describe_event_details() -> Iterator[str]:
    log: list[str] = []
    unnamed = replace(JOB, id=b"job1", name="", reserved_ms=None)
    for event, job, has_preview in (
        (None, None, True), (build_event(1), None, True), (build_event(1), replace(JOB, id=b"job1"), True),
        (build_event(1), JOB, True), (build_event(1), None, False), (Event(MAIL, NOW_MS, 1, "pause"), None, True),
        (build_event(1, "reject", detail="token=abc1234567", worker="w1"), unnamed, True),
    ):  # fmt: skip
        view = build_events(log, MAIL, has_preview=has_preview, _snapshot=Snapshot(NOW_MS), _job=job)
        view._find_selected_event = lambda event=event: event
        for width in (10, 60, 150):
            view.measure_details_width = lambda _pane, width=width: width
            view._show_event_details()
            yield (
                f"details of {event and event.verb} {job and job.id} {width}: {take(log)} "
                f"{describe(view.query_one().border_title)}"
            )
    shown = [
        build_event(at, verb) for at, verb in enumerate(("reserve", "reserve", "ack", "reject", "release", "enqueue"))
    ]
    for number in (0, 5, 6):
        for is_frozen, follows, gaps in ((False, True, 0), (True, True, 1), (False, False, 0)):
            view = build_events(log, MAIL, is_frozen=is_frozen, _gaps=gaps, _waiting_events=[1, 2])
            view._events, view._table.follow_head = deque(shown[:number]), follows
            view._update_frame()
            yield f"frame of {number} {is_frozen} {follows} {gaps}: {take(log)}"
    for refs, feeds, error, is_read_only in (
        ((), {}, "", False), ((MAIL,), {}, "", False), ((MAIL, STEPS), {}, "", False), ((MAIL,), {}, "x", False),
        ((MAIL,), {}, "", True),
        ((MAIL,), {MAIL: Feed(MAIL, until_ms=-1)}, "x", True), ((MAIL,), {MAIL: Feed(MAIL)}, "x", False),
    ):  # fmt: skip
        view = build_events(log, *refs, _feeds=feeds, _read_error=error)
        view.session.is_read_only = is_read_only
        yield f"recording of {len(refs)} {len(feeds)} {error} {is_read_only}: {describe(view._describe_recording())}"
    snapshot = Snapshot(NOW_MS, (build_queue("mail", ready=4),), rates={MAIL: Rate(2.0)})
    for refs in ((MAIL,), (MAIL, NEWS), (NEWS,)):
        for event in (None, build_event(1)):
            view = build_events(log, *refs, _snapshot=snapshot, _find_selected_event=lambda event=event: event)
            target = view.build_target()
            yield (
                f"header of {len(refs)}: {describe(view.build_second_line(120))} {target.ref} "
                f"{target.queue is not None}"
            )
    view = silence(build_events(log, MAIL), "_draw_events", "_update_frame")
    view._events = deque(shown)
    for expression in ("", "reserve", "nothing"):
        view.apply_filter(expression)
        yield f"filter {expression}: {len(view._rows)} {take(log)} {view._table.follow_head} {view.filter_text!r}"
    failing = [build_event(at, "reject" if at in (2, 4) else "ack") for at in range(6)]
    for cursor in (None, 0, 2, 3, 4, 5):
        for events_shown in (failing, failing[:1]):
            view = silence(build_events(log, MAIL), "_update_frame")
            view._rows = deque(Row(event.key, ()) for event in events_shown)
            view._events_by_key = {event.key: event for event in events_shown}
            view._table.cursor_id = None if cursor is None else failing[cursor].key
            view.action_next_failure()
            yield f"next failure from {cursor} of {len(events_shown)}: {take(log)[-40:]} {view._table.follow_head}"
    for cursor, rows, has_preview in ((None, 2, True), ("r0", 2, True), ("r1", 2, False), (None, 0, False)):
        view = silence(build_events(log, MAIL, has_preview=has_preview), "_update_frame", "_show_event_details")
        view._rows, view._table.cursor_id = deque(Row(f"r{at}", ()) for at in range(rows)), cursor
        view.on_table_moved(None)
        yield f"moved to {cursor} of {rows}: {take(log)} {view._table.follow_head}"
    pause = Event(MAIL, NOW_MS, 1, "pause")
    kept: list[Any] = []
    for event in (None, pause, build_event(1)):
        view = build_events(log, MAIL, _events_by_key={event.key: event} if event else {})
        view.session.call_engine = lambda _call, handle: kept.append(handle)
        view.on_table_opened(SimpleNamespace(id=event.key if event else "x"))
        yield f"opened {event and event.verb}: {take(log)} {len(kept)}"
    for error, result, is_on_top in (("away", None, True), ("", None, True), ("", JOB, True), ("", JOB, False)):
        view.is_on_top = is_on_top
        kept[0](SimpleNamespace(error=error, result=result))
        yield f"found {error} {result is not None} {is_on_top}: {take(log)[:60]}"
    script = SimpleNamespace(moves=True, sources=("a",), targets=("b",))
    for system_script in (
        None, SimpleNamespace(moves=False), script, SimpleNamespace(moves=True, sources=("a", "b"), targets=("c", "d")),
        SimpleNamespace(moves=True, sources=("a", "b", "c"), targets=("d", "e", "f")),
        SimpleNamespace(moves=True, sources=("a",), targets=()),
    ):  # fmt: skip
        system: Any = Actor(log, "system", scripts={"go": system_script})
        yield f"way: {events._describe_move(system, 'go')!r}"
    yield f"styles: {[events._choose_verb_style(SYSTEMS['native'], verb) for verb in ('ack', 'delete', 'nosuch')]!r}"
    yield f"positions: {events._parse_event_position('5-7')} {events._build_event_position(pause)[1]}"
    request = events._build_kind_request(SYSTEMS["native"], MAIL, b"j1")
    yield f"kind request: {len(request.calls)} {request.may_fail}"


# -- errors -----------------------------------------------------------------------------------------------------------


GROUP = Group(
    ("Boom", "k"), "Boom: no", "Boom", "charge.py:88", 2, 3, 1, NOW_MS - 90_000, NOW_MS - 30_000, ("send", "charge"),
    (MAIL, NEWS), (replace(JOB, place="dead", state=State.DEAD),),
)  # fmt: skip
OTHER = replace(
    GROUP, key=("Oops", "x"), message="Oops", frame="", dead=0, retrying=9, first_ms=None, last_ms=NOW_MS, refs=(NEWS,),
    jobs=(replace(JOB, id=b"j2", queue="news", place="scheduled", state=State.SCHEDULED),),
)  # fmt: skip
REPORT = Report((GROUP, OTHER), EXTENT)


def build_errors(log: list[str], *refs: Ref, **attributes: Any) -> Any:
    return build_bare_view(log, Errors(), *refs, **{"report": REPORT, "_now_ms": NOW_MS, **attributes})


def describe_error_groups() -> Iterator[str]:
    log: list[str] = []
    dateless = [replace(GROUP, last_ms=None, key=(name,), message=name) for name in ("b", "a")]
    dateless.append(replace(GROUP, last_ms=0, key=("a0",), message="a0"))
    view = build_errors(log, MAIL, sort="last", report=Report(tuple(dateless), EXTENT))
    yield f"without dates: {[group.message for group in view.list_matching_items()]}"
    for sort in Errors.SORTS:
        yield f"by {sort}: {[group.message for group in build_errors(log, MAIL, sort=sort).list_matching_items()]}"
    for refs in ((), (MAIL,)):
        for cells in (0, 12):
            for report in (None, REPORT):
                view = build_errors(log, MAIL, refs=refs, _frame_cells=cells, report=report)
                yield f"row {len(refs)} {cells} {report is not None}: {describe(view.build_row(GROUP, NOW_MS).cells)}"
                yield f"  row {describe(view.build_row(replace(OTHER, message=''), NOW_MS).cells)}"
    for number in (9_999, 10_000):
        row = build_errors(log, MAIL).build_row(replace(GROUP, dead=number, retrying=number), NOW_MS)
        yield f"{number} dead, {number} retrying: {describe(row.cells)}"
    for report in (None, REPORT, Report((), EXTENT, ("dispatcher", "x"))):
        view = build_errors(log, MAIL, report=report)
        yield f"summary: {describe(view.build_summary())} {view.explain_empty_report()!r}"
        for width in (30, 60, 90, 110, 140):
            for refs in ((), (MAIL,)):
                view.refs = refs
                if report is not None:
                    yield f"  in {width}: {[side.plain for side in view.build_second_line(width)]}"
    for cursor in (None, GROUP.id, OTHER.id):
        for refs, is_partial in (((), False), ((MAIL,), False), ((MAIL,), True)):
            view = build_errors(log, MAIL, refs=refs, _is_report_partial=is_partial)
            view.table.cursor_id = cursor
            target = view.build_target()
            yield f"target {cursor} {len(refs)} {is_partial}: {target.ref} {target.place} {len(target.jobs)}"
        for has_preview, is_replay, example in (
            (False, False, None),
            (True, True, None),
            (True, False, None),
            (True, False, GROUP.example),
        ):
            view.has_preview, view.session.is_replay, view._example_job = has_preview, is_replay, example
            view._show_example_job()
            yield (
                f"  example {has_preview} {is_replay} {example is not None}: {take(log)} "
                f"{describe(view.query_one().border_title)}"
            )
            yield f"  focus {view.build_focus([MAIL]).job}"
        view.session.is_replay = False
        view.host.push_view = lambda pushed: log.append(f"push {type(pushed).__name__}")
        view.on_table_opened(None)
        yield f"  opened: {take(log)}"
        for done in (None, 0, 3):
            queues = () if done is None else (build_queue("mail", done=done), build_queue("news", done=done))
            view.session.snapshot = None if done is None else Snapshot(NOW_MS, queues)
            view.host.push_view = lambda pushed: log.append(f"{pushed._a.words} {pushed._a.label!r} {pushed._b.words}")
            for report in (None, REPORT, Report((replace(GROUP, refs=(MAIL,)), OTHER), EXTENT)):
                view.report = report
                view.action_compare()
                yield f"  compared {done} {report is REPORT}: {take(log)}"
    for step in (-1, 1):
        for width in Width:
            for report in (None, REPORT):
                view = silence(
                    build_errors(log, MAIL, width=width, report=report), "recompute", "_rebuild_rows", "_stop_report"
                )
                view.table.cursor_id = GROUP.id
                view._next_report_s = 5.0
                view.action_width(step)
                yield f"width {width} {step} {report is not None}: {take(log)} {view.width} {view._next_report_s}"
    for verb in ("requeue", "pause"):
        for cursor in (None, GROUP.id):
            view = build_errors(log, MAIL)
            view.table.cursor_id = cursor
            view._group_search = Actor(log, "search")
            yield f"verb {verb} {cursor}: {view.handle_verb(verbs.VERBS_BY_NAME[verb])} {take(log)[:40]}"
    for has_preview in (False, True):
        view = silence(build_errors(log, MAIL, has_preview=has_preview), "_show_example_job")
        view.on_table_moved(None)
        yield f"moved {has_preview}: {take(log)}"
    for stopped in (False, True):
        view = build_errors(log, MAIL, leave_findings=lambda: False, _report_request=4)
        view._group_search = Actor(log, "search", stop=lambda: stopped, build_progress=lambda: ["progress"] * stopped)
        yield f"Esc {stopped}: {view.step_back()} {describe(view.build_status())}"
        view.on_unmount()
        view.handle_acted_jobs(())
        yield f"  left: {take(log)} {view._report_request} {view._next_report_s}"
        view._next_report_s = 5.0
    for job, is_drawn in ((None, True), (JOB, False)):
        view = silence(
            build_errors(log, MAIL, is_drawn=is_drawn, _example_job=GROUP.example), "draw", "recompute", "_update_frame"
        )
        view._next_report_s, view._report_refs = float("inf"), [MAIL]
        view.show_snapshot(Snapshot(NOW_MS, job=job))
        view._update_frame_if_drawn()
        yield f"snapshot with {job is not None}: {take(log)} {view._example_job is JOB}"
    for length in (0, 1, 9, 10, 11, 26, 27):
        view = silence(
            build_errors(log, MAIL, report=Report((replace(GROUP, frame="f" * length),), EXTENT)), "_update_frame"
        )
        view._draw_rows_with_frames()
        yield f"frame of {length}: {view._frame_cells} {[line.partition('(')[0] for line in log]}"
        log.clear()
    view = silence(build_errors(log, MAIL), "_update_frame", "_show_example_job")
    view.draw()
    yield f"drawn: {[line.partition('(')[0] for line in log]}"
    log.clear()
    for width, report, is_replay in (
        (Width.CLASS, REPORT, False),
        (Width.CAUSE, None, False),
        (Width.CAUSE, REPORT, True),
        (Width.CAUSE, replace(REPORT, complete={MAIL: 2}), False),
    ):
        view = build_errors(log, MAIL, width=width, report=report)
        view.session.is_replay = is_replay
        view.apply_report()
        yield f"applied {width} {is_replay}: {len(view.session.largest_causes)} {describe(view.session.death_causes)}"
    recorded: Any = SimpleNamespace(
        at_ms=NOW_MS, causes=[ErrorCount(MAIL, 0, "Boom", 3), ErrorCount(NEWS, 0, "Oops", 2)]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors.errors, "yield_error_reports", lambda engine, refs, width: f"{engine} {refs} {width}")
        for state in (None, recorded):
            view = build_errors(log, MAIL)
            view.session.replay = state
            view.session.snapshot = Snapshot(NOW_MS, (build_queue("mail", dead=4),))
            report = view.build_report("engine")
            yield f"report {state is not None}: {report if state is None else [each.size for each in report]}"
    is_member = [errors._is_member(REPORT.grouping, ("Boom", "k"), replace(JOB, state=state)) for state in State]
    yield f"members: {is_member}"
    for previous, cursor, is_touched in (
        (None, GROUP.id, False),
        (GROUP, GROUP.id, False),
        (replace(GROUP, key=("old",)), "old", False),
        (replace(GROUP, key=("old",)), "old", True),
        (replace(GROUP, key=("old",)), GROUP.id, True),
    ):
        view = build_errors(log, MAIL, _last_group=previous)
        view.table.cursor_id, view.table.is_touched = cursor, is_touched
        view._keep_cursor_on_group()
        yield f"cursor on {cursor} {is_touched}: {take(log)} {view._last_group and view._last_group.id}"


# -- operations -------------------------------------------------------------------------------------------------------


OPERATION = Operation(NOW_MS, "me", "requeue", "mail", "native", (b"j1",), 3, {"moved": 2, "gone": 1}, undo=("u1",))


def build_operations(log: list[str], *own: Operation, **attributes: Any) -> Any:
    view = build_bare_view(log, Operations((MAIL,)), MAIL, **attributes)
    view.session.journal.operations = list(own)
    return view


def describe_operations() -> Iterator[str]:
    log: list[str] = []
    own = [
        replace(OPERATION, verb=verb) for verb in ("requeue", "requeue", "delete", "pause", "kill", "release", "purge")
    ]
    for number in (0, 1, 7):
        for is_replay, is_frozen in ((False, False), (True, False), (False, True)):
            for text in ("", "requeue MAIL", "nothing"):
                view = build_operations(
                    log, *own[:number], filter_text=text, is_frozen=is_frozen, _earlier_operations=[OPERATION]
                )
                view.session.is_replay = is_replay
                view.table.update = lambda rows: log.append(f"update {[(row.id[13:], row.style) for row in rows]}")
                view._draw_operations()
                yield f"{number} operations /{text} {is_replay} {is_frozen}: {take(log)}"
                view._draw_operations()
                assert take(log) == "nothing"
                view.show_snapshot(Snapshot(NOW_MS))
                view.on_resize(None)
                yield f"  then {take(log)} {[side.plain for side in view.build_second_line(80)]}"
                view._drawn_inputs = None
                view.show_snapshot(Snapshot(NOW_MS))
                yield f"  new {take(log) != 'nothing'}"
    for operation in (None, OPERATION, replace(OPERATION, queue="")):
        view = build_operations(log, find_selected_operation=lambda operation=operation: operation)
        view._show_operation_details()
        yield f"details: {take(log)} {describe(view.query_one().border_title)}"
        view._ambiguous_names = frozenset({"mail"})
        yield f"  named {view._format_queue_of_operation(operation) if operation else ''}"
    for undone, undo, problem in ((None, ("u",), ""), (NOW_MS, ("u",), ""), (None, (), "full")):
        view = build_operations(log, replace(OPERATION, undone_at_ms=undone, undo=undo))
        view.session.journal.problem = problem
        yield f"second line: {describe(view.build_second_line(80))}"
    for ids, count in (((), 0), ((b"a", b"b"), 2), ((b"a", b"b"), 3)):
        for profile, answers in (("", {}), ("eu", {"moved": 2, "gone": 12_345})):
            text = operations.format_operation(
                replace(OPERATION, ids=ids, count=count, profile=profile, answers=answers, error="x" * len(ids))
            )
            yield f"operation: {text.markup!r}"
    for row, is_drawn in (("k", True), ("x", False)):
        view = silence(
            build_operations(log, _operations_by_row={"k": OPERATION}, is_drawn=is_drawn), "_draw_operations"
        )
        view.app.push_screen = lambda page: log.append(type(page).__name__)
        view.on_table_opened(SimpleNamespace(id=row))
        view.on_table_moved(None)
        view.action_save()
        view._store_earlier_operations(SimpleNamespace(result=[1] if is_drawn else None))
        view.handle_acted_jobs(())
        view.apply_filter("x")
        yield f"keys on {row}: {take(log)} {view._earlier_operations} {view._drawn_inputs}"


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clock")
def test_lists_at_their_bounds_match_the_stored_text() -> None:
    parts = (
        describe_requested_workers, describe_worker_rows, describe_worker_keys, describe_event_requests,
        describe_event_snapshots, describe_event_details, describe_error_groups, describe_operations,
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
