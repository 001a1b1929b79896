"""What parts of the screen decide from their state. A method gets the few attributes that it reads, and no screen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.errors import UsageError
from rqtui.model import Count, Finding, Job, Queue, Ref, State
from rqtui.reports.course import Mark
from rqtui.systems import registry
from rqtui.tui.app import Cockpit
from rqtui.tui.screens import board, board_borders, errors, job, metrics, overview, report_view
from rqtui.tui.services import (
    bulk_changes,
    frame_content,
    loops,
    rate_limited_changes,
    undo,
    verb_resolution,
    verb_starter,
    view_counts,
)
from rqtui.tui.session import Session
from rqtui.tui.target import Target
from rqtui.tui.widgets import filter_line, frame, pane, place_scan
from rqtui.tui.widgets.queue_preview import DeathCause, DeathCauses
from rqtui.verbs import VERBS_BY_NAME

MAIL, NEWS = Ref("native", "mail"), Ref("native", "news")
NATIVE = registry.create_system("native")
JOB = Job(b"a", "mail", "native", "ready", State.READY, b"a")


def build_state(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


@pytest.mark.parametrize(("loss", "failure"), [(None, None), ("lost", None), (None, "failed"), ("lost", "failed")])
def test_a_snapshot_is_outdated_after_a_lost_connection_or_a_failed_refresh(loss: object, failure: object) -> None:
    state = build_state(connection_loss=loss, refresh_failure=failure)
    assert Session.is_stale.fget(state) is bool(loss or failure)  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", ["dispatch", "reap"])
def test_a_loop_serves_first_the_queues_with_work_or_all_of_them_during_a_single_step(verb: str) -> None:
    queues = [Queue("mail", "native", overdue=1), Queue("news", "native", expired=1), Queue("idle", "native")]
    session = build_state(refs=[MAIL, NEWS], snapshot=build_state(queues=queues))
    for stepping, expected in (
        ([], {MAIL if verb == "dispatch" else NEWS}),
        ([("other", MAIL)], {MAIL if verb == "dispatch" else NEWS}),
        ([("other", MAIL), (verb, MAIL)], {MAIL, NEWS}),
    ):
        state = build_state(_stepping=stepping, _session=session)
        assert loops.Loops._find_urgent_queues(state, verb) == expected
    state = build_state(_stepping=[], _session=build_state(refs=[MAIL], snapshot=None))
    assert loops.Loops._find_urgent_queues(state, verb) == set()


@pytest.mark.parametrize(
    ("verb", "values", "problem"),
    [
        ("requeue", {}, ""),
        ("requeue", {"rate": 5.0}, ""),
        ("requeue", {"stop_at_depth": 5}, "cannot stop by itself"),
        ("reprioritise", {"priority": 5}, ""),
        ("reprioritise", {"priority": "much"}, "priority"),
        ("reschedule", {"delay_ms": 5_000.0, "rate": 5.0}, ""),
        ("reschedule", {"delay_ms": 5_000.0, "priority": 5, "rate": 5.0}, "fill in the fields of one"),
    ],
)
def test_the_values_of_a_question_are_checked_before_it_is_sent(
    verb: str, values: dict[str, Any], problem: str
) -> None:
    target = Target(MAIL, "ready", (JOB,), state=State.READY)
    selection = build_state(refs=(MAIL,), verb=VERBS_BY_NAME[verb], target=target)
    state = build_state(_session=build_state(systems={"native": NATIVE}, snapshot=None))
    if not problem:
        bulk_changes.BulkChanges._validate_values(state, selection, values)
        return
    with pytest.raises(UsageError, match=problem):
        bulk_changes.BulkChanges._validate_values(state, selection, values)


@pytest.mark.parametrize(("job_filter", "is_loaded"), [(None, False), (False, False), (True, True)])
def test_a_filter_loads_bodies_only_if_it_reads_them(job_filter: bool | None, is_loaded: bool) -> None:
    state = build_state(job_filter=None if job_filter is None else build_state(needs_job_bodies=job_filter))
    assert pane.Pane.count_filter_bytes(state) == (pane.FILTER_BYTES if is_loaded else 0)


@pytest.mark.parametrize(("is_shown", "job"), [(True, JOB), (False, JOB), (True, None), (False, None)])
def test_a_board_loads_the_job_under_the_cursor_only_for_its_details(is_shown: bool, job: Job | None) -> None:
    state = build_state(
        find_current_pane=lambda: build_state(find_current_job=lambda: job),
        query_one=lambda _name: build_state(display=is_shown),
        _list_requested_panes=lambda: [],
        ref=MAIL,
    )
    assert board.Board.build_focus(state, []).job == ((MAIL, b"a") if is_shown and job else None)


@pytest.mark.parametrize(
    ("word", "paths"),
    [
        ("", ["user.id", "to", "Total"]), (".", ["user.id", "to", "Total"]), (".t", ["to", "Total"]),
        (".id", ["user.id"]), (".o", ["to", "Total"]), (".u", ["user.id"]), ("t", []), (".x", []),
    ],
)  # fmt: skip
def test_paths_that_begin_with_a_word_are_offered_before_those_that_contain_it(word: str, paths: list[str]) -> None:
    shown: list[list[str]] = []
    state = build_state(
        _paths_in_bodies=["user.id", "to", "Total"],
        _find_word_at_cursor=lambda: word,
        paths=build_state(show_completions=lambda found, _chosen: shown.append(found)),
    )
    filter_line.FilterLine._update_completions(state)
    assert shown == [paths]


@pytest.mark.parametrize(
    ("before", "word"), [("", ""), ("x .us", ".us"), ("!.us", ".us"), (".a .b", ".b"), ("name:", ""), ("x ", "")]
)
def test_the_word_at_the_cursor_is_the_last_one_without_its_negation(before: str, word: str) -> None:
    state = build_state(value=before + " more", cursor_position=len(before))
    assert filter_line.FilterLine._find_word_at_cursor(state) == word


@pytest.mark.parametrize(
    ("ages", "ready", "oldest_ms"), [([500, 900], 1, 900), ([None, 700], 1, 700), ([None], 0, 0), ([None], 1, None)]
)
def test_the_oldest_job_of_plotted_queues_has_age_0_only_if_no_job_is_ready(
    ages: list[int | None], ready: int, oldest_ms: int | None
) -> None:
    state = build_state(_samples=[], _previous_counters=None)
    counts = (Count("ready", State.READY, ready),)
    metrics.Metrics._add_sample(state, 1_000, [Queue("q", "native", counts, oldest_ready_ms=age) for age in ages])
    assert [(sample.at_ms, sample.oldest_ms) for sample in state._samples] == [(1_000, oldest_ms)]
    queue = Queue("q", "native", counts, counters={"in": 5, "out": 1})
    metrics.Metrics._add_sample(state, 1_000, [queue])
    assert len(state._samples) == 1, "a snapshot that was seen already adds no sample"
    metrics.Metrics._add_sample(state, 2_000, [queue])
    metrics.Metrics._add_sample(state, 4_000, [queue._replace(counters={"in": 9, "out": 0})])
    last = state._samples[-1]
    assert (last.in_s, last.out_s, last.failed_s) == (2.0, 0.0, None)


@pytest.mark.parametrize("number", [overview.MAX_COUNTED_AT_ONCE, overview.MAX_COUNTED_AT_ONCE + 1])
def test_an_overview_counts_all_queues_at_each_refresh_up_to_a_limit(number: int) -> None:
    refs = [Ref("native", f"q{at}") for at in range(number)]
    table = build_state(visible_range=(0, 0), rows=())
    state = build_state(_build_preview_requests=dict, _table=table, _items_by_id={}, _next_position=0)
    focus = overview.Overview.build_focus(state, refs)
    assert (len(focus.queues or ()) == number) == (number <= overview.MAX_COUNTED_AT_ONCE)


@pytest.mark.parametrize(
    ("dead", "known_dead", "is_large", "is_counted", "is_sampled"),
    [
        (9, None, True, True, True), (9, 9, True, True, False), (9, 5, True, True, True), (0, None, True, True, False),
        (9, None, False, True, False), (9, None, True, False, False),
    ],
)  # fmt: skip
def test_dead_jobs_are_sampled_for_a_preview_while_their_causes_are_unknown_or_outdated(
    dead: int, known_dead: int | None, is_large: bool, is_counted: bool, is_sampled: bool
) -> None:
    queue = Queue("mail", "native", (Count("dead", State.DEAD, dead),))
    states = {} if known_dead is None else {MAIL: build_state(dead=known_dead)}
    state = build_state(
        _counted_queues={MAIL: queue} if is_counted else {},
        session=build_state(systems={"native": NATIVE}, death_causes=states),
        is_large=is_large,
        _find_or_create_request=lambda _ref, _name, create: create(),
    )
    assert bool(overview.Overview._build_dead_sample_requests(state, MAIL)) is is_sampled


@pytest.mark.parametrize(
    ("is_read_only", "engine", "is_small", "has_verb", "is_lost", "verb", "works"),
    [
        (False, True, False, True, False, True, True), (True, True, False, True, False, True, False),
        (True, None, False, True, False, True, False), (False, None, False, True, False, True, None),
        (False, True, True, True, False, True, None), (False, True, False, False, False, True, False),
        (False, True, False, True, True, True, None), (False, True, False, True, False, None, None),
    ],
)  # fmt: skip
def test_the_key_of_a_verb_works_is_grey_or_is_hidden(
    is_read_only: bool, engine: object, is_small: bool, has_verb: bool, is_lost: bool, verb: object, works: bool | None
) -> None:
    session = build_state(
        is_read_only=is_read_only, engine=engine, connection_loss=is_lost, snapshot=build_state()
    )  # fmt: skip
    state = build_state(
        _session=session,
        _navigation=build_state(view=build_state(is_too_small=is_small)),
        _has_verb_on_key=lambda _key, _target: has_verb,
        find_verb_of_key=lambda _key, _target: verb,
    )
    assert verb_starter.VerbStarter.check_verb_key(state, "R", Target(MAIL)) is works


@pytest.mark.parametrize(
    ("is_gone", "expression", "is_finished", "words"),
    [
        (False, "", None, "nothing here"), (True, "", None, "no longer exists"), (False, "x", None, "Esc shows all"),
        (False, "x", False, "so far"), (False, "x", True, "Esc shows all"),
    ],
)  # fmt: skip
def test_an_empty_pane_explains_why_it_is_empty(
    is_gone: bool, expression: str, is_finished: bool | None, words: str
) -> None:
    state = build_state(
        page=None, is_queue_gone=is_gone, ref=MAIL, expression=expression, empty_text="nothing here",
        place=build_state(is_key_per_job=False),
        scan_result=None if is_finished is None else build_state(is_finished=is_finished),
    )  # fmt: skip
    assert words in pane.Pane._explain_empty_pane(state, 0)


@pytest.mark.parametrize(
    ("total", "has_more", "has_filter", "has_result", "is_too_long"),
    [
        (pane.MAX_LIVE_JOBS, False, True, False, False), (pane.MAX_LIVE_JOBS + 1, False, True, False, True),
        (1, True, True, False, True), (1, True, False, False, False), (1, True, True, True, False),
        (None, True, True, False, False),
    ],
)  # fmt: skip
def test_a_filter_needs_a_scan_of_a_place_with_too_many_jobs(
    total: int | None, has_more: bool, has_filter: bool, has_result: bool, is_too_long: bool
) -> None:
    state = build_state(
        page=None if total is None else build_state(total=total), has_more=has_more,
        job_filter=object() if has_filter else None, scan_result=object() if has_result else None,
    )  # fmt: skip
    assert pane.Pane.is_too_long.fget(state) is is_too_long  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_drawn", [True, False, None])
def test_each_second_updates_a_view_only_after_it_was_drawn(is_drawn: bool | None) -> None:
    updated: list[str] = []
    view = None if is_drawn is None else build_state(
        is_drawn=is_drawn,
        show_recent_activity=lambda: updated.append("activity"),
        update_countdowns=lambda: updated.append("countdowns"),
    )  # fmt: skip
    state = build_state(
        demo=None, slow_link=build_state(is_calm=False), session=build_state(connection_loss=None),
        show_header=lambda: None, navigation=build_state(view=view),
    )  # fmt: skip
    Cockpit._update_each_second(state)
    assert updated == (["activity", "countdowns"] if is_drawn else [])


@pytest.mark.parametrize(("cursor", "is_touched"), [("b", True), ("b", False), (None, True)])
def test_the_cursor_stays_on_its_error_when_the_column_of_source_lines_changes(
    monkeypatch: pytest.MonkeyPatch, cursor: str | None, is_touched: bool
) -> None:
    moves: list[str] = []
    table = build_state(
        cursor_id=cursor, is_touched=is_touched, move_to=moves.append, clear_rows=lambda: None,
        set_columns=lambda _columns: None,
    )  # fmt: skip
    view = errors.Errors.__new__(errors.Errors)
    monkeypatch.setattr(errors.Errors, "table", table)
    monkeypatch.setattr(report_view.ReportView, "draw", lambda _view: None)
    for name, value in (
        ("list_error_groups", lambda _view: [build_state(frame="charge.py:88")]),
        ("build_columns", lambda _view: ()),
        ("_keep_cursor_on_group", lambda _view: None),
    ):
        monkeypatch.setattr(errors.Errors, name, value)
    view._frame_cells = 0
    errors.Errors._draw_rows_with_frames(view)
    assert moves == ([cursor] if cursor and is_touched else []) and view._frame_cells > 0


@pytest.mark.parametrize(("total", "is_shown"), [(500, False), (501, True)])
def test_only_a_long_undo_shows_its_progress_and_can_be_stopped(total: int, *, is_shown: bool) -> None:
    running = build_state(
        total=total, outcomes=[1] * 3, operation=build_state(verb="delete"), request=7, is_stopped=False
    )
    stopped: list[int] = []
    state = build_state(_running=running, _session=build_state(stop_steps=stopped.append))
    progress = undo.Undo.format_progress(state)
    assert (progress is not None and "undo of delete" in progress.plain) is is_shown
    assert undo.Undo.stop_undo(state) is is_shown and stopped == [7] and running.is_stopped
    assert undo.Undo.format_progress(build_state(_running=None)) is None


@pytest.mark.parametrize(("system_name", "offers"), [("native", True), ("dispatcher", False)])
def test_a_copy_offers_to_delete_its_original_where_jobs_can_be_deleted(system_name: str, *, offers: bool) -> None:
    system = registry.create_system(system_name)
    if not offers:
        system = build_state(
            scripts=system.scripts, can=lambda verb: verb != "delete", has_json_bodies=False, body_template=""
        )
    fields = verb_resolution.list_form_fields(system, VERBS_BY_NAME["edit and retry"])
    assert ("delete_original" in {field.name for field in fields}) is offers


@pytest.mark.parametrize(
    ("position", "subtitle"),
    [((0, 0), " /a[b not found "), ((1, 1), " /a[b 1 of 1 "), ((1, 2), " /a[b 1 of 2: n next ")],
)
def test_the_frame_of_a_body_names_the_match_and_the_key_to_the_next_one(
    position: tuple[int, int], subtitle: str
) -> None:
    pane = build_state(border_title=None, border_subtitle=None)
    page = build_state(
        query_one=lambda *_: pane, _viewer="", _encoding="json", job=JOB, _match_position=position, filter_text="a[b"
    )
    job.JobPage._update_body_frame(page)
    assert pane.border_subtitle.plain == subtitle
    page.filter_text = ""
    job.JobPage._update_body_frame(page)
    assert pane.border_subtitle == ""


def test_the_jobs_that_a_search_found_are_those_that_are_still_in_the_place_as_read_last() -> None:
    first, second = replace(JOB, id=b"a", body=b"1"), replace(JOB, id=b"b", body=b"2")
    found = place_scan.ScanResult()
    found.add_step(place_scan.ScanStep(((0, first), (1, second)), 2, 2, False))
    present = found.list_present_jobs()
    found.update_job(b"a", "ready", first)
    found.update_job(b"other", "ready", None)
    assert found.list_present_jobs() is present, "nothing changed"
    leased = replace(first, token=b"7", body=None)
    found.update_job(b"a", "ready", leased)
    assert found.list_present_jobs() == (replace(leased, body=b"1"), second)
    found.update_job(b"a", "ready", None)
    assert found.list_present_jobs() == (second,) and found.left_places == {b"a": ""}
    found.update_job(b"a", "ready", leased)
    assert [each.id for each in found.list_present_jobs()] == [b"a", b"b"]


@pytest.mark.parametrize("is_current", [True, False])
def test_only_the_session_on_the_screen_reports_a_lost_connection(*, is_current: bool) -> None:
    calls: list[str] = []
    session = build_state(connection_loss=None, refresh_failure="old")
    app = build_state(
        session=session,
        _update_clock_timer=lambda: calls.append("clock"),
        navigation=build_state(list_drawable_views=list),
        connection_lost=build_state(show_connection_diagnosis=lambda: calls.append("diagnosis")),
        show_header=lambda: calls.append("header"),
        show_keys=lambda: calls.append("keys"),
    )
    Cockpit.on_lost(app, build_state(session=session if is_current else build_state(), event="lost"))
    expected = ("lost", None, ["clock", "diagnosis", "header", "keys"]) if is_current else (None, "old", [])
    assert (session.connection_loss, session.refresh_failure, calls) == expected


@pytest.mark.parametrize(
    ("column", "key", "remedy", "done"),
    [
        ("verdict", "w", "", ["key w"]),
        ("verdict", "", "see w", ["key w"]),
        ("verdict", "P", "", ["board mail"]),
        ("ready", "w", "", []),
    ],
)
def test_a_click_on_a_verdict_opens_the_view_that_its_finding_names_else_the_board(
    column: str, key: str, remedy: str, done: list[str]
) -> None:
    opened: list[str] = []
    queue = Queue("mail", "native", findings=(Finding("failing", "warning", "mail", "fails", remedy, key=key),))
    state = build_state(
        ref=lambda: MAIL,
        _counted_queues={MAIL: queue},
        app=build_state(simulate_key=lambda pressed: opened.append(f"key {pressed}")),
        host=build_state(open_board=lambda ref: opened.append(f"board {ref.queue}")),
    )
    overview.Overview.on_table_cell_clicked(state, build_state(column=column))
    assert opened == done


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_stopped_change_requests_no_further_step_and_ends_after_the_current_one(*, is_waiting: bool) -> None:
    done: list[str] = []
    change = build_state(
        is_stopped=False, is_waiting=is_waiting, timer=build_state(stop=lambda: done.append("timer stopped"))
    )
    state = build_state(_change=change, _finish_change=lambda *_: done.append("finished"))
    assert rate_limited_changes.RateLimitedChanges.stop_change(state) and change.is_stopped
    assert done == ["timer stopped", *([] if is_waiting else ["finished"])]
    assert not rate_limited_changes.RateLimitedChanges.stop_change(build_state(_change=None))


@pytest.mark.parametrize(("width", "name"), [(16, "ready"), (17, "rea…"), (18, "ready"), (40, "ready")])
def test_the_name_of_a_place_in_a_frame_is_cut_where_four_letters_fit(width: int, name: str) -> None:
    size = build_state(width=width)
    state = build_state(place=NATIVE.place("ready"), outer_size=size, size=size, expression="", job_filter=None)
    title = board_borders.build_pane_title(2, state, Queue("mail", "native", (Count("ready", State.READY, 10),)))
    assert name in [piece.text for piece in title]


@pytest.mark.parametrize(("width", "is_high", "is_used"), [(111, True, True), (112, True, False), (112, False, True)])
def test_the_key_of_the_views_is_in_the_footer_where_the_header_has_no_room_for_their_names(
    width: int, is_high: bool, is_used: bool
) -> None:
    state = build_state(
        _session=build_state(is_replay=False),
        _navigation=build_state(view=build_state(is_high=is_high)),
        _host=build_state(app=build_state(size=build_state(width=width))),
    )
    assert frame.VIEW_NAMES_FROM_CELLS == 112
    assert frame_content.FrameContent._is_general_key_usable(state, build_state(id="views")) is is_used


def test_the_marks_of_a_plot_are_those_from_its_start_to_before_its_end() -> None:
    drawn: list[tuple[Any, ...]] = []
    plot = build_state(show_chart=lambda *values: drawn.append(values))
    marks = [Mark(99, "finding", ""), Mark(100, "change", ""), Mark(199, "change", ""), Mark(200, "finding", "")]
    host = build_state(show_header=lambda: None, show_keys=lambda: None)
    state = build_state(_list_marks=lambda _begin, _end: marks, query=lambda _widgets: [plot, plot], host=host)
    metrics.Metrics._show_charts(state, [metrics.Chart("out", note="a note"), metrics.Chart("depth")], 100, 200)
    assert [(chart.title, chart.note) for chart, *_rest in drawn] == [("out", "a note · ◆ change"), ("depth", "")]
    assert [rest[-1] for _chart, *rest in drawn] == [marks[1:3]] * 2


def test_an_overview_that_is_resized_is_drawn_at_once() -> None:
    done: list[str] = []
    state = build_state(_choose_columns=lambda: done.append("columns"), _draw_rows=lambda: done.append("rows"))
    overview.Overview.on_resize(state, build_state())
    assert done == ["columns", "rows"]


def build_causes(dead: int, *ids: str, read: int | None = None, retrying: int | None = None) -> DeathCauses:
    causes = tuple(DeathCause(id, id, "", 1, None, None, "") for id in ids)
    return DeathCauses(causes, dead, dead if read is None else read, retrying=retrying)


@pytest.mark.parametrize(
    ("dead", "scheduled", "causes", "expected"),
    [
        ((0, 0), 0, {}, (0, False)),
        ((3, 4), 0, {}, None),
        ((3, 4), 0, {MAIL: build_causes(3, "a"), NEWS: build_causes(4, "a", "b")}, (2, False)),
        ((3, 4), 0, {MAIL: build_causes(3, "a")}, (1, True)),
        ((3, 4), 0, {MAIL: build_causes(3, "a"), NEWS: build_causes(4, "b", read=2)}, (2, True)),
        ((3, 0), 0, {MAIL: build_causes(3, "a"), NEWS: build_causes(4, "b")}, (1, False)),
        ((300, 0), 0, {MAIL: build_causes(3, "a")}, (1, True)),
        ((3, 0), 1, {MAIL: build_causes(3, "a")}, (1, True)),
        ((3, 0), 1, {MAIL: build_causes(3, "a", retrying=0)}, (1, False)),
    ],
)
def test_the_number_of_errors_is_a_lower_bound_unless_every_failed_job_was_read(
    dead: tuple[int, int], scheduled: int, causes: dict[Ref, DeathCauses], expected: tuple[int, bool] | None
) -> None:
    queues = {
        ref: Queue(
            ref.queue,
            ref.system,
            (Count("dead", State.DEAD, number), Count("scheduled", State.SCHEDULED, scheduled)),
        )
        for ref, number in zip((MAIL, NEWS), dead, strict=True)
    }
    session = build_state(latest_queues=queues, death_causes=causes, refs=(MAIL, NEWS))
    assert view_counts.count_view_rows("errors", session, ()) == expected
    assert view_counts.count_view_rows("errors", build_state(latest_queues={}, death_causes=causes), (MAIL,)) is None


@pytest.mark.parametrize(("has_result", "requested"), [(False, b"b"), (True, b"a")])
def test_marked_jobs_that_are_not_shown_are_requested(has_result: bool, requested: bytes) -> None:
    state = build_state(
        page=None,
        has_more=False,
        is_whole_place=False,
        scan_result="a result" if has_result else None,
        marks=[b"a", b"b"],
        _refresh_count=0,
        _list_visible_result_ids=lambda: (b"b",),
        _list_page_ids=lambda: {b"a"},
    )
    assert pane.Pane._list_next_marked_ids(state) == (requested,)
