"""What the overview counts, caches, sorts and shows at each bound: `overview_at_bounds.txt` has every line.

The methods are called without a screen (`support/bare_objects.py`).
`RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_overview_at_bounds.py` writes the text.
"""

# ruff: noqa: B023 (a function is called before its loop continues)
from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Actor, Bare, Size, describe, take
from kept_text import assert_lines_match_file
from text_snapshots import stopped_clock  # noqa: F401
from textual.content import Content

from rqtui.engine.dead_sample import DeadSample
from rqtui.errors import UsageError
from rqtui.model import Count, Finding, Focus, Job, Queue, Rate, RecentActivity, Ref, Snapshot, State, Verdict, Worker
from rqtui.reports.other_databases import OtherDatabase
from rqtui.systems import registry
from rqtui.tui.format import queues
from rqtui.tui.format.groups import QueueGroup
from rqtui.tui.format.rows import LazyCells, Row
from rqtui.tui.screens import overview
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets.queue_preview import DeathCause, DeathCauses

KEPT = Path(__file__).with_name("overview_at_bounds.txt")
NOW_MS = 1_800_000_000_000
SYSTEMS = {name: registry.create_system(name) for name in ("native", "rq", "dispatcher")}
EU, US, NEWS, JOBS = (Ref("native", name) for name in ("mail:eu", "mail:us", "news", "jobs"))
RQ_NEWS = Ref("rq", "news")
FAILING = Finding("failing", "critical", "news", "51 % fail", "look at the errors", key="e")
ENDING = replace(FAILING, until_ms=NOW_MS + 90_000)


def build_queue(name: str, *findings: Finding, dead: int = 0, ready: int = 0, **fields: Any) -> Queue:
    counts = (Count("ready", State.READY, ready), Count("dead", State.DEAD, dead))
    verdict = Verdict("critical", findings[0].text, until_ms=findings[0].until_ms) if findings else Verdict()
    return Queue(name, "native", counts, NOW_MS, workers=0, findings=findings, verdict=verdict, **fields)


def build_view(log: list[str], *refs: Ref, size: tuple[int, int] = (100, 24), **attributes: Any) -> Any:
    """Return an overview of these queues, of which the host, the table and the session write down what they do."""
    settings = SimpleNamespace(is_ascii=False, url="redis://here")
    session = Actor(
        log, "session", refs=list(refs), systems=SYSTEMS, ambiguous_names=frozenset(), death_causes={}, now_ms=NOW_MS,
        settings=settings, is_replay=False, demo=None, engine=None, changes=(), filters=[],
        last_focus=Focus(()), ticker=SimpleNamespace(wait_s=2.0), find_foreign_system_name=lambda _ref: "",
        list_recent_entries=lambda rows: log.append(f"recent {rows}") or [],
    )  # fmt: skip
    view = Overview()
    usual = {
        **{name: value for name, value in vars(view).items() if name in _OWN_NAMES},
        "session": session, "host": Actor(log, "host"), "app": Actor(log, "app", size=Size(*size)),
        "_table": Actor(log, "table", visible_range=(0, 2), rows=[], foot="", cursor_id=""),
        "has_preview": False, "is_large": False, "is_drawn": True, "is_frozen": False, "filter_text": "",
        "fit_table_height": lambda _table, rows: log.append(f"fit {rows} rows"),
        "_counters": Actor(log, "counters", is_awaited=lambda _ref: False, build_requests=lambda _ref: {},
                           find_history=lambda _ref: None),
    }  # fmt: skip
    return Bare(Overview, **{**usual, **attributes})


_OWN_NAMES = {
    "sort", "_terms", "_levels", "_unfolded", "_shared_prefix", "_has_long_names", "_named_refs", "_pruned_refs",
    "_has_shared", "_layout_inputs", "_drawn_items", "_counted_queues", "_row_signs", "_rates", "_active_refs",
    "_total_rate", "_match_count", "_prefixes", "_depths", "_labels", "_longest_label", "_longest_verdict",
    "_sort_keys", "_ordered_refs", "_items_by_id", "_cached_rows", "_table_rows", "_frozen_queues", "_frozen_s",
    "_next_position", "_overview_shape", "_recent_text", "_is_preview_ready", "_preview_timer", "_preview_inputs",
    "_preview_lines", "_now_ms", "_workers", "_requests", "_other_databases", "_has_searched_databases",
}  # fmt: skip


def number_refs(number: int) -> list[Ref]:
    return [Ref("native", f"q{at}") for at in range(number)]


def describe_layout() -> Iterator[str]:
    log: list[str] = []
    numbers = {name: value for name, value in vars(Overview()).items() if name in _OWN_NAMES and isinstance(value, int)}
    yield f"at first: {numbers}"
    view = build_view(log, EU, US, _fit_table=lambda: log.append("fit"), _cached_rows={"a": 1}, _table_rows={"a": 1})
    for title, change in (
        ("first", {}), ("same", {}), ("wider", {"app": SimpleNamespace(size=Size(200, 24))}), ("same", {}),
        ("label", {"_longest_label": 40}), ("verdict", {"_longest_verdict": 70}),
    ):  # fmt: skip
        vars(view).update(change)
        view._choose_columns()
        calls = ["columns" if "set_columns" in line else line for line in log]
        log.clear()
        yield f"columns, {title}: {calls} {view._cached_rows} {view._table_rows}"
        view._cached_rows = {}
    for height in (29, 30, 31):
        for has_preview in (False, True):
            for foot, terms, levels in (("", (), 0), ("legend", (), 0), ("", (1,), 0), ("", (), 1)):
                below = Actor(log, "below", display=False, has_class=lambda _name: False)
                view = build_view(
                    log, EU, US, NEWS, size=(100, height), has_preview=has_preview, query_one=lambda _name: below,
                    _terms=terms, _levels=levels, _items_by_id={"a": EU},
                )  # fmt: skip
                view._table.foot = foot
                view._fit_table()
                yield f"table in {height} rows, {has_preview} {foot} {terms} {levels}: {take(log)} {below.display}"
    for rows in (0, 1, 3):
        for is_shown in (True, False):
            notice = SimpleNamespace(display=is_shown, size=SimpleNamespace(height=rows))
            view = build_view(log, query_one=lambda *_: notice)
            yield f"notice of {rows} rows, {is_shown}: {view.count_note_rows()}"


def describe_requests() -> Iterator[str]:
    log: list[str] = []
    many = number_refs(200)
    rows = [Row(str(ref), ()) for ref in many[:6]]
    group = QueueGroup("q", tuple(many[20:170]))
    for position in (0, 130, 190):
        for items in ({str(ref): ref for ref in many}, {str(many[2]): group, str(many[3]): Ref("native", "left")}):
            view = build_view(log, *many, _items_by_id=items, _next_position=position)
            view._table.rows, view._table.visible_range = rows, (1, 5)
            counted = [int(ref.queue[1:]) for ref in view.build_focus(many).queues]
            yield f"counted from {position} of 200 with {len(items)} rows: {len(counted)} {counted}"
    for number in (0, 100, 101):
        counted_refs = build_view(log, *many[:number]).build_focus(many[:number]).queues
        yield f"counted of {number}: {len(counted_refs)}"
    view = build_view(log, *many)
    first = view._find_or_create_request(many[0], "workers", object)
    assert view._find_or_create_request(many[0], "workers", object) is first
    for at in range(1, 62):
        view._find_or_create_request(many[at], "workers", object)
        if at >= 58:
            yield f"requests after {at + 1} queues: {len(view._requests)} {next(iter(view._requests))[0]}"
    dead = {ref: build_queue(ref.queue, dead=at) for at, ref in enumerate(number_refs(13))}
    view = build_view(log, _counted_queues=dead)
    view.session.death_causes = {Ref("native", "q12"): 1}
    group = QueueGroup("q", (*dead, Ref("native", "uncounted")))
    yield f"dead of a group: {describe(view._sort_unsampled_first(group))}"
    for ref, is_large, number in ((EU, True, 2), (EU, False, 2), (EU, True, 0), (Ref("other", "a"), True, 2)):
        view = build_view(log, is_large=is_large, _counted_queues={ref: build_queue(ref.queue, dead=number)})
        yield f"dead of {ref} {is_large} {number}: {[*view._build_dead_sample_requests(ref)]} {[*view._requests]}"
    for title, item, changes in (
        ("nothing", None, {}),
        ("a queue", NEWS, {}),
        ("a queue without preview", NEWS, {"has_preview": False}),
        ("a queue at first", NEWS, {"_is_preview_ready": False}),
        ("a queue with workers", NEWS, {"_counted_queues": {NEWS: build_queue("news")._replace(workers=1)}}),
        ("an unknown system", Ref("other", "news"), {}),
        ("a group", QueueGroup("q", (EU, US)), {"_counted_queues": {US: build_queue("mail:us", dead=3)}}),
    ):
        usual: dict[str, Any] = {"has_preview": True, "_is_preview_ready": True, "is_large": True}
        view = build_view(log, **{**usual, **changes}, _find_selected_row=lambda item=item: item)
        view._counters = SimpleNamespace(build_requests=lambda ref: {"history": (str(ref),)})
        requests = view._build_preview_requests()
        yield f"preview of {title}: {sorted(requests)} {[key[1] for key in view._requests]}"


def describe_caches() -> Iterator[str]:
    log: list[str] = []
    workers = {ref: () for ref in number_refs(25)}
    for number in (19, 20, 21, 22):
        view = build_view(log, _workers=dict([*workers.items()][:number]), has_preview=True, _is_preview_ready=True)
        view._cache_preview_data(Snapshot(NOW_MS))
        yield f"workers of {number} queues: {len(view._workers)} {view._now_ms - NOW_MS} {next(iter(view._workers))}"
    for has_preview, is_ready in ((False, True), (True, False), (True, True)):
        view = build_view(log, has_preview=has_preview, _is_preview_ready=is_ready)
        log.clear()
        view._cache_preview_data(Snapshot(NOW_MS))
        yield f"cached with {has_preview} {is_ready}: {take(log)}"
    request = object()
    found = (Worker("w1", "news", NOW_MS, 1),)
    for result in (found, RuntimeError("away")):
        view = build_view(log, _requests={(NEWS, "workers"): request, (EU, "workers"): object()})
        view.session.last_focus = Focus((), requests={"workers": (request, object())})  # type: ignore[dict-item]
        view._cache_workers(Snapshot(NOW_MS, results={"workers": (result, found)}))
        yield f"workers of a reply: {describe({ref: len(each) for ref, each in view._workers.items()})}"
    job = Job(b"a", "news", "native", "dead", State.DEAD, b"a", error="Boom: no")
    sample = DeadSample(NEWS, 3, (((job,),),))
    view._cache_causes(Snapshot(NOW_MS, results={"dead": (sample, RuntimeError("away"))}))
    causes = view.session.death_causes[NEWS]
    yield f"causes of a reply: {causes.dead} {causes.read} {[cause.text for cause in causes.causes]}"


def describe_snapshots() -> Iterator[str]:
    log: list[str] = []

    def note(name: str) -> Any:
        return lambda *args: log.append(f"{name} {describe(args)}")

    heavy = {
        name: note(name)
        for name in ("_search_other_databases", "_choose_columns", "_cache_preview_data", "_sort_rows", "_draw_rows",
                     "call_after_refresh")
    }  # fmt: skip
    for number in (0, 2, 100, 101, 149):
        for changes in ({}, {"is_frozen": True}, {"_is_preview_ready": True}, {"_is_out_of_order": lambda *_: False}):
            refs = number_refs(number)
            gone = Ref("native", "gone")
            view = build_view(
                log, *refs, _counted_queues={gone: build_queue("gone")}, _rates={gone: Rate(1)}, _row_signs={gone: 1},
                _next_position=99, **{"_is_out_of_order": lambda *_: True, **heavy, **changes},
            )  # fmt: skip
            counted = [build_queue(ref.queue) for ref in refs[:2]]
            view.show_snapshot(Snapshot(NOW_MS, tuple(counted), rates={ref: Rate(1.0) for ref in refs[:2]}))
            calls = [line.split()[0] for line in log]
            log.clear()
            yield (
                f"snapshot of {number} {[*changes]}: {calls} {len(view._counted_queues)} {len(view._rates)} "
                f"{len(view._row_signs)} {view._next_position} {view._total_rate.in_s} {view._has_shared}"
            )
    for is_replay in (False, True):
        view = build_view(log, NEWS, Ref("dispatcher", "x"), **heavy)
        view.session.is_replay, view._drawn_items = is_replay, {}
        counted = (build_queue("news", FAILING), Queue("x", "dispatcher"))
        view.show_snapshot(Snapshot(NOW_MS, counted))
        lines = [line for line in log if "expect" in line]
        log.clear()
        yield f"replay {is_replay}: {lines} {view._drawn_items} {view._longest_verdict} {view._has_shared}"
        refs, pruned = view.session.refs, view._pruned_refs
        assert pruned is refs
        view._has_shared = 5
        view.show_snapshot(Snapshot(NOW_MS + 1))
        yield f"the same queues again: {view._has_shared}"
    for is_shared, is_from_events in ((False, False), (True, False), (False, True)):
        view = build_view(log, NEWS, **heavy)
        place = SYSTEMS["native"].places[0]._replace(is_shared=is_shared, is_from_events=is_from_events)
        view.session.systems = {"native": SimpleNamespace(places=(place,)), "rq": SimpleNamespace(places=(1,))}
        view.show_snapshot(Snapshot(NOW_MS))
        log.clear()
        yield f"places {is_shared} {is_from_events}: {view._has_shared}"
    for is_ready in (False, True):
        for is_drawn in (False, True):
            for has_preview in (False, True):
                view = build_view(
                    log, _is_preview_ready=is_ready, is_drawn=is_drawn, has_preview=has_preview,
                    _show_preview=note("preview"),
                )  # fmt: skip
                view._begin_preview()
                yield f"preview begins {is_ready} {is_drawn} {has_preview}: {take(log)} {view._is_preview_ready}"


def describe_rates() -> Iterator[str]:
    log: list[str] = []
    for title, rate in (
        ("idle", Rate(history=(0.0, 0.0))), ("in", Rate(in_s=1.0)), ("out", Rate(out_s=1.0)),
        ("past", Rate(history=(1.0,))), ("ended", Rate(recent=RecentActivity(60_000, completed=1))),
        ("failed", Rate(failed_s=1.0)),
    ):  # fmt: skip
        view = build_view(log, _rates={NEWS: rate, EU: Rate(2.0)}, _active_refs={EU, US})
        total = view._sum_active_rates({NEWS: rate})
        sums = total.in_s, total.out_s, total.history, total.window_ms
        yield f"rate {title}: {describe(view._active_refs)} {sums}"
        view._active_refs = {NEWS}
        view._sum_active_rates({NEWS: rate})
        yield f"rate {title} again: {describe(view._active_refs)}"
    total = build_view(log)._sum_active_rates(
        {NEWS: Rate(history=(0.0,), window_ms=5), EU: Rate(history=(0.0,) * 3, recent=RecentActivity(7), window_ms=9)}
    )
    yield f"idle total: {total.history} {total.recent.duration_ms} {total.window_ms}"
    rates = {NEWS: Rate(1.0, 2.0), EU: Rate(2.0, 0.5), US: Rate(0.0, 2.5)}
    counted = {US: build_queue("us", ready=4), EU: build_queue("eu", ready=5), JOBS: build_queue("jobs", ready=1)}
    view = build_view(log, _rates=rates, _counted_queues=counted)
    view._counted_queues[NEWS] = build_queue("news")
    yield f"without a rate: {describe(build_view(log, _counted_queues=counted).rank_by_activity([RQ_NEWS, NEWS, EU]))}"
    view._rates[Ref("native", "still")] = Rate()
    view._counted_queues[Ref("native", "still")] = build_queue("still")
    yield f"still: {describe(view.rank_by_activity([RQ_NEWS, Ref('native', 'still')]))}"
    yield f"by activity: {describe(view.rank_by_activity([RQ_NEWS, JOBS, EU, US, NEWS]))}"


def describe_order() -> Iterator[str]:
    log: list[str] = []
    for title, changes in (
        ("same", {}), ("groups", {"_levels": 1}), ("filter", {"_terms": (1,)}), ("more", {"_sort_keys": {NEWS: (1,)}}),
        ("moved", {"_compute_sort_key": lambda _ref: (2,)}),
    ):  # fmt: skip
        usual: dict[str, Any] = {"_sort_keys": {NEWS: (1,), EU: (1,)}, "_compute_sort_key": lambda _ref: (1,)}
        view = build_view(log, **{**usual, **changes})
        yield f"order, {title}: {view._is_out_of_order([NEWS, EU], [EU])} {view._is_out_of_order([NEWS, EU], [])}"
    long_names = [Ref("native", f"acme.production.{name}") for name in ("mail.eu", "mail.us", "orders")]
    for refs in ([EU, US, NEWS, RQ_NEWS], long_names, [Ref("native", "n" * 24)], [Ref("native", "n" * 25), NEWS]):
        for levels in (0, 1, 2):
            for width in (149, 150):
                view = build_view(log, *refs, size=(width, 24), _levels=levels)
                view.session.ambiguous_names = frozenset({"news"})
                view.sort = "name"
                view._unfolded = {"mail:", "acme.production."} if levels == 2 else set()
                view._fit_table = lambda: None
                view._sort_rows()
                view._cached_rows, view._table_rows = {"gone": 1, str(refs[0]): 1}, {"gone": 1, str(refs[0]): 1}
                view._sort_rows()
                labels = ["·".join(view._build_row_label(row_id)) for row_id in view._items_by_id]
                log.clear()
                yield (
                    f"rows of {levels} levels in {width}: {[*view._items_by_id]} {labels} {view._longest_label} "
                    f"{view._match_count} {view._has_long_names} {view._ordered_refs is None} {view._shared_prefix!r} "
                    f"{view._cached_rows} {view._table_rows}"
                )
    for changes in ({}, {"_levels": 1}, {"_terms": overview._parse_queue_filter("news")}):
        for refs in ((), (NEWS, EU)):
            view = build_view(log, *refs, _fit_table=lambda: None, **changes)
            view._sort_rows()
            log.clear()
            yield f"sorted {len(refs)} {[*changes]}: {view._ordered_refs is not None} {view._longest_label}"
    view = build_view(log, NEWS, EU, JOBS, _fit_table=lambda: None)
    view.sort = "ready"
    view._counted_queues = {ref: build_queue(ref.queue, ready=at) for at, ref in enumerate((NEWS, EU, JOBS))}
    view._sort_rows()
    yield f"by ready: {[*view._items_by_id]}"
    view._counted_queues[NEWS] = build_queue("news", ready=9)
    view._counted_queues[JOBS] = build_queue("jobs", ready=0)
    view._sort_rows([NEWS])
    yield f"by ready, only news counted: {[*view._items_by_id]}"
    view.session.refs = [NEWS, JOBS]
    view._sort_rows([NEWS])
    yield f"by ready, other queues: {[*view._items_by_id]}"
    view._has_long_names = view._cached_rows = "unchanged"
    view._update_shared_prefix([NEWS, JOBS])
    yield f"the same names: {view._has_long_names} {view._cached_rows}"
    view._counted_queues = {NEWS: build_queue("news", FAILING)}
    for expression in ("news", "native", "fail", "!news", "jobs news", "new !fail"):
        view._terms = overview._parse_queue_filter(expression)
        yield f"/{expression}: {view._matches_filter(NEWS)} {view._matches_filter(JOBS)}"
    for each in ("", "nothing", "err:x", "/[/", "news"):
        yield f"a queue matches /{each}: {view._matches_a_queue(each)}"
    yield f"complete: {sorted(view._find_complete_systems([NEWS, JOBS]))} {sorted(view._find_complete_systems([]))}"
    view.session.refs = [NEWS, RQ_NEWS]
    yield f"complete: {sorted(view._find_complete_systems([NEWS, JOBS, RQ_NEWS]))}"


def describe_rows() -> Iterator[str]:
    log: list[str] = []
    for number in (100, 101):
        refs = number_refs(number)
        view = build_view(log, *refs, _items_by_id={str(ref): ref for ref in refs}, _cells=lambda _id: ())
        view._build_cached_row = lambda row_id, _item: Row(row_id, ("built",))
        view._cached_rows = {"native:q1": 1, "native:q2": 1}
        built = [view._build_lazy_row(f"native:q{at}", refs[at], {"native:q1"}) for at in (1, 2)]
        group_row = view._build_lazy_row("g", QueueGroup("g", ()), {})
        kinds = ["lazy" if isinstance(row.cells, LazyCells) else "built" for row in (*built, group_row)]
        yield f"rows of {number} queues: {kinds} {[*view._cached_rows]} {view._build_cells('nothing')}"
    group = QueueGroup("mail:", (EU, US))
    view = build_view(log, EU, US, _counted_queues={EU: build_queue("mail:eu")}, _items_by_id={"g": group})
    first = view._find_or_build_row("g", group, {})
    view._counted_queues[US] = build_queue("mail:us", ready=3)
    assert view._find_or_build_row("g", group, {}) != first, "the sums have changed"
    for cached, listed in ((999, 1000), (1000, 1000), (1001, 1001), (3, 2), (2, 3)):
        for counted, is_drawn, levels in ((None, True, 0), ([NEWS], True, 0), ([NEWS], False, 0), ([NEWS], True, 1)):
            items = {str(ref): ref for ref in [NEWS, *number_refs(listed - 1)]}
            nothing: Any = {
                name: lambda *_: None
                for name in ("_show_warnings", "_fit_table", "_update_frame", "show_recent_activity", "_show_preview")
            }
            view = build_view(
                log, NEWS, _items_by_id=items, _drawn_items=items if is_drawn else {}, _levels=levels,
                _cached_rows={f"native:q{at}": 1 for at in range(cached)}, **nothing,
            )  # fmt: skip
            view._table.rows, view._table.visible_range = [Row("native:q0", ()), Row("native:q1", ())], (0, 1)
            view._table_rows = {row_id: Row(row_id, ()) for row_id in items}
            view._build_lazy_row = lambda row_id, *_: Row(f"new {row_id}", ())
            view._draw_rows(counted)
            calls = [line if len(line) < 99 else f"{line[:70]}… {line.count(',')}" for line in log]
            log.clear()
            title = f"drawn with {cached} of {listed}, {describe(counted)} {is_drawn} {levels}"
            yield f"{title}: {calls} {len(view._cached_rows)}"
    for until_ms in (None, 0):
        queue = build_queue("news")._replace(verdict=Verdict(until_ms=until_ms))
        view = build_view(log, _counted_queues={NEWS: queue}, _draw_rows=lambda refs: log.append(describe(refs)))
        view.update_countdowns()
        yield f"each second until {until_ms}: {take(log)}"
    queue = build_queue("news")._replace(counters={"in": 10, "out": 4})
    counted = {NEWS: queue._replace(counters={"in": 13, "out": 5}), EU: queue, US: queue}
    frozen = {NEWS: queue, EU: queue, JOBS: queue}
    for is_frozen in (False, True):
        view = build_view(log, is_frozen=is_frozen, _frozen_queues=frozen, _counted_queues=counted)
        for item in (None, NEWS, US, QueueGroup("m", (NEWS, EU, US))):
            yield f"since a freeze {is_frozen} {describe(item)}: {view._count_changes_since_freeze(item)}"
    for label, name in (("", "n" * 30), ("acme.", "x")):
        ref = Ref("native", label + name)
        view = build_view(log, ref, _counted_queues={ref: queue}, _items_by_id={str(ref): ref}, _shared_prefix=label)
        row = view._build_cached_row(str(ref), ref)
        yield f"row of {label}{name}: {describe(row.cells)}"
        assert view._build_cached_row(str(ref), ref) is row
        view._counted_queues = {ref: queue._replace(workers=7)}
        assert view._build_cached_row(str(ref), ref) is not row


def describe_frame() -> Iterator[str]:
    log: list[str] = []
    for number, wait_s in ((100, 99.0), (101, 1.5), (150, 1.5), (151, 1.5), (150, 20.0), (150, 20.0003)):
        view = build_view(log, *number_refs(number), _find_selected_row=lambda: None)
        view.session.ticker.wait_s = wait_s
        view._update_frame()
        yield f"frame of {number} queues every {wait_s} s: {view._compute_max_count_age_ms()} {take(log)}"
    counted = {NEWS: build_queue("news", FAILING), EU: build_queue("mail:eu")}
    for item in (None, NEWS, EU, QueueGroup("m", (NEWS, EU))):
        for changes in (
            {}, {"has_preview": True}, {"is_frozen": True, "filter_text": "x"}, {"_has_long_names": True},
            {"_has_long_names": True, "has_preview": True}, {"_overview_shape": queues.OverviewShape(is_narrow=True)},
        ):  # fmt: skip
            view = build_view(
                log, NEWS, EU, _counted_queues=counted, **changes, _find_selected_row=lambda item=item: item
            )
            view.session.find_foreign_system_name = lambda ref: "native" if ref == NEWS else ""
            view._update_frame()
            yield f"frame of {describe(item)} with {[*changes]}: {take(log)}"
    for is_large, has_class, height in ((False, False, 9), (False, True, 9), (True, False, 4), (True, False, 6)):
        pane = Actor(
            log, "pane", content_size=SimpleNamespace(width=40, height=height), has_class=lambda _name: has_class
        )
        view = build_view(log, is_large=is_large, query_one=lambda *_: pane, _recent_text=Content("old"))
        view.show_recent_activity()
        yield f"recent {is_large} {has_class} {height}: {take(log)}"
        view.show_recent_activity()
        yield f"recent again: {take(log)}"


def describe_warnings() -> Iterator[str]:
    log: list[str] = []
    database = OtherDatabase(1, 2, ("native",))
    engine = SimpleNamespace(unsupported_systems=(), systems=SYSTEMS)
    for refs in ((), (NEWS,)):
        for terms in ((), (1,)):
            for other in ((), (database,)):
                notice = Actor(log, "notice", display=None, content="")
                view = build_view(
                    log, *refs, _terms=terms, _other_databases=[*other],
                    query_one=lambda *_: notice,
                )  # fmt: skip
                view.session.engine = engine
                view._show_warnings()
                yield f"notice of {len(refs)} {terms} {len(other)}: {view._table.empty!r} {notice.display} {take(log)}"
    for engine in (
        None,
        SimpleNamespace(unsupported_systems=(), systems={"native": SimpleNamespace(other_prefixes=())}),
    ):
        notice = Actor(log, "notice", display=None, content="")
        view = build_view(log, NEWS, query_one=lambda *_: notice)
        view.session.engine = engine
        view._show_warnings()
        yield f"without other systems: {notice.display} {take(log)}"
    for shown, text in (("", ""), ("a", "a"), ("a", "b"), ("a", ""), ("", "a")):
        pane: Any = Actor(log, "pane", display=None, content=shown)
        overview._show_or_hide_text(pane, text)
        yield f"text {shown!r} then {text!r}: {pane.display} {take(log)}"
    for searched, demo, is_replay in (
        (False, None, False),
        (True, None, False),
        (False, 1, False),
        (False, None, True),
    ):
        view = build_view(log, _has_searched_databases=searched)
        view.session.demo, view.session.is_replay = demo, is_replay
        view._search_other_databases()
        yield f"other databases {searched} {demo} {is_replay}: {take(log)} {view._has_searched_databases}"
    stored: list[Any] = []
    view = build_view(log, _show_warnings=lambda: log.append("warnings"))
    view.session.run_steps = lambda _steps, store: stored.append(store)
    view._search_other_databases()
    for result, is_last, is_drawn in ((None, False, True), (1, True, True), (2, False, False), (3, False, True)):
        view.is_drawn = is_drawn
        stored[0](SimpleNamespace(result=result, is_last=is_last))
        yield f"found {result} {is_last} {is_drawn}: {view._other_databases} {take(log)}"


def describe_preview() -> Iterator[str]:
    log: list[str] = []
    for item in (None, NEWS, QueueGroup("m", (NEWS,))):
        for awaited in (False, True):
            for has_preview in (False, True):
                view = build_view(
                    log, has_preview=has_preview, _is_preview_ready=True, _find_selected_row=lambda item=item: item,
                    _show_preview=lambda: log.append("show"), _preview_timer=Actor(log, "timer"),
                    set_timer=lambda seconds, _call: log.append(f"wait {seconds}"),
                    _counters=SimpleNamespace(is_awaited=lambda _ref, awaited=awaited: awaited),
                )  # fmt: skip
                view._show_preview_when_read()
                yield f"moved to {describe(item)} {awaited} {has_preview}: {take(log)} {view._preview_timer}"
    counted = {
        NEWS: build_queue("news", FAILING, FAILING), EU: build_queue("mail:eu", dead=3), US: build_queue("mail:us"),
        Ref("native", "n" * 61): build_queue("n" * 61),
        RQ_NEWS: build_queue("news")._replace(counts=(Count("ready", State.READY, 1),)),
        JOBS: build_queue("jobs")._replace(error="broken"),
    }  # fmt: skip
    cause = DeathCause("e1", "Boom: no", "a.py:1", 3, NOW_MS - 90_000, NOW_MS - 60_000, "send")
    group = QueueGroup("mail:", (EU, US))
    for item in (None, *counted, group, Ref("native", "uncounted"), QueueGroup("x", (Ref("native", "uncounted"),))):
        panes = {name: Actor(log, name[1:], cursor=None) for name in ("#preview", "#causes")}
        view = build_view(
            log, *counted, has_preview=True, _is_preview_ready=True, _counted_queues=counted, _now_ms=NOW_MS + 7_500,
            query_one=lambda name, *_: panes[name], leave_findings=lambda: log.append("leave"),
            _find_selected_row=lambda item=item: item, _rates={EU: Rate(1.0)},
        )  # fmt: skip
        view.session.find_foreign_system_name = lambda ref: "rq" if ref == RQ_NEWS else ""
        view.session.death_causes = {EU: DeathCauses((cause,), 3, 2, NOW_MS)}
        view._show_preview()
        yield f"titles of {describe(item)}: {take(log)}"
        lines = view._build_preview_lines(60, 12)
        yield from (f"  {line.plain}" for line in lines)
        yield from (f"  cause: {line.plain}" for line in view._build_cause_lines(40, 6))
        seen = view._preview_inputs[0] if view._preview_inputs else None
        seen_ms = seen and (seen.now_ms - NOW_MS, seen.queue.counted_ms)
        findings = [view._find_finding_in_preview(y) is not None for y in range(len(lines) + 2)]
        yield f"  at {seen_ms} {findings}"
        assert not view._preview_inputs or view._build_preview_lines(60, 12) is lines
    view = build_view(
        log, _counted_queues={NEWS: build_queue("news", ENDING)}, _is_preview_ready=True, _now_ms=NOW_MS + 7_501,
        query_one=lambda *_: SimpleNamespace(cursor=None), _find_selected_row=lambda: NEWS,
    )  # fmt: skip
    view.session.changes = (SimpleNamespace(ref=EU),)
    view._build_preview_lines(60, 12)
    yield f"with a countdown: {view._preview_inputs[0].now_ms - NOW_MS} {view._preview_inputs[0].changes}"
    for has_preview, is_ready in ((False, True), (True, False)):
        view.has_preview, view._is_preview_ready = has_preview, is_ready
        view._show_preview()
        yield f"no preview {has_preview} {is_ready}: {take(log)}"
    yield f"not ready: {view._build_preview_lines(60, 12)}"


def describe_keys() -> Iterator[str]:
    log: list[str] = []
    for changes in (
        {}, {"_levels": 2}, {"_shared_prefix": "acme."}, {"filter_text": "x", "_match_count": 1},
        {"_shared_prefix": "acme.production.of.a.long.name."}, {"is_frozen": True, "_frozen_s": time.time() - 59.97},
        {"is_frozen": True, "_frozen_s": time.time() - 60.0},
    ):  # fmt: skip
        for width in (30, 60, 70, 75, 80, 90, 100, 120):
            view = build_view(log, EU, US, **changes, _total_rate=Rate(1.5, 2.5))
            left, right = view.build_second_line(width)
            yield f"second line of {width} with {[*changes]}: {left.plain!r} {right.plain!r}"
    refs = [Ref("native", name) for name in ("a.b.c", "a.b.d", "a.e.f", "g")]
    view = build_view(log, *refs, _fit_table=lambda: None, _draw_rows=lambda: log.append("draw"))
    view._choose_columns = lambda: None
    view._sort_rows()
    for cursor in ("native:a.b.c", "a.", "a.b.", "native:g"):
        for levels in (0, 1, 2):
            view._levels = levels
            view._unfolded = {"a.", "a.b."} if levels == 2 else set()
            view._sort_rows()
            view._table.cursor_id = next((key for key in view._items_by_id if key.endswith(cursor)), cursor)
            log.clear()
            view.action_group()
            yield f"grouped from {levels} on {cursor}: {view._levels} {sorted(view._unfolded)} {take(log)}"
    view._levels, view._unfolded = 1, {"a.", "a.b."}
    view._sort_rows()
    view._table.cursor_id = "native:a.b.c"
    log.clear()
    view.action_group()
    yield f"grouped deeper: {[*view._items_by_id]} {take(log)}"
    view = build_view(log, NEWS, JOBS, _sort_and_draw=lambda: log.append("draw"), _find_selected_row=lambda: None)
    for _time in range(3):
        view.action_group()
        yield f"grouped without common names: {view._levels} {take(log)}"
    two = build_queue("news", Finding("late", "warning", "news", "late", key="w"), FAILING)
    for column, ref, queue in (
        ("verdict", NEWS, two), ("verdict", None, two), ("verdict", NEWS, None), ("verdict", NEWS, build_queue("news")),
        ("ready", NEWS, two), ("verdict", NEWS, build_queue("news", replace(FAILING, key=""), FAILING)),
        ("verdict", NEWS, build_queue("news", replace(FAILING, key="", remedy="see w"), FAILING)),
    ):  # fmt: skip
        view = build_view(log, ref=lambda: ref, _counted_queues={NEWS: queue} if queue else {})
        view.on_table_cell_clicked(SimpleNamespace(column=column))
        yield f"clicked {column} {ref} {queue and len(queue.findings)}: {take(log)}"
    for refs in ((), (NEWS,)):
        for expression in ("", "news", "nothing"):
            view = build_view(log, *refs, _sort_and_draw=lambda: log.append("draw"), _focused_before=None)
            view.filter_line = Actor(log, "line")
            yield f"confirmed /{expression} of {len(refs)}: {view.confirm_filter(expression)} {take(log)}"
    for number in (100, 101):
        for has_preview in (False, True):
            view = build_view(log, *number_refs(number), has_preview=has_preview)
            vars(view).update({name: lambda: None for name in ("_sort_rows", "_draw_rows", "_update_frame")})
            view._show_preview_when_read = lambda: None
            view._sort_and_draw()
            yield f"sorted {number}: {take(log)}"
            view.on_table_moved(None)
            yield f"moved in {number} {has_preview}: {take(log)}"
    for item in (None, NEWS, QueueGroup("mail:", (EU,))):
        for focusable, has_preview, left in (
            (True, True, False),
            (True, False, False),
            (False, True, False),
            (True, True, True),
        ):
            pane = SimpleNamespace(focusable=focusable)
            view = build_view(
                log, has_preview=has_preview, leave_findings=lambda left=left: left, query_one=lambda *_: pane,
                set_focus=lambda _pane: log.append("focus"), _find_selected_row=lambda item=item: item,
            )  # fmt: skip
            view.action_findings()
            yield f"findings of {describe(item)} {focusable} {has_preview} {left}: {take(log)}"
        view = build_view(log, _find_selected_row=lambda item=item: item, _sort_and_draw=lambda: log.append("draw"))
        view._unfolded = set()
        view.on_table_opened(None)
        yield f"opened {describe(item)}: {take(log)} {view._unfolded} {describe(view.list_scope_queues())} {view.ref()}"
        view.on_table_opened(None)
        yield f"opened again: {take(log)} {view._unfolded}"
    for selected in (None, FAILING):
        for is_drawn in (False, True):
            view = build_view(log, is_drawn=is_drawn, find_selected_finding=lambda selected=selected: selected)
            view._show_preview = lambda: log.append("preview")
            view.on_finding_cursor_moved(None)
            yield f"cursor on a finding {selected is not None} {is_drawn}: {take(log)}"
    for expression in ("x", "err:x", ""):
        view = build_view(log, _sort_and_draw=lambda: log.append("draw"))
        try:
            view.apply_filter(expression)
        except UsageError as error:
            log.append(str(error))
        yield f"filter {expression}: {take(log)} {view.filter_text!r} {len(view._terms)}"
        view.preview_filter(expression)
        yield f"typed {expression}: {take(log)}"
    for is_dim in (False, True):
        view = build_view(log, query_one=lambda name: Actor(log, name))
        view.set_dimmed(is_dim)
        yield f"dimmed {view._table.dimmed}: {take(log)}"


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clock")
def test_the_overview_at_its_bounds_matches_the_stored_text() -> None:
    parts = (
        describe_layout, describe_requests, describe_caches, describe_snapshots, describe_rates, describe_order,
        describe_rows, describe_frame, describe_warnings, describe_preview, describe_keys,
    )  # fmt: skip
    assert_lines_match_file((line for part in parts for line in (f"== {part.__name__[9:]}", *part())), KEPT)
